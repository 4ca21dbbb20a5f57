//! Starts the real binary for end-to-end tests. Each test has directories of its own. Only the build cache is shared,
//! because it is addressed by content.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use model::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, PoisonError};

/// Returns a call of the binary under test. `GATEKEEPER_BIN` replaces it if the tests run on another machine than the
/// one that built them.
pub fn gatekeeper() -> Command {
    Command::new(binary())
}

pub fn binary() -> PathBuf {
    std::env::var_os("GATEKEEPER_BIN").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_gatekeeper")),
        PathBuf::from,
    )
}

/// Makes a cache that has the compiler and nothing else. Its name begins with `prefix`.
pub fn fresh_cache(prefix: &str) -> tempfile::TempDir {
    build::toolchain::testing::toolchain();
    let toolchains = system::cache::Cache::open()
        .unwrap()
        .dir("toolchains")
        .unwrap();
    let cache = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    std::os::unix::fs::symlink(toolchains, cache.path().join("toolchains")).unwrap();
    cache
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    std::env::var_os("GATEKEEPER_ROOT")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// Copies a directory of the repository, so that a test can change it.
pub fn copy_of(relative: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&root().join(relative), dir.path());
    dir
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let leads = std::fs::read_link(entry.path()).unwrap();
            std::os::unix::fs::symlink(leads, target).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Replaces `old` in a file. Panics if the file does not contain it.
pub fn edit(file: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(
        text.contains(old),
        "{} does not contain {old:?}",
        file.display()
    );
    std::fs::write(file, text.replace(old, new)).unwrap();
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes the project in which tests break one thing.
pub fn project() -> tempfile::TempDir {
    copy_of("tests/fixtures/project")
}

/// Returns the complete report that a run wrote.
pub fn report(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("gatekeeper-out/report.json")).unwrap()
}

/// Returns true if this machine has an NVIDIA device, according to the nodes of its driver.
pub fn has_gpu() -> bool {
    ["/dev/nvidia0", "/dev/dxg"]
        .iter()
        .any(|node| Path::new(node).exists())
}

/// Runs in `dir` and asserts the exit code, with all output in the failure message.
pub fn run(dir: &Path, args: &[&str], code: i32) -> Output {
    let output = gatekeeper().current_dir(dir).args(args).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(code),
        "gatekeeper {}\n--- stdout\n{}\n--- stderr\n{}",
        args.join(" "),
        stdout(&output),
        stderr(&output)
    );
    output
}

/// The path of the record that `run` writes, relative to the directory of the run.
pub const RECORD: &str = "gatekeeper-out/record.json";

/// Stores a record as `run` does, and returns its path.
pub fn write_record(dir: &Path, name: &str, record: &Record) -> String {
    let path = dir.join(name);
    records::store::write_record(&path, record).unwrap();
    path.display().to_string()
}

