//! A launch: blocks in turn, warps in turn, until all have ended or nobody can go on.
//!
//! All blocks count as resident at once. A block runs until it ends or has had its share; one that
//! spins on what another block does is therefore served. The order depends on instruction counts
//! only, so every run is the same.

use crate::check::cells::MAX_INSTRUCTIONS;
use crate::check::global::GlobalShadow;
use crate::exec::state::*;
use crate::exec::warp::Turn;
use crate::memory::Memory;
use crate::program::*;
use crate::report::*;
use std::collections::{HashMap, VecDeque};

/// Instructions of a warp before the next warp of the block runs.
const WARP_TURN: u64 = 20_000;
/// Rounds over its warps before the next block runs.
const BLOCK_ROUNDS: u32 = 64;

/// Where a launch stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Warp instructions in all.
    pub instructions: u64,
    /// Different findings that are kept.
    pub findings: usize,
    /// Without: no findings; faults (out of bounds, misaligned, deadlock, budget) remain.
    pub checks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            instructions: 20_000_000_000,
            findings: 100,
            checks: true,
        }
    }
}

/// Bytes of registers and local memory of a block: far above what a compiler writes.
const MAX_BLOCK_STATE: u64 = 1 << 30;

/// Shared memory that a block can have on sm_90, in bytes.
const MAX_SHARED: u32 = 227 << 10;

