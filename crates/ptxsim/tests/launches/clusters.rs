//! Blocks of a cluster: right kernels, and each with a fault that is to be named by its kind and its line. The kernels
//! are PTX; the line that a test asks for is the one marked `// here` (or `// other`, for the second place).

use crate::common::*;
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

const THREADS: u32 = 64;
/// All threads of the cluster meet.
const SYNC: &str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
/// Thread 0 of each block initialises its mbarrier for one arrival, and says so.
const INIT: &str = "@%p0 mbarrier.init.shared::cta.b64 [%r4], 1; // init\n@%p0 fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n";
const WAIT: &str = "W:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;\n@!%p2 bra W;\n";
/// Word of `data` at the thread's place goes to `out`.
const OUT: &str = "ld.shared.u32 %r10, [%r5]; // read\nst.global.u32 [%rd2], %r10;\n";

/// %r0 thread, %r1 rank, %r2 blocks of the cluster, %r3 `data`, %r4 `bar`, %r5 the thread's word of `data`, %rd2 its word
/// of `out`; %p0 thread 0, %p1 rank 0.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u64 p, .param .align 64 .b8 map[128])
{{
.reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .b16 %h<4>;
.shared .align 128 .b8 data[1024];
.shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %cluster_ctarank;
mov.u32 %r2, %cluster_nctarank;
mov.u32 %r3, data;
mov.u32 %r4, bar;
shl.b32 %r5, %r0, 2;
ld.param.u64 %rd1, [p];
mov.u32 %r6, %ctaid.x;
mov.u32 %r7, %ntid.x;
mad.lo.u32 %r6, %r6, %r7, %r0;
mul.wide.u32 %rd2, %r6, 4;
add.u64 %rd2, %rd1, %rd2;
add.u32 %r5, %r3, %r5;
setp.eq.u32 %p0, %r0, 0;
setp.eq.u32 %p1, %r1, 0;
{body}
ret;
}}"
    )
}

/// In clusters of so many blocks of 64 threads, two of them. `out` begins as 1000, 1001, ...
fn run(body: &str, cluster: u32) -> (Result<Report, Fault>, Vec<u32>) {
    run_on(body, cluster, 2)
}

