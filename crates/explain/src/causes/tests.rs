//! Tests two records that have each cause in launch, counters, clocks or inputs, and two that do not.

mod compiled;

use crate::diagnosis::diagnose;
use crate::{Cause, CauseClass, Measure, Sides, explain};
use judge::{Index, fixture};
use model::{
    self, BuildFacts, Callable, CaseId, Counter, Evidence, LaunchBounds, LineCount, LineProfile,
    Metric, Num, ProfileMetric, Record, Seen, Stall, Subject, Unit,
};
use std::collections::BTreeMap;

fn id() -> CaseId {
    fixture::case_id("direct", "small")
}

fn explained(base: &Record, head: &Record) -> Vec<Cause> {
    explain(&Sides::from_index(&Index::against(Some(base), head), &id()).unwrap())
}

fn classes(base: &Record, head: &Record) -> Vec<CauseClass> {
    let causes = explained(base, head);
    causes.into_iter().map(|cause| cause.class).collect()
}

/// Returns a record whose case is simulated to these counts.
fn counting(counts: &[(Counter, u64)]) -> Record {
    let mut record = fixture::record_simulated();
    fixture::resimulate(&mut record, &id(), |_, facts| {
        if let Seen::Got(facts) = facts {
            facts.counters = counts.iter().copied().collect();
        }
    });
    record
}

fn at_line(record: &mut Record, counter: Counter, place: &str, count: u64) {
    fixture::resimulate(record, &id(), |_, facts| {
        if let Seen::Got(facts) = facts {
            let line = LineCount {
                place: place.to_owned(),
                count,
                text: None,
            };
            facts.lines.entry(counter).or_default().push(line);
        }
    });
}

fn loads(requests: u64, sectors: u64, ideal: u64) -> Vec<(Counter, u64)> {
    vec![
        (Counter::GlobalLoadRequests, requests),
        (Counter::GlobalLoadSectors, sectors),
        (Counter::GlobalLoadSectorsIdeal, ideal),
    ]
}

#[test]
fn loads_of_more_sectors_each_no_longer_coalesce() {
    let mut base = counting(&loads(1000, 4000, 4000));
    let mut head = counting(&loads(1000, 32_000, 4000));
    at_line(&mut base, Counter::GlobalLoadSectors, "k.cu:3", 3000);
    at_line(&mut base, Counter::GlobalLoadSectors, "k.cu:5", 1000);
    at_line(&mut head, Counter::GlobalLoadSectors, "k.cu:0", 30_000);
    at_line(&mut head, Counter::GlobalLoadSectors, "k.cu:5", 29_000);
    at_line(
        &mut head,
        Counter::GlobalLoadSectors,
        "k.cu:3 inlined at k.cu:9",
        3000,
    );
    let causes = explained(&base, &head);
    assert_eq!(causes[0].class, CauseClass::CoalescingLost);
    let places: Vec<_> = causes[0]
        .places
        .iter()
        .map(|place| place.line.to_string())
        .collect();
    assert_eq!(places, ["k.cu:5"], "the other line counts what it did");
    assert_eq!(classes(&head, &base), [CauseClass::NothingChanged]);
}

#[test]
fn more_loads_are_more_traffic() {
    let (base, head) = (
        counting(&loads(1000, 4000, 4000)),
        counting(&loads(3000, 12_000, 12_000)),
    );
    assert_eq!(classes(&base, &head), [CauseClass::MoreTraffic]);
    // Four narrow loads in place of a wide one touch its sectors four times.
    let narrow = counting(&loads(4000, 16_000, 4000));
    assert_eq!(classes(&base, &narrow), [CauseClass::MoreTraffic]);
    // This is the effect of a boundary.
    let same = counting(&loads(1010, 4050, 4000));
    assert_eq!(classes(&base, &same), [CauseClass::NothingChanged]);
}

