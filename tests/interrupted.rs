//! Ended in the middle, by a signal that it hears and by one that it does not: nothing is lost, and what it may remove
//! is gone.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod common;

use common::{binary, edit, fresh_cache, git, project, report, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

fn start(dir: &Path, cache: &Path, args: &[&str]) -> Child {
    Command::new(binary())
        .current_dir(dir)
        .args(args)
        .env("GATEKEEPER_CACHE", cache)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn signalled(mut child: Child, signal: Signal, after: Duration) -> ExitStatus {
    std::thread::sleep(after);
    // It may have ended already; it is not reaped yet.
    let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal);
    child.wait().unwrap()
}

/// How long it took, if it ended before so long.
fn ended_within(child: &mut Child, most: Duration) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < most {
        if child.try_wait().unwrap().is_some() {
            return Some(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// What temporary files and directories are called, anywhere below.
fn litter(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(".gatekeeper-") {
            found.push(path);
        } else if path.is_dir() && !path.is_symlink() {
            found.extend(litter(&path));
        }
    }
    found
}

/// Processes whose command line names this directory.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&dir) && entry.file_name() != std::process::id().to_string().as_str() {
            found.push(line);
        }
    }
    found
}

#[test]
fn a_signal_ends_it_with_its_children_and_leaves_nothing_half_written() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let (project, cache) = (project(), fresh_cache(""));
        let child = start(project.path(), cache.path(), &["run"]);
        // Once nvcc runs: it works below this cache.
        let began = Instant::now();
        while litter(cache.path()).is_empty() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "nothing was begun"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = signalled(child, signal, Duration::from_millis(100));
        assert_eq!(status.code(), Some(code), "{status}");
        assert_eq!(litter(cache.path()), Vec::<PathBuf>::new());
        assert_eq!(litter(project.path()), Vec::<PathBuf>::new());
        // Killed, not yet gone.
        let began = Instant::now();
        while !processes_of(cache.path()).is_empty() {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{:?}",
                processes_of(cache.path())
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where the next interruption falls: spread over what the last whole one took.
struct Points {
    whole: Duration,
    state: u64,
}

impl Points {
    fn next(&mut self) -> Duration {
        // Knuth's generator (MMIX): good enough to spread points.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.whole
            .mul_f64((self.state >> 40) as f64 / (1u64 << 24) as f64)
    }
}

/// Interrupts `args` so often, with signals that it hears and those that it does not, and `check`s after each.
fn interrupt(dir: &Path, cache: &Path, args: &[&str], times: u32, check: impl Fn()) {
    let began = Instant::now();
    start(dir, cache, args).wait().unwrap();
    let mut points = Points {
        whole: began.elapsed(),
        state: u64::from(times),
    };
    let mut ended: BTreeMap<String, u32> = BTreeMap::new();
    for time in 0..times {
        let signal = match time % 3 {
            0 => Signal::SIGTERM,
            _ => Signal::SIGKILL,
        };
        let at = points.next();
        let mut child = start(dir, cache, args);
        // What is warm takes less than what was cold.
        if let Some(whole) = ended_within(&mut child, at) {
            points.whole = whole;
        }
        let status = signalled(child, signal, Duration::ZERO);
        // By SIGTERM itself where it comes before its handler, and before anything is begun.
        let is_expected =
            matches!(status.signal(), Some(9 | 15)) || matches!(status.code(), Some(0 | 1 | 143));
        assert!(is_expected, "{args:?} at {at:?}: {status}");
        *ended.entry(status.to_string()).or_default() += 1;
        check();
    }
    println!("{args:?}, {:?} long: {ended:?}", points.whole);
}

/// Of each of the four commands below. `GATEKEEPER_INTERRUPTIONS=200 cargo test --test interrupted -- --nocapture` makes
/// two hundred in all, and says how they ended.
fn times() -> u32 {
    let all: u32 =
        std::env::var("GATEKEEPER_INTERRUPTIONS").map_or(16, |text| text.parse().unwrap());
    all.div_ceil(4)
}

#[test]
fn a_run_that_was_killed_anywhere_costs_nothing_but_its_time() {
    let (project, cache) = (project(), fresh_cache(""));
    let dir = project.path();
    let before = {
        run(dir, &["run", "--provision"], 0);
        verdicts(dir)
    };
    let source = fs::read_to_string(dir.join("copy.cu")).unwrap();
    let change = std::cell::Cell::new(0);
    interrupt(dir, cache.path(), &["run"], times(), || {
        // Something has to be built each time.
        change.set(change.get() + 1);
        fs::write(
            dir.join("copy.cu"),
            format!("{source}\n// {}\n", change.get()),
        )
        .unwrap();
    });
    fs::write(dir.join("copy.cu"), source).unwrap();
    assert!(start(dir, cache.path(), &["run"]).wait().unwrap().success());
    assert_eq!(verdicts(dir), before);
}

/// Verdicts without what belongs to one run.
fn verdicts(dir: &Path) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    report["verdicts"].clone()
}

#[test]
fn an_update_that_was_killed_anywhere_leaves_baselines_whole() {
    let (project, cache) = (project(), fresh_cache(""));
    let dir = project.path();
    run(dir, &["run", "--provision"], 0);
    let update = ["baseline", "update"];
    run(dir, &update, 0);
    let whole = tree(&dir.join("baselines"));
    assert!(!whole.is_empty());
    interrupt(dir, cache.path(), &update, times(), || {
        for (file, text) in tree(&dir.join("baselines")) {
            assert_eq!(whole.get(&file), Some(&text), "{}", file.display());
        }
        // So that the next one has to write it again.
        let _ = fs::remove_dir_all(dir.join("baselines"));
    });
    run(dir, &update, 0);
    assert_eq!(tree(&dir.join("baselines")), whole);
}

/// Files with their content; what is temporary is not looked for.
fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            found.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// What is removed is made again, and nothing is half there.
#[test]
fn a_pruned_cache_is_whole_wherever_it_was_killed() {
    let (project, cache) = (project(), fresh_cache(""));
    let dir = project.path();
    let run = || start(dir, cache.path(), &["run", "copy"]).wait().unwrap();
    assert!(run().success());
    let first = verdicts(dir);
    let prune = ["cache", "prune", "--max-size", "0"];
    interrupt(dir, cache.path(), &prune, times(), || {
        assert!(run().success());
        assert_eq!(verdicts(dir), first);
    });
    assert!(start(dir, cache.path(), &prune).wait().unwrap().success());
    for part in ["build/objects", "build/manifests", "references", "inputs"] {
        let left = fs::read_dir(cache.path().join(part)).unwrap();
        assert_eq!(left.count(), 0, "{part}");
    }
}

#[test]
fn a_comparison_with_a_base_that_was_killed_anywhere_can_be_made_again() {
    let (project, cache) = (project(), fresh_cache(""));
    let dir = project.path();
    git(dir, &["init", "-q"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "base"]);
    edit(
        &dir.join("copy.cu"),
        "__global__",
        "/* changed */ __global__",
    );
    let args = ["run", "--base", "HEAD"];
    interrupt(dir, cache.path(), &args, times(), || {});
    assert!(start(dir, cache.path(), &args).wait().unwrap().success());
}

/// A kill while it checks and times there.
#[test]
#[ignore = "needs a GPU"]
fn a_run_on_a_gpu_that_was_killed_anywhere_can_be_made_again() {
    // With the compiler of the machine: there may be no network.
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let dir = project.path();
    let args = ["run", "--require-gpu"];
    interrupt(dir, cache.path(), &args, times(), || {});
    let code = start(dir, cache.path(), &args).wait().unwrap().code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}
