//! Looks at the machine. Everything that may not answer has a deadline: a driver, a file system of another host, a
//! program.

use super::{
    Amount, CacheSeen, CompilerSeen, GatesSeen, GpuSeen, GpusSeen, LockSeen, Machine, OutputSeen,
    PeaksSeen, Tool, UNUSED_DAYS, peaks,
};
use build::toolchain::{self, CompilerPart, Toolchain};
use build::{Artifact, Building};
use config::{Loaded, Selection};
use model::{Arch, Callable, DEFAULT_CONFIG, DeviceFacts, Seen, Unit, UnitId};
use records::repo;
use run::device::DeviceChoice;
use run::device::{lock, nvml};
use run::worker::Crew;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};
use system::files;
use system::process::confine::Support;
use system::temporary::TemporaryDir;

/// The options that a run would be given, too.
pub struct DoctorOptions<'a> {
    pub config: &'a Path,
    pub output: &'a Path,
    pub peaks: bool,
}

/// The deadline for questions that take only a moment on a healthy machine.
const MOMENT: Duration = Duration::from_secs(10);

/// The deadline for compiling an empty kernel.
const COMPILING: Duration = Duration::from_secs(120);

/// Looks at everything that a run needs.
///
/// # Errors
/// Environment, if this executable cannot be started again.
pub fn look(asked: &DoctorOptions) -> Result<Machine> {
    let cache = Cache::open();
    let gates = config::load(asked.config, &Selection::default());
    let loaded = gates.as_ref().ok();
    let pin = loaded.and_then(|loaded| loaded.toolchain.cuda.clone());
    let toolchain = cache
        .as_ref()
        .ok()
        .map(|cache| toolchain::find(pin.as_deref(), cache));
    let gpus = gpus()?;
    let first = match &gpus {
        Seen::Got(gpus) => gpus.all.first().and_then(|gpu| gpu.device.got()),
        _ => None,
    };
    let arch = loaded
        .and_then(|loaded| loaded.plan.units.first())
        .map(|unit| unit.id.arch)
        .or(first.map(DeviceFacts::arch));
    let compiler = match (&cache, &toolchain) {
        (Ok(cache), Some(Ok(toolchain))) => Some(compiler(toolchain, cache, arch)),
        (_, Some(Err(error))) => Some(Err(error.diagnostic().clone())),
        _ => None,
    };
    let peaks = asked.peaks.then(|| match (&cache, &toolchain, first) {
        (Ok(cache), Some(Ok(toolchain)), Some(device)) => {
            match peaks::measure(toolchain, cache, device) {
                Ok(all) => PeaksSeen::Measured(all),
                Err(error) => PeaksSeen::Broken(error.diagnostic().clone()),
            }
        }
        _ => PeaksSeen::Unmeasurable,
    });
    Ok(Machine {
        output: output(asked.output),
        gates: gates_seen(asked.config, gates),
        compiler,
        disassembler: cache.as_ref().ok().and_then(|cache| {
            let found = toolchain::find_disassembler(cache)?;
            Some(tool(&found.program, found.version))
        }),
        confinement: Support::detect(),
        gpus,
        profiler: toolchain::find_profiler()
            .map(|found| tool(&found.program, found.version))
            .map_err(|error| error.diagnostic().clone()),
        may_read_counters: toolchain::may_read_counters(),
        sanitizer: toolchain::find_sanitizer().map(|found| tool(&found.program, found.version)),
        git: repo::git_version(),
        peaks,
        cache: cache
            .map(cache_seen)
            .map_err(|error| error.diagnostic().clone()),
    })
}

/// Asks a question on a thread, and returns `None` if the answer takes longer than the deadline. The thread is then
/// left running.
fn within<T: Send + 'static>(
    deadline: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || said.send(question()));
    heard.recv_timeout(deadline).ok()
}

fn tool(program: &Path, version: String) -> Tool {
    Tool {
        program: program.display().to_string(),
        version,
    }
}

fn gates_seen(path: &Path, gates: Result<Loaded>) -> GatesSeen {
    let file = path.display().to_string();
    match gates {
        Ok(loaded) => GatesSeen::Loaded {
            file,
            cases: loaded.plan.cases.len(),
        },
        Err(_) if path == Path::new(DEFAULT_CONFIG) && !path.exists() => GatesSeen::Absent { file },
        Err(error) => GatesSeen::Broken(error.diagnostic().clone()),
    }
}

