//! How agreed values moved, as sections and as JSON. Pure.

use super::section::{Chart, InTerminal, Kind, Part, Section, Table};
use judge::relative_change;
use model::{BaselineKey, Facet, Num, Subject};
use records::history::{History, Point, Series};
use records::repo::Commit;
use serde::Serialize;
use std::collections::BTreeMap;
use system::error::{Error, Result};
use wording::escape;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.history/1";

pub const TITLE: &str = "history of the baselines";

/// A table for each key of the metrics that moved, and a line for each subject where none did; at the end notes.
pub fn lay_out(history: &History) -> Vec<Vec<Section<'static>>> {
    let mut keys: BTreeMap<(Facet, &BaselineKey), Vec<&Series>> = BTreeMap::new();
    for series in &history.series {
        let facet = series.metric.facet();
        keys.entry((facet, &series.key)).or_default().push(series);
    }
    let mut keys: Vec<_> = keys.into_iter().collect();
    // Times are what is asked for first.
    keys.sort_by_key(|((facet, _), _)| *facet != Facet::Times);
    let keys = keys.into_iter();
    let keys = keys.map(|((facet, key), all)| of_key(facet, key, &all));
    let notes = Part::Lines(notes(history));
    let notes = vec![Section::new("note", "Notes", vec![notes])];
    keys.chain([notes]).collect()
}

fn of_key(facet: Facet, key: &BaselineKey, all: &[&Series]) -> Vec<Section<'static>> {
    let key = words::key(key);
    let (gone, here): (Vec<&Series>, Vec<&Series>) =
        all.iter().partition(|series| series.gone().is_some());
    let (moved, same): (Vec<&Series>, Vec<&Series>) =
        here.into_iter().partition(|series| series.moved());
    let columns = [
        ("of", Kind::Name),
        ("metric", Kind::Text),
        ("day", Kind::Text),
        ("commit", Kind::Text),
        ("value", Kind::Number),
        ("to the one before", Kind::Text),
        ("to the first", Kind::Text),
    ];
    let rows = moved.iter().flat_map(|series| rows(series));
    let table = Part::Table(Table::new(columns, rows.collect()));
    let heading = match moved.is_empty() {
        true => format!("{facet}, {key}: nothing moved"),
        false => format!("{facet}, {key}"),
    };
    let heading = Part::Lines(vec![heading]);
    let first = Section::new("key", &format!("History of {facet}"), vec![heading, table]);
    let charts = moved.iter().filter_map(|series| {
        let title = format!("{}: {}", series.subject, series.metric);
        Some(Section {
            is_folded: true,
            in_terminal: InTerminal::Never,
            ..Section::new("", &title, vec![Part::Chart(chart(series)?)])
        })
    });
    let rest = [("same", "Never moved", &same), ("gone", "Gone", &gone)];
    let rest = rest.map(|(label, what, series)| Section {
        is_folded: true,
        ..Section::new(
            label,
            &format!("{what}: {facet}, {key}"),
            vec![Part::Lines(lines(series))],
        )
    });
    std::iter::once(first).chain(charts).chain(rest).collect()
}

/// One for each commit that moved the value.
pub(super) fn rows(series: &Series) -> Vec<Vec<String>> {
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
        let (subject, metric) = match rows.is_empty() {
            true => (series.subject.to_string(), series.metric.to_string()),
            false => Default::default(),
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
        ]);
        before = point.value.or(before);
        first = first.or(point.value);
    }
    rows
}

/// One for each subject: its last values, and since when.
fn lines(all: &[&Series]) -> Vec<String> {
    let mut subjects: BTreeMap<(&Subject, Option<&Commit>), Vec<&Series>> = BTreeMap::new();
    for series in all {
        subjects
            .entry((&series.subject, series.gone()))
            .or_default()
            .push(series);
    }
    let lines = subjects.into_iter().map(|((subject, gone), all)| {
        let values = all.iter().filter_map(|series| {
            let value = series.points.iter().rev().find_map(|point| point.value)?;
            let value = words::quantity(series.metric, value.0);
            Some(format!("{} {value}", series.metric))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let versions =
            |series: &&Series| series.points.iter().filter(|it| it.value.is_some()).count();
        let most = all.iter().map(versions).max().unwrap_or_default();
        let since = all
            .iter()
            .filter_map(|series| series.points.first())
            .map(|it| &it.at)
            .min();
        let versions = words::plural(most, "version");
        let when = |at: &Commit| format!("{} {}", at.day, at.commit);
        let since = since.map(when).unwrap_or_default();
        let gone = gone.map_or(String::new(), |at| format!(", removed {}", when(at)));
        format!("{subject}: {values} ({versions} since {since}{gone})")
    });
    lines.collect()
}

/// The chart of a metric that more than one commit has: one value is no line.
fn chart(series: &Series) -> Option<Chart> {
    let points = series.points.iter().filter_map(|point| {
        let value = point.value?.0;
        value.is_finite().then_some((&point.at, value))
    });
    let points: Vec<_> = points.collect();
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
        .map(|it| {
            let name = |it: &records::history::Variant| format!("{}/{}", it.kernel, it.variant);
            format!(
                "{} was renamed to {} on {} by {}: two series each",
                name(&it.from),
                name(&it.to),
                it.at.day,
                it.at.commit
            )
        })
        .collect();
    if let Some(first) = history.unreadable.first() {
        notes.push(format!(
            "{} cannot be read and are left out; {} of {} {}: {}",
            words::plural(history.unreadable.len(), "version"),
            first.broken.path,
            first.at.day,
            first.at.commit,
            first.broken.problem
        ));
    }
    if let Some(oldest) = &history.shallow_since {
        notes.push(format!(
            "this is a shallow clone: what was before {} {} is not seen; `git fetch --unshallow` gets it",
            oldest.day, oldest.commit
        ));
    }
    notes
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    history: &'a History,
}

/// # Errors
/// Environment, where it cannot be written as JSON.
pub fn json(history: &History) -> Result<String> {
    let document = Document {
        schema: SCHEMA,
        history,
    };
    serde_json::to_string_pretty(&document)
        .map(|text| escape::json(&text) + "\n")
        .map_err(|error| Error::environment(format!("the history cannot be written: {error}")))
}
