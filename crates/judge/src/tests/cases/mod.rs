//! Runs the scripts under `tests/cases`. A new case is a few lines in one of them, and no Rust.
//!
//! A line that is not indented is a comment (`#`), a command or an edit of the record. The indented lines below it are
//! what it prints. `UPDATE_CASES=1 cargo test -p judge cases` writes them anew: read each before you commit it.
//!
//! ```text
//! # The worst seed decides.
//! start record
//! check[direct@small seed=2].got.error.max_err = 0.005
//! judge
//!   fail
//!   fail k/direct@small: beyond-limit at 0.005 (max_err <= 0.004)
//! ```
//!
//! **The record.** `start NAME` takes one of the records in [`Script::start`]. `base` makes the record so far the base of
//! a comparison, and head begins as at the start; `swap` exchanges the two. `reset` takes head back to the start, and
//! `keep` makes head the start. `allow` lets pass what is looser. `take` makes head's own values its baselines.
//!
//! **Edits.** `PATH = VALUE`, `PATH += VALUE` and `delete PATH` change the record's JSON. A value is JSON, a word, or
//! `copy PATH`; `let NAME = VALUE` names one, for `"$NAME"`. A path is `plan.cases.0.seeds`; `*` is every element, and
//! `policy.gates[k/fast max_err !finite seed=2]` are those whose text has these words, not that one, and a field of that
//! value. A kind of evidence (`check[k/fast]`) leads to its facts, and `base.check[k/fast]` to those of the base.
//! `gate SUBJECT RULE` adds a gate as gates.yaml would write it, `slow CASE NS`, `pairs CASE RATIO` and
//! `modes PERCENT RATIO` change times, and `measure CASE RATIO` adds pairs until no more are asked for.
//!
//! **Questions.** `judge` prints the conclusion and whatever of the judgement differs from that of the start. `reason
//! WORDS` prints the verdicts whose line has these words with all that they say, `problems` the failures by cause,
//! `base_of` and `rivals` how cases stand to the base and to rivals, `value SUBJECT METRIC..` the values of metrics,
//! `accept` the baselines that an update would write. What is to be done next, print `ask` (cases to time), `admit`,
//! `simulate`, `needed` (of the base), `profiles` and `turns CASE..` (of rivals). `judge EDIT; EDIT` takes the edits back
//! afterwards, as `ask` does.

mod paths;
mod questions;
mod text;

use super::*;
use serde_json::Value;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use text::Line;

/// Starts the line of a command that cannot be run; no file may have it.
const ERROR: &str = "cannot run: ";

type Printed = Result<Vec<String>, String>;

struct Script {
    start: Record,
    /// What the judge says of the start, once it was asked.
    usual: OnceCell<Vec<Line>>,
    head: Record,
    base: Option<Record>,
    loosening: Loosening,
    names: BTreeMap<String, Value>,
}

#[test]
#[allow(clippy::disallowed_methods, reason = "its scripts are files")]
fn case_files_print_what_they_expect() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut differing = Vec::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        let expected = std::fs::read_to_string(&path).unwrap();
        let found = run(&expected);
        if found == expected && !found.contains(ERROR) {
            continue;
        }
        if std::env::var_os("UPDATE_CASES").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let name = path.file_name().unwrap().display();
        let first = found
            .lines()
            .zip(expected.lines())
            .enumerate()
            .find(|(_, (found, expected))| found != expected || found.contains(ERROR));
        differing.push(match first {
            Some((at, (found, expected))) => {
                format!(
                    "{name}:{}: expected\n{expected}\nand found\n{found}",
                    at + 1
                )
            }
            None => format!("{name}: one has more lines than the other"),
        });
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Returns the script with what its commands print.
fn run(text: &str) -> String {
    let mut script = Script::start("record", BTreeMap::new()).unwrap();
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        lines.push(line.to_owned());
        if !line.is_empty() && !line.starts_with('#') {
            let printed = script.run(line);
            let printed = printed.unwrap_or_else(|problem| vec![format!("{ERROR}{problem}")]);
            lines.extend(printed.iter().map(|line| format!("  {}", line.trim_end())));
        }
    }
    lines.join("\n") + "\n"
}

impl Script {
    fn start(name: &str, names: BTreeMap<String, Value>) -> Result<Self, String> {
        let start = match name {
            "record" => record(),
            "with_tails" => with_tails(record()),
            "with_tails_against_base" => with_tails(record_against_base()),
            "without_gpu" => record_without_gpu(),
            "against_base" => record_against_base(),
            "simulated" => record_simulated(),
            "simulated_against_base" => simulated_against_base(),
            "alike_architectures" => on_two_architectures(["a", "a"]),
            "two_architectures" => run_on_two_architectures(),
            "profiled" => record_profiled(),
            "profiled_against_base" => profiled_against_base(),
            "beside_rival" => record_beside_rival(),
            "kept_to_fail" => {
                let by = [GateName::Metric(Metric::MaxErr), GateName::Deterministic];
                record_kept_to_fail(&by)
            }
            other => return Err(format!("no record is called {other}")),
        };
        Ok(Self {
            head: start.clone(),
            start,
            usual: OnceCell::new(),
            base: None,
            loosening: Loosening::Fails,
            names,
        })
    }

