//! Integer, logic, shift and bit-field operations on one lane (PTX ISA 9.7.1, 9.7.2, 9.7.8), and the table from
//! instruction to operation. 16-bit values are zero-extended to 32 bits.

use crate::alu::*;
use crate::isa::{CLUSTER_PAGE, SHARED_WINDOW, rank_of};
use crate::parse::ast::Ty;

/// A 32-bit operation on 16-bit operands, extended by their sign or by zeros.
pub struct Narrow<O, const SIGNED: bool>(std::marker::PhantomData<O>);

#[inline(always)]
fn extend<const SIGNED: bool>(x: u32) -> u32 {
    if SIGNED {
        x as u16 as i16 as u32
    } else {
        x & 0xffff
    }
}

operation! { [O: Fn1<A = u32, D = u32>, const S: bool] Narrow<O, S>, (a: u32) -> u32 {
    O::f(extend::<S>(a)) & 0xffff
} }
operation! { [O: Fn2<A = u32, B = u32, D = u32>, const S: bool] Narrow<O, S>, (a: u32, b: u32) -> u32 {
    O::f(extend::<S>(a), extend::<S>(b)) & 0xffff
} }
operation! { [O: Fn3<A = u32, B = u32, C = u32, D = u32>, const S: bool] Narrow<O, S>, (a: u32, b: u32, c: u32) -> u32 {
    O::f(extend::<S>(a), extend::<S>(b), extend::<S>(c)) & 0xffff
} }

