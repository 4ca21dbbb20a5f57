//! Parts of the system that a launch uses: a grid whose blocks synchronise, and the heap (tests/fixtures/system.cu, as
//! nvcc 13.0.88 compiled it: -O3 -lineinfo, sm_90).

use crate::common::*;
use ptxsim::*;

const WORDS: usize = 4096;

struct Ran {
    result: Result<Report, Fault>,
    y: Vec<u8>,
    /// Words of y that nothing wrote.
    unwritten: usize,
}

impl Ran {
    fn words(&self) -> Vec<i32> {
        let word = |c: &[u8]| i32::from_le_bytes(c.try_into().unwrap());
        self.y.chunks_exact(4).map(word).collect()
    }
}

/// `name(x, y, n)`: x holds small numbers, y has no value.
fn run(name: &str, cooperative: bool, grid: u32, block: u32, n: i32) -> Ran {
    let module = load(&fixture("system"));
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let numbers: Vec<u8> = (0..WORDS)
        .flat_map(|i| (i as u32 * 37 % 101).to_le_bytes())
        .collect();
    let x = put(&mut memory, "x", &numbers);
    let y = memory.alloc("y", 4 * WORDS as u64).unwrap();
    let params = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(n)]);
    let launch = Launch {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: None,
        cooperative,
        dynamic_shared: 0,
    };
    let limits = Limits {
        instructions: 20_000_000,
        ..Limits::default()
    };
    let result = launch_as(kernel, &launch, &params, &mut memory, limits);
    let unwritten = memory.without_value(y, 4 * WORDS).unwrap();
    Ran {
        result,
        y: memory.read(y, 4 * WORDS).unwrap().to_vec(),
        unwritten: unwritten.into_iter().map(|r| r.len() / 4).sum(),
    }
}

/// `system.cu:LINE` of the line that a kernel marks as its fault.
fn fault_of(name: &str) -> String {
    let path = format!("{}/tests/fixtures/system.cu", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let mut lines = source.lines().zip(1..);
    lines.find(|(line, _)| line.starts_with(&format!("KERNEL({name})")));
    let marked = lines.find(|(line, _)| line.contains("// fault: here"));
    format!("system.cu:{}", marked.unwrap().1)
}

#[test]
fn blocks_of_a_cooperative_launch_wait_for_each_other() {
    for grid in [1, 2, 7, 132] {
        let ran = run("reversed_by_the_grid", true, grid, 64, 1000);
        let report = clean(ran.result.clone());
        let expected: Vec<i32> = (0..1000).map(|i| 3 * (999 - i)).collect();
        assert_eq!(ran.words()[..1000], expected);
        assert_eq!(ran.unwritten, WORDS - 1000);
        // The loop that waits turns as often as the schedule makes it.
        assert!(report.withheld.values().all(|w| w.doubt == Doubt::Polls));
        assert!(!report.withheld.is_empty());
    }
}

#[test]
fn a_grid_synchronises_again_and_again() {
    let (n, steps) = (3 * 64, 6);
    let ran = run("steps_of_the_grid", true, 3, 64, steps);
    clean(ran.result.clone());
    let mut now: Vec<i32> = (0..n).collect();
    // An even number of steps ends in x: y has what was before the last.
    for _ in 1..steps {
        now = (0..n as usize)
            .map(|i| now[i] + now[(i + 1) % n as usize])
            .collect();
    }
    assert_eq!(ran.words()[..n as usize], now);
}

#[test]
fn blocks_that_do_not_wait_race() {
    let ran = run("reversed_without_sync", true, 3, 64, 1000);
    let found = ran.result.unwrap().findings;
    assert!(
        found.iter().any(|f| f.kind == FindingKind::GlobalRace),
        "{found:?}"
    );
}

/// Cooperative groups trap where the grid has no workspace; in other launches it has none.
#[test]
fn a_launch_that_is_not_cooperative_says_so() {
    let fault = run("reversed_by_the_grid", false, 3, 64, 1000)
        .result
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Trap);
    assert!(
        fault.message.contains("the launch is not cooperative"),
        "{fault}"
    );
}

