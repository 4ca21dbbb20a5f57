use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

fn subject() -> Subject {
    Subject::Case(small())
}

fn asks(record: &Record) -> Vec<String> {
    next(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
    .iter()
    .map(|(case, _)| case.to_string())
    .collect()
}

fn may_be_timed(record: &Record) -> Admission {
    admit(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
        &small(),
        Stage::Time,
    )
}

fn no_times(mut record: Record) -> Record {
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    record
}

#[test]
fn three_per_cent_slower_fails_and_says_so() {
    let mut record = record();
    slow(&mut record, &small(), 103_000);
    let verdict = verdict(&record, &subject(), "p50 +2%");
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert!(
        verdict
            .reason
            .starts_with("3.0 % slower against the baseline (95 % interval 2."),
        "{}",
        verdict.reason
    );
    assert!(
        verdict
            .reason
            .ends_with(
                "% slower; one session; the spread between days is not known); at most 2.0 % slower is agreed"
            ),
        "{}",
        verdict.reason
    );
    assert_eq!(verdict.baseline, Some(Num(100_000.0)));
    assert!(verdict.smallest_visible.unwrap().0 > 0.0);
    assert_eq!(ruled(&record).conclusion, Conclusion::Fail);
    // It is decided: nobody asks for more.
    assert_eq!(asks(&record), [""; 0]);
}

#[test]
fn a_win_is_announced() {
    let mut record = record();
    slow(&mut record, &small(), 90_000);
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.wins.len(), 1);
    assert!((judgement.wins[0].change.0 + 0.1).abs() < 0.001);
}

#[test]
fn undecided_asks_for_more_and_then_says_what_is_missing() {
    let mut record = record();
    slow(&mut record, &small(), 102_000);
    assert_eq!(
        verdict(&record, &subject(), "p50 +2%").outcome,
        Outcome::Inconclusive
    );
    assert_eq!(asks(&record), ["k/direct@small"]);
    for process in 3..5 {
        record
            .evidence
            .push(time("direct", "small", process, 102_000));
    }
    assert_eq!(asks(&record), [""; 0], "max_processes");
    let verdict = verdict(&record, &subject(), "p50 +2%");
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert!(
        verdict.reason.contains(
            "at most 2.0 % slower is agreed, which lies within that. 5 processes can tell a change of 0."
        ),
        "{}",
        verdict.reason
    );
}

#[test]
fn first_the_planned_processes_in_the_order_of_the_plan() {
    let mut record = no_times(record());
    assert_eq!(
        asks(&record),
        [
            "k/direct@small",
            "k/direct@large",
            "k/fast@small",
            "k/fast@large"
        ]
    );
    record.plan.cases[1].timed = false;
    assert_eq!(
        asks(&record),
        ["k/direct@small", "k/fast@small", "k/fast@large"]
    );
    record.environment.device = no_gpu();
    assert_eq!(asks(&record), [""; 0]);
}

#[test]
fn a_case_that_is_not_proven_right_is_never_timed() {
    let breaks: [fn(&mut CheckFacts); 6] = [
        |facts| facts.error.non_finite = 1,
        |facts| facts.unwritten = 1,
        |facts| facts.clobbered_inputs = vec!["x".into()],
        |facts| {
            facts.differs = Some(Difference {
                launch: 2,
                at: Location {
                    tensor: "out".into(),
                    index: vec![],
                },
                elements: 1,
            })
        },
        |facts| facts.error.max_err = Num(0.0041),
        |facts| facts.error.max_err = Num(f64::NAN),
    ];
    for change in breaks {
        let mut record = no_times(record());
        assert_eq!(may_be_timed(&record), Admission::Yes);
        // In one seed only.
        recheck(&mut record, &small(), |seed, facts| {
            if seed == 2 {
                change(facts)
            }
        });
        assert!(matches!(may_be_timed(&record), Admission::No { .. }));
        assert!(!asks(&record).contains(&small().to_string()));
    }
    let mut unchecked = no_times(record());
    unchecked.policy.gates.retain(|gate| {
        !matches!(
            &gate.rule,
            Rule::Limit {
                metric: Metric::MaxErr,
                ..
            }
        )
    });
    assert_eq!(
        may_be_timed(&unchecked),
        Admission::No {
            reason: "not proven right: no absolute limit is set on its error".into()
        }
    );
}

