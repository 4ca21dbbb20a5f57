//! `tune`: which macros of a variant can be searched, what is valid, and what is to be small.

use super::expect;
use super::kernel::{self, KernelVariant, ResolvedVariant, Shared};
use super::raw::{GatesFile, RawObjective, RawTune};
use super::scope::{self, Scope};
use super::shape::{NamedShape, check_identifier};
use super::yaml::{Position, Problem, Source, Spanned, suggest};
use super::{File, Loaded, Selection, VariantChange, apply_variant};
use super::{find_top, load, on_disk, resolve_architectures};
use model::expr::{Env, ExprValue, Expression, Kind, Name};
use model::{Bound, Gate, Limit, Metric, Reference, Rule};
use search::{Parameter, Space, Unusable, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use system::error::{Diagnostic, Error, Result};
use system::sources::{self, Made};

/// Combinations that are looked at whenever the file is read. A larger space is looked at where it is searched.
const MOST_AT_ONCE: usize = 10_000;

const BUDGET: Budget = Budget::Evaluations(100);

/// The tuning space of one variant.
#[derive(Clone, Debug)]
pub struct Tune {
    pub kernel: String,
    pub variant: String,
    pub parameters: Vec<Parameter>,
    /// The position of each parameter in the file.
    places: Vec<Position>,
    constraints: Vec<Constraint>,
    /// Integer macros of the variant that are no parameters.
    constants: Env,
    /// Shapes, with weights that come to 1. The objective is the geometric mean of their p50.
    pub objective: Vec<(String, f64)>,
    pub budget: Budget,
    at: Position,
}

/// Positions are no part of what it says.
impl PartialEq for Tune {
    fn eq(&self, other: &Self) -> bool {
        let texts = |tune: &Self| -> Vec<String> {
            let texts = tune.constraints.iter();
            texts.map(|it| it.text.value.clone()).collect()
        };
        (&self.kernel, &self.variant, &self.parameters)
            == (&other.kernel, &other.variant, &other.parameters)
            && texts(self) == texts(other)
            && self.constants == other.constants
            && self.objective == other.objective
            && self.budget == other.budget
    }
}

#[derive(Clone, Debug)]
struct Constraint {
    text: Spanned<String>,
    expression: Expression,
}

/// Where a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    Evaluations(usize),
    Time(Duration),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
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
                Err(format!("a budget of {} tries nothing", text.trim()))
            }
            Some(budget) => Ok(budget),
            None => Err(format!(
                "`{}` is no budget: write 200 evaluations, or a time such as 10min",
                text.trim()
            )),
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

/// Whether a configuration is held to a gate: to what is known of it alone, without a baseline, a base or another
/// variant, and to no time. The search itself is about time.
pub fn is_asked(gate: &Gate) -> bool {
    let is_alone = |text: &str| {
        Expression::parse(text).is_ok_and(|expression| {
            let mut names = expression.names().iter();
            names.all(|name| matches!(name, Name::Plain(_)))
        })
    };
    expect::is_asked(gate)
        && match &gate.rule {
            Rule::HasEffect => false,
            Rule::Condition { expr }
            | Rule::Limit {
                limit:
                    Limit::Absolute {
                        bound: Bound::Expr(expr),
                        ..
                    },
                ..
            } => is_alone(&expr.text),
            _ => true,
        }
}

/// Resolves the space of one variant, if it has any. `shapes`: all of the kernel.
pub fn resolve(
    kernel: &KernelVariant<'_>,
    shapes: &[NamedShape],
) -> std::result::Result<Option<Tune>, Problem> {
    let Some(raw) = kernel.tune else {
        return Ok(None);
    };
    let tune = read(kernel, raw, shapes)?;
    let counts = tune.parameters.iter().map(|it| it.values.len());
    let count = counts.fold(1, usize::saturating_mul);
    if count <= MOST_AT_ONCE {
        tune.space()?;
    }
    Ok(Some(tune))
}

