//! Rounding modes (PTX ISA 9.7.3, "rounding modifiers") for f32 and f64.
//!
//! The method for f32 has three steps: compute in f64, fold the sign of what was lost into the last bit ("round to
//! odd"), and round once to f32. Because 53 >= 24 + 2, the result is the correctly rounded one (Boldo and Melquiond,
//! "Emulation of FMA and correctly rounded sums", 2008).

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Round {
    /// Returns the mode that a word of PTX names.
    pub fn parse(word: &str) -> Option<Round> {
        Some(match word {
            "rn" | "rni" => Round::Nearest,
            "rz" | "rzi" => Round::Zero,
            "rm" | "rmi" => Round::Down,
            "rp" | "rpi" => Round::Up,
            _ => return None,
        })
    }
}

/// Returns `sum` and `lost` with x + y = sum + lost, exactly, where nothing overflows (Knuth's TwoSum).
fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let part = sum - x;
    (sum, (x - (sum - part)) + (y - part))
}

/// Returns the nearest value to sum + lost whose last bit is set if something was lost.
pub fn to_odd(sum: f64, lost: f64) -> f64 {
    if lost == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if sum == 0.0 {
        return f64::from_bits(lost.to_bits() & 1 << 63 | 1);
    }
    let bits = sum.to_bits();
    f64::from_bits(if (lost > 0.0) == (sum > 0.0) {
        bits + 1
    } else {
        bits - 1
    })
}

/// Rounds an f64 to f32, in any mode.
pub fn f64_to_f32(x: f64, mode: Round) -> f32 {
    let near = x as f32;
    let wide = f64::from(near);
    if wide == x || x.is_nan() || x.is_infinite() {
        return near;
    }
    match mode {
        Round::Nearest => near,
        Round::Zero if wide.abs() > x.abs() => {
            if x > 0.0 {
                near.next_down()
            } else {
                near.next_up()
            }
        }
        Round::Down if wide > x => near.next_down(),
        Round::Up if wide < x => near.next_up(),
        _ => near,
    }
}

/// Returns the sum of two exact f64 values, rounded once to f32. An exact zero from cancellation is -0 only when
/// rounding down (IEEE 754-2019, 6.3).
pub fn sum_to_f32(x: f64, y: f64, mode: Round) -> f32 {
    let (sum, lost) = two_sum(x, y);
    if sum == 0.0
        && lost == 0.0
        && mode == Round::Down
        && x.is_sign_negative() != y.is_sign_negative()
    {
        return -0.0;
    }
    f64_to_f32(to_odd(sum, lost), mode)
}

/// Returns a * b + c, rounded once.
pub fn fma_f32(a: f32, b: f32, c: f32, mode: Round) -> f32 {
    // 24 + 24 bits: the product is exact in f64.
    sum_to_f32(f64::from(a) * f64::from(b), f64::from(c), mode)
}

/// Returns a * b + c, rounded to odd in f64. If it is then rounded to a format of at most 24 bits, the result is
/// rounded correctly. The product has to be exact in f64.
pub fn fma_to_odd(a: f64, b: f64, c: f64) -> f64 {
    let (sum, lost) = two_sum(a * b, c);
    to_odd(sum, lost)
}

/// Returns a + b, rounded once.
pub fn add_f32(a: f32, b: f32, mode: Round) -> f32 {
    sum_to_f32(f64::from(a), f64::from(b), mode)
}

/// Returns a * b, rounded once.
pub fn mul_f32(a: f32, b: f32, mode: Round) -> f32 {
    f64_to_f32(f64::from(a) * f64::from(b), mode)
}

/// Returns a / b, rounded once.
pub fn div_f32(a: f32, b: f32, mode: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let q = a / b;
    if !q.is_finite() || b.is_infinite() {
        return q as f32;
    }
    let rest = (-q).mul_add(b, a);
    f64_to_f32(to_odd(q, if b < 0.0 { -rest } else { rest }), mode)
}

