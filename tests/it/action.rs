//! Tests that the parts of action.yml fit together, and that its scripts do what they say. Programs take the place of
//! gatekeeper and cargo, and write down how they were called. What GitHub itself does can only be seen on GitHub.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::root;
use judge::fixture;
use model::Seen;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn parsed(file: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

/// The action that runs the gates, and the one that comments.
const ACTIONS: [&str; 2] = ["action.yml", "comment/action.yml"];

fn steps_of(action: &str) -> Vec<Value> {
    parsed(action)["runs"]["steps"].as_array().unwrap().clone()
}

fn steps() -> Vec<Value> {
    steps_of("action.yml")
}

/// Returns the script of a step, as a shell gets it.
fn script(name: &str) -> String {
    let mut steps = ACTIONS.iter().flat_map(|action| steps_of(action));
    let step = steps.find(|step| step["name"] == name);
    step.unwrap()["run"].as_str().unwrap().to_owned()
}

/// Returns a shell as a runner starts it for `shell: bash`.
fn bash(script: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
    bash.env("GITHUB_ACTION_PATH", root());
    bash
}

/// Returns what a runner reads from the file at GITHUB_OUTPUT, a line `name=value` for each output. An output that is
/// set twice has the last value.
fn outputs(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines();
    let mut told = String::new();
    while let Some(line) = lines.next() {
        let at = |what| line.find(what).unwrap_or(usize::MAX);
        let (name, value) = if at("<<") < at("=") {
            let (name, end) = line.split_once("<<").unwrap();
            let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            (name, value.join("\\n"))
        } else {
            let (name, value) = line.split_once('=').unwrap();
            (name, value.to_owned())
        };
        told += &format!("{name}={value}\n");
    }
    told
}

fn program(file: &Path, script: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn git(dir: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let done = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(who)
        .args(args)
        .output();
    let done = done.unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// The outcome of the step that runs the gates.
struct Ran {
    /// The words with which gatekeeper was called, without those that it always gets.
    words: Vec<String>,
    filters: Vec<String>,
    code: Option<i32>,
    said: String,
    /// The cache that it writes, and the one that it reads.
    caches: String,
    outputs: String,
    summary: String,
}

/// Runs the step with a gatekeeper that writes down its arguments, and then does what `then` says.
fn ran(dir: &Path, inputs: &[(&str, &str)], then: &str) -> Ran {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    program(
        &at("gatekeeper/bin/gatekeeper"),
        &format!(
            "#!/bin/bash\nif [ \"$1\" = run ]; then printf '%s\\n' \"$@\" > \"$LOG\"; \
             echo \"${{GATEKEEPER_CACHE-}}:${{GATEKEEPER_SHARED_CACHE-}}\" > \"$LOG.caches\"; fi\n{then}\n"
        ),
    );
    let mut bash = bash(&script("Run the gates"));
    bash.current_dir(dir)
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("GITHUB_STEP_SUMMARY", at("summary"))
        .env("LOG", at("log"))
        .envs([
            ("OUT", "out"),
            ("ARGS", ""),
            ("CONFIG", "gates.yaml"),
            ("FILTER", ""),
            ("BASE", ""),
            ("PULL", ""),
            ("KEPT", ""),
            ("CACHE", "/home/x/.cache/gatekeeper"),
            ("LOOSENED_LABEL", ""),
            ("LABEL_SET", ""),
            ("IS_LABELED", "false"),
            ("MERGE", ""),
        ])
        .env_remove("GATEKEEPER_CACHE")
        .env_remove("GATEKEEPER_SHARED_CACHE")
        .envs(inputs.iter().copied());
    let done = bash.output().unwrap();
    let caches = fs::read_to_string(at("log.caches")).unwrap();
    let words = fs::read_to_string(at("log")).unwrap();
    let words: Vec<_> = words.lines().map(str::to_owned).collect();
    let always = [
        "run",
        "--provision",
        "--config",
        "gates.yaml",
        "--out",
        "out",
    ];
    assert_eq!(words.get(..6).unwrap(), always);
    // Filters are behind two dashes, because no filter can be two dashes.
    let dashes = words.iter().position(|word| word == "--").unwrap();
    Ran {
        words: words.get(6..dashes).unwrap().to_vec(),
        filters: words.get(dashes + 1..).unwrap().to_vec(),
        code: done.status.code(),
        said: String::from_utf8(done.stdout).unwrap(),
        caches: caches
            .trim_end()
            .replace(temp.path().to_str().unwrap(), "TEMP"),
        outputs: outputs(&at("outputs")),
        summary: fs::read_to_string(at("summary")).unwrap_or_default(),
    }
}

fn called(dir: &Path, inputs: &[(&str, &str)]) -> (Vec<String>, Option<i32>) {
    let ran = ran(dir, inputs, "exit 3");
    (ran.words, ran.code)
}

#[test]
fn a_run_that_fails_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let fails = "mkdir -p out; echo '## gatekeeper' > out/report.md; exit 1";
    let first = ran(dir.path(), &[], fails);
    assert_eq!(first.code, Some(1));
    assert_eq!(first.outputs, "exit-code=1\n");
    assert_eq!(first.summary, "## gatekeeper\n");
    let second = ran(dir.path(), &[], "exit 4");
    assert_eq!(second.outputs, "exit-code=4\n");
    assert_eq!(second.summary, "", "of an earlier run");
}

/// The name of a directory is text that a contributor chose.
#[test]
fn a_name_with_line_breaks_forges_no_output() {
    for name in [
        "out\nexit-code=0",
        "out\nexit-code=0\n",
        "a\nexit-code<<EOF\n0\nEOF\nx",
        "out\r\nexit-code=0",
        "a=b<<c",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        let fails = "mkdir -p out; echo '## gatekeeper' > out/report.md; echo '{' > out/report.json; exit 1";
        let ran = ran(&dir, &[], fails);
        assert_eq!(ran.code, Some(1), "{}", ran.said);
        let last = ran
            .outputs
            .lines()
            .rfind(|line| line.starts_with("exit-code="));
        assert_eq!(last, Some("exit-code=1"), "{}", ran.outputs);
        assert!(ran.outputs.contains("\nreport=/"), "{}", ran.outputs);
    }
}

/// Only one function sets outputs from values. All other text that is written there is constant.
#[test]
fn no_value_is_written_where_it_could_end_its_own_output() {
    let files = [
        "action.yml",
        "comment/action.yml",
        "packaging/install",
        "packaging/output",
    ];
    let files = files.map(|file| root().join(file));
    let dirs = [".github/workflows", "examples/ci"].map(|dir| root().join(dir));
    let found = dirs
        .iter()
        .flat_map(|dir| fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path());
    let mut writes = Vec::new();
    for file in found.chain(files) {
        let text = fs::read_to_string(&file).unwrap();
        writes.extend(
            text.lines()
                .filter(|line| {
                    let names = [
                        "GITHUB_OUTPUT",
                        "GITHUB_ENV",
                        "GITHUB_PATH",
                        "GITHUB_STATE",
                        "set-output",
                    ];
                    names.iter().any(|name| line.contains(name))
                })
                .map(|line| line.trim().to_owned()),
        );
    }
    writes.retain(|line| !line.starts_with('#'));
    let own = r#"printf '%s<<%s\n%s\n%s\n' "$1" "$end" "$2" "$end" >> "$GITHUB_OUTPUT""#;
    let (own, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(|line| line == own);
    assert_eq!(own.len(), 1);
    for line in others {
        let (written, _) = line.split_once(" >> ").unwrap();
        assert!(
            written.starts_with("echo \"") && !written.contains(['$', '`']),
            "{line}"
        );
    }
}

/// The step makes, empties and writes `out`, and a link that a commit puts there could lead anywhere.
#[test]
fn out_that_leads_through_a_link_is_refused_and_nothing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for there in ["elsewhere", "elsewhere/below", "checkout", "checkout/real"] {
        fs::create_dir(at(there)).unwrap();
        fs::write(at(there).join("report.json"), "{").unwrap();
    }
    std::os::unix::fs::symlink("../elsewhere", at("checkout/out")).unwrap();
    std::os::unix::fs::symlink("real", at("checkout/inside")).unwrap();
    let refused = |out: &str| {
        let temp = tempfile::tempdir().unwrap();
        let done = bash(&script("Run the gates"))
            .current_dir(at("checkout"))
            .env("RUNNER_TEMP", temp.path())
            .env("GITHUB_OUTPUT", temp.path().join("outputs"))
            .envs(
                [
                    "ARGS",
                    "BASE",
                    "PULL",
                    "KEPT",
                    "LOOSENED_LABEL",
                    "MERGE",
                    "BINARY",
                ]
                .map(|name| (name, "")),
            )
            .env("ALLOW_FALLBACK", "")
            .env("OUT", out)
            .output()
            .unwrap();
        let outputs = outputs(&temp.path().join("outputs"));
        (done.status.code(), outputs)
    };
    for out in [
        "out",
        "out/",
        "out/.",
        "./out/below",
        "out/new",
        "real/../out",
        "inside",
    ] {
        assert_eq!(refused(out), (Some(2), "exit-code=2\n".to_owned()), "{out}");
    }
    for there in ["elsewhere", "elsewhere/below", "checkout/real"] {
        assert!(at(there).join("report.json").exists(), "{there}");
    }
    // This one is no link, so the step goes on to a program that does not exist.
    assert_eq!(refused("real").0, Some(127));
    assert!(!at("checkout/real/report.json").exists());
}

/// The outputs are read from what the program itself writes.
#[test]
fn verdict_counts_and_report_are_outputs_for_later_steps() {
    let dir = tempfile::tempdir().unwrap();
    let mut right = fixture::record();
    right.environment.sources = Some("5eed".to_owned());
    let record = common::write_record(dir.path(), "h100.json", &right);
    let mut wrong = right.clone();
    if let Seen::Got(device) = &mut wrong.environment.device {
        device.name = "NVIDIA L4".to_owned();
    }
    let case = fixture::case_id("fast", "small");
    fixture::recheck(&mut wrong, &case, |_, facts| facts.unwritten = 1);
    let other = common::write_record(dir.path(), "l4.json", &wrong);
    let gatekeeper = common::binary();
    let merges = |records: &str, heading: &str| {
        let merge = format!("exec {} merge {records} --out out", gatekeeper.display());
        let ran = ran(dir.path(), &[], &merge);
        let output = |name: &str| {
            let found = ran.outputs.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap().to_owned()
        };
        let counts: Value = serde_json::from_str(&output("counts=")).unwrap();
        let report = fs::read_to_string(output("report=")).unwrap();
        assert!(report.starts_with(heading), "{report}");
        (ran.code, output("verdict="), counts)
    };
    let (code, verdict, counts) = merges(&record, "### ✅ gatekeeper: PASS: 44 passed\n");
    assert_eq!((code, &*verdict), (Some(0), "pass"));
    assert_eq!((&counts["pass"], &counts["fail"]), (&44.into(), &0.into()));
    // With several GPU models, the outputs have the worst verdict and the sum of all gates.
    let (code, verdict, counts) = merges(&format!("{record} {other}"), "## gatekeeper: ");
    assert_eq!((code, &*verdict), (Some(1), "fail"));
    assert_eq!(counts["fail"], 1, "{counts}");
    // A run that ended before it wrote a report does not show an earlier one.
    let ended = ran(dir.path(), &[], "exit 2");
    assert_eq!(ended.outputs, "exit-code=2\n");
}

#[test]
fn records_of_shards_are_merged_and_nothing_is_run() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["1", "2"] {
        fs::create_dir_all(dir.path().join("shards").join(name)).unwrap();
        fs::write(dir.path().join("shards").join(name).join("record.json"), "").unwrap();
    }
    let log = dir.path().join("log");
    let then = format!("printf '%s\\n' \"$@\" > {}; exit 3", log.display());
    let inputs = [
        ("MERGE", "shards/*/record.json none/*.json"),
        ("BASE", "HEAD"),
        ("ARGS", "--require-gpu"),
    ];
    let temp = tempfile::tempdir().unwrap();
    program(
        &temp.path().join("gatekeeper/bin/gatekeeper"),
        &format!("#!/bin/bash\n{then}\n"),
    );
    let done = bash(&script("Run the gates"))
        .current_dir(dir.path())
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", temp.path().join("outputs"))
        .env("GITHUB_STEP_SUMMARY", temp.path().join("summary"))
        .envs(
            [
                "PULL",
                "KEPT",
                "LOOSENED_LABEL",
                "LABEL_SET",
                "ALLOW_FALLBACK",
            ]
            .map(|name| (name, "")),
        )
        .env("OUT", "out")
        .envs(inputs)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "merge\n--out\nout\n--\nshards/1/record.json\nshards/2/record.json\n"
    );
    for name in ["Look for what can be kept", "Provide the compiler"] {
        let step = steps().into_iter().find(|step| step["name"] == name);
        assert!(step.unwrap().to_string().contains("inputs.merge"), "{name}");
    }
}

