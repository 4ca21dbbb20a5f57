//! Renders the report for a terminal: one block for each problem, then what else a reader needs, and the headline last,
//! where the eye rests. Everything else is in `report.html`, or here with `--verbose`.

use super::against_base::LoosenedGates;
use super::input::ReportInput;
use super::page;
use super::problems::{Block, Frame, ValueRow};
use super::section::{self, ColumnKind, InTerminal, Room, Section, SectionPart};
use super::summary;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use model::{Conclusion, Outcome, Record, SinceBase};
use wording::{escape, words};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub color: bool,
    /// The width of the terminal in columns.
    pub width: usize,
    pub verbosity: Verbosity,
}

/// The part of a report that is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Only the headline of the report is printed.
    Quiet,
    #[default]
    Normal,
    /// All values are printed, and everything that follows from a problem.
    Verbose,
}

/// A table style with one line under the heads, and no lines that only take room.
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

    fn is_verbose(self) -> bool {
        self.verbosity == Verbosity::Verbose
    }
}

pub fn render(input: &ReportInput, options: Options) -> String {
    render_with(input, &[], "", options)
}

/// Renders the report on compiled files: after what failed, how their kernels were matched, and why they changed.
pub fn render_with(
    input: &ReportInput,
    kernels: &[Vec<Section>],
    why: &str,
    options: Options,
) -> String {
    let page = page::lay_out(input);
    let mut out = Vec::new();
    if options.verbosity != Verbosity::Quiet {
        out.extend(wrapped(&page.header, "", options.width));
        out.push(String::new());
        let (failed, rest) = page
            .sections
            .split_at(page.failing.min(page.sections.len()));
        out.extend(sections(failed, options));
        for text in [&render_groups(kernels, options), why] {
            out.extend(text.trim_end().lines().map(str::to_owned));
            if !text.trim().is_empty() {
                out.push(String::new());
            }
        }
        out.extend(sections(rest, options));
        if options.is_verbose() {
            labelled(&mut out, "time", &[page.costs], options);
        }
        if out.last().is_some_and(|line| !line.is_empty()) {
            out.push(String::new());
        }
    }
    let paint = match page.conclusion {
        Conclusion::Pass => Paint::Green,
        Conclusion::Fail => Paint::Red,
        Conclusion::Environment | Conclusion::Inconclusive | Conclusion::NothingJudged => {
            Paint::Yellow
        }
    };
    let word = summary::conclusion(page.conclusion);
    painted(&mut out, word, &page.headline, paint, options);
    out.join("\n") + "\n"
}

/// Keeps the beginning of a text and its last paragraph, so that it has at most `most` lines.
pub fn fit(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.len() <= most {
        return text.to_owned();
    }
    let last = lines.iter().rposition(|line| line.is_empty());
    let (body, end) = lines.split_at(last.unwrap_or(lines.len()));
    let kept = body.len().min(most.saturating_sub(end.len() + 1));
    let (shown, left) = body.split_at(kept);
    let left = words::plural(left.len(), "more line");
    format!(
        "{}\n... {left}; -v prints all\n{}\n",
        shown.join("\n"),
        end.join("\n")
    )
}

