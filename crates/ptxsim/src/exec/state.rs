//! The state of a launch, of its blocks and of its warps.

use super::access::Observed;
use super::access::address::Site;
use super::access::pattern::Patterns;
use super::async_copy::Groups;
use super::barrier::Barriers;
use super::bulk::BulkCopies;
use super::cluster::{Arrived, Cluster, Near};
use super::divergence::Divergence;
use super::frames::SavedFrames;
use super::handing::Flags;
use super::mbarrier::Mbarriers;
use super::observe::copies::UnderWay;
use super::observe::cost::Costs;
use super::observe::layouts::Layouts;
use super::print::Printed;
use super::registers::RegisterPool;
use super::sequence;
use super::stream::{Known, Stream};
use super::tensormap::MapChanges;
use super::undefined::{Traces, Undefined};
use super::warpgroup::Warpgroup;
use super::wgmma::AsyncProducts;
use crate::check::global::GlobalShadow;
use crate::check::order::Inter;
use crate::check::race::{Clock, Shadow, WARPS};
use crate::job::Job;
use crate::memory::{Content, Memory, Missing};
use crate::origins::Origins;
use crate::program::*;
use crate::regs::{LANES, Regs};
use crate::report::*;
use model::{Access, AccessKind, FindingEvent};
use std::collections::HashMap;

/// The result of a part of a launch. A fault is boxed, because it is rare and large.
pub type Launched<T> = Result<T, Box<Fault>>;
/// The result of an instruction, or of a part of one.
pub type Run<T> = Result<T, Box<Refusal>>;

/// An instruction that a lane cannot execute. [`Machine::fault`] makes it the fault that ends the launch, with its place
/// and its thread.
pub struct Refusal {
    pub kind: FaultKind,
    pub lane: u32,
    pub address: Option<u64>,
    pub what: String,
}

impl Site {
    /// Refuses the instruction for the first of its lanes.
    #[cold]
    pub fn refuse<T>(self, kind: FaultKind, what: impl Into<String>) -> Run<T> {
        let (lane, what) = (self.mask.trailing_zeros(), what.into());
        Err(Box::new(Refusal {
            kind,
            lane,
            address: None,
            what,
        }))
    }

    /// Refuses the instruction for the first of its lanes, which looks at an address.
    #[cold]
    pub fn refuse_at<T>(self, kind: FaultKind, address: u64, what: impl Into<String>) -> Run<T> {
        self.refuse(kind, what)
            .map_err(|mut refusal: Box<Refusal>| {
                refusal.address = Some(address);
                refusal
            })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Ready,
    /// At a `.sync` instruction, until its members are all there.
    Sync,
    Barrier {
        id: u32,
        generation: u32,
    },
    /// At `barrier.cluster.wait`.
    Cluster {
        generation: u32,
    },
    /// Until this phase of the mbarrier at an address has ended.
    Mbarrier {
        address: u32,
        phase: bool,
    },
    /// Until so many registers a thread can be had.
    Registers {
        count: u32,
    },
    /// Until all warps of the warpgroup have committed so many groups of products.
    Products {
        count: u64,
    },
}

/// The second place of a finding.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    pub instruction: u32,
    /// Index in the block of the thread that was there; `None` where nobody kept it.
    pub thread: Option<u32>,
    /// Its block, where that is another one.
    pub block: Option<[u32; 3]>,
}

impl Other {
    pub fn instruction(instruction: u32) -> Self {
        Self {
            instruction,
            thread: None,
            block: None,
        }
    }

    pub fn by(instruction: u32, thread: u32) -> Self {
        Self {
            instruction,
            thread: Some(thread),
            block: None,
        }
    }
}

impl At {
    pub fn lane(b: &BlockState, w: &Warp, instruction: u32, lane: u32) -> At {
        At::thread(b.id, w.first_thread() + lane, instruction)
    }

    /// Returns the first of the lanes.
    pub fn first(b: &BlockState, w: &Warp, s: Site) -> At {
        At::lane(b, w, s.pc, s.mask.trailing_zeros())
    }
}

#[derive(Clone)]
pub struct CopyOp {
    pub lane: u32,
    pub undefined: Option<Missing>,
    /// It was observed when it was issued.
    pub seen: Observed,
    pub to: u32,
    pub bytes: u32,
    pub data: [u8; 16],
    pub instruction: u32,
}

#[derive(Default)]
pub struct Warp {
    pub index: u32,
    pub regs: Regs,
    /// None where all is defined.
    pub undefined: Option<Box<Undefined>>,
    pub lanes: Divergence,
    pub executed: u64,
    /// Looks at what others may change, in this turn.
    polls: u32,
    pub copies: Groups<CopyOp>,
    pub bulk: BulkCopies,
    pub products: AsyncProducts,
    pub inter: Inter,
    pub near: Near,
    /// At the barrier of the cluster.
    pub arrived: Arrived,
    /// Its epoch at its last fence: what lanes that meet at an atomic tell one another.
    pub fenced: u32,
    pub saved: SavedFrames,
    pub stream: Stream,
}

