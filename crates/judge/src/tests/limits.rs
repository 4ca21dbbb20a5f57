use super::*;
use model::expr::{EvalError, Name};

fn with(rule: Rule, subject: Subject) -> Record {
    let mut record = record();
    // The other gates stay: whether a case is proven right follows from them.
    record.policy.gates.push(gate(subject, rule));
    record
}

fn last(record: &Record) -> Verdict {
    ruled(record).verdicts.pop().unwrap()
}

/// More than a limit, with no element to name.
fn beyond(metric: Metric, value: f64, bound: f64) -> Reason {
    Reason::BeyondLimit {
        metric,
        value: Num(value),
        op: Op::Le,
        bound: Num(bound),
        worst: None,
    }
}

/// A figure of a baseline, without a spread.
fn agreed(value: f64) -> Agreed {
    Agreed {
        value: Num(value),
        spread: None,
        processes: None,
        sessions: None,
    }
}

/// Changes the value of the resources in the baseline of `direct`.
fn agree(record: &mut Record, metric: Metric, value: f64) {
    let cases = &mut record.policy.baselines[0].cases;
    let figures = cases.get_mut("*").unwrap();
    figures.insert(metric, agreed(value));
}

/// One figure that repeats exactly against the baseline's.
fn exact(metric: Metric, was: f64, now: f64, allowed: f64) -> Box<Comparison> {
    let change = match was {
        0.0 => f64::INFINITY,
        _ => (now - was) / was,
    };
    Box::new(Comparison {
        metric,
        against: Against::Baseline,
        was: Some(Num(was)),
        now: Some(Num(now)),
        change: Num(change),
        interval: None,
        allowed: Margin::Share(Num(allowed)),
        sessions: None,
        processes: None,
    })
}

#[test]
fn every_resource_has_a_value_and_a_limit_that_breaks() {
    for (metric, bound, value) in [
        (Metric::Registers, 95.0, 96.0),
        (Metric::Shared, 5119.0, 5120.0),
        (Metric::Stack, 127.0, 128.0),
        (Metric::Spills, 59.0, 60.0),
        (Metric::BlocksPerSm, 4.0, 5.0),
        (Metric::Occupancy, 0.25, 0.3125),
    ] {
        let mut record = with(at_most(metric, bound), unit("direct"));
        rebuild(&mut record, "direct", |facts| {
            let resources = facts.entries[0].resources.as_mut().unwrap();
            (
                resources.stack,
                resources.spill_stores,
                resources.spill_loads,
            ) = (Some(128), Some(20), Some(40));
        });
        let verdict = last(&record);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Fail, beyond(metric, value, bound))
        );
        let mut held = record.clone();
        held.policy.gates.pop();
        held.policy
            .gates
            .push(gate(unit("direct"), at_most(metric, bound + 1.0)));
        assert_eq!(last(&held).outcome, Outcome::Pass, "{metric}");
    }
}

#[test]
fn shared_memory_is_the_worst_launch() {
    let mut record = with(at_most(Metric::Shared, 48.0 * 1024.0), unit("direct"));
    let launch = &mut record.plan.cases[1].steps[0].launch;
    launch.as_mut().unwrap().dynamic_shared = 48 * 1024;
    assert_eq!(
        last(&record).reason,
        beyond(Metric::Shared, 52.0 * 1024.0, 48.0 * 1024.0)
    );
}

/// `direct` as a sequence of two kernels: the second has more registers and a smaller launch.
fn sequence(record: &mut Record) {
    for case in record.plan.cases.iter_mut().take(2) {
        let mut second = case.steps[0].clone();
        second.launch.as_mut().unwrap().block = [64, 1, 1];
        second.launch.as_mut().unwrap().dynamic_shared = 0;
        case.steps.push(second);
    }
    rebuild(record, "direct", |facts| {
        let mut second = facts.entries[0].clone();
        second.resources.as_mut().unwrap().registers = 200;
        second.resources.as_mut().unwrap().static_shared = 0;
        facts.entries.push(second);
    });
}

