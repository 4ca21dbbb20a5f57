//! Parses text to a typed tree.

use super::{
    Arithmetic, Comparison, ExprError, ExprValue, Expression, Function, Name, Node, SIZE_OF,
    ValueKind, finite, size_of, unit,
};
use std::collections::BTreeSet;
use std::fmt;

/// The greatest number of tokens. It bounds parsing, nesting and evaluation alike.
const MAX_TOKENS: usize = 200;

pub(super) fn expression(text: &str) -> Result<Expression, ExprError> {
    let tokens = lex(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        next: 0,
        end: text.chars().count() + 1,
        names: BTreeSet::new(),
    };
    let (root, kind) = parser.expression(0)?;
    match parser.peek() {
        None => Ok(Expression {
            root,
            kind,
            names: parser.names,
        }),
        Some(token) => Err(parser.error(format!("unexpected {token}"))),
    }
}

/// Returns the text with names replaced and everything else unchanged. A text that is not an expression stays as it is.
pub fn rename(text: &str, new: &dyn Fn(&Name) -> Name) -> String {
    let tokens = lex(text).unwrap_or_default();
    let mut chars = text.chars();
    let (mut at, mut renamed) = (1, String::new());
    for (column, token) in tokens {
        let Token::Name(name) = token else { continue };
        renamed.extend(chars.by_ref().take(column - at));
        renamed += &new(&name).to_string();
        let length = name.to_string().chars().count();
        chars.by_ref().take(length).for_each(drop);
        at = column + length;
    }
    renamed.extend(chars);
    renamed
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(ExprValue),
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

/// All symbols of the language, longer ones first.
pub(super) const SYMBOLS: [&str; 17] = [
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
                '=' => "`=` is not an operator; use `==`".to_owned(),
                '&' | '|' => format!("`{first}` is not an operator; use `{first}{first}`"),
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

/// Returns true if `text` can be referred to in an expression.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(is_name_start) && text.chars().all(is_name_part)
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns true if the text after a number makes it a percentage: a sign follows directly, and no second operand that
/// would make the sign a remainder.
fn is_percent(tail: &str) -> bool {
    let Some(rest) = tail.strip_prefix('%').map(str::trim_start) else {
        return false;
    };
    rest.is_empty()
        || rest.starts_with([')', ',', '<', '>', '=', '!', '&', '|', '+', '*', '/', '%'])
}

/// Reads a number at the start of `text`, and returns its length in bytes.
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
    if is_percent(tail(length)) {
        let too_large = || format!("{literal}% is too large");
        let value = literal.parse::<f64>().map_err(|_| too_large())? / 100.0;
        let value = finite(value, "").map_err(|_| too_large())?;
        return Ok((Token::Number(value), length + 1));
    }
    let suffix: String = tail(length)
        .chars()
        .take_while(|&char| is_name_part(char) || matches!(char, 'µ' | 'μ'))
        .collect();
    let factor = match suffix.as_str() {
        "" => 1,
        suffix => {
            unit(suffix)
                .ok_or_else(|| {
                    format!("`{suffix}` after a number is not a unit (KiB, KB, us, ms, ...)")
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
        ExprValue::Int(value.checked_mul(factor).ok_or_else(too_large)?)
    };
    Ok((Token::Number(value), length + suffix.len()))
}

/// Reads a name at the start of `text`, and returns its length in bytes.
fn name(text: &str) -> Result<(Token, usize), String> {
    let dotted = |byte: &u8| is_name_part((*byte).into()) || *byte == b'.';
    let length = text.bytes().take_while(dotted).count();
    let text = text.get(..length).unwrap_or("");
    let parts: Vec<&str> = text.split('.').collect();
    let name = match parts[..] {
        [name] => Name::plain(name),
        [owner, name] => Name::Dotted(owner.to_owned(), name.to_owned()),
        [rival, backend, name] => {
            Name::Rival(rival.to_owned(), backend.to_owned(), name.to_owned())
        }
        _ => return Err(format!("`{text}` has more than three parts")),
    };
    match parts.iter().find(|part| !is_identifier(part)) {
        None => Ok((Token::Name(name), length)),
        Some(_) => Err(format!(
            "`{text}` is not a name: write p50, stage1.p50 or torch.flash.p50"
        )),
    }
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    next: usize,
    /// The column after the last character.
    end: usize,
    names: BTreeSet<Name>,
}

type Typed = (Node, ValueKind);

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

    /// Parses operators that bind at least as tightly as `least`, by precedence climbing.
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
                (node, ValueKind::Number) => Ok((Node::Negate(Box::new(node)), ValueKind::Number)),
                _ => Err(error("`-` needs a number, not a condition")),
            };
        }
        if self.eat("!") {
            return match self.unary()? {
                (node, ValueKind::Truth) => Ok((Node::Not(Box::new(node)), ValueKind::Truth)),
                _ => Err(error("`!` needs a condition, not a number")),
            };
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Typed, ExprError> {
        match self.peek() {
            Some(Token::Number(value)) => {
                self.next += 1;
                Ok((Node::Number(*value), ValueKind::Number))
            }
            Some(Token::Name(name)) => {
                let column = self.column();
                self.next += 1;
                if self.eat("(") {
                    return self.call(name, column);
                }
                self.names.insert(name.clone());
                Ok((Node::Variable(name.clone()), ValueKind::Number))
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

    /// Parses the rest of `sizeof` after its opening parenthesis.
    fn size(&mut self) -> Result<Typed, ExprError> {
        let Some(Token::Name(Name::Plain(of))) = self.peek() else {
            return Err(self.error(format!("`{SIZE_OF}` takes a type: f16, i32, float")));
        };
        self.next += 1;
        if !self.eat(")") {
            return Err(self.error("`)` is missing"));
        }
        let node = match size_of(of) {
            Some(bytes) => Node::Number(ExprValue::Int(bytes)),
            None => {
                let name = Name::plain(format!("{SIZE_OF}({of})"));
                self.names.insert(name.clone());
                Node::Variable(name)
            }
        };
        Ok((node, ValueKind::Number))
    }

    /// Parses the rest of a call after its opening parenthesis.
    fn call(&mut self, name: &Name, column: usize) -> Result<Typed, ExprError> {
        let error = |message: String| ExprError { message, column };
        if *name == Name::plain(SIZE_OF) {
            return self.size();
        }
        let function = match name {
            Name::Plain(name) => Function::from_name(name),
            Name::Dotted(..) | Name::Rival(..) => None,
        };
        let function = function.ok_or_else(|| {
            let known = Function::ALL.iter().map(|(name, _)| *name);
            let known: Vec<_> = known.chain([SIZE_OF]).collect();
            error(format!(
                "`{name}` is not a function; there are {}",
                known.join(", ")
            ))
        })?;
        let mut arguments = Vec::new();
        if !self.eat(")") {
            loop {
                let (node, kind) = self.expression(0)?;
                if kind != ValueKind::Number {
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
        Ok((Node::Call(function, arguments), ValueKind::Number))
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
            Self::Or if all(ValueKind::Truth) => Ok((Node::Or(operands), ValueKind::Truth)),
            Self::And if all(ValueKind::Truth) => Ok((Node::And(operands), ValueKind::Truth)),
            Self::Or | Self::And => Err("`&&` and `||` join conditions, not numbers".to_owned()),
            Self::Compare(comparison) if all(ValueKind::Number) => {
                Ok((Node::Compare(comparison, operands), ValueKind::Truth))
            }
            Self::Compare(_) => {
                Err("a comparison cannot be compared; join two with `&&`".to_owned())
            }
            Self::Arithmetic(operator) if all(ValueKind::Number) => {
                Ok((Node::Arithmetic(operator, operands), ValueKind::Number))
            }
            Self::Arithmetic(_) => Err("arithmetic needs numbers, not conditions".to_owned()),
        }
    }
}
