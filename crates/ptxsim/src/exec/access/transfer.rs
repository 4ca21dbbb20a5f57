//! Moves the bytes of an access between registers and the memory that was handed out for it.

use super::address::Addresses;
use super::pattern::{Pattern, Shape};
use super::{LaneAccess, Observed};
use crate::exec::atomics::update;
use crate::isa::*;
use crate::memory::Content;
use crate::regs::{ALL, Class, LANES, Regs, Word, lanes};
use std::ops::DerefMut;

/// The bytes of an access, lane by lane.
pub type Values = [[u8; 32]; LANES];

/// An instruction that moves bytes between registers and memory, lane by lane.
#[derive(Clone, Copy)]
pub enum Transfer<'a> {
    Load(&'a Access),
    Store(&'a Access),
    Update(&'a Atomic),
}

impl<'a> Transfer<'a> {
    pub fn new(access: &'a Access, stores: bool) -> Self {
        if stores {
            Transfer::Store(access)
        } else {
            Transfer::Load(access)
        }
    }

    #[inline(always)]
    pub fn access(self) -> &'a Access {
        match self {
            Transfer::Load(access) | Transfer::Store(access) => access,
            Transfer::Update(atom) => &atom.access,
        }
    }

    #[inline(always)]
    pub fn direction(self) -> Direction {
        match self {
            Transfer::Load(_) => Direction::Read,
            Transfer::Store(_) => Direction::Write,
            Transfer::Update(_) => Direction::Update,
        }
    }

    /// Returns the bytes that the lanes store, for the checks, and `None` for other instructions.
    #[inline(always)]
    pub fn values<const CHECKS: bool>(self, regs: &Regs) -> Option<Values> {
        match self {
            Transfer::Store(access) if CHECKS => {
                Some(std::array::from_fn(|lane| collect(regs, access, lane)))
            }
            _ => None,
        }
    }

    /// Moves the bytes. Returns the number of lanes of an atomic that changed the value in memory.
    #[inline(always)]
    pub fn run<B: DerefMut<Target = [u8]>>(
        self,
        regs: &mut Regs,
        content: &mut Content<B>,
        seen: Observed,
        x: &LaneAccess,
        shared: bool,
    ) -> u64 {
        let (bytes, mask) = (x.bytes as usize, x.site.mask);
        if let Transfer::Load(access) = self {
            deposit_all(regs, access, content.bytes(seen), x.at, mask);
            return 0;
        }
        let mut changes = 0;
        for lane in lanes(mask) {
            let at = x.at[lane] as usize;
            content.mark(at, bytes);
            let slot = &mut content.bytes_mut(seen)[at..at + bytes];
            if let Transfer::Update(atom) = self {
                changes += u64::from(update(regs, atom, slot, lane, shared));
            } else {
                let own = || collect(regs, self.access(), lane);
                let value = x.values.map_or_else(own, |values| values[lane]);
                slot.copy_from_slice(&value[..bytes]);
            }
        }
        changes
    }
}

/// Returns the little-endian number of `width` bytes at the start of `bytes`.
#[inline(always)]
pub fn word(bytes: &[u8], width: u32) -> u64 {
    match width {
        1 => u64::from(bytes[0]),
        2 => u64::from(u16::from_le_bytes(bytes_at(bytes, 0))),
        4 => u64::from(u32::from_le_bytes(bytes_at(bytes, 0))),
        _ => u64::from_le_bytes(bytes_at(bytes, 0)),
    }
}

/// Fills the registers of one lane from the start of `bytes`.
#[inline(always)]
pub fn deposit(regs: &mut Regs, a: &Access, bytes: &[u8], lane: usize) {
    for e in 0..a.registers.len() {
        deposit_element(regs, a, bytes, e, lane);
    }
}

/// Fills the register of element `e` of a lane, whose bytes begin at the start of `bytes`.
#[inline(always)]
fn deposit_element(regs: &mut Regs, a: &Access, bytes: &[u8], e: usize, lane: usize) {
    let (class, r) = a.registers[e];
    let mut v = word(&bytes[e * a.width as usize..], a.width);
    if a.signed && a.width < 8 {
        let shift = 64 - 8 * a.width;
        v = ((v << shift) as i64 >> shift) as u64;
    }
    match class {
        Class::R64 => regs.r64[r as usize].0[lane] = v,
        _ if a.narrow => regs.r32[r as usize].0[lane] = v as u32 & 0xffff,
        _ => regs.r32[r as usize].0[lane] = v as u32,
    }
}

/// Fills the registers of all lanes of the mask from `bytes` at each lane's offset.
pub fn deposit_all(regs: &mut Regs, a: &Access, bytes: &[u8], at: &Addresses, mask: u32) {
    for lane in lanes(mask) {
        deposit(regs, a, &bytes[at[lane] as usize..], lane);
    }
}

/// Returns the bytes that a lane stores, element by element.
#[inline(always)]
pub fn collect(regs: &Regs, a: &Access, lane: usize) -> [u8; 32] {
    let mut out = [0; 32];
    for (e, &(class, r)) in a.registers.iter().enumerate() {
        let v = match class {
            Class::R64 => regs.r64[r as usize].0[lane],
            _ => u64::from(regs.r32[r as usize].0[lane]),
        };
        let at = e * a.width as usize;
        out[at..at + a.width as usize].copy_from_slice(&v.to_le_bytes()[..a.width as usize]);
    }
    out
}

#[inline(always)]
fn bytes_at<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().unwrap_or([0; N])
}

