//! Kernels that only one side launches, timed together: each side has kernels and memory of its own.

use super::*;

fn group() -> CaseId {
    case_id("fast", "small")
}

fn kernels() -> OtherKernels {
    OtherKernels {
        new: vec!["scale".into(), "softmax".into()],
        gone: vec!["fused".into()],
        times: GroupTimes::Together,
    }
}

fn gap() -> Reason {
    Reason::BaseIncomparable(BaseLack::OtherKernels(kernels()))
}

/// Two kernels of head and one of the base, which take this times as long together.
fn regrouped(ratio: f64) -> Record {
    let mut record = record_against_base();
    let is_of = |case: &CaseId| *case == group();
    let entry = |name: &str| ModuleEntry {
        source: format!("{name}.cubin"),
        name: name.into(),
        constants: Vec::new(),
    };
    let make = |plan: &mut Plan, gates: &mut Vec<Gate>, modules: &[&str], value: f64| {
        plan.units.retain(|unit| unit.id == unit_id("fast"));
        plan.cases.retain(|case| is_of(&case.id));
        plan.units[0].call = Callable::Together {
            modules: modules.iter().map(|module| entry(module)).collect(),
            steps: (0..modules.len()).collect(),
        };
        let case = &mut plan.cases[0];
        case.steps = vec![Step::new(Vec::new(), Some(launch())); modules.len()];
        case.reference = Reference::NoOutput;
        case.tensors = vec![Tensor {
            fill: Some(Fill::Constant { value: Num(value) }),
            address: Some(0x1000),
            ..Tensor::new("at_1000", Role::Scratch, ElemType::U8, vec![64])
        }];
        let subject = Subject::Case(group());
        *gates = [
            Rule::InputsIntact,
            Rule::AgreesWithDriver,
            Rule::NoFindings,
            of_base(Metric::P50, 0.01),
        ]
        .map(|rule| gate(subject.clone(), rule))
        .to_vec();
        gates.push(gate(unit("fast"), Rule::Built));
    };
    make(
        &mut record.plan,
        &mut record.policy.gates,
        &["scale", "softmax"],
        1.0,
    );
    record.policy.baselines.clear();
    let base = record.policy.base.as_mut().unwrap();
    base.baselines.clear();
    make(&mut base.plan, &mut base.gates, &["fused"], 2.0);
    base.plan.uncaptured.push(Uncaptured {
        case: group(),
        why: CaptureGap::OtherKernels(kernels()),
        declared: "gates.yaml:3".into(),
    });
    let is_of_group = |piece: &Evidence| match piece {
        Evidence::Build { unit, .. } => unit.variant == "fast",
        Evidence::Driver { case, .. }
        | Evidence::Check { case, .. }
        | Evidence::Pair { case, .. } => is_of(case),
        _ => false,
    };
    record.evidence.retain(|piece| match piece {
        Evidence::Base(piece) => is_of_group(piece),
        piece => is_of_group(piece),
    });
    for piece in &mut record.evidence {
        match piece {
            Evidence::Build {
                facts: Seen::Got(facts),
                ..
            } => facts.entries = vec![facts.entries[0].clone(); 2],
            Evidence::Driver {
                facts: Seen::Got(facts),
                ..
            } => facts.entries = vec![facts.entries[0].clone(); 2],
            _ => {}
        }
    }
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { .. }));
    for process in 0.. {
        if asked(&record).is_empty() {
            break;
        }
        record.evidence.push(Evidence::Pair {
            case: group(),
            process,
            facts: Seen::Got(pair_facts(usual("fast"), ratio, process)),
        });
    }
    record
}

fn p50(record: &Record) -> Verdict {
    verdict(record, &Subject::Case(group()), of_base(Metric::P50, 0.01))
}

/// All that does not pass and was run, with its reason: a GPU looks for no findings.
fn broken(judgement: &Judgement) -> Vec<(Outcome, Reason)> {
    judgement
        .verdicts
        .iter()
        .filter(|verdict| !matches!(verdict.outcome, Outcome::Pass | Outcome::Skipped))
        .map(|verdict| (verdict.outcome, verdict.reason.clone()))
        .collect()
}

#[test]
fn a_group_that_is_no_slower_passes_and_its_outputs_are_named() {
    for ratio in [1.0, 0.9] {
        let record = regrouped(ratio);
        let verdict = p50(&record);
        assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reason);
        assert!(verdict.smallest_visible.is_some());
        let judgement = ruled(&record);
        assert_eq!(broken(&judgement), [(Outcome::Inconclusive, gap())]);
        assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
    }
}

#[test]
fn only_a_label_lets_pass_that_outputs_are_compared_with_nothing() {
    let mut record = regrouped(1.0);
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    let judgement = ruled(&record);
    assert_eq!(broken(&judgement), []);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let allowed = Loosened::BaseIncomparable(BaseLack::OtherKernels(kernels()));
    let reason = Reason::LooseningAllowed(Box::new(allowed));
    assert!(
        judgement
            .verdicts
            .iter()
            .any(|verdict| verdict.reason == reason)
    );
}

#[test]
fn a_group_that_is_slower_fails_with_and_without_the_label() {
    for loosening in [Loosening::Fails, Loosening::Allowed] {
        let mut record = regrouped(1.05);
        record.policy.base.as_mut().unwrap().loosening = loosening;
        let verdict = p50(&record);
        assert_eq!(verdict.outcome, Outcome::Fail, "{:?}", verdict.reason);
        assert!(matches!(verdict.reason, Reason::BeyondChange(_)));
        assert_eq!(ruled(&record).conclusion, Conclusion::Fail);
    }
}

#[test]
fn a_group_without_times_is_no_pass() {
    let mut record = regrouped(1.0);
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Pair { .. }));
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    let asks = asked(&record);
    assert_eq!(asks, [(group(), Timing::AgainstBase(Singles::Shown))]);
}

#[test]
fn a_filter_that_leaves_out_the_group_leaves_out_its_gap() {
    let mut record = regrouped(1.0);
    let filter: Filter = "k/fast@large".to_owned().try_into().unwrap();
    record.plan.filters = vec![filter];
    record.plan.left_out.insert("k".into());
    record.plan.cases.clear();
    record.plan.units.clear();
    record.policy.gates.clear();
    assert_eq!(broken(&ruled(&record)), []);
}

#[test]
fn a_record_without_the_group_of_an_older_one_has_lost_nothing() {
    let old = regrouped(1.0);
    let mut new = regrouped(1.0);
    new.plan.cases.clear();
    new.plan.units.clear();
    new.policy.gates.clear();
    let judgement = compare(&old, &new, Loosening::Fails);
    assert_eq!(broken(&judgement), []);
}

#[test]
fn a_group_has_no_baselines() {
    let record = regrouped(1.0);
    let (baselines, refused) = acceptable(&record, "seal");
    assert_eq!((baselines, refused), (Vec::new(), Vec::new()));
    // Kernels without a group give some.
    assert!(!acceptable(&super::record(), "seal").0.is_empty());
}
