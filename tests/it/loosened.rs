//! `run --base` from outside, without a GPU: what a change may not do to the gates that it is held to.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, git, project, run, stdout};
use std::fs;
use std::path::Path;

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "change"]);
}

const USER: &str = "reference: {user: {source: ref.cpp, function: ref, args: [{tensor: x}, {tensor: y}, {i64: N}]}}";

/// The project with its baselines committed; `copy` has a reference of its own, with a header.
fn repository() -> tempfile::TempDir {
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
}

/// What is printed of a run beside the last commit, line breaks aside.
fn beside(dir: &Path, more: &[&str], code: i32) -> String {
    let args = ["run", "--device", "sim", "--base", "HEAD", "copy"];
    let output = run(dir, &[&args, more].concat(), code);
    let said = stdout(&output);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn loosened(dir: &Path, says: &str) {
    let said = beside(dir, &[], 1);
    assert!(said.contains(says), "{says:?} is not in\n{said}");
    assert!(said.contains("LOOSENED"), "{said}");
    beside(dir, &["--allow-loosened"], 0);
}

#[test]
fn what_is_held_against_itself_says_so() {
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

#[test]
fn what_the_command_line_says_is_no_loosened_gate() {
    let project = repository();
    let dir = project.path();
    for more in [&["--seeds", "7"][..], &["--sim-budget", "100000"]] {
        assert!(!beside(dir, more, 0).contains("LOOSENED"));
    }
    edit(&dir.join("gates.yaml"), "    seeds: 2\n", "    seeds: 1\n");
    loosened(dir, "copy/default@small: seeds 1, 2: head has seeds 1");
}

#[test]
fn a_reference_that_is_made_to_fit_the_kernel() {
    let project = repository();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "y[i] = staged", "y[i] = 2 * staged");
    beside(dir, &[], 1);
    edit(&dir.join("ref.h"), "FACTOR 1", "FACTOR 2");
    loosened(
        dir,
        "copy/default@small: reference: on the same inputs it computes something else: 3000 of 3000 elements differ, most y[",
    );
    git(dir, &["checkout", "--quiet", "."]);
    edit(&dir.join("ref.h"), "FACTOR 1", "FACTOR 1  // as x is");
    assert!(!beside(dir, &[], 0).contains("LOOSENED"));

    // In another folder, under other flags, with a name of its own.
    fs::create_dir(dir.join("references")).unwrap();
    git(dir, &["mv", "ref.cpp", "references/copy.cpp"]);
    git(dir, &["mv", "ref.h", "references/ref.h"]);
    let moved = "source: references/copy.cpp, flags: [-DNONE, -O1]";
    edit(&dir.join("gates.yaml"), "source: ref.cpp", moved);
    assert!(!beside(dir, &[], 0).contains("LOOSENED"));
}

/// The change that bends it fails, and its record cannot make what it computed the baseline.
#[test]
fn a_reference_that_was_bent_gives_no_baselines() {
    let project = repository();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "y[i] = staged", "y[i] = 2 * staged");
    edit(&dir.join("ref.h"), "FACTOR 1", "FACTOR 2");
    beside(dir, &[], 1);
    let said = stdout(&run(dir, &["baseline", "update"], 1));
    for refused in [
        "not updated: copy/default@small correctness: the run does not hold it to what the base asks",
        "on the same inputs it computes something else: 3000 of 3000 elements differ",
    ] {
        assert!(said.contains(refused), "{said}");
    }
    assert!(!said.contains("\ncopy/default@small"), "{said}");
    beside(dir, &["--allow-loosened"], 0);
    run(dir, &["baseline", "update"], 0);
}

/// The base's worktree has none of what git ignores: its reference has no answer there, which says nothing about head.
#[test]
fn a_reference_that_needs_a_file_that_git_ignores() {
    let project = repository();
    let dir = project.path();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nref.h\n").unwrap();
    git(dir, &["rm", "--quiet", "--cached", "ref.h"]);
    commit(dir);
    edit(
        &dir.join("ref.cpp"),
        "{\n    for",
        "{\n    // As x is.\n    for",
    );
    let said = beside(dir, &[], 3);
    assert!(
        said.contains("its reference gives no answer in its own tree either"),
        "{said}"
    );
    assert!(!said.contains("LOOSENED"), "{said}");
    beside(dir, &["--allow-loosened"], 0);
    // The machine that judges the record later says the same.
    run(dir, &["judge", common::RECORD], 0);
    beside(dir, &[], 3);
    run(dir, &["judge", common::RECORD], 3);
}

