//! Causes in words: as text, as markdown and as JSON.

pub use explain::{Cause, CauseClass, CausePlace, CauseValue, Measure, PlaceSide, Unexplained};
use model::CaseId;
use serde::Serialize;
use std::fmt::Write;
use system::error::{Error, Result};
use wording::escape;

pub const SCHEMA: &str = "gatekeeper.explanation/1";

/// The outcome for one case.
#[derive(Debug, Serialize)]
pub struct Explanation {
    pub case: CaseId,
    pub causes: Vec<Cause>,
    /// Comparisons that were not possible.
    pub gaps: Vec<String>,
}

pub fn unexplained(why: &Unexplained) -> &'static str {
    match why {
        Unexplained::NoBase => "the run had no base",
        Unexplained::NoSuchCase => "the record does not have the case",
        Unexplained::New => "the base does not have the case",
        Unexplained::NoUnit => "nothing was built of it for the device of the run",
    }
}

fn measure(measure: &Measure) -> String {
    match measure {
        Measure::Code(kind) => format!("{kind} instructions"),
        Measure::CodeSize => "instructions in the code".to_owned(),
        Measure::Calls(function) => format!("calls of {function}"),
        Measure::LoopSize => "instructions of a turn".to_owned(),
        Measure::Around => "instructions around it".to_owned(),
        Measure::PredicatedAccesses => "accesses under a condition".to_owned(),
        Measure::Step => "step of the loop".to_owned(),
        Measure::Registers => "registers".to_owned(),
        Measure::Stack => "stack".to_owned(),
        Measure::SpillStores => "spill stores (bytes)".to_owned(),
        Measure::SpillLoads => "spill loads (bytes)".to_owned(),
        Measure::Shared => "shared memory (bytes)".to_owned(),
        Measure::Counter(counter) => counter.to_string(),
        Measure::Occupancy => "occupancy".to_owned(),
        Measure::BlocksPerSm => "blocks per SM".to_owned(),
        Measure::Blocks => "blocks".to_owned(),
        Measure::ThreadsPerBlock => "threads per block".to_owned(),
        Measure::Waves => "waves".to_owned(),
        Measure::SmMhz => "SM clock (MHz)".to_owned(),
        Measure::Stall(stall) => format!("{stall} (cycles an instruction)"),
        Measure::Profile(metric) => metric.to_string(),
    }
}

fn value(it: &CauseValue) -> String {
    format!("{} {} -> {}", measure(&it.measure), it.base.0, it.head.0)
}

fn place(place: &CausePlace) -> String {
    match place.of {
        PlaceSide::Head => place.line.to_string(),
        PlaceSide::Base => format!("{} of the base", place.line),
    }
}

/// A cause in one line: `more barriers at k.cu:12: barrier instructions 1 -> 2`.
pub fn line(cause: &Cause) -> String {
    let mut line = cause.class.title().to_owned();
    if let Some(first) = cause.places.first() {
        let _ = write!(line, " at {}", place(first));
    }
    let values: Vec<String> = cause.values.iter().map(value).collect();
    if !values.is_empty() {
        let _ = write!(line, ": {}", values.join(", "));
    }
    line
}

/// How much of the slowdown, or that nobody knows.
pub fn share(cause: &Cause) -> String {
    match cause.share {
        Some(share) => format!(
            "accounts for about {:.0} % of the slowdown",
            share.0 * 100.0
        ),
        None => "how much of the slowdown it accounts for is not known".to_owned(),
    }
}

pub fn terminal(explanations: &[Explanation]) -> String {
    let mut text = String::new();
    for Explanation { case, causes, gaps } in explanations {
        let _ = writeln!(text, "{case}");
        for (at, cause) in causes.iter().enumerate() {
            let _ = writeln!(
                text,
                "  {}. [{}] {}",
                at + 1,
                cause.class.name(),
                line(cause)
            );
            for it in &cause.places {
                let quoted = it.text.as_deref().unwrap_or_default();
                let _ = writeln!(text, "       {}  {quoted}", place(it));
            }
            if cause.class != CauseClass::NothingChanged {
                let _ = writeln!(text, "       {}", share(cause));
            }
        }
        for gap in gaps {
            let _ = writeln!(text, "  not compared: {gap}");
        }
        text.push('\n');
    }
    escape::lines(text.trim_end()) + "\n"
}

pub fn markdown(explanations: &[Explanation]) -> String {
    let mut text = String::new();
    for Explanation { case, causes, gaps } in explanations {
        let _ = writeln!(text, "#### {}\n", escape::markdown(&case.to_string()));
        for (at, cause) in causes.iter().enumerate() {
            let said = escape::markdown(&line(cause));
            let _ = writeln!(text, "{}. `{}` {said}", at + 1, cause.class.name());
        }
        for gap in gaps {
            let _ = writeln!(text, "\nNot compared: {}", escape::markdown(gap));
        }
        text.push('\n');
    }
    text
}

/// # Errors
/// Never in practice: all of it is plain data.
pub fn json(explanations: &[Explanation]) -> Result<String> {
    #[derive(Serialize)]
    struct File<'a> {
        schema: &'static str,
        cases: &'a [Explanation],
    }
    let file = File {
        schema: SCHEMA,
        cases: explanations,
    };
    let text = serde_json::to_string_pretty(&file);
    text.map(|text| escape::json(&text) + "\n")
        .map_err(|error| Error::environment(format!("the explanation is no JSON: {error}")))
}
