//! Checks one seed of one case in the simulator. It is launched once, because every launch in the simulator is the same
//! to the bit. It is launched again if the first launch leaves something in variables of the module, and if it reads
//! what differs on another machine or at another moment.

use super::Frames;
use super::check::{After, Dump, Runs, launch_once, launch_prepared, want};
use super::job_cache::JobCache;
use super::kept::{self, VariableContents, Variables};
use super::orders::Orders;
use super::stage::{OutputImages, StagedCase};
use crate::device::sim::SimDevice;
use crate::device::{Device, Failure, Result};
use crate::worker::protocol::{CheckJob, EstimateJob, Frame, Job, Ready, SimulateJob, Simulated};
use model::{
    Arose, Determinism, Difference, ElsewhereOutcome, FaultKind, Finding, FindingEvent,
    FindingKind, KeptVariable, SimulationFacts, Simulator, Unsupported,
};
use ptxsim::COUNTER_MODEL;
use ptxsim::Circumstances;
use std::sync::Arc;

/// The most bytes of memory for the whole process, because a kernel under test must not take the machine's memory.
const MOST_BYTES: u64 = 16 << 30;

/// Takes orders until there are no more.
pub fn serve(frames: &mut Frames, orders: &Arc<Orders>) -> ! {
    limit_memory();
    frames.send(Frame::Ready(Ready::Simulator(Simulator {
        counter_model: COUNTER_MODEL,
    })));
    let mut cache = JobCache::open(Arc::clone(orders));
    let mut device = SimDevice::default();
    loop {
        let order = orders.take();
        frames.id = order.id;
        let end = run_simulation(&mut device, &mut cache, &order.job, frames);
        let freed = device.reset();
        frames.send(match (end, freed) {
            (Ok(frame), Ok(())) => frame,
            (Err(failure), _) | (Ok(_), Err(failure)) => Frame::Failed(failure),
        });
    }
}

/// Limits the memory of this process. Beyond the limit, memory is refused and the process ends with a message.
fn limit_memory() {
    use nix::libc::{RLIMIT_DATA, rlimit, setrlimit};
    let limit = rlimit {
        rlim_cur: MOST_BYTES,
        rlim_max: MOST_BYTES,
    };
    // SAFETY: sets one number of this process. A lower limit that is in force already stays.
    unsafe { setrlimit(RLIMIT_DATA, &raw const limit) };
}

fn run_simulation(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &Job,
    frames: &mut Frames,
) -> Result<Frame> {
    match job {
        Job::Estimate(job) => estimate(device, cache, job).map(Frame::Estimated),
        Job::Simulate(job) => {
            let say = &mut |frame| frames.send(frame);
            simulate(device, cache, job, say).map(|simulated| Frame::Simulated(Box::new(simulated)))
        }
        Job::KnownGood
        | Job::Count
        | Job::Check(_)
        | Job::Time(_)
        | Job::Pair(_)
        | Job::Profile(_) => Err(Failure::Unsupported(Unsupported::Clock)),
    }
}

fn estimate(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &EstimateJob,
) -> Result<Option<u64>> {
    device.limit(job.limit, 1);
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    stage.prepare(device, 1)?;
    device.estimate(&stage.call)
}

