//! Compiles units: runs the compiler, and reads what it wrote.

use super::Outside;
use super::bounds::launch_bounds;
use super::command::{self, CompileWay, NvccCall, code_for};
use super::cut::PtxModule;
use super::depend::{ask_for_rules, list_files, list_loaded, list_prerequisites};
use super::entry::{self, Named, Unresolved};
use super::files::lexical;
use super::header::TOOLKIT;
use super::identity::{self, Cubin, CubinError};
use super::missing::{find_remedies, missing_header};
use super::ptxas::PtxasReport;
use super::refused;
use crate::toolchain::{Toolchain, clean_command, find_breakage, list_architectures};
use model::{
    Arch, BuildFacts, Callable, Constant, ConstantFacts, EntryFacts, Fault, FaultKind,
    LaunchBounds, Unit,
};
use object::{Object as _, ObjectSection as _};
use rayon::prelude::*;
use regex::Regex;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use system::error::{Error, Result};
use system::files;
use system::limits;
use system::process::confine::{Hidden, Metadata, Rules, Sockets};
use system::process::{self, Ended};

/// The longest time that one run of nvcc may take. Heavily templated kernels take minutes.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// The most bytes of nvcc's output that are kept.
const MOST_OUTPUT: u64 = 64 << 20;

/// The result of compiling a unit, in addition to its facts.
#[derive(Debug)]
pub struct Compiled {
    pub facts: BuildFacts,
    /// The cubin or library, in the scratch directory.
    pub output: PathBuf,
    /// The source of its machine code, without paths of this machine.
    pub ptx: Option<String>,
    /// Every file that was read, as the preprocessor printed it: relative to the root or absolute.
    pub included: Vec<String>,
    /// The shared libraries that a launcher's library loads.
    pub loaded: Vec<String>,
}

/// The result for a unit. The inner error is the source's, and therefore evidence.
pub type CompileResult = std::result::Result<Compiled, Fault>;

/// The place where nvcc runs, and its limits.
#[derive(Clone, Copy)]
pub struct Workshop<'a> {
    pub root: &'a Path,
    pub toolchain: &'a Toolchain,
    /// An empty directory, which is removed afterwards.
    pub scratch: &'a Path,
    pub outside: &'a [Outside],
    /// The directory that nvcc cannot read.
    pub hidden: Option<&'a Hidden>,
    pub deadline: Duration,
}

/// Compiles units that share their source, definitions, flags and kind of compilation, in as few runs of nvcc as
/// possible.
///
/// # Errors
/// Returns an error if the machine failed, which is no fault of a source.
pub fn compile(shop: Workshop, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let Some(first) = units.first() else {
        return Ok(Vec::new());
    };
    match CompileWay::for_unit(first) {
        CompileWay::Instance => compile_instances(shop, units),
        CompileWay::Source => Ok(match compile_source(shop, first)? {
            Ok(source) => source.units(units),
            Err(fault) => fail_all(units, &fault),
        }),
        CompileWay::Library => compile_library(shop, first, units),
        CompileWay::Ptx => compile_ptx(shop, first, units),
        CompileWay::Cubin => read_cubin(shop, first, units),
    }
}

/// The result of one run of nvcc on an unchanged source, with every entry of it.
#[derive(Debug)]
pub struct CompiledSource {
    pub output: PathBuf,
    pub cubin: Vec<u8>,
    pub ptx: String,
    /// The output of nvcc, without paths of this machine.
    pub log: String,
    pub included: Vec<String>,
}

impl CompiledSource {
    /// Returns the outcomes of units, whichever entries they ask for.
    pub fn units(&self, units: &[&Unit]) -> Vec<CompileResult> {
        let made = Machine::new(&self.cubin, ResourceOrigin::ByPtxas(&self.log));
        made.units(units, Some(&self.ptx), &self.output, &self.included)
    }
}

/// Compiles a source.
///
/// # Errors
/// Returns an error if the machine failed, which is not the source's fault.
pub fn compile_source(
    shop: Workshop,
    unit: &Unit,
) -> Result<std::result::Result<CompiledSource, Fault>> {
    let request = NvccCall::for_unit(unit);
    let input = Input::Source(&unit.source, &request);
    let ran = match shop.run_nvcc(&request.args, input, NvccOutput::Cubin)? {
        Ok(ran) => ran,
        Err(fault) => return Ok(Err(fault)),
    };
    Ok(Ok(CompiledSource {
        cubin: read(&ran.output)?,
        ptx: shop.read_ptx(&ran.kept.with_extension("ptx"))?,
        included: shop.included()?,
        output: ran.output,
        log: ran.log,
    }))
}

