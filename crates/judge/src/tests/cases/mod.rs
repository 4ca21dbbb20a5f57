//! Runs the scripts under `tests/cases`, whose form [`script`] has.
//!
//! `judge` prints the conclusion and whatever of the judgement differs from that of the start. `reason WORDS` prints the
//! verdicts whose line has these words with all that they say, `problems` the failures by cause, `base_of` and `rivals`
//! how cases stand to the base and to rivals, `value SUBJECT METRIC..` the values of metrics, `accept` the baselines that
//! an update would write. What is to be done next, print `ask` (cases to time), `admit`, `simulate`, `needed` (of the
//! base), `profiles` and `turns CASE..` (of rivals). `judge EDIT; EDIT` takes the edits back afterwards, as `ask` does.
//!
//! `base` makes the record so far the base of a comparison, and head begins as at the start; `swap` exchanges the two.
//! `allow` lets pass what is looser. `take` makes head's own values its baselines.

mod line;
mod questions;

use super::*;
use crate::fixture::script::{self, Answer, Cases, Script, text_of};
use line::Line;
use std::cell::OnceCell;
use std::path::Path;

struct Questions {
    script: Script,
    /// The judgement of the start, once somebody asked for it.
    usual: OnceCell<Vec<Line>>,
    base: Option<Record>,
    loosening: Loosening,
}

#[test]
fn case_files_print_what_they_expect() {
    script::hold::<Questions>(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"));
}

impl Cases for Questions {
    fn new() -> Self {
        let script = Script::new(|name| {
            Some(match name {
                "simulated_against_base" => simulated_against_base(),
                "alike_architectures" => on_two_architectures(["a", "a"]),
                "two_architectures" => run_on_two_architectures(),
                "profiled_against_base" => profiled_against_base(),
                other => return script::named(other),
            })
        });
        Self {
            script,
            usual: OnceCell::new(),
            base: None,
            loosening: Loosening::Fails,
        }
    }

    fn script(&mut self) -> &mut Script {
        &mut self.script
    }

    fn answer(&mut self, command: &str, rest: &str) -> Option<Answer> {
        let script = &mut self.script;
        Some(match command {
            "judge" => self.answer_after(rest, Self::differences),
            "ask" => self.answer_after(rest, Self::asked),
            "reason" => Ok(self.whole_verdicts(rest)),
            "problems" => Ok(self.problems()),
            "base_of" => Ok(vec![text_of(&self.judgement().base)]),
            "rivals" => Ok(self.judgement().rivals.iter().map(text_of).collect()),
            "value" => self.values(rest),
            "accept" => Ok(self.acceptable()),
            "admit" => Ok(self.admitted()),
            "simulate" => Ok(self.simulated()),
            "needed" => Ok(self.needed_of_base()),
            "profiles" => Ok(self.profiled()),
            "turns" => Ok(self.turns_of_rivals(rest)),
            other => {
                match other {
                    "base" => {
                        let head = script.start.clone();
                        self.base = Some(std::mem::replace(&mut script.head, head));
                    }
                    "swap" => match &mut self.base {
                        Some(base) => std::mem::swap(&mut script.head, base),
                        None => return Some(Err("no base".to_owned())),
                    },
                    "allow" => self.loosening = Loosening::Allowed,
                    "take" => script.head.policy.baselines = acceptable(&script.head, "seal").0,
                    "keep" => {
                        self.usual = OnceCell::new();
                        return None;
                    }
                    "start" => {
                        (self.usual, self.base) = (OnceCell::new(), None);
                        self.loosening = Loosening::Fails;
                        return None;
                    }
                    _ => return None,
                }
                Ok(Vec::new())
            }
        })
    }
}
