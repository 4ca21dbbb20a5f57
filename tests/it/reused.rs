//! Tests that a run without a GPU simulates only what no earlier run has simulated, and that its record says which
//! results it reused.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, copies, edit, fresh_cache, gatekeeper, gates_that_failed, git, stderr};
use model::{Evidence, Record};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Runs in the simulator with this cache, and returns the record.
fn run(dir: &Path, cache: &Path, args: &[&str], code: i32) -> Record {
    let mut run = gatekeeper();
    run.current_dir(dir).env("GATEKEEPER_CACHE", cache);
    run.args(["run", "--provision", "--device", "sim"]);
    let output = run.args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    records::store::read_record(&dir.join(RECORD)).unwrap()
}

/// Returns the kernel and the seed of each reused result, with the start of the run that simulated it.
fn reused(record: &Record) -> BTreeSet<(String, u64, String)> {
    record
        .evidence
        .iter()
        .filter_map(|piece| match piece {
            Evidence::Reused {
                case, seed, since, ..
            } => Some((case.kernel.clone(), *seed, since.clone())),
            _ => None,
        })
        .collect()
}

/// Returns the results as JSON, which is exact to the bit, without the notes on what was reused.
fn observed(record: &Record) -> Vec<String> {
    record
        .evidence
        .iter()
        .filter(|piece| !matches!(piece, Evidence::Reused { .. }))
        .map(|piece| serde_json::to_string(piece).unwrap())
        .collect()
}

/// Makes a project with a correct kernel, and with one in which threads store different values in one place, which
/// changes no output.
fn right_and_racy() -> tempfile::TempDir {
    let racy = "__shared__ float s[64]; s[threadIdx.x] = v; __syncthreads(); s[threadIdx.x & 1] = v; \
                __syncthreads(); const float w = s[threadIdx.x]; y[i] = v + (w - w);";
    let dir = copies(&[("right", "", "y[i] = v;"), ("racy", "", racy)]);
    let source = dir.path().join("k.cu");
    fs::copy(&source, dir.path().join("racy.cu")).unwrap();
    let gates = dir.path().join("gates.yaml");
    edit(
        &gates,
        "  racy:\n    source: k.cu",
        "  racy:\n    source: racy.cu",
    );
    dir
}

#[test]
fn results_of_an_earlier_run_are_the_same_to_the_bit() {
    let cache = fresh_cache("reused");
    let project = right_and_racy();
    let (dir, cache) = (project.path(), cache.path());
    let first = run(dir, cache, &[], 1);
    let failed = gates_that_failed(dir);
    assert_eq!(failed, ["memory and races"]);
    assert!(reused(&first).is_empty());

    let second = run(dir, cache, &[], 1);
    let since = &first.environment.started;
    let expected = [("racy", 1), ("racy", 2), ("right", 1), ("right", 2)];
    let expected = expected.map(|(kernel, seed)| (kernel.to_owned(), seed, since.clone()));
    assert_eq!(reused(&second), BTreeSet::from(expected));
    assert_eq!(observed(&second), observed(&first));
    assert_eq!(gates_that_failed(dir), failed);
    assert_eq!((first.costs.workers > 0, second.costs.workers), (true, 0));

    let fresh = run(dir, cache, &["--fresh"], 1);
    assert!(reused(&fresh).is_empty() && fresh.costs.workers > 0);
    assert_eq!(observed(&fresh), observed(&first));

    // Incomplete entries do not count.
    for entry in fs::read_dir(cache.join("simulated")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let after_damage = run(dir, cache, &[], 1);
    assert!(reused(&after_damage).is_empty());
    assert_eq!(observed(&after_damage), observed(&first));
}

#[test]
fn only_the_cases_of_an_edited_kernel_are_simulated_again() {
    let cache = fresh_cache("reused");
    let project = right_and_racy();
    let (dir, cache) = (project.path(), cache.path());
    run(dir, cache, &[], 1);
    let gate = "    gates: {max_err: 0}\n";
    // With another limit, the same result is judged again.
    edit(
        &dir.join("gates.yaml"),
        gate,
        "    gates: {max_err: 0, registers: 64}\n",
    );
    let kernels = |record: &Record| -> Vec<String> {
        reused(record)
            .into_iter()
            .map(|(kernel, seed, _)| format!("{kernel} {seed}"))
            .collect()
    };
    let both = ["racy 1", "racy 2", "right 1", "right 2"];
    assert_eq!(kernels(&run(dir, cache, &[], 1)), both);
    edit(
        &dir.join("racy.cu"),
        "s[threadIdx.x & 1] = v",
        "s[threadIdx.x] = v",
    );
    assert_eq!(kernels(&run(dir, cache, &[], 0)), ["right 1", "right 2"]);
    // Only a launch can make the requested file.
    assert_eq!(kernels(&run(dir, cache, &["--dump", "dump"], 0)), [""; 0]);
    assert!(dir.join("dump").read_dir().unwrap().count() > 0);
    assert_eq!(kernels(&run(dir, cache, &[], 0)), both);
}

#[test]
fn the_seed_of_a_commit_is_simulated_and_takes_no_other_along() {
    let cache = fresh_cache("reused");
    let project = copies(&[("right", "", "y[i] = v;")]);
    let (dir, cache) = (project.path(), cache.path());
    let commit = |message: &str| {
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-qm", message]);
    };
    git(dir, &["init", "-q", "-b", "main"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    commit("one");
    let against_main = ["--base", "main"];
    git(dir, &["checkout", "-qb", "change"]);
    fs::write(dir.join("notes.txt"), "1").unwrap();
    commit("two");
    let first = run(dir, cache, &against_main, 0);
    let drawn = first.plan.drawn.clone().unwrap().seed;
    assert!(reused(&first).is_empty());
    fs::write(dir.join("notes.txt"), "2").unwrap();
    commit("three");
    let second = run(dir, cache, &against_main, 0);
    assert_ne!(second.plan.drawn.clone().unwrap().seed, drawn);
    let seeds: Vec<u64> = reused(&second).iter().map(|(_, seed, _)| *seed).collect();
    assert_eq!(seeds, [1, 2]);
}
