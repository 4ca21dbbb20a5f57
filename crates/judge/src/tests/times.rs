use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

fn subject() -> Subject {
    Subject::Case(small())
}

/// Cases that need one more timing process.
fn asks(record: &Record) -> Vec<CaseId> {
    asked(record).into_iter().map(|(case, _)| case).collect()
}

fn may_be_timed(record: &Record) -> Admission {
    admit(record, &small(), Stage::Time)
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
    let verdict = verdict(&record, &subject(), p50_change());
    assert_eq!(verdict.outcome, Outcome::Fail);
    let Reason::BeyondChange(found) = &verdict.reason else {
        panic!("{:?}", verdict.reason)
    };
    let [low, high] = found.interval.unwrap().map(|bound| bound.0);
    assert!((0.02..0.03).contains(&low) && high > 0.03, "{low} {high}");
    assert!((found.change.0 - 0.03).abs() < 1e-3, "{found:?}");
    let expected = Comparison {
        metric: Metric::P50,
        against: Against::Baseline,
        was: Some(Num(100_000.0)),
        now: verdict.measured,
        change: verdict.change.unwrap(),
        interval: verdict.interval,
        allowed: Margin::Share(Num(0.02)),
        // One session: the spread between days is not known.
        sessions: None,
        processes: Some(3),
    };
    assert_eq!(**found, expected);
    assert_eq!(verdict.baseline, Some(Num(100_000.0)));
    assert!(verdict.smallest_visible.unwrap().0 > 0.0);
    assert_eq!(ruled(&record).conclusion, Conclusion::Fail);
    // It is decided: nobody asks for more.
    assert_eq!(asks(&record), []);
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
fn undecided_asks_for_more_and_then_names_the_missing_processes() {
    let mut record = record();
    slow(&mut record, &small(), 102_000);
    assert_eq!(
        verdict(&record, &subject(), p50_change()).outcome,
        Outcome::Inconclusive
    );
    assert_eq!(asks(&record), [small()]);
    for process in 3..5 {
        record
            .evidence
            .push(time("direct", "small", process, 102_000));
    }
    assert_eq!(asks(&record), [], "max_processes");
    let verdict = verdict(&record, &subject(), p50_change());
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let Reason::Undecided {
        comparison,
        visible: Some(visible),
        needed: None,
    } = &verdict.reason
    else {
        panic!("{:?}", verdict.reason)
    };
    let [low, high] = comparison.interval.unwrap().map(|bound| bound.0);
    assert!(low < 0.02 && 0.02 < high, "{low} {high}");
    assert_eq!(
        (comparison.allowed, comparison.processes),
        (Margin::Share(Num(0.02)), Some(5))
    );
    assert!(0.0 < visible.0 && visible.0 < 0.01, "{visible}");
}

#[test]
fn first_the_planned_processes_in_the_order_of_the_plan() {
    let mut record = no_times(record());
    let (direct, fast) = (
        |shape| case_id("direct", shape),
        |shape| case_id("fast", shape),
    );
    assert_eq!(
        asks(&record),
        [
            direct("small"),
            direct("large"),
            fast("small"),
            fast("large")
        ]
    );
    record.plan.cases[1].timed = false;
    assert_eq!(
        asks(&record),
        [direct("small"), fast("small"), fast("large")]
    );
    record.environment.device = no_gpu();
    assert_eq!(asks(&record), []);
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
        assert!(!asks(&record).contains(&small()));
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
            reason: Reason::NoErrorLimit
        }
    );
}

#[test]
fn a_broken_resource_limit_stops_neither_check_nor_time() {
    let mut record = record();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 255
    });
    for stage in [Stage::Check, Stage::Time] {
        assert_eq!(admit(&record, &small(), stage), Admission::Yes);
    }
    assert_eq!(
        verdict(&record, &subject(), p50_change()).outcome,
        Outcome::Pass
    );
}

