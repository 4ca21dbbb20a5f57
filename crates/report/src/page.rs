//! Composes the report of a judgement for people: all sections in one order, which each format lays out. Pure.

use super::problems::Block;
use super::section::{ColumnKind, InTerminal, Room, Section, SectionPart, Table};
use super::{
    against_base, blame, causes, diagnosis, explain, not_judged, notes, printed, problems, rivals,
    standing, summary, targets, values,
};
use crate::input::ReportInput;
use ::explain::{CauseClass, CausePlace};
use judge::{Index, View};
use model::{
    AgainstBase, Conclusion, Facet, Judgement, Metric, Num, Outcome, Record, Subject, Verdict, Win,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wording::{reasons, words};

pub struct Page<'a> {
    pub conclusion: Conclusion,
    pub headline: String,
    /// Which gatekeeper judged on what machine with which compiler. It comes first.
    pub header: String,
    /// The machine and the compiler, in one line.
    pub circumstances: String,
    /// All sections. Empty ones are not shown.
    pub sections: Vec<Section<'a>>,
    /// The number of sections at the start that say what failed.
    pub failing: usize,
    /// A line that says where the wall time went.
    pub costs: String,
}

/// The number of lines about improvements in a terminal.
const MOST_WINS: usize = 10;

/// In a run in which nothing failed, a longer table is folded.
const MOST_ROWS: usize = 8;

