//! Variants that are kept to fail, and shapes of variants.

use super::{accepted, case, check, right, with};
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

#[test]
fn mistakes_are_refused_at_their_place() {
    let expect = |text: &str| format!("wide: {{define: {{WIDE: 1}}, expect: {text}}}");
    mistakes! {
        WIDE => &expect("{fail: []}"),
            "gates.yaml:10:48: kernels.scale.variants.wide.expect.fail: no gate: nothing would have to fail\n  help: name those that catch it: fail: [memory and races, max_err]";
        WIDE => &expect("{fail: [max_er]}"),
            "gates.yaml:10:49: kernels.scale.variants.wide.expect.fail[0]: `wide` has no gate `max_er` that it could fail\n  help: did you mean `max_err`?";
    }
    // Never asked for.
    for name in ["p50", "built", "counters", "rel_l2"] {
        let text = with(WIDE, &expect(&format!("{{fail: [{name}]}}")));
        let said = super::said_of(&text);
        let first = said.lines().next().unwrap_or_default();
        assert!(
            first.ends_with(&format!("`wide` has no gate `{name}` that it could fail")),
            "{said}"
        );
    }
    mistakes! {
        WIDE => &expect("{fail: [max_err, max_err]}"),
            "gates.yaml:10:58: kernels.scale.variants.wide.expect.fail[1]: duplicate gate `max_err`";
        WIDE => "wide: {define: {WIDE: 1}, shapes: [smal]}",
            "gates.yaml:10:42: kernels.scale.variants.wide.shapes[0]: unknown shape `smal`\n  help: did you mean `small`?";
        WIDE => "wide: {define: {WIDE: 1}, shapes: [small, small]}",
            "gates.yaml:10:49: kernels.scale.variants.wide.shapes[1]: duplicate shape `small`";
        WIDE => "wide: {define: {WIDE: 1}, shapes: []}",
            "gates.yaml:10:41: kernels.scale.variants.wide.shapes: no shapes: nothing would be judged";
    }
}

#[test]
fn nothing_is_held_against_it() {
    let text = with(WIDE, RACY);
    let limit = text.replace("p50: \"+2%\"", "p50: {small: \"<= 0.9 * wide.p50\"}");
    assert_eq!(
        super::said_of(&limit),
        "gates.yaml:24:20: kernels.scale.gates.p50.small: `wide` is expected to fail, and is no measure for others",
    );
    let reference = text.replace("plain: {}", "plain: {reference: {variant: wide}}");
    assert_eq!(
        super::said_of(&reference),
        "gates.yaml:9:36: kernels.scale.variants.plain.reference.variant: `wide` is expected to fail, and is no measure for others",
    );
}

#[test]
fn a_limit_needs_the_shape_of_the_variant_that_it_names() {
    let text = with(WIDE, "wide: {define: {WIDE: 1}, shapes: [small]}");
    let by_shape = text.replace("p50: \"+2%\"", "p50: {small: \"+2%\"}");
    let narrow =
        |limit: &str| by_shape.replace("plain: {}", &format!("plain: {{gates: {{p50: {limit}}}}}"));
    accepted(&narrow("{small: \"<= 0.9 * wide.p50\"}"));
    assert_eq!(
        super::said_of(&narrow("\"<= 0.9 * wide.p50\"")),
        "gates.yaml:9:28: kernels.scale.variants.plain.gates.p50: `wide` is not run at shape `large`\n  help: add `large` to the `shapes` of `wide`",
    );
}
