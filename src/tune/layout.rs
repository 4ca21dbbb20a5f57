//! Lays the result of a search out as sections: the winner, the candidates that each gate dropped, and the path to the
//! winner. Pure.

use crate::tune::log::Began;
use crate::tune::outcome::{
    Confirmation, Dropped, DroppedBy, Evaluation, Outcome, ParameterValues, Ranked, Shown,
};
use crate::tune::{End, Progress, SearchResult};
use model::Metric;
use report::section::{Chart, ColumnKind, InTerminal, Section, SectionPart, Table};
use std::collections::BTreeMap;
use wording::words;

pub const TITLE: &str = "search for a faster configuration";

/// The most configurations that the table of the best has.
const MOST_RANKED: usize = 10;
/// The most characters of the message of a configuration that was dropped.
const LONGEST_EXAMPLE: usize = 240;

pub fn lay_out<'a>(began: &Began, found: &SearchResult) -> Vec<Vec<Section<'a>>> {
    let lines =
        |label, title: &str, lines| Section::new(label, title, vec![SectionPart::Lines(lines)]);
    let first = vec![
        lines("tune", "Result", result(began, found)),
        lines("searched", "Searched", searched(began, found)),
        Section::new("", "The best", vec![SectionPart::Table(best(began, found))]),
        Section::new(
            "",
            "Dropped, by gate",
            vec![SectionPart::Table(dropped(began, found))],
        ),
        Section::new(
            "",
            "Path of the best",
            vec![SectionPart::Table(path(began, found))],
        ),
        Section {
            in_terminal: InTerminal::Never,
            ..Section::new("", "The best so far", chart(found).into_iter().collect())
        },
        lines("note", "Notes", notes(found)),
    ];
    vec![first]
}

/// Returns what the search claims, and the limits of that claim.
fn result(began: &Began, found: &SearchResult) -> Vec<String> {
    match &found.end {
        End::StartDropped(why) => vec![format!(
            "{} does not hold its own gates, so there is nothing to start from: {}",
            began.start,
            cause(why)
        )],
        End::Ranked => {
            let shapes = words::listed(&found.ranked_at);
            vec![
                "no GPU: this is a ranking and no time, and no configuration is claimed to be faster".to_owned(),
                format!(
                    "ranked by estimates of one launch at {shapes}, from the simulator's counters, PTXAS and occupancy"
                ),
            ]
        }
        End::NoneFaster => vec![format!(
            "no configuration was faster than {} in three processes against it",
            began.start
        )],
        End::WinnerDropped(why) => vec![format!(
            "the best one broke where it was held against the start: {}",
            cause(why)
        )],
        End::Confirmed(confirmation) => confirmed(began, found, confirmation),
    }
}