pub fn lay_out<'a>(input: &ReportInput<'a>) -> Page<'a> {
    let ReportInput {
        index,
        record,
        judgement,
        ..
    } = *input;
    let lines = Section::with_lines;
    let accepted = judgement.accepted.iter();
    let accepted = accepted.map(|acceptance| standing::accepted(&record.environment, acceptance));
    // A smaller error is seldom more than another order of the same sum.
    let (errors, wins): (Vec<_>, Vec<_>) = judgement
        .wins
        .iter()
        .partition(|win| win.metric.facet() == Facet::Correctness);
    let won = |wins: Vec<&Win>| {
        let lines = wins.into_iter().map(|win| summary::win(record, win));
        lines.collect::<Vec<_>>()
    };
    let (changed, unchanged): (Vec<_>, Vec<_>) = compared(judgement)
        .into_iter()
        .partition(|verdict| moved(verdict));
    let unchanged_title = format!("{} unchanged", words::plural(unchanged.len(), "value"));
    let is_long = |rows: usize| judgement.conclusion != Conclusion::Fail && rows > MOST_ROWS;
    // A run that passes shows its values. A run that fails, or has many values, shows what to look at.
    let is_failing = judgement.conclusion == Conclusion::Fail;
    let unless_many = |rows: usize| {
        if is_failing || rows > MOST_ROWS {
            InTerminal::IfVerbose
        } else {
            InTerminal::Always
        }
    };
    let if_verbose = |label, title: &str, lines| Section {
        in_terminal: InTerminal::IfVerbose,
        ..Section::with_lines(label, title, lines)
    };
    let comment_only = |title: &str, table: Table, is_folded| Section {
        is_folded,
        in_terminal: InTerminal::Never,
        ..Section::with_table("", title, table)
    };
    let page_only = |title: &str, parts| Section {
        in_comment: false,
        in_terminal: InTerminal::Never,
        ..Section::new("", title, parts)
    };
    let counters = counters(judgement);
    let problems = problems::blocks(input);
    let other_causes = other_causes(index, judgement, &problems);
    let first = [
        Section::new("", "Problems", vec![SectionPart::Problems(problems)]),
        loosened(judgement),
        ungated(judgement),
        blame::in_terminal(judgement),
        blame::in_pages(judgement),
        Section::new(
            "printed",
            "Printed by kernels",
            vec![SectionPart::Printed(printed::printed(judgement))],
        ),
        Section {
            in_terminal: unless_many(record.plan.cases.len().max(record.plan.units.len())),
            in_page: false,
            ..values(index.head(), judgement)
        },
        {
            let fastest = rivals::fastest(judgement);
            Section {
                in_terminal: unless_many(fastest.rows.len()),
                in_page: false,
                ..Section::new(
                    "rivals",
                    "Against the fastest rival, in the same run on the same GPU",
                    vec![
                        SectionPart::Table(fastest),
                        SectionPart::Lines(rivals::lines(&record.environment, judgement)),
                    ],
                )
            }
        },
        Section {
            in_page: false,
            ..comment_only("Against each backend", rivals::all(judgement), true)
        },
        page_only(
            "Against rivals, in the same run on the same GPU",
            vec![
                SectionPart::Table(rivals::by_backend(judgement)),
                SectionPart::Lines(rivals::lines(&record.environment, judgement)),
            ],
        ),
    ];
    let [bounds, bounds_beside] = diagnosis::section(index, judgement);
    let base = judgement.base.as_ref();
    let nothing_compared = base.and_then(against_base::nothing_compared);
    let base = base.map(|base| lay_out_base(record, judgement, base));
    let rest = [
        lines("accepted", "Broken, and accepted", accepted.collect()),
        if_verbose(
            "expected",
            "Failed as expected",
            problems::expected(judgement),
        ),
        lines(
            "fallback",
            "Fell back on another variant",
            problems::replaced(record, judgement),
        ),
        comment_only("Other causes", other_causes, true),
        comment_only("Changes", comparison(&changed), is_long(changed.len())),
        {
            let is_folded = is_long(counters.rows.len());
            comment_only("Counters that changed", counters, is_folded)
        },
        Section {
            in_terminal: InTerminal::First(MOST_WINS),
            ..lines("better", "Better than the baseline", won(wins))
        },
        if_verbose("better", "Smaller errors than in the baseline", won(errors)),
        if_verbose("drift", "Since anchors", standing::drifts(judgement)),
        Section {
            in_terminal: InTerminal::IfVerbose,
            ..Section::new("targets", "Targets", targets::parts(record, judgement))
        },
        lines("missed", "Missed targets", targets::missed(judgement)),
        lines("note", "Notes", notes::about_run(record, judgement)),
        if_verbose("note", "Remarks", notes::about_cases(record, judgement)),
        Section {
            in_terminal: InTerminal::IfVerbose,
            ..bounds
        },
        bounds_beside,
        Section {
            in_page: false,
            ..if_verbose(
                "skipped",
                "Not judged",
                not_judged::skipped(record, judgement),
            )
        },
        Section {
            in_comment: false,
            in_page: false,
            ..Section::with_table("", "Not judged", not_judged::table(judgement))
        },
        page_only(
            "Not judged",
            vec![
                SectionPart::Table(not_judged::table(judgement)),
                SectionPart::Lines(not_judged::skipped(record, judgement)),
            ],
        ),
        Section {
            in_page: false,
            ..comment_only(&unchanged_title, comparison(&unchanged), true)
        },
    ];
    let sections = first.into_iter().chain(base).chain(rest);
    Page {
        conclusion: judgement.conclusion,
        headline: summary::headline(input),
        header: nothing_compared
            .into_iter()
            .chain([summary::header(record)])
            .collect::<Vec<_>>()
            .join("\n"),
        circumstances: summary::circumstances(record),
        sections: sections.collect(),
        failing: 2,
        costs: summary::costs(record),
    }
}