fn run_on(body: &str, cluster: u32, threads: usize) -> (Result<Report, Fault>, Vec<u32>) {
    let text = kernel(body);
    let module = load(&text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let words = 2 * cluster * THREADS;
    let all: Vec<u8> = (1000..1000 + words).flat_map(u32::to_le_bytes).collect();
    let out = put(&mut memory, "out", &all);
    let map = TensorMap {
        element: MapElement::U32,
        extents: vec![u64::from(words)],
        strides: vec![],
        boxes: Boxes::Tiled(vec![64]),
        steps: vec![1],
        swizzle: Swizzle::None,
        fills_nan: false,
    };
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    params[..8].copy_from_slice(&out.to_le_bytes());
    let at = kernel.parameters()[1].0 as usize;
    params[at..at + 128].copy_from_slice(&encode_tensor_map(&map, out).unwrap());
    let launch = Launch {
        grid: [2 * cluster, 1, 1],
        block: [THREADS, 1, 1],
        cluster: Some([cluster, 1, 1]),
        cooperative: false,
        dynamic_shared: 0,
    };
    let kept = kept::Kept {
        text: &text,
        kernel,
        launch,
        params: &params,
        buffers: &[(out, 4 * words as usize)],
        limits: Limits {
            threads,
            ..limits()
        },
    };
    let report = match threads {
        1 => kept.run(&mut memory),
        _ => kept.launch(&mut memory, None),
    };
    let bytes = memory.read(out, 4 * words as usize).unwrap();
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    (report, bytes.chunks_exact(4).map(word).collect())
}

/// Without a finding; the words of `out` are what `want` says of block and thread.
#[track_caller]
fn right(body: &str, cluster: u32, want: impl Fn(u32, u32) -> u32) {
    let (report, out) = run(body, cluster);
    clean(report);
    let want: Vec<u32> = (0..2 * cluster * THREADS)
        .map(|n| want(n / THREADS, n % THREADS))
        .collect();
    assert_eq!(out, want);
}

/// `PTX line 12` of the line with a mark.
fn line(body: &str, mark: &str) -> String {
    let text = kernel(body);
    let at = text.lines().position(|l| l.ends_with(mark));
    format!("PTX line {} ", at.unwrap_or_else(|| panic!("{mark}")) + 1)
}

/// Finds this kind, with words, where one of the places is the line with the mark; the same on one thread and on two.
#[track_caller]
fn found(body: &str, cluster: u32, kind: FindingKind, mark: &str, says: &str) {
    let report = run(body, cluster).0.unwrap_or_else(|f| panic!("{f}"));
    let at = line(body, mark);
    let is_it = |f: &Finding| {
        let there = f.places.iter().any(|place| place.at.starts_with(&at));
        f.kind == kind && there && f.message.contains(says)
    };
    assert!(
        report.findings.iter().any(is_it),
        "{kind:?} at {at}: {:#?}",
        report.findings
    );
    let alone = run_on(body, cluster, 1).0.unwrap();
    assert_eq!(alone.findings, report.findings);
}

#[track_caller]
fn stopped(body: &str, cluster: u32, kind: FaultKind, says: &[&str]) {
    let fault = run(body, cluster).0.unwrap_err();
    assert_eq!(fault.kind, kind, "{fault}");
    for says in says {
        assert!(fault.message.contains(says), "{says}: {fault}");
    }
}

/// Each thread reads the word that the same thread of the next block has written.
fn exchange(before: &str, behind: &str) -> String {
    format!(
        "mad.lo.u32 %r10, %r1, 100, %r0;
st.shared.u32 [%r5], %r10; // other
{before}
add.u32 %r11, %r1, 1;
rem.u32 %r11, %r11, %r2;
mapa.shared::cluster.u32 %r12, %r5, %r11;
ld.shared::cluster.u32 %r13, [%r12]; // here
st.global.u32 [%rd2], %r13;
{behind}"
    )
}

#[test]
fn blocks_read_one_anothers_shared_memory() {
    for size in [2, 4, 8] {
        let next = |block: u32| (block % size + 1) % size;
        right(&exchange(SYNC, SYNC), size, |block, thread| {
            100 * next(block) + thread
        });
    }
    // The same by generic addresses.
    let generic = exchange(SYNC, SYNC)
        .replace(
            "mapa.shared::cluster.u32 %r12, %r5, %r11;",
            "cvt.u64.u32 %rd3, %r5;\ncvta.shared.u64 %rd3, %rd3;\nmapa.u64 %rd3, %rd3, %r11;",
        )
        .replace("ld.shared::cluster.u32 %r13, [%r12]", "ld.u32 %r13, [%rd3]");
    right(&generic, 2, |block, thread| {
        100 * ((block + 1) % 2) + thread
    });
    let race = FindingKind::SharedRace;
    for body in [exchange("", SYNC), generic.replacen(SYNC, "", 1)] {
        found(&body, 2, race, "// here", "are not ordered");
        found(&body, 2, race, "// other", "are not ordered");
    }
    let relaxed = SYNC.replace("arrive", "arrive.relaxed");
    found(&exchange(&relaxed, SYNC), 2, race, "// here", "of block");
    // A fence makes up for it, and one of the block alone does not.
    let fenced = format!("fence.acq_rel.cluster;\n{relaxed}");
    right(&exchange(&fenced, SYNC), 2, |block, thread| {
        100 * ((block + 1) % 2) + thread
    });
    let fenced = format!("fence.acq_rel.cta;\n{relaxed}");
    found(&exchange(&fenced, SYNC), 2, race, "// here", "of block");
}

#[test]
fn accesses_may_come_after_the_exit_of_their_block() {
    let exited = FindingKind::ExitedBlock;
    let says = "goes to the shared memory of block";
    found(&exchange(SYNC, ""), 2, exited, "// here", says);
    // Whichever block comes first here.
    for leaver in ["@%p1 ret;\n", "@!%p1 ret;\n"] {
        let body = exchange(&format!("{SYNC}{leaver}"), "");
        found(&body, 2, exited, "// here", says);
    }
}

#[test]
fn atomics_of_all_blocks_count_in_one() {
    let count = |scope: &str| {
        format!(
            "@%p0 st.shared.u32 [%r3], 0;
{SYNC}
mapa.shared::cluster.u32 %r12, %r3, 0;
atom{scope}.shared::cluster.add.u32 %r13, [%r12], %r0;
red.shared::cluster.add.u32 [%r12], 1;
{SYNC}
ld.shared::cluster.u32 %r13, [%r12];
st.global.u32 [%rd2], %r13;
{SYNC}"
        )
    };
    right(&count(""), 4, |_, _| 4 * (64 + 2016));
    right(&count(".relaxed.cluster"), 2, |_, _| 2 * (64 + 2016));
}

/// Rank 1 leaves a word in block 0 and sets a flag there.
fn flag(write: &str, read: &str) -> String {
    format!(
        "add.u32 %r9, %r3, 512;
@%p0 st.shared.u32 [%r9], 0;
{SYNC}
mapa.shared::cluster.u32 %r12, %r9, 0;
mapa.shared::cluster.u32 %r14, %r5, 0;
@%p1 bra R;
setp.ne.u32 %p3, %r1, 1;
@%p3 bra D;
st.shared::cluster.u32 [%r14], 7;
bar.sync 1, 64;
@!%p0 bra D;
{write}
bra D;
R: {read}
setp.eq.u32 %p4, %r13, 0;
@%p4 bra R;
ld.shared.u32 %r15, [%r5]; // here
st.global.u32 [%rd2], %r15;
D:
{SYNC}"
    )
}

#[test]
fn flags_order_as_far_as_their_scope() {
    let write = |form: &str| format!("{form} [%r12], 1;");
    let read = |form: &str| format!("{form} %r13, [%r9];");
    let release = write("st.release.cluster.shared::cluster.u32");
    let acquire = read("ld.acquire.cluster.shared::cta.u32");
    let relaxed = "ld.relaxed.cluster.shared::cta.u32 %r13, [%r9];\nfence.acq_rel.cluster;";
    let fenced = "fence.acq_rel.cluster;\nst.relaxed.cluster.shared::cluster.u32 [%r12], 1;";
    for (write, read) in [
        (&*release, &*acquire),
        (&*release, relaxed),
        (fenced, &*acquire),
        (fenced, relaxed),
    ] {
        clean(run(&flag(write, read), 2).0);
    }
    for (write, read) in [
        (
            write("st.relaxed.cluster.shared::cluster.u32"),
            acquire.clone(),
        ),
        (release.clone(), read("ld.relaxed.cluster.shared::cta.u32")),
        (release, read("ld.acquire.cta.shared::cta.u32")),
        (write("st.release.cta.shared::cluster.u32"), acquire),
    ] {
        let race = FindingKind::SharedRace;
        found(&flag(&write, &read), 2, race, "// here", "of block");
    }
}

/// The barrier of the cluster orders global memory, too.
#[test]
fn the_barrier_orders_global_memory() {
    let body = |sync: &str| {
        format!(
            "xor.b32 %r10, %r6, 64;
mul.wide.u32 %rd3, %r10, 4;
add.u64 %rd3, %rd1, %rd3;
st.global.u32 [%rd2], %r6; // other
{sync}
ld.global.u32 %r10, [%rd3]; // here
{SYNC}
st.global.u32 [%rd2], %r10;"
        )
    };
    right(&body(SYNC), 2, |block, thread| (block ^ 1) * 64 + thread);
    let relaxed = SYNC.replace("arrive", "arrive.relaxed");
    let race = FindingKind::GlobalRace;
    found(&body(&relaxed), 2, race, "// here", "are not ordered");
    found(&body(""), 2, race, "// other", "are not ordered");
}

/// Block 0 of the cluster copies 256 bytes of `out` to all, thread 0 of each block expects them.
fn multicast(init: &str, copy: &str, behind: &str) -> String {
    format!(
        "{init}
@%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], 256;
and.pred %p3, %p0, %p1;
mov.u32 %r8, 1;
shl.b32 %r8, %r8, %r2;
sub.u32 %r8, %r8, 1;
cvt.u16.u32 %h1, %r8;
mov.u32 %r9, %clusterid.x;
mul.lo.u32 %r9, %r9, %r2;
mul.lo.u32 %r9, %r9, 64;
mul.wide.u32 %rd4, %r9, 4;
add.u64 %rd4, %rd1, %rd4;
{copy}
{WAIT}{behind}"
    )
}