/// Renders a report other than a judgement: groups of sections.
pub fn render_groups(groups: &[Vec<Section>], options: Options) -> String {
    let groups: Vec<_> = groups
        .iter()
        .map(|group| sections(group, options))
        .map(|lines| lines.join("\n").trim_end().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    groups.join("\n\n") + "\n"
}

fn sections(all: &[Section], options: Options) -> Vec<String> {
    let mut out = Vec::new();
    let is_shown = |section: &&Section| match section.in_terminal {
        InTerminal::Always | InTerminal::First(_) => true,
        InTerminal::IfVerbose => options.is_verbose(),
        InTerminal::Never => false,
    };
    for section in all.iter().filter(is_shown) {
        for part in section.parts.iter().filter(|part| !part.is_empty()) {
            match part {
                SectionPart::Problems(all) => blocks(&mut out, all, options),
                SectionPart::Loosened(gates, what) => loosened(&mut out, gates, what, options),
                SectionPart::Lines(lines) => {
                    let most = match section.in_terminal {
                        InTerminal::First(most) if !options.is_verbose() => most,
                        _ => lines.len(),
                    };
                    let (shown, more) = lines.split_at(most.min(lines.len()));
                    labelled(&mut out, section.label, shown, options);
                    if !more.is_empty() {
                        let more = format!("and {} more; -v lists them", more.len());
                        labelled(&mut out, section.label, &[more], options);
                    }
                }
                SectionPart::Table(part) => {
                    if out.last().is_some_and(|line| !line.is_empty()) {
                        out.push(String::new());
                    }
                    out.extend(table(part, "", options.width));
                }
                SectionPart::Printed(all) => {
                    for printed in all {
                        let head = std::slice::from_ref(&printed.head);
                        labelled(&mut out, section.label, head, options);
                        out.extend(
                            printed.lines.iter().map(|line| {
                                format!("{LABEL_INDENT}| {}", escape::within_line(line))
                            }),
                        );
                        let cut = printed.cut.iter();
                        out.extend(cut.map(|cut| format!("{LABEL_INDENT}{cut}")));
                    }
                    out.push(String::new());
                }
                SectionPart::Chart(_) => {}
            }
        }
    }
    out
}

const INDENT: &str = "    ";
const LABEL_INDENT: &str = "         ";

/// The number of lines of values in a block, and of sentences that say why. `--verbose` prints the others.
const MOST_ROWS: usize = 6;
const MOST_REASONS: usize = 3;

/// Writes the blocks of problems. A problem that the base has, too, is one line.
fn blocks(out: &mut Vec<String>, all: &[Block], options: Options) {
    let (old, shown): (Vec<&Block>, Vec<&Block>) = all
        .iter()
        .partition(|block| block.is_old() && !options.is_verbose());
    for shown_block in shown {
        block(out, shown_block, options);
        out.push(String::new());
    }
    if !old.is_empty() {
        let gates = old.iter().map(|block| block.gate_count()).sum();
        let text = format!(
            "{} that the base has, too ({}): {}",
            words::plural(old.len(), "problem"),
            words::plural(gates, "gate"),
            old.iter()
                .map(|block| format!("{} in {}", block.title, block.subjects))
                .collect::<Vec<_>>()
                .join("; ")
        );
        out.extend(wrapped(&text, "", options.width));
        out.push(String::new());
    }
}

fn block(out: &mut Vec<String>, block: &Block, options: Options) {
    block_head(out, block, options);
    frame(out, &block.frame, options);
    let why = if options.is_verbose() {
        &block.why
    } else {
        block.why_beyond_frame()
    };
    let shown = match options.is_verbose() {
        true => why.len(),
        // The table already has the values.
        false if block.rows.len() > 1 && !block.is_told_in_words() => 0,
        false => why.len().min(MOST_REASONS),
    };
    for sentence in why.iter().take(shown) {
        out.extend(wrapped(sentence, INDENT, options.width));
    }
    if block.rows.len() <= 1 && why.len() > shown {
        let more = why.len() - shown;
        out.push(format!("{INDENT}and {more} more alike; -v lists them"));
    }
    if !block.is_told_in_words() && block.rows.len() > 1 {
        table_of_rows(out, &block.rows, options);
    }
    if let Some(cause) = &block.cause {
        out.extend(wrapped(&format!("cause: {cause}"), INDENT, options.width));
    }
    if let Some(declared) = &block.declared {
        out.extend(wrapped(&format!("by {declared}"), INDENT, options.width));
    }
    if !block.follows.is_empty() {
        let mut text = format!("probably follow from it: {}", block.follows.join(", "));
        if let Some(at) = &block.follows_declared {
            text.push_str(&format!(" (at {at})"));
        }
        out.extend(wrapped(&text, INDENT, options.width));
    }
    if let Some(command) = &block.command {
        let command = escape::within_line(command);
        out.push(options.paint(Paint::Bold, &format!("{INDENT}$ {command}")));
    }
}

/// Writes the head of a block, with the code at the right if there is room: `✗ softmax@gpt2  race on shared memory
/// [findings]`.
fn block_head(out: &mut Vec<String>, block: &Block, options: Options) {
    let (mark, paint) = match block.problem.outcome {
        Outcome::Fail => ("✗", Paint::Red),
        _ => ("?", Paint::Yellow),
    };
    let new = match block.problem.since_base {
        Some(SinceBase::New) => " (new)",
        Some(SinceBase::Old) => " (as at the base)",
        None => "",
    };
    let text = format!("{mark} {}  {}{new}", block.subjects, block.title);
    let text = escape::within_line(&text);
    let code = format!("[{}]", block.problem.code);
    let (taken, room) = (text.chars().count(), options.width);
    let whole = if taken + 2 + code.len() <= room {
        format!("{text}{code:>width$}", width = room - taken)
    } else {
        format!("{text}  {code}")
    };
    painted(out, mark, &whole, paint, options);
}

/// Writes source lines with their numbers, cut to the width. The file has the rest.
fn frame(out: &mut Vec<String>, frame: &Frame, options: Options) {
    let digits = frame
        .lines
        .iter()
        .map(|line| line.number.to_string().len())
        .max()
        .unwrap_or(0);
    let note_width = frame
        .lines
        .iter()
        .map(|line| line.note.chars().count())
        .max()
        .unwrap_or(0);
    let mut file = None;
    for (at, line) in frame.lines.iter().enumerate() {
        if file != Some(&line.file) {
            file = Some(&line.file);
            out.push(format!("{INDENT}{}", escape::within_line(&line.file)));
        }
        let start = format!("{INDENT}{:>digits$} │ ", line.number);
        let text = escape::within_line(line.text.as_deref().unwrap_or("(not readable)"));
        let room = options.width.saturating_sub(start.chars().count());
        let beside = room.saturating_sub(note_width + 2);
        if beside >= 30 {
            let text = cut(&text, beside);
            let drawn = format!("{start}{text:<beside$}  {}", line.note);
            out.push(drawn.trim_end().to_owned());
        } else {
            out.push(format!("{start}{}", cut(&text, room)));
            if !line.note.is_empty() {
                out.push(format!("{INDENT}{:>digits$} │   {}", "", line.note));
            }
        }
        if let Some((after, between)) = frame.between
            && at == after
        {
            out.push(format!("{INDENT}{:>digits$} │ ({between})", ""));
        }
    }
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Writes a table of the values that are worse.
fn table_of_rows(out: &mut Vec<String>, all: &[ValueRow], options: Options) {
    let shown = if options.is_verbose() {
        all.len()
    } else {
        all.len().min(MOST_ROWS)
    };
    let part = section::Table::from_rows(&all[..shown]);
    let lines = table(&part, INDENT, options.width);
    out.extend(lines.into_iter().filter(|line| !line.is_empty()));
    if shown < all.len() {
        out.push(format!(
            "{INDENT}and {} more; -v lists them",
            all.len() - shown
        ));
    }
}

fn loosened(out: &mut Vec<String>, gates: &[LoosenedGates], what: &str, options: Options) {
    let paint = if gates.iter().all(|gate| gate.outcome == Outcome::Pass) {
        Paint::Yellow
    } else {
        Paint::Red
    };
    let word = "LOOSENED";
    painted(out, word, &format!("{word} {what}"), paint, options);
    for gate in gates {
        out.extend(wrapped(&gate.line(), INDENT, options.width));
    }
    out.push(String::new());
}

/// Writes a text that begins with a coloured word.
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

/// Returns the two records of a comparison by their names, and what each was made on, as the head of the report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side = |(name, record): (&str, &Record)| {
        escape::within_line(&format!("{name}: {}", summary::circumstances(record)))
    };
    format!("BASE {}\nHEAD {}\n\n", side(base), side(head))
}

