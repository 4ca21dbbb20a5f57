//! For a terminal: what failed comes first, with the reason and the command that shows it alone; the
//! headline comes last, where the eye rests.

use super::{beside, notes, printed, standing, summary};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use verdict::model::{Conclusion, Judgement, Outcome, Record};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub color: bool,
    /// In columns.
    pub width: usize,
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

pub fn render(record: &Record, judgement: &Judgement, options: Options) -> String {
    let mut out = Vec::new();
    for problem in summary::problems(judgement) {
        let paint = match problem.outcome {
            Outcome::Fail => Paint::Red,
            _ => Paint::Yellow,
        };
        let title = format!("{}: {}", problem.subjects(record), problem.gates());
        let outcome = problem.outcome.name().to_uppercase();
        let mut lines = wrapped(&format!("{outcome} {title}"), "", options.width);
        if let Some(first) = lines.first_mut() {
            *first = first.replacen(&outcome, &options.paint(paint, &outcome), 1);
        }
        out.extend(lines);
        out.extend(wrapped(problem.reason, "     ", options.width));
        if let Some(declared) = problem.declared() {
            out.extend(wrapped(&format!("by {declared}"), "     ", options.width));
        }
        if let Some(command) = summary::reproduce_one(record, judgement, &problem) {
            out.push(format!("     {}", options.paint(Paint::Bold, &command)));
        }
        out.push(String::new());
    }
    let loosened = beside::loosened(judgement);
    if !loosened.is_empty() {
        let allowed = loosened.iter().all(|it| it.outcome == Outcome::Pass);
        let paint = match allowed {
            true => Paint::Yellow,
            false => Paint::Red,
        };
        let told = beside::loosening(judgement, &loosened);
        let mut lines = wrapped(&format!("LOOSENED {told}"), "", options.width);
        if let Some(first) = lines.first_mut() {
            *first = first.replacen("LOOSENED", &options.paint(paint, "LOOSENED"), 1);
        }
        out.extend(lines);
        for gate in loosened {
            out.extend(wrapped(&gate.told(), "     ", options.width));
        }
        out.push(String::new());
    }
    let metric_names = |metrics: &[verdict::model::Metric]| {
        metrics
            .iter()
            .map(|metric| metric.name())
            .collect::<Vec<_>>()
    };
    let mut heads = vec!["unit"];
    heads.extend(metric_names(&summary::UNIT_METRICS));
    heads.push("verdict");
    out.extend(table(
        &heads,
        summary::units(record, judgement),
        options.width,
    ));
    let mut heads = vec!["case"];
    heads.extend(summary::case_heads(record));
    heads.push("verdict");
    out.extend(table(
        &heads,
        summary::cases(record, judgement),
        options.width,
    ));

    if let Some(base) = &judgement.base {
        let title = format!("beside {}", beside::revision(base));
        let heads = [
            &title, "metric", "base", "head", "change", "within", "verdict",
        ];
        let rows = beside::compared(judgement).into_iter();
        let rows = rows.map(|row| summary::Row {
            name: row.subject.to_string(),
            cells: vec![
                row.metric.to_string(),
                row.base,
                row.head,
                row.change,
                row.bounds,
            ],
            outcome: row.outcome.name(),
        });
        out.extend(table(&heads, rows.collect(), options.width));
    }

    let base = judgement.base.as_ref().map_or_else(Vec::new, |base| {
        let mut lines = vec![beside::compared_with(base)];
        lines.extend(beside::untimed(record, base));
        lines.extend(beside::effort(judgement).map(|effort| format!("timed in turns: {effort}")));
        lines
    });
    let remarks = [
        (
            "times",
            summary::legend(record)
                .into_iter()
                .map(str::to_owned)
                .collect(),
        ),
        ("base", base),
        (
            "accepted",
            judgement.accepted.iter().map(standing::accepted).collect(),
        ),
        (
            "better",
            judgement
                .wins
                .iter()
                .map(|win| summary::win(record, win))
                .collect(),
        ),
        ("drift", standing::drifts(judgement)),
        ("note", notes::lines(record, judgement)),
        ("skipped", summary::skipped(record, judgement)),
        ("on", vec![summary::circumstances(record)]),
        ("time", vec![summary::costs(&record.costs)]),
    ];
    for (kind, lines) in remarks {
        for line in lines {
            let mut lines = wrapped(&line, "         ", options.width);
            if let Some(first) = lines.first_mut() {
                *first = format!("{kind:<9}{}", first.trim_start());
            }
            out.extend(lines);
        }
    }
    for printed in printed::printed(judgement) {
        let mut lines = wrapped(&printed.head, "         ", options.width);
        if let Some(first) = lines.first_mut() {
            *first = format!("printed  {}", first.trim_start());
        }
        out.extend(lines);
        out.extend(
            printed
                .lines
                .iter()
                .map(|line| format!("         | {line}")),
        );
        out.extend(printed.cut.map(|cut| format!("         {cut}")));
    }
    let headline = summary::headline(judgement);
    let paint = match judgement.conclusion {
        Conclusion::Pass => Paint::Green,
        Conclusion::Fail => Paint::Red,
        Conclusion::Environment | Conclusion::Inconclusive | Conclusion::NothingJudged => {
            Paint::Yellow
        }
    };
    out.push(String::new());
    let mut lines = wrapped(&headline, "", options.width);
    if let Some(first) = lines.first_mut() {
        let word = summary::conclusion(judgement.conclusion);
        *first = first.replacen(word, &options.paint(paint, word), 1);
    }
    out.extend(lines);
    out.join("\n") + "\n"
}