/// Returns element `e` of each lane, widened by `value`.
#[inline(always)]
fn lanes_of<const N: usize, T: Word>(
    data: &[u8],
    p: &Pattern,
    e: usize,
    value: impl Fn([u8; N]) -> T,
) -> [T; LANES] {
    let skip = e * N;
    match p.shape {
        Shape::Uniform => [value(bytes_at(data, skip)); LANES],
        _ => {
            let mut out = [T::ZERO; LANES];
            for (out, &at) in out.iter_mut().zip(&p.at) {
                *out = value(bytes_at(data, at as usize + skip));
            }
            out
        }
    }
}

/// Fills the registers of all lanes of a pattern from `data`, which begins at its lowest address. The frequent forms go
/// register by register.
#[inline(always)]
pub fn deposit_pattern(regs: &mut Regs, a: &Access, data: &[u8], p: &Pattern, mask: u32) {
    if let (&[(Class::R32, r)], 4, Shape::SideBySide) = (a.registers.as_slice(), a.width, p.shape) {
        let data: [u8; 4 * LANES] = bytes_at(data, 0);
        let to = &mut regs.r32[r as usize].0;
        for (to, four) in to.iter_mut().zip(data.as_chunks::<4>().0) {
            *to = u32::from_le_bytes(*four);
        }
        return;
    }
    if let (
        &[
            (Class::R32, r0),
            (Class::R32, r1),
            (Class::R32, r2),
            (Class::R32, r3),
        ],
        4,
    ) = (a.registers.as_slice(), a.width)
        && p.shape != Shape::Uniform
    {
        let rows = four_words(data, p);
        for (row, r) in rows.iter().zip([r0, r1, r2, r3]) {
            u32::put(regs, r, row, mask);
        }
        return;
    }
    for (e, &(class, r)) in a.registers.iter().enumerate() {
        match (class, a.width) {
            (Class::R64, 8) => u64::put(regs, r, &lanes_of(data, p, e, u64::from_le_bytes), mask),
            (Class::R32, 4) => u32::put(regs, r, &lanes_of(data, p, e, u32::from_le_bytes), mask),
            (Class::R32, 2) if !a.signed => {
                let widen = |two| u32::from(u16::from_le_bytes(two));
                u32::put(regs, r, &lanes_of(data, p, e, widen), mask);
            }
            (Class::R32, 1) if !a.signed => {
                let widen = |[one]: [u8; 1]| u32::from(one);
                u32::put(regs, r, &lanes_of(data, p, e, widen), mask);
            }
            _ => {
                for l in lanes(mask) {
                    deposit_element(regs, a, &data[p.at[l] as usize..], e, l);
                }
            }
        }
    }
}

/// Returns four words of each lane, word after word. The compiler does not find these shuffles by itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn four_words(data: &[u8], p: &Pattern) -> [[u32; LANES]; 4] {
    use std::arch::x86_64::*;
    let vector = |at: u32| -> __m128i {
        let bytes = bytes_at::<16>(data, at as usize);
        // SAFETY: 16 bytes without padding in which every bit pattern is a value.
        unsafe { std::mem::transmute(bytes) }
    };
    // SAFETY: as above.
    let words = |v: __m128i| -> [u32; 4] { unsafe { std::mem::transmute(v) } };
    let mut out = [[0; LANES]; 4];
    let [o0, o1, o2, o3] = &mut out;
    for (n, at) in p.at.as_chunks::<4>().0.iter().enumerate() {
        let (a, b, c, d) = (vector(at[0]), vector(at[1]), vector(at[2]), vector(at[3]));
        // SAFETY: SSE2, which every x86-64 has.
        unsafe {
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ef, gh) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            o0.as_chunks_mut::<4>().0[n] = words(_mm_unpacklo_epi64(ab, cd));
            o1.as_chunks_mut::<4>().0[n] = words(_mm_unpackhi_epi64(ab, cd));
            o2.as_chunks_mut::<4>().0[n] = words(_mm_unpacklo_epi64(ef, gh));
            o3.as_chunks_mut::<4>().0[n] = words(_mm_unpackhi_epi64(ef, gh));
        }
    }
    out
}

#[cfg(not(target_arch = "x86_64"))]
fn four_words(data: &[u8], p: &Pattern) -> [[u32; LANES]; 4] {
    let word = |e: usize, l: usize| u32::from_le_bytes(bytes_at(data, p.at[l] as usize + 4 * e));
    std::array::from_fn(|e| std::array::from_fn(|l| word(e, l)))
}

/// Writes what the lanes of a pattern store to `data`, which begins at its lowest address.
#[inline(always)]
pub fn collect_pattern(regs: &Regs, a: &Access, data: &mut [u8], p: &Pattern, mask: u32) {
    for (e, &(class, r)) in a.registers.iter().enumerate() {
        let skip = e * a.width as usize;
        if let (Class::R32, 4) = (class, a.width) {
            let from = &regs.r32[r as usize].0;
            if mask == ALL {
                for (value, at) in from.iter().zip(&p.at) {
                    let to = *at as usize + skip;
                    data[to..to + 4].copy_from_slice(&value.to_le_bytes());
                }
                continue;
            }
        }
        for l in lanes(mask) {
            let v = match class {
                Class::R64 => regs.r64[r as usize].0[l],
                _ => u64::from(regs.r32[r as usize].0[l]),
            };
            let to = p.at[l] as usize + skip;
            let n = a.width as usize;
            data[to..to + n].copy_from_slice(&v.to_le_bytes()[..n]);
        }
    }
}
