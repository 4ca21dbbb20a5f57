//! Tests `tune` without a GPU: every wrong configuration is dropped for its own reason, correct ones stay, and none is
//! claimed to be faster.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of, edit, refused, run, stderr, stdout};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LOG: &str = "gatekeeper-out/tune-sums-default.jsonl";

fn project() -> tempfile::TempDir {
    copy_of("tests/fixtures/tune")
}

fn events(dir: &Path, log: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(log)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn evaluated(dir: &Path, log: &str) -> Vec<Value> {
    events(dir, log)
        .into_iter()
        .filter(|event| event["event"] == "evaluated")
        .collect()
}

/// Returns the outcomes of the configurations with these values of THREADS and SHORTCUT, in alphabetical order. Which
/// of two that differ only in HINT comes first and is tried depends on the strategy.
fn outcomes(dir: &Path, log: &str) -> BTreeMap<(i64, i64), Vec<String>> {
    let mut outcomes: BTreeMap<(i64, i64), Vec<String>> = BTreeMap::new();
    for event in evaluated(dir, log) {
        let value = |name: &str| event["values"][name].as_i64().unwrap();
        let text = |name: &str| event["outcome"][name].as_str().map(str::to_owned);
        outcomes
            .entry((value("THREADS"), value("SHORTCUT")))
            .or_default()
            .push(text("gate").or(text("kind")).unwrap());
    }
    outcomes.values_mut().for_each(|all| all.sort());
    outcomes
}

const ALL: [&str; 5] = ["tune", "sums", "--provision", "--device", "sim"];

#[test]
fn drops_wrong_configurations_with_their_reason_and_ranks_right_ones() {
    let project = project();
    let dir = project.path();
    let output = run(dir, &ALL, 3);
    let expected = [
        ((32, 0), &["ranked", "same"][..]),
        // One of them is the start itself.
        ((64, 0), &["same", "same"]),
        ((128, 0), &["ranked", "same"]),
        ((128, 1), &["correctness"]),
        ((128, 2), &["race"]),
        ((128, 3), &["hang"]),
        ((128, 4), &["build"]),
        ((512, 0), &["resource", "same"]),
        ((2048, 0), &["call", "call"]),
    ]
    .map(|(key, outcomes)| {
        (
            key,
            outcomes.iter().map(|name| (*name).to_owned()).collect(),
        )
    });
    assert_eq!(outcomes(dir, LOG), BTreeMap::from(expected));

    let said = stdout(&output);
    assert!(said.contains("this is a ranking and no time"), "{said}");
    assert!(said.contains("HINT changed no machine code"), "{said}");
    assert!(!said.contains("THREADS changed"), "{said}");
    assert!(!said.contains("SHORTCUT changed"), "{said}");
    let progress = stderr(&output);
    let first = progress.lines().next();
    assert_eq!(first, Some("sums/default: 14 valid configurations"));
    assert!(
        progress
            .lines()
            .filter(|line| line.starts_with("tune: ") && line.ends_with(" left"))
            .count()
            > 0,
        "{progress}"
    );

    // Half of the work is left out. By its estimate this would be the best configuration, and it must not be in the
    // ranking.
    let all = evaluated(dir, LOG);
    let least = all
        .iter()
        .filter_map(|event| event["outcome"]["cost"].as_f64())
        .fold(f64::INFINITY, f64::min);
    let wrong = all
        .iter()
        .find(|event| event["values"]["SHORTCUT"] == 1)
        .unwrap();
    let estimate = wrong["outcome"]["estimated_cost"].as_f64().unwrap();
    assert!(estimate < least, "{estimate} {least}");
    assert!(said.contains("(its estimate: "), "{said}");
    let page = fs::read_to_string(dir.join(LOG).with_extension("md")).unwrap();
    let best = page.split("The best").nth(1).unwrap();
    let best = best.split("Dropped, by gate").next().unwrap();
    assert!(best.contains("SHORTCUT=0"), "{best}");
    assert!(!best.contains("SHORTCUT=1"), "{best}");
    assert!(page.contains("max_err"), "{page}");
    // The log has all of the three findings.
    assert!(page.contains(" ... (its estimate: "), "{page}");

    let html = fs::read_to_string(dir.join(LOG).with_extension("html")).unwrap();
    assert!(html.contains("<svg"), "the path is drawn");
    assert!(html.contains("Dropped, by gate"));
}

#[test]
fn resumes_a_search_at_the_end_of_its_log() {
    let project = project();
    let dir = project.path();
    let with = |strategy: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        [&ALL[..], &["--strategy", strategy], more].concat()
    };
    run(dir, &with("elite", &["--budget", "3 evaluations"]), 3);
    let first = fs::read_to_string(dir.join(LOG)).unwrap();
    let count = |dir: &Path| evaluated(dir, LOG).len();
    let before = count(dir);
    assert!((3..14).contains(&before), "{before}");

    // The search was killed in the middle of a line.
    fs::write(dir.join(LOG), format!("{first}{{\"event\":\"eval")).unwrap();
    run(
        dir,
        &with("elite", &["--budget", "50 evaluations", "--resume"]),
        3,
    );
    let second = fs::read_to_string(dir.join(LOG)).unwrap();
    assert!(second.starts_with(&first), "{second}");
    assert_eq!(count(dir), 14);
    assert_eq!(outcomes(dir, LOG).values().flatten().count(), 14);

    // Nothing is left to try, and nothing is tried again.
    run(dir, &with("elite", &["--resume"]), 3);
    assert_eq!(fs::read_to_string(dir.join(LOG)).unwrap(), second);

    // The log is neither lost nor mixed with another search.
    let output = run(dir, &with("elite", &[]), 2);
    assert!(
        stderr(&output).contains("there is a log of an earlier search"),
        "{}",
        stderr(&output)
    );
    let output = run(dir, &with("guided", &["--resume"]), 2);
    assert!(
        stderr(&output).contains("another strategy"),
        "{}",
        stderr(&output)
    );
    edit(&dir.join("sums.cu"), "float sum = 0;", "float sum = 0.0f;");
    let output = run(dir, &with("elite", &["--resume"]), 2);
    assert!(
        stderr(&output).contains("other sources, calls or gates"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(dir.join(LOG)).unwrap(), second);
}

/// On a GPU a race need not show, so the reason for dropping that configuration differs. But no wrong configuration is
/// the best.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn on_a_gpu_right_configurations_are_timed_and_no_wrong_one_is_best() {
    let project = project();
    let dir = project.path();
    let args = ["tune", "sums", "--provision"];
    let output = common::gatekeeper()
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let outcomes = outcomes(dir, LOG);
    for (key, expected) in [
        ((32, 0), &["same", "timed"][..]),
        ((64, 0), &["same", "same"]),
        ((128, 0), &["same", "timed"]),
        ((128, 1), &["correctness"]),
        ((128, 3), &["hang"]),
        ((128, 4), &["build"]),
        ((512, 0), &["resource", "same"]),
        ((2048, 0), &["call", "call"]),
    ] {
        assert_eq!(outcomes[&key], expected, "{key:?}: {said}");
    }
    let all = events(dir, LOG);
    let number = |event: &Value| event["number"].as_u64().unwrap();
    let bests: Vec<u64> = all
        .iter()
        .filter(|event| event["event"] == "best")
        .map(number)
        .collect();
    let wrong = all
        .iter()
        .filter(|event| event["event"] == "evaluated" && event["values"]["SHORTCUT"] != 0);
    assert!(wrong.clone().count() == 4, "{said}");
    assert!(
        wrong.clone().all(|event| !bests.contains(&number(event))),
        "{said}"
    );
    // A winner is claimed exactly if fresh times have shown it.
    assert_eq!(
        all.iter()
            .filter(|event| event["event"] == "confirmed" && event["shown"] == "faster")
            .count()
            == 1,
        output.status.code() == Some(0),
        "{said}"
    );
}