#[test]
fn passes_beyond_the_least_are_conflicts() {
    let stores = |requests, passes, ideal| {
        counting(&[
            (Counter::SharedStoreRequests, requests),
            (Counter::SharedStoreWavefronts, passes),
            (Counter::SharedStoreWavefrontsIdeal, ideal),
        ])
    };
    let base = stores(1000, 1000, 1000);
    assert_eq!(
        classes(&base, &stores(1000, 8000, 1000)),
        [CauseClass::BankConflicts]
    );
    // There are twice as many stores, and none of them conflicts.
    assert_eq!(
        classes(&base, &stores(2000, 2000, 2000)),
        [CauseClass::NothingChanged]
    );
    let matrix = |passes| {
        counting(&[
            (Counter::MatrixLoads, 100),
            (Counter::MatrixLoadWavefronts, passes),
        ])
    };
    assert_eq!(
        classes(&matrix(400), &matrix(3200)),
        [CauseClass::BankConflicts]
    );
    assert_eq!(
        classes(&matrix(400), &matrix(400)),
        [CauseClass::NothingChanged]
    );
}

#[test]
fn fewer_lanes_for_each_instruction_are_divergence() {
    let issued = |instructions, lanes| {
        counting(&[
            (Counter::Instructions, instructions),
            (Counter::LaneInstructions, lanes),
        ])
    };
    let base = issued(10_000, 320_000);
    assert_eq!(
        classes(&base, &issued(20_000, 330_000))[0],
        CauseClass::Divergence
    );
    // All lanes do more work.
    assert_eq!(
        classes(&base, &issued(20_000, 640_000)),
        [CauseClass::NothingChanged]
    );
}

/// Returns a record whose base has 16 blocks on an SM, and a grid that fills all of them several times.
fn resident(registers: u32, shared: u32, bounds: LaunchBounds, blocks: u32) -> Record {
    let mut record = counting(&[(Counter::Instructions, 1_000_000)]);
    fixture::rebuild(&mut record, "direct", |facts| {
        let entry = &mut facts.entries[0];
        entry.resources.as_mut().unwrap().registers = registers;
        entry.resources.as_mut().unwrap().static_shared = shared;
        entry.bounds = bounds;
    });
    for case in &mut record.plan.cases {
        let launch = case.steps[0].launch.as_mut().unwrap();
        launch.grid = [blocks, 1, 1];
        launch.dynamic_shared = 0;
    }
    record
}

#[test]
fn lost_occupancy_names_its_present_limit() {
    let free = LaunchBounds::default();
    let many = 132 * 64;
    let base = resident(32, 0, free, many);
    let first = |head: &Record| classes(&base, head)[0];
    assert_eq!(
        first(&resident(64, 0, free, many)),
        CauseClass::OccupancyRegisters
    );
    assert_eq!(
        first(&resident(32, 64 * 1024, free, many)),
        CauseClass::OccupancyShared
    );
    // More registers cost no warp here, and then there are fewer of them.
    assert_eq!(
        first(&resident(30, 0, free, many)),
        CauseClass::NothingChanged
    );
    assert_eq!(
        classes(&resident(64, 0, free, many), &base),
        [CauseClass::NothingChanged]
    );
}

#[test]
fn a_bound_that_was_dropped_is_named_before_the_registers() {
    let asked = LaunchBounds {
        blocks: Some(16),
        ..LaunchBounds::default()
    };
    let base = resident(32, 0, asked, 132 * 64);
    let head = resident(40, 0, LaunchBounds::default(), 132 * 64);
    assert_eq!(classes(&base, &head)[0], CauseClass::LaunchBound);
    // The bound is the same, so the registers have another cause.
    let head = resident(40, 0, asked, 132 * 64);
    assert_eq!(classes(&base, &head)[0], CauseClass::OccupancyRegisters);
}

#[test]
fn blocks_beyond_a_full_wave_leave_a_tail() {
    let free = LaunchBounds::default();
    let waves = |blocks| resident(32, 0, free, blocks);
    let one = 132 * 16;
    let causes = explained(&waves(one), &waves(one + 88));
    assert_eq!(causes[0].class, CauseClass::Launch);
    let [tail] = causes[0].consequences.as_slice() else {
        panic!("{causes:?}")
    };
    assert_eq!(tail.class, CauseClass::TailWave);
    assert_eq!(tail.share, None, "nobody timed it");
    // Two full waves have no tail, a part of one wave has none, and after many waves it does not matter.
    for (base, head) in [(one, 2 * one), (one / 2, one), (40 * one, 40 * one + 88)] {
        let classes = classes(&waves(base), &waves(head));
        assert_eq!(classes, [CauseClass::Launch], "{base} {head}");
    }
}

