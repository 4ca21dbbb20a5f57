//! Finding what was agreed, under exactly the key that this run has; and making it from a run.

use super::facts::{Executor, Facts, Found, Ruling, inconclusive, ruling};
use super::sessions::held_against;
use super::words;
use crate::model::*;
use crate::stats::{Between, Group};
use std::collections::BTreeMap;
use std::mem::discriminant;

/// The shape under which resources stand, which belong to none.
pub const ANY_SHAPE: &str = "*";

/// What was agreed on one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgreedOn {
    pub value: f64,
    /// Of times.
    pub group: Option<Group>,
    /// Of times that were taken in several sessions.
    pub between: Option<Between>,
}

/// Why a comparison cannot be made.
pub(super) enum Lack {
    /// Never any baseline, under any key.
    New { reason: String },
    /// There is one, and it cannot be used.
    Refused(Ruling),
}

impl From<Ruling> for Lack {
    fn from(ruling: Ruling) -> Self {
        Self::Refused(ruling)
    }
}

/// What becomes of times that were taken in turns with a base revision's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// They are no baseline.
    Refused,
    /// Head's own samples are taken, for times that were taken in the same way.
    Taken,
}

/// What a base side could not give, where the baselines are made from a record.
pub(super) type Refusals = BTreeMap<(Subject, Facet), Ruling>;

