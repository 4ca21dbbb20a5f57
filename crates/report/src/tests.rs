mod against_base;
mod cases;
mod comment;
mod exchange;
mod hostile;

use super::fields::fields;
use super::terminal::{Options, Verbosity};
use super::*;
use judge::fixture;
use judge::{Index, compare, judge};
use model::{
    Acceptance, Allowance, Bound, Conclusion, Evidence, Fault, FaultKind, Judgement, Loosening,
    Metric, Num, Op, Outcome, Place, Question, Reason, Record, Rule, Seen, SourceLine, Subject,
    Target, Verdict, Worst,
};
use proptest::prelude::*;
use wording::{escape, reasons, words};

pub(crate) const PLAIN: Options = Options {
    color: false,
    width: 100,
    verbosity: Verbosity::Normal,
};

const VERBOSE: Options = Options {
    verbosity: Verbosity::Verbose,
    ..PLAIN
};

fn rendered<T>(
    record: &Record,
    judgement: &Judgement,
    render: impl FnOnce(&ReportInput) -> T,
) -> T {
    let index = Index::new(record);
    let judgement = if is_grouped(judgement) {
        judgement
    } else {
        // A test changed its verdicts.
        &fixture::regroup(record, judgement)
    };
    render(&ReportInput::new(&index, record, judgement))
}

fn is_grouped(judgement: &Judgement) -> bool {
    let blocking = [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive];
    judgement
        .verdicts
        .iter()
        .enumerate()
        .filter(|(_, it)| blocking.contains(&it.outcome))
        .all(|(at, _)| {
            judgement
                .problems
                .iter()
                .any(|problem| problem.verdicts.contains(&at) || problem.follows.contains(&at))
        })
}

pub fn judged(record: &Record) -> Judgement {
    judge(record)
}

/// Returns a record that is slower by 3 %, faster by 10 %, and has a NaN, a register too many, and a launch that
/// faults.
pub fn broken() -> Record {
    let mut record = fixture::record();
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 82_400);
    fixture::slow(&mut record, &fixture::case_id("fast", "large"), 72_000);
    fixture::recheck(
        &mut record,
        &fixture::case_id("direct", "large"),
        |seed, facts| {
            if seed == 2 {
                facts.error.non_finite = 12;
                facts.error.worst = facts.error.worst.take().map(|worst| {
                    Box::new(Worst {
                        got: Num(f64::NAN),
                        ..*worst
                    })
                });
            }
        },
    );
    fixture::rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129
    });
    for piece in &mut record.evidence {
        if let Evidence::Check { case, facts, .. } = piece
            && *case == fixture::case_id("direct", "small")
        {
            *facts = Seen::Fault(Fault::new(
                FaultKind::DeviceFault,
                "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered\nat launch 1 | seed 1 <b>",
            ));
        }
    }
    record
}

/// All fields of these two JSON reports are pinned. For the others, only fields that are not in every report are.
const ALL_FIELDS: [&str; 2] = ["fail", "base"];

/// Checks that the JSON contains the judgement and the record, and each verdict with its words. The rest of a report is
/// made from these.
fn check_json(json: &serde_json::Value, record: &Record, judgement: &Judgement) {
    let parts = serde_json::to_value(judgement).unwrap();
    for (key, value) in parts.as_object().unwrap() {
        assert!(holds(&json[key], value), "{key}");
    }
    let environment = serde_json::to_value(&record.environment).unwrap();
    let costs = serde_json::to_value(record.costs).unwrap();
    assert_eq!(
        (&json["environment"], &json["costs"]),
        (&environment, &costs)
    );
    let exit = crate::exit::Exit::from(judgement.conclusion) as u8;
    assert_eq!(json["exit_code"], exit);
    let index = Index::new(record);
    let input = ReportInput::new(&index, record, judgement);
    assert_eq!(json["headline"], summary::headline(&input));
    for outcome in Outcome::ALL {
        assert_eq!(json["counts"][outcome.name()], judgement.count(outcome));
    }
    assert_eq!(
        json["skipped"],
        serde_json::json!(not_judged::skipped(record, judgement))
    );
    let verdicts = judgement.verdicts.iter().map(|verdict| {
        let message = reasons::verdict(&record.environment, verdict);
        (
            words::question(&verdict.question),
            &verdict.reason,
            verdict.metric(),
            message,
        )
    });
    let of_rule = |subject: &Subject, rule, reason| {
        let message = reasons::reason(&record.environment, subject, reason);
        (words::gate(rule), reason, rule.metric(), message)
    };
    let accepted = judgement.accepted.iter();
    let targets = judgement.targets.iter();
    for (list, entries) in [
        ("verdicts", verdicts.collect::<Vec<_>>()),
        (
            "accepted",
            accepted
                .map(|accepted| of_rule(&accepted.subject, &accepted.rule, &accepted.reason))
                .collect(),
        ),
        (
            "targets",
            targets
                .map(|target| of_rule(&target.subject, &target.rule, &target.reason))
                .collect(),
        ),
    ] {
        let written = json[list].as_array().unwrap();
        assert_eq!(written.len(), entries.len());
        for (written, (gate, reason, metric, message)) in written.iter().zip(entries) {
            assert_eq!(written["gate"], gate);
            assert_eq!(written["code"], reason.code());
            assert_eq!(written["metric"].as_str(), metric.map(Metric::name));
            assert_eq!(written["message"], message);
        }
    }
}

