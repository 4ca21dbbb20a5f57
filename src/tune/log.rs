//! Writes the log of a search: a line of JSON for each event, appended as it happens. A search that goes on does not
//! try logged configurations again.

use super::outcome::{Confirmation, Evaluation, ParameterValues};
use records::repo::refuse_links;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;
use system::process::children;

pub const SCHEMA: &str = "gatekeeper.tune/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Began(Began),
    Evaluated(Evaluation),
    /// The configuration became the best one so far.
    Best {
        number: u32,
    },
    Confirmed(Confirmation),
}

/// The search and its settings. A log can only be continued by a search that is the same in all of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Began {
    pub schema: String,
    /// The name of the start, as `kernel/variant`.
    pub start: String,
    /// The macros that the start defines.
    pub macros: BTreeMap<String, String>,
    /// Names and values of the parameters, in the order of gates.yaml.
    pub parameters: Vec<(String, Vec<i64>)>,
    pub constraints: Vec<String>,
    /// The number of valid configurations of the space.
    pub configurations: usize,
    /// The shapes with the weights that they have.
    pub objective: BTreeMap<String, f64>,
    pub strategy: String,
    pub seed: u64,
    /// The name of the GPU, or `simulator`.
    pub device: String,
    /// A digest of the files and flags that every configuration is built from, of its calls, and of its gates.
    pub sources: String,
    /// The version of the nvcc that built them.
    pub compiler: String,
}

impl Began {
    /// Returns the first difference from another search, or `None` if the searches are the same.
    fn differs(&self, other: &Self) -> Option<&'static str> {
        [
            ("another variant", self.start == other.start),
            ("other macros of the start", self.macros == other.macros),
            ("other parameters", self.parameters == other.parameters),
            ("other constraints", self.constraints == other.constraints),
            ("another objective", self.objective == other.objective),
            ("another strategy", self.strategy == other.strategy),
            ("another seed", self.seed == other.seed),
            ("another device", self.device == other.device),
            ("another compiler", self.compiler == other.compiler),
            (
                "other sources, calls or gates",
                self.sources == other.sources,
            ),
            (
                "other configurations",
                self.configurations == other.configurations,
            ),
        ]
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(what, _)| what)
    }
}

/// The results that an earlier search has left.
#[derive(Debug, Default, PartialEq)]
pub struct Earlier {
    pub evaluations: Vec<Evaluation>,
    pub bests: Vec<u32>,
}

impl Earlier {
    pub fn values(&self, number: u32) -> Option<&ParameterValues> {
        self.evaluations
            .iter()
            .find(|evaluation| evaluation.number == number)
            .map(|evaluation| &evaluation.values)
    }
}

/// The complete lines of a log. The line after them was being written when the process was killed.
pub struct CompleteLog {
    /// The events with the numbers of their lines. The first event says what was searched.
    pub events: Vec<(usize, Event)>,
    bytes: u64,
}

/// Reads a log.
///
/// # Errors
/// Usage, if the file is no log of a search.
pub fn read(path: &Path) -> Result<CompleteLog> {
    let refuse = |line: usize, message: String| {
        let at = format!("{}:{line}", path.display());
        Error::usage(message).at(at)
    };
    let text = files::read_text(path, files::SOURCE).map_err(|error| {
        let message = format!("the log cannot be read: {error}");
        Error::usage(message).at(path.display())
    })?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut events = Vec::new();
    for (line, number) in text.get(..whole).unwrap_or_default().lines().zip(1..) {
        let event: Event = serde_json::from_str(line).map_err(|error| {
            let message = format!("this is no line of a log of `tune`: {error}");
            refuse(number, message)
        })?;
        match &event {
            Event::Began(began) if began.schema != SCHEMA => {
                let theirs = &began.schema;
                let message = format!("its schema is {theirs}, and {SCHEMA} is expected");
                return Err(refuse(number, message));
            }
            Event::Began(_) => {}
            _ if events.is_empty() => {
                let message = "the log does not say what was searched";
                return Err(refuse(number, message.to_owned()));
            }
            _ => {}
        }
        events.push((number, event));
    }
    Ok(CompleteLog {
        events,
        bytes: whole as u64,
    })
}

pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Creates a log. An existing log is never overwritten, because it may hold hours of GPU time.
    ///
    /// # Errors
    /// Usage, if the file exists. Environment, if it cannot be written.
    pub fn create(path: &Path, began: Began) -> Result<Self> {
        refuse_links(path)?;
        if let Some(dir) = path.parent().filter(|dir| *dir != Path::new("")) {
            std::fs::create_dir_all(dir).map_err(|error| unwritable(path, error))?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::usage("there is a log of an earlier search")
                .at(path.display())
                .help("go on with it: --resume")
                .help("or remove it, or name another: --log PATH"),
            _ => unwritable(path, error),
        })?;
        let mut log = Self {
            path: path.to_owned(),
            file,
        };
        log.write(&Event::Began(began))?;
        Ok(log)
    }

    /// Continues an earlier log.
    ///
    /// # Errors
    /// Usage, if the file is no log or the log of another search. Environment, if it cannot be written.
    pub fn resume(path: &Path, began: &Began) -> Result<(Self, Earlier)> {
        refuse_links(path)?;
        let CompleteLog { events, bytes } = read(path)?;
        let mut earlier = Earlier::default();
        let is_of_this = !events.is_empty();
        for (line, event) in events {
            match event {
                Event::Began(theirs) => {
                    if let Some(what) = began.differs(&theirs) {
                        let message = format!("the log is of another search: {what}");
                        return Err(Error::usage(message)
                            .at(format!("{}:{line}", path.display()))
                            .help(
                                "what it holds says nothing of this one: name another with --log",
                            ));
                    }
                }
                Event::Evaluated(evaluation) => earlier.evaluations.push(evaluation),
                Event::Best { number } => earlier.bests.push(number),
                // The winner is confirmed once more, because the search may still find a better one.
                Event::Confirmed(_) => {}
            }
        }
        let file = OpenOptions::new().append(true).open(path);
        let file = file.map_err(|error| unwritable(path, error))?;
        file.set_len(bytes)
            .map_err(|error| unwritable(path, error))?;
        let mut log = Self {
            path: path.to_owned(),
            file,
        };
        // The process was killed before its first line was complete.
        if !is_of_this {
            log.write(&Event::Began(began.clone()))?;
        }
        Ok((log, earlier))
    }

    /// Appends an event.
    ///
    /// # Errors
    /// Environment, if it cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        let mut line =
            serde_json::to_string(event).map_err(|error| Error::unwritten("an event", error))?;
        line.push('\n');
        // If a signal to end this program killed a worker, that says nothing about the configuration.
        children::unless_ending(|| self.file.write_all(line.as_bytes()))
            .map_err(|error| unwritable(&self.path, error))
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::unwritten(path.display(), error)
}
