//! Code for sm_100 and sm_120 without tensor memory, in PTX by hand. ptxas 13.0.88 takes each form for the targets that
//! are named.

use crate::common::*;
use half::f16;
use ptxsim::*;

/// Thread t has word t of `in` in %r1, words t and t + 1 in %rd3, and stores %r9 and %r10 to words 2 t and 2 t + 1.
fn kernel(target: &str, body: &str) -> String {
    format!(
        r#".version 9.0
.target {target}
.address_size 64
.file 1 "b.cu"
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .pred %p<3>;
    .reg .b8 %b<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<32>;
    .reg .f32 %f<32>;
    .reg .b64 %rd<16>;
    .loc 1 1 0
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd4, %r0, 4;
    add.u64 %rd5, %rd1, %rd4;
    ld.global.b32 %r1, [%rd5];
    ld.global.b32 %r2, [%rd5+4];
    mov.b64 %rd3, {{%r1, %r2}};
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b32 %r9, 0;
    mov.b32 %r10, 0;
    .loc 1 2 0
    {body}
    .loc 1 3 0
    mul.wide.u32 %rd6, %r0, 8;
    add.u64 %rd6, %rd2, %rd6;
    st.global.v2.b32 [%rd6], {{%r9, %r10}};
    ret;
}}
"#
    )
}

/// 32 threads on these words: the pairs that they store.
fn run(text: &str, words: &[u32]) -> Result<Vec<[u32; 2]>, Fault> {
    let module = load(text);
    let mut memory = Memory::default();
    let bytes: Vec<u8> = (0..40)
        .flat_map(|n| words[n % words.len()].to_le_bytes())
        .collect();
    let from = put(&mut memory, "in", &bytes);
    let out = put(&mut memory, "out", &[0; 8 * 32]);
    let kernel = module.kernel("k").unwrap();
    let params = params(kernel, &[Arg::Ptr(from), Arg::Ptr(out)]);
    let report = launch(
        kernel,
        [1; 3],
        [32, 1, 1],
        0,
        &params,
        &mut memory,
        limits(),
    )?;
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let all = memory.read(out, 8 * 32).unwrap();
    Ok(all
        .chunks_exact(8)
        .map(|c| [word(c), word(&c[4..])])
        .collect())
}

fn floats_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// kernels/softmax.cu and gemm.cu, as nvcc 13.0.88 compiled them for sm_100 and sm_120: it has another compiler inside for
/// these, which writes other PTX.
#[test]
fn plain_kernels_are_right() {
    let (rows, columns) = (3, 1003);
    let x = Random(4).normals(rows * columns);
    let module = load(&fixture("softmax_sm100"));
    let mut memory = Memory::default();
    let from = put(&mut memory, "x", &bytes_of(&x));
    let out = memory.alloc("y", 4 * (rows * columns) as u64).unwrap();
    let kernel = &module.kernels()[0];
    let args = [Arg::Ptr(from), Arg::Ptr(out), Arg::I32(columns as i32)];
    let packed = params(kernel, &args);
    let grid = [rows as u32, 1, 1];
    clean(launch(
        kernel,
        grid,
        [256, 1, 1],
        0,
        &packed,
        &mut memory,
        limits(),
    ));
    let got = floats(memory.read(out, 4 * rows * columns).unwrap());
    for (x, got) in x.chunks(columns).zip(got.chunks(columns)) {
        let each = x.iter().map(|x| f64::from(*x).exp());
        let sum: f64 = each.clone().sum();
        for (want, got) in each.zip(got) {
            assert!((want / sum - f64::from(*got)).abs() < 1e-6);
        }
    }
    let n = 96;
    let [a, b] = [1, 2].map(|seed| Random(seed).normals(n * n));
    let module = load(&fixture("gemm_sm120"));
    let mut memory = Memory::default();
    let places = [
        put(&mut memory, "a", &bytes_of(&a)),
        put(&mut memory, "b", &bytes_of(&b)),
    ];
    let out = memory.alloc("c", 4 * (n * n) as u64).unwrap();
    let mut args: Vec<Arg> = places.into_iter().chain([out]).map(Arg::Ptr).collect();
    args.extend([Arg::I32(n as i32); 3]);
    let kernel = &module.kernels()[0];
    let packed = params(kernel, &args);
    clean(launch(
        kernel,
        [2, 2, 1],
        [256, 1, 1],
        0,
        &packed,
        &mut memory,
        limits(),
    ));
    let got = floats(memory.read(out, 4 * n * n).unwrap());
    for (row, column) in (0..n).flat_map(|r| (0..n).map(move |c| (r, c))) {
        let each = (0..n).map(|k| f64::from(a[row * n + k]) * f64::from(b[k * n + column]));
        assert!((each.sum::<f64>() - f64::from(got[row * n + column])).abs() < 1e-4);
    }
}

