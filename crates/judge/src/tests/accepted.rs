//! Intended regressions: accepted while somebody's name stands under them, and a failure of their own
//! where it does not any more.

use super::*;

fn accept(subjects: Vec<Subject>, instead: Rule) -> Acceptance {
    Acceptance {
        case: "k/direct@small".into(),
        subjects,
        left_out: false,
        allows: Allowance::Limit(instead),
        reason: "the new softmax is exact".into(),
        by: "jane@example.org".into(),
        until: "2026-11-21".into(),
        declared: "baselines/accepted.yaml:3".into(),
    }
}

fn small() -> Subject {
    case("direct", "small")
}

/// 3 % slower than the baseline, where 2 % are agreed.
fn slower() -> Record {
    let mut record = record();
    slow(&mut record, &case_id("direct", "small"), 103_000);
    record
}

fn with(mut record: Record, acceptance: Acceptance) -> Record {
    // A base accepts it, too: what a change adds is loosened.
    if let Some(base) = &mut record.policy.base {
        base.accepted.push(acceptance.clone());
    }
    record.policy.accepted.push(acceptance);
    record
}

fn five() -> Acceptance {
    accept(vec![small()], five_percent())
}

fn five_percent() -> Rule {
    within(Metric::P50, 0.05)
}

/// Every failure.
fn failures(record: &Record) -> Vec<(Question, Reason)> {
    ruled(record)
        .verdicts
        .into_iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .map(|verdict| (verdict.question, verdict.reason))
        .collect()
}

/// The acceptance of this limit fails.
#[track_caller]
fn fails(record: &Record, instead: Rule, reason: Reason) {
    let found = failures(record);
    let failure = (Question::Acceptance(Allowance::Limit(instead)), reason);
    assert!(found.contains(&failure), "{found:#?}");
    assert_eq!(ruled(record).conclusion, Conclusion::Fail);
}

/// The reason without what was accepted, and that.
#[track_caller]
fn split(reason: &Reason) -> (&Reason, &AcceptedLimit) {
    match reason {
        Reason::Accepted { own, accepted }
        | Reason::AcceptedUntil { own, accepted }
        | Reason::BeyondAccepted { own, accepted } => (own, accepted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn accepted_regressions_pass_and_are_listed_with_their_name() {
    let record = with(slower(), five());
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let verdict = verdict(&record, &small(), p50_change());
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Pass, "accepted")
    );
    let (own, limit) = split(&verdict.reason);
    assert_eq!(own.code(), "beyond-change");
    assert_eq!(comparison(own).allowed, Margin::Share(Num(0.02)));
    let expected = AcceptedLimit {
        limit: five_percent(),
        by: "jane@example.org".into(),
        until: "2026-11-21".into(),
        because: "the new softmax is exact".into(),
    };
    assert_eq!(*limit, expected);
    assert_eq!(verdict.limit, Some(Num(105_000.0)));
    let [accepted] = judgement.accepted.as_slice() else {
        panic!("{:?}", judgement.accepted)
    };
    assert_eq!(accepted.subject, small());
    assert_eq!(accepted.rule, p50_change());
    assert_eq!(accepted.reason, verdict.reason);
    assert_eq!(accepted.declared, "baselines/accepted.yaml:3");
}

#[test]
fn more_than_is_accepted_fails_and_says_so() {
    let narrow = within(Metric::P50, 0.025);
    let record = with(slower(), accept(vec![small()], narrow.clone()));
    let verdict = verdict(&record, &small(), p50_change());
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Fail, "beyond-accepted")
    );
    let (own, accepted) = split(&verdict.reason);
    assert_eq!(own.code(), "beyond-change");
    assert_eq!(
        (&accepted.limit, accepted.by.as_str()),
        (&narrow, "jane@example.org")
    );
    assert_eq!(failures(&record).len(), 1, "it is not unused");
}

