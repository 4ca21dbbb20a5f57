//! Which built-in reference computes what a kernel does: each that fits its tensors is tried on the inputs and outputs
//! of launches in the simulator.

use super::call::{Argument, Call, Match, Tensor};
use super::tolerances::tolerance;
use check::inputs::{Inputs, View};
use check::{ComparedElements, Outputs, compare, reference};
use model::{
    Binary, Case, CaseId, Determinism, Fill, Num, ReduceOp, Reference, Role, ScalarType,
    SpecialShares, Unary,
};
use std::collections::BTreeMap;

/// A launch with inputs as a run draws them.
pub struct Observed<'a> {
    pub inputs: &'a Inputs,
    pub outputs: Outputs,
}

/// A case of these tensors, to draw inputs for and to ask references about.
pub fn case_of(call: &Call) -> Case {
    let tensors = call
        .tensors()
        .map(|tensor| as_planned(tensor, vec![elements(tensor)]));
    Case {
        id: CaseId::new("init", "default", "small"),
        dims: BTreeMap::new(),
        tensors: tensors.collect(),
        steps: Vec::new(),
        seeds: Vec::new(),
        reference: Reference::None,
        tolerance: None,
        determinism: Determinism::BitExact,
        launches: 1,
        deadline_ms: 0,
        timed: false,
    }
}

fn elements(tensor: &Tensor) -> usize {
    tensor.size.value as usize * tensor.pointee.count
}

fn as_planned(tensor: &Tensor, dims: Vec<usize>) -> model::Tensor {
    let elem = tensor.pointee.elem;
    let fill = if elem.is_float() {
        Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
            special: SpecialShares::new(),
        }
    } else {
        Fill::Integers {
            low: tensor.integers.low,
            high: tensor.integers.high,
            special: SpecialShares::new(),
        }
    };
    model::Tensor {
        fill: tensor.role.is_drawn().then_some(fill),
        ..model::Tensor::new(&tensor.name, tensor.role, elem, dims)
    }
}

/// The largest absolute value of an output in these launches.
pub fn largest(observed: &[Observed], output: &str) -> Option<f64> {
    let values = observed
        .iter()
        .filter_map(|observation| observation.outputs.get(output));
    let largest = values.map(|values| {
        let all = values.floats();
        all.iter()
            .fold(0.0, |most: f64, value| most.max(f64::from(value.abs())))
    });
    largest.reduce(f64::max)
}

/// Longer tensors are not worth the time.
const MOST_ELEMENTS: usize = 1 << 21;
/// Elements of all references of a kernel that are computed as a whole.
const MOST_WORK: usize = 1 << 27;

/// Returns the reference that gives what a kernel with one output does: of those within the tolerance of its type at every
/// launch the closest.
pub fn find_reference(call: &Call, observed: &[Observed]) -> Option<Match> {
    let mut outputs = call.tensors().filter(|tensor| tensor.role.is_result());
    let (out, None) = (outputs.next()?, outputs.next()) else {
        return None;
    };
    if !out.pointee.is_known || observed.is_empty() {
        return None;
    }
    if call
        .tensors()
        .any(|tensor| elements(tensor) > MOST_ELEMENTS)
        || is_constant(observed, &out.name)
    {
        return None;
    }
    let limit = tolerance(out.pointee.elem, largest(observed, &out.name)?);
    let mut case = case_of(call);
    for other in case
        .tensors
        .iter_mut()
        .filter(|tensor| tensor.name != out.name)
    {
        other.role = Role::In;
    }
    let values: BTreeMap<&str, u64> = call
        .dims
        .iter()
        .map(|dim| (dim.name.as_str(), dim.value))
        .collect();
    let mut best: Option<(f64, Match)> = None;
    let all: usize = call.tensors().map(elements).sum();
    let mut work = 0;
    for candidate in candidates(call, out) {
        let Some(case) = candidate.case(&case, &values) else {
            continue;
        };
        let cost = all.saturating_mul(candidate.keys_of_attention(&case));
        if cost > MOST_WORK - work {
            continue;
        }
        work += cost;
        // The first launch that differs ends it.
        let worst = observed
            .iter()
            .try_fold((0.0, 0.0), |(mean, max): (f64, f64), observation| {
                let error = error_of(&case, observation).filter(|(_, own)| *own <= limit)?;
                Some((mean.max(error.0), max.max(error.1)))
            });
        // Rounding may make the largest error the same for two functions that are close.
        if let Some((mean_err, max_err)) = worst
            && best.as_ref().is_none_or(|(least, _)| mean_err < *least)
        {
            let found = Match {
                reference: candidate.reference,
                shapes: candidate.shapes,
                max_err,
            };
            best = Some((mean_err, found));
        }
    }
    best.map(|(_, found)| found)
}

