use super::{Counter, ProfileMetric};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// Defines the table of metrics. Each line has documentation, name, facet, unit, range and better direction.
macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $facet:ident, $measure:ident, $range:ident, $better:ident;)*) => {
        /// Everything that a limit can be put on. Serialised by its name, as in gates.yaml and in records.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[doc = $doc])* $variant,)*
            /// A count of one launch, by the simulator.
            Counter(Counter),
            /// A value of one launch, read by a profiler from the GPU's own counters.
            Profile(ProfileMetric),
        }

        impl Metric {
            const NAMED: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Counter(counter) => counter.name(),
                    Self::Profile(metric) => metric.name(),
                }
            }

            /// Returns the text that an editor shows for a limit on the metric.
            pub fn documentation(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)*).trim_ascii(),)*
                    Self::Counter(counter) => counter.documentation(),
                    Self::Profile(metric) => metric.documentation(),
                }
            }

            pub fn facet(self) -> Facet {
                match self {
                    $(Self::$variant => Facet::$facet,)*
                    Self::Counter(_) => Facet::Counters,
                    Self::Profile(_) => Facet::Profile,
                }
            }

            pub fn measure(self) -> Measure {
                match self {
                    $(Self::$variant => Measure::$measure,)*
                    Self::Counter(_) => Measure::Count,
                    Self::Profile(metric) => metric.measure(),
                }
            }

            /// Returns the values that the metric can have.
            pub fn range(self) -> Range {
                match self {
                    $(Self::$variant => Range::$range,)*
                    // A profiler reads the two sides of a share in several passes, so their quotient may be above 1.
                    Self::Counter(_) | Self::Profile(_) => Range::FROM_ZERO,
                }
            }

            /// Returns which change of a value is an improvement. The other is a regression.
            pub fn better(self) -> Better {
                match self {
                    $(Self::$variant => Better::$better,)*
                    Self::Counter(_) => Better::Smaller,
                    Self::Profile(metric) => metric.better(),
                }
            }
        }
    };
}

metrics! {
    /// Registers per thread, as PTXAS reports them.
    Registers = "registers", Resources, Count, REGISTERS, Smaller;
    /// Bytes: static shared memory of the cubin plus the dynamic shared memory of the launch.
    Shared = "shared", Resources, Bytes, FROM_ZERO, Smaller;
    /// Bytes of spill stores plus spill loads.
    Spills = "spills", Resources, Bytes, FROM_ZERO, Smaller;
    /// Bytes of stack frame (local memory per thread, whether or not anything was spilled).
    Stack = "stack", Resources, Bytes, FROM_ZERO, Smaller;
    /// Warps resident on one SM as a share (0 to 1) of the most that the architecture holds.
    Occupancy = "occupancy", Resources, Share, SHARE, Larger;
    /// Blocks that fit on one SM at a time.
    BlocksPerSm = "blocks_per_sm", Resources, Count, FROM_ZERO, Larger;
    /// Bytes of machine code of a kernel in a compiled file (`binaries`).
    Code = "code", Resources, Bytes, FROM_ZERO, Smaller;
    /// Instructions of a kernel in a compiled file (`binaries`) that load or store local memory.
    LocalAccesses = "local_accesses", Resources, Count, FROM_ZERO, Smaller;
    /// Kernels that a compiled file (`binaries`) has for an architecture.
    Count = "count", Resources, Count, FROM_ZERO, Smaller;
    /// Largest |got - want| against the FP32 reference over the inputs as the kernel sees them
    /// (dequantised where they have a codec).
    MaxErr = "max_err", Correctness, Output, FROM_ZERO, Smaller;
    /// Mean |got - want| over the elements that are compared.
    MeanErr = "mean_err", Correctness, Output, FROM_ZERO, Smaller;
    /// ||got - want|| / ||want||, both in f64.
    RelL2 = "rel_l2", Correctness, Share, FROM_ZERO, Smaller;
    /// Share (0 to 1) of elements beyond the `max_err` limit.
    OverTolerance = "over_tolerance", Correctness, Share, SHARE, Smaller;
    /// As `max_err`, against the reference over the inputs before quantisation.
    OriginalMaxErr = "original_max_err", Correctness, Output, FROM_ZERO, Smaller;
    /// As `mean_err`, against the reference over the inputs before quantisation.
    OriginalMeanErr = "original_mean_err", Correctness, Output, FROM_ZERO, Smaller;
    /// The error of exact arithmetic on the quantised inputs against the original inputs: the share of
    /// `original_max_err` that no kernel can avoid.
    CodecMaxErr = "codec_max_err", Correctness, Output, FROM_ZERO, Smaller;
    /// As `codec_max_err`, the mean over the elements.
    CodecMeanErr = "codec_mean_err", Correctness, Output, FROM_ZERO, Smaller;
    /// Median time of one launch in ns.
    P50 = "p50", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// 90th percentile of samples of one launch each, in ns.
    P90 = "p90", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// 99th percentile of samples of one launch each, in ns.
    P99 = "p99", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// Mean time of one launch over batched samples, in ns.
    Mean = "mean", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// Least time of one launch over batched samples, in ns.
    Min = "min", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// Largest time of one launch over batched samples, in ns.
    Max = "max", Times, Nanoseconds, FROM_ZERO, Smaller;
    /// SM clock cycles of one launch: p50 times the SM clock that was measured right before and right after.
    /// A GPU's clock wanders by several per cent between processes; the cycles of a kernel that is bound by
    /// its SMs do not. For a kernel bound by device memory, whose clock stands still, p50 is the steadier.
    Cycles = "cycles", Times, Count, FROM_ZERO, Smaller;
    /// Standard deviation over mean of samples of one launch each (0 to 1).
    Cv = "cv", Times, Share, FROM_ZERO, Smaller;
    /// Share (0 to 1) of single launches in the slower of two modes; 0 where there is one mode.
    SlowShare = "slow_share", Times, Share, SHARE, Smaller;
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

named! {
/// The kind of evidence that a metric comes from, and so which baseline file holds it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Facet {
    Resources = "resources",
    Correctness = "correctness",
    Times = "times",
    Counters = "counters",
    Profile = "profile",
}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Count,
    Bytes,
    /// A share from 0 to 1, shown as a percentage.
    Share,
    /// A value in the unit of the kernel's output.
    Output,
    Nanoseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Smaller,
    Larger,
}

