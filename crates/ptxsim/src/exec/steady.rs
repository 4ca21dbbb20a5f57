//! Loads and stores whose lanes lie as they did when the same instruction ran before (`pattern`).
//!
//! Only what is in order is done here: one window, aligned, within bounds, values known, no race.
//! Anything else is left, whole and untouched, to `mem`, which looks lane by lane and knows what to
//! say. So every check is written twice, and this one may only err by saying no.

use super::address::{Site, addresses};
use super::cost::Way;
use super::pattern::{Pattern, Shape, Stretch};
use super::state::*;
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::check::global::{Accessor, Scoped};
use crate::check::page::MANY;
use crate::check::race::{Plain, Shadow};
use crate::isa::*;
use crate::regs::{ALL, Class, LANES, Regs, Word, lanes};
use crate::report::{FindingKind, Findings};
use crate::switch::{Observer, is_any_off, is_off};

/// Where an access goes: the space, and its lowest address there.
#[derive(Clone, Copy)]
struct Place {
    space: AddressSpace,
    lowest: u64,
}

impl Machine<'_> {
    /// False where nothing was done.
    #[inline(always)]
    pub fn steady<const CHECKS: bool, const WRITE: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        if has_v3() {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.steady_v3::<CHECKS, WRITE>(b, w, access, s) };
        }
        self.steady_any::<CHECKS, WRITE>(b, w, access, s)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi2")]
    fn steady_v3<const CHECKS: bool, const WRITE: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> bool {
        self.steady_any::<CHECKS, WRITE>(b, w, access, s)
    }

    #[inline(always)]
    fn steady_any<const CHECKS: bool, const WRITE: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> bool {
        if access.order != Order::Weak || access.guess || is_any_off(s.pc) {
            return false;
        }
        let bytes = access.bytes();
        let Some(lowest) = self.arranged(&w.regs, access, s) else {
            return false;
        };
        let Some(p) = &mut self.patterns[s.pc as usize] else {
            return false;
        };
        let Some(place) = place(access.space, lowest, p, bytes) else {
            return false;
        };
        let span = p.span as usize;
        if !self
            .origins
            .hold(s.pc, place.space, place.lowest, u64::from(p.span))
        {
            return false;
        }
        match place.space {
            AddressSpace::Shared => {
                let from = place.lowest as usize;
                if place.lowest > b.shared.len() as u64 || span > b.shared.len() - from {
                    return false;
                }
                if CHECKS
                    && !shared_in_order::<WRITE>(b, w, p, (from, bytes), s.pc, &mut self.findings)
                {
                    return false;
                }
                let way = if WRITE { Way::Store } else { Way::Load };
                let passes = p.wavefronts(place.lowest, bytes, way);
                let data = &mut b.shared[from..from + span];
                if WRITE {
                    collect(&w.regs, access, data, p, s.mask);
                } else {
                    deposit(&mut w.regs, access, data, p, s.mask);
                }
                self.add_shared(s, passes);
                true
            }
            AddressSpace::Global => {
                let Some(i) = self.memory.holding(p.allocation, place.lowest, span) else {
                    return false;
                };
                p.allocation = i;
                let allocation = self.memory.at(i);
                if WRITE && allocation.read_only {
                    return false;
                }
                let from = (place.lowest - allocation.base) as usize;
                let known = |at: u32, n: u32| allocation.holds(from + at as usize, n as usize);
                if CHECKS
                    && !WRITE
                    && !allocation.all_known()
                    && !p.stretches.iter().all(|t| known(t.at, t.bytes))
                {
                    return false;
                }
                if CHECKS
                    && !allocation.read_only
                    && let (Some(global), Some(clocks)) = (&mut self.global, &b.shadow)
                {
                    // Two lanes that write one place race with one another.
                    if WRITE && p.shared {
                        return false;
                    }
                    let me = accessor(b, w, clocks, s.pc);
                    let size = allocation.data.len();
                    let places = p
                        .units
                        .iter()
                        .map(|u| (together(u.lanes), from + u.at as usize));
                    if !global.access(&me, i, size, places, bytes, WRITE, None) {
                        return false;
                    }
                }
                let passes = p.sectors(place.lowest, bytes);
                if WRITE {
                    let allocation = self.memory.at_mut(i);
                    for t in &p.stretches {
                        allocation.cover(from + t.at as usize, t.bytes as usize);
                    }
                    let data = &mut allocation.data[from..from + span];
                    collect(&w.regs, access, data, p, s.mask);
                } else {
                    let data = &allocation.data[from..from + span];
                    deposit(&mut w.regs, access, data, p, s.mask);
                }
                self.add_global(s, bytes, passes);
                true
            }
            _ => false,
        }
    }

    /// As the checks of a store to shared memory, of its races alone. The access is aligned and lies in shared memory.
    pub fn steady_race(&mut self, b: &mut BlockState, w: &Warp, access: &Access, s: Site) -> bool {
        if is_off(Observer::SharedRaces, s.pc) {
            return true;
        }
        let Some(lowest) = self.arranged(&w.regs, access, s) else {
            return false;
        };
        let Some(p) = &mut self.patterns[s.pc as usize] else {
            return false;
        };
        let Some(shadow) = b.shadow.as_mut().filter(|_| !p.shared) else {
            return false;
        };
        let (place, by) = ((lowest as u32, access.bytes()), (w.index, s.pc));
        no_new_race::<true>(shadow, p, place, by, &mut self.findings)
    }

    /// The lowest address of the access; its pattern is that of the instruction afterwards.
    #[inline(always)]
    fn arranged(&mut self, regs: &Regs, access: &Access, s: Site) -> Option<u64> {
        let slot = &mut self.patterns[s.pc as usize];
        if let Some(p) = slot
            && let Some(lowest) = p.lowest(regs, access.address, access.offset, s.mask)
        {
            return Some(lowest);
        }
        // Accesses of a cluster to shared memory are looked at place by place.
        let with_others = self.cluster.shadow.is_some()
            && !matches!(access.space, AddressSpace::Global | AddressSpace::Local);
        if with_others {
            return None;
        }
        learn(slot, regs, access, s.mask)
    }
}

