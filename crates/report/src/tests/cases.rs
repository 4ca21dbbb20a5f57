//! Runs the scripts under `tests/cases`. [`script`] explains their form.
//!
//! `show FORMAT` prints a report. Lines that the report of the passing run also has are only counted. `show terminal
//! WIDTH` sets the width, and `show json KEY` prints a part of the report. `count TEXT` prints how often each format
//! has a text, with single blanks. `comment` prints the visible part of the comment on a pull request, and its size;
//! `sarif` a line for each result; `ladder` the ladders; and `title` the title of the page. `everywhere NAME` compares
//! all formats with the snapshot of that name.
//!
//! `base` makes the record so far the base of a comparison, `on_base` runs the record against itself with other code,
//! and `tails` gives it as many single launches as tails need.

use super::*;
use judge::fixture::script::{self, Answer, Cases, Script, text};
use std::path::Path;

struct Questions {
    script: Script,
    base: Option<Record>,
}

#[test]
fn case_files_print_what_they_expect() {
    script::hold::<Questions>(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"));
}

impl Cases for Questions {
    fn new() -> Self {
        let script = Script::new(|name| {
            Some(match name {
                "broken" => broken(),
                "targets" => with_targets(fixture::record()),
                "changed" => against_base::against_base(),
                other => return script::named(other),
            })
        });
        Self { script, base: None }
    }

    fn script(&mut self) -> &mut Script {
        &mut self.script
    }

    fn answer(&mut self, command: &str, rest: &str) -> Option<Answer> {
        let record = &mut self.script.head;
        Some(Ok(match command {
            "start" => {
                self.base = None;
                return None;
            }
            "base" => {
                let head = self.script.start.clone();
                self.base = Some(std::mem::replace(record, head));
                Vec::new()
            }
            "tails" => {
                *record = fixture::with_tails(record.clone());
                Vec::new()
            }
            "on_base" => {
                *record = comment::with_base(record.clone());
                Vec::new()
            }
            "everywhere" => {
                everywhere(rest, record);
                Vec::new()
            }
            "show" => return Some(self.shown(rest).map(|text| vec![text])),
            "count" => vec![self.counted(rest)],
            "title" => {
                let page = self.render("html").unwrap();
                let (_, title) = page.split_once("<title>").unwrap();
                vec![title.split_once("</title>").unwrap().0.to_owned()]
            }
            "comment" => {
                let (open, whole) = comment::comment(record);
                vec![open, format!("({} KiB)", whole.len().div_ceil(1024))]
            }
            "sarif" => exchange::results_as_lines(record),
            "ladder" => {
                let judgement = judged(record);
                let index = Index::new(record);
                let ladders = ladder::ladders(index.head(), &judgement);
                let groups = ladder::lay_out(index.head(), &judgement, &ladders);
                vec![match rest {
                    "markdown" => markdown::render_groups(ladder::TITLE, &groups),
                    "json" => {
                        let json = ladder::json(index.head(), &ladders).unwrap();
                        text(&serde_json::from_str(&json).unwrap())
                    }
                    _ => terminal::render_groups(&groups, PLAIN),
                }]
            }
            _ => return None,
        }))
    }
}

const FORMATS: [&str; 6] = ["terminal", "markdown", "github", "junit", "json", "html"];

impl Questions {
    fn shown(&self, format: &str) -> Result<String, String> {
        if let Some(key) = format.strip_prefix("json ") {
            let json: serde_json::Value = serde_json::from_str(&self.render("json")?).unwrap();
            return Ok(text(&json[key]));
        }
        let shown = self.render(format)?;
        Ok(news(format, &shown, |input| render(input, format).unwrap()))
    }

    fn counted(&self, text: &str) -> String {
        let counts = FORMATS.map(|format| {
            let shown = self.render(format).unwrap();
            let words: Vec<&str> = shown.split_whitespace().collect();
            let shown = words.join(" ").replace("&gt;", ">").replace("&lt;", "<");
            let shown = shown.replace("&apos;", "'").replace("%25", "%");
            format!("{format} {}", shown.matches(text).count())
        });
        counts.join(", ")
    }

    fn render(&self, format: &str) -> Result<String, String> {
        let head = &self.script.head;
        let judgement = match &self.base {
            Some(base) => compare(base, head, Loosening::Fails),
            None => judged(head),
        };
        rendered(head, &judgement, |input| render(input, format))
    }
}

fn render(input: &ReportInput, format: &str) -> Result<String, String> {
    if let Some(width) = format.strip_prefix("terminal ") {
        let width = width.parse().map_err(|_| "no width")?;
        return Ok(terminal::render(input, Options { width, ..PLAIN }));
    }
    Ok(match format {
        "terminal" => terminal::render(input, PLAIN),
        "verbose" => terminal::render(input, VERBOSE),
        "markdown" => markdown::render(input),
        "github" => github::render(input),
        "junit" => junit::render(input).unwrap(),
        "json" => json::render(input).unwrap(),
        "html" => html::render(input),
        other => return Err(format!("no format is called {other}")),
    })
}
