//! `tune`: what it resolves to, and the messages for mistakes.

use super::{accepted, said_of, with};
use crate::Budget;
use std::time::Duration;

const LAST: &str = "      p50: \"+2%\"\n";

const TUNE: &str = r#"    tune:
      parameters: {TILE: [32, 64, 128], WIDE: [0, 1]}
      constraints: ["TILE >= 64", "TILE * (1 + WIDE) <= 128"]
      objective: {small: 1, large: 3}
      budget: 10min
"#;

/// `RIGHT` with a `tune`, of which one piece is replaced.
fn tuned(old: &str, new: &str) -> String {
    assert_eq!(TUNE.matches(old).count(), 1, "{old}");
    with(LAST, &format!("{LAST}{}", TUNE.replace(old, new)))
}

fn check(old: &str, new: &str, expected: &str) {
    assert_eq!(said_of(&tuned(old, new)), expected, "{new}");
}

#[test]
fn every_variant_has_the_kernels_and_its_own_takes_precedence() {
    let resolved = accepted(&tuned("10min", "10min"));
    let names: Vec<_> = resolved
        .tunes
        .iter()
        .map(|tune| tune.variant.as_str())
        .collect();
    assert_eq!(names, ["plain", "wide"]);
    let tune = &resolved.tunes[0];
    assert_eq!(tune.parameters[0].name, "TILE");
    assert_eq!(tune.parameters[0].values, [32, 64, 128]);
    let objective = [("small".to_owned(), 0.25), ("large".to_owned(), 0.75)];
    assert_eq!(tune.objective, objective);
    assert_eq!(tune.budget, Budget::Time(Duration::from_secs(600)));
    // Three of six remain: those with TILE 64 and either WIDE, and TILE 128 without.
    assert_eq!(tune.space().unwrap().len(), 3);

    let own =
        "wide: {define: {WIDE: 1}, tune: {parameters: {TILE: [64]}, objective: p50 of small}}";
    let text = tuned("10min", "7 evaluations").replace("wide: {define: {WIDE: 1}}", own);
    let resolved = accepted(&text);
    assert_eq!(resolved.tunes[0].budget, Budget::Evaluations(7));
    assert_eq!(resolved.tunes[1].budget, Budget::Evaluations(100));
    assert_eq!(resolved.tunes[1].objective, [("small".to_owned(), 1.0)]);
    assert!(accepted(super::RIGHT).tunes.is_empty());
}

#[test]
fn an_empty_space_says_which_constraint_left_nothing() {
    mistakes! {
        "TILE >= 64" => "TILE > 128",
            "gates.yaml:27:21: kernels.scale.tune.constraints[0]: this refuses every configuration";
        "TILE * (1 + WIDE) <= 128" => "TILE < 64",
            "gates.yaml:27:35: kernels.scale.tune.constraints[1]: no configuration is left: 2 hold this, and none of them `TILE >= 64` too";
    }
    // A constraint before it may keep it from a division by zero.
    accepted(&tuned(
        "\"TILE >= 64\", \"TILE * (1 + WIDE) <= 128\"",
        "\"WIDE > 0\", \"TILE / WIDE > 1\"",
    ));
    check(
        "\"TILE >= 64\", \"TILE * (1 + WIDE) <= 128\"",
        "\"TILE / WIDE > 1\"",
        "gates.yaml:27:21: kernels.scale.tune.constraints[0]: division by zero, where TILE is 32 and WIDE is 0\n  \
         help: put a constraint that excludes it before this one",
    );
}

#[test]
fn mistakes_are_refused_at_their_place() {
    mistakes! {
        "{TILE: [32, 64, 128], WIDE: [0, 1]}" => "{}",
            "gates.yaml:26:19: kernels.scale.tune.parameters: no parameters: nothing can be tuned\n  \
             help: name macros and their values: parameters: {BLOCK_M: [32, 64, 128]}";
        "WIDE: [0, 1]" => "WIDE: []",
            "gates.yaml:26:47: kernels.scale.tune.parameters.WIDE: `WIDE` has no values";
        "WIDE: [0, 1]" => "WIDE: [1, 1]",
            "gates.yaml:26:51: kernels.scale.tune.parameters.WIDE[1]: duplicate value 1";
        "WIDE: [0, 1]" => "N: [0, 1]",
            "gates.yaml:26:41: kernels.scale.tune.parameters.N: `N` is already a dimension, which is the same for all configurations";
        "WIDE: [0, 1]" => "MODE: [0, 1]",
            "gates.yaml:26:41: kernels.scale.tune.parameters.MODE: the macro `MODE` is `fast` here, which is no integer";
        "TILE >= 64" => "TILES >= 64",
            "gates.yaml:27:21: kernels.scale.tune.constraints[0]: `TILES` is neither a parameter nor an integer macro\n  \
             help: did you mean `TILE`?";
        "TILE >= 64" => "TILE <= N",
            "gates.yaml:27:21: kernels.scale.tune.constraints[0]: a configuration is tried at all shapes, and `N` depends on the shape\n  \
             help: there are `TILE`, `WIDE`";
        "TILE >= 64" => "TILE + 64",
            "gates.yaml:27:21: kernels.scale.tune.constraints[0]: `TILE + 64` is not a condition\n  \
             help: compare it with something: BLOCK_M / NUM_WARPS >= 8";
        "{small: 1, large: 3}" => "p50 of mission",
            "gates.yaml:28:18: kernels.scale.tune.objective: unknown shape `mission`\n  help: there are `small`, `large`";
        "{small: 1, large: 3}" => "fastest",
            "gates.yaml:28:18: kernels.scale.tune.objective: `fastest` is no objective\n  \
             help: write p50 of SHAPE, or a weight for each shape: {mission: 2, long: 1}";
        "large: 3" => "large: 0",
            "gates.yaml:28:36: kernels.scale.tune.objective.large: `0` is no weight: use a number above 0";
        "10min" => "0 evaluations",
            "gates.yaml:29:15: kernels.scale.tune.budget: a budget of 0 evaluations tries nothing";
        "10min" => "10",
            "gates.yaml:29:15: kernels.scale.tune.budget: `10` is no budget: write 200 evaluations, or a time such as 10min";
    }
}
