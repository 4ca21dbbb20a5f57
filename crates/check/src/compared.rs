//! Decides which elements of an output are compared: all of them, or those that `compare` of gates.yaml selects.

use super::Values;
use super::layout::index;
use model::expr::{Env, EvalError, ExprError, ExprValue, Expression, Name};
use model::{Case, Compare, Tensor};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The elements that are compared, by output. Each has a flag, and all elements of outputs that are not listed are
/// compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedElements(BTreeMap<String, Vec<bool>>);

/// The reason for which the compared elements of an output are not known.
#[derive(Debug, thiserror::Error)]
#[error("compare of `{output}`: {source}")]
pub struct CompareError {
    output: String,
    source: SelectionError,
}

/// The reason for which `compare` selects nothing.
#[derive(Debug, thiserror::Error)]
enum SelectionError {
    #[error("`{0}` is no mask of its elements")]
    NoMask(String),
    #[error(transparent)]
    Text(#[from] ExprError),
    #[error("{names} names for {indices} indices")]
    Names { names: usize, indices: usize },
    #[error("`{text}` at {at:?}: {source}")]
    Value {
        text: String,
        at: Vec<usize>,
        source: Box<EvalError>,
    },
}

impl ComparedElements {
    /// Compares all elements of every output.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the elements that a case compares. `input` returns the values of an input.
    ///
    /// # Errors
    /// Fails if a mask is no input of the same dimensions, or if a condition has no value at some element.
    pub fn for_case(
        case: &Case,
        input: &dyn Fn(&str) -> Option<Values>,
    ) -> Result<Self, CompareError> {
        let mut all = BTreeMap::new();
        for tensor in case.tensors.iter().filter(|tensor| tensor.role.is_result()) {
            let Some(compare) = &tensor.compare else {
                continue;
            };
            let parts = match compare {
                Compare::Unordered { .. } => continue,
                Compare::Where { condition, index } => holds(
                    tensor,
                    &condition.text,
                    index,
                    condition
                        .constants
                        .iter()
                        .map(|(name, value)| (Name::plain(name), ExprValue::Int(value.0 as i64)))
                        .collect(),
                ),
                Compare::Mask { tensor: mask } => match input(mask) {
                    Some(Values::I64(values)) if values.len() == tensor.len() => {
                        Ok(values.into_iter().map(|value| value != 0).collect())
                    }
                    _ => Err(SelectionError::NoMask(mask.clone())),
                },
            };
            let parts = parts.map_err(|source| CompareError {
                output: tensor.name.clone(),
                source,
            })?;
            all.insert(tensor.name.clone(), parts);
        }
        Ok(Self(all))
    }

    /// Returns the elements that both compare.
    pub fn and(mut self, other: Self) -> Self {
        for (name, theirs) in other.0 {
            let ours = self
                .0
                .entry(name)
                .or_insert_with(|| vec![true; theirs.len()]);
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                *ours &= theirs;
            }
        }
        self
    }

    /// Returns the compared part of the output with this name, or `None` if all of it is compared.
    pub fn part(&self, output: &str) -> Option<&[bool]> {
        self.0.get(output).map(Vec::as_slice)
    }

    /// Returns true if the element of an output at `position` is compared.
    pub fn has(&self, output: &str, position: usize) -> bool {
        is_in(self.part(output), position)
    }
}

/// Returns true if the element at `position` is compared.
pub fn is_in(part: Option<&[bool]>, position: usize) -> bool {
    part.is_none_or(|part| part.get(position) == Some(&true))
}

