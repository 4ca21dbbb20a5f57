//! What every format says, before it is laid out: what broke, how to see it alone, what was skipped.

use super::beside;
use super::names::{in_words, named};
use super::reasons::{self, Context};
use super::words::{self, listed, plural};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use verdict::judge::Values;
use verdict::model::{
    Case, Conclusion, Costs, Counter, Environment, Facet, Judgement, Metric, NotRun, Outcome,
    Question, Reason, Record, Rule, Seen, Subject, Verdict, Win,
};

/// Verdicts that ended alike for one reason: a fault breaks many gates, a source that does not compile many
/// subjects, and each is told once.
pub struct Problem<'a> {
    /// In the order of the gates; at least one. Each has all of the gates.
    pub subjects: Vec<&'a Subject>,
    pub outcome: Outcome,
    pub reason: &'a Reason,
    /// Of all subjects.
    pub gates: Vec<&'a Verdict>,
}

impl<'a> Problem<'a> {
    /// `k/fast@small, k/fast@large`; of many how many, by variant.
    pub fn subjects(&self, record: &Record) -> String {
        named(&record.plan, &self.subjects)
    }

    /// `p50 +2%`, or several, separated by commas.
    pub fn gates(&self) -> String {
        self.gate_names().join(", ")
    }

    /// Each once, in order.
    pub fn gate_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for verdict in &self.gates {
            let name = words::question(&verdict.question);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Why, in one sentence.
    pub fn sentence(&self, environment: &Environment) -> String {
        let context = Context {
            environment,
            subjects: &self.subjects,
        };
        context.sentence(self.reason)
    }

    /// `gates.yaml:7, 12`.
    pub fn declared(&self) -> Option<String> {
        let places: BTreeSet<_> = self
            .gates
            .iter()
            .filter_map(|verdict| verdict.declared.as_deref())
            .collect();
        (!places.is_empty()).then(|| places.into_iter().collect::<Vec<_>>().join(", "))
    }
}

/// Everything that keeps the run from passing, the worst first, otherwise in the order of the gates; but for
/// gates that were loosened, which have a place of their own.
pub fn problems(judgement: &Judgement) -> Vec<Problem<'_>> {
    let mut problems: Vec<Problem> = Vec::new();
    for outcome in [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive] {
        for verdict in judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome && beside::demand(verdict).is_none())
        {
            let known = problems.iter_mut().find(|problem| {
                problem.outcome == outcome
                    && problem.subjects == [&verdict.subject]
                    && *problem.reason == verdict.reason
            });
            match known {
                Some(problem) => problem.gates.push(verdict),
                None => problems.push(Problem {
                    subjects: vec![&verdict.subject],
                    outcome,
                    reason: &verdict.reason,
                    gates: vec![verdict],
                }),
            }
        }
    }
    let mut gathered: Vec<Problem> = Vec::new();
    for problem in problems {
        let same = gathered.iter_mut().find(|other| {
            (other.outcome, other.reason) == (problem.outcome, problem.reason)
                && other.gates() == problem.gates()
        });
        match same {
            Some(other) => {
                other.subjects.extend(problem.subjects);
                other.gates.extend(problem.gates);
            }
            None => gathered.push(problem),
        }
    }
    gathered
}

/// The command that runs the first of these subjects alone, which is enough to see what they have in common.
pub fn reproduce_one(record: &Record, judgement: &Judgement, of: &Problem) -> Option<String> {
    let mut subjects = of.subjects.iter();
    subjects.find_map(|subject| reproduce(record, judgement, subject))
}

