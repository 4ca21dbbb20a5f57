use super::*;

fn with(rule: Rule, subject: Subject) -> Record {
    let mut record = record();
    // The other gates stay: whether a case is proven right follows from them.
    record.policy.gates.push(gate(subject, rule));
    record
}

fn last(record: &Record) -> Verdict {
    ruled(record).verdicts.pop().unwrap()
}

#[test]
fn every_resource_has_a_value_and_a_limit_that_breaks() {
    for (metric, bound, reason) in [
        (
            Metric::Registers,
            95.0,
            "registers is 96, and has to be <= 95",
        ),
        (
            Metric::Shared,
            5119.0,
            "shared is 5 KiB, and has to be <= 5119 B",
        ),
        (
            Metric::Stack,
            127.0,
            "stack is 128 B, and has to be <= 127 B",
        ),
        (
            Metric::Spills,
            59.0,
            "spills is 60 B, and has to be <= 59 B",
        ),
        (
            Metric::BlocksPerSm,
            4.0,
            "blocks_per_sm is 5, and has to be <= 4",
        ),
        (
            Metric::Occupancy,
            0.25,
            "occupancy is 31.25 %, and has to be <= 25 %",
        ),
    ] {
        let mut record = with(at_most(metric, bound), unit("direct"));
        rebuild(&mut record, "direct", |facts| {
            let resources = &mut facts.entries[0].resources;
            (
                resources.stack,
                resources.spill_stores,
                resources.spill_loads,
            ) = (128, 20, 40);
        });
        let verdict = last(&record);
        assert_eq!(
            (verdict.outcome, verdict.reason.as_str()),
            (Outcome::Fail, reason)
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
    record.plan.cases[1].launch.as_mut().unwrap().dynamic_shared = 48 * 1024;
    assert_eq!(
        last(&record).reason,
        "shared is 52 KiB, and has to be <= 48 KiB"
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
        "max_err <= 0.004",
        Outcome::Fail,
        "max_err is 0.005, and has to be <= 0.004; out[0, 3, 17] = 0.501, want 0.5 with seed 2",
    );
    recheck(&mut record, &small, |seed, facts| {
        facts.error.max_err = Num(if seed == 1 { f64::NAN } else { 0.001 });
    });
    expect(
        &record,
        &case("direct", "small"),
        "max_err <= 0.004",
        Outcome::Fail,
        "max_err is NaN: it cannot be compared",
    );
}

#[test]
fn metrics_that_the_case_does_not_have() {
    let record = with(
        at_most(Metric::OriginalMaxErr, 1.0),
        case("direct", "small"),
    );
    assert_eq!(last(&record).reason, "no input of this case has a codec");
    assert_eq!(last(&record).outcome, Outcome::Unsupported);
    let record = with(at_most(Metric::P50, 1.0), unit("direct"));
    assert_eq!(last(&record).outcome, Outcome::Inconclusive);
}

#[test]
fn figures_that_repeat_exactly_are_compared_exactly() {
    let mut record = record();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.registers = 97
    });
    expect(
        &record,
        &unit("direct"),
        "registers +0%",
        Outcome::Fail,
        "1.0 % more against the baseline; no worse is agreed",
    );
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.registers = 95
    });
    assert_eq!(
        verdict(&record, &unit("direct"), "registers +0%").outcome,
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
    record.policy.baselines[0]
        .cases
        .get_mut("*")
        .unwrap()
        .insert(
            Metric::BlocksPerSm,
            Agreed {
                value: Num(6.0),
                spread: None,
                processes: None,
                sessions: None,
            },
        );
    let verdict = last(&record);
    assert_eq!(
        (verdict.gate.as_str(), verdict.outcome),
        ("blocks_per_sm -10%", Outcome::Fail)
    );
    assert_eq!(
        verdict.reason,
        "16.7 % less against the baseline; at most 10.0 % less is agreed"
    );
    record.policy.baselines[0]
        .cases
        .get_mut("*")
        .unwrap()
        .insert(
            Metric::BlocksPerSm,
            Agreed {
                value: Num(4.0),
                spread: None,
                processes: None,
                sessions: None,
            },
        );
    assert_eq!(last(&record).outcome, Outcome::Pass);
    assert_eq!(ruled(&record).wins.len(), 1);
}

