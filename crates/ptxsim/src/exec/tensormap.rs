//! Tensor maps that a kernel changes. Copies read a map by a proxy of its own: they see a change of a map in global
//! memory only behind a `fence.proxy.tensormap::generic.acquire` of that map (PTX ISA, "Proxies"), by any thread of
//! their block. Changes by `tensormap.replace` and `tensormap.cp_fenceproxy` are known; plain stores to a map are not.

use super::address::{Site, addresses, split};
use super::state::*;
use crate::check::global::Scoped;
use crate::check::race::Strength;
use crate::isa::*;
use crate::regs::{Class, LANES, lanes};
use crate::report::*;
use crate::tensor_map::MAP_BYTES;
use std::collections::HashMap;

const BYTES: u32 = MAP_BYTES as u32;
/// A map begins at a multiple of so many bytes.
const MAP_ALIGN: u64 = 64;

/// A change of a map: how many there were before it, and where it was made.
#[derive(Clone, Copy)]
pub struct MapChange {
    number: u32,
    instruction: u32,
    thread: u32,
}

/// By address of the map.
pub type MapChanges = HashMap<u64, MapChange>;

impl Machine<'_> {
    pub fn replace_field<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        r: &ReplaceField,
        s: Site,
    ) -> Run<()> {
        let all = addresses(&w.regs, r.place.address, r.place.offset);
        let mut room = [0; LANES];
        for lane in lanes(s.mask) {
            let one = Site {
                mask: 1 << lane,
                ..s
            };
            let (space, _, a) = split(r.space, &all, one.mask, &mut room);
            let value = match r.value {
                (Class::R64, register) => w.regs.r64[register as usize].0[lane],
                (_, register) => u64::from(w.regs.r32[register as usize].0[lane]),
            };
            let field = r.field.bytes(r.dimension).unwrap_or_default();
            let slot = match space {
                AddressSpace::Shared => {
                    self.map_in_shared(b, w, one, a[lane])?;
                    if CHECKS {
                        self.check_shared_write(b, w, one, a, BYTES, Strength::Weak, &[[]; LANES]);
                    }
                    &mut b.shared[a[lane] as usize..][..MAP_BYTES]
                }
                _ => self.map_in_global::<CHECKS>(b, w, one, a[lane])?,
            };
            let number = r.field.stored(value).to_le_bytes();
            let to = &mut slot[field];
            let n = to.len();
            to.copy_from_slice(&number[..n]);
        }
        Ok(())
    }

    /// From shared to global memory, by a whole warp as one.
    pub fn publish_map<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        [to, from]: [&BulkPlace; 2],
        s: Site,
    ) -> Run<()> {
        let lane = s.mask.trailing_zeros() as usize;
        let one = Site {
            mask: 1 << lane,
            ..s
        };
        let source = addresses(&w.regs, from.address, from.offset);
        let target = addresses(&w.regs, to.address, to.offset);
        self.map_in_shared(b, w, one, source[lane])?;
        if CHECKS {
            self.check_shared_read(b, w, one, &source, BYTES, Strength::Weak);
            if let Some(origin) = b.undefined_in_shared(source[lane] as usize, MAP_BYTES, s.pc) {
                let at = At::lane(b, w, s.pc, lane as u32).address(source[lane]);
                self.depends(at, origin, "the tensor map that is published");
            }
        }
        let mut bytes = [0; MAP_BYTES];
        bytes.copy_from_slice(&b.shared[source[lane] as usize..][..MAP_BYTES]);
        self.map_in_global::<CHECKS>(b, w, one, target[lane])?
            .copy_from_slice(&bytes);
        let (i, at) = self.locate(b, w, one, (lane, target[lane]), BYTES, true)?;
        self.memory.at_mut(i).cover(at, MAP_BYTES);
        Ok(())
    }

    fn map_in_shared(&self, b: &BlockState, w: &Warp, s: Site, address: u64) -> Run<()> {
        self.at_map(b, w, s, address)?;
        let a = [address; LANES];
        self.in_window(b, w, s, &a, BYTES, b.shared.len(), AddressSpace::Shared)
    }

    /// Where a map may begin.
    pub fn at_map(&self, b: &BlockState, w: &Warp, s: Site, address: u64) -> Run<()> {
        if address.is_multiple_of(MAP_ALIGN) {
            return Ok(());
        }
        let what = format!("a tensor map at {address:#x}, which is no multiple of {MAP_ALIGN}");
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros()).address(address);
        self.fault(FaultKind::Misaligned, at, &what)
    }

    /// The bytes of a map that is about to be changed.
    fn map_in_global<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        address: u64,
    ) -> Run<&mut [u8]> {
        self.at_map(b, w, s, address)?;
        let lane = s.mask.trailing_zeros() as usize;
        let (i, at) = self.locate(b, w, s, (lane, address), BYTES, true)?;
        if CHECKS {
            self.watch_lane(b, w, s, (i, at, lane), BYTES, true, Scoped::WEAK);
            let before = self
                .map_changes
                .get(&address)
                .map_or(0, |change| change.number);
            let change = MapChange {
                number: before + 1,
                instruction: s.pc,
                thread: w.first_thread + lane as u32,
            };
            self.map_changes.insert(address, change);
        }
        self.progress += 1;
        Ok(&mut self.memory.at_mut(i).data[at..at + MAP_BYTES])
    }

    pub fn acquire_map(&self, b: &mut BlockState, w: &Warp, place: &BulkPlace, mask: u32) {
        let all = addresses(&w.regs, place.address, place.offset);
        for lane in lanes(mask) {
            if let Some(change) = self.map_changes.get(&all[lane]) {
                b.acquired_maps.insert(all[lane], change.number);
            }
        }
    }

    /// A copy reads the map at an address of global memory.
    pub fn check_map(&mut self, b: &BlockState, w: &Warp, s: Site, address: u64) {
        let Some(change) = self.map_changes.get(&address).copied() else {
            return;
        };
        if b.acquired_maps.get(&address) == Some(&change.number) {
            return;
        }
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros()).address(address);
        let other = Other::by(change.instruction, change.thread);
        self.find(FindingKind::GlobalRace, at, Some(other), |m| {
            format!(
                "no fence.proxy.tensormap::generic.acquire orders this {} and the change of its tensor map at {}",
                m.name_of(s.pc),
                m.place(change.instruction)
            )
        });
    }
}
