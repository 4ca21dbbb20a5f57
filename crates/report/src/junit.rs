//! Renders the report for CI systems that show tests: a suite for each kernel, a test for each gate, and one failure
//! for each problem.

use super::problems::{self, FrameLine};
use super::{against_base, summary};
use crate::input::ReportInput;
use model::{Outcome, Problem, Question, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use system::error::{Error, Result};
use wording::escape;
use wording::reasons;
use wording::words;

/// Renders the report as XML.
///
/// # Errors
/// Fails with an environment error if it cannot be written as XML.
pub fn render(input: &ReportInput) -> Result<String> {
    let (record, judgement) = (input.record, input.judgement);
    let mut report = Report::new("gatekeeper");
    let mut kernels: Vec<&str> = Vec::new();
    for verdict in &judgement.verdicts {
        if !kernels.contains(&verdict.subject.kernel()) {
            kernels.push(verdict.subject.kernel());
        }
    }
    let failing = Failing::new(input);
    for kernel in kernels {
        let mut suite = TestSuite::new(kernel);
        suite.add_property(("circumstances", summary::circumstances(record).as_str()));
        if let Some(base) = &judgement.base {
            suite.add_property(("base", against_base::compared_with(base).as_str()));
        }
        for (at, verdict) in judgement.verdicts.iter().enumerate() {
            if verdict.subject.kernel() == kernel {
                suite.add_test_case(test(input, at, verdict, &failing));
                suite.add_test_cases(failing.others(at));
            }
        }
        report.add_test_suite(suite);
    }
    report
        .to_string()
        .map(|text| escape::xml(&without_skipped_of_all(&text)))
        .map_err(|error| Error::unwritten("the JUnit report", error))
}

/// Removes an attribute from the root element. The schema of Jenkins' xunit plugin allows it for a suite only, and
/// refuses the file otherwise.
fn without_skipped_of_all(text: &str) -> String {
    let parts = text.split_once("<testsuites ").and_then(|(before, rest)| {
        let (tag, after) = rest.split_once('>')?;
        let (first, rest) = tag.split_once(" skipped=\"")?;
        let (_, last) = rest.split_once('"')?;
        Some(format!("{before}<testsuites {first}{last}>{after}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

/// Makes one failure for each problem. The test of the problem's first gate fails. The other gates that it broke are
/// skipped with the name of that test. If the gate is the first of another problem, too, that problem becomes a test of
/// its own.
struct Failing<'a> {
    input: &'a ReportInput<'a>,
    /// Problems by the position of the verdict whose test reports them.
    problems: BTreeMap<usize, Vec<&'a Problem>>,
    /// The first verdict of the problem that a verdict belongs to.
    first: BTreeMap<usize, usize>,
}

impl<'a> Failing<'a> {
    fn new(input: &'a ReportInput<'a>) -> Self {
        let mut problems: BTreeMap<usize, Vec<&Problem>> = BTreeMap::new();
        let mut first = BTreeMap::new();
        for problem in &input.judgement.problems {
            let all = || problem.verdicts.iter().chain(&problem.follows).copied();
            let free = all().find(|at| !first.contains_key(at));
            let Some(leader) = free.or_else(|| all().next()) else {
                continue;
            };
            problems.entry(leader).or_default().push(problem);
            for at in all() {
                first.entry(at).or_insert(leader);
            }
        }
        Self {
            input,
            problems,
            first,
        }
    }

    /// Returns the tests of further problems whose first gate is this one.
    fn others(&self, at: usize) -> impl Iterator<Item = TestCase> {
        let verdict = self.input.judgement.verdicts.get(at);
        let problems = self.problems.get(&at);
        let rest = problems.into_iter().flatten().skip(1);
        rest.zip(2..).filter_map(move |(problem, number)| {
            let verdict = verdict?;
            let name = format!("{}, problem {number}", name(verdict));
            Some(named(name, verdict, broken(self.input, problem)))
        })
    }

    fn status(&self, at: usize, verdict: &Verdict) -> TestCaseStatus {
        if let Some(problem) = self.problems.get(&at).and_then(|all| all.first()) {
            return broken(self.input, problem);
        }
        let first = self.first.get(&at);
        let first = first.and_then(|first| self.input.judgement.verdicts.get(*first));
        let sentence = reasons::verdict(&self.input.record.environment, verdict);
        let mut status = TestCaseStatus::skipped();
        status.set_message(match first {
            Some(first) => format!("the same problem as {}: {sentence}", name(first)),
            None => sentence,
        });
        status
    }
}

fn name(verdict: &Verdict) -> String {
    let question = words::question(&verdict.question);
    format!("{}: {question}", verdict.subject)
}

fn named(name: String, verdict: &Verdict, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(format!(
        "{}.{}",
        verdict.subject.kernel(),
        verdict.subject.variant()
    ));
    case
}

fn test(input: &ReportInput, at: usize, verdict: &Verdict, failing: &Failing) -> TestCase {
    let (record, judgement) = (input.record, input.judgement);
    let status = match verdict.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        // Gates that neither held nor block were not judged. An expected failure is like xfail of other test runners.
        Outcome::Fail
        | Outcome::Environment
        | Outcome::Inconclusive
        | Outcome::Skipped
        | Outcome::Unsupported
        | Outcome::Replaced
        | Outcome::Expected => failing.status(at, verdict),
    };
    let mut case = named(name(verdict), verdict, status);
    let is_accepted = judgement.accepted.iter().any(|accepted| {
        accepted.subject == verdict.subject
            && verdict.question == Question::Gate(accepted.rule.clone())
    });
    let sentence = || reasons::verdict(&record.environment, verdict);
    if is_accepted {
        case.set_system_out(format!("accepted: {}", sentence()));
    } else if verdict.outcome == Outcome::Pass && against_base::is_of_base(judgement, verdict) {
        // A pass on times rests on this sentence: measured, or not run because nothing changed.
        case.set_system_out(sentence());
    }
    case
}

/// Returns a failure, or an error if nothing was shown. A CI that counts only failures must not read that as passed.
fn broken(input: &ReportInput, problem: &Problem) -> TestCaseStatus {
    let kind = match problem.outcome {
        Outcome::Fail => NonSuccessKind::Failure,
        _ => NonSuccessKind::Error,
    };
    let block = problems::block(input, problem);
    let verdicts = problem.verdicts.iter().chain(&problem.follows);
    let sentences = verdicts
        .filter_map(|at| input.judgement.verdicts.get(*at))
        .map(|verdict| {
            let sentence = reasons::verdict(&input.record.environment, verdict);
            format!("{}: {sentence}", name(verdict))
        });
    let frame = block.frame.lines.iter().map(FrameLine::in_words);
    let command = block
        .command
        .iter()
        .map(|command| format!("alone: {command}"));
    let mut status = TestCaseStatus::non_success(kind);
    status
        .set_type(problem.code)
        .set_message(format!("{}: {}", block.subjects, block.title))
        .set_description(
            sentences
                .chain(frame)
                .chain(block.declared.iter().map(|at| format!("by {at}")))
                .chain(command)
                .collect::<Vec<_>>()
                .join("\n"),
        );
    status
}
