//! Floor 2: what a metric's value is, from the evidence: which entries, shapes, seeds and processes it is
//! taken over, and when it has none.

use super::lookup::{Code, Found, Lookup, Ruling, inconclusive, unsupported};
use super::lookup::{unit_for, unit_to_simulate};
use super::proof;
use super::series::count;
use crate::stats::modes::{Launches, Modes};
use crate::stats::sequential::{Schedule as Looks, Undecidable};
use crate::stats::{Group, Sample};
use model::occupancy::{Demand, Occupancy, occupancy};
use model::*;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The value of a metric for a case or a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// Ratios and shares as such, times in ns, sizes in bytes. May be NaN: no limit holds for it.
    pub number: f64,
    /// `None` of what repeats exactly, and of what was seen once.
    pub spread: Option<Spread>,
}

/// What observations of one code differ by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Of times, between processes.
    Processes(Group),
    /// Of profiles, between repeats.
    Repeats(Repeats),
}

/// The smallest and the largest of some profiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeats {
    pub low: f64,
    pub high: f64,
    pub count: usize,
}

impl Spread {
    pub fn group(self) -> Option<Group> {
        match self {
            Self::Processes(group) => Some(group),
            Self::Repeats(_) => None,
        }
    }

    /// As a baseline keeps it.
    pub(super) fn to_keep(self) -> f64 {
        match self {
            Self::Processes(group) => group.ln_deviation(),
            Self::Repeats(repeats) => repeats.high - repeats.low,
        }
    }

    pub(super) fn count(self) -> u32 {
        match self {
            Self::Processes(group) => group.processes(),
            Self::Repeats(repeats) => count(repeats.count),
        }
    }

    pub fn repeats(self) -> Option<Repeats> {
        match self {
            Self::Processes(_) => None,
            Self::Repeats(repeats) => Some(repeats),
        }
    }
}

impl MetricValue {
    pub fn group(&self) -> Option<Group> {
        self.spread.and_then(Spread::group)
    }
}

impl From<f64> for MetricValue {
    fn from(number: f64) -> Self {
        Self {
            number,
            spread: None,
        }
    }
}

/// How a case stands to the base revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseStatus {
    /// No base was named.
    NoBase,
    /// The base has no such case.
    New,
    /// Same machine code, launch and arguments.
    Unchanged,
    Changed,
}

/// The values that rules are about, with what is worked out once for all of them.
pub struct Values<'a> {
    pub(super) lookup: Lookup<'a>,
    /// Whether each case of the plan is right, which decides whether it has times.
    proofs: HashMap<&'a CaseId, Found<()>>,
    statuses: HashMap<&'a CaseId, Found<BaseStatus>>,
    /// Looks of all contests beside the base, once one is asked for.
    pub(super) looks: OnceCell<Result<Looks, Undecidable>>,
    /// The base's, where one was named.
    pub(super) beside: Option<Box<Beside<'a>>>,
    /// In the simulator, where there are several architectures, of the code for each.
    further: Vec<Further<'a>>,
}

/// Of the code for one of several architectures.
pub(super) struct Further<'a> {
    pub arch: Arch,
    pub values: Values<'a>,
}

/// What the base shows on this device, by the same look-ups as head, of code for the same architecture.
pub(super) struct Beside<'a> {
    /// Of all that was seen of it.
    pub base: Values<'a>,
    /// Head and base, of the cases and seeds that both have: figures of these alone can be compared.
    pub shared: [Values<'a>; 2],
}

/// What was seen of a base.
struct Observed<'a> {
    plan: &'a Plan,
    environment: &'a Environment,
    evidence: Vec<&'a Evidence>,
}

impl<'a> Observed<'a> {
    fn lookup(&self) -> Lookup<'a> {
        let evidence = self.evidence.iter().copied();
        Lookup::new(self.plan, self.environment, &ASKS_NOTHING, evidence)
    }
}

/// What a base asks is no matter of what it shows.
static ASKS_NOTHING: Policy = Policy::NOTHING;

/// Standard error of one value rounded to steps of `tick`: sqrt of the variance of a uniform distribution.
const ROUNDING: f64 = 0.288_675_134_594_812_9;

