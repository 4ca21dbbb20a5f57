use super::Arch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kernel with one set of macro definitions, at one architecture: what nvcc builds.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct UnitId {
    pub kernel: String,
    pub variant: String,
    pub arch: Arch,
}

impl UnitId {
    pub fn new(kernel: impl Into<String>, variant: impl Into<String>, arch: Arch) -> Self {
        let (kernel, variant) = (kernel.into(), variant.into());
        Self {
            kernel,
            variant,
            arch,
        }
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} [{}]", self.kernel, self.variant, self.arch)
    }
}

/// Kernel x variant x shape, written `kernel/variant@shape`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct CaseId {
    pub kernel: String,
    pub variant: String,
    pub shape: String,
}

impl CaseId {
    pub fn new(
        kernel: impl Into<String>,
        variant: impl Into<String>,
        shape: impl Into<String>,
    ) -> Self {
        let (kernel, variant, shape) = (kernel.into(), variant.into(), shape.into());
        Self {
            kernel,
            variant,
            shape,
        }
    }

    pub fn unit(&self, arch: Arch) -> UnitId {
        UnitId::new(&self.kernel, &self.variant, arch)
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.kernel, self.variant, self.shape)
    }
}

/// The subject of a gate or a verdict.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Unit(UnitId),
    Case(CaseId),
}

impl Subject {
    pub fn kernel(&self) -> &str {
        match self {
            Self::Unit(unit) => &unit.kernel,
            Self::Case(case) => &case.kernel,
        }
    }

    pub fn variant(&self) -> &str {
        match self {
            Self::Unit(unit) => &unit.variant,
            Self::Case(case) => &case.variant,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(unit) => unit.fmt(f),
            Self::Case(case) => case.fmt(f),
        }
    }
}
