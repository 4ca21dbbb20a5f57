//! Every case in the simulator, where there is no GPU: what each would cost by a sample of its blocks, then
//! those within the budget, all seeds, on all cores.

use super::prepare::Answers;
use super::sources::Sources;
use super::took::Meter;
use super::{EvidenceSide, Side, SkipReason, Work, milliseconds};
use crate::event::{Event, Phase};
use check::cache::References;
use judge::{Admission, Stage};
use model::{
    Arch, Base, Case, Costs, Evidence, Fault, FaultKind, NotRun, Plan, Record, Seen, Unit,
};
use run::device::sim::MOST_BYTES;
use run::worker::{CheckJob, EstimateJob, Frame, Job, SimulateJob, Simulated, Simulators};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;
use system::error::Result;

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
pub(super) fn too_large(case: &Case) -> Option<NotRun> {
    let bytes = case.tensors.iter().map(|tensor| {
        u64::try_from(tensor.span().saturating_mul(tensor.elem.size())).unwrap_or(u64::MAX)
    });
    let bytes = bytes.fold(0, u64::saturating_add);
    (bytes > MOST_BYTES).then_some(NotRun::OverMemory {
        bytes,
        limit: MOST_BYTES,
    })
}

/// Head, and then of the base that alone which head's does not tell; each with the text of its lines.
///
/// # Errors
/// Environment, where no worker can be found.
pub fn simulate_all(
    work: &mut Work,
    sources: &mut Sources,
    references: &References,
    of_base: Option<(&References, Sources)>,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) -> Result<()> {
    let simulators = Simulators::new()?;
    let mut costs = Costs::default();
    let stage = OneSide {
        plan: &record.plan,
        of: EvidenceSide::Head,
        simulators: &simulators,
        took: &work.took,
        on,
    };
    let runs = runs_of_head(record);
    let mut pieces = stage.simulate(&mut work.head, runs, references, &mut costs);
    sources.quote(&mut pieces);
    let digests = work.head.answers.digests(&record.plan);
    EvidenceSide::Head.file(pieces, &mut record.evidence);
    record.evidence.extend(digests);
    if let (Some((references, mut sources)), Some(base)) = (of_base, &record.policy.base) {
        let stage = OneSide {
            plan: &base.plan,
            of: EvidenceSide::Base,
            simulators: &simulators,
            took: &work.took,
            on,
        };
        let runs = runs_of_base(record, base);
        let mut pieces = stage.simulate(&mut work.base, runs, references, &mut costs);
        sources.quote(&mut pieces);
        EvidenceSide::Base.file(pieces, &mut record.evidence);
    }
    record.costs.reference_ms += costs.reference_ms;
    record.costs.simulator_ms = costs.simulator_ms;
    record.costs.workers += simulators.spent().workers;
    Ok(())
}

/// One case by the code for one architecture, all seeds, in the order of the plan; or why it is not run.
struct Run<'a> {
    case: &'a Case,
    /// `None` for the oldest.
    arch: Option<Arch>,
    refused: Option<SkipReason>,
}

/// The work of head or of the base.
struct OneSide<'a> {
    plan: &'a Plan,
    of: EvidenceSide,
    simulators: &'a Simulators,
    took: &'a Meter,
    on: &'a (dyn Fn(Event) + Sync),
}

/// The cost of a case's seed.
#[derive(Clone, Copy)]
enum Cost {
    About(u64),
    /// A few blocks alone run far past the budget: they may wait for the others, or for ever.
    Unknown,
}

type Estimate = std::result::Result<Cost, SkipReason>;

fn runs_of_head(record: &Record) -> Vec<Run<'_>> {
    let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
    let evidence = &record.evidence;
    let admissions = judge::admit(plan, environment, policy, evidence, Stage::Check);
    let cases = judge::to_simulate(plan, environment, policy, evidence);
    let admitted = cases.into_iter().zip(admissions);
    admitted
        .flat_map(|((case, units), admission)| {
            let refused = match admission {
                Admission::No { .. } => Some(SkipReason::NotRun(NotRun::EarlierStage)),
                Admission::Yes => None,
            };
            runs(case, &units, refused)
        })
        .collect()
}

fn runs_of_base<'a>(record: &'a Record, base: &'a Base) -> Vec<Run<'a>> {
    let (environment, policy) = (&record.environment, &record.policy);
    let evidence = &record.evidence;
    let needed = judge::needed_of_base(&record.plan, environment, policy, evidence);
    let pieces = evidence.iter().filter_map(Evidence::of_base);
    let cases = judge::to_simulate(&base.plan, environment, policy, pieces);
    let needed = cases
        .into_iter()
        .filter(|(case, _)| needed.contains(&case.id));
    needed
        .flat_map(|(case, units)| runs(case, &units, None))
        .collect()
}

