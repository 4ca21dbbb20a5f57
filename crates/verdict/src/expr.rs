//! Expressions of gates.yaml: sizes and launches over dimensions, limits and conditions over metrics.
//!
//! Knows nothing of what its names mean. A small language of its own, with two static types (numbers and
//! truths), because what an expression engine does by default is not what a gate may do. Tried with rhai
//! 1.27: `x <= 0.0` holds for x = 1e-17 (floats compare with a tolerance), `!(0 <= y <= 1)` is true for
//! y = 0.5 (unlike types compare as false), and a malformed right side hides behind `||`. Here
//! - comparison is exact, and a type error is an error of the text, found without evaluating it;
//! - a name without a value, or with one that is not finite, refuses the whole expression before any part
//!   of it is looked at, so nothing becomes true by short circuit;
//! - integers are 64 bit, and overflow is an error; `/` is true division and stays an integer only where
//!   it is exact, so a grid of `S / 64` is refused for S = 77 rather than truncated;
//! - every intermediate result is finite, or an error.
//!
//! Grammar, loosest first: `||`, `&&`, one comparison, `+ -`, `* / %`, unary `- !`, then numbers
//! (`64`, `1e-3`, `48KiB`, `900us`), names (`D`, `stage1.p50`), calls and parentheses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Bounds parsing, nesting and evaluation alike.
const MAX_TOKENS: usize = 200;

/// What an expression refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// `D`, `codec_max_err`.
    Plain(String),
    /// `stage1.p50`.
    Dotted(String, String),
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
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
}

impl Value {
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

pub type Env = BTreeMap<Name, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    Truth,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a number",
            Self::Truth => "a condition",
        })
    }
}

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    pub message: String,
    /// In characters, from 1.
    pub column: usize,
}

/// Why a well-formed expression has no value here.
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
    NotWhole(Value),
    #[error("{function} needs {needs}, got {got}")]
    Domain {
        function: &'static str,
        needs: &'static str,
        got: Value,
    },
    #[error("{got} where {wanted} is needed")]
    WrongKind { wanted: Kind, got: Kind },
}

fn list(names: &BTreeSet<Name>) -> String {
    let names: Vec<_> = names.iter().map(Name::to_string).collect();
    names.join(", ")
}

/// What a number's suffix counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Nanoseconds,
}

/// The factor to bytes or nanoseconds of `KiB`, `KB`, `us`, ...
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

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
    kind: Kind,
    names: BTreeSet<Name>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(Value),
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
    RoundUp,
    Min,
    Max,
    Abs,
    Sqrt,
    Log2,
}

impl Function {
    const ALL: [(&'static str, Self); 7] = [
        ("ceil_div", Self::CeilDiv),
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

    /// Wording and test of how many arguments it takes.
    fn arity(self) -> (&'static str, fn(usize) -> bool) {
        match self {
            Self::CeilDiv | Self::RoundUp => ("two arguments", |count| count == 2),
            Self::Min | Self::Max => ("two or more arguments", |count| count >= 2),
            Self::Abs | Self::Sqrt | Self::Log2 => ("one argument", |count| count == 1),
        }
    }
}

impl Expression {
    /// # Errors
    /// Where the text is not an expression, or joins numbers and conditions wrongly.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let tokens = lex(text)?;
        let mut parser = Parser {
            tokens: &tokens,
            next: 0,
            end: text.chars().count() + 1,
            names: BTreeSet::new(),
        };
        let (root, kind) = parser.expression(0)?;
        match parser.peek() {
            None => Ok(Self {
                root,
                kind,
                names: parser.names,
            }),
            Some(token) => Err(parser.error(format!("unexpected {token}"))),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn names(&self) -> &BTreeSet<Name> {
        &self.names
    }

    /// # Errors
    /// A name without a finite value, a division by zero, an overflow, or a condition.
    pub fn number(&self, env: &Env) -> Result<f64, EvalError> {
        self.value(env).map(Value::as_f64)
    }

    /// As [`Self::number`], and a float that is no whole number is an error.
    pub fn integer(&self, env: &Env) -> Result<i64, EvalError> {
        whole(self.value(env)?)
    }

    pub fn value(&self, env: &Env) -> Result<Value, EvalError> {
        self.admit(env, Kind::Number)?;
        self.root.number(env)
    }

    pub fn truth(&self, env: &Env) -> Result<bool, EvalError> {
        self.admit(env, Kind::Truth)?;
        self.root.truth(env)
    }

    fn admit(&self, env: &Env, wanted: Kind) -> Result<(), EvalError> {
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
    fn number(&self, env: &Env) -> Result<Value, EvalError> {
        match self {
            Self::Number(value) => Ok(*value),
            Self::Variable(name) => env
                .get(name)
                .copied()
                .ok_or_else(|| EvalError::Missing(BTreeSet::from([name.clone()]))),
            Self::Negate(operand) => match operand.number(env)? {
                Value::Int(value) => value
                    .checked_neg()
                    .map(Value::Int)
                    .ok_or(EvalError::Overflow("-")),
                Value::Float(value) => Ok(Value::Float(-value)),
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
                    wanted: Kind::Number,
                    got: Kind::Truth,
                })
            }
        }
    }

    /// `&&` and `||` leave out a right side that cannot matter, so that `n == 0 || t / n < 5` works.
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
                wanted: Kind::Truth,
                got: Kind::Number,
            }),
        }
    }
}

