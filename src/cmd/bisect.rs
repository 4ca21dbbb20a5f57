//! `bisect`: finds the commit, or the version of the compiler, with which gates began to fail.

use super::progress::Progress;
use super::{command_line, counted, make_dir, remark, say};
use crate::bisect::log::{Answered, BisectionQuestion, GateSaid, Log};
use crate::bisect::search::Answer;
use crate::bisect::sides::{Commits, Compilers};
use crate::bisect::{Bisection, End, SideSource};
use crate::cli::BisectArgs;
use build::toolchain::Choice;
use config::Selection;
use model::{BlamedGate, Outcome, Subject};
use pipeline::Request;
use pipeline::event::Event;
use records::repo::{self, short};
use report::exit::Exit;
use std::path::Path;
use std::time::SystemTime;
use system::cache::Cache;
use system::error::{Error, Result};

/// The name of the log in `--out`.
const LOG: &str = "bisect.json";

pub fn run(args: &BisectArgs) -> Result<Exit> {
    let cache = Cache::open()?;
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    let request = Request {
        simulate_beside_gpu: true,
        ..Request::new(
            &args.config.config,
            args.device,
            args.provision,
            command_line(),
        )
    };
    make_dir("--out", &args.out)?;
    let path = args.out.join(LOG);
    let progress = Progress::default();
    let command = Command {
        args,
        request: &request,
        cache: &cache,
        path: &path,
        progress: &progress,
    };
    let ended = if args.toolchains {
        command.among_compilers(&selection)
    } else {
        command.among_commits(&selection)
    };
    progress.clear();
    let (text, exit) = ended?;
    say(&text)?;
    remark(&format!("log: {}", path.display()));
    Ok(exit)
}

struct Command<'a> {
    args: &'a BisectArgs,
    request: &'a Request,
    cache: &'a Cache,
    path: &'a Path,
    progress: &'a Progress,
}

impl Command<'_> {
    fn among_commits(&self, selection: &Selection) -> Result<(String, Exit)> {
        let names = [&self.args.good, &self.args.bad].map(String::as_str);
        let gates = self.args.gates.as_deref();
        let commits = Commits::find(names, gates, self.request, selection, self.cache)?;
        let line = commits.line.iter().map(|commit| commit.hash.clone());
        let asked = self.asked(&commits.good, line.collect(), commits.overlay.digest()?);
        let (log, end) = self.bisect(&commits, asked)?;
        let (mut text, exit) = lay_out(&log, &end, &commits);
        let culprit = match end {
            End::Culprit(at) => commits.line.get(at),
            End::Among(_) | End::NoneFails(_) => None,
        };
        if let Some(commit) = culprit {
            let parent = format!("{}^", short(&commit.hash));
            let diff = commits.diff(self.request, commit)?;
            text = format!(
                "first bad commit: {} {} {}\n{text}",
                short(&commit.hash),
                commit.day,
                commit.subject
            );
            text += &if diff.is_empty() {
                "\nit changes no file that the compiler read for these kernels\n".to_owned()
            } else {
                format!("\n{diff}\n")
            };
            if let [_, merged, ..] = commit.parents.as_slice() {
                text += &format!(
                    "\nit is a merge of {0}: `git merge-base {parent} {0}` is the GOOD, and {0} the BAD, to look into it\n",
                    short(merged)
                );
            }
            let gates = format!("--gates {} ", short(&commits.gates));
            text += &format!(
                "\nrepeat: {}",
                self.again(&gates, &parent, short(&commit.hash))
            );
        }
        Ok((text, exit))
    }

    fn among_compilers(&self, selection: &Selection) -> Result<(String, Exit)> {
        let parse = |text: &str| {
            text.parse::<Choice>()
                .map_err(|error| Error::usage(error.to_string()).caused_by(error))
        };
        let pair = [parse(&self.args.good)?, parse(&self.args.bad)?];
        let head = config::load(&self.args.config.config, selection)?;
        let root = head.root.clone();
        let between = &self.args.between;
        let compilers = Compilers::find(pair, between, head, self.request, self.cache)?;
        let line: Vec<_> = compilers.line.iter().map(ToString::to_string).collect();
        // Outside git it is unknown what changed since the log was written, so each bisection is a new one.
        let sources = repo::digest(&root).unwrap_or_else(|| format!("{:?}", SystemTime::now()));
        let asked = self.asked(&compilers.good.to_string(), line.clone(), sources);
        let (log, end) = self.bisect(&compilers, asked)?;
        let (mut text, exit) = lay_out(&log, &end, &compilers);
        if let End::Culprit(at) = end {
            let name = |at: usize| line.get(at).cloned().unwrap_or_default();
            let before = at.checked_sub(1).map_or(compilers.good.to_string(), name);
            text = format!("first bad compiler: nvcc {}\n{text}", name(at));
            text += &format!(
                "\nrepeat: {}",
                self.again("--toolchains ", &before, &name(at))
            );
        }
        Ok((text, exit))
    }

    fn bisect(&self, sides: &dyn SideSource, asked: BisectionQuestion) -> Result<(Log, End)> {
        remark(&format!(
            "bisect: {} after {}",
            counted(asked.candidates.len(), "candidate"),
            sides.title(&asked.good)
        ));
        let on = |event: Event| self.progress.on(event);
        let bisection = Bisection {
            sides,
            request: self.request,
            cache: self.cache,
            path: self.path,
            on: &on,
        };
        bisection.run(asked)
    }

    fn asked(&self, good: &str, candidates: Vec<String>, overlay: String) -> BisectionQuestion {
        BisectionQuestion {
            good: good.to_owned(),
            candidates,
            config: self.args.config.config.display().to_string(),
            filters: self.args.filters.clone(),
            device: self.args.device.to_string(),
            overlay,
            identities: [None, None],
            gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns the command that asks the same of two neighbours.
    fn again(&self, options: &str, good: &str, bad: &str) -> String {
        let quoted = |word: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@=,:^".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word.to_owned()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        };
        let filters: String = self
            .args
            .filters
            .iter()
            .map(|filter| format!(" {}", quoted(filter)))
            .collect();
        format!(
            "gatekeeper bisect {options}{}--config {} --device {} {} {}{filters}",
            if self.args.provision {
                "--provision "
            } else {
                ""
            },
            quoted(&self.args.config.config.display().to_string()),
            self.args.device,
            quoted(good),
            quoted(bad)
        )
    }
}

/// Gates of one subject that fail at the culprit in the same words.
struct FailedGates<'a> {
    subject: &'a Subject,
    sentence: &'a str,
    names: Vec<String>,
    /// The sentence of the first gate at the side before the culprit.
    before: &'a str,
}

