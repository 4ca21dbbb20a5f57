//! The conclusion follows from all verdicts, whichever pass they are from, and a base that says less is no pass.

use super::*;
use crate::passes::conclude;
use crate::review::{Comparison, Ended};

/// Returns one question of each pass: rules, expected failures, baseline files, acceptances, the review against the
/// base.
fn questions() -> [Question; 5] {
    [
        Question::Gate(Rule::Finite),
        Question::Failure(vec![GateName::Finite]),
        Question::Baseline,
        Question::Acceptance(Allowance::Limit(p50_limit())),
        Question::NoLooser(BaseDemand::Reference),
    ]
}

/// Derives the conclusion a second time, by what a reader of docs/verdicts.md expects.
pub(super) fn expected_of(verdicts: &[Verdict]) -> Conclusion {
    let has = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    let is_judged = |verdict: &Verdict| {
        let held = [Outcome::Pass, Outcome::Expected].contains(&verdict.outcome);
        held && matches!(verdict.question, Question::Gate(_))
    };
    match () {
        () if has(Outcome::Fail) => Conclusion::Fail,
        () if has(Outcome::Environment) => Conclusion::Environment,
        () if has(Outcome::Inconclusive) => Conclusion::Inconclusive,
        () if verdicts.iter().any(is_judged) => Conclusion::Pass,
        () => Conclusion::NothingJudged,
    }
}

fn concluded(verdicts: &[Verdict]) -> Conclusion {
    let record = record();
    let index = Index::for_run(&record.plan, &record.environment, &record.policy, &[]);
    conclude(index.head(), verdicts)
}

fn planted(question: Question, outcome: Outcome) -> Verdict {
    Verdict::without_figures(unit("fast"), question, outcome, Reason::Held, None)
}

#[test]
fn every_outcome_of_every_pass_reaches_the_conclusion() {
    let held = planted(Question::Gate(Rule::Built), Outcome::Pass);
    for question in questions() {
        for outcome in Outcome::ALL {
            let one = planted(question.clone(), outcome);
            let wanted = match outcome {
                Outcome::Fail => Conclusion::Fail,
                Outcome::Environment => Conclusion::Environment,
                Outcome::Inconclusive => Conclusion::Inconclusive,
                Outcome::Unsupported
                | Outcome::Skipped
                | Outcome::Replaced
                | Outcome::Expected
                | Outcome::Pass => Conclusion::Pass,
            };
            // The verdict is tried before the one that holds, and after it.
            let both = [held.clone(), one.clone()];
            assert_eq!(concluded(&both), wanted, "{question:?} {outcome}");
            let [first, last] = both;
            assert_eq!(concluded(&[last, first]), wanted, "{question:?} {outcome}");
            // Only a gate judges something of head by itself.
            let is_gate = matches!(question, Question::Gate(_));
            let alone = match wanted {
                Conclusion::Pass
                    if !is_gate || !matches!(outcome, Outcome::Pass | Outcome::Expected) =>
                {
                    Conclusion::NothingJudged
                }
                wanted => wanted,
            };
            assert_eq!(concluded(&[one]), alone, "{question:?} {outcome}");
        }
    }
}

/// The verdict of each end of a comparison with the base, without the label and with it.
#[test]
fn every_end_of_a_comparison_is_one_of_four() {
    let fault = || Reason::Fault(Fault::new(FaultKind::Environment, "m"));
    let lack = Reason::BaseIncomparable(BaseLack::ReferenceBroken(String::new()));
    let missing = missing_check(case_id("fast", "small"), 1);
    for (ended, outcome, with_label) in [
        (Ended::Held, None, None),
        (
            Ended::Failed(Loosened::GateRemoved),
            Some(Outcome::Fail),
            Some(Outcome::Pass),
        ),
        (
            Ended::Inconclusive(lack),
            Some(Outcome::Inconclusive),
            Some(Outcome::Pass),
        ),
        (
            Ended::Inconclusive(missing),
            Some(Outcome::Inconclusive),
            Some(Outcome::Inconclusive),
        ),
        (
            Ended::Environment(fault()),
            Some(Outcome::Environment),
            Some(Outcome::Environment),
        ),
    ] {
        for (loosening, outcome) in [
            (Loosening::Fails, outcome),
            (Loosening::Allowed, with_label),
        ] {
            let id = case_id("fast", "small");
            let comparison = Comparison::for_case(&id, BaseDemand::Reference, ended.clone());
            let verdict = comparison.verdict(loosening);
            assert_eq!(verdict.map(|verdict| verdict.outcome), outcome, "{ended:?}");
        }
    }
}

