//! Floor 3: the rules, one file for each kind. A rule turns values into one verdict, and knows no other rule.

pub(super) mod accepted;
pub(super) mod base;
pub(super) mod baseline;
pub(super) mod build;
pub(super) mod condition;
pub(super) mod correctness;
pub(super) mod counters;
pub(super) mod exact;
pub(super) mod findings;
pub(super) mod hazards;

mod absolute;
mod known;

use super::counterpart::BaseStatus;
use super::index::View;
use super::not_passed::{NotPassed, OrNotPassed, inconclusive};
use model::*;

/// A verdict in the making, with the other effects that the rule has on the run.
pub(super) struct Ruled {
    pub verdict: Verdict,
    pub wins: Vec<Win>,
    pub counters: Vec<CounterChange>,
    pub accepted: Vec<Accepted>,
    pub drift: Option<Drift>,
    /// The kind of evidence for which no baseline exists yet at all.
    pub new: Option<Facet>,
    /// True if more timing processes could decide the gate.
    pub open: bool,
}

impl Ruled {
    fn blank(gate: &Gate) -> Self {
        Self {
            verdict: Verdict::without_figures(
                gate.subject.clone(),
                Question::Gate(gate.rule.clone()),
                Outcome::Inconclusive,
                Reason::Held,
                gate.declared.clone(),
            ),
            wins: Vec::new(),
            counters: Vec::new(),
            accepted: Vec::new(),
            drift: None,
            new: None,
            open: false,
        }
    }

    /// Adds the verdict to the judgement, with everything else that the rule found.
    pub fn file(mut self, judgement: &mut Judgement) {
        judgement.wins.append(&mut self.wins);
        judgement.counters.append(&mut self.counters);
        judgement.accepted.extend(self.accepted);
        judgement.drifts.extend(self.drift);
        judgement.verdicts.push(self.verdict);
    }

    /// Returns the worse of two verdicts, of which the other is for a further architecture. A metric that has no
    /// baseline yet is not worse.
    fn or_worse(mut self, other: Self, arch: Arch) -> Self {
        if other.verdict.outcome >= self.verdict.outcome || other.verdict.reason.is_new() {
            self.new = self.new.or(other.new);
            let is_listed = |accepted: &Accepted| {
                self.accepted
                    .iter()
                    .any(|known| known.declared == accepted.declared)
            };
            let also: Vec<_> = other
                .accepted
                .into_iter()
                .filter(|accepted| !is_listed(accepted))
                .collect();
            self.accepted.extend(also);
            return self;
        }
        let why = Box::new(other.verdict.reason);
        Self {
            verdict: Verdict {
                reason: Reason::OnArchitecture { arch, why },
                ..other.verdict
            },
            ..other
        }
    }

    /// Returns true if an acceptance can let the gate pass: it is broken, or open with values. Somebody who accepted
    /// more than the gate allows has accepted that, too.
    fn can_be_accepted(&self) -> bool {
        match self.verdict.outcome {
            Outcome::Fail => true,
            Outcome::Inconclusive => self.verdict.interval.is_some(),
            Outcome::Environment
            | Outcome::Unsupported
            | Outcome::Skipped
            | Outcome::Replaced
            | Outcome::Expected
            | Outcome::Pass => false,
        }
    }

    fn end(mut self, found: OrNotPassed<Reason>) -> Self {
        let (outcome, reason) = match found {
            Ok(reason) => (Outcome::Pass, reason),
            Err(NotPassed { outcome, reason }) => (outcome, reason),
        };
        self.verdict.outcome = outcome;
        self.verdict.reason = reason;
        self
    }
}

