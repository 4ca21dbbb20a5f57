//! Compares the results of head's references with the base's. The text of a reference, its flags and its location do
//! not matter.

use super::{Comparison, Ended, compare_required};
use crate::counterpart::{NotRequired, has_the_sizes_of};
use crate::index::View;
use model::*;
use std::collections::BTreeMap;

/// Compares a run with its base, whose references were run on head's inputs.
pub fn since(base: &Base, view: View) -> Vec<Comparison> {
    compare_required(
        pairs(&base.plan, view.plan()),
        |(theirs, ours)| required(theirs, ours),
        |(theirs, ours), ()| {
            let ended = if is_of_the_device(theirs, ours) {
                compare_text(theirs, ours)
            } else {
                compare_values(view, ours)
            };
            Comparison::for_case(&ours.id, BaseDemand::Reference, ended)
        },
    )
}

/// Returns every case that both sides have. A case that head lacks was left out by a filter, or the gates report it.
fn pairs<'a>(base: &'a Plan, head: &'a Plan) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    base.cases
        .iter()
        .filter_map(|theirs| Some((theirs, head.case(&theirs.id)?)))
}

fn required(base: &Case, head: &Case) -> Result<(), NotRequired> {
    if matches!(base.reference, Reference::None | Reference::NoOutput) {
        Err(NotRequired::NotAsked)
    } else if !has_the_sizes_of(base, head) {
        Err(NotRequired::SaidElsewhere)
    } else {
        Ok(())
    }
}

/// Returns the cases of both sides whose references can be run: they have the same sizes, and neither reference is
/// another variant's output.
pub fn comparable<'a>(
    base: &'a Plan,
    head: &'a Plan,
) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    pairs(base, head)
        .filter(|(theirs, ours)| required(theirs, ours).is_ok())
        .filter(|(theirs, ours)| !is_of_the_device(theirs, ours))
}

/// Returns true if one of the two has no reference, or another variant as its reference: only a device can tell what a
/// variant computes.
fn is_of_the_device(base: &Case, head: &Case) -> bool {
    [base, head].iter().any(|case| {
        matches!(
            case.reference,
            Reference::None
                | Reference::NoOutput
                | Reference::Variant { .. }
                | Reference::Elsewhere
        )
    })
}

/// Compares references without values: another variant has gates of its own, and a built-in function of one name is one
/// program.
fn compare_text(base: &Case, head: &Case) -> Ended {
    let is_same = base.reference == head.reference;
    Ended::held_unless((!is_same).then_some(Loosened::ReferenceIncomparable(None)))
}

/// Compares references by the values that this run computed with both on head's inputs.
fn compare_values(view: View, case: &Case) -> Ended {
    let incomparable = |lack| Ended::Inconclusive(Reason::BaseIncomparable(lack));
    let loosened = |why| Ended::Failed(Loosened::ReferenceIncomparable(why));
    let piece = || Piece::BaseReference(case.id.clone());
    match view.filed().base_references.get(&&case.id) {
        [] => Ended::Inconclusive(Reason::EvidenceMissing(piece())),
        [Seen::Got(BaseReference::Compared(found))] => {
            let how = (found.differing > 0).then(|| Loosened::Reference(Box::new(found.clone())));
            Ended::held_unless(how)
        }
        [Seen::Got(BaseReference::Broken { message })] => {
            incomparable(BaseLack::ReferenceBroken(message.clone()))
        }
        [Seen::Fault(fault)] => match fault.kind {
            FaultKind::Environment => Ended::Environment(Reason::Fault(fault.clone())),
            FaultKind::Hang => incomparable(BaseLack::ReferenceLate(fault.message.clone())),
            FaultKind::Reference => loosened(Some(fault.message.clone())),
            _ => incomparable(BaseLack::Unanswered(Box::new(Reason::Fault(fault.clone())))),
        },
        [Seen::Unsupported(_) | Seen::NotRun(_)] => loosened(None),
        several => Ended::Inconclusive(Reason::EvidenceRepeated {
            piece: piece(),
            times: several.len(),
        }),
    }
}