/// Compares two files in a directory each, as a workflow downloads them. `then` is what gatekeeper does.
fn compared(
    binary: &str,
    base: &str,
    args: &str,
    then: &str,
) -> (std::process::Output, String, String) {
    let dir = tempfile::tempdir().unwrap();
    for file in ["new/k-2.whl", "old/k-1.whl", "many/a.whl", "many/b.whl"] {
        let file = dir.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    program(
        &at("gatekeeper/bin/gatekeeper"),
        &format!("#!/bin/bash\nprintf '%s\\n' \"$@\" >> \"$LOG\"\n{then}\n"),
    );
    let done = bash(&script("Run the gates"))
        .current_dir(dir.path())
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("GITHUB_STEP_SUMMARY", at("summary"))
        .env("LOG", at("log"))
        .envs(["PULL", "KEPT", "LOOSENED_LABEL", "LABEL_SET", "MERGE"].map(|name| (name, "")))
        .envs([
            ("OUT", "out"),
            ("BASE", "HEAD"),
            ("ALLOW_FALLBACK", "true"),
            ("ARGS", args),
            ("BINARY", binary),
            ("BINARY_BASE", base),
        ])
        .output()
        .unwrap();
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    (done, read("log"), outputs(&at("outputs")))
}

#[test]
fn compiled_files_are_compared_and_nothing_is_run() {
    let limit = "--limit=registers=+0%\n";
    let (done, words, outputs) = compared("new/*.whl", "old/*.whl", limit, "exit 1");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert_eq!(
        words,
        "binary\n--out\nout\n--limit=registers=+0%\n--base=old/k-1.whl\n--\nnew/k-2.whl\n"
    );
    assert_eq!(outputs, "exit-code=1\n");
    // One file is compared under two compilers.
    let args = "--base-toolchain=13.0\n\n  --toolchain=13.3";
    let (_, words, _) = compared("new/k-2.whl", "", args, "exit 0");
    assert_eq!(
        words,
        "binary\n--out\nout\n--base-toolchain=13.0\n--toolchain=13.3\n--\nnew/k-2.whl\n"
    );
    let step = step_named("Provide the compiler").to_string();
    assert!(step.contains("inputs.binary == ''"), "{step}");
}

/// If two files match, it is not clear which one was meant. A download that left nothing must not pass.
#[test]
fn a_glob_of_compiled_files_has_to_match_one() {
    for (binary, base, says) in [
        (
            "many/*.whl",
            "old/*.whl",
            "binary: 2 files match many/*.whl",
        ),
        (
            "none/*.whl",
            "old/*.whl",
            "binary: 0 files match none/*.whl",
        ),
        (
            "new/*.whl",
            "none/*.whl",
            "binary-base: 0 files match none/*.whl",
        ),
        ("new/$(id)", "", "binary: 0 files match new/$(id)"),
    ] {
        let (done, words, outputs) = compared(binary, base, "", "exit 0");
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains(says), "{said}");
        assert_eq!((&*words, &*outputs), ("", "exit-code=2\n"));
    }
}

