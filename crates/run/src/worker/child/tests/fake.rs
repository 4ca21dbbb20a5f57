//! A device that is made of closures.

use super::N;
use crate::device::args::PackedArg;
use crate::device::{
    Address, Device, DeviceCall, Failure, LoadedProgram, MapBytes, Result, Targets, Timer, redzone,
};
use build::Artifact;
use model::{DriverFacts, Fault, FaultKind, Image, Sampler, TensorMap};
use std::collections::BTreeMap;

/// Memory, and what a launch does to it: `(memory, arguments, launch number)`.
type Kernel = fn(&mut Memory, &[u64], u32) -> Result<()>;

struct Memory(BTreeMap<Address, Vec<u8>>);

impl Memory {
    fn at(&mut self, address: Address, bytes: usize) -> &mut [u8] {
        let (base, block) = self
            .0
            .range_mut(..=address)
            .next_back()
            .expect("an address");
        let offset = (address - base) as usize;
        &mut block[offset..offset + bytes]
    }
    fn get(&mut self, array: Address, i: usize) -> f32 {
        f32::from_le_bytes(self.at(array + 4 * i as u64, 4).try_into().unwrap())
    }
    fn set(&mut self, array: Address, i: usize, value: f32) {
        self.at(array + 4 * i as u64, 4)
            .copy_from_slice(&value.to_le_bytes());
    }
}

/// The address of the variable of the first module.
pub const VARIABLES: Address = 0x80_0000;

pub struct Fake {
    memory: Memory,
    next: Address,
    launches: u32,
    /// The symbols of each program, one for each step.
    programs: Vec<Vec<String>>,
}

impl Fake {
    pub fn new() -> Self {
        Self {
            memory: Memory(BTreeMap::new()),
            next: 0x1000,
            launches: 0,
            programs: Vec::new(),
        }
    }
}

/// Returns the kernel with this symbol. Its arguments are x, y, and for `scaled` the scales of x.
fn kernel(symbol: &str) -> Kernel {
    fn each(memory: &mut Memory, args: &[u64], value: impl Fn(f32) -> f32) {
        for i in 0..N {
            let x = memory.get(args[0], i);
            memory.set(args[1], i, value(x));
        }
    }
    match symbol {
        "double" => |memory, args, _| {
            each(memory, args, |x| x * 2.0);
            Ok(())
        },
        "wrong" => |memory, args, _| {
            each(memory, args, |x| x * 2.0);
            memory.set(args[1], 3, 1000.0);
            Ok(())
        },
        "forgets" => |memory, args, launch| {
            let left = memory.at(args[1] + 8, 4).to_vec();
            kernel("double")(memory, args, launch)?;
            memory.at(args[1] + 8, 4).copy_from_slice(&left);
            Ok(())
        },
        "overruns" => |memory, args, launch| {
            kernel("double")(memory, args, launch)?;
            // Copies what is behind x to what is behind y. Only if the guards differ can this be seen.
            let behind = memory.at(args[0] + 4 * N as u64, 4).to_vec();
            memory
                .at(args[1] + 4 * N as u64, 4)
                .copy_from_slice(&behind);
            Ok(())
        },
        "underruns" => |memory, args, launch| {
            kernel("double")(memory, args, launch)?;
            memory.at(args[1] - 8, 4).fill(0);
            Ok(())
        },
        "clobbers" => |memory, args, launch| {
            kernel("double")(memory, args, launch)?;
            memory.set(args[0], 0, 0.5);
            Ok(())
        },
        "negates" => |memory, args, launch| {
            kernel("double")(memory, args, launch)?;
            for i in 0..N {
                let x = memory.get(args[0], i);
                memory.set(args[0], i, -x);
            }
            Ok(())
        },
        "clobbers_scales" => |memory, args, _| {
            each(memory, args, |_| 0.0);
            memory.set(args[2], 0, 0.5);
            Ok(())
        },
        "races" => |memory, args, launch| {
            kernel("double")(memory, args, launch)?;
            if launch == 5 {
                memory.set(args[1], 4, f32::NAN);
            }
            Ok(())
        },
        "in_place" => |memory, args, _| {
            for i in 0..N {
                let x = memory.get(args[1], i);
                memory.set(args[1], i, x * 2.0);
            }
            Ok(())
        },
        // Adds to the old value of its third argument, which is right only if that value is zero.
        "accumulates" => |memory, args, _| {
            for i in 0..N {
                let sum = memory.get(args[2], i) + memory.get(args[0], i);
                memory.set(args[2], i, sum);
                memory.set(args[1], i, 2.0 * sum);
            }
            Ok(())
        },
        "faults" => |_, _, _| {
            Err(Failure::Fault {
                fault: Fault::new(
                    FaultKind::DeviceFault,
                    "an illegal memory access was encountered",
                ),
                sticky: true,
            })
        },
        other => panic!("no kernel {other}"),
    }
}

