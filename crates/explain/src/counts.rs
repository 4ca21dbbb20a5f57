//! Counts of both sides over a whole launch, by the simulator or by a profile.

use super::side::{CaseSide, Sides};
use model::{Counter, Launch, SimulationFacts};

/// The counts of one launch on each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountPair {
    pub base: f64,
    pub head: f64,
}

impl CountPair {
    /// Returns by how much head's count exceeds the base's.
    pub fn growth(self) -> f64 {
        self.head - self.base
    }

    /// Returns head over base, which is infinite if the base has none.
    pub fn ratio(self) -> f64 {
        if self.head == self.base {
            1.0
        } else {
            self.head / self.base
        }
    }

    /// Divides the count of each side by the side's other count.
    pub fn over(self, other: Self) -> Self {
        Self {
            base: self.base / other.base,
            head: self.head / other.head,
        }
    }

    /// Subtracts the side's other count from the count of each side.
    pub fn less(self, other: Self) -> Self {
        Self {
            base: self.base - other.base,
            head: self.head - other.head,
        }
    }
}

/// Returns the counts of both sides. Returns `None` if a side was neither simulated nor profiled. A base is not
/// simulated if nothing can have changed.
pub fn counted(sides: &Sides, counter: Counter) -> Option<CountPair> {
    let simulated = |side: &CaseSide| simulated(side, counter);
    let profiled = |side: &CaseSide| profiled(side, counter);
    // Both sides are counted by the same means, because the simulator counts PTX and a profile counts machine code.
    let both = |of: &dyn Fn(&CaseSide) -> Option<f64>| {
        Some(CountPair {
            base: of(&sides.base)?,
            head: of(&sides.head)?,
        })
    };
    both(&simulated).or_else(|| both(&profiled))
}

/// Returns the instructions that a warp of this side executes, on average.
pub fn instructions_per_warp(side: &CaseSide) -> Option<f64> {
    let counter = Counter::Instructions;
    let all = simulated(side, counter).or_else(|| profiled(side, counter))?;
    Some(all / warps(side)?)
}

/// Returns the average over the seeds.
fn simulated(side: &CaseSide, counter: Counter) -> Option<f64> {
    let counts = side
        .simulations
        .iter()
        .map(|facts| count(facts, counter))
        .collect::<Option<Vec<u64>>>()?;
    let sum: u64 = counts.iter().sum();
    (!counts.is_empty()).then(|| sum as f64 / counts.len() as f64)
}

fn count(facts: &SimulationFacts, counter: Counter) -> Option<u64> {
    let counters = [&facts.counters, &facts.information];
    counters
        .into_iter()
        .find_map(|counters| counters.get(&counter).copied())
}

/// Returns the count of the first repeat, over the kernels of the launch. Instructions ask for the same in each repeat.
fn profiled(side: &CaseSide, counter: Counter) -> Option<f64> {
    let kernels = &side.profiles.first()?.kernels;
    let sum: u64 = kernels
        .iter()
        .map(|kernel| kernel.counters.get(&counter))
        .sum::<Option<u64>>()?;
    (!kernels.is_empty()).then_some(sum as f64)
}

/// Returns the warps of one launch of all steps, or `None` if host code launches.
pub fn warps(side: &CaseSide) -> Option<f64> {
    let launches = side
        .case
        .steps
        .iter()
        .map(|step| step.launch.as_ref())
        .collect::<Option<Vec<&Launch>>>()?;
    let warps = |launch: &Launch| (blocks(launch) * launch.threads_per_block().div_ceil(32)) as f64;
    let sum: f64 = launches.into_iter().map(warps).sum();
    (sum > 0.0).then_some(sum)
}

pub fn blocks(launch: &Launch) -> u64 {
    launch.grid.iter().map(|&n| u64::from(n)).product()
}

/// Returns the amount for one warp of head.
pub fn per_warp(sides: &Sides, amount: f64) -> f64 {
    warps(&sides.head).map_or(0.0, |warps| amount / warps)
}
