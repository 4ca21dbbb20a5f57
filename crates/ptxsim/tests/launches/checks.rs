//! Every check goes red for the right reason on a kernel that was changed by hand, and stays
//! silent on the kernel as it was (tests/kernels.rs).

use crate::common::*;
use ptxsim::*;

const HEADER: &str = ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n";

/// A kernel `k(u64 p)` with `body`, over `bytes` of memory that has values.
fn run(decls: &str, body: &str, block: u32, bytes: usize) -> (Result<Report, Fault>, Vec<u8>) {
    let text = format!(
        "{HEADER}{decls}\n.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<9>;\n\
         ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n{body}\nret;\n}}\n"
    );
    let module = load(&text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let p = put(
        &mut memory,
        "data",
        &(0..bytes).map(|i| i as u8).collect::<Vec<_>>(),
    );
    let params = params(kernel, &[Arg::Ptr(p)]);
    let limits = Limits {
        instructions: 3_000_000,
        ..Limits::default()
    };
    let report = launch(
        kernel,
        [1, 1, 1],
        [block, 1, 1],
        0,
        &params,
        &mut memory,
        limits,
    );
    let out = memory.read(p, bytes).unwrap().to_vec();
    (report, out)
}

/// The text without its n-th (from 0) line that contains `what`.
fn without(text: &str, what: &str, n: usize) -> String {
    let mut seen = 0;
    let mut out = String::new();
    for line in text.lines() {
        let hit = line.contains(what);
        seen += usize::from(hit);
        if !(hit && seen == n + 1) {
            out.push_str(line);
            out.push('\n');
        }
    }
    assert!(seen > n, "there are {seen} lines with {what}");
    out
}

fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|f| f.kind).collect()
}

#[test]
fn every_barrier_of_stage2_is_needed() {
    let text = fixture("fp8_stage2");
    let barriers = text.lines().filter(|l| l.contains("bar.sync")).count();
    assert!(barriers >= 2);
    for n in 0..barriers {
        let run = run_fp8(&without(&text, "bar.sync", n), 0, 1, 200, limits());
        let report = run.report.unwrap();
        let race = report
            .findings
            .iter()
            .find(|f| f.kind == FindingKind::SharedRace);
        let race = race.unwrap_or_else(|| panic!("barrier {n}: {:#?}", report.findings));
        assert_eq!(race.places.len(), 2);
        assert!(
            race.places
                .iter()
                .all(|p| [".cuh", ".cu", ".hpp"].iter().any(|end| p
                    .line
                    .as_ref()
                    .unwrap()
                    .0
                    .ends_with(end))),
            "{:?}",
            race.places
        );
    }
}

#[test]
fn barriers_and_warp_syncs_of_f16_are_needed() {
    let text = fixture("f16_wmma");
    // The warp syncs that another one covers: the first (behind the load of Q, before the first
    // barrier), the one between rescale and accumulate (registers only in between), and the one
    // before the output is staged (the last barrier of the loop comes before it).
    let race = [FindingKind::SharedRace].as_slice();
    let within = [FindingKind::WarpRace, FindingKind::WarpHazard].as_slice();
    for (what, expected, free) in [
        ("bar.sync", race, vec![]),
        ("bar.warp.sync", within, vec![0, 4, 6]),
    ] {
        let count = text.lines().filter(|l| l.contains(what)).count();
        let unneeded: Vec<usize> = (0..count)
            .filter(|&n| {
                let run = run_f16(&without(&text, what, n), 64, 1, 200, false, limits());
                !kinds(&run.report.unwrap())
                    .iter()
                    .any(|kind| expected.contains(kind))
            })
            .collect();
        assert_eq!(unneeded, free, "{what}");
    }
}

#[test]
fn a_loosened_wait_is_seen() {
    let text = fixture("fp8_stage2");
    let loose = text.replace("cp.async.wait_group 0", "cp.async.wait_group 1");
    assert_ne!(text, loose);
    let run = run_fp8(&loose, 0, 1, 128, limits());
    let report = run.report.unwrap();
    let finding = report
        .findings
        .iter()
        .find(|f| f.kind == FindingKind::AsyncBeforeWait)
        .unwrap();
    assert!(
        finding.message.contains("cp.async from") && finding.places.len() == 2,
        "{finding:?}"
    );
}

