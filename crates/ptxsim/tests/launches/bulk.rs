//! Bulk copies of one dimension (tests/fixtures/bulk.cu, as nvcc 13.0.88 compiled it for sm_90), right and wrong.

use crate::common::*;
use ptxsim::*;

const N: u32 = 1024;
const TILE: i32 = 4 * N as i32;

/// in: 0, 1, 2, ...; what `out` holds is to be one more, each.
fn run_text(text: &str, name: &str, numbers: &[i32]) -> (Result<Report, Fault>, Vec<u32>) {
    let module = load(text);
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let all: Vec<u8> = (0..N).flat_map(u32::to_le_bytes).collect();
    let from = put(&mut memory, "in", &all);
    let out = put(&mut memory, "out", &[0; 4 * N as usize]);
    let mut args = vec![Arg::Ptr(from), Arg::Ptr(out)];
    args.extend(numbers.iter().map(|n| Arg::I32(*n)));
    let params = params(kernel, &args);
    let (grid, block) = ([1, 1, 1], [128, 1, 1]);
    let want: Vec<u8> = one_more().into_iter().flat_map(u32::to_le_bytes).collect();
    let wanted = kept::Wanted {
        at: out,
        bytes: &want,
        compared: kept::Compared::Bytes,
    };
    let report = launch_kept(
        (text, kernel),
        grid,
        block,
        0,
        &params,
        &mut memory,
        &[(from, all.len()), (out, all.len())],
        (name != "by_group").then_some(wanted),
    );
    let words = memory.read(out, 4 * N as usize).unwrap().chunks_exact(4);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    (report, words.map(word).collect())
}

fn run(name: &str, numbers: &[i32]) -> (Result<Report, Fault>, Vec<u32>) {
    run_text(&fixture("bulk"), name, numbers)
}

fn one_more() -> Vec<u32> {
    (1..=N).collect()
}

/// Kind and message of the only finding.
fn found(report: Result<Report, Fault>) -> (FindingKind, String) {
    let mut findings = report.unwrap_or_else(|f| panic!("{f}")).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = findings.remove(0);
    (finding.kind, finding.message)
}

fn fault(name: &str, numbers: &[i32]) -> (FaultKind, String) {
    let fault = run(name, numbers).0.unwrap_err();
    (fault.kind, fault.message)
}

#[test]
fn right_kernels_raise_nothing_and_move_their_bytes() {
    let (report, out) = run("guide", &[]);
    let report = clean(report);
    assert_eq!(out, one_more());
    // 4096 bytes each way: sectors of 32.
    let count = |counter| report.counters.get(counter);
    let counted = [
        Counter::BulkLoads,
        Counter::BulkLoadSectors,
        Counter::BulkStores,
        Counter::BulkStoreSectors,
        Counter::GlobalLoadSectors,
        Counter::AsyncCopySectors,
        Counter::GlobalStoreSectors,
    ];
    assert_eq!(counted.map(count), [1, 128, 1, 128, 0, 0, 0]);
    for (name, numbers) in [
        ("ring", &[][..]),
        ("stores", &[]),
        ("one", &[TILE, TILE, 0, 2]),
        ("leaves", &[1, 1, 0]),
        ("leaves", &[1, 2, 0]),
        ("leaves", &[1, 1, 1]),
    ] {
        let (report, out) = run(name, numbers);
        let all = clean(report);
        assert_eq!(out, one_more(), "{name} {numbers:?}: {all:?}");
    }
    let (report, out) = run("by_group", &[]);
    clean(report);
    assert_eq!(out, (1..=N).rev().collect::<Vec<_>>());
}

/// The same to a block that is a cluster of its own, with a hint for the cache.
#[test]
fn other_spellings_do_the_same() {
    let text = fixture("bulk")
        .replace(
            "cp.async.bulk.shared::cluster.global",
            "cp.async.bulk.shared::cta.global",
        )
        .replace("expect_tx.release.cta.", "expect_tx.release.cluster.");
    let hint = |line: &str| match line.contains("complete_tx::bytes [") {
        true => line
            .replace("bytes [", "bytes.L2::cache_hint [")
            .replace("];", "], %rd1;"),
        false => line.to_owned(),
    };
    let text: Vec<_> = text.lines().map(hint).collect();
    let text = text.join("\n");
    for part in [
        "bulk.shared::cta.global",
        "tx.release.cluster",
        "cache_hint",
        "], %rd1;",
    ] {
        assert!(text.contains(part), "{part}");
    }
    for name in ["guide", "ring"] {
        let (report, out) = run_text(&text, name, &[]);
        clean(report);
        assert_eq!(out, one_more(), "{name}");
    }
}