/// One value in every place is matched by too much.
fn is_constant(observed: &[Observed], output: &str) -> bool {
    let mut values = observed
        .iter()
        .filter_map(|observation| observation.outputs.get(output));
    let all_alike = |values: &check::Values| {
        let all = values.floats();
        all.windows(2).all(|pair| pair.first() == pair.last())
    };
    let Some(first) = values.next() else {
        return true;
    };
    all_alike(first) && values.all(|values| values == first)
}

/// The mean and the largest error of a launch; `None` where the reference does not suit it, or one of the two is no number.
fn error_of(case: &Case, observed: &Observed) -> Option<(f64, f64)> {
    let want = reference::built_in(case, observed.inputs, View::Seen).ok()?;
    let mut got = observed.outputs.clone();
    got.retain(|name, _| want.contains_key(name));
    let facts = compare::errors(&got, &want, &case.tensors, &ComparedElements::all(), None).ok()?;
    let (mean, max) = (facts.mean_err.0, facts.max_err.0);
    (facts.non_finite == 0 && max.is_finite()).then_some((mean, max))
}

struct Candidate {
    shapes: BTreeMap<String, Vec<String>>,
    reference: Reference,
}

impl Candidate {
    /// `None` where its dimensions do not have the elements that a tensor has.
    fn case(&self, case: &Case, values: &BTreeMap<&str, u64>) -> Option<Case> {
        let mut case = case.clone();
        case.reference = self.reference.clone();
        for tensor in &mut case.tensors {
            let Some(shape) = self.shapes.get(&tensor.name) else {
                continue;
            };
            let dims: Option<Vec<usize>> =
                shape.iter().map(|shape| value_of(shape, values)).collect();
            let dims = dims?;
            if dims.iter().product::<usize>() != tensor.len() {
                return None;
            }
            tensor.dims = dims;
        }
        Some(case)
    }

    /// The length of a sequence, for all of which each row of the output asks; 1 of any other reference.
    fn keys_of_attention(&self, case: &Case) -> usize {
        let Reference::Sdpa { k, .. } = &self.reference else {
            return 1;
        };
        let keys = case.tensors.iter().find(|tensor| tensor.name == *k);
        keys.and_then(|tensor| tensor.dims.get(2).copied())
            .unwrap_or(1)
    }
}

/// `B * T`, `64`.
fn value_of(product: &str, values: &BTreeMap<&str, u64>) -> Option<usize> {
    let value: Option<u64> = product
        .split(" * ")
        .map(|factor| match factor.parse() {
            Ok(number) => Some(number),
            Err(_) => values.get(factor).copied(),
        })
        .product();
    usize::try_from(value?).ok()
}

fn factors(tensor: &Tensor) -> Vec<String> {
    let mut factors = tensor.size.factors.clone();
    if tensor.pointee.count > 1 {
        factors.push(tensor.pointee.count.to_string());
    }
    factors
}

const UNARY: [Unary; 11] = [
    Unary::Copy,
    Unary::Neg,
    Unary::Abs,
    Unary::Relu,
    Unary::Gelu,
    Unary::GeluTanh,
    Unary::Silu,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::Exp,
    Unary::Sqrt,
];

const BINARY: [Binary; 6] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Min,
    Binary::Max,
];

const REDUCE: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min];

/// The plainest first: of equally close ones the first is taken.
fn candidates(call: &Call, out: &Tensor) -> Vec<Candidate> {
    let inputs: Vec<&Tensor> = call
        .tensors()
        .filter(|tensor| tensor.pointee.is_known && matches!(tensor.role, Role::In | Role::Inout))
        .collect();
    let mut maker = Maker {
        out,
        out_factors: factors(out),
        epsilons: epsilons(call),
        takes_numbers: takes_numbers(call),
        values: call
            .dims
            .iter()
            .map(|dim| (dim.name.as_str(), dim.value))
            .collect(),
        all: Vec::new(),
    };
    for x in &inputs {
        maker.elementwise(x);
        maker.rows(x, &inputs);
        maker.reduce(x);
    }
    for a in &inputs {
        for b in inputs.iter().filter(|b| b.name != a.name) {
            maker.binary(a, b);
            maker.gemm(a, b, &inputs);
        }
    }
    // In the order that everybody writes: queries, keys, values.
    for (at, q) in inputs.iter().enumerate() {
        for (after, k) in inputs.iter().enumerate().skip(at + 1) {
            for v in inputs.iter().skip(after + 1) {
                maker.attention([q, k, v]);
            }
        }
    }
    maker.all
}

/// The number that `init` makes up for an argument.
pub const MADE_UP: f64 = 0.5;

