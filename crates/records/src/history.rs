//! Lays out how agreed values moved from commit to commit. Pure.
//!
//! Values under two keys are two series, and so are values under two names. Nothing is joined.

use crate::repo::Commit;
use crate::store::{Past, PastFile, PastState, PastVersion, subject};
use judge::ANY_SHAPE;
use model::{Baseline, BaselineKey, BrokenBaseline, CaseId, Filter, Metric, Num, Subject};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize)]
pub struct History {
    /// The series by kernel, variant and key, and then by shape.
    pub series: Vec<Series>,
    pub renamed: Vec<Renamed>,
    pub unreadable: Vec<Unreadable>,
    /// The oldest commit with baselines that a shallow clone has. Earlier commits are unknown.
    pub shallow_since: Option<Commit>,
}

/// The course of one value under one key.
#[derive(Serialize)]
pub struct Series {
    pub subject: Subject,
    pub metric: Metric,
    pub key: BaselineKey,
    /// A point for each commit that wrote the file with it, oldest first.
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    #[serde(flatten)]
    pub at: Commit,
    /// `None` if this commit removed the value.
    pub value: Option<Num>,
}

/// A variant whose baseline another variant has, value for value, since the commit that removed it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Renamed {
    #[serde(flatten)]
    pub at: Commit,
    pub from: Variant,
    pub to: Variant,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Variant {
    pub kernel: String,
    pub variant: String,
}

/// A version that can no longer be read, for example one that an earlier gatekeeper wrote.
#[derive(Serialize)]
pub struct Unreadable {
    #[serde(flatten)]
    pub at: Commit,
    #[serde(flatten)]
    pub broken: BrokenBaseline,
}

impl History {
    pub fn from_past(past: &Past) -> Self {
        let mut history = Self {
            series: past.files.iter().flat_map(series).collect(),
            renamed: renamed(&past.files),
            unreadable: Vec::new(),
            shallow_since: None,
        };
        for file in &past.files {
            for version in &file.versions {
                if let PastState::Unreadable(broken) = &version.state {
                    history.unreadable.push(Unreadable {
                        at: version.commit.clone(),
                        broken: broken.clone(),
                    });
                }
            }
        }
        if past.shallow {
            history.shallow_since = past
                .files
                .iter()
                .flat_map(|file| &file.versions)
                .map(|version| &version.commit)
                .min()
                .cloned();
        }
        history
    }

    /// Returns the cases that a filter can pick. A variant without any case of its own has all shapes.
    pub fn cases(&self) -> Vec<CaseId> {
        let mut cases = BTreeSet::new();
        let units = |series: &&Series| matches!(series.subject, Subject::Unit(_));
        for series in self.series.iter().filter(|series| !units(series)) {
            cases.insert(id(&series.subject));
        }
        for series in self.series.iter().filter(units) {
            let unit = id(&series.subject);
            let is_of_it = |case: &CaseId| variant_of(case) == variant_of(&unit);
            if !cases.iter().any(is_of_it) {
                cases.insert(unit);
            }
        }
        cases.into_iter().collect()
    }

    /// Keeps what any of the filters picks, or everything if there is no filter. Resources belong to each case of the
    /// variant.
    pub fn keep(&mut self, filters: &[Filter]) {
        if filters.is_empty() {
            return;
        }
        let mut cases = self.cases();
        cases.retain(|id| filters.iter().any(|filter| filter.fits(id)));
        let variants: BTreeSet<Variant> = cases.iter().map(variant_of).collect();
        self.series.retain(|series| match &series.subject {
            Subject::Case(id) => cases.contains(id),
            Subject::Unit(_) => variants.contains(&variant_of(&id(&series.subject))),
        });
        // Only the file's path says what it covers.
        self.unreadable.retain(|unread| {
            let names = (&unread.broken.kernel, &unread.broken.variant);
            let is_named = |variant: &Variant| (&variant.kernel, &variant.variant) == names;
            variants.iter().any(is_named)
        });
        self.renamed
            .retain(|rename| variants.contains(&rename.from) || variants.contains(&rename.to));
    }
}

