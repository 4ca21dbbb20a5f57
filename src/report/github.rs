//! Annotations of GitHub Actions: what did not hold, at the line of gates.yaml that asks for it.

use super::escape::{workflow_data as data, workflow_property as property};
use super::{beside, page, problems, reasons, words};
use std::path::Path;
use verdict::model::{Judgement, Outcome, Record};

/// GitHub shows so many of a step, and drops the others without a word.
const MOST: usize = 10;

/// Worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// Workflow commands, one a line, for standard output of a step.
pub fn render(record: &Record, judgement: &Judgement) -> String {
    let mut all = annotations(record, judgement);
    all.sort_by_key(|(level, _)| *level);
    let left = match all.len() {
        0..=MOST => Vec::new(),
        _ => all.split_off(MOST - 1),
    };
    let mut out = String::new();
    for (level, rest) in &all {
        out.push_str(&format!("::{} {rest}\n", level.word()));
    }
    if let Some((worst, _)) = left.first() {
        out.push_str(&format!(
            "::{} title=gatekeeper::and {} more: the summary of the job and the JSON report have them\n",
            worst.word(),
            left.len()
        ));
    }
    out
}

/// What follows the level, with it.
fn annotations(record: &Record, judgement: &Judgement) -> Vec<(Level, String)> {
    let mut all = Vec::new();
    let fallen = problems::ended(record, judgement, &[Outcome::Replaced]);
    let problems = problems::problems(record, judgement).into_iter();
    for problem in problems.chain(fallen) {
        let level = match problem.outcome {
            Outcome::Fail | Outcome::Environment => Level::Error,
            _ => Level::Warning,
        };
        let place = place(record, problem.place);
        let title = format!("{}: {}", problem.subjects, problem.gates.join(", "));
        let title = property(&title);
        let command = problem.command.map(|command| format!("\n{command}"));
        let message = data(&(problem.why + &command.unwrap_or_default()));
        all.push((level, format!("{place}title={title}::{message}")));
    }
    for accepted in &judgement.accepted {
        let (file, line) = accepted
            .declared
            .split_once(':')
            .unwrap_or((&accepted.declared, "1"));
        let rest = format!(
            "file={},line={},title={}::{}",
            property(&within_repository(record, file)),
            property(line),
            property(&format!(
                "accepted: {} {}",
                accepted.subject,
                words::gate(&accepted.rule)
            )),
            data(&reasons::reason(
                &record.environment,
                &accepted.subject,
                &accepted.reason
            ))
        );
        all.push((Level::Warning, rest));
    }
    for gate in beside::loosened(judgement) {
        let level = match gate.outcome {
            Outcome::Pass => Level::Notice,
            _ => Level::Error,
        };
        let title = property(&format!(
            "gate loosened: {}: {}",
            gate.subject,
            gate.asked()
        ));
        let allows = match gate.outcome {
            Outcome::Pass => "allowed by --allow-loosened",
            _ => "only --allow-loosened allows it",
        };
        let message = data(&format!("{}\n{allows}", gate.now()));
        let place = place(record, gate.declared);
        all.push((level, format!("{place}title={title}::{message}")));
    }
    if let Some(base) = &judgement.base {
        let lines = page::base_lines(record, judgement, base);
        let title = property("compared with the base");
        let message = data(&lines.join("\n"));
        all.push((Level::Notice, format!("title={title}::{message}")));
    }
    all
}

/// The line of a file that GitHub shows it at; nothing where none is known.
fn place(record: &Record, declared: Option<&str>) -> String {
    let Some((file, line)) = declared.and_then(|declared| declared.split_once(':')) else {
        return String::new();
    };
    let line = line.split(':').next().unwrap_or(line);
    let file = within_repository(record, file);
    format!("file={},line={},", property(&file), property(line))
}

/// Gates say where they stand from their own directory; GitHub looks it up from where the workflow runs.
fn within_repository(record: &Record, file: &str) -> String {
    let config = Path::new(&record.environment.config);
    match config.file_name() {
        Some(name) if name == file => record.environment.config.clone(),
        _ => config.with_file_name(file).display().to_string(),
    }
}
