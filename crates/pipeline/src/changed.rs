//! Finds the kernels that differ from another revision's, which `run --changed` runs. A kernel is unchanged only if
//! this is known: what gates.yaml asks of it, its baselines and its references are the same, and the build cache has
//! one artifact for the files of both sides.

use super::base;
use super::request::BaseSide;
use build::FoundArtifact;
use build::apart::{FileReader, Reads};
use build::toolchain::{self, Choice};
use check::cache::References;
use check::reference::user::HiddenFrom;
use config::Loaded;
use model::{Baseline, Gate, Plan};
use records::store;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};

/// Returns the names of head's kernels that differ from the base's or that the base lacks. Head is all of its
/// gates.yaml.
///
/// # Errors
/// Fails with an environment error if the cache cannot be read.
pub fn find_changed(head: &Loaded, found: &BaseSide, cache: &Cache) -> Result<BTreeSet<String>> {
    let all: BTreeSet<String> = head.all.iter().map(|id| id.kernel.clone()).collect();
    let (pin, accepted) = (&head.toolchain.cuda, config::load_acceptances(head)?);
    if found.compiler != Choice::pin(pin.as_deref()) || found.spec.accepted != accepted {
        return Ok(all);
    }
    // Without a compiler there is no key to the cache. The run then installs one, or says what is missing.
    let Ok(toolchain) = toolchain::find(pin.as_deref(), cache) else {
        return Ok(all);
    };
    let side = |root: &Path, plan, gates, baselines| {
        let compiler = Some(toolchain.host_compiler.as_path());
        Ok::<_, Error>(ComparedSide {
            plan,
            gates,
            baselines,
            artifacts: build::find_all(root, &toolchain, cache, &plan.units)?,
            references: References::open(root, cache, compiler, HiddenFrom::default())?,
        })
    };
    let (baselines, _) = store::load_baselines(&head.root)?;
    let ours = side(&head.root, &head.plan, &head.gates, &baselines)?;
    let base = &found.spec;
    let theirs = side(&found.root, &base.plan, &base.gates, &base.baselines)?;
    let is_changed = |kernel: &String| match (ours.state(kernel), theirs.state(kernel)) {
        (Some(ours), Some(theirs)) => ours != theirs,
        _ => true,
    };
    let changed = all
        .iter()
        .filter(|kernel| is_changed(kernel))
        .cloned()
        .collect();
    // A base that is made from head's files equals head, whatever the change did.
    let trees = base::trees(found, &[&toolchain], cache)?;
    Ok(match trees.find_crossing(&ours.reads(), &theirs.reads()) {
        Some(_) => all,
        None => changed,
    })
}

/// Head or the base, as they are compared.
struct ComparedSide<'a> {
    plan: &'a Plan,
    gates: &'a [Gate],
    baselines: &'a [Baseline],
    /// The artifacts of the plan's units, in their order.
    artifacts: Vec<Option<FoundArtifact>>,
    references: References,
}

impl ComparedSide<'_> {
    /// Returns the files that its units and its references were made from so far.
    fn reads(&self) -> Reads {
        let units = self.plan.units.iter().zip(&self.artifacts);
        let mut reads = self.references.reads();
        for (unit, found) in units.filter_map(|(unit, found)| Some((unit, found.as_ref()?))) {
            reads.note(&FileReader::Unit(unit.id.clone()), &found.read, None);
        }
        reads
    }

    /// Returns everything that a verdict on a kernel follows from, or `None` if some of it is unknown.
    fn state(&self, kernel: &str) -> Option<Value> {
        let units = self
            .plan
            .units
            .iter()
            .zip(&self.artifacts)
            .filter(|(unit, _)| unit.id.kernel == kernel)
            .map(|(unit, artifact)| Some((unit, &artifact.as_ref()?.artifact)));
        let cases = self
            .plan
            .cases
            .iter()
            .filter(|case| case.id.kernel == kernel)
            .map(|case| {
                Some((
                    case,
                    case.seeds
                        .iter()
                        .map(|seed| self.references.names(case, *seed).ok())
                        .collect::<Option<Vec<_>>>()?,
                ))
            });
        let gates = self
            .gates
            .iter()
            .filter(|gate| gate.subject.kernel() == kernel);
        let mut state = json!({
            "units": units.collect::<Option<Vec<_>>>()?,
            "cases": cases.collect::<Option<Vec<_>>>()?,
            "gates": gates.collect::<Vec<_>>(),
            "expected": self.plan.expected.iter().filter(|expectation| expectation.kernel == kernel).collect::<Vec<_>>(),
            "fallbacks": self.plan.fallbacks.iter().filter(|fallback| fallback.kernel == kernel).collect::<Vec<_>>(),
            "rivals": self.plan.rivals.iter().filter(|rival| rival.kernel == kernel).collect::<Vec<_>>(),
            "baselines": self.baselines.iter().filter(|baseline| baseline.kernel == kernel).collect::<Vec<_>>(),
            "timing": self.plan.timing,
            "simulation": self.plan.simulation,
        });
        forget_lines(&mut state);
        Some(state)
    }
}

/// Removes line numbers of declarations, which change with every line above them.
fn forget_lines(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("declared");
            fields.values_mut().for_each(forget_lines);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_lines),
        _ => {}
    }
}
