//! Records the files that a compilation depended on, and checks whether they are unchanged.
//!
//! There are three kinds of input: files that were read (by content), files that did not exist and would have been read
//! instead (a header that appears earlier in the search order), and answers of `__has_include`. The names come from the
//! texts of files, and the directories from the compiler. If a name is not written in a file, or a flag may make the
//! compiler read other files, the outcome is not reused.

use super::files::Files;
use super::search::SearchList;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::sync::LazyLock;

/// The files that a compilation depended on. Paths are relative to the root if the compiler printed them so, and
/// absolute otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependencies {
    /// The digest of each file that was read.
    pub files: BTreeMap<String, String>,
    /// Names that were missing, by directory. A missing directory is a missing name in its parent.
    absent: BTreeMap<String, BTreeSet<String>>,
    /// Files that were not read, but whose existence mattered.
    present: BTreeSet<String>,
}

impl Dependencies {
    /// Collects what a compilation depended on. `included` are the files that the compiler listed, `named` the headers
    /// that its flags name, and `definitions` what its flags put into macros. `None` if the outcome may depend on
    /// something that is not listed here, so that it must not be reused.
    pub fn collect(
        files: &Files,
        included: &[String],
        (named, definitions): (&[String], &str),
        search: &SearchList,
    ) -> Option<Self> {
        let mut inputs = Self {
            files: BTreeMap::new(),
            absent: BTreeMap::new(),
            present: BTreeSet::new(),
        };
        let mut names = IncludedNames::default();
        names.included.extend(named.iter().cloned());
        // A file can combine any macro that is defined there with something else.
        names.read(&format!("## {definitions}"))?;
        // A header that a flag names is searched for in the compiler's working directory.
        let mut dirs = BTreeSet::from([String::new()]);
        dirs.extend(search.dirs.iter().cloned());
        for file in included {
            inputs.files.insert(file.clone(), files.digest(file)?);
            let text = files.read(file)?;
            if search.is_own(file) {
                names.read_system_header(&text);
            } else {
                names.read(&text)?;
                dirs.insert(parent(file));
            }
            // These names were made by macros.
            names.included.extend(suffixes(file).map(str::to_owned));
        }
        for dir in &search.missing {
            inputs.note_absent(files, "", dir);
        }
        for dir in &dirs {
            for name in &names.included {
                inputs.note_absent(files, dir, name);
                // GCC reads a precompiled header instead of the header.
                inputs.note_absent(files, dir, &format!("{name}.gch"));
            }
            for name in &names.asked {
                if !inputs.note_absent(files, dir, name) {
                    inputs.present.insert(join(dir, name));
                }
            }
        }
        Some(inputs)
    }

    /// Returns an input that changed: a file, or the directory of a file that is new there. Returns `None` if all are
    /// unchanged.
    pub fn changed(&self, files: &Files) -> Option<&str> {
        let is_new = |dir: &str, names: &BTreeSet<String>| {
            files
                .names(dir)
                .is_some_and(|there| names.iter().any(|name| there.contains(name.as_str())))
        };
        let other = self
            .files
            .iter()
            .find(|(file, digest)| files.digest(file).as_ref() != Some(digest));
        other
            .map(|(file, _)| file)
            .or_else(|| {
                Some(
                    self.absent
                        .iter()
                        .find(|(dir, names)| is_new(dir, names))?
                        .0,
                )
            })
            .or_else(|| self.present.iter().find(|file| !files.exists(file)))
            .map(String::as_str)
    }