const KERNELS: [&str; 12] = [
    "double",
    "negates",
    "wrong",
    "forgets",
    "overruns",
    "underruns",
    "clobbers",
    "clobbers_scales",
    "races",
    "in_place",
    "accumulates",
    "faults",
];

impl Device for Fake {
    fn stream(&self) -> u64 {
        0
    }
    fn load(&mut self, artifact: &Artifact) -> Result<LoadedProgram> {
        let symbols: Vec<String> = artifact
            .entries()
            .into_iter()
            .map(|(_, symbol)| symbol.clone())
            .collect();
        if let Some(unknown) = symbols
            .iter()
            .find(|symbol| !KERNELS.contains(&symbol.as_str()))
        {
            return Err(Failure::case_alone(
                FaultKind::EntryNotFound,
                unknown.as_str(),
            ));
        }
        self.programs.push(symbols);
        Ok(LoadedProgram(self.programs.len() - 1))
    }
    fn variable(&mut self, _: LoadedProgram, module: usize, _: &str) -> Result<(Address, usize)> {
        let address = VARIABLES + 0x1000 * module as u64;
        self.memory.0.entry(address).or_insert_with(|| vec![0; 4]);
        Ok((address, 4))
    }
    fn variables(&mut self, _: LoadedProgram) -> Result<Vec<(String, Address, usize)>> {
        Ok(Vec::new())
    }
    fn place(&mut self, _: &str, at: Address, bytes: usize) -> Result<()> {
        self.memory.0.entry(at).or_insert_with(|| vec![0xcc; bytes]);
        Ok(())
    }
    fn guard(&self) -> usize {
        redzone::BYTES
    }
    fn alloc(&mut self, _: &str, bytes: usize) -> Result<Address> {
        let address = self.next;
        self.memory.0.insert(address, vec![0xcc; bytes]);
        self.next += bytes.next_multiple_of(256) as u64 + 0x1000;
        Ok(address)
    }
    fn bind(&mut self, _: Address, image: &Image, _: Option<&Sampler>) -> Result<u64> {
        panic!("{image:?}")
    }
    fn tensor_map(&mut self, _: Address, map: &TensorMap) -> Result<MapBytes> {
        panic!("{map:?}")
    }
    fn reset(&mut self) -> Result<()> {
        self.memory.0.clear();
        Ok(())
    }
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<()> {
        self.memory.at(to, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }
    fn fill(&mut self, to: Address, pattern: &[u8], count: usize) -> Result<()> {
        self.write(to, &pattern.repeat(count))
    }
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(self.memory.at(from, bytes.len()));
        Ok(())
    }
    fn launch(&mut self, call: &DeviceCall) -> Result<()> {
        self.launches += 1;
        let symbols = &self.programs[call.program.0];
        assert_eq!(symbols.len(), call.steps.len());
        for (symbol, step) in symbols.iter().zip(&call.steps) {
            let args: Vec<u64> = step
                .args
                .iter()
                .map(PackedArg::bytes)
                .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
                .collect();
            kernel(symbol)(&mut self.memory, &args, self.launches)?;
        }
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn describe(&mut self, _: &DeviceCall) -> Result<DriverFacts> {
        Ok(DriverFacts { entries: vec![] })
    }
    fn timer<'a>(&'a mut self, _: Targets<'a>) -> Option<Result<Box<dyn Timer + 'a>>> {
        None
    }
}
