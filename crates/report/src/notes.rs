//! Writes the notes that accompany the verdicts, a line each.

use super::{against_base, summary};
use model::*;
use std::collections::{BTreeMap, BTreeSet};
use wording::names::{in_words, named};
use wording::reasons;
use wording::words::{self, plural};

/// Returns the notes that a reader of the verdicts needs: checks that were not made as at the base, and times to doubt.
pub fn about_run(record: &Record, judgement: &Judgement) -> Vec<String> {
    lines(record, judgement, is_about_run)
}

/// Returns the other notes. New values are gathered into one note for each facet, and values that are gone into one for
/// each variant.
pub fn about_cases(record: &Record, judgement: &Judgement) -> Vec<String> {
    let intended = if_intended(record, judgement);
    let known = if_known(judgement);
    let mut lines = lines(record, judgement, |note| !is_about_run(note));
    lines.extend(intended.chain(known));
    lines
}

fn is_about_run(note: &Note) -> bool {
    match note {
        Note::LeftOut { .. }
        | Note::NewInputs { .. }
        | Note::Renamed(_)
        | Note::Moved(_)
        | Note::Broken { .. }
        | Note::NotJudged { .. }
        | Note::NotCompared { .. }
        | Note::WarpHazard { .. }
        | Note::Throttled { .. }
        | Note::Shared { .. } => true,
        Note::New { .. }
        | Note::Gone { .. }
        | Note::Printed { .. }
        | Note::NotHeld { .. }
        | Note::TwoModes { .. }
        | Note::Unwatched { .. } => false,
    }
}

