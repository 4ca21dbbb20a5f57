//! Every case in the simulator, where there is no GPU: what each would cost by a sample of its blocks, then
//! those within the budget, all seeds, on all cores.

use super::prepare::Answers;
use super::{Why, Work, milliseconds};
use crate::check::cache::References;
use crate::device::sim::MOST_BYTES;
use crate::error::Result;
use crate::report::progress::{Event, Phase};
use crate::worker::{CheckJob, EstimateJob, Frame, Job, SimulateJob, Simulated, Simulators};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;
use verdict::judge::{self, Admission, Stage};
use verdict::model::{Case, CaseId, Evidence, Fault, FaultKind, NotRun, Record, Seen};

/// A launch may run so many times past the budget of its whole case before it counts as one that does not
/// end: the estimate was of a few blocks, and others may have more to do.
const PATIENCE: u64 = 2;

/// Warp instructions that are spent at least to see whether a few blocks come to their end, however small
/// the budget: an endless loop is no case that is too large.
const LEAST_PATIENCE: u64 = 10_000_000;

/// A few blocks may run so many times past the budget of their case before they count as endless: blocks
/// that alone pass it have much to do, and their cost says how much the whole would have.
const PATIENCE_WITH_BLOCKS: u64 = 8;

fn patience(budget: u64) -> u64 {
    budget.max(LEAST_PATIENCE)
}

/// Why a case is larger than the simulator takes, if it is.
fn too_large(case: &Case) -> Option<Why> {
    let bytes = case.tensors.iter().map(|tensor| {
        u64::try_from(tensor.span().saturating_mul(tensor.elem.size())).unwrap_or(u64::MAX)
    });
    let bytes = bytes.fold(0, u64::saturating_add);
    (bytes > MOST_BYTES).then_some(Why::NotRun(NotRun::OverMemory {
        bytes,
        limit: MOST_BYTES,
    }))
}

/// # Errors
/// Environment, where no worker can be found.
pub fn simulate_all(
    work: &mut Work,
    references: &References,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) -> Result<()> {
    let simulators = Simulators::new()?;
    let began = Instant::now();
    let verdicts = estimate_all(work, &simulators, record, on);
    let estimated = began.elapsed();

    let cases = record.plan.cases.iter();
    work.ready.answers = Answers::compute(
        cases.filter(|case| matches!(verdicts.get(&case.id), Some(Ok(_)))),
        references,
        on,
    );

    let began = Instant::now();
    run_all(work, &verdicts, &simulators, record, on);
    record.costs.reference_ms += milliseconds(work.ready.answers.wall);
    record.costs.simulator_ms = milliseconds(estimated + began.elapsed());
    record.costs.workers += simulators.spent().workers;
    Ok(())
}

/// What a seed of a case costs.
#[derive(Clone, Copy)]
enum Cost {
    About(u64),
    /// A few blocks alone run far past the budget: they may wait for the others, or for ever.
    Unknown,
}

type Estimates = HashMap<CaseId, std::result::Result<Cost, Why>>;

/// Whether each case is to be run, by the first of its seeds.
fn estimate_all(
    work: &Work,
    simulators: &Simulators,
    record: &Record,
    on: &(dyn Fn(Event) + Sync),
) -> Estimates {
    let plan = &record.plan;
    let budget = plan.simulation.budget;
    let admissions = judge::admit(
        plan,
        &record.environment,
        &record.policy,
        &record.evidence,
        Stage::Check,
    );
    let mut estimates = Estimates::new();
    let mut asked: Vec<&Case> = Vec::new();
    let mut jobs = Vec::new();
    for (case, admission) in plan.cases.iter().zip(admissions) {
        let job = match (admission, too_large(case)) {
            (Admission::No { .. }, _) => Err(Why::NotRun(NotRun::EarlierStage)),
            (Admission::Yes, Some(why)) => Err(why),
            (Admission::Yes, None) => work.artifact(plan, &case.id).map(|artifact| EstimateJob {
                case: case.clone(),
                artifact: artifact.clone(),
                seed: case.seeds.first().copied().unwrap_or_default(),
                limit: patience(budget).saturating_mul(PATIENCE_WITH_BLOCKS),
            }),
        };
        match job {
            Ok(job) => {
                asked.push(case);
                jobs.push(Job::Estimate(Box::new(job)));
            }
            Err(why) => {
                estimates.insert(case.id.clone(), Err(why));
            }
        }
    }
    let answers = run_jobs(simulators, &jobs, Phase::Estimate, on, |number| {
        asked.get(number).map(|case| &case.id)
    });
    for (case, answer) in asked.into_iter().zip(answers) {
        estimates.insert(case.id.clone(), decided(case, answer, budget));
    }
    estimates
}