fn simulate(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &SimulateJob,
    say: &mut dyn FnMut(Frame),
) -> Result<Simulated> {
    device.limit(job.limit, job.threads);
    let job = &job.check;
    device.begin(usual_place(job.seed), Circumstances::default());
    let want = want(device, cache, job, say)?;
    say(Frame::Step("making the inputs".to_owned()));
    let mut stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    let dump = Dump::new(job);
    dump.before(&want)?;

    say(Frame::Step("simulating".to_owned()));
    stage.prepare(device, 1)?;
    let variables = Variables::read(device, stage.call.program)?;
    let found = variables.now(device)?;
    let outputs = launch_prepared(device, &stage, &mut cache.buffers)?;
    let mut simulation = shown(device)?;
    say(Frame::Step("comparing".to_owned()));
    let mut runs = Runs::new(&job.case, &want, stage.compared(&job.case)?)?;
    runs.look_between_strides(&stage.gaps(&outputs, 1)?);
    runs.take(1, outputs)?;
    dump.after(runs.first.as_ref())?;
    // Memory that the kernel did not write reads as the poison that the host put there. The poison of a second launch
    // therefore shows it without that launch.
    stage.poison(2, |address, pattern, count| {
        device.show_poison(address, pattern, count);
        Ok(())
    })?;
    runs.take(2, stage.outputs(device, &mut cache.buffers)?)?;
    runs.differs = None;
    let mut after = After::default();
    after.look(device, &stage, &mut cache.buffers)?;

    let looks = device.looks(&stage.call)?;
    let (launches, changed) = launch_again(
        device,
        cache,
        &stage,
        &mut runs,
        (&variables, found),
        job.case.launches,
        &mut simulation,
    )?;
    if !changed.is_empty() {
        let case = (&job.case, &mut stage);
        runs.look_at_kept(device, cache, case, (&variables, changed), job.later_seed)?;
    }
    if !looks.is_empty() {
        say(Frame::Step("simulating another machine".to_owned()));
        depend(device, cache, job, &looks, &mut runs, &mut simulation)?;
    }
    let (mut check, _) = runs.facts(launches, after)?;
    if let Some(worst) = check.error.worst.as_deref_mut()
        && !worst.got.0.is_finite()
        && worst.want.0.is_finite()
    {
        say(Frame::Step("looking where it is not finite".to_owned()));
        worst.arose = arose(device, cache, job)?;
    }
    Ok(Simulated { check, simulation })
}

