//! Gives names their meaning at one shape, and evaluates formulas there.

use super::raw::Formula;
use super::yaml::{Mistake, Spanned, suggest};
use model::Num;
use model::expr::{self, Env, EvalError, ExprValue, Expression, Name, Unit, unit};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Dimensions of one shape, and the integer macros of one variant.
pub struct Scope<'a> {
    /// The name of the shape, which is empty if formulas belong to no shape.
    shape: &'a str,
    env: Env,
    /// Macros that are not integers, with their texts.
    opaque: BTreeMap<&'a str, &'a str>,
    of: NamesOf,
}

/// The keys that declare the names of a scope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamesOf {
    /// The names are shapes and macros of a kernel.
    Kernel,
    /// The scalars of a captured launch.
    Launch,
}

impl<'a> Scope<'a> {
    pub fn new(
        shape: &'a str,
        dims: &'a BTreeMap<String, i64>,
        defines: &'a BTreeMap<String, String>,
    ) -> Self {
        let mut env: Env = dims
            .iter()
            .map(|(name, value)| (Name::plain(name), ExprValue::Int(*value)))
            .collect();
        let mut opaque = BTreeMap::new();
        for (name, text) in defines {
            match text.parse() {
                Ok(value) => {
                    env.insert(Name::plain(name), ExprValue::Int(value));
                }
                Err(_) => {
                    if let Some(bytes) = expr::size_of(text) {
                        let size = Name::plain(format!("{}({name})", expr::SIZE_OF));
                        env.insert(size, ExprValue::Int(bytes));
                    }
                    opaque.insert(name.as_str(), text.as_str());
                }
            }
        }
        Self {
            shape,
            env,
            opaque,
            of: NamesOf::Kernel,
        }
    }

    /// Makes a scope of numbers that were read from the parameters of a captured launch.
    pub fn from_launch(env: Env) -> Self {
        Self {
            shape: "",
            env,
            opaque: BTreeMap::new(),
            of: NamesOf::Launch,
        }
    }

