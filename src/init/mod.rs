//! A gates.yaml from the sources of a repository: what the compiler lists, what the simulator finds out, and in comments
//! what only the author knows.

mod commands;
mod launches;
mod parts;
mod probe;
mod sizes;
mod write;

pub use write::write;

use build::inventory::{self, Compilation, Inventory, ListedKernel};
use build::signature::whole_name;
use build::toolchain::Toolchain;
use commands::Commands;
use model::Arch;
use probe::Call;
use ptxsim::Module;
use rayon::prelude::*;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use system::cache::Cache;
use system::error::{Error, Result};
use system::files::Kind;
use system::temporary::TemporaryDir;

/// The contents of a repository.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub kernels: Vec<Surveyed>,
    /// Sources that do not compile by themselves, and the compiler's first words on each.
    pub broken: Vec<(String, String)>,
    /// Sources that were compiled.
    pub sources: usize,
    /// The file that says how they are compiled, or why it was not used; `None` where there is none.
    pub commands: Option<std::result::Result<String, String>>,
}

#[derive(Clone, Debug)]
pub struct Surveyed {
    pub source: String,
    pub compilation: Compilation,
    pub kernel: ListedKernel,
    /// `ns::k<float>(float*, int)`
    pub signature: String,
    pub call: std::result::Result<Call, String>,
}

/// Directories that are as deep hold no sources of a repository.
const DEPTH: usize = 16;
const MOST_FILES: usize = 100_000;
/// Directories of headers that are found one after the other.
const MOST_DIRECTORIES: usize = 16;

/// Paths of sources and of all headers below a directory, with forward slashes, in order.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    sources: Vec<String>,
    headers: Vec<String>,
}

impl Tree {
    /// Hidden files, repositories within the repository and build outputs are left out.
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
                let path = match dir.is_empty() {
                    true => name.to_owned(),
                    false => format!("{dir}/{name}"),
                };
                let Ok(about) = entry.metadata() else {
                    continue;
                };
                match Kind::of(&about) {
                    Kind::Directory if depth < DEPTH && seen < MOST_FILES => {
                        let inside = root.join(&path);
                        let is_built = ["CMakeCache.txt", "CACHEDIR.TAG"];
                        let is_built = is_built.iter().any(|it| inside.join(it).exists());
                        if !is_built && !inside.join(".git").exists() {
                            open.push((path, depth + 1));
                        }
                    }
                    Kind::File => match Path::new(name).extension().and_then(|it| it.to_str()) {
                        Some("cu") => tree.sources.push(path),
                        Some("cuh" | "h" | "hpp" | "hxx" | "inl" | "inc") => {
                            tree.headers.push(path)
                        }
                        _ => {}
                    },
                    Kind::Directory | Kind::Special => {}
                }
            }
        }
        tree.sources.sort();
        tree.headers.sort();
        tree
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && !self.headers.iter().any(|it| it.ends_with(".cuh"))
    }

    /// The directory that a header is included from as `name`: of several the one nearest the root.
    fn directory_of(&self, name: &str) -> Option<String> {
        let all = self.headers.iter().chain(&self.sources);
        let dirs = all.filter_map(|path| match path.strip_suffix(name)? {
            "" => Some("."),
            dir => dir.strip_suffix('/'),
        });
        let found = dirs.min_by_key(|dir| (dir.matches('/').count(), dir.len()));
        found.map(str::to_owned)
    }
}

