//! Tests `load` with files on a disk.

use super::super::{Selection, load};
use super::RIGHT;
use std::path::Path;

fn said(path: &Path) -> String {
    load(path, &Selection::default()).unwrap_err().to_string()
}

#[test]
fn resolves_paths_from_the_directory_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gates.yaml");
    std::fs::write(&path, RIGHT).unwrap();
    assert_eq!(
        said(&path),
        "gates.yaml:5:13: kernels.scale.source: scale.cu does not exist\n  help: paths are relative to the directory of gates.yaml"
    );
    std::fs::write(dir.path().join("scale.cu"), "").unwrap();
    let loaded = load(&path, &Selection::default()).unwrap();
    assert_eq!(loaded.root, dir.path());
    assert_eq!(loaded.places.file, "gates.yaml");
    assert_eq!(loaded.plan.cases.len(), 4);
    let one = Selection {
        filters: vec!["scale/wide@small".to_owned()],
        ..Selection::default()
    };
    assert_eq!(load(&path, &one).unwrap().plan.cases.len(), 1);
}

#[test]
fn a_file_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gates.yaml");
    let missing = said(&path);
    assert!(
        missing.contains("gates.yaml: cannot be read: "),
        "{missing}"
    );
    assert!(missing.contains("gatekeeper init"), "{missing}");
    std::fs::write(&path, b"version: 1\n# \xff\n").unwrap();
    assert_eq!(said(&path), "gates.yaml:2: not valid UTF-8");
}

/// Loads every gates.yaml of the repository from disk.
#[test]
fn files_of_this_repository_load() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = vec![
        root.join("gates.yaml"),
        root.join("tests/fixtures/project/gates.yaml"),
    ];
    for example in std::fs::read_dir(root.join("examples")).unwrap() {
        let file = example.unwrap().path().join("gates.yaml");
        files.extend(file.is_file().then_some(file));
    }
    assert!(files.len() > 2);
    for file in files {
        if let Err(error) = load(&file, &Selection::default()) {
            panic!("{}: {error}", file.display());
        }
    }
}
