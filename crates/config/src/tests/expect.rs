//! Variants that are kept to fail, and shapes of variants.

use super::{case, right};
use model::{Expected, GateName, Metric, Rule, Subject};

const WIDE: &str = "wide: {define: {WIDE: 1}}";
const RACY: &str =
    "wide: {define: {WIDE: 1}, shapes: [small], expect: {fail: [memory and races, max_err]}}";

#[test]
fn runs_an_expected_failure_with_the_gates_it_must_fail() {
    let resolved = right(WIDE, RACY);
    let expected = Expected {
        kernel: "scale".to_owned(),
        variant: "wide".to_owned(),
        gates: vec![GateName::NoFindings, GateName::Metric(Metric::MaxErr)],
        left_out: false,
        declared: "gates.yaml:10".to_owned(),
    };
    assert_eq!(resolved.plan.expected, [expected]);
    let of = |id: &str| {
        resolved
            .plan
            .cases
            .iter()
            .any(|case| case.id.to_string() == id)
    };
    assert_eq!(
        [of("scale/wide@small"), of("scale/wide@large")],
        [true, false]
    );
    let timed = |id| case(&resolved, id).timed;
    assert_eq!(
        [timed("scale/plain@small"), timed("scale/wide@small")],
        [true, false]
    );
    let rules_of = |variant: &str| -> Vec<&Rule> {
        resolved
            .gates
            .iter()
            .filter(|gate| match &gate.subject {
                Subject::Case(id) => id.variant == variant && id.shape == "small",
                Subject::Unit(_) => false,
            })
            .map(|gate| &gate.rule)
            .collect()
    };
    let compares =
        |rule: &&&Rule| matches!(rule, Rule::Counters { .. }) || rule.metric() == Some(Metric::P50);
    assert_eq!(rules_of("plain").iter().filter(compares).count(), 2);
    assert_eq!(rules_of("wide").iter().filter(compares).count(), 0);
    assert_eq!(rules_of("wide").len(), rules_of("plain").len() - 2);
}
