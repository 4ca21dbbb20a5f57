//! New kernels of a compiled file that may be old ones: further copies of a name, and kernels that neither a name nor code
//! connects with those that are gone.

use binary::{BinaryKernel, Listing, Matching};
use build::signature::qualified;
use config::BinaryGates;
use globset::Glob;
use model::{Limit, Margin, Metric, Num, ReplacedKernel, Rule, UnitId};

/// Returns the kernels of the file that the baseline has no partner for.
pub fn added<'a>(
    named: &'a [(UnitId, &'a BinaryKernel)],
    matching: &'a Matching,
) -> impl Iterator<Item = (&'a UnitId, &'a BinaryKernel)> {
    named
        .iter()
        .map(|(id, kernel)| (id, *kernel))
        .filter(|(_, kernel)| {
            matching
                .added
                .iter()
                .any(|added| std::ptr::eq(*added, *kernel))
        })
}

/// Returns the kernel of the baseline that has this one's name. Of several it is the one with most registers, which accuses
/// no copy of another one.
pub fn namesake<'a>(baseline: &'a Listing, kernel: &BinaryKernel) -> Option<&'a BinaryKernel> {
    baseline
        .kernels
        .iter()
        .filter(|agreed| (&agreed.name, agreed.arch) == (&kernel.name, kernel.arch))
        .max_by_key(|agreed| agreed.registers)
}

/// Finds new kernels that take more than those that are gone, by each limit that is relative to the baseline. Which of them
/// stands for which is not known. So the costliest of the new ones is compared with the costliest of the old ones, the next
/// with the next, as far as both go: if all hold, there is a way to pair them in which none is worse.
pub fn find(
    named: &[(UnitId, &BinaryKernel)],
    matching: &Matching,
    baseline: &Listing,
    gates: &BinaryGates,
) -> Vec<ReplacedKernel> {
    let new: Vec<(&UnitId, &BinaryKernel)> = added(named, matching)
        .filter(|(_, kernel)| namesake(baseline, kernel).is_none())
        .collect();
    gates
        .gates
        .iter()
        .flat_map(|entry| {
            let globs: Vec<_> = entry.kernels.iter().map(Glob::compile_matcher).collect();
            entry.limits.iter().map(move |limit| (globs.clone(), limit))
        })
        .filter_map(|(globs, limit)| {
            let Rule::Limit {
                metric,
                limit: Limit::Baseline { change },
            } = limit.rule
            else {
                return None;
            };
            let limited_cost = |kernel: &BinaryKernel| {
                let name = qualified(&kernel.name);
                let is_limited = globs.is_empty() || globs.iter().any(|glob| glob.is_match(&name));
                (is_limited && kernel.arch == limit.arch)
                    .then(|| cost(kernel, metric))
                    .flatten()
            };
            let gone = costliest_first(
                matching
                    .removed
                    .iter()
                    .filter_map(|kernel| Some((limited_cost(kernel)?, *kernel))),
            );
            let new = costliest_first(
                new.iter()
                    .filter_map(|(id, kernel)| Some((limited_cost(kernel)?, *id))),
            );
            let ((now, unit), (was, kernel)) = new
                .into_iter()
                .zip(gone)
                .find(|((now, _), (was, _))| *now > most(*was, change))?;
            Some(ReplacedKernel {
                unit: unit.clone(),
                metric,
                now: Num(now.abs()),
                gone: qualified(&kernel.name),
                was: Num(was.abs()),
            })
        })
        .collect()
}

fn costliest_first<T>(costs: impl Iterator<Item = (f64, T)>) -> Vec<(f64, T)> {
    let mut costs: Vec<_> = costs.collect();
    costs.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    costs
}

/// Returns the value of a metric where less is better, and else its negative. Returns `None` if the file does not state
/// it.
pub fn cost(kernel: &BinaryKernel, metric: Metric) -> Option<f64> {
    let value = match metric {
        Metric::Registers => f64::from(kernel.registers?),
        Metric::Stack => f64::from(kernel.stack?),
        Metric::Shared => kernel.static_shared? as f64,
        Metric::Code => kernel.code as f64,
        Metric::LocalAccesses => f64::from(kernel.local_instructions?),
        Metric::Occupancy => kernel.occupancy()?.share(),
        Metric::BlocksPerSm => f64::from(kernel.occupancy()?.blocks_per_sm),
        _ => return None,
    };
    Some(if metric.larger_is_better() {
        -value
    } else {
        value
    })
}

/// Returns the largest cost that a limit allows.
fn most(was: f64, change: Margin) -> f64 {
    match change {
        Margin::Share(share) => was + was.abs() * share.0,
        Margin::Amount { amount } => was + amount as f64,
    }
}
