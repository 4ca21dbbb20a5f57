use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

fn fault(kind: FaultKind) -> Fault {
    Fault {
        kind,
        message: "what the driver said".into(),
    }
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
    let subject = case("direct", "small");
    for (seen, outcome, reason) in [
        (
            Seen::Fault(fault(FaultKind::DeviceFault)),
            Outcome::Fail,
            "kernel faulted: what the driver said",
        ),
        (
            Seen::Fault(fault(FaultKind::Hang)),
            Outcome::Fail,
            "hung past its deadline: what the driver said",
        ),
        (
            Seen::Fault(fault(FaultKind::WorkerDied)),
            Outcome::Fail,
            "worker died: what the driver said",
        ),
        (
            Seen::Fault(fault(FaultKind::LaunchRefused)),
            Outcome::Fail,
            "launch refused: what the driver said",
        ),
        (
            Seen::Fault(fault(FaultKind::Reference)),
            Outcome::Fail,
            "no reference: what the driver said",
        ),
        (
            Seen::Fault(fault(FaultKind::Environment)),
            Outcome::Environment,
            "environment failed: what the driver said",
        ),
        (
            Seen::Unsupported {
                reason: "no sim of this".into(),
            },
            Outcome::Unsupported,
            "no sim of this",
        ),
        (
            Seen::NotRun {
                reason: "filtered out".into(),
            },
            Outcome::Skipped,
            "filtered out",
        ),
        (
            Seen::NotRun { reason: "".into() },
            Outcome::Skipped,
            "no reason was given for the check of k/direct@small with seed 1",
        ),
    ] {
        let record = check_seen(seen);
        for gate in [
            "finite",
            "written",
            "deterministic",
            "inputs intact",
            "max_err <= 0.004",
            "max_err +10%",
        ] {
            expect(&record, &subject, gate, outcome, reason);
        }
        assert_ne!(
            verdict(&record, &subject, "p50 <= 200 us").outcome,
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
    for gate in [
        "finite",
        "written",
        "deterministic",
        "inputs intact",
        "max_err <= 0.004",
    ] {
        expect(
            &record,
            &case("direct", "small"),
            gate,
            Outcome::Inconclusive,
            "no evidence of a check of k/direct@small with seed 2",
        );
    }
    assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);
}

#[test]
fn twice_observed_is_no_evidence() {
    let mut record = record();
    let again = record.evidence[0].clone();
    record.evidence.push(again);
    expect(
        &record,
        &unit("direct"),
        "built",
        Outcome::Inconclusive,
        "the build of k/direct [sm_90] was observed 2 times",
    );
}

#[test]
fn a_build_that_broke_or_reported_nothing() {
    let mut record = record();
    record.evidence[0] = Evidence::Build {
        unit: unit_id("direct"),
        facts: Seen::Fault(Fault {
            kind: FaultKind::Compile,
            message: "k.cu(3): error: x".into(),
        }),
    };
    expect(
        &record,
        &unit("direct"),
        "built",
        Outcome::Fail,
        "does not compile: k.cu(3): error: x",
    );
    expect(
        &record,
        &unit("direct"),
        "registers <= 128",
        Outcome::Fail,
        "does not compile: k.cu(3): error: x",
    );
    expect(
        &record,
        &unit("fast"),
        "has effect",
        Outcome::Inconclusive,
        "not compared with `direct`, whose code is unknown",
    );
    // The message stands above, once.
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
            Admission::No {
                reason: "k/direct [sm_90] was not built".into()
            }
        );
    }

    let mut record = super::record();
    rebuild(&mut record, "direct", |facts| facts.entries.clear());
    expect(
        &record,
        &unit("direct"),
        "built",
        Outcome::Fail,
        "the compiler reported no entry",
    );
    expect(
        &record,
        &unit("direct"),
        "registers <= 128",
        Outcome::Inconclusive,
        "no entry of k/direct [sm_90] was reported",
    );
}

