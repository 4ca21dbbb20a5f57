//! The judge: what follows from plan, environment, policy and evidence, and from nothing else. Knows no
//! files, no clock and no device.
//!
//! Four questions with one answer each, however often and wherever they are asked: which cases may go on
//! ([`admit`]), which need one more timing process ([`next`]), what is each gate's verdict ([`judge`]), and
//! what changed between two records ([`compare`]). Its floors, each of which rests on those above it
//! (docs/ARCHITECTURE.md names two questions that go the other way):
//!
//! 1. `index`, `lookup`, `series`, `rests`: evidence by subject, what its absence means, and which values gates rest on.
//! 2. `value`, `agreed`, `rivals`: what a metric's value is, what was agreed on it, and what a rival's is.
//! 3. `proof`: whether a case is right, once for each case.
//! 4. `rules`: one gate, one verdict; a file for each kind of rule.
//! 5. `review`: what was accepted, what is there to fail, what stands in for what fails, and what is
//!    looser than at the base.
//! 6. `schedule`, `baselines`, `targets`, and the two judgements here.
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
mod conclusion;
mod index;
mod lookup;
mod notes;
mod problems;
mod profile;
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
mod value;

#[cfg(any(test, feature = "fixture"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests alone")]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use agreed::ANY_SHAPE;
pub use baselines::{Refused, acceptable};
pub use best::best;
pub use index::{Index, View};
pub use lookup::{Judged, Unavailable, unit_for, unit_to_simulate};
pub use profile::{Profiled, figure as profile_figure, to_profile};
pub use review::loosened::asks_no_less;
pub use review::references::comparable;
pub use rules::base::{count_contests, ln_ratio};
pub use rules::relative_change;
pub use rules::simulation::{FindingStanding, SeenFinding};
pub use schedule::{
    Admission, RivalTurn, Stage, Timing, admit, needed_of_base, next, next_rivals, to_simulate,
};
pub use sessions::joined;
pub use value::{MetricValue, Spread};

use baselines::{PairedTimes, timed_by_two_protocols};
use model::*;
use review::{Opponent, accepted, expected, fallback, references};
use rules::Refusals;
use std::collections::BTreeSet;

/// Every gate's verdict, in the order of the policy, and what they come to together. Any prefix of a run's evidence can be
/// judged; evidence that is missing is a reason in its verdict.
pub fn judge(record: &Record) -> Judgement {
    judge_index(&Index::of_record(record))
}

fn judge_index(index: &Index) -> Judgement {
    let head = index.head();
    let opponent = match &head.policy().base {
        None => Opponent::Nothing,
        Some(base) => Opponent::Revision(base),
    };
    judge_in_passes(head, &Refusals::new(), opponent)
}

/// `head` by its own gates, against what `base` measured. Keys, limits and intervals are those of any
/// other judgement. Anything that head asks less strictly than base follows as verdicts of their own.
pub fn compare(base: &Record, head: &Record, loosening: Loosening) -> Judgement {
    // No verdict depends on where a baseline came from.
    let (mut baselines, mut refusals) = baselines::make(
        base,
        &Index::of_record(base),
        "base",
        PairedTimes::Taken,
        &|_| None,
    );
    for case in timed_by_two_protocols(base, head) {
        for baseline in baselines.iter_mut().filter(|it| it.holds_times_of(&case)) {
            baseline.cases.remove(&case.shape);
        }
        let why = Unavailable {
            outcome: Outcome::Inconclusive,
            reason: Reason::TwoProtocols,
        };
        refusals.insert((Subject::Case(case), Facet::Times), why);
    }
    let policy = Policy {
        baselines,
        broken_baselines: Vec::new(),
        // Both records are measured already.
        base: None,
        ..head.policy.clone()
    };
    let index = Index::of_two(&policy, base, head);
    let opponent = Opponent::Record {
        base,
        head,
        loosening,
    };
    judge_in_passes(index.head(), &refusals, opponent)
}

/// All passes in their order. Each adds verdicts or replaces some; the conclusion is drawn last, once, from all.
fn judge_in_passes(view: View, refusals: &Refusals, opponent: Opponent) -> Judgement {
    // Each gate by its rule, and what was accepted of it.
    let mut judgement = judge_gates(view, refusals);
    let verdicts = &mut judgement.verdicts;
    // Failures of variants that are kept to fail.
    expected::review(view.plan(), verdicts);
    // Failures of variants that another stands in for.
    fallback::review(view, verdicts);
    // Files and acceptances that are no good. A comparison of two records makes its baselines itself, and by these it
    // cannot tell whether an acceptance is needed.
    let (broken, unneeded) = view.broken_baselines();
    verdicts.extend(broken);
    judgement.notes.extend(unneeded);
    if !matches!(opponent, Opponent::Record { .. }) {
        verdicts.extend(accepted::check(view, refusals));
    }
    // Everything that the base requires.
    verdicts.extend(review::against(opponent, view));
    judgement.conclusion = conclusion::conclude(view, verdicts);
    judgement.problems = problems::group(view, verdicts);

    // No verdict follows from the rest.
    judgement.targets = targets::compare(view);
    let drifts = rules::baseline::since_best(view, &judgement.drifts);
    judgement.drifts.extend(drifts);
    judgement.rivals = rivals::standings(view);
    judgement.base = against_base::summarise(view);
    judgement.notes.extend(notes::of_cases(view));
    judgement.notes.extend(match opponent {
        Opponent::Nothing => Vec::new(),
        Opponent::Revision(base) => {
            let new_inputs = references::new_inputs(view).into_iter();
            new_inputs.chain(notes::new_names(base)).collect()
        }
        Opponent::Record { base, head, .. } => notes::left_out(&base.plan, &head.plan)
            .into_iter()
            .collect(),
    });
    judgement
}

/// Rules, with what was accepted of them.
fn judge_gates(view: View, refusals: &Refusals) -> Judgement {
    let mut judgement = conclusion::empty_judgement();
    let mut new = BTreeSet::new();
    for gate in &view.policy().gates {
        let mut ruled = accepted::apply(view, gate, refusals);
        if gate.needs_device() {
            conclusion::blame_device(view, &mut ruled.verdict);
        }
        new.extend(ruled.new.map(|facet| (gate.subject.clone(), facet)));
        judgement.wins.append(&mut ruled.wins);
        judgement.counters.append(&mut ruled.counters);
        judgement.accepted.extend(ruled.accepted);
        judgement.drifts.extend(ruled.drift);
        judgement.verdicts.push(ruled.verdict);
    }
    let new = new.into_iter();
    judgement.notes = new
        .map(|(subject, facet)| Note::New { subject, facet })
        .chain(notes::gone(view))
        .collect();
    judgement
}
