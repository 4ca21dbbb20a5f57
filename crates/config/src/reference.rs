//! Resolves the references of one case. Checks that their names exist, that extents agree, and that every output has a
//! reference.

use super::call::{self, Callee};
use super::flags::check_host_flag;
use super::raw::{Formula, RawReference};
use super::scope::Scope;
use super::yaml::{Mistake, Spanned};
use model::{Compare, Reference, Tensor};

/// Resolves a reference. `path` checks and normalises the path of a source file.
pub fn resolve_reference(
    spot: &Spanned<RawReference>,
    tensors: &[Tensor],
    scope: &Scope<'_>,
    path: &dyn Fn(&Spanned<String>) -> Result<String, Mistake>,
) -> Result<Reference, Mistake> {
    use RawReference as R;
    let names = TensorNames { tensors, scope };
    let eps = |eps: &Option<Spanned<Formula>>| scope.eval_number_or(eps.as_ref(), 1e-5);
    let resolved = match &spot.value {
        R::Sdpa {
            q,
            k,
            v,
            out,
            scale,
            causal,
        } => {
            let query = names.find_input(q)?;
            let &[batch, heads, _, depth] = query.value_dims() else {
                return Err(scope.problem(
                    q,
                    format!("q must be [B, H, S, D], and is {:?}", query.value_dims()),
                ));
            };
            let &[_, key_heads, keys, _] = names.find_input(k)?.value_dims() else {
                return Err(scope.problem(k, "k must be [B, H, S, D]"));
            };
            names.check_input(k, &[batch, key_heads, keys, depth])?;
            if heads % key_heads != 0 {
                return Err(scope.problem(
                    k,
                    format!(
                        "the {heads} heads of q are not a multiple of the {key_heads} heads of k"
                    ),
                ));
            }
            names.check_input(v, &[batch, key_heads, keys, depth])?;
            names.check_output(out, query.value_dims())?;
            Reference::Sdpa {
                q: q.value.clone(),
                k: k.value.clone(),
                v: v.value.clone(),
                out: out.value.clone(),
                scale: scope.eval_number_or(scale.as_ref(), 1.0 / (depth as f64).sqrt())?,
                causal: *causal,
            }
        }
        R::Gemm {
            a,
            b,
            out,
            c,
            bias,
            alpha,
            beta,
            transpose_a,
            transpose_b,
            epilogue,
        } => {
            let (batch_a, rows, inner) = names.find_matrix(a, *transpose_a)?;
            let (batch_b, inner_b, columns) = names.find_matrix(b, *transpose_b)?;
            if inner != inner_b {
                return Err(scope.problem(b, format!("K is {inner} in a and {inner_b} in b")));
            }
            if batch_a != batch_b {
                return Err(scope.problem(
                    b,
                    format!("the leading dimensions are {batch_a:?} in a and {batch_b:?} in b"),
                ));
            }
            let result = [batch_a, &[rows, columns]].concat();
            names.check_output(out, &result)?;
            if let Some(c) = c {
                names.check_input(c, &result)?;
            }
            if let Some(bias) = bias {
                names.check_input(bias, &[columns])?;
            }
            let factor =
                scope.eval_number_or(beta.as_ref(), if c.is_some() { 1.0 } else { 0.0 })?;
            if let (Some(beta), None) = (beta, c)
                && factor.0 != 0.0
            {
                return Err(beta.problem("beta without c has nothing to scale"));
            }
            Reference::Gemm {
                a: a.value.clone(),
                b: b.value.clone(),
                out: out.value.clone(),
                c: optional_name(c),
                bias: optional_name(bias),
                alpha: scope.eval_number_or(alpha.as_ref(), 1.0)?,
                beta: factor,
                transpose_a: *transpose_a,
                transpose_b: *transpose_b,
                epilogue: *epilogue,
            }
        }
        R::Softmax { x, out } => {
            names.check_rows(x, out)?;
            Reference::Softmax {
                x: x.value.clone(),
                out: out.value.clone(),
            }
        }
        R::LayerNorm {
            x,
            out,
            gamma,
            beta,
            eps: epsilon,
        } => {
            let columns = names.check_rows(x, out)?;
            for weight in [gamma, beta].into_iter().flatten() {
                names.check_input(weight, &[columns])?;
            }
            Reference::LayerNorm {
                x: x.value.clone(),
                out: out.value.clone(),
                gamma: optional_name(gamma),
                beta: optional_name(beta),
                eps: eps(epsilon)?,
            }
        }
        R::RmsNorm {
            x,
            out,
            gamma,
            eps: epsilon,
        } => {
            let columns = names.check_rows(x, out)?;
            if let Some(gamma) = gamma {
                names.check_input(gamma, &[columns])?;
            }
            Reference::RmsNorm {
                x: x.value.clone(),
                out: out.value.clone(),
                gamma: optional_name(gamma),
                eps: eps(epsilon)?,
            }
        }
        R::Reduce { x, out, op, axes } => {
            let dims = names.find_input(x)?.value_dims();
            let reduced = resolve_axes(axes, dims.len())?;
            if reduced.is_empty() {
                return Err(axes.problem("no axes: nothing would be reduced"));
            }
            let left = |(axis, dim): (usize, &usize)| (!reduced.contains(&axis)).then_some(*dim);
            let left: Vec<usize> = dims.iter().enumerate().filter_map(left).collect();
            // The reduced axes may be left out, or stay as 1.
            let found = &names.find_output(out)?.dims;
            let squeeze = |dims: &[usize]| -> Vec<usize> {
                dims.iter().copied().filter(|dim| *dim != 1).collect()
            };
            if squeeze(found) != squeeze(&left) {
                return Err(names.mismatch(out, found, &left));
            }
            Reference::Reduce {
                x: x.value.clone(),
                out: out.value.clone(),
                op: *op,
                axes: reduced,
            }
        }
        R::Transpose {
            x,
            out,
            permutation,
        } => {
            let dims = names.find_input(x)?.value_dims();
            let order = resolve_axes(permutation, dims.len())?;
            if order.len() != dims.len() {
                return Err(permutation.problem(format!(
                    "{} axes for {} dimensions",
                    order.len(),
                    dims.len()
                )));
            }
            let wanted: Vec<usize> = order
                .iter()
                .filter_map(|axis| dims.get(*axis).copied())
                .collect();
            names.check_output(out, &wanted)?;
            Reference::Transpose {
                x: x.value.clone(),
                out: out.value.clone(),
                permutation: order,
            }
        }
        R::Unary { x, out, op } => {
            names.find_output(out)?;
            names.check_output(out, names.find_input(x)?.value_dims())?;
            Reference::Unary {
                x: x.value.clone(),
                out: out.value.clone(),
                op: *op,
            }
        }
        R::Binary { a, b, out, op } => {
            let dims = names.find_input(a)?.value_dims();
            names.check_input(b, dims)?;
            names.check_output(out, dims)?;
            Reference::Binary {
                a: a.value.clone(),
                b: b.value.clone(),
                out: out.value.clone(),
                op: *op,
            }
        }
        R::User {
            source,
            function,
            args,
            flags,
        } => {
            if let (Some(flag), true) = (flags.first(), source.ends_with(".py")) {
                return Err(flag.problem("a reference in Python is not compiled, and has no flags"));
            }
            Reference::User {
                source: path(source)?,
                function: call::check_c_name(function)?,
                args: call::resolve_args(args, tensors, Callee::Reference, scope)?,
                flags: flags
                    .iter()
                    .map(check_host_flag)
                    .collect::<Result<_, _>>()?,
            }
        }
        R::Variant(variant) => Reference::Variant {
            variant: variant.value.clone(),
        },
        R::None => Reference::None,
    };
    check_coverage(spot, &resolved, tensors)?;
    Ok(resolved)
}