#[test]
fn one_that_has_run_out_fails_by_itself_and_accepts_nothing() {
    let expired = |record: Record| {
        let until = "2026-11-20".to_owned();
        with(record, Acceptance { until, ..five() })
    };
    let reason = || Reason::AcceptanceExpired {
        by: "jane@example.org".into(),
        until: "2026-11-20".into(),
        day: "2026-11-21".into(),
    };
    fails(&expired(slower()), five_percent(), reason());
    let verdict = verdict(&expired(slower()), &small(), p50_change());
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Fail, "accepted-until")
    );
    let (own, accepted) = split(&verdict.reason);
    assert_eq!(own.code(), "beyond-change");
    assert_eq!(accepted.limit, five_percent());
    assert_eq!(
        (accepted.by.as_str(), accepted.until.as_str()),
        ("jane@example.org", "2026-11-20")
    );
    // Whether or not it is still needed.
    fails(&expired(record()), five_percent(), reason());
    assert_eq!(failures(&expired(record())).len(), 1);
}

#[test]
fn a_record_of_no_known_day_is_accepted_nothing_of() {
    let mut record = with(slower(), five());
    record.environment.started = "yesterday, at noon".into();
    fails(
        &record,
        five_percent(),
        Reason::AcceptanceUndated {
            started: "yesterday, at noon".into(),
        },
    );
    assert_eq!(
        verdict(&record, &small(), p50_change()).outcome,
        Outcome::Fail
    );
}

#[test]
fn one_that_nothing_needs_fails() {
    let unused = Reason::AcceptanceUnused {
        by: "jane@example.org".into(),
        until: "2026-11-21".into(),
    };
    fails(&with(record(), five()), five_percent(), unused);
    // One of two that it names is enough.
    let both = vec![small(), case("direct", "large")];
    let half = accept(both, within(Metric::P50, 0.05));
    assert_eq!(failures(&with(slower(), half)), []);
}

#[test]
fn unjudged_acceptances_are_not_called_unused() {
    let mut left_out = five();
    left_out.left_out = true;
    assert_eq!(failures(&with(record(), left_out)), []);

    let without = with(record_without_gpu(), five());
    assert_eq!(failures(&without), []);

    let mut inconclusive = with(record(), five());
    inconclusive.policy.baselines.clear();
    assert_eq!(failures(&inconclusive), []);

    let mut other_compiler = with(record(), five());
    other_compiler.environment.toolchain = Some("13.2".into());
    assert_eq!(failures(&other_compiler), []);

    // An error on a GPU differs from one in the simulator.
    let errors = accept(vec![small()], at_most(Metric::MaxErr, 0.1));
    assert_eq!(failures(&with(record_simulated(), errors.clone())), []);
    assert_eq!(failures(&with(record(), errors)).len(), 1);

    // A value that the base took over long ago is no regression against it.
    let beside = accept(vec![case("fast", "small")], within(Metric::P50, 0.05));
    assert_eq!(failures(&with(record_against_base(), beside)), []);
}

#[test]
fn one_of_nothing_fails() {
    let mut of_nothing = accept(Vec::new(), within(Metric::P50, 0.05));
    of_nothing.case = "k/gone*".into();
    let record = with(record(), of_nothing.clone());
    fails(
        &record,
        five_percent(),
        Reason::AcceptanceOfNothing {
            case: "k/gone*".into(),
        },
    );
    let judgement = ruled(&record);
    let verdict = judgement.verdicts.last().unwrap();
    assert_eq!(verdict.subject.to_string(), "k/gone*@*");
    assert_eq!(
        verdict.declared.as_deref(),
        Some("baselines/accepted.yaml:3")
    );
    of_nothing.left_out = true;
    assert_eq!(failures(&with(super::record(), of_nothing)), []);

    // No gate on p99 is there to be broken.
    let limit = within(Metric::P99, 0.05);
    let no_gate = accept(vec![small()], limit.clone());
    let case = "k/direct@small".to_owned();
    fails(
        &with(super::record(), no_gate),
        limit,
        Reason::AcceptanceWithoutGate { case },
    );
}

