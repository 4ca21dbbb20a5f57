//! Floor 2: how what head runs stands to the base: whether the base has it too, with the same code, the same call and the
//! same to do.

use super::index::View;
use super::lookup::{Executor, unit_for};
use super::not_passed::{NotPassed, OrNotPassed, inconclusive};
use model::*;

/// How a case stands to the base revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseStatus {
    /// No base was named.
    NoBase,
    /// The base has no such case.
    New,
    /// Same machine code, launch and arguments.
    Unchanged,
    Changed,
}

/// Why a comparison is not required. It follows from what both sides ask and on what they run, and is known before
/// anything is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRequired {
    /// The base has no such case, gate, file or code.
    NotAtBase,
    /// The base asks nothing of the kind: no reference, no answer from a check.
    NotAsked,
    /// Head's filters leave it out.
    LeftOut,
    /// Another comparison of the same two sides fails by it: sizes or inputs that changed, a case that is gone.
    SaidElsewhere,
    /// The two sides ran on different kinds of device. Their values are kept under different keys.
    OtherDevice,
    /// This machine executes no kernel of either side.
    NothingRuns,
}

impl<'a> View<'_, 'a> {
    /// Whether head's answer stands for the base's, which was not asked.
    pub(super) fn head_answers_for_base(self, id: &CaseId) -> bool {
        let base = self.base();
        base.is_some_and(|base| !base.was_checked(id)) && self.is_same_check(id)
    }

    /// Whether head and base check a case alike: the same code and the same call, over the same inputs, against
    /// the same reference. Then the base's answer is head's, and it is not run.
    pub(super) fn is_same_check(self, id: &CaseId) -> bool {
        let same = || -> Option<bool> {
            let (head, base) = (self, self.base()?);
            let (ours, theirs) = (head.planned_case(id)?, base.planned_case(id)?);
            let built = |view: View<'_, 'a>| {
                let unit = view.unit_on_device(id).ok()?;
                view.build(&unit.id).ok()
            };
            let (head_code, base_code) = (built(head)?, built(base)?);
            let is_same_code = if head.is_simulated() {
                head_code.ptx.is_some() && head_code.ptx == base_code.ptx
            } else {
                head_code.identity == base_code.identity
            };
            let is_same_reference = match &ours.reference {
                Reference::Variant { variant } => self.is_same_check(&CaseId {
                    variant: variant.clone(),
                    ..id.clone()
                }),
                _ => true,
            };
            let is_same_budget = head.plan().simulation.budget == base.plan().simulation.budget;
            Some(is_same_code && is_same_budget && ours == theirs && is_same_reference)
        };
        same().unwrap_or(false)
    }

    /// How a case stands to the base.
    ///
    /// # Errors
    /// Where it cannot be known: no device, or one of the two was not built.
    pub(super) fn base_status(self, id: &CaseId) -> OrNotPassed<BaseStatus> {
        let (Some(base), Some(view)) = (&self.policy().base, self.base()) else {
            return Ok(BaseStatus::NoBase);
        };
        let Some(theirs) = base.plan.case(id) else {
            return Ok(BaseStatus::New);
        };
        let ours = self.case(id)?;
        let device = self.device()?;
        let Some(base_unit) = unit_for(&base.plan, id, device) else {
            return inconclusive(Reason::BaseArchitecture {
                revision: base.revision.clone(),
                case: Box::new(id.clone()),
                device: device.name.clone(),
            });
        };
        let head = self.build(&self.unit_on_device(id)?.id)?;
        // Whatever became of the base's, it is no failure of head.
        let built = view.build(&base_unit.id).map_err(|why| NotPassed {
            outcome: Outcome::Inconclusive,
            reason: Reason::BaseNotBuilt {
                why: Box::new(why.reason),
            },
        })?;
        let same = head.identity == built.identity && is_same_call(ours, theirs);
        Ok(if same {
            BaseStatus::Unchanged
        } else {
            BaseStatus::Changed
        })
    }

    /// Why the base of a program has nothing to compare a case with, which is not new then.
    pub(super) fn gap_of_base(self, id: &CaseId) -> Option<Reason> {
        let gap = self.policy().base.as_ref()?.plan.gap(id)?;
        Some(lack(&gap.why))
    }

    /// Whether a base built what a subject runs.
    ///
    /// # Errors
    /// With what stands in the way of a comparison with it.
    pub(super) fn built_as_base(self, subject: &Subject) -> OrNotPassed<()> {
        let unit = match subject {
            Subject::Unit(id) => id,
            Subject::Case(id) => &self.unit_on_device(id)?.id,
        };
        match self.build(unit) {
            Err(why) if why.outcome == Outcome::Fail => {
                let why = Box::new(why.reason);
                inconclusive(Reason::BaseIncomparable(BaseLack::NotBuilt(why)))
            }
            found => found.map(drop),
        }
    }
}

