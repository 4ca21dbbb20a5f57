//! A run from gates.yaml to its judgement. Alone knows the order of the stages; decides nothing: whether a
//! case may go on, needs another process, or holds is asked of `verdict::judge`.

mod base;
mod check;
mod past;
mod simulate;
mod time;

pub use base::Asked;

use crate::build::{self, Artifact, Built};
use crate::cache::Cache;
use crate::check::cache::{Answer, References};
use crate::config::{self, Loaded};
use crate::counters::COUNTER_MODEL;
use crate::device::DeviceChoice;
use crate::device::choice::driver_problem;
use crate::error::{Error, Result};
use crate::report::progress::{Event, Phase};
use crate::toolchain::{self, Toolchain};
use crate::worker::Crews;
use crate::{repo, store};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use verdict::judge;
use verdict::model::{
    BuildFacts, Case, CaseId, Costs, DeviceFacts, Environment, Evidence, Fault, FaultKind,
    Judgement, Plan, Policy, RECORD_SCHEMA, Record, Seen, Simulator, TIMING_PROTOCOL, Unit, UnitId,
};

/// What `run` was asked for.
#[derive(Debug)]
pub struct Request {
    pub config: PathBuf,
    pub device: DeviceChoice,
    pub require_gpu: bool,
    pub provision: bool,
    pub dump: Option<PathBuf>,
    /// The revision to compare with.
    pub base: Option<Asked>,
    /// The command line, for the record.
    pub command: String,
}

pub struct Outcome {
    pub record: Record,
    pub judgement: Judgement,
}

/// # Errors
/// What keeps a run from starting at all: baselines, compiler, cache. Whatever breaks later is evidence.
pub fn run(
    request: &Request,
    loaded: Loaded,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Outcome> {
    let began = Instant::now();
    let accepted = config::load_acceptances(&loaded)?;
    let Loaded {
        root,
        file,
        mut plan,
        gates,
        toolchain: pin,
        ..
    } = loaded;
    let (baselines, broken_baselines) = store::load_baselines(&root)?;
    let base = request.base.as_ref().map(|asked| {
        plan.pairing = Some(config::pairing(asked.unchanged));
        base::find(asked, &root, &file, &baselines, cache)
    });
    let (base_tree, base) = base.transpose()?.map(|it| (it.tree, it.base)).unzip();
    if let Some(base) = &base
        && repo::has_more(&root, &base.commit)
    {
        on(Event::Waiting(format!(
            "{} has commits that HEAD lacks: what they ask more strictly counts as loosened here, until it is merged or rebased",
            base.revision
        )));
    }
    let commit = repo::commit(&root);
    if let Some(base) = base
        .as_ref()
        .filter(|it| Some(&it.commit) == commit.as_ref())
    {
        on(Event::Waiting(format!(
            "{} is HEAD itself, and no file that git knows has changed: nothing can be found beside it",
            base.revision
        )));
    }
    let anchors = past::anchors(&root, &gates)?;
    let mut policy = Policy {
        gates,
        baselines,
        broken_baselines,
        require_gpu: request.require_gpu,
        anchors,
        accepted,
        base,
    };
    let toolchain = compiler(request, pin.cuda.as_deref(), cache, on)?;
    if let (Some(tree), Some(base)) = (&base_tree, &mut policy.base) {
        let host = Some(toolchain.host_compiler.as_path());
        let theirs = References::open(&tree.root, cache, host)?;
        let ours = References::open(&root, cache, host)?;
        base::compare_references(base, &theirs, &plan, &ours);
    }

    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let mut crews = Crews::new(request.device, &waiting)?;
    let device = |crews: &mut Crews| match request.device {
        DeviceChoice::Sim => Seen::NotRun {
            reason: "--device sim: times come from a GPU".to_owned(),
        },
        DeviceChoice::Auto | DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll => crews.open(),
    };
    let sources = Sources {
        head: (&root, plan.units.clone()),
        base: base_tree
            .as_ref()
            .map(|tree| tree.root.as_path())
            .zip(policy.base.as_ref())
            .map(|(root, base)| {
                let units = base::units(&plan, &base.plan);
                (root, units)
            }),
    };
    let (device, built, answers) = prepare(
        &sources,
        &plan,
        &toolchain,
        cache,
        || device(&mut crews),
        on,
    )?;
    // In the place of a GPU, not of one that is broken or required.
    let absent = matches!(device, Seen::NotRun { .. });
    let simulator = (absent && !request.require_gpu).then_some(Simulator {
        counter_model: COUNTER_MODEL,
    });
    let behind_the_compiler = Overlap {
        start: crews.costs().process.min(built.wall),
        reference: built
            .wall
            .saturating_sub(crews.costs().process)
            .min(answers.wall),
    };
    let mut record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: Environment {
            gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
            started: repo::now(),
            timing_protocol: TIMING_PROTOCOL,
            command: request.command.clone(),
            config: request.config.display().to_string(),
            host: repo::host(),
            commit,
            compiler: Seen::Got(toolchain.facts.clone()),
            device,
            simulator,
            timed_by: None,
        },
        plan,
        policy,
        evidence: Vec::new(),
        costs: Costs::default(),
    };
    record.costs.compiler_ms = milliseconds(built.wall);
    record.costs.reference_ms = milliseconds(answers.wall - behind_the_compiler.reference);
    let (artifacts, base_artifacts) = built.append_to(&mut record);
    let mut work = Work {
        executor: Executor::Simulator,
        artifacts,
        base_artifacts,
        answers,
        dump: request.dump.clone(),
    };
    if let Seen::Got(device) = record.environment.device.clone() {
        work.executor = Executor::Gpu(device);
        record.costs.gpus = u32::try_from(crews.gpus()).unwrap_or(u32::MAX);
        check::check_all(&work, &mut crews, &mut record, on);
        time::time_all(&work, crews.first(), &mut record, on);
    } else if record.environment.simulator.is_some() {
        let references = References::open(&root, cache, Some(&toolchain.host_compiler))?;
        simulate::simulate_all(&mut work, &references, &mut record, on)?;
    }
    crews.retire();

    let spent = crews.costs();
    record.costs.workers += spent.workers;
    record.costs.worker_start_ms = milliseconds(spent.process - behind_the_compiler.start);
    record.costs.gpu_ms = milliseconds(spent.device);
    record.costs.total_ms = milliseconds(began.elapsed());
    let judgement = judge::judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    Ok(Outcome { record, judgement })
}

