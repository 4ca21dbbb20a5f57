//! Floor 2: looks up what was agreed on a metric, under exactly the key that this run has.

use super::index::{Opponent, View};
use super::lookup::Executor;
use super::not_passed::{NotPassed, OrNotPassed, fail, inconclusive, skipped};
use super::sessions::between_sessions;
use super::value::{Repeats, Spread};
use crate::stats::{Between, ProcessGroup};
use model::*;
use std::collections::BTreeSet;
use std::mem::discriminant;

/// The shape under which a baseline keeps resources. They belong to a unit, and so to no shape.
pub const ANY_SHAPE: &str = "*";

/// The value that was agreed on for one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgreedOn {
    pub value: f64,
    /// The spread of the agreed value. Only times and profiles have one.
    pub spread: Option<Spread>,
    /// Variation between sessions, for times that were measured in several sessions.
    pub between: Option<Between>,
}

/// The reasons for which a value cannot be compared with what was agreed.
pub(super) enum NoBaseline {
    /// No baseline exists yet, under any key.
    New(Reason),
    /// There is a baseline, and it cannot be used.
    Refused(NotPassed),
}

fn refuse<T>(outcome: Outcome, reason: Reason) -> Result<T, NoBaseline> {
    Err(NoBaseline::Refused(NotPassed { outcome, reason }))
}

impl From<NotPassed> for NoBaseline {
    fn from(ruling: NotPassed) -> Self {
        Self::Refused(ruling)
    }
}

