//! One unit through the compiler: run it, and read what came out.

use super::command::{self, ArtifactKind, NvccCall};
use super::depend::list_files;
use super::entry::{self, Named, Unresolved};
use super::identity::{self, Cubin};
use super::inputs::lexical;
use super::ptxas::PtxasReport;
use crate::error::{Diagnostic, Error, Result};
use crate::process::confine::{Rules, Sockets};
use crate::process::{self, Ended};
use crate::toolchain::{Toolchain, clean_command, find_breakage};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use verdict::model::{
    BuildFacts, Callable, Constant, ConstantFacts, EntryFacts, Fault, FaultKind, Unit,
};

/// Longest time that one unit may take; heavily templated kernels take minutes.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// Bytes of what nvcc prints that are kept.
const MOST_OUTPUT: u64 = 64 << 20;

/// What a unit became, beside its facts.
#[derive(Debug)]
pub struct Compiled {
    pub facts: BuildFacts,
    /// The cubin or library, in the scratch directory.
    pub output: PathBuf,
    /// What its machine code was made from, without paths of this machine.
    pub ptx: String,
    /// Every file that was read, as the preprocessor printed it: relative to the root or absolute.
    pub included: Vec<String>,
}

/// # Errors
/// Outer: the machine failed. Inner: the source did, which is evidence.
pub fn compile(
    root: &Path,
    toolchain: &Toolchain,
    scratch: &Path,
    unit: &Unit,
    request: &NvccCall,
    deadline: Duration,
) -> Result<std::result::Result<Compiled, Fault>> {
    let failed = |what: &str, error: std::io::Error| {
        Error::environment(format!("{}: {what}: {error}", unit.id))
    };
    let output = scratch.join(match request.kind {
        ArtifactKind::Cubin => "unit.cubin",
        ArtifactKind::Library => "unit.so",
    });
    // The intermediates of the one call: PTX for the simulator, and what a library's identity is read from.
    let intermediates = scratch.join(KEPT);
    std::fs::create_dir(&intermediates).map_err(|error| failed("intermediates", error))?;
    let mut command = clean_command(&toolchain.nvcc);
    command
        .current_dir(root)
        .env("TMPDIR", scratch)
        .arg("-ccbin")
        .arg(&toolchain.host_compiler)
        .args(&request.args)
        .arg("--keep")
        .arg("--keep-dir")
        .arg(&intermediates)
        .arg("-o")
        .arg(&output);
    if let (ArtifactKind::Library, Some(dir)) = (request.kind, &toolchain.library_dir) {
        command.arg("-L").arg(dir);
    }
    match &request.generated {
        None => command.arg(&unit.source),
        Some(text) => {
            let generated = scratch.join(GENERATED);
            std::fs::write(&generated, text).map_err(|error| failed("generated source", error))?;
            command.args(["-include", &unit.source]).arg(generated)
        }
    };

    // Flags and source are the tree's: what they make the compiler do stays here.
    let rules = Rules {
        writes: &[scratch],
        sockets: Sockets::None,
        memory: None,
        file: Some(LARGEST_FILE),
    };
    let ended = process::run_confined(command, &rules, deadline, MOST_OUTPUT)
        .map_err(|error| failed("nvcc", error))?;
    let Some(ended) = ended else {
        return Ok(Err(fault(
            FaultKind::Compile,
            format!("nvcc did not finish within {} s", deadline.as_secs()),
        )));
    };
    let text = canonical(&ended.log, scratch, &toolchain.include);
    if !ended.status.success() {
        return failure(&text, &ended);
    }

    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| failed(&format!("{}", path.display()), error))
    };
    let stem = match &request.generated {
        None => Path::new(&unit.source).file_name(),
        Some(_) => Some(GENERATED.as_ref()),
    };
    let kept = intermediates.join(stem.unwrap_or_default());
    let ptx = read(&kept.with_extension("ptx"))?;
    let ptx = without_paths(&String::from_utf8_lossy(&ptx), root, scratch, toolchain);
    let cubin = match request.kind {
        ArtifactKind::Cubin => read(&output)?,
        ArtifactKind::Library => read(&kept.with_extension("cubin"))?,
    };
    let host = match request.kind {
        ArtifactKind::Cubin => None,
        ArtifactKind::Library => Some(read(&kept.with_extension("o"))?),
    };
    let included = list_included(&intermediates)
        .map_err(|error| failed("intermediates", error))?
        .into_iter()
        .filter(|file| !Path::new(file).starts_with(scratch))
        .collect();
    Ok(
        facts(unit, &text, &cubin, host.as_deref()).map(|facts| Compiled {
            facts: BuildFacts {
                ptx: identity_of_ptx(unit, &facts, &ptx),
                ..facts
            },
            output,
            ptx,
            included,
        }),
    )
}