#[test]
fn a_rise_from_zero_is_a_regression_and_zero_after_zero_is_none() {
    let mut record = with(within(Metric::Spills, 0.5), unit("direct"));
    let agreed = Agreed {
        value: Num(0.0),
        spread: None,
        processes: None,
        sessions: None,
    };
    record.policy.baselines[0]
        .cases
        .get_mut("*")
        .unwrap()
        .insert(Metric::Spills, agreed);
    assert_eq!(
        (last(&record).outcome, last(&record).change),
        (Outcome::Pass, Some(Num(0.0)))
    );
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.spill_loads = 4
    });
    assert_eq!(
        last(&record).reason,
        "more, from 0 against the baseline; at most 50.0 % more is agreed"
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
        "registers +0%",
        Outcome::Skipped,
        "new: no baseline yet; accept it with `gatekeeper baseline update 'k/direct'`",
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
    let cases = &mut record.policy.baselines[1].cases;
    let agreed = cases.remove("small").unwrap();
    cases.insert("tiny".into(), agreed);
    expect(
        &record,
        &case("direct", "small"),
        "max_err +10%",
        Outcome::Skipped,
        "new: a case that the baseline of k/direct does not have yet; accept it with `gatekeeper baseline update 'k/direct@small'`",
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
    let mut record = record();
    let Seen::Got(compiler) = &mut record.environment.compiler else {
        unreachable!()
    };
    compiler.version = "13.1.0".into();
    expect(
        &record,
        &unit("direct"),
        "registers +0%",
        Outcome::Inconclusive,
        "the baseline holds under another key (compiler `13.0.88`, here `13.1.0`); measure here and run `gatekeeper baseline update 'k/direct'`",
    );

    let mut record = super::record();
    let Seen::Got(device) = &mut record.environment.device else {
        unreachable!()
    };
    device.driver = "590.1".into();
    expect(
        &record,
        &case("direct", "small"),
        "p50 +2%",
        Outcome::Inconclusive,
        "the baseline holds under another key (driver branch `580`, here `590`); measure here and run `gatekeeper baseline update 'k/direct@small'`",
    );
    assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);

    let mut record = super::record();
    record.environment.timing_protocol += 1;
    assert!(
        verdict(&record, &case("direct", "small"), "p50 +2%")
            .reason
            .contains("timing protocol `1`, here `2`")
    );
}

#[test]
fn a_broken_baseline_is_no_missing_one() {
    let mut record = record();
    record.policy.baselines.clear();
    record.policy.broken_baselines.push(BrokenBaseline {
        path: "baselines/k/direct/resources-x.json".into(),
        kernel: "k".into(),
        variant: "direct".into(),
        facet: Some(Facet::Resources),
        problem: "1:30: it ends in the middle".into(),
    });
    expect(
        &record,
        &unit("direct"),
        "registers +0%",
        Outcome::Fail,
        "the baseline baselines/k/direct/resources-x.json cannot be used: 1:30: it ends in the middle; restore it, or remove it and run `gatekeeper baseline update 'k/direct'`",
    );
    assert_eq!(
        verdict(&record, &unit("fast"), "registers +0%").outcome,
        Outcome::Skipped
    );
    assert_eq!(
        verdict(&record, &case("direct", "small"), "p50 +2%").outcome,
        Outcome::Skipped
    );
    let note = Note::Broken {
        path: "baselines/k/direct/resources-x.json".into(),
        problem: "1:30: it ends in the middle".into(),
    };
    assert!(!ruled(&record).notes.contains(&note));
    record.policy.broken_baselines[0].facet = None;
    assert_eq!(
        verdict(&record, &case("direct", "small"), "p50 +2%").outcome,
        Outcome::Fail
    );

    // Whether or not a gate needs it.
    record.policy.gates.retain(|gate| gate.rule == Rule::Built);
    assert_eq!(ruled(&record).conclusion, Conclusion::Fail);
    expect(
        &record,
        &unit("direct"),
        "baseline can be used",
        Outcome::Fail,
        "the baseline baselines/k/direct/resources-x.json cannot be used: 1:30: it ends in the middle; restore it, or remove it and run `gatekeeper baseline update 'k/direct'`",
    );
    // One of a variant that this run is not about is said, and no more.
    record.policy.broken_baselines[0].variant = "other".into();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert!(judgement.notes.contains(&note));
}