    /// Returns the name of the shape, or `None` if the formulas belong to no shape.
    pub fn shape(&self) -> Option<&str> {
        (!self.shape.is_empty()).then_some(self.shape)
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub fn eval_integer(&self, formula: &Spanned<Formula>) -> Result<i64, Mistake> {
        let expression = parse_expression(formula, &formula.0)?;
        expression
            .integer(&self.env)
            .map_err(|error| self.explain_error(formula, &error))
    }

    pub fn eval_number(&self, formula: &Spanned<Formula>) -> Result<f64, Mistake> {
        let expression = parse_expression(formula, &formula.0)?;
        expression
            .number(&self.env)
            .map_err(|error| self.explain_error(formula, &error))
    }

    pub fn eval_number_or(
        &self,
        formula: Option<&Spanned<Formula>>,
        absent: f64,
    ) -> Result<Num, Mistake> {
        formula
            .map_or(Ok(absent), |formula| self.eval_number(formula))
            .map(Num)
    }

    /// Returns an integer within a range. `what` names the integer in the message.
    pub fn eval_integer_in(
        &self,
        formula: &Spanned<Formula>,
        what: &str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, Mistake> {
        let value = self.eval_integer(formula)?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.problem(
            formula,
            format!(
                "{what} is {value}; it must be between {} and {}",
                range.start(),
                range.end()
            ),
        ))
    }

    /// Returns a problem that names the shape.
    pub fn problem<T>(&self, spot: &Spanned<T>, message: impl Into<String>) -> Mistake {
        let mut message = message.into();
        if !self.shape.is_empty() {
            message += &format!(" (at shape `{}`)", self.shape);
        }
        spot.problem(message)
    }

    pub fn explain_error<T>(&self, spot: &Spanned<T>, error: &EvalError) -> Mistake {
        match error {
            EvalError::Missing(names) => match names.first() {
                Some(name) => self.explain_unknown(spot, name),
                None => self.problem(spot, error.to_string()),
            },
            EvalError::NotWhole(_) => self
                .problem(spot, error.to_string())
                .help("round up with ceil_div(a, b)"),
            _ => self.problem(spot, error.to_string()),
        }
    }

    /// Returns the problem of a name that has no value here.
    pub fn explain_unknown<T>(&self, spot: &Spanned<T>, name: &Name) -> Mistake {
        let text = name.to_string();
        if let Some(value) = self.opaque.get(text.as_str()) {
            return self.problem(
                spot,
                format!("the macro `{name}` is `{value}`, which is not an integer"),
            );
        }
        if let Some(of) = text.strip_prefix("sizeof(") {
            let of = of.trim_end_matches(')');
            return self
                .problem(spot, format!("`{of}` is no type with a known size"))
                .help("sizeof takes f16, i32 and so on, a type of C++, or a macro under `define` that is one");
        }
        let known: Vec<_> = self.env.keys().map(Name::to_string).collect();
        let problem = match self.of {
            NamesOf::Kernel => {
                format!("`{name}` is neither a dimension nor a macro under `define`")
            }
            NamesOf::Launch => format!("`{name}` is not under `scalars`"),
        };
        let problem = self.problem(spot, problem);
        let problem = if known.is_empty() {
            problem
        } else {
            problem.help(suggest(&text, known.iter().map(String::as_str)))
        };
        problem.help(match self.of {
            NamesOf::Kernel => format!(
                "declare it as a dimension of every shape, or as a macro: define: {{{name}: ...}}"
            ),
            NamesOf::Launch => format!("scalars: {{{name}: {{parameter: 2, type: i32}}}}"),
        })
    }
}

/// Parses `text`, which is a part of the scalar at `spot`.
pub fn parse_expression<T>(spot: &Spanned<T>, text: &str) -> Result<Expression, Mistake> {
    Expression::parse(text).map_err(|error| {
        let problem = spot.problem(format!("`{text}`: {error}"));
        let problem = problem.offset(error.column - 1);
        if is_cut_at_a_comma(text) {
            problem.help(QUOTE)
        } else {
            problem
        }
    })
}

const QUOTE: &str =
    "a comma ends an item of a list: quote an expression that has one, as \"ceil_div(a, b)\"";

/// Returns true if YAML has cut the text at a comma: `[ceil_div(N, 256)]` is a list of two items.
pub fn is_cut_at_a_comma(text: &str) -> bool {
    let count = |c| text.matches(c).count();
    count('(') != count(')')
}

/// Returns a duration in ns, from text with a unit such as `200us`.
pub fn parse_duration(
    formula: &Spanned<Formula>,
    what: &str,
    ns: RangeInclusive<f64>,
) -> Result<f64, Mistake> {
    let text = formula.0.trim();
    let is_time = matches!(
        unit_suffix(text).and_then(unit),
        Some((Unit::Nanoseconds, _))
    );
    let value = match Expression::parse(text) {
        Ok(expression) if is_time => expression.number(&Env::new()).ok(),
        _ => None,
    };
    match value {
        Some(value) if ns.contains(&value) => Ok(value),
        Some(_) => Err(formula.problem(format!("{what} of {text} is out of range"))),
        None => Err(formula
            .problem(format!("`{text}` is not a duration"))
            .help("write a number and its unit: 30s, 500ms, 200us")),
    }
}

/// Returns the letters behind a plain number: `KiB` of `48KiB`, the empty text of `48`. Returns `None` for anything
/// else.
pub fn unit_suffix(text: &str) -> Option<&str> {
    let number = text.trim_end_matches(|char: char| char.is_alphabetic());
    let is_number = number.starts_with(|char: char| char.is_ascii_digit())
        && number.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number {
        return text.get(number.len()..);
    }
    // In 1e-3, the part that looks like a unit belongs to the number.
    text.parse::<f64>().is_ok_and(f64::is_finite).then_some("")
}
