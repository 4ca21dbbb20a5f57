//! Loads and calls programs: entries of a cubin, and launchers of a shared library.

use super::error::{checked, failure};
use super::graph::Graph;
use crate::device::args::PackedArg;
use crate::device::{Address, DeviceCall, Failure, MemoryWork, Result, no_variable};
use build::{Artifact, written_variables};
use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute, CUresult};
use model::{DeviceFacts, DriverEntry, DriverFacts, FaultKind, Launch, Unsupported};
use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use system::files;

/// Shared memory that every launch may ask for without opting in.
const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// The largest cluster that every device of compute capability 9.0 and later can launch.
const PORTABLE_CLUSTER: u32 = 8;

type LauncherFunction = unsafe extern "C" fn(*mut *mut c_void) -> c_int;

pub enum LoadedArtifact {
    Modules {
        modules: Vec<Module>,
        /// The entries, one for each step.
        entries: Vec<LoadedEntry>,
    },
    Launcher {
        /// The library, which has to stay loaded for `function`.
        library: libloading::Library,
        function: LauncherFunction,
        name: String,
    },
}

pub struct Module {
    handle: sys::CUmodule,
    /// Symbols of what kernels can write.
    variables: Vec<String>,
}

#[derive(Clone)]
pub struct LoadedEntry {
    function: sys::CUfunction,
    symbol: String,
}

/// An entry with the way in which it is called.
struct EntryStep<'a> {
    entry: &'a LoadedEntry,
    args: &'a [PackedArg],
    launch: &'a Launch,
    before: &'a [MemoryWork],
    after: &'a [MemoryWork],
}

impl LoadedArtifact {
    pub fn load(artifact: &Artifact, facts: &DeviceFacts) -> Result<Self> {
        match artifact {
            Artifact::Cubin { path, entries, .. } => {
                let (module, entries) = load_cubin(path, entries, facts)?;
                Ok(Self::Modules {
                    modules: vec![module],
                    entries,
                })
            }
            Artifact::Together { modules, steps } => Self::join(
                modules
                    .iter()
                    .map(|module| Self::load(module, facts))
                    .collect::<Result<_>>()?,
                steps,
            ),
            Artifact::Ptx { .. } => Err(Failure::Unsupported(Unsupported::NewerPtx)),
            Artifact::Launcher {
                library, function, ..
            } => load_launcher(library, function),
        }
    }

    /// Joins modules that are called one after the other, each by its first entry.
    fn join(parts: Vec<Self>, steps: &[usize]) -> Result<Self> {
        let (mut modules, mut firsts) = (Vec::new(), Vec::new());
        for part in parts {
            let Self::Modules {
                modules: own,
                entries,
            } = part
            else {
                return Err(Failure::Unsupported(Unsupported::Launcher));
            };
            modules.extend(own);
            firsts.push(entries.into_iter().next());
        }
        let entries: Option<Vec<LoadedEntry>> = steps
            .iter()
            .map(|at| firsts.get(*at).cloned().flatten())
            .collect();
        let entries = entries.ok_or_else(|| {
            Failure::case_alone(FaultKind::EntryNotFound, "a step of it has no module")
        })?;
        Ok(Self::Modules { modules, entries })
    }

    pub fn unload(self) -> Result<()> {
        match self {
            Self::Modules { modules, .. } => modules.into_iter().try_for_each(|module| {
                checked(
                    "cuModuleUnload",
                    // SAFETY: the stream is idle (`reset` waits), and the functions go with the module.
                    unsafe { sys::cuModuleUnload(module.handle) },
                    FaultKind::Environment,
                )
            }),
            Self::Launcher { library, .. } => {
                // The CUDA runtime inside the library has registered its device code with the process and frees it at a
                // time of its own, so unloading the library is not worth the risk.
                std::mem::forget(library);
                Ok(())
            }
        }
    }

    pub fn variable(&self, module: usize, symbol: &str) -> Result<(Address, usize)> {
        let Self::Modules { modules, .. } = self else {
            return Err(no_variable(symbol));
        };
        let (Some(module), Ok(name)) = (modules.get(module), CString::new(symbol)) else {
            return Err(no_variable(symbol));
        };
        let (mut address, mut bytes) = (0, 0);
        checked(
            &format!("the variable {symbol}"),
            // SAFETY: the module is loaded; out-pointers of locals.
            unsafe {
                sys::cuModuleGetGlobal_v2(
                    &raw mut address,
                    &raw mut bytes,
                    module.handle,
                    name.as_ptr(),
                )
            },
            FaultKind::EntryNotFound,
        )?;
        Ok((address, bytes))
    }

