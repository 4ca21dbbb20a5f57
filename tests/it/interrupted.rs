//! Tests commands that are ended in the middle, by a signal that they handle and by one that they cannot: nothing is
//! lost, and what the program may remove is removed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use common::{binary, copy_of, edit, fresh_cache, git, project, report, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

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
    // It may have ended already, but it is not reaped yet.
    let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal);
    child.wait().unwrap()
}

/// Returns how long the process took, if it ended within `most`.
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

/// Returns the names of temporary files and directories anywhere below a directory.
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

/// Returns the processes whose command line names this directory.
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
        // nvcc works below this cache, so now it runs.
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
        // The processes were killed, and may not be gone yet.
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

/// Chooses the moments of interruption. They are spread over the time that the last complete run took.
struct Points {
    whole: Duration,
    state: u64,
}

impl Points {
    fn next(&mut self) -> Duration {
        // Knuth's generator (MMIX) is good enough to spread points.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.whole
            .mul_f64((self.state >> 40) as f64 / (1u64 << 24) as f64)
    }
}

/// Interrupts `args` this many times, with both kinds of signals, and calls `check` after each.
fn interrupt(dir: &Path, cache: &Path, args: &[&str], times: u32, check: impl Fn()) {
    let began = Instant::now();
    start(dir, cache, args).wait().unwrap();
    let mut points = Points {
        whole: began.elapsed(),
        state: u64::from(times),
    };
    check();
    let mut ended: BTreeMap<String, u32> = BTreeMap::new();
    for time in 0..times {
        let signal = match time % 3 {
            0 => Signal::SIGTERM,
            _ => Signal::SIGKILL,
        };
        let at = points.next();
        let mut child = start(dir, cache, args);
        // A run with a warm cache takes less time than one with a cold cache.
        if let Some(whole) = ended_within(&mut child, at) {
            points.whole = whole;
        }
        let status = signalled(child, signal, Duration::ZERO);
        // SIGTERM itself ends the process if it comes before its handler exists, and before anything has begun.
        let is_expected = matches!(status.signal(), Some(9 | 15))
            || matches!(status.code(), Some(0 | 1 | 143))
                // `tune` gives a ranking and no times here. On a GPU, few processes do not decide on times.
                || (status.code() == Some(3) && (args[0] == "tune" || common::has_gpu()));
        assert!(is_expected, "{args:?} at {at:?}: {status}");
        *ended.entry(status.to_string()).or_default() += 1;
        check();
    }
    println!("{args:?}, {:?} long: {ended:?}", points.whole);
}

/// Returns the number of interruptions of one command: a quarter of `GATEKEEPER_INTERRUPTIONS`. `-- --nocapture` prints
/// how the runs ended.
fn times() -> u32 {
    let all: u32 =
        std::env::var("GATEKEEPER_INTERRUPTIONS").map_or(16, |text| text.parse().unwrap());
    all.div_ceil(4)
}

/// A project in which runs are interrupted.
struct Place {
    project: TempDir,
    cache: TempDir,
    /// Returns true for a verdict that a second run must repeat.
    repeats: fn(&Value) -> bool,
    /// The exit codes of a complete run.
    codes: &'static [i32],
}

impl Place {
    fn simulator() -> Self {
        Self {
            project: project(),
            cache: fresh_cache(""),
            repeats: |_| true,
            codes: &[0],
        }
    }

    /// Makes a place with the machine's own compiler, because there may be no network, and with times that take a
    /// moment.
    fn gpu() -> Self {
        let project = project();
        let timing = "timing: {iterations: 10, singles: 20, processes: 2, max_processes: 2}";
        edit(
            &project.path().join("gates.yaml"),
            "version: 1\n",
            &format!("version: 1\n{timing}\n"),
        );
        Self {
            project,
            cache: tempfile::tempdir().unwrap(),
            repeats: |verdict| {
                let gate = verdict["gate"].as_str().unwrap();
                !["p50", "cycles"].iter().any(|time| gate.starts_with(time))
            },
            // After so few processes, a time may be undecided, or too slow by chance.
            codes: &[0, 1, 3],
        }
    }

    fn dir(&self) -> &Path {
        self.project.path()
    }

    /// Runs completely, and returns the verdicts that the next run must repeat.
    fn run(&self) -> Vec<Value> {
        self.finish(&["run"]);
        let report: Value = serde_json::from_str(&report(self.dir())).unwrap();
        let mut verdicts = report["verdicts"].as_array().unwrap().clone();
        verdicts.retain(|verdict| (self.repeats)(verdict));
        assert!(verdicts.iter().any(|verdict| verdict["outcome"] == "pass"));
        assert!(verdicts.iter().all(|verdict| verdict["outcome"] != "fail"));
        verdicts
    }