#[test]
fn the_worst_step_of_a_sequence_counts() {
    for (metric, bound, value) in [
        (Metric::Registers, 199.0, 200.0),
        // That of the first step, with its own launch.
        (Metric::Shared, 5119.0, 5120.0),
        (Metric::BlocksPerSm, 3.0, 4.0),
        // 4 blocks of 2 warps, of 64: not 200 registers with blocks of 4 warps.
        (Metric::Occupancy, 0.12, 0.125),
    ] {
        let mut record = with(at_most(metric, bound), unit("direct"));
        sequence(&mut record);
        let verdict = last(&record);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Fail, beyond(metric, value, bound))
        );
    }
    // Facts of one entry say nothing of two steps.
    let mut record = with(at_most(Metric::Shared, 1e6), unit("direct"));
    sequence(&mut record);
    rebuild(&mut record, "direct", |facts| facts.entries.truncate(1));
    let verdict = last(&record);
    assert_eq!(
        (verdict.outcome, verdict.reason),
        (
            Outcome::Inconclusive,
            Reason::EntriesDiffer {
                declared: 2,
                reported: 1
            }
        )
    );
}

#[test]
fn the_worst_seed_decides_and_nan_is_not_swallowed() {
    let small = case_id("direct", "small");
    let mut record = record();
    recheck(&mut record, &small, |seed, facts| {
        facts.error.max_err = Num(if seed == 2 { 0.005 } else { 0.001 });
    });
    expect(
        &record,
        &case("direct", "small"),
        err_limit(),
        Outcome::Fail,
        Reason::BeyondLimit {
            metric: Metric::MaxErr,
            value: Num(0.005),
            op: Op::Le,
            bound: Num(0.004),
            worst: Some((2, check_facts().error.worst.unwrap())),
        },
    );
    recheck(&mut record, &small, |seed, facts| {
        facts.error.max_err = Num(if seed == 1 { f64::NAN } else { 0.001 });
    });
    expect(
        &record,
        &case("direct", "small"),
        err_limit(),
        Outcome::Fail,
        Reason::NotANumber {
            metric: Metric::MaxErr,
            because: None,
        },
    );
}

#[test]
fn metrics_that_the_case_does_not_have() {
    let record = with(
        at_most(Metric::OriginalMaxErr, 1.0),
        case("direct", "small"),
    );
    assert_eq!(last(&record).reason, Reason::NoCodec);
    assert_eq!(last(&record).outcome, Outcome::Unsupported);
    let record = with(at_most(Metric::P50, 1.0), unit("direct"));
    assert_eq!(last(&record).outcome, Outcome::Inconclusive);
    let metric = Some(Metric::P50);
    assert_eq!(last(&record).reason, Reason::Misplaced { metric });
}

#[test]
fn figures_that_repeat_exactly_are_compared_exactly() {
    let mut record = record();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 97
    });
    expect(
        &record,
        &unit("direct"),
        registers_change(),
        Outcome::Fail,
        Reason::BeyondChange(exact(Metric::Registers, 96.0, 97.0, 0.0)),
    );
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 95
    });
    // Where the driver disagreed, its cases would fail, and what fails has nothing better.
    let is_driver = |piece: &Evidence| matches!(piece, Evidence::Driver { .. });
    record.evidence.retain(|piece| !is_driver(piece));
    assert_eq!(
        verdict(&record, &unit("direct"), registers_change()).outcome,
        Outcome::Pass
    );
    let judgement = ruled(&record);
    assert_eq!(judgement.wins.len(), 1);
    assert_eq!(
        (judgement.wins[0].measured, judgement.wins[0].baseline),
        (Num(95.0), Num(96.0))
    );
}

#[test]
fn fewer_blocks_per_sm_is_the_regression() {
    let mut record = with(within(Metric::BlocksPerSm, 0.1), unit("direct"));
    agree(&mut record, Metric::BlocksPerSm, 6.0);
    let verdict = last(&record);
    assert_eq!(verdict.metric(), Some(Metric::BlocksPerSm));
    assert_eq!(
        (verdict.outcome, verdict.reason),
        (
            Outcome::Fail,
            Reason::BeyondChange(exact(Metric::BlocksPerSm, 6.0, 5.0, 0.1))
        )
    );
    agree(&mut record, Metric::BlocksPerSm, 4.0);
    assert_eq!(last(&record).outcome, Outcome::Pass);
    assert_eq!(ruled(&record).wins.len(), 1);
}