const LINE: &str = "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%rd4], 256, [%r4], %h1; // here";
const BOX: &str = "mov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\n@%p3 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%rd5, {%r9}], [%r4], %h1; // here";

#[test]
fn copies_go_to_several_blocks() {
    // The copy reads `out` before anybody writes there.
    let end = format!("{SYNC}{OUT}");
    for size in [2, 4] {
        for copy in [LINE, BOX] {
            right(&multicast(INIT, copy, &end), size, |block, thread| {
                1000 + block / size * size * THREADS + thread
            });
        }
    }
    // A barrier that releases stands for the fence.
    let by_barrier = INIT
        .replace("@%p0 fence.mbarrier_init.release.cluster;\n", "")
        .replace(".relaxed", "");
    clean(run(&multicast(&by_barrier, LINE, &end), 2).0);
}

#[test]
fn mbarriers_that_others_may_not_see_yet_are_found() {
    let unfenced = INIT.replace("@%p0 fence.mbarrier_init.release.cluster;\n", "");
    let unmet = INIT.lines().take(2).collect::<Vec<_>>().join("\n") + "\nbar.sync 0;\n";
    let end = format!("{SYNC}{OUT}");
    let race = FindingKind::SharedRace;
    for mark in ["// here", "// init"] {
        let says = "race on the mbarrier at shared memory 0x400 of block [1, 0, 0]";
        found(&multicast(&unfenced, LINE, &end), 2, race, mark, says);
        // In this order the copy comes to what is no mbarrier yet.
        let says = "race on shared memory 0x400 of block [1, 0, 0]: this write and the write";
        found(&multicast(&unmet, LINE, &end), 2, race, mark, says);
    }
    // So are arrivals.
    let arrive = "@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r14]; // here";
    let late = arrivals(arrive, WAIT).replace("@%p0 fence.mbarrier_init.release.cluster;\n", "");
    found(
        &late,
        2,
        race,
        "// here",
        "race on the mbarrier at shared memory",
    );
}

