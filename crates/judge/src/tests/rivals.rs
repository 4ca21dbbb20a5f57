//! Other programs paired a kernel: what limits against them rest on, and that nothing missing of them passes.

use super::*;

fn against(bound: &str) -> Rule {
    Rule::Limit {
        metric: Metric::P50,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr(bound)),
        },
    }
}

/// The verdict of a variant at `small` on such a limit.
fn verdict_on(record: &Record, variant: &str, rule: Rule) -> Verdict {
    let mut record = record.clone();
    record.policy.gates.push(gate(case(variant, "small"), rule));
    ruled(&record).verdicts.pop().unwrap()
}

fn outcome_and_reason(record: &Record, bound: &str) -> (Outcome, Reason) {
    let verdict = verdict_on(record, "fast", against(bound));
    match verdict.reason {
        Reason::OperandUnknown { name, why } => {
            assert!(bound.contains(&name));
            (verdict.outcome, *why)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_limit_against_a_backend_holds_the_faster_kernel_and_breaks_the_slower() {
    let record = record_beside_rival();
    let bound = "1.0 * torch.flash.p50";
    let fast = verdict_on(&record, "fast", against(bound));
    assert_eq!(fast.outcome, Outcome::Pass);
    let limit = fast.limit.unwrap().0;
    assert!((limit - FLASH as f64).abs() < 10.0, "{limit}");
    let slow = verdict_on(&record, "direct", against(bound));
    assert_eq!(
        (slow.outcome, slow.reason.code()),
        (Outcome::Fail, "beyond-limit")
    );
    // And where the rival is slower than the limit's factor.
    let scaled = verdict_on(&record, "fast", against("0.8 * torch.flash.p50"));
    assert_eq!(scaled.outcome, Outcome::Fail);
    let condition = Rule::Condition {
        expr: expr("p50 < torch.flash.p50 && torch.flash.min > 80us"),
    };
    assert_eq!(
        verdict_on(&record, "fast", condition.clone()).outcome,
        Outcome::Pass
    );
    assert_eq!(
        verdict_on(&record, "direct", condition).outcome,
        Outcome::Fail
    );
}

#[test]
fn a_missing_value_of_a_rival_is_named_and_never_passes() {
    let flash = "torch.flash.p50";
    let right = record_beside_rival();
    let skipped = Reason::RivalSkipped {
        rival: "torch".into(),
        backend: "math".into(),
        because: "no kernel for this shape".into(),
    };
    let math = outcome_and_reason(&right, "torch.math.p50");
    assert_eq!(math, (Outcome::Skipped, skipped));

    let lacking = Reason::EvidenceMissing(Piece::Rival {
        rival: "torch".into(),
        task: case_id("direct", "small"),
    });
    let lacking = (Outcome::Inconclusive, lacking);
    let mut none = right.clone();
    none.evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { .. }));
    assert_eq!(outcome_and_reason(&none, flash), lacking);
    assert_eq!(outcome_and_reason(&right, "torch.cudnn.p50"), lacking);
    let other = Reason::EvidenceMissing(Piece::Rival {
        rival: "jax".into(),
        task: case_id("direct", "small"),
    });
    assert_eq!(
        outcome_and_reason(&right, "jax.flash.p50"),
        (Outcome::Inconclusive, other)
    );

    let broken = |process| {
        let mut record = right.clone();
        let fault = Fault::new(FaultKind::Rival, "torch: exit code 1");
        rerival(&mut record, |at, seen| {
            if at == process {
                *seen = Seen::Fault(fault.clone());
            }
        });
        outcome_and_reason(&record, flash)
    };
    for process in 0..3 {
        let (outcome, reason) = broken(process);
        assert_eq!(
            (outcome, reason.code()),
            (Outcome::Inconclusive, "rival-broke")
        );
    }

    let mut few = right.clone();
    few.evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 2, .. }));
    let too_few = Reason::TooFewProcesses { have: 2, needed: 3 };
    assert_eq!(
        outcome_and_reason(&few, flash),
        (Outcome::Inconclusive, too_few)
    );
    let mut gap = right.clone();
    gap.evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 0, .. }));
    assert_eq!(
        outcome_and_reason(&gap, flash).1.code(),
        "timing-incomplete"
    );

    let changed = |change: fn(&mut RivalTimes)| {
        let mut record = right.clone();
        rerival(&mut record, |_, seen| {
            if let Seen::Got(facts) = seen
                && let Some(Contest::Timed(times)) = facts.backends.get_mut("flash")
            {
                change(times);
            }
        });
        let (outcome, reason) = outcome_and_reason(&record, flash);
        (outcome, reason.code())
    };
    let incomplete = (Outcome::Inconclusive, "timing-incomplete");
    assert_eq!(changed(|times| times.batched_ns.truncate(3)), incomplete);
    assert_eq!(changed(|times| times.single_ns.clear()), incomplete);
    assert_eq!(changed(|times| times.launches_per_sample = 0), incomplete);

    let (outcome, reason) = outcome_and_reason(&right, "torch.flash.cycles");
    assert_eq!(
        (outcome, reason.code()),
        (Outcome::Inconclusive, "misplaced")
    );
    let (outcome, reason) = outcome_and_reason(&right, "torch.flash.p99");
    assert_eq!(
        (outcome, reason.code()),
        (Outcome::Inconclusive, "too-few-singles")
    );
}

