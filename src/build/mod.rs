//! Artifacts that kernels are built into.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a worker loads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Artifact {
    Cubin {
        path: PathBuf,
        /// Mangled name of the entry.
        symbol: String,
    },
    Launcher {
        library: PathBuf,
        /// `extern "C" int f(void** args)`: `args[i]` points to the value of the i-th argument, the stream
        /// included. Zero means that everything was launched.
        function: String,
        /// (name as declared, symbol in the device code) of each entry that it declares.
        entries: Vec<(String, String)>,
    },
}
