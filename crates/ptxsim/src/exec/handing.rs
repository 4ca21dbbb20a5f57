//! Moves the order that warps hand on: by places that they access strongly (flags), and by fences. `check::race` and
//! `check::order` have the clocks.

use super::access::LaneAccess;
use super::cluster::fence_in_cluster;
use super::state::*;
use crate::check::order::{Handed, Inter, Sparse};
use crate::check::race::WARPS;
use crate::isa::{Direction, Fence, Order, Scope};
use crate::regs::lanes;
use std::collections::HashMap;

/// The order that blocks hand on to one another by strong accesses to global memory.
#[derive(Default)]
pub struct Flags {
    /// By the address of the flag.
    handed: HashMap<u64, Handed>,
    crossed: bool,
}

impl Flags {
    /// Returns true if a block did what others may see at once: then the order of the blocks matters.
    pub fn have_crossed(&self) -> bool {
        self.crossed
    }
}

impl Machine<'_> {
    /// Lets lanes hand on and take over order at the places that they access strongly. These lie in the shared memory
    /// of the block with `rank`, or in global memory if there is none. Weak accesses hand on nothing. Within a block a
    /// flag orders without a fence, because the block's warps share a cache.
    pub fn meet(&mut self, b: &mut BlockState, w: &mut Warp, rank: Option<u32>, x: &LaneAccess) {
        let Order::Strong {
            release,
            acquire,
            scope,
            ..
        } = x.order
        else {
            return;
        };
        let (s, a) = (x.site, x.at);
        let (reads, writes) = (x.direction != Direction::Write, x.writes());
        if self.cluster.is_at_work() {
            self.meet_in_cluster(b, w, rank, x);
        }
        if rank.is_some_and(|rank| rank != b.rank) {
            return;
        }
        let shared = rank.is_some();
        self.flags.crossed |= !shared;
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
            if !writes && !b.atomics.contains_key(&key) && (shared || self.flags.handed.is_empty())
            {
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
            if let (true, Some(handed)) = (reads, self.flags.handed.get(&a[l])) {
                w.inter.see(handed, acquire, s.pc);
            }
            if writes && release {
                let all = knowledge_of_block(b.number, b.warps.len(), clocks.knowledge(w.index));
                let handed = w.inter.handed_by_release(&all);
                self.flags.handed.entry(a[l]).or_default().join(&handed);
            }
            if writes && !w.inter.ready.is_empty() {
                self.flags
                    .handed
                    .entry(a[l])
                    .or_default()
                    .join(&w.inter.ready);
            }
        }
    }

    /// Notes a fence: from here on, the warp may hand on the work that it has done so far.
    pub fn fence(&mut self, b: &mut BlockState, w: &mut Warp, fence: Fence) {
        if self.cluster.is_at_work() && fence.scope != Scope::Block {
            fence_in_cluster(b, w, fence);
        }
        let Some(clocks) = &mut b.shadow else { return };
        w.fenced = clocks.epoch(w.index);
        if fence.scope == Scope::Device {
            let all = knowledge_of_block(b.number, b.warps.len(), clocks.knowledge(w.index));
            w.inter.fence(fence, &all);
        }
        clocks.tick(w.index);
    }
}

/// Returns what a warp knows of the other warps of its block.
pub fn knowledge_of_block(block: u32, warps: usize, knows: &[u32; WARPS]) -> Sparse {
    let first = u64::from(block) * warps as u64;
    Sparse::new(
        knows
            .iter()
            .take(warps)
            .enumerate()
            .filter(|(_, epoch)| **epoch != 0)
            .map(|(i, epoch)| (first + i as u64, *epoch))
            .collect(),
    )
}
