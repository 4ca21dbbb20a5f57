//! Any number of threads gives the same report and the same memory, bit for bit.

use crate::common::*;
use ptxsim::*;

fn with(threads: usize) -> Limits {
    Limits {
        threads,
        instructions: 30_000_000,
        ..limits()
    }
}

/// Asserts that a kernel over buffers of `words` numbers does the same for each number of threads.
fn same(fixture_name: &str, kernel: &str, grid: [u32; 3], block: u32, words: usize, number: i32) {
    let module = load(&fixture(fixture_name));
    let kernel = module.kernel(kernel).unwrap();
    let run = |threads: usize| {
        let mut memory = Memory::default();
        let mut buffers = Vec::new();
        let args: Vec<Arg> = kernel
            .parameters()
            .iter()
            .enumerate()
            .map(|(i, (_, size))| {
                if *size == 4 {
                    return Arg::I32(number);
                }
                // The last buffer has no values yet, as outputs have none.
                let p = if i + 1 == kernel.parameters().len() {
                    memory.alloc("out", 4 * words as u64).unwrap()
                } else {
                    let mut r = Random(i as u64);
                    let small = |_| (r.next() % 8) as u32;
                    let bytes: Vec<u8> = (0..words).map(small).flat_map(u32::to_le_bytes).collect();
                    put(&mut memory, "in", &bytes)
                };
                buffers.push(p);
                Arg::Ptr(p)
            })
            .collect();
        let p = params(kernel, &args);
        let report = launch(
            kernel,
            grid,
            [block, 1, 1],
            0,
            &p,
            &mut memory,
            with(threads),
        );
        // A second launch shows which places have a value and which have none.
        let again = launch(kernel, grid, [block, 1, 1], 0, &p, &mut memory, with(1));
        let bytes: Vec<Vec<u8>> = buffers
            .iter()
            .map(|&b| memory.read(b, 4 * words).unwrap().to_vec())
            .collect();
        (report, again, bytes)
    };
    let one = run(1);
    for threads in [2, 3, 7] {
        let several = run(threads);
        assert_eq!(one.0, several.0, "{} on {threads}", kernel.name());
        assert_eq!(one.1, several.1, "{} on {threads}", kernel.name());
        assert!(one.2 == several.2, "{} on {threads}: memory", kernel.name());
    }
}

#[test]
fn kernels_of_the_repository() {
    same("gemm", "gemm", [3, 3, 1], 256, 150 * 150, 150);
    same(
        "reduce",
        "_Z10reduce_sumPKfPfi",
        [40, 1, 1],
        512,
        40 * 300,
        300,
    );
    same(
        "softmax",
        "_Z11row_softmaxPKfPfi",
        [40, 1, 1],
        256,
        40 * 300,
        300,
    );
    for threads in [2, 3, 7] {
        let text = fixture("fp8_stage2");
        let [a, b] = [1, threads].map(|t| run_fp8(&text, 0, 3, 200, with(t)));
        assert_eq!(a.report.unwrap(), b.report.unwrap());
        assert_eq!(a.worst.to_bits(), b.worst.to_bits());
        let text = fixture("f16_wmma");
        let [a, b] = [1, threads].map(|t| run_f16(&text, 64, 2, 200, true, with(t)));
        assert_eq!(a.report.unwrap(), b.report.unwrap());
        assert_eq!(a.worst.to_bits(), b.worst.to_bits());
    }
}

/// The kernels are right and wrong ones: conflicts, atomics, flags, reads of what has no value, faults.
#[test]
fn kernels_whose_blocks_meet() {
    for kernel in [
        "last_done",
        "last_unfenced",
        "last_unsynced",
        "flags",
        "flags_unfenced",
        "grid_sync",
        "queue",
        "locked",
        "stencil",
        "found",
        "histogram",
        "relay",
        "nobody",
    ] {
        same("sync", kernel, [9, 1, 1], 96, 9 * 96, 11);
        same("sync", kernel, [9, 1, 1], 96, 5 * 96, 5);
    }
}

