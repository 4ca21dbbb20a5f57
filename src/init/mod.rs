//! Drafts a gates.yaml from the sources of a repository: the kernels that the compiler lists, called as the sources
//! call them, and in comments everything that only the author knows.

mod call;
mod commands;
mod headers;
mod launched;
mod launches;
mod parts;
mod probe;
mod recorded;
mod references;
mod sizes;
mod tolerances;
mod write;

pub use commands::Commands;
pub use launched::{ProgramLaunches, find_others, write_program};
pub use recorded::learn_build;
pub use write::{SCHEMA, WrittenKernel, WrittenKernels, head, write};

use build::inventory::{self, Compilation, Inventory, ListedKernel, Listing};
use build::missing::{find_remedies, missing_header};
use build::toolchain::Toolchain;
use call::{Call, UnknownCall};
use commands::{whole, within};
use headers::Elsewhere;
use launches::{Answers, Texts};
use model::Arch;
use probe::KernelOrigin;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files::FileKind;
use system::sources::{self, Precompiled};
use system::temporary::TemporaryDir;
use wording::words::plural;

/// The kernels and sources of a repository.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub kernels: Vec<Surveyed>,
    /// Sources that do not compile by themselves.
    pub broken: Vec<Broken>,
    /// The number of sources that were compiled.
    pub sources: usize,
    /// The file that says how sources are compiled, or why it was not used. `None` if there is no
    /// such file.
    pub commands: Option<std::result::Result<String, String>>,
    /// The flags that all sources have in common.
    pub flags: Vec<String>,
    /// The compiler's major release, such as `13`.
    pub major: String,
    /// The places outside the repository where headers were searched. It is empty if none was
    /// missing.
    pub looked_in: Vec<String>,
}

/// A source that does not compile by itself.
#[derive(Clone, Debug)]
pub struct Broken {
    pub source: String,
    /// The first words of the compiler's message.
    pub why: String,
    /// The header that was not found anywhere.
    pub missing: Option<String>,
}

/// A header that was not found anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHeader {
    pub name: String,
    /// The sources that include the missing header.
    pub sources: Vec<String>,
    /// The commands that may install it.
    pub remedies: Vec<String>,
}

impl Survey {
    pub fn missing_headers(&self, root: &Path) -> Vec<MissingHeader> {
        let mut sources: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for broken in &self.broken {
            if let Some(name) = &broken.missing {
                sources.entry(name).or_default().push(broken.source.clone());
            }
        }
        sources
            .into_iter()
            .map(|(name, sources)| MissingHeader {
                name: name.to_owned(),
                sources,
                remedies: find_remedies(root, name, &self.major),
            })
            .collect()
    }
}

/// The user's choice of sources, and of how they are compiled.
#[derive(Clone, Debug)]
pub struct SurveyRequest {
    /// Sources, and directories of sources. If it is empty, all sources are meant.
    pub paths: Vec<PathBuf>,
    pub include_dirs: Vec<PathBuf>,
    /// The names and values of macros.
    pub define: Vec<(String, String)>,
    pub flags: Vec<String>,
    pub arch: Arch,
    /// The commands of the build that was recorded.
    pub build: Option<Commands>,
}

#[derive(Clone, Debug)]
pub struct Surveyed {
    pub source: String,
    pub compilation: Compilation,
    pub kernel: ListedKernel,
    pub call: std::result::Result<Call, UnknownCall>,
}

impl Surveyed {
    /// Returns the template of an instance: its source, its name and the number of its parameters.
    fn template(&self) -> Option<(&str, &str, usize)> {
        let (name, _) = self.kernel.name.split_once('<')?;
        Some((&self.source, name, self.kernel.parameters.len()))
    }

    /// Returns true if a program launched it, and the simulator has findings in that launch.
    pub fn has_findings_in_program(&self) -> bool {
        let call = self.call.as_ref();
        call.is_ok_and(|call| call.captured.has_findings)
    }