/// Launches once more, and returns where the first infinity and the first NaN arise, or nothing if that launch stops.
fn arose(device: &mut SimDevice, cache: &mut JobCache, job: &CheckJob) -> Result<Vec<Arose>> {
    device.begin(usual_place(job.seed), Circumstances::default());
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    device.look_for_arising();
    match launch_once(device, &stage, 1, &mut cache.buffers) {
        Ok(_) => Ok(device.arose().to_vec()),
        Err(Failure::Fault { .. }) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

fn shown(device: &SimDevice) -> Result<SimulationFacts> {
    device.shown().ok_or_else(|| {
        Failure::case_alone(FaultKind::Environment, "the simulator reported nothing")
    })
}

/// Launches on the same data until a launch finds variables as an earlier launch found them, because everything repeats
/// from then on. Returns the number of launches, and the variables that the first launch changed.
fn launch_again(
    device: &mut SimDevice,
    cache: &mut JobCache,
    stage: &StagedCase,
    runs: &mut Runs,
    (variables, found): (&Variables, VariableContents),
    most: u32,
    simulation: &mut SimulationFacts,
) -> Result<(u32, Vec<KeptVariable>)> {
    let mut known = vec![found];
    let mut changed = Vec::new();
    for launch in 2..=most.max(2) {
        stage.prepare(device, launch)?;
        let now = variables.now(device)?;
        if known.contains(&now) {
            break;
        }
        if let [first] = known.as_slice() {
            let place = |symbol: &str| device.writer(&stage.call, symbol);
            changed = Variables::changed(first, &now, place);
        }
        known.push(now);
        let outputs = launch_prepared(device, stage, &mut cache.buffers)
            .map_err(|failure| kept::in_launch(failure, launch, &changed))?;
        add_findings(simulation, shown(device)?.findings, launch);
        runs.take(launch, outputs)?;
    }
    let launches = u32::try_from(known.len()).unwrap_or(u32::MAX);
    Ok((launches, changed))
}

/// Adds the findings that no earlier launch has shown.
fn add_findings(simulation: &mut SimulationFacts, found: Vec<Finding>, launch: u32) {
    for finding in found {
        let is_known = simulation.findings.iter().any(|known| {
            (known.kind, &known.entry, &known.places)
                == (finding.kind, &finding.entry, &finding.places)
        });
        if !is_known {
            simulation.findings.push(Finding {
                launch: Some(launch),
                ..finding
            });
        }
    }
}

/// Returns where memory is placed for a seed. The place differs between seeds, so that an output that depends on bits
/// of addresses is wrong for some of them.
fn usual_place(seed: u64) -> u64 {
    seed.wrapping_sub(1)
}

/// Launches like the first time, but with other values for what the launch reads of its circumstances. If the outputs
/// differ, reports a finding for each circumstance that alone makes them differ. If launches may differ, this launch
/// counts as one more of them. If nothing differs, but other values may still show something, launches once again.
fn depend(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &CheckJob,
    looks: &[(Option<String>, ptxsim::Look)],
    runs: &mut Runs,
    simulation: &mut SimulationFacts,
) -> Result<()> {
    let all: Circumstances = looks.iter().map(|(_, look)| look.at).collect();
    let may_differ = matches!(job.case.determinism, Determinism::Declared { .. });
    let mut turns = [Some(all), all.in_second_turn()].into_iter().flatten();
    let (varied, together) = loop {
        let Some(varied) = turns.next() else {
            return Ok(());
        };
        match elsewhere(device, cache, job, varied)? {
            PerturbedRun::Ended(outputs) if may_differ => {
                // The outputs are only compared with the expected ones.
                let differs = runs.differs.take();
                runs.take(LAUNCH_ELSEWHERE, outputs)?;
                runs.differs = differs;
            }
            elsewhere => {
                if let Some(differs) = elsewhere.against(runs)? {
                    break (varied, differs);
                }
            }
        }
    };
    let looks: Vec<_> = looks
        .iter()
        .filter(|(_, look)| varied.has(look.at))
        .collect();
    let mut found = Vec::new();
    for (entry, look) in &looks {
        let differs = match looks.as_slice() {
            [_] => Some(together.clone()),
            _ => {
                let alone = varied.only(look.at);
                elsewhere(device, cache, job, alone)?.against(runs)?
            }
        };
        if let Some(differs) = differs {
            found.push(finding(entry.as_ref(), look, differs));
        }
    }
    if let ([], Some((entry, look))) = (found.as_slice(), looks.first()) {
        found.push(finding(entry.as_ref(), look, together));
    }
    simulation.findings.extend(found);
    simulation
        .findings
        .sort_by_key(|found| (found.kind, std::cmp::Reverse(found.times)));
    Ok(())
}

/// The number of the launch elsewhere. It is not counted among the launches, and has the poison of the first.
const LAUNCH_ELSEWHERE: u32 = 3;

enum PerturbedRun {
    Ended(OutputImages),
    Stopped(String),
}

impl PerturbedRun {
    /// Returns how this launch differs from the first one.
    fn against(self, runs: &Runs) -> Result<Option<ElsewhereOutcome>> {
        match self {
            Self::Stopped(message) => Ok(Some(ElsewhereOutcome::Stopped(message))),
            Self::Ended(outputs) => {
                let differs = runs.differs_from_first(&outputs)?;
                Ok(differs.map(ElsewhereOutcome::Differs))
            }
        }
    }
}

fn elsewhere(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &CheckJob,
    varied: Circumstances,
) -> Result<PerturbedRun> {
    device.begin(usual_place(job.seed), varied);
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    match launch_once(device, &stage, LAUNCH_ELSEWHERE, &mut cache.buffers) {
        Ok(outputs) => Ok(PerturbedRun::Ended(outputs)),
        Err(Failure::Fault { fault, .. }) if fault.kind != FaultKind::Environment => {
            Ok(PerturbedRun::Stopped(fault.message))
        }
        Err(failure) => Err(failure),
    }
}

fn finding(entry: Option<&String>, look: &ptxsim::Look, outcome: ElsewhereOutcome) -> Finding {
    Finding {
        kind: FindingKind::MachineDependence,
        entry: entry.cloned(),
        launch: None,
        places: vec![look.place.clone()],
        accesses: Vec::new(),
        block: [0; 3],
        thread: [0; 3],
        address: None,
        times: match outcome {
            ElsewhereOutcome::Stopped(_) => 1,
            ElsewhereOutcome::Differs(Difference { elements, .. }) => elements,
        },
        event: FindingEvent::MachineDependence(look.at, outcome),
    }
}
