//! Finds the built-in reference that computes what a kernel does. Each reference that fits its tensors is tried on the
//! inputs and outputs of launches in the simulator.

use super::call::{Argument, Call, ReferenceMatch, Tensor};
use super::tolerances::tolerance;
use check::inputs::{Inputs, View};
use check::{ComparedElements, Outputs, Values, compare, reference};
use model::{Case, CaseId, Fill, Num, Reference, Role, ScalarType, SpecialShares};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A launch with inputs as a run draws them.
pub struct Observed<'a> {
    pub inputs: &'a Inputs,
    pub outputs: Outputs,
}

/// Returns a case with the call's tensors, from which inputs are drawn and references computed.
pub fn case_of(call: &Call) -> Case {
    let tensors = call
        .tensors()
        .map(|tensor| as_planned(tensor, vec![elements(tensor)]));
    Case {
        tensors: tensors.collect(),
        ..Case::empty(CaseId::new("init", "default", "small"))
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

/// Returns the values of an output, by launch.
fn values_of<'a>(observed: &'a [Observed], output: &str) -> impl Iterator<Item = &'a Values> {
    observed
        .iter()
        .filter_map(move |observation| observation.outputs.get(output))
}

/// Returns the largest absolute value of an output in these launches.
pub fn largest(observed: &[Observed], output: &str) -> Option<f64> {
    let absolute = |value: &f32| f64::from(value.abs());
    values_of(observed, output)
        .map(|values| values.floats().iter().map(absolute).fold(0.0, f64::max))
        .reduce(f64::max)
}

/// The most elements of a tensor. Comparing more is not worth the time.
const MOST_ELEMENTS: usize = 1 << 21;
/// The most pairs of a query's element and a key for which attention is computed.
const MOST_ATTENTION: usize = 1 << 24;

