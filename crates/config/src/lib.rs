//! gates.yaml: resolves what was written (`raw`) into a plan and its gates, with every expression evaluated.
//!
//! The whole file is resolved before anything is selected, so a mistake is found whatever is run. Knows nothing of
//! compilers, devices or evidence. From the disk it needs only whether a path exists.
//!
//! A variant may only add to its kernel or replace something: its `gates` win metric by metric, and none can be taken
//! away. A limit on resources may be a mapping by architecture (all of them, or with a `default`), and any other limit
//! a mapping by shape (a shape that is not named has no such limit). A limit that refers to a variant outside the
//! selection does not select that variant; its value is judged as not run.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accepted;
mod apply;
mod architectures;
mod binaries;
mod call;
mod condition;
mod context;
mod defaults;
mod determinism;
mod disk;
mod expect;
mod fallback;
mod fill;
mod flags;
mod floats;
mod gates;
mod image;
mod kernel;
mod layout;
mod limit;
mod load;
mod loaded;
mod memory;
mod names;
mod outputs;
mod packed;
mod paths;
mod places;
mod programs;
mod raw;
mod reference;
mod rival;
mod scope;
mod select;
mod shape;
mod source;
mod target;
mod tensor;
mod tensor_map;
#[cfg(test)]
mod tests;
mod tree;
mod tune;
mod tuning;
mod variant;
mod written;
mod yaml;

pub use accepted::{load_acceptances, validate_acceptances};
pub use apply::{VariantChange, apply_variant};
pub use binaries::{BinaryGates, FileLimit, KernelLimits};
pub use defaults::{DEADLINE_NS, LAUNCHES, SIMULATION, pairing};
pub use floats::{BadFloatTolerance, FloatTolerance};
pub use kernel::ResolvedVariant;
pub use limit::ProgramLimit;
pub use limit::{parse_change, parse_margin};
pub use load::{find_above, load, load_in_tree, validate_text};
pub use loaded::{Loaded, ToolchainPin, Whole};
pub use outputs::{ProgramOutput, TypedLaunch, TypedTensor};
pub use places::{Owner, Places};
pub use programs::Program;
pub use select::{Selection, narrow, parse_filters};
pub use tune::{BadBudget, Budget, Tune};
pub use tuning::{Tuning, load_tuning};

use model::Schedule;
use source::Source;

/// Returns true if a text is a file of gates, by its content. Its name does not matter, nor whether it has mistakes.
pub fn is_gates(text: &str) -> bool {
    let source = Source::parse("", text);
    source.is_ok_and(|source| {
        source.has("version")
            && ["kernels", "binaries", "programs"]
                .into_iter()
                .any(|section| source.has(section))
    })
}

/// Returns how times are taken if there is no gates.yaml.
pub fn default_timing() -> Schedule {
    defaults::TIMING
}

/// Returns the JSON Schema of gates.yaml, for editors.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(raw::GatesFile).to_value();
    describe_alternatives(&mut schema);
    schema
}

/// Moves the description of each enum value to its key. Such a value is an object with one key, and schemars describes
/// the object, but editors show the description of the key.
fn describe_alternatives(schema: &mut serde_json::Value) {
    let Some(definitions) = schema
        .get_mut("$defs")
        .and_then(|schema| schema.as_object_mut())
    else {
        return;
    };
    let alternatives = definitions
        .values_mut()
        .filter_map(|definition| definition.get_mut("oneOf")?.as_array_mut());
    for alternative in alternatives.flatten() {
        let Some(description) = alternative.get("description").cloned() else {
            continue;
        };
        let properties = alternative.get_mut("properties");
        let keys = properties.and_then(|property| property.as_object_mut());
        for key in keys.into_iter().flat_map(|entries| entries.values_mut()) {
            if let Some(key) = key.as_object_mut() {
                key.entry("description")
                    .or_insert_with(|| description.clone());
            }
        }
    }
}
