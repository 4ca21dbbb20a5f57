//! Lays out a run against a base revision: what it was compared with, how long both sides took, and which gates are
//! looser than at the base. It shows what the judge said, and decides nothing.

use model::{
    AgainstBase, BaseDemand, CaseId, Effort, Facet, Judgement, Loosened, Metric, Num, Outcome,
    Plan, Question, Reason, Record, Subject, Verdict,
};
use std::collections::{BTreeSet, HashMap};
use wording::names::in_words;
use wording::reasons;
use wording::words::{self, plural};

/// Returns the base and how many cases changed: `origin/main (0a34415aaaaa): 2 cases changed, 2 unchanged, 1 new`.
pub fn compared_with(base: &AgainstBase) -> String {
    let counts: Vec<_> = [
        (base.changed.len(), "changed"),
        (base.unchanged.len(), "unchanged"),
        (base.new.len(), "new"),
        (base.unknown.len(), "not timed"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .enumerate()
    .map(|(at, (count, what))| match at {
        0 => format!("{} {what}", plural(count, "case")),
        _ => format!("{count} {what}"),
    })
    .collect();
    let counts = match (&base.no_gates, counts.is_empty()) {
        (Some(lacking), _) => format!("nothing compared, it has no {}", lacking.file),
        (None, true) => "no case is timed".to_owned(),
        (None, false) => counts.join(", "),
    };
    format!("{}: {counts}", named(base))
}

/// Returns a sentence if the base gave nothing to compare with: `nothing compared, origin/main (0a34415aaaaa) has no
/// gates.yaml`.
pub fn nothing_compared(base: &AgainstBase) -> Option<String> {
    let file = &base.no_gates.as_ref()?.file;
    Some(format!("nothing compared, {} has no {file}", named(base)))
}

/// Returns the name and commit of the base: `origin/main (0a34415aaaaa)`.
fn named(base: &AgainstBase) -> String {
    match revision(base) {
        // A base that is another compiler or another capture has no commit.
        name if base.commit.is_empty() || base.toolchain.is_some() => name.to_owned(),
        hash if hash == commit(base) => hash.to_owned(),
        name => format!("{name} ({})", commit(base)),
    }
}

/// Returns the revision as it was named. A whole hash, which workflows use, is cut to a readable length.
pub fn revision(base: &AgainstBase) -> &str {
    if base.revision == base.commit {
        commit(base)
    } else {
        &base.revision
    }
}

pub fn commit(base: &AgainstBase) -> &str {
    base.commit.get(..12).unwrap_or(&base.commit)
}

/// Returns the cases that were not timed against the base, by name and with the reason.
pub fn untimed(record: &Record, base: &AgainstBase) -> Vec<String> {
    let unchanged = if base.unchanged_timed {
        &[][..]
    } else {
        &base.unchanged
    };
    [
        (
            unchanged,
            "unchanged, with the same machine code, launch and arguments, and so not timed against it",
        ),
        (&base.new[..], "new, with nothing to be timed against"),
        (
            &base.unknown[..],
            "not timed against it, as a device or a build is missing",
        ),
    ]
    .into_iter()
    .filter(|(cases, _)| !cases.is_empty())
    .map(|(cases, why)| format!("{why}: {}", briefly(&record.plan, cases)))
    .collect()
}

/// Lists what the base was checked on, and what needed no check of it.
pub fn checked(record: &Record, base: &AgainstBase) -> Vec<String> {
    // With times there is already a line about what did not change.
    let alike = match record.environment.simulator {
        Some(_) => &base.checked_alike[..],
        None => &[],
    };
    [
        (&base.checked[..], "checked on the base too"),
        (
            &base.unanswered[..],
            "asked of the base too, which gave no answer",
        ),
        (
            alike,
            "the same code, launch, inputs and reference, so that one check covers both",
        ),
    ]
    .into_iter()
    .filter(|(cases, _)| !cases.is_empty())
    .map(|(cases, what)| format!("{what}: {}", briefly(&record.plan, cases)))
    .collect()
}

/// If there are more names than this, they are counted by kernel.
const MOST_NAMES: usize = 6;

fn briefly(plan: &Plan, cases: &[CaseId]) -> String {
    let subjects: Vec<_> = cases.iter().cloned().map(Subject::Case).collect();
    let variants: BTreeSet<_> = cases
        .iter()
        .map(|case| (&case.kernel, &case.variant))
        .collect();
    if variants.len() <= MOST_NAMES {
        return in_words(plan, &subjects.iter().collect());
    }
    let kernels: BTreeSet<_> = cases.iter().map(|case| &case.kernel).collect();
    let counts: Vec<_> = kernels
        .into_iter()
        .map(|kernel| {
            let count = cases.iter().filter(|case| case.kernel == *kernel).count();
            format!("{count} of {kernel}")
        })
        .collect();
    format!("{} ({})", plural(cases.len(), "case"), counts.join(", "))
}

/// Returns the effort of timing against the base, or `None` if nothing was timed: `up to 11 processes a case, 384
/// samples, 0.4 s of GPU time, of which one verdict took at most 0.2 s`.
pub fn effort(judgement: &Judgement) -> Option<String> {
    let effort = judgement.base.as_ref()?.effort;
    if effort.processes == 0 {
        return None;
    }
    let seconds = |effort: Effort| effort.gpu_ms.map(|ms| ms.0 / 1000.0);
    let most = judgement
        .verdicts
        .iter()
        .filter_map(|verdict| verdict.effort)
        .filter_map(seconds)
        .reduce(f64::max);
    let most = most.map_or(String::new(), |most| {
        format!(", of which one verdict took at most {most:.2} s")
    });
    Some(format!(
        "up to {} a case, {}, {:.2} s of GPU time{most}",
        processes(effort.processes),
        plural(
            usize::try_from(effort.samples).unwrap_or(usize::MAX),
            "sample"
        ),
        seconds(effort).unwrap_or(f64::NAN),
    ))
}

fn processes(count: u32) -> String {
    plural(count as usize, "process")
}

/// Returns how often the bounds of a change mislead.
pub fn errors(record: &Record) -> Option<String> {
    let pairing = record.plan.pairing.as_ref()?;
    Some(format!(
        "chances of error: {} of any false alarm in the whole run, {} of a miss in each verdict",
        words::percent(pairing.false_alarms.0),
        words::percent(pairing.misses.0),
    ))
}

/// Returns lines on the comparison with the base, and on its cost.
pub fn lines(record: &Record, judgement: &Judgement, base: &AgainstBase) -> Vec<String> {
    let mut lines = vec![compared_with(base)];
    lines.extend(untimed(record, base));
    lines.extend(checked(record, base));
    if let Some(effort) = effort(judgement) {
        lines.push(format!("timed interleaved: {effort}"));
    }
    lines
}

/// One value of a case on both sides.
pub struct ComparedTimes<'a> {
    pub subject: &'a Subject,
    pub metric: Metric,
    pub base: String,
    pub head: String,
    /// The change of the value, such as `1.0 % slower`.
    pub change: String,
    /// The interval of the change: `0.9 % to 1.1 % slower`.
    pub bounds: String,
    /// The smallest change that the tightest of the gates would have seen.
    pub visible: String,
    /// The gates: `+0.5% of base`, or several, separated by commas.
    pub gates: String,
    /// The worst outcome among those gates.
    pub outcome: Outcome,
}

/// Returns the measurements against the base, in the order of the gates. Each value has one row, however many gates it
/// has.
pub fn compared(judgement: &Judgement) -> Vec<ComparedTimes<'_>> {
    let mut order = Vec::new();
    let mut verdicts_of: HashMap<(&Subject, Metric), Vec<&Verdict>> = HashMap::new();
    for verdict in judgement
        .verdicts
        .iter()
        .filter(|verdict| is_measured(verdict))
    {
        let Some(metric) = verdict.metric() else {
            continue;
        };
        let key = (&verdict.subject, metric);
        let verdicts = verdicts_of.entry(key).or_default();
        if verdicts.is_empty() {
            order.push(key);
        }
        verdicts.push(verdict);
    }
    order
        .into_iter()
        .filter_map(|key| {
            let (subject, metric) = key;
            row(subject, metric, verdicts_of.get(&key)?)
        })
        .collect()
}

