//! Times unchanged pairs and known slowdowns on a GPU, process after process, as a run would. Its workers are those of a
//! gatekeeper that was built from this tree.

mod slowdown;
mod tune;

use crate::{Bound, Change, Contest, Order, Process, Recording, Sides};
use build::toolchain::{self, Toolchain};
use build::{Artifact, Building};
use gatekeeper::doctor::builtin::{self, got};
use model::{Block, BlockOrder, Case, DeviceFacts, PairFacts, Pairing, Singles, Unit};
use run::device::DeviceChoice;
use run::worker::{Arm, Crew, PairJob};
use slowdown::{Code, Kernel};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use system::cache::{self, Cache};
use system::error::Result;
use system::process::children;

/// The contents of a recording to be made, and the program that measures them.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program whose workers take the times.
    pub gatekeeper: PathBuf,
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

/// Records the built-in kernels.
///
/// # Errors
/// Environment, if there is no GPU or no compiler, or if a kernel broke.
pub fn record(request: &Request) -> Result<Recording> {
    system::limits::prepare()?;
    children::end_on_signals()?;
    let cache = Cache::open()?;
    let toolchain = toolchain::find(None, &cache)?;
    let mut crew = Crew::with_program(request.gatekeeper.clone(), DeviceChoice::Auto)
        .on_waiting(|text| eprintln!("{text}"));
    let device = got(crew.device(), "recording needs a GPU")?;
    let root = cache.dir(builtin::CACHE)?;
    cache::write_atomically(&root.join(slowdown::FILE), slowdown::SOURCE.as_bytes())?;
    let artifacts = built(&root, &toolchain, &cache, &device)?;
    let pairs = tune::pairs(request, &mut crew, &artifacts, &device)?;
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
        eprintln!("process {} of {}", process + 1, request.processes);
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
    let building = Building::new(root, toolchain, cache);
    let built = build::build_all(building, &units, &|_, _| {})?;
    let mut artifacts = Artifacts::new();
    for (&(kernel, code), built) in all.iter().zip(built) {
        got(built.facts, kernel.name())?;
        if let Some(artifact) = built.artifact {
            artifacts.insert((kernel, code), artifact);
        }
    }
    Ok(artifacts)
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
    let blocks = facts
        .head
        .batched_ns
        .as_chunks::<2>()
        .0
        .iter()
        .zip(facts.base.batched_ns.as_chunks::<2>().0)
        .zip(&facts.blocks);
    let counted = blocks.filter(|(_, block)| !block.throttled);
    Process {
        blocks: counted
            .map(|((head, base), block)| crate::Block {
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

/// Returns the order as recordings name it, by the base.
fn order(block: &Block) -> Order {
    match block.order {
        BlockOrder::Abba => Order::Baab,
        BlockOrder::Baab => Order::Abba,
    }
}
