//! The order of execution: blocks in turn, warps in turn, until all have ended or none can go on. The blocks of a
//! cluster have their turns together.
//!
//! Blocks count as resident together, up to what a large GPU or 1 GiB holds. A block runs until it ends, has used its
//! share ([`BLOCK_ROUNDS`]), or only polls. A block that spins on what another one does is therefore served. The order
//! depends on the program alone, so every run is the same.
//!
//! A launch that cannot end is found in two ways. If no warp of a block can go on, and no other block of its cluster
//! can wake one, that is a deadlock. If blocks poll and the state of all of them recurs without progress, that is a
//! livelock. A launch that changes its state for ever ends when its budget of instructions is spent.

use crate::exec::cluster::Cluster;
use crate::exec::mbarrier::lacks;
use crate::exec::state::*;
use crate::exec::warp::Turn;
use crate::report::*;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

/// The number of instructions that a warp executes, at most, before the next warp of the block runs.
const WARP_TURN: u64 = 20_000;
/// The number of rounds over the warps of a block, at most, before the next block runs.
const BLOCK_ROUNDS: u32 = 64;
/// The number of rounds over all blocks in which every block only polls, before their states are compared to detect
/// that nothing moves.
const IDLE_ROUNDS: usize = 16;
/// The number of places of warps that a message lists, at most.
const MAX_PLACES: usize = 3;

/// The reason for which a block has ended its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Ended,
    Used,
    /// Every warp that can run polls memory.
    Spun,
    /// The block waits for other blocks of its cluster.
    Waiting,
}

/// The unit of scheduling: one block, or the blocks of one cluster, which have their turns together.
pub enum Unit {
    Block(Box<BlockState>),
    Cluster(Box<Cluster>),
}

