//! Resolves how a tensor, or a field of its structs, is filled with values.

use super::raw::{Formula, RawFill, RawSpecial};
use super::scope::Scope;
use super::yaml::{Mistake, Position, Spanned};
use model::{ElemType, Fill, Num, Special, SpecialShares};

/// The values of a fill, as they are drawn.
#[derive(Clone, Copy)]
pub struct Drawn {
    pub elem: ElemType,
    /// True if values are drawn as floats, whether they are stored as floats or as codes.
    pub floats: bool,
    pub is_coded: bool,
    pub elements: u64,
    /// The extent of the last dimension.
    pub width: u64,
}

impl Drawn {
    /// Returns the largest integer up to which the type holds all integers.
    fn largest_integer(self) -> i64 {
        match (self.elem, self.floats) {
            (elem, false) => elem.range().map_or(i64::MAX, |(_, high)| high),
            (ElemType::F16, _) if !self.is_coded => 1 << 11,
            (ElemType::Bf16, _) if !self.is_coded => 1 << 8,
            (ElemType::E4m3, _) if !self.is_coded => 1 << 4,
            (ElemType::E5m2, _) if !self.is_coded => 1 << 3,
            // Floats are drawn as f32.
            _ => 1 << 24,
        }
    }
}

pub fn resolve_fill_of_input(
    name: &Spanned<String>,
    at: Position,
    fill: Option<&Spanned<RawFill>>,
    drawn: Drawn,
    scope: &Scope<'_>,
) -> Result<Fill, Mistake> {
    match fill {
        Some(fill) => resolve_fill(fill, drawn, scope),
        None if drawn.floats => Ok(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
            special: SpecialShares::new(),
        }),
        None => Err(Mistake::new(
            at,
            format!("`{name}` holds integers and needs a `fill`"),
        )
        .help("fill: {integers: {low: 0, high: 9}}, iota, permutation, offsets, block_table or values")),
    }
}

/// Checks the fill of a scratch buffer. The caller prepares such a buffer, so its content cannot depend on a seed. A
/// buffer with random content is an input.
pub fn check_fill_of_scratch(
    name: &Spanned<String>,
    fill: &Spanned<RawFill>,
) -> Result<(), Mistake> {
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
) -> Result<Fill, Mistake> {
    let Drawn {
        elem,
        floats,
        elements,
        ..
    } = drawn;
    let (low, high) = match elem.range() {
        Some(range) if !floats => range,
        _ => (i64::MIN, i64::MAX),
    };
    let largest_integer = drawn.largest_integer();
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
        if largest <= largest_integer {
            return Ok(());
        }
        Err(scope.problem(raw, format!("values up to {largest} do not fit the type: {elem} holds all integers up to {largest_integer}")))
    };
    let value = |formula: &Spanned<Formula>| {
        if let Some((special, kind)) = special_number(formula) {
            return check_holds(formula, kind, drawn).map(|()| Num(special));
        }
        if floats {
            return scope.eval_number(formula).map(Num);
        }
        scope
            .eval_integer_in(formula, "the value", low..=high)
            .map(|integer| Num(integer as f64))
    };
    let special = |special: &Option<Spanned<RawSpecial>>| {
        let resolve = |special| resolve_special(special, drawn, scope);
        special.as_ref().map_or(Ok(SpecialShares::new()), resolve)
    };
    let count = i64::try_from(elements).unwrap_or(i64::MAX);
    Ok(match &raw.value {
        RawFill::Normal {
            mean,
            std,
            special: shares,
        } => {
            wants(false)?;
            let deviation = scope.eval_number_or(std.as_ref(), 1.0)?;
            if let Some(std) = std.as_ref().filter(|_| deviation.0 < 0.0) {
                return Err(scope.problem(std, "a standard deviation cannot be negative"));
            }
            Fill::Normal {
                mean: scope.eval_number_or(mean.as_ref(), 0.0)?,
                std: deviation,
                special: special(shares)?,
            }
        }
        RawFill::Uniform {
            low,
            high,
            special: shares,
        } => {
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
                special: special(shares)?,
            }
        }
        RawFill::Constant(formula) => Fill::Constant {
            value: value(formula)?,
        },
        RawFill::Zeros => Fill::Constant { value: Num(0.0) },
        RawFill::Integers {
            low: from,
            high: to,
            special: shares,
        } => {
            let least = if floats { -largest_integer } else { low };
            let from = scope.eval_integer_in(from, "low", least..=largest_integer)?;
            Fill::Integers {
                low: from,
                high: scope.eval_integer_in(to, "high", from..=largest_integer)?,
                special: special(shares)?,
            }
        }
        RawFill::Iota => {
            fits(count - 1)?;
            Fill::Iota
        }
        RawFill::Permutation => {
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
            Fill::Values {
                values: values.iter().map(value).collect::<Result<_, _>>()?,
            }
        }
    })
}