/// Compiles the library of a launcher in one run. Launchers are not simulated.
fn compile_library(shop: Workshop, first: &Unit, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let request = NvccCall::for_unit(first);
    let input = Input::Source(&first.source, &request);
    let ran = match shop.run_nvcc(&request.args, input, NvccOutput::Library)? {
        Ok(ran) => ran,
        Err(fault) if shop.lacks_runtime(&fault) => {
            return Err(Error::environment(format!(
                "{} is a launcher, which links libcudart_static.a, and the toolkit of nvcc {} has none",
                first.source, shop.toolchain.facts.version
            ))
            .help("install the development files of the CUDA runtime (package cuda-cudart-dev, or Debian's nvidia-cuda-dev)")
            .help("or run with --provision, or without the launcher: its kernels can be entries of their own"));
        }
        Err(fault) => return Ok(fail_all(units, &fault)),
    };
    let included = shop.included()?;
    let cubin = read(&ran.kept.with_extension("cubin"))?;
    let host = read(&ran.kept.with_extension("o"))?;
    let made = Machine {
        host: Some(&host),
        ..Machine::new(&cubin, ResourceOrigin::ByPtxas(&ran.log))
    };
    let loaded = shop.loaded(&ran.output)?;
    let mut outcomes = made.units(units, None, &ran.output, &included);
    for compiled in outcomes.iter_mut().flatten() {
        compiled.loaded.clone_from(&loaded);
    }
    Ok(outcomes)
}

/// Reads PTX that somebody else compiled.
fn compile_ptx(shop: Workshop, first: &Unit, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let source = Path::new(&first.source);
    let ran = match shop.run_nvcc(
        &NvccCall::for_unit(first).args,
        Input::Ptx(source),
        NvccOutput::Cubin,
    )? {
        Ok(ran) => ran,
        Err(fault) => {
            let file = shop.root.join(source);
            let ptx = match TooNew::find(&fault.message) {
                Some(_) => Some(shop.read_ptx(&file)?),
                None => None,
            };
            return Ok(units
                .iter()
                .map(|unit| match &ptx {
                    Some(ptx) => not_assembled(unit, ptx, &file, &fault),
                    None => Err(fault.clone()),
                })
                .collect());
        }
    };
    let ptx = shop.read_ptx(&shop.root.join(source))?;
    let cubin = read(&ran.output)?;
    let made = Machine::new(&cubin, ResourceOrigin::ByPtxas(&ran.log));
    Ok(made.units(
        units,
        Some(&ptx),
        &ran.output,
        std::slice::from_ref(&first.source),
    ))
}

/// The error of PTXAS when it refuses the version of the PTX and has looked at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooNew {
    pub asked: PtxVersion,
    pub known: PtxVersion,
}

/// The major and minor version of PTX.
pub type PtxVersion = (u32, u32);

impl TooNew {
    /// Finds in the output of PTXAS that it refused a PTX version. Returns `None` unless that version is newer than
    /// the one it knows.
    pub fn find(said: &str) -> Option<Self> {
        static REFUSED: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"Unsupported \.version ([0-9.]+); current version is '([0-9.]+)'").ok()
        });
        let found = REFUSED.as_ref()?.captures(said)?;
        let version = |group: usize| -> Option<PtxVersion> {
            let (major, minor) = found.get(group)?.as_str().split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let (asked, known) = (version(1)?, version(2)?);
        (asked > known).then_some(Self { asked, known })
    }
}

/// Returns a unit of PTX that the simulator may run although this PTXAS refuses it. Constants that the host fills are
/// looked up in machine code, so a unit with such constants stays refused.
fn not_assembled(unit: &Unit, ptx: &str, file: &Path, refused: &Fault) -> CompileResult {
    let module = PtxModule::parse(ptx).filter(|_| command::constants(&unit.call).is_empty());
    let Some(module) = module else {
        return Err(refused.clone());
    };
    let names = resolve(unit, 0, &module.entries())?;
    let symbols: Vec<&str> = names.iter().map(|(_, symbol)| symbol.as_str()).collect();
    // PTXAS has looked only at the version, so what the simulator does not run either stays refused.
    if let Err(why) = simulated(ptx, &symbols) {
        return Err(fault(
            FaultKind::Compile,
            format!(
                "{}\nand the simulator does not run it: {why}",
                refused.message
            ),
        ));
    }
    let identity = identity::ptx_identity(&symbols, ptx);
    let entries = names.iter().map(|(name, symbol)| EntryFacts {
        name: name.clone(),
        symbol: symbol.clone(),
        resources: None,
        bounds: launch_bounds(ptx, symbol),
    });
    Ok(Compiled {
        facts: BuildFacts {
            artifact: String::new(),
            // There is no machine code, so only the PTX can be the same.
            identity: identity.clone(),
            ptx: Some(identity),
            entries: entries.collect(),
            constants: Vec::new(),
            warnings: vec![refused.message.clone()],
            mistyped: Vec::new(),
            kernels: None,
            missing: None,
        },
        output: file.to_owned(),
        ptx: Some(ptx.to_owned()),
        included: vec![unit.source.clone()],
        loaded: Vec::new(),
    })
}

