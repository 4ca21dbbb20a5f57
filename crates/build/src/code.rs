//! Reads machine code, of an artifact or of any cubin. nvdisasm runs once for each, and the parsed result is kept next
//! to the artifacts.

use super::Artifact;
use super::identity::{Cubin, CubinError};
use crate::toolchain::{Disassembler, clean_command};
use model::{CodeFacts, CodeLine, CodePlace, EntryCode, Fault, FaultKind, Seen, Unsupported};
use sass::Listing;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use system::cache::{Cache, CacheDir, write_atomically};
use system::error::Result;
use system::files;
use system::limits;
use system::process::{self, confine};
use system::temporary::TemporaryDir;

/// The deadline of nvdisasm, which takes seconds for the largest kernels.
const DEADLINE: Duration = Duration::from_secs(120);

/// The most bytes of its output. 4 MB of machine code give 60 MB of text.
const MOST_OUTPUT: u64 = 1 << 30;

/// Disassembles machine code, and keeps the results.
pub struct CodeReader<'a> {
    disassembler: &'a Disassembler,
    kept: CacheDir,
}

impl<'a> CodeReader<'a> {
    /// Opens the kept results.
    ///
    /// # Errors
    /// Environment, if the cache cannot be written.
    pub fn open(disassembler: &'a Disassembler, cache: &Cache) -> Result<Self> {
        Ok(Self {
            disassembler,
            kept: cache.layered("build/code")?,
        })
    }

    /// Returns the machine code of an artifact's entries, without the text of source lines.
    pub fn read(&self, artifact: &Artifact) -> Seen<CodeFacts> {
        if let Artifact::Together { modules, steps } = artifact {
            return self.read_together(modules, steps);
        }
        let (path, entries, ptx) = match artifact {
            Artifact::Cubin {
                path, entries, ptx, ..
            } => (path, entries, ptx),
            Artifact::Ptx { .. } => return Seen::Unsupported(Unsupported::NewerPtx),
            Artifact::Together { .. } | Artifact::Launcher { .. } => {
                return Seen::Unsupported(Unsupported::LauncherCode);
            }
        };
        let symbols: Vec<&str> = entries.iter().map(|(_, symbol)| symbol.as_str()).collect();
        match self.look_up(path, &symbols, ptx.as_deref()) {
            Ok(facts) => Seen::Got(facts),
            Err(error) => Seen::Fault(Fault::new(FaultKind::Disassembler, error.to_string())),
        }
    }

    /// Reads the modules of a group. If one cannot be read, its reason holds for all of them.
    fn read_together(&self, modules: &[Artifact], steps: &[usize]) -> Seen<CodeFacts> {
        let mut all: Vec<CodeFacts> = Vec::new();
        for module in modules {
            match self.read(module) {
                Seen::Got(facts) => all.push(facts),
                why => return why,
            }
        }
        let mut text = BTreeMap::new();
        for facts in &all {
            text.extend(facts.text.clone());
        }
        let called = steps.iter().filter_map(|at| all.get(*at));
        Seen::Got(CodeFacts {
            disassembler: all
                .first()
                .map_or_else(String::new, |dump| dump.disassembler.clone()),
            entries: called.flat_map(|dump| dump.entries.clone()).collect(),
            text,
        })
    }

    /// Returns the machine code of some kernels of a cubin, one for each symbol. Source files have the names that the
    /// compiler saw. nvdisasm runs once for all of them that are not known yet.
    pub fn read_kernels(&self, cubin: &[u8], symbols: &[&str]) -> Vec<Seen<CodeFacts>> {
        match self.look_up_kernels(cubin, symbols) {
            Ok(facts) => facts.into_iter().map(Seen::Got).collect(),
            Err(error) => {
                let fault = Fault::new(FaultKind::Disassembler, error.to_string());
                symbols.iter().map(|_| Seen::Fault(fault.clone())).collect()
            }
        }
    }

