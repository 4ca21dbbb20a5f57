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
    /// The share of the rates of tensor cores that instructions reach that wait for their product (`mma.sync`).
    pub synchronous_share: f64,
}

const CONSUMER: Rates = rates([128.0, 2.0, 128.0], [512.0, 256.0, 1024.0]);

/// Makes the table of SMs. `KiB` are the shared memory, less what the system takes from every block, by the unit in which
/// it is allocated. Then come the named barriers and the rates.
macro_rules! sms {
    ($($capability:expr => $warps:literal warps, $blocks:literal blocks, $shared:literal - $reserved:literal KiB
       by $unit:literal, $barriers:expr, $rates:expr;)*) => {
        /// The SM of each compute capability that is known.
        pub const SMS: [((u8, u8), Sm); [$($warps),*].len()] = [$(($capability, Sm {
            warps: $warps,
            blocks: $blocks,
            shared: $shared << 10,
            shared_reserved: $reserved << 10,
            shared_unit: $unit,
            barriers: $barriers,
            rates: $rates,
        })),*];
    };
}

sms! {
    (7, 5) => 32 warps, 16 blocks, 64 - 0 KiB by 256, None, Some(rates([64.0, 2.0, 128.0], [512.0, 0.0, 1024.0]));
    (8, 0) => 64 warps, 32 blocks, 164 - 1 KiB by 128, None, Some(Rates {
        tensor_fp64: Some(64.0),
        ..rates([64.0, 32.0, 256.0], [1024.0, 512.0, 2048.0])
    });
    (8, 6) => 48 warps, 16 blocks, 100 - 1 KiB by 128, None, Some(CONSUMER);
    (8, 7) => 48 warps, 16 blocks, 164 - 1 KiB by 128, None, None;
    (8, 9) => 48 warps, 24 blocks, 100 - 1 KiB by 128, None, Some(Rates { tensor_fp8: Some(1024.0), ..CONSUMER });
    (9, 0) => 64 warps, 32 blocks, 228 - 1 KiB by 128, Some(64), Some(Rates {
        tensor_fp8: Some(4096.0),
        tensor_fp64: Some(128.0),
        // Measured on an H100 (kernels/NOTES.md). Luo et al., arXiv 2402.13499, have the same.
        synchronous_share: 0.62,
        ..rates([128.0, 64.0, 256.0], [2048.0, 1024.0, 4096.0])
    });
    (10, 0) => 64 warps, 32 blocks, 228 - 1 KiB by 128, Some(64), Some(Rates {
        tensor_fp8: Some(8192.0),
        tensor_fp64: Some(64.0),
        ..rates([128.0, 64.0, 256.0], [4096.0, 2048.0, 8192.0])
    });
    (10, 3) => 64 warps, 32 blocks, 228 - 1 KiB by 128, Some(64), None;
    (11, 0) => 48 warps, 24 blocks, 228 - 1 KiB by 128, Some(24), None;
    (12, 0) => 48 warps, 24 blocks, 100 - 1 KiB by 128, Some(24), Some(Rates { tensor_fp8: Some(1024.0), ..CONSUMER });
    (12, 1) => 48 warps, 24 blocks, 100 - 1 KiB by 128, Some(24), None;
}

impl Sm {
    /// Returns the SM of an architecture, or `None` if the architecture is not in the table. No guess is made from its
    /// neighbours.
    pub fn for_arch(arch: Arch) -> Option<Self> {
        let capability = (arch.major, arch.minor);
        let (_, sm) = SMS.iter().find(|(known, _)| *known == capability)?;
        Some(*sm)
    }
}

/// Returns rates of cores, and those of tensor cores for 16 bits, tf32 and int8. Rates that some architectures lack are
/// absent.
const fn rates([fp32, fp64, fp16]: [f64; 3], tensor: [f64; 3]) -> Rates {
    Rates {
        fp32,
        fp64,
        fp16,
        special: 16.0,
        tensor_16: tensor[0],
        tensor_tf32: tensor[1],
        tensor_fp8: None,
        tensor_fp64: None,
        tensor_int8: tensor[2],
        synchronous_share: 1.0,
    }
}
