//! Tests `gatekeeper history` through the real binary, on repositories of a few commits.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, git, refused, run, stdout};
use judge::fixture;
use model::{Counter, Record, Seen};
use records::store;
use std::path::Path;
use std::process::Command;

/// Returns a run of other code than any before, because sessions of the same code would be joined.
fn measured(version: u32, fast_ns: u64) -> Record {
    let mut record = fixture::record();
    fixture::rebuild(&mut record, "fast", |facts| {
        facts.identity = version.to_string();
    });
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), fast_ns);
    record
}

fn accept(dir: &Path, record: &Record) {
    store::update_baselines(dir, record, &|_| true, store::WorseValues::Accepted).unwrap();
    commit(dir);
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "agreed"]);
}

/// Makes a repository with two values that moved, one on another GPU, one kernel with a new name, and one that is gone.
fn repository() -> tempfile::TempDir {
    let repository = tempfile::tempdir().unwrap();
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    accept(dir, &measured(1, 80_000));
    accept(dir, &measured(2, 60_000));

    let mut third = measured(3, 63_000);
    fixture::rebuild(&mut third, "fast", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 128;
    });
    accept(dir, &third);

    let mut other = measured(3, 50_000);
    if let Seen::Got(device) = &mut other.environment.device {
        device.name = "NVIDIA H200".into();
    }
    accept(dir, &other);

    let variants = dir.join("baselines/k");
    std::fs::rename(variants.join("direct"), variants.join("plain")).unwrap();
    for entry in std::fs::read_dir(variants.join("plain")).unwrap() {
        edit(
            &entry.unwrap().path(),
            r#""variant": "direct""#,
            r#""variant": "plain""#,
        );
    }
    commit(dir);
    repository
}

/// Replaces hashes and days, which belong to the test's own commits. `commit-00001` is the oldest one.
fn masked(dir: &Path, text: &str) -> String {
    let log = ["log", "--reverse", "--format=%H %cs"];
    let log = Command::new("git").arg("-C").arg(dir).args(log).output();
    let log = stdout(&log.unwrap());
    let mut text = text.to_owned();
    for (at, line) in log.lines().enumerate() {
        let (hash, day) = line.split_once(' ').unwrap();
        text = text.replace(&hash[..12], &format!("commit-{:05}", at + 1));
        text = text.replace(day, "2026-11-2x");
    }
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
        + "\n"
}

#[test]
fn a_figure_is_told_commit_by_commit_and_each_key_by_itself() {
    let repository = repository();
    let dir = repository.path();
    for format in ["terminal", "markdown"] {
        let args = ["history", "k/*@small", "--format", format];
        let text = masked(dir, &stdout(&run(dir, &args, 0)));
        insta::assert_snapshot!(format!("history-{format}"), text);
    }
    let json = stdout(&run(
        dir,
        &["history", "k/fast@small", "--format", "json"],
        0,
    ));
    let json: serde_json::Value = serde_json::from_str(&masked(dir, &json)).unwrap();
    assert_eq!(json["schema"], "gatekeeper.history/1");
    assert_eq!(json["shallow_since"], serde_json::Value::Null);
    let p50 = |gpu: &str| -> Vec<(&str, f64)> {
        let series = json["series"].as_array().unwrap();
        let of = |entry: &&serde_json::Value| {
            entry["metric"] == "p50" && entry["key"]["times"]["gpu"] == gpu
        };
        let mut found = series.iter().filter(of);
        let points = found.next().unwrap()["points"].as_array().unwrap();
        assert!(found.next().is_none());
        let points = points.iter();
        let point = |found| -> Option<_> {
            let point: &serde_json::Value = found;
            Some((
                point["commit"].as_str()?,
                (point["value"].as_f64()? / 1e3).round(),
            ))
        };
        points.map(|found| point(found).unwrap()).collect()
    };
    assert_eq!(
        p50("NVIDIA H100 80GB HBM3"),
        [
            ("commit-00001", 80.0),
            ("commit-00002", 60.0),
            ("commit-00003", 63.0)
        ]
    );
    assert_eq!(p50("NVIDIA H200"), [("commit-00004", 50.0)]);
}

