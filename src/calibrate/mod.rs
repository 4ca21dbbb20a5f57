//! `calibrate`: unchanged pairs and known slowdowns on this GPU, process after process, as a run would
//! measure them. What follows from the recording is `power`'s to say.

mod dial;
pub mod noise;

use crate::build::{self, Artifact, Built};
use crate::cache::Cache;
use crate::config::{self, Loaded};
use crate::device::DeviceChoice;
use crate::error::{Error, Result};
use crate::repo;
use crate::report::progress::{Event, Phase};
use crate::toolchain::{self, Toolchain};
use crate::worker::{Arm, Crew, PairJob, TimeJob};
use dial::{Dial, Line, Work};
use power::{Bound, Contest, Order, Process, Recording, Sides};
use std::collections::HashMap;
use std::path::Path;
use verdict::judge;
use verdict::model::{
    Block, BlockOrder, Case, DeviceFacts, PairFacts, Pairing, Schedule, Seen, TimeFacts,
};

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Request {
    pub device: DeviceChoice,
    /// Fresh processes, each of which measures every contest once.
    pub processes: u32,
    /// Times of one launch, in us.
    pub classes: Vec<u32>,
    /// True changes, as shares; 0 for an unchanged pair.
    pub changes: Vec<f64>,
}

/// The seed of orders and placements: one recording is one draw.
const SEED: u64 = 20_261_121;

/// Samples of one launch each, of each side and process; fewer where one takes long.
const SINGLES: u32 = 60;
const LONG_US: u32 = 200;
const LONG_SINGLES: u32 = 20;

/// How often a dial is turned again, and by how many fresh processes each time.
const TURNS: u32 = 3;
const TRIALS: u32 = 3;

struct Pair {
    name: String,
    bound: Bound,
    class_us: u32,
    change: f64,
    head: Case,
    base: Case,
    artifact: Artifact,
}

/// What is timed beside itself.
pub enum Kernels {
    /// With a dial.
    BuiltIn,
    /// Of a gates.yaml, unchanged; what a change would do follows from their samples, scaled.
    Own(Box<Loaded>),
}

/// # Errors
/// Environment, where there is no GPU, no compiler, or a kernel broke.
pub fn record(
    request: &Request,
    kernels: &Kernels,
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
        Seen::Unsupported { reason } | Seen::NotRun { reason } => {
            return Err(Error::environment(format!(
                "times come from a GPU, and there is none: {reason}"
            )));
        }
    };
    let pairs = match kernels {
        Kernels::BuiltIn => {
            let root = cache.dir("calibrate")?;
            crate::cache::write_atomically(&root.join(dial::FILE), dial::SOURCE.as_bytes())?;
            let artifacts = built(&root, &toolchain, cache, &device)?;
            pairs(request, &mut crew, &artifacts, &device)?
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
        date: repo::now().chars().take(10).collect(),
        tick_ns: tick_ns as f64,
        contests,
    })
}

/// Each timed case beside itself.
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
        let mut built = build::build_all(&loaded.root, toolchain, cache, units, 1, &|_, _| {})?;
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
        pairs.push(Pair {
            name,
            bound: Bound::Unknown,
            class_us: (ns / 1000.0).round() as u32,
            change: 0.0,
            head: case.clone(),
            base: case.clone(),
            artifact,
        });
    }
    match pairs.is_empty() {
        false => Ok(pairs),
        true => Err(Error::usage("no case that was selected is timed by a gate")),
    }
}

type Artifacts = HashMap<Dial, Artifact>;

fn built(
    root: &Path,
    toolchain: &Toolchain,
    cache: &Cache,
    device: &DeviceFacts,
) -> Result<Artifacts> {
    let units = Dial::ALL.map(|dial| dial.unit(device.arch()));
    let built = build::build_all(root, toolchain, cache, &units, units.len(), &|_, _| {})?;
    let mut artifacts = Artifacts::new();
    for (dial, built) in Dial::ALL.into_iter().zip(built) {
        got(built.facts, dial.name())?;
        if let Some(artifact) = built.artifact {
            artifacts.insert(dial, artifact);
        }
    }
    Ok(artifacts)
}

fn artifact(artifacts: &Artifacts, dial: Dial) -> Result<&Artifact> {
    artifacts
        .get(&dial)
        .ok_or_else(|| Error::environment(format!("{} was not built", dial.name())))
}