#[test]
fn copies_that_nobody_waits_for_are_found() {
    let late = FindingKind::AsyncBeforeWait;
    // Block 0 waits, the others do not.
    let some = multicast(INIT, LINE, "").replace("W:\n", "@!%p1 bra V;\nW:\n")
        + "V:\n"
        + SYNC
        + OUT
        + SYNC;
    found(&some, 2, late, "// read", "is still in flight");
    // One thread waits, and the others read without a barrier.
    let one = multicast(INIT, LINE, "").replace("W:\n", "@!%p0 bra V;\nW:\n") + "V:\n" + OUT + SYNC;
    let report = run(&one, 2).0.unwrap();
    assert!(!report.findings.is_empty());
    // The block has ended.
    let gone = multicast(INIT, LINE, "").replace("and.pred", "@!%p1 ret;\nand.pred");
    let says = "goes to the shared memory of block";
    found(&gone, 2, FindingKind::ExitedBlock, "// here", says);
}

/// Each block stores to block 0 and arrives there.
fn arrivals(arrive: &str, wait: &str) -> String {
    let init = INIT.replace("[%r4], 1;", "[%r4], %r2;");
    format!(
        "{init}
mul.lo.u32 %r9, %r1, 64;
add.u32 %r9, %r9, %r3;
mapa.shared::cluster.u32 %r12, %r9, 0;
mapa.shared::cluster.u32 %r14, %r4, 0;
@%p0 st.shared::cluster.u32 [%r12], %r1; // other
{arrive}
@!%p1 bra D;
{wait}
ld.shared.u32 %r10, [%r3+64]; // here
st.global.u32 [%rd2], %r10;
D:
{SYNC}"
    )
}

#[test]
fn arrivals_at_other_blocks_order_and_are_missed() {
    let arrive = |form: &str| format!("@%p0 mbarrier.arrive{form}.shared::cluster.b64 _, [%r14];");
    let fenced = format!("fence.acq_rel.cluster;\n{}", arrive(".relaxed.cluster"));
    for by in [arrive(""), arrive(".release.cluster"), fenced] {
        let (report, out) = run(&arrivals(&by, WAIT), 2);
        clean(report);
        assert_eq!((out[5], out[64 + 5]), (1, 1064 + 5));
    }
    let expects = "@%p0 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r14], 16;\n@%p0 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r14], 16;";
    clean(run(&arrivals(expects, WAIT), 2).0);
    let race = FindingKind::SharedRace;
    for by in [arrive(".release.cta"), arrive(".relaxed.cluster")] {
        found(&arrivals(&by, WAIT), 2, race, "// here", "of block");
    }
    let cta = WAIT.replace("parity", "parity.acquire.cta");
    let late = arrivals(&arrive(""), &cta);
    found(&late, 2, race, "// other", "are not ordered");
    found(&arrivals(&arrive(""), ""), 2, race, "// here", "of block");
    // Block 1 does not arrive.
    let by = arrive("").replace("@%p0", "and.pred %p3, %p0, %p1;\n@%p3");
    let says = [
        "wait for the mbarrier at 0x",
        "which waits for 1 of 2 arrivals",
        "wait at barrier.cluster, where 64 threads have not arrived",
        "block [0, 0, 0]",
        "block [1, 0, 0]",
    ];
    stopped(&arrivals(&by, WAIT), 2, FaultKind::Deadlock, &says);
    // More than it counts.
    let by = arrive("").replace("];", "], 3;");
    let says = ["3 arrivals at an mbarrier that waits for 2"];
    stopped(&arrivals(&by, WAIT), 2, FaultKind::Undefined, &says);
}

