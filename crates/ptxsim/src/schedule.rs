//! The order of execution: blocks in turn, warps in turn, until all have ended or none can go on.
//!
//! Blocks count as resident together, up to what a large GPU or 1 GiB holds. A block runs until it
//! ends, has had its share, or only polls; one that spins on what another block does is therefore
//! served. The order depends on the program alone, so every run is the same.

use crate::exec::mbarrier::{has_turned, lacking_bytes};
use crate::exec::state::*;
use crate::exec::warp::Turn;
use crate::report::*;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

/// Instructions of a warp before the next warp of the block runs.
const WARP_TURN: u64 = 20_000;
/// Rounds over its warps before the next block runs.
const BLOCK_ROUNDS: u32 = 64;
/// Rounds over all blocks, in which all only poll, before their state is compared.
const IDLE_ROUNDS: usize = 16;
/// Places of warps in a message.
const MAX_PLACES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Ended,
    Used,
    /// All that can run polls.
    Spun,
}

/// A time in which nothing happened.
#[derive(Default)]
struct Idle {
    visits: usize,
    /// States of all blocks in this time. One that comes again comes for ever: nothing but the
    /// blocks themselves changes them.
    seen: HashSet<u64>,
}

impl Machine<'_> {
    pub fn run_grid<const CHECKS: bool>(&mut self, blocks: &[u32]) -> Run<()> {
        let mut fresh = blocks.iter().copied();
        let mut paused: VecDeque<BlockState> = VecDeque::new();
        let mut idle = Idle::default();
        loop {
            // Blocks that have not begun go first: what a paused one waits for may be theirs.
            let next = if paused.len() < self.resident() {
                fresh.next()
            } else {
                None
            };
            let mut block = match next {
                Some(n) => self.numbered_block::<CHECKS>(n),
                None => match paused.pop_front() {
                    Some(b) => b,
                    None => return Ok(()),
                },
            };
            let before = self.progress;
            let share = self.run_block::<CHECKS>(&mut block);
            if let Err(mut fault) = share {
                if fault.kind == FaultKind::Budget {
                    paused.push_back(block);
                    fault.message = format!("{}; {}", fault.message, self.stands(&paused));
                }
                return Err(fault);
            }
            match share? {
                Share::Ended => continue,
                Share::Used => idle = Idle::default(),
                Share::Spun if self.progress != before => idle = Idle::default(),
                Share::Spun => idle.visits += 1,
            }
            paused.push_back(block);
            // Everybody was looked at in vain, often enough to see whether anything moves at all.
            let waiting = fresh.len() == 0 || paused.len() >= self.resident();
            if waiting && idle.visits >= IDLE_ROUNDS * paused.len() {
                idle.visits = (IDLE_ROUNDS - 1) * paused.len();
                if !idle.seen.insert(state_of(&paused)) {
                    return self.livelock(&paused);
                }
            }
        }
    }

    pub fn numbered_block<const CHECKS: bool>(&self, n: u32) -> BlockState {
        let [gx, gy, _] = self.grid;
        self.new_block::<CHECKS>([n % gx, n / gx % gy, n / gx / gy])
    }

    /// Blocks that are begun at a time: what a large GPU holds, or what memory holds. Those of a
    /// cooperative launch all are: it was looked at whether they fit.
    fn resident(&self) -> usize {
        if self.cooperative {
            return usize::MAX;
        }
        let [_, r32, r64] = self.program.registers.map(u64::from);
        let threads = u64::from(self.block.iter().product::<u32>());
        let bytes = (r32 * 128 + r64 * 256) * threads.div_ceil(32)
            + threads * u64::from(self.program.local_bytes)
            + u64::from(self.shared_bytes) * 16;
        ((1 << 30) / bytes.max(1)).clamp(1, 4096) as usize
    }

    pub fn run_block<const CHECKS: bool>(&mut self, b: &mut BlockState) -> Run<Share> {
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
                w.polls = 0;
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
                    for id in 0..b.barriers.len() {
                        self.complete_barrier(b, id);
                    }
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
                    w.groups.iter().any(|g| match g.wait {
                        Wait::Barrier { id, generation } => {
                            b.barriers[id as usize].generation != generation
                        }
                        Wait::Mbarrier { address, phase } => has_turned(b, address, phase),
                        Wait::Registers { count } => b.registers.suffices(w.index, count),
                        Wait::Sync => false,
                        Wait::Ready => true,
                    })
                })
            });
            if !moved && !woken {
                return self.deadlock(b);
            }
            if spins && polls {
                return Ok(Share::Spun);
            }
        }
        Ok(Share::Used)
    }

    fn deadlock<T>(&self, b: &BlockState) -> Run<T> {
        let one = std::iter::once(b);
        let (pc, thread) = first_of(b);
        let what = format!("deadlock: {};", self.waits(one));
        self.fault(FaultKind::Deadlock, At::thread(b.id, thread, pc), &what)
    }

    fn livelock<T>(&self, blocks: &VecDeque<BlockState>) -> Run<T> {
        let (id, (pc, thread)) = blocks
            .front()
            .map_or(([0; 3], (0, 0)), |b| (b.id, first_of(b)));
        let what = format!(
            "livelock: every thread polls and none makes progress; {};",
            self.stands(blocks)
        );
        self.fault(FaultKind::Deadlock, At::thread(id, thread, pc), &what)
    }

    fn stands(&self, blocks: &VecDeque<BlockState>) -> String {
        format!(
            "{} blocks are running: {}",
            blocks.len(),
            self.waits(blocks.iter())
        )
    }

    /// Where warps are and what they wait for: those at one place together, the first few places.
    fn waits<'b>(&self, blocks: impl Iterator<Item = &'b BlockState>) -> String {
        let mut places: Vec<(String, String, u32)> = Vec::new();
        for b in blocks {
            for w in b.warps.iter().flatten() {
                for g in &w.groups {
                    let what = match g.wait {
                        Wait::Barrier { id, .. } => format!("wait at barrier {id}"),
                        Wait::Sync => {
                            "wait for the other members of a warp-wide instruction".into()
                        }
                        Wait::Mbarrier { address, .. } => {
                            let lacks = match lacking_bytes(b, address) {
                                0 => String::new(),
                                n @ 1.. => {
                                    format!(", to which {n} expected bytes were not copied,")
                                }
                                n => format!(
                                    ", to which {} bytes more than expected were copied,",
                                    -n
                                ),
                            };
                            format!("wait for the mbarrier at {address:#x} of shared memory{lacks}")
                        }
                        Wait::Registers { count } => b.registers.wait(w.index, count),
                        Wait::Ready => "are".into(),
                    };
                    let place = format!("{what} at {}", self.own_line(g.pc));
                    let here = places.iter_mut().find(|(known, ..)| *known == place);
                    if let Some((.., more)) = here {
                        *more += 1;
                        continue;
                    }
                    let first = format!("block {:?} warp {} lanes {:#010x}", b.id, w.index, g.mask);
                    places.push((place, first, 0));
                }
            }
        }
        let left_out = places.len().saturating_sub(MAX_PLACES);
        places.truncate(MAX_PLACES);
        let told = places.into_iter().map(|(place, first, more)| match more {
            0 => format!("{first} {place}"),
            more => format!("{first} and {more} more {place}"),
        });
        let mut lines: Vec<String> = told.collect();
        if left_out > 0 {
            lines.push(format!("and others at {left_out} more places"));
        }
        lines.join("; ")
    }
}

