//! Lane-instructions per second: SGEMM, scalar attention, tensor-core attention; with and without
//! checks. Throughput is reported in elements, one element being one lane-instruction.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::*;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptxsim::{Limits, Memory, Report, launch};
use std::time::Duration;

fn gemm(limits: Limits) -> Report {
    let module = load(&fixture("gemm"));
    let kernel = module.kernel("gemm").unwrap();
    let n = 256;
    let mut memory = Memory::default();
    let x = put(&mut memory, "a", &bytes_of(&vec![1.5; n * n]));
    let y = put(&mut memory, "b", &bytes_of(&vec![0.5; n * n]));
    let c = memory.alloc("c", 4 * (n * n) as u64).unwrap();
    let size = Arg::I32(n as i32);
    let p = params(
        kernel,
        &[Arg::Ptr(x), Arg::Ptr(y), Arg::Ptr(c), size, size, size],
    );
    let tiles = n as u32 / 64;
    launch(
        kernel,
        [tiles, tiles, 1],
        [256, 1, 1],
        0,
        &p,
        &mut memory,
        limits,
    )
    .unwrap()
}

fn speed(c: &mut Criterion) {
    let scalar = fixture("f16_scalar");
    let stage2 = fixture("fp8_stage2");
    for checks in [false, true] {
        let limits = Limits {
            checks,
            ..Limits::default()
        };
        let mut group = c.benchmark_group(if checks {
            "with all checks"
        } else {
            "without checks"
        });
        group.sample_size(10);
        group.throughput(Throughput::Elements(gemm(limits).counters.total.lanes));
        group.bench_function("sgemm 256", |b| b.iter(|| gemm(limits)));
        let lanes = run_f16(&scalar, 32, 2, 128, false, limits)
            .report
            .unwrap()
            .counters
            .total
            .lanes;
        group.throughput(Throughput::Elements(lanes));
        group.bench_function("scalar attention H2 S128", |b| {
            b.iter_custom(|n| {
                (0..n)
                    .map(|_| {
                        Duration::from_secs_f64(run_f16(&scalar, 32, 2, 128, false, limits).seconds)
                    })
                    .sum()
            })
        });
        let lanes = run_fp8(&stage2, 0, 2, 256, limits)
            .report
            .unwrap()
            .counters
            .total
            .lanes;
        group.throughput(Throughput::Elements(lanes));
        group.bench_function("stage2 H2 S256", |b| {
            b.iter_custom(|n| {
                (0..n)
                    .map(|_| Duration::from_secs_f64(run_fp8(&stage2, 0, 2, 256, limits).seconds))
                    .sum()
            })
        });
        group.finish();
    }
}

criterion_group!(benches, speed);
criterion_main!(benches);