/// Writes what the gates that fail say at the culprit, and what they said at the side before it. One fault fails many
/// gates of a case in the same words, which are written once.
fn compare(question: &[BlamedGate], (was, is): (&[GateSaid], &[GateSaid]), before: &str) -> String {
    let mut failed: Vec<FailedGates> = Vec::new();
    let sides = question.iter().zip(is).enumerate();
    for (number, (gate, said)) in sides.filter(|(_, (_, said))| said.outcome == Some(Outcome::Fail))
    {
        let name = report::blame::name(gate);
        let known = failed
            .iter_mut()
            .find(|known| (known.subject, known.sentence) == (&gate.subject, &said.sentence));
        match known {
            Some(known) => known.names.push(name),
            None => failed.push(FailedGates {
                subject: &gate.subject,
                sentence: &said.sentence,
                names: vec![name],
                before: was.get(number).map_or("", |was| was.sentence.as_str()),
            }),
        }
    }
    let lines = failed.iter().map(|gates| {
        // All of them hold there, and the value of one says little about the others.
        let was = if gates.names.len() == 1 {
            gates.before
        } else {
            "held"
        };
        format!(
            "{} {}: {}\n  at {before}: {was}\n",
            gates.subject,
            gates.names.join(", "),
            gates.sentence
        )
    });
    lines.collect()
}

/// Writes how a bisection ended: what the gates say on both sides of the culprit, or which candidates remain.
fn lay_out(log: &Log, end: &End, sides: &dyn SideSource) -> (String, Exit) {
    let candidate = |at: usize| log.asked.candidates.get(at).map_or("", String::as_str);
    match end {
        End::Culprit(at) => {
            let before = at.checked_sub(1).map_or(log.asked.good.as_str(), candidate);
            let said = |name: &str| {
                log.answer(name)
                    .map(|answer| answer.gates.as_slice())
                    .unwrap_or_default()
            };
            let text = compare(
                &log.question,
                (said(before), said(candidate(*at))),
                &sides.title(before),
            );
            (text, Exit::Held)
        }
        End::Among(suspects) => {
            let line = |at: usize| {
                let name = candidate(at);
                let why = log
                    .answer(name)
                    .map(|Answered { answer, why, .. }| match answer {
                        Answer::Bad => ": bad".to_owned(),
                        answer => format!(
                            ": {} ({})",
                            answer.name(),
                            why.lines().next().unwrap_or_default()
                        ),
                    });
                format!("  {}{}\n", sides.title(name), why.unwrap_or_default())
            };
            let lines: String = suspects.clone().map(line).collect();
            (
                format!("undecided: the first bad one is one of these\n{lines}"),
                Exit::Undecided,
            )
        }
        End::NoneFails(conclusion) => {
            let exit = match conclusion {
                model::Conclusion::Environment => Exit::Environment,
                _ => Exit::Undecided,
            };
            (
                format!(
                    "undecided: no gate fails at {}, so there is nothing to look for: `gatekeeper run` there shows each verdict\n",
                    sides.title(log.asked.candidates.last().map_or("", String::as_str))
                ),
                exit,
            )
        }
    }
}
