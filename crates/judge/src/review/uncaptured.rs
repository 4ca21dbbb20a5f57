//! Reviews parts of programs that have no case, at head and at the base.

use super::{Comparison, Ended, compare_required};
use crate::counterpart::{NotRequired, lack};
use model::*;

/// Returns a verdict for each such part of head, because nothing else says that it is not judged.
pub fn review(plan: &Plan) -> Vec<Verdict> {
    plan.uncaptured
        .iter()
        .map(|gap| {
            let (outcome, reason) = match &gap.why {
                CaptureGap::Broke(fault) => (Outcome::Fail, Reason::Fault(fault.clone())),
                CaptureGap::Unsupported(why) => {
                    (Outcome::Unsupported, Reason::Unsupported(why.clone()))
                }
                CaptureGap::OtherInputs | CaptureGap::OtherKernels(_) => {
                    (Outcome::Inconclusive, lack(&gap.why))
                }
            };
            Verdict::without_figures(
                Subject::Case(gap.case.clone()),
                Question::Gate(Rule::Built),
                outcome,
                reason,
                Some(gap.declared.clone()),
            )
        })
        .collect()
}

/// Compares everything of head that the base gives nothing to compare with.
pub fn since(base: &Plan, plan: &Plan) -> Vec<Comparison> {
    compare_required(
        &base.uncaptured,
        |gap| {
            let is_of_all = gap.case.variant == "*";
            let is_of_kernels = matches!(gap.why, CaptureGap::OtherKernels(_));
            if is_of_kernels && is_of_all && plan.is_partial(&gap.case.kernel) {
                Err(NotRequired::LeftOut)
            } else if is_of_kernels && !is_of_all {
                // The gap belongs to a group, whether or not the group could be made.
                plan.selects(&gap.case)
                    .then_some(())
                    .ok_or(NotRequired::LeftOut)
            } else if plan.cases.iter().any(|case| gap.is_of(&case.id)) {
                Ok(())
            } else {
                Err(NotRequired::SaidElsewhere)
            }
        },
        |gap, ()| {
            let ended = Ended::Inconclusive(lack(&gap.why));
            Comparison::for_case(&gap.case, BaseDemand::Launch, ended)
        },
    )
}
