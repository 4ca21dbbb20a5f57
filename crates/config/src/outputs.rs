//! Resolves `outputs:` of a program, which says what memory of a captured launch is which tensor, and which reference
//! its outputs have. Sizes and scalars may be in the parameters of a launch, so the rest is resolved for each launch.

use super::determinism::resolve_determinism;
use super::disk::PathKind;
use super::gates::tolerance;
use super::limit::{ProgramLimit, read_plain_limit};
use super::names::check_identifier;
use super::paths::{Shared, check_path};
use super::raw::{RawCapturedScalar, RawCapturedTensor, RawOutput, RawReference, RawType};
use super::reference::resolve_reference;
use super::scope::Scope;
use super::yaml::{Mistake, Ordered, Spanned};
use model::expr::{Env, ExprValue, Name};
use model::{Determinism, ElemType, Limit, Metric, Num, Number, Reference, Role, Rule, Tensor};
use std::fmt;
use std::sync::Arc;
use system::error::Diagnostic;

/// The outputs of the kernels that a glob fits.
#[derive(Clone)]
pub struct ProgramOutput {
    /// A glob of names of kernels, mangled or readable.
    pub kernels: String,
    /// `max_err`, for the share of elements beyond it.
    pub tolerance: Option<Num>,
    /// The limits on errors of the outputs.
    pub limits: Vec<ProgramLimit>,
    pub determinism: Determinism,
    /// The line in which the glob is, such as `gates.yaml:9`.
    pub declared: String,
    written: Arc<RawOutput>,
    file: String,
    /// The path of the reference's file, checked.
    source: Option<String>,
    flags: Vec<String>,
}

impl fmt::Debug for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramOutput({} at {})", self.kernels, self.declared)
    }
}

/// The tensors of one launch, and what its outputs are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedLaunch {
    pub tensors: Vec<TypedTensor>,
    pub reference: Reference,
}

/// A tensor at its address. It has no content here.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedTensor {
    pub tensor: Tensor,
    /// The line in which it is, such as `gates.yaml:12`.
    pub declared: String,
}

impl ProgramOutput {
    /// Resolves the tensors of one launch. `parameters` are the bytes of each parameter.
    ///
    /// # Errors
    /// Returns an error for a parameter that is missing or too short, and for sizes that do not fit each other.
    pub fn resolve(&self, parameters: &[Vec<u8>]) -> Result<TypedLaunch, Diagnostic> {
        self.resolve_launch(parameters).map_err(|problem| {
            let mut diagnostic = Diagnostic::new(&problem.message).at(self.place(&problem));
            diagnostic.help.clone_from(&problem.help);
            diagnostic
        })
    }

    /// Returns the flags of the reference's host compiler.
    pub fn reference_flags(&self) -> &[String] {
        &self.flags
    }

    fn place(&self, problem: &Mistake) -> String {
        format!("{}:{}", self.file, problem.at.line())
    }

    fn resolve_launch(&self, parameters: &[Vec<u8>]) -> Result<TypedLaunch, Mistake> {
        let mut env = Env::new();
        for (name, scalar) in self.written.scalars.iter() {
            env.insert(Name::plain(&name.value), read_scalar(scalar, parameters)?);
        }
        let (tensors, reference) = self.resolve_types(env)?;
        let tensors = self
            .written
            .tensors
            .iter()
            .zip(tensors)
            .map(|((name, raw), tensor)| {
                let bytes = read_parameter(&raw.parameter, raw.offset.as_ref(), 8, parameters)?;
                Ok(TypedTensor {
                    tensor: Tensor {
                        address: Some(u64::from_le_bytes(bytes.try_into().unwrap_or_default())),
                        ..tensor
                    },
                    declared: format!("{}:{}", self.file, name.at.line()),
                })
            });
        Ok(TypedLaunch {
            tensors: tensors.collect::<Result<_, _>>()?,
            reference,
        })
    }

    fn resolve_types(&self, scalars: Env) -> Result<(Vec<Tensor>, Reference), Mistake> {
        let scope = Scope::from_launch(scalars);
        let tensors: Vec<Tensor> = self
            .written
            .tensors
            .iter()
            .map(|(name, raw)| resolve_tensor(name, raw, &scope))
            .collect::<Result<_, _>>()?;
        let checked = |_: &Spanned<String>| Ok(self.source.clone().unwrap_or_default());
        let reference = resolve_reference(&self.written.reference, &tensors, &scope, &checked)?;
        Ok((tensors, reference))
    }
}

pub fn resolve_outputs(
    raw: &Ordered<Spanned<Arc<RawOutput>>>,
    shared: &Shared<'_>,
) -> Result<Vec<ProgramOutput>, Mistake> {
    raw.iter()
        .map(|(glob, output)| resolve_output(glob, output, shared))
        .collect()
}