impl<'a> Values<'a> {
    pub fn new(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
    ) -> Self {
        let base = policy.base.as_ref().map(|base| Observed {
            plan: &base.plan,
            environment,
            evidence: evidence.iter().filter_map(Evidence::of_base).collect(),
        });
        Self::beside(plan, environment, policy, evidence, base)
    }

    /// Beside a record that was made in a run of its own, by what executes kernels alike.
    pub(super) fn beside_record(head: &'a Record, policy: &'a Policy, base: &'a Record) -> Self {
        let (was, is) = (&base.environment, &head.environment);
        let is_alike = match (was.device.got(), is.device.got()) {
            (Some(was), Some(is)) => {
                was.arch() == is.arch() && head.environment.other_program().is_none()
            }
            (None, None) => was.simulator.is_some() && was.simulator == is.simulator,
            _ => false,
        };
        let observed = is_alike.then(|| Observed {
            plan: &base.plan,
            environment: &base.environment,
            evidence: base.evidence.iter().collect(),
        });
        Self::beside(
            &head.plan,
            &head.environment,
            policy,
            &head.evidence,
            observed,
        )
    }

    /// Everything that a record shows, whatever it asks.
    pub(super) fn of_record(record: &'a Record) -> Self {
        let observed = Observed {
            plan: &record.plan,
            environment: &record.environment,
            evidence: record.evidence.iter().collect(),
        };
        Self::of(observed.lookup())
    }

    fn beside(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
        base: Option<Observed<'a>>,
    ) -> Self {
        let of = |head: Code<'a>, theirs: Code<'a>| {
            let ours = || Lookup::new(plan, environment, policy, evidence).of_code(head);
            let beside = base.as_ref().map(|it| {
                let theirs = || it.lookup().of_code(theirs);
                Box::new(Beside {
                    base: Self::of(theirs()),
                    shared: [
                        Self::of(ours().shared_with(it.plan)),
                        Self::of(theirs().shared_with(plan)),
                    ],
                })
            });
            let ids = || plan.cases.iter().map(|case| &case.id);
            let mut values = Self {
                beside,
                ..Self::of(ours())
            };
            values.statuses = ids().map(|id| (id, base_status(&values, id))).collect();
            values.proofs = ids().map(|id| (id, proof::prove(&values, id))).collect();
            values
        };
        let mut values = of(Code::OnDevice, Code::OldestOf(plan));
        if values.lookup.is_simulated() {
            let archs: BTreeSet<Arch> = plan.units.iter().map(|unit| unit.id.arch).collect();
            // Of one architecture all that there is has been said.
            if archs.len() > 1 {
                let further = archs.into_iter();
                let further = further.map(|arch| Further {
                    arch,
                    values: of(Code::For(arch), Code::For(arch)),
                });
                values.further = further.collect();
            }
        }
        values
    }

