//! Code for sm_100 and sm_120 without tensor memory, in PTX by hand. ptxas 13.0.88 takes each form for the targets that
//! are named. tests/cases/blackwell.ptx has what needs no other computation to compare with.

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

/// Runs 32 threads on these words, and returns the pairs that they store.
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
    let got = launch_rows(&module.kernels()[0], 256, &x, columns, rows * columns);
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
    let got = launch_product(&module.kernels()[0], &a, &b, [n; 3]);
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
