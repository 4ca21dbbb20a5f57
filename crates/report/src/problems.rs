//! Problems that keep a run from passing, each cause once. Pure.

use super::{against_base, causes, summary};
use judge::Index;
use model::{Facet, Judgement, Outcome, Reason, Record, Subject, Verdict};
use std::collections::BTreeSet;
use wording::names::named;
use wording::reasons::Context;
use wording::words;

/// Verdicts that ended alike for one reason: a fault breaks many gates, a source that does not compile many
/// subjects.
pub struct Problem<'a> {
    pub outcome: Outcome,
    pub code: &'static str,
    /// `k/fast@small, k/fast@large`; of many how many, by variant.
    pub subjects: String,
    /// `p50 +2%`, each once, in order.
    pub gates: Vec<String>,
    /// In one sentence; of values that have one cause, a line each.
    pub why: String,
    /// The cause, where it is about speed and the base is known: `more barriers at k.cu:12`. Said once.
    pub cause: Option<String>,
    /// `gates.yaml:7, gates.yaml:19`.
    pub declared: Option<String>,
    /// The first of them.
    pub place: Option<&'a str>,
    /// Runs the first of the subjects alone, which is enough to see what they have in common.
    pub command: Option<String>,
}

/// The worst first, otherwise in the order of the gates; but for gates that were loosened, which have a place
/// of their own.
pub fn problems<'a>(index: &Index, record: &Record, judgement: &'a Judgement) -> Vec<Problem<'a>> {
    let blocking = [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive];
    ended(index, record, judgement, &blocking)
}

/// The verdicts that ended in one of these ways, those of the first before those of the next.
pub fn ended<'a>(
    index: &Index,
    record: &Record,
    judgement: &'a Judgement,
    outcomes: &[Outcome],
) -> Vec<Problem<'a>> {
    let groups = groups(judgement, outcomes).into_iter();
    let mut said: BTreeSet<String> = BTreeSet::new();
    let problems = groups.map(|group| Problem {
        cause: causes::first(index, &group.verdicts).filter(|cause| said.insert(cause.clone())),
        outcome: group.outcome,
        code: group.reason.code(),
        subjects: named(&record.plan, &group.subjects),
        gates: group.gates(),
        why: group.why(record),
        declared: group.declared(),
        place: group.verdicts.iter().find_map(|it| it.declared.as_deref()),
        command: group
            .subjects
            .iter()
            .find_map(|subject| summary::reproduce(record, judgement, subject)),
    });
    problems.collect()
}

struct Group<'a> {
    /// At least one. Each has all of the gates.
    subjects: Vec<&'a Subject>,
    outcome: Outcome,
    /// The reason of the first.
    reason: &'a Reason,
    /// Verdicts on all subjects.
    verdicts: Vec<&'a Verdict>,
}

/// Slower is slower, in each of its times and at each of its shapes.
fn have_one_cause(one: &Group, other: &Group) -> bool {
    let of = |group: &Group| {
        let Reason::BeyondChange(comparison) = group.reason else {
            return None;
        };
        let subject = group.subjects.first()?;
        let unit = (subject.kernel().to_owned(), subject.variant().to_owned());
        let is_time = comparison.metric.facet() == Facet::Times;
        is_time.then(|| (unit, comparison.against.clone()))
    };
    of(one).is_some_and(|cause| of(other) == Some(cause))
}

impl Group<'_> {
    fn gates(&self) -> Vec<String> {
        let mut names = Vec::new();
        for verdict in &self.verdicts {
            let name = words::question(&verdict.question);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn why(&self, record: &Record) -> String {
        let sentence = |subjects: &[&Subject], reason| {
            let environment = &record.environment;
            let context = Context {
                environment,
                subjects,
            };
            context.sentence(reason)
        };
        if self.verdicts.iter().all(|it| it.reason == *self.reason) {
            return sentence(&self.subjects, self.reason);
        }
        let lines = self.verdicts.iter().map(|it| {
            let said = sentence(&[&it.subject], &it.reason);
            format!("{}: {said}", it.subject)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn declared(&self) -> Option<String> {
        let places = self.verdicts.iter().filter_map(|it| it.declared.as_deref());
        let places: Vec<_> = places.collect::<BTreeSet<_>>().into_iter().collect();
        (!places.is_empty()).then(|| places.join(", "))
    }
}

/// By what each subject fails that is meant to: `k/racy@tile: memory and races, max_err <= 0.001`. Why is in
/// `report.json`: of what is as it should be nobody reads it in every run.
pub fn expected(judgement: &Judgement) -> Vec<String> {
    let mut found: Vec<(&Subject, Vec<String>)> = Vec::new();
    let verdicts = judgement.verdicts.iter();
    for verdict in verdicts.filter(|it| it.outcome == Outcome::Expected) {
        let gate = words::question(&verdict.question);
        match found.iter_mut().find(|(of, _)| **of == verdict.subject) {
            Some((_, gates)) => gates.push(gate),
            None => found.push((&verdict.subject, vec![gate])),
        }
    }
    let lines = found.into_iter();
    lines
        .map(|(subject, gates)| format!("{subject}: {}", gates.join(", ")))
        .collect()
}

/// The fallbacks: `k/fast@small: max_err <= 0.001: falls back on ...`.
pub fn replaced(index: &Index, record: &Record, judgement: &Judgement) -> Vec<String> {
    let ended = ended(index, record, judgement, &[Outcome::Replaced]).into_iter();
    let lines = ended.map(|it| format!("{}: {}: {}", it.subjects, it.gates.join(", "), it.why));
    lines.collect()
}

fn groups<'a>(judgement: &'a Judgement, outcomes: &[Outcome]) -> Vec<Group<'a>> {
    // First the gates of one subject, then subjects whose gates are the same.
    let mut of_one: Vec<Group> = Vec::new();
    for &outcome in outcomes {
        for verdict in judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome && !against_base::is_looser(verdict))
        {
            let known = of_one.iter_mut().find(|group| {
                group.outcome == outcome
                    && group.subjects == [&verdict.subject]
                    && *group.reason == verdict.reason
            });
            match known {
                Some(group) => group.verdicts.push(verdict),
                None => of_one.push(Group {
                    subjects: vec![&verdict.subject],
                    outcome,
                    reason: &verdict.reason,
                    verdicts: vec![verdict],
                }),
            }
        }
    }
    let mut gathered: Vec<Group> = Vec::new();
    for group in of_one {
        let same = gathered.iter_mut().find(|other| {
            let is_alike = other.reason == group.reason && other.gates() == group.gates();
            other.outcome == group.outcome && (is_alike || have_one_cause(other, &group))
        });
        match same {
            Some(other) => {
                let subjects = group.subjects.into_iter();
                let new = subjects.filter(|it| !other.subjects.contains(it));
                let new: Vec<_> = new.collect();
                other.subjects.extend(new);
                other.verdicts.extend(group.verdicts);
            }
            None => gathered.push(group),
        }
    }
    gathered
}