#[test]
fn an_index_one_past_the_end_names_the_allocation() {
    let (report, _) = run("", ".loc 1 7 1\nst.global.u32 [%rd3+4], %r1;", 32, 128);
    let fault = report.unwrap_err();
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::OutOfBounds, [31, 0, 0])
    );
    assert!(
        fault
            .message
            .contains("directly past the end of `data` (128 bytes")
            && fault.place.at == "k.cu:7",
        "{fault}"
    );
    let (report, _) = run(
        ".shared .b32 s[32];",
        "mov.u32 %r2, s;\nld.shared.u32 %r3, [%r2+128];",
        32,
        128,
    );
    assert!(report.unwrap_err().message.contains("of `s` (128 bytes)"));
}

#[test]
fn the_ragged_edge_is_watched() {
    // gemm with its bounds checks of C turned around by one: m and n from the parameters grow
    let text = fixture("gemm");
    let wrong = text.replacen("setp.lt.s32", "setp.le.s32", 40);
    assert_ne!(text, wrong);
    let module = load(&wrong);
    let kernel = module.kernel("gemm").unwrap();
    let mut memory = Memory::default();
    let a = put(&mut memory, "a", &bytes_of(&vec![1.0; 65 * 65]));
    let c = memory.alloc("c", 4 * 65 * 65).unwrap();
    let args = [
        Arg::Ptr(a),
        Arg::Ptr(a),
        Arg::Ptr(c),
        Arg::I32(65),
        Arg::I32(65),
        Arg::I32(65),
    ];
    let p = params(kernel, &args);
    let fault = launch(kernel, [2, 2, 1], [256, 1, 1], 0, &p, &mut memory, limits()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert!(fault.place.at.contains("kernels/gemm.cu:"), "{fault}");
}

#[test]
fn misaligned_access() {
    let (report, _) = run("", "ld.global.u32 %r2, [%rd3+2];", 1, 128);
    assert_eq!(report.unwrap_err().kind, FaultKind::Misaligned);
    let (report, _) = run("", "ld.global.v2.u32 {%r2, %r3}, [%rd3+4];", 1, 128);
    assert_eq!(report.unwrap_err().kind, FaultKind::Misaligned);
}

#[test]
fn reports_unwritten_values_only_at_their_use() {
    let shared = "mov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r2, %r2, %r3;\n.loc 1 4 1\n";
    let read = format!("{shared}ld.shared.u32 %r4, [%r2];\n.loc 1 5 1\n");
    let of_shared = |body: &str| {
        let (report, _) = run(".shared .b32 s[64];", &format!("{read}{body}"), 32, 128);
        let report = report.unwrap();
        for f in &report.findings {
            assert_eq!(f.kind, FindingKind::UninitialisedShared);
            assert_eq!(f.places[0].at, "k.cu:5");
            assert!(["k.cu:4", "k.cu:5"].contains(&f.places[1].at.as_str()));
        }
        report.findings.into_iter().map(|f| f.message).next()
    };
    // Neither the read itself, nor what is dropped, masked away or overwritten.
    for right in [
        "",
        "add.u32 %r5, %r4, 1;\nmul.lo.u32 %r6, %r5, %r4;",
        "xor.b32 %r5, %r4, %r4;\nst.global.u32 [%rd3], %r5;",
        "and.b32 %r5, %r4, 0;\nst.global.u32 [%rd3], %r5;",
        "setp.lt.u32 %p1, %r1, 99;\nselp.b32 %r5, %r1, %r4, %p1;\nst.global.u32 [%rd3], %r5;",
        "st.global.u32 [%rd3], %r4;\nst.global.u32 [%rd3], %r1;",
        "st.shared.u32 [%r2+128], %r4;\nst.shared.u32 [%r2], %r1;\nld.shared.u32 %r4, [%r2];\n\
         st.global.u32 [%rd3], %r4;",
        "mov.b32 {%h1, %h2}, %r4;\nmov.b32 %r5, {%h3, %h3};\nshl.b32 %r6, %r4, 16;\nand.b32 %r6, %r6, 0xffff;\n\
         setp.eq.u32 %p1, %r6, 0;\n@%p1 st.global.u32 [%rd3], %r6;",
    ] {
        let right = right.replace("mov.b32 %r5, {%h3, %h3};\n", "");
        assert_eq!(of_shared(&right), None, "{right}");
    }
    for (faulty, what) in [
        (
            "setp.gt.s32 %p1, %r4, 7;\n@%p1 bra A;\nadd.u32 %r5, %r1, 1;\nA:",
            "this branch at k.cu:5",
        ),
        (
            "setp.eq.u32 %p1, %r4, 12345;\n@%p1 bra A;\nadd.u32 %r5, %r1, 1;\nA:",
            "this branch",
        ),
        (
            "setp.eq.u32 %p1, %r4, 1;\n@%p1 st.global.u32 [%rd3], %r1;",
            "whether this is done",
        ),
        (
            "and.b32 %r4, %r4, 0;\nld.shared.u32 %r4, [%r2+128];\nst.global.u32 [%rd3], %r4;",
            "what is stored to `data` at byte 0",
        ),
        (
            "cvt.u64.u32 %rd5, %r4;\nand.b64 %rd5, %rd5, 60;\nadd.u64 %rd5, %rd1, %rd5;\nld.global.u32 %r5, [%rd5];",
            "the address of this access",
        ),
        (
            "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;\nst.global.u32 [%rd3], %r5;",
            "what is stored",
        ),
        (
            "add.u32 %r5, %r4, %r1;\nst.shared.u32 [%r2], %r5;\nld.shared.u32 %r6, [%r2];\nst.global.u32 [%rd3], %r6;",
            "what is stored",
        ),
        ("red.global.add.u32 [%rd3], %r4;", "the operand of this"),
        ("atom.shared.add.u32 %r5, [%r2], 1;", "the result of this"),
    ] {
        let told = of_shared(faulty).unwrap_or_else(|| panic!("{faulty}"));
        assert!(told.starts_with(what), "{faulty}: {told}");
        assert!(told.contains("depends on shared memory 0x"), "{told}");
    }
    let (report, _) = run(
        "",
        ".local .align 8 .b8 l[8];\nmov.u64 %rd5, l;\nst.local.u32 [%rd5], %r1;\nld.local.u64 %rd6, [%rd5];\n\
         mul.wide.u32 %rd7, %r1, 8;\nadd.u64 %rd7, %rd1, %rd7;\nst.global.u64 [%rd7], %rd6;",
        32,
        256,
    );
    let report = report.unwrap();
    assert_eq!(kinds(&report), [FindingKind::UninitialisedLocal]);
    assert!(
        report.findings[0]
            .message
            .contains("local memory 0x4 that was never written, read at")
    );

    let module = load(&fixture("reduce"));
    let kernel = module.kernel("_Z10reduce_sumPKfPfi").unwrap();
    let mut memory = Memory::default();
    let x = memory.alloc("x", 400).unwrap();
    memory.write(x, &[0; 396]).unwrap();
    let y = memory.alloc("y", 4).unwrap();
    let p = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(100)]);
    let report = launch(kernel, [1, 1, 1], [512, 1, 1], 0, &p, &mut memory, limits()).unwrap();
    assert_eq!(kinds(&report), [FindingKind::UninitialisedGlobal]);
    let message = &report.findings[0].message;
    assert!(
        message.starts_with("what is stored to `y` at byte 0")
            && message.contains("`x` at byte 396"),
        "{message}"
    );
    assert_eq!(report.findings[0].times, 1);
    assert!(memory.without_value(y, 4).unwrap().len() == 1);
}

