//! Lays out what the kernels of failed cases printed, for reports that people read. Pure.

use model::{Judgement, Note, Outcome, Subject};
use std::collections::BTreeSet;
use wording::escape::visible;
use wording::words::plural;

/// The number of lines that a report for people shows of what a case printed.
const PRINTED: usize = 20;

/// The output of a case that failed.
pub struct Printed {
    pub head: String,
    /// The lines without control characters. They come from the kernel, so a format begins each of them with something
    /// of its own, or a CI might take them for its commands.
    pub lines: Vec<String>,
    /// A sentence if there was more output.
    pub cut: Option<String>,
}

pub fn printed(judgement: &Judgement) -> Vec<Printed> {
    let failed: BTreeSet<&Subject> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .map(|verdict| &verdict.subject)
        .collect();
    judgement
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Printed {
                subject,
                seed,
                text,
                left_out,
            } if failed.contains(subject) => {
                let all = text.lines().count();
                let lines: Vec<_> = text.lines().take(PRINTED).map(visible).collect();
                let cut = match (all - lines.len(), left_out) {
                    (0, 0) => None,
                    (0, bytes) => Some(format!("... and {bytes} bytes that are not kept")),
                    (more, 0) => Some(format!(
                        "... and {} in the report as JSON",
                        plural(more, "line")
                    )),
                    (more, bytes) => Some(format!(
                        "... and {} in the report as JSON, and {bytes} bytes that are not kept",
                        plural(more, "line")
                    )),
                };
                Some(Printed {
                    head: format!("{subject} printed with seed {seed}"),
                    lines,
                    cut,
                })
            }
            _ => None,
        })
        .collect()
}
