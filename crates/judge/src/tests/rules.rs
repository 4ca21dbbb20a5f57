use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

fn subject() -> Subject {
    Subject::Case(small())
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "what the driver said")
}

/// The first check of `direct@small`, as seen instead.
fn check_seen(seen: Seen<CheckFacts>) -> Record {
    let mut record = record();
    let piece = record
        .evidence
        .iter_mut()
        .find(|piece| matches!(piece, Evidence::Check { case, .. } if *case == small()));
    if let Some(Evidence::Check { facts, .. }) = piece {
        *facts = seen;
    }
    record
}

#[test]
fn each_way_of_not_being_seen_has_its_own_outcome() {
    let faults = [
        (FaultKind::DeviceFault, Outcome::Fail),
        (FaultKind::Hang, Outcome::Fail),
        (FaultKind::WorkerDied, Outcome::Fail),
        (FaultKind::LaunchRefused, Outcome::Fail),
        (FaultKind::Reference, Outcome::Fail),
        (FaultKind::Environment, Outcome::Environment),
    ];
    let faults = faults.map(|(kind, outcome)| {
        let fault = fault(kind);
        (Seen::Fault(fault.clone()), outcome, Reason::Fault(fault))
    });
    let others = [
        (
            Seen::Unsupported(Unsupported::Cubin),
            Outcome::Unsupported,
            Reason::Unsupported(Unsupported::Cubin),
        ),
        (
            Seen::NotRun(NotRun::NoArtifact),
            Outcome::Skipped,
            Reason::NotRun(NotRun::NoArtifact),
        ),
    ];
    for (seen, outcome, reason) in faults.into_iter().chain(others) {
        let record = check_seen(seen);
        for rule in [
            Rule::Finite,
            Rule::Written,
            Rule::Deterministic,
            Rule::InputsIntact,
            err_limit(),
            err_change(),
        ] {
            expect(&record, &subject(), rule, outcome, reason.clone());
        }
        assert_ne!(
            verdict(&record, &subject(), p50_limit()).outcome,
            Outcome::Pass
        );
    }
}

#[test]
fn a_seed_without_evidence_is_no_pass() {
    let mut record = record();
    record.evidence.retain(
        |piece| !matches!(piece, Evidence::Check { case, seed: 2, .. } if *case == small()),
    );
    for rule in [
        Rule::Finite,
        Rule::Written,
        Rule::Deterministic,
        Rule::InputsIntact,
        err_limit(),
    ] {
        let reason = missing_check(small(), 2);
        expect(&record, &subject(), rule, Outcome::Inconclusive, reason);
    }
    assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);
}

#[test]
fn twice_observed_is_no_evidence() {
    let mut record = record();
    let again = record.evidence[0].clone();
    record.evidence.push(again);
    let reason = Reason::EvidenceRepeated {
        piece: Piece::Build(unit_id("direct")),
        times: 2,
    };
    let outcome = Outcome::Inconclusive;
    expect(&record, &unit("direct"), Rule::Built, outcome, reason);
}

/// `direct` does not compile.
fn not_built() -> (Record, Fault) {
    let mut record = record();
    let fault = Fault::new(FaultKind::Compile, "k.cu(3): error: x");
    record.evidence[0] = Evidence::Build {
        unit: unit_id("direct"),
        facts: Seen::Fault(fault.clone()),
    };
    (record, fault)
}

#[test]
fn a_build_that_broke_or_reported_nothing() {
    let (broken, fault) = not_built();
    for rule in [Rule::Built, registers_limit()] {
        let reason = Reason::Fault(fault.clone());
        expect(&broken, &unit("direct"), rule, Outcome::Fail, reason);
    }
    expect(
        &broken,
        &unit("fast"),
        Rule::HasEffect,
        Outcome::Inconclusive,
        Reason::SiblingUnknown {
            variant: "direct".into(),
        },
    );
    // The message stands above, once.
    for stage in [Stage::Check, Stage::Time] {
        let reason = Reason::NotBuilt {
            unit: unit_id("direct"),
        };
        assert_eq!(admit(&broken, &small(), stage), Admission::No { reason });
    }

    let mut empty = record();
    rebuild(&mut empty, "direct", |facts| facts.entries.clear());
    for (rule, outcome) in [
        (Rule::Built, Outcome::Fail),
        (registers_limit(), Outcome::Inconclusive),
    ] {
        expect(&empty, &unit("direct"), rule, outcome, Reason::NoEntry);
    }
}

