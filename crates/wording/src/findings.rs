//! Writes a finding of the simulator as a sentence.

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns a race as a record had it before places had calls and accesses had blocks.
    fn old_race() -> Finding {
        let place =
            |at: &str| json!({"at": at, "line": {"file": "k.cu", "number": 3, "text": null}});
        serde_json::from_value(json!({
            "kind": "shared_race",
            "message": "race on shared memory 0x0: this write and the read are not ordered",
            "places": [place("k.cu:3 inlined at k.cu:6"), place("k.cu:5 inlined at k.cu:5")],
            "accesses": [{"kind": "write", "thread": [224, 0, 0]}, {"kind": "read"}],
            "block": [0, 0, 0],
            "thread": [224, 0, 0],
            "address": 0,
            "times": 56,
        }))
        .unwrap()
    }

    #[test]
    fn reads_finding_of_an_older_record() {
        let old = old_race();
        assert_eq!(message(&old), old.message);
        assert_eq!(problems::lacking(&old), Some("no barrier between the two"));
        let [write, read] = [0, 1].map(|at| problems::access(&old, &old.accesses[at]));
        assert_eq!((&*write, &*read), ("thread 224 writes", "reads"));
    }

    #[test]
    fn says_which_access_is_from_the_next_call() {
        let mut race = old_race();
        race.accesses[0].follows = Some(Follows::NextCall);
        assert_eq!(
            message(&race),
            format!(
                "{}; the write of thread 224 is from the next call",
                race.message
            )
        );
    }
}
