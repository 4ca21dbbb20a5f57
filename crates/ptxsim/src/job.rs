//! A launch that fits its kernel, with its limits, the blocks that run, and its results.

use crate::analysis::AnalysedProgram;
use crate::check::global::Clustered;
use crate::circumstance::Circumstances;

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
    /// The blocks of the grid and of a cluster, in each dimension.
    pub grid: Clustered,
    pub block: [u32; 3],
    /// True if the launch or the kernel sets the size of a cluster.
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