impl<'a> View<'_, 'a> {
    /// Returns the key under which a metric of this run would be agreed.
    pub(super) fn key(self, subject: &Subject, facet: Facet) -> OrNotPassed<BaselineKey> {
        if let Subject::Case(id) = subject
            && facet == Facet::Times
            && self.ran_elsewhere(id)
        {
            // The program that built it is not known, so it equals nothing of ours.
            return self.times_key("unknown".to_owned(), "unknown".to_owned());
        }
        let unit = match subject {
            Subject::Unit(unit) => self.unit(unit)?,
            Subject::Case(case) => self.unit_on_device(case)?,
        };
        let compiler = if unit.is_compiled() {
            // Files that somebody else compiled are compared across compilers, so their key names none.
            String::new()
        } else {
            self.compiler()?.version.clone()
        };
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
                Executor::Gpu(_) => return skipped(Reason::NotSimulated),
                Executor::Simulator(simulator) => BaselineKey::Counters {
                    arch,
                    compiler,
                    flags,
                    model: simulator.counter_model,
                },
            },
            Facet::Times => return self.times_key(compiler, flags),
            Facet::Profile => return self.profile_key(subject, compiler, flags),
        })
    }

    fn times_key(self, compiler: String, flags: String) -> OrNotPassed<BaselineKey> {
        let device = self.device()?;
        Ok(BaselineKey::Times {
            gpu: device.name.clone(),
            driver_branch: device.driver_branch().to_owned(),
            clock_policy: device.clock_policy.clone(),
            protocol: self.environment().timing_protocol,
            mode: self.plan().timing.mode,
            compiler,
            flags,
        })
    }

    fn profile_key(
        self,
        subject: &Subject,
        compiler: String,
        flags: String,
    ) -> OrNotPassed<BaselineKey> {
        let Subject::Case(id) = subject else {
            return inconclusive(Reason::Misplaced { metric: None });
        };
        let device = self.device()?;
        let profiles = self.profiles(id)?;
        let Some(profile) = profiles.first() else {
            return skipped(Reason::NotProfiled);
        };
        Ok(BaselineKey::Profile {
            gpu: device.name.clone(),
            driver_branch: device.driver_branch().to_owned(),
            clock_policy: profile.clock_policy.clone(),
            profiler: profile.profiler.clone(),
            compiler,
            flags,
        })
    }

    /// Returns true if a case has a baseline of this kind under this run's key, whatever figures it holds.
    pub(super) fn has_baseline(self, id: &CaseId, facet: Facet) -> bool {
        let key = self.key(&Subject::Case(id.clone()), facet);
        self.baselines_of(&id.kernel, &id.variant)
            .iter()
            .any(|baseline| {
                Ok(&baseline.key) == key.as_ref() && baseline.cases.contains_key(&id.shape)
            })
    }

    /// Returns the value that the last baseline agreed on.
    pub(super) fn agreed_on(
        self,
        subject: &Subject,
        metric: Metric,
    ) -> Result<AgreedOn, NoBaseline> {
        let policy = self.policy();
        let facet = metric.facet();
        let key = self.key(subject, facet)?;
        let (kernel, variant) = (subject.kernel(), subject.variant());
        let baselines = self.baselines_of(kernel, variant).iter().copied();
        let units = self.units_of(kernel, variant);
        let shelf = Shelf::new(baselines, subject, metric, &key, units);
        if let Some(agreed) = shelf.agreed()? {
            return Ok(usable(metric, &agreed, &Against::Baseline)?);
        }
        if let Some(broken) = covering(&policy.broken_baselines, subject, facet) {
            return refuse(Outcome::Fail, unreadable(broken));
        }
        if let Some(BaseFault { fault, .. }) = policy
            .base_faults
            .iter()
            .find(|fault| *subject == Subject::Unit(fault.unit.clone()))
        {
            let why = Box::new(Reason::Fault(fault.clone()));
            return refuse(Outcome::Inconclusive, Reason::BaseLacks { metric, why });
        }
        if let Some(refused) = self.filed().refusals.get(&(subject.clone(), facet)) {
            let why = Box::new(refused.reason.clone());
            return refuse(Outcome::Inconclusive, Reason::BaseLacks { metric, why });
        }
        if let Some(differences) = shelf.elsewhere(&key) {
            let gpus = shelf.other_gpus(&key);
            return refuse(
                Outcome::Inconclusive,
                Reason::OtherKey { differences, gpus },
            );
        }
        let lacking = match shelf.same.first() {
            _ if self.is_of_file(subject) => {
                if matches!(self.index.opponent, Opponent::Record { .. }) {
                    Lacking::OlderFile
                } else {
                    Lacking::Kernel
                }
            }
            None => Lacking::File,
            Some(baseline) if baseline.cases.contains_key(shelf.shape) => Lacking::Metric,
            Some(_) => Lacking::Case,
        };
        Err(NoBaseline::New(Reason::New { metric, lacking }))
    }

    /// Returns true if the subject is a file that was compiled already.
    fn is_of_file(self, subject: &Subject) -> bool {
        match subject {
            Subject::Unit(id) => self.planned_unit(id).is_some_and(Unit::is_compiled),
            Subject::Case(_) => false,
        }
    }

    /// Returns the value that an anchor agreed on, under this run's key.
    ///
    /// # Errors
    /// Inconclusive if the anchor's baseline has another key or cannot be used. Skipped if the anchor had no such case.
    pub(super) fn anchored_on(
        self,
        anchor: &Anchor,
        subject: &Subject,
        metric: Metric,
    ) -> OrNotPassed<AgreedOn> {
        let facet = metric.facet();
        let since = anchor.since.clone();
        let found = anchor.found.clone();
        let key = self.key(subject, facet)?;
        let units = self.units_of(subject.kernel(), subject.variant());
        let shelf = Shelf::new(&anchor.baselines, subject, metric, &key, units);
        if let Some(agreed) = shelf.agreed()? {
            return usable(metric, &agreed, &Against::Anchor { since, found });
        }
        if let Some(broken) = covering(&anchor.broken_baselines, subject, facet) {
            return inconclusive(Reason::AnchorUnreadable {
                since,
                path: broken.path.clone(),
                problem: broken.problem.clone(),
            });
        }
        // The best level needs two measurements. If only the GPU differs, this GPU may just have agreed on its first
        // one.
        let is_first = |differences: &[KeyDifference]| {
            since == Since::Best
                && differences
                    .iter()
                    .any(|difference| difference.field == KeyField::Gpu)
                && self.agreed_on(subject, metric).is_ok()
        };
        match shelf.elsewhere(&key) {
            Some(differences) if !is_first(&differences) => {
                inconclusive(Reason::AnchorOtherKey { since, differences })
            }
            _ => skipped(Reason::NewSinceAnchor { since, found }),
        }
    }

    /// Reports the baseline files that cannot be used: a verdict for each file of a variant of this run, whether or not
    /// a gate needs it today, and a note for each of the others.
    pub(super) fn broken_baselines(self) -> (Vec<Verdict>, Vec<Note>) {
        let mut verdicts = Vec::new();
        let mut notes = Vec::new();
        for broken in &self.policy().broken_baselines {
            match self
                .plan()
                .units
                .iter()
                .map(|unit| &unit.id)
                .find(|id| id.kernel == broken.kernel && id.variant == broken.variant)
            {
                Some(unit) => verdicts.push(Verdict::without_figures(
                    Subject::Unit(unit.clone()),
                    Question::Baseline,
                    Outcome::Fail,
                    unreadable(broken),
                    None,
                )),
                None => notes.push(Note::Broken {
                    path: broken.path.clone(),
                    problem: broken.problem.clone(),
                }),
            }
        }
        (verdicts, notes)
    }
}