fn takes_numbers(call: &Call) -> bool {
    call.arguments
        .iter()
        .flat_map(Argument::parts)
        .any(|part| match part {
            Argument::Value { of, .. } => matches!(of, ScalarType::F32 | ScalarType::F64),
            _ => false,
        })
}

/// Values that kernels add before a root, and the one that `init` has made up for an argument.
fn epsilons(call: &Call) -> Vec<f64> {
    let mut epsilons = vec![1e-5, 1e-6];
    if takes_numbers(call) {
        epsilons.push(MADE_UP);
    }
    epsilons
}

struct Maker<'a> {
    out: &'a Tensor,
    out_factors: Vec<String>,
    epsilons: Vec<f64>,
    takes_numbers: bool,
    values: BTreeMap<&'a str, u64>,
    all: Vec<Candidate>,
}

impl Maker<'_> {
    fn add(&mut self, reference: Reference, shapes: &[(&Tensor, &[String])]) {
        let shapes = shapes
            .iter()
            .map(|(tensor, shape)| (tensor.name.clone(), shape.to_vec()));
        self.all.push(Candidate {
            shapes: shapes.collect(),
            reference,
        });
    }

    fn elementwise(&mut self, x: &Tensor) {
        let shape = self.out_factors.clone();
        let (x_name, out) = (x.name.clone(), self.out.name.clone());
        if elements(x) != elements(self.out) {
            return;
        }
        for op in UNARY {
            let reference = Reference::Unary {
                x: x_name.clone(),
                out: out.clone(),
                op,
            };
            self.add(reference, &[(x, &shape), (self.out, &shape)]);
        }
    }

    fn binary(&mut self, a: &Tensor, b: &Tensor) {
        let shape = self.out_factors.clone();
        let same = |tensor: &Tensor| elements(tensor) == elements(self.out);
        if !same(a) || !same(b) {
            return;
        }
        let out = self.out.name.clone();
        for op in BINARY {
            let reference = Reference::Binary {
                a: a.name.clone(),
                b: b.name.clone(),
                out: out.clone(),
                op,
            };
            let shapes: [(&Tensor, &[String]); 3] = [(a, &shape), (b, &shape), (self.out, &shape)];
            self.add(reference, &shapes);
        }
    }

    /// Each dimension may be the last.
    fn rows(&mut self, x: &Tensor, inputs: &[&Tensor]) {
        if elements(x) != elements(self.out) {
            return;
        }
        let out = self.out.name.clone();
        let name = x.name.as_str();
        for last in 0..self.out_factors.len() {
            let mut shape = self.out_factors.clone();
            let column = shape.remove(last);
            shape.push(column.clone());
            let shapes: [(&Tensor, &[String]); 2] = [(x, &shape), (self.out, &shape)];
            let softmax = Reference::Softmax {
                x: name.to_owned(),
                out: out.clone(),
            };
            self.add(softmax, &shapes);
            let weights: Vec<&str> = inputs
                .iter()
                .filter(|input| factors(input) == [column.clone()] && input.name != x.name)
                .map(|weight| weight.name.as_str())
                .collect();
            let choices = weights.iter().map(|weight| Some(*weight)).chain([None]);
            for gamma in choices {
                for eps in self.epsilons.clone() {
                    let reference = Reference::RmsNorm {
                        x: name.to_owned(),
                        out: out.clone(),
                        gamma: gamma.map(str::to_owned),
                        eps: Num(eps),
                    };
                    self.add(reference, &shapes);
                    let others = weights.iter().filter(|weight| Some(**weight) != gamma);
                    for beta in others.map(|weight| Some(*weight)).chain([None]) {
                        let reference = Reference::LayerNorm {
                            x: name.to_owned(),
                            out: out.clone(),
                            gamma: gamma.map(str::to_owned),
                            beta: beta.map(str::to_owned),
                            eps: Num(eps),
                        };
                        self.add(reference, &shapes);
                    }
                }
            }
        }
    }

    /// The dimensions that the output lacks, behind the others or before them.
    fn reduce(&mut self, x: &Tensor) {
        let mut rest = factors(x);
        for factor in &self.out_factors {
            let Some(at) = rest.iter().position(|other_factor| other_factor == factor) else {
                return;
            };
            rest.remove(at);
        }
        if rest.is_empty() {
            return;
        }
        let kept = self.out_factors.clone();
        let out = self.out.name.clone();
        let behind = ([kept.clone(), rest.clone()].concat(), kept.len());
        let before = ([rest.clone(), kept.clone()].concat(), 0);
        for (shape, first) in [behind, before] {
            let axes: Vec<usize> = (first..first + rest.len()).collect();
            for op in REDUCE {
                let reference = Reference::Reduce {
                    x: x.name.clone(),
                    out: out.clone(),
                    op,
                    axes: axes.clone(),
                };
                self.add(reference, &[(x, &shape), (self.out, &kept)]);
            }
        }
    }

    /// Any two of the dimensions may be the sequence and the head's, the others are batches and heads.
    fn attention(&mut self, [q, k, v]: [&Tensor; 3]) {
        let whole = elements(self.out);
        let is_alike = |tensor: &&Tensor| elements(tensor) == whole && tensor.name != self.out.name;
        let factors = self.out_factors.clone();
        if ![q, k, v].iter().all(is_alike) || !(2..=4).contains(&factors.len()) {
            return;
        }
        // As everybody lays them out first.
        for head in (0..factors.len()).rev() {
            for sequence in (0..factors.len()).rev().filter(|at| *at != head) {
                let mut shape: Vec<String> = factors
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != head && *at != sequence)
                    .map(|(_, extent)| extent.clone())
                    .collect();
                while shape.len() < 2 {
                    shape.insert(0, "1".to_owned());
                }
                let (Some(length), Some(width)) = (factors.get(sequence), factors.get(head)) else {
                    continue;
                };
                shape.extend([length.clone(), width.clone()]);
                let Some(width) = value_of(width, &self.values) else {
                    continue;
                };
                let usual = 1.0 / (width as f64).sqrt();
                let made_up = self.takes_numbers.then_some(MADE_UP);
                for scale in [usual].into_iter().chain(made_up) {
                    for causal in [false, true] {
                        let reference = Reference::Sdpa {
                            q: q.name.clone(),
                            k: k.name.clone(),
                            v: v.name.clone(),
                            out: self.out.name.clone(),
                            scale: Num(scale),
                            causal,
                        };
                        let shape = shape.as_slice();
                        let shapes = [q, k, v, self.out].map(|tensor| (tensor, shape));
                        self.add(reference, &shapes);
                    }
                }
            }
        }
    }

    /// Dimensions that two of the three have in common are its rows, its columns and what is summed over.
    fn gemm(&mut self, a: &Tensor, b: &Tensor, inputs: &[&Tensor]) {
        let (of_a, of_b) = (factors(a), factors(b));
        let common = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter()
                .filter(|factor| other.contains(factor))
                .cloned()
                .collect()
        };
        let rows = common(&self.out_factors, &of_a);
        let columns = common(&self.out_factors, &of_b);
        let inner = common(&of_a, &of_b);
        let is_square = rows == columns;
        let counts = [&rows, &columns, &inner].map(Vec::len);
        let [m, n, k] = counts;
        let fits = if is_square {
            counts == [2, 2, 2] && self.out_factors.len() == 2
        } else {
            let lengths = [self.out_factors.len(), of_a.len(), of_b.len()];
            lengths == [m + n, m + k, k + n] && counts.iter().all(|count| *count > 0)
        };
        if !fits {
            return;
        }
        let [m, n, k] = [&rows, &columns, &inner].map(|factors| {
            if is_square {
                factors.first().cloned().unwrap_or_default()
            } else {
                factors.join(" * ")
            }
        });
        let out = self.out.name.clone();
        let bias = inputs.iter().filter(|input| {
            input.name != a.name && input.name != b.name && factors(input) == columns && !is_square
        });
        let choices: Vec<Option<&str>> = bias
            .map(|bias| Some(bias.name.as_str()))
            .chain([None])
            .collect();
        for bias in choices {
            for (transpose_a, transpose_b) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let turned = |one: &String, other: &String, is_turned| {
                    if is_turned {
                        vec![other.clone(), one.clone()]
                    } else {
                        vec![one.clone(), other.clone()]
                    }
                };
                let reference = Reference::Gemm {
                    a: a.name.clone(),
                    b: b.name.clone(),
                    out: out.clone(),
                    c: None,
                    bias: bias.map(str::to_owned),
                    alpha: Num(1.0),
                    beta: Num(0.0),
                    transpose_a,
                    transpose_b,
                    epilogue: None,
                };
                let shape_of_a = turned(&m, &k, transpose_a);
                let shape_of_b = turned(&k, &n, transpose_b);
                let shape_of_out = turned(&m, &n, false);
                let of_bias = inputs
                    .iter()
                    .filter(|input| Some(input.name.as_str()) == bias);
                let column = std::slice::from_ref(&n);
                let mut shapes: Vec<(&Tensor, &[String])> =
                    of_bias.map(|tensor| (*tensor, column)).collect();
                shapes.extend([
                    (a, shape_of_a.as_slice()),
                    (b, &shape_of_b),
                    (self.out, &shape_of_out),
                ]);
                self.add(reference, &shapes);
            }
        }
    }
}
