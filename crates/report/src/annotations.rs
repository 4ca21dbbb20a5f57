//! Messages at a line of a file, for any program that shows them. Pure.

use super::{against_base, problems};
use crate::input::ReportInput;
use crate::place::{Place, within_repository};
use judge::{FindingStanding, SeenFinding};
use model::{CaseId, Outcome, Question, Rule, Subject};
use std::collections::BTreeSet;
use wording::reasons;
use wording::words;

/// Worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

pub struct Annotation {
    pub level: Level,
    /// The code of the reason; `None` where it is no verdict.
    pub code: Option<&'static str>,
    /// None where none is known.
    pub place: Option<Place>,
    pub title: String,
    pub message: String,
    /// The text of the lines that it is about. It tells one from another of the same code, title and file, and stays the same
    /// where lines move.
    pub text: Vec<String>,
}

/// Annotations on what did not hold, each cause once; on accepted gates; on loosened gates; on what the base says.
pub fn annotations(input: &ReportInput) -> Vec<Annotation> {
    let ReportInput {
        record, judgement, ..
    } = *input;
    let mut all = Vec::new();
    for block in problems::blocks(input) {
        let command = block.command.map(|command| format!("\n{command}"));
        all.push(Annotation {
            level: level(block.problem.outcome),
            code: Some(block.problem.code),
            place: block.place,
            title: format!("{}: {}", block.subjects, block.title),
            message: block.why.join("\n") + &command.unwrap_or_default(),
            text: Vec::new(),
        });
    }
    for accepted in &judgement.accepted {
        let declared = &accepted.declared;
        all.push(Annotation {
            level: Level::Warning,
            code: Some(accepted.reason.code()),
            place: Place::of(record, declared)
                .or_else(|| Place::of(record, &format!("{declared}:1"))),
            title: format!(
                "accepted: {} {}",
                accepted.subject,
                words::gate(&accepted.rule)
            ),
            message: reasons::reason(&record.environment, &accepted.subject, &accepted.reason),
            text: Vec::new(),
        });
    }
    for gate in against_base::loosened(judgement) {
        let (level, allows) = match gate.outcome {
            Outcome::Pass => (Level::Notice, "allowed by --allow-loosened"),
            _ => (Level::Error, "only --allow-loosened allows it"),
        };
        all.push(Annotation {
            level,
            code: Some(gate.code),
            place: gate.declared.and_then(|at| Place::of(record, at)),
            title: format!("gate loosened: {}: {}", gate.subject, gate.asked()),
            message: format!("{}\n{allows}", gate.now()),
            text: Vec::new(),
        });
    }
    if let Some(base) = &judgement.base {
        let lines = against_base::lines(record, judgement, base);
        all.push(Annotation {
            level: Level::Notice,
            code: None,
            place: None,
            title: "compared with the base".to_owned(),
            message: lines.join("\n"),
            text: Vec::new(),
        });
    }
    all
}

/// Everything that the simulator found, at the line of the kernel: each line and kind once, the worst first.
pub fn findings(input: &ReportInput) -> Vec<Annotation> {
    let ReportInput {
        index,
        record,
        judgement,
        ..
    } = *input;
    let of_gate = |id: &CaseId| {
        let mut verdicts = judgement.verdicts.iter();
        let verdict = verdicts.find(|it| {
            it.question == Question::Gate(Rule::NoFindings)
                && matches!(&it.subject, Subject::Case(of) if of == id)
        });
        verdict.map_or(Level::Warning, |it| level(it.outcome))
    };
    let mut all = Vec::new();
    for case in &record.plan.cases {
        for SeenFinding {
            finding, standing, ..
        } in index.head().findings(&case.id)
        {
            let lines = finding.places.iter().filter_map(|it| it.line.as_ref());
            let lines: Vec<_> = lines.collect();
            let Some(line) = lines.first() else {
                continue;
            };
            let texts = lines.iter().filter_map(|line| line.text.clone());
            all.push(Annotation {
                level: match standing {
                    FindingStanding::Broken => of_gate(&case.id),
                    FindingStanding::Accepted => Level::Warning,
                    FindingStanding::Noted => Level::Notice,
                },
                code: Some(finding.kind.name()),
                place: Some(Place {
                    file: within_repository(record, &line.file),
                    line: line.number.to_string(),
                }),
                title: case.id.to_string(),
                message: finding.message.clone(),
                text: texts.collect(),
            });
        }
    }
    all.sort_by_key(|it| it.level);
    let mut said = BTreeSet::new();
    all.retain(|it| said.insert((it.code, it.place.clone())));
    all
}

fn level(outcome: Outcome) -> Level {
    match outcome {
        Outcome::Fail | Outcome::Environment => Level::Error,
        Outcome::Inconclusive | Outcome::Replaced => Level::Warning,
        Outcome::Expected | Outcome::Unsupported | Outcome::Skipped | Outcome::Pass => {
            Level::Notice
        }
    }
}
