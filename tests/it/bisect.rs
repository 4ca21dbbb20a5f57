//! `bisect` over small repositories, in the simulator, and over compilers.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{copies, edit, git, run, stderr, stdout};
use gatekeeper::bisect::log::Log;
use gatekeeper::bisect::search::Answer;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const LOG: &str = "gatekeeper-out/bisect.json";
const COPY: &str = "y[i] = v;";

fn commit(dir: &Path, subject: &str) -> String {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", subject]);
    hash(dir, "HEAD")
}

fn hash(dir: &Path, revision: &str) -> String {
    let mut git = std::process::Command::new("git");
    let output = git
        .arg("-C")
        .arg(dir)
        .args(["rev-parse", revision])
        .output();
    String::from_utf8(output.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// Makes a repository with one kernel that copies, and returns it after its first commit.
fn repository() -> TempDir {
    let project = copies(&[("copy", "", COPY)]);
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    commit(dir, "good");
    project
}

fn bisect(dir: &Path, args: &[&str], code: i32) -> Output {
    let all = [&["bisect", "--provision", "--device", "sim"], args].concat();
    run(dir, &all, code)
}

fn log(dir: &Path) -> Log {
    Log::read(&dir.join(LOG)).unwrap().unwrap()
}

/// Returns the answers of the log with the candidates that were equal to each.
fn answers(log: &Log) -> Vec<(String, Answer, Option<String>)> {
    let answers = log.answers.iter();
    answers
        .map(|answer| {
            (
                answer.candidate.clone(),
                answer.answer,
                answer.equal_to.clone(),
            )
        })
        .collect()
}

/// Makes a history with a race among commits that do not matter and one that does not build. Returns the commits.
fn with_a_race() -> (TempDir, Vec<String>) {
    let project = repository();
    let dir = project.path();
    let source = dir.join("k.cu");
    let mut commits = vec![hash(dir, "HEAD")];
    std::fs::write(dir.join("README"), "1").unwrap();
    commits.push(commit(dir, "readme"));
    edit(&source, COPY, "y[i] = w;");
    commits.push(commit(dir, "does not build"));
    edit(&source, "y[i] = w;", "// A comment.\ny[i] = v;");
    commits.push(commit(dir, "comment"));
    let race = "__shared__ float s[256]; s[threadIdx.x] = v; y[i] = v + 0 * s[63 - threadIdx.x];";
    edit(&source, COPY, race);
    commits.push(commit(dir, "::error::a race \u{1b}[31m"));
    for text in ["2", "3", "4"] {
        std::fs::write(dir.join("README"), text).unwrap();
        commits.push(commit(dir, "readme"));
    }
    (project, commits)
}

#[test]
fn a_race_is_found_and_equal_commits_are_not_run() {
    let (project, commits) = with_a_race();
    let dir = project.path();
    let said = stdout(&bisect(dir, &["HEAD~7", "HEAD", "copy"], 0));
    let first = format!("first bad commit: {} ", &commits[4][..12]);
    assert!(said.starts_with(&first), "{said}");
    // Neither a command for a runner nor a colour comes out of a subject.
    assert!(said.contains(" ::error::a race \\u{1b}[31m\n"), "{said}");
    assert!(said.contains("memory and races: with seed 1: "), "{said}");
    assert!(said.contains("\n+++ b/k.cu\n"), "{said}");
    assert!(said.contains("\n+__shared__ float s[256]"), "{said}");
    assert!(!said.contains("README"), "{said}");
    use Answer::{Bad, Good, Skipped};
    let found = log(dir);
    assert_eq!(
        answers(&found),
        [
            (commits[0].clone(), Good, None),
            (commits[7].clone(), Bad, None),
            // The commits that do not change the kernel are not run.
            (commits[4].clone(), Bad, Some(commits[7].clone())),
            (commits[2].clone(), Skipped, None),
            (commits[3].clone(), Good, Some(commits[0].clone())),
        ]
    );
    assert!(
        found.answers[3].why.contains("does not compile"),
        "{:?}",
        found.answers[3]
    );

    // The command that is printed at the end asks the same of the culprit and its parent.
    let (_, again) = said.rsplit_once("\nrepeat: gatekeeper ").unwrap();
    let again: Vec<&str> = again.trim_end().split(' ').collect();
    let said = stdout(&run(dir, &again, 0));
    assert!(said.starts_with(&first), "{said}");
}

#[test]
fn the_same_command_goes_on_from_the_log() {
    let (project, commits) = with_a_race();
    let dir = project.path();
    let ask = ["HEAD~7", "HEAD", "copy"];
    bisect(dir, &ask, 0);
    let whole = log(dir);
    let mut half = whole.clone();
    half.answers.truncate(3);
    half.write(&dir.join(LOG)).unwrap();
    let output = bisect(dir, &ask, 0);
    let goes_on = "bisect: goes on with gatekeeper-out/bisect.json, which has 3 answers\n";
    assert!(stderr(&output).contains(goes_on), "{}", stderr(&output));
    assert!(!stderr(&output).contains("judges"), "{}", stderr(&output));
    assert_eq!(log(dir), whole);
    let first = &commits[4][..12];
    assert!(stdout(&output).contains(first));

    // Another question does not use it.
    let output = bisect(dir, &["HEAD~6", "HEAD", "copy"], 0);
    assert!(stderr(&output).contains("is the log of another question, and is replaced\n"));
    assert!(stdout(&output).contains(first));

    // A damaged log is no log.
    let path = dir.join(LOG);
    let text = std::fs::read_to_string(&path).unwrap();
    let turned = text.replacen("\"answer\": \"good\"", "\"answer\": \"bad\"", 1);
    for (damaged, why) in [
        (turned, "its content does not match its seal"),
        (
            text.replace("bisect/1", "bisect/9"),
            "its schema is gatekeeper.bisect/9",
        ),
        (text.replacen("\"seal\"", "\"sea\"", 1), "unknown field"),
        (text[..text.len() / 2].to_owned(), "EOF"),
        (String::new(), "EOF"),
    ] {
        std::fs::write(&path, &damaged).unwrap();
        let said = stderr(&bisect(dir, &["HEAD~6", "HEAD", "copy"], 2));
        assert!(
            said.contains("the log of an earlier bisection is damaged: "),
            "{said}"
        );
        assert!(said.contains(why), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn a_counter_is_found_by_gates_and_a_reference_that_only_the_bad_commit_has() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let project = repository();
    let dir = project.path();
    let gates = std::fs::read_to_string(dir.join("gates.yaml")).unwrap();
    // The good commit has a link in the place of the reference, and no file of gates.
    std::fs::remove_file(dir.join("gates.yaml")).unwrap();
    std::os::unix::fs::symlink(&victim, dir.join("ref.cpp")).unwrap();
    commit(dir, "a link");
    edit(
        &dir.join("k.cu"),
        COPY,
        "y[i] = x[i / 64 * 64 + threadIdx.x * 2 % 64] * 0 + v;",
    );
    let culprit = commit(dir, "strided");
    edit(&dir.join("k.cu"), "* 0 + v", "* 0 + v + 0 * 1");
    commit(dir, "more of it");
    std::fs::remove_file(dir.join("ref.cpp")).unwrap();
    std::fs::write(dir.join("value.h"), "#define VALUE(v) (v)\n").unwrap();
    let reference = "#include \"value.h\"\nextern \"C\" void same(const float *x, float *y) {\n\
                     for (int i = 0; i < 256; ++i) y[i] = VALUE(x[i]);\n}\n";
    std::fs::write(dir.join("ref.cpp"), reference).unwrap();
    let user = "{user: {source: ref.cpp, function: same, args: [{tensor: x}, {tensor: y}]}}";
    let gates = gates
        .replace("{unary: {x: x, out: y, op: copy}}", user)
        .replace(
            "{max_err: 0}",
            "{max_err: 0, global_load_sectors: \"<= 32\"}",
        );
    std::fs::write(dir.join("gates.yaml"), gates).unwrap();
    commit(dir, "gates");
    let output = bisect(dir, &["HEAD~3", "HEAD", "copy@default"], 0);
    let said = stdout(&output);
    assert!(
        said.contains(&format!("first bad commit: {} ", &culprit[..12])),
        "{said}"
    );
    assert!(said.contains("global_load_sectors"), "{said}");
    assert!(said.contains("\n  at "), "{said}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn commits_that_do_not_build_around_the_culprit_leave_it_undecided() {
    let project = repository();
    let dir = project.path();
    let source = dir.join("k.cu");
    edit(&source, COPY, "y[i] = w;");
    let broken = commit(dir, "broken");
    edit(&source, "y[i] = w;", "y[i] = v + 1;");
    let wrong = commit(dir, "wrong");
    let said = stdout(&bisect(dir, &["HEAD~2", "HEAD", "copy"], 3));
    assert!(
        said.starts_with("undecided: the first bad one is one of these\n"),
        "{said}"
    );
    assert!(
        said.contains(&format!("\n  {} broken: skipped (", &broken[..12])),
        "{said}"
    );
    assert!(
        said.contains(&format!("\n  {} wrong: bad\n", &wrong[..12])),
        "{said}"
    );
    // Where the question is whether it builds, the same commit answers.
    let said = stdout(&bisect(dir, &["HEAD~2", "HEAD~1", "copy"], 0));
    assert!(
        said.starts_with(&format!("first bad commit: {} ", &broken[..12])),
        "{said}"
    );
}

#[test]
fn a_merge_is_one_step_and_says_how_to_look_into_it() {
    let project = repository();
    let dir = project.path();
    git(dir, &["checkout", "--quiet", "-b", "side"]);
    edit(&dir.join("k.cu"), COPY, "y[i] = v + 1;");
    let wrong = commit(dir, "wrong");
    git(dir, &["checkout", "--quiet", "-"]);
    std::fs::write(dir.join("README"), "1").unwrap();
    let before = commit(dir, "readme");
    git(dir, &["merge", "--quiet", "--no-ff", "-m", "merge", "side"]);
    let merge = hash(dir, "HEAD");
    let said = stdout(&bisect(dir, &["HEAD~2", "HEAD", "copy"], 0));
    let first = format!("first bad commit: {} ", &merge[..12]);
    assert!(said.starts_with(&first), "{said}");
    let says = format!("\nit is a merge of {}: ", &wrong[..12]);
    assert!(said.contains(&says), "{said}");
    assert_eq!(log(dir).asked.candidates, [before, merge]);
    let output = bisect(dir, &["side", "HEAD", "copy"], 2);
    let says = "is not on the line of first parents of";
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
}

#[test]
fn a_question_without_sense_is_refused() {
    let project = repository();
    let dir = project.path();
    std::fs::write(dir.join("README"), "1").unwrap();
    commit(dir, "readme");
    let said = stdout(&bisect(dir, &["HEAD~1", "HEAD", "copy"], 3));
    assert!(said.starts_with("undecided: no gate fails at "), "{said}");
    edit(&dir.join("k.cu"), COPY, "y[i] = v + 1;");
    commit(dir, "wrong");
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", "still"]);
    git(dir, &["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", "side"]);
    git(dir, &["checkout", "--quiet", "-"]);
    for (args, says) in [
        (
            &["none", "HEAD", "copy"][..],
            "GOOD none: there is no such revision",
        ),
        (
            &["HEAD", "none", "copy"],
            "BAD none: there is no such revision",
        ),
        (&["HEAD", "HEAD", "copy"], "GOOD and BAD are one commit"),
        (
            &["side", "HEAD", "copy"],
            "is not on the line of first parents of",
        ),
        (
            &["HEAD", "HEAD~1", "copy"],
            "GOOD, at which the gates hold, is the older one",
        ),
        (
            &["HEAD~1", "HEAD", "copy"],
            "itself, or has no answer there: copy/default@default",
        ),
        (&["HEAD~1", "HEAD", "other"], "other"),
        (
            &["--gates", "none", "HEAD~1", "HEAD"],
            "--gates none: there is no such revision",
        ),
        (
            &["--toolchains", "13.0", "none"],
            "`none` is neither a version",
        ),
        (
            &["--toolchains", "13.0", "13.0.88"],
            "GOOD and BAD are both nvcc 13.0.88",
        ),
    ] {
        let output = bisect(dir, args, 2);
        assert!(
            stderr(&output).contains(says),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    std::fs::remove_dir_all(dir.join(".git")).unwrap();
    let said = stderr(&bisect(dir, &["HEAD~1", "HEAD"], 2));
    assert!(said.contains("has no commits to look at"), "{said}");
}

#[test]
fn compilers_that_are_not_installed_are_skipped_by_name() {
    let source = "#if __CUDACC_VER_MINOR__ >= 2\ny[i] = v + 1;\n#else\ny[i] = v;\n#endif";
    let project = copies(&[("copy", "", source)]);
    let dir = project.path();
    let ask = [
        "bisect",
        "--device",
        "sim",
        "--toolchains",
        "13.0.88",
        "13.2.51",
        "copy",
    ];
    let said = stdout(&run(dir, &ask, 3));
    assert!(
        said.contains("nvcc 13.1.80: skipped (CUDA 13.1.80 is neither installed"),
        "{said}"
    );
    assert!(said.ends_with("  nvcc 13.2.51: bad\n"), "{said}");
}