fn unreadable(broken: &BrokenBaseline) -> Reason {
    Reason::BaselineUnreadable {
        path: broken.path.clone(),
        problem: broken.problem.clone(),
    }
}

/// The baselines that are about one metric of one subject.
struct Shelf<'a> {
    metric: Metric,
    shape: &'a str,
    /// The baselines that have this run's key.
    same: Vec<&'a Baseline>,
    others: Vec<&'a Baseline>,
}

impl<'a> Shelf<'a> {
    /// Selects the baselines of a metric. `units` are the units of the subject's variant.
    fn new(
        baselines: impl IntoIterator<Item = &'a Baseline>,
        subject: &'a Subject,
        metric: Metric,
        key: &BaselineKey,
        units: &[&Unit],
    ) -> Self {
        // A baseline whose key names another architecture of this plan belongs to the unit of that architecture.
        let is_of_another = |theirs: &BaselineKey| {
            theirs.arch() != key.arch()
                && units.iter().any(|unit| Some(unit.id.arch) == theirs.arch())
        };
        let mine = baselines.into_iter().filter(|baseline| {
            baseline.kernel == subject.kernel()
                && baseline.variant == subject.variant()
                && !is_of_another(&baseline.key)
                // An error on a GPU and an error in the simulator are different figures, not one figure under two keys.
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

    fn agreed(&self) -> OrNotPassed<Option<Agreed>> {
        if let [first, second, ..] = self.same.as_slice() {
            return inconclusive(Reason::TwoBaselines {
                dates: [first.origin.date.clone(), second.origin.date.clone()],
            });
        }
        let same = self.same.first();
        Ok(same.and_then(|baseline| self.figure(baseline)))
    }

    /// Returns how the nearest of the other keys differs from `key`, or `None` if no other key has the figure.
    fn elsewhere(&self, key: &BaselineKey) -> Option<Vec<KeyDifference>> {
        self.others
            .iter()
            .filter(|baseline| self.figure(baseline).is_some())
            .map(|baseline| KeyDifference::between(&baseline.key, key))
            .min_by_key(Vec::len)
    }

    /// Returns the GPUs that have the value, in order. The list is empty if this run's GPU is among them.
    fn other_gpus(&self, key: &BaselineKey) -> Vec<String> {
        let gpus: BTreeSet<&str> = self
            .others
            .iter()
            .filter(|baseline| self.figure(baseline).is_some())
            .filter_map(|baseline| baseline.key.gpu())
            .collect();
        match key.gpu() {
            Some(here) if !gpus.contains(here) => gpus.into_iter().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
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

/// Returns true if the metric is the worst value over all shapes of the unit.
pub(super) fn is_over_shapes(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Shared | Metric::Occupancy | Metric::BlocksPerSm
    )
}

/// Checks the figures of a baseline file, which a person may have edited.
pub(super) fn usable(metric: Metric, agreed: &Agreed, of: &Against) -> OrNotPassed<AgreedOn> {
    let value = agreed.value;
    let broken = |problem: FigureProblem| {
        fail(Reason::BaselineUnusable {
            of: of.clone(),
            metric,
            problem,
        })
    };
    if !value.0.is_finite() {
        return broken(FigureProblem::NotFinite(value));
    }
    if !metric.range().contains(value.0) {
        return broken(FigureProblem::OutOfRange(value));
    }
    if !matches!(metric.facet(), Facet::Times | Facet::Profile) {
        return Ok(AgreedOn {
            value: value.0,
            spread: None,
            between: None,
        });
    }
    let (Some(spread), Some(processes)) = (agreed.spread, agreed.processes) else {
        return broken(FigureProblem::NoSpread);
    };
    let bad = FigureProblem::BadSpread {
        value,
        spread,
        processes,
    };
    if metric.facet() == Facet::Profile {
        if !(spread.0 >= 0.0 && spread.0.is_finite()) {
            return broken(bad);
        }
        return Ok(AgreedOn {
            value: value.0,
            // The median lies anywhere in between.
            spread: Some(Spread::Repeats(Repeats {
                low: value.0 - spread.0,
                high: value.0 + spread.0,
                count: processes as usize,
            })),
            between: None,
        });
    }
    match ProcessGroup::from_summary(value.0, spread.0, processes) {
        Some(group) => Ok(AgreedOn {
            value: value.0,
            spread: Some(Spread::Processes(group)),
            between: agreed.sessions.as_ref().and_then(|sessions| {
                let least = group.ln_deviation() / f64::from(processes).sqrt();
                between_sessions(sessions, least)
            }),
        }),
        None => broken(bad),
    }
}
