//! One page for a browser, whole in itself: no script, style, font or image from elsewhere. Without scripts all of it
//! can be read; with them it can be sorted and filtered. Pure.
//!
//! Whatever is put into a page is escaped by `maud`, and the whole page goes through `escape::html` at its end.

mod case;
mod chart;
mod part;
pub mod site;
mod svg;
#[cfg(test)]
pub mod tests;

use super::models::{self, Model};
use super::page;
use super::section::Section;
use super::{ladder, summary};
use crate::input::ReportInput;
use case::Cases;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::Conclusion;
use part::Shared;
use std::cell::Cell;
use wording::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// SHA-256 of these two, as the page's own policy has them: a browser runs no other script and takes no other style,
/// wherever it came from. A test says what they are.
const STYLE_HASH: &str = "fJO8kqjUNoHPXn8S52dC8tbrluBxqc/HBP8wT/zG/Zw=";
const SCRIPT_HASH: &str = "Y8/4v9Tl3tWpPolZLStH8TgEkSrNXmVR9SFLMoFHZ4w=";

/// Bytes of a page, which in all come to less than 5 MB: a phone still opens that.
#[derive(Clone, Copy)]
struct Room {
    sections: usize,
    cases: usize,
}

const ROOM: Room = Room {
    sections: 1_800_000,
    cases: 3_000_000,
};

pub fn render(input: &ReportInput) -> String {
    render_within(input, ROOM)
}

fn render_within(input: &ReportInput, room: Room) -> String {
    let page = page::lay_out(input);
    let cases = Cases::new(input);
    let shared = Shared {
        links: cases.links(),
        room: Cell::new(room.sections),
    };
    let sections = page.sections.iter().enumerate();
    let sections = sections.map(|(at, section)| (format!("section-{}", at + 1), section));
    let (folded, open): (Vec<Placed>, Vec<Placed>) = sections
        .filter(|(_, section)| part::is_shown(section))
        .partition(|(_, section)| section.is_folded);
    let ladders = ladder::ladders(input.index.head(), input.judgement);
    let title = format!("{} - gatekeeper", page.headline);
    let body = html! {
        header.(conclusion(page.conclusion)) {
            h1 { (page.headline) }
            p { (page.circumstances) }
            @if let Some(base) = input.base {
                p { "compared with " (summary::circumstances(base)) }
            }
            nav {
                @for (id, section) in &open { a href=(format!("#{id}")) { (section.title) } }
                @if !input.record.plan.cases.is_empty() { a href="#cases" { "Cases" } }
                @for (id, section) in &folded { a href=(format!("#{id}")) { (section.title) } }
            }
        }
        main {
            @for (id, section) in &open { (part::section(section, Some(id), &shared)) }
            (cases.render(&ladders, room.cases))
            @for (id, section) in &folded { (part::section(section, Some(id), &shared)) }
        }
        footer { (page.costs) }
    };
    document(&title, &body)
}

/// Sections that belong to no record.
pub fn render_groups(title: &str, groups: &[Vec<Section>]) -> String {
    let shared = Shared::unbounded();
    let sections = groups.iter().flatten();
    let shown = sections.filter(|section| part::is_shown(section));
    let body = html! {
        header { h1 { (title) } }
        main { @for section in shown { (part::section(section, None, &shared)) } }
    };
    document(&format!("{title} - gatekeeper"), &body)
}

/// Several GPU models side by side, each with a link to its own page.
pub fn render_models(models: &[Model]) -> String {
    let title = models::title(models);
    let shared = Shared {
        links: part::Links::new(),
        room: Cell::new(ROOM.sections),
    };
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

/// A section and where it is.
type Placed<'a> = (String, &'a Section<'a>);

fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Pass => "pass",
        Conclusion::Fail => "fail",
        Conclusion::Environment => "environment",
        Conclusion::Inconclusive | Conclusion::NothingJudged => "inconclusive",
    }
}

/// A whole page.
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