/// This runs the real program, and looks at what later steps get.
#[test]
fn a_comparison_of_compiled_files_has_the_outputs_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let source = "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] *= 2; }";
    fs::write(dir.path().join("k.cu"), source).unwrap();
    let cubin = ["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"];
    crate::binaries::nvcc(dir.path(), &cubin);
    let file = dir.path().join("k.cubin").display().to_string();
    let then = format!("exec {} \"$@\"", common::binary().display());
    let (done, _, outputs) = compared(&file, &file, "", &then);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(
        outputs.starts_with("exit-code=0\nverdict=pass\ncounts={"),
        "{outputs}"
    );
    assert!(outputs.contains("\"pass\":1,"), "{outputs}");
    assert!(outputs.contains("out/report.md\n"), "{outputs}");
}

/// Returns the actions of the step that provides a compiler, for a gatekeeper that finds one or ends with this code.
fn provided(toolchains: &str, show: &str) -> (String, String) {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let stand_in = format!(
        "#!/bin/bash\necho \"$*\" >> \"$LOG\"\nif [ \"$2\" = show ]; then {show}; fi\npwd -P >> \"$LOG.install\"\n"
    );
    program(&at("gatekeeper/bin/gatekeeper"), &stand_in);
    let done = bash(&script("Provide the compiler"))
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("LOG", at("log"))
        .env("TOOLCHAINS", toolchains)
        .env("CONFIG", "gates.yaml")
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    // The step does not start where the checkout is.
    let here = temp.path().canonicalize().unwrap();
    let installed = read("log.install");
    let is_here = installed.lines().all(|line| Path::new(line) == here);
    assert!(is_here || !read("log").contains("install"), "{installed}");
    (read("log"), outputs(&at("outputs")))
}

#[test]
fn installs_and_caches_a_missing_compiler_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().to_str().unwrap();
    let (asked, outputs) = provided(there, "exit 4");
    let looks = "toolchain show --config gates.yaml\n";
    assert_eq!(asked, format!("{looks}toolchain install\n"));
    assert_eq!(outputs, format!("toolchains={there}\n"));
    // The runner has a compiler of its own, or gates.yaml has a mistake.
    for code in ["exit 0", "exit 2"] {
        let (asked, outputs) = provided("/nowhere", code);
        assert_eq!((&*asked, &*outputs), (looks, ""));
    }

    let names: Vec<_> = steps()
        .iter()
        .map(|step| step["name"].as_str().unwrap().to_owned())
        .collect();
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    for saved in ["Keep gatekeeper", "Keep the compiler"] {
        assert!(place(saved) < place("Run the gates"), "{saved}");
    }
}

