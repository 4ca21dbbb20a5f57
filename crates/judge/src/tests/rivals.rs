//! A gate requests the rival that it names.

use super::*;
use crate::fixture::script::rule;

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
    for (text, all) in [
        ("p50 <= 1.0 * torch.flash.p50", [true, false, false]),
        (
            "when registers < 64 || p50 < jax.flash.p50",
            [true, true, false],
        ),
    ] {
        let gate = gate(case("fast", "small"), rule(text).unwrap());
        record.policy.gates.push(gate);
        assert_eq!(requested(&record, false), all);
    }
}