/// A launcher's is not simulated.
fn identity_of_ptx(unit: &Unit, facts: &BuildFacts, ptx: &str) -> Option<String> {
    match unit.call {
        Callable::Entries { .. } => {
            let filled = filled(&unit.call);
            let symbols = facts.entries.iter().map(|entry| entry.symbol.as_str());
            let called: Vec<&str> = symbols.chain(filled.iter().map(String::as_str)).collect();
            Some(identity::ptx_identity(&called, ptx))
        }
        Callable::Launcher { .. } => None,
    }
}

/// `COEFFS=c` of a constant and the tensor that fills it.
fn filled(call: &Callable) -> Vec<String> {
    let constants = command::constants(call).iter();
    let filled = constants.map(|Constant { name, tensor }| format!("{name}={tensor}"));
    filled.collect()
}

/// The constants of a unit, in their order.
fn constants(unit: &Unit, cubin: &Cubin) -> std::result::Result<Vec<ConstantFacts>, Fault> {
    let known = cubin.constants();
    let symbols: Vec<&str> = known.iter().map(|(symbol, _)| *symbol).collect();
    let wanted = command::constants(&unit.call).iter();
    wanted
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

/// Every file that any pass of the preprocessor read. Not asked of nvcc's `-MD`: that costs another pass over all
/// headers, and one for the host, which takes other branches of `__CUDA_ARCH__`.
fn list_included(intermediates: &Path) -> std::io::Result<Vec<String>> {
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(intermediates)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "ii") {
            let text = std::fs::read(path)?;
            files.extend(list_files(&String::from_utf8_lossy(&text)));
        }
    }
    files.sort_unstable();
    files.dedup();
    match files.is_empty() {
        false => Ok(files),
        true => Err(std::io::Error::other("nvcc kept no preprocessed source")),
    }
}

/// A larger one is none that nvcc makes of a kernel.
const LARGEST_FILE: u64 = 4 << 30;

const GENERATED: &str = "gatekeeper.cu";
const KEPT: &str = "kept";

fn fault(kind: FaultKind, message: String) -> Fault {
    Fault { kind, message }
}

fn failure(text: &str, ended: &Ended) -> Result<std::result::Result<Compiled, Fault>> {
    if text.contains("unsupported GNU version") || text.contains("unsupported clang version") {
        return Err(Error::Environment(
            Diagnostic::new(format!(
                "the host compiler is too new for this nvcc: {}",
                text.lines().next().unwrap_or_default()
            ))
            .help("set NVCC_CCBIN to an older g++, for example g++-13"),
        ));
    }
    if let Some(breakage) = find_breakage(ended) {
        return Err(Error::Environment(
            Diagnostic::new(format!("nvcc broke: {breakage}"))
                .help("`gatekeeper doctor` looks at the compiler, the disk and the memory"),
        ));
    }
    let message: Vec<&str> = text.lines().filter(|line| !is_report(line)).collect();
    let message = message.join("\n").trim().to_owned();
    Ok(Err(fault(
        FaultKind::Compile,
        match message.is_empty() {
            true => format!(
                "nvcc failed without a message ({})",
                process::how(ended.status)
            ),
            false => message,
        },
    )))
}

