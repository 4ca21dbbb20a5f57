//! Types the shell commands on the pages. Every line of a block is typed in a project that has what it names, or is
//! listed here with the reason why not. `tests/it/docs.rs` checks that lines that are only listed parse.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{binary, copy, copy_of, git, root, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const BUILDS: &str = "builds for minutes; what it builds is under test here";
const GPU: &str = "needs a GPU";
const ENGINE: &str = "needs a container engine";

/// Lines that are not typed, each with the reason.
const NOT_TYPED: &[(&str, &str)] = &[
    ("cargo run --release -- run --provision sdpa_f16", BUILDS),
    ("cargo test", BUILDS),
    ("cargo install --locked --path .", BUILDS),
    ("cd /path/to/your/repository", "the reader's own"),
    (
        "cmake -B build -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "the reader's own",
    ),
    (
        "gatekeeper init --include build/generated --define NDEBUG src/kernels",
        "the reader's own",
    ),
    (
        "gatekeeper init --build -- sh -c 'cmake -B build-gates && cmake --build build-gates'",
        "the reader's own",
    ),
    (
        "gatekeeper init --build -- python setup.py build_ext",
        "the reader's own",
    ),
    (
        "gatekeeper binary kernels.ptx --base-toolchain 13.0 --toolchain 13.3 --arch sm_90",
        "the reader's own",
    ),
    (
        "docker build -f packaging/Containerfile -t gatekeeper .",
        ENGINE,
    ),
    (r#"docker run --rm -v "$PWD:/work" gatekeeper run"#, ENGINE),
    (
        r#"docker run --rm --gpus all -v "$PWD:/work" gatekeeper run"#,
        ENGINE,
    ),
    (
        "gatekeeper binary new.whl --base old.whl --limit registers=+0 --limit stack=+16",
        "the reader's own",
    ),
    (
        "gatekeeper capture --kernels '*softmax*' -- python bench.py",
        "the reader's own",
    ),
    ("gatekeeper replay gatekeeper-capture", "the reader's own"),
    (
        "gatekeeper replay gatekeeper-capture 'scatter*' --tolerance f32:1e-5",
        "the reader's own",
    ),
    (
        "gatekeeper capture --out old -- python bench.py",
        "the reader's own",
    ),
    ("pip install --upgrade triton", "the reader's own"),
    (
        "pytest examples/triton",
        "needs Triton; packaging/check runs it",
    ),
    ("pytest --gatekeeper-base=main", "the reader's own"),
    (
        "gatekeeper capture --out new -- python bench.py",
        "the reader's own",
    ),
    ("gatekeeper replay new --base old", "the reader's own"),
    ("gatekeeper profile 'sdpa_*/stage2'", GPU),
    (
        "gatekeeper run --shard 1/3 --require-gpu --out shards/1",
        GPU,
    ),
    (
        "gatekeeper run --shard 2/3 --require-gpu --out shards/2",
        GPU,
    ),
    (
        "gatekeeper run --shard 3/3 --require-gpu --out shards/3",
        GPU,
    ),
];

fn pages() -> Vec<String> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|doc| doc.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<_> = docs
        .filter(|doc| doc.ends_with(".md"))
        .map(|doc| format!("docs/{doc}"))
        .collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

fn blocks_of_shell(text: &str) -> Vec<&str> {
    text.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix("sh\n"))
        .collect()
}

/// Returns lines as a shell takes them: continued lines are joined, and comments are removed.
fn lines_of_shell(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    joined
        .lines()
        .map(|line| {
            let line = line.split(" #").next().unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            words.join(" ")
        })
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn every_shell_line_on_a_page_works_as_described() {
    let prepared = prepared();
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(binary(), bin.path().join("gatekeeper")).unwrap();
    let mut typed = 0;
    let mut listed = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let blocks = blocks_of_shell(&text);
        if blocks.is_empty() {
            continue;
        }
        let project = tempfile::tempdir().unwrap();
        copy(prepared.path(), project.path());
        std::os::unix::fs::symlink(root().join("dev"), project.path().join("dev")).unwrap();
        if ["README.md", "docs/cmake.md"].contains(&page.as_str()) {
            // A command on the page writes this file.
            fs::remove_file(project.path().join("gates.yaml")).unwrap();
        }
        for block in blocks {
            for line in lines_of_shell(block) {
                if NOT_TYPED.iter().any(|(it, _)| *it == line) {
                    listed.insert(line);
                    continue;
                }
                type_line(&page, &line, project.path(), bin.path());
                typed += 1;
            }
        }
    }
    let all: BTreeSet<_> = NOT_TYPED.iter().map(|(line, _)| *line).collect();
    let listed: BTreeSet<_> = listed.iter().map(String::as_str).collect();
    assert_eq!(listed, all, "a line that is listed is on no page");
    assert!(typed > 20, "{typed}");
}

fn type_line(page: &str, line: &str, dir: &Path, bin: &Path) {
    let cache = system::cache::Cache::open().unwrap();
    let output = Command::new("bash")
        .args(["-c", line])
        .current_dir(dir)
        .env("HOME", dir.join("home"))
        .env("GATEKEEPER_CACHE", cache.root())
        .env(
            "PATH",
            format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()),
        )
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{page}: {line}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Makes a project in which everything has run that pages take for granted.
fn prepared() -> tempfile::TempDir {
    build::toolchain::testing::toolchain();
    let project = copy_of("tests/fixtures/pages");
    let dir = project.path();
    let sim = ["run", "--device", "sim"];
    run(dir, &sim, 0);
    run(dir, &["baseline", "update"], 0);
    git(dir, &["init", "--quiet", "--initial-branch", "main"]);
    git(dir, &["add", "gates.yaml", "copies.cu", "baselines"]);
    git(dir, &["commit", "--quiet", "-m", "agreed"]);
    git(dir, &["update-ref", "refs/remotes/origin/main", "main"]);
    for shard in ["1", "2", "3"] {
        let (part, out) = (format!("{shard}/3"), format!("shards/{shard}"));
        run(
            dir,
            &[&sim[..], &["--shard", &part, "--out", &out]].concat(),
            0,
        );
    }
    for out in ["main", "pr"] {
        copy(&dir.join("gatekeeper-out"), &dir.join(out));
        fs::copy(
            dir.join(out).join("record.json"),
            dir.join(format!("{out}.json")),
        )
        .unwrap();
    }
    let nvbench = root().join("tests/fixtures/nvbench");
    copy(&nvbench.join("base"), &dir.join("main-runs"));
    copy(&nvbench.join("base"), &dir.join("pr-runs"));
    fs::create_dir_all(dir.join("home/.local/share/bash-completion/completions")).unwrap();
    project
}
