//! Annotations of GitHub Actions: what did not hold, at the line of gates.yaml that asks for it.

use super::summary;
use std::path::Path;
use verdict::model::{Judgement, Outcome, Record};

/// Workflow commands, one a line, for standard output of a step.
pub fn render(record: &Record, judgement: &Judgement) -> String {
    let mut out = String::new();
    for problem in summary::problems(judgement) {
        let level = match problem.outcome {
            Outcome::Fail | Outcome::Environment => "error",
            _ => "warning",
        };
        let place = problem
            .gates
            .iter()
            .find_map(|verdict| verdict.declared.as_deref()?.split_once(':'))
            .map_or(String::new(), |(file, line)| {
                let line = line.split(':').next().unwrap_or(line);
                let file = within_repository(record, file);
                format!("file={},line={},", property(&file), property(line))
            });
        let title = property(&format!("{}: {}", problem.subject, problem.gates()));
        out.push_str(&format!(
            "::{level} {place}title={title}::{}\n",
            data(&format!(
                "{}{}",
                problem.reason,
                summary::reproduce(record, problem.subject)
                    .map_or(String::new(), |command| format!("\n{command}"))
            ))
        ));
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
            property(&format!("accepted: {} {}", accepted.subject, accepted.gate)),
            data(&accepted.reason)
        ));
    }
    out
}

/// Gates say where they stand from their own directory; GitHub looks it up from where the workflow runs.
fn within_repository(record: &Record, file: &str) -> String {
    let config = Path::new(&record.environment.config);
    match config.file_name() {
        Some(name) if name == file => record.environment.config.clone(),
        _ => config.with_file_name(file).display().to_string(),
    }
}

/// Escaped as actions/toolkit does (packages/core/src/command.ts), so that no message can end its
/// command and begin another.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
