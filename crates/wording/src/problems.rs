//! Names a problem in a few words, for the head of its block.

use super::words;
use model::*;

/// Returns the title of a problem: `race on shared memory`, `arguments do not fit`, `max_err <= 1e-5`.
pub fn title(problem: &Problem, verdicts: &[Verdict]) -> String {
    match &problem.cause {
        ProblemCause::Arguments(_) => words_of(problem.code),
        ProblemCause::Loosened => "asks less than the base".to_owned(),
        ProblemCause::Findings { findings, .. } => findings
            .first()
            .map_or_else(|| words_of(problem.code), kind),
        ProblemCause::Verdict(reason) => match innermost(reason) {
            Reason::Fault(fault) => words_of(fault.kind.code()) + &on_architecture(reason),
            _ => gates(problem, verdicts),
        },
    }
}

fn kind(finding: &Finding) -> String {
    match finding.kind {
        FindingKind::AsyncBeforeWait => "asynchronous copy is used before its wait",
        FindingKind::ExitedBlock => "shared memory of a block that may have ended",
        FindingKind::Uninitialised => "use of memory that was never written",
        FindingKind::MachineDependence => "output depends on the machine or the moment",
        FindingKind::InvalidMembers => "warp-wide instruction names other lanes than take part",
        FindingKind::WrongLayout => "matrix descriptor that does not fit its tile",
        FindingKind::InvalidFree => "invalid free",
        FindingKind::SharedRace => "race on shared memory",
        FindingKind::GlobalRace => "race on global memory",
        FindingKind::BarrierByPart => "barrier that not all threads reach",
        FindingKind::WarpRace => "race within a warp",
        FindingKind::WarpHazard => "hazard within a warp",
        FindingKind::Leak => "memory leak",
    }
    .to_owned()
}

/// Returns the order that is missing between the two lines of a finding.
pub fn lacking(finding: &Finding) -> Option<&'static str> {
    let follows = finding.accesses.iter().find_map(|access| access.follows);
    match finding.kind {
        FindingKind::AsyncBeforeWait => Some("no wait for the copy between the two"),
        FindingKind::SharedRace => Some(match follows {
            None => "no barrier between the two",
            Some(Follows::NextCall) => "no barrier before the next call",
            Some(Follows::NextTurn) => "no barrier before the next turn of the loop",
        }),
        FindingKind::GlobalRace => Some("nothing orders the two"),
        FindingKind::WarpRace | FindingKind::WarpHazard => Some(match follows {
            None => "no __syncwarp() between the two",
            Some(Follows::NextCall) => "no __syncwarp() before the next call",
            Some(Follows::NextTurn) => "no __syncwarp() before the next turn of the loop",
        }),
        FindingKind::ExitedBlock => Some("no barrier of the cluster before that block's end"),
        FindingKind::Uninitialised
        | FindingKind::MachineDependence
        | FindingKind::InvalidMembers
        | FindingKind::WrongLayout
        | FindingKind::InvalidFree
        | FindingKind::BarrierByPart
        | FindingKind::Leak => None,
    }
}

/// Says who does what at a place of a finding: `thread 32 reads`, and with the block where two blocks take part.
pub fn access(finding: &Finding, access: &Access) -> String {
    let does = match access.kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Update => "updates",
        AccessKind::Copy => "copies",
        AccessKind::Other => "",
    };
    let is_apart = |other: &Access| other.block.is_some() && other.block != access.block;
    let of_block = access
        .block
        .filter(|_| finding.accesses.iter().any(is_apart))
        .map(block);
    of_block
        .into_iter()
        .chain(access.thread.map(thread))
        .chain((!does.is_empty()).then(|| does.to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a thread: `thread 32`, or `thread (1, 2, 0)` in a block of several dimensions.
pub fn thread([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (0, 0) => format!("thread {x}"),
        _ => format!("thread ({x}, {y}, {z})"),
    }
}

/// Returns a block in the same way: `block 0`.
pub fn block([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (0, 0) => format!("block {x}"),
        _ => format!("block ({x}, {y}, {z})"),
    }
}

/// Returns an argument that does not fit: `inp is f32, and parameter 1 of gelu is __nv_bfloat16 const*`.
pub fn mistyped(mistyped: &Mistyped) -> String {
    format!(
        "{} is {} in gates.yaml, and parameter {} of {} is {}",
        mistyped.tensor,
        mistyped.elem.name(),
        mistyped.parameter,
        mistyped.entry,
        mistyped.takes
    )
}

/// Returns the gates that name the cause, each once and at most two.
fn gates(problem: &Problem, verdicts: &[Verdict]) -> String {
    let mut names: Vec<String> = Vec::new();
    for verdict in problem.verdicts.iter().filter_map(|at| verdicts.get(*at)) {
        let name = words::question(&verdict.question);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.len() {
        0..=2 => names.join(", "),
        all => format!("{} and {} more", names.swap_remove(0), all - 1),
    }
}

/// Returns ` on sm_100` for a problem on one of several architectures.
fn on_architecture(reason: &Reason) -> String {
    match reason {
        Reason::OnArchitecture { arch, .. } => format!(" on {arch}"),
        _ => String::new(),
    }
}

fn innermost(reason: &Reason) -> &Reason {
    match reason {
        Reason::OnArchitecture { why, .. } => innermost(why),
        reason => reason,
    }
}

/// Returns a code as words: `kernel faulted`.
fn words_of(code: &str) -> String {
    code.replace('-', " ")
}
