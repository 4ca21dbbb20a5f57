//! Targets: limits that are no gates.

use super::{accepted, case, check, right, said_of, with};
use model::{Bound, Metric, Num, Target};

const WIDE: &str = "wide: {define: {WIDE: 1}}";

fn with_target(target: &str) -> String {
    format!("wide: {{define: {{WIDE: 1}}, target: {target}}}")
}

fn told(targets: &[Target]) -> Vec<String> {
    targets
        .iter()
        .map(|target| {
            let bound = match &target.bound {
                Bound::Value(Num(value)) => value.to_string(),
                Bound::Expr(expr) => expr.text.clone(),
            };
            let because = target.because.as_deref().unwrap_or("-");
            format!(
                "{} {} {} {bound}, {because} ({})",
                target.subject, target.metric, target.op, target.declared
            )
        })
        .collect()
}

#[test]
fn absolute_and_relative_to_a_variant() {
    let target =
        "{p50: {small: [\"<= 0.9 * plain.p50\", 4us]}, registers: 64, because: issue slots}";
    let resolved = right(WIDE, &with_target(target));
    assert_eq!(
        told(&resolved.targets),
        [
            "scale/wide [sm_89] registers <= 64, issue slots (gates.yaml:10)",
            "scale/wide [sm_90] registers <= 64, issue slots (gates.yaml:10)",
            "scale/wide@small p50 <= 0.9 * plain.p50, issue slots (gates.yaml:10)",
            "scale/wide@small p50 <= 4000, issue slots (gates.yaml:10)",
        ]
    );
    let without = accepted(super::RIGHT);
    assert_eq!(resolved.gates, without.gates);
}

/// Metric by metric, and a reason belongs to what it is written with.
#[test]
fn those_of_a_variant_replace_the_kernels() {
    let text = with(
        WIDE,
        &with_target("{p50: {small: 4us}, because: issue slots}"),
    );
    let text =
        text + "    target: {p50: {large: 9us}, max_err: {large: 0}, because: of the kernel}\n";
    let resolved = accepted(&text);
    assert_eq!(
        told(&resolved.targets),
        [
            "scale/plain@large p50 <= 9000, of the kernel (gates.yaml:25)",
            "scale/plain@large max_err <= 0, of the kernel (gates.yaml:25)",
            "scale/wide@large max_err <= 0, of the kernel (gates.yaml:25)",
            "scale/wide@small p50 <= 4000, issue slots (gates.yaml:10)",
        ]
    );
}

/// The case that a target compares with is timed, too, where no gate asks for that.
#[test]
fn a_target_on_a_time_has_it_measured() {
    let text = with(WIDE, &with_target("{p50: {small: \"<= 0.9 * plain.p50\"}}"));
    let resolved = accepted(&text.replace("      p50: \"+2%\"\n", ""));
    let timed = ["plain@small", "wide@small", "plain@large", "wide@large"]
        .map(|id| case(&resolved, &format!("scale/{id}")).timed);
    assert_eq!(timed, [true, true, false, false]);
    let tolerances = resolved.plan.cases.iter().map(|case| case.tolerance);
    assert!(
        tolerances
            .into_iter()
            .all(|tolerance| tolerance == Some(Num(1e-6)))
    );
    assert_eq!(resolved.targets[0].metric, Metric::P50);
}

#[test]
fn mistakes_are_refused_at_their_place() {
    mistakes! {
        WIDE => &with_target("{p50: \"+2%\"}"),
            "gates.yaml:10:47: kernels.scale.variants.wide.target.p50: `+2%` is no value that could be reached\n  help: write one, or relate it to a variant: \"<= 0.90 * plain.p50\"";
        WIDE => &with_target("{counters: \"+2%\"}"),
            "gates.yaml:10:42: kernels.scale.variants.wide.target.counters: a target is for one metric, and `counters` is none";
        WIDE => &with_target("{p50: 4us, because: [slow]}"),
            "gates.yaml:10:61: kernels.scale.variants.wide.target.because: `because` needs the reason in words\n  help: because: bound by issue slots, 25.4 us where 23.6 was the target";
    }
    let said = said_of(&with(WIDE, &with_target("{p50: 4}")));
    assert!(said.contains("`4` has no unit"), "{said}");
    let said = said_of(&with(WIDE, &with_target("{p5: 4us}")));
    assert!(said.contains("unknown metric `p5`"), "{said}");
}

/// A wrong kernel has no good values.
#[test]
fn rejects_targets_of_an_expected_failure() {
    let text = with(WIDE, "wide: {define: {WIDE: 1}, expect: {fail: [max_err]}}");
    let resolved = accepted(&(text + "    target: {p50: {large: 9us}}\n"));
    assert_eq!(
        told(&resolved.targets),
        ["scale/plain@large p50 <= 9000, - (gates.yaml:25)"]
    );
}