/// Block 1 sends a word of each thread to block 0.
fn sent(expect: &str, send: &str, read: &str) -> String {
    format!(
        "@%p0 st.shared.u32 [%r3+512], 5;
{INIT}{SYNC}
and.pred %p3, %p0, %p1;
{expect}
mapa.shared::cluster.u32 %r12, %r5, 0;
mapa.shared::cluster.u32 %r14, %r4, 0;
mapa.shared::cluster.u32 %r16, %r3, 0;
@%p1 bra R;
{send}
bra D;
R:
{WAIT}{read}
st.global.u32 [%rd2], %r10;
D:
{SYNC}"
    )
}

const EXPECT: &str = "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;";
const SEND: &str =
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r0, [%r14]; // other";
const READ: &str = "ld.shared.u32 %r10, [%r5]; // here";

#[test]
fn asynchronous_stores_and_reductions() {
    let (report, out) = run(&sent(EXPECT, SEND, READ), 2);
    clean(report);
    assert_eq!(out[..64], (0..64).collect::<Vec<_>>());
    let vector = SEND
        .replace("u32 [%r12], %r0", "v4.b32 [%r12], {%r0, 1, 2, 3}")
        .replace(
            "st.async",
            "and.b32 %r20, %r0, 3;\nsetp.eq.u32 %p5, %r20, 0;\n@%p5 st.async",
        );
    let (report, out) = run(&sent(EXPECT, &vector, READ), 2);
    clean(report);
    assert_eq!(out[4..8], [4, 1, 2, 3]);
    let reduce = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r16+512], %r0, [%r14]; // other";
    let read = "ld.shared.u32 %r10, [%r3+512]; // here";
    let (report, out) = run(&sent(EXPECT, reduce, read), 2);
    clean(report);
    assert_eq!(out[63], 5 + 2016);
    // The phase ends without the bytes.
    let none = "@%p3 mbarrier.arrive.shared::cta.b64 _, [%r4];";
    let (late, race) = (FindingKind::AsyncBeforeWait, FindingKind::SharedRace);
    let (send, read_late) = (format!("{SEND}\n{SYNC}"), format!("{SYNC}{READ}"));
    let body = sent(none, &send, &read_late);
    found(&body, 2, late, "// here", "while st.async from");
    found(
        &sent(none, SEND, READ),
        2,
        race,
        "// other",
        "are not ordered",
    );
    found(
        &sent(none, reduce, read),
        2,
        race,
        "// here",
        "are not ordered",
    );
    // It does not end, and the message says how much is missing.
    let says = [
        "256 bytes more than expected were copied",
        "which waits for 1 of 1 arrivals",
    ];
    stopped(&sent("", SEND, READ), 2, FaultKind::Deadlock, &says);
    let more = EXPECT.replace("256", "260");
    let says = ["to which 4 expected bytes were not copied"];
    stopped(&sent(&more, SEND, READ), 2, FaultKind::Deadlock, &says);
    // An mbarrier of another block than the bytes.
    let apart = SEND.replace("[%r14]", "[%r4]");
    stopped(
        &sent(EXPECT, &apart, READ),
        2,
        FaultKind::Undefined,
        &["an mbarrier of another one"],
    );
}

#[test]
fn copies_between_shared_memories() {
    let send = |fence: &str, behind: &str| {
        format!(
            "st.shared.u32 [%r5], %r0; // write
{fence}
bar.sync 1, 64;
@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r16], [%r3], 256, [%r14]; // other
{behind}"
        )
    };
    let (report, out) = run(
        &sent(EXPECT, &send("fence.proxy.async.shared::cta;", ""), READ),
        2,
    );
    clean(report);
    assert_eq!(out[..64], (0..64).collect::<Vec<_>>());
    let race = FindingKind::SharedRace;
    let unfenced = sent(EXPECT, &send("", ""), READ);
    found(
        &unfenced,
        2,
        race,
        "// other",
        "no fence.proxy.async orders",
    );
    // The source changes while it is read.
    let write = "bar.sync 1, 64;\nst.shared.u32 [%r5], 7; // again";
    let late = sent(EXPECT, &send("fence.proxy.async.shared::cta;", write), READ);
    let kind = FindingKind::AsyncBeforeWait;
    found(&late, 2, kind, "// again", "may still read it");
}

