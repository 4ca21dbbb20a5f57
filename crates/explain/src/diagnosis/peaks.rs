//! The peaks of a GPU: operations, bytes and instructions a second. Pure.
//!
//! The rates of one SM are those of its architecture (`model::sm`). A GPU has a number of SMs and a clock. Device
//! memory is listed by the name of the GPU. Each value has its source beside it. `gatekeeper doctor --peaks` measures
//! them on a GPU.

use model::sm::Sm;
use model::{Arch, Arithmetic, DeviceFacts};
use serde::Serialize;

/// The schedulers of an SM, on every architecture here. Each issues one instruction a cycle, and shared memory moves 32
/// banks of 4 bytes. CUDA C++ Programming Guide, "Compute Capabilities".
pub const SCHEDULERS: f64 = 4.0;
const SHARED_BYTES: f64 = 128.0;
/// Bytes between L2 and one SM in each cycle: Nsight Compute, Profiling Guide, "Memory Chart"; NVIDIA, GTC 2018 S81006,
/// "Volta: Architecture and Performance Optimization". No GPU gets this rate from L2 on all SMs at once. One
/// multiprocessor of an H100 receives more (74 bytes a cycle: `reduce/default@all`), so it is not used for Hopper.
const L2_PORT_BYTES: f64 = 64.0;

/// The rate at which a GPU reads 16.8 MB from L2: `reduce` of this repository needs 2.5 us beyond its start, on an
/// H100.
const HOPPER_L2: Option<(f64, &str)> = Some((3390.0, "measured: kernels/reduce.cu on an H100"));