    /// Makes the call unknown, for this reason, although it was found before.
    pub fn doubt(&mut self, why: &str) {
        if let Ok(call) = &self.call {
            let launch = Some((call.grid.clone(), call.block.clone()));
            let why = why.to_owned();
            self.call = Err(UnknownCall { why, launch });
        }
    }
}

/// The depth at which directories are no longer searched.
const DEPTH: usize = 16;
const MOST_FILES: usize = 100_000;
/// The most directories of headers that are tried one after the other.
const MOST_DIRECTORIES: usize = 16;

/// The paths of sources and of all headers below a directory, with forward slashes. They are sorted, with files that
/// a compiler made of others last.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    sources: Vec<String>,
    headers: Vec<String>,
    /// The sources of the host, which may launch kernels.
    hosts: Vec<String>,
    /// The headers that the user named, or `None` if the user named no path.
    alone: Option<Vec<String>>,
    /// The files that the user named. They are sources even if other files include them.
    named: Vec<String>,
}

impl Tree {
    /// Finds the sources and headers below a directory. Hidden files, repositories within the
    /// repository and build outputs are left out.
    pub fn find(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut open = vec![(String::new(), 0)];
        let mut seen = 0;
        while let Some((dir, depth)) = open.pop() {
            let Ok(entries) = std::fs::read_dir(root.join(&dir)) else {
                continue;
            };
            for entry in entries.flatten() {
                seen += 1;
                let name = entry.file_name();
                let is_plain =
                    |name: &&str| !name.starts_with('.') && !name.contains(char::is_control);
                let Some(name) = name.to_str().filter(is_plain) else {
                    continue;
                };
                let path = if dir.is_empty() {
                    name.to_owned()
                } else {
                    format!("{dir}/{name}")
                };
                let Ok(about) = entry.metadata() else {
                    continue;
                };
                match FileKind::from_metadata(&about) {
                    FileKind::Directory if depth < DEPTH && seen < MOST_FILES => {
                        let inside = root.join(&path);
                        let is_built = ["CMakeCache.txt", "CACHEDIR.TAG"];
                        let is_built = is_built.iter().any(|name| inside.join(name).exists());
                        if !is_built && !inside.join(".git").exists() {
                            open.push((path, depth + 1));
                        }
                    }
                    FileKind::File => match sources::extension(name) {
                        "cu" | "ptx" => tree.sources.push(path),
                        "cuh" | "h" | "hpp" | "hxx" | "inl" | "inc" => tree.headers.push(path),
                        "cpp" | "cc" | "cxx" => tree.hosts.push(path),
                        _ => {}
                    },
                    FileKind::Directory | FileKind::Special => {}
                }
            }
        }
        tree.sources
            .sort_by_key(|path| (Precompiled::from_path(path).is_some(), path.clone()));
        tree.headers.sort();
        tree
    }