#[test]
fn a_bound_stands_in_for_a_bound_and_a_change_for_a_change() {
    let mut record = record();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129;
    });
    let bound = accept(vec![unit("direct")], at_most(Metric::Registers, 130.0));
    let change = accept(vec![unit("direct")], within(Metric::Registers, 0.5));
    let fails =
        |record: &Record, rule| verdict(record, &unit("direct"), rule).outcome == Outcome::Fail;
    let fails =
        |record: &Record| [registers_limit(), registers_change()].map(|rule| fails(record, rule));
    assert_eq!(fails(&with(record.clone(), bound.clone())), [false, true]);
    assert_eq!(fails(&with(record.clone(), change.clone())), [true, false]);
    let both = with(with(record.clone(), bound), change);
    assert_eq!(fails(&both), [false, false]);
    assert_eq!(ruled(&both).accepted.len(), 2);
    // The baseline has 96 registers.
    let more = |amount| {
        let rule = within_amount(Metric::Registers, amount);
        with(record.clone(), accept(vec![unit("direct")], rule))
    };
    assert_eq!(fails(&more(33)), [true, false]);
    assert_eq!(fails(&more(32)), [true, true]);
}

#[test]
fn an_accepted_error_is_proven_right_and_timed() {
    let mut record = record();
    recheck(&mut record, &case_id("direct", "small"), |_, facts| {
        facts.error.max_err = Num(0.005);
    });
    let bound = accept(vec![small()], at_most(Metric::MaxErr, 0.006));
    let change = accept(vec![small()], within(Metric::MaxErr, 9.0));
    let record = with(with(record, bound), change);
    assert_eq!(failures(&record), []);
    assert_eq!(
        verdict(&record, &small(), p50_change()).outcome,
        Outcome::Pass
    );
}

#[test]
fn faults_and_nan_cannot_be_accepted() {
    let mut record = record();
    recheck(&mut record, &case_id("direct", "small"), |_, facts| {
        facts.error.non_finite = 1;
    });
    let bound = accept(vec![small()], at_most(Metric::MaxErr, 1e9));
    let record = with(record, bound);
    expect(
        &record,
        &small(),
        err_limit(),
        Outcome::Fail,
        Reason::NotANumber {
            metric: Metric::MaxErr,
            because: Some((1, 1, 4096)),
        },
    );
    assert_eq!(
        verdict(&record, &small(), Rule::Finite).outcome,
        Outcome::Fail
    );
}

#[test]
fn counters_are_accepted_together() {
    let mut record = record_simulated();
    resimulate(&mut record, &case_id("direct", "small"), |_, facts| {
        if let Seen::Got(facts) = facts {
            facts.counters.insert(Counter::GlobalLoadSectors, 4100);
        }
    });
    assert_eq!(failures(&record).len(), 1);
    let change = Num(0.01);
    let record = with(record, accept(vec![small()], Rule::Counters { change }));
    assert_eq!(failures(&record), []);
    assert_eq!(ruled(&record).accepted.len(), 1);
}

/// `fast` is 3 % slower than the base in as many processes as the judge asks for.
fn against_base(ratio: f64, accepted: Option<f64>) -> Record {
    let mut record = record_against_base();
    let subject = case("fast", "small");
    record.policy.accepted = accepted
        .map(|change| accept(vec![subject], within(Metric::P50, change)))
        .into_iter()
        .collect();
    record.policy.base.as_mut().unwrap().accepted = record.policy.accepted.clone();
    let of_small =
        |piece: &Evidence| matches!(piece, Evidence::Pair { case, .. } if case.shape == "small");
    record.evidence.retain(|piece| !of_small(piece));
    for process in 0.. {
        if asked(&record).is_empty() {
            break;
        }
        record.evidence.push(Evidence::Pair {
            case: case_id("fast", "small"),
            process,
            facts: Seen::Got(pair_facts(usual("fast"), ratio, process)),
        });
    }
    record
}

