//! Resolves `tune`: which macros of a variant are searched, which configurations are valid, and what is minimised.

use super::expect;
use super::gates::expression;
use super::names::check_identifier;
use super::raw::{RawObjective, RawTune};
use super::scope::{self, Scope};
use super::shape::NamedShape;
use super::variant::KernelVariant;
use super::yaml::{Mistake, Position, Spanned, find_repeated, suggest};
use model::expr::{Env, ExprValue, Expression, Name, ValueKind};
use model::{Gate, Metric, Rule};
use search::{Parameter, Space};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use system::sources::Precompiled;

/// The most combinations that are examined whenever the file is read. A larger space is examined when it is searched.
const MOST_AT_ONCE: usize = 10_000;

const BUDGET: Budget = Budget::Evaluations(100);

/// The tuning space of one variant.
#[derive(Clone, Debug)]
pub struct Tune {
    pub kernel: String,
    pub variant: String,
    pub parameters: Vec<Parameter>,
    /// The position of each parameter in the file.
    pub(super) places: Vec<Position>,
    constraints: Vec<Constraint>,
    /// Integer macros of the variant that are no parameters.
    constants: Env,
    /// Shapes with their weights, whose sum is 1. The objective is the geometric mean of their p50.
    pub objective: Vec<(String, f64)>,
    pub budget: Budget,
    pub(super) at: Position,
}

#[derive(Clone, Debug)]
struct Constraint {
    text: Spanned<String>,
    expression: Expression,
}

/// The limit at which a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    Evaluations(usize),
    Time(Duration),
}

/// The error for a text that is no budget.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BadBudget {
    #[error("a budget of {0} tries nothing")]
    Nothing(String),
    #[error("`{0}` is no budget: write 200 evaluations, or a time such as 10min")]
    Unknown(String),
}

impl FromStr for Budget {
    type Err = BadBudget;

    fn from_str(text: &str) -> Result<Self, BadBudget> {
        let count = text
            .trim()
            .strip_suffix("evaluations")
            .or(text.trim().strip_suffix("evaluation"));
        let budget = match count.map(|count| count.trim().parse()) {
            Some(Ok(count)) => Some(Self::Evaluations(count)),
            Some(Err(_)) => None,
            None => humantime::parse_duration(text).ok().map(Self::Time),
        };
        match budget {
            Some(Self::Evaluations(0) | Self::Time(Duration::ZERO)) => {
                Err(BadBudget::Nothing(text.trim().to_owned()))
            }
            Some(budget) => Ok(budget),
            None => Err(BadBudget::Unknown(text.trim().to_owned())),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evaluations(1) => f.write_str("1 evaluation"),
            Self::Evaluations(count) => write!(f, "{count} evaluations"),
            Self::Time(time) => humantime::format_duration(*time).fmt(f),
        }
    }
}

/// Returns true if a gate applies to a configuration. It must be decidable from the configuration alone, without a
/// baseline, a base or another variant, and it must not be about time, because the search itself compares times.
pub fn is_asked(gate: &Gate) -> bool {
    let is_alone = |text: &str| {
        Expression::parse(text).is_ok_and(|expression| {
            expression
                .names()
                .iter()
                .all(|name| matches!(name, Name::Plain(_)))
        })
    };
    expect::is_asked(gate)
        && gate.rule != Rule::HasEffect
        && expression(&gate.rule).is_none_or(|expr| is_alone(&expr.text))
}

/// Resolves the space of one variant, if it has any. `shapes` are all shapes of the kernel.
pub fn resolve(kernel: &KernelVariant<'_>, shapes: &[NamedShape]) -> Result<Option<Tune>, Mistake> {
    let Some(raw) = kernel.tune else {
        return Ok(None);
    };
    let tune = read(kernel, raw, shapes)?;
    let count = tune
        .parameters
        .iter()
        .map(|parameter| parameter.values.len())
        .fold(1, usize::saturating_mul);
    if count <= MOST_AT_ONCE {
        tune.space()?;
    }
    Ok(Some(tune))
}