/// Renders a table. If a line would be longer than `width`, columns that may be missing are left out, and then cells of
/// text are broken between words. A name or a number is never broken, so with long ones the table is wider.
fn table(table: &section::Table, indent: &str, width: usize) -> Vec<String> {
    let width = width.saturating_sub(indent.len());
    let mut shown: Vec<Vec<String>> = Vec::new();
    let mut columns: Vec<&section::Column> = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        if column.room == Room::Never {
            continue;
        }
        let cells: Vec<String> = table
            .rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| escape::within_line(cell))
            .collect();
        let head = escape::within_line(&column.head);
        shown.push(match column.kind {
            ColumnKind::Number => with_unit_in_head(head, cells),
            ColumnKind::Name | ColumnKind::Text => std::iter::once(head).chain(cells).collect(),
        });
        columns.push(column);
    }
    let natural = |cells: &[String]| {
        cells
            .iter()
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    // Columns are separated by two spaces.
    while shown
        .iter()
        .map(|column| natural(column) + 2)
        .sum::<usize>()
        > width + 2
    {
        let Some(last) = columns
            .iter()
            .rposition(|column| column.room == Room::IfItFits)
        else {
            break;
        };
        columns.remove(last);
        shown.remove(last);
    }
    let last = columns.len().saturating_sub(1);
    let padding = |at: usize| u16::from(at != last);
    let least: Vec<u16> = columns
        .iter()
        .zip(&shown)
        .enumerate()
        .map(|(at, (column, cells))| {
            let widest = match column.kind {
                ColumnKind::Name | ColumnKind::Number => natural(cells),
                ColumnKind::Text => cells
                    .iter()
                    .map(|cell| longest_word(cell))
                    .max()
                    .unwrap_or(0),
            };
            let widest = u16::try_from(widest).unwrap_or(u16::MAX);
            widest.saturating_add(padding(at))
        })
        .collect();
    let needed = least.iter().copied().fold(0, u16::saturating_add);

    let mut drawn = Table::new();
    drawn
        .load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(needed.max(u16::try_from(width).unwrap_or(u16::MAX)));
    for at in 0..=table.rows.len() {
        let line: Vec<String> = shown
            .iter()
            .map(|cells| cells.get(at).cloned().unwrap_or_default())
            .collect();
        match at {
            0 if line.iter().all(String::is_empty) => {}
            0 => drop(drawn.set_header(line)),
            _ => drop(drawn.add_row(line)),
        };
    }
    let kinds = columns.iter().map(|column| column.kind).zip(least);
    for ((at, column), (kind, least)) in drawn.column_iter_mut().enumerate().zip(kinds) {
        column.set_padding((0, padding(at)));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        if kind == ColumnKind::Number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = drawn.to_string();
    lines
        .lines()
        // A cell may continue on a line of its own.
        .map(|line| escape::line_start(format!("{indent}{}", line.trim_end())))
        .chain([String::new()])
        .collect()
}

/// Moves the unit of a column into its head if all numbers share it: `p50 us`.
fn with_unit_in_head(head: String, cells: Vec<String>) -> Vec<String> {
    let is_value = |cell: &&String| !cell.is_empty() && *cell != "-";
    let unit = |cell: &String| {
        let (number, unit) = cell.rsplit_once(' ')?;
        let is_number = number.parse::<f64>().is_ok();
        let is_unit = unit.chars().all(|c| c.is_alphabetic() || c == '%');
        (is_number && is_unit).then(|| unit.to_owned())
    };
    let mut values = cells.iter().filter(is_value);
    let first = values.next().and_then(unit);
    match first {
        Some(first) if values.all(|cell| unit(cell).as_ref() == Some(&first)) => {
            let bare = cells.iter().map(|cell| match cell.rsplit_once(' ') {
                Some((number, _)) => number.to_owned(),
                None => cell.clone(),
            });
            let head = format!("{head} {first}");
            std::iter::once(head).chain(bare).collect()
        }
        _ => std::iter::once(head).chain(cells).collect(),
    }
}

fn longest_word(cell: &str) -> usize {
    cell.split_whitespace()
        .map(|word| word.chars().count())
        .max()
        .unwrap_or(0)
}

/// Breaks a text into lines at spaces, and inside of a word that is longer than a line. Text in backticks is kept
/// whole, because commands are there to be copied. Existing lines that fit are kept with their spaces, because a
/// compiler points at columns. In a text from a source no line can move the cursor or be a command to a CI.
fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent.chars().count()).max(20);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let paragraph = escape::within_line(paragraph);
        if paragraph.chars().count() <= room || paragraph.starts_with(escape::PRINTED) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_program_printed_is_not_wrapped() {
        let text = "its command failed: E: no\n  │   File \"a b\", line 1\u{1b}[2J";
        let shown = [
            "  its command failed:",
            "  E: no",
            "    │   File \"a b\", line 1\\u{1b}[2J",
        ];
        assert_eq!(wrapped(text, "  ", 22), shown);
    }

    #[test]
    fn a_text_that_is_cut_keeps_its_last_paragraph() {
        assert_eq!(fit("a\n\nb\n", 3), "a\n\nb\n");
        let text = "1\n2\n3\n4\n5\n\nFAIL\n";
        assert_eq!(
            fit(text, 5),
            "1\n2\n... 3 more lines; -v prints all\n\nFAIL\n"
        );
    }
}
