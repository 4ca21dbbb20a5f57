//! Tests the jobs of examples/ci and of the nightly workflow, with the variables and files that a CI system gives them.
//! The systems themselves are not used.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{binary, edit, git, project, root, stdout};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn parsed(file: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

fn program(file: &Path, script: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A project in git, with programs that come before the machine's on PATH.
struct Machine {
    project: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Machine {
    /// Makes a project with two shapes of `copy` and one of `dial`, which are three shards. The gatekeeper uses the
    /// simulator in place of a GPU.
    fn new() -> Self {
        let (project, programs) = (project(), tempfile::tempdir().unwrap());
        let small = "      small: {N: 1000}\n";
        let gates = project.path().join("gates.yaml");
        edit(&gates, small, &format!("{small}      large: {{N: 2000}}\n"));
        let dir = project.path();
        fs::write(
            dir.join(".gitignore"),
            "gatekeeper-out\nshards\nartifacts\n",
        )
        .unwrap();
        git(dir, &["init", "--quiet", "--initial-branch=main"]);
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "-m", "first"]);
        let script = format!(
            "#!/bin/bash\nfor word; do shift; if [ \"$word\" = --require-gpu ]; then set -- \"$@\" --device sim; \
             else set -- \"$@\" \"$word\"; fi; done\nexec {} \"$@\"\n",
            binary().display()
        );
        program(&programs.path().join("gatekeeper"), &script);
        Self { project, programs }
    }

    fn dir(&self) -> &Path {
        self.project.path()
    }

    fn bash(&self, script: &str, env: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", script])
            .current_dir(self.dir())
            .env("PATH", format!("{}:{path}", self.programs.path().display()))
            .envs(env.iter().copied())
            .output()
            .unwrap()
    }

    /// Runs a script, and requires this exit code.
    fn does(&self, script: &str, env: &[(&str, &str)], code: i32) -> String {
        let output = self.bash(script, env);
        assert_eq!(output.status.code(), Some(code), "{script}\n{output:?}");
        stdout(&output)
    }

    fn break_the_large_shape(&self) {
        let store = "y[i] = staged[255 - threadIdx.x]";
        let wrong = "y[i] = n == 2000 ? 0 : staged[255 - threadIdx.x]";
        edit(&self.dir().join("copy.cu"), store, wrong);
        git(self.dir(), &["commit", "--quiet", "-a", "-m", "wrong"]);
    }

    fn clean(&self) {
        for dir in ["gatekeeper-out", "shards"] {
            let _ = fs::remove_dir_all(self.dir().join(dir));
        }
    }
}

