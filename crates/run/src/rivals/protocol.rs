//! The request to a rival and its answer: one JSON document each way. docs/gates.md describes it for authors of
//! rivals. Pure.

use model::{
    CaseId, Contest, DeviceFacts, Mode, Plan, Rival, RivalFacts, RivalTimes, Schedule, Task,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "gatekeeper.rival/1";

/// Bytes of one sample in an answer, and of all else: more than any rival needs.
const SAMPLE_BYTES: u64 = 32;
const OTHER_BYTES: u64 = 1 << 20;

/// A longer text is cut.
const MOST_CHARACTERS: usize = 500;
const MOST_VERSIONS: usize = 20;

const MOST_LAUNCHES: u32 = 1_000_000;
/// An hour.
const MOST_NS: u64 = 3_600_000_000_000;

#[derive(Serialize)]
pub struct Request<'a> {
    schema: &'static str,
    rival: &'a str,
    /// Each is to be timed, or skipped with a reason.
    backends: &'a [String],
    gpu: Gpu<'a>,
    sampling: Sampling,
    tasks: Vec<RequestedTask<'a>>,
}

#[derive(Serialize)]
struct Gpu<'a> {
    name: &'a str,
    uuid: &'a str,
}

/// As a kernel's own samples are taken.
#[derive(Serialize)]
struct Sampling {
    mode: Mode,
    /// Calls before the first sample.
    warmup: u32,
    /// Batched samples, each of as many calls as last at least `batch_ns`.
    iterations: u32,
    batch_ns: u64,
    /// Samples of one call each.
    singles: u32,
}

#[derive(Serialize)]
struct RequestedTask<'a> {
    id: String,
    #[serde(skip)]
    case: &'a CaseId,
    #[serde(flatten)]
    task: Task,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    schema: String,
    #[serde(default)]
    versions: BTreeMap<String, String>,
    /// In the place of all tasks.
    skipped: Option<String>,
    #[serde(default)]
    tasks: Vec<AnsweredTask>,
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

impl<'a> Request<'a> {
    pub fn of(
        rival: &'a Rival,
        device: &'a DeviceFacts,
        plan: &'a Plan,
        tasks: &[&'a CaseId],
    ) -> Self {
        let Schedule {
            mode,
            warmup,
            iterations,
            singles,
            batch_ns,
            ..
        } = plan.timing;
        let cases = tasks.iter().filter_map(|id| plan.case(id));
        let tasks = cases.map(|case| RequestedTask {
            id: case.id.to_string(),
            case: &case.id,
            task: plan.task(case),
        });
        Self {
            schema: SCHEMA,
            rival: &rival.name,
            backends: &rival.backends,
            gpu: Gpu {
                name: &device.name,
                uuid: &device.uuid,
            },
            sampling: Sampling {
                mode,
                warmup,
                iterations,
                batch_ns,
                singles,
            },
            tasks: tasks.collect(),
        }
    }

    /// In bytes.
    pub fn longest_answer(&self) -> u64 {
        let samples = u64::from(self.sampling.iterations) + u64::from(self.sampling.singles);
        let contests = self.backends.len() as u64 * self.tasks.len() as u64;
        OTHER_BYTES.saturating_add(
            SAMPLE_BYTES
                .saturating_mul(samples)
                .saturating_mul(contests),
        )
    }

    /// # Errors
    /// Anything but an answer to all that was asked, and to nothing else.
    pub fn read(&self, output: &[u8]) -> Result<BTreeMap<CaseId, RivalFacts>, String> {
        let answer: Answer = serde_json::from_slice(output).map_err(|error| {
            scrubbed(&format!(
                "its answer is not what the protocol asks for: {error}"
            ))
        })?;
        if answer.schema != SCHEMA {
            return Err(scrubbed(&format!(
                "it answers by `{}`, and this gatekeeper asks by {SCHEMA}",
                answer.schema
            )));
        }
        let versions = versions(answer.versions)?;
        let facts = |backends| RivalFacts {
            versions: versions.clone(),
            backends,
        };
        if let Some(because) = answer.skipped {
            if !answer.tasks.is_empty() {
                return Err("it skips everything, and answers tasks too".to_owned());
            }
            let skipped = Contest::Skipped {
                because: reason(&because)?,
            };
            let skipped = self.backends.iter().map(|it| (it.clone(), skipped.clone()));
            let skipped: BTreeMap<_, _> = skipped.collect();
            let tasks = self.tasks.iter();
            return Ok(tasks
                .map(|task| (task.case.clone(), facts(skipped.clone())))
                .collect());
        }
        let mut answered = BTreeMap::new();
        for AnsweredTask { id, backends } in answer.tasks {
            let asked = self.tasks.iter().find(|task| task.id == id);
            let asked =
                asked.ok_or_else(|| scrubbed(&format!("it answers `{id}`, which is no task")))?;
            let backends = self.contests(&id, backends)?;
            let known = answered.insert(asked.case.clone(), facts(backends));
            if known.is_some() {
                return Err(format!("it answers {id} twice"));
            }
        }
        match self.tasks.iter().find(|it| !answered.contains_key(it.case)) {
            Some(task) => Err(format!("it does not answer {}", task.id)),
            None => Ok(answered),
        }
    }

    fn contests(
        &self,
        id: &str,
        answered: Vec<AnsweredBackend>,
    ) -> Result<BTreeMap<String, Contest>, String> {
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
        let mut asked = self.backends.iter();
        match asked.find(|name| !contests.contains_key(*name)) {
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
    let written = written.into_iter();
    Ok(written
        .map(|(name, version)| (scrubbed(&name), scrubbed(&version)))
        .collect())
}

fn reason(because: &str) -> Result<String, String> {
    match scrubbed(because) {
        empty if empty.is_empty() => Err("it skips without a reason".to_owned()),
        because => Ok(because),
    }
}

/// A rival's output as one short line that cannot move a cursor.
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
