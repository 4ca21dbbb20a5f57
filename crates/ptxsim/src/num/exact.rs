//! f64 arithmetic in every rounding mode, subnormal operands and results included. It computes with exact integers and
//! rounds once (IEEE 754-2019, 4.3). It is slow, and used only where no hardware instruction exists.

use super::round::Round;

/// Splits a finite number into significand and exponent: its magnitude is significand * 2^exponent.
fn parts(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match ((bits >> 52) & 0x7ff) as i32 {
        0 => (fraction, -1074),
        e => (fraction | 1 << 52, e - 1075),
    }
}

/// Rounds significand * 2^exponent to f64. `sticky` is true if something not zero lies below the last bit of
/// `significand`, which then has 60 bits at least, or is zero.
fn round(negative: bool, significand: u128, exponent: i32, sticky: bool, mode: Round) -> f64 {
    let sign = u64::from(negative) << 63;
    if significand == 0 {
        return f64::from_bits(sign);
    }
    let top = 127 - significand.leading_zeros() as i32;
    // The exponent of the last bit that is kept.
    let last = (top + exponent - 52).max(-1074);
    let shift = last - exponent;
    let (kept, rest, half) = if shift <= 0 {
        (significand << -shift, 0, 1)
    } else if shift > 127 {
        (0, 1, 2)
    } else {
        let ones = (1_u128 << shift) - 1;
        (
            significand >> shift,
            significand & ones,
            1_u128 << (shift - 1),
        )
    };
    let inexact = rest != 0 || sticky;
    let up = match mode {
        Round::Nearest => rest > half || rest == half && (sticky || kept & 1 == 1),
        Round::Zero => false,
        Round::Down => negative && inexact,
        Round::Up => !negative && inexact,
    };
    let kept = kept as u64 + u64::from(up);
    // A carry out of 53 bits moves on into the exponent by itself.
    let biased = (last + 1074) as u64;
    let magnitude = match kept >> 52 {
        0 => kept,
        _ => (biased << 52) + kept,
    };
    if magnitude < 0x7ff << 52 {
        return f64::from_bits(sign | magnitude);
    }
    let stays =
        mode == Round::Zero || mode == Round::Down && !negative || mode == Round::Up && negative;
    f64::from_bits(
        sign | if stays {
            (0x7ff << 52) - 1
        } else {
            0x7ff << 52
        },
    )
}

/// Returns a * b, rounded once.
pub fn mul(a: f64, b: f64, mode: Round) -> f64 {
    if !a.is_finite() || !b.is_finite() {
        return a * b;
    }
    let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
    let product = u128::from(ma) * u128::from(mb);
    let negative = a.is_sign_negative() != b.is_sign_negative();
    round(negative, product, ea + eb, false, mode)
}

/// Returns a / b, rounded once.
pub fn div(a: f64, b: f64, mode: Round) -> f64 {
    if !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        return a / b;
    }
    let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
    let lift = ma.leading_zeros() as i32 - 11;
    let (ma, ea) = (u128::from(ma) << lift, ea - lift);
    let (n, d) = (ma << 74, u128::from(mb));
    let negative = a.is_sign_negative() != b.is_sign_negative();
    round(negative, n / d, ea - eb - 74, n % d != 0, mode)
}

/// Returns the square root of `a`, rounded once.
pub fn sqrt(a: f64, mode: Round) -> f64 {
    if !a.is_finite() || a <= 0.0 {
        return a.sqrt();
    }
    let (m, e) = parts(a);
    // 60 bits of root from about 120 bits.
    let mut lift = m.leading_zeros() as i32 - 11 + 66;
    if (e - lift) % 2 != 0 {
        lift += 1;
    }
    let n = u128::from(m) << lift;
    let root = n.isqrt();
    round(false, root, (e - lift) / 2, root * root != n, mode)
}

/// Returns a * b + c, rounded once.
pub fn fma(a: f64, b: f64, c: f64, mode: Round) -> f64 {
    if !a.is_finite() || !b.is_finite() || !c.is_finite() {
        return a.mul_add(b, c);
    }
    let ((ma, ea), (mb, eb), (mc, ec)) = (parts(a), parts(b), parts(c));
    let negative = a.is_sign_negative() != b.is_sign_negative();
    sum(
        (negative, u128::from(ma) * u128::from(mb), ea + eb),
        (c.is_sign_negative(), u128::from(mc), ec),
        mode,
    )
}

