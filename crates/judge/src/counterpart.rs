//! Floor 2: finds the counterpart of a case in the base, and whether it has the same code, the same call and the same
//! work.

use super::index::View;
use super::lookup::{Executor, unit_for};
use super::not_passed::{NotPassed, OrNotPassed, inconclusive};
use model::*;

/// The relation of a case to the base revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseStatus {
    /// The run was not given a base.
    NoBase,
    /// The base has no such case.
    New,
    /// Both sides have the same machine code, launch and arguments.
    Unchanged,
    Changed,
}

/// The reasons for which a comparison with the base is not required. They follow from what both sides ask and run, so
/// they are known before anything is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRequired {
    /// The base has no such case, gate, file or code.
    NotAtBase,
    /// The base asks nothing of this kind: it has no reference, or its check gave no answer.
    NotAsked,
    /// Head's filters leave the case out.
    LeftOut,
    /// Another comparison of the same two sides fails for this reason: sizes or inputs changed, or a case is gone.
    SaidElsewhere,
    /// The two sides ran on different kinds of device, whose values have different keys.
    OtherDevice,
    /// This machine executes no kernel of either side.
    NothingRuns,
}

impl<'a> View<'_, 'a> {
    /// Returns true if head's answer also stands for the base, which was not asked.
    pub(super) fn head_answers_for_base(self, id: &CaseId) -> bool {
        let base = self.base();
        base.is_some_and(|base| !base.was_checked(id)) && self.is_same_check(id)
    }

    /// Returns true if head and base check a case alike: with the same code and the same call, over the same inputs,
    /// and against the same reference. The base is then not run, because its answer would be head's.
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

    /// Returns how a case relates to the base.
    ///
    /// # Errors
    /// No status is known if there is no device, or if one of the two sides was not built.
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
        // Head does not fail because the base was not built.
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

    /// Returns why the base of a program has no counterpart of a case that could be compared. Such a case is not new.
    pub(super) fn gap_of_base(self, id: &CaseId) -> Option<Reason> {
        let gap = self.policy().base.as_ref()?.plan.gap(id)?;
        Some(lack(&gap.why))
    }

    /// Checks that the base built what a subject runs.
    ///
    /// # Errors
    /// Returns what stands in the way of a comparison with the base.
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

/// Returns the reason for which the base has nothing to compare with.
pub(super) fn lack(why: &CaptureGap) -> Reason {
    let unanswered = |reason| BaseLack::Unanswered(Box::new(reason));
    Reason::BaseIncomparable(match why {
        CaptureGap::Broke(fault) => unanswered(Reason::Fault(fault.clone())),
        CaptureGap::Unsupported(why) => unanswered(Reason::Unsupported(why.clone())),
        CaptureGap::OtherInputs => BaseLack::OtherInputs,
        CaptureGap::OtherKernels(kernels) => BaseLack::OtherKernels(kernels.clone()),
    })
}

/// Returns true if two cases have the same launches and the same arguments.
pub(super) fn is_same_call(a: &Case, b: &Case) -> bool {
    (&a.steps, &a.tensors) == (&b.steps, &b.tensors)
}

/// Returns `Ok` if the base must be compared for this gate: it has the same work, on the device that this run executes
/// on.
pub(super) fn required_of_base(view: View, gate: &Gate) -> Result<(), NotRequired> {
    let base = view.base().ok_or(NotRequired::OtherDevice)?;
    match &gate.subject {
        Subject::Unit(id) => match base.planned_unit(id) {
            // Nobody compiles the base's file, so nothing is known of it beyond its baseline.
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

/// Returns true if the rule is about counters, which only the simulator gives.
fn is_counted(rule: &Rule) -> bool {
    match rule {
        Rule::Counters { .. } => true,
        rule => rule
            .metric()
            .is_some_and(|metric| metric.facet() == Facet::Counters),
    }
}

/// Returns true if head has every dimension of the base with the same size. Head may have more dimensions.
pub(super) fn has_the_sizes_of(base: &Case, head: &Case) -> bool {
    base.dims
        .iter()
        .all(|(name, size)| head.dims.get(name) == Some(size))
}

/// Returns true if two cases of one name do the same work: every size of the base's, and the same inputs. Where a
/// tensor lies in memory and which elements are compared changes no work.
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
            // A new fill of working memory counts as loosened. A fill that is gone is work that the kernel now does
            // itself.
            fill: tensor.fill.clone().filter(|_| tensor.role != Role::Scratch),
            ..tensor.clone()
        };
        contents(theirs) == contents(ours)
    };
    has_the_sizes_of(base, head) && both.all(is_same)
}
