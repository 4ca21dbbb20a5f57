//! Tests launches that leave something in variables of the module, and whether the next launch is correct with it.

use super::bench::*;
use build::FilledConstant;
use model::{Fill, KeptFacts, LaterData, Num, Role, Tensor};

fn kept(symbol: &str) -> Option<KeptFacts> {
    got(check_entry(&mut crew(), symbol)).kept.map(|kept| *kept)
}

fn names(kept: &KeptFacts) -> Vec<&str> {
    kept.variables
        .iter()
        .map(|variable| variable.name.as_str())
        .collect()
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn right_in_the_first_launch_only_names_the_kept_variable() {
    for (symbol, variables, over) in [
        ("unreset", &["tickets"][..], LaterData::Same { launch: 2 }),
        (
            "of_its_own",
            &["of_its_own::calls"],
            LaterData::Same { launch: 2 },
        ),
        (
            "remembers",
            &["known", "results"],
            LaterData::Other { seed: 2 },
        ),
    ] {
        let kept = kept(symbol).unwrap();
        let mut found = names(&kept);
        found.sort_unstable();
        assert_eq!(found, variables, "{symbol}");
        assert_eq!(kept.differs.unwrap().over, over, "{symbol}");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn right_in_every_launch_passes_with_any_kept_state() {
    for (symbol, is_kept) in [("right", false), ("reset", false), ("counts", true)] {
        let facts = got(check_entry(&mut crew(), symbol));
        assert_right(&facts);
        assert_eq!(facts.kept.is_some(), is_kept, "{symbol}");
        if let Some(kept) = facts.kept {
            assert_eq!(names(&kept), ["turns"]);
            assert_eq!(kept.differs, None);
        }
    }
    // A difference between launches that depends on chance is reported as such.
    let facts = got(check_entry(&mut crew(), "differs"));
    assert!(facts.differs.is_some() && facts.kept.is_none());
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_variable_that_the_host_writes_before_each_launch_is_written() {
    let mut case = case("unreset");
    case.tensors.push(Tensor {
        elem: model::ElemType::I32,
        dims: vec![1],
        fill: Some(Fill::Constant { value: Num(0.0) }),
        ..tensor("zero", Role::In)
    });
    let mut artifact = entry("unreset");
    if let build::Artifact::Cubin { constants, .. } = &mut artifact {
        constants.push(FilledConstant {
            name: "tickets".into(),
            symbol: "tickets".into(),
            tensor: "zero".into(),
        });
    }
    let facts = got(check(&mut crew(), case, artifact));
    assert_right(&facts);
    assert_eq!(facts.kept, None);
}