/// A file that a flag takes in is not in the text of the reference, and neither is it in gates.yaml.
#[test]
fn a_reference_that_is_bent_by_what_it_is_built_with() {
    let project = repository();
    let dir = project.path();
    fs::write(dir.join("ref.h"), "").unwrap();
    fs::write(dir.join("ref.opts"), "#define FACTOR 1\n").unwrap();
    let gates = dir.join("gates.yaml");
    edit(
        &gates,
        "source: ref.cpp",
        "source: ref.cpp, flags: [-imacros, ref.opts]",
    );
    assert!(!beside(dir, &[], 0).contains("LOOSENED"));
    commit(dir);
    edit(&dir.join("copy.cu"), "y[i] = staged", "y[i] = 2 * staged");
    beside(dir, &[], 1);
    fs::write(dir.join("ref.opts"), "#define FACTOR 2\n").unwrap();
    loosened(
        dir,
        "reference: on the same inputs it computes something else",
    );
}

/// With its own limit accepted, a wrong kernel would pass.
#[test]
fn a_change_does_not_accept_itself() {
    let project = repository();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "y[i] = staged", "y[i] = 2 * staged");
    fs::write(
        dir.join("baselines/accepted.yaml"),
        "version: 1\naccepted:\n  - {case: copy, metric: max_err, limit: 1e6, reason: r, by: Ann, until: 2999-01-31}\n",
    )
    .unwrap();
    loosened(
        dir,
        "copy/default@small: without an acceptance: head accepts max_err <= 1000000, by Ann until 2999-01-31",
    );
    commit(dir);
    assert!(!beside(dir, &[], 0).contains("LOOSENED"));
}

#[test]
fn an_output_that_nobody_looks_at_any_more() {
    let project = repository();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "y: {role: out,",
        "y: {role: inout,",
    );
    loosened(dir, "copy/default@small: y is `out`: head has `inout`");
}

#[test]
fn baselines_of_other_flags() {
    let project = repository();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "architectures: [sm_90]\n",
        "architectures: [sm_90]\nflags: [-O2]\n",
    );
    // No baseline is under these flags, and the base is measured under its own.
    beside(dir, &[], 0);
    run(dir, &["baseline", "update"], 0);
    assert!(!beside(dir, &[], 0).contains("LOOSENED"));
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
fn gates_that_moved_are_held_against_what_they_were() {
    let project = repository();
    let dir = project.path();
    fs::create_dir(dir.join("gpu")).unwrap();
    for name in [
        "gates.yaml",
        "copy.cu",
        "dial.cu",
        "ref.cpp",
        "ref.h",
        "baselines",
    ] {
        git(dir, &["mv", name, &format!("gpu/{name}")]);
    }
    let moved = ["--config", "gpu/gates.yaml"];
    assert!(!beside(dir, &moved, 0).contains("LOOSENED"));
    edit(
        &dir.join("gpu/gates.yaml"),
        "registers: [32, \"+0%\"]",
        "registers: [64, \"+0%\"]",
    );
    let said = beside(dir, &moved, 1);
    let says = "copy/default [sm_90]: registers <= 32: head has registers <= 64";
    assert!(said.contains(says), "{said}");

    // Two that are gone could each be it.
    git(dir, &["reset", "--quiet", "--hard"]);
    fs::copy(dir.join("gates.yaml"), dir.join("other.yml")).unwrap();
    commit(dir);
    git(dir, &["rm", "--quiet", "other.yml"]);
    git(dir, &["mv", "gates.yaml", "new.yaml"]);
    let args = [
        "run", "--device", "sim", "--config", "new.yaml", "--base", "HEAD",
    ];
    let output = run(dir, &args, 2);
    assert_eq!(
        common::stderr(&output),
        "error: the base HEAD has no gates here, and the cases of this file could be those of either of gates.yaml, other.yml\n  \
         help: move one file of gates in a change, so that it can be held against what it was\n"
    );
}

/// What head alone still has says nothing of what it has no more.
#[test]
fn a_filter_leaves_out_the_same_on_both_sides() {
    let project = repository();
    let dir = project.path();
    let gates = dir.join("gates.yaml");
    let shapes = "shapes:\n      small: {N: 1000}\n";
    edit(&gates, shapes, &format!("{shapes}      tiny: {{N: 10}}\n"));
    run(dir, &["run", "--device", "sim", "copy"], 0);
    run(dir, &["baseline", "update"], 0);
    commit(dir);
    edit(&gates, "tiny: {N: 10}", "large: {N: 2000}");
    let args = ["run", "--device", "sim", "--base", "HEAD"];
    let with = |filter: &str, code| {
        let output = run(dir, &[&args[..], &[filter]].concat(), code);
        stdout(&output).contains("removed: head has no copy/default@tiny")
    };
    assert!(with("copy", 1));
    // Neither takes in all of the kernel: `large` is left out by both.
    assert!(with("*@{small,tiny}", 1));
    assert!(!with("*@small", 0));
}

