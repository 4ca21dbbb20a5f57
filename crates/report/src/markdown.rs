//! Renders the report for a pull request: the first problem, a short table, why, and one command. Everything else is
//! one click away.

use super::against_base::{self, LoosenedGates};
use super::explain;
use super::page::{self, Page};
use super::place::FileLine;
use super::printed::Printed;
use super::problems::{Block, ValueRow, head_of_was};
use super::section::{Chart, ColumnKind, Section, SectionPart};
use super::summary;
use crate::input::ReportInput;
use model::{Conclusion, Outcome, ProblemCause, Record, SinceBase};
use std::fmt::Write;
use wording::escape::{
    chart_text, cut, markdown as text, markdown_cell as cell, markdown_code as code,
};
use wording::words;

pub fn render(input: &ReportInput) -> String {
    let page = page::lay_out(input);
    let blocks = blocks_of(&page);
    let is_new_failure = |block: &&Block| block.problem.outcome == Outcome::Fail && !block.is_old();
    let lead = blocks
        .iter()
        .find(|block| !block.is_old())
        .or(blocks.first());
    let lead = lead.filter(|block| is_new_failure(block) || !is_looser(input));
    let told = lead.map(Told::from_block);

    let mut out = format!("### {}\n", heading(input, lead));
    match lead {
        Some(_) => table_on_top(&mut out, input, blocks),
        None => looser_on_top(&mut out, input),
    }
    if let Some(line) = told.as_ref().and_then(Told::line) {
        let _ = writeln!(out, "\n{line}");
    }
    for line in standing(input) {
        let _ = writeln!(out, "\n{}", text(&line));
    }

    // If no problem is named in the heading, it has the counts.
    let has_counts = input.judgement.problems.is_empty();
    let summary = if has_counts {
        "Details".to_owned()
    } else {
        text(&cut(page.headline.clone()))
    };
    let circumstances = text(&cut(page.circumstances.clone()));
    let _ = write!(
        out,
        "<details><summary>{summary}</summary>\n\n{circumstances}\n"
    );
    let place = Placement {
        heading: "####",
        told: told.as_ref(),
    };
    sections(&mut out, &page.sections, place);
    let costs = text(&page.costs);
    let _ = writeln!(out, "\n<sub>{costs}</sub>\n\n</details>");
    out
}

/// Renders a report other than a judgement: a title, and sections in groups.
pub fn render_groups(title: &str, groups: &[Vec<Section>]) -> String {
    format!("## gatekeeper: {}\n", text(title)) + &render_sections(groups)
}

/// Lays out sections without a title above them.
pub fn render_sections(groups: &[Vec<Section>]) -> String {
    let mut out = String::new();
    let place = Placement {
        heading: "###",
        told: None,
    };
    for group in groups {
        sections(&mut out, group, place);
    }
    out
}

fn blocks_of<'a, 'b>(page: &'a Page<'b>) -> &'a [Block<'b>] {
    page.sections
        .iter()
        .flat_map(|section| &section.parts)
        .filter_map(|part| match part {
            SectionPart::Problems(all) => Some(all.as_slice()),
            _ => None,
        })
        .next()
        .unwrap_or_default()
}

/// The number of characters of a heading or a cell, and of a sentence, above the fold.
const MOST_IN_CELL: usize = 120;
const MOST_IN_SENTENCE: usize = 300;

fn heading(input: &ReportInput, lead: Option<&Block>) -> String {
    let judgement = input.judgement;
    let (mark, word) = match judgement.conclusion {
        Conclusion::Pass => ("✅", ""),
        Conclusion::Fail => ("❌", ""),
        Conclusion::Inconclusive => ("⚠️", "inconclusive: "),
        Conclusion::Environment => ("⚠️", "the environment failed: "),
        Conclusion::NothingJudged => ("⚠️", "nothing judged: "),
    };
    let what = match lead {
        Some(block) => named(block) + &others(input, block),
        None if judgement.conclusion == Conclusion::Fail => {
            against_base::looser(judgement, &against_base::loosened(judgement))
        }
        None => return format!("{mark} gatekeeper: {}", text(&summary::headline(input))),
    };
    let nothing = judgement.base.as_ref();
    let nothing = nothing.and_then(against_base::nothing_compared);
    let what = nothing
        .into_iter()
        .chain([what])
        .chain(summary::uncommitted(input))
        .collect::<Vec<_>>()
        .join("; ");
    format!("{mark} gatekeeper: {}", text(&format!("{word}{what}")))
}

