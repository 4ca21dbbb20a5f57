//! Runs blocks on several threads if the results cannot differ from those of one thread. The blocks of a cluster stay
//! on one thread.
//!
//! **When.** Blocks run one after the other without checks, in a cooperative launch, in a sample, and if the code has
//! an instruction by which blocks could reach one another at once (`separable`): an atomic or a strong access to global
//! memory by its state space, a write of a tensor map there, and `malloc`. In all other launches they are tried on
//! several threads. If something happens whose outcome may depend on the order of blocks, [`run_on_threads`] throws all
//! of it away and returns `None`, and the launch runs again with its blocks in turn (`schedule`). The caller's memory
//! is not touched before that is decided.
//!
//! **Why the results are the same.** Each thread runs its blocks on a copy of the memory, which shares the bytes that
//! nothing has written (`memory::SharedBytes`). It keeps the record of the race check (`GlobalShadow`), which has every
//! place that its blocks read and wrote. When all threads have ended, the records show whether a thread touched a place
//! that another one wrote. If none did, each place has seen the same accesses in the same order as with the blocks one
//! after the other, and so have the checks of it. Then the written places are put together, the costs are added, and
//! findings and texts are joined in the order of the blocks. These things, too, give the attempt up: a fault, a strong
//! access to global memory through a generic address, a race in global memory within the blocks of one thread, an
//! access that could not be judged, an undefined value that is left in memory or followed no more, a block that only
//! polls, one that would pause in turn where something is printed or found, and too little room for the records, texts
//! or instructions.

use crate::check::global::GlobalShadow;
use crate::exec::state::{Machine, Outcome};
use crate::exec::undefined::Traces;
use crate::isa::{AddressSpace, MemoryAccess, Object, Order};
use crate::job::Job;
use crate::memory::{Memory, SharedBytes};
use crate::report::{Cost, Finding, FindingKind, Findings, MAX_PRINTED};
use crate::schedule::Share;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of parts for each thread. They are more than one because blocks differ in cost.
const PARTS: u32 = 8;
/// The number of instructions after which a block is given up. It may never end, and the blocks in turn find that out
/// once.
const MAX_BLOCK: u64 = 1 << 28;

/// The number of turns without progress after which a block that polls is given up.
const MAX_SPUN: u32 = 4096;

/// A range of blocks that one thread runs one after the other.
struct BlockRange {
    number: u32,
    findings: Vec<Finding>,
    printed: Vec<String>,
}

/// The results of the blocks that a thread ran.
struct Shard {
    parts: Vec<BlockRange>,
    costs: Vec<Cost>,
    global: GlobalShadow,
    instructions: u64,
    traces: Traces,
    written: Vec<Option<SharedBytes>>,
}

/// Runs all blocks on several threads. Returns the outcome and what is reached of each allocation, or `None` if the
/// blocks have to run one after the other.
pub fn run_on_threads(job: &Job, memory: &mut Memory) -> Option<(Outcome, BTreeMap<u64, u64>)> {
    let room = memory.room_for_checks();
    // Each thread may write to all buffers, and then has a copy of each.
    let fitting = (room / (memory.bytes() + (4 << 20))) as usize;
    let clusters = job.blocks / job.grid.cluster.iter().product::<u32>();
    // The first NaN or infinity has to be the one that arises first with the blocks in turn.
    let wanted = if job.limits.arising {
        1
    } else {
        job.limits.threads
    };
    let threads = wanted.min(fitting).min(clusters as usize);
    // Blocks that synchronise would find out one by one that they cannot run apart.
    if threads < 2
        || job.cooperative
        || job.limits.sample.is_some()
        || !job.limits.checks
        || !separable(job)
    {
        return None;
    }
    let size = (clusters / (threads as u32 * PARTS)).max(1);
    let (next, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let base = &*memory;
    let work = || {
        let done = one_thread(
            job,
            base,
            room / threads as u64,
            (clusters, size),
            &next,
            &stop,
        );
        if done.is_none() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let shares: Vec<Option<Shard>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = vec![work()];
        all.extend(others.into_iter().map(|t| t.join().ok().flatten()));
        all
    });
    let shares = shares.into_iter().collect::<Option<Vec<_>>>()?;
    let apart = shares
        .iter()
        .enumerate()
        .all(|(i, a)| shares[..i].iter().all(|b| !a.global.overlaps(&b.global)));
    let instructions: u64 = shares.iter().map(|s| s.instructions).sum();
    let printed: usize = shares
        .iter()
        .flat_map(|s| &s.parts)
        .map(|p| p.printed.len())
        .sum();
    // In turn, one count takes in all blocks.
    let mut traces = Traces::default();
    for shard in &shares {
        traces.add(&shard.traces);
    }
    if !apart
        || traces.depend_on_others()
        || printed >= MAX_PRINTED
        || instructions >= job.limits.instructions
    {
        return None;
    }
    let reached = memory.reached(|number| {
        let all = shares.iter().map(|share| share.global.reach(number));
        all.max().unwrap_or_default()
    });
    Some((join(job, memory, shares), reached))
}

