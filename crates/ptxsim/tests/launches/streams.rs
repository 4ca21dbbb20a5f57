//! Accesses by lanes of one warp, strong accesses, and guesses of compare-and-swap loops
//! (tests/fixtures/streams.cu, as nvcc 13.0.88 compiled it: -O3 -lineinfo, sm_90). The start of a kernel's
//! name says what it has to raise.

use crate::common::*;
use ptxsim::FindingKind::*;
use ptxsim::*;

/// `name(x, y, z, n)`: x holds small numbers, y has no value, z is zeros; 3 blocks of 128 threads.
fn run(module: &Module, name: &str) -> Report {
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let words =
        |f: fn(usize) -> u32| -> Vec<u8> { (0..4096).flat_map(|i| f(i).to_le_bytes()).collect() };
    let x = put(&mut memory, "x", &words(|i| (i * 37 % 101) as u32));
    let y = memory.alloc("y", 4 * 4096).unwrap();
    let z = put(&mut memory, "z", &words(|_| 0));
    let args = [Arg::Ptr(x), Arg::Ptr(y), Arg::Ptr(z), Arg::I32(120)];
    let limits = Limits {
        instructions: 20_000_000,
        ..Limits::default()
    };
    let bytes = params(kernel, &args);
    launch(
        kernel,
        [3, 1, 1],
        [128, 1, 1],
        0,
        &bytes,
        &mut memory,
        limits,
    )
    .unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

fn kinds(report: &Report) -> Vec<FindingKind> {
    let mut kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    kinds.dedup();
    kinds
}

/// All kernels whose names start so; `right` says whether the kinds that were found are.
fn expect(start: &str, least: usize, right: impl Fn(&[FindingKind]) -> bool) {
    let module = load(&fixture("streams"));
    let all = module.kernels().iter().map(Kernel::name);
    let all: Vec<&str> = all.filter(|name| name.starts_with(start)).collect();
    assert!(all.len() >= least, "{all:?}");
    let mut wrong = Vec::new();
    for name in all {
        let report = run(&module, name);
        if !right(&kinds(&report)) {
            let told = report.findings.iter().map(|f| f.message.as_str());
            wrong.push(format!("{name}: {:#?}", told.collect::<Vec<_>>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_stream_is_no_more_than_a_hazard() {
    expect("hazard_", 10, |kinds| kinds == [WarpHazard]);
}

#[test]
fn branches_iterations_and_decisions_make_a_race() {
    expect("race_", 10, |kinds| kinds.contains(&WarpRace));
}

#[test]
fn strong_accesses_do_not_race() {
    expect("clean_", 6, <[_]>::is_empty);
}

#[test]
fn a_scope_that_does_not_reach_the_other_block_and_weak_accesses_race() {
    expect("scope_", 2, |kinds| kinds == [GlobalRace]);
    expect("mixed_", 1, |kinds| kinds.contains(&GlobalRace));
}

#[test]
fn a_compare_and_swap_loop_may_read_an_old_value_first() {
    expect("cas_", 6, <[_]>::is_empty);
}

#[test]
fn a_guess_that_is_used_otherwise_is_a_race() {
    expect("stale_", 4, |kinds| kinds.contains(&GlobalRace));
}

/// A message says what makes it a race, and not only that it is one.
#[test]
fn messages_say_why_the_lanes_can_part() {
    let module = load(&fixture("streams"));
    for (name, why) in [
        ("race_then_and_else", "in different branches"),
        ("race_next_iteration", "in different iterations"),
        ("race_decides_the_loop", "decides a branch"),
        ("hazard_neighbours", "no __syncwarp() orders this read"),
    ] {
        let report = run(&module, name);
        let told = |f: &Finding| f.message.contains(why);
        assert!(
            report.findings.iter().any(told),
            "{name}: {:#?}",
            report.findings
        );
    }
}
