//! Simulates every case if there is no GPU: first it estimates each case from a sample of its blocks, then it simulates
//! those within the budget, all seeds, on all cores. What an earlier run has simulated is not simulated again.

use super::answers::Answers;
use super::check::log_admission;
use super::plan::Planned;
use super::results::{KeptResult, ResultKey, Results, SimulatorTask};
use super::took::{Meter, milliseconds};
use super::work::{EvidenceSide, SharedWork, SkipReason, WorkSide};
use crate::event::{Event, Phase};
use check::cache::References;
use judge::{Admission, Stage};
use model::{
    Arch, Base, Case, CaseId, Costs, Evidence, Fault, FaultKind, NotRun, Plan, Record, Seen, Unit,
};
use run::device::sim::too_large;
use run::worker::{EstimateJob, Frame, Job, SimulateJob, Simulated, Simulators};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use system::error::Result;

/// How many times the budget of its whole case a launch may run before it counts as endless. The estimate used a few
/// blocks, and others may have more to do.
const PATIENCE: u64 = 2;

/// The least number of warp instructions that are spent to see whether a few blocks end, however small the budget is.
/// An endless loop must not count as a case that is too large.
const LEAST_PATIENCE: u64 = 10_000_000;

/// How many times the budget of their case a few blocks may run before they count as endless. Blocks that pass it alone
/// have much to do, and their cost says how much the whole would have.
const PATIENCE_WITH_BLOCKS: u64 = 8;

fn patience(budget: u64) -> u64 {
    budget.max(LEAST_PATIENCE)
}

/// Simulates head, and then those cases of the base that head's results do not settle. Evidence has the text of its
/// lines.
///
/// # Errors
/// Fails with an environment error if no worker can be started.
pub fn simulate_all(
    planned: &Planned,
    work: &mut SharedWork,
    results: &Results,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) -> Result<()> {
    let simulators = Simulators::new()?;
    let mut costs = Costs::default();
    let stage = OneSide {
        plan: &record.plan,
        of: EvidenceSide::Head,
        simulators: &simulators,
        results,
        took: &work.took,
        on,
    };
    let runs = runs_of_head(record);
    let mut pieces = stage.simulate(&mut work.head, runs, &planned.references, &mut costs);
    planned.sources().quote(&mut pieces);
    let digests = work.head.answers.digests(&record.plan);
    EvidenceSide::Head.file(pieces, &mut record.evidence);
    record.evidence.extend(digests);
    if let (Some(tree), Some(base)) = (&planned.base, &record.policy.base) {
        let stage = OneSide {
            plan: &base.plan,
            of: EvidenceSide::Base,
            simulators: &simulators,
            results,
            took: &work.took,
            on,
        };
        let runs = runs_of_base(record, base);
        let mut pieces = stage.simulate(&mut work.base, runs, &tree.references, &mut costs);
        tree.sources().quote(&mut pieces);
        EvidenceSide::Base.file(pieces, &mut record.evidence);
    }
    record.costs.reference_ms += costs.reference_ms;
    record.costs.simulator_ms = costs.simulator_ms;
    record.costs.workers += simulators.spent().workers;
    Ok(())
}

/// Simulates the code that a GPU has just run, for the findings that only the simulator has. It keeps all cores busy,
/// so no time may be taken meanwhile.
///
/// # Errors
/// Fails with an environment error if no worker can be started.
pub fn simulate_beside_gpu(
    planned: &Planned,
    work: &SharedWork,
    results: &Results,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) -> Result<()> {
    let simulators = Simulators::new()?;
    let stage = OneSide {
        plan: &record.plan,
        of: EvidenceSide::Head,
        simulators: &simulators,
        results,
        took: &work.took,
        on,
    };
    let mut side = WorkSide {
        device: work.head.device.clone(),
        artifacts: work.head.artifacts.clone(),
        answers: Answers::default(),
        dump: None,
    };
    let mut costs = Costs::default();
    let runs = admitted(record).map(|(case, refused)| CaseSimulation {
        case,
        arch: None,
        refused,
    });
    let runs = runs.collect();
    let mut pieces = stage.simulate(&mut side, runs, &planned.references, &mut costs);
    // Values are checked on the GPU.
    pieces.retain(|piece| !matches!(piece, Evidence::Check { .. }));
    planned.sources().quote(&mut pieces);
    EvidenceSide::Head.file(pieces, &mut record.evidence);
    record.costs.reference_ms += costs.reference_ms;
    record.costs.simulator_ms += costs.simulator_ms;
    record.costs.workers += simulators.spent().workers;
    Ok(())
}

