//! Tests that the recipes of CONTRIBUTING.md name all places that an addition touches, and no others.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::root;
use model::sm::SMS;
use model::{Counter, Metric};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

struct Recipe {
    subject: String,
    /// The files to touch, relative to the repository.
    touched: BTreeSet<String>,
    /// Texts that only these files contain. Each file that is a source has one of them.
    example: Vec<String>,
}

fn recipes() -> Vec<Recipe> {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    page.split("| to add | touch | example |")
        .nth(1)
        .unwrap()
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [subject, touch, example] = cells[..] else {
                panic!("three cells: {row}");
            };
            let code = |cell: &str| -> Vec<String> {
                cell.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect()
            };
            Recipe {
                subject: subject.to_owned(),
                touched: code(touch)
                    .into_iter()
                    .filter(|code| code.contains('/'))
                    .collect(),
                example: code(example),
            }
        })
        .collect()
}

/// Returns all sources of what users get, without tests. Each is a path from the root, and a text.
pub fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !matches!(name, "tests" | "benches" | "target") {
                    walk(&path, found);
                }
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
                let shared = "\n#[cfg(test)]\npub(crate) mod tests {";
                let text = text.split(shared).next().unwrap();
                let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
                found.push((path.to_owned(), text.to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    for dir in ["crates", "src"] {
        walk(&root().join(dir), &mut found);
    }
    found
}

#[test]
fn every_recipe_names_all_files_of_its_example() {
    let (recipes, sources) = (recipes(), sources());
    assert_eq!(recipes.len(), 9);
    for Recipe {
        subject,
        touched,
        example,
    } in recipes
    {
        for file in &touched {
            assert!(root().join(file).is_file(), "{subject}: {file}");
        }
        let mut named = BTreeSet::new();
        for text in &example {
            let having: BTreeSet<String> = sources
                .iter()
                .filter(|(_, source)| source.contains(text))
                .map(|(path, _)| path.clone())
                .collect();
            assert!(!having.is_empty(), "{subject}: nothing has {text}");
            named.extend(having);
        }
        let is_source = |path: &String| sources.iter().any(|(source, _)| source == path);
        let touched: BTreeSet<String> = touched.into_iter().filter(is_source).collect();
        assert_eq!(named, touched, "{subject}: {example:?}");
    }
}

/// A third file with all counters would be one more to touch for each new counter.
#[test]
fn all_counters_together_are_named_in_two_files() {
    let names = Counter::ALL.map(|counter| format!("{counter:?}"));
    let has_all = |source: &str| names.iter().all(|name| source.contains(name));
    let mut having: Vec<String> = sources()
        .into_iter()
        .filter(|(_, it)| has_all(it))
        .map(|(path, _)| path)
        .collect();
    having.sort();
    let (table, quantities) = (
        "crates/model/src/counter.rs",
        "crates/ptxsim/src/counters.rs",
    );
    assert_eq!(having, [table, quantities]);
}

#[test]
fn every_metric_is_documented() {
    let page = fs::read_to_string(root().join("docs/gates.md")).unwrap();
    let unknown = |name: &&str| !page.contains(&format!("`{name}`"));
    let missing: Vec<_> = Metric::ALL
        .map(Metric::name)
        .into_iter()
        .filter(unknown)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_architecture_with_rates_is_documented() {
    let page = fs::read_to_string(root().join("docs/diagnosis.md")).unwrap();
    for ((major, minor), _) in SMS.iter().filter(|(_, sm)| sm.rates.is_some()) {
        assert!(page.contains(&format!("for sm_{major}{minor}")));
    }
}
