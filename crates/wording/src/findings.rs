//! A finding of the simulator as a sentence.

use super::problems;
use model::*;

/// Returns the sentence of a finding, with its places, blocks and threads.
pub fn message(finding: &Finding) -> String {
    match follows(finding) {
        Some(follows) => format!("{}; {follows}", finding.message),
        None => finding.message.clone(),
    }
}

/// Says which access follows the other one: `the write is from the next call`.
pub fn follows(finding: &Finding) -> Option<String> {
    let (access, follows) = finding
        .accesses
        .iter()
        .find_map(|access| Some((access, access.follows?)))?;
    let by = access
        .thread
        .map_or(String::new(), |id| format!(" of {}", problems::thread(id)));
    let from = match follows {
        Follows::NextCall => "the next call",
        Follows::NextTurn => "the next turn of the loop",
    };
    let what = match access.kind {
        AccessKind::Other => "access",
        kind => kind.name(),
    };
    Some(format!("the {what}{by} is from {from}"))
}
