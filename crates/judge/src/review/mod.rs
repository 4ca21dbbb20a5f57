//! Floor 5: reviews what people declared about the gates themselves: what was accepted, what is expected to fail, what
//! stands in for a failure, and what is looser than at the base.
//!
//! A review against the base is a list of comparisons. Each of them ends in exactly one of four ways ([`Ended`]).
//! Whether a comparison is required follows from what the two sides ask ([`NotRequired`]), and never from what could be
//! compared.

pub(super) mod accepted;
pub(super) mod edited;
pub(super) mod expected;
pub(super) mod fallback;
pub(super) mod loosened;
pub(super) mod lost;
pub(super) mod measured;
pub(super) mod references;
pub(super) mod uncaptured;

use super::counterpart::NotRequired;
use super::index::{Opponent, View};
use super::not_passed::NotPassed;
use model::*;

/// How a comparison that the base requires ended. There is no value for a comparison that did not take place: it is
/// inconclusive, or the environment's fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    Held,
    Failed(Loosened),
    Inconclusive(Reason),
    Environment(Reason),
}

/// One comparison of head with the base.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub subject: Subject,
    pub demand: BaseDemand,
    /// The place where head declares what it has instead of the base's demand.
    pub declared: Option<String>,
    pub ended: Ended,
}

/// Compares everything that is required. The only way out of `compare` is an end, and the only way around it is a
/// [`NotRequired`].
pub(super) fn compare_required<P, R>(
    pairs: impl IntoIterator<Item = P>,
    required: impl Fn(&P) -> Result<R, NotRequired>,
    compare: impl Fn(P, R) -> Comparison,
) -> Vec<Comparison> {
    pairs
        .into_iter()
        .filter_map(|pair| required(&pair).ok().map(|what| (pair, what)))
        .map(|(pair, what)| compare(pair, what))
        .collect()
}

impl Ended {
    /// Returns `Failed` if head demands less in the given way, and `Held` otherwise.
    pub fn held_unless(how: Option<Loosened>) -> Self {
        how.map_or(Self::Held, Self::Failed)
    }

    /// Returns a sort key: the gravest end first, in the order in which a run concludes.
    pub fn gravity(&self) -> u8 {
        match self {
            Self::Failed(_) => 0,
            Self::Environment(_) => 1,
            Self::Inconclusive(_) => 2,
            Self::Held => 3,
        }
    }
}

impl Comparison {
    pub fn for_case(id: &CaseId, demand: BaseDemand, ended: Ended) -> Self {
        Self {
            subject: Subject::Case(id.clone()),
            demand,
            declared: None,
            ended,
        }
    }

    /// Returns the verdict of the comparison, or `None` if it holds. A label lets two things pass: that head asks less,
    /// and that the base has nothing to compare with. It does not repair a record or a machine.
    pub fn verdict(self, loosening: Loosening) -> Option<Verdict> {
        let allowed = |how| {
            let how = Box::new(how);
            (Outcome::Pass, Reason::LooseningAllowed(how))
        };
        let (outcome, reason) = match (self.ended, loosening) {
            (Ended::Held, _) => return None,
            (Ended::Failed(how), Loosening::Fails) => {
                (Outcome::Fail, Reason::Loosened(Box::new(how)))
            }
            (Ended::Failed(how), Loosening::Allowed) => allowed(how),
            (Ended::Inconclusive(Reason::BaseIncomparable(lack)), Loosening::Allowed) => {
                allowed(Loosened::BaseIncomparable(lack))
            }
            (Ended::Inconclusive(Reason::CountersInDoubt { rises, .. }), Loosening::Allowed) => {
                allowed(Loosened::CountersInDoubt(rises))
            }
            (Ended::Inconclusive(reason), _) => (Outcome::Inconclusive, reason),
            (Ended::Environment(reason), _) => (Outcome::Environment, reason),
        };
        let question = Question::NoLooser(self.demand);
        Some(Verdict::without_figures(
            self.subject,
            question,
            outcome,
            reason,
            self.declared,
        ))
    }
}

