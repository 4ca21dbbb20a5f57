//! Judges whether the checks of the simulator found anything.

use super::correctness::over_seeds;
use super::known::{MOST_FINDINGS, accepted_findings, is_accepted};
use super::{Ruled, hazards};
use crate::index::View;
use crate::not_passed::{NotPassed, OrNotPassed, fail};
use model::*;

/// A finding of a case, as reports show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenFinding<'a> {
    /// The first seed that showed the finding.
    pub seed: u64,
    pub finding: &'a Finding,
    pub standing: FindingStanding,
}

/// The state of a finding under its gate, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingStanding {
    /// The finding breaks the gate of its case.
    Broken,
    Accepted,
    /// The finding is a hazard that is only noted.
    Noted,
}

impl<'a> View<'_, 'a> {
    /// Returns all findings of a case, over every seed and architecture, each once.
    pub fn findings(self, id: &CaseId) -> Vec<SeenFinding<'a>> {
        let subject = Subject::Case(id.clone());
        let mut all: Vec<SeenFinding> = Vec::new();
        for view in self.distinct_ptx(id) {
            let (new, _) = hazards::new_since_base(view, id);
            let is_new = |finding: &Finding| {
                new.iter()
                    .flat_map(|(_, findings)| findings)
                    .any(|new_finding| std::ptr::eq(*new_finding, finding))
            };
            for (seed, facts) in view.simulations(id) {
                for finding in &facts.findings {
                    let standing = if is_accepted(view, &subject, finding) {
                        FindingStanding::Accepted
                    } else if hazards::is_note(view, finding) && !is_new(finding) {
                        FindingStanding::Noted
                    } else {
                        FindingStanding::Broken
                    };
                    match all.iter_mut().find(|known| is_same(known.finding, finding)) {
                        Some(known) => known.standing = known.standing.min(standing),
                        None => all.push(SeenFinding {
                            seed,
                            finding,
                            standing,
                        }),
                    }
                }
            }
        }
        all
    }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.kind, &one.entry, &one.places) == (other.kind, &other.entry, &other.places)
}

/// Judges what the simulator found in a case, and then compares its hazards with the base.
pub fn check_findings(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    let held = find(view, subject).map_err(|why| lost_check(view, subject, why))?;
    hazards::compare_to_base(view, subject)?;
    Ok(held)
}

/// Judges the findings of a case, and lists what was accepted.
pub fn judge_findings(view: View, gate: &Gate) -> Ruled {
    let mut ruled = Ruled::blank(gate).end(check_findings(view, &gate.subject));
    if let Reason::FindingsAccepted { findings } = &ruled.verdict.reason {
        ruled.accepted = findings
            .iter()
            .map(|finding| Accepted {
                subject: gate.subject.clone(),
                rule: gate.rule.clone(),
                reason: Reason::FindingsAccepted {
                    findings: vec![finding.clone()],
                },
                declared: finding.declared.clone(),
            })
            .collect();
    }
    ruled
}

/// Checks that a case has no findings that break its gate. An accepted finding is no failure, neither here nor in the
/// proof that the case is right: a known race in somebody else's code must not keep a case from being counted and
/// measured.
pub fn find(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    let held = over_seeds(view, subject, |case, seed| {
        let findings = &view.simulation(&case.id, seed)?.findings;
        let (accepted, new): (Vec<_>, Vec<_>) = findings
            .iter()
            .filter(|finding| !hazards::is_note(view, finding))
            .partition(|finding| is_accepted(view, subject, finding));
        if new.is_empty() {
            return Ok(());
        }
        let first: Vec<_> = new.iter().copied().take(MOST_FINDINGS).cloned().collect();
        fail(Reason::Findings {
            seed,
            more: new.len() - first.len(),
            first,
            accepted: accepted.len(),
        })
    })?;
    let findings = accepted_findings(view, subject);
    Ok(if findings.is_empty() {
        held
    } else {
        Reason::FindingsAccepted { findings }
    })
}

/// Turns a skip into something graver if a check was lost. A change can make a case too large for the simulator, or use
/// something that it does not support, and lose all checks that way. If a baseline under the same key shows that the
/// case was simulated before, that is no mere skip. Against a base that was simulated, another verdict says so.
fn lost_check(view: View, subject: &Subject, why: NotPassed) -> NotPassed {
    let Subject::Case(id) = subject else {
        return why;
    };
    let is_of_base = view.base().is_some_and(|base| find(base, subject).is_ok());
    let is_lost = view.is_simulated() && takes_check_away(&why) && !is_of_base;
    let was_simulated = |facet| view.has_baseline(id, facet);
    if !is_lost || !(was_simulated(Facet::Correctness) || was_simulated(Facet::Counters)) {
        return why;
    }
    NotPassed {
        outcome: Outcome::Inconclusive,
        reason: Reason::CheckLost {
            shape: id.shape.clone(),
            why: Box::new(why.reason),
        },
    }
}

/// Returns true if a change of the kernel or of its shape can be the reason.
fn takes_check_away(why: &NotPassed) -> bool {
    match why.outcome {
        Outcome::Unsupported => true,
        Outcome::Skipped => matches!(
            why.reason,
            Reason::NotRun(
                NotRun::OverBudget { .. } | NotRun::OverMemory { .. } | NotRun::EstimateUnknown
            )
        ),
        Outcome::Fail
        | Outcome::Environment
        | Outcome::Inconclusive
        | Outcome::Replaced
        | Outcome::Expected
        | Outcome::Pass => false,
    }
}