    /// Keeps the sources that these paths name, or that are below them. Headers are found in any
    /// case.
    ///
    /// # Errors
    /// Usage, if a path names no source.
    pub fn narrow(&mut self, root: &Path, paths: &[PathBuf]) -> Result<()> {
        let whole = whole(root);
        let mut named = Vec::new();
        for path in paths {
            let shown = path.display();
            let wrong = |what: &str| {
                Err(Error::usage(format!("{shown} {what}"))
                    .help("PATH is a source, a directory of sources, or the .yaml file to write"))
            };
            if !path.exists() {
                return wrong("does not exist");
            }
            let absolute = std::path::absolute(path).ok();
            let Some(inside) = absolute.and_then(|path| within(&whole, &path)) else {
                return Err(Error::usage(format!(
                    "{shown} is outside of the directory of gates.yaml"
                ))
                .help("write the file further up: gatekeeper init DIR/gates.yaml PATH"));
            };
            let is_named = |source: &String| {
                let rest = source.strip_prefix(&inside);
                inside == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let below = self.sources.iter().chain(&self.headers);
            let before = named.len();
            named.extend(below.filter(|path| is_named(path)).cloned());
            // Hidden directories and build outputs are searched only if the user names them.
            if path.is_file() {
                if before == named.len() {
                    named.push(inside.clone());
                }
                self.named.push(inside);
            }
            let is_source =
                |path: &String| matches!(sources::extension(path), "cu" | "cuh" | "ptx");
            if !named.iter().skip(before).any(is_source) {
                return wrong("is no source and has none: they end in .cu, .cuh or .ptx");
            }
        }
        if !named.is_empty() {
            named.sort_by_key(|path| (Precompiled::from_path(path).is_some(), path.clone()));
            named.dedup();
            let is_header = |path: &String| !matches!(sources::extension(path), "cu" | "ptx");
            let (alone, sources) = named.into_iter().partition(is_header);
            self.sources = sources;
            self.alone = Some(alone);
        }
        Ok(())
    }

    /// Keeps the sources that a build compiles. Its headers are not sources by themselves.
    pub fn keep_built(&mut self, build: &Commands) {
        let all = std::mem::take(&mut self.sources);
        self.sources = build
            .sources()
            .filter(|source| all.contains(source))
            .cloned()
            .collect();
        self.alone = Some(Vec::new());
    }

    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Returns the CUDA headers that may be sources by themselves.
    fn alone(&self) -> impl Iterator<Item = &String> {
        self.alone
            .as_ref()
            .unwrap_or(&self.headers)
            .iter()
            .filter(|header| header.ends_with(".cuh"))
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.alone().next().is_none()
    }

    /// Returns the directory from which a header is included as `name`. If there are several, it is
    /// the one nearest the root.
    fn directory_of(&self, name: &str) -> Option<String> {
        let found = self
            .headers
            .iter()
            .chain(&self.sources)
            .filter_map(|path| match path.strip_suffix(name)? {
                "" => Some("."),
                dir => dir.strip_suffix('/'),
            })
            .min_by_key(|dir| (dir.matches('/').count(), dir.len()));
        found.map(str::to_owned)
    }
}

/// Returns a directory of headers as gates.yaml writes it: relative if it is in the repository.
///
/// # Errors
/// Usage, if there is no such directory.
fn include_dir(root: &Path, dir: &Path) -> Result<String> {
    let wrong = |what: &str| Error::usage(format!("--include {}: {what}", dir.display()));
    if !dir.is_dir() {
        return Err(wrong("there is no such directory"));
    }
    let absolute = std::path::absolute(dir).map_err(|error| wrong(&error.to_string()))?;
    let inside = within(&whole(root), &absolute);
    let dir = inside.or_else(|| absolute.to_str().map(str::to_owned));
    dir.ok_or_else(|| wrong("its name is not UTF-8"))
}

/// The most instances of one template that are observed.
const MOST_OBSERVED: usize = 8;

/// Lists every kernel, with its call if the sources say it, or with the calls of a program's launches. Each step is
/// reported to `tell`.
///
/// # Errors
/// Environment, if the compiler or the cache cannot be used. Usage, if a directory that the user names does not exist.
pub fn survey(
    root: &Path,
    tree: &Tree,
    asked: &SurveyRequest,
    toolchain: &Toolchain,
    cache: &Cache,
    launches: Option<&ProgramLaunches>,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Survey> {
    let scratch = cache.dir("scratch")?;
    let scratch =
        TemporaryDir::new_in(&scratch).map_err(|error| Error::at_path(&scratch, error))?;
    let commands = match &asked.build {
        Some(build) => Some(Ok(build.clone())),
        None => Commands::find(root),
    };
    let dirs = asked.include_dirs.iter().map(|dir| include_dir(root, dir));
    let compiler = Compiler {
        root,
        tree,
        asked: Compilation {
            include_dirs: dirs.collect::<Result<_>>()?,
            define: asked.define.clone(),
            flags: asked.flags.clone(),
        },
        commands: commands.as_ref().and_then(|command| command.as_ref().ok()),
        elsewhere: OnceLock::new(),
        toolchain,
        scratch: scratch.path(),
        arch: asked.arch,
    };
    let list = |sources: &[&String]| -> Result<Vec<ListedSource>> {
        let done = AtomicUsize::new(0);
        sources
            .par_iter()
            .map(|source| {
                let compiled = compiler.list(source)?;
                let kernels = match &compiled.inventory {
                    Ok(inventory) => plural(inventory.kernels.len(), "kernel"),
                    Err(_) => "does not compile by itself".to_owned(),
                };
                let done = 1 + done.fetch_add(1, Ordering::Relaxed);
                tell(&format!("[{done}/{}] {source}: {kernels}", sources.len()));
                Ok(compiled)
            })
            .collect()
    };
    let sources: Vec<&String> = tree.sources.iter().collect();
    let mut compiled = list(&sources)?;
    let included: BTreeSet<String> = compiled
        .iter()
        .filter_map(|source| source.inventory.as_ref().ok())
        .flat_map(|inventory| {
            inventory
                .included
                .iter()
                .map(|path| path.trim_start_matches("./").to_owned())
        })
        .collect();
    // A file that no source includes may be a source by itself.
    let alone = tree
        .alone()
        .filter(|path| tree.named.contains(path) || !included.contains(*path));
    compiled.extend(list(&alone.collect::<Vec<_>>())?);
    let mut survey = Survey {
        sources: compiled.len(),
        commands: commands.as_ref().map(|found| {
            let found = found.as_ref().map_err(ToString::to_string);
            found.map(|commands| commands.origin.clone())
        }),
        flags: asked.flags.clone(),
        major: toolchain.major().to_owned(),
        ..Survey::default()
    };
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for one in compiled {
        match one.inventory {
            Err((why, missing))
                if !one.source.ends_with(".cuh") || tree.named.contains(&one.source) =>
            {
                survey.broken.push(Broken {
                    source: one.source,
                    why,
                    missing,
                });
            }
            // A header need not compile by itself.
            Err(_) => survey.sources -= 1,
            Ok(inventory) => {
                let kernels = inventory.kernels.iter();
                let places = inventory.first_lines();
                // If several sources have the kernel through a header, the first one counts.
                let new = kernels.filter(|kernel| {
                    let place = places.get(kernel.symbol.as_str());
                    let place = place.map(|(file, line)| (file.to_string(), line.to_string()));
                    known.insert((kernel.symbol.clone(), place))
                });
                let new: Vec<ListedKernel> = new.cloned().collect();
                found.push((one.source, one.compilation, inventory, new));
            }
        }
    }
    let elsewhere = compiler.elsewhere.get();
    survey.looked_in = elsewhere.map_or_else(Vec::new, |search| search.looked_in.clone());
    let all: usize = found.iter().map(|(.., kernels)| kernels.len()).sum();
    let texts = &Texts::read(
        root,
        tree.sources.iter().chain(&tree.headers).chain(&tree.hosts),
    );
    let done = &AtomicUsize::new(0);
    // The kernels of one source may take long, so each is a piece of work of its own.
    survey.kernels = found
        .par_iter()
        .flat_map(|(source, compilation, inventory, kernels)| {
            let origin = KernelOrigin::new(&inventory.ptx, texts, source, &compilation.define);
            // A template of PyTorch has hundreds of instances, and observing one takes seconds.
            let mut instances: BTreeMap<&str, usize> = BTreeMap::new();
            let numbered: Vec<(usize, &ListedKernel)> = kernels
                .iter()
                .map(|kernel| {
                    let template = kernel.name.split('<').next().unwrap_or_default();
                    let instance = instances.entry(template).or_default();
                    *instance += 1;
                    (*instance, kernel)
                })
                .collect();
            let observed = numbered
                .iter()
                .filter(|(instance, _)| *instance <= MOST_OBSERVED)
                .map(|(_, kernel)| *kernel);
            let answers = match launches {
                Some(_) => Answers::default(),
                None => compiler.answer(source, compilation, &origin.questions(observed)),
            };
            let known = Arc::new((origin, answers));
            numbered.into_par_iter().map(move |(instance, kernel)| {
                let (origin, answers) = known.as_ref();
                let call = if let Some(launches) = launches {
                    launched::find_call(kernel, origin, launches)
                } else if instance <= MOST_OBSERVED {
                    origin.find_call(kernel, answers)
                } else {
                    let why = "other instances of its template were observed".to_owned();
                    Err(UnknownCall { why, launch: None })
                };
                let done = 1 + done.fetch_add(1, Ordering::Relaxed);
                tell(&format!("[{done}/{all}] read {}", kernel.name));
                Surveyed {
                    source: source.clone(),
                    compilation: compilation.clone(),
                    call,
                    kernel: kernel.clone(),
                }
            })
        })
        .collect();
    Ok(survey)
}

struct ListedSource {
    source: String,
    /// The compilation as gates.yaml writes it, without the flags of all sources.
    compilation: Compilation,
    /// The kernels of the source. If it was refused, the compiler's message and the header that it
    /// lacks.
    inventory: std::result::Result<Inventory, (String, Option<String>)>,
}

struct Compiler<'a> {
    root: &'a Path,
    tree: &'a Tree,
    asked: Compilation,
    commands: Option<&'a Commands>,
    /// The directories outside the repository. They are searched for when a header is missing.
    elsewhere: OnceLock<Elsewhere>,
    toolchain: &'a Toolchain,
    scratch: &'a Path,
    arch: Arch,
}

impl Compiler<'_> {
    /// Lists the kernels of a source. It is compiled as the build and the user ask, with further directories of
    /// headers that the compiler misses and that the repository or the machine has.
    fn list(&self, source: &str) -> Result<ListedSource> {
        if Precompiled::from_path(source).is_some() {
            let listed = inventory::list_ptx(self.root, source)?;
            return Ok(ListedSource {
                source: source.to_owned(),
                compilation: Compilation::default(),
                inventory: listed.map_err(|fault| (first_error(&fault.message), None)),
            });
        }
        let mut compilation = self.compilation(source);
        let mut added = 0;
        let inventory = loop {
            let scratch = TemporaryDir::new_in(self.scratch)
                .map_err(|error| Error::at_path(self.scratch, error))?;
            let listed = inventory::list(Listing {
                root: self.root,
                toolchain: self.toolchain,
                scratch: scratch.path(),
                source,
                compilation: &self.with_flags(&compilation),
                arch: self.arch,
            })?;
            let message = match listed {
                Ok(inventory) => break Ok(inventory),
                Err(fault) => fault.message,
            };
            if let Some(flag) = wanted_flag(&message)
                && !compilation.flags.iter().any(|own| own == flag)
            {
                compilation.flags.push(flag.to_owned());
                continue;
            }
            let missing = missing_header(&message);
            let dir = missing.and_then(|name| self.directory_of(name));
            let Some(dir) = dir.filter(|_| added < MOST_DIRECTORIES) else {
                break Err((first_error(&message), missing.map(str::to_owned)));
            };
            added += 1;
            if self.root.join(&dir).join("torch/extension.h").exists() {
                let own = PYTORCH_MACROS.map(|name| (name.to_owned(), "1".to_owned()));
                compilation.define.extend(own);
            }
            let is_toolkit = self.root.join(&dir).join("cuda_runtime.h").exists();
            let (known, new) = if is_toolkit {
                // Its release may be another one, so nvcc's own headers come first.
                (&mut compilation.flags, format!("-isystem={dir}"))
            } else {
                (&mut compilation.include_dirs, dir)
            };
            if known.contains(&new) {
                break Err((first_error(&message), missing.map(str::to_owned)));
            }
            known.push(new);
        };
        Ok(ListedSource {
            source: source.to_owned(),
            compilation,
            inventory,
        })
    }

