//! Lays out the values of every unit and case as tables. Pure.

use super::against_base;
use super::section::{ColumnKind, Room, Table};
use judge::View;
use model::{Case, Counter, Judgement, Metric, Mode, Outcome, Subject, Verdict};
use std::collections::BTreeSet;
use wording::words;

pub const UNIT_METRICS: [Metric; 5] = [
    Metric::Registers,
    Metric::Shared,
    Metric::Spills,
    Metric::Stack,
    Metric::Occupancy,
];

/// Returns the metrics of a case in a table: on a GPU, or in the simulator if there was no GPU.
fn case_metrics(is_simulated: bool) -> &'static [(&'static str, Metric)] {
    if is_simulated { &SIMULATED } else { &TIMED }
}

const TIMED: [(&str, Metric); 5] = [
    ("max_err", Metric::MaxErr),
    ("p50", Metric::P50),
    ("p90", Metric::P90),
    ("p99", Metric::P99),
    ("cv", Metric::Cv),
];

const SIMULATED: [(&str, Metric); 5] = [
    ("max_err", Metric::MaxErr),
    ("load sectors", Metric::Counter(Counter::GlobalLoadSectors)),
    (
        "store sectors",
        Metric::Counter(Counter::GlobalStoreSectors),
    ),
    (
        "shared loads",
        Metric::Counter(Counter::SharedLoadWavefronts),
    ),
    (
        "shared stores",
        Metric::Counter(Counter::SharedStoreWavefronts),
    ),
];

/// The columns that are shown however narrow a terminal is.
const FIRST: [&str; 4] = ["registers", "max_err", "p50", "p50 to base"];

pub fn units(view: View, judgement: &Judgement) -> Table {
    table(
        "unit",
        UNIT_METRICS.map(Metric::name),
        view.plan()
            .units
            .iter()
            .map(|unit| {
                let subject = Subject::Unit(unit.id.clone());
                let cells = cells(view, &subject, UNIT_METRICS);
                row(&subject, cells, worst(verdicts_on(judgement, &subject)))
            })
            .collect(),
    )
}

/// Returns a row: the name, the values, and the worst verdict.
fn row(subject: &Subject, cells: Vec<String>, outcome: Option<Outcome>) -> Vec<String> {
    let name = [subject.to_string()].into_iter();
    let outcome = outcome.map_or("no gate", Outcome::name).to_owned();
    name.chain(cells).chain([outcome]).collect()
}

fn table<'a>(
    what: &'a str,
    metrics: impl IntoIterator<Item = &'a str>,
    rows: Vec<Vec<String>>,
) -> Table {
    let metrics = metrics
        .into_iter()
        .map(|metric| (metric, ColumnKind::Number));
    let mut table = Table::new(
        [(what, ColumnKind::Name)]
            .into_iter()
            .chain(metrics)
            .chain([("verdict", ColumnKind::Text)]),
        rows,
    );
    for column in &mut table.columns {
        if column.kind == ColumnKind::Number && !FIRST.contains(&column.head.as_str()) {
            column.room = Room::IfItFits;
        }
    }
    table
}

/// Explains the columns of times, if there are any: a short kernel takes longer alone than among others, and that is no
/// tail.
pub fn legend(view: View) -> Option<&'static str> {
    let tail = |case: &Case| {
        view.metric(&Subject::Case(case.id.clone()), Metric::P90)
            .is_ok()
    };
    let says = match view.plan().timing.mode {
        Mode::Warm => {
            "p50 is of launches back to back; p90, p99 and cv of single ones, each with its start"
        }
        Mode::Cold => "all are of single launches with an empty L2 cache, each with its start",
    };
    view.plan().cases.iter().any(tail).then_some(says)
}

/// Returns a table of times, with the change of p50 against the base or the baseline. A case that was skipped entirely
/// has no value to show, and is counted among the skipped ones.
pub fn cases(view: View, judgement: &Judgement) -> Table {
    let is_simulated = view.is_simulated();
    let metrics = case_metrics(is_simulated);
    let mut heads: Vec<_> = metrics.iter().map(|(head, _)| *head).collect();
    if !is_simulated {
        heads.push("p50 to base");
    }
    let mut rows = Vec::new();
    for case in &view.plan().cases {
        let subject = Subject::Case(case.id.clone());
        let mut cells = cells(view, &subject, metrics.iter().map(|(_, metric)| *metric));
        if !is_simulated {
            cells.push(p50_to_base(judgement, &subject));
        }
        let worst = worst(verdicts_on(judgement, &subject));
        if worst != Some(Outcome::Skipped) || cells.iter().any(|cell| cell != "-") {
            rows.push(row(&subject, cells, worst));
        }
    }
    table("case", heads, rows)
}

