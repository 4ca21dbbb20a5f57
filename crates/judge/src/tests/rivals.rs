//! Other programs paired a kernel: what limits against them rest on, and that nothing missing of them passes.

use super::*;

fn against(bound: &str) -> Rule {
    Rule::Limit {
        metric: Metric::P50,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Expr(expr(bound)),
        },
    }
}

/// Adds a gate on a variant at `small` that names the rival: `fast` has the task of `direct`.
fn name_in_a_gate(record: &mut Record, variant: &str) {
    let rule = against("1.0 * torch.flash.p50");
    record.policy.gates.push(gate(case(variant, "small"), rule));
}

#[test]
fn a_gate_requests_the_rival_that_it_names() {
    let mut record = record_beside_rival();
    let other = Rival {
        name: "jax".into(),
        ..rival()
    };
    let elsewhere = Rival {
        kernel: "other".into(),
        ..rival()
    };
    record.plan.rivals = vec![rival(), other, elsewhere];
    let requested = |record: &Record, all| -> Vec<bool> {
        let mut plan = record.plan.clone();
        plan.request_rivals(&record.policy.gates, all);
        plan.rivals.iter().map(|rival| rival.requested).collect()
    };
    assert_eq!(requested(&record, false), [false, false, false]);
    assert_eq!(requested(&record, true), [true, true, true]);
    name_in_a_gate(&mut record, "fast");
    assert_eq!(requested(&record, false), [true, false, false]);
    let condition = Rule::Condition {
        expr: expr("registers < 64 || p50 < jax.flash.p50"),
    };
    let condition = gate(case("fast", "small"), condition);
    record.policy.gates.push(condition);
    assert_eq!(requested(&record, false), [true, true, false]);
}
