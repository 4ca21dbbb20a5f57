//! Estimates what bounds a case from the simulator's counters and PTXAS, for a GPU that is not there.
//!
//! A launch takes the time of its start, plus the longest of these: what each resource needs at its peak, and what one
//! warp needs for its own chain of instructions. The start and the chain were fitted to p50 of this repository's
//! kernels on an H100, in cycles (docs/diagnosis.md has the table): 106 cases, 19 % off on average, a factor of 2 at
//! worst.

use super::peaks::Peaks;
use super::view::DiagnosisInput;
use super::{BUSY, Basis, Bound, Diagnosis, FEW, LOST, Residency, Resource, Roofline, Unknown};
use super::{Moved, Traffic, Waste, advice};
use model::{Arithmetic, Counter, Mode, Num, SimulationFacts, Stall};
use std::collections::BTreeMap;

/// Cycles from one launch to the next if neither does anything.
const START: f64 = 2500.0;
/// Cycles of a warp's chain for each instruction, access to shared memory, load from global memory and barrier. Other
/// instructions of the warp hide a part of each latency, so these are less than the latencies.
const EACH_INSTRUCTION: f64 = 1.2;
const EACH_SHARED: f64 = 13.0;
const EACH_LOAD: f64 = 29.0;
const EACH_BARRIER: f64 = 430.0;

/// If the start takes a larger share of the launch than this, the launch does too little.
const MOSTLY_START: f64 = 0.5;

const SECTOR: f64 = 32.0;
const WARP: f64 = 32.0;

pub fn estimate(known: &DiagnosisInput) -> Diagnosis {
    let Some(peaks) = Peaks::assumed(known.arch) else {
        let arch = known.arch.to_string();
        return Diagnosis::unknown(Unknown::Architecture { arch });
    };
    let Some(facts) = known.simulation else {
        return Diagnosis::unknown(Unknown::NotSeen);
    };
    let Some(residency) = known.residency(peaks.multiprocessors) else {
        return Diagnosis::unknown(Unknown::SeveralKernels);
    };
    let Some(launch) = Launch::new(known, facts, &peaks, &residency) else {
        return Diagnosis::unknown(Unknown::NotSeen);
    };
    let traffic = known.traffic();
    let bound = launch.bound(&residency);
    let uses = launch.uses();
    let reached = match bound {
        Bound::Resource { resource } => uses.get(&resource).copied(),
        _ => None,
    };
    Diagnosis {
        basis: Basis::Estimate {
            gpu: peaks.gpu.clone(),
        },
        reached,
        roofline: roofline(facts, known, &peaks),
        estimated_ns: Some(Num(launch.total() / peaks.hz * 1e9)),
        least_ns: Some(Num(launch.at_full_use() / peaks.hz * 1e9)),
        time_ns: None,
        advice: advice(&bound, &waste(&traffic), Some(&residency)),
        bound,
        uses,
        stalls: BTreeMap::new(),
        residency: Some(residency),
        traffic,
    }
}

/// A larger multiple of the least amount is worth a look.
const WASTE: f64 = 1.25;

fn waste(traffic: &Traffic) -> Waste {
    let wasted = |moved: Option<Moved>| moved.is_some_and(|moved| moved.waste() > WASTE);
    Waste {
        loads: wasted(traffic.loads),
        stores: wasted(traffic.stores),
        conflicts: wasted(traffic.shared_loads) || wasted(traffic.shared_stores),
    }
}

/// The cycles of the parts of a launch.
struct Launch {
    /// The cycles that each resource needs on the busiest multiprocessor.
    used: BTreeMap<Resource, f64>,
    /// The cycles that each resource would need if all multiprocessors had an even share.
    even: BTreeMap<Resource, f64>,
    /// The chain of one warp, by what it waits for, times the waves.
    chain: [(Stall, f64); 4],
}