#[test]
fn wrong_member_masks() {
    // half of the warp, but the whole warp executes it
    let (report, _) = run("", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;", 32, 128);
    assert!(kinds(&report.unwrap()).contains(&FindingKind::InvalidMembers));
    // lanes of the upper half read from the lower half, which takes no part
    let body = "setp.ge.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r2, %r1, 3, 31, 0xffff0000;";
    let (report, _) = run("", body, 32, 128);
    let report = report.unwrap();
    assert_eq!(kinds(&report), [FindingKind::InvalidMembers]);
    assert!(report.findings[0].message.contains("reads lane 3"));
    // a mask that names lanes which never come
    let body = "setp.ge.u32 %p1, %r1, 16;\n@%p1 bra A;\nbar.warp.sync 0xffffffff;\nbar.sync 0;\nbra B;\nA: bar.sync 0;\nB:";
    let (report, _) = run("", body, 32, 128);
    assert_eq!(report.unwrap_err().kind, FaultKind::Deadlock);
}

#[test]
fn a_shuffle_of_the_kernel_with_a_wrong_mask() {
    let text = fixture("f16_wmma");
    let line = text
        .lines()
        .find(|l| l.contains("shfl.sync.bfly"))
        .unwrap()
        .to_string();
    let mask = line
        .rsplit(',')
        .next()
        .unwrap()
        .trim()
        .trim_end_matches(';')
        .to_string();
    let wrong = text.replacen(&line, &line.replace(&mask, "65535"), 1);
    let run = run_f16(&wrong, 64, 1, 64, false, limits());
    assert!(kinds(&run.report.unwrap()).contains(&FindingKind::InvalidMembers));
}

#[test]
fn barriers_that_only_a_part_reaches() {
    let body = "setp.ge.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0;";
    let (report, _) = run("", body, 64, 128);
    assert_eq!(kinds(&report.unwrap()), [FindingKind::BarrierByPart]);
    let body = ".loc 1 9 1\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 bra A;\n.loc 1 12 1\nbar.sync 1;\nA: .loc 1 20 1\nbar.sync 0;";
    let (report, _) = run("", body, 64, 128);
    let fault = report.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains("barrier 1 at k.cu:12")
            && fault.message.contains("barrier 0 at k.cu:20"),
        "{fault}"
    );
}

