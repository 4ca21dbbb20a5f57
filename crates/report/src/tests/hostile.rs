//! Tests that text from a source, a reason or a name can neither break a report nor command what reads it.

use super::*;
use model::BrokenBaseline;
use records::history::{History, Point, Series, Unreadable, Variant};
use records::repo::Commit;
use serde_json::Value;
use std::collections::BTreeSet;
use system::error::{Diagnostic, Error};
use wording::escape::testing::hostile as texts;

/// Puts hostile text into a compiler's message and a condition, which are the freest texts that a report shows.
fn hostile(record: &Record, at: usize, message: &str, condition: &str) -> Judgement {
    let mut judgement = judged(record);
    let verdict = &mut judgement.verdicts[at];
    verdict.outcome = Outcome::Fail;
    verdict.reason = Reason::Fault(Fault::new(FaultKind::Compile, message));
    verdict.question = Question::Gate(Rule::Condition {
        expr: fixture::expr(condition),
    });
    judgement
}

#[test]
fn markdown_cannot_be_broken_out_of() {
    let record = broken();
    let (message, condition) = ("a | b </details> <script>\nnext", "a >= 50 || b < `50`");
    let judgement = hostile(&record, 0, message, condition);
    let text = rendered(&record, &judgement, markdown::render);
    assert!(
        text.contains(
            "\nWhy: does not compile: a \\| b &lt;/details&gt; &lt;script&gt;. Repeat: `"
        ),
        "{text}"
    );
    assert!(text.contains(" | next |"), "{text}");
    assert!(text.contains("`a >= 50 \\|\\| b < '50'`"), "{text}");
}

/// Text from outside neither clears the screen nor speaks to the CI that shows it.
#[test]
fn a_terminal_takes_no_orders() {
    let record = fixture::record();
    let message = "a\x1b[2J b ##[error]c\n   ::stop-commands::x\n::add-mask::1";
    let judgement = hostile(&record, 0, message, "p50 > 0");
    let text = in_terminal(&record, &judgement);
    assert!(
        text.contains(
            "    does not compile: a\\u{1b}[2J b ## [error]c\n       : :stop-commands::x\n    : :add-mask::1\n"
        ),
        "{text}"
    );
}

/// Neither do texts that a kernel printed, nor names in a table or a command.
#[test]
fn names_and_printed_lines_give_no_orders() {
    let mut record = fixture::record_simulated();
    fixture::resimulate(
        &mut record,
        &fixture::case_id("direct", "small"),
        |_, facts| {
            if let Seen::Got(facts) = facts {
                facts.printed = Some(model::Printed {
                    text: "##[error]k\u{1b}[2J\n".into(),
                    left_out: 0,
                });
            }
        },
    );
    let name = "##[error]k|<b>`\u{1b}";
    let record = renamed(record, name);
    let mut judgement = judged(&record);
    for verdict in &mut judgement.verdicts {
        verdict.outcome = Outcome::Fail;
    }
    let text = in_terminal(&record, &judgement);
    assert!(!text.contains("##[") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("| ## [error]k\\u{1b}[2J"), "{text}");
    let text = rendered(&record, &judgement, markdown::render);
    assert!(
        !text.contains("<b>`") && text.contains("k\\|<b>'"),
        "{text}"
    );
}

