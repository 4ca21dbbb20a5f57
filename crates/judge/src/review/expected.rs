//! Reviews variants that are kept although they are wrong. Each must fail as it is meant to, or else that is a failure
//! of its own.

use model::*;

/// Replaces the failures of variants that fail as they are meant to, and adds a verdict for each variant that does not.
pub fn review(plan: &Plan, verdicts: &mut Vec<Verdict>) {
    let found: Vec<_> = plan
        .expected
        .iter()
        .filter_map(|expected| {
            let (outcome, reason) = match find(expected, verdicts) {
                FailureResult::AsMeant => {
                    replace(expected, verdicts);
                    return None;
                }
                FailureResult::Otherwise { on, failed } => {
                    (Outcome::Fail, Reason::FailedOtherwise { on, failed })
                }
                FailureResult::Passed => (Outcome::Fail, Reason::ExpectedFailurePassed),
                FailureResult::Open(outcome) => (outcome, Reason::ExpectedFailureOpen),
            };
            Some(Verdict::without_figures(
                Subject::Case(expected.every_shape()),
                Question::Failure(expected.gates.clone()),
                outcome,
                reason,
                Some(expected.declared.clone()),
            ))
        })
        .collect();
    verdicts.extend(found);
}

enum FailureResult {
    AsMeant,
    /// The variant fails by gates that it is not kept for.
    Otherwise {
        on: Box<Subject>,
        failed: Vec<Rule>,
    },
    Passed,
    /// No gate that the variant is kept for was judged, or none where it would have failed.
    Open(Outcome),
}

fn find(expected: &Expected, verdicts: &[Verdict]) -> FailureResult {
    let own = || {
        verdicts
            .iter()
            .filter(|verdict| rule_of(expected, verdict).is_some())
    };
    let failed = |verdict: &&Verdict| verdict.outcome == Outcome::Fail;
    let mut others = own()
        .filter(failed)
        .filter(|verdict| !is_meant(expected, verdict));
    if let Some(first) = others.next() {
        let same = others.filter(|other_verdict| other_verdict.subject == first.subject);
        let failed = std::iter::once(first).chain(same);
        return FailureResult::Otherwise {
            on: Box::new(first.subject.clone()),
            failed: failed
                .filter_map(|verdict| rule_of(expected, verdict))
                .cloned()
                .collect(),
        };
    }
    let seen: Vec<Outcome> = own()
        .filter(|verdict| is_meant(expected, verdict))
        .map(|verdict| verdict.outcome)
        .collect();
    let undecided = [Outcome::Environment, Outcome::Inconclusive];
    let undecided = undecided.into_iter().find(|outcome| seen.contains(outcome));
    match undecided {
        _ if seen.contains(&Outcome::Fail) => FailureResult::AsMeant,
        Some(outcome) => FailureResult::Open(outcome),
        None if seen.contains(&Outcome::Pass) && !expected.left_out => FailureResult::Passed,
        None => FailureResult::Open(Outcome::Skipped),
    }
}

/// Returns the rule of a verdict if it is about a gate of the variant.
fn rule_of<'a>(expected: &Expected, verdict: &'a Verdict) -> Option<&'a Rule> {
    let (subject, Question::Gate(rule)) = (&verdict.subject, &verdict.question) else {
        return None;
    };
    let is_own = (subject.kernel(), subject.variant())
        == (expected.kernel.as_str(), expected.variant.as_str());
    is_own.then_some(rule)
}

fn is_meant(expected: &Expected, verdict: &Verdict) -> bool {
    let name = rule_of(expected, verdict).and_then(GateName::from_rule);
    name.is_some_and(|name| expected.gates.contains(&name))
}

fn replace(expected: &Expected, verdicts: &mut [Verdict]) {
    for verdict in verdicts {
        if verdict.outcome == Outcome::Fail && is_meant(expected, verdict) {
            let own = Box::new(verdict.reason.clone());
            verdict.outcome = Outcome::Expected;
            verdict.reason = Reason::ExpectedFailure { own };
        }
    }
}
