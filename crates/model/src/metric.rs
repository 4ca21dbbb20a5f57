use super::{Counter, ProfileMetric};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// Everything that a limit can be put on. Serialised by its name, as in gates.yaml and in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Registers per thread, as PTXAS reports them.
    Registers,
    /// Bytes: static shared memory of the cubin plus the dynamic shared memory of the launch.
    Shared,
    /// Bytes of spill stores plus spill loads.
    Spills,
    /// Bytes of stack frame (local memory per thread, whether or not anything was spilled).
    Stack,
    /// Warps resident on one SM as a share (0 to 1) of the most that the architecture holds.
    Occupancy,
    /// Blocks resident on one SM.
    BlocksPerSm,
    /// Largest |got - want| against the FP32 reference over the inputs as the kernel sees them
    /// (dequantised where they have a codec).
    MaxErr,
    MeanErr,
    /// ||got - want|| / ||want||, both in f64.
    RelL2,
    /// Share (0 to 1) of elements beyond the `max_err` limit.
    OverTolerance,
    /// As `max_err`, against the reference over the inputs before quantisation.
    OriginalMaxErr,
    OriginalMeanErr,
    /// What exact arithmetic on the quantised inputs errs by against the original inputs: the share of
    /// `original_max_err` that no kernel can avoid.
    CodecMaxErr,
    CodecMeanErr,
    /// Median time of one launch in ns.
    P50,
    P90,
    P99,
    Mean,
    Min,
    Max,
    /// SM clock cycles of one launch: p50 times the SM clock that was measured right before and right after.
    /// A GPU's clock wanders by several per cent between processes; the cycles of a kernel that is bound by
    /// its SMs do not. For a kernel bound by device memory, whose clock stands still, p50 is the steadier.
    Cycles,
    /// Standard deviation over mean of samples of one launch each (0 to 1).
    Cv,
    /// Share (0 to 1) of single launches in the slower of two modes; 0 where there is one mode.
    SlowShare,
    /// Of one launch, counted by the simulator.
    Counter(Counter),
    /// Of one launch, read by a profiler from the GPU's own counters.
    Profile(ProfileMetric),
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for Metric {
    fn schema_name() -> Cow<'static, str> {
        "Metric".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::ALL.map(Self::name).to_vec() })
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_name(&name)
            .ok_or_else(|| de::Error::custom(format_args!("`{name}` is no metric")))
    }
}

/// What kind of evidence a metric comes from, and so which baseline file holds it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Facet {
    Resources,
    Correctness,
    Times,
    Counters,
    Profile,
}

impl Facet {
    pub const ALL: [Self; 5] = [
        Self::Resources,
        Self::Correctness,
        Self::Times,
        Self::Counters,
        Self::Profile,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Count,
    Bytes,
    /// 0 to 1, shown as per cent.
    Share,
    /// In the unit of the kernel's output.
    Output,
    Nanoseconds,
}

/// The values that a metric can have at all. NaN is none of them, and is a value: no limit holds for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub least: f64,
    pub most: f64,
}

impl Range {
    const FROM_ZERO: Self = Self {
        least: 0.0,
        most: f64::INFINITY,
    };
    const SHARE: Self = Self {
        least: 0.0,
        most: 1.0,
    };

