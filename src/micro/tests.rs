use super::plan::Configuration;
use super::*;
use crate::micro::layout;
use config::Loaded;
use judge::fixture;
use model::{Arg, BuildFacts, Resources, ScalarValue};
use search::Seed;
use std::collections::BTreeMap;
use validity::{Renames, Timed};

fn values(m: i64, k: i64, s: i64, v: i64) -> Seed {
    let pairs = MACROS.iter().zip([m, k, s, v]);
    pairs
        .map(|(name, value)| ((*name).to_owned(), value))
        .collect()
}

fn configuration(m: i64, k: i64, s: i64, v: i64) -> Configuration {
    Configuration {
        values: values(m, k, s, v),
    }
}

fn loaded(configurations: &[Configuration]) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(plan::FILE), SOURCE).unwrap();
    let file = dir.path().join("gates.yaml");
    std::fs::write(&file, plan::write_gates(configurations, WITHOUT_A_GPU)).unwrap();
    config::load(&file, &Selection::default()).unwrap()
}

fn built(registers: u32) -> BuildFacts {
    let mut facts = fixture::build_facts("v");
    let assembled = facts.entries[0].resources.clone().unwrap();
    facts.entries[0].resources = Some(Resources {
        registers,
        static_shared: 0,
        ..assembled
    });
    facts
}

/// On an H100: 132 multiprocessors.
fn kept(of: Configuration, registers: u32) -> Option<Kept> {
    let loaded = loaded(std::slice::from_ref(&of));
    Kept::of(
        of,
        &built(registers),
        &loaded.plan.cases[0],
        &fixture::device(),
    )
}

fn ranking(device: Seen<model::DeviceFacts>) -> Ranking {
    let mut record = fixture::record();
    record.environment.device = device;
    Ranking::new(&record)
}

#[test]
fn a_sweep_is_every_combination_in_order() {
    let sweep = Sweep([vec![32, 64], vec![32], vec![1, 2], vec![8]]);
    let names: Vec<String> = sweep
        .configurations()
        .unwrap()
        .iter()
        .map(Configuration::name)
        .collect();
    let expected = [
        "m32_k32_s1_v8",
        "m32_k32_s2_v8",
        "m64_k32_s1_v8",
        "m64_k32_s2_v8",
    ];
    assert_eq!(names, expected);
    let twice = Sweep([vec![32, 32], vec![32], vec![1], vec![8]]);
    let said = twice.configurations().unwrap_err().to_string();
    assert_eq!(said, "parameter BLOCK_M has the value 32 twice");
}

#[test]
fn a_clocked_case_fills_the_gpu_with_blocks() {
    let of = configuration(64, 32, 2, 8);
    let loaded = loaded(std::slice::from_ref(&of));
    let checked = &loaded.plan.cases[0];
    let case = plan::clocked(checked, 264);
    let dims = |name: &str| {
        let mut tensors = case.tensors.iter();
        tensors.find(|it| it.name == name).unwrap().dims.clone()
    };
    assert_eq!(dims("q"), [1, 264, 64, 64]);
    assert_eq!(dims("out"), [1, 264, 64, 64]);
    assert_eq!(dims("k"), [1, 1, 512, 64]);
    assert_eq!(dims(plan::CYCLES), [264, 10]);
    let step = &case.steps[0];
    let launch = step.launch.as_ref().unwrap();
    assert_eq!((launch.grid, launch.block), ([264, 1, 1], [128, 1, 1]));
    assert_eq!(launch.dynamic_shared, 2 * 32 * 288);
    let scalar = |arg: &Arg| match arg {
        Arg::Scalar { value, .. } => *value,
        other => panic!("{other:?}"),
    };
    assert_eq!(scalar(&step.args[6]), ScalarValue::Int(512));
    assert_eq!(scalar(&step.args[7]), ScalarValue::Int(10));
    assert_eq!(scalar(&step.args[8]), ScalarValue::Int(40));
    assert_eq!(scalar(&checked.steps[0].args[7]), ScalarValue::Int(2));
    assert_eq!(scalar(&checked.steps[0].args[8]), ScalarValue::Int(2));
}

