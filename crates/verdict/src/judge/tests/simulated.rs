//! A run in the simulator: what it may say, what it may not, and every way in which it goes red.

use super::doubts::withhold;
use super::*;

const FINDINGS: &str = "memory and races";
pub(super) const COUNTERS: &str = "counters +0%";

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

fn finding(message: &str, times: u64) -> Finding {
    Finding {
        message: message.into(),
        places: vec!["k.cu:1".into()],
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
            for gate in [FINDINGS, "finite", "written", "inputs intact"] {
                expect(&record, &subject, gate, Outcome::Pass, "");
            }
            expect(&record, &subject, COUNTERS, Outcome::Pass, "2 counters");
            expect(
                &record,
                &subject,
                "deterministic",
                Outcome::Skipped,
                words::REPEATS,
            );
            expect(
                &record,
                &subject,
                "agrees with driver",
                Outcome::Skipped,
                "no NVIDIA device",
            );
        }
    }
    let times = judgement.verdicts.iter().filter(|verdict| {
        verdict
            .metric
            .is_some_and(|metric| metric.facet() == Facet::Times)
    });
    let mut count = 0;
    for verdict in times {
        assert_eq!(verdict.outcome, Outcome::Skipped);
        assert_eq!(verdict.reason, "no NVIDIA device");
        count += 1;
    }
    assert!(count > 0);
    let timed = next(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    assert_eq!(timed, []);
}

#[test]
fn a_finding_fails_and_is_told_with_its_seed() {
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        if seed == 2 {
            facts.findings = (1..=5).map(|n| finding(&format!("race {n}"), n)).collect();
        }
    });
    expect(
        &record,
        &case("direct", "small"),
        FINDINGS,
        Outcome::Fail,
        "with seed 2: race 1; race 2 (2 times); race 3 (3 times); and 2 more",
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
fn what_was_not_judged_is_a_note() {
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
fn what_was_printed_is_a_note_and_no_verdict() {
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
    for (seen, outcome, reason) in [
        (
            Seen::Fault(Fault {
                kind: FaultKind::DeviceFault,
                message: "read past the end".into(),
            }),
            Outcome::Fail,
            "kernel faulted: read past the end",
        ),
        (
            Seen::Unsupported {
                reason: "wgmma".into(),
            },
            Outcome::Unsupported,
            "wgmma",
        ),
        (
            Seen::NotRun {
                reason: "over the budget".into(),
            },
            Outcome::Skipped,
            "over the budget",
        ),
    ] {
        let mut record = record_simulated();
        record.policy.baselines.clear();
        resimulate(&mut record, &small(), |_, facts| *facts = seen.clone());
        for gate in [FINDINGS, COUNTERS] {
            expect(&record, &case("direct", "small"), gate, outcome, reason);
        }
    }
    let mut record = record_simulated();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Simulation { seed: 2, .. }));
    for gate in [FINDINGS, COUNTERS] {
        expect(
            &record,
            &case("direct", "small"),
            gate,
            Outcome::Inconclusive,
            "no evidence of a simulation of k/direct@small with seed 2",
        );
    }
}

#[test]
fn what_counts_more_is_told_with_the_lines_that_count_most() {
    let mut record = record_simulated();
    recount(&mut record, |seed, facts| {
        let lines = [("k.cu:9", 100), ("k.cu:7", 20)].map(|(place, count)| LineCount {
            place: place.to_owned(),
            count: count + seed,
        });
        let more = Counter::SharedLoadWavefronts;
        facts.lines.insert(more, lines.to_vec());
        *facts.counters.get_mut(&more).unwrap() += seed;
    });
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Fail,
        // Of the launch that counts most: the second seed's.
        "shared_load_wavefronts 128 -> 130, 1.6 % more (most at k.cu:9: 102, k.cu:7: 22); no more is agreed",
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
        "shared_load_wavefronts 128 -> 129, 0.78 % more; no more is agreed",
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
    expect(
        &record,
        &subject,
        "counters +1%",
        Outcome::Pass,
        "2 counters",
    );

    let mut record = record_simulated();
    recount(&mut record, |_, facts| {
        *facts.counters.get_mut(&Counter::GlobalLoadSectors).unwrap() = 4095;
    });
    expect(&record, &subject, COUNTERS, Outcome::Pass, "2 counters");
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
        (Counter::GlobalLoadSectors, 4095.0),
        (Counter::Instructions, 1e9),
    ];
    for (counter, bound) in limits {
        let rule = Rule::Limit {
            metric: counter.into(),
            limit: Limit::Absolute {
                op: Op::Le,
                bound: Bound::Value(Num(bound)),
            },
        };
        record.policy.gates.push(gate(subject.clone(), rule));
    }
    expect(
        &record,
        &subject,
        "global_load_sectors <= 4095",
        Outcome::Fail,
        "global_load_sectors is 4096, and has to be <= 4095",
    );
    // However generous: no GPU ever counted it so.
    expect(
        &record,
        &subject,
        "instructions <= 1000000000",
        Outcome::Unsupported,
        "instructions cannot be gated: no GPU's own counters have confirmed it",
    );
}