fn runs<'a>(case: &'a Case, units: &[&Unit], refused: Option<SkipReason>) -> Vec<Run<'a>> {
    let further = units.iter().skip(1).map(|unit| Some(unit.id.arch));
    std::iter::once(None)
        .chain(further)
        .map(|arch| Run {
            case,
            arch,
            refused: refused.clone(),
        })
        .collect()
}

impl OneSide<'_> {
    /// Evidence in the order of the runs.
    fn simulate(
        &self,
        side: &mut Side,
        runs: Vec<Run>,
        references: &References,
        costs: &mut Costs,
    ) -> Vec<Evidence> {
        let began = Instant::now();
        let estimates = self.estimate_all(side, &runs);
        let estimated = began.elapsed();

        let simulated = runs.iter().zip(&estimates);
        let mut cases: Vec<&Case> = simulated
            .filter(|(_, estimate)| estimate.is_ok())
            .map(|(run, _)| run.case)
            .collect();
        // Architectures of one case have one answer.
        cases.dedup_by_key(|case| &case.id);
        side.answers = Answers::compute(cases.into_iter(), references, self.on);

        let began = Instant::now();
        let evidence = self.run_all(side, &runs, estimates);
        costs.reference_ms += milliseconds(side.answers.wall);
        costs.simulator_ms += milliseconds(estimated + began.elapsed());
        evidence
    }

    /// Whether each is to be run, by the first of its seeds.
    fn estimate_all(&self, side: &Side, runs: &[Run]) -> Vec<Estimate> {
        let budget = self.plan.simulation.budget;
        let mut jobs = Vec::new();
        let mut asked = Vec::new();
        let whys: Vec<Option<SkipReason>> = runs
            .iter()
            .map(|run| {
                let case = run.case;
                let artifact = match run
                    .refused
                    .clone()
                    .or_else(|| too_large(case).map(SkipReason::NotRun))
                {
                    Some(why) => Err(why),
                    None => side.artifact(self.plan, &case.id, run.arch),
                };
                match artifact {
                    Err(why) => Some(why),
                    Ok(artifact) => {
                        asked.push(run);
                        jobs.push(Job::Estimate(Box::new(EstimateJob {
                            case: case.clone(),
                            artifact: artifact.clone(),
                            seed: case.seeds.first().copied().unwrap_or_default(),
                            limit: patience(budget).saturating_mul(PATIENCE_WITH_BLOCKS),
                        })));
                        None
                    }
                }
            })
            .collect();
        let answers = self.run_jobs(&jobs, Phase::Estimate, |number| asked.get(number).copied());
        let mut answers = answers.into_iter();
        let whys = runs.iter().zip(whys);
        whys.map(|(run, why)| match why {
            Some(why) => Err(why),
            None => {
                let answer = answers
                    .next()
                    .ok_or_else(|| SkipReason::lost("it was not estimated"))?;
                // A drawn seed takes no check from a case that was small enough without it.
                let drawn = usize::from(self.plan.drawn.is_some());
                let seeds = run.case.seeds.len().saturating_sub(drawn);
                decided(seeds, answer, budget)
            }
        })
        .collect()
    }

    fn run_all(&self, side: &Side, runs: &[Run], estimates: Vec<Estimate>) -> Vec<Evidence> {
        let limit = patience(self.plan.simulation.budget).saturating_mul(PATIENCE);
        // By run and seed, each in its order.
        let mut found: BTreeMap<(usize, usize), Seen<Simulated>> = BTreeMap::new();
        let mut jobs: Vec<(u64, (usize, usize), CheckJob)> = Vec::new();
        for (number, (run, estimate)) in runs.iter().zip(estimates).enumerate() {
            for (position, &seed) in run.case.seeds.iter().enumerate() {
                let estimate = match estimate.clone() {
                    // Nobody knows whether it ends: one seed is enough to see that it does not.
                    Ok(Cost::Unknown) if position > 0 => {
                        Err(SkipReason::NotRun(NotRun::EstimateUnknown))
                    }
                    estimate => estimate,
                };
                let job = estimate.and_then(|cost| {
                    let check = side.check_job(self.plan, run.case, run.arch, seed)?;
                    Ok((cost, check))
                });
                let place = (number, position);
                match job {
                    Ok((Cost::About(launch), check)) => jobs.push((launch, place, check)),
                    Ok((Cost::Unknown, check)) => jobs.push((u64::MAX, place, check)),
                    Err(why) => {
                        found.insert(place, why.into_seen());
                    }
                }
            }
        }
        // The longest first, so that no core waits long for another at the end.
        jobs.sort_by_key(|(cost, ..)| Reverse(*cost));
        let threads = (self.simulators.side_by_side() / jobs.len().max(1)).max(1);
        let (places, jobs): (Vec<_>, Vec<_>) = jobs
            .into_iter()
            .map(|(_, place, check)| {
                let job = SimulateJob {
                    check,
                    limit,
                    threads,
                };
                (place, Job::Simulate(Box::new(job)))
            })
            .unzip();
        let answers = self.run_jobs(&jobs, Phase::Simulate, |number| {
            places.get(number).and_then(|(run, _)| runs.get(*run))
        });
        found.extend(places.into_iter().zip(answers.into_iter().map(simulated)));
        let in_order = found.into_iter().filter_map(|((run, position), seen)| {
            let run = runs.get(run)?;
            Some((run, *run.case.seeds.get(position)?, seen))
        });
        in_order
            .flat_map(|(run, seed, seen)| {
                let (case, arch) = (&run.case.id, run.arch);
                [
                    Evidence::Check {
                        case: case.clone(),
                        arch,
                        seed,
                        facts: seen.clone().map(|simulated| simulated.check),
                    },
                    Evidence::Simulation {
                        case: case.clone(),
                        arch,
                        seed,
                        facts: seen.map(|simulated| simulated.simulation),
                    },
                ]
            })
            .collect()
    }

    /// All jobs, with progress.
    fn run_jobs<'a>(
        &self,
        jobs: &[Job],
        phase: Phase,
        subject: impl Fn(usize) -> Option<&'a Run<'a>> + Sync,
    ) -> Vec<Seen<Frame>> {
        (self.on)(Event::Began {
            phase,
            steps: jobs.len() as u64,
        });
        self.simulators.run(jobs, &|number, wall| {
            let threads = match jobs.get(number) {
                Some(Job::Simulate(job)) => u32::try_from(job.threads).unwrap_or(u32::MAX),
                _ => 1,
            };
            if let Some(run) = subject(number) {
                self.took.add(&run.case.id, wall.saturating_mul(threads));
            }
            (self.on)(Event::Stepped {
                phase,
                what: subject(number).map_or(String::new(), |run| {
                    let arch = run.arch.map_or(String::new(), |arch| format!(" [{arch}]"));
                    format!("{}{}{arch}", self.of.heading(), run.case.id)
                }),
            });
        })
    }
}

