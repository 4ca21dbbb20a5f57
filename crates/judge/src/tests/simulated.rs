//! A run in the simulator: what it may say, what it may not, and every way in which it goes red.

use super::doubts::withhold;
use super::rules::no_device;
use super::*;

/// No counter is worse than its baseline.
pub(super) const COUNTERS: Rule = Rule::Counters { change: Num(0.0) };

fn small() -> CaseId {
    case_id("direct", "small")
}

pub(super) fn recount(record: &mut Record, change: impl Fn(u64, &mut SimulationFacts)) {
    resimulate(record, &small(), |seed, facts| {
        if let Seen::Got(facts) = facts {
            change(seed, facts);
        }
    });
}

/// How the counters of a launch hold none of which is withheld.
fn all_hold() -> Reason {
    Reason::CountersHold {
        compared: 2,
        withheld: Vec::new(),
    }
}

fn finding(message: &str, times: u64) -> Finding {
    Finding {
        entry: None,
        kind: FindingKind::SharedRace,
        message: message.into(),
        places: vec![Place {
            at: "k.cu:1".into(),
            line: None,
        }],
        accesses: Vec::new(),
        block: [0; 3],
        thread: [0; 3],
        address: None,
        times,
    }
}

#[test]
fn it_checks_and_counts_and_takes_no_times() {
    let record = record_simulated();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    for variant in VARIANTS {
        for shape in SHAPES {
            let subject = case(variant, shape);
            for rule in [
                Rule::NoFindings,
                Rule::Finite,
                Rule::Written,
                Rule::InputsIntact,
            ] {
                expect(&record, &subject, rule, Outcome::Pass, Reason::Held);
            }
            expect(&record, &subject, COUNTERS, Outcome::Pass, all_hold());
            for (rule, reason) in [
                (Rule::Deterministic, Reason::RepeatsByConstruction),
                (Rule::AgreesWithDriver, no_device()),
            ] {
                expect(&record, &subject, rule, Outcome::Skipped, reason);
            }
        }
    }
    let is_time = |metric: Metric| metric.facet() == Facet::Times;
    let times: Vec<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.metric().is_some_and(is_time))
        .map(|verdict| (verdict.outcome, verdict.reason.clone()))
        .collect();
    assert_eq!(times, vec![(Outcome::Skipped, no_device()); 8]);
    assert_eq!(asked(&record), []);
}

#[test]
fn a_finding_fails_and_is_told_with_its_seed() {
    let race = |times: u64| finding(&format!("race {times}"), times);
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        if seed == 2 {
            facts.findings = [1, 2, 3, 4, 5].map(race).to_vec();
        }
    });
    expect(
        &record,
        &case("direct", "small"),
        Rule::NoFindings,
        Outcome::Fail,
        Reason::Findings {
            seed: 2,
            first: [1, 2, 3].map(race).to_vec(),
            more: 2,
            accepted: 0,
        },
    );
    assert_eq!(ruled(&record).conclusion, Conclusion::Fail);
    // Nor is what it counted agreed on.
    let (baselines, refused) = acceptable(&record, "seal");
    let of_case =
        |baseline: &&Baseline| baseline.variant == "direct" && baseline.cases.contains_key("small");
    assert_eq!(baselines.iter().filter(of_case).count(), 0);
    let mut facets: Vec<_> = refused
        .iter()
        .filter(|refused| refused.subject == case("direct", "small"))
        .map(|refused| refused.facet)
        .collect();
    facets.sort();
    assert_eq!(facets, [Facet::Correctness, Facet::Times, Facet::Counters]);
}

#[test]
fn unjudged_accesses_are_a_note() {
    let mut record = record_simulated();
    recount(&mut record, |_, facts| {
        facts.not_judged = vec!["races in global memory".into()];
    });
    let told = Note::NotJudged {
        subject: case("direct", "small"),
        what: "races in global memory".into(),
    };
    let notes = ruled(&record).notes;
    assert_eq!(notes.iter().filter(|note| **note == told).count(), 1);
    assert!(!ruled(&record_simulated()).notes.contains(&told));
}

#[test]
fn printed_output_is_a_note_and_no_verdict() {
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        facts.printed = (seed > 1).then(|| Printed {
            text: format!("seed {seed}\n"),
            left_out: 7,
        });
    });
    let told = Note::Printed {
        subject: case("direct", "small"),
        seed: 2,
        text: "seed 2\n".into(),
        left_out: 7,
    };
    let with = ruled(&record);
    let printed = |note: &&Note| matches!(note, Note::Printed { .. });
    assert_eq!(
        with.notes.iter().filter(printed).collect::<Vec<_>>(),
        [&told]
    );
    assert_eq!(with.verdicts, ruled(&record_simulated()).verdicts);
}

