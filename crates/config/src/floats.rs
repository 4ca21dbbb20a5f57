//! Resolves the tolerance of floats in memory that has no types.

use model::ElemType;
use std::fmt;
use std::str::FromStr;

/// A tolerance such as `f32:1e-5`: floats of this type may differ by this share of the larger one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatTolerance {
    pub elem: ElemType,
    pub share: f64,
}

const TYPES: [ElemType; 3] = [ElemType::F32, ElemType::F16, ElemType::Bf16];

/// The error for a text that is no tolerance.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it is f32, f16 or bf16 and a share below 1, such as f32:1e-5")]
pub struct BadFloatTolerance;

impl FromStr for FloatTolerance {
    type Err = BadFloatTolerance;

    fn from_str(text: &str) -> Result<Self, BadFloatTolerance> {
        let (elem, share) = text.split_once(':').unwrap_or((text, ""));
        let elem = TYPES.into_iter().find(|known| known.name() == elem);
        let share = share
            .parse()
            .ok()
            .filter(|share| (0.0..1.0).contains(share));
        match (elem, share) {
            (Some(elem), Some(share)) => Ok(Self { elem, share }),
            _ => Err(BadFloatTolerance),
        }
    }
}

impl fmt::Display for FloatTolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:e}", self.elem, self.share)
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