#[test]
fn ctrl_c_loses_nothing_that_is_in_the_log() {
    let project = project();
    let dir = project.path();
    let child = std::process::Command::new(common::binary())
        .current_dir(dir)
        .args(ALL)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let whole = |text: &str| {
        text.lines()
            .filter(|line| line.contains("evaluated"))
            .count()
    };
    let log = || fs::read_to_string(dir.join(LOG)).unwrap_or_default();
    let began = Instant::now();
    while whole(&log()) == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "nothing was evaluated"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(id, Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left = log();
    assert!(left.ends_with('\n'), "{left}");
    let before = evaluated(dir, LOG);
    assert!((1..14).contains(&before.len()), "{left}");
    // A worker that was killed with the search does not make its configuration a broken one.
    assert!(!left.contains("worker"), "{left}");
    run(dir, &[&ALL[..], &["--resume"]].concat(), 3);
    let after = evaluated(dir, LOG);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), 14);
}

#[test]
fn a_start_that_breaks_its_own_gates_is_no_start() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "define: {THREADS: 64}",
        "define: {THREADS: 64, SHORTCUT: 1}",
    );
    let said = stdout(&run(dir, &ALL, 1));
    assert!(
        said.contains("sums/default does not hold its own gates"),
        "{said}"
    );
    assert!(said.contains("max_err"), "{said}");
    assert_eq!(evaluated(dir, LOG), Vec::<Value>::new());
}

