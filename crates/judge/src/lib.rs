//! The judge derives verdicts from plan, environment, policy and evidence, and from nothing else. It knows no files, no
//! clock and no device.
//!
//! It answers four questions, and each has one answer, however often and wherever it is asked: which cases may go on
//! ([`admit`]), which need one more timing process ([`next`]), what the verdict of each gate is ([`judge`]), and what
//! changed between two records ([`compare`]). A module imports from its own floor and from the floors above it in this
//! list:
//!
//! 1. `not_passed`, `index`, `lookup`, `series`, `rests`: evidence by subject, what its absence means, and which values
//!    gates rest on.
//! 2. `value`, `counterpart`, `agreed`, `rivals`: the value of a metric, the counterpart of a case in the base, what
//!    was agreed on a metric, and the value of a rival.
//! 3. `rules`: one gate, one verdict, with what was accepted of it; a file for each kind of rule.
//! 4. `proof`: whether a case is right, once for each case.
//! 5. `review`: what is expected to fail, what stands in for what fails, and what is looser than at the base.
//! 6. `passes`, `schedule`, `ungated`, `baselines`, `targets`, and `compare` in this file.
//!
//! # Example
//!
//! A program of its own can read a record that `gatekeeper run` wrote, and ask for the verdicts:
//!
//! ```
//! # let text = include_str!("../../../tests/fixtures/golden/record-1.json");
//! // let text = std::fs::read_to_string("gatekeeper-out/record.json")?;
//! let file: serde_json::Value = serde_json::from_str(text)?;
//! let record: model::Record = serde_json::from_value(file["record"].clone())?;
//!
//! let judgement = judge::judge(&record);
//! for verdict in &judgement.verdicts {
//!     println!("{}: {}", verdict.outcome.name(), verdict.reason.code());
//! }
//! # assert!(!judgement.verdicts.is_empty());
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

mod against_base;
mod agreed;
mod baselines;
mod best;
pub mod blame;
mod counterpart;
mod index;
mod lookup;
mod not_passed;
mod notes;
mod passes;
mod problems;
mod proof;
pub mod renames;
mod rests;
mod review;
mod rivals;
mod rules;
mod schedule;
mod series;
mod sessions;
pub mod stats;
mod targets;
mod ungated;
mod value;

#[cfg(any(test, feature = "fixture"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests alone")]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use agreed::ANY_SHAPE;
pub use baselines::{Refused, acceptable, accepts_worse};
pub use best::best;
pub use index::{Index, View};
pub use lookup::{unit_for, unit_to_simulate};
pub use not_passed::{NotPassed, OrNotPassed};
pub use proof::bounds_error;
pub use review::loosened::asks_no_less;
pub use review::references::comparable;
pub use rules::base::{count_contests, ln_ratio};
pub use rules::findings::{FindingStanding, SeenFinding};
pub use rules::relative_change;
pub use schedule::{
    Admission, Profiled, RivalTask, RivalTurn, Stage, Timing, admit, needed_of_base, next,
    next_rivals, to_profile, to_simulate,
};
pub use sessions::joined;
pub use value::profile::figure as profile_figure;
pub use value::{MetricValue, Spread};

use baselines::{PairedTimes, timed_by_two_protocols};
use model::*;

/// Judges every gate of a record, and concludes from all of them. A caller that asks more of the record keeps its
/// [`Index`] and uses [`Index::judge`].
pub fn judge(record: &Record) -> Judgement {
    Index::new(record).judge()
}

/// Returns `head` with what `base` measured as its baselines. Judged alone, this record gets the verdicts on its gates
/// that [`compare`] gives.
pub fn with_baselines_of(base: &Record, head: &Record) -> Record {
    let policy = Policy {
        baselines: baselines_of(base).0,
        base_faults: faults_of(base),
        ..head.policy.clone()
    };
    Record {
        policy,
        ..head.clone()
    }
}

fn faults_of(base: &Record) -> Vec<BaseFault> {
    base.evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::Build {
                unit,
                facts: Seen::Fault(fault),
            } => Some(BaseFault {
                unit: unit.clone(),
                fault: fault.clone(),
            }),
            _ => None,
        })
        .collect()
}

fn baselines_of(base: &Record) -> (Vec<Baseline>, index::Refusals) {
    // No verdict depends on where a baseline came from.
    let index = Index::new(base);
    baselines::make(base, &index, "base", PairedTimes::Taken, &|_| None)
}

/// Judges `head` by its own gates against what `base` measured. Keys, limits and intervals are the same as in any other
/// judgement. If head asks less than base did, further verdicts say so.
pub fn compare(base: &Record, head: &Record, loosening: Loosening) -> Judgement {
    let (mut baselines, mut refusals) = baselines_of(base);
    for case in timed_by_two_protocols(base, head) {
        for baseline in baselines
            .iter_mut()
            .filter(|baseline| baseline.holds_times_of(&case))
        {
            baseline.cases.remove(&case.shape);
        }
        let why = NotPassed {
            outcome: Outcome::Inconclusive,
            reason: Reason::TwoProtocols,
        };
        refusals.insert((Subject::Case(case), Facet::Times), why);
    }
    let policy = Policy {
        baselines,
        broken_baselines: Vec::new(),
        base_faults: faults_of(base),
        // Both records are measured already, so this judgement has no base revision.
        base: None,
        ..head.policy.clone()
    };
    Index::from_two(&policy, refusals, [base, head], loosening).judge()
}