    /// Returns symbol, address and bytes of each variable that kernels can write. Variables behind a launcher belong to
    /// the CUDA runtime in its library, and are not known. Variables that the driver does not find by name are left
    /// out: they are texts of `printf`, which no kernel writes.
    pub fn variables(&self) -> Result<Vec<(String, Address, usize)>> {
        let Self::Modules { modules, .. } = self else {
            return Ok(Vec::new());
        };
        Ok(modules
            .iter()
            .enumerate()
            .flat_map(|(at, module)| module.variables.iter().map(move |variable| (at, variable)))
            .filter_map(|(at, symbol)| {
                let (address, bytes) = self.variable(at, symbol).ok()?;
                Some((symbol.clone(), address, bytes))
            })
            .collect())
    }

    /// Opts in to what the launches ask for beyond the defaults.
    pub fn allow(&self, call: &DeviceCall) -> Result<()> {
        let Self::Modules { entries, .. } = self else {
            return Ok(());
        };
        let steps = entry_steps(entries, call)?;
        for step in &steps {
            let function = step.entry.function;
            // The attribute belongs to the function, which may be in several steps.
            let dynamic = steps
                .iter()
                .filter(|step| step.entry.function == function)
                .map(|step| step.launch.dynamic_shared)
                .max()
                .unwrap_or(0);
            if dynamic > SHARED_WITHOUT_OPT_IN {
                set(
                    function,
                    Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    dynamic as i32,
                )
                .map_err(|code| {
                    let refused = || {
                        shared_memory_refused(function, dynamic)
                            .unwrap_or_else(|| "dynamic shared memory refused".to_owned())
                    };
                    failure(&refused(), code, FaultKind::LaunchRefused)
                })?;
            }
            let cluster = step.launch.cluster;
            let blocks: u32 = cluster.map_or(1, |cluster| cluster.iter().product());
            if blocks > PORTABLE_CLUSTER {
                set(
                    function,
                    Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                    1,
                )
                .map_err(|code| {
                    let what = format!("a cluster of {blocks} blocks");
                    failure(&what, code, FaultKind::LaunchRefused)
                })?;
            }
        }
        Ok(())
    }

    /// Queues the call on the stream and does nothing else, so that it can be captured.
    pub fn launch(&self, call: &DeviceCall, stream: sys::CUstream) -> Result<()> {
        match self {
            Self::Modules { entries, .. } => {
                for EntryStep {
                    entry,
                    args,
                    launch,
                    before,
                    after,
                } in entry_steps(entries, call)?
                {
                    before.iter().try_for_each(|work| queue(work, stream))?;
                    let mut args = pointers(args);
                    with_config(launch, stream, |config| {
                        // SAFETY: `args` points to one value for each parameter, as config laid them out.
                        let code = unsafe {
                            sys::cuLaunchKernelEx(
                                config,
                                entry.function,
                                args.as_mut_ptr(),
                                null_mut(),
                            )
                        };
                        checked(&launch_text(launch), code, FaultKind::LaunchRefused)
                    })?;
                    after.iter().try_for_each(|work| queue(work, stream))?;
                }
                Ok(())
            }
            Self::Launcher { function, name, .. } => {
                let [step] = call.steps.as_slice() else {
                    return Err(misfit(1, call));
                };
                let mut args = pointers(&step.args);
                // SAFETY: the shim reads one value through each pointer. The user's code may do anything else, and for
                // that reason it runs in a process of its own.
                match unsafe { function(args.as_mut_ptr()) } {
                    0 => Ok(()),
                    code => Err(Failure::case_alone(
                        FaultKind::LaunchRefused,
                        format!("the launcher {name} returned {code}{}", meaning(code)),
                    )),
                }
            }
        }
    }
}

/// Queues a copy or a value for memory. Both can be captured into a graph.
fn queue(work: &MemoryWork, stream: sys::CUstream) -> Result<()> {
    // SAFETY: the addresses belong to allocations with at least this many bytes, which outlive the stream's work.
    let (name, code) = unsafe {
        match *work {
            MemoryWork::Set { to, value, bytes } => (
                "cuMemsetD8Async",
                sys::cuMemsetD8Async(to, value, bytes, stream),
            ),
            MemoryWork::Copy { from, to, bytes } => (
                "cuMemcpyDtoDAsync",
                sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream),
            ),
        }
    };
    checked(name, code, FaultKind::LaunchRefused)
}

