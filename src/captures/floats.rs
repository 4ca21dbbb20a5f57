//! Outputs that are compared as floats. Captured memory has no types, so the user says which floats there are, and words
//! that are no such floats have to be the same.

use config::{Loaded, Whole};
use model::{Determinism, ElemType, Num, Plan};
use std::fmt;
use std::str::FromStr;

/// `f32:1e-5`: floats of this type may differ by this share of the larger one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatTolerance {
    elem: ElemType,
    share: f64,
}

const TYPES: [ElemType; 3] = [ElemType::F32, ElemType::F16, ElemType::Bf16];

impl FromStr for FloatTolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (elem, share) = text.split_once(':').unwrap_or((text, ""));
        let elem = TYPES.into_iter().find(|it| it.name() == elem);
        let share = share.parse().ok().filter(|it| (0.0..1.0).contains(it));
        match (elem, share) {
            (Some(elem), Some(share)) => Ok(Self { elem, share }),
            _ => Err("it is f32, f16 or bf16 and a share below 1, such as f32:1e-5".to_owned()),
        }
    }
}

impl fmt::Display for FloatTolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:e}", self.elem, self.share)
    }
}

/// Compares the outputs of all cases so. Their launches may differ from each other by as much.
pub fn compare_as_floats(loaded: &mut Loaded, by: FloatTolerance) {
    set(&mut loaded.plan, by);
    loaded.gates = super::gates(&loaded.plan);
    loaded.whole = Whole {
        plan: loaded.plan.clone(),
        gates: loaded.gates.clone(),
    };
}

fn set(plan: &mut Plan, by: FloatTolerance) {
    let (word, bytes) = match by.elem.size() {
        2 => (ElemType::U16, 2),
        _ => (ElemType::U32, 4),
    };
    for case in &mut plan.cases {
        // Variables of the module have no address.
        let memory = case.tensors.iter_mut().filter(|it| it.address.is_some());
        for tensor in memory {
            let length = tensor.len() * tensor.elem.size();
            if length % bytes == 0 {
                tensor.elem = word;
                tensor.dims = vec![length / bytes];
                tensor.floats = Some(by.elem);
            }
        }
        case.tolerance = Some(Num(by.share));
        case.determinism = Determinism::Declared {
            reason: format!("--tolerance {by}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::FloatTolerance;

    #[test]
    fn a_tolerance_has_a_type_and_a_share() {
        let read = |text: &str| text.parse::<FloatTolerance>();
        assert_eq!(read("f32:1e-5").unwrap().to_string(), "f32:1e-5");
        assert_eq!(read("bf16:0.01").unwrap().to_string(), "bf16:1e-2");
        for wrong in [
            "f32", "f32:", "f32:1", "f32:-1", "f32:NaN", "i32:1e-5", "1e-5", "",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