fn cache_seen(cache: Cache) -> CacheSeen {
    let root = cache.root().display().to_string();
    let shared = cache.shared().map(|shared| shared.display().to_string());
    let free_bytes = free_bytes(cache.root());
    let entries = within(MOMENT, move || cache.entries());
    let entries = entries.and_then(std::result::Result::ok);
    let amounts = entries.map(|entries| {
        let oldest = Duration::from_secs(UNUSED_DAYS * 24 * 3600);
        let now = SystemTime::now();
        let amount = |least: Duration| {
            entries
                .iter()
                .filter(|entry| {
                    let age = now.duration_since(entry.used).unwrap_or_default();
                    age >= least
                })
                .fold(Amount::default(), |sum, entry| Amount {
                    entries: sum.entries + 1,
                    bytes: sum.bytes + entry.bytes,
                })
        };
        (amount(Duration::ZERO), amount(oldest))
    });
    CacheSeen {
        root,
        shared,
        holds: amounts.map(|(all, _)| all),
        unused: amounts.map(|(_, unused)| unused),
        free_bytes,
    }
}

/// Returns the number of bytes that a user who is not root can still write.
fn free_bytes(dir: &Path) -> Option<u64> {
    let dir = dir.to_owned();
    let about = within(MOMENT, move || nix::sys::statvfs::statvfs(&dir))?.ok()?;
    Some(about.blocks_available() * about.fragment_size())
}

/// Finds out whether reports can be written to the directory, or whether it can be made.
fn output(dir: &Path) -> OutputSeen {
    let there = std::env::current_dir().map(|here| here.join(dir));
    let there = there.unwrap_or_else(|_| dir.to_owned());
    let nearest = there.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    let nearest = nearest.unwrap_or(&there).to_owned();
    let tried = {
        let nearest = nearest.clone();
        within(MOMENT, move || tempfile::tempfile_in(nearest).map(drop))
    };
    OutputSeen {
        directory: dir.display().to_string(),
        free_bytes: free_bytes(&nearest),
        unwritable: match tried {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("its file system does not answer".to_owned()),
        },
    }
}

const EMPTY: &str = "extern \"C\" __global__ void empty() {}\n";
const EMPTY_FILE: &str = "empty.cu";

/// An architecture that every compiler since CUDA 11.8 knows.
const USUAL: Arch = Arch {
    major: 9,
    minor: 0,
    suffix: None,
};

/// Returns the parts of a compiler. Also finds out whether an empty kernel passes through all of them and the host
/// compiler, as a kernel of gates.yaml would.
fn compiler(
    toolchain: &Toolchain,
    cache: &Cache,
    arch: Option<Arch>,
) -> std::result::Result<CompilerSeen, Diagnostic> {
    let arch = arch.unwrap_or(USUAL);
    let parts = toolchain::find_parts(toolchain).map_err(|error| error.diagnostic().clone())?;
    let tried = {
        let (toolchain, cache) = (toolchain.clone(), cache.clone());
        within(COMPILING, move || compile_empty(&toolchain, &cache, arch))
    };
    let tried = tried.unwrap_or_else(|| {
        let seconds = COMPILING.as_secs();
        let late = format!("nvcc did not finish within {seconds} s");
        Err(Error::environment(late))
    });
    let (cicc, failed) = match tried {
        Ok(version) => (version, None),
        Err(error) => (None, Some(error.diagnostic().clone())),
    };
    let cicc = CompilerPart {
        name: "cicc",
        version: cicc,
    };
    Ok(CompilerSeen {
        nvcc: toolchain.nvcc.display().to_string(),
        version: toolchain.facts.version.clone(),
        host_compiler: toolchain.host_compiler.display().to_string(),
        host_version: toolchain.facts.host.clone(),
        parts: [cicc].into_iter().chain(parts).collect(),
        tried: arch.to_string(),
        failed,
    })
}

