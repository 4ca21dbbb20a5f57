//! Tests the program as a person or a workflow sees it: the real binary from end to end, with its exit codes. All tests
//! are one binary, because every further one would link the whole program again.
//!
//! `cargo test --test it records::` runs the tests of one file.

mod absent_comparisons;
mod action;
mod assembled;
mod binaries;
mod bisect;
mod browser;
mod captures;
mod cases;
mod cli;
mod common;
mod compare;
mod diagnosis;
mod docs;
mod doctor;
mod drivers;
mod examples;
mod explain;
mod explain_command;
mod gpu;
mod gpus;
mod history;
mod hostile;
mod init;
mod interrupted;
mod launch_state;
mod logging;
mod matching;
mod measure;
mod modules;
mod nvbench;
mod out;
mod pages;
mod pipelines;
mod problems;
mod python;
mod recipes;
mod records;
mod reference;
mod regressions;
mod reused;
mod sequence;
mod shards;
mod simulator;
mod slurm;
mod toolchains;
mod tune;
mod tutorial;
mod watch;
