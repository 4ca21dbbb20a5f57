//! Renders the history of committed baselines as a page: what moved last, and each case with all its values. Pure.

use super::part::{self, Links, Shared};
use crate::history::{self, METRICS, SeriesGroup};
use crate::section::{ColumnKind, Table};
use judge::{ANY_SHAPE, relative_change};
use maud::{Markup, html};
use model::{CaseId, Metric, Subject};
use records::history::{History, Series};
use records::repo::Commit;
use std::collections::BTreeSet;
use wording::words;

/// The number of moves that the page begins with.
const LATEST: usize = 20;

pub fn render(history: &History) -> String {
    let cases: Vec<ShownSeries> = history
        .cases()
        .into_iter()
        .enumerate()
        .map(|(at, id)| ShownSeries::new(history, &id, at))
        .collect();
    let mut links = Links::new();
    for case in &cases {
        let subjects = case.series.iter().map(|series| series.subject.to_string());
        for name in subjects.chain([case.name.clone()]) {
            links.entry(name).or_insert(format!("#{}", case.anchor));
        }
    }
    let shared = Shared::unbounded(&links);
    let kernels: BTreeSet<_> = cases.iter().map(|case| &case.kernel).collect();
    let newest = history
        .series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| &point.at)
        .max();
    let latest = latest(history);
    let notes = history::notes(history);
    let body = html! {
        header {
            h1 { (history::TITLE) }
            p {
                (words::plural(cases.len(), "case")) " of " (words::plural(kernels.len(), "kernel"))
                @if let Some(newest) = newest { ", up to " (newest) ": " (newest.subject) }
            }
            nav {
                @if !latest.rows.is_empty() { a href="#moves" { "Moved last" } }
                a href="#cases" { "Cases" }
                @if !notes.is_empty() { a href="#notes" { "Notes" } }
            }
        }
        main {
            @if !latest.rows.is_empty() {
                section { h2 id="moves" { "Moved last" } (part::table(&latest, &shared)) }
            }
            (table_of_cases(&cases, &shared))
            @if !notes.is_empty() {
                section { h2 id="notes" { "Notes" } ul { @for note in &notes { li { (part::prose(note)) } } } }
            }
        }
        footer { "The table of cases has the values that were agreed on last, whatever their GPU, compiler and flags." }
    };
    super::document(&format!("{} - gatekeeper", history::TITLE), &body)
}

/// A case as the page shows it.
struct ShownSeries<'a> {
    /// The name of the case, or `k/fast` for values that hold for every shape.
    name: String,
    kernel: String,
    anchor: String,
    /// The case's own series, and the series of what it is built from.
    series: Vec<&'a Series>,
    state: &'static str,
    /// The last commit that moved a value, and what it moved.
    moved: Option<String>,
}

impl<'a> ShownSeries<'a> {
    fn new(history: &'a History, id: &CaseId, at: usize) -> Self {
        let series: Vec<&Series> = history
            .series
            .iter()
            .filter(|series| match &series.subject {
                Subject::Case(case) => case == id,
                Subject::Unit(unit) => (&unit.kernel, &unit.variant) == (&id.kernel, &id.variant),
            })
            .collect();
        let state = if series.iter().all(|series| series.gone().is_some()) {
            "gone"
        } else if series.iter().any(|series| series.moved()) {
            "moved"
        } else {
            "same"
        };
        let name = if id.shape == ANY_SHAPE {
            format!("{}/{}", id.kernel, id.variant)
        } else {
            id.to_string()
        };
        Self {
            name,
            kernel: id.kernel.clone(),
            anchor: format!("case-{}", at + 1),
            moved: last_move(&series),
            series,
            state,
        }
    }

    /// Returns the value of this metric at the last commit that has one. With several architectures, each value appears
    /// once.
    fn latest(&self, metric: Metric) -> Option<String> {
        let last = || {
            let series = self.series.iter().filter(|series| series.metric == metric);
            series.filter_map(|series| Some((series.points.last()?, series.points.last()?.value?)))
        };
        let at = &last().map(|(point, _)| &point.at).max()?;
        let values: BTreeSet<String> = last()
            .filter(|(point, _)| point.at == **at)
            .map(|(_, value)| words::quantity(metric, value.0))
            .collect();
        Some(values.into_iter().collect::<Vec<_>>().join(", "))
    }

