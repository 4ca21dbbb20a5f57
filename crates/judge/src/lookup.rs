//! Floor 1: evidence of one run by what it is about, and what its absence means.
//!
//! Every look-up ends in a value or in a [`Ruling`]: there is no third way, and no default.

use model::*;
use std::collections::HashMap;

/// Why there is no value, and what a gate that needs it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    pub outcome: Outcome,
    pub reason: Reason,
}

pub type Found<T> = Result<T, Ruling>;

pub(super) fn ruling<T>(outcome: Outcome, reason: Reason) -> Found<T> {
    Err(Ruling { outcome, reason })
}

pub(super) fn fail<T>(reason: Reason) -> Found<T> {
    ruling(Outcome::Fail, reason)
}

pub(super) fn inconclusive<T>(reason: Reason) -> Found<T> {
    ruling(Outcome::Inconclusive, reason)
}

pub(super) fn skipped<T>(reason: Reason) -> Found<T> {
    ruling(Outcome::Skipped, reason)
}

pub(super) fn unsupported<T>(reason: Reason) -> Found<T> {
    ruling(Outcome::Unsupported, reason)
}

/// The evidence of one run, by subject.
pub(super) struct Lookup<'a> {
    pub plan: &'a Plan,
    pub environment: &'a Environment,
    pub policy: &'a Policy,
    builds: HashMap<&'a UnitId, Vec<&'a Seen<BuildFacts>>>,
    base_references: HashMap<&'a CaseId, Vec<&'a Seen<BaseReference>>>,
    checks: HashMap<Run<'a>, Vec<&'a Seen<CheckFacts>>>,
    simulations: HashMap<Run<'a>, Vec<&'a Seen<SimulationFacts>>>,
    drivers: HashMap<&'a CaseId, Vec<&'a Seen<DriverFacts>>>,
    times: HashMap<&'a CaseId, Vec<(u32, &'a Seen<TimeFacts>)>>,
    profiles: HashMap<&'a CaseId, Vec<(u32, &'a Seen<ProfileFacts>)>>,
    pairs: HashMap<&'a CaseId, Vec<(u32, &'a Seen<PairFacts>)>>,
    rivals: HashMap<&'a str, OfTasks<'a>>,
    /// Where figures of two sides are compared, the plan of the other: what it does not have too, case or
    /// seed, counts on neither.
    other: Option<&'a Plan>,
    code: Code<'a>,
}

/// For which architecture the code is that is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code<'a> {
    /// What this run's device is given; in the simulator the oldest.
    OnDevice,
    For(Arch),
    /// In the simulator, the oldest of another plan, whatever older ones this one has.
    OldestOf(&'a Plan),
}

/// Processes of one rival by their task.
type OfTasks<'a> = HashMap<&'a CaseId, Vec<(u32, &'a Seen<RivalFacts>)>>;

/// One seed of one case, with the architecture as its evidence names it.
type Run<'a> = (&'a CaseId, Option<Arch>, u64);