#[test]
fn an_amount_is_by_how_many_a_value_may_be_worse() {
    use Outcome::{Fail, Pass};
    // `direct` has 96 registers, no spills, and 5 blocks fit on an SM.
    for (metric, amount, was, outcome) in [
        (Metric::Registers, 0, 96.0, Pass),
        (Metric::Registers, 0, 95.0, Fail),
        (Metric::Registers, 2, 94.0, Pass),
        (Metric::Registers, 2, 93.0, Fail),
        (Metric::BlocksPerSm, 1, 6.0, Pass),
        (Metric::BlocksPerSm, 1, 7.0, Fail),
    ] {
        let mut record = with(within_amount(metric, amount), unit("direct"));
        agree(&mut record, metric, was);
        let verdict = last(&record);
        let now = verdict.measured.unwrap().0;
        let mut comparison = exact(metric, was, now, 0.0);
        comparison.allowed = Margin::Amount { amount };
        comparison.change = Num((now - was) / was);
        let reason = match outcome {
            Fail => Reason::BeyondChange(comparison),
            _ => Reason::WithinChange(comparison),
        };
        assert_eq!((verdict.outcome, verdict.reason), (outcome, reason));
        let worst = if metric.larger_is_better() {
            was - amount as f64
        } else {
            was + amount as f64
        };
        assert_eq!(verdict.limit, Some(Num(worst)));
        assert_eq!(ruled(&record).wins.len(), 0);
    }
    // A rise from nothing is no share of it, and has a size all the same.
    let mut record = with(within_amount(Metric::Stack, 128), unit("direct"));
    let stack = |record: &mut Record, bytes| {
        rebuild(record, "direct", |facts| {
            facts.entries[0].resources.as_mut().unwrap().stack = Some(bytes);
        });
    };
    agree(&mut record, Metric::Stack, 0.0);
    stack(&mut record, 128);
    assert_eq!(last(&record).outcome, Pass);
    stack(&mut record, 129);
    assert_eq!(last(&record).outcome, Fail);
    // Better than by the same amount is a win.
    let mut record = with(within_amount(Metric::Registers, 2), unit("direct"));
    record
        .policy
        .gates
        .retain(|gate| gate.rule != registers_change());
    agree(&mut record, Metric::Registers, 98.0);
    assert_eq!(ruled(&record).wins.len(), 0);
    agree(&mut record, Metric::Registers, 99.0);
    assert_eq!(ruled(&record).wins.len(), 1);
}

#[test]
fn an_amount_limits_no_value_that_varies() {
    let case = case("direct", "small");
    for metric in [Metric::P50, Metric::Cycles, Metric::MaxErr] {
        let verdict = last(&with(within_amount(metric, 5), case.clone()));
        let allowed = Margin::Amount { amount: 5 };
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Inconclusive, Reason::BadChange { allowed }),
            "{metric}"
        );
    }
}

/// A value that a cubin does not have is no zero.
#[test]
fn a_figure_that_is_unknown_is_unsupported() {
    for metric in [Metric::Stack, Metric::Spills] {
        let mut record = with(at_most(metric, 1e6), unit("direct"));
        rebuild(&mut record, "direct", |facts| {
            let resources = facts.entries[0].resources.as_mut().unwrap();
            (resources.stack, resources.spill_loads) = (None, None);
        });
        let verdict = last(&record);
        let unknown = Reason::Unsupported(Unsupported::NotInCubin);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Unsupported, unknown)
        );
    }
}

/// PTX that no assembler took has no resources, and none is 0.
#[test]
fn resources_of_ptx_that_is_too_new_are_unsupported() {
    for metric in [
        Metric::Registers,
        Metric::Stack,
        Metric::Spills,
        Metric::Shared,
        Metric::BlocksPerSm,
        Metric::Occupancy,
    ] {
        let mut record = with(at_most(metric, 1e6), unit("direct"));
        rebuild(&mut record, "direct", |facts| {
            facts.entries[0].resources = None;
        });
        let verdict = last(&record);
        let unknown = Reason::Unsupported(Unsupported::NewerPtx);
        assert_eq!(
            (verdict.outcome, verdict.reason),
            (Outcome::Unsupported, unknown),
            "{metric:?}"
        );
    }
}