/// Returns a project after a run without a GPU. It is a copy of the project that ran, which is shared by all tests with
/// these filters.
pub fn after_a_run(filters: &[&'static str]) -> tempfile::TempDir {
    static RAN: Mutex<BTreeMap<Vec<&str>, tempfile::TempDir>> = Mutex::new(BTreeMap::new());
    let mut all = RAN.lock().unwrap_or_else(PoisonError::into_inner);
    let ran = all.entry(filters.to_vec()).or_insert_with(|| {
        let project = project();
        run(
            project.path(),
            &[&["run", "--provision"], filters].concat(),
            0,
        );
        project
    });
    let project = tempfile::tempdir().unwrap();
    copy(ran.path(), project.path());
    project
}

/// Requires exit code 2, and this text on stderr.
pub fn refused(dir: &Path, args: &[&str], says: &str) {
    let output = run(dir, args, 2);
    assert_eq!(stderr(&output), says, "{args:?}");
    assert_eq!(stdout(&output), "", "{args:?}");
}

/// Runs git in `dir`, as a user with a name of its own.
pub fn git(dir: &Path, args: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(dir);
    git.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
    let output = git.args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Commits everything in the working tree, even if nothing changed.
pub fn commit_all(dir: &Path) {
    git(dir, &["add", "--all"]);
    let message = ["commit", "--quiet", "--allow-empty", "-m", "a change"];
    git(dir, &message);
}

/// Tries all rows on all cores, and reports the problems of all of them at once.
pub fn try_each<'a, Row: Sync + 'a>(
    rows: impl Iterator<Item = &'a Row> + Send,
    try_one: impl Fn(&'a Row) -> Result<(), String> + Sync,
) {
    let rows = Mutex::new(rows);
    let problems = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let Some(row) = rows.lock().unwrap().next() else {
                        break;
                    };
                    if let Err(problem) = try_one(row) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Returns the codes of the verdicts that keep the last run from exit code 0, for one kernel or for all. Each occurs
/// once, and they are sorted.
pub fn broken_codes(dir: &Path, kernel: Option<&str>) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    let codes: BTreeSet<&str> = verdicts
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"];
            let named = [&subject["case"]["kernel"], &subject["unit"]["kernel"]];
            kernel.is_none_or(|kernel| named.iter().any(|name| **name == kernel))
        })
        .filter(|verdict| {
            let outcome = verdict["outcome"].as_str().unwrap();
            ["fail", "inconclusive", "environment"].contains(&outcome)
        })
        .map(|verdict| verdict["code"].as_str().unwrap())
        .collect();
    codes.into_iter().map(str::to_owned).collect()
}

/// Returns true if the record of the last run, which ended with `code`, is judged again to that code and to the bytes of
/// its report.
pub fn is_judged_alike(dir: &Path, code: Option<i32>) -> bool {
    let mut judge = gatekeeper();
    judge.current_dir(dir);
    let again = judge.args(["judge", RECORD, "--format", "json"]).output();
    let again = again.unwrap();
    again.status.code() == code && stdout(&again) == report(dir)
}

/// Runs in the simulator, and requires that the record is judged again to the same bytes.
pub fn simulate(dir: &Path, args: &[&str], code: i32) -> String {
    let mut all = vec!["run", "--provision", "--device", "sim"];
    all.extend(args);
    let said = stdout(&run(dir, &all, code));
    let again = run(dir, &["judge", RECORD, "--format", "json"], code);
    assert_eq!(stdout(&again), report(dir));
    said
}

/// Returns the gate and the message of each verdict that failed.
pub fn failed(dir: &Path) -> Vec<(String, String)> {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    verdicts
        .iter()
        .filter(|verdict| verdict["outcome"] == "fail")
        .map(|verdict| (text(&verdict["gate"]), text(&verdict["message"])))
        .collect()
}

/// Returns the gates of the verdicts that failed.
pub fn gates_that_failed(dir: &Path) -> Vec<String> {
    failed(dir).into_iter().map(|(gate, _)| gate).collect()
}

/// Makes a project with kernels that copy `x` to `y`, with four blocks of 64 threads. Each kernel has the index `i` and
/// its value `v`.
pub fn copies(kernels: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut source = "#include <cstdint>\n".to_owned();
    let mut yaml = "version: 1\narchitectures: [sm_90]\nkernels:\n".to_owned();
    for (name, before, body) in kernels {
        source += &format!(
            "{before}\nextern \"C\" __global__ void {name}(const float *x, float *y) {{\n\
             const int i = blockIdx.x * blockDim.x + threadIdx.x;\nconst float v = x[i];\n{body}\n}}\n"
        );
        yaml += &format!(
            "  {name}:\n    source: k.cu\n    entry: {name}\n    seeds: 2\n    tensors:\n      \
             x: {{type: f32, shape: [256]}}\n      y: {{role: out, type: f32, shape: [256]}}\n    \
             args: [{{tensor: x}}, {{tensor: y}}]\n    launch: {{grid: [4], block: [64]}}\n    \
             reference: {{unary: {{x: x, out: y, op: copy}}}}\n    gates: {{max_err: 0}}\n"
        );
    }
    std::fs::write(dir.path().join("k.cu"), source).unwrap();
    std::fs::write(dir.path().join("gates.yaml"), yaml).unwrap();
    dir
}

/// Returns the outcome, the code and the message of a gate of a kernel.
pub fn verdict(dir: &Path, kernel: &str, gate: &str) -> (String, String, String) {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let verdicts = report["verdicts"].as_array().unwrap();
    let found = verdicts
        .iter()
        .find(|verdict| verdict["subject"]["case"]["kernel"] == kernel && verdict["gate"] == gate);
    let found = found.unwrap();
    let code = found["reason"].get("code").unwrap_or(&found["code"]);
    (text(&found["outcome"]), text(code), text(&found["message"]))
}