/// Returns each case, with the reason if it is not run.
fn admitted(record: &Record) -> impl Iterator<Item = (&Case, Option<SkipReason>)> {
    let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
    let admissions = judge::admit(plan, environment, policy, &record.evidence, Stage::Check);
    plan.cases
        .iter()
        .zip(admissions)
        .inspect(|(case, admission)| log_admission(&case.id, admission))
        .map(|(case, admission)| match admission {
            Admission::No { .. } => (case, Some(SkipReason::NotRun(NotRun::EarlierStage))),
            Admission::Yes => (case, None),
        })
}

/// One case with the code for one architecture, all seeds, in the order of the plan, or why it is not run.
struct CaseSimulation<'a> {
    case: &'a Case,
    /// The architecture, or `None` for the oldest one.
    arch: Option<Arch>,
    refused: Option<SkipReason>,
}

/// The work on head or on the base.
struct OneSide<'a> {
    plan: &'a Plan,
    of: EvidenceSide,
    simulators: &'a Simulators,
    results: &'a Results,
    took: &'a Meter,
    on: &'a (dyn Fn(Event) + Sync),
}

/// The cost of one seed of a case.
#[derive(Clone, Copy)]
enum Cost {
    About(u64),
    /// A few blocks alone run far past the budget. They may wait for the others, or for ever.
    Unknown,
}

type Estimate = std::result::Result<Cost, SkipReason>;

/// The position of a run, and the position of one of its seeds.
type SeedPosition = (usize, usize);

/// One seed of a run that is to be simulated.
struct SeedQuestion<'a> {
    place: SeedPosition,
    run: &'a CaseSimulation<'a>,
    seed: u64,
    /// The cost of one launch, by which the work is ordered.
    cost: u64,
    /// `None` if its answer is not kept.
    key: Option<ResultKey>,
}

/// One seed of a run, simulated or not.
struct SeedOutcome {
    seen: Seen<Simulated>,
    /// The start of the run that simulated it, if that was an earlier one.
    since: Option<String>,
}

impl From<Seen<Simulated>> for SeedOutcome {
    fn from(seen: Seen<Simulated>) -> Self {
        Self { seen, since: None }
    }
}

/// A job, and the name under which its answer is kept.
type NamedJob = (Job, Option<ResultKey>);

fn runs_of_head(record: &Record) -> Vec<CaseSimulation<'_>> {
    let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
    let cases = judge::to_simulate(plan, environment, policy, &record.evidence);
    let refusals = admitted(record).map(|(_, refused)| refused);
    cases
        .into_iter()
        .zip(refusals)
        .flat_map(|((case, units), refused)| runs(case, &units, refused))
        .collect()
}

fn runs_of_base<'a>(record: &'a Record, base: &'a Base) -> Vec<CaseSimulation<'a>> {
    let (environment, policy) = (&record.environment, &record.policy);
    let evidence = &record.evidence;
    let needed = judge::needed_of_base(&record.plan, environment, policy, evidence);
    let pieces = evidence.iter().filter_map(Evidence::as_base);
    let cases = judge::to_simulate(&base.plan, environment, policy, pieces);
    cases
        .into_iter()
        .filter(|(case, _)| needed.contains(&case.id))
        .flat_map(|(case, units)| runs(case, &units, None))
        .collect()
}

