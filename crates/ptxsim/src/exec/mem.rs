//! Loads, stores, atomics and asynchronous copies of a warp, with their checks and their costs.

use super::regs::{Class, LANES, Regs};
use super::state::*;
use crate::check::race::{Past, WARPS, Who};
use crate::num::narrow::*;
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
        Class::R64 => std::array::from_fn(|l| regs.r64[register as usize].0[l].wrapping_add(offset as u64)),
        // A 32-bit address with a negative offset must not become a 64-bit one.
        _ => std::array::from_fn(|l| u64::from(regs.r32[register as usize].0[l].wrapping_add(offset as u32))),
    }
}

/// Splits generic addresses: the space of the first lane, its lanes, and addresses in the window.
#[inline(always)]
pub fn split(space: AddressSpace, a: &Addresses, mask: u32) -> (AddressSpace, u32, Addresses) {
    if space != AddressSpace::Generic || mask == 0 {
        return (space, mask, *a);
    }
    split_generic(a, mask)
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
    (space, same, std::array::from_fn(|l| a[l].wrapping_sub(base)))
}

#[inline(always)]
fn word(bytes: &[u8], width: u32) -> u64 {
    let mut all = [0; 8];
    all[..width as usize].copy_from_slice(&bytes[..width as usize]);
    u64::from_le_bytes(all)
}

