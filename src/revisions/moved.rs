//! Which files of gates the base has that head has no more, which of them a file of head was, and which kernels a
//! change took to another file.
//!
//! A run answers for its own file, and for those that are gone: nobody else would. A file is gone where head has
//! no file of gates at its very path; a link left behind in its place is none. A file that head alone has is held
//! against the one file of the base that lost most of its cases.

use config::Selection;
use judge::renames::PlanAndGates;
use model::{Case, CaseId, GoneGates, MovedGates, Reference};
use records::repo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;

/// Two revisions of one repository.
pub struct Trees<'a> {
    pub base: &'a repo::Tree,
    /// The top directory.
    pub head: &'a Path,
}

/// The fate of the base's files of gates, as the run of one file of head's sees it.
pub struct Moves {
    /// The file that became this run's own file, where the base has none at its path.
    pub origin: Option<Origin>,
    pub gone: Vec<GoneGates>,
}

pub struct Origin {
    /// From the top of the repository.
    pub file: PathBuf,
    /// Where head has that file too, the kernels that it lost: this run answers for no others of it.
    pub part: Option<BTreeSet<String>>,
}

/// `own` is the run's own file, from the top of the repository, and `cases` all that it has.
///
/// # Errors
/// Environment, where git cannot list files. Usage, where the file could have been either of two.
pub fn find(trees: &Trees, revision: &str, own: &Path, cases: &[CaseId]) -> Result<Moves> {
    let base = &trees.base.top;
    let mut gone: Vec<GoneGates> = gates_of_base(trees)?
        .into_iter()
        .filter(|name| Path::new(name) != own && !stands(trees.head, name))
        .filter_map(|file| {
            // A file that cannot be read there held nobody to anything.
            let cases = cases_of(base, &file)?;
            Some(GoneGates { file, cases })
        })
        .collect();
    let is_new = !base.join(own).is_file();
    if gone.is_empty() && !is_new {
        return Ok(Moves { origin: None, gone });
    }
    let lost = lost(trees)?;
    let origin = match is_new {
        true => origin(&lost, cases).map_err(|files| could_be_either(revision, &files))?,
        false => None,
    };
    gone.retain(|it| Some(&it.file) != origin.as_ref());
    // Its cases stand in new files: the run of each of those holds them against what they were.
    let successors = successors(trees, own, &lost)?;
    gone.retain(|it| {
        let mut of_it = successors.iter().filter(|(_, was)| *was == it.file);
        let cases: Vec<CaseId> = of_it
            .by_ref()
            .filter_map(|(file, _)| cases_of(trees.head, file))
            .flatten()
            .collect();
        !it.cases.iter().all(|id| cases.contains(id))
    });
    let origin = origin.map(|file| {
        let lost = lost.iter().filter(|it| it.file == file);
        let lost = lost.flat_map(|it| &it.cases);
        let kernels = lost.map(|id| id.kernel.clone()).collect();
        Origin {
            part: stands(trees.head, &file).then_some(kernels),
            file: PathBuf::from(file),
        }
    });
    Ok(Moves { origin, gone })
}

/// Cases of each of the base's files whose kernel is not in head's file at the same path.
fn lost(trees: &Trees) -> Result<Vec<GoneGates>> {
    let lost = gates_of_base(trees)?.into_iter().filter_map(|file| {
        let mut cases = cases_of(&trees.base.top, &file)?;
        let here = match stands(trees.head, &file) {
            true => cases_of(trees.head, &file).unwrap_or_default(),
            false => Vec::new(),
        };
        cases.retain(|id| here.iter().all(|other| other.kernel != id.kernel));
        Some(GoneGates { file, cases })
    });
    Ok(lost.filter(|it| !it.cases.is_empty()).collect())
}