fn confirmed(began: &Began, found: &SearchResult, confirmation: &Confirmation) -> Vec<String> {
    let [low, high] = confirmation.interval;
    let interval = if high < f64::MAX {
        format!(" (between {} and {})", as_percent(low), as_percent(high))
    } else {
        String::new()
    };
    let result = format!(
        "{} of the time of {}{interval}, over {} that the search saw nothing of",
        as_percent(confirmation.ratio),
        began.start,
        words::plural(confirmation.processes as usize, "fresh process"),
    );
    let first = match confirmation.shown {
        Shown::Faster => format!("{} takes {result}", name(confirmation.winner)),
        Shown::NotFaster => format!(
            "nothing is faster: {}, the best of the search, takes {result}",
            name(confirmation.winner)
        ),
        Shown::Undecided => format!(
            "not decided: {}, the best of the search, takes {result}",
            name(confirmation.winner)
        ),
    };
    let times: Vec<String> = confirmation
        .winner_ns
        .iter()
        .filter_map(|(shape, ns)| {
            let before = confirmation.start_ns.get(shape)?;
            let [before, ns] = [before, ns].map(|ns| words::quantity(Metric::P50, *ns));
            Some(format!("p50 of {shape}: {ns}, of the start {before}"))
        })
        .collect();
    let define =
        values_of(found, confirmation.winner).filter(|_| confirmation.shown == Shown::Faster);
    let define = define.map(|values| {
        let mut macros: BTreeMap<String, String> = began.macros.clone();
        macros.extend(
            values
                .iter()
                .map(|(name, value)| (name.clone(), value.to_string())),
        );
        format!(
            "as a variant: tuned: {{define: {{{}}}}}",
            macros
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    });
    [first].into_iter().chain(times).chain(define).collect()
}

fn searched(began: &Began, found: &SearchResult) -> Vec<String> {
    let all = &found.evaluations;
    let count = |is: fn(&Outcome) -> bool| {
        all.iter()
            .filter(|evaluation| is(&evaluation.outcome))
            .count()
    };
    let dropped = count(|outcome| matches!(outcome, Outcome::Dropped(_)));
    let same = count(|outcome| matches!(outcome, Outcome::Same { .. }));
    let first = [
        format!(
            "{}, {} of {} looked at, {dropped} dropped, {same} the same code as another, in {}",
            began.start,
            found.looked_at,
            words::plural(began.configurations, "valid configuration"),
            clock(found.elapsed.as_secs()),
        ),
        format!(
            "objective {}; strategy {}, seed {}; {}, nvcc {}",
            began
                .objective
                .iter()
                .map(|(shape, weight)| match began.objective.len() {
                    1 => format!("p50 of {shape}"),
                    _ => format!("{shape} {}", as_percent(*weight)),
                })
                .collect::<Vec<_>>()
                .join(", "),
            began.strategy,
            began.seed,
            began.device,
            began.compiler,
        ),
    ];
    first.into()
}

/// Returns the best configurations, ordered by cost and then by the resources that they use.
fn best(began: &Began, found: &SearchResult) -> Table {
    let ranked = |evaluation: &Evaluation| {
        let (registers, shared) = evaluation
            .resources
            .map_or((0, 0), |taken| (taken.registers, taken.shared));
        (evaluation.outcome.cost(), registers, shared)
    };
    let mut all: Vec<&Evaluation> = found
        .evaluations
        .iter()
        .filter(|evaluation| evaluation.outcome.cost().is_some())
        .collect();
    all.sort_by(|a, b| {
        let (a, b) = (ranked(a), ranked(b));
        let by_cost = a.0.unwrap_or(f64::NAN).total_cmp(&b.0.unwrap_or(f64::NAN));
        by_cost.then((a.1, a.2).cmp(&(b.1, b.2)))
    });
    let columns = [
        ("configuration", ColumnKind::Text),
        ("other than the start", ColumnKind::Text),
        ("of the start", ColumnKind::Number),
        ("registers", ColumnKind::Number),
        ("shared", ColumnKind::Number),
        ("occupancy", ColumnKind::Number),
    ];
    Table::new(
        columns,
        all.into_iter()
            .take(MOST_RANKED)
            .map(|evaluation| {
                let figure = |text: Option<String>| text.unwrap_or("-".to_owned());
                let resources = evaluation.resources;
                vec![
                    evaluation.number.to_string(),
                    shown(began, &evaluation.values),
                    cost(&evaluation.outcome),
                    figure(resources.map(|taken| taken.registers.to_string())),
                    figure(
                        resources.map(|taken| words::quantity(Metric::Shared, taken.shared as f64)),
                    ),
                    figure(resources.and_then(|taken| {
                        Some(words::quantity(Metric::Occupancy, taken.occupancy?))
                    })),
                ]
            })
            .collect(),
    )
}

fn cost(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Timed(timed) if timed.stopped => {
            format!("{}, stopped early", as_percent(timed.cost))
        }
        Outcome::Ranked(Ranked { cost, .. }) => as_percent(*cost),
        other => other.cost().map_or("-".to_owned(), as_percent),
    }
}

/// Returns how many configurations each gate dropped, with the first of them.
fn dropped(began: &Began, found: &SearchResult) -> Table {
    type Gate<'a> = (DroppedBy, &'a str, &'a str);
    let mut by: BTreeMap<Gate, Vec<(&Evaluation, &Dropped)>> = BTreeMap::new();
    for evaluation in &found.evaluations {
        if let Outcome::Dropped(dropped) = &evaluation.outcome {
            let key = (dropped.gate, dropped.name.as_str(), dropped.code.as_str());
            by.entry(key).or_default().push((evaluation, dropped));
        }
    }
    let columns = [
        ("dropped by", ColumnKind::Text),
        ("gate", ColumnKind::Text),
        ("code", ColumnKind::Text),
        ("number", ColumnKind::Number),
        ("for example", ColumnKind::Text),
    ];
    Table::new(
        columns,
        by.into_iter()
            .filter_map(|((gate, name, code), all)| {
                let (first, why) = all.first()?;
                let message = shorten(why.message.lines().next().unwrap_or_default());
                let fast = why.estimated_cost.map_or(String::new(), |cost| {
                    format!(" (its estimate: {} of the start)", as_percent(cost))
                });
                Some(vec![
                    gate.name().to_owned(),
                    name.to_owned(),
                    code.to_owned(),
                    all.len().to_string(),
                    format!("{}: {message}{fast}", shown(began, &first.values)),
                ])
            })
            .collect(),
    )
}

