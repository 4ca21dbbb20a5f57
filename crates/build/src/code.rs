//! The contents of an artifact's machine code: nvdisasm runs once for each, and the parsed result is kept next to the
//! artifacts.

use super::Artifact;
use super::identity::Cubin;
use crate::toolchain::{Disassembler, clean_command};
use model::{CodeFacts, CodeLine, CodePlace, EntryCode, Fault, FaultKind, Seen, Unsupported};
use sass::Listing;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use system::cache::{Cache, CacheDir, write_atomically};
use system::error::Result;
use system::files;
use system::limits;
use system::process::{self, confine};

/// nvdisasm takes seconds for the largest kernels there are.
const DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of text: 4 MB of machine code are 60 of it.
const MOST_OUTPUT: u64 = 1 << 30;

/// Takes artifacts apart.
pub struct Reader<'a> {
    disassembler: &'a Disassembler,
    kept: CacheDir,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// Environment, where the cache cannot be written.
    pub fn open(disassembler: &'a Disassembler, cache: &Cache) -> Result<Self> {
        Ok(Self {
            disassembler,
            kept: cache.layered("build/code")?,
        })
    }

    /// The machine code of an artifact's entries; without the text of source lines.
    pub fn read(&self, artifact: &Artifact) -> Seen<CodeFacts> {
        let (path, entries, ptx) = match artifact {
            Artifact::Cubin {
                path, entries, ptx, ..
            } => (path, entries, ptx),
            Artifact::Ptx { .. } => return Seen::Unsupported(Unsupported::NewerPtx),
            Artifact::Launcher { .. } => return Seen::Unsupported(Unsupported::LauncherCode),
        };
        let symbols: Vec<&str> = entries.iter().map(|(_, symbol)| symbol.as_str()).collect();
        match self.look_up(path, &symbols, ptx.as_deref()) {
            Ok(facts) => Seen::Got(facts),
            Err(message) => Seen::Fault(Fault::new(FaultKind::Disassembler, message)),
        }
    }

    fn look_up(
        &self,
        cubin: &Path,
        symbols: &[&str],
        ptx: Option<&Path>,
    ) -> std::result::Result<CodeFacts, String> {
        let read = |path: &Path| {
            files::read(path, files::made()).map_err(|error| format!("{}: {error}", path.display()))
        };
        let bytes = read(cubin)?;
        let ptx = ptx.map(read).transpose()?.unwrap_or_default();
        let name = self.key(&bytes, symbols, &ptx) + ".json";
        // Damaged files are made again.
        let known = self.kept.places(&name).find_map(|file| {
            let bytes = files::read(&file, files::made()).ok()?;
            serde_json::from_slice(&bytes).ok()
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let names = Names::of(&String::from_utf8_lossy(&ptx));
        let facts = CodeFacts {
            disassembler: self.disassembler.version.clone(),
            entries: self.disassemble(cubin, &bytes, symbols, &names)?,
            text: BTreeMap::new(),
        };
        let text = serde_json::to_vec(&facts).map_err(|error| error.to_string())?;
        // Without it the next run asks nvdisasm again.
        let _ = write_atomically(&self.kept.own().join(name), &text);
        Ok(facts)
    }

    fn key(&self, cubin: &[u8], symbols: &[&str], ptx: &[u8]) -> String {
        let mut digest = blake3::Hasher::new();
        digest.update(&sass::READER.to_le_bytes());
        for part in [
            self.disassembler.version.as_bytes(),
            symbols.join(" ").as_bytes(),
            blake3::hash(cubin).as_bytes(),
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
        names: &Names,
    ) -> std::result::Result<Vec<EntryCode>, String> {
        let cubin = Cubin::parse(bytes)?;
        let indices: Vec<String> = symbols
            .iter()
            .map(|symbol| cubin.symbol_index(symbol).map(|index| index.to_string()))
            .collect::<std::result::Result<_, _>>()?;
        let mut command = clean_command(&self.disassembler.program);
        command
            .args(["-c", "-gi", "-fun", &indices.join(",")])
            .arg(path);
        // Its input was made from the tree's sources.
        let rules = confine::Rules {
            writes: &[],
            hidden: None,
            sockets: confine::Sockets::None,
            memory: Some(limits::compiler_memory()),
            file: None,
        };
        let ended = process::run_confined(command, &rules, DEADLINE, MOST_OUTPUT);
        let ended = ended
            .map_err(|error| format!("nvdisasm: {error}"))?
            .ok_or_else(|| format!("nvdisasm did not finish within {} s", DEADLINE.as_secs()))?;
        if !ended.status.success() {
            return Err(format!("nvdisasm {}", ended.failure()));
        }
        let listing = Listing::parse(&ended.log);
        let entries = symbols.iter().map(|symbol| {
            let section = listing
                .section(symbol)
                .ok_or_else(|| format!("nvdisasm shows no code of {symbol}"))?;
            let mut entry = sass::entry(section);
            names.apply(&mut entry);
            Ok(entry)
        });
        entries.collect()
    }
}

/// Files as line tables of the PTX name them, which is without paths of this machine. Those of machine code are where
/// it was compiled, which may have been another tree.
struct Names(Vec<String>);

impl Names {
    fn of(ptx: &str) -> Self {
        let files = ptx.lines().filter_map(|line| {
            let rest = line.trim().strip_prefix(".file")?;
            let (_, rest) = rest.split_once('"')?;
            Some(rest.split_once('"')?.0.to_owned())
        });
        Self(files.collect())
    }

    /// The one that ends alike.
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
        let lines = entry.lines.iter_mut().filter_map(|it| it.place.as_mut());
        let loops = entry.loops.iter_mut().filter_map(|it| it.place.as_mut());
        for CodePlace { line, inlined_at } in lines.chain(loops) {
            rename(line);
            inlined_at.iter_mut().for_each(&mut rename);
        }
    }
}

/// Every line that code comes from, of the user's own files.
pub fn own_lines(facts: &CodeFacts) -> impl Iterator<Item = &CodeLine> {
    let places = facts.entries.iter().flat_map(|entry| {
        let lines = entry.lines.iter().filter_map(|it| it.place.as_ref());
        lines.chain(entry.loops.iter().filter_map(|it| it.place.as_ref()))
    });
    places
        .flat_map(|place| std::iter::once(&place.line).chain(&place.inlined_at))
        .filter(|line| !super::header::is_of_system(&line.file))
}
