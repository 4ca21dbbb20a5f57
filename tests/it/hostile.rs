//! Tests machines that are short of something, and trees that do more than being compiled. No GPU is needed.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, gatekeeper, project, run, stderr, stdout};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns all files below a directory, with the time of their last change.
fn state(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        let content = data.is_file().then(|| std::fs::read(&path).unwrap());
        found.insert(path.clone(), (data.modified().unwrap(), content));
        if data.is_dir() {
            found.extend(state(&path));
        }
    }
    found
}

/// Things that may be where a file is expected.
const IN_PLACE_OF_A_FILE: [&str; 5] = ["fifo", "zero", "socket", "directory", "huge"];

fn put(what: &str, at: &Path) {
    let _ = std::fs::remove_file(at);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    match what {
        "fifo" => nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "zero" => std::os::unix::fs::symlink("/dev/zero", at).unwrap(),
        // The file stays when the socket is closed.
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        "directory" => std::fs::create_dir(at).unwrap(),
        _ => std::fs::File::create(at).unwrap().set_len(1 << 40).unwrap(),
    }
}

/// Runs a command that must end at once. A program that waits for a FIFO would wait for ever.
fn ends(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = gatekeeper();
    let minute = std::time::Duration::from_secs(60);
    let output = command.current_dir(dir).args(args).timeout(minute);
    let output = output.output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn special_files_are_refused_at_once() {
    for what in IN_PLACE_OF_A_FILE {
        for (file, args) in [
            ("gates.yaml", &["validate"][..]),
            ("copy.cu", &["validate"]),
            ("copy.cu", &["run", "copy"]),
            ("baselines/accepted.yaml", &["validate"]),
            ("record.json", &["judge", "record.json"]),
            ("record.json", &["report", "record.json"]),
            ("record.json", &["compare", "record.json", "record.json"]),
            (
                "record.json",
                &["baseline", "update", "--record", "record.json"],
            ),
        ] {
            let project = project();
            put(what, &project.path().join(file));
            let (code, said) = ends(project.path(), args);
            assert_eq!(code, Some(2), "{what} {args:?}: {said}");
            assert!(said.starts_with("error: "), "{what} {args:?}: {said}");
            assert!(said.contains(file), "{what} {args:?}: {said}");
        }
    }
}

/// Such a file is reported with its place, like a mistake, and the gates that need it do not hold.
#[test]
fn a_baseline_that_is_no_file_is_broken_at_once() {
    let project = project();
    let dir = project.path();
    run(dir, &["run", "--provision", "copy"], 0);
    run(dir, &["baseline", "update", "copy"], 0);
    let baselines: Vec<_> = state(&dir.join("baselines"))
        .into_iter()
        .filter_map(|(path, (_, content))| content.map(|_| path))
        .collect();
    assert!(!baselines.is_empty());
    for what in IN_PLACE_OF_A_FILE {
        for file in &baselines {
            put(what, file);
        }
        let (code, said) = ends(dir, &["run", "copy"]);
        assert!(matches!(code, Some(1 | 2)), "{what}: {code:?} {said}");
        for file in &baselines {
            let _ = std::fs::remove_dir(file);
        }
    }
}

/// Sequences that control a terminal: colours, a link, the bell, one that is a single character, the beginning of the
/// line, another direction, and the end of a text in C.
pub const STEERING: &str = "\u{1b}[31mred \u{1b}]8;;http://e\u{7}link\u{1b}]8;;\u{7} \u{9b}2J\rover \u{202e}turned\u{0}end";

pub fn steers(text: &str) -> Option<char> {
    let steers = |c: &char| {
        (c.is_control() && !"\n\t".contains(*c))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().find(steers)
}

#[test]
fn messages_of_compilers_and_references_are_escaped() {
    let source = project();
    let dir = source.path();
    let error = format!("#error {}\n", STEERING.replace(['\r', '\0'], " "));
    let text = std::fs::read_to_string(dir.join("copy.cu")).unwrap();
    std::fs::write(dir.join("copy.cu"), error + &text).unwrap();

    let reference = project();
    let of_reference = reference.path();
    edit(
        &of_reference.join("gates.yaml"),
        "reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      shared",
        "reference: {user: {source: r.c, function: f, args: [{i32: N}, {tensor: x}, {tensor: y}]}}\n    gates:\n      registers: 32\n      shared",
    );
    let escaped: String = STEERING
        .bytes()
        .map(|byte| format!("\\{byte:03o}"))
        .collect();
    let code = format!(
        "#include <stdio.h>\n#include <stdlib.h>\nvoid f(int n, const float *x, float *y) {{ static const char said[] = \"{escaped}\";\n\
         fwrite(said, 1, sizeof said, stderr); abort(); }}\n"
    );
    std::fs::write(of_reference.join("r.c"), code).unwrap();

    for dir in [dir, of_reference] {
        let output = run(dir, &["run", "--provision", "--device", "sim", "copy"], 1);
        let mut shown = vec![("terminal", stdout(&output)), ("errors", stderr(&output))];
        for format in [
            "terminal", "markdown", "github", "json", "junit", "sarif", "html",
        ] {
            let output = gatekeeper()
                .current_dir(dir)
                .args(["report", "gatekeeper-out/record.json", "--format", format])
                .output()
                .unwrap();
            let text = stdout(&output);
            assert!(!text.is_empty(), "{format}: {}", stderr(&output));
            shown.push((format, text));
        }
        let mut has_it = 0;
        for (format, text) in &shown {
            assert_eq!(steers(text), None, "{format}: {text:?}");
            has_it += usize::from(text.contains("turned"));
        }
        assert!(has_it >= 6, "{has_it}");
        // A reader of SARIF shows the decoded text.
        let sarif = shown.iter().find(|(format, _)| *format == "sarif").unwrap();
        let sarif: serde_json::Value = serde_json::from_str(&sarif.1).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        assert!(!results.is_empty());
        for result in results {
            let text = result["message"]["text"].as_str().unwrap();
            assert_eq!(steers(text), None, "{text:?}");
        }
    }
}