impl Series {
    /// Returns true if more than one value was ever agreed on.
    pub fn moved(&self) -> bool {
        let mut values = self.points.iter().filter_map(|point| point.value);
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// Returns the pairs of versions between which the value changed, was removed or came back.
    pub fn moves(&self) -> impl Iterator<Item = (&Point, &Point)> {
        self.points
            .iter()
            .zip(self.points.iter().skip(1))
            .filter(|(from, to)| from.value != to.value)
    }

    /// Returns the commit that removed the value, if nobody brought it back.
    pub fn gone(&self) -> Option<&Commit> {
        let last = self.points.last()?;
        last.value.is_none().then_some(&last.at)
    }
}

fn id(subject: &Subject) -> CaseId {
    match subject {
        Subject::Case(id) => id.clone(),
        Subject::Unit(unit) => CaseId::new(&unit.kernel, &unit.variant, ANY_SHAPE),
    }
}

fn variant_of(id: &CaseId) -> Variant {
    Variant {
        kernel: id.kernel.clone(),
        variant: id.variant.clone(),
    }
}

/// Returns every value of a file, which has one key.
fn series(file: &PastFile) -> Vec<Series> {
    let mut found: Vec<Series> = Vec::new();
    for version in &file.versions {
        let baseline = match &version.state {
            PastState::Whole(baseline) => Some(baseline.as_ref()),
            PastState::Removed => None,
            PastState::Unreadable(_) => continue,
        };
        let mut new = baseline.map(values).unwrap_or_default();
        for series in &mut found {
            let value = new.remove(&(series.subject.clone(), series.metric));
            let was_there = series
                .points
                .last()
                .is_some_and(|last| last.value.is_some());
            if value.is_some() || was_there {
                let at = version.commit.clone();
                series.points.push(Point { at, value });
            }
        }
        let Some(baseline) = baseline else { continue };
        found.extend(new.into_iter().map(|((subject, metric), value)| Series {
            subject,
            metric,
            key: baseline.key.clone(),
            points: vec![Point {
                at: version.commit.clone(),
                value: Some(value),
            }],
        }));
    }
    found.sort_by(|a, b| (&a.subject, a.metric).cmp(&(&b.subject, b.metric)));
    found
}

fn values(baseline: &Baseline) -> BTreeMap<(Subject, Metric), Num> {
    baseline
        .cases
        .iter()
        .flat_map(|(shape, metrics)| {
            let subject = subject(&baseline.kernel, &baseline.variant, &baseline.key, shape);
            metrics
                .iter()
                .map(move |(metric, agreed)| ((subject.clone(), *metric), agreed.value))
        })
        .collect()
}

/// Finds renames: a variant that was removed and a new one in the same commit that has the same values under each key.
fn renamed(files: &[PastFile]) -> Vec<Renamed> {
    type Files<'a> = BTreeMap<(&'a Commit, Variant), Vec<&'a Baseline>>;
    let (mut removed, mut added) = (Files::new(), Files::new());
    for file in files {
        let mut before: Option<&Baseline> = None;
        for PastVersion { commit, state } in &file.versions {
            let now = match state {
                PastState::Whole(baseline) => Some(baseline.as_ref()),
                PastState::Unreadable(_) | PastState::Removed => None,
            };
            let (all, baseline) = match (before, now, state) {
                (None, Some(new), _) => (&mut added, Some(new)),
                (Some(old), None, PastState::Removed) => (&mut removed, Some(old)),
                _ => (&mut added, None),
            };
            if let Some(baseline) = baseline {
                let of = Variant {
                    kernel: baseline.kernel.clone(),
                    variant: baseline.variant.clone(),
                };
                all.entry((commit, of)).or_default().push(baseline);
            }
            before = now;
        }
    }
    let same = |a: &Baseline, b: &Baseline| a.key == b.key && a.cases == b.cases;
    let mut renamed = Vec::new();
    for ((commit, from), gone) in removed {
        let mut alike = added
            .iter()
            .filter(|((at, _), _)| *at == commit)
            .filter(|(_, new)| {
                let has = |old: &&Baseline| new.iter().any(|new| same(old, new));
                gone.iter().all(has)
            });
        // With several candidates it is unknown which of them it is.
        if let (Some(((_, to), _)), None) = (alike.next(), alike.next()) {
            renamed.push(Renamed {
                at: commit.clone(),
                from,
                to: to.clone(),
            });
        }
    }
    renamed
}
