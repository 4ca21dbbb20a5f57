//! Resources that become worse, and that no gate limits.

use super::*;

/// Sets the resources that head has of `fast`, whose code differs from the base's.
fn with_resources(mut record: Record, change: impl Fn(&mut Resources)) -> Record {
    rebuild(&mut record, "fast", |facts| {
        change(facts.entries[0].resources.as_mut().unwrap());
    });
    record
}

/// Returns a record against a base in which nothing is timed.
fn untimed() -> Record {
    let mut record = record_against_base();
    let is_time = |rule: &Rule| {
        rule.metric()
            .is_some_and(|metric| metric.facet() == Facet::Times)
    };
    record.policy.gates.retain(|gate| !is_time(&gate.rule));
    let base = record.policy.base.as_mut().unwrap();
    base.gates.retain(|gate| !is_time(&gate.rule));
    record
}

fn spilling(resources: &mut Resources) {
    resources.stack = Some(64);
    resources.spill_stores = Some(64);
    resources.spill_loads = Some(64);
}

fn value(metric: Metric, was: f64, now: f64) -> WorseValue {
    WorseValue {
        metric,
        was: Num(was),
        now: Num(now),
    }
}

/// The values of the verdict on a unit, if there is one.
fn failed(judgement: &Judgement) -> Vec<WorseValue> {
    judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.question == Question::UngatedResources)
        .flat_map(|verdict| match &verdict.reason {
            Reason::UngatedWorse { values, .. } => values.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn listed(judgement: &Judgement) -> Vec<WorseValue> {
    judgement
        .ungated
        .iter()
        .flat_map(|one| one.values.clone())
        .collect()
}

#[test]
fn new_spills_fail_without_a_gate() {
    let judgement = ruled(&with_resources(untimed(), spilling));
    let values = [
        value(Metric::Spills, 0.0, 128.0),
        value(Metric::Stack, 0.0, 64.0),
    ];
    assert_eq!(failed(&judgement), values);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    assert_eq!(judgement.ungated[0].against, Against::Base);
}

#[test]
fn nothing_worse_is_nothing_to_say() {
    let judgement = ruled(&untimed());
    assert_eq!((failed(&judgement), listed(&judgement)), (vec![], vec![]));
    let better = with_resources(untimed(), |resources| resources.static_shared = 0);
    assert_eq!(listed(&ruled(&better)), []);
}

#[test]
fn a_metric_that_costs_no_time_by_itself_is_listed_alone() {
    let more = with_resources(untimed(), |resources| resources.static_shared += 4);
    let judgement = ruled(&more);
    assert_eq!(failed(&judgement), []);
    assert_eq!(listed(&judgement), [value(Metric::Shared, 5120.0, 5124.0)]);
}

#[test]
fn a_gate_on_the_metric_answers_for_it() {
    for limits in [
        vec![at_most(Metric::Spills, 128.0), at_most(Metric::Stack, 64.0)],
        vec![Rule::Condition {
            expr: Expr {
                text: "spills + stack <= 192".to_owned(),
                constants: Default::default(),
            },
        }],
    ] {
        let mut record = with_resources(untimed(), spilling);
        for limit in limits {
            record.policy.gates.push(gate(unit("fast"), limit));
        }
        let judgement = ruled(&record);
        assert_eq!(failed(&judgement), []);
        assert_eq!(listed(&judgement).len(), 2, "the base had no such limit");
        let gates = record.policy.gates.clone();
        record.policy.base.as_mut().unwrap().gates = gates;
        let judgement = ruled(&record);
        assert_eq!((failed(&judgement), listed(&judgement)), (vec![], vec![]));
    }
    // A limit on another metric does not.
    let mut record = with_resources(untimed(), spilling);
    let other = gate(unit("fast"), at_most(Metric::Stack, 64.0));
    record.policy.gates.push(other);
    let spills = value(Metric::Spills, 0.0, 128.0);
    assert_eq!(failed(&ruled(&record)), [spills]);
}

#[test]
fn an_interleaved_time_that_holds_excuses_worse_resources() {
    let timed = |ratio: f64| {
        let mut record = with_resources(record_against_base(), spilling);
        repair(&mut record, &case_id("fast", "small"), |process, facts| {
            *facts = pair_facts(usual("fast"), ratio, process);
        });
        ruled(&record)
    };
    let holds = timed(1.0);
    assert_eq!(failed(&holds), []);
    assert_eq!(listed(&holds).len(), 2, "it is on the screen all the same");
    let slower = timed(1.5);
    assert_eq!(failed(&slower).len(), 2);
}

#[test]
fn a_committed_baseline_stands_in_for_a_base() {
    let mut record = with_resources(record(), spilling);
    for baseline in &mut record.policy.baselines {
        for values in baseline.cases.values_mut() {
            if baseline.key.facet() == Facet::Resources {
                let agreed = Agreed {
                    value: Num(0.0),
                    spread: None,
                    processes: None,
                    sessions: None,
                };
                values.insert(Metric::Stack, agreed);
            }
        }
    }
    let judgement = ruled(&record);
    assert_eq!(failed(&judgement), [value(Metric::Stack, 0.0, 64.0)]);
    assert_eq!(judgement.ungated[0].against, Against::Baseline);
}
