//! Determines what bounds a profiled case, by the counters of the GPU itself.

use super::peaks::Peaks;
use super::view::DiagnosisInput;
use super::{BUSY, Basis, Bound, Diagnosis, FEW, LOST, Residency, Resource, Roofline, Unknown};
use super::{Waste, advice};
use model::{Arithmetic, DeviceFacts, KernelProfile, Num, ProfileFacts, ProfileMetric, Stall};
use std::collections::BTreeMap;

/// A launch that takes less does too little. An empty kernel in a graph of launches takes 1.3 us (H100).
const MOSTLY_START_NS: f64 = 2_600.0;
/// Multiprocessors that work for a smaller share of the launch wait for others.
const ACTIVE: f64 = 0.8;
/// The number of sectors of one request that adjacent lanes with 16 bytes each need.
const MOST_SECTORS: f64 = 16.0;
/// The number of bank conflicts for each access to shared memory from which on they are worth a look.
const CONFLICTS: f64 = 0.25;

/// Resources of a multiprocessor, whose use is relative to the time in which it has work.
const OF_SM: [(Resource, ProfileMetric); 5] = [
    (Resource::Tensor, ProfileMetric::TensorActive),
    (Resource::Fp32, ProfileMetric::Fp32Active),
    (Resource::Fp64, ProfileMetric::Fp64Active),
    (Resource::SpecialFunctions, ProfileMetric::SpecialActive),
    (Resource::IssueSlots, ProfileMetric::IssueActive),
];

/// Resources of the whole launch, as the GPU counts them.
const OF_GPU: [(Resource, ProfileMetric); 2] = [
    (Resource::L2, ProfileMetric::L2Throughput),
    (Resource::Dram, ProfileMetric::DramThroughput),
];

/// Diagnoses the kernel that a launch consists of.
pub fn diagnose(
    known: &DiagnosisInput,
    device: &DeviceFacts,
    repeats: &[&ProfileFacts],
) -> Diagnosis {
    let kernels: Option<Vec<&KernelProfile>> = repeats
        .iter()
        .map(|facts| match facts.kernels.as_slice() {
            [kernel] => Some(kernel),
            _ => None,
        })
        .collect();
    let (Some(kernels), Some(first)) = (kernels, repeats.first()) else {
        return Diagnosis::unknown(Unknown::SeveralKernels);
    };
    let read = ProfileReading::new(&kernels);
    let residency = known
        .residency(device.multiprocessors)
        .or_else(|| read.residency(device.multiprocessors));
    let residency = residency.map(|on| Residency {
        achieved: read.get(ProfileMetric::AchievedOccupancy).map(Num),
        ..on
    });
    let (busy, whole) = read.uses();
    let bound = bound(&read, &busy, &whole, residency.as_ref());
    let reached = match bound {
        // The bound decided, although its share can be smaller over the whole launch, as multiprocessors start and end.
        Bound::Resource { resource } => {
            let of_launch = whole.get(&resource).filter(|share| share.0 >= BUSY);
            of_launch.or_else(|| busy.get(&resource)).copied()
        }
        _ => None,
    };
    let most = whole.values().map(|share| share.0).fold(0.0, f64::max);
    let peaks = Peaks::for_device(device);
    let waste = read.waste();
    Diagnosis {
        basis: Basis::Profile {
            gpu: device.name.clone(),
            profiler: first.profiler.clone(),
        },
        advice: advice(&bound, &waste, residency.as_ref()),
        bound,
        reached,
        roofline: peaks.and_then(|peaks| read.roofline(&peaks, &whole)),
        residency,
        traffic: known.traffic(),
        time_ns: known.p50_ns.or(read.duration_ns).map(Num),
        estimated_ns: None,
        least_ns: read.duration_ns.map(|ns| Num(ns * most)),
        stalls: read.stalls,
        uses: whole,
    }
}

fn bound(
    read: &ProfileReading,
    busy: &BTreeMap<Resource, Num>,
    whole: &BTreeMap<Resource, Num>,
    residency: Option<&Residency>,
) -> Bound {
    if let Some((resource, share)) = most_used(whole)
        && share >= BUSY
    {
        return Bound::Resource { resource };
    }
    if read.duration_ns.is_some_and(|ns| ns < MOSTLY_START_NS) {
        return Bound::Launch;
    }
    let of_busy = match most_used(busy) {
        Some((resource, share)) if share >= BUSY => Bound::Resource { resource },
        _ => read.latency(),
    };
    let Some(on) = residency else {
        return of_busy;
    };
    if on.share_with_blocks() < FEW {
        return Bound::FewBlocks {
            busy: Some(Box::new(of_busy)),
        };
    }
    let is_idle = read
        .get(ProfileMetric::SmActive)
        .is_some_and(|share| share < ACTIVE);
    if is_idle && on.lost_by_waves() >= LOST {
        Bound::Tail
    } else {
        of_busy
    }
}

fn most_used(uses: &BTreeMap<Resource, Num>) -> Option<(Resource, f64)> {
    let most = uses.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    most.map(|(resource, share)| (*resource, share.0))
}

/// The values from the repeats of one profile.
struct ProfileReading {
    /// Medians of the metrics that every repeat has.
    metrics: BTreeMap<ProfileMetric, f64>,
    /// Cycles in each state for an instruction that a warp issues.
    stalls: BTreeMap<Stall, Num>,
    duration_ns: Option<f64>,
    blocks: u64,
    /// Accesses of warps to shared memory.
    shared_accesses: f64,
}