#[test]
fn a_launch_that_was_not_seen_passes_nothing() {
    let fault = Fault::new(FaultKind::DeviceFault, "read past the end");
    let over_budget = NotRun::OverBudget {
        estimate: 2_000_000,
        budget: 1_000_000,
    };
    for (seen, outcome, reason) in [
        (
            Seen::Fault(fault.clone()),
            Outcome::Fail,
            Reason::Fault(fault),
        ),
        (
            Seen::Unsupported(Unsupported::Cubin),
            Outcome::Unsupported,
            Reason::Unsupported(Unsupported::Cubin),
        ),
        (
            Seen::NotRun(over_budget.clone()),
            Outcome::Skipped,
            Reason::NotRun(over_budget),
        ),
    ] {
        let mut record = record_simulated();
        record.policy.baselines.clear();
        resimulate(&mut record, &small(), |_, facts| *facts = seen.clone());
        for rule in [Rule::NoFindings, COUNTERS] {
            let subject = case("direct", "small");
            expect(&record, &subject, rule, outcome, reason.clone());
        }
    }
    let mut record = record_simulated();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Simulation { seed: 2, .. }));
    for rule in [Rule::NoFindings, COUNTERS] {
        expect(
            &record,
            &case("direct", "small"),
            rule,
            Outcome::Inconclusive,
            Reason::EvidenceMissing(Piece::Simulation {
                case: small(),
                seed: 2,
            }),
        );
    }
}

/// More passes through shared memory than the baseline's 128.
fn more_wavefronts(now: f64, lines: Vec<LineCount>) -> Reason {
    let rise = CounterRise {
        counter: Counter::SharedLoadWavefronts,
        was: Num(128.0),
        now: Num(now),
        change: Num((now - 128.0) / 128.0),
        lines,
    };
    Reason::CountersRose {
        against: Against::Baseline,
        rises: vec![rise],
        allowed: Num(0.0),
    }
}

#[test]
fn a_counter_that_rose_names_its_lines_with_most_counts() {
    let lines = |seed: u64| {
        let lines = [("k.cu:9", 100), ("k.cu:7", 20)].map(|(place, count)| LineCount {
            place: place.to_owned(),
            count: count + seed,
        });
        lines.to_vec()
    };
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        let more = Counter::SharedLoadWavefronts;
        facts.lines.insert(more, lines(seed));
        *facts.counters.get_mut(&more).unwrap() += seed;
    });
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Fail,
        // The lines of the launch that counts most: the second seed's.
        more_wavefronts(130.0, lines(2)),
    );
}

#[test]
fn one_wavefront_more_fails_and_one_less_is_a_win() {
    let subject = case("direct", "small");
    let mut record = record_simulated();
    // One seed is enough: the worst of them counts.
    recount(&mut record, |seed, facts| {
        if seed == 2 {
            *facts
                .counters
                .get_mut(&Counter::SharedLoadWavefronts)
                .unwrap() += 1;
        }
    });
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Fail,
        more_wavefronts(129.0, Vec::new()),
    );
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    assert_eq!(
        judgement.counters,
        [CounterChange {
            subject: subject.clone(),
            counter: Counter::SharedLoadWavefronts,
            measured: Num(129.0),
            baseline: Num(128.0),
            change: Num(1.0 / 128.0),
        }]
    );
    // As much as is allowed is no more than is allowed.
    let gates = record.policy.gates.iter_mut();
    for gate in gates.filter(|gate| matches!(gate.rule, Rule::Counters { .. })) {
        gate.rule = Rule::Counters { change: Num(0.01) };
    }
    let rule = Rule::Counters { change: Num(0.01) };
    expect(&record, &subject, rule, Outcome::Pass, all_hold());

    let mut record = record_simulated();
    recount(&mut record, |_, facts| {
        *facts.counters.get_mut(&Counter::GlobalLoadSectors).unwrap() = 4095;
    });
    expect(&record, &subject, COUNTERS, Outcome::Pass, all_hold());
    let wins = ruled(&record).wins;
    assert_eq!(
        wins.iter().map(|win| win.metric).collect::<Vec<_>>(),
        [Metric::Counter(Counter::GlobalLoadSectors)]
    );
}