#[test]
fn of_two_equal_variants_the_later_fails() {
    let mut record = record();
    rebuild(&mut record, "fast", |facts| {
        facts.identity = "code of direct".into()
    });
    expect(
        &record,
        &unit("fast"),
        "has effect",
        Outcome::Fail,
        "no effect: same machine code, launches and arguments as `direct`",
    );
    assert_eq!(
        verdict(&record, &unit("direct"), "has effect").outcome,
        Outcome::Pass
    );

    // The same code launched otherwise is an effect.
    record.plan.cases[3].launch = Some(Launch {
        grid: [66, 1, 1],
        ..launch()
    });
    assert_eq!(
        verdict(&record, &unit("fast"), "has effect").outcome,
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
        "has effect",
        Outcome::Inconclusive,
        "same machine code as `direct`, and no shape in common that could show another launch",
    );

    let mut alone = super::record();
    alone.plan.units.remove(0);
    expect(
        &alone,
        &unit("fast"),
        "has effect",
        Outcome::Skipped,
        "no sibling variant is in this run to compare with",
    );
}

#[test]
fn not_finite() {
    let mut record = record();
    recheck(&mut record, &small(), |seed, facts| {
        if seed == 2 {
            facts.error.non_finite = 12;
            facts.error.worst.as_mut().unwrap().got = Num(f64::NAN);
        }
    });
    expect(
        &record,
        &case("direct", "small"),
        "finite",
        Outcome::Fail,
        "12 of 4096 elements are not finite with seed 2, the first is out[0, 3, 17] = NaN, want 0.5",
    );
    // The figures over the finite rest are no comfort.
    expect(
        &record,
        &case("direct", "small"),
        "max_err <= 0.004",
        Outcome::Fail,
        "max_err is NaN: 12 of 4096 elements are not finite with seed 2",
    );
    expect(
        &record,
        &case("direct", "small"),
        "max_err +10%",
        Outcome::Fail,
        "max_err is NaN: 12 of 4096 elements are not finite with seed 2",
    );
    expect(
        &record,
        &case("direct", "small"),
        "p50 <= 200 us",
        Outcome::Skipped,
        "not proven right: 12 of 4096 elements are not finite with seed 2, the first is out[0, 3, 17] = NaN, want 0.5",
    );
}

#[test]
fn nothing_compared_is_no_pass() {
    let mut record = record();
    recheck(&mut record, &small(), |_, facts| facts.error.elements = 0);
    expect(
        &record,
        &case("direct", "small"),
        "finite",
        Outcome::Inconclusive,
        "no element was compared with seed 1",
    );
    expect(
        &record,
        &case("direct", "small"),
        "max_err <= 0.004",
        Outcome::Inconclusive,
        "no element was compared with seed 1",
    );
}

#[test]
fn not_written_not_deterministic_not_intact() {
    let subject = case("direct", "small");
    let mut record = record();
    recheck(&mut record, &small(), |_, facts| {
        facts.unwritten = 3;
        facts.first_unwritten = Some(Location {
            tensor: "out".into(),
            index: vec![7],
        });
        facts.differs = Some(Difference {
            launch: 4,
            at: Location {
                tensor: "out".into(),
                index: vec![1],
            },
            elements: 9,
        });
        facts.clobbered_inputs = vec!["q".into(), "k".into()];
    });
    expect(
        &record,
        &subject,
        "written",
        Outcome::Fail,
        "3 elements are never written with seed 1, the first at out[7]",
    );
    expect(
        &record,
        &subject,
        "deterministic",
        Outcome::Fail,
        "launch 4 differs from the first in 9 elements with seed 1, the first at out[1]",
    );
    expect(
        &record,
        &subject,
        "inputs intact",
        Outcome::Fail,
        "input q, k was written to with seed 1",
    );

    recheck(&mut record, &small(), |_, facts| {
        facts.overruns = vec!["y: 4 bytes past its end".into()]
    });
    expect(
        &record,
        &subject,
        "inputs intact",
        Outcome::Fail,
        "writes outside its buffers with seed 1: y: 4 bytes past its end",
    );

    record.plan.cases[0].determinism = Determinism::Declared {
        reason: "atomics".into(),
    };
    expect(
        &record,
        &subject,
        "deterministic",
        Outcome::Skipped,
        "declared non-deterministic: atomics",
    );

    let mut once = super::record();
    recheck(&mut once, &small(), |_, facts| facts.launches = 1);
    expect(
        &once,
        &subject,
        "deterministic",
        Outcome::Inconclusive,
        "1 of 8 launches were compared with seed 1",
    );
}