/// What this run executes kernels on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Executor<'a> {
    Gpu(&'a DeviceFacts),
    Simulator(&'a Simulator),
}

impl<'a> Lookup<'a> {
    pub fn new(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: impl IntoIterator<Item = &'a Evidence>,
    ) -> Self {
        let mut lookup = Self {
            plan,
            environment,
            policy,
            builds: HashMap::new(),
            base_references: HashMap::new(),
            checks: HashMap::new(),
            simulations: HashMap::new(),
            drivers: HashMap::new(),
            times: HashMap::new(),
            profiles: HashMap::new(),
            pairs: HashMap::new(),
            rivals: HashMap::new(),
            other: None,
            code: Code::OnDevice,
        };
        for piece in evidence {
            lookup.file(piece);
        }
        let times = lookup.times.values_mut();
        times.for_each(|it| it.sort_by_key(|(process, _)| *process));
        let profiles = lookup.profiles.values_mut();
        profiles.for_each(|it| it.sort_by_key(|(repeat, _)| *repeat));
        let pairs = lookup.pairs.values_mut();
        pairs.for_each(|it| it.sort_by_key(|(process, _)| *process));
        let rivals = lookup.rivals.values_mut().flat_map(HashMap::values_mut);
        rivals.for_each(|it| it.sort_by_key(|(process, _)| *process));
        lookup
    }

    /// The same of that alone which another plan has too.
    pub fn shared_with(self, other: &'a Plan) -> Self {
        Self {
            other: Some(other),
            ..self
        }
    }

    /// The same of other code.
    pub fn of_code(self, code: Code<'a>) -> Self {
        Self { code, ..self }
    }

    /// `None` where it is what the device is given.
    fn arch(&self, id: &CaseId) -> Option<Arch> {
        match self.code {
            Code::OnDevice => None,
            Code::For(arch) => Some(arch),
            Code::OldestOf(_) if !self.is_simulated() => None,
            Code::OldestOf(plan) => unit_to_simulate(plan, id).map(|unit| unit.id.arch),
        }
    }

    fn file(&mut self, piece: &'a Evidence) {
        match piece {
            Evidence::Build { unit, facts } => {
                self.builds.entry(unit).or_default().push(facts);
            }
            // It has a look-up of its own.
            Evidence::Base(_) => {}
            Evidence::BaseReference { case, facts } => {
                self.base_references.entry(case).or_default().push(facts);
            }
            // For comparing two records, which asks them itself.
            Evidence::Reference { .. } => {}
            // For explaining verdicts, not for giving them.
            Evidence::Code { .. } => {}
            Evidence::Check {
                case,
                arch,
                seed,
                facts,
            } => {
                let runs = self.checks.entry((case, *arch, *seed));
                runs.or_default().push(facts);
            }
            Evidence::Simulation {
                case,
                arch,
                seed,
                facts,
            } => {
                let runs = self.simulations.entry((case, *arch, *seed));
                runs.or_default().push(facts);
            }
            Evidence::Driver { case, facts } => {
                self.drivers.entry(case).or_default().push(facts);
            }
            Evidence::Time {
                case,
                process,
                facts,
            } => {
                self.times.entry(case).or_default().push((*process, facts));
            }
            Evidence::Profile {
                case,
                repeat,
                facts,
            } => {
                let profiles = self.profiles.entry(case).or_default();
                profiles.push((*repeat, facts));
            }
            Evidence::Pair {
                case,
                process,
                facts,
            } => {
                self.pairs.entry(case).or_default().push((*process, facts));
            }
            Evidence::Rival {
                rival,
                task,
                process,
                facts,
            } => {
                let of_rival = self.rivals.entry(rival).or_default();
                of_rival.entry(task).or_default().push((*process, facts));
            }
        }
    }

    pub fn base_references(&self, case: &CaseId) -> &[&'a Seen<BaseReference>] {
        self.base_references.get(case).map_or(&[], Vec::as_slice)
    }

    /// Of a plan that does not have it: left out by a filter, or a gate on something that never was.
    fn planned<T>(&self, found: Option<T>, kernel: &str, what: String) -> Found<T> {
        match found {
            Some(found) => Ok(found),
            None if self.plan.is_partial(kernel) => skipped(Reason::NotSelected { what }),
            None => inconclusive(Reason::NotInPlan { what }),
        }
    }

    pub fn unit(&self, id: &UnitId) -> Found<&'a Unit> {
        self.planned(self.plan.unit(id), &id.kernel, id.to_string())
    }

    pub fn case(&self, id: &CaseId) -> Found<&'a Case> {
        self.planned(self.plan.case(id), &id.kernel, id.to_string())
    }

    /// Cases of a unit, in the order of the plan.
    pub fn cases_of(&self, unit: &UnitId) -> impl Iterator<Item = &'a Case> {
        let (kernel, variant) = (unit.kernel.clone(), unit.variant.clone());
        let cases = self.plan.cases.iter();
        cases.filter(move |case| {
            case.id.kernel == kernel
                && case.id.variant == variant
                && self.other.is_none_or(|it| it.case(&case.id).is_some())
        })
    }

    /// Seeds of a case whose figures can be compared with those of another run, in their order: not the drawn one,
    /// which no other run has.
    pub fn seeds_of(&self, case: &'a Case) -> impl Iterator<Item = u64> + use<'a> {
        let other = self.other.and_then(|it| it.case(&case.id));
        let drawn = self.drawn();
        let seeds = case.seeds.iter().copied();
        let seeds = seeds.filter(move |seed| Some(*seed) != drawn);
        seeds.filter(move |seed| other.is_none_or(|it| it.seeds.contains(seed)))
    }

    pub fn drawn(&self) -> Option<u64> {
        self.plan.drawn.as_ref().map(|drawn| drawn.seed)
    }

    /// Whether another program ran the case, of which times alone are known.
    pub fn ran_elsewhere(&self, id: &CaseId) -> bool {
        let case = self.plan.case(id);
        case.is_some_and(|case| case.reference == Reference::Elsewhere)
    }

    pub fn device(&self) -> Found<&'a DeviceFacts> {
        got(&self.environment.device)
    }

    pub fn compiler(&self) -> Found<&'a CompilerFacts> {
        got(&self.environment.compiler)
    }

    /// A GPU goes before a simulator.
    pub fn executor(&self) -> Found<Executor<'a>> {
        match (self.device(), &self.environment.simulator) {
            (Ok(device), _) => Ok(Executor::Gpu(device)),
            (Err(_), Some(simulator)) => Ok(Executor::Simulator(simulator)),
            (Err(ruling), None) => Err(ruling),
        }
    }

    pub fn is_simulated(&self) -> bool {
        matches!(self.executor(), Ok(Executor::Simulator(_)))
    }

    /// The unit whose code this run executes for a case.
    pub fn unit_on_device(&self, id: &CaseId) -> Found<&'a Unit> {
        self.case(id)?;
        match self.executor()? {
            Executor::Gpu(device) => match unit_for(self.plan, id, device) {
                Some(unit) => Ok(unit),
                None => ruling(
                    // Who requires a GPU requires that something runs on it.
                    match self.policy.require_gpu {
                        true => Outcome::Environment,
                        false => Outcome::Unsupported,
                    },
                    Reason::NoArchitecture {
                        kernel: id.kernel.clone(),
                        variant: id.variant.clone(),
                        device: device.name.clone(),
                        arch: device.arch(),
                    },
                ),
            },
            Executor::Simulator(_) => {
                let unit = match self.arch(id) {
                    None => unit_to_simulate(self.plan, id),
                    Some(arch) => {
                        let mut units = units_of(self.plan, id);
                        units.find(|unit| unit.id.arch == arch)
                    }
                };
                self.planned(unit, &id.kernel, id.to_string())
            }
        }
    }

    pub fn build(&self, unit: &UnitId) -> Found<&'a BuildFacts> {
        self.unit(unit)?;
        match self.builds.get(unit) {
            None => {
                self.compiler()?;
                missing(Piece::Build(unit.clone()))
            }
            Some(seen) => only(seen, || Piece::Build(unit.clone())),
        }
    }

    /// Units of a case that are simulated each by itself, the oldest architecture first: those whose PTX is
    /// another than that of all before.
    pub fn simulated(&self, id: &CaseId) -> Vec<&'a Unit> {
        let ptx = |unit: &Unit| self.build(&unit.id).ok()?.ptx.as_ref();
        let mut units: Vec<_> = units_of(self.plan, id).collect();
        units.sort_by_key(|unit| age(unit.id.arch));
        let mut apart: Vec<&Unit> = Vec::new();
        for unit in units {
            // One that was not built, or of which no PTX is known, has nothing of its own to run.
            let is_new =
                ptx(unit).is_some_and(|own| apart.iter().all(|other| ptx(other) != Some(own)));
            if apart.is_empty() || is_new {
                apart.push(unit);
            }
        }
        apart
    }

    /// The architecture that the evidence of a case names for what is meant here.
    fn simulated_as(&self, id: &CaseId) -> Option<Arch> {
        let arch = self.arch(id)?;
        let ptx = |unit: &Unit| self.build(&unit.id).ok()?.ptx.as_ref();
        let own = units_of(self.plan, id).find(|unit| unit.id.arch == arch);
        let own = own.and_then(ptx);
        let apart = self.simulated(id);
        let same = apart
            .iter()
            .position(|unit| unit.id.arch == arch || own.is_some() && ptx(unit) == own);
        match same {
            Some(0) => None,
            Some(at) => apart.get(at).map(|unit| unit.id.arch),
            None => Some(arch),
        }
    }

    /// Built for this run's device.
    pub fn runnable(&self, id: &CaseId) -> Found<()> {
        let unit = self.unit_on_device(id)?;
        match self.build(&unit.id) {
            Ok(_) => Ok(()),
            // The gate that the unit is built tells what the compiler said.
            Err(Ruling {
                outcome: Outcome::Fail,
                ..
            }) => skipped(Reason::NotBuilt {
                unit: unit.id.clone(),
            }),
            Err(why) => Err(why),
        }
    }

    pub fn check(&self, id: &CaseId, seed: u64) -> Found<&'a CheckFacts> {
        self.required(id)?;
        let piece = || Piece::Check {
            case: id.clone(),
            seed,
        };
        match self.checks.get(&(id, self.simulated_as(id), seed)) {
            None => {
                self.executor()?;
                missing(piece())
            }
            Some(seen) => self.admitted(id, seen, piece),
        }
    }

    /// Whether there is evidence of any check of a case, whatever it says.
    pub fn was_checked(&self, id: &CaseId) -> bool {
        let Some(case) = self.plan.case(id) else {
            return false;
        };
        let arch = self.simulated_as(id);
        let mut seeds = case.seeds.iter();
        seeds.any(|seed| self.checks.contains_key(&(id, arch, *seed)))
    }

    pub fn simulation(&self, id: &CaseId, seed: u64) -> Found<&'a SimulationFacts> {
        self.case(id)?;
        if let Executor::Gpu(_) = self.executor()? {
            return skipped(Reason::NotSimulated);
        }
        let piece = || Piece::Simulation {
            case: id.clone(),
            seed,
        };
        match self.simulations.get(&(id, self.simulated_as(id), seed)) {
            None => missing(piece()),
            Some(seen) => self.admitted(id, seen, piece),
        }
    }

    pub fn driver(&self, id: &CaseId) -> Found<&'a DriverFacts> {
        self.required(id)?;
        let piece = || Piece::Driver(id.clone());
        match self.drivers.get(id) {
            None => {
                self.device()?;
                missing(piece())
            }
            Some(seen) => self.admitted(id, seen, piece),
        }
    }

    /// Processes that timed a case alone, in order.
    pub fn timed_alone(&self, id: &CaseId) -> &[(u32, &'a Seen<TimeFacts>)] {
        self.times.get(id).map_or(&[], Vec::as_slice)
    }

    /// Profiles of a case, in order.
    ///
    /// # Errors
    /// Skipped where none was asked for; else with what stood in the way of one.
    pub fn profiled(&self, id: &CaseId) -> Found<Vec<&'a ProfileFacts>> {
        self.required(id)?;
        self.device()?;
        if self.plan.profiling.is_none() {
            return skipped(Reason::NotProfiled);
        }
        let seen = self.profiles.get(id).map_or(&[][..], Vec::as_slice);
        let mut facts = Vec::new();
        for (at, (repeat, seen)) in seen.iter().enumerate() {
            let piece = || Piece::Profile {
                case: id.clone(),
                repeat: *repeat,
            };
            if usize::try_from(*repeat) != Ok(at) {
                return missing(piece());
            }
            facts.push(self.admitted(id, &[*seen], piece)?);
        }
        match facts.is_empty() {
            true => missing(Piece::Profile {
                case: id.clone(),
                repeat: 0,
            }),
            false => Ok(facts),
        }
    }

    /// Processes that timed a case beside the base, in order.
    pub fn timed_beside(&self, id: &CaseId) -> &[(u32, &'a Seen<PairFacts>)] {
        self.pairs.get(id).map_or(&[], Vec::as_slice)
    }

    /// Processes of a rival that did a task, in order.
    pub fn timed_of_rival(&self, rival: &str, task: &CaseId) -> &[(u32, &'a Seen<RivalFacts>)] {
        let of_rival = self.rivals.get(rival);
        let processes = of_rival.and_then(|tasks| tasks.get(task));
        processes.map_or(&[], Vec::as_slice)
    }

    /// Where a GPU is required, that the case runs on the one that is there: not run is else a mere skip.
    fn required(&self, id: &CaseId) -> Found<()> {
        self.case(id)?;
        match self.device() {
            Ok(_) if self.policy.require_gpu => self.unit_on_device(id).map(drop),
            _ => Ok(()),
        }
    }

    /// The one observation of a case. One that an earlier stage refused has that stage's reason.
    fn admitted<T>(
        &self,
        id: &CaseId,
        seen: &[&'a Seen<T>],
        piece: impl Fn() -> Piece,
    ) -> Found<&'a T> {
        let found = only(seen, piece);
        match seen {
            [Seen::NotRun(NotRun::EarlierStage)] => self.runnable(id).and(found),
            _ => found,
        }
    }
}

/// The unit whose PTX the simulator executes for a case: the one for the oldest architecture, whose code
/// all others of the case could run too.
pub fn unit_to_simulate<'a>(plan: &'a Plan, case: &CaseId) -> Option<&'a Unit> {
    units_of(plan, case).min_by_key(|unit| age(unit.id.arch))
}

