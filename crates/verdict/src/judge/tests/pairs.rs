//! Head beside the base revision.

use super::*;

fn changed() -> CaseId {
    case_id("fast", "small")
}

pub(super) fn verdict_on(record: &Record, variant: &str, gate: &str) -> Verdict {
    let judgement = judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    let subject = case(variant, "small");
    let mut verdicts = judgement.verdicts.into_iter();
    verdicts
        .find(|verdict| verdict.subject == subject && verdict.gate == gate)
        .unwrap()
}

fn p50(record: &Record) -> Verdict {
    verdict_on(record, "fast", "p50 +2%")
}

pub(super) fn asked(record: &Record) -> Vec<(String, Timing)> {
    let asked = next(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    let asked = asked.into_iter();
    asked
        .map(|(case, timing)| (case.to_string(), timing))
        .collect()
}

/// As many processes as the judge asks for, each with this ratio.
fn measured(ratio: impl Fn(u32) -> f64) -> Record {
    let mut record = record_beside_base();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { .. }));
    for process in 0.. {
        let wanted = asked(&record);
        if wanted.is_empty() {
            break;
        }
        for (name, timing) in wanted {
            assert_eq!(timing, Timing::BesideBase(Singles::Shown), "{name}");
            let shape = name.rsplit('@').next().unwrap();
            let is_small = shape == "small";
            let ratio = if is_small { ratio(process) } else { 1.0 };
            record.evidence.push(Evidence::Pair {
                case: case_id("fast", shape),
                process,
                facts: Seen::Got(pair_facts(usual("fast"), ratio, process)),
            });
        }
    }
    record
}

fn processes(record: &Record) -> usize {
    let pairs = record.evidence.iter();
    pairs
        .filter(|piece| matches!(piece, Evidence::Pair { case, .. } if *case == changed()))
        .count()
}

#[test]
fn as_fast_as_the_base_passes_at_the_first_look() {
    let record = measured(|_| 1.0);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Pass, "{}", verdict.reason);
    assert_eq!(processes(&record), 6);
    let effort = verdict.effort.unwrap();
    assert_eq!((effort.processes, effort.samples), (6, 6 * 2 * 8));
    assert_eq!(effort.gpu_ms, Some(Num(180.0)));
    let [low, high] = verdict.interval.unwrap().map(|bound| bound.0);
    assert!(low < 0.0 && 0.0 < high && high < 0.02, "{low} {high}");
}

#[test]
fn three_per_cent_slower_fails_and_is_confirmed_in_one_process_more() {
    let record = measured(|_| 1.03);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Fail, "{}", verdict.reason);
    assert!(
        verdict.reason.starts_with("3.0 % slower than the base ("),
        "{}",
        verdict.reason
    );
    assert!(
        verdict.reason.contains("confirmed in a fresh process"),
        "{}",
        verdict.reason
    );
    assert_eq!(processes(&record), 7);
    let effort = verdict.effort.unwrap();
    assert_eq!((effort.processes, effort.gpu_ms), (7, Some(Num(210.0))));
    assert!((verdict.change.unwrap().0 - 0.03).abs() < 1e-3);
}

#[test]
fn a_judgement_says_what_it_was_held_against() {
    let mut record = measured(|_| 1.03);
    let mut tiny = record.plan.case(&changed()).unwrap().clone();
    tiny.id = case_id("fast", "tiny");
    record.plan.cases.push(tiny);
    let beside = |record: &Record| {
        let judgement = judge(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        judgement.base
    };
    let found = beside(&record).unwrap();
    assert_eq!(
        (found.revision.as_str(), found.commit.as_str()),
        ("origin/main", "0a34415aaaaa")
    );
    let of = |variant| SHAPES.map(|shape| case_id(variant, shape)).to_vec();
    assert_eq!(found.changed, of("fast"));
    assert_eq!(
        (&found.unchanged, found.unchanged_timed),
        (&of("direct"), false)
    );
    assert_eq!(
        (found.new, found.unknown),
        (vec![case_id("fast", "tiny")], vec![])
    );
    // Seven processes of one case, six of the other; eight batched and four single samples a side.
    assert_eq!(
        (found.effort.processes, found.effort.samples),
        (7, 13 * 2 * 12)
    );
    assert_eq!(found.effort.gpu_ms, Some(Num(390.0)));

    record.environment.device = no_gpu();
    assert_eq!(beside(&record).unwrap().unknown.len(), 4);
    record.policy.base = None;
    assert_eq!(beside(&record), None);
}

#[test]
fn what_a_stored_baseline_is_held_against_says_its_effort() {
    let effort = verdict_on(&record(), "fast", "p50 +2%").effort.unwrap();
    assert_eq!(
        (effort.processes, effort.samples, effort.gpu_ms),
        (3, 3 * 4, None)
    );
    let effort = verdict_on(&record(), "fast", "max_err +10%").effort;
    assert_eq!(effort, None);
}

#[test]
fn a_failure_that_the_next_process_does_not_show_is_looked_at_again() {
    let record = measured(|process| if process < 6 { 1.03 } else { 1.0 });
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    assert_eq!(processes(&record), 10);
}

#[test]
fn a_failure_without_its_confirmation_is_none_yet() {
    let mut record = record_beside_base();
    repair(&mut record, &changed(), |process, facts| {
        *facts = pair_facts(usual("fast"), 1.03, process);
    });
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.reason,
        "timed beside the base in 6 processes, and 7 are needed"
    );
    assert_eq!(
        asked(&record),
        [(
            "k/fast@small".to_owned(),
            Timing::BesideBase(Singles::Shown)
        )]
    );
}

