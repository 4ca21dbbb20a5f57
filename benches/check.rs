//! Measures what correctness checks cost on the CPU: `cargo bench --bench check`.

#![allow(
    clippy::expect_used,
    reason = "a bench that cannot run has nobody to tell but the terminal"
)]

use check::compare::errors;
use check::inputs::{View, generate};
use check::reference::built_in;
use check::{ComparedElements, Outputs, Values};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::*;
use std::hint::black_box;
use std::time::Duration;

fn tensor(name: &str, role: Role, elem: ElemType, dims: &[usize]) -> Tensor {
    Tensor {
        fill: (role == Role::In).then_some(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
            special: model::SpecialShares::new(),
        }),
        ..Tensor::new(name, role, elem, dims.to_vec())
    }
}

fn case(tensors: Vec<Tensor>, reference: Reference) -> Case {
    Case {
        tensors,
        seeds: vec![1],
        reference,
        deadline_ms: 1000,
        ..Case::empty(CaseId::new("k", "v", "s"))
    }
}

fn attention(dims: [usize; 4], causal: bool) -> Case {
    let name = |name: &str| name.to_owned();
    let mut tensors: Vec<Tensor> = ["q", "k", "v"]
        .map(|name| tensor(name, Role::In, ElemType::F16, &dims))
        .to_vec();
    tensors.push(tensor("out", Role::Out, ElemType::F16, &dims));
    let reference = Reference::Sdpa {
        q: name("q"),
        k: name("k"),
        v: name("v"),
        out: name("out"),
        scale: Num(0.125),
        causal,
    };
    case(tensors, reference)
}

fn references(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sdpa");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    for (name, dims, causal) in [
        ("mission", [2, 8, 512, 64], false),
        ("long", [2, 8, 2048, 64], false),
        ("long causal", [2, 8, 2048, 64], true),
    ] {
        let case = attention(dims, causal);
        let inputs = generate(&case, 1).expect("inputs");
        // Elements are floating-point operations: multiply and add of both products. A causal one needs
        // about half of them.
        let [batch, heads, sequence, depth] = dims.map(|dim| dim as u64);
        group.throughput(Throughput::Elements(
            4 * batch * heads * sequence * sequence * depth,
        ));
        group.bench_function(name, |bencher| {
            bencher.iter(|| built_in(&case, black_box(&inputs), View::Seen).expect("an answer"));
        });
    }
}

fn inputs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("inputs of 64 MiB");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(64 << 20));
    for (name, elem) in [("f32", ElemType::F32), ("f16", ElemType::F16)] {
        let elements = (64 << 20) / elem.size();
        let copy = Reference::Variant {
            variant: "v".to_owned(),
        };
        let case = case(vec![tensor("x", Role::In, elem, &[elements])], copy);
        group.bench_function(name, |bencher| {
            bencher.iter(|| generate(black_box(&case), 1).expect("inputs"));
        });
    }
}

fn comparison(criterion: &mut Criterion) {
    const ELEMENTS: usize = 16 << 20;
    let tensors = [tensor("y", Role::Out, ElemType::F32, &[ELEMENTS])];
    let outputs = |by: f32| {
        let values = (0..ELEMENTS).map(|at| (at % 1000) as f32 * by).collect();
        Outputs::from([("y".to_owned(), Values::F32(values))])
    };
    let (got, want) = (outputs(1.0001), outputs(1.0));
    let mut group = criterion.benchmark_group("compare");
    group
        .throughput(Throughput::Bytes(64 << 20))
        .sample_size(20);
    group.bench_function("64 MiB", |bencher| {
        bencher.iter(|| {
            errors(
                black_box(&got),
                black_box(&want),
                &tensors,
                &ComparedElements::all(),
                Some(0.01),
            )
        });
    });
}

criterion_group!(benches, references, inputs, comparison);
criterion_main!(benches);
