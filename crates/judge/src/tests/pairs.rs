//! Head against the base revision.

use super::*;

fn changed() -> CaseId {
    case_id("fast", "small")
}

fn subject() -> Subject {
    Subject::Case(changed())
}

/// A subject that did not change.
fn unchanged() -> Subject {
    case("direct", "small")
}

fn p50(record: &Record) -> Verdict {
    verdict(record, &subject(), p50_change())
}

/// As many processes as the judge asks for, each with this ratio.
fn measured(ratio: impl Fn(u32) -> f64) -> Record {
    measured_with_quiet_looks(&[], ratio)
}

fn measured_with_quiet_looks(quiet: &[u32], ratio: impl Fn(u32) -> f64) -> Record {
    let mut record = record_against_base();
    if let Some(pairing) = &mut record.plan.pairing {
        pairing.quiet = quiet.to_vec();
    }
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { .. }));
    for process in 0.. {
        let wanted = asked(&record);
        if wanted.is_empty() {
            break;
        }
        for (case, timing) in wanted {
            assert_eq!(timing, Timing::AgainstBase(Singles::Shown), "{case}");
            assert_eq!(case.variant, "fast");
            let is_small = case == changed();
            let ratio = if is_small { ratio(process) } else { 1.0 };
            record.evidence.push(Evidence::Pair {
                case,
                process,
                facts: Seen::Got(pair_facts(usual("fast"), ratio, process)),
            });
        }
    }
    record
}

fn processes(record: &Record) -> usize {
    record
        .evidence
        .iter()
        .filter(|piece| matches!(piece, Evidence::Pair { case, .. } if *case == changed()))
        .count()
}

#[test]
fn as_fast_as_the_base_passes_at_the_first_look() {
    let record = measured(|_| 1.0);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reason);
    assert_eq!(processes(&record), 6);
    let effort = verdict.effort.unwrap();
    assert_eq!((effort.processes, effort.samples), (6, 6 * 2 * 8));
    assert_eq!(effort.gpu_ms, Some(Num(180.0)));
    let [low, high] = verdict.interval.unwrap().map(|bound| bound.0);
    assert!(low < 0.0 && 0.0 < high && high < 0.02, "{low} {high}");
}

#[test]
fn what_is_plainly_unchanged_passes_at_a_quiet_look() {
    let record = measured_with_quiet_looks(&[3, 4], |_| 1.0);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reason);
    assert_eq!(processes(&record), 3);
    let [low, high] = verdict.interval.unwrap().map(|bound| bound.0);
    assert!(low < 0.0 && 0.0 < high && high < 0.02, "{low} {high}");
}

#[test]
fn what_is_slower_goes_on_after_the_quiet_looks() {
    let record = measured_with_quiet_looks(&[3, 4], |_| 1.03);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Fail, "{:?}", verdict.reason);
    assert_eq!(processes(&record), 7);
}

#[test]
fn three_per_cent_slower_fails_and_is_confirmed_in_one_process_more() {
    let record = measured(|_| 1.03);
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Fail, "{:?}", verdict.reason);
    assert_eq!(verdict.reason.code(), "beyond-change");
    let found = comparison(&verdict.reason);
    // Six decide, and the seventh confirms it.
    assert_eq!(
        (&found.against, found.processes, found.allowed),
        (&Against::Base, Some(6), Margin::Share(Num(0.02)))
    );
    assert_eq!(found.change, verdict.change.unwrap());
    assert_eq!((found.now, found.was), (verdict.measured, verdict.baseline));
    assert_eq!(processes(&record), 7);
    let effort = verdict.effort.unwrap();
    assert_eq!((effort.processes, effort.gpu_ms), (7, Some(Num(210.0))));
    assert!((verdict.change.unwrap().0 - 0.03).abs() < 1e-3);
}

#[test]
fn a_judgement_names_its_base() {
    let mut record = measured(|_| 1.03);
    let mut tiny = record.plan.case(&changed()).unwrap().clone();
    tiny.id = case_id("fast", "tiny");
    record.plan.cases.push(tiny);
    let against_base = |record: &Record| ruled(record).base;
    let found = against_base(&record).unwrap();
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
    assert_eq!(against_base(&record).unwrap().unknown.len(), 4);
    record.policy.base = None;
    assert_eq!(against_base(&record), None);
}

