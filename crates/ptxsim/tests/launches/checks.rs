//! Every check goes red for the right reason on a kernel that was changed by hand, and stays
//! silent on the kernel as it was (tests/kernels.rs).

use crate::common::*;
use ptxsim::*;

/// Returns the text without its n-th (from 0) line that contains `what`.
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
                    .file
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
        wording::findings::sentence(finding).contains("cp.async from") && finding.places.len() == 2,
        "{finding:?}"
    );
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
fn reports_unwritten_values_at_their_use() {
    let module = load(&fixture("reduce"));
    let kernel = module.kernel("_Z10reduce_sumPKfPfi").unwrap();
    let mut memory = Memory::default();
    let x = memory.alloc("x", 400).unwrap();
    memory.write(x, &[0; 396]).unwrap();
    let y = memory.alloc("y", 4).unwrap();
    let p = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(100)]);
    let report = launch(kernel, [1, 1, 1], [512, 1, 1], 0, &p, &mut memory, limits()).unwrap();
    assert_eq!(kinds(&report), [FindingKind::Uninitialised]);
    let message = wording::findings::sentence(&report.findings[0]);
    assert!(
        message.starts_with("what is stored to `y` at byte 0")
            && message.contains("`x` at byte 396"),
        "{message}"
    );
    assert_eq!(report.findings[0].times, 1);
    assert!(memory.without_value(y, 4).unwrap().len() == 1);
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

#[test]
fn only_a_whole_word_of_the_parameters_can_be_an_address() {
    let looks = |stored: &str, n: &str| looks(&format!("st.global.u32 [%rd1], {stored};"), n);
    // Four bytes behind the last whole word.
    assert_eq!(looks("%r2", ".u32"), []);
    assert_eq!(looks("%r3", ".u32"), [Circumstance::Addresses]);
    // Half of an address.
    assert_eq!(looks("%r2", ".u64"), [Circumstance::Addresses]);
}

#[test]
fn an_offset_before_the_parameters_holds_no_address() {
    assert_eq!(looks("ld.param.u64 %rd2, [-4];", ".u32"), []);
}

#[test]
fn an_address_shows_however_it_is_stored() {
    for store in [
        "st.shared.u32 [%r1], %r3;",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r3};",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r3, [%r2];",
        "red.shared.add.u32 [%r1], %r3;",
    ] {
        assert_eq!(looks(store, ".u32"), [Circumstance::Addresses], "{store}");
    }
    let in_local = "mov.u32 %r0, 0;\nst.local.u32 [%r0], %r3;";
    assert_eq!(looks(in_local, ".u32"), []);
}

/// Returns the circumstances of a kernel with a line that may use %r3, half of an address, and %r2, which is made of `n`.
fn looks(line: &str, n: &str) -> Vec<Circumstance> {
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p, .param {n} n)\n{{\n\
             .reg .b32 %r<4>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nld.param.u32 %r1, [n];\n\
             mul.lo.u32 %r2, %r1, 3;\ncvt.u32.u64 %r3, %rd1;\n{line}\nret;\n}}"
    );
    let module = load(&text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let out = put(&mut memory, "out", &[0; 64]);
    let mut params = out.to_le_bytes().repeat(2);
    params.truncate(kernel.parameter_bytes() as usize);
    let looks = kernel.looks(&params, false, &memory);
    looks.into_iter().map(|look| look.at).collect()
}

#[test]
fn clusters_have_up_to_three_dimensions_and_are_sampled_whole() {
    let body = "mov.u32 %r22, %ctaid.x;
mov.u32 %r23, %ctaid.y;
mad.lo.u32 %r24, %r23, 4, %r22;
mul.wide.u32 %rd3, %r24, 4;
add.u64 %rd3, %rd1, %rd3;
mov.u32 %r25, %clusterid.y;
mov.u32 %r26, %cluster_ctaid.y;
mad.lo.u32 %r27, %r25, 10, %r26;
mad.lo.u32 %r27, %r27, 10, %r1;
@%p0 st.global.u32 [%rd3], %r27;";
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 p)\n{{\n\
         .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>;\nmov.u32 %r0, %tid.x;\n\
         mov.u32 %r1, %cluster_ctarank;\nld.param.u64 %rd1, [p];\nsetp.eq.u32 %p0, %r0, 0;\n{body}\nret;\n}}"
    );
    let module = load(&text);
    let kernel = module.kernel("k").unwrap();
    let launch = Launch {
        grid: [4, 4, 1],
        block: [64, 1, 1],
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
        let words: Vec<u32> = memory
            .read(out, 64)
            .unwrap()
            .chunks_exact(4)
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