fn read(
    kernel: &KernelVariant<'_>,
    raw: &Spanned<RawTune>,
    shapes: &[NamedShape],
) -> std::result::Result<Tune, Problem> {
    let source = &kernel.raw.source;
    if Made::of(source).is_some() {
        return Err(Problem::new(
            raw.at,
            "the source is compiled already: a macro can change nothing in it",
        ));
    }
    let (parameters, places) = read_parameters(kernel, raw, shapes)?;
    let is_parameter = |name: &str| parameters.iter().any(|it| it.name == name);
    let no_dims = BTreeMap::new();
    let mut constants = Scope::new("", &no_dims, &kernel.defines).env().clone();
    constants.retain(|name, _| !is_parameter(&name.to_string()));
    let known: Vec<String> = parameters
        .iter()
        .map(|it| it.name.clone())
        .chain(constants.keys().map(Name::to_string))
        .collect();
    let constraints = raw.constraints.iter();
    let constraints = constraints
        .map(|text| read_constraint(text, &known, shapes))
        .collect::<std::result::Result<_, _>>()?;
    let budget = match &raw.budget {
        None => BUDGET,
        Some(text) => text
            .parse()
            .map_err(|message: String| Problem::new(text.at, message))?,
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
) -> std::result::Result<(Vec<Parameter>, Vec<Position>), Problem> {
    if raw.parameters.is_empty() {
        return Err(
            Problem::new(raw.parameters.at, "no parameters: nothing can be tuned")
                .help("name macros and their values: parameters: {BLOCK_M: [32, 64, 128]}"),
        );
    }
    let is_dim = |name: &str| shapes.first().is_some_and(|it| it.dims.contains_key(name));
    let mut parameters = Vec::new();
    let mut places = Vec::new();
    for (name, values) in raw.parameters.iter() {
        check_identifier(name, "macro")?;
        let clash = match Metric::from_name(name) {
            Some(_) => Some("a metric"),
            None => is_dim(name).then_some("a dimension, which is the same for all configurations"),
        };
        if let Some(clash) = clash {
            let message = format!("`{}` is already {clash}", name.value);
            return Err(Problem::new(name.at, message));
        }
        if let Some(written) = kernel.defines.get(name.as_str())
            && written.parse::<i64>().is_err()
        {
            return Err(Problem::new(
                name.at,
                format!(
                    "the macro `{}` is `{written}` here, which is no integer",
                    name.value
                ),
            ));
        }
        if values.is_empty() {
            return Err(Problem::new(
                values.at,
                format!("`{}` has no values", name.value),
            ));
        }
        for (at, value) in values.iter().enumerate() {
            if values.iter().take(at).any(|it| it.value == value.value) {
                let message = format!("duplicate value {}", value.value);
                return Err(Problem::new(value.at, message));
            }
        }
        places.push(name.at);
        parameters.push(Parameter {
            name: name.value.clone(),
            values: values.iter().map(|it| Value::Integer(it.value)).collect(),
        });
    }
    Ok((parameters, places))
}

fn read_constraint(
    text: &Spanned<String>,
    known: &[String],
    shapes: &[NamedShape],
) -> std::result::Result<Constraint, Problem> {
    let expression = scope::parse_expression(text, text)?;
    let problem = |message: String| Problem::new(text.at, message);
    if expression.kind() == Kind::Number {
        return Err(problem(format!("`{}` is not a condition", text.value))
            .help("compare it with something: BLOCK_M / NUM_WARPS >= 8"));
    }
    let names: Vec<String> = expression.names().iter().map(Name::to_string).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let is_dim = shapes
            .first()
            .is_some_and(|it| it.dims.contains_key(unknown));
        let message = match is_dim {
            true => format!(
                "a configuration is tried at all shapes, and `{unknown}` depends on the shape"
            ),
            false => format!("`{unknown}` is neither a parameter nor an integer macro"),
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
) -> std::result::Result<Vec<(String, f64)>, Problem> {
    let find = |name: &str, at| match shapes.iter().any(|it| it.name == name) {
        true => Ok(name.to_owned()),
        false => Err(Problem::new(at, format!("unknown shape `{name}`"))
            .help(suggest(name, shapes.iter().map(|it| it.name.as_str())))),
    };
    let weights = match &raw.value {
        RawObjective::One(text) => {
            let shape = text.trim().strip_prefix("p50 of ").ok_or_else(|| {
                Problem::new(raw.at, format!("`{text}` is no objective"))
                    .help("write p50 of SHAPE, or a weight for each shape: {mission: 2, long: 1}")
            })?;
            return Ok(vec![(find(shape.trim(), raw.at)?, 1.0)]);
        }
        RawObjective::Weighted(weights) => weights,
    };
    let mut objective = Vec::new();
    for (shape, weight) in weights.iter() {
        let value: Option<f64> = weight.0.trim().parse().ok();
        let value = value.filter(|it| it.is_finite() && *it > 0.0);
        let value = value.ok_or_else(|| {
            Problem::new(
                weight.at,
                format!("`{}` is no weight: use a number above 0", weight.0),
            )
        })?;
        objective.push((find(shape, shape.at)?, value));
    }
    let sum: f64 = objective.iter().map(|(_, weight)| weight).sum();
    if objective.is_empty() || !sum.is_finite() {
        return Err(Problem::new(
            raw.at,
            "no shape has a weight: nothing would be small",
        ));
    }
    for (_, weight) in &mut objective {
        *weight /= sum;
    }
    Ok(objective)
}

impl Tune {
    /// The valid configurations: at least one.
    pub(super) fn space(&self) -> std::result::Result<Space, Problem> {
        let mut broken = None;
        // For each constraint, how many combinations hold it; and it and all before it.
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
                    // One before it may be there to keep it from that.
                    Err(_) if !holds => {}
                    Err(error) => {
                        holds = false;
                        broken.get_or_insert_with(|| {
                            let message = format!("{error}, where {}", self.in_words(values));
                            Problem::new(constraint.text.at, message)
                                .help("put a constraint that excludes it before this one")
                        });
                    }
                }
            }
            holds
        });
        let space = space.map_err(|why| match why {
            Unusable::TooManyCombinations { .. } => Problem::new(self.at, why.to_string()),
            // `read` has looked at all else.
            other => Problem::new(self.at, other.to_string()),
        })?;
        if let Some(problem) = broken {
            return Err(problem);
        }
        match space.is_empty() {
            false => Ok(space),
            true => Err(self.explain_empty(&held)),
        }
    }

    fn explain_empty(&self, held: &[(u64, u64)]) -> Problem {
        let first = self
            .constraints
            .iter()
            .zip(held)
            .position(|(_, (_, left))| *left == 0);
        let Some((at, constraint)) = first.and_then(|at| Some((at, self.constraints.get(at)?)))
        else {
            return Problem::new(self.at, "no configuration is valid");
        };
        let alone = held.get(at).map_or(0, |(alone, _)| *alone);
        let message = match alone {
            0 => "this refuses every configuration".to_owned(),
            _ => {
                let before: Vec<String> = self
                    .constraints
                    .iter()
                    .take(at)
                    .map(|it| format!("`{}`", it.text.trim()))
                    .collect();
                format!(
                    "no configuration is left: {alone} hold this, and none of them {} too",
                    before.join(" and ")
                )
            }
        };
        Problem::new(constraint.text.at, message)
    }

    fn environment(&self, values: &[&Value]) -> Env {
        let mut env = self.constants.clone();
        let values = self.parameters.iter().zip(values);
        env.extend(values.filter_map(|(parameter, value)| match value {
            Value::Integer(value) => Some((Name::plain(&parameter.name), ExprValue::Int(*value))),
            _ => None,
        }));
        env
    }

    fn in_words(&self, values: &[&Value]) -> String {
        let values = self.parameters.iter().zip(values);
        let words: Vec<String> = values
            .map(|(parameter, value)| format!("{} is {value}", parameter.name))
            .collect();
        words.join(" and ")
    }

    /// As written.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.constraints.iter().map(|it| it.text.trim())
    }
}

