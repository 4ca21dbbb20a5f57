//! For CI systems that show tests: a suite for each kernel, a test for each gate.

use super::{against_base, summary};
use crate::input::ReportInput;
use model::{Judgement, Outcome, Question, Record, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use system::error::{Error, Result};
use wording::escape;
use wording::reasons;
use wording::words;

/// # Errors
/// Environment, where it cannot be written as XML.
pub fn render(input: &ReportInput) -> Result<String> {
    let (record, judgement) = (input.record, input.judgement);
    let mut report = Report::new("gatekeeper");
    let mut kernels: Vec<&str> = Vec::new();
    for verdict in &judgement.verdicts {
        if !kernels.contains(&verdict.subject.kernel()) {
            kernels.push(verdict.subject.kernel());
        }
    }
    for kernel in kernels {
        let mut suite = TestSuite::new(kernel);
        suite.add_property(("circumstances", summary::circumstances(record).as_str()));
        if let Some(base) = &judgement.base {
            suite.add_property(("base", against_base::compared_with(base).as_str()));
        }
        let verdicts = judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.subject.kernel() == kernel);
        let accepted = |verdict: &Verdict| {
            let mut accepted = judgement.accepted.iter();
            accepted.any(|accepted| {
                accepted.subject == verdict.subject
                    && verdict.question == Question::Gate(accepted.rule.clone())
            })
        };
        suite.add_test_cases(
            verdicts.map(|verdict| test(record, judgement, verdict, accepted(verdict))),
        );
        report.add_test_suite(suite);
    }
    report
        .to_string()
        .map(|text| escape::xml(&without_skipped_of_all(&text)))
        .map_err(|error| Error::environment(format!("the JUnit report cannot be written: {error}")))
}

/// The schema of Jenkins' xunit plugin has this attribute for a suite and not for all of them, and refuses the file.
fn without_skipped_of_all(text: &str) -> String {
    let parts = text.split_once("<testsuites ").and_then(|(before, rest)| {
        let (tag, after) = rest.split_once('>')?;
        let (first, rest) = tag.split_once(" skipped=\"")?;
        let (_, last) = rest.split_once('"')?;
        Some(format!("{before}<testsuites {first}{last}>{after}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

fn test(record: &Record, judgement: &Judgement, verdict: &Verdict, accepted: bool) -> TestCase {
    let sentence = reasons::verdict(&record.environment, verdict);
    let status = match verdict.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Fail => broken(NonSuccessKind::Failure, record, judgement, verdict),
        // Neither held nor broken: a CI that counts only failures must not read them as passed.
        Outcome::Environment | Outcome::Inconclusive => {
            broken(NonSuccessKind::Error, record, judgement, verdict)
        }
        // Neither held nor blocking; what is expected as xfail of other test runners.
        Outcome::Skipped | Outcome::Unsupported | Outcome::Replaced | Outcome::Expected => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(sentence.as_str());
            status
        }
    };
    let mut case = TestCase::new(
        format!(
            "{}: {}",
            verdict.subject,
            words::question(&verdict.question)
        ),
        status,
    );
    if accepted {
        case.set_system_out(format!("accepted: {sentence}"));
    } else if verdict.outcome == Outcome::Pass && against_base::is_of_base(judgement, verdict) {
        // A pass on times rests on this: measured, or not run as nothing changed.
        case.set_system_out(sentence);
    }
    case.set_classname(format!(
        "{}.{}",
        verdict.subject.kernel(),
        verdict.subject.variant()
    ));
    case
}

fn broken(
    kind: NonSuccessKind,
    record: &Record,
    judgement: &Judgement,
    verdict: &Verdict,
) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status
        .set_type(verdict.reason.code())
        .set_message(reasons::verdict(&record.environment, verdict))
        .set_description(format!(
            "{}{}",
            verdict
                .declared
                .as_deref()
                .map_or(String::new(), |at| format!("by {at}")),
            summary::reproduce(record, judgement, &verdict.subject)
                .map_or(String::new(), |command| format!("\nalone: {command}"))
        ));
    status
}
