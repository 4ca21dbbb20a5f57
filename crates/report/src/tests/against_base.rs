//! Tests reports of a run against a base revision.

use super::*;
use model::{Limit, Metric, Rule};

/// Returns a run with one case slower than the base and one undecided, two unchanged, one that the base does not have,
/// and two gates that ask less than at the base.
pub(super) fn against_base() -> Record {
    let mut record = fixture::record_against_base();
    record.costs.gpu_ms = 3100;
    let fast = |shape| fixture::case_id("fast", shape);
    fixture::repair(&mut record, &fast("small"), |process, facts| {
        *facts = fixture::pair_facts(80_000, 1.012, process)
    });
    for process in 6..15 {
        for (shape, processes, ratio) in [("small", 7, 1.012), ("large", 15, 1.0045)] {
            if process < processes {
                record.evidence.push(Evidence::Pair {
                    case: fast(shape),
                    process,
                    facts: Seen::Got(fixture::pair_facts(80_000, ratio, process)),
                });
            }
        }
    }
    fixture::repair(&mut record, &fast("large"), |process, facts| {
        let wander = [0.997, 0.999, 1.002, 1.007, 1.010][process as usize % 5];
        *facts = fixture::pair_facts(80_000, wander, process)
    });
    let half = Rule::Limit {
        metric: Metric::P50,
        limit: Limit::Base { change: Num(0.005) },
    };
    for case in record.plan.cases.clone() {
        let gate = fixture::gate(Subject::Case(case.id), half.clone());
        record.policy.gates.push(gate);
    }
    let base = record.policy.base.as_mut().unwrap();
    let tiny = fixture::case_id("fast", "tiny");
    let mut new = base.plan.case(&fast("small")).unwrap().clone();
    new.id = tiny.clone();
    record.plan.cases.push(new);
    for piece in record.evidence.clone() {
        let mut piece = piece;
        match &mut piece {
            Evidence::Driver { case, .. } | Evidence::Check { case, .. }
                if *case == fast("small") =>
            {
                *case = tiny.clone();
            }
            _ => continue,
        }
        record.evidence.push(piece);
    }
    for process in 0..3 {
        let timed = fixture::time("fast", "tiny", process, 9_000);
        record.evidence.push(timed);
    }
    let tiny = Subject::Case(tiny);
    let limits = [fixture::at_most(Metric::MaxErr, 0.004), half];
    let gates = limits.map(|rule| fixture::gate(tiny.clone(), rule));
    record.policy.gates.extend(gates);
    base.gates.push(fixture::gate(
        fixture::unit("direct"),
        fixture::at_most(Metric::Spills, 0.0),
    ));
    for gate in &mut base.gates {
        if gate.subject == fixture::unit("fast")
            && gate.rule == fixture::at_most(Metric::Registers, 128.0)
        {
            gate.rule = fixture::at_most(Metric::Registers, 112.0);
        }
    }
    record
}

#[test]
fn a_run_against_a_base_that_may_ask_less() {
    let mut record = against_base();
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    record.plan.pairing.as_mut().unwrap().unchanged = true;
    for process in 0..6 {
        for shape in fixture::SHAPES {
            record.evidence.push(Evidence::Pair {
                case: fixture::case_id("direct", shape),
                process,
                facts: Seen::Got(fixture::pair_facts(100_000, 1.0, process)),
            });
        }
    }
    everywhere("base-allowed", &record);
}

/// Workflows name their base like this.
#[test]
fn a_base_that_is_named_by_its_whole_hash_is_shown_by_its_beginning() {
    let mut record = against_base();
    let hash = "0a34415f00d0a34415f00d0a34415f00d0a34415".to_owned();
    let base = record.policy.base.as_mut().unwrap();
    base.revision.clone_from(&hash);
    base.commit.clone_from(&hash);
    let judgement = judged(&record);
    for text in [
        in_terminal(&record, &judgement),
        rendered(&record, &judgement, markdown::render),
    ] {
        let shown: Vec<_> = text
            .lines()
            .filter(|line| !line.contains("gatekeeper run"))
            .filter(|line| line.contains("0a34415f00d0"))
            .collect();
        assert!(shown.len() >= 3, "{text}");
        assert!(shown.iter().all(|line| !line.contains(&hash)), "{text}");
        assert!(text.contains("0a34415f00d0: 2 cases changed"), "{text}");
    }
}
