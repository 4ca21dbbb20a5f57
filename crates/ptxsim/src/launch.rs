//! Runs a launch: checks that it fits the kernel, chooses how its blocks run, and builds the report.

use crate::Kernel;
use crate::check::cells::MAX_INSTRUCTIONS;
use crate::check::global::{Clustered, Unjudged};
use crate::check::order::FlagSide;
use crate::doubt::withheld;
use crate::exec::state::Machine;
use crate::job::{Job, Limits, chosen};
use crate::memory::Memory;
use crate::parallel;
use crate::program::*;
use crate::report::*;
use model::Launch;
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of registers and local memory that a block may have: far more than a compiler gives it.
const MAX_BLOCK_STATE: u64 = 1 << 30;

/// The bytes of shared memory that a block can have on sm_90.
const MAX_SHARED: u32 = 227 << 10;

/// Puts variables of a module into memory, unless they are there.
pub(crate) fn place(variables: &[ModuleVariable], memory: &mut Memory) {
    for v in variables {
        if !memory.has(v.address) {
            memory.insert(&v.name, v.address, v.bytes.clone(), true, v.read_only);
        }
    }
}

/// Runs `kernel` like [`crate::launch`], and can launch it in clusters of blocks or cooperatively. All blocks of a cooperative
/// launch are resident together, so that they may wait for each other (`grid.sync()`). A cooperative grid that is
/// larger than an H100 holds is refused, and [`Limits::sample`] does not apply to it.
pub fn launch_as(
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report, Fault> {
    let program = &kernel.program;
    let &Launch {
        grid,
        block,
        dynamic_shared,
        cooperative,
        ..
    } = launch;
    let refuse = |message: String| {
        Err(Fault {
            kind: FaultKind::Launch,
            message,
            place: Box::new(Place {
                at: program.name.clone(),
                line: None,
                calls: Vec::new(),
            }),
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
    let cluster = match cluster_of(program, launch) {
        Ok(cluster) => cluster,
        Err(message) => return refuse(message),
    };
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
        .filter(|&s| s <= MAX_SHARED + program.reserved_shared)
    else {
        return refuse(format!(
            "{static_shared} + {dynamic_shared} bytes of shared memory, more than {MAX_SHARED}"
        ));
    };
    let most = most_resident(threads, shared_bytes - program.reserved_shared);
    if cooperative && blocks > most {
        return refuse(format!(
            "a cooperative launch of {blocks} blocks: of {threads} threads with {shared_bytes} bytes of \
             shared memory, {MULTIPROCESSORS} multiprocessors hold {most} at a time at most"
        ));
    }
    #[cfg(feature = "switches")]
    crate::switch::begin(program);
    place(&kernel.variables, memory);
    let job = Job {
        program,
        params,
        grid: Clustered { grid, cluster },
        block,
        explicit_cluster: launch.cluster.or(program.clusters.required).is_some(),
        blocks,
        shared_bytes: limits
            .varied
            .shared_bytes(shared_bytes, MAX_SHARED + program.reserved_shared),
        dynamic_shared,
        cooperative,
        // Each block of a cooperative launch may wait for any other.
        limits: Limits {
            sample: limits.sample.filter(|_| !cooperative),
            ..limits
        },
    };
    let held = Held::by(memory, cooperative && program.asks_for_workspace());
    let memory = &mut *held.0;
    let (mut outcome, reached, full, unjudged) = match parallel::run_on_threads(&job, memory) {
        Some((outcome, reached)) => (outcome, reached, false, Unjudged::default()),
        None => {
            let room = memory.room_for_checks();
            let mut machine = Machine::new(&job, memory, room);
            let chosen = chosen(grid, cluster, job.limits.sample);
            let run = if limits.checks {
                machine.run_grid::<true>(&chosen)
            } else {
                machine.run_grid::<false>(&chosen)
            };
            run.map_err(|mut f| {
                for text in machine.printed.last(3) {
                    f.message += &format!("; printf wrote {text:?}");
                }
                *f
            })?;
            machine.tell_what_is_left();
            machine.tell_leaks();
            let shadow = machine.global.take();
            let reached = shadow.as_ref().map_or_else(BTreeMap::new, |shadow| {
                machine.memory.reached(|number| shadow.reach(number))
            });
            let (full, unjudged) = shadow.map_or((false, Unjudged::default()), |shadow| {
                (shadow.full, shadow.unjudged)
            });
            (machine.outcome(), reached, full, unjudged)
        }
    };
    let mut not_judged = Vec::new();
    if !limits.checks {
        not_judged.push("checks were switched off".to_string());
    }
    if full {
        not_judged.push(
            "some races in global memory: the launch touches more of it than the checks can track"
                .to_string(),
        );
    }
    not_judged.extend(unjudged_at(program, &unjudged));
    not_judged.extend(dependent_launch(program, &outcome.costs));
    Ok(Report {
        counters: Counters::new(program, &outcome.costs),
        withheld: withheld(program, program.shape(), &outcome.costs),
        findings: outcome.findings.ranked(limits.findings),
        printed: outcome.printed,
        arose: outcome.arose,
        not_judged,
        reached,
    })
}

/// The number of blocks of a cluster that some devices grant. 8 is portable (CUDA C++ Programming Guide, "Thread Block
/// Clusters").
const MAX_CLUSTER: u32 = 16;

/// Returns the blocks of a cluster in each dimension, or a message if the launch or the kernel does not allow them.
fn cluster_of(program: &Program, launch: &Launch) -> Result<[u32; 3], String> {
    let clusters = &program.clusters;
    let cluster = launch.cluster.or(clusters.required).unwrap_or([1; 3]);
    let blocks = cluster.iter().try_fold(1_u32, |p, &n| p.checked_mul(n));
    let blocks = blocks.filter(|n| (1..=MAX_CLUSTER).contains(n));
    let Some(blocks) = blocks else {
        return Err(format!(
            "a cluster of {cluster:?} blocks: it has 1 to {MAX_CLUSTER}"
        ));
    };
    if let Some(required) = clusters.required
        && cluster != required
    {
        return Err(format!(
            "a cluster of {cluster:?}, but the kernel requires {required:?}"
        ));
    }
    if let Some(most) = clusters.most
        && blocks > most
    {
        return Err(format!(
            "a cluster of {blocks} blocks, but the kernel says at most {most}"
        ));
    }
    if clusters.explicit && launch.cluster.or(clusters.required).is_none() {
        return Err("the kernel runs in clusters only, and the launch gives none".into());
    }
    let fits = launch.grid.iter().zip(cluster).all(|(n, of)| n % of == 0);
    if fits {
        Ok(cluster)
    } else {
        Err(format!(
            "the grid {:?} is no multiple of the cluster {cluster:?}",
            launch.grid
        ))
    }
}

/// The memory during a launch. Dropping this removes the grid's workspace from it.
struct Held<'a>(&'a mut Memory);

impl<'a> Held<'a> {
    /// Adds the workspace if the launch needs it.
    fn by(memory: &'a mut Memory, with_workspace: bool) -> Held<'a> {
        if with_workspace {
            let mut bytes = vec![0; WORKSPACE_BYTES as usize];
            bytes[..4].copy_from_slice(&WORKSPACE_BYTES.to_le_bytes());
            memory.insert("the grid's workspace", WORKSPACE, bytes, true, false);
        }
        Held(memory)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.remove(WORKSPACE);
    }
}

/// The number of multiprocessors of an H100 or H200.
const MULTIPROCESSORS: u32 = 132;

/// Returns the number of blocks that [`MULTIPROCESSORS`] of sm_90 hold at a time, limited by threads and shared memory.
/// Registers, which ptxas allocates, may allow fewer.
fn most_resident(threads: u32, shared: u32) -> u32 {
    // Each block takes 1 KiB more for the system.
    let by_shared = (228 << 10) / (shared.next_multiple_of(128) + RESERVED_SHARED);
    let by_threads = 64 / threads.div_ceil(32);
    MULTIPROCESSORS * by_shared.min(by_threads).min(32)
}

/// The number of lines that a remark names, at most.
const MOST_LINES: usize = 3;

/// Names the lines of these instructions, the first few of them.
fn lines_of(program: &Program, instructions: impl Iterator<Item = u32>) -> String {
    let mut places: Vec<String> = Vec::new();
    for inst in instructions.filter_map(|n| program.code.get(n as usize)) {
        let place = program.place(inst.source);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let more = places.len().saturating_sub(MOST_LINES);
    places.truncate(MOST_LINES);
    let told = places.join(", ");
    match more {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// Says what is not checked of a launch that takes part in programmatic dependent launch. A grid runs alone here, so that
/// both instructions do nothing: what the grid before it still writes, and what the next one already reads, is not seen.
fn dependent_launch(program: &Program, costs: &[Cost]) -> Option<String> {
    let executed = (0..)
        .zip(program.code.iter().zip(costs))
        .filter(|(_, (inst, cost))| {
            cost.issued > 0 && program.form(inst).starts_with("griddepcontrol.")
        })
        .map(|(n, _)| n);
    let lines = lines_of(program, executed);
    (!lines.is_empty()).then(|| {
        format!(
            "programmatic dependent launch at {lines}: each grid runs alone, so that no access before \
             griddepcontrol.wait or behind griddepcontrol.launch_dependents overlaps with another grid"
        )
    })
}

/// Says which races were not judged, and why.
fn unjudged_at(program: &Program, unjudged: &Unjudged) -> Vec<String> {
    let at = |instructions: &BTreeSet<u32>| lines_of(program, instructions.iter().copied());
    let mut all = Vec::new();
    for (side, why) in [
        (
            FlagSide::Reader,
            "the read is no acquire, and no fence of the reading thread follows it, only a barrier of \
             the block",
        ),
        (
            FlagSide::Writer,
            "between the block's barrier and the write of the flag, the writing thread has no fence",
        ),
    ] {
        let flags: BTreeSet<u32> = unjudged
            .flags
            .iter()
            .filter(|(of, _)| *of == side)
            .map(|(_, flag)| *flag)
            .collect();
        if !flags.is_empty() {
            let read = at(&flags);
            all.push(format!(
                "races between blocks that synchronise by the flag read at {read}: {why}"
            ));
        }
    }
    if !unjudged.readers.is_empty() {
        all.push(format!(
            "whether all reads come before the write at {}: more threads read there unordered than the \
             check remembers",
            at(&unjudged.readers)
        ));
    }
    all
}