/// Returns the block of a case on the page.
fn block<'a>(page: &'a str, case: &str) -> &'a str {
    let start = format!("data-name=\"{case}\"");
    let block = page.split(&start).nth(1).unwrap();
    block.split("</details>").next().unwrap()
}

#[test]
fn a_page_has_what_moved_last_and_all_values_of_each_case() {
    let repository = repository();
    let dir = repository.path();
    let html = |filter: &str| {
        let args = ["history", filter, "--format", "html"];
        masked(dir, &stdout(&run(dir, &args, 0)))
    };
    let page = html("*");
    let targets: Vec<_> = page.split("href=\"#").skip(1).collect();
    assert!(targets.len() > 10);
    for target in targets {
        let id = target.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("k/direct was renamed to k/plain"));
    assert!(page.contains("6 cases of 1 kernel, up to 2026-11-2x commit-00005: agreed</p>"));
    let states: Vec<_> = page.split("data-outcome=\"").skip(1).collect();
    assert_eq!(
        states
            .iter()
            .map(|state| state.split('"').next().unwrap())
            .collect::<Vec<_>>(),
        ["gone", "gone", "moved", "moved", "same", "same"]
    );
    // On one GPU the time goes from 80 to 60 to 63 us. On another it is 50 us, which makes no chart.
    let fast = block(&page, "k/fast@small");
    assert_eq!(
        fast.matches("k/fast@small: p50 in us<span").count(),
        1,
        "{fast}"
    );
    let single = fast.split("NVIDIA H200").nth(1).unwrap();
    assert!(single.contains("never moved </span>k/fast@small: p50 50 us, mean 50.02 us, "));
    for cell in ["60 us", "25.0 % faster", "5.0 % slower", "commit-00003"] {
        assert!(fast.contains(&format!(">{cell}</td>")), "{cell}");
    }
    // p50, cycles and registers have charts. Other metrics are only in the table.
    assert_eq!(fast.matches("<svg").count(), 3);
    assert!(fast.contains("<td>cv</td>") && fast.contains("<td>occupancy</td>"));
    assert_eq!(html("k/fast@small").matches("data-name").count(), 1);
    run(dir, &["history", "--format", "html", "nothing"], 2);
}

/// The commits are of one day, in git's order, with their subjects.
#[test]
fn a_counter_that_jumped_is_on_the_page() {
    let repository = tempfile::tempdir().unwrap();
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    let counted = [32, 32, 96, 93, 93, 93];
    for (at, sectors) in counted.into_iter().enumerate() {
        let mut record = fixture::record_simulated();
        fixture::resimulate(
            &mut record,
            &fixture::case_id("fast", "small"),
            |_, facts| {
                let Seen::Got(facts) = facts else { panic!() };
                facts.counters.insert(Counter::GlobalLoadSectors, sectors);
            },
        );
        let accepted = store::WorseValues::Accepted;
        store::update_baselines(dir, &record, &|_| true, accepted).unwrap();
        std::fs::write(dir.join("baselines/note"), at.to_string()).unwrap();
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "-m", &format!("step {at}")]);
    }
    let page = stdout(&run(dir, &["history", "--format", "html"], 0));
    let page = masked(dir, &page);
    let moved = "2026-11-2x commit-00004: global_load_sectors 3.1 % less";
    assert!(page.contains(&format!("<td>{moved}</td>")), "{page}");
    let fast = block(&page, "k/fast@small");
    assert!(fast.contains(&format!("<span class=\"muted\">{moved}</span>")));
    assert!(fast.contains("k/fast@small: global_load_sectors<span"));
    for cell in ["200.0 % more", "step 2", "step 3", "96", "93"] {
        assert!(fast.contains(&format!(">{cell}</td>")), "{cell}: {fast}");
    }
    assert!(!fast.contains("step 1") && !fast.contains("step 4"));
    assert!(page.contains("up to 2026-11-2x commit-00004: step 3"));
    let markdown = ["history", "k/fast@small", "--format", "markdown"];
    let text = masked(dir, &stdout(&run(dir, &markdown, 0)));
    let row = "| 2026-11-2x | commit-00003 | 96 | 200.0 % more | 200.0 % more | step 2 |";
    assert!(text.contains(row), "{text}");
}

