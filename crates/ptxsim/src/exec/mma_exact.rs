//! Matrix products whose every step the PTX ISA defines (9.7.15.4.14): integers, which are exact, and
//! f64.

use super::float_ops::wd3;
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::isa::mma::*;
use crate::num::exact;
use crate::num::round::Round;
use crate::regs::{LANES, Regs};

/// Returns the number that the bits of an integer element stand for, sign-extended from its width.
#[inline(always)]
pub fn number(elem: Elem, bits: u32) -> i32 {
    match elem {
        Elem::S8 => i32::from(bits as u8 as i8),
        Elem::U8 => i32::from(bits as u8),
        Elem::S4 => (bits << 28) as i32 >> 28,
        Elem::U4 => (bits & 15) as i32,
        _ => (bits & 1) as i32,
    }
}

#[inline(always)]
fn gather(regs: &Regs, places: &Places, elem: Elem, registers: &[u32], out: &mut [i32]) {
    let mut place = places.of.chunks_exact(LANES);
    for &register in registers {
        let values = &regs.r32[register as usize].0;
        for step in 0..elem.per_register() {
            let Some(to) = place.next() else { return };
            for (l, value) in values.iter().enumerate() {
                if let Some(out) = out.get_mut(to[l] as usize) {
                    *out = number(elem, value >> (step * elem.bits()));
                }
            }
        }
    }
}

/// Adds the products of A and B to sums of `N` columns. No sum of one instruction leaves 32 bits.
#[inline(always)]
fn product<const N: usize>(combine: Combine, k: usize, a: &[i32], b: &[i32], sum: &mut [i32]) {
    let rows = sum.as_chunks_mut::<N>().0.iter_mut();
    for (row, xs) in rows.zip(a.chunks_exact(k)) {
        for (&x, ys) in xs.iter().zip(b.as_chunks::<N>().0) {
            for (sum, &y) in row.iter_mut().zip(ys) {
                *sum += match combine {
                    Combine::Multiply => x * y,
                    Combine::Xor => x ^ y,
                    Combine::And => x & y,
                };
            }
        }
    }
}

/// Executes a product of integers. `ROOM` is the largest number of elements that A or B may have.
#[inline(always)]
fn integers_in<const ROOM: usize>(regs: &mut Regs, m: &Integers) {
    let (mut left, mut right, mut sum) = ([0; ROOM], [0; ROOM], [0; 512]);
    gather(regs, &m.places[0], m.ab[0], &m.registers.a, &mut left);
    gather(regs, &m.places[1], m.ab[1], &m.registers.b, &mut right);
    let [rows, columns, k] = [m.shape.m, m.shape.n, m.shape.k].map(|x| x as usize);
    let (a, b) = (&left[..rows * k], &right[..k * columns]);
    let to = &mut sum[..rows * columns];
    // `decode` accepts no other numbers of columns.
    match columns {
        32 => product::<32>(m.combine, k, a, b, to),
        16 => product::<16>(m.combine, k, a, b, to),
        _ => product::<8>(m.combine, k, a, b, to),
    }
    // Registers of d may be others of c.
    let mut addends = [[0; LANES]; 8];
    for (to, &c) in addends.iter_mut().zip(&m.registers.c) {
        *to = regs.r32[c as usize].0;
    }
    let places = m.places[2].of.chunks_exact(LANES);
    for ((&d, addend), from) in m.registers.d.iter().zip(&addends).zip(places) {
        regs.set32(d, |l| {
            let (c, p) = (addend[l] as i32, sum[from[l] as usize % 512]);
            let all = if m.saturate {
                c.saturating_add(p)
            } else {
                c.wrapping_add(p)
            };
            all as u32
        });
    }
}

