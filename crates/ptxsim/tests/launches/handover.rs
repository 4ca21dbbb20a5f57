//! Ways to hand global memory on from block to block: PTX ISA 8.8 to 8.10, and programs as they
//! are written (tests/fixtures/handover.cu).

use crate::common::blocks::*;
use crate::common::*;
use ptxsim::*;

fn reader(place: &str) -> String {
    format!(
        "races between blocks that synchronise by the flag read at {place}: the read is no acquire, and no fence of the reading thread follows it, only a barrier of the block"
    )
}

fn writer(place: &str) -> String {
    format!(
        "races between blocks that synchronise by the flag read at {place}: between the block's barrier and the write of the flag, the writing thread has no fence"
    )
}

/// Neither a race nor anything that is not judged, or just that.
fn open(report: &Report, expected: &[String]) {
    assert_eq!(races(report), [""; 0]);
    assert_eq!(report.not_judged, expected);
}

/// Warps of block 1: `fences`, a barrier, and the first of them `flags`; of block 0: the first waits by
/// `waits`, a barrier, and all of them do `fences_too`. Every warp reads what the next one wrote.
fn message(fences: &str, flags: &str, waits: &str, fences_too: &str) -> Report {
    blocks(
        2,
        64,
        &format!(
            "setp.lt.u32 %p2, %r2, 32;\nadd.u32 %r6, %r2, 32;\nand.b32 %r6, %r6, 63;\nmul.wide.u32 %rd3, %r6, 4;\nadd.u64 %rd4, %rd1, %rd3;\n@%p1 bra R;\nst.global.u32 [%rd2], 7;\n{fences}\nbar.sync 0;\n@!%p2 ret;\n{flags}\nret;\nR: @!%p2 bra B;\nW: {waits}\nsetp.eq.u32 %p3, %r4, 0;\n@%p3 bra W;\nB: bar.sync 0;\n{fences_too}\nld.global.u32 %r5, [%rd4];"
        ),
    )
}

const RELAXED: &str = "st.relaxed.gpu.global.u32 [%rd1+512], 1;";
const WAITS: &str = "ld.relaxed.gpu.global.u32 %r4, [%rd1+512];";
const FLAG: &str = "k.cu:14";

/// A barrier synchronises: what is before it is handed on by one thread that fences behind it.
#[test]
fn one_thread_fences_for_all_of_its_block() {
    for fence in ["fence.acq_rel.gpu;", "fence.sc.sys;", "membar.gl;"] {
        let flags = format!("{fence} {RELAXED}");
        let waits = format!("{WAITS} {fence}");
        in_order(&message("", &flags, &waits, ""));
    }
    in_order(&message(
        "",
        "st.release.gpu.global.u32 [%rd1+512], 1;",
        "ld.acquire.gpu.global.u32 %r4, [%rd1+512];",
        "",
    ));
}

/// The fence has to be the reading thread's, unless both sides have a fence.sc.
#[test]
fn a_barrier_between_the_flag_and_a_fence_of_others() {
    let flags = |fence: &str| format!("{fence} {RELAXED}");
    for sc in ["fence.sc.gpu;", "membar.gl;", "membar.sys;"] {
        in_order(&message("", &flags(sc), WAITS, "fence.sc.gpu;"));
        in_order(&message("", &flags(sc), WAITS, "membar.gl;"));
    }
    for (here, there) in [
        ("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"),
        ("fence.acq_rel.gpu;", "fence.sc.gpu;"),
        ("membar.gl;", "fence.acq_rel.gpu;"),
        ("membar.gl;", "fence.sc.cta;"),
        ("membar.gl;", ""),
    ] {
        open(&message("", &flags(here), WAITS, there), &[reader(FLAG)]);
    }
}

/// The same of the thread that writes the flag.
#[test]
fn a_barrier_between_a_fence_of_others_and_the_flag() {
    let waits = |fence: &str| format!("{WAITS} {fence}");
    for sc in ["fence.sc.gpu;", "membar.gl;"] {
        in_order(&message(sc, RELAXED, &waits("membar.gl;"), ""));
        in_order(&message(sc, RELAXED, WAITS, sc));
    }
    for (here, there) in [
        ("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"),
        ("fence.acq_rel.gpu;", "membar.gl;"),
        ("membar.gl;", "fence.acq_rel.gpu;"),
    ] {
        open(&message(here, RELAXED, &waits(there), ""), &[writer(FLAG)]);
    }
    let acquire = "ld.acquire.gpu.global.u32 %r4, [%rd1+512];";
    open(
        &message("membar.gl;", RELAXED, acquire, ""),
        &[writer(FLAG)],
    );
    // No fence at all, or one that does not reach the other block.
    for none in ["", "fence.sc.cta;", "fence.acq_rel.cluster;"] {
        assert!(!races(&message(none, RELAXED, acquire, "")).is_empty());
        let flag = format!("{none} {RELAXED}");
        assert!(!races(&message("", &flag, acquire, "")).is_empty());
    }
}