/// Assembles PTX that belongs to no gates.yaml, with PTXAS's own defaults.
///
/// # Errors
/// Environment, if the machine failed. PTX that PTXAS refuses is the inner error.
pub fn assemble(
    shop: Workshop,
    ptx: &[u8],
    arch: Arch,
) -> Result<std::result::Result<Vec<u8>, Fault>> {
    let file = shop.scratch.join(ASSEMBLED);
    std::fs::write(&file, ptx).map_err(|error| failed(&file, error))?;
    let code = ["-gencode".to_owned(), code_for(arch)];
    match shop.run_nvcc(&code, Input::Ptx(&file), NvccOutput::Cubin)? {
        Ok(ran) => read(&ran.output).map(Ok),
        Err(fault) => Ok(Err(fault)),
    }
}

fn simulated(ptx: &str, symbols: &[&str]) -> std::result::Result<(), ptxsim::NoKernel> {
    let module = ptxsim::Module::load(ptx).map_err(ptxsim::NoKernel::Refused)?;
    symbols
        .iter()
        .try_for_each(|symbol| module.kernel(symbol).map(drop))
}

/// Reads machine code that somebody else compiled.
fn read_cubin(shop: Workshop, first: &Unit, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let source = shop.root.join(&first.source);
    let cubin = read(&source)?;
    let made = Machine::new(&cubin, ResourceOrigin::ByItself);
    Ok(made.units(units, None, &source, std::slice::from_ref(&first.source)))
}

/// Compiles template instances. One run of nvcc reads the source and instantiates all of them. Each instance is then
/// cut out of the PTX and assembled by itself, so its result does not depend on what else was compiled. An instance
/// that breaks the common run, or cannot be cut out of it, is compiled alone.
fn compile_instances(shop: Workshop, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let request = NvccCall::for_instances(units);
    let Some(first) = units.first() else {
        return Ok(Vec::new());
    };
    let is_alone = units.len() == 1;
    let alone = |(at, unit): (usize, &&Unit)| -> Result<CompileResult> {
        let scratch = shop.directory(&format!("alone-{at}"))?;
        let shop = Workshop {
            scratch: &scratch,
            ..shop
        };
        let compiled = compile_instances(shop, &[unit])?.pop();
        compiled.ok_or_else(|| Error::environment(format!("{}: nothing was compiled", unit.id)))
    };
    let together = Input::Source(&first.source, &request);
    let ran = match shop.run_nvcc(&request.args, together, NvccOutput::Ptx)? {
        Ok(ran) => ran,
        Err(fault) if is_alone => return Ok(vec![Err(fault)]),
        Err(_) => return compile_halves(shop, units),
    };
    let included = shop.included()?;
    let text = shop.read_ptx(&ran.output)?;
    let Some(module) = PtxModule::parse(&text) else {
        let unreadable = "the PTX that nvcc wrote cannot be read".to_owned();
        let unreadable = fault(FaultKind::Compile, unreadable);
        return Ok(fail_all(units, &unreadable));
    };
    let symbols = module.entries();
    let mut markers = 0;
    let names: Vec<_> = units
        .iter()
        .map(|unit| {
            let first = markers;
            markers += command::entry_names(&unit.call).len();
            resolve(unit, first, &symbols)
        })
        .collect();
    let wanted: Vec<&str> = names
        .iter()
        .flatten()
        .flatten()
        .map(|(_, symbol)| symbol.as_str())
        .collect();
    names
        .clone()
        .into_par_iter()
        .zip(units)
        .enumerate()
        .map(|(at, (names, unit))| {
            let names = match names {
                Ok(names) => names,
                Err(fault) => return Ok(Err(fault)),
            };
            let mut own: Vec<&str> = names.iter().map(|(_, symbol)| symbol.as_str()).collect();
            let others: Vec<&str> = wanted
                .iter()
                .copied()
                .filter(|name| !own.contains(name))
                .collect();
            // Constants that the host fills stay, whether or not they are read. Constants that others fill do not.
            let known = module.constants();
            own.extend(
                command::constants(&unit.call)
                    .iter()
                    .filter_map(|constant| {
                        entry::resolve(Named::Constant, &constant.name, &known).ok()
                    }),
            );
            let ptx = match module.cut(&own, &others) {
                Some(ptx) => ptx,
                None if is_alone => text.clone(),
                None => return alone((at, unit)),
            };
            let scratch = shop.directory(&format!("entry-{at}"))?;
            let shop = Workshop {
                scratch: &scratch,
                ..shop
            };
            let assembled = match shop.assemble(&request.args, &ptx)? {
                Ok(assembled) => assembled,
                Err(fault) => return Ok(Err(fault)),
            };
            let log = format!("{}\n{}", ran.log, assembled.log);
            let cubin = read(&assembled.output)?;
            let made = Machine::new(&cubin, ResourceOrigin::ByPtxas(&log));
            Ok(made.unit(unit, Some(names), Some(&ptx), &assembled.output, &included))
        })
        .collect()
}