/// Requires a reference for every output. Without one, an output would be accepted whatever it holds.
fn check_coverage(
    spot: &Spanned<RawReference>,
    reference: &Reference,
    tensors: &[Tensor],
) -> Result<(), Mistake> {
    let covered: Vec<&str> = match reference {
        Reference::Sdpa { out, .. }
        | Reference::Gemm { out, .. }
        | Reference::Softmax { out, .. }
        | Reference::LayerNorm { out, .. }
        | Reference::RmsNorm { out, .. }
        | Reference::Reduce { out, .. }
        | Reference::Transpose { out, .. }
        | Reference::Unary { out, .. }
        | Reference::Binary { out, .. } => vec![out],
        Reference::User { args, .. } => call::passed_tensors(args),
        Reference::Captured { .. }
        | Reference::Variant { .. }
        | Reference::None
        | Reference::NoOutput
        | Reference::Elsewhere => return Ok(()),
    };
    let uncovered = tensors
        .iter()
        .find(|tensor| tensor.role.is_result() && !covered.contains(&tensor.name.as_str()));
    match uncovered {
        None => Ok(()),
        Some(tensor) => Err(spot
            .problem(format!(
                "the reference does not compute the output `{}`",
                tensor.name
            ))
            .help("a `user` reference can compute several outputs")),
    }
}