/// Returns the square root of `a`, rounded once.
pub fn sqrt_f32(a: f32, mode: Round) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    if !root.is_finite() {
        return root as f32;
    }
    f64_to_f32(to_odd(root, (-root).mul_add(root, a)), mode)
}

/// Moves a correctly rounded f64 to what `mode` asks for, given the sign of exact - near.
fn direct_f64(near: f64, lost: f64, mode: Round) -> f64 {
    if near.is_nan() || lost == 0.0 || lost.is_nan() {
        return near;
    }
    match mode {
        Round::Nearest => near,
        Round::Zero if near > 0.0 && lost < 0.0 => near.next_down(),
        Round::Zero if near < 0.0 && lost > 0.0 => near.next_up(),
        Round::Down if lost < 0.0 => near.next_down(),
        Round::Up if lost > 0.0 => near.next_up(),
        _ => near,
    }
}

/// Rounds a float to an integer, which stays a float (`cvt.rni.f32.f32`).
pub fn integral_f64(x: f64, mode: Round) -> f64 {
    match mode {
        Round::Nearest => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// Converts an integer to f32 with one rounding.
pub fn i128_to_f32(x: i128, mode: Round) -> f32 {
    // Through round to odd in 53 bits: the magnitude has at most 64.
    let near = x as f64;
    let lost = (x - near as i128) as f64;
    if x == 0 {
        0.0
    } else {
        f64_to_f32(to_odd(near, lost), mode)
    }
}

/// Converts an integer of at most 64 bits to f64 with one rounding.
pub fn i128_to_f64(x: i128, mode: Round) -> f64 {
    let near = x as f64;
    direct_f64(near, (x - near as i128) as f64, mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks every mode against the two neighbours of the exact value, which f64 holds.
    fn check(exact: f64, got: [f32; 4]) {
        let near = exact as f32;
        let wide = f64::from(near);
        let (below, above) = if wide > exact {
            (near.next_down(), near)
        } else if wide < exact {
            (near, near.next_up())
        } else {
            (near, near)
        };
        let zero = if exact > 0.0 { below } else { above };
        assert_eq!(got, [near, zero, below, above], "{exact:e}");
    }

    const MODES: [Round; 4] = [Round::Nearest, Round::Zero, Round::Down, Round::Up];

    proptest! {
        #[test]
        fn products_and_quotients(a in -1e6f32..1e6, b in 1e-3f32..1e6) {
            let exact = f64::from(a) * f64::from(b);
            check(exact, MODES.map(|m| mul_f32(a, b, m)));
            for mode in MODES {
                // a quotient lies between its neighbours: q * b against a, in exact arithmetic
                let q = div_f32(a, b, mode);
                let product = f64::from(q) * f64::from(b);
                match mode {
                    Round::Down => prop_assert!(product <= f64::from(a) && f64::from(q.next_up()) * f64::from(b) > f64::from(a)),
                    Round::Up => prop_assert!(product >= f64::from(a) && f64::from(q.next_down()) * f64::from(b) < f64::from(a)),
                    Round::Nearest => prop_assert_eq!(q, a / b),
                    Round::Zero => prop_assert!(product.abs() <= f64::from(a).abs()),
                }
            }
        }

        #[test]
        fn rounds_to_nearest_as_the_processor_does(a in any::<f32>(), b in any::<f32>(), c in any::<f32>()) {
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            prop_assert!(same(fma_f32(a, b, c, Round::Nearest), a.mul_add(b, c)));
            prop_assert!(same(add_f32(a, b, Round::Nearest), a + b));
            prop_assert!(same(sqrt_f32(a, Round::Nearest), a.sqrt()));
            prop_assert!(same(div_f32(a, b, Round::Nearest), a / b));
        }

        #[test]
        fn integers(x in any::<i64>()) {
            let got = MODES.map(|m| i128_to_f32(i128::from(x), m));
            prop_assert_eq!(got[0], x as f32);
            prop_assert!(got[2] as i128 <= i128::from(x) && got[3] as i128 >= i128::from(x));
            prop_assert!((got[1] as i128).abs() <= i128::from(x).abs());
        }
    }
}
