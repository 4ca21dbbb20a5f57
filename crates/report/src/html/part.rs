//! Renders the sections that every format has as HTML. Names in a table become links.

use super::{chart, problem};
use crate::against_base::LoosenedGates;
use crate::printed::Printed;
use crate::section::{Chart, ColumnKind, Section, SectionPart, Table};
use maud::{Markup, html};
use model::Outcome;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// The places where a page says more about a subject, by its name.
pub type Links = BTreeMap<String, String>;

/// A cell with more letters than this is a sentence.
const LONG: usize = 24;

/// State that the sections of one page share.
pub struct Shared<'a> {
    pub links: &'a Links,
    /// The number of bytes that are left for the rows and blocks of these sections.
    room: Cell<usize>,
}

impl<'a> Shared<'a> {
    pub fn within(links: &'a Links, room: usize) -> Self {
        Self {
            links,
            room: Cell::new(room),
        }
    }

    /// Makes the state for a part that is small whatever a run has.
    pub fn unbounded(links: &'a Links) -> Self {
        Self::within(links, usize::MAX)
    }

    /// Returns the first items that there is room for, and how many are left out.
    pub fn fit(&self, all: impl ExactSizeIterator<Item = Markup>) -> (Vec<Markup>, usize) {
        let count = all.len();
        let fits = |block: &Markup| {
            let left = self.room.get().checked_sub(block.0.len());
            self.room.set(left.unwrap_or_default());
            left.is_some()
        };
        let shown: Vec<_> = all.take_while(fits).collect();
        let left = count - shown.len();
        (shown, left)
    }
}

/// Returns true if a page shows anything of the section.
pub fn is_shown(section: &Section) -> bool {
    section.in_page && section.parts.iter().any(|part| !part.is_empty())
}

/// Renders a section. `id` is where a link leads to it.
pub fn section(section: &Section, id: Option<&str>, shared: &Shared) -> Markup {
    let inner = parts(section, shared);
    html! { section { h2 id=[id] { (section.title) } (inner) } }
}

/// Renders a section that is one click away.
pub fn folded(section: &Section, id: &str, shared: &Shared) -> Markup {
    let inner = parts(section, shared);
    html! {
        section { details { summary { h2 { (section.title) } } div id=(id) { (inner) } } }
    }
}

fn parts(section: &Section, shared: &Shared) -> Markup {
    let parts = section.parts.iter().filter(|part| !part.is_empty());
    html! { @for section_part in parts { (part(section_part, shared)) } }
}

fn part(part: &SectionPart, shared: &Shared) -> Markup {
    match part {
        SectionPart::Problems(all) => problem::problems(all, shared),
        SectionPart::Loosened(gates, what) => html! {
            p { (prose(what)) "." }
            (blocks(gates, shared, |gate| loosened(gate, shared.links)))
        },
        SectionPart::Lines(all) => {
            let (shown, left) = shared.fit(all.iter().map(|line| html! { li { (prose(line)) } }));
            html! {
                ul { @for line in &shown { (line) } }
                (cut(left, "lines"))
            }
        }
        SectionPart::Table(table_part) => table(table_part, shared),
        SectionPart::Printed(all) => blocks(all, shared, printed),
        SectionPart::Chart(chart) => line(chart),
    }
}

/// Renders as many blocks as there is room for.
pub fn blocks<T>(all: &[T], shared: &Shared, block: impl Fn(&T) -> Markup) -> Markup {
    let (shown, left) = shared.fit(all.iter().map(block));
    html! {
        @for block in &shown { (block) }
        (cut(left, "of these"))
    }
}

/// Renders a sentence. Text between two backticks is code.
pub fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    let is_paired = parts.len() % 2 == 1;
    html! {
        @if is_paired {
            @for (at, part) in parts.iter().enumerate() {
                @if at % 2 == 1 { code { (part) } } @else { (part) }
            }
        } @else { (text) }
    }
}