impl Unit {
    fn blocks(&self) -> impl Iterator<Item = &BlockState> {
        let (one, several) = match self {
            Unit::Block(one) => (Some(&**one), None),
            Unit::Cluster(all) => (None, Some(all.others())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

/// A period in which blocks were visited and none made progress.
#[derive(Default)]
struct Idle {
    visits: usize,
    /// Hashes of the states of all blocks during this period. A state that occurs twice recurs for ever, because
    /// nothing but the blocks themselves changes it: the launch then hangs.
    seen: HashSet<u64>,
}

impl Machine<'_> {
    /// Runs units of the grid until all have ended. `units` are numbers of blocks, or of clusters if the blocks of a
    /// cluster concern one another. Units that have not begun go first while there is room; the others have their turns
    /// in a queue. Fails if a fault stops the launch, or if the state of all units recurs while they only poll (a
    /// livelock).
    pub fn run_grid<const CHECKS: bool>(&mut self, units: &[u32]) -> Launched<()> {
        let mut fresh = units.iter().copied();
        let mut paused: VecDeque<Unit> = VecDeque::new();
        let mut idle = Idle::default();
        loop {
            // Blocks that have not begun go first: what a paused one waits for may be theirs.
            let next = if paused.len() < self.resident() {
                fresh.next()
            } else {
                None
            };
            let mut unit = match next {
                Some(n) => self.unit::<CHECKS>(n),
                None => match paused.pop_front() {
                    Some(b) => b,
                    None => return Ok(()),
                },
            };
            let before = self.progress;
            let share = self.run_unit::<CHECKS>(&mut unit);
            if let Err(mut fault) = share {
                if fault.kind == FaultKind::Budget {
                    paused.push_back(unit);
                    fault.message = format!("{}; {}", fault.message, self.stands(&paused));
                }
                return Err(fault);
            }
            match share? {
                Share::Ended => continue,
                Share::Used | Share::Waiting => idle = Idle::default(),
                Share::Spun if self.progress != before => idle = Idle::default(),
                Share::Spun => idle.visits += 1,
            }
            paused.push_back(unit);
            // Every unit was visited without progress, often enough to see whether anything moves at all. From now on
            // the states are compared once a round: `idle.visits` is set back by one visit of each unit.
            let waiting = fresh.len() == 0 || paused.len() >= self.resident();
            if waiting && idle.visits >= IDLE_ROUNDS * paused.len() {
                idle.visits = (IDLE_ROUNDS - 1) * paused.len();
                if !idle.seen.insert(state_of(&paused)) {
                    return self.livelock(&paused);
                }
            }
        }
    }

    /// Builds the unit with this number. A cluster of one block is a plain block if the program uses nothing of
    /// clusters.
    pub fn unit<const CHECKS: bool>(&self, n: u32) -> Unit {
        if self.job.grid.cluster == [1; 3] && !self.program.uses_clusters {
            Unit::Block(Box::new(self.new_block::<CHECKS>(self.job.grid.place(n))))
        } else {
            Unit::Cluster(Box::new(self.new_cluster::<CHECKS>(n)))
        }
    }

    /// Gives a unit its turn. Fails with a fault of its blocks.
    pub fn run_unit<const CHECKS: bool>(&mut self, unit: &mut Unit) -> Launched<Share> {
        match unit {
            Unit::Block(block) => self.run_block::<CHECKS>(block),
            Unit::Cluster(cluster) => {
                std::mem::swap(&mut self.cluster, cluster);
                let share = self.run_cluster::<CHECKS>();
                std::mem::swap(&mut self.cluster, cluster);
                share
            }
        }
    }

    /// Gives each block of the present cluster its turn.
    fn run_cluster<const CHECKS: bool>(&mut self) -> Launched<Share> {
        let before = (self.instructions_left, self.progress);
        let mut spun = false;
        for rank in 0..self.cluster.size() {
            if self.cluster.has_ended(rank) {
                continue;
            }
            let Some(mut b) = self.cluster.take(rank) else {
                continue;
            };
            let share = self.run_block::<CHECKS>(&mut b);
            if matches!(share, Ok(Share::Ended)) {
                self.cluster.end(rank);
                if CHECKS {
                    self.tell_late_visits(&b);
                }
            }
            self.cluster.put(b);
            spun |= share? == Share::Spun;
        }
        let moved = before != (self.instructions_left, self.progress);
        if self.cluster.have_all_ended() {
            self.tell_unjudged_in_cluster();
            return Ok(Share::Ended);
        }
        match (spun, moved) {
            (true, _) => Ok(Share::Spun),
            (false, true) => Ok(Share::Used),
            (false, false) => self.deadlock(self.cluster.others()),
        }
    }

    /// Returns the number of units that are resident together: at most 4096 blocks, and at most as many as 1 GiB holds
    /// of their registers and memory. All units of a cooperative launch are resident: an earlier check refused a grid
    /// that does not fit a GPU.
    fn resident(&self) -> usize {
        if self.job.cooperative {
            return usize::MAX;
        }
        let of_cluster = self.job.grid.cluster.iter().product::<u32>() as usize;
        let [_, r32, r64] = self.program.registers.map(u64::from);
        let threads = u64::from(self.job.block.iter().product::<u32>());
        let bytes = (r32 * 128 + r64 * 256) * threads.div_ceil(32)
            + threads * u64::from(self.program.local_bytes)
            + u64::from(self.job.shared_bytes) * 16;
        let blocks = ((1 << 30) / bytes.max(1)).clamp(1, 4096) as usize;
        (blocks / of_cluster).max(1)
    }

    /// Gives a block its turn: each warp in its turn, round after round.
    pub fn run_block<const CHECKS: bool>(&mut self, b: &mut BlockState) -> Launched<Share> {
        for _ in 0..BLOCK_ROUNDS {
            let mut moved = false;
            let (mut spins, mut polls) = (true, false);
            let mut ended = 0;
            for at in 0..b.warps.len() {
                let Some(mut w) = b.warps[at].take() else {
                    continue;
                };
                self.leave_barriers(b, &mut w);
                let before = w.executed;
                w.begin_turn();
                let turn = self.run_warp::<CHECKS>(b, &mut w, WARP_TURN);
                // Steps of instructions without a wait count; a warp that only looked does not.
                let used = w.executed - before;
                self.instructions_left = self.instructions_left.saturating_sub(used);
                moved |= used > 0;
                let ends = matches!(turn, Ok(Turn::Ended));
                spins &= ends || matches!(turn, Ok(Turn::Waiting | Turn::Polling));
                polls |= matches!(turn, Ok(Turn::Polling));
                b.warps[at] = Some(w);
                turn?;
                if ends {
                    ended += 1;
                    self.complete_barriers(b);
                }
            }
            if ended == b.warps.len() {
                if CHECKS {
                    self.tell_unawaited_copies(b);
                    self.tell_uneven_registers(b);
                }
                return Ok(Share::Ended);
            }
            let woken = (0..b.warps.len()).any(|i| {
                b.warps[i].as_ref().is_some_and(|w| {
                    let mut groups = w.lanes.waiting().iter();
                    groups.any(|group| self.has_ended(b, w.index, group.wait()))
                })
            });
            if !moved && !woken {
                return if self.cluster.is_at_work() {
                    Ok(Share::Waiting)
                } else {
                    self.deadlock(std::iter::once(&*b))
                };
            }
            if spins && polls {
                return Ok(Share::Spun);
            }
        }
        Ok(Share::Used)
    }

    /// Returns the fault of blocks in which nothing can go on.
    fn deadlock<'b, T>(&self, blocks: impl Iterator<Item = &'b BlockState> + Clone) -> Launched<T> {
        let is_waiting = |w: &Warp| !w.lanes.waiting().is_empty();
        let mut waiting = blocks
            .clone()
            .filter(|b| b.warps.iter().flatten().any(is_waiting));
        let (id, (pc, thread)) = waiting
            .next()
            .map_or(([0; 3], (0, 0)), |b| (b.id, first_of(b)));
        let what = format!("deadlock: {};", self.waits(blocks));
        Err(self.fault(FaultKind::Deadlock, At::thread(id, thread, pc), &what))
    }

    /// Fails because the state of all units recurs while they poll.
    fn livelock<T>(&self, units: &VecDeque<Unit>) -> Launched<T> {
        let (id, (pc, thread)) = units
            .front()
            .and_then(|unit| unit.blocks().next())
            .map_or(([0; 3], (0, 0)), |b| (b.id, first_of(b)));
        let what = format!(
            "livelock: every thread polls and none makes progress; {};",
            self.stands(units)
        );
        Err(self.fault(FaultKind::Deadlock, At::thread(id, thread, pc), &what))
    }

    /// Describes how many blocks are running and where their warps are.
    fn stands(&self, units: &VecDeque<Unit>) -> String {
        let blocks = || units.iter().flat_map(Unit::blocks);
        format!(
            "{} blocks are running: {}",
            blocks().count(),
            self.waits(blocks())
        )
    }

    /// Describes where warps are and what they wait for. Warps at one place are counted together, and only the first
    /// few places are listed.
    fn waits<'b>(&self, blocks: impl Iterator<Item = &'b BlockState>) -> String {
        let mut places: Vec<(String, String, u32)> = Vec::new();
        for b in blocks {
            for w in b.warps.iter().flatten() {
                for g in w.lanes.waiting() {
                    let what = match g.wait() {
                        Wait::Barrier { id, .. } => format!("wait at barrier {id}"),
                        Wait::Sync => {
                            "wait for the other members of a warp-wide instruction".into()
                        }
                        Wait::Cluster { .. } => format!(
                            "wait at barrier.cluster, where {} threads have not arrived,",
                            self.cluster.missing()
                        ),
                        Wait::Mbarrier { address, .. } => {
                            let lacks = lacks(b, address);
                            format!("wait for the mbarrier at {address:#x} of shared memory{lacks}")
                        }
                        Wait::Registers { count } => b.registers.wait(w.index, count),
                        Wait::Products { .. } => {
                            "wait for the other warps of the warpgroup to execute as many wgmma"
                                .into()
                        }
                        Wait::Ready => "are".into(),
                    };
                    let place = format!("{what} at {}", self.own_line(g.pc()));
                    let here = places.iter_mut().find(|(known, ..)| *known == place);
                    if let Some((.., more)) = here {
                        *more += 1;
                        continue;
                    }
                    let first =
                        format!("block {:?} warp {} lanes {:#010x}", b.id, w.index, g.mask());
                    places.push((place, first, 0));
                }
            }
        }
        let left_out = places.len().saturating_sub(MAX_PLACES);
        places.truncate(MAX_PLACES);
        let mut lines: Vec<String> = places
            .into_iter()
            .map(|(place, first, more)| match more {
                0 => format!("{first} {place}"),
                more => format!("{first} and {more} more {place}"),
            })
            .collect();
        if left_out > 0 {
            lines.push(format!("and others at {left_out} more places"));
        }
        lines.join("; ")
    }
}

impl Machine<'_> {
    /// Returns the line of the user's own file at which an instruction is, without the calls that inlined it there: a
    /// message of a wait is mostly about a line in a header of others.
    fn own_line(&self, instruction: u32) -> String {
        let program = self.program;
        let inst = program.code.get(instruction as usize);
        let source = inst.and_then(|inst| program.sources.get(inst.source as usize));
        match source {
            Some(source) if program.lines.at(source.loc).line > 0 => {
                program.lines.own(source.loc).0
            }
            _ => self.where_from(instruction).at,
        }
    }
}

/// Returns the instruction and the thread of the first lanes that have not ended.
fn first_of(b: &BlockState) -> (u32, u32) {
    let group = |w: &Warp| {
        w.lanes
            .waiting()
            .first()
            .map(|g| (g.pc(), w.first_thread() + g.mask().trailing_zeros()))
    };
    b.warps.iter().flatten().find_map(group).unwrap_or((0, 0))
}

/// Returns a hash of what decides the next actions of blocks, apart from memory, which makes progress when it changes.
fn state_of(units: &VecDeque<Unit>) -> u64 {
    let mut h = DefaultHasher::new();
    let blocks = units.iter().flat_map(Unit::blocks);
    for w in blocks.flat_map(|b| b.warps.iter().flatten()) {
        for g in w.lanes.waiting() {
            (g.pc(), g.mask(), g.stack()).hash(&mut h);
        }
        w.regs.pred.hash(&mut h);
        w.regs.r32.iter().for_each(|r| r.0.hash(&mut h));
        w.regs.r64.iter().for_each(|r| r.0.hash(&mut h));
    }
    h.finish()
}
