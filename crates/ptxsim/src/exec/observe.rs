//! Checks of accesses to shared memory: copies under way, bytes without a value, races.

use super::address::{Addresses, Site};
use super::state::{BlockState, Machine, Other, Warp};
use super::stream::{Earlier, Streams};
use super::undefined::{Origin, Unwritten};
use super::visits::Remote;
use super::watch::together;
use crate::branches::Apart;
use crate::check::global::Scoped;
use crate::check::race::{Past, Strength, Who};
use crate::isa::Op;
use crate::regs::{LANES, lanes};
use crate::report::{At, FindingKind};
use crate::switch::{Observer, is_off};

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
            self.sources_under_way(b, w, s, a, bytes);
            // It matters at once: the memory that it leaves depends on it.
            for l in lanes(s.mask) {
                let missing = b.undefined_in_shared(a[l] as usize, bytes as usize, s.pc);
                if let Some(origin) = missing {
                    let at = At::lane(b, w, s.pc, l as u32);
                    self.depends(at, origin, "the result of this");
                }
            }
            return self.race_on_shared::<0>(b, w, s, a, bytes, strength, &[[]; LANES]);
        }
        if is_off(Observer::SharedRaces, s.pc) {
            return;
        }
        if self.cluster.shadow.is_some() {
            let scoped = of_strength(strength);
            self.watch_shared(b, w, b, (s, a, bytes), scoped, Remote::Read);
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
            let streams = w.streams(&self.ways, s.pc);
            let grave = |past: &Past| Between::of(&streams, w, past).is_grave();
            if let Some(past) = shadow.read(a[l] as u32, bytes, who, strength, grave) {
                let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
                self.race(at, Between::of(&streams, w, &past), false, past);
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
        self.sources_under_way(b, w, s, a, bytes);
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
        self.copies_under_way(b, w, s, a, bytes, |m, at, copy| {
            let copy = m.copy_at(copy);
            format!("shared memory {at:#x} is {how} while {copy} is still in flight")
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
        if is_off(Observer::SharedRaces, s.pc) {
            return;
        }
        if self.cluster.shadow.is_some() {
            let scoped = of_strength(strength);
            self.watch_shared(b, w, b, (s, a, bytes), scoped, Remote::Write(None));
        }
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
            let streams = w.streams(&self.ways, s.pc);
            let between = |past: &Past| Between::of(&streams, w, past);
            let grave = |past: &Past| between(past).is_grave();
            let Some(past) = shadow.write(a[l] as u32, bytes, who, strength, all, grave) else {
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
            if at_once && past.is_volatile {
                continue;
            }
            let between = if at_once {
                Between::Unordered
            } else {
                between(&past)
            };
            let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
            self.race(at, between, true, past);
        }
        b.shadow = Some(shadow);
    }

    #[cold]
    fn race(&mut self, at: At, between: Between, write: bool, past: Past) {
        let name = |w: bool| if w { "write" } else { "read" };
        let kind = between.kind().unwrap_or(FindingKind::SharedRace);
        let thread = u32::from(past.warp) * 32 + u32::from(past.lane);
        self.find(kind, at, Some(Other::by(past.instruction, thread)), |m| {
            let other = m.thread(thread);
            let place = m.place(past.instruction);
            let address = at.address.unwrap_or(0);
            let (this, was) = (name(write), name(past.was_write));
            match kind {
                FindingKind::SharedRace => format!(
                    "race on shared memory {address:#x}: this {this} and the {was} at {place} by thread \
                     {other:?} are not ordered"
                ),
                _ => format!(
                    "{} on shared memory {address:#x}: {} orders this {this} and the {was} at {place} by \
                     thread {other:?} of the same warp",
                    between.title(),
                    between.nothing(),
                ),
            }
        });
    }
}

/// To others of the cluster: whatever an access of its own block says of scopes, it is one that takes them in.
fn of_strength(strength: Strength) -> Scoped {
    Scoped {
        strength,
        ..Scoped::WEAK
    }
}

/// How two accesses without order stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// By different warps, or by one instruction at once: no `__syncwarp()` would order them.
    Unordered,
    /// By lanes of one warp, in different streams.
    Apart(Apart),
    /// By lanes of one warp, in one stream.
    Together,
}

impl Between {
    fn of(streams: &Streams, w: &Warp, past: &Past) -> Between {
        if u32::from(past.warp) != w.index {
            return Between::Unordered;
        }
        // They do not race, whatever becomes of the lanes.
        if past.is_volatile {
            return Between::Together;
        }
        // Where several instructions made the access, one of them may have been in a branch.
        if past.several {
            Between::Apart(Apart::Branches)
        } else {
            Between::within(streams, past.instruction, Some(past.lanes), past.epoch)
        }
    }

    /// The relation between accesses by lanes of one warp.
    pub fn within(streams: &Streams, instruction: u32, lanes: Option<u32>, epoch: u32) -> Between {
        let earlier = Earlier {
            instruction,
            lanes,
            epoch,
        };
        streams
            .apart(earlier)
            .map_or(Between::Together, Between::Apart)
    }

    pub fn is_grave(self) -> bool {
        self != Between::Together
    }

    /// `None`: a race between warps or of one instruction.
    pub fn kind(self) -> Option<FindingKind> {
        match self {
            Between::Unordered => None,
            Between::Apart(_) => Some(FindingKind::WarpRace),
            Between::Together => Some(FindingKind::WarpHazard),
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Between::Unordered => "race",
            Between::Apart(_) => "race within a warp",
            Between::Together => "hazard within a warp",
        }
    }

    /// Says what is missing, as the subject of "orders this access".
    pub fn nothing(self) -> &'static str {
        match self {
            Between::Unordered => "nothing",
            Between::Together => "no __syncwarp()",
            Between::Apart(Apart::Branches) => {
                "its lanes can be in different branches, and no __syncwarp()"
            }
            Between::Apart(Apart::Iterations) => {
                "its lanes can be in different iterations, and no __syncwarp()"
            }
            Between::Apart(Apart::Decides) => "what is read decides a branch, and no __syncwarp()",
        }
    }
}

impl BlockState {
    /// Where what is undefined in a stretch of shared memory came from, if anything is and no copy is on
    /// its way there; `pc` reads it now.
    pub fn undefined_in_shared(&self, at: usize, bytes: usize, pc: u32) -> Option<Origin> {
        let missing = self.shared_known.missing(at, bytes)?;
        if self.in_flight.to(at, bytes).is_some() || is_off(Observer::Initialisation, pc) {
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
