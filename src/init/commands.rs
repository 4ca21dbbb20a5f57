//! Reads how a build compiles its sources, from its `compile_commands.json` or from recorded calls of nvcc: directories
//! of headers, macros, and every other option that changes a kernel's code. Only the paths of directories are looked
//! at.

use build::inventory::Compilation;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use system::error::Error;
use system::{files, sources};

/// The commands of a build, by the source that each compiles.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// The path of the file relative to the root, or the build that was recorded.
    pub origin: String,
    by_source: BTreeMap<String, Compilation>,
    /// The sources that are not below the root.
    pub outside: BTreeSet<PathBuf>,
}

/// A call of nvcc that a build made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    pub dir: PathBuf,
    /// The words of the call. The compiler is the first one.
    pub words: Vec<String>,
}

/// The places where CMake leaves the file: linked into the root, or in the directory of the build.
const PATHS: [&str; 2] = ["compile_commands.json", "build/compile_commands.json"];
const MOST_BYTES: u64 = 256 << 20;
const MOST_OPTION_BYTES: u64 = 1 << 20;
/// The depth to which files of options may name other such files.
const MOST_NESTED: usize = 8;

/// A command of `compile_commands.json`. It names its source itself.
#[derive(Deserialize)]
struct DatabaseEntry {
    directory: PathBuf,
    command: Option<String>,
    arguments: Option<Vec<String>>,
}

impl Commands {
    /// Finds and reads the file of a repository. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns why the file cannot be used, with its path.
    pub fn find(root: &Path) -> Option<Result<Self, Error>> {
        let is_there = |path: &&&str| std::fs::symlink_metadata(root.join(path)).is_ok();
        let path = PATHS.iter().find(is_there)?;
        let read = Self::read(root, path);
        Some(read.map_err(|why| Error::usage(format!("{path}: {why}")).caused_by(why)))
    }

    fn read(root: &Path, path: &str) -> io::Result<Self> {
        let text = files::read_text(&root.join(path), MOST_BYTES)?;
        let all: Vec<DatabaseEntry> = serde_json::from_str(&text).map_err(io::Error::other)?;
        let root = whole(root);
        let calls = all.into_iter().map(|entry| {
            let command = entry.command.as_deref().map(split_words);
            RecordedCall {
                dir: root.join(&entry.directory),
                words: entry.arguments.or(command).unwrap_or_default(),
            }
        });
        let calls: Vec<RecordedCall> = calls.collect();
        Ok(Self::from_calls(&root, path.to_owned(), &calls))
    }

    /// Makes the commands from recorded calls. Each call stands for all of its CUDA sources.
    pub fn from_calls(root: &Path, origin: String, calls: &[RecordedCall]) -> Self {
        let root = whole(root);
        let mut found = Self {
            origin,
            ..Self::default()
        };
        for call in calls {
            let reader = CommandReader::read(&root, &call.dir, call.words.clone());
            for source in &reader.sources {
                let source = call.dir.join(source);
                // If several targets compile a source, the first one counts.
                if let Some(source) = within(&root, &source) {
                    let known = found.by_source.entry(source);
                    known.or_insert_with(|| reader.found.clone());
                } else {
                    found.outside.insert(source);
                }
            }
        }
        found
    }

    /// Returns the paths of the sources, relative to the root.
    pub fn sources(&self) -> impl Iterator<Item = &String> {
        self.by_source.keys()
    }

    pub fn compilation(&self, source: &str) -> Option<&Compilation> {
        self.by_source.get(source)
    }
}

/// Returns the path of a directory as a compiler's commands have it.
pub fn whole(root: &Path) -> PathBuf {
    let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    std::fs::canonicalize(&absolute).unwrap_or(absolute)
}

/// Returns a path as gates.yaml writes it, or `None` if it is outside the repository.
pub fn within(root: &Path, path: &Path) -> Option<String> {
    let plain = sources::plain(path);
    let plain = std::fs::canonicalize(&plain).unwrap_or(plain);
    let inside = plain.strip_prefix(root).ok()?.to_str()?;
    Some(match inside {
        "" => ".".to_owned(),
        inside => inside.to_owned(),
    })
}

/// The options with a value on which a kernel's code depends.
const VALUED: [&str; 6] = [
    "std",
    "maxrregcount",
    "ftz",
    "prec-div",
    "prec-sqrt",
    "fmad",
];
const PLAIN: [&str; 4] = [
    "expt-relaxed-constexpr",
    "expt-extended-lambda",
    "extended-lambda",
    "use_fast_math",
];

