//! Finds resources that are worse than before and that no gate limits, so that a change does not make them worse
//! unnoticed.
//!
//! Each unit is compared with the base, or with its committed baseline if there is no base. All worse values are
//! listed, and with them the counters that may have risen where the base is wrong. More local memory and lower
//! occupancy fail as well, as they do when `binary` compares two files: a step of these costs time on any GPU.
//! Interleaved times of a case are better evidence than its resources, so a unit whose times hold does not fail. A
//! limit that only head has keeps a value from failing, but not from the list. Compiled files are left out, because
//! whoever compares them names the limits.

use super::index::View;
use super::review::lost;
use super::rules::{self, condition, relative_change};
use model::*;

/// The resources that are compared. Blocks per SM would repeat the occupancy, and the size of the code costs nothing by
/// itself.
const COMPARED: [Metric; 5] = [
    Metric::Registers,
    Metric::Spills,
    Metric::Stack,
    Metric::Shared,
    Metric::Occupancy,
];

/// Returns the units and the cases that have a worse value, in the order of the plan.
pub(super) fn find(view: View) -> Vec<Ungated> {
    let units = view
        .plan()
        .units
        .iter()
        .filter(|unit| !unit.is_compiled())
        .filter(|unit| {
            let UnitId {
                kernel, variant, ..
            } = &unit.id;
            // A variant that is kept to fail has no baselines and is never timed.
            view.plan().expected(kernel, variant).is_none()
        })
        .filter_map(|unit| compare_unit(view, &unit.id));
    let cases = view
        .plan()
        .cases
        .iter()
        .filter_map(|case| compare_case(view, &case.id));
    units.chain(cases).collect()
}

fn compare_case(view: View, id: &CaseId) -> Option<Ungated> {
    let values: Vec<_> = lost::find_excused_rises(view, id)
        .into_iter()
        .map(|DoubtedRise { rise, .. }| WorseValue {
            metric: rise.counter.into(),
            was: rise.was,
            now: rise.now,
        })
        .collect();
    (!values.is_empty()).then(|| Ungated {
        subject: Subject::Case(id.clone()),
        against: Against::Base,
        values,
    })
}

/// Returns a failure for each unit with a worse value that costs time on any GPU, unless an interleaved time holds.
pub(super) fn verdicts(view: View, found: &[Ungated], gates: &[Verdict]) -> Vec<Verdict> {
    let limits = &view.policy().gates;
    found
        .iter()
        .filter(|resources| !is_excused(view, &resources.subject, gates))
        .filter_map(|resources| {
            let costly: Vec<_> = resources
                .values
                .iter()
                .copied()
                .filter(|value| costs_time(value.metric))
                .filter(|value| !is_limited(limits, &resources.subject, value.metric))
                .collect();
            (!costly.is_empty()).then(|| {
                Verdict::without_figures(
                    resources.subject.clone(),
                    Question::UngatedResources,
                    Outcome::Fail,
                    Reason::UngatedWorse {
                        against: resources.against.clone(),
                        values: costly,
                    },
                    None,
                )
            })
        })
        .collect()
}

fn compare_unit(view: View, id: &UnitId) -> Option<Ungated> {
    let subject = Subject::Unit(id.clone());
    let base = view
        .base()
        .filter(|base| base.planned_unit(id).is_some() && base.build(id).is_ok());
    let against = match base {
        Some(_) => Against::Base,
        None => Against::Baseline,
    };
    let policy = view.policy();
    let gates = policy
        .base
        .as_ref()
        .map_or(&policy.gates, |base| &base.gates);
    let values: Vec<_> = COMPARED
        .into_iter()
        .filter_map(|metric| {
            let now = view.metric(&subject, metric).ok()?.number;
            let was = match base {
                Some(base) => base.metric(&subject, metric).ok()?.number,
                None => view.agreed_on(&subject, metric).ok()?.value,
            };
            let change = relative_change(now, was);
            let is_worse = if metric.larger_is_better() {
                change < 0.0
            } else {
                change > 0.0
            };
            (is_worse && !is_limited(gates, &subject, metric)).then_some(WorseValue {
                metric,
                was: Num(was),
                now: Num(now),
            })
        })
        .collect();
    (!values.is_empty()).then_some(Ungated {
        subject,
        against,
        values,
    })
}

fn costs_time(metric: Metric) -> bool {
    matches!(metric, Metric::Spills | Metric::Stack | Metric::Occupancy)
}

/// Returns true if a gate of the unit's variant names the metric.
fn is_limited<'g>(
    gates: impl IntoIterator<Item = &'g Gate>,
    unit: &Subject,
    metric: Metric,
) -> bool {
    gates
        .into_iter()
        .filter(|gate| match &gate.subject {
            Subject::Unit(_) => gate.subject == *unit,
            Subject::Case(case) => {
                (case.kernel.as_str(), case.variant.as_str()) == (unit.kernel(), unit.variant())
            }
        })
        .any(|gate| match &gate.rule {
            Rule::Limit { metric: own, .. } => *own == metric,
            Rule::Condition { expr } => condition::names_metric(expr, metric),
            _ => false,
        })
}

/// Returns true if times of the variant were interleaved with the base's, and everything that is asked of them holds.
fn is_excused(view: View, unit: &Subject, gates: &[Verdict]) -> bool {
    let times: Vec<&Verdict> = gates
        .iter()
        .filter(|verdict| {
            let subject = &verdict.subject;
            (subject.kernel(), subject.variant()) == (unit.kernel(), unit.variant())
        })
        .filter(|verdict| match &verdict.question {
            Question::Gate(Rule::Limit { metric, limit }) => match limit {
                Limit::Base { .. } => true,
                Limit::Baseline { .. } => rules::is_against_base(view, &verdict.subject, *metric),
                Limit::Absolute { .. } | Limit::Anchor { .. } => false,
            },
            _ => false,
        })
        .collect();
    let was_measured = times.iter().any(|verdict| {
        matches!(&verdict.reason, Reason::WithinChange(comparison) if comparison.against == Against::Base)
    });
    was_measured && times.iter().all(|verdict| verdict.outcome == Outcome::Pass)
}
