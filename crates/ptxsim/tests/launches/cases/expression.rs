//! Whole numbers as a function of an element's index: `1000 + i / 64 * (i % 3 == 0 ? 2 : 1)`. The operators are those of C,
//! with its order; `sum(t, 0, 7, t * i)` adds up the last part for t from 0 to 6, and `random(9, i)` is number i of
//! [`Random`](crate::common::Random) that began with 9.

use crate::common::Random;

/// Returns the value at an index.
pub fn evaluate(text: &str, index: usize) -> i128 {
    let mut parser = Parser {
        text,
        at: 0,
        names: vec![("i", index as i128)],
    };
    let value = parser.choice();
    assert_eq!(parser.rest().trim(), "", "in `{text}`");
    value
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    names: Vec<(&'a str, i128)>,
}

/// The operators, from the loosest to the tightest. Of two that begin alike the longer one comes first.
const LEVELS: [&[&str]; 8] = [
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Steps over a word if it is next.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let is_next = trimmed.starts_with(word);
        if is_next {
            self.at += rest.len() - trimmed.len() + word.len();
        }
        is_next
    }

    fn expect(&mut self, word: &str) {
        assert!(self.takes(word), "no `{word}` before `{}`", self.rest());
    }

    fn choice(&mut self) -> i128 {
        let condition = self.level(0);
        if !self.takes("?") {
            return condition;
        }
        let yes = self.choice();
        self.expect(":");
        let no = self.choice();
        if condition != 0 { yes } else { no }
    }

    fn level(&mut self, level: usize) -> i128 {
        let Some(operators) = LEVELS.get(level) else {
            return self.primary();
        };
        let mut left = self.level(level + 1);
        // The `<` of `<<` belongs to a tighter level, which has taken it.
        while let Some(operator) = operators.iter().find(|operator| self.takes(operator)) {
            let right = self.level(level + 1);
            left = apply(operator, left, right);
        }
        left
    }

    fn primary(&mut self) -> i128 {
        if self.takes("-") {
            return -self.primary();
        }
        if self.takes("(") {
            let value = self.choice();
            self.expect(")");
            return value;
        }
        let word = self.word();
        if word == "sum" {
            return self.sum();
        }
        if word == "random" {
            self.expect("(");
            let seed = self.choice() as u64;
            self.expect(",");
            let number = self.choice() as u64;
            self.expect(")");
            return i128::from(Random(seed).skip(number).next());
        }
        if let Some((_, value)) = self.names.iter().rev().find(|(name, _)| *name == word) {
            return *value;
        }
        match word.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => word.parse(),
        }
        .unwrap_or_else(|_| panic!("`{word}` in `{}`", self.text))
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest().trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.expect(&rest[..end]);
        &rest[..end]
    }

    fn sum(&mut self) -> i128 {
        self.expect("(");
        let name = self.word();
        self.expect(",");
        let from = self.choice();
        self.expect(",");
        let to = self.choice();
        self.expect(",");
        let begin = self.at;
        let mut sum = 0;
        for value in from..to {
            self.at = begin;
            self.names.push((name, value));
            sum += self.choice();
            self.names.pop();
        }
        self.expect(")");
        sum
    }
}

fn apply(operator: &str, left: i128, right: i128) -> i128 {
    match operator {
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => i128::from(left == right),
        "!=" => i128::from(left != right),
        "<=" => i128::from(left <= right),
        ">=" => i128::from(left >= right),
        "<" => i128::from(left < right),
        ">" => i128::from(left > right),
        "<<" => left << right,
        ">>" => left >> right,
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        _ => left % right,
    }
}

#[test]
fn expressions_have_the_values_that_c_gives_them() {
    for (text, value) in [
        ("2 + 3 * i - 1", 22),
        ("i % 4 == 3 ? 5 : 6", 5),
        ("1 << 3 | 0x10", 24),
        ("-(i - 8) * 2", 2),
        ("i ^ 1 & 5", 6),
        ("i < 7 ? 1 : i >= 7 ? 2 : 3", 2),
        ("10 - 3 - 2", 5),
        ("sum(t, 1, 4, t * i) + 1", 43),
    ] {
        assert_eq!(evaluate(text, 7), value, "{text}");
    }
}
