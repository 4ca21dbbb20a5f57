//! Figures for dashboards that teams already have: Bencher's metric format, and the JSON of github-action-benchmark.
//!
//! Only figures of which less is better: both compare them that way. Times are of cases that are right, as everywhere.

use judge::{Index, Spread, View};
use model::{Measure as Kind, Metric, Record, Subject};
use serde::Serialize;
use std::collections::BTreeMap;
use system::error::{Error, Result};
use wording::escape;

const OF_UNITS: [Metric; 4] = [
    Metric::Registers,
    Metric::Shared,
    Metric::Spills,
    Metric::Stack,
];

const OF_CASES: [Metric; 5] = [
    Metric::MaxErr,
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::Cycles,
];

struct Figure {
    subject: String,
    metric: Metric,
    value: f64,
    /// One standard deviation between processes, to either side.
    range: Option<[f64; 2]>,
}

/// Those that are numbers: JSON has no others.
fn figures(record: &Record) -> Vec<Figure> {
    let index = Index::of_record(record);
    let view = index.head();
    let mut all = Vec::new();
    for unit in &record.plan.units {
        let subject = Subject::Unit(unit.id.clone());
        all.extend(
            OF_UNITS
                .iter()
                .filter_map(|metric| figure(view, &subject, *metric)),
        );
    }
    for case in &record.plan.cases {
        let subject = Subject::Case(case.id.clone());
        let counters = view.gateable(&case.id).into_keys();
        let metrics = OF_CASES.into_iter().chain(counters.map(Metric::Counter));
        all.extend(metrics.filter_map(|metric| figure(view, &subject, metric)));
    }
    all
}

fn figure(view: View, subject: &Subject, metric: Metric) -> Option<Figure> {
    let found = view.metric(subject, metric).ok()?;
    let range = match found.spread {
        Some(Spread::Processes(group)) => {
            let factor = group.ln_deviation().exp();
            Some([found.number / factor, found.number * factor])
        }
        _ => None,
    };
    let is_finite = |range: &[f64; 2]| range.iter().all(|end| end.is_finite());
    found.number.is_finite().then(|| Figure {
        subject: subject.to_string(),
        metric,
        value: found.number,
        range: range.filter(is_finite),
    })
}

#[derive(Serialize)]
struct Measure {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// For `bencher run --adapter json`. p50 is its own measure `latency`, in ns.
///
/// # Errors
/// Environment, where it cannot be written as JSON.
pub fn bencher(record: &Record) -> Result<String> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Measure>> = BTreeMap::new();
    for figure in figures(record) {
        let measure = match figure.metric {
            Metric::P50 => "latency",
            metric => metric.name(),
        };
        let [low, high] = figure.range.map_or([None; 2], |range| range.map(Some));
        let measures = benchmarks.entry(figure.subject).or_default();
        measures.insert(
            measure,
            Measure {
                value: figure.value,
                lower_value: low,
                upper_value: high,
            },
        );
    }
    json(&benchmarks)
}

#[derive(Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
}

/// For github-action-benchmark, with `tool: customSmallerIsBetter`.
///
/// # Errors
/// Environment, where it cannot be written as JSON.
pub fn benchmark_action(record: &Record) -> Result<String> {
    let entries: Vec<Entry> = figures(record)
        .into_iter()
        .map(|figure| Entry {
            name: format!("{}: {}", figure.subject, figure.metric),
            unit: unit(figure.metric),
            value: figure.value,
            range: figure
                .range
                .map(|[_, high]| format!("± {:.3}", high - figure.value)),
        })
        .collect();
    json(&entries)
}

fn unit(metric: Metric) -> &'static str {
    match metric.measure() {
        Kind::Nanoseconds => "ns",
        Kind::Bytes => "B",
        Kind::Output | Kind::Share => "1",
        Kind::Count => "count",
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map(|text| escape::json(&text) + "\n")
        .map_err(|error| Error::environment(format!("the figures cannot be written: {error}")))
}