/// Returns the section on resources that became worse and that no gate limits. In a comment it is one folded line.
fn ungated<'a>(judgement: &Judgement) -> Section<'a> {
    let values = || {
        judgement
            .ungated
            .iter()
            .flat_map(|unit| unit.values.iter().map(move |value| (unit, value)))
    };
    let rows = values().map(|(unit, value)| {
        let quantity = |number: Num| words::quantity(value.metric, number.0);
        vec![
            unit.subject.to_string(),
            value.metric.to_string(),
            quantity(value.was),
            quantity(value.now),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let mut title = "Worse, and no gate asks".to_owned();
    if let Some((_, first)) = values().next() {
        let first = reasons::worse_value(first);
        let _ = match rows.len() {
            1 => write!(title, ": {first}"),
            count => write!(
                title,
                ": {first}, and {}",
                words::plural(count - 1, "more value")
            ),
        };
    }
    let columns = [
        ("worse, and no gate asks", ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("from", ColumnKind::Number),
        ("to", ColumnKind::Number),
    ];
    Section {
        is_folded: true,
        ..Section::with_table("worse", &title, Table::new(columns, rows))
    }
}

fn loosened(judgement: &Judgement) -> Section<'_> {
    let gates = against_base::loosened(judgement);
    let what = against_base::loosening(judgement, &gates);
    let parts = vec![SectionPart::Loosened(gates, what)];
    Section::new("loosened", "Loosened gates", parts)
}

fn values<'a>(view: View, judgement: &Judgement) -> Section<'a> {
    let legend = values::legend(view).map(str::to_owned);
    let parts = vec![
        SectionPart::Table(values::units(view, judgement)),
        SectionPart::Table(values::cases(view, judgement)),
        SectionPart::Lines(legend.into_iter().collect()),
    ];
    Section {
        is_folded: true,
        ..Section::new("times", "All values", parts)
    }
}

/// Returns the section on head's times against the base's, and on what was not timed.
fn lay_out_base<'a>(record: &Record, judgement: &Judgement, base: &AgainstBase) -> Section<'a> {
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
        (title.as_str(), ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("base", ColumnKind::Number),
        ("head", ColumnKind::Number),
        ("change", ColumnKind::Number),
        ("within", ColumnKind::Number),
        ("could see", ColumnKind::Number),
        ("limit", ColumnKind::Text),
        ("verdict", ColumnKind::Text),
    ];
    let mut table = Table::new(columns, rows.collect());
    for column in &mut table.columns {
        column.room = match column.head.as_str() {
            "could see" | "limit" => Room::Never,
            "within" => Room::IfItFits,
            _ => Room::Always,
        };
    }
    let mut lines = against_base::lines(record, judgement, base);
    if !table.rows.is_empty() {
        lines.extend(against_base::errors(record));
    }
    let title = format!("Compared with {}", against_base::revision(base));
    Section::new(
        "base",
        &title,
        vec![SectionPart::Table(table), SectionPart::Lines(lines)],
    )
}

/// Returns a table that says why cases are slower whose gate on their speed failed. Each cause appears once, and not
/// again if a problem names it.
fn other_causes(index: &Index, judgement: &Judgement, problems: &[Block]) -> Table {
    let mut known: Vec<(CauseClass, Vec<CausePlace>)> = problems
        .iter()
        .filter_map(|problem| problem.first_cause.as_ref())
        .map(|cause| (cause.class, cause.places.clone()))
        .collect();
    let mut rows = Vec::new();
    for (case, cause) in causes::explain_failures(index, judgement) {
        let of = (cause.class, cause.places.clone());
        if known.contains(&of) {
            continue;
        }
        known.push(of);
        rows.push(vec![
            case.to_string(),
            cause.class.name().to_owned(),
            explain::summary(&cause),
            explain::share(&cause),
        ]);
    }
    let columns = [
        ("case", ColumnKind::Name),
        ("class", ColumnKind::Name),
        ("cause", ColumnKind::Text),
        ("of the slowdown", ColumnKind::Text),
    ];
    Table::new(columns, rows)
}

/// Returns one verdict for each value that has a baseline. Among several gates the relative one is taken, because it
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

/// Returns true if a time moved by more than its spread, or if a value that repeats exactly moved at all.
fn moved(verdict: &Verdict) -> bool {
    if verdict.outcome == Outcome::Fail {
        return true;
    }
    match (verdict.interval, verdict.change) {
        (Some([low, high]), _) => low.0 * high.0 > 0.0,
        // No gate compares a time without an interval, so no claim is made about it.
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
        ("subject", ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("baseline", ColumnKind::Number),
        ("head", ColumnKind::Number),
        ("change", ColumnKind::Number),
        ("95 % interval", ColumnKind::Text),
        ("could see", ColumnKind::Number),
        ("verdict", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Returns a table with a row for each case, which has every counter that changed.
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
    let rows = rows
        .into_iter()
        .map(|(subject, lines)| vec![subject.to_string(), lines.join("\n")]);
    let columns = [
        ("case", ColumnKind::Name),
        ("counter: before -> now", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}