    /// Records the topmost part of `dir/name` that is missing. Returns false if nothing is missing.
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
                // Neither of these can be missing by itself.
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

fn parent(file: &str) -> String {
    Path::new(file)
        .parent()
        .map(|dir| dir.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Joins a directory and a name. The root of relative paths is the empty string.
fn join(dir: &str, name: &str) -> String {
    match dir {
        "" => name.to_owned(),
        dir if dir.ends_with('/') => format!("{dir}{name}"),
        dir => format!("{dir}/{name}"),
    }
}

/// Returns every way in which an `#include` may have named this file: `c.h`, `b/c.h`, `a/b/c.h`.
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

/// The names by which the files of a compilation look for others.
#[derive(Default)]
struct IncludedNames {
    included: BTreeSet<String>,
    /// The names that occur in `__has_include`.
    asked: BTreeSet<String>,
}

static INCLUDED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?m)^[ \t]*(?:#|%:)[ \t]*(?:include(?:_next)?|import)\b[ \t]*(?:["<]([^">\n]+)[">])?"#,
    )
    .ok()
});

static ASKED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Letters of ASCII alone: cases of all others are a feature of the crate that only tests switch on.
    Regex::new(r#"(?P<defined>(?i-u:defined)[ \t]*\(?[ \t]*|(?i-u:ifn?def)[ \t]+)?\w*(?i-u:has_include)\w*(?:[ \t]*\([ \t]*["<]([^">\n]+)[">])?"#).ok()
});

impl IncludedNames {
    /// Reads a header that comes with the compiler or the system. A name that its own macros make depends only on its
    /// text, which its digest covers.
    fn read_system_header(&mut self, text: &str) {
        let (Some(included), Some(asked)) = (INCLUDED.as_ref(), ASKED.as_ref()) else {
            return;
        };
        let captures = included.captures_iter(text);
        self.included
            .extend(captures.filter_map(|found| name(found.get(1))));
        let captures = asked.captures_iter(text);
        self.asked
            .extend(captures.filter_map(|found| name(found.get(2))));
    }

    /// Reads any other file. Returns `None` if it looks for something whose name is not written there, or depends on
    /// the time of day or on files that are not includes.
    fn read(&mut self, text: &str) -> Option<()> {
        static UNTOLD: LazyLock<Option<Regex>> = LazyLock::new(|| {
            // The second part is any beginning of `__has_include` or `__has_embed` that is a word by itself: only from one
            // of these can `##` make such a question. `%:%:` is another way to write it, and so are trigraphs.
            Regex::new(
                r"(?x)__DATE__|__TIME__|__TIMESTAMP__|\.incbin|(?:\#|%:)\s*embed|__has_embed|\?\?=
                |\#\#(?s:.*)\b__?(?:h(?:a(?:s(?:_(?:i(?:n(?:c(?:l(?:u(?:d)?)?)?)?)?|e(?:m(?:b(?:e)?)?)?)?)?)?)?)?\b
                |\b__?(?:h(?:a(?:s(?:_(?:i(?:n(?:c(?:l(?:u(?:d)?)?)?)?)?|e(?:m(?:b(?:e)?)?)?)?)?)?)?)?\b(?s:.*)\#\#",
            )
            .ok()
        });
        // Joins lines as a compiler does, because a line may continue in the next.
        let text = text
            .replace("\\\r\n", "")
            .replace("\\\n", "")
            .replace("%:%:", "##");
        if UNTOLD.as_ref()?.is_match(&text) {
            return None;
        }
        for found in INCLUDED.as_ref()?.captures_iter(&text) {
            self.included.insert(name(found.get(1))?);
        }
        for line in text.lines() {
            for found in ASKED.as_ref()?.captures_iter(line) {
                // A definition only passes on what somebody else asks.
                let is_definition = line
                    .trim_start()
                    .trim_start_matches('#')
                    .trim_start()
                    .starts_with("define");
                match name(found.get(2)) {
                    Some(name) if !is_definition => drop(self.asked.insert(name)),
                    None if found.name("defined").is_some() => {}
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

fn name(found: Option<regex::Match>) -> Option<String> {
    found.map(|name| name.as_str().trim().to_owned())
}

/// Flags of nvcc that read no file but headers, where the compiler itself says in which directories.
static NVCC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^(?:-O.*|--opt[a-z]+ze.*|-[DU].*|--(?:un)?define-macro.*|-I.*|--include-path.*|-isystem.*|--system-include.*
        |-std.*|--std.*|-g|-G|-w|-Werror.*|-W[a-z].*|--?device-debug|--debug|-lineinfo|--generate-line-info|--?use_fast_math
        |--?(?:ftz|prec-div|prec-sqrt|fmad|maxrregcount|expt-relaxed-constexpr|(?:expt-)?extended-lambda|restrict|threads)
        (?:=.*)?|-t=?\d*|--disable-warnings|--?(?:diag-\w+)(?:=.*)?|--?(?:default-stream|res-usage|resource-usage)(?:=.*)?
        |--extra-device-vectorization|-extra-device-vectorization|--?relocatable-device-code.*|-rdc.*|-m64
        |--?(?:split-compile|ptxas-options-none)(?:=.*)?)$",
    )
    .ok()
});

/// The flags of the host compiler that are known to read no further files.
static HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^(?:-O.*|-[DU].*|-I.*|-isystem.*|-iquote.*|-idirafter.*|-std=.*|-g\w*|-w|-W(?:[^lap].*|[lap][^,]+)|-pedantic
        |-pthread|-pipe|-m[a-z][^@]*|-f(?:no-|PIC|pic|PIE|pie|openmp|visibility|permissive|strict|wrapv|trapv|unroll|inline
        |omit|fast|finite|signed|unsigned|math|abi|tree|exceptions|rtti|stack|diagnostics|max|template|constexpr).*)$",
    )
    .ok()
});