    pub fn contains(self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

impl Metric {
    const NAMED: [Self; 23] = [
        Self::Registers,
        Self::Shared,
        Self::Spills,
        Self::Stack,
        Self::Occupancy,
        Self::BlocksPerSm,
        Self::MaxErr,
        Self::MeanErr,
        Self::RelL2,
        Self::OverTolerance,
        Self::OriginalMaxErr,
        Self::OriginalMeanErr,
        Self::CodecMaxErr,
        Self::CodecMeanErr,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::Mean,
        Self::Min,
        Self::Max,
        Self::Cycles,
        Self::Cv,
        Self::SlowShare,
    ];

    const COUNTED: usize = Self::NAMED.len() + Counter::ALL.len();

    /// Counters of the simulator come behind, and those of a profile last.
    pub const ALL: [Self; Self::COUNTED + ProfileMetric::ALL.len()] = {
        let mut all = [Self::Registers; Self::COUNTED + ProfileMetric::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = if at < Self::NAMED.len() {
                Self::NAMED[at]
            } else if at < Self::COUNTED {
                Self::Counter(Counter::ALL[at - Self::NAMED.len()])
            } else {
                Self::Profile(ProfileMetric::ALL[at - Self::COUNTED])
            };
            at += 1;
        }
        all
    };

    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Shared => "shared",
            Self::Spills => "spills",
            Self::Stack => "stack",
            Self::Occupancy => "occupancy",
            Self::BlocksPerSm => "blocks_per_sm",
            Self::MaxErr => "max_err",
            Self::MeanErr => "mean_err",
            Self::RelL2 => "rel_l2",
            Self::OverTolerance => "over_tolerance",
            Self::OriginalMaxErr => "original_max_err",
            Self::OriginalMeanErr => "original_mean_err",
            Self::CodecMaxErr => "codec_max_err",
            Self::CodecMeanErr => "codec_mean_err",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Cycles => "cycles",
            Self::Cv => "cv",
            Self::SlowShare => "slow_share",
            Self::Counter(counter) => counter.name(),
            Self::Profile(metric) => metric.name(),
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Of samples of one launch each: batches hide tails and modes.
    pub fn of_single_launches(self) -> bool {
        matches!(self, Self::P90 | Self::P99 | Self::Cv | Self::SlowShare)
    }

    /// Of one process: of fewer, a quantile would be their maximum by another name.
    pub fn least_singles(self) -> u32 {
        match self {
            Self::P90 => 10,
            Self::P99 => 100,
            Self::Cv => 2,
            _ => 0,
        }
    }

    pub fn facet(self) -> Facet {
        match self {
            Self::Registers
            | Self::Shared
            | Self::Spills
            | Self::Stack
            | Self::Occupancy
            | Self::BlocksPerSm => Facet::Resources,
            Self::MaxErr
            | Self::MeanErr
            | Self::RelL2
            | Self::OverTolerance
            | Self::OriginalMaxErr
            | Self::OriginalMeanErr
            | Self::CodecMaxErr
            | Self::CodecMeanErr => Facet::Correctness,
            Self::P50
            | Self::P90
            | Self::P99
            | Self::Mean
            | Self::Min
            | Self::Max
            | Self::Cycles
            | Self::Cv
            | Self::SlowShare => Facet::Times,
            Self::Counter(_) => Facet::Counters,
            Self::Profile(_) => Facet::Profile,
        }
    }

    pub fn measure(self) -> Measure {
        match self {
            Self::Registers | Self::BlocksPerSm | Self::Cycles | Self::Counter(_) => Measure::Count,
            Self::Shared | Self::Spills | Self::Stack => Measure::Bytes,
            Self::Profile(metric) if metric.is_share() => Measure::Share,
            Self::Profile(metric) if metric.is_bytes() => Measure::Bytes,
            Self::Profile(_) => Measure::Count,
            Self::Occupancy | Self::OverTolerance | Self::Cv | Self::SlowShare | Self::RelL2 => {
                Measure::Share
            }
            Self::MaxErr
            | Self::MeanErr
            | Self::OriginalMaxErr
            | Self::OriginalMeanErr
            | Self::CodecMaxErr
            | Self::CodecMeanErr => Measure::Output,
            Self::P50 | Self::P90 | Self::P99 | Self::Mean | Self::Min | Self::Max => {
                Measure::Nanoseconds
            }
        }
    }

    /// The values that it can have.
    pub fn range(self) -> Range {
        match self {
            // Eight bits of an instruction name a register, and one of the values is none.
            Self::Registers => Range {
                most: 255.0,
                ..Range::FROM_ZERO
            },
            Self::Occupancy | Self::OverTolerance | Self::SlowShare => Range::SHARE,
            // A profiler reads the two sides of a share in several passes, and their quotient may be above 1.
            Self::Profile(_) => Range::FROM_ZERO,
            Self::Shared
            | Self::Spills
            | Self::Stack
            | Self::BlocksPerSm
            | Self::MaxErr
            | Self::MeanErr
            | Self::RelL2
            | Self::OriginalMaxErr
            | Self::OriginalMeanErr
            | Self::CodecMaxErr
            | Self::CodecMeanErr
            | Self::P50
            | Self::P90
            | Self::P99
            | Self::Mean
            | Self::Min
            | Self::Max
            | Self::Cycles
            | Self::Cv
            | Self::Counter(_) => Range::FROM_ZERO,
        }
    }

    /// Whether a change relative to what was agreed says anything; not of a share that is mostly 0.
    pub fn has_relative(self) -> bool {
        self != Self::SlowShare
    }

    /// Whether a rival's samples give it, too.
    pub fn has_rival(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P90 | Self::P99 | Self::Mean | Self::Min | Self::Max | Self::Cv
        )
    }

    /// Whether a larger value is the better one. Decides which direction is a regression.
    pub fn larger_is_better(self) -> bool {
        match self {
            Self::Profile(metric) => metric.larger_is_better(),
            _ => matches!(self, Self::Occupancy | Self::BlocksPerSm),
        }
    }
}

impl From<Counter> for Metric {
    fn from(counter: Counter) -> Self {
        Self::Counter(counter)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Resources => "resources",
            Self::Correctness => "correctness",
            Self::Times => "times",
            Self::Counters => "counters",
            Self::Profile => "profile",
        })
    }
}