#[test]
fn a_rise_from_zero_is_a_regression_and_zero_after_zero_is_none() {
    let mut record = with(within(Metric::Spills, 0.5), unit("direct"));
    agree(&mut record, Metric::Spills, 0.0);
    assert_eq!(
        (last(&record).outcome, last(&record).change),
        (Outcome::Pass, Some(Num(0.0)))
    );
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().spill_loads = Some(4)
    });
    assert_eq!(
        last(&record).reason,
        Reason::BeyondChange(exact(Metric::Spills, 0.0, 4.0, 0.5))
    );
    assert_eq!(last(&record).outcome, Outcome::Fail);
}

#[test]
fn new_is_said_and_does_not_pass() {
    let mut record = record();
    record.policy.baselines.clear();
    expect(
        &record,
        &unit("direct"),
        registers_change(),
        Outcome::Skipped,
        Reason::New {
            metric: Metric::Registers,
            lacking: Lacking::File,
        },
    );
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.notes.len(), 2 + 4 + 4);
    assert!(judgement.notes.contains(&Note::New {
        subject: case("fast", "large"),
        facet: Facet::Times
    }));
}

#[test]
fn a_case_that_the_baseline_does_not_have_and_one_that_is_gone() {
    let mut record = record();
    expect(
        &with(within(Metric::MeanErr, 0.1), case("direct", "small")),
        &case("direct", "small"),
        within(Metric::MeanErr, 0.1),
        Outcome::Skipped,
        Reason::New {
            metric: Metric::MeanErr,
            lacking: Lacking::Metric,
        },
    );
    let cases = &mut record.policy.baselines[1].cases;
    let agreed = cases.remove("small").unwrap();
    cases.insert("tiny".into(), agreed);
    expect(
        &record,
        &case("direct", "small"),
        err_change(),
        Outcome::Skipped,
        Reason::New {
            metric: Metric::MaxErr,
            lacking: Lacking::Case,
        },
    );
    let gone = Note::Gone {
        kernel: "k".into(),
        variant: "direct".into(),
        shape: "tiny".into(),
        facet: Facet::Correctness,
    };
    assert!(ruled(&record).notes.contains(&gone));
    record.plan.left_out.insert("k".into());
    assert!(
        !ruled(&record).notes.contains(&gone),
        "a filtered run cannot know"
    );
}

#[test]
fn under_another_key_nothing_is_compared() {
    type Change = fn(&mut Environment);
    type Gated = (Subject, Rule);
    let p50 = || (case("direct", "small"), p50_change());
    let changes: [(Change, Gated, KeyField, [&str; 2]); 3] = [
        (
            |environment| {
                if let Seen::Got(compiler) = &mut environment.compiler {
                    compiler.version = "13.1.0".into();
                }
            },
            (unit("direct"), registers_change()),
            KeyField::Compiler,
            ["13.0.88", "13.1.0"],
        ),
        (
            |environment| {
                if let Seen::Got(device) = &mut environment.device {
                    device.driver = "590.1".into();
                }
            },
            p50(),
            KeyField::DriverBranch,
            ["580", "590"],
        ),
        (
            |environment| environment.timing_protocol += 1,
            p50(),
            KeyField::TimingProtocol,
            ["1", "2"],
        ),
    ];
    for (change, (subject, rule), field, values) in changes {
        let mut record = record();
        change(&mut record.environment);
        let [theirs, here] = values.map(str::to_owned);
        let differences = vec![KeyDifference {
            field,
            theirs,
            here,
        }];
        expect(
            &record,
            &subject,
            rule,
            Outcome::Inconclusive,
            Reason::OtherKey {
                differences,
                gpus: Vec::new(),
            },
        );
        assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);
    }
}

