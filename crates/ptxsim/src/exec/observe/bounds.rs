//! Accesses that are not aligned, lie in no memory, or lie outside of the variable that their address was computed from
//! (`origins` has how far that is known). Each of them ends the launch with a fault.

use crate::exec::access::LaneAccess;
use crate::exec::access::address::{Addresses, Site};
use crate::exec::state::*;
use crate::isa::*;
use crate::program::SharedVariable;
use crate::regs::lanes;
use crate::report::*;
use model::AccessKind;

/// Returns the lowest and the highest address of the lanes.
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

impl Machine<'_> {
    /// Faults if an access of `bytes` by a lane is not aligned to its size.
    #[inline(always)]
    pub fn aligned(&self, s: Site, (space, a): (AddressSpace, &Addresses), bytes: u32) -> Run<()> {
        // One test for all lanes: a bit of a misaligned address shows in the union of all bits.
        let mut union = 0;
        for (l, x) in a.iter().enumerate() {
            union |= x & 0_u64.wrapping_sub(u64::from(s.mask >> l & 1));
        }
        if union & u64::from(bytes - 1) == 0 {
            return Ok(());
        }
        let is_off = |l: &usize| a[*l] & u64::from(bytes - 1) != 0;
        match lanes(s.mask).find(is_off) {
            Some(lane) => self.misaligned(s, (lane, space, a[lane]), bytes),
            None => Ok(()),
        }
    }

    #[cold]
    fn misaligned(
        &self,
        s: Site,
        (lane, space, address): (usize, AddressSpace, u64),
        bytes: u32,
    ) -> Run<()> {
        let op = self.program.code.get(s.pc as usize).map(|inst| &inst.op);
        let way = match op.map(|op| op.access_kind()) {
            Some(AccessKind::Read) => "read",
            Some(AccessKind::Write) => "write",
            Some(AccessKind::Copy) => "copy",
            _ => "access",
        };
        let holder = match space {
            AddressSpace::Global | AddressSpace::Generic => {
                let found = self.memory.find(address, 1).map(|i| self.memory.at(i));
                found.map(|held| (held.name.as_str(), address - held.base))
            }
            AddressSpace::Shared => self
                .shared_variable(address)
                .map(|held| (held.name.as_str(), address - u64::from(held.offset))),
            _ => None,
        };
        let place = holder.map_or_else(String::new, |(name, offset)| {
            format!(", byte {offset} of `{name}`,")
        });
        let what = format!(
            "misaligned {way} of {bytes} bytes: address {address:#x}{place} is not a multiple of {bytes}"
        );
        s.only(lane).refuse_at(FaultKind::Misaligned, address, what)
    }

    /// Returns the last variable in shared memory that begins at an address or before it.
    fn shared_variable(&self, address: u64) -> Option<&SharedVariable> {
        self.program
            .shared
            .iter()
            .filter(|variable| u64::from(variable.offset) <= address)
            .max_by_key(|variable| variable.offset)
    }

    /// Returns the allocation that holds the accesses of all lanes, and their offsets in it, if there is one.
    #[inline(always)]
    pub fn in_one(&mut self, x: &LaneAccess) -> Option<(usize, Addresses)> {
        let (low, high) = span(x.at, x.site.mask);
        let bytes = u64::from(x.bytes);
        let reach = (high - low).saturating_add(bytes);
        if !self
            .origins
            .hold(x.site.pc, AddressSpace::Global, low, reach)
        {
            return None;
        }
        let holds = |m: &Self, i: usize| {
            let held = m.memory.at(i);
            low >= held.base
                && high.saturating_add(bytes) <= held.base + held.len() as u64
                && !(x.writes() && held.read_only)
        };
        if self.hint == usize::MAX || !holds(self, self.hint) {
            self.hint = self.memory.find(low, bytes)?;
            if !holds(self, self.hint) {
                return None;
            }
        }
        let base = self.memory.at(self.hint).base;
        Some((self.hint, x.at.map(|address| address.wrapping_sub(base))))
    }

    /// Returns the allocation that a lane accesses in global memory, and the offset there. Faults if there is none, if
    /// it is another than the address was computed from, or if a constant is written.
    #[inline(always)]
    pub fn locate(&mut self, x: &LaneAccess, lane: usize) -> Run<(usize, usize)> {
        let (s, address, bytes, write) = (x.site, x.at[lane], x.bytes, x.writes());
        let hint = self.hint;
        let in_origin = self
            .origins
            .hold(s.pc, AddressSpace::Global, address, u64::from(bytes));
        if hint != usize::MAX && in_origin {
            let a = self.memory.at(hint);
            let at = address.wrapping_sub(a.base);
            let size = a.len() as u64;
            if at < size && at + u64::from(bytes) <= size && !(write && a.read_only) {
                return Ok((hint, at as usize));
            }
        }
        let found = self.memory.find(address, u64::from(bytes));
        let Some(found) = found.filter(|_| in_origin) else {
            let way = if write { "write" } else { "read" };
            let what = match (self.freed(address), found) {
                (Some(freed), _) => format!("{way} of {bytes} bytes, {freed},"),
                (None, Some(found)) => format!(
                    "{way} of {bytes} bytes out of bounds: address {address:#x} lies in `{}`{}",
                    self.memory.at(found).name,
                    self.origins.named(s.pc, AddressSpace::Global, None)
                ),
                (None, None) => format!(
                    "{way} of {bytes} bytes out of bounds: {}{}",
                    self.memory.near(address),
                    self.origin_of(s.pc, address)
                ),
            };
            return s
                .only(lane)
                .refuse_at(FaultKind::OutOfBounds, address, what);
        };
        let allocation = self.memory.at(found);
        if write && allocation.read_only {
            let what = format!("write to the constant `{}`", allocation.name);
            return s.only(lane).refuse_at(FaultKind::ReadOnly, address, what);
        }
        self.hint = found;
        Ok((found, (address - allocation.base) as usize))
    }

    /// Faults if a lane accesses a memory of `size` bytes outside of it, or outside of the variable that its address
    /// was computed from.
    pub fn in_window(&self, x: &LaneAccess, size: usize, space: AddressSpace) -> Run<()> {
        let (s, a, bytes) = (x.site, x.at, x.bytes);
        let (low, high) = span(a, s.mask);
        let in_all = high
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= size as u64);
        if s.mask == 0
            || in_all
                && self
                    .origins
                    .hold(s.pc, space, low, high - low + u64::from(bytes))
        {
            return Ok(());
        }
        for l in lanes(s.mask) {
            let in_window = a[l]
                .checked_add(u64::from(bytes))
                .is_some_and(|end| end <= size as u64);
            if in_window && self.origins.hold(s.pc, space, a[l], u64::from(bytes)) {
                continue;
            }
            let near = self
                .shared_variable(a[l])
                .filter(|_| space == AddressSpace::Shared);
            let place = near.map_or_else(String::new, |v| {
                let past = a[l] - u64::from(v.offset);
                format!(
                    ", {past} bytes past the start of `{}` ({} bytes)",
                    v.name, v.bytes
                )
            });
            let what = match space {
                AddressSpace::Local => "local",
                AddressSpace::Param => "parameter",
                _ => "shared",
            };
            let near = near.map(|v| v.name.as_str());
            let origin = self.origins.named(s.pc, space, near);
            let text = format!(
                "access of {bytes} bytes out of bounds: {what} address {:#x} of {size} bytes{place}{origin}",
                a[l]
            );
            return s.only(l).refuse_at(FaultKind::OutOfBounds, a[l], text);
        }
        Ok(())
    }
}
