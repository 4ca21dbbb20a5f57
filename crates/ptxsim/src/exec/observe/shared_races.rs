//! Races in the shared memory of a block, and order that the async proxy lacks.
//!
//! A race is two accesses to a byte of which one writes, that happens-before does not order (vector clocks: `check::race`
//! has the source and what it may miss), and that are not both strong. Lanes that write one value to one place do not race
//! with one another, and neither does who writes what the same store wrote there before: `if (bad) flag = 1;`. Lanes of one
//! warp that only run in order because they run in step are a separate kind, a hazard ([`Between`]).
//!
//! An instruction of the async proxy that reads shared memory sees writes of threads only behind a `fence.proxy.async`. One
//! by any warp that knew of the write will do, so one that comes too late can be missed, and none is invented.

use crate::check::race::{Past, Plain, Shadow, Who};
use crate::exec::access::LaneAccess;
use crate::exec::access::address::Site;
use crate::exec::access::pattern::Pattern;
use crate::exec::observe::global_races::grouped;
use crate::exec::state::*;
use crate::exec::stream::{Earlier, Streams};
use crate::isa::{Op, Proxy};
use crate::report::{At, FindingKind, Findings, Place};
use crate::switch::{Observer, is_off};
use model::{Apart, FindingEvent, MemoryPlace};

/// Notes an access in the arrangement `p`, and counts races that were reported before. Returns false if there may be
/// others: then the full check has to look at its lanes.
#[inline(always)]
pub fn are_known<const WRITE: bool>(
    shadow: &mut Shadow,
    p: &mut Pattern,
    (from, bytes): (u32, u32),
    (warp, pc): (u32, u32),
    findings: &mut Findings,
) -> bool {
    // Two lanes that write one place race with one another.
    if WRITE && p.shared {
        return false;
    }
    let touches = p.touches(from, bytes, shadow.shift());
    match shadow.plainly(from, touches, (warp, pc), WRITE, findings) {
        Plain::No => return false,
        Plain::InOrder => {}
        Plain::Told => {
            for (other, lanes) in &shadow.racing {
                let times = u64::from(lanes.count_ones());
                findings.count((FindingKind::SharedRace, pc, *other), times);
            }
        }
    }
    true
}