/// The work of each side, found by timing.
fn pairs(
    request: &Request,
    crew: &mut Crew,
    artifacts: &Artifacts,
    device: &DeviceFacts,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for dial in Dial::ALL {
        let artifact = artifact(artifacts, dial)?;
        for &class_us in &request.classes {
            let shape = format!("{class_us}us");
            let mut search = Search {
                crew,
                read: |work: Work| dial.case(&shape, work, device),
                artifact,
            };
            let ns = f64::from(class_us) * 1000.0;
            let guess = dial.guess(class_us, device);
            let steps = |steps: f64| Work {
                elements: 0,
                dial: steps.round() as u32,
            };
            let elements = |elements: f64| Work {
                elements: elements.round() as u32,
                dial: dial::REST,
            };
            let base = match dial {
                Dial::Compute => steps(search.around(guess, ns, steps)?),
                Dial::Memory => elements(search.around(guess, ns, elements)?),
            };
            let turned = |steps: f64| Work {
                dial: steps.round() as u32,
                ..base
            };
            // As far as 10 % of the time goes, in the chain alone.
            let far = dial.turns(class_us);
            let from = f64::from(base.dial);
            let line = search.line((from, from + far), turned)?;
            for &change in &request.changes {
                let mut more = line.work_for(ns * change);
                let pair = |more: f64| Pair {
                    name: dial.name().to_owned(),
                    bound: match dial {
                        Dial::Compute => Bound::Compute,
                        Dial::Memory => Bound::Memory,
                    },
                    class_us,
                    change,
                    head: dial.case(&shape, turned(from + more), device),
                    base: dial.case(&shape, base, device),
                    artifact: artifact.clone(),
                };
                // The line is of one process, and a hundredth of a time is less than what it is off by.
                for attempt in 0..TURNS {
                    if change == 0.0 {
                        break;
                    }
                    let seen = pair(more).change(crew, attempt)?;
                    if seen > 0.0 {
                        more *= (change / seen).clamp(0.5, 2.0);
                    }
                }
                pairs.push(pair(more));
            }
        }
    }
    Ok(pairs)
}

/// Finds how much work takes how long.
struct Search<'a, 'c, R> {
    crew: &'a mut Crew<'c>,
    read: R,
    artifact: &'a Artifact,
}

impl<R: Fn(Work) -> Case> Search<'_, '_, R> {
    fn line(&mut self, (low, high): (f64, f64), work: impl Fn(f64) -> Work) -> Result<Line> {
        let mut at = |amount: f64| {
            let case = (self.read)(work(amount));
            Ok::<_, Error>((amount, time(self.crew, &case, self.artifact)?))
        };
        let (low, high) = (at(low)?, at(high)?);
        Line::through(low, high).ok_or_else(|| {
            Error::environment(
                "a built-in kernel takes no longer for more work; is the GPU in use?",
            )
        })
    }

    /// The work that takes this long. Looked for twice, the second time around what the first found:
    /// caches bend the line.
    fn around(&mut self, guess: f64, ns: f64, work: impl Fn(f64) -> Work) -> Result<f64> {
        let first = self.line((guess * 0.8, guess * 1.2), &work)?.work(ns);
        Ok(self.line((first * 0.8, first * 1.2), &work)?.work(ns))
    }
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
    /// The mean change over a few fresh processes.
    fn change(&self, crew: &mut Crew, attempt: u32) -> Result<f64> {
        let mut ratios = Vec::new();
        for process in 0..TRIALS {
            crew.retire();
            let facts = self.measure(crew, process + attempt * TRIALS)?;
            ratios.extend(process_of(&facts).ln_ratio());
        }
        Ok((ratios.iter().sum::<f64>() / ratios.len().max(1) as f64).exp_m1())
    }

    fn measure(&self, crew: &mut Crew, process: u32) -> Result<PairFacts> {
        let arm = |case: &Case| Arm {
            case: case.clone(),
            artifact: self.artifact.clone(),
        };
        let facts = crew.pair(PairJob {
            head: arm(&self.head),
            base: arm(&self.base),
            seed: 1,
            process,
            schedule: config::default_timing(),
            pairing: self.pairing(),
        });
        got(facts, &self.head.id.to_string())
    }

    fn contest(&self) -> Contest {
        Contest {
            kernel: self.name.clone(),
            bound: self.bound,
            class_us: self.class_us,
            true_change: self.change,
            launches_per_sample: 0,
            processes: Vec::new(),
        }
    }

    fn pairing(&self) -> Pairing {
        Pairing {
            singles: match self.class_us > LONG_US {
                true => LONG_SINGLES,
                false => SINGLES,
            },
            // Contests of one kernel differ in their change alone, and not in what the dice say.
            seed: SEED ^ self.change.to_bits(),
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
            .map(|((head, base), block)| power::Block {
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

/// A recording counts from the base.
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
        Seen::Unsupported { reason } | Seen::NotRun { reason } => {
            Err(Error::environment(format!("{what}: {reason}")))
        }
    }
}