#[test]
fn endless_loops_meet_the_budget() {
    let (report, _) = run("", ".loc 1 5 1\nA: bra A;", 32, 128);
    let fault = report.unwrap_err();
    assert_eq!(
        (fault.kind, fault.place.at.as_str()),
        (FaultKind::Budget, "k.cu:5")
    );
}

/// A place where threads wait is listed once, however many of them do.
#[test]
fn a_livelock_is_told_shortly() {
    let body = ".loc 1 5 1\nA: ld.volatile.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p1, %r2, 77;\n@%p1 bra A;";
    let (report, _) = run("", body, 1024, 4096);
    let fault = report.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    let message = &fault.message;
    assert!(
        message.starts_with("livelock") && message.contains("and 31 more are at k.cu:5"),
        "{message}"
    );
    assert!(message.len() < 300, "{message}");
}

/// Nor does it say twice how the line came where it is.
#[test]
fn a_livelock_in_inlined_code_is_told_shortly() {
    let body = ".loc 1 9 1\n.loc 1 5 1, function_name $L__info_string0, inlined_at 1 9 1\n\
                A: ld.volatile.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p1, %r2, 77;\n@%p1 bra A;";
    let (report, _) = run("", body, 32, 128);
    let message = report.unwrap_err().message;
    assert!(
        message.contains("are at k.cu:5; at k.cu:5 inlined at k.cu:9, block"),
        "{message}"
    );
}

#[test]
fn traps_and_constants() {
    assert_eq!(
        run("", "trap;", 1, 128).0.unwrap_err().kind,
        FaultKind::Trap
    );
    let (report, _) = run(
        ".const .b32 c[1] = {5};",
        "mov.u64 %rd4, c;\nst.global.u32 [%rd4], %r1;",
        1,
        128,
    );
    assert_eq!(report.unwrap_err().kind, FaultKind::ReadOnly);
}

#[test]
fn races_within_a_warp_and_atomics() {
    let own = "mov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r2, %r2, %r3;\nst.shared.u32 [%r2], %r1;\n";
    let next = "xor.b32 %r4, %r3, 4;\nmov.u32 %r5, s;\nadd.u32 %r4, %r4, %r5;\nld.shared.u32 %r6, [%r4];\nst.global.u32 [%rd3], %r6;";
    let (report, _) = run(".shared .b32 s[32];", &format!("{own}{next}"), 32, 128);
    let report = report.unwrap();
    assert_eq!(kinds(&report), [FindingKind::WarpHazard]);
    assert!(
        report.findings[0]
            .message
            .contains("no __syncwarp() orders this read")
    );
    let (report, out) = run(
        ".shared .b32 s[32];",
        &format!("{own}bar.warp.sync 0xffffffff;\n{next}"),
        32,
        128,
    );
    assert_eq!(kinds(&report.unwrap()), []);
    assert_eq!((out[0], out[4]), (1, 0));
    let init =
        "setp.ne.u32 %p1, %r1, 0;\nmov.u32 %r2, s;\n@!%p1 st.shared.u32 [%r2], 0;\nbar.sync 0;\n";
    let (report, out) = run(
        ".shared .b32 s[1];",
        &format!(
            "{init}atom.shared.add.u32 %r3, [%r2], 1;\nbar.sync 0;\nld.shared.u32 %r4, [%r2];\nst.global.u32 [%rd3], %r4;"
        ),
        96,
        384,
    );
    assert_eq!(kinds(&report.unwrap()), []);
    assert_eq!(out[380], 96);
}

