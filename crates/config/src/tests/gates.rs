//! The gated metrics, and their limits.

use super::super::load::Loaded;
use super::{RIGHT, accepted, case, right, with};
use model::*;

/// One line for each gate that was written: what it is about, what it asks, and the line.
fn written(resolved: &Loaded) -> Vec<String> {
    let bound = |bound: &Bound| match bound {
        Bound::Value(value) => value.to_string(),
        Bound::Expr(expr) => text(expr),
    };
    let by = |margin| match margin {
        Margin::Share(share) => share.to_string(),
        Margin::Amount { amount } => format!("amount {amount}"),
    };
    fn text(expr: &Expr) -> String {
        let constants: Vec<_> = expr
            .constants
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{} {{{}}}", expr.text, constants.join(","))
    }
    let gate = |gate: &Gate| {
        let line = gate.declared.as_ref()?.strip_prefix("gates.yaml:")?;
        let asked = match &gate.rule {
            Rule::Limit {
                metric,
                limit: Limit::Absolute { op, bound: limit },
            } => {
                format!("{metric} {op} {}", bound(limit))
            }
            Rule::Limit {
                metric,
                limit: Limit::Baseline { change },
            } => format!("{metric} by {}", by(*change)),
            Rule::Limit {
                metric,
                limit: Limit::Base { change },
            } => format!("{metric} by {change} of base"),
            Rule::Limit {
                metric,
                limit: Limit::Anchor { anchor, change },
            } => format!("{metric} by {} of {anchor}", by(*change)),
            Rule::Condition { expr } => text(expr),
            other => panic!("{other:?} is not written"),
        };
        Some(format!("{}: {asked} :{line}", gate.subject))
    };
    resolved.gates.iter().filter_map(gate).collect()
}

/// The written gates of one subject, without its name.
fn written_for(resolved: &Loaded, subject: &str) -> Vec<String> {
    let prefix = format!("{subject}: ");
    let of_subject = |line: String| Some(line.strip_prefix(&prefix)?.to_owned());
    written(resolved)
        .into_iter()
        .filter_map(of_subject)
        .collect()
}

#[test]
fn a_change_is_of_the_baseline_the_base_a_revision_or_the_best_level() {
    let resolved = right(
        "p50: \"+2%\"",
        "p50: [\"+2%\", \"+1% of base\", \"+5% of v1.0\", \"+4% of best\"]\n      occupancy: -5% of origin/main",
    );
    assert_eq!(
        written_for(&resolved, "scale/wide@small"),
        [
            "max_err <= 0.000001 :23",
            "p50 by 0.02 :24",
            "p50 by 0.01 of base :24",
            "p50 by 0.05 of v1.0 :24",
            "p50 by 0.04 of best :24"
        ]
    );
    let occupancy = "occupancy by 0.05 of origin/main :25".to_owned();
    assert!(written_for(&resolved, "scale/wide [sm_90]").contains(&occupancy));
}

#[test]
fn a_count_that_repeats_exactly_may_be_more_by_an_amount() {
    let resolved = right(
        "registers: 128",
        "registers: \"+0\"\n      stack: [\"+16\", \"+5%\"]\n      blocks_per_sm: \"-1\"\n      spills: \"+8 of v1.0\"",
    );
    assert_eq!(
        written_for(&resolved, "scale/wide [sm_90]"),
        [
            "registers by amount 0 :22",
            "stack by amount 16 :23",
            "stack by 0.05 :23",
            "blocks_per_sm by amount 1 :24",
            "spills by amount 8 of v1.0 :25",
        ]
    );
    let resolved = right("p50: \"+2%\"", "global_load_sectors: \"+3\"");
    let sectors = "global_load_sectors by amount 3 :24".to_owned();
    assert!(written_for(&resolved, "scale/wide@small").contains(&sectors));
}

