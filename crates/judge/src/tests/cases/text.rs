//! Judgements, rules, subjects and JSON as short texts, and rules and subjects back from them.

use super::super::*;
use serde::Serialize;
use serde_json::{Map, Value};

/// One thing that a judgement says. What is no verdict has no question.
#[derive(Clone, PartialEq)]
pub struct Line {
    outcome: String,
    subject: String,
    says: String,
    pub question: String,
}

impl Line {
    /// Returns outcome, code and figure of a verdict; what is looser is told in full.
    pub fn of_verdict(verdict: &Verdict) -> Self {
        let says = match (&verdict.reason, verdict.measured) {
            (Reason::Loosened(how), _) => text_of(how),
            (Reason::LooseningAllowed(how), _) => format!("allowed {}", text_of(how)),
            (reason, Some(value)) => format!("{} at {}", reason.code(), text_of(&value)),
            (reason, None) => reason.code().to_owned(),
        };
        let question = match &verdict.question {
            Question::Gate(rule) => text_of_rule(rule),
            Question::NoLooser(demand) => match demand {
                BaseDemand::Gate(rule) => format!("no looser {}", text_of_rule(rule)),
                demand => format!("no looser {}", text_of(demand)),
            },
            other => text_of(other),
        };
        Self {
            outcome: verdict.outcome.to_string(),
            subject: verdict.subject.to_string(),
            says,
            question,
        }
    }

    pub fn asks_like(&self, other: &Self) -> bool {
        (&self.subject, &self.question) == (&other.subject, &other.question)
    }

    pub fn says_like(&self, other: &Self) -> bool {
        (&self.outcome, &self.subject, &self.says) == (&other.outcome, &other.subject, &other.says)
    }

    /// Returns the line of a question that is no longer asked.
    pub fn gone(&self) -> Self {
        let (outcome, says) = ("gone".to_owned(), "not asked".to_owned());
        Self {
            outcome,
            says,
            ..self.clone()
        }
    }

    pub fn join(lines: &[Self]) -> String {
        let Self {
            outcome,
            subject,
            says,
            question,
        } = &lines[0];
        if question.is_empty() {
            return format!("{outcome}: {says}");
        }
        let questions: Vec<_> = lines.iter().map(|line| line.question.as_str()).collect();
        format!("{outcome} {subject}: {says} ({})", questions.join(", "))
    }
}

/// Returns all that a judgement says, in its order.
pub fn lines(judgement: &Judgement) -> Vec<Line> {
    let json = serde_json::to_value(judgement).unwrap();
    let lists = [
        "accepted", "wins", "drifts", "targets", "ungated", "counters", "notes",
    ];
    let others = lists.iter().flat_map(|list| {
        let entries = json.get(list).and_then(Value::as_array);
        entries.into_iter().flatten().map(|entry| Line {
            outcome: (*list).to_owned(),
            subject: text(entry),
            says: text(entry),
            question: String::new(),
        })
    });
    judgement
        .verdicts
        .iter()
        .map(Line::of_verdict)
        .chain(others)
        .collect()
}

pub fn text_of(value: &impl Serialize) -> String {
    text(&serde_json::to_value(value).unwrap())
}

