//! Makes loads and stores whose lanes lie as they did when the same instruction ran before (`pattern`).
//!
//! The result of the earlier access is taken again at another lowest address: one window, and stretches without a gap
//! in it. Each observer has a quick form for stretches, which can only answer that nothing is wrong or new. If one of
//! them cannot answer that, or if the lanes lie in several windows, are not aligned or are out of bounds, this module
//! changes nothing but what the observers have noted, which does no harm when they note it again. The path then goes
//! lane by lane, and the full forms of the observers report what they find.
//!
//! If the arrangement of the lanes is another one, it is learnt first, and the access is made in the same call if its
//! quick checks pass.

use super::Observed;
use super::address::{Site, addresses};
use super::pattern::{Pattern, Stretch};
use super::transfer::{collect_pattern, deposit_pattern};
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::exec::observe::cost::Way;
use crate::exec::observe::{global_races, shared_races};
use crate::exec::state::*;
use crate::isa::*;
use crate::memory::Content;
use crate::regs::Regs;
use crate::switch::is_any_off;
use std::ops::DerefMut;

/// The space that an access lies in, and its lowest address there.
#[derive(Clone, Copy)]
struct SteadyAddress {
    space: AddressSpace,
    lowest: u64,
}

impl Machine<'_> {
    /// Makes the access if nothing about it is new or wrong. Returns false if it was not made.
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
        let Some(p) = self.patterns.slot(s.pc) else {
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
                if CHECKS {
                    if !b.under_way.are_far(p, from) || !WRITE && !are_whole(&b.shared, p, from) {
                        return false;
                    }
                    let (at, by) = ((from as u32, bytes), (w.index, s.pc));
                    if let Some(shadow) = &mut b.shadow
                        && !shared_races::are_known::<WRITE>(shadow, p, at, by, &mut self.findings)
                    {
                        return false;
                    }
                }
                let way = if WRITE { Way::Store } else { Way::Load };
                let passes = p.wavefronts(place.lowest, bytes, way);
                run::<_, WRITE>(&mut w.regs, access, &mut b.shared, (p, from), s.mask);
                self.add_shared(s, passes);
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
                if CHECKS {
                    if !WRITE && !are_whole(&allocation.content, p, from) {
                        return false;
                    }
                    let (held, at) = ((i, allocation), (from, bytes));
                    let global = &mut self.global;
                    if !global_races::are_ordered::<WRITE>(global, b, w, p, held, at, s.pc) {
                        return false;
                    }
                }
                let passes = p.sectors(place.lowest, bytes);
                let content = &mut self.memory.at_mut(i).content;
                run::<_, WRITE>(&mut w.regs, access, content, (p, from), s.mask);
                self.add_global(s, bytes, passes);
            }
            _ => return false,
        }
        true
    }

    /// Returns the lowest address of the access, and keeps its pattern for the instruction.
    #[inline(always)]
    pub fn arranged(&mut self, regs: &Regs, access: &Access, s: Site) -> Option<u64> {
        let slot = self.patterns.slot(s.pc);
        if let Some(p) = slot
            && let Some(lowest) = p.lowest(regs, access.address, access.offset, s.mask)
        {
            return Some(lowest);
        }
        // Races between blocks of a cluster are found lane by lane alone.
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
    let p = Pattern::learn(&a, mask, access.bytes())?;
    let lowest = p.lowest(regs, access.address, access.offset, mask);
    match slot {
        Some(old) => **old = p,
        None => *slot = Some(Box::new(p)),
    }
    lowest
}

/// Returns `None` for accesses that are not aligned or lie in several windows.
#[inline(always)]
fn place(space: AddressSpace, lowest: u64, p: &Pattern, bytes: u32) -> Option<SteadyAddress> {
    if lowest & u64::from(bytes - 1) != 0 {
        return None;
    }
    if space != AddressSpace::Generic {
        return Some(SteadyAddress { space, lowest });
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
    one.then_some(SteadyAddress {
        space,
        lowest: lowest.wrapping_sub(base),
    })
}

/// Returns true if all bytes of the pattern have values.
#[inline(always)]
fn are_whole<B: DerefMut<Target = [u8]>>(content: &Content<B>, p: &Pattern, from: usize) -> bool {
    let is_whole = |t: &Stretch| content.holds(from + t.at as usize, t.bytes as usize);
    content.is_all_known() || p.stretches.iter().all(is_whole)
}

/// Moves the bytes of all lanes of a pattern that begins at `from`.
#[inline(always)]
fn run<B: DerefMut<Target = [u8]>, const WRITE: bool>(
    regs: &mut Regs,
    access: &Access,
    content: &mut Content<B>,
    (p, from): (&Pattern, usize),
    mask: u32,
) {
    let seen = Observed(());
    let places = from..from + p.span as usize;
    if WRITE {
        for t in &p.stretches {
            content.cover(from + t.at as usize, t.bytes as usize);
        }
        collect_pattern(regs, access, &mut content.bytes_mut(seen)[places], p, mask);
    } else {
        deposit_pattern(regs, access, &content.bytes(seen)[places], p, mask);
    }
}
