//! Lays out how agreed values moved, as sections and as JSON. `html::history` has the page. Pure.

use super::section::{Chart, ColumnKind, InTerminal, Room, Section, SectionPart, Table};
use crate::document;
use judge::relative_change;
use model::{BaselineKey, Facet, Metric, Num, Subject};
use records::history::{History, Point, Series};
use records::repo::Commit;
use serde::Serialize;
use std::collections::BTreeMap;
use system::error::Result;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.history/1";

pub const TITLE: &str = "history of the baselines";

/// The metrics that say most. Others follow from these, or are other statistics of the same samples.
pub(super) const METRICS: [Metric; 5] = [
    Metric::P50,
    Metric::Cycles,
    Metric::Registers,
    Metric::Shared,
    Metric::MaxErr,
];

/// Returns true for the metrics that a terminal and a comment show. The page and JSON have all metrics.
pub(super) fn is_main(series: &Series) -> bool {
    let is_counted = matches!(series.metric.facet(), Facet::Counters | Facet::Profile);
    is_counted || METRICS.contains(&series.metric)
}

/// The series of values that have one key.
pub(super) struct SeriesGroup<'a> {
    facet: Facet,
    pub key: String,
    pub moved: Vec<&'a Series>,
    pub same: Vec<&'a Series>,
    pub gone: Vec<&'a Series>,
}

/// Groups values by their key. Times come first, because they are what is asked for first.
pub(super) fn by_key<'a>(all: impl IntoIterator<Item = &'a Series>) -> Vec<SeriesGroup<'a>> {
    let mut keys: BTreeMap<(bool, Facet, &BaselineKey), Vec<&Series>> = BTreeMap::new();
    for series in all {
        let facet = series.metric.facet();
        let key = (facet != Facet::Times, facet, &series.key);
        keys.entry(key).or_default().push(series);
    }
    keys.into_iter()
        .map(|((_, facet, key), all)| {
            let (gone, here): (Vec<&Series>, Vec<&Series>) =
                all.into_iter().partition(|series| series.gone().is_some());
            let (moved, same) = here.into_iter().partition(|series| series.moved());
            SeriesGroup {
                facet,
                key: format!("{facet}, {}", words::key(key)),
                moved,
                same,
                gone,
            }
        })
        .collect()
}

/// Lays out a table for each key of the metrics that moved, a line for each subject where none did, and notes at the end.
pub fn lay_out(history: &History) -> Vec<Vec<Section<'static>>> {
    let notes = SectionPart::Lines(notes(history));
    by_key(history.series.iter().filter(|series| is_main(series)))
        .iter()
        .map(lay_out_group)
        .chain([vec![Section::new("note", "Notes", vec![notes])]])
        .collect()
}

fn lay_out_group(group: &SeriesGroup) -> Vec<Section<'static>> {
    let heading = if group.moved.is_empty() {
        format!("{}: nothing moved", group.key)
    } else {
        group.key.clone()
    };
    let parts = vec![
        SectionPart::Lines(vec![heading]),
        SectionPart::Table(table(&group.moved)),
    ];
    let first = Section::new("key", &format!("History of {}", group.facet), parts);
    let charts = group.moved.iter().filter_map(|series| {
        let title = format!("{}: {}", series.subject, series.metric);
        Some(Section {
            is_folded: true,
            in_terminal: InTerminal::Never,
            ..Section::new("", &title, vec![SectionPart::Chart(chart(series)?)])
        })
    });
    let rest = [
        ("same", "Never moved", &group.same),
        ("gone", "Gone", &group.gone),
    ]
    .map(|(label, what, series)| Section {
        is_folded: true,
        ..Section::with_lines(label, &format!("{what}: {}", group.key), lines(series))
    });
    std::iter::once(first).chain(charts).chain(rest).collect()
}

