//! Everything that is known of the process: the request, its modules and kernels, its memory, and the capture that is
//! written.

use crate::driver::{Handle, SUCCESS, driver};
use crate::graphs::Graphs;
use crate::image;
use crate::launches::Launches;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::regions::list_open;
use crate::settled::{Counter, unsettle};
use capture::{
    Content, Contents, LeftOut, Line, Process, Reason, Request, SCHEMA, VARIABLE, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub struct State {
    pub request: Request,
    pub memory: Memory,
    pub maps: Maps,
    pub contents: Contents,
    writer: Writer,
    /// The modules and libraries, by handle.
    modules: BTreeMap<usize, Rc<Vec<u8>>>,
    stored: BTreeMap<*const u8, Content>,
    /// The kernels and functions, by handle.
    pub kernels: BTreeMap<usize, ProgramKernel>,
    /// The kernels whose function was looked up.
    resolved: BTreeSet<usize>,
    pub graphs: Graphs,
    /// The counts of all launches, captured or not.
    pub launches: Launches,
    /// The number of captured launches of each kernel, by symbol and region.
    taken: BTreeMap<String, BTreeMap<Option<String>, u32>>,
    left_out: BTreeSet<(String, Reason)>,
    /// The number of failed attempts to capture each kernel, by symbol.
    failed: BTreeMap<String, u32>,
    /// The process to which this state belongs. A fork of it has no state of its own, and no device either.
    pid: u32,
}

/// A kernel as the program knows it.
#[derive(Clone)]
pub struct ProgramKernel {
    pub symbol: String,
    pub module: Option<Rc<Vec<u8>>>,
    /// The CUmodule or CUlibrary from which the program got it.
    pub owner: usize,
    pub is_of_library: bool,
    /// True for a CUkernel, and false for a CUfunction.
    pub is_kernel: bool,
    pub is_selected: bool,
}

// SAFETY: all of it is behind one mutex, and no `Rc` leaves it.
unsafe impl Send for State {}

/// The most failed attempts for a kernel. Each waits for the GPU, and a kernel that cannot be captured must not slow
/// the program down for ever.
const MOST_ATTEMPTS: u32 = 3;

static STATE: OnceLock<Option<Mutex<State>>> = OnceLock::new();

/// Locks the state. Returns `None` in a process that is not captured, or whose capture cannot be written.
pub fn state() -> Option<MutexGuard<'static, State>> {
    let state = STATE.get_or_init(|| State::open().ok().map(Mutex::new));
    let state = state.as_ref()?;
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    (state.pid == std::process::id()).then_some(state)
}

unsafe extern "C" {
    fn atexit(end: extern "C" fn()) -> c_int;
}

/// Writes how often kernels were launched. Writes nothing if a thread that waits for ever holds the state, because the
/// program must be able to end.
extern "C" fn end() {
    let state = STATE.get().and_then(Option::as_ref);
    let Some(Ok(mut state)) = state.map(Mutex::try_lock) else {
        return;
    };
    if state.pid == std::process::id() {
        for launched in state.launches.list() {
            let _ = state.writer.add(&Line::Launched(launched));
        }
    }
}

impl State {
    fn open() -> io::Result<Self> {
        let request = std::env::var(VARIABLE).map_err(io::Error::other)?;
        let request: Request = serde_json::from_str(&request)?;
        // SAFETY: the function lives as long as the program. Without a place for it nothing is written, which is known.
        unsafe { atexit(end) };
        let pid = std::process::id();
        let process = Process {
            schema: SCHEMA.to_owned(),
            pid,
            command: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
        };
        Ok(Self {
            writer: Writer::create(&request.out, process)?,
            contents: Contents::new(&request.out),
            request,
            memory: Memory::default(),
            maps: Maps::default(),
            modules: BTreeMap::new(),
            stored: BTreeMap::new(),
            kernels: BTreeMap::new(),
            resolved: BTreeSet::new(),
            graphs: Graphs::default(),
            launches: Launches::default(),
            taken: BTreeMap::new(),
            left_out: BTreeSet::new(),
            failed: BTreeMap::new(),
            pid,
        })
    }

    /// Adds a module.
    ///
    /// # Safety
    /// `image` must be what the driver made the module from.
    pub unsafe fn add_module(&mut self, module: Handle, image: *const c_void) {
        // SAFETY: as the caller says.
        if let Some(image) = unsafe { image::read(image) } {
            self.modules.insert(module.addr(), Rc::new(image));
        }
    }

    /// Adds another handle of a module. `alias` is the same module in another form.
    pub fn add_alias(&mut self, alias: Handle, module: Handle) {
        if let Some(image) = self.modules.get(&module.addr()) {
            self.modules.insert(alias.addr(), Rc::clone(image));
        }
    }

    /// Adds a kernel.
    ///
    /// # Safety
    /// `name` must be a C string.
    pub unsafe fn add_kernel(
        &mut self,
        kernel: Handle,
        module: Handle,
        name: *const std::ffi::c_char,
        is_of_library: bool,
    ) {
        // SAFETY: as the caller says.
        let symbol = unsafe { CStr::from_ptr(name) };
        let symbol = symbol.to_string_lossy().into_owned();
        let readable = cpp_demangle::Symbol::new(&symbol).ok();
        let readable = readable.and_then(|mangled| mangled.demangle().ok());
        let readable = readable.unwrap_or_else(|| symbol.clone());
        let kernel_ = ProgramKernel {
            module: self.modules.get(&module.addr()).cloned(),
            owner: module.addr(),
            is_of_library,
            is_kernel: is_of_library,
            is_selected: self.request.selects(&symbol, &readable),
            symbol,
        };
        self.kernels.insert(kernel.addr(), kernel_);
        unsettle();
    }

