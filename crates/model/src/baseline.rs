//! Values that a team committed, with the key under which they are valid.

use super::{Arch, CaseId, Facet, KeyField, Metric, Mode, Num};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const BASELINE_SCHEMA: &str = "gatekeeper.baseline/1";

/// One file: one kernel, variant and key. Two branches that update two variants touch two files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub schema: String,
    pub kernel: String,
    pub variant: String,
    pub key: BaselineKey,
    pub origin: Origin,
    /// The values by shape. Resources belong to no shape and are under `*`.
    pub cases: BTreeMap<String, BTreeMap<Metric, Agreed>>,
}

impl Baseline {
    /// Returns true if this baseline has times of the kernel and variant of a case. Its shape is not compared.
    pub fn holds_times_of(&self, case: &CaseId) -> bool {
        self.key.facet() == Facet::Times
            && (&self.kernel, &self.variant) == (&case.kernel, &case.variant)
    }
}

/// The properties that must be equal for a comparison to mean anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BaselineKey {
    Resources {
        arch: Arch,
        compiler: String,
        flags: String,
    },
    Correctness {
        arch: Arch,
        compiler: String,
        flags: String,
    },
    /// Errors that the simulator saw. It sums the products of a matrix instruction exactly, which a GPU does not do, so
    /// the two are never compared.
    SimulatedCorrectness {
        arch: Arch,
        compiler: String,
        flags: String,
    },
    Counters {
        arch: Arch,
        compiler: String,
        flags: String,
        /// The counter model of the simulator (`Simulator::counter_model`).
        model: u32,
    },
    Times {
        gpu: String,
        driver_branch: String,
        clock_policy: String,
        protocol: u32,
        mode: Mode,
        compiler: String,
        flags: String,
    },
    Profile {
        gpu: String,
        driver_branch: String,
        clock_policy: String,
        /// The name of the profiler with its version.
        profiler: String,
        compiler: String,
        flags: String,
    },
}

impl BaselineKey {
    pub fn facet(&self) -> Facet {
        match self {
            Self::Resources { .. } => Facet::Resources,
            Self::Correctness { .. } | Self::SimulatedCorrectness { .. } => Facet::Correctness,
            Self::Counters { .. } => Facet::Counters,
            Self::Times { .. } => Facet::Times,
            Self::Profile { .. } => Facet::Profile,
        }
    }

    /// Returns the architecture that the code was compiled for. Times and profiles belong to the code that ran.
    pub fn arch(&self) -> Option<Arch> {
        match self {
            Self::Resources { arch, .. }
            | Self::Correctness { arch, .. }
            | Self::SimulatedCorrectness { arch, .. }
            | Self::Counters { arch, .. } => Some(*arch),
            Self::Times { .. } | Self::Profile { .. } => None,
        }
    }

    /// Returns the GPU that measured the values.
    pub fn gpu(&self) -> Option<&str> {
        match self {
            Self::Times { gpu, .. } | Self::Profile { gpu, .. } => Some(gpu),
            Self::Resources { .. }
            | Self::Correctness { .. }
            | Self::SimulatedCorrectness { .. }
            | Self::Counters { .. } => None,
        }
    }

    /// Returns the flags for nvcc, joined by spaces.
    pub fn flags(&self) -> &str {
        match self {
            Self::Resources { flags, .. }
            | Self::Correctness { flags, .. }
            | Self::SimulatedCorrectness { flags, .. }
            | Self::Counters { flags, .. }
            | Self::Times { flags, .. }
            | Self::Profile { flags, .. } => flags,
        }
    }

