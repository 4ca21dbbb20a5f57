//! Computes the theoretical occupancy: how much of one SM the blocks of a launch can fill.
//!
//! `sm` has the limits of each architecture. The rules of allocation are those of the occupancy calculator that ships
//! with the toolkit (`cuda_occupancy.h`), which the driver's own query follows.

use crate::sm::Sm;
use crate::{Arch, Resources};
use schemars::JsonSchema;
use serde::Serialize;

/// The threads of a warp, on every architecture.
const WARP: u64 = 32;
/// The partitions of an SM, each with a quarter of the registers. A block's warps are spread over them.
const PARTITIONS: u64 = 4;
/// The unit in which registers are allocated to a warp.
const REGISTER_UNIT: u64 = 256;
/// The number of 32-bit registers of an SM, and the most that one block may hold.
const REGISTERS: u64 = 65_536;
/// The limit of the ISA, because R255 reads as zero.
const REGISTERS_PER_THREAD: u64 = 255;
const THREADS_PER_BLOCK: u64 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    pub blocks_per_sm: u32,
    /// Resident warps: blocks times warps of a block.
    pub warps_per_sm: u32,
    /// The most warps that the architecture holds.
    pub max_warps: u32,
    pub limiter: Limiter,
}

impl Occupancy {
    /// Returns the occupancy as a share, 0 to 1.
    pub fn share(&self) -> f64 {
        f64::from(self.warps_per_sm) / f64::from(self.max_warps)
    }
}

/// Returns the occupancy of an SM of `arch` by a launch with this much dynamic shared memory (bytes) and this block
/// size. Returns `None` if the limits of the architecture are unknown.
pub fn resident(
    arch: Arch,
    resources: &Resources,
    dynamic_shared: u32,
    threads_per_block: u64,
) -> Option<Occupancy> {
    let demand = Demand::new(resources, dynamic_shared, threads_per_block);
    occupancy(arch, demand)
}

/// The resource that prevents one more block on the SM. If several do, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    Warps,
    Blocks,
    Registers,
    SharedMemory,
    Barriers,
}

/// The resources that one block of a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Registers of a thread, as PTXAS reports them.
    pub registers: u32,
    /// Static plus dynamic shared memory, in bytes.
    pub shared_bytes: u64,
    /// Named barriers, as PTXAS reports them.
    pub barriers: u32,
    pub threads_per_block: u64,
}

impl Demand {
    pub fn new(resources: &Resources, dynamic_shared: u32, threads_per_block: u64) -> Self {
        Self {
            registers: resources.registers,
            shared_bytes: u64::from(resources.static_shared) + u64::from(dynamic_shared),
            barriers: resources.barriers,
            threads_per_block,
        }
    }
}

/// Returns the resident blocks and warps of one SM that gives as much of its memory as it can to shared memory. A block
/// that cannot be launched at all has 0 blocks. Clusters are not modelled. They can only lower the occupancy.
///
/// Returns `None` if the architecture's limits are unknown here.
pub fn occupancy(arch: Arch, demand: Demand) -> Option<Occupancy> {
    let sm = Sm::for_arch(arch)?;
    if !(1..=THREADS_PER_BLOCK).contains(&demand.threads_per_block) {
        return Some(Occupancy {
            blocks_per_sm: 0,
            warps_per_sm: 0,
            max_warps: sm.warps as u32,
            limiter: Limiter::Warps,
        });
    }
    let warps = demand.threads_per_block.div_ceil(WARP);
    let limits = [
        (Limiter::Warps, sm.warps / warps),
        (Limiter::Blocks, sm.blocks),
        (Limiter::Registers, by_registers(&demand, warps)),
        (Limiter::SharedMemory, by_shared(&sm, &demand)),
        (Limiter::Barriers, by_barriers(&sm, &demand)),
    ];
    // Among equal limits the first one counts.
    let (limiter, blocks) = limits
        .into_iter()
        .min_by_key(|(_, blocks)| *blocks)
        .unwrap_or((Limiter::Warps, 0));
    // Both numbers are at most `sm.warps`.
    Some(Occupancy {
        blocks_per_sm: blocks as u32,
        warps_per_sm: (blocks * warps) as u32,
        max_warps: sm.warps as u32,
        limiter,
    })
}

