//! The built-in kernels, whose run time is set by a number of steps: how they are built and called, and how
//! many steps take how long. Pure.

use gatekeeper::doctor::builtin::{BLOCK, case, integer, pointer, tensor};
use model::{Arch, Callable, Case, DeviceFacts, Unit, UnitId};
use std::collections::BTreeMap;

pub const SOURCE: &str = include_str!("slowdown.cu");
pub const FILE: &str = "slowdown.cu";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    Compute,
    Memory,
}

/// The variant of a kernel's machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Plain,
    /// Other instructions for the same work.
    Other,
}

impl Code {
    pub const ALL: [Self; 2] = [Self::Plain, Self::Other];
}

impl Kernel {
    pub const ALL: [Self; 2] = [Self::Compute, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "copy",
        }
    }

    pub fn unit(self, code: Code, arch: Arch) -> Unit {
        Unit {
            id: UnitId::new(self.name().to_owned(), "default", arch),
            source: FILE.to_owned(),
            include_dirs: Vec::new(),
            defines: match code {
                Code::Plain => BTreeMap::new(),
                Code::Other => BTreeMap::from([("OTHER_CODE".to_owned(), "1".to_owned())]),
            },
            flags: vec!["-O3".to_owned()],
            call: Callable::Entries {
                names: vec![self.name().to_owned()],
                constants: Vec::new(),
            },
        }
    }

    /// Guesses the work that takes this long.
    pub fn guess(self, class_us: u32, device: &DeviceFacts) -> f64 {
        let us = f64::from(class_us);
        match self {
            // Each scheduler has eight warps and issues one of a loop's four instructions per cycle; a step
            // is for one of the eight.
            Self::Compute => us * 2000.0 / 32.0 * STEPS,
            // 30 GB/s for each multiprocessor, 32 bytes moved for each element.
            Self::Memory => us * 30e3 * f64::from(device.multiprocessors) / 32.0,
        }
    }

    /// Returns the number of steps that take about a tenth of this time.
    pub fn tenth(self, class_us: u32) -> f64 {
        let link_us = match self {
            Self::Compute => 32.0 / 2000.0,
            // Few warps of a scheduler are in their chain at once: the latency of one link counts.
            Self::Memory => 12.0 / 2000.0,
        };
        0.1 * f64::from(class_us) / link_us * STEPS
    }

    pub fn case(self, shape: &str, work: Work, device: &DeviceFacts) -> Case {
        let blocks = device.multiprocessors * 4;
        let threads = (blocks * BLOCK) as usize;
        let (tensors, args) = match self {
            Self::Compute => (
                vec![tensor("out", threads)],
                vec![pointer("out"), integer(work.steps)],
            ),
            Self::Memory => {
                let len = 4 * (work.elements as usize).max(threads);
                let tensors = vec![tensor("in", len), tensor("out", len)];
                let numbers = [integer(work.elements), integer(work.steps)];
                let pointers = [pointer("in"), pointer("out")];
                (tensors, [&pointers[..], &numbers].concat())
            }
        };
        case(self.name(), shape, blocks, tensors, args)
    }
}

/// The amount of work that one launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The number of elements of 16 bytes that are copied, or 0 if none are.
    pub elements: u32,
    /// The length of the chain of multiply-adds.
    pub steps: u32,
}

/// Steps of a copy that is not slowed; above zero, so that there can be fewer.
pub const REST: u32 = 64 * STEPS as u32;

/// Steps that add one link to the chain of every thread.
const STEPS: f64 = 8.0;

/// A line through two measurements of time by work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The nanoseconds that a launch without work takes.
    offset: f64,
    /// The nanoseconds that each unit of work adds.
    slope: f64,
}

impl Line {
    /// Draws the line through two points of work and nanoseconds. Returns `None` if more work does not take longer.
    pub fn through(a: (f64, f64), b: (f64, f64)) -> Option<Self> {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        (slope > 0.0 && slope.is_finite()).then_some(Self {
            offset: a.1 - slope * a.0,
            slope,
        })
    }

    /// Returns the additional work that takes `ns` longer.
    pub fn work_for(&self, ns: f64) -> f64 {
        ns / self.slope
    }

    /// Returns the work that takes `ns`, which is at least one unit.
    pub fn work(&self, ns: f64) -> f64 {
        ((ns - self.offset) / self.slope).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_work_takes_how_long() {
        let line = Line::through((100.0, 1500.0), (200.0, 2000.0)).unwrap();
        assert_eq!(line.work(3000.0), 400.0);
        assert_eq!(line.work_for(30.0), 6.0);
        assert_eq!(line.work(0.0), 1.0, "no launch is without work");
    }

    #[test]
    fn work_that_takes_no_longer_gives_no_line() {
        for later in [1500.0, 1400.0, f64::NAN] {
            assert_eq!(Line::through((100.0, 1500.0), (200.0, later)), None);
        }
        assert_eq!(Line::through((100.0, 1500.0), (100.0, 1600.0)), None);
    }
}
