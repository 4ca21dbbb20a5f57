//! Everyday CUDA, right (tests/fixtures/right.cu) and with a fault (tests/fixtures/faulty.cu): the one may
//! raise no finding, the other is named at its line. As nvcc 13.0.88 compiled them (-O3 -lineinfo, sm_90).

use crate::common::*;
use ptxsim::FindingKind::*;
use ptxsim::*;

/// Words of x and z.
const WORDS: usize = 4096;

fn run(module: &Module, name: &str, grid: u32, block: u32, n: i32) -> Result<Report, Fault> {
    run_over(module, name, grid, block, n, |i| (i * 37 % 101) as u32)
}

/// `name(x, y, z, n)`: x holds small numbers, y has no value, z is zeros.
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

/// Sizes other than 3 blocks of 128 threads and n = 128: blocks, threads, n.
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

/// Whatever the numbers are on which branches and addresses hang, and however many blocks there are.
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
            let n = match n == (grid * block) as i32 {
                true => (blocks * block) as i32,
                false => n,
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

enum Told {
    Found(FindingKind),
    Stopped(FaultKind),
}
use Told::*;

/// The expected message for each faulty kernel.
const FAULTS: &[(&str, Told)] = &[
    ("flags_differ", Found(SharedRace)),
    ("flag_without_barrier", Found(SharedRace)),
    ("flag_before_its_zero", Found(SharedRace)),
    ("lanes_store_their_own", Found(SharedRace)),
    ("blocks_store_their_own", Found(GlobalRace)),
    ("lanes_store_their_own_in_global", Found(GlobalRace)),
    ("sum_read_by_another_warp", Found(SharedRace)),
    ("ring_one_too_small", Found(AsyncBeforeWait)),
    ("ring_one_too_small_read", Found(AsyncBeforeWait)),
    ("ring_two_too_small", Found(AsyncBeforeWait)),
    ("ring_without_second_barrier", Found(SharedRace)),
    ("copy_read_before_its_wait", Found(AsyncBeforeWait)),
    ("copy_read_without_a_barrier", Found(SharedRace)),
    ("copy_over_what_is_stored", Found(AsyncBeforeWait)),
    ("copies_of_different_values", Found(SharedRace)),
    ("cas_loop_that_stores_its_guess", Found(GlobalRace)),
    ("cas_of_another_place", Found(GlobalRace)),
    ("cas_whose_guess_decides", Found(GlobalRace)),
    ("cas_after_a_plain_store", Found(GlobalRace)),
    ("warp_reduction_without_syncs", Found(WarpRace)),
    ("volatile_warp_reduction_without_syncs", Found(WarpHazard)),
    ("write_after_others_read", Found(WarpHazard)),
    ("hazard_in_global", Found(WarpHazard)),
    ("reduction_without_barrier", Found(SharedRace)),
    ("partial_sums_without_barrier", Found(SharedRace)),
    ("sums_written_again_too_early", Found(SharedRace)),
    ("tile_loaded_without_barrier", Found(SharedRace)),
    ("tile_loaded_again_too_early", Found(SharedRace)),
    ("scan_in_one_buffer", Found(SharedRace)),
    ("histogram_without_atomics", Found(SharedRace)),
    ("histogram_without_barrier", Found(SharedRace)),
    ("sum_in_global_without_atomics", Found(GlobalRace)),
    ("last_block_without_fence", Found(GlobalRace)),
    ("flag_without_fence", Found(GlobalRace)),
    ("blocks_share_a_sum", Found(GlobalRace)),
    ("halo_across_blocks", Found(GlobalRace)),
    ("read_past_the_end", Stopped(FaultKind::OutOfBounds)),
    ("write_past_the_end", Stopped(FaultKind::OutOfBounds)),
    ("read_before_the_start", Stopped(FaultKind::OutOfBounds)),
    ("off_by_one_in_a_loop", Stopped(FaultKind::OutOfBounds)),
    ("shared_past_the_end", Stopped(FaultKind::OutOfBounds)),
    ("vector_not_aligned", Stopped(FaultKind::Misaligned)),
    ("barrier_in_a_branch", Stopped(FaultKind::Deadlock)),
    ("barrier_after_an_exit", Found(BarrierByPart)),
    ("mask_names_others", Found(InvalidMembers)),
    ("mask_without_itself", Found(InvalidMembers)),
    ("shared_never_written", Found(UninitialisedShared)),
    ("sum_of_too_many", Found(UninitialisedShared)),
    ("undefined_decides", Found(UninitialisedShared)),
    ("undefined_is_an_index", Found(UninitialisedShared)),
    ("undefined_goes_round", Found(UninitialisedShared)),
    ("local_array_read_too_far", Found(UninitialisedLocal)),
    ("output_is_added_to", Found(UninitialisedGlobal)),
    ("atomic_on_nothing", Found(UninitialisedGlobal)),
    ("shared_atomic_on_nothing", Found(UninitialisedShared)),
    ("wmma_of_too_many_rows", Found(UninitialisedShared)),
    ("wmma_without_sync", Found(WarpRace)),
    ("lock_without_fence", Found(GlobalRace)),
    ("trap_of_a_thread", Stopped(FaultKind::Trap)),
    ("producers_forgotten", Found(SharedRace)),
    ("double_buffer_not_turned", Found(SharedRace)),
    ("half_of_a_vector_missing", Found(UninitialisedShared)),
    ("swapped_in_place", Found(SharedRace)),
    ("counter_without_atomics", Found(SharedRace)),
];

#[test]
fn faulty_idioms_are_named_at_their_line() {
    let module = load(&fixture("faulty"));
    let names: Vec<&str> = module.kernels().iter().map(Kernel::name).collect();
    assert!(FAULTS.len() >= 60 && FAULTS.len() == names.len());
    let path = format!("{}/tests/fixtures/faulty.cu", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let line_of = |name: &str| {
        let marked = |line: &str| {
            line.split_once("//")
                .is_some_and(|(_, names)| names.split(' ').any(|n| n == name))
        };
        let at = source.lines().skip(4).position(marked);
        format!(
            "faulty.cu:{}",
            at.unwrap_or_else(|| panic!("no line of {name}")) + 5
        )
    };
    let mut wrong = Vec::new();
    for (name, told) in FAULTS {
        let ([grid, block], n) = size(name);
        let (report, line) = (run(&module, name, grid, block, n), line_of(name));
        let here = |place: &String| place.split(' ').any(|word| *word == line);
        let right = match (told, &report) {
            (Found(kind), Ok(report)) => {
                let of_kind = |f: &&Finding| f.kind == *kind;
                report
                    .findings
                    .iter()
                    .filter(of_kind)
                    .any(|f| f.places.iter().any(|place| here(&place.at)))
            }
            (Stopped(kind), Err(fault)) => {
                // A deadlock has several places, all in its message.
                fault.kind == *kind && (here(&fault.place.at) || fault.message.contains(&line))
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{name}, {line}: {report:#?}"));
        }
    }
    let told = |r: String| r.split("counters:").next().unwrap_or_default().to_owned();
    let wrong: Vec<String> = wrong.into_iter().map(told).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}: {}",
        wrong.len(),
        FAULTS.len(),
        wrong.join("\n")
    );
}