#[test]
fn an_annotation_cannot_begin_another() {
    let record = broken();
    let judgement = hostile(&record, 0, "50 %\n::set-output name=x::y", "p50 > 0");
    let text = rendered(&record, &judgement, github::render);
    assert!(
        text.contains("::does not compile: 50 %25%0A::set-output name=x::y%0Agatekeeper run"),
        "{text}"
    );
    assert!(
        text.lines()
            .all(|line| line.starts_with("::error ") || line.starts_with("::warning "))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_reason_can_be_shown(reason in "\\PC{0,300}", gate in "\\PC{0,40}", width in 20..200usize) {
        let record = fixture::record();
        let judgement = hostile(&record, 3, &reason, &gate);
        let text = rendered(&record, &judgement, |input| terminal::render(input, Options { width, ..PLAIN }));
        let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert!(squeezed(&text).contains(&squeezed(&reason)));
        rendered(&record, &judgement, markdown::render);
        prop_assert!(rendered(&record, &judgement, json::render).is_ok());
        prop_assert!(rendered(&record, &judgement, junit::render).is_ok());
    }
}

/// Lists the places of strings in a document, without indices: what is free in one element is free in all.
fn strings(value: &Value, at: &str, found: &mut BTreeSet<(String, String)>) {
    match value {
        Value::String(text) => {
            found.insert((at.to_owned(), text.clone()));
        }
        Value::Array(items) => {
            let at = format!("{at}/*");
            items.iter().for_each(|item| strings(item, &at, found));
        }
        Value::Object(items) => {
            items
                .iter()
                .for_each(|(key, item)| strings(item, &format!("{at}/{key}"), found));
        }
        _ => {}
    }
}

/// The places where a record takes any text: strings, and keys.
#[derive(Default)]
struct Free {
    places: BTreeSet<String>,
    keys: BTreeSet<String>,
}

impl Free {
    /// Finds them by trying, so that a new place is among them.
    fn find(record: &Record) -> Self {
        let whole = serde_json::to_value(record).unwrap();
        let mut all = BTreeSet::new();
        strings(&whole, "", &mut all);
        let is_free = |free: &Self| {
            let mut changed = whole.clone();
            free.poison(&mut changed, "", "x");
            serde_json::from_value::<Record>(changed).is_ok()
        };
        let place = |place: &String| Self {
            places: [place.clone()].into(),
            ..Self::default()
        };
        let key = |key: &String| Self {
            keys: [key.clone()].into(),
            ..Self::default()
        };
        let (places, values): (BTreeSet<_>, BTreeSet<_>) = all.into_iter().unzip();
        Self {
            places: places
                .into_iter()
                .filter(|value| is_free(&place(value)))
                .collect(),
            // Names are keys, too: the names of shapes or backends.
            keys: values
                .into_iter()
                .filter(|value| is_free(&key(value)))
                .collect(),
        }
    }

    /// Appends `text` to each of them, so that names still refer to the same things.
    fn poison(&self, value: &mut Value, at: &str, text: &str) {
        match value {
            Value::String(own) if self.places.contains(at) => own.push_str(text),
            Value::Array(items) => {
                let at = format!("{at}/*");
                items
                    .iter_mut()
                    .for_each(|item| self.poison(item, &at, text));
            }
            Value::Object(items) => {
                for (mut key, mut item) in std::mem::take(items) {
                    self.poison(&mut item, &format!("{at}/{key}"), text);
                    if self.keys.contains(&key) {
                        key.push_str(text);
                    }
                    items.insert(key, item);
                }
            }
            _ => {}
        }
    }

    fn poisoned(&self, record: &Record, text: &str) -> Record {
        let mut whole = serde_json::to_value(record).unwrap();
        self.poison(&mut whole, "", text);
        serde_json::from_value(whole).unwrap()
    }
}

fn history(text: &str) -> History {
    let name = |name: &str| format!("{name}{text}");
    let at = Commit {
        newer: std::cmp::Reverse(0),
        day: "2026-11-22".into(),
        commit: "0a34415".into(),
        subject: name("agreed"),
    };
    let mut subject = fixture::case_id("fast", "small");
    subject.kernel += text;
    subject.shape += text;
    let variant = |variant| Variant {
        kernel: name("k"),
        variant: name(variant),
    };
    let mut key = fixture::baselines().remove(0).key;
    let mut document = serde_json::to_value(&key).unwrap();
    if let Some(compiler) = document.as_object_mut().unwrap().get_mut("compiler")
        && compiler.is_string()
    {
        *compiler = name("13.0").into();
    }
    key = serde_json::from_value(document).unwrap();
    let point = |value| Point {
        at: at.clone(),
        value: Some(Num(value)),
    };
    History {
        series: vec![Series {
            subject: Subject::Case(subject),
            metric: Metric::P50,
            key,
            points: vec![point(1.0), point(2.0)],
        }],
        renamed: vec![records::history::Renamed {
            at: at.clone(),
            from: variant("a"),
            to: variant("b"),
        }],
        unreadable: vec![Unreadable {
            at: at.clone(),
            broken: BrokenBaseline {
                path: name("baselines/k/fast/times.json"),
                kernel: name("k"),
                variant: name("fast"),
                facet: None,
                problem: name("it is cut short"),
            },
        }],
        shallow_since: Some(at),
    }
}

fn gives_no_orders(shown: &str, what: &str) {
    for line in shown.lines() {
        assert!(!line.trim_start().starts_with("::"), "{what}: {line:?}");
        assert!(!line.contains("##["), "{what}: {line:?}");
        is_visible(line, what);
    }
}

/// Checks that a line neither controls a terminal nor reads in another order than it is.
fn is_visible(line: &str, what: &str) {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_plain = |c: char| c == '\t' || !(c.is_control() || turns(c));
    assert!(line.chars().all(is_plain), "{what}: {line:?}");
}

/// Returns the part of GitHub's markdown that is neither in a code span nor in a block of code.
fn prose(shown: &str) -> String {
    let mut in_block = false;
    let mut kept = String::new();
    for line in shown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            kept.push_str(&outside_of_code(line));
            kept.push('\n');
        }
    }
    kept
}

