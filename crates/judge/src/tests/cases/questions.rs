//! The questions that a script can ask of its record, each answered in lines.

use super::super::*;
use super::Questions;
use super::line::{Line, lines};
use crate::fixture::script::{Answer, subject, text, text_of};
use std::collections::BTreeMap;

impl Questions {
    pub fn judgement(&self) -> Judgement {
        let Some(base) = &self.base else {
            return ruled(&self.script.head);
        };
        let judgement = compare(base, &self.script.head, self.loosening);
        expect_every_failure_in_a_problem(&judgement);
        judgement
    }

    /// Lists what is otherwise than at the start. Gates of a subject that say the same share a line.
    pub fn differences(&self) -> Vec<String> {
        let judgement = self.judgement();
        let now = lines(&judgement);
        let usual = match &self.base {
            Some(_) => &lines(&compare(
                &self.script.start,
                &self.script.start,
                Loosening::Fails,
            )),
            None => self.usual.get_or_init(|| lines(&judge(&self.script.start))),
        };
        let is_asked = |line: &Line| now.iter().any(|other| other.asks_like(line));
        let is_gone = |line: &&Line| !line.question.is_empty() && !is_asked(line);
        let gone = usual.iter().filter(is_gone).map(Line::gone);
        let differing: Vec<Line> = now
            .iter()
            .filter(|line| !usual.contains(line))
            .cloned()
            .chain(gone)
            .collect();
        let grouped = differing
            .chunk_by(|one, other| !one.question.is_empty() && one.says_like(other))
            .map(Line::join);
        std::iter::once(text_of(&judgement.conclusion))
            .chain(grouped)
            .collect()
    }

    pub fn whole_verdicts(&self, words: &str) -> Vec<String> {
        self.judgement()
            .verdicts
            .iter()
            .filter_map(|verdict| {
                let line = Line::join(&[Line::from_verdict(verdict)]);
                let is_meant = words.split(' ').all(|word| line.contains(word));
                let mut json = serde_json::to_value(verdict).unwrap();
                let fields = json.as_object_mut().unwrap();
                // The line already has these fields, and all gates of the fixture are declared at the same place.
                fields.retain(|field, value| {
                    let is_said = ["subject", "outcome", "question"].contains(&field.as_str());
                    !is_said && *value != "gates.yaml:7"
                });
                is_meant.then(|| format!("{line} {}", text(&json)))
            })
            .collect()
    }

    /// Lists problems as `findings [leak] of k/fast@small: no_findings -> finite`, the gates that follow last.
    pub fn problems(&self) -> Vec<String> {
        let judgement = self.judgement();
        let gates = |all: &[usize]| {
            all.iter()
                .map(|at| Line::from_verdict(&judgement.verdicts[*at]).question)
                .collect::<Vec<_>>()
                .join(", ")
        };
        judgement
            .problems
            .iter()
            .map(|problem| {
                let kinds = match &problem.cause {
                    ProblemCause::Findings { findings, .. } => {
                        let kinds: Vec<_> = findings.iter().map(|finding| finding.kind).collect();
                        Some(text_of(&kinds))
                    }
                    _ => None,
                };
                let since = problem.since_base.map(|since| text_of(&since));
                let cause = [since, Some(problem.code.to_owned()), kinds];
                let cause: Vec<_> = cause.into_iter().flatten().collect();
                let subjects: Vec<_> = problem.subjects.iter().map(Subject::to_string).collect();
                let (own, following) = (gates(&problem.verdicts), gates(&problem.follows));
                let (cause, subjects) = (cause.join(" "), subjects.join(", "));
                format!("{cause} of {subjects}: {own} -> {following}")
            })
            .collect()
    }

