//! Finds the files of gates that the base has and head lacks, which of them became a file of head, and which kernels
//! and compiled files a change moved to another file.
//!
//! A run answers for its own file, and for those that are gone, because no other run would. A file is gone if head has
//! no file of gates at exactly its path; a link in its place does not count. A file that only head has is compared with
//! the one file of the base that lost most of its contents.

use config::{BinaryGates, Loaded, Program, Selection};
use judge::renames::PlanAndGates;
use model::{Case, GoneGates, MovedGates, Reference, UnitId, UnreadGates};
use records::repo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::{files, sources};

/// Two revisions of one repository, as directories.
pub struct Trees<'a> {
    pub base: &'a repo::Tree,
    /// The top directory of head's files.
    pub head: &'a Path,
}

/// The fate of the base's files of gates, from the view of a run of one file of head's.
pub struct Moves {
    /// The file that became this run's own file, if the base has none at its path.
    pub origin: Option<OriginalFile>,
    /// Files of the base with gates for the same things, if the base has no file at this path and none became it.
    pub elsewhere: Vec<String>,
    pub gone: Vec<GoneGates>,
    /// The files that have gone and that cannot be loaded at the base.
    pub unread: Vec<UnreadGates>,
}

pub struct OriginalFile {
    /// The path from the top of the repository.
    pub file: PathBuf,
    /// The lost part, if head still has the file. This run answers for nothing else in it.
    pub part: Option<LostNames>,
}

/// The names of what a file of gates lost.
pub struct LostNames {
    pub kernels: BTreeSet<String>,
    pub binaries: BTreeSet<String>,
}

/// Finds what moved. `own` is the run's own file, from the top of the repository, and `head` what is in it.
///
/// # Errors
/// Environment, if git cannot list files. Usage, if the file could have been either of two.
pub fn find(trees: &Trees, revision: &str, own: &Path, head: &Loaded) -> Result<Moves> {
    let base = &trees.base.top;
    let mut gone = Vec::new();
    let mut unread = Vec::new();
    let files = gates_of_base(trees)?;
    for file in files
        .into_iter()
        .filter(|file| Path::new(file) != own && !stands(trees.head, file))
    {
        match load(base, &file) {
            Ok(loaded) => gone.push(content(file, &loaded)),
            Err(error) => unread.push(UnreadGates {
                problem: error.to_string(),
                file,
            }),
        }
    }
    let is_new = !base.join(own).is_file();
    if gone.is_empty() && !is_new {
        return Ok(Moves {
            origin: None,
            elsewhere: Vec::new(),
            gone,
            unread,
        });
    }
    let lost = lost(trees)?;
    let origin = if is_new {
        origin(&lost, &content(String::new(), head))
            .map_err(|files| could_be_either(revision, &files))?
    } else {
        None
    };
    let elsewhere = if is_new && origin.is_none() {
        find_gates_for(head, trees, own)?
    } else {
        Vec::new()
    };
    gone.retain(|gone_gates| Some(&gone_gates.file) != origin.as_ref());
    // Its contents are in new files, and the runs of those compare them with what they were.
    let successors = successors(trees, own, &lost)?;
    gone.retain(|gone_gates| {
        let now: Vec<GoneGates> = successors
            .iter()
            .filter(|(_, was)| *was == gone_gates.file)
            .filter_map(|(file, _)| content_of(trees.head, file.clone()))
            .collect();
        let has_case = |id| now.iter().any(|gates| gates.cases.contains(id));
        let has_binary = |id| now.iter().any(|gates| has_binary(gates, id));
        !(gone_gates.cases.iter().all(has_case) && gone_gates.binaries.iter().all(has_binary))
    });
    let origin = origin.map(|file| {
        let (kernels, binaries) = lost
            .iter()
            .filter(|gates| gates.file == file)
            .map(|gates| {
                (
                    gates.cases.iter().map(|id| id.kernel.clone()).collect(),
                    gates.binaries.iter().map(|id| id.variant.clone()).collect(),
                )
            })
            .next()
            .unwrap_or_default();
        OriginalFile {
            part: stands(trees.head, &file).then_some(LostNames { kernels, binaries }),
            file: PathBuf::from(file),
        }
    });
    Ok(Moves {
        origin,
        elsewhere,
        gone,
        unread,
    })
}