/// The run notes that it stopped there, and not why: that follows from the evidence before it.
#[test]
fn a_case_that_an_earlier_stage_refused_has_its_reason() {
    let refuse = |record: &mut Record| {
        for piece in &mut record.evidence {
            match piece {
                Evidence::Check { case, facts, .. } if *case == small() => {
                    *facts = Seen::NotRun(NotRun::EarlierStage);
                }
                Evidence::Driver { case, facts } if *case == small() => {
                    *facts = Seen::NotRun(NotRun::EarlierStage);
                }
                Evidence::Simulation { case, facts, .. } if *case == small() => {
                    *facts = Seen::NotRun(NotRun::EarlierStage);
                }
                _ => {}
            }
        }
    };
    let of_check = [Rule::Finite, Rule::Written, err_limit(), err_change()];
    let expect_all = |record: &Record, rules: &[Rule], outcome, reason: &Reason| {
        for rule in of_check.iter().chain(rules) {
            expect(record, &subject(), rule.clone(), outcome, reason.clone());
        }
    };
    let (mut broken, fault) = not_built();
    refuse(&mut broken);
    let reason = Reason::NotBuilt {
        unit: unit_id("direct"),
    };
    let on_gpu = [Rule::AgreesWithDriver];
    expect_all(&broken, &on_gpu, Outcome::Skipped, &reason);

    let mut elsewhere = record();
    refuse(&mut elsewhere);
    let Seen::Got(device) = &mut elsewhere.environment.device else {
        unreachable!()
    };
    (device.major, device.minor) = (8, 9);
    let no_arch = no_architecture(&elsewhere);
    expect_all(&elsewhere, &on_gpu, Outcome::Unsupported, &no_arch);

    // Where nothing stood in its way, nobody knows why it stopped.
    let mut unknown = record();
    refuse(&mut unknown);
    let stopped = Reason::NotRun(NotRun::EarlierStage);
    expect_all(&unknown, &on_gpu, Outcome::Skipped, &stopped);

    let mut simulated = record_simulated();
    refuse(&mut simulated);
    simulated.evidence[0] = Evidence::Build {
        unit: unit_id("direct"),
        facts: Seen::Fault(fault),
    };
    // No simulation is lost with it: the gate that it is built fails.
    let in_simulator = [Rule::NoFindings, Rule::Counters { change: Num(0.0) }];
    expect_all(&simulated, &in_simulator, Outcome::Skipped, &reason);
}

#[test]
fn the_later_of_two_equal_variants_fails() {
    let mut record = record();
    rebuild(&mut record, "fast", |facts| {
        facts.identity = "code of direct".into()
    });
    let direct = || "direct".to_owned();
    expect(
        &record,
        &unit("fast"),
        Rule::HasEffect,
        Outcome::Fail,
        Reason::SameCode { variant: direct() },
    );
    assert_eq!(
        verdict(&record, &unit("direct"), Rule::HasEffect).outcome,
        Outcome::Pass
    );

    // The same code launched otherwise is an effect.
    record.plan.cases[3].steps[0].launch = Some(Launch {
        grid: [66, 1, 1],
        ..launch()
    });
    assert_eq!(
        verdict(&record, &unit("fast"), Rule::HasEffect).outcome,
        Outcome::Pass
    );

    // And with no shape in common, unknown.
    record
        .plan
        .cases
        .retain(|case| (case.id.variant == "fast") == (case.id.shape == "small"));
    expect(
        &record,
        &unit("fast"),
        Rule::HasEffect,
        Outcome::Inconclusive,
        Reason::NoCommonShape { variant: direct() },
    );

    let mut alone = super::record();
    alone.plan.units.remove(0);
    expect(
        &alone,
        &unit("fast"),
        Rule::HasEffect,
        Outcome::Skipped,
        Reason::NoSibling,
    );
}

