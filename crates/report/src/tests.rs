mod against_base;
mod comment;
mod exchange;
mod hostile;

use super::fields::fields;
use super::terminal::{Options, Verbosity};
use super::*;
use judge::fixture;
use judge::{Index, compare, judge};
use model::{
    Acceptance, Allowance, Bound, Conclusion, Evidence, Fallback, Fault, FaultKind, GateName,
    Judgement, Loosening, Metric, NotRun, Num, Op, OtherProcess, Outcome, Place, Question, Reason,
    Record, Rule, Seen, SourceLine, Subject, Target, Verdict, Worst,
};
use proptest::prelude::*;
use wording::{escape, reasons, words};

const PLAIN: Options = Options {
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
        // Its verdicts were changed by a test.
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

/// Slower by 3 %, faster by 10 %, NaN, a register too many, and a launch that faults.
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
                facts.error.worst = facts.error.worst.take().map(|worst| Worst {
                    got: Num(f64::NAN),
                    ..worst
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

/// All fields of these two JSON reports are pinned, of the others those that are not in every report.
const ALL_FIELDS: [&str; 2] = ["fail", "base"];

/// That the JSON holds the judgement and the record, each verdict with its words. The rest of a report is made from
/// these.
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

/// Without what is in every report.
fn outline(mut json: serde_json::Value) -> serde_json::Value {
    let fields = json.as_object_mut().unwrap();
    for alike in ["schema", "environment", "costs", "counts", "verdicts"] {
        assert!(fields.remove(alike).is_some());
    }
    fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    json
}

/// A test for each verdict, in their order, with the element of its outcome and its sentence; and the lines of those
/// that did not simply pass: each once, with how often it is there.
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
    let mut lines = xml.lines().map(str::trim).peekable();
    let attribute = |line: &str, name: &str| {
        let (_, value) = line.split_once(&format!(" {name}=\"")).unwrap();
        let (value, _) = value.split_once('"').unwrap();
        quick_xml::escape::unescape(value).unwrap().into_owned()
    };
    while let Some(line) = lines.next() {
        if line.starts_with("<testcase ") {
            let verdict = verdicts.next().unwrap();
            let (subject, question) = (&verdict.subject, words::question(&verdict.question));
            assert_eq!(attribute(line, "name"), format!("{subject}: {question}"));
            let class = format!("{}.{}", subject.kernel(), subject.variant());
            assert_eq!(attribute(line, "classname"), class);
            let element = match verdict.outcome {
                Outcome::Pass => continue,
                Outcome::Fail => "<failure ",
                Outcome::Environment | Outcome::Inconclusive => "<error ",
                Outcome::Skipped | Outcome::Unsupported => "<skipped ",
                Outcome::Replaced | Outcome::Expected => "<skipped ",
            };
            let next = lines.peek().unwrap();
            assert!(next.starts_with(element), "{next}");
            let sentence = reasons::verdict(&record.environment, verdict);
            assert_eq!(attribute(next, "message"), sentence.replace('\n', "¶"));
        } else if line != "</testcase>" {
            match outlined.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => outlined.push((line, 1)),
            }
        }
    }
    assert!(verdicts.next().is_none());
    outlined
        .into_iter()
        .map(|(line, count)| match count {
            1 => line.to_owned(),
            count => format!("{count} x {line}"),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Lines that the report of `fixture::record` has as well are counted, and not repeated.
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

/// All of it; an object may have more fields.
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

#[test]
fn a_run_that_passes() {
    everywhere("pass", &fixture::record());
}

#[test]
fn a_run_that_fails() {
    everywhere("fail", &broken());
}

#[test]
fn a_variant_that_falls_back_on_another() {
    let mut record = fixture::record();
    record.plan.fallbacks.push(Fallback {
        kernel: "k".into(),
        variant: "fast".into(),
        to: "direct".into(),
        declared: "gates.yaml:9".into(),
    });
    record.policy.allow_fallback = true;
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 82_400);
    everywhere("fallback", &record);
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
fn targets_that_are_met_and_missed() {
    everywhere("targets", &with_targets(fixture::record()));
}

#[test]
fn targets_without_a_gpu() {
    everywhere(
        "targets-no-gpu",
        &with_targets(fixture::record_without_gpu()),
    );
}

#[test]
fn a_variant_that_fails_as_expected() {
    let by = [GateName::Metric(Metric::MaxErr), GateName::Deterministic];
    let mut record = fixture::record_kept_to_fail(&by);
    for shape in fixture::SHAPES {
        let id = fixture::case_id("fast", shape);
        fixture::recheck(&mut record, &id, |_, facts| {
            facts.error.max_err = Num(0.3);
        });
    }
    everywhere("expected", &record);
}

#[test]
fn a_variant_that_is_expected_to_fail_and_does_not() {
    let record = fixture::record_kept_to_fail(&[GateName::Metric(Metric::MaxErr)]);
    everywhere("unexpected", &record);
}

#[test]
fn a_run_without_a_gpu() {
    everywhere("no-gpu", &fixture::record_without_gpu());
}

#[test]
fn a_run_in_the_simulator() {
    let mut record = fixture::record_simulated();
    let (finding, skipped) = (
        fixture::case_id("direct", "small"),
        fixture::case_id("fast", "large"),
    );
    fixture::resimulate(&mut record, &finding, |seed, facts| {
        if let Seen::Got(facts) = facts {
            facts.not_judged = vec!["races in global memory".into()];
            facts.printed = Some(model::Printed {
                text: "thread 3: \u{1b}[31mx = 0.5\n::error::not a command\n```\n".into(),
                left_out: 12,
            });
            *facts
                .counters
                .entry(model::Counter::SharedLoadWavefronts)
                .or_default() += seed;
            facts.findings.push(model::Finding {
                entry: None,
                kind: model::FindingKind::SharedRace,
                message: "race on shared memory 0x40: this read and the write at k.cu:9 are not ordered at k.cu:11, \
                          block [0, 0, 0], thread [32, 0, 0]"
                    .into(),
                places: [11, 9].map(race_at).into(),
                accesses: Vec::new(),
                block: [0; 3],
                thread: [32, 0, 0],
                address: Some(0x40),
                times: 3,
            });
        }
    });
    let over_budget = NotRun::OverBudget {
        estimate: 7_000_000,
        budget: 1_000_000,
    };
    for piece in &mut record.evidence {
        match piece {
            Evidence::Check { case, facts, .. } if *case == skipped => {
                *facts = Seen::NotRun(over_budget.clone());
            }
            Evidence::Simulation { case, facts, .. } if *case == skipped => {
                *facts = Seen::NotRun(over_budget.clone());
            }
            _ => {}
        }
    }
    for baseline in &mut record.policy.baselines {
        if baseline.variant == skipped.variant {
            baseline.cases.remove(&skipped.shape);
        }
    }
    everywhere("simulated", &record);
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

/// One of two backends is skipped, and a gate rests on each.
#[test]
fn a_run_beside_a_rival() {
    let mut record = fixture::record_beside_rival();
    for piece in &mut record.evidence {
        if let Evidence::Rival {
            task,
            facts: Seen::Got(facts),
            ..
        } = piece
            && task.shape == "large"
        {
            let flash = facts.backends["flash"].clone();
            facts.backends.insert("math".into(), flash);
        }
    }
    for (variant, bound) in [
        ("fast", "torch.flash.p50"),
        ("direct", "torch.flash.p50"),
        ("fast", "torch.math.p50"),
    ] {
        let rule = Rule::Limit {
            metric: Metric::P50,
            limit: model::Limit::Absolute {
                op: model::Op::Le,
                bound: model::Bound::Expr(fixture::expr(bound)),
            },
        };
        let gate = fixture::gate(fixture::case(variant, "small"), rule);
        record.policy.gates.push(gate);
    }
    everywhere("rivals", &record);
}

#[test]
fn rivals_that_did_not_run_are_named_once_for_each_reason() {
    let mut record = fixture::record_beside_rival();
    fixture::rerival(&mut record, |_, seen| {
        *seen = Seen::Fault(Fault::new(
            FaultKind::Rival,
            "torch: failed (exit code 1): \u{1b}[31mno",
        ));
    });
    let judgement = judged(&record);
    let text = in_terminal(&record, &judgement);
    let line = "rivals   torch flash and math: not compared with 4 cases of k: the rival broke: torch: failed (exit";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let mut without = fixture::record_without_gpu();
    without.plan.rivals = vec![fixture::rival()];
    let judgement = judged(&without);
    let text = in_terminal(&without, &judgement);
    let line = "rivals   torch flash and math: not compared with 4 cases of k: ";
    assert!(text.contains(line), "{text}");
}

/// One line for all kernels, no table, and nothing where there is no GPU to time them on.
#[test]
fn rivals_that_were_not_requested_are_one_note() {
    let mut record = fixture::record();
    let [ours, other, elsewhere] = [("k", "torch"), ("k", "jax"), ("other", "torch")].map(|of| {
        let (kernel, name) = (of.0.to_owned(), of.1.to_owned());
        model::Rival {
            kernel,
            name,
            requested: false,
            ..fixture::rival()
        }
    });
    record.plan.rivals = vec![ours, other, elsewhere];
    let judgement = judged(&record);
    let text = in_terminal(&record, &judgement);
    let note =
        "rivals   torch and jax: not timed for k and other; `gatekeeper run --rivals` does it";
    assert_eq!(text.matches("not timed").count(), 1, "{text}");
    assert!(text.contains(note), "{text}");
    assert!(!text.contains("rival's p50"), "{text}");
    let mut without = fixture::record_without_gpu();
    without.plan.rivals = record.plan.rivals;
    let judgement = judged(&without);
    assert!(!in_terminal(&without, &judgement).contains("torch"));
}

fn race_at(number: u32) -> Place {
    Place {
        at: format!("k.cu:{number}"),
        line: Some(SourceLine {
            file: "k.cu".into(),
            number,
            text: Some(format!("shared[{number}] = x;")),
        }),
    }
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

/// One gate broken and accepted, one acceptance that has run out.
#[test]
fn a_run_with_acceptances() {
    let mut record = fixture::record_against_base();
    fixture::rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 100
    });
    record.policy.accepted = vec![
        accepted_registers(fixture::within(Metric::Registers, 0.05)),
        Acceptance {
            until: "2026-11-20".into(),
            declared: "baselines/accepted.yaml:9".into(),
            ..accepted_registers(fixture::at_most(Metric::Registers, 130.0))
        },
    ];
    record.environment.config = "gpu/gates.yaml".into();
    everywhere("accepted", &record);
}

/// Beyond an anchor's limit, within it, and away from the best level without a gate.
#[test]
fn a_run_with_anchors() {
    use model::{Anchor, Limit, Metric, Rule, Since};
    let mut record = fixture::record();
    let mut baselines = fixture::baselines();
    for agreed in baselines
        .iter_mut()
        .flat_map(|baseline| baseline.cases.values_mut())
        .filter_map(|metrics| metrics.get_mut(&Metric::P50))
    {
        agreed.value = Num(agreed.value.0 * 0.95);
    }
    let anchor = |since, found: &str| Anchor {
        since,
        found: found.into(),
        baselines: baselines.clone(),
        broken_baselines: Vec::new(),
    };
    record.policy.anchors = vec![
        anchor(Since::Revision("v1.0".into()), "0a34415aaaaa"),
        anchor(Since::Best, "12 versions"),
    ];
    for (shape, change) in [("small", 0.02), ("large", 0.08)] {
        let limit = Limit::Anchor {
            anchor: Since::Revision("v1.0".into()),
            change: model::Margin::Share(Num(change)),
        };
        let metric = Metric::P50;
        let subject = fixture::case("fast", shape);
        let gate = fixture::gate(subject, Rule::Limit { metric, limit });
        record.policy.gates.push(gate);
    }
    everywhere("anchors", &record);
}

#[test]
fn two_records_compared() {
    let head = fixture::with_tails(broken());
    let base = fixture::with_tails(fixture::record());
    let judgement = compare(&base, &head, Loosening::Fails);
    let text = rendered(&head, &judgement, markdown::render);
    insta::assert_snapshot!("compare-markdown", news("compare", &text, markdown::render));
}

/// A kernel that is slower is that in each of its times and at each of its shapes.
#[test]
fn one_cause_is_one_block() {
    let mut record = fixture::record();
    record.policy.baselines = judge::acceptable(&record, "seal").0;
    for (shape, ns) in [("small", 96_000), ("large", 104_000)] {
        fixture::slow(&mut record, &fixture::case_id("fast", shape), ns);
        let subject = fixture::case("fast", shape);
        let cycles = fixture::within(Metric::Cycles, 0.02);
        record.policy.gates.push(fixture::gate(subject, cycles));
    }
    let judgement = judged(&record);
    let failed = judgement.count(Outcome::Fail);
    rendered(&record, &judgement, |input| {
        let slower = problems::blocks(input);
        let [slower] = slower.as_slice() else {
            panic!("{} blocks", slower.len())
        };
        assert_eq!(slower.subjects, "k/fast@small, @large");
        assert_eq!(slower.gates, ["p50 +2%", "cycles +2%"]);
        assert_eq!(slower.title, "p50 30.0 % slower, and 3 more values");
        assert_eq!((slower.rows.len(), slower.why.len(), failed), (4, 4, 4));
        let first = &slower.why[0];
        assert!(first.starts_with("k/fast@small: p50 "), "{first}");
    });
    // Another variant is another cause.
    fixture::slow(&mut record, &fixture::case_id("direct", "small"), 200_000);
    let judgement = judged(&record);
    let count = rendered(&record, &judgement, |input| problems::blocks(input).len());
    assert_eq!(count, 2);
}

#[test]
fn slower_reads_as_slower_in_every_format() {
    let mut record = fixture::record();
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 96_000);
    let judgement = judged(&record);
    let texts = [
        in_terminal(&record, &judgement),
        rendered(&record, &judgement, markdown::render),
        rendered(&record, &judgement, json::render).unwrap(),
        rendered(&record, &judgement, junit::render).unwrap(),
        rendered(&record, &judgement, github::render).replace("%25", "%"),
    ];
    for text in texts {
        let text = text.replace("&gt;", ">");
        assert!(text.contains("p50 80 us -> 96 us, +20.0 %"), "{text}");
        assert!(
            !text.contains("20.0 % faster") && !text.contains("better   k/fast@small"),
            "{text}"
        );
    }
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 64_000);
    let text = in_terminal(&record, &judged(&record));
    assert!(
        text.contains("better   k/fast@small p50: 80 us -> 64 us, 20.0 % faster"),
        "{text}"
    );
    assert!(!text.contains("+20.0 %"), "{text}");
}

/// One case of four; the others have four launches each, without further notes.
#[test]
fn two_modes_read_as_two_modes() {
    let mut record = fixture::record();
    let case = fixture::case_id("fast", "small");
    fixture::retime(&mut record, &case, |process, facts| {
        let launch = |at: u64| {
            if at * 37 % 100 < 30 {
                123_008 + at % 5 * 32
            } else {
                82_016 + (at + u64::from(process)) % 5 * 32
            }
        };
        facts.single_ns = (0..100).map(launch).collect();
    });
    let judgement = judged(&record);
    let json: serde_json::Value =
        serde_json::from_str(&rendered(&record, &judgement, json::render).unwrap()).unwrap();
    let texts = [
        news("modes", &in_terminal(&record, &judgement), to_terminal),
        news(
            "modes",
            &rendered(&record, &judgement, markdown::render),
            markdown::render,
        ),
        json["notes"].to_string(),
    ];
    insta::assert_snapshot!("modes", texts.join("\n==\n"));
}

#[test]
fn others_on_the_gpu_are_named() {
    let mut record = fixture::record();
    for piece in &mut record.evidence {
        if let Evidence::Time {
            process: 0,
            facts: Seen::Got(facts),
            ..
        } = piece
        {
            facts.gpu.other_processes = Some(vec![OtherProcess {
                pid: Some(4711),
                name: Some("python3".into()),
            }]);
        }
    }
    let judgement = judged(&record);
    let says =
        "k/fast@small: others computed on the GPU during 1 timing process: python3 (pid 4711)";
    for text in [
        in_terminal(&record, &judgement),
        rendered(&record, &judgement, markdown::render),
    ] {
        assert!(text.contains(says), "{text}");
    }
    let json = rendered(&record, &judgement, json::render).unwrap();
    assert!(json.contains("\"pid\": 4711"), "{json}");
}

#[test]
fn failures_come_first_with_their_command() {
    let record = broken();
    let text = in_terminal(&record, &judged(&record));
    let blocks: Vec<&str> = text.split("\n\n").skip(1).collect();
    let heads: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block.lines().next())
        .collect();
    // Faults, then wrong values, then costs.
    let titles = [
        "kernel faulted",
        "finite",
        "agrees with driver",
        "registers",
        "p50",
    ];
    for (head, title) in heads.iter().zip(titles) {
        assert!(head.starts_with("✗ ") && head.contains(title), "{text}");
    }
    assert!(
        blocks[0].ends_with("\n    $ gatekeeper run 'k/direct@small'"),
        "{text}"
    );
    assert!(
        text.trim_end()
            .lines()
            .last()
            .unwrap()
            .starts_with("FAIL: "),
        "{text}"
    );
}

/// As where a source does not compile, or a reference: once, and not once for each case.
#[test]
fn reports_a_failure_shared_by_many_subjects_once() {
    let mut record = fixture::record();
    for piece in &mut record.evidence {
        if let Evidence::Check { facts, .. } = piece {
            *facts = Seen::Fault(Fault::new(
                FaultKind::Reference,
                "k_ref.c:7:21: error: expected ';'\n    7 |     int  i\n      |           ^",
            ));
        }
    }
    // Another kernel asks for the same at another line.
    for gate in &mut record.policy.gates {
        if gate.declared.is_some() && gate.subject.variant() == "fast" {
            gate.declared = Some("gates.yaml:19".into());
        }
    }
    let judgement = judged(&record);
    let terminal = in_terminal(&record, &judgement);
    let first = terminal.split("\n\n").nth(1).unwrap();
    insta::assert_snapshot!(first, @r"
✗ all 4 cases  no reference                                                           [no-reference]
    no reference: k_ref.c:7:21: error: expected ';'
        7 |     int  i
          |           ^
    by gates.yaml:19, gates.yaml:7
    likely consequences: 20 more gates
    $ gatekeeper run 'k/direct@small'
");
    for text in [
        terminal,
        rendered(&record, &judgement, markdown::render),
        rendered(&record, &judgement, github::render),
    ] {
        assert_eq!(text.matches("k_ref.c:7:21").count(), 1, "{text}");
        assert_eq!(text.matches("gatekeeper run 'k/").count(), 1, "{text}");
    }
    // A program that reads them has every one.
    let junit = rendered(&record, &judgement, junit::render).unwrap();
    assert!(junit.matches("k_ref.c:7:21").count() > 8, "{junit}");
}

#[test]
fn baselines_that_are_gone_are_a_line_for_each_variant() {
    let mut record = fixture::record();
    record.plan.cases.retain(|case| case.id.variant != "fast");
    record.plan.units.retain(|unit| unit.id.variant != "fast");
    let gates = &mut record.policy.gates;
    gates.retain(|gate| gate.subject.variant() != "fast");
    let text = rendered(&record, &judged(&record), |input| {
        terminal::render(input, VERBOSE)
    });
    let (_, gone) = text.split_once("note     ").unwrap();
    let (gone, _) = gone.split_once("\nskipped  ").unwrap();
    insta::assert_snapshot!(gone, @r"
gone: baselines/k/fast has values that gates.yaml has no case for: @* (resources), @large
         (correctness, times), @small (correctness, times)
");
}

#[test]
fn a_fault_that_breaks_many_gates_is_reported_once() {
    let record = broken();
    let judgement = judged(&record);
    assert!(judgement.count(Outcome::Fail) > 8);
    for text in [
        in_terminal(&record, &judgement),
        rendered(&record, &judgement, markdown::render),
        rendered(&record, &judgement, github::render),
    ] {
        assert_eq!(
            text.matches("an illegal memory access was encountered")
                .count(),
            1,
            "{text}"
        );
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

/// The same run under other names.
fn renamed(record: Record, kernel: &str) -> Record {
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
                // So is a command.
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

#[test]
fn commands_name_the_gates_file_and_only_existing_subjects() {
    let mut head = broken();
    head.environment.config = "ci/gates.yaml".into();
    let gone = Subject::Case(fixture::case_id("fast", "small"));
    head.plan
        .cases
        .retain(|case| Subject::Case(case.id.clone()) != gone);
    head.policy.gates.retain(|gate| gate.subject != gone);
    let judgement = compare(&fixture::record(), &head, Loosening::Fails);
    let terminal = in_terminal(&head, &judgement);
    let gone = terminal.matches("removed: head has no k/fast@small");
    assert_eq!(
        gone.count(),
        1,
        "once, and not once for each gate: {terminal}"
    );
    for text in [
        terminal,
        rendered(&head, &judgement, markdown::render),
        rendered(&head, &judgement, junit::render)
            .unwrap()
            .replace("&apos;", "'"),
        rendered(&head, &judgement, github::render),
    ] {
        assert!(
            text.contains("gatekeeper run --config 'ci/gates.yaml' 'k/direct@large'"),
            "{text}"
        );
        assert!(text.contains("removed: head has no k/fast@small"), "{text}");
        assert!(
            !text.contains("gatekeeper run --config 'ci/gates.yaml' 'k/fast@small'"),
            "{text}"
        );
        assert!(!text.contains("gatekeeper run 'k"), "{text}");
    }
    assert!(
        rendered(&head, &judgement, github::render).contains("::error file=ci/gates.yaml,line=7,"),
        "an annotation points at the file that was named"
    );
}
