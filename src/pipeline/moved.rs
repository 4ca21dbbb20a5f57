//! Which files of gates the base has that head has no more, and which of them a file of head was.
//!
//! A run answers for its own file, and for those that are gone: nobody else would. A file is gone where head has
//! no file of gates at its very path; a link left behind in its place is none.

use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::files;
use crate::repo;
use std::path::{Path, PathBuf};
use verdict::model::{CaseId, GoneGates};

/// Two revisions of one repository.
pub struct Trees<'a> {
    pub base: &'a repo::Tree,
    /// The top directory.
    pub head: &'a Path,
}

/// What became of the base's files of gates, as the run of one file of head's sees it.
pub struct Moves {
    /// What this run's own file was, where the base has none at its path; from the top of the repository.
    pub origin: Option<PathBuf>,
    pub gone: Vec<GoneGates>,
}

/// `own` is the run's own file, from the top of the repository, and `cases` all that it has.
///
/// # Errors
/// Environment, where git cannot list files. Usage, where the file could have been either of two.
pub fn find(trees: &Trees, revision: &str, own: &Path, cases: &[CaseId]) -> Result<Moves> {
    let base = &trees.base.top;
    let of_base = trees.base.files_with("kernels", &["yaml", "yml"])?;
    let mut gone: Vec<GoneGates> = gates_among(base, of_base)
        .into_iter()
        .filter(|name| Path::new(name) != own && !stands(trees.head, name))
        .filter_map(|file| {
            // What cannot be read there held nobody to anything.
            let cases = cases_of(&base.join(&file))?;
            Some(GoneGates { file, cases })
        })
        .collect();
    if gone.is_empty() {
        return Ok(Moves { origin: None, gone });
    }
    let is_new = |name: &Path| !base.join(name).is_file();
    let origin = match is_new(own) {
        true => origin(&gone, cases).map_err(|files| could_be_either(revision, &files))?,
        false => None,
    };
    gone.retain(|it| Some(&it.file) != origin.as_ref());
    // A file that is new and has all of another's cases is that, moved: its own run holds it against what it was.
    let of_head = repo::files_with(trees.head, "kernels", &["yaml", "yml"])?;
    for name in gates_among(trees.head, of_head) {
        let path = Path::new(&name);
        if path != own && is_new(path) && stands(trees.head, &name) {
            let cases = cases_of(&trees.head.join(path)).unwrap_or_default();
            gone.retain(|it| !it.cases.iter().all(|id| cases.contains(id)));
        }
    }
    Ok(Moves {
        origin: origin.map(PathBuf::from),
        gone,
    })
}

/// Of the files that are gone the one that has most cases in common with a new one.
///
/// # Errors
/// Those that have as many.
fn origin(
    gone: &[GoneGates],
    cases: &[CaseId],
) -> std::result::Result<Option<String>, Vec<String>> {
    let common = |it: &GoneGates| it.cases.iter().filter(|id| cases.contains(id)).count();
    let most = gone.iter().map(common).max().unwrap_or_default();
    let first: Vec<_> = gone.iter().filter(|it| common(it) == most).collect();
    match first.as_slice() {
        _ if most == 0 => Ok(None),
        [only] => Ok(Some(only.file.clone())),
        several => Err(several.iter().map(|it| it.file.clone()).collect()),
    }
}

fn could_be_either(revision: &str, files: &[String]) -> Error {
    Error::Usage(
        Diagnostic::new(format!(
            "the base {revision} has no gates here, and had some that are gone: {}",
            files.join(", ")
        ))
        .help("move one file of gates in a change, so that it can be held against what it was"),
    )
}

/// Files of gates, whatever they are called.
fn gates_among(top: &Path, mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| is_gates(&top.join(name)));
    names
}

fn is_gates(path: &Path) -> bool {
    files::read_text(path, files::WRITTEN).is_ok_and(|text| config::is_gates(&text))
}

/// Whether a file of gates is at this very path, not through a link.
fn stands(top: &Path, name: &str) -> bool {
    let mut path = top.to_owned();
    let is_linked = Path::new(name).components().any(|part| {
        path.push(part);
        path.is_symlink()
    });
    !is_linked && is_gates(&path)
}

fn cases_of(path: &Path) -> Option<Vec<CaseId>> {
    let loaded = config::load(path, &Selection::default()).ok()?;
    Some(loaded.all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(names: &[&str]) -> Vec<CaseId> {
        let case = |name: &&str| CaseId {
            kernel: (*name).to_owned(),
            variant: "default".into(),
            shape: "small".into(),
        };
        names.iter().map(case).collect()
    }

    fn gone(file: &str, names: &[&str]) -> GoneGates {
        GoneGates {
            file: file.into(),
            cases: cases(names),
        }
    }

    #[test]
    fn a_new_file_was_the_one_with_most_of_its_cases() {
        let both = [
            gone("a.yaml", &["x", "y", "z"]),
            gone("b.yaml", &["u", "v"]),
        ];
        let of = |names: &[&str]| origin(&both, &cases(names));
        assert_eq!(of(&["x", "v", "y"]), Ok(Some("a.yaml".into())));
        assert_eq!(of(&["v", "new"]), Ok(Some("b.yaml".into())));
        assert_eq!(of(&["new"]), Ok(None));
        assert_eq!(
            of(&["x", "u"]),
            Err(vec!["a.yaml".to_owned(), "b.yaml".to_owned()])
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_no_file_of_gates_and_neither_is_another_yaml() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        std::fs::create_dir(top.join("sub")).unwrap();
        std::fs::write(top.join("sub/gates.yaml"), "version: 1\nkernels: {}\n").unwrap();
        std::fs::write(top.join("quoted.yaml"), "\"version\": 1\n'kernels': {}\n").unwrap();
        std::fs::write(top.join("other.yaml"), "version: 1\njobs: [kernels]\n").unwrap();
        std::os::unix::fs::symlink("sub/gates.yaml", top.join("gates.yaml")).unwrap();
        std::os::unix::fs::symlink("sub", top.join("linked")).unwrap();
        assert!(stands(top, "sub/gates.yaml"));
        assert!(stands(top, "quoted.yaml"));
        for name in ["gates.yaml", "linked/gates.yaml", "other.yaml", "none.yaml"] {
            assert!(!stands(top, name), "{name}");
        }
    }
}
