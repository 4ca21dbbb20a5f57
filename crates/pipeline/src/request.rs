//! The request for a run, and the change that it is about.

use crate::shard::AskedShard;
use build::toolchain::Choice;
use config::{BinaryGates, Loaded, Program};
use model::{Anchor, Base, Checkout};
use run::device::DeviceChoice;
use std::any::Any;
use std::path::{Path, PathBuf};

/// The request for one run of a change.
#[derive(Debug)]
pub struct Request {
    pub config: PathBuf,
    pub device: DeviceChoice,
    pub require_gpu: bool,
    pub allow_fallback: bool,
    pub provision: bool,
    pub profile: Profile,
    pub dump: Option<PathBuf>,
    /// True if results of earlier runs are simulated again.
    pub fresh: bool,
    /// True if a machine with a GPU simulates as well, because a GPU shows neither races nor stray reads.
    pub simulate_beside_gpu: bool,
    /// Against a base: true if cases that did not change are timed, too.
    pub time_unchanged: bool,
    /// True if all rivals are timed, and not only those that a gate names.
    pub rivals: bool,
    /// The shard, if only a part of the cases is run.
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

/// The change to build, check, measure and judge: two sides, or head alone. This crate does not know where they come
/// from; the program's `revisions` makes a change from git.
pub struct Change {
    /// Head's files, and what they ask.
    pub head: Loaded,
    /// Head's commit, a digest of its files, and the names that people have for both, for the record.
    pub commit: Option<String>,
    pub sources: Option<String>,
    pub checkout: Checkout,
    /// Older baselines that gates of head name.
    pub anchors: Vec<Anchor>,
    /// The compiler that head is built with.
    pub compiler: Choice,
    pub base: Option<BaseSide>,
}

/// The side that head is compared with.
pub struct BaseSide {
    /// Its plan, gates and baselines, with head's names.
    pub spec: Base,
    /// The limits on compiled files that it asks for.
    pub binaries: Vec<BinaryGates>,
    /// The programs that its gates.yaml has.
    pub programs: Vec<Program>,
    /// The compiler that the base is built with.
    pub compiler: Choice,
    /// The directory that holds its gates.yaml.
    pub root: PathBuf,
    /// The separation of its files from head's. `None` if it is made from head's own files.
    pub file_isolation: Option<FileIsolation>,
    /// A guard that keeps its files in place.
    pub files: Box<dyn Any + Send + Sync>,
}

/// The tree of a base that has one of its own.
pub struct FileIsolation {
    /// The top of the whole tree.
    pub top: PathBuf,
    /// The top of head's tree, which the base may not read, and the files in it.
    pub head_top: PathBuf,
    pub head_files: Vec<PathBuf>,
}

/// The cases that are profiled, and the time at which that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    No,
    /// They are profiled after all timings.
    Too,
    /// They are profiled instead of timed.
    Only,
}
