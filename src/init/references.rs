//! Which built-in reference computes what a kernel does: each that fits its tensors is tried on the inputs and outputs
//! of launches in the simulator.

use super::call::{Argument, Call, Match, Matches, SMALL, Tensor};
use super::tolerances::tolerance;
use check::inputs::{Inputs, View};
use check::{Compared, Outputs, Values, compare, reference};
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
            low: 0,
            high: SMALL as i64 - 1,
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
    let largest = values.map(|values| match values {
        Values::F32(all) => all
            .iter()
            .fold(0.0, |most: f64, value| most.max(f64::from(value.abs()))),
        Values::F64(all) => all
            .iter()
            .fold(0.0, |most: f64, value| most.max(value.abs())),
        Values::I64(all) => all.iter().fold(0.0, |most: f64, value| {
            most.max(value.unsigned_abs() as f64)
        }),
    });
    largest.reduce(f64::max)
}

/// Longer tensors are not worth the time.
const MOST_ELEMENTS: usize = 1 << 21;
/// Elements of all references of a kernel that are computed as a whole.
const MOST_WORK: usize = 1 << 25;
/// Elements by which most references are told apart.
const FIRST: usize = 1 << 11;

/// The references that give what a kernel does.
pub fn find_references(call: &Call, observed: &[Observed]) -> Matches {
    let outputs: Vec<&Tensor> = call
        .tensors()
        .filter(|tensor| tensor.role.is_result())
        .collect();
    match outputs.as_slice() {
        [only] => Matches {
            whole: find_reference(call, only, observed),
            single: Vec::new(),
        },
        several => {
            let found = several.iter().filter_map(|out| {
                let found = find_reference(call, out, observed)?;
                Some((out.name.clone(), found))
            });
            Matches {
                whole: None,
                single: found.collect(),
            }
        }
    }
}