#[test]
fn a_counter_alone_can_have_a_limit() {
    let subject = case("direct", "small");
    let mut record = record_simulated();
    let limits = [
        at_most(Counter::GlobalLoadSectors.into(), 4095.0),
        at_most(Counter::Instructions.into(), 1e9),
    ];
    let gates = limits.clone().map(|rule| gate(subject.clone(), rule));
    record.policy.gates.extend(gates);
    let [sectors, instructions] = limits;
    expect(
        &record,
        &subject,
        sectors,
        Outcome::Fail,
        Reason::BeyondLimit {
            metric: Counter::GlobalLoadSectors.into(),
            value: Num(4096.0),
            op: Op::Le,
            bound: Num(4095.0),
            worst: None,
        },
    );
    // However generous: no GPU ever counted it so.
    expect(
        &record,
        &subject,
        instructions,
        Outcome::Unsupported,
        Reason::CounterWithheld {
            counter: Counter::Instructions,
            why: None,
        },
    );
}

#[test]
fn a_limit_on_a_counter_in_doubt_is_unsupported() {
    let counter = Counter::GlobalLoadSectors;
    for doubt in [
        Doubt::Polls,
        Doubt::Uncompared,
        Doubt::RaggedLoop,
        Doubt::Joined,
        Doubt::SplitCopy,
        Doubt::ZeroStride,
        Doubt::AlteredProducts,
    ] {
        let subject = case("direct", "small");
        let mut record = record_simulated();
        let limit = || at_most(counter.into(), 4096.0);
        record.policy.gates.push(gate(subject.clone(), limit()));
        assert_eq!(verdict(&record, &subject, limit()).outcome, Outcome::Pass);
        let why = Some(withhold(&mut record, counter, doubt));
        expect(
            &record,
            &subject,
            limit(),
            Outcome::Unsupported,
            Reason::CounterWithheld { counter, why },
        );
    }
}

#[test]
fn counters_are_compared_under_their_own_key_only() {
    let subject = case("direct", "small");
    let mut record = record_simulated();
    record.environment.simulator = Some(Simulator { counter_model: 8 });
    let differences = vec![KeyDifference {
        field: KeyField::CounterModel,
        theirs: "7".into(),
        here: "8".into(),
    }];
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Inconclusive,
        Reason::OtherKey {
            differences,
            gpus: Vec::new(),
        },
    );
    assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);

    record.policy.baselines.clear();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert!(judgement.notes.contains(&Note::New {
        subject: subject.clone(),
        facet: Facet::Counters
    }));
    let new = Reason::New {
        metric: Counter::GlobalLoadSectors.into(),
        lacking: Lacking::File,
    };
    expect(&record, &subject, COUNTERS, Outcome::Skipped, new);
}

#[test]
fn a_counter_that_cannot_be_held_to_its_baseline_any_more_is_not_forgotten() {
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        if seed == 1 {
            facts.counters.remove(&Counter::SharedLoadWavefronts);
        }
    });
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Inconclusive,
        Reason::CountersLost {
            lost: vec![(Counter::SharedLoadWavefronts, None)],
        },
    );
}

/// Errors of a GPU and of the simulator are figures of two kinds.
#[test]
fn errors_are_compared_with_those_of_the_simulator() {
    let subject = case("direct", "small");
    let mut simulated = record_simulated();
    let of_gpu = acceptable(&record(), "seal").0;
    assert!(of_gpu.iter().any(|b| b.key.facet() == Facet::Correctness));
    simulated.policy.baselines = of_gpu;
    let metric = Metric::MaxErr;
    let lacking = Lacking::File;
    let new = Reason::New { metric, lacking };
    expect(&simulated, &subject, err_change(), Outcome::Skipped, new);
    simulated.policy.baselines = acceptable(&simulated, "seal").0;
    let same = verdict(&simulated, &subject, err_change());
    assert_eq!(
        (same.outcome, same.reason.code()),
        (Outcome::Pass, "within-change")
    );
    let found = comparison(&same.reason);
    assert_eq!(
        (&found.against, found.change),
        (&Against::Baseline, Num(0.0))
    );
}