#[test]
fn a_pull_request_has_a_cache_of_its_own_and_nothing_of_it_is_saved_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let pull = ran(dir.path(), &[("PULL", "7")], "exit 0");
    assert_eq!(
        pull.caches,
        "TEMP/gatekeeper-pull:/home/x/.cache/gatekeeper"
    );
    let push = ran(dir.path(), &[], "exit 0");
    assert_eq!(push.caches, ":");

    let step = |name: &str| {
        let found = steps().into_iter().find(|step| step["name"] == name);
        found.unwrap()
    };
    for name in [
        "Take what this pull request built from the cache",
        "Keep what this pull request built",
    ] {
        let with = &step(name)["with"];
        for path in with["path"].as_str().unwrap().lines() {
            assert!(
                path.starts_with("${{ runner.temp }}/gatekeeper-pull/"),
                "{path}"
            );
        }
        let key = with["key"].as_str().unwrap();
        assert!(key.starts_with("${{ steps.keys.outputs.pull }}"), "{key}");
    }
    let kept = step("Keep what was built and computed");
    let when = kept["if"].as_str().unwrap();
    assert!(when.contains("steps.keys.outputs.pull == ''"), "{when}");
}

/// A label stays when commits are added, but the event that started the run belongs to one commit.
#[test]
fn a_label_allows_looser_gates_only_in_the_run_that_setting_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let with = |set: &str, is: &str, label: &str| {
        let inputs = [
            ("BASE", "HEAD"),
            ("LOOSENED_LABEL", label),
            ("LABEL_SET", set),
            ("IS_LABELED", is),
        ];
        let ran = ran(dir.path(), &inputs, "exit 0");
        let allowed = ran.words.contains(&"--allow-loosened".to_owned());
        let told = ran.said.contains("::notice title=gatekeeper::the label");
        (allowed, told)
    };
    assert_eq!(with("loose", "true", "loose"), (true, false));
    // Commits were added, or another label was set.
    assert_eq!(with("", "true", "loose"), (false, true));
    assert_eq!(with("other", "true", "loose"), (false, true));
    assert_eq!(with("", "false", "loose"), (false, false));
    // The workflow names no label.
    assert_eq!(with("loose", "true", ""), (false, false));
    assert_eq!(with("", "false", ""), (false, false));

    let env = &steps()
        .into_iter()
        .find(|step| step["id"] == "run")
        .unwrap()["env"];
    assert_eq!(
        env["LABEL_SET"],
        "${{ github.event.action == 'labeled' && github.event.label.name || '' }}"
    );
}

#[test]
fn pull_request_target_is_refused_before_anything_else() {
    let first = &steps()[0];
    assert_eq!(first["if"], "github.event_name == 'pull_request_target'");
    let done = bash(first["run"].as_str().unwrap()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(done.stdout.starts_with(b"::error title=gatekeeper::"));
}

#[test]
fn an_argument_or_a_filter_is_a_line_and_the_exit_code_is_gatekeepers() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [
        ("ARGS", "  --require-gpu\n\n$(id)\n--out=a b\n"),
        ("FILTER", "sdpa_*@{small,ragged}\n--require-gpu\n"),
    ];
    let ran = ran(dir.path(), &inputs, "exit 3");
    assert_eq!(ran.words, ["--require-gpu", "$(id)", "--out=a b"]);
    assert_eq!(ran.filters, ["sdpa_*@{small,ragged}", "--require-gpu"]);
    assert_eq!(ran.code, Some(3));
}

/// Workflows had this form before each argument had a line of its own.
#[test]
fn an_option_and_its_value_on_one_line_are_refused_with_how_to_write_them() {
    let (done, called, outputs) = compared("new/k-2.whl", "", "--limit registers=+5%", "exit 0");
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("write --limit=registers=+5% or two lines"),
        "{said}"
    );
    assert_eq!((&*called, &*outputs), ("", "exit-code=2\n"));
}

/// The option is passed on with a base and without one.
#[test]
fn allows_a_fallback_only_by_its_input() {
    let dir = tempfile::tempdir().unwrap();
    for (input, words) in [
        ("true", &["--allow-fallback"][..]),
        ("false", &[]),
        ("", &[]),
    ] {
        let (called, _) = called(dir.path(), &[("ALLOW_FALLBACK", input)]);
        assert_eq!(called, words, "{input}");
    }
}

#[test]
fn without_a_base_nothing_is_loosened() {
    let dir = tempfile::tempdir().unwrap();
    let set = [("LOOSENED_LABEL", "loose"), ("LABEL_SET", "loose")];
    let (words, _) = called(dir.path(), &set);
    assert!(words.is_empty(), "{words:?}");
}

/// Makes a clone as actions/checkout does, with the last commit alone. Also returns the commit before it.
fn shallow_clone(dir: &Path) -> (PathBuf, String) {
    let (origin, clone) = (dir.join("origin"), dir.join("clone"));
    fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "--quiet", "--initial-branch=main"]);
    for message in ["base", "head"] {
        git(
            &origin,
            &["commit", "--quiet", "--allow-empty", "-m", message],
        );
    }
    let base = git(&origin, &["rev-parse", "HEAD~1"]);
    let url = format!("file://{}", origin.display());
    let to = clone.to_str().unwrap();
    git(dir, &["clone", "--quiet", "--depth=1", &url, to]);
    (clone, base)
}

#[test]
fn the_base_of_a_shallow_clone_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let (clone, base) = shallow_clone(dir.path());
    let (words, _) = called(&clone, &[("BASE", &base)]);
    assert_eq!(words, [format!("--base={base}")]);
    assert_eq!(git(&clone, &["cat-file", "-t", &base]), "commit");

    let set = [
        ("BASE", &*base),
        ("LOOSENED_LABEL", "loose"),
        ("LABEL_SET", "loose"),
    ];
    let (words, _) = called(&clone, &set);
    assert_eq!(
        words,
        [format!("--base={base}"), "--allow-loosened".to_owned()]
    );
    // gatekeeper itself refuses a name that is not a revision.
    let (words, _) = called(&clone, &[("BASE", "--upload-pack=x")]);
    assert_eq!(words, ["--base=--upload-pack=x"]);
}

/// A pull request can commit a bare repository where the gates are, and its settings name programs.
#[test]
fn a_bare_repository_among_the_files_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (clone, base) = shallow_clone(dir.path());
    let (bare, mark) = (clone.join("gates/below"), dir.path().join("mark"));
    git(&clone, &["init", "--quiet", "--bare", "gates/below"]);
    let touch = format!("touch {}", mark.display());
    for (key, value) in [
        ("remote.origin.url", format!("ext::{touch}")),
        ("protocol.ext.allow", "always".to_owned()),
        ("core.fsmonitor", touch),
    ] {
        git(&bare, &["config", key, &value]);
    }
    let plain = Command::new("git")
        .current_dir(&bare)
        .args(["-c", "safe.bareRepository=all", "fetch", "origin"])
        .output();
    assert!(!plain.unwrap().status.success() && mark.exists());
    fs::remove_file(&mark).unwrap();
    let (words, _) = called(&bare, &[("BASE", &base)]);
    assert_eq!(words, [format!("--base={base}")]);
    assert!(!mark.exists());
    // The base is fetched all the same, from the place of which this is a clone.
    assert_eq!(git(&clone, &["cat-file", "-t", &base]), "commit");
}