/// The reference of an output that comes closest, of those within the tolerance of its type at every launch.
fn find_reference(call: &Call, out: &Tensor, observed: &[Observed]) -> Option<Match> {
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
    // A reference that is built in computes one output. Another that is an input, too, is one here.
    case.tensors
        .retain(|tensor| tensor.role != Role::Out || tensor.name == out.name);
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
        let is_near = observed.first().is_some_and(|observation| {
            let first = candidate.first_rows(&case, observation);
            first.is_none_or(|(case, inputs, outputs)| {
                let first = Observed {
                    inputs: &inputs,
                    outputs,
                };
                error_of(&case, &first).is_some_and(|error| error.max <= limit)
            })
        });
        if !is_near {
            continue;
        }
        let cost = match &candidate.reference {
            // Each row of the output asks for all keys.
            Reference::Sdpa { .. } => all.saturating_mul(candidate.keys_of_attention(&case)),
            _ => all,
        };
        if cost > MOST_WORK - work {
            continue;
        }
        work += cost;
        let errors = observed
            .iter()
            .map(|observation| error_of(&case, observation));
        // The first launch that differs ends it.
        let worst = errors
            .into_iter()
            .try_fold((0.0, 0.0), |(mean, max): (f64, f64), error| {
                let error = error.filter(|error| error.max <= limit)?;
                Some((mean.max(error.mean), max.max(error.max)))
            });
        // Rounding may make the largest error the same for two functions that are close.
        if let Some((mean_err, max_err)) = worst
            && best.as_ref().is_none_or(|(least, _)| mean_err < *least)
        {
            let found = Match {
                computes: candidate.computes,
                name: candidate.name,
                keys: candidate.keys,
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
    let all_alike = |values: &Values| match values {
        Values::F32(all) => all.windows(2).all(|pair| pair.first() == pair.last()),
        Values::F64(all) => all.windows(2).all(|pair| pair.first() == pair.last()),
        Values::I64(all) => all.windows(2).all(|pair| pair.first() == pair.last()),
    };
    let Some(first) = values.next() else {
        return true;
    };
    all_alike(first) && values.all(|values| values == first)
}

/// Errors of the elements of an output.
struct Errors {
    mean: f64,
    max: f64,
}

/// The errors of a launch; `None` where the reference does not suit it, or one of the two is no number.
fn error_of(case: &Case, observed: &Observed) -> Option<Errors> {
    let want = reference::built_in(case, observed.inputs, View::Seen).ok()?;
    let got = observed
        .outputs
        .iter()
        .filter(|(name, _)| want.contains_key(*name))
        .map(|(name, values)| (name.clone(), values.clone()));
    let facts = compare::errors(&got.collect(), &want, &case.tensors, &Compared::all(), None);
    let facts = facts.ok()?;
    let (mean, max) = (facts.mean_err.0, facts.max_err.0);
    (facts.non_finite == 0 && max.is_finite()).then_some(Errors { mean, max })
}

struct Candidate {
    name: &'static str,
    computes: &'static str,
    keys: Vec<(&'static str, String)>,
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
}

impl Candidate {
    /// The length of a sequence.
    fn keys_of_attention(&self, case: &Case) -> usize {
        let Reference::Sdpa { k, .. } = &self.reference else {
            return 1;
        };
        let keys = case.tensors.iter().find(|tensor| tensor.name == *k);
        keys.and_then(|tensor| tensor.dims.get(2).copied())
            .unwrap_or(1)
    }

    /// The case of the first rows alone, where no row depends on another; `None` where they do, or there are few.
    fn first_rows(&self, case: &Case, observed: &Observed) -> Option<(Case, Inputs, Outputs)> {
        let out = match &self.reference {
            Reference::Unary { out, .. }
            | Reference::Binary { out, .. }
            | Reference::Softmax { out, .. }
            | Reference::LayerNorm { out, .. }
            | Reference::RmsNorm { out, .. } => out,
            _ => return None,
        };
        let whole = case.tensors.iter().find(|tensor| tensor.name == *out)?;
        let (all, columns) = (whole.len(), *whole.dims.last()?);
        let rows = (FIRST / columns.max(1)).max(1);
        if rows * columns >= all {
            return None;
        }
        let mut part = case.clone();
        let mut inputs = observed.inputs.clone();
        let mut outputs = observed.outputs.clone();
        for tensor in part.tensors.iter_mut().filter(|tensor| tensor.len() == all) {
            tensor.dims = vec![rows, columns];
            if let Some(data) = inputs.tensors.get_mut(&tensor.name) {
                data.seen = beginning(&data.seen, rows * columns);
            }
            if let Some(values) = outputs.get_mut(&tensor.name) {
                *values = beginning(values, rows * columns);
            }
        }
        Some((part, inputs, outputs))
    }
}

fn beginning(values: &Values, count: usize) -> Values {
    match values {
        Values::F32(all) => Values::F32(all.iter().copied().take(count).collect()),
        Values::F64(all) => Values::F64(all.iter().copied().take(count).collect()),
        Values::I64(all) => Values::I64(all.iter().copied().take(count).collect()),
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

const UNARY: [(Unary, &str); 11] = [
    (Unary::Copy, "copy"),
    (Unary::Neg, "neg"),
    (Unary::Abs, "abs"),
    (Unary::Relu, "relu"),
    (Unary::Gelu, "gelu"),
    (Unary::GeluTanh, "gelu_tanh"),
    (Unary::Silu, "silu"),
    (Unary::Sigmoid, "sigmoid"),
    (Unary::Tanh, "tanh"),
    (Unary::Exp, "exp"),
    (Unary::Sqrt, "sqrt"),
];

const BINARY: [(Binary, &str); 6] = [
    (Binary::Add, "add"),
    (Binary::Sub, "sub"),
    (Binary::Mul, "mul"),
    (Binary::Div, "div"),
    (Binary::Min, "min"),
    (Binary::Max, "max"),
];

const REDUCE: [(ReduceOp, &str); 4] = [
    (ReduceOp::Sum, "sum"),
    (ReduceOp::Mean, "mean"),
    (ReduceOp::Max, "max"),
    (ReduceOp::Min, "min"),
];

fn named<T: Copy + PartialEq>(all: &[(T, &'static str)], op: T) -> Option<&'static str> {
    let found = all.iter().find(|(known, _)| *known == op);
    found.map(|(_, name)| *name)
}

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
        maker.transpose(x);
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
const MADE_UP: f64 = 0.5;

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
    fn add(
        &mut self,
        name: &'static str,
        keys: &[(&'static str, &str)],
        shapes: &[(&Tensor, &[String])],
        reference: Reference,
    ) {
        let mut keys: Vec<(&'static str, String)> = keys
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect();
        keys.retain(|(_, value)| !value.is_empty());
        let computes = match &reference {
            Reference::Unary { op, .. } => named(&UNARY, *op),
            Reference::Binary { op, .. } => named(&BINARY, *op),
            Reference::Reduce { op, .. } => named(&REDUCE, *op),
            _ => None,
        };
        let shapes = shapes.iter();
        self.all.push(Candidate {
            name,
            computes: computes.unwrap_or(name),
            keys,
            shapes: shapes
                .map(|(tensor, shape)| (tensor.name.clone(), shape.to_vec()))
                .collect(),
            reference,
        });
    }

    fn elementwise(&mut self, x: &Tensor) {
        let shape = self.out_factors.clone();
        let (x_name, out) = (x.name.clone(), self.out.name.clone());
        if elements(x) != elements(self.out) {
            return;
        }
        for (op, name) in UNARY {
            let reference = Reference::Unary {
                x: x_name.clone(),
                out: out.clone(),
                op,
            };
            let keys = [("x", x_name.as_str()), ("out", &out), ("op", name)];
            self.add(
                "unary",
                &keys,
                &[(x, &shape), (self.out, &shape)],
                reference,
            );
        }
    }

    fn binary(&mut self, a: &Tensor, b: &Tensor) {
        let shape = self.out_factors.clone();
        let same = |tensor: &Tensor| elements(tensor) == elements(self.out);
        if !same(a) || !same(b) {
            return;
        }
        let out = self.out.name.clone();
        for (op, name) in BINARY {
            let reference = Reference::Binary {
                a: a.name.clone(),
                b: b.name.clone(),
                out: out.clone(),
                op,
            };
            let keys = [
                ("a", a.name.as_str()),
                ("b", &b.name),
                ("out", &out),
                ("op", name),
            ];
            let shapes: [(&Tensor, &[String]); 3] = [(a, &shape), (b, &shape), (self.out, &shape)];
            self.add("binary", &keys, &shapes, reference);
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
            self.add("softmax", &[("x", name), ("out", &out)], &shapes, softmax);
            let weights: Vec<&str> = inputs
                .iter()
                .filter(|input| factors(input) == [column.clone()] && input.name != x.name)
                .map(|weight| weight.name.as_str())
                .collect();
            let choices = weights.iter().map(|weight| Some(*weight)).chain([None]);
            for gamma in choices {
                for eps in self.epsilons.clone() {
                    let text = match eps {
                        1e-5 => String::new(),
                        eps => format!("{eps:e}"),
                    };
                    let gamma_key = gamma.unwrap_or_default();
                    let reference = Reference::RmsNorm {
                        x: name.to_owned(),
                        out: out.clone(),
                        gamma: gamma.map(str::to_owned),
                        eps: Num(eps),
                    };
                    let keys = [
                        ("x", name),
                        ("out", out.as_str()),
                        ("gamma", gamma_key),
                        ("eps", text.as_str()),
                    ];
                    self.add("rms_norm", &keys, &shapes, reference);
                    let others = weights.iter().filter(|weight| Some(**weight) != gamma);
                    for beta in others.map(|weight| Some(*weight)).chain([None]) {
                        let reference = Reference::LayerNorm {
                            x: name.to_owned(),
                            out: out.clone(),
                            gamma: gamma.map(str::to_owned),
                            beta: beta.map(str::to_owned),
                            eps: Num(eps),
                        };
                        let keys = [
                            ("x", name),
                            ("out", out.as_str()),
                            ("gamma", gamma_key),
                            ("beta", beta.unwrap_or_default()),
                            ("eps", text.as_str()),
                        ];
                        self.add("layer_norm", &keys, &shapes, reference);
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
            let text = format!("{axes:?}");
            for (op, name) in REDUCE {
                let reference = Reference::Reduce {
                    x: x.name.clone(),
                    out: out.clone(),
                    op,
                    axes: axes.clone(),
                };
                let keys = [
                    ("x", x.name.as_str()),
                    ("out", &out),
                    ("op", name),
                    ("axes", &text),
                ];
                self.add(
                    "reduce",
                    &keys,
                    &[(x, &shape), (self.out, &kept)],
                    reference,
                );
            }
        }
    }

    fn transpose(&mut self, x: &Tensor) {
        let [first, second] = self.out_factors.as_slice() else {
            return;
        };
        if elements(x) != elements(self.out) {
            return;
        }
        let orders = [
            [first.clone(), second.clone()],
            [second.clone(), first.clone()],
        ];
        let out = self.out.name.clone();
        for shape in orders {
            let mut turned = shape.clone();
            turned.reverse();
            let reference = Reference::Transpose {
                x: x.name.clone(),
                out: out.clone(),
                permutation: vec![1, 0],
            };
            let keys = [
                ("x", x.name.as_str()),
                ("out", &out),
                ("permutation", "[1, 0]"),
            ];
            self.add(
                "transpose",
                &keys,
                &[(x, &turned), (self.out, &shape)],
                reference,
            );
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
                let made_up = self.takes_numbers.then_some((MADE_UP, "0.5"));
                for (scale, said) in [(usual, "")].into_iter().chain(made_up) {
                    for (causal, said_causal) in [(false, ""), (true, "true")] {
                        let reference = Reference::Sdpa {
                            q: q.name.clone(),
                            k: k.name.clone(),
                            v: v.name.clone(),
                            out: self.out.name.clone(),
                            scale: Num(scale),
                            causal,
                        };
                        let out = self.out;
                        let keys = [
                            ("q", q.name.as_str()),
                            ("k", &k.name),
                            ("v", &v.name),
                            ("out", &out.name),
                            ("scale", said),
                            ("causal", said_causal),
                        ];
                        let shape = shape.as_slice();
                        let shapes = [q, k, v, out].map(|tensor| (tensor, shape));
                        self.add("sdpa", &keys, &shapes, reference);
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
                let yes = |is_set| if is_set { "true" } else { "" };
                let keys = [
                    ("a", a.name.as_str()),
                    ("b", &b.name),
                    ("out", &out),
                    ("bias", bias.unwrap_or_default()),
                    ("transpose_a", yes(transpose_a)),
                    ("transpose_b", yes(transpose_b)),
                ];
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
                self.add("gemm", &keys, &shapes, reference);
            }
        }
    }
}