fn pointers(args: &[PackedArg]) -> Vec<*mut c_void> {
    args.iter()
        .map(|value| value.as_ptr().cast_mut().cast())
        .collect()
}

fn entry_steps<'a>(entries: &'a [LoadedEntry], call: &'a DeviceCall) -> Result<Vec<EntryStep<'a>>> {
    if entries.len() != call.steps.len() {
        return Err(misfit(entries.len(), call));
    }
    entries
        .iter()
        .zip(&call.steps)
        .map(|(entry, step)| match &step.launch {
            Some(launch) => Ok(EntryStep {
                entry,
                args: &step.args,
                launch,
                before: &step.before,
                after: &step.after,
            }),
            None => Err(Failure::case_alone(
                FaultKind::LaunchRefused,
                format!("{} has no launch configuration", entry.symbol),
            )),
        })
        .collect()
}

/// Returns the failure of a call whose steps do not match the program, which is gatekeeper's own mistake.
fn misfit(functions: usize, call: &DeviceCall) -> Failure {
    Failure::case_alone(
        FaultKind::LaunchRefused,
        format!(
            "{functions} functions are loaded for a call of {} steps",
            call.steps.len()
        ),
    )
}

/// Explains the number that a launcher returned. Its meaning is the launcher's own, but most launchers return a
/// cudaError_t, whose numbers are mostly the driver's.
fn meaning(code: c_int) -> String {
    match code {
        1 => " (cudaErrorInvalidValue, if it is a cudaError_t)".to_owned(),
        2 => " (cudaErrorMemoryAllocation, if it is a cudaError_t)".to_owned(),
        9 => " (cudaErrorInvalidConfiguration, if it is a cudaError_t)".to_owned(),
        _ => String::new(),
    }
}

fn load_cubin(
    path: &Path,
    entries: &[(String, String)],
    facts: &DeviceFacts,
) -> Result<(Module, Vec<LoadedEntry>)> {
    let image = files::read(path, files::made()).map_err(|error| {
        Failure::case_alone(
            FaultKind::Environment,
            format!("the cubin {} cannot be read: {error}", path.display()),
        )
    })?;
    if !image.starts_with(b"\x7fELF") {
        return Err(Failure::case_alone(
            FaultKind::Environment,
            format!("{} is not a cubin", path.display()),
        ));
    }
    let mut module = null_mut();
    // SAFETY: an ELF image says how long it is.
    match unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) } {
        CUresult::CUDA_SUCCESS => {}
        code @ (CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUresult::CUDA_ERROR_INVALID_IMAGE
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION) => {
            let what = format!(
                "the driver ({}, CUDA {}.{}) cannot load the cubin on {} (compute capability {}.{}); cubins \
                 of CUDA 13 need driver branch 580 or later, and machine code its own architecture",
                facts.driver,
                facts.cuda_driver_version / 1000,
                facts.cuda_driver_version % 1000 / 10,
                facts.name,
                facts.major,
                facts.minor
            );
            return Err(failure(&what, code, FaultKind::Environment));
        }
        code => return Err(failure("loading the cubin", code, FaultKind::Environment)),
    }
    let entries = entries
        .iter()
        .map(|(_, symbol)| {
            let mut function = null_mut();
            let name = CString::new(symbol.as_str()).map_err(|_| {
                Failure::case_alone(
                    FaultKind::EntryNotFound,
                    "the entry's symbol contains a zero byte",
                )
            })?;
            checked(
                &format!("the entry {symbol}"),
                // SAFETY: the module was just loaded.
                unsafe { sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) },
                FaultKind::EntryNotFound,
            )?;
            Ok(LoadedEntry {
                function,
                symbol: symbol.clone(),
            })
        })
        .collect::<Result<_>>()?;
    let variables = written_variables(&image).map_err(|problem| {
        Failure::case_alone(
            FaultKind::Environment,
            format!("{}: {problem}", path.display()),
        )
    })?;
    let module = Module {
        handle: module,
        variables,
    };
    Ok((module, entries))
}

fn load_launcher(path: &Path, function: &str) -> Result<LoadedArtifact> {
    let missing = |error: libloading::Error| {
        Failure::case_alone(
            FaultKind::EntryNotFound,
            format!("the launcher {function}: {error}"),
        )
    };
    // SAFETY: loading runs the library's initialisers: user code, hence this process.
    let library = unsafe { libloading::Library::new(path) }.map_err(missing)?;
    // SAFETY: the shim is generated with this signature.
    let symbol = unsafe { library.get::<LauncherFunction>(function.as_bytes()) };
    let pointer = symbol.map(|symbol| *symbol).map_err(missing)?;
    Ok(LoadedArtifact::Launcher {
        library,
        function: pointer,
        name: function.to_owned(),
    })
}

