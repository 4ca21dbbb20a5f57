//! Expressions of gates.yaml: sizes and launches over dimensions, limits and conditions over metrics.
//!
//! This module does not know what the names mean. The language is our own and has two static types, numbers and
//! truths, because what an expression engine does by default is not what a gate may do. In rhai 1.27, `x <= 0.0` holds
//! for x = 1e-17 (floats compare with a tolerance), `!(0 <= y <= 1)` is true for y = 0.5 (unlike types compare as
//! false), and a malformed right side hides behind `||`. Here
//! - comparison is exact, and a type error is an error of the text, found without evaluating it;
//! - a name without a value, or with one that is not finite, refuses the whole expression before any part
//!   of it is looked at, so nothing becomes true by short circuit;
//! - integers are 64 bit, and overflow is an error; `/` is true division and stays an integer only where
//!   it is exact, so a grid of `S / 64` is refused for S = 77 rather than truncated;
//! - every intermediate result is finite, or an error.
//!
//! Grammar, loosest first: `||`, `&&`, one comparison, `+ -`, `* / %`, unary `- !`, then numbers
//! (`64`, `1e-3`, `48KiB`, `900us`), names (`D`, `stage1.p50`, `torch.flash.p50`), calls and parentheses. `sizeof(f16)` is
//! a number. `sizeof(T)` is a name, because `T` is not a type.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::{is_identifier, rename};

/// The function that returns the size of a type in bytes. The size is known when the text is read.
pub const SIZE_OF: &str = "sizeof";

/// Returns the size in bytes of a type of gates.yaml or C++, or `None` for a type that is not known here.
pub fn size_of(of: &str) -> Option<i64> {
    let scalar = ScalarType::ALL
        .into_iter()
        .find(|scalar| scalar.name() == of);
    let elem = ElemType::ALL.into_iter().find(|elem| elem.name() == of);
    let known = scalar.map(ScalarType::size).or(elem.map(ElemType::size));
    Some(match of.trim_start_matches("std::") {
        _ if let Some(bytes) = known => bytes as i64,
        "char" | "signed char" | "unsigned char" | "int8_t" | "uint8_t" => 1,
        "__nv_fp8_e4m3" | "__nv_fp8_e5m2" => 1,
        "short" | "unsigned short" | "int16_t" | "uint16_t" => 2,
        "half" | "__half" | "nv_bfloat16" | "__nv_bfloat16" => 2,
        "int" | "unsigned" | "unsigned int" | "int32_t" | "uint32_t" | "float" => 4,
        "half2" | "__half2" | "nv_bfloat162" | "__nv_bfloat162" => 4,
        "long long" | "unsigned long long" | "int64_t" | "uint64_t" | "size_t" | "double" => 8,
        "float2" | "int2" | "uint2" => 8,
        "float4" | "int4" | "uint4" => 16,
        _ => return None,
    })
}

use crate::{ElemType, ScalarType};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A name in an expression, whose value is looked up when the expression is evaluated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A name without a dot: `D`, `codec_max_err`.
    Plain(String),
    /// A name with one dot: `stage1.p50`.
    Dotted(String, String),
    /// A name with two dots: `torch.flash.p50`.
    Rival(String, String, String),
}

impl Name {
    pub fn plain(name: impl Into<String>) -> Self {
        Self::Plain(name.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(name) => f.write_str(name),
            Self::Dotted(owner, name) => write!(f, "{owner}.{name}"),
            Self::Rival(rival, backend, name) => write!(f, "{rival}.{backend}.{name}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExprValue {
    Int(i64),
    Float(f64),
}

impl ExprValue {
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl From<i64> for ExprValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for ExprValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl fmt::Display for ExprValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

pub type Env = BTreeMap<Name, ExprValue>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Number,
    Truth,
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a number",
            Self::Truth => "a condition",
        })
    }
}

/// An error in the text, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    pub message: String,
    /// The position in characters, counted from 1.
    pub column: usize,
}