/// A GPU as NVIDIA sells it.
#[derive(Debug)]
pub struct Model {
    /// The name that the driver uses.
    name: &'static str,
    arch: (u8, u8),
    multiprocessors: u32,
    /// The boost clock, and the clock of tensor cores under load, in MHz.
    mhz: f64,
    tensor_mhz: f64,
    /// The share of the architecture's rate that this GPU's tensor cores keep with sums of 32 bits.
    tensor_share: f64,
    /// The bandwidth of device memory in GB/s.
    dram: f64,
    /// The size of L2 in MiB.
    l2_mib: u64,
    source: &'static str,
    /// The rate of L2 in bytes a cycle and its source, if NVIDIA states it.
    l2: Option<(f64, &'static str)>,
}

const A100_L2: Option<(f64, &str)> = Some((5120.0, "NVIDIA A100 whitepaper, L2 cache"));

/// Makes rows with the fields of `Model`, in their order.
macro_rules! models {
    ($($name:literal, $arch:expr, $multiprocessors:literal, $mhz:literal, $tensor_mhz:literal, $tensor_share:literal,
       $dram:literal, $l2_mib:literal, $source:literal, $l2:expr;)*) => {
        [$(Model {
            name: $name,
            arch: $arch,
            multiprocessors: $multiprocessors,
            mhz: $mhz,
            tensor_mhz: $tensor_mhz,
            tensor_share: $tensor_share,
            dram: $dram,
            l2_mib: $l2_mib,
            source: $source,
            l2: $l2,
        }),*]
    };
}

/// The first GPU of an architecture is the one that estimates are for if no GPU is known.
const MODELS: [Model; 24] = models! {
    "NVIDIA H100 80GB HBM3", (9, 0), 132, 1980.0, 1830.0, 1.0, 3352.0, 50,
        "NVIDIA H100 whitepaper and datasheet, H100 SXM5", HOPPER_L2;
    "NVIDIA H100 PCIe", (9, 0), 114, 1755.0, 1620.0, 1.0, 2039.0, 50,
        "NVIDIA H100 whitepaper, H100 PCIe", HOPPER_L2;
    "NVIDIA H100 NVL", (9, 0), 132, 1785.0, 1545.0, 1.0, 3938.0, 50,
        "NVIDIA H100 datasheet, H100 NVL", HOPPER_L2;
    "NVIDIA H200", (9, 0), 132, 1980.0, 1830.0, 1.0, 4800.0, 50,
        "NVIDIA H200 datasheet, H200 SXM", HOPPER_L2;
    "NVIDIA H200 NVL", (9, 0), 132, 1785.0, 1545.0, 1.0, 4800.0, 50,
        "NVIDIA H200 datasheet, H200 NVL", HOPPER_L2;
    "NVIDIA A100-SXM4-80GB", (8, 0), 108, 1410.0, 1410.0, 1.0, 2039.0, 40,
        "NVIDIA A100 datasheet, A100 80GB SXM", A100_L2;
    "NVIDIA A100-SXM4-40GB", (8, 0), 108, 1410.0, 1410.0, 1.0, 1555.0, 40,
        "NVIDIA A100 whitepaper, A100 SXM4 40GB", A100_L2;
    "NVIDIA A100 80GB PCIe", (8, 0), 108, 1410.0, 1410.0, 1.0, 1935.0, 40,
        "NVIDIA A100 datasheet, A100 80GB PCIe", A100_L2;
    "NVIDIA A100-PCIE-40GB", (8, 0), 108, 1410.0, 1410.0, 1.0, 1555.0, 40,
        "NVIDIA A100 PCIe product brief, 40GB", A100_L2;
    "NVIDIA A10G", (8, 6), 80, 1710.0, 1710.0, 0.5, 600.0, 6,
        "NVIDIA A10G datasheet (70 TFLOP/s f16 tensor, 35 TFLOP/s FP32)", None;
    "NVIDIA A10", (8, 6), 72, 1695.0, 1695.0, 1.0, 600.0, 6,
        "NVIDIA A10 datasheet", None;
    "NVIDIA A40", (8, 6), 84, 1740.0, 1740.0, 1.0, 696.0, 6,
        "NVIDIA A40 datasheet", None;
    "NVIDIA RTX A6000", (8, 6), 84, 1800.0, 1800.0, 1.0, 768.0, 6,
        "NVIDIA RTX A6000 datasheet", None;
    "NVIDIA GeForce RTX 3090", (8, 6), 82, 1695.0, 1695.0, 0.5, 936.0, 6,
        "NVIDIA Ampere GA102 whitepaper, GeForce RTX 3090", None;
    "NVIDIA L4", (8, 9), 58, 2040.0, 2040.0, 1.0, 300.0, 48,
        "NVIDIA L4 datasheet", None;
    "NVIDIA L40S", (8, 9), 142, 2520.0, 2490.0, 1.0, 864.0, 96,
        "NVIDIA L40S datasheet", None;
    "NVIDIA L40", (8, 9), 142, 2490.0, 2490.0, 0.5, 864.0, 96,
        "NVIDIA L40 datasheet", None;
    "NVIDIA GeForce RTX 4090", (8, 9), 128, 2520.0, 2520.0, 0.5, 1008.0, 72,
        "NVIDIA Ada whitepaper, GeForce RTX 4090", None;
    "NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 2505.0, 2505.0, 1.0, 960.0, 96,
        "NVIDIA RTX 6000 Ada datasheet", None;
    "Tesla T4", (7, 5), 40, 1590.0, 1590.0, 1.0, 320.0, 4,
        "NVIDIA T4 datasheet, Turing whitepaper", None;
    "NVIDIA B200", (10, 0), 148, 1965.0, 1850.0, 1.0, 8000.0, 126,
        "NVIDIA HGX B200 datasheet (2.25 PFLOP/s f16 dense, 75 TFLOP/s FP32, 8 TB/s)", None;
    "NVIDIA GeForce RTX 5090", (12, 0), 170, 2407.0, 2407.0, 0.5, 1792.0, 96,
        "NVIDIA RTX Blackwell whitepaper, GeForce RTX 5090", None;
    "NVIDIA GH200 480GB", (9, 0), 132, 1980.0, 1830.0, 1.0, 4000.0, 50,
        "NVIDIA GH200 datasheet, HBM3", HOPPER_L2;
    "NVIDIA A30", (8, 0), 56, 1440.0, 1440.0, 1.0, 933.0, 24,
        "NVIDIA A30 datasheet", None;
};

/// The peaks of a GPU, in units a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peaks {
    pub gpu: String,
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    /// The clock of the SMs in Hz.
    pub hz: f64,
    /// The source of device memory, clock and SMs.
    pub source: &'static str,
    pub dram_bytes: f64,
    pub l2: L2,
    pub shared_bytes: f64,
    /// The instructions of warps that are issued a second.
    pub issue: f64,
    pub fp32: f64,
    pub fp64: f64,
    pub fp16: f64,
    pub special: f64,
    /// Dense products of tensor cores, by type.
    pub tensor: Vec<(Arithmetic, f64)>,
    /// The share of it that instructions reach that wait for their product.
    pub synchronous_share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct L2 {
    pub bytes: f64,
    pub source: &'static str,
    /// True if the rate of L2 is what the SMs can receive. L2 gives less.
    pub is_upper_bound: bool,
}

impl Peaks {
    /// Returns the peaks of a GPU, or `None` if the tables do not have it. No guess is made from its neighbours.
    pub fn for_device(device: &DeviceFacts) -> Option<Self> {
        let model = MODELS.iter().find(|model| model.name == device.name)?;
        let is_it = (device.major, device.minor) == model.arch;
        // A part of a GPU has fewer SMs, and an unknown share of its memory.
        let is_whole = device.multiprocessors == model.multiprocessors;
        (is_it && is_whole)
            .then(|| Self::for_model(model))
            .flatten()
    }

