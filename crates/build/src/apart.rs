//! Checks whose files a build reads. The base must be built and computed from its own files alone. If it read head's
//! files, both sides would be the same, and nothing would have been compared.
//!
//! Each file that a compiler, a reference or a program read is attributed to the side whose tree contains it, once
//! links are followed. A file of neither tree must have had the same content for both sides.

use model::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use system::files;
use system::process::confine::Hidden;

/// A file that a compiler, a linker or a loader read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRead {
    /// The absolute path by which the file was read.
    pub named: PathBuf,
    /// The path of the file with all links followed.
    pub real: PathBuf,
    /// The digest of its content, or `None` if it was written in the meantime or is gone.
    pub digest: Option<String>,
}

impl FileRead {
    /// Describes a file that was read. `root` is the directory that a relative name starts from.
    pub fn new(root: &Path, name: impl AsRef<Path>, digest: Option<String>) -> Self {
        let named = root.join(name);
        Self {
            real: named.canonicalize().unwrap_or_else(|_| named.clone()),
            named,
            digest,
        }
    }

    /// Returns a file that was read at some time after `before`.
    pub fn read_since(root: &Path, name: impl AsRef<Path>, before: SystemTime) -> Self {
        let read = Self::new(root, name, None);
        let digest = files::read(&read.real, files::made())
            .ok()
            .map(|bytes| blake3::hash(&bytes).to_hex().to_string());
        Self {
            digest: digest.filter(|_| !was_touched_since(&read.real, before)),
            ..read
        }
    }
}

/// Returns true if a file has been written or replaced since then, or can no longer be read.
pub fn was_touched_since(file: &Path, then: SystemTime) -> bool {
    let Ok(about) = file.metadata() else {
        return true;
    };
    // The change time, which a program cannot set back.
    let changed = u64::try_from(about.ctime()).ok().and_then(|seconds| {
        let nanos = u32::try_from(about.ctime_nsec()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
    });
    changed.is_none_or(|changed| changed >= then)
}

/// The unit or reference that a file was read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReader {
    Unit(UnitId),
    /// The user's reference in this source file.
    Reference(String),
}

/// The files that one side read.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// Each file, with the first reader that read it.
    pub files: BTreeMap<FileRead, FileReader>,
    /// The readers that could not be built without a file of the other side that no list names, each with the
    /// compiler's message.
    pub unlisted: Vec<(FileReader, String)>,
}

impl Reads {
    /// Adds the files that `reader` read. Each file keeps its first reader. `unlisted` says why the list may lack some
    /// files.
    pub fn note(&mut self, reader: &FileReader, files: &[FileRead], unlisted: Option<&String>) {
        for file in files {
            let first = self.files.entry(file.clone());
            first.or_insert_with(|| reader.clone());
        }
        let said = unlisted.map(|said| (reader.clone(), said.clone()));
        self.unlisted.extend(said);
    }

    /// Joins two lists. A file that is in both keeps its reader in `self`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (file, reader) in other.files {
            self.files.entry(file).or_insert(reader);
        }
        self.unlisted.extend(other.unlisted);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Head,
    Base,
}

/// The directories whose owner is known. One can be inside another: a cache in head's tree has the base's tree in it.
#[derive(Debug)]
pub struct OwnedTrees {
    /// `None` if both sides are made of one tree.
    sides: Option<SideDirectories>,
    tools: Vec<Directory>,
    /// Head's files that may have a second name elsewhere. Only files that git knows are listed, because package
    /// managers link what they install to one copy of it.
    files_of_head: Vec<PathBuf>,
    /// The ids of those files that have several hard links.
    ids_of_head: OnceLock<BTreeSet<Id>>,
}

#[derive(Debug)]
struct SideDirectories {
    head: Directory,
    base: Directory,
}

/// A directory by its path and by its id, because a mount shows it under a second path.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    id: Option<Id>,
}

/// The number of the device, and the number of the file on it.
type Id = (u64, u64);