impl Facts<'_> {
    /// The key under which a metric of this run would be agreed.
    pub(super) fn key(&self, subject: &Subject, facet: Facet) -> Found<BaselineKey> {
        if facet == Facet::Times && self.is_foreign() {
            return self.times_key("unknown".to_owned(), "unknown".to_owned());
        }
        let unit = match subject {
            Subject::Unit(unit) => self.unit(unit)?,
            Subject::Case(case) => self.unit_on_device(case)?,
        };
        let compiler = self.compiler()?.version.clone();
        let flags = unit.flags.join(" ");
        let arch = unit.id.arch;
        Ok(match facet {
            Facet::Resources => BaselineKey::Resources {
                arch,
                compiler,
                flags,
            },
            Facet::Correctness => match self.executor()? {
                Executor::Gpu(_) => BaselineKey::Correctness {
                    arch,
                    compiler,
                    flags,
                },
                Executor::Simulator(_) => BaselineKey::SimulatedCorrectness {
                    arch,
                    compiler,
                    flags,
                },
            },
            Facet::Counters => match self.executor()? {
                Executor::Gpu(_) => return ruling(Outcome::Skipped, words::NOT_SIMULATED),
                Executor::Simulator(simulator) => BaselineKey::Counters {
                    arch,
                    compiler,
                    flags,
                    model: simulator.counter_model,
                },
            },
            Facet::Times => return self.times_key(compiler, flags),
        })
    }

    fn times_key(&self, compiler: String, flags: String) -> Found<BaselineKey> {
        let device = self.device()?;
        Ok(BaselineKey::Times {
            gpu: device.name.clone(),
            driver_branch: device.driver_branch().to_owned(),
            clock_policy: device.clock_policy.clone(),
            protocol: self.environment.timing_protocol,
            mode: self.plan.timing.mode,
            compiler,
            flags,
        })
    }

    pub(super) fn agreed_on(
        &self,
        subject: &Subject,
        metric: Metric,
        refusals: &Refusals,
    ) -> Result<AgreedOn, Lack> {
        let facet = metric.facet();
        let key = self.key(subject, facet)?;
        let shelf = Shelf::of(&self.policy.baselines, subject, metric, &key);
        if let Some(agreed) = shelf.agreed()? {
            return Ok(usable(metric, &agreed, "the baseline's")?);
        }
        if let Some(broken) = covering(&self.policy.broken_baselines, subject, facet) {
            return Err(Lack::Refused(Ruling {
                outcome: Outcome::Fail,
                reason: self.unusable(broken, subject),
            }));
        }
        if let Some(Ruling { reason, .. }) = refusals.get(&(subject.clone(), facet)) {
            return Err(Lack::Refused(Ruling {
                outcome: Outcome::Inconclusive,
                reason: format!("the base has no {metric} to compare with: {reason}"),
            }));
        }
        if let Some(differences) = shelf.elsewhere(&key) {
            return Err(Lack::Refused(Ruling {
                outcome: Outcome::Inconclusive,
                reason: format!(
                    "the baseline holds under another key ({}); measure here and run `{}`",
                    differences.join(", "),
                    words::update_command(self.environment, subject)
                ),
            }));
        }
        let what = match shelf.same.first() {
            None => "no baseline yet".to_owned(),
            Some(baseline) if baseline.cases.contains_key(shelf.shape) => {
                format!("the baseline of {subject} has no {metric} yet")
            }
            Some(_) => format!(
                "a case that the baseline of {}/{} does not have yet",
                subject.kernel(),
                subject.variant()
            ),
        };
        Err(Lack::New {
            reason: format!(
                "{}: {what}; accept it with `{}`",
                words::NEW,
                words::update_command(self.environment, subject)
            ),
        })
    }

    /// What an anchor agreed on, under this run's key.
    ///
    /// # Errors
    /// Inconclusive where that holds under another key or cannot be used; skipped where it had no such
    /// case.
    pub(super) fn anchored_on(
        &self,
        anchor: &Anchor,
        subject: &Subject,
        metric: Metric,
    ) -> Found<AgreedOn> {
        let facet = metric.facet();
        let since = &anchor.since;
        let key = self.key(subject, facet)?;
        let shelf = Shelf::of(&anchor.baselines, subject, metric, &key);
        if let Some(agreed) = shelf.agreed()? {
            return usable(metric, &agreed, &format!("{since}'s"));
        }
        if let Some(broken) = covering(&anchor.broken_baselines, subject, facet) {
            return inconclusive(format!(
                "the baseline {} of {since} cannot be used: {}",
                broken.path, broken.problem
            ));
        }
        match shelf.elsewhere(&key) {
            Some(differences) => inconclusive(format!(
                "the baseline of {since} holds under another key ({})",
                differences.join(", ")
            )),
            None => ruling(
                Outcome::Skipped,
                format!("{since} ({}) has no baseline of it", anchor.found),
            ),
        }
    }

    fn unusable(&self, broken: &BrokenBaseline, subject: &Subject) -> String {
        format!(
            "the baseline {} cannot be used: {}; restore it, or remove it and run `{}`",
            broken.path,
            broken.problem,
            words::update_command(self.environment, subject)
        )
    }

    /// A verdict for each file of a variant of this run that cannot be used, whether or not a gate needs
    /// it today; a note for the others.
    pub(super) fn broken(&self) -> (Vec<Verdict>, Vec<Note>) {
        let mut verdicts = Vec::new();
        let mut notes = Vec::new();
        for broken in &self.policy.broken_baselines {
            let mut units = self.plan.units.iter().map(|unit| &unit.id);
            match units.find(|id| id.kernel == broken.kernel && id.variant == broken.variant) {
                Some(unit) => {
                    let subject = Subject::Unit(unit.clone());
                    let reason = self.unusable(broken, &subject);
                    verdicts.push(Verdict::without_figures(
                        subject,
                        "baseline can be used".to_owned(),
                        Outcome::Fail,
                        reason,
                        None,
                    ));
                }
                None => notes.push(Note::Broken {
                    path: broken.path.clone(),
                    problem: broken.problem.clone(),
                }),
            }
        }
        (verdicts, notes)
    }

    /// What this run could be agreed on, and what it could not, with the reason.
    pub(super) fn acceptable(&self, origin: &Origin, beside: Beside) -> (Vec<Baseline>, Refusals) {
        let mut baselines: BTreeMap<(String, String, BaselineKey), Baseline> = BTreeMap::new();
        let mut refusals = Refusals::new();
        let units = self
            .plan
            .units
            .iter()
            .map(|unit| (Subject::Unit(unit.id.clone()), Facet::Resources, ANY_SHAPE));
        let cases = self.plan.cases.iter().flat_map(|case| {
            // A case of which no gate wants times has none to agree on, and only a simulator counts.
            let counted = !self.gateable(&case.id).is_empty();
            let facets = [
                Some(Facet::Correctness),
                case.timed.then_some(Facet::Times),
                counted.then_some(Facet::Counters),
            ];
            facets.into_iter().flatten().map(|facet| {
                (
                    Subject::Case(case.id.clone()),
                    facet,
                    case.id.shape.as_str(),
                )
            })
        });
        for (subject, facet, shape) in units.chain(cases) {
            match self.agree(&subject, facet, beside) {
                Ok((key, metrics)) => {
                    let (kernel, variant) =
                        (subject.kernel().to_owned(), subject.variant().to_owned());
                    let at = (kernel.clone(), variant.clone(), key.clone());
                    let baseline = baselines.entry(at).or_insert_with(|| Baseline {
                        schema: BASELINE_SCHEMA.to_owned(),
                        kernel,
                        variant,
                        key,
                        origin: origin.clone(),
                        cases: BTreeMap::new(),
                    });
                    baseline.cases.insert(shape.to_owned(), metrics);
                }
                Err(why) => {
                    refusals.insert((subject, facet), why);
                }
            }
        }
        (baselines.into_values().collect(), refusals)
    }

    /// Where and when times were taken, and of what code; of nothing else, as only times differ by that.
    fn session(&self, subject: &Subject, facet: Facet) -> impl Fn(Num) -> Option<Sessions> {
        let known = || {
            let (Subject::Case(case), Facet::Times) = (subject, facet) else {
                return None;
            };
            let unit = self.unit_on_device(case).ok()?;
            Some((
                self.build(&unit.id).ok()?.identity.clone(),
                format!(
                    "{} {}",
                    self.environment.started.get(..10)?,
                    self.device().ok()?.uuid
                ),
            ))
        };
        let known = known();
        move |value| {
            let (identity, session) = known.clone()?;
            Some(Sessions {
                identity,
                seen: [(session, value)].into(),
                earlier: None,
            })
        }
    }

    /// Every metric of one facet that has a value fit to be agreed on.
    fn agree(
        &self,
        subject: &Subject,
        facet: Facet,
        beside: Beside,
    ) -> Found<(BaselineKey, BTreeMap<Metric, Agreed>)> {
        let key = self.key(subject, facet)?;
        if let Subject::Case(case) = subject {
            self.timeable(case)?;
            if facet == Facet::Times {
                // Samples taken in turns with another kernel's are of another protocol.
                if beside == Beside::Refused && !self.paired(case).is_empty() {
                    return ruling(
                        Outcome::Skipped,
                        "timed beside a base revision; a run without `--base` times it alone, for a baseline",
                    );
                }
                let throttled = self.throttled(case);
                if throttled > 0 {
                    return inconclusive(format!(
                        "{throttled} timing processes ran on a throttled GPU"
                    ));
                }
            }
        }
        let session = self.session(subject, facet);
        let mut metrics = BTreeMap::new();
        let mut lack = None;
        for metric in Metric::ALL
            .into_iter()
            .filter(|metric| metric.facet() == facet && metric.has_relative())
        {
            // What depends on the launch is the worst over all shapes, and they are not all here.
            if self.plan.is_partial(subject.kernel()) && over_shapes(metric) {
                continue;
            }
            let enough = match subject {
                Subject::Case(case) => self.enough_singles(case, metric),
                Subject::Unit(_) => Ok(()),
            };
            match enough.and_then(|()| self.metric(subject, metric)) {
                Ok(value) => {
                    let agreed = Agreed {
                        value: Num(value.number),
                        spread: value.group.map(|group| Num(group.ln_deviation())),
                        processes: value.group.map(|group| group.processes()),
                        sessions: session(Num(value.number)),
                    };
                    match usable(metric, &agreed, "the baseline's") {
                        Ok(_) => {
                            metrics.insert(metric, agreed);
                        }
                        Err(ruling) => lack = lack.or(Some(ruling)),
                    }
                }
                Err(ruling) => lack = lack.or(Some(ruling)),
            }
        }
        match (metrics.is_empty(), lack) {
            (false, _) => Ok((key, metrics)),
            (true, Some(ruling)) => Err(ruling),
            (true, None) => inconclusive("nothing was measured"),
        }
    }
}