    /// Returns the peaks of the GPU that represents an architecture.
    pub fn assumed(arch: Arch) -> Option<Self> {
        let of_arch = (arch.major, arch.minor);
        let model = MODELS.iter().find(|model| model.arch == of_arch)?;
        Self::for_model(model)
    }

    fn for_model(model: &Model) -> Option<Self> {
        let (major, minor) = model.arch;
        let arch = Arch {
            major,
            minor,
            suffix: None,
        };
        let sm = Sm::for_arch(arch)?.rates?;
        let sms = f64::from(model.multiprocessors);
        let (hz, tensor_hz) = (model.mhz * 1e6, model.tensor_mhz * 1e6);
        // A lane does an addition and a product.
        let both = |lanes: f64| 2.0 * lanes * sms * hz;
        let tensor = |rate: f64, share: f64| 2.0 * rate * share * sms * tensor_hz;
        let rates = [
            (
                Arithmetic::TensorF16,
                Some(sm.tensor_16),
                model.tensor_share,
            ),
            (
                Arithmetic::TensorBf16,
                Some(sm.tensor_16),
                model.tensor_share,
            ),
            (
                Arithmetic::TensorTf32,
                Some(sm.tensor_tf32),
                model.tensor_share,
            ),
            (Arithmetic::TensorFp8, sm.tensor_fp8, model.tensor_share),
            (Arithmetic::TensorFp64, sm.tensor_fp64, 1.0),
            (Arithmetic::TensorInt8, Some(sm.tensor_int8), 1.0),
        ];
        let rates = rates
            .into_iter()
            .filter_map(|(kind, rate, share)| Some((kind, tensor(rate?, share))));
        Some(Self {
            gpu: model.name.to_owned(),
            multiprocessors: model.multiprocessors,
            l2_bytes: model.l2_mib << 20,
            hz,
            source: model.source,
            dram_bytes: model.dram * 1e9,
            l2: match model.l2 {
                Some((bytes, source)) => L2 {
                    bytes: bytes * hz,
                    source,
                    is_upper_bound: false,
                },
                None => L2 {
                    bytes: L2_PORT_BYTES * sms * hz,
                    source: "64 bytes a cycle into each SM",
                    is_upper_bound: true,
                },
            },
            shared_bytes: SHARED_BYTES * sms * hz,
            issue: SCHEDULERS * sms * hz,
            fp32: both(sm.fp32),
            fp64: both(sm.fp64),
            fp16: both(sm.fp16),
            special: sm.special * sms * hz,
            tensor: rates.filter(|(_, peak)| *peak > 0.0).collect(),
            synchronous_share: sm.synchronous_share,
        })
    }

    /// Returns the rate that `mma.sync` reaches. On Hopper it is less than the peak, which only `wgmma` reaches.
    pub fn synchronous(&self, kind: Arithmetic) -> Option<f64> {
        self.arithmetic(kind)
            .map(|peak| peak * self.synchronous_share)
    }