/// Returns the outcomes of the verdicts that one pass of the review gave.
fn outcomes_of(judgement: &Judgement, demand: fn(&BaseDemand) -> bool) -> BTreeSet<Outcome> {
    judgement
        .verdicts
        .iter()
        .filter(|verdict| match &verdict.question {
            Question::NoLooser(asked) => demand(asked),
            _ => false,
        })
        .map(|verdict| verdict.outcome)
        .collect()
}

/// Each pass of the review that rests on evidence, made to end in each of its ways by what was observed.
#[test]
fn evidence_of_the_base_ends_every_pass_in_each_way() {
    type Edit = fn(&mut Evidence);
    fn fault(kind: FaultKind) -> Fault {
        Fault::new(kind, "m")
    }
    fn set_reference(piece: &mut Evidence, to: Seen<BaseReference>) {
        if let Evidence::BaseReference { facts, .. } = piece {
            *facts = to;
        }
    }
    fn break_simulation(piece: &mut Evidence, kind: FaultKind) {
        if let Evidence::Base(piece) = piece
            && let Evidence::Simulation { facts, .. } = piece.as_mut()
        {
            *facts = Seen::Fault(fault(kind));
        }
    }
    let references: [(Edit, Option<Outcome>); 5] = [
        (|_| {}, None),
        (
            |record| {
                let differing = ReferenceComparison {
                    differing: 1,
                    ..ReferenceComparison::default()
                };
                set_reference(record, Seen::Got(BaseReference::Compared(differing)))
            },
            Some(Outcome::Fail),
        ),
        (
            |record| {
                set_reference(
                    record,
                    Seen::Got(BaseReference::Broken {
                        message: String::new(),
                    }),
                )
            },
            Some(Outcome::Inconclusive),
        ),
        (
            |record| set_reference(record, Seen::Fault(fault(FaultKind::Hang))),
            Some(Outcome::Inconclusive),
        ),
        (
            |record| set_reference(record, Seen::Fault(fault(FaultKind::Environment))),
            Some(Outcome::Environment),
        ),
    ];
    let measured: [(Edit, Option<Outcome>); 3] = [
        (|_| {}, None),
        (
            |record| break_simulation(record, FaultKind::WorkerDied),
            Some(Outcome::Inconclusive),
        ),
        (
            |record| break_simulation(record, FaultKind::Environment),
            Some(Outcome::Environment),
        ),
    ];
    let is_reference: fn(&BaseDemand) -> bool = |demand| *demand == BaseDemand::Reference;
    let is_measured: fn(&BaseDemand) -> bool =
        |demand| *demand == BaseDemand::Baseline(Facet::Counters);
    let is_check: fn(&BaseDemand) -> bool = |demand| matches!(demand, BaseDemand::Checks(_));
    let run = |edit: Edit, demand: fn(&BaseDemand) -> bool, outcome| {
        let mut record = simulated_against_base();
        for piece in &mut record.evidence {
            edit(piece);
        }
        let judgement = ruled(&record);
        let wanted: BTreeSet<Outcome> = Option::into_iter(outcome).collect();
        assert_eq!(outcomes_of(&judgement, demand), wanted);
        assert_eq!(judgement.conclusion, expected_of(&judgement.verdicts));
        assert_eq!(judgement.conclusion == Conclusion::Pass, outcome.is_none());
    };
    for (edit, outcome) in references {
        run(edit, is_reference, outcome);
    }
    for (edit, outcome) in measured {
        run(edit, is_measured, outcome);
    }
    // Head gives no answer: the check is lost if the base gave one, and else as undecided as at the base.
    let lost: [(Edit, Outcome); 4] = [
        (|_| {}, Outcome::Fail),
        // A kernel that breaks has answered, too.
        (
            |record| break_simulation(record, FaultKind::DeviceFault),
            Outcome::Fail,
        ),
        (
            |record| break_simulation(record, FaultKind::WorkerDied),
            Outcome::Inconclusive,
        ),
        (
            |record| break_simulation(record, FaultKind::Environment),
            Outcome::Environment,
        ),
    ];
    for (edit, outcome) in lost {
        let mut record = simulated_against_base();
        for piece in &mut record.evidence {
            edit(piece);
            if let Evidence::Simulation { facts, .. } = piece {
                *facts = Seen::Unsupported(Unsupported::Cubin);
            }
        }
        let judgement = ruled(&record);
        let found = outcomes_of(&judgement, is_check);
        assert_eq!(found, [outcome].into());
        assert_eq!(judgement.conclusion, expected_of(&judgement.verdicts));
    }
}

