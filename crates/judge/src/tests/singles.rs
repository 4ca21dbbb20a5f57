//! Samples of single launches against the base: as many as are judged where a gate rests on them, and only as
//! many as cost little where reports alone show them.

use super::*;

fn against_base(metric: Metric) -> Rule {
    of_base(metric, 0.05)
}

fn fast() -> Subject {
    case("fast", "small")
}

/// Each process has too few for a metric.
fn too_few(metric: Metric) -> Reason {
    Reason::TooFewSingles {
        metric,
        have: 12,
        needed: 100,
    }
}

/// The samples asked of `fast@small`, which changed, where `subject` has this gate as well.
fn with_gate(subject: Subject, rule: Rule) -> (Record, Singles) {
    let mut record = with_tails(record_against_base());
    record.policy.gates.push(gate(subject, rule));
    let mut first = record.clone();
    first
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { .. }));
    let asked = asked(&first);
    let (_, timing) = asked
        .iter()
        .find(|(case, _)| *case == case_id("fast", "small"))
        .unwrap();
    match timing {
        Timing::AgainstBase(singles) => (record, *singles),
        Timing::Alone => panic!("{asked:?}"),
    }
}

/// A dozen of each process, where the pairing says a hundred.
fn few(record: &mut Record) {
    repair(record, &case_id("fast", "small"), |_, facts| {
        facts.head.single_ns.truncate(12);
        facts.base.single_ns.truncate(12);
    });
}

#[test]
fn judges_singles_only_if_a_gate_rests_on_them() {
    let expr = |text: &str| Rule::Condition { expr: expr(text) };
    let small = |variant: &str| case(variant, "small");
    for (subject, rule, singles) in [
        (small("fast"), against_base(Metric::P50), Singles::Shown),
        (small("fast"), within(Metric::Cycles, 0.1), Singles::Shown),
        (small("fast"), expr("p50 <= 1ms"), Singles::Shown),
        (small("direct"), against_base(Metric::P99), Singles::Shown),
        (
            case("fast", "ragged"),
            against_base(Metric::P99),
            Singles::Shown,
        ),
        (small("direct"), expr("p99 <= 1ms"), Singles::Shown),
        (small("fast"), against_base(Metric::P99), Singles::Judged),
        (
            small("fast"),
            against_base(Metric::SlowShare),
            Singles::Judged,
        ),
        (small("fast"), within(Metric::P90, 0.1), Singles::Judged),
        (small("fast"), at_most(Metric::Cv, 0.1), Singles::Judged),
        (small("fast"), expr("p99 <= 1ms"), Singles::Judged),
        (small("direct"), expr("fast.p99 <= p50"), Singles::Judged),
        // An unreadable expression may name anything.
        (small("direct"), expr("p99 <="), Singles::Judged),
    ] {
        let (_, asked) = with_gate(subject.clone(), rule.clone());
        assert_eq!(asked, singles, "{subject:?} {rule:?}");
    }
}

#[test]
fn too_few_decide_nothing_about_tails() {
    for metric in [Metric::P90, Metric::P99, Metric::Cv, Metric::SlowShare] {
        for rule in [against_base(metric), at_most(metric, 1e9)] {
            let (mut record, _) = with_gate(fast(), rule.clone());
            few(&mut record);
            let outcome = Outcome::Inconclusive;
            expect(&record, &fast(), rule, outcome, too_few(metric));
            assert_eq!(
                verdict(&record, &fast(), p50_change()).outcome,
                Outcome::Pass
            );
        }
    }
}

#[test]
fn reports_show_tails_that_no_gate_rests_on() {
    let mut record = with_tails(record_against_base());
    few(&mut record);
    let index = index(&record);
    let values = index.head();
    let shown = |metric| values.metric(&fast(), metric);
    assert!(shown(Metric::P90).is_ok() && shown(Metric::Cv).is_ok());
    // The slowest of a dozen is no p99.
    assert_eq!(shown(Metric::P99).unwrap_err().reason, too_few(Metric::P99));
}

/// The base's record was to show them alone, and a gate of head's would rest on them.
#[test]
fn too_few_are_no_figure_to_be_held_against() {
    let mut head = with_tails(record_against_base());
    let rule = within(Metric::P99, 0.5);
    head.policy.gates.push(gate(fast(), rule.clone()));
    let outcome = |base: &Record| {
        let judgement = compare(base, &head, Loosening::Allowed);
        verdict_of(&judgement, &fast(), rule.clone()).outcome
    };
    let mut base = with_tails(record_against_base());
    assert_eq!(outcome(&base), Outcome::Pass);
    few(&mut base);
    assert_ne!(outcome(&base), Outcome::Pass);
}
