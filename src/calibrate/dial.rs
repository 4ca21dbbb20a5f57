//! The built-in kernels with a dial: how they are built and called, and how far the dial is to be turned
//! for a time. Pure.

use std::collections::BTreeMap;
use verdict::model::{
    Arch, Arg, Callable, Case, CaseId, Determinism, DeviceFacts, ElemType, Launch, Reference, Role,
    ScalarType, ScalarValue, Tensor, Unary, Unit, UnitId,
};

pub const SOURCE: &str = include_str!("dial.cu");
pub const FILE: &str = "dial.cu";

const BLOCK: u32 = 256;

/// Long enough for a millisecond of memory traffic, samples and settling.
const DEADLINE_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dial {
    Compute,
    Memory,
}

/// Which machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Plain,
    /// Does the same.
    Other,
}

impl Code {
    pub const ALL: [Self; 2] = [Self::Plain, Self::Other];
}

impl Dial {
    pub const ALL: [Self; 2] = [Self::Compute, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "copy",
        }
    }

    pub fn unit(self, code: Code, arch: Arch) -> Unit {
        Unit {
            id: UnitId {
                kernel: self.name().to_owned(),
                variant: "default".to_owned(),
                arch,
            },
            source: FILE.to_owned(),
            include_dirs: Vec::new(),
            defines: match code {
                Code::Plain => BTreeMap::new(),
                Code::Other => BTreeMap::from([("OTHER_CODE".to_owned(), "1".to_owned())]),
            },
            flags: vec!["-O3".to_owned()],
            call: Callable::Entry {
                name: self.name().to_owned(),
            },
        }
    }

    /// Where the search for the work that takes this long begins.
    pub fn guess(self, class_us: u32, device: &DeviceFacts) -> f64 {
        let us = f64::from(class_us);
        match self {
            // Eight warps take turns on each scheduler, one of a loop's four instructions a cycle, and one
            // of the eight at each step.
            Self::Compute => us * 2000.0 / 32.0 * STEPS,
            // 30 GB/s for each multiprocessor, 32 bytes moved for each element.
            Self::Memory => us * 30e3 * f64::from(device.multiprocessors) / 32.0,
        }
    }

    /// Steps of the dial that take about a tenth of this time.
    pub fn turns(self, class_us: u32) -> f64 {
        let turn_us = match self {
            Self::Compute => 32.0 / 2000.0,
            // Few warps of a scheduler are in their chain at once: the latency of one turn counts.
            Self::Memory => 12.0 / 2000.0,
        };
        0.1 * f64::from(class_us) / turn_us * STEPS
    }

    pub fn case(self, shape: &str, work: Work, device: &DeviceFacts) -> Case {
        let blocks = device.multiprocessors * 4;
        let threads = (blocks * BLOCK) as usize;
        let tensor = |name: &str, len: usize| Tensor {
            name: name.to_owned(),
            role: Role::Scratch,
            elem: ElemType::F32,
            dims: vec![len],
            strides: None,
            fill: None,
            codec: None,
        };
        let pointer = |name: &str| Arg::Tensor {
            name: name.to_owned(),
        };
        let integer = |value: u32| Arg::Scalar {
            elem: ScalarType::I32,
            value: ScalarValue::Int(value.into()),
        };
        let (tensors, args) = match self {
            Self::Compute => (
                vec![tensor("out", threads)],
                vec![pointer("out"), integer(work.dial)],
            ),
            Self::Memory => {
                let len = 4 * (work.elements as usize).max(threads);
                let tensors = vec![tensor("in", len), tensor("out", len)];
                let numbers = [integer(work.elements), integer(work.dial)];
                let pointers = [pointer("in"), pointer("out")];
                (tensors, [&pointers[..], &numbers].concat())
            }
        };
        Case {
            id: CaseId {
                kernel: self.name().to_owned(),
                variant: "default".to_owned(),
                shape: shape.to_owned(),
            },
            dims: BTreeMap::new(),
            tensors,
            args,
            launch: Some(Launch {
                grid: [blocks, 1, 1],
                block: [BLOCK, 1, 1],
                cluster: None,
                dynamic_shared: 0,
            }),
            seeds: vec![1],
            // Nothing is checked here: what it computes is of no interest.
            reference: Reference::Unary {
                x: "in".to_owned(),
                out: "out".to_owned(),
                op: Unary::Copy,
            },
            tolerance: None,
            determinism: Determinism::BitExact,
            launches: 1,
            deadline_ms: DEADLINE_MS,
            timed: true,
        }
    }
}

/// How much one launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Of 16 bytes, copied; none where nothing is.
    pub elements: u32,
    /// Steps of the dial.
    pub dial: u32,
}

/// The dial of a kernel that is not slowed; above zero, so that it can be turned both ways.
pub const REST: u32 = 64 * STEPS as u32;

/// Steps of the dial for one turn of the chain in every thread.
const STEPS: f64 = 8.0;

/// A line through two readings: how long some work takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// ns that any launch takes.
    offset: f64,
    /// ns for each unit of work.
    slope: f64,
}

impl Line {
    /// `None` where more work does not take longer.
    pub fn through(a: (f64, f64), b: (f64, f64)) -> Option<Self> {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        (slope > 0.0 && slope.is_finite()).then_some(Self {
            offset: a.1 - slope * a.0,
            slope,
        })
    }

    /// Work beside what is there already that takes this much longer.
    pub fn work_for(&self, ns: f64) -> f64 {
        ns / self.slope
    }

    /// Work that takes this long; at least one unit.
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