fn runs<'a>(
    case: &'a Case,
    units: &[&Unit],
    refused: Option<SkipReason>,
) -> Vec<CaseSimulation<'a>> {
    let further = units.iter().skip(1).map(|unit| Some(unit.id.arch));
    std::iter::once(None)
        .chain(further)
        .map(|arch| CaseSimulation {
            case,
            arch,
            refused: refused.clone(),
        })
        .collect()
}

impl OneSide<'_> {
    /// Simulates runs, and returns evidence in their order.
    fn simulate(
        &self,
        side: &mut WorkSide,
        runs: Vec<CaseSimulation>,
        references: &References,
        costs: &mut Costs,
    ) -> Vec<Evidence> {
        let began = Instant::now();
        let estimates = self.estimate_all(side, &runs);
        let mut found = BTreeMap::new();
        let mut questions = self.questions(side, &runs, estimates, references, &mut found);
        let mut digests = Vec::new();
        questions.retain(|question| match self.reuse(question) {
            Some((outcome, outputs)) => {
                digests.push((question.run.case, question.seed, outputs));
                found.insert(question.place, outcome);
                false
            }
            None => true,
        });
        let looked_up = began.elapsed();

        // Architectures of one case have one answer.
        let mut seeds: Vec<(&Case, u64)> = questions
            .iter()
            .map(|question| (question.run.case, question.seed))
            .collect();
        seeds.sort_by_key(|(case, seed)| (&case.id, *seed));
        seeds.dedup_by_key(|(case, seed)| (&case.id, *seed));
        side.answers = Answers::compute_seeds(seeds, references, self.on);
        for (case, seed, outputs) in digests {
            if let Some(outputs) = outputs {
                side.answers.add_digests(&case.id, seed, outputs);
            }
        }

        let began = Instant::now();
        self.run_all(side, questions, &mut found);
        costs.reference_ms += milliseconds(side.answers.wall);
        costs.simulator_ms += milliseconds(looked_up + began.elapsed());
        evidence(&runs, found)
    }

    /// Estimates, by the first seed of each run, whether the run is to be simulated.
    fn estimate_all(&self, side: &WorkSide, runs: &[CaseSimulation]) -> Vec<Estimate> {
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
                        let code = self.results.code(&artifact);
                        let job = EstimateJob {
                            case: case.clone(),
                            artifact,
                            seed: case.seeds.first().copied().unwrap_or_default(),
                            limit: patience(budget).saturating_mul(PATIENCE_WITH_BLOCKS),
                        };
                        let key = code.and_then(|code| {
                            let asked = SimulatorTask::Estimate;
                            self.results.key(case, code, job.seed, job.limit, asked)
                        });
                        jobs.push((Job::Estimate(Box::new(job)), key));
                        None
                    }
                }
            })
            .collect();
        let mut answers = self.estimate_jobs(jobs, &asked).into_iter();
        runs.iter()
            .zip(whys)
            .map(|(run, why)| match why {
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

    /// Estimates jobs from earlier runs, or else with the simulator.
    fn estimate_jobs(&self, jobs: Vec<NamedJob>, asked: &[&CaseSimulation]) -> Vec<Seen<Frame>> {
        let known: Vec<Option<Seen<Frame>>> = jobs
            .iter()
            .map(|(_, key)| {
                let kept = self.results.find(key.as_ref()?)?;
                Some(kept.answer)
            })
            .collect();
        let (jobs, runs): (Vec<NamedJob>, Vec<&CaseSimulation>) = jobs
            .into_iter()
            .zip(asked)
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|((job, run), _)| (job, *run))
            .unzip();
        let answers = self.run_jobs(jobs, Phase::Estimate, &runs, |_| None);
        let mut answers = answers.into_iter();
        known
            .into_iter()
            .filter_map(|known| known.or_else(|| answers.next()))
            .collect()
    }

    /// Returns the seeds to simulate, and puts all others into `found`.
    fn questions<'r>(
        &self,
        side: &WorkSide,
        runs: &'r [CaseSimulation<'r>],
        estimates: Vec<Estimate>,
        references: &References,
        found: &mut BTreeMap<SeedPosition, SeedOutcome>,
    ) -> Vec<SeedQuestion<'r>> {
        let mut questions = Vec::new();
        for (number, (run, estimate)) in runs.iter().zip(estimates).enumerate() {
            for (position, &seed) in run.case.seeds.iter().enumerate() {
                let place = (number, position);
                let cost = match estimate.clone() {
                    Ok(Cost::About(launch)) => Ok(launch),
                    Ok(Cost::Unknown) if position == 0 => Ok(u64::MAX),
                    // Nobody knows whether the launch ends, and one seed is enough to see that it does not.
                    Ok(Cost::Unknown) => Err(SkipReason::NotRun(NotRun::EstimateUnknown)),
                    Err(why) => Err(why),
                };
                match cost {
                    Ok(cost) => questions.push(SeedQuestion {
                        place,
                        run,
                        seed,
                        cost,
                        key: self.key(side, run, seed, references),
                    }),
                    Err(why) => {
                        found.insert(place, why.into_seen().into());
                    }
                }
            }
        }
        questions
    }

    /// Returns the name of a question, or `None` if files are also wanted of it, or if it has no name.
    fn key(
        &self,
        side: &WorkSide,
        run: &CaseSimulation,
        seed: u64,
        references: &References,
    ) -> Option<ResultKey> {
        if side.dump.is_some() {
            return None;
        }
        let (case, results) = (run.case, self.results);
        let artifact = side.artifact(self.plan, &case.id, run.arch).ok()?;
        let expected = results.expected(references, (case, seed), |variant| {
            let variant = variant.to_owned();
            let id = CaseId {
                variant,
                ..case.id.clone()
            };
            let artifact = side.artifact(self.plan, &id, run.arch).ok()?;
            Some((self.plan.case(&id)?.clone(), artifact))
        })?;
        let asked = SimulatorTask::Simulation {
            later_seed: self.plan.later_seed(case, seed),
            expected,
        };
        results.key(case, results.code(&artifact)?, seed, self.limit(), asked)
    }

    fn limit(&self) -> u64 {
        patience(self.plan.simulation.budget).saturating_mul(PATIENCE)
    }

    /// Returns the outcome of an earlier run, and the digests of the outputs that it was compared with.
    fn reuse(
        &self,
        question: &SeedQuestion,
    ) -> Option<(SeedOutcome, Option<BTreeMap<String, String>>)> {
        let KeptResult {
            since,
            took,
            outputs,
            answer,
        } = self.results.find(question.key.as_ref()?)?;
        self.took.add(&question.run.case.id, took);
        let outcome = SeedOutcome {
            seen: simulated(answer),
            since: Some(since),
        };
        Some((outcome, outputs))
    }

    fn run_all(
        &self,
        side: &WorkSide,
        mut questions: Vec<SeedQuestion>,
        found: &mut BTreeMap<SeedPosition, SeedOutcome>,
    ) {
        // The longest goes first, so that no core waits long for another at the end.
        questions.sort_by_key(|question| Reverse(question.cost));
        let threads = (self.simulators.side_by_side() / questions.len().max(1)).max(1);
        let mut jobs = Vec::new();
        let mut asked = Vec::new();
        let mut places = Vec::new();
        for SeedQuestion {
            place,
            run,
            seed,
            key,
            ..
        } in questions
        {
            match side.check_job(self.plan, run.case, run.arch, seed) {
                Ok(check) => {
                    let job = SimulateJob {
                        check,
                        limit: self.limit(),
                        threads,
                    };
                    jobs.push((Job::Simulate(Box::new(job)), key));
                    asked.push((run, seed));
                    places.push(place);
                }
                Err(why) => {
                    found.insert(place, why.into_seen().into());
                }
            }
        }
        let runs: Vec<&CaseSimulation> = asked.iter().map(|(run, _)| *run).collect();
        let answers = self.run_jobs(jobs, Phase::Simulate, &runs, |number| {
            let (run, seed) = asked.get(number)?;
            side.answers.digests_of(&run.case.id, *seed)
        });
        let outcomes = answers.into_iter().map(|answer| simulated(answer).into());
        found.extend(places.into_iter().zip(outcomes));
    }

    /// Runs all jobs, with progress. Their answers are kept for later runs, with the digests of `outputs`.
    fn run_jobs(
        &self,
        jobs: Vec<NamedJob>,
        phase: Phase,
        runs: &[&CaseSimulation],
        outputs: impl Fn(usize) -> Option<BTreeMap<String, String>> + Sync,
    ) -> Vec<Seen<Frame>> {
        (self.on)(Event::Began {
            phase,
            steps: jobs.len() as u64,
        });
        let (jobs, keys): (Vec<Job>, Vec<Option<ResultKey>>) = jobs.into_iter().unzip();
        self.simulators.run(&jobs, &|number, answer, wall| {
            let threads = match jobs.get(number) {
                Some(Job::Simulate(job)) => u32::try_from(job.threads).unwrap_or(u32::MAX),
                _ => 1,
            };
            let took: Duration = wall.saturating_mul(threads);
            if let Some(Some(key)) = keys.get(number) {
                self.results.keep(key, answer, took, outputs(number));
            }
            let run = runs.get(number);
            if let Some(run) = run {
                self.took.add(&run.case.id, took);
            }
            (self.on)(Event::Stepped {
                phase,
                what: run.map_or(String::new(), |run| {
                    let arch = run.arch.map_or(String::new(), |arch| format!(" [{arch}]"));
                    format!("{}{}{arch}", self.of.heading(), run.case.id)
                }),
            });
        })
    }
}

