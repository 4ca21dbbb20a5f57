//! Order and races in global memory, as accesses happen; order through flags in shared memory.

use super::address::{Addresses, Site};
use super::cluster::fence_in_cluster;
use super::mem::collect;
use super::observe::Between;
use super::state::*;
use super::stream::Streams;
use crate::check::global::{Accessor, Conflict, Scoped};
use crate::check::order::{Inter, Sparse};
use crate::check::page::MANY;
use crate::check::race::{Strength, WARPS};
use crate::isa::{Access, Fence, Order, Scope};
use crate::regs::{LANES, lanes};
use crate::report::{At, FindingKind};
use crate::switch::{Observer, is_off};

/// The strength of a load or a store. A guess goes with atomics as if it were one.
pub fn strength(access: &Access) -> Strength {
    match access.order {
        Order::Weak if !access.guess => Strength::Weak,
        Order::Strong { volatile: true, .. } => Strength::Volatile,
        Order::Weak | Order::Strong { .. } => Strength::Strong,
    }
}

/// The effect of a strong access on the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Read,
    Write,
    Exchange,
}

impl Machine<'_> {
    /// The order that lanes hand on and take over at places that they access strongly; none for weak
    /// accesses. Within a block a flag orders without a fence: the block's warps share a cache.
    pub fn meet(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        a: &Addresses,
        s: Site,
        shared: bool,
        order: Order,
        does: Does,
    ) {
        let Order::Strong {
            release,
            acquire,
            scope,
            ..
        } = order
        else {
            return;
        };
        let (reads, writes) = (does != Does::Write, does != Does::Read);
        if self.cluster.is_at_work() {
            let rank = shared.then_some(b.rank);
            self.meet_in_cluster(b, w, (rank, a), s, order, does);
        }
        self.crossed |= !shared;
        let Some(clocks) = &mut b.shadow else { return };
        if writes && release {
            w.fenced = clocks.epoch(w.index);
        }
        let mut last = None;
        for l in lanes(s.mask) {
            if last.replace(a[l]) == Some(a[l]) {
                // Lanes that met here hand on to one another what was fenced.
                clocks.lanes_know(w.index, if writes { w.fenced } else { 0 });
                continue;
            }
            let key = a[l] << 1 | u64::from(shared);
            if !writes && !b.atomics.contains_key(&key) && (shared || self.handed.is_empty()) {
                continue;
            }
            let (clock, inter) = b
                .atomics
                .entry(key)
                .or_insert_with(|| ([0; WARPS], Inter::default()));
            let own = clock[w.index as usize % WARPS];
            clocks.acquire(w.index, clock, false);
            clocks.lanes_know(w.index, own.min(w.fenced));
            w.inter.join(inter);
            if writes {
                clocks.release(w.index, clock);
                inter.join(&w.inter);
            }
            if shared || scope != Scope::Device {
                continue;
            }
            if let (true, Some(handed)) = (reads, self.handed.get(&a[l])) {
                w.inter.see(handed, acquire, s.pc);
            }
            if writes && release {
                let all = of_block(b.number, b.warps.len(), clocks.knowledge(w.index));
                let handed = w.inter.handed_by_release(&all);
                self.handed.entry(a[l]).or_default().join(&handed);
            }
            if writes && !w.inter.ready.is_empty() {
                self.handed.entry(a[l]).or_default().join(&w.inter.ready);
            }
        }
    }

    /// Work that the warp has done so far may be handed on from here.
    pub fn fence(&mut self, b: &mut BlockState, w: &mut Warp, fence: Fence) {
        if self.cluster.is_at_work() && fence.scope != Scope::Block {
            fence_in_cluster(b, w, fence);
        }
        let Some(clocks) = &mut b.shadow else { return };
        w.fenced = clocks.epoch(w.index);
        if fence.scope == Scope::Device {
            let all = of_block(b.number, b.warps.len(), clocks.knowledge(w.index));
            w.inter.fence(fence, &all);
        }
        clocks.tick(w.index);
    }

    /// One lane's access at `at` of allocation `i`.
    pub fn watch_lane(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (i, at, lane): (usize, usize, usize),
        bytes: u32,
        write: bool,
        scoped: Scoped,
    ) {
        let lane = (lane as u32, at);
        let found = self.conflicts(
            b,
            w,
            s,
            i,
            std::iter::once(lane),
            bytes,
            scoped,
            write.then_some(0),
        );
        for c in found {
            self.global_race(b, w, s, (i, at), write, c);
        }
    }

    /// Weak reads by the lanes of `s`, at offsets of allocation `i`.
    pub fn watch_reads(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (i, at): (usize, &Addresses),
        bytes: u32,
    ) {
        let places = lanes(s.mask).map(|l| (l as u32, at[l] as usize));
        for c in self.conflicts(b, w, s, i, places, bytes, Scoped::WEAK, None) {
            let from = at[c.lane as usize] as usize;
            self.global_race(b, w, s, (i, from), false, c);
        }
    }

    /// A load or store by the lanes of `s`, at offsets of allocation `i`. Before it happens.
    pub fn watch(
        &mut self,
        b: &BlockState,
        w: &Warp,
        access: &Access,
        s: Site,
        (i, at): (usize, &Addresses),
        bytes: u32,
        write: bool,
    ) {
        let scoped = Scoped::of(strength(access), access.order);
        let found = if write {
            let values = std::array::from_fn(|l| collect(&w.regs, access, l));
            let groups = together(at, s.mask, bytes as usize, &values);
            let places = groups.iter().map(|&(first, lanes)| {
                let many = if lanes.is_power_of_two() { 0 } else { MANY };
                (first as u32 | many, at[first] as usize)
            });
            let many = groups
                .iter()
                .filter(|(_, lanes)| !lanes.is_power_of_two())
                .fold(0, |all, (_, lanes)| all | lanes);
            self.conflicts(b, w, s, i, places, bytes, scoped, Some(many))
        } else {
            let places = lanes(s.mask).map(|l| (l as u32, at[l] as usize));
            self.conflicts(b, w, s, i, places, bytes, scoped, None)
        };
        for c in found {
            let from = at[c.lane as usize] as usize;
            if write && c.was_write {
                // Whoever comes last, the value is the same: `*found = true`.
                let n = bytes as usize;
                let value = &collect(&w.regs, access, c.lane as usize)[..n];
                let now = c.instruction == s.pc && c.block == b.number && c.warp == w.index;
                let together = c.other_lane.filter(|l| now && s.mask >> l & 1 == 1);
                let same = match together {
                    Some(other) => value == &collect(&w.regs, access, other as usize)[..n],
                    None => value == &self.memory.at(i).data[from..from + n],
                };
                if same {
                    continue;
                }
            }
            self.global_race(b, w, s, (i, from), write, c);
        }
    }

    fn conflicts(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        i: usize,
        places: impl Iterator<Item = (u32, usize)>,
        bytes: u32,
        scoped: Scoped,
        // Lanes that write what another one writes; none: it is a read.
        together: Option<u32>,
    ) -> Vec<Conflict> {
        let (write, together) = (together.is_some(), together.unwrap_or_default());
        let mut found = Vec::new();
        if is_off(Observer::GlobalRaces, s.pc) {
            return found;
        }
        let allocation = self.memory.at(i);
        if let (Some(global), Some(clocks), false) =
            (&mut self.global, &b.shadow, allocation.read_only)
        {
            let streams = w.streams(&self.ways, s.pc);
            let grave = |c: &Conflict| between(&streams, b, w, s, c).is_grave();
            let me = Accessor {
                block: b.number,
                warp: w.index,
                instruction: s.pc,
                scoped,
                clocks,
                inter: &w.inter,
                warps: b.warps.len() as u32,
                together,
                grave: &grave,
            };
            let size = allocation.data.len();
            global.access(&me, i, size, places, bytes, write, Some(&mut found));
        }
        found
    }

    /// `c`: of an access at `at` of allocation `i`.
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
        let within = kind != FindingKind::GlobalRace;
        let address = self.memory.at(i).base + at as u64;
        let here = At::lane(b, w, s.pc, c.lane).address(address);
        let other = Other {
            instruction: c.instruction,
            thread: c.other_lane.map(|lane| c.warp * 32 + lane),
            block: Some(self.grid.place(c.block)),
        };
        self.find(kind, here, Some(other), |m| {
            let name = |w: bool| if w { "write" } else { "read" };
            let (this, was) = (name(write), name(c.was_write));
            let block = m.grid.place(c.block);
            let warp = if within { " of the same warp" } else { "" };
            let by = match c.other_lane {
                Some(lane) => format!("thread {:?}{warp}", m.thread(c.warp * 32 + lane)),
                None => format!("another thread{warp}"),
            };
            let buffer = &m.memory.at(i).name;
            let place = m.place(c.instruction);
            if within {
                return format!(
                    "{} on `{buffer}` at byte {at}: {} orders this {this} and the {was} at {place} by {by}",
                    between.title(),
                    between.nothing(),
                );
            }
            let fence = match c.unfenced {
                Some(flag) => format!(
                    "; the read of the flag at {} is neither an acquire nor followed by a fence",
                    m.place(flag)
                ),
                None => String::new(),
            };
            format!(
                "race on `{buffer}` at byte {at}: this {this} and the {was} at {place} by block {block:?}, {by} \
                 are not ordered{fence}"
            )
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

/// Lanes that write one value to one place, each such group with its first lane's.
pub fn together<const N: usize>(
    a: &Addresses,
    mask: u32,
    bytes: usize,
    values: &[[u8; N]; LANES],
) -> Vec<(usize, u32)> {
    let mut groups: Vec<(usize, u32)> = Vec::with_capacity(LANES);
    let value = |l: usize| values[l].get(..bytes);
    for l in lanes(mask) {
        let same = |(first, _): &&mut (usize, u32)| {
            a[*first] == a[l] && value(l).is_some() && value(*first) == value(l)
        };
        match groups.iter_mut().find(same) {
            Some((_, all)) => *all |= 1 << l,
            None => groups.push((l, 1 << l)),
        }
    }
    groups
}

/// All that a warp knows of its block.
pub fn of_block(block: u32, warps: usize, knows: &[u32; WARPS]) -> Sparse {
    let first = u64::from(block) * warps as u64;
    Sparse::of(
        knows
            .iter()
            .take(warps)
            .enumerate()
            .filter(|(_, epoch)| **epoch != 0)
            .map(|(i, epoch)| (first + i as u64, *epoch))
            .collect(),
    )
}