/// Reads the options of one call of the compiler that change a kernel's code, and its sources.
struct CommandReader<'a> {
    root: &'a Path,
    /// The directory in which the command was run.
    dir: &'a Path,
    found: Compilation,
    seen: BTreeSet<String>,
    /// The sources in CUDA that the call names.
    sources: Vec<String>,
}

impl<'a> CommandReader<'a> {
    fn read(root: &'a Path, dir: &'a Path, words: Vec<String>) -> Self {
        let mut reader = Self {
            root,
            dir,
            found: Compilation::default(),
            seen: BTreeSet::new(),
            sources: Vec::new(),
        };
        reader.take(words, 0);
        reader
    }

    fn take(&mut self, words: Vec<String>, nested: usize) {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value_of = |names: &[&str]| -> Option<String> {
                names.iter().find_map(|name| {
                    let rest = word.strip_prefix(name)?;
                    match rest.strip_prefix('=').unwrap_or(rest) {
                        "" => words.next(),
                        // `-std` does not give a value to `-s`, but `-Idir` gives one to `-I`.
                        value if name.len() <= 2 || rest.starts_with('=') => Some(value.to_owned()),
                        _ => None,
                    }
                })
            };
            if let Some(dir) = value_of(&["-I", "--include-path", "-isystem", "--system-include"]) {
                self.add_directory(&dir);
            } else if let Some(define) = value_of(&["-D", "--define-macro"]) {
                let (name, value) = define.split_once('=').unwrap_or((&define, "1"));
                self.found.define.retain(|(known, _)| known != name);
                self.found.define.push((name.to_owned(), value.to_owned()));
            } else if let Some(name) = value_of(&["-U", "--undefine-macro"]) {
                self.found.define.retain(|(known, _)| *known != name);
            } else if value_of(&["-include", "--pre-include"]).is_some() {
                // A file that is included before the source is not a source itself.
            } else if let Some(file) = value_of(&["--options-file", "-optf", "@"]) {
                let text = files::read_text(&self.dir.join(file), MOST_OPTION_BYTES);
                if let Ok(text) = text
                    && nested < MOST_NESTED
                {
                    self.take(split_words(&text), nested + 1);
                }
            } else {
                let name = word.trim_start_matches('-');
                if word.starts_with('-') && PLAIN.contains(&name) {
                    self.add_flag(word.clone());
                }
                // CMake compiles sources of its own to find out which compiler it has.
                let is_probe = word.contains("CMakeCUDACompiler");
                let is_source = matches!(sources::extension(&word), "cu" | "cuh");
                if !word.starts_with('-') && is_source && !is_probe {
                    self.sources.push(word.clone());
                }
                for valued in VALUED {
                    let (long, short) = (format!("--{valued}"), format!("-{valued}"));
                    if let Some(value) = value_of(&[&long, &short]) {
                        self.add_flag(format!("{short}={value}"));
                        break;
                    }
                }
            }
        }
    }

    fn add_flag(&mut self, flag: String) {
        if self.seen.insert(flag.clone()) {
            self.found.flags.push(flag);
        }
    }

    /// Adds a directory of headers. The compiler knows its own, and a directory that does not exist
    /// is not needed.
    fn add_directory(&mut self, dir: &str) {
        let path = self.dir.join(dir);
        let mut above = path.ancestors();
        if !path.is_dir() || above.any(|dir| dir.join("cuda_runtime.h").exists()) {
            return;
        }
        let dir = within(self.root, &path).or_else(|| path.to_str().map(str::to_owned));
        if let Some(dir) = dir.filter(|dir| !self.found.include_dirs.contains(dir)) {
            self.found.include_dirs.push(dir);
        }
    }
}

