//! Tests that modules at the top of a crate do not import each other in a cycle, so that each can be read with only the
//! modules below it.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::root;
use crate::recipes::sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Each module at the top of a crate, with the other modules that it names.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the imports of one crate. `files` have paths below its `src`. The root is above all modules, and is not a
/// module itself.
fn imports(files: &[(String, String)]) -> Imports {
    let paths: Vec<Vec<&str>> = files.iter().map(|(path, _)| module_path(path)).collect();
    let mut imports: Imports = paths
        .iter()
        .filter_map(|path| path.first())
        .map(|top| ((*top).to_owned(), BTreeSet::new()))
        .collect();
    let root: String = files
        .iter()
        .zip(&paths)
        .filter(|(_, path)| path.is_empty())
        .map(|((_, text), _)| text.as_str())
        .collect();
    for ((_, text), path) in files.iter().zip(&paths) {
        let Some(own) = path.first() else { continue };
        for name in names_at_root(path.len(), text) {
            let module = if imports.contains_key(name) {
                Some(name)
            } else {
                exported_from(&root, name)
            };
            if let Some(module) =
                module.filter(|module| module != own && imports.contains_key(*module))
            {
                let module = module.to_owned();
                imports.get_mut(*own).unwrap().insert(module);
            }
        }
    }
    imports
}

/// Returns the path of a module: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_path(file: &str) -> Vec<&str> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(path.last(), Some(&"mod" | &"lib" | &"main")) {
        path.pop();
    }
    path
}

/// Returns the names that a module at this depth takes from the root of its crate.
fn names_at_root(depth: usize, text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for root in ["crate::", &"super::".repeat(depth)] {
        for (at, _) in text.match_indices(root) {
            let (before, rest) = (&text[..at], &text[at + root.len()..]);
            let line = before.rsplit('\n').next().unwrap();
            let is_longer = before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            if !is_longer && !line.contains("//") {
                names.extend(first_names(rest));
            }
        }
    }
    names
}

/// Returns `a` for `a::b`, and `a` and `c` for `{a::{b, d}, c}`.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![first_word(path)];
    };
    let mut names = vec![first_word(group)];
    let mut open = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 1 => break,
            '}' => open -= 1,
            ',' if open == 1 => names.push(first_word(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

fn first_word(text: &str) -> &str {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let text = text.trim_start();
    text.split(|c| !is_of_word(c)).next().unwrap()
}

/// Returns the module from which a root takes a name that is not one of its modules: `pub use module::name;`.
fn exported_from<'a>(root: &'a str, name: &str) -> Option<&'a str> {
    let (_, path) = root
        .split(';')
        .filter_map(|line| line.split_once("use "))
        .find(|(_, path)| {
            path.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .any(|word| word == name)
        })?;
    Some(first_word(path))
}

/// Returns the modules that import each other, and those between two cycles.
fn find_cycle(imports: &Imports) -> Imports {
    let mut left = imports.clone();
    loop {
        let has_cycle = |module: &String, imports: &BTreeSet<String>| {
            imports.iter().any(|import| left.contains_key(import))
                && left.values().any(|imports| imports.contains(module))
        };
        let mut kept = left.clone();
        kept.retain(|module, imports| has_cycle(module, imports));
        if kept.len() == left.len() {
            for imports in kept.values_mut() {
                imports.retain(|import| left.contains_key(import));
            }
            return kept;
        }
        left = kept;
    }
}

/// Returns the sources of each crate, by its directory.
fn crates() -> BTreeMap<String, Vec<(String, String)>> {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, text) in sources() {
        let (dir, file) = match path.strip_prefix("src/") {
            Some(file) => ("src", file),
            None => match path.split_once("/src/") {
                Some(parts) => parts,
                None => continue,
            },
        };
        let files = crates.entry(dir.to_owned()).or_default();
        files.push((file.to_owned(), text));
    }
    assert!(crates.len() > 15, "{:?}", crates.keys());
    crates
}

#[test]
fn no_modules_at_the_top_of_a_crate_import_each_other() {
    let mut wrong = Vec::new();
    for (dir, files) in crates() {
        let cycle = find_cycle(&imports(&files));
        if !cycle.is_empty() {
            wrong.push(format!("{dir}: {cycle:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_judge_imports_as_its_table_of_floors_says() {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let section = page.split("\n## The judge\n").nth(1).unwrap();
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with("| 1. "))
        .take_while(|line| line.starts_with('|'));
    let imports = imports(&crates()["crates/judge"]);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut all: Vec<BTreeSet<String>> = Vec::new();
    for row in rows {
        all.push(
            row.split('|')
                .nth(2)
                .unwrap()
                .split('`')
                .skip(1)
                .step_by(2)
                .map(|module| module.trim_end_matches("/*").to_owned())
                .collect(),
        );
    }
    assert!(all.len() > 4, "{all:?}");
    let listed: BTreeSet<String> = all.iter().flatten().cloned().collect();
    for floor in all {
        seen.extend(floor.iter().cloned());
        for module in floor {
            let beyond = imports[&module].difference(&seen);
            let beyond: Vec<_> = beyond.filter(|path| listed.contains(*path)).collect();
            assert!(
                beyond.is_empty(),
                "{module} imports {beyond:?} of a later floor"
            );
        }
    }
}

#[test]
fn a_planted_cycle_is_found_however_it_is_written() {
    let find = |a: &str, b: &str| {
        let lib = "mod a;\nmod b;\nmod c;\npub use a::{First, Second as Other};";
        let files = [
            ("lib.rs", lib),
            ("a.rs", a),
            ("b/mod.rs", "mod d;"),
            ("b/d.rs", b),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let cycle = find_cycle(&imports(&files));
        cycle.into_keys().collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(find("use crate::b::d;", ""), none);
    for names_a in [
        "use crate::a::X;",
        "use super::super::a;",
        "use crate::{\n    c::{X, Y},\n    a::Z,\n};",
        "fn f() { crate::a::g() }",
        "use crate::First;",
    ] {
        assert_eq!(find("", names_a), none, "{names_a}");
        assert_eq!(find("use super::b;", names_a), ["a", "b"], "{names_a}");
    }
    for names_nothing in [
        "use super::a;",
        "use other::a;",
        "// crate::a",
        "use crate::c;",
    ] {
        assert_eq!(
            find("use super::b;", names_nothing),
            none,
            "{names_nothing}"
        );
    }
}