    fn look_up_kernels(
        &self,
        cubin: &[u8],
        symbols: &[&str],
    ) -> std::result::Result<Vec<CodeFacts>, CodeError> {
        let digest = blake3::hash(cubin);
        let file = |symbol: &str| self.key(&digest, &[symbol], &[]) + ".json";
        let mut known: BTreeMap<&str, CodeFacts> = BTreeMap::new();
        let mut missing = Vec::new();
        for symbol in symbols {
            match self.kept(&file(symbol)) {
                Some(facts) => drop(known.insert(symbol, facts)),
                None => missing.push(*symbol),
            }
        }
        if !missing.is_empty() {
            let dir = TemporaryDir::new_in(self.kept.own()).map_err(CodeError::Unwritable)?;
            let path = dir.path().join("kernels.cubin");
            std::fs::write(&path, cubin).map_err(CodeError::Unwritable)?;
            let entries = self.disassemble(&path, cubin, &missing, &LineTableNames(Vec::new()))?;
            for (symbol, entry) in missing.into_iter().zip(entries) {
                let facts = self.keep(&file(symbol), vec![entry])?;
                known.insert(symbol, facts);
            }
        }
        Ok(symbols
            .iter()
            .filter_map(|symbol| known.get(symbol).cloned())
            .collect())
    }

    fn look_up(
        &self,
        cubin: &Path,
        symbols: &[&str],
        ptx: Option<&Path>,
    ) -> std::result::Result<CodeFacts, CodeError> {
        let read = |path: &Path| {
            files::read(path, files::made()).map_err(|source| CodeError::File {
                path: path.to_owned(),
                source,
            })
        };
        let bytes = read(cubin)?;
        let ptx = ptx.map(read).transpose()?.unwrap_or_default();
        let name = self.key(&blake3::hash(&bytes), symbols, &ptx) + ".json";
        if let Some(known) = self.kept(&name) {
            return Ok(known);
        }
        let names = LineTableNames::from_ptx(&String::from_utf8_lossy(&ptx));
        self.keep(&name, self.disassemble(cubin, &bytes, symbols, &names)?)
    }

    /// Returns a kept result. A damaged file is ignored and made again.
    fn kept(&self, name: &str) -> Option<CodeFacts> {
        self.kept.places(name).find_map(|file| {
            let bytes = files::read(&file, files::made()).ok()?;
            serde_json::from_slice(&bytes).ok()
        })
    }

    fn keep(
        &self,
        name: &str,
        entries: Vec<EntryCode>,
    ) -> std::result::Result<CodeFacts, CodeError> {
        let facts = CodeFacts {
            disassembler: self.disassembler.version.clone(),
            entries,
            text: BTreeMap::new(),
        };
        let text = serde_json::to_vec(&facts)?;
        // If this fails, the next run asks nvdisasm again.
        let _ = write_atomically(&self.kept.own().join(name), &text);
        Ok(facts)
    }

    fn key(&self, cubin: &blake3::Hash, symbols: &[&str], ptx: &[u8]) -> String {
        let mut digest = blake3::Hasher::new();
        digest.update(&sass::READER.to_le_bytes());
        for part in [
            self.disassembler.version.as_bytes(),
            symbols.join(" ").as_bytes(),
            cubin.as_bytes(),
            blake3::hash(ptx).as_bytes(),
        ] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().to_hex().to_string()
    }

    fn disassemble(
        &self,
        path: &Path,
        bytes: &[u8],
        symbols: &[&str],
        names: &LineTableNames,
    ) -> std::result::Result<Vec<EntryCode>, CodeError> {
        let cubin = Cubin::parse(bytes)?;
        let indices: Vec<String> = symbols
            .iter()
            .map(|symbol| cubin.symbol_index(symbol).map(|index| index.to_string()))
            .collect::<std::result::Result<_, _>>()?;
        let mut command = clean_command(&self.disassembler.program);
        command
            .args(["-c", "-gi", "-fun", &indices.join(",")])
            .arg(path);
        // The input was made from the tree's sources, or by strangers.
        let rules = confine::Rules {
            writes: &[],
            hidden: None,
            sockets: confine::Sockets::None,
            metadata: confine::Metadata::Kept,
            memory: Some(limits::compiler_memory()),
            file: None,
        };
        let ended = process::run_confined(command, &rules, DEADLINE, MOST_OUTPUT);
        let ended = ended.map_err(CodeError::Start)?.ok_or(CodeError::Late)?;
        if !ended.status.success() {
            return Err(CodeError::Failed(ended.failure()));
        }
        let listing = Listing::parse(&ended.log);
        symbols
            .iter()
            .map(|symbol| {
                let section = listing
                    .section(symbol)
                    .ok_or_else(|| CodeError::Absent((*symbol).to_owned()))?;
                let mut entry = sass::entry(section);
                names.apply(&mut entry);
                Ok(entry)
            })
            .collect()
    }
}

