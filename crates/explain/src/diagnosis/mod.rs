//! Tells what bounds a case: measured where it was profiled, by its launch and time where it was only timed, estimated
//! from the simulator's counters and PTXAS where there is no GPU.
//!
//! `view` gathers what a record knows of a case, `peaks` is what GPUs can do, `measured`, `times` and `estimate` say what
//! bounds it, `advice` what to try, `changes` compares base and head.

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
    /// How much of each resource is used, of what there is, 0 to 1: measured, or of the time that the estimate comes
    /// to. Those that are not known are not here.
    pub uses: BTreeMap<Resource, Num>,
    /// The reached part of the bound, where it is a resource or the spread of blocks: 1 is all that there is.
    pub reached: Option<Num>,
    pub roofline: Option<Roofline>,
    pub residency: Option<Residency>,
    pub traffic: Traffic,
    /// Cycles that a warp spends in each state for each instruction that it issues, as profiled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls: BTreeMap<Stall, Num>,
    /// The time of one launch: p50, or under the profiler where it was not timed. `None` in the simulator.
    pub time_ns: Option<Num>,
    /// The estimated time.
    pub estimated_ns: Option<Num>,
    /// The time that the most used resource alone would need at its peak, on all of the GPU.
    pub least_ns: Option<Num>,
    /// The advice to try first; two at most.
    pub advice: Vec<Advice>,
}

/// The evidence that a diagnosis rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// By the simulator's counters and PTXAS, for this GPU, which is not there.
    Estimate { gpu: String },
    /// By the counters of the GPU itself.
    Profile { gpu: String, profiler: String },
    /// Timed and not profiled: by launch and time alone.
    Times { gpu: String },
    /// Nothing that says more.
    Nothing,
}

/// Stable names: programs match on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bound {
    Resource {
        resource: Resource,
    },
    /// Warps wait, and nothing is used to its end. With what they mostly wait for; of an estimate the largest part
    /// of a warp's own chain.
    Latency {
        stall: Stall,
    },
    /// A launch takes longer than what it does.
    Launch,
    /// Multiprocessors have nothing to do from the start.
    FewBlocks {
        /// The bound of those that have blocks, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        busy: Option<Box<Bound>>,
    },
    /// They have nothing to do at the end, as blocks do not come out even.
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
    /// Issue slots of the schedulers: whatever the instructions are.
    IssueSlots = "issue-slots",
    SharedMemory = "shared-memory",
    L2 = "l2",
    Dram = "dram",
}
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Unknown {
    /// The case was not run, or broke.
    NotSeen,
    /// It was timed, and no profile says more.
    NotProfiled,
    /// The tables have no peaks of this GPU.
    Gpu { name: String },
    /// No GPU of this architecture is in the tables, or its limits are not.
    Architecture { arch: String },
    /// Several kernels, or host code that launches them.
    SeveralKernels,
    /// The profile does not tell what warps wait for.
    NoStalls,
}

/// Where a case stands under the roofs of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// The arithmetic that takes the largest part of its peak.
    pub arithmetic: Arithmetic,
    pub operations: Num,
    pub memory: Resource,
    pub bytes: Num,
    /// Operations for each byte.
    pub intensity: Num,
    /// From here on arithmetic is the roof.
    pub ridge: Num,
    /// Operations a second; `None` without a time.
    pub reached: Option<Num>,
    /// The roof's limit at this intensity.
    pub roof: Num,
}

impl Roofline {
    /// Operations with their peak a second, bytes with theirs, and operations a second that were reached. `None` where
    /// nothing is moved or computed.
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
    /// Blocks over those that are resident at a time.
    pub waves: Num,
    /// `None` of host code that launches: what it launches is in the profile alone.
    pub theoretical: Option<Theoretical>,
    /// Occupancy as profiled, 0 to 1.
    pub achieved: Option<Num>,
}

impl Residency {
    /// Blocks for each multiprocessor: below 1 some have none.
    fn share_with_blocks(&self) -> f64 {
        self.blocks as f64 / f64::from(self.multiprocessors)
    }

    /// The part of the last wave that is missing, over all waves.
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
    /// 0 to 1.
    pub occupancy: Num,
    pub blocks_per_sm: u32,
    pub limiter: Limiter,
}

/// The bytes moved, and the fewest that would do. `None` where there were none, or they were not counted.
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
    /// 1 is the best.
    pub fn waste(self) -> f64 {
        self.moved as f64 / self.ideal.max(1) as f64
    }
}

/// Waste that is worth a look whatever bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waste {
    /// Loads and stores whose lanes are not adjacent.
    pub loads: bool,
    pub stores: bool,
    /// Bank conflicts in shared memory.
    pub conflicts: bool,
}

/// From this share on, a resource is what bounds: Nsight Compute calls a launch that stays below it for compute and
/// for memory one of latency (rule SOLBottleneck).
const BUSY: f64 = 0.6;
/// With fewer blocks for each multiprocessor than this, those without are what is missing.
const FEW: f64 = 0.75;
/// The part of the time that has to be lost for a reason to be named.
const LOST: f64 = 0.2;

/// Finds what bounds a case, as this view shows it.
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
