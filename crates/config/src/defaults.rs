//! The values that gates.yaml has for keys that nobody wrote.

use model::{Mode, Num, Pairing, Schedule, Simulation, WarpHazards};

/// The default number of seeds. They are 1 to this number.
pub const SEEDS: u64 = 5;
/// The most seeds. More are a mistake, because one seed of a large shape takes seconds.
pub const MAX_SEEDS: u64 = 1000;
/// The number of launches. A race that shows once in ten launches shows in eight with 57 %, and with five seeds with 98
/// %.
pub const LAUNCHES: u32 = 8;
/// The deadline of a case in ns. Checks take milliseconds, and a kernel that has not answered by then hangs.
pub const DEADLINE_NS: f64 = 30e9;

/// The deadline of a rival in ns. Loading PyTorch from a cold disk can take a minute.
pub const RIVAL_DEADLINE_NS: f64 = 120e9;

/// The deadline of a program in ns. Compiling an extension can take most of it.
pub const PROGRAM_DEADLINE_NS: f64 = 30.0 * 60e9;

/// The cost of a simulation, some seconds of one core, which is as long as a person waits for one case.
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
    // Two of these samples are beyond p99.
    singles: 200,
    // This is thousands of event ticks (32 ns on an H100).
    batch_ns: 200_000,
    // Placement differs between processes, and two that agree could be chance.
    processes: 3,
    max_processes: 8,
};

/// Returns how head is timed against a base revision. Chosen on recordings of an H100 and of five H200s: little GPU time for a case that is unchanged, and +1 % is always
/// detected at a tolerance of 0.5 % (docs/timing.md, "Measured").
pub fn pairing(unchanged: bool) -> Pairing {
    Pairing {
        quiet: vec![3, 4, 6],
        // If processes spread by 0.3 %, these detect +1 % at a tolerance of 0.5 % in 99.9 % of verdicts.
        looks: vec![8, 12, 18, 26, 38, 55],
        blocks: 32,
        // The median of three ignores one block that something interrupted.
        least_blocks: 3,
        // A smaller value would cost a little less GPU time, and leave more changes of 1 % undecided.
        blocks_ns: 10_000_000,
        // This is thousands of event ticks.
        sample_ns: 200_000,
        singles: 100,
        false_alarms: Num(0.01),
        misses: Num(0.01),
        seed: 1,
        unchanged,
    }
}
