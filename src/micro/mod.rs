//! `tune --rank`: a tile of attention, written for the purpose, in many configurations: which of them are right, and how
//! many cycles a query takes on each, by the GPU's own clock inside one launch.
//!
//! A configuration is a variant in a gates.yaml that is written here. It goes the way of every variant through
//! `pipeline`, and only one that holds every gate is asked for its cycles.

pub mod layout;
mod plan;
mod rank;
pub mod validity;

pub use plan::{MACROS, Sweep, read_block_k, read_block_m, read_stages, read_vec_width};
pub use rank::{Clocked, Dropped, Kept, Ranking};

use crate::revisions;
use build::Built;
use build::toolchain;
use config::Selection;
use model::{Arch, Conclusion, FaultKind, NotRun, Seen, Unit};
use pipeline::Profile;
use pipeline::event::{Event, Phase};
use run::device::DeviceChoice;
use run::worker::{ClockJob, Crew};
use system::cache::{self, Cache};
use system::error::{Error, Result};
use wording::reasons;

const SOURCE: &str = include_str!("tile.cu");

/// Where there is no GPU the sweep is checked for this one.
const WITHOUT_A_GPU: Arch = Arch {
    major: 9,
    minor: 0,
    suffix: None,
};

#[derive(Debug)]
pub struct Request {
    pub device: DeviceChoice,
    pub provision: bool,
    pub sweep: Sweep,
    /// The command line.
    pub command: String,
}

/// Builds, checks and clocks each configuration of the sweep.
///
/// # Errors
/// Usage, where the sweep holds nothing. Environment, where there is no compiler, or the device broke.
pub fn measure(request: &Request, cache: &Cache, on: &(dyn Fn(Event) + Sync)) -> Result<Ranking> {
    let configurations = request.sweep.configurations()?;
    let mut crew =
        Crew::new(request.device)?.on_waiting(|text| on(Event::Waiting(text.to_owned())));
    let device = match request.device {
        DeviceChoice::Sim => Seen::NotRun(NotRun::SimulatorAsked),
        _ => crew.device(),
    };
    crew.retire();
    let arch = match &device {
        Seen::Got(device) => device.arch(),
        Seen::NotRun(_) => WITHOUT_A_GPU,
        Seen::Fault(fault) => return Err(Error::environment(fault.message.clone())),
        Seen::Unsupported(why) => return Err(Error::environment(reasons::unsupported(why))),
    };

    let root = cache.dir("micro")?;
    cache::write_atomically(&root.join(plan::FILE), SOURCE.as_bytes())?;
    // Two sweeps at a time do not read each other's.
    let file = root.join(format!("gates-{}.yaml", std::process::id()));
    let text = plan::write_gates(&configurations, arch);
    cache::write_atomically(&file, text.as_bytes())?;
    let loaded = config::load(&file, &Selection::default());
    let _ = std::fs::remove_file(&file);
    let loaded = loaded?;
    let (units, cases) = (loaded.plan.units.clone(), loaded.plan.cases.clone());
    let pin = loaded.toolchain.cuda.clone();

    let asked = pipeline::Request {
        config: file,
        device: request.device,
        require_gpu: false,
        allow_fallback: false,
        provision: request.provision,
        profile: Profile::No,
        dump: None,
        fresh: false,
        simulate_beside_gpu: false,
        time_unchanged: false,
        rivals: false,
        shard: None,
        command: request.command.clone(),
    };
    let find_change = |head| revisions::find_change(None, head, cache, on);
    let record = pipeline::run(&asked, loaded, find_change, cache, on)?;
    let judgement = judge::judge(&record);
    let mut ranking = Ranking::new(&record);
    if judgement.conclusion == Conclusion::Environment {
        return Err(Error::environment(rank::of_environment(
            &record, &judgement,
        )));
    }
    let mut right = Vec::new();
    for configuration in configurations {
        match rank::find_broken(&configuration, &record, &judgement)? {
            Some(dropped) => ranking.dropped.push(dropped),
            None => right.push(configuration),
        }
    }
    let Seen::Got(facts) = &device else {
        ranking.unranked = right.into_iter().map(|it| it.values).collect();
        return Ok(ranking);
    };

    on(Event::Began {
        phase: Phase::Time,
        steps: right.len() as u64,
    });
    let toolchain = toolchain::find(pin.as_deref(), cache)?;
    for configuration in right {
        let name = configuration.name();
        let of_it = |unit: &&Unit| unit.id.variant == name;
        let case = cases.iter().find(|case| case.id.variant == name);
        let (Some(unit), Some(case)) = (units.iter().find(of_it), case) else {
            return Err(Error::environment(format!("{name} was lost")));
        };
        // From the cache: it was built for its check.
        let units = std::slice::from_ref(unit);
        let built = build::build_all(&root, None, &toolchain, cache, units, 1, &|_, _| {})?;
        let Some((kept, artifact)) = built.into_iter().next().and_then(|built| {
            let Built {
                facts: built,
                artifact,
                ..
            } = built;
            let kept = Kept::of(configuration, built.got()?, case, facts)?;
            Some((kept, artifact?))
        }) else {
            return Err(Error::environment(format!("{name} was not built again")));
        };
        let clocked = crew.clock(ClockJob {
            case: plan::clocked(case, kept.blocks),
            artifact,
            seed: plan::SEED,
            tensor: plan::CYCLES.to_owned(),
        });
        match clocked {
            Seen::Got(cycles) => ranking.take(kept, &cycles),
            Seen::Fault(fault) if fault.kind == FaultKind::Environment => {
                return Err(Error::environment(fault.message));
            }
            Seen::Fault(fault) => ranking.dropped.push(Dropped::by_fault(kept.values, &fault)),
            Seen::Unsupported(why) => return Err(Error::environment(reasons::unsupported(&why))),
            Seen::NotRun(why) => return Err(Error::environment(reasons::not_run(&why))),
        }
        on(Event::Stepped {
            phase: Phase::Time,
            what: name,
        });
    }
    crew.retire();
    ranking.sort();
    Ok(ranking)
}

#[cfg(test)]
mod tests;