/// Compiles instances that do not compile together by halves, to find out which one is wrong, unless the source itself
/// is.
fn compile_halves(shop: Workshop, units: &[&Unit]) -> Result<Vec<CompileResult>> {
    let Some(first) = units.first() else {
        return Ok(Vec::new());
    };
    let scratch = shop.directory("source")?;
    let request = NvccCall {
        generated: Some(String::new()),
        ..NvccCall::for_instances(&[first])
    };
    let of_source = Workshop {
        scratch: &scratch,
        ..shop
    };
    let input = Input::Source(&first.source, &request);
    if let Err(fault) = of_source.run_nvcc(&request.args, input, NvccOutput::Ptx)? {
        return Ok(fail_all(units, &fault));
    }
    let (one, other) = units.split_at(units.len() / 2);
    let (ones, others) = (shop.directory("one")?, shop.directory("other")?);
    let half =
        |scratch: &Path, units: &[&Unit]| compile_instances(Workshop { scratch, ..shop }, units);
    let (one, other) = rayon::join(|| half(&ones, one), || half(&others, other));
    Ok([one?, other?].into_iter().flatten().collect())
}

/// The result of a source that was compiled to list its kernels, and not to run.
pub struct Listed {
    pub code: ListedCode,
    /// The files that were included, as in [`Compiled::included`].
    pub included: Vec<String>,
}

pub enum ListedCode {
    Ptx(String),
    Cubin(Vec<u8>),
}

/// Compiles a source, or a header by itself, with these arguments, and with `behind` appended. Debugging information
/// (`-G`) is read from a cubin. Otherwise PTX says enough, and ptxas, which often takes longest, does not run.
///
/// # Errors
/// Returns an error if the machine failed, which is no fault of the source.
pub fn compile_to_list(
    shop: Workshop,
    source: &str,
    behind: &str,
    args: &[String],
) -> Result<std::result::Result<Listed, Fault>> {
    // nvcc compiles no header.
    let is_whole = source.ends_with(".cu") && behind.is_empty();
    let request = NvccCall {
        args: args.to_vec(),
        generated: (!is_whole).then(|| behind.to_owned()),
    };
    let is_debugged = args.iter().any(|arg| arg == "-G");
    let wanted = if is_debugged {
        NvccOutput::Cubin
    } else {
        NvccOutput::Ptx
    };
    let ran = match shop.run_nvcc(args, Input::Source(source, &request), wanted)? {
        Ok(ran) => ran,
        Err(fault) => return Ok(Err(fault)),
    };
    let code = if is_debugged {
        ListedCode::Cubin(read(&ran.output)?)
    } else {
        ListedCode::Ptx(shop.read_ptx(&ran.output)?)
    };
    Ok(Ok(Listed {
        code,
        included: shop.included()?,
    }))
}

/// The kind of file that nvcc writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NvccOutput {
    Cubin,
    Ptx,
    Library,
}

impl NvccOutput {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Cubin => &["-cubin"],
            Self::Ptx => &["-ptx"],
            Self::Library => &["-shared", "-Xcompiler", "-fPIC", "-cudart", "static"],
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Cubin => "unit.cubin",
            Self::Ptx => "gatekeeper.ptx",
            Self::Library => "unit.so",
        }
    }
}

/// The source that nvcc is given.
enum Input<'a> {
    Source(&'a str, &'a NvccCall),
    Ptx(&'a Path),
}

/// The result of one run of nvcc.
struct Ran {
    /// The compiler's output without paths of this machine.
    log: String,
    output: PathBuf,
    /// The path of the intermediate files without their extensions.
    kept: PathBuf,
}

