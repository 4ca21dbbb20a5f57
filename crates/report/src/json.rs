//! Renders the report for programs. Field names are those of the judgement and stay the same within one schema.

use super::{diagnosis, document, not_judged, summary};
use crate::exit::Exit;
use crate::explain::KernelExplanations;
use crate::input::ReportInput;
use explain::diagnosis::changes;
use model::{
    Accepted, AgainstBase, Aimed, Blame, Conclusion, Costs, CounterChange, Drift, Environment,
    Metric, Note, Outcome, Problem, RivalStanding, Ungated, Verdict, Win,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use system::error::Result;
use wording::reasons;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.report/1";

#[derive(Serialize, JsonSchema)]
#[schemars(title = "report.json")]
struct ReportDocument<'a> {
    schema: &'static str,
    exit_code: u8,
    conclusion: Conclusion,
    headline: String,
    counts: BTreeMap<&'static str, usize>,
    /// The verdicts that did not hold, by cause.
    problems: &'a [Problem],
    verdicts: Vec<ReportEntry<'a, Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'a AgainstBase>,
    /// Where `run --blame` exchanged parts of the compiler.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    blames: &'a [Blame],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rivals: &'a [RivalStanding],
    accepted: Vec<ReportEntry<'a, Accepted>>,
    wins: &'a [Win],
    drifts: &'a [Drift],
    /// Resources that are worse than before, and that no gate limits.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ungated: &'a [Ungated],
    targets: Vec<ReportEntry<'a, Aimed>>,
    counters: &'a [CounterChange],
    notes: &'a [Note],
    /// As `report --diagnosis --format json` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    diagnoses: Vec<diagnosis::DiagnosisEntry>,
    /// With `binary --explain`: why kernels changed, the causes as `explain --format json` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    explanations: Option<&'a KernelExplanations>,
    skipped: Vec<String>,
    environment: &'a Environment,
    costs: &'a Costs,
}

/// A verdict with what a program matches on, and what a person reads.
#[derive(Serialize, JsonSchema)]
struct ReportEntry<'a, T> {
    /// The question of the verdict: `p50 +2%`.
    gate: String,
    /// The stable name of the reason; see docs/verdicts.md.
    code: &'static str,
    metric: Option<Metric>,
    message: String,
    #[serde(flatten)]
    data: &'a T,
}

/// Returns the JSON Schema of the report.
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings
        .into_generator()
        .into_root_schema_for::<ReportDocument<'static>>()
        .to_value()
}

/// Renders the report as JSON.
///
/// # Errors
/// Fails with an environment error if it cannot be written as JSON.
pub fn render(input: &ReportInput) -> Result<String> {
    let (record, judgement) = (input.record, input.judgement);
    let environment = &record.environment;
    let verdicts = judgement.verdicts.iter().map(|verdict| ReportEntry {
        gate: words::question(&verdict.question),
        code: verdict.reason.code(),
        metric: verdict.metric(),
        message: reasons::verdict(environment, verdict),
        data: verdict,
    });
    let accepted = judgement.accepted.iter().map(|accepted| ReportEntry {
        gate: words::gate(&accepted.rule),
        code: accepted.reason.code(),
        metric: accepted.rule.metric(),
        message: reasons::reason(environment, &accepted.subject, &accepted.reason),
        data: accepted,
    });
    let targets = judgement.targets.iter().map(|target| ReportEntry {
        gate: words::gate(&target.rule),
        code: target.reason.code(),
        metric: target.rule.metric(),
        message: reasons::reason(environment, &target.subject, &target.reason),
        data: target,
    });
    let report = ReportDocument {
        schema: SCHEMA,
        exit_code: Exit::from(judgement.conclusion) as u8,
        conclusion: judgement.conclusion,
        headline: summary::headline(input),
        counts: Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome.name(), judgement.count(outcome)))
            .collect(),
        problems: &judgement.problems,
        verdicts: verdicts.collect(),
        base: judgement.base.as_ref(),
        blames: &judgement.blames,
        rivals: &judgement.rivals,
        accepted: accepted.collect(),
        wins: &judgement.wins,
        drifts: &judgement.drifts,
        ungated: &judgement.ungated,
        targets: targets.collect(),
        counters: &judgement.counters,
        notes: &judgement.notes,
        diagnoses: diagnosis::entries(changes::notable(input.index, judgement)),
        explanations: input.kernels,
        skipped: not_judged::skipped(record, judgement),
        environment: &record.environment,
        costs: &record.costs,
    };
    document::json("the report", &report)
}