#[test]
fn simulated_values_have_baselines_under_their_own_keys() {
    let record = record_simulated();
    let (baselines, refused) = acceptable(&record, "seal");
    for variant in VARIANTS {
        let mut kinds: Vec<_> = baselines
            .iter()
            .filter(|baseline| baseline.variant == variant)
            .map(|baseline| format!("{:?}", baseline.key))
            .map(|key| key.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        kinds.sort();
        assert_eq!(kinds, ["Counters", "Resources", "SimulatedCorrectness"]);
    }
    // Only what the gates rest on.
    let counters = baselines
        .iter()
        .find(|baseline| baseline.key.facet() == Facet::Counters)
        .unwrap();
    assert_eq!(counters.cases["small"].len(), 2);
    assert_eq!(counters.origin.device, "simulator");
    assert!(refused.iter().all(|refused| refused.facet == Facet::Times));
}

#[test]
fn on_a_gpu_the_simulators_gates_are_skipped_by_name() {
    let mut record = record();
    let subject = case("direct", "small");
    for rule in [Rule::NoFindings, COUNTERS] {
        record
            .policy
            .gates
            .push(gate(subject.clone(), rule.clone()));
        let reason = Reason::NotSimulated;
        expect(&record, &subject, rule, Outcome::Skipped, reason);
    }
}

/// The case was simulated as well, with the same findings for each seed.
fn simulate_beside_gpu(record: &mut Record, case: &CaseId, found: &[Finding]) {
    let subject = Subject::Case(case.clone());
    record.policy.gates.push(gate(subject, Rule::NoFindings));
    let seeds = record.plan.case(case).unwrap().seeds.clone();
    for seed in seeds {
        record.evidence.push(Evidence::Simulation {
            case: case.clone(),
            arch: None,
            seed,
            facts: Seen::Got(SimulationFacts {
                findings: found.to_vec(),
                ..simulation_facts()
            }),
        });
    }
}

#[test]
fn beside_a_gpu_a_race_fails_and_a_clean_case_holds() {
    let subject = case("direct", "small");
    let judged = |found: &[Finding]| {
        let mut record = record();
        simulate_beside_gpu(&mut record, &small(), found);
        let judgement = ruled(&record);
        let verdict = verdict_of(&judgement, &subject, Rule::NoFindings);
        (verdict.outcome, verdict.reason.code(), judgement.conclusion)
    };
    let clean = judged(&[]);
    assert_eq!(clean, (Outcome::Pass, "held", Conclusion::Pass));
    let racy = judged(&[finding("a race", 3)]);
    assert_eq!(racy, (Outcome::Fail, "findings", Conclusion::Fail));

    // A launch that the simulator did not finish is no clean one.
    let mut record = record();
    simulate_beside_gpu(&mut record, &small(), &[]);
    let over = NotRun::OverBudget {
        estimate: 2,
        budget: 1,
    };
    resimulate(&mut record, &small(), |_, facts| {
        *facts = Seen::NotRun(over.clone());
    });
    let verdict = verdict(&record, &subject, Rule::NoFindings);
    assert_eq!(verdict.outcome, Outcome::Skipped);
}

#[test]
fn beside_a_gpu_hazards_are_notes_as_the_base_was_not_simulated() {
    let hazard = Finding {
        kind: FindingKind::WarpHazard,
        ..finding("a hazard", 3)
    };
    let mut record = record_against_base();
    simulate_beside_gpu(&mut record, &case_id("fast", "small"), &[hazard]);
    let verdict = verdict(&record, &case("fast", "small"), Rule::NoFindings);
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Pass, "held")
    );
}

#[test]
fn a_required_gpu_is_not_replaced_by_a_simulator() {
    let mut record = record_simulated();
    record.policy.require_gpu = true;
    assert_eq!(ruled(&record).conclusion, Conclusion::Environment);
}

#[test]
fn a_loosened_limit_on_counters_fails_a_comparison() {
    let base = record_simulated();
    let mut head = base.clone();
    let gates = head.policy.gates.iter_mut();
    for gate in gates.filter(|gate| matches!(gate.rule, Rule::Counters { .. })) {
        gate.rule = Rule::Counters { change: Num(0.5) };
    }
    let judgement = compare(&base, &head, Loosening::Fails);
    let found: Vec<_> = loosened(&judgement)
        .into_iter()
        .map(|(_, demand, how)| (demand, how))
        .collect();
    let wider = Rule::Counters { change: Num(0.5) };
    let change = (BaseDemand::Gate(COUNTERS), Loosened::Looser(wider));
    assert_eq!(found, vec![change; 4]);
    assert_eq!(
        compare(&head, &base, Loosening::Fails).conclusion,
        Conclusion::Pass
    );
}

#[test]
fn the_oldest_architecture_is_simulated() {
    let mut plan = plan();
    let mut unit = plan.units[0].clone();
    for arch in ["sm_100a", "sm_80", "sm_90a"] {
        unit.id.arch = arch.parse().unwrap();
        plan.units.push(unit.clone());
    }
    let simulated = unit_to_simulate(&plan, &small()).unwrap();
    assert_eq!(simulated.id.arch.to_string(), "sm_80");
}

