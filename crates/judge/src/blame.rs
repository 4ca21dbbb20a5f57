//! Names the part of head's compiler that broke a gate. A run that was asked to do so exchanged the parts of the base's
//! compiler for head's one after the other, and recorded what each gate said after each exchange.

use super::index::View;
use model::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// Finds the guilty parts, in the order of the exchange, each with its gates in the order of the verdicts.
pub(super) fn find(view: View, verdicts: &[Verdict]) -> Vec<Blame> {
    let steps = steps(&view.filed().exchanges);
    // After the last exchange the compiler is head's, whose answers are the verdicts themselves.
    let Some((_, between)) = steps.split_last() else {
        return Vec::new();
    };
    let mut blamed: BTreeMap<(usize, usize), Vec<BlamedGate>> = BTreeMap::new();
    for verdict in verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
    {
        for gate in blameable(verdict) {
            let is_same = |answer: &&&GateAnswer| {
                (&answer.subject, &answer.rule, answer.verdict)
                    == (&gate.subject, &gate.rule, gate.verdict)
            };
            let outcomes: Vec<_> = between
                .iter()
                .map(|(_, answers)| {
                    let answer = answers.iter().find(is_same);
                    answer.map(|answer| answer.outcome)
                })
                .chain([Some(Outcome::Fail)])
                .collect();
            let guilty = find_guilty(&outcomes);
            let gates = blamed.entry((guilty.start, guilty.end)).or_default();
            gates.push(gate);
        }
    }
    blamed
        .into_iter()
        .map(|((start, end), gates)| {
            let changes = steps.get(start..end).unwrap_or_default();
            Blame {
                changes: changes
                    .iter()
                    .map(|(change, _)| (*change).clone())
                    .collect(),
                gates,
            }
        })
        .collect()
}

/// Returns the gates of a verdict that a part of a compiler can have broken, or that it can have left without an
/// answer.
pub fn blameable(verdict: &Verdict) -> Vec<BlamedGate> {
    let (rules, of) = match &verdict.question {
        Question::Gate(rule) => (std::slice::from_ref(rule), GateVerdict::Own),
        Question::NoLooser(BaseDemand::Checks(rules)) => (rules.as_slice(), GateVerdict::Answered),
        _ => return Vec::new(),
    };
    rules
        .iter()
        .map(|rule| BlamedGate {
            subject: verdict.subject.clone(),
            rule: rule.clone(),
            verdict: of,
        })
        .collect()
}

/// Returns the outcome that one of [`blameable`]'s gates has in another run, or `None` if that run does not judge it.
pub fn answer(gate: &BlamedGate, verdicts: &[Verdict]) -> Option<Outcome> {
    let of_subject = || {
        verdicts
            .iter()
            .filter(|verdict| verdict.subject == gate.subject)
    };
    let own = of_subject()
        .find(|verdict| matches!(&verdict.question, Question::Gate(rule) if *rule == gate.rule));
    if gate.verdict == GateVerdict::Own {
        return own.map(|verdict| verdict.outcome);
    }
    let is_lost = |verdict: &Verdict| {
        let demand = &verdict.question;
        matches!(demand, Question::NoLooser(BaseDemand::Checks(rules)) if rules.contains(&gate.rule))
    };
    match of_subject().find(|verdict| is_lost(verdict)) {
        Some(lost) => Some(lost.outcome),
        // A kernel that was not built has lost no check, and has no answer either.
        None => own
            .filter(|own_verdict| {
                own_verdict.outcome == Outcome::Pass || own_verdict.measured.is_some()
            })
            .map(|_| Outcome::Pass),
    }
}

/// Groups the answers by exchange. Shards exchange the same parts, and each asks gates of its own.
fn steps<'a>(exchanges: &[&'a Exchange]) -> Vec<(&'a PartChange, Vec<&'a GateAnswer>)> {
    let mut steps: Vec<(&PartChange, Vec<&GateAnswer>)> = Vec::new();
    for Exchange { change, answers } in exchanges {
        match steps.iter_mut().find(|(known, _)| *known == change) {
            Some((_, known)) => known.extend(answers),
            None => steps.push((change, answers.iter().collect())),
        }
    }
    steps
}

