//! action.yml: its parts fit together, and its scripts do what they say, with programs in the place of gatekeeper and
//! cargo that write down how they were called. What GitHub itself does with it is seen only there.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn parsed(file: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

fn steps() -> Vec<Value> {
    parsed("action.yml")["runs"]["steps"]
        .as_array()
        .unwrap()
        .clone()
}

/// The script of a step, as a shell gets it.
fn script(name: &str) -> String {
    let step = steps().into_iter().find(|step| step["name"] == name);
    step.unwrap()["run"].as_str().unwrap().to_owned()
}

/// As a runner starts it for `shell: bash`.
fn bash(script: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
    bash
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

/// What became of the step that runs the gates.
struct Ran {
    /// How gatekeeper was called, without the words that it always gets.
    words: Vec<String>,
    code: Option<i32>,
    outputs: String,
    summary: String,
}

/// With a gatekeeper that writes what it is called with, then does this.
fn ran(dir: &Path, inputs: &[(&str, &str)], then: &str) -> Ran {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    program(
        &at("gatekeeper/bin/gatekeeper"),
        &format!(
            "#!/bin/bash\nif [ \"$1\" = run ]; then printf '%s\\n' \"$@\" > \"$LOG\"; fi\n{then}\n"
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
            ("BASE", ""),
            ("ALLOW_LOOSENED", "false"),
            ("TOOLCHAINS", ""),
        ])
        .envs(inputs.iter().copied());
    let code = bash.output().unwrap().status.code();
    let words = fs::read_to_string(at("log")).unwrap();
    let words: Vec<_> = words.lines().map(str::to_owned).collect();
    let always = ["run", "--provision", "--out", "out"];
    assert_eq!(words.get(..4).unwrap(), always);
    Ran {
        words: words.get(4..).unwrap().to_vec(),
        code,
        outputs: fs::read_to_string(at("outputs")).unwrap(),
        summary: fs::read_to_string(at("summary")).unwrap_or_default(),
    }
}

fn called(dir: &Path, inputs: &[(&str, &str)]) -> (Vec<String>, Option<i32>) {
    let ran = ran(dir, inputs, "exit 3");
    (ran.words, ran.code)
}

/// Of a gate that fails: the report is shown, and that the compiler is there is known.
#[test]
fn a_run_that_fails_is_reported_and_its_compiler_kept() {
    let dir = tempfile::tempdir().unwrap();
    let toolchains = dir.path().join("cache/toolchains");
    let inputs = [("TOOLCHAINS", toolchains.to_str().unwrap())];
    let fails = "mkdir -p out; echo '## gatekeeper' > out/report.md; exit 1";
    let first = ran(dir.path(), &inputs, fails);
    assert_eq!(first.code, Some(1));
    assert_eq!(first.outputs, "exit-code=1\n");
    assert_eq!(first.summary, "## gatekeeper\n");

    fs::create_dir_all(&toolchains).unwrap();
    let second = ran(dir.path(), &inputs, "exit 4");
    assert_eq!(
        second.outputs,
        format!("exit-code=4\ntoolchains={}\n", toolchains.display())
    );
    assert_eq!(second.summary, "", "of an earlier run");
}

#[test]
fn arguments_are_words_and_the_exit_code_is_gatekeepers() {
    let dir = tempfile::tempdir().unwrap();
    let (words, code) = called(dir.path(), &[("ARGS", "--require-gpu  $(id) sdpa_*\n")]);
    assert_eq!(words, ["--require-gpu", "$(id)", "sdpa_*"]);
    assert_eq!(code, Some(3));
}

/// With or without a base.
#[test]
fn a_fallback_is_allowed_where_the_input_says_so() {
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
    let (words, _) = called(dir.path(), &[("ALLOW_LOOSENED", "true")]);
    assert!(words.is_empty(), "{words:?}");
}

/// As actions/checkout leaves it: the last commit alone.
#[test]
fn the_base_of_a_shallow_clone_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, clone) = (dir.path().join("origin"), dir.path().join("clone"));
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
    git(dir.path(), &["clone", "--quiet", "--depth=1", &url, to]);
    let (words, _) = called(&clone, &[("BASE", &base)]);
    assert_eq!(words, [format!("--base={base}")]);
    assert_eq!(git(&clone, &["cat-file", "-t", &base]), "commit");

    let (words, _) = called(&clone, &[("BASE", &base), ("ALLOW_LOOSENED", "true")]);
    assert_eq!(
        words,
        [format!("--base={base}"), "--allow-loosened".to_owned()]
    );
    // What is no revision is gatekeeper's to refuse.
    let (words, _) = called(
        &clone,
        &[("BASE", "--upload-pack=x"), ("ALLOW_LOOSENED", "false")],
    );
    assert_eq!(words, ["--base=--upload-pack=x"]);
}

