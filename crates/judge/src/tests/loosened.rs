use super::*;

type Change = (Subject, BaseDemand, Loosened);

/// The questions that `head` no longer asks as strictly as `base`.
fn between(base: &Record, head: &Record) -> Vec<Change> {
    let judgement = compare(base, head, Loosening::Fails);
    let found = loosened(&judgement);
    if !found.is_empty() {
        assert_eq!(judgement.conclusion, Conclusion::Fail);
    }
    found
}

/// A gate that differs in head.
fn instead(subject: Subject, base: Rule, how: fn(Rule) -> Loosened, head: Rule) -> Change {
    (subject, BaseDemand::Gate(base), how(head))
}

fn removed(subject: Subject, base: Rule) -> Change {
    (subject, BaseDemand::Gate(base), Loosened::GateRemoved)
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
    assert_eq!(between(&record(), &record()), []);
}

#[test]
fn limits_by_their_values() {
    use Op::{Eq, Ge, Gt, Le, Lt};
    let limit = |(op, bound)| absolute(Metric::Registers, op, Bound::Value(Num(bound)));
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
        let found = between(&with_rule(limit(base)), &with_rule(limit(head)));
        assert_eq!(found, [], "{base:?} {head:?}");
    }
    for (base, head) in [
        ((Le, 32.0), (Le, 64.0)),
        ((Lt, 32.0), (Le, 32.0)),
        ((Ge, 0.5), (Ge, 0.25)),
        ((Gt, 2.0), (Ge, 2.0)),
        ((Eq, 2.0), (Le, 2.0)),
        ((Le, 32.0), (Ge, 0.0)),
        ((Le, 32.0), (Lt, 64.0)),
        ((Le, 32.0), (Le, f64::NAN)),
    ] {
        let (base, head) = (limit(base), limit(head));
        let found = between(&with_rule(base.clone()), &with_rule(head.clone()));
        let expected = instead(unit("direct"), base, Loosened::Looser, head);
        assert_eq!(found, [expected]);
    }
}

#[test]
fn limits_on_a_baseline_by_their_change() {
    let p50 = |change| with_rule(within(Metric::P50, change));
    let small = || case("direct", "small");
    assert_eq!(between(&p50(0.02), &p50(0.01)), []);
    let wider = within(Metric::P50, 0.05);
    assert_eq!(
        between(&p50(0.02), &p50(0.05)),
        [instead(small(), p50_change(), Loosened::Looser, wider)]
    );
    let registers = |rule: &Rule| with_rule(rule.clone());
    let share = |change| within(Metric::Registers, change);
    let amount = |amount| within_amount(Metric::Registers, amount);
    for (base, head) in [
        (amount(2), amount(1)),
        (amount(2), share(0.0)),
        (share(0.0), amount(0)),
        (amount(0), share(0.0)),
        (share(0.5), amount(0)),
    ] {
        assert_eq!(between(&registers(&base), &registers(&head)), []);
    }
    type How = fn(Rule) -> Loosened;
    let looser: [(Rule, Rule, How); 5] = [
        (amount(1), amount(2), Loosened::Looser),
        (amount(0), share(0.01), Loosened::Looser),
        (share(0.0), amount(1), Loosened::Looser),
        // Which of them is more depends on the baseline.
        (share(0.5), amount(1), Loosened::Incomparable),
        (amount(100), share(0.01), Loosened::Incomparable),
    ];
    for (base, head, how) in looser {
        assert_eq!(
            between(&registers(&base), &registers(&head)),
            [instead(unit("direct"), base, how, head)]
        );
    }
    // One kind of limit is no substitute for the other.
    assert_eq!(
        between(&p50(0.02), &with_rule(at_most(Metric::P50, 1.0))),
        [removed(small(), p50_change())]
    );
}