    pub fn values(&self, words: &str) -> Answer {
        let (of, metrics) = words.split_once(' ').ok_or("no metric")?;
        let index = index(&self.script.head);
        metrics
            .split(' ')
            .map(|name| {
                let metric = Metric::from_name(name).ok_or(format!("no metric: {name}"))?;
                Ok(match index.head().metric(&subject(of), metric) {
                    Ok(value) => format!("{name} {}", text_of(&Num(value.number))),
                    Err(why) => format!("{name} {}: {}", why.outcome, why.reason.code()),
                })
            })
            .collect()
    }

    pub fn acceptable(&self) -> Vec<String> {
        let (baselines, refused) = acceptable(&self.script.head, "seal");
        let made = baselines.iter().map(|baseline| {
            let values: BTreeMap<&String, BTreeMap<Metric, Num>> = baseline
                .cases
                .iter()
                .map(|(shape, figures)| {
                    let values = figures
                        .iter()
                        .map(|(metric, agreed)| (*metric, agreed.value));
                    (shape, values.collect())
                })
                .collect();
            let (variant, device) = (&baseline.variant, &baseline.origin.device);
            format!(
                "{variant} {} of {device}: {}",
                text_of(&baseline.key),
                text_of(&values)
            )
        });
        let refused = refused.iter().map(|refused| {
            let (subject, facet) = (&refused.subject, refused.facet);
            let reason = text_of(&refused.reason);
            format!("refused {subject} {facet:?}: {} {reason}", refused.outcome)
        });
        made.chain(refused).collect()
    }

    pub fn asked(&self) -> Vec<String> {
        asked(&self.script.head)
            .iter()
            .map(|(case, timing)| format!("{case} {timing:?}"))
            .collect()
    }

    pub fn admitted(&self) -> Vec<String> {
        let answer = |case: &CaseId, stage| match admit(&self.script.head, case, stage) {
            Admission::Yes => "yes".to_owned(),
            Admission::No { reason } => text_of(&reason),
        };
        let cases = self.script.head.plan.cases.iter().map(|case| &case.id);
        cases
            .map(|case| {
                let [check, time] = [Stage::Check, Stage::Time].map(|stage| answer(case, stage));
                format!("{case}: check {check}, time {time}")
            })
            .collect()
    }

    pub fn simulated(&self) -> Vec<String> {
        let head = &self.script.head;
        to_simulate(&head.plan, &head.environment, &head.policy, &head.evidence)
            .iter()
            .map(|(case, units)| {
                let units: Vec<_> = units.iter().map(|unit| unit.id.arch.to_string()).collect();
                format!("{} {}", case.id, units.join(" "))
            })
            .collect()
    }

    pub fn needed_of_base(&self) -> Vec<String> {
        let head = &self.script.head;
        needed_of_base(&head.plan, &head.environment, &head.policy, &head.evidence)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    pub fn profiled(&self) -> Vec<String> {
        let head = &self.script.head;
        to_profile(&head.plan, &head.environment, &head.policy, &head.evidence)
            .iter()
            .map(|profiled| {
                let sides = if profiled.against_base {
                    " and the base"
                } else {
                    ""
                };
                format!("{} {} times{sides}", profiled.case, profiled.repeats)
            })
            .collect()
    }

    /// Lists the tasks that rivals are given beside these cases, each with the number of its process.
    pub fn turns_of_rivals(&self, cases: &str) -> Vec<String> {
        let head = &self.script.head;
        let wanted: Vec<CaseId> = cases
            .split_whitespace()
            .filter_map(|case| match subject(case) {
                Subject::Case(case) => Some(case),
                Subject::Unit(_) => None,
            })
            .collect();
        next_rivals(
            &head.plan,
            &head.environment,
            &head.policy,
            &head.evidence,
            &wanted,
        )
        .iter()
        .flat_map(|turn| turn.tasks.iter().map(|task| (&turn.rival.name, task)))
        .map(|(rival, task)| {
            let (case, process, processes) = (task.task, task.process, task.processes);
            format!("{rival} {case}, process {process} of {processes}")
        })
        .collect()
    }
}