/// The reason for which a well-formed expression has no value here.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    #[error("no value for {}", list(.0))]
    Missing(BTreeSet<Name>),
    #[error("{0} is not finite")]
    NonFinite(Name),
    #[error("division by zero")]
    DivisionByZero,
    #[error("{0} overflows 64 bits")]
    Overflow(&'static str),
    #[error("{0} gives no finite number")]
    NoNumber(&'static str),
    #[error("{0} is not a whole number")]
    NotWhole(ExprValue),
    #[error("{function} needs {needs}, got {got}")]
    Domain {
        function: &'static str,
        needs: &'static str,
        got: ExprValue,
    },
    #[error("{got} where {wanted} is needed")]
    WrongKind { wanted: ValueKind, got: ValueKind },
}

fn list(names: &BTreeSet<Name>) -> String {
    let names: Vec<_> = names.iter().map(Name::to_string).collect();
    names.join(", ")
}

/// The unit that a number's suffix names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Nanoseconds,
}

/// Returns the factor to bytes or nanoseconds of `KiB`, `KB`, `us` and so on.
pub fn unit(suffix: &str) -> Option<(Unit, i64)> {
    Some(match suffix {
        "B" => (Unit::Bytes, 1),
        "KB" => (Unit::Bytes, 1_000),
        "KiB" => (Unit::Bytes, 1 << 10),
        "MB" => (Unit::Bytes, 1_000_000),
        "MiB" => (Unit::Bytes, 1 << 20),
        "GB" => (Unit::Bytes, 1_000_000_000),
        "GiB" => (Unit::Bytes, 1 << 30),
        "ns" => (Unit::Nanoseconds, 1),
        "us" | "µs" | "μs" => (Unit::Nanoseconds, 1_000),
        "ms" => (Unit::Nanoseconds, 1_000_000),
        "s" => (Unit::Nanoseconds, 1_000_000_000),
        _ => return None,
    })
}

/// A parsed expression, which can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
    kind: ValueKind,
    names: BTreeSet<Name>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(ExprValue),
    Variable(Name),
    Negate(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    Not(Box<Node>),
    Compare(Comparison, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Lt,
    Le,
    Eq,
    Ne,
    Ge,
    Gt,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    CeilDiv,
    FloorDiv,
    RoundUp,
    Min,
    Max,
    Abs,
    Sqrt,
    Log2,
}

impl Function {
    const ALL: [(&'static str, Self); 8] = [
        ("ceil_div", Self::CeilDiv),
        ("floor_div", Self::FloorDiv),
        ("round_up", Self::RoundUp),
        ("min", Self::Min),
        ("max", Self::Max),
        ("abs", Self::Abs),
        ("sqrt", Self::Sqrt),
        ("log2", Self::Log2),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, function)| *function)
    }

    /// Returns how many arguments the function takes, in words and as a test.
    fn arity(self) -> (&'static str, fn(usize) -> bool) {
        match self {
            Self::CeilDiv | Self::FloorDiv | Self::RoundUp => ("two arguments", |count| count == 2),
            Self::Min | Self::Max => ("two or more arguments", |count| count >= 2),
            Self::Abs | Self::Sqrt | Self::Log2 => ("one argument", |count| count == 1),
        }
    }
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// Fails if the text is not an expression, or joins numbers and conditions wrongly.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        parse::expression(text)
    }

    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    pub fn names(&self) -> &BTreeSet<Name> {
        &self.names
    }

    /// Evaluates a numeric expression.
    ///
    /// # Errors
    /// Fails for a name without a finite value, a division by zero, an overflow, and a condition.
    pub fn number(&self, env: &Env) -> Result<f64, EvalError> {
        self.value(env).map(ExprValue::as_f64)
    }

    /// Evaluates an expression as [`Self::number`] does, and fails also for a float that is not a whole number.
    pub fn integer(&self, env: &Env) -> Result<i64, EvalError> {
        whole(self.value(env)?)
    }

    /// Evaluates a numeric expression, and keeps integers as integers.
    ///
    /// # Errors
    /// Fails as [`Self::number`] does.
    pub fn value(&self, env: &Env) -> Result<ExprValue, EvalError> {
        self.admit(env, ValueKind::Number)?;
        self.root.number(env)
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// Fails for a name without a finite value, a division by zero, an overflow, and a numeric expression.
    pub fn truth(&self, env: &Env) -> Result<bool, EvalError> {
        self.admit(env, ValueKind::Truth)?;
        self.root.truth(env)
    }

    fn admit(&self, env: &Env, wanted: ValueKind) -> Result<(), EvalError> {
        if self.kind != wanted {
            return Err(EvalError::WrongKind {
                wanted,
                got: self.kind,
            });
        }
        let missing: BTreeSet<_> = self
            .names
            .iter()
            .filter(|name| !env.contains_key(name))
            .cloned()
            .collect();
        if !missing.is_empty() {
            return Err(EvalError::Missing(missing));
        }
        let not_finite = |name: &&Name| {
            env.get(name)
                .is_some_and(|value| !value.as_f64().is_finite())
        };
        match self.names.iter().find(not_finite) {
            Some(name) => Err(EvalError::NonFinite(name.clone())),
            None => Ok(()),
        }
    }
}

