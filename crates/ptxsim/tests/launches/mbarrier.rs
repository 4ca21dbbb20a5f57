//! mbarriers (tests/fixtures/pipeline.cu), with and without what they are there for; and printf.

use crate::common::*;
use ptxsim::*;

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// in: 0, 1, 2, ...; `out` has as many words as the block has threads.
fn run(
    text: &str,
    name: &str,
    block: u32,
    number: Option<i32>,
) -> (Result<Report, Fault>, Vec<u32>) {
    let module = load(text);
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let n = kernel.parameters().iter().filter(|p| p.1 == 8).count();
    let (mut args, mut buffers) = (Vec::new(), Vec::new());
    if n == 2 {
        let all: Vec<u8> = (0..4096_u32).flat_map(u32::to_le_bytes).collect();
        let from = put(&mut memory, "in", &all);
        args.push(Arg::Ptr(from));
        buffers.push((from, all.len()));
    }
    let out = put(&mut memory, "out", &[0; 4096]);
    buffers.push((out, 4096));
    args.push(Arg::Ptr(out));
    args.extend(number.map(Arg::I32));
    let p = params(kernel, &args);
    let report = launch_kept(
        (text, kernel),
        [1, 1, 1],
        [block, 1, 1],
        0,
        &p,
        &mut memory,
        &buffers,
        None,
    );
    (report, words(memory.read(out, 4096).unwrap()))
}

fn without(text: &str, what: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.contains(what)).collect();
    assert!(lines.len() < text.lines().count());
    lines.join("\n")
}

#[test]
fn a_ring_of_two_buffers() {
    let text = fixture("pipeline");
    let (report, out) = run(&text, "ring", 128, Some(7));
    let report = clean(report);
    assert!(
        report.withheld.values().all(|d| d.doubt != Doubt::Polls),
        "a wait that blocks turns its loop once"
    );
    for (thread, got) in out.iter().enumerate().take(128) {
        let (warp, lane) = (thread as u32 / 32, thread as u32 % 32);
        let sum: u32 = (0..7).map(|t| (t * 32 + (lane + t) % 32) * warp).sum();
        assert_eq!(*got, sum, "{thread}");
    }
    let (report, _) = run(
        &without(&text, "mbarrier.try_wait.parity.shared::cta"),
        "ring",
        128,
        Some(7),
    );
    let report = report.unwrap();
    assert!(
        report
            .findings
            .iter()
            .any(|f| f.kind == FindingKind::SharedRace)
    );
}

#[test]
fn copies_that_an_mbarrier_is_told_of() {
    let text = fixture("pipeline");
    let (report, out) = run(&text, "copies", 64, None);
    clean(report);
    let want: Vec<u32> = (0..256).map(|i| (63 - i / 4) * 4 + i % 4).collect();
    assert_eq!(out[..256], want);
    let (report, _) = run(
        &without(&text, "mbarrier.try_wait.parity.shared::cta"),
        "copies",
        64,
        None,
    );
    let kinds: Vec<_> = report.unwrap().findings.iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&FindingKind::AsyncBeforeWait), "{kinds:?}");
    let (report, _) = run(
        &without(&text, "cp.async.mbarrier.arrive.noinc"),
        "copies",
        64,
        None,
    );
    let fault = report.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains("wait for the mbarrier at 0x"),
        "{fault}"
    );
    let twice = text.replace(
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r5];",
    );
    assert_ne!(twice, text);
    let (report, _) = run(&twice, "copies", 64, None);
    assert!(report.is_err() || !report.unwrap().findings.is_empty());
}

#[test]
fn barriers_and_pipelines_of_libcu() {
    let text = fixture("pipeline");
    let (report, out) = run(&text, "barriers", 128, None);
    clean(report);
    let want: Vec<u32> = (0..64).map(|i| i + 1).collect();
    assert_eq!(out[..64], want);
    let (report, out) = run(&text, "pipelined", 64, Some(5));
    clean(report);
    let want: Vec<u32> = (0..64)
        .map(|i| (0..5).map(|t| 64 * t + 63 - i).sum())
        .collect();
    assert_eq!(out[..64], want);
}

/// Bytes that somebody expects hold the phase until they are there.
#[test]
fn transactions_and_wrong_uses() {
    let run = |body: &str| {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.shared .align 8 .b64 bar;\n.entry k(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, bar;\n{body}\nselp.u32 %r3, 1, 0, %p1;\nst.global.u32 [%rd1], %r3;\nret; }}"
        );
        let module = load(&text);
        let mut memory = Memory::default();
        let p = put(&mut memory, "data", &[0; 8]);
        let params = params(&module.kernels()[0], &[Arg::Ptr(p)]);
        let kernel = &module.kernels()[0];
        let report = launch(
            kernel,
            [1, 1, 1],
            [1, 1, 1],
            0,
            &params,
            &mut memory,
            limits(),
        );
        (report, memory.read(p, 1).unwrap()[0])
    };
    let init = "mbarrier.init.shared::cta.b64 [%r1], 1;\n";
    let expect = "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd2, [%r1], 64;\n";
    let test = "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd2;";
    let complete = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 64;\n";
    let (report, over) = run(&format!("{init}{expect}{test}"));
    assert_eq!((report.unwrap().findings, over), (vec![], 0));
    let (report, over) = run(&format!("{init}{expect}{complete}{test}"));
    assert_eq!((report.unwrap().findings, over), (vec![], 1));
    let (report, _) = run(&format!(
        "{init}mbarrier.arrive.shared.b64 %rd2, [%r1], 2;\n{test}"
    ));
    let fault = report.unwrap_err();
    assert!(
        fault
            .message
            .contains("2 arrivals at an mbarrier that waits for 1"),
        "{fault}"
    );
    // Never made ready: nothing in shared memory has a value.
    assert!(run(&format!("{expect}{test}")).0.is_err());
}

#[test]
fn printf_is_told() {
    let module = load(&fixture("sync"));
    let kernel = module.kernel("prints").unwrap();
    let go = |grid: u32, threads: usize| {
        let mut memory = Memory::default();
        let x: Vec<u8> = (1..=64_i32).flat_map(i32::to_le_bytes).collect();
        let p = put(&mut memory, "x", &x);
        let p = params(kernel, &[Arg::Ptr(p)]);
        let limits = Limits {
            threads,
            ..limits()
        };
        clean(launch(
            kernel,
            [grid, 1, 1],
            [64, 1, 1],
            0,
            &p,
            &mut memory,
            limits,
        ))
        .printed
    };
    let two = go(2, 1);
    assert_eq!(two.len(), 4);
    assert_eq!(two[1], "block 0 thread 33: 17.00 1099511627776 ok! ff%\n");
    assert_eq!(two[2], "block 1 thread 1:  1.00 1099511627776 ok! ff%\n");
    let many = go(600, 1);
    assert_eq!(many.len(), 1001);
    assert_eq!(many[1000], "... and 200 more");
    assert_eq!(many, go(600, 3));
    assert_eq!(go(7, 1), go(7, 3));
}