#[test]
fn a_fault_while_timing_is_a_verdict_and_ends_it() {
    let mut record = no_times(record());
    let fault = Fault::new(FaultKind::Hang, "after 1000 ms");
    record.evidence.push(Evidence::Time {
        case: small(),
        process: 0,
        facts: Seen::Fault(fault.clone()),
    });
    expect(
        &record,
        &subject(),
        p50_change(),
        Outcome::Fail,
        Reason::Fault(fault),
    );
    assert!(!asks(&record).contains(&small()));
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
        p50_change(),
        Outcome::Inconclusive,
        Reason::Throttled {
            throttled: 1,
            processes: 3,
            needed: 3,
            causes: vec!["hw_thermal_slowdown".into()],
        },
    );
    assert_eq!(
        verdict(&record, &subject(), p50_limit()).outcome,
        Outcome::Inconclusive
    );
    assert_eq!(asks(&record), [small()]);
    record.evidence.push(time("direct", "small", 3, 100_000));
    assert_eq!(
        verdict(&record, &subject(), p50_change()).outcome,
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
    let gap = |gap| Some(Reason::TimingIncomplete { process: 1, gap });
    let changes: [(Change, Option<Reason>); 7] = [
        (
            |facts| facts.mode = Mode::Cold,
            gap(TimingGap::Mode {
                ran: Mode::Cold,
                planned: Mode::Warm,
            }),
        ),
        (
            |facts| facts.launches_per_sample = 0,
            gap(TimingGap::NothingLaunched { side: Side::Head }),
        ),
        (
            |facts| facts.batched_ns.clear(),
            gap(TimingGap::Batched {
                have: 0,
                planned: 4,
            }),
        ),
        (
            |facts| facts.batched_ns.truncate(3),
            gap(TimingGap::Batched {
                have: 3,
                planned: 4,
            }),
        ),
        (
            |facts| facts.single_ns.truncate(1),
            gap(TimingGap::Singles {
                have: 1,
                planned: 4,
            }),
        ),
        (
            |facts| facts.batched_ns = vec![0; 4],
            Some(Reason::ClockTooCoarse {
                metric: Metric::P50,
                side: Side::Head,
                value: Num(0.0),
                tick_ns: 32,
            }),
        ),
        (|_| (), None),
    ];
    for (change, reason) in changes {
        let mut record = record();
        retime(&mut record, &small(), |process, facts| {
            if process == 1 {
                change(facts)
            }
        });
        for rule in [p50_change(), p50_limit()] {
            let verdict = verdict(&record, &subject(), rule);
            match &reason {
                None => assert_eq!(verdict.outcome, Outcome::Pass),
                Some(reason) => assert_eq!(
                    (verdict.outcome, &verdict.reason),
                    (Outcome::Inconclusive, reason)
                ),
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
        p50_change(),
        Outcome::Inconclusive,
        Reason::TimingIncomplete {
            process: 1,
            gap: TimingGap::Numbering,
        },
    );
    record.evidence.retain(
        |piece| !matches!(piece, Evidence::Time { case, process: 2, .. } if *case == small()),
    );
    expect(
        &record,
        &subject(),
        p50_change(),
        Outcome::Inconclusive,
        Reason::TooFewProcesses { have: 1, needed: 3 },
    );
}

/// The first of several wrong processes decides; a later one cannot make it a mere skip.
#[test]
fn the_first_process_that_is_wrong_decides() {
    let mut record = record();
    retime(&mut record, &small(), |process, facts| {
        if process == 1 {
            facts.single_ns.truncate(1);
        }
    });
    *record
        .evidence
        .iter_mut()
        .rev()
        .filter_map(|piece| match piece {
            Evidence::Time { case, facts, .. } if *case == small() => Some(facts),
            _ => None,
        })
        .next()
        .unwrap() = Seen::Unsupported(Unsupported::Clock);
    let gap = TimingGap::Singles {
        have: 1,
        planned: 4,
    };
    expect(
        &record,
        &subject(),
        p50_change(),
        Outcome::Inconclusive,
        Reason::TimingIncomplete { process: 1, gap },
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
        p50_change(),
        Outcome::Inconclusive,
        Reason::NoSpread,
    );
    assert_eq!(
        verdict(&record, &subject(), p50_limit()).outcome,
        Outcome::Pass
    );
}

#[test]
fn tails_come_from_single_launches() {
    let record = with_tails(record());
    let index = index(&record);
    let values = index.head();
    let value = |metric| values.metric(&subject(), metric).unwrap().number;
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
        let value = index(record).head().metric(&subject(), metric);
        value.map(|value| value.number)
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
    assert_eq!(
        (ruling.outcome, ruling.reason),
        (Outcome::Inconclusive, Reason::ClockUnknown)
    );
}

#[test]
fn compare_judges_as_a_run_against_the_values_of_base() {
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
    let found = comparison(&failed[0].reason);
    assert_eq!(found.against, Against::Baseline);
    assert!((found.change.0 - 0.03).abs() < 1e-3, "{found:?}");

    let mut other = record();
    let Seen::Got(device) = &mut other.environment.device else {
        unreachable!()
    };
    device.name = "NVIDIA L4".into();
    let judgement = compare(&other, &head, Loosening::Fails);
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
    let differences = vec![KeyDifference {
        field: KeyField::Gpu,
        theirs: "NVIDIA L4".into(),
        here: "NVIDIA H100 80GB HBM3".into(),
    }];
    let gpus = vec!["NVIDIA L4".to_owned()];
    let reason = Reason::OtherKey { differences, gpus };
    assert!(
        judgement
            .verdicts
            .iter()
            .any(|verdict| verdict.reason == reason)
    );
}

#[test]
fn a_base_that_was_wrong_is_no_baseline() {
    let mut base = record();
    recheck(&mut base, &small(), |_, facts| {
        facts.error.max_err = Num(1.0)
    });
    let judgement = compare(&base, &record(), Loosening::Fails);
    let verdict = verdict_of(&judgement, &subject(), p50_change());
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let broken = Reason::BeyondLimit {
        metric: Metric::MaxErr,
        value: Num(1.0),
        op: Op::Le,
        bound: Num(0.004),
        worst: Some((2, check_facts().error.worst.unwrap())),
    };
    let why = Box::new(Reason::NotProven {
        why: Box::new(broken),
    });
    let metric = Metric::P50;
    assert_eq!(verdict.reason, Reason::BaseLacks { metric, why });
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
fn throttled_times_are_not_agreed_on() {
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
            reason: Reason::ThrottledProcesses { count: 3 }
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