#[test]
fn without_a_gpu_rivals_are_skipped_as_times_are() {
    let mut record = record_without_gpu();
    record.plan.rivals = vec![rival()];
    let verdict = verdict_on(&record, "fast", against("torch.flash.p50"));
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Skipped, "no-device")
    );
    let standings = ruled(&record).rivals;
    let [standing] = &standings[..] else {
        panic!("{standings:?}");
    };
    assert!(standing.compared.is_empty() && standing.versions.is_empty());
    let [not] = &standing.not_compared[..] else {
        panic!("{standing:?}");
    };
    assert_eq!(not.backends, ["flash", "math"]);
    assert_eq!((not.cases.len(), not.reason.code()), (4, "no-device"));
}

#[test]
fn the_ratio_is_the_rivals_time_over_the_cases_own() {
    let standings = ruled(&record_beside_rival()).rivals;
    let standing = &standings[0];
    assert_eq!(standing.versions["torch"], "2.9.0");
    let found: Vec<_> = standing.compared.iter().collect();
    assert_eq!(found.len(), 4);
    for paired in found {
        let own = usual(&paired.case.variant) as f64;
        assert_eq!(paired.backend, "flash");
        assert!((paired.ours.0 - own).abs() < 10.0, "{paired:?}");
        assert!((paired.theirs.0 - FLASH as f64).abs() < 10.0, "{paired:?}");
        let ratio = FLASH as f64 / own;
        assert!((paired.times_as_fast.0 - ratio).abs() < 1e-3, "{paired:?}");
    }
    let [not] = &standing.not_compared[..] else {
        panic!("{standing:?}");
    };
    assert_eq!(
        (&not.backends[..], not.cases.len()),
        (&["math".to_owned()][..], 4)
    );
    // A kernel that is wrong has no times, and so no place.
    let mut wrong = record_beside_rival();
    recheck(&mut wrong, &case_id("fast", "small"), |_, facts| {
        facts.error.max_err = Num(1.0);
    });
    let standings = ruled(&wrong).rivals;
    let compared = &standings[0].compared;
    assert_eq!(compared.len(), 3);
    assert!(
        compared
            .iter()
            .all(|comparison| comparison.case != case_id("fast", "small"))
    );
}

/// The tasks that the rival is given paired these cases, each with the number of its process.
fn turns(record: &Record, wanted: &[CaseId]) -> Vec<(CaseId, u32)> {
    let turns = next_rivals(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
        wanted,
    );
    assert!(turns.len() <= 1 && turns.iter().all(|turn| *turn.rival == rival()));
    turns
        .iter()
        .flat_map(|turn| &turn.tasks)
        .map(|task| (task.task.clone(), task.process))
        .collect()
}

#[test]
fn variants_that_ask_the_same_share_a_task() {
    let mut record = record_beside_rival();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 1.., .. }));
    let (direct, fast) = (case_id("direct", "small"), case_id("fast", "small"));
    let both = [direct.clone(), fast.clone()];
    assert_eq!(turns(&record, &both), [(direct.clone(), 1)]);
    assert_eq!(
        turns(&record, std::slice::from_ref(&fast)),
        [(direct.clone(), 1)]
    );
    assert_eq!(turns(&record, &[]), []);
    let mut causal = record.clone();
    causal.plan.cases[2].reference = Reference::Softmax {
        x: "x".into(),
        out: "masked".into(),
    };
    assert_eq!(
        turns(&causal, &both),
        [(direct.clone(), 1), (fast.clone(), 0)]
    );
    // And what was seen of the one says nothing of the other.
    let verdict = verdict_on(&causal, "fast", against("torch.flash.p50"));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    // A variant that is held to another asks what that one asks.
    let mut bits = record.clone();
    bits.plan.cases[2].reference = Reference::Variant {
        variant: "direct".into(),
    };
    assert_eq!(turns(&bits, &both), [(direct, 1)]);
}

/// Adds a gate on a variant at `small` that names the rival: `fast` has the task of `direct`.
fn name_in_a_gate(record: &mut Record, variant: &str) {
    let rule = against("1.0 * torch.flash.p50");
    record.policy.gates.push(gate(case(variant, "small"), rule));
}