    /// Returns the fields as text, in the order in which a difference is listed.
    pub fn fields(&self) -> Vec<(KeyField, String)> {
        let on_gpu = |gpu: &String, driver_branch: &String, clock_policy: &String| {
            vec![
                (KeyField::Gpu, gpu.clone()),
                (KeyField::DriverBranch, driver_branch.clone()),
                (KeyField::ClockPolicy, clock_policy.clone()),
            ]
        };
        let (mut fields, compiler) = match self {
            Self::Resources { arch, compiler, .. }
            | Self::Correctness { arch, compiler, .. }
            | Self::SimulatedCorrectness { arch, compiler, .. }
            | Self::Counters { arch, compiler, .. } => {
                (vec![(KeyField::Architecture, arch.to_string())], compiler)
            }
            Self::Times {
                gpu,
                driver_branch,
                clock_policy,
                protocol,
                mode,
                compiler,
                ..
            } => {
                let mut fields = on_gpu(gpu, driver_branch, clock_policy);
                fields.push((KeyField::TimingProtocol, protocol.to_string()));
                fields.push((KeyField::Mode, mode.to_string()));
                (fields, compiler)
            }
            Self::Profile {
                gpu,
                driver_branch,
                clock_policy,
                profiler,
                compiler,
                ..
            } => {
                let mut fields = on_gpu(gpu, driver_branch, clock_policy);
                fields.push((KeyField::Profiler, profiler.clone()));
                (fields, compiler)
            }
        };
        fields.push((KeyField::Compiler, compiler.clone()));
        fields.push((KeyField::Flags, self.flags().to_owned()));
        if let Self::Counters { model, .. } = self {
            fields.push((KeyField::CounterModel, model.to_string()));
        }
        fields
    }

    /// Returns the key without what built the kernel.
    #[must_use]
    pub fn without_build(&self) -> Self {
        self.built_by("", "")
    }

    /// Returns the key for another compiler and other flags.
    #[must_use]
    pub fn built_by(&self, other_compiler: &str, other_flags: &str) -> Self {
        let mut key = self.clone();
        match &mut key {
            Self::Resources {
                compiler, flags, ..
            }
            | Self::Correctness {
                compiler, flags, ..
            }
            | Self::SimulatedCorrectness {
                compiler, flags, ..
            }
            | Self::Counters {
                compiler, flags, ..
            }
            | Self::Times {
                compiler, flags, ..
            }
            | Self::Profile {
                compiler, flags, ..
            } => {
                other_compiler.clone_into(compiler);
                other_flags.clone_into(flags);
            }
        }
        key
    }
}

/// The run of the latest update. Cases that it did not measure have older values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The seal of the record that it came from.
    pub record: String,
    /// The date of the run: RFC 3339, UTC.
    pub date: String,
    pub gatekeeper: String,
    /// `NVIDIA H100 80GB HBM3, driver 580.159.04`, `simulator`, or `no device`.
    pub device: String,
    /// Commit of the tree that was measured, with `+` if it had changes; `None` outside git.
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agreed {
    pub value: Num,
    /// For times: standard deviation of ln(value) between processes, and how many there were. For profiles: by how
    /// much repeats differed at most, in the metric's unit, and how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Num>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// For times: the sessions that `value` is the geometric mean of. `spread` and `processes` are those of
    /// the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
}

/// Measurements of one code on several days or GPUs of one model. These differ by more than the processes of one of
/// them do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// The identity of the code, launch and arguments that all sessions measured.
    pub identity: String,
    /// The value of each, by its day (UTC) and the UUID of its GPU: `2026-11-21 GPU-0`. At least one.
    pub seen: BTreeMap<String, Num>,
    /// The noise between sessions of earlier code under the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Noise>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation of ln(value) between sessions.
    pub deviation: Num,
    /// Degrees of freedom of the estimate: the number of sessions, less one for each code.
    pub freedom: u32,
}

/// A value of a baseline file that is worse in head's version than in the base's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct EditedFigure {
    pub metric: Metric,
    pub edit: FigureEdit,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum FigureEdit {
    Removed,
    Worse {
        was: Num,
        now: Num,
    },
    /// The value stays, and its spread grows.
    Wider,
}
