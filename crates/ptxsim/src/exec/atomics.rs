//! Atomics and reductions (PTX ISA 9.7.13.15 and 16). They are executed lane after lane, so the result is the same on
//! every run.

use super::access::transfer::word;
use super::float_ops::flush;
use super::half_ops::{MaxB, MaxH, MinB, MinH};
use crate::alu::Fn2;
use crate::isa::*;
use crate::num::narrow::*;
use crate::num::round::Round;
use crate::regs::{Class, Regs};

/// Applies the update of one lane to its place in memory. Returns true if it changed the value there.
pub fn update(regs: &mut Regs, atom: &Atomic, slot: &mut [u8], lane: usize, shared: bool) -> bool {
    let width = atom.access.width;
    let read = |regs: &Regs, r: u32| match atom.class {
        Class::R64 => regs.r64[r as usize].0[lane],
        _ => u64::from(regs.r32[r as usize].0[lane]),
    };
    let held = slot
        .chunks_exact(width as usize)
        .map(|place| word(place, width));
    let same = |(old, (_, b)): (u64, &(Class, u32))| old == read(regs, *b);
    let all_same = atom.op == AtomOp::Cas && held.zip(&atom.access.registers).all(same);
    let mut changed = false;
    for (e, place) in slot.chunks_exact_mut(width as usize).enumerate() {
        let (Some(&(_, b)), Some(&c)) = (atom.access.registers.get(e), atom.c.get(e)) else {
            continue;
        };
        let (old, y) = (word(place, width), read(regs, b));
        let new = match atom.op {
            AtomOp::Cas if all_same => read(regs, c),
            AtomOp::Cas => old,
            op if shared => combine(op, width, old, y),
            op => combine_in_global(op, width, old, y),
        };
        changed |= new != old;
        place.copy_from_slice(&new.to_le_bytes()[..width as usize]);
        if let Some(&d) = atom.destinations.get(e) {
            match atom.class {
                Class::R64 => regs.r64[d as usize].0[lane] = old,
                _ => regs.r32[d as usize].0[lane] = old as u32,
            }
        }
    }
    changed
}

/// Combines two values in global memory, where subnormal operands and sums of f32 become zeros of their sign (PTX ISA
/// 9.7.13.5, "atom").
fn combine_in_global(op: AtomOp, bytes: u32, old: u64, b: u64) -> u64 {
    if op != AtomOp::AddF32 {
        return combine(op, bytes, old, b);
    }
    let flush = |x: u64| u64::from(flush(x as u32));
    flush(combine(AtomOp::AddF32, 4, flush(old), flush(b)))
}

/// Returns the new value of an element from its old value and the operand.
pub fn combine(op: AtomOp, bytes: u32, old: u64, b: u64) -> u64 {
    let signed = |x: u64| {
        if bytes == 4 {
            i64::from(x as u32 as i32)
        } else {
            x as i64
        }
    };
    let f = |x: u64| f32::from_bits(x as u32);
    let half = |x: u64| f64::from(f16_to_f32(x as u32 & 0xffff));
    let brain = |x: u64| f64::from(bf16_to_f32(x as u32 & 0xffff));
    let h = |x: u64, y: u64| u64::from(F16.encode(half(x) + half(y), Round::Nearest, false));
    let bf = |x: u64, y: u64| u64::from(BF16.encode(brain(x) + brain(y), Round::Nearest, false));
    match op {
        AtomOp::Add => old.wrapping_add(b),
        AtomOp::AddF32 => u64::from(super::float_ops::w(f(old) + f(b))),
        AtomOp::AddF64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        AtomOp::AddF16 => h(old, b),
        AtomOp::AddF16x2 => h(old, b) | h(old >> 16, b >> 16) << 16,
        AtomOp::AddBf16 => bf(old, b),
        AtomOp::AddBf16x2 => bf(old, b) | bf(old >> 16, b >> 16) << 16,
        AtomOp::And => old & b,
        AtomOp::Or => old | b,
        AtomOp::Xor => old ^ b,
        AtomOp::Exch => b,
        // All elements together decide whether there is a swap (`update`).
        AtomOp::Cas => old,
        AtomOp::MinU => old.min(b),
        AtomOp::MaxU => old.max(b),
        AtomOp::MinS => {
            if signed(b) < signed(old) {
                b
            } else {
                old
            }
        }
        AtomOp::MaxS => {
            if signed(b) > signed(old) {
                b
            } else {
                old
            }
        }
        AtomOp::MinF16 => u64::from(MinH::f(old as u32, b as u32)),
        AtomOp::MinBf16 => u64::from(MinB::f(old as u32, b as u32)),
        AtomOp::MaxF16 => u64::from(MaxH::f(old as u32, b as u32)),
        AtomOp::MaxBf16 => u64::from(MaxB::f(old as u32, b as u32)),
        AtomOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}
