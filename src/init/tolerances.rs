//! Chooses the limit on the error of an output, from how its type rounds and from how large its
//! values are. Pure.

use model::ElemType;

/// The number of roundings of the output's type by which a correct kernel may differ.
const STORED: f64 = 2.0;
/// The number of roundings of the arithmetic by which a correct kernel may differ, because it sums
/// in another order.
const COMPUTED: f64 = 64.0;

/// Returns the largest relative error of one rounding, or `None` for integers, which do not round.
fn roundoff(elem: ElemType) -> Option<f64> {
    let bits = match elem {
        ElemType::F64 => 53,
        ElemType::F32 => 24,
        ElemType::F16 => 11,
        ElemType::Bf16 => 8,
        ElemType::E4m3 => 4,
        ElemType::E5m2 => 3,
        _ => return None,
    };
    Some(0.5f64.powi(bits))
}

/// Returns how far a correct output of this type may be from a reference. `largest` is the output's
/// largest value.
pub fn tolerance(elem: ElemType, largest: f64) -> f64 {
    let Some(stored) = roundoff(elem) else {
        return 0.0;
    };
    // Narrow types are for storage, and kernels compute in f32.
    let computed = roundoff(ElemType::F32).unwrap_or_default().min(stored);
    let scale = if largest.is_finite() && largest > 0.0 {
        largest
    } else {
        1.0
    };
    scale * (STORED * stored + COMPUTED * computed)
}

/// Rounds up to 1, 2 or 5 times a power of ten, such as `2e-5`.
pub fn rounded_up(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let exponent = value.log10().floor() as i32;
    let digits = value / 10f64.powi(exponent);
    let (digit, exponent) = match [1, 2, 5]
        .into_iter()
        .find(|digit| digits <= f64::from(*digit))
    {
        Some(digit) => (digit, exponent),
        None => (1, exponent + 1),
    };
    match exponent {
        0 => digit.to_string(),
        _ => format!("{digit}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_follows_the_type_and_the_values() {
        let limit = |elem, largest| rounded_up(tolerance(elem, largest));
        assert_eq!(limit(ElemType::F64, 1.0), "1e-14");
        assert_eq!(limit(ElemType::F32, 1.0), "5e-6");
        assert_eq!(limit(ElemType::F32, 40.0), "2e-4");
        assert_eq!(limit(ElemType::F16, 1.0), "1e-3");
        assert_eq!(limit(ElemType::Bf16, 4.0), "5e-2");
        assert_eq!(limit(ElemType::E4m3, 2.0), "5e-1");
        assert_eq!(limit(ElemType::I32, 1e9), "0");
        // An output that is not a number gets the limit of an output of 1.
        assert_eq!(limit(ElemType::F32, f64::NAN), "5e-6");
        assert_eq!(limit(ElemType::F32, 0.0), "5e-6");
    }

    /// One rounding is half a unit in the last place, so a correct bf16 output just below 4 is up to 2^-7
    /// away.
    #[test]
    fn a_right_output_is_within_its_limit() {
        let value = 3.9921875f32;
        let stored = half::bf16::from_f32(value).to_f32();
        let error = f64::from((stored - value).abs());
        assert!(error > 1e-3, "{error}");
        assert!(error < tolerance(ElemType::Bf16, f64::from(value)));
    }

    #[test]
    fn limits_are_rounded_up() {
        let shown = [1.0, 1.1, 2e-3, 2.1e-3, 0.06, 7.0, 0.0].map(rounded_up);
        assert_eq!(shown, ["1", "2", "2e-3", "5e-3", "1e-1", "1e1", "0"]);
    }
}
