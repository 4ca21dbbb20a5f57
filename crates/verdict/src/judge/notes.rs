//! What is said beside the verdicts.

use super::facts::Facts;
use super::simulated;
use crate::model::*;
use std::collections::BTreeSet;

/// Of what was seen of each case, in the order of the plan.
pub(super) fn of_cases(facts: &Facts) -> Vec<Note> {
    let mut notes = Vec::new();
    for case in &facts.plan.cases {
        let subject = || Subject::Case(case.id.clone());
        notes.extend(
            simulated::not_judged(facts, case)
                .into_iter()
                .map(|what| Note::NotJudged {
                    subject: subject(),
                    what: what.to_owned(),
                }),
        );
        if let Some((seed, printed)) = simulated::printed(facts, case) {
            notes.push(Note::Printed {
                subject: subject(),
                seed,
                text: printed.text.clone(),
                left_out: printed.left_out,
            });
        }
        notes.extend(
            simulated::not_held(facts, &case.id)
                .into_iter()
                .map(|what| Note::NotHeld {
                    subject: subject(),
                    what,
                }),
        );
        if let Ok(Some(modes)) = facts.modes(&case.id) {
            notes.push(Note::TwoModes {
                subject: subject(),
                fast_ns: Num(modes.fast.ns),
                slow_ns: Num(modes.slow.ns),
                slow_share: Num(modes.slow.share),
            });
        }
        if let processes @ 1.. = facts.throttled(&case.id) {
            notes.push(Note::Throttled {
                subject: subject(),
                processes,
            });
        }
        if let processes @ 1.. = facts.unwatched(&case.id)
            && !facts.is_foreign()
        {
            notes.push(Note::Unwatched {
                subject: subject(),
                processes,
            });
        }
        if let processes @ 1.. = facts.shared(&case.id) {
            notes.push(Note::Shared {
                subject: subject(),
                processes,
                others: facts.others(&case.id),
            });
        }
    }
    notes
}

/// What a comparison does not say, as head was run with a filter.
pub(super) fn left_out(base: &Plan, head: &Plan) -> Option<Note> {
    let cases = base.cases.iter().map(|case| &case.id);
    let cases: Vec<CaseId> = cases
        .filter(|id| head.is_partial(&id.kernel) && head.case(id).is_none())
        .cloned()
        .collect();
    (!cases.is_empty()).then_some(Note::LeftOut { cases })
}

/// Baselines whose case is no longer in gates.yaml. Of a kernel that a filter left out cases of, nobody
/// can know.
pub(super) fn gone(facts: &Facts) -> Vec<Note> {
    let mut gone = BTreeSet::new();
    let whole = |baseline: &&Baseline| !facts.plan.is_partial(&baseline.kernel);
    for baseline in facts.policy.baselines.iter().filter(whole) {
        let (kernel, variant) = (&baseline.kernel, &baseline.variant);
        for shape in baseline.cases.keys() {
            let known = if baseline.key.facet() == Facet::Resources {
                let mut units = facts.plan.units.iter();
                units.any(|unit| unit.id.kernel == *kernel && unit.id.variant == *variant)
            } else {
                facts.plan.cases.iter().any(|case| {
                    case.id.kernel == *kernel
                        && case.id.variant == *variant
                        && case.id.shape == *shape
                })
            };
            if !known {
                gone.insert((kernel, variant, shape, baseline.key.facet()));
            }
        }
    }
    gone.into_iter()
        .map(|(kernel, variant, shape, facet)| Note::Gone {
            kernel: kernel.clone(),
            variant: variant.clone(),
            shape: shape.clone(),
            facet,
        })
        .collect()
}