impl Workshop<'_> {
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.join(name);
        std::fs::create_dir(&path).map_err(|error| failed(&path, error))?;
        Ok(path)
    }

    fn run_nvcc(
        &self,
        args: &[String],
        input: Input,
        wanted: NvccOutput,
    ) -> Result<std::result::Result<Ran, Fault>> {
        let output = self.scratch.join(wanted.file());
        // The intermediate files of the one call: PTX for the simulator, and the input of a library's identity.
        let intermediates = self.directory(KEPT)?;
        let mut command = clean_command(&self.toolchain.nvcc);
        command
            .current_dir(self.root)
            .env("TMPDIR", self.scratch)
            .arg("-ccbin")
            .arg(&self.toolchain.host_compiler)
            .args(wanted.flags())
            .args(args)
            .arg("--keep")
            .arg("--keep-dir")
            .arg(&intermediates)
            .arg("-o")
            .arg(&output);
        ask_for_rules(&mut command, &self.scratch.join(READ));
        if let (NvccOutput::Library, Some(dir)) = (wanted, &self.toolchain.library_dir) {
            command.arg("-L").arg(dir);
        }
        let stem = match input {
            Input::Ptx(file) => {
                command.arg(file);
                file.to_owned()
            }
            Input::Source(
                source,
                NvccCall {
                    generated: None, ..
                },
            ) => {
                command.arg(source);
                PathBuf::from(source)
            }
            Input::Source(
                source,
                NvccCall {
                    generated: Some(text),
                    ..
                },
            ) => {
                let generated = self.scratch.join(GENERATED);
                std::fs::write(&generated, text).map_err(|error| failed(&generated, error))?;
                command.args(["-include", source]).arg(&generated);
                generated
            }
        };
        // Flags and source are the tree's, so what they make the compiler do is confined.
        let rules = Rules {
            writes: &[self.scratch],
            hidden: self.hidden,
            sockets: Sockets::None,
            metadata: Metadata::Kept,
            memory: Some(limits::compiler_memory()),
            file: Some(LARGEST_FILE),
        };
        let ended = process::run_confined(command, &rules, self.deadline, MOST_OUTPUT)
            .map_err(|error| failed(&self.toolchain.nvcc, error))?;
        let Some(ended) = ended else {
            return Ok(Err(fault(
                FaultKind::Compile,
                format!("nvcc did not finish within {} s", self.deadline.as_secs()),
            )));
        };
        let log = self.canonical(&ended.log);
        if !ended.status.success() {
            let failed = failure(&log, &ended, self.root)?;
            let failed = failed.map_err(|fault| self.with_remedies(self.with_architectures(fault)));
            return Ok(failed.map_err(|fault| {
                match refused::find_collision(&fault.message, self.root, args) {
                    None => fault,
                    Some(collision) => Fault {
                        message: format!("{collision}\n{}", fault.message),
                        ..fault
                    },
                }
            }));
        }
        Ok(Ok(Ran {
            log,
            output,
            kept: intermediates.join(stem.file_stem().unwrap_or_default()),
        }))
    }

    /// Returns true if the linker refused because the toolkit has no runtime to link.
    fn lacks_runtime(&self, fault: &Fault) -> bool {
        self.toolchain.library_dir.is_none() && fault.message.contains("cudart_static")
    }

    /// Adds to the fault which architectures this compiler knows, if it was given another one.
    fn with_architectures(&self, fault: Fault) -> Fault {
        if !fault.message.contains("Unsupported gpu architecture") {
            return fault;
        }
        let Some(known) = list_architectures(self.toolchain) else {
            return fault;
        };
        let version = &self.toolchain.facts.version;
        Fault {
            message: format!(
                "{}\nnvcc {version} compiles for {known}: remove others from `architectures` in gates.yaml, or use a \
                 newer compiler (--toolchain)",
                fault.message
            ),
            ..fault
        }
    }

    /// Adds to the fault the commands that install a missing header.
    fn with_remedies(&self, mut fault: Fault) -> Fault {
        let Some(header) = missing_header(&fault.message).map(str::to_owned) else {
            return fault;
        };
        let remedies = find_remedies(self.root, &header, self.toolchain.major());
        for command in remedies {
            fault.message.push_str(&format!(
                "\n{header} is missing: `{command}` brings it, and `include_dirs` in gates.yaml names its directory"
            ));
        }
        fault
    }

    fn assemble(&self, args: &[String], ptx: &str) -> Result<std::result::Result<Ran, Fault>> {
        let file = self.scratch.join(GENERATED).with_extension("ptx");
        std::fs::write(&file, ptx).map_err(|error| failed(&file, error))?;
        self.run_nvcc(args, Input::Ptx(&file), NvccOutput::Cubin)
    }

    fn canonical(&self, text: &str) -> String {
        let toolkit = &self.toolchain.include;
        let mut text = canonical(text, self.scratch, toolkit);
        // nvcc follows links to find its own directory.
        if let Ok(real) = std::fs::canonicalize(toolkit) {
            text = text.replace(&format!("{}/", real.display()), TOOLKIT);
        }
        // If one path begins with the other, the longer one is replaced first.
        self.outside
            .iter()
            .rev()
            .fold(text, |text, Outside { here, written }| {
                text.replace(&format!("{here}/"), &format!("{written}/"))
            })
    }

    /// Reads PTX, and replaces the whole paths by which nvcc names source files in its line tables.
    fn read_ptx(&self, file: &Path) -> Result<String> {
        let text = String::from_utf8_lossy(&read(file)?).into_owned();
        Ok(without_paths(&text, self))
    }

    /// Returns the shared libraries that a library loads. The list is empty if the system's loader is not known.
    fn loaded(&self, library: &Path) -> Result<Vec<String>> {
        // Any shell names the loader of this system, like every program that is linked dynamically.
        let shell = files::read(Path::new("/bin/sh"), LARGEST_FILE).unwrap_or_default();
        let Some(loader) = loader_of(&shell) else {
            return Ok(Vec::new());
        };
        let mut ask = clean_command(&loader);
        ask.current_dir(self.scratch).arg("--list").arg(library);
        // The loader only lists libraries, and runs nothing of theirs.
        let rules = Rules {
            writes: &[],
            hidden: None,
            sockets: Sockets::None,
            metadata: Metadata::Kept,
            memory: None,
            file: Some(LARGEST_FILE),
        };
        let ended = process::run_confined(ask, &rules, self.deadline, MOST_OUTPUT)
            .map_err(|error| failed(&loader, error))?;
        Ok(ended.map_or_else(Vec::new, |ended| list_loaded(&ended.log)))
    }

    fn included(&self) -> Result<Vec<String>> {
        let kept = self.scratch.join(KEPT);
        let mut files = list_included(&kept).map_err(|error| failed(&kept, error))?;
        let rules = files::read(&self.scratch.join(READ), LARGEST_FILE).unwrap_or_default();
        files.extend(list_prerequisites(&String::from_utf8_lossy(&rules)));
        files.sort_unstable();
        files.dedup();
        let own = |file: &String| !Path::new(file).starts_with(self.scratch);
        Ok(files.into_iter().filter(own).collect())
    }
}