#[test]
fn every_unit_and_case_has_the_gates_that_need_not_be_written() {
    let resolved = accepted(RIGHT);
    let rules = |subject: &str| -> Vec<String> {
        resolved
            .gates
            .iter()
            .filter(|gate| gate.subject.to_string() == subject)
            .filter(|gate| gate.declared.is_none())
            .map(|gate| format!("{:?}", gate.rule))
            .collect()
    };
    assert_eq!(rules("scale/plain [sm_90]"), ["Built", "HasEffect"]);
    assert_eq!(
        rules("scale/wide@large"),
        [
            "Finite",
            "Written",
            "Deterministic",
            "InputsIntact",
            "AgreesWithDriver",
            "NoFindings",
            "Counters { change: Num(0.0) }"
        ]
    );
    assert_eq!(
        written(&resolved),
        [
            "scale/plain [sm_89]: registers <= 128 :22",
            "scale/plain [sm_90]: registers <= 128 :22",
            "scale/plain@small: max_err <= 0.000001 :23",
            "scale/plain@small: p50 by 0.02 :24",
            "scale/plain@large: max_err <= 0.000001 :23",
            "scale/plain@large: p50 by 0.02 :24",
            "scale/wide [sm_89]: registers <= 128 :22",
            "scale/wide [sm_90]: registers <= 128 :22",
            "scale/wide@small: max_err <= 0.000001 :23",
            "scale/wide@small: p50 by 0.02 :24",
            "scale/wide@large: max_err <= 0.000001 :23",
            "scale/wide@large: p50 by 0.02 :24",
        ]
    );
}

#[test]
fn limits_as_people_write_them() {
    let asked = |limit: &str| {
        let resolved = right("registers: 128", limit);
        written_for(&resolved, "scale/plain [sm_90]")
    };
    assert_eq!(asked("shared: 48KiB"), ["shared <= 49152 :22"]);
    assert_eq!(asked("shared: 48 * 1024"), ["shared <= 49152 :22"]);
    assert_eq!(asked("spills: 0"), ["spills <= 0 :22"]);
    assert_eq!(asked("stack: \"== 0\""), ["stack == 0 :22"]);
    assert_eq!(asked("occupancy: 25%"), ["occupancy >= 0.25 :22"]);
    assert_eq!(asked("occupancy: \"> 0.5\""), ["occupancy > 0.5 :22"]);
    assert_eq!(asked("occupancy: \"-5%\""), ["occupancy by 0.05 :22"]);
    assert_eq!(asked("blocks_per_sm: 2"), ["blocks_per_sm >= 2 :22"]);
    assert_eq!(
        asked("registers: \"<= 2 * TILE\""),
        ["registers <= 128 :22"]
    );
    assert_eq!(
        asked("registers: [128, \"+0%\"]"),
        ["registers <= 128 :22", "registers by 0 :22"]
    );
    assert_eq!(
        asked("registers: {sm_89: 80, sm_90: 87}"),
        ["registers <= 87 :22"]
    );
    assert_eq!(
        asked("registers: {sm_89: 80, default: 90}"),
        ["registers <= 90 :22"]
    );

    let of_case = |limit: &str| {
        let resolved = right("      p50: \"+2%\"", limit);
        written_for(&resolved, "scale/wide@large")
    };
    let max_err = "max_err <= 0.000001 :23";
    assert_eq!(of_case("      p50: 1.5ms"), [max_err, "p50 <= 1500000 :24"]);
    assert_eq!(
        of_case("      p99: \"< 900 us\"".replace(" us", "us").as_str()),
        [max_err, "p99 < 900000 :24"]
    );
    assert_eq!(of_case("      cv: 5%"), [max_err, "cv <= 0.05 :24"]);
    assert_eq!(
        of_case("      mean_err: \"<= 1e-6 * sqrt(N)\""),
        [max_err, "mean_err <= 0.000064 :24"]
    );
    assert_eq!(of_case("      p50: {small: \"+2%\"}"), [max_err]);
    assert_eq!(
        of_case("      p50: {large: [\"+2%\", 1ms]}"),
        [max_err, "p50 by 0.02 :24", "p50 <= 1000000 :24"]
    );
    assert_eq!(
        of_case("      mean_err: \"<= max_err / N\""),
        [max_err, "mean_err <= max_err / N {N=4096} :24"]
    );
}

#[test]
fn variants_replace_by_metric_and_add() {
    let resolved = right(
        "wide: {define: {WIDE: 1}}",
        "wide: {gates: {p50: \"<= 0.90 * plain.p50\", registers: 64, spills: 0}}",
    );
    assert_eq!(
        written_for(&resolved, "scale/wide [sm_89]"),
        ["registers <= 64 :10", "spills <= 0 :10"]
    );
    assert_eq!(
        written_for(&resolved, "scale/wide@small"),
        ["max_err <= 0.000001 :23", "p50 <= 0.90 * plain.p50 {} :10"]
    );
    assert_eq!(written_for(&resolved, "scale/plain@small").len(), 2);
}

