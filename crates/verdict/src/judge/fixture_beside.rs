//! The run of the fixture, timed beside a base revision.

use super::*;

pub fn pairing() -> Pairing {
    Pairing {
        looks: vec![6, 10],
        blocks: 4,
        least_blocks: 4,
        blocks_ns: 40_000_000,
        sample_ns: 200_000,
        singles: 4,
        false_alarms: Num(0.01),
        misses: Num(0.01),
        seed: 1,
        unchanged: false,
    }
}

/// Head takes `ratio` times what base does, which takes `ns`; processes differ by 0.05 %.
pub fn pair_facts(ns: u64, ratio: f64, process: u32) -> PairFacts {
    let base = time_facts(ns, process);
    let wander = 1.0 + 0.0005 * (f64::from(process % 3) - 1.0);
    let scaled = |samples: &[u64]| {
        let samples = samples.iter();
        samples
            .map(|&sample| (sample as f64 * ratio * wander).round() as u64)
            .collect()
    };
    let twice = |samples: &[u64]| [samples, samples].concat();
    let base = TimeFacts {
        batched_ns: twice(&base.batched_ns),
        ..base
    };
    PairFacts {
        head: TimeFacts {
            batched_ns: scaled(&base.batched_ns),
            single_ns: scaled(&base.single_ns),
            ..base.clone()
        },
        base,
        blocks: (0..4)
            .map(|block| Block {
                order: match block % 2 {
                    0 => BlockOrder::Abba,
                    _ => BlockOrder::Baab,
                },
                sm_mhz: Num(1980.0),
                throttled: false,
            })
            .collect(),
        device_us: 30_000,
    }
}

/// Compared with a base revision: `fast` changed and takes as long, `direct` did not change.
pub fn record_beside_base() -> Record {
    let mut record = record();
    record.plan.pairing = Some(pairing());
    let base = Base {
        revision: "origin/main".into(),
        commit: "0a34415aaaaa".into(),
        plan: plan(),
        gates: gates(),
        baselines: Vec::new(),
        accepted: Vec::new(),
        loosening: Loosening::Fails,
    };
    record.policy.base = Some(base);
    for variant in VARIANTS {
        let mut facts = build_facts(variant);
        if variant == "fast" {
            facts.identity = "before the change".into();
        }
        record.evidence.push(Evidence::BaseBuild {
            unit: unit_id(variant),
            facts: Seen::Got(facts),
        });
    }
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { case, .. } if case.variant == "fast"));
    for shape in SHAPES {
        for process in 0..6 {
            record.evidence.push(Evidence::Pair {
                case: case_id("fast", shape),
                process,
                facts: Seen::Got(pair_facts(usual("fast"), 1.0, process)),
            });
        }
    }
    record
}

/// What was measured of a case beside the base, process by process.
pub fn repair(record: &mut Record, of: &CaseId, change: impl Fn(u32, &mut PairFacts)) {
    for piece in &mut record.evidence {
        if let Evidence::Pair {
            case,
            process,
            facts: Seen::Got(facts),
        } = piece
            && case == of
        {
            change(*process, facts);
        }
    }
}
