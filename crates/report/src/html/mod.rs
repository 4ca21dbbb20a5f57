//! Renders one page for a browser that needs nothing else: no script, style, font or image from other files. Everything
//! can be read without scripts. Scripts only sort and filter. Pure.
//!
//! All text in a page is escaped by `maud`, and the whole page goes through `escape::html` at its end.

mod case;
mod chart;
pub mod history;
mod ladder;
mod part;
mod problem;
mod svg;
#[cfg(test)]
pub mod tests;

use super::models::{self, Model};
use super::page;
use super::section::{Section, SectionPart};
use super::summary;
use crate::input::ReportInput;
use case::Cases;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::{Conclusion, Record};
use part::{Links, Shared};
use wording::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The SHA-256 of the style and the script, which the page's own policy states: a browser runs no other script and
/// applies no other style, wherever it came from. A test prints the hashes.
const STYLE_HASH: &str = "E4CmmIy921z7YYsi+TCXySm3XcJow5DPyETQSXmEZV4=";
const SCRIPT_HASH: &str = "G4U62FdCtQqq7LSRxlpxDzon66VDz0BnxJJAA9cDM6A=";

/// Room on a page, in bytes. A run of some hundred cases stays below 300 KB; rows of more cases come on top of it.
#[derive(Clone, Copy)]
struct Room {
    /// The whole page, without its frame.
    whole: usize,
    /// The part for problems, which are on the first screen.
    problems: usize,
    blocks: case::Room,
    rows: usize,
    /// The part that is kept for the sections after the ladders.
    notes: usize,
}

const ROOM: Room = Room {
    whole: 270_000,
    problems: 70_000,
    blocks: case::Room {
        failed: 70_000,
        others: 60_000,
    },
    rows: 3_000_000,
    notes: 30_000,
};

/// The number of ladders that the navigation names.
const MOST_LINKS: usize = 16;

pub fn render(input: &ReportInput) -> String {
    render_within(input, ROOM)
}

fn render_within(input: &ReportInput, room: Room) -> String {
    let page = page::lay_out(input);
    let view = input.index.head();
    let cases = Cases::new(input);
    let blocks = cases.blocks(room.blocks);
    let links = cases.links(&blocks);
    let (first, rest): (Vec<Placed>, Vec<Placed>) = page
        .sections
        .iter()
        .enumerate()
        .map(|(at, section)| (format!("section-{}", at + 1), section))
        .filter(|(_, section)| part::is_shown(section))
        .partition(|(_, section)| comes_first(section));
    let (notes, tables): (Vec<Placed>, Vec<Placed>) =
        rest.into_iter().partition(|(_, section)| is_short(section));

    let shared = Shared::within(&links, room.problems);
    let first_sections: Vec<Markup> = first
        .iter()
        .map(|(id, section)| part::section(section, Some(id), &shared))
        .collect();
    let rows = cases.render(&blocks, &links, room.rows);
    let taken: usize = first_sections.iter().map(|section| section.0.len()).sum();
    let left = room.whole.saturating_sub(taken + rows.0.len());
    let ladders = super::ladder::ladders(view, input.judgement);
    let placed = ladder::place(view, &ladders, left.saturating_sub(room.notes));
    let drawn = ladder::render(view, &ladders, &placed);
    let left = left.saturating_sub(drawn.0.len()).max(room.notes);
    let shared = Shared::within(&links, left);
    let body = html! {
        header.(conclusion(page.conclusion)) {
            h1 { (page.headline) }
            @if let Some(checkout) = checkout(input.record) { p { (checkout) } }
            p { (page.circumstances) }
            @if let Some(base) = input.base {
                p { "compared with " (summary::circumstances(base)) }
            }
            nav {
                @for (id, section) in &first { a href=(format!("#{id}")) { (section.title) } }
                @if !input.record.plan.cases.is_empty() { a href="#cases" { "Cases" } }
                @for (id, section) in notes.iter().chain(&tables) {
                    a href=(format!("#{id}")) { (section.title) }
                }
                @if placed.len() > MOST_LINKS { a href="#ladders" { "Ladders" } }
            }
            @if (1..=MOST_LINKS).contains(&placed.len()) {
                nav {
                    span.muted { "Ladders: " }
                    @for ladder in &placed { a href=(format!("#{}", ladder.id)) { (ladder.ladder.name) } }
                }
            }
        }
        main {
            @for section in &first_sections { (section) }
            (rows)
            (drawn)
            @for (id, section) in &notes { (part::section(section, Some(id), &shared)) }
            @for (id, section) in &tables { (part::folded(section, id, &shared)) }
        }
        footer {
            p { (page.costs) }
            p { "All verdicts and values: report.json. All samples: record.json." }
        }
    };
    document(&title(&page.headline, input.record), &body)
}