/// A release is one of its own place. A fence is for all that follow.
#[test]
fn a_release_of_another_flag() {
    let other = "st.release.gpu.global.u32 [%rd1+1024], 1;";
    let acquire = "ld.acquire.gpu.global.u32 %r4, [%rd1+512];";
    let report = message("", &format!("{other} {RELAXED}"), acquire, "");
    assert!(!races(&report).is_empty());
    let both = format!("fence.acq_rel.gpu; {other} {RELAXED}");
    in_order(&message("", &both, acquire, ""));
    // Half a fence is enough where the other half is not asked for.
    let halves = (
        format!("fence.release.gpu; {RELAXED}"),
        format!("{WAITS} fence.acquire.gpu;"),
    );
    in_order(&message("", &halves.0, &halves.1, ""));
    let wrong = format!("fence.acquire.gpu; {RELAXED}");
    assert!(!races(&message("", &wrong, &halves.1, "")).is_empty());
}

/// A message from block 1 to block 0: both sides have to order theirs (PTX ISA 8.9.2).
#[test]
fn the_side_that_takes_over_has_to_fence_too() {
    let body = |flag: &str, reader: &str| {
        format!(
            "@%p1 bra W;\nst.global.u32 [%rd1], 7;\nfence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd1+64], 1;\nret;\nW: {flag}.global.u32 %r4, [%rd1+64];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra W;\n{reader}\nld.global.u32 %r5, [%rd1];"
        )
    };
    for (flag, reader) in [
        ("ld.acquire.gpu", ""),
        ("ld.relaxed.gpu", "fence.acq_rel.gpu;"),
        ("ld.volatile", "membar.gl;"),
    ] {
        let right = blocks(2, 1, &body(flag, reader));
        in_order(&right);
    }
    for (flag, reader) in [
        ("ld.relaxed.gpu", ""),
        ("ld.volatile", ""),
        ("ld.relaxed.gpu", "fence.acq_rel.cta;"),
    ] {
        let wrong = blocks(2, 1, &body(flag, reader));
        let told = races(&wrong);
        assert!(
            told.len() == 1
                && told[0].contains("this read and the write at k.cu:2 by block [1, 0, 0], thread [0, 0, 0] are not ordered; the read of the flag at k.cu:6 is neither an acquire nor followed by a fence"),
            "{flag} {reader}: {told:?}"
        );
    }
    // Programs count on the barrier; the ISA does not say so.
    let barrier = blocks(2, 1, &body("ld.volatile", "bar.sync 0;"));
    assert_eq!(races(&barrier), [""; 0]);
    assert_eq!(barrier.not_judged, [reader("k.cu:6")]);
}

/// Programs as nvcc compiles them: blocks of 64 threads over a buffer of their counts.
fn program(name: &str, text: &str) -> (Report, Vec<u8>) {
    let own = |file: &str| !file.starts_with("cuda/include/");
    let module = Module::load_with_own(text, own).unwrap();
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let [data, count] = [4 * 64 * 16, 4].map(|bytes| put(&mut memory, "data", &vec![0; bytes]));
    let p = params(kernel, &[Arg::Ptr(data), Arg::Ptr(count)]);
    let report = launch(kernel, [5, 1, 1], [64, 1, 1], 0, &p, &mut memory, limits()).unwrap();
    (report, memory.read(data, 4 * 64 * 16).unwrap().to_vec())
}

#[test]
fn programs_that_are_right_are_in_order() {
    let text = fixture("handover");
    for (name, at, value) in [
        ("semaphore", 0, 5),
        ("generic_barrier", 0, 5),
        ("grid_barrier", 5 * 64, 1),
        ("every_thread_sc", 5 * 64, 5),
    ] {
        let (report, data) = program(name, &text);
        in_order(&report);
        assert_eq!(data[4 * at..][..4], [value, 0, 0, 0], "{name}");
    }
}

#[test]
fn programs_that_are_wrong_or_count_on_barriers() {
    let text = fixture("handover");
    let (report, _) = program("every_thread_acq_rel", &text);
    assert_eq!(races(&report), [""; 0]);
    // The counting warp's own fences lack a fence of the reader, the rest one of the writer.
    let place = "cuda/include/cccl/cuda/std/__atomic/functions/cuda_ptx_generated.h:2367 inlined at handover.cu:68 inlined at handover.cu:85";
    assert_eq!(report.not_judged, [reader(place), writer(place)]);
    // Each without what makes it right.
    for (name, what, instead) in [
        ("semaphore", "ld.global.acquire", "ld.global.relaxed"),
        ("semaphore", "st.global.release", "st.global.relaxed"),
        ("generic_barrier", "fence.acq_rel.gpu;", ""),
        ("grid_barrier", "membar.gl;", ""),
        ("every_thread_sc", "membar.gl;", ""),
    ] {
        let (before, kernel) = text.split_at(text.find(&format!(".entry {name}(")).unwrap());
        let end = kernel.find("\n}\n").unwrap();
        let (kernel, after) = kernel.split_at(end);
        let changed = kernel.replace(what, instead);
        assert_ne!(changed, kernel);
        let (report, _) = program(name, &format!("{before}{changed}{after}"));
        let found = races(&report).len() + report.not_judged.len();
        assert!(found > 0, "{name} without {what}");
    }
}