/// A variant to be tuned, and all that is needed to say what another configuration of it is.
pub struct Tuning {
    /// The variant alone.
    pub loaded: Loaded,
    pub tune: Tune,
    /// Its own macros.
    pub macros: BTreeMap<String, String>,
    text: String,
    raw: GatesFile,
}

/// `name`: the kernel, or `kernel/variant`.
///
/// # Errors
/// Usage, as [`load`], and where there is no such variant or nothing of it can be tuned.
pub fn load_tuning(path: &Path, name: &str, sim_budget: Option<u64>) -> Result<Tuning> {
    let whole = load(path, &Selection::default())?;
    let tune = find(&whole, name).map_err(Error::Usage)?.clone();
    let selection = Selection {
        filters: vec![format!("{}/{}", tune.kernel, tune.variant)],
        sim_budget,
        ..Selection::default()
    };
    let loaded = load(path, &selection)?;
    let File { name, text, .. } = File::read(path)?;
    let source = Source::parse(&name, &text).map_err(Error::Usage)?;
    let raw: GatesFile = source
        .read()
        .map_err(|problem| Error::Usage(source.diagnose(&problem)))?;
    let refuse = |message: String| {
        let problem = Problem::new(tune.at, message);
        Err(Error::Usage(source.diagnose(&problem)))
    };
    let cases = &loaded.plan.cases;
    let variant = format!("{}/{}", tune.kernel, tune.variant);
    if loaded.plan.expected(&tune.kernel, &tune.variant).is_some() {
        return refuse(format!("{variant} is kept to fail, and cannot be tuned"));
    }
    if let Some(case) = cases
        .iter()
        .find(|case| matches!(case.reference, Reference::Variant { .. }))
    {
        return refuse(format!(
            "{} is compared with another variant; what is tuned needs a reference that is computed",
            case.id
        ));
    }
    let mut shapes = tune.objective.iter();
    if let Some((shape, _)) = shapes.find(|(it, _)| !cases.iter().any(|case| case.id.shape == *it))
    {
        return refuse(format!("{variant} is not run at shape `{shape}`"));
    }
    let macros = loaded.plan.units.first();
    let macros = macros.map_or_else(BTreeMap::new, |unit| unit.defines.clone());
    Ok(Tuning {
        loaded,
        tune,
        macros,
        text,
        raw,
    })
}