/// Returns evidence in the order of runs and seeds.
fn evidence(runs: &[CaseSimulation], found: BTreeMap<SeedPosition, SeedOutcome>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for ((number, position), SeedOutcome { seen, since }) in found {
        let Some(run) = runs.get(number) else {
            continue;
        };
        let (Some(&seed), case, arch) = (run.case.seeds.get(position), &run.case.id, run.arch)
        else {
            continue;
        };
        evidence.push(Evidence::Check {
            case: case.clone(),
            arch,
            seed,
            facts: seen.clone().map(|simulated| simulated.check),
        });
        evidence.push(Evidence::Simulation {
            case: case.clone(),
            arch,
            seed,
            facts: seen.map(|simulated| simulated.simulation),
        });
        evidence.extend(since.map(|since| Evidence::Reused {
            case: case.clone(),
            arch,
            seed,
            since,
        }));
    }
    evidence
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
            if whole > budget {
                Err(SkipReason::NotRun(NotRun::OverBudget {
                    estimate: whole,
                    budget,
                }))
            } else {
                Ok(Cost::About(launch))
            }
        }
        Seen::Got(other) => Err(SkipReason::Broke(Fault::new(
            FaultKind::WorkerDied,
            format!("unexpected reply from the worker: {other:?}"),
        ))),
        // Each seed repeats the launch, with all checks.
        Seen::Fault(Fault {
            kind: FaultKind::DeviceFault,
            ..
        }) => Ok(Cost::About(0)),
        Seen::Fault(fault) => Err(SkipReason::Broke(fault)),
        Seen::Unsupported(why) => Err(SkipReason::Unsupported(why)),
        Seen::NotRun(why) => Err(SkipReason::NotRun(why)),
    }
}
