use super::*;

/// What `compare` says of gates that `head` no longer holds, against the run by hand.
fn said_of(base: &Record, head: &Record) -> Vec<String> {
    let judgement = compare(base, head, Loosening::Fails);
    let found: Vec<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.gate.starts_with("not loosened: "))
        .collect();
    assert!(found.iter().all(|verdict| verdict.outcome == Outcome::Fail));
    if !found.is_empty() {
        assert_eq!(judgement.conclusion, Conclusion::Fail);
    }
    let mut lines: Vec<_> = found
        .iter()
        .map(|verdict| {
            let gate = verdict.gate.trim_start_matches("not loosened: ");
            format!("{}: {gate}: {}", verdict.subject, verdict.reason)
        })
        .collect();
    lines.dedup();
    lines
}

/// The rule in the place of the one gate on `direct`'s unit or its small case.
fn with_rule(rule: Rule) -> Record {
    let mut record = record();
    let unit_or_case = match &rule {
        Rule::Limit { metric, .. } if metric.facet() != Facet::Resources => case("direct", "small"),
        _ => unit("direct"),
    };
    record
        .policy
        .gates
        .retain(|gate| gate.subject != unit_or_case || !matches!(gate.rule, Rule::Limit { .. }));
    record.policy.gates.push(gate(unit_or_case, rule));
    record
}

fn absolute(metric: Metric, op: Op, bound: Bound) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Absolute { op, bound },
    }
}

#[test]
fn nothing_is_loosened_by_no_change() {
    assert_eq!(said_of(&record(), &record()), [""; 0]);
}

#[test]
fn limits_by_their_values() {
    use Op::{Eq, Ge, Gt, Le, Lt};
    let value =
        |op, bound: f64| with_rule(absolute(Metric::Registers, op, Bound::Value(Num(bound))));
    for (base, head) in [
        ((Le, 32.0), (Le, 32.0)),
        ((Le, 32.0), (Le, 31.0)),
        ((Le, 32.0), (Lt, 32.0)),
        ((Le, 32.0), (Eq, 32.0)),
        ((Lt, 32.0), (Le, 31.0)),
        ((Ge, 0.5), (Ge, 0.75)),
        ((Ge, 0.5), (Gt, 0.5)),
        ((Gt, 0.5), (Ge, 0.75)),
        ((Ge, 0.5), (Eq, 0.5)),
        ((Eq, 0.5), (Eq, 0.5)),
    ] {
        let found = said_of(&value(base.0, base.1), &value(head.0, head.1));
        assert_eq!(found, [""; 0], "{base:?} {head:?}");
    }
    for (base, head, says) in [
        (
            (Le, 32.0),
            (Le, 64.0),
            "registers <= 32: the head allows 64",
        ),
        ((Lt, 32.0), (Le, 32.0), "registers < 32: the head allows 32"),
        (
            (Ge, 0.5),
            (Ge, 0.25),
            "registers >= 0.5: the head allows 0.25",
        ),
        ((Gt, 2.0), (Ge, 2.0), "registers > 2: the head allows 2"),
        ((Eq, 2.0), (Le, 2.0), "registers == 2: the head allows 2"),
        ((Le, 32.0), (Ge, 0.0), "registers <= 32: the head allows 0"),
        (
            (Le, 32.0),
            (Lt, 64.0),
            "registers <= 32: the head allows `registers < 64`",
        ),
        (
            (Le, 32.0),
            (Le, f64::NAN),
            "registers <= 32: the head allows NaN",
        ),
    ] {
        let found = said_of(&value(base.0, base.1), &value(head.0, head.1));
        assert_eq!(found, [format!("k/direct [sm_90]: {says}")]);
    }
}

#[test]
fn limits_on_a_baseline_by_their_change() {
    let p50 = |change| with_rule(within(Metric::P50, change));
    assert_eq!(said_of(&p50(0.02), &p50(0.01)), [""; 0]);
    assert_eq!(
        said_of(&p50(0.02), &p50(0.05)),
        ["k/direct@small: p50 +2%: the head allows `p50 +5%`"]
    );
    // One kind of limit is no substitute for the other.
    assert_eq!(
        said_of(&p50(0.02), &with_rule(at_most(Metric::P50, 1.0))),
        ["k/direct@small: p50 +2%: removed: the head asks nothing in its place"]
    );
}

