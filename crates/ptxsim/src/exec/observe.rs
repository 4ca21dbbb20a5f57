//! Checks of accesses to shared memory: copies under way, bytes without a value, races.

use super::address::{Addresses, Site, lanes};
use super::regs::LANES;
use super::state::{At, BlockState, Machine, Warp};
use super::undefined::{Origin, Unwritten};
use super::watch::together;
use crate::check::race::{Past, Strength, Who};
use crate::program::Op;
use crate::report::FindingKind;

impl Machine<'_> {
    /// Checks of a read of shared memory that lies within it, or of an atomic.
    pub fn check_shared_read(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        strength: Strength,
    ) {
        self.in_flight_access(b, w, s, a, bytes, "read");
        if strength == Strength::Atomic {
            // It matters at once: what it leaves there hangs on it.
            for l in lanes(s.mask) {
                let missing = b.undefined_in_shared(a[l] as usize, bytes as usize, s.pc);
                if let Some(origin) = missing {
                    let at = At::lane(b, w, s.pc, l as u32);
                    self.depends(at, origin, "the result of this");
                }
            }
            return self.race_on_shared::<0>(b, w, s, a, bytes, strength, &[[]; LANES]);
        }
        let Some(mut shadow) = b.shadow.take() else {
            return;
        };
        for l in lanes(s.mask) {
            let who = Who {
                warp: w.index,
                lane: l as u32,
                instruction: s.pc,
            };
            if let Some(past) = shadow.read(a[l] as u32, bytes, who, strength) {
                let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
                self.race(at, u32::from(past.warp) == w.index, false, past);
            }
        }
        b.shadow = Some(shadow);
    }

    /// Checks of a write of shared memory that lies within it; `values` of each lane.
    pub fn check_shared_write<const N: usize>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        strength: Strength,
        values: &[[u8; N]; LANES],
    ) {
        self.in_flight_access(b, w, s, a, bytes, "written");
        self.race_on_shared(b, w, s, a, bytes, strength, values);
    }

    fn in_flight_access(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        how: &str,
    ) {
        self.copies_under_way(b, w, s, a, bytes, |at, copy| {
            format!("shared memory {at:#x} is {how} while cp.async from {copy} is still in flight")
        });
    }

    /// Writes of shared memory, before they happen. Lanes that write one value to one place do not
    /// race with one another, and neither does who writes what the same instruction wrote there before:
    /// `if (bad) flag = 1;`. Values of no bytes are all different.
    pub fn race_on_shared<const N: usize>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        strength: Strength,
        values: &[[u8; N]; LANES],
    ) {
        let Some(mut shadow) = b.shadow.take() else {
            return;
        };
        let n = bytes as usize;
        let inst = self.program.code.get(s.pc as usize);
        let stores = inst.is_some_and(|i| matches!(i.op, Op::Store(_)));
        for (l, all) in together(a, s.mask, n, values) {
            let value = values[l].get(..n);
            let who = Who {
                warp: w.index,
                lane: l as u32,
                instruction: s.pc,
            };
            let Some(past) = shadow.write(a[l] as u32, bytes, who, strength, all) else {
                continue;
            };
            let within = u32::from(past.warp) == w.index;
            let again = past.was_write && past.instruction == s.pc;
            // Another lane of this very access: memory does not have its value yet, and no
            // `__syncwarp()` could come between.
            let other = usize::from(past.lane);
            let at_once = again && within && s.mask >> other & 1 == 1 && a[other] == a[l];
            let held = b.shared.get(a[l] as usize..).and_then(|from| from.get(..n));
            if stores && again && !at_once && value.is_some() && held == value {
                continue;
            }
            let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
            self.race(at, within && !at_once, true, past);
        }
        b.shadow = Some(shadow);
    }

    /// `hazard`: a `__syncwarp()` would order it.
    #[cold]
    fn race(&mut self, at: At, hazard: bool, write: bool, past: Past) {
        let name = |w: bool| if w { "write" } else { "read" };
        let kind = match hazard {
            true => FindingKind::WarpHazard,
            false => FindingKind::SharedRace,
        };
        self.find(kind, at, Some(past.instruction), |m| {
            let other = m.thread(u32::from(past.warp) * 32 + u32::from(past.lane));
            let place = m.place(past.instruction);
            let address = at.address.unwrap_or(0);
            let (this, was) = (name(write), name(past.was_write));
            match hazard {
                true => format!(
                    "hazard within a warp on shared memory {address:#x}: no __syncwarp() orders this {this} \
                     and the {was} at {place} by thread {other:?} of the same warp"
                ),
                false => format!(
                    "race on shared memory {address:#x}: this {this} and the {was} at {place} by thread \
                     {other:?} are not ordered"
                ),
            }
        });
    }
}

impl BlockState {
    /// Where what is undefined in a stretch of shared memory came from, if anything is and no copy is on
    /// its way there; `pc` reads it now.
    pub fn undefined_in_shared(&self, at: usize, bytes: usize, pc: u32) -> Option<Origin> {
        let missing = self.shared_known.missing(at, bytes)?;
        if self.in_flight.to(at, bytes).is_some() {
            return None;
        }
        let unwritten = Origin {
            instruction: pc,
            from: Unwritten::Shared(missing as u32),
        };
        Some(
            self.shared_origins
                .get(&missing)
                .copied()
                .unwrap_or(unwritten),
        )
    }

    /// Some bytes of what was stored are undefined.
    pub fn leave_undefined_in_shared(&mut self, at: usize, (bytes, origin): (u32, Origin)) {
        for n in (0..32).filter(|n| bytes >> n & 1 == 1) {
            self.shared_known.put(at + n, false);
            self.shared_origins.insert(at + n, origin);
        }
    }
}
