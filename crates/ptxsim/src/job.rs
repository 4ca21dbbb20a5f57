//! A launch that fits its kernel: its limits, the machine that runs it, and its results.

use crate::analysis::AnalysedProgram;
use crate::check::global::{Clustered, GlobalShadow};
use crate::circumstance::Circumstances;
use crate::exec::cluster::Cluster;
use crate::exec::observe::cost::Issues;
use crate::exec::observe::initialisation::Left;
use crate::exec::state::Machine;
use crate::exec::stream::Known;
use crate::memory::Memory;
use crate::quick::QuickMap;
use crate::report::{Cost, Findings};
use std::collections::HashMap;

/// Limits and options of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of warp instructions that the launch executes, at most.
    pub instructions: u64,
    /// The number of findings that are kept, at most, after grouping by kind and source lines. The gravest kinds are
    /// kept first.
    pub findings: usize,
    /// Enables findings. Without checks a launch still reports faults (out of bounds, misaligned, deadlock, budget).
    pub checks: bool,
    /// The number of threads on which blocks run where results cannot differ (with checks only; `parallel` says when).
    /// Values, counters and kinds of findings are the same for any number.
    pub threads: usize,
    /// The number of blocks that run, at most, to estimate what the whole launch costs ([`sample`]). `None` runs all.
    pub sample: Option<u32>,
    /// The circumstances that have unusual values. Where memory lies is decided when it is made.
    pub varied: Circumstances,
    /// True to look where infinities and NaNs arise (with checks only), which is slow.
    pub arising: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            instructions: 20_000_000_000,
            findings: 100,
            checks: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            sample: None,
            varied: Circumstances::default(),
            arising: false,
        }
    }
}

/// Returns the numbers of at most `most` blocks of a grid, spread over each of its dimensions. The work of a block
/// often grows along one of them, as in causal attention, and equal steps through the numbers would meet the same place
/// of that dimension each time.
pub fn sample(grid: [u32; 3], most: u32) -> Vec<u32> {
    let blocks = grid.iter().map(|&n| u64::from(n)).product::<u64>();
    if blocks <= u64::from(most) {
        return (0..u32::try_from(blocks).unwrap_or(u32::MAX)).collect();
    }
    // Point i of `most` lies in the middle of stratum i of x, and of strata in another order of y and z.
    let middle = |n: u32, stratum: u64| {
        (u64::from(n) * (2 * (stratum % u64::from(most)) + 1)) / (2 * u64::from(most))
    };
    let [x, y, z] = grid;
    let mut found: Vec<u32> = (0..u64::from(most))
        .map(|i| {
            let at = [
                middle(x, i),
                middle(y, i + u64::from(most / 2)),
                middle(z, u64::from(most) - 1 - i),
            ];
            let number = at[0] + u64::from(x) * (at[1] + u64::from(y) * at[2]);
            u32::try_from(number).unwrap_or(u32::MAX)
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A launch that fits its kernel.
pub struct Job<'a> {
    pub program: &'a AnalysedProgram,
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// True if the launch or the kernel sets the size of a cluster.
    pub explicit_cluster: bool,
    /// Number of blocks in the grid.
    pub blocks: u32,
    pub shared_bytes: u32,
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub limits: Limits,
}

/// The results of a launch, or of a part of it, that has ended.
pub struct Outcome {
    pub costs: Vec<Cost>,
    pub findings: Findings,
    pub printed: Vec<String>,
    pub arose: Vec<model::Arose>,
}

/// Returns the numbers of the clusters that run: all of the grid, or a sample with at most `sampled` blocks (but one
/// cluster at least).
pub fn chosen(grid: [u32; 3], cluster: [u32; 3], sampled: Option<u32>) -> Vec<u32> {
    let clusters = std::array::from_fn(|n| grid[n] / cluster[n]);
    let most = sampled.map_or(u32::MAX, |most| most / cluster.iter().product::<u32>());
    sample(clusters, most.max(1))
}

impl<'a> Job<'a> {
    /// Returns the number of blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Builds a machine that runs blocks of the launch. `room` is the number of bytes that the checks of global memory
    /// may take.
    pub fn machine<'m>(&'m self, memory: &'m mut Memory, room: u64) -> Machine<'m>
    where
        'a: 'm,
    {
        let code = &self.program.code;
        let grid = Clustered {
            grid: self.grid,
            cluster: self.cluster,
        };
        memory.forget_origins();
        Machine {
            program: self.program,
            origins: self.program.origins(),
            memory,
            params: self.params,
            grid,
            cluster: Cluster::default(),
            block: self.block,
            shared_bytes: self.shared_bytes,
            dynamic_shared: self.dynamic_shared,
            cooperative: self.cooperative,
            explicit_cluster: self.explicit_cluster,
            varied: self.limits.varied,
            arising: self.limits.arising.then(Default::default),
            named: self.limits.varied.named(self.program),
            costs: vec![Cost::default(); code.len()],
            issues: Issues::new(code.len()),
            findings: Findings::default(),
            ways: Known::new(self.program),
            left: Left::new(),
            followed: QuickMap::default(),
            instructions_left: self.limits.instructions,
            patterns: code.iter().map(|_| None).collect(),
            fragments: vec![None; code.len()],
            hint: usize::MAX,
            global: self
                .limits
                .checks
                .then(|| GlobalShadow::new(code.len(), room, grid, self.program.blocks_meet())),
            handed: HashMap::new(),
            map_changes: HashMap::new(),
            progress: 0,
            crossed: false,
            printed: Vec::new(),
            unprinted: 0,
        }
    }
}

impl Machine<'_> {
    /// Takes the results out of the machine.
    pub fn outcome(&mut self) -> Outcome {
        self.issues.settle(&mut self.costs);
        if self.unprinted > 0 {
            self.printed
                .push(format!("... and {} more", self.unprinted));
        }
        Outcome {
            costs: std::mem::take(&mut self.costs),
            findings: std::mem::take(&mut self.findings),
            printed: std::mem::take(&mut self.printed),
            arose: self
                .arising
                .take()
                .into_iter()
                .flatten()
                .flatten()
                .collect(),
        }
    }
}
