//! The same run without a GPU: what the simulator says of it.

use super::super::model::*;
use super::*;
use std::collections::BTreeMap;

/// One simulated launch: nothing found, two counters that can be gated and one that cannot.
pub fn simulation_facts() -> SimulationFacts {
    SimulationFacts {
        findings: Vec::new(),
        not_judged: Vec::new(),
        counters: BTreeMap::from([
            (Counter::GlobalLoadSectors, 4096),
            (Counter::SharedLoadWavefronts, 128),
        ]),
        information: BTreeMap::from([(Counter::Instructions, 100_000)]),
        withheld: BTreeMap::new(),
        lines: BTreeMap::new(),
        printed: None,
    }
}

/// The same run in the simulator: every seed launched once, and what it counts agreed on. No times.
pub fn record_simulated() -> Record {
    let mut record = record();
    record.environment.device = no_gpu();
    record.environment.simulator = Some(Simulator { counter_model: 7 });
    record.plan.simulation.budget = 1_000_000;
    record.costs.simulator_ms = 2500;
    record.costs.gpu_ms = 0;
    record.costs.gpus = 0;
    let is_kept = |piece: &Evidence| matches!(piece, Evidence::Build { .. });
    record.evidence.retain(is_kept);
    for case in &record.plan.cases {
        let subject = Subject::Case(case.id.clone());
        let rules = [Rule::NoFindings, Rule::Counters { change: Num(0.0) }];
        let gates = rules.map(|rule| gate(subject.clone(), rule));
        record.policy.gates.extend(gates);
        for &seed in &case.seeds {
            record.evidence.push(Evidence::Check {
                case: case.id.clone(),
                seed,
                facts: Seen::Got(CheckFacts {
                    launches: 1,
                    ..check_facts()
                }),
            });
            record.evidence.push(Evidence::Simulation {
                case: case.id.clone(),
                seed,
                facts: Seen::Got(simulation_facts()),
            });
        }
    }
    let key = BaselineKey::Counters {
        arch: arch(),
        compiler: "13.0.88".into(),
        flags: "-O3".into(),
        model: 7,
    };
    record.policy.baselines = VARIANTS
        .map(|variant| Baseline {
            schema: BASELINE_SCHEMA.into(),
            kernel: "k".into(),
            variant: variant.into(),
            key: key.clone(),
            origin: Origin {
                record: "seal".into(),
                date: "2026-11-20T00:00:00Z".into(),
                gatekeeper: "0.1.0".into(),
                device: "simulator".into(),
                commit: None,
            },
            cases: SHAPES.map(|shape| (shape.to_owned(), counters())).into(),
        })
        .to_vec();
    record
}

fn counters() -> BTreeMap<Metric, Agreed> {
    let counted = simulation_facts().counters.into_iter();
    counted
        .map(|(counter, value)| {
            let agreed = Agreed {
                value: Num(value as f64),
                spread: None,
                processes: None,
                sessions: None,
            };
            (counter.into(), agreed)
        })
        .collect()
}

/// Every simulation of one case, changed.
pub fn resimulate(
    record: &mut Record,
    of: &CaseId,
    change: impl Fn(u64, &mut Seen<SimulationFacts>),
) {
    for piece in &mut record.evidence {
        if let Evidence::Simulation { case, seed, facts } = piece
            && case == of
        {
            change(*seed, facts);
        }
    }
}
