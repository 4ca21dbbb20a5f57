//! Finds the causes of a broken gate on a time, a counter or a resource.

use ::explain::{Cause, CauseClass, Sides, explain as causes_of};
use judge::{Index, View};
use model::{
    CaseId, Facet, Judgement, Outcome, Plan, Question, Reason, Rule, Side, Subject, Verdict,
};
use std::collections::BTreeSet;

/// Returns true if a gate is about how fast a kernel is, or about what it takes.
fn is_about_speed(verdict: &Verdict) -> bool {
    match (&verdict.question, verdict.metric()) {
        (Question::Gate(Rule::Counters { .. }) | Question::UngatedResources, _) => true,
        _ if matches!(verdict.reason, Reason::CountersInDoubt { .. }) => true,
        (_, Some(metric)) => match metric.facet() {
            Facet::Times | Facet::Counters | Facet::Resources | Facet::Profile => true,
            Facet::Correctness => false,
        },
        (_, None) => false,
    }
}

/// Returns true if a kernel got slower or takes more, or probably does.
fn is_worse(verdict: &Verdict) -> bool {
    let is_broken = verdict.outcome == Outcome::Fail
        || matches!(verdict.reason, Reason::CountersInDoubt { .. });
    is_broken && is_about_speed(verdict)
}

/// Returns the case of a subject, or the first case of a unit.
fn case_of<'a>(plan: &'a Plan, subject: &'a Subject) -> Option<&'a CaseId> {
    match subject {
        Subject::Case(case) => Some(case),
        Subject::Unit(unit) => plan
            .cases
            .iter()
            .map(|case| &case.id)
            .find(|case| case.unit(unit.arch) == *unit),
    }
}

/// Returns the causes that say something. There are none if the run has no base: two records have no machine code, and
/// most causes are found by that.
fn causes(index: &Index, case: &CaseId) -> Vec<Cause> {
    let base = index.view(Side::Base, None);
    if !base.is_some_and(View::is_revision) {
        return Vec::new();
    }
    let Ok(sides) = Sides::from_index(index, case) else {
        return Vec::new();
    };
    let mut causes = causes_of(&sides);
    let says_nothing =
        |class| matches!(class, CauseClass::NothingChanged | CauseClass::CodeChanged);
    causes.retain(|cause| !says_nothing(cause.class));
    causes
}

/// Returns the cause of the first of some verdicts that is about speed.
pub fn first(index: &Index, verdicts: &[&Verdict]) -> Option<Cause> {
    let verdict = verdicts.iter().find(|verdict| is_worse(verdict))?;
    let causes = causes(index, case_of(index.head().plan(), &verdict.subject)?);
    causes.into_iter().next()
}

/// Returns the causes of every case whose gate on its speed failed.
pub fn explain_failures<'a>(
    index: &'a Index,
    judgement: &'a Judgement,
) -> Vec<(&'a CaseId, Cause)> {
    let cases: BTreeSet<&CaseId> = judgement
        .verdicts
        .iter()
        .filter(|verdict| is_worse(verdict))
        .filter_map(|verdict| case_of(index.head().plan(), &verdict.subject))
        .collect();
    cases
        .into_iter()
        .flat_map(|case| {
            causes(index, case)
                .into_iter()
                .map(move |cause| (case, cause))
        })
        .collect()
}
