//! Runs the matrix instructions, to the bit as the tensor cores of sm_90 do (CALIBRATION.md): they
//! align and cut off inside, and cut off again where the result is f32. Integers and f64 are in
//! `mma_exact`.

use super::address::{Addresses, Site, addresses, split};
use super::mma_exact::{doubles, integers};
use super::state::*;
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::check::race::Strength;
use crate::num::narrow::*;
use crate::num::round::Round;
use crate::program::mma::*;
use crate::program::{Access, AddressSpace, Order};
use crate::regs::Class;
use crate::regs::{ALL, LANES, Regs, lanes};
use crate::report::{At, FaultKind};

impl Mma {
    /// It accesses no memory.
    pub fn computes(&self) -> bool {
        matches!(
            self,
            Mma::Multiply(_)
                | Mma::Integers(_)
                | Mma::Doubles(_)
                | Mma::Sparse(_)
                | Mma::Quads(_)
                | Mma::MovMatrix { .. }
        )
    }

    /// Computes the operations that access no memory.
    pub fn compute(&self, regs: &mut Regs) {
        match self {
            Mma::Multiply(m) => multiply(regs, m),
            Mma::Integers(m) => integers(regs, m),
            Mma::Doubles(m) => doubles(regs, m),
            Mma::Sparse(m) => m.compute(regs),
            Mma::Quads(m) => m.compute(regs),
            Mma::MovMatrix { d, a } => transpose(regs, *d, *a),
            Mma::WmmaLoad(_) | Mma::WmmaStore(_) | Mma::LdMatrix { .. } | Mma::StMatrix { .. } => {}
        }
    }
}

