//! Blocks of a cluster (PTX ISA 5.1.6): their barrier (9.7.13.4), and what order they hand on to one another.
//!
//! Blocks know of one another what [`Inter::known`] says, as in global memory: `barrier.cluster`, mbarriers of other
//! blocks and strong accesses whose scope is at least the cluster make it so. What comes back to a block by way of
//! another one orders its own warps, too.

use super::access::LaneAccess;
use super::divergence::Current;
use super::handing::knowledge_of_block;
use super::state::*;
use super::warp::Next;
use crate::check::global::{Clustered, GlobalShadow};
use crate::check::order::{Inter, Sparse};
use crate::check::race::{Clock, WARPS};
use crate::isa::*;
use crate::regs::lanes;
use crate::report::*;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a record of accesses to the shared memory of one cluster: more than the largest takes.
const ROOM: u64 = 1 << 30;

/// A cluster at work. Empty where blocks run alone.
#[derive(Default)]
pub struct Cluster {
    /// By rank; the block at work is not among them.
    blocks: Vec<Option<Box<BlockState>>>,
    /// By rank.
    ended: Vec<bool>,
    barrier: ClusterBarrier,
    /// Knowledge that strong writes have handed on, by place: shared memory with the page of its block, or global memory.
    handed: HashMap<u64, Sparse>,
    /// Accesses to shared memory, by rank of its block; with checks, where blocks come to one another's.
    pub shadow: Option<Box<GlobalShadow>>,
    visits: BTreeMap<Visitor, Visit>,
    /// Where mbarriers were initialised, by rank and address: other accesses do not hide it.
    inits: HashMap<(u32, u64), Init>,
}

/// Who initialised an mbarrier of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Index in the block.
    pub thread: u32,
    /// The number of its warp in the launch.
    pub warp: u64,
    pub epoch: u32,
    pub instruction: u32,
}

/// Who accesses the shared memory of another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visitor {
    /// Rank of the block that is visited.
    pub owner: u32,
    /// Rank and warp of the visitor.
    pub block: u32,
    pub warp: u32,
    pub instruction: u32,
}

/// The last access of a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    pub epoch: u32,
    pub lane: u32,
}

#[derive(Default)]
struct ClusterBarrier {
    generation: u32,
    /// Threads that have not ended, and those of them that have not arrived.
    live: u32,
    missing: u32,
    begun: bool,
    arrived: Handing,
    released: Handing,
}

/// The knowledge that arrivals hand on: all that came before them, and mbarriers that are ready to be used.
#[derive(Clone, Default)]
struct Handing {
    all: Sparse,
    inits: Sparse,
}

/// Lanes of a warp at the barrier of the cluster.
#[derive(Default)]
pub struct Arrived {
    /// That have arrived and not waited since.
    lanes: u32,
    /// Those of them that arrived in this generation.
    now: u32,
    generation: u32,
}

/// A warp's order with blocks of its cluster that is not made yet.
#[derive(Default)]
pub struct Near {
    /// Fenced: strong writes of the cluster's scope hand it on.
    ready: Sparse,
    /// Handed on to reads that were no acquire, and no fence since.
    seen: Sparse,
    /// Up to which epochs warps have initialised mbarriers: fenced, and known.
    inits_ready: Sparse,
    inits: Sparse,
}

impl Arrived {
    /// Notes that lanes go on behind the barrier.
    pub fn pass(&mut self, lanes: u32) {
        self.lanes &= !lanes;
    }
}

impl Near {
    /// Notes what a read that is no acquire was handed: a fence takes it over.
    pub fn see(&mut self, handed: &Sparse) {
        self.seen.join(handed);
    }

    /// Returns true if mbarriers that a warp initialised up to an epoch are ready to be used.
    pub fn knows_inits(&self, warp: u64, epoch: u32) -> bool {
        epoch <= self.inits.epoch_of(warp)
    }
}

impl ClusterBarrier {
    fn complete(&mut self) {
        if self.missing == 0 && self.begun {
            self.begun = false;
            self.generation += 1;
            self.missing = self.live;
            self.released = std::mem::take(&mut self.arrived);
        }
    }
}