/// Returns a + b, rounded once.
pub fn add(a: f64, b: f64, mode: Round) -> f64 {
    if !a.is_finite() || !b.is_finite() {
        return a + b;
    }
    let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
    sum(
        (a.is_sign_negative(), u128::from(ma), ea),
        (b.is_sign_negative(), u128::from(mb), eb),
        mode,
    )
}

/// A term of a sum: whether it is negative, its significand and its exponent.
type Term = (bool, u128, i32);

/// Returns the sum of two terms, rounded once.
fn sum(x: Term, y: Term, mode: Round) -> f64 {
    let lifted = |(sign, m, e): Term| {
        // One bit is left for the carry. Bits shifted out below are jammed into the last bit:
        // the terms have 106 bits at most, so where that happens no cancellation reaches it.
        let lift = (m.leading_zeros() as i32 - 1).max(0);
        (sign, if m == 0 { 0 } else { m << lift }, e - lift)
    };
    if x.1 == 0 && y.1 == 0 {
        let negative = if x.0 == y.0 { x.0 } else { mode == Round::Down };
        return if negative { -0.0 } else { 0.0 };
    }
    let (x, y) = match (x.1, y.1) {
        (0, _) => return round(y.0, y.1, y.2, false, mode),
        (_, 0) => return round(x.0, x.1, x.2, false, mode),
        _ => (lifted(x), lifted(y)),
    };
    let (high, low) = if x.2 >= y.2 { (x, y) } else { (y, x) };
    let down = high.2 - low.2;
    let aligned = match down {
        0 => low.1,
        1..128 => low.1 >> down | u128::from(low.1 & ((1 << down) - 1) != 0),
        _ => 1,
    };
    let (negative, magnitude) = if high.0 == low.0 {
        (high.0, high.1 + aligned)
    } else if high.1 >= aligned {
        (high.0, high.1 - aligned)
    } else {
        (low.0, aligned - high.1)
    };
    if magnitude == 0 {
        return if mode == Round::Down { -0.0 } else { 0.0 };
    }
    round(negative, magnitude, high.2, false, mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(x: f64, y: f64) -> bool {
        x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
    }

    /// Draws bits that meet: exponents close to each other, or anything.
    fn any_f64() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            any::<u64>().prop_map(|b| f64::from_bits(b & 0x801f_ffff_ffff_ffff | 0x3fe0 << 48)),
            any::<u64>().prop_map(|b| f64::from_bits(b & 0x801f_ffff_ffff_ffff)),
            any::<u8>().prop_map(|b| f64::from(b) - 128.0),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn rounds_to_nearest_as_the_processor_does(a in any_f64(), b in any_f64(), c in any_f64()) {
            let n = Round::Nearest;
            prop_assert!(same(mul(a, b, n), a * b));
            prop_assert!(same(div(a, b, n), a / b));
            prop_assert!(same(sqrt(a, n), a.sqrt()));
            prop_assert!(same(add(a, b, n), a + b));
            prop_assert!(same(fma(a, b, c, n), a.mul_add(b, c)));
        }

        #[test]
        fn modes_enclose_the_nearest(a in any_f64(), b in any_f64(), c in any_f64()) {
            for f in [mul, div, add, |a, b, m| fma(a, b, 1.5, m), |a, _, m| sqrt(a, m)] {
                let [near, zero, down, up] = [Round::Nearest, Round::Zero, Round::Down, Round::Up].map(|m| f(a, b, m));
                if near.is_nan() { continue; }
                prop_assert!(down <= near && near <= up);
                let inner = if near.is_sign_negative() { up } else { down };
                prop_assert!(same(zero, inner) || near == 0.0);
                prop_assert!(down == up || down.next_up() == up);
            }
            let [down, up] = [Round::Down, Round::Up].map(|m| fma(a, b, c, m));
            prop_assert!(down.is_nan() || down == up || down.next_up() == up);
        }
    }
}