/// Compiles an empty kernel with a build cache of its own, so that the result is not looked up. Returns cicc's version
/// from the PTX.
fn compile_empty(toolchain: &Toolchain, cache: &Cache, arch: Arch) -> Result<Option<String>> {
    let unwritable = |error: std::io::Error| {
        Error::environment(format!("the cache cannot be written: {error}")).caused_by(error)
    };
    let dir = TemporaryDir::new_in(&cache.dir("scratch")?).map_err(unwritable)?;
    std::fs::write(dir.path().join(EMPTY_FILE), EMPTY).map_err(unwritable)?;
    let unit = Unit {
        id: UnitId::new("empty", "default", arch),
        source: EMPTY_FILE.to_owned(),
        include_dirs: Vec::new(),
        defines: BTreeMap::new(),
        flags: Vec::new(),
        call: Callable::Entries {
            names: vec!["empty".to_owned()],
            constants: Vec::new(),
        },
    };
    let own = Cache::at(&dir.path().join("cache"))?;
    let building = Building::new(dir.path(), toolchain, &own);
    let built = build::build_all(building, &[unit], &|_, _| {})?;
    let built = built.into_iter().next();
    match built.map(|built| (built.facts, built.artifact)) {
        Some((Seen::Got(_), artifact)) => {
            let ptx = match artifact {
                Some(Artifact::Cubin { ptx, .. }) => ptx,
                _ => None,
            };
            let text = ptx.and_then(|ptx| files::read_text(&ptx, files::SOURCE).ok());
            Ok(text.and_then(|text| toolchain::version_in(&text)))
        }
        Some((Seen::Fault(fault), _)) => Err(Error::environment(fault.message)),
        _ => Err(Error::environment("nothing was built")),
    }
}

/// Returns the GPUs of this machine. The first device says whether there are others.
fn gpus() -> Result<Seen<GpusSeen>> {
    let mut crew = Crew::new(DeviceChoice::Auto)?;
    let first = crew.device();
    let counted = first.got().map(|_| crew.count());
    // An open worker would be in the list of processes that use the GPU.
    crew.retire();
    let facts = match first {
        Seen::Got(facts) => facts,
        Seen::Fault(fault) => return Ok(Seen::Fault(fault)),
        Seen::Unsupported(why) => return Ok(Seen::Unsupported(why)),
        Seen::NotRun(why) => return Ok(Seen::NotRun(why)),
    };
    let (count, uncounted) = match counted {
        Some(Ok(count)) => (count, None),
        Some(Err(fault)) => (1, Some(fault.message)),
        None => (1, None),
    };
    let (driver, cuda_driver_version) = (facts.driver.clone(), facts.cuda_driver_version);
    let mut all = vec![gpu(0, Seen::Got(facts))];
    for ordinal in 1..count {
        let mut crew = Crew::new(DeviceChoice::Cuda { ordinal })?;
        let device = crew.device();
        crew.retire();
        all.push(gpu(ordinal, device));
    }
    Ok(Seen::Got(GpusSeen {
        driver,
        cuda_driver_version,
        all,
        uncounted,
    }))
}

fn gpu(ordinal: u32, device: Seen<DeviceFacts>) -> GpuSeen {
    let uuid = device.got().map(|facts| facts.uuid.clone());
    let condition = uuid.clone().and_then(|uuid| {
        // The management library may hang where the driver did not.
        within(MOMENT, move || nvml::condition_of(&uuid)).flatten()
    });
    let lock = uuid.map(|uuid| {
        let (path, standing) = lock::look(&PathBuf::from(lock::SHARED), &uuid);
        LockSeen {
            path: path.display().to_string(),
            standing,
        }
    });
    GpuSeen {
        ordinal,
        device,
        condition,
        lock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_checks_are_abandoned() {
        assert_eq!(within(MOMENT, || 4), Some(4));
        let slow = || std::thread::sleep(Duration::from_secs(5));
        assert_eq!(within(Duration::from_millis(1), slow), None);
    }

    #[test]
    fn tries_to_write_in_the_parent_of_a_missing_output_directory() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b");
        let seen = output(&new);
        assert_eq!(seen.unwritable, None);
        assert!(seen.free_bytes.is_some_and(|free| free > 0));
        assert!(!dir.path().join("a").exists());
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(output(&new).unwritable.is_some());
    }
}
