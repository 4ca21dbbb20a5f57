//! Measures the peaks of this GPU that the tables list, with built-in kernels that keep one resource busy each.

use super::builtin::{BLOCK, CACHE, case, got, integer, pointer, tensor, time};
use build::toolchain::Toolchain;
use build::{Building, Built};
use explain::diagnosis::peaks::Peaks;
use model::{Arch, Arithmetic, Callable, Case, DeviceFacts, Unit, UnitId};
use run::device::DeviceChoice;
use run::worker::Crew;
use serde::Serialize;
use std::collections::BTreeMap;
use system::cache::{self, Cache};
use system::error::{Error, Result};

const SOURCE: &str = include_str!("peaks.cu");
const FILE: &str = "peaks.cu";

/// The unit of the GPU that a kernel keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeakKernel {
    Fp32,
    Tensor,
    Dram,
    L2,
}

/// One peak, as it was measured and as the tables have it.
#[derive(Debug, PartialEq, Serialize)]
pub struct Measured {
    pub kernel: PeakKernel,
    /// Operations or bytes per second that were reached.
    pub reached: f64,
    /// `None` if the tables do not have this GPU.
    pub peak: Option<f64>,
}

/// The work that one launch does.
struct LaunchWork {
    /// Blocks for each multiprocessor, enough to keep its schedulers busy.
    blocks: u32,
    /// Elements of 16 bytes, and rounds over them or steps.
    elements: u32,
    rounds: u32,
}

impl PeakKernel {
    pub const ALL: [Self; 4] = [Self::Fp32, Self::Tensor, Self::Dram, Self::L2];

    fn entry(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tensor => "tensor",
            Self::Dram => "dram",
            Self::L2 => "l2",
        }
    }

    /// Returns work that takes every GPU in the tables a tenth of a millisecond or more.
    fn work(self) -> LaunchWork {
        let work = |blocks, elements, rounds| LaunchWork {
            blocks,
            elements,
            rounds,
        };
        match self {
            Self::Fp32 => work(8, 0, 16_384),
            Self::Tensor => work(4, 0, 8_192),
            // The kernel reads and writes 256 MiB each, which no L2 holds.
            Self::Dram => work(8, 16 << 20, 1),
            // The kernel uses 4 MiB, which the smallest L2 holds.
            Self::L2 => work(8, 1 << 18, 256),
        }
    }

    /// Returns the number of operations or bytes of one launch.
    fn amount(self, device: &DeviceFacts) -> f64 {
        let work = self.work();
        let threads = f64::from(device.multiprocessors * work.blocks * BLOCK);
        let [elements, rounds] = [work.elements, work.rounds].map(f64::from);
        match self {
            Self::Fp32 => threads * rounds * 8.0 * 2.0,
            Self::Tensor => threads / 32.0 * rounds * 8.0 * 4096.0,
            Self::Dram => elements * 16.0 * 2.0,
            Self::L2 => elements * 16.0 * rounds,
        }
    }

    fn peak(self, peaks: &Peaks) -> Option<f64> {
        match self {
            Self::Fp32 => Some(peaks.fp32),
            Self::Tensor => peaks.arithmetic(Arithmetic::TensorF16),
            Self::Dram => Some(peaks.dram_bytes),
            Self::L2 => Some(peaks.l2.bytes),
        }
    }

    fn unit(self, arch: Arch) -> Unit {
        Unit {
            id: UnitId::new(self.entry().to_owned(), "default", arch),
            source: FILE.to_owned(),
            include_dirs: Vec::new(),
            defines: BTreeMap::new(),
            flags: vec!["-O3".to_owned()],
            call: Callable::Entries {
                names: vec![self.entry().to_owned()],
                constants: Vec::new(),
            },
        }
    }

    fn case(self, device: &DeviceFacts) -> Case {
        let work = self.work();
        let blocks = device.multiprocessors * work.blocks;
        let threads = (blocks * BLOCK) as usize;
        let elements = 4 * work.elements as usize;
        let (input, output) = (pointer("in"), pointer("out"));
        let (tensors, args) = match self {
            Self::Fp32 | Self::Tensor => (
                vec![tensor("out", threads)],
                vec![output, integer(work.rounds)],
            ),
            Self::Dram => (
                vec![tensor("in", elements), tensor("out", elements)],
                vec![input, output, integer(work.elements)],
            ),
            Self::L2 => (
                vec![tensor("in", elements), tensor("out", threads)],
                vec![input, output, integer(work.elements), integer(work.rounds)],
            ),
        };
        case(self.entry(), "peak", blocks, tensors, args)
    }
}