#[test]
fn what_did_not_change_passes_without_gpu_time() {
    let mut record = record_beside_base();
    // Its own limit on times keeps it on the GPU; nothing else does.
    let own = |gate: &Gate| gate.rule == at_most(Metric::P50, 200_000.0);
    record.policy.gates.retain(|gate| !own(gate));
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    let verdict = verdict_on(&record, "direct", "p50 +2%");
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(
        verdict.reason,
        "unchanged since origin/main: same machine code, launch and arguments"
    );
    assert_eq!(asked(&record), []);
    record.plan.pairing.as_mut().unwrap().unchanged = true;
    assert_eq!(asked(&record).len(), 2, "unless that is asked for");
    assert_eq!(
        verdict_on(&record, "direct", "p50 +2%").outcome,
        Outcome::Inconclusive
    );
}

#[test]
fn another_launch_is_a_change() {
    let mut record = record_beside_base();
    let base = record.policy.base.as_mut().unwrap();
    for case in &mut base.plan.cases {
        case.launch.as_mut().unwrap().grid = [66, 1, 1];
    }
    assert_eq!(
        verdict_on(&record, "direct", "p50 +2%").outcome,
        Outcome::Inconclusive
    );
}

#[test]
fn without_the_bases_code_nothing_passes() {
    for broken in [
        Seen::Fault(Fault {
            kind: FaultKind::Compile,
            message: "error: expected a `;`".into(),
        }),
        Seen::NotRun {
            reason: "nobody tried".into(),
        },
    ] {
        let mut record = record_beside_base();
        for piece in &mut record.evidence {
            if let Evidence::BaseBuild { facts, .. } = piece {
                *facts = broken.clone();
            }
        }
        let verdict = p50(&record);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert!(
            verdict
                .reason
                .starts_with("the base revision was not built: "),
            "{}",
            verdict.reason
        );
    }
}

#[test]
fn a_base_that_breaks_is_no_failure_of_head() {
    let mut record = record_beside_base();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { case, .. } if *case == changed()));
    record.evidence.push(Evidence::Pair {
        case: changed(),
        process: 0,
        facts: Seen::Fault(Fault {
            kind: FaultKind::Base,
            message: "an illegal memory access".into(),
        }),
    });
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.reason,
        "the base revision broke: an illegal memory access"
    );
    assert_eq!(asked(&record), [], "and is not tried again");
}

#[test]
fn a_new_case_is_judged_as_without_a_base() {
    let mut record = record_beside_base();
    let base = record.policy.base.as_mut().unwrap();
    base.plan.cases.retain(|case| case.id.variant != "direct");
    base.gates.retain(|gate| gate.subject.variant() != "direct");
    let verdict = verdict_on(&record, "direct", "p50 +2%");
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert!(
        verdict.reason.contains("against the baseline"),
        "{}",
        verdict.reason
    );
}

#[test]
fn a_limit_of_base_needs_one() {
    let limit = Rule::Limit {
        metric: Metric::P50,
        limit: Limit::Base { change: Num(0.005) },
    };
    let gate = gate(case("fast", "small"), limit);
    let mut alone = record();
    alone.policy.gates.push(gate.clone());
    let verdict = verdict_on(&alone, "fast", "p50 +0.5% of base");
    assert_eq!(verdict.outcome, Outcome::Skipped);
    assert_eq!(verdict.reason, words::NO_BASE);
    let mut beside = measured(|_| 1.0);
    beside.policy.gates.push(gate);
    let verdict = verdict_on(&beside, "fast", "p50 +0.5% of base");
    assert_eq!(verdict.outcome, Outcome::Pass, "{}", verdict.reason);
}