/// What the driver says of `direct@small`, changed.
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
    let subject = case("direct", "small");
    type Change = fn(&mut DriverFacts);
    let changes: [(Change, Outcome, &str); 7] = [
        (
            |facts| facts.entries[0].registers = 97,
            Outcome::Fail,
            "k: 96 registers, and the driver says 97",
        ),
        (
            |facts| facts.entries[0].static_shared = 1,
            Outcome::Fail,
            "k: 4096 bytes of static shared memory, and the driver says 1",
        ),
        (
            |facts| facts.entries[0].blocks_per_sm = 4,
            Outcome::Fail,
            "k: 5 blocks per SM (by the published limits), and the driver says 4",
        ),
        (
            |facts| facts.entries[0].symbol = "other".into(),
            Outcome::Fail,
            "launches other, which is not declared",
        ),
        (
            |facts| facts.entries[0].launch.grid = [1, 1, 1],
            Outcome::Fail,
            "k: launched otherwise than planned",
        ),
        (
            |facts| facts.entries.clear(),
            Outcome::Inconclusive,
            "the driver was asked about no entry",
        ),
        (
            |facts| facts.entries.push(facts.entries[0].clone()),
            Outcome::Inconclusive,
            "the driver was asked about 2 entries",
        ),
    ];
    for (change, outcome, reason) in changes {
        expect(
            &driver_says(change),
            &subject,
            "agrees with driver",
            outcome,
            reason,
        );
    }
}

#[test]
fn a_launcher_that_asks_for_more_than_it_declares() {
    let mut record = driver_says(|_| {});
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
        &case("direct", "small"),
        "agrees with driver",
        Outcome::Fail,
        "k: asks for 1024 B of dynamic shared memory and declares 512 B",
    );
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
        "p50 +2%",
        Outcome::Skipped,
        "no NVIDIA device",
    );
}

#[test]
fn a_required_or_broken_gpu_is_the_environment() {
    let mut required = record_without_gpu();
    required.policy.require_gpu = true;
    expect(
        &required,
        &case("fast", "large"),
        "p50 +2%",
        Outcome::Environment,
        "a GPU is required here: no NVIDIA device",
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
        "finite",
        Outcome::Environment,
        "environment failed: what the driver said",
    );
    assert_eq!(ruled(&broken).conclusion, Conclusion::Environment);
    // A gate that failed outranks it.
    rebuild(&mut broken, "direct", |facts| {
        facts.entries[0].resources.registers = 129
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

#[test]
fn a_device_that_no_declared_architecture_runs_on() {
    let mut record = record();
    let Seen::Got(device) = &mut record.environment.device else {
        unreachable!()
    };
    (device.major, device.minor) = (8, 9);
    let reason = "no architecture that k/direct declares runs on NVIDIA H100 80GB HBM3 (sm_89)";
    expect(
        &record,
        &case("direct", "small"),
        "agrees with driver",
        Outcome::Unsupported,
        reason,
    );
    assert!(matches!(
        admit(&record.plan, &record.environment, &record.policy, &record.evidence, &small(), Stage::Check),
        Admission::No { reason: why } if why == reason
    ));
}

#[test]
fn a_gate_on_what_is_not_there() {
    let mut record = record();
    record.policy.gates = vec![gate(case("gone", "small"), Rule::Finite)];
    expect(
        &record,
        &case("gone", "small"),
        "finite",
        Outcome::Inconclusive,
        "k/gone@small is not in the plan",
    );
    record.plan.left_out.insert("k".into());
    expect(
        &record,
        &case("gone", "small"),
        "finite",
        Outcome::Skipped,
        "k/gone@small was not selected for this run",
    );
    record.policy.gates = vec![gate(case("direct", "small"), Rule::Built)];
    expect(
        &record,
        &case("direct", "small"),
        "built",
        Outcome::Inconclusive,
        "this gate cannot stand on k/direct@small",
    );
}
