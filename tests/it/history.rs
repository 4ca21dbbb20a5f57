//! `gatekeeper history`, through the real binary on repositories of a few commits.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, git, refused, run, stdout};
use judge::fixture;
use model::{Record, Seen};
use records::store;
use std::path::Path;
use std::process::Command;

/// A run of other code than any before it, as sessions of one code would join.
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

/// Two figures that moved, one on another GPU, one kernel with a new name, and one that is gone.
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

/// Hashes and days are those of the test's own commits: `commit-00001` is the oldest.
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
    let lines = text.lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n") + "\n"
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
        let of =
            |it: &&serde_json::Value| it["metric"] == "p50" && it["key"]["times"]["gpu"] == gpu;
        let mut found = series.iter().filter(of);
        let points = found.next().unwrap()["points"].as_array().unwrap();
        assert!(found.next().is_none());
        let points = points.iter();
        let point = |it| -> Option<_> {
            let it: &serde_json::Value = it;
            Some((
                it["commit"].as_str()?,
                (it["value"].as_f64()? / 1e3).round(),
            ))
        };
        points.map(|it| point(it).unwrap()).collect()
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

#[test]
fn a_site_has_a_page_for_each_case_and_its_links_lead_to_them() {
    let repository = repository();
    let dir = repository.path();
    run(dir, &["history", "--html", "public/gates"], 0);
    let site = dir.join("public/gates");
    let mut pages = vec!["index.html".to_owned()];
    for entry in std::fs::read_dir(site.join("cases")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.push(format!("cases/{name}"));
    }
    pages[1..].sort();
    assert_eq!(
        pages,
        [
            "index.html",
            "cases/k--direct--large.html",
            "cases/k--direct--small.html",
            "cases/k--fast--large.html",
            "cases/k--fast--small.html",
            "cases/k--plain--large.html",
            "cases/k--plain--small.html",
        ]
    );
    let read = |page: &str| std::fs::read_to_string(site.join(page)).unwrap();
    for page in &pages {
        let text = read(page);
        let links: Vec<_> = text.split("href=\"").skip(1).collect();
        assert!(!links.is_empty(), "{page}");
        for link in links {
            let target = link.split('"').next().unwrap();
            let target = site.join(page).parent().unwrap().join(target);
            assert!(target.is_file(), "{page}: {}", target.display());
        }
    }
    let index = read("index.html");
    assert!(index.contains("k/direct was renamed to k/plain"));
    // 80 to 60 to 63 us on one GPU, and 50 us on another, which is no chart.
    let case = masked(dir, &read("cases/k--fast--small.html"));
    assert_eq!(
        case.matches("p50 of k/fast@small, us: 3 versions").count(),
        1
    );
    let single = case.split("One version").nth(1).unwrap();
    assert!(single.contains("50 us") && single.contains("NVIDIA H200"));
    for cell in ["60 us", "25.0 % faster", "5.0 % slower", "commit-00003"] {
        assert!(case.contains(&format!(">{cell}</td>")), "{cell}");
    }
    let titles = case.split("<h2>").skip(1);
    let titles: Vec<_> = titles.map(|it| it.split('<').next().unwrap()).collect();
    assert_eq!(
        titles,
        ["p50", "cycles", "registers", "shared", "One version"]
    );
    assert_eq!(case.matches("<svg").count(), 4);

    refused(
        dir,
        &["history", "--html", "public/gates"],
        "error: public/gates: the directory is not empty; pages of cases that are gone would stay in it\n  help: name a new one\n",
    );
    run(dir, &["history", "--html", "few", "k/fast@small"], 0);
    assert_eq!(std::fs::read_dir(dir.join("few/cases")).unwrap().count(), 1);
    run(dir, &["history", "--html", "none", "nothing"], 2);
    assert!(!dir.join("none").exists());
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
        .find(|it| it.to_string_lossy().contains("times-"))
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