#[test]
fn cycles_are_of_one_query_though_blocks_share_a_multiprocessor() {
    // 128 threads of 128 registers: four blocks.
    let of = kept(configuration(64, 32, 2, 8), 128).unwrap();
    assert_eq!((of.blocks_per_sm, of.blocks), (4, 528));
    let mut ranking = ranking(Seen::Got(fixture::device()));
    // The first of each block is not counted. Means over blocks: 25600, ..., 25600 + 8 * 256.
    let block = |more: u64| -> Vec<u64> {
        let rest = (0..9).map(|repeat| 25_600 + repeat * 256 + more);
        std::iter::once(1_000_000).chain(rest).collect()
    };
    let cycles: Vec<u64> = [block(0), block(512), block(256)].concat();
    ranking.take(of.clone(), &cycles);
    let [clocked] = ranking.clocked.as_slice() else {
        panic!("{ranking:?}")
    };
    // Four blocks of 64 queries.
    assert!((clocked.cycles - (25_856.0 + 4.0 * 256.0) / 256.0).abs() < 1e-9);
    assert_eq!(clocked.quartiles, [103.0, 107.0]);
    // A clock that stands is no time.
    ranking.take(of.clone(), &[0; 20]);
    ranking.take(of, &[]);
    let codes: Vec<_> = ranking.dropped.iter().map(|it| it.code).collect();
    assert_eq!(codes, ["no-clock", "no-clock"]);
    assert_eq!(ranking.clocked.len(), 1);
    // No block fits.
    assert_eq!(kept(configuration(64, 128, 8, 8), 128), None);
}

fn three() -> Ranking {
    let mut ranking = ranking(Seen::Got(fixture::device()));
    for (of, cycles) in [
        (configuration(64, 32, 2, 8), 30_000),
        (configuration(128, 64, 2, 8), 20_000),
        (configuration(32, 32, 1, 2), 50_000),
    ] {
        ranking.take(kept(of, 128).unwrap(), &[cycles; 10]);
    }
    ranking.sort();
    ranking.dropped.push(Dropped {
        values: values(32, 48, 1, 2),
        gate: "max_err <= 0.001".to_owned(),
        code: "beyond-limit",
        message: "max_err 0.15, limit <= 0.001".to_owned(),
    });
    ranking
}