#[test]
fn blocks_on_a_slowed_gpu_do_not_count_and_too_few_of_them_no_process() {
    let mut record = record_beside_base();
    repair(&mut record, &changed(), |_, facts| {
        facts.blocks[0].throttled = true;
        // What that block says would be seen.
        facts.head.batched_ns[0] *= 3;
        facts.head.batched_ns[1] *= 3;
    });
    assert_eq!(p50(&record).outcome, Outcome::Pass);
    repair(&mut record, &changed(), |process, facts| {
        if process == 2 {
            for block in &mut facts.blocks {
                block.throttled = true;
            }
        }
    });
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    assert_eq!(asked(&record).len(), 1);
}

#[test]
fn short_or_missing_evidence_never_passes() {
    type Break = fn(&mut PairFacts);
    let breaks: [Break; 6] = [
        |facts| facts.blocks.truncate(3),
        |facts| facts.head.batched_ns.truncate(6),
        |facts| facts.base.single_ns.clear(),
        |facts| facts.base.launches_per_sample = 0,
        |facts| facts.base.batched_ns.fill(0),
        |facts| facts.base.mode = Mode::Cold,
    ];
    for (at, broken) in breaks.iter().enumerate() {
        let mut record = record_beside_base();
        repair(&mut record, &changed(), |process, facts| {
            if process == 3 {
                broken(facts);
            }
        });
        assert_eq!(p50(&record).outcome, Outcome::Inconclusive, "{at}");
    }
    let mut record = record_beside_base();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { process: 1, .. }));
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    let mut record = record_beside_base();
    record.plan.pairing = None;
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
}

#[test]
fn the_chance_of_a_false_alarm_is_split_over_the_plan_and_not_over_what_ran() {
    let interval = |record: &Record| p50(record).interval.unwrap()[0].0;
    let few = measured(|_| 1.0);
    let mut many = few.clone();
    for _ in 0..100 {
        let more = gate(case("direct", "small"), within(Metric::P99, 0.5));
        many.policy.gates.push(more);
    }
    assert!(interval(&many) < interval(&few));
}