fn lines(record: &Record, judgement: &Judgement, is_meant: fn(&Note) -> bool) -> Vec<String> {
    let mut new: BTreeMap<Facet, BTreeSet<&Subject>> = BTreeMap::new();
    let mut of_several: BTreeMap<String, BTreeSet<&Subject>> = BTreeMap::new();
    let mut gone: BTreeMap<(&str, &str), BTreeMap<&str, BTreeSet<Facet>>> = BTreeMap::new();
    let mut lines = Vec::new();
    for note in judgement.notes.iter().filter(|note| is_meant(note)) {
        match note {
            Note::New { subject, facet } => {
                new.entry(*facet).or_default().insert(subject);
            }
            Note::Gone { kernel, variant, shape, facet } => {
                let shapes = gone.entry((kernel, variant)).or_default();
                shapes.entry(shape).or_default().insert(*facet);
            }
            Note::LeftOut { cases } => {
                let subjects: Vec<_> = cases.iter().cloned().map(Subject::Case).collect();
                let subjects = in_words(&record.plan, &subjects.iter().collect());
                lines.push(format!("not compared, as a filter left them out of the head: {subjects}"));
            }
            Note::NewInputs { subject, neutral } => {
                lines.push(format!(
                    "{subject}: the reference takes inputs that the base's did not; with {} it computes the same",
                    neutral.iter().map(|neutral| format!("{} = {}", neutral.tensor, neutral.value.0)).collect::<Vec<_>>().join(", ")
                ));
            }
            Note::Renamed(rename) => lines.push(words::rename(rename)),
            Note::Moved(MovedGates { file, cases, binaries }) => {
                let cases = cases.iter().cloned().map(Subject::Case);
                let binaries = binaries.iter().cloned().map(Subject::Unit);
                let subjects: Vec<_> = cases.chain(binaries).collect();
                let subjects = in_words(&record.plan, &subjects.iter().collect());
                lines.push(format!(
                    "not judged by this run, as they moved to {file}: {subjects}; the run of that file judges them"
                ));
            }
            Note::Broken { path, problem } => {
                lines.push(format!("{path} cannot be read: {problem}"));
            }
            Note::NotJudged { subject, what } => {
                let remark = format!("the simulator's checks do not judge {what}");
                of_several.entry(remark).or_default().insert(subject);
            }
            Note::WarpHazard { subject, finding, more } => {
                let others = match more {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let remark = format!(
                    "{}{others}; `__syncwarp()` between the two orders them",
                    wording::findings::message(finding)
                );
                of_several.entry(remark).or_default().insert(subject);
            }
            Note::NotHeld { subject, counters, why } => {
                let withheld = WithheldCounters { counters: counters.clone(), why: why.clone() };
                let remark = format!("not gated: {}", reasons::withheld_counters(&withheld));
                of_several.entry(remark).or_default().insert(subject);
            }
            Note::NotCompared { subject, elements, left_out } => {
                let all = elements + left_out;
                let remark = format!(
                    "not compared, as `compare` leaves them out: {left_out} of {all} elements ({:.1} %)",
                    *left_out as f64 / all as f64 * 100.0
                );
                of_several.entry(remark).or_default().insert(subject);
            }
            // The output of cases that failed has lines of its own (`printed`).
            Note::Printed { .. } => {}
            Note::TwoModes { subject, fast_ns, slow_ns, slow_share } => lines.push(format!(
                "{subject}: single launches have two modes: {} ({:.0} %), {} ({:.0} %)",
                words::quantity(Metric::P99, fast_ns.0),
                (1.0 - slow_share.0) * 100.0,
                words::quantity(Metric::P99, slow_ns.0),
                slow_share.0 * 100.0,
            )),
            Note::Throttled { subject, processes } => lines.push(format!(
                "{subject}: {} ran on a throttled GPU and did not count",
                plural(*processes as usize, "timing process")
            )),
            Note::Unwatched { subject, processes } => lines.push(format!(
                "{subject}: whether the GPU was throttled during {} is not known, NVML does not tell",
                plural(*processes as usize, "timing process")
            )),
            Note::Shared { subject, processes, others } => {
                lines.push(format!(
                    "{subject}: others computed on the GPU during {}: {}",
                    plural(*processes as usize, "timing process"),
                    words::processes(others)
                ));
            }
        }
    }
    let is_compiled = |subject: &&Subject| record.plan.is_compiled(subject);
    let new = new.into_iter().flat_map(|(facet, subjects)| {
        let (compiled, built): (BTreeSet<_>, BTreeSet<_>) =
            subjects.into_iter().partition(is_compiled);
        let line = |subjects: &BTreeSet<&Subject>, command: &str| {
            let subjects = in_words(&record.plan, subjects);
            format!("new, without any baseline: {facet} of {subjects}; accept with `{command}`")
        };
        let config = words::config(&record.environment);
        let built = (!built.is_empty())
            .then(|| line(&built, &format!("gatekeeper baseline update{config}")));
        let compiled = (!compiled.is_empty()).then(|| {
            if record.has_binaries() {
                line(
                    &compiled,
                    &words::update_binaries_command(&record.environment),
                )
            } else {
                // The older of two files is not a baseline that could be updated.
                format!(
                    "the older file does not state every value that is limited of {}",
                    in_words(&record.plan, &compiled)
                )
            }
        });
        built.into_iter().chain(compiled)
    });
    let gone = gone.into_iter().map(|((kernel, variant), shapes)| {
        let shapes = shapes.into_iter().map(|(shape, facets)| {
            let facets: Vec<_> = facets.iter().map(ToString::to_string).collect();
            format!("@{shape} ({})", facets.join(", "))
        }).collect::<Vec<_>>().join(", ");
        format!("gone: baselines/{kernel}/{variant} has values that gates.yaml has no case for: {shapes}")
    });
    let of_several = of_several
        .into_iter()
        .map(|(remark, subjects)| format!("{remark}: {}", in_words(&record.plan, &subjects)));
    new.chain(gone).chain(lines).chain(of_several).collect()
}

/// Says what to do if worse values are intended: values worse than their baseline, and counters worse than the base's.
fn if_intended(record: &Record, judgement: &Judgement) -> impl Iterator<Item = String> {
    let is_worse = |verdict: &&Verdict| {
        verdict.outcome == Outcome::Fail
            && match &verdict.question {
                Question::Gate(Rule::Limit {
                    limit: Limit::Baseline { .. },
                    ..
                }) => {
                    !against_base::is_of_base(judgement, verdict)
                        && verdict.change.is_some_and(|change| change.0.is_finite())
                }
                Question::Gate(Rule::Counters { .. }) => judgement
                    .counters
                    .iter()
                    .any(|counter| counter.subject == verdict.subject),
                _ => false,
            }
    };
    let worse: BTreeSet<&Subject> = judgement
        .verdicts
        .iter()
        .filter(is_worse)
        .map(|verdict| &verdict.subject)
        .collect();
    let (compiled, built): (Vec<&Subject>, Vec<&Subject>) = worse
        .into_iter()
        .partition(|subject| record.plan.is_compiled(subject));
    let line = |worse: &[&Subject], command: &str| {
        format!(
            "worse than before: {}; where that is intended, take it as the new baseline with `{command}`, or accept it for a time in baselines/accepted.yaml",
            named(&record.plan, worse)
        )
    };
    let built = (!built.is_empty() && summary::is_ours(&record.environment)).then(|| {
        let command = words::accept_worse_command(&record.environment, &built);
        line(&built, &command)
    });
    let compiled = (!compiled.is_empty() && record.has_binaries()).then(|| {
        let command = words::update_binaries_command(&record.environment) + " --allow-worse";
        line(&compiled, &command)
    });
    built.into_iter().chain(compiled)
}

/// Says how to accept the finding that is shown first, for somebody who wants to repair it later.
fn if_known(judgement: &Judgement) -> Option<String> {
    let finding = judgement
        .problems
        .iter()
        .find_map(|problem| match &problem.cause {
            ProblemCause::Findings { findings, .. } => findings.first(),
            ProblemCause::Verdict(reason) => first_finding(reason),
            ProblemCause::Arguments(_) | ProblemCause::Loosened => None,
        })?;
    let SourceLine { file, text, .. } = finding
        .places
        .iter()
        .filter_map(|place| place.line.as_ref())
        .find(|line| line.text.is_some())?;
    // YAML accepts a string that JSON quotes.
    let quoted = |text: &str| serde_json::to_string(text).ok();
    let (file, line) = (quoted(file)?, quoted(text.as_ref()?)?);
    Some(format!(
        "a finding can be accepted for a time in baselines/accepted.yaml, the first here as `finding: {{kind: {}, file: {file}, line: {line}}}`",
        finding.kind.name()
    ))
}

fn first_finding(reason: &Reason) -> Option<&Finding> {
    match reason {
        Reason::Findings { first, .. } | Reason::NewHazards { first, .. } => first.first(),
        Reason::OnArchitecture { why, .. } => first_finding(why),
        _ => None,
    }
}