/// Returns true if the verdict has a measured effort. GPU time is known only for cases that were timed against the
/// base.
fn is_measured(verdict: &Verdict) -> bool {
    verdict.effort.is_some_and(|effort| effort.gpu_ms.is_some())
}

fn row<'a>(
    subject: &'a Subject,
    metric: Metric,
    verdicts: &[&Verdict],
) -> Option<ComparedTimes<'a>> {
    let limit = |verdict: &&&Verdict| verdict.limit.map_or(f64::INFINITY, |limit| limit.0);
    let tightest = verdicts
        .iter()
        .min_by(|a, b| limit(a).total_cmp(&limit(b)))?;
    let [low, high] = tightest.interval?;
    let gates: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| words::limit_of(&verdict.question))
        .collect();
    let change = tightest.change?.0;
    let (change, bounds) = match metric {
        // This is a difference of shares, and neither side is a value by itself.
        Metric::SlowShare => (
            format!("{:+.1} points", 100.0 * change),
            format!("{:+.1} to {:+.1} points", 100.0 * low.0, 100.0 * high.0),
        ),
        _ => (
            words::change(metric, change),
            words::interval(metric, [low.0, high.0]),
        ),
    };
    let quantity =
        |value: Option<Num>| value.map_or("-".to_owned(), |value| words::quantity(metric, value.0));
    Some(ComparedTimes {
        subject,
        metric,
        base: quantity(tightest.baseline),
        head: quantity(tightest.measured),
        change,
        bounds,
        visible: tightest
            .smallest_visible
            .map_or("-".to_owned(), |visible| words::percent(visible.0)),
        gates: gates.join(", "),
        outcome: verdicts.iter().map(|verdict| verdict.outcome).min()?,
    })
}

