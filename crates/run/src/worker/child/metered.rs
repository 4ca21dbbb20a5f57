//! A device with a clock around it: how long a job was inside the driver, which is what a run cannot save.

use crate::device::{Address, Call, Device, MapBytes, Program, Result, Targets, Timer};
use build::Artifact;
use model::{DriverFacts, Image, Sampler, TensorMap};
use std::time::{Duration, Instant};

pub struct Metered<'a> {
    device: &'a mut dyn Device,
    spent: Duration,
}

impl<'a> Metered<'a> {
    pub fn new(device: &'a mut dyn Device) -> Self {
        Self {
            device,
            spent: Duration::ZERO,
        }
    }

    /// Wall time of all calls so far: loading, copies, launches, and waiting for them.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// All of `work` counts.
    pub fn whole<T>(&mut self, work: impl FnOnce(&mut dyn Device) -> T) -> T {
        let began = Instant::now();
        let done = work(self.device);
        self.spent += began.elapsed();
        done
    }
}

impl Device for Metered<'_> {
    fn stream(&self) -> u64 {
        self.device.stream()
    }
    fn load(&mut self, artifact: &Artifact) -> Result<Program> {
        self.whole(|device| device.load(artifact))
    }
    fn variable(
        &mut self,
        program: Program,
        module: usize,
        symbol: &str,
    ) -> Result<(Address, usize)> {
        self.whole(|device| device.variable(program, module, symbol))
    }
    fn variables(&mut self, program: Program) -> Result<Vec<(String, Address, usize)>> {
        self.whole(|device| device.variables(program))
    }
    fn alloc(&mut self, name: &str, bytes: usize) -> Result<Address> {
        self.whole(|device| device.alloc(name, bytes))
    }
    fn place(&mut self, name: &str, at: Address, bytes: usize) -> Result<()> {
        self.whole(|device| device.place(name, at, bytes))
    }
    fn guard(&self) -> usize {
        self.device.guard()
    }
    fn bind(&mut self, at: Address, image: &Image, sampler: Option<&Sampler>) -> Result<u64> {
        self.whole(|device| device.bind(at, image, sampler))
    }
    fn tensor_map(&mut self, at: Address, map: &TensorMap) -> Result<MapBytes> {
        self.whole(|device| device.tensor_map(at, map))
    }
    fn reset(&mut self) -> Result<()> {
        self.whole(|device| device.reset())
    }
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<()> {
        self.whole(|device| device.write(to, bytes))
    }
    fn fill(&mut self, to: Address, pattern: &[u8], count: usize) -> Result<()> {
        self.whole(|device| device.fill(to, pattern, count))
    }
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<()> {
        self.whole(|device| device.read(from, bytes))
    }
    fn launch(&mut self, call: &Call) -> Result<()> {
        self.whole(|device| device.launch(call))
    }
    fn sync(&mut self) -> Result<()> {
        self.whole(|device| device.sync())
    }
    fn describe(&mut self, call: &Call) -> Result<DriverFacts> {
        self.whole(|device| device.describe(call))
    }
    /// The timer's later work is not seen here: see `whole`.
    fn timer<'a>(&'a mut self, targets: Targets<'a>) -> Option<Result<Box<dyn Timer + 'a>>> {
        self.device.timer(targets)
    }
}