fn find<'a>(whole: &'a Loaded, name: &str) -> std::result::Result<&'a Tune, Diagnostic> {
    let (kernel, variant) = match name.split_once('/') {
        Some((kernel, variant)) => (kernel, Some(variant)),
        None => (name, None),
    };
    let of_kernel = || whole.all.iter().filter(|id| id.kernel == kernel);
    if of_kernel().next().is_none() {
        // A kernel has many cases.
        let known: BTreeSet<&str> = whole.all.iter().map(|id| id.kernel.as_str()).collect();
        return Err(Diagnostic::new(format!("there is no kernel `{kernel}`"))
            .help(suggest(kernel, known.into_iter())));
    }
    if let Some(variant) = variant
        && !of_kernel().any(|id| id.variant == variant)
    {
        let known: BTreeSet<&str> = of_kernel().map(|id| id.variant.as_str()).collect();
        return Err(
            Diagnostic::new(format!("{kernel} has no variant `{variant}`"))
                .help(suggest(variant, known.into_iter())),
        );
    }
    let is_meant =
        |it: &&Tune| it.kernel == kernel && variant.is_none_or(|name| it.variant == name);
    let mut tunes = whole.tunes.iter().filter(is_meant);
    match (tunes.next(), tunes.next()) {
        (Some(tune), None) => Ok(tune),
        (None, _) => Err(Diagnostic::new(format!("{name} has no `tune` in {}", whole.file))
            .help("say which macros can be what: tune: {parameters: {BLOCK: [128, 256]}, objective: p50 of large}")),
        (Some(first), Some(_)) => {
            let all = whole.tunes.iter().filter(is_meant);
            let all: Vec<String> = all.map(|it| format!("{kernel}/{}", it.variant)).collect();
            Err(Diagnostic::new(format!(
                "several variants of {kernel} can be tuned: {}",
                all.join(", ")
            ))
            .help(format!("name the one to start from: {kernel}/{}", first.variant)))
        }
    }
}

