//! Groups the verdicts that did not hold into problems, one for each cause, with the verdicts that likely follow from
//! it. It decides nothing: the conclusion rests on the verdicts alone.
//!
//! The grouping takes verdicts out of a list of open ones, from the most to the least certain explanation:
//!
//! 1. Verdicts that say that head asks less than the base are one problem.
//! 2. A case whose arguments have other types than the kernel's parameters: its wrong values, findings and faults
//!    follow from that. The same misfit in another case is the same problem.
//! 3. A case in which the simulator found something: each group of findings that share source lines (`findings`) is a
//!    problem, and the case's wrong values follow from the first group that can change a value.
//! 4. A case with several wrong values: the most basic one explains the others (`depth`), and cases of one kernel that
//!    fail in the same way are one problem.
//! 5. Each verdict that is left stands alone or joins an equal one: one fault, one reason, or the costs of one variant.
//!
//! Last, problems of several variants of a kernel that fail the same gates are joined (`likeness`). The grouping is a
//! guess about causes: it can put two faults that share a line into one problem, and a wrong value that has a second
//! cause of its own shows only after the first is mended.

mod findings;
mod likeness;
mod since;

use super::index::View;
use findings::Suspect;
use likeness::Likeness;
use model::*;

/// The kind of a problem, in the order of the list: a problem that can explain others comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Arguments,
    /// The kernel does not build, or breaks when it runs.
    Broken,
    Findings,
    WrongValues,
    Rule,
    Loosened,
    Cost,
}

struct Draft {
    rank: Rank,
    problem: Problem,
}

/// Returns the problems of a judgement: failures first, among them the new ones first, and causes before what they can
/// explain.
pub(super) fn group(view: View, verdicts: &[Verdict]) -> Vec<Problem> {
    let mut drafts = Drafts {
        verdicts,
        all: Vec::new(),
    };
    let is_open = |at: &usize| verdicts.get(*at).is_some_and(is_blocking);
    let mut open: Vec<usize> = (0..verdicts.len()).filter(is_open).collect();

    drafts.take_loosened(&mut open);
    for case in &view.plan().cases {
        drafts.take_mistyped(view, &case.id, &mut open);
        drafts.take_findings(view, &case.id, &mut open);
    }
    drafts.take_wrong_values(&mut open);
    for at in open {
        drafts.add_alone(at);
    }

    let mut all = drafts.all;
    for draft in &mut all {
        let problem = &mut draft.problem;
        problem.since_base = since::compare_with_base(view, verdicts, problem);
    }
    let mut all = join_alike(all, verdicts);
    // The sort is stable, so that equal problems keep the order of their verdicts.
    all.sort_by_key(|draft| {
        let newness = match draft.problem.since_base {
            Some(SinceBase::New) => 0,
            None => 1,
            Some(SinceBase::Old) => 2,
        };
        (draft.problem.outcome, newness, draft.rank)
    });
    all.into_iter().map(|draft| draft.problem).collect()
}

/// Joins problems of a kernel that are one: the same gates fail in several variants, and are equally new.
fn join_alike(drafts: Vec<Draft>, verdicts: &[Verdict]) -> Vec<Draft> {
    let mut joined: Vec<(Option<Likeness>, Draft)> = Vec::new();
    for draft in drafts {
        let likeness = match draft.rank {
            Rank::Rule | Rank::Cost => Likeness::from_problem(&draft.problem, verdicts),
            Rank::Arguments
            | Rank::Broken
            | Rank::Findings
            | Rank::WrongValues
            | Rank::Loosened => None,
        };
        let known = joined.iter_mut().find(|(known, _)| {
            let both = known.as_ref().zip(likeness.as_ref());
            both.is_some_and(|(known, likeness)| known.is_like(likeness))
        });
        let Some((_, known)) = known else {
            joined.push((likeness, draft));
            continue;
        };
        let (known, problem) = (&mut known.problem, draft.problem);
        for subject in problem.subjects {
            if !known.subjects.contains(&subject) {
                known.subjects.push(subject);
            }
        }
        known.verdicts.extend(problem.verdicts);
        known.follows.extend(problem.follows);
    }
    joined.into_iter().map(|(_, draft)| draft).collect()
}

