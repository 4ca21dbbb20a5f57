//! `run --blame`: which part of a compiler broke a gate. Runs what failed again, with one more part exchanged each time.

use super::{counted, remark, say};
use crate::compilers::{Step, find_guilty};
use model::{Outcome, Question, Subject, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use system::error::Result;
use wording::words;

/// Verdicts of a run with another compiler of head, of these cases alone.
pub type Rerun<'a> = &'a dyn Fn(&Step, Vec<String>) -> Result<Vec<Verdict>>;

/// Prints which step is to blame for each gate that failed.
///
/// # Errors
/// Those of a run.
pub fn blame(steps: &[Step], verdicts: &[Verdict], rerun: Rerun) -> Result<()> {
    let failed: Vec<&Verdict> = verdicts.iter().filter(|it| is_failed(it)).collect();
    let filters: BTreeSet<String> = failed.iter().map(|it| filter(&it.subject)).collect();
    // The last step gives head.
    let Some((_, between)) = steps.split_last() else {
        return Ok(());
    };
    let mut found = Vec::new();
    for step in between {
        let [from, to] = &step.versions;
        remark(&format!("to blame a part: {} {from} -> {to}", step.part));
        found.push(rerun(step, filters.iter().cloned().collect())?);
    }
    let mut blamed: BTreeMap<(usize, usize), Vec<&Verdict>> = BTreeMap::new();
    for verdict in &failed {
        let again = found.iter().map(|verdicts| {
            let mut same = verdicts.iter().filter(|it| is_same(it, verdict));
            same.next().map(|it| it.outcome)
        });
        let outcomes: Vec<_> = again.chain([Some(Outcome::Fail)]).collect();
        let guilty = find_guilty(&outcomes);
        let of_step = blamed.entry((guilty.start, guilty.end)).or_default();
        of_step.push(verdict);
    }
    let mut text = String::new();
    for ((start, end), verdicts) in blamed {
        let parts = steps.get(start..end).unwrap_or_default();
        let parts: Vec<_> = parts
            .iter()
            .map(|it| format!("{} {} -> {}", it.part, it.versions[0], it.versions[1]))
            .collect();
        text += &format!(
            "blame    {}: {} of {}\n",
            parts.join(" or "),
            verdicts.len(),
            counted(failed.len(), "failed gate")
        );
        for verdict in verdicts {
            let question = words::question(&verdict.question);
            text += &format!("         {}  {question}\n", verdict.subject);
        }
    }
    say(text.trim_end())
}

fn is_failed(verdict: &Verdict) -> bool {
    verdict.outcome == Outcome::Fail && matches!(verdict.question, Question::Gate(_))
}

fn is_same(a: &Verdict, b: &Verdict) -> bool {
    (&a.subject, &a.question) == (&b.subject, &b.question)
}

fn filter(subject: &Subject) -> String {
    match subject {
        Subject::Case(id) => id.to_string(),
        Subject::Unit(id) => format!("{}/{}", id.kernel, id.variant),
    }
}