fn simulated(answer: Seen<Frame>) -> Seen<Simulated> {
    match answer {
        Seen::Got(Frame::Simulated(simulated)) => Seen::Got(*simulated),
        Seen::Got(other) => Seen::Fault(Fault::new(
            FaultKind::WorkerDied,
            format!("unexpected reply from the worker: {other:?}"),
        )),
        Seen::Fault(fault) => Seen::Fault(fault),
        Seen::Unsupported(why) => Seen::Unsupported(why),
        Seen::NotRun(why) => Seen::NotRun(why),
    }
}

fn decided(
    seeds: usize,
    answer: Seen<Frame>,
    budget: u64,
) -> std::result::Result<Cost, SkipReason> {
    match answer {
        Seen::Got(Frame::Estimated(None)) => Ok(Cost::Unknown),
        Seen::Got(Frame::Estimated(Some(launch))) => {
            let whole = launch.saturating_mul(seeds.max(1) as u64);
            match whole > budget {
                false => Ok(Cost::About(launch)),
                true => Err(SkipReason::NotRun(NotRun::OverBudget {
                    estimate: whole,
                    budget,
                })),
            }
        }
        Seen::Got(other) => Err(SkipReason::Broke(Fault::new(
            FaultKind::WorkerDied,
            format!("unexpected reply from the worker: {other:?}"),
        ))),
        // Said again, by each seed, with all checks.
        Seen::Fault(Fault {
            kind: FaultKind::DeviceFault,
            ..
        }) => Ok(Cost::About(0)),
        Seen::Fault(fault) => Err(SkipReason::Broke(fault)),
        Seen::Unsupported(why) => Err(SkipReason::Unsupported(why)),
        Seen::NotRun(why) => Err(SkipReason::NotRun(why)),
    }
}
