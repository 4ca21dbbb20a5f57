//! Judges hazards within a warp that belong to one instruction stream. They are only noted, unless gates.yaml makes
//! them fail, or the base does not have them. A hazard of the base is recognised by its kind and the text of its lines.

use super::known::{MOST_FINDINGS, is_accepted};
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive};
use model::*;
use std::collections::BTreeMap;

/// Returns true if a finding alone fails nothing.
pub fn is_note(view: View, finding: &Finding) -> bool {
    finding.kind == FindingKind::WarpHazard
        && view.plan().simulation.warp_hazards == WarpHazards::Note
}

/// Returns the hazards of one launch that are only noted and that nobody accepted.
fn notes<'a>(view: View<'_, 'a>, id: &CaseId, seed: u64) -> Vec<&'a Finding> {
    let subject = Subject::Case(id.clone());
    let findings = view.simulation(id, seed).map(|launch| &launch.findings);
    findings
        .into_iter()
        .flatten()
        .filter(|finding| is_note(view, finding) && !is_accepted(view, &subject, finding))
        .collect()
}

/// Returns the noted hazards by seed, for the seeds that have any.
fn by_seed<'a>(view: View<'_, 'a>, id: &CaseId) -> Vec<(u64, Vec<&'a Finding>)> {
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    seeds
        .iter()
        .map(|&seed| (seed, notes(view, id, seed)))
        .filter(|(_, found)| !found.is_empty())
        .collect()
}

/// Returns the first hazard that the report shows for a case, and how many others it has.
pub fn first(view: View, id: &CaseId) -> Option<(Finding, usize)> {
    let seeds = by_seed(view, id);
    let most = seeds.iter().map(|(_, found)| found.len()).max()?;
    let (_, found) = seeds.first()?;
    Some(((*found.first()?).clone(), most - 1))
}

/// Returns true if the verdict on a case depends on what the base has.
pub fn rest_on_base(view: View, id: &CaseId) -> bool {
    view.is_simulated() && !by_seed(view, id).is_empty()
}

/// Returns the part of a finding that stays the same when lines move.
pub fn content(finding: &Finding) -> Vec<String> {
    let of_place = |place: &Place| {
        let text = place.line.as_ref().and_then(|line| line.text.as_deref());
        text.map_or_else(|| place.at.clone(), with_single_blanks)
    };
    finding.places.iter().map(of_place).collect()
}

type Counts = BTreeMap<Vec<String>, usize>;

/// Counts hazards by content. Two hazards at the same lines count twice.
fn count<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Counts {
    let mut counts = Counts::new();
    for finding in findings {
        *counts.entry(content(finding)).or_default() += 1;
    }
    counts
}

/// Returns how often each content occurs at most in one launch of the case, and why some of that is not known.
fn most_per_launch(base: View, id: &CaseId) -> (Counts, Option<Reason>) {
    let (mut most, mut unknown) = (Counts::new(), None);
    let seeds = base.case(id).map_or(&[][..], |case| &case.seeds);
    for &seed in seeds {
        match base.simulation(id, seed) {
            Err(why) => unknown = unknown.or(Some(why.reason)),
            Ok(launch) => {
                let hazards = launch
                    .findings
                    .iter()
                    .filter(|hazard| hazard.kind == FindingKind::WarpHazard);
                for (content, times) in count(hazards) {
                    let known = most.entry(content).or_default();
                    *known = times.max(*known);
                }
            }
        }
    }
    (most, unknown)
}

/// Returns the hazards that a case of head had before. If the base does not have the case, any case of the base may be
/// its former name: then all cases whose hazards are known count, and a case whose hazards are unknown does not make
/// the answer unknown.
fn before(view: View, base: View, id: &CaseId) -> (Counts, Option<Reason>) {
    if base.planned_case(id).is_some() {
        return most_per_launch(base, id);
    }
    let mut was = Counts::new();
    for case in &base.plan().cases {
        let told = if view.head_answers_for_base(&case.id) {
            most_per_launch(view, &case.id)
        } else {
            most_per_launch(base, &case.id)
        };
        for (content, times) in told.0 {
            let known = was.entry(content).or_default();
            *known = times.max(*known);
        }
    }
    (was, None)
}

/// Fails a case for hazards that the base does not have: somebody can still avoid a hazard that a change brings.
pub fn compare_to_base(view: View, subject: &Subject) -> OrNotPassed<()> {
    let Subject::Case(id) = subject else {
        return Ok(());
    };
    let (new, unknown) = new_since_base(view, id);
    let Some((seed, new)) = new.into_iter().next() else {
        return Ok(());
    };
    if let Some(why) = unknown {
        return inconclusive(Reason::HazardsNotCompared {
            count: new.len(),
            why: Box::new(why),
        });
    }
    let first: Vec<_> = new.iter().copied().take(MOST_FINDINGS).cloned().collect();
    fail(Reason::NewHazards {
        seed,
        more: new.len() - first.len(),
        first,
    })
}

/// Returns the hazards that the base does not have, by seed, and why that is not known. If the run has a GPU, the base
/// is not simulated, and no hazard is new.
pub fn new_since_base<'a>(
    view: View<'_, 'a>,
    id: &CaseId,
) -> (Vec<(u64, Vec<&'a Finding>)>, Option<Reason>) {
    let found = if view.is_simulated() {
        by_seed(view, id)
    } else {
        Vec::new()
    };
    let base = view.base().filter(|_| !view.head_answers_for_base(id));
    let (Some(base), false) = (base, found.is_empty()) else {
        return (Vec::new(), None);
    };
    let (was, unknown) = before(view, base, id);
    (
        found
            .into_iter()
            .map(|(seed, mut findings)| {
                let mut left = was.clone();
                findings.retain(|finding| match left.get_mut(&content(finding)) {
                    Some(times) if *times > 0 => {
                        *times -= 1;
                        false
                    }
                    _ => true,
                });
                (seed, findings)
            })
            .filter(|(_, findings)| !findings.is_empty())
            .collect(),
        unknown,
    )
}