/// The metrics of a page's table of cases, with their heads. p50 is measured with launches back to back.
const PAGE_TIMED: [(&str, Metric); 8] = [
    ("p50", Metric::P50),
    ("max_err", Metric::MaxErr),
    ("registers", Metric::Registers),
    ("shared", Metric::Shared),
    ("spills", Metric::Spills),
    ("single p90", Metric::P90),
    ("single p99", Metric::P99),
    ("cv", Metric::Cv),
];

/// The metrics of the code that a page shows next to the counters of a simulated case.
const CODE: [(&str, Metric); 3] = [
    ("registers", Metric::Registers),
    ("shared", Metric::Shared),
    ("spills", Metric::Spills),
];

/// Returns the numbers of these cases, with the head of each column and its unit. A column without any value is left
/// out.
pub fn columns(view: View, judgement: &Judgement, cases: &[&Case]) -> Vec<(String, Vec<String>)> {
    let subjects: Vec<Subject> = cases
        .iter()
        .map(|case| Subject::Case(case.id.clone()))
        .collect();
    let metrics = if view.is_simulated() {
        [SIMULATED.as_slice(), &CODE].concat()
    } else {
        PAGE_TIMED.to_vec()
    };
    let mut columns = Vec::new();
    for (head, metric) in metrics {
        let values = subjects
            .iter()
            .map(|subject| view.shown(subject, metric).ok());
        columns.push(words::column(head, metric, &values.collect::<Vec<_>>()));
        if metric == Metric::P50 {
            columns.push((
                "p50 to base".to_owned(),
                subjects
                    .iter()
                    .map(|subject| p50_to_base(judgement, subject))
                    .collect(),
            ));
        }
    }
    columns.retain(|(_, cells)| cells.iter().any(|cell| cell != "-"));
    columns
}

fn p50_to_base(judgement: &Judgement, subject: &Subject) -> String {
    let compared = |verdict: &&Verdict| {
        verdict.subject == *subject
            && !verdict.is_anchored()
            && verdict.metric() == Some(Metric::P50)
            && verdict.change.is_some()
    };
    against_base::p50(judgement, subject)
        .or_else(|| {
            let verdict = judgement.verdicts.iter().find(compared)?;
            Some(self::compared(verdict, verdict.change?.0))
        })
        .unwrap_or("-".to_owned())
}

/// Returns a change in words. A change within its own interval is no change, and the smallest visible change says what
/// that is worth.
pub fn compared(verdict: &Verdict, change: f64) -> String {
    match (verdict.interval, verdict.smallest_visible) {
        (Some([low, high]), Some(visible)) if low.0 <= 0.0 && high.0 >= 0.0 => {
            format!("same to {}", words::percent(visible.0))
        }
        _ => words::change(Metric::P50, change),
    }
}

pub fn cells(
    view: View,
    subject: &Subject,
    metrics: impl IntoIterator<Item = Metric>,
) -> Vec<String> {
    let cell = |metric: Metric| {
        let value = view.shown(subject, metric);
        value.map_or("-".to_owned(), |value| words::quantity(metric, value))
    };
    metrics.into_iter().map(cell).collect()
}

fn verdicts_on<'a>(
    judgement: &'a Judgement,
    subject: &'a Subject,
) -> impl Iterator<Item = &'a Verdict> + use<'a> {
    judgement
        .verdicts
        .iter()
        .filter(move |verdict| verdict.subject == *subject)
}

/// The outcomes in the order of a table: what keeps the run from passing first, then a pass, and last what was not
/// judged.
pub const WORST_FIRST: [Outcome; 8] = [
    Outcome::Fail,
    Outcome::Environment,
    Outcome::Inconclusive,
    Outcome::Replaced,
    Outcome::Expected,
    Outcome::Pass,
    Outcome::Unsupported,
    Outcome::Skipped,
];

/// Returns the worst outcome of a subject's verdicts.
pub fn worst<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Option<Outcome> {
    let said: BTreeSet<_> = verdicts.map(|verdict| verdict.outcome).collect();
    WORST_FIRST
        .into_iter()
        .find(|outcome| said.contains(outcome))
}