impl Machine<'_> {
    /// Looks for races of an access to shared memory, before it happens. `owner` is the block that has the memory, if it is
    /// another block of the cluster.
    pub fn check_shared_races(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        owner: Option<&BlockState>,
        x: &LaneAccess,
    ) {
        if is_off(Observer::SharedRaces, x.site.pc) {
            return;
        }
        if self.cluster.shadow.is_some() {
            self.check_cluster_races(b, w, owner, x);
        }
        if owner.is_some()
            || x.lowest
                .is_some_and(|lowest| self.is_known(b, w, lowest, x))
        {
            return;
        }
        let Some(mut shadow) = b.shadow.take() else {
            return;
        };
        let (s, strength) = (x.site, x.scoped.strength);
        let inst = self.program.code.get(s.pc as usize);
        let stores = inst.is_some_and(|i| matches!(i.op, Op::Store(_)));
        for (l, all) in grouped(x).iter() {
            let who = Who::new(w.index, l as u32, s.pc);
            let streams = w.streams(&self.ways, s.pc);
            let between = |past: &Past| Between::new(&streams, w, past);
            let grave = |past: &Past| between(past).is_grave();
            let place = (x.at[l] as u32, x.bytes);
            let past = if x.writes() {
                shadow.access::<true>(place, who, strength, all, grave)
            } else {
                shadow.access::<false>(place, who, strength, 1 << l, grave)
            };
            let Some(past) = past else { continue };
            let within = u32::from(past.warp) == w.index;
            let again = x.writes() && past.was_write && past.instruction == s.pc;
            // The other access is by another lane of this instruction: memory does not have its value yet, and no
            // `__syncwarp()` could come between.
            let other = usize::from(past.lane);
            let at_once = again && within && s.mask >> other & 1 == 1 && x.at[other] == x.at[l];
            if stores && again && !at_once && x.is_held(l, &b.shared) || at_once && past.is_volatile
            {
                continue;
            }
            let between = if at_once {
                Between::Unordered
            } else {
                between(&past)
            };
            let at = At::lane(b, w, s.pc, l as u32).address(x.at[l]);
            let kind = between.kind().unwrap_or(FindingKind::SharedRace);
            let thread = u32::from(past.warp) * 32 + u32::from(past.lane);
            self.find(kind, at, Some(Other::by(past.instruction, thread)), |_| {
                let memory = MemoryPlace::Shared(x.at[l]);
                between.race(memory, [x.writes(), past.was_write], None, None)
            });
        }
        b.shadow = Some(shadow);
        let proxy = self.program.proxies.get(x.site.pc as usize);
        if !x.writes() && proxy.is_some_and(|proxy| *proxy != Proxy::Generic) {
            let from = x.at[x.site.mask.trailing_zeros() as usize] as u32;
            self.check_proxy_fence(b, w, x.site, (from, x.bytes));
        }
    }

    /// Looks at a write whose lanes lie as before, from `lowest` on.
    fn is_known(&mut self, b: &mut BlockState, w: &Warp, lowest: u64, x: &LaneAccess) -> bool {
        let Some(p) = self.patterns.slot(x.site.pc) else {
            return false;
        };
        let place = (lowest as u32, x.bytes);
        let by = (w.index, x.site.pc);
        b.shadow
            .as_mut()
            .is_some_and(|shadow| are_known::<true>(shadow, p, place, by, &mut self.findings))
    }

    /// Reports a stretch of shared memory that the async proxy reads and may not see as threads wrote it.
    fn check_proxy_fence(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (shared, bytes): (u32, u32),
    ) {
        let program = self.program;
        let seen = |instruction: u32, warp: u32, epoch: u32| {
            let proxy = program.proxies.get(instruction as usize);
            proxy.is_some_and(|proxy| *proxy != Proxy::Generic) || epoch <= b.proxied[warp as usize]
        };
        let shadow = b.shadow.as_ref();
        let unseen = shadow.and_then(|shadow| shadow.unseen_write((shared, bytes), seen));
        let Some((write, thread)) = unseen else {
            return;
        };
        let at = At::first(b, w, s).address(u64::from(shared));
        let other = Some(Other::by(write, thread));
        self.find(FindingKind::SharedRace, at, other, |m| {
            FindingEvent::NoProxyFence(m.name_of(s.pc))
        });
    }
}

/// The relation between two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// The accesses are by different warps, or by one instruction at once: no `__syncwarp()` would order them.
    Unordered,
    /// The accesses are by lanes of one warp, in different streams.
    Apart(Apart),
    /// The accesses are by lanes of one warp, in one stream.
    Together,
}

impl Between {
    fn new(streams: &Streams, w: &Warp, past: &Past) -> Between {
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

    /// Returns the relation between accesses by lanes of one warp.
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

    /// Returns true for all but a mere hazard within a warp.
    pub fn is_grave(self) -> bool {
        self != Between::Together
    }

    /// Returns the kind of the finding, or `None` for a race between warps or of one instruction.
    pub fn kind(self) -> Option<FindingKind> {
        match self {
            Between::Unordered => None,
            Between::Apart(_) => Some(FindingKind::WarpRace),
            Between::Together => Some(FindingKind::WarpHazard),
        }
    }

    /// Returns the race of this access and another one. `block` is that of the other access, for memory that blocks share,
    /// and `unfenced` a read of a flag that would order them with a fence.
    pub fn race(
        self,
        memory: MemoryPlace,
        writes: [bool; 2],
        block: Option<[u32; 3]>,
        unfenced: Option<Place>,
    ) -> FindingEvent {
        let apart = match self {
            Between::Apart(apart) => Some(apart),
            Between::Unordered | Between::Together => None,
        };
        FindingEvent::Race {
            memory,
            writes,
            block,
            apart,
            unfenced,
        }
    }
}
