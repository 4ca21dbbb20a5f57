//! Messages at a line of a file, whoever shows them. Pure.

use super::{beside, page, problems};
use judge::Index;
use model::{Judgement, Outcome, Reason, Record, Verdict};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use wording::reasons;
use wording::words;

/// Worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

pub struct Annotation {
    pub level: Level,
    /// The code of the reason; `None` where it is no verdict.
    pub code: Option<&'static str>,
    /// None where none is known.
    pub place: Option<Place>,
    pub title: String,
    pub message: String,
}

/// A line of a file, from the directory in which gatekeeper ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    pub line: String,
}

/// Annotations on what did not hold, each cause once; on accepted gates; on loosened gates; on what the base says.
pub fn annotations(record: &Record, judgement: &Judgement) -> Vec<Annotation> {
    let mut all = Vec::new();
    let index = Index::of_record(record);
    let fallen = problems::ended(&index, record, judgement, &[Outcome::Replaced]);
    let problems = problems::problems(&index, record, judgement).into_iter();
    for problem in problems.chain(fallen) {
        let command = problem.command.map(|command| format!("\n{command}"));
        all.push(Annotation {
            level: level(problem.outcome),
            code: Some(problem.code),
            place: problem.place.and_then(|at| Place::of(record, at)),
            title: format!("{}: {}", problem.subjects, problem.gates.join(", ")),
            message: problem.why + &command.unwrap_or_default(),
        });
    }
    for accepted in &judgement.accepted {
        let declared = &accepted.declared;
        all.push(Annotation {
            level: Level::Warning,
            code: Some(accepted.reason.code()),
            place: Place::of(record, declared)
                .or_else(|| Place::of(record, &format!("{declared}:1"))),
            title: format!(
                "accepted: {} {}",
                accepted.subject,
                words::gate(&accepted.rule)
            ),
            message: reasons::reason(&record.environment, &accepted.subject, &accepted.reason),
        });
    }
    for gate in beside::loosened(judgement) {
        let (level, allows) = match gate.outcome {
            Outcome::Pass => (Level::Notice, "allowed by --allow-loosened"),
            _ => (Level::Error, "only --allow-loosened allows it"),
        };
        all.push(Annotation {
            level,
            code: Some(gate.code),
            place: gate.declared.and_then(|at| Place::of(record, at)),
            title: format!("gate loosened: {}: {}", gate.subject, gate.asked()),
            message: format!("{}\n{allows}", gate.now()),
        });
    }
    if let Some(base) = &judgement.base {
        let lines = page::base_lines(record, judgement, base);
        all.push(Annotation {
            level: Level::Notice,
            code: None,
            place: None,
            title: "compared with the base".to_owned(),
            message: lines.join("\n"),
        });
    }
    all
}

/// Findings of the simulator, at the line of the kernel: each line and kind once.
pub fn findings(record: &Record, judgement: &Judgement) -> Vec<Annotation> {
    let mut said = BTreeSet::new();
    let mut all = Vec::new();
    for Verdict {
        subject,
        outcome,
        reason,
        ..
    } in &judgement.verdicts
    {
        let (Reason::Findings { first, .. } | Reason::NewHazards { first, .. }) = reason else {
            continue;
        };
        for finding in first {
            let lines = finding
                .places
                .iter()
                .filter_map(|place| place.line.as_ref());
            let place = lines.map(|line| Place {
                file: within_repository(record, &line.file),
                line: line.number.to_string(),
            });
            let place = place.into_iter().next();
            if place.is_none() || !said.insert((finding.kind.name(), place.clone())) {
                continue;
            }
            all.push(Annotation {
                level: level(*outcome),
                code: Some(finding.kind.name()),
                place,
                title: subject.to_string(),
                message: finding.message.clone(),
            });
        }
    }
    all
}

fn level(outcome: Outcome) -> Level {
    match outcome {
        Outcome::Fail | Outcome::Environment => Level::Error,
        _ => Level::Warning,
    }
}

impl Place {
    /// `gates.yaml:7:3`, as gates say where they stand.
    fn of(record: &Record, declared: &str) -> Option<Self> {
        let (file, line) = declared.split_once(':')?;
        Some(Self {
            file: within_repository(record, file),
            line: line.split(':').next().unwrap_or(line).to_owned(),
        })
    }
}

/// Gates say where they stand from their own directory; GitHub looks it up from where the workflow runs.
fn within_repository(record: &Record, file: &str) -> String {
    let config = Path::new(&record.environment.config);
    match config.file_name() {
        Some(name) if name == file => record.environment.config.clone(),
        _ => without_detours(&config.with_file_name(file)),
    }
}

/// `gpu/../kernels/k.cu` as `kernels/k.cu`: a path that is shown beside a change has no other form.
fn without_detours(path: &Path) -> String {
    let mut short = PathBuf::new();
    for part in path.components() {
        let is_below = matches!(short.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::ParentDir if is_below => {
                short.pop();
            }
            part => short.push(part),
        }
    }
    short.display().to_string()
}