#[test]
fn a_broken_resource_limit_stops_neither_check_nor_time() {
    let mut record = record();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.registers = 255
    });
    for stage in [Stage::Check, Stage::Time] {
        assert_eq!(
            admit(
                &record.plan,
                &record.environment,
                &record.policy,
                &record.evidence,
                &small(),
                stage
            ),
            Admission::Yes
        );
    }
    assert_eq!(
        verdict(&record, &subject(), "p50 +2%").outcome,
        Outcome::Pass
    );
}

#[test]
fn a_fault_while_timing_is_a_verdict_and_ends_it() {
    let mut record = no_times(record());
    record.evidence.push(Evidence::Time {
        case: small(),
        process: 0,
        facts: Seen::Fault(Fault {
            kind: FaultKind::Hang,
            message: "after 1000 ms".into(),
        }),
    });
    expect(
        &record,
        &subject(),
        "p50 +2%",
        Outcome::Fail,
        "hung past its deadline: after 1000 ms",
    );
    assert!(!asks(&record).contains(&small().to_string()));
}

#[test]
fn throttled_processes_are_replaced_and_never_decide() {
    let throttle = |record: &mut Record| {
        retime(record, &small(), |process, facts| {
            if process == 1 {
                // And slow with it, as such processes are.
                *facts = time_facts(150_000, process);
                facts.gpu.throttled = true;
                facts.gpu.throttle_reasons = Some(vec!["hw_thermal_slowdown".into()]);
            }
        });
    };
    let mut record = record();
    throttle(&mut record);
    expect(
        &record,
        &subject(),
        "p50 +2%",
        Outcome::Inconclusive,
        "1 of 3 timing processes ran on a throttled GPU (hw_thermal_slowdown), and 3 others are needed",
    );
    assert_eq!(
        verdict(&record, &subject(), "p50 <= 200 us").outcome,
        Outcome::Inconclusive
    );
    assert_eq!(asks(&record), ["k/direct@small"]);
    record.evidence.push(time("direct", "small", 3, 100_000));
    assert_eq!(
        verdict(&record, &subject(), "p50 +2%").outcome,
        Outcome::Pass
    );
    let other = case_id("fast", "small");
    let python = OtherProcess {
        pid: Some(4711),
        name: Some("python3".into()),
    };
    retime(&mut record, &other, |process, facts| {
        facts.gpu.other_processes = Some(match process {
            0 => Vec::new(),
            _ => vec![python.clone()],
        });
    });
    let third = case_id("fast", "large");
    retime(&mut record, &third, |process, facts| {
        if process == 2 {
            facts.gpu.throttle_reasons = None;
        }
    });
    let notes = [
        Note::Throttled {
            subject: subject(),
            processes: 1,
        },
        Note::Shared {
            subject: Subject::Case(other),
            processes: 2,
            others: vec![python],
        },
        Note::Unwatched {
            subject: Subject::Case(third),
            processes: 1,
        },
    ];
    assert_eq!(ruled(&record).notes, notes);
}

#[test]
fn processes_that_measured_something_else_or_too_little() {
    type Change = fn(&mut TimeFacts);
    let changes: [(Change, &str); 7] = [
        (
            |facts| facts.mode = Mode::Cold,
            "timing process 1 ran cold and the plan says warm; the two are never compared",
        ),
        (
            |facts| facts.launches_per_sample = 0,
            "timing process 1 launched nothing",
        ),
        (
            |facts| facts.batched_ns.clear(),
            "timing process 1 has 0 of 4 batched samples",
        ),
        (
            |facts| facts.batched_ns.truncate(3),
            "timing process 1 has 3 of 4 batched samples",
        ),
        (
            |facts| facts.single_ns.truncate(1),
            "timing process 1 has 1 of 4 single-launch samples",
        ),
        (
            |facts| facts.batched_ns = vec![0; 4],
            "p50 of a process is 0, beyond what the clock of 32 ns steps can tell",
        ),
        (|_| (), ""),
    ];
    for (change, reason) in changes {
        let mut record = record();
        retime(&mut record, &small(), |process, facts| {
            if process == 1 {
                change(facts)
            }
        });
        for gate in ["p50 +2%", "p50 <= 200 us"] {
            let verdict = verdict(&record, &subject(), gate);
            if reason.is_empty() {
                assert_eq!(verdict.outcome, Outcome::Pass);
            } else {
                assert_eq!(
                    (verdict.outcome, verdict.reason.as_str()),
                    (Outcome::Inconclusive, reason)
                );
            }
        }
    }
}

