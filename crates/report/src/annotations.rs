//! Makes messages at a line of a file, for any program that shows them. Pure.

use super::against_base;
use super::problems::{self, Block};
use crate::input::ReportInput;
use crate::place::{FileLine, within_repository};
use judge::{FindingStanding, SeenFinding};
use model::{CaseId, Finding, Outcome, ProblemCause, Question, Record, Rule, Subject};
use std::collections::BTreeSet;
use wording::{findings as sentences, reasons, words};

/// The severity of an annotation, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

pub struct Annotation {
    pub level: Level,
    /// The code of the reason. `None` if the annotation does not come from a verdict.
    pub code: Option<&'static str>,
    /// The line that the annotation is about, if it is known.
    pub place: Option<FileLine>,
    pub title: String,
    pub message: String,
    /// Distinguishes the annotation from others, and stays the same when lines move and values change.
    pub identity: String,
}

/// Makes annotations about problems, accepted gates, loosened gates, and what the base says.
pub fn annotations(input: &ReportInput) -> Vec<Annotation> {
    let blocks = problems::blocks(input);
    blocks
        .into_iter()
        .map(|block| annotate_problem(input.record, block))
        .chain(beside_problems(input))
        .collect()
}

/// Makes the same annotations, except that findings with a line replace the problems that consist of them: every
/// finding of the simulator is one annotation.
pub fn with_findings(input: &ReportInput) -> Vec<Annotation> {
    let has_line = |finding: &Finding| finding.places.iter().any(|place| place.line.is_some());
    let is_shown_by_findings = |block: &Block| match &block.problem.cause {
        ProblemCause::Findings { findings, .. } => findings.iter().all(has_line),
        _ => false,
    };
    let mut blocks = problems::blocks(input);
    blocks.retain(|block| !is_shown_by_findings(block));
    blocks
        .into_iter()
        .map(|block| annotate_problem(input.record, block))
        .chain(beside_problems(input))
        .chain(findings(input))
        .collect()
}

fn annotate_problem(record: &Record, block: Block) -> Annotation {
    // Other problems have a sentence that says what is at their lines.
    let misfits = match block.problem.cause {
        ProblemCause::Arguments(_) => Some(block.frame.in_words()),
        _ => None,
    };
    let misfits = misfits.as_deref().filter(|misfit| !misfit.is_empty());
    let why = misfits
        .into_iter()
        .chain(block.why.iter().map(String::as_str));
    let cause = block.cause.as_ref().map(|cause| format!("cause: {cause}"));
    let lines = why.chain(cause.as_deref()).chain(block.command.as_deref());
    Annotation {
        level: level(block.problem.outcome),
        code: Some(block.problem.code),
        message: lines.collect::<Vec<_>>().join("\n"),
        identity: identity(record, &block),
        title: format!("{}: {}", block.subjects, block.title),
        place: block.place,
    }
}

/// Identifies a problem by its kernel and its gate, and not by the cases and values that it has at the moment.
fn identity(record: &Record, block: &Block) -> String {
    let config = &record.environment.config;
    let problem = block.problem;
    let of = problem.subjects.first();
    let of = of.map_or(String::new(), |subject| {
        format!("{}/{}", subject.kernel(), subject.variant())
    });
    let gate = block.gates.first().map_or("", String::as_str);
    match problem.outcome {
        Outcome::Fail if block.rows.is_empty() => {
            format!("{}\n{of}\n{gate}\n{config}", problem.code)
        }
        // Costs have one identity for each variant.
        Outcome::Fail => format!("cost\n{of}\n{config}"),
        // Everything else has one identity for each reason.
        _ => format!("{}\n{config}", problem.code),
    }
}

fn identity_by_title(record: &Record, code: &str, title: &str, place: Option<&FileLine>) -> String {
    let file = place.map_or(record.environment.config.as_str(), |place| &place.file);
    format!("{code}\n{title}\n{file}")
}

/// Makes annotations about accepted gates, loosened gates, and what the base says.
fn beside_problems(input: &ReportInput) -> Vec<Annotation> {
    let ReportInput {
        record, judgement, ..
    } = *input;
    let mut all = Vec::new();
    for accepted in &judgement.accepted {
        let declared = &accepted.declared;
        let gate = words::gate(&accepted.rule);
        let title = format!("accepted: {} {gate}", accepted.subject);
        let place = FileLine::from_declared(record, declared)
            .or_else(|| FileLine::from_declared(record, &format!("{declared}:1")));
        let code = accepted.reason.code();
        all.push(Annotation {
            level: Level::Warning,
            code: Some(code),
            message: reasons::reason(&record.environment, &accepted.subject, &accepted.reason),
            identity: identity_by_title(record, code, &title, place.as_ref()),
            place,
            title,
        });
    }
    for gate in against_base::loosened(judgement) {
        let (level, allows) = match gate.outcome {
            Outcome::Pass => (Level::Notice, "allowed by --allow-loosened"),
            _ => (Level::Error, "only --allow-loosened allows it"),
        };
        let title = format!("gate loosened: {}: {}", gate.subject, gate.asked());
        let place = gate
            .declared
            .and_then(|at| FileLine::from_declared(record, at));
        all.push(Annotation {
            level,
            code: Some(gate.code),
            message: format!("{}\n{allows}", gate.now()),
            identity: identity_by_title(record, gate.code, &title, place.as_ref()),
            place,
            title,
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
            identity: String::new(),
        });
    }
    all
}

/// Makes an annotation for everything that the simulator found, at the line of the kernel: each line and kind once, the
/// worst first.
fn findings(input: &ReportInput) -> Vec<Annotation> {
    let ReportInput {
        index,
        record,
        judgement,
        ..
    } = *input;
    let of_gate = |id: &CaseId| {
        let verdict = judgement.verdicts.iter().find(|verdict| {
            verdict.question == Question::Gate(Rule::NoFindings)
                && matches!(&verdict.subject, Subject::Case(of) if of == id)
        });
        verdict.map_or(Level::Warning, |verdict| level(verdict.outcome))
    };
    let mut all = Vec::new();
    for case in &record.plan.cases {
        for SeenFinding {
            finding, standing, ..
        } in index.head().findings(&case.id)
        {
            let lines: Vec<_> = finding
                .places
                .iter()
                .filter_map(|place| place.line.as_ref())
                .collect();
            let Some(line) = lines.first() else {
                continue;
            };
            let texts: String = lines
                .iter()
                .filter_map(|line| line.text.as_deref())
                .map(|text| format!("\n{}", text.trim()))
                .collect();
            let (code, file) = (finding.kind.name(), within_repository(record, &line.file));
            all.push(Annotation {
                level: match standing {
                    FindingStanding::Broken => of_gate(&case.id),
                    FindingStanding::Accepted => Level::Warning,
                    FindingStanding::Noted => Level::Notice,
                },
                code: Some(code),
                identity: format!("{code}\n{}\n{file}{texts}", case.id),
                place: Some(FileLine {
                    file,
                    line: line.number.to_string(),
                }),
                title: case.id.to_string(),
                message: sentences::message(finding),
            });
        }
    }
    all.sort_by_key(|annotation| annotation.level);
    let mut said = BTreeSet::new();
    all.retain(|annotation| said.insert((annotation.code, annotation.place.clone())));
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