#[inline(always)]
fn integers_any(regs: &mut Regs, m: &Integers) {
    if m.shape.k <= 32 {
        integers_in::<512>(regs, m);
    } else {
        integers_in::<4096>(regs, m);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2")]
fn integers_v3(regs: &mut Regs, m: &Integers) {
    integers_any(regs, m);
}

/// Executes a product of integers, with vectors if the processor has AVX2.
pub fn integers(regs: &mut Regs, m: &Integers) {
    #[cfg(target_arch = "x86_64")]
    if has_v3() {
        // SAFETY: the processor has what it was compiled for.
        return unsafe { integers_v3(regs, m) };
    }
    integers_any(regs, m);
}

/// Executes a product of f64. The products are added to the sum one after the other, k ascending, and each sum is
/// rounded once, as by `fma`. A NaN comes through as it does in `fma`. A GPU showed both (CALIBRATION.md).
pub fn doubles(regs: &mut Regs, m: &Doubles) {
    let [rows, columns, k] = [m.shape.m, m.shape.n, m.shape.k].map(|x| x as usize);
    let (mut a, mut b, mut c) = ([0.0; 256], [0.0; 128], [0.0; 128]);
    let parts = [
        (Part::A, &m.registers.a, &mut a[..rows * k], k),
        (Part::B, &m.registers.b, &mut b[..k * columns], columns),
        (Part::Acc, &m.registers.c, &mut c[..rows * columns], columns),
    ];
    for (part, registers, to, width) in parts {
        for (i, &register) in registers.iter().enumerate() {
            for (lane, &bits) in regs.r64[register as usize].0.iter().enumerate() {
                let (row, column) = mma_place(part, Elem::F64, lane as u32, i as u32);
                to[row as usize * width + column as usize] = f64::from_bits(bits);
            }
        }
    }
    let add = |a: f64, b: f64, c: f64| match m.round {
        Round::Nearest => a.mul_add(b, c),
        round => exact::fma(a, b, c, round),
    };
    for (i, &d) in m.registers.d.iter().enumerate() {
        regs.set64(d, |lane| {
            let (row, column) = mma_place(Part::Acc, Elem::F64, lane as u32, i as u32);
            let (row, column) = (row as usize, column as usize);
            let sum = (0..k).fold(c[row * columns + column], |sum, p| {
                let (a, b) = (a[row * k + p], b[p * columns + column]);
                let bits = [a, b, sum].map(f64::to_bits);
                f64::from_bits(wd3(add(a, b, sum), bits[0], bits[1], bits[2]))
            });
            sum.to_bits()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::Block;

    #[test]
    fn elements_are_sign_extended_from_their_width() {
        assert_eq!(
            [number(Elem::S8, 0x180), number(Elem::U8, 0x180)],
            [-128, 128]
        );
        assert_eq!([number(Elem::S4, 0x18), number(Elem::U4, 0x18)], [-8, 8]);
        assert_eq!(number(Elem::B1, 3), 1);
    }

    /// In m8n8k4, lane 4 g + t holds A(g, t), B(t, g), C(g, 2 t) and the next.
    #[test]
    fn doubles_round_once_for_each_product() {
        let tiny = 2.0_f64.powi(-54);
        let block = |x: f64| Block([x.to_bits(); LANES]);
        let run = |round| {
            let mut regs = Regs {
                r64: vec![block(0.0), block(0.0), block(tiny), block(1.0), block(1.0)],
                ..Regs::default()
            };
            let shape = Shape { m: 8, n: 8, k: 4 };
            let m = Doubles {
                shape,
                round,
                registers: Fragments {
                    d: vec![0, 1],
                    a: vec![2],
                    b: vec![3],
                    c: vec![4, 4],
                },
            };
            doubles(&mut regs, &m);
            assert_eq!(regs.r64[0].0, regs.r64[1].0);
            f64::from_bits(regs.r64[0].0[7])
        };
        assert_eq!(run(Round::Nearest), 1.0);
        assert_eq!(run(Round::Zero), 1.0);
        // Four times the next number: once would give the first of them.
        assert_eq!(run(Round::Up), 1.0 + 4.0 * f64::EPSILON);
    }
}
