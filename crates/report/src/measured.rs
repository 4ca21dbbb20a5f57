//! Lays out a change that was taken apart and measured: a table with a row for each piece. Decides nothing.

use super::section::{ColumnKind, Room, Section, SectionPart, Table};
use explain::{ChangePiece, LineRange, MeasuredChange, MeasuredPart};
use model::{Metric, Num};
use wording::words::{self, plural};

/// The most further metrics that the table has columns for.
const MOST_METRICS: usize = 4;

/// Returns the section about one case.
pub fn section(change: &MeasuredChange) -> Section<'static> {
    let parts = vec![
        SectionPart::Lines(vec![summary(change)]),
        SectionPart::Table(table(change)),
        SectionPart::Lines(notes(change)),
    ];
    Section::new("measured", "Each part of the change, measured", parts)
}

fn summary(change: &MeasuredChange) -> String {
    let count = plural(change.parts.len(), "part");
    match change.metrics.first() {
        Some(first) => format!(
            "{}: {} at the base, {} at head. The change has {count}, and each was added to the base alone and taken from \
             head alone",
            first.metric,
            words::quantity(first.metric, first.base.0),
            words::quantity(first.metric, first.head.0),
        ),
        None => format!("the change has {count}, and none of them changes a metric"),
    }
}

fn table(change: &MeasuredChange) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut columns: Vec<(String, ColumnKind, Room)> = vec![
        ("part".to_owned(), ColumnKind::Name, Room::Always),
        ("source".to_owned(), ColumnKind::Text, Room::IfItFits),
    ];
    let mut values: Vec<Vec<String>> = Vec::new();
    if let Some(first) = change.metrics.first() {
        let metric = first.metric;
        let shares = change.parts.iter().map(|part| share(change, part));
        columns.push(("share".to_owned(), ColumnKind::Number, Room::Always));
        values.push(shares.collect());
        let added = |part: &MeasuredPart| part.effects.first().map(|effect| effect.added_to_base);
        let taken = |part: &MeasuredPart| part.effects.first().map(|effect| effect.taken_from_head);
        let error = |part: &MeasuredPart| part.effects.first().map(|effect| effect.error);
        for (name, cells) in [
            with_unit("added to base", metric, change, &added),
            with_unit("taken from head", metric, change, &taken),
        ] {
            columns.push((name, ColumnKind::Number, Room::Always));
            values.push(cells);
        }
        if change
            .parts
            .iter()
            .any(|part| error(part).is_some_and(|error| error.0 > 0.0))
        {
            let (name, cells) = with_unit("±", metric, change, &error);
            columns.push((name, ColumnKind::Number, Room::IfItFits));
            values.push(cells);
        }
    }
    for (at, other) in change.metrics.iter().enumerate().skip(1).take(MOST_METRICS) {
        let middle = |part: &MeasuredPart| part.effects.get(at).map(|effect| Num(effect.middle()));
        let (name, cells) = with_unit(other.metric.name(), other.metric, change, &middle);
        columns.push((name, ColumnKind::Number, Room::IfItFits));
        values.push(cells);
    }
    for (at, part) in change.parts.iter().enumerate() {
        let own = values
            .iter()
            .map(|column| column.get(at).cloned().unwrap_or_default());
        let mut own: Vec<String> = own.collect();
        for (index, piece) in part.pieces.iter().enumerate() {
            let number = if index == 0 {
                (at + 1).to_string()
            } else {
                "+".to_owned()
            };
            let mut row = vec![
                format!("{number} {}", place(piece)),
                source(piece).to_owned(),
            ];
            row.extend(own.clone());
            rows.push(row);
            // The pieces of a part have their values together.
            own.iter_mut().for_each(String::clear);
        }
    }
    let heads = columns.iter().map(|(head, kind, _)| (head.as_str(), *kind));
    let mut table = Table::new(heads, rows);
    for (column, (_, _, room)) in table.columns.iter_mut().zip(&columns) {
        column.room = *room;
    }
    table
}

fn share(change: &MeasuredChange, part: &MeasuredPart) -> String {
    match change.share(part) {
        Some(share) => format!("{:.0} %", share * 100.0),
        None => "-".to_owned(),
    }
}

/// Returns a column of one value for each part: its head with the unit, and the numbers with their signs.
fn with_unit(
    name: &str,
    metric: Metric,
    change: &MeasuredChange,
    value: &dyn Fn(&MeasuredPart) -> Option<Num>,
) -> (String, Vec<String>) {
    let values: Vec<Option<f64>> = change
        .parts
        .iter()
        .map(|part| value(part).map(|value| value.0))
        .collect();
    let sizes: Vec<Option<f64>> = values
        .iter()
        .map(|value| value.map(f64::abs).filter(|size| size.is_finite()))
        .collect();
    let (head, cells) = words::column(name, metric, &sizes);
    let signed = cells
        .into_iter()
        .zip(&values)
        .map(|(cell, value)| match value {
            Some(value) if *value < 0.0 => format!("-{cell}"),
            Some(value) if *value > 0.0 && name != "±" => format!("+{cell}"),
            _ => cell,
        });
    (head, signed.collect())
}

