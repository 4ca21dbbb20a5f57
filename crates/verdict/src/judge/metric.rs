//! What a metric's value is, from the evidence: which entries, shapes, seeds and processes it is taken
//! over, and when it has none.

use super::facts::{Facts, Found, Ruling, inconclusive, ruling};
use crate::model::*;
use crate::occupancy::{Demand, Occupancy, occupancy};
use crate::stats::modes::{Launches, Modes};
use crate::stats::{Group, Sample};

/// The value of a metric for a case or a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Ratios and shares as such, times in ns, sizes in bytes. May be NaN: no limit holds for it.
    pub number: f64,
    /// Of times, where more than one process took them.
    pub group: Option<Group>,
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self {
            number,
            group: None,
        }
    }
}

/// Standard error of one value rounded to steps of `tick`: sqrt of the variance of a uniform distribution.
const ROUNDING: f64 = 0.288_675_134_594_812_9;

impl<'a> Facts<'a> {
    /// # Errors
    /// With the outcome and reason of whatever is missing.
    pub fn metric(&self, subject: &Subject, metric: Metric) -> Found<Value> {
        match (subject, metric.facet()) {
            (Subject::Unit(unit), Facet::Resources) => self.resource(unit, metric).map(Value::from),
            (Subject::Case(case), Facet::Resources) => {
                let unit = self.unit_on_device(case)?;
                self.resource(&unit.id, metric).map(Value::from)
            }
            (Subject::Case(case), Facet::Correctness) => self.error(case, metric).map(Value::from),
            (Subject::Case(case), Facet::Times) => self.time(case, metric),
            (Subject::Case(case), Facet::Counters) => self.counted(case, metric).map(Value::from),
            (Subject::Unit(unit), Facet::Correctness | Facet::Times | Facet::Counters) => {
                inconclusive(format!("{metric} belongs to a shape, and {unit} has none"))
            }
        }
    }

    fn resource(&self, id: &UnitId, metric: Metric) -> Found<f64> {
        let facts = self.build(id)?;
        let worst_entry = |of: fn(&Resources) -> u64| {
            let values = facts.entries.iter().map(|entry| of(&entry.resources));
            match values.max() {
                Some(worst) => Ok(worst as f64),
                None => inconclusive(format!("no entry of {id} was reported")),
            }
        };
        match metric {
            Metric::Registers => worst_entry(|resources| resources.registers.into()),
            Metric::Stack => worst_entry(|resources| resources.stack.into()),
            Metric::Spills => worst_entry(|resources| {
                u64::from(resources.spill_stores) + u64::from(resources.spill_loads)
            }),
            Metric::Shared => {
                let unit = self.unit(id)?;
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
            other => inconclusive(format!("{other} is no resource")),
        }
    }

    /// Resources with the dynamic shared memory of each way in which the unit's entries are launched; at
    /// least one.
    fn launched<'f>(&self, unit: &Unit, facts: &'f BuildFacts) -> Found<Vec<(&'f Resources, u32)>> {
        let launched: Vec<_> = match &unit.call {
            Callable::Entry { .. } => {
                let launches = self.cases_of(&unit.id).filter_map(|case| case.launch);
                launches
                    .flat_map(|launch| {
                        let entries = facts.entries.iter();
                        entries.map(move |entry| (&entry.resources, launch.dynamic_shared))
                    })
                    .collect()
            }
            Callable::Launcher { launches, .. } => {
                if launches.len() != facts.entries.len() {
                    return inconclusive(format!(
                        "{} entries are declared and {} were reported",
                        launches.len(),
                        facts.entries.len()
                    ));
                }
                let pairs = facts.entries.iter().zip(launches);
                pairs
                    .map(|(entry, launch)| (&entry.resources, launch.dynamic_shared))
                    .collect()
            }
        };
        if launched.is_empty() {
            return inconclusive(format!("no launch of {} is known", unit.id));
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
            None => ruling(
                Outcome::Unsupported,
                format!("no published limits of {} are known here", id.arch),
            ),
        };
        match &unit.call {
            Callable::Entry { .. } => {
                for launch in self.cases_of(id).filter_map(|case| case.launch) {
                    for entry in &facts.entries {
                        see(
                            &entry.resources,
                            launch.dynamic_shared,
                            launch.threads_per_block(),
                        )?;
                    }
                }
            }
            // A launcher decides its block size for itself; only a device run reads it back.
            Callable::Launcher { .. } => {
                self.device()?;
                for case in self.cases_of(id) {
                    if self.unit_on_device(&case.id)?.id != *id {
                        return ruling(
                            Outcome::Unsupported,
                            format!(
                                "the block size of a launcher is read back on a device, and this one does not run {}",
                                id.arch
                            ),
                        );
                    }
                    for launched in &self.driver(&case.id)?.entries {
                        let Some(entry) = facts
                            .entries
                            .iter()
                            .find(|entry| entry.symbol == launched.symbol)
                        else {
                            return inconclusive(format!(
                                "{} launches {}, which it does not declare",
                                case.id, launched.symbol
                            ));
                        };
                        let launch = launched.launch;
                        see(
                            &entry.resources,
                            launch.dynamic_shared,
                            launch.threads_per_block(),
                        )?;
                    }
                }
            }
        }
        worst.map_or_else(|| inconclusive(format!("no launch of {id} is known")), Ok)
    }

