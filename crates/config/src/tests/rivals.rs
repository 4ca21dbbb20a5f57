//! Rivals, and limits that name them.

use super::*;
use model::{Bound, Limit, Metric, Rule};

const RIVAL: &str = "    rivals:
      torch: {command: [python3, rivals/torch.py, --half], backends: [flash, math]}
    gates:
      registers: 128
";

fn with_rival(p50: &str) -> String {
    let text = with("    gates:\n      registers: 128\n", RIVAL);
    assert!(text.contains("p50: \"+2%\""));
    text.replace("p50: \"+2%\"", &format!("p50: \"{p50}\""))
}

#[test]
fn a_rival_is_part_of_the_plan_and_limits_name_its_backends() {
    let resolved = accepted(&with_rival("<= 1.0 * torch.flash.p50"));
    let [rival] = &resolved.plan.rivals[..] else {
        panic!("{:?}", resolved.plan.rivals);
    };
    assert_eq!(
        (rival.kernel.as_str(), rival.name.as_str()),
        ("scale", "torch")
    );
    assert_eq!(rival.command, ["python3", "rivals/torch.py", "--half"]);
    assert_eq!(rival.backends, ["flash", "math"]);
    assert_eq!(rival.deadline_ms, 120_000);
    assert_eq!(
        resolved
            .gates
            .iter()
            .filter_map(|gate| match &gate.rule {
                Rule::Limit {
                    metric: Metric::P50,
                    limit:
                        Limit::Absolute {
                            bound: Bound::Expr(expr),
                            ..
                        },
                } => Some(expr.text.as_str()),
                _ => None,
            })
            .collect::<Vec<_>>(),
        ["1.0 * torch.flash.p50"; 4]
    );
    assert!(resolved.plan.cases.iter().all(|case| case.timed));
}

/// Where a condition is all that names a time, and the time is the rival's.
#[test]
fn times_a_case_if_a_condition_names_a_rival() {
    let text = with_rival("+2%").replace("p50: \"+2%\"", "conditions: [\"torch.flash.p50 < 1ms\"]");
    assert!(accepted(&text).plan.cases.iter().all(|case| case.timed));
}

#[test]
fn rivals_of_kernels_that_are_not_selected_are_not_run() {
    let two = with_rival("+2%").replace(
        "kernels:\n",
        "kernels:\n  other: &other\n    source: scale.cu\n    entry: scale\n    shapes: {small: {N: 128}}\n    tensors:\n      x: {type: f32, shape: [N]}\n      y: {role: out, type: f32, shape: [N]}\n    args: [{tensor: x}, {tensor: y}]\n    launch: {grid: [1], block: [32]}\n    reference: {unary: {x: x, out: y, op: relu}}\n    gates: {max_err: 1e-6}\n",
    );
    let mut resolved = accepted(&two);
    let selection = Selection {
        filters: vec!["other".to_owned()],
        ..Selection::default()
    };
    select::select(&mut resolved, &selection).unwrap();
    assert_eq!(resolved.plan.rivals, []);
}