/// Returns how p50 of a case compares with the base, or `None` if there is no base or the base has no such case.
pub fn p50(judgement: &Judgement, subject: &Subject) -> Option<String> {
    let base = judgement.base.as_ref()?;
    let Subject::Case(case) = subject else {
        return None;
    };
    if base.new.contains(case) {
        return None;
    }
    let own = judgement.verdicts.iter().filter(|verdict| {
        verdict.subject == *subject && verdict.metric() == Some(Metric::P50) && is_measured(verdict)
    });
    Some(match row(subject, Metric::P50, &own.collect::<Vec<_>>()) {
        Some(row) => row.change,
        None if base.unchanged.contains(case) => "unchanged".to_owned(),
        None => "-".to_owned(),
    })
}

/// Returns true if a value is compared with the base, and not with a stored baseline.
pub fn is_of_base(judgement: &Judgement, verdict: &Verdict) -> bool {
    let (Some(base), Subject::Case(case)) = (&judgement.base, &verdict.subject) else {
        return false;
    };
    let is_time = |metric: Metric| metric.facet() == Facet::Times;
    verdict.metric().is_some_and(is_time) && !base.new.contains(case)
}

/// Gates of head that are looser than at the base: one gate, or all gates of a subject that is gone.
pub struct LoosenedGates<'a> {
    pub subject: &'a Subject,
    /// The base's demands, at least one.
    demands: Vec<&'a BaseDemand>,
    /// The way in which head demands less than the base.
    how: &'a Loosened,
    pub outcome: Outcome,
    /// The stable code of the reason.
    pub code: &'static str,
    /// The place where head declares what it has instead.
    pub declared: Option<&'a str>,
}

impl LoosenedGates<'_> {
    /// Returns the base's demand: `registers <= 128, spills <= 0 B`.
    pub fn asked(&self) -> String {
        self.demands
            .iter()
            .map(|demand| words::demand(demand))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns head's gate in its place.
    pub fn now(&self) -> String {
        reasons::loosened(self.how)
    }

    /// Returns the loosened gates as a line: `k/fast [sm_90]: registers <= 128: head has registers <= 140
    /// (gates.yaml:7)`.
    pub fn line(&self) -> String {
        let at = self
            .declared
            .map_or(String::new(), |declared| format!(" ({declared})"));
        format!("{}: {}: {}{at}", self.subject, self.asked(), self.now())
    }
}

pub fn loosened(judgement: &Judgement) -> Vec<LoosenedGates<'_>> {
    let mut found: Vec<LoosenedGates> = Vec::new();
    for verdict in &judgement.verdicts {
        let (Some(demand), Reason::Loosened(how) | Reason::LooseningAllowed(how)) =
            (demand(verdict), &verdict.reason)
        else {
            continue;
        };
        let one = LoosenedGates {
            subject: &verdict.subject,
            demands: vec![demand],
            how,
            outcome: verdict.outcome,
            code: verdict.reason.code(),
            declared: verdict.declared.as_deref(),
        };
        let same = found.iter_mut().find(|known| {
            (known.subject, known.how, known.outcome) == (one.subject, one.how, one.outcome)
                && known.declared == one.declared
        });
        match same {
            Some(known) => known.demands.push(demand),
            None => found.push(one),
        }
    }
    found
}

/// Returns the base's demand if the verdict is about whether head demands as much.
pub fn demand(verdict: &Verdict) -> Option<&BaseDemand> {
    match &verdict.question {
        Question::NoLooser(demand) => Some(demand),
        Question::Gate(_)
        | Question::Baseline
        | Question::Acceptance(_)
        | Question::Failure(_)
        | Question::UngatedResources => None,
    }
}

/// Counts the loosened gates: `2 gates are looser than at origin/main`.
pub fn looser(judgement: &Judgement, loosened: &[LoosenedGates]) -> String {
    let base = judgement.base.as_ref().map_or("the base", revision);
    let gates = loosened.iter().map(|loosened| loosened.demands.len()).sum();
    let is = if gates == 1 { "is" } else { "are" };
    format!("{} {is} looser than at {base}", plural(gates, "gate"))
}

/// Returns how many gates are looser, and what allows that.
pub fn loosening(judgement: &Judgement, loosened: &[LoosenedGates]) -> String {
    let allowed = loosened
        .iter()
        .all(|loosened| loosened.outcome == Outcome::Pass);
    let what = if allowed {
        "`--allow-loosened` allowed it"
    } else {
        "only `--allow-loosened` allows it, which a workflow sets from a label that only maintainers can add"
    };
    format!("{}; {what}", looser(judgement, loosened))
}