#[test]
fn figures_of_a_baseline_that_mean_nothing() {
    for (value, spread, processes, reason) in [
        (
            f64::NAN,
            Some(0.001),
            Some(3),
            "the baseline's p50 is NaN; it has to be agreed again",
        ),
        (
            f64::INFINITY,
            Some(0.001),
            Some(3),
            "the baseline's p50 is inf; it has to be agreed again",
        ),
        (
            -1.0,
            Some(0.001),
            Some(3),
            "the baseline's p50 is below zero: -1; it has to be agreed again",
        ),
        (
            1e5,
            None,
            None,
            "the baseline's p50 rests on one process and has no spread; time it in two or more; it has to be agreed again",
        ),
        (
            1e5,
            Some(f64::NAN),
            Some(3),
            "the baseline's p50 is 100000 with a spread of NaN over 3 processes, and no interval follows from that; it has to be agreed again",
        ),
        (
            0.0,
            Some(0.1),
            Some(3),
            "the baseline's p50 is 0 with a spread of 0.1 over 3 processes, and no interval follows from that; it has to be agreed again",
        ),
    ] {
        let mut record = record();
        let agreed = Agreed {
            value: Num(value),
            spread: spread.map(Num),
            processes,
            sessions: None,
        };
        record.policy.baselines[2]
            .cases
            .get_mut("small")
            .unwrap()
            .insert(Metric::P50, agreed);
        expect(
            &record,
            &case("direct", "small"),
            "p50 +2%",
            Outcome::Fail,
            reason,
        );
    }
}

#[test]
fn two_baselines_under_one_key() {
    let mut record = record();
    let again = record.policy.baselines[0].clone();
    record.policy.baselines.push(again);
    let verdict = verdict(&record, &unit("direct"), "registers +0%");
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
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
    assert_eq!(verdict.reason, "p50 is 80 us, and has to be <= 70 us");
    assert_eq!(verdict.gate, "p50 <= 0.70 * direct.p50");
}

#[test]
fn a_sibling_that_is_not_known_leaves_the_limit_unknown() {
    let mut record = with(ratio("0.90 * direct.p50"), case("fast", "small"));
    record.evidence.retain(|piece| !matches!(piece, Evidence::Time { case, .. } if *case == case_id("direct", "small")));
    assert_eq!(last(&record).outcome, Outcome::Inconclusive);
    assert_eq!(
        last(&record).reason,
        "direct.p50 is unknown: no evidence of a timing of k/direct@small"
    );

    let mut selected = with(ratio("0.90 * direct.p50"), case("fast", "small"));
    selected.plan.left_out.insert("k".into());
    selected.plan.cases.remove(0);
    assert_eq!(
        last(&selected).reason,
        "direct.p50 is unknown: k/direct@small was not selected for this run"
    );
    assert_eq!(last(&selected).outcome, Outcome::Skipped);
}

#[test]
fn conditions() {
    let cond = |text: &str, subject| with(Rule::Condition { expr: expr(text) }, subject);
    let broken = cond("registers <= 64 || occupancy >= 0.5", unit("direct"));
    assert_eq!(last(&broken).outcome, Outcome::Fail);
    assert_eq!(
        last(&broken).reason,
        "does not hold for occupancy = 31.25 %, registers = 96"
    );
    assert_eq!(
        last(&cond("registers <= 96 || occupancy >= 0.5", unit("direct"))).outcome,
        Outcome::Pass
    );
    assert_eq!(
        last(&cond("registers <= N", unit("direct"))).outcome,
        Outcome::Fail
    );

    // Never true by short circuit.
    let unknown = cond(
        "registers <= 96 || original_max_err < 1",
        case("direct", "small"),
    );
    assert_eq!(last(&unknown).outcome, Outcome::Unsupported);
    for text in ["registers <=", "registers <= nonsense", "registers + 1"] {
        assert_eq!(
            last(&cond(text, unit("direct"))).outcome,
            Outcome::Inconclusive,
            "{text}"
        );
    }

    let mut nan = cond("registers <= 96 || max_err < 1", case("direct", "small"));
    recheck(&mut nan, &case_id("direct", "small"), |_, facts| {
        facts.error.max_err = Num(f64::NAN)
    });
    assert_eq!(last(&nan).outcome, Outcome::Fail);
    assert_eq!(
        last(&nan).reason,
        "`registers <= 96 || max_err < 1`: max_err is not finite"
    );

    let mut blind = cond("p50 <= 1e9", case("direct", "small"));
    blind.environment.device = no_gpu();
    blind
        .evidence
        .retain(|piece| matches!(piece, Evidence::Build { .. }));
    assert_eq!(last(&blind).outcome, Outcome::Skipped);
}

#[test]
fn what_is_right_cannot_depend_on_times() {
    let circular = Rule::Limit {
        metric: Metric::MaxErr,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr("p50")),
        },
    };
    let record = with(circular, case("direct", "small"));
    assert_eq!(
        last(&record).reason,
        "`p50`: a limit on correctness cannot depend on p50"
    );
}
