//! The repository's kernels, as nvcc 13.0 compiled them, against naive references. None of them
//! may raise a finding.

use crate::common::*;

#[test]
fn reduce_sums_rows() {
    let module = load(&fixture("reduce"));
    let kernel = module.kernel("_Z10reduce_sumPKfPfi").unwrap();
    for (rows, columns) in [(1, 1), (3, 77), (2, 5000), (1, 2048)] {
        let x = Random(1).normals(rows * columns);
        let y = launch_rows(kernel, 512, &x, columns, rows);
        for (r, got) in y.iter().enumerate() {
            let want: f64 = x[r * columns..][..columns]
                .iter()
                .map(|&v| f64::from(v))
                .sum();
            assert!(
                (f64::from(*got) - want).abs() < 1e-3,
                "{rows}x{columns}: {got} {want}"
            );
        }
    }
}

#[test]
fn softmax_of_rows() {
    let module = load(&fixture("softmax"));
    let kernel = module.kernel("_Z11row_softmaxPKfPfi").unwrap();
    for (rows, columns) in [(1, 1), (3, 77), (2, 1500)] {
        let x = Random(2).normals(rows * columns);
        let y = launch_rows(kernel, 256, &x, columns, rows * columns);
        for (row, got) in x.chunks(columns).zip(y.chunks(columns)) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = row.iter().map(|v| f64::from(v - max).exp()).sum();
            for (v, g) in row.iter().zip(got) {
                let want = f64::from(v - max).exp() / sum;
                assert!((f64::from(*g) - want).abs() < 1e-6 * want.max(1e-3) * 10.0);
            }
        }
    }
}

#[test]
fn gemm_is_bit_equal_to_fmas_in_order() {
    let module = load(&fixture("gemm"));
    let kernel = module.kernel("gemm").unwrap();
    for (m, n, k) in [(1, 1, 1), (64, 64, 32), (77, 65, 19), (130, 70, 100)] {
        let mut random = Random(3);
        let (a, b) = (random.normals(m * k), random.normals(k * n));
        let c = launch_product(kernel, &a, &b, [m, n, k]);
        for i in 0..m {
            for j in 0..n {
                // the kernel adds in the order of k
                let want = (0..k).fold(0.0_f32, |s, d| a[i * k + d].mul_add(b[d * n + j], s));
                assert_eq!(
                    c[i * n + j].to_bits(),
                    want.to_bits(),
                    "{m}x{n}x{k} at {i}, {j}"
                );
            }
        }
    }
}

#[test]
fn attention_over_halves() {
    for (name, block_m) in [("f16_wmma", 64), ("f16_scalar", 32)] {
        let text = fixture(name);
        for s in [1, 64, 77, 128] {
            let run = run_f16(&text, block_m, 2, s, false, limits());
            clean(run.report);
            assert!(run.worst < 1e-3, "{name} S={s}: {}", run.worst);
        }
    }
}

#[test]
fn attention_over_codes() {
    for (name, codec) in [("fp8_direct", 0), ("fp8_stage2", 0), ("fp8_stage2_u8", 1)] {
        let text = fixture(name);
        for s in [1, 77, 128] {
            let run = run_fp8(&text, codec, 2, s, limits());
            clean(run.report);
            assert!(run.worst < 4e-3, "{name} S={s}: {}", run.worst);
        }
    }
}