#[test]
fn registers_and_addresses_say_where_a_block_is() {
    let body = "mul.lo.u32 %r20, %r1, 1000;
mov.u32 %r21, %cluster_ctaid.x;
mad.lo.u32 %r20, %r21, 100, %r20;
mov.u32 %r21, %cluster_nctaid.x;
mad.lo.u32 %r20, %r21, 10, %r20;
mov.u32 %r21, %clusterid.x;
add.u32 %r20, %r20, %r21;
mov.u32 %r21, %nclusterid.x;
mad.lo.u32 %r20, %r21, 10000, %r20;
mov.pred %p3, %is_explicit_cluster;
@%p3 add.u32 %r20, %r20, 100000;
mapa.shared::cluster.u32 %r22, data, 1;
getctarank.shared::cluster.u32 %r23, %r22;
mad.lo.u32 %r20, %r23, 1000000, %r20;
cvt.u64.u32 %rd3, %r22;
cvta.shared::cluster.u64 %rd3, %rd3;
getctarank.u64 %r23, %rd3;
mad.lo.u32 %r20, %r23, 1000000, %r20;
isspacep.shared::cluster %p4, %rd3;
@%p4 add.u32 %r20, %r20, 10000000;
isspacep.shared::cta %p4, %rd3;
@%p4 add.u32 %r20, %r20, 20000000;
cvta.to.shared::cluster.u64 %rd4, %rd3;
cvt.u32.u64 %r24, %rd4;
setp.eq.u32 %p4, %r24, %r22;
@%p4 add.u32 %r20, %r20, 40000000;
getctarank.shared::cluster.u32 %r23, %r3;
setp.eq.u32 %p4, %r23, %r1;
@%p4 add.u32 %r20, %r20, 80000000;
st.global.u32 [%rd2], %r20;";
    right(body, 2, |block, _| {
        let rank = block % 2;
        132_120_020 + 1100 * rank + block / 2 + 20_000_000 * rank
    });
}

#[test]
fn wrong_uses_of_the_barrier_are_faults() {
    let twice = "barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;\n";
    let says = ["barrier.cluster.arrive a second time"];
    stopped(twice, 2, FaultKind::Undefined, &says);
    let says = ["barrier.cluster.wait of a thread that has not arrived"];
    stopped(
        "barrier.cluster.wait.aligned;",
        2,
        FaultKind::Undefined,
        &says,
    );
    let body = "mapa.shared::cluster.u32 %r12, %r5, 2;\nld.shared::cluster.u32 %r13, [%r12];";
    stopped(
        body,
        2,
        FaultKind::OutOfBounds,
        &["in a cluster of 2 blocks"],
    );
    // Not by an address of `.shared::cta`.
    let body = exchange(SYNC, SYNC).replace("ld.shared::cluster.u32", "ld.shared.u32");
    stopped(
        &body,
        2,
        FaultKind::OutOfBounds,
        &["out of bounds: shared address"],
    );
    // Threads that have ended are not waited for.
    right(
        &format!("@!%p0 ret;\n{SYNC}st.global.u32 [%rd2], 3;"),
        2,
        |block, thread| match thread {
            0 => 3,
            _ => 1000 + 64 * block + thread,
        },
    );
}

#[test]
fn a_launch_has_to_fit_the_clusters_of_its_kernel() {
    let launched = |directives: &str, grid: u32, cluster: Option<[u32; 3]>| {
        let text = kernel("").replace("\n{\n", &format!("\n{directives}\n{{\n"));
        let module = load(&text);
        let kernel = module.kernel("k").unwrap();
        let params = vec![0; kernel.parameter_bytes() as usize];
        let launch = Launch {
            grid: [grid, 1, 1],
            block: [32, 1, 1],
            cluster,
            cooperative: false,
            dynamic_shared: 0,
        };
        let mut memory = Memory::default();
        match launch_as(kernel, &launch, &params, &mut memory, limits()) {
            Ok(_) => "runs".to_owned(),
            Err(fault) => fault.message,
        }
    };
    let required = ".explicitcluster .reqnctapercluster 2, 1, 1";
    for (directives, grid, cluster, says) in [
        (required, 4, None, "runs"),
        (required, 4, Some([2, 1, 1]), "runs"),
        (required, 4, Some([4, 1, 1]), "requires [2, 1, 1]"),
        (required, 3, None, "no multiple of the cluster"),
        (".explicitcluster", 4, None, "runs in clusters only"),
        (".explicitcluster", 4, Some([4, 1, 1]), "runs"),
        (".maxclusterrank 2", 4, Some([4, 1, 1]), "at most 2"),
        ("", 32, Some([32, 1, 1]), "1 to 16"),
        ("", 32, Some([16, 1, 1]), "runs"),
    ] {
        let told = launched(directives, grid, cluster);
        assert!(told.contains(says), "{directives} {cluster:?}: {told}");
    }
}