/// Two good runs against a base. Without any one piece of what the base showed, or with one twice or broken by the
/// machine, neither is good.
#[test]
fn a_base_that_says_less_is_no_pass() {
    for whole in [record_against_base(), simulated_against_base()] {
        assert_eq!(ruled(&whole).conclusion, Conclusion::Pass);
        let of_base = |piece: &Evidence| {
            matches!(
                piece,
                Evidence::Base(_) | Evidence::BaseReference { .. } | Evidence::Pair { .. }
            )
        };
        let places = (0..whole.evidence.len()).filter(|&at| of_base(&whole.evidence[at]));
        for at in places {
            let piece = &whole.evidence[at];
            let mut dropped = whole.clone();
            dropped.evidence.remove(at);
            let mut doubled = whole.clone();
            doubled.evidence.push(piece.clone());
            let mut broken = whole.clone();
            break_by_machine(&mut broken.evidence[at]);
            for (record, how) in [(dropped, "without"), (doubled, "twice"), (broken, "broken")] {
                let conclusion = ruled(&record).conclusion;
                assert_ne!(conclusion, Conclusion::Pass, "{how}: {piece:?}");
                assert_ne!(conclusion, Conclusion::NothingJudged, "{how}: {piece:?}");
            }
        }
    }
}

fn break_by_machine(piece: &mut Evidence) {
    fn fault<T>() -> Seen<T> {
        Seen::Fault(Fault::new(FaultKind::Environment, "m"))
    }
    match piece {
        Evidence::Base(piece) => break_by_machine(piece),
        Evidence::Build { facts, .. } => *facts = fault(),
        Evidence::Check { facts, .. } => *facts = fault(),
        Evidence::Simulation { facts, .. } => *facts = fault(),
        Evidence::BaseReference { facts, .. } => *facts = fault(),
        Evidence::Pair { facts, .. } => *facts = fault(),
        other => panic!("{other:?}"),
    }
}

/// The conclusion from the verdicts of a comparison follows the same rules as the conclusion of a run.
#[test]
fn a_comparison_of_records_concludes_from_all_of_its_verdicts() {
    let mut user = record_simulated();
    for case in &mut user.plan.cases {
        case.reference = Reference::User {
            source: "k.c".into(),
            function: "k".into(),
            args: Vec::new(),
            flags: Vec::new(),
        };
    }
    let undecided = compare(&user, &user, Loosening::Fails);
    assert_eq!(undecided.conclusion, Conclusion::Inconclusive);
    assert_eq!(undecided.conclusion, expected_of(&undecided.verdicts));
    let allowed = compare(&user, &user, Loosening::Allowed);
    assert_eq!(allowed.conclusion, Conclusion::Pass);
    let mut looser = record();
    looser.policy.gates.pop();
    let failed = compare(&record(), &looser, Loosening::Fails);
    assert_eq!(failed.conclusion, Conclusion::Fail);
    looser.policy.gates.clear();
    let nothing = compare(&record(), &looser, Loosening::Allowed);
    assert_eq!(nothing.conclusion, Conclusion::NothingJudged);
}

/// The simulator looked for races and found none; head's GPU does not look.
#[test]
fn a_simulated_base_is_incomparable_with_a_head_on_a_gpu() {
    let asks_both = |mut record: Record| {
        record.policy.gates = record_simulated().policy.gates;
        record.plan.simulation = record_simulated().plan.simulation;
        record
    };
    let (simulated, on_gpu) = (record_simulated(), asks_both(record()));
    let judgement = compare(&simulated, &on_gpu, Loosening::Fails);
    let why = Reason::BaseIncomparable(BaseLack::OtherDevice);
    assert!(
        judgement
            .verdicts
            .iter()
            .any(|verdict| verdict.reason == why)
    );
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
    // A GPU's record asks for nothing that another GPU does not answer.
    let other = |judgement: Judgement| {
        judgement
            .verdicts
            .iter()
            .any(|verdict| verdict.reason == why)
    };
    assert!(!other(compare(&on_gpu, &on_gpu, Loosening::Fails)));
    assert!(!other(compare(&on_gpu, &simulated, Loosening::Fails)));
    let mut elsewhere = on_gpu.clone();
    if let Seen::Got(device) = &mut elsewhere.environment.device {
        device.minor = 3;
    }
    assert!(!other(compare(&elsewhere, &on_gpu, Loosening::Fails)));
}
