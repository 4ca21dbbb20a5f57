//! The simulator's settings: its budget, and the counters.

use super::*;
use model::WarpHazards;

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
}