fn id(path: &Path) -> Option<Id> {
    path.metadata()
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Directory {
    fn at(path: &Path) -> Self {
        Self {
            path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            id: id(path),
        }
    }

    fn is(&self, path: &Path, other: Option<Id>) -> bool {
        self.path == path || (self.id.is_some() && self.id == other)
    }
}

impl OwnedTrees {
    /// Describes the trees of two sides. `tools` are directories that belong to neither side, wherever they are:
    /// compilers, and where this program writes.
    pub fn new(head: &Path, base: &Path, tools: &[PathBuf]) -> Self {
        Self {
            sides: Some(SideDirectories {
                head: Directory::at(head),
                base: Directory::at(base),
            }),
            tools: tools.iter().map(|dir| Directory::at(dir)).collect(),
            files_of_head: Vec::new(),
            ids_of_head: OnceLock::new(),
        }
    }

    /// Describes two sides that are made of the same files. No file belongs to one side alone, and each file must be
    /// the same for both.
    pub fn shared() -> Self {
        Self {
            sides: None,
            tools: Vec::new(),
            files_of_head: Vec::new(),
            ids_of_head: OnceLock::new(),
        }
    }

    #[must_use]
    pub fn with_files_of_head(self, files_of_head: Vec<PathBuf>) -> Self {
        Self {
            files_of_head,
            ..self
        }
    }

    fn is_linked_to_head(&self, file: &FileRead) -> bool {
        let several = |about: Metadata| (about.nlink() > 1).then(|| (about.dev(), about.ino()));
        let Some(id) = file.real.metadata().ok().and_then(several) else {
            return false;
        };
        let all = self.ids_of_head.get_or_init(|| {
            // The target of a symbolic link of head's is not head's.
            self.files_of_head
                .iter()
                .filter_map(|own| own.symlink_metadata().ok())
                .filter_map(several)
                .collect()
        });
        all.contains(&id)
    }

    /// Returns the side that owns a file, by the innermost known directory above it.
    fn owner(&self, file: &FileRead) -> Option<Side> {
        let sides = self.sides.as_ref()?;
        for dir in file.real.ancestors().skip(1) {
            let id = id(dir);
            if sides.base.is(dir, id) {
                return Some(Side::Base);
            }
            if sides.head.is(dir, id) {
                return Some(Side::Head);
            }
            if self.tools.iter().any(|tool| tool.is(dir, id)) {
                return None;
            }
        }
        self.is_linked_to_head(file).then_some(Side::Head)
    }

    /// Returns head's tree, which must be hidden from everything that is run for the base, or `None` if both sides
    /// share a tree.
    pub fn hide_head(&self) -> Option<Hidden> {
        let SideDirectories { head, base } = self.sides.as_ref()?;
        let inside = self
            .tools
            .iter()
            .chain([base])
            .filter(|tool| tool.path != head.path)
            .filter(|tool| tool.path.starts_with(&head.path));
        Some(Hidden {
            dir: head.path.clone(),
            but: inside.map(|tool| tool.path.clone()).collect(),
        })
    }

    /// Returns the first file that shows that the two sides are not isolated.
    pub fn find_crossing<'a>(&self, head: &'a Reads, base: &'a Reads) -> Option<Crossing<'a>> {
        // Both names count, because a link between them can be set to another file.
        let mut outside: BTreeMap<&Path, BTreeSet<Option<&str>>> = BTreeMap::new();
        for (file, reader) in &head.files {
            match self.owner(file) {
                Some(Side::Base) => return Some(Crossing::new(Side::Head, reader, file)),
                Some(Side::Head) => {}
                None => {
                    for name in [&file.named, &file.real] {
                        let digests = outside.entry(name).or_default();
                        digests.insert(file.digest.as_deref());
                    }
                }
            }
        }
        let listed = base
            .files
            .iter()
            .map(|(file, reader)| match self.owner(file) {
                Some(Side::Head) => Some(Crossing::new(Side::Base, reader, file)),
                Some(Side::Base) => None,
                None => {
                    let read = [&file.named, &file.real].map(|name| outside.get(name.as_path()));
                    let digests = read.into_iter().flatten().flatten();
                    let own = file.digest.as_deref();
                    let is_other = |digest: &Option<&str>| digest.is_none() || *digest != own;
                    digests
                        .copied()
                        .any(|digest| is_other(&digest))
                        .then_some(Crossing::Changed(file))
                }
            });
        let unlisted = base
            .unlisted
            .iter()
            .map(|(reader, said)| Some(Crossing::Unlisted { reader, said }));
        listed.chain(unlisted).flatten().next()
    }
}

/// The ways in which two sides are not isolated.
#[derive(Debug, PartialEq, Eq)]
pub enum Crossing<'a> {
    /// One side read a file of the other's tree.
    Foreign {
        of: Side,
        reader: &'a FileReader,
        file: &'a FileRead,
    },
    /// The base cannot be built without head's tree.
    Unlisted {
        reader: &'a FileReader,
        said: &'a str,
    },
    /// A file of neither tree was not the same for both.
    Changed(&'a FileRead),
}

impl<'a> Crossing<'a> {
    fn new(of: Side, reader: &'a FileReader, file: &'a FileRead) -> Self {
        Self::Foreign { of, reader, file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(root: &Path, names: &[&str]) -> Reads {
        let read = |name: &&str| {
            let before = SystemTime::UNIX_EPOCH;
            // The digest is what a hit in the cache would have, of the file that is there now.
            let digest = std::fs::read(root.join(name)).ok();
            let digest = digest.map(|bytes| blake3::hash(&bytes).to_hex().to_string());
            assert!(was_touched_since(&root.join(name), before));
            (
                FileRead::new(root, name, digest),
                FileReader::Reference("r.cpp".to_owned()),
            )
        };
        Reads {
            files: names.iter().map(read).collect(),
            unlisted: Vec::new(),
        }
    }

    fn one(file: FileRead) -> Reads {
        Reads {
            files: [(file, FileReader::Reference(String::new()))].into(),
            unlisted: Vec::new(),
        }
    }

    /// Makes `head`, `base` and `out`, each with a header. `inner` is the directory of the base's tree.
    fn trees(inner: &str) -> (tempfile::TempDir, OwnedTrees) {
        let dir = tempfile::tempdir().unwrap();
        for tree in ["head", inner, "out", "head/tools"] {
            std::fs::create_dir_all(dir.path().join(tree)).unwrap();
            std::fs::write(dir.path().join(tree).join("a.h"), tree).unwrap();
        }
        let at = |name: &str| dir.path().join(name);
        let trees = OwnedTrees::new(&at("head"), &at(inner), &[at("head/tools")]);
        (dir, trees)
    }

    fn who(crossing: Option<Crossing>) -> Option<(Option<Side>, PathBuf)> {
        crossing.map(|crossing| match crossing {
            Crossing::Foreign { of, file, .. } => (Some(of), file.named.clone()),
            Crossing::Changed(file) => (None, file.named.clone()),
            Crossing::Unlisted { said, .. } => (Some(Side::Base), said.into()),
        })
    }

    #[test]
    fn each_side_reads_its_own_files_and_shared_ones() {
        for inner in ["base", "head/cache/trees/base"] {
            let (dir, trees) = trees(inner);
            let at = |name: &str| dir.path().join(name).canonicalize().unwrap();
            let (head, base) = (at("head"), at(inner));
            let out = at("out").join("a.h").display().to_string();
            let tool = at("head/tools").join("a.h").display().to_string();
            let ours = reads(&head, &["a.h", &out, &tool]);
            let theirs = reads(&base, &["a.h", &out, &tool]);
            assert_eq!(trees.find_crossing(&ours, &theirs), None);

            let of_head = head.join("a.h").display().to_string();
            let of_base = base.join("a.h").display().to_string();
            let crossed = reads(&base, &[&of_head]);
            assert_eq!(
                who(trees.find_crossing(&ours, &crossed)),
                Some((Some(Side::Base), head.join("a.h")))
            );
            let crossed = reads(&head, &[&of_base]);
            assert_eq!(
                who(trees.find_crossing(&crossed, &theirs)),
                Some((Some(Side::Head), base.join("a.h")))
            );
            let hidden = trees.hide_head().unwrap();
            assert_eq!(hidden.dir, head);
            assert_eq!(hidden.but.len(), usize::from(inner != "base") + 1);
        }
    }

    #[test]
    fn a_link_leads_to_whose_file_it_is() {
        let (dir, trees) = trees("base");
        let at = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink(at("head"), at("base/inc")).unwrap();
        std::os::unix::fs::symlink(at("out/a.h"), at("base/b.h")).unwrap();
        let crossed = reads(&at("base"), &["inc/a.h"]);
        assert_eq!(
            who(trees.find_crossing(&Reads::default(), &crossed)),
            Some((Some(Side::Base), at("base/inc/a.h")))
        );
        let same = reads(&at("base"), &["b.h"]);
        assert_eq!(trees.find_crossing(&Reads::default(), &same), None);
    }

    #[test]
    fn a_file_of_neither_tree_that_changed_in_between() {
        let (dir, trees) = trees("base");
        let at = |name: &str| dir.path().join(name);
        let out = at("out/a.h").display().to_string();
        let ours = reads(&at("head"), &[&out]);
        std::fs::write(at("out/a.h"), "another").unwrap();
        let theirs = reads(&at("base"), &[&out]);
        assert_eq!(
            who(trees.find_crossing(&ours, &theirs)),
            Some((None, at("out/a.h")))
        );
        // Nobody knows what was read from a file that was written at the same time.
        let before = SystemTime::UNIX_EPOCH;
        let untold = FileRead::read_since(&at("base"), &out, before);
        assert_eq!(untold.digest, None);
        let untold = one(untold);
        let now = reads(&at("head"), &[&out]);
        assert!(trees.find_crossing(&now, &untold).is_some());
        let later = FileRead::read_since(&at("base"), &out, SystemTime::now());
        let later = one(later);
        assert_eq!(trees.find_crossing(&now, &later), None);
    }
}
