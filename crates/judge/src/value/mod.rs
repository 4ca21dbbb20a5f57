//! Floor 2: computes the value of a metric from the evidence: over which entries, shapes, seeds and processes it is
//! taken, and when there is none.

pub(super) mod profile;

use super::index::View;
use super::not_passed::{NotPassed, OrNotPassed, inconclusive, unsupported};
use super::series::count;
use crate::stats::modes::{Launches, Modes};
use crate::stats::{self, ProcessGroup, ProcessTimes, ProcessValue};
use model::occupancy::{Occupancy, resident};
use model::*;
use std::collections::BTreeMap;

/// The value of a metric for a case or a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// Ratios and shares as such, times in ns, sizes in bytes. May be NaN, and then no limit holds for it.
    pub number: f64,
    /// `None` for values that repeat exactly, and for values that were seen once.
    pub spread: Option<Spread>,
}

/// The variation between observations of one code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// The variation of a time between processes.
    Processes(ProcessGroup),
    /// The variation of a profile between repeats.
    Repeats(Repeats),
}

/// The smallest and the largest value of several profiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeats {
    pub low: f64,
    pub high: f64,
    pub count: usize,
}

impl Spread {
    pub fn group(self) -> Option<ProcessGroup> {
        match self {
            Self::Processes(group) => Some(group),
            Self::Repeats(_) => None,
        }
    }