/// Splits a line into words as a shell does, without expanding anything.
fn split_words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let line = r#"nvcc -DA=\"x\ y\" "-DB=a \"b\" c" '-DC=\n' -D"E=1"  "" k.cu"#;
        let want = [
            "nvcc",
            r#"-DA="x y""#,
            r#"-DB=a "b" c"#,
            r"-DC=\n",
            "-DE=1",
            "",
            "k.cu",
        ];
        assert_eq!(split_words(line), want);
    }

    #[test]
    fn options_that_change_a_kernel_are_taken_from_its_command() {
        let tree = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(tree.path()).unwrap();
        let outside = tempfile::tempdir().unwrap();
        let outside = std::fs::canonicalize(outside.path()).unwrap();
        for dir in ["build/cuda", "include", "third/party", "src"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::fs::write(root.join("build/cuda/cuda_runtime.h"), "").unwrap();
        std::fs::write(
            root.join("build/includes.rsp"),
            "-I../third/party -I../none",
        )
        .unwrap();
        let command = format!(
            "ccache /opt/nvcc -forward-unknown-to-host-compiler -DN=4 -DON -DN=8 -DNAME=\\\"k\\\" --options-file includes.rsp \
             -I{} -isystem=cuda -isystem {} -O3 -std c++20 --expt-relaxed-constexpr -use_fast_math --fmad=false \
             -gencode arch=compute_90,code=sm_90 -x cu -c ../src/k.cu -o k.o",
            root.join("include").display(),
            outside.display(),
        );
        let entry = serde_json::json!([
            {"directory": root.join("build"), "file": "../src/k.cu", "command": command},
            {"directory": root.join("build"), "file": "../src/k.cu", "command": "nvcc -DLATER ../src/k.cu"},
            {"directory": root, "file": "src/other.cu", "arguments": ["nvcc", "-D", "A B=1", "src/other.cu"]},
            {"directory": "/elsewhere", "file": "k.cu", "command": "nvcc k.cu"},
        ]);
        assert!(Commands::find(&root).is_none());
        let path = root.join("build/compile_commands.json");
        std::fs::write(path, entry.to_string()).unwrap();
        let found = Commands::find(&root).unwrap().unwrap();
        assert_eq!(found.origin, "build/compile_commands.json");
        let own = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        assert_eq!(
            found.compilation("src/k.cu"),
            Some(&Compilation {
                include_dirs: vec![
                    "third/party".to_owned(),
                    "include".to_owned(),
                    outside.display().to_string()
                ],
                define: own(&[("ON", "1"), ("N", "8"), ("NAME", "\"k\"")]),
                flags: [
                    "-std=c++20",
                    "--expt-relaxed-constexpr",
                    "-use_fast_math",
                    "-fmad=false"
                ]
                .map(str::to_owned)
                .into(),
            })
        );
        assert_eq!(
            found.compilation("src/other.cu").unwrap().define,
            own(&[("A B", "1")])
        );
        assert_eq!(found.by_source.len(), 2);

        std::fs::write(root.join("compile_commands.json"), "[{").unwrap();
        let why = Commands::find(&root).unwrap().unwrap_err().to_string();
        assert!(why.starts_with("compile_commands.json: "), "{why}");
    }

    #[test]
    fn a_recorded_call_says_what_it_compiles_and_how() {
        let tree = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(tree.path()).unwrap();
        for dir in ["build", "include/cccl", "src"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::fs::write(root.join("build/options"), "-DN=4 -I../src").unwrap();
        std::fs::write(root.join("include/cuda_runtime.h"), "").unwrap();
        let call = |words: &str| RecordedCall {
            dir: root.join("build"),
            words: split_words(words),
        };
        let calls = [
            call("nvcc --version"),
            call("nvcc -c CMakeFiles/3.28/CompilerIdCUDA/CMakeCUDACompilerId.cu"),
            call(
                "ccache /opt/nvcc @options -DHALF -UHALF -include first.cu -I../include/cccl -dc -MF x.d -MT k.cu.o \
                 -x cu ../src/one.cu ../src/two.cu /elsewhere/three.cu -o one.o",
            ),
            call("nvcc -DN=5 ../src/two.cu"),
        ];
        let found = Commands::from_calls(&root, "`make`".to_owned(), &calls);
        assert_eq!(
            found.sources().collect::<Vec<_>>(),
            ["src/one.cu", "src/two.cu"]
        );
        assert_eq!(found.outside, [PathBuf::from("/elsewhere/three.cu")].into());
        let compilation = Compilation {
            include_dirs: vec!["src".to_owned()],
            define: vec![("N".to_owned(), "4".to_owned())],
            flags: Vec::new(),
        };
        for source in ["src/one.cu", "src/two.cu"] {
            assert_eq!(found.compilation(source), Some(&compilation));
        }
    }
}