/// The variables of the environment, as a system sets them.
type Variables = Vec<(&'static str, String)>;

/// The jobs of a system: one without a GPU, one for each of three shards, and the verdict.
struct Jobs {
    checks: String,
    shard: Box<dyn Fn(u32) -> (String, Variables)>,
    /// The exit code of a shard in which a gate fails.
    red_shard: i32,
    verdict: String,
}

fn hold(jobs: &Jobs) {
    let machine = Machine::new();
    let shard = |number: u32, code: i32| {
        let (script, env) = (jobs.shard)(number);
        let env: Vec<_> = env
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let output = machine.bash(&script, &env);
        let ended = output.status.code().unwrap();
        assert!(ended == 0 || ended == code, "{script}\n{output:?}");
        ended
    };
    machine.does(&jobs.checks, &[], 0);
    assert!(machine.dir().join("gatekeeper-out/junit.xml").exists());
    machine.clean();
    (1..=3).for_each(|number| assert_eq!(shard(number, 0), 0));
    let said = machine.does(&jobs.verdict, &[], 0);
    assert!(said.contains("PASS: "), "{said}");
    assert!(machine.dir().join("gatekeeper-out/junit.xml").exists());
    // A runner that broke left no record.
    fs::remove_dir_all(machine.dir().join("shards/2")).unwrap();
    machine.does(&jobs.verdict, &[], 2);
    machine.clean();
    machine.break_the_large_shape();
    machine.does(&jobs.checks, &[], 1);
    machine.clean();
    let codes: Vec<_> = (1..=3)
        .map(|number| shard(number, jobs.red_shard))
        .collect();
    assert!(codes.contains(&jobs.red_shard), "{codes:?}");
    let said = machine.does(&jobs.verdict, &[], 1);
    assert!(said.contains("✗ copy/default@large"), "{said}");
}

#[test]
fn the_jobs_of_gitlab_run_as_documented() {
    let file = parsed("examples/ci/gitlab-ci.yml");
    let script = |job: &str| {
        let lines: Vec<_> = file[job]["script"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        lines.join("\n")
    };
    assert_eq!(file["gpu"]["parallel"], 3);
    assert_eq!(
        file["gpu"]["allow_failure"]["exit_codes"],
        serde_json::json!([1, 3])
    );
    let gpu = script("gpu");
    hold(&Jobs {
        checks: script("checks"),
        shard: Box::new(move |number| {
            let env = vec![
                ("CI_NODE_INDEX", number.to_string()),
                ("CI_NODE_TOTAL", "3".to_owned()),
            ];
            (gpu.clone(), env)
        }),
        red_shard: 1,
        verdict: script("verdict"),
    });
}

#[test]
fn the_steps_of_buildkite_run_as_documented() {
    let file = parsed("examples/ci/buildkite.yml");
    let step = |key: &str| {
        file["steps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|step| step["key"] == key)
            .unwrap()
            .clone()
    };
    // Buildkite replaces variables when it uploads the pipeline, and leaves those with two dollar signs to the job.
    let command = |key: &str| step(key)["command"].as_str().unwrap().replace("$$", "$");
    let once = |key: &str| step(key)["command"].as_str().unwrap().replace("$$", "");
    for key in ["checks", "gpu", "verdict", "baselines"] {
        assert!(!once(key).contains('$'), "{key}");
    }
    assert_eq!(step("gpu")["parallelism"], 3);
    let gpu = command("gpu");
    let agent = "buildkite-agent() { [ \"$1 $2\" = 'artifact download' ]; }\n";
    hold(&Jobs {
        checks: command("checks"),
        shard: Box::new(move |number| {
            let env = vec![
                ("BUILDKITE_PARALLEL_JOB", (number - 1).to_string()),
                ("BUILDKITE_PARALLEL_JOB_COUNT", "3".to_owned()),
            ];
            (gpu.clone(), env)
        }),
        red_shard: 1,
        verdict: format!("{agent}{}", command("verdict")),
    });
}

/// Returns the shell scripts of a stage, with the changes that Groovy makes to a string.
fn steps_of_jenkins(text: &str, stage: &str) -> Vec<String> {
    let begin = text.find(&format!("stage('{stage}')")).unwrap();
    let rest = &text[begin..];
    let end = rest[1..].find("stage('").map_or(rest.len(), |at| at + 1);
    let mut scripts = Vec::new();
    let mut rest = &rest[..end];
    while let Some(at) = rest.find(" sh '") {
        rest = &rest[at + 4..];
        let quote = if rest.starts_with("'''") { "'''" } else { "'" };
        let (script, after) = rest[quote.len()..].split_once(quote).unwrap();
        // To Groovy and to the shell, an escaped end of a line does not end the line.
        scripts.push(script.replace("\\\n", ""));
        rest = after;
    }
    scripts
}

#[test]
fn the_stages_of_jenkins_run_as_documented() {
    let text = fs::read_to_string(root().join("examples/ci/Jenkinsfile")).unwrap();
    let only = |stage: &str| {
        let scripts = steps_of_jenkins(&text, stage);
        assert_eq!(scripts.len(), 1, "{stage}");
        scripts[0].clone()
    };
    assert!(text.contains("values '1', '2', '3'"));
    let gpu = only("shard");
    let verdict = steps_of_jenkins(&text, "verdict");
    // Between the two scripts, the stashes are unpacked.
    assert_eq!((verdict.len(), &*verdict[0]), (2, "rm -rf shards"));
    hold(&Jobs {
        checks: only("checks"),
        shard: Box::new(move |number| (gpu.clone(), vec![("SHARD", number.to_string())])),
        // The shard's record is stashed, so the script must succeed.
        red_shard: 0,
        verdict: verdict[1].clone(),
    });
}

/// Makes a machine next to a remote, with a gatekeeper that adds a line for each record.
fn nights() -> (Machine, tempfile::TempDir) {
    let (machine, remote) = (Machine::new(), tempfile::tempdir().unwrap());
    git(
        remote.path(),
        &["init", "--quiet", "--bare", "--initial-branch=main"],
    );
    git(
        remote.path(),
        &["config", "receive.advertisePushOptions", "true"],
    );
    let url = remote.path().to_str().unwrap();
    git(machine.dir(), &["remote", "add", "origin", url]);
    let script = "#!/bin/sh\n[ \"$1 $2 $3\" = 'baseline update --record' ] || exit 9\n\
                  mkdir -p baselines\n[ \"$4\" = same ] || echo \"$4\" >> baselines/sessions\n";
    program(&machine.programs.path().join("gatekeeper"), script);
    fs::create_dir(machine.dir().join("baselines")).unwrap();
    commit_sessions(&machine, "agreed\n");
    (machine, remote)
}

fn commit_sessions(machine: &Machine, text: &str) {
    let dir = machine.dir();
    git(dir, &["checkout", "--quiet", "main"]);
    fs::write(dir.join("baselines/sessions"), text).unwrap();
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "agreed"]);
    git(dir, &["push", "--quiet", "origin", "main"]);
}

const PROPOSE: &str = "examples/ci/propose-baselines";

fn propose(machine: &Machine, arguments: &str) -> String {
    // A job starts with a clean checkout of the main branch.
    git(machine.dir(), &["checkout", "--quiet", "--force", "main"]);
    let script = format!("{} {arguments}", root().join(PROPOSE).display());
    machine.does(&script, &[], 0)
}

fn proposed(remote: &Path) -> String {
    let mut show = Command::new("git");
    show.arg("-C").arg(remote);
    let output = show
        .args(["show", "gatekeeper/baselines:baselines/sessions"])
        .output();
    stdout(&output.unwrap())
}

#[test]
fn nights_that_nobody_merged_yet_stay_until_the_baselines_are_others() {
    let (machine, remote) = nights();
    assert_eq!(propose(&machine, "same"), "");
    assert_eq!(
        propose(&machine, "one -o merge_request.create"),
        "gatekeeper/baselines\n"
    );
    assert_eq!(proposed(remote.path()), "agreed\none\n");
    propose(&machine, "two");
    assert_eq!(proposed(remote.path()), "agreed\none\ntwo\n");
    // Other changes of the main branch do not matter.
    git(machine.dir(), &["checkout", "--quiet", "--force", "main"]);
    git(
        machine.dir(),
        &["commit", "--quiet", "--allow-empty", "-m", "a kernel"],
    );
    propose(&machine, "three");
    assert_eq!(proposed(remote.path()), "agreed\none\ntwo\nthree\n");
    let log = ["log", "--format=%s", "main..gatekeeper/baselines"];
    let commits = Command::new("git")
        .arg("-C")
        .arg(machine.dir())
        .args(log)
        .output();
    assert_eq!(stdout(&commits.unwrap()).lines().count(), 1);
    commit_sessions(&machine, "agreed anew\n");
    propose(&machine, "four");
    assert_eq!(proposed(remote.path()), "agreed anew\nfour\n");
}

#[test]
fn a_record_becomes_a_branch_of_baselines() {
    let machine = Machine::new();
    let remote = tempfile::tempdir().unwrap();
    git(remote.path(), &["init", "--quiet", "--bare"]);
    let url = remote.path().to_str().unwrap();
    machine.does("gatekeeper run --provision --require-gpu", &[], 0);
    let script = format!(
        "{} gatekeeper-out/record.json",
        root().join(PROPOSE).display()
    );
    let env = [("BASELINES_REMOTE", url), ("BASELINES_BRANCH", "night")];
    assert_eq!(machine.does(&script, &env, 0), "night\n");
    let mut list = Command::new("git");
    list.arg("-C").arg(remote.path());
    let files = list
        .args(["ls-tree", "-r", "--name-only", "night"])
        .output();
    let files = stdout(&files.unwrap());
    assert!(
        files.contains("baselines/copy/default/resources-"),
        "{files}"
    );
}

/// This runs the step of the workflow, with other programs in place of those that it calls.
#[test]
fn the_nightly_workflow_opens_one_pull_request() {
    let workflow = parsed(".github/workflows/nightly.yml");
    let jobs = workflow["jobs"].as_object().unwrap();
    // The job that runs kernels has no token with write permission.
    assert_eq!(
        jobs["gates"]["permissions"],
        serde_json::json!({"contents": "read"})
    );
    let steps = jobs["baselines"]["steps"].as_array().unwrap();
    let step = steps
        .iter()
        .find(|step| step["name"] == "Propose the baselines");
    let script = step.unwrap()["run"].as_str().unwrap();

    let machine = Machine::new();
    let temp = tempfile::tempdir().unwrap();
    let log = temp.path().join("log");
    let stand_in = format!(
        "#!/bin/bash\nif [ \"$2\" = list ]; then echo $OPEN; else echo \"$*\" >> {}; fi\n",
        log.display()
    );
    program(&machine.programs.path().join("gh"), &stand_in);
    let propose = "#!/bin/sh\necho \"$BASELINES_REMOTE $1\" >&2\nprintf '%s' \"$BRANCH\"\n";
    program(&machine.dir().join(PROPOSE), propose);
    let temp = temp.path().to_str().unwrap();
    let run = |branch: &str, open: &str| {
        let env = [
            ("RUNNER_TEMP", temp),
            ("GH_TOKEN", "secret"),
            ("REPOSITORY", "owner/name"),
            ("MAIN", "main"),
            ("SERVER", "https://github.com"),
            ("BRANCH", branch),
            ("OPEN", open),
        ];
        let output = machine.bash(script, &env);
        assert!(output.status.success(), "{output:?}");
        let said = common::stderr(&output);
        let remote =
            "https://x-access-token:secret@github.com/owner/name gatekeeper-out/record.json";
        assert_eq!(said.trim(), remote);
        fs::read_to_string(&log).unwrap_or_default()
    };
    assert_eq!(run("", ""), "", "nothing new");
    assert_eq!(run("gatekeeper/baselines", "7"), "", "it is open");
    let created = "pr create --repo owner/name --base main --head gatekeeper/baselines --title Baselines of the night \
                   --body-file gatekeeper-out/report.md\n";
    assert_eq!(run("gatekeeper/baselines", ""), created);
}

/// Users copy the files from the places where the page has them.
#[test]
fn every_file_of_the_examples_is_on_their_page() {
    let dir: PathBuf = root().join("examples/ci");
    let page = fs::read_to_string(dir.join("README.md")).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "README.md" || page.contains(&format!("]({name})")),
            "{name}"
        );
    }
}

