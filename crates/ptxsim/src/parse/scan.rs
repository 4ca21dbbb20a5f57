//! Splits characters into words: white space, comments, names, numbers. It knows positions, and no grammar.

use super::ast::{Number, Pos};

/// An error in a text, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {}, column {}: {message}", pos.line, pos.column)]
pub struct ParseError {
    pub pos: Pos,
    pub message: String,
}

/// Returns an error at a position.
pub fn refuse<T>(pos: Pos, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError {
        pos,
        message: message.into(),
    })
}

/// A position in a text, and the functions that read from there on.
#[derive(Clone, Copy)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    /// The byte offset at which the present line starts.
    line_start: usize,
    inline_asm: Option<InlineAsm>,
}

/// A block that LLVM marks by two comments, named by the place where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineAsm(usize);

/// Returns true if a name can begin with this character.
pub fn is_name_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%')
}

fn is_name_part(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$')
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Scanner {
            text,
            at: 0,
            line: 1,
            line_start: 0,
            inline_asm: None,
        }
    }

    /// Returns the block of inline assembly that the position is in.
    pub fn inline_asm(&self) -> Option<InlineAsm> {
        self.inline_asm
    }

    /// Returns the line and the column of the position.
    pub fn pos(&self) -> Pos {
        let before = self.text.get(self.line_start..self.at).unwrap_or("");
        Pos {
            line: self.line,
            column: before.chars().count() as u32 + 1,
        }
    }

    /// Returns an error at the position.
    pub fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        refuse(self.pos(), message)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn next_char(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn advance(&mut self) {
        if self.byte(0) == Some(b'\n') {
            self.line += 1;
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    /// Skips white space and both kinds of comment.
    pub fn skip(&mut self) -> Result<(), ParseError> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(c), _) if c.is_ascii_whitespace() => self.advance(),
                (Some(b'/'), Some(b'/')) => {
                    let start = self.at;
                    while self.byte(0).is_some_and(|c| c != b'\n') {
                        self.advance();
                    }
                    match self.text.get(start..self.at).map(str::trim_end) {
                        Some("// begin inline asm") => self.inline_asm = Some(InlineAsm(start)),
                        Some("// end inline asm") => self.inline_asm = None,
                        _ => {}
                    }
                }
                (Some(b'/'), Some(b'*')) => {
                    let start = self.pos();
                    self.advance();
                    self.advance();
                    while (self.byte(0), self.byte(1)) != (Some(b'*'), Some(b'/')) {
                        if self.byte(0).is_none() {
                            return refuse(start, "unterminated comment");
                        }
                        self.advance();
                    }
                    self.advance();
                    self.advance();
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the next character that means something, without taking it.
    pub fn peek(&mut self) -> Result<Option<u8>, ParseError> {
        self.skip()?;
        Ok(self.byte(0))
    }

    /// Takes the next character if it is this one. Returns true if it was.
    pub fn take_if(&mut self, c: u8) -> Result<bool, ParseError> {
        let found = self.peek()? == Some(c);
        if found {
            self.advance();
        }
        Ok(found)
    }

    /// Takes this character. Fails if the next one is another.
    pub fn expect(&mut self, c: u8) -> Result<(), ParseError> {
        if self.take_if(c)? {
            return Ok(());
        }
        self.error(format!(
            "expected `{}`, found {}",
            c as char,
            self.describe()
        ))
    }

    /// Returns the text from an earlier place up to this one.
    pub fn text_since(&self, earlier: &Self) -> &'a str {
        self.text.get(earlier.at..self.at).unwrap_or("")
    }

    /// Takes one character, whatever it is.
    pub fn any(&mut self) {
        let length = self.next_char().map_or(1, char::len_utf8);
        (0..length).for_each(|_| self.advance());
    }

    /// Returns the text at this place, for a message.
    pub fn describe(&self) -> String {
        match self.next_char() {
            None => "the end of the text".into(),
            Some(c) if c.is_control() => format!("{c:?}"),
            Some(c) => format!("`{c}`"),
        }
    }

    /// Takes characters while they are accepted, and returns them.
    fn run(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(&accept) {
            self.advance();
        }
        self.text.get(start..self.at).unwrap_or("")
    }

    /// Reads a name without dots: `%rd1`, `$L__BB0_2`, `param0`.
    pub fn name(&mut self) -> Result<&'a str, ParseError> {
        match self.peek()? {
            Some(c) if is_name_start(c) => {
                let start = self.at;
                self.advance();
                self.run(is_name_part);
                Ok(self.text.get(start..self.at).unwrap_or(""))
            }
            _ => self.error(format!("expected a name, found {}", self.describe())),
        }
    }

    /// Reads `.x` directly behind a name (`%tid.x`), if it is there.
    pub fn dotted_suffix(&mut self) -> &'a str {
        let start = self.at;
        while self.byte(0) == Some(b'.') && self.byte(1).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.advance();
            self.run(is_name_part);
        }
        self.text.get(start..self.at).unwrap_or("")
    }

    /// Reads a directive with its dot. The next one may follow without a blank between (`.reg.b16`).
    pub fn directive(&mut self) -> Result<&'a str, ParseError> {
        self.skip()?;
        let start = self.at;
        if self.byte(0) != Some(b'.') {
            return self.error(format!("expected a directive, found {}", self.describe()));
        }
        self.advance();
        self.run(is_name_part);
        Ok(self.text.get(start..self.at).unwrap_or(""))
    }

    /// Reads the words of an instruction: letters, digits, `_`, `.` and `::`.
    pub fn dotted(&mut self) -> Result<&'a str, ParseError> {
        self.skip()?;
        let start = self.at;
        while let Some(c) = self.byte(0) {
            let colons = c == b':'
                && (self.byte(1) == Some(b':')
                    || self.at > start && self.text.as_bytes().get(self.at - 1) == Some(&b':'));
            if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.') || colons {
                self.advance();
            } else {
                break;
            }
        }
        if self.at == start {
            return self.error(format!(
                "expected an instruction, found {}",
                self.describe()
            ));
        }
        Ok(self.text.get(start..self.at).unwrap_or(""))
    }

    /// Reads `"text"`. Escapes are kept as they are written.
    pub fn string(&mut self) -> Result<&'a str, ParseError> {
        self.expect(b'"')?;
        let start = self.at;
        while self.byte(0).is_some_and(|c| c != b'"' && c != b'\n') {
            self.advance();
        }
        let text = self.text.get(start..self.at).unwrap_or("");
        self.expect(b'"')?;
        Ok(text)
    }

    /// Returns true if a number begins here.
    pub fn starts_number(&mut self) -> Result<bool, ParseError> {
        Ok(self
            .peek()?
            .is_some_and(|c| c.is_ascii_digit() || c == b'-' || c == b'+'))
    }

    /// Reads a constant (PTX ISA 4.5): integers of every base with an optional U, `0f` and `0d` with the bits in
    /// hexadecimal, decimal floating point.
    pub fn number(&mut self) -> Result<Number, ParseError> {
        let negative = self.take_if(b'-')?;
        if !negative {
            self.take_if(b'+')?;
        }
        self.skip()?;
        let pos = self.pos();
        let bad = |message: String| refuse(pos, message);
        let start = self.at;
        self.run(|c| c.is_ascii_alphanumeric());
        if self.byte(0) == Some(b'.') && self.byte(1).is_some_and(|c| c.is_ascii_digit()) {
            self.advance();
            self.run(|c| c.is_ascii_alphanumeric());
        }
        let so_far = self.text.get(start..self.at).unwrap_or("");
        let is_bits = ["0x", "0X", "0f", "0d"]
            .iter()
            .any(|mark| so_far.starts_with(mark));
        let exponent_follows = so_far.ends_with(['e', 'E']) && !is_bits;
        if exponent_follows && matches!(self.byte(0), Some(b'-' | b'+')) {
            self.advance();
            self.run(|c| c.is_ascii_digit());
        }
        let word = self.text.get(start..self.at).unwrap_or("");
        if let Some(bits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            return match u32::from_str_radix(bits, 16) {
                Ok(v) if bits.len() == 8 => Ok(Number::F32(v ^ u32::from(negative) << 31)),
                _ => bad(format!("`{word}` is not 0f and eight hexadecimal digits")),
            };
        }
        if let Some(bits) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            return match u64::from_str_radix(bits, 16) {
                Ok(v) if bits.len() == 16 => {
                    Ok(Number::F64(f64::from_bits(v ^ u64::from(negative) << 63)))
                }
                _ => bad(format!("`{word}` is not 0d and sixteen hexadecimal digits")),
            };
        }
        let digits = word.strip_suffix('U').unwrap_or(word);
        let (prefix, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (2, 16),
            [b'0', b'b' | b'B', ..] => (2, 2),
            [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => (1, 8),
            _ => (0, 10),
        };
        let digits = digits.get(prefix..).unwrap_or("");
        let parsed = u64::from_str_radix(digits, radix).ok();
        if let Some(v) = parsed {
            return Ok(Number::Int(if negative { v.wrapping_neg() } else { v }));
        }
        match word.parse::<f64>() {
            Ok(v) if word.contains(['.', 'e', 'E']) => {
                Ok(Number::F64(if negative { -v } else { v }))
            }
            _ if word.is_empty() => bad(format!("expected a number, found {}", self.describe())),
            _ => bad(format!("`{word}` is not a number of 64 bits")),
        }
    }

    /// Skips everything up to the `}` that closes an already open brace.
    pub fn skip_block(&mut self) -> Result<(), ParseError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.peek()? {
                None => return self.error("a `}` is missing before the end of the text"),
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {}
            }
            self.advance();
        }
        Ok(())
    }

    /// Skips everything up to the next `;`.
    pub fn skip_to_semicolon(&mut self) -> Result<(), ParseError> {
        loop {
            match self.peek()? {
                None => return self.error("a `;` is missing before the end of the text"),
                Some(b';') => {
                    self.advance();
                    return Ok(());
                }
                Some(_) => self.advance(),
            }
        }
    }
}