/// Returns true if gates that demand less than the base's are a problem. A label may allow them.
fn is_looser(input: &ReportInput) -> bool {
    input
        .judgement
        .problems
        .iter()
        .any(|problem| problem.cause == ProblemCause::Loosened)
}

/// Returns a problem in one line: `k/fast@small: race on shared memory, new (k.cu:9)`.
fn named(block: &Block) -> String {
    let since = match block.problem.since_base {
        Some(SinceBase::New) => ", new",
        Some(SinceBase::Old) => ", as at the base",
        None => "",
    };
    let subjects = shortened(&block.subjects, MOST_IN_CELL);
    let title = shortened(&block.title, MOST_IN_CELL);
    format!("{subjects}: {title}{since}{}", at(block.place.as_ref()))
}

fn at(place: Option<&FileLine>) -> String {
    place.map_or(String::new(), |FileLine { file, line }| {
        format!(" ({}:{line})", shortened(file, MOST_IN_CELL))
    })
}

/// Counts the other problems of the same outcome that are as new as the first.
fn others(input: &ReportInput, lead: &Block) -> String {
    let is_old = |since| since == Some(SinceBase::Old);
    match input
        .judgement
        .problems
        .iter()
        .filter(|problem| {
            problem.outcome == lead.problem.outcome && is_old(problem.since_base) == lead.is_old()
        })
        .count()
        .saturating_sub(1)
    {
        0 => String::new(),
        more => format!(", and {}", words::plural(more, "more problem")),
    }
}

/// The number of lines of the table above the fold. They make ten lines with the two heads, the heading, the sentence
/// and its empty line, the fold, and the link that the action adds.
const MOST_ROWS: usize = 3;

/// Writes a line for each problem that the base does not have, and for their worst values while there is room. Writes
/// nothing if the heading says all of it.
fn table_on_top(out: &mut String, input: &ReportInput, blocks: &[Block]) {
    let judgement = input.judgement;
    let is_looser = is_looser(input);
    let room = MOST_ROWS - usize::from(is_looser);
    let shown: Vec<&Block> = blocks
        .iter()
        .filter(|block| !block.is_old())
        .take(room)
        .collect();
    let mut left = room - shown.len();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut values: Vec<&ValueRow> = Vec::new();
    for block in &shown {
        let Some((first, rest)) = block.rows.split_first() else {
            lines.push(line_of_problem(block));
            continue;
        };
        let rest = &rest[..rest.len().min(left)];
        left -= rest.len();
        lines.extend(std::iter::once(first).chain(rest).map(line_of_value));
        values.extend(std::iter::once(first).chain(rest));
    }
    let has_values = !values.is_empty();
    if is_looser {
        let looser = against_base::looser(judgement, &against_base::loosened(judgement));
        lines.push(vec![String::new(), cell(&looser)]);
    }
    if lines.len() < 2 && !has_values {
        return;
    }
    let heads = [("case", false), ("problem", false)].into_iter();
    let was = head_of_was(values);
    let values = [(was, true), ("now", true), ("change", true)];
    let heads: Vec<_> = heads
        .chain(values.into_iter().filter(|_| has_values))
        .collect();
    for line in &mut lines {
        line.resize(heads.len(), String::new());
    }
    out.push_str(&rows_of(heads, lines));
}

fn line_of_problem(block: &Block) -> Vec<String> {
    let title = shortened(&block.title, MOST_IN_CELL);
    vec![
        code(&shortened(&block.subjects, MOST_IN_CELL)),
        cell(&format!("{title}{}", at(block.place.as_ref()))),
    ]
}

fn line_of_value(row: &ValueRow) -> Vec<String> {
    let or_none = |text: &Option<String>| text.as_deref().map_or(String::new(), cell);
    vec![
        code(&shortened(&row.subject.to_string(), MOST_IN_CELL)),
        cell(&shortened(&row.metric, MOST_IN_CELL)),
        or_none(&row.was),
        cell(&row.now),
        match &row.change {
            Some(change) => cell(change),
            None => cell(&format!("limit {}", row.limit)),
        },
    ]
}

