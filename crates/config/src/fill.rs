//! How the values of a tensor, or of a field of its structs, are filled.

use super::raw::{Formula, RawFill};
use super::scope::Scope;
use super::yaml::{Position, Problem, Spanned};
use model::{ElemType, Fill, Num};

/// The result of a fill.
#[derive(Clone, Copy)]
pub struct Drawn {
    pub elem: ElemType,
    /// Drawn as floats, whether stored so or coded.
    pub floats: bool,
    pub elements: u64,
}

pub fn resolve_fill_of_input(
    name: &Spanned<String>,
    at: Position,
    fill: Option<&Spanned<RawFill>>,
    drawn: Drawn,
    scope: &Scope<'_>,
) -> Result<Fill, Problem> {
    match fill {
        Some(fill) => resolve_fill(fill, drawn, scope),
        None if drawn.floats => Ok(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
        }),
        None => Err(Problem::new(
            at,
            format!("`{name}` holds integers and needs a `fill`"),
        )
        .help("fill: {integers: {low: 0, high: 9}}, iota, permutation, offsets, block_table or values")),
    }
}

/// A buffer that the caller prepares does not depend on a seed; one that does is an input.
pub fn check_fill_of_scratch(
    name: &Spanned<String>,
    fill: &Spanned<RawFill>,
) -> Result<(), Problem> {
    match &fill.value {
        RawFill::Zeros | RawFill::Constant(_) | RawFill::Iota | RawFill::Values(_) => Ok(()),
        _ => Err(fill.problem(format!("`{name}` is scratch and cannot start with something random"))
        .help("zeros, {constant: ...}, iota or {values: [...]}; what is drawn from the seed is an input: role: inout")),
    }
}

pub fn resolve_fill(
    raw: &Spanned<RawFill>,
    drawn: Drawn,
    scope: &Scope<'_>,
) -> Result<Fill, Problem> {
    let Drawn {
        elem,
        floats,
        elements,
    } = drawn;
    let (low, high) = match elem.range() {
        Some(range) if !floats => range,
        _ => (i64::MIN, i64::MAX),
    };
    let wants = |integers: bool| {
        if integers != floats {
            return Ok(());
        }
        let message = if integers {
            "this rule makes integers, and the tensor holds floats"
        } else {
            "this distribution makes floats, and the tensor holds integers"
        };
        Err(raw.problem(message))
    };
    let fits = |largest: i64| {
        if largest <= high {
            return Ok(());
        }
        Err(scope.problem(raw, format!("values up to {largest} do not fit the type")))
    };
    let count = i64::try_from(elements).unwrap_or(i64::MAX);
    Ok(match &raw.value {
        RawFill::Normal { mean, std } => {
            wants(false)?;
            let deviation = scope.eval_number_or(std.as_ref(), 1.0)?;
            if let Some(std) = std.as_ref().filter(|_| deviation.0 < 0.0) {
                return Err(scope.problem(std, "a standard deviation cannot be negative"));
            }
            Fill::Normal {
                mean: scope.eval_number_or(mean.as_ref(), 0.0)?,
                std: deviation,
            }
        }
        RawFill::Uniform { low, high } => {
            wants(false)?;
            let (from, to) = (scope.eval_number(low)?, scope.eval_number(high)?);
            if from >= to {
                return Err(
                    scope.problem(high, format!("high is {to}; it must be above low, {from}"))
                );
            }
            Fill::Uniform {
                low: Num(from),
                high: Num(to),
            }
        }
        RawFill::Constant(value) => Fill::Constant {
            value: if floats {
                Num(scope.eval_number(value)?)
            } else {
                Num(scope.eval_integer_in(value, "the value", low..=high)? as f64)
            },
        },
        RawFill::Zeros => Fill::Constant { value: Num(0.0) },
        RawFill::Integers {
            low: from,
            high: to,
        } => {
            wants(true)?;
            let from = scope.eval_integer_in(from, "low", low..=high)?;
            Fill::Integers {
                low: from,
                high: scope.eval_integer_in(to, "high", from..=high)?,
            }
        }
        RawFill::Iota => {
            wants(true)?;
            fits(count - 1)?;
            Fill::Iota
        }
        RawFill::Permutation => {
            wants(true)?;
            fits(count - 1)?;
            Fill::Permutation
        }
        RawFill::Offsets { total, min } => {
            wants(true)?;
            let sum = scope.eval_integer_in(total, "the total", 0..=high)?;
            let min = match min {
                Some(min) => scope.eval_integer_in(min, "the shortest", 0..=high)?,
                None => 0,
            };
            if min.checked_mul(count - 1).is_none_or(|least| least > sum) {
                return Err(scope.problem(
                    total,
                    format!(
                        "{} sequences of at least {min} do not fit into a total of {sum}",
                        count - 1
                    ),
                ));
            }
            Fill::Offsets { total: sum, min }
        }
        RawFill::BlockTable { pool } => {
            wants(true)?;
            let size = scope.eval_integer_in(pool, "the pool", 1..=i64::MAX)?;
            fits(size - 1)?;
            if size < count {
                return Err(scope.problem(
                    pool,
                    format!("a pool of {size} does not have {count} distinct indices"),
                ));
            }
            Fill::BlockTable { pool: size }
        }
        RawFill::Values(values) => {
            if values.len() as u64 != elements {
                return Err(scope.problem(
                    raw,
                    format!("{} values for {elements} elements", values.len()),
                ));
            }
            let value = |value: &Spanned<Formula>| {
                if floats {
                    return scope.eval_number(value).map(Num);
                }
                scope
                    .eval_integer_in(value, "the value", low..=high)
                    .map(|value| Num(value as f64))
            };
            Fill::Values {
                values: values.iter().map(value).collect::<Result<_, _>>()?,
            }
        }
    })
}
