//! The groups of products that the warps of a warpgroup have under way together. `wgmma.commit_group` makes one for the
//! whole warpgroup (PTX ISA, "wgmma.commit_group"), so a warp that has waited for it knows that the other three have multiplied, too:
//! in CUTLASS one thread of 128 then releases the stage.

use super::bulk::BulkRead;
use super::state::BlockState;
use crate::check::race::{Clock, WARPS};
use std::collections::VecDeque;

const WARPS_OF_GROUP: usize = 4;

/// A warp that has ended, or never was, keeps nobody waiting.
const GONE: u64 = u64::MAX;

pub struct Warpgroup {
    /// Groups that each warp has committed, and those that it has waited for.
    committed: [u64; WARPS_OF_GROUP],
    awaited: [u64; WARPS_OF_GROUP],
    /// The number of the first of `groups`. Whoever is at work has waited for those before it.
    first: u64,
    groups: VecDeque<Group>,
}

struct Group {
    /// Shared memory that is read until the first warp has waited.
    reads: Vec<BulkRead>,
    clock: Clock,
}

impl Warpgroup {
    /// With so many warps.
    pub fn new(warps: usize) -> Self {
        let counts = std::array::from_fn(|warp| if warp < warps { 0 } else { GONE });
        Self {
            committed: counts,
            awaited: counts,
            first: 0,
            groups: VecDeque::new(),
        }
    }

    fn group(&mut self, number: u64) -> Option<&mut Group> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        while self.groups.len() <= at {
            self.groups.push_back(Group {
                reads: Vec::new(),
                clock: [0; WARPS],
            });
        }
        self.groups.get_mut(at)
    }

    /// Returns true if every warp of the group has committed at least `count` groups.
    pub fn has_committed(&self, count: u64) -> bool {
        self.committed.iter().all(|committed| *committed >= count)
    }

    /// Groups that nobody will wait for any more: what they still read.
    fn forget(&mut self) -> Vec<BulkRead> {
        let awaited = self.awaited.iter().copied().min().unwrap_or(GONE);
        let mut left = Vec::new();
        while self.first < awaited
            && let Some(group) = self.groups.pop_front()
        {
            self.first += 1;
            left.extend(group.reads);
        }
        left
    }
}

/// A warp commits a group that reads this.
pub fn commit(b: &mut BlockState, warp: u32, reads: Vec<BulkRead>) {
    let (group, of_group) = place(warp);
    let Some(warpgroup) = b.warpgroups.get_mut(group) else {
        return;
    };
    let number = warpgroup.committed[of_group];
    warpgroup.committed[of_group] += 1;
    let Some(group) = warpgroup.group(number) else {
        return;
    };
    group.reads.extend(reads);
    if let Some(shadow) = &mut b.shadow {
        shadow.release(warp, &mut group.clock);
    }
}

/// How many groups all warps have to have committed, for this one to have waited for its next.
pub fn next(b: &BlockState, warp: u32) -> u64 {
    let (group, of_group) = place(warp);
    let warpgroup = b.warpgroups.get(group);
    warpgroup.map_or(0, |warpgroup| warpgroup.awaited[of_group].saturating_add(1))
}

pub fn has_committed(b: &BlockState, warp: u32, count: u64) -> bool {
    let warpgroup = b.warpgroups.get(place(warp).0);
    warpgroup.is_none_or(|warpgroup| warpgroup.has_committed(count))
}

/// A warp has waited for its next group, which all have committed.
pub fn end_wait(b: &mut BlockState, warp: u32) {
    let (group, of_group) = place(warp);
    let Some(warpgroup) = b.warpgroups.get_mut(group) else {
        return;
    };
    let number = warpgroup.awaited[of_group];
    warpgroup.awaited[of_group] += 1;
    let reads = match warpgroup.group(number) {
        Some(group) => std::mem::take(&mut group.reads),
        None => Vec::new(),
    };
    for read in reads {
        read.end(b, warp);
    }
    let Some(warpgroup) = b.warpgroups.get_mut(group) else {
        return;
    };
    if let (Some(shadow), Some(group)) = (&mut b.shadow, warpgroup.group(number)) {
        shadow.release(warp, &mut group.clock);
        shadow.acquire(warp, &group.clock, true);
    }
    for read in warpgroup.forget() {
        read.end(b, warp);
    }
}

/// A warp ends, and commits and waits for nothing more.
pub fn leave(b: &mut BlockState, warp: u32) {
    let (group, of_group) = place(warp);
    let Some(warpgroup) = b.warpgroups.get_mut(group) else {
        return;
    };
    warpgroup.committed[of_group] = GONE;
    warpgroup.awaited[of_group] = GONE;
    for read in warpgroup.forget() {
        read.end(b, warp);
    }
}

fn place(warp: u32) -> (usize, usize) {
    let warp = warp as usize;
    (warp / WARPS_OF_GROUP, warp % WARPS_OF_GROUP)
}
