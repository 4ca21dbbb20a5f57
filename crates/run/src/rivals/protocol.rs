//! Messages to a rival and its answers, each of them a line of JSON. docs/gates.md describes them for authors of
//! rivals. Pure.

use model::{
    Case, Contest, DeviceFacts, Mode, Plan, Rival, RivalFacts, RivalTimes, Schedule, Task,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "gatekeeper.rival/2";

/// The most bytes of one sample in an answer. No rival needs more.
const SAMPLE_BYTES: u64 = 32;
const OTHER_BYTES: u64 = 1 << 20;

/// The length at which a text is cut.
const MOST_CHARACTERS: usize = 500;
const MOST_VERSIONS: usize = 20;

const MOST_LAUNCHES: u32 = 1_000_000;
/// The longest time that is believed, an hour.
const MOST_NS: u64 = 3_600_000_000_000;

#[derive(Serialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message<'a> {
    /// Begins the turn: the GPU belongs to the rival until its input ends.
    Begin {
        schema: &'static str,
        gpu: Gpu<'a>,
        sampling: Sampling,
    },
    Task(Box<AskedTask<'a>>),
}

#[derive(Serialize)]
pub struct Gpu<'a> {
    name: &'a str,
    uuid: &'a str,
}

/// The way in which samples are taken, which is the same as for the kernel itself.
#[derive(Clone, Copy, Serialize)]
pub struct Sampling {
    mode: Mode,
    /// The number of calls before the first sample.
    warmup: u32,
    /// The number of batched samples, each of enough calls to last at least `batch_ns`.
    iterations: u32,
    batch_ns: u64,
    /// The number of samples of a single call.
    singles: u32,
}

#[derive(Serialize)]
pub struct AskedTask<'a> {
    id: String,
    rival: &'a str,
    /// The backends, each of which is to be timed, or skipped with a reason.
    backends: &'a [String],
    #[serde(flatten)]
    task: Task,
}

