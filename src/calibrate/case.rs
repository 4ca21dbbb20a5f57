//! Cases of built-in kernels: they are timed, and what they compute is never looked at. Pure.

use model::{
    Arg, Case, CaseId, Determinism, ElemType, Launch, Reference, Role, ScalarType, ScalarValue,
    Step, Tensor, Unary,
};
use std::collections::BTreeMap;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// Long enough for a millisecond of memory traffic, samples and settling.
const DEADLINE_MS: u64 = 60_000;

pub fn tensor(name: &str, len: usize) -> Tensor {
    Tensor::new(name, Role::Scratch, ElemType::F32, vec![len])
}

pub fn pointer(name: &str) -> Arg {
    Arg::Tensor {
        name: name.to_owned(),
    }
}

pub fn integer(value: u32) -> Arg {
    Arg::Scalar {
        elem: ScalarType::I32,
        value: ScalarValue::Int(value.into()),
    }
}

/// One launch of so many blocks.
pub fn case(kernel: &str, shape: &str, blocks: u32, tensors: Vec<Tensor>, args: Vec<Arg>) -> Case {
    Case {
        id: CaseId::new(kernel, "default", shape),
        dims: BTreeMap::new(),
        tensors,
        steps: vec![Step::new(
            args,
            Some(Launch {
                grid: [blocks, 1, 1],
                block: [BLOCK, 1, 1],
                cluster: None,
                cooperative: false,
                dynamic_shared: 0,
            }),
        )],
        seeds: vec![1],
        // Never checked: only its time is of interest.
        reference: Reference::Unary {
            x: "in".to_owned(),
            out: "out".to_owned(),
            op: Unary::Copy,
        },
        tolerance: None,
        determinism: Determinism::BitExact,
        launches: 1,
        deadline_ms: DEADLINE_MS,
        timed: true,
    }
}