    /// Asks the compiler for types of a source by their names. A type without an answer stays
    /// unknown.
    fn answer(&self, source: &str, compilation: &Compilation, names: &[String]) -> Answers {
        let scratch = TemporaryDir::new_in(self.scratch);
        let (Ok(scratch), false) = (scratch, names.is_empty()) else {
            return Answers::default();
        };
        let listing = Listing {
            root: self.root,
            toolchain: self.toolchain,
            scratch: scratch.path(),
            source,
            compilation: &self.with_flags(compilation),
            arch: self.arch,
        };
        Answers::new(inventory::name_types(listing, names).unwrap_or_default())
    }

    /// Returns the compilation with the flags of all sources added.
    fn with_flags(&self, compilation: &Compilation) -> Compilation {
        let flags = self.asked.flags.iter().chain(&compilation.flags);
        Compilation {
            flags: flags.cloned().collect(),
            ..compilation.clone()
        }
    }

    /// Returns how a source is compiled. The user's options come before the build's.
    fn compilation(&self, source: &str) -> Compilation {
        let known = self
            .commands
            .and_then(|command| command.compilation(source));
        let mut compilation = known.cloned().unwrap_or_default();
        let own = &self.asked;
        compilation
            .include_dirs
            .retain(|dir| !own.include_dirs.contains(dir));
        compilation
            .include_dirs
            .splice(..0, own.include_dirs.iter().cloned());
        let is_other =
            |(name, _): &(String, String)| own.define.iter().all(|(defined, _)| defined != name);
        compilation.define.retain(is_other);
        compilation.define.extend(own.define.iter().cloned());
        compilation
    }

