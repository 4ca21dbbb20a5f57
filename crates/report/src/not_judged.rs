//! Lays out the gates that were not judged: by reason, how many, on what, and what would judge them. Pure.

use super::section::{ColumnKind, Table};
use super::unjudged;
use model::{
    Facet, Judgement, Lacking, NotRun, Outcome, Question, Reason, Record, Rule, Seen, Subject,
    Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wording::names::in_words;
use wording::reasons;
use wording::words::{self, listed, plural};

/// The subject of a gate, as a reader counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GateTopic {
    Resources,
    Driver,
    Correctness,
    Determinism,
    Findings,
    Counters,
    /// Single counters that the gate on counters leaves out.
    SingleCounters,
    Times,
    Profiles,
    Conditions,
    Others,
}

impl fmt::Display for GateTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resources => "resources",
            Self::Driver => "agreement with the driver",
            Self::Correctness => "correctness",
            Self::Determinism => "determinism",
            Self::Findings => "memory and races",
            Self::Counters => "counters",
            Self::SingleCounters => "single counters",
            Self::Times => "times",
            Self::Profiles => "profiles",
            Self::Conditions => "conditions",
            Self::Others => "other demands",
        })
    }
}

fn kind(question: &Question) -> GateTopic {
    let Question::Gate(rule) = question else {
        return GateTopic::Others;
    };
    match rule {
        Rule::Built | Rule::HasEffect => GateTopic::Resources,
        Rule::AgreesWithDriver => GateTopic::Driver,
        Rule::Finite | Rule::Written | Rule::InputsIntact => GateTopic::Correctness,
        Rule::Deterministic => GateTopic::Determinism,
        Rule::Limit { metric, .. } => match metric.facet() {
            Facet::Resources => GateTopic::Resources,
            Facet::Correctness => GateTopic::Correctness,
            Facet::Times => GateTopic::Times,
            Facet::Counters => GateTopic::Counters,
            Facet::Profile => GateTopic::Profiles,
        },
        Rule::NoFindings => GateTopic::Findings,
        Rule::Counters { .. } => GateTopic::Counters,
        Rule::Condition { .. } => GateTopic::Conditions,
    }
}

/// Gates that were not judged for one reason.
#[derive(Default)]
struct Unjudged<'a> {
    gates: usize,
    subjects: BTreeMap<GateTopic, BTreeSet<&'a Subject>>,
    /// Warp instructions that each case would take, if that is the reason.
    estimates: BTreeMap<&'a Subject, u64>,
}

/// Lists the gates that were not judged, by reason: `without a GPU (no NVIDIA device): 36 gates skipped: correctness of
/// 4 cases, ...`. Consequences of an earlier failure are reported with the failure, and new baselines have their own
/// note.
pub fn skipped(record: &Record, judgement: &Judgement) -> Vec<String> {
    let mut groups: BTreeMap<(Outcome, String), Unjudged> = BTreeMap::new();
    for verdict in unjudged::left_to_judge(judgement).filter(|verdict| !verdict.reason.is_new()) {
        let heading = heading(record, verdict);
        let group = groups.entry((verdict.outcome, heading)).or_default();
        group.gates += 1;
        if let Reason::NotRun(NotRun::OverBudget { estimate, .. }) = verdict.reason {
            group.estimates.insert(&verdict.subject, estimate);
            continue;
        }
        let subjects = group.subjects.entry(kind(&verdict.question)).or_default();
        subjects.insert(&verdict.subject);
    }
    groups
        .into_iter()
        .map(|((outcome, heading), group)| {
            format!(
                "{heading}: {} {outcome}: {}",
                plural(group.gates, "gate"),
                group.parts(record).join("; ")
            )
        })
        .collect()
}

