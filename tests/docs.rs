//! The documentation says what the program does: its files load, its commands parse, no key is missing.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{copy_of, edit, gatekeeper, root, run, stderr, stdout};
use std::collections::BTreeSet;
use std::fs;

/// Fenced blocks of one language.
fn blocks(file: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    text.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(&format!("{language}\n")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_file_on_the_page_loads() {
    let files = blocks("docs/gates.md", "yaml");
    assert!(files.len() >= 2);
    for text in files {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("gates.yaml"), &text).unwrap();
        fs::create_dir(dir.path().join("kernels")).unwrap();
        for source in ["kernels/add.cu", "k.cu", "k_ref.cpp"] {
            fs::write(dir.path().join(source), "").unwrap();
        }
        run(dir.path(), &["validate"], 0);
    }
}

/// The gates that the README shows, on a variant beside the one that they refer to.
#[test]
fn the_gates_of_the_readme_load() {
    let files = blocks("README.md", "yaml");
    let gates = files
        .iter()
        .find(|text| text.starts_with("gates:"))
        .unwrap();
    let gates: Vec<_> = gates
        .lines()
        .map(|line| format!("        {line}"))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k.cu"), "").unwrap();
    fs::write(
        dir.path().join("gates.yaml"),
        format!(
            "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k
    variants:
      stage1: {{}}
      stage2:
        define: {{FAST: 1}}
{}
    tensors:
      x: {{type: f32, shape: [8]}}
      y: {{role: out, type: f32, shape: [8]}}
    args: [{{tensor: x}}, {{tensor: y}}]
    launch: {{grid: [1], block: [8]}}
    reference: {{unary: {{x: x, out: y, op: copy}}}}
    gates: {{max_err: 0}}
",
            gates.join("\n")
        ),
    )
    .unwrap();
    run(dir.path(), &["validate"], 0);
}

/// The kernel that the README shows is an example, and fails as it says there.
#[test]
fn the_kernel_of_the_readme_fails_as_shown() {
    let files = blocks("README.md", "yaml");
    let shown = files
        .iter()
        .find(|text| text.starts_with("version: 1\narch"));
    let example = root().join("examples/rms-norm/gates.yaml");
    assert_eq!(shown.unwrap(), &fs::read_to_string(example).unwrap());

    let project = copy_of("examples/rms-norm");
    let simulated = ["run", "--provision", "--device", "sim"];
    run(project.path(), &simulated, 0);
    run(project.path(), &["baseline", "update"], 0);
    edit(
        &project.path().join("fused_add_rms_norm.cu"),
        "    for (int i = threadIdx.x; i < hidden; i += BLOCK) {",
        "    const int stretch = hidden / BLOCK;\n    \
         for (int i = threadIdx.x * stretch; i < (threadIdx.x + 1) * stretch; ++i) {",
    );
    let said = stdout(&run(project.path(), &simulated, 1));
    let shown = blocks("README.md", "text");
    for part in shown.first().unwrap().split("...\n") {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn every_key_of_the_schema_is_on_the_page() {
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&run(&root(), &["schema"], 0))).unwrap();
    let mut keys = BTreeSet::new();
    names(&schema, &mut keys);
    assert!(keys.len() > 100, "{keys:?}");
    let page = fs::read_to_string(root().join("docs/gates.md")).unwrap();
    let words: BTreeSet<_> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !words.contains(key.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Keys of objects, and words that a value may be.
fn names(schema: &serde_json::Value, keys: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("properties", serde_json::Value::Object(properties)) => {
                        keys.extend(properties.keys().cloned());
                    }
                    ("const", serde_json::Value::String(word)) => {
                        keys.insert(word.clone());
                    }
                    ("enum", serde_json::Value::Array(words)) => keys.extend(
                        words
                            .iter()
                            .filter_map(|word| word.as_str().map(str::to_owned)),
                    ),
                    _ => {}
                }
                names(value, keys);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, keys)),
        _ => {}
    }
}

/// As GitHub makes the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for page in [
        "README.md",
        "examples/README.md",
        "docs/gates.md",
        "docs/timing.md",
    ] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let targets = text.split("](").skip(1);
        for target in targets.map(|rest| rest.split(')').next().unwrap()) {
            if target.starts_with("http") {
                continue;
            }
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => root().join(page),
                file => root().join(page).parent().unwrap().join(file),
            };
            assert!(path.exists(), "{page}: {target}");
            if !wanted.is_empty() {
                let text = fs::read_to_string(path).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
                assert!(anchors.any(|it| it == wanted), "{page}: {target}");
            }
            links += 1;
        }
    }
    assert!(links > 15, "{links}");
}

/// A command that is printed for people to type is one that the program takes.
#[test]
fn every_command_on_a_page_is_one() {
    let mut commands = 0;
    for file in [
        "README.md",
        "examples/README.md",
        "docs/gates.md",
        "docs/timing.md",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        let lines = quoted.flat_map(str::lines).filter_map(|line| {
            line.trim()
                .strip_prefix("gatekeeper ")
                .or_else(|| line.trim().strip_prefix("cargo run --release -- "))
        });
        for line in lines {
            let typed = line.split(" #").next().unwrap_or(line);
            let output = gatekeeper()
                .args(typed.split_whitespace().map(|word| word.trim_matches('\'')))
                .arg("--help")
                .output()
                .unwrap();
            assert_eq!(
                output.status.code(),
                Some(0),
                "{file}: {line}: {}",
                stderr(&output)
            );
            commands += 1;
        }
    }
    assert!(commands > 8, "{commands}");
}