    /// Of a case, those of every other architecture than the first. What is the same PTX was run once, and has
    /// figures to be compared under its own architecture.
    pub(super) fn further(&self, id: &CaseId) -> impl Iterator<Item = &Further<'a>> {
        let first = unit_to_simulate(self.lookup.plan, id).map(|unit| unit.id.arch);
        self.further.iter().filter(move |it| {
            let unit = it.values.lookup.unit_on_device(id);
            unit.is_ok() && Some(it.arch) != first
        })
    }

    /// Of a case, those of every architecture.
    pub(super) fn each(&self, id: &CaseId) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.further(id).map(|it| &it.values))
    }

    /// Of a case, those of every architecture that is run by itself.
    pub(super) fn apart(&self, id: &CaseId) -> impl Iterator<Item = &Self> {
        let further = self.further(id).filter(|it| self.is_apart(id, it.arch));
        std::iter::once(self).chain(further.map(|it| &it.values))
    }

    pub(super) fn is_apart(&self, id: &CaseId, arch: Arch) -> bool {
        let units = self.lookup.simulated(id);
        units.iter().any(|unit| unit.id.arch == arch)
    }

    /// Those that rest on no other.
    fn of(lookup: Lookup<'a>) -> Self {
        Self {
            lookup,
            proofs: HashMap::new(),
            statuses: HashMap::new(),
            looks: OnceCell::new(),
            beside: None,
            further: Vec::new(),
        }
    }

    /// Whether head's answer stands for the base's, which was not asked.
    pub(super) fn tells_of_base(&self, id: &CaseId) -> bool {
        let beside = self.beside.as_ref();
        beside.is_some_and(|it| !it.base.lookup.was_checked(id)) && self.is_same_check(id)
    }

    /// Whether head and base check a case alike: the same code and the same call, over the same inputs, against
    /// the same reference. Then the base's answer is head's, and it is not run.
    pub(super) fn is_same_check(&self, id: &CaseId) -> bool {
        let same = || -> Option<bool> {
            let (head, base) = (&self.lookup, &self.beside.as_ref()?.base.lookup);
            let (ours, theirs) = (head.plan.case(id)?, base.plan.case(id)?);
            let built = |lookup: &Lookup<'a>| {
                let unit = lookup.unit_on_device(id).ok()?;
                lookup.build(&unit.id).ok()
            };
            let (head_code, base_code) = (built(head)?, built(base)?);
            let is_same_code = match head.is_simulated() {
                true => head_code.ptx.is_some() && head_code.ptx == base_code.ptx,
                false => head_code.identity == base_code.identity,
            };
            let is_same_reference = match &ours.reference {
                Reference::Variant { variant } => self.is_same_check(&CaseId {
                    variant: variant.clone(),
                    ..id.clone()
                }),
                _ => true,
            };
            let is_same_budget = head.plan.simulation.budget == base.plan.simulation.budget;
            Some(is_same_code && is_same_budget && ours == theirs && is_same_reference)
        };
        same().unwrap_or(false)
    }

    /// How a case stands to the base.
    ///
    /// # Errors
    /// Where it cannot be known: no device, or one of the two was not built.
    pub(super) fn base_status(&self, id: &CaseId) -> Found<BaseStatus> {
        match self.statuses.get(id) {
            Some(found) => found.clone(),
            None => base_status(self, id),
        }
    }

    /// As `timeable`, of a side of which anything was proven: the base is held to what it shows.
    pub(super) fn proven(&self, id: &CaseId) -> Found<()> {
        match self.proofs.is_empty() {
            true => Ok(()),
            false => self.timeable(id),
        }
    }

    /// Whether a base built what a subject runs.
    ///
    /// # Errors
    /// With what stands in the way of a comparison with it.
    pub(super) fn built_as_base(&self, subject: &Subject) -> Found<()> {
        let unit = match subject {
            Subject::Unit(id) => id,
            Subject::Case(id) => &self.lookup.unit_on_device(id)?.id,
        };
        match self.lookup.build(unit) {
            Err(why) if why.outcome == Outcome::Fail => {
                let why = Box::new(why.reason);
                inconclusive(Reason::BaseIncomparable(BaseLack::NotBuilt(why)))
            }
            found => found.map(drop),
        }
    }

    /// Green before fast: only a case that is right is timed. What failed has its own gate; here it
    /// is the reason of a skip.
    pub(super) fn timeable(&self, id: &CaseId) -> Found<()> {
        let not_proven = |why: Ruling| match why.outcome {
            Outcome::Fail => Ruling {
                outcome: Outcome::Skipped,
                reason: Reason::NotProven {
                    why: Box::new(why.reason),
                },
            },
            _ => why,
        };
        self.lookup.case(id)?;
        match self.proofs.get(id) {
            Some(proof) => proof.clone().map_err(not_proven),
            // Asked while proofs are made: no proof rests on a time.
            None => inconclusive(Reason::NoErrorLimit),
        }
    }

    /// # Errors
    /// With the outcome and reason of whatever is missing.
    pub fn metric(&self, subject: &Subject, metric: Metric) -> Found<MetricValue> {
        match (subject, metric.facet()) {
            (Subject::Unit(unit), Facet::Resources) => {
                self.resource(unit, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Resources) => {
                let unit = self.lookup.unit_on_device(case)?;
                self.resource(&unit.id, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Correctness) => {
                self.error(case, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Times) => self.time(case, metric),
            (Subject::Case(case), Facet::Profile) => self.profiled(case, metric),
            (Subject::Case(case), Facet::Counters) => {
                self.counter(case, metric).map(MetricValue::from)
            }
            (
                Subject::Unit(_),
                Facet::Correctness | Facet::Times | Facet::Counters | Facet::Profile,
            ) => misplaced(metric),
        }
    }

    fn resource(&self, id: &UnitId, metric: Metric) -> Found<f64> {
        let facts = self.lookup.build(id)?;
        let worst_entry = |of: fn(&Resources) -> Option<u64>| {
            let resources = facts.entries.iter().map(assembled);
            let resources = resources.collect::<Found<Vec<&Resources>>>()?;
            match resources.into_iter().map(of).collect::<Option<Vec<u64>>>() {
                None => unsupported(Reason::Unsupported(Unsupported::NotInCubin)),
                Some(values) => match values.into_iter().max() {
                    Some(worst) => Ok(worst as f64),
                    None => inconclusive(Reason::NoEntry),
                },
            }
        };
        match metric {
            Metric::Registers => worst_entry(|resources| Some(resources.registers.into())),
            Metric::Stack => worst_entry(|resources| resources.stack.map(u64::from)),
            Metric::Spills => worst_entry(|resources| {
                Some(u64::from(resources.spill_stores?) + u64::from(resources.spill_loads?))
            }),
            Metric::Shared => {
                let unit = self.lookup.unit(id)?;
                let bytes = self.launched(unit, facts)?;
                let shared = bytes.iter().map(|(resources, dynamic)| {
                    u64::from(resources.static_shared) + u64::from(*dynamic)
                });
                Ok(shared.max().unwrap_or_default() as f64)
            }
            Metric::BlocksPerSm => {
                self.residency(id, facts, |resident| f64::from(resident.blocks_per_sm))
            }
            Metric::Occupancy => self.residency(id, facts, Occupancy::share),
            other => misplaced(other),
        }
    }

    /// Resources with the dynamic shared memory of each way in which the unit's entries are launched; at
    /// least one.
    fn launched<'f>(&self, unit: &Unit, facts: &'f BuildFacts) -> Found<Vec<(&'f Resources, u32)>> {
        let launched: Vec<_> = match &unit.call {
            Callable::Entries { .. } => {
                let mut launched = Vec::new();
                for case in self.lookup.cases_of(&unit.id) {
                    for (entry, launch) in steps(facts, case)? {
                        launched.push((assembled(entry)?, launch.dynamic_shared));
                    }
                }
                launched
            }
            Callable::Launcher { launches, .. } => {
                if launches.len() != facts.entries.len() {
                    return inconclusive(Reason::EntriesDiffer {
                        declared: launches.len(),
                        reported: facts.entries.len(),
                    });
                }
                let pairs = facts.entries.iter().zip(launches);
                pairs
                    .map(|(entry, launch)| Ok((assembled(entry)?, launch.dynamic_shared)))
                    .collect::<Found<_>>()?
            }
        };
        if launched.is_empty() {
            return inconclusive(Reason::LaunchUnknown {
                unit: unit.id.clone(),
            });
        }
        Ok(launched)
    }

    /// The worst over the unit's cases, by the published limits of its architecture.
    fn residency(
        &self,
        id: &UnitId,
        facts: &BuildFacts,
        of: impl Fn(&Occupancy) -> f64,
    ) -> Found<f64> {
        let unit = self.lookup.unit(id)?;
        let mut worst: Option<f64> = None;
        let mut see = |resources: &Resources, dynamic: u32, threads: u64| match resident(
            id.arch, resources, dynamic, threads,
        ) {
            Some(resident) => {
                let value = of(&resident);
                worst = Some(worst.map_or(value, |worst| worst.min(value)));
                Ok(())
            }
            None => unsupported(Reason::UnknownArchitecture { arch: id.arch }),
        };
        match &unit.call {
            Callable::Entries { .. } => {
                for case in self.lookup.cases_of(id) {
                    for (entry, launch) in steps(facts, case)? {
                        see(
                            assembled(entry)?,
                            launch.dynamic_shared,
                            launch.threads_per_block(),
                        )?;
                    }
                }
            }
            // A launcher decides its block size for itself; only a device run reads it back.
            Callable::Launcher { .. } => {
                self.lookup.device()?;
                for case in self.lookup.cases_of(id) {
                    if self.lookup.unit_on_device(&case.id)?.id != *id {
                        return unsupported(Reason::LauncherElsewhere { arch: id.arch });
                    }
                    for launched in &self.lookup.driver(&case.id)?.entries {
                        let mut entries = facts.entries.iter();
                        let Some(entry) = entries.find(|it| it.symbol == launched.symbol) else {
                            return inconclusive(Reason::UndeclaredEntry {
                                symbol: launched.symbol.clone(),
                            });
                        };
                        let launch = launched.launch;
                        see(
                            assembled(entry)?,
                            launch.dynamic_shared,
                            launch.threads_per_block(),
                        )?;
                    }
                }
            }
        }
        match worst {
            Some(worst) => Ok(worst),
            None => inconclusive(Reason::LaunchUnknown { unit: id.clone() }),
        }
    }

    /// The worst over all seeds; NaN where any seed's is, or where an element is not finite.
    fn error(&self, id: &CaseId, metric: Metric) -> Found<f64> {
        let case = self.lookup.case(id)?;
        if case.reference == Reference::None {
            return inconclusive(Reason::Unreferenced);
        }
        let mut seeds = self.lookup.seeds_of(case).peekable();
        if seeds.peek().is_none() {
            return inconclusive(Reason::NoSeeds);
        }
        let mut worst = f64::NEG_INFINITY;
        for seed in seeds {
            let value = error_of(self.lookup.check(id, seed)?, metric, seed)?;
            // Not f64::max, which swallows NaN.
            if worst.is_nan() || value.is_nan() {
                worst = f64::NAN;
            } else {
                worst = worst.max(value);
            }
        }
        Ok(worst)
    }

    /// The error with the drawn seed; `None` where there is none, or the metric is no error.
    pub fn drawn_error(&self, subject: &Subject, metric: Metric) -> Option<Found<f64>> {
        let (Subject::Case(id), Facet::Correctness) = (subject, metric.facet()) else {
            return None;
        };
        let seed = self.lookup.drawn()?;
        let check = self.lookup.check(id, seed);
        Some(check.and_then(|check| error_of(check, metric, seed)))
    }

    fn time(&self, id: &CaseId, metric: Metric) -> Found<MetricValue> {
        self.lookup.device()?;
        self.timeable(id)?;
        // Of what no gate rests on, reports show what there is.
        if metric.of_single_launches() && self.lookup.singles(id) == Singles::Judged {
            self.lookup.has_enough_singles(id, metric)?;
        }
        if metric == Metric::SlowShare {
            return self.slow_share(id).map(MetricValue::from);
        }
        let mut values = Vec::new();
        let mut resolution: f64 = 0.0;
        for facts in self.lookup.series(id)? {
            let (value, step) = time_of(facts, metric)?;
            check_clock(facts, metric, value, Side::Head)?;
            values.push(value);
            resolution = resolution.max(step / value);
        }
        Ok(MetricValue::of_processes(&values, resolution))
    }

    /// The mean over the processes, with one split for all of them.
    fn slow_share(&self, id: &CaseId) -> Found<f64> {
        let Some(modes) = self.modes(id)? else {
            return Ok(0.0);
        };
        let series = self.lookup.series(id)?;
        let shares = series
            .iter()
            .filter_map(|facts| modes.slow_share(&facts.single_ns));
        Ok(shares.sum::<f64>() / series.len() as f64)
    }

    /// The two modes of a case's single launches; `None` where there is one.
    ///
    /// # Errors
    /// As for a metric; and where there are too few launches to tell.
    pub(super) fn modes(&self, id: &CaseId) -> Found<Option<Modes>> {
        self.lookup.device()?;
        self.timeable(id)?;
        let series = self.lookup.series(id)?;
        let launches: Vec<_> = series
            .iter()
            .map(|facts| Launches {
                ns: &facts.single_ns,
                tick_ns: facts.tick_ns,
            })
            .collect();
        Modes::find(&launches).map_err(|few| Ruling {
            outcome: Outcome::Inconclusive,
            reason: Reason::TooFewLaunches { have: few.have },
        })
    }

    /// What the times of a case rest on that a stored baseline is held against.
    pub(super) fn effort_alone(&self, subject: &Subject, metric: Metric) -> Option<Effort> {
        let Subject::Case(id) = subject else {
            return None;
        };
        if metric.facet() != Facet::Times {
            return None;
        }
        let series = self.lookup.series(id).ok()?;
        Some(Effort {
            processes: count(series.len()),
            samples: series
                .iter()
                .map(|it| count_samples(it, Some(metric)))
                .sum(),
            gpu_ms: None,
        })
    }

    /// A counter as a gate sees it.
    fn counter(&self, id: &CaseId, metric: Metric) -> Found<f64> {
        let Metric::Counter(counter) = metric else {
            return misplaced(metric);
        };
        let counted = self.over_launches(id, |launch| &launch.counters)?;
        match counted.get(&counter) {
            Some(value) => Ok(*value as f64),
            None => unsupported(Reason::CounterWithheld {
                counter,
                why: self.withheld(id)?.get(&counter).copied().cloned(),
            }),
        }
    }

    /// The largest value over all seeds of each counter that can be gated; none where a seed is missing.
    pub fn gateable(&self, id: &CaseId) -> BTreeMap<Counter, u64> {
        let counted = self.over_launches(id, |launch| &launch.counters);
        counted.unwrap_or_default()
    }

    /// The same of any counter, for a reader.
    pub fn shown(&self, id: &CaseId, counter: Counter) -> Option<f64> {
        let of = |of: fn(&SimulationFacts) -> &BTreeMap<Counter, u64>| {
            let counted = self.over_launches(id, of).ok()?;
            counted.get(&counter).copied()
        };
        let value = of(|launch| &launch.counters).or_else(|| of(|launch| &launch.information));
        value.map(|value| value as f64)
    }

    /// The largest value over all seeds of each counter that every seed has.
    pub(super) fn over_launches(
        &self,
        id: &CaseId,
        of: impl Fn(&SimulationFacts) -> &BTreeMap<Counter, u64>,
    ) -> Found<BTreeMap<Counter, u64>> {
        let mut largest: Option<BTreeMap<Counter, u64>> = None;
        for seed in self.lookup.seeds_of(self.lookup.case(id)?) {
            let counted = of(self.lookup.simulation(id, seed)?);
            largest = Some(match largest {
                None => counted.clone(),
                // A counter that one launch cannot be held to is none of the case.
                Some(largest) => largest
                    .into_iter()
                    .filter_map(|(counter, value)| {
                        Some((counter, value.max(*counted.get(&counter)?)))
                    })
                    .collect(),
            });
        }
        match largest {
            Some(largest) => Ok(largest),
            None => inconclusive(Reason::NoSeeds),
        }
    }

    /// Counters that no gate can rest on in some launch of the case, and why in the first of them.
    pub(super) fn withheld(&self, id: &CaseId) -> Found<BTreeMap<Counter, &'a Withheld>> {
        let mut all = BTreeMap::new();
        for seed in self.lookup.seeds_of(self.lookup.case(id)?) {
            for (counter, withheld) in &self.lookup.simulation(id, seed)?.withheld {
                all.entry(*counter).or_insert(withheld);
            }
        }
        Ok(all)
    }
}

