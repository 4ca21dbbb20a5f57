//! Determines what bounds a case: by measurement if it was profiled, by its launch and time if it was only timed, and
//! by an estimate from the simulator's counters and PTXAS if there is no GPU.
//!
//! `view` gathers what a record knows of a case, `peaks` is what GPUs can do, `measured`, `times` and `estimate`
//! determine what bounds it, `advice` says what to try, and `changes` compares base and head.

mod advice;
pub mod changes;
mod estimate;
mod measured;
pub mod peaks;
#[cfg(test)]
mod tests;
mod times;
mod view;

use judge::View;
use model::occupancy::Limiter;
use model::{Arithmetic, CaseId, Num, Stall};
use serde::Serialize;
use std::collections::BTreeMap;

pub use advice::{Advice, advice};
use view::DiagnosisInput;

/// The bound of one case, with the values that show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    pub basis: Basis,
    pub bound: Bound,
    /// The used share of each known resource, 0 to 1: measured, or relative to the estimated time.
    pub uses: BTreeMap<Resource, Num>,
    /// The reached share of the bound, if it is a resource or the spread of blocks. 1 is everything.
    pub reached: Option<Num>,
    pub roofline: Option<Roofline>,
    pub residency: Option<Residency>,
    pub traffic: Traffic,
    /// Cycles that a warp spends in each state for each instruction that it issues, as profiled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls: BTreeMap<Stall, Num>,
    /// The time of one launch: p50, or the time under the profiler if it was not timed. `None` in the simulator.
    pub time_ns: Option<Num>,
    /// The estimated time of one launch.
    pub estimated_ns: Option<Num>,
    /// The time that the most used resource alone would need at its peak, on the whole GPU.
    pub least_ns: Option<Num>,
    /// The advice to try first, at most two pieces.
    pub advice: Vec<Advice>,
}

/// The evidence that a diagnosis rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// The simulator's counters and PTXAS, for this GPU, which is not there.
    Estimate { gpu: String },
    /// The counters of the GPU itself.
    Profile { gpu: String, profiler: String },
    /// The case was timed and not profiled, so only its launch and its time are known.
    Times { gpu: String },
    /// There is no evidence that says more.
    Nothing,
}

/// The bound of a case. Names are stable, because programs match on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bound {
    Resource {
        resource: Resource,
    },
    /// Warps wait, and no resource is used up. Says what they mostly wait for; in an estimate this is the largest part
    /// of a warp's own chain.
    Latency {
        stall: Stall,
    },
    /// Launching takes longer than the work of the launch.
    Launch,
    /// Some multiprocessors have nothing to do from the start.
    FewBlocks {
        /// The bound of those that have blocks, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        busy: Option<Box<Bound>>,
    },
    /// Multiprocessors have nothing to do at the end, because the blocks do not divide evenly.
    Tail,
    Unknown {
        why: Unknown,
    },
}

model::named! {
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Resource {
    Tensor = "tensor",
    Fp32 = "fp32",
    Fp64 = "fp64",
    Fp16 = "fp16",
    SpecialFunctions = "special-functions",
    /// Issue slots of the schedulers, whatever the instructions are.
    IssueSlots = "issue-slots",
    SharedMemory = "shared-memory",
    L2 = "l2",
    Dram = "dram",
}
}

/// The reasons for which a bound is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Unknown {
    /// The case was not run, or broke.
    NotSeen,
    /// The case was timed, and there is no profile that says more.
    NotProfiled,
    /// The tables have no peaks of this GPU.
    Gpu { name: String },
    /// No GPU of this architecture is in the tables, or its limits are unknown.
    Architecture { arch: String },
    /// The launch has several kernels, or host code launches them.
    SeveralKernels,
    /// The profile does not say what warps wait for.
    NoStalls,
}

/// The position of a case under the roofs of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// The arithmetic that takes the largest share of its peak.
    pub arithmetic: Arithmetic,
    pub operations: Num,
    pub memory: Resource,
    pub bytes: Num,
    /// The operations for each byte that is moved.
    pub intensity: Num,
    /// The intensity from which on arithmetic is the roof.
    pub ridge: Num,
    /// Operations a second, or `None` without a time.
    pub reached: Option<Num>,
    /// The roof's limit at this intensity.
    pub roof: Num,
}

