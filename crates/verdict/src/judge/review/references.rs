//! What a reference computes beside what base's does: its text, its flags and its place are no matter.

use super::loosened::verdict;
use crate::judge::lookup::{Lookup, Ruling};
use crate::model::*;
use std::collections::BTreeMap;

/// Of a run beside its base, which ran base's references on head's inputs.
pub fn since(base: &Base, lookup: &Lookup) -> Vec<Verdict> {
    let cases = both(&base.plan, lookup.plan);
    let found = cases.filter_map(|(theirs, ours)| {
        let how = match is_of_the_device(theirs, ours) {
            true if theirs.reference == ours.reference => return None,
            true => Ok(Loosened::ReferenceIncomparable(None)),
            false => beside(lookup, ours).transpose()?,
        };
        Some(match how {
            Ok(how) => of_case(ours, how, base.loosening),
            Err(Ruling { outcome, reason }) => Verdict::without_figures(
                Subject::Case(ours.id.clone()),
                Question::NoLooser(BaseDemand::Reference),
                outcome,
                reason,
                None,
            ),
        })
    });
    found.collect()
}

/// Cases of both that have the same sizes: of others the change of sizes is what there is to say. Where base had no
/// reference, or no output, any reference is more than that.
fn both<'a>(base: &'a Plan, head: &'a Plan) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    let pairs = base
        .cases
        .iter()
        .filter_map(|theirs| Some((theirs, head.case(&theirs.id)?)));
    let pairs = pairs
        .filter(|(theirs, _)| !matches!(theirs.reference, Reference::None | Reference::NoOutput));
    pairs.filter(|(theirs, ours)| has_the_sizes_of(theirs, ours))
}

fn has_the_sizes_of(base: &Case, head: &Case) -> bool {
    let mut dims = base.dims.iter();
    dims.all(|(name, size)| head.dims.get(name) == Some(size))
}

/// Cases of both whose references can be run: of the same sizes, and neither another variant's output.
pub fn comparable<'a>(
    base: &'a Plan,
    head: &'a Plan,
) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    both(base, head).filter(|(theirs, ours)| !is_of_the_device(theirs, ours))
}

/// One of them has none, or another variant: what that computes only a device can tell.
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

fn of_case(case: &Case, how: Loosened, loosening: Loosening) -> Verdict {
    let subject = Subject::Case(case.id.clone());
    verdict(subject, BaseDemand::Reference, how, None, loosening)
}

/// How head's is another, if it is.
fn beside(lookup: &Lookup, case: &Case) -> Result<Option<Loosened>, Ruling> {
    let unknown = |why: Option<String>| Some(Loosened::ReferenceIncomparable(why));
    let missing = |reason| Ruling {
        outcome: Outcome::Inconclusive,
        reason,
    };
    let piece = || Piece::BaseReference(case.id.clone());
    match lookup.base_references(&case.id) {
        [] => Err(missing(Reason::EvidenceMissing(piece()))),
        [Seen::Got(BaseReference::Compared(found))] if found.differing == 0 => Ok(None),
        [Seen::Got(BaseReference::Compared(found))] => {
            Ok(Some(Loosened::Reference(Box::new(found.clone()))))
        }
        [Seen::Got(BaseReference::Broken)] => Ok(None),
        [Seen::Fault(fault)] if fault.kind == FaultKind::Environment => Err(Ruling {
            outcome: Outcome::Environment,
            reason: Reason::Fault(fault.clone()),
        }),
        [Seen::Fault(fault)] => Ok(unknown(Some(fault.message.clone()))),
        [Seen::Unsupported(_) | Seen::NotRun(_)] => Ok(unknown(None)),
        several => Err(missing(Reason::EvidenceRepeated {
            piece: piece(),
            times: several.len(),
        })),
    }
}

/// Notes on inputs that base's references did not have.
pub fn new_inputs(lookup: &Lookup) -> Vec<Note> {
    let cases = lookup.plan.cases.iter();
    let found = cases.flat_map(|case| {
        let seen = lookup.base_references(&case.id).iter();
        seen.filter_map(|seen| match seen {
            Seen::Got(BaseReference::Compared(found)) if !found.neutral.is_empty() => {
                Some(Note::NewInputs {
                    subject: Subject::Case(case.id.clone()),
                    neutral: found.neutral.clone(),
                })
            }
            _ => None,
        })
    });
    found.collect()
}

/// Of two records: by what both computed of the same inputs, else by how the references are written.
pub fn between(base: &Record, head: &Record, loosening: Loosening) -> Vec<Verdict> {
    let (was, is) = (digests(base), digests(head));
    let found = both(&base.plan, &head.plan).filter_map(|(theirs, ours)| {
        let seeds = theirs.seeds.iter().filter(|seed| ours.seeds.contains(seed));
        let of = |seed: &u64| {
            let key = (&ours.id, *seed);
            Some((was.get(&key)?, is.get(&key)?))
        };
        let known: Option<Vec<_>> = seeds.map(of).collect();
        let how = match known {
            Some(seeds) if !seeds.is_empty() => {
                let is_same = seeds.iter().all(|(was, is)| is_in(was, is));
                match (is_same, has_the_inputs_of(theirs, ours)) {
                    (true, _) => return None,
                    (false, true) => Loosened::ReferenceDigest,
                    (false, false) => Loosened::ReferenceIncomparable(None),
                }
            }
            _ if theirs.reference == ours.reference => return None,
            _ => Loosened::ReferenceIncomparable(None),
        };
        Some(of_case(ours, how, loosening))
    });
    found.collect()
}

type Outputs = BTreeMap<String, String>;

fn digests(record: &Record) -> BTreeMap<(&CaseId, u64), &Outputs> {
    let pieces = record.evidence.iter();
    let found = pieces.filter_map(|piece| match piece {
        Evidence::Reference {
            case,
            seed,
            outputs,
        } => Some(((case, *seed), outputs)),
        _ => None,
    });
    found.collect()
}

/// Every output that head still has is what it was: of one that is gone another verdict says so.
fn is_in(was: &Outputs, is: &Outputs) -> bool {
    let mut common = was
        .iter()
        .filter(|(name, _)| is.contains_key(*name))
        .peekable();
    common.peek().is_some() && common.all(|(name, digest)| is.get(name) == Some(digest))
}

fn has_the_inputs_of(base: &Case, head: &Case) -> bool {
    let drawn = |case: &Case| -> BTreeMap<String, Tensor> {
        let tensors = case.tensors.iter().filter(|tensor| tensor.role.is_drawn());
        tensors
            .map(|tensor| {
                // Values do not depend on where they lie.
                let tensor = Tensor {
                    strides: None,
                    ..tensor.clone()
                };
                (tensor.name.clone(), tensor)
            })
            .collect()
    };
    drawn(base) == drawn(head)
}
