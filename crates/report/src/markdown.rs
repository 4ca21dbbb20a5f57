//! For a pull request: the verdict on top, failures first, changes next, everything unchanged folded.

use super::against_base::LoosenedGates;
use super::page;
use super::printed::Printed;
use super::problems::Block;
use super::section::{Chart, Kind, Part, Section};
use super::summary;
use crate::input::ReportInput;
use model::{Outcome, Record};
use std::fmt::Write;
use wording::escape::{
    chart_text, cut, markdown as text, markdown_cell as cell, markdown_code as code,
};

pub fn render(input: &ReportInput) -> String {
    let page = page::lay_out(input);
    let mut out = format!("## gatekeeper: {}\n\n", text(&cut(page.headline)));
    line(&mut out, &text(&cut(page.circumstances)));
    sections(&mut out, &page.sections);
    out.push('\n');
    line(&mut out, &format!("<sub>{}</sub>", text(&page.costs)));
    out
}

/// Renders a report that is no judgement: a title, and sections in groups.
pub fn render_groups(title: &str, groups: &[Vec<Section>]) -> String {
    let mut out = format!("## gatekeeper: {}\n", text(title));
    for group in groups {
        sections(&mut out, group);
    }
    out
}

/// Folded sections come last.
fn sections(out: &mut String, all: &[Section]) {
    let (folded, open): (Vec<_>, Vec<_>) = all.iter().partition(|section| section.is_folded);
    let has_any = |section: &&Section| section.parts.iter().any(|part| !part.is_empty());
    let all = open.into_iter().chain(folded);
    for section in all.filter(|it| it.in_comment && has_any(it)) {
        self::section(out, section);
    }
}

/// The two records of a comparison by their names, and what each was made on: the last line of its report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side = |(name, record): (&str, &Record)| {
        let on = text(&summary::circumstances(record));
        format!("{}: {on}", code(name))
    };
    format!("\n<sub>BASE {}<br>HEAD {}</sub>\n", side(base), side(head))
}

/// Bytes. A comment on GitHub holds 65,536 characters, and the summary of a job a megabyte: above it GitHub drops all.
/// The folded parts are those that can be missed.
const MOST: usize = 60_000;

fn section(out: &mut String, section: &Section) {
    let title = text(&section.title);
    let parts = section.parts.iter().filter(|part| !part.is_empty());
    let parts = parts.map(part);
    let inner = parts.collect::<Vec<_>>().join("\n");
    if section.is_folded && out.len() + inner.len() > MOST {
        let _ = write!(
            out,
            "\n{title}: too many for a comment; the JSON report has them.\n"
        );
        return;
    }
    // GitHub reads markdown inside <details> only after an empty line.
    let _ = match section.is_folded {
        true => write!(
            out,
            "\n<details><summary>{title}</summary>\n\n{inner}\n</details>\n"
        ),
        false => write!(out, "\n### {title}\n\n{}", fitting(&inner, out.len())),
    };
}

/// The lines that there is room for behind so many bytes; the worst are the first.
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

fn part(part: &Part) -> String {
    match part {
        Part::Problems(problems) => {
            let heads = [
                ("", false),
                ("subject", false),
                ("gate", false),
                ("why", false),
            ];
            let rows = problems.iter().map(problem).collect();
            rows_of(heads.into_iter().chain([("command", false)]), rows)
        }
        Part::Loosened(gates, what) => {
            let heads = ["", "subject", "base", "head", "at"].map(|head| (head, false));
            let rows = gates.iter().map(loosened).collect();
            format!("{}.\n\n{}", text(what), rows_of(heads, rows))
        }
        Part::Lines(lines) => {
            let lines = lines.iter().map(|line| format!("- {}\n", text(line)));
            lines.collect()
        }
        Part::Table(table) => {
            let columns = table.columns.iter();
            let heads = columns.map(|it| (it.head.as_str(), it.kind == Kind::Number));
            let rows = table.rows.iter().map(|row| {
                let cells = row.iter().zip(&table.columns);
                let cells = cells.map(|(raw, column)| match column.kind {
                    Kind::Name if raw.is_empty() => String::new(),
                    Kind::Name => code(raw),
                    Kind::Number | Kind::Text => cell(raw),
                });
                cells.collect()
            });
            rows_of(heads, rows.collect())
        }
        Part::Printed(all) => {
            let blocks: Vec<_> = all.iter().map(printed).collect();
            blocks.join("\n")
        }
        Part::Chart(it) => chart(it),
    }
}

/// As GitHub draws it.
fn chart(chart: &Chart) -> String {
    let labels: Vec<_> = chart.labels.iter().map(|it| chart_text(it)).collect();
    let values: Vec<_> = chart.values.iter().map(|it| decimal(*it)).collect();
    // From 0: of two values that are near each other the line is nearly flat.
    let top = decimal(chart.values.iter().copied().fold(0.0, f64::max) * 1.1);
    format!(
        "```mermaid\nxychart-beta\n    title \"{}\"\n    x-axis [\"{}\"]\n    y-axis 0 --> {top}\n    line [{}]\n```\n",
        chart_text(&chart.title),
        labels.join("\", \""),
        values.join(", "),
    )
}

fn problem(block: &Block) -> Vec<String> {
    let gates: Vec<_> = block.gates.iter().map(|gate| code(gate)).collect();
    let why = block.why.join("\n");
    vec![
        format!(
            "**{}**<br><sub>{}</sub>",
            block.problem.outcome, block.problem.code
        ),
        code(&block.subjects),
        gates.join(", "),
        match &block.cause {
            Some(cause) => cell(&format!("{why}\ncause: {cause}")),
            None => cell(&why),
        },
        block.command.as_deref().map_or(String::new(), code),
    ]
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
    // Indented, as no text can end such a block.
    for shown in &printed.lines {
        line(&mut out, &format!("    | {shown}"));
    }
    if let Some(cut) = &printed.cut {
        line(&mut out, &format!("\n{}", text(cut)));
    }
    out
}

/// A table of cells that are escaped already. With each head: whether its column holds numbers.
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

/// Six significant digits and no exponent, which mermaid does not read.
fn decimal(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    let digits = if magnitude.is_finite() {
        (5.0 - magnitude).clamp(0.0, 40.0) as usize
    } else {
        0
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
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
