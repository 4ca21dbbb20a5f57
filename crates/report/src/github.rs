//! Writes annotations for GitHub Actions: each problem, at the line of the kernel if it is known, and else at the line
//! of gates.yaml with the gate.

use super::annotations::{Annotation, Level, annotations};
use super::place::FileLine;
use crate::input::ReportInput;
use wording::escape::{workflow_data as data, workflow_property as property};

/// GitHub shows this many annotations of a step, and drops the others without a word.
const MOST: usize = 10;

/// Renders workflow commands, one on a line, for the standard output of a step.
pub fn render(input: &ReportInput) -> String {
    let mut all = annotations(input);
    // The sort is stable, so new problems stay before those that the base has.
    all.sort_by_key(|annotation| annotation.level);
    let left = match all.len() {
        0..=MOST => Vec::new(),
        _ => all.split_off(MOST - 1),
    };
    let mut out: String = all.iter().map(command).collect();
    if let Some(worst) = left.first() {
        out.push_str(&format!(
            "::{} title=gatekeeper::and {} more: the summary of the job and the JSON report have them\n",
            word(worst.level),
            left.len()
        ));
    }
    out
}

fn command(annotation: &Annotation) -> String {
    let place = match &annotation.place {
        None => String::new(),
        Some(FileLine { file, line }) => {
            format!("file={},line={},", property(file), property(line))
        }
    };
    format!(
        "::{} {place}title={}::{}\n",
        word(annotation.level),
        property(&annotation.title),
        data(&annotation.message)
    )
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    }
}
