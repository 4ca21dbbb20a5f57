//! Cases for the tests of this module.

use model::*;
use std::collections::BTreeMap;

pub fn tensor(name: &str, role: Role, elem: ElemType, dims: &[usize]) -> Tensor {
    Tensor::new(name, role, elem, dims.to_vec())
}

/// N(0, 1).
pub fn input(name: &str, elem: ElemType, dims: &[usize]) -> Tensor {
    Tensor {
        fill: Some(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
        }),
        ..tensor(name, Role::In, elem, dims)
    }
}

pub fn output(name: &str, elem: ElemType, dims: &[usize]) -> Tensor {
    tensor(name, Role::Out, elem, dims)
}

/// The reference copies `x` to `y` until a test says otherwise.
pub fn case(tensors: Vec<Tensor>) -> Case {
    Case {
        id: CaseId::new("k", "v", "s"),
        dims: BTreeMap::new(),
        tensors,
        steps: Vec::new(),
        seeds: vec![1],
        reference: Reference::Unary {
            x: "x".to_owned(),
            out: "y".to_owned(),
            op: Unary::Copy,
        },
        tolerance: None,
        determinism: Determinism::BitExact,
        launches: 2,
        deadline_ms: 10_000,
        timed: false,
    }
}
