//! Builds units that consist of several modules. Each module is built as a unit of its own, and a group is made from
//! the results.

use super::{Artifact, Built};
use model::{BuildFacts, Callable, Fault, FaultKind, ModuleEntry, Seen, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;
use system::error::{Error, Result};

/// Builds units, some of which are groups, in the given order. `built` builds units that are not groups.
///
/// # Errors
/// Returns the errors of `built`.
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

/// Returns the unit itself, or one unit for each module of a group.
fn modules_of(unit: &Unit) -> Vec<Unit> {
    let Callable::Together { modules, .. } = &unit.call else {
        return vec![unit.clone()];
    };
    modules
        .iter()
        .map(
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
        )
        .collect()
}

/// Joins the modules of a group. If a module was not built, the group has the fault of the first such module.
fn join(modules: Vec<Built>, steps: &[usize]) -> Built {
    let mut read = BTreeMap::new();
    for file in modules.iter().flat_map(|module| module.read.iter()) {
        read.insert(file.named.clone(), file.clone());
    }
    let (facts, artifact) = join_facts(&modules, steps);
    Built {
        facts,
        artifact,
        cached: modules.iter().all(|module| module.cached),
        millis: modules.iter().map(|module| module.millis).sum(),
        read: read.into_values().collect::<Arc<[_]>>(),
        unlisted: modules.iter().find_map(|module| module.unlisted.clone()),
    }
}

fn join_facts(modules: &[Built], steps: &[usize]) -> (Seen<BuildFacts>, Option<Artifact>) {
    let damaged = |message: &str| {
        let fault = Fault::new(FaultKind::Compile, message.to_owned());
        (Seen::Fault(fault), None)
    };
    let mut facts = Vec::new();
    let mut artifacts = Vec::new();
    for module in modules {
        match (&module.facts, &module.artifact) {
            (Seen::Got(got), Some(artifact @ Artifact::Cubin { .. })) if got.entries.len() == 1 => {
                facts.push(got);
                artifacts.push(artifact.clone());
            }
            (Seen::Got(_), _) => return damaged("a module of it has no machine code"),
            (seen, _) => return (seen.clone(), None),
        }
    }
    let called: Option<Vec<&BuildFacts>> = steps.iter().map(|at| facts.get(*at).copied()).collect();
    let Some(called) = called else {
        return damaged("a step of it has no module");
    };
    let digest = |of: fn(&BuildFacts) -> &str| {
        let mut hasher = blake3::Hasher::new();
        for module in &called {
            hasher.update(of(module).as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().to_string()
    };
    let joined = BuildFacts {
        artifact: digest(|file| &file.artifact),
        identity: digest(|file| &file.identity),
        ptx: None,
        entries: called
            .iter()
            .flat_map(|file| file.entries.clone())
            .collect(),
        constants: facts
            .iter()
            .flat_map(|fact| fact.constants.clone())
            .collect(),
        warnings: facts
            .iter()
            .flat_map(|fact| fact.warnings.clone())
            .collect(),
        mistyped: Vec::new(),
        kernels: None,
        missing: None,
    };
    let artifact = Artifact::Together {
        modules: artifacts,
        steps: steps.to_vec(),
    };
    (Seen::Got(joined), Some(artifact))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EntryFacts, LaunchBounds, UnitId};

    fn unit(variant: &str, call: Callable) -> Unit {
        Unit {
            id: UnitId::new("p", variant, "sm_90".parse().unwrap()),
            source: format!("{variant}.cubin"),
            include_dirs: Vec::new(),
            defines: BTreeMap::new(),
            flags: Vec::new(),
            call,
        }
    }

    fn entries(name: &str) -> Callable {
        Callable::Entries {
            names: vec![name.to_owned()],
            constants: Vec::new(),
        }
    }

    /// Returns a group of the kernels `a` and `b`.
    fn group(steps: &[usize]) -> Unit {
        let module = |name: &str| ModuleEntry {
            source: format!("{name}.cubin"),
            name: name.to_owned(),
            constants: Vec::new(),
        };
        unit(
            "region.x",
            Callable::Together {
                modules: vec![module("a"), module("b")],
                steps: steps.to_vec(),
            },
        )
    }

    /// Builds every unit except the unit `missing`.
    fn built(units: &[Unit], missing: &str) -> Vec<Built> {
        units
            .iter()
            .map(|unit| {
                let name = unit.call.names().concat();
                let is_missing = name == missing;
                let entry = EntryFacts {
                    name: name.clone(),
                    symbol: name.clone(),
                    resources: None,
                    bounds: LaunchBounds::default(),
                };
                Built {
                    facts: if is_missing {
                        Seen::Fault(Fault::new(FaultKind::Compile, "no cubin"))
                    } else {
                        Seen::Got(BuildFacts {
                            artifact: name.clone(),
                            identity: name.clone(),
                            ptx: None,
                            entries: vec![entry],
                            constants: Vec::new(),
                            warnings: Vec::new(),
                            mistyped: Vec::new(),
                            kernels: None,
                            missing: None,
                        })
                    },
                    artifact: (!is_missing).then(|| Artifact::Cubin {
                        path: unit.source.clone().into(),
                        entries: vec![(name.clone(), name.clone())],
                        ptx: None,
                        constants: Vec::new(),
                    }),
                    cached: false,
                    millis: 1,
                    read: Arc::default(),
                    unlisted: None,
                }
            })
            .collect()
    }

    fn build_all(units: &[Unit], missing: &str) -> Vec<Built> {
        let all = build(units, |alone| Ok(built(alone, missing)), &|_, _| {}).unwrap();
        assert_eq!(all.len(), units.len());
        all
    }

    #[test]
    fn a_group_has_the_entry_of_each_step_and_the_code_of_all() {
        let units = [
            unit("k", entries("k")),
            group(&[0, 1, 0]),
            unit("l", entries("l")),
        ];
        let all = build_all(&units, "");
        let names = |built: &Built| {
            let entries = built.artifact.as_ref().unwrap().entries();
            entries
                .into_iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&all[0]), ["k"]);
        assert_eq!(names(&all[1]), ["a", "b", "a"]);
        assert_eq!(names(&all[2]), ["l"]);
        let facts = all[1].facts.got().unwrap();
        assert_eq!(facts.entries.len(), 3);
        // Other launches are other code.
        let other = build_all(&[group(&[0, 1])], "");
        assert_ne!(other[0].facts.got().unwrap().identity, facts.identity);
        let same = build_all(&[group(&[0, 1, 0])], "");
        assert_eq!(same[0].facts.got().unwrap().identity, facts.identity);
    }

    #[test]
    fn a_group_of_which_a_module_is_not_built_is_not_built() {
        let all = build_all(&[group(&[0, 1]), unit("k", entries("k"))], "b");
        match &all[0].facts {
            Seen::Fault(fault) => assert_eq!(fault.message, "no cubin"),
            other => panic!("{other:?}"),
        }
        assert_eq!(all[0].artifact, None);
        assert!(all[1].artifact.is_some());
        let all = build_all(&[group(&[0, 2])], "");
        assert!(matches!(all[0].facts, Seen::Fault(_)));
    }
}
