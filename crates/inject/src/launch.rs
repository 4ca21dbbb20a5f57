//! Captures a launch: reads the memory that it can reach before the launch, and again after it.

use crate::call::{Launch, is_recorded, refused};
use crate::driver::{Address, CuResult, Handle, SUCCESS, driver};
use crate::maps::MAP_BYTES;
use crate::memory::current_device;
use crate::quiet::{quietly, run_once};
use crate::random::{count_nonzero, replace_floats};
use crate::settled::{count, generation, settle, unsettle};
use crate::state::{ProgramKernel, State, device, state};
use capture::{
    Allocation, LaunchRecord, Line, MemoryKind, Parameter, RandomInputs, Reason, Variable,
    addresses::ordinal_of,
};
use std::collections::BTreeMap;
use std::ffi::{CString, c_int};

impl Launch {
    /// Captures the launch if it is chosen. `run` is the driver's launch. It runs exactly once, whether or not the
    /// launch is captured.
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
        let counter = state.counter_of(&[self.kernel]);
        count(counter);
        let Some((kernel, region)) = state.choose(self.kernel) else {
            let is_recording = state.memory.is_recording();
            drop(state);
            // A launch that is recorded does not run yet, and a settled handle would count it.
            if !is_recording {
                settle(self.kernel, generation, counter);
            }
            return run();
        };
        if state.memory.is_recording() || is_recorded(stream) {
            state.name_left_out(&kernel.symbol, Reason::Recording);
            drop(state);
            return run();
        }
        self.record(&mut state, (&kernel, region), run)
    }

    /// Writes down a launch that was chosen. `run` runs exactly once, even if our own part fails, and once more before
    /// that if the inputs are to be random.
    pub fn record(
        &self,
        state: &mut State,
        (kernel, region): (&ProgramKernel, Option<String>),
        run: &dyn Fn() -> CuResult,
    ) -> CuResult {
        if state.request.random_inputs {
            quietly(|| {
                if let Err(reason) = self.record_with_random_inputs(state, (kernel, region), run) {
                    state.leave_out(&kernel.symbol, reason);
                }
                Some(())
            });
            return run();
        }
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

    /// Records a launch of our own on memory whose floats are replaced by random values. Afterwards the program's
    /// memory is restored.
    fn record_with_random_inputs(
        &self,
        state: &mut State,
        (kernel, region): (&ProgramKernel, Option<String>),
        run: &dyn Fn() -> CuResult,
    ) -> Result<(), Reason> {
        // Other threads must not launch on these values: they wait for the state, unless a handle is settled.
        unsettle();
        let mut before = self.before(state, kernel)?;
        let mut own = Own::default();
        let mut account = RandomInputs::default();
        for (address, content) in &mut before.memory {
            let kept = own.keep(*address, content)?;
            let replaced = replace_floats(*address, content, &|word| {
                state.memory.around(word).is_some()
            });
            for map in state.maps.find(kept) {
                let place = map.offset as usize..map.offset as usize + MAP_BYTES;
                if let (Some(now), Some(before)) = (content.get_mut(place.clone()), kept.get(place))
                {
                    now.copy_from_slice(before);
                }
            }
            account.replaced += replaced.replaced;
            account.kept += replaced.kept;
        }
        for variable in &before.variables {
            own.keep(variable.address, &variable.content)?;
            if variable.is_set {
                account.kept += count_nonzero(&variable.content);
            }
        }
        before.random = Some(account);
        for (address, content) in &before.memory {
            write(*address, content)?;
        }
        match run() {
            SUCCESS => {}
            code => return Err(Reason::RandomInputs { code }),
        }
        synchronize().map_err(|reason| match reason {
            Reason::Driver { code, .. } => Reason::RandomInputs { code },
            other => other,
        })?;
        self.after(state, (kernel, region), before)
    }

    /// Returns the parameters, and the memory that they lead to.
    fn before(&self, state: &State, kernel: &ProgramKernel) -> Result<Before, Reason> {
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
        for variable in variables.iter().filter(|variable| variable.is_set) {
            waiting.extend(
                words(&variable.content).filter(|word| state.memory.around(*word).is_some()),
            );
        }
        // Pointers in memory are followed, too: tables of pointers, and structs.
        while let Some(word) = waiting.pop() {
            let Some((start, bytes)) = state.memory.around(word) else {
                continue;
            };
            if memory.contains_key(&start) {
                continue;
            }
            if ordinal_of(start).and_then(|ordinal| c_int::try_from(ordinal).ok()) != current {
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
            random: None,
        })
    }

    /// Reads the memory after the launch, and stores what was before and what is now.
    fn after(
        &self,
        state: &mut State,
        (kernel, region): (&ProgramKernel, Option<String>),
        before: Before,
    ) -> Result<(), Reason> {
        synchronize()?;
        let module = kernel.module.as_ref().ok_or(Reason::UnknownModule)?;
        let module = state.store_module(module).map_err(disk)?;
        let mut allocations = Vec::new();
        for (address, content) in before.memory {
            let now = read(address, content.len() as u64)?;
            let (after, maps_after) = if now == content {
                (None, Vec::new())
            } else {
                let after = state.contents.put(&now).map_err(disk)?;
                (Some(after), state.maps.find(&now))
            };
            allocations.push(Allocation {
                address,
                before: state.contents.put(&content).map_err(disk)?,
                after,
                maps: state.maps.find(&content),
                maps_after,
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
        for variable in before
            .variables
            .into_iter()
            .filter(|variable| variable.is_set)
        {
            variables.push(Variable {
                name: variable.name,
                before: state.contents.put(&variable.content).map_err(disk)?,
                maps: state.maps.find(&variable.content),
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
            random: before.random,
        };
        state.add(&Line::Launch(Box::new(launch))).map_err(disk)
    }
}

/// The state right before a launch.
struct Before {
    parameters: Vec<(usize, Vec<u8>)>,
    memory: BTreeMap<Address, Vec<u8>>,
    variables: Vec<ReadVariable>,
    /// The account of replaced floats, if the floats in the memory are not the program's.
    random: Option<RandomInputs>,
}

/// The program's own memory, which it gets back when this is dropped.
#[derive(Default)]
struct Own(Vec<(Address, Vec<u8>)>);

impl Own {
    fn keep(&mut self, address: Address, content: &[u8]) -> Result<&[u8], Reason> {
        let mut kept = allocate(content.len())?;
        kept.extend_from_slice(content);
        self.0.push((address, kept));
        Ok(self.0.last().map_or(&[], |(_, kept)| kept))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // After a fault nothing can be written, and the program cannot continue either.
        let _ = synchronize();
        for (address, content) in &self.0 {
            let _ = write(*address, content);
        }
    }
}

/// The largest variable of a module that is read, in bytes.
const LARGEST_VARIABLE: u64 = 64 << 20;

/// A variable of a kernel's module.
struct ReadVariable {
    name: String,
    address: Address,
    content: Vec<u8>,
    /// True if its content differs from what loading makes of it.
    is_set: bool,
}

fn read_variables(kernel: &ProgramKernel) -> Result<Vec<ReadVariable>, Reason> {
    let module = kernel.module.as_ref().ok_or(Reason::UnknownModule)?;
    let damaged = |error: binary::Error| Reason::DamagedModule {
        problem: error.to_string(),
    };
    let [major, minor] = device().capability;
    let runs = |arch: model::Arch| arch.runs_on(major, minor);
    let code = binary::find_code(module, &kernel.symbol, runs).map_err(damaged)?;
    let Some(code) = code else {
        // The module is PTX that the driver compiled.
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
            if kernel.is_of_library {
                driver().library_get_global(at, of, owner, name.as_ptr())
            } else {
                driver().module_get_global(at, of, owner, name.as_ptr())
            }
        };
        // A variable that the driver does not know by name cannot have been written by name either.
        if code != SUCCESS {
            continue;
        }
        let content = read(address, bytes as u64)?;
        variables.push(ReadVariable {
            name: variable.name,
            address,
            is_set: content != variable.initial,
            content,
        });
    }
    Ok(variables)
}

/// Returns all words that may be pointers.
fn words(bytes: &[u8]) -> impl Iterator<Item = Address> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| Address::from_le_bytes(*word))
}

/// Values of CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED, _DEVICE_ORDINAL and _MEMPOOL_HANDLE in cuda.h.
const MEMORY_TYPE: i32 = 2;
const IS_MANAGED: i32 = 8;
const ORDINAL: i32 = 9;
const POOL: i32 = 17;
/// The value of CU_MEMORYTYPE_HOST in cuda.h.
const HOST: u64 = 1;

/// Returns the kind of memory at an address that capture did not place, or `None` if the driver knows no memory there.
fn find_other_memory(address: Address, current: Option<c_int>) -> Option<MemoryKind> {
    // Smaller numbers are sizes and strides, and asking the driver about them would cost a call.
    if address < 1 << 32 || address >> 57 != 0 {
        return None;
    }
    let ask = |attribute| {
        let mut value = 0_u64;
        // SAFETY: the driver writes at most eight bytes, and accepts any address, whether or not it is one of its own.
        let code =
            unsafe { driver().pointer_attribute((&raw mut value).cast(), attribute, address) };
        (code == SUCCESS).then_some(value)
    };
    let memory_type = ask(MEMORY_TYPE)?;
    let ordinal = ask(ORDINAL).and_then(|value| c_int::try_from(value).ok());
    Some(match memory_type {
        _ if ask(IS_MANAGED).is_some_and(|flag| flag != 0) => MemoryKind::Managed,
        HOST => MemoryKind::Host,
        _ if ordinal != current => MemoryKind::Peer,
        _ if ask(POOL).is_some_and(|flag| flag != 0) => MemoryKind::Pool,
        _ => MemoryKind::Unknown,
    })
}

fn read(address: Address, bytes: u64) -> Result<Vec<u8>, Reason> {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut content = allocate(length)?;
    content.resize(length, 0);
    // SAFETY: an allocation with as many bytes.
    match unsafe { driver().read(content.as_mut_ptr().cast(), address, length) } {
        SUCCESS => Ok(content),
        code => Err(refused("cuMemcpyDtoH", code)),
    }
}

fn write(address: Address, content: &[u8]) -> Result<(), Reason> {
    // SAFETY: an allocation or a variable with as many bytes.
    match unsafe { driver().write(address, content.as_ptr().cast(), content.len()) } {
        SUCCESS => Ok(()),
        code => Err(refused("cuMemcpyHtoD", code)),
    }
}

/// Allocates host memory, or returns a reason. A program that has filled the host's memory must not end here.
fn allocate(bytes: usize) -> Result<Vec<u8>, Reason> {
    let mut content = Vec::new();
    let room = content.try_reserve_exact(bytes);
    let bytes = bytes as u64;
    room.map_err(|_| Reason::NoHostMemory { bytes })?;
    Ok(content)
}

/// Waits for the GPU. Another stream may be recorded into a graph at this time, and a plain wait of this thread would
/// end the recording.
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

fn disk(error: std::io::Error) -> Reason {
    Reason::Disk {
        error: error.to_string(),
    }
}