/// The values that a metric can have. NaN is not among them, and is a value that no limit allows.
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
    /// Eight bits of an instruction name a register, and one of their values stands for none.
    const REGISTERS: Self = Self {
        least: 0.0,
        most: 255.0,
    };

    /// Returns true if a run can have observed the value. Both ends are included, and NaN is not.
    pub fn contains(self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

impl Metric {
    const COUNTED: usize = Self::NAMED.len() + Counter::ALL.len();

    /// All metrics. Counters of the simulator follow the others, and metrics of a profile come last.
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

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns true if the metric comes from samples of one launch each, because batches hide tails and modes.
    pub fn uses_single_launches(self) -> bool {
        matches!(self, Self::P90 | Self::P99 | Self::Cv | Self::SlowShare)
    }

    /// Returns the least number of samples in one process. With fewer, a quantile would be just their maximum.
    pub fn least_singles(self) -> u32 {
        match self {
            Self::P90 => 10,
            Self::P99 => 100,
            Self::Cv => 2,
            _ => 0,
        }
    }

    /// Returns true if a relative change of the metric says anything. It does not for a share that is mostly 0.
    pub fn has_relative(self) -> bool {
        self != Self::SlowShare
    }

    /// Returns true if a limit can say how many more are allowed (`+2`): the metric is a whole number that repeats
    /// exactly.
    pub fn has_amounts(self) -> bool {
        let is_exact = matches!(self.facet(), Facet::Resources | Facet::Counters);
        is_exact && matches!(self.measure(), Measure::Count | Measure::Bytes)
    }

    /// Returns true if only a compiled file has the metric.
    pub fn is_of_files(self) -> bool {
        matches!(self, Self::Code | Self::LocalAccesses | Self::Count)
    }

    /// Returns true if a rival's samples give the metric, too.
    pub fn has_rival(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P90 | Self::P99 | Self::Mean | Self::Min | Self::Max | Self::Cv
        )
    }

    pub fn larger_is_better(self) -> bool {
        self.better() == Better::Larger
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
