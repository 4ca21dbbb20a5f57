//! Runs the matrix instructions. A product is computed in f64 over all of k and rounded once to
//! the result type; tensor cores align and truncate inside, so their last bits differ (bound:
//! k * 2^-23 of the sum of magnitudes).

use super::mem::{Addresses, Site, addresses, lanes, split};
use super::mma::*;
use super::regs::{ALL, LANES, Regs};
use super::state::*;
use crate::num::narrow::*;
use crate::num::round::Round;
use crate::program::{Access, AddressSpace};
use crate::report::FaultKind;
use crate::exec::regs::Class;

impl Machine<'_> {
    pub fn mma<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, op: &Mma, s: Site) -> Run<()> {
        match op {
            Mma::WmmaLoad(t) => self.wmma_memory::<CHECKS>(b, w, t, s, false),
            Mma::WmmaStore(t) => self.wmma_memory::<CHECKS>(b, w, t, s, true),
            Mma::Multiply { wmma, shape, by_column, ab, cd, d, a, b: bb, c } => {
                multiply(&mut w.regs, (*wmma, *by_column), *shape, *ab, *cd, [d, a, bb, c]);
                Ok(())
            }
            Mma::LdMatrix { transpose, registers, space, address, offset } => {
                let all = addresses(&w.regs, *address, *offset);
                self.ldmatrix::<CHECKS>(b, w, (*transpose, registers, *space), &all, s, true)
            }
            Mma::StMatrix { transpose, registers, space, address, offset } => {
                let all = addresses(&w.regs, *address, *offset);
                self.ldmatrix::<CHECKS>(b, w, (*transpose, registers, *space), &all, s, false)
            }
        }
    }

    /// Up to four registers per access where a lane's elements lie side by side in memory, else one
    /// access per element.
    fn wmma_memory<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, t: &Tile, s: Site, store: bool) -> Run<()> {
        let base = addresses(&w.regs, t.address, t.offset);
        let stride: [u64; LANES] = std::array::from_fn(|l| u64::from(w.regs.r32[t.stride as usize].0[l]));
        let size = u64::from(t.elem.bits() / 8);
        let per_register = 32 / t.elem.bits();
        let place = |l: usize, i: u32| {
            let (row, column) = wmma_place(t.part, t.elem, t.shape, t.column_major, l as u32, i);
            let (major, minor) = if t.column_major { (column, row) } else { (row, column) };
            base[l].wrapping_add((u64::from(major) * stride[l] + u64::from(minor)) * size)
        };
        let mut access = Access {
            space: t.space,
            width: 4,
            signed: false,
            registers: Vec::new(),
            narrow: false,
            // Register 0 of each file belongs to nobody: the address goes there.
            address: (Class::R64, 0),
            offset: 0,
        };
        if t.part != Part::Acc || !t.column_major {
            for (n, registers) in t.registers.chunks(4).enumerate() {
                w.regs.set64(0, |l| place(l, 4 * n as u32 * per_register));
                access.registers = registers.iter().map(|&r| (Class::R32, r)).collect();
                if store {
                    self.store::<CHECKS>(b, w, &access, s)?;
                } else {
                    self.load::<CHECKS>(b, w, &access, s)?;
                }
            }
            return Ok(());
        }
        access.width = size as u32;
        access.registers = vec![(Class::R32, 0)];
        for (n, &register) in t.registers.iter().enumerate() {
            for step in 0..per_register {
                w.regs.set64(0, |l| place(l, n as u32 * per_register + step));
                let shift = step * t.elem.bits();
                let held = w.regs.r32[register as usize].0;
                if store {
                    w.regs.set32(0, |l| held[l] >> shift);
                    self.store::<CHECKS>(b, w, &access, s)?;
                } else {
                    self.load::<CHECKS>(b, w, &access, s)?;
                    let piece = w.regs.r32[0].0;
                    w.regs.set32(register, |l| if step == 0 { piece[l] } else { held[l] | piece[l] << shift });
                }
            }
        }
        Ok(())
    }

    /// Lane 8 i + j gives the address of row j of matrix i. Lane l then holds elements 2 (l % 4) and
    /// the next of row l / 4 (PTX ISA 9.7.15.5.15).
    fn ldmatrix<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, (transpose, registers, space): (bool, &[u32], AddressSpace), all: &Addresses, s: Site, load: bool) -> Run<()> {
        let used = if registers.len() == 4 { ALL } else { (1_u32 << (8 * registers.len())) - 1 };
        let (space, same, a) = split(space, all, used);
        if space != AddressSpace::Shared || same != used {
            return self.fault(FaultKind::OutOfBounds, s.pc, b.id, w.first_thread, Some(all[0]), "ldmatrix or stmatrix outside shared memory");
        }
        for l in lanes(used) {
            if a[l] % 16 != 0 {
                return self.fault(FaultKind::Misaligned, s.pc, b.id, w.first_thread + l as u32, Some(a[l]), "a matrix row that is not 16-byte aligned");
            }
            if a[l] + 16 > b.shared.len() as u64 {
                return self.fault(FaultKind::OutOfBounds, s.pc, b.id, w.first_thread + l as u32, Some(a[l]), "a matrix row out of bounds of shared memory");
            }
        }
        let s = Site { mask: used, ..s };
        self.count_shared(s, &a, 16);
        if CHECKS {
            self.check_shared(b, w, s, &a, 16, !load, false);
        }
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
                    } else {
                        b.shared[at..at + 2].copy_from_slice(&((*value >> shift) as u16).to_le_bytes());
                        b.shared_known.set(at, 2);
                    }
                }
            }
        }
        Ok(())
    }
}

