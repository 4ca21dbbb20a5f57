//! Runs the matrix instructions, to the bit as the tensor cores of sm_90 do (CALIBRATION.md). `mma_sums` adds up
//! products of floats, which are cut off inside a sum. This module takes the operands out of the registers, hands on
//! the sums from one instruction of the machine to the next, and cuts off once more where the result is f32. Integers
//! and f64 are in `mma_exact`.

use super::access::address::{Site, addresses, split};
use super::access::transfer::Transfer;
use super::access::{Counting, LaneAccess, Target};
use super::mma_exact::{doubles, integers};
#[cfg(target_arch = "x86_64")]
use super::mma_singles::InSingles;
use super::mma_sums::*;
use super::observe::cost::Passes;
use super::state::*;
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::isa::mma::*;
use crate::isa::{AddressSpace, Direction, Inst};
use crate::num::narrow::*;
use crate::num::round::Round;
use crate::regs::{ALL, LANES, Regs, lanes};
use crate::report::FaultKind;

impl Mma {
    /// Computes the operations that access no memory.
    pub fn compute(&self, regs: &mut Regs) {
        match self {
            Mma::Multiply(m) => multiply(regs, m),
            Mma::Integers(m) => integers(regs, m),
            Mma::Doubles(m) => doubles(regs, m),
            Mma::Sparse(m) => m.compute(regs),
            Mma::Quads(m) => m.compute(regs),
            Mma::Scaled(m) => m.compute(regs),
            Mma::MovMatrix { d, a } => transpose(regs, *d, *a),
            Mma::WmmaLoad(_) | Mma::WmmaStore(_) | Mma::Matrices(_) => {}
        }
    }
}

/// The counted requests and passes of a fragment, which depend on nothing but its address modulo the banks and its
/// stride.
#[derive(Clone, Copy)]
pub struct Counted {
    at: (u64, u32),
    requests: u64,
    passes: Passes,
}

