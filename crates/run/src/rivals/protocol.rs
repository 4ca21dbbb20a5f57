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
    pub fn line(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| error.to_string())
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
pub fn read_begun(line: &[u8]) -> Result<Begun, String> {
    let answer: AnsweredBegin = parse(line)?;
    if answer.schema != SCHEMA {
        return Err(scrubbed(&format!(
            "it answers by `{}`, and this gatekeeper asks by {SCHEMA}",
            answer.schema
        )));
    }
    match (answer.skipped, answer.versions) {
        (Some(because), None) => Ok(Begun::Skipped {
            because: reason(&because)?,
        }),
        (None, Some(written)) => Ok(Begun::Ready {
            versions: versions(written)?,
        }),
        _ => Err("it begins with either `versions` or `skipped`".to_owned()),
    }
}

fn parse<'de, T: Deserialize<'de>>(line: &'de [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        scrubbed(&format!(
            "its answer is not what the protocol asks for: {error}"
        ))
    })
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
pub struct Expected<'a> {
    pub id: &'a str,
    pub backends: &'a [String],
    pub sampling: Sampling,
}

impl Expected<'_> {
    /// Reads the answer to a task.
    ///
    /// # Errors
    /// Returns an error for anything but an answer to exactly what was asked.
    pub fn read(&self, line: &[u8]) -> Result<BTreeMap<String, Contest>, String> {
        let AnsweredTask { id, backends } = parse(line)?;
        if id != self.id {
            return Err(scrubbed(&format!(
                "it answers `{id}`, and was asked for {}",
                self.id
            )));
        }
        self.contests(backends)
    }

    fn contests(
        &self,
        answered: Vec<AnsweredBackend>,
    ) -> Result<BTreeMap<String, Contest>, String> {
        let id = self.id;
        let mut contests = BTreeMap::new();
        for AnsweredBackend {
            name,
            timed,
            skipped,
        } in answered
        {
            if !self.backends.contains(&name) {
                return Err(scrubbed(&format!(
                    "{id}: `{name}` is not among the backends in gates.yaml"
                )));
            }
            let contest = match (timed, skipped) {
                (Some(times), None) => {
                    self.check(&times)
                        .map_err(|problem| format!("{id}, {name}: {problem}"))?;
                    Contest::Timed(times)
                }
                (None, Some(because)) => Contest::Skipped {
                    because: reason(&because)?,
                },
                _ => return Err(format!("{id}, {name}: either `timed` or `skipped`")),
            };
            if contests.insert(name.clone(), contest).is_some() {
                return Err(format!("{id}: {name} is there twice"));
            }
        }
        match self
            .backends
            .iter()
            .find(|name| !contests.contains_key(*name))
        {
            Some(name) => Err(format!("{id}: it does not answer for {name}")),
            None => Ok(contests),
        }
    }

    fn check(&self, times: &RivalTimes) -> Result<(), String> {
        let most = match self.sampling.mode {
            Mode::Warm => MOST_LAUNCHES,
            Mode::Cold => 1,
        };
        if !(1..=most).contains(&times.launches_per_sample) {
            return Err(format!(
                "launches_per_sample is {}; it must be between 1 and {most}",
                times.launches_per_sample
            ));
        }
        let Sampling {
            iterations,
            singles,
            ..
        } = self.sampling;
        for (what, samples, asked) in [
            ("batched_ns", &times.batched_ns, iterations),
            ("single_ns", &times.single_ns, singles),
        ] {
            if samples.len() != asked as usize {
                return Err(format!(
                    "{what} has {} samples, and {asked} were asked for",
                    samples.len()
                ));
            }
            if let Some(bad) = samples.iter().find(|ns| !(1..=MOST_NS).contains(ns)) {
                return Err(format!("{what} has a sample of {bad} ns"));
            }
        }
        Ok(())
    }
}

fn versions(written: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    if written.len() > MOST_VERSIONS {
        return Err(format!("it names more than {MOST_VERSIONS} versions"));
    }
    Ok(written
        .into_iter()
        .map(|(name, version)| (scrubbed(&name), scrubbed(&version)))
        .collect())
}

fn reason(because: &str) -> Result<String, String> {
    match scrubbed(because) {
        empty if empty.is_empty() => Err("it skips without a reason".to_owned()),
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