#[test]
fn a_verdict_against_a_stored_baseline_has_its_effort() {
    let effort = p50(&record()).effort.unwrap();
    assert_eq!(
        (effort.processes, effort.samples, effort.gpu_ms),
        (3, 3 * 4, None)
    );
    let effort = verdict(&record(), &subject(), err_change()).effort;
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
    let mut record = record_against_base();
    repair(&mut record, &changed(), |process, facts| {
        *facts = pair_facts(usual("fast"), 1.03, process);
    });
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.reason,
        Reason::TooFewProcesses { have: 6, needed: 7 }
    );
    assert_eq!(
        asked(&record),
        [(changed(), Timing::AgainstBase(Singles::Shown))]
    );
}

#[test]
fn unchanged_cases_pass_without_gpu_time() {
    let mut record = record_against_base();
    // Its own limit on times keeps it on the GPU; nothing else does.
    let own = |gate: &Gate| gate.rule == at_most(Metric::P50, 200_000.0);
    record.policy.gates.retain(|gate| !own(gate));
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    expect(
        &record,
        &unchanged(),
        p50_change(),
        Outcome::Pass,
        Reason::UnchangedSinceBase {
            revision: "origin/main".into(),
        },
    );
    assert_eq!(asked(&record), []);
    record.plan.pairing.as_mut().unwrap().unchanged = true;
    assert_eq!(asked(&record).len(), 2, "unless that is asked for");
    assert_eq!(
        verdict(&record, &unchanged(), p50_change()).outcome,
        Outcome::Inconclusive
    );
}

#[test]
fn another_launch_is_a_change() {
    let mut record = record_against_base();
    let base = record.policy.base.as_mut().unwrap();
    for case in &mut base.plan.cases {
        case.steps[0].launch.as_mut().unwrap().grid = [66, 1, 1];
    }
    assert_eq!(
        verdict(&record, &unchanged(), p50_change()).outcome,
        Outcome::Inconclusive
    );
}

#[test]
fn without_the_bases_code_nothing_passes() {
    let fault = Fault::new(FaultKind::Compile, "error: expected a `;`");
    for (broken, why) in [
        (Seen::Fault(fault.clone()), Reason::Fault(fault)),
        (
            Seen::NotRun(NotRun::NoArtifact),
            Reason::NotRun(NotRun::NoArtifact),
        ),
    ] {
        let mut record = record_against_base();
        for piece in &mut record.evidence {
            if let Evidence::Base(piece) = piece
                && let Evidence::Build { facts, .. } = piece.as_mut()
            {
                *facts = broken.clone();
            }
        }
        let verdict = p50(&record);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        let why = Box::new(why);
        assert_eq!(verdict.reason, Reason::BaseNotBuilt { why });
    }
}

#[test]
fn a_base_that_breaks_is_no_failure_of_head() {
    let mut record = record_against_base();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { case, .. } if *case == changed()));
    let fault = Fault::new(FaultKind::Base, "an illegal memory access");
    record.evidence.push(Evidence::Pair {
        case: changed(),
        process: 0,
        facts: Seen::Fault(fault.clone()),
    });
    let verdict = p50(&record);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason, Reason::Fault(fault));
    assert_eq!(asked(&record), [], "and is not tried again");
}

#[test]
fn a_new_case_is_judged_as_without_a_base() {
    let mut record = record_against_base();
    let base = record.policy.base.as_mut().unwrap();
    base.plan.cases.retain(|case| case.id.variant != "direct");
    base.gates.retain(|gate| gate.subject.variant() != "direct");
    let verdict = verdict(&record, &unchanged(), p50_change());
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(comparison(&verdict.reason).against, Against::Baseline);
}

#[test]
fn a_limit_of_base_needs_one() {
    let limit = || of_base(Metric::P50, 0.005);
    let gate = gate(subject(), limit());
    let mut alone = record();
    alone.policy.gates.push(gate.clone());
    expect(
        &alone,
        &subject(),
        limit(),
        Outcome::Skipped,
        Reason::NoBase,
    );
    let mut beside = measured(|_| 1.0);
    beside.policy.gates.push(gate);
    let verdict = verdict(&beside, &subject(), limit());
    assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reason);
}

#[test]
fn blocks_on_a_slowed_gpu_do_not_count_and_too_few_of_them_no_process() {
    let mut record = record_against_base();
    repair(&mut record, &changed(), |_, facts| {
        facts.blocks[0].throttled = true;
        // The change of that block would be seen.
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
        let mut record = record_against_base();
        repair(&mut record, &changed(), |process, facts| {
            if process == 3 {
                broken(facts);
            }
        });
        assert_eq!(p50(&record).outcome, Outcome::Inconclusive, "{at}");
    }
    let mut record = record_against_base();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { process: 1, .. }));
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    let mut record = record_against_base();
    record.plan.pairing = None;
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
}