/// A workflow that sets no inputs compares a pull request with its base, and allows no loosened gates.
#[test]
fn the_defaults_are_those_of_a_pull_request() {
    let inputs = &parsed("action.yml")["inputs"];
    assert_eq!(
        inputs["base"]["default"],
        "${{ github.event.pull_request.base.sha }}"
    );
    assert_eq!(inputs["loosened-label"]["default"], "");
    assert_eq!(inputs["allow-fallback"]["default"], "false");
    assert_eq!(inputs["config"]["default"], model::DEFAULT_CONFIG);
}

/// Collects the text between `${{` and `}}` anywhere in a file.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.extend(
                text.split("${{")
                    .skip(1)
                    .map(|part| part.split("}}").next().unwrap().trim().to_owned()),
            );
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Object(object) => object.values().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// Returns `x` and `y` for `inputs.x && inputs.y`.
fn after(prefix: &str, expressions: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for expression in expressions {
        for rest in expression.split(prefix).skip(1) {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c))
                .unwrap_or(rest.len());
            names.insert(rest[..end].to_owned());
        }
    }
    names
}

#[test]
fn every_input_is_declared_used_and_explained() {
    for action in ACTIONS {
        let action = parsed(action);
        let mut found = Vec::new();
        expressions(&action["runs"], &mut found);
        let inputs = action["inputs"].as_object().unwrap();
        let declared: BTreeSet<_> = inputs.keys().cloned().collect();
        assert_eq!(after("inputs.", &found), declared);
        for (name, input) in inputs {
            assert!(input["description"].as_str().unwrap().len() > 10, "{name}");
            assert!(input["default"].is_string(), "{name} has no default");
        }
    }
}

/// To GitHub, an output that no earlier step has is empty text, and an `if` on it is never true.
#[test]
fn every_output_is_one_that_an_earlier_step_has() {
    let outputs = |step: &Value| -> Vec<String> {
        match step["uses"].as_str() {
            Some(uses) if uses.starts_with("actions/cache/restore@") => vec!["cache-hit".into()],
            Some(_) => vec![],
            None => after("output ", &[step["run"].as_str().unwrap().to_owned()])
                .into_iter()
                .collect(),
        }
    };
    for action in ACTIONS {
        let mut known = BTreeSet::new();
        for step in steps_of(action) {
            let mut found = Vec::new();
            expressions(&step, &mut found);
            found.extend(step["if"].as_str().map(str::to_owned));
            for used in after("steps.", &found) {
                assert!(known.contains(&used), "{used} in {step}");
            }
            if let Some(id) = step["id"].as_str() {
                known.extend(
                    outputs(&step)
                        .iter()
                        .map(|name| format!("{id}.outputs.{name}")),
                );
            }
        }
        let mut found = Vec::new();
        expressions(&parsed(action)["outputs"], &mut found);
        assert!(after("steps.", &found).is_subset(&known), "{found:?}");
    }
}

/// A shell would run text that is put into a script as a part of the script.
#[test]
fn no_script_has_an_expression_in_it() {
    for step in ACTIONS.iter().flat_map(|action| steps_of(action)) {
        if let Some(script) = step["run"].as_str() {
            assert!(!script.contains("${{"), "{script}");
            assert_eq!(step["shell"], "bash");
        }
    }
}

/// The owner of a tag can move it to other code later.
#[test]
fn actions_of_others_are_pinned_to_a_commit() {
    let mut used = Vec::new();
    let workflows = fs::read_dir(root().join(".github/workflows")).unwrap();
    let files = workflows.map(|entry| entry.unwrap().path());
    for file in files.chain(ACTIONS.map(|action| root().join(action))) {
        let text = fs::read_to_string(file).unwrap();
        used.extend(
            text.lines()
                .filter_map(|line| line.split_once("uses: "))
                .map(|(_, name)| name.trim().to_owned()),
        );
    }
    assert!(used.len() >= 12, "{used:?}");
    for name in used.iter().filter(|name| !name.starts_with("./")) {
        let (_, pin) = name.split_once('@').unwrap();
        let (commit, version) = pin.split_once(" # v").unwrap();
        assert!(
            commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
            "{name}"
        );
        assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name}");
    }
}