#[test]
fn a_broken_baseline_is_no_missing_one() {
    let path = || "baselines/k/direct/resources-x.json".to_owned();
    let problem = || "1:30: it ends in the middle".to_owned();
    let unreadable = || Reason::BaselineUnreadable {
        path: path(),
        problem: problem(),
    };
    let mut record = record();
    record.policy.baselines.clear();
    record.policy.broken_baselines.push(BrokenBaseline {
        path: path(),
        kernel: "k".into(),
        variant: "direct".into(),
        facet: Some(Facet::Resources),
        problem: problem(),
    });
    expect(
        &record,
        &unit("direct"),
        registers_change(),
        Outcome::Fail,
        unreadable(),
    );
    assert_eq!(
        verdict(&record, &unit("fast"), registers_change()).outcome,
        Outcome::Skipped
    );
    let small = case("direct", "small");
    assert_eq!(
        verdict(&record, &small, p50_change()).outcome,
        Outcome::Skipped
    );
    let note = Note::Broken {
        path: path(),
        problem: problem(),
    };
    assert!(!ruled(&record).notes.contains(&note));
    record.policy.broken_baselines[0].facet = None;
    assert_eq!(
        verdict(&record, &small, p50_change()).outcome,
        Outcome::Fail
    );

    // Whether or not a gate needs it.
    record.policy.gates.retain(|gate| gate.rule == Rule::Built);
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let of_files: Vec<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.question == Question::Baseline)
        .map(|verdict| (&verdict.subject, verdict.outcome, &verdict.reason))
        .collect();
    assert_eq!(of_files, [(&unit("direct"), Outcome::Fail, &unreadable())]);
    // One of a variant that this run is not about is said, and no more.
    record.policy.broken_baselines[0].variant = "other".into();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert!(judgement.notes.contains(&note));
}

#[test]
fn figures_of_a_baseline_that_mean_nothing() {
    let bad_spread = |value, spread| FigureProblem::BadSpread {
        value: Num(value),
        spread: Num(spread),
        processes: 3,
    };
    for (value, spread, problem) in [
        (
            f64::NAN,
            Some(0.001),
            FigureProblem::NotFinite(Num(f64::NAN)),
        ),
        (
            f64::INFINITY,
            Some(0.001),
            FigureProblem::NotFinite(Num(f64::INFINITY)),
        ),
        (-1.0, Some(0.001), FigureProblem::OutOfRange(Num(-1.0))),
        (1e5, None, FigureProblem::NoSpread),
        (1e5, Some(f64::NAN), bad_spread(1e5, f64::NAN)),
        (0.0, Some(0.1), bad_spread(0.0, 0.1)),
    ] {
        let mut record = record();
        let agreed = Agreed {
            spread: spread.map(Num),
            processes: spread.map(|_| 3),
            ..agreed(value)
        };
        record.policy.baselines[2]
            .cases
            .get_mut("small")
            .unwrap()
            .insert(Metric::P50, agreed);
        expect(
            &record,
            &case("direct", "small"),
            p50_change(),
            Outcome::Fail,
            Reason::BaselineUnusable {
                of: Against::Baseline,
                metric: Metric::P50,
                problem,
            },
        );
    }
}

#[test]
fn two_baselines_under_one_key() {
    let mut record = record();
    let again = record.policy.baselines[0].clone();
    record.policy.baselines.push(again);
    let date = "2026-11-20T00:00:00Z";
    expect(
        &record,
        &unit("direct"),
        registers_change(),
        Outcome::Inconclusive,
        Reason::TwoBaselines {
            dates: [date, date].map(str::to_owned),
        },
    );
}

fn ratio(text: &str) -> Rule {
    Rule::Limit {
        metric: Metric::P50,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr(text)),
        },
    }
}

#[test]
fn a_limit_relative_to_a_sibling() {
    let held = with(ratio("0.90 * direct.p50"), case("fast", "small"));
    assert_eq!(last(&held).outcome, Outcome::Pass);
    let broken = with(ratio("0.70 * direct.p50"), case("fast", "small"));
    let verdict = last(&broken);
    assert_eq!(verdict.outcome, Outcome::Fail);
    let Reason::BeyondLimit {
        metric,
        value,
        op,
        bound,
        worst: None,
    } = verdict.reason
    else {
        panic!("{:?}", verdict.reason)
    };
    assert_eq!((metric, op), (Metric::P50, Op::Le));
    assert!((value.0 - 80_000.0).abs() < 10.0, "{value}");
    assert!((bound.0 - 70_000.0).abs() < 10.0, "{bound}");
}

