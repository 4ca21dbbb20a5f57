//! The values that a profiler read for one launch from the GPU's own counters.

use super::{Better, Counter, Measure, Num, Seen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
/// A figure of a profile that a limit can be put on, of one launch of a case. Which counter of which profiler
/// gives it stands in the program's table of counters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum ProfileMetric, measure: Measure {
    /// Share of the cycles in which an SM was active that its tensor pipes were, too.
    TensorActive = "tensor_active" => Measure::Share,
    /// Share of the cycles of active SMs in which the pipe of FP32 multiplications and additions worked.
    Fp32Active = "fp32_active" => Measure::Share,
    /// Share of the cycles of active SMs in which the pipe of FP64 multiplications and additions worked.
    Fp64Active = "fp64_active" => Measure::Share,
    /// Share of the cycles of active SMs in which the pipe of integers, comparisons and logic worked.
    IntegerActive = "integer_active" => Measure::Share,
    /// Share of the cycles of active SMs in which the pipe of transcendental functions and conversions worked.
    SpecialActive = "special_active" => Measure::Share,
    /// Share of the bandwidth of device memory, of the whole launch.
    DramThroughput = "dram_throughput" => Measure::Share,
    /// Share of the bandwidth of the L2 cache, of the whole launch.
    L2Throughput = "l2_throughput" => Measure::Share,
    /// Share of the bandwidth of the L1 cache, of the whole launch.
    L1Throughput = "l1_throughput" => Measure::Share,
    /// Share of the passes through shared memory that there could have been.
    SharedThroughput = "shared_throughput" => Measure::Share,
    /// Share of the sectors that were asked of the L1 cache and found in it.
    L1HitRate = "l1_hit_rate" => Measure::Share,
    /// Share of the sectors that were asked of the L2 cache and found in it.
    L2HitRate = "l2_hit_rate" => Measure::Share,
    /// Passes through shared memory beyond the fewest that each access needs, loads and stores together.
    BankConflicts = "bank_conflicts" => Measure::Count,
    /// Passes of loads through shared memory beyond the fewest that each needs.
    BankConflictsLoad = "bank_conflicts_load" => Measure::Count,
    /// Passes of stores through shared memory beyond the fewest that each needs.
    BankConflictsStore = "bank_conflicts_store" => Measure::Count,
    /// Sectors of 32 bytes for each global load of a warp.
    SectorsPerLoad = "sectors_per_load" => Measure::Count,
    /// Sectors of 32 bytes for each global store of a warp.
    SectorsPerStore = "sectors_per_store" => Measure::Count,
    /// Warps that were resident on an SM as a share of the most that it holds, while it was active.
    AchievedOccupancy = "achieved_occupancy" => Measure::Share,
    /// Share of the cycles in which a scheduler issued an instruction.
    IssueActive = "issue_active" => Measure::Share,
    /// Warps of a scheduler that could issue, on average over its cycles.
    EligibleWarps = "eligible_warps" => Measure::Count,
    /// Share of the launch in which an SM had work, on average over the SMs.
    SmActive = "sm_active" => Measure::Share,
    /// Sectors of local memory, loads and stores together: spills, and arrays that are not in registers.
    LocalSectors = "local_sectors" => Measure::Count,
    /// Bytes of device memory, read and written.
    DramBytes = "dram_bytes" => Measure::Bytes,
    /// Bytes of the L2 cache, read and written.
    L2Bytes = "l2_bytes" => Measure::Bytes,
    /// Machine instructions that all warps executed together.
    ExecutedInstructions = "executed_instructions" => Measure::Count,
    /// FP32 operations of threads, a multiplication with addition counted as two. Those of tensor instructions
    /// stand apart.
    Fp32Operations = "fp32_operations" => Measure::Count,
    /// FP16 operations of threads, counted as those of FP32.
    Fp16Operations = "fp16_operations" => Measure::Count,
    /// FP64 operations of threads, counted as those of FP32.
    Fp64Operations = "fp64_operations" => Measure::Count,
    /// Operations of tensor instructions, a multiplication with addition counted as two.
    TensorOperations = "tensor_operations" => Measure::Count,
    /// Blocks of the grid over those that fit on the GPU at a time.
    Waves = "waves" => Measure::Count,
}
}

/// How the values of several kernels of one launch are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The counts of all kernels are added up.
    Sum,
    /// Each kernel has a share or ratio of its own, and several kernels have none in common.
    Apart,
}

impl ProfileMetric {
    pub fn is_share(self) -> bool {
        self.measure() == Measure::Share
    }

    /// Returns the better direction: a machine that is kept busier is used better, and work and waste are best small.
    pub fn better(self) -> Better {
        if self.is_share() || self == Self::EligibleWarps {
            Better::Larger
        } else {
            Better::Smaller
        }
    }

