//! Annotations of GitHub Actions: what did not hold, at the line of gates.yaml that asks for it.

use super::escape::{workflow_data as data, workflow_property as property};
use super::{beside, page, problems, reasons, words};
use std::path::Path;
use verdict::model::{Judgement, Outcome, Record};

/// Workflow commands, one a line, for standard output of a step.
pub fn render(record: &Record, judgement: &Judgement) -> String {
    let mut out = String::new();
    let fallen = problems::ended(record, judgement, &[Outcome::Replaced]);
    let problems = problems::problems(record, judgement).into_iter();
    for problem in problems.chain(fallen) {
        let level = match problem.outcome {
            Outcome::Fail | Outcome::Environment => "error",
            _ => "warning",
        };
        let place = place(record, problem.place);
        let title = format!("{}: {}", problem.subjects, problem.gates.join(", "));
        let title = property(&title);
        let command = problem.command.map(|command| format!("\n{command}"));
        let message = data(&(problem.why + &command.unwrap_or_default()));
        out.push_str(&format!("::{level} {place}title={title}::{message}\n"));
    }
    for accepted in &judgement.accepted {
        let (file, line) = accepted
            .declared
            .split_once(':')
            .unwrap_or((&accepted.declared, "1"));
        out.push_str(&format!(
            "::warning file={},line={},title={}::{}\n",
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
        ));
    }
    for gate in beside::loosened(judgement) {
        let level = match gate.outcome {
            Outcome::Pass => "notice",
            _ => "error",
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
        out.push_str(&format!("::{level} {place}title={title}::{message}\n"));
    }
    if let Some(base) = &judgement.base {
        let lines = page::base_lines(record, judgement, base);
        let title = property("compared with the base");
        let message = data(&lines.join("\n"));
        out.push_str(&format!("::notice title={title}::{message}\n"));
    }
    out
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