/// Judges one gate. The verdict on a case is the worst over the architectures that are run. If the gate is broken, one
/// of `acceptances` may let it pass.
pub(super) fn judge_gate(view: View, gate: &Gate, acceptances: &[Acceptance]) -> Ruled {
    let mut ruled = judge_rule(view, gate);
    if let Subject::Case(id) = &gate.subject {
        for (arch, view) in view.other_architectures(id) {
            let other = judge_rule(view, gate);
            // Only code that is run by itself gets a baseline.
            let new = other.new.filter(|_| view.is_run_by_itself(id, arch));
            ruled = ruled.or_worse(Ruled { new, ..other }, arch);
        }
    }
    if ruled.can_be_accepted() {
        return accepted::apply(view, gate, acceptances, ruled);
    }
    ruled
}

/// Judges one gate by its own rule, for the architecture of the view.
pub(super) fn judge_rule(view: View, gate: &Gate) -> Ruled {
    let subject = &gate.subject;
    let simple = |found| Ruled::blank(gate).end(found);
    match &gate.rule {
        Rule::Built => simple(build::check_built(view, subject)),
        Rule::HasEffect => simple(build::check_effect(view, subject)),
        Rule::Finite => simple(correctness::check_finite(view, subject)),
        Rule::Written => simple(correctness::check_written(view, subject)),
        Rule::Deterministic => simple(correctness::check_deterministic(view, subject)),
        Rule::InputsIntact => simple(correctness::check_inputs(view, subject)),
        Rule::AgreesWithDriver => simple(build::check_driver(view, subject)),
        Rule::NoFindings => findings::judge_findings(view, gate),
        Rule::Counters { .. } => exact::compare(view, gate),
        Rule::Condition { expr } => condition::check_condition(view, gate, expr),
        Rule::Limit { metric, limit } => match limit {
            Limit::Absolute { op, bound } => {
                let mut ruled = Ruled::blank(gate);
                let limit = (*op, bound);
                let found = absolute::compare(view, *metric, limit, &mut ruled.verdict);
                ruled.end(found)
            }
            Limit::Baseline { .. } if metric.facet() != Facet::Times => exact::compare(view, gate),
            Limit::Baseline { change } if !is_against_base(view, subject, *metric) => {
                baseline::compare_to_baseline(view, gate, *metric, *change)
            }
            Limit::Baseline { change } => base::compare_to_base(view, gate, *metric, *change),
            Limit::Base { change } => {
                base::compare_to_base(view, gate, *metric, Margin::Share(*change))
            }
            Limit::Anchor { anchor, change } => {
                baseline::compare_to_anchor(view, gate, *metric, anchor, *change)
            }
        },
    }
}

/// Returns true if a relative limit on times is compared with the base, which is the case wherever the base has the
/// case: a measurement in the same run says more than one that was agreed on another day.
pub(super) fn is_against_base(view: View, subject: &Subject, metric: Metric) -> bool {
    match subject {
        Subject::Case(id) if metric.facet() == Facet::Times => !matches!(
            view.base_status(id),
            Ok(BaseStatus::NoBase | BaseStatus::New)
        ),
        Subject::Case(_) | Subject::Unit(_) => false,
    }
}

/// Reports a gate that does not apply to such a subject.
fn misplaced<T>() -> OrNotPassed<T> {
    inconclusive(Reason::Misplaced { metric: None })
}

/// Returns a margin as a share, or reports that it is none.
fn share_of(allowed: Margin) -> OrNotPassed<f64> {
    match allowed {
        Margin::Share(share) if share.0 >= 0.0 && share.0.is_finite() => Ok(share.0),
        Margin::Share(_) | Margin::Amount { .. } => inconclusive(Reason::BadChange { allowed }),
    }
}

fn check_margin(metric: Metric, allowed: Margin) -> OrNotPassed<()> {
    match allowed {
        Margin::Amount { .. } if metric.has_amounts() => Ok(()),
        _ => share_of(allowed).map(drop),
    }
}

/// Returns (value - base) / base. A rise from 0 is infinite, and 0 after 0 gives 0.
pub fn relative_change(value: f64, base: f64) -> f64 {
    if value == base {
        0.0
    } else {
        (value - base) / base
    }
}
