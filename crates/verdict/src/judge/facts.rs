//! Evidence of one run by what it is about, and what its absence means.
//!
//! Every look-up ends in a value or in a [`Ruling`]: there is no third way, and no default.

use super::words;
use crate::model::*;
use crate::stats::sequential::{Schedule, Undecidable};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt::Display;

/// Why there is no value, and what a gate that needs it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub outcome: Outcome,
    pub reason: String,
}

pub type Found<T> = Result<T, Ruling>;

pub(super) fn ruling<T>(outcome: Outcome, reason: impl Into<String>) -> Found<T> {
    Err(Ruling {
        outcome,
        reason: reason.into(),
    })
}

pub(super) fn inconclusive<T>(reason: impl Into<String>) -> Found<T> {
    ruling(Outcome::Inconclusive, reason)
}

/// What is known of one run.
pub struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) environment: &'a Environment,
    pub(super) policy: &'a Policy,
    builds: HashMap<&'a UnitId, Vec<&'a Seen<BuildFacts>>>,
    checks: HashMap<(&'a CaseId, u64), Vec<&'a Seen<CheckFacts>>>,
    simulations: HashMap<(&'a CaseId, u64), Vec<&'a Seen<SimulationFacts>>>,
    drivers: HashMap<&'a CaseId, Vec<&'a Seen<DriverFacts>>>,
    times: HashMap<&'a CaseId, Vec<(u32, &'a Seen<TimeFacts>)>>,
    base_builds: HashMap<&'a UnitId, Vec<&'a Seen<BuildFacts>>>,
    pairs: HashMap<&'a CaseId, Vec<(u32, &'a Seen<PairFacts>)>>,
    /// Of all contests beside the base, once one is asked for.
    pub(super) schedule: OnceCell<Result<Schedule, Undecidable>>,
}

impl<'a> Facts<'a> {
    pub fn new(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
    ) -> Self {
        let mut facts = Self {
            plan,
            environment,
            policy,
            builds: HashMap::new(),
            checks: HashMap::new(),
            simulations: HashMap::new(),
            drivers: HashMap::new(),
            times: HashMap::new(),
            base_builds: HashMap::new(),
            pairs: HashMap::new(),
            schedule: OnceCell::new(),
        };
        for piece in evidence {
            match piece {
                Evidence::Build { unit, facts: seen } => {
                    facts.builds.entry(unit).or_default().push(seen);
                }
                Evidence::Check {
                    case,
                    seed,
                    facts: seen,
                } => {
                    facts.checks.entry((case, *seed)).or_default().push(seen);
                }
                Evidence::Simulation {
                    case,
                    seed,
                    facts: seen,
                } => {
                    let seeds = facts.simulations.entry((case, *seed));
                    seeds.or_default().push(seen);
                }
                Evidence::Driver { case, facts: seen } => {
                    facts.drivers.entry(case).or_default().push(seen);
                }
                Evidence::Time {
                    case,
                    process,
                    facts: seen,
                } => {
                    facts.times.entry(case).or_default().push((*process, seen));
                }
                Evidence::BaseBuild { unit, facts: seen } => {
                    facts.base_builds.entry(unit).or_default().push(seen);
                }
                Evidence::Pair {
                    case,
                    process,
                    facts: seen,
                } => {
                    facts.pairs.entry(case).or_default().push((*process, seen));
                }
            }
        }
        for processes in facts.times.values_mut() {
            processes.sort_by_key(|(process, _)| *process);
        }
        for processes in facts.pairs.values_mut() {
            processes.sort_by_key(|(process, _)| *process);
        }
        facts
    }

    /// Of a Plan that does not have it: left out by a filter, or a gate on something that never was.
    fn planned<T>(&self, found: Option<T>, kernel: &str, what: impl Display) -> Found<T> {
        match found {
            Some(found) => Ok(found),
            None if self.plan.is_partial(kernel) => ruling(
                Outcome::Skipped,
                format!("{what} was not selected for this run"),
            ),
            None => inconclusive(format!("{what} is not in the plan")),
        }
    }

