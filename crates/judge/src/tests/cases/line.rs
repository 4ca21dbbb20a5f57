//! Prints a judgement as one line for each statement.

use super::super::*;
use crate::fixture::script::{text, text_of, text_of_rule};
use serde_json::Value;

/// One statement of a judgement. A statement other than a verdict has no question.
#[derive(Clone, PartialEq)]
pub struct Line {
    outcome: String,
    subject: String,
    says: String,
    pub question: String,
}

impl Line {
    /// Returns the outcome, code and value of a verdict. A loosened demand is written out in full.
    pub fn from_verdict(verdict: &Verdict) -> Self {
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

/// Returns everything that a judgement says, in its order.
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
        .map(Line::from_verdict)
        .chain(others)
        .collect()
}
