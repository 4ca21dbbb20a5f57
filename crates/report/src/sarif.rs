//! Renders SARIF 2.1.0, for programs that show findings beside the code: code scanning, editors, dashboards of other
//! scanners.
//!
//! Each finding of the simulator is a result at the line of the kernel, and so is each other problem. A gate that holds
//! is no result.

use super::annotations::{Annotation, Level, with_findings};
use super::place::FileLine;
use super::summary;
use crate::document;
use crate::exit::Exit;
use crate::input::ReportInput;
use model::{Conclusion, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use system::error::Result;
use wording::escape;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Renders the report as SARIF.
///
/// # Errors
/// Fails with an environment error if it cannot be written as JSON.
pub fn render(input: &ReportInput) -> Result<String> {
    let (record, judgement) = (input.record, input.judgement);
    let all = with_findings(input);
    let results: Vec<(&'static str, &Annotation)> = all
        .iter()
        .filter_map(|annotation| Some((annotation.code?, annotation)))
        .collect();
    let mut rules: Vec<&str> = results.iter().map(|(code, _)| *code).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut known = BTreeMap::new();
    let results: Vec<Value> = results
        .iter()
        .map(|(code, annotation)| {
            // Two results at equal lines are distinguished by their order.
            let count: &mut u32 = known.entry(annotation.identity.as_str()).or_default();
            *count += 1;
            result(record, code, &rules, annotation, *count)
        })
        .collect();
    let environment = &record.environment;
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "gatekeeper",
                "semanticVersion": environment.gatekeeper,
                "rules": rules.iter().map(|code| json!({"id": code})).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "commandLine": environment.command,
                "exitCode": Exit::from(judgement.conclusion) as u8,
                "executionSuccessful": judgement.conclusion != Conclusion::Environment,
            }],
            "results": results,
            "properties": {"circumstances": summary::circumstances(record)},
        }],
    });
    document::json("the SARIF log", &log)
}

/// Returns a result. `number` counts the results of the same identity up to this one.
fn result(
    record: &Record,
    code: &str,
    rules: &[&str],
    annotation: &Annotation,
    number: u32,
) -> Value {
    let place = annotation.place.as_ref();
    let file = place.map_or(record.environment.config.as_str(), |place| &place.file);
    // Programs show results at a place, so a result without a line gets the first one.
    let line = place.and_then(|FileLine { line, .. }| line.parse::<u32>().ok());
    let line = line.unwrap_or(1).max(1);
    let level = match annotation.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "note",
    };
    let again = match number {
        1 => String::new(),
        number => format!("\n{number}"),
    };
    let same = blake3::hash(format!("{}{again}", annotation.identity).as_bytes());
    json!({
        "ruleId": code,
        "ruleIndex": rules.iter().position(|rule| *rule == code),
        "level": level,
        "message": {"text": escape::sarif_message(&format!("{}\n{}", annotation.title, annotation.message))},
        "locations": [{"physicalLocation": {
            "artifactLocation": location(file),
            "region": {"startLine": line},
        }}],
        "partialFingerprints": {"gatekeeper/v1": same.to_hex().as_str()},
    })
}

/// Returns a path relative to the checkout, or the whole path if the file is outside of it.
fn location(file: &str) -> Value {
    let path = escape::uri_path(file);
    if Path::new(file).is_absolute() {
        json!({"uri": format!("file://{path}")})
    } else {
        json!({"uri": path, "uriBaseId": "%SRCROOT%"})
    }
}
