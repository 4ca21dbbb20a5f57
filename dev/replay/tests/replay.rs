//! The tool on a small recording, made here.

#![allow(clippy::unwrap_used)]

use replay::{Recorded, Trace, replay, table};
use search::exchange::{Evaluation, Failure, Recording, Spent};
use search::{Exhaustive, Parameter, Random, Value};
use std::sync::Arc;

/// Convolution as the benchmark hub names its parameters: block, tile and time, or a failure.
fn recorded(rows: &[([i64; 4], Option<f64>)]) -> Recorded {
    let names = [
        "block_size_x",
        "block_size_y",
        "tile_size_x",
        "tile_size_y",
        "use_padding",
        "use_shmem",
        "filter_height",
        "filter_width",
    ];
    let configurations: Vec<Vec<Value>> = rows
        .iter()
        .map(|([x, y, tile_x, tile_y], _)| [*x, *y, *tile_x, *tile_y, 0, 1, 15, 15])
        .map(|row| row.map(Value::Integer).to_vec())
        .collect();
    let parameter = |at: usize| {
        let mut values: Vec<Value> = Vec::new();
        for row in &configurations {
            if !values.contains(&row[at]) {
                values.push(row[at].clone());
            }
        }
        Parameter {
            name: names[at].to_owned(),
            values,
        }
    };
    let recording = Recording {
        device: "NVIDIA A100-PCIE-40GB".to_owned(),
        kernel: "convolution_kernel".to_owned(),
        problem_size: vec![4096, 4096],
        objective: "time".to_owned(),
        parameters: (0..names.len()).map(parameter).collect(),
        evaluations: configurations
            .iter()
            .zip(rows)
            .map(|(values, (_, time))| Evaluation {
                values: values.clone(),
                result: time.ok_or(Failure::Runtime),
                runtimes: Vec::new(),
                spent: Spent::default(),
                timestamp: None,
            })
            .collect(),
    };
    let (space, outcomes) = recording.space().unwrap();
    Recorded {
        name: "small".to_owned(),
        recording,
        space: Arc::new(space),
        outcomes,
        optimum: 1.0,
    }
}

fn four() -> Recorded {
    recorded(&[
        ([64, 4, 1, 1], Some(4.0)),
        ([64, 4, 2, 2], None),
        ([64, 4, 1, 3], Some(1.0)),
        ([64, 4, 4, 4], Some(2.0)),
    ])
}

#[test]
fn failed_configurations_count_and_the_best_falls() {
    let recorded = four();
    let mut strategy = Exhaustive::new(&recorded.space);
    let trace = replay(&recorded, &mut strategy, "in order", 0, 220);
    assert_eq!(trace.evaluations, 4);
    assert_eq!(trace.trace, [(1, 4.0), (3, 1.0)]);
    assert_eq!(trace.best_after(2), 4.0);
    assert_eq!(trace.best_after(0), f64::INFINITY);
    assert_eq!(trace.evaluations_to(2.0), Some(3));
    assert_eq!(trace.evaluations_to(0.5), None);
}

#[test]
fn a_budget_ends_a_search() {
    let recorded = four();
    let mut strategy = Random::new(&recorded.space, 1);
    assert_eq!(
        replay(&recorded, &mut strategy, "random", 1, 3).evaluations,
        3
    );
}

/// A line as `field.py` writes it.
#[test]
fn searches_of_kernel_tuner_are_read() {
    let line =
        r#"{"space":"small","strategy":"pso","seed":7,"evaluations":4,"trace":[[1,3.0],[4,1.04]]}"#;
    let trace: Trace = serde_json::from_str(line).unwrap();
    assert_eq!(trace.evaluations_to(1.05), Some(4));
    let other = Trace {
        strategy: "ours".to_owned(),
        trace: vec![(2, 1.07)],
        ..trace.clone()
    };
    let elsewhere = Trace {
        space: "other".to_owned(),
        ..trace.clone()
    };
    insta::assert_snapshot!(table("small", 1.0, &[other, elsewhere], &[trace]));
}