impl Arithmetic {
    fn apply(self, left: Value, right: Value) -> Result<Value, EvalError> {
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
        if let (Value::Int(left), Value::Int(right)) = (left, right) {
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
            return exact.map(Value::Int).ok_or(EvalError::Overflow(name));
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
    /// Integers compare as integers; anything else exactly as f64.
    fn holds(self, left: Value, right: Value) -> bool {
        let order = match (left, right) {
            (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
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
    fn apply(self, arguments: &[Value]) -> Result<Value, EvalError> {
        match (self, arguments) {
            (Self::CeilDiv, &[a, b]) => ceil_div(a, b, "ceil_div").map(Value::Int),
            (Self::RoundUp, &[a, b]) => ceil_div(a, b, "round_up")?
                .checked_mul(whole(b)?)
                .map(Value::Int)
                .ok_or(EvalError::Overflow("round_up")),
            (Self::Abs, &[Value::Int(value)]) => value
                .checked_abs()
                .map(Value::Int)
                .ok_or(EvalError::Overflow("abs")),
            (Self::Abs, &[Value::Float(value)]) => Ok(Value::Float(value.abs())),
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
            // The parser has counted the arguments.
            _ => Err(EvalError::NoNumber("a call without its arguments")),
        }
    }
}

fn ceil_div(a: Value, b: Value, function: &'static str) -> Result<i64, EvalError> {
    let (a, b) = (whole(a)?, whole(b)?);
    let positive = |value: i64, least: i64, needs: &'static str| {
        if value >= least {
            return Ok(());
        }
        Err(EvalError::Domain {
            function,
            needs,
            got: Value::Int(value),
        })
    };
    positive(a, 0, "a dividend of at least 0")?;
    positive(b, 1, "a divisor of at least 1")?;
    Ok(a / b + i64::from(a % b != 0))
}

fn whole(value: Value) -> Result<i64, EvalError> {
    match value {
        Value::Int(value) => Ok(value),
        // Beyond 2^53 neighbouring integers share one f64.
        Value::Float(float) if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 => {
            Ok(float as i64)
        }
        Value::Float(_) => Err(EvalError::NotWhole(value)),
    }
}

fn finite(value: f64, what: &'static str) -> Result<Value, EvalError> {
    if value.is_finite() {
        Ok(Value::Float(value))
    } else {
        Err(EvalError::NoNumber(what))
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Value),
    Name(Name),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "`{value}`"),
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Symbol(symbol) => write!(f, "`{symbol}`"),
        }
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 17] = [
    "<=", ">=", "==", "!=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", ",",
];

fn lex(text: &str) -> Result<Vec<(usize, Token)>, ExprError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let column = text.chars().count() - rest.chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let error = |message: String| ExprError { message, column };
        if tokens.len() == MAX_TOKENS {
            return Err(error(format!(
                "longer than {MAX_TOKENS} numbers, names and operators"
            )));
        }
        let (token, length) = if first.is_ascii_digit() {
            number(rest).map_err(error)?
        } else if is_name_start(first) {
            name(rest).map_err(error)?
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            return Err(error(match first {
                '=' => "`=` is no operator; compare with `==`".to_owned(),
                '&' | '|' => format!("`{first}` is no operator; write it twice"),
                '.' => "a number starts with a digit: `0.5`".to_owned(),
                other => format!("unexpected {other:?}"),
            }));
        };
        tokens.push((column, token));
        rest = rest.get(length..).unwrap_or("");
    }
}

fn is_name_start(char: char) -> bool {
    char.is_ascii_alphabetic() || char == '_'
}

