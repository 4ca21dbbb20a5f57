//! Parts that every format has, before they are laid out: what broke, how to see it alone, what was skipped.

use super::section::{Kind as TableKind, Table};
use model::{
    Conclusion, Costs, Facet, Judgement, NotRun, Outcome, Question, Reason, Record, Rule, Seen,
    Subject, Verdict, Win,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wording::names::in_words;
use wording::reasons;
use wording::words::{self, listed, plural};

/// The command that runs a subject alone; `None` for one that only the base of a comparison has, and for
/// what another program ran.
pub fn reproduce(record: &Record, judgement: &Judgement, subject: &Subject) -> Option<String> {
    if record.environment.other_program().is_some() {
        return None;
    }
    let there = match subject {
        Subject::Unit(unit) => record.plan.unit(unit).is_some(),
        Subject::Case(case) => {
            let mut expected = record.plan.expected.iter();
            record.plan.case(case).is_some() || expected.any(|it| it.every_shape() == *case)
        }
    };
    there.then(|| words::run_command(&record.environment, judgement.base.as_ref(), subject))
}

pub fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Pass => "PASS",
        Conclusion::Fail => "FAIL",
        Conclusion::Environment => "ENVIRONMENT FAILED",
        Conclusion::Inconclusive => "INCONCLUSIVE",
        Conclusion::NothingJudged => "NOTHING JUDGED",
    }
}

/// `FAIL: 2 problems (14 gates), 22 passed, 18 not judged`: all gates, each once.
pub fn headline(judgement: &Judgement) -> String {
    let counts = counts(judgement);
    format!("{}: {counts}", conclusion(judgement.conclusion))
}

/// The headline without its verdict.
pub fn counts(judgement: &Judgement) -> String {
    // A gate may have several acceptances.
    let mut broken: Vec<_> = judgement
        .accepted
        .iter()
        .map(|it| (&it.subject, &it.rule))
        .collect();
    broken.dedup();
    let accepted = match broken.len() {
        0 => String::new(),
        count => format!(" ({count} of them broken and accepted)"),
    };
    let first = match judgement.conclusion {
        Conclusion::Fail => Some(Outcome::Fail),
        Conclusion::Environment => Some(Outcome::Environment),
        Conclusion::Inconclusive => Some(Outcome::Inconclusive),
        Conclusion::Pass | Conclusion::NothingJudged => None,
    };
    let problems = |outcome: Outcome| {
        let problems = judgement.problems.iter();
        let count = problems.filter(|it| it.outcome == outcome).count();
        let gates = plural(judgement.count(outcome), "gate");
        format!("{} ({gates})", plural(count, "problem"))
    };
    let counted = |outcome: Outcome, said: &str| {
        let count = judgement.count(outcome);
        (count > 0 && first != Some(outcome)).then(|| format!("{count} {said}"))
    };
    let unjudged = judgement.count(Outcome::Skipped) + judgement.count(Outcome::Unsupported);
    let lead = first.filter(|outcome| judgement.count(*outcome) > 0);
    let counts: Vec<String> = [
        lead.map(problems),
        counted(Outcome::Environment, "not judged as the environment failed"),
        counted(Outcome::Inconclusive, "inconclusive"),
        counted(Outcome::Pass, &format!("passed{accepted}")),
        counted(Outcome::Replaced, "fell back on another variant"),
        counted(Outcome::Expected, "failed as expected"),
        (unjudged > 0).then(|| format!("{unjudged} not judged")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let counts = match counts.is_empty() {
        true => "no gate was judged".to_owned(),
        false => counts.join(", "),
    };
    let unchecked = judgement.base.as_ref().map_or(&[][..], |it| &it.unchecked);
    let unchecked = match unchecked {
        [] => String::new(),
        [only] => format!("; {only} is new, and nothing checked it"),
        several => format!("; {} new cases that nothing checked", several.len()),
    };
    format!("{counts}{unchecked}")
}

/// The subject of a gate, as a reader counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Resources,
    Driver,
    Correctness,
    Determinism,
    Findings,
    Counters,
    Times,
    Profiles,
    Conditions,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resources => "resources",
            Self::Driver => "agreement with the driver",
            Self::Correctness => "correctness",
            Self::Determinism => "determinism",
            Self::Findings => "memory and races",
            Self::Counters => "counters",
            Self::Times => "times",
            Self::Profiles => "profiles",
            Self::Conditions => "conditions",
        })
    }
}

