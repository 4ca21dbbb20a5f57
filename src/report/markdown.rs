//! For a pull request: the verdict on top, failures first, changes next, everything unchanged folded.

use super::{beside, notes, printed, standing, summary, words};
use std::collections::BTreeSet;
use std::fmt::Write;
use verdict::model::{BesideBase, Facet, Judgement, Metric, Outcome, Record, Subject, Verdict};

pub fn render(record: &Record, judgement: &Judgement) -> String {
    let mut out = format!("## gatekeeper: {}\n\n", text(&summary::headline(judgement)));
    if let Some(base) = &judgement.base {
        let compared = format!("Compared with {}.", text(&beside::compared_with(base)));
        line(&mut out, &compared);
        if let Some(effort) = beside::effort(judgement) {
            line(&mut out, &format!("Timed interleaved: {effort}."));
        }
        out.push('\n');
    }
    line(&mut out, &text(&summary::circumstances(record)));

    let loosened = beside::loosened(judgement);
    if !loosened.is_empty() {
        out.push_str("\n### Loosened gates\n\n");
        line(
            &mut out,
            &format!("{}.\n", text(&beside::loosening(judgement, &loosened))),
        );
        out.push_str("| | subject | was asked | now | at |\n|---|---|---|---|---|\n");
        for gate in loosened {
            let outcome = match gate.outcome {
                Outcome::Pass => "allowed".to_owned(),
                outcome => format!("**{outcome}**"),
            };
            let row = format!(
                "| {outcome} | {} | {} | {} | {} |",
                code(&gate.subject.to_string()),
                code(&gate.asked()),
                cell(&gate.now()),
                gate.declared.map_or(String::new(), code),
            );
            line(&mut out, &row);
        }
    }

    let problems = summary::problems(judgement);
    if !problems.is_empty() {
        out.push_str("\n### What did not hold\n\n| | subject | gate | why | alone |\n|---|---|---|---|---|\n");
        for problem in problems {
            let gates = problem.gate_names().into_iter().map(|gate| code(&gate));
            let gates: Vec<_> = gates.collect();
            line(
                &mut out,
                &format!(
                    "| **{}** | {} | {} | {} | {} |",
                    problem.outcome,
                    code(&problem.subjects(record)),
                    gates.join(", "),
                    cell(&problem.sentence(&record.environment)),
                    summary::reproduce_one(record, judgement, &problem)
                        .map_or(String::new(), |command| code(&command)),
                ),
            );
        }
    }

    for printed in printed::printed(judgement) {
        line(&mut out, &format!("\n{}:\n", text(&printed.head)));
        // Indented, as no text can end such a block.
        for shown in &printed.lines {
            line(&mut out, &format!("    | {shown}"));
        }
        if let Some(cut) = &printed.cut {
            line(&mut out, &format!("\n{}", text(cut)));
        }
    }

    if !judgement.accepted.is_empty() {
        out.push_str("\n### Broken, and accepted\n\n");
        for accepted in &judgement.accepted {
            line(
                &mut out,
                &format!(
                    "- {}",
                    text(&standing::accepted(&record.environment, accepted))
                ),
            );
        }
    }

    if let Some(base) = &judgement.base {
        times(&mut out, record, judgement, base);
    }
    let (changed, unchanged): (Vec<_>, Vec<_>) = compared(judgement)
        .into_iter()
        .partition(|verdict| moved(verdict));
    if !changed.is_empty() {
        out.push_str("\n### What changed\n\n");
        comparison(&mut out, &changed);
    }
    if !judgement.counters.is_empty() {
        out.push_str("\n### Counters that changed\n\n");
        counters(&mut out, judgement);
    }
    if !judgement.wins.is_empty() {
        out.push_str("\n### Better than agreed\n\n");
        for win in &judgement.wins {
            line(&mut out, &format!("- {}", text(&summary::win(record, win))));
        }
    }
    if !judgement.drifts.is_empty() {
        out.push_str("\n### Since anchors\n\n");
        for drift in standing::drifts(judgement) {
            line(&mut out, &format!("- {}", text(&drift)));
        }
    }
    let notes = notes::lines(record, judgement);
    let skipped = summary::skipped(record, judgement);
    if !notes.is_empty() || !skipped.is_empty() {
        out.push_str("\n### Not judged, and other notes\n\n");
        for note in skipped.iter().chain(&notes) {
            line(&mut out, &format!("- {}", text(note)));
        }
    }
    folded(&mut out, "All figures", |out| {
        let metrics = |metrics: &[Metric]| {
            metrics
                .iter()
                .map(|metric| metric.name())
                .collect::<Vec<_>>()
        };
        let mut heads = vec!["unit"];
        heads.extend(metrics(&summary::UNIT_METRICS));
        heads.push("verdict");
        figures(out, &heads, summary::units(record, judgement));
        out.push('\n');
        let mut heads = vec!["case"];
        heads.extend(summary::case_heads(record));
        heads.push("verdict");
        figures(out, &heads, summary::cases(record, judgement));
        if let Some(legend) = summary::legend(record) {
            line(out, &format!("\n{legend}"));
        }
    });
    if !unchanged.is_empty() {
        let figures = words::plural(unchanged.len(), "figure");
        folded(&mut out, &format!("{figures} unchanged"), |out| {
            comparison(out, &unchanged)
        });
    }
    out.push('\n');
    line(
        &mut out,
        &format!("<sub>{}</sub>", text(&summary::costs(&record.costs))),
    );
    out
}