impl Roofline {
    /// Makes a roofline from operations with their peak a second, bytes with theirs, and the operations a second that
    /// were reached. Returns `None` if nothing is moved or computed.
    fn new(
        (arithmetic, operations, peak): (Arithmetic, f64, f64),
        (memory, bytes, bandwidth): (Resource, f64, f64),
        reached: Option<f64>,
    ) -> Option<Self> {
        (bytes > 0.0 && operations > 0.0).then(|| {
            let intensity = operations / bytes;
            Self {
                arithmetic,
                operations: Num(operations),
                memory,
                bytes: Num(bytes),
                intensity: Num(intensity),
                ridge: Num(peak / bandwidth),
                roof: Num(peak.min(intensity * bandwidth)),
                reached: reached.map(Num),
            }
        })
    }
}

/// The blocks that are on a multiprocessor at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residency {
    pub blocks: u64,
    pub multiprocessors: u32,
    /// Blocks over the number that is resident at a time.
    pub waves: Num,
    /// `None` for host code that launches, because only the profile knows what it launches.
    pub theoretical: Option<Theoretical>,
    /// The occupancy as profiled, 0 to 1.
    pub achieved: Option<Num>,
}

impl Residency {
    /// Returns the blocks for each multiprocessor. Below 1 some have none.
    fn share_with_blocks(&self) -> f64 {
        self.blocks as f64 / f64::from(self.multiprocessors)
    }

    /// Returns the missing part of the last wave, over all waves.
    fn lost_by_waves(&self) -> f64 {
        let waves = self.waves.0;
        if waves > 1.0 {
            1.0 - waves / waves.ceil()
        } else {
            0.0
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Theoretical {
    /// The occupancy as a share, from 0 to 1.
    pub occupancy: Num,
    pub blocks_per_sm: u32,
    pub limiter: Limiter,
}

/// The amounts moved, and the least that would do. `None` if there were none, or if they were not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    pub loads: Option<Moved>,
    pub stores: Option<Moved>,
    pub shared_loads: Option<Moved>,
    pub shared_stores: Option<Moved>,
}

/// Sectors of global memory, or passes through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moved {
    pub requests: u64,
    pub moved: u64,
    pub ideal: u64,
}

impl Moved {
    /// Returns the moved amount over the least. 1 is the best.
    pub fn waste(self) -> f64 {
        self.moved as f64 / self.ideal.max(1) as f64
    }
}

/// Waste that is worth a look, whatever the bound is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waste {
    /// Loads or stores of lanes that are not adjacent.
    pub loads: bool,
    pub stores: bool,
    /// True if there are many bank conflicts in shared memory.
    pub conflicts: bool,
}

/// The share from which on a resource is the bound. Nsight Compute calls a launch latency-bound that stays below it for
/// compute and for memory (rule SOLBottleneck).
const BUSY: f64 = 0.6;
/// With fewer blocks for each multiprocessor, the multiprocessors without blocks are the bound.
const FEW: f64 = 0.75;
/// The share of the time that has to be lost for a reason to be named.
const LOST: f64 = 0.2;

/// Determines what bounds a case, as this view shows it.
pub fn diagnose(view: View, id: &CaseId) -> Diagnosis {
    let known = match DiagnosisInput::from_view(view, id) {
        Ok(known) => known,
        Err(why) => return Diagnosis::unknown(why),
    };
    match known.device {
        Some(device) if known.profiles.is_empty() => times::diagnose(&known, device),
        Some(device) => measured::diagnose(&known, device, &known.profiles),
        None => estimate::estimate(&known),
    }
}

impl Diagnosis {
    fn unknown(why: Unknown) -> Self {
        Self {
            basis: Basis::Nothing,
            bound: Bound::Unknown { why },
            uses: BTreeMap::new(),
            reached: None,
            roofline: None,
            residency: None,
            traffic: Traffic::default(),
            stalls: BTreeMap::new(),
            time_ns: None,
            estimated_ns: None,
            least_ns: None,
            advice: Vec::new(),
        }
    }

    pub fn is_known(&self) -> bool {
        !matches!(self.bound, Bound::Unknown { .. })
    }
}
