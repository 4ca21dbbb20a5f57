//! The files that a compilation depended on, and whether they are unchanged.
//!
//! Three kinds: files that were read (by content), files that were not there and would have been read
//! instead (a header that appears earlier in the search order), and answers of `__has_include`.

use super::files::Files;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// All paths are relative to the root where the compiler said so, else absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependencies {
    /// Digest of each file that was read.
    pub files: BTreeMap<String, String>,
    /// Names that were missing, by directory. A missing directory is a missing name in its parent.
    absent: BTreeMap<String, BTreeSet<String>>,
    /// Files that were not read and whose presence was asked for.
    present: BTreeSet<String>,
}

/// The search path for headers of one compilation.
pub struct HeaderSearch<'a> {
    /// `-I` and the like, as given to the compiler.
    pub include_dirs: Vec<String>,
    /// The toolkit's headers, where nvcc compiles.
    pub toolkit: Option<&'a Path>,
}

impl Dependencies {
    /// `included`: the files that the compiler listed. `None` where the outcome depends on something that is not listed
    /// here, and must not be reused.
    pub fn collect(files: &Files, included: &[String], search: &HeaderSearch) -> Option<Self> {
        let mut inputs = Self {
            files: BTreeMap::new(),
            absent: BTreeMap::new(),
            present: BTreeSet::new(),
        };
        let own = |file: &str| !is_outside(file);
        let mut dirs: BTreeSet<String> = search.include_dirs.iter().cloned().collect();
        for file in included {
            inputs.files.insert(file.clone(), files.digest(file)?);
            if own(file) {
                dirs.insert(parent(file));
            }
        }
        // Searched before the directories where system headers usually are.
        dirs.insert("/usr/local/include".to_owned());
        dirs.extend(search.toolkit.map(|it| it.to_string_lossy().into_owned()));

        let mut asked = BTreeSet::new();
        for file in included.iter().filter(|file| own(file)) {
            asked.extend(questions(&files.read(file)?)?);
        }
        for file in included {
            for suffix in suffixes(file) {
                for dir in &dirs {
                    inputs.note_absent(files, dir, suffix);
                }
            }
        }
        dirs.insert("/usr/include".to_owned());
        let cccl = search.toolkit.map(|it| it.join("cccl"));
        dirs.extend(cccl.map(|it| it.to_string_lossy().into_owned()));
        for name in &asked {
            for dir in &dirs {
                if !inputs.note_absent(files, dir, name) {
                    inputs.present.insert(join(dir, name));
                }
            }
        }
        Some(inputs)
    }

    /// Whether all of it is as it was.
    pub fn hold(&self, files: &Files) -> bool {
        self.files
            .iter()
            .all(|(file, digest)| files.digest(file).as_ref() == Some(digest))
            && self.absent.iter().all(|(dir, names)| {
                files
                    .names(dir)
                    .is_none_or(|there| names.iter().all(|name| !there.contains(name.as_str())))
            })
            && self.present.iter().all(|file| files.exists(file))
    }

    /// Records the topmost part of `dir/name` that is missing; false where nothing is.
    fn note_absent(&mut self, files: &Files, dir: &str, name: &str) -> bool {
        let mut at = String::new();
        let whole = join(dir, name);
        for component in Path::new(&whole).components() {
            let part = component.as_os_str().to_string_lossy();
            let next = match component {
                Component::RootDir => {
                    at = "/".to_owned();
                    continue;
                }
                // Neither can be missing by itself.
                Component::CurDir | Component::ParentDir => {
                    at = join(&at, &part);
                    continue;
                }
                _ => join(&at, &part),
            };
            let missing = files
                .names(&at)
                .is_none_or(|names| !names.contains(part.as_ref()));
            if missing {
                self.absent.entry(at).or_default().insert(part.into_owned());
                return true;
            }
            at = next;
        }
        false
    }
}

/// Headers of the toolkit, of the operating system and of other directories outside the tree, as the compiler names
/// them, ask their questions of each other; what they are is in their digests.
fn is_outside(file: &str) -> bool {
    Path::new(file).is_absolute()
}

/// `/a/bin/..//include` as `/a/include`, without asking the file system.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if result.file_name().is_some() => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