fn decided(case: &Case, answer: Seen<Frame>, budget: u64) -> std::result::Result<Cost, Why> {
    match answer {
        Seen::Got(Frame::Estimated(None)) => Ok(Cost::Unknown),
        Seen::Got(Frame::Estimated(Some(launch))) => {
            let seeds = case.seeds.len().max(1) as u64;
            let whole = launch.saturating_mul(seeds);
            match whole > budget {
                false => Ok(Cost::About(launch)),
                true => Err(Why::NotRun(NotRun::OverBudget {
                    estimate: whole,
                    budget,
                })),
            }
        }
        Seen::Got(other) => Err(Why::Broke(Fault {
            kind: FaultKind::WorkerDied,
            message: format!("the worker answered another question: {other:?}"),
        })),
        // Said again, by each seed, with all checks.
        Seen::Fault(Fault {
            kind: FaultKind::DeviceFault,
            ..
        }) => Ok(Cost::About(0)),
        Seen::Fault(fault) => Err(Why::Broke(fault)),
        Seen::Unsupported(why) => Err(Why::Unsupported(why)),
        Seen::NotRun(why) => Err(Why::NotRun(why)),
    }
}

fn run_all(
    work: &Work,
    estimates: &Estimates,
    simulators: &Simulators,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) {
    let plan = &record.plan;
    let limit = patience(plan.simulation.budget).saturating_mul(PATIENCE);
    let mut found: HashMap<(CaseId, u64), Seen<Simulated>> = HashMap::new();
    let mut jobs: Vec<(u64, &Case, u64, CheckJob)> = Vec::new();
    for case in &plan.cases {
        for (position, &seed) in case.seeds.iter().enumerate() {
            let estimate = match estimates.get(&case.id).cloned() {
                // Nobody knows whether it ends: one seed is enough to see that it does not.
                Some(Ok(Cost::Unknown)) if position > 0 => {
                    Err(Why::NotRun(NotRun::EstimateUnknown))
                }
                Some(estimate) => estimate,
                None => Err(Why::lost("it was not estimated")),
            };
            let job = estimate.and_then(|cost| Ok((cost, work.check_job(plan, case, seed)?)));
            match job {
                Ok((cost, check)) => {
                    let cost = match cost {
                        Cost::About(launch) => launch,
                        Cost::Unknown => u64::MAX,
                    };
                    jobs.push((cost, case, seed, check));
                }
                Err(why) => {
                    found.insert((case.id.clone(), seed), why.into_seen());
                }
            }
        }
    }
    // The longest first, so that no core waits long for another at the end.
    jobs.sort_by_key(|(cost, ..)| Reverse(*cost));
    let threads = (simulators.side_by_side() / jobs.len().max(1)).max(1);
    let (subjects, jobs): (Vec<_>, Vec<_>) = jobs
        .into_iter()
        .map(|(_, case, seed, check)| {
            let job = SimulateJob {
                check,
                limit,
                threads,
            };
            ((case, seed), Job::Simulate(Box::new(job)))
        })
        .unzip();
    let answers = run_jobs(simulators, &jobs, Phase::Simulate, on, |number| {
        subjects.get(number).map(|(case, _)| &case.id)
    });
    for ((case, seed), answer) in subjects.into_iter().zip(answers) {
        let simulated = match answer {
            Seen::Got(Frame::Simulated(simulated)) => Seen::Got(*simulated),
            Seen::Got(other) => Seen::Fault(Fault {
                kind: FaultKind::WorkerDied,
                message: format!("the worker answered another question: {other:?}"),
            }),
            Seen::Fault(fault) => Seen::Fault(fault),
            Seen::Unsupported(why) => Seen::Unsupported(why),
            Seen::NotRun(why) => Seen::NotRun(why),
        };
        found.insert((case.id.clone(), seed), simulated);
    }
    // Into the record in the order of the plan, whichever ended first.
    for case in &plan.cases {
        for &seed in &case.seeds {
            let Some(simulated) = found.remove(&(case.id.clone(), seed)) else {
                continue;
            };
            record.evidence.push(Evidence::Check {
                case: case.id.clone(),
                seed,
                facts: simulated.clone().map(|simulated| simulated.check),
            });
            record.evidence.push(Evidence::Simulation {
                case: case.id.clone(),
                seed,
                facts: simulated.map(|simulated| simulated.simulation),
            });
        }
    }
}

/// All jobs, with progress.
fn run_jobs<'a>(
    simulators: &Simulators,
    jobs: &[Job],
    phase: Phase,
    on: &(dyn Fn(Event) + Sync),
    subject: impl Fn(usize) -> Option<&'a CaseId> + Sync,
) -> Vec<Seen<Frame>> {
    on(Event::Began {
        phase,
        steps: jobs.len() as u64,
    });
    simulators.run(jobs, &|number| {
        on(Event::Stepped {
            phase,
            what: subject(number).map_or(String::new(), CaseId::to_string),
        });
    })
}
