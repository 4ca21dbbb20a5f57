//! The ranking of a microbenchmark: sections for people, and two files for programs. Pure.

use crate::micro::validity::{Agreement, Renames, renamed};
use crate::micro::{Clocked, Dropped, Ranking};
use model::Seen;
use report::section::{Kind, Part, Section, Table};
use search::{MICRO_SCHEMA, Seed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use system::error::{Error, Result};
use wording::escape;
use wording::reasons;
use wording::words;

pub const TITLE: &str = "ranking of a tile of attention";

/// The command's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Ranked,
    /// No configuration holds its gates.
    NoneRight,
    NoClock,
}

pub fn ending(ranking: &Ranking) -> Ending {
    match (ranking.clocked.is_empty(), ranking.lacks_clock()) {
        (false, _) => Ending::Ranked,
        (true, Some(_)) if !ranking.unranked.is_empty() => Ending::NoClock,
        (true, _) => Ending::NoneRight,
    }
}

/// The `top` fastest, what was dropped, and the headline.
pub fn lay_out(ranking: &Ranking, top: usize) -> Vec<Section<'static>> {
    let shown = ranking.clocked.len().min(top);
    let title = format!("The {shown} fastest of {}", ranking.clocked.len());
    vec![
        Section::new("", &title, vec![Part::Table(fastest(ranking, top))]),
        Section::new(
            "dropped",
            "Dropped before any time",
            vec![Part::Lines(dropped(ranking))],
        ),
        Section::new("on", "On", vec![Part::Lines(vec![on(ranking)])]),
        Section::new("", "", vec![Part::Lines(vec![headline(ranking)])]),
    ]
}

fn fastest(ranking: &Ranking, top: usize) -> Table {
    let columns = [
        ("BLOCK_M", Kind::Number),
        ("BLOCK_K", Kind::Number),
        ("STAGES", Kind::Number),
        ("VEC_WIDTH", Kind::Number),
        ("cycles a query", Kind::Number),
        ("quartiles", Kind::Number),
        ("registers", Kind::Number),
        ("shared", Kind::Number),
        ("blocks an SM", Kind::Number),
    ];
    let rows = ranking.clocked.iter().take(top).map(|it| {
        let values = crate::micro::MACROS.iter().map(|name| {
            let value = it.kept.values.get(*name);
            value.map_or("-".to_owned(), i64::to_string)
        });
        let [low, high] = it.quartiles;
        let figures = [
            format!("{:.1}", it.cycles),
            format!("{low:.1} - {high:.1}"),
            it.kept.registers.to_string(),
            words::quantity(model::Metric::Shared, it.kept.shared_bytes as f64),
            it.kept.blocks_per_sm.to_string(),
        ];
        values.chain(figures).collect()
    });
    Table::new(columns, rows.collect())
}

/// A line for each gate and reason, with one of those that it dropped.
fn dropped(ranking: &Ranking) -> Vec<String> {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&Dropped>> = BTreeMap::new();
    for dropped in &ranking.dropped {
        let all = by_reason.entry((&dropped.gate, dropped.code)).or_default();
        all.push(dropped);
    }
    let lines = by_reason.into_iter().map(|((gate, code), all)| {
        let example = all.first().map_or(String::new(), |first| {
            let message = first.message.lines().next().unwrap_or_default();
            format!("; {}: {message}", written(&first.values))
        });
        let count = words::plural(all.len(), "configuration");
        format!("{count} by {gate} [{code}]{example}")
    });
    lines.collect()
}

/// `BLOCK_K 32, BLOCK_M 64`
fn written(values: &Seed) -> String {
    let macros: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    macros.join(", ")
}

fn on(ranking: &Ranking) -> String {
    let environment = &ranking.environment;
    let device = match &environment.device {
        Seen::Got(device) => format!("{}, driver {}", device.name, device.driver),
        _ => "simulator, no GPU".to_owned(),
    };
    let compiler = environment.compiler.got();
    let compiler = compiler.map_or("-", |it| it.version.as_str());
    format!("{device}, nvcc {compiler}, {}", environment.started)
}

