//! How timed cases stand beside rivals. Pure.

use super::page::{Kind, Table};
use super::reasons;
use super::words::{self, listed, plural};
use verdict::model::{Environment, Judgement, Metric, NotCompared, RivalStanding, Subject};

/// A row for each case and contestant, with both times.
pub fn compared(judgement: &Judgement) -> Table {
    let rows = judgement.rivals.iter().flat_map(|standing| {
        standing.compared.iter().map(|beside| {
            let (ours, theirs) = (beside.ours.0, beside.theirs.0);
            let rival = format!("{} {}", standing.rival, beside.contestant);
            vec![
                beside.case.to_string(),
                words::quantity(Metric::P50, ours),
                words::quantity(Metric::P50, theirs),
                words::speed(ours, theirs, &rival).unwrap_or("-".to_owned()),
            ]
        })
    });
    let columns = [
        ("case", Kind::Name),
        ("p50", Kind::Number),
        ("rival's p50", Kind::Number),
        ("the case is", Kind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Which versions were compared with, and what was not compared, for each reason once.
pub fn lines(environment: &Environment, judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    for standing in &judgement.rivals {
        let versions = standing.versions.iter();
        let versions: Vec<_> = versions
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        let line = format!("{}: {}", standing.rival, listed(&versions));
        if !versions.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    for standing in &judgement.rivals {
        let not_compared = standing.not_compared.iter();
        lines.extend(not_compared.map(|it| not_compared_with(environment, standing, it)));
    }
    lines
}

/// `torch cudnn and math: not compared with 2 cases of k: ...`.
fn not_compared_with(
    environment: &Environment,
    standing: &RivalStanding,
    not: &NotCompared,
) -> String {
    let cases = match &not.cases[..] {
        [only] => only.to_string(),
        several => format!("{} of {}", plural(several.len(), "case"), standing.kernel),
    };
    let why = not.cases.first().map_or(String::new(), |case| {
        let subject = Subject::Case(case.clone());
        reasons::reason(environment, &subject, &not.reason)
    });
    format!(
        "{} {}: not compared with {cases}: {why}",
        standing.rival,
        listed(&not.contestants),
    )
}