fn read(
    kernel: &KernelVariant<'_>,
    raw: &Spanned<RawTune>,
    shapes: &[NamedShape],
) -> Result<Tune, Mistake> {
    let source = &kernel.raw.source;
    if Precompiled::from_path(source).is_some() {
        return Err(raw.problem("the source is compiled already: a macro can change nothing in it"));
    }
    let (parameters, places) = read_parameters(kernel, raw, shapes)?;
    let is_parameter = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    let no_dims = BTreeMap::new();
    let mut constants = Scope::new("", &no_dims, &kernel.defines).env().clone();
    constants.retain(|name, _| !is_parameter(&name.to_string()));
    let known: Vec<String> = parameters
        .iter()
        .map(|parameter| parameter.name.clone())
        .chain(constants.keys().map(Name::to_string))
        .collect();
    let constraints = raw
        .constraints
        .iter()
        .map(|text| read_constraint(text, &known, shapes))
        .collect::<Result<_, _>>()?;
    let budget = match &raw.budget {
        None => BUDGET,
        Some(text) => text
            .parse()
            .map_err(|error: BadBudget| text.problem(error.to_string()))?,
    };
    Ok(Tune {
        kernel: kernel.kernel.to_owned(),
        variant: kernel.variant.to_owned(),
        objective: read_objective(&raw.objective, shapes)?,
        parameters,
        places,
        constraints,
        constants,
        budget,
        at: raw.parameters.at,
    })
}

fn read_parameters(
    kernel: &KernelVariant<'_>,
    raw: &Spanned<RawTune>,
    shapes: &[NamedShape],
) -> Result<(Vec<Parameter>, Vec<Position>), Mistake> {
    if raw.parameters.is_empty() {
        return Err(raw
            .parameters
            .problem("no parameters: nothing can be tuned")
            .help("name macros and their values: parameters: {BLOCK_M: [32, 64, 128]}"));
    }
    let is_dim = |name: &str| {
        shapes
            .first()
            .is_some_and(|shape| shape.dims.contains_key(name))
    };
    let mut parameters = Vec::new();
    let mut places = Vec::new();
    for (name, values) in raw.parameters.iter() {
        check_identifier(name, "macro")?;
        let clash = match Metric::from_name(name) {
            Some(_) => Some("a metric"),
            None => is_dim(name).then_some("a dimension, which is the same for all configurations"),
        };
        if let Some(clash) = clash {
            let message = format!("`{name}` is already {clash}");
            return Err(name.problem(message));
        }
        if let Some(written) = kernel.defines.get(name.as_str())
            && written.parse::<i64>().is_err()
        {
            return Err(name.problem(format!(
                "the macro `{name}` is `{written}` here, which is no integer"
            )));
        }
        if values.is_empty() {
            return Err(values.problem(format!("`{name}` has no values")));
        }
        if let Some(value) = find_repeated(values) {
            return Err(value.problem(format!("duplicate value {value}")));
        }
        places.push(name.at);
        parameters.push(Parameter {
            name: name.value.clone(),
            values: values.iter().map(|value| value.value).collect(),
        });
    }
    Ok((parameters, places))
}

fn read_constraint(
    text: &Spanned<String>,
    known: &[String],
    shapes: &[NamedShape],
) -> Result<Constraint, Mistake> {
    let expression = scope::parse_expression(text, text)?;
    let problem = |message: String| text.problem(message);
    if expression.kind() == ValueKind::Number {
        return Err(problem(format!("`{text}` is not a condition"))
            .help("compare it with something: BLOCK_M / NUM_WARPS >= 8"));
    }
    let names: Vec<String> = expression.names().iter().map(Name::to_string).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let is_dim = shapes
            .first()
            .is_some_and(|shape| shape.dims.contains_key(unknown));
        let message = if is_dim {
            format!("a configuration is tried at all shapes, and `{unknown}` depends on the shape")
        } else {
            format!("`{unknown}` is neither a parameter nor an integer macro")
        };
        return Err(problem(message).help(suggest(unknown, known.iter().map(String::as_str))));
    }
    Ok(Constraint {
        text: text.clone(),
        expression,
    })
}