/// Writes the gates that demand less than the base's, if the heading has nothing else.
fn looser_on_top(out: &mut String, input: &ReportInput) {
    let gates = against_base::loosened(input.judgement);
    if input.judgement.conclusion != Conclusion::Fail || gates.is_empty() {
        return;
    }
    let rows = gates.iter().take(MOST_ROWS).map(|gate| {
        vec![
            code(&shortened(&gate.subject.to_string(), MOST_IN_CELL)),
            code(&shortened(&gate.asked(), MOST_IN_CELL)),
            cell(&shortened(&gate.now(), MOST_IN_CELL)),
        ]
    });
    let heads = ["case", "base", "head"].map(|head| (head, false));
    out.push_str(&rows_of(heads, rows.collect()));
}

/// Returns which gates were allowed to demand less, and what a passing run was compared with.
fn standing(input: &ReportInput) -> Vec<String> {
    let judgement = input.judgement;
    if judgement.conclusion != Conclusion::Pass {
        return Vec::new();
    }
    let gates = against_base::loosened(judgement);
    let looser = (!gates.is_empty()).then(|| against_base::loosening(judgement, &gates));
    let base = judgement.base.as_ref();
    let base = base.map(|base| format!("Against {}", against_base::compared_with(base)));
    looser.into_iter().chain(base).collect()
}

/// The words about the first problem above the fold, which are not repeated below.
struct Told<'a> {
    block: &'a Block<'a>,
    why: Option<String>,
    /// True if `why` is the frame of the block, in words.
    has_frame: bool,
}

impl<'a> Told<'a> {
    fn from_block(block: &'a Block<'a>) -> Self {
        let has_frame = matches!(block.problem.cause, ProblemCause::Arguments(_))
            && (1..=2).contains(&block.frame.lines.len());
        let first = block.why.first();
        let why = match (&block.cause, first) {
            // The table below has the values.
            (Some(_), _) if !block.rows.is_empty() => {
                block.first_cause.as_ref().map(explain::title_and_place)
            }
            (Some(cause), _) => Some(cause.clone()),
            _ if has_frame => Some(block.frame.in_words()),
            // The table below has the values.
            (None, Some(why)) if block.rows.is_empty() => why.lines().next().map(str::to_owned),
            (None, _) => None,
        };
        Self {
            block,
            why,
            has_frame,
        }
    }

    /// Returns the cause and the command: `Cause: more barriers at k.cu:12. Repeat: ...`.
    fn line(&self) -> Option<String> {
        let word = match self.block.cause {
            Some(_) => "Cause",
            None => "Why",
        };
        let why = self.why.as_ref();
        let why = why.map(|why| text(&format!("{word}: {}", shortened(why, MOST_IN_SENTENCE))));
        let command = self.block.command.as_deref();
        let command = command.map(|command| format!("Repeat: {}", code(command)));
        let parts: Vec<_> = why.into_iter().chain(command).collect();
        (!parts.is_empty()).then(|| parts.join(". "))
    }

    fn is_about(&self, block: &Block) -> bool {
        std::ptr::eq(self.block.problem, block.problem)
    }

    /// Returns the rest of a text whose first sentence is above the fold in full.
    fn rest_of(&self, why: &str) -> String {
        let told = self.why.as_deref();
        let told = told.filter(|sentence| shortened(sentence, MOST_IN_SENTENCE) == *sentence);
        let rest = told.and_then(|told| why.strip_prefix(told));
        rest.unwrap_or(why).trim_start_matches('\n').to_owned()
    }
}

/// Shortens a text at a word, to a few characters less than `most`.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} ...", text[..end].trim_end()),
    }
}

/// The place of sections, and the beginning of their titles.
#[derive(Clone, Copy)]
struct Placement<'a> {
    /// The markdown that begins the title of each section.
    heading: &'static str,
    told: Option<&'a Told<'a>>,
}

/// Writes sections, the folded ones last.
fn sections(out: &mut String, all: &[Section], place: Placement) {
    let (folded, open): (Vec<_>, Vec<_>) = all.iter().partition(|section| section.is_folded);
    let has_any = |section: &&Section| section.parts.iter().any(|part| !part.is_empty());
    let all = open.into_iter().chain(folded);
    for section in all.filter(|section| section.in_comment && has_any(section)) {
        self::section(out, section, place);
    }
}

/// Returns the two records of a comparison by their names, and what each was made on, as the last line of the report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side = |(name, record): (&str, &Record)| {
        let on = text(&summary::circumstances(record));
        format!("{}: {on}", code(name))
    };
    format!("\n<sub>BASE {}<br>HEAD {}</sub>\n", side(base), side(head))
}

