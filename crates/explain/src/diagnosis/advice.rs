//! Advises what to try first, by rules. `report` has a sentence and a source for each.

use super::{Bound, Residency, Resource, Waste};
use model::Stall;
use model::occupancy::Limiter;
use serde::Serialize;

model::named! {
/// The advice. Names are stable, because programs match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Advice {
    CoalesceLoads = "coalesce-loads",
    CoalesceStores = "coalesce-stores",
    AvoidBankConflicts = "avoid-bank-conflicts",
    MoveFewerBytes = "move-fewer-bytes",
    ReuseInSharedMemory = "reuse-in-shared-memory",
    ReuseInRegisters = "reuse-in-registers",
    UseAsynchronousProducts = "use-asynchronous-products",
    UseTensorCores = "use-tensor-cores",
    UseSinglePrecision = "use-single-precision",
    UseFasterFunctions = "use-faster-functions",
    IssueFewerInstructions = "issue-fewer-instructions",
    KeepMoreWarps = "keep-more-warps",
    LoadEarlier = "load-earlier",
    WaitAtFewerBarriers = "wait-at-fewer-barriers",
    OverlapInstructions = "overlap-instructions",
    UseMoreBlocks = "use-more-blocks",
    EvenOutBlocks = "even-out-blocks",
    JoinLaunches = "join-launches",
}
}

const MOST: usize = 2;
/// Below this occupancy more warps may hide what warps wait for.
const LOW_OCCUPANCY: f64 = 0.5;

/// Returns the first rules that apply: waste of the bound resource before rules that avoid using it.
pub fn advice(bound: &Bound, waste: &Waste, residency: Option<&Residency>) -> Vec<Advice> {
    let theoretical = residency.and_then(|residency| residency.theoretical.as_ref());
    let on = &On {
        coalesce: [
            (waste.loads, Advice::CoalesceLoads),
            (waste.stores, Advice::CoalesceStores),
        ],
        conflicts: waste.conflicts,
        few_warps: theoretical.is_some_and(|theoretical| {
            let by_use = matches!(
                theoretical.limiter,
                Limiter::Registers | Limiter::SharedMemory
            );
            theoretical.occupancy.0 < LOW_OCCUPANCY && by_use
        }),
    };
    rules(bound, on)
        .into_iter()
        .filter(|(fits, _)| *fits)
        .map(|(_, advice)| advice)
        .take(MOST)
        .collect()
}

/// The facts that rules look at in addition to the bound.
struct On {
    coalesce: [(bool, Advice); 2],
    conflicts: bool,
    few_warps: bool,
}

/// Returns all rules for a bound in order of preference. Each has a flag that is true if it applies.
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
        Bound::Latency { stall } => {
            found.extend(match stall {
                Stall::LongScoreboard | Stall::LgThrottle | Stall::TexThrottle | Stall::Drain => {
                    Some((true, Advice::LoadEarlier))
                }
                Stall::ShortScoreboard | Stall::MioThrottle if on.conflicts => {
                    Some((true, Advice::AvoidBankConflicts))
                }
                Stall::ShortScoreboard | Stall::MioThrottle => {
                    Some((true, Advice::ReuseInRegisters))
                }
                Stall::Barrier | Stall::Membar | Stall::WarpgroupArrive => {
                    Some((true, Advice::WaitAtFewerBarriers))
                }
                Stall::Wait | Stall::MathPipeThrottle | Stall::DispatchStall | Stall::Gmma => {
                    Some((true, Advice::OverlapInstructions))
                }
                // For these states no rule has advice that suits most kernels.
                Stall::NotSelected
                | Stall::Selected
                | Stall::NoInstruction
                | Stall::BranchResolving
                | Stall::ImcMiss
                | Stall::Sleeping
                | Stall::Misc => None,
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