fn resolve_output(
    glob: &Spanned<String>,
    raw: &Spanned<Arc<RawOutput>>,
    shared: &Shared<'_>,
) -> Result<ProgramOutput, Mistake> {
    if glob.trim().is_empty() {
        return Err(glob.problem("an empty glob fits no name"));
    }
    for (name, tensor) in raw.tensors.iter() {
        check_identifier(name, "tensor")?;
        check_role(tensor)?;
    }
    for (name, scalar) in raw.scalars.iter() {
        check_identifier(name, "scalar")?;
        check_scalar(scalar)?;
    }
    let is_result =
        |raw: &RawCapturedTensor| raw.role.as_ref().is_some_and(|role| role.is_result());
    if !raw.tensors.iter().any(|(_, tensor)| is_result(tensor)) {
        return Err(raw
            .tensors
            .problem("no tensor is an output: the reference has nothing to compute")
            .help("give one `role: out` or `role: inout`"));
    }
    let source = match &raw.reference.value {
        RawReference::Variant(_) | RawReference::None => {
            return Err(raw
                .reference
                .problem("the reference of a captured launch is one that is computed")
                .help(super::source::REFERENCE));
        }
        RawReference::User { source, .. } => Some(check_path(source, PathKind::File, shared)?),
        _ => None,
    };
    let flags = match &raw.reference.value {
        RawReference::User { flags, .. } => flags.iter().map(|flag| flag.value.clone()).collect(),
        _ => Vec::new(),
    };
    let limits = resolve_limits(raw, shared.file)?;
    let output = ProgramOutput {
        kernels: glob.value.clone(),
        tolerance: limits.iter().find_map(|limit| tolerance(&limit.rule)),
        limits,
        determinism: resolve_determinism(raw.nondeterministic.as_ref())?,
        declared: format!("{}:{}", shared.file, glob.at.line()),
        written: Arc::clone(&raw.value),
        file: shared.file.to_owned(),
        source,
        flags,
    };
    // Mistakes are found before anything runs, unless they depend on a launch.
    if raw.scalars.is_empty() {
        output.resolve_types(Env::new())?;
    }
    Ok(output)
}

fn resolve_limits(raw: &Spanned<Arc<RawOutput>>, file: &str) -> Result<Vec<ProgramLimit>, Mistake> {
    let written = [(Metric::MaxErr, &raw.max_err), (Metric::RelL2, &raw.rel_l2)];
    let mut limits = Vec::new();
    for (metric, formula) in written {
        let Some(formula) = formula else {
            continue;
        };
        let text = formula.with(formula.0.clone());
        let limit = read_plain_limit(&text, metric, |context| context.unit = false)?;
        let limit = limit.filter(|limit| matches!(limit, Limit::Absolute { .. }));
        let limit =
            limit.ok_or_else(|| text.problem("the limit of a captured output must be a number"))?;
        limits.push(ProgramLimit {
            rule: Rule::Limit { metric, limit },
            declared: format!("{file}:{}", text.at.line()),
        });
    }
    if limits.is_empty() {
        return Err(raw
            .problem("neither `max_err` nor `rel_l2`: the output would be held to nothing")
            .help("max_err: 1e-5"));
    }
    Ok(limits)
}

fn check_role(raw: &RawCapturedTensor) -> Result<(), Mistake> {
    if let Some(role) = raw
        .role
        .as_ref()
        .filter(|role| role.value == Role::Reference)
    {
        return Err(role.problem(
            "a tensor of a captured launch is in its memory: it cannot be for the reference alone",
        ));
    }
    if let RawType::Struct(_) = raw.elem.value {
        return Err(raw
            .elem
            .problem("a tensor of a captured launch has no structs")
            .help("bytes are u8"));
    }
    Ok(())
}

fn check_scalar(raw: &RawCapturedScalar) -> Result<ElemType, Mistake> {
    let known = raw.elem.elem().filter(|elem| match elem.number() {
        Number::Float(bytes) => bytes >= 4,
        Number::Bool | Number::Signed(_) | Number::Unsigned(_) => true,
    });
    known.ok_or_else(|| {
        raw.elem
            .problem("a scalar cannot have this type")
            .help("i8 u8 i16 u16 i32 u32 i64 f32 f64")
    })
}

fn resolve_tensor(
    name: &Spanned<String>,
    raw: &RawCapturedTensor,
    scope: &Scope<'_>,
) -> Result<Tensor, Mistake> {
    let dims: Vec<usize> = raw
        .shape
        .iter()
        .map(|formula| {
            let extent = scope.eval_integer_in(formula, "the extent", 1..=i64::from(u32::MAX))?;
            Ok(extent as usize)
        })
        .collect::<Result<_, _>>()?;
    let elem = raw.elem.elem().unwrap_or(ElemType::U8);
    let bytes = dims
        .iter()
        .try_fold(elem.size(), |product, dim| product.checked_mul(*dim));
    // The end of the tensor is computed from its bytes.
    if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(raw.shape.problem("the tensor is too large"));
    }
    let role = raw.role.as_ref().map_or(Role::In, |role| role.value);
    Ok(Tensor::new(name, role, elem, dims))
}

fn read_scalar(raw: &RawCapturedScalar, parameters: &[Vec<u8>]) -> Result<ExprValue, Mistake> {
    let number = check_scalar(raw)?.number();
    let bytes = read_parameter(
        &raw.parameter,
        raw.offset.as_ref(),
        number.size(),
        parameters,
    )?;
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    let unused = 64 - 8 * number.size();
    let bits = u64::from_le_bytes(word);
    Ok(match number {
        Number::Float(4) => ExprValue::Float(f32::from_bits(bits as u32).into()),
        Number::Float(_) => ExprValue::Float(f64::from_bits(bits)),
        Number::Signed(_) => ExprValue::Int((bits << unused).cast_signed() >> unused),
        Number::Bool | Number::Unsigned(_) => ExprValue::Int(bits.cast_signed()),
    })
}

fn read_parameter<'a>(
    number: &Spanned<u32>,
    offset: Option<&Spanned<u32>>,
    bytes: usize,
    parameters: &'a [Vec<u8>],
) -> Result<&'a [u8], Mistake> {
    let Some(parameter) = parameters.get(number.value as usize) else {
        return Err(number.problem(format!(
            "there is no parameter {number}: the launch has {}, counted from 0",
            parameters.len()
        )));
    };
    let from = offset.map_or(0, |offset| offset.value as usize);
    parameter.get(from..from + bytes).ok_or_else(|| {
        Mistake::new(
            offset.map_or(number.at, |offset| offset.at),
            format!("parameter {number} has {} bytes, and {bytes} bytes from byte {from} were to be read", parameter.len()),
        )
    })
}