#[test]
fn a_limit_on_a_counter_in_doubt_is_unsupported() {
    for (doubt, why) in [
        (
            Doubt::Polls,
            "what it counts follows from a schedule that no GPU shares, as it polls memory at k.cu:9",
        ),
        (
            Doubt::Uncompared,
            "the form of the access at k.cu:9 was never compared with a GPU's counters",
        ),
        (
            Doubt::RaggedLoop,
            "lanes of a warp leave the loop around k.cu:9 in different turns, and ptxas may unroll it",
        ),
        (
            Doubt::Joined,
            "ptxas may make the access at k.cu:9 and another into one",
        ),
        (
            Doubt::SplitCopy,
            "the cp.async at k.cu:9 moves other than whole sectors, which a GPU counts otherwise",
        ),
        (
            Doubt::ZeroStride,
            "the fragment at k.cu:9 is loaded with a stride of 0, of which ptxas may keep a part",
        ),
    ] {
        let subject = case("direct", "small");
        let mut record = record_simulated();
        let rule = Rule::Limit {
            metric: Counter::GlobalLoadSectors.into(),
            limit: Limit::Absolute {
                op: Op::Le,
                bound: Bound::Value(Num(4096.0)),
            },
        };
        record.policy.gates.push(gate(subject.clone(), rule));
        let limit = "global_load_sectors <= 4096";
        assert_eq!(verdict(&record, &subject, limit).outcome, Outcome::Pass);
        withhold(&mut record, Counter::GlobalLoadSectors, doubt);
        expect(
            &record,
            &subject,
            limit,
            Outcome::Unsupported,
            &format!("global_load_sectors cannot be gated: {why}"),
        );
    }
}

#[test]
fn counters_are_compared_under_their_own_key_only() {
    let subject = case("direct", "small");
    let mut record = record_simulated();
    record.environment.simulator = Some(Simulator { counter_model: 8 });
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Inconclusive,
        "the baseline holds under another key (counter model `7`, here `8`); measure here and run \
         `gatekeeper baseline update 'k/direct@small'`",
    );
    assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);

    record.policy.baselines.clear();
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert!(judgement.notes.contains(&Note::New {
        subject: subject.clone(),
        facet: Facet::Counters
    }));
    let verdict = verdict(&record, &subject, COUNTERS);
    assert_eq!(verdict.outcome, Outcome::Skipped);
    assert!(verdict.reason.starts_with("new: no baseline yet"));
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
        "shared_load_wavefronts has a baseline, and this launch cannot be held to it: no GPU's own counters have confirmed it; where that is meant, accept it with `gatekeeper baseline update 'k/direct@small'`",
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
    let found = verdict(&simulated, &subject, "max_err +10%");
    assert_eq!(found.outcome, Outcome::Skipped);
    assert!(
        found.reason.starts_with("new: no baseline yet"),
        "{}",
        found.reason
    );
    simulated.policy.baselines = acceptable(&simulated, "seal").0;
    expect(
        &simulated,
        &subject,
        "max_err +10%",
        Outcome::Pass,
        "unchanged against the baseline",
    );
}

#[test]
fn what_a_simulation_gives_is_agreed_on_under_its_own_keys() {
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
    for rule in [Rule::NoFindings, Rule::Counters { change: Num(0.0) }] {
        record.policy.gates.push(gate(subject.clone(), rule));
    }
    for gate in [FINDINGS, COUNTERS] {
        expect(
            &record,
            &subject,
            gate,
            Outcome::Skipped,
            words::NOT_SIMULATED,
        );
    }
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
    let loosened: Vec<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.gate == "not loosened: counters +0%")
        .collect();
    assert_eq!(loosened.len(), 4);
    assert_eq!(loosened[0].reason, "the head allows `counters +50%`");
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