#[test]
fn a_tail_accounts_for_a_share_of_the_time() {
    let timed = |blocks: u32, ns: u64| {
        let mut record = fixture::record();
        for case in &mut record.plan.cases {
            case.steps[0].launch.as_mut().unwrap().grid = [blocks, 1, 1];
        }
        fixture::slow(&mut record, &id(), ns);
        let simulated = counting(&[(Counter::Instructions, 1_000_000)]);
        let is_of_it =
            |piece: &model::Evidence| matches!(piece, model::Evidence::Simulation { .. });
        record
            .evidence
            .extend(simulated.evidence.into_iter().filter(is_of_it));
        record
    };
    // 96 registers allow five blocks of 128 threads on each SM.
    let (base, head) = (timed(132 * 5, 100_000), timed(132 * 5 + 1, 400_000));
    let causes = explained(&base, &head);
    // Nothing but the launch differs.
    assert_eq!((causes.len(), causes[0].class), (1, CauseClass::Launch));
    assert_eq!(causes[0].share, Some(Num(1.0)));
    let tail = &causes[0].consequences[0];
    assert_eq!(tail.class, CauseClass::TailWave);
    // One block of 661 needs a second wave, and the launch takes four times as long. Processes differ a little.
    let share = tail.share.unwrap().0;
    let longer = 2.0 * 660.0 / 661.0 - 1.0;
    assert!((share - longer / 3.0).abs() < 1e-3, "{share}");
}

#[test]
fn a_group_has_other_kernels_and_nothing_else_is_told_of_it() {
    let (mut base, mut head) = (fixture::record(), fixture::record());
    head.plan.cases[0].dims.insert("N".to_owned(), 65);
    for record in [&mut base, &mut head] {
        record.plan.units[0].call = Callable::Together {
            modules: Vec::new(),
            steps: Vec::new(),
        };
    }
    assert_eq!(classes(&base, &head), [CauseClass::Kernels]);
}

#[test]
fn other_changes_are_named() {
    let base = fixture::record();
    let mut head = fixture::record();
    head.plan.cases[0].dims.insert("N".to_owned(), 65);
    assert_eq!(classes(&base, &head), [CauseClass::Data]);

    let mut head = fixture::record();
    if let Seen::Got(device) = &mut head.environment.device {
        device.driver = "590.10".to_owned();
    }
    assert_eq!(classes(&base, &head), [CauseClass::Driver]);

    let mut head = fixture::record();
    if let Seen::Got(compiler) = &mut head.environment.compiler {
        compiler.version = "13.1.2".to_owned();
    }
    assert_eq!(classes(&base, &head), [CauseClass::Compiler]);

    assert_eq!(classes(&base, &base), [CauseClass::NothingChanged]);
    let mut head = fixture::record();
    fixture::rebuild(&mut head, "direct", |facts| facts.identity.push('2'));
    assert_eq!(classes(&base, &head), [CauseClass::CodeChanged]);
}

#[test]
fn a_slower_clock_accounts_for_no_more_than_it_would_save() {
    let clocked = |mhz: f64, ns: u64| {
        let mut record = fixture::record();
        fixture::slow(&mut record, &id(), ns);
        fixture::retime(&mut record, &id(), |_, facts| {
            facts.gpu.sm_mhz_before = Some(Num(mhz));
            facts.gpu.sm_mhz_after = Some(Num(mhz));
        });
        record
    };
    let base = clocked(2000.0, 100_000);
    let causes = explained(&base, &clocked(1600.0, 150_000));
    assert_eq!(causes[0].class, CauseClass::Clocks);
    // At the base's clock, a fifth of 150 us can be saved, which are 50 us more than before. Processes differ a little.
    let most = causes[0].at_most.unwrap().0;
    assert!((most - 0.6).abs() < 1e-3, "{most}");
    assert_eq!(explained(&base, &clocked(1600.0, 120_000))[0].at_most, None);
    assert_eq!(
        classes(&base, &clocked(1995.0, 150_000)),
        [CauseClass::NothingChanged]
    );
}