/// The two records of a comparison by their names, and what each was made on: the last line of its report.
pub fn sides(base: (&str, &Record), head: (&str, &Record)) -> String {
    let side = |(name, record): (&str, &Record)| {
        let on = text(&summary::circumstances(record));
        format!("{}: {on}", code(name))
    };
    format!("\n<sub>BASE {}<br>HEAD {}</sub>\n", side(base), side(head))
}

/// Head's times beside the base's, and the cases of which there are none.
fn times(out: &mut String, record: &Record, judgement: &Judgement, base: &BesideBase) {
    let rows = beside::compared(judgement);
    let untimed = beside::untimed(record, base);
    if rows.is_empty() && untimed.is_empty() {
        return;
    }
    let title = text(beside::revision(base));
    let _ = write!(out, "\n### Times beside {title}\n\n");
    if !rows.is_empty() {
        out.push_str(
            "| case | metric | base | head | change | within | could see | allowed | verdict |\n",
        );
        out.push_str("|---|---|---:|---:|---:|---|---:|---|---|\n");
        for row in &rows {
            let outcome = match row.outcome {
                Outcome::Pass => row.outcome.to_string(),
                _ => format!("**{}**", row.outcome),
            };
            let row = format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {outcome} |",
                code(&row.subject.to_string()),
                row.metric,
                row.base,
                row.head,
                row.change,
                row.bounds,
                row.visible,
                row.gates,
            );
            line(out, &row);
        }
        if let Some(errors) = beside::errors(record) {
            let _ = write!(out, "\n<sub>{errors}</sub>\n");
        }
    }
    if !rows.is_empty() && !untimed.is_empty() {
        out.push('\n');
    }
    for told in untimed {
        line(out, &format!("- {}", text(&told)));
    }
}

/// One verdict for each figure that has a baseline; the relative gate's where there are several, which
/// knows the interval.
fn compared(judgement: &Judgement) -> Vec<&Verdict> {
    let mut seen: BTreeSet<(&Subject, Metric)> = BTreeSet::new();
    let with = |interval: bool| {
        judgement.verdicts.iter().filter(move |verdict| {
            verdict.baseline.is_some()
                && !beside::is_of_base(judgement, verdict)
                && verdict.change.is_some()
                && !verdict.is_anchored()
                && verdict.interval.is_some() == interval
        })
    };
    let mut found = Vec::new();
    for verdict in with(true).chain(with(false)) {
        if let Some(metric) = verdict.metric()
            && seen.insert((&verdict.subject, metric))
        {
            found.push(verdict);
        }
    }
    found.sort_by_key(|verdict| {
        judgement
            .verdicts
            .iter()
            .position(|other| std::ptr::eq(*verdict, other))
    });
    found
}

