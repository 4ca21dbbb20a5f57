use super::*;
use proptest::prelude::*;

/// Ways of breaking a run, in one place or several.
#[derive(Clone, Debug)]
enum Break {
    Slow { case: usize, ns: u64 },
    Wrong { case: usize, seed: u64, err: f64 },
    NonFinite { case: usize },
    Registers { variant: usize, n: u32 },
    SameCode,
    DriverDisagrees,
    NoDevice,
    NoBaselines,
    OtherKey,
    Seen { piece: usize, how: u8 },
    Throttled { case: usize, process: u32 },
}

fn a_break() -> impl Strategy<Value = Break> {
    prop_oneof![
        (0..4usize, 90_000..110_000u64).prop_map(|(case, ns)| Break::Slow { case, ns }),
        (
            0..4usize,
            1..3u64,
            prop_oneof![Just(0.01), Just(f64::NAN), 0.0..0.01]
        )
            .prop_map(|(case, seed, err)| Break::Wrong { case, seed, err }),
        (0..4usize).prop_map(|case| Break::NonFinite { case }),
        (0..2usize, 90..140u32).prop_map(|(variant, n)| Break::Registers { variant, n }),
        Just(Break::SameCode),
        Just(Break::DriverDisagrees),
        Just(Break::NoDevice),
        Just(Break::NoBaselines),
        Just(Break::OtherKey),
        (any::<prop::sample::Index>(), 0..4u8).prop_map(|(piece, how)| Break::Seen {
            piece: piece.index(14),
            how
        }),
        (0..4usize, 0..5u32).prop_map(|(case, process)| Break::Throttled { case, process }),
    ]
}

fn nth(case: usize) -> CaseId {
    plan().cases[case % 4].id.clone()
}

fn not_seen<T>(how: u8) -> Seen<T> {
    let fault = |kind| {
        Seen::Fault(Fault {
            kind,
            message: "m".into(),
        })
    };
    match how {
        0 => fault(FaultKind::DeviceFault),
        1 => fault(FaultKind::Environment),
        2 => Seen::Unsupported { reason: "r".into() },
        _ => Seen::NotRun { reason: "r".into() },
    }
}

