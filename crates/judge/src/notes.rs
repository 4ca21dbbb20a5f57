//! Writes the notes that accompany the verdicts.

use super::index::View;
use super::rules::counters::withheld_by_reason;
use super::rules::hazards;
use model::*;
use std::collections::BTreeSet;

/// Lists notes on what was observed of each case, in the order of the plan.
pub(super) fn list_notes(view: View) -> Vec<Note> {
    let mut notes = Vec::new();
    for case in &view.plan().cases {
        let subject = || Subject::Case(case.id.clone());
        notes.extend(
            not_judged(view, case)
                .into_iter()
                .map(|what| Note::NotJudged {
                    subject: subject(),
                    what: what.to_owned(),
                }),
        );
        if hazards::compare_to_base(view, &subject()).is_ok()
            && let Some((finding, more)) = hazards::first(view, &case.id)
        {
            notes.push(Note::WarpHazard {
                subject: subject(),
                finding: Box::new(finding),
                more,
            });
        }
        if let Some((elements, left_out)) = left_out_of_comparison(view, case) {
            notes.push(Note::NotCompared {
                subject: subject(),
                elements,
                left_out,
            });
        }
        if let Some((seed, printed)) = printed(view, case) {
            notes.push(Note::Printed {
                subject: subject(),
                seed,
                text: printed.text.clone(),
                left_out: printed.left_out,
            });
        }
        notes.extend(
            withheld_by_reason(view, &case.id)
                .into_iter()
                .map(|withheld| Note::NotHeld {
                    subject: subject(),
                    counters: withheld.counters,
                    why: withheld.why,
                }),
        );
        if let Ok(Some(modes)) = view.modes(&case.id) {
            notes.push(Note::TwoModes {
                subject: subject(),
                fast_ns: Num(modes.fast.ns),
                slow_ns: Num(modes.slow.ns),
                slow_share: Num(modes.slow.share),
            });
        }
        if let processes @ 1.. = view.throttled(&case.id) {
            notes.push(Note::Throttled {
                subject: subject(),
                processes,
            });
        }
        if let processes @ 1.. = view.unwatched(&case.id)
            && !view.ran_elsewhere(&case.id)
        {
            notes.push(Note::Unwatched {
                subject: subject(),
                processes,
            });
        }
        if let processes @ 1.. = view.shared(&case.id) {
            notes.push(Note::Shared {
                subject: subject(),
                processes,
                others: view.others(&case.id),
            });
        }
    }
    notes
}

/// Returns the accesses that the checks could not judge in any launch of a case, each once.
fn not_judged<'a>(view: View<'_, 'a>, case: &Case) -> BTreeSet<&'a str> {
    case.seeds
        .iter()
        .filter_map(|&seed| view.simulation(&case.id, seed).ok())
        .flat_map(|launch| launch.not_judged.iter().map(String::as_str))
        .collect()
}

/// Returns how many elements were compared and how many left out, for the seed that leaves out most.
fn left_out_of_comparison(view: View, case: &Case) -> Option<(u64, u64)> {
    case.seeds
        .iter()
        .filter_map(|&seed| view.check(&case.id, seed).ok())
        .map(|check| (check.error.elements, check.error.left_out))
        .filter(|(_, left_out)| *left_out > 0)
        .max_by_key(|(_, left_out)| *left_out)
}

/// Returns what a case printed, for the first seed that printed.
fn printed<'a>(view: View<'_, 'a>, case: &Case) -> Option<(u64, &'a Printed)> {
    case.seeds.iter().find_map(|&seed| {
        let launch = view.simulation(&case.id, seed).ok()?;
        Some((seed, launch.printed.as_ref()?))
    })
}

/// Notes what a comparison leaves out because head was run with a filter.
pub(super) fn left_out(base: &Plan, head: &Plan) -> Option<Note> {
    let cases: Vec<CaseId> = base
        .cases
        .iter()
        .map(|case| &case.id)
        .filter(|id| !head.selects(id))
        .cloned()
        .collect();
    (!cases.is_empty()).then_some(Note::LeftOut { cases })
}

/// Notes things that the base has under another name, or in another file.
pub(super) fn new_names(base: &Base) -> impl Iterator<Item = Note> + use<> {
    base.renames
        .clone()
        .into_iter()
        .map(Note::Renamed)
        .chain(base.moved.clone().into_iter().map(Note::Moved))
}

/// Notes baselines whose case is no longer in gates.yaml. If a filter left out cases of a kernel, it is unknown whether
/// they are gone.
pub(super) fn gone(view: View) -> Vec<Note> {
    let mut gone = BTreeSet::new();
    let whole = |baseline: &&Baseline| !view.plan().is_partial(&baseline.kernel);
    for baseline in view.policy().baselines.iter().filter(whole) {
        let (kernel, variant) = (&baseline.kernel, &baseline.variant);
        for shape in baseline.cases.keys() {
            let known = if baseline.key.facet() == Facet::Resources {
                !view.units_of(kernel, variant).is_empty()
            } else {
                view.plan().cases.iter().any(|case| {
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