macro_rules! per_width {
    ($u:ty, $s:ty, $wide:ty, $swide:ty, $bits:literal, $m:ident) => {
        pub mod $m {
            use super::*;
            ops! { Fn1
                Mov(a: $u) -> $u { a }
                Not(a: $u) -> $u { !a }
                Cnot(a: $u) -> $u { <$u>::from(a == 0) }
                Neg(a: $u) -> $u { a.wrapping_neg() }
                Abs(a: $u) -> $u { (a as $s).wrapping_abs() as $u }
                Popc(a: $u) -> u32 { a.count_ones() }
                Clz(a: $u) -> u32 { a.leading_zeros() }
                Brev(a: $u) -> $u { a.reverse_bits() }
                BfindU(a: $u) -> u32 { if a == 0 { u32::MAX } else { $bits - 1 - a.leading_zeros() } }
                BfindS(a: $u) -> u32 { let m = if (a as $s) < 0 { !a } else { a }; if m == 0 { u32::MAX } else { $bits - 1 - m.leading_zeros() } }
                ShiftU(a: $u) -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }
                ShiftS(a: $u) -> u32 { let m = if (a as $s) < 0 { !a } else { a }; if m == 0 { u32::MAX } else { m.leading_zeros() } }
            }
            ops! { Fn2
                Add(a: $u, b: $u) -> $u { a.wrapping_add(b) }
                Sub(a: $u, b: $u) -> $u { a.wrapping_sub(b) }
                MulLo(a: $u, b: $u) -> $u { a.wrapping_mul(b) }
                MulHiU(a: $u, b: $u) -> $u { ((a as $wide * b as $wide) >> $bits) as $u }
                MulHiS(a: $u, b: $u) -> $u { ((a as $s as $swide * b as $s as $swide) >> $bits) as $u }
                // A division by zero gives all ones on NVIDIA hardware, and so does its rest; the ISA
                // leaves it open.
                DivU(a: $u, b: $u) -> $u { a.checked_div(b).unwrap_or(<$u>::MAX) }
                DivS(a: $u, b: $u) -> $u { if b == 0 { <$u>::MAX } else { (a as $s).wrapping_div(b as $s) as $u } }
                RemU(a: $u, b: $u) -> $u { a.checked_rem(b).unwrap_or(<$u>::MAX) }
                RemS(a: $u, b: $u) -> $u { if b == 0 { <$u>::MAX } else { (a as $s).wrapping_rem(b as $s) as $u } }
                MinU(a: $u, b: $u) -> $u { a.min(b) }
                MaxU(a: $u, b: $u) -> $u { a.max(b) }
                MinS(a: $u, b: $u) -> $u { (a as $s).min(b as $s) as $u }
                MaxS(a: $u, b: $u) -> $u { (a as $s).max(b as $s) as $u }
                And(a: $u, b: $u) -> $u { a & b }
                Or(a: $u, b: $u) -> $u { a | b }
                Xor(a: $u, b: $u) -> $u { a ^ b }
                // Shift amounts past the width count as the width (PTX ISA 9.7.8.6).
                Shl(a: $u, b: u32) -> $u { if b >= $bits { 0 } else { a << (b & ($bits - 1)) } }
                ShrU(a: $u, b: u32) -> $u { if b >= $bits { 0 } else { a >> (b & ($bits - 1)) } }
                ShrS(a: $u, b: u32) -> $u { ((a as $s) >> b.min($bits - 1)) as $u }
            }
            ops! { Fn3
                MadLo(a: $u, b: $u, c: $u) -> $u { a.wrapping_mul(b).wrapping_add(c) }
                MadHiU(a: $u, b: $u, c: $u) -> $u { MulHiU::f(a, b).wrapping_add(c) }
                MadHiS(a: $u, b: $u, c: $u) -> $u { MulHiS::f(a, b).wrapping_add(c) }
                SadU(a: $u, b: $u, c: $u) -> $u { a.abs_diff(b).wrapping_add(c) }
                SadS(a: $u, b: $u, c: $u) -> $u { (a as $s).abs_diff(b as $s).wrapping_add(c) }
                Addc(a: $u, b: $u, c: u32) -> $u { a.wrapping_add(b).wrapping_add(<$u>::from(c)) }
                // The flag holds a carry; for subtraction it is the borrow.
                Subc(a: $u, b: $u, c: u32) -> $u { a.wrapping_sub(b).wrapping_sub(<$u>::from(c)) }
                CarryOut3(a: $u, b: $u, c: u32) -> u32 { u32::from(a as $wide + b as $wide + <$wide>::from(c) > <$u>::MAX as $wide) }
                BorrowOut3(a: $u, b: $u, c: u32) -> u32 { u32::from((a as $wide) < b as $wide + <$wide>::from(c)) }
                BfeU(a: $u, b: u32, c: u32) -> $u {
                    let (pos, len) = (b & 0xff, c & 0xff);
                    let shifted = ShrU::f(a, pos);
                    if len >= $bits { shifted } else { shifted & (((1 as $u) << len) - 1) }
                }
                BfeS(a: $u, b: u32, c: u32) -> $u {
                    let (pos, len) = (b & 0xff, c & 0xff);
                    if len == 0 { return 0; }
                    // Past the top, the sign bit of the source fills (PTX ISA 9.7.1.19).
                    let top = (pos + len - 1).min($bits - 1);
                    let sign = a >> top & 1;
                    let field = BfeU::f(a, pos, len);
                    let held = ($bits as u32).saturating_sub(pos).min(len);
                    if sign == 1 && held < $bits { field | (<$u>::MAX << held) } else { field }
                }
                Selp(a: $u, b: $u, c: bool) -> $u { if c { a } else { b } }
                Slct(a: $u, b: $u, c: u32) -> $u { if c as i32 >= 0 { a } else { b } }
                // -0 counts as 0, a NaN as below it.
                SlctF(a: $u, b: $u, c: u32) -> $u { if f32::from_bits(c) >= 0.0 { a } else { b } }
                // Subnormals are zeros.
                SlctFtz(a: $u, b: $u, c: u32) -> $u { if f32::from_bits(c) > -f32::MIN_POSITIVE { a } else { b } }
            }
            ops! { Fn4
                Bfi(a: $u, b: $u, c: u32, e: u32) -> $u {
                    let (pos, len) = (c & 0xff, e & 0xff);
                    let ones = if len >= $bits { <$u>::MAX } else { ((1 as $u) << len) - 1 };
                    let mask = Shl::f(ones, pos);
                    b & !mask | Shl::f(a, pos) & mask
                }
            }
        }
    };
}
per_width!(u32, i32, u64, i64, 32, w32);
per_width!(u64, i64, u128, i128, 64, w64);

