//! What keeps a run from passing, each cause once. Pure.

use super::names::named;
use super::reasons::Context;
use super::{beside, summary, words};
use std::collections::BTreeSet;
use verdict::model::{Judgement, Outcome, Reason, Record, Subject, Verdict};

/// Verdicts that ended alike for one reason: a fault breaks many gates, a source that does not compile many
/// subjects.
pub struct Problem<'a> {
    pub outcome: Outcome,
    pub code: &'static str,
    /// `k/fast@small, k/fast@large`; of many how many, by variant.
    pub subjects: String,
    /// `p50 +2%`, each once, in order.
    pub gates: Vec<String>,
    /// In one sentence.
    pub why: String,
    /// `gates.yaml:7, gates.yaml:19`.
    pub declared: Option<String>,
    /// The first of them.
    pub place: Option<&'a str>,
    /// Runs the first of the subjects alone, which is enough to see what they have in common.
    pub command: Option<String>,
}

/// The worst first, otherwise in the order of the gates; but for gates that were loosened, which have a place
/// of their own.
pub fn problems<'a>(record: &Record, judgement: &'a Judgement) -> Vec<Problem<'a>> {
    let groups = groups(judgement).into_iter();
    let problems = groups.map(|group| Problem {
        outcome: group.outcome,
        code: group.reason.code(),
        subjects: named(&record.plan, &group.subjects),
        gates: group.gates(),
        why: Context {
            environment: &record.environment,
            subjects: &group.subjects,
        }
        .sentence(group.reason),
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
    reason: &'a Reason,
    /// Of all subjects.
    verdicts: Vec<&'a Verdict>,
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

    fn declared(&self) -> Option<String> {
        let places = self.verdicts.iter().filter_map(|it| it.declared.as_deref());
        let places: Vec<_> = places.collect::<BTreeSet<_>>().into_iter().collect();
        (!places.is_empty()).then(|| places.join(", "))
    }
}

fn groups(judgement: &Judgement) -> Vec<Group<'_>> {
    // First the gates of one subject, then subjects whose gates are the same.
    let mut of_one: Vec<Group> = Vec::new();
    for outcome in [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive] {
        for verdict in judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome && beside::demand(verdict).is_none())
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
            (other.outcome, other.reason) == (group.outcome, group.reason)
                && other.gates() == group.gates()
        });
        match same {
            Some(other) => {
                other.subjects.extend(group.subjects);
                other.verdicts.extend(group.verdicts);
            }
            None => gathered.push(group),
        }
    }
    gathered
}