/// Removes code spans from a line. A span ends at the next run of as many backticks as it began with, and without such
/// a run there is no span.
fn outside_of_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let after = from.trim_start_matches('`');
        let ticks = &from[..from.len() - after.len()];
        let mut runs = after.match_indices(ticks);
        let end = runs.find(|(at, _)| {
            let is_begun = after[..*at].ends_with('`');
            !is_begun && !after[at + ticks.len()..].starts_with('`')
        });
        rest = match end {
            Some((at, _)) => &after[at + ticks.len()..],
            None => after,
        };
    }
    kept + rest
}

fn is_markdown_of_ours(shown: &str, what: &str) {
    gives_no_orders(shown, what);
    let prose = prose(shown);
    for foreign in ["<img", "<script", " @octocat", "\n# ", "\n~~~", "- ~~~"] {
        assert!(!prose.contains(foreign), "{what}: {foreign:?} in {shown}");
    }
    let tags = |tag: &str| prose.matches(tag).count();
    assert_eq!(tags("<details>"), tags("</details>"), "{what}: {shown}");
    assert_eq!(tags("<sub>"), tags("</sub>"), "{what}: {shown}");
}

fn explained(record: &Record) -> Vec<explain::Explanation> {
    record
        .plan
        .cases
        .iter()
        .map(|case| {
            let sides =
                ::explain::Sides::from_index(&Index::against(Some(record), record), &case.id);
            explain::Explanation {
                wrong: None,
                subject: Subject::Case(case.id.clone()),
                causes: sides
                    .map(|sides| ::explain::explain(&sides))
                    .unwrap_or_default(),
                gaps: vec![format!("machine code: {}", case.id)],
                measured: None,
            }
        })
        .collect()
}

/// Returns a change whose files and lines others wrote.
fn measured_change(text: &str) -> ::explain::MeasuredChange {
    let lines = ::explain::LineRange { first: 3, count: 2 };
    let effect = ::explain::PartEffect {
        added_to_base: Num(1.0),
        taken_from_head: Num(2.0),
        error: Num(0.1),
    };
    ::explain::MeasuredChange {
        metrics: vec![::explain::MeasuredMetric {
            metric: Metric::P50,
            base: Num(10.0),
            head: Num(20.0),
        }],
        parts: vec![::explain::MeasuredPart {
            pieces: vec![::explain::ChangePiece::Lines(::explain::ChangedLines {
                file: format!("k{text}.cu"),
                base: lines,
                head: lines,
                text: text.to_owned(),
            })],
            effects: vec![effect],
        }],
        pairs: Vec::new(),
    }
}

/// Returns units as kernels of two compiled files, whose line tables and symbols others wrote.
fn kernels(record: &Record, text: &str) -> explain::KernelExplanations {
    let place = explain::CausePlace {
        of: explain::PlaceSide::Base,
        line: model::CodeLine {
            file: format!("k{text}.cu"),
            number: 3,
        },
        text: Some(text.to_owned()),
    };
    let cause = explain::Cause::new(explain::CauseClass::Spills, 1.0)
        .at([place.clone(), place])
        .with(explain::Measure::Calls(format!("f{text}")), 1, 2);
    let explained = record.plan.units.iter().map(|unit| explain::Explanation {
        wrong: None,
        subject: Subject::Unit(unit.id.clone()),
        causes: vec![cause.clone()],
        gaps: vec![format!("machine code: {text}")],
        measured: None,
    });
    explain::KernelExplanations::Explained {
        kernels: explained.collect(),
        more: 3,
    }
}