/// A kernel of tests/fixtures/clusters.cu, as nvcc 13.0.88 compiled it for sm_90, over 0, 7, 14, ... and zeros.
fn compiled(
    text: &str,
    name: &str,
    block: u32,
    cluster: Option<u32>,
    n: i32,
) -> (Result<Report, Fault>, Vec<u32>) {
    let module = load(text);
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let all: Vec<u8> = (0..8192_u32).flat_map(|i| (7 * i).to_le_bytes()).collect();
    let from = put(&mut memory, "in", &all);
    let out = put(&mut memory, "out", &[0; 4096]);
    let params = params(kernel, &[Arg::Ptr(from), Arg::Ptr(out), Arg::I32(n)]);
    let launch = Launch {
        grid: [8, 1, 1],
        block: [block, 1, 1],
        cluster: cluster.map(|n| [n, 1, 1]),
        cooperative: false,
        dynamic_shared: 0,
    };
    let kept = kept::Kept {
        text,
        kernel,
        launch,
        params: &params,
        buffers: &[(from, all.len()), (out, 4096)],
        limits: limits(),
    };
    let report = kept.launch(&mut memory, None);
    let words = memory.read(out, 4096).unwrap().chunks_exact(4);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    (report, words.map(word).collect())
}

#[test]
fn kernels_as_programs_write_them_are_right() {
    let text = fixture("clusters");
    for size in [1, 2, 4, 8] {
        let (report, out) = compiled(&text, "histogram", 128, Some(size), 5000);
        clean(report);
        let mut bins = vec![0; 64];
        (0..5000).for_each(|i| bins[7 * i % 64] += 1);
        assert_eq!(out[..64], bins, "{size}");
    }
    // Those that say their clusters themselves need none of the launch.
    let (report, out) = compiled(&text, "sums", 64, None, 100);
    clean(report);
    let sum = |n: u32| (400 * n..400 * (n + 1)).map(|i| 7 * i).sum::<u32>();
    assert_eq!(out[..3], [sum(0), sum(1), 0]);
    let (report, out) = compiled(&text, "sent", 128, None, 0);
    clean(report);
    for (i, got) in out.iter().enumerate().take(1024) {
        assert_eq!(*got as usize, 7 * (i ^ 128) + 1);
    }
    for (name, size) in [("ring_of_2", 2), ("ring_of_4", 4), ("ring_with_tail", 2)] {
        let (report, out) = compiled(&text, name, 96, Some(size), 7);
        clean(report);
        for (n, got) in out.iter().enumerate().take(8 * 64) {
            let (cluster, thread) = (n / 64 / size as usize, n % 64);
            let of_tile = |t: usize| {
                let first = (cluster * 7 + t) * 256;
                (thread..256)
                    .step_by(64)
                    .map(|i| 7 * (first + i) * (t + 1))
                    .sum::<usize>()
            };
            assert_eq!(
                *got as usize,
                (0..7).map(of_tile).sum::<usize>(),
                "{name} {n}"
            );
        }
    }
}

/// Replaces the `n`-th statement of a kernel that begins so.
fn changed(text: &str, name: &str, begins: &str, n: usize, by: &str) -> String {
    let entry = text.find(&format!(".entry {name}(")).unwrap();
    let (at, _) = text[entry..].match_indices(begins).nth(n).unwrap();
    let (before, rest) = text.split_at(entry + at);
    let (_, behind) = rest.split_once(';').unwrap();
    format!("{before}{by}{behind}")
}