    /// The worst over all seeds; NaN where any seed's is, or where an element is not finite.
    fn error(&self, id: &CaseId, metric: Metric) -> Found<f64> {
        let case = self.case(id)?;
        if case.seeds.is_empty() {
            return inconclusive(format!("{id} has no seeds"));
        }
        let mut worst = f64::NEG_INFINITY;
        for &seed in &case.seeds {
            let value = error_of(self.check(id, seed)?, metric, seed)?;
            // Not f64::max, which swallows NaN.
            if worst.is_nan() || value.is_nan() {
                worst = f64::NAN;
            } else {
                worst = worst.max(value);
            }
        }
        Ok(worst)
    }

    /// Each process gives one value; they are summed up by their geometric mean, the estimate that the
    /// interval of a ratio is about.
    fn time(&self, case: &CaseId, metric: Metric) -> Found<Value> {
        self.device()?;
        self.timeable(case)?;
        // Of what no gate rests on, reports show what there is.
        if metric.of_single_launches() && self.singles(case) == Singles::Judged {
            self.enough_singles(case, metric)?;
        }
        if metric == Metric::SlowShare {
            return self.slow_share(case).map(Value::from);
        }
        let mut values = Vec::new();
        let mut resolution: f64 = 0.0;
        for facts in self.series(case)? {
            let (value, step) = time_of(facts, metric)?;
            if !(value > 0.0 && value.is_finite()) {
                return inconclusive(format!(
                    "{metric} of a process is {value}, beyond what the clock of {} ns steps can tell",
                    facts.tick_ns
                ));
            }
            values.push(value);
            resolution = resolution.max(step / value);
        }
        let logs: f64 = values.iter().map(|value: &f64| value.ln()).sum();
        let group = Group::of(&values, resolution);
        Ok(Value {
            number: group.map_or((logs / values.len() as f64).exp(), |group| group.value()),
            group,
        })
    }
}