pub struct BlockState {
    pub id: [u32; 3],
    /// Its number in the grid.
    pub number: u32,
    /// Its rank in the cluster.
    pub rank: u32,
    pub warps: Vec<Option<Warp>>,
    pub shared: Content<Vec<u8>>,
    pub under_way: UnderWay,
    pub layouts: Layouts,
    /// Which changes of tensor maps in global memory its copies see.
    pub acquired_maps: HashMap<u64, u32>,
    /// Up to which epoch of each warp bulk copies see what it wrote to shared memory.
    pub proxied: Clock,
    pub shadow: Option<Shadow>,
    /// Clocks that atomics hand on, by address.
    pub atomics: HashMap<u64, (Clock, Inter)>,
    pub mbarriers: Mbarriers,
    /// The local memory of its threads, one after another.
    pub local: Content<Vec<u8>>,
    pub barriers: Barriers,
    pub registers: RegisterPool,
    /// None in a kernel without `wgmma`.
    pub warpgroups: Vec<Warpgroup>,
}

/// State that all blocks of a launch share.
pub struct Machine<'a> {
    pub job: &'a Job<'a>,
    pub program: &'a Program,
    pub origins: &'a Origins,
    pub memory: &'a mut Memory,
    /// The other blocks of the cluster at work; empty where blocks run alone.
    pub cluster: Cluster,
    /// Multiprocessors that the program names, where they are varied.
    pub named: Vec<u32>,
    pub costs: Costs,
    pub findings: Findings,
    pub ways: Known<'a>,
    pub traces: Traces,
    pub instructions_left: u64,
    pub patterns: Patterns,
    /// The fragment that an instruction loaded or stored last.
    pub fragments: Vec<Option<super::mma_run::Counted>>,
    /// The allocation that the last global access hit.
    pub hint: usize,
    /// With checks.
    pub global: Option<GlobalShadow>,
    pub flags: Flags,
    pub map_changes: MapChanges,
    /// Grows with everything that may end somebody's wait.
    pub progress: u64,
    /// The first infinity and the first NaN, if the launch looks for them.
    pub arising: Option<super::arising::Arising>,
    pub printed: Printed,
}

impl<'a> Machine<'a> {
    /// Returns a machine for the blocks of a launch. Its checks of global memory take at most `room` bytes.
    pub fn new(job: &'a Job<'a>, memory: &'a mut Memory, room: u64) -> Self {
        let code = &job.program.code;
        memory.forget_origins();
        Machine {
            job,
            program: job.program,
            origins: job.program.origins(),
            memory,
            cluster: Cluster::default(),
            arising: job.limits.arising.then(Default::default),
            named: job.limits.varied.named(job.program),
            costs: Costs::new(code.len()),
            findings: Findings::default(),
            ways: Known::new(job.program),
            traces: Traces::default(),
            instructions_left: job.limits.instructions,
            patterns: Patterns::new(code.len()),
            fragments: vec![None; code.len()],
            hint: usize::MAX,
            global: job
                .limits
                .checks
                .then(|| GlobalShadow::new(code.len(), room, job.grid, job.program.blocks_meet())),
            flags: Flags::default(),
            map_changes: HashMap::new(),
            progress: 0,
            printed: Printed::default(),
        }
    }
}

/// The results of a launch, or of a part of it, that has ended.
pub struct Outcome {
    pub costs: Vec<Cost>,
    pub findings: Findings,
    pub printed: Vec<String>,
    pub arose: Vec<model::Arose>,
}