/// Runs the step that installs gatekeeper from these releases, on a runner whose cargo only writes down how it was
/// called. Returns the exit code, the output, and the installed version.
fn installed(releases: &Path, inputs: &[(&str, &str)]) -> (Option<i32>, String, Option<String>) {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let cargo = "#!/bin/bash\necho \"$PWD: cargo $*\"\nmkdir -p \"$RUNNER_TEMP/gatekeeper/bin\" \"$CARGO_TARGET_DIR/release\"\n\
                 touch \"$CARGO_TARGET_DIR/release/libgatekeeper_inject.so\"\n";
    program(&at("bin/cargo"), cargo);
    fs::create_dir(at("checkout")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let done = bash(&script("Install gatekeeper"))
        .current_dir(at("checkout"))
        .env("PATH", format!("{}:{path}", at("bin").display()))
        .env("CARGO_TARGET_DIR", at("target"))
        .env("RUNNER_TEMP", temp.path())
        .env("RELEASES", format!("file://{}", releases.display()))
        .envs([("REF", ""), ("VERSION", ""), ("SHA256", "")])
        .envs(inputs.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let installed = at("gatekeeper/bin");
    let program = installed.join("gatekeeper");
    // `programs:` of gates.yaml need this library.
    let has_library = installed.join("libgatekeeper_inject.so").exists();
    assert_eq!(has_library, done.status.success(), "{done:?}");
    let version = program.exists().then(|| {
        let done = Command::new(program).arg("--version").output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    });
    (done.status.code(), said, version)
}

/// The archive is the real one of this commit, and the action runs as GitHub would start it. Only the place of the
/// download is another.
#[test]
fn a_release_is_installed_by_its_checksum_and_anything_else_is_built() {
    let temp = tempfile::tempdir().unwrap();
    let releases = temp.path().join("releases");
    let version = env!("CARGO_PKG_VERSION");
    let here = releases.join(format!("v{version}"));
    fs::create_dir_all(&here).unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // The program of the tests has 200 MB. A small file proves as much and packs faster.
    let binary = temp.path().join("gatekeeper");
    let calls = format!(
        "#!/bin/sh\nexec '{}' \"$@\"\n",
        env!("CARGO_BIN_EXE_gatekeeper")
    );
    program(&binary, &calls);
    // This file takes the place of the library, which the archive only carries.
    let library = temp.path().join("libgatekeeper_inject.so");
    fs::write(&library, "a library").unwrap();
    let packed = Command::new(root().join("packaging/archive"))
        .arg(&binary)
        .arg(&library)
        .arg(&target)
        .arg(&here)
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let tag = format!("v{version}");
    let program = Some(format!("gatekeeper {version}\n"));

    let (code, said, got) = installed(&releases, &[("REF", &tag)]);
    assert_eq!((code, got), (Some(0), program.clone()), "{said}");
    let (_, said, got) = installed(&releases, &[("REF", &git(&root(), &["rev-parse", "HEAD"]))]);
    assert_eq!(got, program, "{said}");

    for (reference, reason) in [
        ("main", ""),
        (&*"0".repeat(40), "This commit is not that of"),
    ] {
        let (code, said, got) = installed(&releases, &[("REF", reference)]);
        assert_eq!((code, got), (Some(0), None), "{reference}");
        assert!(said.starts_with(reason), "{said}");
        // It installs in a directory of its own, because cargo and rustup take settings that name programs from where
        // they start.
        let here = root().canonicalize().unwrap();
        let built = format!(
            "{}: cargo install --locked --path . --root ",
            here.display()
        );
        assert!(said.contains(&built), "{said}");
    }
    let nothing = temp.path().join("nothing");
    let (code, said, got) = installed(&nothing, &[("REF", &tag)]);
    assert_eq!((code, got), (Some(0), None));
    assert!(said.starts_with("There is no release"), "{said}");

    // A workflow that names a release gets this one or none.
    let archive = here.join(format!("gatekeeper-{version}-{target}.tar.gz"));
    let checksum =
        fs::read_to_string(here.join(format!("gatekeeper-{version}-{target}.tar.gz.sha256")));
    let checksum = checksum.unwrap();
    let right = checksum.split_whitespace().next().unwrap();
    let named = |releases: &Path, version: &str, sha256: &str| {
        installed(
            releases,
            &[("REF", "main"), ("VERSION", version), ("SHA256", sha256)],
        )
    };
    for name in [version, &tag] {
        let (code, said, got) = named(&releases, name, right);
        assert_eq!((code, got), (Some(0), program.clone()), "{said}");
    }
    let other = "0".repeat(64);
    for (releases, version, sha256, code, says) in [
        (
            &releases,
            version,
            &*other,
            4,
            "is not what its checksum says",
        ),
        (&nothing, version, right, 4, "there is no archive of v"),
        (&releases, version, "", 2, "`version` needs `sha256`"),
        (
            &releases,
            "",
            right,
            2,
            "`version` is the number of a release",
        ),
        (
            &releases,
            "../x",
            right,
            2,
            "`version` is the number of a release",
        ),
    ] {
        let (ended, said, got) = named(releases, version, sha256);
        assert_eq!((ended, got), (Some(code), None), "{said}");
        assert!(said.contains(says), "{said}");
    }

    // Another archive under the same checksum is an attack or a broken disk, and no reason to build from source.
    fs::write(&archive, "another").unwrap();
    let (code, said, got) = installed(&releases, &[("REF", &tag)]);
    assert_eq!((code, got), (Some(4), None));
    assert!(said.contains("is not what its checksum says"), "{said}");
}

/// Returns the outputs of the step that names keys, for an action at `action` on a runner with this cache.
fn keys(action: &Path, cache: &Path, pull: &str) -> Vec<(String, String)> {
    let temp = tempfile::tempdir().unwrap();
    let outputs = temp.path().join("outputs");
    let done = bash(&script("Look for what can be kept"))
        .env("GITHUB_ACTION_PATH", action)
        .env("GITHUB_OUTPUT", &outputs)
        .env("RUNNER_TEMP", "/runner temp")
        .env("RUNNER_OS", "Linux")
        .env("RUNNER_ARCH", "X64")
        .env("GATEKEEPER_CACHE", cache)
        .env("PULL", pull)
        .envs([("VERSION", ""), ("SHA256", "")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = self::outputs(&outputs);
    text.lines()
        .map(|line| line.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn value<'a>(outputs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    outputs
        .iter()
        .find(|(of, _)| of == name)
        .map(|(_, value)| value.as_str())
}

#[test]
fn the_cache_key_changes_with_sources_of_the_program_only() {
    let dir = tempfile::tempdir().unwrap();
    let (action, cache) = (dir.path().join("an action"), dir.path().join("cache"));
    for (file, text) in [
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("src/main.rs", "fn main() {}"),
        ("crates/build/src/toolchain/install.rs", "13.0"),
        ("crates/model/src/lib.rs", ""),
        ("README.md", ""),
        ("packaging/output", include_str!("../../packaging/output")),
    ] {
        fs::create_dir_all(action.join(file).parent().unwrap()).unwrap();
        fs::write(action.join(file), text).unwrap();
    }
    program(
        &action.join("packaging/program-key"),
        include_str!("../../packaging/program-key"),
    );
    let first = keys(&action, &cache, "");
    assert_eq!(value(&first, "root"), Some("/runner temp/gatekeeper"));
    let toolchains = cache.join("toolchains");
    assert_eq!(value(&first, "toolchains"), toolchains.to_str());
    for name in ["program", "compiler", "results"] {
        let key = value(&first, name).unwrap();
        assert!(
            key.starts_with(&format!("gatekeeper-{name}-Linux-X64-glibc-")),
            "{key}"
        );
    }

    assert_eq!(value(&first, "cache"), cache.to_str());
    assert_eq!(value(&first, "pull"), None);
    let pull = keys(&action, &cache, "7");
    let key = value(&pull, "pull").unwrap();
    assert!(key.starts_with("gatekeeper-pull-7-Linux-X64-"), "{key}");
    assert_ne!(
        value(&pull, "pull"),
        value(&keys(&action, &cache, "77"), "pull")
    );

    fs::write(action.join("README.md"), "other").unwrap();
    assert_eq!(keys(&action, &cache, ""), first);
    fs::write(action.join("src/main.rs"), "fn main() { }").unwrap();
    let second = keys(&action, &cache, "");
    assert_ne!(value(&second, "program"), value(&first, "program"));
    assert_eq!(value(&second, "compiler"), value(&first, "compiler"));
    fs::write(action.join("crates/build/src/toolchain/install.rs"), "13.1").unwrap();
    assert_ne!(
        value(&keys(&action, &cache, ""), "compiler"),
        value(&first, "compiler")
    );

    // If there is a compiler, nothing is fetched or overwritten, and what is built stays there.
    fs::create_dir_all(&toolchains).unwrap();
    for name in ["toolchains", "results", "pull"] {
        assert_eq!(value(&keys(&action, &cache, "7"), name), None, "{name}");
    }
}

#[test]
fn a_build_without_cargo_names_the_remedy() {
    let (temp, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["bash", "dirname", "mktemp", "rm", "sed", "uname"] {
        let found = Command::new("which").arg(name).output().unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        std::os::unix::fs::symlink(path.trim(), programs.path().join(name)).unwrap();
    }
    let done = Command::new(root().join("packaging/install"))
        .env("PATH", programs.path())
        .env("RUNNER_TEMP", temp.path())
        .envs([
            ("REF", "main"),
            ("VERSION", ""),
            ("SHA256", ""),
            ("RELEASES", ""),
        ])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(4), "{done:?}");
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "::error title=gatekeeper::no cargo on PATH to build gatekeeper with; install Rust in a step before, \
         for example: curl -sSf https://sh.rustup.rs | sh -s -- -y\n"
    );
}

/// The outcome of the step that comments.
struct Commented {
    code: Option<i32>,
    said: String,
    /// The calls of GitHub that change something.
    wrote: Vec<String>,
    body: String,
}

const GH: &str = r#"#!/bin/bash
filter= endpoint= method=GET body= name=
while [ $# -gt 0 ]; do
  case $1 in
    --jq) filter=$2; shift ;;
    --method) method=$2; shift ;;
    -F | -f) case $2 in body=@*) body=${2#body=@} ;; name=*) name=${2#name=} ;; esac; shift ;;
    repos/*) endpoint=$1 ;;
  esac
  shift
done
if [ "$method" != GET ]; then
  echo "$method $endpoint" >> "$DATA/wrote"
  cp "$body" "$DATA/body"
  exit "${FAILS:-0}"
fi
case $endpoint in
  */pulls) file=pulls.json ;;
  */artifacts) file=$name.json ;;
  */zip) cat "$DATA/artifact.zip"; exit ;;
  */comments) file=comments.json ;;