impl Machine<'_> {
    pub fn mma<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        op: &Mma,
        s: Site,
    ) -> Run<()> {
        match op {
            Mma::WmmaLoad(t) => self.wmma_memory::<CHECKS>(b, w, t, s, false),
            Mma::WmmaStore(t) => self.wmma_memory::<CHECKS>(b, w, t, s, true),
            Mma::Multiply(_)
            | Mma::Integers(_)
            | Mma::Doubles(_)
            | Mma::Sparse(_)
            | Mma::Quads(_)
            | Mma::MovMatrix { .. } => {
                op.compute(&mut w.regs);
                Ok(())
            }
            Mma::LdMatrix {
                transpose,
                registers,
                space,
                address,
                offset,
            } => {
                let all = addresses(&w.regs, *address, *offset);
                self.ldmatrix::<CHECKS>(b, w, (*transpose, registers, *space), &all, s, true)
            }
            Mma::StMatrix {
                transpose,
                registers,
                space,
                address,
                offset,
            } => {
                let all = addresses(&w.regs, *address, *offset);
                self.ldmatrix::<CHECKS>(b, w, (*transpose, registers, *space), &all, s, false)
            }
        }
    }

    /// As plain accesses, through the checks and counters of those.
    fn wmma_memory<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        t: &Tile,
        s: Site,
        store: bool,
    ) -> Run<()> {
        let base = addresses(&w.regs, t.address, t.offset);
        let stride = w.regs.r32[t.stride as usize].0;
        let bits = u64::from(t.elem.bits());
        let whole = t.at_once().is_some();
        let register_bytes = if t.elem.class() == Class::R64 { 8 } else { 4 };
        let mut access = Access {
            space: t.space,
            width: if whole {
                register_bytes
            } else {
                t.elem.bits() / 8
            },
            signed: false,
            registers: Vec::new(),
            narrow: false,
            // Register 0 of each file belongs to nobody: the address goes there.
            address: (Class::R64, 0),
            offset: 0,
            order: Order::Weak,
            guess: false,
        };
        let per_register = t.elem.per_register() as usize;
        let before = self.costs[s.pc as usize];
        for (n, (registers, place)) in t.steps.iter().enumerate() {
            w.regs.set64(0, |l| {
                let (major, minor) = place[l];
                let elements = u64::from(major) * u64::from(stride[l]) + u64::from(minor);
                base[l].wrapping_add(elements * bits / 8)
            });
            access.registers.clone_from(registers);
            let counted = self.costs[s.pc as usize];
            let again = |(_, earlier): &Step| (0..LANES).all(|l| earlier[l].1 == place[l].1);
            let again = t.stride_is_0 && t.steps[..n].iter().any(again);
            if whole {
                if store {
                    self.store::<CHECKS>(b, w, &access, s)?;
                } else {
                    self.load::<CHECKS>(b, w, &access, s)?;
                    if again {
                        self.costs[s.pc as usize] = counted;
                    }
                }
                continue;
            }
            let register = t.registers[n / per_register];
            let shift = (n % per_register) as u32 * t.elem.bits();
            let held = w.regs.r32[register as usize].0;
            if store {
                w.regs.set32(0, |l| held[l] >> shift);
                Self::move_undefined(w, 0, register, -(shift as i32), false);
                self.store::<CHECKS>(b, w, &access, s)?;
            } else {
                Self::move_undefined(w, 0, 0, 32, false);
                self.load::<CHECKS>(b, w, &access, s)?;
                if again {
                    self.costs[s.pc as usize] = counted;
                }
                let piece = w.regs.r32[0].0;
                w.regs.set32(register, |l| {
                    if shift == 0 {
                        piece[l]
                    } else {
                        held[l] | piece[l] << shift
                    }
                });
                Self::move_undefined(w, register, 0, shift as i32, shift != 0);
            }
        }
        if !store && !t.stride_is_0 && stride.contains(&0) {
            self.costs[s.pc as usize].zero_strides += 1;
        }
        if t.by_matrices() {
            let cost = &mut self.costs[s.pc as usize];
            cost.requests = before.requests;
            cost.wavefronts = before.wavefronts;
            cost.ideal_wavefronts = before.ideal_wavefronts;
            self.count_fragment(t, base[0], stride[0], s);
        }
        Ok(())
    }

    /// As the `ldmatrix` that it is on hardware: matrices of 8 rows of 16 bytes, up to four at a
    /// time.
    fn count_fragment(&mut self, t: &Tile, base: u64, stride: u32, s: Site) {
        let (rows, columns) = extent(t.part, t.shape);
        let (major, minor) = if t.column_major {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let bits = t.elem.bits();
        let pitch = u64::from(stride) * u64::from(bits) / 8;
        let matrices: Vec<u64> = (0..minor * bits / 128)
            .flat_map(|chunk| (0..major / 8).map(move |group| (chunk, group)))
            .map(|(chunk, group)| base + u64::from(chunk) * 16 + u64::from(group) * 8 * pitch)
            .collect();
        for some in matrices.chunks(t.matrices()) {
            let of = |l: usize| some.get(l / 8).map_or(0, |m| m + (l % 8) as u64 * pitch);
            self.count_matrices(s, &std::array::from_fn(of), some.len());
        }
    }

    /// Lane 8 i + j gives the address of row j of matrix i. Lane l then holds elements 2 (l % 4) and
    /// the next of row l / 4 (PTX ISA 9.7.15.5.15).
    fn ldmatrix<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (transpose, registers, space): (bool, &[u32], AddressSpace),
        all: &Addresses,
        s: Site,
        load: bool,
    ) -> Run<()> {
        let used = if registers.len() == 4 {
            ALL
        } else {
            (1_u32 << (8 * registers.len())) - 1
        };
        let mut room = [0; LANES];
        let (space, same, a) = split(space, all, used, &mut room);
        if space != AddressSpace::Shared || same != used {
            return self.fault(
                FaultKind::OutOfBounds,
                At::thread(b.id, w.first_thread, s.pc).address(all[0]),
                "ldmatrix or stmatrix outside shared memory",
            );
        }
        for l in lanes(used) {
            if a[l] % 16 != 0 {
                return self.fault(
                    FaultKind::Misaligned,
                    At::lane(b, w, s.pc, l as u32).address(a[l]),
                    "a matrix row that is not 16-byte aligned",
                );
            }
            if a[l] + 16 > b.shared.len() as u64 {
                return self.fault(
                    FaultKind::OutOfBounds,
                    At::lane(b, w, s.pc, l as u32).address(a[l]),
                    "a matrix row out of bounds of shared memory",
                );
            }
        }
        let s = Site { mask: used, ..s };
        self.count_matrices(s, a, registers.len());
        if CHECKS {
            match load {
                true => self.check_shared_read(b, w, s, a, 16, Strength::Weak),
                false => self.check_shared_write(b, w, s, a, 16, Strength::Weak, &[[]; LANES]),
            }
        }
        let whole = |l: usize| b.shared_known.holds(a[l] as usize, 16);
        let unknown = CHECKS && load && !lanes(used).all(whole);
        for (i, &register) in registers.iter().enumerate() {
            for l in 0..LANES {
                for half in 0..2 {
                    let (r, c) = (l / 4, 2 * (l % 4) + half);
                    let (r, c) = if transpose { (c, r) } else { (r, c) };
                    let at = a[8 * i + r] as usize + 2 * c;
                    let shift = 16 * half;
                    let value = &mut w.regs.r32[register as usize].0[l];
                    if load {
                        let h = u32::from(b.shared[at]) | u32::from(b.shared[at + 1]) << 8;
                        *value = *value & !(0xffff << shift) | h << shift;
                        if unknown && let Some(origin) = b.undefined_in_shared(at, 2, s.pc) {
                            Self::add_undefined(w, register, l, 0xffff << shift, origin);
                        }
                    } else {
                        b.shared[at..at + 2]
                            .copy_from_slice(&((*value >> shift) as u16).to_le_bytes());
                        b.shared_known.set(at, 2);
                        if let Some((bits, origin)) = Self::undefined_bits(w, register, l)
                            && bits >> shift & 0xffff != 0
                        {
                            b.leave_undefined_in_shared(at, (3, origin));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Lane 4 r + c has elements (r, 2 c) and (r, 2 c + 1) (PTX ISA 9.7.15.5.17).
fn transpose(regs: &mut Regs, d: u32, a: u32) {
    let from = regs.r32[a as usize].0;
    let element = |r: usize, c: usize| from[4 * r + c / 2] >> (16 * (c % 2)) & 0xffff;
    regs.set32(d, |lane| {
        let (r, c) = (lane / 4, 2 * (lane % 4));
        element(c, r) | element(c + 1, r) << 16
    });
}

#[inline(always)]
fn gather(regs: &Regs, places: &Places, elem: Elem, registers: &[u32], out: &mut [f64]) {
    let per = 32 / elem.bits();
    let mut place = places.of.chunks_exact(LANES);
    for &register in registers {
        let values = &regs.r32[register as usize].0;
        for step in 0..per {
            let shift = step * elem.bits();
            let mut decoded = [0.0_f64; LANES];
            match elem {
                // The frequent one, without a call.
                Elem::F16 => (0..LANES)
                    .for_each(|l| decoded[l] = f64::from(f16_to_f32(values[l] >> shift & 0xffff))),
                Elem::F32 => {
                    (0..LANES).for_each(|l| decoded[l] = f64::from(f32::from_bits(values[l])))
                }
                _ => (0..LANES).for_each(|l| decoded[l] = decode(elem, values[l] >> shift)),
            }
            let Some(to) = place.next() else { return };
            for l in 0..places.lanes {
                out[to[l] as usize % 512] = decoded[l];
            }
        }
    }
}

#[inline(always)]
pub fn decode(elem: Elem, bits: u32) -> f64 {
    match elem {
        Elem::F16 => f64::from(f16_to_f32(bits & 0xffff)),
        Elem::Bf16 => f64::from(bf16_to_f32(bits & 0xffff)),
        // tf32 has 10 fraction bits; the hardware does not look at the others.
        Elem::Tf32 => f64::from(f32::from_bits(bits & 0xffff_e000)),
        Elem::F32 => f64::from(f32::from_bits(bits)),
        Elem::E4m3 => E4M3.decode(bits & 0xff),
        Elem::E5m2 => E5M2.decode(bits & 0xff),
        // Those are `mma_exact`'s.
        Elem::F64 | Elem::S8 | Elem::U8 | Elem::S4 | Elem::U4 | Elem::B1 | Elem::S32 => 0.0,
    }
}

/// The power of two at or below `x`, but not below what the format's exponent can express; 0 for 0.
/// Infinite for an infinity or a NaN.
#[inline(always)]
pub fn unit(x: f64, least: f64) -> f64 {
    let unit = f64::from_bits(x.to_bits() & 0x7ff << 52).max(least);
    if x == 0.0 { 0.0 } else { unit }
}

/// The sum as tensor cores of sm_90 add it up at once (`mma` in dev/proof finds no difference): each
/// product and the addend is cut off 25 bits below the largest exponent among them (that of a
/// product is the sum of its factors'), and what is left is added exactly.
#[inline(always)]
fn fused(depths: &[usize], [a, b]: [Operand; 2], d: &mut [f64], columns: usize, least: f64) {
    const BELOW: f64 = (1 << 25) as f64;
    let parts = columns / PART;
    let (b_values, b_units) = (
        b.values.as_chunks::<PART>().0,
        b.units.as_chunks::<PART>().0,
    );
    for (n, to) in d.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
        let (row, part) = (n / parts, n % parts);
        let a_values = &a.values[row * a.depth..][..a.depth];
        let a_units = &a.units[row * a.depth..][..a.depth];
        let mut largest = to.map(|c| unit(c, least));
        for &p in depths {
            let (x, ys) = (a_units[p], &b_units[p * parts + part]);
            for l in 0..PART {
                // An infinite factor makes it infinite or, with a zero, a NaN, which `max` drops.
                largest[l] = largest[l].max(x * ys[l]);
            }
        }
        let scale = largest.map(|l| BELOW / l);
        let mut sum = [0.0_f64; PART];
        for l in 0..PART {
            sum[l] = (to[l] * scale[l]).trunc();
        }
        for &p in depths {
            let (x, ys) = (a_values[p], &b_values[p * parts + part]);
            for l in 0..PART {
                sum[l] += (x * ys[l] * scale[l]).trunc();
            }
        }
        let mut result = [0.0_f64; PART];
        let mut usual = true;
        for l in 0..PART {
            result[l] = sum[l] / scale[l];
            usual &= is_usual(largest[l], sum[l]);
        }
        if !usual {
            for l in 0..PART {
                if !is_usual(largest[l], sum[l]) {
                    let terms = depths
                        .iter()
                        .map(|&p| a_values[p] * b_values[p * parts + part][l]);
                    result[l] = terms.fold(to[l], |s, t| s + t);
                }
            }
        }
        *to = result;
    }
}

/// Neither all zeros nor with infinities or NaNs, which follow IEEE 754.
#[inline(always)]
pub fn is_usual(largest: f64, sum: f64) -> bool {
    largest.is_finite() & (largest > 0.0) & !sum.is_nan()
}

/// Towards zero, but to infinity from 2^128 on.
/// No branches, so that lanes go through vector registers.
#[inline(always)]
pub fn cut(x: f64) -> f32 {
    let near = x as f32;
    let away = (f64::from(near).abs() > x.abs()) & (x.abs() < f64::from_bits((1023 + 128) << 52));
    f32::from_bits(near.to_bits() - u32::from(away))
}

/// Columns that are computed at once: as many as vector registers hold. Every shape has a multiple.
const PART: usize = 8;

#[derive(Clone, Copy)]
struct Operand<'a> {
    depth: usize,
    values: &'a [f64],
    units: &'a [f64],
}

#[inline(always)]
fn rows_of(m: &Multiply, left: &[f64], right: &[f64], sum: &mut [f64]) {
    let [columns, depth] = [m.shape.n, m.shape.k].map(|x| x as usize);
    // fp8 is computed as f16.
    let least = match m.ab[0] {
        Elem::F16 | Elem::E4m3 | Elem::E5m2 => -14,
        _ => -126,
    };
    let power = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
    let (mut a_units, mut b_units) = ([0.0; 512], [0.0; 512]);
    for (units, values) in [(&mut a_units, left), (&mut b_units, right)] {
        for (u, v) in units.iter_mut().zip(values) {
            *u = unit(*v, power(least));
        }
    }
    let factors = [(left, &a_units[..]), (right, &b_units[..])].map(|(values, units)| Operand {
        depth,
        values,
        units,
    });
    // The value that one instruction hands to the next.
    let result = |x: f64| match m.cd[1] {
        Elem::F16 => F16.decode(F16.encode(x, Round::Nearest, false)),
        _ => f64::from(cut(x)),
    };
    if m.ab[0].bits() == 8 {
        // The addend comes last, rounded.
        let mut product = [0.0; 512];
        let product = &mut product[..sum.len()];
        for depths in &m.groups {
            fused(depths, factors, product, columns, power(-126));
            product.iter_mut().for_each(|x| *x = result(*x));
        }
        for (c, p) in sum.iter_mut().zip(product) {
            *c = match m.cd[1] {
                // Exact: rounded where the result is written.
                Elem::F16 => *c + *p,
                _ => f64::from(*c as f32 + *p as f32),
            };
        }
    } else {
        for (n, depths) in m.groups.iter().enumerate() {
            if n > 0 {
                sum.iter_mut().for_each(|x| *x = result(*x));
            }
            fused(depths, factors, sum, columns, power(-126));
        }
    }
}

#[inline(always)]
fn multiply_any(regs: &mut Regs, m: &Multiply) {
    // The largest parts: 32 x 16, 16 x 32, 32 x 32 never.
    let (mut left, mut right, mut sum) = ([0.0; 512], [0.0; 512], [0.0; 512]);
    gather(regs, &m.places[0], m.ab[0], &m.a, &mut left);
    gather(regs, &m.places[1], m.ab[1], &m.b, &mut right);
    gather(regs, &m.places[2], m.cd[0], &m.c, &mut sum);
    let [rows, columns, k] = [m.shape.m, m.shape.n, m.shape.k].map(|x| x as usize);
    let (left, right) = (&left[..rows * k], &right[..k * columns]);
    let to = &mut sum[..rows * columns];
    rows_of(m, left, right, to);
    let elem = m.cd[1];
    let per = 32 / elem.bits();
    let mut place = m.places[3].of.chunks_exact(LANES);
    for &register in &m.d {
        let mut word = [0; LANES];
        for step in 0..per {
            let Some(from) = place.next() else { return };
            let values: [f64; LANES] = std::array::from_fn(|l| sum[from[l] as usize % 512]);
            let shift = step * elem.bits();
            match elem {
                Elem::F16 => (0..LANES).for_each(|l| {
                    word[l] |= F16.encode(values[l], Round::Nearest, false) << shift;
                }),
                // Cut off, not rounded.
                _ => (0..LANES).for_each(|l| word[l] = super::float_ops::w(cut(values[l]))),
            }
        }
        regs.r32[register as usize].0 = word;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2")]
fn multiply_v3(regs: &mut Regs, m: &Multiply) {
    multiply_any(regs, m);
}

fn multiply(regs: &mut Regs, m: &Multiply) {
    #[cfg(target_arch = "x86_64")]
    if has_v3() {
        // SAFETY: the processor has what it was compiled for.
        return unsafe { multiply_v3(regs, m) };
    }
    multiply_any(regs, m);
}
