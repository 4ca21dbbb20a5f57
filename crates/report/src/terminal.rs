//! For a terminal: what failed comes first, with the reason and the command that shows it alone; the
//! headline comes last, where the eye rests.

use super::against_base::LoosenedGates;
use super::page;
use super::problems::Problem;
use super::section::{self, Kind, Part, Section};
use super::summary;
use crate::input::ReportInput;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use model::{Conclusion, Outcome, Record};
use wording::escape;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub color: bool,
    /// In columns.
    pub width: usize,
    pub verbosity: Verbosity,
}

/// How much of a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// The headline alone.
    Quiet,
    #[default]
    Normal,
    /// Details and consequences, too.
    Verbose,
}

/// One line under the heads, and none that only take room.
const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

#[derive(Clone, Copy)]
enum Paint {
    Red,
    Yellow,
    Green,
    Bold,
}

impl Options {
    fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Red => "1;31",
            Paint::Yellow => "1;33",
            Paint::Green => "1;32",
            Paint::Bold => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

pub fn render(input: &ReportInput, options: Options) -> String {
    let page = page::lay_out(input);
    let mut out = sections(&page.sections, options);
    labelled(&mut out, "on", &[page.circumstances], options);
    labelled(&mut out, "time", &[page.costs], options);
    let paint = match page.conclusion {
        Conclusion::Pass => Paint::Green,
        Conclusion::Fail => Paint::Red,
        Conclusion::Environment | Conclusion::Inconclusive | Conclusion::NothingJudged => {
            Paint::Yellow
        }
    };
    out.push(String::new());
    let word = summary::conclusion(page.conclusion);
    painted(&mut out, word, &page.headline, paint, options);
    out.join("\n") + "\n"
}

/// Renders a report that is no judgement: sections alone, in groups.
pub fn render_groups(groups: &[Vec<Section>], options: Options) -> String {
    let groups = groups.iter().map(|group| sections(group, options));
    let groups = groups.map(|lines| lines.join("\n").trim_end().to_owned());
    let groups: Vec<_> = groups.filter(|text| !text.is_empty()).collect();
    groups.join("\n\n") + "\n"
}

fn sections(all: &[Section], options: Options) -> Vec<String> {
    let mut out = Vec::new();
    for section in all.iter().filter(|it| it.in_terminal) {
        for part in section.parts.iter().filter(|part| !part.is_empty()) {
            match part {
                Part::Problems(all) => all.iter().for_each(|it| problem(&mut out, it, options)),
                Part::Loosened(gates, what) => loosened(&mut out, gates, what, options),
                Part::Lines(lines) => labelled(&mut out, section.label, lines, options),
                Part::Table(part) => {
                    if out.last().is_some_and(|line| !line.is_empty()) {
                        out.push(String::new());
                    }
                    out.extend(table(part, options.width));
                }
                Part::Printed(all) => {
                    for printed in all {
                        let head = std::slice::from_ref(&printed.head);
                        labelled(&mut out, section.label, head, options);
                        let lines = printed.lines.iter();
                        out.extend(
                            lines.map(|line| {
                                format!("{LABEL_INDENT}| {}", escape::within_line(line))
                            }),
                        );
                        let cut = printed.cut.iter();
                        out.extend(cut.map(|cut| format!("{LABEL_INDENT}{cut}")));
                    }
                    out.push(String::new());
                }
                Part::Chart(_) => {}
            }
        }
    }
    out
}

const INDENT: &str = "     ";
const LABEL_INDENT: &str = "         ";

fn problem(out: &mut Vec<String>, problem: &Problem, options: Options) {
    let paint = match problem.outcome {
        Outcome::Fail => Paint::Red,
        _ => Paint::Yellow,
    };
    let outcome = problem.outcome.name().to_uppercase();
    let (gates, code) = (problem.gates.join(", "), problem.code);
    let title = format!("{outcome} {}: {gates} [{code}]", problem.subjects);
    painted(out, &outcome, &title, paint, options);
    out.extend(wrapped(&problem.why, INDENT, options.width));
    if let Some(cause) = &problem.cause {
        out.extend(wrapped(&format!("cause: {cause}"), INDENT, options.width));
    }
    if let Some(declared) = &problem.declared {
        out.extend(wrapped(&format!("by {declared}"), INDENT, options.width));
    }
    if let Some(command) = &problem.command {
        out.push(format!(
            "{INDENT}{}",
            options.paint(Paint::Bold, &escape::within_line(command))
        ));
    }
    out.push(String::new());
}

fn loosened(out: &mut Vec<String>, gates: &[LoosenedGates], what: &str, options: Options) {
    let paint = match gates.iter().all(|it| it.outcome == Outcome::Pass) {
        true => Paint::Yellow,
        false => Paint::Red,
    };
    let word = "LOOSENED";
    painted(out, word, &format!("{word} {what}"), paint, options);
    for gate in gates {
        out.extend(wrapped(&gate.line(), INDENT, options.width));
    }
    out.push(String::new());
}

/// A text that begins with a word in colour.
fn painted(out: &mut Vec<String>, word: &str, text: &str, paint: Paint, options: Options) {
    let mut lines = wrapped(text, "", options.width);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(word, &options.paint(paint, word), 1);
    }
    out.extend(lines);
}

