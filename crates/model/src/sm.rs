//! Limits of one streaming multiprocessor of each architecture, and its work in a clock cycle.
//!
//! Limits: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications per compute capability, and the
//! occupancy calculator that ships with the toolkit (`cuda_occupancy.h`). Rates: the same guide, "Throughput of Native
//! Arithmetic Instructions"; tensor cores by the whitepapers of Turing, Ampere (GA100, GA102), Ada, Hopper and
//! Blackwell.

use crate::Arch;

/// The limits of an SM, with shared memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sm {
    pub warps: u64,
    pub blocks: u64,
    pub shared: u64,
    /// The bytes that the system takes from every block.
    pub shared_reserved: u64,
    /// The unit in which shared memory is allocated to a block.
    pub shared_unit: u64,
    /// The number of named barriers. Nothing counts them before compute capability 9.0.
    pub barriers: Option<u64>,
    /// `None` if the sources do not state them.
    pub rates: Option<Rates>,
}

/// The work of one clock cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The lanes that finish an addition, product or both in one.
    pub fp32: f64,
    pub fp64: f64,
    /// The lanes that do so for halves, where each half of a register counts.
    pub fp16: f64,
    /// The lanes that finish exponentials, roots, reciprocals or sines.
    pub special: f64,
    /// The dense multiply-adds of the tensor cores, of f16 or bf16 with sums in f32.
    pub tensor_16: f64,
    /// As `tensor_16`, for tf32. It is 0 on Turing, where the compiler refuses tf32.
    pub tensor_tf32: f64,
    /// `None` if the tensor cores lack the type.
    pub tensor_fp8: Option<f64>,
    pub tensor_fp64: Option<f64>,
    pub tensor_int8: f64,
}

const KIB: u64 = 1_024;

impl Sm {
    /// Returns the SM of an architecture, or `None` if the architecture is not in the table. No guess is made from its
    /// neighbours.
    pub fn for_arch(arch: Arch) -> Option<Self> {
        let consumer = Rates::new(128.0, 2.0, 128.0, [512.0, 256.0, 1024.0]);
        let (warps, blocks, shared_kib, barriers_per_block, rates) = match (arch.major, arch.minor)
        {
            (7, 5) => {
                let rates = Rates::new(64.0, 2.0, 128.0, [512.0, 0.0, 1024.0]);
                (32, 16, 64, None, Some(rates))
            }
            (8, 0) => {
                let rates = Rates::new(64.0, 32.0, 256.0, [1024.0, 512.0, 2048.0]);
                (64, 32, 164, None, Some(rates.with_fp64(64.0)))
            }
            (8, 6) => (48, 16, 100, None, Some(consumer)),
            (8, 7) => (48, 16, 164, None, None),
            (8, 9) => (48, 24, 100, None, Some(consumer.with_fp8(1024.0))),
            (9, 0) => {
                let rates = Rates::new(128.0, 64.0, 256.0, [2048.0, 1024.0, 4096.0]);
                let rates = rates.with_fp8(4096.0).with_fp64(128.0);
                (64, 32, 228, Some(2), Some(rates))
            }
            (10, 0) => {
                let rates = Rates::new(128.0, 64.0, 256.0, [4096.0, 2048.0, 8192.0]);
                let rates = rates.with_fp8(8192.0).with_fp64(64.0);
                (64, 32, 228, Some(2), Some(rates))
            }
            (10, 3) => (64, 32, 228, Some(2), None),
            (11, 0) => (48, 24, 228, Some(1), None),
            (12, 0) => (48, 24, 100, Some(1), Some(consumer.with_fp8(1024.0))),
            (12, 1) => (48, 24, 100, Some(1), None),
            _ => return None,
        };
        let turing = arch.major == 7;
        Some(Self {
            warps,
            blocks,
            shared: shared_kib * KIB,
            shared_reserved: if turing { 0 } else { KIB },
            shared_unit: if turing { 256 } else { 128 },
            barriers: barriers_per_block.map(|each: u64| each * blocks),
            rates,
        })
    }
}

impl Rates {
    const fn new(
        fp32: f64,
        fp64: f64,
        fp16: f64,
        [tensor_16, tensor_tf32, tensor_int8]: [f64; 3],
    ) -> Self {
        Self {
            fp32,
            fp64,
            fp16,
            special: 16.0,
            tensor_16,
            tensor_tf32,
            tensor_fp8: None,
            tensor_fp64: None,
            tensor_int8,
        }
    }

    const fn with_fp8(self, rate: f64) -> Self {
        Self {
            tensor_fp8: Some(rate),
            ..self
        }
    }

    const fn with_fp64(self, rate: f64) -> Self {
        Self {
            tensor_fp64: Some(rate),
            ..self
        }
    }
}