    pub(super) fn unit(&self, id: &UnitId) -> Found<&'a Unit> {
        self.planned(self.plan.unit(id), &id.kernel, id)
    }

    pub(super) fn case(&self, id: &CaseId) -> Found<&'a Case> {
        self.planned(self.plan.case(id), &id.kernel, id)
    }

    /// Cases of a unit, in the order of the plan.
    pub(super) fn cases_of(&self, unit: &UnitId) -> impl Iterator<Item = &'a Case> {
        let (kernel, variant) = (unit.kernel.clone(), unit.variant.clone());
        self.plan
            .cases
            .iter()
            .filter(move |case| case.id.kernel == kernel && case.id.variant == variant)
    }

    pub(super) fn device(&self) -> Found<&'a DeviceFacts> {
        only(&self.environment.device, "device")
    }

    /// A GPU goes before a simulator.
    pub(super) fn executor(&self) -> Found<Executor<'a>> {
        match (self.device(), &self.environment.simulator) {
            (Ok(device), _) => Ok(Executor::Gpu(device)),
            (Err(_), Some(simulator)) => Ok(Executor::Simulator(simulator)),
            (Err(ruling), None) => Err(ruling),
        }
    }

    /// Times of another program, of whose kernels nothing else is known.
    pub(super) fn is_foreign(&self) -> bool {
        self.environment.timed_by.is_some()
    }

    pub(super) fn is_simulated(&self) -> bool {
        matches!(self.executor(), Ok(Executor::Simulator(_)))
    }

    pub(super) fn compiler(&self) -> Found<&'a CompilerFacts> {
        only(&self.environment.compiler, "compiler")
    }

    /// The unit whose code this run executes for a case.
    pub(super) fn unit_on_device(&self, case: &CaseId) -> Found<&'a Unit> {
        self.case(case)?;
        match self.executor()? {
            Executor::Gpu(device) => match unit_for(self.plan, case, device) {
                Some(unit) => Ok(unit),
                None => ruling(
                    // Who requires a GPU requires that something runs on it.
                    match self.policy.require_gpu {
                        true => Outcome::Environment,
                        false => Outcome::Unsupported,
                    },
                    format!(
                        "no architecture that {}/{} declares runs on {} ({})",
                        case.kernel,
                        case.variant,
                        device.name,
                        device.arch()
                    ),
                ),
            },
            Executor::Simulator(_) => {
                self.planned(unit_to_simulate(self.plan, case), &case.kernel, case)
            }
        }
    }

    pub(super) fn build(&self, unit: &UnitId) -> Found<&'a BuildFacts> {
        self.unit(unit)?;
        match self.builds.get(unit) {
            None => {
                self.compiler()?;
                inconclusive(format!("no evidence of a build of {unit}"))
            }
            Some(seen) => single(seen, format_args!("the build of {unit}")),
        }
    }

    /// Of a unit of the base revision; whatever became of it there is no failure of head.
    pub(super) fn base_build(&self, unit: &UnitId) -> Found<&'a BuildFacts> {
        let seen = self.base_builds.get(unit).map_or(&[][..], Vec::as_slice);
        single(seen, format_args!("the build of the base's {unit}")).map_err(|why| Ruling {
            outcome: Outcome::Inconclusive,
            reason: format!("the base revision was not built: {}", why.reason),
        })
    }

    /// Processes that timed a case beside the base, in order.
    pub(super) fn paired(&self, case: &CaseId) -> &[(u32, &'a Seen<PairFacts>)] {
        self.pairs.get(case).map_or(&[], Vec::as_slice)
    }

    pub(super) fn check(&self, case: &CaseId, seed: u64) -> Found<&'a CheckFacts> {
        self.required(case)?;
        match self.checks.get(&(case, seed)) {
            None => {
                self.executor()?;
                inconclusive(format!("no evidence of a check of {case} with seed {seed}"))
            }
            Some(seen) => single(seen, format_args!("the check of {case} with seed {seed}")),
        }
    }

    pub(super) fn simulation(&self, case: &CaseId, seed: u64) -> Found<&'a SimulationFacts> {
        self.case(case)?;
        if let Executor::Gpu(_) = self.executor()? {
            return ruling(Outcome::Skipped, words::NOT_SIMULATED);
        }
        let what = format_args!("a simulation of {case} with seed {seed}");
        match self.simulations.get(&(case, seed)) {
            None => inconclusive(format!("no evidence of {what}")),
            Some(seen) => single(seen, what),
        }
    }

    /// Where a GPU is required, that the case runs on the one that is there: not run is else a mere skip.
    fn required(&self, case: &CaseId) -> Found<()> {
        self.case(case)?;
        match self.device() {
            Ok(_) if self.policy.require_gpu => self.unit_on_device(case).map(drop),
            _ => Ok(()),
        }
    }

    pub(super) fn driver(&self, case: &CaseId) -> Found<&'a DriverFacts> {
        self.required(case)?;
        match self.drivers.get(case) {
            None => self.absent(format_args!("what the driver says of {case}")),
            Some(seen) => single(seen, format_args!("what the driver says of {case}")),
        }
    }

    /// How many timing processes there were of a case, whatever became of them.
    pub(super) fn processes(&self, case: &CaseId) -> u32 {
        self.times
            .get(case)
            .map_or(0, |seen| u32::try_from(seen.len()).unwrap_or(u32::MAX))
    }

    /// Whether one of the timing processes of a case broke or was not run.
    pub(super) fn timing_ended(&self, case: &CaseId) -> bool {
        self.times
            .get(case)
            .is_some_and(|seen| seen.iter().any(|(_, seen)| seen.got().is_none()))
    }

    pub(super) fn throttled(&self, case: &CaseId) -> u32 {
        self.count(case, |facts| facts.gpu.throttled)
    }

    /// Processes of which nobody knows whether they were throttled.
    pub(super) fn unwatched(&self, case: &CaseId) -> u32 {
        self.count(case, |facts| {
            facts.gpu.throttle_reasons.is_none() && !facts.gpu.throttled
        })
    }

    pub(super) fn shared(&self, case: &CaseId) -> u32 {
        self.count(case, |facts| {
            let others = facts.gpu.other_processes.as_ref();
            others.is_some_and(|others| !others.is_empty())
        })
    }

    /// Everyone who computed on the GPU while the case was timed, once each.
    pub(super) fn others(&self, case: &CaseId) -> Vec<OtherProcess> {
        let looks = self.timed(case);
        let looks = looks.filter_map(|facts| facts.gpu.other_processes.clone());
        looks.reduce(OtherProcess::together).unwrap_or_default()
    }

    /// Timing processes of a case that ended well and are of this kind.
    fn count(&self, case: &CaseId, kind: impl Fn(&TimeFacts) -> bool) -> u32 {
        let kind = self.timed(case).filter(|facts| kind(facts));
        u32::try_from(kind.count()).unwrap_or(u32::MAX)
    }

    /// Timing processes of a case that ended well, alone or beside the base.
    fn timed(&self, case: &CaseId) -> impl Iterator<Item = &'a TimeFacts> {
        let alone = self.times.get(case).into_iter().flatten();
        let alone = alone.filter_map(|(_, seen)| seen.got());
        let beside = self.paired(case).iter();
        alone.chain(beside.filter_map(|(_, seen)| Some(&seen.got()?.head)))
    }

    /// The timing processes that count. A throttled one says how warm the room is, not how fast the
    /// kernel: it is set aside, and said, as long as as many as were planned remain; else none decides.
    pub(super) fn series(&self, case: &CaseId) -> Found<Vec<&'a TimeFacts>> {
        self.case(case)?;
        let schedule = &self.plan.timing;
        let Some(seen) = self.times.get(case) else {
            if !self.paired(case).is_empty() {
                return self.head_series(case);
            }
            return self.absent(format_args!("a timing of {case}"));
        };
        let mut used = Vec::new();
        for (expected, (process, seen)) in (0u32..).zip(seen) {
            if expected != *process {
                return inconclusive(format!(
                    "timing process {expected} of {case} is missing or process {process} is there twice"
                ));
            }
            let facts = only(seen, format_args!("timing process {process}"))?;
            self.whole(facts, *process)?;
            if !facts.gpu.throttled {
                used.push(facts);
            }
        }
        let planned = schedule.processes.max(1) as usize;
        if seen.len() < planned {
            return inconclusive(format!("timed in {} of {planned} processes", seen.len()));
        }
        if used.len() < planned {
            return inconclusive(format!(
                "{} of {} timing processes ran on a throttled GPU ({}), and {planned} others are needed",
                seen.len() - used.len(),
                seen.len(),
                throttle_reasons(seen),
            ));
        }
        Ok(used)
    }

    /// Whether one process measured what the schedule asks for.
    fn whole(&self, facts: &TimeFacts, process: u32) -> Found<()> {
        let schedule = &self.plan.timing;
        let short = |what: &str, have: usize, want: u32| {
            inconclusive(format!(
                "timing process {process} has {have} of {want} {what} samples"
            ))
        };
        if facts.mode != schedule.mode {
            return inconclusive(format!(
                "timing process {process} ran {} and the plan says {}; the two are never compared",
                facts.mode, schedule.mode
            ));
        }
        if facts.launches_per_sample == 0 {
            return inconclusive(format!("timing process {process} launched nothing"));
        }
        if facts.batched_ns.is_empty() || facts.batched_ns.len() < schedule.iterations as usize {
            return short("batched", facts.batched_ns.len(), schedule.iterations);
        }
        if facts.single_ns.len() < schedule.singles as usize {
            return short("single-launch", facts.single_ns.len(), schedule.singles);
        }
        Ok(())
    }

    fn absent<T>(&self, what: impl Display) -> Found<T> {
        self.device()?;
        inconclusive(format!("no evidence of {what}"))
    }
}

