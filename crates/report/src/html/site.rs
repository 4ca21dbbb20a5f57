//! How committed values moved, as pages of a site: an index, and a page for each case. Pure.

use super::chart;
use super::part::{self, Links, Shared};
use crate::history;
use crate::section::{Kind, Table};
use judge::{ANY_SHAPE, relative_change};
use maud::{Markup, html};
use model::{CaseId, Metric, Subject};
use records::history::{History, METRICS, Point, Series};
use std::collections::{BTreeMap, BTreeSet};
use wording::words;

/// A file of the site.
pub struct Page {
    /// With forward slashes, from the top of the site.
    pub path: String,
    pub text: String,
}

/// Moves that the index begins with.
const LATEST: usize = 20;

pub fn pages(history: &History) -> Vec<Page> {
    let cases = history.cases();
    let paths = paths(&cases);
    let pages = cases.iter().zip(&paths).map(|(id, path)| Page {
        path: path.clone(),
        text: case(id, &of_case(history, id)),
    });
    let links = cases.iter().zip(&paths);
    let links = links.map(|(id, path)| (name(id), path.clone())).collect();
    let index = Page {
        path: "index.html".to_owned(),
        text: index(history, &cases, links),
    };
    std::iter::once(index).chain(pages).collect()
}

/// A name without anything that a file system or an address could take for something else; no two alike, in capital
/// letters either.
pub(super) fn paths(cases: &[CaseId]) -> Vec<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let plain = |c: char| match c.is_ascii_alphanumeric() || "._-".contains(c) {
        true => c,
        false => '-',
    };
    let paths = cases.iter().map(|id| {
        let parts = [&id.kernel, &id.variant, &id.shape];
        let parts = parts.map(|part| part.chars().take(60).map(plain).collect::<String>());
        let stem = parts.join("--");
        let names = std::iter::once(stem.clone()).chain((2..).map(|at| format!("{stem}--{at}")));
        let mut free = names.filter(|name| known.insert(name.to_ascii_lowercase()));
        format!("cases/{}.html", free.next().unwrap_or(stem))
    });
    paths.collect()
}

/// `k/fast@small`; `k/fast` of what is of every shape.
fn name(id: &CaseId) -> String {
    match id.shape == ANY_SHAPE {
        true => format!("{}/{}", id.kernel, id.variant),
        false => id.to_string(),
    }
}

/// Its own, and those of what it is built from.
fn of_case<'a>(history: &'a History, id: &CaseId) -> Vec<&'a Series> {
    let is_of = |subject: &Subject| match subject {
        Subject::Case(case) => case == id,
        Subject::Unit(unit) => (&unit.kernel, &unit.variant) == (&id.kernel, &id.variant),
    };
    let series = history.series.iter();
    series.filter(|it| is_of(&it.subject)).collect()
}

fn index(history: &History, cases: &[CaseId], links: Links) -> String {
    let shared = Shared::unbounded(&links);
    let mut kernels: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for id in cases {
        let rows = kernels.entry(&id.kernel).or_default();
        rows.push(row(id, &of_case(history, id)));
    }
    let columns = [
        ("case", Kind::Name),
        ("p50", Kind::Number),
        ("registers", Kind::Number),
        ("shared", Kind::Number),
        ("max_err", Kind::Number),
        ("moved last", Kind::Text),
        ("versions", Kind::Number),
    ];
    let moves = moves(history);
    let notes = history::notes(history);
    let title = "Baselines, commit by commit";
    let body = html! {
        header {
            h1 { (title) }
            p {
                (words::plural(cases.len(), "case")) " of " (words::plural(kernels.len(), "kernel"))
                ", as they were agreed on in git"
            }
        }
        main {
            @if !moves.rows.is_empty() {
                section { h2 { "Moved last" } (part::table(&moves, &shared)) }
            }
            @for (kernel, rows) in kernels {
                section { h2 { (kernel) } (part::table(&Table::new(columns, rows), &shared)) }
            }
            @if !notes.is_empty() {
                section { h2 { "Notes" } ul { @for note in &notes { li { (note) } } } }
            }
        }
        footer { "p50, shared memory and max_err are of the GPU, compiler and flags that were agreed on last." }
    };
    super::document(title, &body)
}

fn row(id: &CaseId, all: &[&Series]) -> Vec<String> {
    let here = || all.iter().filter(|it| it.gone().is_none());
    let latest = |metric: Metric| {
        let of_it = here().filter(|it| it.metric == metric);
        let last = of_it.max_by_key(|it| it.points.last().map(|point| &point.at))?;
        let value = last.points.last()?.value?;
        Some(words::quantity(metric, value.0))
    };
    let registers = here().filter(|it| it.metric == Metric::Registers);
    let registers = registers.filter_map(|it| it.points.last()?.value);
    let registers = registers.map(|it| words::quantity(Metric::Registers, it.0));
    let registers: BTreeSet<String> = registers.collect();
    let registers: Vec<String> = registers.into_iter().collect();
    let moved = all.iter().flat_map(|it| changes(it)).map(|(_, to)| &to.at);
    let moved = moved.max().map(|at| format!("{} {}", at.day, at.commit));
    let commits = all.iter().flat_map(|it| &it.points);
    let commits: BTreeSet<_> = commits.map(|point| &point.at).collect();
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    vec![
        name(id),
        or_none(latest(Metric::P50)),
        or_none((!registers.is_empty()).then(|| registers.join(", "))),
        or_none(latest(Metric::Shared)),
        or_none(latest(Metric::MaxErr)),
        moved.unwrap_or("never".to_owned()),
        commits.len().to_string(),
    ]
}