#[allow(clippy::too_many_arguments)]
pub(crate) fn launch(
    program: &Program,
    variables: &[ModuleVariable],
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report, Fault> {
    let refuse = |message: String| {
        Err(Fault {
            kind: FaultKind::Launch,
            message,
            place: program.name.clone(),
            block: [0; 3],
            thread: [0; 3],
            address: None,
        })
    };
    let product = |d: [u32; 3]| d.iter().try_fold(1_u32, |p, &n| p.checked_mul(n));
    let (Some(blocks), Some(threads)) = (product(grid), product(block)) else {
        return refuse(format!("grid {grid:?} of blocks {block:?} is too large"));
    };
    if blocks == 0 || threads == 0 || threads > 1024 {
        return refuse(format!(
            "grid {grid:?} of blocks {block:?}: a block has 1 to 1024 threads, a grid at least one block"
        ));
    }
    if program.code.len() > MAX_INSTRUCTIONS {
        return refuse(format!(
            "{} instructions, more than {MAX_INSTRUCTIONS}",
            program.code.len()
        ));
    }
    if let Some(max) = program.max_threads
        && threads > max.iter().product::<u32>()
    {
        return refuse(format!(
            "{threads} threads, but the kernel says at most {max:?}"
        ));
    }
    if let Some(required) = program.required_threads
        && block != required
    {
        return refuse(format!(
            "a block of {block:?}, but the kernel requires {required:?}"
        ));
    }
    if params.len() != program.parameter_bytes as usize {
        return refuse(format!(
            "{} bytes of parameters, but the kernel takes {}",
            params.len(),
            program.parameter_bytes
        ));
    }
    let [_, r32, r64] = program.registers.map(u64::from);
    let state = (r32 * 128 + r64 * 256) * u64::from(threads.div_ceil(32))
        + u64::from(threads) * u64::from(program.local_bytes);
    if state > MAX_BLOCK_STATE {
        return refuse(format!(
            "registers and local memory of a block take {state} bytes, more than {MAX_BLOCK_STATE}"
        ));
    }
    let static_shared = if dynamic_shared > 0 {
        program.shared_bytes.next_multiple_of(128)
    } else {
        program.shared_bytes
    };
    let Some(shared_bytes) = static_shared
        .checked_add(dynamic_shared)
        .filter(|&s| s <= MAX_SHARED)
    else {
        return refuse(format!(
            "{static_shared} + {dynamic_shared} bytes of shared memory, more than {MAX_SHARED}"
        ));
    };
    for v in variables {
        if !memory.has(v.address) {
            memory.insert(&v.name, v.address, v.bytes.clone(), true, v.read_only);
        }
    }
    let mut machine = Machine {
        program,
        memory,
        params,
        grid,
        block,
        shared_bytes,
        dynamic_shared,
        costs: vec![Cost::default(); program.code.len()],
        issues: crate::exec::cost::Issues::new(program.code.len()),
        findings: Vec::new(),
        seen: HashMap::new(),
        max_findings: limits.findings,
        instructions_left: limits.instructions,
        patterns: program.code.iter().map(|_| None).collect(),
        hint: usize::MAX,
        global: None,
        handed: HashMap::new(),
    };
    if limits.checks {
        let room = machine.memory.room_for_checks();
        machine.global = Some(GlobalShadow::new(program.code.len(), room));
    }
    let run = if limits.checks {
        machine.run_grid::<true>(blocks)
    } else {
        machine.run_grid::<false>(blocks)
    };
    run.map_err(|f| *f)?;
    let mut not_judged = Vec::new();
    if !limits.checks {
        not_judged.push("checks were switched off".to_string());
    }
    if machine.global.as_ref().is_some_and(|g| g.full) {
        not_judged.push(
            "races in global memory, in part: the launch touches more of it than the checks have room for"
                .to_string(),
        );
    }
    machine.issues.settle(&mut machine.costs);
    let counters = Counters::of(program, &machine.costs);
    Ok(Report {
        findings: machine.findings,
        counters,
        not_judged,
    })
}

impl Machine<'_> {
    fn run_grid<const CHECKS: bool>(&mut self, blocks: u32) -> Run<()> {
        let [gx, gy, _] = self.grid;
        let mut fresh = 0..blocks;
        let mut paused: VecDeque<BlockState> = VecDeque::new();
        loop {
            // Blocks that have not begun go first: what a paused one waits for may be theirs.
            let mut block = match fresh.next() {
                Some(n) => self.new_block::<CHECKS>([n % gx, n / gx % gy, n / gx / gy]),
                None => match paused.pop_front() {
                    Some(b) => b,
                    None => return Ok(()),
                },
            };
            if let Some(global) = &mut self.global {
                global.enter(block.fresh);
            }
            block.fresh = false;
            if !self.run_block::<CHECKS>(&mut block)? {
                paused.push_back(block);
            }
        }
    }

    /// True when the block has ended.
    fn run_block<const CHECKS: bool>(&mut self, b: &mut BlockState) -> Run<bool> {
        for _ in 0..BLOCK_ROUNDS {
            let mut moved = false;
            let mut ended = 0;
            for at in 0..b.warps.len() {
                let Some(mut w) = b.warps[at].take() else {
                    continue;
                };
                self.leave_barriers(b, &mut w);
                let before = w.executed;
                let turn = self.run_warp::<CHECKS>(b, &mut w, WARP_TURN);
                // Steps of instructions without a wait count; a warp that only looked does not.
                let used = w.executed - before;
                self.instructions_left = self.instructions_left.saturating_sub(used);
                moved |= used > 0;
                let turn = turn?;
                if turn == Turn::Ended {
                    ended += 1;
                    for id in 0..b.barriers.len() {
                        self.complete_barrier(b, id);
                    }
                }
                b.warps[at] = Some(w);
            }
            if ended == b.warps.len() {
                return Ok(true);
            }
            let woken = (0..b.warps.len()).any(|i| {
                b.warps[i].as_ref().is_some_and(|w| {
                    w.groups.iter().any(|g| match g.wait {
                        Wait::Barrier { id, generation } => {
                            b.barriers[id as usize].generation != generation
                        }
                        wait => wait == Wait::Ready,
                    })
                })
            });
            if !moved && !woken {
                return self.deadlock(b);
            }
        }
        Ok(false)
    }

    fn deadlock<T>(&self, b: &BlockState) -> Run<T> {
        let mut lines = Vec::new();
        let mut first = None;
        for w in b.warps.iter().flatten() {
            for g in &w.groups {
                let what = match g.wait {
                    Wait::Barrier { id, .. } => format!("at barrier {id}"),
                    Wait::Sync => "for the other members of a warp-wide instruction".into(),
                    Wait::Ready => "ready".into(),
                };
                lines.push(format!(
                    "warp {} lanes {:#010x} wait {what} at {}",
                    w.index,
                    g.mask,
                    self.place(g.pc)
                ));
                first.get_or_insert((g.pc, w.first_thread + g.mask.trailing_zeros()));
            }
        }
        let (pc, thread) = first.unwrap_or((0, 0));
        let what = format!("deadlock: {};", lines.join("; "));
        self.fault(FaultKind::Deadlock, pc, b.id, thread, None, &what)
    }
}