#[test]
fn outputs_that_are_not_finite_fail() {
    let mut record = record();
    recheck(&mut record, &small(), |seed, facts| {
        if seed == 2 {
            facts.error.non_finite = 12;
            facts.error.worst.as_mut().unwrap().got = Num(f64::NAN);
        }
    });
    let reason = Reason::NonFinite {
        seed: 2,
        count: 12,
        elements: 4096,
        worst: Some(Worst {
            at: Location {
                tensor: "out".into(),
                index: vec![0, 3, 17],
            },
            got: Num(f64::NAN),
            want: Num(0.5),
        }),
    };
    expect(
        &record,
        &subject(),
        Rule::Finite,
        Outcome::Fail,
        reason.clone(),
    );
    // The figures over the finite rest are no comfort.
    for rule in [err_limit(), err_change()] {
        let nan = Reason::NotANumber {
            metric: Metric::MaxErr,
            because: Some((2, 12, 4096)),
        };
        expect(&record, &subject(), rule, Outcome::Fail, nan);
    }
    let why = Box::new(reason);
    expect(
        &record,
        &subject(),
        p50_limit(),
        Outcome::Skipped,
        Reason::NotProven { why },
    );
}

#[test]
fn nothing_compared_is_no_pass() {
    let mut record = record();
    recheck(&mut record, &small(), |_, facts| facts.error.elements = 0);
    for rule in [Rule::Finite, err_limit()] {
        let reason = Reason::NothingCompared { seed: 1 };
        expect(&record, &subject(), rule, Outcome::Inconclusive, reason);
    }
}

#[test]
fn not_written_not_deterministic_not_intact() {
    let at = |index: usize| Location {
        tensor: "out".into(),
        index: vec![index],
    };
    let mut record = record();
    recheck(&mut record, &small(), |_, facts| {
        facts.unwritten = 3;
        facts.first_unwritten = Some(at(7));
        facts.differs = Some(Difference {
            launch: 4,
            at: at(1),
            elements: 9,
        });
        facts.clobbered_inputs = vec!["q".into(), "k".into()];
    });
    for (rule, reason) in [
        (
            Rule::Written,
            Reason::Unwritten {
                seed: 1,
                count: 3,
                first: Some(at(7)),
            },
        ),
        (
            Rule::Deterministic,
            Reason::Nondeterministic {
                seed: 1,
                launch: 4,
                elements: 9,
                at: at(1),
            },
        ),
        (
            Rule::InputsIntact,
            Reason::InputWritten {
                seed: 1,
                inputs: vec!["q".into(), "k".into()],
            },
        ),
    ] {
        expect(&record, &subject(), rule, Outcome::Fail, reason);
    }

    let places = vec!["y: 4 bytes past its end".to_owned()];
    recheck(&mut record, &small(), |_, facts| {
        facts.overruns.clone_from(&places);
    });
    expect(
        &record,
        &subject(),
        Rule::InputsIntact,
        Outcome::Fail,
        Reason::WroteOutside { seed: 1, places },
    );

    let because = || "atomics".to_owned();
    record.plan.cases[0].determinism = Determinism::Declared { reason: because() };
    expect(
        &record,
        &subject(),
        Rule::Deterministic,
        Outcome::Skipped,
        Reason::DeclaredNondeterministic { because: because() },
    );

    let mut once = super::record();
    recheck(&mut once, &small(), |_, facts| facts.launches = 1);
    expect(
        &once,
        &subject(),
        Rule::Deterministic,
        Outcome::Inconclusive,
        Reason::TooFewRepeats {
            seed: 1,
            have: 1,
            needed: 8,
        },
    );
}

/// Changes the driver's values for `direct@small`.
fn driver_says(change: impl Fn(&mut DriverFacts)) -> Record {
    let mut record = record();
    for piece in &mut record.evidence {
        if let Evidence::Driver {
            case,
            facts: Seen::Got(facts),
        } = piece
            && *case == small()
        {
            change(facts);
        }
    }
    record
}

