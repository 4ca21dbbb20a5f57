//! Sections of a report for people: plain data in one order, which each format lays out. Pure.

use super::against_base::{self, LoosenedGates};
use super::printed::{self, Printed};
use super::problems::{self, Problem};
use super::{causes, diagnosis, figures, notes, rivals, standing, summary, targets};
use judge::{Index, View};
use model::{AgainstBase, Conclusion, Facet, Judgement, Metric, Outcome, Record, Subject, Verdict};
use std::collections::BTreeSet;
use wording::words;

pub struct Page<'a> {
    pub conclusion: Conclusion,
    pub headline: String,
    /// On what, by what.
    pub circumstances: String,
    /// Those without anything in them are not shown.
    pub sections: Vec<Section<'a>>,
    /// Where the wall time went.
    pub costs: String,
}

pub struct Section<'a> {
    /// Begins each line in a terminal: at most eight letters.
    pub label: &'static str,
    /// In a comment.
    pub title: String,
    pub parts: Vec<Part<'a>>,
    /// In a comment: at its end, and one click away.
    pub is_folded: bool,
    pub in_terminal: bool,
    /// In a comment, and in a page for a browser.
    pub in_comment: bool,
}

pub enum Part<'a> {
    Problems(Vec<Problem<'a>>),
    Loosened(Vec<LoosenedGates<'a>>, String),
    Lines(Vec<String>),
    Table(Table),
    Printed(Vec<Printed>),
    /// Not in a terminal.
    Chart(Chart),
}

/// Values in their order, as a line.
pub struct Chart {
    /// The meaning of the values, with their unit.
    pub title: String,
    /// One for each value, no two alike.
    pub labels: Vec<String>,
    pub values: Vec<f64>,
}

pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

pub struct Column {
    pub head: String,
    pub kind: Kind,
    /// Too much for a terminal.
    pub is_wide: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The name of a unit or case: to be copied, and so never broken.
    Name,
    Number,
    Text,
}

/// In a run in which nothing failed, more rows than this are folded.
const MOST_ROWS: usize = 8;

/// `index`: of the record, and of the one that it is compared with, if it is.
pub fn lay_out<'a>(index: &Index, record: &Record, judgement: &'a Judgement) -> Page<'a> {
    let lines = |label, title: &str, lines| Section::new(label, title, vec![Part::Lines(lines)]);
    let accepted = judgement.accepted.iter();
    let accepted = accepted.map(|it| standing::accepted(&record.environment, it));
    let wins = judgement.wins.iter().map(|win| summary::win(record, win));
    let (changed, unchanged): (Vec<_>, Vec<_>) = compared(judgement)
        .into_iter()
        .partition(|verdict| moved(verdict));
    let unchanged_title = format!("{} unchanged", words::plural(unchanged.len(), "value"));
    let is_long = |rows: usize| judgement.conclusion != Conclusion::Fail && rows > MOST_ROWS;
    let comment_only = |title: &str, table: Table, is_folded| Section {
        is_folded,
        in_terminal: false,
        ..Section::new("", title, vec![Part::Table(table)])
    };
    let counters = counters(judgement);
    let first = [
        Section::new(
            "",
            "Problems",
            vec![Part::Problems(problems::problems(index, record, judgement))],
        ),
        loosened(judgement),
        Section::new(
            "printed",
            "Printed by kernels",
            vec![Part::Printed(printed::printed(judgement))],
        ),
        figures(index.head(), judgement),
        Section::new(
            "rivals",
            "Against the fastest rival, in the same run on the same GPU",
            vec![
                Part::Table(rivals::fastest(judgement)),
                Part::Lines(rivals::lines(&record.environment, judgement)),
            ],
        ),
        comment_only("Against each backend", rivals::all(judgement), true),
    ];
    let [bounds, bounds_beside] = diagnosis::section(index, judgement);
    let base = judgement.base.as_ref();
    let base = base.map(|base| of_base(record, judgement, base));
    let rest = [
        lines("accepted", "Broken, and accepted", accepted.collect()),
        lines(
            "expected",
            "Failed as expected",
            problems::expected(judgement),
        ),
        lines(
            "fallback",
            "Fell back on another variant",
            problems::replaced(index, record, judgement),
        ),
        Section {
            is_folded: true,
            in_terminal: false,
            ..Section::new(
                "",
                "Why",
                causes::table(index, judgement)
                    .map(Part::Table)
                    .into_iter()
                    .collect(),
            )
        },
        comment_only("Changes", comparison(&changed), is_long(changed.len())),
        {
            let is_folded = is_long(counters.rows.len());
            comment_only("Counters that changed", counters, is_folded)
        },
        lines("better", "Better than the baseline", wins.collect()),
        lines("drift", "Since anchors", standing::drifts(judgement)),
        Section::new("targets", "Targets", targets::parts(record, judgement)),
        lines("missed", "Missed targets", targets::missed(judgement)),
        lines(
            "note",
            "Notes",
            notes::lines(index.head(), record, judgement),
        ),
        bounds,
        bounds_beside,
        lines("skipped", "Not judged", summary::skipped(record, judgement)),
        comment_only(&unchanged_title, comparison(&unchanged), true),
    ];
    let sections = first.into_iter().chain(base).chain(rest);
    Page {
        conclusion: judgement.conclusion,
        headline: summary::headline(judgement),
        circumstances: summary::circumstances(record),
        sections: sections.collect(),
        costs: summary::costs(&record.costs),
    }
}

