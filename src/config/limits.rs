//! Limits and conditions as people write them.
//!
//! `128`, `48KiB`, `1.5ms`, `25%`, `+2%`, `<= 0.90 * stage1.p50`. A bare value is the worst one allowed: at
//! most, or at least where more is better. What can only be a slip is refused rather than obeyed: a limit
//! in the wrong direction (a worse kernel would pass and a better one fail), a time without its unit, a
//! limit that nothing can break. Conditions can say anything.

use super::scope::{self, Scope};
use super::yaml::{Problem, Spot, did_you_mean};
use crate::counters::can_be_gated;
use std::collections::BTreeMap;
use verdict::expr::{Expression, Kind, Name, Unit, unit};
use verdict::judge::words;
use verdict::model::{Bound, Expr, Facet, Limit, Measure, Metric, Num, Op, Since};

/// What a limit belongs to, and what it may refer to.
pub struct Context<'a> {
    pub scope: &'a Scope<'a>,
    /// One limit for all shapes: only resources, and no dimensions.
    pub unit: bool,
    pub variant: &'a str,
    pub variants: &'a [&'a str],
    pub dims: &'a [&'a str],
    pub has_codec: bool,
    pub launcher: bool,
}

pub fn limit(spot: &Spot<String>, metric: Metric, context: &Context<'_>) -> Result<Limit, Problem> {
    context.measured(spot, metric)?;
    let text = spot.trim();
    let (change, _) = of_what(text);
    if change.starts_with('+') || (change.starts_with('-') && change.ends_with('%')) {
        return relative(spot, text, metric);
    }
    let symbols = [
        ("<=", Op::Le),
        (">=", Op::Ge),
        ("==", Op::Eq),
        ("<", Op::Lt),
        (">", Op::Gt),
    ];
    let better = if metric.larger_is_better() {
        Op::Ge
    } else {
        Op::Le
    };
    let (op, rest) = symbols
        .iter()
        .find_map(|(symbol, op)| {
            text.strip_prefix(symbol)
                .map(|rest| (*op, rest.trim_start()))
        })
        .unwrap_or((better, text));
    let wrong = match op {
        Op::Eq => false,
        Op::Le | Op::Lt => metric.larger_is_better(),
        Op::Ge | Op::Gt => !metric.larger_is_better(),
    };
    if wrong {
        return Err(Problem::new(
            spot.at,
            format!("`{op}` would pass a worse {metric} and fail a better one"),
        )
        .help(format!(
            "write `{better} {rest}`, or say it under `conditions`"
        )));
    }
    let problem = |message: String| Problem::new(spot.at, message).offset(offset(spot, rest));
    if let Some(number) = rest.strip_suffix('%') {
        let share = number
            .parse()
            .ok()
            .filter(|share: &f64| share.is_finite() && scope::suffix(number) == Some(""))
            .ok_or_else(|| problem(format!("`{rest}` is not a share: write 25%")))?;
        if metric.measure() != Measure::Share {
            return Err(problem(format!("{rest} of what?"))
                .help(format!("against the baseline it is `+{rest}`")));
        }
        return absolute(spot, metric, op, share / 100.0);
    }
    let expression =
        scope::parse(spot, rest).map_err(|problem| problem.offset(offset(spot, rest)))?;
    if expression.kind() == Kind::Truth {
        return Err(problem(format!("`{rest}` is a condition, not a limit"))
            .help("conditions stand in a list of their own: conditions: [...]"));
    }
    let (metrics, constants) = context.names(spot, &expression)?;
    if metrics
        .iter()
        .any(|found| matches!(found, Named::Own(own) if *own == metric))
    {
        return Err(problem(format!(
            "a limit on {metric} that refers to {metric}"
        )));
    }
    let times = metrics.iter().find(|found| {
        let (Named::Own(metric) | Named::Sibling(metric)) = found;
        metric.facet() == Facet::Times
    });
    if let (Some(Named::Own(time) | Named::Sibling(time)), Facet::Correctness) =
        (times, metric.facet())
    {
        return Err(problem(format!(
            "a limit on {metric} cannot depend on {time}: what is wrong is never timed"
        )));
    }
    if !metrics.is_empty() {
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
        .map_err(|error| context.scope.explain(spot, &error))?;
    absolute(spot, metric, op, value)
}

/// Characters before `part` in the scalar.
fn offset(spot: &Spot<String>, part: &str) -> usize {
    spot.find(part)
        .and_then(|bytes| spot.get(..bytes))
        .map_or(0, |before| before.chars().count())
}

/// The revision that `run --base` names.
const BASE: &str = "base";

/// The best level that the baselines kept up.
const BEST: &str = "best";

/// `+2%` and what that is of: `+0.5% of base`, `+5% of v1.0`.
fn of_what(text: &str) -> (&str, Option<&str>) {
    match text.split_once("of ") {
        Some((change, of)) => (change.trim_end(), Some(of.trim())),
        None => (text, None),
    }
}

/// `2.5` of `+2.5%`: one sign, a number, and the unit.
fn share(text: &str, sign: char) -> Option<f64> {
    let number = text.strip_prefix(sign)?.strip_suffix('%')?;
    let share: f64 = number
        .starts_with(|c: char| c.is_ascii_digit() || c == '.')
        .then(|| number.parse().ok())??;
    (0.0..=1000.0).contains(&share).then_some(share)
}

fn relative(spot: &Spot<String>, text: &str, metric: Metric) -> Result<Limit, Problem> {
    let (worse, better) = if metric.larger_is_better() {
        ('-', '+')
    } else {
        ('+', '-')
    };
    let (text, of) = of_what(text);
    let of_base = of == Some(BASE);
    // Against the base it is a difference of shares, in points.
    if !metric.has_relative() && !of_base {
        return Err(Problem::new(spot.at, words::no_relative(metric))
            .help("write the share that is allowed: `10%`, or `+5% of base`: five points more than beside it"));
    }
    if let Some(revision) = of {
        let is_name = !revision.is_empty()
            && !revision.starts_with('-')
            && revision
                .chars()
                .all(|c| !c.is_whitespace() && !c.is_control());
        if !is_name {
            return Err(
                Problem::new(spot.at, format!("`{revision}` is no revision")).help(format!(
                    "`{text} of {BASE}`, or of a tag, as in `{text} of v1.0`"
                )),
            );
        }
    }
    if of == Some(BEST) && metric.facet() != Facet::Times {
        return Err(Problem::new(
            spot.at,
            format!("{metric} is no time, and only of times the best level is kept"),
        )
        .help(format!("against the baseline it is `{text}`")));
    }
    if of_base && metric.facet() != Facet::Times {
        return Err(Problem::new(
            spot.at,
            format!("{metric} is no time, and only times are measured beside the base revision"),
        )
        .help(format!("against the baseline it is `{text}`")));
    }
    if text.starts_with(better) {
        return Err(Problem::new(
            spot.at,
            format!("`{text}` asks {metric} to be better than its baseline"),
        )
        .help(format!("how much worse may it be? `{worse}2%`")));
    }
    match share(text, worse) {
        Some(share) => {
            let change = Num(share / 100.0);
            Ok(match of {
                None => Limit::Baseline { change },
                Some(BASE) => Limit::Base { change },
                Some(BEST) => Limit::Anchor {
                    anchor: Since::Best,
                    change,
                },
                Some(revision) => Limit::Anchor {
                    anchor: Since::Revision(revision.to_owned()),
                    change,
                },
            })
        }
        None => Err(Problem::new(
            spot.at,
            format!("`{text}` is not a change: write `{worse}2%`"),
        )),
    }
}

/// How much more than its baseline any counter may be.
pub fn counters(spot: &Spot<String>) -> Result<Num, Problem> {
    let text = spot.trim();
    match share(text, '+') {
        Some(share) => Ok(Num(share / 100.0)),
        None => Err(
            Problem::new(spot.at, format!("`{text}` is not a change: write `+0%`")).help(
                "`counters` holds all of them against their baselines; a limit on one stands under its own name",
            ),
        ),
    }
}

/// Literals carry the unit of their metric; expressions are in ns and bytes.
fn check_unit(spot: &Spot<String>, text: &str, metric: Metric) -> Result<(), Problem> {
    let Some(suffix) = scope::suffix(text) else {
        return Ok(());
    };
    let problem = |message: String| Problem::new(spot.at, message).offset(offset(spot, text));
    match (unit(suffix).map(|(unit, _)| unit), metric.measure()) {
        (None, Measure::Nanoseconds) => Err(problem(format!("{text} of which unit?"))
            .help(format!("{text}us, {text}ms or {text}ns"))),
        (None, _)
        | (Some(Unit::Bytes), Measure::Bytes)
        | (Some(Unit::Nanoseconds), Measure::Nanoseconds) => Ok(()),
        (Some(unit), _) => {
            let counts = match unit {
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "time",
            };
            Err(problem(format!(
                "`{suffix}` counts {counts}, and {metric} does not"
            )))
        }
    }
}

fn absolute(spot: &Spot<String>, metric: Metric, op: Op, value: f64) -> Result<Limit, Problem> {
    let nonsense = match metric {
        _ if value < 0.0 => Some("no limit is negative"),
        // The instruction set has 255 registers for a thread.
        Metric::Registers if value > 255.0 => Some("no kernel takes more than 255 registers"),
        Metric::Occupancy if value > 1.0 => Some("occupancy is a share: write 25% or 0.25"),
        Metric::Occupancy | Metric::BlocksPerSm if value == 0.0 => Some("this always holds"),
        Metric::OverTolerance if value >= 1.0 => Some("this always holds"),
        _ if metric.facet() == Facet::Times && value == 0.0 => Some("no time is 0"),
        _ => None,
    };
    match nonsense {
        Some(reason) => Err(Problem::new(spot.at, format!("`{}`: {reason}", spot.value))),
        None => Ok(Limit::Absolute {
            op,
            bound: Bound::Value(Num(value)),
        }),
    }
}

/// A condition and the metrics that it joins.
pub fn condition(spot: &Spot<String>, context: &Context<'_>) -> Result<Expr, Problem> {
    let expression = scope::parse(spot, spot)?;
    if expression.kind() == Kind::Number {
        return Err(
            Problem::new(spot.at, format!("`{}` is no condition", spot.value))
                .help("compare it with something: registers <= 64 || occupancy >= 0.5"),
        );
    }
    let (metrics, constants) = context.names(spot, &expression)?;
    if metrics.is_empty() {
        return Err(
            Problem::new(spot.at, format!("`{}` refers to no metric", spot.value))
                .help(metric_like("", &[])),
        );
    }
    Ok(Expr {
        text: spot.trim().to_owned(),
        constants,
    })
}

/// Whether all that a condition refers to belongs to a unit.
pub fn is_about_resources(text: &str, dims: &[&str]) -> bool {
    let resource = |name: &str| {
        Metric::from_name(name).is_none_or(|metric| metric.facet() == Facet::Resources)
    };
    Expression::parse(text).is_ok_and(|expression| {
        expression.names().iter().all(|name| match name {
            Name::Plain(name) => resource(name) && !dims.contains(&name.as_str()),
            Name::Dotted(_, name) => resource(name),
        })
    })
}

/// Times that an expression refers to: the variant, or `None` for its own.
pub fn times(text: &str) -> Vec<Option<String>> {
    let is_time =
        |name: &str| Metric::from_name(name).is_some_and(|metric| metric.facet() == Facet::Times);
    let Ok(expression) = Expression::parse(text) else {
        return Vec::new();
    };
    expression
        .names()
        .iter()
        .filter_map(|name| match name {
            Name::Plain(name) if is_time(name) => Some(None),
            Name::Dotted(variant, name) if is_time(name) => Some(Some(variant.clone())),
            Name::Plain(_) | Name::Dotted(..) => None,
        })
        .collect()
}

/// What a name that is no metric may have been meant to be: one like it, else all, but for the counters,
/// which docs/gates.md lists.
pub fn metric_like(name: &str, others: &[&str]) -> String {
    let others = others.iter().copied();
    let all = Metric::ALL.iter().map(|metric| metric.name());
    let like = did_you_mean(name, all.chain(others.clone()));
    if like.starts_with("did") {
        return like;
    }
    let metrics = Metric::ALL
        .iter()
        .filter(|metric| metric.facet() != Facet::Counters);
    did_you_mean(name, metrics.map(|metric| metric.name()).chain(others))
}

/// A metric that an expression refers to.
enum Named {
    Own(Metric),
    Sibling(Metric),
}

impl Context<'_> {
    /// Refuses what no evidence will ever be for.
    fn measured(&self, spot: &Spot<String>, metric: Metric) -> Result<(), Problem> {
        if self.unit && metric.facet() != Facet::Resources {
            return Err(Problem::new(
                spot.at,
                format!("a limit on resources cannot depend on {metric}"),
            )
            .help("say it under `conditions`"));
        }
        match metric {
            Metric::OriginalMaxErr
            | Metric::OriginalMeanErr
            | Metric::CodecMaxErr
            | Metric::CodecMeanErr
                if !self.has_codec =>
            {
                Err(Problem::new(
                    spot.at,
                    format!("no tensor has a codec, so there is no {metric}"),
                ))
            }
            Metric::Counter(_) if self.launcher => Err(Problem::new(
                spot.at,
                format!("a launcher is not simulated, so {metric} is not known"),
            )),
            Metric::Counter(counter) if !can_be_gated(counter) => Err(Problem::new(
                spot.at,
                format!("{counter} is for information and cannot be gated"),
            )
            .help(
                "no GPU's own counter has confirmed how the simulator counts it (crates/ptxsim says which are)",
            )),
            Metric::Occupancy | Metric::BlocksPerSm if self.launcher => Err(Problem::new(
                spot.at,
                format!("a launcher chooses its own blocks, so {metric} is not known"),
            )),
            _ => Ok(()),
        }
    }

    /// Metrics that the expression refers to, and the values of everything else.
    fn names(
        &self,
        spot: &Spot<String>,
        expression: &Expression,
    ) -> Result<(Vec<Named>, BTreeMap<String, Num>), Problem> {
        let mut metrics = Vec::new();
        let mut constants = BTreeMap::new();
        for name in expression.names() {
            match name {
                Name::Plain(text) => {
                    if let Some(metric) = Metric::from_name(text) {
                        self.measured(spot, metric)?;
                        metrics.push(Named::Own(metric));
                    } else if let Some(value) = self.scope.env().get(name) {
                        constants.insert(text.clone(), Num(value.as_f64()));
                    } else {
                        return Err(self.unknown(spot, name));
                    }
                }
                Name::Dotted(variant, text) => {
                    if !self.variants.contains(&variant.as_str()) {
                        return Err(Problem::new(
                            spot.at,
                            format!("there is no variant `{variant}`"),
                        )
                        .help(did_you_mean(variant, self.variants.iter().copied())));
                    }
                    if variant == self.variant {
                        return Err(Problem::new(
                            spot.at,
                            format!("variant `{variant}` is compared with itself"),
                        )
                        .help("put the limit under `gates` of the variants that it is for"));
                    }
                    let metric = Metric::from_name(text).ok_or_else(|| {
                        Problem::new(spot.at, format!("there is no metric `{text}`"))
                            .help(metric_like(text, &[]))
                    })?;
                    self.measured(spot, metric)?;
                    metrics.push(Named::Sibling(metric));
                }
            }
        }
        Ok((metrics, constants))
    }

    fn unknown(&self, spot: &Spot<String>, name: &Name) -> Problem {
        let text = name.to_string();
        if self.unit && self.dims.contains(&text.as_str()) {
            return Problem::new(
                spot.at,
                format!(
                    "resources have one limit for all shapes, and `{text}` depends on the shape"
                ),
            );
        }
        let like = metric_like(&text, self.dims);
        if like.starts_with("did") {
            return Problem::new(
                spot.at,
                format!("`{text}` is no metric, dimension or macro"),
            )
            .help(like);
        }
        self.scope.unknown(spot, name)
    }
}