fn is_blocking(verdict: &Verdict) -> bool {
    match verdict.outcome {
        Outcome::Fail | Outcome::Environment | Outcome::Inconclusive => true,
        Outcome::Unsupported
        | Outcome::Skipped
        | Outcome::Replaced
        | Outcome::Expected
        | Outcome::Pass => false,
    }
}

/// Returns the reason without the architecture that it holds for.
fn reason_of(verdict: &Verdict) -> &Reason {
    without_architecture(&verdict.reason)
}

fn without_architecture(reason: &Reason) -> &Reason {
    match reason {
        Reason::OnArchitecture { why, .. } => why,
        reason => reason,
    }
}

fn rule_of(verdict: &Verdict) -> Option<&Rule> {
    match &verdict.question {
        Question::Gate(rule) => Some(rule),
        Question::Baseline
        | Question::Acceptance(_)
        | Question::NoLooser(_)
        | Question::Failure(_)
        | Question::UngatedResources => None,
    }
}

/// Returns true if the verdict fails a gate on the values that a kernel computes.
fn is_wrong_value(verdict: &Verdict) -> bool {
    let is_about_values = match rule_of(verdict) {
        Some(Rule::Finite | Rule::Written | Rule::Deterministic) => true,
        Some(Rule::Limit { metric, .. }) => metric.facet() == Facet::Correctness,
        _ => false,
    };
    let has_value = matches!(
        reason_of(verdict),
        Reason::NonFinite { .. }
            | Reason::Unwritten { .. }
            | Reason::StoredUndefined { .. }
            | Reason::Nondeterministic { .. }
            | Reason::FirstLaunchOnly { .. }
            | Reason::NotANumber { .. }
            | Reason::BeyondLimit { .. }
            | Reason::BeyondChange(_)
    );
    verdict.outcome == Outcome::Fail && is_about_values && has_value
}

/// Returns true if a verdict failed because of findings of the simulator.
fn is_finding(verdict: &Verdict) -> bool {
    let is_found = matches!(
        reason_of(verdict),
        Reason::Findings { .. } | Reason::NewHazards { .. }
    );
    verdict.outcome == Outcome::Fail && is_found
}

fn is_of_case(verdict: &Verdict, id: &CaseId) -> bool {
    matches!(&verdict.subject, Subject::Case(of) if of == id)
}

/// Ranks the wrong values of a case: the lowest explains the others. An element that nobody writes is not finite, and
/// an element that is not finite makes the error NaN.
fn depth(reason: &Reason) -> u8 {
    match reason {
        Reason::StoredUndefined { .. } => 0,
        Reason::Unwritten { .. } => 1,
        Reason::NonFinite { .. } => 2,
        Reason::FirstLaunchOnly { .. } | Reason::Nondeterministic { .. } => 3,
        Reason::NotANumber { .. } => 4,
        _ => 5,
    }
}

/// Returns true if a broken gate limits what a kernel costs: times, counters or resources.
fn is_cost(verdict: &Verdict) -> bool {
    let is_compared = matches!(
        reason_of(verdict),
        Reason::BeyondLimit { .. }
            | Reason::BeyondChange(_)
            | Reason::CountersRose { .. }
            | Reason::UngatedWorse { .. }
            | Reason::AcceptedUntil { .. }
            | Reason::BeyondAccepted { .. }
    );
    let is_about_cost = match rule_of(verdict) {
        Some(Rule::Counters { .. }) => true,
        Some(Rule::Limit { metric, .. }) => metric.facet() != Facet::Correctness,
        _ => verdict.question == Question::UngatedResources,
    };
    is_compared && is_about_cost
}

struct Drafts<'a> {
    verdicts: &'a [Verdict],
    all: Vec<Draft>,
}