/// The two records of a comparison by their names, and what each was made on: before its report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side =
        |(name, record): (&str, &Record)| format!("{name}: {}", summary::circumstances(record));
    format!("BASE {}\nHEAD {}\n\n", side(base), side(head))
}

/// Cells are broken between words where that keeps the lines within `width`. A name never is, as it is there to be
/// copied: with long ones the table is wider.
fn table(heads: &[&str], rows: Vec<summary::Row>, width: usize) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = heads.iter().map(ToString::to_string).collect();
    let rows = rows.into_iter().map(|row| {
        let cells = std::iter::once(row.name).chain(row.cells);
        cells.chain([row.outcome.to_owned()]).collect()
    });
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let last = lines.first().map_or(0, |heads| heads.len() - 1);
    let padding = |at: usize| u16::from(at != last);
    let least: Vec<u16> = (0..=last)
        .map(|at| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            let widths = cells.map(|cell| match at {
                0 => cell.chars().count(),
                _ => longest_word(cell),
            });
            u16::try_from(widths.max().unwrap_or_default())
                .unwrap_or(u16::MAX)
                .saturating_add(padding(at))
        })
        .collect();
    let needed = least.iter().copied().fold(0, u16::saturating_add);

    let mut table = Table::new();
    table
        .load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(needed.max(u16::try_from(width).unwrap_or(u16::MAX)));
    for (at, line) in lines.into_iter().enumerate() {
        match at {
            0 => table.set_header(line),
            _ => table.add_row(line),
        };
    }
    for ((at, column), least) in table.column_iter_mut().enumerate().zip(least) {
        column.set_padding((0, padding(at)));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        if at != 0 && at != last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.to_string();
    lines
        .lines()
        .map(|line| line.trim_end().to_owned())
        .chain([String::new()])
        .collect()
}

fn longest_word(cell: &str) -> usize {
    let words = cell.split_whitespace();
    words.map(|word| word.chars().count()).max().unwrap_or(0)
}

/// Breaks at spaces, and inside a word that is longer than a line; keeps what stands in backticks, as commands are
/// there to be copied, and the lines that are there and fit, with their spaces: a compiler points at columns. Of a
/// text that comes from a source no line can move the cursor or be a command to a CI.
fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent.chars().count()).max(20);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        // GitHub's runner takes the older form of its commands anywhere in a line.
        let paragraph = printed::visible(paragraph).replace("##[", "## [");
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
    // And the newer one where a line begins with it, whatever white space is before it.
    for line in &mut lines {
        if let Some(rest) = line.trim_start().strip_prefix("::") {
            *line = format!("{indent}: :{rest}");
        }
    }
    lines
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