/// Returns a table of the gates that were not judged: how many, on what, why, and what would judge them. `skipped`
/// names their cases.
pub fn table(judgement: &Judgement) -> Table {
    let mut groups: Vec<(&str, &str, usize, BTreeSet<GateTopic>)> = Vec::new();
    for verdict in unjudged::left_to_judge(judgement) {
        // docs/verdicts.md explains the name, and `skipped` has the sentence.
        let why = verdict.reason.code();
        let mut known = groups.iter_mut();
        match known.find(|(known, ..)| *known == why) {
            Some((_, _, gates, kinds)) => {
                *gates += 1;
                kinds.insert(kind(&verdict.question));
            }
            None => {
                let kinds = BTreeSet::from([kind(&verdict.question)]);
                groups.push((why, next_step(&verdict.reason), 1, kinds));
            }
        }
    }
    let withheld = unjudged::withheld(judgement);
    if withheld > 0 {
        let kinds = BTreeSet::from([GateTopic::SingleCounters]);
        groups.push(("withheld", "-v says why", withheld, kinds));
    }
    groups.sort_by_key(|(_, _, gates, _)| std::cmp::Reverse(*gates));
    let rows = groups.into_iter().map(|(why, next, gates, kinds)| {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        vec![
            gates.to_string(),
            kinds.join(", "),
            why.replace('-', " "),
            next.to_owned(),
        ]
    });
    let columns = [
        ("not judged", ColumnKind::Number),
        ("gates on", ColumnKind::Text),
        ("because", ColumnKind::Text),
        ("to judge them", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Returns what would judge the gates, in a word or two. docs/verdicts.md says more.
fn next_step(reason: &Reason) -> &'static str {
    match reason {
        Reason::New {
            lacking: Lacking::OlderFile,
            ..
        } => "-",
        Reason::New {
            lacking: Lacking::Kernel,
            ..
        } => "binary --update",
        reason if reason.is_new() => "baseline update",
        Reason::NoBase => "--base REVISION",
        Reason::NotSimulated => "--device sim",
        Reason::NotProfiled => "--profile",
        Reason::NotRun(NotRun::OverBudget { .. }) => "--sim-budget",
        Reason::NotRun(NotRun::NoDevice { .. } | NotRun::SimulatorAsked) => "a GPU",
        Reason::NotProven { .. } => "mend what failed",
        _ => "-",
    }
}

/// Returns the common part of the skips of one reason.
fn heading(record: &Record, verdict: &Verdict) -> String {
    match &verdict.reason {
        Reason::NotProven { .. } => reasons::NOT_PROVEN.to_owned(),
        Reason::NotRun(NotRun::OverBudget { budget, .. }) => reasons::over_budget(*budget),
        Reason::NotRun(why) if record.environment.device == Seen::NotRun(why.clone()) => {
            format!("without a GPU ({})", reasons::not_run(why))
        }
        _ => {
            let sentence = reasons::verdict(&record.environment, verdict);
            sentence.lines().next().unwrap_or_default().to_owned()
        }
    }
}

impl Unjudged<'_> {
    /// Returns the gates by subject: `correctness and memory and races of 4 cases`, and cases over the budget with
    /// their estimates.
    fn parts(self, record: &Record) -> Vec<String> {
        // Kinds of gates that concern the same subjects name them once.
        let mut together: Vec<(Vec<String>, BTreeSet<&Subject>)> = Vec::new();
        for (kind, subjects) in self.subjects {
            match together.iter_mut().find(|(_, others)| *others == subjects) {
                Some((kinds, _)) => kinds.push(kind.to_string()),
                None => together.push((vec![kind.to_string()], subjects)),
            }
        }
        let parts = together.into_iter().map(|(kinds, subjects)| {
            let subjects = in_words(&record.plan, &subjects);
            format!("{} of {subjects}", listed(&kinds))
        });
        // Estimates and budget have the same unit.
        let estimates = self
            .estimates
            .iter()
            .map(|(subject, estimate)| format!("{subject} about {}", words::millions(*estimate)));
        parts.chain(estimates).collect()
    }
}