/// Returns the verdicts of all passes of the review, in the order of the passes.
pub(super) fn against(view: View) -> Vec<Verdict> {
    let (plan, policy) = (view.plan(), view.policy());
    let (comparisons, loosening) = match view.index.opponent {
        Opponent::Nothing => return Vec::new(),
        Opponent::Revision(base) => {
            let edited = edited::since(base, plan, &policy.baselines);
            let measured = measured::since(view, base, &edited);
            let passes = [
                accepted::added(&base.accepted, &base.plan, &policy.accepted),
                loosened::since(base, plan, &policy.gates),
                references::since(base, view),
                edited,
                measured,
                lost::since(view),
                uncaptured::since(&base.plan, plan),
                gates_elsewhere(base).into_iter().collect(),
                gates_unread(base).collect(),
                replaced_kernels(base).collect(),
            ];
            (passes.concat(), base.loosening)
        }
        Opponent::Record {
            base,
            head,
            loosening,
        } => {
            // If head is compared with a record, its baselines are what the record measured. They belong to its gates
            // and are no files.
            let passes = [
                accepted::added(&base.policy.accepted, &base.plan, &head.policy.accepted),
                loosened::between(base, head),
                references::between(base, head),
                lost::since(view),
                lost::on_other_devices(view),
                uncaptured::since(&base.plan, &head.plan),
            ];
            (passes.concat(), loosening)
        }
    };
    comparisons
        .into_iter()
        .filter_map(|comparison| comparison.verdict(loosening))
        .collect()
}

/// Compares the run's file of gates with nothing, if the base has gates for the same kernels in another file that was
/// not moved.
fn gates_elsewhere(base: &Base) -> Option<Comparison> {
    let lacking = base
        .no_gates
        .as_ref()
        .filter(|lacking| !lacking.elsewhere.is_empty())?;
    let demand = BaseDemand::File(lacking.elsewhere.join(", "));
    let why = Reason::BaseIncomparable(BaseLack::GatesElsewhere(lacking.clone()));
    let every_case = CaseId::new("*", "*", "*");
    Some(Comparison::for_case(
        &every_case,
        demand,
        Ended::Inconclusive(why),
    ))
}

/// Compares files of gates that are gone. What the base asked there cannot be known.
fn gates_unread(base: &Base) -> impl Iterator<Item = Comparison> {
    base.unread.iter().map(|unread| {
        let demand = BaseDemand::File(unread.file.clone());
        let why = Reason::BaseIncomparable(BaseLack::GatesUnread(unread.clone()));
        let every_case = CaseId::new("*", "*", "*");
        Comparison::for_case(&every_case, demand, Ended::Inconclusive(why))
    })
}

/// Compares kernels of compiled files that may be kernels of the base under other names.
fn replaced_kernels(base: &Base) -> impl Iterator<Item = Comparison> {
    base.replaced.iter().map(|replaced| Comparison {
        subject: Subject::Unit(replaced.unit.clone()),
        demand: BaseDemand::Baseline(Facet::Resources),
        declared: None,
        ended: Ended::Inconclusive(Reason::BaseIncomparable(BaseLack::KernelReplaced(
            replaced.clone(),
        ))),
    })
}

/// Returns how a comparison ends if the base has no answer on the machine that answers for head.
pub(super) fn without_answer_of_base(why: NotPassed) -> Ended {
    let unanswered = |reason| Reason::BaseIncomparable(BaseLack::Unanswered(Box::new(reason)));
    match (why.outcome, &why.reason) {
        (Outcome::Environment, _) => Ended::Environment(why.reason),
        (_, Reason::BaseIncomparable(_) | Reason::EvidenceMissing(_)) => {
            Ended::Inconclusive(why.reason)
        }
        (_, Reason::EvidenceRepeated { .. }) => Ended::Inconclusive(why.reason),
        // The base's kernel ran and broke, and head cannot be worse. A kernel that was late may have been slow, or the
        // machine was.
        (Outcome::Fail, Reason::Fault(fault)) => match fault.kind {
            FaultKind::DeviceFault | FaultKind::LaunchRefused => Ended::Held,
            _ => Ended::Inconclusive(unanswered(why.reason)),
        },
        (Outcome::Fail, _) => Ended::Held,
        // This machine answers for no such kernel, on either side.
        (Outcome::Unsupported, Reason::Unsupported(cause)) if depends_on_the_run(cause) => {
            Ended::Inconclusive(unanswered(why.reason))
        }
        (Outcome::Unsupported, _) => Ended::Held,
        (
            Outcome::Skipped,
            Reason::NotRun(
                NotRun::OverBudget { .. } | NotRun::OverMemory { .. } | NotRun::EstimateUnknown,
            ),
        ) => Ended::Held,
        (
            Outcome::Skipped
            | Outcome::Inconclusive
            | Outcome::Replaced
            | Outcome::Expected
            | Outcome::Pass,
            _,
        ) => Ended::Inconclusive(unanswered(why.reason)),
    }
}

/// Returns true if the same kernel may get an answer from this machine at another time, or with the other side's
/// compiler.
fn depends_on_the_run(cause: &Unsupported) -> bool {
    match cause {
        Unsupported::OutOfMemory { .. }
        | Unsupported::HostTooSlow { .. }
        | Unsupported::NewerPtx => true,
        Unsupported::ReferenceVariant { why, .. } => depends_on_the_run(why),
        _ => false,
    }
}