/// The flags of PTXAS that are known to read no further files.
static PTXAS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^(?:-O\d|--opt-level.*|-v|--verbose|-w|--?(?:d[ls]cm|def-(?:load|store)-cache|force-(?:load|store)-cache|fmad
        |maxrregcount|warn-[a-z-]+|disable-warnings|suppress-[a-z-]+|Werror|lineinfo|generate-line-info
        |allow-expensive-[a-z]+|register-usage-level|disable-[a-z]+-constants|preserve-relocs|split-compile)
        (?:=.*)?)$",
    )
    .ok()
});

/// Returns the headers that flags of nvcc name. Returns `None` if a flag may use something that no preprocessor lists,
/// such as a library, an object or a file of options, or if the flag is not known here.
pub fn headers_in_flags(flags: &[String]) -> Option<Vec<String>> {
    /// Flags whose value may follow as a separate word.
    const APART: [&str; 14] = [
        "-O",
        "-D",
        "-U",
        "-I",
        "-isystem",
        "-std",
        "--std",
        "-maxrregcount",
        "--maxrregcount",
        "-t",
        "--threads",
        "-iquote",
        "-idirafter",
        "--include-path",
    ];
    const HEADERS: [&str; 3] = ["-include", "--pre-include", "-imacros"];
    let mut headers = Vec::new();
    let mut words: Vec<(&LazyLock<Option<Regex>>, String)> = Vec::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let (name, value) = flag.split_once('=').unzip();
        let name = name.unwrap_or(flag);
        let tool = match name {
            "-Xcompiler" | "--compiler-options" => &HOST,
            "-Xptxas" | "--ptxas-options" => &PTXAS,
            _ => {
                words.push((&NVCC, flag.clone()));
                continue;
            }
        };
        let value = value.map_or_else(|| flags.next().cloned(), |value| Some(value.to_owned()))?;
        words.extend(value.split(',').map(|word| (tool, word.to_owned())));
    }
    let mut words = words.into_iter();
    while let Some((tool, word)) = words.next() {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        if HEADERS.contains(&name) {
            headers.push(match value {
                "" => words.next()?.1,
                value => value.to_owned(),
            });
        } else if !tool.as_ref()?.is_match(&word) {
            return None;
        } else if APART.contains(&word.as_str()) {
            words.next()?;
        }
    }
    Some(headers)
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

    /// Returns the names that a text includes, and those that it asks for with `__has_include`.
    fn names(text: &str) -> Option<(Vec<String>, Vec<String>)> {
        let mut names = IncludedNames::default();
        names.read(text)?;
        let all = |names: BTreeSet<String>| names.into_iter().collect();
        Some((all(names.included), all(names.asked)))
    }

    #[test]
    fn questions_that_can_be_answered_and_others() {
        let found = |included: &[&str], asked: &[&str]| {
            let all = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            Some((all(included), all(asked)))
        };
        assert_eq!(names("int x;"), found(&[], &[]));
        assert_eq!(
            names("#include <../inc/k.h>\n # include_next \"b.h\"\n#import\t<c>\n"),
            found(&["../inc/k.h", "b.h", "c"], &[])
        );
        assert_eq!(
            names(
                "#ifdef __has_include\n#if defined(__has_include) && __has_include(<a/b.h>) && __has_include( \"c.h\" )"
            ),
            found(&[], &["a/b.h", "c.h"])
        );
        let header = || found(&[], &["c.h"]);
        assert_eq!(names("#if __has_include \\\n (\"c.h\")"), header());
        assert_eq!(names("#if __has_inc\\\r\nlude(<c.h>)"), header());
        assert_eq!(names("#elif _CCCL_HAS_INCLUDE(<c.h>)"), header());
        for text in [
            "#if __has_include(HEADER)",
            "#if __has_include/**/(<c.h>)",
            "#define ASK(x) __has_include(<x>)\n#if ASK(c.h)",
            "#define CAT(a, b) a##b\n#if CAT(__has_, include)(<c.h>)",
            "#define CAT(a, b) a %:%: b\n#if CAT(__h, as_include)(<c.h>)",
            "#include HEADER",
            "const char* t = __TIME__;",
            "asm(\".incbin \\\"x\\\"\");",
            "#  embed \"x\"",
            "#\tembed <x>",
            "%: embed \"x\"",
            "__DA\\\nTE__",
        ] {
            assert_eq!(names(text), None, "{text}");
        }
        // Words are put together in many sources, and almost never to this one.
        let text = "#define CAT(a, b) a##b\nint CAT(x, 1);";
        assert_eq!(names(text), found(&[], &[]));
    }

    #[test]
    fn flags_that_read_no_file_and_others() {
        let named = |flags: &[&str]| {
            headers_in_flags(&flags.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let nothing = Some(Vec::new());
        for flags in [
            &[
                "-O3",
                "-lineinfo",
                "-std=c++17",
                "--use_fast_math",
                "-Xptxas=-O3,-v",
            ][..],
            &[
                "-Ia",
                "-I",
                "b",
                "-isystem=c",
                "-Xcompiler",
                "-Wall,-Id",
                "-std",
                "c++20",
            ],
            &[
                "-Xcompiler=-isystem,a",
                "-Xptxas",
                "-dlcm=cg",
                "--expt-relaxed-constexpr",
            ],
            &[
                "-maxrregcount",
                "64",
                "-D",
                "A=1",
                "-DB",
                "-Xcompiler=-fno-exceptions",
            ],
        ] {
            assert_eq!(named(flags), nothing, "{flags:?}");
        }
        let header = Some(vec!["cfg.h".to_owned()]);
        assert_eq!(named(&["-include", "cfg.h"]), header);
        assert_eq!(named(&["--pre-include=cfg.h"]), header);
        assert_eq!(named(&["-Xcompiler=-include,cfg.h"]), header);
        for flags in [
            &["-lcublas"][..],
            &["x.o"],
            &["-optf", "flags.txt"],
            &["-Xptxas=-optf,opts"],
            &["-Xptxas", "--options-file=opts"],
            &["-Xcompiler", "-fprofile-use=p"],
            &["-Xcompiler", "-fplugin=p.so"],
            &["-Xcompiler=@opts"],
            &["--unknown"],
            &["-include"],
        ] {
            assert_eq!(named(flags), None, "{flags:?}");
        }
    }
}
