//! Defaults of gates.yaml.

use model::{Mode, Num, Pairing, Schedule, Simulation, WarpHazards};

/// Seeds 1 to this.
pub const SEEDS: u64 = 5;
/// More is a mistake: one seed of a large shape takes seconds.
pub const MAX_SEEDS: u64 = 1000;
/// A race that shows once in ten launches shows in eight with 57 %; with five seeds, with 98 %.
pub const LAUNCHES: u32 = 8;
/// Checks take milliseconds; a kernel that has not answered by then hangs.
pub const DEADLINE_NS: f64 = 30e9;

/// Loading PyTorch from a cold disk can take a minute.
pub const RIVAL_DEADLINE_NS: f64 = 120e9;

/// Some seconds of one core: as long as a person waits for one case.
pub const SIMULATION: Simulation = Simulation {
    budget: 50_000_000,
    warp_hazards: WarpHazards::Note,
};

pub const TIMING: Schedule = Schedule {
    mode: Mode::Warm,
    // Clocks settle and caches fill within the first launches.
    warmup: 20,
    // The median of 30 batches of 200 us moves by 0.1 to 0.2 % between processes (docs/ARCHITECTURE.md).
    iterations: 30,
    // Two samples beyond p99.
    singles: 200,
    // Thousands of event ticks (32 ns on an H100).
    batch_ns: 200_000,
    // Placement differs between processes: two that agree can be chance.
    processes: 3,
    max_processes: 8,
};

/// On an H200 the log ratios of processes spread by 0.003 to 0.13 % where the code is the same, and by 0.3 %
/// for other code (docs/timing.md); these looks tell 1 % from 0.5 % up to a spread of 0.33 %.
pub fn pairing(unchanged: bool) -> Pairing {
    Pairing {
        looks: vec![6, 10, 20, 35],
        // The ratio of one block of a copy through HBM spreads by 0.5 %, the median of 32 by 0.1 %.
        blocks: 32,
        least_blocks: 6,
        // All processes that a kernel of up to 1 ms may take then cost less than 2 s of GPU time (docs/timing.md).
        blocks_ns: 24_000_000,
        // Thousands of event ticks.
        sample_ns: 200_000,
        singles: 100,
        false_alarms: Num(0.01),
        misses: Num(0.01),
        seed: 1,
        unchanged,
    }
}
