//! `run --base` where the base has no file of gates at the path of the run's own: in the first pull request of a project,
//! and where the base has its gates elsewhere.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{copies, edit, git, report, run, simulate, stdout};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A repository with kernels, and no gates yet.
fn kernels() -> tempfile::TempDir {
    let project = copies(&[
        ("one", "", "y[i] = v;"),
        ("two", "", "if (v == v) y[i] = v;"),
    ]);
    let dir = project.path();
    fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    git(dir, &["add", "k.cu", ".gitignore"]);
    git(dir, &["commit", "--quiet", "-m", "kernels"]);
    project
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "change"]);
}

/// Writes gates.yaml as `file` in a directory below, with this limit on errors; it is looser than 0.
fn write_below(dir: &Path, file: &str, max_err: &str) {
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let text = text.replace("source: k.cu", "source: ../k.cu");
    let text = text.replace("max_err: 0", &format!("max_err: {max_err}"));
    fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
    fs::write(dir.join(file), text).unwrap();
}

fn no_gates(dir: &Path) -> Value {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    report["base"]["no_gates"].clone()
}

#[test]
fn the_first_gates_of_a_project_pass_and_say_that_nothing_was_compared() {
    let project = kernels();
    let dir = project.path();
    let against = ["--base", "main"];
    let said = simulate(dir, &against, 0);
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("nothing compared, main ("), "{said}");
    assert!(first.ends_with(") has no gates.yaml"), "{said}");
    assert!(!said.contains("no case is timed"), "{said}");
    let headline = format!("PASS: {first}; ");
    assert!(
        said.lines().last().unwrap().starts_with(&headline),
        "{said}"
    );
    let quiet = simulate(dir, &["--base", "main", "--quiet"], 0);
    assert!(quiet.starts_with(&headline), "{quiet}");
    let out = |name: &str| fs::read_to_string(dir.join("gatekeeper-out").join(name)).unwrap();
    assert!(out("report.md").starts_with(&format!("### ✅ gatekeeper: {headline}")));
    assert!(out("report.html").contains(&format!("<h1>{headline}")));
    assert_eq!(no_gates(dir), serde_json::json!({"file": "gates.yaml"}));
    // A wrong kernel fails all the same.
    edit(&dir.join("k.cu"), "y[i] = v;", "y[i] = 2 * v;");
    let said = simulate(dir, &against, 1);
    assert!(said.starts_with("nothing compared, main ("), "{said}");
    // Once the base has the file, there is something to compare.
    git(dir, &["checkout", "--quiet", "k.cu"]);
    commit(dir);
    let said = simulate(dir, &against, 0);
    assert!(!said.contains("nothing compared"), "{said}");
    assert_eq!(no_gates(dir), Value::Null);
}

/// A copy could ask for less, and the run of it compare nothing.
#[test]
fn gates_that_the_base_has_in_another_file_are_inconclusive() {
    let project = kernels();
    let dir = project.path();
    commit(dir);
    write_below(dir, "ci/gates.yaml", "1e6");
    let copy = ["--config", "ci/gates.yaml", "--base", "main"];
    let said = simulate(dir, &copy, 3);
    assert!(said.starts_with("nothing compared, main ("), "{said}");
    assert!(said.contains("[base-has-gates-elsewhere]"), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let advice = "it has no ci/gates.yaml, but gates for the same code in gates.yaml: name that file with `--config`, or move its gates";
    assert!(said.contains(advice), "{said}");
    let elsewhere = serde_json::json!({"file": "ci/gates.yaml", "elsewhere": ["gates.yaml"]});
    assert_eq!(no_gates(dir), elsewhere);
    let markdown = fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    assert!(
        markdown.starts_with("### ⚠️ gatekeeper: inconclusive: nothing compared, main ("),
        "{markdown}"
    );
    assert!(
        markdown.contains("gates for the same code in gates.yaml"),
        "{markdown}"
    );
    simulate(dir, &[&copy[..], &["--allow-loosened"]].concat(), 0);
    // Under other names the source is the same.
    for name in ["one", "two"] {
        let renamed = format!("  {name}_new:\n");
        edit(
            &dir.join("ci/gates.yaml"),
            &format!("  {name}:\n"),
            &renamed,
        );
    }
    simulate(dir, &copy, 3);
    // A file that is moved is held against what it was, and so is what it advised.
    write_below(dir, "ci/gates.yaml", "1e6");
    fs::rename(dir.join("gates.yaml"), dir.join("old")).unwrap();
    let said = simulate(dir, &copy, 1);
    assert!(said.contains("LOOSENED"), "{said}");
    fs::rename(dir.join("old"), dir.join("gates.yaml")).unwrap();
    write_below(dir, "ci/gates.yaml", "0");
    fs::remove_file(dir.join("gates.yaml")).unwrap();
    let said = simulate(dir, &copy, 0);
    assert!(!said.contains("nothing compared"), "{said}");
}

#[test]
fn a_second_file_for_other_kernels_passes_and_says_that_nothing_was_compared() {
    let project = kernels();
    let dir = project.path();
    commit(dir);
    let other = copies(&[("three", "", "y[i] = v;")]);
    fs::create_dir(dir.join("other")).unwrap();
    for file in ["k.cu", "gates.yaml"] {
        fs::copy(other.path().join(file), dir.join("other").join(file)).unwrap();
    }
    let second = ["run", "--device", "sim", "--config", "other/gates.yaml"];
    let said = stdout(&run(dir, &[&second[..], &["--base", "main"]].concat(), 0));
    let first = said.lines().next().unwrap();
    assert!(first.ends_with(") has no other/gates.yaml"), "{said}");
    assert_eq!(
        no_gates(dir),
        serde_json::json!({"file": "other/gates.yaml"})
    );
}
