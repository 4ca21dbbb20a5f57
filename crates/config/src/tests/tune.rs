//! Tests how `tune` of gates.yaml is resolved.

use super::accepted;
use crate::Budget;
use std::time::Duration;

const TUNE: &str = include_str!("edits/tune.yaml");

#[test]
fn every_variant_has_the_kernels_and_its_own_takes_precedence() {
    let resolved = accepted(TUNE);
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
    // Three of six configurations remain: those with TILE 64 and either WIDE, and TILE 128 without WIDE.
    assert_eq!(tune.space().unwrap().len(), 3);

    let own =
        "wide: {define: {WIDE: 1}, tune: {parameters: {TILE: [64]}, objective: p50 of small}}";
    let text = TUNE
        .replace("10min", "7 evaluations")
        .replace("wide: {define: {WIDE: 1}}", own);
    let resolved = accepted(&text);
    assert_eq!(resolved.tunes[0].budget, Budget::Evaluations(7));
    assert_eq!(resolved.tunes[1].budget, Budget::Evaluations(100));
    assert_eq!(resolved.tunes[1].objective, [("small".to_owned(), 1.0)]);
    assert!(accepted(super::RIGHT).tunes.is_empty());
}
