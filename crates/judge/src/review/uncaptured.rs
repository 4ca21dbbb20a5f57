//! Parts of programs that have no case: at head, and at the base.

use super::{Comparison, Ended, compare_required};
use crate::counterpart::{NotRequired, lack};
use model::*;

/// A verdict for each of head's: nothing else says of it that it is not judged.
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

/// Everything that the base gives nothing to compare with, where head has something to be compared.
pub fn since(base: &Plan, plan: &Plan) -> Vec<Comparison> {
    compare_required(
        &base.uncaptured,
        |gap| {
            let is_of_all = gap.case.variant == "*";
            let is_of_kernels = matches!(gap.why, CaptureGap::OtherKernels(_));
            if is_of_kernels && is_of_all && plan.is_partial(&gap.case.kernel) {
                Err(NotRequired::LeftOut)
            } else if is_of_kernels && !is_of_all {
                // The gap is of a group, whether or not it could be made.
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
