//! Reads one limit as people write it: `128`, `48KiB`, `1.5ms`, `25%`, `+2%`, `+2`, `<= 0.90 * stage1.p50`.
//!
//! A bare value is the worst that is allowed: an upper bound, or a lower bound if more is better. A value that can only
//! be a mistake is refused: a limit in the wrong direction (a worse kernel would pass and a better one fail), a time
//! without its unit, a limit that nothing can break. Conditions may say anything.

use super::context::{Context, Reference};
use super::scope::{self, Scope};
use super::yaml::{Mistake, Spanned};
use model::expr::{Unit, ValueKind, unit};
use model::{Bound, Expr, Facet, Limit, Margin, Measure, Metric, Num, Op, Rule, Since};
use std::collections::BTreeMap;

/// A limit of a program: on its kernels, its launches, or their outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramLimit {
    /// A limit on a metric, of resources or times.
    pub rule: Rule,
    pub declared: String,
}

impl ProgramLimit {
    /// Returns true if the limit is for a kernel and not for each of its launches.
    pub fn is_of_kernels(&self) -> bool {
        let metric = self.rule.metric();
        metric.is_some_and(|metric| metric.facet() == Facet::Resources)
    }
}

/// Reads a limit where neither dimensions nor macros exist. Returns `None` if its bound is an expression. `adapt` sets
/// in the context what the limit is on.
pub fn read_plain_limit(
    text: &Spanned<String>,
    metric: Metric,
    adapt: impl FnOnce(&mut Context),
) -> Result<Option<Limit>, Mistake> {
    let nothing = BTreeMap::new();
    let nowhere = BTreeMap::new();
    let scope = Scope::new("", &nowhere, &nothing);
    let mut context = Context::for_units(&scope);
    adapt(&mut context);
    Ok(match read_limit(text, metric, &context)? {
        Limit::Absolute {
            bound: Bound::Expr(_),
            ..
        } => None,
        limit => Some(limit),
    })
}

/// Reads the limit for a metric: `+2%` of something, `128`, `<= 48KiB`, `25%`, or an expression.
pub fn read_limit(
    spot: &Spanned<String>,
    metric: Metric,
    context: &Context<'_>,
) -> Result<Limit, Mistake> {
    context.check_measured(spot, metric)?;
    if let Some((amount, of)) = split_change(spot.trim(), metric) {
        return read_change(spot, amount, of, metric);
    }
    let (op, rest) = split_operator(spot.trim(), metric);
    check_direction(spot, op, rest, metric)?;
    let problem = |message: String| spot.problem(message).offset(offset(spot, rest));
    if let Some(number) = rest.strip_suffix('%') {
        let share = read_share(spot, (rest, number), metric)?;
        return check_breakable(spot, metric, op, share);
    }
    let expression = scope::parse_expression(spot, rest)
        .map_err(|problem| problem.offset(offset(spot, rest)))?;
    if expression.kind() == ValueKind::Truth {
        return Err(problem(format!("`{rest}` is a condition, not a limit"))
            .help("put it into the list of conditions: conditions: [...]"));
    }
    let (references, constants) = context.resolve_names(spot, &expression)?;
    if references.contains(&Reference::Own(metric)) {
        return Err(problem(format!(
            "the limit on {metric} refers to {metric} itself"
        )));
    }
    let later = references
        .iter()
        .map(Reference::metric)
        .find(|metric| matches!(metric.facet(), Facet::Times | Facet::Profile));
    if let (Some(later), Facet::Correctness) = (later, metric.facet()) {
        return Err(problem(format!(
            "a limit on {metric} cannot depend on {later}: a kernel that is wrong is never {}",
            match later.facet() {
                Facet::Profile => "profiled",
                _ => "timed",
            }
        )));
    }
    if !references.is_empty() {
        return Ok(Limit::Absolute {
            op,
            bound: Bound::Expr(Expr {
                text: rest.to_owned(),
                constants,
            }),
        });
    }
    check_unit(spot, rest, metric)?;
    let value = expression
        .number(context.scope.env())
        .map_err(|error| context.scope.explain_error(spot, &error))?;
    check_breakable(spot, metric, op, value)
}

