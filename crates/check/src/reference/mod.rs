//! Computes the right answer on the CPU.
//!
//! Built-in references are in this module and its children; `user` runs a function of the user's own. Either each
//! tensor that the kernel writes gets an expected value, or none does.

mod attention;
mod elementwise;
mod matmul;
mod reduce;
mod rows;
#[cfg(test)]
mod tests;
pub mod user;

use super::captured::{self, CapturedError};
use super::compared::CompareError;
use super::elem::{self, ElemError};
use super::inputs::{Inputs, View};
use super::{ComparedElements, Outputs, Values};
use model::{Case, ElemType, Reference, Role, Tensor};

/// The version of the references, which is part of every cached result's key. A change of what any built-in reference
/// computes is a new version.
pub const REFERENCES: &str = "gatekeeper references/1";

/// The reasons for which a right answer cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The reference does not suit the case, or broke.
    #[error("{0}")]
    Reference(String),
    /// The reference, or the compiler that built it, did not finish within its deadline. On a slow machine it would
    /// look the same.
    #[error("{0}")]
    Late(String),
    /// The machine lacks something or broke.
    #[error("{0}")]
    Environment(String),
}

impl From<CompareError> for NoAnswer {
    fn from(error: CompareError) -> Self {
        Self::Reference(error.to_string())
    }
}

impl From<ElemError> for NoAnswer {
    fn from(error: ElemError) -> Self {
        Self::Reference(error.to_string())
    }
}

impl From<CapturedError> for NoAnswer {
    fn from(error: CapturedError) -> Self {
        Self::Reference(error.to_string())
    }
}

impl From<&str> for NoAnswer {
    fn from(message: &str) -> Self {
        Self::Reference(message.to_owned())
    }
}

/// A case with its inputs, as a reference sees them.
#[derive(Clone, Copy)]
struct Scene<'a> {
    case: &'a Case,
    inputs: &'a Inputs,
    view: View,
}

/// A contiguous tensor with its dimensions.
#[derive(Clone, Copy)]
struct Array<'a> {
    dims: &'a [usize],
    values: &'a Values,
}

impl<'a> Scene<'a> {
    fn tensor(self, name: &str) -> Result<&'a Tensor, NoAnswer> {
        self.case
            .tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .ok_or_else(|| {
                NoAnswer::Reference(format!(
                    "the reference names `{name}`, which is not a tensor"
                ))
            })
    }

    fn input(self, name: &str) -> Result<Array<'a>, NoAnswer> {
        let tensor = self.tensor(name)?;
        let data = self.inputs.tensors.get(name).ok_or_else(|| {
            NoAnswer::Reference(format!(
                "the reference reads `{name}`, which is an output only"
            ))
        })?;
        Ok(Array {
            dims: tensor.value_dims(),
            values: data.values(self.view),
        })
    }

    fn optional(self, name: Option<&String>) -> Result<Option<Array<'a>>, NoAnswer> {
        name.map(|name| self.input(name)).transpose()
    }

    fn output(self, name: &str) -> Result<&'a Tensor, NoAnswer> {
        let tensor = self.tensor(name)?;
        match tensor.role {
            Role::Out | Role::Inout => Ok(tensor),
            Role::In | Role::Scratch | Role::Reference => Err(NoAnswer::Reference(format!(
                "the reference writes `{name}`, which is not an output"
            ))),
        }
    }
}

/// Returns the values that a built-in reference expects for each output.
///
/// # Errors
/// Fails if dimensions or element types do not fit, if the reference does not compute an output, for a result that is
/// no number, and for references that are not built in.
pub fn built_in(case: &Case, inputs: &Inputs, view: View) -> Result<Outputs, NoAnswer> {
    if matches!(case.reference, Reference::None | Reference::NoOutput) {
        return complete(case, inputs, zeros(case));
    }
    if let Reference::Captured { outputs } = &case.reference {
        return Ok(captured::outputs(case, outputs)?);
    }
    let scene = Scene { case, inputs, view };
    let (out, values) = match &case.reference {
        Reference::Sdpa {
            q,
            k,
            v,
            out,
            scale,
            causal,
        } => (
            out,
            attention::sdpa(scene, [q, k, v], out, scale.0 as f32, *causal)?,
        ),
        Reference::Gemm { out, .. } => (out, matmul::gemm(scene)?),
        Reference::Softmax { x, out } => (out, rows::softmax(scene, x, out)?),
        Reference::LayerNorm {
            x,
            out,
            gamma,
            beta,
            eps,
        } => {
            let affine = [gamma.as_ref(), beta.as_ref()];
            (
                out,
                rows::normalise(scene, x, out, affine, eps.0, rows::Centre::Mean)?,
            )
        }
        Reference::RmsNorm { x, out, gamma, eps } => {
            let affine = [gamma.as_ref(), None];
            (
                out,
                rows::normalise(scene, x, out, affine, eps.0, rows::Centre::Zero)?,
            )
        }
        Reference::Reduce { x, out, op, axes } => (out, reduce::reduce(scene, x, out, *op, axes)?),
        Reference::Transpose {
            x,
            out,
            permutation,
        } => (out, reduce::transpose(scene, x, out, permutation)?),
        Reference::Unary { x, out, op } => (out, elementwise::unary(scene, x, out, *op)?),
        Reference::Binary { a, b, out, op } => (out, elementwise::binary(scene, a, b, out, *op)?),
        Reference::User { .. }
        | Reference::Captured { .. }
        | Reference::Variant { .. }
        | Reference::None
        | Reference::NoOutput
        | Reference::Elsewhere => {
            return Err("this reference is not built in".into());
        }
    };
    let values = as_stored(scene.output(out)?, values)?;
    complete(case, inputs, Outputs::from([(out.clone(), values)]))
}