ops! { Fn2
    MulWideU16(a: u32, b: u32) -> u32 { (a & 0xffff) * (b & 0xffff) }
    MulWideS16(a: u32, b: u32) -> u32 { extend::<true>(a).wrapping_mul(extend::<true>(b)) }
    MulWideU32(a: u32, b: u32) -> u64 { u64::from(a) * u64::from(b) }
    MulWideS32(a: u32, b: u32) -> u64 { (i64::from(a as i32) * i64::from(b as i32)) as u64 }
    MulHiU16(a: u32, b: u32) -> u32 { ((a & 0xffff) * (b & 0xffff)) >> 16 }
    MulHiS16(a: u32, b: u32) -> u32 { extend::<true>(a).wrapping_mul(extend::<true>(b)) >> 16 }
    Mul24LoU(a: u32, b: u32) -> u32 { (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff) }
    Mul24LoS(a: u32, b: u32) -> u32 { (((a << 8) as i32) >> 8).wrapping_mul(((b << 8) as i32) >> 8) as u32 }
    Mul24HiU(a: u32, b: u32) -> u32 { ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32 }
    Mul24HiS(a: u32, b: u32) -> u32 { ((i64::from(((a << 8) as i32) >> 8) * i64::from(((b << 8) as i32) >> 8)) >> 16) as u32 }
    AddSat(a: u32, b: u32) -> u32 { (a as i32).saturating_add(b as i32) as u32 }
    SubSat(a: u32, b: u32) -> u32 { (a as i32).saturating_sub(b as i32) as u32 }
    Shl16(a: u32, b: u32) -> u32 { w32::Shl::f(a, b) & 0xffff }
    ShrS16(a: u32, b: u32) -> u32 { w32::ShrS::f(extend::<true>(a), b) & 0xffff }
    BmskClamp(a: u32, b: u32) -> u32 { w32::Shl::f(if b >= 32 { u32::MAX } else { (1 << b) - 1 }, a) }
    BmskWrap(a: u32, b: u32) -> u32 { ((1_u32 << (b & 31)) - 1) << (a & 31) }
    SzextU(a: u32, b: u32) -> u32 { w32::BfeU::f(a, 0, b.min(32)) }
    SzextS(a: u32, b: u32) -> u32 { w32::BfeS::f(a, 0, b.min(32)) }
    SzextWrapU(a: u32, b: u32) -> u32 { w32::BfeU::f(a, 0, b & 31) }
    SzextWrapS(a: u32, b: u32) -> u32 { w32::BfeS::f(a, 0, b & 31) }
    PackHalves(a: u32, b: u32) -> u32 { a & 0xffff | b << 16 }
    PackWords(a: u32, b: u32) -> u64 { u64::from(a) | u64::from(b) << 32 }
    // Addresses of shared memory and ranks in the cluster; a rank that no block has stays one.
    MapShared32(a: u32, b: u32) -> u32 { a & 0xff_ffff | (b.min(0xfe) + 1) << CLUSTER_PAGE }
    MapShared64(a: u64, b: u32) -> u64 { a & !0xff00_0000 | u64::from(MapShared32::f(0, b)) }
    RankOf32(a: u32, b: u32) -> u32 { rank_of(u64::from(a), b) }
    RankOf64(a: u64, b: u32) -> u32 { RankOf32::f(a as u32, b) }
    IsOwnShared(a: u64, b: u32) -> u32 { u32::from(a >> 32 == SHARED_WINDOW >> 32 && RankOf64::f(a, b) == b) }
}
ops! { Fn1
    LowHalf(a: u32) -> u32 { a & 0xffff }
    HighHalf(a: u32) -> u32 { a >> 16 }
    LowWord(a: u64) -> u32 { a as u32 }
    HighWord(a: u64) -> u32 { (a >> 32) as u32 }
    // Sources of a conversion between integers: extended to 64 bits.
    FromU8(a: u32) -> u64 { u64::from(a & 0xff) }
    FromS8(a: u32) -> u64 { a as u8 as i8 as u64 }
    FromU16(a: u32) -> u64 { u64::from(a & 0xffff) }
    FromS16(a: u32) -> u64 { a as u16 as i16 as u64 }
    FromU32(a: u32) -> u64 { u64::from(a) }
    FromS32(a: u32) -> u64 { a as i32 as u64 }
    LowByte(a: u32) -> u32 { a & 0xff }
    SignByte(a: u32) -> u32 { a as u8 as i8 as u32 }
    SignHalf(a: u32) -> u32 { a as u16 as i16 as u32 }
}
ops! { Fn3
    // funnel shifts (PTX ISA 9.7.8.5): c is the amount, b the high word
    ShfLWrap(a: u32, b: u32, c: u32) -> u32 { (((u64::from(b) << 32 | u64::from(a)) << (c & 31)) >> 32) as u32 }
    ShfLClamp(a: u32, b: u32, c: u32) -> u32 { (((u64::from(b) << 32 | u64::from(a)) << c.min(32)) >> 32) as u32 }
    ShfRWrap(a: u32, b: u32, c: u32) -> u32 { ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32 }
    ShfRClamp(a: u32, b: u32, c: u32) -> u32 { ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32 }
    MadWideU32(a: u32, b: u32, c: u64) -> u64 { MulWideU32::f(a, b).wrapping_add(c) }
    MadWideS32(a: u32, b: u32, c: u64) -> u64 { MulWideS32::f(a, b).wrapping_add(c) }
    MadWideU16(a: u32, b: u32, c: u32) -> u32 { MulWideU16::f(a, b).wrapping_add(c) }
    MadWideS16(a: u32, b: u32, c: u32) -> u32 { MulWideS16::f(a, b).wrapping_add(c) }
    Prmt(a: u32, b: u32, c: u32) -> u32 {
        let all = u64::from(b) << 32 | u64::from(a);
        let mut out = 0;
        for i in 0..4 {
            let selector = c >> (4 * i);
            let byte = (all >> (8 * (selector & 7))) as u32 & 0xff;
            // The selector's top bit replicates the byte's sign.
            let byte = if selector & 8 != 0 { (byte >> 7) * 0xff } else { byte };
            out |= byte << (8 * i);
        }
        out
    }
    Dp4aUU(a: u32, b: u32, c: u32) -> u32 { dp4(a, b, c, false, false) }
    Dp4aUS(a: u32, b: u32, c: u32) -> u32 { dp4(a, b, c, false, true) }
    Dp4aSU(a: u32, b: u32, c: u32) -> u32 { dp4(a, b, c, true, false) }
    Dp4aSS(a: u32, b: u32, c: u32) -> u32 { dp4(a, b, c, true, true) }
    Mad24LoU(a: u32, b: u32, c: u32) -> u32 { Mul24LoU::f(a, b).wrapping_add(c) }
    Mad24LoS(a: u32, b: u32, c: u32) -> u32 { Mul24LoS::f(a, b).wrapping_add(c) }
    Mad24HiU(a: u32, b: u32, c: u32) -> u32 { Mul24HiU::f(a, b).wrapping_add(c) }
    Mad24HiS(a: u32, b: u32, c: u32) -> u32 { Mul24HiS::f(a, b).wrapping_add(c) }
    Mad24HiSat(a: u32, b: u32, c: u32) -> u32 { AddSat::f(Mul24HiS::f(a, b), c) }
    MadHiSat(a: u32, b: u32, c: u32) -> u32 { AddSat::f(w32::MulHiS::f(a, b), c) }
    MadHiU16(a: u32, b: u32, c: u32) -> u32 { MulHiU16::f(a, b).wrapping_add(c) & 0xffff }
    MadHiS16(a: u32, b: u32, c: u32) -> u32 { MulHiS16::f(a, b).wrapping_add(c) & 0xffff }
    // The n-th set bit of a, n = c, counted from bit b up or, below zero, down (PTX ISA 9.7.1.17).
    Fns(a: u32, b: u32, c: u32) -> u32 {
        // Its magnitude is no 32-bit integer: this is what hardware makes of it.
        if c == 1 << 31 { return 0; }
        let up = c as i32 >= 0;
        let mut left = (c as i32).unsigned_abs().max(1);
        let mut at = b;
        while at < 32 {
            left -= a >> at & 1;
            if left == 0 { return at; }
            // Without a number only the base itself is looked at.
            if c == 0 { break; }
            at = if up { at + 1 } else { at.wrapping_sub(1) };
        }
        u32::MAX
    }
    SadU16(a: u32, b: u32, c: u32) -> u32 { (a & 0xffff).abs_diff(b & 0xffff).wrapping_add(c) & 0xffff }
}