impl Tuning {
    /// # Errors
    /// Usage, where the constraints leave nothing, or the space is too large.
    pub fn space(&self) -> Result<Space> {
        self.tune.space().map_err(|problem| self.refuse(&problem))
    }

    /// The variant with these values, under a name of its own.
    ///
    /// # Errors
    /// An impossible configuration: a launch of no threads.
    pub fn candidate(
        &self,
        name: &str,
        values: &BTreeMap<String, i64>,
    ) -> std::result::Result<ResolvedVariant, Diagnostic> {
        let Loaded { root, file, .. } = &self.loaded;
        let kernels = &self.raw.kernels;
        let (architectures, kernel) = resolve_architectures(&self.raw.architectures)
            .map(|architectures| {
                let mut kernels = kernels.iter();
                (
                    architectures,
                    kernels.find(|(it, _)| it.value == self.tune.kernel),
                )
            })
            .map_err(|problem| self.diagnose(&problem))?;
        let Some((kernel, raw)) = kernel else {
            return Err(Diagnostic::new(format!(
                "{file} has no {}",
                self.tune.kernel
            )));
        };
        let top = find_top(root);
        let shared = Shared {
            file,
            architectures: &architectures,
            flags: &self.raw.flags,
            disk: &on_disk(root, top.as_deref()),
            environment: &sources::of_process,
        };
        let macros = values
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()));
        let names = (self.tune.variant.as_str(), name);
        kernel::resolve_candidate((kernel, raw), names, &macros.collect(), &shared)
            .map_err(|problem| self.diagnose(&problem))
    }

    /// The text of the file with these values as a variant of this name.
    ///
    /// # Errors
    /// Usage, where it cannot be written without changing anything else, or the file is another by now.
    pub fn with_variant(
        &self,
        path: &Path,
        name: &str,
        values: &BTreeMap<String, i64>,
    ) -> Result<String> {
        if File::read(path)?.text != self.text {
            return Err(
                Error::usage("the file was edited meanwhile, and is left as it is")
                    .at(&self.loaded.file),
            );
        }
        let define = values.iter();
        let define = define.map(|(name, value)| (name.clone(), value.to_string()));
        let change = VariantChange {
            kernel: &self.tune.kernel,
            variant: name,
            like: &self.tune.variant,
            define: &define.collect(),
        };
        apply_variant(&self.loaded.file, &self.text, &change).map_err(Error::Usage)
    }

    /// Reports a problem with a parameter, at its place.
    pub fn refuse_parameter(&self, at: usize, message: String) -> Error {
        let place = self.tune.places.get(at).copied().unwrap_or(self.tune.at);
        self.refuse(&Problem::new(place, message))
    }

    fn refuse(&self, problem: &Problem) -> Error {
        Error::Usage(self.diagnose(problem))
    }

    fn diagnose(&self, problem: &Problem) -> Diagnostic {
        match Source::parse(&self.loaded.file, &self.text) {
            Ok(source) => source.diagnose(problem),
            Err(diagnostic) => diagnostic,
        }
    }
}
