//! Shows on standard error what gatekeeper does, if `GATEKEEPER_LOG` asks for it. All crates report events through
//! `tracing`. This module chooses and prints them, and nothing else depends on them.
//!
//! A worker prints no events, because a message about a lost worker quotes its standard error. The host reports the
//! steps that a worker tells it.

use model::Judgement;
use std::io::Write;
use system::error::{Error, Result};
use tracing::level_filters::LevelFilter;
use tracing::{debug, info};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{self, time::uptime};
use tracing_subscriber::prelude::*;
use wording::escape;

/// The variable that says which events are shown.
pub const VARIABLE: &str = "GATEKEEPER_LOG";

/// The names of the crates that report events. The filter accepts no others.
const PARTS: [&str; 7] = [
    "build",
    "check",
    "gatekeeper",
    "pipeline",
    "records",
    "run",
    "system",
];

/// Prints events from here on, if the user asks for them.
///
/// # Errors
/// Usage, if the variable does not say which events. Environment, if the log cannot be started.
pub fn start() -> Result<()> {
    let Some(said) = std::env::var_os(VARIABLE).filter(|said| !said.is_empty()) else {
        return Ok(());
    };
    let said = said.to_string_lossy();
    let events = fmt::layer()
        .with_writer(|| Escaped)
        .with_timer(uptime())
        .with_span_events(FmtSpan::CLOSE);
    tracing_subscriber::registry()
        .with(parse(&said)?)
        .with(events)
        .try_init()
        .map_err(|error| {
            Error::environment(format!("the log cannot be started: {error}")).caused_by(error)
        })?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        arguments = ?std::env::args_os().skip(1).collect::<Vec<_>>(),
        directory = ?std::env::current_dir().ok(),
        host = ?run::machine::host(),
        "gatekeeper starts"
    );
    Ok(())
}

/// Parses a level, or levels of parts: `debug`, `info,build=trace`, `run::worker=trace`. [`Targets`] alone would take a
/// level with a typing error for a part, and show nothing of all others.
fn parse(said: &str) -> Result<Targets> {
    said.split(',').try_fold(Targets::new(), |targets, item| {
        let (part, level) = match item.trim().split_once('=') {
            Some((part, level)) => (Some(part), level),
            None => (None, item.trim()),
        };
        let is_known = |part: &str| PARTS.contains(&part.split("::").next().unwrap_or_default());
        let level: Option<LevelFilter> = level.parse().ok().filter(|_| !level.is_empty());
        match (part, level) {
            (None, Some(level)) => Ok(targets.with_default(level)),
            (Some(part), Some(level)) if is_known(part) => Ok(targets.with_target(part, level)),
            _ => Err(Error::usage(format!(
                "{VARIABLE} is `{said}`, and `{item}` is neither a level nor a part with its level"
            ))
            .help("levels are off, error, warn, info, debug and trace: GATEKEEPER_LOG=debug")
            .help(format!(
                "parts are {}: GATEKEEPER_LOG=info,build=trace",
                PARTS.join(", ")
            ))),
        }
    })
}

/// Standard error, to which each event goes as one line that neither a terminal nor a runner takes for commands,
/// whatever names and outputs are in it. An event that cannot be written is lost, and the run goes on.
struct Escaped;

impl Write for Escaped {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let line = escape::within_line(String::from_utf8_lossy(event).trim_end());
        let _ = writeln!(std::io::stderr(), "{line}");
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reports where each verdict comes from.
pub fn log_judgement(judgement: &Judgement) {
    for verdict in &judgement.verdicts {
        debug!(
            subject = %verdict.subject,
            question = ?verdict.question,
            outcome = %verdict.outcome,
            reason = verdict.reason.code(),
            measured = ?verdict.measured,
            limit = ?verdict.limit,
            baseline = ?verdict.baseline,
            interval = ?verdict.interval,
            declared = ?verdict.declared,
            "verdict"
        );
    }
    info!(conclusion = ?judgement.conclusion, verdicts = judgement.verdicts.len(), "judged");
}