/// Finds the base's files of gates that share something with head's file `own`.
fn find_gates_for(head: &Loaded, trees: &Trees, own: &Path) -> Result<Vec<String>> {
    let ours = names_of(head, own);
    let top = &trees.base.top;
    let mut files = gates_of_base(trees)?;
    files.retain(|file| {
        // A file that cannot be loaded either has a run of its own, which reports that, or is gone.
        load(top, file).is_ok_and(|theirs| !ours.is_disjoint(&names_of(&theirs, Path::new(file))))
    });
    Ok(files)
}

/// Returns the names of the kernels, programs and compiled files of a file of gates, and the files that they are made
/// from, as paths from the top of the repository.
fn names_of(loaded: &Loaded, file: &Path) -> BTreeSet<String> {
    let dir = file.parent().unwrap_or(Path::new(""));
    let made_of = loaded
        .whole
        .plan
        .units
        .iter()
        .map(|unit| &unit.source)
        .chain(loaded.binaries.iter().map(|binary| &binary.file))
        .map(|name| sources::relative(Path::new(""), &dir.join(name)));
    loaded
        .all
        .iter()
        .map(|id| &id.kernel)
        .chain(loaded.programs.iter().map(|program| &program.name))
        .chain(loaded.binaries.iter().map(|binary| &binary.name))
        .cloned()
        .chain(made_of.map(|path| path.display().to_string()))
        .collect()
}

/// Returns, for each of the base's files, the cases whose kernel is not in head's file at the same path, and the
/// binaries that are missing there.
fn lost(trees: &Trees) -> Result<Vec<GoneGates>> {
    let lost = gates_of_base(trees)?.into_iter().filter_map(|file| {
        let mut lost = content_of(&trees.base.top, file)?;
        let here = stands(trees.head, &lost.file).then(|| lost.file.clone());
        if let Some(here) = here.and_then(|file| content_of(trees.head, file)) {
            let kept: BTreeSet<_> = here.cases.iter().map(|id| id.kernel.as_str()).collect();
            lost.cases.retain(|id| !kept.contains(id.kernel.as_str()));
            lost.binaries.retain(|id| !has_binary(&here, id));
        }
        Some(lost)
    });
    let is_empty = |gates: &GoneGates| gates.cases.is_empty() && gates.binaries.is_empty();
    Ok(lost.filter(|gates| !is_empty(gates)).collect())
}

/// Returns the files that only head has, except the run's own, each with the file of the base that its run is compared
/// with.
fn successors(trees: &Trees, own: &Path, lost: &[GoneGates]) -> Result<Vec<(String, String)>> {
    let names = gates_of_head(trees)?.into_iter();
    let new = names.filter(|name| {
        let is_new = !trees.base.top.join(name).is_file();
        Path::new(name) != own && is_new && stands(trees.head, name)
    });
    Ok(new
        .filter_map(|name| {
            let new = content_of(trees.head, name)?;
            let origin = origin(lost, &new).ok()??;
            Some((new.file, origin))
        })
        .collect())
}

/// The parts of a file of gates that another revision of it does not have.
pub struct Lost<'a> {
    pub kernels: BTreeSet<String>,
    /// The compiled files, with paths as the run's own file of gates would write them.
    pub binaries: Vec<&'a BinaryGates>,
}