/// Returns the reference that gives what a kernel with one output gives. It must be within the tolerance of the
/// output's type at every launch, and the closest such reference is taken.
pub fn find_reference(call: &Call, observed: &[Observed]) -> Option<ReferenceMatch> {
    let mut outputs = call.tensors().filter(|tensor| tensor.role.is_result());
    let (out, None) = (outputs.next()?, outputs.next()) else {
        return None;
    };
    let is_large = |tensor: &Tensor| elements(tensor) > MOST_ELEMENTS;
    if !out.pointee.is_known || call.tensors().any(is_large) || is_constant(observed, &out.name) {
        return None;
    }
    let limit = tolerance(out.pointee.elem, largest(observed, &out.name)?);
    let mut case = case_of(call);
    let others = case.tensors.iter_mut();
    for other in others.filter(|tensor| tensor.name != out.name) {
        other.role = Role::In;
    }
    let mut best: Option<(f64, ReferenceMatch)> = None;
    for candidate in Candidates::new(call, out).find() {
        let Some(case) = candidate.case(&case, call) else {
            continue;
        };
        // The first launch that differs decides against the reference.
        let worst = observed
            .iter()
            .try_fold((0.0, 0.0), |(mean, max): (f64, f64), observation| {
                let error = error_of(&case, observation).filter(|(_, own)| *own <= limit)?;
                Some((mean.max(error.0), max.max(error.1)))
            });
        // Rounding may give two similar functions the same largest error, so the mean error
        // decides.
        if let Some((mean_err, max_err)) = worst
            && best.as_ref().is_none_or(|(least, _)| mean_err < *least)
        {
            let found = ReferenceMatch {
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

/// Returns true if an output has the same value everywhere, which too many references match, or if it
/// was not observed.
fn is_constant(observed: &[Observed], output: &str) -> bool {
    let mut all = values_of(observed, output).flat_map(|values| values.floats().into_owned());
    let first = all.next();
    all.all(|value| Some(value) == first)
}

/// Returns the mean and the largest error of a launch. Returns `None` if the reference does not fit the launch, or if
/// one of the two errors is not a number.
fn error_of(case: &Case, observed: &Observed) -> Option<(f64, f64)> {
    let want = reference::built_in(case, observed.inputs, View::Seen).ok()?;
    let mut got = observed.outputs.clone();
    got.retain(|name, _| want.contains_key(name));
    let facts = compare::errors(&got, &want, &case.tensors, &ComparedElements::all(), None).ok()?;
    let (mean, max) = (facts.mean_err.0, facts.max_err.0);
    (facts.non_finite == 0 && max.is_finite()).then_some((mean, max))
}

struct ReferenceCandidate {
    name: &'static str,
    /// The keys that gates.yaml has for the reference. Keys without a value are left out there.
    keys: Vec<(&'static str, Value)>,
    shapes: BTreeMap<String, Vec<String>>,
    reference: Reference,
}

impl ReferenceCandidate {
    /// Returns the case with this reference, or `None` if its dimensions give a tensor another
    /// number of elements.
    fn case(&self, case: &Case, call: &Call) -> Option<Case> {
        let mut case = case.clone();
        case.reference = self.reference.clone();
        for tensor in &mut case.tensors {
            let Some(shape) = self.shapes.get(&tensor.name) else {
                continue;
            };
            let dims = shape.iter().map(|product| value_of(product, call));
            let dims: Vec<usize> = dims.collect::<Option<_>>()?;
            if dims.iter().product::<usize>() != tensor.len() {
                return None;
            }
            tensor.dims = dims;
        }
        Some(case)
    }
}

/// Returns the value of a product such as `B * T` or `64`.
fn value_of(product: &str, call: &Call) -> Option<usize> {
    let value_of = |factor: &str| {
        let named = call.dims.iter().find(|dim| dim.name == factor);
        named.map_or_else(|| factor.parse().ok(), |dim| Some(dim.value))
    };
    let value: Option<u64> = product.split(" * ").map(value_of).product();
    usize::try_from(value?).ok()
}

fn factors(tensor: &Tensor) -> Vec<String> {
    let count = (tensor.pointee.count > 1).then(|| tensor.pointee.count.to_string());
    tensor.size.factors.iter().cloned().chain(count).collect()
}

const UNARY: &str = "copy neg abs relu gelu gelu_tanh silu sigmoid tanh exp sqrt";
const BINARY: &str = "add sub mul div min max";
const REDUCE: &str = "sum mean max min";
/// The number that `init` makes up for an argument.
const MADE_UP: f64 = 0.5;
/// The number that norms add before a root if gates.yaml does not state one.
const EPSILON: f64 = 1e-5;

/// The references that fit the tensors of a call, the simplest first, because the first of equally close
/// ones is taken.
struct Candidates<'a> {
    call: &'a Call,
    out: &'a Tensor,
    out_factors: Vec<String>,
    inputs: Vec<&'a Tensor>,
    /// The number that was made up, if the kernel takes one.
    made_up: Option<f64>,
    all: Vec<ReferenceCandidate>,
}

impl<'a> Candidates<'a> {
    fn new(call: &'a Call, out: &'a Tensor) -> Self {
        let is_input = |tensor: &&Tensor| {
            tensor.pointee.is_known && matches!(tensor.role, Role::In | Role::Inout)
        };
        let takes_numbers = call.arguments.iter().any(|argument| {
            matches!(argument, Argument::Number { of, value: None, .. }
                if matches!(of, ScalarType::F32 | ScalarType::F64))
        });
        Self {
            call,
            out,
            out_factors: factors(out),
            inputs: call.tensors().filter(is_input).collect(),
            made_up: takes_numbers.then_some(MADE_UP),
            all: Vec::new(),
        }
    }

    fn find(mut self) -> Vec<ReferenceCandidate> {
        let inputs = self.inputs.clone();
        for x in &inputs {
            self.elementwise(x);
            self.rows(x);
            self.reduce(x);
        }
        for a in &inputs {
            for b in inputs.iter().filter(|b| b.name != a.name) {
                self.binary(a, b);
                self.gemm(a, b);
            }
        }
        // Inputs are in the usual order: queries, keys, values.
        for (at, q) in inputs.iter().enumerate() {
            for (after, k) in inputs.iter().enumerate().skip(at + 1) {
                for v in inputs.iter().skip(after + 1) {
                    self.attention([q, k, v]);
                }
            }
        }
        self.all
    }

    /// Adds a reference with these tensors by their keys. `said` are the other keys for gates.yaml, and `unsaid` are
    /// those that it can leave out.
    fn add(
        &mut self,
        name: &'static str,
        tensors: &[(&'static str, &Tensor, &[String])],
        said: &[(&'static str, Value)],
        unsaid: &[(&'static str, f64)],
    ) {
        let named = tensors
            .iter()
            .map(|(key, tensor, _)| (*key, json!(tensor.name)));
        let keys: Vec<(&str, Value)> = named.chain(said.iter().cloned()).collect();
        let unsaid = unsaid.iter().map(|(key, value)| (*key, json!(value)));
        let whole = keys.iter().cloned().chain(unsaid);
        let whole: BTreeMap<&str, Value> = whole.collect();
        let shapes = tensors
            .iter()
            .map(|(_, tensor, shape)| (tensor.name.clone(), shape.to_vec()));
        if let Ok(reference) = serde_json::from_value(json!({name: whole})) {
            self.all.push(ReferenceCandidate {
                name,
                keys,
                shapes: shapes.collect(),
                reference,
            });
        }
    }

    fn is_as_large(&self, tensor: &Tensor) -> bool {
        elements(tensor) == elements(self.out)
    }

    fn elementwise(&mut self, x: &Tensor) {
        if self.is_as_large(x) {
            let shape = self.out_factors.clone();
            for op in UNARY.split(' ') {
                let tensors = [("x", x, &*shape), ("out", self.out, &shape)];
                self.add("unary", &tensors, &[("op", json!(op))], &[]);
            }
        }
    }

    fn binary(&mut self, a: &Tensor, b: &Tensor) {
        if self.is_as_large(a) && self.is_as_large(b) {
            let shape = self.out_factors.clone();
            for op in BINARY.split(' ') {
                let tensors = [
                    ("a", a, &*shape),
                    ("b", b, &shape),
                    ("out", self.out, &shape),
                ];
                self.add("binary", &tensors, &[("op", json!(op))], &[]);
            }
        }
    }

    /// Adds functions of rows. Any dimension may be the one that a row runs along.
    fn rows(&mut self, x: &Tensor) {
        if !self.is_as_large(x) {
            return;
        }
        for last in 0..self.out_factors.len() {
            let mut shape = self.out_factors.clone();
            let column = [shape.remove(last)];
            shape.extend(column.clone());
            let tensors = [("x", x, &*shape), ("out", self.out, &shape)];
            self.add("softmax", &tensors, &[], &[]);
            let is_weight = |input: &&&Tensor| factors(input) == column && input.name != x.name;
            let weights: Vec<Option<&str>> = self
                .inputs
                .iter()
                .filter(is_weight)
                .map(|weight| Some(weight.name.as_str()))
                .chain([None])
                .collect();
            for gamma in &weights {
                for eps in [EPSILON, 1e-6].into_iter().chain(self.made_up) {
                    let own = (eps != EPSILON).then_some(eps);
                    let said = [("eps", json!(own)), ("gamma", json!(gamma))];
                    self.add("rms_norm", &tensors, &said, &[("eps", eps)]);
                    for beta in weights
                        .iter()
                        .filter(|beta| beta.is_none() || *beta != gamma)
                    {
                        let [eps_said, gamma] = said.clone();
                        let said = [("beta", json!(beta)), eps_said, gamma];
                        self.add("layer_norm", &tensors, &said, &[("eps", eps)]);
                    }
                }
            }
        }
    }

    /// Adds sums and similar functions over the dimensions that the output lacks, whether these are behind
    /// the others or before them.
    fn reduce(&mut self, x: &Tensor) {
        let mut reduced = factors(x);
        let kept = self.out_factors.clone();
        for factor in &kept {
            let Some(at) = reduced.iter().position(|other| other == factor) else {
                return;
            };
            reduced.remove(at);
        }
        if reduced.is_empty() {
            return;
        }
        let behind = ([kept.clone(), reduced.clone()].concat(), kept.len());
        let before = ([reduced.clone(), kept.clone()].concat(), 0);
        for (shape, first) in [behind, before] {
            let axes: Vec<usize> = (first..first + reduced.len()).collect();
            for op in REDUCE.split(' ') {
                let tensors = [("x", x, &*shape), ("out", self.out, &kept)];
                let keys = [("op", json!(op)), ("axes", json!(axes))];
                self.add("reduce", &tensors, &keys, &[]);
            }
        }
    }

    /// Adds attention. Any two of the dimensions may be the sequence and the width of a head, and the
    /// others are batches and heads.
    fn attention(&mut self, [q, k, v]: [&Tensor; 3]) {
        let is_alike = |tensor: &&Tensor| self.is_as_large(tensor) && tensor.name != self.out.name;
        let factors = self.out_factors.clone();
        if ![q, k, v].iter().all(is_alike) || !(2..=4).contains(&factors.len()) {
            return;
        }
        // The usual layout comes first.
        let places = || (0..factors.len()).rev();
        let pairs = places().flat_map(|head| places().map(move |sequence| (head, sequence)));
        for (head, sequence) in pairs.filter(|(head, sequence)| head != sequence) {
            let (Some(length), Some(width)) = (factors.get(sequence), factors.get(head)) else {
                continue;
            };
            let others = factors.iter().enumerate();
            let others = others.filter(|(at, _)| *at != head && *at != sequence);
            let mut shape: Vec<String> = others.map(|(_, extent)| extent.clone()).collect();
            shape.splice(..0, vec!["1".to_owned(); 4 - factors.len()]);
            shape.extend([length.clone(), width.clone()]);
            let [keys, width] = [length, width].map(|extent| value_of(extent, self.call));
            let (Some(keys), Some(width)) = (keys, width) else {
                continue;
            };
            if elements(self.out).saturating_mul(keys) > MOST_ATTENTION {
                continue;
            }
            let shape = shape.as_slice();
            for own in [None].into_iter().chain(self.made_up.map(Some)) {
                for causal in [false, true] {
                    let scale = own.unwrap_or(1.0 / (width as f64).sqrt());
                    let tensors = [("q", q), ("k", k), ("v", v), ("out", self.out)];
                    let tensors = tensors.map(|(key, tensor)| (key, tensor, shape));
                    let said = [("causal", json!(causal)), ("scale", json!(own))];
                    self.add("sdpa", &tensors, &said, &[("scale", scale)]);
                }
            }
        }
    }

    /// Adds matrix products. The dimensions that two of the three tensors share are the rows, the columns
    /// and the summed ones.
    fn gemm(&mut self, a: &Tensor, b: &Tensor) {
        let (of_a, of_b) = (factors(a), factors(b));
        let common = |one: &[String], other: &[String]| -> Vec<String> {
            let shared = one.iter().filter(|factor| other.contains(factor));
            shared.cloned().collect()
        };
        let rows = common(&self.out_factors, &of_a);
        let columns = common(&self.out_factors, &of_b);
        let inner = common(&of_a, &of_b);
        let is_square = rows == columns;
        let counts = [&rows, &columns, &inner].map(Vec::len);
        let [m, n, k] = counts;
        let lengths = [&self.out_factors, &of_a, &of_b].map(Vec::len);
        let fits = if is_square {
            counts == [2, 2, 2] && lengths[0] == 2
        } else {
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
        let is_bias = |input: &&&Tensor| {
            input.name != a.name && input.name != b.name && factors(input) == columns && !is_square
        };
        let biases: Vec<&Tensor> = self.inputs.iter().filter(is_bias).copied().collect();
        let shapes = |one: &String, other: &String| {
            let shape = [one, other].map(String::clone);
            let [first, second] = shape.clone();
            [(false, shape), (true, [second, first])]
        };
        for bias in biases.into_iter().map(Some).chain([None]) {
            for (transpose_a, of_a) in shapes(&m, &k) {
                for (transpose_b, of_b) in shapes(&k, &n) {
                    let (of_out, column) = ([m.clone(), n.clone()], [n.clone()]);
                    let mut tensors: Vec<(&str, &Tensor, &[String])> =
                        vec![("a", a, &of_a), ("b", b, &of_b), ("out", self.out, &of_out)];
                    tensors.extend(bias.map(|bias| ("bias", bias, column.as_slice())));
                    let said = [
                        ("transpose_a", json!(transpose_a)),
                        ("transpose_b", json!(transpose_b)),
                    ];
                    self.add("gemm", &tensors, &said, &[("alpha", 1.0), ("beta", 0.0)]);
                }
            }
        }
    }
}