/// Notes inputs of head's references that the base's references did not have.
pub fn new_inputs(view: View) -> Vec<Note> {
    view.plan()
        .cases
        .iter()
        .flat_map(|case| {
            let seen = view.filed().base_references.get(&&case.id).iter();
            seen.filter_map(|seen| match seen {
                Seen::Got(BaseReference::Compared(found)) if !found.neutral.is_empty() => {
                    Some(Note::NewInputs {
                        subject: Subject::Case(case.id.clone()),
                        neutral: found.neutral.clone(),
                    })
                }
                _ => None,
            })
        })
        .collect()
}

/// Compares two records by what both computed from the same inputs. Without digests of values, a built-in function is
/// identified by its text. A function of the user's cannot be identified, because its text is not in the record.
pub fn between(base: &Record, head: &Record) -> Vec<Comparison> {
    let (was, is) = (digests(base), digests(head));
    compare_required(
        pairs(&base.plan, &head.plan),
        |(theirs, ours)| required(theirs, ours),
        |(theirs, ours), ()| {
            let seeds = theirs.seeds.iter().filter(|seed| ours.seeds.contains(seed));
            let digest_pair = |seed: &u64| {
                let key = (&ours.id, *seed);
                Some((was.get(&key)?, is.get(&key)?))
            };
            let known: Option<Vec<_>> = seeds.map(digest_pair).collect();
            let ended = match known {
                Some(seeds) if !seeds.is_empty() => compare_digests(theirs, ours, &seeds),
                _ => match &theirs.reference {
                    Reference::User { .. }
                        if theirs.reference == ours.reference && !was_not_run(base, theirs) =>
                    {
                        Ended::Inconclusive(Reason::BaseIncomparable(BaseLack::NoDigests))
                    }
                    _ => compare_text(theirs, ours),
                },
            };
            Comparison::for_case(&ours.id, BaseDemand::Reference, ended)
        },
    )
}

fn compare_digests(base: &Case, head: &Case, seeds: &[(&&Outputs, &&Outputs)]) -> Ended {
    let is_same = seeds.iter().all(|(was, is)| is_in(was, is));
    match (is_same, has_the_inputs_of(base, head)) {
        (true, _) => Ended::Held,
        (false, true) => Ended::Failed(Loosened::ReferenceDigest),
        (false, false) => Ended::Failed(Loosened::ReferenceIncomparable(None)),
    }
}

/// Returns true if the record itself says that the case was not run, so that its reference was not needed.
fn was_not_run(record: &Record, of: &Case) -> bool {
    let environment = &record.environment;
    if environment.device.got().is_none() && environment.simulator.is_none() {
        return true;
    }
    let was_refused = |seed: &u64| {
        record.evidence.iter().any(|piece| {
            matches!(
                piece,
                Evidence::Check { case, seed: at, facts: Seen::NotRun(_) | Seen::Unsupported(_), .. }
                    if *case == of.id && at == seed
            )
        })
    };
    of.seeds.iter().all(was_refused)
}

type Outputs = BTreeMap<String, String>;

fn digests(record: &Record) -> BTreeMap<(&CaseId, u64), &Outputs> {
    record
        .evidence
        .iter()
        .filter_map(|piece| match piece {
            Evidence::Reference {
                case,
                seed,
                outputs,
            } => Some(((case, *seed), outputs)),
            _ => None,
        })
        .collect()
}

/// Returns true if every output that head still has is the same as before. A removed output has a verdict of its own.
fn is_in(was: &Outputs, is: &Outputs) -> bool {
    let mut common = was
        .iter()
        .filter(|(name, _)| is.contains_key(*name))
        .peekable();
    common.peek().is_some() && common.all(|(name, digest)| is.get(name) == Some(digest))
}

fn has_the_inputs_of(base: &Case, head: &Case) -> bool {
    let drawn = |case: &Case| -> BTreeMap<String, Tensor> {
        case.tensors
            .iter()
            .filter(|tensor| tensor.role.is_drawn())
            .map(|tensor| {
                // The values of a tensor do not depend on its layout.
                let tensor = Tensor {
                    strides: None,
                    offset: 0,
                    ..tensor.clone()
                };
                (tensor.name.clone(), tensor)
            })
            .collect()
    };
    drawn(base) == drawn(head)
}