/// Of some baselines those that are about one metric of one subject.
struct Shelf<'a> {
    metric: Metric,
    shape: &'a str,
    /// Under this run's key.
    same: Vec<&'a Baseline>,
    others: Vec<&'a Baseline>,
}

impl<'a> Shelf<'a> {
    fn of(
        baselines: &'a [Baseline],
        subject: &'a Subject,
        metric: Metric,
        key: &BaselineKey,
    ) -> Self {
        let mine = baselines.iter().filter(|baseline| {
            baseline.kernel == subject.kernel()
                && baseline.variant == subject.variant()
                // Errors on a GPU and in the simulator are no two keys of one figure.
                && discriminant(&baseline.key) == discriminant(key)
        });
        let (same, others) = mine.partition(|baseline| baseline.key == *key);
        Self {
            metric,
            shape: match subject {
                Subject::Case(case) if metric.facet() != Facet::Resources => &case.shape,
                Subject::Case(_) | Subject::Unit(_) => ANY_SHAPE,
            },
            same,
            others,
        }
    }

    fn figure(&self, baseline: &Baseline) -> Option<Agreed> {
        let metrics = baseline.cases.get(self.shape)?;
        metrics.get(&self.metric).cloned()
    }

    fn agreed(&self) -> Found<Option<Agreed>> {
        if let [first, second, ..] = self.same.as_slice() {
            return inconclusive(format!(
                "two baselines claim the same key, of {} and of {}",
                first.origin.date, second.origin.date
            ));
        }
        let same = self.same.first();
        Ok(same.and_then(|baseline| self.figure(baseline)))
    }