impl Machine<'_> {
    /// The user's line, without how it came there: a wait in a header of others says little, and its inlining much.
    fn own_line(&self, instruction: u32) -> String {
        let program = self.program;
        let inst = program.code.get(instruction as usize);
        let source = inst.and_then(|inst| program.sources.get(inst.source as usize));
        match source {
            Some(source) if program.lines.at(source.loc).line > 0 => {
                program.lines.own(source.loc).0
            }
            _ => self.place(instruction),
        }
    }
}

/// Instruction and thread of the first lanes that have not ended.
fn first_of(b: &BlockState) -> (u32, u32) {
    let group = |w: &Warp| {
        w.groups
            .first()
            .map(|g| (g.pc, w.first_thread + g.mask.trailing_zeros()))
    };
    b.warps.iter().flatten().find_map(group).unwrap_or((0, 0))
}

/// All that decides what blocks do next, apart from memory.
fn state_of(blocks: &VecDeque<BlockState>) -> u64 {
    let mut h = DefaultHasher::new();
    for w in blocks.iter().flat_map(|b| b.warps.iter().flatten()) {
        for g in &w.groups {
            (g.pc, g.mask, &g.stack).hash(&mut h);
        }
        w.regs.pred.hash(&mut h);
        w.regs.r32.iter().for_each(|r| r.0.hash(&mut h));
        w.regs.r64.iter().for_each(|r| r.0.hash(&mut h));
    }
    h.finish()
}