/// The line of clusters.cu that has a text.
fn source_line(what: &str) -> u32 {
    let path = format!("{}/tests/fixtures/clusters.cu", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let at = source.lines().position(|l| l.contains(what));
    at.unwrap_or_else(|| panic!("{what}")) as u32 + 1
}

/// A statement, which of them, what takes its place, and the finding: its kind, its words, and a text of its line.
type Removal = (
    &'static str,
    usize,
    &'static str,
    FindingKind,
    &'static str,
    &'static str,
);

#[test]
fn each_removed_synchronisation_of_a_ring_is_found() {
    let wait = "mbarrier.try_wait.parity.shared::cta.b64 p, [";
    let passes = "setp.eq.u32 p, 0, 0;";
    let removals: [Removal; 3] = [
        (
            "fence.mbarrier_init.release.cluster",
            0,
            "",
            FindingKind::SharedRace,
            "race on the mbarrier",
            "mbarrier.init",
        ),
        (
            wait,
            0,
            passes,
            FindingKind::AsyncBeforeWait,
            "is read while cp.async.bulk",
            "sum += tile",
        ),
        // Both of its halves are gone (below).
        (
            "barrier.cluster.arrive.aligned",
            0,
            "",
            FindingKind::ExitedBlock,
            "of the cluster, and nothing orders it",
            "\"r\"(rank)",
        ),
    ];
    let text = fixture("clusters");
    for (name, size) in [("ring_of_2", 2), ("ring_of_4", 4)] {
        let run = |text: &str, tiles| compiled(text, name, 96, Some(size), tiles).0;
        clean(run(&text, 2));
        for (what, n, by, kind, says, at) in removals {
            let mut text = changed(&text, name, what, n, by);
            if kind == FindingKind::ExitedBlock {
                text = changed(&text, name, "barrier.cluster.wait.aligned", 1, "");
            }
            // Without a second lap: consumers that do not wait for bytes would arrive too often.
            let report = run(&text, 2).unwrap_or_else(|f| panic!("{what} {n}: {f}"));
            let line = source_line(at);
            let is_there = |p: &Place| p.line.as_ref().is_some_and(|(_, n)| *n == line);
            let is_it = |f: &Finding| {
                f.kind == kind && f.message.contains(says) && f.places.iter().any(is_there)
            };
            assert!(
                report.findings.iter().any(is_it),
                "{name} {what} {n}: {:#?}",
                report.findings
            );
        }
        clean(run(&text, 7));
        let fault = |what, n, by| {
            run(&changed(&text, name, what, n, by), 7)
                .unwrap_err()
                .message
        };
        // A producer that does not wait for the consumers of all blocks.
        let ahead = fault(wait, 1, passes);
        assert!(
            ahead.contains("1 arrivals at an mbarrier that waits for 0"),
            "{ahead}"
        );
        // Consumers that do not arrive, and more bytes expected than the blocks bring.
        let never = fault("mbarrier.arrive.shared::cluster.b64", 0, "");
        let says = format!("which waits for {0} of {0} arrivals", 2 * size);
        assert!(
            never.starts_with("deadlock") && never.contains(&says),
            "{never}"
        );
        let expects = text.find("mbarrier.arrive.expect_tx.shared::cta").unwrap();
        let (expects, _) = text[expects..].split_once(';').unwrap();
        let more = expects.replace("arrive.expect_tx", "expect_tx");
        let more = format!("{expects};\n{};", more.replace("_, ", ""));
        let less = fault("mbarrier.arrive.expect_tx", 0, &more);
        let says = "to which 1024 expected bytes were not copied";
        assert!(
            less.starts_with("deadlock") && less.contains(says),
            "{less}"
        );
    }
}

#[test]
fn clusters_have_up_to_three_dimensions_and_are_sampled_whole() {
    let body = "mov.u32 %r20, %ctaid.y;
mov.u32 %r21, %nctaid.x;
mad.lo.u32 %r20, %r20, %r21, %r6;
setp.eq.u32 %p3, %r0, 0;
mov.u32 %r22, %ctaid.x;
mov.u32 %r23, %ctaid.y;
mad.lo.u32 %r24, %r23, 4, %r22;
mul.wide.u32 %rd3, %r24, 4;
add.u64 %rd3, %rd1, %rd3;
mov.u32 %r25, %clusterid.y;
mov.u32 %r26, %cluster_ctaid.y;
mad.lo.u32 %r27, %r25, 10, %r26;
mad.lo.u32 %r27, %r27, 10, %r1;
@%p0 st.global.u32 [%rd3], %r27;";
    let module = load(&kernel(body));
    let kernel = module.kernel("k").unwrap();
    let launch = Launch {
        grid: [4, 4, 1],
        block: [THREADS, 1, 1],
        cluster: Some([2, 2, 1]),
        cooperative: false,
        dynamic_shared: 0,
    };
    let run = |sample| {
        let mut memory = Memory::default();
        let out = put(&mut memory, "out", &[0; 64]);
        let mut params = vec![0; kernel.parameter_bytes() as usize];
        params[..8].copy_from_slice(&out.to_le_bytes());
        let limits = Limits { sample, ..limits() };
        let report = clean(launch_as(kernel, &launch, &params, &mut memory, limits));
        let words = memory.read(out, 64).unwrap().chunks_exact(4);
        let words: Vec<u32> = words
            .map(|c| u32::from(c[0]) + 256 * u32::from(c[1]))
            .collect();
        (words, report.counters.total.issued)
    };
    let (words, all) = run(None);
    for (n, got) in words.iter().enumerate() {
        let (x, y) = (n as u32 % 4, n as u32 / 4);
        assert_eq!(*got, y / 2 * 100 + y % 2 * 10 + x % 2 + 2 * (y % 2), "{n}");
    }
    assert_eq!(kernel.sampled(&launch, 8), 8);
    assert_eq!(2 * run(Some(8)).1, all);
    assert_eq!(kernel.sampled(&launch, 1), 4);
    assert_eq!(4 * run(Some(1)).1, all);
}