/// A line of `ptxas -v`, which is no part of an error message.
fn is_report(line: &str) -> bool {
    line.starts_with("ptxas info") || line.contains(" bytes stack frame, ")
}

/// The toolkit's own headers, as `canonical` names them.
const TOOLKIT: &str = "cuda/include/";

/// Whether a file that the line tables of [`Compiled::ptx`] name is a header of the toolkit or of the
/// operating system, and none of the user's.
pub fn is_of_system(file: &str) -> bool {
    file.starts_with(TOOLKIT) || file.starts_with("/usr/")
}

/// What `canonical` names a header of the toolkit, relative to the toolkit's directory of headers.
pub fn in_toolkit(file: &str) -> Option<&str> {
    file.strip_prefix(TOOLKIT)
}

/// The compiler's words without names that change from run to run or are this machine's, so that the same
/// mistake in two variants is the same message.
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

/// nvcc names source files in its line tables by their whole path.
fn without_paths(ptx: &str, root: &Path, scratch: &Path, toolchain: &Toolchain) -> String {
    let text = canonical(ptx, scratch, &toolchain.include);
    match std::fs::canonicalize(root) {
        Ok(root) => {
            let root = root.display();
            // With a dot where it was taken in by -include.
            text.replace(&format!("\"{root}/./"), "\"")
                .replace(&format!("\"{root}/"), "\"")
        }
        // It was the working directory of a command that succeeded.
        Err(_) => text,
    }
}

fn facts(
    unit: &Unit,
    text: &str,
    cubin: &[u8],
    host: Option<&[u8]>,
) -> std::result::Result<BuildFacts, Fault> {
    let not_found = |message: String| fault(FaultKind::EntryNotFound, message);
    let report = PtxasReport::parse(text);
    let arch = unit.id.arch.to_string();
    let cubin = Cubin::parse(cubin).map_err(not_found)?;
    if cubin.is_relocatable() {
        return Err(fault(
            FaultKind::Compile,
            "relocatable device code is not supported: take -rdc=true out of the flags".to_owned(),
        ));
    }
    let symbols = cubin.entries();
    let entries = command::entry_names(&unit.call)
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let symbol = symbol_of(index, name, &symbols)
                .map_err(|why| not_found(format!("entry `{name}` of {}: {why}", unit.source)))?;
            let resources = report
                .resources(symbol, &arch)
                .map_err(|why| not_found(format!("entry `{name}` ({symbol}) at {arch}: {why}")))?;
            Ok(EntryFacts {
                name: name.to_owned(),
                symbol: symbol.to_owned(),
                resources,
            })
        })
        .collect::<std::result::Result<Vec<_>, Fault>>()?;

    let mut digest = blake3::Hasher::new();
    let mut add = |identity: std::result::Result<[u8; 32], String>| {
        identity.map_err(not_found).map(|identity| {
            digest.update(&identity);
        })
    };
    match host {
        None => {
            for entry in &entries {
                add(cubin.identity(&entry.symbol))?;
            }
        }
        Some(host) => {
            add(identity::host_identity(host))?;
            // Host code can launch what it did not declare.
            let mut all: Vec<[u8; 32]> = symbols
                .iter()
                .map(|symbol| cubin.identity(symbol))
                .collect::<std::result::Result<_, _>>()
                .map_err(not_found)?;
            all.sort_unstable();
            all.into_iter().try_for_each(|identity| add(Ok(identity)))?;
        }
    }
    for constant in filled(&unit.call) {
        digest.update(constant.as_bytes());
    }
    Ok(BuildFacts {
        artifact: String::new(),
        entries,
        constants: constants(unit, &cubin)?,
        identity: digest.finalize().to_hex().to_string(),
        ptx: None,
        warnings: warnings(text, report.warnings),
    })
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

/// First lines only: what follows shows the source, which the reader has.
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
