//! Writes the parts that every format has: what broke, how to see it alone, what was skipped.

use super::against_base::nothing_compared;
use super::unjudged;
use crate::input::ReportInput;
use model::{Conclusion, Environment, Evidence, Judgement, Outcome, Record, Seen, Subject, Win};
use wording::words::{self, plural};

/// Returns the command that runs a subject alone. Returns `None` for a subject that only the base of a comparison has,
/// and for one that another program ran.
pub fn reproduce(record: &Record, judgement: &Judgement, subject: &Subject) -> Option<String> {
    if record.plan.is_compiled(subject) {
        let config = words::config(&record.environment);
        let command = format!("gatekeeper binary{config}");
        return record.has_binaries().then_some(command);
    }
    if !is_ours(&record.environment) {
        return None;
    }
    let there = match subject {
        Subject::Unit(unit) => record.plan.unit(unit).is_some(),
        Subject::Case(case) => {
            let mut expected = record.plan.expected.iter();
            let is_planned = record.plan.case(case).is_some();
            let is_program = || record.plan.uncaptured.iter().any(|gap| gap.case == *case);
            is_planned
                || is_program()
                || expected.any(|expected_case| expected_case.every_shape() == *case)
        }
    };
    if record.plan.is_replay() {
        let base = judgement.base.as_ref();
        let case = match subject {
            Subject::Case(case) => record.plan.case(case),
            Subject::Unit(_) => None,
        };
        return there.then(|| words::replay_command(&record.environment, base, case, subject));
    }
    there.then(|| words::run_command(&record.environment, judgement.base.as_ref(), subject))
}

/// Returns true if gatekeeper built and ran the kernels, and has gates for them.
pub(super) fn is_ours(environment: &Environment) -> bool {
    environment.other_program().is_none() && !environment.is_compiled()
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

/// Returns the headline: `FAIL: 2 problems (14 gates), 22 passed, 18 not judged`. Each gate counts once, and the number
/// not judged is the sum of the list below. It begins with a note if nothing was compared with the base, and ends with
/// the trees that had uncommitted changes.
pub fn headline(input: &ReportInput) -> String {
    let judgement = input.judgement;
    let nothing = judgement.base.as_ref().and_then(nothing_compared);
    let parts: Vec<_> = nothing
        .into_iter()
        .chain([counts(judgement)])
        .chain(uncommitted(input))
        .collect();
    format!("{}: {}", conclusion(judgement.conclusion), parts.join("; "))
}

/// Returns which trees had uncommitted changes: `head is 0a34415aaaaa with uncommitted changes`, and the same for the
/// base of a comparison.
pub fn uncommitted(input: &ReportInput) -> Option<String> {
    let sides = [("base", input.base), ("head", Some(input.record))];
    let changed: Vec<_> = sides
        .into_iter()
        .filter_map(|(side, record)| {
            let commit = record?.environment.changed_commit()?;
            Some(format!(
                "{side} is {} with uncommitted changes",
                short(commit)
            ))
        })
        .collect();
    (!changed.is_empty()).then(|| changed.join(", "))
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Returns the headline without its verdict.
pub fn counts(judgement: &Judgement) -> String {
    // A gate may have several acceptances.
    let mut broken: Vec<_> = judgement
        .accepted
        .iter()
        .map(|accepted| (&accepted.subject, &accepted.rule))
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
        let count = judgement
            .problems
            .iter()
            .filter(|problem| problem.outcome == outcome)
            .count();
        let gates = plural(judgement.count(outcome), "gate");
        format!("{} ({gates})", plural(count, "problem"))
    };
    let counted = |outcome: Outcome, said: &str| {
        let count = judgement.count(outcome);
        (count > 0 && first != Some(outcome)).then(|| format!("{count} {said}"))
    };
    let unjudged = unjudged::count(judgement);
    let lead = first.filter(|outcome| judgement.count(*outcome) > 0);
    let counts: Vec<String> = [
        lead.map(problems),
        counted(Outcome::Environment, "stopped by the environment"),
        counted(Outcome::Inconclusive, "inconclusive"),
        counted(Outcome::Pass, &format!("passed{accepted}")),
        counted(Outcome::Replaced, "fell back on another variant"),
        counted(Outcome::Expected, "failed as expected"),
        (unjudged > 0).then(|| format!("{unjudged} not judged")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let counts = if counts.is_empty() {
        "no gate was judged".to_owned()
    } else {
        counts.join(", ")
    };
    let unchecked = judgement
        .base
        .as_ref()
        .map_or(&[][..], |base| &base.unchecked);
    let unchecked = match unchecked {
        [] => String::new(),
        [only] => format!("; {only} is new, and nothing checked it"),
        several => format!("; {} new cases that nothing checked", several.len()),
    };
    format!("{counts}{unchecked}")
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
    if record.plan.is_compiled(&win.subject) {
        let command = words::update_binaries_command(&record.environment);
        return if record.has_binaries() {
            format!("{line}; take it as the baseline with `{command}`")
        } else {
            line
        };
    }
    if is_ours(&record.environment) {
        let command = words::update_command(&record.environment, &[&win.subject]);
        format!("{line}; take it as the baseline with `{command}`")
    } else {
        line
    }
}

/// Returns where the wall time went. The parts add up to the whole.
pub fn costs(record: &Record) -> String {
    let costs = &record.costs;
    let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1000.0);
    format!(
        "{}: compiler {} ({} compiled, {} cached), reference {}, GPU work {}{}, simulator {}{}, {}{}{} started and ended {}, own {}",
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
        reused(record).map_or(String::new(), |said| format!(" ({said})")),
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

/// Returns how many simulated results of earlier runs this one reused.
fn reused(record: &Record) -> Option<String> {
    let since = record
        .evidence
        .iter()
        .filter_map(|piece| match piece.as_base().unwrap_or(piece) {
            Evidence::Reused { since, .. } => Some(since.as_str()),
            _ => None,
        });
    let oldest = since.clone().min()?;
    let day = oldest.split('T').next().unwrap_or(oldest);
    let results = plural(since.count(), "result");
    Some(format!(
        "{results} of earlier runs, the oldest of {day}; `--fresh` simulates all"
    ))
}

/// Returns which gatekeeper ran on what machine with which compiler: the first line in a terminal.
pub fn header(record: &Record) -> String {
    let environment = &record.environment;
    let version = format!("gatekeeper {}", environment.gatekeeper);
    format!("{version} · {}", circumstances(record).replace(", ", " · "))
}

/// Returns the machine and the compiler in one line.
pub fn circumstances(record: &Record) -> String {
    let environment = &record.environment;
    if let (Some(program), Some(device)) = (environment.other_program(), environment.device.got()) {
        return format!(
            "{}, times by {program}; neither whether the kernels are right nor whether the GPU was throttled is known",
            device.name
        );
    }
    if environment.is_compiled() {
        let files = match (&environment.toolchain, &environment.base_compiler) {
            (Some(ours), Some(theirs)) => {
                format!("PTX assembled by nvcc {ours} (base: {})", theirs.version)
            }
            (Some(ours), None) => format!("PTX assembled by nvcc {ours}"),
            (None, _) => "compiled files".to_owned(),
        };
        return format!("{files}, nothing was run, {}", environment.started);
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
        format!(", commit {}", short(commit))
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