    /// Returns the number that a baseline keeps.
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
    pub fn group(&self) -> Option<ProcessGroup> {
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

impl<'a> View<'_, 'a> {
    /// Checks that a case may be timed: only a case that is right is timed. If it is not right, its own gate fails, and
    /// here that is the reason of a skip. The base's evidence counts whether or not the base is right.
    pub fn timeable(self, id: &CaseId) -> OrNotPassed<()> {
        let not_proven = |why: NotPassed| match why.outcome {
            Outcome::Fail => NotPassed {
                outcome: Outcome::Skipped,
                reason: Reason::NotProven {
                    why: Box::new(why.reason),
                },
            },
            _ => why,
        };
        self.case(id)?;
        let proofs = &self.index.proofs;
        // On a GPU, or with one architecture, one proof holds for all.
        let proof = proofs.get(&(self.arch, id));
        match proof.or_else(|| proofs.get(&(None, id))) {
            _ if self.side == Side::Base => Ok(()),
            Some(proof) => proof.clone().map_err(not_proven),
            // While proofs are made there is no entry yet. No proof rests on a time.
            None => inconclusive(Reason::NoErrorLimit),
        }
    }

    /// Returns the p50 in ns that verdicts use. If too few processes count for a verdict, it is taken over all
    /// processes that gave times.
    pub fn p50_ns(self, id: &CaseId) -> Option<f64> {
        match self.metric(&Subject::Case(id.clone()), Metric::P50) {
            Ok(value) => Some(value.number),
            Err(_) => stats::p50(self.timed(id)),
        }
    }

    /// Returns the value of a metric.
    ///
    /// # Errors
    /// Returns the outcome and reason of whatever is missing.
    pub fn metric(self, subject: &Subject, metric: Metric) -> OrNotPassed<MetricValue> {
        match (subject, metric.facet()) {
            (Subject::Unit(unit), Facet::Resources) => {
                self.resource(unit, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Resources) => {
                let unit = self.unit_on_device(case)?;
                self.resource(&unit.id, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Correctness) => {
                self.error(case, metric).map(MetricValue::from)
            }
            (Subject::Case(case), Facet::Times) => self.time(case, metric),
            (Subject::Case(case), Facet::Profile) => self.profile_value(case, metric),
            (Subject::Case(case), Facet::Counters) => {
                self.counter(case, metric).map(MetricValue::from)
            }
            (
                Subject::Unit(_),
                Facet::Correctness | Facet::Times | Facet::Counters | Facet::Profile,
            ) => misplaced(metric),
        }
    }

    fn resource(self, id: &UnitId, metric: Metric) -> OrNotPassed<f64> {
        let facts = self.build(id)?;
        let worst_entry = |of: fn(&Resources) -> Option<u64>| {
            let resources = facts
                .entries
                .iter()
                .map(assembled)
                .collect::<OrNotPassed<Vec<&Resources>>>()?;
            match resources.into_iter().map(of).collect::<Option<Vec<u64>>>() {
                None => unsupported(Reason::Unsupported(Unsupported::NotInCubin)),
                Some(values) => match values.into_iter().max() {
                    Some(worst) => Ok(worst as f64),
                    None => inconclusive(Reason::NoEntry),
                },
            }
        };
        match metric {
            Metric::Spills if self.planned_unit(id).is_some_and(Unit::is_compiled) => {
                let spills = worst_entry(|resources| resources.spill_stores.map(u64::from));
                let accesses = worst_entry(|resources| resources.local_accesses.map(u64::from));
                match (spills, accesses) {
                    (Err(_), Ok(accesses)) => inconclusive(Reason::SpillsUnknown {
                        accesses: accesses as u64,
                    }),
                    (spills, _) => spills,
                }
            }
            Metric::Registers => worst_entry(|resources| Some(resources.registers.into())),
            Metric::Stack => worst_entry(|resources| resources.stack.map(u64::from)),
            Metric::Spills => worst_entry(|resources| {
                Some(u64::from(resources.spill_stores?) + u64::from(resources.spill_loads?))
            }),
            Metric::Shared => {
                let unit = self.unit(id)?;
                let bytes = self.launched(unit, facts)?;
                Ok(bytes
                    .iter()
                    .map(|(resources, dynamic)| {
                        u64::from(resources.static_shared) + u64::from(*dynamic)
                    })
                    .max()
                    .unwrap_or_default() as f64)
            }
            Metric::BlocksPerSm => {
                self.residency(id, facts, |resident| f64::from(resident.blocks_per_sm))
            }
            Metric::Occupancy => self.residency(id, facts, Occupancy::share),
            Metric::Code => worst_entry(|resources| resources.code),
            Metric::LocalAccesses => {
                worst_entry(|resources| resources.local_accesses.map(u64::from))
            }
            Metric::Count => match facts.kernels {
                Some(kernels) => Ok(f64::from(kernels)),
                None => misplaced(metric),
            },
            other => misplaced(other),
        }
    }

    /// Returns the resources with the dynamic shared memory of each way in which the unit's entries are launched. There
    /// is at least one.
    fn launched<'f>(
        self,
        unit: &Unit,
        facts: &'f BuildFacts,
    ) -> OrNotPassed<Vec<(&'f Resources, u32)>> {
        let launched: Vec<_> = match &unit.call {
            Callable::Compiled { .. } => facts
                .entries
                .iter()
                .map(|entry| Ok((assembled(entry)?, 0)))
                .collect::<OrNotPassed<_>>()?,
            Callable::Entries { .. } | Callable::Together { .. } => {
                let mut launched = Vec::new();
                for case in self.cases_of(&unit.id) {
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
                facts
                    .entries
                    .iter()
                    .zip(launches)
                    .map(|(entry, launch)| Ok((assembled(entry)?, launch.dynamic_shared)))
                    .collect::<OrNotPassed<_>>()?
            }
        };
        if launched.is_empty() {
            return inconclusive(Reason::LaunchUnknown {
                unit: unit.id.clone(),
            });
        }
        Ok(launched)
    }

    /// Returns the worst residency over the unit's cases, by the published limits of its architecture.
    fn residency(
        &self,
        id: &UnitId,
        facts: &BuildFacts,
        of: impl Fn(&Occupancy) -> f64,
    ) -> OrNotPassed<f64> {
        let unit = self.unit(id)?;
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
            // The block has the largest size that the source promises.
            Callable::Compiled { .. } => {
                for entry in &facts.entries {
                    if let Some(threads) = entry.bounds.threads {
                        see(assembled(entry)?, 0, threads.into())?;
                    }
                }
            }
            Callable::Entries { .. } | Callable::Together { .. } => {
                for case in self.cases_of(id) {
                    for (entry, launch) in steps(facts, case)? {
                        see(
                            assembled(entry)?,
                            launch.dynamic_shared,
                            launch.threads_per_block(),
                        )?;
                    }
                }
            }
            // A launcher decides its block size by itself, and only a run on a device reads it back.
            Callable::Launcher { .. } => {
                self.device()?;
                for case in self.cases_of(id) {
                    if self.unit_on_device(&case.id)?.id != *id {
                        return unsupported(Reason::LauncherElsewhere { arch: id.arch });
                    }
                    for launched in &self.driver(&case.id)?.entries {
                        let Some(entry) = facts
                            .entries
                            .iter()
                            .find(|entry| entry.symbol == launched.symbol)
                        else {
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

    /// Returns the worst error over all seeds. It is NaN if any seed's error is, or if an element is not finite.
    fn error(self, id: &CaseId, metric: Metric) -> OrNotPassed<f64> {
        let case = self.case(id)?;
        if case.reference == Reference::None {
            return inconclusive(Reason::Unreferenced);
        }
        let mut seeds = self.seeds_of(case).peekable();
        if seeds.peek().is_none() {
            return inconclusive(Reason::NoSeeds);
        }
        let mut worst = f64::NEG_INFINITY;
        for seed in seeds {
            let value = error_of(self.check(id, seed)?, metric, seed)?;
            // `f64::max` would swallow NaN.
            if worst.is_nan() || value.is_nan() {
                worst = f64::NAN;
            } else {
                worst = worst.max(value);
            }
        }
        Ok(worst)
    }

    /// Returns the error with the drawn seed, or `None` if there is no drawn seed or if the metric is no error.
    pub fn drawn_error(self, subject: &Subject, metric: Metric) -> Option<OrNotPassed<f64>> {
        let (Subject::Case(id), Facet::Correctness) = (subject, metric.facet()) else {
            return None;
        };
        let seed = self.drawn()?;
        let check = self.check(id, seed);
        Some(check.and_then(|check| error_of(check, metric, seed)))
    }

    fn time(self, id: &CaseId, metric: Metric) -> OrNotPassed<MetricValue> {
        self.device()?;
        self.timeable(id)?;
        // If no gate rests on these samples, reports show as many as there are.
        if metric.uses_single_launches() && self.singles(id) == Singles::Judged {
            self.has_enough_singles(id, metric)?;
        }
        if metric == Metric::SlowShare {
            return self.slow_share(id).map(MetricValue::from);
        }
        let mut values = Vec::new();
        let mut resolution: f64 = 0.0;
        for facts in self.series(id)? {
            let ProcessValue { value, step } = time_of(facts, metric)?;
            check_clock(facts, metric, value, Side::Head)?;
            values.push(value);
            resolution = resolution.max(step / value);
        }
        Ok(MetricValue::from_processes(&values, resolution))
    }

    /// Returns the mean over the processes, with one split for all of them.
    fn slow_share(self, id: &CaseId) -> OrNotPassed<f64> {
        let Some(modes) = self.modes(id)? else {
            return Ok(0.0);
        };
        let series = self.series(id)?;
        Ok(series
            .iter()
            .filter_map(|facts| modes.slow_share(&facts.single_ns))
            .sum::<f64>()
            / series.len() as f64)
    }

    /// Returns the two modes of a case's single launches, or `None` if there is one.
    ///
    /// # Errors
    /// Fails as for a metric, and if there are too few launches to tell.
    pub(super) fn modes(self, id: &CaseId) -> OrNotPassed<Option<Modes>> {
        self.device()?;
        self.timeable(id)?;
        let series = self.series(id)?;
        let launches: Vec<_> = series
            .iter()
            .map(|facts| Launches {
                ns: &facts.single_ns,
                tick_ns: facts.tick_ns,
            })
            .collect();
        Modes::find(&launches).map_err(|few| NotPassed {
            outcome: Outcome::Inconclusive,
            reason: Reason::TooFewLaunches { have: few.have },
        })
    }

    /// Returns the effort behind the times of a case that are compared with a stored baseline.
    pub(super) fn effort_alone(self, subject: &Subject, metric: Metric) -> Option<Effort> {
        let Subject::Case(id) = subject else {
            return None;
        };
        if metric.facet() != Facet::Times {
            return None;
        }
        let series = self.series(id).ok()?;
        Some(Effort {
            processes: count(series.len()),
            samples: series
                .iter()
                .map(|series| count_samples(series, Some(metric)))
                .sum(),
            gpu_ms: None,
        })
    }

    /// Returns a counter as a gate sees it.
    fn counter(self, id: &CaseId, metric: Metric) -> OrNotPassed<f64> {
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

    /// Returns the largest value over all seeds of each counter that can be gated. The map is empty if a seed is
    /// missing.
    pub fn gateable(self, id: &CaseId) -> BTreeMap<Counter, u64> {
        let counted = self.over_launches(id, |launch| &launch.counters);
        counted.unwrap_or_default()
    }

    /// Returns a metric as a reader sees it, which includes counters that no gate may rest on.
    ///
    /// # Errors
    /// Fails as for a metric.
    pub fn shown(self, subject: &Subject, metric: Metric) -> OrNotPassed<f64> {
        let found = self.metric(subject, metric).map(|value| value.number);
        let (Subject::Case(id), Metric::Counter(counter), Err(_)) = (subject, metric, &found)
        else {
            return found;
        };
        let informed = self.over_launches(id, |launch| &launch.information);
        let value = informed.ok().and_then(|all| all.get(&counter).copied());
        value.map_or(found, |value| Ok(value as f64))
    }

    /// Returns the largest value over all seeds of each counter that every seed has.
    pub(super) fn over_launches(
        &self,
        id: &CaseId,
        of: impl Fn(&SimulationFacts) -> &BTreeMap<Counter, u64>,
    ) -> OrNotPassed<BTreeMap<Counter, u64>> {
        let mut largest: Option<BTreeMap<Counter, u64>> = None;
        for seed in self.seeds_of(self.case(id)?) {
            let counted = of(self.simulation(id, seed)?);
            largest = Some(match largest {
                None => counted.clone(),
                // A counter that is withheld in one launch is withheld for the case.
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

    /// Returns the counters that no gate can rest on in some launch of the case, with the gravest doubt of all launches.
    pub(super) fn withheld(self, id: &CaseId) -> OrNotPassed<BTreeMap<Counter, &'a Withheld>> {
        let mut all: BTreeMap<Counter, &Withheld> = BTreeMap::new();
        for seed in self.seeds_of(self.case(id)?) {
            for (&counter, withheld) in &self.simulation(id, seed)?.withheld {
                let known = all.entry(counter).or_insert(withheld);
                if withheld.doubt < known.doubt {
                    *known = withheld;
                }
            }
        }
        Ok(all)
    }

    /// Returns the largest value over all seeds of each counter that can be compared with another launch's: those that gates
    /// rest on, and those that are withheld for a doubt that [keeps their order](Doubt::keeps_order).
    pub(super) fn simulated_counts(
        self,
        id: &CaseId,
    ) -> OrNotPassed<BTreeMap<Counter, SimulatedCount<'a>>> {
        let withheld = self.withheld(id)?;
        let launches = self
            .seeds_of(self.case(id)?)
            .map(|seed| self.simulation(id, seed))
            .collect::<OrNotPassed<Vec<_>>>()?;
        if launches.is_empty() {
            return inconclusive(Reason::NoSeeds);
        }
        let count = |counter: Counter| -> Option<SimulatedCount<'a>> {
            let withheld = withheld.get(&counter).copied();
            if withheld.is_some_and(|withheld| !withheld.doubt.keeps_order()) {
                return None;
            }
            let value = launches
                .iter()
                .map(|launch| {
                    let informed = launch.information.get(&counter);
                    let informed = informed.filter(|_| withheld.is_some());
                    launch.counters.get(&counter).or(informed).copied()
                })
                .collect::<Option<Vec<u64>>>()?
                .into_iter()
                .max()?;
            Some(SimulatedCount { value, withheld })
        };
        Ok(Counter::ALL
            .into_iter()
            .filter_map(|counter| Some((counter, count(counter)?)))
            .collect())
    }
}

/// A counter as the simulator counted it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedCount<'a> {
    pub value: u64,
    /// The reason for which no gate can rest on it, or `None` if gates do.
    pub withheld: Option<&'a Withheld>,
}

/// Returns each entry that a case launches, in turn, with its launch.
pub(super) fn steps<'f>(
    facts: &'f BuildFacts,
    case: &Case,
) -> OrNotPassed<Vec<(&'f EntryFacts, Launch)>> {
    let entries = case.choose(&facts.entries);
    if entries.len() != case.steps.len() {
        return inconclusive(Reason::EntriesDiffer {
            declared: case.steps.len(),
            reported: entries.len(),
        });
    }
    Ok(entries
        .into_iter()
        .zip(&case.steps)
        .filter_map(|(entry, step)| Some((entry, step.launch?)))
        .collect())
}

/// Returns the resources that PTXAS reported for an entry, if it accepted the PTX.
pub(super) fn assembled(entry: &EntryFacts) -> OrNotPassed<&Resources> {
    match &entry.resources {
        Some(resources) => Ok(resources),
        None => unsupported(Reason::Unsupported(Unsupported::NewerPtx)),
    }
}

/// Reports a metric that this subject or evidence does not have.
pub(super) fn misplaced<T>(metric: Metric) -> OrNotPassed<T> {
    inconclusive(Reason::Misplaced {
        metric: Some(metric),
    })
}

fn error_of(facts: &CheckFacts, metric: Metric, seed: u64) -> OrNotPassed<f64> {
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
    // The figures cover only the finite elements, so an output of NaN would have no error. The share beyond the
    // tolerance counts the elements that are not finite itself.
    if errors.non_finite > 0 && metric != Metric::OverTolerance {
        return Ok(f64::NAN);
    }
    match of(errors) {
        Some(value) => Ok(value.0),
        None => inconclusive(Reason::NoTolerance { metric }),
    }
}

/// Returns a time metric of one process.
pub(super) fn time_of(facts: &TimeFacts, metric: Metric) -> OrNotPassed<ProcessValue> {
    let times = ProcessTimes::from(facts);
    if metric == Metric::Cycles {
        let ProcessValue { value, step } = value_of(&times, Metric::P50)?;
        let per_ns = clock(facts)? / 1000.0;
        return Ok(ProcessValue {
            value: value * per_ns,
            step: step * per_ns,
        });
    }
    value_of(&times, metric)
}

/// Returns a metric that needs only samples, of a case or of a rival.
pub(super) fn value_of(times: &ProcessTimes, metric: Metric) -> OrNotPassed<ProcessValue> {
    let have = times.single_ns.len();
    let needed = metric.least_singles();
    if metric.uses_single_launches() && have < needed as usize {
        return inconclusive(Reason::TooFewSingles {
            metric,
            have,
            needed,
        });
    }
    let found = match metric {
        Metric::P50 => times.p50(),
        Metric::Mean => times.mean(),
        Metric::Min => times.min(),
        Metric::Max => times.max(),
        Metric::P90 => times.p90(),
        Metric::P99 => times.p99(),
        Metric::Cv => times.cv(),
        other => return misplaced(other),
    };
    match found {
        Some(reading) => Ok(reading),
        None => inconclusive(Reason::TooFewLaunches { have: 0 }),
    }
}

/// Checks that the steps of the clock are fine enough to distinguish the value from zero.
pub(super) fn check_clock(
    facts: &TimeFacts,
    metric: Metric,
    value: f64,
    side: Side,
) -> OrNotPassed<()> {
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

/// Returns the SM clock in MHz during the batched samples.
fn clock(facts: &TimeFacts) -> OrNotPassed<f64> {
    match (facts.gpu.sm_mhz_before, facts.gpu.sm_mhz_after) {
        (Some(before), Some(after)) if before.0 > 0.0 && after.0 > 0.0 => {
            Ok((before.0 + after.0) / 2.0)
        }
        _ => inconclusive(Reason::ClockUnknown),
    }
}

/// Returns how many samples a metric rests on. `None` stands for all samples.
pub(super) fn count_samples(facts: &TimeFacts, metric: Option<Metric>) -> u64 {
    let (batched, single) = (facts.batched_ns.len(), facts.single_ns.len());
    let samples = match metric {
        None => batched + single,
        Some(metric) if metric.uses_single_launches() => single,
        Some(_) => batched,
    };
    samples as u64
}