#[test]
fn arithmetic_that_sm_100_added_is_that_of_its_parts() {
    let values = [1.5, -2.25, 3e-41, 1e38, 0.1, f32::INFINITY, -7.0, 0.3];
    let at = |n: usize| values[n % values.len()];
    let flush = |x: f32| if x.is_subnormal() { x * 0.0 } else { x };
    let f16 = "cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2;";
    let h = |x: f32| f16::from_f32(x).to_f32();
    type Expected<'a> = Box<dyn Fn(f32, f32) -> [f32; 2] + 'a>;
    let forms: [(String, Expected); 7] = [
        (
            "add.rn.f32x2 %rd3, %rd3, %rd3; mov.b64 {%r9, %r10}, %rd3;".into(),
            Box::new(|a, b| [a + a, b + b]),
        ),
        (
            "add.rn.ftz.f32x2 %rd3, %rd3, %rd3; mov.b64 {%r9, %r10}, %rd3;".into(),
            Box::new(|a, b| [flush(a) * 2.0, flush(b) * 2.0]),
        ),
        (
            "fma.rn.f32x2 %rd4, %rd3, %rd3, %rd3; mov.b64 {%r9, %r10}, %rd4;".into(),
            Box::new(|a, b| [a.mul_add(a, a), b.mul_add(b, b)]),
        ),
        (
            "max.f32 %f3, %f1, %f2, 0f3F800000; mov.b32 %r9, %f3;".into(),
            Box::new(|a, b| [a.max(b).max(1.0), 0.0]),
        ),
        (
            "min.abs.f32 %f3, %f1, %f2, %f2; mov.b32 %r9, %f3;".into(),
            Box::new(|a, b| [a.abs().min(b.abs()), 0.0]),
        ),
        (
            format!("{f16} add.f32.f16 %f3, %h1, %f2; mov.b32 %r9, %f3;"),
            Box::new(|a, b| [h(a) + b, 0.0]),
        ),
        (
            format!("{f16} fma.rn.f32.f16 %f3, %h1, %h2, %f2; mov.b32 %r9, %f3;"),
            Box::new(|a, b| [h(a).mul_add(h(b), b), 0.0]),
        ),
    ];
    for (body, expected) in forms {
        for target in [
            "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_120", "sm_120a",
        ] {
            let out = run(&kernel(target, &body), &floats_of(&values)).unwrap();
            for (n, got) in out.into_iter().enumerate() {
                let bits = |x: f32| if x.is_nan() { 0x7fff_ffff } else { x.to_bits() };
                let want = expected(at(n), at(n + 1)).map(bits);
                assert_eq!(got, want, "{body} of {} and {}", at(n), at(n + 1));
            }
        }
    }
}

#[test]
fn reductions_of_floats_within_a_warp() {
    let (nan, canonical) = (0x7fc0_1234, 0x7fff_ffff);
    let of = |x: f32| x.to_bits();
    let numbers = [of(2.0), of(-3.5), of(0.0), of(-0.0)];
    let zeros = [of(0.0), of(-0.0)];
    for (form, words, want) in [
        ("min", &numbers[..], of(-3.5)),
        ("max", &numbers, of(2.0)),
        ("min.abs", &numbers, of(0.0)),
        ("max.abs", &numbers, of(3.5)),
        ("min", &zeros, of(-0.0)),
        ("max", &zeros, of(0.0)),
        ("max", &[nan, of(-7.0)], of(-7.0)),
        ("max.NaN", &[nan, of(-7.0)], canonical),
        ("min.abs.NaN", &[of(-7.0), nan], canonical),
        ("min", &[nan], canonical),
    ] {
        let body = format!("redux.sync.{form}.f32 %r9, %r1, 0xffffffff;");
        let pairs = run(&kernel("sm_100a", &body), words).unwrap();
        assert!(
            pairs.iter().all(|pair| pair[0] == want),
            "{form}: {pairs:x?}"
        );
    }
    // The members alone.
    let body = "setp.lt.u32 %p1, %r0, 4;\n@%p1 redux.sync.max.f32 %r9, %r1, 0xf;";
    let words: Vec<u32> = (0..40).map(|n| of(n as f32)).collect();
    let pairs = run(&kernel("sm_100a", body), &words).unwrap();
    assert_eq!(
        (pairs[0][0], pairs[3][0], pairs[4][0]),
        (of(3.0), of(3.0), 0)
    );
}