#[test]
fn the_driver_disagrees() {
    type Change = fn(&mut DriverFacts);
    let entry = || "k".to_owned();
    let disagrees = |figure, ours, drivers| Reason::DriverDisagrees {
        entry: entry(),
        figure,
        ours,
        drivers,
    };
    let changes: [(Change, Outcome, Reason); 7] = [
        (
            |facts| facts.entries[0].registers = 97,
            Outcome::Fail,
            disagrees(DriverFigure::Registers, 96, 97),
        ),
        (
            |facts| facts.entries[0].static_shared = 1,
            Outcome::Fail,
            disagrees(DriverFigure::StaticShared, 4096, 1),
        ),
        (
            |facts| facts.entries[0].blocks_per_sm = 4,
            Outcome::Fail,
            disagrees(DriverFigure::BlocksPerSm, 5, 4),
        ),
        (
            |facts| facts.entries[0].symbol = "other".into(),
            Outcome::Fail,
            Reason::UndeclaredEntry {
                symbol: "other".into(),
            },
        ),
        (
            |facts| facts.entries[0].launch.grid = [1, 1, 1],
            Outcome::Fail,
            Reason::LaunchedOtherwise { entry: entry() },
        ),
        (
            |facts| facts.entries.clear(),
            Outcome::Inconclusive,
            Reason::DriverEntries {
                count: 0,
                expected: 1,
            },
        ),
        (
            |facts| facts.entries.push(facts.entries[0].clone()),
            Outcome::Inconclusive,
            Reason::DriverEntries {
                count: 2,
                expected: 1,
            },
        ),
    ];
    for (change, outcome, reason) in changes {
        let record = driver_says(change);
        expect(&record, &subject(), Rule::AgreesWithDriver, outcome, reason);
    }
}

/// The driver is asked about each step, in turn.
#[test]
fn the_driver_launches_the_steps_of_a_sequence_in_their_order() {
    let sequence = |change: fn(&mut DriverFacts)| {
        let mut record = driver_says(change);
        for case in &mut record.plan.cases {
            let mut second = case.steps[0].clone();
            second.launch.as_mut().unwrap().grid = [7, 1, 1];
            case.steps.push(second);
        }
        rebuild(&mut record, "direct", |facts| {
            let mut second = facts.entries[0].clone();
            (second.name, second.symbol) = ("l".into(), "_Z1lv".into());
            facts.entries.push(second);
        });
        record
    };
    let steps: fn(&mut DriverFacts) = |facts| {
        let mut second = facts.entries[0].clone();
        second.symbol = "_Z1lv".into();
        second.launch.grid = [7, 1, 1];
        facts.entries.push(second);
    };
    let right = verdict(&sequence(steps), &subject(), Rule::AgreesWithDriver);
    assert_eq!(right.outcome, Outcome::Pass, "{right:?}");
    expect(
        &sequence(|_| ()),
        &subject(),
        Rule::AgreesWithDriver,
        Outcome::Inconclusive,
        Reason::DriverEntries {
            count: 1,
            expected: 2,
        },
    );
    let swapped = sequence(|facts| {
        let mut second = facts.entries[0].clone();
        second.symbol = "_Z1lv".into();
        second.launch.grid = [7, 1, 1];
        facts.entries.insert(0, second);
    });
    expect(
        &swapped,
        &subject(),
        Rule::AgreesWithDriver,
        Outcome::Fail,
        Reason::UndeclaredEntry {
            symbol: "_Z1lv".into(),
        },
    );
}

#[test]
fn a_launcher_that_asks_for_more_than_it_declares() {
    let mut record = record();
    for unit in &mut record.plan.units {
        unit.call = Callable::Launcher {
            function: "launch_k".into(),
            signature: vec![CType::Stream],
            launches: vec![LaunchedEntry {
                name: "k".into(),
                dynamic_shared: 512,
            }],
        };
    }
    expect(
        &record,
        &subject(),
        Rule::AgreesWithDriver,
        Outcome::Fail,
        Reason::SharedBeyondDeclared {
            entry: "k".into(),
            asked: 1024,
            declared: Some(512),
        },
    );
}

