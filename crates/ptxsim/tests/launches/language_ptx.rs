//! Forms that nvcc seldom writes, or only from inline assembly, as PTX; what they compute is written
//! here from the PTX ISA.

use crate::common::*;
use ptxsim::*;

/// A kernel of one buffer, its address in `%d9`, the thread's number in `%w9`, 32 threads.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b16 %h<10>; .reg .b32 %w<40>; .reg .b64 %d<20>; .reg .b128 %q<4>; .reg .pred %p<4>;\n\
         .shared .align 16 .b8 s[512];\nld.param.u64 %d9, [p];\nmov.u32 %w9, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn run_as(body: &str, buffer: &[u8]) -> (Vec<u8>, Report) {
    let module = load(&kernel(body));
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let p = put(&mut memory, "buffer", buffer);
    let args = params(kernel, &[Arg::Ptr(p)]);
    let report = launch(
        kernel,
        [1, 1, 1],
        [32, 1, 1],
        0,
        &args,
        &mut memory,
        limits(),
    )
    .unwrap();
    (memory.read(p, buffer.len()).unwrap().to_vec(), report)
}

fn run(body: &str, buffer: &[u8]) -> Vec<u8> {
    let (bytes, report) = run_as(body, buffer);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    bytes
}

fn refusal(body: &str) -> String {
    match Module::load(&kernel(body)).and_then(Module::complete) {
        Ok(_) => panic!("{body} is built"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn words_of_128_bits_move_whole() {
    let buffer: Vec<u8> = (0..=255).cycle().take(32 * 64).collect();
    let body = "mul.wide.u32 %d0, %w9, 64;\nadd.u64 %d0, %d9, %d0;\n\
        ld.global.b128 %q0, [%d0];\nmov.b128 %q1, %q0;\nst.global.b128 [%d0+16], %q1;\n\
        mov.b128 {%d1, %d2}, %q1;\nmov.b128 %q2, {%d2, %d1};\nst.global.b128 [%d0+32], %q2;\n\
        mov.b128 {%w0, %w1, %w2, %w3}, %q0;\nmov.b128 %q3, {%w3, %w2, %w1, %w0};\n\
        st.volatile.global.b128 [%d0+48], %q3;";
    let got = run(body, &buffer);
    for (got, given) in got.chunks_exact(64).zip(buffer.chunks_exact(64)) {
        let first = &given[..16];
        assert_eq!(got[..16], *first);
        assert_eq!(got[16..32], *first);
        assert_eq!(got[32..48], [&first[8..], &first[..8]].concat());
        let words: Vec<&[u8]> = first.chunks(4).rev().collect();
        assert_eq!(got[48..], words.concat());
    }
}

#[test]
fn words_of_128_bits_have_to_be_aligned() {
    let module = load(&kernel("ld.global.b128 %q0, [%d9+8];"));
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let p = put(&mut memory, "buffer", &[0; 64]);
    let args = params(kernel, &[Arg::Ptr(p)]);
    let fault = launch(
        kernel,
        [1, 1, 1],
        [32, 1, 1],
        0,
        &args,
        &mut memory,
        limits(),
    );
    assert_eq!(fault.unwrap_err().kind, FaultKind::Misaligned);
}

#[test]
fn rejects_other_operands_of_128_bit_words() {
    for body in [
        "mov.b128 %q0, %d0;",
        "add.u64 %d0, %q0, %d1;",
        "mov.b64 %d0, %q0;",
        "ld.global.b128 %d0, [%d9];",
        "ld.global.v2.b128 {%q0, %q1}, [%d9];",
        "selp.b128 %q0, %q1, %q2, %p0;",
        "and.b128 %q0, %q1, %q2;",
        "atom.global.and.b128 %q0, [%d9], %q1;",
    ] {
        assert!(refusal(body).starts_with("PTX line "));
    }
}

/// Both halves decide, and all are swapped or none.
#[test]
fn compare_and_swap_of_128_bits() {
    for space in ["global", "shared"] {
        let (at, first) = match space {
            "shared" => (
                "s",
                "ld.global.b128 %q0, [%d9];\nst.shared.b128 [s], %q0;\n",
            ),
            _ => ("%d9", ""),
        };
        let body = format!(
            "setp.ne.u32 %p0, %w9, 0;\n@%p0 ret;\n{first}\
             mov.b128 %q1, {{1, 2}};\nmov.b128 %q2, {{1, 3}};\nmov.b128 %q3, {{7, 8}};\n\
             atom.{space}.cas.b128 %q0, [{at}], %q2, %q3;\nst.global.b128 [%d9+16], %q0;\n\
             atom.{space}.cas.b128 %q0, [{at}], %q1, %q3;\nst.global.b128 [%d9+32], %q0;\n\
             atom.{space}.exch.b128 %q0, [{at}], %q2;\nst.global.b128 [%d9+48], %q0;\n\
             ld.{space}.b128 %q0, [{at}];\nst.global.b128 [%d9+64], %q0;"
        );
        let pair = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let got = run(&body, &[pair(1, 2), vec![0; 64]].concat());
        let want = [pair(1, 2), pair(1, 2), pair(7, 8), pair(1, 3)].concat();
        assert_eq!(got[16..], want, "{space}");
    }
}

/// Every lane adds (1, 2, 3, 4): each element is an atomic of its own, and the old ones come back.
#[test]
fn sums_of_vectors() {
    let one = 1.0_f32.to_bits();
    let body = format!(
        "mov.b32 %w0, {one};\ncvt.rn.f32.u32 %w1, 2;\ncvt.rn.f32.u32 %w2, 3;\ncvt.rn.f32.u32 %w3, 4;\n\
         atom.global.add.v4.f32 {{%w4, %w5, %w6, %w7}}, [%d9], {{%w0, %w1, %w2, %w3}};\n\
         mul.wide.u32 %d0, %w9, 16;\nadd.u64 %d0, %d9, %d0;\n\
         st.global.v4.b32 [%d0+64], {{%w4, %w5, %w6, %w7}};\n\
         red.global.add.v2.f32 [%d9+16], {{%w1, %w3}};\n\
         mov.b16 %h0, 0x3c00;\nred.global.v2.f16.add.noftz [%d9+24], {{%h0, %h0}};\n\
         mov.b32 %w8, 0x3f803f80;\nred.global.add.noftz.v4.bf16x2 [%d9+32], {{%w8, %w8, %w8, %w8}};"
    );
    let got = run(&body, &[0; 64 + 32 * 16]);
    assert_eq!(floats(&got[..24]), [32.0, 64.0, 96.0, 128.0, 64.0, 128.0]);
    let halves = |bytes: &[u8]| -> Vec<u16> {
        let pairs = bytes.chunks_exact(2);
        pairs.map(|c| u16::from_le_bytes([c[0], c[1]])).collect()
    };
    assert_eq!(
        halves(&got[24..28]),
        [half::f16::from_f32(32.0).to_bits(); 2]
    );
    assert_eq!(
        halves(&got[32..48]),
        [half::bf16::from_f32(32.0).to_bits(); 8]
    );
    for (lane, old) in got[64..].chunks_exact(16).enumerate() {
        let n = lane as f32;
        assert_eq!(floats(old), [n, 2.0 * n, 3.0 * n, 4.0 * n]);
    }
    // Shared memory has none, nor have integers.
    for body in [
        "red.shared.add.v2.f32 [s], {%w0, %w1};",
        "red.global.add.v2.u32 [%d9], {%w0, %w1};",
        "red.global.add.v8.f32 [%d9], {%w0, %w1, %w2, %w3, %w0, %w1, %w2, %w3};",
    ] {
        assert!(refusal(body).contains("is not supported"));
    }
}

/// Odd lanes ignore their source, which lies far outside, and write zeros.
#[test]
fn copies_that_ignore_their_source() {
    let given: Vec<u8> = (0..32 * 16).map(|i| i as u8 | 1).collect();
    let body = "and.b32 %w0, %w9, 1;\nsetp.ne.u32 %p0, %w0, 0;\nmul.wide.u32 %d0, %w9, 16;\n\
        add.u64 %d0, %d9, %d0;\nmov.u32 %w1, s;\nmad.lo.u32 %w1, %w9, 16, %w1;\n\
        mov.u64 %d1, %d0;\n@%p0 add.u64 %d1, %d0, 1048576;\n\
        cp.async.cg.shared.global [%w1], [%d1], 16, %p0;\ncp.async.wait_all;\n\
        ld.shared.v4.u32 {%w2, %w3, %w4, %w5}, [%w1];\nst.global.v4.u32 [%d0], {%w2, %w3, %w4, %w5};";
    let got = run(body, &given);
    for (lane, (got, given)) in got.chunks(16).zip(given.chunks(16)).enumerate() {
        assert_eq!(got, if lane % 2 == 1 { &[0; 16] } else { given });
    }
}

/// Element (r, c) is 8 r + c; afterwards it stands at (c, r).
#[test]
fn movmatrix_transposes() {
    let held = |lane: u32, half: u32| 8 * (lane / 4) + 2 * (lane % 4) + half;
    let words = |of: &dyn Fn(u32) -> u32| -> Vec<u8> {
        (0..32).flat_map(|l| of(l).to_le_bytes()).collect()
    };
    let given = words(&|l| held(l, 0) | held(l, 1) << 16);
    let turned = |x: u32| x % 8 * 8 + x / 8;
    let want = words(&|l| turned(held(l, 0)) | turned(held(l, 1)) << 16);
    let body = "mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\nld.global.u32 %w0, [%d0];\n\
        movmatrix.sync.aligned.m8n8.trans.b16 %w1, %w0;\nst.global.u32 [%d0], %w1;";
    assert_eq!(run(body, &given), want);
}

/// A lane that is not in its own mask: the fuzz target found that this turned for ever.
#[test]
fn a_warp_sync_without_its_own_lanes_is_told_and_ends() {
    let (_, report) = run_as("bar.warp.sync 0;", &[0; 16]);
    let kinds: Vec<FindingKind> = report.findings.iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&FindingKind::InvalidMembers), "{kinds:?}");
}

#[test]
fn a_constant_of_128_bits_is_laid_out() {
    let text = kernel("ld.global.b128 %q0, [%d9];").replace(
        ".visible .entry",
        ".global .align 16 .b128 table[2] = {5, 6};\n.visible .entry",
    );
    load(&text);
}

/// Conversions that no GPU of these has: to and from bf16 with `.sat`, or 8 bits, and `.rs`.
#[test]
fn conversions_that_ptxas_refuses_are_refused() {
    for form in [
        "cvt.rn.bf16.u8 %h0, %h1;",
        "cvt.rni.s8.bf16 %h0, %h1;",
        "cvt.rn.sat.bf16.f32 %h0, %w1;",
        "cvt.sat.f32.bf16 %w0, %h1;",
        "cvt.rn.bf16.bf16 %h0, %h1;",
        "cvt.rn.satfinite.tf32.f32 %w0, %w1;",
        "cvt.rs.f16x2.f32 %w0, %w1, %w2, %w3;",
    ] {
        assert!(refusal(form).contains("is not supported"), "{form}");
    }
}

/// PTX ISA 9.7.13.13: a grid waits for those before it, and in one launch there is none.
#[test]
fn grid_dependencies_wait_for_nothing_in_one_launch() {
    let body = "mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\ngriddepcontrol.wait;\n\
        st.global.u32 [%d0], %w9;\ngriddepcontrol.launch_dependents;";
    let got = run(body, &[7; 128]);
    assert!((0..32).all(|l| got[4 * l] == l as u8));
    assert!(refusal("griddepcontrol.launch;").contains("griddepcontrol.launch"));
}

/// PTX ISA 4.4: a constant, wherever a value can be.
#[test]
fn the_size_of_a_warp() {
    let body = "mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\nmov.u32 %w0, WARP_SZ;\n\
        add.u32 %w0, %w0, WARP_SZ;\nsub.u32 %w0, WARP_SZ, %w0;\nst.global.u32 [%d0], %w0;\n\
        mov.u64 %d1, WARP_SZ;\nadd.u64 %d1, %d1, %d9;\n@!%p0 ld.global.u8 %w1, [%d1];";
    let body = format!("setp.eq.u32 %p0, 0, 0;\n{body}");
    let got = run(&body, &[7; 128]);
    assert_eq!(got[..4], (-32_i32).to_le_bytes());
}

/// As CUB writes it (`MatchAny`), which ptxas takes for `vote.sync.ballot.b32` (PTX ISA 9.7.13.9).
#[test]
fn votes_in_both_orders_of_their_words() {
    let votes = |vote: &str| {
        let body = format!(
            "mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\nand.b32 %w0, %w9, 5;\n\
             setp.ne.u32 %p1, %w0, 0;\n{vote} %w1, %p1, 0xffffffff;\n@!%p1 not.b32 %w1, %w1;\n\
             st.global.u32 [%d0], %w1;"
        );
        run(&body, &[0; 128])
    };
    let (cub, isa) = (votes("vote.ballot.sync.b32"), votes("vote.sync.ballot.b32"));
    assert_eq!(cub, isa);
    let ballot = (0..32_u32)
        .filter(|l| l & 5 != 0)
        .fold(0_u32, |all, l| all | 1 << l);
    assert_eq!(cub[..4], (!ballot).to_le_bytes());
    assert_eq!(cub[4..8], ballot.to_le_bytes());
    assert!(refusal("vote.ballot.b32 %w1, %p1;").contains("vote.ballot.b32"));
}

/// PTX ISA 9.7.13.14: one member of the mask is elected, and all of them get its number.
#[test]
fn one_lane_is_elected() {
    let body = "mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\nsetp.ge.u32 %p2, %w9, 8;\n\
        mov.u32 %w1, 99;\n@%p2 elect.sync %w1|%p1, 0xffffff00;\nselp.u32 %w2, 1, 0, %p1;\n\
        @!%p2 mov.u32 %w2, 0;\nshl.b32 %w2, %w2, 8;\nor.b32 %w1, %w1, %w2;\nst.global.u32 [%d0], %w1;";
    let got = run(body, &[0; 128]);
    for lane in 0..32 {
        let wanted = match lane {
            0..8 => [99, 0],
            8 => [8, 1],
            _ => [8, 0],
        };
        assert_eq!(got[4 * lane..][..2], wanted, "{lane}");
    }
    let (_, report) = run_as("elect.sync _|%p1, 0xffff;", &[0; 4]);
    assert_eq!(report.findings[0].kind, FindingKind::InvalidMembers);
}

/// PTX ISA 10: what is at the start of shared memory is not the program's, and neither is it its size.
#[test]
fn reserved_shared_memory_is_apart() {
    let body = "mov.u32 %w0, %reserved_smem_offset_1;\nmov.u32 %w1, %reserved_smem_offset_end;\n\
        mov.u32 %w2, s;\nst.shared.u32 [%w0], %w9;\n\
        st.global.v4.u32 [%d9], {%w0, %w1, %w2, %w9};";
    let one = format!("setp.ne.u32 %p0, %w9, 0;\n@%p0 ret;\n{body}");
    let got = run(&one, &[9; 16]);
    let words: Vec<u32> = got
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
        .collect();
    assert_eq!(words[..3], [0, 1024, 1024]);
    let module = load(&kernel(body));
    assert_eq!(module.kernel("k").unwrap().static_shared_bytes(), 512);
}

#[test]
fn elements_of_vector_registers_are_registers() {
    // Example 61 of CUTLASS has these.
    let body = "{ .reg .v2 .b32 mx;\n.reg .v4 .u16 small;\nadd.u32 mx.x, %w9, 5;\nadd.u32 mx.y, mx.x, mx.x;\n\
        mov.u16 small.w, 7;\ncvt.u32.u16 %w1, small.w;\nadd.u32 %w1, %w1, mx.y;\n\
        mul.wide.u32 %d0, %w9, 4;\nadd.u64 %d0, %d9, %d0;\nst.global.u32 [%d0], %w1; }";
    let words = run(body, &[0; 128]);
    for (thread, word) in words.chunks_exact(4).enumerate() {
        assert_eq!(word, (2 * (thread as u32 + 5) + 7).to_le_bytes());
    }
    let whole = ".reg .v2 .b32 mx;\nmov.b64 %d0, mx;";
    assert!(refusal(whole).contains("mx"), "{}", refusal(whole));
    let many = ".reg .v2 .b32 mx<4>;";
    assert!(
        refusal(many).contains("vector registers"),
        "{}",
        refusal(many)
    );
}
