//! Renders each case of a run: its verdicts, its samples and their limits, what it takes, how its agreed values moved,
//! and what the simulator found in it. One table has a row for each case.

use super::chart::{self, ChartChange, Level, Process, Samples, Times};
use super::part::{self, Links, Shared};
use super::svg::Ink;
use crate::diagnosis;
use crate::history;
use crate::input::ReportInput;
use crate::section::{ColumnKind, Table};
use crate::summary;
use crate::values;
use explain::diagnosis::changes::notable;
use judge::stats;
use judge::{Index, SeenFinding};
use maud::{Markup, html};
use model::{
    Case, CaseId, Facet, Limit, Margin, Metric, Outcome, Question, Rule, Side, Subject, TimeFacts,
    Unit, Verdict,
};
use records::history::Series;
use std::collections::{BTreeMap, BTreeSet};
use wording::reasons;
use wording::words;

/// The number of series that are drawn for one case, the last moved first. Every compiler and GPU has a series of its
/// own.
const MOST_SERIES: usize = 4;

pub struct Cases<'a> {
    input: &'a ReportInput<'a>,
    verdicts: BTreeMap<&'a Subject, Vec<&'a Verdict>>,
    history: BTreeMap<&'a Subject, Vec<&'a Series>>,
    /// Reasons for the cases that failed or that are better than their baseline.
    why: BTreeMap<CaseId, Vec<String>>,
}

/// A case as the page shows it.
struct ShownCase<'a> {
    case: &'a Case,
    subject: Subject,
    /// The position of the case in the plan.
    at: usize,
    worst: Option<Outcome>,
}

impl ShownCase<'_> {
    fn is_failed(&self) -> bool {
        matches!(self.worst, Some(Outcome::Fail | Outcome::Environment))
    }
}

/// The room that a page has for blocks, in bytes.
#[derive(Clone, Copy)]
pub struct Room {
    pub failed: usize,
    pub others: usize,
}

/// The rendered blocks of single cases.
pub struct Blocks<'a> {
    /// All cases of the run, the worst first.
    all: Vec<ShownCase<'a>>,
    /// Blocks of failed cases, by the position of the case in the plan.
    failed: Vec<(usize, Markup)>,
    others: Vec<(usize, Markup)>,
}

impl Blocks<'_> {
    fn has(&self, at: usize) -> bool {
        self.failed
            .iter()
            .chain(&self.others)
            .any(|(other, _)| *other == at)
    }
}

impl<'a> Cases<'a> {
    pub fn new(input: &'a ReportInput<'a>) -> Self {
        let index = input.index;
        let mut verdicts: BTreeMap<&Subject, Vec<&Verdict>> = BTreeMap::new();
        for verdict in &input.judgement.verdicts {
            verdicts.entry(&verdict.subject).or_default().push(verdict);
        }
        let mut history: BTreeMap<&Subject, Vec<&Series>> = BTreeMap::new();
        for series in input.history.iter().flat_map(|history| &history.series) {
            history.entry(&series.subject).or_default().push(series);
        }
        let why = notable(index, input.judgement)
            .into_iter()
            .map(|diagnosed| (diagnosed.case.clone(), diagnosis::lines(index, &diagnosed)));
        Self {
            input,
            why: why.collect(),
            verdicts,
            history,
        }
    }