#[test]
fn tiles_read_before_their_copy_is_waited_for() {
    // Nobody waits, and the block ends with the copy under way.
    let (report, out) = run("one", &[TILE, TILE, 0, 0]);
    let findings = report.unwrap().findings;
    let messages: Vec<_> = findings.iter().map(|f| f.message.as_str()).collect();
    assert!(
        findings
            .iter()
            .all(|f| f.kind == FindingKind::AsyncBeforeWait)
            && findings.len() == 2,
        "{messages:#?}"
    );
    assert!(
        messages[0].contains("is read while cp.async.bulk from bulk.cu:21"),
        "{messages:#?}"
    );
    assert!(
        messages[1].contains("the block ends before anybody has waited"),
        "{messages:#?}"
    );
    assert_ne!(out, one_more());
    // The first warp waits, the others do not: what they read may have come or not.
    let findings = run("one", &[TILE, TILE, 0, 1]).0.unwrap().findings;
    let race = findings.iter().find(|f| f.kind == FindingKind::SharedRace);
    let message = &race.unwrap_or_else(|| panic!("{findings:#?}")).message;
    assert!(
        message.contains("this read and the write at bulk.cu:21"),
        "{message}"
    );
}

#[test]
fn bytes_that_never_come() {
    for (bytes, expected, says) in [
        (
            TILE - 16,
            TILE,
            "to which 16 expected bytes were not copied",
        ),
        (
            TILE,
            TILE - 32,
            "to which 32 bytes more than expected were copied",
        ),
    ] {
        let (kind, message) = fault("one", &[bytes, expected, 0, 2]);
        assert_eq!(kind, FaultKind::Deadlock, "{message}");
        assert!(message.contains(says), "{message}");
    }
    // More than an mbarrier counts.
    let (kind, message) = fault("one", &[TILE, 1 << 20, 0, 2]);
    assert_eq!(kind, FaultKind::Undefined, "{message}");
    assert!(
        message.contains("1048576 bytes at an mbarrier"),
        "{message}"
    );
}

#[test]
fn sizes_and_places_are_checked() {
    for (numbers, kind, says) in [
        (
            [TILE - 4, TILE - 4, 0, 2],
            FaultKind::Undefined,
            "no multiple of 16",
        ),
        (
            [64, 64, 8, 2],
            FaultKind::Misaligned,
            "misaligned access: 16 bytes",
        ),
        (
            [TILE, TILE, 128, 2],
            FaultKind::OutOfBounds,
            "shared address",
        ),
        (
            [TILE + 16, TILE + 16, 0, 2],
            FaultKind::OutOfBounds,
            "out of bounds",
        ),
    ] {
        let (found, message) = fault("one", &numbers);
        assert_eq!(found, kind, "{message}");
        assert!(
            message.contains(says) && message.contains("bulk.cu:21"),
            "{message}"
        );
    }
    // Nothing is nothing, wherever it is.
    let (report, _) = run("one", &[0, 0, 0, 0]);
    assert!(
        report
            .unwrap()
            .findings
            .iter()
            .all(|f| f.kind == FindingKind::UninitialisedShared)
    );
}

#[test]
fn a_source_that_is_not_left_alone() {
    // Thread 0 does not wait, and all write to the tile: the copy reads before, between or after.
    let (report, _) = run("leaves", &[1, 0, 1]);
    let findings = report.unwrap().findings;
    let says = |what: &str| findings.iter().any(|f| f.message.contains(what));
    assert!(says("is written while cp.async.bulk from"), "{findings:#?}");
    let (kind, message) = found(run("leaves", &[1, 0, 0]).0);
    assert_eq!(kind, FindingKind::AsyncBeforeWait);
    assert!(
        message.contains("the thread ends while cp.async.bulk from"),
        "{message}"
    );
    // A group too many stays under way.
    let text = fixture("bulk");
    let loose = text.replace(
        "cp.async.bulk.wait_group.read 1;",
        "cp.async.bulk.wait_group.read 2;",
    );
    assert_ne!(loose, text);
    let (kind, message) = found(run_text(&loose, "stores", &[]).0);
    assert_eq!(kind, FindingKind::AsyncBeforeWait);
    assert!(
        message.contains("is written while cp.async.bulk from"),
        "{message}"
    );
}

#[test]
fn reports_a_bulk_copy_of_unfenced_writes() {
    let (kind, message) = found(run("leaves", &[0, 1, 0]).0);
    assert_eq!(kind, FindingKind::SharedRace);
    assert!(
        message.contains("no fence.proxy.async orders this cp.async.bulk"),
        "{message}"
    );
    // One of global memory alone is none of shared memory.
    let text = fixture("bulk").replace(
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.global;",
    );
    let (kind, message) = found(run_text(&text, "guide", &[]).0);
    assert_eq!(kind, FindingKind::SharedRace);
    assert!(message.contains("no fence.proxy.async"), "{message}");
}

/// A copy of bytes without a value brings none, and that is reported where it is used.
#[test]
fn values_that_nothing_wrote_are_followed_through_copies() {
    let module = load(&fixture("bulk"));
    let kernel = module.kernel("guide").unwrap();
    let mut memory = Memory::default();
    let from = memory.alloc("in", 4 * u64::from(N)).unwrap();
    let out = put(&mut memory, "out", &[0; 4 * N as usize]);
    let params = params(kernel, &[Arg::Ptr(from), Arg::Ptr(out)]);
    let (grid, block) = ([1, 1, 1], [128, 1, 1]);
    let report = launch(kernel, grid, block, 0, &params, &mut memory, limits()).unwrap();
    let kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [FindingKind::UninitialisedGlobal],
        "{:#?}",
        report.findings
    );
    assert!(
        report.findings[0]
            .message
            .contains("what is stored to `out`"),
        "{:#?}",
        report.findings
    );
}