#[test]
fn unsupported_forms_are_refused_by_name() {
    for form in [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
        "setmaxnreg.other.sync.aligned.u32",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%rd1], [%rd2, {%r1, %r1, %r1}], [%rd3], {%r1, %r1}",
        "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::1 [%rd1], [%rd2, {%r1}], [%rd3]",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%rd1], [%rd2], 16, [%rd3]",
        "cp.async.bulk.prefetch.tensor.3d.L2.global.im2col::w [%rd1, {%r1, %r1, %r1}], {%r1, %r1}",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], 7",
        "fence.proxy.alias",
        "tcgen05.fence::before_thread_sync",
        "mbarrier.test_wait.shared::cluster.b64 %p1, [%rd2], %rd1",
        "mbarrier.init.shared::cluster.b64 [%rd2], 1",
        "barrier.cluster.arrive.acquire.aligned",
        "mapa.shared::cta.u32 %r1, %r1, 1",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%rd1], {%rd2, %rd2, %rd2, %rd2}, [%rd3]",
        "st.async.mmio.release.sys.global.u32 [%rd1], %r1",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.exch.b32 [%rd1], %r1, [%rd3]",
        "griddepcontrol.other",
    ] {
        let text = format!(
            "{HEADER}.entry k()\n{{ .reg .b64 %rd<4>; .reg .b32 %r<2>;\n.loc 1 33 2\n{form};\nret; }}"
        );
        let error = Module::load(&text)
            .and_then(Module::complete)
            .err()
            .unwrap();
        let LoadError::Unsupported { pos, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(pos.line, 8);
        assert!(error.to_string().contains("k.cu:33"), "{error}");
    }
    let call = format!("{HEADER}.extern .func f();\n.entry k() {{ call f; ret; }}");
    assert!(
        Module::load(&call)
            .and_then(Module::complete)
            .err()
            .unwrap()
            .to_string()
            .contains("has no body")
    );
}

#[test]
fn a_sample_of_the_blocks_costs_its_share() {
    let text = fixture("softmax");
    let module = load(&text);
    let kernel = &module.kernels()[0];
    let cost = |sample| {
        let mut memory = Memory::default();
        let x = put(&mut memory, "x", &bytes_of(&[1.0; 64 * 32]));
        let y = memory.alloc("y", 4 * 64 * 32).unwrap();
        let p = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(32)]);
        let limits = Limits { sample, ..limits() };
        let report = launch(kernel, [64, 1, 1], [256, 1, 1], 0, &p, &mut memory, limits);
        report.unwrap().counters.total.issued
    };
    assert_eq!(cost(None), 8 * cost(Some(8)));
    assert_eq!(cost(None), cost(Some(64)));
    assert_eq!(cost(None), cost(Some(1000)));
}

#[test]
fn a_sample_meets_each_part_of_each_dimension() {
    // 16 tiles of queries by 8 heads by 2 batches: equal steps through the numbers would meet tile 0 four times.
    let found = ptxsim::sample([16, 8, 2], 4);
    let parts = |of: fn(u32) -> u32, size: u32| {
        let mut parts: Vec<u32> = found.iter().map(|&n| of(n) * 4 / size).collect();
        parts.sort_unstable();
        parts
    };
    assert_eq!(parts(|n| n % 16, 16), [0, 1, 2, 3]);
    assert_eq!(parts(|n| n / 16 % 8, 8), [0, 1, 2, 3]);
    // Work that grows with the tile is estimated as it is.
    let work: u32 = found.iter().map(|n| 2 * (n % 16) + 1).sum();
    assert_eq!(work * (16 / 4), 16 * 16 + 16);
    assert_eq!(ptxsim::sample([3, 1, 1], 4), [0, 1, 2]);
    assert_eq!(ptxsim::sample([u32::MAX, 65535, 65535], 1).len(), 1);
}
