//! Records that tests of this crate alone need, beside those of the fixture.

use super::*;

/// A base under these gates shows the same, without baselines on either side.
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

/// Both sides measured alike, of other code for `direct`, without baselines.
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

/// Code for `sm_80` and `sm_90`, of which head's evidence so far is the older one's.
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

/// Two architectures of other code, each run by itself.
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

/// Both sides profiled alike, of other code for `direct`, without baselines.
pub(super) fn profiled_against_base() -> Record {
    let mut record = run_on_base(record_profiled(), Vec::new());
    rebuild(&mut record, "direct", |facts| {
        facts.identity = "after the change".into()
    });
    record
}