fn loader_of(program: &[u8]) -> Option<PathBuf> {
    let file = object::File::parse(program).ok()?;
    let name = file.section_by_name(".interp")?.data().ok()?;
    let name = std::str::from_utf8(name).ok()?;
    Some(PathBuf::from(name.trim_end_matches('\0')))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::environment(format!("the compiler: {}: {error}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    files::read(path, LARGEST_FILE).map_err(|error| failed(path, error))
}

/// Returns every file that any pass of the preprocessor read. nvcc's `-MD` is not used: it needs another pass over all
/// headers, and it lists the pass for the host, which takes other branches of `__CUDA_ARCH__`.
fn list_included(intermediates: &Path) -> std::io::Result<Vec<String>> {
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(intermediates)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ii") {
            let text = files::read(&path, LARGEST_FILE)?;
            files.extend(list_files(&String::from_utf8_lossy(&text)));
        }
    }
    if files.is_empty() {
        Err(std::io::Error::other("nvcc kept no preprocessed source"))
    } else {
        Ok(files)
    }
}

/// The largest file that nvcc may write. It makes no larger one of a kernel.
const LARGEST_FILE: u64 = 4 << 30;

const GENERATED: &str = "gatekeeper.cu";
/// The name that PTXAS's messages have for PTX that belongs to no gates.yaml.
const ASSEMBLED: &str = "assembled.ptx";
const KEPT: &str = "kept";
const READ: &str = "read.d";

fn fault(kind: FaultKind, message: String) -> Fault {
    Fault::new(kind, message)
}

fn failure<Made>(
    text: &str,
    ended: &Ended,
    root: &Path,
) -> Result<std::result::Result<Made, Fault>> {
    let says = ["unsupported GNU version", "unsupported clang version"];
    if let Some(too_new) = text
        .lines()
        .find(|line| says.iter().any(|says| line.contains(says)))
    {
        return Err(Error::environment(format!(
            "the host compiler is too new for this nvcc: {}",
            too_new.trim()
        ))
        .help("install an older g++ and name it: CUDA 12 takes g++-12, CUDA 11.8 takes g++-11 (NVCC_CCBIN=g++-11)"));
    }
    // This counts like a deadline that has passed: every machine has the same limit, and a source that needs more is at
    // fault.
    if let Some(why) = limits::out_of_memory(text) {
        return Ok(Err(fault(FaultKind::Compile, format!("nvcc: {why}"))));
    }
    if let Some(breakage) = find_breakage(ended) {
        return Err(Error::environment(format!("nvcc broke: {breakage}"))
            .help("`gatekeeper doctor` looks at the compiler, the disk and the memory"));
    }
    let message: Vec<&str> = text.lines().filter(|line| !is_report(line)).collect();
    let message = message.join("\n").trim().to_owned();
    Ok(Err(Fault {
        site: refused::find(&message, root),
        ..fault(
            FaultKind::Compile,
            if message.is_empty() {
                format!(
                    "nvcc failed without a message ({})",
                    process::how(ended.status)
                )
            } else {
                message
            },
        )
    }))
}

/// Returns true for a line of `ptxas -v`, which does not belong in an error message.
fn is_report(line: &str) -> bool {
    line.starts_with("ptxas info") || line.contains(" bytes stack frame, ")
}

/// Returns the compiler's message without names that change from run to run or belong to this machine, so that the same
/// mistake in two variants gives the same message.
fn canonical(text: &str, scratch: &Path, toolkit: &Path) -> String {
    static TEMPORARY: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"tmpxft_[0-9a-f]+_[0-9a-f]+-[0-9]+_").ok());
    let mut text = text
        .replace(&format!("{}/{KEPT}/", scratch.display()), "")
        .replace(&format!("{}/", scratch.display()), "");
    // nvcc writes the toolkit's own directory as `bin/..//include`, and in paths of CCCL without a detour.
    let asked = toolkit.display().to_string();
    let short = lexical(toolkit).display().to_string();
    for written in [asked.replace("/../", "/..//"), asked, short] {
        text = text.replace(&format!("{written}/"), TOOLKIT);
    }
    match &*TEMPORARY {
        Some(temporary) => temporary.replace_all(&text, "").into_owned(),
        None => text,
    }
}