#[test]
fn a_missing_process_is_no_smaller_sample() {
    let mut record = record();
    record.evidence.retain(
        |piece| !matches!(piece, Evidence::Time { case, process: 1, .. } if *case == small()),
    );
    expect(
        &record,
        &subject(),
        "p50 +2%",
        Outcome::Inconclusive,
        "timing process 1 of k/direct@small is missing or process 2 is there twice",
    );
    record.evidence.retain(
        |piece| !matches!(piece, Evidence::Time { case, process: 2, .. } if *case == small()),
    );
    expect(
        &record,
        &subject(),
        "p50 +2%",
        Outcome::Inconclusive,
        "timed in 1 of 3 processes",
    );
}

#[test]
fn one_process_cannot_be_compared() {
    let mut record = record();
    (
        record.plan.timing.processes,
        record.plan.timing.max_processes,
    ) = (1, 1);
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { process: 1.., .. }));
    expect(
        &record,
        &subject(),
        "p50 +2%",
        Outcome::Inconclusive,
        "one timing process has no spread; two are the least",
    );
    assert_eq!(
        verdict(&record, &subject(), "p50 <= 200 us").outcome,
        Outcome::Pass
    );
}

#[test]
fn tails_come_from_single_launches() {
    let record = with_tails(record());
    let facts = Facts::new(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    let value = |metric| facts.metric(&subject(), metric).unwrap().number;
    assert!(
        (value(Metric::P50) - 100_000.0).abs() < 10.0,
        "{}",
        value(Metric::P50)
    );
    assert!((value(Metric::Min) - 99_996.0).abs() < 1.0);
    assert!((value(Metric::Max) - 100_090.0).abs() < 1.0);
    assert!((value(Metric::P90) - 103_277.0).abs() < 1.0);
    assert!((value(Metric::P99) - 103_916.0).abs() < 1.0);
    assert!(
        (value(Metric::Cv) - 0.0056).abs() < 0.0005,
        "{}",
        value(Metric::Cv)
    );
}

#[test]
fn cycles_do_not_follow_the_clock_that_times_follow() {
    let of = |record: &Record, metric| {
        let Record {
            plan,
            environment,
            policy,
            evidence,
            ..
        } = record;
        Facts::new(plan, environment, policy, evidence)
            .metric(&subject(), metric)
            .map(|value| value.number)
    };
    let usual = record();
    let cycles = of(&usual, Metric::Cycles).unwrap();
    assert!((cycles - 100_000.0 * 1.9775).abs() < 100.0, "{cycles}");

    // The clock falls by a tenth: times rise, cycles stay.
    let mut slow_clock = record();
    retime(&mut slow_clock, &small(), |_, facts| {
        for clock in [&mut facts.gpu.sm_mhz_before, &mut facts.gpu.sm_mhz_after] {
            *clock = clock.map(|clock| Num(clock.0 / 1.1));
        }
        facts
            .batched_ns
            .iter_mut()
            .for_each(|ns| *ns = *ns * 11 / 10);
    });
    assert!((of(&slow_clock, Metric::P50).unwrap() / 110_000.0 - 1.0).abs() < 0.001);
    assert!((of(&slow_clock, Metric::Cycles).unwrap() / cycles - 1.0).abs() < 0.001);

    // A clock that nobody read is no clock of zero.
    let mut unread = record();
    retime(&mut unread, &small(), |_, facts| {
        facts.gpu.sm_mhz_after = None
    });
    let ruling = of(&unread, Metric::Cycles).unwrap_err();
    assert_eq!(ruling.outcome, Outcome::Inconclusive);
    assert!(
        ruling.reason.contains("the SM clock was not measured"),
        "{}",
        ruling.reason
    );
}

#[test]
fn compare_is_the_same_judgement_against_what_base_measured() {
    let base = record();
    let mut head = record();
    head.policy.baselines.clear();
    let judgement = compare(&base, &head, Loosening::Fails);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert!(
        judgement
            .verdicts
            .iter()
            .all(|verdict| verdict.outcome == Outcome::Pass)
    );

    slow(&mut head, &small(), 103_000);
    let judgement = compare(&base, &head, Loosening::Fails);
    let failed: Vec<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .collect();
    assert_eq!(failed.len(), 1);
    assert!(
        failed[0]
            .reason
            .starts_with("3.0 % slower against the baseline"),
        "{}",
        failed[0].reason
    );

    let mut other = record();
    let Seen::Got(device) = &mut other.environment.device else {
        unreachable!()
    };
    device.name = "NVIDIA L4".into();
    let judgement = compare(&other, &head, Loosening::Fails);
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
    assert!(judgement.verdicts.iter().any(|verdict| {
        verdict
            .reason
            .contains("GPU `NVIDIA L4`, here `NVIDIA H100 80GB HBM3`")
    }));
}

#[test]
fn a_base_that_was_wrong_is_no_baseline() {
    let mut base = record();
    recheck(&mut base, &small(), |_, facts| {
        facts.error.max_err = Num(1.0)
    });
    let judgement = compare(&base, &record(), Loosening::Fails);
    let verdict = judgement
        .verdicts
        .iter()
        .find(|verdict| verdict.subject == subject() && verdict.gate == "p50 +2%")
        .unwrap();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.reason,
        "the base has no p50 to compare with: not proven right: max_err is 1, and has to be <= 0.004; out[0, 3, 17] = 0.501, want 0.5 with seed 2"
    );
}