/// Returns the title of the page: `FAIL: 1 problem ... - owner/kernels main 0a34415aaaaa - gatekeeper`.
fn title(headline: &str, record: &Record) -> String {
    let checkout = record.environment.checkout.as_ref();
    let named = [
        checkout.and_then(|checkout| checkout.repository.as_deref()),
        checkout.and_then(|checkout| checkout.branch.as_deref()),
        record.environment.commit.as_deref(),
    ];
    let named = named.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if named.is_empty() {
        format!("{headline} - gatekeeper")
    } else {
        format!("{headline} - {named} - gatekeeper")
    }
}

/// Returns the repository and branch if the run knew them: `owner/kernels, branch main`.
fn checkout(record: &Record) -> Option<String> {
    let checkout = record.environment.checkout.as_ref()?;
    let branch = checkout.branch.as_ref();
    let branch = branch.map(|branch| format!("branch {branch}"));
    let parts = [checkout.repository.clone(), branch];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns true for sections before the table of cases.
fn comes_first(section: &Section) -> bool {
    let is_urgent = |part: &SectionPart| {
        matches!(
            part,
            SectionPart::Problems(_) | SectionPart::Loosened(..) | SectionPart::Printed(_)
        )
    };
    section.parts.iter().any(is_urgent)
}

/// Returns true for a section of a few lines, which nobody needs to unfold.
fn is_short(section: &Section) -> bool {
    const MOST: usize = 8;
    let is_short = |part: &SectionPart| match part {
        SectionPart::Lines(lines) => lines.len() <= MOST,
        part => part.is_empty(),
    };
    section.parts.iter().all(is_short)
}

/// Renders sections that belong to no record.
pub fn render_groups(title: &str, groups: &[Vec<Section>]) -> String {
    let links = Links::new();
    let shared = Shared::unbounded(&links);
    let shown = groups
        .iter()
        .flatten()
        .filter(|section| part::is_shown(section));
    let body = html! {
        header { h1 { (title) } }
        main { @for section in shown { (part::section(section, None, &shared)) } }
    };
    document(&format!("{title} - gatekeeper"), &body)
}

/// Renders several GPU models side by side, each with a link to its own page.
pub fn render_models(models: &[Model]) -> String {
    let title = models::title(models);
    let links = Links::new();
    let shared = Shared::within(&links, 2_000_000);
    let body = html! {
        header.(conclusion(models::conclusion(models))) {
            h1 { (title) }
            nav {
                @for model in models { a href=(format!("{}/report.html", model.dir)) { (model.name) } }
            }
        }
        main {
            @for section in models::lay_out(models).iter().flatten() {
                (part::section(section, None, &shared))
            }
        }
    };
    document(&format!("{title} - gatekeeper"), &body)
}

/// The anchor of a section, and the section.
type Placed<'a> = (String, &'a Section<'a>);

fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Pass => "pass",
        Conclusion::Fail => "fail",
        Conclusion::Environment => "environment",
        Conclusion::Inconclusive | Conclusion::NothingJudged => "inconclusive",
    }
}

/// Renders a whole page with its frame.
fn document(title: &str, body: &Markup) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; script-src 'sha256-{SCRIPT_HASH}'; \
         base-uri 'none'; form-action 'none'"
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    escape::html(&page.into_string())
}