impl ProfileReading {
    fn new(kernels: &[&KernelProfile]) -> Self {
        let metric = |metric: ProfileMetric| {
            let values = kernels
                .iter()
                .map(|kernel| kernel.metrics.get(&metric)?.got().map(|kernel| kernel.0));
            Some((metric, median(values)?))
        };
        let stall = |stall: Stall| {
            let values = kernels
                .iter()
                .map(|kernel| kernel.stalls.get(&stall).map(|stall| stall.0));
            Some((stall, Num(median(values)?)))
        };
        let first = kernels.first();
        let shared = |name: &str| ["LDS", "STS", "LDSM", "STSM", "ATOMS"].contains(&name);
        let accesses = first.map_or(0, |profile| {
            profile
                .instructions
                .iter()
                .filter(|(name, _)| shared(name))
                .map(|(_, count)| *count)
                .sum::<u64>()
        });
        Self {
            metrics: ProfileMetric::ALL.into_iter().filter_map(metric).collect(),
            stalls: Stall::ALL.into_iter().filter_map(stall).collect(),
            duration_ns: median(kernels.iter().map(|kernel| Some(kernel.duration_ns.0)))
                .filter(|ns| *ns > 0.0),
            blocks: first.map_or(0, |profile| {
                profile.grid.iter().map(|&n| u64::from(n)).product()
            }),
            shared_accesses: accesses as f64,
        }
    }

    fn get(&self, metric: ProfileMetric) -> Option<f64> {
        self.metrics.get(&metric).copied()
    }

    /// Returns the use of resources while multiprocessors have work, and the use of the whole GPU over the whole
    /// launch.
    fn uses(&self) -> (BTreeMap<Resource, Num>, BTreeMap<Resource, Num>) {
        let read = |(resource, metric): (Resource, ProfileMetric)| {
            Some((resource, Num(self.get(metric)?)))
        };
        let active = self
            .get(ProfileMetric::SmActive)
            .filter(|share| *share > 0.0);
        let active = active.unwrap_or(1.0);
        let over = |share: Num, by: f64| Num((share.0 / by).min(1.0));
        // Passes through shared memory belong to multiprocessors, and are counted over the whole launch.
        let shared = read((Resource::SharedMemory, ProfileMetric::SharedThroughput));
        let of_gpu = || OF_GPU.into_iter().filter_map(read);
        let of_sm = || OF_SM.into_iter().filter_map(read);
        let busy = shared.map(|(resource, share)| (resource, over(share, active)));
        let whole = of_sm().map(|(resource, share)| (resource, Num(share.0 * active)));
        (
            of_sm().chain(busy).chain(of_gpu()).collect(),
            whole.chain(shared).chain(of_gpu()).collect(),
        )
    }

    /// Returns the state that warps wait in most. Warps that issue, or could issue, do not wait.
    fn latency(&self) -> Bound {
        match self
            .stalls
            .iter()
            .filter(|(stall, _)| !matches!(stall, Stall::Selected | Stall::NotSelected))
            .max_by(|a, b| a.1.0.total_cmp(&b.1.0))
        {
            Some((stall, _)) => Bound::Latency { stall: *stall },
            None => Bound::Unknown {
                why: Unknown::NoStalls,
            },
        }
    }

    fn waste(&self) -> Waste {
        let many = |metric| {
            self.get(metric)
                .is_some_and(|sectors| sectors > MOST_SECTORS)
        };
        let conflicts = self.get(ProfileMetric::BankConflicts).unwrap_or(0.0);
        Waste {
            loads: many(ProfileMetric::SectorsPerLoad),
            stores: many(ProfileMetric::SectorsPerStore),
            conflicts: conflicts > CONFLICTS * self.shared_accesses && conflicts > 0.0,
        }
    }

    /// Returns the residency of a launch that the plan does not know. Its limiter is unknown.
    fn residency(&self, multiprocessors: u32) -> Option<Residency> {
        let waves = self.get(ProfileMetric::Waves)?;
        (self.blocks > 0 && waves > 0.0).then_some(Residency {
            blocks: self.blocks,
            multiprocessors,
            waves: Num(waves),
            theoretical: None,
            achieved: None,
        })
    }

    fn roofline(&self, peaks: &Peaks, uses: &BTreeMap<Resource, Num>) -> Option<Roofline> {
        // The counters of tensor instructions do not state their type.
        let kinds = [
            (Arithmetic::TensorF16, ProfileMetric::TensorOperations),
            (Arithmetic::Fp32, ProfileMetric::Fp32Operations),
            (Arithmetic::Fp16, ProfileMetric::Fp16Operations),
            (Arithmetic::Fp64, ProfileMetric::Fp64Operations),
        ];
        let computed = kinds
            .into_iter()
            .filter_map(|(kind, metric)| Some((kind, self.get(metric)?, peaks.arithmetic(kind)?)))
            .max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
        let used = |resource| uses.get(&resource).map_or(0.0, |share: &Num| share.0);
        let (memory, metric, bandwidth) = if used(Resource::Dram) >= used(Resource::L2) {
            (Resource::Dram, ProfileMetric::DramBytes, peaks.dram_bytes)
        } else {
            (Resource::L2, ProfileMetric::L2Bytes, peaks.l2.bytes)
        };
        let bytes = self.get(metric)?;
        let reached = self.duration_ns.map(|ns| computed.1 / ns * 1e9);
        Roofline::new(computed, (memory, bytes, bandwidth), reached)
    }
}

/// Returns the median, or `None` if a value is missing or is not a number.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied();
    middle.filter(|value| value.is_finite())
}