#[inline(never)]
fn learn(slot: &mut Option<Box<Pattern>>, regs: &Regs, access: &Access, mask: u32) -> Option<u64> {
    let a = addresses(regs, access.address, access.offset);
    let p = Pattern::of(&a, mask, access.bytes())?;
    let lowest = p.lowest(regs, access.address, access.offset, mask);
    match slot {
        Some(old) => **old = p,
        None => *slot = Some(Box::new(p)),
    }
    lowest
}

/// Lanes at one place, for the race check.
#[inline(always)]
fn together(lanes: u32) -> u32 {
    let first = lanes.trailing_zeros();
    if lanes.is_power_of_two() {
        first
    } else {
        first | MANY
    }
}

fn accessor<'a>(b: &BlockState, w: &'a Warp, clocks: &'a Shadow, pc: u32) -> Accessor<'a> {
    Accessor {
        block: b.number,
        warp: w.index,
        instruction: pc,
        scoped: Scoped::WEAK,
        clocks,
        inter: &w.inter,
        warps: b.warps.len() as u32,
        together: 0,
        // Whatever is found has to come again.
        grave: &|_| true,
    }
}

/// `None` for accesses that are not aligned or lie in several windows.
#[inline(always)]
fn place(space: AddressSpace, lowest: u64, p: &Pattern, bytes: u32) -> Option<Place> {
    if lowest & u64::from(bytes - 1) != 0 {
        return None;
    }
    if space != AddressSpace::Generic {
        return Some(Place { space, lowest });
    }
    let (first, last) = (
        lowest >> 32,
        lowest.checked_add(u64::from(p.span - 1))? >> 32,
    );
    let (space, base) = match first {
        1 => (AddressSpace::Shared, SHARED_WINDOW),
        2 => (AddressSpace::Local, LOCAL_WINDOW),
        3 => (AddressSpace::Param, PARAM_WINDOW),
        _ => (AddressSpace::Global, 0),
    };
    let one = first == last || base == 0 && !(1..=3).contains(&last);
    one.then_some(Place {
        space,
        lowest: lowest.wrapping_sub(base),
    })
}

#[inline(always)]
fn copies_under_way(b: &BlockState, p: &Pattern, from: usize) -> bool {
    [&b.in_flight, &b.being_read].into_iter().any(|copies| {
        let busy = |t: &Stretch| copies.to(from + t.at as usize, t.bytes as usize);
        !copies.is_empty() && p.stretches.iter().any(|t| busy(t).is_some())
    })
}

#[inline(always)]
fn shared_in_order<const WRITE: bool>(
    b: &mut BlockState,
    w: &Warp,
    p: &mut Pattern,
    (from, bytes): (usize, u32),
    pc: u32,
    findings: &mut Findings,
) -> bool {
    let known = |at: u32, n: u32| b.shared_known.holds(from + at as usize, n as usize);
    // Two lanes that write one place race with one another.
    let alone = !(WRITE && p.shared);
    if !alone || copies_under_way(b, p, from) {
        return false;
    }
    if !WRITE && !p.stretches.iter().all(|t| known(t.at, t.bytes)) {
        return false;
    }
    if let Some(shadow) = &mut b.shadow
        && !no_new_race::<WRITE>(shadow, p, (from as u32, bytes), (w.index, pc), findings)
    {
        return false;
    }
    if WRITE {
        for t in &p.stretches {
            b.shared_known.cover(from + t.at as usize, t.bytes as usize);
        }
    }
    true
}

/// Notes the access and counts races that have been told before. False where there may be others.
#[inline(always)]
fn no_new_race<const WRITE: bool>(
    shadow: &mut Shadow,
    p: &mut Pattern,
    (from, bytes): (u32, u32),
    (warp, pc): (u32, u32),
    findings: &mut Findings,
) -> bool {
    let touches = p.touches(from, bytes, shadow.shift());
    match shadow.plainly(from, touches, (warp, pc), WRITE, findings) {
        Plain::No => return false,
        Plain::InOrder => {}
        Plain::Told => {
            for (other, lanes) in &shadow.racing {
                let times = u64::from(lanes.count_ones());
                findings.count((FindingKind::SharedRace, pc, *other), times);
            }
        }
    }
    true
}

#[inline(always)]
fn bytes_at<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().unwrap_or([0; N])
}

/// Element `e` of each lane, widened by `value`.
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

#[inline(always)]
fn deposit(regs: &mut Regs, a: &Access, data: &[u8], p: &Pattern, mask: u32) {
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
                    super::mem::deposit_element(regs, a, &data[p.at[l] as usize..], e, l);
                }
            }
        }
    }
}

/// Four words of each lane, word after word. The compiler does not find these shuffles by itself.
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

#[inline(always)]
fn collect(regs: &Regs, a: &Access, data: &mut [u8], p: &Pattern, mask: u32) {
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