/// A run as the pipeline makes it: processes are added for as long as `next` asks for them.
fn run(breaks: &[Break]) -> Record {
    let mut record = record();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    let mut speeds = std::collections::BTreeMap::new();
    let mut throttled = std::collections::BTreeSet::new();
    for one in breaks {
        match one {
            Break::Slow { case, ns } => drop(speeds.insert(nth(*case), *ns)),
            Break::Wrong { case, seed, err } => recheck(&mut record, &nth(*case), |of, facts| {
                if of == *seed {
                    facts.error.max_err = Num(*err);
                }
            }),
            Break::NonFinite { case } => {
                recheck(&mut record, &nth(*case), |_, facts| {
                    facts.error.non_finite = 1
                });
            }
            Break::Registers { variant, n } => rebuild(&mut record, VARIANTS[*variant], |facts| {
                facts.entries[0].resources.registers = *n;
            }),
            Break::SameCode => {
                rebuild(&mut record, "fast", |facts| {
                    facts.identity = "code of direct".into()
                });
            }
            Break::DriverDisagrees => {
                if let Some(Evidence::Driver {
                    facts: Seen::Got(facts),
                    ..
                }) = record.evidence.get_mut(2)
                {
                    facts.entries[0].registers = 1;
                }
            }
            Break::NoDevice => {
                record.environment.device = no_gpu();
                record
                    .evidence
                    .retain(|piece| matches!(piece, Evidence::Build { .. }));
            }
            Break::NoBaselines => record.policy.baselines.clear(),
            Break::OtherKey => {
                if let Seen::Got(device) = &mut record.environment.device {
                    device.driver = "590.1".into();
                }
            }
            Break::Seen { piece, how } => match record.evidence.get_mut(*piece) {
                Some(Evidence::Build { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Check { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Driver { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Simulation { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Time { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::BaseBuild { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Pair { facts, .. }) => *facts = not_seen(*how),
                None => {}
            },
            Break::Throttled { case, process } => drop(throttled.insert((nth(*case), *process))),
        }
    }
    for process in 0.. {
        let asked = next(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        if asked.is_empty() {
            break;
        }
        for (case, _) in asked {
            let ns = *speeds.get(&case).unwrap_or(&usual(&case.variant));
            let mut facts = time_facts(ns, process);
            facts.gpu.throttled = throttled.contains(&(case.clone(), process));
            record.evidence.push(Evidence::Time {
                case,
                process,
                facts: Seen::Got(facts),
            });
        }
        assert!(process < 5, "next never ends");
    }
    record
}

fn breaks() -> impl Strategy<Value = Vec<Break>> {
    prop::collection::vec(a_break(), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the run: leaving a piece of evidence out never makes it good.
    #[test]
    fn dropping_evidence_never_turns_a_run_into_a_pass(breaks in breaks()) {
        let record = run(&breaks);
        let whole = ruled(&record).conclusion;
        for dropped in 0..record.evidence.len() {
            let mut less = record.clone();
            less.evidence.remove(dropped);
            if whole != Conclusion::Pass {
                prop_assert_ne!(ruled(&less).conclusion, Conclusion::Pass, "without {:?}", record.evidence[dropped]);
            }
        }
    }

    /// With a device, and every gate declared, no proper subset of the evidence passes at all.
    #[test]
    fn a_subset_of_a_good_run_is_not_a_good_run(keep in prop::collection::vec(any::<bool>(), 26)) {
        let mut record = record();
        let mut keep = keep.iter();
        record.evidence.retain(|_| *keep.next().unwrap());
        if record.evidence.len() < super::record().evidence.len() {
            prop_assert_ne!(ruled(&record).conclusion, Conclusion::Pass);
        }
    }

    /// Any subset in any order, of any run: no panic, the same answer twice, and order does not matter.
    #[test]
    fn the_answer_depends_on_what_was_seen_alone(
        breaks in breaks(), keep in prop::collection::vec(any::<bool>(), 40), turn in 0..40usize,
    ) {
        let mut record = run(&breaks);
        let mut keep = keep.iter();
        record.evidence.retain(|_| *keep.next().unwrap_or(&true));
        let first = ruled(&record);
        let asked = next(&record.plan, &record.environment, &record.policy, &record.evidence);
        for case in &record.plan.cases {
            for stage in [Stage::Check, Stage::Time] {
                let ask = || admit(&record.plan, &record.environment, &record.policy, &record.evidence, &case.id, stage);
                prop_assert_eq!(ask(), ask());
            }
        }
        prop_assert_eq!(&ruled(&record), &first);
        let turn = turn.min(record.evidence.len());
        record.evidence.rotate_left(turn);
        prop_assert_eq!(ruled(&record), first);
        prop_assert_eq!(next(&record.plan, &record.environment, &record.policy, &record.evidence), asked);
    }

    /// A run replayed from any of its prefixes asks for what it then got.
    #[test]
    fn a_prefix_asks_for_what_comes_next(breaks in breaks()) {
        let record = run(&breaks);
        for (at, piece) in record.evidence.iter().enumerate() {
            if let Evidence::Time { case, .. } = piece {
                let asked = next(&record.plan, &record.environment, &record.policy, &record.evidence[..at]);
                prop_assert!(asked.contains(&(case.clone(), Timing::Alone)));
            }
        }
    }

    /// Through JSON and back, a record is judged to the same bytes.
    #[test]
    fn a_stored_record_is_judged_to_the_same_bytes(breaks in breaks()) {
        let record = run(&breaks);
        let stored: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        let judged = |record: &Record| serde_json::to_string(&ruled(record)).unwrap();
        prop_assert_eq!(judged(&record), judged(&stored));
    }
}
