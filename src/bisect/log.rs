//! The log of a bisection: one file with everything that was asked and answered, written anew after each answer. The
//! same command goes on from it.

use super::search::Answer;
use model::{BlamedGate, Outcome};
use records::repo::refuse_links;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use system::cache::write_atomically;
use system::error::{Error, Result};
use system::files;

pub const SCHEMA: &str = "gatekeeper.bisect/1";

/// The bisection and its settings. A log is continued by a bisection that is the same in all of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BisectionQuestion {
    /// The hash of a commit, or a compiler.
    pub good: String,
    /// The candidates after `good`, in order. The last one is bad.
    pub candidates: Vec<String>,
    pub config: String,
    pub filters: Vec<String>,
    pub device: String,
    /// A digest of gates.yaml, its baselines and references.
    pub overlay: String,
    /// The identity of the good and of the bad side, by [`pipeline::Survey`].
    pub identities: [Option<String>; 2],
    /// The version of this program, which judged.
    pub gatekeeper: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub asked: BisectionQuestion,
    /// The name of the GPU, or `simulator`.
    pub device: String,
    /// The gates that fail at the bad side and hold at the good one.
    pub question: Vec<BlamedGate>,
    pub answers: Vec<Answered>,
}

/// The answer of the good side or of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    pub candidate: String,
    pub answer: Answer,
    /// The sentence that says why it has this answer.
    pub why: String,
    pub identity: Option<String>,
    /// The judged candidate whose code, calls, inputs and references are equal. This one did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal_to: Option<String>,
    /// The answers of the gates, in the order of the question.
    pub gates: Vec<GateSaid>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSaid {
    /// `None` if the run did not judge the gate.
    pub outcome: Option<Outcome>,
    pub sentence: String,
}

/// The file, with a digest of the log in it. The digest finds damage, and is no signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    schema: String,
    seal: String,
    log: Log,
}

impl Log {
    /// Reads a log. Returns `None` if there is none.
    ///
    /// # Errors
    /// Usage, if the file is no log, or damaged.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        refuse_links(path)?;
        let damaged = |why: String| {
            Error::usage(format!("the log of an earlier bisection is damaged: {why}"))
                .at(path.display())
                .help("remove it to begin again, or name another directory: --out DIR")
        };
        let text = match files::read_text(path, files::WRITTEN) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(damaged(error.to_string())),
            Ok(text) => text,
        };
        let Sealed { schema, seal, log } =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if schema != SCHEMA {
            return Err(damaged(format!(
                "its schema is {schema}, and {SCHEMA} is expected"
            )));
        }
        if seal != log.seal()? {
            return Err(damaged("its content does not match its seal".to_owned()));
        }
        let mut known: BTreeSet<&String> = log.asked.candidates.iter().collect();
        known.insert(&log.asked.good);
        let fits = |answer: &Answered| {
            known.remove(&answer.candidate) && answer.gates.len() <= log.question.len()
        };
        if !log.answers.iter().all(fits) {
            return Err(damaged("it answers what was not asked".to_owned()));
        }
        Ok(Some(log))
    }

    /// Writes the log whole, in the place of the last one.
    ///
    /// # Errors
    /// Environment, if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let sealed = Sealed {
            schema: SCHEMA.to_owned(),
            seal: self.seal()?,
            log: self.clone(),
        };
        let text = serde_json::to_string_pretty(&sealed).map_err(unwritable)?;
        write_atomically(path, (text + "\n").as_bytes())
    }

    /// Returns the answer of a candidate.
    pub fn answer(&self, candidate: &str) -> Option<&Answered> {
        let mut answers = self.answers.iter();
        answers.find(|answer| answer.candidate == candidate)
    }

    fn seal(&self) -> Result<String> {
        let text = serde_json::to_string(self).map_err(unwritable)?;
        Ok(blake3::hash(text.as_bytes()).to_hex().to_string())
    }
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::unwritten("the log", error)
}