fn labelled(out: &mut Vec<String>, label: &str, lines: &[String], options: Options) {
    for line in lines {
        let mut lines = wrapped(line, LABEL_INDENT, options.width);
        if let Some(first) = lines.first_mut() {
            *first = format!("{label:<9}{}", first.trim_start());
        }
        out.extend(lines);
    }
}

/// The two records of a comparison by their names, and what each was made on: before its report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side = |(name, record): (&str, &Record)| {
        escape::within_line(&format!("{name}: {}", summary::circumstances(record)))
    };
    format!("BASE {}\nHEAD {}\n\n", side(base), side(head))
}

/// Cells are broken between words where that keeps the lines within `width`. A name never is, as it is there to be
/// copied: with long ones the table is wider.
fn table(table: &section::Table, width: usize) -> Vec<String> {
    let columns = || table.columns.iter().filter(|column| !column.is_wide);
    let heads = columns()
        .map(|column| escape::within_line(&column.head))
        .collect();
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().zip(&table.columns);
        let cells = cells.filter(|(_, column)| !column.is_wide);
        cells.map(|(cell, _)| escape::within_line(cell)).collect()
    });
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let last = lines.first().map_or(0, |heads| heads.len() - 1);
    let padding = |at: usize| u16::from(at != last);
    let least: Vec<u16> = columns()
        .enumerate()
        .map(|(at, column)| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            let widths = cells.map(|cell| match column.kind {
                Kind::Name => cell.chars().count(),
                Kind::Number | Kind::Text => longest_word(cell),
            });
            u16::try_from(widths.max().unwrap_or_default())
                .unwrap_or(u16::MAX)
                .saturating_add(padding(at))
        })
        .collect();
    let needed = least.iter().copied().fold(0, u16::saturating_add);

    let mut drawn = Table::new();
    drawn
        .load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(needed.max(u16::try_from(width).unwrap_or(u16::MAX)));
    for (at, line) in lines.into_iter().enumerate() {
        match at {
            0 => drawn.set_header(line),
            _ => drawn.add_row(line),
        };
    }
    let kinds = columns().map(|column| column.kind).zip(least);
    for ((at, column), (kind, least)) in drawn.column_iter_mut().enumerate().zip(kinds) {
        column.set_padding((0, padding(at)));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        if kind == Kind::Number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = drawn.to_string();
    lines
        .lines()
        // A cell may go on in a line of its own.
        .map(|line| escape::line_start(line.trim_end().to_owned()))
        .chain([String::new()])
        .collect()
}

fn longest_word(cell: &str) -> usize {
    let words = cell.split_whitespace();
    words.map(|word| word.chars().count()).max().unwrap_or(0)
}

/// Breaks at spaces, and inside a word that is longer than a line; keeps what is in backticks, as commands are
/// there to be copied, and the lines that are there and fit, with their spaces: a compiler points at columns. In a
/// text that comes from a source no line can move the cursor or be a command to a CI.
fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent.chars().count()).max(20);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let paragraph = escape::within_line(paragraph);
        if paragraph.chars().count() <= room {
            lines.push(format!("{indent}{paragraph}").trim_end().to_owned());
            continue;
        }
        let mut line = String::new();
        for word in words(&paragraph, room) {
            let mut word = word;
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(format!("{indent}{line}"));
                line.clear();
            } else if !line.is_empty() {
                line.push(' ');
            }
            while word.chars().count() > room {
                let cut = word
                    .char_indices()
                    .nth(room)
                    .map_or(word.len(), |(at, _)| at);
                let (head, tail) = word.split_at(cut);
                lines.push(format!("{indent}{head}"));
                word = tail;
            }
            line.push_str(word);
        }
        lines.push(format!("{indent}{line}").trim_end().to_owned());
    }
    lines.into_iter().map(escape::line_start).collect()
}

fn words(paragraph: &str, room: usize) -> Vec<&str> {
    let mut in_code = false;
    let outside = paragraph.split(|c| {
        in_code ^= c == '`';
        c == ' ' && !in_code
    });
    let mut words = Vec::new();
    for word in outside {
        if word.chars().count() > room {
            words.extend(word.split(' '));
        } else {
            words.push(word);
        }
    }
    words
}
