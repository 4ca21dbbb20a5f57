//! Attempts to pass without having been compared, or to be failed without a fault, each with what stops it. A file
//! for each way in. The attempts of an issue itself are tested next to what they attack; these are in other forms.
#![allow(clippy::unwrap_used, reason = "tests")]

/// A record, a baseline or a base that says less than a judgement needs.
mod absent_comparisons;
/// Bulk copies whose data is used, or whose source changes, too early.
mod bulk_copies;
/// A program of the checkout that would run before it is confined.
mod checkout_programs;
/// A base that is built or computed from files of the head.
mod files_of_head;
/// Steps, tensors and sources in gates.yaml.
mod gates_files;
/// A kernel whose output depends on what ran before it, or on which hardware unit ran it.
mod launch_state;
/// Accesses of one warp: what races and what does not.
mod races;
/// A change of names alone, and a change that pretends to be one.
mod renames;
/// Textures, surfaces, managed variables and newer PTX in the simulator.
mod textures;
