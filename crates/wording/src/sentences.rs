//! Pins the sentence of each reason. Read the snapshot aloud: every line has to be a plain sentence by itself.

use super::{reasons, words};
use judge::fixture;
use model::*;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns all reasons: those in reasons.jsonl, which have the form of a report, and three that a program does not read
/// back. Values for codes that the file lacks are made up.
fn all_reasons() -> Vec<Reason> {
    let mut all: Vec<Reason> = include_str!("reasons.jsonl")
        .lines()
        .map(|line| {
            let written: Value = serde_json::from_str(line).unwrap();
            let reason = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&reason).unwrap(), written);
            reason
        })
        .collect();
    let mut given: BTreeSet<_> = all.iter().map(Reason::code).collect();
    all.extend(
        made_up()
            .into_iter()
            .filter(|code| given.insert(code.code())),
    );
    all.push(Reason::Undecidable {
        metric: Metric::P50,
        problem: judge::stats::sequential::Undecidable::NoSpread { processes: 6 },
    });
    all.push(Reason::Unparsed {
        text: "p50 <=".into(),
        problem: model::expr::ExprError {
            message: "a value is missing".into(),
            column: 7,
        },
    });
    all.push(Reason::Unevaluated {
        text: "p50 <= stage1.p50".to_owned(),
        problem: model::expr::EvalError::DivisionByZero,
    });
    all
}

/// Makes up reasons of every kind, with each alternative of each field.
fn made_up() -> Vec<Reason> {
    let schema = schemars::schema_for!(Reason).to_value();
    let values = alternatives(&schema, &schema, "", &mut vec![String::new()]);
    // Some texts have a form of their own.
    values
        .into_iter()
        .map(serde_json::from_value::<Reason>)
        .filter_map(Result::ok)
        .collect()
}

/// Makes values that fit a schema. A text is the name of its field. If a type contains itself, its last alternative is
/// taken.
fn alternatives(root: &Value, schema: &Value, name: &str, within: &mut Vec<String>) -> Vec<Value> {
    let mut inner = |value: &Value, name: &str| alternatives(root, value, name, within);
    if let Some(pointer) = schema["$ref"].as_str() {
        let pointer = pointer.trim_start_matches('#');
        let mut definition = root.pointer(pointer).unwrap().clone();
        if within.iter().any(|known| known == pointer) {
            for one_of in ["oneOf", "anyOf"] {
                if let Some(all) = definition[one_of].as_array_mut() {
                    all.drain(..all.len() - 1);
                }
            }
        }
        within.push(pointer.to_owned());
        let values = alternatives(root, &definition, name, within);
        within.pop();
        return values;
    }
    for one_of in ["oneOf", "anyOf"] {
        if let Some(all) = schema[one_of].as_array() {
            return all.iter().flat_map(|value| inner(value, name)).collect();
        }
    }
    if let Some(all) = schema["enum"].as_array() {
        return all.clone();
    }
    if !schema["const"].is_null() {
        return vec![schema["const"].clone()];
    }
    let kind = &schema["type"];
    match kind.as_str().or_else(|| kind[0].as_str()) {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let of_map = schema["additionalProperties"].as_object();
            let of_map = of_map.map(|_| (name, &schema["additionalProperties"]));
            let fields = fields.map(|(key, it)| (key.as_str(), it)).chain(of_map);
            let fields: Vec<_> = fields.map(|(key, it)| (key, inner(it, key))).collect();
            let most = fields.iter().map(|(_, values)| values.len()).max();
            let object = |turn: usize| {
                let field = |(key, values): &(&str, Vec<Value>)| {
                    ((*key).to_owned(), values[turn % values.len()].clone())
                };
                Value::Object(fields.iter().map(field).collect())
            };
            (0..most.unwrap_or(1)).map(object).collect()
        }
        Some("array") => match schema["prefixItems"].as_array() {
            Some(items) => {
                vec![
                    items
                        .iter()
                        .map(|item| inner(item, name)[0].clone())
                        .collect(),
                ]
            }
            None => {
                let items = inner(&schema["items"], name).into_iter();
                let length = schema["minItems"].as_u64().unwrap_or(2) as usize;
                items.map(|item| vec![item; length].into()).collect()
            }
        },
        Some("string") if name == "arch" => vec!["sm_90".into()],
        Some("string") => vec![name.into()],
        Some("integer" | "number") => vec![2.into()],
        Some("boolean") => vec![true.into()],
        Some("null") => vec![Value::Null],
        _ => panic!("a kind of schema that is not handled: {schema}"),
    }
}