#[test]
fn expressions_are_the_same_or_cannot_be_compared() {
    let of = |op, text: &str| absolute(Metric::Registers, op, Bound::Expr(expr(text)));
    let base = with_rule(of(Op::Le, "N / 2"));
    assert_eq!(said_of(&base, &with_rule(of(Op::Le, "N / 2"))), [""; 0]);
    assert_eq!(said_of(&base, &with_rule(of(Op::Lt, "N / 2"))), [""; 0]);
    for (head, says) in [
        (
            of(Op::Le, "N / 4"),
            "changed, and cannot be compared: the head asks `registers <= N / 4`",
        ),
        (
            at_most(Metric::Registers, 1.0),
            "changed, and cannot be compared: the head asks `registers <= 1`",
        ),
        (of(Op::Ge, "N / 2"), "the head allows `registers >= N / 2`"),
    ] {
        assert_eq!(
            said_of(&base, &with_rule(head)),
            [format!("k/direct [sm_90]: registers <= N / 2: {says}")]
        );
    }
    // The same words over another constant are another limit.
    let mut other = expr("N / 2");
    other.constants.insert("N".into(), Num(128.0));
    let head = with_rule(absolute(Metric::Registers, Op::Le, Bound::Expr(other)));
    assert_eq!(said_of(&base, &head).len(), 1);

    let condition = |text: &str| with_rule(Rule::Condition { expr: expr(text) });
    let base = condition("registers <= 64 || occupancy >= 0.5");
    assert_eq!(said_of(&base, &base), [""; 0]);
    assert_eq!(
        said_of(&base, &condition("registers <= 65 || occupancy >= 0.5")),
        [
            "k/direct [sm_90]: registers <= 64 || occupancy >= 0.5: changed, and cannot be compared: \
             the head asks `registers <= 65 || occupancy >= 0.5`"
        ]
    );
}

#[test]
fn what_is_gone_is_removed() {
    let mut head = record();
    head.policy
        .gates
        .retain(|gate| gate.subject != unit("direct") || gate.rule == Rule::Built);
    let nothing = "removed: the head asks nothing in its place";
    assert_eq!(
        said_of(&record(), &head),
        [
            format!("k/direct [sm_90]: has effect: {nothing}"),
            format!("k/direct [sm_90]: registers <= 128: {nothing}"),
            format!("k/direct [sm_90]: registers +0%: {nothing}"),
        ]
    );

    let mut head = record();
    head.plan
        .cases
        .retain(|at| at.id != case_id("fast", "large"));
    head.policy
        .gates
        .retain(|gate| gate.subject != case("fast", "large"));
    let found = said_of(&record(), &head);
    assert_eq!(found.len(), 9);
    assert!(
        found
            .iter()
            .all(|line| line.ends_with(": removed: the head has no k/fast@large"))
    );
    // A filter that left it out is no change.
    head.plan.left_out.insert("another".into());
    assert_eq!(said_of(&record(), &head).len(), 9);
    head.plan.left_out.insert("k".into());
    assert_eq!(said_of(&record(), &head), [""; 0]);
    // And no excuse for what is there.
    head.policy
        .gates
        .retain(|gate| gate.rule != Rule::Built || gate.subject != unit("fast"));
    assert_eq!(
        said_of(&record(), &head),
        [format!("k/fast [sm_90]: built: {nothing}")]
    );
}

#[test]
fn additions_are_fine() {
    let (mut base, head) = (record(), record());
    base.plan
        .cases
        .retain(|at| at.id != case_id("fast", "large"));
    base.policy.gates.retain(|gate| {
        gate.subject != case("fast", "large") && !matches!(gate.rule, Rule::Limit { .. })
    });
    for case in &mut base.plan.cases {
        case.seeds = vec![1];
        case.launches = 2;
        case.determinism = Determinism::Declared {
            reason: "atomics".into(),
        };
    }
    assert_eq!(said_of(&base, &head), [""; 0]);
}

#[test]
fn a_case_that_asks_less() {
    fn only(change: impl Fn(&mut Case)) -> Vec<String> {
        let mut head = record();
        let at = head
            .plan
            .cases
            .iter_mut()
            .find(|at| at.id == case_id("fast", "small"));
        change(at.unwrap());
        said_of(&record(), &head)
    }
    let says = |what: &str| [format!("k/fast@small: {what}")];
    assert_eq!(
        only(|case| case.seeds = vec![2]),
        says("seeds 1, 2: the head checks seeds 2")
    );
    assert_eq!(
        only(|case| case.launches = 2),
        says("8 launches of a seed: the head makes 2")
    );
    assert_eq!(
        only(|case| case.determinism = Determinism::Declared {
            reason: "atomics".into()
        }),
        says("bit for bit deterministic: the head declares it non-deterministic: atomics")
    );
    assert_eq!(
        only(|case| case.reference = Reference::Unary {
            x: "x".into(),
            out: "out".into(),
            op: Unary::Copy
        }),
        says("reference: changed, and cannot be compared")
    );
    assert_eq!(
        only(|case| {
            case.dims.insert("N".into(), 1);
        }),
        says("shape N = 64: under the same name the head has N = 1")
    );
    assert_eq!(
        only(|case| case.dims.clear()),
        says("shape N = 64: under the same name the head has no N")
    );
    assert_eq!(only(|case| case.seeds = vec![3, 2, 1]), [""; 0]);
    assert_eq!(only(|case| case.launches = 9), [""; 0]);
}