/// Returns the table of all versions of values that moved.
pub(super) fn table(moved: &[&Series]) -> Table {
    let columns = [
        ("case", ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("day", ColumnKind::Text),
        ("commit", ColumnKind::Text),
        ("value", ColumnKind::Number),
        ("since the previous", ColumnKind::Text),
        ("since the first", ColumnKind::Text),
        ("subject", ColumnKind::Text),
    ];
    let mut table = Table::new(
        columns,
        moved.iter().flat_map(|series| rows(series)).collect(),
    );
    if let Some(subject) = table.columns.last_mut() {
        subject.room = Room::IfItFits;
    }
    table
}

/// Returns a row for each commit that moved the value.
fn rows(series: &Series) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut first, mut before): (Option<Num>, Option<Num>) = (None, None);
    let mut last: Option<&Point> = None;
    for point in &series.points {
        if last.is_some_and(|last| last.value == point.value) {
            continue;
        }
        last = Some(point);
        let to = |old: Option<Num>| match (old, point.value) {
            (Some(old), Some(new)) => words::change(series.metric, relative_change(new.0, old.0)),
            _ => "-".to_owned(),
        };
        let (subject, metric) = if rows.is_empty() {
            (series.subject.to_string(), series.metric.to_string())
        } else {
            Default::default()
        };
        rows.push(vec![
            subject,
            metric,
            point.at.day.clone(),
            point.at.commit.clone(),
            point.value.map_or("removed".to_owned(), |value| {
                words::quantity(series.metric, value.0)
            }),
            to(before),
            to(first),
            point.at.subject.clone(),
        ]);
        before = point.value.or(before);
        first = first.or(point.value);
    }
    rows
}

/// Returns a line for each subject: its last values, and since when it has them.
pub(super) fn lines(all: &[&Series]) -> Vec<String> {
    let mut subjects: BTreeMap<(&Subject, Option<&Commit>), Vec<&Series>> = BTreeMap::new();
    for series in all {
        subjects
            .entry((&series.subject, series.gone()))
            .or_default()
            .push(series);
    }
    subjects
        .into_iter()
        .map(|((subject, gone), all)| {
            let values: Vec<String> = all
                .iter()
                .filter_map(|series| {
                    let value = series.points.iter().rev().find_map(|point| point.value)?;
                    let value = words::quantity(series.metric, value.0);
                    Some(format!("{} {value}", series.metric))
                })
                .collect();
            let values = values.join(", ");
            let versions = |series: &&Series| {
                series
                    .points
                    .iter()
                    .filter(|point| point.value.is_some())
                    .count()
            };
            let most = all.iter().map(versions).max().unwrap_or_default();
            let since = all
                .iter()
                .filter_map(|series| series.points.first())
                .map(|point| &point.at)
                .min();
            let versions = words::plural(most, "version");
            let since = since.map(Commit::to_string).unwrap_or_default();
            let gone = gone.map_or(String::new(), |at| format!(", removed {at}"));
            format!("{subject}: {values} ({versions} since {since}{gone})")
        })
        .collect()
}

/// Draws a value that more than one commit has. A single value makes no line.
pub(super) fn chart(series: &Series) -> Option<Chart> {
    let points: Vec<_> = series
        .points
        .iter()
        .filter_map(|point| {
            let value = point.value?.0;
            value.is_finite().then_some((&point.at, value))
        })
        .collect();
    let largest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let (scale, unit) = words::unit(series.metric, largest);
    let unit = match unit {
        "" => String::new(),
        unit => format!(" in {unit}"),
    };
    (points.len() > 1).then(|| Chart {
        title: format!("{}: {}{unit}", series.subject, series.metric),
        labels: points.iter().map(|(at, _)| at.commit.clone()).collect(),
        values: points.iter().map(|(_, value)| value / scale).collect(),
    })
}

pub(super) fn notes(history: &History) -> Vec<String> {
    let mut notes: Vec<String> = history
        .renamed
        .iter()
        .map(|rename| {
            let name = |variant: &records::history::Variant| {
                format!("{}/{}", variant.kernel, variant.variant)
            };
            format!(
                "{} was renamed to {} by {}: two series each",
                name(&rename.from),
                name(&rename.to),
                rename.at
            )
        })
        .collect();
    if let Some(first) = history.unreadable.first() {
        notes.push(format!(
            "{} cannot be read and are left out; {} of {}: {}",
            words::plural(history.unreadable.len(), "version"),
            first.broken.path,
            first.at,
            first.broken.problem
        ));
    }
    if let Some(oldest) = &history.shallow_since {
        notes.push(format!(
            "this is a shallow clone: what was before {oldest} is not seen; `git fetch --unshallow` gets it"
        ));
    }
    notes
}

#[derive(Serialize)]
struct HistoryDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    history: &'a History,
}

/// Returns the history as JSON.
///
/// # Errors
/// Fails with an environment error if it cannot be written as JSON.
pub fn json(history: &History) -> Result<String> {
    let document = HistoryDocument {
        schema: SCHEMA,
        history,
    };
    document::json("the history", &document)
}