    fn directory_of(&self, header: &str) -> Option<String> {
        let own = self.tree.directory_of(header);
        own.or_else(|| {
            let elsewhere = self
                .elsewhere
                .get_or_init(|| Elsewhere::find(self.toolchain.major()));
            let dir = elsewhere.directory_of(header)?;
            dir.to_str().map(str::to_owned)
        })
    }
}

/// The macros with which PyTorch compiles every extension, unless a build removes them. Without them, PyTorch's own
/// operators would be ambiguous.
const PYTORCH_MACROS: [&str; 4] = [
    "__CUDA_NO_HALF_OPERATORS__",
    "__CUDA_NO_HALF_CONVERSIONS__",
    "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__",
];

fn first_error(message: &str) -> String {
    let is_error = |line: &&str| line.contains("error");
    let first = message.lines().find(is_error).or(message.lines().next());
    first.unwrap_or_default().trim().to_owned()
}

/// Returns the flag that nvcc or a header asks for when it refuses a source.
fn wanted_flag(message: &str) -> Option<&'static str> {
    const ASKED: [(&str, &str); 5] = [
        ("--expt-relaxed-constexpr", "--expt-relaxed-constexpr"),
        ("--extended-lambda", "--extended-lambda"),
        // CUDA before release 11.2 has this name for the flag.
        ("--expt-extended-lambda", "--extended-lambda"),
        // PyTorch's headers ask with these words.
        ("C++17 or later", "-std=c++17"),
        ("C++20 or later", "-std=c++20"),
    ];
    ASKED
        .into_iter()
        .find(|(said, _)| message.contains(said))
        .map(|(_, flag)| flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_is_found_in_the_repository() {
        let tree = Tree {
            sources: vec!["src/k.cu".to_owned()],
            headers: [
                "a.h",
                "deep/down/util/math.cuh",
                "include/util/math.cuh",
                "xutil/math.cuh",
            ]
            .map(str::to_owned)
            .into(),
            ..Tree::default()
        };
        assert_eq!(
            tree.directory_of("util/math.cuh").as_deref(),
            Some("include")
        );
        assert_eq!(tree.directory_of("a.h").as_deref(), Some("."));
        assert_eq!(tree.directory_of("none.h"), None);
    }
}