/// `prmt` with a mode: the last operand picks one of four selectors, 16 bits each in `SELECTORS`.
pub struct PrmtBy<const SELECTORS: u64>;
operation! { [const SELECTORS: u64] PrmtBy<SELECTORS>, (a: u32, b: u32, c: u32) -> u32 {
    Prmt::f(a, b, (SELECTORS >> (16 * (c & 3))) as u32 & 0xffff)
} }

/// Multiplies the two halves of a by two bytes of b, from byte `FIRST` on, and adds both products to c.
pub struct Dp2a<const FIRST: u32, const A_SIGNED: bool, const B_SIGNED: bool>;
operation! { [const FIRST: u32, const A_SIGNED: bool, const B_SIGNED: bool] Dp2a<FIRST, A_SIGNED, B_SIGNED>, (a: u32, b: u32, c: u32) -> u32 {
    let product = |half: u32, byte: u32| {
        let byte = byte & 0xff;
        let byte = if B_SIGNED { SignByte::f(byte) } else { byte };
        extend::<A_SIGNED>(half).wrapping_mul(byte)
    };
    let b = b >> (8 * FIRST);
    product(a, b)
        .wrapping_add(product(a >> 16, b >> 8))
        .wrapping_add(c)
} }

ops! { Fn4
    Lop3(a: u32, b: u32, c: u32, e: u32) -> u32 {
        let mut out = 0;
        for i in 0..8_u32 {
            let term = (if i & 4 != 0 { a } else { !a }) & (if i & 2 != 0 { b } else { !b }) & (if i & 1 != 0 { c } else { !c });
            out |= term & (0_u32.wrapping_sub(e >> i & 1));
        }
        out
    }
}

