//! Which counters no gate may rest on: each reason with the code that gives it, and the same code without.

use crate::common::*;
use ptxsim::Counter::*;
use ptxsim::*;

/// A block of one warp runs `code` with `%r1` the thread, `%r2` its place in shared memory times 16 and
/// `%rd1` in global memory times 16; source lines are those of the code, from 1.
fn report(code: &str) -> Report {
    let lines: String = code
        .lines()
        .enumerate()
        .map(|(n, line)| format!(".loc 1 {} 1\n{line}\n", n + 1))
        .collect();
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n.entry k(.param .u64 p)\n{{ .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<20>; .reg .pred %p<3>;\n.shared .align 128 .b8 s[8192];\nld.param.u64 %rd2, [p];\nmov.u32 %r1, %tid.x;\nshl.b32 %r3, %r1, 4;\nmov.u32 %r4, s;\nadd.u32 %r2, %r4, %r3;\nmul.wide.u32 %rd3, %r1, 16;\nadd.u64 %rd1, %rd2, %rd3;\n{lines}ret; }}"
    );
    let module = load(&text);
    let mut memory = Memory::default();
    let p = put(&mut memory, "data", &[0; 16384]);
    let params = params(&module.kernels()[0], &[Arg::Ptr(p)]);
    launch(
        &module.kernels()[0],
        [1, 1, 1],
        [32, 1, 1],
        0,
        &params,
        &mut memory,
        limits(),
    )
    .unwrap()
}

/// Counters in doubt, the reason and the line, which is the same for all of them.
fn doubts(code: &str) -> (Vec<Counter>, Option<(Doubt, String)>) {
    let report = report(code);
    let mut why: Vec<_> = report
        .withheld
        .values()
        .map(|d| (d.doubt, d.place.clone()))
        .collect();
    why.dedup();
    assert!(why.len() <= 1, "{why:?}");
    (report.withheld.into_keys().collect(), why.pop())
}

fn none(code: &str) {
    assert_eq!(doubts(code), (Vec::new(), None), "{code}");
}

fn some(code: &str, counters: &[Counter], doubt: Doubt, line: u32) {
    assert_eq!(
        doubts(code),
        (counters.to_vec(), Some((doubt, format!("k.cu:{line}")))),
        "{code}"
    );
}

const LOADS: &[Counter] = &[SharedLoadRequests, SharedLoadWavefronts];
const STORES: &[Counter] = &[SharedStoreRequests, SharedStoreWavefronts];
const GLOBAL: &[Counter] = &[GlobalLoadRequests, GlobalLoadSectors];

#[test]
fn stores_side_by_side() {
    some(
        "st.shared.u32 [%r2], %r1;\nst.shared.u32 [%r2+4], %r1;",
        STORES,
        Doubt::Joined,
        1,
    );
    // Through another register, and with something between.
    some(
        "add.u32 %r5, %r2, 64;\nst.shared.u32 [%r2+60], %r1;\nmul.lo.u32 %r6, %r1, 3;\nst.shared.u32 [%r5], %r6;",
        STORES,
        Doubt::Joined,
        2,
    );
    none("st.shared.u32 [%r2], %r1;\nst.shared.u32 [%r2+8], %r1;");
    none("st.shared.u32 [%r2], %r1;\nbar.sync 0;\nst.shared.u32 [%r2+4], %r1;");
    // A copy that is as wide as it can be is left alone, and so is global memory.
    none(
        "st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\nst.shared.v4.u32 [%r2+1024], {%r1, %r1, %r1, %r1};\nst.shared.v4.u32 [%r2+1040], {%r1, %r1, %r1, %r1};",
    );
    none("st.global.u32 [%rd1], %r1;\nst.global.u32 [%rd1+4], %r1;");
}

#[test]
fn loads_side_by_side_and_of_the_same_place() {
    let written = "st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\nbar.sync 0;\n";
    let with = |code: &str| format!("{written}{code}");
    some(
        &with("ld.shared.u32 %r5, [%r2];\nld.shared.u32 %r6, [%r2+4];"),
        LOADS,
        Doubt::Joined,
        3,
    );
    some(
        &with("ld.shared.u32 %r5, [%r2];\nld.shared.u32 %r6, [%r2];"),
        LOADS,
        Doubt::Joined,
        3,
    );
    none(&with(
        "ld.shared.u32 %r5, [%r2];\nld.shared.u32 %r6, [%r2+8];",
    ));
    some(
        "ld.global.u32 %r5, [%rd1];\nld.global.u32 %r6, [%rd1];",
        GLOBAL,
        Doubt::Joined,
        1,
    );
    none("ld.global.u32 %r5, [%rd1];\nld.global.u32 %r6, [%rd1+4];");
    // Something may have been stored there.
    none("ld.global.u32 %r5, [%rd1];\nst.global.u32 [%rd2], 1;\nld.global.u32 %r6, [%rd1];");
}

#[test]
fn turns_of_a_loop_side_by_side() {
    let of = |step: u32| {
        format!(
            "mov.u32 %r5, 0;\nL: st.shared.u32 [%r2], %r1;\nadd.u32 %r2, %r2, {step};\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 bra L;"
        )
    };
    some(&of(4), STORES, Doubt::Joined, 2);
    none(&of(512));
}

