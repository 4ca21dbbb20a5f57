//! What to try first, by rules. Where each comes from stands beside its sentence in `report`.

use super::{Bound, Diagnosis, Limiter, Moved, Resource, Wait};
use serde::Serialize;

/// Stable names: programs match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    CoalesceLoads,
    CoalesceStores,
    AvoidBankConflicts,
    MoveFewerBytes,
    ReuseInSharedMemory,
    ReuseInRegisters,
    UseAsynchronousProducts,
    UseTensorCores,
    UseSinglePrecision,
    UseFasterFunctions,
    IssueFewerInstructions,
    KeepMoreWarps,
    LoadEarlier,
    WaitAtFewerBarriers,
    OverlapInstructions,
    UseMoreBlocks,
    EvenOutBlocks,
    JoinLaunches,
}

impl Advice {
    pub const ALL: [Self; 18] = [
        Self::CoalesceLoads,
        Self::CoalesceStores,
        Self::AvoidBankConflicts,
        Self::MoveFewerBytes,
        Self::ReuseInSharedMemory,
        Self::ReuseInRegisters,
        Self::UseAsynchronousProducts,
        Self::UseTensorCores,
        Self::UseSinglePrecision,
        Self::UseFasterFunctions,
        Self::IssueFewerInstructions,
        Self::KeepMoreWarps,
        Self::LoadEarlier,
        Self::WaitAtFewerBarriers,
        Self::OverlapInstructions,
        Self::UseMoreBlocks,
        Self::EvenOutBlocks,
        Self::JoinLaunches,
    ];
}

const MOST: usize = 2;
/// More than this many times the least is worth a look.
const WASTE: f64 = 1.25;
/// Below this occupancy more warps may hide what warps wait for.
const LOW_OCCUPANCY: f64 = 0.5;

/// Of rules that fit, the first ones: what is wasted on the bound before what could do without it.
pub fn advice(diagnosis: &Diagnosis) -> Vec<Advice> {
    let traffic = &diagnosis.traffic;
    let wasted = |moved: Option<Moved>| moved.is_some_and(|moved| moved.waste() > WASTE);
    let coalesce = [
        (wasted(traffic.loads), Advice::CoalesceLoads),
        (wasted(traffic.stores), Advice::CoalesceStores),
    ];
    let conflicts = wasted(traffic.shared_loads) || wasted(traffic.shared_stores);
    let residency = diagnosis.residency.as_ref();
    let few_warps = residency.is_some_and(|it| {
        let by_use = matches!(it.limiter, Limiter::Registers | Limiter::SharedMemory);
        it.occupancy.0 < LOW_OCCUPANCY && by_use
    });
    let on = &On {
        coalesce,
        conflicts,
        few_warps,
    };
    let fitting = rules(&diagnosis.bound, on)
        .into_iter()
        .filter(|(fits, _)| *fits);
    fitting.map(|(_, advice)| advice).take(MOST).collect()
}

/// What rules look at beside the bound.
struct On {
    coalesce: [(bool, Advice); 2],
    conflicts: bool,
    few_warps: bool,
}

/// All of a bound, the first ones first, with whether they fit.
fn rules(bound: &Bound, on: &On) -> Vec<(bool, Advice)> {
    let mut found: Vec<(bool, Advice)> = Vec::new();
    match bound {
        Bound::Resource { resource } => match resource {
            Resource::Dram => {
                found.extend(on.coalesce);
                found.push((true, Advice::MoveFewerBytes));
            }
            Resource::L2 => {
                found.extend(on.coalesce);
                found.push((true, Advice::ReuseInSharedMemory));
                found.push((true, Advice::MoveFewerBytes));
            }
            Resource::SharedMemory => {
                found.push((on.conflicts, Advice::AvoidBankConflicts));
                found.push((true, Advice::ReuseInRegisters));
            }
            Resource::Tensor => found.push((true, Advice::UseAsynchronousProducts)),
            Resource::Fp32 | Resource::Fp16 => {
                found.push((true, Advice::UseTensorCores));
                found.push((true, Advice::IssueFewerInstructions));
            }
            Resource::Fp64 => found.push((true, Advice::UseSinglePrecision)),
            Resource::SpecialFunctions => found.push((true, Advice::UseFasterFunctions)),
            Resource::IssueSlots => found.push((true, Advice::IssueFewerInstructions)),
        },
        Bound::Latency { wait } => {
            found.push(match wait {
                Wait::Global => (true, Advice::LoadEarlier),
                Wait::Shared if on.conflicts => (true, Advice::AvoidBankConflicts),
                Wait::Shared => (true, Advice::ReuseInRegisters),
                Wait::Barrier => (true, Advice::WaitAtFewerBarriers),
                Wait::Arithmetic => (true, Advice::OverlapInstructions),
            });
            found.push((on.few_warps, Advice::KeepMoreWarps));
            found.extend(on.coalesce);
        }
        Bound::FewBlocks { busy } => {
            found.push((true, Advice::UseMoreBlocks));
            let of_busy = busy.as_deref().map(|busy| rules(busy, on));
            found.extend(of_busy.into_iter().flatten());
        }
        Bound::Tail => found.push((true, Advice::EvenOutBlocks)),
        Bound::Launch => found.push((true, Advice::JoinLaunches)),
        Bound::Unknown { .. } => {}
    }
    found
}