/// Multiplies four pairs of bytes, and adds the products to c.
#[inline(always)]
fn dp4(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let byte = |x: u32, i: u32, signed: bool| {
        let v = x >> (8 * i);
        if signed {
            v as u8 as i8 as u32
        } else {
            v & 0xff
        }
    };
    let mut sum = c;
    for i in 0..4 {
        sum = sum.wrapping_add(byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed)));
    }
    sum
}

macro_rules! any_width {
    ($make:ident, $ty:expr, $op:ident) => {
        any_width!($make, $ty, $op, $op)
    };
    ($make:ident, $ty:expr, $u:ident, $s:ident) => {
        match $ty {
            Ty::U16 | Ty::B16 => $make::<Narrow<w32::$u, false>>(),
            Ty::S16 => $make::<Narrow<w32::$s, true>>(),
            Ty::U32 | Ty::B32 => $make::<w32::$u>(),
            Ty::S32 => $make::<w32::$s>(),
            Ty::U64 | Ty::B64 => $make::<w64::$u>(),
            Ty::S64 => $make::<w64::$s>(),
            _ => return None,
        }
    };
}
macro_rules! two_widths {
    ($make:ident, $ty:expr, $u:ident, $s:ident) => {
        match $ty {
            Ty::U32 | Ty::B32 => $make::<w32::$u>(),
            Ty::S32 => $make::<w32::$s>(),
            Ty::U64 | Ty::B64 => $make::<w64::$u>(),
            Ty::S64 => $make::<w64::$s>(),
            _ => return None,
        }
    };
}

