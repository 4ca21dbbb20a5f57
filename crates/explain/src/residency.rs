//! Computes how much of the GPU the blocks of a launch fill.

use super::CaseSide;
use super::counts::blocks;
use super::diagnosis::peaks::Peaks;
use model::occupancy::{self, Occupancy};
use model::{Arch, EntryFacts, Resources};

/// The blocks of one entry on one side, in a launch or in no particular launch.
#[derive(Clone, Copy, Debug)]
pub struct Resident<'a> {
    pub entry: &'a EntryFacts,
    pub resources: &'a Resources,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared: u64,
    pub occupancy: Occupancy,
    /// The grid, or `None` if nothing is launched.
    pub grid: Option<Grid>,
}

#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub blocks: u64,
    /// The number of multiprocessors of the run's GPU, or in the simulator of the GPU that represents its architecture.
    pub multiprocessors: Option<u32>,
}

impl Resident<'_> {
    /// Returns the blocks over the number that is resident at a time. Returns `None` if nothing is launched, the GPU is
    /// unknown, or nothing fits.
    pub fn waves(&self) -> Option<f64> {
        self.waves_of(self.grid?.blocks)
    }

    /// Returns the waves of another grid.
    pub fn waves_of(&self, blocks: u64) -> Option<f64> {
        let at_a_time =
            u64::from(self.occupancy.blocks_per_sm) * u64::from(self.grid?.multiprocessors?);
        (at_a_time > 0).then(|| blocks as f64 / at_a_time as f64)
    }
}

/// Returns the residency of each step, in their order. Returns nothing if host code launches, or if the architecture's
/// limits are unknown.
pub fn for_launches<'a>(side: &CaseSide<'a>) -> Vec<Resident<'a>> {
    let entries: &'a [EntryFacts] = side.build.map_or(&[], |build| &build.entries);
    let arch = side.unit.id.arch;
    let multiprocessors = match side.device() {
        Some(device) => Some(device.multiprocessors),
        None => Peaks::assumed(arch).map(|peaks| peaks.multiprocessors),
    };
    side.case
        .choose(entries)
        .into_iter()
        .zip(&side.case.steps)
        .filter_map(|(entry, step)| {
            let launch = step.launch.as_ref()?;
            let resources = entry.resources.as_ref()?;
            let threads = launch.threads_per_block();
            Some(Resident {
                entry,
                resources,
                shared: u64::from(resources.static_shared) + u64::from(launch.dynamic_shared),
                occupancy: occupancy::resident(arch, resources, launch.dynamic_shared, threads)?,
                grid: Some(Grid {
                    blocks: blocks(launch),
                    multiprocessors,
                }),
            })
        })
        .collect()
}

/// Returns the residency of each entry in the largest block that its source allows, with static shared memory alone.
/// Entries without a bound in the source are left out.
pub fn for_largest_blocks(arch: Arch, entries: &[EntryFacts]) -> Vec<Resident<'_>> {
    entries
        .iter()
        .filter_map(|entry| {
            let resources = entry.resources.as_ref()?;
            let threads = u64::from(entry.bounds.threads?);
            Some(Resident {
                entry,
                resources,
                shared: u64::from(resources.static_shared),
                occupancy: occupancy::resident(arch, resources, 0, threads)?,
                grid: None,
            })
        })
        .collect()
}
