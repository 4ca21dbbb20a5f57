//! Makes records that only the tests of this crate need, in addition to the fixture's.

use super::*;

/// Returns a run with a base that has the same values, under these gates and without baselines.
pub(super) fn run_on_base(mut record: Record, gates: Vec<Gate>) -> Record {
    record.policy.baselines.clear();
    let plan = record.plan.clone();
    let base = Base::new("origin/main", "0a34415aaaaa", plan, gates);
    record.policy.base = Some(base);
    record.evidence.extend(
        record
            .evidence
            .clone()
            .into_iter()
            .map(|piece| Evidence::Base(Box::new(piece)))
            .collect::<Vec<_>>(),
    );
    record
}

/// Returns a run with both sides simulated alike, with other code for `direct`, and without baselines.
pub(super) fn simulated_against_base() -> Record {
    let record = record_simulated();
    let gates = record.policy.gates.clone();
    let mut record = run_on_base(record, gates);
    let same = Seen::Got(BaseReference::Compared(ReferenceComparison::default()));
    let references = record
        .plan
        .cases
        .iter()
        .map(|case| Evidence::BaseReference {
            case: case.id.clone(),
            facts: same.clone(),
        });
    record.evidence.extend(references);
    rebuild(&mut record, "direct", |facts| {
        facts.identity = "after the change".into();
        facts.ptx = Some("after the change".into());
    });
    record
}

/// Returns a run with code for `sm_80` and `sm_90`, of which head's evidence so far is about the older one.
pub(super) fn on_two_architectures(ptx: [&str; 2]) -> Record {
    let mut record = record_simulated();
    let newer = record.plan.units.clone();
    for unit in &mut record.plan.units {
        unit.id.arch = "sm_80".parse().unwrap();
    }
    record.plan.units.extend(newer);
    record.policy.baselines.clear();
    record
        .policy
        .gates
        .retain(|gate| matches!(gate.subject, Subject::Case(_)));
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Build { .. }));
    for unit in &record.plan.units {
        let at = usize::from(unit.id.arch == arch());
        let facts = BuildFacts {
            ptx: Some(format!("{} of {}", ptx[at], unit.id.variant)),
            ..build_facts(&unit.id.variant)
        };
        let unit = unit.id.clone();
        let facts = Seen::Got(facts);
        record.evidence.insert(0, Evidence::Build { unit, facts });
    }
    record
}

/// Returns a run with two architectures of different code, each run by itself.
pub(super) fn run_on_two_architectures() -> Record {
    let mut apart = on_two_architectures(["a", "b"]);
    let newer: Vec<_> = apart
        .evidence
        .iter()
        .cloned()
        .filter_map(|mut piece| match &mut piece {
            Evidence::Check { arch: of, .. } | Evidence::Simulation { arch: of, .. } => {
                *of = Some(arch());
                Some(piece)
            }
            _ => None,
        })
        .collect();
    apart.evidence.extend(newer);
    apart
}

/// Returns a run with both sides profiled alike, with other code for `direct`, and without baselines.
pub(super) fn profiled_against_base() -> Record {
    let mut record = run_on_base(record_profiled(), Vec::new());
    rebuild(&mut record, "direct", |facts| {
        facts.identity = "after the change".into()
    });
    record
}