    fn block(&self) -> Markup {
        html! {
            details.case data-name=(self.name) data-outcome=(self.state) {
                summary {
                    code.name { (self.name) } " " span.badge { (self.state) }
                    @if let Some(moved) = &self.moved { span.muted { (moved) } }
                }
                div id=(self.anchor) {
                    @for group in history::by_key(self.series.iter().copied()) { (values_of(&group)) }
                }
            }
        }
    }
}

/// A value that a commit changed.
struct Move<'a> {
    series: &'a Series,
    at: &'a Commit,
    from: f64,
    to: f64,
}

impl Move<'_> {
    fn change(&self) -> String {
        let change = relative_change(self.to, self.from);
        words::change(self.series.metric, change)
    }
}

/// Returns all moves of some values, the newest first. For one commit p50 comes first, and then what moved most.
fn moves<'a>(series: impl IntoIterator<Item = &'a Series>) -> Vec<Move<'a>> {
    let mut all: Vec<Move> = series
        .into_iter()
        .flat_map(|series| series.moves().map(move |pair| (series, pair)))
        .filter_map(|(series, (from, to))| {
            Some(Move {
                series,
                at: &to.at,
                from: from.value?.0,
                to: to.value?.0,
            })
        })
        .collect();
    let is_p50 = |change: &Move| change.series.metric == Metric::P50;
    let size = |change: &Move| relative_change(change.to, change.from).abs();
    all.sort_by(|a, b| {
        b.at.cmp(a.at)
            .then(is_p50(b).cmp(&is_p50(a)))
            .then(size(b).total_cmp(&size(a)))
    });
    all
}

fn latest(history: &History) -> Table {
    let rows = moves(&history.series)
        .into_iter()
        .take(LATEST)
        .map(|change| {
            let metric = change.series.metric;
            vec![
                change.at.to_string(),
                change.series.subject.to_string(),
                metric.to_string(),
                words::quantity(metric, change.from),
                words::quantity(metric, change.to),
                change.change(),
                change.at.subject.clone(),
            ]
        });
    let columns = [
        ("commit", ColumnKind::Text),
        ("case", ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("was", ColumnKind::Number),
        ("is", ColumnKind::Number),
        ("change", ColumnKind::Text),
        ("subject", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Returns the last move in words: `2026-11-27 0a34415aaaaa: global_load_sectors 190.0 % more, and 3 more`.
fn last_move(series: &[&Series]) -> Option<String> {
    let all = moves(series.iter().copied());
    let first = all.first()?;
    let said = format!("{}: {} {}", first.at, first.series.metric, first.change());
    let more = all
        .iter()
        .skip(1)
        .filter(|change| change.at == first.at)
        .count();
    Some(if more > 0 {
        format!("{said}, and {more} more")
    } else {
        said
    })
}

/// Renders everything under one key, with a chart of what moved.
fn values_of(group: &SeriesGroup) -> Markup {
    let links = Links::new();
    let shared = Shared::unbounded(&links);
    let charts: Vec<Markup> = group
        .moved
        .iter()
        .filter(|series| history::is_main(series))
        .filter_map(|series| history::chart(series))
        .map(|chart| part::line(&chart))
        .collect();
    let rest = [("never moved", &group.same), ("gone", &group.gone)]
        .map(|(what, series)| (what, history::lines(series)));
    html! {
        h4 { (group.key) }
        @if !group.moved.is_empty() { (part::table(&history::table(&group.moved), &shared)) }
        @if !charts.is_empty() { div.charts { @for chart in &charts { (chart) } } }
        @for (what, lines) in &rest {
            @for line in lines { p.held { span.muted { (what) " " } (line) } }
        }
    }
}

fn table_of_cases(cases: &[ShownSeries], shared: &Shared) -> Markup {
    let metrics: Vec<Metric> = METRICS
        .into_iter()
        .filter(|metric| cases.iter().any(|case| case.latest(*metric).is_some()))
        .collect();
    let rows = cases.iter().map(|case| {
        html! {
            tr {
                td { (part::names(&case.name, shared.links)) }
                td { span.badge { (case.state) } }
                @for metric in &metrics { td { (case.latest(*metric).as_deref().unwrap_or("-")) } }
                td { (case.moved.as_deref().unwrap_or("never")) }
            }
        }
    });
    let heads = metrics
        .iter()
        .map(|metric| metric.name())
        .chain(["moved last"]);
    part::cases(
        "values",
        cases.iter().map(|case| case.state).collect(),
        &heads.collect::<Vec<_>>(),
        &rows.collect::<Vec<_>>(),
        &html! { @for case in cases { (case.block()) } },
    )
}
