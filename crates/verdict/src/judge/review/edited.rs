//! What head's baseline files agree on that base's did not.

use super::loosened::verdict;
use crate::model::*;
use std::collections::BTreeSet;

/// A verdict for each case of which head's baseline files agree on worse than base's did.
pub fn since(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let mut verdicts = edited(base, plan, head);
    verdicts.extend(moved(base, plan, head));
    verdicts
}

/// Under the same key: worse, or nothing.
fn edited(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for theirs in &base.baselines {
        let ours = head.iter().find(|ours| {
            (&ours.kernel, &ours.variant, &ours.key)
                == (&theirs.kernel, &theirs.variant, &theirs.key)
        });
        for (shape, agreed) in &theirs.cases {
            let how = match ours.and_then(|ours| ours.cases.get(shape)) {
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

/// Flags are part of a key: under others a change brings other files, and none of the base's holds them any
/// more. A verdict for each case of which they agree on worse. Whatever they do not have is inconclusive by
/// its own gate.
fn moved(base: &Base, plan: &Plan, head: &[Baseline]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut done = BTreeSet::new();
    for was in &base.plan.units {
        let Some(is) = plan.unit(&was.id) else {
            continue;
        };
        let (kernel, variant) = (&was.id.kernel, &was.id.variant);
        if was.flags == is.flags || !done.insert((kernel, variant)) {
            continue;
        }
        let (base_flags, flags) = (was.flags.join(" "), is.flags.join(" "));
        // Those that head left as they are are not among the base's.
        let theirs = base.baselines.iter().chain(head).filter(|it| {
            (&it.kernel, &it.variant) == (kernel, variant) && it.key.flags() == base_flags
        });
        for theirs in theirs {
            let key = theirs.key.with_flags(&flags);
            let ours = head
                .iter()
                .find(|ours| (&ours.kernel, &ours.variant, &ours.key) == (kernel, variant, &key));
            for (shape, ours) in ours.iter().flat_map(|ours| &ours.cases) {
                let agreed = theirs.cases.get(shape).into_iter().flatten();
                let figures: Vec<_> = agreed
                    .filter_map(|(metric, was)| edit(*metric, was, Some(ours.get(metric)?)))
                    .collect();
                if let (false, Some(subject)) = (
                    figures.is_empty(),
                    subject_of(theirs, shape, &base.plan, plan),
                ) {
                    let how = Loosened::BaselineMoved {
                        flags: flags.clone(),
                        base_flags: base_flags.clone(),
                        figures,
                    };
                    let demand = BaseDemand::Baseline(theirs.key.facet());
                    verdicts.push(verdict(subject, demand, how, None, base.loosening));
                }
            }
        }
    }
    verdicts
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