/// A pip that writes a wheel with the name of what was requested.
const PIP: &str = r#"#!/bin/bash
echo "$PWD: $*" >> "$LOG"
while [ $# -gt 1 ]; do
  if [ "$1" = --dest ]; then dest=$2; fi
  shift
done
mkdir -p "$dest"
echo > "$dest/$1.whl"
"#;

/// Runs the step of examples/ci/upgrade.yml that downloads the wheels of two requirements.txt. Returns its exit code,
/// its text, its arguments to pip, and its outputs.
fn download(old: &str, new: &str) -> (Option<i32>, String, String, String) {
    let workflow = parsed("examples/ci/upgrade.yml");
    let steps = workflow["jobs"]["wheel"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == "wheels").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    for (requirements, message) in [(old, "base"), (new, "head")] {
        fs::write(dir.join("requirements.txt"), requirements).unwrap();
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "--allow-empty", "-m", message]);
    }
    program(&at("bin/python3"), PIP);
    let path = std::env::var("PATH").unwrap();
    let done = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
        .arg(step["run"].as_str().unwrap())
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", at("bin").display()))
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("LOG", at("log"))
        .env("BASE", "HEAD~1")
        .env("PACKAGE", step["env"]["PACKAGE"].as_str().unwrap())
        .output()
        .unwrap();
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    let asked = read("log").replace(
        temp.path().canonicalize().unwrap().to_str().unwrap(),
        "TEMP",
    );
    (done.status.code(), stdout(&done), asked, read("outputs"))
}