impl Facts<'_> {
    /// The mean over the processes, with one split for all of them.
    fn slow_share(&self, case: &CaseId) -> Found<f64> {
        let Some(modes) = self.modes(case)? else {
            return Ok(0.0);
        };
        let series = self.series(case)?;
        let shares = series
            .iter()
            .filter_map(|facts| modes.slow_share(&facts.single_ns));
        Ok(shares.sum::<f64>() / series.len() as f64)
    }

    /// The two modes of a case's single launches; `None` where there is one.
    ///
    /// # Errors
    /// As for a metric; and where there are too few launches to tell.
    pub(super) fn modes(&self, case: &CaseId) -> Found<Option<Modes>> {
        self.device()?;
        self.timeable(case)?;
        let series = self.series(case)?;
        let launches: Vec<_> = series
            .iter()
            .map(|facts| Launches {
                ns: &facts.single_ns,
                tick_ns: facts.tick_ns,
            })
            .collect();
        Modes::find(&launches).map_err(|few| Ruling {
            outcome: Outcome::Inconclusive,
            reason: few.to_string(),
        })
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

fn error_of(facts: &CheckFacts, metric: Metric, seed: u64) -> Found<f64> {
    let no_codec = || ruling(Outcome::Unsupported, "no input of this case has a codec");
    let (errors, of): (_, fn(&ErrorFacts) -> Option<Num>) = match metric {
        Metric::MaxErr => (Some(&facts.error), |errors| Some(errors.max_err)),
        Metric::MeanErr => (Some(&facts.error), |errors| Some(errors.mean_err)),
        Metric::RelL2 => (Some(&facts.error), |errors| Some(errors.rel_l2)),
        Metric::OverTolerance => (Some(&facts.error), |errors| errors.over_tolerance),
        Metric::OriginalMaxErr => (facts.original.as_ref(), |errors| Some(errors.max_err)),
        Metric::OriginalMeanErr => (facts.original.as_ref(), |errors| Some(errors.mean_err)),
        Metric::CodecMaxErr => (facts.codec.as_ref(), |errors| Some(errors.max_err)),
        Metric::CodecMeanErr => (facts.codec.as_ref(), |errors| Some(errors.mean_err)),
        other => return inconclusive(format!("{other} is no error")),
    };
    let Some(errors) = errors else {
        return no_codec();
    };
    if errors.elements == 0 {
        return inconclusive(format!("no element was compared with seed {seed}"));
    }
    // The figures are over the finite elements only, and an output of NaN has no error to be proud of.
    // The share beyond the tolerance counts those elements itself.
    if errors.non_finite > 0 && metric != Metric::OverTolerance {
        return Ok(f64::NAN);
    }
    match of(errors) {
        Some(value) => Ok(value.0),
        None => inconclusive(format!(
            "{metric} needs an absolute max_err limit, and there is none"
        )),
    }
}

/// Value of one process and the standard error that the clock's step alone gives it, both in the unit of
/// the metric.
pub(super) fn time_of(facts: &TimeFacts, metric: Metric) -> Found<(f64, f64)> {
    let tick = ROUNDING * facts.tick_ns as f64;
    let launches = f64::from(facts.launches_per_sample);
    let batched = || match Sample::new(&facts.batched_ns) {
        Some(sample) => Ok(sample),
        None => inconclusive("no batched samples"),
    };
    // Batches hide tails: these come from samples of one launch each.
    let single = || match Sample::new(&facts.single_ns) {
        Some(sample) if sample.size() >= metric.least_singles() as usize => Ok(sample),
        _ => inconclusive(format!(
            "{metric} needs {} samples of single launches of each process, and one has {}",
            metric.least_singles(),
            facts.single_ns.len()
        )),
    };
    Ok(match metric {
        Metric::P50 => (batched()?.median() / launches, tick / launches),
        Metric::Mean => (batched()?.mean() / launches, tick / launches),
        Metric::Min => (batched()?.min() / launches, tick / launches),
        Metric::Max => (batched()?.max() / launches, tick / launches),
        Metric::Cycles => {
            let per_ns = clock(facts)? / 1000.0;
            (
                batched()?.median() / launches * per_ns,
                tick / launches * per_ns,
            )
        }
        Metric::P90 => (single()?.quantile(0.90), tick),
        Metric::P99 => (single()?.quantile(0.99), tick),
        Metric::Cv => {
            let sample = single()?;
            let Some(deviation) = sample.deviation() else {
                return inconclusive("cv needs at least two samples of single launches");
            };
            // Less than the clock's own rounding cannot be seen, and so is not claimed.
            (deviation.max(tick) / sample.mean(), tick / sample.mean())
        }
        other => return inconclusive(format!("{other} is no time")),
    })
}

/// SM clock in MHz during the batched samples.
fn clock(facts: &TimeFacts) -> Found<f64> {
    match (facts.gpu.sm_mhz_before, facts.gpu.sm_mhz_after) {
        (Some(before), Some(after)) if before.0 > 0.0 && after.0 > 0.0 => {
            Ok((before.0 + after.0) / 2.0)
        }
        _ => inconclusive("the SM clock was not measured, which cycles needs"),
    }
}