/// Shortens a message for the table. The log has the whole message.
fn shorten(message: &str) -> String {
    match message.char_indices().nth(LONGEST_EXAMPLE) {
        None => message.to_owned(),
        Some((end, _)) => {
            let text = message.get(..end).unwrap_or(message);
            let whole = text.rsplit_once(' ').map_or(text, |(words, _)| words);
            format!("{whole} ...")
        }
    }
}

fn path(began: &Began, found: &SearchResult) -> Table {
    let columns = [
        ("new best", ColumnKind::Text),
        ("other than the start", ColumnKind::Text),
        ("of the start", ColumnKind::Number),
        ("after", ColumnKind::Number),
    ];
    let of = |number: &u32| {
        found
            .evaluations
            .iter()
            .find(|evaluation| evaluation.number == *number)
    };
    Table::new(
        columns,
        found
            .bests
            .iter()
            .filter_map(of)
            .map(|evaluation| {
                vec![
                    evaluation.number.to_string(),
                    shown(began, &evaluation.values),
                    cost(&evaluation.outcome),
                    clock(evaluation.at_ms / 1000),
                ]
            })
            .collect(),
    )
}

/// Returns a chart of the best cost after each evaluation, including those that were dropped.
fn chart<'a>(found: &SearchResult) -> Option<SectionPart<'a>> {
    let mut best: f64 = 1.0;
    let values: Vec<f64> = found
        .evaluations
        .iter()
        .filter(|evaluation| evaluation.outcome.is_counted())
        .map(|evaluation| {
            let cost = evaluation.outcome.cost();
            if let Some(cost) = cost.filter(|_| found.bests.contains(&evaluation.number)) {
                best = best.min(cost);
            }
            best * 100.0
        })
        .collect();
    (values.len() > 1).then(|| {
        SectionPart::Chart(Chart {
            title: "in per cent of the start: the best after each evaluation".to_owned(),
            labels: (1..=values.len()).map(|index| index.to_string()).collect(),
            values,
        })
    })
}

fn notes(found: &SearchResult) -> Vec<String> {
    let inert = found.inert.iter().map(|name| {
        format!("{name} changed no machine code, launch or argument: leave it out of `tune`, or look whether the source uses it")
    });
    let unseen = (!found.unseen.is_empty()).then(|| {
        format!(
            "not simulated, and so not checked: {}",
            words::listed(&found.unseen)
        )
    });
    inert.chain(unseen).collect()
}

fn cause(why: &Dropped) -> String {
    if why.message.is_empty() {
        format!("{} ({})", why.name, why.code)
    } else {
        format!("{} ({}): {}", why.name, why.code, why.message)
    }
}

fn values_of(found: &SearchResult, number: u32) -> Option<&ParameterValues> {
    found
        .evaluations
        .iter()
        .find(|evaluation| evaluation.number == number)
        .map(|evaluation| &evaluation.values)
}

fn name(number: u32) -> String {
    format!("configuration {number}")
}

/// Returns the values that differ from the start's: `BLOCK_M=64 NUM_WARPS=4`.
fn shown(began: &Began, values: &ParameterValues) -> String {
    let is_other = |name: &str, value: i64| began.macros.get(name) != Some(&value.to_string());
    let words: Vec<String> = values
        .iter()
        .filter(|(name, value)| is_other(name, **value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if words.is_empty() {
        "the start's values".to_owned()
    } else {
        words.join(" ")
    }
}

/// Returns a share as a percentage, such as `87.1 %`.
fn as_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn clock(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Returns a line of progress, such as `tune: 12 evaluations, best 87.1 % of the start, 2 min 5 s left`.
pub fn progress(progress: Progress) -> String {
    let left = progress.left.map_or(String::new(), |left| {
        format!(", {} left", clock(left.as_secs()))
    });
    format!(
        "tune: {}, best {} of the start{left}",
        words::plural(progress.evaluations, "evaluation"),
        as_percent(progress.best),
    )
}