/// Evaluates a condition once for each value of the indices that it names, and repeats it along the other axes.
fn holds(
    tensor: &Tensor,
    text: &str,
    names: &[String],
    env: Env,
) -> Result<Vec<bool>, SelectionError> {
    let condition = Expression::parse(text)?;
    let names: Vec<Name> = names.iter().map(Name::plain).collect();
    if names.len() != tensor.dims.len() {
        return Err(SelectionError::Names {
            names: names.len(),
            indices: tensor.dims.len(),
        });
    }
    // An axis that the condition does not name has one position.
    let axes: Vec<usize> = names
        .iter()
        .zip(&tensor.dims)
        .map(|(name, dim)| {
            if condition.names().contains(name) {
                *dim
            } else {
                1
            }
        })
        .collect();
    let table: Vec<bool> = (0..axes.iter().product())
        .into_par_iter()
        .map_with(env, |env, place| {
            let at = index(&axes, place);
            for (name, at) in names.iter().zip(&at) {
                env.insert(name.clone(), ExprValue::Int(*at as i64));
            }
            condition
                .truth(env)
                .map_err(|source| SelectionError::Value {
                    text: text.to_owned(),
                    at,
                    source: Box::new(source),
                })
        })
        .collect::<Result<_, _>>()?;
    if axes == tensor.dims {
        return Ok(table);
    }
    Ok((0..tensor.len())
        .into_par_iter()
        .map(|position| {
            let at = index(&tensor.dims, position);
            let place = at.iter().zip(&axes).fold(0, |place, (at, axis)| {
                place * axis + if *axis == 1 { 0 } else { *at }
            });
            table.get(place).copied().unwrap_or(false)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{case, input, output};
    use model::{ElemType, Expr, Num};

    fn part(dims: &[usize], index: &[&str], text: &str) -> Result<Vec<bool>, CompareError> {
        let mut y = output("y", ElemType::F32, dims);
        y.compare = Some(Compare::Where {
            condition: Expr {
                text: text.to_owned(),
                constants: [("N".to_owned(), Num(2.0))].into(),
            },
            index: index.iter().map(|&name| name.to_owned()).collect(),
        });
        let found = ComparedElements::for_case(&case(vec![y]), &|_| None)?;
        assert!(found.part("other").is_none() && found.has("other", 7));
        Ok(found.part("y").unwrap().to_vec())
    }

    #[test]
    fn a_condition_is_asked_of_every_element() {
        let lower = part(&[3, 3], &["i", "j"], "i >= j").unwrap();
        let want = [1, 0, 0, 1, 1, 0, 1, 1, 1].map(|bit| bit == 1);
        assert_eq!(lower, want);
        // The condition names two of four dimensions, and its values repeat along the others.
        let whole = part(&[2, 2, 3, 3], &["b", "h", "row", "col"], "row >= col").unwrap();
        assert_eq!(whole, want.repeat(4));
        let first = part(&[2, 2, 2], &["i", "j", "k"], "i == 0 && k < N - 1").unwrap();
        assert_eq!(first, [1, 0, 1, 0, 0, 0, 0, 0].map(|bit| bit == 1));
        assert_eq!(part(&[2, 2], &["i", "j"], "N == 2").unwrap(), [true; 4]);
        assert_eq!(part(&[], &[], "N == 2").unwrap(), [true]);
        let said = part(&[2, 2], &["i", "j"], "2 / j > 1").unwrap_err();
        assert_eq!(
            said.to_string(),
            "compare of `y`: `2 / j > 1` at [0, 0]: division by zero"
        );
    }

    #[test]
    fn a_mask_is_an_input_of_as_many_integers() {
        let mut y = output("y", ElemType::F32, &[4]);
        y.compare = Some(Compare::Mask {
            tensor: "m".to_owned(),
        });
        let case = case(vec![input("m", ElemType::U8, &[4]), y]);
        let select =
            |values: Option<Values>| ComparedElements::for_case(&case, &|_| values.clone());
        let found = select(Some(Values::I64(vec![0, 1, -3, 0]))).unwrap();
        assert_eq!(found.part("y"), Some(&[false, true, true, false][..]));
        for wrong in [
            None,
            Some(Values::I64(vec![1; 3])),
            Some(Values::F32(vec![1.0; 4])),
        ] {
            let said = select(wrong).unwrap_err();
            assert_eq!(
                said.to_string(),
                "compare of `y`: `m` is no mask of its elements"
            );
        }
    }

    #[test]
    fn only_elements_that_both_compare_are_compared() {
        let one = |part: &[bool]| ComparedElements([("y".to_owned(), part.to_vec())].into());
        let both = one(&[true, true, false]).and(one(&[true, false, false]));
        assert_eq!(both, one(&[true, false, false]));
        assert_eq!(
            ComparedElements::all().and(one(&[true, false])),
            one(&[true, false])
        );
        assert_eq!(one(&[false]).and(ComparedElements::all()), one(&[false]));
    }
}
