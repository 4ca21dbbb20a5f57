//! Units of several modules: each module is built as a unit of its own, and a group is made of what comes of them.

use super::{Artifact, Built};
use model::{BuildFacts, Callable, Fault, FaultKind, ModuleEntry, Seen, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;
use system::error::{Error, Result};

/// Builds units of which some are groups, in the order given. `built` builds units that are none.
///
/// # Errors
/// As `built`.
pub fn build(
    units: &[Unit],
    built: impl FnOnce(&[Unit]) -> Result<Vec<Built>>,
    on_done: &(dyn Fn(&Unit, &Built) + Sync),
) -> Result<Vec<Built>> {
    let alone: Vec<Unit> = units.iter().flat_map(modules_of).collect();
    let mut parts = built(&alone)?.into_iter();
    let mut all = Vec::new();
    for unit in units {
        let built = match &unit.call {
            Callable::Together { modules, steps } => {
                join(parts.by_ref().take(modules.len()).collect(), steps)
            }
            _ => parts
                .next()
                .ok_or_else(|| Error::environment(format!("{}: nothing was compiled", unit.id)))?,
        };
        on_done(unit, &built);
        all.push(built);
    }
    Ok(all)
}

/// The unit itself, or one for each module of a group.
fn modules_of(unit: &Unit) -> Vec<Unit> {
    let Callable::Together { modules, .. } = &unit.call else {
        return vec![unit.clone()];
    };
    let modules = modules.iter();
    let alone = modules.map(
        |ModuleEntry {
             source,
             name,
             constants,
         }| Unit {
            source: source.clone(),
            call: Callable::Entries {
                names: vec![name.clone()],
                constants: constants.clone(),
            },
            ..unit.clone()
        },
    );
    alone.collect()
}

/// The first module that was not built says why the group was not.
fn join(modules: Vec<Built>, steps: &[usize]) -> Built {
    let mut read = BTreeMap::new();
    for file in modules.iter().flat_map(|it| it.read.iter()) {
        read.insert(file.named.clone(), file.clone());
    }
    let (facts, artifact) = match join_facts(&modules, steps) {
        Ok((facts, artifact)) => (Seen::Got(facts), Some(artifact)),
        Err(seen) => (seen, None),
    };
    Built {
        facts,
        artifact,
        cached: modules.iter().all(|it| it.cached),
        millis: modules.iter().map(|it| it.millis).sum(),
        read: read.into_values().collect::<Arc<[_]>>(),
        unlisted: modules.iter().find_map(|it| it.unlisted.clone()),
    }
}

fn join_facts(
    modules: &[Built],
    steps: &[usize],
) -> std::result::Result<(BuildFacts, Artifact), Seen<BuildFacts>> {
    let damaged = |message: &str| Seen::Fault(Fault::new(FaultKind::Compile, message.to_owned()));
    let mut facts = Vec::new();
    let mut artifacts = Vec::new();
    for module in modules {
        match (&module.facts, &module.artifact) {
            (Seen::Got(got), Some(artifact @ Artifact::Cubin { .. })) if got.entries.len() == 1 => {
                facts.push(got);
                artifacts.push(artifact.clone());
            }
            (Seen::Got(_), _) => return Err(damaged("a module of it has no machine code")),
            (seen, _) => return Err(seen.clone()),
        }
    }
    let mut entries = Vec::new();
    for at in steps {
        let module = facts
            .get(*at)
            .ok_or_else(|| damaged("a step of it has no module"))?;
        entries.extend(module.entries.iter().cloned());
    }
    let digest = |of: fn(&BuildFacts) -> &str| {
        let mut hasher = blake3::Hasher::new();
        for module in steps.iter().filter_map(|at| facts.get(*at)) {
            hasher.update(of(module).as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().to_string()
    };
    let joined = BuildFacts {
        artifact: digest(|it| &it.artifact),
        identity: digest(|it| &it.identity),
        ptx: None,
        entries,
        constants: facts.iter().flat_map(|it| it.constants.clone()).collect(),
        warnings: facts.iter().flat_map(|it| it.warnings.clone()).collect(),
        mistyped: Vec::new(),
        kernels: None,
    };
    let artifact = Artifact::Together {
        modules: artifacts,
        steps: steps.to_vec(),
    };
    Ok((joined, artifact))
}