impl Machine<'_> {
    /// Executes a matrix instruction of a warp, with its accesses to memory.
    pub fn mma<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (inst, op): (&Inst, &Mma),
        s: Site,
    ) -> Run<()> {
        self.check_selectors(w, op, s)?;
        match op {
            Mma::WmmaLoad(t) => self.wmma_memory::<CHECKS>(b, w, t, s, false),
            Mma::WmmaStore(t) => self.wmma_memory::<CHECKS>(b, w, t, s, true),
            Mma::Multiply(_)
            | Mma::Integers(_)
            | Mma::Doubles(_)
            | Mma::Sparse(_)
            | Mma::Quads(_)
            | Mma::Scaled(_)
            | Mma::MovMatrix { .. } => {
                self.with_undefined(w, inst, s.mask, |regs| op.compute(regs));
                Ok(())
            }
            Mma::Matrices(m) => self.matrices::<CHECKS>(b, w, m, s),
        }
    }

    /// Executes a load or store of a tile as plain accesses, with their checks and counters.
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
        let per_register = t.elem.per_register() as usize;
        let before = *self.costs.at(s.pc);
        for (n, (access, place)) in t.steps.iter().enumerate() {
            let to = &mut w.regs.r64[access.address.1 as usize].0;
            for l in 0..LANES {
                let (major, minor) = place[l];
                let elements = u64::from(major) * u64::from(stride[l]) + u64::from(minor);
                to[l] = base[l].wrapping_add(elements * bits / 8);
            }
            let counted = *self.costs.at(s.pc);
            let again = |(_, earlier): &Step| (0..LANES).all(|l| earlier[l].1 == place[l].1);
            let again = t.stride_is_0 && t.steps[..n].iter().any(again);
            let transfer = Transfer::new(access, store);
            if whole {
                self.access::<CHECKS>(b, w, transfer, s)?;
                if again && !store {
                    *self.costs.at(s.pc) = counted;
                }
                continue;
            }
            let register = t.registers[n / per_register];
            let shift = (n % per_register) as u32 * t.elem.bits();
            let held = w.regs.r32[register as usize].0;
            if store {
                w.regs.set32(0, |l| held[l] >> shift);
                Self::move_undefined(w, 0, register, -(shift as i32), false);
                self.access::<CHECKS>(b, w, transfer, s)?;
            } else {
                Self::move_undefined(w, 0, 0, 32, false);
                self.access::<CHECKS>(b, w, transfer, s)?;
                if again {
                    *self.costs.at(s.pc) = counted;
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
            self.costs.at(s.pc).zero_strides += 1;
        }
        if t.by_matrices() {
            let cost = self.costs.at(s.pc);
            cost.requests = before.requests;
            cost.wavefronts = before.wavefronts;
            cost.ideal_wavefronts = before.ideal_wavefronts;
            self.count_fragment(t, base[0], stride[0], s);
        }
        Ok(())
    }

    /// Counts the load of a fragment as the `ldmatrix` that it is on hardware: of matrices of 8 rows of 16 bytes, up to
    /// four at a time. The passes depend on where the rows lie in the 128 bytes of the banks and on the distance of the
    /// rows. Both are mostly the same when the instruction comes again, so the last count of each instruction is kept
    /// with these two, and taken again while they match.
    fn count_fragment(&mut self, t: &Tile, base: u64, stride: u32, s: Site) {
        let at = (base % 128, stride);
        let counted = self.fragments[s.pc as usize].filter(|counted| counted.at == at);
        let counted = counted.unwrap_or_else(|| {
            let before = *self.costs.at(s.pc);
            self.count_rows(t, base, stride, s);
            let cost = self.costs.at(s.pc);
            let counted = Counted {
                at,
                requests: cost.requests - before.requests,
                passes: Passes {
                    taken: cost.wavefronts - before.wavefronts,
                    ideal: cost.ideal_wavefronts - before.ideal_wavefronts,
                },
            };
            *cost = before;
            counted
        });
        self.fragments[s.pc as usize] = Some(counted);
        let cost = self.costs.at(s.pc);
        cost.requests += counted.requests;
        cost.wavefronts += counted.passes.taken;
        cost.ideal_wavefronts += counted.passes.ideal;
    }

    /// Counts the rows of the matrices lane by lane, as those of an `ldmatrix`.
    fn count_rows(&mut self, t: &Tile, base: u64, stride: u32, s: Site) {
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
            let at = std::array::from_fn(of);
            let x = LaneAccess::new(s, &at, 16, Direction::Read);
            self.count_shared(&x.counted(Counting::Matrices(some.len())));
        }
    }

    /// Executes `ldmatrix` or `stmatrix`. Lane 8 i + j gives the address of row j of matrix i. Lane l then holds
    /// elements 2 (l % 4) and the next of row l / 4 (PTX ISA 9.7.15.5.15).
    fn matrices<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Matrices,
        s: Site,
    ) -> Run<()> {
        let (registers, load) = (&m.registers, !m.stores);
        let all = addresses(&w.regs, m.address, m.offset);
        let used = if registers.len() == 4 {
            ALL
        } else {
            (1_u32 << (8 * registers.len())) - 1
        };
        let mut room = [0; LANES];
        let (space, same, a) = split(m.space, &all, used, &mut room);
        if space != AddressSpace::Shared || same != used {
            let what = "ldmatrix or stmatrix outside shared memory";
            return s.only(0).refuse_at(FaultKind::OutOfBounds, all[0], what);
        }
        for l in lanes(used) {
            if a[l] % 16 != 0 {
                let what = "a matrix row that is not 16-byte aligned";
                return s.only(l).refuse_at(FaultKind::Misaligned, a[l], what);
            }
        }
        let s = Site { mask: used, ..s };
        let direction = if load {
            Direction::Read
        } else {
            Direction::Write
        };
        let counting = Counting::Matrices(registers.len());
        let x = LaneAccess::new(s, a, 16, direction).counted(counting);
        self.in_window(&x, b.shared.len(), AddressSpace::Shared)?;
        let seen = self.observe_shared::<CHECKS>(b, w, None, &x);
        let whole = |l: usize| b.shared.holds(a[l] as usize, 16);
        let unknown = CHECKS && load && !lanes(used).all(whole);
        for (i, &register) in registers.iter().enumerate() {
            for l in 0..LANES {
                for half in 0..2 {
                    let (r, c) = (l / 4, 2 * (l % 4) + half);
                    let (r, c) = if m.transpose { (c, r) } else { (r, c) };
                    let at = a[8 * i + r] as usize + 2 * c;
                    let shift = 16 * half;
                    let value = &mut w.regs.r32[register as usize].0[l];
                    if load {
                        let held = b.shared.bytes(seen);
                        let h = u32::from(held[at]) | u32::from(held[at + 1]) << 8;
                        *value = *value & !(0xffff << shift) | h << shift;
                        if unknown
                            && let Some((_, origin)) =
                                self.missing(b, Target::Shared, (at, 2), s.pc)
                        {
                            Self::add_undefined(w, register, l, 0xffff << shift, origin);
                        }
                    } else {
                        b.shared.bytes_mut(seen)[at..at + 2]
                            .copy_from_slice(&((*value >> shift) as u16).to_le_bytes());
                        b.shared.mark(at, 2);
                        if let Some((bits, origin)) = Self::undefined_bits(w, register, l)
                            && bits >> shift & 0xffff != 0
                        {
                            b.shared.leave(at, (3, origin));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Executes `movmatrix`: lane 4 r + c has elements (r, 2 c) and (r, 2 c + 1) (PTX ISA 9.7.15.5.17).
fn transpose(regs: &mut Regs, d: u32, a: u32) {
    let from = regs.r32[a as usize].0;
    let element = |r: usize, c: usize| from[4 * r + c / 2] >> (16 * (c % 2)) & 0xffff;
    regs.set32(d, |lane| {
        let (r, c) = (lane / 4, 2 * (lane % 4));
        element(c, r) | element(c + 1, r) << 16
    });
}

/// Collects the bits of each element of a part. If several lanes hold an element, they hold the same bits.
#[inline(always)]
fn gather(regs: &Regs, places: &Places, elem: Elem, registers: &[u32], bits: &mut [u32; ROOM]) {
    let mask = u32::MAX >> (32 - elem.bits());
    let lanes = places.lanes.min(LANES);
    let mut place = places.of.as_chunks::<LANES>().0.iter();
    for &register in registers {
        let values = &regs.r32[register as usize].0;
        for step in 0..elem.per_register() {
            let Some(to) = place.next() else { return };
            let shift = step * elem.bits();
            for l in 0..lanes {
                bits[to[l] as usize % ROOM] = values[l] >> shift & mask;
            }
        }
    }
}

/// Does what [`gather`] does for elements of 16 bits, two of them in each register.
#[inline(always)]
fn gather_halves(regs: &Regs, places: &Places, registers: &[u32], bits: &mut [u16; ROOM]) {
    let lanes = places.lanes.min(LANES);
    let steps = places.of.as_chunks::<LANES>().0.as_chunks::<2>().0;
    for (&register, [low, high]) in registers.iter().zip(steps) {
        let values = &regs.r32[register as usize].0;
        if places.in_pairs {
            let pairs = bits.as_chunks_mut::<2>().0;
            for l in 0..lanes {
                pairs[low[l] as usize / 2 % (ROOM / 2)] =
                    [values[l] as u16, (values[l] >> 16) as u16];
            }
        } else {
            for l in 0..lanes {
                bits[low[l] as usize % ROOM] = values[l] as u16;
                bits[high[l] as usize % ROOM] = (values[l] >> 16) as u16;
            }
        }
    }
}

/// Decodes all elements of a part, the frequent formats without a call for each element.
#[inline(always)]
fn decode_all(regs: &Regs, places: &Places, elem: Elem, registers: &[u32], values: &mut [f32]) {
    match elem {
        Elem::F16 => {
            let mut bits = [0_u16; ROOM];
            gather_halves(regs, places, registers, &mut bits);
            for (to, bits) in values.iter_mut().zip(bits) {
                *to = f16_to_f32(u32::from(bits));
            }
        }
        _ => {
            let mut bits = [0_u32; ROOM];
            gather(regs, places, elem, registers, &mut bits);
            if elem == Elem::F32 {
                for (to, bits) in values.iter_mut().zip(bits) {
                    *to = f32::from_bits(bits);
                }
            } else {
                for (to, bits) in values.iter_mut().zip(bits) {
                    *to = decode(elem, bits);
                }
            }
        }
    }
}

/// Returns the value of an element as an f32, which holds every value of these formats exactly.
#[inline(always)]
pub fn decode(elem: Elem, bits: u32) -> f32 {
    match elem {
        Elem::F16 => f16_to_f32(bits & 0xffff),
        Elem::Bf16 => bf16_to_f32(bits & 0xffff),
        // tf32 has 10 fraction bits; the hardware does not look at the others.
        Elem::Tf32 => f32::from_bits(bits & 0xffff_e000),
        Elem::F32 => f32::from_bits(bits),
        Elem::E4m3 => e4m3_to_f32(bits),
        Elem::E5m2 => e5m2_to_f32(bits),
        // `mma_exact` multiplies these.
        Elem::F64 | Elem::S8 | Elem::U8 | Elem::S4 | Elem::U4 | Elem::B1 | Elem::S32 => 0.0,
    }
}

/// Rounds towards zero, but to infinity from 2^128 on. Nothing is left of the sign of what becomes zero: an H200 gives
/// +0 (2026-11-28, driver 580.159.04). There are no branches, so that the compiler can compute several results in one
/// vector register.
#[inline(always)]
pub fn cut(x: f64) -> f32 {
    let near = x as f32;
    let away = (f64::from(near).abs() > x.abs()) & (x.abs() < f64::from_bits((1023 + 128) << 52));
    f32::from_bits(near.to_bits() - u32::from(away)) + 0.0
}

/// Replaces sums by what one instruction of the machine hands to the next: they are rounded to f16 or cut off to f32.
#[inline(always)]
fn hand_on(m: &Multiply, sums: &mut [f64]) {
    for x in sums {
        *x = match m.cd[1] {
            Elem::F16 => F16.decode(F16.encode(*x, Round::Nearest, false)),
            _ => f64::from(cut(*x)),
        };
    }
}

/// Adds the products to the sums, one instruction of the machine after the other (`isa::mma::groups`). Products of fp8
/// are two such instructions, and their addend is added at the end.
#[inline(always)]
fn add_groups(m: &Multiply, sums: &mut [f64], products: &impl Products) {
    let (columns, depth) = (m.shape.n as usize, m.shape.k as usize);
    if m.ab[0].bits() == 8 {
        // The addend comes last, rounded.
        let mut product = [0.0; ROOM];
        let product = &mut product[..sums.len()];
        for depths in &m.groups {
            products.add_to(product, columns, depth, depths);
            hand_on(m, product);
        }
        for (c, p) in sums.iter_mut().zip(product) {
            *c = match m.cd[1] {
                // This sum is exact. It is rounded where the result is written.
                Elem::F16 => *c + *p,
                _ => f64::from(*c as f32 + *p as f32),
            };
        }
    } else {
        for (n, depths) in m.groups.iter().enumerate() {
            if n > 0 {
                hand_on(m, sums);
            }
            products.add_to(sums, columns, depth, depths);
        }
    }
}

/// Decodes the operands. Returns the factors, and leaves the addend in `sums`.
#[inline(always)]
fn decode_operands<'a>(
    regs: &Regs,
    m: &Multiply,
    [a, b]: &'a mut [[f32; ROOM]; 2],
    sums: &mut [f64; ROOM],
) -> Factors<'a, f32> {
    let [rows, columns, depth] = [m.shape.m, m.shape.n, m.shape.k].map(|x| x as usize);
    let (a, b) = (&mut a[..rows * depth], &mut b[..depth * columns]);
    decode_all(regs, &m.places[0], m.ab[0], &m.registers.a, a);
    decode_all(regs, &m.places[1], m.ab[1], &m.registers.b, b);
    let mut addend = [0.0; ROOM];
    let addend = &mut addend[..rows * columns];
    decode_all(regs, &m.places[2], m.cd[0], &m.registers.c, addend);
    for (to, c) in sums.iter_mut().zip(addend) {
        *to = f64::from(*c);
    }
    Factors {
        a,
        b: b.as_chunks().0,
    }
}

/// Returns the precision of `mma.sync` for these factors. The machine computes fp8 as f16.
#[inline(always)]
fn precision(m: &Multiply) -> Precision {
    match m.ab[0] {
        Elem::F16 | Elem::E4m3 | Elem::E5m2 => Precision::OF_HALVES,
        _ => Precision::OF_SINGLES,
    }
}

#[inline(always)]
fn add_in_doubles(m: &Multiply, factors: Factors<f32>, sums: &mut [f64; ROOM]) {
    let elements = (m.shape.m * m.shape.n) as usize;
    let products = InDoubles::new(factors, precision(m));
    add_groups(m, &mut sums[..elements], &products);
}

/// Rounds the sums and writes them to the registers of D.
#[inline(always)]
fn put_result(regs: &mut Regs, m: &Multiply, sums: &[f64; ROOM]) {
    let elements = (m.shape.m * m.shape.n) as usize;
    let mut words = [0_u32; ROOM];
    let all = words.iter_mut().zip(&sums[..elements]);
    let mut place = m.places[3].of.as_chunks::<LANES>().0.iter();
    if m.cd[1] == Elem::F16 {
        for (to, &sum) in all {
            *to = F16.encode(sum, Round::Nearest, false);
        }
        for (&register, [low, high]) in m
            .registers
            .d
            .iter()
            .zip(place.as_slice().as_chunks::<2>().0)
        {
            let to = &mut regs.r32[register as usize].0;
            for l in 0..LANES {
                to[l] = words[low[l] as usize % ROOM] | words[high[l] as usize % ROOM] << 16;
            }
        }
    } else {
        for (to, &sum) in all {
            // Cut off, not rounded.
            *to = super::float_ops::w(cut(sum));
        }
        for (&register, from) in m.registers.d.iter().zip(&mut place) {
            let to = &mut regs.r32[register as usize].0;
            for l in 0..LANES {
                to[l] = words[from[l] as usize % ROOM];
            }
        }
    }
}

/// Calls `add` with the fastest way to add up the products of these factors.
pub fn add_products(
    precision: Precision,
    factors: Factors<f32>,
    add: &mut dyn FnMut(&dyn Products),
) {
    #[cfg(target_arch = "x86_64")]
    if has_v3() {
        // SAFETY: the processor has what it was compiled for.
        if let Some(products) = unsafe { InSingles::new(factors, precision) } {
            return add(&products);
        }
    }
    add(&InDoubles::new(factors, precision));
}

#[inline(always)]
fn multiply_any(regs: &mut Regs, m: &Multiply) {
    let (mut room, mut sums) = ([[0.0; ROOM]; 2], [0.0; ROOM]);
    let factors = decode_operands(regs, m, &mut room, &mut sums);
    add_in_doubles(m, factors, &mut sums);
    put_result(regs, m, &sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2")]
fn multiply_v3(regs: &mut Regs, m: &Multiply) {
    let (mut room, mut sums) = ([[0.0; ROOM]; 2], [0.0; ROOM]);
    let factors = decode_operands(regs, m, &mut room, &mut sums);
    match InSingles::new(factors, precision(m)) {
        Some(products) => {
            let elements = (m.shape.m * m.shape.n) as usize;
            add_groups(m, &mut sums[..elements], &products);
        }
        None => add_in_doubles(m, factors, &mut sums),
    }
    put_result(regs, m, &sums);
}

fn multiply(regs: &mut Regs, m: &Multiply) {
    #[cfg(target_arch = "x86_64")]
    if has_v3() {
        // SAFETY: the processor has what it was compiled for.
        return unsafe { multiply_v3(regs, m) };
    }
    multiply_any(regs, m);
}