fn without_paths(ptx: &str, shop: &Workshop) -> String {
    let text = shop.canonical(ptx);
    match std::fs::canonicalize(shop.root) {
        Ok(root) => {
            let root = root.display();
            // The path has a dot if the file was included by -include.
            text.replace(&format!("\"{root}/./"), "\"")
                .replace(&format!("\"{root}/"), "\"")
        }
        // The path was the working directory of a command that succeeded.
        Err(_) => text,
    }
}

/// Machine code, and what is known of it.
struct Machine<'a> {
    cubin: &'a [u8],
    host: Option<&'a [u8]>,
    said: ResourceOrigin<'a>,
}

/// The source of the resources of entries.
#[derive(Clone, Copy)]
enum ResourceOrigin<'a> {
    /// nvcc's output, with the report of PTXAS in it.
    ByPtxas(&'a str),
    ByItself,
}

/// Returns the same fault for all units.
fn fail_all(units: &[&Unit], fault: &Fault) -> Vec<CompileResult> {
    units.iter().map(|_| Err(fault.clone())).collect()
}

impl<'a> Machine<'a> {
    fn new(cubin: &'a [u8], said: ResourceOrigin<'a>) -> Self {
        Self {
            cubin,
            host: None,
            said,
        }
    }

    /// Returns the outcomes for units that share all of it.
    fn units(
        &self,
        units: &[&Unit],
        ptx: Option<&str>,
        output: &Path,
        included: &[String],
    ) -> Vec<CompileResult> {
        units
            .iter()
            .map(|unit| self.unit(unit, None, ptx, output, included))
            .collect()
    }

    /// Returns the outcome for a unit. `names` has its entries' names and symbols, if they are known already.
    fn unit(
        &self,
        unit: &Unit,
        names: Option<Vec<(String, String)>>,
        ptx: Option<&str>,
        output: &Path,
        included: &[String],
    ) -> CompileResult {
        let cubin = Cubin::parse(self.cubin).map_err(not_found)?;
        if cubin.is_relocatable() {
            return Err(fault(
                FaultKind::Compile,
                "relocatable device code is not supported: take -rdc=true out of the flags"
                    .to_owned(),
            ));
        }
        let names = match names {
            Some(names) => names,
            None => resolve(unit, 0, &cubin.entries())?,
        };
        let (entries, warnings) = match self.said {
            ResourceOrigin::ByPtxas(log) => {
                let report = PtxasReport::parse(log);
                (
                    entries_by_ptxas(unit, names, &report, ptx)?,
                    warnings(log, report.warnings),
                )
            }
            ResourceOrigin::ByItself => (entries_by_cubin(unit, names, &cubin)?, Vec::new()),
        };
        let filled = filled(&unit.call);
        let called: Vec<&str> = entries
            .iter()
            .map(|entry| entry.symbol.as_str())
            .chain(filled.iter().map(String::as_str))
            .collect();
        let simulated = ptx.map(|ptx| identity::ptx_identity(&called, ptx));
        Ok(Compiled {
            facts: BuildFacts {
                artifact: String::new(),
                identity: self
                    .identity(&cubin, &entries, &filled)
                    .map_err(not_found)?,
                ptx: simulated,
                entries,
                constants: constants(unit, &cubin)?,
                warnings,
                mistyped: Vec::new(),
                kernels: None,
                missing: None,
            },
            output: output.to_owned(),
            ptx: ptx.map(str::to_owned),
            included: included.to_vec(),
            loaded: Vec::new(),
        })
    }

    fn identity(
        &self,
        cubin: &Cubin,
        entries: &[EntryFacts],
        filled: &[String],
    ) -> std::result::Result<String, CubinError> {
        let mut digest = blake3::Hasher::new();
        match self.host {
            None => {
                for entry in entries {
                    digest.update(&cubin.identity(&entry.symbol)?);
                }
            }
            Some(host) => {
                digest.update(&identity::host_identity(host, cubin)?);
                // Host code can launch kernels that it did not declare.
                let mut all: Vec<[u8; 32]> = cubin
                    .entries()
                    .iter()
                    .map(|symbol| cubin.identity(symbol))
                    .collect::<std::result::Result<_, _>>()?;
                all.sort_unstable();
                for identity in all {
                    digest.update(&identity);
                }
            }
        }
        for constant in filled {
            digest.update(constant.as_bytes());
        }
        Ok(digest.finalize().to_hex().to_string())
    }
}

/// Returns each constant with the tensor that fills it, as `COEFFS=c`.
fn filled(call: &Callable) -> Vec<String> {
    command::constants(call)
        .iter()
        .map(|Constant { name, tensor }| format!("{name}={tensor}"))
        .collect()
}

/// Returns the constants of a unit, in their order.
fn constants(unit: &Unit, cubin: &Cubin) -> std::result::Result<Vec<ConstantFacts>, Fault> {
    let known = cubin.fillable();
    let symbols: Vec<&str> = known.iter().map(|(symbol, _)| *symbol).collect();
    command::constants(&unit.call)
        .iter()
        .map(|Constant { name, .. }| {
            let symbol = entry::resolve(Named::Constant, name, &symbols).map_err(|why| {
                let what = format!("constant `{name}` of {}: {why}", unit.source);
                fault(FaultKind::EntryNotFound, what)
            })?;
            let size = known.iter().find(|(known, _)| *known == symbol);
            Ok(ConstantFacts {
                name: name.clone(),
                symbol: symbol.to_owned(),
                bytes: size.map_or(0, |(_, bytes)| *bytes),
            })
        })
        .collect()
}

