//! Attempts to pass without having been compared, or to be failed without a fault, each with what stops it. A file
//! for each way in. The attempts of an issue itself are tested next to what they attack; these are in other forms.
#![allow(clippy::unwrap_used, reason = "tests")]

/// A record, a baseline or a base that says less than a judgement needs.
mod absent_comparisons;
/// A kernel that is right for the data of gates.yaml's seeds alone.
mod drawn_seeds;
/// Steps, tensors and sources in gates.yaml.
mod gates_files;
/// A change of names alone, and a change that pretends to be one.
mod renames;
