//! Lays out values and their targets, which are no gates: what is met, what is missed and why, and what was not
//! measured.

use super::section::{ColumnKind, SectionPart, Table};
use model::{Aimed, Judgement, Metric, Record, Standing, Subject};
use std::collections::{BTreeMap, BTreeSet};
use wording::names::in_words;
use wording::reasons;
use wording::words::{self, plural};

pub fn parts<'a>(record: &Record, judgement: &Judgement) -> Vec<SectionPart<'a>> {
    let targets = || judgement.targets.iter();
    let rows = targets().filter_map(row).collect();
    let columns = [
        ("target", ColumnKind::Name),
        ("limit", ColumnKind::Text),
        ("measured", ColumnKind::Number),
        ("wanted", ColumnKind::Number),
        ("standing", ColumnKind::Text),
    ];
    vec![
        SectionPart::Table(Table::new(columns, rows)),
        SectionPart::Lines(not_measured(record, judgement)),
    ]
}

/// Returns the missed targets: `k/fast@small p50 <= 0.90 * direct.p50: 80 us, and 72 us was to be reached: missed by
/// 11.1 %, because ...`.
pub fn missed(judgement: &Judgement) -> Vec<String> {
    judgement
        .targets
        .iter()
        .filter_map(|target| {
            let (metric, measured, limit) = numbers(target)?;
            if target.standing != Standing::Missed {
                return None;
            }
            let by = target.change.map_or(f64::NAN, |change| change.0);
            let why = match &target.because {
                Some(because) => format!("because {because}"),
                None => format!("without an explanation (`because` at {})", target.declared),
            };
            Some(format!(
                "{} {}: {}, and {} was to be reached: missed by {}, {why}",
                target.subject,
                words::gate(&target.rule),
                words::quantity(metric, measured),
                words::quantity(metric, limit),
                words::percent(by),
            ))
        })
        .collect()
}

/// Returns the row of a target that was measured.
fn row(aimed: &Aimed) -> Option<Vec<String>> {
    let (metric, measured, limit) = numbers(aimed)?;
    let standing = match (aimed.standing, &aimed.because) {
        (Standing::Met, _) => "met",
        (Standing::Missed, Some(_)) => "missed",
        (Standing::Missed, None) => "missed, unexplained",
        (Standing::NotMeasured, _) => return None,
    };
    Some(vec![
        aimed.subject.to_string(),
        words::gate(&aimed.rule),
        words::quantity(metric, measured),
        words::quantity(metric, limit),
        standing.to_owned(),
    ])
}

fn numbers(aimed: &Aimed) -> Option<(Metric, f64, f64)> {
    Some((aimed.rule.metric()?, aimed.measured?.0, aimed.limit?.0))
}

/// Returns the targets that were not measured, by reason: `3 targets of 2 cases (2 of k/fast): no NVIDIA device`.
fn not_measured(record: &Record, judgement: &Judgement) -> Vec<String> {
    let mut by_reason: BTreeMap<String, (usize, BTreeSet<&Subject>)> = BTreeMap::new();
    let targets = judgement.targets.iter();
    for target in targets.filter(|target| target.standing == Standing::NotMeasured) {
        let said = reasons::reason(&record.environment, &target.subject, &target.reason);
        let first = said.lines().next().unwrap_or_default().to_owned();
        let (count, subjects) = by_reason.entry(first).or_default();
        *count += 1;
        subjects.insert(&target.subject);
    }
    by_reason
        .into_iter()
        .map(|(why, (count, subjects))| {
            let (targets, subjects) = (plural(count, "target"), in_words(&record.plan, &subjects));
            format!("not measured: {targets} of {subjects}: {why}")
        })
        .collect()
}
