//! Tests mistakes of kernels, and that the run goes on after them.

use super::bench::*;
use model::FaultKind;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn device_faults_end_the_worker_and_not_the_run() {
    let mut crew = crew();
    for (symbol, says) in [
        ("far_out", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("asserts", "CUDA_ERROR_ASSERT"),
        ("asserts", "Assertion `n < 0` failed"),
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
    assert_eq!(crew.costs().workers, 5);
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

/// This is not a test, but the process that `a_worker_ends_with_its_parent` kills.
#[test]
#[ignore = "a process of another test"]
fn parent_of_an_endless_kernel() {
    if std::env::var_os("GATEKEEPER_TEST_PARENT").is_some() {
        let mut endless = case("endless");
        endless.deadline_ms = 600_000;
        check(&mut crew(), endless, entry("endless"));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_worker_ends_with_its_parent() {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "gpu::faults::parent_of_an_endless_kernel",
        ])
        .env("GATEKEEPER_TEST_PARENT", "1")
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let worker = loop {
        if let Some(worker) = worker_of(parent.id()) {
            break worker;
        }
        assert!(Instant::now() < until, "no worker was started");
        std::thread::sleep(Duration::from_millis(50));
    };
    // By then it is in the endless kernel.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(worker_of(parent.id()), Some(worker));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while PathBuf::from(format!("/proc/{worker}/fd"))
        .read_dir()
        .is_ok_and(|fds| fds.count() > 0)
    {
        assert!(Instant::now() < until, "worker {worker} survived");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_goes_on(&mut crew());
}

/// Returns the worker of a process, which is the child of its keeper.
fn worker_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |process: u32, name: &str| {
        std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
    };
    let parent_of = |process: u32| -> Option<u32> {
        let status = read(process, "status");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line?.trim().parse().ok()
    };
    processes
        .filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| read(*process, "cmdline").contains("__worker"))
        .find(|process| parent_of(*process).and_then(parent_of) == Some(parent))
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launches_that_the_driver_refuses_say_why_and_keep_the_worker() {
    let mut crew = crew();
    let mut greedy = case("stages");
    greedy.steps[0].launch.as_mut().unwrap().dynamic_shared = 1 << 20;
    let shared = fault(check(&mut crew, greedy, entry("stages")));
    println!("{shared:?}");
    assert_eq!(shared.kind, FaultKind::LaunchRefused);
    assert!(
        shared.message.contains("1048576 bytes of dynamic")
            && shared.message.contains("this device allows "),
        "{}",
        shared.message
    );
    let mut wide = case("right");
    wide.steps[0].launch.as_mut().unwrap().block = [2048, 1, 1];
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
fn mistakes_without_a_fault_are_found() {
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
