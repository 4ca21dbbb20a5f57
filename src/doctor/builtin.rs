//! Makes and times cases of built-in kernels. What these kernels compute is never looked at.

use build::Artifact;
use model::{
    Arg, Case, CaseId, ElemType, Launch, Reference, Role, ScalarType, ScalarValue, Schedule, Seen,
    Step, Tensor, TimeFacts, Unary,
};
use run::worker::{Crew, TimeJob};
use system::error::{Error, Result};
use wording::reasons;

/// The directory in the cache that holds their sources.
pub const CACHE: &str = "builtin";

/// The number of threads in a block.
pub const BLOCK: u32 = 256;

/// The deadline in ms, long enough for a millisecond of memory traffic, for samples and for settling.
const DEADLINE_MS: u64 = 60_000;

pub fn tensor(name: &str, len: usize) -> Tensor {
    Tensor::new(name, Role::Scratch, ElemType::F32, vec![len])
}

pub fn pointer(name: &str) -> Arg {
    Arg::Tensor {
        name: name.to_owned(),
    }
}

pub fn integer(value: u32) -> Arg {
    Arg::Scalar {
        elem: ScalarType::I32,
        value: ScalarValue::Int(value.into()),
    }
}

/// Returns a case of one launch of `blocks` blocks.
pub fn case(kernel: &str, shape: &str, blocks: u32, tensors: Vec<Tensor>, args: Vec<Arg>) -> Case {
    Case {
        tensors,
        steps: vec![Step::new(
            args,
            Some(Launch {
                grid: [blocks, 1, 1],
                block: [BLOCK, 1, 1],
                cluster: None,
                cooperative: false,
                dynamic_shared: 0,
            }),
        )],
        seeds: vec![1],
        // The outputs are never checked, because only the time is of interest.
        reference: Reference::Unary {
            x: "in".to_owned(),
            out: "out".to_owned(),
            op: Unary::Copy,
        },
        deadline_ms: DEADLINE_MS,
        timed: true,
        ..Case::empty(CaseId::new(kernel, "default", shape))
    }
}

/// Returns the time of one launch in a batch, in ns.
///
/// # Errors
/// Environment, if the kernel broke or the device is gone.
pub fn time(crew: &mut Crew, case: &Case, artifact: &Artifact) -> Result<f64> {
    let facts: TimeFacts = got(
        crew.time(TimeJob {
            case: case.clone(),
            artifact: artifact.clone(),
            seed: 1,
            schedule: Schedule {
                singles: 1,
                ..config::default_timing()
            },
        }),
        &case.id.to_string(),
    )?;
    let mut samples = facts.batched_ns;
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2).copied().unwrap_or(0);
    Ok(middle as f64 / f64::from(facts.launches_per_sample.max(1)))
}

/// Returns what was seen. `what` is its name in the error.
///
/// # Errors
/// Environment, if nothing was seen.
pub fn got<T>(seen: Seen<T>, what: &str) -> Result<T> {
    let why = match seen {
        Seen::Got(facts) => return Ok(facts),
        Seen::Fault(fault) => fault.message,
        Seen::Unsupported(why) => reasons::unsupported(&why),
        Seen::NotRun(why) => reasons::not_run(&why),
    };
    Err(Error::environment(format!("{what}: {why}")))
}
