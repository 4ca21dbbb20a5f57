//! Machines that are short of something, and trees that want more than to be compiled: no GPU needed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{binary, edit, fresh_cache, gatekeeper, project, report, run, stderr, stdout};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::SystemTime;

fn shell(dir: &Path, script: &str) -> Output {
    std::process::Command::new("bash")
        .current_dir(dir)
        .args(["-c", script])
        .env("GK", binary())
        .output()
        .unwrap()
}

#[test]
fn little_memory_is_a_sentence() {
    let project = project();
    let output = shell(project.path(), "ulimit -v 300000; \"$GK\" validate");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "error: the address space is limited to 292 MiB, and gatekeeper needs 1024 MiB\n  \
         help: raise the limit: ulimit -v unlimited\n"
    );
}

#[test]
fn a_hundred_thousand_threads_are_not_started() {
    let project = project();
    let output = gatekeeper()
        .current_dir(project.path())
        .arg("validate")
        .env("RAYON_NUM_THREADS", "100000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_path_with_a_line_break_is_no_command_to_a_runner() {
    let project = project();
    edit(
        &project.path().join("gates.yaml"),
        "source: copy.cu",
        "source: \"x.cu\\n::error title=hi::pwned ##[error]x\"",
    );
    for args in [&["validate"][..], &["run"], &["doctor"]] {
        let output = gatekeeper()
            .current_dir(project.path())
            .args(args)
            .output()
            .unwrap();
        for text in [stdout(&output), stderr(&output)] {
            for line in text.lines() {
                assert!(!line.trim_start().starts_with("::"), "{args:?}: {line}");
                assert!(!line.contains("##["), "{args:?}: {line}");
            }
        }
    }
}

#[test]
fn flags_that_run_programs_are_mistakes_at_their_line() {
    let project = project();
    let gates = project.path().join("gates.yaml");
    edit(
        &gates,
        "    entry: copy\n",
        "    entry: copy\n    flags: [\"-Xcompiler=-fplugin=./x.so\"]\n",
    );
    let output = run(project.path(), &["validate"], 2);
    assert_eq!(
        stderr(&output),
        "error: gates.yaml:8:13: kernels.copy.flags[0]: `-Xcompiler=-fplugin=./x.so` is not allowed in `flags`: it \
         makes a compiler run another program\n  help: NVCC_CCBIN in the environment of gatekeeper names the host \
         compiler\n"
    );
}

/// nvcc runs other programs through a shell.
fn run_with_cache(name: &str) -> Output {
    let project = project();
    let cache = fresh_cache(name);
    gatekeeper()
        .current_dir(project.path())
        .arg("run")
        .env("GATEKEEPER_CACHE", cache.path())
        .output()
        .unwrap()
}

#[test]
fn paths_that_a_shell_would_read_work_or_are_refused() {
    let output = run_with_cache("a b';&(*#~[{!é%=,@+|<\\");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    for refused in ['"', '$', '`', ':', '\n'] {
        let output = run_with_cache(&format!("a{refused}HOME"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{refused}: {said}");
        assert!(said.contains("which nvcc's shell would read"), "{said}");
        assert!(
            said.ends_with(
                "\n  help: set GATEKEEPER_CACHE to a directory without one in its path\n"
            )
        );
    }
}

/// All that lies below, with when it was last changed.
fn state(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        let content = data.is_file().then(|| std::fs::read(&path).unwrap());
        found.insert(path.clone(), (data.modified().unwrap(), content));
        if data.is_dir() {
            found.extend(state(&path));
        }
    }
    found
}

/// How many units were compiled, and how many found.
fn compiled(dir: &Path) -> (u64, u64) {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let of = |name: &str| report["costs"][name].as_u64().unwrap();
    (of("compiled"), of("cached"))
}

/// As a pull request is run: with a cache of its own, beside the one that all share.
#[test]
fn what_a_pull_request_makes_stays_in_its_own_cache() {
    let (project, shared) = (project(), fresh_cache("shared"));
    let own = tempfile::tempdir().unwrap();
    let run = |caches: &[(&str, &Path)]| {
        let mut run = gatekeeper();
        run.current_dir(project.path()).args(["run", "copy"]);
        run.env_remove("GATEKEEPER_SHARED_CACHE");
        let output = run.envs(caches.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        compiled(project.path())
    };
    let as_pull_request = || {
        run(&[
            ("GATEKEEPER_SHARED_CACHE", shared.path()),
            ("GATEKEEPER_CACHE", own.path()),
        ])
    };
    assert_eq!(run(&[("GATEKEEPER_CACHE", shared.path())]), (1, 0));
    let before = state(shared.path());

    // Everything is there: compiler, program, expected outputs, inputs.
    assert_eq!(as_pull_request(), (0, 1));
    let made = |dir: &str| state(&own.path().join(dir)).len();
    for dir in ["build/manifests", "build/objects", "references", "inputs"] {
        assert_eq!(made(dir), 0, "{dir}");
        assert!(!state(&shared.path().join(dir)).is_empty(), "{dir}");
    }
    assert!(!own.path().join("toolchains/cuda-13.0.88").exists());

    // What the change makes is found by its next run, and by nobody else.
    edit(
        &project.path().join("copy.cu"),
        "__global__",
        "/* changed */ __global__",
    );
    assert_eq!(as_pull_request(), (1, 0));
    assert_eq!(as_pull_request(), (0, 1));
    assert!(made("build/objects") > 0);
    assert!(state(shared.path()) == before, "the shared cache changed");
    assert_eq!(run(&[("GATEKEEPER_CACHE", shared.path())]), (1, 0));
}

/// What may stand where a file is expected.
const IN_PLACE_OF_A_FILE: [&str; 5] = ["fifo", "zero", "socket", "directory", "huge"];

fn put(what: &str, at: &Path) {
    let _ = std::fs::remove_file(at);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    match what {
        "fifo" => nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "zero" => std::os::unix::fs::symlink("/dev/zero", at).unwrap(),
        // Its file stays when it is closed.
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        "directory" => std::fs::create_dir(at).unwrap(),
        _ => std::fs::File::create(at).unwrap().set_len(1 << 40).unwrap(),
    }
}

/// At once: what waits for a FIFO waits for ever.
fn ends(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = gatekeeper();
    let minute = std::time::Duration::from_secs(60);
    let output = command.current_dir(dir).args(args).timeout(minute);
    let output = output.output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn what_is_no_file_is_a_mistake_at_once() {
    for what in IN_PLACE_OF_A_FILE {
        for (file, args) in [
            ("gates.yaml", &["validate"][..]),
            ("copy.cu", &["validate"]),
            ("copy.cu", &["run", "copy"]),
            ("baselines/accepted.yaml", &["validate"]),
            ("record.json", &["judge", "record.json"]),
            ("record.json", &["report", "record.json"]),
            ("record.json", &["compare", "record.json", "record.json"]),
            (
                "record.json",
                &["baseline", "update", "--record", "record.json"],
            ),
            ("recording.gz", &["calibrate", "--from", "recording.gz"]),
        ] {
            let project = project();
            put(what, &project.path().join(file));
            let (code, said) = ends(project.path(), args);
            assert_eq!(code, Some(2), "{what} {args:?}: {said}");
            assert!(said.starts_with("error: "), "{what} {args:?}: {said}");
            assert!(said.contains(file), "{what} {args:?}: {said}");
        }
    }
}

/// Files that are trusted less than a mistake: their place is known, and what they should cover is not held.
#[test]
fn a_baseline_that_is_no_file_is_broken_at_once() {
    let project = project();
    let dir = project.path();
    run(dir, &["run", "--provision", "copy"], 0);
    run(dir, &["baseline", "update", "copy"], 0);
    let baselines: Vec<_> = state(&dir.join("baselines"))
        .into_iter()
        .filter_map(|(path, (_, content))| content.map(|_| path))
        .collect();
    assert!(!baselines.is_empty());
    for what in IN_PLACE_OF_A_FILE {
        for file in &baselines {
            put(what, file);
        }
        let (code, said) = ends(dir, &["run", "copy"]);
        assert!(matches!(code, Some(1 | 2)), "{what}: {code:?} {said}");
        for file in &baselines {
            let _ = std::fs::remove_dir(file);
        }
    }
}
