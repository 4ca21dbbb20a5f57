//! The program as a person or a workflow sees it: the real binary, end to end, with its exit codes. All tests are one
//! binary, because every further one links the whole program again.
//!
//! `cargo test --test it records::` runs the tests of one file.

mod accepted;
mod action;
mod anchors;
mod attempts;
mod binaries;
mod browser;
mod calibrate;
mod changed;
mod changes;
mod cli;
mod common;
mod compare;
mod constants;
mod diagnosis;
mod docs;
mod doctor;
mod drivers;
mod edits;
mod examples;
mod explain;
mod explain_command;
mod gated_files;
mod gpu;
mod gpus;
mod history;
mod hostile;
mod init;
mod interrupted;
mod launch_state;
mod loosened;
mod matching;
mod micro;
mod modules;
mod nvbench;
mod pages;
mod pipelines;
mod problems;
mod recipes;
mod records;
mod reference;
mod regressions;
mod reused;
mod sequence;
mod shards;
mod simulator;
mod slurm;
mod sources;
mod standings;
mod toolchains;
mod tune;
mod tutorial;
mod upgrades;
mod watch;