impl Cluster {
    pub fn is_at_work(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Returns the number of its blocks.
    pub fn size(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Returns the blocks of the cluster but for the one at work.
    pub fn others(&self) -> impl Iterator<Item = &BlockState> + Clone {
        self.blocks.iter().flatten().map(|block| &**block)
    }

    /// Returns the block of a rank, unless it is at work.
    pub fn block(&self, rank: u32) -> Option<&BlockState> {
        self.blocks.get(rank as usize)?.as_deref()
    }

    pub fn block_mut(&mut self, rank: u32) -> Option<&mut BlockState> {
        self.blocks.get_mut(rank as usize)?.as_deref_mut()
    }

    /// Takes out the block of a rank, to run it or to access its memory. [`Self::put`] puts it back.
    pub fn take(&mut self, rank: u32) -> Option<Box<BlockState>> {
        self.blocks.get_mut(rank as usize)?.take()
    }

    pub fn put(&mut self, block: Box<BlockState>) {
        let rank = block.rank as usize;
        self.blocks[rank] = Some(block);
    }

    pub fn has_ended(&self, rank: u32) -> bool {
        self.ended[rank as usize]
    }

    pub fn have_all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Notes that the block of a rank has ended.
    pub fn end(&mut self, rank: u32) {
        self.ended[rank as usize] = true;
    }

    /// Notes the last access of a visitor to shared memory of another block.
    pub fn note_visit(&mut self, by: Visitor, visit: Visit) {
        self.visits.insert(by, visit);
    }

    /// Returns the accesses of others to shared memory of the block of a rank.
    pub fn visits_to(&self, rank: u32) -> Vec<(Visitor, Visit)> {
        let visits = self.visits.iter().map(|(by, visit)| (*by, *visit));
        visits.filter(|(by, _)| by.owner == rank).collect()
    }

    /// Notes that the mbarrier at an address was initialised by a thread of its block.
    pub fn note_init(&mut self, rank: u32, address: u64, init: Init) {
        self.inits.insert((rank, address), init);
    }

    /// Returns who initialised the mbarrier at an address last.
    pub fn init_at(&self, rank: u32, address: u64) -> Option<Init> {
        self.inits.get(&(rank, address)).copied()
    }

    pub fn has_met(&self, generation: u32) -> bool {
        self.barrier.generation != generation
    }

    /// Threads that have not arrived at the barrier.
    pub fn missing(&self) -> u32 {
        self.barrier.missing
    }

    /// Lanes of a warp end. The barrier waits for those that have not (9.7.13.4).
    pub fn leave(&mut self, w: &Warp, mask: u32) {
        let barrier = &mut self.barrier;
        let here = if w.arrived.generation == barrier.generation {
            w.arrived.now
        } else {
            0
        };
        barrier.live -= mask.count_ones();
        barrier.missing -= (mask & !here).count_ones();
        barrier.complete();
    }

    /// A warp of a block goes on behind the barrier.
    pub fn pass(&self, b: &mut BlockState, (warp, inter, near): (u32, &mut Inter, &mut Near)) {
        let Handing { all, inits } = &self.barrier.released;
        learn(b, warp, inter, all);
        // Within a block whatever came before such a fence counts as done.
        learn_own(b, warp, inits);
        near.inits.join(inits);
    }
}

/// The number of a warp of a block in the launch.
pub fn number_of(b: &BlockState, warp: u32) -> u64 {
    u64::from(b.number) * b.warps.len() as u64 + u64::from(warp)
}

/// All that a warp knows, of its own block and of others; none without checks.
pub fn all_known(b: &BlockState, w: &Warp) -> Option<Sparse> {
    let clocks = b.shadow.as_ref()?;
    let mut all = knowledge_of_block(b.number, b.warps.len(), clocks.knowledge(w.index));
    all.join(&w.inter.known);
    Some(all)
}

/// The part of what is handed on that is of a block.
pub fn clock_of(b: &BlockState, from: &Sparse) -> Clock {
    let (warps, first) = (b.warps.len(), number_of(b, 0));
    let epoch = |n: usize| from.epoch_of(first + n as u64);
    std::array::from_fn(|n: usize| if n < warps { epoch(n) } else { 0 })
}

fn learn_own(b: &mut BlockState, warp: u32, from: &Sparse) {
    let clock = clock_of(b, from);
    if let Some(shadow) = &mut b.shadow {
        shadow.acquire(warp, &clock, false);
        shadow.lanes_know(warp, clock[warp as usize % WARPS]);
    }
}

/// A warp takes over what others of the cluster have handed on.
pub fn learn(b: &mut BlockState, warp: u32, inter: &mut Inter, from: &Sparse) {
    if !from.is_empty() {
        learn_own(b, warp, from);
        inter.known.join(from);
    }
}

/// A fence whose scope is at least the cluster.
pub fn fence_in_cluster(b: &mut BlockState, w: &mut Warp, fence: Fence) {
    if fence.acquire {
        let seen = std::mem::take(&mut w.near.seen);
        learn(b, w.index, &mut w.inter, &seen);
    }
    if let Some(all) = all_known(b, w).filter(|_| fence.release) {
        w.near.ready.join(&all);
    }
}

impl Warp {
    /// The knowledge that it hands on to the cluster: all that it knows, or what it has fenced.
    pub fn handed_on(&self, b: &BlockState, relaxed: bool) -> Sparse {
        if relaxed {
            self.near.ready.clone()
        } else {
            all_known(b, self).unwrap_or_default()
        }
    }
}

impl Machine<'_> {
    /// The rank in its cluster of a block of the grid.
    pub fn rank(&self, id: [u32; 3]) -> u32 {
        let [x, y, z] = self.job.grid.cluster;
        id[0] % x + x * (id[1] % y + y * (id[2] % z))
    }

    pub fn new_cluster<const CHECKS: bool>(&self, number: u32) -> Cluster {
        let Clustered { grid, cluster } = self.job.grid;
        let place = |grid, number| Clustered { grid, cluster }.place(number);
        let at = place(std::array::from_fn(|n| grid[n] / cluster[n]), number);
        let size = cluster.iter().product::<u32>();
        let block = |rank| {
            let within = place(cluster, rank);
            let id = std::array::from_fn(|n| at[n] * cluster[n] + within[n]);
            Some(Box::new(self.new_block::<CHECKS>(id)))
        };
        let threads = size * self.job.block.iter().product::<u32>();
        let shadow = || {
            let instructions = self.program.code.len();
            Box::new(GlobalShadow::new(instructions, ROOM, self.job.grid, true))
        };
        Cluster {
            blocks: (0..size).map(block).collect(),
            ended: vec![false; size as usize],
            barrier: ClusterBarrier {
                live: threads,
                missing: threads,
                ..ClusterBarrier::default()
            },
            shadow: (CHECKS && size > 1 && self.program.uses_clusters).then(shadow),
            ..Cluster::default()
        }
    }

    pub fn arrive_in_cluster(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (now, mask): (&mut Current, u32),
        aligned: bool,
        relaxed: bool,
    ) -> Run<Next> {
        if !self.arrives(b, w, now, mask, aligned)? {
            return Ok(Next::Reschedule);
        }
        let again = now.mask & w.arrived.lanes;
        if again != 0 {
            let what =
                "barrier.cluster.arrive a second time, with no barrier.cluster.wait between,";
            return now.site(again).refuse(FaultKind::Undefined, what);
        }
        let handed = w.handed_on(b, relaxed);
        let barrier = &mut self.cluster.barrier;
        if w.arrived.generation != barrier.generation {
            (w.arrived.generation, w.arrived.now) = (barrier.generation, 0);
        }
        w.arrived.lanes |= now.mask;
        w.arrived.now |= now.mask;
        barrier.arrived.all.join(&handed);
        barrier.arrived.inits.join(&w.near.inits_ready);
        if let Some(shadow) = &mut b.shadow {
            shadow.tick(w.index);
            w.inter.meet();
        }
        barrier.missing -= now.mask.count_ones();
        barrier.begun = true;
        barrier.complete();
        self.progress += 1;
        Ok(Next::Step)
    }

    pub fn wait_in_cluster(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (now, mask): (&mut Current, u32),
        aligned: bool,
    ) -> Run<Next> {
        w.stream.meet(now.pc);
        if !self.arrives(b, w, now, mask, aligned)? {
            return Ok(Next::Reschedule);
        }
        let not = now.mask & !w.arrived.lanes;
        if not != 0 {
            let what = "barrier.cluster.wait of a thread that has not arrived";
            return now.site(not).refuse(FaultKind::Undefined, what);
        }
        let generation = self.cluster.barrier.generation;
        if w.arrived.generation == generation && w.arrived.now & now.mask != 0 {
            w.lanes.hold(now, now.mask, Wait::Cluster { generation });
            return Ok(Next::Reschedule);
        }
        self.cluster.pass(b, (w.index, &mut w.inter, &mut w.near));
        w.arrived.pass(now.mask);
        Ok(Next::Step)
    }

    /// The mbarriers that the warp has initialised may be used by others.
    pub fn fence_inits(&mut self, b: &mut BlockState, w: &mut Warp) {
        let number = number_of(b, w.index);
        let Some(clocks) = &mut b.shadow else { return };
        w.fenced = clocks.epoch(w.index);
        if self.cluster.is_at_work() {
            let own = Sparse::new(vec![(number, w.fenced)]);
            w.near.inits_ready.join(&own);
        }
        clocks.tick(w.index);
    }

    /// The order that lanes hand on and take over at places that they access strongly, in shared memory of the block of
    /// a rank or in global memory.
    pub fn meet_in_cluster(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        rank: Option<u32>,
        x: &LaneAccess,
    ) {
        let Order::Strong {
            release,
            acquire,
            scope: Scope::Cluster | Scope::Device,
            ..
        } = x.order
        else {
            return;
        };
        let page = rank.map_or(0, |rank| u64::from(rank + 1) << CLUSTER_PAGE);
        let mut last = None;
        for l in lanes(x.site.mask) {
            let at = x.at[l];
            if last.replace(at) == Some(at) {
                continue;
            }
            let handed = self.cluster.handed.get(&(page | at)).cloned();
            if let Some(handed) = handed.filter(|_| x.direction != Direction::Write) {
                if acquire {
                    learn(b, w.index, &mut w.inter, &handed)
                } else {
                    w.near.see(&handed)
                }
            }
            let ready = match x.direction {
                Direction::Read => Sparse::default(),
                Direction::Write | Direction::Update => w.handed_on(b, !release),
            };
            if !ready.is_empty() {
                let place = self.cluster.handed.entry(page | at);
                place.or_default().join(&ready);
            }
        }
        if let Some(clocks) = b.shadow.as_mut().filter(|_| release) {
            clocks.tick(w.index);
        }
    }
}