#[test]
fn splits_the_chance_of_a_false_alarm_over_the_whole_plan() {
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
fn a_stricter_gate_of_the_base_is_loosened() {
    let mut record = record_against_base();
    let base = record.policy.base.as_mut().unwrap();
    for gate in &mut base.gates {
        if gate.rule == within(Metric::P50, 0.02) {
            gate.rule = within(Metric::P50, 0.01);
        }
    }
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let found: Vec<_> = loosened(&judgement)
        .into_iter()
        .map(|(_, demand, how)| (demand, how))
        .collect();
    let demand = BaseDemand::Gate(within(Metric::P50, 0.01));
    assert_eq!(found, vec![(demand, Loosened::Looser(p50_change())); 4]);
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
}

#[test]
fn an_edited_baseline_is_loosened_only_if_it_asks_less() {
    let edit = |change: fn(&mut Agreed)| {
        let mut record = record_against_base();
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
        loosened(&ruled(&record))
    };
    assert_eq!(edit(|_| {}), []);
    assert_eq!(edit(|agreed| agreed.value = Num(79_000.0)), [], "stricter");
    let of_p50 = |edit| {
        let metric = Metric::P50;
        let how = Loosened::BaselineEdited(vec![EditedFigure { metric, edit }]);
        [(subject(), BaseDemand::Baseline(Facet::Times), how)]
    };
    assert_eq!(
        edit(|agreed| agreed.value = Num(90_000.0)),
        of_p50(FigureEdit::Worse {
            was: Num(80_000.0),
            now: Num(90_000.0)
        })
    );
    assert_eq!(
        edit(|agreed| agreed.spread = Some(Num(0.5))),
        of_p50(FigureEdit::Wider)
    );
}

#[test]
fn a_baseline_that_the_change_removes_is_loosened() {
    let mut record = record_against_base();
    let removed = record.policy.baselines.remove(2);
    assert_eq!(removed.key.facet(), Facet::Times);
    record.policy.base.as_mut().unwrap().baselines = vec![removed];
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let is_gone = |shape| {
        let demand = BaseDemand::Baseline(Facet::Times);
        (case("direct", shape), demand, Loosened::BaselineRemoved)
    };
    assert_eq!(loosened(&judgement), ["large", "small"].map(is_gone));
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
    let mut record = record_against_base();
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
    let limit = of_base(Metric::SlowShare, 0.05);
    record.policy.gates.push(gate(subject(), limit.clone()));
    assert_eq!(
        p50(&record).outcome,
        Outcome::Pass,
        "the median does not see it"
    );
    verdict(&record, &subject(), limit)
}

#[test]
fn a_slow_mode_that_grows_from_30_to_45_in_a_hundred_fails() {
    let verdict = slow_share(45, 30);
    assert_eq!(verdict.outcome, Outcome::Fail, "{:?}", verdict.reason);
    let found = comparison(&verdict.reason);
    assert_eq!((found.metric, found.was), (Metric::SlowShare, None));
    assert_eq!((&found.against, found.now), (&Against::Base, None));
    assert!((found.change.0 - 0.15).abs() < 5e-4, "{}", found.change);
    assert_eq!(verdict.effort.unwrap().samples, 7 * 200);
}

#[test]
fn a_slow_mode_that_stays_or_shrinks_passes() {
    for head in [20, 30, 32] {
        let verdict = slow_share(head, 30);
        let reason = &verdict.reason;
        assert_eq!(verdict.outcome, Outcome::Pass, "{head}: {reason:?}");
    }
    let verdict = slow_share(0, 0);
    assert_eq!(
        (verdict.outcome, verdict.reason),
        (Outcome::Pass, Reason::OneMode)
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
fn times_taken_against_a_base_are_no_baseline() {
    let record = record_against_base();
    let (baselines, refused) = acceptable(&record, "seal");
    let variants: Vec<_> = baselines
        .iter()
        .filter(|baseline| baseline.key.facet() == Facet::Times)
        .map(|baseline| baseline.variant.as_str())
        .collect();
    assert_eq!(variants, ["direct"], "which was timed alone");
    let told = refused
        .iter()
        .find(|refusal| refusal.subject == case("fast", "small") && refusal.facet == Facet::Times)
        .unwrap();
    assert_eq!(told.outcome, Outcome::Skipped);
    assert_eq!(told.reason, Reason::TimedAgainstBase);
}