impl Drafts<'_> {
    fn verdict(&self, at: usize) -> Option<&Verdict> {
        self.verdicts.get(at)
    }

    /// Adds verdicts to the first draft of the same rank and outcome that `is_same`, or else to a new one with this
    /// cause.
    fn join(
        &mut self,
        rank: Rank,
        cause: ProblemCause,
        own: &[usize],
        follows: &[usize],
        is_same: impl Fn(&Problem) -> bool,
    ) {
        let own_verdicts = own
            .iter()
            .chain(follows)
            .filter_map(|at| self.verdicts.get(*at));
        let Some(outcome) = own_verdicts.clone().map(|verdict| verdict.outcome).min() else {
            return;
        };
        let subjects: Vec<&Subject> = own_verdicts.map(|verdict| &verdict.subject).collect();
        let at = self.all.iter_mut().position(|draft| {
            let problem = &draft.problem;
            draft.rank == rank && problem.outcome == outcome && is_same(problem)
        });
        if at.is_none() {
            self.all.push(Draft {
                rank,
                problem: Problem {
                    outcome,
                    code: cause.code(),
                    cause,
                    subjects: Vec::new(),
                    verdicts: Vec::new(),
                    follows: Vec::new(),
                    since_base: None,
                },
            });
        }
        let last = self.all.len() - 1;
        let Some(draft) = self.all.get_mut(at.unwrap_or(last)) else {
            return;
        };
        let problem = &mut draft.problem;
        for subject in subjects {
            if !problem.subjects.contains(subject) {
                problem.subjects.push(subject.clone());
            }
        }
        problem.verdicts.extend(own);
        problem.follows.extend(follows);
    }

    fn take_loosened(&mut self, open: &mut Vec<usize>) {
        let is_loosened = |verdict: &Verdict| {
            matches!(verdict.question, Question::NoLooser(_))
                && matches!(verdict.reason, Reason::Loosened(_))
        };
        let found = take(open, |at| self.verdict(at).is_some_and(is_loosened));
        for at in found {
            self.join(Rank::Loosened, ProblemCause::Loosened, &[at], &[], |_| true);
        }
    }

    /// Takes the verdicts of a case whose arguments do not fit, if that can explain them.
    fn take_mistyped(&mut self, view: View, id: &CaseId, open: &mut Vec<usize>) {
        let mistyped = mistyped(view, id);
        if mistyped.is_empty() {
            return;
        }
        let is_due_to_arguments = |verdict: &Verdict| {
            let is_due = match reason_of(verdict) {
                Reason::InputWritten { .. } | Reason::WroteOutside { .. } => true,
                Reason::Fault(_) => verdict.outcome == Outcome::Fail,
                _ => is_wrong_value(verdict) || is_finding(verdict),
            };
            is_due && is_of_case(verdict, id)
        };
        let found = take(open, |at| self.verdict(at).is_some_and(is_due_to_arguments));
        let cause = ProblemCause::Arguments(mistyped.to_vec());
        self.join(Rank::Arguments, cause, &[], &found, |problem| {
            likeness::are_same_arguments(&problem.cause, mistyped)
        });
    }

    /// Makes a problem of each suspect among the findings of a case. The wrong values of the case follow from the first
    /// suspect that can change values.
    fn take_findings(&mut self, view: View, id: &CaseId, open: &mut Vec<usize>) {
        let own = take(open, |at| {
            self.verdict(at)
                .is_some_and(|verdict| is_of_case(verdict, id) && is_finding(verdict))
        });
        if own.is_empty() {
            return;
        }
        let suspects = findings::suspects(view, id);
        if suspects.is_empty() {
            own.iter().for_each(|at| self.add_alone(*at));
        }
        // Leaked memory explains no wrong value.
        let explains = suspects.iter().position(Suspect::can_change_values);
        for (at, suspect) in suspects.iter().enumerate() {
            let cause = ProblemCause::Findings {
                seed: suspect.seed,
                findings: suspect.findings.iter().copied().cloned().collect(),
            };
            let follows = if explains == Some(at) {
                take(open, |at| {
                    self.verdict(at)
                        .is_some_and(|verdict| is_of_case(verdict, id) && is_wrong_value(verdict))
                })
            } else {
                Vec::new()
            };
            self.join(Rank::Findings, cause, &own, &follows, |problem| {
                suspect.is_same(&problem.cause)
            });
        }
    }

    /// Makes a problem of each case's most basic wrong value, which its other wrong values follow from. Cases of one
    /// kernel that fail in the same way share a problem.
    fn take_wrong_values(&mut self, open: &mut Vec<usize>) {
        let verdicts = self.verdicts;
        let wrong = take(open, |at| verdicts.get(at).is_some_and(is_wrong_value));
        let mut by_case: Vec<(&Subject, Vec<usize>)> = Vec::new();
        for at in wrong {
            let Some(verdict) = verdicts.get(at) else {
                continue;
            };
            match by_case.iter_mut().find(|(of, _)| **of == verdict.subject) {
                Some((_, all)) => all.push(at),
                None => by_case.push((&verdict.subject, vec![at])),
            }
        }
        for (subject, mut all) in by_case {
            all.sort_by_key(|at| verdicts.get(*at).map(|verdict| depth(reason_of(verdict))));
            let Some((&first, rest)) = all.split_first() else {
                continue;
            };
            let Some(verdict) = verdicts.get(first) else {
                continue;
            };
            let cause = ProblemCause::Verdict(Box::new(verdict.reason.clone()));
            let code = cause.code();
            self.join(Rank::WrongValues, cause, &[first], rest, |problem| {
                let first = problem.verdicts.first().and_then(|at| verdicts.get(*at));
                let is_alike = first.is_some_and(|first| first.metric() == verdict.metric());
                let kernel = problem.subjects.first().map(Subject::kernel);
                problem.code == code && is_alike && kernel == Some(subject.kernel())
            });
        }
    }

    /// Adds a verdict that no earlier step explains.
    fn add_alone(&mut self, at: usize) {
        let verdicts = self.verdicts;
        let Some(verdict) = verdicts.get(at) else {
            return;
        };
        let cause = ProblemCause::Verdict(Box::new(verdict.reason.clone()));
        let code = cause.code();
        if verdict.outcome != Outcome::Fail {
            // Verdicts that did not fail are grouped by the code of their reason, whatever numbers it has for each
            // case.
            return self.join(Rank::Rule, cause, &[at], &[], |problem| {
                problem.code == code
            });
        }
        if is_cost(verdict) {
            let kernel_and_variant =
                |subject: &Subject| (subject.kernel().to_owned(), subject.variant().to_owned());
            let own = kernel_and_variant(&verdict.subject);
            return self.join(Rank::Cost, cause, &[at], &[], |problem| {
                problem.subjects.first().map(kernel_and_variant) == Some(own.clone())
            });
        }
        match reason_of(verdict) {
            Reason::Fault(fault) => {
                let rank = match fault.kind {
                    FaultKind::Arguments => Rank::Arguments,
                    _ => Rank::Broken,
                };
                let is_same = |problem: &Problem| {
                    let ProblemCause::Verdict(known) = &problem.cause else {
                        return false;
                    };
                    matches!(without_architecture(known), Reason::Fault(known) if is_same_fault(known, fault))
                };
                // One fault breaks every gate of a case. The first of them names it, and the others follow.
                let is_repeated = self.all.iter().any(|draft| {
                    is_same(&draft.problem) && draft.problem.subjects.contains(&verdict.subject)
                });
                if is_repeated {
                    self.join(rank, cause, &[], &[at], is_same)
                } else {
                    self.join(rank, cause, &[at], &[], is_same)
                }
            }
            reason => self.join(
                Rank::Rule,
                cause,
                &[at],
                &[],
                |problem| matches!(&problem.cause, ProblemCause::Verdict(known) if **known == *reason),
            ),
        }
    }
}

/// Compares two faults by the line or instruction if it is known, and else by their messages.
fn is_same_fault(one: &Fault, other: &Fault) -> bool {
    let is_same_place = match (&one.site, &other.site) {
        (Some(one), Some(other)) => one.is_at(other),
        (None, None) => one.message == other.message,
        _ => false,
    };
    one.kind == other.kind && is_same_place
}

/// Returns the tensors of a case that its entries may read as another type. They are the same for every architecture.
fn mistyped<'a>(view: View<'_, 'a>, id: &CaseId) -> &'a [Mistyped] {
    view.plan()
        .units
        .iter()
        .filter(|unit| (&unit.id.kernel, &unit.id.variant) == (&id.kernel, &id.variant))
        .filter_map(|unit| view.build(&unit.id).ok())
        .next()
        .map_or(&[], |facts| &facts.mistyped)
}

/// Moves the verdicts that `is_meant` selects out of the list.
fn take(open: &mut Vec<usize>, is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    let (taken, left) = open.iter().partition(|at| is_meant(**at));
    *open = left;
    taken
}