    /// Returns the operations a second of one kind, or `None` if this GPU has no unit for it.
    pub fn arithmetic(&self, kind: Arithmetic) -> Option<f64> {
        match kind {
            Arithmetic::Fp16 => Some(self.fp16),
            Arithmetic::Fp32 => Some(self.fp32),
            Arithmetic::Fp64 => Some(self.fp64),
            Arithmetic::Special => Some(self.special),
            _ => self
                .tensor
                .iter()
                .find(|(of, _)| *of == kind)
                .map(|(_, peak)| *peak),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::sm::SMS;
    use std::collections::BTreeSet;

    fn peaks(name: &str) -> Peaks {
        let model = MODELS.iter().find(|model| model.name == name).unwrap();
        Peaks::for_model(model).unwrap()
    }

    /// The datasheets' values, within their rounding: TFLOP/s of FP32 and of f16 on tensor cores with sums of
    /// 32 bits, dense.
    #[test]
    fn rates_times_clocks_equal_the_datasheets() {
        for (name, fp32, f16) in [
            ("NVIDIA H100 80GB HBM3", 66.9, 989.4),
            ("NVIDIA H100 PCIe", 51.2, 756.5),
            ("NVIDIA H100 NVL", 60.0, 835.0),
            ("NVIDIA H200", 66.9, 989.4),
            ("NVIDIA A100-SXM4-80GB", 19.5, 312.0),
            ("NVIDIA A10G", 35.0, 70.0),
            ("NVIDIA A10", 31.2, 125.0),
            ("NVIDIA A40", 37.4, 149.7),
            ("NVIDIA GeForce RTX 3090", 35.6, 71.0),
            ("NVIDIA L4", 30.3, 121.0),
            ("NVIDIA L40S", 91.6, 362.0),
            ("NVIDIA L40", 90.5, 181.0),
            ("NVIDIA GeForce RTX 4090", 82.6, 165.2),
            ("NVIDIA RTX 6000 Ada Generation", 91.1, 364.2),
            ("Tesla T4", 8.1, 65.0),
            ("NVIDIA B200", 75.0, 2250.0),
            ("NVIDIA GeForce RTX 5090", 104.8, 209.5),
            ("NVIDIA A30", 10.3, 165.0),
        ] {
            let peaks = peaks(name);
            let tensor = peaks.arithmetic(Arithmetic::TensorF16).unwrap();
            let near = |is: f64, want: f64| (is / want - 1.0).abs() < 0.02;
            assert!(
                near(peaks.fp32 / 1e12, fp32),
                "{name}: {}",
                peaks.fp32 / 1e12
            );
            assert!(near(tensor / 1e12, f16), "{name}: {}", tensor / 1e12);
        }
    }

    #[test]
    fn every_gpu_is_there_once_and_every_architecture_with_rates_has_one() {
        let names: BTreeSet<_> = MODELS.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), MODELS.len());
        for model in &MODELS {
            let peaks = Peaks::for_model(model).unwrap();
            assert!(peaks.dram_bytes < peaks.l2.bytes, "{}", model.name);
            assert!(!peaks.source.is_empty() && peaks.l2_bytes > 0);
        }
        for (capability, _) in SMS.iter().filter(|(_, sm)| sm.rates.is_some()) {
            assert!(MODELS.iter().any(|model| model.arch == *capability));
        }
    }

    #[test]
    fn a_gpu_that_is_not_known_has_no_peaks_and_neither_has_a_part_of_one() {
        let h100 = DeviceFacts {
            ordinal: 0,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            uuid: String::new(),
            major: 9,
            minor: 0,
            multiprocessors: 132,
            l2_bytes: 50 << 20,
            memory_bytes: 80 << 30,
            driver: "580.1".to_owned(),
            cuda_driver_version: 13000,
            clock_policy: "default".to_owned(),
            max_sm_mhz: Some(1980),
        };
        assert!(Peaks::for_device(&h100).is_some());
        let other = DeviceFacts {
            name: "NVIDIA H300".to_owned(),
            ..h100.clone()
        };
        let slice = DeviceFacts {
            multiprocessors: 16,
            ..h100
        };
        assert_eq!(Peaks::for_device(&other), None);
        assert_eq!(Peaks::for_device(&slice), None);
    }

    #[test]
    fn formats_that_a_tensor_core_lacks_have_no_peak() {
        assert_eq!(peaks("Tesla T4").arithmetic(Arithmetic::TensorTf32), None);
        assert_eq!(peaks("NVIDIA A10").arithmetic(Arithmetic::TensorFp8), None);
        assert!(Peaks::assumed("sm_90a".parse().unwrap()).is_some());
        assert!(Peaks::assumed("sm_87".parse().unwrap()).is_none());
    }
}
