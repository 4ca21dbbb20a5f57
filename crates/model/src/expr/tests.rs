use super::parse::SYMBOLS;
use super::*;
use proptest::prelude::*;

fn env(values: &[(&str, ExprValue)]) -> Env {
    values
        .iter()
        .map(|(name, value)| {
            let name = match name.split_once('.') {
                Some((owner, rest)) => match rest.split_once('.') {
                    Some((backend, name)) => Name::Rival(owner.into(), backend.into(), name.into()),
                    None => Name::Dotted(owner.into(), rest.into()),
                },
                None => Name::plain(*name),
            };
            (name, *value)
        })
        .collect()
}

fn value(text: &str) -> Result<ExprValue, EvalError> {
    let dims = env(&[
        ("S", ExprValue::Int(77)),
        ("D", ExprValue::Int(64)),
        ("BIG", ExprValue::Int(i64::MAX)),
        ("half", ExprValue::Float(0.5)),
    ]);
    Expression::parse(text).unwrap().value(&dims)
}

fn truth(text: &str, values: &[(&str, f64)]) -> Result<bool, EvalError> {
    let values: Vec<_> = values
        .iter()
        .map(|&(name, value)| (name, ExprValue::Float(value)))
        .collect();
    Expression::parse(text).unwrap().truth(&env(&values))
}

#[test]
fn arithmetic_has_the_usual_precedence_and_types() {
    for (text, expected) in [
        ("1 + 2 * 3", ExprValue::Int(7)),
        ("(1 + 2) * 3", ExprValue::Int(9)),
        ("10 - 3 - 2", ExprValue::Int(5)),
        ("-2 * -3", ExprValue::Int(6)),
        ("7 % 4", ExprValue::Int(3)),
        ("128 / 64", ExprValue::Int(2)),
        ("S / 64", ExprValue::Float(77.0 / 64.0)),
        ("1 / sqrt(D)", ExprValue::Float(0.125)),
        ("ceil_div(S, 64)", ExprValue::Int(2)),
        ("round_up(S, 32) * 4", ExprValue::Int(384)),
        ("min(S, D, 100)", ExprValue::Int(64)),
        ("max(half, 0)", ExprValue::Float(0.5)),
        ("abs(-3)", ExprValue::Int(3)),
        ("log2(D)", ExprValue::Float(6.0)),
        (
            "floor_div(D + 1, 8) + sizeof(f16) * sizeof(double)",
            ExprValue::Int(24),
        ),
        ("48KiB", ExprValue::Int(49152)),
        ("1.5ms", ExprValue::Float(1_500_000.0)),
        ("2e-3", ExprValue::Float(0.002)),
        ("BIG", ExprValue::Int(i64::MAX)),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_number_per_cent_is_no_remainder() {
    assert_eq!(value("50%"), Ok(0.5.into()));
    assert_eq!(value("2.5%"), Ok(0.025.into()));
    assert_eq!(value("50% + 25%"), Ok(0.75.into()));
    assert_eq!(value("(50%)"), Ok(0.5.into()));
    // With a second operand the sign is a remainder.
    assert_eq!(value("50 % 7"), Ok(1.into()));
    assert_eq!(value("50%7"), Ok(1.into()));
    assert_eq!(value("50 % (3 + 4)"), Ok(1.into()));
    assert!(truth("a >= 50% || b >= 70%", &[("a", 0.4), ("b", 0.7)]).unwrap());
    assert!(!truth("a >= 50% && b >= 70%", &[("a", 0.4), ("b", 0.7)]).unwrap());
}

#[test]
fn nothing_is_truncated_or_wrapped() {
    let integer = |text: &str| {
        Expression::parse(text)
            .unwrap()
            .integer(&env(&[("S", ExprValue::Int(77))]))
    };
    assert_eq!(
        integer("S / 64"),
        Err(EvalError::NotWhole(ExprValue::Float(77.0 / 64.0)))
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
        (
            "ceil_div(half, 2)",
            EvalError::NotWhole(ExprValue::Float(0.5)),
        ),
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
    assert_eq!(expression.kind(), ValueKind::Number);
    assert_eq!(Expression::parse("a < 1").unwrap().kind(), ValueKind::Truth);
}

#[test]
fn mistakes_name_their_column() {
    for (text, column, message) in [
        ("", 1, "a number or a name is missing"),
        ("1 +", 4, "a number or a name is missing"),
        ("ceil_div(S, 64", 15, "`)` is missing"),
        ("(1", 3, "`)` is missing"),
        ("1 2", 3, "unexpected `2`"),
        ("a = 1", 3, "`=` is not an operator; use `==`"),
        ("a & b", 3, "`&` is not an operator; use `&&`"),
        ("\"a\"", 1, "unexpected '\"'"),
        ("[1]", 1, "unexpected '['"),
        ("a; b", 2, "unexpected ';'"),
        (".5", 1, "a number starts with a digit: `0.5`"),
        ("1.", 1, "a decimal point needs a digit after it"),
        (
            "0x10",
            1,
            "`x10` after a number is not a unit (KiB, KB, us, ms, ...)",
        ),
        (
            "99999999999999999999",
            1,
            "99999999999999999999 is too large",
        ),
        ("a.b.c.d", 1, "`a.b.c.d` has more than three parts"),
        (
            "a. b",
            1,
            "`a.` is not a name: write p50, stage1.p50 or torch.flash.p50",
        ),
        (
            "1 + a..b",
            5,
            "`a..b` is not a name: write p50, stage1.p50 or torch.flash.p50",
        ),
        (
            "pow(2, 3)",
            1,
            "`pow` is not a function; there are ceil_div, floor_div, round_up, min, max, abs, sqrt, log2, sizeof",
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

#[test]
fn replaces_whole_names_and_nothing_else() {
    let rename = |text: &str| {
        super::rename(text, &|name| match name {
            Name::Plain(name) if name == "N" => Name::plain("length"),
            Name::Dotted(owner, metric) if owner == "N" => {
                Name::Dotted("other".to_owned(), metric.clone())
            }
            other => other.clone(),
        })
    };
    for (text, renamed) in [
        ("N", "length"),
        ("  N*N  ", "  length*length  "),
        ("ceil_div(N, N2) + 4KiB", "ceil_div(length, N2) + 4KiB"),
        (
            "p50 <= 3µs && N.p50 < 2e3 * N",
            "p50 <= 3µs && other.p50 < 2e3 * length",
        ),
        ("torch.N.p50 > a.N", "torch.N.p50 > a.N"),
        ("N <", "length <"),
        ("N = $", "N = $"),
    ] {
        assert_eq!(rename(text), renamed);
    }
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
            let env = env(&[("a", ExprValue::Float(a)), ("b.c", ExprValue::Int(b))]);
            match expression.kind() {
                ValueKind::Number => if let Ok(value) = expression.number(&env) {
                    prop_assert!(value.is_finite());
                },
                ValueKind::Truth => { let _ = expression.truth(&env); }
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
