//! The values that a profiler read for one launch from the GPU's own counters.

use super::{Counter, Num, Seen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A figure of a profile that a limit can be put on, of one launch of a case. Which counter of which profiler
/// gives it stands in the program's table of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProfileMetric {
    /// Share of the cycles in which an SM was active that its tensor pipes were, too.
    TensorActive,
    /// The same of the pipe of FP32 multiplications and additions,
    Fp32Active,
    Fp64Active,
    /// of the one of integers, comparisons and logic,
    IntegerActive,
    /// and of the one of transcendental functions and conversions.
    SpecialActive,
    /// Share of the bandwidth of device memory, of the whole launch.
    DramThroughput,
    L2Throughput,
    L1Throughput,
    /// Share of the passes through shared memory that there could have been.
    SharedThroughput,
    /// Share of the sectors that were asked of this cache and found in it.
    L1HitRate,
    L2HitRate,
    /// Loads and stores together.
    BankConflicts,
    BankConflictsLoad,
    BankConflictsStore,
    /// Sectors of 32 bytes for each global load of a warp.
    SectorsPerLoad,
    SectorsPerStore,
    /// Warps that were resident on an SM as a share of the most that it holds, while it was active.
    AchievedOccupancy,
    /// Share of the cycles in which a scheduler issued an instruction.
    IssueActive,
    /// Warps of a scheduler that could issue, on average over its cycles.
    EligibleWarps,
    /// Share of the launch in which an SM had work, on average over the SMs.
    SmActive,
    /// Sectors of local memory, loads and stores together: spills, and arrays that are not in registers.
    LocalSectors,
    /// Read and written.
    DramBytes,
    L2Bytes,
    /// Of all warps.
    ExecutedInstructions,
    /// Floating-point operations of threads, a multiplication with addition counted as two. Those of
    /// tensor instructions stand apart.
    Fp32Operations,
    Fp16Operations,
    Fp64Operations,
    TensorOperations,
    /// Blocks of the grid over those that fit on the GPU at a time.
    Waves,
}

/// How figures of the kernels of one launch come to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Counts add up.
    Sum,
    /// A share or ratio of each kernel: of several there is none.
    Apart,
}

impl ProfileMetric {
    pub const ALL: [Self; 29] = [
        Self::TensorActive,
        Self::Fp32Active,
        Self::Fp64Active,
        Self::IntegerActive,
        Self::SpecialActive,
        Self::DramThroughput,
        Self::L2Throughput,
        Self::L1Throughput,
        Self::SharedThroughput,
        Self::L1HitRate,
        Self::L2HitRate,
        Self::BankConflicts,
        Self::BankConflictsLoad,
        Self::BankConflictsStore,
        Self::SectorsPerLoad,
        Self::SectorsPerStore,
        Self::AchievedOccupancy,
        Self::IssueActive,
        Self::EligibleWarps,
        Self::SmActive,
        Self::LocalSectors,
        Self::DramBytes,
        Self::L2Bytes,
        Self::ExecutedInstructions,
        Self::Fp32Operations,
        Self::Fp16Operations,
        Self::Fp64Operations,
        Self::TensorOperations,
        Self::Waves,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::TensorActive => "tensor_active",
            Self::Fp32Active => "fp32_active",
            Self::Fp64Active => "fp64_active",
            Self::IntegerActive => "integer_active",
            Self::SpecialActive => "special_active",
            Self::DramThroughput => "dram_throughput",
            Self::L2Throughput => "l2_throughput",
            Self::L1Throughput => "l1_throughput",
            Self::SharedThroughput => "shared_throughput",
            Self::L1HitRate => "l1_hit_rate",
            Self::L2HitRate => "l2_hit_rate",
            Self::BankConflicts => "bank_conflicts",
            Self::BankConflictsLoad => "bank_conflicts_load",
            Self::BankConflictsStore => "bank_conflicts_store",
            Self::SectorsPerLoad => "sectors_per_load",
            Self::SectorsPerStore => "sectors_per_store",
            Self::AchievedOccupancy => "achieved_occupancy",
            Self::IssueActive => "issue_active",
            Self::EligibleWarps => "eligible_warps",
            Self::SmActive => "sm_active",
            Self::LocalSectors => "local_sectors",
            Self::DramBytes => "dram_bytes",
            Self::L2Bytes => "l2_bytes",
            Self::ExecutedInstructions => "executed_instructions",
            Self::Fp32Operations => "fp32_operations",
            Self::Fp16Operations => "fp16_operations",
            Self::Fp64Operations => "fp64_operations",
            Self::TensorOperations => "tensor_operations",
            Self::Waves => "waves",
        }
    }

    /// 0 to 1, and shown as per cent.
    pub fn is_share(self) -> bool {
        matches!(
            self,
            Self::TensorActive
                | Self::Fp32Active
                | Self::Fp64Active
                | Self::IntegerActive
                | Self::SpecialActive
                | Self::DramThroughput
                | Self::L2Throughput
                | Self::L1Throughput
                | Self::SharedThroughput
                | Self::L1HitRate
                | Self::L2HitRate
                | Self::AchievedOccupancy
                | Self::IssueActive
                | Self::SmActive
        )
    }

    pub fn is_bytes(self) -> bool {
        matches!(self, Self::DramBytes | Self::L2Bytes)
    }

    /// A machine that is kept busier is used better; work and waste are best small.
    pub fn larger_is_better(self) -> bool {
        self.is_share() || self == Self::EligibleWarps
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

impl fmt::Display for ProfileMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By its name, as gates.yaml and records have it.
macro_rules! by_name {
    ($of:ident, $what:literal) => {
        impl Serialize for $of {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl schemars::JsonSchema for $of {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($of).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::ALL.map(Self::name).to_vec() })
            }
        }

        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                let mut all = Self::ALL.into_iter();
                all.find(|it| it.name() == name).ok_or_else(|| {
                    serde::de::Error::custom(format_args!(concat!("`{}` is no ", $what), name))
                })
            }
        }
    };
}