esac
jq -r "$filter" "$DATA/$file"
"#;

/// With a GitHub that has this, and a record of this text in the artifact of `gpu`: none where its size is 0. The job
/// `checks` left none.
fn commented(pulls: &Value, comments: &Value, size: u64, record: &str, fails: &str) -> Commented {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    program(&at("bin/gh"), GH);
    program(
        &at("gatekeeper/bin/gatekeeper"),
        "#!/bin/bash\ngrep -q good \"$2\" && echo '## gatekeeper: PASS'\n",
    );
    fs::write(at("pulls.json"), pulls.to_string()).unwrap();
    fs::write(at("comments.json"), comments.to_string()).unwrap();
    let found = match size {
        0 => serde_json::json!([]),
        size => serde_json::json!([{"id": 5, "size_in_bytes": size}]),
    };
    for (name, found) in [
        ("gatekeeper-checks", serde_json::json!([])),
        ("gatekeeper", found),
    ] {
        let artifacts = serde_json::json!({"artifacts": found});
        fs::write(at(&format!("{name}.json")), artifacts.to_string()).unwrap();
    }
    fs::write(at("record.json"), record).unwrap();
    let zip = Command::new("python3")
        .current_dir(temp.path())
        .args(["-m", "zipfile", "-c", "artifact.zip", "record.json"])
        .status();
    assert!(zip.unwrap().success());
    let path = std::env::var("PATH").unwrap();
    let done = bash(&script("Comment on the pull request"))
        .env("PATH", format!("{}:{path}", at("bin").display()))
        .env("RUNNER_TEMP", temp.path())
        .env("DATA", temp.path())
        .env("FAILS", fails)
        .envs([
            ("ARTIFACTS", "gatekeeper-checks\n  gatekeeper\n"),
            (
                "CONCLUSION",
                if record == "skipped" {
                    "skipped"
                } else {
                    "failure"
                },
            ),
            ("REPOSITORY", "o/r"),
            ("RUN", "9"),
            ("RUN_URL", "https://github.com/o/r/actions/runs/9"),
            ("HEAD", "aaaaaaaaaaaaaaaa"),
            ("OWNER", "mallory"),
            ("BRANCH", "main; rm -rf $(x)"),
        ])
        .output()
        .unwrap();
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    Commented {
        code: done.status.code(),
        said: String::from_utf8(done.stdout).unwrap(),
        wrote: read("wrote").lines().map(str::to_owned).collect(),
        body: read("body"),
    }
}

#[test]
#[ignore = "needs jq and unzip: cargo test --test it action:: -- --ignored"]
fn a_comment_is_made_once_on_the_pull_request_of_the_commit() {
    let pull = |number: u32, sha: &str| serde_json::json!({"number": number, "head": {"sha": sha}});
    let pulls = serde_json::json!([pull(8, "bbbb"), pull(7, "aaaaaaaaaaaaaaaa")]);
    let none = serde_json::json!([]);
    let first = commented(&pulls, &none, 1000, "good", "0");
    assert_eq!(first.code, Some(0), "{}", first.said);
    assert_eq!(first.wrote, ["POST repos/o/r/issues/7/comments"]);
    let body = "<!-- gatekeeper: gatekeeper -->\n## gatekeeper: PASS\n\n\
                <sub>[The run](https://github.com/o/r/actions/runs/9) of aaaaaaaaaaaa</sub>\n";
    assert_eq!(first.body, body);

    // The comment must be the action's own, and not one that another user wrote to look like it.
    let comment = |id: u32, login: &str, body: &str| serde_json::json!({"id": id, "user": {"login": login}, "body": body});
    let comments = serde_json::json!([
        comment(1, "mallory", body),
        comment(2, "github-actions[bot]", "of another workflow"),
        comment(3, "github-actions[bot]", body),
    ]);
    let again = commented(&pulls, &comments, 1000, "good", "0");
    assert_eq!(again.wrote, ["PATCH repos/o/r/issues/comments/3"]);

    // If a job left nothing this time, its old comment would stay as it was.
    let of_checks = serde_json::json!([comment(
        4,
        "github-actions[bot]",
        "<!-- gatekeeper: gatekeeper-checks -->"
    )]);
    let both = commented(&pulls, &of_checks, 1000, "good", "0");
    assert_eq!(
        both.wrote,
        [
            "PATCH repos/o/r/issues/comments/4",
            "POST repos/o/r/issues/7/comments"
        ]
    );
    // The label is not the one that belongs to the gates.
    let skipped = commented(&pulls, &comments, 0, "skipped", "0");
    assert_eq!(
        (skipped.code, skipped.wrote.len()),
        (Some(0), 0),
        "{}",
        skipped.said
    );

    // Commits were added since, and their own run comments.
    let newer = commented(
        &serde_json::json!([pull(7, "cccc")]),
        &none,
        1000,
        "good",
        "0",
    );
    assert_eq!(
        (newer.code, newer.wrote.len()),
        (Some(0), 0),
        "{}",
        newer.said
    );
}