type Entries = std::result::Result<Vec<EntryFacts>, Fault>;

fn entries_by_ptxas(
    unit: &Unit,
    names: Vec<(String, String)>,
    report: &PtxasReport,
    ptx: Option<&str>,
) -> Entries {
    let arch = unit.id.arch.to_string();
    names
        .into_iter()
        .map(|(name, symbol)| {
            let resources = report
                .resources(&symbol, &arch)
                .map_err(|why| not_found(format!("entry `{name}` ({symbol}) at {arch}: {why}")))?;
            let bounds = ptx.map(|ptx| launch_bounds(ptx, &symbol));
            Ok(EntryFacts {
                name,
                symbol,
                resources: Some(resources),
                bounds: bounds.unwrap_or_default(),
            })
        })
        .collect()
}

fn entries_by_cubin(unit: &Unit, names: Vec<(String, String)>, cubin: &Cubin) -> Entries {
    fn refused(message: impl std::fmt::Display) -> Fault {
        fault(FaultKind::Compile, message.to_string())
    }
    let (found, wanted) = (cubin.capability().map_err(refused)?, unit.id.arch);
    if found != (wanted.major, wanted.minor) {
        let (major, minor) = found;
        return Err(refused(format!(
            "{} is for sm_{major}{minor}, and gates.yaml asks for {wanted}",
            unit.source
        )));
    }
    names
        .into_iter()
        .map(|(name, symbol)| {
            let resources = cubin.resources(&symbol).map_err(refused)?;
            Ok(EntryFacts {
                name,
                symbol,
                resources: Some(resources),
                bounds: LaunchBounds::default(),
            })
        })
        .collect()
}

fn not_found(message: impl std::fmt::Display) -> Fault {
    fault(FaultKind::EntryNotFound, message.to_string())
}

/// Returns names and symbols of a unit's entries, in their order. The first entry has the marker number `first`.
fn resolve(
    unit: &Unit,
    first: usize,
    symbols: &[&str],
) -> std::result::Result<Vec<(String, String)>, Fault> {
    command::entry_names(&unit.call)
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            symbol_of(first + index, name, symbols)
                .map(|symbol| (name.to_owned(), symbol.to_owned()))
                .map_err(|why| not_found(format!("entry `{name}` of {}: {why}", unit.source)))
        })
        .collect()
}

fn symbol_of<'a>(
    index: usize,
    name: &str,
    symbols: &[&'a str],
) -> std::result::Result<&'a str, Unresolved> {
    let users: Vec<&str> = symbols
        .iter()
        .copied()
        .filter(|symbol| !command::is_marker(symbol))
        .collect();
    if !command::is_templated(name) {
        return entry::resolve(Named::Entry, name, &users);
    }
    let marked = symbols.iter().find_map(|marker| {
        let wanted = command::instantiated(index, marker)?;
        let (before, after) = command::around(index);
        let same = users.iter().copied().find(|symbol| *symbol == wanted);
        same.or_else(|| entry::held_by(marker, &before, after, &users))
    });
    marked.map_or_else(|| entry::resolve(Named::Entry, name, &users), Ok)
}

/// Returns warnings without the lines after the first, which only repeat the user's source.
fn warnings(text: &str, of_ptxas: Vec<String>) -> Vec<String> {
    let of_nvcc = text
        .lines()
        .filter(|line| {
            line.starts_with("nvcc warning")
                || line.contains(": warning #")
                || line.contains(": warning: ")
        })
        .map(str::to_owned);
    let mut all: Vec<String> = Vec::new();
    for warning in of_nvcc.chain(of_ptxas) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::is_of_system;

    #[test]
    fn headers_of_the_toolkit_are_known_however_nvcc_names_them() {
        let toolkit = Path::new("/opt/cu13/bin/../include");
        for (written, named) in [
            (
                "/opt/cu13/bin/..//include/crt/mma.hpp",
                "cuda/include/crt/mma.hpp",
            ),
            (
                "/opt/cu13/bin/../include/cuda_fp16.hpp",
                "cuda/include/cuda_fp16.hpp",
            ),
            (
                "/opt/cu13/include/cccl/cuda/atomic",
                "cuda/include/cccl/cuda/atomic",
            ),
        ] {
            let name = canonical(written, Path::new("/tmp/scratch"), toolkit);
            assert_eq!(name, named);
            assert!(is_of_system(&name));
        }
        assert!(is_of_system("/usr/include/c++/13/bits/stl_algobase.h"));
        for own in [
            "kernels/attention.cuh",
            "/opt/cutlass/include/gemm.h",
            "cuda.cuh",
        ] {
            assert!(!is_of_system(own), "{own}");
        }
    }
}
