//! Compares head's baseline files with the base's.

use super::{Comparison, Ended, compare_required};
use crate::counterpart::NotRequired;
use crate::renames::HeadNames;
use model::*;
use std::collections::BTreeMap;

/// Compares every case of the base's baseline files, and every case of head's files under a key that the base has no
/// file for.
pub fn since(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Comparison> {
    let mut found = edited(base, plan, head);
    found.extend(moved(base, plan, head));
    found
}

/// One case of a baseline file.
struct Agreement<'a> {
    file: &'a Baseline,
    shape: &'a str,
    metrics: &'a BTreeMap<Metric, Agreed>,
    /// `None` if neither side has the case, or if head's filters leave it out.
    subject: Option<Subject>,
}

impl<'a> Agreement<'a> {
    fn all_of(file: &'a Baseline, base: &Plan, head: &Plan) -> Vec<Self> {
        let agreement = |(shape, metrics): (&'a String, &'a BTreeMap<Metric, Agreed>)| Self {
            file,
            shape,
            metrics,
            subject: subject_of(file, shape, base, head),
        };
        file.cases.iter().map(agreement).collect()
    }

    fn required(&self) -> Result<Subject, NotRequired> {
        self.subject.clone().ok_or(NotRequired::LeftOut)
    }

    fn ended(&self, subject: Subject, how: Option<Loosened>) -> Comparison {
        Comparison {
            subject,
            demand: BaseDemand::Baseline(self.file.key.facet()),
            declared: None,
            ended: Ended::held_unless(how),
        }
    }
}