impl<'a> Beside<'a> {
    /// Whatever became of the base's, there is no failure of head.
    fn build(&self, unit: &UnitId) -> Found<&'a BuildFacts> {
        self.base.lookup.build(unit).map_err(|why| Ruling {
            outcome: Outcome::Inconclusive,
            reason: Reason::BaseNotBuilt {
                why: Box::new(why.reason),
            },
        })
    }
}

fn base_status(values: &Values, id: &CaseId) -> Found<BaseStatus> {
    let lookup = &values.lookup;
    let (Some(base), Some(beside)) = (&lookup.policy.base, &values.beside) else {
        return Ok(BaseStatus::NoBase);
    };
    let Some(theirs) = base.plan.case(id) else {
        return Ok(BaseStatus::New);
    };
    let ours = lookup.case(id)?;
    let device = lookup.device()?;
    let Some(base_unit) = unit_for(&base.plan, id, device) else {
        return inconclusive(Reason::BaseArchitecture {
            revision: base.revision.clone(),
            case: Box::new(id.clone()),
            device: device.name.clone(),
        });
    };
    let head = lookup.build(&lookup.unit_on_device(id)?.id)?;
    let built = beside.build(&base_unit.id)?;
    let same = head.identity == built.identity && is_same_call(ours, theirs);
    Ok(match same {
        true => BaseStatus::Unchanged,
        false => BaseStatus::Changed,
    })
}

