//! The revision that head is held against: its files, what it asks, and which of its kernels to build.

use crate::cache::Cache;
use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::{repo, store};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use verdict::model::{Base, Baseline, Loosening, Plan, Simulation, Unit};

/// What `run` was asked to compare with.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Any name that git knows.
    pub revision: String,
    pub loosening: Loosening,
    /// Time what did not change, too.
    pub unchanged: bool,
}

/// The base with its files, which stay as long as this does.
pub struct Found {
    pub tree: repo::Tree,
    pub base: Base,
}

/// # Errors
/// Usage, where there is no such revision or its gates.yaml cannot be read.
pub fn find(
    asked: &Asked,
    root: &Path,
    file: &str,
    head: &[Baseline],
    cache: &Cache,
) -> Result<Found> {
    let tree = repo::revision(root, &asked.revision, cache)?;
    let path = tree.root.join(file);
    let (plan, gates, accepted) = match path.is_file() {
        true => {
            let loaded = config::load(&path, &Selection::default());
            let loaded = loaded.map_err(|error| of_base(&error, &asked.revision))?;
            // What is broken there accepts nothing, and all of head's is new.
            let accepted = config::acceptances(&loaded).unwrap_or_default();
            (loaded.plan, loaded.gates, accepted)
        }
        // The change that brings gates.yaml has nothing to be held against: every case is new.
        false => (nothing(), Vec::new(), Vec::new()),
    };
    // What is broken there is not this change's doing.
    let (mut baselines, _) = store::load_baselines(&tree.root)?;
    baselines.retain(|theirs| !head.contains(theirs));
    Ok(Found {
        base: Base {
            revision: asked.revision.clone(),
            commit: tree.commit.clone(),
            plan,
            gates,
            baselines,
            accepted,
            loosening: asked.loosening,
        },
        tree,
    })
}

/// Those of the base's units that a timed case of head has to be compared with.
pub fn units(head: &Plan, base: &Plan) -> Vec<Unit> {
    let timed: HashSet<_> = head
        .cases
        .iter()
        .filter(|case| case.timed && base.case(&case.id).is_some())
        .map(|case| (&case.id.kernel, &case.id.variant))
        .collect();
    let units = base.units.iter();
    units
        .filter(|unit| timed.contains(&(&unit.id.kernel, &unit.id.variant)))
        .cloned()
        .collect()
}

fn nothing() -> Plan {
    Plan {
        units: Vec::new(),
        cases: Vec::new(),
        timing: config::default_timing(),
        simulation: Simulation { budget: 0 },
        pairing: None,
        left_out: BTreeSet::new(),
    }
}

fn of_base(error: &Error, revision: &str) -> Error {
    let Diagnostic {
        message,
        at,
        key,
        mut help,
    } = error.diagnostic().clone();
    help.push(
        "where this change mends the base, run without --base (`base: \"\"` of the action)"
            .to_owned(),
    );
    Error::Usage(Diagnostic {
        message: format!("of the base {revision}: {message}"),
        at,
        key,
        help,
    })
}