/// Why nothing ran on the machine of `record_without_gpu`.
pub(super) fn no_device() -> Reason {
    match no_gpu() {
        Seen::NotRun(why) => Reason::NotRun(why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_gpu_skips_are_skips() {
    let record = record_without_gpu();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(
        (
            judgement.count(Outcome::Pass),
            judgement.count(Outcome::Skipped)
        ),
        (8, 36)
    );
    expect(
        &record,
        &case("fast", "large"),
        p50_change(),
        Outcome::Skipped,
        no_device(),
    );
}

#[test]
fn a_required_or_broken_gpu_is_the_environment() {
    let mut required = record_without_gpu();
    required.policy.require_gpu = true;
    let why = Box::new(no_device());
    expect(
        &required,
        &case("fast", "large"),
        p50_change(),
        Outcome::Environment,
        Reason::GpuRequired { why },
    );
    assert_eq!(ruled(&required).conclusion, Conclusion::Environment);
    required.policy.gates.truncate(4);
    assert_eq!(
        ruled(&required).conclusion,
        Conclusion::Environment,
        "also with no gate that needs it"
    );

    let mut broken = record_without_gpu();
    broken.environment.device = Seen::Fault(fault(FaultKind::Environment));
    expect(
        &broken,
        &case("fast", "large"),
        Rule::Finite,
        Outcome::Environment,
        Reason::Fault(fault(FaultKind::Environment)),
    );
    assert_eq!(ruled(&broken).conclusion, Conclusion::Environment);
    // A gate that failed outranks it.
    rebuild(&mut broken, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129
    });
    assert_eq!(ruled(&broken).conclusion, Conclusion::Fail);
}

#[test]
fn nothing_judged_is_no_pass() {
    let mut record = record_without_gpu();
    record.policy.gates.retain(Gate::needs_device);
    assert_eq!(ruled(&record).conclusion, Conclusion::NothingJudged);
    record.policy.gates.clear();
    assert_eq!(ruled(&record).conclusion, Conclusion::NothingJudged);
}

/// The reason for `direct` on the record's device.
pub(super) fn no_architecture(record: &Record) -> Reason {
    let device = record.environment.device.got().unwrap();
    Reason::NoArchitecture {
        kernel: "k".into(),
        variant: "direct".into(),
        device: device.name.clone(),
        arch: device.arch(),
    }
}

#[test]
fn a_device_that_no_declared_architecture_runs_on() {
    let mut record = record();
    let Seen::Got(device) = &mut record.environment.device else {
        unreachable!()
    };
    (device.major, device.minor) = (8, 9);
    let reason = Reason::NoArchitecture {
        kernel: "k".into(),
        variant: "direct".into(),
        device: "NVIDIA H100 80GB HBM3".into(),
        arch: "sm_89".parse().unwrap(),
    };
    assert_eq!(no_architecture(&record), reason);
    expect(
        &record,
        &subject(),
        Rule::AgreesWithDriver,
        Outcome::Unsupported,
        reason.clone(),
    );
    assert_eq!(
        admit(&record, &small(), Stage::Check),
        Admission::No { reason }
    );
}

#[test]
fn a_gate_on_a_missing_case_is_inconclusive() {
    let mut record = record();
    let gone = case("gone", "small");
    let what = || gone.to_string();
    record.policy.gates = vec![gate(gone.clone(), Rule::Finite)];
    expect(
        &record,
        &gone,
        Rule::Finite,
        Outcome::Inconclusive,
        Reason::NotInPlan { what: what() },
    );
    record.plan.left_out.insert("k".into());
    expect(
        &record,
        &gone,
        Rule::Finite,
        Outcome::Skipped,
        Reason::NotSelected { what: what() },
    );
    record.policy.gates = vec![gate(subject(), Rule::Built)];
    expect(
        &record,
        &subject(),
        Rule::Built,
        Outcome::Inconclusive,
        Reason::Misplaced { metric: None },
    );
}