by_name!(ProfileMetric, "metric of a profile");
by_name!(Stall, "reason for a stall");

/// Why a warp did not issue in a cycle, under the profiler's own names; and `Selected`, where it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stall {
    /// Waits for global, local or texture memory.
    LongScoreboard,
    /// Waits for shared memory, a transcendental function or the like.
    ShortScoreboard,
    Barrier,
    Membar,
    /// The queue of shared memory and special instructions is full.
    MioThrottle,
    /// The queue of local and global memory is full.
    LgThrottle,
    TexThrottle,
    /// The pipe that it needs is busy.
    MathPipeThrottle,
    /// A fixed latency between two instructions.
    Wait,
    /// It could issue, and another warp did.
    NotSelected,
    Selected,
    /// The instruction is not in the cache yet.
    NoInstruction,
    BranchResolving,
    DispatchStall,
    /// Ends, and its stores are still under way.
    Drain,
    /// A constant is not in the cache yet.
    ImcMiss,
    /// Waits for matrix products of a warp group.
    Gmma,
    WarpgroupArrive,
    Sleeping,
    Misc,
}

impl Stall {
    pub const ALL: [Self; 20] = [
        Self::LongScoreboard,
        Self::ShortScoreboard,
        Self::Barrier,
        Self::Membar,
        Self::MioThrottle,
        Self::LgThrottle,
        Self::TexThrottle,
        Self::MathPipeThrottle,
        Self::Wait,
        Self::NotSelected,
        Self::Selected,
        Self::NoInstruction,
        Self::BranchResolving,
        Self::DispatchStall,
        Self::Drain,
        Self::ImcMiss,
        Self::Gmma,
        Self::WarpgroupArrive,
        Self::Sleeping,
        Self::Misc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::LongScoreboard => "long_scoreboard",
            Self::ShortScoreboard => "short_scoreboard",
            Self::Barrier => "barrier",
            Self::Membar => "membar",
            Self::MioThrottle => "mio_throttle",
            Self::LgThrottle => "lg_throttle",
            Self::TexThrottle => "tex_throttle",
            Self::MathPipeThrottle => "math_pipe_throttle",
            Self::Wait => "wait",
            Self::NotSelected => "not_selected",
            Self::Selected => "selected",
            Self::NoInstruction => "no_instruction",
            Self::BranchResolving => "branch_resolving",
            Self::DispatchStall => "dispatch_stall",
            Self::Drain => "drain",
            Self::ImcMiss => "imc_miss",
            Self::Gmma => "gmma",
            Self::WarpgroupArrive => "warpgroup_arrive",
            Self::Sleeping => "sleeping",
            Self::Misc => "misc",
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One launch of a case under the profiler, on buffers prepared as for timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileFacts {
    /// `Nsight Compute 2025.3.1.0`. Part of the key of baselines: what a counter is called and counts may change.
    pub profiler: String,
    /// The profiler leaves clocks alone: `default`, or `locked` where application or locked clocks are set.
    pub clock_policy: String,
    /// Launches of the case before the one that was profiled.
    pub warmups: u32,
    /// In the order of their launch; more than one of a sequence, or of a launcher.
    pub kernels: Vec<KernelProfile>,
}

/// One kernel of the launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelProfile {
    /// As the profiler names it: the function's C++ name.
    pub entry: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// GPU time under the profiler, which runs a kernel alone and several times. Information only: no gate on
    /// a time rests on it.
    pub duration_ns: Num,
    /// SM clock meanwhile.
    pub sm_mhz: Option<Num>,
    /// Shares from 0 to 1. Every metric has an entry; one that the architecture lacks is unsupported.
    pub metrics: BTreeMap<ProfileMetric, Seen<Num>>,
    /// Cycles that a warp spends in each state for one instruction that it issues. Their sum is the latency
    /// between two instructions of a warp.
    pub stalls: BTreeMap<Stall, Num>,
    /// Instructions of warps that were executed, by their operation in machine code: `FFMA`, `LDG`.
    pub instructions: BTreeMap<String, u64>,
    /// The simulator's counters of PTX, here on machine code: sectors as the addresses ask for them, before L1. One
    /// that the profiler does not know is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Counter, u64>,
    /// In the order of the file; empty where the profiler knew no lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineProfile>,
}

/// The values at one source line of one kernel, all of its instructions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineProfile {
    /// `kernels/k.cu:12`.
    pub place: String,
    /// Instructions of warps that were executed.
    pub instructions: u64,
    /// Samples of warps by their state. Where the launch is short they are few.
    pub samples: BTreeMap<Stall, u64>,
    /// As of the kernel, and without those that are 0.
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