fn headline(ranking: &Ranking) -> String {
    let right = ranking.clocked.len() + ranking.unranked.len();
    let all = words::plural(right + ranking.dropped.len(), "configuration");
    match (ending(ranking), ranking.lacks_clock()) {
        (Ending::NoClock, Some(why)) => format!(
            "INCONCLUSIVE: {right} of {all} hold their gates, and none is ranked [{}]: {}",
            why.code(),
            reasons::not_run(why)
        ),
        (Ending::Ranked, _) => format!("PASS: {right} of {all} hold their gates and are ranked"),
        _ => format!("FAIL: none of {all} holds its gates"),
    }
}

/// `rank correlation with 24 measured ones over BLOCK_M, STAGES: 0.81 (95 %: 0.6 to 0.91)`
pub fn agreement(agreement: &Agreement) -> String {
    let Agreement {
        macros,
        count,
        correlation,
        interval,
    } = agreement;
    if macros.is_empty() {
        return "no macro of the tile is a parameter of that search: --as STAGES=NAME says what one is called there"
            .to_owned();
    }
    let of = format!(
        "{} over {}",
        words::plural(*count, "measured combination"),
        words::listed(macros)
    );
    match (correlation, interval) {
        (Some(correlation), Some([low, high])) => format!(
            "rank correlation (Spearman) with {of}: {correlation:.2}, 95 %: {low:.2} to {high:.2}"
        ),
        (Some(correlation), None) => format!(
            "rank correlation (Spearman) with {of}: {correlation:.2}; too few for an interval"
        ),
        (None, _) => format!("no rank correlation with {of}: there is no order to compare"),
    }
}

/// One line for each configuration: those that are ranked first, then those that are right, then the others.
///
/// # Errors
/// Environment, where it cannot be written.
pub fn csv(ranking: &Ranking, renames: &Renames) -> Result<String> {
    let failed =
        |error: csv::Error| Error::environment(format!("the CSV cannot be written: {error}"));
    let mut out = csv::Writer::from_writer(Vec::new());
    let names: Vec<&str> = crate::micro::MACROS
        .iter()
        .map(|name| renames.get(*name).map_or(*name, String::as_str))
        .collect();
    let figures = [
        "cycles_per_query",
        "lower_quartile",
        "upper_quartile",
        "registers",
        "shared_bytes",
        "blocks_per_sm",
        "gate",
        "code",
        "device",
        "driver",
        "compiler",
        "started",
    ];
    let environment = &ranking.environment;
    let device = environment.device.got();
    let circumstances = [
        device.map_or("", |it| it.name.as_str()),
        device.map_or("", |it| it.driver.as_str()),
        environment
            .compiler
            .got()
            .map_or("", |it| it.version.as_str()),
        environment.started.as_str(),
    ];
    let heads = ["rank"].into_iter().chain(names).chain(figures);
    out.write_record(heads).map_err(failed)?;
    let row = |rank: String, values: &Seed, rest: [String; 8]| {
        let macros = crate::micro::MACROS.iter().map(|name| {
            let value = values.get(*name);
            value.map_or(String::new(), i64::to_string)
        });
        let on = circumstances.map(str::to_owned);
        let cells = [rank].into_iter().chain(macros).chain(rest).chain(on);
        cells.collect::<Vec<String>>()
    };
    let none = String::new;
    for (clocked, rank) in ranking.clocked.iter().zip(1..) {
        let Clocked {
            kept,
            cycles,
            quartiles: [low, high],
        } = clocked;
        let rest = [
            cycles.to_string(),
            low.to_string(),
            high.to_string(),
            kept.registers.to_string(),
            kept.shared_bytes.to_string(),
            kept.blocks_per_sm.to_string(),
            none(),
            none(),
        ];
        let row = row(i32::to_string(&rank), &kept.values, rest);
        out.write_record(row).map_err(failed)?;
    }
    let lacks_clock = ranking.lacks_clock().map_or("", |why| why.code());
    let unranked = ranking.unranked.iter();
    let unranked = unranked.map(|values| (values, "clock", lacks_clock));
    let dropped = ranking.dropped.iter();
    let dropped = dropped.map(|it| (&it.values, it.gate.as_str(), it.code));
    for (values, gate, code) in unranked.chain(dropped) {
        let [a, b, c, d, e, f] = std::array::from_fn(|_| none());
        let rest = [a, b, c, d, e, f, gate.to_owned(), code.to_owned()];
        out.write_record(row(none(), values, rest))
            .map_err(failed)?;
    }
    let bytes = out
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))?;
    String::from_utf8(bytes).map_err(|error| Error::environment(error.to_string()))
}

