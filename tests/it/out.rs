//! Tests the files in `--out` when a run is killed. Mistakes in the arguments are in `tests/cases/out`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{binary, commit_all, fresh_cache, git, project, run};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_run_that_was_killed_in_the_build_leaves_no_results() {
    let project = project();
    let dir = project.path();
    let out = dir.join("gatekeeper-out");
    fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet"]);
    commit_all(dir);
    for base in [&[][..], &["--base", "HEAD"]] {
        let cache = fresh_cache("");
        run(dir, &["run", "--device", "sim", "copy"], 0);
        fs::write(out.join("mine.txt"), "kept").unwrap();
        let mut child = Command::new(binary())
            .current_dir(dir)
            .args([&["run", "--device", "sim", "copy"], base].concat())
            .env("GATEKEEPER_CACHE", cache.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The compiler works in a directory of its own.
        let scratch = cache.path().join("scratch");
        let is_building = || fs::read_dir(&scratch).is_ok_and(|mut dir| dir.next().is_some());
        let began = Instant::now();
        while !is_building() {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing began");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        let left = fs::read_dir(&out).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["mine.txt"], "{base:?}");
    }
}