/// Finds cases that have a worse value than before under the same key, or none.
fn edited(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Comparison> {
    let files = base.baselines.iter();
    let left = left_under_old_names(base, head);
    compare_required(
        files.flat_map(|file| Agreement::all_of(file, &base.plan, plan)),
        Agreement::required,
        |theirs, subject| {
            let ours = head.iter().find(|ours| is_at(theirs.file, ours, &ours.key));
            let how = match ours.and_then(|ours| ours.cases.get(theirs.shape)) {
                None => Some(if is_among(&left, &theirs) {
                    Loosened::BaselineLeft(renames_of(base, &theirs))
                } else {
                    Loosened::BaselineRemoved
                }),
                Some(now) => {
                    let edits = theirs
                        .metrics
                        .iter()
                        .filter(|(metric, _)| {
                            **metric != Metric::Count || limits_count(base, &subject)
                        })
                        .filter_map(|(metric, was)| edit(*metric, was, now.get(metric)));
                    some_of(edits).map(Loosened::BaselineEdited)
                }
            };
            theirs.ended(subject, how)
        },
    )
}

/// Returns true if the base limits how many kernels a compiled file has. Without such a limit more kernels are no
/// worse.
fn limits_count(base: &Base, subject: &Subject) -> bool {
    base.gates
        .iter()
        .any(|gate| gate.subject == *subject && gate.rule.metric() == Some(Metric::Count))
}

/// Returns head's baselines that still have one of the base's old names, under head's name for it.
fn left_under_old_names(base: &Base, head: &[Baseline]) -> Vec<Baseline> {
    let names = HeadNames {
        renames: &base.renames,
    };
    let carried = head.iter().map(|ours| {
        let mut carried = ours.clone();
        names.carry_baseline(&mut carried);
        carried
    });
    let changed = carried.zip(head).filter(|(carried, ours)| carried != *ours);
    changed.map(|(carried, _)| carried).collect()
}

fn is_among(left: &[Baseline], theirs: &Agreement) -> bool {
    left.iter()
        .any(|ours| is_at(theirs.file, ours, &ours.key) && ours.cases.contains_key(theirs.shape))
}

/// Returns the renames that also move a baseline file.
fn renames_of(base: &Base, theirs: &Agreement) -> Vec<Rename> {
    let Baseline {
        kernel: own,
        variant,
        ..
    } = theirs.file;
    base.renames
        .iter()
        .filter(|rename| match &rename.item {
            RenamedItem::Kernel => rename.to == *own,
            RenamedItem::Variant { kernel } => (kernel, &rename.to) == (own, variant),
            RenamedItem::Shape { kernel } => kernel == own && rename.to == theirs.shape,
            RenamedItem::Tensor { .. } | RenamedItem::Dimension { .. } => false,
        })
        .cloned()
        .collect()
}

/// Finds baselines that moved to another key. Flags and compiler are part of a key, so under other flags a change
/// brings other files, and nothing is compared with the base's files any more. What head's files lack is inconclusive
/// by its own gate.
fn moved(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Comparison> {
    let is_new = |ours: &&Baseline| {
        !base
            .baselines
            .iter()
            .any(|baseline| is_at(baseline, ours, &ours.key))
    };
    compare_required(
        head.iter()
            .filter(is_new)
            .flat_map(|file| Agreement::all_of(file, &base.plan, plan)),
        |ours| match flags_of(&base.plan, ours.file).and(flags_of(plan, ours.file)) {
            None => Err(NotRequired::NotAtBase),
            Some(_) => ours.required(),
        },
        |ours, subject| {
            let (was, is) = (flags_of(&base.plan, ours.file), flags_of(plan, ours.file));
            let mut theirs = base
                .baselines
                .iter()
                .filter(|baseline| is_at(baseline, ours.file, &baseline.key))
                .filter(|baseline| baseline.key.without_build() == ours.file.key.without_build())
                .filter(|baseline| Some(baseline.key.flags()) == was.as_deref())
                .filter(|_| is.as_deref() == Some(ours.file.key.flags()));
            let worse = theirs.find_map(|theirs| {
                let edits = theirs
                    .cases
                    .get(ours.shape)
                    .into_iter()
                    .flatten()
                    .filter_map(|(metric, was)| {
                        edit(*metric, was, Some(ours.metrics.get(metric)?))
                    });
                Some((&theirs.key, some_of(edits)?))
            });
            let how = worse.map(|(key, values)| Loosened::BaselineMoved {
                differences: KeyDifference::between(key, &ours.file.key),
                values,
            });
            ours.ended(subject, how)
        },
    )
}

/// Returns true if a baseline file of the base belongs to the variant of head's file, under `key`.
fn is_at(theirs: &Baseline, ours: &Baseline, key: &BaselineKey) -> bool {
    (&theirs.kernel, &theirs.variant, &theirs.key) == (&ours.kernel, &ours.variant, key)
}

fn some_of(edits: impl Iterator<Item = EditedFigure>) -> Option<Vec<EditedFigure>> {
    let edits: Vec<_> = edits.collect();
    (!edits.is_empty()).then_some(edits)
}

fn flags_of(plan: &Plan, baseline: &Baseline) -> Option<String> {
    let unit = plan.units.iter().find(|unit| {
        (&unit.id.kernel, &unit.id.variant) == (&baseline.kernel, &baseline.variant)
    })?;
    Some(unit.flags.join(" "))
}

/// Returns how a value became worse, or `None` if it did not.
fn edit(metric: Metric, was: &Agreed, now: Option<&Agreed>) -> Option<EditedFigure> {
    let found = |edit| Some(EditedFigure { metric, edit });
    let Some(now) = now else {
        return found(FigureEdit::Removed);
    };
    let is_worse = if metric.larger_is_better() {
        now.value.0 < was.value.0
    } else {
        now.value.0 > was.value.0
    };
    // A value that is no number is neither better nor worse.
    if is_worse || now.value.0.is_nan() {
        return found(FigureEdit::Worse {
            was: was.value,
            now: now.value,
        });
    }
    let is_wider = match (was.spread, now.spread) {
        (Some(was), Some(now)) => now.0 > was.0,
        (was, now) => was != now,
    };
    let noise = |agreed: &Agreed| {
        let sessions = agreed.sessions.as_ref()?;
        sessions.earlier.map(|noise| noise.deviation.0)
    };
    let is_noisier = matches!((noise(was), noise(now)), (Some(was), Some(now)) if now > was);
    if (is_wider || is_noisier) && now.value == was.value {
        found(FigureEdit::Wider)
    } else {
        None
    }
}

/// Returns the case that a baseline file is about, or the unit for resources. Returns `None` if head's filters leave it
/// out or if neither side has it: a file that was left behind limits nobody.
fn subject_of(baseline: &Baseline, shape: &str, base: &Plan, head: &Plan) -> Option<Subject> {
    let (kernel, variant) = (&baseline.kernel, &baseline.variant);
    let is_of_all = baseline.key.facet() == Facet::Resources;
    if let BaselineKey::Resources { arch, .. } = &baseline.key {
        let id = UnitId::new(kernel.clone(), variant.clone(), *arch);
        if [base, head]
            .into_iter()
            .filter_map(|plan| plan.unit(&id))
            .any(Unit::is_compiled)
        {
            return Some(Subject::Unit(id));
        }
    }
    base.cases
        .iter()
        .chain(&head.cases)
        .map(|case| &case.id)
        .find(|id| {
            (&id.kernel, &id.variant) == (kernel, variant)
                && (is_of_all || id.shape == shape)
                && head.selects(id)
        })?;
    Some(match &baseline.key {
        BaselineKey::Resources { arch, .. } => {
            Subject::Unit(UnitId::new(kernel.clone(), variant.clone(), *arch))
        }
        _ => Subject::Case(CaseId::new(kernel.clone(), variant.clone(), shape)),
    })
}
