//! A launch that is captured: the memory that it can reach is read before it, and again after it.

use crate::driver::{
    Address, CuResult, Handle, LaunchConfig, NOT_FOUND, PER_THREAD, SUCCESS, driver,
};
use crate::exports::quietly;
use crate::memory::current_device;
use crate::settled::{generation, settle};
use crate::state::{Kernel, State, device, state};
use capture::{
    Allocation, LaunchRecord, Line, MemoryKind, Parameter, Reason, Variable, addresses::ordinal_of,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};

/// A launch as the program asks for it, by whichever of the driver's functions.
pub struct Launch {
    pub kernel: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub cluster: Option<[u32; 3]>,
    pub programmatic: bool,
    pub arguments: Arguments,
}

/// The values of a kernel's parameters.
pub enum Arguments {
    /// In the driver's own two ways: a pointer to each, or a buffer. They are the program's, and hold during its call.
    Given {
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    },
    /// Offset and bytes of each.
    Copied(Vec<(usize, Vec<u8>)>),
}

impl Launch {
    /// # Safety
    /// A config that the driver could take.
    pub unsafe fn of_config(
        config: *const LaunchConfig,
        kernel: Handle,
        arguments: Arguments,
    ) -> Option<Self> {
        // SAFETY: null, or as the caller says.
        let config = unsafe { config.as_ref() }?;
        let mut launch = Self {
            kernel,
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.dynamic_shared,
            cooperative: false,
            cluster: None,
            programmatic: false,
            arguments,
        };
        if !config.attributes.is_null() {
            let count = usize::try_from(config.attribute_count).unwrap_or(0);
            // SAFETY: as the caller says.
            let attributes = unsafe { std::slice::from_raw_parts(config.attributes, count) };
            attributes.iter().for_each(|it| launch.add(it.id, it.value));
        }
        Some(launch)
    }

    /// CUlaunchAttributeID.
    pub fn add(&mut self, attribute: u32, value: [u32; 16]) {
        let [x, y, z, ..] = value;
        match attribute {
            2 => self.cooperative = x != 0,
            4 if x != 0 => self.cluster = Some([x, y, z]),
            6 => self.programmatic = x != 0,
            // Priorities, events and hints: none changes a result.
            _ => {}
        }
    }

    /// `run` is the driver's launch. It runs exactly once, captured or not.
    pub fn capture(&self, stream: Handle, run: &dyn Fn() -> CuResult) -> CuResult {
        let generation = generation();
        let Some(mut state) = state() else {
            return run();
        };
        if state.memory.is_recording() && is_recorded(stream) {
            drop(state);
            let code = run();
            if let Some(mut state) = crate::state::state() {
                state.find_function(self.kernel);
            }
            return code;
        }
        let Some((kernel, region)) = state.choose(self.kernel) else {
            drop(state);
            settle(self.kernel, generation);
            return run();
        };
        if state.memory.is_recording() || is_recorded(stream) {
            state.name_left_out(&kernel.symbol, Reason::Recording);
            drop(state);
            return run();
        }
        self.record(&mut state, (&kernel, region), run)
    }

    /// Writes down a launch that was chosen. `run` runs exactly once, also where our own part fails.
    pub fn record(
        &self,
        state: &mut State,
        (kernel, region): (&Kernel, Option<String>),
        run: &dyn Fn() -> CuResult,
    ) -> CuResult {
        run_once(run, |run| match self.before(state, kernel) {
            Ok(before) => {
                let code = run();
                if code == SUCCESS
                    && let Err(reason) = self.after(state, (kernel, region), before)
                {
                    state.leave_out(&kernel.symbol, reason);
                }
                code
            }
            Err(reason) => {
                state.leave_out(&kernel.symbol, reason);
                run()
            }
        })
    }

