//! `run --base` from outside, without a GPU: what a change may not do to the gates that it is held to. Most of it is in
//! `tests/cases/loosened`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of_first, edit, git, project, run, stdout};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "change"]);
}

const USER: &str = "reference: {user: {source: ref.cpp, function: ref, args: [{tensor: x}, {tensor: y}, {i64: N}]}}";

/// The project with its baselines committed; `copy` has a reference of its own, with a header.
fn repository() -> tempfile::TempDir {
    static FIRST: OnceLock<tempfile::TempDir> = OnceLock::new();
    copy_of_first(&FIRST, || {
        let project = project();
        let dir = project.path();
        git(dir, &["init", "--quiet"]);
        fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
        fs::write(dir.join("ref.h"), "#define FACTOR 1\n").unwrap();
        fs::write(
        dir.join("ref.cpp"),
        "#include \"ref.h\"\nextern \"C\" void ref(const float* x, float* y, long long n) {\n    \
         for (long long i = 0; i < n; ++i) y[i] = FACTOR * x[i];\n}\n",
    )
    .unwrap();
        let gates = dir.join("gates.yaml");
        let text = fs::read_to_string(&gates).unwrap();
        let built_in = "reference: {unary: {x: x, out: y, op: copy}}";
        let text = text.replacen(built_in, USER, 1);
        let text = text.replacen("registers: 32\n", "registers: [32, \"+0%\"]\n", 1);
        fs::write(&gates, text).unwrap();
        run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
        run(dir, &["baseline", "update"], 0);
        commit(dir);
        project
    })
}

/// The output of a run against the last commit, line breaks aside.
fn against_base(dir: &Path, more: &[&str], code: i32) -> String {
    let args = ["run", "--device", "sim", "--base", "HEAD", "copy"];
    let output = run(dir, &[&args, more].concat(), code);
    let said = stdout(&output);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn loosened(dir: &Path, says: &str) {
    let said = against_base(dir, &[], 1);
    assert!(said.contains(says), "{says:?} is not in\n{said}");
    assert!(said.contains("LOOSENED"), "{said}");
    against_base(dir, &["--allow-loosened"], 0);
}

#[test]
fn a_run_against_its_own_commit_says_so() {
    let project = repository();
    let dir = project.path();
    let args = ["run", "--device", "sim", "--base", "HEAD", "copy"];
    let same = "HEAD is HEAD itself, and no file that git tracks has changed";
    let said = common::stderr(&run(dir, &args, 0));
    assert!(said.contains(same), "{said}");
    let compare = ["compare", common::RECORD, common::RECORD];
    let same = "BASE and HEAD are the same record";
    assert!(common::stderr(&run(dir, &compare, 0)).starts_with(same));
    edit(&dir.join("copy.cu"), "// y = x", "// y is x");
    assert!(!common::stderr(&run(dir, &args, 0)).contains("itself"));
}

/// The base has no baseline under these flags, so head's own could say anything.
#[test]
fn a_baseline_of_other_flags_that_was_edited_is_loosened() {
    let project = repository();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "architectures: [sm_90]\n",
        "architectures: [sm_90]\nflags: [-O2]\n",
    );
    against_base(dir, &[], 0);
    run(dir, &["baseline", "update"], 0);
    assert!(!against_base(dir, &[], 0).contains("LOOSENED"));
    for entry in fs::read_dir(dir.join("baselines/copy/default")).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        if text.contains("\"flags\": \"-O2\"") && text.contains("\"registers\"") {
            fs::write(&file, text.replace("\"value\": 10.0", "\"value\": 32.0")).unwrap();
        }
    }
    loosened(
        dir,
        "copy/default [sm_90]: baseline of resources: head's baseline, under the flags `-O2` (base: ``), is worse: registers 10 -> 32",
    );
}

#[test]
fn a_record_of_another_commit_is_told() {
    let project = repository();
    let dir = project.path();
    let update = || common::stderr(&run(dir, &["baseline", "update"], 0));
    run(dir, &["run", "--device", "sim", "copy"], 0);
    assert_eq!(update(), "");
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", "next"]);
    assert!(update().contains("/record.json was measured at commit "));
}

/// The message that refuses a run against the last commit.
fn refused_beside(dir: &Path) -> String {
    let args = ["run", "--device", "sim", "--base", "HEAD", "copy"];
    let said = common::stderr(&run(dir, &args, 2));
    // Where it is refused after the plan is made, the drawn seed was already named.
    said.lines()
        .skip_while(|line| line.starts_with("seed "))
        .map(|line| format!("{line}\n"))
        .collect()
}

const MENDS: &str =
    "  help: where this change mends the base, run without --base (`base: \"\"` of the action)\n";