/// Splits a change into its margin and the value that it refers to, such as `+0.5% of base` or `+5% of v1.0`. Returns
/// `None` if the text is no change.
fn split_change(text: &str, metric: Metric) -> Option<(&str, Option<&str>)> {
    let (amount, of) = match text.split_once("of ") {
        Some((amount, of)) => (amount.trim_end(), Some(of.trim())),
        None => (text, None),
    };
    // `-1` cannot be a bound, because no value is negative.
    let is_fewer = || amount.ends_with('%') || metric.larger_is_better() && metric.has_amounts();
    let is_change = amount.starts_with('+') || amount.starts_with('-') && is_fewer();
    is_change.then_some((amount, of))
}

fn read_change(
    spot: &Spanned<String>,
    amount: &str,
    of: Option<&str>,
    metric: Metric,
) -> Result<Limit, Mistake> {
    let problem = |message: String| spot.problem(message);
    // Compared with the base, it is a difference of shares in points.
    if !metric.has_relative() && of != Some("base") {
        return Err(problem(format!(
            "{metric} is mostly 0, so a limit relative to it means nothing"
        ))
        .help("write the largest share allowed: `10%`, or `+5% of base` for five points more than at the base"));
    }
    let (worse, better) = if metric.larger_is_better() {
        ('-', '+')
    } else {
        ('+', '-')
    };
    let is_time = metric.facet() == Facet::Times;
    match of {
        Some(name) if !is_revision(name) => {
            return Err(problem(format!("`{name}` is not a revision")).help(format!(
                "write `{amount} of base`, or name a tag: `{amount} of v1.0`"
            )));
        }
        Some(name @ ("best" | "base")) if !is_time => {
            return Err(problem(format!(
                "`of {name}` is for times only, and {metric} is not a time"
            ))
            .help(format!("write `{amount}` to compare with the baseline")));
        }
        _ => {}
    }
    if amount.starts_with(better) {
        return Err(problem(format!(
            "`{amount}` would require {metric} to be better than its baseline"
        ))
        .help(format!("write how much worse it may be: `{worse}2%`")));
    }
    let change = parse_margin(amount, metric).ok_or_else(|| {
        let or_amount = if metric.has_amounts() {
            format!(", or `{worse}2` for as many")
        } else {
            String::new()
        };
        problem(format!(
            "`{amount}` is not a relative limit: write `{worse}2%`{or_amount}"
        ))
    })?;
    Ok(match (of, change) {
        (None, _) => Limit::Baseline { change },
        (Some("base"), Margin::Share(change)) => Limit::Base { change },
        (Some("best"), _) => Limit::Anchor {
            anchor: Since::Best,
            change,
        },
        (Some(revision), _) => Limit::Anchor {
            anchor: Since::Revision(revision.to_owned()),
            change,
        },
    })
}

/// Parses `+2.5%`, or `+2` for a metric that is a whole number. The sign is `-` if more is better.
pub fn parse_margin(text: &str, metric: Metric) -> Option<Margin> {
    let sign = if metric.larger_is_better() { '-' } else { '+' };
    let number = text.strip_prefix(sign)?;
    if !metric.has_amounts() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_change(text, sign).map(Margin::Share);
    }
    let amount = number.parse().ok()?;
    (amount <= MOST_AMOUNT).then_some(Margin::Amount { amount })
}

/// The largest amount. Values are floating-point numbers, which have all integers up to this one.
const MOST_AMOUNT: u64 = 1 << 53;

/// Returns 0.025 for `+2.5%`: one sign, a number, and the unit.
pub fn parse_change(text: &str, sign: char) -> Option<Num> {
    let number = text.strip_prefix(sign)?.strip_suffix('%')?;
    let percent: f64 = number
        .starts_with(|c: char| c.is_ascii_digit() || c == '.')
        .then(|| number.parse().ok())??;
    (0.0..=1000.0)
        .contains(&percent)
        .then_some(Num(percent / 100.0))
}

/// Returns true if git can be given this name. It must not look like an option.
fn is_revision(name: &str) -> bool {
    let fits = |c: char| !c.is_whitespace() && !c.is_control();
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
}

/// Reads how far any counter may be above its baseline.
pub fn read_counters(spot: &Spanned<String>) -> Result<Num, Mistake> {
    let text = spot.trim();
    parse_change(text, '+').ok_or_else(|| {
        spot.problem(format!("`{text}` is not a relative limit: write `+0%`")).help(
            "`counters` compares all counters with their baselines; put a limit on one of them under its own name",
        )
    })
}