fn gather(regs: &Regs, (wmma, by_column): (bool, bool), part: Part, elem: Elem, shape: Shape, registers: &[u32], out: &mut [f64]) {
    let columns = extent(part, shape).1;
    let per = 32 / elem.bits();
    for (n, &register) in registers.iter().enumerate() {
        let values = &regs.r32[register as usize].0;
        for step in 0..per {
            let i = n as u32 * per + step;
            for (l, &v) in values.iter().enumerate() {
                let (r, c) = if wmma { wmma_place(part, elem, shape, by_column, l as u32, i) } else { mma_place(part, elem, l as u32, i) };
                out[(r * columns + c) as usize] = decode(elem, v >> (step * elem.bits()));
            }
        }
    }
}

#[inline(always)]
fn decode(elem: Elem, bits: u32) -> f64 {
    match elem {
        Elem::F16 => f64::from(f16_to_f32(bits & 0xffff)),
        Elem::Bf16 => f64::from(bf16_to_f32(bits & 0xffff)),
        // tf32 has 10 fraction bits; the hardware does not look at the others.
        Elem::Tf32 => f64::from(f32::from_bits(bits & 0xffff_e000)),
        Elem::F32 => f64::from(f32::from_bits(bits)),
        Elem::E4m3 => E4M3.decode(bits & 0xff),
        Elem::E5m2 => E5M2.decode(bits & 0xff),
        Elem::S8 => f64::from(bits as u8 as i8),
        Elem::U8 => f64::from(bits as u8),
        Elem::S32 => f64::from(bits as i32),
    }
}

#[inline(always)]
fn product_rows(m: usize, n: usize, k: usize, a: &[f64], b: &[f64], d: &mut [f64]) {
    for i in 0..m {
        let row = &mut d[i * n..(i + 1) * n];
        for p in 0..k {
            let x = a[i * k + p];
            for (to, y) in row.iter_mut().zip(&b[p * n..(p + 1) * n]) {
                *to += x * y;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_avx2(m: usize, n: usize, k: usize, a: &[f64], b: &[f64], d: &mut [f64]) {
    product_rows(m, n, k, a, b, d);
}

fn product(m: usize, n: usize, k: usize, a: &[f64], b: &[f64], d: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        return unsafe { product_avx2(m, n, k, a, b, d) };
    }
    product_rows(m, n, k, a, b, d);
}

fn multiply(regs: &mut Regs, (wmma, by_column): (bool, [bool; 2]), shape: Shape, ab: [Elem; 2], cd: [Elem; 2], [d, a, b, c]: [&[u32]; 4]) {
    // The largest parts: 32 x 16, 16 x 32.
    let (mut left, mut right, mut sum) = ([0.0; 512], [0.0; 512], [0.0; 256]);
    gather(regs, (wmma, by_column[0]), Part::A, ab[0], shape, a, &mut left);
    gather(regs, (wmma, by_column[1]), Part::B, ab[1], shape, b, &mut right);
    gather(regs, (wmma, false), Part::Acc, cd[0], shape, c, &mut sum);
    let (m, n, k) = (shape.m as usize, shape.n as usize, shape.k as usize);
    product(m, n, k, &left, &right, &mut sum);
    let elem = cd[1];
    let per = 32 / elem.bits();
    for (r, &register) in d.iter().enumerate() {
        let values: [u32; LANES] = std::array::from_fn(|l| {
            let mut word = 0;
            for step in 0..per {
                let i = r as u32 * per + step;
                let (row, column) = if wmma { wmma_place(Part::Acc, elem, shape, false, l as u32, i) } else { mma_place(Part::Acc, elem, l as u32, i) };
                let x = sum[row as usize * n + column as usize];
                let bits = match elem {
                    Elem::F16 => F16.encode(x, Round::Nearest, false),
                    // Integers wrap, as without .satfinite.
                    Elem::S32 => x as i64 as u32,
                    _ => super::float_ops::w(x as f32),
                };
                word |= bits << (step * elem.bits());
            }
            word
        });
        regs.r32[register as usize].0 = values;
    }
}
