//! Variants that can stand in for others.

use super::{check, right, said_of, with};
use model::Fallback;

const WIDE: &str = "wide: {define: {WIDE: 1}}";

#[test]
fn a_variant_that_computes_the_same_stands_in() {
    let resolved = right(WIDE, "wide: {define: {WIDE: 1}, fallback: plain}");
    let fallback = Fallback {
        kernel: "scale".to_owned(),
        variant: "wide".to_owned(),
        to: "plain".to_owned(),
        declared: "gates.yaml:10".to_owned(),
    };
    assert_eq!(resolved.plan.fallbacks, [fallback]);
    // Its reference computes the same as it does.
    let held = "wide: {define: {WIDE: 1}, fallback: plain, reference: {variant: plain}}";
    assert_eq!(right(WIDE, held).plan.fallbacks.len(), 1);
}

#[test]
fn mistakes_are_refused_at_their_place() {
    mistakes! {
        WIDE => "wide: {define: {WIDE: 1}, fallback: plan}",
            "gates.yaml:10:43: kernels.scale.variants.wide.fallback: unknown variant `plan`\n  help: did you mean `plain`?";
        WIDE => "wide: {define: {WIDE: 1}, fallback: wide}",
            "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `wide` falls back on itself";
    }
    let other = "reference: {unary: {x: x, out: y, op: copy}}";
    mistakes! {
        WIDE => &format!("wide: {{define: {{WIDE: 1}}, fallback: plain, {other}}}"),
            "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `plain` has other outputs or another reference than `wide` at shape `small`\n  help: only what computes the same can stand in";
        WIDE => "wide: {define: {WIDE: 1}, fallback: plain, tensors: {y: {role: out, type: f16, shape: [N]}}}",
            "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `plain` has other outputs or another reference than `wide` at shape `small`\n  help: only what computes the same can stand in";
        WIDE => "wide: {define: {WIDE: 1}, fallback: plain, expect: {fail: [max_err]}}",
            "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `wide` is expected to fail: nothing can stand in for it";
    }
}

#[test]
fn rejects_fallbacks_in_a_cycle_or_without_the_shape() {
    let both = with(WIDE, "wide: {define: {WIDE: 1}, fallback: plain}");
    assert_eq!(
        said_of(&both.replace("plain: {}", "plain: {fallback: wide}")),
        "gates.yaml:9:25: kernels.scale.variants.plain.fallback: `plain` falls back on itself",
    );
    assert_eq!(
        said_of(&both.replace("plain: {}", "plain: {shapes: [small]}")),
        "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `plain` is not run at shape `large`\n  help: add `large` to the `shapes` of `plain`",
    );
    assert_eq!(
        said_of(&both.replace("plain: {}", "plain: {expect: {fail: [max_err]}}")),
        "gates.yaml:10:43: kernels.scale.variants.wide.fallback: `plain` is expected to fail, and is no measure for others",
    );
}