/// Returns true if nothing in the code reaches other blocks at once. Strong accesses through generic addresses are seen
/// when they happen (`Machine::crossed`).
fn separable(job: &Job) -> bool {
    let reaches_others = |access: MemoryAccess| match access.object {
        Object::Data | Object::Texels => {
            access.space == AddressSpace::Global && access.order != Order::Weak
        }
        // Copies of other blocks may read the map.
        Object::TensorMap => access.writes() && access.space != AddressSpace::Shared,
        Object::Heap => true,
        Object::Mbarrier | Object::Frame => false,
    };
    let code = &job.program.code;
    !code
        .iter()
        .any(|inst| inst.op.facts().memory().any(reaches_others))
}

/// Runs parts of the grid until none is left. Returns `None` if the blocks have to run one after the other.
fn one_thread(
    job: &Job,
    base: &Memory,
    room: u64,
    (clusters, size): (u32, u32),
    next: &AtomicU32,
    stop: &AtomicBool,
) -> Option<Shard> {
    let mut memory = base.clone();
    let mut machine = Machine::new(job, &mut memory, room);
    let mut parts = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let first = number.checked_mul(size).filter(|&f| f < clusters);
        let Some(first) = first.filter(|_| !stop.load(Ordering::Relaxed)) else {
            break;
        };
        for cluster in first..first.saturating_add(size).min(clusters) {
            whole_unit(&mut machine, cluster)?;
            let global = machine.global.as_mut()?;
            let unsure =
                global.full || !global.unjudged.is_empty() || machine.traces.depend_on_others();
            if machine.memory.apart(base) + global.used() > room || unsure {
                return None;
            }
        }
        if machine.printed.is_full() {
            return None;
        }
        let findings = machine.findings.take();
        // Blocks of one thread ran one after the other. In turn, one may pause before its conflict with the next.
        let mut kinds = findings.iter().map(|finding| finding.kind);
        if kinds.any(|kind| kind == FindingKind::GlobalRace) {
            return None;
        }
        parts.push(BlockRange {
            number,
            findings,
            printed: machine.printed.take(),
        });
    }
    let costs = machine.costs.take();
    let instructions = job.limits.instructions - machine.instructions_left;
    let global = machine.global.take()?;
    Some(Shard {
        parts,
        costs,
        global,
        instructions,
        traces: std::mem::take(&mut machine.traces),
        written: memory.into_apart(base),
    })
}

