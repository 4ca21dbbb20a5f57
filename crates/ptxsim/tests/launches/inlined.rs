//! Tests the lines of functions that nvcc inlined more than once (tests/fixtures/inlined.cu, nvcc 13.0.88 -lineinfo):
//! the call that is meant, and the line of the user's own that counts.

use crate::common::*;
use ptxsim::*;

fn own(file: &str) -> bool {
    !file.starts_with("cuda/include/")
}

/// Runs one warp over buffers of `floats` floats.
fn run(name: &str, own: fn(&str) -> bool, floats: usize) -> Result<Report, Fault> {
    let module = Module::load_with_own(&fixture("inlined"), own).unwrap();
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let buffers = ["x", "y", "out"].map(|n| put(&mut memory, n, &vec![0; 4 * floats]));
    let p = params(kernel, &buffers.map(Arg::Ptr));
    launch(kernel, [1; 3], [32, 1, 1], 0, &p, &mut memory, limits())
}

#[test]
fn each_call_of_a_function_is_named() {
    // 96 floats are enough for the first load of each pair, and not for the second: of `x`, then of `y`.
    let fault = run("in_order", own, 95).unwrap_err();
    assert_eq!(
        fault.place.at,
        "cuda/include/sm_32_intrinsics.hpp:134 inlined at inlined.cu:3 inlined at inlined.cu:8 inlined at inlined.cu:15"
    );
    let text = fixture("inlined").replace("%rd5, [in_order_param_0]", "%rd5, [in_order_param_2]");
    assert_ne!(text, fixture("inlined"));
    let module = Module::load_with_own(&text, own).unwrap();
    let kernel = module.kernel("in_order").unwrap();
    let mut memory = Memory::default();
    let [short, long] = [95, 96].map(|n| put(&mut memory, "data", &vec![0; 4 * n]));
    let p = params(kernel, &[long, short, long].map(Arg::Ptr));
    let fault = launch(kernel, [1; 3], [32, 1, 1], 0, &p, &mut memory, limits()).unwrap_err();
    assert_eq!(
        fault.place.at,
        "cuda/include/sm_32_intrinsics.hpp:134 inlined at inlined.cu:3 inlined at inlined.cu:8 inlined at inlined.cu:16"
    );
}

/// The text before `.loc 2 134 49, ..., inlined_at 1 3 5` names both calls, and nothing says which of them is
/// meant once code of the two takes turns.
#[test]
fn calls_that_take_turns_are_both_named() {
    let place = |floats: usize| run("by_turns", own, floats).unwrap_err().place.at;
    // Too short for the first load of `x`, the first of `y`, the second of `x`.
    assert_eq!(
        place(62),
        "cuda/include/sm_32_intrinsics.hpp:134 inlined at inlined.cu:3 inlined at inlined.cu:26"
    );
    assert_eq!(
        place(120),
        "cuda/include/sm_32_intrinsics.hpp:134 inlined at inlined.cu:3 inlined at inlined.cu:26 or inlined.cu:28"
    );
}

#[test]
fn counts_stand_at_the_users_own_line() {
    let lines = |name, own| {
        let report = clean(run(name, own, 200));
        report.counters.lines(Counter::GlobalLoadSectors, 9)
    };
    let line = |place: &str, count| LineCount {
        place: place.to_owned(),
        count,
        text: None,
    };
    assert_eq!(
        lines("in_order", own),
        [line("inlined.cu:3 inlined at several places", 16)]
    );
    assert_eq!(
        lines("by_turns", own),
        [line("inlined.cu:3 inlined at several places", 36)]
    );
    // Who does not tell files apart gets the header's.
    assert_eq!(
        lines("in_order", |_| true),
        [line(
            "cuda/include/sm_32_intrinsics.hpp:134 inlined at several places",
            16
        )]
    );
    let report = clean(run("in_order", own, 200));
    assert_eq!(
        report.counters.lines(Counter::GlobalStoreSectors, 9),
        [line("inlined.cu:17", 4)]
    );
}