    /// The parameters, and the memory that they lead to.
    fn before(&self, state: &State, kernel: &Kernel) -> Result<Before, Reason> {
        if kernel.module.is_none() {
            return Err(Reason::UnknownModule);
        }
        if state.memory.is_taken() {
            return Err(Reason::AddressesTaken);
        }
        synchronize()?;
        let parameters = self.read_arguments(kernel.is_kernel)?;
        let current = current_device();
        let mut memory = BTreeMap::new();
        let mut total = 0;
        let mut waiting: Vec<Address> = Vec::new();
        for (_, bytes) in &parameters {
            for word in words(bytes) {
                if state.memory.around(word).is_some() {
                    waiting.push(word);
                } else if let Some(kind) = find_other_memory(word, current) {
                    return Err(Reason::OtherMemory { kind });
                }
            }
        }
        let variables = read_variables(kernel)?;
        for (_, content) in &variables {
            waiting.extend(words(content).filter(|word| state.memory.around(*word).is_some()));
        }
        // Pointers in memory are followed, too: tables of pointers, and structs.
        while let Some(word) = waiting.pop() {
            let Some((start, bytes)) = state.memory.around(word) else {
                continue;
            };
            if memory.contains_key(&start) {
                continue;
            }
            if ordinal_of(start).and_then(|it| c_int::try_from(it).ok()) != current {
                let kind = MemoryKind::Peer;
                return Err(Reason::OtherMemory { kind });
            }
            total += bytes;
            if total > state.request.most_bytes {
                return Err(Reason::TooMuchMemory {
                    bytes: total,
                    most: state.request.most_bytes,
                });
            }
            let content = read(start, bytes)?;
            let pointers = words(&content).filter(|word| state.memory.around(*word).is_some());
            waiting.extend(pointers);
            memory.insert(start, content);
        }
        Ok(Before {
            parameters,
            memory,
            variables,
        })
    }

    /// Offset and bytes of each parameter.
    pub fn read_arguments(&self, is_kernel: bool) -> Result<Vec<(usize, Vec<u8>)>, Reason> {
        let (given, extra) = match &self.arguments {
            Arguments::Given { parameters, extra } => (*parameters, *extra),
            Arguments::Copied(copied) => return Ok(copied.clone()),
        };
        let mut parameters = Vec::new();
        for index in 0.. {
            let (mut offset, mut bytes) = (0, 0);
            let (at, of) = (&raw mut offset, &raw mut bytes);
            // SAFETY: a kernel of the program, and two numbers that the driver writes.
            let code = unsafe {
                match is_kernel {
                    true => driver().kernel_parameter(self.kernel, index, at, of),
                    false => driver().function_parameter(self.kernel, index, at, of),
                }
            };
            match code {
                SUCCESS => {}
                NOT_FOUND => return Err(refused("cuFuncGetParamInfo", code)),
                // There are no more.
                _ => break,
            }
            let value = match (given.is_null(), find_buffer(extra)) {
                // SAFETY: the driver reads the same pointer.
                (false, _) => unsafe { given.add(index).read() }.cast::<u8>().cast_const(),
                // SAFETY: the driver reads the buffer at the same place.
                (true, Some(buffer)) => unsafe { buffer.add(offset) },
                (true, None) => return Err(refused("cuLaunchKernel", 1)),
            };
            // SAFETY: the driver reads as many bytes from there.
            let value = unsafe { std::slice::from_raw_parts(value, bytes) };
            parameters.push((offset, value.to_vec()));
        }
        Ok(parameters)
    }

