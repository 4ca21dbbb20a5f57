//! What head's baseline files agree on that base's did not.

use super::loosened::verdict;
use crate::judge::renames::Names;
use crate::model::*;

/// A verdict for each case of which head's baseline files agree on worse than base's did.
pub fn since(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let mut verdicts = edited(base, plan, head);
    verdicts.extend(moved(base, plan, head));
    verdicts
}

/// Under the same key: worse, or nothing.
fn edited(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let left = left_under_old_names(base, head);
    for theirs in &base.baselines {
        let ours = head.iter().find(|ours| {
            (&ours.kernel, &ours.variant, &ours.key)
                == (&theirs.kernel, &theirs.variant, &theirs.key)
        });
        for (shape, agreed) in &theirs.cases {
            let how = match ours.and_then(|ours| ours.cases.get(shape)) {
                None if is_among(&left, theirs, shape) => {
                    Loosened::BaselineLeft(renames_of(base, theirs, shape))
                }
                None => Loosened::BaselineRemoved,
                Some(now) => {
                    let figures = agreed.iter();
                    let edits =
                        figures.filter_map(|(metric, was)| edit(*metric, was, now.get(metric)));
                    match edits.collect::<Vec<_>>() {
                        edits if edits.is_empty() => continue,
                        edits => Loosened::BaselineEdited(edits),
                    }
                }
            };
            if let Some(subject) = subject_of(theirs, shape, &base.plan, plan) {
                let demand = BaseDemand::Baseline(theirs.key.facet());
                verdicts.push(verdict(subject, demand, how, None, base.loosening));
            }
        }
    }
    verdicts
}

/// Head's baselines that have a name of base's, under head's name for it.
fn left_under_old_names(base: &Base, head: &[Baseline]) -> Vec<Baseline> {
    let names = Names {
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

fn is_among(left: &[Baseline], theirs: &Baseline, shape: &str) -> bool {
    left.iter().any(|it| {
        (&it.kernel, &it.variant, &it.key) == (&theirs.kernel, &theirs.variant, &theirs.key)
            && it.cases.contains_key(shape)
    })
}

/// Those by which files of baselines go.
fn renames_of(base: &Base, baseline: &Baseline, shape: &str) -> Vec<Rename> {
    let renames = base.renames.iter().filter(|it| match &it.item {
        RenamedItem::Kernel => it.to == baseline.kernel,
        RenamedItem::Variant { kernel } => {
            (kernel, &it.to) == (&baseline.kernel, &baseline.variant)
        }
        RenamedItem::Shape { kernel } => {
            (kernel.as_str(), it.to.as_str()) == (&baseline.kernel, shape)
        }
        RenamedItem::Tensor { .. } | RenamedItem::Dimension { .. } => false,
    });
    renames.cloned().collect()
}

/// Flags and compiler are part of a key: under others a change brings other files, and none of the base's holds
/// them any more. A verdict for each case of which they agree on worse. Whatever they do not have is inconclusive
/// by its own gate.
fn moved(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let is_at = |theirs: &Baseline, ours: &Baseline, key: &BaselineKey| {
        (&theirs.kernel, &theirs.variant, &theirs.key) == (&ours.kernel, &ours.variant, key)
    };
    let is_new = |ours: &&Baseline| !base.baselines.iter().any(|it| is_at(it, ours, &ours.key));
    let mut verdicts = Vec::new();
    for ours in head.iter().filter(is_new) {
        let (Some(was), Some(is)) = (flags_of(&base.plan, ours), flags_of(plan, ours)) else {
            continue;
        };
        let theirs: Vec<_> = base
            .baselines
            .iter()
            .filter(|it| (&it.kernel, &it.variant) == (&ours.kernel, &ours.variant))
            .filter(|it| it.key.without_build() == ours.key.without_build())
            .filter(|it| it.key.flags() == was && ours.key.flags() == is)
            .collect();
        for (shape, now) in &ours.cases {
            let worse = theirs.iter().find_map(|theirs| {
                let agreed = theirs.cases.get(shape).into_iter().flatten();
                let figures: Vec<_> = agreed
                    .filter_map(|(metric, was)| edit(*metric, was, Some(now.get(metric)?)))
                    .collect();
                (!figures.is_empty()).then_some((&theirs.key, figures))
            });
            if let (Some((key, figures)), Some(subject)) =
                (worse, subject_of(ours, shape, &base.plan, plan))
            {
                let how = Loosened::BaselineMoved {
                    differences: KeyDifference::between(key, &ours.key),
                    figures,
                };
                let demand = BaseDemand::Baseline(ours.key.facet());
                verdicts.push(verdict(subject, demand, how, None, base.loosening));
            }
        }
    }
    verdicts
}

fn flags_of(plan: &Plan, baseline: &Baseline) -> Option<String> {
    let mut units = plan.units.iter();
    let unit = units
        .find(|it| (&it.id.kernel, &it.id.variant) == (&baseline.kernel, &baseline.variant))?;
    Some(unit.flags.join(" "))
}

/// How a figure is worse than it was, if it is.
fn edit(metric: Metric, was: &Agreed, now: Option<&Agreed>) -> Option<EditedFigure> {
    let found = |edit| Some(EditedFigure { metric, edit });
    let Some(now) = now else {
        return found(FigureEdit::Removed);
    };
    let is_worse = match metric.larger_is_better() {
        true => now.value.0 < was.value.0,
        false => now.value.0 > was.value.0,
    };
    // What is no number is neither better nor worse.
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
    match (is_wider || is_noisier) && now.value == was.value {
        true => found(FigureEdit::Wider),
        false => None,
    }
}

/// The case that a baseline file speaks of, or for resources the unit; `None` where head's filters leave it out,
/// and where neither side has it: a file that is left over holds nobody to anything.
fn subject_of(baseline: &Baseline, shape: &str, base: &Plan, head: &Plan) -> Option<Subject> {
    let (kernel, variant) = (&baseline.kernel, &baseline.variant);
    let is_of_all = baseline.key.facet() == Facet::Resources;
    let mut cases = base.cases.iter().chain(&head.cases).map(|case| &case.id);
    cases.find(|id| {
        (&id.kernel, &id.variant) == (kernel, variant)
            && (is_of_all || id.shape == shape)
            && head.selects(id)
    })?;
    Some(match &baseline.key {
        BaselineKey::Resources { arch, .. } => Subject::Unit(UnitId {
            kernel: kernel.clone(),
            variant: variant.clone(),
            arch: *arch,
        }),
        _ => Subject::Case(CaseId {
            kernel: kernel.clone(),
            variant: variant.clone(),
            shape: shape.to_owned(),
        }),
    })
}