/// Files that head alone has, apart from the run's own, each with the file of the base that its run is held against.
fn successors(trees: &Trees, own: &Path, lost: &[GoneGates]) -> Result<Vec<(String, String)>> {
    let names = gates_of_head(trees)?.into_iter();
    let new = names.filter(|name| {
        let is_new = !trees.base.top.join(name).is_file();
        Path::new(name) != own && is_new && stands(trees.head, name)
    });
    let found = new.filter_map(|name| {
        let cases = cases_of(trees.head, &name)?;
        let origin = origin(lost, &cases).ok()??;
        Some((name, origin))
    });
    Ok(found.collect())
}

/// Kernels of the base's file `was` that head's file `own` does not have, as head has them in other files: those that
/// ask no less there, and whose own run is held against `was`, too.
///
/// # Errors
/// Environment, where git cannot list files.
pub fn find_elsewhere(
    trees: &Trees,
    own: &Path,
    was: &Path,
    base: PlanAndGates,
    kernels: &BTreeSet<String>,
    instead: &Selection,
) -> Result<Vec<MovedGates>> {
    if kernels.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (file, origin) in successors(trees, own, &lost(trees)?)? {
        let Ok(there) = config::load(&trees.head.join(&file), instead) else {
            continue;
        };
        if Path::new(&origin) != was {
            continue;
        }
        let theirs = PlanAndGates {
            plan: &there.plan,
            gates: &there.gates,
        };
        let mut moved = MovedGates {
            cases: Vec::new(),
            file,
        };
        for kernel in kernels {
            if asks_no_less(base, theirs, kernel) && has_references_of(base, theirs, kernel) {
                let cases = base.plan.cases.iter().map(|case| &case.id);
                let cases = cases.filter(|id| id.kernel == *kernel);
                moved.cases.extend(cases.cloned());
            }
        }
        if !moved.cases.is_empty() {
            found.push(moved);
        }
    }
    Ok(found)
}

fn asks_no_less(base: PlanAndGates, head: PlanAndGates, kernel: &str) -> bool {
    let mut plan = base.plan.clone();
    let mut gates = base.gates.to_vec();
    plan.retain(|name| name == kernel);
    gates.retain(|gate| gate.subject.kernel() == kernel);
    let base = PlanAndGates {
        plan: &plan,
        gates: &gates,
    };
    judge::asks_no_less(base, head)
}

/// Where a function of one's own stands is no matter: the run of the other file computes both sides'.
fn has_references_of(base: PlanAndGates, head: PlanAndGates, kernel: &str) -> bool {
    let asked = |case: &Case| match &case.reference {
        Reference::User { args, .. } => Err(args.clone()),
        other => Ok(other.clone()),
    };
    let cases = base.plan.cases.iter();
    let mut cases = cases.filter(|case| case.id.kernel == kernel);
    cases.all(|case| {
        let other = head.plan.case(&case.id);
        other.is_some_and(|other| asked(case) == asked(other))
    })
}

/// Finds the file whose lost cases have the most in common with those of a new file.
///
/// # Errors
/// The files that tie for the most.
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
    Error::usage(format!(
            "the base {revision} has no gates here, and the cases of this file could be those of either of {}",
            files.join(", ")
        ))
        .help("move one file of gates in a change, so that it can be held against what it was")
}

fn gates_of_base(trees: &Trees) -> Result<Vec<String>> {
    let names = trees.base.files_with(KEY, ENDINGS)?;
    Ok(gates_among(&trees.base.top, names))
}

fn gates_of_head(trees: &Trees) -> Result<Vec<String>> {
    let names = repo::files_with(trees.head, KEY, ENDINGS)?;
    Ok(gates_among(trees.head, names))
}

/// A word that every file of gates has.
const KEY: &str = "kernels";
const ENDINGS: &[&str] = &["yaml", "yml"];

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

fn cases_of(top: &Path, name: impl AsRef<Path>) -> Option<Vec<CaseId>> {
    let loaded = config::load_in_tree(top, &top.join(name), &Selection::default()).ok()?;
    Some(loaded.all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(names: &[&str]) -> Vec<CaseId> {
        let case = |name: &&str| CaseId::new((*name).to_owned(), "default", "small");
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