    /// How the nearest of the other keys differs, where there is one that has the figure.
    fn elsewhere(&self, key: &BaselineKey) -> Option<Vec<String>> {
        self.others
            .iter()
            .filter(|baseline| self.figure(baseline).is_some())
            .map(|baseline| differences(&baseline.key, key))
            .min_by_key(Vec::len)
    }
}

fn covering<'a>(
    broken: &'a [BrokenBaseline],
    subject: &Subject,
    facet: Facet,
) -> Option<&'a BrokenBaseline> {
    broken.iter().find(|broken| {
        broken.kernel == subject.kernel()
            && broken.variant == subject.variant()
            && broken.facet.is_none_or(|of| of == facet)
    })
}

/// Resources that are the worst over all shapes of the unit.
pub(super) fn over_shapes(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Shared | Metric::Occupancy | Metric::BlocksPerSm
    )
}

/// Figures of a file that a person may have edited.
fn usable(metric: Metric, agreed: &Agreed, whose: &str) -> Found<AgreedOn> {
    let value = agreed.value.0;
    let broken = |problem: String| {
        Err(Ruling {
            outcome: Outcome::Fail,
            reason: format!("{whose} {metric} {problem}; it has to be agreed again"),
        })
    };
    if !value.is_finite() {
        return broken(format!("is {value}"));
    }
    if value < 0.0 {
        return broken(format!("is below zero: {value}"));
    }
    if metric.facet() != Facet::Times {
        return Ok(AgreedOn {
            value,
            group: None,
            between: None,
        });
    }
    match (agreed.spread, agreed.processes) {
        (Some(spread), Some(processes)) => match Group::from_summary(value, spread.0, processes) {
            Some(group) => Ok(AgreedOn {
                value,
                group: Some(group),
                between: agreed.sessions.as_ref().and_then(|sessions| {
                    held_against(sessions, group.ln_deviation() / f64::from(processes).sqrt())
                }),
            }),
            None => broken(format!(
                "is {value} with a spread of {} over {processes} processes, and no interval follows from that",
                spread.0
            )),
        },
        _ => broken("rests on one process and has no spread; time it in two or more".to_owned()),
    }
}

/// `driver branch 570 and not 580`: what the key of a baseline has, and not this run's.
fn differences(theirs: &BaselineKey, ours: &BaselineKey) -> Vec<String> {
    fields(theirs)
        .into_iter()
        .zip(fields(ours))
        .filter(|(theirs, ours)| theirs != ours)
        .map(|((name, theirs), (_, ours))| format!("{name} `{theirs}`, here `{ours}`"))
        .collect()
}

fn fields(key: &BaselineKey) -> Vec<(&'static str, String)> {
    match key {
        BaselineKey::Resources {
            arch,
            compiler,
            flags,
        }
        | BaselineKey::Correctness {
            arch,
            compiler,
            flags,
        }
        | BaselineKey::SimulatedCorrectness {
            arch,
            compiler,
            flags,
        } => vec![
            ("architecture", arch.to_string()),
            ("compiler", compiler.clone()),
            ("flags", flags.clone()),
        ],
        BaselineKey::Counters {
            arch,
            compiler,
            flags,
            model,
        } => vec![
            ("architecture", arch.to_string()),
            ("compiler", compiler.clone()),
            ("flags", flags.clone()),
            ("counter model", model.to_string()),
        ],
        BaselineKey::Times {
            gpu,
            driver_branch,
            clock_policy,
            protocol,
            mode,
            compiler,
            flags,
        } => vec![
            ("GPU", gpu.clone()),
            ("driver branch", driver_branch.clone()),
            ("clock policy", clock_policy.clone()),
            ("timing protocol", protocol.to_string()),
            ("mode", mode.to_string()),
            ("compiler", compiler.clone()),
            ("flags", flags.clone()),
        ],
    }
}