fn compiler(
    request: &Request,
    pin: Option<&str>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Toolchain> {
    match toolchain::find(pin, cache) {
        Err(_) if request.provision => {
            toolchain::install(cache, &|line| on(Event::Waiting(line.to_owned())))?;
            toolchain::find(pin, cache)
        }
        found => found,
    }
}

/// What is to be built, and where its files are.
struct Sources<'a> {
    head: (&'a Path, Vec<Unit>),
    base: Option<(&'a Path, Vec<Unit>)>,
}

/// Everything that needs no GPU time, at once: nvcc, the device's own waking up, and then, if there is a
/// device, the references.
fn prepare(
    sources: &Sources,
    plan: &Plan,
    toolchain: &Toolchain,
    cache: &Cache,
    device: impl FnOnce() -> Seen<DeviceFacts>,
    on: &(dyn Fn(Event) + Sync),
) -> Result<(Seen<DeviceFacts>, Builds, Answers)> {
    let (root, head) = &sources.head;
    let references = References::open(root, cache, Some(&toolchain.host_compiler))?;
    std::thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let began = Instant::now();
            let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let base = sources.base.as_ref();
            let steps = head.len() + base.map_or(0, |(_, units)| units.len());
            on(Event::Began {
                phase: Phase::Build,
                steps: steps as u64,
            });
            let built = |what: &str, root: &Path, units: &[Unit]| {
                let stepped = |unit: &Unit, _: &Built| {
                    on(Event::Stepped {
                        phase: Phase::Build,
                        what: format!("{what}{}", unit.id),
                    });
                };
                let built = build::build_all(root, toolchain, cache, units, jobs, &stepped)?;
                let ids = units.iter().map(|unit| unit.id.clone());
                Ok(ids.zip(built).collect())
            };
            Ok(Builds {
                head: built("", root, head)?,
                base: base.map_or(Ok(Vec::new()), |(root, units)| {
                    built("base revision of ", root, units)
                })?,
                wall: began.elapsed(),
            })
        });
        let device = usable(device(), &toolchain.facts.version);
        let answers = match device {
            Seen::Got(_) => Answers::compute(plan.cases.iter(), &references, on),
            Seen::Fault(_) | Seen::Unsupported { .. } | Seen::NotRun { .. } => Answers::default(),
        };
        let builds = builds
            .join()
            .unwrap_or_else(|_| Err(Error::environment("the build stage panicked")))?;
        Ok((device, builds, answers))
    })
}

/// A driver that cannot load what this compiler makes is no device to run on; said once, not by each kernel.
fn usable(device: Seen<DeviceFacts>, compiler: &str) -> Seen<DeviceFacts> {
    let problem = device
        .got()
        .and_then(|facts| driver_problem(compiler, facts.cuda_driver_version));
    match problem {
        Some(message) => Seen::Fault(Fault {
            kind: FaultKind::Environment,
            message,
        }),
        None => device,
    }
}

/// While the compiler works a worker starts, and then references are computed. That time is counted once,
/// as the compiler's.
struct Overlap {
    start: Duration,
    reference: Duration,
}