/// Whether two cases launch alike over the same arguments.
pub(super) fn is_same_call(a: &Case, b: &Case) -> bool {
    (&a.steps, &a.tensors) == (&b.steps, &b.tensors)
}

/// Each entry that a case launches, in turn, with its launch.
pub(super) fn steps<'f>(
    facts: &'f BuildFacts,
    case: &Case,
) -> Found<Vec<(&'f EntryFacts, Launch)>> {
    if facts.entries.len() != case.steps.len() {
        return inconclusive(Reason::EntriesDiffer {
            declared: case.steps.len(),
            reported: facts.entries.len(),
        });
    }
    let steps = facts.entries.iter().zip(&case.steps);
    Ok(steps
        .filter_map(|(entry, step)| Some((entry, step.launch?)))
        .collect())
}

/// The resources that PTXAS reported for an entry, if it took the PTX.
pub(super) fn assembled(entry: &EntryFacts) -> Found<&Resources> {
    match &entry.resources {
        Some(resources) => Ok(resources),
        None => unsupported(Reason::Unsupported(Unsupported::NewerPtx)),
    }
}

/// What an SM of `arch` holds of a launch with this much dynamic shared memory (bytes) and block size.
pub(super) fn resident(
    arch: Arch,
    resources: &Resources,
    dynamic_shared: u32,
    threads_per_block: u64,
) -> Option<Occupancy> {
    occupancy(
        arch,
        Demand {
            registers: resources.registers,
            shared_bytes: u64::from(resources.static_shared) + u64::from(dynamic_shared),
            barriers: resources.barriers,
            threads_per_block,
        },
    )
}

