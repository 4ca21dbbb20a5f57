use super::*;
use crate::terminal;
use crate::terminal::{Options, Verbosity};
use judge::{Index, fixture, judge};
use model::{Callable, Record, Reference};

const PLAIN: Options = Options {
    color: false,
    width: 100,
    verbosity: Verbosity::Normal,
};

fn groups(record: &Record) -> Vec<Vec<Section<'static>>> {
    let judgement = judged(record);
    let index = Index::new(record);
    let view = index.head();
    lay_out(view, &judgement, &ladders(view, &judgement))
}

fn judged(record: &Record) -> Judgement {
    judge(record)
}

fn build_ladders(record: &Record) -> Vec<Ladder> {
    ladders(Index::new(record).head(), &judged(record))
}

#[test]
fn a_step_lists_the_differences_of_its_build() {
    let units = fixture::plan().units;
    let [direct, fast] = units.as_slice() else {
        panic!("two variants");
    };
    let words = |before: Option<&Unit>, unit: &Unit| -> Vec<String> {
        added(before, unit).iter().map(Added::words).collect()
    };
    assert_eq!(words(None, direct), ["VARIANT=direct"]);
    assert_eq!(words(Some(direct), fast), ["VARIANT direct -> fast"]);
    assert!(words(Some(fast), fast).is_empty());
    let mut other = fast.clone();
    other.defines.clear();
    other.defines.insert("TILE".into(), "64".into());
    other.source = "kernels/other.cu".into();
    other.call = Callable::Entries {
        names: vec!["k2".into()],
        constants: Vec::new(),
    };
    assert_eq!(
        words(Some(fast), &other),
        [
            "TILE=64",
            "without VARIANT",
            "source kernels/k.cu -> kernels/other.cu",
            "entry k -> k2"
        ]
    );
}

/// Variants that compute something else have a ladder and a name of their own, and numbers fit 80 columns.
#[test]
fn a_second_ladder_of_a_kernel_is_named_by_its_variants() {
    assert_eq!(common_name(&["causal", "mma_causal"]), "causal");
    assert_eq!(common_name(&["mma_causal", "causal"]), "causal");
    assert_eq!(common_name(&["wide_causal", "wide_causal_two"]), "wide");
    assert_eq!(common_name(&["one", "other"]), "one");

    let mut record = fixture::record_beside_rival();
    let text = serde_json::to_string(&record.plan).unwrap();
    let other = text
        .replace("\"variant\":\"direct\"", "\"variant\":\"causal\"")
        .replace("\"variant\":\"fast\"", "\"variant\":\"fast_causal\"");
    let other: model::Plan = serde_json::from_str(&other).unwrap();
    let cases = other.cases.into_iter().map(|mut case| {
        case.reference = Reference::Softmax {
            x: "another".into(),
            out: "out".into(),
        };
        case
    });
    record.plan.cases.extend(cases);
    record.plan.units.extend(other.units);
    let names: Vec<String> = build_ladders(&record)
        .into_iter()
        .map(|ladder| ladder.name)
        .collect();
    assert_eq!(names, ["k", "k, causal"]);
    let text = terminal::render_groups(&groups(&record), Options { width: 80, ..PLAIN });
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
}