/// Calls `run` with the driver's form of a launch.
fn with_config<T>(
    launch: &Launch,
    stream: sys::CUstream,
    run: impl FnOnce(*const sys::CUlaunchConfig) -> T,
) -> T {
    let mut attributes: Vec<sys::CUlaunchAttribute> = launch
        .cluster
        .iter()
        .map(|&[x, y, z]| sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
            },
        })
        .collect();
    if launch.cooperative {
        attributes.push(sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { cooperative: 1 },
        });
    }
    let config = sys::CUlaunchConfig {
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.dynamic_shared,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    run(&raw const config)
}

fn launch_text(launch: &Launch) -> String {
    let [gx, gy, gz] = launch.grid;
    let [bx, by, bz] = launch.block;
    let cluster = launch
        .cluster
        .map_or(String::new(), |[x, y, z]| format!(", cluster {x}x{y}x{z}"));
    let kind = if launch.cooperative {
        "cooperative launch"
    } else {
        "launch"
    };
    format!(
        "the {kind} with grid {gx}x{gy}x{gz}, block {bx}x{by}x{bz}{cluster}, {} bytes of dynamic shared memory",
        launch.dynamic_shared
    )
}

fn shared_memory_refused(function: sys::CUfunction, asked: u32) -> Option<String> {
    let mut device = 0;
    let mut allowed = 0;
    // SAFETY: out-pointers of locals; a context is current.
    let code = unsafe {
        match sys::cuCtxGetDevice(&raw mut device) {
            CUresult::CUDA_SUCCESS => sys::cuDeviceGetAttribute(
                &raw mut allowed,
                sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                device,
            ),
            code => code,
        }
    };
    let fixed = get(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).ok()?;
    (code == CUresult::CUDA_SUCCESS).then(|| {
        format!(
            "a block needs {asked} bytes of dynamic and {fixed} bytes of static shared memory, and this device \
             allows {allowed} in all"
        )
    })
}

fn set(
    function: sys::CUfunction,
    attribute: Attribute,
    value: i32,
) -> std::result::Result<(), CUresult> {
    // SAFETY: the function is loaded.
    match unsafe { sys::cuFuncSetAttribute(function, attribute, value) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(code),
    }
}

fn get(function: sys::CUfunction, attribute: Attribute) -> Result<u32> {
    let mut value = 0;
    checked(
        "cuFuncGetAttribute",
        // SAFETY: the function is loaded.
        unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) },
        FaultKind::Environment,
    )?;
    Ok(value as u32)
}

/// Returns the driver's facts on every kernel that the call launches, step by step. For this, a launcher's launches are
/// captured into a graph that never runs.
pub fn describe(
    loaded: &LoadedArtifact,
    call: &DeviceCall,
    stream: sys::CUstream,
    facts: &DeviceFacts,
) -> Result<DriverFacts> {
    let kernels = match loaded {
        LoadedArtifact::Modules { entries, .. } => {
            let steps = entry_steps(entries, call)?.into_iter();
            let entries = steps
                .map(|step| entry(step.entry.function, step.entry.symbol.clone(), *step.launch))
                .collect::<Result<_>>()?;
            return Ok(DriverFacts { entries });
        }
        LoadedArtifact::Launcher { .. } => {
            Graph::capture(stream, || loaded.launch(call, stream))?.kernels(facts)?
        }
    };
    let mut entries: Vec<DriverEntry> = Vec::new();
    for (function, symbol, launch) in kernels {
        let entry = entry(function, symbol, launch)?;
        // A launcher that repeats the same launch in a loop adds nothing new.
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    Ok(DriverFacts { entries })
}

fn entry(function: sys::CUfunction, symbol: String, launch: Launch) -> Result<DriverEntry> {
    let mut blocks = 0;
    checked(
        &format!("occupancy of {symbol} at {}", launch_text(&launch)),
        // SAFETY: the function is loaded.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function,
                launch.threads_per_block() as i32,
                launch.dynamic_shared as usize,
            )
        },
        FaultKind::LaunchRefused,
    )?;
    Ok(DriverEntry {
        symbol,
        launch,
        registers: get(function, Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        static_shared: get(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        local: get(function, Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        blocks_per_sm: blocks as u32,
    })
}