/// Renders JSON as YAML does in one line: bare words, no nulls, names of cases and units, rules as gates.yaml has them,
/// and four digits of a fraction.
pub fn text(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(text).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) => {
            let name = |key: &str| fields.get(key).and_then(Value::as_str);
            let [kernel, variant, shape, arch] = ["kernel", "variant", "shape", "arch"].map(name);
            match (fields.len(), kernel.zip(variant), shape, arch) {
                (3, Some((kernel, variant)), Some(shape), _) => {
                    format!("{kernel}/{variant}@{shape}")
                }
                (3, Some((kernel, variant)), _, Some(arch)) => {
                    format!("{kernel}/{variant} [{arch}]")
                }
                (1, ..) if RULES.iter().any(|rule| fields.contains_key(*rule)) => {
                    serde_json::from_value(value.clone())
                        .map_or_else(|_| text_of_fields(fields), |rule| text_of_rule(&rule))
                }
                _ => text_of_fields(fields),
            }
        }
        Value::String(words) => words.replace('\n', "\\n"),
        Value::Number(number) => match number.as_f64() {
            Some(fraction) if number.is_f64() => {
                let digits = 3 - fraction.abs().log10().floor().clamp(-12.0, 3.0) as i32;
                let scale = 10f64.powi(digits);
                ((fraction * scale).round() / scale).to_string()
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Names of the rules that have fields.
const RULES: [&str; 3] = ["counters", "limit", "condition"];

fn text_of_fields(fields: &Map<String, Value>) -> String {
    let shown: Vec<_> = fields
        .iter()
        .filter(|(_, value)| fields.len() == 1 || !value.is_null())
        .map(|(key, value)| format!("{key}: {}", text(value)))
        .collect();
    format!("{{{}}}", shown.join(", "))
}

/// Returns the subject of this name: `k/fast@small` or `k/fast`, which is the unit for the fixture's architecture.
pub fn subject(name: &str) -> Subject {
    let (kernel, rest) = name.split_once('/').expect("KERNEL/VARIANT");
    match rest.split_once('@') {
        Some((variant, shape)) => Subject::Case(CaseId::new(kernel, variant, shape)),
        None => Subject::Unit(UnitId::new(kernel, rest, arch())),
    }
}

/// Reads a rule: `finite`, `p50 <= 0.9 * direct.p50`, `p50 +2%`, `registers +2`, `p50 +5% of best`, `when p50 < 1ms`.
pub fn rule(text: &str) -> Result<Rule, String> {
    if let Ok(named) = serde_json::from_value(text.into()) {
        return Ok(named);
    }
    let (name, limit) = text.split_once(' ').ok_or(format!("no rule: {text}"))?;
    if name == "when" {
        let expr = expr(limit);
        return Ok(Rule::Condition { expr });
    }
    let limit = match limit.strip_prefix('+') {
        Some(change) => {
            let (change, of) = change.split_once(" of ").unwrap_or((change, "baseline"));
            let change = match change.strip_suffix('%') {
                Some(percent) => Margin::Share(Num(percent.parse::<f64>().unwrap() / 100.0)),
                None => Margin::Amount {
                    amount: change.parse().unwrap(),
                },
            };
            let share = Num(change.number());
            match (name, of) {
                ("counters", _) => return Ok(Rule::Counters { change: share }),
                (_, "baseline") => Limit::Baseline { change },
                (_, "base") => Limit::Base { change: share },
                (_, of) => {
                    let anchor = match of {
                        "best" => Since::Best,
                        revision => Since::Revision(revision.into()),
                    };
                    Limit::Anchor { anchor, change }
                }
            }
        }
        None => {
            let (op, bound) = limit.split_once(' ').ok_or(format!("no limit: {limit}"))?;
            let op = serde_json::from_value(op.into()).map_err(|_| format!("no operator: {op}"))?;
            let bound = match bound.parse() {
                Ok(number) => Bound::Value(Num(number)),
                Err(_) => Bound::Expr(expr(bound)),
            };
            Limit::Absolute { op, bound }
        }
    };
    let metric = Metric::from_name(name).ok_or(format!("no metric: {name}"))?;
    Ok(Rule::Limit { metric, limit })
}

fn text_of_rule(rule: &Rule) -> String {
    let share = |change: &Num| format!("+{}%", (change.0 * 1e6).round() / 1e4);
    let margin = |change: &Margin| match change {
        Margin::Share(change) => share(change),
        Margin::Amount { amount } => format!("+{amount}"),
    };
    match rule {
        Rule::Counters { change } => format!("counters {}", share(change)),
        Rule::Condition { expr } => format!("when {}", expr.text),
        Rule::Limit { metric, limit } => match limit {
            Limit::Absolute { op, bound } => match bound {
                Bound::Value(value) => format!("{metric} {op} {value}"),
                Bound::Expr(expr) => format!("{metric} {op} {}", expr.text),
            },
            Limit::Baseline { change } => format!("{metric} {}", margin(change)),
            Limit::Anchor { anchor, change } => format!("{metric} {} of {anchor}", margin(change)),
            Limit::Base { change } => format!("{metric} {} of base", share(change)),
        },
        named => text_of(named),
    }
}