struct Builds {
    head: Vec<(UnitId, Built)>,
    base: Vec<(UnitId, Built)>,
    wall: Duration,
}

type Artifacts = HashMap<UnitId, Artifact>;

impl Builds {
    /// Evidence into the record; where the artifacts are, of head and of base, stays here.
    fn append_to(self, record: &mut Record) -> (Artifacts, Artifacts) {
        let head = append(record, self.head, |unit, facts| Evidence::Build {
            unit,
            facts,
        });
        let base = append(record, self.base, |unit, facts| Evidence::BaseBuild {
            unit,
            facts,
        });
        (head, base)
    }
}

fn append(
    record: &mut Record,
    built: Vec<(UnitId, Built)>,
    evidence: fn(UnitId, Seen<BuildFacts>) -> Evidence,
) -> Artifacts {
    let mut artifacts = Artifacts::new();
    for (id, built) in built {
        *(if built.cached {
            &mut record.costs.cached
        } else {
            &mut record.costs.compiled
        }) += 1;
        record.evidence.push(evidence(id.clone(), built.facts));
        if let Some(artifact) = built.artifact {
            artifacts.insert(id, artifact);
        }
    }
    artifacts
}

/// Right answers by case and seed.
#[derive(Default)]
struct Answers {
    found: HashMap<(CaseId, u64), Seen<Answer>>,
    wall: Duration,
}

impl Answers {
    fn compute<'a>(
        cases: impl Iterator<Item = &'a Case>,
        references: &References,
        on: &(dyn Fn(Event) + Sync),
    ) -> Self {
        let began = Instant::now();
        let wanted: Vec<(&Case, u64)> = cases
            .flat_map(|case| case.seeds.iter().map(move |&seed| (case, seed)))
            .collect();
        on(Event::Began {
            phase: Phase::Reference,
            steps: wanted.len() as u64,
        });
        // One after another: each uses all cores by itself.
        let found = wanted
            .into_iter()
            .map(|(case, seed)| {
                let answer = references.answer(case, seed);
                on(Event::Stepped {
                    phase: Phase::Reference,
                    what: case.id.to_string(),
                });
                ((case.id.clone(), seed), answer)
            })
            .collect();
        Self {
            found,
            wall: began.elapsed(),
        }
    }
}

enum Executor {
    Gpu(DeviceFacts),
    Simulator,
}

/// What checks and timings of one run share.
struct Work {
    executor: Executor,
    artifacts: Artifacts,
    base_artifacts: Artifacts,
    answers: Answers,
    dump: Option<PathBuf>,
}

impl Work {
    fn artifact(&self, plan: &Plan, case: &CaseId) -> std::result::Result<&Artifact, Why> {
        let unit = match &self.executor {
            Executor::Gpu(device) => judge::unit_for(plan, case, device),
            Executor::Simulator => judge::unit_to_simulate(plan, case),
        };
        unit.and_then(|unit| self.artifacts.get(&unit.id))
            .ok_or_else(|| Why::NotRun(format!("{case} was not built for this device")))
    }
}

/// Why a job was not even tried.
#[derive(Clone)]
enum Why {
    NotRun(String),
    Broke(Fault),
    Unsupported(String),
}

impl Why {
    /// What this program lost on the way: no skip, as nobody decided on it.
    fn lost(what: &str) -> Self {
        Self::Broke(Fault {
            kind: FaultKind::Environment,
            message: what.to_owned(),
        })
    }

    fn into_seen<T>(self) -> Seen<T> {
        match self {
            Self::NotRun(reason) => Seen::NotRun { reason },
            Self::Broke(fault) => Seen::Fault(fault),
            Self::Unsupported(reason) => Seen::Unsupported { reason },
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(cuda_driver_version: u32) -> Seen<DeviceFacts> {
        Seen::Got(DeviceFacts {
            ordinal: 0,
            name: "NVIDIA L4".to_owned(),
            uuid: "GPU-0".to_owned(),
            major: 8,
            minor: 9,
            multiprocessors: 58,
            l2_bytes: 48 << 20,
            memory_bytes: 24 << 30,
            driver: "550.90.07".to_owned(),
            cuda_driver_version,
            clock_policy: "default".to_owned(),
            max_sm_mhz: Some(2040),
        })
    }

    #[test]
    fn a_driver_too_old_for_the_compiler_is_a_fault_of_the_environment() {
        match usable(device(12040), "13.0.88") {
            Seen::Fault(fault) => {
                assert_eq!(fault.kind, FaultKind::Environment);
                assert!(
                    fault.message.contains("branch 580 or later"),
                    "{}",
                    fault.message
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(usable(device(13000), "13.0.88"), device(13000));
        let absent = Seen::NotRun {
            reason: "no GPU".to_owned(),
        };
        assert_eq!(usable(absent.clone(), "13.0.88"), absent);
    }
}