/// Returns the operation of an integer instruction, or `None` if this table has none. Each row has the words of the
/// instruction that select the operation.
pub fn lookup(words: &[&str], ty: Ty) -> Option<AluOp> {
    use Ty::*;
    Some(match words {
        ["add"] => any_width!(op2, ty, Add),
        ["sub"] => any_width!(op2, ty, Sub),
        ["mul", "lo"] => any_width!(op2, ty, MulLo),
        ["mul", "hi"] if ty == U16 => op2::<MulHiU16>(),
        ["mul", "hi"] if ty == S16 => op2::<MulHiS16>(),
        ["mul", "hi"] => two_widths!(op2, ty, MulHiU, MulHiS),
        ["mul", "wide"] if ty == U16 => op2::<MulWideU16>(),
        ["mul", "wide"] if ty == S16 => op2::<MulWideS16>(),
        ["mul", "wide"] if ty == U32 => op2::<MulWideU32>(),
        ["mul", "wide"] if ty == S32 => op2::<MulWideS32>(),
        ["mul24", "lo"] if ty == U32 => op2::<Mul24LoU>(),
        ["mul24", "lo"] if ty == S32 => op2::<Mul24LoS>(),
        ["mul24", "hi"] if ty == U32 => op2::<Mul24HiU>(),
        ["mul24", "hi"] if ty == S32 => op2::<Mul24HiS>(),
        ["mad24", "lo"] if ty == U32 => op3::<Mad24LoU>(),
        ["mad24", "lo"] if ty == S32 => op3::<Mad24LoS>(),
        ["mad24", "hi"] if ty == U32 => op3::<Mad24HiU>(),
        ["mad24", "hi"] if ty == S32 => op3::<Mad24HiS>(),
        ["mad24", "hi", "sat"] if ty == S32 => op3::<Mad24HiSat>(),
        ["mad", "hi", "sat"] if ty == S32 => op3::<MadHiSat>(),
        ["add", "sat"] if ty == S32 => op2::<AddSat>(),
        ["sub", "sat"] if ty == S32 => op2::<SubSat>(),
        ["mad", "lo"] => any_width!(op3, ty, MadLo),
        ["mad", "hi"] if ty == U16 => op3::<MadHiU16>(),
        ["mad", "hi"] if ty == S16 => op3::<MadHiS16>(),
        ["mad", "hi"] => two_widths!(op3, ty, MadHiU, MadHiS),
        ["mad", "wide"] if ty == U16 => op3::<MadWideU16>(),
        ["mad", "wide"] if ty == S16 => op3::<MadWideS16>(),
        ["mad", "wide"] if ty == U32 => op3::<MadWideU32>(),
        ["mad", "wide"] if ty == S32 => op3::<MadWideS32>(),
        ["sad"] if ty == U16 => op3::<SadU16>(),
        ["sad"] if ty == S16 => op3::<Narrow<w32::SadS, true>>(),
        ["sad"] => two_widths!(op3, ty, SadU, SadS),
        ["div"] => any_width!(rare2, ty, DivU, DivS),
        ["rem"] => any_width!(rare2, ty, RemU, RemS),
        ["abs"] if ty.is_signed() => any_width!(op1, ty, Abs),
        ["neg"] if ty.is_signed() => any_width!(op1, ty, Neg),
        ["min"] => any_width!(op2, ty, MinU, MinS),
        ["max"] => any_width!(op2, ty, MaxU, MaxS),
        ["popc"] => two_widths!(op1, ty, Popc, Popc),
        ["clz"] => two_widths!(op1, ty, Clz, Clz),
        ["brev"] => two_widths!(op1, ty, Brev, Brev),
        ["bfind"] => two_widths!(op1, ty, BfindU, BfindS),
        ["bfind", "shiftamt"] => two_widths!(op1, ty, ShiftU, ShiftS),
        ["bfe"] => two_widths!(op3, ty, BfeU, BfeS),
        ["bfi"] => two_widths!(rare4, ty, Bfi, Bfi),
        ["bmsk", "clamp"] => rare2::<BmskClamp>(),
        ["bmsk", "wrap"] => rare2::<BmskWrap>(),
        ["szext", "clamp"] if ty == U32 => rare2::<SzextU>(),
        ["szext", "clamp"] if ty == S32 => rare2::<SzextS>(),
        ["szext", "wrap"] if ty == U32 => rare2::<SzextWrapU>(),
        ["szext", "wrap"] if ty == S32 => rare2::<SzextWrapS>(),
        ["fns"] if ty == B32 => rare3::<Fns>(),
        ["and"] => any_width!(op2, ty, And),
        ["or"] => any_width!(op2, ty, Or),
        ["xor"] => any_width!(op2, ty, Xor),
        ["not"] => any_width!(op1, ty, Not),
        ["cnot"] => any_width!(op1, ty, Cnot),
        ["lop3"] => op4::<Lop3>(),
        ["shl"] if ty == B16 => op2::<Shl16>(),
        ["shl"] => two_widths!(op2, ty, Shl, Shl),
        ["shr"] if matches!(ty, B16 | U16) => op2::<w32::ShrU>(),
        ["shr"] if ty == S16 => op2::<ShrS16>(),
        ["shr"] => two_widths!(op2, ty, ShrU, ShrS),
        ["shf", "l", "wrap"] => op3::<ShfLWrap>(),
        ["shf", "l", "clamp"] => op3::<ShfLClamp>(),
        ["shf", "r", "wrap"] => op3::<ShfRWrap>(),
        ["shf", "r", "clamp"] => op3::<ShfRClamp>(),
        ["prmt"] => op3::<Prmt>(),
        _ => return None,
    })
}

