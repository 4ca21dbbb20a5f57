//! The tokens of a text that decide what it executes, for a digest of it.
//!
//! Two texts with the same tokens give the parser the same module, but for positions and source lines: it sees white
//! space and comments through [`Scanner::skip`] alone, and a token says whether any was before it. What is left out is
//! read by the parser's own functions, so that a `.loc` ends here where it ends there.

use super::scan::is_name_start;
use super::{Module, ParseError, Parser};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// True if white space, a comment or something that the parser leaves out precedes the token.
    pub is_apart: bool,
}

/// Returns all tokens but those of `.version`, `.target`, `.file`, `.loc` and debug sections.
///
/// # Errors
/// Where the text has something that the parser cannot read either.
pub fn code_tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut parser = Parser::new(text);
    let mut left_out = Module::default();
    let mut tokens = Vec::new();
    let mut is_apart = true;
    loop {
        let before = parser.s;
        let Some(first) = parser.s.peek()? else {
            return Ok(tokens);
        };
        is_apart |= !parser.s.text_since(&before).is_empty();
        let start = parser.s;
        match first {
            b'.' => match parser.s.directive()? {
                ".loc" => {
                    parser.loc()?;
                    is_apart = true;
                    continue;
                }
                ".version" | ".target" | ".file" | ".section" => {
                    parser.s = start;
                    parser.top_level(&mut left_out)?;
                    is_apart = true;
                    continue;
                }
                _ => {}
            },
            b'"' => drop(parser.s.string()?),
            c if is_name_start(c) => drop(parser.s.name()?),
            c if c.is_ascii_digit() => drop(parser.s.number()?),
            _ => parser.s.any(),
        }
        tokens.push(Token {
            text: parser.s.text_since(&start),
            is_apart,
        });
        is_apart = false;
    }
}