#[inline(always)]
fn deposit(regs: &mut Regs, a: &Access, bytes: &[u8], lane: usize) {
    for (e, &(class, r)) in a.registers.iter().enumerate() {
        let at = e * a.width as usize;
        if a.width == 4 && class == Class::R32 {
            let mut four = [0; 4];
            four.copy_from_slice(&bytes[at..at + 4]);
            regs.r32[r as usize].0[lane] = u32::from_le_bytes(four);
            continue;
        }
        let mut v = word(&bytes[at..], a.width);
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
}

/// Registers of all lanes of the mask, from `bytes` at each lane's offset.
#[inline(always)]
fn deposit_all(regs: &mut Regs, a: &Access, bytes: &[u8], at: &Addresses, mask: u32) {
    if a.width != 4 || a.registers.iter().any(|r| r.0 != Class::R32) {
        for l in lanes(mask) {
            deposit(regs, a, &bytes[at[l] as usize..], l);
        }
        return;
    }
    for (e, &(_, r)) in a.registers.iter().enumerate() {
        let to = &mut regs.r32[r as usize].0;
        for l in lanes(mask) {
            let from = at[l] as usize + 4 * e;
            let four: [u8; 4] = bytes[from..from + 4].try_into().unwrap_or_default();
            to[l] = u32::from_le_bytes(four);
        }
    }
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
    for l in 0..LANES {
        let on = mask >> l & 1 == 1;
        low = low.min(if on { a[l] } else { u64::MAX });
        high = high.max(if on { a[l] } else { 0 });
    }
    (low, high)
}

#[inline(always)]
fn collect(regs: &Regs, a: &Access, lane: usize) -> [u8; 32] {
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

/// Room to work out bank conflicts.
pub struct Banks {
    units: [[u32; LANES]; 32],
    depth: [u32; 32],
}

impl Banks {
    pub const fn new() -> Banks {
        Banks { units: [[0; LANES]; 32], depth: [0; 32] }
    }

    /// The most different units of `bytes` (4, 8 or 16) that any group of banks has to deliver. An
    /// access is aligned to its size, so one of 16 bytes takes four neighbouring banks as one.
    #[inline(always)]
    fn worst(&mut self, a: &Addresses, mask: u32, bytes: u32) -> u32 {
        self.depth = [0; 32];
        let (shift, groups) = (bytes.trailing_zeros(), 128 / bytes as usize);
        let mut worst = 1;
        for l in lanes(mask) {
            let unit = (a[l] >> shift) as u32;
            let group = unit as usize % groups % 32;
            let (held, depth) = (&mut self.units[group], &mut self.depth[group]);
            if held[..*depth as usize].contains(&unit) {
                continue;
            }
            // At most 32 lanes with one unit each: it fits.
            held[*depth as usize % LANES] = unit;
            *depth += 1;
            worst = worst.max(*depth);
        }
        worst
    }
}

impl Machine<'_> {
    #[inline(always)]
    fn aligned(&self, b: &BlockState, w: &Warp, s: Site, a: &Addresses, bytes: u32) -> Run<()> {
        let mut bad = 0;
        for l in 0..LANES {
            bad |= u32::from(a[l] & u64::from(bytes - 1) != 0) << l;
        }
        bad &= s.mask;
        if bad != 0 {
            let l = bad.trailing_zeros();
            let what = format!("misaligned access: {bytes} bytes at address {:#x}", a[l as usize]);
            return self.fault(FaultKind::Misaligned, s.pc, b.id, w.first_thread + l, Some(a[l as usize]), &what);
        }
        Ok(())
    }

    /// The allocation that the last access hit, and offsets in it, if it holds all lanes' accesses.
    #[inline(always)]
    fn in_one(&mut self, a: &Addresses, mask: u32, bytes: u32, write: bool) -> Option<(usize, Addresses)> {
        let (low, high) = span(a, mask);
        let holds = |m: &Self, i: usize| {
            let x = m.memory.at(i);
            low >= x.base && high.saturating_add(u64::from(bytes)) <= x.base + x.data.len() as u64 && !(write && x.read_only)
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
    fn resolve(&mut self, b: &BlockState, w: &Warp, s: Site, lane: usize, address: u64, bytes: u32, write: bool) -> Run<usize> {
        let hint = self.hint;
        if hint != usize::MAX {
            let a = self.memory.at(hint);
            let at = address.wrapping_sub(a.base);
            if at < a.data.len() as u64 && at + u64::from(bytes) <= a.data.len() as u64 && !(write && a.read_only) {
                return Ok(hint);
            }
        }
        let linear = w.first_thread + lane as u32;
        let Some(found) = self.memory.find(address, u64::from(bytes)) else {
            let what = format!("{} of {bytes} bytes out of bounds: {}", if write { "write" } else { "read" }, self.memory.near(address));
            return self.fault(FaultKind::OutOfBounds, s.pc, b.id, linear, Some(address), &what);
        };
        if write && self.memory.at(found).read_only {
            let what = format!("write to the constant `{}`", self.memory.at(found).name);
            return self.fault(FaultKind::ReadOnly, s.pc, b.id, linear, Some(address), &what);
        }
        self.hint = found;
        Ok(found)
    }

    fn count_global(&mut self, s: Site, a: &Addresses, bytes: u32) {
        let mut sectors = [0_u64; 2 * LANES];
        let mut n = 0;
        let mut sorted = true;
        for l in lanes(s.mask) {
            let (first, last) = (a[l] >> 5, a[l].saturating_add(u64::from(bytes) - 1) >> 5);
            for sector in [first, last] {
                if n == 0 || sectors[n - 1] != sector {
                    sorted &= n == 0 || sectors[n - 1] < sector;
                    sectors[n] = sector;
                    n += 1;
                }
            }
        }
        if !sorted {
            sectors[..n].sort_unstable();
        }
        let distinct = if sorted { n } else { 1 + sectors[..n].windows(2).filter(|p| p[0] != p[1]).count() };
        // The ideal counts each different address once: a broadcast needs one sector.
        let mut starts = [0_u64; LANES];
        let mut m = 0;
        let mut rising = true;
        for l in lanes(s.mask) {
            if m == 0 || starts[m - 1] != a[l] {
                rising &= m == 0 || starts[m - 1] < a[l];
                starts[m] = a[l];
                m += 1;
            }
        }
        if !rising {
            starts[..m].sort_unstable();
        }
        let different = if rising { m } else { 1 + starts[..m].windows(2).filter(|p| p[0] != p[1]).count() };
        let cost = &mut self.costs[s.pc as usize];
        cost.requests += 1;
        cost.global_bytes += u64::from(bytes) * u64::from(s.mask.count_ones());
        cost.sectors += distinct as u64;
        cost.ideal_sectors += (different as u64 * u64::from(bytes)).div_ceil(32);
    }

    /// Wavefronts: 32 banks of 4 bytes; 8-byte accesses go in half warps, 16-byte in quarters;
    /// lanes that want the same word share it.
    pub fn count_shared(&mut self, s: Site, a: &Addresses, bytes: u32) {
        let phases = (bytes / 4).clamp(1, 4) as usize;
        let (mut total, mut ideal) = (0, 0);
        let step = u64::from(bytes);
        let mut in_a_row = s.mask == super::regs::ALL && bytes >= 4;
        for l in 0..LANES {
            in_a_row &= a[l] == a[0].wrapping_add(step * l as u64);
        }
        if in_a_row {
            // Side by side: every bank once per phase.
            (total, ideal) = (phases as u64, phases as u64);
        } else {
            let per_phase = LANES / phases;
            for phase in 0..phases {
                let mask = s.mask & ((((1_u64 << per_phase) - 1) as u32) << (phase * per_phase));
                if mask != 0 {
                    total += u64::from(self.banks.worst(a, mask, bytes.clamp(4, 16)));
                    ideal += 1;
                }
            }
        }
        let cost = &mut self.costs[s.pc as usize];
        cost.requests += 1;
        cost.wavefronts += total;
        cost.ideal_wavefronts += ideal;
    }

    fn in_window(&self, b: &BlockState, w: &Warp, s: Site, a: &Addresses, bytes: u32, size: usize, what: &str) -> Run<()> {
        let highest = span(a, s.mask).1;
        if highest.checked_add(u64::from(bytes)).is_some_and(|end| end <= size as u64) {
            return Ok(());
        }
        for l in lanes(s.mask) {
            if a[l].checked_add(u64::from(bytes)).is_none_or(|end| end > size as u64) {
                let near = self.program.shared.iter().filter(|v| u64::from(v.offset) <= a[l]).max_by_key(|v| v.offset);
                let near = match (what, near) {
                    ("shared", Some(v)) => format!(", {} bytes past the start of `{}` ({} bytes)", a[l] - u64::from(v.offset), v.name, v.bytes),
                    _ => String::new(),
                };
                let text = format!("access of {bytes} bytes out of bounds: {what} address {:#x} of {size} bytes{near}", a[l]);
                return self.fault(FaultKind::OutOfBounds, s.pc, b.id, w.first_thread + l as u32, Some(a[l]), &text);
            }
        }
        Ok(())
    }

    /// Checks of an access to shared memory that lies within it.
    pub fn check_shared(&mut self, b: &mut BlockState, w: &Warp, s: Site, a: &Addresses, bytes: u32, write: bool, atomic: bool) {
        if b.words_in_flight > 0 {
            for l in lanes(s.mask) {
                let (first, last) = (a[l] as usize / 4, (a[l] as usize + bytes as usize - 1) / 4);
                if let Some(&i) = b.in_flight[first..=last].iter().find(|&&i| i != 0) {
                    let what = format!("shared memory {:#x} is {} while cp.async from {} is still under way", a[l], if write { "written" } else { "read" }, self.place(i - 1));
                    self.find(FindingKind::AsyncBeforeWait, s.pc, Some(i - 1), b.id, w.first_thread + l as u32, Some(a[l]), &what);
                }
            }
        }
        if !write || atomic {
            for l in lanes(s.mask) {
                if let Some(at) = b.shared_known.missing(a[l] as usize, bytes as usize) {
                    if !b.in_flight.is_empty() && b.in_flight[at / 4] != 0 {
                        continue;
                    }
                    let what = format!("read of shared memory {at:#x} that nothing has written");
                    self.find(FindingKind::UninitialisedShared, s.pc, None, b.id, w.first_thread + l as u32, Some(at as u64), &what);
                }
            }
        }
        if let Some(mut shadow) = b.shadow.take() {
            for l in lanes(s.mask) {
                let who = Who { warp: w.index, lane: l as u32, instruction: s.pc };
                let past = if write { shadow.write(a[l] as u32, bytes, who, atomic) } else { shadow.read(a[l] as u32, bytes, who) };
                if let Some(past) = past {
                    self.race(b, w, s.pc, l as u32, a[l], write, past);
                }
            }
            b.shadow = Some(shadow);
        }
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn race(&mut self, b: &BlockState, w: &Warp, pc: u32, lane: u32, address: u64, write: bool, past: Past) {
        let name = |w: bool| if w { "write" } else { "read" };
        let other = self.thread(u32::from(past.warp) * 32 + u32::from(past.lane));
        let what = format!(
            "race on shared memory {address:#x}: this {} and the {} at {} by thread {other:?} have no order",
            name(write), name(past.was_write), self.place(past.instruction)
        );
        self.find(FindingKind::SharedRace, pc, Some(past.instruction), b.id, w.first_thread + lane, Some(address), &what);
    }

    pub fn load<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, access: &Access, s: Site) -> Run<()> {
        let all = addresses(&w.regs, access.address, access.offset);
        let bytes = access.bytes();
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, a) = split(access.space, &all, rest);
            rest &= !mask;
            let s = Site { mask, ..s };
            self.aligned(b, w, s, &a, bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, &a, bytes);
                    if let Some((i, at)) = self.in_one(&a, mask, bytes, false) {
                        let allocation = self.memory.at(i);
                        deposit_all(&mut w.regs, access, &allocation.data, &at, mask);
                        if !CHECKS || allocation.all_known() {
                            continue;
                        }
                    }
                    for l in lanes(mask) {
                        let i = self.resolve(b, w, s, l, a[l], bytes, false)?;
                        let allocation = self.memory.at(i);
                        let at = (a[l] - allocation.base) as usize;
                        deposit(&mut w.regs, access, &allocation.data[at..at + bytes as usize], l);
                        if CHECKS && allocation.missing(at, bytes as usize).is_some() {
                            let what = format!("read of `{}` at byte {at} that nothing has written", allocation.name);
                            self.find(FindingKind::UninitialisedGlobal, s.pc, None, b.id, w.first_thread + l as u32, Some(a[l]), &what);
                        }
                    }
                }
                AddressSpace::Shared => {
                    self.in_window(b, w, s, &a, bytes, b.shared.len(), "shared")?;
                    self.count_shared(s, &a, bytes);
                    if CHECKS {
                        self.check_shared(b, w, s, &a, bytes, false, false);
                    }
                    deposit_all(&mut w.regs, access, &b.shared, &a, mask);
                }
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, &a, bytes, size, "local")?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        if CHECKS && b.local_known.missing(at, bytes as usize).is_some() {
                            let what = format!("read of local memory {:#x} that nothing has written", a[l]);
                            self.find(FindingKind::UninitialisedLocal, s.pc, None, b.id, w.first_thread + l as u32, Some(a[l]), &what);
                        }
                        deposit(&mut w.regs, access, &b.local[at..at + bytes as usize], l);
                    }
                }
                AddressSpace::Param => {
                    self.in_window(b, w, s, &a, bytes, self.params.len(), "parameter")?;
                    for l in lanes(mask) {
                        deposit(&mut w.regs, access, &self.params[a[l] as usize..][..bytes as usize], l);
                    }
                }
            }
        }
        Ok(())
    }

    pub fn store<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, access: &Access, s: Site) -> Run<()> {
        let all = addresses(&w.regs, access.address, access.offset);
        let bytes = access.bytes();
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, a) = split(access.space, &all, rest);
            rest &= !mask;
            let s = Site { mask, ..s };
            self.aligned(b, w, s, &a, bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, &a, bytes);
                    if let Some((i, at)) = self.in_one(&a, mask, bytes, true) {
                        let allocation = self.memory.at_mut(i);
                        collect_all(&w.regs, access, &mut allocation.data, &at, mask);
                        for l in lanes(mask) {
                            allocation.mark(at[l] as usize, bytes as usize);
                        }
                        continue;
                    }
                    for l in lanes(mask) {
                        let i = self.resolve(b, w, s, l, a[l], bytes, true)?;
                        let allocation = self.memory.at_mut(i);
                        let at = (a[l] - allocation.base) as usize;
                        allocation.data[at..at + bytes as usize].copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        allocation.mark(at, bytes as usize);
                    }
                }
                AddressSpace::Shared => {
                    self.in_window(b, w, s, &a, bytes, b.shared.len(), "shared")?;
                    self.count_shared(s, &a, bytes);
                    if CHECKS {
                        self.check_shared(b, w, s, &a, bytes, true, false);
                    }
                    collect_all(&w.regs, access, &mut b.shared, &a, mask);
                    if CHECKS {
                        for l in lanes(mask) {
                            b.shared_known.set(a[l] as usize, bytes as usize);
                        }
                    }
                }
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, &a, bytes, size, "local")?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        b.local[at..at + bytes as usize].copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        b.local_known.set(at, bytes as usize);
                    }
                }
                AddressSpace::Param => {
                    let l = mask.trailing_zeros();
                    return self.fault(FaultKind::ReadOnly, s.pc, b.id, w.first_thread + l, Some(a[l as usize]), "write to a kernel parameter");
                }
            }
        }
        Ok(())
    }

    pub fn copy_local(&mut self, b: &mut BlockState, w: &Warp, (from, to, bytes): (u32, u32, u32), mask: u32) {
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

    pub fn atomic<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, atom: &Atomic, s: Site) -> Run<()> {
        let access = &atom.access;
        let all = addresses(&w.regs, access.address, access.offset);
        let bytes = access.bytes();
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, a) = split(access.space, &all, rest);
            rest &= !mask;
            let s = Site { mask, ..s };
            self.aligned(b, w, s, &a, bytes)?;
            let shared = space == AddressSpace::Shared;
            match space {
                AddressSpace::Shared => {
                    self.in_window(b, w, s, &a, bytes, b.shared.len(), "shared")?;
                    self.count_shared(s, &a, bytes);
                    if CHECKS {
                        self.check_shared(b, w, s, &a, bytes, true, true);
                    }
                }
                AddressSpace::Global | AddressSpace::Generic => self.count_global(s, &a, bytes),
                _ => {
                    let l = mask.trailing_zeros();
                    return self.fault(FaultKind::Undefined, s.pc, b.id, w.first_thread + l, Some(a[l as usize]), "an atomic outside global and shared memory");
                }
            }
            if let Some(shadow) = &mut b.shadow {
                // Whoever touched this address before is before; whoever comes later is after.
                for l in lanes(mask) {
                    let key = a[l] << 1 | u64::from(shared);
                    let clock = b.atomics.entry(key).or_insert([0; WARPS]);
                    shadow.acquire(w.index, clock, false);
                    shadow.release(w.index, clock);
                }
            }
            // Lanes in the order of their numbers: any order is allowed, this one is the same always.
            for l in lanes(mask) {
                let read = |r: u32| match atom.class {
                    Class::R64 => w.regs.r64[r as usize].0[l],
                    _ => u64::from(w.regs.r32[r as usize].0[l]),
                };
                let (y, z) = (read(atom.b), read(atom.c));
                let slot: &mut [u8] = if shared {
                    b.shared_known.set(a[l] as usize, bytes as usize);
                    &mut b.shared[a[l] as usize..][..bytes as usize]
                } else {
                    let i = self.resolve(b, w, s, l, a[l], bytes, true)?;
                    let base = self.memory.at(i).base;
                    let at = (a[l] - base) as usize;
                    if CHECKS && self.memory.at(i).missing(at, bytes as usize).is_some() {
                        let what = format!("atomic on `{}` at byte {at} that nothing has written", self.memory.at(i).name);
                        self.find(FindingKind::UninitialisedGlobal, s.pc, None, b.id, w.first_thread + l as u32, Some(a[l]), &what);
                    }
                    let allocation = self.memory.at_mut(i);
                    allocation.mark(at, bytes as usize);
                    &mut allocation.data[at..at + bytes as usize]
                };
                let old = word(slot, bytes);
                let new = combine(atom.op, bytes, old, y, z);
                slot.copy_from_slice(&new.to_le_bytes()[..bytes as usize]);
                if let Some(d) = atom.destination {
                    match atom.class {
                        Class::R64 => w.regs.r64[d as usize].0[l] = old,
                        _ => w.regs.r32[d as usize].0[l] = old as u32,
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads now, arrives at the wait: a kernel that reads too early sees the old bytes.
    pub fn cp_async<const CHECKS: bool>(&mut self, b: &mut BlockState, w: &mut Warp, to: &Access, from: &Access, bytes: u32, size: u32, s: Site) -> Run<()> {
        let target = addresses(&w.regs, to.address, to.offset);
        let source = addresses(&w.regs, from.address, from.offset);
        let (_, _, target) = split(AddressSpace::Shared, &target, s.mask);
        self.aligned(b, w, s, &target, bytes)?;
        self.in_window(b, w, s, &target, bytes, b.shared.len(), "shared")?;
        self.count_shared(s, &target, bytes);
        let mut reading = 0;
        for l in lanes(s.mask) {
            reading |= u32::from(w.regs.r32[size as usize].0[l] != 0) << l;
        }
        if reading != 0 {
            let s = Site { mask: reading, ..s };
            self.aligned(b, w, s, &source, bytes)?;
            self.count_global(s, &source, bytes);
            self.costs[s.pc as usize].requests -= 1;
        }
        for l in lanes(s.mask) {
            let wanted = w.regs.r32[size as usize].0[l];
            if wanted > bytes {
                return self.fault(FaultKind::Undefined, s.pc, b.id, w.first_thread + l as u32, Some(source[l]), &format!("cp.async of {wanted} of {bytes} bytes"));
            }
            let mut data = [0; 16];
            if wanted > 0 {
                let i = self.resolve(b, w, s, l, source[l], wanted, false)?;
                let allocation = self.memory.at(i);
                let at = (source[l] - allocation.base) as usize;
                data[..wanted as usize].copy_from_slice(&allocation.data[at..at + wanted as usize]);
                if CHECKS && allocation.missing(at, wanted as usize).is_some() {
                    let what = format!("cp.async of `{}` at byte {at} that nothing has written", allocation.name);
                    self.find(FindingKind::UninitialisedGlobal, s.pc, None, b.id, w.first_thread + l as u32, Some(source[l]), &what);
                }
            }
            let words = target[l] as usize / 4..(target[l] as usize + bytes as usize).div_ceil(4);
            for word in &mut b.in_flight[words] {
                b.words_in_flight += u32::from(*word == 0);
                *word = s.pc + 1;
            }
            w.copies.open.push(CopyOp { lane: l as u32, to: target[l] as u32, bytes, data, instruction: s.pc });
        }
        if CHECKS && let Some(mut shadow) = b.shadow.take() {
            // The write may happen from here on: what others still read is in danger now.
            for l in lanes(s.mask) {
                let who = Who { warp: w.index, lane: l as u32, instruction: s.pc };
                if let Some(past) = shadow.write(target[l] as u32, bytes, who, false) {
                    self.race(b, w, s.pc, l as u32, target[l], true, past);
                }
            }
            b.shadow = Some(shadow);
        }
        Ok(())
    }

    pub fn cp_commit(&mut self, w: &mut Warp, mask: u32) {
        let copies = &mut w.copies;
        let (mine, rest): (Vec<_>, Vec<_>) = copies.open.drain(..).partition(|c| mask >> c.lane & 1 == 1);
        copies.open = rest;
        copies.groups.push_back((mask, mine));
    }

    /// Completes, for each lane, all but its last `keep` groups.
    pub fn cp_wait(&mut self, b: &mut BlockState, w: &mut Warp, keep: u32, mask: u32) {
        let mut newer = [0_u32; LANES];
        let mut arrived = Vec::new();
        for (lanes_of, copies) in w.copies.groups.iter_mut().rev() {
            let mut done = 0;
            for l in lanes(*lanes_of & mask) {
                done |= u32::from(newer[l] >= keep) << l;
                newer[l] += 1;
            }
            *lanes_of &= !done;
            let (now, later): (Vec<_>, Vec<_>) = copies.drain(..).partition(|c| done >> c.lane & 1 == 1);
            *copies = later;
            arrived.push(now);
        }
        w.copies.groups.retain(|(lanes, copies)| *lanes != 0 || !copies.is_empty());
        for copy in arrived.into_iter().rev().flatten() {
            let at = copy.to as usize;
            b.shared[at..at + copy.bytes as usize].copy_from_slice(&copy.data[..copy.bytes as usize]);
            b.shared_known.set(at, copy.bytes as usize);
            for word in &mut b.in_flight[at / 4..(at + copy.bytes as usize).div_ceil(4)] {
                b.words_in_flight -= u32::from(*word != 0);
                *word = 0;
            }
            if let Some(shadow) = &mut b.shadow {
                // It arrives now, in the copying thread's name. What raced was told at the start.
                let who = Who { warp: w.index, lane: copy.lane, instruction: copy.instruction };
                shadow.write(copy.to, copy.bytes, who, false);
            }
        }
    }
}

fn combine(op: AtomOp, bytes: u32, old: u64, b: u64, c: u64) -> u64 {
    let signed = |x: u64| if bytes == 4 { i64::from(x as u32 as i32) } else { x as i64 };
    let f = |x: u64| f32::from_bits(x as u32);
    let half = |x: u64| f64::from(f16_to_f32(x as u32 & 0xffff));
    let brain = |x: u64| f64::from(bf16_to_f32(x as u32 & 0xffff));
    let h = |x: u64, y: u64| u64::from(F16.encode(half(x) + half(y), crate::num::round::Round::Nearest, false));
    let bf = |x: u64, y: u64| u64::from(BF16.encode(brain(x) + brain(y), crate::num::round::Round::Nearest, false));
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
        AtomOp::Cas => if old == b { c } else { old },
        AtomOp::MinU => old.min(b),
        AtomOp::MaxU => old.max(b),
        AtomOp::MinS => if signed(b) < signed(old) { b } else { old },
        AtomOp::MaxS => if signed(b) > signed(old) { b } else { old },
        AtomOp::Inc => if old >= b { 0 } else { old + 1 },
        AtomOp::Dec => if old == 0 || old > b { b } else { old - 1 },
    }
}
