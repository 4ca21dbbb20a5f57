//! Real kernels on a real GPU: what goes wrong on a device becomes the right fault, and the next case
//! goes on. Run with `cargo test --test gpu -- --ignored --test-threads=1`; needs nvcc (NVCC, or on PATH).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests; what is measured is worth reading"
)]

use gatekeeper::build::Artifact;
use gatekeeper::device::DeviceChoice;
use gatekeeper::worker::{CheckAnswer, CheckJob, Crew, Expected, TimeJob};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use verdict::model::{
    Arg, Case, CaseId, CheckFacts, Determinism, ElemType, Fault, FaultKind, Fill, Launch, Location,
    Mode, Num, Reference, Role, ScalarType, ScalarValue, Schedule, Seen, Tensor, TimeFacts,
};

const N: usize = 200;

/// The machine that has a GPU need not be the one that built this.
fn gatekeeper() -> PathBuf {
    std::env::var_os("GATEKEEPER_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_gatekeeper").into(), PathBuf::from)
}

fn nvcc(source: &str, flags: &[&str], output: &str) -> PathBuf {
    static DIR: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let output = DIR.path().join(output);
    if !output.exists() {
        let manifest = std::env::var_os("GATEKEEPER_SOURCES")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let nvcc = std::env::var_os("NVCC").unwrap_or_else(|| "nvcc".into());
        let done = Command::new(nvcc)
            .args(["-arch=native", "-O3"])
            .args(flags)
            .arg("-o")
            .arg(&output)
            .arg(manifest.join("tests/fixtures/gpu").join(source))
            .output()
            .expect("nvcc starts; set NVCC");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    output
}

/// Built once: this holds the lock while nvcc runs.
static CUBIN: LazyLock<PathBuf> =
    LazyLock::new(|| nvcc("entries.cu", &["-cubin"], "entries.cubin"));
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    nvcc(
        "launchers.cu",
        &["-shared", "-Xcompiler", "-fPIC"],
        "liblaunchers.so",
    )
});

fn entry(symbol: &str) -> Artifact {
    Artifact::Cubin {
        path: CUBIN.clone(),
        symbol: symbol.into(),
    }
}

fn launcher(function: &str) -> Artifact {
    Artifact::Launcher {
        library: LIBRARY.clone(),
        function: function.into(),
        entries: vec![],
    }
}

fn crew() -> Crew {
    Crew::of_program(gatekeeper(), DeviceChoice::Cuda { ordinal: 0 })
}

fn tensor(name: &str, role: Role) -> Tensor {
    Tensor {
        name: name.into(),
        role,
        elem: ElemType::F32,
        dims: vec![N],
        strides: None,
        fill: (role != Role::Out).then_some(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
        }),
        codec: None,
    }
}

fn pointer(name: &str) -> Arg {
    Arg::Tensor { name: name.into() }
}

fn scalar(elem: ScalarType, value: ScalarValue) -> Arg {
    Arg::Scalar { elem, value }
}

fn int(value: i64) -> Arg {
    scalar(ScalarType::I32, ScalarValue::Int(value))
}

fn case(variant: &str) -> Case {
    Case {
        id: CaseId {
            kernel: "fixture".into(),
            variant: variant.into(),
            shape: "s".into(),
        },
        dims: BTreeMap::new(),
        tensors: vec![tensor("x", Role::In), tensor("y", Role::Out)],
        args: vec![pointer("x"), pointer("y"), int(N as i64)],
        launch: Some(Launch {
            grid: [1, 1, 1],
            block: [256, 1, 1],
            cluster: None,
            dynamic_shared: 0,
        }),
        seeds: vec![1],
        reference: Reference::Variant {
            variant: "right".into(),
        },
        tolerance: Some(Num(0.0)),
        determinism: Determinism::BitExact,
        launches: 8,
        deadline_ms: 20_000,
        timed: true,
    }
}

fn launcher_case(variant: &str) -> Case {
    let mut case = case(variant);
    case.launch = None;
    case.args.push(Arg::Stream);
    case
}

/// Against `right`, which doubles.
fn check(crew: &mut Crew, case: Case, artifact: Artifact) -> CheckAnswer {
    crew.check(CheckJob {
        case,
        artifact,
        seed: 1,
        expected: Expected::Variant {
            case: Box::new(self::case("right")),
            artifact: entry("right"),
        },
        dump: None,
    })
}

fn check_entry(crew: &mut Crew, symbol: &str) -> CheckAnswer {
    check(crew, case(symbol), entry(symbol))
}

fn got(answer: CheckAnswer) -> CheckFacts {
    match answer.check {
        Seen::Got(facts) => facts,
        other => panic!("{other:?}"),
    }
}

