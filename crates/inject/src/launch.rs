//! A launch that is captured: the memory that it can reach is read before it, and again after it.

use crate::driver::{
    Address, CuResult, Handle, LaunchAttribute, LaunchConfig, NOT_FOUND, PER_THREAD, SUCCESS,
    driver,
};
use crate::state::{Kernel, State, device, state};
use capture::{Allocation, LaunchRecord, Line, Parameter, Reason, Variable};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

/// A launch as the program asks for it, by whichever of the driver's functions.
pub struct Launch {
    pub kernel: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub stream: Handle,
    pub cooperative: bool,
    pub cluster: Option<[u32; 3]>,
    pub programmatic: bool,
    /// The driver's own two ways to give parameters.
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

impl Launch {
    /// # Safety
    /// A config that the driver could take.
    pub unsafe fn of_config(
        config: *const LaunchConfig,
        kernel: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Option<Self> {
        // SAFETY: null, or as the caller says.
        let config = unsafe { config.as_ref() }?;
        let mut launch = Self {
            kernel,
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.dynamic_shared,
            stream: config.stream,
            cooperative: false,
            cluster: None,
            programmatic: false,
            parameters,
            extra,
        };
        if !config.attributes.is_null() {
            let count = usize::try_from(config.attribute_count).unwrap_or(0);
            // SAFETY: as the caller says.
            let attributes = unsafe { std::slice::from_raw_parts(config.attributes, count) };
            attributes.iter().for_each(|it| launch.add(it));
        }
        Some(launch)
    }

    /// CUlaunchAttributeID.
    fn add(&mut self, attribute: &LaunchAttribute) {
        let [x, y, z, ..] = attribute.value;
        match attribute.id {
            2 => self.cooperative = x != 0,
            4 => self.cluster = Some([x, y, z]),
            6 => self.programmatic = x != 0,
            // Priorities, events and hints: none changes a result.
            _ => {}
        }
    }

    /// `run` is the driver's launch. It runs exactly once, captured or not.
    pub fn capture(&self, per_thread: bool, run: impl Fn() -> CuResult) -> CuResult {
        let Some(mut state) = state() else {
            return run();
        };
        let Some((kernel, region)) = state.choose(self.kernel) else {
            drop(state);
            return run();
        };
        match self.before(&state, &kernel, per_thread) {
            Ok(before) => {
                let code = run();
                if code == SUCCESS
                    && let Err(reason) = self.after(&mut state, (&kernel, region), before)
                {
                    state.leave_out(&kernel.symbol, reason);
                }
                code
            }
            Err(reason) => {
                state.leave_out(&kernel.symbol, reason);
                run()
            }
        }
    }

    /// The parameters, and the memory that they lead to.
    fn before(&self, state: &State, kernel: &Kernel, per_thread: bool) -> Result<Before, Reason> {
        if self.is_recorded(per_thread)? {
            return Err(Reason::Graph);
        }
        if kernel.module.is_none() {
            return Err(Reason::UnknownModule);
        }
        if state.memory.is_taken() {
            return Err(Reason::AddressesTaken);
        }
        synchronize()?;
        let parameters = self.parameters(kernel)?;
        let mut memory = BTreeMap::new();
        let mut total = 0;
        let mut waiting: Vec<Address> = Vec::new();
        for (_, bytes) in &parameters {
            for word in words(bytes) {
                match state.memory.around(word) {
                    Some(_) => waiting.push(word),
                    None if is_device_memory(word) => return Err(Reason::OtherMemory),
                    None => {}
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

    fn is_recorded(&self, per_thread: bool) -> Result<bool, Reason> {
        let stream = match per_thread && self.stream.is_null() {
            true => std::ptr::without_provenance_mut(PER_THREAD),
            false => self.stream,
        };
        let mut status = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { driver().is_capturing(stream, &raw mut status) };
        // The default stream says so with an error while another one is recorded.
        Ok(code != SUCCESS || status != 0)
    }

    /// Offset and bytes of each.
    fn parameters(&self, kernel: &Kernel) -> Result<Vec<(usize, Vec<u8>)>, Reason> {
        let mut parameters = Vec::new();
        for index in 0.. {
            let (mut offset, mut bytes) = (0, 0);
            let (at, of) = (&raw mut offset, &raw mut bytes);
            // SAFETY: a kernel of the program, and two numbers that the driver writes.
            let code = unsafe {
                match kernel.is_kernel {
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
            let value = match (self.parameters.is_null(), self.buffer()) {
                // SAFETY: the driver reads the same pointer.
                (false, _) => unsafe { self.parameters.add(index).read() }
                    .cast::<u8>()
                    .cast_const(),
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

    /// The buffer with all parameters: CU_LAUNCH_PARAM_BUFFER_POINTER.
    fn buffer(&self) -> Option<*const u8> {
        if self.extra.is_null() {
            return None;
        }
        // Pairs of a name and a value, and a NULL.
        for pair in 0..4 {
            // SAFETY: the driver reads the same pairs up to the NULL.
            let name = unsafe { self.extra.add(2 * pair).read() };
            match name.addr() {
                0 => return None,
                // SAFETY: a value follows each name.
                1 => return Some(unsafe { self.extra.add(2 * pair + 1).read() }.cast()),
                _ => {}
            }
        }
        None
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

/// Whether the driver knows an allocation there that capture did not place.
fn is_device_memory(address: Address) -> bool {
    // Smaller numbers are sizes and strides: asking costs a call.
    if address < 1 << 32 || address >> 57 != 0 {
        return false;
    }
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: the driver writes two numbers, and knows for any address whether it is one of its own.
    let code = unsafe { driver().address_range(&raw mut base, &raw mut bytes, address) };
    code == SUCCESS
}

fn read(address: Address, bytes: u64) -> Result<Vec<u8>, Reason> {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut content = vec![0; length];
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

fn refused(call: &str, code: CuResult) -> Reason {
    Reason::Driver {
        call: call.to_owned(),
        code,
    }
}

fn disk(error: std::io::Error) -> Reason {
    Reason::Disk {
        error: error.to_string(),
    }
}
