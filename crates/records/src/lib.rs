//! Reads and writes records and baselines on disk, their history in git, and the parts of a run in shards.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod history;
pub mod repo;
pub mod shard;
pub mod store;