#[test]
fn expressions_are_the_same_or_cannot_be_compared() {
    let of = |op, text: &str| absolute(Metric::Registers, op, Bound::Expr(expr(text)));
    let half = || of(Op::Le, "N / 2");
    let base = with_rule(half());
    assert_eq!(between(&base, &with_rule(half())), []);
    assert_eq!(between(&base, &with_rule(of(Op::Lt, "N / 2"))), []);
    type How = fn(Rule) -> Loosened;
    let heads: [(Rule, How); 3] = [
        (of(Op::Le, "N / 4"), Loosened::Incomparable),
        (at_most(Metric::Registers, 1.0), Loosened::Incomparable),
        (of(Op::Ge, "N / 2"), Loosened::Looser),
    ];
    for (head, how) in heads {
        assert_eq!(
            between(&base, &with_rule(head.clone())),
            [instead(unit("direct"), half(), how, head)]
        );
    }
    // The same words over another constant are another limit.
    let mut other = expr("N / 2");
    other.constants.insert("N".into(), Num(128.0));
    let head = with_rule(absolute(Metric::Registers, Op::Le, Bound::Expr(other)));
    assert_eq!(between(&base, &head).len(), 1);

    let rule = |text: &str| Rule::Condition { expr: expr(text) };
    let condition = |text: &str| with_rule(rule(text));
    let base = condition("registers <= 64 || occupancy >= 0.5");
    assert_eq!(between(&base, &base), []);
    let was = rule("registers <= 64 || occupancy >= 0.5");
    let is = rule("registers <= 65 || occupancy >= 0.5");
    assert_eq!(
        between(&base, &with_rule(is.clone())),
        [instead(unit("direct"), was, Loosened::Incomparable, is)]
    );
}

#[test]
fn missing_gates_and_cases_count_as_removed() {
    let mut head = record();
    head.policy
        .gates
        .retain(|gate| gate.subject != unit("direct") || gate.rule == Rule::Built);
    let rules = [Rule::HasEffect, registers_limit(), registers_change()];
    assert_eq!(
        between(&record(), &head),
        rules.map(|rule| removed(unit("direct"), rule))
    );

    let mut head = record();
    head.plan
        .cases
        .retain(|at| at.id != case_id("fast", "large"));
    head.policy
        .gates
        .retain(|gate| gate.subject != case("fast", "large"));
    let found = between(&record(), &head);
    assert_eq!(found.len(), 9);
    assert!(
        found
            .iter()
            .all(|(_, _, how)| *how == Loosened::SubjectRemoved(case("fast", "large")))
    );
    // A filter that leaves it out leaves it out on both sides, and one that takes it in does not.
    let with = |filter: &str| {
        let mut head = head.clone();
        head.plan.filters = vec![filter.parse().unwrap()];
        // Whatever else it left out of what head still has.
        head.plan.left_out.insert("k".into());
        between(&record(), &head).len()
    };
    assert_eq!(with("*@large"), 9);
    assert_eq!(with("k/fast"), 9);
    assert_eq!(with("*@{small,medium}"), 0);
    assert_eq!(with("another"), 0);
    // And it is no excuse for what is there.
    head.plan.filters = vec!["*@small".parse().unwrap()];
    head.policy
        .gates
        .retain(|gate| gate.rule != Rule::Built || gate.subject != unit("fast"));
    assert_eq!(
        between(&record(), &head),
        [removed(unit("fast"), Rule::Built)]
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
    assert_eq!(between(&base, &head), []);
}

#[test]
fn a_case_that_asks_less() {
    fn only(change: impl Fn(&mut Case)) -> Vec<Change> {
        let mut head = record();
        let at = head
            .plan
            .cases
            .iter_mut()
            .find(|at| at.id == case_id("fast", "small"));
        change(at.unwrap());
        between(&record(), &head)
    }
    let found = |demand, how| [(case("fast", "small"), demand, how)];
    assert_eq!(
        only(|case| case.seeds = vec![2]),
        found(BaseDemand::Seeds(vec![1, 2]), Loosened::Seeds(vec![2]))
    );
    assert_eq!(
        only(|case| case.launches = 2),
        found(BaseDemand::Launches(8), Loosened::Launches(2))
    );
    let because = || "atomics".to_owned();
    assert_eq!(
        only(|case| case.determinism = Determinism::Declared { reason: because() }),
        found(
            BaseDemand::BitExact,
            Loosened::Nondeterministic { because: because() }
        )
    );
    assert_eq!(
        only(|case| case.reference = Reference::Unary {
            x: "x".into(),
            out: "out".into(),
            op: Unary::Copy
        }),
        found(BaseDemand::Reference, Loosened::ReferenceIncomparable(None))
    );
    for now in [Some(1), None] {
        let other_size = |case: &mut Case| {
            case.dims.clear();
            case.dims.extend(now.map(|now| ("N".to_owned(), now)));
        };
        assert_eq!(only(other_size), other_dims(case("fast", "small"), now));
    }
    assert_eq!(only(|case| case.seeds = vec![3, 2, 1]), []);
    assert_eq!(only(|case| case.launches = 9), []);
}

/// Another size of `N` in head.
fn other_dims(subject: Subject, now: Option<i64>) -> [Change; 1] {
    let (was, now) = ([("N".to_owned(), 64)], [("N".to_owned(), now)]);
    let demand = BaseDemand::Dims(was.into());
    [(subject, demand, Loosened::Dims(now.into()))]
}

fn other_values() -> Change {
    let tensor = "x".to_owned();
    let demand = BaseDemand::InputValues { tensor };
    (case("direct", "small"), demand, Loosened::InputValues)
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
        compare: None,
        address: None,
        floats: None,
        left: None,
        joined: false,
    };
    let with = |tensors: Vec<Tensor>| {
        let mut record = record();
        record.plan.cases[0].tensors = tensors;
        record
    };
    let base = with(vec![input(1.0)]);
    assert_eq!(between(&base, &base), []);
    for head in [with(vec![input(0.0)]), with(Vec::new())] {
        assert_eq!(between(&base, &head), [other_values()]);
    }
}