#[test]
fn inputs_of_other_values() {
    let input = |std: f64| Tensor {
        name: "x".into(),
        role: Role::In,
        elem: ElemType::F32,
        dims: vec![64],
        strides: None,
        fill: Some(Fill::Normal {
            mean: Num(0.0),
            std: Num(std),
        }),
        codec: None,
    };
    let with = |tensors: Vec<Tensor>| {
        let mut record = record();
        record.plan.cases[0].tensors = tensors;
        record
    };
    let base = with(vec![input(1.0)]);
    assert_eq!(said_of(&base, &base), [""; 0]);
    for head in [with(vec![input(0.0)]), with(Vec::new())] {
        assert_eq!(
            said_of(&base, &head),
            ["k/direct@small: values of input x: changed, and cannot be compared"]
        );
    }
}

#[test]
fn what_a_kernel_is_given_and_what_is_looked_at() {
    let tensor = |name: &str, role: Role| Tensor {
        name: name.into(),
        role,
        elem: ElemType::F32,
        dims: vec![64],
        strides: None,
        fill: None,
        codec: None,
    };
    let with = |change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut record = record();
        let case = &mut record.plan.cases[0];
        case.tensors = vec![
            tensor("x", Role::In),
            tensor("work", Role::Scratch),
            tensor("y", Role::Out),
        ];
        change(&mut case.tensors);
        record
    };
    let base = with(&|_| {});
    assert_eq!(said_of(&base, &base), [""; 0]);
    let only = |change: &dyn Fn(&mut Vec<Tensor>)| said_of(&base, &with(change));
    let says = |what: &str| [format!("k/direct@small: {what}")];
    // Nothing would be called unwritten any more, or nothing compared.
    assert_eq!(
        only(&|it| it[2].role = Role::Inout),
        says("y is `out`: the head has `inout`")
    );
    assert_eq!(
        only(&|it| it[2].role = Role::Scratch),
        says("y is `out`: the head has `scratch`")
    );
    assert_eq!(
        only(&|it| it[0].role = Role::Inout),
        says("x is `in`: the head has `inout`")
    );
    assert_eq!(
        only(&|it| it[2].dims = vec![1]),
        says("y is [64]: the head has [1]")
    );
    assert_eq!(
        only(&|it| it[2].elem = ElemType::F16),
        says("type of output y: changed, and cannot be compared")
    );
    assert_eq!(
        only(&|it| drop(it.pop())),
        says("type of output y: the head has no such output")
    );
    let scheme = CodecScheme::Affine { low: 0, high: 1 };
    let coded = Codec {
        scheme,
        block: vec![64],
    };
    let values = says("values of input x: changed, and cannot be compared");
    assert_eq!(only(&|it| it[0].elem = ElemType::F16), values);
    assert_eq!(only(&|it| it[0].codec = Some(coded.clone())), values);
    // How it is called is each side's own matter.
    assert_eq!(only(&|it| it[0].strides = Some(vec![2])), [""; 0]);
    assert_eq!(only(&|it| drop(it.remove(1))), [""; 0]);
    // Another shape is said once.
    let mut head = with(&|it| it[2].dims = vec![1]);
    head.plan.cases[0].dims.insert("N".into(), 1);
    assert_eq!(
        said_of(&base, &head),
        says("shape N = 64: under the same name the head has N = 1")
    );
}