/// A resource of which one block needs more than its architecture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct Excess {
    /// The resource. `Warps` stands for the threads of the block.
    pub resource: Limiter,
    /// The amount in threads, registers, barriers or bytes.
    pub asked: u64,
    /// The most that one block may have.
    pub most: u64,
}

/// Returns the resource of which a block needs more than it can have on `arch`, so that no launch succeeds. Returns
/// `None` if a block fits, or if the limits of the architecture are unknown.
pub fn find_excess(arch: Arch, demand: Demand) -> Option<Excess> {
    let Occupancy {
        blocks_per_sm: 0,
        limiter,
        ..
    } = occupancy(arch, demand)?
    else {
        return None;
    };
    let sm = Sm::for_arch(arch)?;
    let (asked, most) = match limiter {
        Limiter::Warps | Limiter::Blocks => (demand.threads_per_block, THREADS_PER_BLOCK),
        Limiter::Registers => {
            let registers = u64::from(demand.registers);
            (registers * demand.threads_per_block, REGISTERS)
        }
        Limiter::SharedMemory => (demand.shared_bytes, sm.shared - sm.shared_reserved),
        Limiter::Barriers => (demand.barriers.into(), sm.barriers.unwrap_or(u64::MAX)),
    };
    Some(Excess {
        resource: limiter,
        asked,
        most,
    })
}

fn by_registers(demand: &Demand, warps: u64) -> u64 {
    let registers = u64::from(demand.registers);
    let each_warp = (registers * WARP).next_multiple_of(REGISTER_UNIT);
    // A launch is checked as if every partition took the same number of the block's warps.
    let assumed = each_warp * warps.next_multiple_of(PARTITIONS);
    if registers > REGISTERS_PER_THREAD || assumed > REGISTERS {
        return 0;
    }
    (REGISTERS / PARTITIONS)
        .checked_div(each_warp)
        .map_or(u64::MAX, |warps_of_partition| {
            warps_of_partition * PARTITIONS / warps
        })
}

fn by_shared(sm: &Sm, demand: &Demand) -> u64 {
    let bytes = demand.shared_bytes.saturating_add(sm.shared_reserved);
    if bytes == 0 {
        return u64::MAX;
    }
    // Both are counted in units, which rounds the block's memory up.
    sm.shared / sm.shared_unit / bytes.div_ceil(sm.shared_unit)
}