#[test]
fn a_variant_inherits_settings_of_its_kernel() {
    let resolved = accepted(
        &with(
            "wide: {define: {WIDE: 1}}",
            "wide: {gates: {p50: {small: 1ms}, registers: {sm_89: 64}, conditions: [spills == 0]}}",
        )
        .replace(
            "      p50: \"+2%\"",
            "      p50: \"+2%\"\n      conditions: [stack == 0]",
        ),
    );
    assert_eq!(
        written_for(&resolved, "scale/wide [sm_89]"),
        [
            "registers <= 64 :10",
            "stack == 0 {} :25",
            "spills == 0 {} :10"
        ]
    );
    assert_eq!(
        written_for(&resolved, "scale/wide [sm_90]"),
        [
            "registers <= 128 :22",
            "stack == 0 {} :25",
            "spills == 0 {} :10"
        ]
    );
    let max_err = "max_err <= 0.000001 :23";
    assert_eq!(
        written_for(&resolved, "scale/wide@small"),
        [max_err, "p50 <= 1000000 :10"]
    );
    assert_eq!(
        written_for(&resolved, "scale/wide@large"),
        [max_err, "p50 by 0.02 :24"]
    );
}

#[test]
fn a_condition_of_unit_metrics_belongs_to_the_unit() {
    let resolved = right(
        "registers: 128",
        "conditions: [registers <= TILE || occupancy >= 0.5, registers * N < 1e6, p50 < 1ms || cv > 0.1]",
    );
    assert_eq!(
        written_for(&resolved, "scale/plain [sm_89]"),
        ["registers <= TILE || occupancy >= 0.5 {TILE=64} :22"]
    );
    assert_eq!(
        written_for(&resolved, "scale/plain@small"),
        [
            "registers * N < 1e6 {N=128} :22",
            "p50 < 1ms || cv > 0.1 {} :22",
            "max_err <= 0.000001 :23",
            "p50 by 0.02 :24",
        ]
    );
}

#[test]
fn times_a_case_only_if_a_gate_limits_its_time() {
    let timed = |old: &str, new: &str| -> Vec<String> {
        let resolved = right(old, new);
        resolved
            .plan
            .cases
            .iter()
            .filter(|case| case.timed)
            .map(|case| case.id.to_string())
            .collect()
    };
    assert_eq!(timed("\n      p50: \"+2%\"", ""), [""; 0]);
    assert_eq!(
        timed("p50: \"+2%\"", "p50: {large: 1ms}"),
        ["scale/plain@large", "scale/wide@large"]
    );
    assert_eq!(
        timed(
            "\n      p50: \"+2%\"",
            "\n      conditions: [spills == 0 || p99 < 1ms]"
        )
        .len(),
        4
    );
    // The sibling that a limit refers to is timed too, at that shape.
    let text = with("\n      p50: \"+2%\"", "").replace(
        "wide: {define: {WIDE: 1}}",
        "wide: {gates: {conditions: [max_err < 1 || 2 * plain.p50 > 1ms], p90: {small: 1ms}}}",
    );
    let resolved = accepted(&text);
    let timed: Vec<_> = resolved
        .plan
        .cases
        .iter()
        .filter(|case| case.timed)
        .collect();
    let ids: Vec<_> = timed.iter().map(|case| case.id.to_string()).collect();
    assert_eq!(
        ids,
        ["scale/plain@small", "scale/plain@large", "scale/wide@small"]
    );
}

#[test]
fn the_tolerance_is_the_tightest_absolute_max_err() {
    let tolerance = |limit: &str| {
        let resolved = right("max_err: 1e-6", limit);
        case(&resolved, "scale/plain@large").tolerance
    };
    assert_eq!(
        tolerance("max_err: [1e-5, 1e-6, \"+10%\"]"),
        Some(Num(1e-6))
    );
    assert_eq!(
        tolerance("max_err: {small: 1e-6, large: 1e-3}"),
        Some(Num(1e-3))
    );
    assert_eq!(tolerance("max_err: \"<= N\""), Some(Num(4096.0)));
    assert_eq!(tolerance("rel_l2: 1e-3"), None);
}

#[test]
fn limits_on_profiles() {
    let resolved = right(
        "registers: 128\n",
        "registers: 128\n      tensor_active: [50%, -2%]\n      bank_conflicts: 0\n      dram_bytes: +2%\n",
    );
    let first = resolved.plan.cases[0].id.to_string();
    let asked = written_for(&resolved, &first);
    for limit in [
        "tensor_active >= 0.5",
        "tensor_active by 0.02",
        "bank_conflicts <= 0",
        "dram_bytes by 0.02",
    ] {
        let is_there = asked
            .iter()
            .any(|line| line.starts_with(&format!("{limit} :")));
        assert!(is_there, "{limit}: {asked:#?}");
    }
}