    /// Adds the CUfunction of a CUkernel.
    pub fn add_function(&mut self, function: Handle, kernel: Handle) {
        if let Some(known) = self.kernels.get(&kernel.addr()) {
            let function_ = ProgramKernel {
                is_kernel: false,
                ..known.clone()
            };
            self.kernels.insert(function.addr(), function_);
            unsettle();
        }
    }

    /// Looks up the CUfunction of a kernel. A launch that is recorded into a graph comes back with its CUfunction, for
    /// which the program may never have asked.
    pub fn find_function(&mut self, kernel: Handle) {
        let is_new = (self.kernels.get(&kernel.addr())).is_some_and(|kernel| kernel.is_kernel)
            && self.resolved.insert(kernel.addr());
        let mut function = std::ptr::null_mut();
        // SAFETY: a kernel of the program, and a handle that the driver writes.
        if is_new && unsafe { driver().kernel_get_function(&raw mut function, kernel) } == SUCCESS {
            self.add_function(function, kernel);
        }
    }

    /// Returns the kernel of this launch and its region, if the launch is to be captured.
    pub fn choose(&mut self, kernel: Handle) -> Option<(ProgramKernel, Option<String>)> {
        let open = list_open();
        if !self.request.selects_in(&open) {
            return None;
        }
        let Some(known) = self.kernels.get(&kernel.addr()) else {
            if self.request.kernels.is_empty() {
                self.leave_out("?", Reason::UnknownModule);
            }
            return None;
        };
        let region = (!open.is_empty()).then(|| open.join("/"));
        let taken = self.taken.get(&known.symbol);
        let taken = taken
            .and_then(|by_region| by_region.get(&region))
            .copied()
            .unwrap_or_default();
        let failed = self.failed.get(&known.symbol).copied().unwrap_or_default();
        let is_chosen =
            known.is_selected && taken < self.request.launches && failed < MOST_ATTEMPTS;
        is_chosen.then(|| (known.clone(), region))
    }

    /// Returns the counter of launches of these kernels, each as often as it is given, or `None` if nobody asked for
    /// any of them here.
    pub fn counter_of(&mut self, kernels: &[Handle]) -> Counter {
        let symbols: Vec<String> = kernels
            .iter()
            .filter_map(|kernel| self.kernels.get(&kernel.addr()))
            .filter(|kernel| kernel.is_selected)
            .map(|kernel| kernel.symbol.clone())
            .collect();
        let open = list_open();
        if symbols.is_empty() || !self.request.selects_in(&open) {
            return None;
        }
        let region = (!open.is_empty()).then(|| open.join("/"));
        self.launches.counter(symbols, region)
    }

    /// Returns the content of a module, stored once.
    ///
    /// # Errors
    /// Returns errors of writing.
    pub fn store_module(&mut self, module: &Rc<Vec<u8>>) -> io::Result<Content> {
        let key = module.as_ptr();
        if let Some(stored) = self.stored.get(&key) {
            return Ok(stored.clone());
        }
        let content = self.contents.put(module)?;
        self.stored.insert(key, content.clone());
        Ok(content)
    }

    /// Counts a launch of the kernel, from 1 over all regions.
    pub fn count(&mut self, symbol: &str, region: &Option<String>) -> u64 {
        let taken = self.taken.entry(symbol.to_owned()).or_default();
        *taken.entry(region.clone()).or_default() += 1;
        taken.values().copied().map(u64::from).sum()
    }

    /// Adds a line to the capture.
    ///
    /// # Errors
    /// Returns errors of writing.
    pub fn add(&mut self, line: &Line) -> io::Result<()> {
        self.writer.add(line)
    }

    /// Notes a launch that is left out after an attempt to capture it.
    pub fn leave_out(&mut self, kernel: &str, reason: Reason) {
        *self.failed.entry(kernel.to_owned()).or_default() += 1;
        self.name_left_out(kernel, reason);
    }

    /// Notes why a kernel is left out, once for each kernel and reason.
    pub fn name_left_out(&mut self, kernel: &str, reason: Reason) {
        if self.left_out.insert((kernel.to_owned(), reason.clone())) {
            let left_out = LeftOut {
                kernel: kernel.to_owned(),
                reason,
            };
            // The capture is the only place to say that the disk is full, and the program may go on.
            let _ = self.writer.add(&Line::LeftOut(left_out));
        }
    }
}

/// The facts of the current device.
pub struct DeviceFacts {
    pub name: String,
    /// The compute capability: major and minor number.
    pub capability: [u8; 2],
    /// The version of CUDA that the driver supports.
    pub driver: i32,
}

/// Values of CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR in cuda.h.
const CAPABILITY: [i32; 2] = [75, 76];

pub fn device() -> DeviceFacts {
    let (mut ordinal, mut version) = (0, 0);
    let mut name = [0_u8; 256];
    // SAFETY: the driver writes one number each, and at most 256 bytes with a NUL.
    let code = unsafe {
        driver().current_device(&raw mut ordinal);
        driver().version(&raw mut version);
        driver().device_name(name.as_mut_ptr().cast(), 256, ordinal)
    };
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy);
    let capability = CAPABILITY.map(|attribute| {
        let mut value = 0;
        // SAFETY: the driver writes one number.
        unsafe { driver().device_attribute(&raw mut value, attribute, ordinal) };
        u8::try_from(value).unwrap_or_default()
    });
    DeviceFacts {
        name: match (code, name) {
            (SUCCESS, Ok(name)) => name.into_owned(),
            _ => "unknown".to_owned(),
        },
        capability,
        driver: version,
    }
}
