//! `calibrate`: times unchanged pairs and known slowdowns on this GPU, process after process, as a run would.
//! The figures that follow from the recording are counted in crates/calibration. `peaks` is for `doctor --peaks`.

mod case;
pub mod peaks;
mod slowdown;
mod tune;

use build::toolchain::{self, Toolchain};
use build::{Artifact, Built};
use calibration::{Bound, Change, Contest, Order, Process, Recording, Sides};
use config::Loaded;
use model::{
    Block, BlockOrder, Case, DeviceFacts, PairFacts, Pairing, Schedule, Seen, Singles, TimeFacts,
    Unit,
};
use pipeline::event::{Event, Phase};
use run::device::DeviceChoice;
use run::worker::{Arm, Crew, PairJob, TimeJob};
use slowdown::{Code, Kernel};
use std::collections::HashMap;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use wording::reasons;

/// The recordings to make.
#[derive(Clone, Debug)]
pub struct Request {
    pub device: DeviceChoice,
    /// Fresh processes, each of which measures every contest once.
    pub processes: u32,
    /// Times of one launch, in us.
    pub classes: Vec<u32>,
    pub changes: Vec<Change>,
}

/// The seed of orders and placements: one recording is one draw.
const SEED: u64 = 20_261_121;

struct Pair {
    name: String,
    bound: Bound,
    class_us: u32,
    change: Change,
    head: Side,
    base: Side,
}

#[derive(Clone)]
struct Side {
    case: Case,
    artifact: Artifact,
}

/// The kernels to time, each against itself.
pub enum Kernels<'a> {
    /// With a slowdown factor.
    BuiltIn,
    /// The cases of a gates.yaml, unchanged. Their samples, scaled, show the effect of a slowdown.
    Own(&'a Loaded),
}

/// # Errors
/// Environment, where there is no GPU, no compiler, or a kernel broke.
pub fn record(
    request: &Request,
    kernels: &Kernels<'_>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Recording> {
    let pin = match kernels {
        Kernels::BuiltIn => None,
        Kernels::Own(loaded) => loaded.toolchain.cuda.as_deref(),
    };
    let toolchain = toolchain::find(pin, cache)?;
    let mut crew =
        Crew::new(request.device)?.on_waiting(|text| on(Event::Waiting(text.to_owned())));
    let device = match crew.device() {
        Seen::Got(device) => device,
        Seen::Fault(fault) => return Err(Error::environment(fault.message)),
        Seen::Unsupported(why) => return Err(Error::environment(reasons::unsupported(&why))),
        Seen::NotRun(why) => {
            return Err(Error::environment(format!(
                "calibration needs a GPU: {}",
                reasons::not_run(&why)
            )));
        }
    };
    let pairs = match kernels {
        Kernels::BuiltIn => {
            let root = cache.dir("calibrate")?;
            system::cache::write_atomically(
                &root.join(slowdown::FILE),
                slowdown::SOURCE.as_bytes(),
            )?;
            let artifacts = built(&root, &toolchain, cache, &device)?;
            tune::pairs(request, &mut crew, &artifacts, &device)?
        }
        Kernels::Own(loaded) => own(loaded, &mut crew, &toolchain, cache, &device)?,
    };
    on(Event::Began {
        phase: Phase::Time,
        steps: u64::from(request.processes),
    });
    let mut contests: Vec<Contest> = pairs.iter().map(Pair::contest).collect();
    let mut tick_ns = 0;
    for process in 0..request.processes {
        crew.retire();
        for (pair, contest) in pairs.iter().zip(&mut contests) {
            let facts = pair.measure(&mut crew, process)?;
            tick_ns = facts.head.tick_ns;
            contest.launches_per_sample = facts.head.launches_per_sample;
            contest.processes.push(process_of(&facts));
        }
        on(Event::Stepped {
            phase: Phase::Time,
            what: format!("process {}", process + 1),
        });
    }
    crew.retire();
    Ok(Recording {
        device: device.name,
        driver: device.driver,
        date: run::machine::now().chars().take(10).collect(),
        tick_ns: tick_ns as f64,
        contests,
    })
}

/// Each timed case against itself.
fn own(
    loaded: &Loaded,
    crew: &mut Crew,
    toolchain: &Toolchain,
    cache: &Cache,
    device: &DeviceFacts,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for case in loaded.plan.cases.iter().filter(|case| case.timed) {
        let Some(unit) = judge::unit_for(&loaded.plan, &case.id, device) else {
            return Err(Error::usage(format!(
                "no architecture of {} runs on {}",
                case.id, device.name
            )));
        };
        let units = std::slice::from_ref(unit);
        let mut built =
            build::build_all(&loaded.root, None, toolchain, cache, units, 1, &|_, _| {})?;
        let Some(Built {
            facts, artifact, ..
        }) = built.pop()
        else {
            continue;
        };
        let name = case.id.to_string();
        got(facts, &name)?;
        let Some(artifact) = artifact else { continue };
        let ns = time(crew, case, &artifact)?;
        let side = Side {
            case: case.clone(),
            artifact,
        };
        pairs.push(Pair {
            name,
            bound: Bound::Unknown,
            class_us: (ns / 1000.0).round() as u32,
            change: Change::None,
            base: side.clone(),
            head: side,
        });
    }
    match pairs.is_empty() {
        false => Ok(pairs),
        true => Err(Error::usage(
            "none of the selected cases has a gate on its time",
        )),
    }
}

