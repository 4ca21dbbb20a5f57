//! Finds the acceptances that let findings pass.

use crate::index::View;
use model::*;

/// The greatest number of findings of one launch that a reason lists.
pub(super) const MOST_FINDINGS: usize = 3;

pub(super) fn is_accepted(view: View, subject: &Subject, finding: &Finding) -> bool {
    acceptance(view, subject, finding).is_some()
}

/// A finding together with its acceptance.
struct FindingAcceptance<'a> {
    by: &'a Acceptance,
    finding: &'a KnownFinding,
    place: &'a Place,
}

/// Returns the first valid acceptance of this finding of the case.
fn acceptance<'a>(
    view: View<'_, 'a>,
    subject: &Subject,
    finding: &'a Finding,
) -> Option<FindingAcceptance<'a>> {
    let day = view.environment().day();
    let accepted = view.policy().accepted.iter();
    let mut of_case =
        accepted.filter(|accepted| accepted.holds_on(day) && accepted.subjects.contains(subject));
    of_case.find_map(|by| match &by.allows {
        Allowance::Finding(known) => Some(FindingAcceptance {
            by,
            finding: known,
            place: known.place_in(finding)?,
        }),
        Allowance::Limit(_) => None,
    })
}

/// Returns for each acceptance what it lets pass, over all seeds.
pub(super) fn accepted_findings(view: View, subject: &Subject) -> Vec<AcceptedFinding> {
    let Subject::Case(id) = subject else {
        return Vec::new();
    };
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    let launches = seeds
        .iter()
        .filter_map(|&seed| view.simulation(id, seed).ok());
    let mut all: Vec<AcceptedFinding> = Vec::new();
    for found in launches.flat_map(|launch| &launch.findings) {
        let Some(FindingAcceptance { by, finding, place }) = acceptance(view, subject, found)
        else {
            continue;
        };
        match all.iter_mut().find(|other| other.declared == by.declared) {
            Some(known) => known.times += found.times,
            None => all.push(AcceptedFinding {
                finding: finding.clone(),
                place: place.at.clone(),
                times: found.times,
                by: by.by.clone(),
                until: by.until.clone(),
                because: by.reason.clone(),
                declared: by.declared.clone(),
            }),
        }
    }
    all
}