/// The greatest size in bytes. A comment on GitHub holds 65,536 characters, and the summary of a job a megabyte. Above
/// that GitHub drops everything, so the folded parts are dropped first.
const MOST: usize = 60_000;

fn section(out: &mut String, section: &Section, place: Placement) {
    let title = text(&section.title);
    let inner = section
        .parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|section_part| part(section_part, place.told))
        .collect::<Vec<_>>()
        .join("\n");
    if section.is_folded && out.len() + inner.len() > MOST {
        let _ = write!(
            out,
            "\n{title}: too many for a comment; the JSON report has them.\n"
        );
        return;
    }
    // GitHub reads markdown inside <details> only after an empty line.
    let _ = if section.is_folded {
        write!(
            out,
            "\n<details><summary>{title}</summary>\n\n{inner}\n</details>\n"
        )
    } else {
        write!(
            out,
            "\n{} {title}\n\n{}",
            place.heading,
            fitting(&inner, out.len())
        )
    };
}

/// Returns the lines that there is room for after this many bytes. The worst lines come first.
fn fitting(inner: &str, behind: usize) -> String {
    let mut room = MOST.saturating_sub(behind);
    if inner.len() <= room {
        return inner.to_owned();
    }
    let all = inner.lines().count();
    let fits = |line: &&str| {
        let fits = line.len() < room;
        room = room.saturating_sub(line.len() + 1);
        fits
    };
    let kept: Vec<&str> = inner.lines().take_while(fits).collect();
    let left = all - kept.len();
    format!(
        "{}\n\n... and {left} lines more: too many for a comment; the JSON report has them.\n",
        kept.join("\n")
    )
}

fn part(part: &SectionPart, told: Option<&Told>) -> String {
    match part {
        SectionPart::Problems(problems) => {
            let heads = [
                ("", false),
                ("subject", false),
                ("gate", false),
                ("why", false),
            ];
            let rows = problems.iter().map(|block| problem(block, told)).collect();
            rows_of(heads.into_iter().chain([("command", false)]), rows)
        }
        SectionPart::Loosened(gates, what) => {
            let heads = ["", "subject", "base", "head", "at"].map(|head| (head, false));
            let rows = gates.iter().map(loosened).collect();
            format!("{}.\n\n{}", text(what), rows_of(heads, rows))
        }
        SectionPart::Lines(lines) => lines
            .iter()
            .map(|line| format!("- {}\n", text(line)))
            .collect(),
        SectionPart::Table(table) => {
            let heads = table
                .columns
                .iter()
                .map(|column| (column.head.as_str(), column.kind == ColumnKind::Number));
            rows_of(
                heads,
                table
                    .rows
                    .iter()
                    .map(|row| {
                        row.iter()
                            .zip(&table.columns)
                            .map(|(raw, column)| match column.kind {
                                ColumnKind::Name if raw.is_empty() => String::new(),
                                ColumnKind::Name => code(raw),
                                ColumnKind::Number | ColumnKind::Text => cell(raw),
                            })
                            .collect()
                    })
                    .collect(),
            )
        }
        SectionPart::Printed(all) => {
            let blocks: Vec<_> = all.iter().map(printed).collect();
            blocks.join("\n")
        }
        SectionPart::Chart(chart_part) => chart(chart_part),
    }
}

/// Returns a chart in the form that GitHub draws.
fn chart(chart: &Chart) -> String {
    let labels: Vec<_> = chart.labels.iter().map(|label| chart_text(label)).collect();
    let values: Vec<_> = chart.values.iter().map(|chart| decimal(*chart)).collect();
    // The axis begins at 0, so that a line between two near values is nearly flat.
    let top = decimal(chart.values.iter().copied().fold(0.0, f64::max) * 1.1);
    format!(
        "```mermaid\nxychart-beta\n    title \"{}\"\n    x-axis [\"{}\"]\n    y-axis 0 --> {top}\n    line [{}]\n```\n",
        chart_text(&chart.title),
        labels.join("\", \""),
        values.join(", "),
    )
}

/// The number of sentences of one problem. Those of many cases are alike.
const MOST_REASONS: usize = 12;

fn problem(block: &Block, told: Option<&Told>) -> Vec<String> {
    let told = told.filter(|sentence| sentence.is_about(block));
    let gates: Vec<_> = block.gates.iter().map(|gate| code(gate)).collect();
    let since = match block.problem.since_base {
        Some(SinceBase::New) => ", new",
        Some(SinceBase::Old) => ", as at the base",
        None => "",
    };
    let command = block.command.as_deref().filter(|_| told.is_none());
    vec![
        format!(
            "**{}**<br><sub>{}{since}</sub>",
            block.problem.outcome, block.problem.code
        ),
        code(&block.subjects),
        gates.join(", "),
        why(block, told).join("<br>"),
        command.map_or(String::new(), code),
    ]
}