fn by_barriers(sm: &Sm, demand: &Demand) -> u64 {
    sm.barriers
        .and_then(|all| all.checked_div(u64::from(demand.barriers)))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sm::SMS;
    use proptest::prelude::*;

    fn arch(name: &str) -> Arch {
        name.parse().unwrap()
    }

    /// Returns the occupancy of a kernel with at most one named barrier, which never limits.
    fn plain(
        arch: Arch,
        registers: u32,
        shared_bytes: u64,
        threads_per_block: u64,
    ) -> Option<Occupancy> {
        occupancy(
            arch,
            Demand {
                registers,
                shared_bytes,
                barriers: 1,
                threads_per_block,
            },
        )
    }

    /// Returns the blocks and the limiter.
    fn fit(name: &str, registers: u32, shared: u64, threads: u64) -> (u32, Limiter) {
        let occupancy = plain(arch(name), registers, shared, threads).unwrap();
        (occupancy.blocks_per_sm, occupancy.limiter)
    }

    /// Worked with the calculator of CUDA 13.0 (`cudaOccMaxActiveBlocksPerMultiprocessor` of
    /// cuda_occupancy.h, compiled on the host with the limits of each device).
    #[test]
    fn as_the_toolkits_calculator() {
        use Limiter::{Blocks, Registers, SharedMemory, Warps};
        for (name, registers, shared, threads, want) in [
            ("sm_75", 32, 0, 256, (4, Warps)),
            ("sm_75", 64, 0, 256, (4, Warps)),
            ("sm_75", 65, 0, 256, (3, Registers)),
            ("sm_75", 32, 32 * 1024, 128, (2, SharedMemory)),
            ("sm_75", 32, 64 * 1024, 128, (1, SharedMemory)),
            ("sm_80", 32, 0, 32, (32, Blocks)),
            ("sm_80", 32, 0, 1024, (2, Warps)),
            ("sm_80", 128, 48 * 1024, 256, (2, Registers)),
            ("sm_80", 32, 163 * 1024, 128, (1, SharedMemory)),
            ("sm_80", 32, 48 * 1024, 128, (3, SharedMemory)),
            ("sm_86", 40, 0, 256, (6, Warps)),
            ("sm_86", 32, 0, 64, (16, Blocks)),
            ("sm_86", 168, 0, 128, (3, Registers)),
            ("sm_89", 80, 48 * 1024, 128, (2, SharedMemory)),
            ("sm_89", 87, 40 * 1024, 128, (2, SharedMemory)),
            ("sm_89", 96, 16 * 1024, 128, (5, Registers)),
            ("sm_89", 32, 0, 32, (24, Blocks)),
            ("sm_90", 128, 48 * 1024, 128, (4, Registers)),
            ("sm_90", 64, 48 * 1024, 128, (4, SharedMemory)),
            ("sm_90", 168, 0, 384, (1, Registers)),
            ("sm_90", 255, 100 * 1024, 128, (2, Registers)),
            ("sm_90", 16, 227 * 1024, 1024, (1, SharedMemory)),
            ("sm_90", 33, 0, 96, (16, Registers)),
            ("sm_100", 64, 64 * 1024, 256, (3, SharedMemory)),
            ("sm_120", 64, 48 * 1024, 256, (2, SharedMemory)),
            ("sm_120", 40, 0, 512, (3, Warps)),
        ] {
            assert_eq!(
                fit(name, registers, shared, threads),
                want,
                "{name} {registers} registers {shared} bytes {threads} threads"
            );
        }
    }

    #[test]
    fn as_the_toolkits_calculator_on_random_demands() {
        let table = include_str!("../tests/fixtures/occupancy.txt");
        let mut compared = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(' ').collect();
            let demand = Demand {
                registers: fields[1].parse().unwrap(),
                shared_bytes: fields[2].parse().unwrap(),
                barriers: fields[3].parse().unwrap(),
                threads_per_block: fields[4].parse().unwrap(),
            };
            let occupancy = occupancy(arch(fields[0]), demand).unwrap();
            assert_eq!(occupancy.blocks_per_sm.to_string(), fields[5], "{line}");
            compared += 1;
        }
        assert_eq!(compared, 800);
    }

    #[test]
    fn the_reserved_kibibyte_and_the_unit_count() {
        // 228 KiB hold four blocks of 56 KiB with 1 KiB each. One more byte takes another 128.
        assert_eq!(fit("sm_90", 32, 56 * 1024, 128).0, 4);
        assert_eq!(fit("sm_90", 32, 56 * 1024 + 1, 128).0, 3);
        // The share is 1.
        let full = plain(arch("sm_90"), 32, 0, 256).unwrap();
        assert_eq!((full.warps_per_sm, full.share()), (64, 1.0));
    }

    #[test]
    fn launches_that_do_not_fit_have_no_block() {
        assert_eq!(fit("sm_90", 65, 0, 1024), (0, Limiter::Registers));
        assert_eq!(
            fit("sm_90", 32, 228 * 1024, 128),
            (0, Limiter::SharedMemory)
        );
        assert_eq!(fit("sm_90", 256, 0, 32), (0, Limiter::Registers));
        assert_eq!(fit("sm_90", 32, 0, 1025), (0, Limiter::Warps));
        assert_eq!(fit("sm_90", 32, 0, 0), (0, Limiter::Warps));
        assert_eq!(fit("sm_90", 32, u64::MAX, u64::MAX).0, 0);
        assert_eq!(fit("sm_90", u32::MAX, u64::MAX, 32).0, 0);
    }

    #[test]
    fn names_the_resource_of_which_a_block_asks_too_much() {
        let find = |name: &str, registers, shared_bytes, threads_per_block| {
            let demand = Demand {
                registers,
                shared_bytes,
                barriers: 1,
                threads_per_block,
            };
            let excess = find_excess(arch(name), demand);
            excess.map(|excess| (excess.resource, excess.asked, excess.most))
        };
        // CUDA C++ Programming Guide, "Compute Capabilities": maximum amount of shared memory per thread block.
        for (name, kib) in [
            ("sm_75", 64),
            ("sm_80", 163),
            ("sm_86", 99),
            ("sm_89", 99),
            ("sm_90", 227),
        ] {
            let most = kib * 1024;
            let excess = Some((Limiter::SharedMemory, most + 1, most));
            assert_eq!(find(name, 32, most, 256), None, "{name}");
            assert_eq!(find(name, 32, most + 1, 256), excess, "{name}");
        }
        let registers = Some((Limiter::Registers, 66_560, 65_536));
        assert_eq!(find("sm_90", 65, 0, 1024), registers);
        assert_eq!(find("sm_90", 64, 0, 1024), None);
        assert_eq!(
            find("sm_90", 32, 0, 1025),
            Some((Limiter::Warps, 1025, 1024))
        );
        assert_eq!(find("sm_70", 32, 1 << 20, 1025), None, "not in the tables");
    }

    #[test]
    fn barriers_limit_from_hopper_on() {
        let blocks = |name: &str, barriers| {
            let demand = Demand {
                registers: 32,
                shared_bytes: 0,
                barriers,
                threads_per_block: 64,
            };
            let occupancy = occupancy(arch(name), demand).unwrap();
            (occupancy.blocks_per_sm, occupancy.limiter)
        };
        assert_eq!(blocks("sm_90", 0), (32, Limiter::Warps));
        assert_eq!(blocks("sm_90", 16), (4, Limiter::Barriers));
        assert_eq!(blocks("sm_120", 2), (12, Limiter::Barriers));
        assert_eq!(blocks("sm_89", 16), (24, Limiter::Warps));
    }

    #[test]
    fn an_unknown_architecture_has_none() {
        for name in ["sm_70", "sm_88", "sm_91", "sm_102", "sm_130"] {
            assert_eq!(plain(arch(name), 32, 0, 128), None, "{name}");
        }
        // Targets for one chip or family have the chip's limits.
        assert_eq!(
            plain(arch("sm_90a"), 40, 0, 128),
            plain(arch("sm_90"), 40, 0, 128)
        );
    }

    proptest! {
        #[test]
        fn more_of_anything_never_fits_better(
            registers in 0u32..300, shared in 0u64..300_000, barriers in 0u32..20, threads in 0u64..1200,
            more in 0u32..5000, which in 0usize..3,
        ) {
            for ((major, minor), _) in SMS {
                let arch = Arch { major, minor, suffix: None };
                let demand = Demand { registers, shared_bytes: shared, barriers, threads_per_block: threads };
                let mut larger = demand;
                match which {
                    0 => larger.registers += more,
                    1 => larger.shared_bytes += u64::from(more),
                    _ => larger.barriers += more,
                }
                let now = occupancy(arch, demand).unwrap();
                let then = occupancy(arch, larger).unwrap();
                prop_assert!(then.blocks_per_sm <= now.blocks_per_sm);
                prop_assert!(now.warps_per_sm <= now.max_warps);
            }
        }
    }
}
