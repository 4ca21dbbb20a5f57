//! A launch that fits its kernel, with its limits and the blocks that run.

use crate::analysis::AnalysedProgram;
use crate::check::global::Clustered;
use crate::circumstance::Circumstances;

/// Limits and options of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most warp instructions that the launch executes in total.
    pub instructions: u64,
    /// Most findings that are kept, after grouping by kind and source lines. The gravest kinds are kept first.
    pub findings: usize,
    /// Enables findings. Without checks a launch still reports faults (out of bounds, misaligned, deadlock, budget).
    pub checks: bool,
    /// Blocks run on as many threads where results cannot differ (with checks only). Results, counters
    /// and messages are the same for any number.
    pub threads: usize,
    /// At most this many of the blocks run, see [`sample`]: to estimate what the whole launch costs.
    /// `None` runs all.
    pub sample: Option<u32>,
    /// The circumstances that have unusual values. Addresses are those of the memory.
    pub varied: Circumstances,
    /// Looks where infinities and NaN arise (with checks only). That takes long.
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

/// At most `most` blocks of a grid, by number, spread over each of its dimensions: what a block has to do often
/// grows along one of them, as in causal attention, and equal steps through the numbers would meet the same
/// place of that dimension each time.
pub fn sample(grid: [u32; 3], most: u32) -> Vec<u32> {
    let blocks = grid.iter().map(|&n| u64::from(n)).product::<u64>();
    if blocks <= u64::from(most) {
        return (0..u32::try_from(blocks).unwrap_or(u32::MAX)).collect();
    }
    // Point i of `most` in the middle of stratum i of x, and of strata in another order of y and z.
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
    /// The blocks of the grid and of a cluster, in each dimension.
    pub grid: Clustered,
    pub block: [u32; 3],
    /// The launch or the kernel sets the size of a cluster explicitly.
    pub explicit_cluster: bool,
    /// Number of blocks in the grid.
    pub blocks: u32,
    pub shared_bytes: u32,
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub limits: Limits,
}

/// Returns the numbers of the clusters that run: all of the grid, or a sample with at most `sampled` blocks (but one
/// cluster at least).
pub fn chosen(grid: [u32; 3], cluster: [u32; 3], sampled: Option<u32>) -> Vec<u32> {
    let clusters = std::array::from_fn(|n| grid[n] / cluster[n]);
    let most = sampled.map_or(u32::MAX, |most| most / cluster.iter().product::<u32>());
    sample(clusters, most.max(1))
}
