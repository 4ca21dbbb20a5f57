//! Everyday CUDA (tests/fixtures/right.cu, as nvcc 13.0.88 compiled it: -O3 -lineinfo, sm_90), which may raise no finding.
//! tests/fixtures/faulty.cu has idioms with a fault, and its own annotations.

use crate::common::*;
use ptxsim::*;

/// Number of words in x and in z.
const WORDS: usize = 4096;

fn run(module: &Module, name: &str, grid: u32, block: u32, n: i32) -> Result<Report, Fault> {
    run_over(module, name, grid, block, n, |i| (i * 37 % 101) as u32)
}

/// Runs `name(x, y, z, n)`: x holds small numbers, y has no value, z is zeros.
fn run_over(
    module: &Module,
    name: &str,
    grid: u32,
    block: u32,
    n: i32,
    number: fn(usize) -> u32,
) -> Result<Report, Fault> {
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let words =
        |f: fn(usize) -> u32| -> Vec<u8> { (0..WORDS).flat_map(|i| f(i).to_le_bytes()).collect() };
    let x = put(&mut memory, "x", &words(number));
    let y = memory.alloc("y", 4 * WORDS as u64).unwrap();
    let z = put(&mut memory, "z", &words(|_| 0));
    let args = [Arg::Ptr(x), Arg::Ptr(y), Arg::Ptr(z), Arg::I32(n)];
    let limits = Limits {
        instructions: 20_000_000,
        ..Limits::default()
    };
    ptxsim::launch(
        kernel,
        [grid, 1, 1],
        [block, 1, 1],
        0,
        &params(kernel, &args),
        &mut memory,
        limits,
    )
}

/// The kernels with other sizes than 3 blocks of 128 threads and n = 128: blocks, threads, n.
const SIZES: [(&str, [u32; 2], i32); 17] = [
    ("mma_at", [1, 32], 128),
    ("ring", [3, 128], 1024),
    ("guarded_reads_hoisted", [3, 128], 128),
    ("transposition", [2, 128], 1024),
    ("tile_loaded_without", [2, 128], 1024),
    ("wmma", [1, 32], 128),
    ("stencil", [3, 128], 384),
    ("halo_across", [3, 128], 384),
    ("early_exit", [3, 128], 300),
    ("last_block", [3, 128], 384),
    ("named_barrier", [2, 128], 128),
    ("warp_reduction", [2, 128], 128),
    ("compaction", [3, 128], 384),
    ("vector_in_part", [2, 64], 128),
    ("half_of_a_vector", [2, 64], 128),
    ("off_by_one", [1, 32], 128),
    ("overwritten", [2, 128], 128),
];

fn size(name: &str) -> ([u32; 2], i32) {
    let own = SIZES.iter().find(|(start, ..)| name.starts_with(start));
    own.map_or(([3, 128], 128), |(_, size, n)| (*size, *n))
}

#[test]
fn right_idioms_raise_nothing() {
    let module = load(&fixture("right"));
    assert!(module.kernels().len() >= 40);
    let mut wrong = Vec::new();
    for kernel in module.kernels() {
        let ([grid, block], n) = size(kernel.name());
        match run(&module, kernel.name(), grid, block, n) {
            Ok(report) if report.findings.is_empty() => {}
            Ok(report) => wrong.push(format!("{}: {:#?}", kernel.name(), report.findings)),
            Err(fault) => wrong.push(format!("{}: {fault}", kernel.name())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The kernels raise no finding whatever the numbers are that decide branches and addresses, and for any number of
/// blocks.
#[test]
fn two_hundred_runs_of_right_kernels_raise_nothing() {
    let module = load(&fixture("right"));
    let numbers: [fn(usize) -> u32; 5] = [
        |_| 0,
        |_| 100,
        |i| (i % 101) as u32,
        |i| (i * i * 7 % 101) as u32,
        |i| (i as u32).wrapping_mul(2_654_435_761) >> 25,
    ];
    let (mut runs, mut wrong) = (0, Vec::new());
    for kernel in module.kernels() {
        let name = kernel.name();
        let ([grid, block], n) = size(name);
        let grids = [1, grid, grid + 1, 2 * grid, 2 * grid];
        for (number, blocks) in numbers.into_iter().zip(grids) {
            // n is the number of threads, or has nothing to do with it.
            let n = if n == (grid * block) as i32 {
                (blocks * block) as i32
            } else {
                n
            };
            runs += 1;
            match run_over(&module, name, blocks, block, n, number) {
                Ok(report) if report.findings.is_empty() => {}
                Ok(report) => wrong.push(format!("{name} of {blocks}: {:#?}", report.findings)),
                Err(fault) => wrong.push(format!("{name} of {blocks}: {fault}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(runs >= 200, "{runs}");
}

/// Only a loop that waits makes counters a matter of the schedule.
#[test]
fn volatile_reads_alone_are_no_polling() {
    let module = load(&fixture("right"));
    for (name, waits) in [
        ("volatile_reduction", false),
        ("every_lane_reads_its_own_sum", false),
        ("wait_for_a_flag_in_shared", true),
        ("wait_for_a_flag", true),
        ("lock", true),
    ] {
        let report = run(&module, name, 3, 128, 128).unwrap();
        let polls = report.withheld.values().any(|w| w.doubt == Doubt::Polls);
        assert_eq!(polls, waits, "{name}: {:?}", report.withheld);
    }
}