/// What this run executes kernels on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Executor<'a> {
    Gpu(&'a DeviceFacts),
    Simulator(&'a Simulator),
}

/// The unit whose PTX the simulator executes for a case: the one for the oldest architecture, whose code
/// all others of the case could run too.
pub fn unit_to_simulate<'a>(plan: &'a Plan, case: &CaseId) -> Option<&'a Unit> {
    plan.units
        .iter()
        .filter(|unit| unit.id.kernel == case.kernel && unit.id.variant == case.variant)
        .min_by_key(|unit| {
            let arch = unit.id.arch;
            (arch.major, arch.minor, arch.suffix)
        })
}

/// The unit whose machine code `device` executes for a case: of those that can run there, the one made
/// for exactly this device (`sm_90a`), else the newest.
pub fn unit_for<'a>(plan: &'a Plan, case: &CaseId, device: &DeviceFacts) -> Option<&'a Unit> {
    plan.units
        .iter()
        .filter(|unit| unit.id.kernel == case.kernel && unit.id.variant == case.variant)
        .filter(|unit| unit.id.arch.runs_on(device.major, device.minor))
        .max_by_key(|unit| {
            let arch = unit.id.arch;
            (
                arch.major,
                arch.minor,
                arch.suffix == Some('a'),
                arch.suffix,
            )
        })
}

