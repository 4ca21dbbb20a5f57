//! Races in global memory: within a block, and between blocks.
//!
//! A race is two accesses to a byte of which one writes, that causality order does not order, and that are not morally
//! strong (`check::global` has what is kept of a place, `check::order` what orders blocks, and both what may be missed).
//! Two weak writes of the same value are not reported, in whatever order: programs set flags so.

use crate::check::global::{Accessor, Conflict, GlobalShadow, Scoped};
use crate::check::order::Inter;
use crate::check::page::MANY;
use crate::check::race::Shadow;
use crate::exec::access::LaneAccess;
use crate::exec::access::address::Site;
use crate::exec::access::pattern::Pattern;
use crate::exec::observe::shared_races::Between;
use crate::exec::state::*;
use crate::exec::stream::Streams;
use crate::memory::Allocation;
use crate::regs::{LANES, lanes};
use crate::report::{At, FindingKind};
use crate::switch::{Observer, is_off};
use model::MemoryPlace;

/// Notes a weak access in the arrangement `p`, which begins at an offset of allocation `i`. Returns false if it may race:
/// then the full check has to look at its lanes.
#[inline(always)]
pub fn are_ordered<const WRITE: bool>(
    global: &mut Option<GlobalShadow>,
    b: &BlockState,
    w: &Warp,
    p: &Pattern,
    (i, allocation): (usize, &Allocation),
    (from, bytes): (usize, u32),
    pc: u32,
) -> bool {
    let (Some(global), Some(clocks), false) = (global, &b.shadow, allocation.read_only) else {
        return true;
    };
    // Two lanes that write one place race with one another.
    if WRITE && p.shared {
        return false;
    }
    // Each conflict counts: the access has to come again, lane by lane.
    let me = accessor(b, clocks, w.index, &w.inter, pc);
    let places = p
        .units
        .iter()
        .map(|u| (first_of(u.lanes), from + u.at as usize));
    global.access(&me, i, allocation.len(), places, bytes, WRITE, None)
}

/// Returns a weak access by a warp of a block, with the knowledge that it has of other warps.
#[inline(always)]
pub fn accessor<'a>(
    b: &BlockState,
    clocks: &'a Shadow,
    warp: u32,
    inter: &'a Inter,
    instruction: u32,
) -> Accessor<'a> {
    Accessor {
        block: b.number,
        warp,
        instruction,
        scoped: Scoped::WEAK,
        clocks,
        inter,
        warps: b.warps.len() as u32,
        together: 0,
        grave: &|_| true,
    }
}

/// Returns the first of the lanes at one place, marked if it represents several.
#[inline(always)]
fn first_of(lanes: u32) -> u32 {
    let first = lanes.trailing_zeros();
    if lanes.is_power_of_two() {
        first
    } else {
        first | MANY
    }
}

impl Machine<'_> {
    /// Looks for races of an access within allocation `i`, before it happens.
    pub fn check_global_races(&mut self, b: &BlockState, w: &Warp, i: usize, x: &LaneAccess) {
        let s = x.site;
        let allocation = self.memory.at(i);
        if is_off(Observer::GlobalRaces, s.pc) || allocation.read_only {
            return;
        }
        let (Some(global), Some(clocks)) = (&mut self.global, &b.shadow) else {
            return;
        };
        let streams = w.streams(&self.ways, s.pc);
        let grave = |c: &Conflict| between(&streams, b, w, s, c).is_grave();
        let groups = grouped(x);
        let me = Accessor {
            scoped: x.scoped,
            together: groups.together(),
            grave: &grave,
            ..accessor(b, clocks, w.index, &w.inter, s.pc)
        };
        let (size, mut found) = (allocation.len(), Vec::new());
        let places = groups
            .iter()
            .map(|(first, lanes)| (first_of(lanes), x.at[first] as usize));
        global.access(&me, i, size, places, x.bytes, x.writes(), Some(&mut found));
        for c in found {
            let l = c.lane as usize;
            if let (Some(values), true) = (x.values, c.was_write) {
                // Whoever comes last, the value is the same: `*found = true`.
                let n = x.bytes as usize;
                let now = c.instruction == s.pc && c.block == b.number && c.warp == w.index;
                let together = c.other_lane.filter(|l| now && s.mask >> l & 1 == 1);
                let same = match together {
                    Some(other) => values[l][..n] == values[other as usize][..n],
                    None => x.is_held(l, &self.memory.at(i).content),
                };
                if same {
                    continue;
                }
            }
            self.global_race(b, w, s, (i, x.at[l] as usize), x.writes(), c);
        }
    }

    /// Reports the conflict `c` of an access at the offset `at` of allocation `i`.
    #[cold]
    fn global_race(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (i, at): (usize, usize),
        write: bool,
        c: Conflict,
    ) {
        let between = between(&w.streams(&self.ways, s.pc), b, w, s, &c);
        let kind = between.kind().unwrap_or(FindingKind::GlobalRace);
        let address = self.memory.at(i).base + at as u64;
        let here = At::lane(b, w, s.pc, c.lane).address(address);
        let other = Other {
            instruction: c.instruction,
            thread: c.other_lane.map(|lane| c.warp * 32 + lane),
            block: Some(self.job.grid.place(c.block)),
        };
        self.find(kind, here, Some(other), |m| {
            let memory = MemoryPlace::Buffer {
                name: m.memory.at(i).name.clone(),
                byte: at as u64,
            };
            let unfenced = c.unfenced.map(|flag| m.where_from(flag));
            between.race(memory, [write, c.was_write], other.block, unfenced)
        });
    }
}

fn between(streams: &Streams, b: &BlockState, w: &Warp, s: Site, c: &Conflict) -> Between {
    let at_once = c.instruction == s.pc && c.other_lane.is_some_and(|l| s.mask >> l & 1 == 1);
    if c.block != b.number || c.warp != w.index || at_once {
        return Between::Unordered;
    }
    let lanes = c.other_lane.filter(|_| !c.many).map(|lane| 1 << lane);
    Between::within(streams, c.instruction, lanes, c.epoch)
}

/// Groups of lanes that access as one, each with its first lane.
pub struct Groups {
    all: [(usize, u32); LANES],
    count: usize,
}

impl Groups {
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        self.all[..self.count].iter().copied()
    }

    /// Returns the lanes that are not alone.
    fn together(&self) -> u32 {
        self.iter()
            .filter(|(_, lanes)| !lanes.is_power_of_two())
            .fold(0, |all, (_, lanes)| all | lanes)
    }
}

/// Groups lanes that write one value to one place. Where values are unknown, each lane is alone.
pub fn grouped(x: &LaneAccess) -> Groups {
    let mut groups = Groups {
        all: [(0, 0); LANES],
        count: 0,
    };
    let n = x.bytes as usize;
    for l in lanes(x.site.mask) {
        let earlier = &mut groups.all[..groups.count];
        let same = x.values.and_then(|values| {
            earlier.iter_mut().find(|(first, _)| {
                x.at[*first] == x.at[l] && values[l].get(..n) == values[*first].get(..n)
            })
        });
        match same {
            Some((_, all)) => *all |= 1 << l,
            None => {
                groups.all[groups.count] = (l, 1 << l);
                groups.count += 1;
            }
        }
    }
    groups
}