fn notes(change: &MeasuredChange) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(first) = change.metrics.first() else {
        return notes;
    };
    if change.parts.iter().any(|part| part.pieces.len() > 1) {
        notes.push(
            "pieces under one number do not build, or are wrong, without each other".to_owned(),
        );
    }
    for pair in &change.pairs {
        let [one, other] = pair.parts;
        let extra = pair.extra.first().map_or(f64::NAN, |extra| extra.0);
        notes.push(format!(
            "{one} and {other} together: {} beyond what each adds alone",
            words::difference(first.metric, extra)
        ));
    }
    let whole = first.head.0 - first.base.0;
    if let Some(rest) = change.rest().filter(|rest| (rest / whole).abs() > 0.05) {
        notes.push(format!(
            "{} of the change is in no part: parts interact in more ways than in pairs, or the times vary",
            words::difference(first.metric, rest)
        ));
    }
    notes
}

fn place(piece: &ChangePiece) -> String {
    match piece {
        ChangePiece::Lines(lines) if lines.head.count == 0 => {
            format!("{}:{} of the base, removed", lines.file, range(lines.base))
        }
        ChangePiece::Lines(lines) => format!("{}:{}", lines.file, range(lines.head)),
        ChangePiece::Definitions => "macros of the command line".to_owned(),
        ChangePiece::Flags => "flags of the compiler".to_owned(),
        ChangePiece::IncludeDirs => "directories of headers".to_owned(),
        ChangePiece::Entries => "functions that are called".to_owned(),
        ChangePiece::Launch => "launch and arguments".to_owned(),
        ChangePiece::Data => "tensors and sizes".to_owned(),
        ChangePiece::Compiler => "compiler".to_owned(),
    }
}

fn range(lines: LineRange) -> String {
    match lines.count {
        0 | 1 => lines.first.to_string(),
        count => format!("{}-{}", lines.first, lines.first + count - 1),
    }
}

fn source(piece: &ChangePiece) -> &str {
    match piece {
        ChangePiece::Lines(lines) => &lines.text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Explanation;
    use crate::tests::PLAIN;
    use explain::{
        Cause, CauseClass, CausePlace, ChangedLines, MeasuredMetric, MeasuredPair, PartEffect,
        PlaceSide,
    };
    use model::{CaseId, CodeLine, Subject};

    fn part(first: usize, pieces: usize, effects: &[[f64; 3]]) -> MeasuredPart {
        let lines = |first| {
            ChangePiece::Lines(ChangedLines {
                file: "k.cu".to_owned(),
                base: LineRange { first, count: 0 },
                head: LineRange { first, count: 2 },
                text: "__syncthreads();".to_owned(),
            })
        };
        MeasuredPart {
            pieces: (0..pieces).map(|at| lines(first + 10 * at)).collect(),
            effects: effects
                .iter()
                .map(|[added, taken, error]| PartEffect {
                    added_to_base: Num(*added),
                    taken_from_head: Num(*taken),
                    error: Num(*error),
                })
                .collect(),
        }
    }

    #[test]
    fn parts_interact_in_pairs_and_add_up() {
        let metric = |metric, base, head| MeasuredMetric {
            metric,
            base: Num(base),
            head: Num(head),
        };
        let change = MeasuredChange {
            metrics: vec![
                metric(Metric::P50, 20_000.0, 32_000.0),
                metric(Metric::Registers, 32.0, 40.0),
            ],
            parts: vec![
                part(3, 2, &[[6_000.0, 8_000.0, 50.0], [8.0, 8.0, 0.0]]),
                part(7, 1, &[[4_000.0, 6_000.0, 40.0], [0.0, 0.0, 0.0]]),
            ],
            pairs: vec![MeasuredPair {
                parts: [1, 2],
                extra: vec![Num(2_000.0), Num(0.0)],
            }],
        };
        assert_eq!(change.rest(), Some(0.0));
        let said = crate::terminal::render_groups(&[vec![section(&change)]], PLAIN);
        insta::assert_snapshot!(said);
    }

    #[test]
    fn a_cause_has_the_share_of_the_parts_that_edit_its_lines() {
        let change = MeasuredChange {
            metrics: vec![MeasuredMetric {
                metric: Metric::P50,
                base: Num(10_000.0),
                head: Num(20_000.0),
            }],
            parts: vec![
                part(7, 1, &[[6_000.0, 6_000.0, 10.0]]),
                part(30, 1, &[[4_000.0, 4_000.0, 10.0]]),
            ],
            pairs: Vec::new(),
        };
        let cause = |number| {
            let place = CausePlace {
                of: PlaceSide::Head,
                line: CodeLine {
                    file: "k.cu".to_owned(),
                    number,
                },
                text: None,
            };
            Cause::new(CauseClass::BarrierAdded, 1.0).at([place])
        };
        let said = |number| {
            let explanation = Explanation {
                subject: Subject::Case(CaseId::new("k", "default", "small")),
                wrong: None,
                causes: vec![cause(number)],
                gaps: Vec::new(),
                measured: Some(change.clone()),
            };
            crate::explain::terminal(&[explanation])
        };
        let second = "measured: part 2 of the change has 40 % of the change of p50";
        assert!(said(31).contains(second), "{}", said(31));
        // The effect of an edit can be elsewhere, so nothing is known about this line.
        assert!(
            said(99).contains("which of the measured parts bring it about is not known"),
            "{}",
            said(99)
        );
    }
}