/// Where a value became another: the two versions.
fn changes(series: &Series) -> impl Iterator<Item = (&Point, &Point)> {
    let points = series.points.iter();
    let pairs = points.clone().zip(points.skip(1));
    pairs.filter(|(from, to)| from.value != to.value)
}

/// The latest first.
fn moves(history: &History) -> Table {
    let all = history.series.iter();
    let all = all.flat_map(|series| changes(series).map(move |it| (series, it)));
    let mut all: Vec<_> = all
        .filter_map(|(series, (from, to))| Some((series, to, from.value?.0, to.value?.0)))
        .collect();
    all.sort_by_key(|(_, to, _, _)| std::cmp::Reverse(&to.at));
    let rows = all.into_iter().take(LATEST);
    let rows = rows.map(|(series, to, was, is)| {
        let value = |value: f64| words::quantity(series.metric, value);
        vec![
            format!("{} {}", to.at.day, to.at.commit),
            series.subject.to_string(),
            series.metric.to_string(),
            value(was),
            value(is),
            words::change(series.metric, relative_change(is, was)),
        ]
    });
    let columns = [
        ("commit", Kind::Text),
        ("of", Kind::Name),
        ("metric", Kind::Text),
        ("was", Kind::Number),
        ("is", Kind::Number),
        ("change", Kind::Text),
    ];
    Table::new(columns, rows.collect())
}

fn case(id: &CaseId, all: &[&Series]) -> String {
    let title = name(id);
    let mut all = all.to_vec();
    all.sort_by_key(|it| METRICS.iter().position(|metric| *metric == it.metric));
    let (gone, here): (Vec<&Series>, Vec<&Series>) =
        all.into_iter().partition(|it| it.gone().is_some());
    let (several, single): (Vec<&Series>, Vec<&Series>) =
        here.into_iter().partition(|it| it.points.len() > 1);
    let single = single.into_iter().map(|it| {
        let only = it.points.first();
        let value = only.and_then(|point| point.value);
        vec![
            it.metric.to_string(),
            value.map_or("-".to_owned(), |value| words::quantity(it.metric, value.0)),
            version(only),
            words::key(&it.key),
        ]
    });
    let columns = [
        ("metric", Kind::Text),
        ("value", Kind::Number),
        ("since", Kind::Text),
        ("key", Kind::Text),
    ];
    let single = Table::new(columns, single.collect());
    let body = html! {
        header {
            h1 { (title) }
            p { a href="../index.html" { "All cases" } }
        }
        main {
            @for it in several { (whole(it)) }
            @if !single.rows.is_empty() {
                section { h2 { "One version" } (part::table(&single, &Shared::unbounded(&Links::new()))) }
            }
            @if !gone.is_empty() {
                section {
                    details { summary { h2 { "Gone" } } @for it in &gone { (whole(it)) } }
                }
            }
        }
    };
    super::document(&title, &body)
}

/// One series with all of its versions that differ.
fn whole(series: &Series) -> Markup {
    let columns = [
        ("day", Kind::Text),
        ("commit", Kind::Text),
        ("value", Kind::Number),
        ("to the one before", Kind::Text),
        ("to the first", Kind::Text),
    ];
    // The text above names the case and the metric.
    let rows = history::rows(series).into_iter();
    let rows = rows.map(|row| row.into_iter().skip(2).collect());
    let table = Table::new(columns, rows.collect());
    html! {
        section {
            h2 { (series.metric) }
            (self::series(series))
            (part::table(&table, &Shared::unbounded(&Links::new())))
        }
    }
}

fn version(point: Option<&Point>) -> String {
    let at = point.map(|point| &point.at);
    at.map_or(String::new(), |at| format!("{} {}", at.day, at.commit))
}

/// One value under one key, commit by commit.
pub fn series(series: &Series) -> Markup {
    let values = series.points.iter().filter_map(|point| point.value);
    let values: Vec<f64> = values.map(|value| value.0).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let (scale, unit) = words::unit(series.metric, most);
    let scaled: Vec<f64> = values.iter().map(|value| value / scale).collect();
    let title = match unit {
        "" => format!("{} of {}", series.metric, series.subject),
        unit => format!("{} of {}, {unit}", series.metric, series.subject),
    };
    html! {
        figure {
            @if values.len() > 1 { (chart::line(&title, &scaled)) }
            figcaption {
                (title) ": " (words::plural(values.len(), "version"))
                " from " (version(series.points.first())) " to " (version(series.points.last()))
                br; (words::key(&series.key))
            }
        }
    }
}