#[test]
fn a_grid_that_is_not_resident_as_a_whole_is_refused() {
    // 2048 threads on each of 132 multiprocessors.
    clean(run("reversed_by_the_grid", true, 264, 1024, 4096).result);
    let fault = run("reversed_by_the_grid", true, 265, 1024, 4096)
        .result
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Launch);
    assert!(
        fault.message.contains("265 blocks") && fault.message.contains("hold 264"),
        "{fault}"
    );
}

#[test]
fn the_heap_gives_and_takes() {
    let ran = run("list_of_each_thread", false, 2, 64, 10);
    clean(ran.result.clone());
    let expected: Vec<i32> = (0..128).map(|i| 45 * (i % 64)).collect();
    assert_eq!(ran.words()[..128], expected);

    let ran = run("buffer_of_a_block", false, 3, 64, 0);
    clean(ran.result.clone());
    let x = |i: i32| i * 37 % 101;
    let expected: Vec<i32> = (0..192).map(|i| x(i / 64 * 64 + 63 - i % 64)).collect();
    assert_eq!(ran.words()[..192], expected);
}

/// Memory with a pointer to it is not lost, and another launch may use and free it.
#[test]
fn the_heap_outlives_a_launch() {
    let module = load(&fixture("system"));
    let mut memory = Memory::default();
    let x = memory.alloc("x", 64 * 8).unwrap();
    let y = memory.alloc("y", 64 * 4).unwrap();
    let mut run = |name: &str| {
        let kernel = module.kernel(name).unwrap();
        let params = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(3)]);
        launch(
            kernel,
            [2, 1, 1],
            [32, 1, 1],
            0,
            &params,
            &mut memory,
            limits(),
        )
    };
    clean(run("kept"));
    clean(run("freed_later"));
    let fault = run("freed_later").unwrap_err();
    assert!(fault.message.contains("use after free"), "{fault}");
    let expected: Vec<u8> = (0..64_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(memory.read(y, 256).unwrap(), expected);
}

/// 8 MiB, as long as nobody asks for more: `malloc` gives a null pointer, and freeing that does nothing.
#[test]
fn the_heap_has_an_end() {
    let ran = run("more_than_there_is", false, 1, 32, 9);
    clean(ran.result.clone());
    assert_eq!(ran.words()[..32], [1; 32]);
    // With 32 threads that ask for 1 MiB each, 8 are served at a time.
    let ran = run("more_than_there_is", false, 1, 32, 1);
    clean(ran.result.clone());
    assert_eq!(ran.words()[..32].iter().sum::<i32>(), 24);
}

#[test]
fn misuse_of_the_heap_is_found_at_its_line() {
    for (name, kind, text) in [
        (
            "buffer_without_a_barrier",
            FindingKind::GlobalRace,
            "malloc at",
        ),
        ("never_freed", FindingKind::Leak, "40 bytes are lost"),
        (
            "freed_twice",
            FindingKind::InvalidFree,
            "it was freed at system.cu:",
        ),
        (
            "freed_in_the_middle",
            FindingKind::InvalidFree,
            "malloc did not give that",
        ),
        (
            "never_written",
            FindingKind::UninitialisedGlobal,
            "malloc at",
        ),
    ] {
        let findings = run(name, false, 1, 64, 10).result.unwrap().findings;
        let of_kind = findings.iter().find(|f| f.kind == kind);
        let finding = of_kind.unwrap_or_else(|| panic!("{name}: {findings:#?}"));
        assert!(finding.message.contains(text), "{}", finding.message);
        assert!(
            finding
                .places
                .iter()
                .any(|place| place.at == fault_of(name)),
            "{finding:?}"
        );
    }
    for (name, text) in [
        ("read_after_free", "use after free: address"),
        (
            "past_its_end",
            "directly past the end of `malloc at system.cu:",
        ),
    ] {
        let fault = run(name, false, 1, 64, 10).result.unwrap_err();
        assert_eq!(fault.kind, FaultKind::OutOfBounds);
        assert!(fault.message.contains(text), "{fault}");
        assert_eq!(fault.place.at, fault_of(name));
    }
}
