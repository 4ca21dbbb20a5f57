//! Builds one side without a device. Says which files it is made of, and names everything that its verdicts follow
//! from, so that a side that is equal to a judged one need not run.

use super::arguments::refuse_misfits;
use super::event::{Event, Phase};
use super::plan::find_compiler;
use super::request::Request;
use build::Building;
use build::apart::FileRead;
use build::toolchain::Choice;
use check::cache::References;
use check::reference::user::HiddenFrom;
use config::Loaded;
use model::{Fault, Seen, UnitId};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::Result;

/// The result of building one side of a change.
pub struct Survey {
    /// The units that do not build or do not fit gates.yaml.
    pub broken: Vec<(UnitId, Fault)>,
    /// A digest of machine code, PTX, calls, inputs and references. `None` if some of it is unknown.
    pub identity: Option<String>,
    /// The files below the surveyed directory that the compiler read for kernels.
    pub kernels: BTreeSet<PathBuf>,
    /// The files below it that only references read.
    pub references: BTreeSet<PathBuf>,
}

/// Builds the units and the users' references of `head`. The files are those below `top`, relative to it.
///
/// # Errors
/// Environment, if there is no compiler or the machine fails.
pub fn survey(
    request: &Request,
    (head, top): (&Loaded, &Path),
    compiler: &Choice,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Survey> {
    let toolchain = find_compiler(request, compiler, cache, on)?;
    let plan = &head.plan;
    on(Event::Began {
        phase: Phase::Build,
        steps: plan.units.len() as u64,
    });
    let building = Building::new(&head.root, &toolchain, cache);
    let built = build::build_all(building, &plan.units, &|unit, _| {
        on(Event::Stepped {
            phase: Phase::Build,
            what: unit.id.to_string(),
        });
    })?;
    let units = plan.units.iter().map(|unit| unit.id.clone());
    let mut built: Vec<_> = units.zip(built).collect();
    refuse_misfits(plan, Some(&head.places), &mut built);
    let compiled = Some(toolchain.host_compiler.as_path());
    let references = References::open(&head.root, cache, compiled, HiddenFrom::default())?;
    let code: Option<Vec<_>> = built
        .iter()
        .map(|(unit, built)| {
            let facts = built.facts.got()?;
            Some((unit, &facts.identity, &facts.ptx))
        })
        .collect();
    let expected: Option<Vec<_>> = plan
        .cases
        .iter()
        .flat_map(|case| case.seeds.iter().map(move |seed| (case, *seed)))
        .map(|(case, seed)| references.names(case, seed).ok())
        .collect();
    let identity = code.zip(expected).map(|(code, expected)| {
        let all = json!({ "code": code, "cases": plan.cases, "expected": expected });
        blake3::hash(all.to_string().as_bytes())
            .to_hex()
            .to_string()
    });
    let top = top.canonicalize().unwrap_or_else(|_| top.to_owned());
    let below = |read: &FileRead| read.real.strip_prefix(&top).ok().map(Path::to_owned);
    let kernels: BTreeSet<_> = built
        .iter()
        .flat_map(|(_, built)| built.read.iter().filter_map(below))
        .collect();
    let references = references.reads().files;
    Ok(Survey {
        references: references
            .keys()
            .filter_map(below)
            .filter(|file| !kernels.contains(file))
            .collect(),
        kernels,
        broken: built
            .into_iter()
            .filter_map(|(unit, built)| match built.facts {
                Seen::Fault(fault) => Some((unit, fault)),
                Seen::Got(_) | Seen::Unsupported(_) | Seen::NotRun(_) => None,
            })
            .collect(),
        identity,
    })
}