/// There are more findings than are kept, in more blocks than there are threads.
#[test]
fn findings_beyond_the_limit() {
    let mut body = String::new();
    for i in 0..8 {
        body += &format!(
            "ld.shared.u32 %r3, [%r2+{}];\nst.global.u32 [%rd3+{}], %r3;\n",
            4 * i,
            4 * i
        );
    }
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.shared .b32 s[64];\n.entry k(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd2, %r1, 64;\nadd.s64 %rd3, %rd1, %rd2;\nmov.u32 %r2, s;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra L;\n{body}L:\nld.shared.u32 %r3, [%r2+64];\nst.global.u32 [%rd3+60], %r3;\nret; }}"
    );
    let module = load(&text);
    let run = |threads: usize, findings: usize| {
        let mut memory = Memory::default();
        let p = put(&mut memory, "data", &[0; 64 * 40]);
        let kernel = &module.kernels()[0];
        let p = params(kernel, &[Arg::Ptr(p)]);
        let limits = Limits {
            findings,
            ..with(threads)
        };
        launch(kernel, [40, 1, 1], [1, 1, 1], 0, &p, &mut memory, limits).unwrap()
    };
    for findings in [0, 1, 4, 100] {
        let one = run(1, findings);
        assert_eq!(one.findings.len(), findings.min(9));
        for threads in [2, 3, 7] {
            assert_eq!(one, run(threads, findings));
        }
    }
}

/// Two blocks race, and the same thread runs both. With blocks in turn, the first pauses before it reads what the second
/// writes.
#[test]
fn blocks_of_one_thread_that_race() {
    let text = ".version 8.4\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nand.b32 %r2, %r1, 1;\nand.b32 %r3, %r1, 30;\nmul.wide.u32 %rd2, %r3, 2048;\nadd.s64 %rd3, %rd1, %rd2;\nmov.u32 %r4, 0;\nmov.u32 %r5, %tid.x;\nsetp.ne.u32 %p1, %r5, 0;\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra WRITE;\nTURN:\nbar.sync 0;\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, 20000;\n@%p2 bra TURN;\n@%p1 bra END;\nld.global.u32 %r6, [%rd3];\nst.global.u32 [%rd3+4], %r6;\nbra END;\nWRITE:\n@%p1 bra END;\nst.global.u32 [%rd3], 7;\nEND:\nret; }";
    let module = load(text);
    let run = |threads: usize| {
        let mut memory = Memory::default();
        let data = put(&mut memory, "data", &[0; 2048 * 32]);
        let kernel = &module.kernels()[0];
        let p = params(kernel, &[Arg::Ptr(data)]);
        let report = launch(
            kernel,
            [32, 1, 1],
            [64, 1, 1],
            0,
            &p,
            &mut memory,
            with(threads),
        );
        (
            report.unwrap(),
            memory.read(data, 2048 * 32).unwrap().to_vec(),
        )
    };
    let one = run(1);
    assert_eq!(one.0.findings[0].kind, FindingKind::GlobalRace);
    assert_eq!(one, run(2));
}

/// Asserts that eight blocks with this body have the same findings for each number of threads. Nothing has written `s`.
fn same_findings(body: &str) {
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.shared .b32 s[1];\n.entry k()\n{{ .reg .b32 %r<9>; .reg .pred %p<3>;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r4, 0;\n{body}\nret; }}"
    );
    let module = load(&text);
    let run = |threads: usize| {
        let (kernel, mut memory) = (&module.kernels()[0], Memory::default());
        let (grid, block) = ([8, 1, 1], [32, 1, 1]);
        launch(kernel, grid, block, 0, &[], &mut memory, with(threads)).unwrap()
    };
    let one = run(1);
    assert!(!one.findings.is_empty());
    for threads in [2, 4] {
        assert_eq!(one, run(threads), "{threads}");
    }
}

/// With the blocks in turn, the value is followed in some of them only. No thread alone comes to the limit.
#[test]
fn the_limit_of_following_a_value_is_that_of_all_threads() {
    same_findings(
        "ld.shared.u32 %r3, [s];\nL: add.u32 %r3, %r3, %r4;\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 700;\n@%p1 bra L;\nsetp.eq.u32 %p2, %r3, 5;\n@%p2 bra E;\nE:",
    );
}

/// With the blocks in turn, the first one pauses, and the second finds the value before it.
#[test]
fn the_first_block_that_finds_something_is_the_same_on_threads() {
    same_findings(
        "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra R;\nL: add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 700000;\n@%p1 bra L;\nR: ld.shared.u32 %r3, [s];\nsetp.eq.u32 %p2, %r3, 5;\n@%p2 bra E;\nE:",
    );
}