/// Where the file was stands a link to where it is, or one file of two is gone: whatever their keys look like.
#[test]
fn gates_that_are_gone_are_removed() {
    let project = repository();
    let dir = project.path();
    let other = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let other = other.replace("version: 1", "\"version\": 1");
    let other = other
        .replace("kernels:", "'kernels':")
        .replace("copy:", "twin:");
    fs::write(dir.join("other.conf"), other).unwrap();
    commit(dir);
    let args = ["run", "--device", "sim", "--base", "HEAD", "copy"];
    let config = |name, code| {
        let output = run(dir, &[&args[..], &["--config", name]].concat(), code);
        let said = stdout(&output);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // Two files, each with a run of its own.
    assert!(!config("gates.yaml", 0).contains("LOOSENED"));
    fs::remove_file(dir.join("other.conf")).unwrap();
    let twin = "twin/default@small: gates of other.conf: removed: head has no such file of gates";
    assert!(
        !config("gates.yaml", 0).contains(twin),
        "a filter leaves it out"
    );
    let all = ["run", "--device", "sim", "--base", "HEAD", "copy", "twin"];
    let unknown = run(dir, &all, 2);
    assert!(common::stderr(&unknown).contains("the filter `twin` matches nothing"));
    let all = ["run", "--device", "sim", "--base", "HEAD", "{copy,twin}"];
    let said = stdout(&run(dir, &all, 1));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(twin), "{said}");
    run(dir, &[&all[..], &["--allow-loosened"]].concat(), 0);

    // Moved, it answers for itself, in its own run.
    git(dir, &["checkout", "--quiet", "."]);
    git(dir, &["mv", "other.conf", "moved.conf"]);
    let said = stdout(&run(dir, &all, 0));
    assert!(!said.contains("LOOSENED"), "{said}");
    let moved = fs::read_to_string(dir.join("moved.conf")).unwrap();
    edit(
        &dir.join("moved.conf"),
        "small: {N: 1000}",
        "tiny: {N: 1000}",
    );
    let said = stdout(&run(dir, &all, 1));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(twin), "not whole, it is another: {said}");
    fs::write(dir.join("moved.conf"), moved).unwrap();
    edit(
        &dir.join("moved.conf"),
        "registers: [32, \"+0%\"]",
        "registers: 64",
    );
    let args = [
        "run",
        "--device",
        "sim",
        "--base",
        "HEAD",
        "--config",
        "moved.conf",
        "twin",
    ];
    let said = stdout(&run(dir, &args, 1));
    let says = "registers <= 32: head has registers <= 64";
    assert!(said.contains(says), "{said}");

    // With looser gates, behind a link at its old place.
    git(dir, &["reset", "--quiet", "--hard"]);
    fs::write(
        dir.join("new.yaml"),
        fs::read(dir.join("gates.yaml")).unwrap(),
    )
    .unwrap();
    edit(
        &dir.join("new.yaml"),
        "registers: [32, \"+0%\"]",
        "registers: 64",
    );
    fs::remove_file(dir.join("gates.yaml")).unwrap();
    std::os::unix::fs::symlink("new.yaml", dir.join("gates.yaml")).unwrap();
    for name in ["gates.yaml", "new.yaml"] {
        assert!(config(name, 1).contains(says), "{name}");
    }
}

#[test]
fn a_kernel_that_became_too_dear_for_the_simulator() {
    let project = repository();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "kernels:\n  copy",
        "simulation: {budget: 2000}\nkernels:\n  copy",
    );
    let args = ["run", "--device", "sim", "copy"];
    run(dir, &args, 0);
    edit(
        &dir.join("copy.cu"),
        "    __syncthreads();\n",
        "    __syncthreads();\n    unsigned k = n;\n    \
         for (int r = 0; r < 1000; ++r) k = k * 1664525u + (k >> 7);\n    \
         if (k == 12345u) y[0] = k;\n",
    );
    let said = stdout(&run(dir, &args, 3));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "INCONCLUSIVE copy/default@small: memory and races [check-lost] over the simulator's budget"
        ),
        "{said}"
    );
    assert!(
        said.contains("come from a simulation, and nothing checks it now"),
        "{said}"
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
    let lines = said.lines().skip_while(|line| line.starts_with("seed "));
    lines.map(|line| format!("{line}\n")).collect()
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
fn a_base_is_built_of_its_own_files_and_of_what_is_nobodys() {
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
    beside(dir, &[], 0);
}
