//! Finds reads and updates of bytes that nothing wrote, and undefined values that stores leave in memory.
//!
//! A read of such a byte is no fault. Its bits are followed through registers, and a finding says where something depends
//! on them (`exec::undefined`). An update depends on them at once: the memory that it leaves does. A byte that a copy is on
//! its way to is not held against a reader as well: `copies` tells of that.

use crate::exec::access::address::Site;
use crate::exec::access::{LaneAccess, Target};
use crate::exec::state::*;
use crate::isa::Direction;
use crate::memory::{Missing, Origin, Unwritten};
use crate::regs::lanes;
use crate::report::At;
use crate::switch::{Observer, is_off};
use model::{Dependent, MemoryPlace};

impl Machine<'_> {
    /// Returns true if no byte of an allocation lacks a value. The answer is false for shared and local memory.
    #[inline(always)]
    pub fn is_all_known(&self, target: Target) -> bool {
        matches!(target, Target::Global(i) if self.memory.at(i).content.is_all_known())
    }

    /// Returns the bytes without a value of a stretch that `pc` reads now. `of` is the block that has the memory.
    #[inline(always)]
    pub fn missing(
        &self,
        of: &BlockState,
        target: Target,
        (at, bytes): (usize, u32),
        pc: u32,
    ) -> Option<Missing> {
        let bytes = bytes as usize;
        let origin = |from| Origin {
            instruction: pc,
            from,
        };
        let missing = match target {
            Target::Global(i) => {
                let content = &self.memory.at(i).content;
                content.missing(at, bytes, |first| origin(Unwritten::Global(i, first)))
            }
            Target::Shared => of
                .shared
                .missing(at, bytes, |first| origin(Unwritten::Shared(first as u32)))
                .filter(|_| !of.under_way.writes(at, bytes)),
            Target::Local => of.local.missing(at, bytes, |first| {
                origin(Unwritten::Local(first as u32 % self.program.local_bytes))
            }),
        };
        missing.filter(|_| !is_off(Observer::Initialisation, pc))
    }

    /// Reports an update of bytes without a value. `of` is the block that has the memory, if it is another one.
    #[inline(always)]
    pub fn check_updated(
        &mut self,
        b: &BlockState,
        w: &Warp,
        of: Option<&BlockState>,
        target: Target,
        x: &LaneAccess,
    ) {
        if x.direction != Direction::Update {
            return;
        }
        for lane in lanes(x.site.mask) {
            let place = (x.at[lane] as usize, x.bytes);
            if let Some((_, origin)) = self.missing(of.unwrap_or(b), target, place, x.site.pc) {
                let mut at = At::lane(b, w, x.site.pc, lane as u32);
                if of.is_some() {
                    at = at.address(x.at[lane]);
                }
                self.depends(at, origin, Dependent::Result);
            }
        }
    }

    /// Notes that a lane leaves undefined bytes in memory. In global memory they matter if they are there at the end.
    pub fn leave_undefined(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        (target, at, lane): (Target, usize, usize),
        (missing, origin): Missing,
    ) {
        match target {
            Target::Shared => b.shared.leave(at, (missing, origin)),
            Target::Local => b.local.leave(at, (missing, origin)),
            Target::Global(i) => {
                self.memory.at_mut(i).content.leave(at, (missing, origin));
                let first = at + missing.trailing_zeros() as usize;
                self.note_left((i, first), At::lane(b, w, s.pc, lane as u32), origin);
            }
        }
    }

    /// Reports undefined values that nothing has overwritten by the end of a launch.
    pub fn tell_what_is_left(&mut self) {
        for (i, at, by, origin) in self.traces.take_left() {
            let allocation = self.memory.at(i);
            if !allocation.content.holds(at, 1) {
                let address = allocation.base + at as u64;
                let name = allocation.name.clone();
                let byte = at as u64;
                let stored = Dependent::Stored(MemoryPlace::Buffer { name, byte });
                self.depends(by.address(address), origin, stored);
            }
        }
    }
}
