//! Lays out the part of the compiler that broke a gate, as the judge names it. Decides nothing.

use super::section::{ColumnKind, InTerminal, Section, Table};
use model::{BaseDemand, Blame, BlamedGate, GateVerdict, Judgement, Question};
use wording::words::{self, plural};

const TITLE: &str = "The part of the compiler that broke each gate";

/// Returns the section for a terminal: `nvvm 13.0.88 -> 13.2.51: 1 of 1 failed gate`, and the gates.
pub fn in_terminal(judgement: &Judgement) -> Section<'static> {
    let all: usize = judgement.blames.iter().map(|blame| blame.gates.len()).sum();
    let lines = judgement.blames.iter().map(|blame| {
        format!(
            "{}: {} of {}{}",
            parts(blame),
            blame.gates.len(),
            plural(all, "failed gate"),
            blame
                .gates
                .iter()
                .map(|gate| format!("\n{}  {}", gate.subject, name(gate)))
                .collect::<String>()
        )
    });
    Section {
        in_comment: false,
        in_page: false,
        ..Section::with_lines("blame", TITLE, lines.collect())
    }
}

/// Returns the section for a comment and a page.
pub fn in_pages(judgement: &Judgement) -> Section<'static> {
    let rows = judgement.blames.iter().flat_map(|blame| {
        let row = |subject: String, gate| vec![parts(blame), subject, gate];
        blame
            .gates
            .iter()
            .map(move |gate| row(gate.subject.to_string(), name(gate)))
    });
    let columns = [
        ("part", ColumnKind::Text),
        ("case", ColumnKind::Name),
        ("gate", ColumnKind::Text),
    ];
    let table = Table::new(columns, rows.collect());
    Section {
        in_terminal: InTerminal::Never,
        ..Section::with_table("", TITLE, table)
    }
}

/// Returns the name of a gate, or of the demand that head answers to it.
pub fn name(gate: &BlamedGate) -> String {
    match gate.verdict {
        GateVerdict::Own => words::gate(&gate.rule),
        GateVerdict::Answered => {
            let demand = BaseDemand::Checks(vec![gate.rule.clone()]);
            words::question(&Question::NoLooser(demand))
        }
    }
}

fn parts(blame: &Blame) -> String {
    blame
        .changes
        .iter()
        .map(|change| {
            let [from, to] = &change.versions;
            format!("{} {from} -> {to}", change.part)
        })
        .collect::<Vec<_>>()
        .join(" or ")
}
