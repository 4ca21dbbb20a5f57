//! What head's baseline files agree on that base's did not.

use super::{Loosened, words};
use crate::model::*;
use std::collections::BTreeSet;

/// A verdict for each case of which head's baseline files agree on worse than base's did, or on nothing.
pub(in crate::judge) fn edited(
    base: &[Baseline],
    head: &[Baseline],
    plan: &Plan,
    loosening: Loosening,
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for theirs in base {
        let ours = head.iter().find(|ours| {
            (&ours.kernel, &ours.variant, &ours.key)
                == (&theirs.kernel, &theirs.variant, &theirs.key)
        });
        for (shape, agreed) in &theirs.cases {
            let now = ours.and_then(|ours| ours.cases.get(shape));
            let worse = match now {
                None => vec!["removed".to_owned()],
                Some(now) => agreed
                    .iter()
                    .filter_map(|(metric, was)| looser(*metric, was, now.get(metric)))
                    .collect(),
            };
            if let (false, Some(subject)) = (worse.is_empty(), subject(theirs, shape, plan)) {
                let found = Loosened {
                    reason: format!("the head edits what was agreed: {}", worse.join("; ")),
                    declared: None,
                };
                let what = format!("baseline of {}", theirs.key.facet());
                verdicts.push(found.verdict(&subject, &what, loosening));
            }
        }
    }
    verdicts
}

fn looser(metric: Metric, was: &Agreed, now: Option<&Agreed>) -> Option<String> {
    let Some(now) = now else {
        return Some(format!("{metric} is gone"));
    };
    let worse = match metric.larger_is_better() {
        true => now.value.0 < was.value.0,
        false => now.value.0 > was.value.0,
    };
    let told = |value: Num| words::quantity(metric, value.0);
    // What is no number is neither better nor worse.
    if worse || now.value.0.is_nan() {
        return Some(format!(
            "{metric} {} -> {}",
            told(was.value),
            told(now.value)
        ));
    }
    let wider = match (was.spread, now.spread) {
        (Some(was), Some(now)) => now.0 > was.0,
        (was, now) => was != now,
    };
    let noise = |agreed: &Agreed| {
        agreed
            .sessions
            .as_ref()?
            .earlier
            .map(|noise| noise.deviation.0)
    };
    let noisier = matches!((noise(was), noise(now)), (Some(was), Some(now)) if now > was);
    ((wider || noisier) && now.value == was.value)
        .then(|| format!("{metric} keeps its value and spreads more"))
}

/// The case that a baseline file speaks of, or for resources the unit; `None` where a filter left out
/// what is no longer to be seen.
fn subject(baseline: &Baseline, shape: &str, plan: &Plan) -> Option<Subject> {
    let (kernel, variant) = (&baseline.kernel, &baseline.variant);
    let units = || {
        let mut units = plan.units.iter().map(|unit| &unit.id);
        units.find(|id| id.kernel == *kernel && id.variant == *variant)
    };
    if plan.is_partial(kernel) && units().is_none() {
        return None;
    }
    Some(match (&baseline.key, units()) {
        (BaselineKey::Resources { arch, .. }, _) => Subject::Unit(UnitId {
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

/// Flags are part of a key: under others a change brings other files, and none of the base's holds them any
/// more. A verdict for each case of which they agree on worse. Whatever they do not have is inconclusive by
/// its own gate.
pub(in crate::judge) fn moved(base: &Base, head: &[Baseline], plan: &Plan) -> Vec<Verdict> {
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
        let (then, now) = (was.flags.join(" "), is.flags.join(" "));
        // Those that head left as they are are not among the base's.
        let theirs =
            base.baselines.iter().chain(head).filter(|it| {
                (&it.kernel, &it.variant) == (kernel, variant) && it.key.flags() == then
            });
        for theirs in theirs {
            let key = theirs.key.with_flags(&now);
            let ours = head
                .iter()
                .find(|ours| (&ours.kernel, &ours.variant, &ours.key) == (kernel, variant, &key));
            for (shape, ours) in ours.iter().flat_map(|ours| &ours.cases) {
                let agreed = theirs.cases.get(shape).into_iter().flatten();
                let worse: Vec<_> = agreed
                    .filter_map(|(metric, was)| looser(*metric, was, Some(ours.get(metric)?)))
                    .collect();
                if let (false, Some(subject)) = (worse.is_empty(), subject(theirs, shape, plan)) {
                    let found = Loosened {
                        reason: format!(
                            "under the flags `{now}` and not `{then}` the head agrees on worse: {}",
                            worse.join("; ")
                        ),
                        declared: None,
                    };
                    let what = format!("baseline of {}", theirs.key.facet());
                    verdicts.push(found.verdict(&subject, &what, base.loosening));
                }
            }
        }
    }
    verdicts
}