fn parent(file: &str) -> String {
    Path::new(file)
        .parent()
        .map(|dir| dir.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The root of relative paths is the empty string.
fn join(dir: &str, name: &str) -> String {
    match dir {
        "" => name.to_owned(),
        dir if dir.ends_with('/') => format!("{dir}{name}"),
        dir => format!("{dir}/{name}"),
    }
}

/// Every way in which an `#include` may have named this file: `c.h`, `b/c.h`, `a/b/c.h`.
fn suffixes(file: &str) -> impl Iterator<Item = &str> {
    let relative = file.trim_start_matches('/');
    std::iter::once(relative)
        .chain(
            relative
                .match_indices('/')
                .filter_map(|(at, _)| relative.get(at + 1..)),
        )
        .filter(|suffix| {
            !suffix.is_empty() && !suffix.starts_with('/') && !suffix.starts_with("..")
        })
}

/// The headers that a source asks for by `__has_include`; `None` where it asks for something that cannot
/// be told, or depends on the time of day or on files that are not includes.
fn questions(text: &str) -> Option<Vec<String>> {
    static ASKED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"__has_include(?:_next|__)?\s*\(\s*(?:["<]([^">\n]+)[">])?"#).ok()
    });
    static UNTOLD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"__DATE__|__TIME__|__TIMESTAMP__|\.incbin|(?:#|%:)\s*embed|__has_embed").ok()
    });
    // As a compiler reads it: a line may go on in the next.
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let text = text.as_str();
    if UNTOLD.as_ref()?.is_match(text) {
        return None;
    }
    ASKED
        .as_ref()?
        .captures_iter(text)
        .map(|found| found.get(1).map(|name| name.as_str().trim().to_owned()))
        .collect()
}

/// Directories that flags add to the search for headers; `None` where a flag brings in something that the
/// preprocessor does not list: libraries, objects, files of options.
pub fn include_dirs(flags: &[String]) -> Option<Vec<String>> {
    let mut dirs = Vec::new();
    let mut flags = flags.iter().flat_map(|flag| flag.split(','));
    const NAMES: [&str; 8] = [
        "--include-path",
        "--system-include",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-Xcompiler=-I",
        "--compiler-options=-I",
        "-I",
    ];
    const UNLISTED: [&str; 12] = [
        "-l",
        "-L",
        "--library",
        "-optf",
        "--options-file",
        "-Xlinker",
        "--linker-options",
        "@",
        "-fprofile-use",
        "-fauto-profile",
        "--sysroot",
        "-isysroot",
    ];
    while let Some(flag) = flags.next() {
        // `-lineinfo` begins with `-l` and links nothing.
        if UNLISTED.iter().any(|name| flag.starts_with(name)) && flag != "-lineinfo"
            || [".a", ".o", ".so"].iter().any(|end| flag.ends_with(end))
        {
            return None;
        }
        if let Some(rest) = NAMES.iter().find_map(|name| flag.strip_prefix(name)) {
            let dir = rest.strip_prefix('=').unwrap_or(rest);
            dirs.push(if dir.is_empty() {
                flags.next()?.to_owned()
            } else {
                dir.to_owned()
            });
        }
    }
    Some(dirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_header() {
        assert_eq!(
            suffixes("/a//b/c.h").collect::<Vec<_>>(),
            ["a//b/c.h", "b/c.h", "c.h"]
        );
        assert_eq!(suffixes("../x/c.h").collect::<Vec<_>>(), ["x/c.h", "c.h"]);
    }

    #[test]
    fn questions_that_can_be_answered_and_others() {
        assert_eq!(questions("int x;"), Some(vec![]));
        assert_eq!(
            questions(
                "#ifdef __has_include\n#if __has_include(<a/b.h>) && __has_include( \"c.h\" )"
            ),
            Some(vec!["a/b.h".to_owned(), "c.h".to_owned()])
        );
        assert_eq!(questions("#if __has_include(HEADER)"), None);
        assert_eq!(questions("const char* t = __TIME__;"), None);
        assert_eq!(questions("asm(\".incbin \\\"x\\\"\");"), None);
        let header = || Some(vec!["c.h".to_owned()]);
        assert_eq!(questions("#if __has_include \\\n (\"c.h\")"), header());
        assert_eq!(questions("#if __has_inc\\\r\nlude(<c.h>)"), header());
        assert_eq!(questions("#if __has_include__(<c.h>)"), header());
        for text in [
            "#  embed \"x\"",
            "#\tembed <x>",
            "%: embed \"x\"",
            "__DA\\\nTE__",
        ] {
            assert_eq!(questions(text), None, "{text}");
        }
    }

    #[test]
    fn directories_in_flags() {
        let dirs = |flags: &[&str]| {
            include_dirs(&flags.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(dirs(&["-O3", "-lineinfo", "-std=c++17"]), Some(vec![]));
        assert_eq!(
            dirs(&["-Ia", "-I", "b", "-isystem=c", "-Xcompiler", "-Wall,-Id"]),
            Some(["a", "b", "c", "d"].map(String::from).into())
        );
        assert_eq!(dirs(&["-lcublas"]), None);
        assert_eq!(dirs(&["x.o"]), None);
        assert_eq!(dirs(&["-optf", "flags.txt"]), None);
        assert_eq!(dirs(&["-Xcompiler", "-fprofile-use=p"]), None);
    }
}