#[test]
fn the_fastest_is_first_in_every_format() {
    let ranking = three();
    let renames = Renames::from([("STAGES".to_owned(), "SMEM_STAGE".to_owned())]);
    let json = layout::json(&ranking, 2, &renames).unwrap();
    let seeds = search::read_seeds(&json).unwrap();
    let best: Vec<(i64, i64)> = seeds
        .iter()
        .map(|seed| (seed["BLOCK_M"], seed["SMEM_STAGE"]))
        .collect();
    assert_eq!(best, [(128, 2), (64, 2)]);
    let ranked = layout::read(&json).unwrap();
    assert_eq!(ranked.len(), 3);
    assert!(ranked.is_sorted_by(|a, b| a.1 <= b.1));
    insta::assert_snapshot!(layout::csv(&ranking, &renames).unwrap(), @r"
rank,BLOCK_M,BLOCK_K,SMEM_STAGE,VEC_WIDTH,cycles_per_query,lower_quartile,upper_quartile,registers,shared_bytes,blocks_per_sm,gate,code,device,driver,compiler,started
1,128,64,2,8,78.125,78.125,78.125,128,36864,2,,,NVIDIA H100 80GB HBM3,580.159.04,13.0.88,2026-11-21T01:00:00Z
2,64,32,2,8,117.1875,117.1875,117.1875,128,18432,4,,,NVIDIA H100 80GB HBM3,580.159.04,13.0.88,2026-11-21T01:00:00Z
3,32,32,1,2,195.3125,195.3125,195.3125,128,9216,8,,,NVIDIA H100 80GB HBM3,580.159.04,13.0.88,2026-11-21T01:00:00Z
,32,48,1,2,,,,,,,max_err <= 0.001,beyond-limit,NVIDIA H100 80GB HBM3,580.159.04,13.0.88,2026-11-21T01:00:00Z
");
    let options = report::terminal::Options {
        color: false,
        width: 100,
        verbosity: report::terminal::Verbosity::Normal,
    };
    let text = report::terminal::render_groups(&[layout::lay_out(&ranking, 2)], options);
    insta::assert_snapshot!(text, @r"
BLOCK_M  BLOCK_K  STAGES  VEC_WIDTH  cycles a query      quartiles  registers  shared KiB  blocks an SM
───────────────────────────────────────────────────────────────────────────────────────────────────────
    128       64       2          8            78.1    78.1 - 78.1        128          36             2
     64       32       2          8           117.2  117.2 - 117.2        128          18             4

dropped  1 configuration by max_err <= 0.001 [beyond-limit]; BLOCK_K 48, BLOCK_M 32, STAGES 1,
         VEC_WIDTH 2: max_err 0.15, limit <= 0.001
on       NVIDIA H100 80GB HBM3, driver 580.159.04, nvcc 13.0.88, 2026-11-21T01:00:00Z
         PASS: 3 of 4 configurations hold their gates and are ranked
");
}

#[test]
fn without_a_clock_nothing_is_ranked_and_nothing_is_held() {
    let mut ranking = ranking(Seen::NotRun(NotRun::SimulatorAsked));
    ranking.unranked.push(values(64, 32, 2, 8));
    assert_eq!(layout::ending(&ranking), layout::Ending::NoClock);
    let json = layout::json(&ranking, 10, &Renames::new()).unwrap();
    assert_eq!(search::read_seeds(&json).unwrap(), Vec::<Seed>::new());
    ranking.unranked.clear();
    assert_eq!(layout::ending(&ranking), layout::Ending::NoneRight);
}

#[test]
fn a_ranking_is_compared_over_the_macros_that_both_have() {
    let timed = |m: i64, stages: i64, group: i64, cost: f64| Timed {
        values: [("BLOCK_M", m), ("SMEM_STAGE", stages), ("GROUP", group)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        cost,
    };
    let timed = [
        timed(64, 1, 1, 1.0),
        timed(64, 2, 1, 0.9),
        timed(64, 2, 2, 0.7),
        timed(32, 1, 2, 1.5),
    ];
    let ranked: Vec<(Seed, f64)> = [
        // The better of two that differ in nothing that the search knows.
        (values(64, 32, 2, 8), 90.0),
        (values(64, 64, 2, 8), 80.0),
        (values(64, 32, 1, 8), 100.0),
        (values(32, 32, 1, 8), 300.0),
        // Never timed there.
        (values(32, 32, 2, 8), 10.0),
    ]
    .to_vec();
    let renames = Renames::from([("STAGES".to_owned(), "SMEM_STAGE".to_owned())]);
    let agreement = validity::agree(&ranked, &renames, &timed);
    assert_eq!(agreement.macros, ["BLOCK_M", "SMEM_STAGE"]);
    assert_eq!((agreement.count, agreement.correlation), (3, Some(1.0)));
    assert_eq!(
        layout::agreement(&agreement),
        "rank correlation (Spearman) with 3 measured combinations over BLOCK_M and SMEM_STAGE: 1.00; \
         too few for an interval"
    );
    // The other way round.
    let mut opposite = timed.clone();
    for it in &mut opposite {
        it.cost = 1.0 / it.cost;
    }
    let of = |timed: &[Timed]| validity::agree(&ranked, &renames, timed);
    assert!(of(&opposite).correlation.unwrap() < 0.0);
    // A search over other macros.
    let other = Timed {
        values: BTreeMap::from([("THREADS".to_owned(), 4)]),
        cost: 1.0,
    };
    let nothing = of(&[other]);
    assert_eq!((nothing.count, nothing.correlation), (0, None));
    assert!(layout::agreement(&nothing).contains("--as STAGES=NAME"));
}

/// As a GPU leaves it: gates of the simulator are skipped.
#[test]
fn only_a_variant_that_holds_every_gate_is_right() {
    let of = configuration(64, 32, 2, 8);
    let named = |record: model::Record| -> model::Record {
        let text = serde_json::to_string(&record).unwrap();
        serde_json::from_str(&text.replace("direct", &of.name())).unwrap()
    };
    let broken = |record: &model::Record| {
        let judgement = judge::judge(record);
        rank::find_broken(&of, record, &judgement)
    };
    assert_eq!(broken(&named(fixture::record())).unwrap(), None);

    let mut wrong = fixture::record();
    let case = fixture::case_id("direct", "small");
    fixture::recheck(&mut wrong, &case, |_, facts| {
        facts.error.max_err = model::Num(1.0);
    });
    let dropped = broken(&named(wrong)).unwrap().unwrap();
    assert_eq!(dropped.gate, "max_err <= 0.004");
    assert_eq!(dropped.code, "beyond-limit");

    // Not even checked, and of that nothing failed.
    let mut unchecked = fixture::record_without_gpu();
    unchecked
        .policy
        .gates
        .retain(|gate| gate.subject.variant() == "direct");
    let dropped = broken(&named(unchecked)).unwrap().unwrap();
    assert_eq!(
        (dropped.gate.as_str(), dropped.code),
        ("max_err <= 0.004", "no-device")
    );

    let none = broken(&fixture::record()).unwrap_err().to_string();
    assert_eq!(none, "m64_k32_s2_v8 was not judged");
}
