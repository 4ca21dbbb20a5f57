//! New names for things that a change leaves as they were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name that changed. The base has `from` and no `to`, head has `to` and no `from`, and both have the same content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    pub item: RenamedItem,
    pub from: String,
    pub to: String,
}

/// The kind of thing that was renamed. A name is unique among all kernels, or in one kernel, which has head's name
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RenamedItem {
    Kernel,
    Variant { kernel: String },
    Shape { kernel: String },
    Tensor { kernel: String },
    Dimension { kernel: String },
}