/// Reads 0.25 from `25%`, given as the text and its number.
fn read_share(
    spot: &Spanned<String>,
    (rest, number): (&str, &str),
    metric: Metric,
) -> Result<f64, Mistake> {
    let problem = |message: String| spot.problem(message).offset(offset(spot, rest));
    let percent: f64 = number
        .parse()
        .ok()
        .filter(|percent: &f64| percent.is_finite() && scope::unit_suffix(number) == Some(""))
        .ok_or_else(|| problem(format!("`{rest}` is not a share: write 25%")))?;
    if metric.measure() != Measure::Share {
        return Err(problem(format!("{rest} of what?"))
            .help(format!("write `+{rest}` to compare with the baseline")));
    }
    Ok(percent / 100.0)
}

fn split_operator(text: &str, metric: Metric) -> (Op, &str) {
    let operators = [
        ("<=", Op::Le),
        (">=", Op::Ge),
        ("==", Op::Eq),
        ("<", Op::Lt),
        (">", Op::Gt),
    ];
    operators
        .into_iter()
        .find_map(|(symbol, op)| Some((op, text.strip_prefix(symbol)?.trim_start())))
        .unwrap_or((default_operator(metric), text))
}

/// Returns `<=`, or `>=` if more is better.
fn default_operator(metric: Metric) -> Op {
    if metric.larger_is_better() {
        Op::Ge
    } else {
        Op::Le
    }
}

fn check_direction(
    spot: &Spanned<String>,
    op: Op,
    bound: &str,
    metric: Metric,
) -> Result<(), Mistake> {
    let is_wrong = match op {
        Op::Eq => false,
        Op::Le | Op::Lt => metric.larger_is_better(),
        Op::Ge | Op::Gt => !metric.larger_is_better(),
    };
    if !is_wrong {
        return Ok(());
    }
    let right = default_operator(metric);
    Err(spot
        .problem(format!(
            "`{op} {bound}` is the wrong way round for {metric}: a worse kernel would pass"
        ))
        .help(format!(
            "write `{right} {bound}`, or put it under `conditions`"
        )))
}

/// Returns the number of characters before `part` in the scalar.
fn offset(spot: &Spanned<String>, part: &str) -> usize {
    spot.find(part)
        .and_then(|bytes| spot.get(..bytes))
        .map_or(0, |before| before.chars().count())
}

/// Checks units: literals carry the unit of their metric, and expressions are in ns and bytes.
fn check_unit(spot: &Spanned<String>, text: &str, metric: Metric) -> Result<(), Mistake> {
    let Some(suffix) = scope::unit_suffix(text) else {
        return Ok(());
    };
    let problem = |message: String| spot.problem(message).offset(offset(spot, text));
    match (unit(suffix).map(|(unit, _)| unit), metric.measure()) {
        (None, Measure::Nanoseconds) => Err(problem(format!("`{text}` has no unit"))
            .help(format!("write {text}us, {text}ms or {text}ns"))),
        (None, _)
        | (Some(Unit::Bytes), Measure::Bytes)
        | (Some(Unit::Nanoseconds), Measure::Nanoseconds) => Ok(()),
        (Some(unit), _) => {
            let counts = match unit {
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "time",
            };
            Err(problem(format!(
                "`{suffix}` is a unit of {counts}, and {metric} is not measured in it"
            )))
        }
    }
}

/// Returns the limit if some kernel can break it and another can hold it.
fn check_breakable(
    spot: &Spanned<String>,
    metric: Metric,
    op: Op,
    value: f64,
) -> Result<Limit, Mistake> {
    let nonsense = match metric {
        _ if value < 0.0 => Some("a limit cannot be negative"),
        // The instruction set has at most 255 registers for a thread.
        Metric::Registers if value > 255.0 => Some("a thread has at most 255 registers"),
        Metric::Occupancy if value > 1.0 => Some("occupancy is a share: write 25% or 0.25"),
        Metric::Occupancy | Metric::BlocksPerSm if value == 0.0 => Some("every kernel passes this"),
        Metric::OverTolerance if value >= 1.0 => Some("every kernel passes this"),
        Metric::Profile(of) if of.is_share() && value > 1.0 => {
            Some("it is a share: write 50% or 0.5")
        }
        Metric::Profile(_) if metric.larger_is_better() && value == 0.0 => {
            Some("every kernel passes this")
        }
        _ if metric.facet() == Facet::Times && value == 0.0 => Some("every kernel fails this"),
        _ => None,
    };
    match nonsense {
        Some(reason) => Err(spot.problem(format!("`{spot}`: {reason}"))),
        None => Ok(Limit::Absolute {
            op,
            bound: Bound::Value(Num(value)),
        }),
    }
}