#[test]
fn times_of_another_mode_or_over_fewer_samples() {
    let with = |change: &dyn Fn(&mut Schedule)| {
        let mut record = record();
        change(&mut record.plan.timing);
        record
    };
    let base = with(&|_| {});
    let only = |change: &dyn Fn(&mut Schedule)| said_of(&base, &with(change));
    let says = |what: &str| [format!("*/*@*: schedule of times: the head times {what}")];
    let was = base.plan.timing.clone();
    assert_eq!(only(&|it| it.mode = Mode::Cold), says("cold and not warm"));
    assert_eq!(
        only(&|it| (it.processes, it.singles) = (1, 1)),
        says(&format!(
            "1 processes and not {}, 1 singles and not {}",
            was.processes, was.singles
        ))
    );
    assert_eq!(only(&|it| it.iterations += 1), [""; 0]);
    let mut untimed = base.clone();
    for case in &mut untimed.plan.cases {
        case.timed = false;
    }
    assert_eq!(
        said_of(&untimed, &with(&|it| it.mode = Mode::Cold)),
        [""; 0]
    );
}

#[test]
fn a_filter_leaves_out_no_architecture() {
    let mut base = record();
    let mut older = base.plan.units[0].clone();
    older.id.arch = "sm_89".parse().unwrap();
    base.policy
        .gates
        .push(gate(Subject::Unit(older.id.clone()), Rule::Built));
    base.plan.units.push(older);
    let mut head = record();
    let removed = ["k/direct [sm_89]: built: removed: the head has no k/direct [sm_89]"];
    assert_eq!(said_of(&base, &head), removed);
    head.plan.left_out.insert("k".into());
    assert_eq!(said_of(&base, &head), removed);
}

#[test]
fn a_lower_budget_of_the_simulator() {
    let with = |budget| {
        let mut record = record();
        record.plan.simulation.budget = budget;
        record
    };
    assert_eq!(said_of(&with(1000), &with(1000)), [""; 0]);
    assert_eq!(said_of(&with(1000), &with(2000)), [""; 0]);
    assert_eq!(
        said_of(&with(2000), &with(1000)),
        [
            "*/*@*: budget of the simulator: the head simulates cases of up to 1000 warp instructions, and not 2000"
        ]
    );
}

#[test]
fn allowed_it_is_said_and_decides_nothing() {
    let base = with_rule(at_most(Metric::Registers, 100.0));
    let head = with_rule(at_most(Metric::Registers, 128.0));
    let judgement = compare(&base, &head, Loosening::Allowed);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let last = judgement.verdicts.last().unwrap();
    assert_eq!(
        (last.gate.as_str(), last.outcome, last.reason.as_str()),
        (
            "not loosened: registers <= 100",
            Outcome::Pass,
            "loosened, and allowed by --allow-loosened: the head allows 128"
        )
    );
    // It is no proof that anything was judged.
    let mut nothing = head.clone();
    nothing.policy.gates.clear();
    assert_eq!(
        compare(&base, &nothing, Loosening::Allowed).conclusion,
        Conclusion::NothingJudged
    );
    assert_eq!(
        compare(&base, &nothing, Loosening::Fails).conclusion,
        Conclusion::Fail
    );
}

/// Other flags are another key, under which nobody agreed on anything before.
#[test]
fn a_baseline_that_other_flags_replace_is_loosened_where_it_agrees_on_worse() {
    let under_other_flags = |registers: f64, was_kept: bool| {
        let mut record = record_beside_base();
        let flags = vec!["-O3".to_owned(), "-use_fast_math".to_owned()];
        for unit in &mut record.plan.units {
            unit.flags.clone_from(&flags);
        }
        let then = record.policy.baselines.clone();
        let mut now = then.clone();
        for baseline in &mut now {
            baseline.key = baseline.key.with_flags("-O3 -use_fast_math");
            for agreed in baseline.cases.values_mut().flatten() {
                if *agreed.0 == Metric::Registers && baseline.variant == "fast" {
                    agreed.1.value = Num(registers);
                }
            }
        }
        match was_kept {
            true => now.extend(then),
            false => record.policy.base.as_mut().unwrap().baselines = then,
        }
        record.policy.baselines = now;
        let judgement = judge(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        let verdicts = judgement.verdicts.into_iter();
        let found = verdicts.filter(|it| it.gate == "not loosened: baseline of resources");
        found
            .map(|it| {
                assert_eq!(it.outcome, Outcome::Fail);
                format!("{}: {}", it.subject, it.reason)
            })
            .filter(|it| !it.ends_with("removed"))
            .collect::<Vec<_>>()
    };
    for was_kept in [true, false] {
        let agreed = 96.0;
        assert_eq!(under_other_flags(agreed, was_kept), [""; 0]);
        assert_eq!(under_other_flags(agreed - 1.0, was_kept), [""; 0]);
        assert_eq!(
            under_other_flags(200.0, was_kept),
            [
                "k/fast [sm_90]: under the flags `-O3 -use_fast_math` and not `-O3` the head agrees on worse: registers 96 -> 200"
            ]
        );
    }
}