/// As `micro.json` holds it.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    schema: String,
    gatekeeper: String,
    /// `None` where there was no GPU.
    device: Option<String>,
    driver: Option<String>,
    compiler: Option<String>,
    started: String,
    /// The best, for a search to start from.
    seeds: Vec<Seed>,
    ranked: Vec<Entry>,
    /// Right, and not ranked for want of a clock.
    unranked: Vec<Seed>,
    dropped: Vec<DroppedEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    define: Seed,
    cycles_per_query: f64,
    quartiles: [f64; 2],
    registers: u32,
    shared_bytes: u64,
    blocks_per_sm: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct DroppedEntry {
    define: Seed,
    gate: String,
    code: String,
    message: String,
}

/// # Errors
/// Environment, where it cannot be written.
pub fn json(ranking: &Ranking, top: usize, renames: &Renames) -> Result<String> {
    let environment = &ranking.environment;
    let define = |values: &Seed| renamed(values, renames);
    let device = environment.device.got();
    let best = ranking.clocked.iter().take(top);
    let file = File {
        schema: MICRO_SCHEMA.to_owned(),
        gatekeeper: environment.gatekeeper.clone(),
        device: device.map(|it| it.name.clone()),
        driver: device.map(|it| it.driver.clone()),
        compiler: environment.compiler.got().map(|it| it.version.clone()),
        started: environment.started.clone(),
        seeds: best.map(|it| define(&it.kept.values)).collect(),
        ranked: ranking
            .clocked
            .iter()
            .map(|it| Entry {
                define: define(&it.kept.values),
                cycles_per_query: it.cycles,
                quartiles: it.quartiles,
                registers: it.kept.registers,
                shared_bytes: it.kept.shared_bytes,
                blocks_per_sm: it.kept.blocks_per_sm,
            })
            .collect(),
        unranked: ranking.unranked.iter().map(define).collect(),
        dropped: ranking
            .dropped
            .iter()
            .map(|it| DroppedEntry {
                define: define(&it.values),
                gate: it.gate.clone(),
                code: it.code.to_owned(),
                message: it.message.clone(),
            })
            .collect(),
    };
    serde_json::to_string_pretty(&file)
        .map(|text| escape::json(&text) + "\n")
        .map_err(|error| Error::environment(format!("the ranking cannot be written: {error}")))
}

/// Configurations and cycles of such a file.
///
/// # Errors
/// Usage, where it is none.
pub fn read(text: &str) -> Result<Vec<(Seed, f64)>> {
    let refuse = |message: String| Error::usage(message);
    let file: File = serde_json::from_str(text)
        .map_err(|error| refuse(format!("no ranking of `tune --rank`: {error}")))?;
    if file.schema != MICRO_SCHEMA {
        let found = file.schema;
        return Err(refuse(format!(
            "its schema is {found}, and {MICRO_SCHEMA} is expected"
        )));
    }
    let ranked = file.ranked.into_iter();
    Ok(ranked.map(|it| (it.define, it.cycles_per_query)).collect())
}