fn is_name_part(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Whether `text` can be referred to in an expression.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(is_name_start) && text.chars().all(is_name_part)
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A number at the start of `text`, and its length in bytes.
fn number(text: &str) -> Result<(Token, usize), String> {
    let tail = |from: usize| text.get(from..).unwrap_or("");
    let mut length = digits(text);
    let mut is_float = false;
    if let Some(fraction) = tail(length).strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return Err("a decimal point needs a digit after it".to_owned());
        }
        (length, is_float) = (length + 1 + count, true);
    }
    if let Some(exponent) = tail(length).strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(exponent.get(sign..).unwrap_or(""));
        if count > 0 {
            (length, is_float) = (length + 1 + sign + count, true);
        }
    }
    let literal = text.get(..length).unwrap_or("");
    let suffix: String = tail(length)
        .chars()
        .take_while(|&char| is_name_part(char) || matches!(char, 'µ' | 'μ'))
        .collect();
    let factor = match suffix.as_str() {
        "" => 1,
        suffix => {
            unit(suffix)
                .ok_or_else(|| {
                    format!("`{suffix}` after a number is no unit (KiB, KB, us, ms, ...)")
                })?
                .1
        }
    };
    let too_large = || format!("{literal}{suffix} is too large");
    let value = if is_float {
        let value = literal.parse::<f64>().map_err(|_| too_large())? * factor as f64;
        finite(value, "").map_err(|_| too_large())?
    } else {
        let value: i64 = literal.parse().map_err(|_| too_large())?;
        Value::Int(value.checked_mul(factor).ok_or_else(too_large)?)
    };
    Ok((Token::Number(value), length + suffix.len()))
}

/// A name at the start of `text`, and its length in bytes.
fn name(text: &str) -> Result<(Token, usize), String> {
    let part = |text: &str| {
        text.bytes()
            .take_while(|&byte| is_name_part(byte.into()))
            .count()
    };
    let split = |at: usize| text.split_at_checked(at).unwrap_or((text, ""));
    let (owner, tail) = split(part(text));
    let Some(member) = tail.strip_prefix('.') else {
        return Ok((Token::Name(Name::plain(owner)), owner.len()));
    };
    let (member, tail) = member
        .split_at_checked(part(member))
        .unwrap_or((member, ""));
    if !is_identifier(member) || tail.starts_with('.') {
        return Err(format!(
            "after `{owner}.` stands one name, as in `stage1.p50`"
        ));
    }
    let length = owner.len() + 1 + member.len();
    Ok((
        Token::Name(Name::Dotted(owner.to_owned(), member.to_owned())),
        length,
    ))
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    next: usize,
    /// Column behind the last character.
    end: usize,
    names: BTreeSet<Name>,
}