#[test]
fn loads_of_32_bytes() {
    let body = "ld.global.v8.b32 {%r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18}, [%rd1];
        ld.global.v4.b64 {%rd7, %rd8, %rd9, %rd10}, [%rd1];
        mov.b32 %r9, %r18; mov.b64 {%r10, %r3}, %rd10;";
    let out = run(&kernel("sm_100", body), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    assert!(out.iter().all(|got| *got == [7, 6]), "{out:?}");
    let fault = run(
        &kernel("sm_100", &body.replace("[%rd1];\n", "[%rd1+16];\n")),
        &[0],
    )
    .unwrap_err();
    assert_eq!(
        (fault.kind, fault.place.line.clone().unwrap().1),
        (FaultKind::Misaligned, 2)
    );
}

/// The order of two in a byte or a half word, padding, `.relu` and `.satfinite` (PTX ISA, "cvt"). Rounding is shown in
/// `num::narrow`, over all codes.
#[test]
fn conversions_pack_their_two_numbers() {
    let halves = |a: f32, b: f32| {
        u32::from(f16::from_f32(a).to_bits()) | u32::from(f16::from_f32(b).to_bits()) << 16
    };
    let nan = f32::NAN;
    // Upper element, lower element: code, and `.relu` of it.
    for (format, upper, lower, code, relu) in [
        ("e2m1x2", 3.0, -6.0, 0x5f, 0x50),
        ("e2m1x2", 2.5, 1e9, 0x47, 0x47),
        ("e2m1x2", nan, -0.0, 0x78, 0x70),
        ("e2m3x2", 7.5, -1.0, 0x1f28, 0x1f00),
        ("e2m3x2", nan, 0.0625, 0x1f00, 0x1f00),
        ("e3m2x2", -28.0, 0.0625, 0x3f01, 0x0001),
        ("e3m2x2", 1e9, nan, 0x1f1f, 0x1f1f),
    ] {
        for (words, want) in [("rn.satfinite", code), ("rn.satfinite.relu", relu)] {
            let (register, widen) = match format {
                "e2m1x2" => ("%b1", "cvt.u32.u8"),
                _ => ("%h1", "cvt.u32.u16"),
            };
            let body =
                format!("cvt.{words}.{format}.f32 {register}, %f1, %f2; {widen} %r9, {register};");
            let out = run(&kernel("sm_100a", &body), &floats_of(&[upper, lower])).unwrap();
            assert_eq!(out[0][0], want, "{words} {format} {upper} {lower}");
        }
    }
    for (format, code, upper, lower) in [
        ("e2m1x2", 0x5f, 3.0, -6.0),
        ("e2m1x2", 0x18, 0.5, -0.0),
        ("e2m3x2", 0x1f28, 7.5, -1.0),
        ("e3m2x2", 0x3f01, -28.0, 0.0625),
    ] {
        for (words, low) in [("rn", lower), ("rn.relu", f32::max(lower, 0.0))] {
            let (register, narrow) = match format {
                "e2m1x2" => ("%b1", "cvt.u8.u32"),
                _ => ("%h1", "cvt.u16.u32"),
            };
            let body =
                format!("{narrow} {register}, %r1; cvt.{words}.f16x2.{format} %r9, {register};");
            let out = run(&kernel("sm_120a", &body), &[code]).unwrap();
            let up = if words == "rn" {
                upper
            } else {
                f32::max(upper, 0.0)
            };
            assert_eq!(out[0][0], halves(low, up), "{words} {format} {code:x}");
        }
    }
    // Scales: 2^(code - 127), upwards or downwards.
    for (words, upper, lower, want) in [
        ("rz", 3.0, -0.75, 128 << 8 | 126),
        ("rp", 3.0, -0.75, 129 << 8 | 127),
        ("rp", f32::MAX, 0.0, 255 << 8),
        ("rp.satfinite", f32::MAX, f32::INFINITY, 254 << 8 | 254),
        ("rz.satfinite", nan, 1e-45, 255 << 8),
    ] {
        let body = format!(
            "cvt.{words}.ue8m0x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r9, %h1;
            cvt.rn.bf16x2.ue8m0x2 %r10, %h1;"
        );
        let out = run(&kernel("sm_100a", &body), &floats_of(&[upper, lower])).unwrap();
        assert_eq!(out[0][0], want, "{words} {upper} {lower}");
        let bf16 = |code: u32| match code {
            255 => 0x7fff,
            0 => 0x40,
            code => code << 7,
        };
        assert_eq!(out[0][1], bf16(want >> 8) << 16 | bf16(want & 255));
    }
    let body = "cvt.rn.bf16x2.f32 %r3, %f1, %f2; cvt.rp.satfinite.ue8m0x2.bf16x2 %h1, %r3; cvt.u32.u16 %r9, %h1;
        cvt.rn.f16x2.f32 %r4, %f1, %f2; cvt.rn.satfinite.e2m1x2.f16x2 %b1, %r4; cvt.u32.u8 %r10, %b1;";
    let out = run(&kernel("sm_100a", body), &floats_of(&[3.0, -6.0])).unwrap();
    assert_eq!(out[0], [129 << 8 | 130, 0x5f]);
}

/// d = a b + c of 16 x 8 whose elements are all one: the sum of the scales' products.
fn scaled(form: &str, one: u32, scales: &str, words: &[u32]) -> Result<Vec<[u32; 2]>, Fault> {
    let body = format!(
        "mov.b32 %r11, {one}; mov.b32 %r12, {one}; mov.b32 %r13, {one}; mov.b32 %r14, {one};
        mov.b32 %r15, {one}; mov.b32 %r16, {one}; mov.u16 %h1, 0; mov.u16 %h2, 1; mov.u16 %h3, %r0;
        mov.b32 %f5, 0f3F000000;
        .loc 1 7 0
        mma.sync.aligned.{form} {{%f11, %f12, %f13, %f14}}, {{%r11, %r12, %r13, %r14}}, {{%r15, %r16}},
            {{%f5, %f5, %f5, %f5}}{scales};
        mov.b32 %r9, %f11; mov.b32 %r10, %f14;"
    );
    let body = body.replace("mov.u16 %h3, %r0;", "cvt.u16.u32 %h3, %r0;");
    run(&kernel("sm_120a", &body), words)
}

#[test]
fn products_with_scales_are_those_of_their_parts() {
    let scale = |a: u32, b: u32| format!(", %r1, {{{a}, %h1}}, {{%r1}}, {{{b}, %h2}}");
    // Scales 2, 4, 8 and 16 in the bytes of all lanes.
    let twos = 0x8382_8180;
    // 1, 1.5, 2 and 2.5.
    let e4m3 = 0x4240_3c38;
    for (form, one, scales, words, want) in [
        (
            "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
            0x0808_0808,
            String::new(),
            0,
            32.0,
        ),
        (
            "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m3.e2m3.f32.ue8m0",
            0x0808_0808,
            scale(1, 3),
            twos,
            32.0 * 64.0,
        ),
        (
            "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0",
            0x3838_3838,
            scale(0, 0),
            twos,
            32.0 * 4.0,
        ),
        (
            "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
            0x2222_2222,
            scale(0, 2),
            twos,
            32.0 * (16.0 + 64.0),
        ),
        (
            "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
            0x2222_2222,
            scale(2, 2),
            twos,
            32.0 * (64.0 + 256.0),
        ),
        (
            "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
            0x2222_2222,
            scale(0, 0),
            e4m3,
            16.0 * (1.0 + 2.25 + 4.0 + 6.25),
        ),
    ] {
        let out = scaled(form, one, &scales, &[words]).unwrap();
        let want = (want as f32 + 0.5).to_bits();
        assert!(out.iter().all(|got| *got == [want; 2]), "{form}: {out:x?}");
    }
}

#[test]
fn selectors_and_combinations_are_those_that_ptx_has() {
    let mxf4 = "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0";
    for scales in [
        // Bytes of two blocks begin at 0 or 2; two pairs hold those of A; one selector for the whole warp.
        ", %r1, {1, 0}, %r1, {0, 0}",
        ", %r1, {0, 2}, %r1, {0, 0}",
        ", %r1, {0, 0}, %r1, {0, 4}",
        ", %r1, {0, 0}, %r1, {0, %h3}",
    ] {
        let fault = scaled(mxf4, 0, scales, &[0x7f7f_7f7f]).unwrap_err();
        assert_eq!(
            (fault.kind, fault.place.line.clone().unwrap().1),
            (FaultKind::Undefined, 7),
            "{fault}"
        );
    }
    let scales = ", %r1, {0, 0}, %r1, {0, 0}";
    for form in [
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
        "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m3.e2m1.f32.ue8m0",
        "m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
    ] {
        let body = format!(
            "mma.sync.aligned.{form} {{%f11, %f12, %f13, %f14}}, {{%r11, %r12, %r13, %r14}}, {{%r15, %r16}}, {{%f5, %f5, %f5, %f5}}{scales};"
        );
        let refused = Module::load(&kernel("sm_120a", &body)).and_then(Module::complete);
        assert!(
            matches!(refused, Err(LoadError::Unsupported { .. })),
            "{form}"
        );
    }
}

/// How much of a kernel is missing, and where it begins.
#[test]
fn engines_that_are_missing_are_refused_with_the_number_of_their_places() {
    let sparse = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %r1, 0, 1, 1, 1;";
    for (body, says) in [
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; tcgen05.fence::after_thread_sync; \
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;",
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32` is not supported: tensor memory and its \
             products, 3 places in this kernel (b.cu:2)",
        ),
        (
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];",
            "not supported: clusters of blocks, 1 place in this kernel (b.cu:2)",
        ),
        (
            &format!("{sparse} {sparse}"),
            "products of sparse matrices, 2 places in this kernel (b.cu:2)",
        ),
    ] {
        let refused = Module::load(&kernel("sm_100a", body)).and_then(Module::complete);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}