/// The reason of a base for having nothing to compare with.
pub(super) fn lack(why: &CaptureGap) -> Reason {
    let unanswered = |reason| BaseLack::Unanswered(Box::new(reason));
    Reason::BaseIncomparable(match why {
        CaptureGap::Broke(fault) => unanswered(Reason::Fault(fault.clone())),
        CaptureGap::Unsupported(why) => unanswered(Reason::Unsupported(why.clone())),
        CaptureGap::OtherInputs => BaseLack::OtherInputs,
        CaptureGap::OtherKernels(kernels) => BaseLack::OtherKernels(kernels.clone()),
    })
}

/// Whether two cases launch alike over the same arguments.
pub(super) fn is_same_call(a: &Case, b: &Case) -> bool {
    (&a.steps, &a.tensors) == (&b.steps, &b.tensors)
}

/// Whether the base has the same to do, on what this run executes.
pub(super) fn required_of_base(view: View, gate: &Gate) -> Result<(), NotRequired> {
    let base = view.base().ok_or(NotRequired::OtherDevice)?;
    match &gate.subject {
        Subject::Unit(id) => match base.planned_unit(id) {
            // Nobody compiles the base's file: no more is known of it than its baseline says.
            Some(unit) if unit.is_compiled() && base.filed().builds.get(&id).is_empty() => {
                Err(NotRequired::NotAtBase)
            }
            Some(_) => Ok(()),
            None => Err(NotRequired::NotAtBase),
        },
        Subject::Case(id) => {
            let plans = [view, base].map(|view| view.planned_case(id));
            let [Some(ours), Some(theirs)] = plans else {
                return Err(NotRequired::NotAtBase);
            };
            match base.executor() {
                Err(_) => return Err(NotRequired::NothingRuns),
                Ok(Executor::Gpu(_)) if is_counted(&gate.rule) => {
                    return Err(NotRequired::NothingRuns);
                }
                Ok(_) => {}
            }
            if base.unit_on_device(id).is_err() {
                return Err(NotRequired::NotAtBase);
            }
            if is_same_work(ours, theirs) {
                Ok(())
            } else {
                Err(NotRequired::SaidElsewhere)
            }
        }
    }
}

/// Counters come from the simulator alone.
fn is_counted(rule: &Rule) -> bool {
    match rule {
        Rule::Counters { .. } => true,
        rule => rule
            .metric()
            .is_some_and(|metric| metric.facet() == Facet::Counters),
    }
}

/// Every dimension of the base's; head may have more.
pub(super) fn has_the_sizes_of(base: &Case, head: &Case) -> bool {
    base.dims
        .iter()
        .all(|(name, size)| head.dims.get(name) == Some(size))
}

/// Whether two cases of one name have the same to do: every size of the base's, and what is put in. Where it lies in
/// memory, and which elements are looked at, changes no work.
fn is_same_work(head: &Case, base: &Case) -> bool {
    let mut both = base
        .tensors
        .iter()
        .filter(|tensor| tensor.is_drawn())
        .filter_map(|tensor| {
            Some((
                tensor,
                head.tensors
                    .iter()
                    .find(|other| other.name == tensor.name)?,
            ))
        });
    let is_same = |(theirs, ours): (&Tensor, &Tensor)| {
        let contents = |tensor: &Tensor| Tensor {
            strides: None,
            offset: 0,
            compare: None,
            // A fill of working memory that is new is loosened; one that is gone is work of the kernel.
            fill: tensor.fill.clone().filter(|_| tensor.role != Role::Scratch),
            ..tensor.clone()
        };
        contents(theirs) == contents(ours)
    };
    has_the_sizes_of(base, head) && both.all(is_same)
}