/// The oldest first.
fn age(arch: Arch) -> (u8, u8, Option<char>) {
    (arch.major, arch.minor, arch.suffix)
}

fn units_of<'a>(plan: &'a Plan, case: &CaseId) -> impl Iterator<Item = &'a Unit> {
    plan.units
        .iter()
        .filter(move |unit| unit.id.kernel == case.kernel && unit.id.variant == case.variant)
}

/// The unit whose machine code `device` executes for a case: of those that can run there, the one made
/// for exactly this device (`sm_90a`), else the newest.
pub fn unit_for<'a>(plan: &'a Plan, case: &CaseId, device: &DeviceFacts) -> Option<&'a Unit> {
    units_of(plan, case)
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

pub(super) fn missing<T>(piece: Piece) -> Found<T> {
    inconclusive(Reason::EvidenceMissing(piece))
}

fn only<'a, T>(seen: &[&'a Seen<T>], piece: impl Fn() -> Piece) -> Found<&'a T> {
    match seen {
        [one] => got(one),
        _ => inconclusive(Reason::EvidenceRepeated {
            piece: piece(),
            times: seen.len(),
        }),
    }
}

pub(super) fn got<T>(seen: &Seen<T>) -> Found<&T> {
    match seen {
        Seen::Got(value) => Ok(value),
        Seen::Fault(fault) => ruling(outcome_of(fault.kind), Reason::Fault(fault.clone())),
        Seen::Unsupported(why) => unsupported(Reason::Unsupported(why.clone())),
        Seen::NotRun(why) => skipped(Reason::NotRun(why.clone())),
    }
}

fn outcome_of(fault: FaultKind) -> Outcome {
    match fault {
        FaultKind::Environment
        | FaultKind::Disassembler
        | FaultKind::ProfilerMissing
        | FaultKind::CountersLocked
        | FaultKind::ProfilerLocked
        | FaultKind::ProfilerBroke => Outcome::Environment,
        FaultKind::Compile
        | FaultKind::EntryNotFound
        | FaultKind::Arguments
        | FaultKind::LaunchRefused
        | FaultKind::DeviceFault
        | FaultKind::Hang
        | FaultKind::WorkerDied
        | FaultKind::Reference => Outcome::Fail,
        FaultKind::Base | FaultKind::Rival => Outcome::Inconclusive,
    }
}