/// The command that runs a subject alone; `None` for one that only the base of a comparison has, and for
/// what another program ran.
pub fn reproduce(record: &Record, judgement: &Judgement, subject: &Subject) -> Option<String> {
    if record.environment.other_program().is_some() {
        return None;
    }
    let there = match subject {
        Subject::Unit(unit) => record.plan.unit(unit).is_some(),
        Subject::Case(case) => record.plan.case(case).is_some(),
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

/// `FAIL: 1 of 44 gates failed, 43 passed`.
pub fn headline(judgement: &Judgement) -> String {
    let total = judgement.verdicts.len();
    let accepted = match judgement.accepted.len() {
        0 => String::new(),
        count => format!(", {count} of them broken and accepted"),
    };
    let said = |outcome: Outcome| match outcome {
        Outcome::Fail => "failed".to_owned(),
        Outcome::Environment => "not judged as the environment failed".to_owned(),
        Outcome::Inconclusive => "inconclusive".to_owned(),
        Outcome::Unsupported => "unsupported".to_owned(),
        Outcome::Skipped => "skipped".to_owned(),
        Outcome::Pass => format!("passed{accepted}"),
    };
    // What the conclusion rests on comes first.
    let mut order = Outcome::ALL;
    if judgement.conclusion == Conclusion::Pass {
        order.reverse();
    }
    let counts: Vec<_> = order
        .into_iter()
        .map(|outcome| (judgement.count(outcome), said(outcome)))
        .filter(|(count, _)| *count > 0)
        .enumerate()
        .map(|(at, (count, said))| match at {
            0 => format!("{count} of {} {said}", plural(total, "gate")),
            _ => format!("{count} {said}"),
        })
        .collect();
    let counts = if counts.is_empty() {
        "no gate was judged".to_owned()
    } else {
        counts.join(", ")
    };
    format!("{}: {counts}", conclusion(judgement.conclusion))
}

/// What a gate is about, as a reader counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Resources,
    Driver,
    Correctness,
    Determinism,
    Findings,
    Counters,
    Times,
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

/// What was not judged, by reason: `without a GPU (no NVIDIA device): 36 gates skipped: correctness of 4
/// cases, ...`. What an earlier failure caused is told there; new baselines have their own note.
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

/// What the skips of one reason have in common.
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
        // The unit stands in the budget.
        let estimates = self.estimates.iter();
        let estimates = estimates
            .map(|(subject, estimate)| format!("{subject} about {}", words::millions(*estimate)));
        parts.chain(estimates).collect()
    }
}

pub fn win(record: &Record, win: &Win) -> String {
    let told = format!(
        "{} {}: {} -> {}, {}",
        win.subject,
        win.metric,
        words::quantity(win.metric, win.baseline.0),
        words::quantity(win.metric, win.measured.0),
        words::change(win.metric, win.change.0),
    );
    match record.environment.other_program() {
        Some(_) => told,
        None => {
            let command = words::update_command(&record.environment, &[&win.subject]);
            format!("{told}; take it as the baseline with `{command}`")
        }
    }
}

/// One row of a table: a subject, its figures, and the worst that was said of it.
pub struct Row {
    pub name: String,
    pub cells: Vec<String>,
    pub outcome: &'static str,
}

pub const UNIT_METRICS: [Metric; 5] = [
    Metric::Registers,
    Metric::Shared,
    Metric::Spills,
    Metric::Stack,
    Metric::Occupancy,
];

/// What a table shows of a case: figures of a GPU, or of the simulator where there was none.
fn case_metrics(record: &Record) -> &'static [(&'static str, Metric)] {
    match is_simulated(record) {
        true => &SIMULATED,
        false => &TIMED,
    }
}

fn is_simulated(record: &Record) -> bool {
    record.environment.device.got().is_none() && record.environment.simulator.is_some()
}

const TIMED: [(&str, Metric); 5] = [
    ("max_err", Metric::MaxErr),
    ("p50", Metric::P50),
    ("p90", Metric::P90),
    ("p99", Metric::P99),
    ("cv", Metric::Cv),
];

const SIMULATED: [(&str, Metric); 5] = [
    ("max_err", Metric::MaxErr),
    ("load sectors", Metric::Counter(Counter::GlobalLoadSectors)),
    (
        "store sectors",
        Metric::Counter(Counter::GlobalStoreSectors),
    ),
    (
        "shared loads",
        Metric::Counter(Counter::SharedLoadWavefronts),
    ),
    (
        "shared stores",
        Metric::Counter(Counter::SharedStoreWavefronts),
    ),
];

pub fn units(record: &Record, judgement: &Judgement) -> Vec<Row> {
    let values = values(record);
    let subjects = record
        .plan
        .units
        .iter()
        .map(|unit| Subject::Unit(unit.id.clone()));
    subjects
        .map(|subject| row(&values, judgement, &subject, UNIT_METRICS.into_iter()))
        .collect()
}