fn demands() -> Vec<BaseDemand> {
    let tensor = || "x".to_owned();
    vec![
        BaseDemand::Gate(fixture::at_most(Metric::Registers, 128.0)),
        BaseDemand::Seeds(vec![1, 2, 3]),
        BaseDemand::BitExact,
        BaseDemand::Launches(3),
        BaseDemand::Reference,
        BaseDemand::Dims([("M".to_owned(), 128)].into()),
        BaseDemand::InputValues { tensor: tensor() },
        BaseDemand::OutputType { tensor: tensor() },
        BaseDemand::TensorRole {
            tensor: tensor(),
            role: Role::Out,
        },
        BaseDemand::TensorDims {
            tensor: tensor(),
            dims: vec![128, 128],
        },
        BaseDemand::TensorOffset {
            tensor: tensor(),
            offset: 1,
        },
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: None,
        },
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: Some(Compare::Mask { tensor: "m".into() }),
        },
        BaseDemand::UnpreparedScratch { tensor: tensor() },
        BaseDemand::OwnWork,
        BaseDemand::SimulatorBudget,
        BaseDemand::WarpHazards,
        BaseDemand::TimingSchedule,
        BaseDemand::Checks(vec![Rule::Finite, Rule::NoFindings]),
        BaseDemand::Baseline(Facet::Times),
        BaseDemand::NoAcceptance,
        BaseDemand::File("gpu/gates.yaml".to_owned()),
        BaseDemand::Launch,
        BaseDemand::NoFallback(None),
        BaseDemand::NoFallback(Some("plain".into())),
        BaseDemand::NoFailure(Vec::new()),
        BaseDemand::NoFailure(vec![GateName::NoFindings]),
    ]
}

#[test]
fn every_reason_is_a_sentence() {
    let environment = fixture::environment();
    let subject = fixture::case("fast", "small");
    let all = all_reasons();
    let given: BTreeSet<_> = all.iter().map(Reason::code).collect();
    let codes = Reason::codes().map(|code| code.code);
    let missing: Vec<_> = codes.filter(|code| !given.contains(code)).collect();
    assert!(missing.is_empty(), "add to reasons.jsonl: {missing:?}");
    let sentence = |reason: &Reason| {
        let sentence = reasons::reason(&environment, &subject, reason);
        let is_plain = !sentence.contains("  ") && sentence.trim() == sentence;
        assert!(is_plain, "{}: {sentence:?}", reason.code());
        sentence
    };
    let mut made_up_codes = BTreeSet::new();
    for reason in made_up() {
        sentence(&reason);
        made_up_codes.insert(reason.code());
    }
    // All reasons are pinned but those that a program does not read back.
    assert_eq!(
        made_up_codes.len() + 3,
        given.len(),
        "{:?}",
        given.difference(&made_up_codes)
    );
    let mut lines = String::new();
    for reason in &all {
        let sentence = sentence(reason);
        lines.push_str(&format!("{} | {sentence}\n", reason.code()));
    }
    insta::assert_snapshot!("sentences", lines);
}

#[test]
fn every_demand_of_a_base_is_named() {
    insta::assert_snapshot!(
        "demands",
        demands()
            .into_iter()
            .map(|demand| {
                let question = words::question(&Question::NoLooser(demand));
                format!("{question}\n")
            })
            .collect::<String>()
    );
}