/// Times each built-in kernel on the first GPU.
///
/// # Errors
/// Environment, if a kernel is not built or breaks.
pub fn measure(
    toolchain: &Toolchain,
    cache: &Cache,
    device: &DeviceFacts,
) -> Result<Vec<Measured>> {
    let root = cache.dir(CACHE)?;
    cache::write_atomically(&root.join(FILE), SOURCE.as_bytes())?;
    let units = PeakKernel::ALL.map(|kernel| kernel.unit(device.arch()));
    let building = Building::new(&root, toolchain, cache);
    let built = build::build_all(building, &units, &|_, _| {})?;
    let mut crew = Crew::new(DeviceChoice::Auto)?;
    let peaks = Peaks::for_device(device);
    let mut measured = Vec::new();
    for (kernel, built) in PeakKernel::ALL.into_iter().zip(built) {
        let Built {
            facts, artifact, ..
        } = built;
        got(facts, kernel.entry())?;
        let artifact = artifact
            .ok_or_else(|| Error::environment(format!("{} was not built", kernel.entry())))?;
        let ns = time(&mut crew, &kernel.case(device), &artifact)?;
        measured.push(Measured {
            kernel,
            reached: kernel.amount(device) / ns * 1e9,
            peak: peaks.as_ref().and_then(|peaks| kernel.peak(peaks)),
        });
    }
    crew.retire();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use build::toolchain::testing::toolchain;
    use judge::fixture;
    use model::sm::SMS;

    /// Checks the code that nvcc makes of the kernels for every architecture in the tables that this compiler supports.
    #[test]
    fn the_kernels_are_built_for_every_architecture_and_keep_their_work() {
        let cache = Cache::open().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(FILE), SOURCE).unwrap();
        let units: Vec<_> = SMS
            .iter()
            .filter(|(_, sm)| sm.rates.is_some())
            .map(|((major, minor), _)| format!("sm_{major}{minor}").parse().unwrap())
            .flat_map(|arch| PeakKernel::ALL.map(|kernel| kernel.unit(arch)))
            .collect();
        let toolchain = toolchain();
        let building = Building::new(root.path(), &toolchain, &cache);
        let built = build::build_all(building, &units, &|_, _| {});
        for (unit, built) in units.iter().zip(built.unwrap()) {
            let facts = got(built.facts, &unit.id.to_string()).unwrap();
            let resources = facts.entries[0].resources.as_ref().unwrap();
            assert_eq!(resources.spill_stores, Some(0), "{}", unit.id);
            // Eight chains have registers of their own, so nothing was folded away.
            let least = match unit.id.kernel.as_str() {
                "fp32" => 12,
                "tensor" => 34,
                _ => 8,
            };
            assert!(resources.registers >= least, "{}: {resources:?}", unit.id);
        }
    }

    #[test]
    fn the_work_of_a_launch_takes_long_enough_to_be_measured() {
        let device = fixture::device();
        let peaks = Peaks::for_device(&device).unwrap();
        for kernel in PeakKernel::ALL {
            let ns = kernel.amount(&device) / kernel.peak(&peaks).unwrap() * 1e9;
            // The start of a launch takes about a hundredth of this time.
            assert!((1e5..1e7).contains(&ns), "{kernel:?}: {ns}");
        }
    }
}