/// A metric of a subject, or evidence, that does not have it.
pub(super) fn misplaced<T>(metric: Metric) -> Found<T> {
    inconclusive(Reason::Misplaced {
        metric: Some(metric),
    })
}

fn error_of(facts: &CheckFacts, metric: Metric, seed: u64) -> Found<f64> {
    let (errors, of): (_, fn(&ErrorFacts) -> Option<Num>) = match metric {
        Metric::MaxErr => (Some(&facts.error), |errors| Some(errors.max_err)),
        Metric::MeanErr => (Some(&facts.error), |errors| Some(errors.mean_err)),
        Metric::RelL2 => (Some(&facts.error), |errors| Some(errors.rel_l2)),
        Metric::OverTolerance => (Some(&facts.error), |errors| errors.over_tolerance),
        Metric::OriginalMaxErr => (facts.original.as_ref(), |errors| Some(errors.max_err)),
        Metric::OriginalMeanErr => (facts.original.as_ref(), |errors| Some(errors.mean_err)),
        Metric::CodecMaxErr => (facts.codec.as_ref(), |errors| Some(errors.max_err)),
        Metric::CodecMeanErr => (facts.codec.as_ref(), |errors| Some(errors.mean_err)),
        other => return misplaced(other),
    };
    let Some(errors) = errors else {
        return unsupported(Reason::NoCodec);
    };
    if errors.elements == 0 {
        return inconclusive(Reason::NothingCompared { seed });
    }
    // The figures are over the finite elements only, and an output of NaN has no error to be proud of.
    // The share beyond the tolerance counts those elements itself.
    if errors.non_finite > 0 && metric != Metric::OverTolerance {
        return Ok(f64::NAN);
    }
    match of(errors) {
        Some(value) => Ok(value.0),
        None => inconclusive(Reason::NoTolerance { metric }),
    }
}