/// The answer of a rival to `Begin`.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    Ready {
        versions: BTreeMap<String, String>,
    },
    /// All tasks of the turn are skipped.
    Skipped {
        because: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnsweredBegin {
    schema: String,
    versions: Option<BTreeMap<String, String>>,
    skipped: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnsweredTask {
    id: String,
    backends: Vec<AnsweredBackend>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnsweredBackend {
    name: String,
    timed: Option<RivalTimes>,
    skipped: Option<String>,
}

/// The reason for which a message or an answer does not fit the protocol. What the rival wrote is made one short line.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// A message has a value that JSON cannot express.
    #[error(transparent)]
    Message(serde_json::Error),
    #[error("{}", scrubbed(&format!("its answer is not what the protocol asks for: {}", .0)))]
    Answer(#[source] serde_json::Error),
    #[error("{}", scrubbed(&format!("it answers by `{}`, and this gatekeeper asks by {SCHEMA}", .0)))]
    Schema(String),
    #[error("it begins with either `versions` or `skipped`")]
    Begin,
    #[error("it names more than {} versions", MOST_VERSIONS)]
    Versions,
    #[error("it skips without a reason")]
    NoReason,
    #[error("{}", scrubbed(&format!("it answers `{}`, and was asked for {}", .answered, .asked)))]
    OtherTask { answered: String, asked: String },
    #[error("{}", scrubbed(&format!("{}: `{}` is not among the backends in gates.yaml", .id, .backend)))]
    UnknownBackend { id: String, backend: String },
    #[error("{id}, {backend}: either `timed` or `skipped`")]
    Backend { id: String, backend: String },
    #[error("{id}: {backend} is there twice")]
    Twice { id: String, backend: String },
    #[error("{id}: it does not answer for {backend}")]
    Missing { id: String, backend: String },
    #[error("{id}, {backend}: {source}")]
    Times {
        id: String,
        backend: String,
        source: TimesError,
    },
}

/// The reason for which times are not those that were asked for.
#[derive(Debug, thiserror::Error)]
pub enum TimesError {
    #[error("launches_per_sample is {launches}; it must be between 1 and {most}")]
    Launches { launches: u32, most: u32 },
    #[error("{field} has {found} samples, and {asked} were asked for")]
    Samples {
        field: &'static str,
        found: usize,
        asked: u32,
    },
    #[error("{field} has a sample of {ns} ns")]
    Sample { field: &'static str, ns: u64 },
}

type Result<T, E = ProtocolError> = std::result::Result<T, E>;

impl<'a> Message<'a> {
    pub fn begin(device: &'a DeviceFacts, plan: &Plan) -> Self {
        Self::Begin {
            schema: SCHEMA,
            gpu: Gpu {
                name: &device.name,
                uuid: &device.uuid,
            },
            sampling: Sampling::for_plan(plan),
        }
    }

    /// Returns the message as a line.
    ///
    /// # Errors
    /// Returns an error for a value that JSON cannot express.
    pub fn line(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(ProtocolError::Message)
    }
}

/// Returns the longest line of any rival of a plan, in bytes.
pub fn longest_line(plan: &Plan) -> u64 {
    let sampling = Sampling::for_plan(plan);
    let samples = u64::from(sampling.iterations) + u64::from(sampling.singles);
    let backends = plan.rivals.iter().map(|rival| rival.backends.len() as u64);
    let contests = SAMPLE_BYTES.saturating_mul(samples);
    OTHER_BYTES.saturating_add(contests.saturating_mul(backends.max().unwrap_or(0)))
}

/// Reads an answer to `Begin`.
///
/// # Errors
/// Returns an error for anything else.
pub fn read_begun(line: &[u8]) -> Result<Begun> {
    let answer: AnsweredBegin = parse(line)?;
    if answer.schema != SCHEMA {
        return Err(ProtocolError::Schema(answer.schema));
    }
    match (answer.skipped, answer.versions) {
        (Some(because), None) => Ok(Begun::Skipped {
            because: reason(&because)?,
        }),
        (None, Some(written)) => Ok(Begun::Ready {
            versions: versions(written)?,
        }),
        _ => Err(ProtocolError::Begin),
    }
}

fn parse<'de, T: Deserialize<'de>>(line: &'de [u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(ProtocolError::Answer)
}

/// Returns facts in which every backend of a rival is skipped, with the reason.
pub fn skip_all(rival: &Rival, because: &str) -> RivalFacts {
    let backends = rival.backends.iter().map(|name| {
        let because = because.to_owned();
        (name.clone(), Contest::Skipped { because })
    });
    RivalFacts {
        versions: BTreeMap::new(),
        backends: backends.collect(),
    }
}

impl Sampling {
    pub fn for_plan(plan: &Plan) -> Self {
        let Schedule {
            mode,
            warmup,
            iterations,
            singles,
            batch_ns,
            ..
        } = plan.timing;
        Self {
            mode,
            warmup,
            iterations,
            batch_ns,
            singles,
        }
    }
}

impl<'a> AskedTask<'a> {
    pub fn new(rival: &'a Rival, plan: &Plan, case: &Case) -> Self {
        Self {
            id: case.id.to_string(),
            rival: &rival.name,
            backends: &rival.backends,
            task: plan.task(case),
        }
    }
}

/// The part of a task that its answer is checked against.
pub struct ExpectedAnswer<'a> {
    pub id: &'a str,
    pub backends: &'a [String],
    pub sampling: Sampling,
}

impl ExpectedAnswer<'_> {
    /// Reads the answer to a task.
    ///
    /// # Errors
    /// Returns an error for anything but an answer to exactly what was asked.
    pub fn read(&self, line: &[u8]) -> Result<BTreeMap<String, Contest>> {
        let AnsweredTask { id, backends } = parse(line)?;
        if id != self.id {
            return Err(ProtocolError::OtherTask {
                answered: id,
                asked: self.id.to_owned(),
            });
        }
        self.contests(backends)
    }

    fn contests(&self, answered: Vec<AnsweredBackend>) -> Result<BTreeMap<String, Contest>> {
        let id = self.id.to_owned();
        let mut contests = BTreeMap::new();
        for AnsweredBackend {
            name: backend,
            timed,
            skipped,
        } in answered
        {
            if !self.backends.contains(&backend) {
                return Err(ProtocolError::UnknownBackend { id, backend });
            }
            let contest = match (timed, skipped) {
                (Some(times), None) => match self.check(&times) {
                    Ok(()) => Contest::Timed(times),
                    Err(source) => {
                        return Err(ProtocolError::Times {
                            id,
                            backend,
                            source,
                        });
                    }
                },
                (None, Some(because)) => Contest::Skipped {
                    because: reason(&because)?,
                },
                _ => return Err(ProtocolError::Backend { id, backend }),
            };
            if contests.insert(backend.clone(), contest).is_some() {
                return Err(ProtocolError::Twice { id, backend });
            }
        }
        match self
            .backends
            .iter()
            .find(|name| !contests.contains_key(*name))
        {
            Some(name) => Err(ProtocolError::Missing {
                id,
                backend: name.clone(),
            }),
            None => Ok(contests),
        }
    }

    fn check(&self, times: &RivalTimes) -> Result<(), TimesError> {
        let most = match self.sampling.mode {
            Mode::Warm => MOST_LAUNCHES,
            Mode::Cold => 1,
        };
        if !(1..=most).contains(&times.launches_per_sample) {
            return Err(TimesError::Launches {
                launches: times.launches_per_sample,
                most,
            });
        }
        let Sampling {
            iterations,
            singles,
            ..
        } = self.sampling;
        for (field, samples, asked) in [
            ("batched_ns", &times.batched_ns, iterations),
            ("single_ns", &times.single_ns, singles),
        ] {
            if samples.len() != asked as usize {
                return Err(TimesError::Samples {
                    field,
                    found: samples.len(),
                    asked,
                });
            }
            if let Some(&ns) = samples.iter().find(|ns| !(1..=MOST_NS).contains(*ns)) {
                return Err(TimesError::Sample { field, ns });
            }
        }
        Ok(())
    }
}

fn versions(written: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    if written.len() > MOST_VERSIONS {
        return Err(ProtocolError::Versions);
    }
    Ok(written
        .into_iter()
        .map(|(name, version)| (scrubbed(&name), scrubbed(&version)))
        .collect())
}

fn reason(because: &str) -> Result<String> {
    match scrubbed(because) {
        empty if empty.is_empty() => Err(ProtocolError::NoReason),
        because => Ok(because),
    }
}

/// Returns a rival's output as one short line that cannot move a cursor.
pub fn scrubbed(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("{} ...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