    fn run(&mut self, line: &str) -> Printed {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "start" => *self = Self::start(rest, std::mem::take(&mut self.names))?,
            "let" => {
                let (name, value) = rest.split_once(" = ").ok_or("no value")?;
                let value = self.value(&mut serde_json::to_value(&self.head).unwrap(), value)?;
                self.names.insert(format!("${name}"), value);
            }
            "base" => self.base = Some(std::mem::replace(&mut self.head, self.start.clone())),
            "swap" => std::mem::swap(&mut self.head, self.base.as_mut().ok_or("no base")?),
            "reset" => self.head = self.start.clone(),
            "keep" => (self.start, self.usual) = (self.head.clone(), OnceCell::new()),
            "allow" => self.loosening = Loosening::Allowed,
            "take" => self.head.policy.baselines = acceptable(&self.head, "seal").0,
            "judge" => return self.print_after(rest, Self::differences),
            "ask" => return self.print_after(rest, Self::asked),
            "reason" => return Ok(self.whole_verdicts(rest)),
            "problems" => return Ok(self.problems()),
            "base_of" => return Ok(vec![text::text_of(&self.judgement().base)]),
            "rivals" => return Ok(self.judgement().rivals.iter().map(text::text_of).collect()),
            "value" => return self.values(rest),
            "accept" => return Ok(self.acceptable()),
            "admit" => return Ok(self.admitted()),
            "simulate" => return Ok(self.simulated()),
            "needed" => return Ok(self.needed_of_base()),
            "profiles" => return Ok(self.profiled()),
            "turns" => return Ok(self.turns_of_rivals(rest)),
            _ => self.edit(line)?,
        }
        Ok(Vec::new())
    }

    /// Makes these edits, asks a question, and takes them back.
    fn print_after(&mut self, edits: &str, question: fn(&Self) -> Vec<String>) -> Printed {
        let before = self.head.clone();
        edits
            .split("; ")
            .filter(|edit| !edit.is_empty())
            .try_for_each(|edit| self.edit(edit))?;
        let printed = question(self);
        self.head = before;
        Ok(printed)
    }

    fn edit(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let case = || match text::subject(words[1]) {
            Subject::Case(case) => case,
            Subject::Unit(unit) => panic!("{unit} is no case"),
        };
        let number = || words[2].parse::<f64>().unwrap();
        match words[..] {
            ["gate", of, rule] => {
                let gate = gate(text::subject(of), text::rule(rule)?);
                self.head.policy.gates.push(gate);
            }
            ["slow", ..] => slow(&mut self.head, &case(), number() as u64),
            ["modes", percent, _] => with_slow_mode(
                &mut self.head,
                percent.parse().map_err(|_| "no percentage")?,
                number(),
            ),
            ["pairs", ..] => repair(&mut self.head, &case(), |process, facts| {
                *facts = pair_facts(usual(&case().variant), number(), process);
            }),
            ["measure", ..] => measure(&mut self.head, &case(), |_| number()),
            _ => {
                let mut json = serde_json::to_value(&self.head).unwrap();
                self.edit_json(&mut json, line)?;
                self.head = serde_json::from_value(json).map_err(|problem| problem.to_string())?;
            }
        }
        Ok(())
    }

    fn edit_json(&self, record: &mut Value, line: &str) -> Result<(), String> {
        if let Some(path) = line.strip_prefix("delete ") {
            return paths::delete(record, path);
        }
        let more = line.split_once(" += ").map(|more| (more, true));
        let edit = more.or_else(|| line.split_once(" = ").map(|edit| (edit, false)));
        let ((path, value), is_more) = edit.ok_or(format!("no command: {line}"))?;
        let value = self.value(record, value)?;
        for at in paths::select(record, path)? {
            match at {
                Value::Array(values) if is_more => values.push(value.clone()),
                at => *at = value.clone(),
            }
        }
        Ok(())
    }

    fn value(&self, record: &mut Value, text: &str) -> Result<Value, String> {
        match text.strip_prefix("copy ") {
            Some(path) => Ok(paths::select(record, path)?[0].clone()),
            None => Ok(self.named(serde_json::from_str(text).unwrap_or_else(|_| text.into()))),
        }
    }

    /// Puts values for what `let` has named, and cases and units for their names: `<k/fast@small>`, `<k/fast>`.
    fn named(&self, value: Value) -> Value {
        match value {
            Value::String(words) => {
                let name = words
                    .strip_prefix('<')
                    .and_then(|name| name.strip_suffix('>'));
                match (self.names.get(&words), name.map(text::subject)) {
                    (Some(value), _) => value.clone(),
                    (_, Some(Subject::Case(case))) => serde_json::to_value(case).unwrap(),
                    (_, Some(Subject::Unit(unit))) => serde_json::to_value(unit).unwrap(),
                    _ => words.into(),
                }
            }
            Value::Array(values) => values.into_iter().map(|value| self.named(value)).collect(),
            Value::Object(fields) => {
                let named = |(key, value)| (key, self.named(value));
                fields.into_iter().map(named).collect()
            }
            other => other,
        }
    }
}