fn read_objective(
    raw: &Spanned<RawObjective>,
    shapes: &[NamedShape],
) -> Result<Vec<(String, f64)>, Mistake> {
    let find = |name: Spanned<String>| {
        let known = shapes.iter().map(|shape| shape.name.as_str());
        if known.clone().any(|shape| *name == *shape) {
            Ok(name.value)
        } else {
            Err(name.unknown("shape", known))
        }
    };
    let weights = match &raw.value {
        RawObjective::One(text) => {
            let shape = text.trim().strip_prefix("p50 of ").ok_or_else(|| {
                raw.problem(format!("`{text}` is no objective"))
                    .help("write p50 of SHAPE, or a weight for each shape: {mission: 2, long: 1}")
            })?;
            return Ok(vec![(find(raw.with(shape.trim().to_owned()))?, 1.0)]);
        }
        RawObjective::Weighted(weights) => weights,
    };
    let mut objective = Vec::new();
    for (shape, weight) in weights.iter() {
        let value: Option<f64> = weight.0.trim().parse().ok();
        let value = value.filter(|value| value.is_finite() && *value > 0.0);
        let value = value.ok_or_else(|| {
            weight.problem(format!("`{}` is no weight: use a number above 0", weight.0))
        })?;
        objective.push((find(shape.clone())?, value));
    }
    let sum: f64 = objective.iter().map(|(_, weight)| weight).sum();
    if objective.is_empty() || !sum.is_finite() {
        return Err(raw.problem("no shape has a weight: nothing would be small"));
    }
    for (_, weight) in &mut objective {
        *weight /= sum;
    }
    Ok(objective)
}

impl Tune {
    /// Returns the valid configurations, of which there is at least one.
    pub(super) fn space(&self) -> Result<Space, Mistake> {
        let mut broken = None;
        // Counts for each constraint the combinations that hold it, and those that hold it and all constraints before
        // it.
        let mut held = vec![(0u64, 0u64); self.constraints.len()];
        let space = Space::enumerate(self.parameters.clone(), |values| {
            let env = self.environment(values);
            let mut holds = true;
            for (constraint, (alone, left)) in self.constraints.iter().zip(&mut held) {
                match constraint.expression.truth(&env) {
                    Ok(true) => {
                        *alone += 1;
                        *left += u64::from(holds);
                    }
                    Ok(false) => holds = false,
                    // An earlier constraint, which does not hold, may be there to exclude values for which this one has
                    // no answer.
                    Err(_) if !holds => {}
                    Err(error) => {
                        holds = false;
                        broken.get_or_insert_with(|| {
                            let message = format!("{error}, where {}", self.in_words(values));
                            constraint
                                .text
                                .problem(message)
                                .help("put a constraint that excludes it before this one")
                        });
                    }
                }
            }
            holds
        });
        let space = space.map_err(|why| Mistake::new(self.at, why.to_string()))?;
        if let Some(problem) = broken {
            return Err(problem);
        }
        if space.is_empty() {
            Err(self.explain_empty(&held))
        } else {
            Ok(space)
        }
    }

    fn explain_empty(&self, held: &[(u64, u64)]) -> Mistake {
        let first = self
            .constraints
            .iter()
            .zip(held)
            .position(|(_, (_, left))| *left == 0);
        let Some((at, constraint)) = first.and_then(|at| Some((at, self.constraints.get(at)?)))
        else {
            return Mistake::new(self.at, "no configuration is valid");
        };
        let alone = held.get(at).map_or(0, |(alone, _)| *alone);
        let message = match alone {
            0 => "this refuses every configuration".to_owned(),
            _ => {
                let before: Vec<String> = self
                    .constraints
                    .iter()
                    .take(at)
                    .map(|constraint| format!("`{}`", constraint.text.trim()))
                    .collect();
                format!(
                    "no configuration is left: {alone} hold this, and none of them {} too",
                    before.join(" and ")
                )
            }
        };
        constraint.text.problem(message)
    }

    fn environment(&self, values: &[i64]) -> Env {
        let mut env = self.constants.clone();
        env.extend(
            self.parameters
                .iter()
                .zip(values)
                .map(|(parameter, value)| (Name::plain(&parameter.name), ExprValue::Int(*value))),
        );
        env
    }

    fn in_words(&self, values: &[i64]) -> String {
        let words: Vec<String> = self
            .parameters
            .iter()
            .zip(values)
            .map(|(parameter, value)| format!("{} is {value}", parameter.name))
            .collect();
        words.join(" and ")
    }

    /// Returns the constraints as they were written.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.constraints
            .iter()
            .map(|constraint| constraint.text.trim())
    }
}
