//! Floor 1: looks up evidence by its subject, for the unit and the architecture whose code is meant.

use super::index::View;
use super::not_passed::{
    NotPassed, OrNotPassed, got, inconclusive, missing, only, ruling, skipped,
};
use model::*;

/// The device on which this run executes kernels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Executor<'a> {
    Gpu(&'a DeviceFacts),
    Simulator(&'a Simulator),
}

impl<'i, 'a> View<'i, 'a> {
    /// Returns what the plan has, or why the plan does not have it: a filter left it out, or the gate names something
    /// that never existed.
    fn planned<T>(self, found: Option<T>, kernel: &str, what: String) -> OrNotPassed<T> {
        match found {
            Some(found) => Ok(found),
            None if self.plan().is_partial(kernel) => skipped(Reason::NotSelected { what }),
            None => inconclusive(Reason::NotInPlan { what }),
        }
    }

    pub fn unit(self, id: &UnitId) -> OrNotPassed<&'a Unit> {
        self.planned(self.planned_unit(id), &id.kernel, id.to_string())
    }

    pub fn case(self, id: &CaseId) -> OrNotPassed<&'a Case> {
        self.planned(self.planned_case(id), &id.kernel, id.to_string())
    }

    /// Returns the cases of a unit, in the order of the plan.
    pub fn cases_of(self, unit: &UnitId) -> impl Iterator<Item = &'a Case> + use<'a> {
        let (kernel, variant) = (unit.kernel.clone(), unit.variant.clone());
        let other = self.other_plan();
        self.plan().cases.iter().filter(move |case| {
            case.id.kernel == kernel
                && case.id.variant == variant
                && other.is_none_or(|other_plan| other_plan.case(&case.id).is_some())
        })
    }

    /// Returns the seeds of a case whose figures can be compared with another run's, in their order. The drawn seed is
    /// not among them, because no other run has it.
    pub fn seeds_of(self, case: &'a Case) -> impl Iterator<Item = u64> + use<'a> {
        let other = self
            .other_plan()
            .and_then(|other_plan| other_plan.case(&case.id));
        let drawn = self.drawn();
        case.seeds
            .iter()
            .copied()
            .filter(move |seed| Some(*seed) != drawn)
            .filter(move |seed| other.is_none_or(|case| case.seeds.contains(seed)))
    }

    /// Returns the seed that was drawn for this run, in addition to those of gates.yaml.
    pub fn drawn(self) -> Option<u64> {
        self.plan().drawn.as_ref().map(|drawn| drawn.seed)
    }

    /// Returns true if another program ran the case. Only times are known of such a case.
    pub fn ran_elsewhere(self, id: &CaseId) -> bool {
        let case = self.planned_case(id);
        case.is_some_and(|case| case.reference == Reference::Elsewhere)
    }

    pub fn device(self) -> OrNotPassed<&'a DeviceFacts> {
        got(&self.environment().device)
    }

    pub fn compiler(self) -> OrNotPassed<&'a CompilerFacts> {
        got(&self.environment().compiler)
    }

    /// Returns the compiler of this side. A base revision can have another compiler than head.
    pub fn built_by(self) -> Option<&'a CompilerFacts> {
        let base = self.environment().base_compiler.as_ref();
        base.filter(|_| self.is_revision())
            .or(self.environment().compiler.got())
    }

    /// Returns the device that executes this run's kernels: the GPU if there is one, else the simulator.
    pub(super) fn executor(self) -> OrNotPassed<Executor<'a>> {
        match (self.device(), &self.environment().simulator) {
            (Ok(device), _) => Ok(Executor::Gpu(device)),
            (Err(_), Some(simulator)) => Ok(Executor::Simulator(simulator)),
            (Err(ruling), None) => Err(ruling),
        }
    }

    pub fn is_simulated(self) -> bool {
        matches!(self.executor(), Ok(Executor::Simulator(_)))
    }

    /// Returns the architecture whose code is meant, or `None` for the code that the device executes.
    pub(super) fn arch_of(self, id: &CaseId) -> Option<Arch> {
        let is_of_head = self.side == Side::Base && self.index.is_alike && self.is_simulated();
        self.arch.or_else(|| {
            // The base runs the code for the oldest architecture that head has, even if the base itself has older ones.
            let unit = unit_to_simulate(self.index.head().plan(), id)?;
            is_of_head.then_some(unit.id.arch)
        })
    }

    /// Returns views of a case for every architecture but the first. Code with the same PTX was run only once, and
    /// still has values to compare under its own architecture.
    pub(super) fn other_architectures(self, id: &CaseId) -> impl Iterator<Item = (Arch, Self)> {
        let first = unit_to_simulate(self.plan(), id).map(|unit| unit.id.arch);
        let all = match self.arch {
            None => self.index.architectures.as_slice(),
            Some(_) => &[],
        };
        all.iter()
            .filter(move |arch| Some(**arch) != first)
            .map(move |arch| (*arch, self.at(*arch)))
            .filter(|(_, view)| view.unit_on_device(id).is_ok())
    }

    /// Returns a view of a case for each architecture.
    pub(super) fn all_architectures(self, id: &CaseId) -> impl Iterator<Item = Self> {
        std::iter::once(self).chain(self.other_architectures(id).map(|(_, view)| view))
    }

    /// Returns views of a case for each architecture whose code is run by itself.
    pub fn distinct_ptx(self, id: &CaseId) -> impl Iterator<Item = Self> {
        let others = self.other_architectures(id);
        let others = others.filter(move |(arch, _)| self.is_run_by_itself(id, *arch));
        std::iter::once(self).chain(others.map(|(_, view)| view))
    }

    pub(super) fn is_run_by_itself(self, id: &CaseId, arch: Arch) -> bool {
        let units = self.simulated(id);
        units.iter().any(|unit| unit.id.arch == arch)
    }

    /// Returns the unit whose code this run executes for a case.
    pub fn unit_on_device(self, id: &CaseId) -> OrNotPassed<&'a Unit> {
        self.case(id)?;
        match self.executor()? {
            Executor::Gpu(device) => match unit_for(self.plan(), id, device) {
                Some(unit) => Ok(unit),
                None => ruling(
                    // A policy that requires a GPU also requires that the case runs on it.
                    if self.policy().require_gpu {
                        Outcome::Environment
                    } else {
                        Outcome::Unsupported
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
                let unit = match self.arch_of(id) {
                    None => unit_to_simulate(self.plan(), id),
                    Some(arch) => {
                        let mut units = units_of(self.plan(), id);
                        units.find(|unit| unit.id.arch == arch)
                    }
                };
                self.planned(unit, &id.kernel, id.to_string())
            }
        }
    }

    /// Returns the view for the oldest code in the simulator that both sides were built for.
    pub fn at_common_code(self, id: &CaseId) -> Self {
        let is_common = |unit: &&Unit| {
            let base = self.index.view(Side::Base, None);
            base.is_none_or(|base| base.plan().unit(&unit.id).is_some())
        };
        let units = units_of(self.index.head().plan(), id).filter(is_common);
        match units.min_by_key(|unit| age(unit.id.arch)) {
            Some(unit) if self.is_simulated() => self.at(unit.id.arch),
            _ => self,
        }
    }

    /// Returns the unit whose code a reader wants to see: the one that this run executes, or could execute.
    pub fn shown_unit(self, id: &CaseId) -> Option<&'a Unit> {
        let own = self.unit_on_device(id).ok();
        own.or_else(|| match self.device() {
            Ok(_) => None,
            Err(_) => unit_to_simulate(self.plan(), id),
        })
    }

    pub fn build(self, unit: &UnitId) -> OrNotPassed<&'a BuildFacts> {
        self.unit(unit)?;
        match self.filed().builds.get(unit) {
            [] => {
                self.compiler()?;
                missing(Piece::Build(unit.clone()))
            }
            seen => only(seen, || Piece::Build(unit.clone())),
        }
    }

    /// Returns the units of a case that are simulated separately, the oldest architecture first. Their PTX differs from
    /// the PTX of all units before them.
    pub fn simulated(self, id: &CaseId) -> Vec<&'a Unit> {
        let ptx = |unit: &Unit| self.build(&unit.id).ok()?.ptx.as_ref();
        let mut units: Vec<_> = units_of(self.plan(), id).collect();
        units.sort_by_key(|unit| age(unit.id.arch));
        let mut apart: Vec<&Unit> = Vec::new();
        for unit in units {
            // A unit that was not built, or whose PTX is unknown, has nothing of its own to run.
            let is_new =
                ptx(unit).is_some_and(|own| apart.iter().all(|other| ptx(other) != Some(own)));
            if apart.is_empty() || is_new {
                apart.push(unit);
            }
        }
        apart
    }

    /// Returns the architecture under which the evidence of a case is filed for this view.
    fn simulated_as(self, id: &CaseId) -> Option<Arch> {
        let arch = self.arch_of(id)?;
        let ptx = |unit: &Unit| self.build(&unit.id).ok()?.ptx.as_ref();
        let own = units_of(self.plan(), id).find(|unit| unit.id.arch == arch);
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

    /// Checks that a case was built for this run's device.
    pub fn runnable(self, id: &CaseId) -> OrNotPassed<()> {
        let unit = self.unit_on_device(id)?;
        match self.build(&unit.id) {
            Ok(_) => Ok(()),
            // The gate on the build reports what the compiler said.
            Err(NotPassed {
                outcome: Outcome::Fail,
                ..
            }) => skipped(Reason::NotBuilt {
                unit: unit.id.clone(),
            }),
            Err(why) => Err(why),
        }
    }

    pub fn check(self, id: &CaseId, seed: u64) -> OrNotPassed<&'a CheckFacts> {
        self.required(id)?;
        let piece = || Piece::Check {
            case: id.clone(),
            seed,
        };
        match self.filed().checks.get(&(id, self.simulated_as(id), seed)) {
            [] => {
                self.executor()?;
                missing(piece())
            }
            seen => self.admitted(id, seen, piece),
        }
    }

    /// Returns true if there is evidence of any check of a case, whatever it says.
    pub fn was_checked(self, id: &CaseId) -> bool {
        let Some(case) = self.planned_case(id) else {
            return false;
        };
        let arch = self.simulated_as(id);
        case.seeds
            .iter()
            .any(|seed| !self.filed().checks.get(&(id, arch, *seed)).is_empty())
    }

    /// Returns what was simulated for one seed. If the run has a GPU, this is the simulation of the code that the GPU
    /// ran.
    pub fn simulation(self, id: &CaseId, seed: u64) -> OrNotPassed<&'a SimulationFacts> {
        self.case(id)?;
        let executor = self.executor()?;
        let piece = || Piece::Simulation {
            case: id.clone(),
            seed,
        };
        let run = (id, self.simulated_as(id), seed);
        match (self.filed().simulations.get(&run), executor) {
            ([], Executor::Gpu(_)) => skipped(Reason::NotSimulated),
            ([], Executor::Simulator(_)) => missing(piece()),
            (seen, _) => self.admitted(id, seen, piece),
        }
    }

    /// Returns everything that was simulated for a case, by seed.
    pub fn simulations(self, id: &CaseId) -> Vec<(u64, &'a SimulationFacts)> {
        let seeds = self.case(id).map_or(&[][..], |case| &case.seeds);
        seeds
            .iter()
            .filter_map(|&seed| Some((seed, self.simulation(id, seed).ok()?)))
            .collect()
    }

    pub fn driver(self, id: &CaseId) -> OrNotPassed<&'a DriverFacts> {
        self.required(id)?;
        let piece = || Piece::Driver(id.clone());
        match self.filed().drivers.get(id) {
            [] => {
                self.device()?;
                missing(piece())
            }
            seen => self.admitted(id, seen, piece),
        }
    }

    /// Returns the profiles of a case, in order.
    ///
    /// # Errors
    /// Skipped if no profile was asked for. Otherwise returns what stood in the way of a profile.
    pub fn profiles(self, id: &CaseId) -> OrNotPassed<Vec<&'a ProfileFacts>> {
        self.required(id)?;
        self.device()?;
        if self.plan().profiling.is_none() {
            return skipped(Reason::NotProfiled);
        }
        let seen = self.seen_profiles(id);
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
        if facts.is_empty() {
            missing(Piece::Profile {
                case: id.clone(),
                repeat: 0,
            })
        } else {
            Ok(facts)
        }
    }

    /// Returns all profiles by repeat, whoever asked for them and whatever became of them.
    pub fn seen_profiles(self, id: &CaseId) -> &'i [(u32, &'a Seen<ProfileFacts>)] {
        self.filed().profiles.get(id)
    }

    pub fn got_profiles(self, id: &CaseId) -> Vec<&'a ProfileFacts> {
        let seen = self.seen_profiles(id).iter();
        seen.filter_map(|(_, seen)| seen.got()).collect()
    }

    /// Returns the processes of a rival that did a task, in order.
    pub fn timed_of_rival<'k>(
        self,
        rival: &'k str,
        task: &'k CaseId,
    ) -> &'k [(u32, &'a Seen<RivalFacts>)]
    where
        'i: 'k,
    {
        self.filed().rivals.get(&(rival, task))
    }

    /// Checks that the case runs on a GPU if the policy requires one. Otherwise a case that was not run is only
    /// skipped.
    fn required(self, id: &CaseId) -> OrNotPassed<()> {
        self.case(id)?;
        match self.device() {
            Ok(_) if self.policy().require_gpu => self.unit_on_device(id).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the one observation of a case. A case that an earlier stage refused has that stage's reason.
    fn admitted<T>(
        self,
        id: &CaseId,
        seen: &[&'a Seen<T>],
        piece: impl Fn() -> Piece,
    ) -> OrNotPassed<&'a T> {
        let found = only(seen, piece);
        match seen {
            [Seen::NotRun(NotRun::EarlierStage)] => self.runnable(id).and(found),
            _ => found,
        }
    }
}

/// Returns the unit whose PTX the simulator executes for a case. This is the unit for the oldest architecture, because
/// the other devices of the case could run its code, too.
pub fn unit_to_simulate<'a>(plan: &'a Plan, case: &CaseId) -> Option<&'a Unit> {
    units_of(plan, case).min_by_key(|unit| age(unit.id.arch))
}

/// Returns a sort key that puts the oldest architecture first.
fn age(arch: Arch) -> (u8, u8, Option<char>) {
    (arch.major, arch.minor, arch.suffix)
}

fn units_of<'a>(plan: &'a Plan, case: &CaseId) -> impl Iterator<Item = &'a Unit> {
    plan.units
        .iter()
        .filter(move |unit| unit.id.kernel == case.kernel && unit.id.variant == case.variant)
}

/// Returns the unit whose machine code `device` executes for a case: among the units that can run there, the one that
/// was made for exactly this device (`sm_90a`), or else the newest.
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
