//! Where a warp's accesses go: addresses of lanes, the window and the allocation that they lie in, and
//! what is wrong with those that lie nowhere.

use super::state::*;
use super::undefined::{Origin, Unwritten};
use crate::isa::*;
use crate::program::SharedVariable;
use crate::regs::{Class, LANES, Regs, lanes};
use crate::report::*;
use crate::switch::{Observer, is_off};
use model::AccessKind;

pub type Addresses = [u64; LANES];

/// Who accesses, for checks and messages.
#[derive(Clone, Copy)]
pub struct Site {
    pub pc: u32,
    pub mask: u32,
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
        1 if x as u32 >> CLUSTER_PAGE == 0 => (AddressSpace::Shared, SHARED_WINDOW),
        1 => (AddressSpace::Cluster, SHARED_WINDOW),
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

impl Machine<'_> {
    #[inline(always)]
    pub fn aligned(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (space, a): (AddressSpace, &Addresses),
        bytes: u32,
    ) -> Run<()> {
        // All at once first: an address that is off shows in the union of their bits.
        let mut union = 0;
        for (l, x) in a.iter().enumerate() {
            union |= x & 0_u64.wrapping_sub(u64::from(s.mask >> l & 1));
        }
        if union & u64::from(bytes - 1) == 0 {
            return Ok(());
        }
        let is_off = |l: &usize| a[*l] & u64::from(bytes - 1) != 0;
        match lanes(s.mask).find(is_off) {
            Some(lane) => self.misaligned(b, w, s, (lane as u32, space, a[lane]), bytes),
            None => Ok(()),
        }
    }

    #[cold]
    fn misaligned(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (lane, space, address): (u32, AddressSpace, u64),
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
        self.fault(
            FaultKind::Misaligned,
            At::lane(b, w, s.pc, lane).address(address),
            &what,
        )
    }

    /// Returns the last variable in shared memory that begins at an address or before it.
    fn shared_variable(&self, address: u64) -> Option<&SharedVariable> {
        self.program
            .shared
            .iter()
            .filter(|variable| u64::from(variable.offset) <= address)
            .max_by_key(|variable| variable.offset)
    }

    /// The allocation that the last access hit, and offsets in it, if it holds all lanes' accesses.
    #[inline(always)]
    pub fn in_one(
        &mut self,
        a: &Addresses,
        s: Site,
        bytes: u32,
        write: bool,
    ) -> Option<(usize, Addresses)> {
        let (low, high) = span(a, s.mask);
        let from = self.origins;
        if !from.hold(
            s.pc,
            AddressSpace::Global,
            low,
            (high - low).saturating_add(u64::from(bytes)),
        ) {
            return None;
        }
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

    /// A lane's access of global memory: its allocation, and the offset there.
    #[inline(always)]
    pub fn locate(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (lane, address): (usize, u64),
        bytes: u32,
        write: bool,
    ) -> Run<(usize, usize)> {
        let hint = self.hint;
        let in_origin = self
            .origins
            .hold(s.pc, AddressSpace::Global, address, u64::from(bytes));
        if hint != usize::MAX && in_origin {
            let a = self.memory.at(hint);
            let at = address.wrapping_sub(a.base);
            if at < a.data.len() as u64
                && at + u64::from(bytes) <= a.data.len() as u64
                && !(write && a.read_only)
            {
                return Ok((hint, at as usize));
            }
        }
        let at = || At::lane(b, w, s.pc, lane as u32).address(address);
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
            return self.fault(FaultKind::OutOfBounds, at(), &what);
        };
        let allocation = self.memory.at(found);
        if write && allocation.read_only {
            let what = format!("write to the constant `{}`", allocation.name);
            return self.fault(FaultKind::ReadOnly, at(), &what);
        }
        self.hint = found;
        Ok((found, (address - allocation.base) as usize))
    }

    /// Where what is undefined in a stretch of global memory came from, if anything is; `pc` reads it now.
    #[inline(always)]
    pub fn undefined_in_global(
        &self,
        (i, at): (usize, usize),
        bytes: u32,
        pc: u32,
    ) -> Option<Origin> {
        let missing = self.memory.at(i).missing(at, bytes as usize)?;
        if is_off(Observer::Initialisation, pc) {
            return None;
        }
        let unwritten = Origin {
            instruction: pc,
            from: Unwritten::Global(i, missing),
        };
        let origin = self.global_origins.get(&(i, missing)).copied();
        Some(origin.unwrap_or(unwritten))
    }

    pub fn in_window(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        size: usize,
        space: AddressSpace,
    ) -> Run<()> {
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
            let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
            return self.fault(FaultKind::OutOfBounds, at, &text);
        }
        Ok(())
    }
}