impl Node {
    fn number(&self, env: &Env) -> Result<ExprValue, EvalError> {
        match self {
            Self::Number(value) => Ok(*value),
            Self::Variable(name) => env
                .get(name)
                .copied()
                .ok_or_else(|| EvalError::Missing(BTreeSet::from([name.clone()]))),
            Self::Negate(operand) => match operand.number(env)? {
                ExprValue::Int(value) => value
                    .checked_neg()
                    .map(ExprValue::Int)
                    .ok_or(EvalError::Overflow("-")),
                ExprValue::Float(value) => Ok(ExprValue::Float(-value)),
            },
            Self::Arithmetic(operator, operands) => {
                let [left, right] = &**operands;
                operator.apply(left.number(env)?, right.number(env)?)
            }
            Self::Call(function, arguments) => {
                let arguments: Vec<_> = arguments
                    .iter()
                    .map(|argument| argument.number(env))
                    .collect::<Result<_, _>>()?;
                function.apply(&arguments)
            }
            Self::Not(_) | Self::Compare(..) | Self::And(_) | Self::Or(_) => {
                Err(EvalError::WrongKind {
                    wanted: ValueKind::Number,
                    got: ValueKind::Truth,
                })
            }
        }
    }

    /// Evaluates a condition. `&&` and `||` skip a right side that cannot matter, so that `n == 0 || t / n < 5` works.
    fn truth(&self, env: &Env) -> Result<bool, EvalError> {
        match self {
            Self::Not(operand) => operand.truth(env).map(|truth| !truth),
            Self::And(operands) => Ok(operands[0].truth(env)? && operands[1].truth(env)?),
            Self::Or(operands) => Ok(operands[0].truth(env)? || operands[1].truth(env)?),
            Self::Compare(comparison, operands) => {
                let [left, right] = &**operands;
                Ok(comparison.holds(left.number(env)?, right.number(env)?))
            }
            Self::Number(_)
            | Self::Variable(_)
            | Self::Negate(_)
            | Self::Arithmetic(..)
            | Self::Call(..) => Err(EvalError::WrongKind {
                wanted: ValueKind::Truth,
                got: ValueKind::Number,
            }),
        }
    }
}

