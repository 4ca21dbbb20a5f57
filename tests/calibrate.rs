//! `calibrate` through the binary: what it says of a recording that was made on a GPU, and what it refuses.

mod common;

use common::{gatekeeper, has_gpu, refused, root, run, stderr, stdout};

const RECORDINGS: [&str; 2] = [
    "crates/power/recordings/h200-2026-11-21-short.json.gz",
    "crates/power/recordings/h200-2026-11-21-long.json.gz",
];

/// The figures of the table, redone from the raw samples. The goal: of runs of 60 unchanged cases at most
/// 1 % with anything red, and at most 5 % with anything inconclusive; at least 99 % of +1 % seen; and at most
/// 2 s of GPU time a verdict, be it the longest.
#[test]
fn the_committed_recording_keeps_its_promise() {
    let [short, long] = RECORDINGS;
    let from = ["calibrate", "--from", short, "--from", long];
    let output = run(&root(), &from, 0);
    let said = stdout(&output);
    let table = root().join("crates/power/recordings/h200-2026-11-21.md");
    assert_eq!(said, std::fs::read_to_string(table).unwrap());
    let line = said
        .lines()
        .find(|line| line.starts_with("Of 4000 runs of 60 unchanged cases "))
        .unwrap_or_else(|| panic!("{said}"));
    let most: Vec<f64> = line
        .split(['[', ']'])
        .skip(1)
        .step_by(2)
        .filter_map(|bounds| bounds.rsplit(", ").next()?.parse().ok())
        .collect();
    let [red, open, ..] = most.as_slice() else {
        panic!("{line}")
    };
    assert!(*red <= 1.0 && *open <= 5.0, "{line}");
    // Each of the eight kernels, +1 %: by its dial, and scaled.
    let (drawn, _) = said.split_once("in the order of measurement").unwrap();
    let seen: Vec<&str> = drawn
        .lines()
        .filter(|line| {
            ["| +1 %, scaled |", "| +1 %, dial |"]
                .iter()
                .any(|it| line.contains(it))
        })
        .collect();
    assert_eq!(seen.len(), 16, "{said}");
    for line in seen {
        let cell = line.split(" | ").nth(3).unwrap_or_default();
        let least = cell
            .split(['[', ','])
            .nth(1)
            .and_then(|least| least.parse::<f64>().ok());
        assert!(least.is_some_and(|least| least >= 99.0), "{line}");
    }
    let (_, rule) = drawn.split_once("### The rule").unwrap();
    let costs: Vec<f64> = rule
        .lines()
        .filter_map(|line| {
            line.trim_end_matches(" |")
                .rsplit(" | ")
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(costs.len(), 8 * 6, "{rule}");
    assert!(costs.iter().all(|&seconds| seconds <= 2.0), "{rule}");
}

#[test]
fn what_is_no_recording_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["calibrate", "--from", "nowhere.gz"], 2);
    assert!(
        stderr(&output).starts_with("error: nowhere.gz: the recording cannot be read: "),
        "{}",
        stderr(&output)
    );
    let recording = root().join(RECORDINGS[1]);
    let recording = recording.to_str().unwrap();
    refused(
        dir.path(),
        &["calibrate", "--from", recording, "--from", recording],
        "error: compute, 60 us, compute is in both recordings\n",
    );
    std::fs::write(dir.path().join("text.gz"), "no gzip").unwrap();
    let output = run(dir.path(), &["calibrate", "--from", "text.gz"], 2);
    assert!(stderr(&output).contains("`gatekeeper calibrate` writes one"));
}

#[test]
fn what_cannot_be_asked_together() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["calibrate", "--from", "x.gz", "--processes", "3"][..],
        &["calibrate", "k", "--changes", "1"],
        &["calibrate", "--processes", "1"],
        &["calibrate", "--changes", "none"],
    ] {
        run(dir.path(), args, 2);
    }
    refused(
        dir.path(),
        &["calibrate", "k"],
        "error: gates.yaml: cannot be read: No such file or directory (os error 2)\n  help: write one with `gatekeeper init`, or name another with --config\n",
    );
}

#[test]
fn without_a_gpu_there_is_nothing_to_calibrate() {
    if has_gpu() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let output = gatekeeper()
        .current_dir(dir.path())
        .env("GATEKEEPER_CACHE", cache.path())
        .args(["calibrate", "--processes", "2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
}