/// Parts of the base's file `was` that head's file `own` does not have, as head has them in other files: kernels that
/// ask no less there, and compiled files that ask the same. The run of the other file is held against `was`, too.
///
/// # Errors
/// Environment, if git cannot list files.
pub fn find_elsewhere(
    trees: &Trees,
    own: &Path,
    was: &Path,
    base: PlanAndGates,
    gone: &Lost,
    instead: &Selection,
) -> Result<Vec<MovedGates>> {
    if gone.kernels.is_empty() && gone.binaries.is_empty() {
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
        let binaries = seen_from(own, Path::new(&file), there.binaries.clone());
        let is_there = |gates: &&&BinaryGates| binaries.iter().any(|new| new.asks_the_same(gates));
        let mut moved = MovedGates {
            cases: Vec::new(),
            binaries: gone
                .binaries
                .iter()
                .filter(is_there)
                .copied()
                .flat_map(units)
                .collect(),
            file,
        };
        for kernel in &gone.kernels {
            if asks_no_less(base, theirs, kernel) && has_references_of(base, theirs, kernel) {
                moved.cases.extend(
                    base.plan
                        .cases
                        .iter()
                        .map(|case| &case.id)
                        .filter(|id| id.kernel == *kernel)
                        .cloned(),
                );
            }
        }
        if !moved.cases.is_empty() || !moved.binaries.is_empty() {
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

/// Returns true if head's file has the references that a kernel of the base had. It does not matter where a user's own
/// function is: the run of the other file computes both sides.
fn has_references_of(base: PlanAndGates, head: PlanAndGates, kernel: &str) -> bool {
    let asked = |case: &Case| match &case.reference {
        Reference::User { args, .. } => Err(args.clone()),
        other => Ok(other.clone()),
    };
    base.plan
        .cases
        .iter()
        .filter(|case| case.id.kernel == kernel)
        .all(|case| {
            let other = head.plan.case(&case.id);
            other.is_some_and(|other| asked(case) == asked(other))
        })
}

/// Finds the file that lost most of what a new file has.
///
/// # Errors
/// Returns the files that tie for the most.
fn origin(gone: &[GoneGates], new: &GoneGates) -> std::result::Result<Option<String>, Vec<String>> {
    let common = |gates: &GoneGates| {
        gates
            .cases
            .iter()
            .filter(|id| new.cases.contains(id))
            .count()
            + gates
                .binaries
                .iter()
                .filter(|id| has_binary(new, id))
                .count()
    };
    let most = gone.iter().map(common).max().unwrap_or_default();
    let first: Vec<_> = gone
        .iter()
        .filter(|gone_gates| common(gone_gates) == most)
        .collect();
    match first.as_slice() {
        _ if most == 0 => Ok(None),
        [only] => Ok(Some(only.file.clone())),
        several => Err(several.iter().map(|gates| gates.file.clone()).collect()),
    }
}

fn could_be_either(revision: &str, files: &[String]) -> Error {
    Error::usage(format!(
            "the base {revision} has no gates here, and the cases and binaries of this file could be those of either of {}",
            files.join(", ")
        ))
        .help("move one file of gates in a change, so that it can be held against what it was")
}

fn gates_of_base(trees: &Trees) -> Result<Vec<String>> {
    let names = trees.base.files_with(KEYS, ENDINGS)?;
    Ok(gates_among(&trees.base.top, names))
}

fn gates_of_head(trees: &Trees) -> Result<Vec<String>> {
    let names = repo::files_with(trees.head, KEYS, ENDINGS)?;
    Ok(gates_among(trees.head, names))
}

/// The keys of a file of gates. Every such file has one of them.
const KEYS: &[&str] = &["kernels", "binaries", "programs"];
const ENDINGS: &[&str] = &["yaml", "yml"];

/// Returns the files of gates among these names. They are recognised by their content.
fn gates_among(top: &Path, mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| is_gates(&top.join(name)));
    names
}

fn is_gates(path: &Path) -> bool {
    files::read_text(path, files::WRITTEN).is_ok_and(|text| config::is_gates(&text))
}

/// Returns true if a file of gates is at exactly this path, and not behind a link.
fn stands(top: &Path, name: &str) -> bool {
    let mut path = top.to_owned();
    let is_linked = Path::new(name).components().any(|part| {
        path.push(part);
        path.is_symlink()
    });
    !is_linked && is_gates(&path)
}

fn load(top: &Path, file: &str) -> Result<Loaded> {
    config::load_in_tree(top, &top.join(file), &Selection::default())
}

fn content_of(top: &Path, file: String) -> Option<GoneGates> {
    let loaded = load(top, &file).ok()?;
    Some(content(file, &loaded))
}

/// Returns all that a file contains, whatever the filters select.
fn content(file: String, loaded: &Loaded) -> GoneGates {
    // The launches of a program are known only after it ran, so the program itself is listed for them.
    let programs = loaded.programs.iter().map(Program::every_launch);
    GoneGates {
        file,
        cases: loaded.all.iter().cloned().chain(programs).collect(),
        binaries: loaded.binaries.iter().flat_map(units).collect(),
    }
}

/// Returns the units of all kernels of a compiled file.
fn units(binary: &BinaryGates) -> impl Iterator<Item = UnitId> {
    binary
        .architectures
        .iter()
        .map(|arch| artifact::name_all_kernels(&binary.name, *arch))
}

/// Returns the binaries of the file of gates `was`, with their paths as `own` would name them. Links to directories in
/// these paths are not followed.
pub fn seen_from(own: &Path, was: &Path, mut binaries: Vec<BinaryGates>) -> Vec<BinaryGates> {
    let dir = |file: &Path| file.parent().unwrap_or(Path::new("")).to_owned();
    let (here, there) = (dir(own), dir(was));
    if here != there {
        for binary in &mut binaries {
            let place = sources::relative(&here, &there.join(&binary.file));
            binary.file = place.display().to_string();
        }
    }
    binaries
}

/// Returns true if a file has this binary, for any architecture.
fn has_binary(file: &GoneGates, id: &UnitId) -> bool {
    file.binaries
        .iter()
        .any(|binary| binary.variant == id.variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CaseId;

    fn cases(names: &[&str]) -> Vec<CaseId> {
        let case = |name: &&str| CaseId::new((*name).to_owned(), "default", "small");
        names.iter().map(case).collect()
    }

    fn gone(file: &str, names: &[&str]) -> GoneGates {
        GoneGates {
            file: file.into(),
            cases: cases(names),
            binaries: Vec::new(),
        }
    }

    fn with_binary(name: &str, mut gates: GoneGates) -> GoneGates {
        let arch = "sm_90".parse().unwrap();
        gates.binaries.push(artifact::name_all_kernels(name, arch));
        gates
    }

    #[test]
    fn a_new_file_was_the_one_with_most_of_its_cases() {
        let both = [
            gone("a.yaml", &["x", "y", "z"]),
            gone("b.yaml", &["u", "v"]),
        ];
        let of = |names: &[&str]| origin(&both, &gone("new.yaml", names));
        assert_eq!(of(&["x", "v", "y"]), Ok(Some("a.yaml".into())));
        assert_eq!(of(&["v", "new"]), Ok(Some("b.yaml".into())));
        assert_eq!(of(&["new"]), Ok(None));
        assert_eq!(
            of(&["x", "u"]),
            Err(vec!["a.yaml".to_owned(), "b.yaml".to_owned()])
        );
    }

    #[test]
    fn a_file_without_cases_was_the_one_with_most_of_its_binaries() {
        let both = [
            with_binary("x", gone("a.yaml", &["k"])),
            with_binary("y", gone("b.yaml", &[])),
        ];
        let of = |name: &str| origin(&both, &with_binary(name, gone("new.yaml", &[])));
        assert_eq!(of("x"), Ok(Some("a.yaml".into())));
        assert_eq!(of("y"), Ok(Some("b.yaml".into())));
        assert_eq!(of("new"), Ok(None));
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