    pub fn joined(self) -> Joined {
        match self {
            Self::BankConflicts
            | Self::BankConflictsLoad
            | Self::BankConflictsStore
            | Self::LocalSectors
            | Self::DramBytes
            | Self::L2Bytes
            | Self::ExecutedInstructions
            | Self::Fp32Operations
            | Self::Fp16Operations
            | Self::Fp64Operations
            | Self::TensorOperations => Joined::Sum,
            _ => Joined::Apart,
        }
    }
}

/// Restricts a schema to the names. A map with these keys then lists them, and takes no others.
macro_rules! schema_of_names {
    ($of:ident) => {
        impl JsonSchema for $of {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($of).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::ALL.map(Self::name).to_vec() })
            }
        }
    };
}

schema_of_names!(ProfileMetric);
schema_of_names!(Stall);

named! {
/// Why a warp did not issue in a cycle, under the profiler's own names; and `Selected`, where it did.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Stall {
    /// Waits for global, local or texture memory.
    LongScoreboard = "long_scoreboard",
    /// Waits for shared memory, a transcendental function or the like.
    ShortScoreboard = "short_scoreboard",
    Barrier = "barrier",
    Membar = "membar",
    /// The queue of shared memory and special instructions is full.
    MioThrottle = "mio_throttle",
    /// The queue of local and global memory is full.
    LgThrottle = "lg_throttle",
    TexThrottle = "tex_throttle",
    /// The pipe that it needs is busy.
    MathPipeThrottle = "math_pipe_throttle",
    /// A fixed latency between two instructions.
    Wait = "wait",
    /// It could issue, and another warp did.
    NotSelected = "not_selected",
    Selected = "selected",
    /// The instruction is not in the cache yet.
    NoInstruction = "no_instruction",
    BranchResolving = "branch_resolving",
    DispatchStall = "dispatch_stall",
    /// Ends, and its stores are still under way.
    Drain = "drain",
    /// A constant is not in the cache yet.
    ImcMiss = "imc_miss",
    /// Waits for matrix products of a warp group.
    Gmma = "gmma",
    WarpgroupArrive = "warpgroup_arrive",
    Sleeping = "sleeping",
    Misc = "misc",
}
}

/// One launch of a case under the profiler, on buffers prepared as for timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileFacts {
    /// The version of the profiler, `Nsight Compute 2025.3.1.0`. It is part of the key of baselines, because the name
    /// of a counter and what it counts may change.
    pub profiler: String,
    /// The clocks, which the profiler does not change: `default`, or `locked` if application or locked clocks are set.
    pub clock_policy: String,
    /// The number of launches of the case before the profiled one.
    pub warmups: u32,
    /// The kernels in the order of their launch. A sequence or a launcher has several.
    pub kernels: Vec<KernelProfile>,
}

/// The profile of one kernel of the launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelProfile {
    /// The C++ name of the function, as the profiler has it.
    pub entry: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The GPU time under the profiler, which runs a kernel alone and several times. It is for information only: no
    /// gate on a time rests on it.
    pub duration_ns: Num,
    /// The SM clock during the profile.
    pub sm_mhz: Option<Num>,
    /// The metrics, with shares from 0 to 1. Every metric has an entry, and one that the architecture lacks is
    /// unsupported.
    pub metrics: BTreeMap<ProfileMetric, Seen<Num>>,
    /// The cycles that a warp spends in each state for one instruction that it issues. Their sum is the latency between
    /// two instructions of a warp.
    pub stalls: BTreeMap<Stall, Num>,
    /// The executed instructions of warps, by their operation in machine code: `FFMA`, `LDG`.
    pub instructions: BTreeMap<String, u64>,
    /// The simulator's counters of PTX, here measured on machine code: sectors as the addresses ask for them, before
    /// L1. Counters that the profiler does not know are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Counter, u64>,
    /// The lines in the order of the file. Empty if the profiler knew no lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineProfile>,
}

/// The values at one source line of one kernel, for all of its instructions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineProfile {
    /// The source line of these values: `kernels/k.cu:12`.
    pub place: String,
    /// The number of executed instructions of warps.
    pub instructions: u64,
    /// Samples of warps by their state. There are few if the launch is short.
    pub samples: BTreeMap<Stall, u64>,
    /// The counters, as for the kernel, without those that are 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Counter, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_no_two_are_the_same() {
        for metric in ProfileMetric::ALL {
            let text = serde_json::to_string(&metric).unwrap();
            assert_eq!(text, format!("\"{metric}\""));
            assert_eq!(
                serde_json::from_str::<ProfileMetric>(&text).unwrap(),
                metric
            );
        }
        for stall in Stall::ALL {
            let text = serde_json::to_string(&stall).unwrap();
            assert_eq!(serde_json::from_str::<Stall>(&text).unwrap(), stall);
        }
        assert!(serde_json::from_str::<Stall>("\"occupancy\"").is_err());
    }
}