/// Runs a unit to its end. Returns `None` if it did something that other blocks may see, or did not end.
fn whole_unit(machine: &mut Machine, number: u32) -> Option<()> {
    let mut unit = machine.unit::<true>(number);
    let before = machine.instructions_left;
    let (mut progress, mut spun) = (machine.progress, 0);
    let mut pauses = false;
    loop {
        let share = machine.run_unit::<true>(&mut unit).ok()?;
        if machine.flags.have_crossed() || before - machine.instructions_left > MAX_BLOCK {
            return None;
        }
        match share {
            Share::Ended => {
                // In turn, later blocks may print or find something before a block that pauses does.
                let silent = machine.printed.is_empty() && machine.findings.is_empty();
                return (silent || !pauses).then_some(());
            }
            Share::Used | Share::Waiting => {}
            Share::Spun if machine.progress != progress => (progress, spun) = (machine.progress, 0),
            // A block that never stops is judged when the blocks run in turn.
            Share::Spun if spun == MAX_SPUN => return None,
            Share::Spun => spun += 1,
        }
        pauses = true;
    }
}

/// Writes to `memory` what the threads wrote, and joins the rest of their results in the order of the blocks.
fn join(job: &Job, memory: &mut Memory, shares: Vec<Shard>) -> Outcome {
    let mut costs = vec![Cost::default(); job.program.code.len()];
    let mut parts = Vec::new();
    for share in shares {
        for (sum, cost) in costs.iter_mut().zip(&share.costs) {
            *sum += *cost;
        }
        parts.extend(share.parts);
        share.global.written(|i, at, bytes| {
            if let Some(Some(from)) = share.written.get(i) {
                memory.take_over(i, from, at..at + bytes);
            }
        });
    }
    parts.sort_by_key(|p| p.number);
    let mut outcome = Outcome {
        costs,
        findings: Findings::default(),
        printed: Vec::new(),
        arose: Vec::new(),
    };
    for part in parts {
        outcome.findings.join(part.findings);
        outcome.printed.extend(part.printed);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Module};
    use crate::{check::global::Clustered, job::Limits};

    fn job<'a>(kernel: &'a Kernel, params: &'a [u8], blocks: u32, threads: usize) -> Job<'a> {
        let (grid, cluster) = ([blocks, 1, 1], [1; 3]);
        Job {
            program: &kernel.program,
            params,
            grid: Clustered { grid, cluster },
            block: [128, 1, 1],
            explicit_cluster: false,
            blocks,
            shared_bytes: kernel.program.shared_bytes,
            dynamic_shared: 0,
            cooperative: false,
            limits: Limits {
                threads,
                ..Limits::default()
            },
        }
    }

    /// Runs a kernel of tests/fixtures/sync.cu over `words` zeros in each of two buffers. The third parameter, if there
    /// is one, is a number.
    fn on_threads(name: &str, words: usize, threads: usize) -> Option<Outcome> {
        let module = Module::load(include_str!("../tests/fixtures/sync.ptx")).unwrap();
        let kernel = module.kernel(name).unwrap();
        let mut memory = Memory::default();
        let mut params = vec![0; kernel.parameter_bytes() as usize];
        for (at, size) in kernel.parameters() {
            let value = if size == 8 {
                let p = memory.alloc("data", 4 * words as u64).unwrap();
                memory.write(p, &vec![0; 4 * words]).unwrap();
                p
            } else {
                words as u64
            };
            let value = &value.to_le_bytes()[..size as usize];
            params[at as usize..][..size as usize].copy_from_slice(value);
        }
        run_on_threads(&job(kernel, &params, 8, threads), &mut memory).map(|(outcome, _)| outcome)
    }

    #[test]
    fn only_blocks_without_a_common_place_run_on_threads() {
        assert!(
            on_threads("found", 1024, 2).is_some(),
            "reads are no conflict"
        );
        assert!(on_threads("found", 1024, 1).is_none());
        // An atomic, a flag: the order of blocks matters.
        assert!(on_threads("histogram", 1024, 2).is_none());
        assert!(on_threads("last_done", 1024, 2).is_none());
        // Out of bounds: which block is first is not known here.
        assert!(on_threads("found", 4, 2).is_none());
    }
}