#[test]
fn a_case_that_nobody_wants_timed_is_not_refused_for_having_no_times() {
    let mut record = record();
    record.plan.cases[0].timed = false;
    let untimed = record.plan.cases[0].id.clone();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { case, .. } if *case == untimed));
    let (baselines, refused) = acceptable(&record, "seal");
    assert_eq!(refused, Vec::new());
    let has = |facet| {
        baselines.iter().any(|baseline| {
            baseline.key.facet() == facet
                && baseline.variant == untimed.variant
                && baseline.cases.contains_key(&untimed.shape)
        })
    };
    assert!(has(Facet::Correctness) && !has(Facet::Times));
}

#[test]
fn what_may_be_agreed_on() {
    let (baselines, refused) = acceptable(&record(), "seal");
    assert_eq!((baselines.len(), refused.len()), (6, 0));
    let mut record = record();
    record.policy.baselines = baselines;
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);

    retime(&mut record, &small(), |_, facts| facts.gpu.throttled = true);
    let (_, refused) = acceptable(&record, "seal");
    assert_eq!(
        refused,
        [Refused {
            subject: subject(),
            facet: Facet::Times,
            outcome: Outcome::Inconclusive,
            reason: "3 timing processes ran on a throttled GPU".into()
        }]
    );

    let (baselines, refused) = acceptable(&record_without_gpu(), "seal");
    assert!(
        baselines
            .iter()
            .all(|baseline| baseline.key.facet() == Facet::Resources)
    );
    assert_eq!(refused.len(), 8);
    // Nothing went wrong there: it was not tried.
    assert!(refused.iter().all(|left| left.outcome == Outcome::Skipped));

    // A part of the shapes is not the worst of all of them.
    record.plan.left_out.insert("k".into());
    let (baselines, _) = acceptable(&record, "seal");
    assert!(!baselines.iter().any(|baseline| {
        baseline
            .cases
            .values()
            .any(|case| case.contains_key(&Metric::Shared))
    }));
}