/// Returns the lines of a cell: why, the source, the cause, and what follows.
fn why(block: &Block, told: Option<&Told>) -> Vec<String> {
    let shown = block.why.len().min(MOST_REASONS);
    let mut lines: Vec<String> = block.why[..shown]
        .iter()
        .map(|sentence| told.map_or_else(|| sentence.clone(), |told| told.rest_of(sentence)))
        .filter(|sentence| !sentence.is_empty())
        .map(|sentence| cell(&sentence))
        .collect();
    if block.why.len() > shown {
        let more = block.why.len() - shown;
        lines.push(format!("and {more} more alike; report.json has them"));
    }
    let is_told = told.is_some_and(|told| told.has_frame);
    for line in block.frame.lines.iter().filter(|_| !is_told) {
        let place = code(&format!("{}:{}", line.file, line.number));
        let source = line.text.as_deref().map(str::trim);
        let source = source.filter(|source| !source.is_empty()).map(code);
        let note = Some(cell(&line.note)).filter(|note| !note.is_empty());
        lines.push(
            [Some(place), source, note]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    // The cause's name and line are above the fold, and its values are here.
    let cause = block.cause.iter().map(|cause| {
        let rest = told.map_or_else(|| cause.clone(), |told| told.rest_of(cause));
        rest.trim_start_matches(": ").to_owned()
    });
    lines.extend(
        cause
            .filter(|cause| !cause.is_empty())
            .map(|cause| cell(&format!("cause: {cause}"))),
    );
    if !block.follows.is_empty() {
        let follows = block.follows.join(", ");
        lines.push(cell(&format!("probably follow from it: {follows}")));
    }
    lines
}

fn loosened(gate: &LoosenedGates) -> Vec<String> {
    let outcome = match gate.outcome {
        Outcome::Pass => "allowed".to_owned(),
        outcome => format!("**{outcome}**"),
    };
    vec![
        outcome,
        code(&gate.subject.to_string()),
        code(&gate.asked()),
        cell(&gate.now()),
        gate.declared.map_or(String::new(), code),
    ]
}

fn printed(printed: &Printed) -> String {
    let mut out = format!("{}:\n\n", text(&printed.head));
    // The text is indented, because no text can end such a block.
    for shown in &printed.lines {
        line(&mut out, &format!("    | {shown}"));
    }
    if let Some(cut) = &printed.cut {
        line(&mut out, &format!("\n{}", text(cut)));
    }
    out
}

/// Renders a table of cells that are escaped already. Each head says whether its column holds numbers.
fn rows_of<'a>(heads: impl IntoIterator<Item = (&'a str, bool)>, rows: Vec<Vec<String>>) -> String {
    let (mut top, mut rule) = ("|".to_owned(), "|".to_owned());
    for (head, is_number) in heads {
        let _ = write!(top, " {} |", text(head));
        rule.push_str(if is_number { "---:|" } else { "---|" });
    }
    let mut out = format!("{top}\n{rule}\n");
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out
}

/// Returns a number with six significant digits and without an exponent, which mermaid does not read.
fn decimal(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    let digits = if magnitude.is_finite() {
        (5.0 - magnitude).clamp(0.0, 40.0) as usize
    } else {
        0
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_one_block_of_numbers_without_exponents() {
        let chart = chart(&Chart {
            title: "k\"/v\n```@s: max_err".into(),
            labels: vec!["1a2b".into(), "\"]".into()],
            values: vec![1.25e-7, 2.0],
        });
        let lines: Vec<_> = chart.lines().collect();
        assert_eq!(
            lines,
            [
                "```mermaid",
                "xychart-beta",
                "    title \"k_/v____@s: max_err\"",
                "    x-axis [\"1a2b\", \"_]\"]",
                "    y-axis 0 --> 2.2",
                "    line [0.000000125, 2]",
                "```"
            ]
        );
        for (value, text) in [
            (0.0, "0"),
            (80.0, "80"),
            (88.002_200_000_000_01, "88.0022"),
            (174_024.4, "174024"),
            (158_204_123.0, "158204123"),
        ] {
            assert_eq!(decimal(value), text);
        }
    }
}