impl Machine<'_> {
    /// Takes the results out of a machine whose blocks have ended.
    pub fn outcome(&mut self) -> Outcome {
        Outcome {
            costs: self.costs.take(),
            findings: std::mem::take(&mut self.findings),
            printed: self.printed.take(),
            arose: self
                .arising
                .take()
                .into_iter()
                .flatten()
                .flatten()
                .collect(),
        }
    }

    pub fn thread(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.job.block;
        [linear % x, linear / x % y, linear / x / y]
    }

    pub fn fault(&self, kind: FaultKind, at: At, what: &str) -> Box<Fault> {
        let At { block, address, .. } = at;
        let place = self.where_from(at.instruction);
        let thread = self.thread(at.thread);
        let message = format!("{what} at {}, block {block:?}, thread {thread:?}", place.at);
        Box::new(Fault {
            kind,
            message,
            place: Box::new(place),
            block,
            thread,
            address,
        })
    }

    /// Returns the fault of an instruction that a lane of the warp cannot execute.
    #[cold]
    pub fn refused(&self, b: &BlockState, w: &Warp, pc: u32, refusal: Refusal) -> Box<Fault> {
        let at = At {
            address: refusal.address,
            ..At::lane(b, w, pc, refusal.lane)
        };
        self.fault(refusal.kind, at, &refusal.what)
    }

    pub fn where_from(&self, instruction: u32) -> Place {
        match self.program.code.get(instruction as usize) {
            Some(inst) => self.program.where_from(inst),
            None => Place {
                at: "an unknown line".into(),
                line: None,
                calls: Vec::new(),
            },
        }
    }

    /// Counts something wrong. `event` describes it, and is asked only for the first of its kind between the same two
    /// source lines.
    #[cold]
    pub fn find(
        &mut self,
        kind: FindingKind,
        at: At,
        other: Option<Other>,
        event: impl FnOnce(&Self) -> FindingEvent,
    ) {
        let key = (
            kind,
            at.instruction,
            other.map_or(u32::MAX, |other| other.instruction),
        );
        if self.findings.count(key, 1) {
            return;
        }
        let At { block, address, .. } = at;
        let access = |instruction: u32, thread: Option<u32>, block: [u32; 3]| {
            let source = self.program.code.get(instruction as usize);
            Access {
                kind: source.map_or(AccessKind::Other, |inst| inst.op.access_kind()),
                thread: thread.map(|thread| self.thread(thread)),
                block: thread.map(|_| block),
                follows: None,
            }
        };
        let thread = self.thread(at.thread);
        let mut places = vec![self.where_from(at.instruction)];
        let mut accesses = vec![access(at.instruction, Some(at.thread), block)];
        if let Some(other) = other {
            places.push(self.where_from(other.instruction));
            let block = other.block.unwrap_or(block);
            accesses.push(access(other.instruction, other.thread, block));
        }
        if self.findings.count_at(Some(key), (kind, &places), 1) {
            return;
        }
        if let (Some(other), [this, that]) = (other, accesses.as_mut_slice())
            && this.block == that.block
        {
            let both = (other.instruction, at.instruction);
            match sequence::follows(self.program, kind, both) {
                Some((later, how)) if later == at.instruction => this.follows = Some(how),
                Some((_, how)) => that.follows = Some(how),
                None => {}
            }
        }
        let finding = Finding {
            kind,
            entry: None,
            event: event(self),
            launch: None,
            places,
            accesses,
            block,
            thread,
            address,
            times: 1,
        };
        self.findings.begin(Some(key), finding);
    }

    pub fn new_block<const CHECKS: bool>(&self, id: [u32; 3]) -> BlockState {
        let p = self.program;
        let threads = self.job.block.iter().product::<u32>();
        let warps = threads.div_ceil(32);
        let local = threads as usize * p.local_bytes as usize;
        let [gx, gy, _] = self.job.grid.grid;
        let mut shared = Content::new(vec![0; self.job.shared_bytes as usize]);
        // The system's part begins as zeros.
        shared.cover(0, p.reserved_shared as usize);
        BlockState {
            id,
            number: id[0] + gx * (id[1] + gy * id[2]),
            rank: self.rank(id),
            warps: (0..warps)
                .map(|w| Some(self.new_warp(id, w, threads)))
                .collect(),
            shared,
            under_way: UnderWay::default(),
            layouts: Layouts::default(),
            acquired_maps: HashMap::new(),
            proxied: [0; WARPS],
            shadow: CHECKS
                .then(|| Shadow::new(self.job.shared_bytes, p.shared_granule, warps as usize)),
            atomics: HashMap::new(),
            mbarriers: Mbarriers::default(),
            local: Content::new(vec![0; local]),
            registers: RegisterPool::new(p.entry_registers, warps),
            warpgroups: (0..warps as usize)
                .step_by(4)
                .filter(|_| !p.fragments.is_empty())
                .map(|first| Warpgroup::new(warps as usize - first))
                .collect(),
            barriers: Barriers::new(threads),
        }
    }

    fn new_warp(&self, id: [u32; 3], index: u32, threads: u32) -> Warp {
        let here = (threads - index * 32).min(32);
        let live = u32::MAX >> (32 - here);
        Warp {
            index,
            regs: self.new_registers(id, (index, threads)),
            lanes: Divergence::new(self.program.entry, live),
            stream: Stream::new(live, self.program.entry),
            ..Warp::default()
        }
    }
}

/// Looks at what others may change before they get a turn to do so.
const LOOKS: u32 = 64;

impl Warp {
    /// Returns the index in the block of the thread of the first lane.
    pub fn first_thread(&self) -> u32 {
        self.index * LANES as u32
    }

    /// Begins a turn, in which the warp has not looked at what others may change.
    pub fn begin_turn(&mut self) {
        self.polls = 0;
    }

    /// Notes a look at what others may change, and returns true if the warp has looked often enough for a turn.
    pub fn look(&mut self) -> bool {
        self.polls += 1;
        self.polls >= LOOKS
    }
}
