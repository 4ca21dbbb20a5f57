//! The simulator's settings: its budget, and the counters.

use super::*;
use model::{Num, Rule, WarpHazards};

/// Changes that are allowed to the counters of each case, with the line that says so.
fn counters(resolved: &Loaded) -> Vec<(String, f64, Option<String>)> {
    resolved
        .gates
        .iter()
        .filter_map(|gate| match gate.rule {
            Rule::Counters {
                change: Num(change),
            } => Some((gate.subject.to_string(), change, gate.declared.clone())),
            _ => None,
        })
        .collect()
}

#[test]
fn counters_may_not_grow_unless_something_else_is_said() {
    let all = counters(&accepted(RIGHT));
    assert_eq!(all.len(), 4);
    assert!(
        all.iter()
            .all(|(_, change, at)| *change == 0.0 && at.is_none())
    );

    let said = counters(&right("registers: 128", "counters: \"+2.5%\""));
    let at = Some("gates.yaml:22".to_owned());
    assert!(
        said.iter()
            .all(|(_, change, line)| *change == 0.025 && *line == at)
    );

    // A shape that is not named keeps the default.
    let said = counters(&right("registers: 128", "counters: {large: \"+1%\"}"));
    for (subject, change, _) in said {
        let expected = if subject.ends_with("@large") {
            0.01
        } else {
            0.0
        };
        assert_eq!(change, expected, "{subject}");
    }
}

#[test]
fn a_limit_on_all_counters_is_a_change() {
    for limit in [
        "128",
        "\"<= 5\"",
        "\"-1%\"",
        "\"+x%\"",
        "\"+2\"",
        "\"+NaN%\"",
        "\"+1e9%\"",
    ] {
        let said = said_of(&with("registers: 128", &format!("counters: {limit}")));
        assert!(
            said.starts_with("gates.yaml:22:17: kernels.scale.gates.counters: ")
                && said.contains("is not a relative limit: write `+0%`"),
            "{said}"
        );
    }
    let said = said_of(&with("registers: 128", "counters: {huge: \"+1%\"}"));
    assert!(said.contains("unknown shape `huge`"), "{said}");
}

/// A GPU cannot confirm a counter that no GPU has: machine instructions are not those of PTX.
#[test]
fn a_counter_for_information_is_no_gate_anywhere() {
    for gate in [
        "instructions: 5",
        "instructions: \"+0%\"",
        "p99: \"<= instructions\"",
        "conditions: [\"instructions < 5\"]",
        "conditions: [\"wide.instructions < 5\"]",
    ] {
        let said = said_of(&with("registers: 128", gate));
        assert!(
            said.contains("instructions is shown for information and cannot be gated"),
            "{gate}: {said}"
        );
    }
    let said = said_of(&with("registers: 128", "instuctions: 5"));
    assert!(said.contains("did you mean `instructions`?"), "{said}");
}

#[test]
fn the_budget_is_the_files_or_a_default() {
    let budget = |text: &str| accepted(text).plan.simulation.budget;
    assert_eq!(budget(RIGHT), defaults::SIMULATION.budget);
    let with_budget = |value: &str| {
        with(
            "kernels:\n",
            &format!("simulation: {{budget: {value}}}\nkernels:\n"),
        )
    };
    assert_eq!(budget(&with_budget("7000000")), 7_000_000);
    for value in ["0", "999", "2000000000000"] {
        let said = said_of(&with_budget(value));
        assert!(
            said.contains("warp instructions; it must be between 1000 and 1000000000000"),
            "{said}"
        );
    }
}

#[test]
fn hazards_within_a_warp_are_notes_unless_the_file_says_otherwise() {
    let hazards = |text: &str| accepted(text).plan.simulation.warp_hazards;
    let with_hazards = |value: &str| {
        with(
            "kernels:\n",
            &format!("simulation: {{warp_hazards: {value}}}\nkernels:\n"),
        )
    };
    assert_eq!(hazards(RIGHT), WarpHazards::Note);
    assert_eq!(hazards(&with_hazards("note")), WarpHazards::Note);
    assert_eq!(hazards(&with_hazards("fail")), WarpHazards::Fail);
    let said = said_of(&with_hazards("ignore"));
    assert!(said.contains("ignore"), "{said}");
}
