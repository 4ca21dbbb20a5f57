//! Loads and stores of a warp: what they move, and the checks on the way.

use super::address::*;
use super::cost::Way;
use super::state::*;
use super::undefined::{Origin, Unwritten};
use super::watch::{Does, strength};
use crate::isa::*;
use crate::regs::{Class, LANES, Regs, lanes};
use crate::report::*;
use crate::switch::{Observer, is_off};

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
pub fn deposit_all(regs: &mut Regs, a: &Access, bytes: &[u8], at: &Addresses, mask: u32) {
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
    let full = mask == crate::regs::ALL;
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

#[inline(always)]
pub fn collect_all(regs: &Regs, a: &Access, bytes: &mut [u8], at: &Addresses, mask: u32) {
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

/// A bit for each byte that has no value.
pub fn missing_of(bytes: u32, is_missing: impl Fn(usize) -> bool) -> u32 {
    let missing = (0..bytes).filter(|n| is_missing(*n as usize));
    missing.fold(0, |all, n| all | 1 << n)
}

impl Machine<'_> {
    pub fn load<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
    ) -> Run<()> {
        if self.steady::<CHECKS, false>(b, w, access, s) {
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
            self.aligned(b, w, s, (space, a), bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, a, bytes);
                    let mut several = true;
                    if CHECKS {
                        self.meet(b, w, a, s, false, access.order, Does::Read);
                    }
                    if let Some((i, at)) = self.in_one(a, s, bytes, false) {
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
                        let (i, at) = self.locate(b, w, s, (l, a[l]), bytes, false)?;
                        if CHECKS && several {
                            let s = Site { mask: 1 << l, ..s };
                            self.watch(b, w, access, s, (i, &[at as u64; LANES]), bytes, false);
                        }
                        let data = &self.memory.at(i).data[at..at + bytes as usize];
                        deposit(&mut w.regs, access, data, l);
                        let undefined = if CHECKS {
                            self.undefined_in_global((i, at), bytes, s.pc)
                        } else {
                            None
                        };
                        if let Some(origin) = undefined {
                            let allocation = self.memory.at(i);
                            let missing =
                                missing_of(bytes, |n| allocation.missing(at + n, 1).is_some());
                            self.read_undefined(w, access, l, origin, missing);
                        }
                    }
                }
                AddressSpace::Shared => self.load_shared::<CHECKS>(b, w, access, s, a)?,
                AddressSpace::Cluster => self.load_in_cluster::<CHECKS>(b, w, access, s, a)?,
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, a, bytes, size, AddressSpace::Local)?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        deposit(&mut w.regs, access, &b.local[at..at + bytes as usize], l);
                        if CHECKS
                            && let Some(first) = b.local_known.missing(at, bytes as usize)
                            && !is_off(Observer::Initialisation, s.pc)
                        {
                            let unwritten = Origin {
                                instruction: s.pc,
                                from: Unwritten::Local((a[l] as usize + first - at) as u32),
                            };
                            let origin = b.local_origins.get(&first).copied();
                            let missing =
                                missing_of(bytes, |n| b.local_known.missing(at + n, 1).is_some());
                            let origin = origin.unwrap_or(unwritten);
                            self.read_undefined(w, access, l, origin, missing);
                        }
                    }
                }
                AddressSpace::Param => {
                    self.in_window(b, w, s, a, bytes, self.params.len(), AddressSpace::Param)?;
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
        let undefined = CHECKS && Self::may_store_undefined(w, access);
        if !undefined && self.steady::<CHECKS, true>(b, w, access, s) {
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
            self.aligned(b, w, s, (space, a), bytes)?;
            match space {
                AddressSpace::Global | AddressSpace::Generic => {
                    self.count_global(s, a, bytes);
                    if CHECKS {
                        self.meet(b, w, a, s, false, access.order, Does::Write);
                    }
                    if let Some((i, at)) = self.in_one(a, s, bytes, true) {
                        if CHECKS {
                            self.watch(b, w, access, s, (i, &at), bytes, true);
                        }
                        let allocation = self.memory.at_mut(i);
                        collect_all(&w.regs, access, &mut allocation.data, &at, mask);
                        for l in lanes(mask) {
                            allocation.mark(at[l] as usize, bytes as usize);
                        }
                        for l in lanes(if undefined { mask } else { 0 }) {
                            if let Some(what) = Self::stored_undefined(w, access, l) {
                                self.leave_undefined(b, w, s, (i, at[l] as usize, l), what);
                            }
                        }
                        continue;
                    }
                    for l in lanes(mask) {
                        let (i, at) = self.locate(b, w, s, (l, a[l]), bytes, true)?;
                        if CHECKS {
                            let s = Site { mask: 1 << l, ..s };
                            self.watch(b, w, access, s, (i, &[at as u64; LANES]), bytes, true);
                        }
                        let allocation = self.memory.at_mut(i);
                        allocation.data[at..at + bytes as usize]
                            .copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        allocation.mark(at, bytes as usize);
                        if undefined && let Some(what) = Self::stored_undefined(w, access, l) {
                            self.leave_undefined(b, w, s, (i, at, l), what);
                        }
                    }
                }
                AddressSpace::Shared => self.store_shared::<CHECKS>(b, w, access, s, a)?,
                AddressSpace::Cluster => self.store_in_cluster::<CHECKS>(b, w, access, s, a)?,
                AddressSpace::Local => {
                    let size = self.program.local_bytes as usize;
                    self.in_window(b, w, s, a, bytes, size, AddressSpace::Local)?;
                    for l in lanes(mask) {
                        let at = (w.first_thread as usize + l) * size + a[l] as usize;
                        b.local[at..at + bytes as usize]
                            .copy_from_slice(&collect(&w.regs, access, l)[..bytes as usize]);
                        b.local_known.set(at, bytes as usize);
                        if undefined
                            && let Some((some, origin)) = Self::stored_undefined(w, access, l)
                        {
                            for n in (0..32).filter(|n| some >> n & 1 == 1) {
                                b.local_known.put(at + n, false);
                                b.local_origins.insert(at + n, origin);
                            }
                        }
                    }
                }
                AddressSpace::Param => {
                    let l = mask.trailing_zeros();
                    return self.fault(
                        FaultKind::ReadOnly,
                        At::lane(b, w, s.pc, l).address(a[l as usize]),
                        "write to a kernel parameter",
                    );
                }
            }
        }
        Ok(())
    }

    /// A load of the block's own shared memory by the lanes of `s`, aligned.
    #[inline(always)]
    pub fn load_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let bytes = access.bytes();
        self.in_window(b, w, s, a, bytes, b.shared.len(), AddressSpace::Shared)?;
        self.count_shared(s, a, bytes, Way::Load);
        if CHECKS {
            self.meet(b, w, a, s, true, access.order, Does::Read);
            self.check_shared_read(b, w, s, a, bytes, strength(access));
        }
        deposit_all(&mut w.regs, access, &b.shared, a, s.mask);
        if CHECKS {
            self.read_undefined_shared(b, w, access, s, a);
        }
        Ok(())
    }

    /// Follows what has no value of loads from the shared memory of a block.
    #[inline(always)]
    pub fn read_undefined_shared(
        &mut self,
        of: &BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
        a: &Addresses,
    ) {
        let bytes = access.bytes();
        for l in lanes(s.mask) {
            let at = a[l] as usize;
            if let Some(origin) = of.undefined_in_shared(at, bytes as usize, s.pc) {
                let missing = missing_of(bytes, |n| of.shared_known.missing(at + n, 1).is_some());
                self.read_undefined(w, access, l, origin, missing);
            }
        }
    }

    /// As `load_shared`, a store.
    #[inline(always)]
    pub fn store_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let bytes = access.bytes();
        self.in_window(b, w, s, a, bytes, b.shared.len(), AddressSpace::Shared)?;
        self.count_shared(s, a, bytes, Way::Store);
        if CHECKS {
            self.meet(b, w, a, s, true, access.order, Does::Write);
            let values = std::array::from_fn(|l| collect(&w.regs, access, l));
            self.check_shared_write(b, w, s, a, bytes, strength(access), &values);
        }
        collect_all(&w.regs, access, &mut b.shared, a, s.mask);
        if CHECKS {
            Self::note_shared(b, w, access, s, a);
        }
        Ok(())
    }

    /// Bytes that were stored have values, or none where those stored had none.
    #[inline(always)]
    pub fn note_shared(of: &mut BlockState, w: &Warp, access: &Access, s: Site, a: &Addresses) {
        for l in lanes(s.mask) {
            of.shared_known.set(a[l] as usize, access.bytes() as usize);
        }
        let undefined = Self::may_store_undefined(w, access);
        for l in lanes(if undefined { s.mask } else { 0 }) {
            if let Some(what) = Self::stored_undefined(w, access, l) {
                of.leave_undefined_in_shared(a[l] as usize, what);
            }
        }
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
                // A lane without a value hands on none.
                let known = b.local_known.missing(f, 1).is_none();
                b.local_known.put(t, known);
                if !known && let Some(origin) = b.local_origins.get(&f).copied() {
                    b.local_origins.insert(t, origin);
                }
            }
        }
    }
}
