//! Variants that can stand in for others.

use super::right;
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
