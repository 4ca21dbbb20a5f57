//! Loads and stores of a warp: where they go, whether they may, and what they move.

use super::cost::Way;
use super::regs::{Class, LANES, Regs};
use super::state::*;
use super::watch::{Does, strength};
use crate::program::*;
use crate::report::*;

pub type Addresses = [u64; LANES];

/// Who accesses, for checks and messages.
#[derive(Clone, Copy)]
pub struct Site {
    pub pc: u32,
    pub mask: u32,
}

/// The lanes of a mask, lowest first.
pub struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    }
}

#[inline(always)]
pub fn lanes(mask: u32) -> Lanes {
    Lanes(mask)
}

#[inline(always)]
pub fn addresses(regs: &Regs, (class, register): (Class, u32), offset: i64) -> Addresses {
    match class {
        Class::R64 => {
            std::array::from_fn(|l| regs.r64[register as usize].0[l].wrapping_add(offset as u64))
        }
        // A 32-bit address with a negative offset must not become a 64-bit one.
        _ => std::array::from_fn(|l| {
            u64::from(regs.r32[register as usize].0[l].wrapping_add(offset as u32))
        }),
    }
}

/// Splits generic addresses: the space of the first lane, its lanes, and addresses in the window.
#[inline(always)]
pub fn split<'a>(
    space: AddressSpace,
    a: &'a Addresses,
    mask: u32,
    room: &'a mut Addresses,
) -> (AddressSpace, u32, &'a Addresses) {
    if space != AddressSpace::Generic || mask == 0 {
        return (space, mask, a);
    }
    let (space, mask, inside) = split_generic(a, mask);
    *room = inside;
    (space, mask, room)
}

fn split_generic(a: &Addresses, mask: u32) -> (AddressSpace, u32, Addresses) {
    let window = |x: u64| match x >> 32 {
        1 => (AddressSpace::Shared, SHARED_WINDOW),
        2 => (AddressSpace::Local, LOCAL_WINDOW),
        3 => (AddressSpace::Param, PARAM_WINDOW),
        _ => (AddressSpace::Global, 0),
    };
    let (space, base) = window(a[mask.trailing_zeros() as usize]);
    let mut same = 0;
    for l in lanes(mask) {
        if window(a[l]).0 == space {
            same |= 1 << l;
        }
    }
    (
        space,
        same,
        std::array::from_fn(|l| a[l].wrapping_sub(base)),
    )
}

#[inline(always)]
pub fn word(bytes: &[u8], width: u32) -> u64 {
    let mut all = [0; 8];
    all[..width as usize].copy_from_slice(&bytes[..width as usize]);
    u64::from_le_bytes(all)
}

#[inline(always)]
fn deposit(regs: &mut Regs, a: &Access, bytes: &[u8], lane: usize) {
    for e in 0..a.registers.len() {
        deposit_element(regs, a, bytes, e, lane);
    }
}

