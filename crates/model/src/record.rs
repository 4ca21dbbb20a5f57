use super::{
    Acceptance, Callable, CaseId, CompilerFacts, DeviceFacts, Evidence, Gate, NotRun, Plan, Policy,
    Seen, Simulator, Target,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const RECORD_SCHEMA: &str = "gatekeeper.record/1";

/// The gates file of a command that names none.
pub const DEFAULT_CONFIG: &str = "gates.yaml";

/// The version of how times are taken. It is part of the key of their baselines, because it changes the times.
pub const TIMING_PROTOCOL: u32 = 1;

/// Everything of one run that a verdict depends on, and what a reader wants to know in addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub schema: String,
    pub environment: Environment,
    pub plan: Plan,
    /// The policy when the run was made, so that the record can be judged alone.
    pub policy: Policy,
    pub evidence: Vec<Evidence>,
    /// Wall time by phase. No verdict depends on it.
    pub costs: Costs,
    /// How long each case kept workers busy. A later run deals its cases out by these times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<CaseCost>,
    /// For a run of some of the cases: which, and what the whole run is. `plan` and `policy` are then those of the
    /// part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

impl Record {
    /// Returns true if it judges compiled files of `binaries`, which have baselines. Two files that are compared have none, and
    /// their gates are declared nowhere.
    pub fn has_binaries(&self) -> bool {
        let of_all = Callable::Compiled { symbol: None };
        let mut gates = self.policy.gates.iter();
        self.plan.units.iter().any(|unit| unit.call == of_all)
            && gates.any(|gate| gate.declared.is_some())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseCost {
    pub case: CaseId,
    pub ms: u64,
}

/// One part of a run that is dealt out over several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of the part, counted from 1.
    pub number: u32,
    pub of: u32,
    pub whole: Whole,
}

/// The properties that all shards of a run share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Whole {
    /// The digest of the other fields. The shards of one run have the same.
    pub id: String,
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub targets: Vec<Target>,
    pub accepted: Vec<Acceptance>,
    /// The cases of each shard, in the order of the plan.
    pub dealt: Vec<Vec<CaseId>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub gatekeeper: String,
    /// The start of the run: RFC 3339, UTC.
    pub started: String,
    /// The command line, without paths of this machine.
    pub command: String,
    /// The gates file as it was named, relative to where the run was started if it was so named.
    pub config: String,
    /// `TIMING_PROTOCOL` of the gatekeeper that took the times, not of the one that judges them.
    pub timing_protocol: u32,
    pub host: Host,
    /// The abbreviated hash, with a `+` if the tree had uncommitted changes.
    pub commit: Option<String>,
    /// The digest of that commit and of the tree's differences from it. Two trees with one digest have the same
    /// sources. `None` outside git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<String>,
    /// `None` if nobody stated it, as in another program's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<Checkout>,
    pub compiler: Seen<CompilerFacts>,
    /// The compiler as the command line named it: `13.2,ptxas=13.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// The compiler of the base, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_compiler: Option<CompilerFacts>,
    /// The GPU. `NotRun` if there is none, or if the simulator was asked for instead; `Fault` if there is one and it is
    /// broken.
    pub device: Seen<DeviceFacts>,
    /// The simulator, if it executed the kernels instead of a GPU.
    pub simulator: Option<Simulator>,
    /// For a merged record, the runs that it was merged from, in the order of the shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MergedPart>,
}

/// Names of the tree that was run, from CI or git. They appear in titles, and no verdict depends on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    /// The repository: `org/repo`, or the name of a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// `None` for a commit that was checked out without its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// Where and when one shard of a merged record was run. GPUs of one model differ, and so do days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergedPart {
    pub cases: Vec<CaseId>,
    pub started: String,
    pub command: String,
    pub host: Host,
    /// The UUID of the GPU, or `None` in the simulator.
    pub gpu: Option<String>,
}

impl Environment {
    /// Returns when the run began that observed a case, and on which GPU.
    pub fn origin(&self, case: &CaseId) -> (&str, Option<&str>) {
        let part = self.parts.iter().find(|part| part.cases.contains(case));
        match part {
            Some(part) => (&part.started, part.gpu.as_deref()),
            None => {
                let device = self.device.got();
                (&self.started, device.map(|device| device.uuid.as_str()))
            }
        }
    }

    /// Returns the commit if its tree had uncommitted changes.
    pub fn changed_commit(&self) -> Option<&str> {
        self.commit.as_deref()?.strip_suffix('+')
    }

    /// Returns the day of the record, `2026-11-21`. A judgement uses this date, so that it can be repeated.
    pub fn day(&self) -> Option<&str> {
        let day = self.started.get(..10)?;
        let is_day = day.char_indices().all(|(at, c)| match at {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        });
        is_day.then_some(day)
    }

    /// Returns true if the units are kernels of files that were compiled already, so that nothing was built or run.
    pub fn is_compiled(&self) -> bool {
        self.compiler == Seen::NotRun(NotRun::Compiled)
    }

    /// Returns the program that ran the kernels, if it was not gatekeeper.
    pub fn other_program(&self) -> Option<&str> {
        match &self.compiler {
            Seen::NotRun(NotRun::OtherProgram { program }) => Some(program),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub os: String,
    pub cpu: String,
    pub cores: u32,
}

/// Wall time in ms. The parts and `own_ms` add up to `total_ms`. Time in which two phases overlap is counted once, for
/// the first of them in this list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The time while sources were looked up or compiled.
    pub compiler_ms: u64,
    /// The number of nvcc calls, and of artifacts taken from the cache.
    pub compiled: u32,
    pub cached: u32,
    /// The time while references were looked up or computed.
    pub reference_ms: u64,
    /// The time while jobs used the GPU, as the workers measured it: loading, copies, launches and waiting, without the
    /// time that they waited for inputs, expected outputs and comparisons. For a job that broke its worker, all of its
    /// time. With several GPUs side by side, the time of the busiest one.
    pub gpu_ms: u64,
    /// The number of GPUs that kernels were checked on, all of one model. The first took the times. 0 if there was
    /// none.
    pub gpus: u32,
    /// The time while kernels were simulated, on all cores.
    pub simulator_ms: u64,
    /// The time while rivals ran: other programs, between the timing processes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub rivals_ms: u64,
    /// The time while the profiler ran, its workers included.
    #[serde(default, skip_serializing_if = "is_none")]
    pub profiler_ms: u64,
    /// The time from spawning workers until their device is open, and from telling them to end until they are gone.
    /// With several GPUs, that of the busiest one, as for `gpu_ms`.
    pub worker_start_ms: u64,
    pub workers: u32,
    /// The time of the whole run.
    pub total_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(ms: &u64) -> bool {
    *ms == 0
}

impl Costs {
    /// Returns the rest: the host's own work, and the workers' own besides the driver's.
    pub fn own_ms(&self) -> u64 {
        let parts = self.compiler_ms
            + self.worker_start_ms
            + self.reference_ms
            + self.gpu_ms
            + self.simulator_ms
            + self.rivals_ms
            + self.profiler_ms;
        self.total_ms.saturating_sub(parts)
    }
}