#[test]
fn mistakes_are_told_before_anything_is_built() {
    let project = project();
    let dir = project.path();
    let tune = ["tune", "sums", "--device", "sim"];
    let gates = dir.join("gates.yaml");
    let right = fs::read_to_string(&gates).unwrap();
    // The name would be found even in a comment, so it must not occur anywhere.
    edit(&gates, "HINT: [0, 1]", "NOWHERE: [0, 1]");
    edit(&gates, "HINT == 0", "NOWHERE == 0");
    let says = "error: gates.yaml:29:9: kernels.sums.tune.parameters.NOWHERE: `NOWHERE` is no macro of sums.cu: neither \
                it nor a header that it includes has the name\n";
    refused(dir, &tune, says);
    fs::write(&gates, &right).unwrap();
    edit(&gates, "SHORTCUT == 0 || ", "SHORTCUT == 9 && ");
    let says = "error: gates.yaml:30:21: kernels.sums.tune.constraints[0]: this refuses every configuration\n";
    refused(dir, &tune, says);
    refused(dir, &["validate"], says);
    fs::write(&gates, &right).unwrap();
    edit(
        &gates,
        "constraints: [\"SHORTCUT == 0 || THREADS == 128 && HINT == 0\"]",
        "constraints: [THREADS > 100, THREADS < 100]",
    );
    let says = "error: gates.yaml:30:36: kernels.sums.tune.constraints[1]: no configuration is left: 20 hold this, and \
                none of them `THREADS > 100` too\n";
    refused(dir, &tune, says);
    fs::write(&gates, &right).unwrap();
    for parameter in ["THREADS", "SHORTCUT", "HINT"] {
        let text = fs::read_to_string(&gates).unwrap();
        let line = |line: &&str| line.trim_start().starts_with(&format!("{parameter}: ["));
        let line = text.lines().find(line).unwrap().to_owned();
        edit(&gates, &format!("{line}\n"), "");
    }
    edit(&gates, "parameters:", "parameters: {}");
    let says = "error: gates.yaml:26:19: kernels.sums.tune.parameters: no parameters: nothing can be tuned\n  \
                help: name macros and their values: parameters: {BLOCK_M: [32, 64, 128]}\n";
    refused(dir, &tune, says);
    fs::write(&gates, &right).unwrap();
    edit(&gates, "HINT: [0, 1]", "HINT: []");
    let says = "error: gates.yaml:29:15: kernels.sums.tune.parameters.HINT: `HINT` has no values\n";
    refused(dir, &tune, says);
    fs::write(&gates, &right).unwrap();
    edit(&gates, "budget: 50 evaluations", "budget: 0s");
    let says = "error: gates.yaml:32:15: kernels.sums.tune.budget: a budget of 0s tries nothing\n";
    refused(dir, &tune, says);
    fs::write(&gates, &right).unwrap();
    let says = "error: there is no kernel `sum`\n  help: did you mean `sums`?\n";
    refused(dir, &["tune", "sum"], says);
    for (budget, says) in [
        ("0 evaluations", "a budget of 0 evaluations tries nothing"),
        ("0s", "a budget of 0s tries nothing"),
        (
            "many",
            "`many` is no budget: write 200 evaluations, or a time such as 10min",
        ),
    ] {
        let output = run(dir, &["tune", "sums", "--budget", budget], 2);
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    assert!(!dir.join("gatekeeper-out").exists());
}
