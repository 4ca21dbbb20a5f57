//! Memory in both simulators: whatever the host does to one it does to the other.

pub use ptxsim::memory::MemoryError;

use crate::difference::Compared;
use crate::{Turn, old_turn};
use ptxsim::image::{Bound, Filter, Format, Geometry, Image, Layout, Outside, Sampler};
use ptxsim_oracle::image as old;
use std::collections::BTreeMap;
use std::ops::Range;

/// As [`ptxsim::Memory`], twice.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) new: ptxsim::Memory,
    pub(crate) old: ptxsim_oracle::Memory,
    /// Sizes of what the host allocated, by address.
    buffers: BTreeMap<u64, usize>,
}

/// As [`ptxsim::memory::Variables`], twice.
#[derive(Clone, Debug)]
pub struct Variables(ptxsim::memory::Variables, ptxsim_oracle::memory::Variables);

/// Returns what the new one said, if the old one said the same: the host's part is no subject of a comparison, and a
/// difference in it would spoil all that follows.
fn agreed<T: std::fmt::Debug, U: std::fmt::Debug>(new: T, old: U) -> T {
    let mut compared = Compared::default();
    compared.same("memory", &new, &old);
    crate::tell::of_module("memory of the host", compared);
    new
}

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            new: ptxsim::Memory::new(limit),
            old: ptxsim_oracle::Memory::new(limit),
            buffers: BTreeMap::new(),
        }
    }

    pub fn elsewhere(limit: u64, place: u64, moved: Option<Turn>) -> Memory {
        Memory {
            new: ptxsim::Memory::elsewhere(limit, place, moved),
            old: ptxsim_oracle::Memory::elsewhere(limit, place, moved.map(old_turn)),
            buffers: BTreeMap::new(),
        }
    }

    pub fn forget(&mut self, address: u64, bytes: usize) -> Result<(), MemoryError> {
        agreed(
            self.new.forget(address, bytes),
            self.old.forget(address, bytes),
        )
    }

    pub fn heap_blocks(&self) -> impl Iterator<Item = (&str, u64, usize)> {
        self.new.heap_blocks()
    }

    pub fn alloc(&mut self, name: &str, bytes: u64) -> Result<u64, MemoryError> {
        let at = agreed(self.new.alloc(name, bytes), self.old.alloc(name, bytes))?;
        self.buffers.insert(at, bytes as usize);
        Ok(at)
    }

    pub fn place(&mut self, name: &str, base: u64, bytes: u64) -> Result<(), MemoryError> {
        agreed(
            self.new.place(name, base, bytes),
            self.old.place(name, base, bytes),
        )?;
        self.buffers.insert(base, bytes as usize);
        Ok(())
    }

    pub fn bind(&mut self, image: Image, bound: Bound) -> Result<u64, MemoryError> {
        let before = self.old.bind(old_image(image), old_bound(bound));
        agreed(self.new.bind(image, bound), before)
    }

    pub fn skip(&mut self, bytes: u64) {
        self.new.skip(bytes);
        self.old.skip(bytes);
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        agreed(
            self.new.write(address, bytes),
            self.old.write(address, bytes),
        )
    }

    pub fn read(&self, address: u64, bytes: usize) -> Result<&[u8], MemoryError> {
        self.new.read(address, bytes)
    }

    pub fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), MemoryError> {
        agreed(
            self.new.copy(from, to, bytes),
            self.old.copy(from, to, bytes),
        )
    }

    pub fn without_value(
        &self,
        address: u64,
        bytes: usize,
    ) -> Result<Vec<Range<usize>>, MemoryError> {
        self.new.without_value(address, bytes)
    }

    pub fn take_variables(&mut self) -> Variables {
        Variables(self.new.take_variables(), self.old.take_variables())
    }

    pub fn put_variables(&mut self, variables: Variables) {
        self.new.put_variables(variables.0);
        self.old.put_variables(variables.1);
    }

    pub fn near(&self, address: u64) -> String {
        self.new.near(address)
    }

    /// Compares all that a launch can have left: buffers, variables of its module, and blocks of the heap.
    pub(crate) fn compare(&self, module: &ptxsim::Module, compared: &mut Compared) {
        let heap: Vec<_> = self.new.heap_blocks().collect();
        let before: Vec<_> = self.old.heap_blocks().collect();
        compared.same("heap", &heap, &before);
        let buffers = self.buffers.iter().map(|(at, bytes)| (*at, *bytes));
        let heap = heap.iter().map(|(_, at, bytes)| (*at, *bytes));
        let variables = module.written_variables().map(|(_, at, bytes)| (at, bytes));
        for (at, bytes) in buffers.chain(heap).chain(variables) {
            let (new, old) = (self.new.read(at, bytes), self.old.read(at, bytes));
            match (&new, &old) {
                (Ok(new), Ok(old)) if new != old => {
                    let first = new.iter().zip(*old).position(|(a, b)| a != b).unwrap_or(0);
                    let name = format!("memory.{at:#x}+{first}");
                    compared.same(&name, &new.get(first), &old.get(first));
                }
                (Ok(_), Ok(_)) => {}
                _ => compared.same("memory", &new, &old),
            }
            compared.same(
                "memory without a value",
                &self.new.without_value(at, bytes),
                &self.old.without_value(at, bytes),
            );
        }
    }
}

fn old_image(image: Image) -> old::Image {
    let Image {
        address,
        format,
        channels,
        geometry: Geometry { rank, layered },
        extents,
        layers,
        layout,
    } = image;
    old::Image {
        address,
        format: match format {
            Format::U8 => old::Format::U8,
            Format::I8 => old::Format::I8,
            Format::U16 => old::Format::U16,
            Format::I16 => old::Format::I16,
            Format::U32 => old::Format::U32,
            Format::I32 => old::Format::I32,
            Format::F16 => old::Format::F16,
            Format::F32 => old::Format::F32,
        },
        channels,
        geometry: old::Geometry { rank, layered },
        extents,
        layers,
        layout: match layout {
            Layout::Array => old::Layout::Array,
            Layout::Linear => old::Layout::Linear,
        },
    }
}

fn old_bound(bound: Bound) -> old::Bound {
    match bound {
        Bound::Surface => old::Bound::Surface,
        Bound::Texture(Sampler {
            filter,
            outside,
            normalized,
            as_float,
        }) => old::Bound::Texture(old::Sampler {
            filter: match filter {
                Filter::Point => old::Filter::Point,
                Filter::Linear => old::Filter::Linear,
            },
            outside: match outside {
                Outside::Clamp => old::Outside::Clamp,
                Outside::Border => old::Outside::Border,
                Outside::Wrap => old::Outside::Wrap,
                Outside::Mirror => old::Outside::Mirror,
            },
            normalized,
            as_float,
        }),
    }
}