    /// Stores what was before and what is now.
    fn after(
        &self,
        state: &mut State,
        (kernel, region): (&Kernel, Option<String>),
        before: Before,
    ) -> Result<(), Reason> {
        synchronize()?;
        let module = kernel.module.as_ref().ok_or(Reason::UnknownModule)?;
        let module = state.store_module(module).map_err(disk)?;
        let mut allocations = Vec::new();
        for (address, content) in before.memory {
            let now = read(address, content.len() as u64)?;
            let after = match now == content {
                true => None,
                false => Some(state.contents.put(&now).map_err(disk)?),
            };
            allocations.push(Allocation {
                address,
                before: state.contents.put(&content).map_err(disk)?,
                after,
            });
        }
        let parameters = before
            .parameters
            .into_iter()
            .map(|(offset, bytes)| Parameter {
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
                maps: state.maps.find(&bytes),
                bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            })
            .collect();
        let mut variables = Vec::new();
        for (name, content) in before.variables {
            variables.push(Variable {
                name,
                before: state.contents.put(&content).map_err(disk)?,
            });
        }
        let device = device();
        let launch = LaunchRecord {
            number: state.count(&kernel.symbol, &region),
            kernel: kernel.symbol.clone(),
            region,
            module,
            device: device.name,
            capability: device.capability,
            driver: device.driver,
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            cooperative: self.cooperative,
            programmatic: self.programmatic,
            dynamic_shared: self.dynamic_shared,
            parameters,
            allocations,
            variables,
        };
        state.add(&Line::Launch(Box::new(launch))).map_err(disk)
    }
}

/// The buffer with all parameters: CU_LAUNCH_PARAM_BUFFER_POINTER.
fn find_buffer(extra: *mut *mut c_void) -> Option<*const u8> {
    if extra.is_null() {
        return None;
    }
    // Pairs of a name and a value, and a NULL.
    for pair in 0..4 {
        // SAFETY: the driver reads the same pairs up to the NULL.
        let name = unsafe { extra.add(2 * pair).read() };
        match name.addr() {
            0 => return None,
            // SAFETY: a value follows each name.
            1 => return Some(unsafe { extra.add(2 * pair + 1).read() }.cast()),
            _ => {}
        }
    }
    None
}

/// Whether launches into a stream are recorded into a graph, and run later.
pub fn is_recorded(stream: Handle) -> bool {
    let mut status = 0;
    // SAFETY: the driver writes one number.
    let code = unsafe { driver().is_capturing(stream, &raw mut status) };
    // The default stream says so with an error while another one is recorded.
    code != SUCCESS || status != 0
}

/// A stream by the name that the driver has for it in functions without `_ptsz`.
pub fn name_stream(stream: Handle, per_thread: bool) -> Handle {
    match per_thread && stream.is_null() {
        true => std::ptr::without_provenance_mut(PER_THREAD),
        false => stream,
    }
}

/// `run` runs exactly once, also where our own part fails: `work` may or may not have called it by then.
pub fn run_once(
    run: &dyn Fn() -> CuResult,
    work: impl FnOnce(&dyn Fn() -> CuResult) -> CuResult,
) -> CuResult {
    let ran = Cell::new(None);
    let once = || {
        let code = run();
        ran.set(Some(code));
        code
    };
    let done = quietly(|| Some(work(&once)));
    done.or(ran.get()).unwrap_or_else(run)
}

/// The state right before a launch.
struct Before {
    parameters: Vec<(usize, Vec<u8>)>,
    memory: BTreeMap<Address, Vec<u8>>,
    variables: Vec<(String, Vec<u8>)>,
}

/// Variables of a module may not be larger, in bytes.
const LARGEST_VARIABLE: u64 = 64 << 20;

/// Name and content of each variable of the kernel's module that is not as loading made it.
fn read_variables(kernel: &Kernel) -> Result<Vec<(String, Vec<u8>)>, Reason> {
    let module = kernel.module.as_ref().ok_or(Reason::UnknownModule)?;
    let damaged = |error: binary::Error| Reason::DamagedModule {
        problem: error.to_string(),
    };
    let [major, minor] = device().capability;
    let runs = |arch: model::Arch| arch.runs_on(major, minor);
    let code = binary::find_code(module, &kernel.symbol, runs).map_err(damaged)?;
    let Some(code) = code else {
        // PTX that the driver compiled.
        return Err(Reason::NoCode);
    };
    let mut variables = Vec::new();
    if binary::has_textures(&code.bytes, &kernel.symbol).map_err(damaged)? {
        return Err(Reason::Textures);
    }
    for variable in binary::read_variables(&code.bytes, LARGEST_VARIABLE).map_err(damaged)? {
        let Ok(name) = CString::new(variable.name.clone()) else {
            continue;
        };
        let (mut address, mut bytes) = (0, 0);
        let (at, of) = (&raw mut address, &raw mut bytes);
        let owner = std::ptr::without_provenance_mut(kernel.owner);
        // SAFETY: the handle that the program asked the kernel of, and two numbers that the driver writes.
        let code = unsafe {
            match kernel.is_of_library {
                true => driver().library_get_global(at, of, owner, name.as_ptr()),
                false => driver().module_get_global(at, of, owner, name.as_ptr()),
            }
        };
        // One that the driver does not know by name has not been written by name either.
        if code != SUCCESS {
            continue;
        }
        let content = read(address, bytes as u64)?;
        if content != variable.initial {
            variables.push((variable.name, content));
        }
    }
    Ok(variables)
}

