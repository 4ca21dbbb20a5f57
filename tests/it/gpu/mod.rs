//! Real kernels on a real GPU: what goes wrong on a device becomes the right fault, and the next case
//! goes on. Run with `cargo test --test it gpu:: -- --ignored --test-threads=1`; needs nvcc (NVCC, or on PATH).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests; what is measured is worth reading"
)]

mod bench;
mod faults;
mod kept;
mod launchers;
mod sequences;
mod tensor_maps;
mod textures;
mod times;

use bench::*;
use check::cache::{self, References};
use check::reference::user::HiddenFrom;
use model::{Arg, Binary, FaultKind, NotRun, Num, Reference, Role, ScalarType, ScalarValue, Seen};
use run::device::DeviceChoice;
use run::worker::{CheckJob, Crew, ExpectedOutput};
use system::cache::Cache;

/// This test runs everywhere. Without a device, the answer is `NotRun`, and never a fault or a device.
#[test]
fn a_worker_of_this_executable_says_whether_there_is_a_device() {
    let there = ["/dev/nvidia0", "/dev/dxg"]
        .iter()
        .any(|node| std::path::Path::new(node).exists());
    let device = Crew::with_program(gatekeeper(), DeviceChoice::Auto).device();
    match device {
        Seen::NotRun(why) => {
            assert!(!there && matches!(why, NotRun::NoDevice { .. }), "{why:?}")
        }
        Seen::Got(_) | Seen::Fault(_) => assert!(there, "{device:?}"),
        Seen::Unsupported(_) => panic!("{device:?}"),
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn the_device_reports_its_properties() {
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
fn a_kernel_holds_against_the_reference_of_the_cpu() {
    let mut case = case("right");
    case.reference = Reference::Binary {
        a: "x".into(),
        b: "x".into(),
        out: "y".into(),
        op: Binary::Add,
    };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path()).unwrap();
    let references = References::open(dir.path(), &cache, None, HiddenFrom::default()).unwrap();
    let Seen::Got(cache::Answer::Files { seen, original }) = references.answer(&case, 1) else {
        panic!("it is built in")
    };
    for (symbol, right) in [("right", true), ("wrong", false)] {
        let facts = got(crew().check(CheckJob {
            case: case.clone(),
            artifact: entry(symbol),
            seed: 1,
            later_seed: 2,
            expected: ExpectedOutput::Files {
                seen: seen.clone(),
                original: original.clone(),
            },
            dump: None,
        }));
        assert_eq!(facts.error.max_err == Num(0.0), right, "{facts:?}");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_device_that_is_not_there_is_the_environment() {
    let mut crew = Crew::with_program(gatekeeper(), DeviceChoice::Cuda { ordinal: 63 });
    let Seen::Fault(fault) = crew.device() else {
        panic!("there is no such device")
    };
    assert_eq!(fault.kind, FaultKind::Environment);
    assert!(
        fault.message.contains("there is no cuda:63"),
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
fn shared_memory_clusters_structs_and_in_out_tensors() {
    let mut crew = crew();
    let mut staged = case("stages");
    staged.steps[0].launch.as_mut().unwrap().dynamic_shared = 100 << 10;
    let answer = check(&mut crew, staged, entry("stages"));
    println!("{:?}", answer.driver);
    assert_right(&got(answer));

    let mut clustered = case("clustered");
    let launch = clustered.steps[0].launch.as_mut().unwrap();
    launch.grid = [2, 1, 1];
    launch.cluster = Some([2, 1, 1]);
    assert_right(&got(check(&mut crew, clustered, entry("clustered"))));

    let mut by_value = case("by_value");
    by_value.steps[0].args = vec![Arg::Struct {
        fields: vec![
            scalar(ScalarType::U8, ScalarValue::Int(3)),
            int(N as i64),
            pointer("x"),
            scalar(ScalarType::F64, ScalarValue::Float(Num(2.0))),
            pointer("y"),
        ],
    }];
    assert_right(&got(check(&mut crew, by_value, entry("by_value"))));

    assert_right(&got(check(&mut crew, once(Some(ZEROS)), entry("once"))));

    // The input is restored before each launch, or eight doublings would differ.
    let mut in_place = case("in_place");
    in_place.tensors = vec![tensor("y", Role::Inout)];
    in_place.steps[0].args = vec![pointer("y"), int(N as i64)];
    let facts = got(crew.check(CheckJob {
        case: in_place.clone(),
        artifact: entry("in_place"),
        seed: 1,
        later_seed: 2,
        expected: ExpectedOutput::Variant {
            case: Box::new(in_place),
            artifact: entry("in_place"),
        },
        dump: None,
    }));
    assert_right(&facts);
    assert_eq!(crew.costs().workers, 1);
}