/// Returns the operation of `prmt.b32.MODE` (PTX ISA 9.7.9.7), with the bytes that each of its four selectors takes.
pub fn prmt(mode: &str) -> Option<AluOp> {
    Some(match mode {
        "f4e" => op3::<PrmtBy<0x6543_5432_4321_3210>>(),
        "b4e" => op3::<PrmtBy<0x0123_7012_6701_5670>>(),
        "rc8" => op3::<PrmtBy<0x3333_2222_1111_0000>>(),
        "ecl" => op3::<PrmtBy<0x3333_3222_3211_3210>>(),
        "ecr" => op3::<PrmtBy<0x3210_2210_1110_0000>>(),
        "rc16" => op3::<PrmtBy<0x3232_1010_3232_1010>>(),
        _ => return None,
    })
}

/// Returns the operation of `dp2a.HALF.A.B`, from the words behind the name.
pub fn dp2a(words: &[&str]) -> Option<AluOp> {
    Some(match words {
        ["lo", "u32", "u32"] => rare3::<Dp2a<0, false, false>>(),
        ["lo", "u32", "s32"] => rare3::<Dp2a<0, false, true>>(),
        ["lo", "s32", "u32"] => rare3::<Dp2a<0, true, false>>(),
        ["lo", "s32", "s32"] => rare3::<Dp2a<0, true, true>>(),
        ["hi", "u32", "u32"] => rare3::<Dp2a<2, false, false>>(),
        ["hi", "u32", "s32"] => rare3::<Dp2a<2, false, true>>(),
        ["hi", "s32", "u32"] => rare3::<Dp2a<2, true, false>>(),
        ["hi", "s32", "s32"] => rare3::<Dp2a<2, true, true>>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bit_fields_are_extracted_and_inserted(a in any::<u32>(), b in any::<u32>(), pos in 0u32..40, len in 0u32..40) {
            // bit by bit, as the ISA writes it
            let bit = |x: u32, i: u32| if i < 32 { x >> i & 1 } else { 0 };
            let mut extract = 0;
            for i in 0..len.min(32) { extract |= bit(a, pos + i) << i; }
            prop_assert_eq!(w32::BfeU::f(a, pos, len), extract);
            let sign = if len == 0 { 0 } else { bit(a, (pos + len - 1).min(31)) };
            let mut signed = 0;
            for i in 0..32 { signed |= (if i < len && pos + i <= 31 { bit(a, pos + i) } else { sign }) << i; }
            prop_assert_eq!(w32::BfeS::f(a, pos, len), signed);
            let mut insert = b;
            for i in 0..len { if pos + i < 32 { insert = insert & !(1 << (pos + i)) | bit(a, i) << (pos + i); } }
            prop_assert_eq!(w32::Bfi::f(a, b, pos, len), insert);
        }

        #[test]
        fn three_input_logic(a in any::<u32>(), b in any::<u32>(), c in any::<u32>()) {
            // the ISA's way to compute the table: apply the expression to 0xf0, 0xcc, 0xaa
            let (ta, tb, tc) = (0xf0_u32, 0xcc_u32, 0xaa_u32);
            prop_assert_eq!(Lop3::f(a, b, c, (ta & tb | !tc) & 0xff), a & b | !c);
            prop_assert_eq!(Lop3::f(a, b, c, (ta ^ tb ^ tc) & 0xff), a ^ b ^ c);
        }

        #[test]
        fn carries_chain(a in any::<u64>(), b in any::<u64>()) {
            let (al, ah, bl, bh) = (a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32);
            let c = w32::CarryOut3::f(al, bl, 0);
            prop_assert_eq!(PackWords::f(w32::Add::f(al, bl), w32::Addc::f(ah, bh, c)), a.wrapping_add(b));
            prop_assert_eq!(w32::CarryOut3::f(ah, bh, c) == 1, a.checked_add(b).is_none());
            let c = w32::BorrowOut3::f(al, bl, 0);
            prop_assert_eq!(PackWords::f(w32::Sub::f(al, bl), w32::Subc::f(ah, bh, c)), a.wrapping_sub(b));
            prop_assert_eq!(w32::BorrowOut3::f(ah, bh, c) == 1, a < b);
        }

        #[test]
        fn funnel_is_a_64_bit_shift(a in any::<u32>(), b in any::<u32>(), n in 0u32..80) {
            let both = PackWords::f(a, b);
            prop_assert_eq!(ShfRClamp::f(a, b, n), (both >> n.min(32)) as u32);
            prop_assert_eq!(ShfLWrap::f(a, b, n), (both.rotate_left(n & 31) >> 32) as u32);
        }

        #[test]
        fn high_products_are_the_upper_halves(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(w64::MulHiS::f(a as u64, b as u64), ((i128::from(a) * i128::from(b)) >> 64) as u64);
        }
    }

    #[test]
    fn known_operands_give_known_results() {
        assert_eq!(Prmt::f(0x3322_1100, 0x7766_5544, 0x5150), 0x5511_5500);
        assert_eq!(Prmt::f(0x8000_0000, 0, 0xbbbb), u32::MAX);
        assert_eq!(
            PrmtBy::<0x6543_5432_4321_3210>::f(0x3322_1100, 0x7766_5544, 1),
            0x4433_2211
        );
        assert_eq!(
            PrmtBy::<0x0123_7012_6701_5670>::f(0x3322_1100, 0x7766_5544, 4),
            0x5566_7700
        );
        assert_eq!(
            Dp2a::<2, true, false>::f(0xffff_0002, 0xff03_0000, 5),
            (2 * 3 - 0xff + 5_i32) as u32
        );
        assert_eq!(
            (Fns::f(0b1011, 1, 2), Fns::f(0b1011, 3, -3_i32 as u32)),
            (3, 0)
        );
        assert_eq!(
            (Fns::f(0b1011, 1, 0), Fns::f(0b1011, 2, 0), Fns::f(0, 0, 1)),
            (1, u32::MAX, u32::MAX)
        );
        assert_eq!(Mul24HiS::f(0xff_ffff, 0x01_0000), u32::MAX);
        assert_eq!(
            MadHiSat::f(0x4000_0000, 0x7fff_ffff, i32::MAX as u32),
            i32::MAX as u32
        );
        assert_eq!(w32::SlctF::f(1, 2, 0x8000_0000), 1);
        assert_eq!(w32::SlctF::f(1, 2, 0x7fc0_0000), 2);
        assert_eq!(
            (
                w32::SlctF::f(1, 2, 0x8000_0001),
                w32::SlctFtz::f(1, 2, 0x8000_0001)
            ),
            (2, 1)
        );
        assert_eq!(Dp4aSS::f(0xff01_02fe, 0x0101_0101, 10), 10);
        assert_eq!(Dp4aUS::f(0xff00_0000, 0xff00_0000, 0), -255_i32 as u32);
        assert_eq!(w32::BfindS::f(u32::MAX), u32::MAX);
        assert_eq!(w32::BfindU::f(0x10), 4);
        assert_eq!(
            (w32::Shl::f(1, 32), w32::ShrS::f(0x8000_0000, 99)),
            (0, u32::MAX)
        );
        assert_eq!(
            (w32::DivU::f(5, 0), w32::DivS::f(0x8000_0000, u32::MAX)),
            (u32::MAX, 0x8000_0000)
        );
        assert_eq!(Narrow::<w32::MinS, true>::f(0xffff, 1), 0xffff);
        assert_eq!(Narrow::<w32::MinU, false>::f(0xffff, 1), 1);
    }
}