type Typed = (Node, Kind);

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn column(&self) -> usize {
        self.tokens
            .get(self.next)
            .map_or(self.end, |(column, _)| *column)
    }

    fn error(&self, message: impl Into<String>) -> ExprError {
        ExprError {
            message: message.into(),
            column: self.column(),
        }
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol);
        self.next += usize::from(found);
        found
    }

    /// Precedence climbing: operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Typed, ExprError> {
        let mut left = self.unary()?;
        while let Some(operator) = self.peek().and_then(Operator::from_token)
            && operator.precedence() >= least
        {
            let column = self.column();
            self.next += 1;
            let right = self.expression(operator.precedence() + 1)?;
            left = operator
                .join(left, right)
                .map_err(|message| ExprError { message, column })?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Typed, ExprError> {
        let column = self.column();
        let error = |message: &str| ExprError {
            message: message.to_owned(),
            column,
        };
        if self.eat("-") {
            return match self.unary()? {
                (node, Kind::Number) => Ok((Node::Negate(Box::new(node)), Kind::Number)),
                _ => Err(error("`-` needs a number, not a condition")),
            };
        }
        if self.eat("!") {
            return match self.unary()? {
                (node, Kind::Truth) => Ok((Node::Not(Box::new(node)), Kind::Truth)),
                _ => Err(error("`!` needs a condition, not a number")),
            };
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Typed, ExprError> {
        match self.peek() {
            Some(Token::Number(value)) => {
                self.next += 1;
                Ok((Node::Number(*value), Kind::Number))
            }
            Some(Token::Name(name)) => {
                let column = self.column();
                self.next += 1;
                if self.eat("(") {
                    return self.call(name, column);
                }
                self.names.insert(name.clone());
                Ok((Node::Variable(name.clone()), Kind::Number))
            }
            Some(Token::Symbol("(")) => {
                self.next += 1;
                let inner = self.expression(0)?;
                if self.eat(")") {
                    return Ok(inner);
                }
                Err(self.error("`)` is missing"))
            }
            Some(token) => Err(self.error(format!("unexpected {token}"))),
            None => Err(self.error("a number or a name is missing")),
        }
    }

    /// Behind the opening parenthesis.
    fn call(&mut self, name: &Name, column: usize) -> Result<Typed, ExprError> {
        let error = |message: String| ExprError { message, column };
        let function = match name {
            Name::Plain(name) => Function::from_name(name),
            Name::Dotted(..) => None,
        };
        let function = function.ok_or_else(|| {
            let known: Vec<_> = Function::ALL.iter().map(|(name, _)| *name).collect();
            error(format!(
                "`{name}` is no function; there are {}",
                known.join(", ")
            ))
        })?;
        let mut arguments = Vec::new();
        if !self.eat(")") {
            loop {
                let (node, kind) = self.expression(0)?;
                if kind != Kind::Number {
                    return Err(error(format!("`{name}` takes numbers, not conditions")));
                }
                arguments.push(node);
                if self.eat(")") {
                    break;
                }
                if !self.eat(",") {
                    return Err(self.error("`)` is missing"));
                }
            }
        }
        let (wanted, fits) = function.arity();
        if !fits(arguments.len()) {
            return Err(error(format!(
                "`{name}` takes {wanted}, not {}",
                arguments.len()
            )));
        }
        Ok((Node::Call(function, arguments), Kind::Number))
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Compare(Comparison),
    Arithmetic(Arithmetic),
}

impl Operator {
    fn from_token(token: &Token) -> Option<Self> {
        let Token::Symbol(symbol) = token else {
            return None;
        };
        Some(match *symbol {
            "||" => Self::Or,
            "&&" => Self::And,
            "<" => Self::Compare(Comparison::Lt),
            "<=" => Self::Compare(Comparison::Le),
            "==" => Self::Compare(Comparison::Eq),
            "!=" => Self::Compare(Comparison::Ne),
            ">=" => Self::Compare(Comparison::Ge),
            ">" => Self::Compare(Comparison::Gt),
            "+" => Self::Arithmetic(Arithmetic::Add),
            "-" => Self::Arithmetic(Arithmetic::Subtract),
            "*" => Self::Arithmetic(Arithmetic::Multiply),
            "/" => Self::Arithmetic(Arithmetic::Divide),
            "%" => Self::Arithmetic(Arithmetic::Remainder),
            _ => return None,
        })
    }

    fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Compare(_) => 3,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => 4,
            Self::Arithmetic(_) => 5,
        }
    }

    fn join(self, (left, left_kind): Typed, (right, right_kind): Typed) -> Result<Typed, String> {
        let operands = Box::new([left, right]);
        let all = |kind| left_kind == kind && right_kind == kind;
        match self {
            Self::Or if all(Kind::Truth) => Ok((Node::Or(operands), Kind::Truth)),
            Self::And if all(Kind::Truth) => Ok((Node::And(operands), Kind::Truth)),
            Self::Or | Self::And => Err("`&&` and `||` join conditions, not numbers".to_owned()),
            Self::Compare(comparison) if all(Kind::Number) => {
                Ok((Node::Compare(comparison, operands), Kind::Truth))
            }
            Self::Compare(_) => {
                Err("a comparison cannot be compared; join two with `&&`".to_owned())
            }
            Self::Arithmetic(operator) if all(Kind::Number) => {
                Ok((Node::Arithmetic(operator, operands), Kind::Number))
            }
            Self::Arithmetic(_) => Err("arithmetic needs numbers, not conditions".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn env(values: &[(&str, Value)]) -> Env {
        values
            .iter()
            .map(|(name, value)| {
                let name = match name.split_once('.') {
                    Some((owner, name)) => Name::Dotted(owner.into(), name.into()),
                    None => Name::plain(*name),
                };
                (name, *value)
            })
            .collect()
    }

    fn value(text: &str) -> Result<Value, EvalError> {
        let dims = env(&[
            ("S", Value::Int(77)),
            ("D", Value::Int(64)),
            ("BIG", Value::Int(i64::MAX)),
            ("half", Value::Float(0.5)),
        ]);
        Expression::parse(text).unwrap().value(&dims)
    }

    fn truth(text: &str, values: &[(&str, f64)]) -> Result<bool, EvalError> {
        let values: Vec<_> = values
            .iter()
            .map(|&(name, value)| (name, Value::Float(value)))
            .collect();
        Expression::parse(text).unwrap().truth(&env(&values))
    }

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("1 + 2 * 3", Value::Int(7)),
            ("(1 + 2) * 3", Value::Int(9)),
            ("10 - 3 - 2", Value::Int(5)),
            ("-2 * -3", Value::Int(6)),
            ("7 % 4", Value::Int(3)),
            ("128 / 64", Value::Int(2)),
            ("S / 64", Value::Float(77.0 / 64.0)),
            ("1 / sqrt(D)", Value::Float(0.125)),
            ("ceil_div(S, 64)", Value::Int(2)),
            ("round_up(S, 32) * 4", Value::Int(384)),
            ("min(S, D, 100)", Value::Int(64)),
            ("max(half, 0)", Value::Float(0.5)),
            ("abs(-3)", Value::Int(3)),
            ("log2(D)", Value::Float(6.0)),
            ("48KiB", Value::Int(49152)),
            ("1.5ms", Value::Float(1_500_000.0)),
            ("2e-3", Value::Float(0.002)),
            ("BIG", Value::Int(i64::MAX)),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nothing_is_truncated_or_wrapped() {
        let integer = |text: &str| {
            Expression::parse(text)
                .unwrap()
                .integer(&env(&[("S", Value::Int(77))]))
        };
        assert_eq!(
            integer("S / 64"),
            Err(EvalError::NotWhole(Value::Float(77.0 / 64.0)))
        );
        assert_eq!(integer("S / 7"), Ok(11));
        assert_eq!(integer("2.0 * S"), Ok(154));
        assert!(integer("1e300").is_err());
        for (text, error) in [
            ("BIG + 1", EvalError::Overflow("+")),
            ("BIG * 2", EvalError::Overflow("*")),
            ("-(-BIG - 1)", EvalError::Overflow("-")),
            ("1 / (S - 77)", EvalError::DivisionByZero),
            ("1 % 0", EvalError::DivisionByZero),
            ("half / 0", EvalError::DivisionByZero),
            ("1e300 * 1e300", EvalError::NoNumber("*")),
            ("sqrt(-1)", EvalError::NoNumber("sqrt")),
            ("log2(0)", EvalError::NoNumber("log2")),
            ("ceil_div(half, 2)", EvalError::NotWhole(Value::Float(0.5))),
        ] {
            assert_eq!(value(text), Err(error), "{text}");
        }
        assert_eq!(
            value("ceil_div(S, 0)").unwrap_err().to_string(),
            "ceil_div needs a divisor of at least 1, got 0"
        );
    }

    #[test]
    fn conditions_compare_exactly() {
        let condition = "tensor_active >= 50 || dram_throughput < 50";
        let with = |a, b| truth(condition, &[("tensor_active", a), ("dram_throughput", b)]);
        assert_eq!(with(60.0, 10.0), Ok(true));
        assert_eq!(with(60.0, 90.0), Ok(true));
        assert_eq!(with(10.0, 10.0), Ok(true));
        assert_eq!(with(10.0, 90.0), Ok(false));
        assert_eq!(truth("x <= 0", &[("x", 1e-17)]), Ok(false));
        assert_eq!(truth("x != 1", &[("x", 1.0 + f64::EPSILON)]), Ok(true));
        assert_eq!(truth("!(x < 1) && x == 1", &[("x", 1.0)]), Ok(true));
        assert_eq!(truth("n == 0 || 1 / n < 5", &[("n", 0.0)]), Ok(true));
    }

    #[test]
    fn a_missing_or_non_finite_metric_is_never_true_by_short_circuit() {
        let missing = EvalError::Missing(BTreeSet::from([
            Name::Dotted("stage1".into(), "p50".into()),
            Name::plain("b"),
        ]));
        let error = truth("a >= 0 || b < stage1.p50", &[("a", 1.0)]).unwrap_err();
        assert_eq!(error, missing);
        assert_eq!(error.to_string(), "no value for b, stage1.p50");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(
                truth("a >= 0 || b < 1", &[("a", 1.0), ("b", value)]),
                Err(EvalError::NonFinite(Name::plain("b")))
            );
        }
    }

    #[test]
    fn names_are_listed() {
        let expression = Expression::parse("0.90 * stage1.p50 + min(D, D) - ns").unwrap();
        let names: Vec<_> = expression.names().iter().map(Name::to_string).collect();
        assert_eq!(names, ["D", "ns", "stage1.p50"]);
        assert_eq!(expression.kind(), Kind::Number);
        assert_eq!(Expression::parse("a < 1").unwrap().kind(), Kind::Truth);
    }

    #[test]
    fn mistakes_name_their_column() {
        for (text, column, message) in [
            ("", 1, "a number or a name is missing"),
            ("1 +", 4, "a number or a name is missing"),
            ("ceil_div(S, 64", 15, "`)` is missing"),
            ("(1", 3, "`)` is missing"),
            ("1 2", 3, "unexpected `2`"),
            ("a = 1", 3, "`=` is no operator; compare with `==`"),
            ("a & b", 3, "`&` is no operator; write it twice"),
            ("\"a\"", 1, "unexpected '\"'"),
            ("[1]", 1, "unexpected '['"),
            ("a; b", 2, "unexpected ';'"),
            (".5", 1, "a number starts with a digit: `0.5`"),
            ("1.", 1, "a decimal point needs a digit after it"),
            (
                "0x10",
                1,
                "`x10` after a number is no unit (KiB, KB, us, ms, ...)",
            ),
            (
                "99999999999999999999",
                1,
                "99999999999999999999 is too large",
            ),
            ("a.b.c", 1, "after `a.` stands one name, as in `stage1.p50`"),
            ("a. b", 1, "after `a.` stands one name, as in `stage1.p50`"),
            (
                "pow(2, 3)",
                1,
                "`pow` is no function; there are ceil_div, round_up, min, max, abs, sqrt, log2",
            ),
            ("2 * sqrt()", 5, "`sqrt` takes one argument, not 0"),
            ("min(1)", 1, "`min` takes two or more arguments, not 1"),
            ("sqrt(a < 1)", 1, "`sqrt` takes numbers, not conditions"),
            (
                "0 <= x <= 1",
                8,
                "a comparison cannot be compared; join two with `&&`",
            ),
            (
                "a || b < 1",
                3,
                "`&&` and `||` join conditions, not numbers",
            ),
            ("(a < 1) + 1", 9, "arithmetic needs numbers, not conditions"),
            ("!a", 1, "`!` needs a condition, not a number"),
            ("-(a < 1)", 1, "`-` needs a number, not a condition"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert_eq!(
                (error.column, error.message.as_str()),
                (column, message),
                "{text}"
            );
        }
    }

    #[test]
    fn length_and_depth_are_bounded() {
        for text in [
            "(".repeat(100_000),
            "-".repeat(100_000),
            "1+".repeat(100_000),
            "min(1,".repeat(100_000),
        ] {
            assert_eq!(
                Expression::parse(&text).unwrap_err().message,
                "longer than 200 numbers, names and operators"
            );
        }
        let deep = format!("{}1{}", "(".repeat(99), ")".repeat(99));
        assert_eq!(
            Expression::parse(&deep).unwrap().integer(&Env::new()),
            Ok(1)
        );
        let long = format!("1{}", "+1".repeat(99));
        assert_eq!(
            Expression::parse(&long).unwrap().integer(&Env::new()),
            Ok(100)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            let _ = Expression::parse(&text);
        }

        #[test]
        fn arbitrary_expressions_never_panic(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("a".to_owned()), Just("b.c".to_owned()), Just("sqrt(".to_owned()),
                    Just("ceil_div(".to_owned()), any::<i64>().prop_map(|n| n.to_string()),
                    any::<f64>().prop_map(|n| format!("{n:e}")),
                    proptest::sample::select(SYMBOLS.to_vec()).prop_map(str::to_owned),
                ],
                0..12,
            ),
            a in any::<f64>(),
            b in any::<i64>(),
        ) {
            if let Ok(expression) = Expression::parse(&parts.join(" ")) {
                let env = env(&[("a", Value::Float(a)), ("b.c", Value::Int(b))]);
                match expression.kind() {
                    Kind::Number => if let Ok(value) = expression.number(&env) {
                        prop_assert!(value.is_finite());
                    },
                    Kind::Truth => { let _ = expression.truth(&env); }
                }
                let _ = expression.integer(&env);
            }
        }

        #[test]
        fn sums_and_products_agree_with_rust(a in -1000i64..1000, b in -1000i64..1000, c in 1i64..1000) {
            let text = format!("{a} + {b} * {c} - ({a} - {b}) * {c}");
            let value = Expression::parse(&text).unwrap().integer(&Env::new());
            prop_assert_eq!(value, Ok(a + b * c - (a - b) * c));
        }
    }
}