/// Renders a record and a history in every format for people and programs, with hostile text in every place that takes
/// any.
fn every_format(record: &Record, text: &str) {
    let judgement = judged(record);
    let sides = || (("base", record), (text, record));
    let index = Index::new(record);
    let ladders = ladder::ladders(index.head(), &judgement);
    let groups = || ladder::lay_out(index.head(), &judgement, &ladders);
    let history = history(text);

    gives_no_orders(&in_terminal(record, &judgement), "terminal");
    let (base, head) = sides();
    gives_no_orders(&terminal::sides(base, head), "sides");
    gives_no_orders(&terminal::render_groups(&groups(), PLAIN), "ladder");
    let told = crate::history::lay_out(&history);
    gives_no_orders(&terminal::render_groups(&told, PLAIN), "history");
    let change = measured_change(text);
    let parts = || vec![vec![crate::measured::section(&change)]];
    gives_no_orders(&terminal::render_groups(&parts(), PLAIN), "measured");
    is_markdown_of_ours(&markdown::render_sections(&parts()), "measured");
    let mistake = Diagnostic::new(format!("wrong{text}"))
        .at(format!("gates{text}.yaml"))
        .key(format!("kernels.{text}"))
        .help(format!("try{text}"));
    let mistake = format!("error: {}", Error::Usage(mistake));
    gives_no_orders(&escape::lines(&mistake), "error");

    is_markdown_of_ours(&rendered(record, &judgement, markdown::render), "markdown");
    let (base, head) = sides();
    is_markdown_of_ours(&markdown::sides(base, head), "sides");
    is_markdown_of_ours(&markdown::render_groups(ladder::TITLE, &groups()), "ladder");
    let told = crate::history::lay_out(&history);
    is_markdown_of_ours(&markdown::render_groups("history", &told), "history");

    for line in rendered(record, &judgement, github::render)
        .split('\n')
        .filter(|line| !line.is_empty())
    {
        let kinds = ["::error ", "::warning ", "::notice "];
        assert!(kinds.iter().any(|kind| line.starts_with(kind)), "{line:?}");
        assert!(!line.contains("##["), "{line:?}");
        is_visible(line, "github");
    }
    let bounds = || ::explain::diagnosis::changes::all(&index);
    let groups = diagnosis::lay_out(&bounds());
    gives_no_orders(&terminal::render_groups(&groups, PLAIN), "diagnosis");
    is_markdown_of_ours(
        &markdown::render_groups(diagnosis::TITLE, &groups),
        "diagnosis",
    );
    let explained = explained(record);
    gives_no_orders(&explain::terminal(&explained), "explain");
    is_markdown_of_ours(&explain::markdown(&explained), "explain");
    let kernels = kernels(record, text);
    gives_no_orders(&explain::terminal_of_kernels(&kernels), "kernels");
    is_markdown_of_ours(&explain::markdown_of_kernels(&kernels), "kernels");

    let two = Index::against(Some(record), record);
    let input = ReportInput {
        base: Some(record),
        history: Some(&history),
        kernels: Some(&kernels),
        ..ReportInput::new(&two, record, &judgement)
    };
    let page = html::render(&input);
    gives_no_orders(&page, "html");
    html::tests::is_ours(&page);
    let page = html::history::render(&history);
    gives_no_orders(&page, "html of the history");
    html::tests::is_ours(&page);

    let models = models::name([ReportInput::new(&index, record, &judgement); 2].into_iter());
    assert_ne!(models[0].dir, models[1].dir);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    assert!(models.iter().all(|model| model.dir.chars().all(is_plain)));
    let groups = models::lay_out(&models);
    gives_no_orders(&terminal::render_groups(&groups, PLAIN), "models");
    gives_no_orders(&escape::lines(&models::title(&models)), "models");
    let title = models::title(&models);
    is_markdown_of_ours(&markdown::render_groups(&title, &groups), "models");
    let page = html::render_models(&models);
    gives_no_orders(&page, "models");
    html::tests::is_ours(&page);

    let junit = rendered(record, &judgement, junit::render).unwrap();
    assert!(!junit.contains("##["), "{junit}");
    junit.lines().for_each(|line| is_visible(line, "junit"));
    // This reader knows no entity by its number.
    let junit = junit.replace("&#35;", "#");
    quick_junit::Report::deserialize_from_str(&junit).unwrap();
    let documents = [
        rendered(record, &judgement, json::render),
        ladder::json(index.head(), &ladders),
        crate::history::json(&history),
        diagnosis::json(bounds()),
        explain::json(&explained),
        models::json(&models),
        rendered(record, &judgement, sarif::render),
    ];
    for document in documents {
        let document = document.unwrap();
        gives_no_orders(&document, "json");
        serde_json::from_str::<Value>(&document).unwrap();
    }
    // A reader of SARIF shows its messages as they are.
    let sarif: Value =
        serde_json::from_str(&rendered(record, &judgement, sarif::render).unwrap()).unwrap();
    let mut all = BTreeSet::new();
    strings(&sarif, "", &mut all);
    let messages = all.iter().filter(|(at, _)| at.ends_with("/message/text"));
    for line in messages.flat_map(|(_, text)| text.split('\n')) {
        is_visible(line, "sarif");
    }
}

