//! Determines what bounds a case that was timed on a GPU and not profiled, as far as its launch and its time make it
//! certain.

use super::peaks::Peaks;
use super::view::DiagnosisInput;
use super::{BUSY, Basis, Bound, Diagnosis, Residency, Resource, Unknown, Waste, advice};
use model::{DeviceFacts, Mode, Num};
use std::collections::BTreeMap;

/// A faster launch does hardly anything. An empty kernel in a graph of launches takes 1.3 us (H100), and a launch that
/// consists mostly of that is bound by launching.
const MOSTLY_START_NS: f64 = 2_600.0;
/// The share of multiprocessors at work up to which the other ones are the bound.
const FEW: f64 = 0.5;
/// The share of idle multiprocessors, on average over the last wave, that makes it the bound.
const LOST: f64 = 0.25;

pub fn diagnose(known: &DiagnosisInput, device: &DeviceFacts) -> Diagnosis {
    let peaks = Peaks::for_device(device);
    let residency = known.residency(device.multiprocessors);
    let least_bytes = (known.mode == Mode::Cold || known.compulsory_bytes > device.l2_bytes as f64)
        .then_some(known.compulsory_bytes);
    let use_of_dram = peaks.as_ref().and_then(|peaks| {
        let seconds = known.p50_ns? / 1e9;
        Some(least_bytes? / seconds / peaks.dram_bytes)
    });
    let bound = bound(known.p50_ns, residency.as_ref(), use_of_dram);
    let is_dram = matches!(bound, Bound::Resource { .. });
    let waste = Waste::default();
    Diagnosis {
        basis: Basis::Times {
            gpu: device.name.clone(),
        },
        advice: advice(&bound, &waste, residency.as_ref()),
        bound: match (bound, peaks) {
            (Bound::Unknown { .. }, None) => Bound::Unknown {
                why: Unknown::Gpu {
                    name: device.name.clone(),
                },
            },
            (bound, _) => bound,
        },
        uses: use_of_dram
            .map(|share| (Resource::Dram, Num(share)))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        reached: use_of_dram.filter(|_| is_dram).map(Num),
        roofline: None,
        residency,
        traffic: known.traffic(),
        time_ns: known.p50_ns.map(Num),
        estimated_ns: None,
        least_ns: None,
        stalls: BTreeMap::new(),
    }
}

fn bound(p50_ns: Option<f64>, residency: Option<&Residency>, use_of_dram: Option<f64>) -> Bound {
    let Some(ns) = p50_ns else {
        return Bound::Unknown {
            why: Unknown::NotSeen,
        };
    };
    if use_of_dram.is_some_and(|share| share >= BUSY) {
        return Bound::Resource {
            resource: Resource::Dram,
        };
    }
    if ns < MOSTLY_START_NS {
        return Bound::Launch;
    }
    if let Some(on) = residency {
        if on.share_with_blocks() <= FEW {
            return Bound::FewBlocks { busy: None };
        }
        if on.lost_by_waves() >= LOST {
            return Bound::Tail;
        }
    }
    Bound::Unknown {
        why: Unknown::NotProfiled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(blocks: u64, waves: f64) -> Residency {
        Residency {
            blocks,
            multiprocessors: 132,
            waves: Num(waves),
            theoretical: None,
            achieved: None,
        }
    }

    #[test]
    fn names_a_bound_only_if_it_is_certain() {
        let not_profiled = Bound::Unknown {
            why: Unknown::NotProfiled,
        };
        let dram = Bound::Resource {
            resource: Resource::Dram,
        };
        for (ns, residency, share, want) in [
            (2_000.0, on(1000, 3.8), None, Bound::Launch),
            (50_000.0, on(60, 0.2), None, Bound::FewBlocks { busy: None }),
            (50_000.0, on(100, 0.4), None, not_profiled.clone()),
            (50_000.0, on(290, 1.1), None, Bound::Tail),
            (50_000.0, on(500, 1.9), None, not_profiled.clone()),
            (50_000.0, on(290, 1.1), Some(0.8), dram),
            (50_000.0, on(500, 1.9), Some(0.3), not_profiled),
        ] {
            assert_eq!(
                bound(Some(ns), Some(&residency), share),
                want,
                "{ns} {residency:?}"
            );
        }
        let unseen = Unknown::NotSeen;
        assert_eq!(bound(None, None, None), Bound::Unknown { why: unseen });
    }
}
