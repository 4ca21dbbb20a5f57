//! One index answers for either side and every architecture.

use super::*;

fn p50(index: &Index, side: Side) -> f64 {
    let view = index.view(side, None).unwrap();
    let found = view.metric(&case("fast", "small"), Metric::P50);
    found.unwrap().number
}

#[test]
fn each_side_of_a_pair_has_its_own_p50() {
    let mut record = record_against_base();
    repair(&mut record, &case_id("fast", "small"), |process, facts| {
        *facts = pair_facts(usual("fast"), 1.1, process);
    });
    let index = index(&record);
    let (head, base) = (p50(&index, Side::Head), p50(&index, Side::Base));
    assert!((head / base - 1.1).abs() < 1e-3, "{head} {base}");
    // The verdict has the same values to the bit.
    let shown = change_from_base(Metric::P50, 0.2);
    record
        .policy
        .gates
        .push(gate(case("fast", "small"), shown.clone()));
    let verdict = verdict_of(&ruled(&record), &case("fast", "small"), shown);
    assert_eq!(verdict.measured, Some(Num(head)));
    assert_eq!(verdict.baseline, Some(Num(base)));
}

#[test]
fn each_of_two_records_has_its_own_p50_and_a_run_without_base_none() {
    let mut slow = record();
    super::slow(&mut slow, &case_id("fast", "small"), 160_000);
    let usual = record();
    let two = Index::against(Some(&usual), &slow);
    assert!((p50(&two, Side::Head) - 160_000.0).abs() < 100.0);
    assert_eq!(p50(&two, Side::Base), p50(&index(&usual), Side::Head));
    let alone = index(&usual);
    assert!(alone.view(Side::Base, None).is_none());
}

/// The time that explanations show of a throttled run, which gets no verdict.
#[test]
fn p50_of_too_few_processes_is_shown_and_not_judged() {
    let mut record = record();
    let id = case_id("fast", "small");
    let judged = index(&record).head().p50_ns(&id).unwrap();
    retime(&mut record, &id, |_, facts| facts.gpu.throttled = true);
    let index = index(&record);
    let found = index.head().metric(&case("fast", "small"), Metric::P50);
    assert_eq!(found.unwrap_err().reason.code(), "throttled");
    assert_eq!(index.head().p50_ns(&id), Some(judged));
}

#[test]
fn each_architecture_has_the_counters_of_its_own_code() {
    let (id, counter) = (case_id("direct", "small"), Counter::GlobalLoadSectors);
    let newer: Arch = "sm_100".parse().unwrap();
    let mut record = record_simulated();
    let is_own = |unit: &&Unit| unit.id == unit_id("direct");
    let mut unit = record.plan.units.iter().find(is_own).unwrap().clone();
    unit.id.arch = newer;
    let facts = BuildFacts {
        ptx: Some("other code".into()),
        ..build_facts("direct")
    };
    record.evidence.push(Evidence::Build {
        unit: unit.id.clone(),
        facts: Seen::Got(facts),
    });
    record.plan.units.push(unit);
    for seed in SEEDS {
        let mut facts = simulation_facts();
        facts.counters.insert(counter, 9_999);
        record.evidence.push(Evidence::Simulation {
            case: id.clone(),
            arch: Some(newer),
            seed,
            facts: Seen::Got(facts),
        });
    }
    let index = index(&record);
    let count = |arch| {
        let metric = Metric::Counter(counter);
        let view = index.view(Side::Head, arch).unwrap();
        let found = view.metric(&case("direct", "small"), metric);
        found.unwrap().number
    };
    assert_eq!(count(Some(newer)), 9_999.0);
    assert_eq!(count(None), count(Some(arch())));
    assert_ne!(count(None), count(Some(newer)));
}

#[test]
fn the_oldest_architecture_is_simulated() {
    let mut plan = plan();
    let mut unit = plan.units[0].clone();
    for arch in ["sm_100a", "sm_80", "sm_90a"] {
        unit.id.arch = arch.parse().unwrap();
        plan.units.push(unit.clone());
    }
    let simulated = unit_to_simulate(&plan, &case_id("direct", "small")).unwrap();
    assert_eq!(simulated.id.arch.to_string(), "sm_80");
}
