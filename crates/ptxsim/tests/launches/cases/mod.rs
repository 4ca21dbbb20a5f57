//! Launches as files. A new case is some lines of a file, and no Rust.
//!
//! A `.ptx` file under `tests/cases` has kernels, and each kernel has cases: launches of it that differ in
//! some text. A `.cu` file under `tests/fixtures` may have the same directives at its end: its kernels are launched as nvcc compiled them.
//! Every case runs on one thread and on two, and must have exactly the findings, faults and notes of its annotations
//! ([`annotations`](crate::common::annotations) has their form), each on its line.
//!
//! ```text
//! //@ launch: {grid: [1], block: [32]}
//! //@ buffers: ["out: u32[32] = 1000 + i"]
//! //@ define SYNC: bar.warp.sync -1;
//! .version 8.4
//! .target sm_90
//! .address_size 64
//! //@ kernel neighbours
//! //@ case ordered: {out: "i ^ 1"}
//! //@ case unordered: {SYNC: ""}
//! .entry k(.param .u64 p) {
//!   ...
//!   st.shared.u32 [%r1], %r0;  // = stored
//!   @SYNC@
//! [ordered]  xor.b32 %r2, %r1, 4;
//! [!ordered] xor.b32 %r2, %r1, 8;
//!   ld.shared.u32 %r3, [%r2];  // ~ [unordered] warp_hazard with stored says: no __syncwarp()
//! ```
//!
//! - `//@ define NAME: text`, or the lines up to `//@ end`: a fragment. `@NAME@` stands for it, on the line of its use, so
//!   that each line keeps its number. Fragments and keys may use fragments.
//! - `//@ kernel name` begins a kernel. What comes before the first one is part of every module.
//! - `//@ case name: {...}` is a launch. Names in capitals are fragments of this case; the others are keys. A kernel without
//!   cases is one case by its own name. What the case expects without a line stands behind it: `// ~ launch`.
//! - `[one two] text` and `[!one] text` are lines of some cases only.
//! - `//@ key: value` is a key of all kernels, or of the kernel above it: see [`Keys`].
//!
//! `PTXSIM_CASES=clusters cargo test -p ptxsim --test launches cases::` runs the files alone that have this in their name.

mod expression;
mod run;
mod source;

use source::Source;
use std::path::{Path, PathBuf};

#[test]
fn launches_end_as_their_files_say() {
    let filter = std::env::var("PTXSIM_CASES").unwrap_or_default();
    let mut files = files();
    files.retain(|path| path.to_str().unwrap().contains(&filter));
    let problems: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = files
            .iter()
            .map(|path| scope.spawn(|| problems_of_file(path)))
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns the files with cases, in order.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["cases", "fixtures"]
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(tests().join(directory)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let is_source = path
                .extension()
                .is_some_and(|end| end == "ptx" || end == "cu");
            is_source
                && std::fs::read_to_string(path)
                    .unwrap()
                    .contains("\n//@ kernel ")
        })
        .collect();
    files.sort();
    files
}

/// A case of a file, and a function that launches it and returns where it is not as annotated.
///
/// Only `tests/observers` launches it.
#[allow(dead_code)]
pub struct Launchable<'a> {
    pub file: &'a str,
    pub name: &'a str,
    /// PTX of the module that the case runs.
    pub text: &'a str,
    pub problems: &'a dyn Fn() -> Vec<String>,
}

pub fn each_case(mut each: impl FnMut(Launchable)) {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let source = Source::read(&path, &text);
        for case in source.cases() {
            each(Launchable {
                file: &source.file_name,
                name: case.name,
                text: &case.text,
                problems: &|| run::problems(&source, &case),
            });
        }
    }
}

/// Launches the cases of a file in their order, and returns where they are not as annotated.
fn problems_of_file(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let source = Source::read(path, &text);
    let mut problems: Vec<String> = source
        .cases()
        .flat_map(|case| {
            let problems = run::problems(&source, &case);
            problems
                .into_iter()
                .map(|problem| format!("{} {}: {problem}", source.file_name, case.name))
                .collect::<Vec<_>>()
        })
        .collect();
    problems.extend(source.wrong_names());
    problems
}

/// Each way to differ from its annotations makes a case red.
#[test]
fn a_case_that_is_not_as_annotated_is_a_problem() {
    let file = |annotation: &str, out: &str| {
        format!(
            "//@ launch: {{grid: [1], block: [32]}}\n//@ buffers: [\"out: u32[32] = 0\"]\n//@ out: \"{out}\"\n\
             .version 8.4\n.target sm_90\n.address_size 64\n//@ kernel k\n.entry k(.param .u64 p)\n{{\n\
             .reg .b32 %r<4>; .reg .b64 %d<3>; .shared .b32 s[32];\nmov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2;\n\
             ld.param.u64 %d0, [p]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; mov.u32 %r2, s;\n\
             add.u32 %r1, %r1, %r2;\nst.shared.u32 [%r1], %r0; // = stored\nxor.b32 %r1, %r1, 4;\n\
             ld.shared.u32 %r3, [%r1]; {annotation}\nst.global.u32 [%d0], %r3;\nret;\n}}\n"
        )
    };
    let problems = |annotation: &str, out: &str| {
        let text = file(annotation, out);
        let source = Source::read(Path::new("k.ptx"), &text);
        let case = source.cases().next().unwrap();
        run::problems(&source, &case).len()
    };
    let right = "// ~ warp_hazard with stored says: no __syncwarp()";
    assert_eq!(problems(right, "i ^ 1"), 0);
    assert_eq!(problems(right, "i ^ 1 ^ (i == 7)"), 1, "a wrong value");
    assert_eq!(problems("// ~ warp_hazard", "i ^ 1"), 2, "no other line");
    assert_eq!(
        problems("// ~ warp_race with stored", "i ^ 1"),
        2,
        "another kind"
    );
    assert_eq!(problems(&format!("\n{right}"), "i ^ 1"), 2, "another line");
    assert_eq!(problems("", "i ^ 1"), 1, "a finding without annotation");
    let more = format!("{right} // ~ trap");
    assert_eq!(problems(&more, "i ^ 1"), 1, "an annotation without finding");
    let other_words = "// ~ warp_hazard with stored says: something else";
    assert_eq!(problems(other_words, "i ^ 1"), 1, "other words");
    assert_eq!(
        problems(&right.replace("~ ", "~ note "), "i ^ 1"),
        2,
        "a note"
    );
}
