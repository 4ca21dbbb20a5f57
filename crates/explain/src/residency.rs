//! How much of the GPU the blocks of a launch fill.

use super::CaseSide;
use super::counts::blocks;
use super::diagnosis::peaks::Peaks;
use model::occupancy::{self, Occupancy};
use model::{Arch, EntryFacts, Resources};

/// Blocks of one entry on one side: of a launch, or of no launch in particular.
#[derive(Clone, Copy, Debug)]
pub struct Resident<'a> {
    pub entry: &'a EntryFacts,
    pub resources: &'a Resources,
    /// Bytes of a block, static and dynamic.
    pub shared: u64,
    pub occupancy: Occupancy,
    /// `None` where nothing is launched.
    pub grid: Option<Grid>,
}

#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub blocks: u64,
    /// The number in the GPU of the run; in a simulated one, in the GPU that stands for its architecture.
    pub multiprocessors: Option<u32>,
}

impl Resident<'_> {
    /// Blocks over those that are resident at a time. `None` where nothing is launched, the GPU is not known, or nothing
    /// fits.
    pub fn waves(&self) -> Option<f64> {
        self.waves_of(self.grid?.blocks)
    }

    /// The waves of another grid.
    pub fn waves_of(&self, blocks: u64) -> Option<f64> {
        let at_a_time =
            u64::from(self.occupancy.blocks_per_sm) * u64::from(self.grid?.multiprocessors?);
        (at_a_time > 0).then(|| blocks as f64 / at_a_time as f64)
    }
}

/// The residency of each step, in their order. None where host code launches, or the architecture's limits are not known.
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

/// The residency of each entry in the largest block that its source allows, with static shared memory alone. None where the
/// source sets no bound.
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