#[test]
fn a_rival_that_a_gate_names_does_that_task_in_as_many_processes_as_are_planned() {
    let mut record = record_beside_rival();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 1.., .. }));
    record.plan.timing.processes = 4;
    let wanted = [case_id("direct", "small"), case_id("direct", "large")];
    let processes = |record: &Record| -> Vec<u32> {
        let turns = next_rivals(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
            &wanted,
        );
        turns[0].tasks.iter().map(|task| task.processes).collect()
    };
    assert_eq!(processes(&record), [2, 2]);
    name_in_a_gate(&mut record, "fast");
    assert_eq!(processes(&record), [4, 2]);
}

#[test]
fn two_processes_tell_a_report_what_one_does_not() {
    let mut record = record_beside_rival();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 2.., .. }));
    let standing = |record: &Record| ruled(record).rivals.remove(0);
    assert_eq!(standing(&record).compared.len(), 4);
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 1.., .. }));
    let too_few = Reason::TooFewProcesses { have: 1, needed: 2 };
    let one = standing(&record);
    assert_eq!(one.compared, []);
    assert!(
        one.not_compared
            .iter()
            .any(|comparison| comparison.reason == too_few)
    );
}

#[test]
fn a_rival_that_was_not_requested_is_not_timed_and_no_gate_passes_by_it() {
    let mut record = record_beside_rival();
    record.plan.rivals[0].requested = false;
    let not_requested = Reason::RivalNotRequested {
        rival: "torch".into(),
    };
    // Not even where the record has its times.
    let flash = outcome_and_reason(&record, "torch.flash.p50");
    assert_eq!(flash, (Outcome::Inconclusive, not_requested.clone()));
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { .. }));
    let flash = outcome_and_reason(&record, "torch.flash.p50");
    assert_eq!(flash, (Outcome::Inconclusive, not_requested.clone()));
    let wanted = [case_id("direct", "small")];
    assert_eq!(turns(&record, &wanted), []);
    let standing = ruled(&record).rivals.remove(0);
    assert_eq!(standing.compared, []);
    let [not] = &standing.not_compared[..] else {
        panic!("{standing:?}");
    };
    assert_eq!((&not.reason, not.cases.len()), (&not_requested, 4));
    record.plan.rivals[0].requested = true;
    assert_eq!(turns(&record, &wanted), [(wanted[0].clone(), 0)]);
}

#[test]
fn a_gate_requests_the_rival_that_it_names() {
    let mut record = record_beside_rival();
    let other = Rival {
        name: "jax".into(),
        ..rival()
    };
    let elsewhere = Rival {
        kernel: "other".into(),
        ..rival()
    };
    record.plan.rivals = vec![rival(), other, elsewhere];
    let requested = |record: &Record, all| -> Vec<bool> {
        let mut plan = record.plan.clone();
        plan.request_rivals(&record.policy.gates, all);
        plan.rivals.iter().map(|rival| rival.requested).collect()
    };
    assert_eq!(requested(&record, false), [false, false, false]);
    assert_eq!(requested(&record, true), [true, true, true]);
    name_in_a_gate(&mut record, "fast");
    assert_eq!(requested(&record, false), [true, false, false]);
    let condition = Rule::Condition {
        expr: expr("registers < 64 || p50 < jax.flash.p50"),
    };
    let condition = gate(case("fast", "small"), condition);
    record.policy.gates.push(condition);
    assert_eq!(requested(&record, false), [true, true, false]);
}

#[test]
fn a_rival_is_asked_as_often_as_a_report_needs_and_not_after_it_broke() {
    let mut record = record_beside_rival();
    let wanted = [case_id("direct", "small"), case_id("direct", "large")];
    assert_eq!(turns(&record, &wanted), [], "two processes are enough");
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Rival { process: 1.., .. }));
    let next: Vec<_> = wanted.iter().map(|task| (task.clone(), 1)).collect();
    assert_eq!(turns(&record, &wanted), next);
    let mut broken = record.clone();
    rerival(&mut broken, |_, seen| {
        *seen = Seen::Fault(Fault::new(FaultKind::Rival, String::new()));
    });
    assert_eq!(turns(&broken, &wanted), []);
    let mut skipped = record.clone();
    rerival(&mut skipped, |_, seen| {
        if let Seen::Got(facts) = seen {
            let math = facts.backends["math"].clone();
            facts.backends.insert("flash".into(), math);
        }
    });
    assert_eq!(turns(&skipped, &wanted), []);
}

#[test]
fn another_program_under_a_gate_is_a_looser_gate() {
    let mut record = record_against_base();
    let rule = against("torch.flash.p50");
    let named = gate(case("fast", "small"), rule.clone());
    record.plan.rivals = vec![rival()];
    record.policy.gates.push(named.clone());
    let base = record.policy.base.as_mut().unwrap();
    base.gates.push(named);
    base.plan.rivals = vec![rival()];
    assert_eq!(loosened(&ruled(&record)), []);
    record.plan.rivals[0].command = vec!["sleep".into(), "1".into()];
    assert_eq!(
        loosened(&ruled(&record)),
        [(
            case("fast", "small"),
            BaseDemand::Gate(rule),
            Loosened::Rival("torch".into())
        )]
    );
}