/// Value of one process and the standard error that the clock's step alone gives it, both in the unit of
/// the metric.
pub(super) fn time_of(facts: &TimeFacts, metric: Metric) -> Found<(f64, f64)> {
    let samples = Samples {
        launches: facts.launches_per_sample,
        batched_ns: &facts.batched_ns,
        single_ns: &facts.single_ns,
        tick_ns: facts.tick_ns,
    };
    if metric == Metric::Cycles {
        let (ns, step) = value_of(&samples, Metric::P50)?;
        let per_ns = clock(facts)? / 1000.0;
        return Ok((ns * per_ns, step * per_ns));
    }
    value_of(&samples, metric)
}

/// What one process measured, of a case or of a rival.
pub(super) struct Samples<'a> {
    /// Of one batched sample.
    pub launches: u32,
    pub batched_ns: &'a [u64],
    pub single_ns: &'a [u64],
    pub tick_ns: u64,
}

/// A metric that samples alone give.
pub(super) fn value_of(samples: &Samples, metric: Metric) -> Found<(f64, f64)> {
    let tick = ROUNDING * samples.tick_ns as f64;
    let launches = f64::from(samples.launches);
    let have = samples.single_ns.len();
    let too_few = |needed: u32| Reason::TooFewSingles {
        metric,
        have,
        needed,
    };
    let batched = || match Sample::new(samples.batched_ns) {
        Some(sample) => Ok(sample),
        None => inconclusive(Reason::TooFewLaunches { have: 0 }),
    };
    // Batches hide tails: these come from samples of one launch each.
    let single = || match Sample::new(samples.single_ns) {
        Some(sample) if sample.size() >= metric.least_singles() as usize => Ok(sample),
        _ => inconclusive(too_few(metric.least_singles())),
    };
    Ok(match metric {
        Metric::P50 => (batched()?.median() / launches, tick / launches),
        Metric::Mean => (batched()?.mean() / launches, tick / launches),
        Metric::Min => (batched()?.min() / launches, tick / launches),
        Metric::Max => (batched()?.max() / launches, tick / launches),
        Metric::P90 => (single()?.quantile(0.90), tick),
        Metric::P99 => (single()?.quantile(0.99), tick),
        Metric::Cv => {
            let sample = single()?;
            let Some(deviation) = sample.deviation() else {
                return inconclusive(too_few(2));
            };
            // Less than the clock's own rounding cannot be seen, and so is not claimed.
            (deviation.max(tick) / sample.mean(), tick / sample.mean())
        }
        other => return misplaced(other),
    })
}

/// A value that the steps of the clock can tell from none.
pub(super) fn check_clock(facts: &TimeFacts, metric: Metric, value: f64, side: Side) -> Found<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    inconclusive(Reason::ClockTooCoarse {
        metric,
        side,
        value: Num(value),
        tick_ns: facts.tick_ns,
    })
}

/// SM clock in MHz during the batched samples.
fn clock(facts: &TimeFacts) -> Found<f64> {
    match (facts.gpu.sm_mhz_before, facts.gpu.sm_mhz_after) {
        (Some(before), Some(after)) if before.0 > 0.0 && after.0 > 0.0 => {
            Ok((before.0 + after.0) / 2.0)
        }
        _ => inconclusive(Reason::ClockUnknown),
    }
}

/// How many samples a metric rests on; `None` for all that there are.
pub(super) fn count_samples(facts: &TimeFacts, metric: Option<Metric>) -> u64 {
    let (batched, single) = (facts.batched_ns.len(), facts.single_ns.len());
    let samples = match metric {
        None => batched + single,
        Some(metric) if metric.of_single_launches() => single,
        Some(_) => batched,
    };
    samples as u64
}