#[test]
fn beside_the_base_the_accepted_limit_is_a_contest_of_its_own() {
    let subject = case("fast", "small");
    let broken = against_base(1.03, None);
    assert_eq!(
        verdict(&broken, &subject, p50_change()).outcome,
        Outcome::Fail
    );
    let accepted = against_base(1.03, Some(0.05));
    let found = verdict(&accepted, &subject, p50_change());
    assert_eq!(
        (found.outcome, found.reason.code()),
        (Outcome::Pass, "accepted")
    );
    let (own, limit) = split(&found.reason);
    assert_eq!(own.code(), "beyond-change");
    // Six decide, and the seventh confirms it.
    assert_eq!(comparison(own).processes, Some(6));
    assert_eq!(found.effort.unwrap().processes, 7);
    assert_eq!(limit.limit, five_percent());
    assert_eq!(ruled(&accepted).conclusion, Conclusion::Pass);
    let more = verdict(&against_base(1.08, Some(0.05)), &subject, p50_change());
    assert_eq!(
        (more.outcome, more.reason.code()),
        (Outcome::Fail, "beyond-accepted")
    );
    // At the accepted limit no number of processes decides.
    let open = verdict(&against_base(1.05, Some(0.05)), &subject, p50_change());
    assert_eq!(open.outcome, Outcome::Inconclusive);
    let Reason::PartlyAccepted { own, other, .. } = &open.reason else {
        panic!("{:?}", open.reason)
    };
    assert_eq!((own.code(), other.code()), ("beyond-change", "undecided"));
    assert_eq!(comparison(other).allowed, Margin::Share(Num(0.05)));
}

/// On the gate's own limit no number of processes decides; the accepted one lies far beyond.
#[test]
fn an_open_verdict_passes_by_its_accepted_limit() {
    let subject = case("fast", "small");
    let open = against_base(1.02, None);
    assert_eq!(
        verdict(&open, &subject, p50_change()).outcome,
        Outcome::Inconclusive
    );
    let accepted = against_base(1.02, Some(0.05));
    assert_eq!(
        verdict(&accepted, &subject, p50_change()).outcome,
        Outcome::Pass
    );
    assert_eq!(ruled(&accepted).accepted.len(), 1);
}

#[test]
fn acceptances_beyond_the_base_are_loosened() {
    let added = |base: Vec<Acceptance>| {
        let mut record = with(record_against_base(), five());
        record.policy.base.as_mut().unwrap().accepted = base;
        accepts(&ruled(&record))
    };
    assert_eq!(added(Vec::new()), 1);
    assert_eq!(added(vec![five()]), 0);
    let wider = accept(vec![small()], within(Metric::P50, 0.06));
    assert_eq!(added(vec![wider]), 0, "narrower than before");
    let narrower = accept(vec![small()], within(Metric::P50, 0.04));
    assert_eq!(added(vec![narrower]), 1);
    let until = "2026-11-20".to_owned();
    assert_eq!(added(vec![Acceptance { until, ..five() }]), 1, "for longer");
    let words = |case: &str, subjects| Acceptance {
        case: case.into(),
        subjects,
        ..five()
    };
    assert_eq!(
        added(vec![words("k/*", vec![small()])]),
        0,
        "in other words"
    );
    let others = vec![case("fast", "large")];
    assert_eq!(added(vec![words("k/*", others)]), 1, "of another case");
}

/// Verdicts that head accepts more than base.
fn accepts(judgement: &Judgement) -> usize {
    let verdicts = judgement.verdicts.iter();
    let accepts = |verdict: &&Verdict| {
        verdict.outcome == Outcome::Fail
            && matches!(&verdict.reason, Reason::Loosened(how) if matches!(**how, Loosened::Accepts { .. }))
    };
    verdicts.filter(accepts).count()
}

#[test]
fn compares_records_with_the_acceptances_of_head() {
    let head = with(slower(), five());
    let judgement = compare(&record(), &head, Loosening::Fails);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    assert_eq!((judgement.accepted.len(), accepts(&judgement)), (1, 1));
    let allowed = compare(&record(), &head, Loosening::Allowed);
    assert_eq!(allowed.conclusion, Conclusion::Pass);
    // Against a base that is as slow it is not needed, and may be against the baseline.
    let same = compare(&head, &head, Loosening::Fails);
    assert_eq!(same.conclusion, Conclusion::Pass);
    assert_eq!((same.accepted.len(), same.notes.len()), (0, 0));
}