#[test]
fn finds_lost_l2_reuse_in_profiles() {
    let profiled = |hits: f64, dram: f64, sectors: u64| {
        let mut record = fixture::record_profiled();
        fixture::reprofile(&mut record, &id(), |_, facts| {
            let metrics = &mut facts.kernels[0].metrics;
            metrics.insert(ProfileMetric::L2HitRate, Seen::Got(Num(hits)));
            metrics.insert(ProfileMetric::DramBytes, Seen::Got(Num(dram)));
            let counters = &mut facts.kernels[0].counters;
            counters.insert(Counter::GlobalLoadSectors, sectors);
            counters.insert(Counter::GlobalStoreSectors, 1000);
            counters.insert(Counter::AsyncCopySectors, 0);
        });
        record
    };
    let base = profiled(0.8, 1e6, 300_000);
    assert_eq!(
        classes(&base, &profiled(0.4, 3e6, 300_000)),
        [CauseClass::L2Reuse]
    );
    // The kernel also asks for more, so this is not reuse alone.
    assert_eq!(
        classes(&base, &profiled(0.4, 3e6, 900_000)),
        [CauseClass::NothingChanged]
    );
    assert_eq!(
        classes(&base, &profiled(0.8, 1e6, 300_000)),
        [CauseClass::NothingChanged]
    );
}

/// On a GPU nothing is simulated.
#[test]
fn finds_the_same_causes_in_profiles_as_in_counters() {
    let profiled = |passes: u64| {
        let mut record = fixture::record_profiled();
        fixture::reprofile(&mut record, &id(), |_, facts| {
            let kernel = &mut facts.kernels[0];
            kernel.counters = BTreeMap::from([
                (Counter::SharedLoadRequests, 1000),
                (Counter::SharedLoadWavefronts, passes),
                (Counter::SharedLoadWavefrontsIdeal, 1000),
            ]);
            let line = |number: u32, counters: &[(Counter, u64)]| LineProfile {
                place: format!("k.cu:{number}"),
                instructions: 1000,
                samples: BTreeMap::new(),
                counters: counters.iter().copied().collect(),
            };
            kernel.lines = vec![
                line(7, &[(Counter::SharedLoadRequests, 500)]),
                line(9, &[(Counter::SharedLoadWavefronts, passes)]),
            ];
        });
        record
    };
    let causes = explained(&profiled(1000), &profiled(32_000));
    assert_eq!(causes[0].class, CauseClass::BankConflicts);
    assert_eq!(causes[0].places[0].line.number, 9);
    assert_eq!(
        classes(&profiled(1000), &profiled(1000)),
        [CauseClass::NothingChanged]
    );
}

/// Where no rule knows, the lines that take longer are named, whatever the profilers' rates of sampling.
#[test]
fn names_slower_lines_if_no_rule_finds_a_cause() {
    let profiled = |identity: &str, ns: f64, samples: [u64; 2]| {
        let mut record = fixture::record_profiled();
        fixture::rebuild(&mut record, "direct", |facts| {
            facts.identity = identity.into()
        });
        fixture::reprofile(&mut record, &id(), |_, facts| {
            let kernel = &mut facts.kernels[0];
            kernel.duration_ns = Num(ns);
            let line = |number: usize, samples: u64| LineProfile {
                place: format!("k.cu:{number}"),
                instructions: 1000,
                samples: BTreeMap::from([(Stall::LongScoreboard, samples)]),
                counters: BTreeMap::new(),
            };
            kernel.lines = vec![line(7, samples[0]), line(9, samples[1])];
            kernel.stalls = BTreeMap::from([(Stall::LongScoreboard, Num(ns / 1e4))]);
        });
        record
    };
    let base = profiled("a", 1e5, [100, 100]);
    // The launch takes twice as long and is sampled half as often, so line 7 takes as long as before.
    let causes = explained(&base, &profiled("b", 2e5, [50, 150]));
    assert_eq!(causes[0].class, CauseClass::CodeChanged);
    let lines: Vec<u32> = causes[0]
        .places
        .iter()
        .map(|place| place.line.number)
        .collect();
    assert_eq!(lines, [9]);
    let stall = &causes[0].values[0];
    assert_eq!(stall.measure, Measure::Stall(Stall::LongScoreboard));
    assert_eq!((stall.base, stall.head), (Num(10.0), Num(20.0)));
    // The launch takes as long as before, so no line takes longer.
    let causes = explained(&base, &profiled("b", 1e5, [70, 70]));
    assert!(causes[0].places.is_empty());
}