/// Returns zeros to compare outputs with that only have to be numbers.
fn zeros(case: &Case) -> Outputs {
    case.tensors
        .iter()
        .filter(|tensor| tensor.role.is_result())
        .map(|tensor| {
            let values = match tensor.elem {
                ElemType::F64 => Values::F64(vec![0.0; tensor.len()]),
                elem if elem.is_float() => Values::F32(vec![0.0; tensor.len()]),
                _ => Values::I64(vec![0; tensor.len()]),
            };
            (tensor.name.clone(), values)
        })
        .collect()
}

/// Returns integers if the output holds integers, and floats if it holds floats.
fn as_stored(tensor: &Tensor, values: Values) -> Result<Values, NoAnswer> {
    match (tensor.elem.is_float(), values) {
        (true, values) if tensor.elem == ElemType::F64 => {
            let values = values.floats();
            Ok(Values::F64(
                values.iter().map(|&number| number.into()).collect(),
            ))
        }
        (true, values) => Ok(Values::F32(values.floats().into_owned())),
        (false, Values::I64(values)) => {
            let values = Values::I64(values);
            elem::encode(tensor.elem, &values).map_err(|why| {
                NoAnswer::Reference(format!("the reference of `{}`: {why}", tensor.name))
            })?;
            Ok(values)
        }
        (false, Values::F32(_) | Values::F64(_)) => Err(NoAnswer::Reference(format!(
            "the reference gives floats and `{}` holds {:?}: only sums, products and moves of integers \
             give integers; write a reference function for anything else",
            tensor.name, tensor.elem
        ))),
    }
}

/// Checks that every output has its expected values, and that numbers follow from numbers.
///
/// A reference that is NaN would be matched by a kernel that is NaN, and two mistakes would pass.
fn complete(case: &Case, inputs: &Inputs, mut outputs: Outputs) -> Result<Outputs, NoAnswer> {
    outputs.extend(captured::left(case)?);
    let compared = compared(case, inputs)?;
    let finite = inputs.tensors.values().all(|data| {
        data.seen.all_finite() && data.original.as_ref().is_none_or(Values::all_finite)
    });
    for tensor in case.tensors.iter().filter(|tensor| tensor.role.is_result()) {
        let name = &tensor.name;
        let Some(values) = outputs.get(name) else {
            return Err(NoAnswer::Reference(format!(
                "the reference does not compute output `{name}`; a reference function of your own can compute several outputs"
            )));
        };
        if values.len() != tensor.len() {
            return Err(NoAnswer::Reference(format!(
                "the reference gives {} elements of `{name}`, which has {}",
                values.len(),
                tensor.len()
            )));
        }
        let is_nan = |at: usize| match values {
            Values::F32(values) => values.get(at).is_some_and(|value| value.is_nan()),
            Values::F64(values) => values.get(at).is_some_and(|value| value.is_nan()),
            Values::I64(_) => false,
        };
        if let Some(at) = (0..values.len())
            .filter(|_| finite)
            .find(|&at| is_nan(at) && compared.has(name, at))
        {
            return Err(NoAnswer::Reference(format!(
                "the reference gives NaN at `{name}`{:?} though every input is finite",
                super::layout::index(&tensor.dims, at)
            )));
        }
    }
    Ok(outputs)
}

fn compared(case: &Case, inputs: &Inputs) -> Result<ComparedElements, NoAnswer> {
    let input = |name: &str| Some(inputs.tensors.get(name)?.seen.clone());
    Ok(ComparedElements::for_case(case, &input)?)
}

/// Compares dimensions, and reports those that were expected and those that are there.
fn same_dims(name: &str, got: &[usize], want: &[usize]) -> Result<(), NoAnswer> {
    if got == want {
        return Ok(());
    }
    Err(NoAnswer::Reference(format!(
        "`{name}` has dimensions {got:?} where the reference needs {want:?}"
    )))
}