fn loosened(gate: &LoosenedGates, links: &Links) -> Markup {
    let allowed = gate.outcome == Outcome::Pass;
    html! {
        article.problem.(gate.outcome.name()) {
            h3 {
                @if allowed { span.badge.skipped { "allowed" } } @else { (outcome(gate.outcome)) }
                " " (names(&gate.subject.to_string(), links))
            }
            p.gates {
                code { (gate.asked()) } " "
                @if let Some(declared) = gate.declared { span.muted { (declared) } }
            }
            p.why { (prose(&gate.now())) }
        }
    }
}

fn printed(printed: &Printed) -> Markup {
    html! {
        p { (printed.head) ":" }
        pre { @for line in &printed.lines { (line) "\n" } }
        @if let Some(cut) = &printed.cut { p.muted { (cut) } }
    }
}

pub fn table(table: &Table, shared: &Shared) -> Markup {
    let class = |kind: ColumnKind| (kind == ColumnKind::Number).then_some("number");
    // In a narrow window each word of a sentence would be a line.
    let class_of = |kind: ColumnKind, raw: &str| {
        if raw.len() > LONG && kind == ColumnKind::Text {
            Some("long")
        } else {
            class(kind)
        }
    };
    let row = |row: &Vec<String>| {
        html! {
            tr {
                @for (raw, column) in row.iter().zip(&table.columns) {
                    td class=[class_of(column.kind, raw)] {
                        @match (column.kind, named(raw)) {
                            (ColumnKind::Name, _) => (names(raw, shared.links)),
                            (_, Some(known)) => (outcome(known)),
                            (_, None) => (prose(raw)),
                        }
                    }
                }
            }
        }
    };
    let (shown, left) = shared.fit(table.rows.iter().map(row));
    html! {
        div.scroll {
            table {
                thead { tr { @for column in &table.columns { th class=[class(column.kind)] scope="col" { (column.head) } } } }
                tbody { @for row in &shown { (row) } }
            }
        }
        (cut(left, "rows"))
    }
}

/// Renders how many items were left out, or nothing if none were.
pub fn cut(left: usize, what: &str) -> Markup {
    html! {
        @if left > 0 { p.cut { "... and " (left) " more " (what) ", which report.json has" } }
    }
}

/// Renders the table of cases with its filters, and their blocks below it. The script filters by the name of a case and
/// by its state. A page can have several such tables.
pub fn cases(
    state: &str,
    states: BTreeSet<&str>,
    heads: &[&str],
    rows: &[Markup],
    blocks: &Markup,
) -> Markup {
    html! {
        section.cases {
            h2 id="cases" { "Cases" }
            div.tools hidden {
                input type="search" placeholder="Filter by name" aria-label="Filter by name";
                label {
                    (state) " "
                    select {
                        option value="" { "all" }
                        @for state in &states { option value=(state) { (state) } }
                    }
                }
                button type="button" { "Open or close all" }
                output.muted {}
            }
            div.scroll {
                table.values {
                    thead {
                        tr {
                            th scope="col" { "case" }
                            th scope="col" { (state) }
                            @for head in heads { th scope="col" { (head) } }
                        }
                    }
                    tbody { @for row in rows { (row) } }
                }
            }
            (blocks)
        }
    }
}

/// Returns the outcome that a cell of a table names.
fn named(cell: &str) -> Option<Outcome> {
    Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.name() == cell)
}

pub fn outcome(outcome: Outcome) -> Markup {
    html! { span.badge.(outcome.name()) { (outcome.name()) } }
}

/// Renders names as they are, each as a link if the page says more about it.
pub fn names(raw: &str, links: &Links) -> Markup {
    html! {
        @for (at, name) in raw.split(", ").enumerate() {
            @if at > 0 { ", " }
            @match links.get(name) {
                Some(link) => a.name href=(link) { (name) },
                None => code.name { (name) },
            }
        }
    }
}

/// Renders a command that a reader can copy.
pub fn command(command: &str) -> Markup {
    html! { pre.command { code { (command) } } }
}

pub fn line(chart: &Chart) -> Markup {
    let ends = (chart.labels.first(), chart.labels.last());
    html! {
        figure {
            (chart::line(&chart.title, &chart.values))
            figcaption {
                (chart.title)
                @if let (Some(first), Some(last)) = ends {
                    span.muted { " from " (first) " to " (last) }
                }
            }
        }
    }
}