    fn finish(&self, args: &[&str]) {
        let status = start(self.dir(), self.cache.path(), args).wait().unwrap();
        let is_expected = status.code().is_some_and(|code| self.codes.contains(&code));
        assert!(is_expected, "{args:?}: {status}");
    }

    fn interrupt(&self, args: &[&str], times: u32, check: impl Fn()) {
        interrupt(self.dir(), self.cache.path(), args, times, check);
    }
}

fn kill_runs(place: &Place, times: u32) {
    let first = place.run();
    let path = place.dir().join("copy.cu");
    let source = fs::read_to_string(&path).unwrap();
    let change = std::cell::Cell::new(0);
    place.interrupt(&["run"], times, || {
        // The change makes something to be built each time.
        change.set(change.get() + 1);
        fs::write(&path, format!("{source}\n// {}\n", change.get())).unwrap();
    });
    fs::write(&path, source).unwrap();
    assert_eq!(place.run(), first);
}

fn kill_updates(place: &Place, times: u32) {
    place.run();
    let baselines = place.dir().join("baselines");
    let update = ["baseline", "update"];
    run(place.dir(), &update, 0);
    let whole = tree(&baselines);
    assert!(!whole.is_empty());
    place.interrupt(&update, times, || {
        for (file, text) in tree(&baselines) {
            assert_eq!(whole.get(&file), Some(&text), "{}", file.display());
        }
        // The next update has to write it again.
        let _ = fs::remove_dir_all(&baselines);
    });
    run(place.dir(), &update, 0);
    assert_eq!(tree(&baselines), whole);
}

fn kill_comparisons(place: &Place, times: u32) {
    let dir = place.dir();
    git(dir, &["init", "-q"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "base"]);
    edit(
        &dir.join("copy.cu"),
        "__global__",
        "/* changed */ __global__",
    );
    let args = ["run", "--base", "HEAD"];
    place.interrupt(&args, times, || {});
    place.finish(&args);
}

/// Removed entries are built again, and no entry is incomplete.
fn kill_prunes(place: &Place, times: u32) {
    let first = place.run();
    let prune = ["cache", "prune", "--max-size", "0"];
    place.interrupt(&prune, times, || assert_eq!(place.run(), first));
    let cache = place.cache.path();
    assert!(start(place.dir(), cache, &prune).wait().unwrap().success());
    for part in ["build/objects", "build/manifests", "references", "inputs"] {
        let left = fs::read_dir(cache.join(part)).unwrap();
        assert_eq!(left.count(), 0, "{part}");
    }
}

/// Configurations that were tried stay tried, and the search ends in the same way.
#[test]
fn a_search_that_was_killed_anywhere_goes_on_from_its_log() {
    let (project, cache) = (copy_of("tests/fixtures/tune"), fresh_cache(""));
    let dir = project.path();
    let log = dir.join("gatekeeper-out/tune-sums-default.jsonl");
    let search = ["tune", "sums", "--device", "sim"];
    let evaluated = || -> Vec<Value> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|event| event["event"] == "evaluated")
            .collect()
    };
    let values = |all: &[Value]| {
        all.iter()
            .map(|evaluation| evaluation["values"].to_string())
            .collect::<Vec<_>>()
    };
    interrupt(dir, cache.path(), &search, times(), || {
        let before = evaluated();
        let more: &[&str] = if log.exists() { &["--resume"] } else { &[] };
        let status = start(dir, cache.path(), &[&search, more].concat())
            .wait()
            .unwrap();
        // The search gives a ranking and no times.
        assert_eq!(status.code(), Some(3), "{status}");
        let after = evaluated();
        assert_eq!(after[..before.len()], before);
        let each: std::collections::BTreeSet<_> = values(&after).into_iter().collect();
        assert_eq!((each.len(), after.len()), (14, 14));
        fs::remove_file(&log).unwrap();
    });
}

#[test]
fn a_run_that_was_killed_anywhere_costs_nothing_but_its_time() {
    kill_runs(&Place::simulator(), times());
}

#[test]
fn an_update_that_was_killed_anywhere_leaves_baselines_whole() {
    kill_updates(&Place::simulator(), times());
}

#[test]
fn a_comparison_with_a_base_that_was_killed_anywhere_can_be_made_again() {
    kill_comparisons(&Place::simulator(), times());
}

#[test]
fn a_pruned_cache_is_whole_wherever_it_was_killed() {
    kill_prunes(&Place::simulator(), times());
}

#[test]
#[ignore = "needs a GPU"]
fn on_a_gpu_nothing_is_lost_either() {
    kill_runs(&Place::gpu(), times());
    kill_comparisons(&Place::gpu(), times());
    kill_prunes(&Place::gpu(), times());
    kill_updates(&Place::gpu(), times());
}

/// Returns files with their content. Temporary files are left out.
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
