//! Decides whether a change brought a problem, or whether the base has it, too.

use crate::index::View;
use crate::rules;
use crate::rules::hazards;
use model::*;

/// Returns `New` if the problem is new for any of its subjects, and `Old` if the base has it for all of them. Returns
/// `None` if there is no base, or if the evidence does not tell.
pub fn compare_with_base(view: View, verdicts: &[Verdict], problem: &Problem) -> Option<SinceBase> {
    let base = view.base()?;
    let of_subject = |subject: &Subject| match (&problem.cause, subject) {
        (ProblemCause::Findings { findings, .. }, Subject::Case(id)) => {
            has_finding(view, base, id, findings.first()?)
        }
        (ProblemCause::Loosened, _) => Some(false),
        _ => has_verdict(
            view,
            base,
            problem
                .verdicts
                .iter()
                .chain(&problem.follows)
                .filter_map(|at| verdicts.get(*at))
                .find(|verdict| verdict.subject == *subject)?,
        ),
    };
    let has: Vec<Option<bool>> = problem.subjects.iter().map(of_subject).collect();
    if has.contains(&Some(false)) {
        Some(SinceBase::New)
    } else if has.iter().all(|answer| *answer == Some(true)) {
        Some(SinceBase::Old)
    } else {
        None
    }
}

/// Returns true if the base has a finding. A finding is identified by its kind and the text of its lines, because line
/// numbers change with every edit.
fn has_finding(view: View, base: View, id: &CaseId, finding: &Finding) -> Option<bool> {
    if view.head_answers_for_base(id) {
        return Some(true);
    }
    let is_same = |other: &Finding| {
        other.kind == finding.kind && hazards::content(other) == hazards::content(finding)
    };
    let has = |id: &CaseId| {
        base.findings(id)
            .iter()
            .any(|finding| is_same(finding.finding))
    };
    let Some(case) = base.planned_case(id) else {
        // The case has no counterpart, and any case of the base may be its former name.
        return Some(base.plan().cases.iter().any(|case| has(&case.id)));
    };
    let is_known = case
        .seeds
        .iter()
        .all(|&seed| base.simulation(id, seed).is_ok());
    if has(id) {
        Some(true)
    } else {
        is_known.then_some(false)
    }
}

/// Asks the gate of a verdict of the base, and returns true if it fails there in the same way.
fn has_verdict(view: View, base: View, verdict: &Verdict) -> Option<bool> {
    let Question::Gate(rule) = &verdict.question else {
        return None;
    };
    // A limit on a change has no meaning for the base alone.
    let is_absolute = match rule {
        Rule::Limit { limit, .. } => matches!(limit, Limit::Absolute { .. }),
        Rule::Counters { .. } | Rule::HasEffect | Rule::AgreesWithDriver => false,
        _ => true,
    };
    let is_there = match &verdict.subject {
        Subject::Case(id) => base.planned_case(id).is_some(),
        Subject::Unit(id) => base.planned_unit(id).is_some(),
    };
    if !is_there {
        return Some(false).filter(|_| is_absolute);
    }
    if !is_absolute {
        return None;
    }
    if let Subject::Case(id) = &verdict.subject
        && view.head_answers_for_base(id)
    {
        return Some(true);
    }
    let gate = Gate {
        subject: verdict.subject.clone(),
        rule: rule.clone(),
        declared: None,
    };
    let theirs = rules::judge_rule(base, &gate).verdict;
    match theirs.outcome {
        Outcome::Fail => Some(theirs.reason.code() == verdict.reason.code()),
        Outcome::Pass => Some(false),
        _ => None,
    }
}
