//! Lane-instructions per second: SGEMM, scalar attention, tensor-core attention; with and without
//! checks. Throughput is reported in elements, one element being one lane-instruction, and time is
//! processor time of one thread, not that of a clock on the wall.
#![allow(clippy::unwrap_used)]

#[path = "../tests/launches/common/mod.rs"]
mod common;

use common::*;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptxsim::Limits;
use std::time::Duration;

fn speed(c: &mut Criterion) {
    let scalar = fixture("f16_scalar");
    let (stage2, wmma) = (fixture("fp8_stage2"), fixture("f16_wmma"));
    let mut cases = [
        ("sgemm 256", prepare_gemm(256)),
        ("scalar attention H2 S128", prepare_f16(&scalar, 32, 2, 128)),
        ("stage2 H2 S256", prepare_fp8(&stage2, 0, 2, 256)),
        ("stage2 mission", prepare_fp8(&stage2, 0, 16, 512)),
        ("wmma mission", prepare_f16(&wmma, 64, 16, 512)),
    ];
    for checks in [false, true] {
        let limits = Limits {
            checks,
            threads: 1,
            ..Limits::default()
        };
        let mut group = c.benchmark_group(if checks {
            "with all checks"
        } else {
            "without checks"
        });
        group.sample_size(10);
        for (name, case) in &mut cases {
            let lanes = case.launch(limits).0.unwrap().counters.total.lanes;
            group.throughput(Throughput::Elements(lanes));
            group.bench_function(*name, |b| {
                b.iter_custom(|n| {
                    let seconds: f64 = (0..n).map(|_| case.launch(limits).1).sum();
                    Duration::from_secs_f64(seconds)
                })
            });
        }
        group.finish();
    }
}

criterion_group!(benches, speed);
criterion_main!(benches);