/// Element `e` of what a lane reads at the start of `bytes`.
#[inline(always)]
pub fn deposit_element(regs: &mut Regs, a: &Access, bytes: &[u8], e: usize, lane: usize) {
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

/// Registers of all lanes of the mask, from `bytes` at each lane's offset.
#[inline(always)]
fn deposit_all(regs: &mut Regs, a: &Access, bytes: &[u8], at: &Addresses, mask: u32) {
    if let ([(Class::R32, r)], 2, false) = (a.registers.as_slice(), a.width, a.signed) {
        // Halves are frequent enough to have a path of their own.
        let to = &mut regs.r32[*r as usize].0;
        for l in lanes(mask) {
            let from = at[l] as usize;
            let two: [u8; 2] = bytes[from..from + 2].try_into().unwrap_or_default();
            to[l] = u32::from(u16::from_le_bytes(two));
        }
        return;
    }
    if a.width != 4 || a.registers.iter().any(|r| r.0 != Class::R32) {
        for l in lanes(mask) {
            deposit(regs, a, &bytes[at[l] as usize..], l);
        }
        return;
    }
    let word = |from: usize| {
        let four: [u8; 4] = bytes[from..from + 4].try_into().unwrap_or_default();
        u32::from_le_bytes(four)
    };
    let full = mask == super::regs::ALL;
    if full && step_of(at) == Some(0) {
        // One address for all: read once.
        for (e, &(_, r)) in a.registers.iter().enumerate() {
            regs.r32[r as usize].0 = [word(at[0] as usize + 4 * e); LANES];
        }
        return;
    }
    for (e, &(_, r)) in a.registers.iter().enumerate() {
        let to = &mut regs.r32[r as usize].0;
        for l in lanes(mask) {
            to[l] = word(at[l] as usize + 4 * e);
        }
    }
}

/// The distance between the addresses of neighbouring lanes, where it is always the same.
#[inline(always)]
pub fn step_of(a: &Addresses) -> Option<u64> {
    let step = a[1].wrapping_sub(a[0]);
    let mut same = true;
    for pair in a.windows(2) {
        same &= pair[1].wrapping_sub(pair[0]) == step;
    }
    same.then_some(step)
}

#[inline(always)]
fn collect_all(regs: &Regs, a: &Access, bytes: &mut [u8], at: &Addresses, mask: u32) {
    if a.width != 4 || a.registers.iter().any(|r| r.0 != Class::R32) {
        let n = a.bytes() as usize;
        for l in lanes(mask) {
            bytes[at[l] as usize..][..n].copy_from_slice(&collect(regs, a, l)[..n]);
        }
        return;
    }
    for l in lanes(mask) {
        for (e, &(_, r)) in a.registers.iter().enumerate() {
            let to = at[l] as usize + 4 * e;
            bytes[to..to + 4].copy_from_slice(&regs.r32[r as usize].0[l].to_le_bytes());
        }
    }
}

/// Lowest and highest address of the lanes.
#[inline(always)]
fn span(a: &Addresses, mask: u32) -> (u64, u64) {
    let (mut low, mut high) = (u64::MAX, 0);
    for (l, &x) in a.iter().enumerate() {
        let on = mask >> l & 1 == 1;
        low = low.min(if on { x } else { u64::MAX });
        high = high.max(if on { x } else { 0 });
    }
    (low, high)
}

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

impl Machine<'_> {
    #[inline(always)]
    pub fn aligned(&self, b: &BlockState, w: &Warp, s: Site, a: &Addresses, bytes: u32) -> Run<()> {
        // All at once first: an address that is off shows in the union of their bits.
        let mut union = 0;
        for (l, x) in a.iter().enumerate() {
            union |= x & 0_u64.wrapping_sub(u64::from(s.mask >> l & 1));
        }
        if union & u64::from(bytes - 1) == 0 {
            return Ok(());
        }
        let off = |l: &usize| a[*l] & u64::from(bytes - 1) != 0;
        let bad = lanes(s.mask).find(off).map_or(0, |l| 1_u32 << l);
        if bad != 0 {
            let l = bad.trailing_zeros();
            let what = format!(
                "misaligned access: {bytes} bytes at address {:#x}",
                a[l as usize]
            );
            return self.fault(
                FaultKind::Misaligned,
                s.pc,
                b.id,
                w.first_thread + l,
                Some(a[l as usize]),
                &what,
            );
        }
        Ok(())
    }

    /// The allocation that the last access hit, and offsets in it, if it holds all lanes' accesses.
    #[inline(always)]
    fn in_one(
        &mut self,
        a: &Addresses,
        mask: u32,
        bytes: u32,
        write: bool,
    ) -> Option<(usize, Addresses)> {
        let (low, high) = span(a, mask);
        let holds = |m: &Self, i: usize| {
            let x = m.memory.at(i);
            low >= x.base
                && high.saturating_add(u64::from(bytes)) <= x.base + x.data.len() as u64
                && !(write && x.read_only)
        };
        if self.hint == usize::MAX || !holds(self, self.hint) {
            self.hint = self.memory.find(low, u64::from(bytes))?;
            if !holds(self, self.hint) {
                return None;
            }
        }
        let base = self.memory.at(self.hint).base;
        Some((self.hint, std::array::from_fn(|l| a[l].wrapping_sub(base))))
    }

    /// The allocation that holds the access of a lane.
    #[inline(always)]
    pub fn resolve(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        lane: usize,
        address: u64,
        bytes: u32,
        write: bool,
    ) -> Run<usize> {
        let hint = self.hint;
        if hint != usize::MAX {
            let a = self.memory.at(hint);
            let at = address.wrapping_sub(a.base);
            if at < a.data.len() as u64
                && at + u64::from(bytes) <= a.data.len() as u64
                && !(write && a.read_only)
            {
                return Ok(hint);
            }
        }
        let linear = w.first_thread + lane as u32;
        let Some(found) = self.memory.find(address, u64::from(bytes)) else {
            let what = format!(
                "{} of {bytes} bytes out of bounds: {}",
                if write { "write" } else { "read" },
                self.memory.near(address)
            );
            return self.fault(
                FaultKind::OutOfBounds,
                s.pc,
                b.id,
                linear,
                Some(address),
                &what,
            );
        };
        if write && self.memory.at(found).read_only {
            let what = format!("write to the constant `{}`", self.memory.at(found).name);
            return self.fault(
                FaultKind::ReadOnly,
                s.pc,
                b.id,
                linear,
                Some(address),
                &what,
            );
        }
        self.hint = found;
        Ok(found)
    }

    pub fn in_window(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        size: usize,
        what: &str,
    ) -> Run<()> {
        let highest = span(a, s.mask).1;
        if highest
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= size as u64)
        {
            return Ok(());
        }
        for l in lanes(s.mask) {
            if a[l]
                .checked_add(u64::from(bytes))
                .is_none_or(|end| end > size as u64)
            {
                let near = self
                    .program
                    .shared
                    .iter()
                    .filter(|v| u64::from(v.offset) <= a[l])
                    .max_by_key(|v| v.offset);
                let near = match (what, near) {
                    ("shared", Some(v)) => format!(
                        ", {} bytes past the start of `{}` ({} bytes)",
                        a[l] - u64::from(v.offset),
                        v.name,
                        v.bytes
                    ),
                    _ => String::new(),
                };
                let text = format!(
                    "access of {bytes} bytes out of bounds: {what} address {:#x} of {size} bytes{near}",
                    a[l]
                );
                return self.fault(
                    FaultKind::OutOfBounds,
                    s.pc,
                    b.id,
                    w.first_thread + l as u32,
                    Some(a[l]),
                    &text,
                );
            }
        }
        Ok(())
    }

    pub fn load<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> Run<()> {
        if self.steady_load::<CHECKS>(b, w, access, s) {
            return Ok(());
        }
        let all = addresses(&w.regs, access.address, access.offset);
        let bytes = access.bytes();
        let mut room = [0; LANES];
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, a) = split(access.space, &all, rest, &mut room);
            rest &= !mask;
            let s = Site { mask, ..s };
            self.aligned(b, w, s, a, bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, a, bytes);
                    let mut several = true;
                    if CHECKS {
                        self.meet(b, w, a, s, false, access.order, Does::Read);
                    }
                    if let Some((i, at)) = self.in_one(a, mask, bytes, false) {
                        if CHECKS {
                            self.watch(b, w, access, s, (i, &at), bytes, false);
                        }
                        let allocation = self.memory.at(i);
                        deposit_all(&mut w.regs, access, &allocation.data, &at, mask);
                        if !CHECKS || allocation.all_known() {
                            continue;
                        }
                        several = false;
                    }
                    for l in lanes(mask) {
                        let i = self.resolve(b, w, s, l, a[l], bytes, false)?;
                        if CHECKS && several {
                            let at = a[l] - self.memory.at(i).base;
                            let s = Site { mask: 1 << l, ..s };
                            self.watch(b, w, access, s, (i, &[at; LANES]), bytes, false);
                        }
                        let allocation = self.memory.at(i);
                        let at = (a[l] - allocation.base) as usize;
                        deposit(
                            &mut w.regs,
                            access,
                            &allocation.data[at..at + bytes as usize],
                            l,
                        );
                        if CHECKS && allocation.missing(at, bytes as usize).is_some() {
                            let what = format!(
                                "read of `{}` at byte {at} that nothing has written",
                                allocation.name
                            );
                            self.find(
                                FindingKind::UninitialisedGlobal,
                                s.pc,
                                None,
                                b.id,
                                w.first_thread + l as u32,
                                Some(a[l]),
                                &what,
                            );
                        }
                    }
                }
                AddressSpace::Shared => {
                    self.in_window(b, w, s, a, bytes, b.shared.len(), "shared")?;
                    self.count_shared(s, a, bytes, Way::Load);
                    if CHECKS {
                        self.meet(b, w, a, s, true, access.order, Does::Read);
                        self.check_shared(b, w, s, a, bytes, false, strength(access.order));
                    }
                    deposit_all(&mut w.regs, access, &b.shared, a, mask);
                }
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, a, bytes, size, "local")?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        if CHECKS && b.local_known.missing(at, bytes as usize).is_some() {
                            let what = format!(
                                "read of local memory {:#x} that nothing has written",
                                a[l]
                            );
                            self.find(
                                FindingKind::UninitialisedLocal,
                                s.pc,
                                None,
                                b.id,
                                w.first_thread + l as u32,
                                Some(a[l]),
                                &what,
                            );
                        }
                        deposit(&mut w.regs, access, &b.local[at..at + bytes as usize], l);
                    }
                }
                AddressSpace::Param => {
                    self.in_window(b, w, s, a, bytes, self.params.len(), "parameter")?;
                    for l in lanes(mask) {
                        deposit(
                            &mut w.regs,
                            access,
                            &self.params[a[l] as usize..][..bytes as usize],
                            l,
                        );
                    }
                }
            }
        }
        Ok(())
    }

    pub fn store<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> Run<()> {
        if self.steady_store::<CHECKS>(b, w, access, s) {
            return Ok(());
        }
        let all = addresses(&w.regs, access.address, access.offset);
        let bytes = access.bytes();
        let mut room = [0; LANES];
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, a) = split(access.space, &all, rest, &mut room);
            rest &= !mask;
            let s = Site { mask, ..s };
            self.aligned(b, w, s, a, bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, a, bytes);
                    if CHECKS {
                        self.meet(b, w, a, s, false, access.order, Does::Write);
                    }
                    if let Some((i, at)) = self.in_one(a, mask, bytes, true) {
                        if CHECKS {
                            self.watch(b, w, access, s, (i, &at), bytes, true);
                        }
                        let allocation = self.memory.at_mut(i);
                        collect_all(&w.regs, access, &mut allocation.data, &at, mask);
                        for l in lanes(mask) {
                            allocation.mark(at[l] as usize, bytes as usize);
                        }
                        continue;
                    }
                    for l in lanes(mask) {
                        let i = self.resolve(b, w, s, l, a[l], bytes, true)?;
                        if CHECKS {
                            let at = a[l] - self.memory.at(i).base;
                            let s = Site { mask: 1 << l, ..s };
                            self.watch(b, w, access, s, (i, &[at; LANES]), bytes, true);
                        }
                        let allocation = self.memory.at_mut(i);
                        let at = (a[l] - allocation.base) as usize;
                        allocation.data[at..at + bytes as usize]
                            .copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        allocation.mark(at, bytes as usize);
                    }
                }
                AddressSpace::Shared => {
                    self.in_window(b, w, s, a, bytes, b.shared.len(), "shared")?;
                    self.count_shared(s, a, bytes, Way::Store);
                    if CHECKS {
                        self.meet(b, w, a, s, true, access.order, Does::Write);
                        self.check_shared(b, w, s, a, bytes, true, strength(access.order));
                    }
                    collect_all(&w.regs, access, &mut b.shared, a, mask);
                    if CHECKS {
                        for l in lanes(mask) {
                            b.shared_known.set(a[l] as usize, bytes as usize);
                        }
                    }
                }
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, a, bytes, size, "local")?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        b.local[at..at + bytes as usize]
                            .copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        b.local_known.set(at, bytes as usize);
                    }
                }
                AddressSpace::Param => {
                    let l = mask.trailing_zeros();
                    return self.fault(
                        FaultKind::ReadOnly,
                        s.pc,
                        b.id,
                        w.first_thread + l,
                        Some(a[l as usize]),
                        "write to a kernel parameter",
                    );
                }
            }
        }
        Ok(())
    }

    pub fn copy_local(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        (from, to, bytes): (u32, u32, u32),
        mask: u32,
    ) {
        for l in lanes(mask) {
            let base = (w.first_thread as usize + l) * self.program.local_bytes as usize;
            for i in 0..bytes as usize {
                let (f, t) = (base + from as usize + i, base + to as usize + i);
                b.local[t] = b.local[f];
                // What was never written stays so.
                if b.local_known.missing(f, 1).is_none() {
                    b.local_known.set(t, 1);
                }
            }
        }
    }
}