/// Returns the range of exchanges among which one broke the gate, from the outcome after each exchange. The gate held
/// before the first exchange and does not hold after the last. The range has more than one exchange if a compiler in
/// between gave no answer.
fn find_guilty(outcomes: &[Option<Outcome>]) -> Range<usize> {
    let mut from = 0;
    for (at, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Some(Outcome::Fail) => return from..at + 1,
            Some(Outcome::Pass) => from = at + 1,
            _ => {}
        }
    }
    from.min(outcomes.len().saturating_sub(1))..outcomes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guilty_exchange_is_the_first_after_which_the_gate_fails() {
        use Outcome::{Fail, Inconclusive, Pass};
        for (outcomes, guilty) in [
            (&[Some(Fail), Some(Fail), Some(Fail)][..], 0..1),
            (&[Some(Pass), Some(Fail), Some(Fail)], 1..2),
            (&[Some(Pass), Some(Pass), Some(Fail)], 2..3),
            (&[Some(Pass), None, Some(Fail)], 1..3),
            (&[Some(Inconclusive), None, Some(Fail)], 0..3),
            (&[Some(Fail)], 0..1),
        ] {
            assert_eq!(find_guilty(outcomes), guilty, "{outcomes:?}");
        }
    }

    #[test]
    fn a_check_is_lost_where_the_review_says_so_and_kept_where_the_gate_has_an_answer() {
        let subject = Subject::Unit(UnitId::new("k", "default", "sm_90".parse().unwrap()));
        let verdict = |question, outcome| {
            Verdict::without_figures(subject.clone(), question, outcome, Reason::Held, None)
        };
        let own = |outcome| verdict(Question::Gate(Rule::NoFindings), outcome);
        let demand = BaseDemand::Checks(vec![Rule::Finite, Rule::NoFindings]);
        let lost = verdict(Question::NoLooser(demand), Outcome::Fail);
        let gate = BlamedGate {
            subject: subject.clone(),
            rule: Rule::NoFindings,
            verdict: GateVerdict::Answered,
        };
        assert!(blameable(&lost).contains(&gate));
        let skipped = own(Outcome::Skipped);
        assert_eq!(answer(&gate, &[skipped.clone(), lost]), Some(Outcome::Fail));
        assert_eq!(answer(&gate, &[own(Outcome::Pass)]), Some(Outcome::Pass));
        // The kernel was not built or not run, so it is unknown whether the check is lost.
        for unknown in [own(Outcome::Fail), skipped] {
            assert_eq!(answer(&gate, &[unknown]), None);
        }
        let mut measured = own(Outcome::Fail);
        measured.measured = Some(Num(1.0));
        assert_eq!(answer(&gate, &[measured]), Some(Outcome::Pass));
        let own_verdict = blameable(&own(Outcome::Fail)).remove(0);
        assert_eq!(own_verdict.verdict, GateVerdict::Own);
        assert_eq!(
            answer(&own_verdict, &[own(Outcome::Fail)]),
            Some(Outcome::Fail)
        );
    }

    #[test]
    fn shards_share_their_exchanges() {
        let change = |part: Component| PartChange {
            part,
            versions: ["13.0.88".to_owned(), "13.2.51".to_owned()],
        };
        let exchange = |part, subject: &str| Exchange {
            change: change(part),
            answers: vec![GateAnswer {
                subject: Subject::Unit(UnitId::new(subject, "default", "sm_90".parse().unwrap())),
                rule: Rule::Built,
                verdict: GateVerdict::Own,
                outcome: Outcome::Pass,
            }],
        };
        let all = [
            exchange(Component::Ptxas, "a"),
            exchange(Component::Nvvm, "a"),
            exchange(Component::Ptxas, "b"),
            exchange(Component::Nvvm, "b"),
        ];
        let steps = steps(&all.each_ref());
        let parts: Vec<_> = steps.iter().map(|(it, all)| (it.part, all.len())).collect();
        assert_eq!(parts, [(Component::Ptxas, 2), (Component::Nvvm, 2)]);
    }
}
