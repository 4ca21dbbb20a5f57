//! How much of the GPU the blocks of a launch fill.

use super::Side;
use super::counts::blocks;
use super::diagnosis::peaks::Peaks;
use model::occupancy::{self, Occupancy};
use model::{EntryFacts, Launch, Resources};

/// One step of a case on one side.
#[derive(Clone, Copy, Debug)]
pub struct Resident<'a> {
    pub entry: &'a EntryFacts,
    pub resources: &'a Resources,
    pub launch: &'a Launch,
    pub occupancy: Occupancy,
    pub blocks: u64,
    /// The number in the GPU of the run; in a simulated one, in the GPU that stands for its architecture.
    pub multiprocessors: Option<u32>,
}

impl Resident<'_> {
    pub fn shared(&self) -> u64 {
        u64::from(self.resources.static_shared) + u64::from(self.launch.dynamic_shared)
    }

    /// Blocks over those that are resident at a time. `None` where the GPU is not known, or nothing fits.
    pub fn waves(&self) -> Option<f64> {
        self.waves_of(self.blocks)
    }

    /// The waves of another grid.
    pub fn waves_of(&self, blocks: u64) -> Option<f64> {
        let at_a_time = u64::from(self.occupancy.blocks_per_sm) * u64::from(self.multiprocessors?);
        (at_a_time > 0).then(|| blocks as f64 / at_a_time as f64)
    }
}

/// The residency of each step, in their order. None where host code launches, or the architecture's limits are not known.
pub fn resident<'a>(side: &Side<'a>) -> Vec<Resident<'a>> {
    let entries = side.build.map_or(&[][..], |build| &build.entries);
    let arch = side.unit.id.arch;
    let multiprocessors = match side.device() {
        Some(device) => Some(device.multiprocessors),
        None => Peaks::assumed(arch).map(|peaks| peaks.multiprocessors),
    };
    let steps = entries.iter().zip(&side.case.steps);
    let steps = steps.filter_map(|(entry, step)| {
        let launch = step.launch.as_ref()?;
        let resources = entry.resources.as_ref()?;
        let threads = launch.threads_per_block();
        Some(Resident {
            entry,
            resources,
            launch,
            occupancy: occupancy::resident(arch, resources, launch.dynamic_shared, threads)?,
            blocks: blocks(launch),
            multiprocessors,
        })
    });
    steps.collect()
}