fn single<'a, T>(seen: &[&'a Seen<T>], what: impl Display) -> Found<&'a T> {
    match seen {
        [one] => only(one, what),
        _ => inconclusive(format!("{what} was observed {} times", seen.len())),
    }
}

pub(super) fn only<T>(seen: &Seen<T>, what: impl Display) -> Found<&T> {
    match seen {
        Seen::Got(value) => Ok(value),
        Seen::Fault(fault) => ruling(
            match fault.kind {
                FaultKind::Environment => Outcome::Environment,
                FaultKind::Compile
                | FaultKind::EntryNotFound
                | FaultKind::LaunchRefused
                | FaultKind::DeviceFault
                | FaultKind::Hang
                | FaultKind::WorkerDied
                | FaultKind::Reference => Outcome::Fail,
                FaultKind::Base => Outcome::Inconclusive,
            },
            format!("{}: {}", fault.kind.words(), fault.message),
        ),
        Seen::Unsupported { reason } => ruling(Outcome::Unsupported, said(reason, what)),
        Seen::NotRun { reason } => ruling(Outcome::Skipped, said(reason, what)),
    }
}

fn said(reason: &str, what: impl Display) -> String {
    match reason.trim() {
        "" => format!("no reason was given for {what}"),
        reason => reason.to_owned(),
    }
}

fn throttle_reasons(seen: &[(u32, &Seen<TimeFacts>)]) -> String {
    let mut reasons: Vec<&str> = seen
        .iter()
        .filter_map(|(_, seen)| seen.got())
        .filter(|facts| facts.gpu.throttled)
        .flat_map(|facts| facts.gpu.throttle_reasons.iter().flatten())
        .map(String::as_str)
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    if reasons.is_empty() {
        "no reason given".to_owned()
    } else {
        reasons.join(", ")
    }
}