/// Head is built for an older architecture too, which is the one that it is simulated for first.
#[test]
fn an_architecture_that_head_adds_hides_no_cause() {
    let with_ptx = |mut record: Record| {
        fixture::rebuild(&mut record, "direct", |facts| {
            facts.ptx = Some("ptx".into());
        });
        record
    };
    let base = with_ptx(counting(&loads(1000, 4000, 4000)));
    let mut head = with_ptx(counting(&loads(1000, 32_000, 4000)));
    let is_own = |unit: &&Unit| unit.id == fixture::unit_id("direct");
    let mut older = head.plan.units.iter().find(is_own).unwrap().clone();
    older.id.arch = "sm_80".parse().unwrap();
    head.evidence.push(Evidence::Build {
        unit: older.id.clone(),
        facts: Seen::Got(BuildFacts {
            ptx: Some("ptx".into()),
            ..fixture::build_facts("direct")
        }),
    });
    head.plan.units.push(older);
    assert_eq!(classes(&base, &head)[0], CauseClass::CoalescingLost);
    assert_eq!(classes(&head, &base), [CauseClass::NothingChanged]);
}

/// The middle of the three processes is not their mean.
#[test]
fn causes_and_diagnoses_show_the_p50_of_the_verdict() {
    let mut record = fixture::record();
    fixture::retime(&mut record, &id(), |process, facts| {
        for sample in &mut facts.batched_ns {
            *sample += u64::from(process * process) * 1000;
        }
    });
    let index = Index::against(Some(&record), &record);
    let subject = Subject::Case(id());
    let judged = index.head().metric(&subject, Metric::P50);
    let judged = judged.unwrap().number;
    let sides = Sides::from_index(&index, &id()).unwrap();
    let diagnosis = diagnose(index.head(), &id());
    assert_eq!(sides.head.p50_ns, Some(judged));
    assert_eq!(sides.base.p50_ns, Some(judged));
    assert_eq!(diagnosis.time_ns, Some(Num(judged)));
}

#[test]
fn what_a_launch_of_other_blocks_brings_about_follows_from_it() {
    let launched = |grid: u32, sectors: u64, identity: &str| {
        let mut record = counting(&loads(sectors / 4, sectors, sectors));
        for case in &mut record.plan.cases {
            case.steps[0].launch.as_mut().unwrap().grid = [grid, 1, 1];
        }
        fixture::rebuild(&mut record, "direct", |facts| {
            facts.identity.push_str(identity)
        });
        record
    };
    let base = launched(64, 4000, "");
    let causes = explained(&base, &launched(128, 8000, ""));
    assert_eq!((causes.len(), causes[0].class), (1, CauseClass::Launch));
    assert_eq!(causes[0].consequences[0].class, CauseClass::MoreTraffic);
    // The code is other code, too. A few more blocks do not read twice as much.
    let head = launched(70, 8000, "2");
    assert_eq!(
        classes(&base, &head),
        [CauseClass::MoreTraffic, CauseClass::Launch]
    );
    let causes = explained(&base, &launched(128, 8000, "2"));
    assert_eq!(causes[0].consequences[0].class, CauseClass::MoreTraffic);
}