fn fault(answer: CheckAnswer) -> Fault {
    match answer.check {
        Seen::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn assert_right(facts: &CheckFacts) {
    assert_eq!((facts.error.max_err, facts.error.non_finite), (Num(0.0), 0));
    assert_eq!((&facts.differs, facts.unwritten), (&None, 0));
    assert!(
        facts.clobbered_inputs.is_empty() && facts.overruns.is_empty(),
        "{facts:?}"
    );
}

fn assert_goes_on(crew: &mut Crew) {
    assert_right(&got(check_entry(crew, "right")));
}

fn y(index: usize) -> Location {
    Location {
        tensor: "y".into(),
        index: vec![index],
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn the_device_says_what_it_is() {
    let Seen::Got(device) = crew().device() else {
        panic!("no device")
    };
    println!("{device:#?}");
    assert!(device.uuid.starts_with("GPU-") && device.uuid.len() == 40);
    assert!(device.multiprocessors > 0 && device.l2_bytes > 0 && device.memory_bytes > 1 << 30);
    assert_ne!(device.driver, "unknown");
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_device_that_is_not_there_is_the_environment() {
    let mut crew = Crew::of_program(gatekeeper(), DeviceChoice::Cuda { ordinal: 63 });
    let Seen::Fault(fault) = crew.device() else {
        panic!("there is no such device")
    };
    assert_eq!(fault.kind, FaultKind::Environment);
    assert!(
        fault.message.contains("cuda:63 was asked for"),
        "{}",
        fault.message
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_right_kernel_passes_and_the_driver_describes_it() {
    let answer = check_entry(&mut crew(), "right");
    let driver = answer.driver.got().expect("driver facts").clone();
    assert_right(&got(answer));
    let [entry] = driver.entries.as_slice() else {
        panic!("{driver:?}")
    };
    println!("{entry:?}");
    assert_eq!(entry.symbol, "right");
    assert!(entry.registers > 0 && entry.blocks_per_sm > 0);
    assert_eq!((entry.static_shared, entry.local), (0, 0));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn device_faults_end_the_worker_and_not_the_run() {
    let mut crew = crew();
    for (symbol, says) in [
        ("far_out", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("asserts", "CUDA_ERROR_ASSERT"),
        ("misaligned", "CUDA_ERROR_MISALIGNED_ADDRESS"),
    ] {
        let answer = check_entry(&mut crew, symbol);
        assert!(answer.driver.got().is_some(), "the driver was asked before");
        let fault = fault(answer);
        println!("{symbol}: {fault:?}");
        assert_eq!(fault.kind, FaultKind::DeviceFault);
        assert!(fault.message.contains(says), "{}", fault.message);
        assert_goes_on(&mut crew);
    }
    assert_eq!(crew.costs().workers, 4);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn an_endless_kernel_is_killed_at_its_deadline() {
    let mut crew = crew();
    let mut endless = case("endless");
    endless.deadline_ms = 3_000;
    let fault = fault(check(&mut crew, endless, entry("endless")));
    println!("{fault:?}");
    assert_eq!(fault.kind, FaultKind::Hang);
    assert!(
        fault
            .message
            .contains("no answer within 3.0 s, last seen launch 1 of 8"),
        "{}",
        fault.message
    );
    assert_goes_on(&mut crew);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launches_that_the_driver_refuses_say_why_and_keep_the_worker() {
    let mut crew = crew();
    let mut greedy = case("stages");
    greedy.launch.as_mut().unwrap().dynamic_shared = 1 << 20;
    let shared = fault(check(&mut crew, greedy, entry("stages")));
    println!("{shared:?}");
    assert_eq!(shared.kind, FaultKind::LaunchRefused);
    assert!(
        shared
            .message
            .contains("1048576 bytes of dynamic shared memory")
            && shared.message.contains("allows a block"),
        "{}",
        shared.message
    );
    let mut wide = case("right");
    wide.launch.as_mut().unwrap().block = [2048, 1, 1];
    let threads = fault(check(&mut crew, wide, entry("right")));
    println!("{threads:?}");
    assert_eq!(threads.kind, FaultKind::LaunchRefused);
    assert!(
        threads.message.contains("block 2048x1x1"),
        "{}",
        threads.message
    );

    let missing = fault(check_entry(&mut crew, "no_such_kernel"));
    println!("{missing:?}");
    assert_eq!(missing.kind, FaultKind::EntryNotFound);
    assert_goes_on(&mut crew);
    assert_eq!(crew.costs().workers, 1);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn what_a_kernel_does_wrong_without_a_fault_is_found() {
    let mut crew = crew();
    let wrong = got(check_entry(&mut crew, "wrong"));
    assert_eq!(wrong.error.worst.map(|worst| worst.at), Some(y(5)));

    let near = got(check_entry(&mut crew, "near_out"));
    assert_eq!(near.overruns, ["y: 0 bytes past its end"]);

    let half = got(check_entry(&mut crew, "half_written"));
    assert_eq!(
        (half.unwritten, half.first_unwritten),
        (N as u64 / 2, Some(y(N / 2)))
    );

    let clobbers = got(check_entry(&mut crew, "clobbers"));
    assert_eq!(clobbers.clobbered_inputs, ["x"]);

    let differs = got(check_entry(&mut crew, "differs"))
        .differs
        .expect("it reads a clock");
    assert_eq!((differs.at, differs.elements), (y(7), 1));
    assert_eq!(crew.costs().workers, 1);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_kernel_that_prints_frames_does_not_speak_for_the_worker() {
    assert_right(&got(check_entry(&mut crew(), "talks")));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn shared_memory_clusters_structs_and_in_out_tensors() {
    let mut crew = crew();
    let mut staged = case("stages");
    staged.launch.as_mut().unwrap().dynamic_shared = 100 << 10;
    let answer = check(&mut crew, staged, entry("stages"));
    println!("{:?}", answer.driver);
    assert_right(&got(answer));

    let mut clustered = case("clustered");
    let launch = clustered.launch.as_mut().unwrap();
    launch.grid = [2, 1, 1];
    launch.cluster = Some([2, 1, 1]);
    assert_right(&got(check(&mut crew, clustered, entry("clustered"))));

    let mut by_value = case("by_value");
    by_value.args = vec![Arg::Struct {
        fields: vec![
            scalar(ScalarType::U8, ScalarValue::Int(3)),
            int(N as i64),
            pointer("x"),
            scalar(ScalarType::F64, ScalarValue::Float(Num(2.0))),
            pointer("y"),
        ],
    }];
    assert_right(&got(check(&mut crew, by_value, entry("by_value"))));

    // Restored before each launch, or eight doublings would differ.
    let mut in_place = case("in_place");
    in_place.tensors = vec![tensor("y", Role::Inout)];
    in_place.args = vec![pointer("y"), int(N as i64)];
    let facts = got(crew.check(CheckJob {
        case: in_place.clone(),
        artifact: entry("in_place"),
        seed: 1,
        expected: Expected::Variant {
            case: Box::new(in_place),
            artifact: entry("in_place"),
        },
        dump: None,
    }));
    assert_right(&facts);
    assert_eq!(crew.costs().workers, 1);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn what_a_launcher_launches_is_read_back() {
    let mut crew = crew();
    let answer = check(&mut crew, launcher_case("good"), launcher("good"));
    let Seen::Got(driver) = answer.driver.clone() else {
        panic!("{answer:?}")
    };
    println!("{driver:#?}");
    let [twice, same] = driver.entries.as_slice() else {
        panic!("{driver:?}")
    };
    assert!(
        twice.symbol.contains("twice") && same.symbol.contains("same"),
        "{driver:?}"
    );
    assert_eq!(
        (twice.launch.grid, twice.launch.block),
        ([2, 1, 1], [128, 1, 1])
    );
    assert_eq!(
        (twice.launch.dynamic_shared, same.launch.dynamic_shared),
        (0, 64 << 10)
    );
    assert!(twice.registers > 0 && same.blocks_per_sm > 0);
    assert_right(&got(answer));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launchers_go_wrong_in_their_own_ways() {
    let mut crew = crew();
    let refused = fault(check(
        &mut crew,
        launcher_case("refuses"),
        launcher("refuses"),
    ));
    assert_eq!(refused.kind, FaultKind::LaunchRefused);
    assert!(
        refused.message.contains("refuses returned 7"),
        "{}",
        refused.message
    );

    let answer = check(&mut crew, launcher_case("waits"), launcher("waits"));
    println!("{:?}", answer.driver);
    let Seen::Unsupported { reason } = &answer.driver else {
        panic!("{answer:?}")
    };
    assert!(reason.contains("cannot be captured"), "{reason}");
    assert_right(&got(answer));

    let missing = fault(check(&mut crew, launcher_case("none"), launcher("none")));
    assert_eq!(
        missing.kind,
        FaultKind::EntryNotFound,
        "{}",
        missing.message
    );
    assert_eq!(crew.costs().workers, 1);

    let exits = fault(check(&mut crew, launcher_case("exits"), launcher("exits")));
    println!("{exits:?}");
    assert_eq!(exits.kind, FaultKind::WorkerDied);
    assert!(exits.message.contains("exit code 0"), "{}", exits.message);
    assert_goes_on(&mut crew);

    let crashes = fault(check(
        &mut crew,
        launcher_case("crashes"),
        launcher("crashes"),
    ));
    println!("{crashes:?}");
    assert_eq!(crashes.kind, FaultKind::WorkerDied);
    assert!(crashes.message.contains("SIGSEGV"), "{}", crashes.message);
    assert_goes_on(&mut crew);
}

fn schedule(mode: Mode) -> Schedule {
    Schedule {
        mode,
        warmup: 10,
        iterations: 30,
        singles: 200,
        batch_ns: 1_000_000,
        processes: 1,
        max_processes: 1,
    }
}

fn time(crew: &mut Crew, case: Case, artifact: Artifact, mode: Mode) -> TimeFacts {
    let facts = match crew.time(TimeJob {
        case: case.clone(),
        artifact,
        seed: 1,
        schedule: schedule(mode),
    }) {
        Seen::Got(facts) => facts,
        other => panic!("{}: {other:?}", case.id),
    };
    let sorted = |samples: &[u64], per: u32| {
        let mut samples: Vec<f64> = samples
            .iter()
            .map(|&ns| ns as f64 / f64::from(per))
            .collect();
        samples.sort_by(f64::total_cmp);
        samples
    };
    let batched = sorted(&facts.batched_ns, facts.launches_per_sample);
    let single = sorted(&facts.single_ns, 1);
    let cv = |samples: &[f64]| {
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance =
            samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        100.0 * variance.sqrt() / mean
    };
    println!(
        "{:8} {mode:?}: batched x{} p50 {:.1} cv {:.2}% | single min {} p50 {} p90 {} p99 {} max {} cv {:.2}% | \
         tick {} empty graph {} | {:?}",
        case.id.variant,
        facts.launches_per_sample,
        batched[batched.len() / 2],
        cv(&batched),
        single[0],
        single[single.len() / 2],
        single[single.len() * 9 / 10],
        single[single.len() * 99 / 100],
        single[single.len() - 1],
        cv(&single),
        facts.tick_ns,
        facts.empty_graph_ns,
        facts.gpu,
    );
    println!(
        "    batched {:?}\n    single {:?}",
        facts.batched_ns, facts.single_ns
    );
    facts
}

fn dial(rounds: i64) -> Case {
    let mut case = case("dial");
    case.launch.as_mut().unwrap().grid = [132, 1, 1];
    case.args.extend([
        int(rounds),
        scalar(ScalarType::F32, ScalarValue::Float(Num(1.0))),
        scalar(ScalarType::F32, ScalarValue::Float(Num(0.0))),
    ]);
    case
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn times_of_an_empty_kernel_and_of_a_long_one() {
    let mut empty = case("empty");
    empty.args.clear();
    for mode in [Mode::Warm, Mode::Cold] {
        for process in 1..=3 {
            println!("process {process}");
            let mut crew = crew();
            let short = time(&mut crew, empty.clone(), entry("empty"), mode);
            let long = time(&mut crew, dial(4_000), entry("dial"), mode);
            for facts in [&short, &long] {
                assert_eq!((facts.batched_ns.len(), facts.single_ns.len()), (30, 200));
                assert_eq!(facts.launches_per_sample == 1, mode == Mode::Cold);
                assert!((1..=2000).contains(&facts.tick_ns));
                for clock in [facts.gpu.sm_mhz_before, facts.gpu.sm_mhz_after] {
                    assert!(clock.is_some_and(|clock| (100.0..5000.0).contains(&clock.0)));
                }
                assert!(facts.gpu.temperature_c.is_some());
            }
            let each = long.batched_ns[0] / u64::from(long.launches_per_sample);
            assert!((20_000..200_000).contains(&each), "{each} ns");
        }
    }
    // Twice the work is twice the time, less what a launch costs.
    let mut crew = crew();
    let [one, two] = [4_000, 8_000].map(|rounds| {
        let facts = time(&mut crew, dial(rounds), entry("dial"), Mode::Warm);
        facts.batched_ns[15] as f64 / f64::from(facts.launches_per_sample)
    });
    assert!((1.8..2.05).contains(&(two / one)), "{one} {two}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launchers_and_in_out_kernels_are_timed_too() {
    let mut crew = crew();
    time(
        &mut crew,
        launcher_case("good"),
        launcher("good"),
        Mode::Warm,
    );
    let mut in_place = case("in_place");
    in_place.tensors = vec![tensor("y", Role::Inout)];
    in_place.args = vec![pointer("y"), int(N as i64)];
    time(&mut crew, in_place, entry("in_place"), Mode::Cold);
    let fault = crew.time(TimeJob {
        case: case("far_out"),
        artifact: entry("far_out"),
        seed: 1,
        schedule: schedule(Mode::Warm),
    });
    assert!(
        matches!(
            &fault,
            Seen::Fault(Fault {
                kind: FaultKind::DeviceFault,
                ..
            })
        ),
        "{fault:?}"
    );
}
