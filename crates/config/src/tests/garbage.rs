//! Reads damaged files. The answer is always a message.

use super::super::context::Context;
use super::super::limit::read_limit;
use super::super::scope::Scope;
use super::super::yaml::{Position, Spanned};
use super::{RIGHT, read};
use model::expr::Expression;
use model::{Bound, Facet, Limit, Margin, Metric, Num, Op};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn depth_and_aliases_are_bounded() {
    let deep = |open: &str, close: &str| {
        format!(
            "version: 1\nkernels: {}{}\n",
            open.repeat(5000),
            close.repeat(5000)
        )
    };
    let nested: String = (0..500)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let mut bomb = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    for text in [deep("[", "]"), deep("{a: ", "}"), nested, bomb] {
        assert!(read(&text).is_err());
    }
    // Depths up to the reader's limit and beyond are tried, because nested types recurse on the stack.
    for depth in [10, 13, 14, 1000] {
        let args = format!(
            "[{}{{i32: 1}}{}]",
            "{struct: [".repeat(depth),
            "]}".repeat(depth)
        );
        let _ = read(&RIGHT.replace("[{tensor: x}, {tensor: y}, {i32: N}, {f32: 0.5}]", &args));
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        let _ = read(&text);
    }

    #[test]
    fn arbitrary_lines_never_panic(text in "version: 1\n([a-z: &*<\\[\\]{}'\"|>!,0-9-]{0,20}\n){0,6}") {
        let _ = read(&text);
    }

    /// Replaces one piece of a correct file with another piece of it, or with something odd.
    #[test]
    fn shuffled_files_never_panic(
        from in 0..RIGHT.len(),
        length in 0usize..12,
        with in prop_oneof![
            (0..RIGHT.len(), 0usize..12)
                .prop_map(|(at, length)| RIGHT.chars().skip(at).take(length).collect::<String>()),
            proptest::sample::select(vec![
                "null", "~", "-1", "1e999", ".inf", "99999999999999999999", "''", "[]", "{}", "*x", "&x",
                "!!binary ab", "<<: {}", "\u{0}", "\u{feff}", "é", "\t", "---", "? ", "N / 0", "((((",
                "0 % 0", "-9223372036854775808",
            ]).prop_map(str::to_owned),
        ],
    ) {
        let text: String = RIGHT.chars().take(from).collect::<String>()
            + &with
            + &RIGHT.chars().skip(from + length).collect::<String>();
        if let Err(said) = read(&text) {
            prop_assert!(said.starts_with("gates.yaml"), "{}", said);
        }
    }

    /// Checks that a limit that is accepted can be held and can be broken.
    #[test]
    fn arbitrary_limits_are_refused_or_sound(
        metric in proptest::sample::select(Metric::ALL.to_vec()),
        text in prop_oneof![
            "[<>=]{0,2} ?-?[0-9]{1,4}(\\.[0-9]{1,3})?(%|KiB|us|ms|e9|e-9)?",
            "[+-][0-9.]{1,5}%",
            "[<>=]{1,2} [a-zA-Z0-9.+*/() -]{1,12}",
            ".*",
        ],
    ) {
        let (dims, defines) = (BTreeMap::new(), BTreeMap::new());
        let scope = Scope::new("s", &dims, &defines);
        let context = Context {
            scope: &scope,
            unit: metric.facet() == Facet::Resources,
            variant: "a",
            siblings: &[],
            dims: &[],
            rivals: &[],
            has_codec: true,
            has_output: true,
            launcher: false,
            compiled: true,
        };
        let spot = Spanned { value: text, at: Position::default() };
        match read_limit(&spot, metric, &context) {
            Ok(Limit::Absolute { bound: Bound::Value(Num(value)), op }) => {
                prop_assert!(value.is_finite() && value >= 0.0);
                let worst = if metric.larger_is_better() { 0.0 } else { f64::MAX };
                prop_assert!(!op.holds(worst, value) || metric.larger_is_better() && op == Op::Eq);
            }
            Ok(Limit::Baseline { change } | Limit::Anchor { change, .. }) => match change {
                Margin::Share(Num(share)) => prop_assert!((0.0..=10.0).contains(&share)),
                Margin::Amount { .. } => prop_assert!(metric.has_amounts()),
            },
            Ok(Limit::Base { change: Num(change) }) => prop_assert!((0.0..=10.0).contains(&change)),
            Ok(Limit::Absolute { bound: Bound::Expr(expr), .. }) => {
                prop_assert!(Expression::parse(&expr.text).is_ok());
            }
            Err(problem) => prop_assert!(!problem.message.is_empty()),
        }
    }
}

#[test]
fn every_line_can_go_missing() {
    let lines: Vec<&str> = RIGHT.lines().collect();
    for gone in 0..lines.len() {
        let text: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != gone)
            .map(|(_, line)| *line)
            .collect();
        if let Err(said) = read(&text.join("\n")) {
            assert!(said.starts_with("gates.yaml:"), "{said}");
        }
    }
}
