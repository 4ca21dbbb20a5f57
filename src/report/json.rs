//! For programs. Field names are those of the judgement and stay as they are within one schema.

use super::summary;
use crate::error::{Error, Result};
use crate::exit::Exit;
use serde::Serialize;
use std::collections::BTreeMap;
use verdict::model::{Costs, Environment, Judgement, Outcome, Record};

pub const SCHEMA: &str = "gatekeeper.report/1";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    exit_code: u8,
    headline: String,
    counts: BTreeMap<&'static str, usize>,
    skipped: Vec<String>,
    #[serde(flatten)]
    judgement: &'a Judgement,
    environment: &'a Environment,
    costs: &'a Costs,
}

/// # Errors
/// Environment, where it cannot be written as JSON.
pub fn render(record: &Record, judgement: &Judgement) -> Result<String> {
    let report = Report {
        schema: SCHEMA,
        exit_code: Exit::from(judgement.conclusion) as u8,
        headline: summary::headline(judgement),
        counts: Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome.name(), judgement.count(outcome)))
            .collect(),
        skipped: summary::skipped(record, judgement),
        judgement,
        environment: &record.environment,
        costs: &record.costs,
    };
    serde_json::to_string_pretty(&report)
        .map(|text| text + "\n")
        .map_err(|error| Error::environment(format!("the report cannot be written: {error}")))
}
