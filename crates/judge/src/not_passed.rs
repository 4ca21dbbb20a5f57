//! Floor 1: why a look-up has no value. A look-up returns a value or [`NotPassed`]. There is no third way, and no
//! default.

use model::*;

/// Why there is no value, and the outcome of a gate that needs it. The outcome can be any but a pass: the gate may
/// fail, or be inconclusive, skipped or unsupported.
#[derive(Clone, Debug, PartialEq)]
pub struct NotPassed {
    pub outcome: Outcome,
    pub reason: Reason,
}

pub type OrNotPassed<T> = Result<T, NotPassed>;

pub(super) fn ruling<T>(outcome: Outcome, reason: Reason) -> OrNotPassed<T> {
    Err(NotPassed { outcome, reason })
}

pub(super) fn fail<T>(reason: Reason) -> OrNotPassed<T> {
    ruling(Outcome::Fail, reason)
}

pub(super) fn inconclusive<T>(reason: Reason) -> OrNotPassed<T> {
    ruling(Outcome::Inconclusive, reason)
}

pub(super) fn skipped<T>(reason: Reason) -> OrNotPassed<T> {
    ruling(Outcome::Skipped, reason)
}

pub(super) fn unsupported<T>(reason: Reason) -> OrNotPassed<T> {
    ruling(Outcome::Unsupported, reason)
}

pub(super) fn missing<T>(piece: Piece) -> OrNotPassed<T> {
    inconclusive(Reason::EvidenceMissing(piece))
}

pub(super) fn only<'a, T>(seen: &[&'a Seen<T>], piece: impl Fn() -> Piece) -> OrNotPassed<&'a T> {
    match seen {
        [one] => got(one),
        _ => inconclusive(Reason::EvidenceRepeated {
            piece: piece(),
            times: seen.len(),
        }),
    }
}

pub(super) fn got<T>(seen: &Seen<T>) -> OrNotPassed<&T> {
    match seen {
        Seen::Got(value) => Ok(value),
        Seen::Fault(fault) => ruling(outcome_of(fault.kind), Reason::Fault(fault.clone())),
        Seen::Unsupported(why) => unsupported(Reason::Unsupported(why.clone())),
        Seen::NotRun(why) => skipped(Reason::NotRun(why.clone())),
    }
}

fn outcome_of(fault: FaultKind) -> Outcome {
    match fault {
        FaultKind::Environment
        | FaultKind::Disassembler
        | FaultKind::ProfilerMissing
        | FaultKind::CountersLocked
        | FaultKind::ProfilerLocked
        | FaultKind::ProfilerBroke => Outcome::Environment,
        FaultKind::Compile
        | FaultKind::EntryNotFound
        | FaultKind::Arguments
        | FaultKind::LaunchRefused
        | FaultKind::DeviceFault
        | FaultKind::Hang
        | FaultKind::WorkerDied
        | FaultKind::Reference
        | FaultKind::Program => Outcome::Fail,
        FaultKind::Base | FaultKind::Rival => Outcome::Inconclusive,
    }
}