/// `deterministic` is a gate in the simulator, too, where a launch leaves something in variables.
#[test]
fn judges_launches_that_find_variables_of_earlier_ones() {
    let kept = |differs: Option<KeptDifference>| KeptFacts {
        variables: vec![KeptVariable {
            name: "tickets".into(),
            place: None,
        }],
        differs,
    };
    let (subject, id) = (Subject::Case(small()), &small());
    let mut record = record_simulated();
    recheck(&mut record, id, |seed, facts| {
        facts.kept = (seed == 2).then(|| Box::new(kept(None)));
    });
    expect(
        &record,
        &subject,
        Rule::Deterministic,
        Outcome::Pass,
        Reason::Held,
    );
    let differs = KeptDifference {
        over: LaterData::Same { launch: 2 },
        at: Location {
            tensor: "out".into(),
            index: vec![0],
        },
        elements: 9,
    };
    recheck(&mut record, id, |seed, facts| {
        facts.kept = (seed == 2).then(|| Box::new(kept(Some(differs.clone()))));
    });
    expect(
        &record,
        &subject,
        Rule::Deterministic,
        Outcome::Fail,
        Reason::FirstLaunchOnly {
            seed: 2,
            differs,
            kept: kept(None).variables,
        },
    );
}

const DRAWN: u64 = 1 << 32;

/// A run with a drawn seed, with which everything is as with the last one.
fn record_with_drawn_seed() -> Record {
    let mut record = record_simulated();
    let seeds = record.plan.cases[0].seeds.clone();
    let drawn = DRAWN;
    record.plan.drawn = Some(DrawnSeed {
        seed: drawn,
        commit: "0123456789abcdef".into(),
    });
    for case in &mut record.plan.cases {
        case.seeds.push(drawn);
    }
    let last = *seeds.last().unwrap();
    let mut more = Vec::new();
    for piece in &record.evidence {
        let mut piece = piece.clone();
        match &mut piece {
            Evidence::Check { seed, .. } | Evidence::Simulation { seed, .. } if *seed == last => {
                *seed = drawn;
                more.push(piece);
            }
            _ => {}
        }
    }
    record.evidence.extend(more);
    record
}

/// A drawn seed breaks an absolute limit, and is no part of what is compared with baselines.
#[test]
fn a_drawn_seed_counts_for_absolute_limits_only() {
    let mut record = record_with_drawn_seed();
    let id = record.plan.cases[0].id.clone();
    let failed = |record: &Record| {
        ruled(record)
            .verdicts
            .into_iter()
            .filter(|verdict| verdict.subject == Subject::Case(id.clone()))
            .filter(|verdict| verdict.outcome == Outcome::Fail)
            .map(|verdict| verdict.question)
            .collect::<Vec<_>>()
    };
    assert_eq!(failed(&record), []);
    recheck(&mut record, &id, |seed, facts| {
        if seed == DRAWN {
            facts.error.max_err = Num(1.0);
        }
    });
    let broken = failed(&record);
    let is_absolute = |asked: &Question| {
        matches!(
            asked,
            Question::Gate(Rule::Limit {
                metric: Metric::MaxErr,
                limit: Limit::Absolute { .. },
            })
        )
    };
    assert!(
        broken.len() == 1 && broken.iter().all(is_absolute),
        "{broken:?}"
    );
}

/// The largest error of a codec is that of one seed, and so is the error that it bounds.
#[test]
fn errors_of_a_drawn_seed_are_held_to_a_bound_by_errors_of_the_same_seed() {
    let mut record = record_with_drawn_seed();
    let id = record.plan.cases[0].id.clone();
    let expr = Expr {
        text: "mean_err + 0.1".to_owned(),
        constants: Default::default(),
    };
    let rule = Rule::Limit {
        metric: Metric::MaxErr,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr),
        },
    };
    let subject = Subject::Case(id.clone());
    record
        .policy
        .gates
        .push(gate(subject.clone(), rule.clone()));
    let mut judged = |max_err: f64, mean_err: f64| {
        recheck(&mut record, &id, |seed, facts| {
            if seed == DRAWN {
                facts.error.max_err = Num(max_err);
                facts.error.mean_err = Num(mean_err);
            }
        });
        let found = verdict(&record, &subject, rule.clone());
        let number = |number: Option<Num>| number.map(|num| num.0);
        (found.outcome, number(found.measured), number(found.limit))
    };
    let (outcome, measured, limit) = judged(1.0, 0.95);
    assert_eq!(outcome, Outcome::Pass);
    assert!(
        measured < Some(0.1) && limit < Some(0.2),
        "{measured:?} {limit:?}"
    );
    let broken = judged(1.0, 0.5);
    assert_eq!(broken, (Outcome::Fail, Some(1.0), Some(0.6)));
    let unknown = judged(f64::NAN, 0.5);
    assert_eq!(unknown.0, Outcome::Fail);
}