#[test]
fn no_text_in_any_place_gives_orders_in_any_format() {
    let mut simulated = fixture::record_simulated();
    let at = fixture::case_id("direct", "small");
    fixture::resimulate(&mut simulated, &at, |_, facts| {
        if let Seen::Got(facts) = facts {
            facts.printed = Some(model::Printed {
                text: "x".into(),
                left_out: 0,
            });
        }
    });
    let mut skipping = fixture::record_beside_rival();
    fixture::rerival(&mut skipping, |_, seen| {
        *seen = Seen::Fault(Fault::new(FaultKind::Rival, "torch: failed"));
    });
    let mut accepted = fixture::record_against_base();
    fixture::rebuild(&mut accepted, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129
    });
    let most = fixture::at_most(Metric::Registers, 130.0);
    accepted.policy.accepted = vec![accepted_registers(most)];
    let records = [
        broken(),
        with_targets(fixture::record()),
        simulated,
        fixture::record_without_gpu(),
        fixture::record_beside_rival(),
        skipping,
        accepted,
    ]
    .map(|record| {
        let free = Free::find(&record);
        assert!(free.places.len() > 20, "{:?}", free.places);
        assert!(free.keys.contains("small"), "{:?}", free.keys);
        (record, free)
    });
    let config = ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let done = runner.run(&texts(), |text| {
        for (record, free) in &records {
            every_format(&free.poisoned(record, &text), &text);
        }
        Ok(())
    });
    done.unwrap();
}

/// The change breaks everything, each thing in its own way.
#[test]
fn reports_of_thousands_of_failures_fit_the_limits_of_github() {
    let record = fixture::record();
    let mut judgement = judged(&record);
    let failing = hostile(&record, 0, "0", "p50 > 0").verdicts[0].clone();
    for number in 0..3000 {
        let mut verdict = failing.clone();
        verdict.reason = Reason::Fault(Fault::new(
            FaultKind::Compile,
            format!("error number {number} of this change"),
        ));
        judgement.verdicts.push(verdict);
    }
    let text = rendered(&record, &judgement, markdown::render);
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains("error number 0 of"), "failures first");
    assert!(text.contains(" lines more: too many for a comment; the JSON report has them."));

    let annotations = rendered(&record, &judgement, github::render);
    assert_eq!(annotations.lines().count(), 10);
    let last = annotations.lines().last().unwrap();
    assert!(
        last.starts_with("::error title=gatekeeper::and ") && last.contains(" more: "),
        "{last}"
    );
    assert_eq!(
        annotations
            .lines()
            .take_while(|line| line.starts_with("::error "))
            .count(),
        10,
        "the worst first"
    );
}