/// Heads of `cases`, without the name and the verdict.
pub fn case_heads(record: &Record) -> Vec<&'static str> {
    let mut heads: Vec<_> = case_metrics(record).iter().map(|(head, _)| *head).collect();
    if !is_simulated(record) {
        heads.push("p50 to base");
    }
    heads
}

/// What the columns of times hold, where there are any: a short kernel takes longer alone than among others, and
/// that is no tail.
pub fn legend(record: &Record) -> Option<&'static str> {
    let values = values(record);
    let tail = |case: &Case| {
        values
            .metric(&Subject::Case(case.id.clone()), Metric::P90)
            .is_ok()
    };
    record.plan.cases.iter().any(tail).then_some(
        "p50 is of launches back to back; p90, p99 and cv of single ones, each with its start",
    )
}

/// Of times, with the change of p50 against the baseline as the last cell. A case that was skipped whole has no
/// figure to show, and is counted among what was skipped.
pub fn cases(record: &Record, judgement: &Judgement) -> Vec<Row> {
    let values = values(record);
    let subjects = record
        .plan
        .cases
        .iter()
        .map(|case| Subject::Case(case.id.clone()));
    subjects
        .map(|subject| {
            let metrics = case_metrics(record).iter().map(|(_, metric)| *metric);
            let mut row = row(&values, judgement, &subject, metrics);
            if is_simulated(record) {
                return row;
            }
            if let Some(told) = beside::p50(judgement, &subject) {
                row.cells.push(told);
                return row;
            }
            let mut verdicts = judgement.verdicts.iter();
            let p50 = verdicts.find(|verdict| {
                verdict.subject == subject
                    && !verdict.is_anchored()
                    && verdict.metric() == Some(Metric::P50)
                    && verdict.change.is_some()
            });
            row.cells.push(p50.map_or("-".to_owned(), to_baseline));
            row
        })
        .filter(|row| {
            row.outcome != Outcome::Skipped.name() || row.cells.iter().any(|cell| cell != "-")
        })
        .collect()
}

/// A change within its own interval is none, and what could have been seen says what that is worth.
fn to_baseline(verdict: &Verdict) -> String {
    let change = verdict.change.map_or(f64::NAN, |change| change.0);
    match (verdict.interval, verdict.smallest_visible) {
        (Some([low, high]), Some(visible)) if low.0 <= 0.0 && high.0 >= 0.0 => {
            format!("same to {}", words::percent(visible.0))
        }
        _ => words::change(Metric::P50, change),
    }
}

fn values(record: &Record) -> Values<'_> {
    Values::new(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
}

fn row(
    values: &Values,
    judgement: &Judgement,
    subject: &Subject,
    metrics: impl Iterator<Item = Metric>,
) -> Row {
    let cell = |metric: Metric| {
        let value = match (metric, subject) {
            // Also those that no gate may rest on.
            (Metric::Counter(counter), Subject::Case(id)) => values.shown(id, counter),
            _ => values
                .metric(subject, metric)
                .ok()
                .map(|value| value.number),
        };
        value.map_or("-".to_owned(), |value| words::quantity(metric, value))
    };
    let said: BTreeSet<_> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.subject == *subject)
        .map(|verdict| verdict.outcome)
        .collect();
    let undecided = [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive];
    let worst = undecided.into_iter().find(|outcome| said.contains(outcome));
    let passed = [Outcome::Pass, Outcome::Unsupported, Outcome::Skipped];
    let outcome = worst.or_else(|| passed.into_iter().find(|outcome| said.contains(outcome)));
    Row {
        name: subject.to_string(),
        cells: metrics.map(cell).collect(),
        outcome: outcome.map_or("no gate", Outcome::name),
    }
}

/// Where the wall time went; the parts add up to the whole.
pub fn costs(costs: &Costs) -> String {
    let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1000.0);
    format!(
        "{}: compiler {} ({} compiled, {} cached), reference {}, GPU work {}{}, simulator {}, {} started and ended {}, own {}",
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
        plural(costs.workers as usize, "worker"),
        seconds(costs.worker_start_ms),
        seconds(costs.own_ms()),
    )
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
    let commit = environment.commit.as_ref().map_or(String::new(), |commit| {
        format!(", commit {}", commit.get(..12).unwrap_or(commit))
    });
    format!("{device}, {compiler}{commit}, {}", environment.started)
}
