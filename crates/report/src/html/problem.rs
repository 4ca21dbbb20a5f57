//! Renders a problem on a page: its lines of source, why, the values that got worse, and what follows from it.

use super::part::{self, Shared};
use crate::problems::{Block, Frame, ValueRow};
use crate::section::Table;
use maud::{Markup, html};
use model::{Outcome, SinceBase};
use wording::words;

/// The number of sentences and values that are not folded.
const MOST_SENTENCES: usize = 3;
const MOST_ROWS: usize = 8;
/// The number of sentences in a fold.
const MOST_FOLDED: usize = 20;
/// The number of letters of names in a heading.
const MOST_NAMES: usize = 90;

/// Renders problems. Those that the base has, too, are folded, unless there are no others.
pub fn problems(all: &[Block], shared: &Shared) -> Markup {
    let (old, new): (Vec<&Block>, Vec<&Block>) = all.iter().partition(|block| block.is_old());
    let gates: usize = old.iter().map(|block| block.gate_count()).sum();
    html! {
        (part::blocks(&new, shared, |block| problem(block, shared)))
        @if !old.is_empty() {
            details.fold open[new.is_empty()] {
                summary {
                    (words::plural(old.len(), "problem")) " that the base has, too ("
                    (words::plural(gates, "gate")) ")"
                }
                (part::blocks(&old, shared, |block| problem(block, shared)))
            }
        }
    }
}

fn problem(block: &Block, shared: &Shared) -> Markup {
    let problem = block.problem;
    let first = block.why.len() - block.why_beyond_frame().len();
    let last = if block.rows.is_empty() {
        block.why.len().min(first + MOST_SENTENCES)
    } else {
        first
    };
    let is_open = |at: &usize| (first..last).contains(at);
    let (open, folded): (Vec<usize>, Vec<usize>) = (0..block.why.len()).partition(is_open);
    let sentences = |all: &[usize]| {
        let all = all.iter().filter_map(|at| block.why.get(*at));
        html! { @for why in all { p.why { (part::prose(why)) } } }
    };
    let more = match folded.iter().filter(|at| **at >= first).count() {
        alike @ 1.. if block.rows.is_empty() => format!("{alike} more alike"),
        _ => "In words".to_owned(),
    };
    let beyond = folded.len().saturating_sub(MOST_FOLDED);
    let folded: Vec<usize> = folded.into_iter().take(MOST_FOLDED).collect();
    // The subjects can be counted: `137 cases (k/fast@small, ...)`.
    let counted = match block.subjects.split_once(" (") {
        Some((count, _)) if block.subjects.len() > MOST_NAMES => Some(count),
        _ => None,
    };
    html! {
        article.problem.(problem.outcome.name()) {
            h3 {
                @if problem.outcome != Outcome::Fail { (part::outcome(problem.outcome)) " " }
                @match counted {
                    Some(count) => (count),
                    None => (part::names(&block.subjects, shared.links)),
                }
                " "
                span.title { (part::prose(&block.title)) }
                @match problem.since_base {
                    Some(SinceBase::New) => { " " span.badge.fail { "new" } },
                    Some(SinceBase::Old) => { " " span.badge { "as at the base" } },
                    None => {},
                }
                " " span.code { "[" (problem.code) "]" }
            }
            (frame(&block.frame))
            (sentences(&open))
            (rows(&block.rows, shared))
            @if let Some(cause) = &block.cause { p.why { "cause: " (part::prose(cause)) } }
            @if let Some(declared) = &block.declared { p.muted { "by " (declared) } }
            @if !folded.is_empty() {
                details.fold {
                    summary { (more) }
                    (sentences(&folded))
                    (part::cut(beyond, "of these"))
                }
            }
            @if counted.is_some() {
                details.fold { summary { "Cases" } p { (part::names(&block.subjects, shared.links)) } }
            }
            @if !block.follows.is_empty() {
                details.fold {
                    summary { (words::plural(problem.follows.len(), "gate")) " likely broken by this, too" }
                    ul { @for gate in &block.follows { li { (part::prose(gate)) } } }
                }
            }
            @if let Some(command) = &block.command { (part::command(command)) }
        }
    }
}

/// Renders lines of source with their numbers, and who does what there.
fn frame(frame: &Frame) -> Markup {
    let mut file = None;
    let lines: Vec<Markup> = frame
        .lines
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let is_new = file.replace(&line.file) != Some(&line.file);
            html! {
                @if is_new { div.file { (line.file) } }
                div.line {
                    span.at { (line.number) }
                    code { (line.text.as_deref().unwrap_or("(not readable)")) }
                    span.note { (line.note) }
                }
                @if let Some((after, between)) = frame.between && at == after {
                    div.between { (between) }
                }
            }
        })
        .collect();
    html! { @if !lines.is_empty() { div.frame { @for line in &lines { (line) } } } }
}

/// Renders the worst values. The others are one click away.
fn rows(all: &[ValueRow], shared: &Shared) -> Markup {
    let (worst, rest) = all.split_at(all.len().min(MOST_ROWS));
    let bounded = Shared::unbounded(shared.links);
    let table = |rows: &[ValueRow]| part::table(&Table::from_rows(rows), &bounded);
    html! {
        @if !worst.is_empty() { (table(worst)) }
        @if !rest.is_empty() {
            details.fold { summary { (words::plural(rest.len(), "more value")) } (table(rest)) }
        }
    }
}