/// The reason for which a cubin has no listing.
#[derive(Debug, thiserror::Error)]
enum CodeError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cubin(#[from] CubinError),
    #[error("nvdisasm: {0}")]
    Start(#[source] io::Error),
    #[error("nvdisasm did not finish within {} s", DEADLINE.as_secs())]
    Late,
    #[error("nvdisasm {0}")]
    Failed(String),
    #[error("nvdisasm shows no code of {0}")]
    Absent(String),
    #[error("the machine code cannot be written: {0}")]
    Unwritable(#[source] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The names of source files in the line tables of the PTX, which have no paths of this machine. The line tables of
/// machine code name files where they were compiled, possibly in another tree.
struct LineTableNames(Vec<String>);

impl LineTableNames {
    /// Returns the names in the line tables of machine code.
    fn from_code(facts: &CodeFacts) -> Self {
        let files: BTreeSet<&str> = all_lines(facts).map(|line| line.file.as_str()).collect();
        Self(files.into_iter().map(str::to_owned).collect())
    }

    fn from_ptx(ptx: &str) -> Self {
        Self(
            ptx.lines()
                .filter_map(|line| {
                    let rest = line.trim().strip_prefix(".file")?;
                    let (_, rest) = rest.split_once('"')?;
                    Some(rest.split_once('"')?.0.to_owned())
                })
                .collect(),
        )
    }

    /// Returns the name that has the most path components in common with `file`, counted from the end.
    fn name(&self, file: &str) -> String {
        let tail = |name: &str| {
            let parts = name.rsplit('/').zip(file.rsplit('/'));
            parts.take_while(|(a, b)| a == b).count()
        };
        let best = self.0.iter().max_by_key(|name| tail(name));
        match best {
            Some(best) if tail(best) > 0 => best.clone(),
            _ => file.to_owned(),
        }
    }

    fn apply(&self, entry: &mut EntryCode) {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let mut rename = |line: &mut CodeLine| {
            let name = known
                .entry(line.file.clone())
                .or_insert_with(|| self.name(&line.file));
            line.file.clone_from(name);
        };
        let lines = entry
            .lines
            .iter_mut()
            .filter_map(|line| line.place.as_mut());
        let loops = entry
            .loops
            .iter_mut()
            .filter_map(|place| place.place.as_mut());
        for CodePlace { line, inlined_at } in lines.chain(loops) {
            rename(line);
            inlined_at.iter_mut().for_each(&mut rename);
        }
    }
}

/// Names the files of base's code as head's code does, where two names end alike: two builds of one source are often made in
/// two trees.
pub fn name_files_alike(base: &mut CodeFacts, head: &CodeFacts) {
    let names = LineTableNames::from_code(head);
    for entry in &mut base.entries {
        names.apply(entry);
    }
}

/// Returns all lines of the user's own files that code comes from.
pub fn own_lines(facts: &CodeFacts) -> impl Iterator<Item = &CodeLine> {
    all_lines(facts).filter(|line| !super::header::is_of_system(&line.file))
}

fn all_lines(facts: &CodeFacts) -> impl Iterator<Item = &CodeLine> {
    facts
        .entries
        .iter()
        .flat_map(|entry| {
            entry
                .lines
                .iter()
                .filter_map(|line| line.place.as_ref())
                .chain(
                    entry
                        .loops
                        .iter()
                        .filter_map(|nested| nested.place.as_ref()),
                )
        })
        .flat_map(|place| std::iter::once(&place.line).chain(&place.inlined_at))
}
