//! Breaks one thing at a time. Each run must fail for its own reason, and name the command that shows the failure
//! again.
//!
//! `GATEKEEPER_SHOW=1 cargo test --test it regressions:: -- --nocapture` prints the terminal report of each.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; reports of failing runs, where they are asked for"
)]

mod base;
use crate::common;
mod gpu;
mod tails;

use common::{edit, project, root, run, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Requires that a run fails: with exit code 1, and with the headline, the reason, and the command that repeats it,
/// each as a line of the terminal's report.
fn fails(dir: &Path, args: &[&str], subject: &str, reason: &str) -> Output {
    let output = gate(dir, args, 1);
    let said = stdout(&run(dir, &["judge", "-v", common::RECORD], 1));
    let said = unwrapped(&said);
    let told = said.split("\n\n").any(|problem| {
        let (head, _) = problem.split_once("  ").unwrap_or((problem, ""));
        let is_of_subject = head.starts_with("✗ ") && names(head, subject);
        let (_, command) = problem.rsplit_once(" $ ").unwrap_or_default();
        let repeats = command.starts_with("gatekeeper run ") && command.ends_with('\'');
        is_of_subject && problem.contains(reason) && repeats
    });
    assert!(told, "no {subject:?} with {reason:?} in\n{said}");
    output
}

/// Runs with the provisioned compiler, and requires that the record is judged again to the same bytes.
fn gate(dir: &Path, args: &[&str], code: i32) -> Output {
    let mut all = vec!["run", "--provision"];
    all.extend(args);
    let output = run(dir, &all, code);
    let again = run(dir, &["judge", common::RECORD, "--format", "json"], code);
    assert_eq!(stdout(&again), common::report(dir));
    if std::env::var_os("GATEKEEPER_SHOW").is_some() {
        println!("$ gatekeeper {}\n{}", all.join(" "), stdout(&output));
        println!("exit code {code}\n");
    }
    output
}

/// Joins the lines of a reason, which is wrapped to the width of a terminal with this indent.
fn unwrapped(text: &str) -> String {
    text.replace("\n    ", " ")
}

/// Returns true if the head of a problem names a subject: `✗ k/v@a, @b` names `k/v@b`.
fn names(head: &str, subject: &str) -> bool {
    let of_same_variant = || {
        let (variant, shape) = subject.split_once('@')?;
        let is_listed = head
            .split(", ")
            .any(|shape_name| shape_name == format!("@{shape}"));
        Some(head.contains(&format!("{variant}@")) && is_listed)
    };
    head.contains(subject) || of_same_variant().unwrap_or(false)
}

/// Returns the outcome and the reason of every verdict on a kernel, by gate.
fn verdicts(dir: &Path, kernel: &str) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_str(&common::report(dir)).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"];
            subject["unit"]["kernel"] == kernel || subject["case"]["kernel"] == kernel
        })
        .map(|verdict| {
            (
                text(&verdict["gate"]),
                text(&verdict["outcome"]),
                text(&verdict["message"]),
            )
        })
        .collect()
}

/// Returns the gates of a kernel that failed.
fn failed(dir: &Path, kernel: &str) -> Vec<String> {
    verdicts(dir, kernel)
        .into_iter()
        .filter(|(_, outcome, _)| outcome == "fail")
        .map(|(gate, ..)| gate)
        .collect()
}