/// Returns the tensors whose values a reference reads, or that say which elements of its outputs are compared.
pub fn inputs<'a>(reference: &'a Reference, tensors: &'a [Tensor]) -> Vec<&'a str> {
    let masks = tensors.iter().filter_map(|tensor| match &tensor.compare {
        Some(Compare::Mask { tensor }) => Some(tensor.as_str()),
        Some(Compare::Where { .. } | Compare::Unordered { .. }) | None => None,
    });
    let read = reference.inputs().unwrap_or_default();
    read.into_iter().chain(masks).collect()
}

fn optional_name(spot: &Option<Spanned<String>>) -> Option<String> {
    spot.as_ref().map(|spot| spot.value.clone())
}

fn resolve_axes(axes: &Spanned<Vec<Spanned<u32>>>, rank: usize) -> Result<Vec<usize>, Mistake> {
    let mut found = Vec::new();
    for axis in axes.iter() {
        let index = axis.value as usize;
        if index >= rank {
            return Err(axis
                .problem(format!(
                    "axis {index} is out of range: the tensor has rank {rank}"
                ))
                .help("axes count from 0"));
        }
        if found.contains(&index) {
            return Err(axis.problem(format!("duplicate axis {index}")));
        }
        found.push(index);
    }
    Ok(found)
}

struct TensorNames<'a> {
    tensors: &'a [Tensor],
    scope: &'a Scope<'a>,
}

impl<'a> TensorNames<'a> {
    fn find_input(&self, name: &Spanned<String>) -> Result<&'a Tensor, Mistake> {
        let tensor = call::find_tensor(name, self.tensors)?;
        if !tensor.role.is_drawn() {
            return Err(name.problem(format!(
                "`{name}` is not an input; a reference reads inputs"
            )));
        }
        Self::check_floats(name, tensor)
    }

    fn find_output(&self, name: &Spanned<String>) -> Result<&'a Tensor, Mistake> {
        let tensor = call::find_tensor(name, self.tensors)?;
        if !tensor.role.is_result() {
            return Err(name
                .problem(format!("`{name}` is not an output"))
                .help(format!("tensors: {{{name}: {{role: out, ...}}}}")));
        }
        Self::check_floats(name, tensor)
    }

    fn check_floats(name: &Spanned<String>, tensor: &'a Tensor) -> Result<&'a Tensor, Mistake> {
        if tensor.elem.is_float() || tensor.codec.is_some() {
            return Ok(tensor);
        }
        Err(name
            .problem(format!(
                "`{name}` holds integers; built-in references compute over floats"
            ))
            .help("a `user` reference sees integer tensors in their own type"))
    }

    fn check_input(&self, name: &Spanned<String>, wanted: &[usize]) -> Result<(), Mistake> {
        self.find_input(name)?;
        self.check_extents(name, wanted)
    }

    fn check_output(&self, name: &Spanned<String>, wanted: &[usize]) -> Result<(), Mistake> {
        self.find_output(name)?;
        self.check_extents(name, wanted)
    }

    fn check_extents(&self, name: &Spanned<String>, wanted: &[usize]) -> Result<(), Mistake> {
        let found = call::find_tensor(name, self.tensors)?.value_dims();
        if found == wanted {
            return Ok(());
        }
        Err(self.mismatch(name, found, wanted))
    }

    fn mismatch(&self, name: &Spanned<String>, found: &[usize], wanted: &[usize]) -> Mistake {
        self.scope.problem(
            name,
            format!("`{name}` is {found:?}; the reference needs {wanted:?}"),
        )
    }

    /// Returns the leading dimensions, the rows and the columns of a tensor, after transposition.
    fn find_matrix(
        &self,
        name: &Spanned<String>,
        transpose: bool,
    ) -> Result<(&'a [usize], usize, usize), Mistake> {
        match self.find_input(name)?.value_dims() {
            [batch @ .., rows, columns] if transpose => Ok((batch, *columns, *rows)),
            [batch @ .., rows, columns] => Ok((batch, *rows, *columns)),
            dims => Err(self
                .scope
                .problem(name, format!("`{name}` is {dims:?}, not a matrix"))),
        }
    }

    /// Returns the length of the last dimension of `x`, after it has checked that `out` has the extents of `x`.
    fn check_rows(&self, x: &Spanned<String>, out: &Spanned<String>) -> Result<usize, Mistake> {
        let dims = self.find_input(x)?.value_dims();
        self.check_output(out, dims)?;
        dims.last()
            .copied()
            .ok_or_else(|| self.scope.problem(x, "a single element has no rows"))
    }
}
