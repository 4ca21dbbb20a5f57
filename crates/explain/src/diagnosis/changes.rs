//! Compares what bounded a case before with what bounds it now, for the cases of a judgement that a reader asks about.

use super::{Diagnosis, Moved, Residency, Resource, diagnose};
use judge::Index;
use model::{
    CaseId, Facet, Judgement, Metric, Num, Outcome, Plan, Question, Rule, Side, Subject, Verdict,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosed {
    pub case: CaseId,
    pub standing: Standing,
    /// The diagnosis at the base. `None` if there is no base, or if it does not have the case.
    pub before: Option<Diagnosis>,
    pub after: Diagnosis,
    /// The changes between the two, the largest first.
    pub changes: Vec<FigureChange>,
}

/// The reason for which a case is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    Failed,
    Improved,
    Held,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    pub figure: Figure,
    pub before: Num,
    pub after: Num,
}

/// A figure of a diagnosis that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    EstimatedTime,
    Time,
    Occupancy,
    Blocks,
    Waves,
    Use(Resource),
    LoadRequests,
    LoadSectors,
    StoreRequests,
    StoreSectors,
    SharedLoadWavefronts,
    SharedStoreWavefronts,
}

impl Figure {
    /// Returns true for a share from 0 to 1, which is shown as a percentage.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Occupancy | Self::Use(_))
    }
}

/// Diagnoses the cases whose time, counters or resources broke a gate, and those that are better than their baseline,
/// as far as either side is known.
pub fn notable(index: &Index, judgement: &Judgement) -> Vec<Diagnosed> {
    let plan = index.head().plan();
    let failed = cases(
        plan,
        judgement
            .verdicts
            .iter()
            .filter(|verdict| costs(verdict))
            .map(|verdict| &verdict.subject),
    );
    let improved = cases(plan, judgement.wins.iter().map(|win| &win.subject));
    let standing = |id: &CaseId| {
        if failed.contains(id) {
            Some(Standing::Failed)
        } else {
            improved.contains(id).then_some(Standing::Improved)
        }
    };
    let mut found: Vec<_> = plan
        .cases
        .iter()
        .filter_map(|case| Some((standing(&case.id)?, &case.id)))
        .map(|(standing, id)| diagnosed(index, id, standing))
        .collect();
    found.retain(|change| {
        change.after.is_known() || change.before.as_ref().is_some_and(Diagnosis::is_known)
    });
    // Failures come first, in the order of gates.yaml.
    found.sort_by_key(|change| change.standing);
    found
}

/// Diagnoses all cases, in the order of gates.yaml.
pub fn all(index: &Index) -> Vec<Diagnosed> {
    index
        .head()
        .plan()
        .cases
        .iter()
        .map(|case| diagnosed(index, &case.id, Standing::Held))
        .collect()
}

fn diagnosed(index: &Index, id: &CaseId, standing: Standing) -> Diagnosed {
    let after = diagnose(index.head(), id);
    let base = index.view(Side::Base, None);
    let base = base.filter(|base| base.plan().case(id).is_some());
    let before = base.map(|base| diagnose(base, id));
    let changes = match &before {
        Some(before) => changes(before, &after),
        None => Vec::new(),
    };
    Diagnosed {
        case: id.clone(),
        standing,
        before,
        after,
        changes,
    }
}

/// Returns true if a gate on what a kernel costs is broken.
fn costs(verdict: &Verdict) -> bool {
    let is_cost = match &verdict.question {
        Question::Gate(Rule::Counters { .. } | Rule::Condition { .. }) => true,
        Question::Gate(Rule::Limit { metric, .. }) => is_cost(*metric),
        _ => false,
    };
    verdict.outcome == Outcome::Fail && is_cost
}

fn is_cost(metric: Metric) -> bool {
    metric.facet() != Facet::Correctness
}

/// Returns the cases of some subjects. A unit is represented by the first of its cases.
fn cases<'a>(plan: &Plan, subjects: impl Iterator<Item = &'a Subject>) -> BTreeSet<CaseId> {
    let case_id = |subject: &Subject| match subject {
        Subject::Case(case) => Some(case.clone()),
        Subject::Unit(unit) => plan
            .cases
            .iter()
            .find(|case| (&case.id.kernel, &case.id.variant) == (&unit.kernel, &unit.variant))
            .map(|case| case.id.clone()),
    };
    subjects.filter_map(case_id).collect()
}

/// A smaller change, of a value or of a share, is ignored.
const LEAST: f64 = 0.01;
const MOST: usize = 6;

fn changes(before: &Diagnosis, after: &Diagnosis) -> Vec<FigureChange> {
    let (was, is) = (figures(before), figures(after));
    let mut found: Vec<_> = was
        .into_iter()
        .filter_map(|(figure, before)| {
            let after = *is.get(&figure)?;
            let by = if figure.is_share() {
                (after - before).abs()
            } else {
                (after - before).abs() / before.abs().max(f64::MIN_POSITIVE)
            };
            (by >= LEAST).then_some((by, figure, before, after))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found
        .into_iter()
        .take(MOST)
        .map(|(_, figure, before, after)| FigureChange {
            figure,
            before: Num(before),
            after: Num(after),
        })
        .collect()
}

/// Returns the occupancy as profiled, or else as the launch allows.
fn occupancy(on: &Residency) -> Option<f64> {
    let theoretical = on
        .theoretical
        .as_ref()
        .map(|theoretical| theoretical.occupancy);
    on.achieved.or(theoretical).map(|share| share.0)
}

fn figures(of: &Diagnosis) -> BTreeMap<Figure, f64> {
    let residency = of.residency.as_ref();
    let requests = |moved: Option<Moved>| moved.map(|moved_lines| moved_lines.requests as f64);
    let moved = |moved: Option<Moved>| moved.map(|moved_lines| moved_lines.moved as f64);
    let traffic = &of.traffic;
    let known = [
        (Figure::EstimatedTime, of.estimated_ns.map(|ns| ns.0)),
        (Figure::Time, of.time_ns.map(|ns| ns.0)),
        (Figure::Occupancy, residency.and_then(occupancy)),
        (
            Figure::Blocks,
            residency.map(|residency| residency.blocks as f64),
        ),
        (Figure::Waves, residency.map(|residency| residency.waves.0)),
        (Figure::LoadRequests, requests(traffic.loads)),
        (Figure::LoadSectors, moved(traffic.loads)),
        (Figure::StoreRequests, requests(traffic.stores)),
        (Figure::StoreSectors, moved(traffic.stores)),
        (Figure::SharedLoadWavefronts, moved(traffic.shared_loads)),
        (Figure::SharedStoreWavefronts, moved(traffic.shared_stores)),
    ];
    known
        .into_iter()
        .filter_map(|(figure, value)| Some((figure, value?)))
        .chain(
            of.uses
                .iter()
                .map(|(resource, share)| (Figure::Use(*resource), share.0)),
        )
        .collect()
}