/// A workflow that says nothing of it compares a pull request with its base, and lets nothing be loosened.
#[test]
fn the_defaults_are_those_of_a_pull_request() {
    let inputs = &parsed("action.yml")["inputs"];
    assert_eq!(
        inputs["base"]["default"],
        "${{ github.event.pull_request.base.sha }}"
    );
    assert_eq!(inputs["allow-loosened"]["default"], "false");
    assert_eq!(inputs["allow-fallback"]["default"], "false");
}

/// What stands between `${{` and `}}`, in any text of a file.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let parts = text.split("${{").skip(1);
            found.extend(parts.map(|part| part.split("}}").next().unwrap().trim().to_owned()));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Object(object) => object.values().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// `x` and `y` of `inputs.x && inputs.y`.
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
    let action = parsed("action.yml");
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

/// An output that no step before has is empty text to GitHub, and an `if` on it is never true.
#[test]
fn every_output_is_one_that_an_earlier_step_has() {
    let outputs = |step: &Value| -> Vec<String> {
        match step["uses"].as_str() {
            Some(uses) if uses.starts_with("actions/cache/restore@") => vec!["cache-hit".into()],
            Some(_) => vec![],
            None => after("echo \"", &[step["run"].as_str().unwrap().to_owned()])
                .into_iter()
                .collect(),
        }
    };
    let mut known = BTreeSet::new();
    for step in steps() {
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
    expressions(&parsed("action.yml")["outputs"], &mut found);
    assert!(after("steps.", &found).is_subset(&known), "{found:?}");
}

/// Text put into a script would be run as a part of it.
#[test]
fn no_script_has_an_expression_in_it() {
    for step in steps() {
        if let Some(script) = step["run"].as_str() {
            assert!(!script.contains("${{"), "{script}");
            assert_eq!(step["shell"], "bash");
        }
    }
}

#[test]
fn what_others_wrote_is_pinned_to_a_version() {
    let mut used = Vec::new();
    for file in [
        "action.yml",
        ".github/workflows/gates.yml",
        ".github/workflows/release.yml",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let uses = text.lines().filter_map(|line| line.split_once("uses: "));
        used.extend(uses.map(|(_, name)| name.trim().to_owned()));
    }
    assert!(used.len() >= 6, "{used:?}");
    for name in used.iter().filter(|name| *name != "./") {
        let (_, version) = name.split_once('@').unwrap();
        let digits = version.strip_prefix('v').unwrap_or(version);
        assert!(digits.starts_with(|c: char| c.is_ascii_digit()), "{name}");
    }
}

/// What became of the step that takes a release from where these lie: exit code, what it said, and the version that
/// it installed.
fn installed(releases: &Path, reference: &str) -> (Option<i32>, String, Option<String>) {
    let temp = tempfile::tempdir().unwrap();
    let outputs = temp.path().join("outputs");
    fs::write(&outputs, "").unwrap();
    let done = bash(&script("Take gatekeeper from its release"))
        .env("GITHUB_ACTION_PATH", root())
        .env("GITHUB_OUTPUT", &outputs)
        .env("RUNNER_TEMP", temp.path())
        .env("RELEASES", format!("file://{}", releases.display()))
        .env("REF", reference)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let program = temp.path().join("gatekeeper/bin/gatekeeper");
    let version = program.exists().then(|| {
        let done = Command::new(program).arg("--version").output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    });
    let outputs = fs::read_to_string(outputs).unwrap();
    assert_eq!(outputs == "installed=true\n", version.is_some(), "{done:?}");
    (done.status.code(), said, version)
}

/// The real archive of this commit, and the action as GitHub would start it, but for where it downloads from.
#[test]
fn a_release_is_installed_by_its_checksum_and_anything_else_is_built() {
    let temp = tempfile::tempdir().unwrap();
    let releases = temp.path().join("releases");
    let version = env!("CARGO_PKG_VERSION");
    let here = releases.join(format!("v{version}"));
    fs::create_dir_all(&here).unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // As a release has it: without what only a debugger reads.
    let binary = temp.path().join("gatekeeper");
    let stripped = Command::new("strip")
        .args([env!("CARGO_BIN_EXE_gatekeeper"), "-o"])
        .arg(&binary)
        .status();
    assert!(stripped.unwrap().success());
    let packed = Command::new(root().join("packaging/archive"))
        .arg(&binary)
        .arg(&target)
        .arg(&here)
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let tag = format!("v{version}");
    let program = Some(format!("gatekeeper {version}\n"));

    let (code, said, got) = installed(&releases, &tag);
    assert_eq!((code, got), (Some(0), program.clone()), "{said}");
    let (_, said, got) = installed(&releases, &git(&root(), &["rev-parse", "HEAD"]));
    assert_eq!(got, program, "{said}");

    for (reference, reason) in [
        ("main", ""),
        (&*"0".repeat(40), "This commit is not that of"),
    ] {
        let (code, said, got) = installed(&releases, reference);
        assert_eq!((code, got), (Some(0), None), "{reference}");
        assert!(said.starts_with(reason), "{said}");
    }
    let nothing = temp.path().join("nothing");
    let (code, said, got) = installed(&nothing, &tag);
    assert_eq!((code, got), (Some(0), None));
    assert!(said.starts_with("There is no release"), "{said}");

    // Another archive under the same checksum is an attack or a broken disk, and nothing to build around.
    let archive = here.join(format!("gatekeeper-{version}-{target}.tar.gz"));
    fs::write(&archive, "another").unwrap();
    let (code, said, got) = installed(&releases, &tag);
    assert_eq!((code, got), (Some(4), None));
    assert!(said.contains("is not what its checksum says"), "{said}");
}

/// The outputs of the step that names keys, for an action at `action` on a runner with this cache.
fn keys(action: &Path, cache: &Path) -> Vec<(String, String)> {
    let temp = tempfile::tempdir().unwrap();
    let outputs = temp.path().join("outputs");
    let done = bash(&script("Look for what can be kept"))
        .env("GITHUB_ACTION_PATH", action)
        .env("GITHUB_OUTPUT", &outputs)
        .env("RUNNER_TEMP", "/runner temp")
        .env("RUNNER_OS", "Linux")
        .env("RUNNER_ARCH", "X64")
        .env("GATEKEEPER_CACHE", cache)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = fs::read_to_string(outputs).unwrap();
    let pairs = text.lines().map(|line| line.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn value<'a>(outputs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = outputs.iter().filter(|(of, _)| of == name);
    found.next().map(|(_, value)| value.as_str())
}

#[test]
fn another_version_has_another_key_and_what_is_no_part_of_it_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let (action, cache) = (dir.path().join("an action"), dir.path().join("cache"));
    for (file, text) in [
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("src/main.rs", "fn main() {}"),
        ("src/toolchain/install.rs", "13.0"),
        ("crates/verdict/src/lib.rs", ""),
        ("README.md", ""),
    ] {
        fs::create_dir_all(action.join(file).parent().unwrap()).unwrap();
        fs::write(action.join(file), text).unwrap();
    }
    let first = keys(&action, &cache);
    assert_eq!(value(&first, "root"), Some("/runner temp/gatekeeper"));
    let toolchains = cache.join("toolchains");
    assert_eq!(value(&first, "toolchains"), toolchains.to_str());
    for name in ["program", "compiler"] {
        let key = value(&first, name).unwrap();
        assert!(
            key.starts_with(&format!("gatekeeper-{name}-Linux-X64-glibc-")),
            "{key}"
        );
    }

    fs::write(action.join("README.md"), "other").unwrap();
    assert_eq!(keys(&action, &cache), first);
    fs::write(action.join("src/main.rs"), "fn main() { }").unwrap();
    let second = keys(&action, &cache);
    assert_ne!(value(&second, "program"), value(&first, "program"));
    assert_eq!(value(&second, "compiler"), value(&first, "compiler"));
    fs::write(action.join("src/toolchain/install.rs"), "13.1").unwrap();
    assert_ne!(
        value(&keys(&action, &cache), "compiler"),
        value(&first, "compiler")
    );

    // A compiler that is there is neither fetched nor written over.
    fs::create_dir_all(&toolchains).unwrap();
    assert_eq!(value(&keys(&action, &cache), "toolchains"), None);
}

/// The build, on a runner with nothing but these programs.
fn built(programs: &Path) -> (Option<i32>, String) {
    let done = Command::new("/bin/bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
        .arg(script("Build gatekeeper"))
        .env("PATH", programs)
        .env("GITHUB_ACTION_PATH", "/an action")
        .env("RUNNER_TEMP", "/runner temp")
        .output()
        .unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    (done.status.code(), said)
}

#[test]
fn without_cargo_the_build_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = built(dir.path());
    assert_eq!(code, Some(4));
    assert_eq!(
        said,
        "::error title=gatekeeper::no cargo on PATH to build gatekeeper with; install Rust in a step before, \
         for example: curl -sSf https://sh.rustup.rs | sh -s -- -y\n"
    );
    program(
        &dir.path().join("cargo"),
        "#!/bin/bash\nprintf '%s\\n' \"$@\"\n",
    );
    let (code, said) = built(dir.path());
    assert_eq!(code, Some(0));
    assert_eq!(
        said,
        "install\n--locked\n--path\n/an action\n--root\n/runner temp/gatekeeper\n"
    );
}