    /// Returns the cases, the worst first.
    fn in_order(&self) -> Vec<ShownCase<'a>> {
        let all = self
            .input
            .record
            .plan
            .cases
            .iter()
            .enumerate()
            .map(|(at, case)| {
                let subject = Subject::Case(case.id.clone());
                let own = values::worst(self.verdicts_of(&subject).into_iter());
                let units = self.units(&case.id);
                let units = units.map(|unit| Subject::Unit(unit.id.clone()));
                let of_units = values::worst(units.flat_map(|unit| self.verdicts_of(&unit)));
                // A case cannot be better than its build. A successful build says nothing about the case.
                let of_units =
                    of_units.filter(|outcome| rank(Some(*outcome)) < rank(Some(Outcome::Pass)));
                let worst = match (own, of_units) {
                    (Some(own), Some(of_units)) if rank(Some(own)) < rank(Some(of_units)) => {
                        Some(own)
                    }
                    (own, of_units) => of_units.or(own),
                };
                ShownCase {
                    case,
                    subject,
                    at,
                    worst,
                }
            });
        let mut all: Vec<ShownCase> = all.collect();
        all.sort_by_key(|shown| (rank(shown.worst), shown.at));
        all
    }

    /// Renders blocks: the blocks of failures while there is room, and then the blocks of all other cases, or of none.
    pub fn blocks(&self, room: Room) -> Blocks<'a> {
        let all = self.in_order();
        let (failed, rest): (Vec<&ShownCase>, Vec<&ShownCase>) =
            all.iter().partition(|shown| shown.is_failed());
        let mut left = room.failed;
        let failed = failed
            .into_iter()
            .map(|block| (block.at, self.block(block)));
        let fits = |(_, block): &(usize, Markup)| {
            let fits = left.checked_sub(block.0.len());
            left = fits.unwrap_or_default();
            fits.is_some()
        };
        let failed: Vec<_> = failed.take_while(fits).collect();
        let mut left = room.others;
        let mut others = Vec::new();
        for shown in rest {
            let block = self.block(shown);
            let Some(fits) = left.checked_sub(block.0.len()) else {
                others.clear();
                break;
            };
            left = fits;
            others.push((shown.at, block));
        }
        Blocks {
            all,
            failed,
            others,
        }
    }

    /// Returns links to the block of each case, or to its row.
    pub fn links(&self, blocks: &Blocks) -> Links {
        let plan = &self.input.record.plan;
        let link = |at: usize| {
            if blocks.has(at) {
                format!("#{}", anchor(at))
            } else {
                format!("#{}", row_anchor(at))
            }
        };
        let cases = plan
            .cases
            .iter()
            .enumerate()
            .map(|(at, case)| (case.id.to_string(), link(at)));
        plan.units
            .iter()
            .filter_map(|unit| {
                let of_it = |case: &Case| is_of(unit, &case.id);
                let at = plan.cases.iter().position(of_it)?;
                Some((unit.id.to_string(), link(at)))
            })
            .chain(cases)
            .collect()
    }

    /// Renders a row for each case, failures first, and the blocks below the table. `room` is the number of bytes for
    /// the rows.
    pub fn render(&self, blocks: &Blocks, links: &Links, room: usize) -> Markup {
        let all = &blocks.all;
        if all.is_empty() {
            return html! {};
        }
        let view = self.input.index.head();
        let cases: Vec<&Case> = all.iter().map(|shown| shown.case).collect();
        let columns = values::columns(view, self.input.judgement, &cases);
        let rows = all.iter().enumerate().map(|(place, shown)| {
            let name = shown.case.id.to_string();
            let cells = columns.iter().filter_map(|(_, cells)| cells.get(place));
            html! {
                tr id=[(!blocks.has(shown.at)).then(|| row_anchor(shown.at))] {
                    td {
                        @match links.get(&name).filter(|_| blocks.has(shown.at)) {
                            Some(link) => a.name href=(link) { (name) },
                            None => code { (name) },
                        }
                    }
                    td { (badge(shown.worst)) }
                    @for cell in cells { td { (cell) } }
                }
            }
        });
        let (rows, left) = Shared::within(links, room).fit(rows);
        let unsaid = all.len() - blocks.failed.len() - blocks.others.len();
        let outcomes = all
            .iter()
            .filter_map(|shown| Some(shown.worst?.name()))
            .collect();
        let below = html! {
            (part::cut(left, "cases, none of them worse than these"))
            @if let Some(legend) = values::legend(view) { p.muted { (legend) } }
            @for (_, block) in &blocks.failed { (block) }
            @if !blocks.others.is_empty() {
                details.fold {
                    summary {
                        "Gates, samples and resources of the "
                        @if !blocks.failed.is_empty() { "other " }
                        (words::plural(blocks.others.len(), "case"))
                    }
                    @for (_, block) in &blocks.others { (block) }
                }
            }
            @if unsaid > 0 {
                p.cut {
                    (words::plural(unsaid, "case"))
                    " without their gates and samples, so that this page stays small: report.json has the verdicts, \
                     record.json the samples."
                }
            }
        };
        let heads: Vec<&str> = columns.iter().map(|(head, _)| head.as_ref()).collect();
        part::cases("verdict", outcomes, &heads, &rows, &below)
    }

    fn verdicts_of(&self, subject: &Subject) -> Vec<&'a Verdict> {
        self.verdicts.get(subject).cloned().unwrap_or_default()
    }

    fn block(&self, shown: &ShownCase) -> Markup {
        let outcome = shown.worst.map_or("no gate", Outcome::name);
        let name = shown.case.id.to_string();
        html! {
            details.case open[shown.is_failed()] data-name=(name) data-outcome=(outcome) {
                summary {
                    code.name { (name) } " "
                    (badge(shown.worst))
                    @if let Some(line) = self.line(&shown.subject) { span.muted { (line) } }
                }
                div id=(anchor(shown.at)) {
                    (self.verdicts(shown))
                    @if let Some(lines) = self.why.get(&shown.case.id) {
                        (fold("Why", html! { ul { @for line in lines { li { (part::prose(line)) } } } }))
                    }
                    (self.findings(&shown.case.id))
                    (self.times(shown))
                    (self.resources(&shown.case.id))
                    (self.counters(&shown.case.id))
                    (self.history(shown))
                }
            }
        }
    }

    /// Returns the line that a reader sees of a folded case.
    fn line(&self, subject: &Subject) -> Option<String> {
        let p50 = self
            .input
            .index
            .head()
            .metric(subject, Metric::P50)
            .ok()?
            .number;
        let p50 = format!("p50 {}", words::quantity(Metric::P50, p50));
        let to = self.verdicts_of(subject).into_iter().find(|change| {
            change.metric() == Some(Metric::P50) && !change.is_anchored() && change.change.is_some()
        });
        Some(match to.and_then(|change| Some((change, change.change?))) {
            Some((verdict, change)) => {
                let change = values::compared(verdict, change.0);
                format!("{p50}, {change}")
            }
            None => p50,
        })
    }

    /// Renders verdicts: failures first, then comparisons, and a line each for the other gates that held and for those
    /// that were not judged.
    fn verdicts(&self, shown: &ShownCase) -> Markup {
        let units = self.units(&shown.case.id);
        let units = units.map(|unit| Subject::Unit(unit.id.clone()));
        let of_units: Vec<&Verdict> = units.flat_map(|unit| self.verdicts_of(&unit)).collect();
        let all = self.verdicts_of(&shown.subject).into_iter().chain(of_units);
        let mut told: Vec<&Verdict> = Vec::new();
        let mut held: Vec<String> = Vec::new();
        let mut unjudged: Vec<(Outcome, String, Vec<String>)> = Vec::new();
        let environment = &self.input.record.environment;
        for verdict in all {
            match verdict.outcome {
                Outcome::Pass if margin(verdict).is_none() => held.push(with_value(verdict)),
                Outcome::Skipped | Outcome::Unsupported => {
                    let why = reasons::verdict(environment, verdict);
                    let gate = label_gate(verdict);
                    let known = unjudged.iter_mut();
                    match known.into_iter().find(|(_, other, _)| *other == why) {
                        Some((_, _, gates)) => gates.push(gate),
                        None => unjudged.push((verdict.outcome, why, vec![gate])),
                    }
                }
                _ => told.push(verdict),
            }
        }
        told.sort_by_key(|verdict| rank(Some(verdict.outcome)));
        let has_baselines = told.iter().any(|verdict| verdict.baseline.is_some());
        let has_reason =
            |verdict: &Verdict| verdict.outcome != Outcome::Pass || verdict.measured.is_none();
        let has_reasons = told.iter().any(|verdict| has_reason(verdict));
        let command = summary::reproduce(self.input.record, self.input.judgement, &shown.subject);
        html! {
            @if !told.is_empty() {
                div.scroll {
                    table.verdicts {
                        thead {
                            tr {
                                th scope="col" { "gate" }
                                th scope="col" { "verdict" }
                                th.number scope="col" { "measured" }
                                @if has_baselines {
                                    th.number scope="col" { "against" }
                                    th scope="col" { "change" }
                                }
                                @if has_reasons { th scope="col" { "why" } }
                            }
                        }
                        tbody {
                            @for verdict in &told {
                                tr {
                                    td {
                                        code { (label_gate(verdict)) }
                                        @if let Some(declared) = &verdict.declared { " " span.muted { (declared) } }
                                    }
                                    td { (part::outcome(verdict.outcome)) }
                                    td.number data-head="measured" { (quantity(verdict, verdict.measured.map(|measured| measured.0))) }
                                    @if has_baselines {
                                        td.number data-head="against" { (quantity(verdict, verdict.baseline.map(|baseline| baseline.0))) }
                                        td { (change(verdict)) }
                                    }
                                    @if has_reasons {
                                        td.why.long { @if has_reason(verdict) { (part::prose(&reasons::verdict(environment, verdict))) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if !held.is_empty() { p.held { (part::outcome(Outcome::Pass)) " " (held.join(", ")) } }
            @for (outcome, why, gates) in &unjudged {
                p.held { (part::outcome(*outcome)) " " (gates.join(", ")) span.muted { ": " (part::prose(why)) } }
            }
            @if let Some(shell_line) = command { (part::command(&shell_line)) }
        }
    }

    fn times(&self, shown: &ShownCase) -> Markup {
        let processes = times(self.input.index, &shown.case.id);
        if processes.is_empty() {
            return html! {};
        }
        let of_times: Vec<&Verdict> = self
            .verdicts_of(&shown.subject)
            .into_iter()
            .filter(|verdict| {
                verdict
                    .metric()
                    .is_some_and(|metric| metric.facet() == Facet::Times)
            })
            .collect();
        html! {
            div.charts {
                (samples(&processes, &of_times))
                (changes(&of_times))
            }
        }
    }

    fn units(&self, id: &CaseId) -> impl Iterator<Item = &'a Unit> {
        self.input
            .record
            .plan
            .units
            .iter()
            .filter(move |unit| is_of(unit, id))
    }

    fn resources(&self, id: &CaseId) -> Markup {
        let rows = self.units(id).map(|unit| {
            let subject = Subject::Unit(unit.id.clone());
            let cells = values::cells(self.input.index.head(), &subject, values::UNIT_METRICS);
            [unit.id.arch.to_string()]
                .into_iter()
                .chain(cells)
                .collect()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if rows.iter().flatten().all(|cell| cell == "-") {
            return html! {};
        }
        let metrics =
            values::UNIT_METRICS.map(|unit_metrics| (unit_metrics.name(), ColumnKind::Number));
        let columns = [("resources", ColumnKind::Text)].into_iter().chain(metrics);
        part::table(
            &Table::new(columns, rows),
            &Shared::unbounded(&Links::new()),
        )
    }

    /// Renders the counters of the first seed, with the source line that has most of each.
    fn counters(&self, id: &CaseId) -> Markup {
        let simulated = self.input.index.head().simulations(id);
        let Some((seed, facts)) = simulated.first() else {
            return html! {};
        };
        let gated = facts
            .counters
            .iter()
            .map(|counter| (counter, "gates can rest on it"));
        let others = facts
            .information
            .iter()
            .map(|information| (information, "for information"));
        let rows = gated.chain(others).map(|((counter, count), what)| {
            let most = facts.lines.get(counter).and_then(|lines| lines.first());
            vec![
                counter.name().to_owned(),
                words::quantity((*counter).into(), *count as f64),
                most.map_or("-".to_owned(), |most_at| {
                    format!("{} at {}", most_at.count, most_at.place)
                }),
                what.to_owned(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return html! {};
        }
        let columns = [
            ("counter", ColumnKind::Text),
            ("of a launch", ColumnKind::Number),
            ("most of it", ColumnKind::Text),
            ("", ColumnKind::Text),
        ];
        let title = format!("Counted in the simulator, seed {seed}");
        fold(
            &title,
            part::table(
                &Table::new(columns, rows),
                &Shared::unbounded(&Links::new()),
            ),
        )
    }

    /// Renders the findings of all seeds, each once, with the source lines that they are about.
    fn findings(&self, id: &CaseId) -> Markup {
        let seen = self.input.index.head().findings(id);
        if seen.is_empty() {
            return html! {};
        }
        html! {
            h4 { "Findings" }
            @for SeenFinding { seed, finding, .. } in &seen {
                p {
                    code { (finding.kind.name()) } " "
                    span.muted { (words::plural(finding.times as usize, "time")) " with seed " (seed) }
                }
                p.why { (part::prose(&wording::findings::message(finding))) }
                pre {
                    @for place in &finding.places {
                        @match place.line.as_ref().and_then(|line| Some((line, line.text.as_ref()?))) {
                            Some((line, text)) => { span.at { (line.file) ":" (line.number) "  " } (text.trim()) "\n" },
                            None => { span.at { (place.at) } "\n" },
                        }
                    }
                }
            }
        }
    }

    /// Renders the history of the case, and of what it is built from.
    fn history(&self, shown: &ShownCase) -> Markup {
        let units = self.units(&shown.case.id);
        let units = units.map(|unit| Subject::Unit(unit.id.clone()));
        let mut all: Vec<&Series> = [shown.subject.clone()]
            .into_iter()
            .chain(units)
            .flat_map(|subject| self.history.get(&subject).into_iter().flatten().copied())
            .filter(|series| series.gone().is_none())
            .filter(|series| matches!(series.metric, Metric::P50 | Metric::Registers))
            .collect();
        let last = |series: &Series| series.points.last().map(|point| point.at.clone());
        all.sort_by_key(|series| (std::cmp::Reverse(last(series)), series.metric));
        let charts: Vec<Markup> = all
            .iter()
            .filter_map(|series| {
                let mut chart = history::chart(series)?;
                chart.title = format!("{}, {}", chart.title, words::key(&series.key));
                Some(part::line(&chart))
            })
            .take(MOST_SERIES)
            .collect();
        if charts.is_empty() {
            return html! {};
        }
        fold(
            "History of the committed baselines",
            html! { div.charts { @for chart in &charts { (chart) } } },
        )
    }
}

fn fold(title: &str, inner: Markup) -> Markup {
    html! { details.fold { summary { (title) } (inner) } }
}

fn anchor(at: usize) -> String {
    format!("case-{}", at + 1)
}

fn row_anchor(at: usize) -> String {
    format!("row-{}", at + 1)
}

fn badge(outcome: Option<Outcome>) -> Markup {
    match outcome {
        Some(outcome) => part::outcome(outcome),
        None => html! { span.badge { "no gate" } },
    }
}

fn is_of(unit: &Unit, case: &CaseId) -> bool {
    (&unit.id.kernel, &unit.id.variant) == (&case.kernel, &case.variant)
}

fn rank(outcome: Option<Outcome>) -> usize {
    values::WORST_FIRST
        .iter()
        .map(|outcome| Some(*outcome))
        .enumerate()
        .find_map(|(at, known)| (known == outcome).then_some(at))
        .unwrap_or(usize::MAX)
}

/// Returns samples of one launch in ns, the base next to head: from one process, or from two runs.
fn times(index: &Index, id: &CaseId) -> Vec<Process> {
    let mut head = index.head().timed(id).peekable();
    let base = index
        .view(Side::Base, None)
        .filter(|_| head.peek().is_some());
    let mut base = base.into_iter().flat_map(|view| view.timed(id));
    let next = || match (head.next(), base.next()) {
        (None, None) => None,
        (head, base) => Some(Process {
            head: head.map(launches).unwrap_or_default(),
            base: base.map(launches).unwrap_or_default(),
        }),
    };
    std::iter::from_fn(next).collect()
}

fn launches(facts: &TimeFacts) -> Times {
    let each = f64::from(facts.launches_per_sample.max(1));
    let samples = facts.batched_ns.iter();
    Times {
        samples: samples.map(|ns| *ns as f64 / each).collect(),
        p50: stats::p50([facts]),
    }
}

/// Returns a gate with the architecture if it is about a unit: `registers <= 128 [sm_90]`.
fn label_gate(verdict: &Verdict) -> String {
    let gate = words::question(&verdict.question);
    match &verdict.subject {
        Subject::Unit(unit) => format!("{gate} [{}]", unit.arch),
        Subject::Case(_) => gate,
    }
}

/// Returns a gate with its value: `registers <= 128 [sm_90] (96)`.
fn with_value(verdict: &Verdict) -> String {
    let gate = label_gate(verdict);
    match verdict.measured {
        Some(value) => format!("{gate} ({})", quantity(verdict, Some(value.0))),
        None => gate,
    }
}

fn quantity(verdict: &Verdict, value: Option<f64>) -> String {
    match (verdict.metric(), value) {
        (Some(metric), Some(value)) => words::quantity(metric, value),
        (None, Some(value)) => value.to_string(),
        (_, None) => "-".to_owned(),
    }
}

fn change(verdict: &Verdict) -> String {
    let (Some(metric), Some(change)) = (verdict.metric(), verdict.change) else {
        return "-".to_owned();
    };
    let change = words::change(metric, change.0);
    match verdict.interval {
        Some([low, high]) => {
            format!("{change} ({})", words::interval(metric, [low.0, high.0]))
        }
        None => change,
    }
}

/// Returns by how much a gate lets a metric be worse than a value that it is compared with.
fn margin(verdict: &Verdict) -> Option<Margin> {
    let Question::Gate(Rule::Limit { limit, .. }) = &verdict.question else {
        return None;
    };
    match limit {
        Limit::Baseline { change } | Limit::Anchor { change, .. } => Some(*change),
        Limit::Base { change } => Some(Margin::Share(*change)),
        Limit::Absolute { .. } => None,
    }
}

/// Returns the margin as a share of the value that the metric is compared with.
fn allowed(verdict: &Verdict) -> Option<f64> {
    match margin(verdict)? {
        Margin::Share(share) => Some(share.0),
        Margin::Amount { .. } => None,
    }
}

/// The label of a level that does not fit the scale.
struct ChartLabel {
    name: String,
    value: f64,
}

fn samples(processes: &[Process], verdicts: &[&Verdict]) -> Markup {
    let mut levels = Vec::new();
    let mut named: Vec<ChartLabel> = Vec::new();
    let mut interval = None;
    let has_base = processes
        .iter()
        .any(|process| !process.base.samples.is_empty());
    let p50 = verdicts
        .iter()
        .filter(|verdict| verdict.metric() == Some(Metric::P50));
    for verdict in p50 {
        let name = words::question(&verdict.question);
        let baseline = verdict.baseline.map(|baseline| baseline.0);
        match (allowed(verdict), baseline) {
            (Some(allowed), Some(baseline)) => {
                let limit = baseline * (1.0 + allowed);
                named.push(ChartLabel { name, value: limit });
                levels.push(Level {
                    value: limit,
                    ink: Ink::Limit,
                });
                if !has_base {
                    named.push(ChartLabel {
                        name: "baseline".to_owned(),
                        value: baseline,
                    });
                    levels.push(Level {
                        value: baseline,
                        ink: Ink::Zero,
                    });
                }
                let bounds = verdict
                    .interval
                    .map(|interval| interval.map(|end| baseline * (1.0 + end.0)));
                interval = interval.or(bounds);
            }
            (None, _) => {
                if let Some(limit) = verdict.limit {
                    named.push(ChartLabel {
                        name,
                        value: limit.0,
                    });
                    levels.push(Level {
                        value: limit.0,
                        ink: Ink::Limit,
                    });
                }
            }
            (Some(_), None) => {}
        }
    }
    let most = processes
        .iter()
        .flat_map(|process| process.head.samples.iter().chain(&process.base.samples))
        .copied()
        .fold(0.0, f64::max);
    let (scale, unit) = words::unit(Metric::P50, most);
    let title = format!("samples by process, {unit} of one launch");
    let (drawn, left_out) = chart::samples(
        &title,
        &Samples {
            processes,
            levels: &levels,
            interval,
            scale,
        },
    );
    let far = left_out
        .levels
        .iter()
        .filter_map(|at| named.get(*at))
        .map(|point| {
            let value = words::quantity(Metric::P50, point.value);
            format!("{} is at {value}, off the scale", point.name)
        });
    let above = (left_out.above > 0).then(|| {
        format!(
            "{} slower than the scale goes, at its upper edge",
            words::plural(left_out.above, "sample")
        )
    });
    let thinned =
        (left_out.one_of > 1).then(|| format!("one of {} samples is drawn", left_out.one_of));
    let notes: BTreeSet<String> = far.chain(above).chain(thinned).collect();
    let is_drawn = |ink: Ink| {
        levels
            .iter()
            .enumerate()
            .filter(|(at, _)| !left_out.levels.contains(at))
            .any(|(_, stroke)| stroke.ink == ink)
    };
    html! {
        figure {
            (drawn)
            figcaption {
                (sentence(&title)) ". "
                @if has_base { (key(Ink::Base, "base")) }
                (key(Ink::Head, if has_base { "head" } else { "sample" }))
                (key(Ink::Median, "median of the process"))
                @if is_drawn(Ink::Limit) { (key(Ink::Limit, "limit")) }
                @if is_drawn(Ink::Zero) { (key(Ink::Zero, "baseline")) }
                @if interval.is_some() { (key(Ink::Interval, "95 % interval of p50")) }
                @for note in &notes { br; (note) }
            }
        }
    }
}

fn changes(verdicts: &[&Verdict]) -> Markup {
    let rows: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| {
            let [low, high] = verdict.interval?;
            let change = verdict.change?.0;
            Some(ChartChange {
                label: words::question(&verdict.question),
                change,
                interval: [low.0, high.0],
                limit: allowed(verdict),
                is_bad: verdict.outcome == Outcome::Fail,
            })
        })
        .filter(|row| row.change.is_finite())
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    html! {
        figure {
            (chart::changes("change with its interval, and the limit", &rows))
            figcaption {
                "Change of each time, right is slower. "
                span.key {} "95 % interval" (key(Ink::Limit, "limit"))
            }
        }
    }
}

fn key(ink: Ink, what: &str) -> Markup {
    html! { span.key.(ink.class()) {} (what) }
}

fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}