#[test]
fn changed_inputs_and_compared_outputs_are_loosened() {
    let tensor = |name: &str, role: Role| Tensor {
        name: name.into(),
        role,
        elem: ElemType::F32,
        dims: vec![64],
        strides: None,
        fill: None,
        codec: None,
        compare: None,
        address: None,
        floats: None,
        left: None,
        joined: false,
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
    assert_eq!(between(&base, &base), []);
    let only = |change: &dyn Fn(&mut Vec<Tensor>)| between(&base, &with(change));
    let found = |demand, how| [(case("direct", "small"), demand, how)];
    let role = |tensor: &str, was, is| {
        let tensor = tensor.to_owned();
        let demand = BaseDemand::TensorRole { tensor, role: was };
        found(demand, Loosened::TensorRole(is))
    };
    // Nothing would be called unwritten any more, or nothing compared.
    assert_eq!(
        only(&|tensors| tensors[2].role = Role::Inout),
        role("y", Role::Out, Role::Inout)
    );
    assert_eq!(
        only(&|tensors| tensors[2].role = Role::Scratch),
        role("y", Role::Out, Role::Scratch)
    );
    assert_eq!(
        only(&|tensors| tensors[0].role = Role::Inout),
        role("x", Role::In, Role::Inout)
    );
    let y = || "y".to_owned();
    let dims = BaseDemand::TensorDims {
        tensor: y(),
        dims: vec![64],
    };
    assert_eq!(
        only(&|tensors| tensors[2].dims = vec![1]),
        found(dims, Loosened::TensorDims(vec![1]))
    );
    let output = || BaseDemand::OutputType { tensor: y() };
    assert_eq!(
        only(&|tensors| tensors[2].elem = ElemType::F16),
        found(output(), Loosened::OutputType)
    );
    assert_eq!(
        only(&|tensors| drop(tensors.pop())),
        found(output(), Loosened::OutputRemoved)
    );
    let scheme = CodecScheme::Affine { low: 0, high: 1 };
    let coded = Codec {
        scheme,
        block: vec![64],
    };
    let values = [other_values()];
    assert_eq!(only(&|tensors| tensors[0].elem = ElemType::F16), values);
    assert_eq!(
        only(&|tensors| tensors[0].codec = Some(coded.clone())),
        values
    );
    // How it is called is each side's own matter.
    assert_eq!(only(&|tensors| tensors[0].strides = Some(vec![2])), []);
    assert_eq!(only(&|tensors| drop(tensors.remove(1))), []);
    // Fewer elements, or others; more is no loosening.
    let part = |text: &str, value: f64| Compare::Where {
        condition: Expr {
            text: text.into(),
            constants: [("W".to_owned(), Num(value))].into(),
        },
        index: vec!["i".into()],
    };
    let mask = || Compare::Mask { tensor: "x".into() };
    let compares = |compare: Option<Compare>| with(&|tensors| tensors[2].compare = compare.clone());
    let less = |base: Option<Compare>, head: Compare| {
        let demand = BaseDemand::ComparedElements {
            tensor: y(),
            compare: base.clone(),
        };
        assert_eq!(
            between(&compares(base), &compares(Some(head.clone()))),
            found(demand, Loosened::ComparedElements(head))
        );
    };
    less(None, part("i < W", 32.0));
    less(None, mask());
    less(Some(mask()), part("i < W", 32.0));
    less(Some(part("i < W", 32.0)), part("i < W", 31.0));
    less(Some(part("i < W", 32.0)), part("i <= W", 32.0));
    for (base, head) in [
        (Some(part("i < W", 32.0)), Some(part("i < W", 32.0))),
        (Some(mask()), Some(mask())),
        (Some(mask()), None),
    ] {
        assert_eq!(between(&compares(base), &compares(head)), []);
    }
    // The caller has to clear what the kernel cleared before.
    let zeros = || Some(Fill::Constant { value: Num(0.0) });
    let tensor = "work".to_owned();
    assert_eq!(
        only(&|tensors| tensors[1].fill = zeros()),
        found(
            BaseDemand::UnpreparedScratch { tensor },
            Loosened::PreparedScratch
        )
    );
    let cleared = with(&|tensors| tensors[1].fill = zeros());
    assert_eq!(between(&cleared, &cleared), []);
    assert_eq!(between(&cleared, &base), []);
    // Another shape is reported once.
    let mut head = with(&|tensors| tensors[2].dims = vec![1]);
    head.plan.cases[0].dims.insert("N".into(), 1);
    assert_eq!(
        between(&base, &head),
        other_dims(case("direct", "small"), Some(1))
    );
}

/// The subject that stands for all of a run.
fn case_of_all() -> Subject {
    Subject::Case(CaseId::new("*", "*", "*"))
}

#[test]
fn times_of_another_mode_or_over_fewer_samples() {
    let with = |change: &dyn Fn(&mut Schedule)| {
        let mut record = record();
        change(&mut record.plan.timing);
        record
    };
    let base = with(&|_| {});
    let only = |change: &dyn Fn(&mut Schedule)| between(&base, &with(change));
    let found = |changes: &[ScheduleChange]| {
        let how = Loosened::TimingSchedule(changes.to_vec());
        [(case_of_all(), BaseDemand::TimingSchedule, how)]
    };
    let mode = ScheduleChange::Mode {
        base: Mode::Warm,
        head: Mode::Cold,
    };
    assert_eq!(only(&|timing| timing.mode = Mode::Cold), found(&[mode]));
    let processes = ScheduleChange::Processes { base: 3, head: 1 };
    let singles = ScheduleChange::Singles { base: 4, head: 1 };
    assert_eq!(
        only(&|timing| (timing.processes, timing.singles) = (1, 1)),
        found(&[processes, singles])
    );
    let iterations = ScheduleChange::Iterations { base: 4, head: 3 };
    assert_eq!(only(&|timing| timing.iterations = 3), found(&[iterations]));
    assert_eq!(only(&|timing| timing.iterations += 1), []);
    let mut untimed = base.clone();
    for case in &mut untimed.plan.cases {
        case.timed = false;
    }
    assert_eq!(
        between(&untimed, &with(&|timing| timing.mode = Mode::Cold)),
        []
    );
}

#[test]
fn a_filter_leaves_out_no_architecture() {
    let mut base = record();
    let mut older = base.plan.units[0].clone();
    older.id.arch = "sm_89".parse().unwrap();
    let subject = Subject::Unit(older.id.clone());
    base.policy.gates.push(gate(subject.clone(), Rule::Built));
    base.plan.units.push(older);
    let mut head = record();
    let removed = [(
        subject.clone(),
        BaseDemand::Gate(Rule::Built),
        Loosened::SubjectRemoved(subject),
    )];
    assert_eq!(between(&base, &head), removed);
    head.plan.filters = vec!["k@small".parse().unwrap()];
    assert_eq!(between(&base, &head), removed);
}

#[test]
fn a_lower_budget_of_the_simulator() {
    let with = |budget| {
        let mut record = record();
        record.plan.simulation.budget = budget;
        record
    };
    assert_eq!(between(&with(1000), &with(1000)), []);
    assert_eq!(between(&with(1000), &with(2000)), []);
    let how = Loosened::SimulatorBudget {
        base: 2000,
        head: 1000,
    };
    assert_eq!(
        between(&with(2000), &with(1000)),
        [(case_of_all(), BaseDemand::SimulatorBudget, how)]
    );
}

#[test]
fn hazards_that_no_longer_fail() {
    let with = |warp_hazards| {
        let mut record = record();
        record.plan.simulation.warp_hazards = warp_hazards;
        record
    };
    let (note, fail) = (with(WarpHazards::Note), with(WarpHazards::Fail));
    assert_eq!(between(&note, &fail), []);
    assert_eq!(between(&fail, &fail), []);
    assert_eq!(
        between(&fail, &note),
        [(
            case_of_all(),
            BaseDemand::WarpHazards,
            Loosened::WarpHazards
        )]
    );
}

#[test]
fn allowed_it_is_said_and_decides_nothing() {
    let [was, is] = [100.0, 128.0].map(|bound| at_most(Metric::Registers, bound));
    let (base, head) = (with_rule(was.clone()), with_rule(is.clone()));
    let judgement = compare(&base, &head, Loosening::Allowed);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let last = judgement.verdicts.last().unwrap();
    let how = Box::new(Loosened::Looser(is));
    assert_eq!(
        (&last.question, last.outcome, &last.reason),
        (
            &Question::NoLooser(BaseDemand::Gate(was)),
            Outcome::Pass,
            &Reason::LooseningAllowed(how)
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
fn a_baseline_under_new_flags_is_loosened_if_it_is_worse() {
    let under_other_flags = |registers: f64, was_kept: bool| {
        let mut record = record_against_base();
        let flags = vec!["-O3".to_owned(), "-use_fast_math".to_owned()];
        for unit in &mut record.plan.units {
            unit.flags.clone_from(&flags);
        }
        let then = record.policy.baselines.clone();
        let mut now = then.clone();
        for baseline in &mut now {
            baseline.key = baseline.key.built_by("13.0.88", "-O3 -use_fast_math");
            for agreed in baseline.cases.values_mut().flatten() {
                if *agreed.0 == Metric::Registers && baseline.variant == "fast" {
                    agreed.1.value = Num(registers);
                }
            }
        }
        if was_kept {
            now.extend(then)
        } else {
            record.policy.base.as_mut().unwrap().baselines = then
        }
        record.policy.baselines = now;
        loosened(&ruled(&record))
            .into_iter()
            .filter(|(_, demand, _)| *demand == BaseDemand::Baseline(Facet::Resources))
            .filter(|(_, _, how)| *how != Loosened::BaselineRemoved)
            .collect::<Vec<_>>()
    };
    for was_kept in [true, false] {
        let agreed = 96.0;
        assert_eq!(under_other_flags(agreed, was_kept), []);
        assert_eq!(under_other_flags(agreed - 1.0, was_kept), []);
        let edit = FigureEdit::Worse {
            was: Num(96.0),
            now: Num(200.0),
        };
        let metric = Metric::Registers;
        let how = Loosened::BaselineMoved {
            differences: vec![KeyDifference {
                field: KeyField::Flags,
                theirs: "-O3".into(),
                here: "-O3 -use_fast_math".into(),
            }],
            values: vec![EditedFigure { metric, edit }],
        };
        assert_eq!(
            under_other_flags(200.0, was_kept),
            [(unit("fast"), BaseDemand::Baseline(Facet::Resources), how)]
        );
    }
}

/// The verdicts of a run against its base on the reference of one case.
fn reference_beside(facts: Option<Seen<BaseReference>>) -> Vec<Verdict> {
    let mut record = record_against_base();
    let of_case = |piece: &Evidence| matches!(piece, Evidence::BaseReference { case, .. } if *case == case_id("fast", "small"));
    record.evidence.retain(|piece| !of_case(piece));
    record
        .evidence
        .extend(facts.map(|facts| Evidence::BaseReference {
            case: case_id("fast", "small"),
            facts,
        }));
    // However it is written: what it computes counts.
    for case in &mut record.plan.cases {
        case.reference = Reference::User {
            source: "moved/k_ref.c".into(),
            function: "k".into(),
            args: Vec::new(),
            flags: Vec::new(),
        };
    }
    let is_asked =
        |verdict: &Verdict| verdict.question == Question::NoLooser(BaseDemand::Reference);
    ruled(&record)
        .verdicts
        .into_iter()
        .filter(is_asked)
        .collect()
}

#[test]
fn a_reference_that_computes_something_else_is_loosened() {
    let compared = |found| Some(Seen::Got(BaseReference::Compared(found)));
    let same = ReferenceComparison {
        elements: 64,
        ..ReferenceComparison::default()
    };
    assert_eq!(reference_beside(compared(same.clone())), []);
    let other = ReferenceComparison {
        differing: 1,
        ..same
    };
    let only = |facts| {
        let verdicts = reference_beside(facts);
        let [verdict] = verdicts.as_slice() else {
            panic!("{verdicts:?}")
        };
        assert_eq!(verdict.subject, case("fast", "small"));
        (verdict.outcome, verdict.reason.clone())
    };
    let failed = |how| (Outcome::Fail, Reason::Loosened(Box::new(how)));
    assert_eq!(
        only(compared(other.clone())),
        failed(Loosened::Reference(Box::new(other)))
    );
    let fault = |kind| Fault::new(kind, "it crashed");
    assert_eq!(
        only(Some(Seen::Fault(fault(FaultKind::Reference)))),
        failed(Loosened::ReferenceIncomparable(Some("it crashed".into())))
    );
    // A base that has no answer, or a late one, is no looser head.
    let incomparable = |lack| (Outcome::Inconclusive, Reason::BaseIncomparable(lack));
    assert_eq!(
        only(Some(Seen::Got(BaseReference::Broken {
            message: "no header".into()
        }))),
        incomparable(BaseLack::ReferenceBroken("no header".into()))
    );
    assert_eq!(
        only(Some(Seen::Fault(fault(FaultKind::Hang)))),
        incomparable(BaseLack::ReferenceLate("it crashed".into()))
    );
    let died = fault(FaultKind::WorkerDied);
    assert_eq!(
        only(Some(Seen::Fault(died.clone()))),
        incomparable(BaseLack::Unanswered(Box::new(Reason::Fault(died))))
    );
    let machine = fault(FaultKind::Environment);
    assert_eq!(
        only(Some(Seen::Fault(machine.clone()))),
        (Outcome::Environment, Reason::Fault(machine))
    );
    let large = NotRun::OverMemory { bytes: 2, limit: 1 };
    assert_eq!(
        only(Some(Seen::NotRun(large))),
        failed(Loosened::ReferenceIncomparable(None))
    );
    let missing = Piece::BaseReference(case_id("fast", "small"));
    assert_eq!(
        only(None),
        (Outcome::Inconclusive, Reason::EvidenceMissing(missing))
    );
}

/// A reference that is taken away is loosened; one that is written at last is not.
#[test]
fn no_reference_asks_less_than_any() {
    let with = |none: [bool; 2]| {
        let mut record = record_against_base();
        let base = &mut record.policy.base.as_mut().unwrap().plan.cases;
        for (cases, none) in [(base, none[0]), (&mut record.plan.cases, none[1])] {
            for case in cases.iter_mut().filter(|_| none) {
                case.reference = Reference::None;
            }
        }
        let is_asked =
            |verdict: &Verdict| verdict.question == Question::NoLooser(BaseDemand::Reference);
        ruled(&record)
            .verdicts
            .into_iter()
            .filter(is_asked)
            .map(|verdict| verdict.outcome)
            .collect::<Vec<_>>()
    };
    let removed = with([false, true]);
    assert!(!removed.is_empty() && removed.iter().all(|outcome| *outcome == Outcome::Fail));
    assert_eq!(with([true, false]), []);
    assert_eq!(with([true, true]), []);
}

#[test]
fn compares_references_of_two_records_by_their_results() {
    let with = |digest: &str, source: &str| {
        let mut record = record();
        for case in &mut record.plan.cases {
            case.reference = Reference::User {
                source: source.into(),
                function: "k".into(),
                args: Vec::new(),
                flags: Vec::new(),
            };
            for &seed in &case.seeds {
                record.evidence.push(Evidence::Reference {
                    case: case.id.clone(),
                    seed,
                    outputs: [("out".to_owned(), digest.to_owned())].into(),
                });
            }
        }
        record
    };
    let base = with("1", "a.c");
    assert_eq!(between(&base, &with("1", "moved/b.c")), []);
    let changed = between(&base, &with("2", "a.c"));
    assert_eq!(changed.len(), base.plan.cases.len());
    assert!(
        changed
            .iter()
            .all(|(_, _, how)| *how == Loosened::ReferenceDigest)
    );
    // Another answer to other inputs says nothing, and is no excuse either.
    let mut inputs = with("2", "a.c");
    for case in &mut inputs.plan.cases {
        case.tensors.push(Tensor {
            name: "new".into(),
            role: Role::In,
            elem: ElemType::I32,
            dims: vec![4],
            strides: None,
            fill: Some(Fill::Iota),
            codec: None,
            compare: None,
            address: None,
            floats: None,
            left: None,
            joined: false,
        });
    }
    let of_reference = between(&base, &inputs);
    assert!(of_reference.iter().any(|(_, demand, how)| {
        *demand == BaseDemand::Reference && *how == Loosened::ReferenceIncomparable(None)
    }));
}