impl<'a> Section<'a> {
    pub fn new(label: &'static str, title: &str, parts: Vec<Part<'a>>) -> Self {
        Self {
            label,
            title: title.to_owned(),
            parts,
            is_folded: false,
            in_terminal: true,
            in_comment: true,
        }
    }
}

impl Part<'_> {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Problems(problems) => problems.is_empty(),
            Self::Loosened(gates, _) => gates.is_empty(),
            Self::Lines(lines) => lines.is_empty(),
            Self::Table(table) => table.rows.is_empty(),
            Self::Printed(printed) => printed.is_empty(),
            Self::Chart(chart) => chart.values.is_empty(),
        }
    }
}

impl Table {
    pub fn new<'a>(
        columns: impl IntoIterator<Item = (&'a str, Kind)>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(|(head, kind)| Column {
            head: head.to_owned(),
            kind,
            is_wide: false,
        });
        Self {
            columns: columns.collect(),
            rows,
        }
    }
}

fn loosened(judgement: &Judgement) -> Section<'_> {
    let gates = against_base::loosened(judgement);
    let what = against_base::loosening(judgement, &gates);
    let parts = vec![Part::Loosened(gates, what)];
    Section::new("loosened", "Loosened gates", parts)
}

fn figures<'a>(view: View, judgement: &Judgement) -> Section<'a> {
    let legend = figures::legend(view).map(str::to_owned);
    let parts = vec![
        Part::Table(figures::units(view, judgement)),
        Part::Table(figures::cases(view, judgement)),
        Part::Lines(legend.into_iter().collect()),
    ];
    Section {
        is_folded: true,
        ..Section::new("times", "All values", parts)
    }
}

/// Head's times against the base's, and what was not timed.
fn of_base<'a>(record: &Record, judgement: &Judgement, base: &AgainstBase) -> Section<'a> {
    let title = format!("against {}", against_base::revision(base));
    let rows = against_base::compared(judgement).into_iter().map(|row| {
        vec![
            row.subject.to_string(),
            row.metric.to_string(),
            row.base,
            row.head,
            row.change,
            row.bounds,
            row.visible,
            row.gates,
            row.outcome.to_string(),
        ]
    });
    let columns = [
        (title.as_str(), Kind::Name),
        ("metric", Kind::Text),
        ("base", Kind::Number),
        ("head", Kind::Number),
        ("change", Kind::Number),
        ("within", Kind::Number),
        ("could see", Kind::Number),
        ("limit", Kind::Text),
        ("verdict", Kind::Text),
    ];
    let mut table = Table::new(columns, rows.collect());
    for column in &mut table.columns {
        column.is_wide = matches!(column.head.as_str(), "could see" | "limit");
    }
    let mut lines = base_lines(record, judgement, base);
    if !table.rows.is_empty() {
        lines.extend(against_base::errors(record));
    }
    let title = format!("Compared with {}", against_base::revision(base));
    Section::new("base", &title, vec![Part::Table(table), Part::Lines(lines)])
}