#[test]
fn what_the_base_asked_more_strictly_is_loosened() {
    let mut record = record_beside_base();
    let base = record.policy.base.as_mut().unwrap();
    for gate in &mut base.gates {
        if gate.rule == within(Metric::P50, 0.02) {
            gate.rule = within(Metric::P50, 0.01);
        }
    }
    let ask = |record: &Record| {
        judge(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        )
    };
    let judgement = ask(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let loosened = judgement.verdicts.iter();
    let loosened = loosened.filter(|verdict| verdict.gate == "not loosened: p50 +1%");
    assert_eq!(loosened.count(), 4);
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    assert_eq!(ask(&record).conclusion, Conclusion::Pass);
}

#[test]
fn a_baseline_that_the_change_edits_is_loosened_where_it_asks_less() {
    let edit = |change: fn(&mut Agreed)| {
        let mut record = record_beside_base();
        let mut was = record.policy.baselines.clone();
        for baseline in &mut record.policy.baselines {
            if baseline.variant == "fast" && baseline.key.facet() == Facet::Times {
                change(
                    baseline
                        .cases
                        .get_mut("small")
                        .unwrap()
                        .get_mut(&Metric::P50)
                        .unwrap(),
                );
            }
        }
        was.retain(|baseline| !record.policy.baselines.contains(baseline));
        record.policy.base.as_mut().unwrap().baselines = was;
        let judgement = judge(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        let verdicts = judgement.verdicts.into_iter();
        let mut found =
            verdicts.filter(|verdict| verdict.gate == "not loosened: baseline of times");
        found
            .next()
            .map(|verdict| (verdict.subject, verdict.outcome, verdict.reason))
    };
    assert_eq!(edit(|_| {}), None);
    assert_eq!(
        edit(|agreed| agreed.value = Num(79_000.0)),
        None,
        "stricter"
    );
    let told = |reason: &str| Some((case("fast", "small"), Outcome::Fail, reason.to_owned()));
    assert_eq!(
        edit(|agreed| agreed.value = Num(90_000.0)),
        told("the head edits what was agreed: p50 80 us -> 90 us")
    );
    assert_eq!(
        edit(|agreed| agreed.spread = Some(Num(0.5))),
        told("the head edits what was agreed: p50 keeps its value and spreads more")
    );
}

#[test]
fn a_baseline_that_the_change_removes_is_loosened() {
    let mut record = record_beside_base();
    let removed = record.policy.baselines.remove(2);
    assert_eq!(removed.key.facet(), Facet::Times);
    record.policy.base.as_mut().unwrap().baselines = vec![removed];
    let judgement = judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let loosened = judgement.verdicts.iter();
    let loosened: Vec<_> = loosened
        .filter(|verdict| verdict.gate == "not loosened: baseline of times")
        .map(|verdict| verdict.reason.as_str())
        .collect();
    assert_eq!(loosened, ["the head edits what was agreed: removed"; 2]);
}

/// 100 launches of each side in two modes 1.5 times apart, so many in a hundred of them slow.
fn with_modes(record: &mut Record, head: u32, base: u32) {
    record.plan.pairing.as_mut().unwrap().singles = 100;
    repair(record, &changed(), |process, facts| {
        let launches = |slow: u32| {
            let slow = slow + process % 3;
            (0..100u64)
                .map(|at| 80_000 + 32 * (at * 7 % 23) + if at < slow.into() { 40_000 } else { 0 })
                .collect()
        };
        facts.head.single_ns = launches(head);
        facts.base.single_ns = launches(base);
    });
}

fn slow_share(head: u32, base: u32) -> Verdict {
    let mut record = record_beside_base();
    for process in 6..11 {
        for shape in SHAPES {
            record.evidence.push(Evidence::Pair {
                case: case_id("fast", shape),
                process,
                facts: Seen::Got(pair_facts(usual("fast"), 1.0, process)),
            });
        }
    }
    with_modes(&mut record, head, base);
    let limit = Rule::Limit {
        metric: Metric::SlowShare,
        limit: Limit::Base { change: Num(0.05) },
    };
    record.policy.gates.push(gate(case("fast", "small"), limit));
    assert_eq!(
        p50(&record).outcome,
        Outcome::Pass,
        "the median does not see it"
    );
    verdict_on(&record, "fast", "slow_share +5% of base")
}

#[test]
fn a_slow_mode_that_grows_from_30_to_45_in_a_hundred_fails() {
    let verdict = slow_share(45, 30);
    assert_eq!(verdict.outcome, Outcome::Fail, "{}", verdict.reason);
    assert!(
        verdict
            .reason
            .starts_with("the slow mode holds +15.0 points of launches against the base ("),
        "{}",
        verdict.reason
    );
    assert_eq!(verdict.effort.unwrap().samples, 7 * 200);
}

#[test]
fn a_slow_mode_that_stays_or_shrinks_passes() {
    for head in [20, 30, 32] {
        let verdict = slow_share(head, 30);
        assert_eq!(verdict.outcome, Outcome::Pass, "{head}: {}", verdict.reason);
    }
    let verdict = slow_share(0, 0);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(
        verdict.reason,
        "single launches of head and base together have one mode"
    );
}

/// Whatever is measured after a decision, it stands.
#[test]
fn a_process_after_the_decision_changes_nothing() {
    for ratio in [1.0, 1.03] {
        let mut record = measured(|_| ratio);
        let decided = p50(&record);
        for (process, late) in (processes(&record) as u32..).zip([1.5, 0.5, 1.0]) {
            let mut facts = pair_facts(usual("fast"), late, process);
            // A worse clock, too.
            facts.head.tick_ns = 100_000;
            record.evidence.push(Evidence::Pair {
                case: changed(),
                process,
                facts: Seen::Got(facts),
            });
            let again = p50(&record);
            assert_eq!(
                (again.outcome, again.interval),
                (decided.outcome, decided.interval)
            );
        }
    }
}

#[test]
fn times_taken_beside_a_base_are_no_baseline() {
    let record = record_beside_base();
    let (baselines, refused) = acceptable(&record, "seal");
    let of_times = baselines
        .iter()
        .filter(|baseline| baseline.key.facet() == Facet::Times);
    let variants: Vec<_> = of_times.map(|baseline| baseline.variant.as_str()).collect();
    assert_eq!(variants, ["direct"], "which was timed alone");
    let told = refused
        .iter()
        .find(|it| it.subject == case("fast", "small") && it.facet == Facet::Times)
        .unwrap();
    assert_eq!(told.outcome, Outcome::Skipped);
    assert!(
        told.reason.starts_with("timed beside a base revision; "),
        "{}",
        told.reason
    );
}
