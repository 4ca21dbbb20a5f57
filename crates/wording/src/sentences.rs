//! The sentence of each reason. Read the snapshot aloud: every line has to be a plain sentence by itself.

use super::{reasons, words};
use judge::fixture;
use model::*;
use std::collections::BTreeSet;

/// Those of reasons.jsonl, which is as a report writes them, and four kinds that a program does not read back.
fn all_reasons() -> Vec<Reason> {
    let mut all: Vec<Reason> = include_str!("reasons.jsonl")
        .lines()
        .map(|line| {
            let written: serde_json::Value = serde_json::from_str(line).unwrap();
            let reason = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&reason).unwrap(), written);
            reason
        })
        .collect();
    all.extend(FaultKind::ALL.map(|kind| {
        let message = "what it said";
        Reason::Fault(Fault::new(kind, message))
    }));
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
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: None,
        },
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: Some(Compare::Mask { tensor: "m".into() }),
        },
        BaseDemand::UnpreparedScratch { tensor: tensor() },
        BaseDemand::SimulatorBudget,
        BaseDemand::WarpHazards,
        BaseDemand::TimingSchedule,
        BaseDemand::Checks(vec![Rule::Finite, Rule::NoFindings]),
        BaseDemand::Baseline(Facet::Times),
        BaseDemand::NoAcceptance,
        BaseDemand::File("gpu/gates.yaml".to_owned()),
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
    let missing: Vec<_> = Reason::codes().filter(|it| !given.contains(it)).collect();
    assert!(missing.is_empty(), "without a sentence here: {missing:?}");
    let mut lines = String::new();
    for reason in &all {
        let sentence = reasons::reason(&environment, &subject, reason);
        assert!(!sentence.contains("  ") && sentence.trim() == sentence);
        lines.push_str(&format!("{} | {sentence}\n", reason.code()));
    }
    insta::assert_snapshot!("sentences", lines);
}

#[test]
fn every_demand_of_a_base_is_named() {
    let lines = demands().into_iter().map(|demand| {
        let question = words::question(&Question::NoLooser(demand));
        format!("{question}\n")
    });
    insta::assert_snapshot!("demands", lines.collect::<String>());
}
