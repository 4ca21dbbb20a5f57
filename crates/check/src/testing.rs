//! Makes cases for the tests of this crate.

use model::*;

pub fn tensor(name: &str, role: Role, elem: ElemType, dims: &[usize]) -> Tensor {
    Tensor::new(name, role, elem, dims.to_vec())
}

pub fn input(name: &str, elem: ElemType, dims: &[usize]) -> Tensor {
    filled(name, elem, dims, normal(0.0, 1.0))
}

pub fn filled(name: &str, elem: ElemType, dims: &[usize], fill: Fill) -> Tensor {
    Tensor {
        fill: Some(fill),
        ..tensor(name, Role::In, elem, dims)
    }
}

pub fn normal(mean: f64, std: f64) -> Fill {
    let (mean, std) = (Num(mean), Num(std));
    Fill::Normal {
        mean,
        std,
        special: SpecialShares::new(),
    }
}

pub fn uniform(low: f64, high: f64) -> Fill {
    let (low, high) = (Num(low), Num(high));
    Fill::Uniform {
        low,
        high,
        special: SpecialShares::new(),
    }
}

pub fn integers(low: i64, high: i64) -> Fill {
    Fill::Integers {
        low,
        high,
        special: SpecialShares::new(),
    }
}

pub fn constant(value: f64) -> Fill {
    Fill::Constant { value: Num(value) }
}

pub fn values(values: &[f64]) -> Fill {
    let values = values.iter().copied().map(Num).collect();
    Fill::Values { values }
}

pub fn with_codec(tensor: Tensor, scheme: CodecScheme, block: &[usize]) -> Tensor {
    let block = block.to_vec();
    Tensor {
        codec: Some(Codec { scheme, block }),
        ..tensor
    }
}

pub fn symmetric(levels: f64, zero_point: i64, scale_divisor: f64) -> CodecScheme {
    CodecScheme::Symmetric {
        levels: Num(levels),
        zero_point,
        scale_divisor: Num(scale_divisor),
    }
}

/// Returns a reference that makes `y` of `x`.
pub fn unary(op: Unary) -> Reference {
    let (x, out) = ("x".to_owned(), "y".to_owned());
    Reference::Unary { x, out, op }
}

/// Returns a reference that makes `y` of two tensors.
pub fn binary(a: &str, b: &str, op: Binary) -> Reference {
    let [a, b, out] = [a, b, "y"].map(str::to_owned);
    Reference::Binary { a, b, out, op }
}

/// Returns a reference that makes `y` of `x`.
pub fn reduce(op: ReduceOp, axes: &[usize]) -> Reference {
    Reference::Reduce {
        x: "x".to_owned(),
        out: "y".to_owned(),
        op,
        axes: axes.to_vec(),
    }
}

/// Returns a reference that makes `y` of three tensors.
pub fn sdpa([q, k, v]: [&str; 3], scale: f64) -> Reference {
    let [q, k, v, out] = [q, k, v, "y"].map(str::to_owned);
    Reference::Sdpa {
        q,
        k,
        v,
        out,
        scale: Num(scale),
        causal: false,
    }
}

/// Returns a reference that calls a function of a source.
pub fn user(source: &str, function: &str, args: Vec<Arg>) -> Reference {
    Reference::User {
        source: source.to_owned(),
        function: function.to_owned(),
        args,
        flags: Vec::new(),
    }
}

pub fn pointer(name: &str) -> Arg {
    let name = name.to_owned();
    Arg::Tensor { name }
}

pub fn int(elem: ScalarType, value: i64) -> Arg {
    let value = ScalarValue::Int(value);
    Arg::Scalar { elem, value }
}

pub fn float(elem: ScalarType, value: f64) -> Arg {
    let value = ScalarValue::Float(Num(value));
    Arg::Scalar { elem, value }
}

pub fn output(name: &str, elem: ElemType, dims: &[usize]) -> Tensor {
    tensor(name, Role::Out, elem, dims)
}

/// Returns a case whose reference copies `x` to `y` until a test says otherwise.
pub fn case(tensors: Vec<Tensor>) -> Case {
    Case {
        tensors,
        seeds: vec![1],
        reference: unary(Unary::Copy),
        launches: 2,
        deadline_ms: 10_000,
        ..Case::empty(CaseId::new("k", "v", "s"))
    }
}
