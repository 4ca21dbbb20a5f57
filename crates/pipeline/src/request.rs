//! The request for a run, and the change that it is about.

use crate::shard::AskedShard;
use build::toolchain::Choice;
use config::{BinaryGates, Loaded, Program};
use model::{Anchor, Base, Checkout};
use run::device::DeviceChoice;
use std::any::Any;
use std::path::{Path, PathBuf};

/// The request to `run`.
#[derive(Debug)]
pub struct Request {
    pub config: PathBuf,
    pub device: DeviceChoice,
    pub require_gpu: bool,
    pub allow_fallback: bool,
    pub provision: bool,
    pub profile: Profile,
    pub dump: Option<PathBuf>,
    /// Simulate also what an earlier run has simulated.
    pub fresh: bool,
    /// On a machine with a GPU, simulate as well: a GPU shows neither races nor stray reads.
    pub simulate_beside_gpu: bool,
    /// Against a base: time the cases that did not change, too.
    pub time_unchanged: bool,
    /// Times all rivals, and not only those that a gate names.
    pub rivals: bool,
    /// Where a part of the cases is run.
    pub shard: Option<AskedShard>,
    /// The command line, for the record.
    pub command: String,
}

impl Request {
    /// Returns a request that asks for nothing more than correctness, counters and times.
    pub fn new(config: &Path, device: DeviceChoice, provision: bool, command: String) -> Self {
        Self {
            config: config.to_owned(),
            device,
            require_gpu: false,
            allow_fallback: false,
            provision,
            profile: Profile::No,
            dump: None,
            fresh: false,
            simulate_beside_gpu: false,
            time_unchanged: false,
            rivals: false,
            shard: None,
            command,
        }
    }
}

/// The change to build, check, measure and judge: two sides, or head alone. Where they come from is not known here; the
/// program's `revisions` makes a change from git.
pub struct Change {
    /// Files and what they ask, as they are.
    pub head: Loaded,
    /// For the record: head's commit, a digest of its files, and what people call both.
    pub commit: Option<String>,
    pub sources: Option<String>,
    pub checkout: Checkout,
    /// Older baselines that gates of head name.
    pub anchors: Vec<Anchor>,
    /// The compiler that builds head.
    pub compiler: Choice,
    pub base: Option<BaseSide>,
}

/// The side that head is held against.
pub struct BaseSide {
    /// Plan, gates and baselines, under head's names.
    pub spec: Base,
    /// The limits on compiled files that it asks for.
    pub binaries: Vec<BinaryGates>,
    /// The programs that its gates.yaml has.
    pub programs: Vec<Program>,
    /// The compiler that builds it.
    pub compiler: Choice,
    /// The directory of its gates.yaml.
    pub root: PathBuf,
    /// `None` where it is made of head's own files.
    pub file_isolation: Option<FileIsolation>,
    /// Keeps its files where they are.
    pub files: Box<dyn Any + Send + Sync>,
}

/// The tree of a base that has one of its own.
pub struct FileIsolation {
    /// The whole tree.
    pub top: PathBuf,
    /// Head's whole tree, which the base may not read, and the files in it.
    pub head_top: PathBuf,
    pub head_files: Vec<PathBuf>,
}

/// Whether cases are profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    No,
    /// After all timings.
    Too,
    /// In the place of timings.
    Only,
}