impl Arithmetic {
    fn apply(self, left: ExprValue, right: ExprValue) -> Result<ExprValue, EvalError> {
        let name = match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        };
        if matches!(self, Self::Divide | Self::Remainder) && right.as_f64() == 0.0 {
            return Err(EvalError::DivisionByZero);
        }
        if let (ExprValue::Int(left), ExprValue::Int(right)) = (left, right) {
            let exact = match self {
                Self::Add => left.checked_add(right),
                Self::Subtract => left.checked_sub(right),
                Self::Multiply => left.checked_mul(right),
                Self::Remainder => left.checked_rem(right),
                Self::Divide => match left.checked_rem(right) {
                    Some(0) => left.checked_div(right),
                    Some(_) => return finite(left as f64 / right as f64, name),
                    None => None,
                },
            };
            return exact.map(ExprValue::Int).ok_or(EvalError::Overflow(name));
        }
        let (left, right) = (left.as_f64(), right.as_f64());
        finite(
            match self {
                Self::Add => left + right,
                Self::Subtract => left - right,
                Self::Multiply => left * right,
                Self::Divide => left / right,
                Self::Remainder => left % right,
            },
            name,
        )
    }
}

impl Comparison {
    /// Compares two values: integers as integers, and anything else exactly as f64.
    fn holds(self, left: ExprValue, right: ExprValue) -> bool {
        let order = match (left, right) {
            (ExprValue::Int(left), ExprValue::Int(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().partial_cmp(&right.as_f64()),
        };
        order.is_some_and(|order| match self {
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Ge => order.is_ge(),
            Self::Gt => order.is_gt(),
        })
    }
}

impl Function {
    fn apply(self, arguments: &[ExprValue]) -> Result<ExprValue, EvalError> {
        match (self, arguments) {
            (Self::CeilDiv, &[a, b]) => ceil_div(a, b, "ceil_div").map(ExprValue::Int),
            (Self::FloorDiv, &[a, b]) => {
                let ceiling = ceil_div(a, b, "floor_div")?;
                let is_exact = whole(a)? % whole(b)? == 0;
                Ok(ExprValue::Int(ceiling - i64::from(!is_exact)))
            }
            (Self::RoundUp, &[a, b]) => ceil_div(a, b, "round_up")?
                .checked_mul(whole(b)?)
                .map(ExprValue::Int)
                .ok_or(EvalError::Overflow("round_up")),
            (Self::Abs, &[ExprValue::Int(value)]) => value
                .checked_abs()
                .map(ExprValue::Int)
                .ok_or(EvalError::Overflow("abs")),
            (Self::Abs, &[ExprValue::Float(value)]) => Ok(ExprValue::Float(value.abs())),
            (Self::Sqrt, &[value]) => finite(value.as_f64().sqrt(), "sqrt"),
            (Self::Log2, &[value]) => finite(value.as_f64().log2(), "log2"),
            (Self::Min | Self::Max, [first, rest @ ..]) => {
                let better = match self {
                    Self::Min => Comparison::Lt,
                    _ => Comparison::Gt,
                };
                Ok(rest.iter().fold(*first, |best, &value| {
                    if better.holds(value, best) {
                        value
                    } else {
                        best
                    }
                }))
            }
            // The parser has checked the number of arguments.
            _ => Err(EvalError::NoNumber("a call without its arguments")),
        }
    }
}

fn ceil_div(a: ExprValue, b: ExprValue, function: &'static str) -> Result<i64, EvalError> {
    let (a, b) = (whole(a)?, whole(b)?);
    let positive = |value: i64, least: i64, needs: &'static str| {
        if value >= least {
            return Ok(());
        }
        Err(EvalError::Domain {
            function,
            needs,
            got: ExprValue::Int(value),
        })
    };
    positive(a, 0, "a dividend of at least 0")?;
    positive(b, 1, "a divisor of at least 1")?;
    Ok(a / b + i64::from(a % b != 0))
}

fn whole(value: ExprValue) -> Result<i64, EvalError> {
    match value {
        ExprValue::Int(value) => Ok(value),
        // Beyond 2^53 neighbouring integers share one f64.
        ExprValue::Float(float)
            if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 =>
        {
            Ok(float as i64)
        }
        ExprValue::Float(_) => Err(EvalError::NotWhole(value)),
    }
}

fn finite(value: f64, what: &'static str) -> Result<ExprValue, EvalError> {
    if value.is_finite() {
        Ok(ExprValue::Float(value))
    } else {
        Err(EvalError::NoNumber(what))
    }
}