/// Reads numbers that no expression can write, in YAML's form.
fn special_number(formula: &Formula) -> Option<(f64, Special)> {
    match formula.0.to_ascii_lowercase().as_str() {
        ".inf" | "+.inf" => Some((f64::INFINITY, Special::Inf)),
        "-.inf" => Some((f64::NEG_INFINITY, Special::Inf)),
        ".nan" => Some((f64::NAN, Special::Nan)),
        _ => None,
    }
}

/// Refuses values that the elements cannot have.
fn check_holds<T>(at: &Spanned<T>, kind: Special, drawn: Drawn) -> Result<(), Mistake> {
    let Drawn { elem, floats, .. } = drawn;
    let is_of_floats = matches!(kind, Special::Inf | Special::Nan | Special::Denormal);
    let message = match kind {
        _ if is_of_floats && !floats => format!("{elem} has no `{kind}`: it holds integers"),
        _ if is_of_floats && drawn.is_coded => format!("a codec has no code for `{kind}`"),
        Special::Inf if elem.size() == 1 => {
            format!("{elem} has no `inf` here: larger values become its largest one")
        }
        Special::Denormal if elem == ElemType::F64 => {
            "f64 inputs hold f32 values, and none of these is denormal in f64".to_owned()
        }
        Special::Ties if drawn.width < 2 => {
            "`ties` are within a row, the last dimension, which has one element here".to_owned()
        }
        Special::EqualRows if drawn.elements < 2 * drawn.width => {
            "`equal_rows` needs two rows: a row is the last dimension".to_owned()
        }
        _ => return Ok(()),
    };
    Err(at.problem(message))
}

fn resolve_special(
    raw: &Spanned<RawSpecial>,
    drawn: Drawn,
    scope: &Scope<'_>,
) -> Result<SpecialShares, Mistake> {
    let written = [
        (Special::Inf, &raw.inf),
        (Special::Nan, &raw.nan),
        (Special::Denormal, &raw.denormal),
        (Special::Ties, &raw.ties),
        (Special::EqualRows, &raw.equal_rows),
    ];
    let mut shares = SpecialShares::new();
    for (kind, formula) in written {
        let Some(formula) = formula else { continue };
        let share = scope.eval_number(formula)?;
        if !(0.0..=1.0).contains(&share) {
            let message = format!("`{kind}` is {share}; a share is between 0 and 1");
            return Err(scope.problem(formula, message));
        }
        if share > 0.0 {
            check_holds(formula, kind, drawn)?;
            shares.insert(kind, Num(share));
        }
    }
    let elements = usize::try_from(drawn.elements).unwrap_or(usize::MAX);
    let replaced: usize = shares
        .iter()
        .filter(|(kind, _)| **kind != Special::EqualRows)
        .map(|(_, share)| Special::count(*share, elements))
        .sum();
    if replaced > elements {
        let message = format!("these shares are {replaced} of {elements} elements");
        return Err(scope.problem(raw, message));
    }
    Ok(shares)
}