type Artifacts = HashMap<(Kernel, Code), Artifact>;

fn built(
    root: &Path,
    toolchain: &Toolchain,
    cache: &Cache,
    device: &DeviceFacts,
) -> Result<Artifacts> {
    let all: Vec<(Kernel, Code)> = Kernel::ALL
        .into_iter()
        .flat_map(|kernel| Code::ALL.map(|code| (kernel, code)))
        .collect();
    let units: Vec<Unit> = all
        .iter()
        .map(|(kernel, code)| kernel.unit(*code, device.arch()))
        .collect();
    let built = build::build_all(
        root,
        None,
        toolchain,
        cache,
        &units,
        units.len(),
        &|_, _| {},
    )?;
    let mut artifacts = Artifacts::new();
    for (&(kernel, code), built) in all.iter().zip(built) {
        got(built.facts, kernel.name())?;
        if let Some(artifact) = built.artifact {
            artifacts.insert((kernel, code), artifact);
        }
    }
    Ok(artifacts)
}

/// ns of one launch in a batch.
fn time(crew: &mut Crew, case: &Case, artifact: &Artifact) -> Result<f64> {
    let facts: TimeFacts = got(
        crew.time(TimeJob {
            case: case.clone(),
            artifact: artifact.clone(),
            seed: 1,
            schedule: Schedule {
                singles: 1,
                ..config::default_timing()
            },
        }),
        &case.id.to_string(),
    )?;
    let mut samples = facts.batched_ns;
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2).copied().unwrap_or(0);
    Ok(middle as f64 / f64::from(facts.launches_per_sample.max(1)))
}

impl Pair {
    fn measure(&self, crew: &mut Crew, process: u32) -> Result<PairFacts> {
        let arm = |side: &Side| Arm {
            case: side.case.clone(),
            artifact: side.artifact.clone(),
        };
        let facts = crew.pair(PairJob {
            head: arm(&self.head),
            base: arm(&self.base),
            seed: 1,
            process,
            schedule: config::default_timing(),
            pairing: self.pairing(),
            singles: Singles::Shown,
        });
        got(facts, &self.name)
    }

    fn contest(&self) -> Contest {
        Contest {
            kernel: self.name.clone(),
            bound: self.bound,
            class_us: self.class_us,
            change: self.change,
            launches_per_sample: 0,
            processes: Vec::new(),
        }
    }

    fn pairing(&self) -> Pairing {
        Pairing {
            // Contests with the same change get the same random orders, whatever their kernel.
            seed: SEED
                ^ match self.change {
                    Change::None => 0,
                    Change::OtherCode => u64::MAX,
                    Change::Slower(share) => share.to_bits(),
                },
            ..config::pairing(true)
        }
    }
}

fn process_of(facts: &PairFacts) -> Process {
    let halves = facts
        .head
        .batched_ns
        .as_chunks::<2>()
        .0
        .iter()
        .zip(facts.base.batched_ns.as_chunks::<2>().0);
    let blocks = halves.zip(&facts.blocks);
    let counted = blocks.filter(|(_, block)| !block.throttled);
    Process {
        blocks: counted
            .map(|((head, base), block)| calibration::Block {
                order: order(block),
                ns: Sides {
                    base: *base,
                    head: *head,
                },
                sm_mhz: Some(block.sm_mhz.0.round() as u32),
            })
            .collect(),
        single: Sides {
            base: facts.base.single_ns.clone(),
            head: facts.head.single_ns.clone(),
        },
        device_us: Some(facts.device_us),
    }
}

/// A recording names orders by the base.
fn order(block: &Block) -> Order {
    match block.order {
        BlockOrder::Abba => Order::Baab,
        BlockOrder::Baab => Order::Abba,
    }
}

fn got<T>(seen: Seen<T>, what: &str) -> Result<T> {
    match seen {
        Seen::Got(facts) => Ok(facts),
        Seen::Fault(fault) => Err(Error::environment(format!("{what}: {}", fault.message))),
        Seen::Unsupported(why) => {
            let why = reasons::unsupported(&why);
            Err(Error::environment(format!("{what}: {why}")))
        }
        Seen::NotRun(why) => {
            let why = reasons::not_run(&why);
            Err(Error::environment(format!("{what}: {why}")))
        }
    }
}