/// Both would come to the same code, whatever the change is.
#[test]
fn a_base_is_not_built_of_the_headers_of_the_head() {
    let project = repository();
    let dir = project.path();
    fs::create_dir(dir.join("inc")).unwrap();
    let whole = fs::canonicalize(dir.join("inc")).unwrap();
    let whole = whole.display();
    let refused = |flag: &str| {
        let help = "  help: name directories relative to gates.yaml, under `include_dirs`\n";
        let says =
            format!("error: the flag `{flag}` would have the base built of files of the head\n");
        assert_eq!(refused_beside(dir), format!("{says}{help}{MENDS}"));
    };
    edit(
        &dir.join("gates.yaml"),
        "architectures: [sm_90]\n",
        &format!("architectures: [sm_90]\nflags: [-isystem, \"{whole}\"]\n"),
    );
    commit(dir);
    refused(&whole.to_string());

    // The flag of a reference.
    git(dir, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let flags = format!("source: ref.cpp, flags: [\"-I{whole}\"]");
    edit(&dir.join("gates.yaml"), "source: ref.cpp", &flags);
    commit(dir);
    refused(&format!("-I{whole}"));
}

/// However a file of the head is named: what the compilers read tells.
#[test]
fn a_base_is_not_built_of_any_file_of_the_head() {
    let project = repository();
    let dir = project.path();
    let whole = fs::canonicalize(dir).unwrap().display().to_string();
    let first = "y[i] = staged";
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(dir.join(to), dir.join(at)).unwrap();
    let whole_name_in_reference = || {
        edit(
            &dir.join("ref.cpp"),
            "\"ref.h\"",
            &format!("\"{whole}/ref.h\""),
        );
    };
    let header_is_a_link = || {
        git(dir, &["mv", "ref.h", "real.h"]);
        link("real.h", "ref.h");
    };
    let whole_name_in_kernel = || {
        let text = fs::read_to_string(dir.join("copy.cu")).unwrap();
        let line = format!("#include \"{whole}/ref.h\"\n");
        fs::write(dir.join("copy.cu"), line + &text).unwrap();
        edit(&dir.join("copy.cu"), first, "y[i] = FACTOR * staged");
    };
    let directory_is_a_link = || {
        fs::create_dir(dir.join("real")).unwrap();
        fs::copy(dir.join("ref.h"), dir.join("real/k.h")).unwrap();
        link("real", "inc");
        let dirs = "entry: copy\n    include_dirs: [inc]\n";
        edit(&dir.join("gates.yaml"), "entry: copy\n", dirs);
        let text = fs::read_to_string(dir.join("copy.cu")).unwrap();
        fs::write(dir.join("copy.cu"), format!("#include <k.h>\n{text}")).unwrap();
        edit(&dir.join("copy.cu"), first, "y[i] = FACTOR * staged");
    };
    let (reference, kernel) = ("the reference in ref.cpp", "copy/default [sm_90]");
    type Form<'a> = (&'a dyn Fn(), &'a str, &'a str, Option<&'a str>);
    let forms: [Form; 4] = [
        (&whole_name_in_reference, reference, "ref.h", None),
        (&header_is_a_link, reference, "real.h", Some("ref.h")),
        (&whole_name_in_kernel, kernel, "ref.h", None),
        (&directory_is_a_link, kernel, "real/k.h", Some("inc/k.h")),
    ];
    for (form, reader, file, way) in forms {
        form();
        commit(dir);
        edit(&dir.join(file), "FACTOR 1", "FACTOR (3 - 2)");
        let said = refused_beside(dir);
        let first = said.lines().next().unwrap();
        let says = format!(
            "error: nothing was compared: {reader} of the base reads a file of the head, {whole}/{file}"
        );
        assert!(first.starts_with(&says), "{said}");
        if let Some(way) = way {
            // The link is in the worktree in the cache, so only the end of its path is known.
            assert!(
                first.contains(", by way of ") && first.ends_with(way),
                "{said}"
            );
        }
        assert!(said.ends_with(MENDS), "{said}");
        git(dir, &["reset", "--quiet", "--hard", "HEAD~1"]);
        git(dir, &["clean", "--quiet", "-d", "--force"]);
    }
}

/// Directories in the tree, headers of the system, and one beside the tree that both sides read.
#[test]
fn builds_a_base_from_its_own_and_shared_files() {
    let project = repository();
    let dir = project.path();
    let beside_it = tempfile::tempdir().unwrap();
    let other = beside_it.path().join("other.h");
    fs::write(&other, "#define OTHER 1\n").unwrap();
    fs::create_dir(dir.join("inc")).unwrap();
    fs::write(dir.join("inc/own.h"), "#define OWN 1\n").unwrap();
    let lines = format!(
        "#include <own.h>\n#include \"{}\"\n#include \"/usr/include/limits.h\"\n#include <cstdint>\n",
        other.display()
    );
    for source in ["copy.cu", "ref.cpp"] {
        let text = fs::read_to_string(dir.join(source)).unwrap();
        fs::write(dir.join(source), format!("{lines}{text}")).unwrap();
    }
    let gates = dir.join("gates.yaml");
    let dirs = "entry: copy\n    include_dirs: [inc]\n";
    edit(&gates, "entry: copy\n", dirs);
    edit(&gates, "source: ref.cpp", "source: ref.cpp, flags: [-Iinc]");
    commit(dir);
    edit(&dir.join("inc/own.h"), "OWN 1", "OWN (2 - 1)");
    against_base(dir, &[], 0);
}