/// Lists and tries every kernel. `say`: what is being done.
///
/// # Errors
/// Environment, where the compiler or the cache cannot be used.
pub fn survey(
    root: &Path,
    tree: &Tree,
    toolchain: &Toolchain,
    cache: &Cache,
    arch: Arch,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Survey> {
    let scratch = cache.dir("scratch")?;
    let scratch = TemporaryDir::new_in(&scratch)
        .map_err(|error| Error::environment(format!("{}: {error}", scratch.display())))?;
    let commands = Commands::find(root);
    let compiler = Compiler {
        root,
        tree,
        commands: commands.as_ref().and_then(|it| it.as_ref().ok()),
        toolchain,
        scratch: scratch.path(),
        arch,
    };
    let list = |sources: &[&String]| -> Result<Vec<Compiled>> {
        let listed = sources.par_iter().map(|source| {
            say(&format!("compiling {source}"));
            compiler.list(source)
        });
        listed.collect()
    };
    let sources: Vec<&String> = tree.sources.iter().collect();
    let mut compiled = list(&sources)?;
    let included: BTreeSet<String> = compiled
        .iter()
        .filter_map(|it| it.inventory.as_ref().ok())
        .flat_map(|it| {
            it.included
                .iter()
                .map(|path| path.trim_start_matches("./").to_owned())
        })
        .collect();
    // A file that no source includes may be a source by itself.
    let alone = tree
        .headers
        .iter()
        .filter(|it| it.ends_with(".cuh") && !included.contains(*it));
    compiled.extend(list(&alone.collect::<Vec<_>>())?);
    let mut survey = Survey {
        sources: compiled.len(),
        commands: commands.as_ref().map(|it| match it {
            Ok(commands) => Ok(commands.path.clone()),
            Err(why) => Err(why.clone()),
        }),
        ..Survey::default()
    };
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for one in compiled {
        match one.inventory {
            Err(why) if one.source.ends_with(".cu") => survey.broken.push((one.source, why)),
            // A header need not compile by itself.
            Err(_) => survey.sources -= 1,
            Ok(inventory) => {
                let kernels = inventory.kernels.iter();
                // Where several sources have it through a header, the first stands for all.
                let new = kernels.filter(|kernel| known.insert(kernel.symbol.clone()));
                let new: Vec<ListedKernel> = new.cloned().collect();
                found.push((one.source, one.compilation, inventory, new));
            }
        }
    }
    let tried = found
        .into_par_iter()
        .flat_map_iter(|(source, compilation, inventory, kernels)| {
            let module = Module::load(&inventory.ptx).map_err(|error| error.to_string());
            let tried = kernels.into_iter().map(move |kernel| {
                say(&format!("trying {}", kernel.name));
                let call = match &module {
                    Ok(module) => {
                        let bounds = inventory::launch_bounds(&inventory.ptx, &kernel.symbol);
                        probe::find_call(module, &inventory.ptx, &kernel, bounds)
                    }
                    Err(error) => Err(format!("the simulator cannot read its PTX: {error}")),
                };
                Surveyed {
                    source: source.clone(),
                    compilation: compilation.clone(),
                    signature: whole_name(&kernel.symbol),
                    call,
                    kernel,
                }
            });
            tried.collect::<Vec<_>>()
        });
    survey.kernels = tried.collect();
    Ok(survey)
}

struct Compiled {
    source: String,
    compilation: Compilation,
    inventory: std::result::Result<Inventory, String>,
}

struct Compiler<'a> {
    root: &'a Path,
    tree: &'a Tree,
    commands: Option<&'a Commands>,
    toolchain: &'a Toolchain,
    scratch: &'a Path,
    arch: Arch,
}

impl Compiler<'_> {
    /// As the build does, and with the directories of headers that the compiler asks for and the repository has.
    fn list(&self, source: &str) -> Result<Compiled> {
        let known = self.commands.and_then(|it| it.of(source));
        let mut compilation = known.cloned().unwrap_or_default();
        let mut added = 0;
        let inventory = loop {
            let scratch = TemporaryDir::new_in(self.scratch).map_err(|error| {
                Error::environment(format!("{}: {error}", self.scratch.display()))
            })?;
            let listed = inventory::list(
                self.root,
                self.toolchain,
                scratch.path(),
                source,
                &compilation,
                self.arch,
            )?;
            let message = match listed {
                Ok(inventory) => break Ok(inventory),
                Err(fault) => fault.message,
            };
            let missing = missing_header(&message);
            let dir = missing.and_then(|name| self.tree.directory_of(name));
            match dir.filter(|dir| !compilation.include_dirs.contains(dir)) {
                Some(dir) if added < MOST_DIRECTORIES => {
                    added += 1;
                    compilation.include_dirs.push(dir);
                }
                _ => {
                    let is_error = |line: &&str| line.contains("error");
                    let first = message.lines().find(is_error).or(message.lines().next());
                    break Err(first.unwrap_or_default().trim().to_owned());
                }
            }
        };
        Ok(Compiled {
            source: source.to_owned(),
            compilation,
            inventory,
        })
    }
}

/// The name of a header that neither the host compiler nor the device's has found.
fn missing_header(message: &str) -> Option<&str> {
    static MISSING: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"fatal error: (\S+): No such file|could not open source file "([^"]+)"|cannot open source file "([^"]+)""#).ok()
    });
    let found = MISSING.as_ref()?.captures(message)?;
    let names = [1, 2, 3].into_iter().filter_map(|at| found.get(at));
    names.map(|name| name.as_str()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_is_found_in_the_repository() {
        let message = "src/k.cu:1:10: fatal error: util/math.cuh: No such file or directory\n";
        assert_eq!(missing_header(message), Some("util/math.cuh"));
        assert_eq!(missing_header("k.cu(3): error: x is undefined"), None);
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
        };
        assert_eq!(
            tree.directory_of("util/math.cuh").as_deref(),
            Some("include")
        );
        assert_eq!(tree.directory_of("a.h").as_deref(), Some("."));
        assert_eq!(tree.directory_of("none.h"), None);
    }
}
