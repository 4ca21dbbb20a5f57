//! Runs kernels on an NVIDIA GPU through its driver. Only a worker may open a GPU, because a fault poisons the whole
//! process.
//!
//! The primary context is used, so that the CUDA runtime inside a launcher's library shares it. Unsafe calls rely on
//! two facts: every handle comes from the driver, and all of this runs on one thread.

mod error;
mod graph;
mod images;
mod maps;
mod open;
mod placed;
mod program;
mod timer;
mod tools;

use super::nvml::Monitor;
use super::{
    Address, Device, DeviceCall, Failure, LoadedProgram, MapBytes, Result, Targets, Timer, redzone,
};
use build::Artifact;
use cudarc::driver::sys;
use error::check;
use images::Images;
use model::Unsupported;
use model::{DeviceFacts, DriverFacts, FaultKind, Image, Sampler, TensorMap};
use placed::PlacedPages;
use program::LoadedArtifact;
use timer::Overheads;
use tools::Tools;

pub use open::{Opened, open};

pub struct CudaDevice {
    facts: DeviceFacts,
    /// The number of devices in the machine, as far as CUDA shows them to this process.
    devices: u32,
    stream: sys::CUstream,
    allocations: Vec<Address>,
    placed: PlacedPages,
    programs: Vec<LoadedArtifact>,
    images: Images,
    /// Our own kernels, which are compiled when they are first needed.
    tools: Option<Tools>,
    monitor: Option<Monitor>,
    overheads: Overheads,
}

impl CudaDevice {
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Returns the number of CUDA devices, including this one.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    fn loaded(&self, program: LoadedProgram) -> Result<&LoadedArtifact> {
        self.programs.get(program.0).ok_or_else(|| {
            Failure::case_alone(
                FaultKind::EntryNotFound,
                "the program is not loaded any more",
            )
        })
    }

    /// Launches a kernel of gatekeeper's own and compares what it wrote, to see whether the device still works.
    pub fn known_good(&mut self) -> Result<()> {
        let bad = |message: String| Failure::case_alone(FaultKind::Environment, message);
        let at = self.alloc("known good", tools::KNOWN_GOOD_BYTES)?;
        let mut bytes = vec![0; tools::KNOWN_GOOD_BYTES];
        self.write(at, &bytes)?;
        self.tools()?.known_good(self.stream, at)?;
        self.read(at, &mut bytes)?;
        self.reset()?;
        let right = bytes
            .chunks_exact(4)
            .zip(0u32..)
            .all(|(got, i)| got == tools::known_good(i).to_ne_bytes());
        right
            .then_some(())
            .ok_or_else(|| bad("a known-good kernel wrote wrong values".to_owned()))
    }

    fn tools(&mut self) -> Result<Tools> {
        match self.tools {
            Some(tools) => Ok(tools),
            None => {
                let tools = Tools::load()?;
                self.tools = Some(tools);
                Ok(tools)
            }
        }
    }
}

impl Device for CudaDevice {
    fn stream(&self) -> u64 {
        self.stream as u64
    }

    fn load(&mut self, artifact: &Artifact) -> Result<LoadedProgram> {
        let loaded = LoadedArtifact::load(artifact, &self.facts)?;
        self.programs.push(loaded);
        Ok(LoadedProgram(self.programs.len() - 1))
    }

    fn alloc(&mut self, _: &str, bytes: usize) -> Result<Address> {
        let mut address = 0;
        // SAFETY: the driver writes the address.
        match unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1)) } {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(Failure::Unsupported(Unsupported::OutOfMemory {
                    problem: format!(
                        "{bytes} bytes more were needed, and {} has {} in all",
                        self.facts.name, self.facts.memory_bytes
                    ),
                }))
            }
            code => {
                check("cuMemAlloc", code)?;
                self.allocations.push(address);
                Ok(address)
            }
        }
    }

    fn place(&mut self, _: &str, at: Address, bytes: usize) -> Result<()> {
        self.placed.add(self.facts.ordinal, at, bytes)
    }

    fn variable(
        &mut self,
        program: LoadedProgram,
        module: usize,
        symbol: &str,
    ) -> Result<(Address, usize)> {
        self.loaded(program)?.variable(module, symbol)
    }

    fn variables(&mut self, program: LoadedProgram) -> Result<Vec<(String, Address, usize)>> {
        self.loaded(program)?.variables()
    }

    fn bind(&mut self, at: Address, image: &Image, sampler: Option<&Sampler>) -> Result<u64> {
        self.images.bind(at, image, sampler, self.stream)
    }

    fn tensor_map(&mut self, at: Address, map: &TensorMap) -> Result<MapBytes> {
        maps::encode(at, map)
    }

    fn guard(&self) -> usize {
        redzone::BYTES
    }

    fn reset(&mut self) -> Result<()> {
        self.sync()?;
        self.images.free()?;
        for address in self.allocations.drain(..) {
            // SAFETY: allocated by `alloc`, freed once.
            check("cuMemFree", unsafe { sys::cuMemFree_v2(address) })?;
        }
        self.placed.free()?;
        self.programs.drain(..).try_for_each(LoadedArtifact::unload)
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<()> {
        // SAFETY: `bytes` outlives the call, which copies from pageable memory before it returns.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.stream)
        })
    }

    fn fill(&mut self, to: Address, pattern: &[u8], count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as for `write`; the driver takes the pattern by value.
        let (name, code) = unsafe {
            match *pattern {
                [byte] => (
                    "cuMemsetD8Async",
                    sys::cuMemsetD8Async(to, byte, count, self.stream),
                ),
                // The driver refuses an address that is not aligned to the pattern.
                [a, b] if to.is_multiple_of(2) => (
                    "cuMemsetD16Async",
                    sys::cuMemsetD16Async(to, u16::from_le_bytes([a, b]), count, self.stream),
                ),
                [a, b, c, d] if to.is_multiple_of(4) => (
                    "cuMemsetD32Async",
                    sys::cuMemsetD32Async(to, u32::from_le_bytes([a, b, c, d]), count, self.stream),
                ),
                _ => return self.write(to, &pattern.repeat(count)),
            }
        };
        check(name, code)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: `bytes` is writable for its length until the stream is idle, which `sync` waits for.
        check("cuMemcpyDtoHAsync", unsafe {
            sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from, bytes.len(), self.stream)
        })?;
        self.sync()
    }

    fn launch(&mut self, call: &DeviceCall) -> Result<()> {
        let loaded = self.loaded(call.program)?;
        loaded.allow(call)?;
        self.images.fill(&call.surfaces, self.stream)?;
        loaded.launch(call, self.stream)?;
        self.images.empty(&call.surfaces, self.stream)
    }

    fn sync(&mut self) -> Result<()> {
        // SAFETY: the stream is ours.
        check("while the kernel ran", unsafe {
            sys::cuStreamSynchronize(self.stream)
        })
    }

    fn describe(&mut self, call: &DeviceCall) -> Result<DriverFacts> {
        self.loaded(call.program)?.allow(call)?;
        program::describe(self.loaded(call.program)?, call, self.stream, &self.facts)
    }

    fn timer<'a>(&'a mut self, targets: Targets<'a>) -> Option<Result<Box<dyn Timer + 'a>>> {
        Some(timer::CudaTimer::new(self, targets).map(|timer| Box::new(timer) as Box<dyn Timer>))
    }
}