#[test]
fn loops_that_lanes_leave_by_and_by() {
    let of = |turns: &str| {
        format!(
            "mov.u32 %r5, 0;\nL: ld.global.u32 %r6, [%rd1];\nadd.u64 %rd1, %rd1, 512;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, {turns};\n@%p1 bra L;\nst.global.u32 [%rd2], 1;"
        )
    };
    none(&of("5"));
    some(&of("%r1"), GLOBAL, Doubt::RaggedLoop, 2);
    // Out of the middle.
    some(
        "mov.u32 %r5, 0;\nL: setp.ge.u32 %p2, %r5, %r1;\n@%p2 bra E;\nld.global.u32 %r6, [%rd1];\nadd.u32 %r5, %r5, 1;\nbra L;\nE: st.global.u32 [%rd2], 1;",
        GLOBAL,
        Doubt::RaggedLoop,
        4,
    );
    // A branch without a loop, and one within a loop that all leave together.
    none("setp.lt.u32 %p1, %r1, 9;\n@%p1 bra E;\nld.global.u32 %r6, [%rd1];\nE: mov.u32 %r7, 0;");
    none(
        "mov.u32 %r5, 0;\nL: setp.lt.u32 %p2, %r1, 9;\n@%p2 bra M;\nld.global.u32 %r6, [%rd1];\nM: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 bra L;",
    );
}

#[test]
fn copies_of_whole_sectors_and_others() {
    let of = |form: &str, by: u32, from: u32, size: &str| {
        format!(
            "add.u32 %r2, %r2, {by};\nadd.u64 %rd1, %rd1, {from};\ncp.async.{form}.shared.global [%r2], [%rd1], {size};\ncp.async.wait_all;"
        )
    };
    none(&of("cg", 0, 0, "16"));
    none(&of("cg", 32, 0, "16"));
    none(&of("ca", 4, 4, "4"));
    some(
        &of("cg", 16, 0, "16"),
        &[GlobalLoadSectors],
        Doubt::SplitCopy,
        3,
    );
    some(
        &of("cg", 0, 16, "16"),
        &[GlobalLoadSectors],
        Doubt::SplitCopy,
        3,
    );
    some(&of("ca", 0, 0, "16"), GLOBAL, Doubt::Uncompared, 3);
    // A part of its bytes; the rest is zeros.
    some(
        &of("ca", 0, 0, "8, 4"),
        &[GlobalLoadSectors],
        Doubt::SplitCopy,
        3,
    );
    none(&of("ca", 0, 0, "8, 8"));
}

/// A GPU does not ask for what it fills in.
#[test]
fn copies_that_fill_ask_nothing() {
    let of = |size: &str| {
        let code = format!(
            "{size}\ncp.async.cg.shared.global [%r2], [%rd1], 16, %r7;\ncp.async.wait_all;"
        );
        let counters = report(&code).counters;
        [
            counters.get(GlobalLoadRequests),
            counters.get(GlobalLoadSectors),
            counters.get(AsyncCopySectors),
        ]
    };
    assert_eq!(of("mov.u32 %r7, 16;"), [1, 16, 16]);
    assert_eq!(of("mov.u32 %r7, 0;"), [0, 0, 0]);
    let half = "setp.lt.u32 %p1, %r1, 8;\nselp.u32 %r7, 16, 0, %p1;";
    assert_eq!(of(half), [1, 4, 4]);
}

#[test]
fn forms_that_were_not_compared() {
    some(
        "ld.global.cg.u32 %r5, [%rd1];",
        GLOBAL,
        Doubt::Uncompared,
        1,
    );
    some(
        "ld.global.L1::no_allocate.u32 %r5, [%rd1];",
        GLOBAL,
        Doubt::Uncompared,
        1,
    );
    some(
        "st.volatile.shared.u32 [%r2], %r1;",
        STORES,
        Doubt::Uncompared,
        1,
    );
    some(
        "ld.u32 %r5, [%rd1];",
        &[
            GlobalLoadRequests,
            GlobalLoadSectors,
            SharedLoadRequests,
            SharedLoadWavefronts,
        ],
        Doubt::Uncompared,
        1,
    );
    none("ld.global.nc.v2.f32 {%f1, %f2}, [%rd1];\nst.global.u8 [%rd1], %r1;");
}

/// ptxas 13.0.88 keeps one of equal loads where it can see that the stride is 0: four of 8 bytes become one,
/// and eight of 4 bytes become four.
#[test]
fn fragments_with_a_stride_of_0() {
    let of = |stride: &str, layout: &str| {
        format!(
            "mov.u32 %r5, 0;\nL: st.shared.v4.u32 [%r2], {{%r1, %r1, %r1, %r1}};\nadd.u32 %r2, %r2, 512;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 bra L;\nbar.sync 0;\n{stride}\nwmma.load.c.sync.aligned.{layout}.m8n32k16.shared.f32 {{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}}, [%r4], %r7;"
        )
    };
    let loads = |code: &str| report(code).counters.get(SharedLoadRequests);
    let seen = "mov.b32 %r7, 0;";
    none(&of(seen, "col"));
    assert_eq!(loads(&of(seen, "col")), 1);
    assert_eq!(loads(&of(seen, "row")), 4);
    let plain = "mov.b32 %r7, 8;";
    none(&of(plain, "col"));
    assert_eq!(loads(&of(plain, "col")), 4);
    // Only the launch knows.
    let unseen = of("ld.global.u32 %r7, [%rd2];", "col");
    some(&unseen, LOADS, Doubt::ZeroStride, 9);
    assert_eq!(loads(&unseen), 4);
}