/// More than its spread for times, at all for figures that repeat exactly.
fn moved(verdict: &Verdict) -> bool {
    if verdict.outcome == Outcome::Fail {
        return true;
    }
    match (verdict.interval, verdict.change) {
        (Some([low, high]), _) => low.0 * high.0 > 0.0,
        // A time without an interval is compared by no gate, and no claim is made of it.
        (None, Some(change)) => {
            change.0 != 0.0
                && verdict
                    .metric()
                    .is_none_or(|metric| metric.facet() != Facet::Times)
        }
        (None, None) => false,
    }
}

fn comparison(out: &mut String, verdicts: &[&Verdict]) {
    out.push_str(
        "| subject | metric | baseline | head | change | 95 % interval | could see | verdict |\n",
    );
    out.push_str("|---|---|---:|---:|---:|---|---:|---|\n");
    for verdict in verdicts {
        let (Some(metric), Some(baseline), Some(change)) =
            (verdict.metric(), verdict.baseline, verdict.change)
        else {
            continue;
        };
        let measured = verdict
            .measured
            .map_or("-".to_owned(), |value| words::quantity(metric, value.0));
        let interval = verdict.interval.map_or("-".to_owned(), |[low, high]| {
            words::interval(metric, [low.0, high.0])
        });
        let visible = verdict
            .smallest_visible
            .map_or("-".to_owned(), |visible| words::percent(visible.0));
        line(
            out,
            &format!(
                "| {} | {metric} | {} | {measured} | {} | {interval} | {visible} | {} |",
                code(&verdict.subject.to_string()),
                words::quantity(metric, baseline.0),
                words::change(metric, change.0),
                verdict.outcome,
            ),
        );
    }
}

/// A row for each case; in it every counter that changed.
fn counters(out: &mut String, judgement: &Judgement) {
    out.push_str("| case | counter: baseline -> head |\n|---|---|\n");
    let mut rows: Vec<(&Subject, Vec<String>)> = Vec::new();
    for changed in &judgement.counters {
        let metric = Metric::Counter(changed.counter);
        let told = format!(
            "{metric}: {} -> {}, {}",
            words::quantity(metric, changed.baseline.0),
            words::quantity(metric, changed.measured.0),
            words::change(metric, changed.change.0),
        );
        match rows.last_mut() {
            Some((subject, row)) if **subject == changed.subject => row.push(told),
            _ => rows.push((&changed.subject, vec![told])),
        }
    }
    for (subject, row) in rows {
        let row = format!("| {} | {} |", code(&subject.to_string()), row.join("<br>"));
        line(out, &row);
    }
}

fn figures(out: &mut String, heads: &[&str], rows: Vec<summary::Row>) {
    if rows.is_empty() {
        return;
    }
    line(out, &format!("| {} |", heads.join(" | ")));
    line(
        out,
        &format!("|---|{}---|", "---:|".repeat(heads.len().saturating_sub(2))),
    );
    for row in rows {
        line(
            out,
            &format!(
                "| {} | {} | {} |",
                code(&row.name),
                row.cells.join(" | "),
                row.outcome
            ),
        );
    }
}

/// Bytes. A comment on GitHub holds 65,536 characters; what is folded is what can be missed.
const MOST: usize = 60_000;

fn folded(out: &mut String, title: &str, content: impl Fn(&mut String)) {
    let mut inner = String::new();
    content(&mut inner);
    if out.len() + inner.len() > MOST {
        let _ = write!(
            out,
            "\n{title}: too many for a comment; `report.json` has them.\n"
        );
        return;
    }
    // GitHub reads markdown inside <details> only after an empty line.
    let _ = write!(
        out,
        "\n<details><summary>{title}</summary>\n\n{inner}\n</details>\n"
    );
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Text of unknown content where markdown stands, on one line: neither HTML, nor a link or an image, nor the
/// end of a cell.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.trim_end().chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' => out.push_str("\\|"),
            '(' if out.ends_with(']') => out.push_str("\\("),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// In one cell, with its line breaks.
fn cell(raw: &str) -> String {
    raw.trim_end()
        .split('\n')
        .map(text)
        .collect::<Vec<_>>()
        .join("<br>")
}

/// Code stays literal but for the bar, which ends a cell even there, and the backtick, which ends it.
fn code(raw: &str) -> String {
    format!(
        "`{}`",
        raw.replace('`', "'").replace('|', "\\|").replace('\n', " ")
    )
}