#[test]
fn a_sibling_that_is_not_known_leaves_the_limit_unknown() {
    let mut record = with(ratio("0.90 * direct.p50"), case("fast", "small"));
    record.evidence.retain(|piece| !matches!(piece, Evidence::Time { case, .. } if *case == case_id("direct", "small")));
    assert_eq!(last(&record).outcome, Outcome::Inconclusive);
    let unknown = |why| Reason::OperandUnknown {
        name: "direct.p50".into(),
        why: Box::new(why),
    };
    let missing = Reason::EvidenceMissing(Piece::Timing(case_id("direct", "small")));
    assert_eq!(last(&record).reason, unknown(missing));

    let mut selected = with(ratio("0.90 * direct.p50"), case("fast", "small"));
    selected.plan.left_out.insert("k".into());
    selected.plan.cases.remove(0);
    let what = "k/direct@small".to_owned();
    assert_eq!(
        last(&selected).reason,
        unknown(Reason::NotSelected { what })
    );
    assert_eq!(last(&selected).outcome, Outcome::Skipped);
}

#[test]
fn conditions() {
    let cond = |text: &str, subject| with(Rule::Condition { expr: expr(text) }, subject);
    let broken = cond("registers <= 64 || occupancy >= 0.5", unit("direct"));
    assert_eq!(last(&broken).outcome, Outcome::Fail);
    let operand = |metric: Metric, value| Operand {
        name: metric.to_string(),
        metric: Some(metric),
        value: Num(value),
    };
    let operands = vec![
        operand(Metric::Occupancy, 0.3125),
        operand(Metric::Registers, 96.0),
    ];
    assert_eq!(last(&broken).reason, Reason::ConditionBroken { operands });
    assert_eq!(
        last(&cond("registers <= 96 || occupancy >= 0.5", unit("direct"))).outcome,
        Outcome::Pass
    );
    let broken = last(&cond("registers <= N", unit("direct")));
    assert_eq!(broken.outcome, Outcome::Fail);
    let constant = Operand {
        name: "N".into(),
        metric: None,
        value: Num(64.0),
    };
    let operands = vec![constant, operand(Metric::Registers, 96.0)];
    assert_eq!(broken.reason, Reason::ConditionBroken { operands });

    // Never true by short circuit.
    let unknown = cond(
        "registers <= 96 || original_max_err < 1",
        case("direct", "small"),
    );
    assert_eq!(last(&unknown).outcome, Outcome::Unsupported);
    for (text, code) in [
        ("registers <=", "unparsed"),
        ("registers <= nonsense", "unknown-name"),
        ("registers + 1", "unevaluated"),
    ] {
        let verdict = last(&cond(text, unit("direct")));
        assert_eq!(
            (verdict.outcome, verdict.reason.code()),
            (Outcome::Inconclusive, code)
        );
    }

    let mut nan = cond("registers <= 96 || max_err < 1", case("direct", "small"));
    recheck(&mut nan, &case_id("direct", "small"), |_, facts| {
        facts.error.max_err = Num(f64::NAN)
    });
    assert_eq!(last(&nan).outcome, Outcome::Fail);
    let text = "registers <= 96 || max_err < 1".to_owned();
    let problem = EvalError::NonFinite(Name::Plain("max_err".into()));
    assert_eq!(last(&nan).reason, Reason::Unevaluated { text, problem });

    let mut blind = cond("p50 <= 1e9", case("direct", "small"));
    blind.environment.device = no_gpu();
    blind
        .evidence
        .retain(|piece| matches!(piece, Evidence::Build { .. }));
    assert_eq!(last(&blind).outcome, Outcome::Skipped);
}

#[test]
fn correctness_cannot_depend_on_times() {
    let circular = Rule::Limit {
        metric: Metric::MaxErr,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr("p50")),
        },
    };
    let record = with(circular, case("direct", "small"));
    let (text, metric) = ("p50".to_owned(), Metric::P50);
    assert_eq!(
        last(&record).reason,
        Reason::TimeInCorrectness { text, metric }
    );
}
