use super::conclusion::expected_of;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The ways to break a run, in one place or several.
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
        (0..1000usize, 0..5u8).prop_map(|(piece, how)| Break::Seen { piece, how }),
        (0..4usize, 0..5u32).prop_map(|(case, process)| Break::Throttled { case, process }),
    ]
}

fn nth(case: usize) -> CaseId {
    plan().cases[case % 4].id.clone()
}

fn not_seen<T>(how: u8) -> Seen<T> {
    let fault = |kind| Seen::Fault(Fault::new(kind, "m"));
    match how {
        0 => fault(FaultKind::DeviceFault),
        1 => fault(FaultKind::Environment),
        2 => Seen::Unsupported(Unsupported::Cubin),
        3 => Seen::NotRun(NotRun::EarlierStage),
        _ => Seen::NotRun(NotRun::NoArtifact),
    }
}

/// Breaks the observations of each case.
fn broken(mut record: Record, breaks: &[Break]) -> Record {
    for one in breaks {
        match one {
            Break::Slow { case, ns } => slow(&mut record, &nth(*case), *ns),
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
                facts.entries[0].resources.as_mut().unwrap().registers = *n;
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
            Break::Seen { piece, how } => match nth_piece(&mut record, *piece) {
                Some(Evidence::Build { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Check { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Driver { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Simulation { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Time { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Base(piece)) => {
                    if let Evidence::Build { facts, .. } = piece.as_mut() {
                        *facts = not_seen(*how);
                    }
                }
                Some(Evidence::Pair { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Profile { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::Rival { facts, .. }) => *facts = not_seen(*how),
                Some(Evidence::BaseReference { facts, .. }) => *facts = not_seen(*how),
                Some(
                    Evidence::Reference { .. }
                    | Evidence::Reused { .. }
                    | Evidence::Exchange(_)
                    | Evidence::Code { .. },
                )
                | None => {}
            },
            Break::Throttled { case, process } => {
                retime(&mut record, &nth(*case), |of, facts| {
                    facts.gpu.throttled |= of == *process;
                });
            }
        }
    }
    record
}

fn nth_piece(record: &mut Record, at: usize) -> Option<&mut Evidence> {
    let at = at.checked_rem(record.evidence.len())?;
    record.evidence.get_mut(at)
}

/// Makes a run as the pipeline does: processes are added for as long as `next` asks for them.
fn run(breaks: &[Break]) -> Record {
    let mut untimed = record();
    untimed
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    let mut record = broken(untimed, breaks);
    let mut speeds = BTreeMap::new();
    let mut throttled = BTreeSet::new();
    for one in breaks {
        match one {
            Break::Slow { case, ns } => drop(speeds.insert(nth(*case), *ns)),
            Break::Throttled { case, process } => drop(throttled.insert((nth(*case), *process))),
            _ => {}
        }
    }
    for process in 0.. {
        let asked = asked(&record);
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

/// Draws one of the fixture's runs: on a GPU, against a base, in the simulator, or without a GPU.
fn any_run() -> impl Strategy<Value = Record> {
    prop::sample::select(vec![
        record(),
        with_tails(record()),
        record_against_base(),
        with_tails(record_against_base()),
        record_simulated(),
        record_without_gpu(),
    ])
}

/// Draws a mistake in a policy or a plan: gates on subjects that cannot have them, and limits of every kind.
fn an_oddity() -> impl Strategy<Value = fn(&mut Record)> {
    fn add(record: &mut Record, subject: Subject, rule: Rule) {
        record.policy.gates.push(gate(subject, rule));
    }
    fn accept(record: &mut Record, subjects: Vec<Subject>, instead: Rule, until: &str) {
        record.policy.accepted.push(Acceptance {
            case: "k/*".into(),
            subjects,
            left_out: false,
            allows: Allowance::Limit(instead),
            reason: "exact".into(),
            by: "jane".into(),
            until: until.into(),
            declared: "baselines/accepted.yaml:3".into(),
        });
    }
    let oddities: [fn(&mut Record); 24] = [
        |record| add(record, case("direct", "small"), Rule::Built),
        |record| add(record, unit("direct"), Rule::Finite),
        |record| add(record, unit("direct"), p50_limit()),
        |record| add(record, case("gone", "small"), Rule::Finite),
        |record| add(record, case("direct", "small"), within(Metric::P50, -1.0)),
        |record| {
            add(
                record,
                case("direct", "small"),
                within(Metric::SlowShare, 0.1),
            )
        },
        |record| {
            add(
                record,
                case("fast", "small"),
                change_from_base(Metric::P99, 0.05),
            )
        },
        |record| {
            add(
                record,
                case("fast", "small"),
                change_from_base(Metric::SlowShare, 0.05),
            )
        },
        |record| add(record, case("fast", "small"), at_most(Metric::Cv, 0.1)),
        |record| add(record, unit("fast"), at_most(Metric::Occupancy, 0.1)),
        |record| {
            let expr = expr("registers <=");
            add(record, unit("fast"), Rule::Condition { expr });
        },
        |record| {
            let expr = expr("direct.p50 <= p50 || cycles < nonsense");
            add(record, case("fast", "large"), Rule::Condition { expr });
        },
        |record| {
            let counter = Counter::GlobalLoadSectors.into();
            add(record, case("fast", "large"), at_most(counter, 1.0));
        },
        |record| {
            let limit = Limit::Anchor {
                anchor: Since::Best,
                change: Margin::Share(Num(0.05)),
            };
            let metric = Metric::P50;
            add(record, case("fast", "large"), Rule::Limit { metric, limit });
        },
        |record| {
            accept(
                record,
                vec![case("fast", "small")],
                within(Metric::P50, 0.05),
                "2027-01-31",
            )
        },
        |record| {
            accept(
                record,
                vec![unit("fast")],
                at_most(Metric::Registers, 300.0),
                "2026-01-31",
            )
        },
        |record| accept(record, Vec::new(), within(Metric::P50, 0.05), "2027-01-31"),
        |record| record.environment.started = "noon".into(),
        |record| record.policy.require_gpu = true,
        |record| record.plan.left_out = ["k".to_owned()].into(),
        |record| drop(record.plan.cases.pop()),
        |record| record.plan.cases[0].seeds.clear(),
        |record| record.policy.gates.truncate(20),
        |record| {
            for figures in record
                .policy
                .baselines
                .iter_mut()
                .flat_map(|baseline| baseline.cases.values_mut())
            {
                figures
                    .values_mut()
                    .for_each(|figure| figure.value = Num(f64::NAN));
            }
        },
    ];
    prop::sample::select(oddities.to_vec())
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
    fn the_answer_depends_on_the_evidence_alone(
        breaks in breaks(), keep in prop::collection::vec(any::<bool>(), 40), turn in 0..40usize,
    ) {
        let mut record = run(&breaks);
        let mut keep = keep.iter();
        record.evidence.retain(|_| *keep.next().unwrap_or(&true));
        let first = ruled(&record);
        let timed_next = asked(&record);
        for case in &record.plan.cases {
            for stage in [Stage::Check, Stage::Time] {
                let ask = || admit(&record, &case.id, stage);
                prop_assert_eq!(ask(), ask());
            }
        }
        prop_assert_eq!(&ruled(&record), &first);
        let turn = turn.min(record.evidence.len());
        record.evidence.rotate_left(turn);
        prop_assert_eq!(ruled(&record), first);
        prop_assert_eq!(asked(&record), timed_next);
    }

    /// A run replayed from any of its prefixes asks for what it then got.
    #[test]
    fn a_prefix_of_a_run_asks_for_its_next_timing(breaks in breaks()) {
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

    /// Whatever the run, it is judged, and every answer has one of the codes that are documented.
    #[test]
    fn every_answer_has_a_known_code(
        whole in any_run(),
        breaks in breaks(),
        odd in prop::collection::vec(an_oddity(), 0..4),
        keep in prop::collection::vec(prop::bool::weighted(0.9), 60),
    ) {
        let mut record = broken(whole.clone(), &breaks);
        odd.iter().for_each(|odd| odd(&mut record));
        let mut keep = keep.iter();
        record.evidence.retain(|_| *keep.next().unwrap_or(&true));
        let judgements = [
            ruled(&record),
            compare(&whole, &record, Loosening::Fails),
            compare(&record, &whole, Loosening::Allowed),
        ];
        for judgement in &judgements {
            let expected = expected_of(&judgement.verdicts);
            // A GPU that is required and missing is the environment's, with or without a verdict.
            let is_required = record.policy.require_gpu || whole.policy.require_gpu;
            prop_assert!(judgement.conclusion == expected || is_required);
        }
        let mut codes: Vec<_> = judgements.into_iter().flat_map(|judgement| judgement.verdicts).map(|verdict| verdict.reason.code()).collect();
        codes.extend(acceptable(&record, "seal").1.iter().map(|acceptable| acceptable.reason.code()));
        for case in &record.plan.cases {
            for stage in [Stage::Check, Stage::Time] {
                if let Admission::No { reason } = admit(&record, &case.id, stage) {
                    codes.push(reason.code());
                }
            }
        }
        asked(&record);
        let known: BTreeSet<_> = Reason::codes().map(|code| code.code).collect();
        for code in codes {
            prop_assert!(known.contains(code), "{}", code);
        }
    }
}
