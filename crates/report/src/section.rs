//! The sections of a report for people. They are plain data, which `page` composes and each format lays out.

use super::against_base::LoosenedGates;
use super::printed::Printed;
use super::problems::{Block, ValueRow, head_of_was};

pub struct Section<'a> {
    /// The word that begins each line in a terminal, at most eight letters.
    pub label: &'static str,
    /// The title that a comment shows.
    pub title: String,
    pub parts: Vec<SectionPart<'a>>,
    /// True if a comment folds the section, at its end.
    pub is_folded: bool,
    pub in_terminal: InTerminal,
    pub in_comment: bool,
    /// True if a page for a browser shows the section. A page has a table of all cases anyway.
    pub in_page: bool,
}

/// The part of a section that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTerminal {
    Always,
    /// The first lines, and all of them with `--verbose`.
    First(usize),
    /// A terminal shows it only with `--verbose`.
    IfVerbose,
    Never,
}

/// The condition under which a terminal shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Always,
    /// The column is shown only if all columns fit. The last of these columns is left out first.
    IfItFits,
    /// A terminal never has room for it.
    Never,
}

pub enum SectionPart<'a> {
    Problems(Vec<Block<'a>>),
    Loosened(Vec<LoosenedGates<'a>>, String),
    Lines(Vec<String>),
    Table(Table),
    Printed(Vec<Printed>),
    /// A chart, which a terminal does not show.
    Chart(Chart),
}

/// Values in their order, drawn as a line.
pub struct Chart {
    /// The meaning of the values, with their unit.
    pub title: String,
    /// A label for each value. No two are alike.
    pub labels: Vec<String>,
    pub values: Vec<f64>,
}

pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

pub struct Column {
    pub head: String,
    pub kind: ColumnKind,
    pub room: Room,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The name of a unit or case. It is never broken, so that it can be copied.
    Name,
    Number,
    Text,
}

impl<'a> Section<'a> {
    pub fn new(label: &'static str, title: &str, parts: Vec<SectionPart<'a>>) -> Self {
        Self {
            label,
            title: title.to_owned(),
            parts,
            is_folded: false,
            in_terminal: InTerminal::Always,
            in_comment: true,
            in_page: true,
        }
    }

    pub fn with_lines(label: &'static str, title: &str, lines: Vec<String>) -> Self {
        Self::new(label, title, vec![SectionPart::Lines(lines)])
    }

    pub fn with_table(label: &'static str, title: &str, table: Table) -> Self {
        Self::new(label, title, vec![SectionPart::Table(table)])
    }
}

impl SectionPart<'_> {
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
    /// Makes a table of values that are worse than they may be.
    pub fn from_rows(rows: &[ValueRow]) -> Self {
        let was = head_of_was(rows);
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let rows = rows.iter().map(|row| {
            vec![
                row.subject.to_string(),
                row.metric.clone(),
                or_none(&row.was),
                row.now.clone(),
                or_none(&row.change),
                row.limit.clone(),
            ]
        });
        let columns = [
            ("case", ColumnKind::Name),
            ("metric", ColumnKind::Text),
            (was, ColumnKind::Number),
            ("now", ColumnKind::Number),
            ("change", ColumnKind::Number),
            ("limit", ColumnKind::Text),
        ];
        let mut table = Self::new(columns, rows.collect());
        if let Some(limit) = table.columns.last_mut() {
            limit.room = Room::IfItFits;
        }
        table
    }

    pub fn new<'a>(
        columns: impl IntoIterator<Item = (&'a str, ColumnKind)>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(|(head, kind)| Column {
            head: head.to_owned(),
            kind,
            room: Room::Always,
        });
        Self {
            columns: columns.collect(),
            rows,
        }
    }
}