#[test]
fn the_wheels_of_both_sides_of_a_bump_are_downloaded() {
    let old = "torch==2.9.0\nxformers==0.0.31 --hash=sha256:00\n";
    let (code, said, asked, outputs) = download(old, &old.replace("0.0.31", "0.0.32.post1"));
    assert_eq!(code, Some(0), "{said}");
    let pip = |side: &str, version: &str| {
        format!(
            "TEMP: -I -m pip download --quiet --no-deps --only-binary :all: --dest {side} xformers=={version}\n"
        )
    };
    assert_eq!(asked, pip("new", "0.0.32.post1") + &pip("old", "0.0.31"));
    assert_eq!(outputs, "changed=true\n");
    // Another package was changed.
    let (code, said, asked, outputs) = download(old, &old.replace("2.9.0", "2.9.1"));
    assert_eq!((code, &*asked, &*outputs), (Some(0), "", ""));
    assert_eq!(said, "xformers stays at 0.0.31.\n");
}

/// Text of the pull request is either a version, or is refused.
#[test]
fn requirements_that_pin_no_version_are_refused() {
    let old = "xformers==0.0.31\n";
    for new in [
        "xformers>=0.0.31\n",
        "xformers @ https://example.org/x.whl\n",
        "xformers==$(id)\n",
        "xformers==0.0.31\nxformers==0.0.32\n",
        "",
    ] {
        let (code, said, asked, outputs) = download(old, new);
        assert_eq!((code, &*asked, &*outputs), (Some(2), "", ""), "{new}");
        assert!(
            said.contains("does not pin xformers to one version"),
            "{said}"
        );
    }
    // Text behind the version is not passed on.
    let evil = "xformers==0.0.32 --index-url https://example.org\n";
    let (code, _, asked, _) = download(old, evil);
    assert_eq!(code, Some(0));
    assert!(!asked.contains("example.org"), "{asked}");
}

#[test]
fn the_workflow_of_a_bump_may_only_read_and_gives_the_action_what_it_takes() {
    let workflow = parsed("examples/ci/upgrade.yml");
    assert_eq!(
        workflow["permissions"],
        serde_json::json!({"contents": "read"})
    );
    let on: Vec<_> = workflow["on"].as_object().unwrap().keys().collect();
    assert_eq!(on, ["pull_request"]);
    let steps = workflow["jobs"]["wheel"]["steps"].as_array().unwrap();
    let checkout = &steps[0]["with"];
    assert_eq!(checkout["persist-credentials"], false);
    let is_ours = |step: &&Value| step["uses"] == "OWNER/gatekeeper@main";
    let ours = steps.iter().find(is_ours).unwrap();
    let inputs = parsed("action.yml")["inputs"].clone();
    for input in ours["with"].as_object().unwrap().keys() {
        assert!(inputs[input].is_object(), "{input}");
    }
}
