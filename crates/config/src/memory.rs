//! Resolves the steps of a sequence that launch no kernel: values that the stream sets or copies between launches.

use super::call::find_tensor;
use super::raw::{RawCopy, RawMemset, RawStep};
use super::scope::Scope;
use super::yaml::{Mistake, Spanned};
use model::{MemoryStep, Role, Tensor};

/// A step as the file writes it.
#[derive(Clone, Copy)]
pub enum Written<'a> {
    Memset(&'a Spanned<RawMemset>),
    Copy(&'a Spanned<RawCopy>),
}

/// Returns the entry of a step that launches a kernel. Adds any other step to the end of `open`.
pub fn read<'a>(
    step: &'a Spanned<RawStep>,
    open: &mut Vec<Written<'a>>,
) -> Result<Option<&'a Spanned<String>>, Mistake> {
    let of_kernel = [
        step.entry.as_ref().map(|step| step.at),
        step.args.as_ref().map(|arg| arg.at),
        step.launch.as_ref().map(|launch| launch.at),
    ];
    let of_kernel = of_kernel.into_iter().flatten().next();
    let written = match (&step.memset, &step.copy, of_kernel) {
        (Some(memset), None, None) => Written::Memset(memset),
        (None, Some(copy), None) => Written::Copy(copy),
        (None, None, Some(_)) => {
            let entry = step.entry.as_ref();
            let missing = || step.problem("the key `entry` is missing");
            return entry.map(Some).ok_or_else(missing);
        }
        (None, None, None) => {
            return Err(step
                .problem("a step without a key does nothing")
                .help("{entry: ..., args: [...], launch: {...}}")
                .help("{memset: {tensor: x, value: 0}}")
                .help("{copy: {from: a, to: b}}"));
        }
        _ => {
            return Err(step
                .problem("a step is a kernel, a `memset` or a `copy`")
                .help("make two steps of it, in the order in which they run"));
        }
    };
    open.push(written);
    Ok(None)
}

pub fn resolve(
    written: &Written<'_>,
    tensors: &[Tensor],
    scope: &Scope<'_>,
) -> Result<MemoryStep, Mistake> {
    match written {
        Written::Memset(memset) => {
            let tensor = find_target(&memset.tensor, tensors)?;
            let value =
                scope.eval_integer_in(&memset.value.value, "the value of each byte", 0..=255);
            Ok(MemoryStep::Memset {
                tensor: tensor.name.clone(),
                // In the range of the line above.
                value: value.map_err(|problem| {
                    problem.help("255 sets every bit, as -1 of cudaMemset does")
                })? as u8,
            })
        }
        Written::Copy(copy) => {
            let (from, to) = (
                find_placed(&copy.from, tensors)?,
                find_target(&copy.to, tensors)?,
            );
            if from.name == to.name {
                return Err(copy
                    .to
                    .problem(format!("`{}` is copied onto itself", to.name)));
            }
            if (from.elem, from.len()) != (to.elem, to.len()) {
                let what = |tensor: &Tensor| format!("{} of {}", tensor.len(), tensor.elem.name());
                return Err(scope.problem(
                    &copy.to,
                    format!(
                        "`{}` has {}, and `{}` has {}: a copy is of the same type and size",
                        to.name,
                        what(to),
                        from.name,
                        what(from)
                    ),
                ));
            }
            Ok(MemoryStep::Copy {
                from: from.name.clone(),
                to: to.name.clone(),
            })
        }
    }
}

/// Returns a tensor in the device's memory that has no gaps. What lies between strides belongs to nobody, and no step
/// may write it.
fn find_placed<'a>(name: &Spanned<String>, tensors: &'a [Tensor]) -> Result<&'a Tensor, Mistake> {
    let tensor = find_tensor(name, tensors)?;
    if !tensor.role.is_placed() {
        return Err(name
            .problem(format!(
                "`{name}` is for the reference alone: no step has it"
            ))
            .help("remove its `role: reference`"));
    }
    if tensor.span() != tensor.len() {
        return Err(name
            .problem(format!(
                "`{name}` has gaps between its strides: a step takes whole tensors"
            ))
            .help("a launcher can set or copy a part: cudaMemset2DAsync, cudaMemcpy2DAsync"));
    }
    Ok(tensor)
}

/// Returns a tensor like [`find_placed`] that a step may write.
fn find_target<'a>(name: &Spanned<String>, tensors: &'a [Tensor]) -> Result<&'a Tensor, Mistake> {
    let tensor = find_placed(name, tensors)?;
    match tensor.role {
        Role::Out | Role::Inout | Role::Scratch => Ok(tensor),
        Role::In | Role::Reference => Err(name
            .problem(format!("`{name}` is an input: no step may write to it"))
            .help("give it `role: inout` or `role: scratch`")),
    }
}
