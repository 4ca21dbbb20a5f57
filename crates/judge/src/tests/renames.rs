//! Names that are gone are matched with names that are new, and a base is put under head's names.

use super::*;
use crate::renames::{HeadNames, PlanAndGates, find};

/// A side of one kernel: its plan and its gates.
#[derive(Clone, Debug, PartialEq)]
struct RenamedSide {
    plan: Plan,
    gates: Vec<Gate>,
}

impl RenamedSide {
    fn new() -> Self {
        let mut plan = plan();
        for case in plan
            .cases
            .iter_mut()
            .filter(|case| case.id.shape == "large")
        {
            case.dims.insert("N".into(), 128);
        }
        let gates = gates();
        Self { plan, gates }
    }

    /// Replaces every name that equals one of these, in the text of the plan and the gates.
    fn named(&self, names: &[(&str, &str)]) -> Self {
        let replace = |text: String| {
            names.iter().fold(text, |text, (from, to)| {
                text.replace(&format!("\"{from}\""), &format!("\"{to}\""))
            })
        };
        let plan = replace(serde_json::to_string(&self.plan).unwrap());
        let gates = replace(serde_json::to_string(&self.gates).unwrap());
        Self {
            plan: serde_json::from_str(&plan).unwrap(),
            gates: serde_json::from_str(&gates).unwrap(),
        }
    }

    fn asked(&self) -> PlanAndGates<'_> {
        PlanAndGates {
            plan: &self.plan,
            gates: &self.gates,
        }
    }

    fn under(&self, renames: &[Rename]) -> Self {
        let mut base = record_against_base().policy.base.unwrap();
        base.plan = self.plan.clone();
        base.gates.clone_from(&self.gates);
        HeadNames { renames }.carry(&mut base);
        Self {
            plan: base.plan,
            gates: base.gates,
        }
    }
}

fn said(renames: &[Rename]) -> Vec<(&str, &str)> {
    renames
        .iter()
        .map(|name| (name.from.as_str(), name.to.as_str()))
        .collect()
}

#[test]
fn renames_are_found_and_carried_to_the_same_subject() {
    let base = RenamedSide::new();
    assert_eq!(find(base.asked(), base.asked()), []);
    for names in [
        &[("k", "renamed")][..],
        &[("small", "tiny")],
        &[("large", "huge")],
        &[("small", "tiny"), ("large", "huge")],
        &[("k", "renamed"), ("small", "tiny")],
    ] {
        // The entry keeps its name.
        let mut head = base.named(names);
        for (unit, was) in head.plan.units.iter_mut().zip(&base.plan.units) {
            unit.call = was.call.clone();
        }
        let found = find(base.asked(), head.asked());
        assert_eq!(said(&found), names);
        assert_eq!(base.under(&found), head, "{names:?}");
    }
}

#[test]
fn names_that_are_swapped_are_no_new_names() {
    let base = RenamedSide::new();
    let head = base.named(&[("small", "*"), ("large", "small"), ("*", "large")]);
    assert_eq!(find(base.asked(), head.asked()), []);
}

/// Two variants whose macros are the same could each be either.
#[test]
fn ambiguous_renames_are_none() {
    let mut base = RenamedSide::new();
    for unit in &mut base.plan.units {
        unit.defines.clear();
    }
    base.gates.retain(|gate| gate.rule == Rule::Built);
    let [one, other] = VARIANTS;
    let head = base.named(&[(one, "a"), (other, "b")]);
    assert_eq!(find(base.asked(), head.asked()), []);
    // One of the two keeps its name.
    let head = base.named(&[(one, "a")]);
    assert_eq!(said(&find(base.asked(), head.asked())), [(one, "a")]);
}

#[test]
fn kernels_held_by_an_anchor_keep_their_name() {
    let mut base = RenamedSide::new();
    let limit = Limit::Anchor {
        anchor: Since::Best,
        change: Margin::Share(Num(0.05)),
    };
    base.gates.push(gate(
        case("fast", "small"),
        Rule::Limit {
            metric: Metric::P50,
            limit,
        },
    ));
    for names in [("k", "renamed"), ("small", "tiny")] {
        let head = base.named(&[names]);
        assert_eq!(find(base.asked(), head.asked()), []);
    }
}
