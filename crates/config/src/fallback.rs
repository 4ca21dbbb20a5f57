//! Resolves `fallback`, which names another variant that can replace this one because it computes the same.

use super::variant::KernelVariant;
use super::yaml::{Mistake, Spanned};
use model::{Case, Fallback, Reference, Tensor};

/// Resolves the fallbacks of all variants. `cases` are the cases of all variants.
pub fn resolve(
    kernels: &[KernelVariant<'_>],
    cases: &[Case],
    file: &str,
) -> Result<Vec<Fallback>, Mistake> {
    let mut fallbacks = Vec::new();
    for kernel in kernels {
        let Some(name) = kernel.fallback else {
            continue;
        };
        check(kernel, name, kernels, cases)?;
        fallbacks.push(Fallback {
            kernel: kernel.kernel.to_owned(),
            variant: kernel.variant.to_owned(),
            to: name.value.clone(),
            declared: format!("{file}:{}", name.at.line()),
        });
    }
    Ok(fallbacks)
}

fn check(
    kernel: &KernelVariant<'_>,
    name: &Spanned<String>,
    kernels: &[KernelVariant<'_>],
    cases: &[Case],
) -> Result<(), Mistake> {
    let variant = kernel.variant;
    let problem = |message: String| Err(name.problem(message));
    let Some(other) = kernels.iter().find(|kernel| kernel.variant == name.value) else {
        let known = kernels.iter().map(|kernel| kernel.variant);
        return Err(name.unknown("variant", known));
    };
    if kernel.failing.is_some() {
        return problem(format!(
            "`{variant}` is expected to fail: nothing can stand in for it"
        ));
    }
    if comes_back(kernel, kernels) {
        return problem(format!("`{variant}` falls back on itself"));
    }
    for shape in &kernel.shapes {
        other.check_measure(name, Some(&shape.name))?;
    }
    let of = |variant: &str, shape: &str| {
        let is_it = |case: &&Case| case.id.variant == variant && case.id.shape == shape;
        cases.iter().find(is_it)
    };
    match kernel
        .shapes
        .iter()
        .filter_map(|shape| {
            let (own, theirs) = (of(variant, &shape.name), of(other.variant, &shape.name));
            Some((own?, theirs?))
        })
        .find(|(own, theirs)| !compute_the_same(own, theirs))
    {
        None => Ok(()),
        Some((own, _)) => {
            let message = format!(
                "`{name}` has other outputs or another reference than `{variant}` at shape `{}`",
                own.id.shape
            );
            Err(name
                .problem(message)
                .help("only what computes the same can stand in"))
        }
    }
}

/// Returns true if the chain of fallbacks leads back to its first variant.
fn comes_back(first: &KernelVariant<'_>, kernels: &[KernelVariant<'_>]) -> bool {
    let mut next = first.fallback;
    for _ in kernels {
        let Some(name) = next else {
            return false;
        };
        if name.value == first.variant {
            return true;
        }
        let other = kernels.iter().find(|kernel| kernel.variant == name.value);
        next = other.and_then(|other| other.fallback);
    }
    false
}

/// Returns true if both cases compute the same: their outputs are the same, and either their references are the same or
/// `other` is the reference of `own`.
fn compute_the_same(own: &Case, other: &Case) -> bool {
    let outputs = |case: &Case| -> Vec<Tensor> {
        case.tensors
            .iter()
            .filter(|tensor| tensor.role.is_result())
            .cloned()
            .collect()
    };
    let is_held_against = |reference: &Reference| matches!(reference, Reference::Variant { variant } if *variant == other.id.variant);
    outputs(own) == outputs(other)
        && (own.reference == other.reference || is_held_against(&own.reference))
}