#[test]
#[ignore = "needs jq and unzip: cargo test --test it action:: -- --ignored"]
fn a_record_that_cannot_be_read_is_said_and_a_comment_that_fails_changes_nothing() {
    let pulls = serde_json::json!([{"number": 7, "head": {"sha": "aaaaaaaaaaaaaaaa"}}]);
    let none = serde_json::json!([]);
    let large = 64 << 20;
    for (record, size) in [("forged", 1000), ("good", large + 1), ("good", 0)] {
        let told = commented(&pulls, &none, size, record, "0");
        assert_eq!(told.code, Some(0), "{}", told.said);
        assert!(
            told.body.contains("## gatekeeper: no report\n"),
            "{}",
            told.body
        );
    }
    let failed = commented(&pulls, &none, 1000, "good", "1");
    assert_eq!(failed.code, Some(0));
    assert!(
        failed
            .said
            .contains("::warning title=gatekeeper::no comment: ")
    );
}

/// A job with write permission runs no code of a pull request, and no gates.
#[test]
fn the_workflow_that_comments_checks_out_the_default_branch_alone() {
    let workflow = parsed(".github/workflows/comment.yml");
    let steps = workflow["jobs"]["comment"]["steps"].as_array().unwrap();
    for step in steps {
        let uses = step["uses"].as_str().unwrap();
        if uses.starts_with("actions/checkout@") {
            assert!(step["with"]["ref"].is_null() && step["with"]["repository"].is_null());
        } else {
            assert_eq!(uses, "./comment");
        }
    }
    let refuses = &steps_of("comment/action.yml")[0];
    assert_eq!(refuses["if"], "github.event_name != 'workflow_run'");
    let done = bash(refuses["run"].as_str().unwrap()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
}

/// Returns the workflows of this repository, of its documents and of its examples, each with its origin.
fn workflows() -> Vec<(String, Value)> {
    let files = [".github/workflows", "examples/ci"]
        .iter()
        .flat_map(|dir| fs::read_dir(root().join(dir)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yml"))
        .map(|path| {
            let dir = path.parent().unwrap().display().to_string();
            (dir, fs::read_to_string(&path).unwrap())
        });
    let pages = fs::read_dir(root().join("docs")).unwrap();
    let blocks = pages
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let blocks = blocks.flat_map(|path| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let blocks = text.split("```yaml\n").skip(1);
        let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
        blocks
            .map(|block| (path.display().to_string(), block))
            .collect::<Vec<_>>()
    });
    let parsed = files.chain(blocks).filter_map(|(place, text)| {
        let workflow: Value = serde_yaml::from_str(&text).ok()?;
        (workflow["on"].is_object() && workflow["jobs"].is_object()).then_some((place, workflow))
    });
    parsed.collect()
}

/// GitHub follows the run of a workflow by its `name`. A workflow that follows a name that does not exist never runs,
/// and reports nothing.
#[test]
fn a_workflow_that_follows_another_names_one_that_is_there() {
    let workflows = workflows();
    let mut pairs = 0;
    for (place, workflow) in &workflows {
        let followed = workflow["on"]["workflow_run"]["workflows"].as_array();
        for name in followed.into_iter().flatten() {
            let mut beside = workflows.iter().filter(|(other, _)| other == place);
            assert!(
                beside.any(|(_, other)| other["name"] == *name),
                "{place}: {name}"
            );
            pairs += 1;
        }
    }
    assert_eq!(pairs, 2, "this repository's and that of docs/ci.md");
}

#[test]
fn every_job_ends_and_no_two_runs_of_a_pull_request_go_on() {
    for (place, workflow) in workflows() {
        let jobs = workflow["jobs"].as_object().unwrap();
        for (name, job) in jobs {
            assert!(job["timeout-minutes"].is_u64(), "{place}: {name}");
        }
        let has_group = |of: &Value| !of["concurrency"].is_null();
        if !workflow["on"]["pull_request"].is_null() {
            assert!(
                has_group(&workflow) || jobs.values().all(has_group),
                "{place}: {workflow}"
            );
        }
    }
}

/// GitHub takes a skipped check for a passed one. Under the name of the job, it would replace the failed run of the
/// same commit.
#[test]
fn another_label_starts_no_job_and_its_check_has_another_name() {
    let mut jobs = 0;
    for (place, workflow) in workflows() {
        let types = workflow["on"]["pull_request"]["types"].as_array();
        if !types.is_some_and(|types| types.contains(&"labeled".into())) {
            continue;
        }
        let group = workflow["concurrency"]["group"].as_str().unwrap();
        assert!(
            group.contains("github.event.label.name != 'gate-loosened' && github.run_id"),
            "{place}"
        );
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            let ours = "(!github.event.label || github.event.label.name == 'gate-loosened')";
            let when = job["if"].as_str().unwrap();
            assert!(
                when.contains(ours.trim_matches(['(', ')'])),
                "{place}: {name}: {when}"
            );
            let shown = job["name"].as_str().unwrap();
            assert!(
                shown.starts_with(&format!("${{{{ {ours} && ")),
                "{place}: {name}: {shown}"
            );
            assert!(
                shown.ends_with(" || 'another label' }}"),
                "{place}: {name}: {shown}"
            );
            jobs += 1;
        }
    }
    assert_eq!(jobs, 5, "three of this repository and two of docs/ci.md");
}

fn step_named(name: &str) -> Value {
    let found = steps().into_iter().find(|step| step["name"] == name);
    found.unwrap()
}
