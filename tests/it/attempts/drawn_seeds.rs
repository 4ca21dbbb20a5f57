//! A kernel that is right for the data of gates.yaml's seeds alone.

use crate::common::{commit_all, copies, edit, failed, git, run, simulate, stdout};
use std::fs;
use std::path::Path;

/// The seed that a run against a base says it has drawn.
fn drawn(dir: &Path, code: i32) -> String {
    let output = run(
        dir,
        &["run", "--provision", "--device", "sim", "--base", "HEAD~1"],
        code,
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, after) = said.split_once("--seeds ").unwrap();
    let seed = after.split('`').next().unwrap().to_owned();
    let fact = format!("extra seed {seed} drawn from the commit");
    let is_told = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        words.join(" ").contains(&fact)
    };
    assert!(is_told(&stdout(&output)), "{}", stdout(&output));
    for file in ["report.md", "report.html"] {
        let text = fs::read_to_string(dir.join("gatekeeper-out").join(file)).unwrap();
        assert!(is_told(&text), "{file}: {text}");
    }
    seed
}

/// Right for the data of gates.yaml's seeds alone: a seed that follows from the commit shows it, twice the same, and
/// by itself.
#[test]
fn a_kernel_made_for_the_seeds_of_gates_yaml_fails_against_a_base() {
    let project = copies(&[("k", "", "  y[i] = v;")]);
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\ndump\n").unwrap();
    commit_all(dir);
    commit_all(dir);
    let honest = drawn(dir, 0);
    assert_eq!(drawn(dir, 0), honest, "the commit decides");
    let known = ["1", "2"].map(|seed| {
        simulate(dir, &["--seeds", seed, "--dump", "dump"], 0);
        let mut files = walk(&dir.join("dump")).into_iter();
        let file = files.rfind(|file| file.ends_with("x.npy")).unwrap();
        let bytes = fs::read(file).unwrap();
        fs::remove_dir_all(dir.join("dump")).unwrap();
        let first = bytes.len() - 4 * 256;
        u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap())
    });
    let tests = known.map(|bits| format!("first == {bits}u"));
    let tests = tests.join(" || ");
    edit(
        &dir.join("k.cu"),
        "  y[i] = v;",
        &format!("  const unsigned first = __float_as_uint(x[0]);\n  y[i] = {tests} ? v : 0;"),
    );
    commit_all(dir);
    simulate(dir, &[], 0);
    let seed = drawn(dir, 1);
    assert_ne!(seed, honest, "another commit");
    let told = format!("with seed {seed}");
    assert!(
        failed(dir)
            .iter()
            .any(|(_, message)| message.contains(&told)),
        "{:?}",
        failed(dir)
    );
    simulate(dir, &["--seeds", &seed], 1);
    // Who asks for seeds gets those.
    let output = run(
        dir,
        &["run", "--device", "sim", "--base", "HEAD", "--seeds", "1,2"],
        0,
    );
    assert!(!stdout(&output).contains(&seed));
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        } else {
            all.push(path);
        }
    }
    all
}