/// Whatever may be a pointer.
fn words(bytes: &[u8]) -> impl Iterator<Item = Address> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| Address::from_le_bytes(*word))
}

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED, _DEVICE_ORDINAL, _MEMPOOL_HANDLE.
const MEMORY_TYPE: i32 = 2;
const IS_MANAGED: i32 = 8;
const ORDINAL: i32 = 9;
const POOL: i32 = 17;
/// CU_MEMORYTYPE_HOST.
const HOST: u64 = 1;

/// The kind of memory there that capture did not place; `None` where the driver knows none.
fn find_other_memory(address: Address, current: Option<c_int>) -> Option<MemoryKind> {
    // Smaller numbers are sizes and strides: asking costs a call.
    if address < 1 << 32 || address >> 57 != 0 {
        return None;
    }
    let ask = |attribute| {
        let mut value = 0_u64;
        // SAFETY: the driver writes at most eight bytes, and knows for any address whether it is one of its own.
        let code =
            unsafe { driver().pointer_attribute((&raw mut value).cast(), attribute, address) };
        (code == SUCCESS).then_some(value)
    };
    let memory_type = ask(MEMORY_TYPE)?;
    let ordinal = ask(ORDINAL).and_then(|it| c_int::try_from(it).ok());
    Some(match memory_type {
        _ if ask(IS_MANAGED).is_some_and(|it| it != 0) => MemoryKind::Managed,
        HOST => MemoryKind::Host,
        _ if ordinal != current => MemoryKind::Peer,
        _ if ask(POOL).is_some_and(|it| it != 0) => MemoryKind::Pool,
        _ => MemoryKind::Unknown,
    })
}

fn read(address: Address, bytes: u64) -> Result<Vec<u8>, Reason> {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut content = Vec::new();
    // A program that has filled the host's memory must not end here.
    let room = content.try_reserve_exact(length);
    room.map_err(|_| Reason::NoHostMemory { bytes })?;
    content.resize(length, 0);
    // SAFETY: an allocation with as many bytes.
    match unsafe { driver().read(content.as_mut_ptr().cast(), address, length) } {
        SUCCESS => Ok(content),
        code => Err(refused("cuMemcpyDtoH", code)),
    }
}

/// Another stream may be recorded into a graph meanwhile, which a wait of this thread would end.
fn synchronize() -> Result<(), Reason> {
    // CU_STREAM_CAPTURE_MODE_RELAXED.
    let mut mode = 2;
    // SAFETY: the driver exchanges one number, and waits.
    let code = unsafe {
        driver().exchange_capture_mode(&raw mut mode);
        let code = driver().synchronize();
        driver().exchange_capture_mode(&raw mut mode);
        code
    };
    match code {
        SUCCESS => Ok(()),
        code => Err(refused("cuCtxSynchronize", code)),
    }
}

pub fn refused(call: &str, code: CuResult) -> Reason {
    let call = call.to_owned();
    match code {
        NOT_FOUND => Reason::OldDriver { call },
        code => Reason::Driver { call, code },
    }
}

fn disk(error: std::io::Error) -> Reason {
    Reason::Disk {
        error: error.to_string(),
    }
}