/// The comparison with the base, and its cost.
pub fn base_lines(record: &Record, judgement: &Judgement, base: &AgainstBase) -> Vec<String> {
    let mut lines = vec![against_base::compared_with(base)];
    lines.extend(against_base::untimed(record, base));
    lines.extend(against_base::checked(record, base));
    if let Some(effort) = against_base::effort(judgement) {
        lines.push(format!("timed interleaved: {effort}"));
    }
    lines
}

/// One verdict for each figure that has a baseline; the relative gate's where there are several, which
/// knows the interval.
fn compared(judgement: &Judgement) -> Vec<&Verdict> {
    let mut seen: BTreeSet<(&Subject, Metric)> = BTreeSet::new();
    let with = |interval: bool| {
        judgement.verdicts.iter().filter(move |verdict| {
            verdict.baseline.is_some()
                && !against_base::is_of_base(judgement, verdict)
                && verdict.change.is_some()
                && !verdict.is_anchored()
                && verdict.interval.is_some() == interval
        })
    };
    let mut found = Vec::new();
    for verdict in with(true).chain(with(false)) {
        if let Some(metric) = verdict.metric()
            && seen.insert((&verdict.subject, metric))
        {
            found.push(verdict);
        }
    }
    found.sort_by_key(|verdict| {
        judgement
            .verdicts
            .iter()
            .position(|other| std::ptr::eq(*verdict, other))
    });
    found
}

/// More than its spread for times, at all for figures that repeat exactly.
fn moved(verdict: &Verdict) -> bool {
    if verdict.outcome == Outcome::Fail {
        return true;
    }
    match (verdict.interval, verdict.change) {
        (Some([low, high]), _) => low.0 * high.0 > 0.0,
        // A time without an interval is compared by no gate, and no claim is made of it.
        (None, Some(change)) => {
            change.0 != 0.0
                && verdict
                    .metric()
                    .is_none_or(|metric| metric.facet() != Facet::Times)
        }
        (None, None) => false,
    }
}

fn comparison(verdicts: &[&Verdict]) -> Table {
    let rows = verdicts.iter().filter_map(|verdict| {
        let metric = verdict.metric()?;
        let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
        let value = |value: model::Num| words::quantity(metric, value.0);
        let interval = verdict
            .interval
            .map(|[low, high]| words::interval(metric, [low.0, high.0]));
        let visible = verdict.smallest_visible;
        Some(vec![
            verdict.subject.to_string(),
            metric.to_string(),
            value(verdict.baseline?),
            or_none(verdict.measured.map(value)),
            words::change(metric, verdict.change?.0),
            or_none(interval),
            or_none(visible.map(|visible| words::percent(visible.0))),
            verdict.outcome.to_string(),
        ])
    });
    let columns = [
        ("subject", Kind::Name),
        ("metric", Kind::Text),
        ("baseline", Kind::Number),
        ("head", Kind::Number),
        ("change", Kind::Number),
        ("95 % interval", Kind::Text),
        ("could see", Kind::Number),
        ("verdict", Kind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// A row for each case; in it every counter that changed.
fn counters(judgement: &Judgement) -> Table {
    let mut rows: Vec<(&Subject, Vec<String>)> = Vec::new();
    for changed in &judgement.counters {
        let metric = Metric::Counter(changed.counter);
        let line = format!(
            "{metric}: {} -> {}, {}",
            words::quantity(metric, changed.baseline.0),
            words::quantity(metric, changed.measured.0),
            words::change(metric, changed.change.0),
        );
        match rows.last_mut() {
            Some((subject, row)) if **subject == changed.subject => row.push(line),
            _ => rows.push((&changed.subject, vec![line])),
        }
    }
    let rows = rows.into_iter();
    let rows = rows.map(|(subject, lines)| vec![subject.to_string(), lines.join("\n")]);
    let columns = [("case", Kind::Name), ("counter: before -> now", Kind::Text)];
    Table::new(columns, rows.collect())
}
