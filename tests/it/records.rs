//! Tests records and baselines through the real binary: they are judged again, compared, accepted and damaged.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, gatekeeper, project, refused, run, stdout, write_record};
use judge::fixture;
use model::BaselineKey;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_run_without_a_baseline_for_its_gpu_says_which_gpus_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record();
    for baseline in &mut record.policy.baselines {
        if let BaselineKey::Times { gpu, .. } = &mut baseline.key {
            *gpu = "NVIDIA H200".to_owned();
        }
    }
    let record = write_record(dir.path(), "record.json", &record);
    let said = stdout(&run(dir.path(), &["judge", &record], 3));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "the baselines are for NVIDIA H200, this is NVIDIA H100 80GB HBM3; accept what it measured with \
                `gatekeeper baseline update 'k'`";
    assert!(said.contains(says), "{said}");
    // Another run would end in the same way.
    assert!(said.contains("$ gatekeeper baseline update"), "{said}");
    assert!(!said.contains("$ gatekeeper run"), "{said}");
}

/// A run of one shape does not know the worst value over all shapes (`shared`). It must not remove it from a run of all
/// shapes that is accepted at the same time.
#[test]
fn two_updates_at_once_lose_nothing() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "small: {N: 1000}",
        "small: {N: 1000}\n      large: {N: 2000}",
    );
    run(dir, &["run", "--provision", "--out", "all"], 0);
    run(dir, &["run", "copy@small", "--out", "part"], 0);
    for round in 0..12 {
        let mut updates =
            ["all/record.json", "part/record.json", "all/record.json"].map(|record| {
                Command::new(gatekeeper().get_program())
                    .current_dir(dir)
                    .args(["baseline", "update", "--record", record])
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            });
        for update in &mut updates {
            let code = update.wait().unwrap().code();
            // Without a GPU, times and correctness are refused.
            assert!(matches!(code, Some(0 | 1)), "{code:?}");
        }
        let shown = stdout(&run(dir, &["baseline", "show", "copy"], 0));
        for figure in ["registers 10", "shared 1 KiB", "occupancy 100 %"] {
            assert!(shown.contains(figure), "round {round}: {shown}");
        }
        fs::remove_dir_all(dir.join("baselines")).unwrap();
    }
}

#[test]
fn the_ladder_of_a_record_is_printed_for_people_and_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    write_record(dir.path(), "r.json", &fixture::record());
    let ladder = |format: &str| {
        let args = ["report", "r.json", "--ladder", "--format", format];
        stdout(&run(dir.path(), &args, 0))
    };
    for format in ["terminal", "markdown"] {
        let said = ladder(format);
        let row = said.lines().find(|line| {
            let cells: Vec<_> = line
                .split([' ', '|', '`'])
                .filter(|cell| !cell.is_empty())
                .collect();
            cells == ["fast", "80", "1.25", "1.25", "96", "5"]
        });
        assert!(row.is_some(), "{format}: {said}");
    }
    assert!(ladder("json").contains("1.25 times as fast as direct"));
    let by_itself = stdout(&run(dir.path(), &["report", "r.json", "--ladder"], 0));
    assert_eq!(by_itself, ladder("terminal"));
    refused(
        dir.path(),
        &["report", "r.json", "--ladder", "--format", "junit"],
        "error: --ladder is printed as terminal, markdown or json\n",
    );
}
