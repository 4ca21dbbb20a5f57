//! Tensor maps that a kernel changes. Copies read a map by a proxy of its own: they see a change of a map in global
//! memory only behind a `fence.proxy.tensormap::generic.acquire` of that map (PTX ISA, "Proxies"), by any thread of
//! their block. Changes by `tensormap.replace` and `tensormap.cp_fenceproxy` are numbered, and a block keeps the number
//! that it has acquired. Plain stores to a map are not seen.

use super::access::address::{Site, addresses, split};
use super::access::{LaneAccess, Observed, Target};
use super::state::*;
use crate::isa::*;
use crate::regs::{Class, LANES, lanes};
use crate::report::*;
use crate::tensor_map::MAP_BYTES;
use model::{Dependent, FindingEvent};
use std::collections::HashMap;

const BYTES: u32 = MAP_BYTES as u32;
/// The number of bytes of which the address of a map is a multiple.
const MAP_ALIGN: u64 = 64;

/// The last change of a map: its number, and where it was made.
#[derive(Clone, Copy)]
pub struct MapChange {
    number: u32,
    instruction: u32,
    thread: u32,
}

/// Changes of tensor maps, by the address of the map.
pub type MapChanges = HashMap<u64, MapChange>;

impl Machine<'_> {
    /// Executes `tensormap.replace`, for one lane after the other.
    pub fn replace_field<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        r: &ReplaceField,
        s: Site,
    ) -> Run<()> {
        let all = addresses(&w.regs, r.place.address, r.place.offset);
        let mut room = [0; LANES];
        for lane in lanes(s.mask) {
            let one = s.only(lane);
            let (space, _, a) = split(r.space, &all, one.mask, &mut room);
            let value = match r.value {
                (Class::R64, register) => w.regs.r64[register as usize].0[lane],
                (_, register) => u64::from(w.regs.r32[register as usize].0[lane]),
            };
            let field = r.field.bytes(r.dimension).unwrap_or_default();
            let slot = match space {
                AddressSpace::Shared => {
                    let x = LaneAccess::new(one, a, BYTES, Direction::Write);
                    let seen = self.map_in_shared::<CHECKS>(b, w, &x)?;
                    &mut b.shared.bytes_mut(seen)[a[lane] as usize..][..MAP_BYTES]
                }
                _ => {
                    let (i, at, seen) = self.map_in_global::<CHECKS>(b, w, one, a[lane])?;
                    &mut self.memory.at_mut(i).content.bytes_mut(seen)[at..at + MAP_BYTES]
                }
            };
            let number = r.field.stored(value).to_le_bytes();
            let to = &mut slot[field];
            let n = to.len();
            to.copy_from_slice(&number[..n]);
        }
        Ok(())
    }

    /// Executes `tensormap.cp_fenceproxy`: copies a map from shared to global memory, by a whole warp as one.
    pub fn publish_map<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        [to, from]: [&BulkPlace; 2],
        s: Site,
    ) -> Run<()> {
        let lane = s.mask.trailing_zeros() as usize;
        let one = s.only(lane);
        let source = addresses(&w.regs, from.address, from.offset);
        let target = addresses(&w.regs, to.address, to.offset);
        let x = LaneAccess::new(one, &source, BYTES, Direction::Read);
        let seen = self.map_in_shared::<CHECKS>(b, w, &x)?;
        let from = source[lane] as usize;
        if CHECKS && let Some((_, origin)) = self.missing(b, Target::Shared, (from, BYTES), s.pc) {
            let at = At::lane(b, w, s.pc, lane as u32).address(source[lane]);
            self.depends(at, origin, Dependent::TensorMap);
        }
        let (i, at, to) = self.map_in_global::<CHECKS>(b, w, one, target[lane])?;
        let content = &mut self.memory.at_mut(i).content;
        let bytes = &b.shared.bytes(seen)[from..from + MAP_BYTES];
        content.bytes_mut(to)[at..at + MAP_BYTES].copy_from_slice(bytes);
        content.cover(at, MAP_BYTES);
        Ok(())
    }

    /// Checks an access to a map in shared memory.
    fn map_in_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        x: &LaneAccess,
    ) -> Run<Observed> {
        let address = x.at[x.site.mask.trailing_zeros() as usize];
        self.at_map(x.site, address)?;
        self.in_window(x, b.shared.len(), AddressSpace::Shared)?;
        Ok(self.observe_shared::<CHECKS>(b, w, None, x))
    }

    /// Faults if a map does not begin at a multiple of [`MAP_ALIGN`].
    pub fn at_map(&self, s: Site, address: u64) -> Run<()> {
        if address.is_multiple_of(MAP_ALIGN) {
            return Ok(());
        }
        let what = format!("a tensor map at {address:#x}, which is no multiple of {MAP_ALIGN}");
        s.refuse_at(FaultKind::Misaligned, address, what)
    }

    /// Checks a change of a map in global memory and notes it. Returns the allocation and the offset of the map.
    fn map_in_global<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        address: u64,
    ) -> Run<(usize, usize, Observed)> {
        self.at_map(s, address)?;
        let lane = s.mask.trailing_zeros() as usize;
        let all = [address; LANES];
        let x = LaneAccess::new(s, &all, BYTES, Direction::Write);
        let (i, at) = self.locate(&x, lane)?;
        let places = [at as u64; LANES];
        let seen = self.observe_global::<CHECKS>(b, w, i, &LaneAccess { at: &places, ..x });
        if CHECKS {
            let before = self
                .map_changes
                .get(&address)
                .map_or(0, |change| change.number);
            let change = MapChange {
                number: before + 1,
                instruction: s.pc,
                thread: w.first_thread() + lane as u32,
            };
            self.map_changes.insert(address, change);
        }
        self.progress += 1;
        Ok((i, at, seen))
    }

    /// Notes that a block sees the changes of a map so far.
    pub fn acquire_map(&self, b: &mut BlockState, w: &Warp, place: &BulkPlace, mask: u32) {
        let all = addresses(&w.regs, place.address, place.offset);
        for lane in lanes(mask) {
            if let Some(change) = self.map_changes.get(&all[lane]) {
                b.acquired_maps.insert(all[lane], change.number);
            }
        }
    }

    /// Reports a copy that reads a map whose last change its block has not acquired.
    pub fn check_map(&mut self, b: &BlockState, w: &Warp, s: Site, address: u64) {
        let Some(change) = self.map_changes.get(&address).copied() else {
            return;
        };
        if b.acquired_maps.get(&address) == Some(&change.number) {
            return;
        }
        let at = At::first(b, w, s).address(address);
        let other = Other::by(change.instruction, change.thread);
        self.find(FindingKind::GlobalRace, at, Some(other), |m| {
            FindingEvent::NoProxyFence(m.name_of(s.pc))
        });
    }
}