#[test]
fn a_kernel_with_a_new_name_is_two_series_and_said_to_be_renamed() {
    let repository = repository();
    let dir = repository.path();
    let json = stdout(&run(dir, &["history", "k/direct", "--format", "json"], 0));
    let json: serde_json::Value = serde_json::from_str(&masked(dir, &json)).unwrap();
    let renamed = serde_json::json!([{
        "day": "2026-11-2x",
        "commit": "commit-00005",
        "subject": "agreed",
        "from": {"kernel": "k", "variant": "direct"},
        "to": {"kernel": "k", "variant": "plain"},
    }]);
    assert_eq!(json["renamed"], renamed);
    for series in json["series"].as_array().unwrap() {
        let points = series["points"].as_array().unwrap();
        assert_eq!(points.last().unwrap()["commit"], "commit-00005", "{series}");
        assert!(points.last().unwrap()["value"].is_null(), "{series}");
    }
    let other = stdout(&run(dir, &["history", "k/fast", "--format", "json"], 0));
    assert!(other.contains(r#""renamed": []"#), "{other}");
}

#[test]
fn a_shallow_clone_says_how_far_it_sees() {
    let repository = repository();
    let whole = stdout(&run(repository.path(), &["history"], 0));
    assert!(!whole.contains("shallow"), "{whole}");
    let shallow = tempfile::tempdir().unwrap();
    let from = format!("file://{}", repository.path().display());
    git(
        shallow.path(),
        &["clone", "--quiet", "--depth", "1", &from, "."],
    );
    let head = Command::new("git")
        .arg("-C")
        .arg(shallow.path())
        .args(["rev-parse", "HEAD"])
        .output();
    let head = stdout(&head.unwrap());
    let said = stdout(&run(shallow.path(), &["history"], 0));
    let says = "this is a shallow clone: what was before ";
    assert!(said.contains(says), "{said}");
    assert!(
        said.contains(&format!(" {} is not seen", &head[..12])),
        "{said}"
    );
    assert!(
        !said.contains("to the first"),
        "nothing moved in one commit: {said}"
    );
}

#[test]
fn without_history_or_with_a_filter_that_fits_nothing_it_is_wrong_use() {
    let dir = tempfile::tempdir().unwrap();
    refused(
        dir.path(),
        &["history"],
        "error: there is no git history here: no repository, or no commit yet\n  \
         help: `gatekeeper baseline show` lists the baselines that are there\n",
    );
    git(dir.path(), &["init", "--quiet"]);
    git(
        dir.path(),
        &["commit", "--quiet", "--allow-empty", "-m", "first"],
    );
    refused(
        dir.path(),
        &["history"],
        "error: no commit has baselines of these gates\n  \
         help: `gatekeeper run`, then `gatekeeper baseline update`, then commit baselines/\n",
    );
    accept(dir.path(), &measured(1, 80_000));
    refused(
        dir.path(),
        &["history", "k/quick"],
        "error: the filter `k/quick` matches nothing\n  help: variant: there are `direct`, `fast`\n",
    );
}

#[test]
fn a_version_of_another_gatekeeper_is_named_and_left_out() {
    let repository = tempfile::tempdir().unwrap();
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    accept(dir, &measured(1, 80_000));
    let files = walk(&dir.join("baselines/k/fast"));
    let times = files
        .iter()
        .find(|file| file.to_string_lossy().contains("times-"))
        .unwrap();
    let whole = std::fs::read_to_string(times).unwrap();
    edit(times, "gatekeeper.baseline/1", "gatekeeper.baseline/7");
    commit(dir);
    std::fs::write(times, &whole).unwrap();
    commit(dir);
    accept(dir, &measured(2, 40_000));
    let said = stdout(&run(dir, &["history", "k/fast@small"], 0));
    assert!(said.contains("note     1 version cannot be read"), "{said}");
    assert!(said.contains("gatekeeper.baseline/7"), "{said}");
    assert!(said.contains("50.0 % faster"), "{said}");
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