impl Launch {
    /// Returns `None` if a required counter was not counted.
    fn new(
        known: &DiagnosisInput,
        facts: &SimulationFacts,
        peaks: &Peaks,
        residency: &Residency,
    ) -> Option<Self> {
        let count = |counter| Some(known.count(counter)? as f64);
        let sum = |counters: &[Counter]| {
            counters
                .iter()
                .map(|counter| count(*counter))
                .sum::<Option<f64>>()
        };
        let instructions = count(Counter::Instructions)?;
        let wavefronts = sum(&[
            Counter::SharedLoadWavefronts,
            Counter::SharedStoreWavefronts,
            Counter::MatrixLoadWavefronts,
            Counter::AsyncCopyWavefronts,
        ])?;
        // These are only counted if there are any.
        let wavefronts = wavefronts + count(Counter::WgmmaWavefronts).unwrap_or_default();
        let sectors = known.sectors()? as f64;
        let bytes = sectors * SECTOR;
        let cycles = |amount: f64, each_second: f64| amount / each_second * peaks.hz;
        // A warp instruction occupies all lanes, however many are active.
        let lanes = |kind: Arithmetic| {
            let work = facts.computed.get(&kind).copied().unwrap_or_default();
            work.issued as f64 * WARP
        };
        let tensor = facts
            .computed
            .iter()
            .filter(|(kind, _)| kind.is_tensor())
            .filter_map(|(kind, work)| {
                Some(cycles(work.operations as f64, peaks.synchronous(*kind)?))
            });
        // These are rates of lanes: a product with addition is two operations, and occupies a lane once.
        let even = BTreeMap::from([
            (Resource::Tensor, tensor.sum()),
            (
                Resource::Fp32,
                cycles(lanes(Arithmetic::Fp32), peaks.fp32 / 2.0),
            ),
            (
                Resource::Fp64,
                cycles(lanes(Arithmetic::Fp64), peaks.fp64 / 2.0),
            ),
            // Two halves in one lane are two operations each.
            (
                Resource::Fp16,
                cycles(lanes(Arithmetic::Fp16), peaks.fp16 / 4.0),
            ),
            (
                Resource::SpecialFunctions,
                cycles(lanes(Arithmetic::Special), peaks.special),
            ),
            (Resource::IssueSlots, cycles(instructions, peaks.issue)),
            (
                Resource::SharedMemory,
                cycles(wavefronts * 128.0, peaks.shared_bytes),
            ),
            (Resource::L2, cycles(bytes, peaks.l2.bytes)),
            (
                Resource::Dram,
                cycles(known.dram_bytes(bytes, peaks), peaks.dram_bytes),
            ),
        ]);
        let all = f64::from(residency.multiprocessors);
        let blocks = residency.blocks as f64;
        // The busiest multiprocessor has this many times the blocks of an even share.
        let spread = (blocks / all).ceil() / (blocks / all);
        let of_sm = |(resource, cycles): (&Resource, &f64)| match resource {
            Resource::Dram | Resource::L2 => (*resource, *cycles),
            _ => (*resource, cycles * spread),
        };
        let warps = blocks * (known.threads()? as f64 / WARP).ceil();
        let waves = residency.waves.0.ceil();
        let each = |amount: f64, cycles: f64| amount / warps * cycles * waves;
        let shared = sum(&[
            Counter::SharedLoadRequests,
            Counter::SharedStoreRequests,
            Counter::MatrixLoads,
        ])?;
        Some(Self {
            used: even.iter().map(of_sm).collect(),
            chain: [
                (
                    Stall::LongScoreboard,
                    each(count(Counter::GlobalLoadRequests)?, EACH_LOAD),
                ),
                (Stall::ShortScoreboard, each(shared, EACH_SHARED)),
                (
                    Stall::Barrier,
                    each(count(Counter::Barriers)?, EACH_BARRIER),
                ),
                (Stall::Wait, each(instructions, EACH_INSTRUCTION)),
            ],
            even,
        })
    }

    fn chain(&self) -> f64 {
        self.chain.iter().map(|(_, cycles)| cycles).sum()
    }

    fn total(&self) -> f64 {
        START + largest(&self.used).1.max(self.chain())
    }

    /// Returns the time without a start and without waiting, with all multiprocessors at work.
    fn at_full_use(&self) -> f64 {
        largest(&self.even).1
    }

    fn uses(&self) -> BTreeMap<Resource, Num> {
        // The shares are of the whole GPU: what idle multiprocessors could do is not used.
        self.even
            .iter()
            .filter(|(_, cycles)| **cycles > 0.0)
            .map(|(resource, cycles)| (*resource, Num(cycles / self.total())))
            .collect()
    }

    fn bound(&self, residency: &Residency) -> Bound {
        let total = self.total();
        if START / total >= MOSTLY_START {
            return Bound::Launch;
        }
        let busy = self.bound_of_busy(total, residency);
        if residency.share_with_blocks() < FEW {
            Bound::FewBlocks {
                busy: Some(Box::new(busy)),
            }
        } else {
            busy
        }
    }

    /// Returns the bound of the multiprocessors that have blocks.
    fn bound_of_busy(&self, total: f64, residency: &Residency) -> Bound {
        let (resource, used) = largest(&self.used);
        let even = self.even.get(&resource).copied().unwrap_or(used);
        if used / total >= BUSY {
            let comes_again = residency.blocks > u64::from(residency.multiprocessors);
            return if comes_again && (used - even) / total >= LOST {
                Bound::Tail
            } else {
                Bound::Resource { resource }
            };
        }
        if residency.lost_by_waves() >= LOST && self.chain() / total >= BUSY {
            return Bound::Tail;
        }
        let longest = self.chain.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let stall = longest.map_or(Stall::Wait, |(stall, _)| *stall);
        Bound::Latency { stall }
    }
}

fn largest(cycles: &BTreeMap<Resource, f64>) -> (Resource, f64) {
    let largest = cycles.iter().max_by(|a, b| a.1.total_cmp(b.1));
    largest.map_or((Resource::IssueSlots, 0.0), |(resource, cycles)| {
        (*resource, *cycles)
    })
}

/// Returns the roofline of the arithmetic with the largest share of its peak, over the bytes that pass L2, or those of
/// device memory if they do not fit into L2.
fn roofline(facts: &SimulationFacts, known: &DiagnosisInput, peaks: &Peaks) -> Option<Roofline> {
    let computed = facts
        .computed
        .iter()
        .filter(|(kind, _)| **kind != Arithmetic::Special)
        .filter_map(|(kind, work)| {
            let peak = peaks.arithmetic(*kind)?;
            Some((*kind, work.operations as f64, peak))
        })
        .max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    let sectors = known.sectors()?;
    let through_l2 = sectors as f64 * SECTOR;
    let from_dram = known.dram_bytes(through_l2, peaks);
    let moved = if from_dram > 0.0 {
        (Resource::Dram, from_dram, peaks.dram_bytes)
    } else {
        (Resource::L2, through_l2, peaks.l2.bytes)
    };
    Roofline::new(computed, moved, None)
}

impl DiagnosisInput<'_> {
    /// Returns the least number of bytes that device memory moves: none if everything stays in L2 from one launch to
    /// the next.
    fn dram_bytes(&self, through_l2: f64, peaks: &Peaks) -> f64 {
        let stays = self.mode == Mode::Warm && self.compulsory_bytes <= peaks.l2_bytes as f64;
        if stays {
            0.0
        } else {
            self.compulsory_bytes.min(through_l2)
        }
    }
}