fn kind(rule: &Rule) -> Kind {
    match rule {
        Rule::Built | Rule::HasEffect => Kind::Resources,
        Rule::AgreesWithDriver => Kind::Driver,
        Rule::Finite | Rule::Written | Rule::InputsIntact => Kind::Correctness,
        Rule::Deterministic => Kind::Determinism,
        Rule::Limit { metric, .. } => match metric.facet() {
            Facet::Resources => Kind::Resources,
            Facet::Correctness => Kind::Correctness,
            Facet::Times => Kind::Times,
            Facet::Counters => Kind::Counters,
            Facet::Profile => Kind::Profiles,
        },
        Rule::NoFindings => Kind::Findings,
        Rule::Counters { .. } => Kind::Counters,
        Rule::Condition { .. } => Kind::Conditions,
    }
}

/// Gates that were not judged for one reason.
#[derive(Default)]
struct Unjudged<'a> {
    gates: usize,
    subjects: BTreeMap<Kind, BTreeSet<&'a Subject>>,
    /// Warp instructions that each would take, where that is the reason.
    estimates: BTreeMap<&'a Subject, u64>,
}

/// Gates that were not judged, by reason: `without a GPU (no NVIDIA device): 36 gates skipped: correctness of 4
/// cases, ...`. Consequences of an earlier failure are reported there; new baselines have their own note.
pub fn skipped(record: &Record, judgement: &Judgement) -> Vec<String> {
    let mut groups: BTreeMap<(Outcome, String), Unjudged> = BTreeMap::new();
    for verdict in &judgement.verdicts {
        let Question::Gate(rule) = &verdict.question else {
            continue;
        };
        let is_unjudged = matches!(verdict.outcome, Outcome::Skipped | Outcome::Unsupported);
        if !is_unjudged || verdict.reason.is_new() {
            continue;
        }
        let heading = heading(record, verdict);
        let group = groups.entry((verdict.outcome, heading)).or_default();
        group.gates += 1;
        if let Reason::NotRun(NotRun::OverBudget { estimate, .. }) = verdict.reason {
            group.estimates.insert(&verdict.subject, estimate);
            continue;
        }
        let subjects = group.subjects.entry(kind(rule)).or_default();
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

/// Gates that were not judged: how many, of what, why, and what judges them. `skipped` names their cases.
pub fn not_judged(judgement: &Judgement) -> Table {
    let mut groups: Vec<(&str, &str, usize, BTreeSet<Kind>)> = Vec::new();
    for verdict in &judgement.verdicts {
        let is_unjudged = matches!(verdict.outcome, Outcome::Skipped | Outcome::Unsupported);
        let Question::Gate(rule) = &verdict.question else {
            continue;
        };
        if !is_unjudged {
            continue;
        }
        // Its name is in docs/verdicts.md; `skipped` has the sentence.
        let why = verdict.reason.code();
        let mut known = groups.iter_mut();
        match known.find(|(known, ..)| *known == why) {
            Some((_, _, gates, kinds)) => {
                *gates += 1;
                kinds.insert(kind(rule));
            }
            None => {
                let kinds = BTreeSet::from([kind(rule)]);
                groups.push((why, next_step(&verdict.reason), 1, kinds));
            }
        }
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
        ("not judged", TableKind::Number),
        ("gates on", TableKind::Text),
        ("because", TableKind::Text),
        ("to judge them", TableKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// In a word or two; docs/verdicts.md says more.
fn next_step(reason: &Reason) -> &'static str {
    match reason {
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

/// The common part of the skips of one reason.
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
    /// `correctness and memory and races of 4 cases`, and cases over the budget with their estimates.
    fn parts(self, record: &Record) -> Vec<String> {
        // Kinds that concern the same subjects name them once.
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
        // The budget gives the unit.
        let estimates = self.estimates.iter();
        let estimates = estimates
            .map(|(subject, estimate)| format!("{subject} about {}", words::millions(*estimate)));
        parts.chain(estimates).collect()
    }
}

pub fn win(record: &Record, win: &Win) -> String {
    let line = format!(
        "{} {}: {} -> {}, {}",
        win.subject,
        win.metric,
        words::quantity(win.metric, win.baseline.0),
        words::quantity(win.metric, win.measured.0),
        words::change(win.metric, win.change.0),
    );
    match record.environment.other_program() {
        Some(_) => line,
        None => {
            let command = words::update_command(&record.environment, &[&win.subject]);
            format!("{line}; take it as the baseline with `{command}`")
        }
    }
}

/// Where the wall time went; the parts add up to the whole.
pub fn costs(costs: &Costs) -> String {
    let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1000.0);
    format!(
        "{}: compiler {} ({} compiled, {} cached), reference {}, GPU work {}{}, simulator {}, {}{}{} started and ended {}, own {}",
        seconds(costs.total_ms),
        seconds(costs.compiler_ms),
        costs.compiled,
        costs.cached,
        seconds(costs.reference_ms),
        seconds(costs.gpu_ms),
        match costs.gpus {
            0 | 1 => String::new(),
            gpus => format!(" on {gpus} GPUs side by side"),
        },
        seconds(costs.simulator_ms),
        match costs.rivals_ms {
            0 => String::new(),
            ms => format!("rivals {}, ", seconds(ms)),
        },
        match costs.profiler_ms {
            0 => String::new(),
            ms => format!("profiler {}, ", seconds(ms)),
        },
        plural(costs.workers as usize, "worker"),
        seconds(costs.worker_start_ms),
        seconds(costs.own_ms()),
    )
}

/// By which gatekeeper, on what, by what: the first line in a terminal.
pub fn header(record: &Record) -> String {
    let environment = &record.environment;
    let version = format!("gatekeeper {}", environment.gatekeeper);
    format!("{version} · {}", circumstances(record).replace(", ", " · "))
}

/// On what, by what: one line.
pub fn circumstances(record: &Record) -> String {
    let environment = &record.environment;
    if let (Some(program), Some(device)) = (environment.other_program(), environment.device.got()) {
        return format!(
            "{}, times by {program}; neither whether the kernels are right nor whether the GPU was throttled is known",
            device.name
        );
    }
    let device = match &environment.device {
        Seen::Got(device) => format!("{}, driver {}", device.name, device.driver),
        Seen::NotRun(_) | Seen::Unsupported(_) if environment.simulator.is_some() => {
            "simulator, no GPU".to_owned()
        }
        Seen::NotRun(_) | Seen::Unsupported(_) => "no GPU".to_owned(),
        Seen::Fault(_) => "no usable GPU".to_owned(),
    };
    let compiler = environment
        .compiler
        .got()
        .map_or("no compiler".to_owned(), |compiler| {
            format!("nvcc {}", compiler.version)
        });
    let compiler = match &environment.base_compiler {
        Some(theirs) => format!("{compiler} (base: {})", theirs.version),
        None => compiler,
    };
    let commit = environment.commit.as_ref().map_or(String::new(), |commit| {
        format!(", commit {}", commit.get(..12).unwrap_or(commit))
    });
    let seed = record.plan.drawn.as_ref().map_or(String::new(), |drawn| {
        format!(", extra seed {} drawn from the commit", drawn.seed)
    });
    let part = match (&record.shard, environment.parts.len()) {
        (Some(shard), _) => format!(", shard {}/{}", shard.number, shard.of),
        (None, 0) => String::new(),
        (None, parts) => format!(", merged from {}", plural(parts, "shard")),
    };
    format!(
        "{device}, {compiler}{commit}{seed}{part}, {}",
        environment.started
    )
}