/// Removes what is in every report.
fn outline(mut json: serde_json::Value) -> serde_json::Value {
    let fields = json.as_object_mut().unwrap();
    for alike in ["schema", "environment", "costs", "counts", "verdicts"] {
        assert!(fields.remove(alike).is_some());
    }
    fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    json
}

/// Checks that there is a test for each verdict, in their order, with the element of its outcome and its sentence, and
/// that each problem breaks one test. Returns the lines of those that did not simply pass, each once with its count.
fn junit_outline(xml: &str, record: &Record, judgement: &Judgement) -> String {
    let mut verdicts = judgement.verdicts.iter();
    // A message may have several lines.
    let mut in_tag = false;
    let one_line = |c| {
        in_tag = c == '<' || in_tag && c != '>';
        if in_tag && c == '\n' { '¶' } else { c }
    };
    let xml: String = xml.chars().map(one_line).collect();
    let mut outlined: Vec<(&str, usize)> = Vec::new();
    let mut broken = 0;
    let mut lines = xml.lines().map(str::trim).peekable();
    let attribute = |line: &str, name: &str| {
        let (_, value) = line.split_once(&format!(" {name}=\"")).unwrap();
        let (value, _) = value.split_once('"').unwrap();
        quick_xml::escape::unescape(value).unwrap().into_owned()
    };
    while let Some(line) = lines.next() {
        if line.starts_with("<testcase ") {
            if attribute(line, "name").contains(", problem ") {
                broken += 1;
                continue;
            }
            let verdict = verdicts.next().unwrap();
            let (subject, question) = (&verdict.subject, words::question(&verdict.question));
            assert_eq!(attribute(line, "name"), format!("{subject}: {question}"));
            let class = format!("{}.{}", subject.kernel(), subject.variant());
            assert_eq!(attribute(line, "classname"), class);
            if verdict.outcome == Outcome::Pass {
                continue;
            }
            let next = lines.peek().unwrap();
            let sentence = reasons::verdict(&record.environment, verdict).replace('\n', "¶");
            let said = attribute(next, "message");
            let is_blocking = matches!(
                verdict.outcome,
                Outcome::Fail | Outcome::Environment | Outcome::Inconclusive
            );
            if next.starts_with("<skipped ") && is_blocking {
                assert!(said.starts_with("the same problem as ") && said.ends_with(&sentence));
            } else if next.starts_with("<skipped ") {
                assert_eq!(said, sentence);
            } else {
                let element = match verdict.outcome {
                    Outcome::Fail => "<failure ",
                    _ => "<error ",
                };
                assert!(is_blocking && next.starts_with(element), "{next}");
                broken += 1;
            }
        } else if line != "</testcase>" {
            match outlined.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => outlined.push((line, 1)),
            }
        }
    }
    assert!(verdicts.next().is_none());
    assert_eq!(broken, judgement.problems.len());
    outlined
        .into_iter()
        .map(|(line, count)| match count {
            1 => line.to_owned(),
            count => format!("{count} x {line}"),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the lines that are not in the report of `fixture::record`, and counts the others.
fn news(name: &str, text: &str, render: impl FnOnce(&ReportInput) -> String) -> String {
    if name == "pass" {
        return text.to_owned();
    }
    let ordinary = fixture::with_tails(fixture::record());
    let ordinary = rendered(&ordinary, &judged(&ordinary), render);
    let known: std::collections::BTreeSet<&str> = ordinary.lines().chain([""]).collect();
    let lines: Vec<&str> = text.lines().collect();
    let runs = lines.chunk_by(|a, b| known.contains(a) == known.contains(b));
    let runs = runs.map(|run| match run {
        [first, ..] if known.contains(first) && run.len() > 1 => format!("({} lines)", run.len()),
        _ => run.join("\n"),
    });
    runs.collect::<Vec<_>>().join("\n")
}

/// Returns true if the JSON contains `part`. An object may have more fields.
fn holds(json: &serde_json::Value, part: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Object};
    match (json, part) {
        (Object(json), Object(part)) => part
            .iter()
            .all(|(key, value)| json.get(key).is_some_and(|json| holds(json, value))),
        (Array(json), Array(part)) => {
            json.len() == part.len() && json.iter().zip(part).all(|(json, part)| holds(json, part))
        }
        _ => json == part,
    }
}

fn in_terminal(record: &Record, judgement: &Judgement) -> String {
    rendered(record, judgement, to_terminal)
}

fn to_terminal(input: &ReportInput) -> String {
    terminal::render(input, PLAIN)
}

fn everywhere(name: &str, record: &Record) {
    let record = &fixture::with_tails(record.clone());
    let judgement = judged(record);
    for verdict in &judgement.verdicts {
        let code = verdict.reason.code();
        let documented = Reason::codes()
            .find(|documented| documented.code == code)
            .unwrap();
        let documented = documented.outcomes.contains(&verdict.outcome);
        assert!(documented, "{code} can be {}", verdict.outcome);
    }
    let terminal = news(name, &in_terminal(record, &judgement), to_terminal);
    let markdown = rendered(record, &judgement, markdown::render);
    let markdown = news(name, &markdown, markdown::render);
    let json = rendered(record, &judgement, json::render).unwrap();
    let json = serde_json::from_str(&json).unwrap();
    check_json(&json, record, &judgement);
    let json = if ALL_FIELDS.contains(&name) {
        json
    } else {
        outline(json)
    };
    let junit = rendered(record, &judgement, junit::render).unwrap();
    let junit = match name {
        "pass" => junit,
        _ => junit_outline(&junit, record, &judgement),
    };
    let formats = [
        ("terminal", terminal),
        ("markdown", markdown),
        ("json", fields(&json)),
        ("junit", junit),
        ("github", rendered(record, &judgement, github::render)),
    ];
    let formats = formats.map(|(format, text)| format!("== {format}\n{}\n", text.trim_end()));
    insta::assert_snapshot!(name, formats.concat());
}

fn with_targets(mut record: Record) -> Record {
    let relative = |factor| Bound::Expr(fixture::expr(&format!("{factor} * direct.p50")));
    let target = |shape, bound, because: Option<&str>| Target {
        subject: fixture::case("fast", shape),
        metric: Metric::P50,
        op: Op::Le,
        bound,
        because: because.map(str::to_owned),
        declared: "gates.yaml:9".into(),
    };
    record.policy.targets = vec![
        target("small", relative("0.90"), None),
        target(
            "large",
            relative("0.75"),
            Some("it is bound by issue slots, not by bandwidth"),
        ),
        target("large", Bound::Value(Num(79_000.0)), None),
    ];
    record
}

#[test]
fn costs_count_the_results_of_earlier_runs_and_name_the_oldest_day() {
    let mut record = fixture::record();
    let case = record.plan.cases[0].id.clone();
    let reused = |seed, since: &str| Evidence::Reused {
        case: case.clone(),
        arch: None,
        seed,
        since: since.to_owned(),
    };
    let said = "results of earlier runs";
    assert!(!summary::costs(&record).contains(said));
    record.evidence.push(reused(1, "2026-11-22T09:00:00Z"));
    let of_base = reused(1, "2026-11-20T23:00:00Z");
    record.evidence.push(Evidence::Base(Box::new(of_base)));
    let costs = summary::costs(&record);
    let expected =
        "(2 results of earlier runs, the oldest of 2026-11-20; `--fresh` simulates all), ";
    assert!(costs.contains(expected), "{costs}");
}

fn accepted_registers(instead: Rule) -> Acceptance {
    Acceptance {
        case: "k/direct".into(),
        subjects: vec![fixture::unit("direct")],
        left_out: false,
        allows: Allowance::Limit(instead),
        reason: "one load more in flight: 100%, of <N>".into(),
        by: "jane@example.org".into(),
        until: "2027-01-31".into(),
        declared: "baselines/accepted.yaml:3".into(),
    }
}

#[test]
fn prints_colour_only_if_asked() {
    let record = broken();
    let judgement = judged(&record);
    let plain = in_terminal(&record, &judgement);
    let colored = rendered(&record, &judgement, |input| {
        terminal::render(
            input,
            Options {
                color: true,
                ..PLAIN
            },
        )
    });
    assert!(!plain.contains('\x1b') && colored.contains("\x1b[1;31mFAIL\x1b[0m"));
    let mut stripped = colored;
    for code in [
        "\x1b[1;31m",
        "\x1b[1;32m",
        "\x1b[1;33m",
        "\x1b[1m",
        "\x1b[0m",
    ] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn a_command_is_never_broken() {
    let record = broken();
    for width in 60..110 {
        let text = rendered(&record, &judged(&record), |input| {
            terminal::render(input, Options { width, ..PLAIN })
        });
        assert!(
            text.contains("`gatekeeper baseline update 'k/fast@large'`"),
            "{text}"
        );
    }
}

/// Returns the same run under other names.
pub fn renamed(record: Record, kernel: &str) -> Record {
    let name = serde_json::to_string(kernel).unwrap();
    let text = serde_json::to_string(&record).unwrap();
    let text = text.replace("\"kernel\":\"k\"", &format!("\"kernel\":{name}"));
    serde_json::from_str(&text).unwrap()
}

/// Names are there to be copied: with long ones a table is wider than it should be.
#[test]
fn a_table_fits_a_hundred_columns_and_breaks_no_name() {
    for kernel in ["sdpa_fp8_warp_specialized_persistent", "k"] {
        for record in [
            fixture::record(),
            broken(),
            fixture::record_without_gpu(),
            fixture::record_simulated(),
        ] {
            let record = renamed(record, kernel);
            let text = rendered(&record, &judged(&record), |input| {
                terminal::render(input, VERBOSE)
            });
            let mut rows = 0;
            for line in text.lines() {
                // A command is also kept in one line.
                let copied = line.starts_with("    $ gatekeeper run") || kernel.len() > 30;
                assert!(line.chars().count() <= 100 || copied, "{line}");
                rows += usize::from(
                    line.starts_with(&format!("{kernel}/fast@large "))
                        || line.starts_with(&format!("{kernel}/fast [sm_90] ")),
                );
            }
            assert_eq!(rows, 1 + usize::from(text.contains("\ncase ")), "{text}");
        }
    }
}

#[test]
fn markdown_of_many_cases_still_fits_a_comment() {
    let record = fixture::record();
    let mut judgement = judged(&record);
    let compared: Vec<_> = judgement.verdicts.clone();
    for copy in 0..200 {
        judgement
            .verdicts
            .extend(compared.iter().cloned().map(|mut verdict| {
                if let Subject::Case(case) = &mut verdict.subject {
                    case.shape = format!("shape_{copy}");
                }
                verdict
            }));
    }
    let text = rendered(&record, &judgement, markdown::render);
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(
        text.contains("unchanged: too many for a comment; the JSON report has them."),
        "{text}"
    );
    assert!(text.contains("<summary>All values</summary>"));
}

/// Changes within their limits are one click away where nothing failed, and there are many of them.
#[test]
fn folds_many_changes_if_nothing_failed() {
    let record = fixture::record();
    let mut judgement = judged(&record);
    let is_compared =
        |verdict: &&Verdict| verdict.metric() == Some(Metric::P50) && verdict.interval.is_some();
    let mut moved = judgement.verdicts.iter().find(is_compared).unwrap().clone();
    moved.change = Some(Num(0.01));
    moved.interval = Some([Num(0.005), Num(0.015)]);
    for copy in 0..20 {
        moved.subject = fixture::case("fast", &format!("shape_{copy}"));
        judgement.verdicts.push(moved.clone());
    }
    let (open, folded) = ("### Changes", "<summary>Changes</summary>");
    let text = rendered(&record, &judgement, markdown::render);
    assert!(text.contains(folded) && !text.contains(open), "{text}");
    judgement.conclusion = Conclusion::Fail;
    let text = rendered(&record, &judgement, markdown::render);
    assert!(text.contains(open) && !text.contains(folded), "{text}");
}
