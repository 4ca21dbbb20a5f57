//! Gathers everything that a diagnosis uses of one case on one side.

use super::peaks::Peaks;
use super::{Moved, Residency, Theoretical, Traffic, Unknown};
use judge::{View, unit_to_simulate};
use model::occupancy::resident;
use model::{
    Arch, BuildFacts, Case, CaseId, Counter, DeviceFacts, Launch, Mode, Plan, ProfileFacts,
    Resources, Role, SimulationFacts, Unit,
};

/// Everything that a diagnosis needs of a case.
pub struct DiagnosisInput<'a> {
    pub arch: Arch,
    /// The GPU, or `None` in the simulator.
    pub device: Option<&'a DeviceFacts>,
    /// `None` if several entries are one launch, or if host code launches.
    pub entry: Option<(Launch, &'a Resources)>,
    /// The simulation of the first seed that was simulated.
    pub simulation: Option<&'a SimulationFacts>,
    pub p50_ns: Option<f64>,
    /// The profiles of all repeats. They are empty if the case was not profiled.
    pub profiles: Vec<&'a ProfileFacts>,
    /// The bytes of all tensors that have to be read or written once.
    pub compulsory_bytes: f64,
    pub mode: Mode,
}

impl<'a> DiagnosisInput<'a> {
    pub fn from_view(view: View<'_, 'a>, id: &CaseId) -> Result<Self, Unknown> {
        let case = view.plan().case(id).ok_or(Unknown::NotSeen)?;
        let device = view.device().ok();
        let unit = match device {
            Some(_) => view.shown_unit(id),
            None => unit_to_estimate(view.plan(), id),
        };
        let unit = unit.ok_or(Unknown::NotSeen)?;
        let build = view.build(&unit.id).ok();
        let simulations = view.at(unit.id.arch).simulations(id);
        Ok(Self {
            arch: unit.id.arch,
            device,
            entry: build.and_then(|build| only_entry(case, build)),
            simulation: simulations.first().map(|(_, facts)| *facts),
            p50_ns: view.p50_ns(id),
            profiles: view.got_profiles(id),
            compulsory_bytes: compulsory_bytes(case),
            mode: view.plan().timing.mode,
        })
    }
}

/// Returns the unit of the newest architecture that a GPU is known for. The estimate is for that GPU.
fn unit_to_estimate<'a>(plan: &'a Plan, id: &CaseId) -> Option<&'a Unit> {
    plan.units
        .iter()
        .filter(|unit| (&unit.id.kernel, &unit.id.variant) == (&id.kernel, &id.variant))
        .filter(|unit| Peaks::assumed(unit.id.arch).is_some())
        .max_by_key(|unit| (unit.id.arch.major, unit.id.arch.minor))
        .or_else(|| unit_to_simulate(plan, id))
}

fn only_entry<'a>(case: &Case, build: &'a BuildFacts) -> Option<(Launch, &'a Resources)> {
    match (
        case.steps.as_slice(),
        case.choose(&build.entries).as_slice(),
    ) {
        // With a memset or copy, the times are not the entry's alone.
        ([step], [entry]) if step.is_bare() => Some((step.launch?, entry.resources.as_ref()?)),
        _ => None,
    }
}

/// Returns the bytes that have to be moved: filled inputs are read, and outputs are written. Working memory may stay
/// where it is.
fn compulsory_bytes(case: &Case) -> f64 {
    case.tensors
        .iter()
        .map(|tensor| {
            let bytes = (tensor.len() * tensor.elem.size()) as f64;
            match tensor.role {
                Role::In | Role::Out => bytes,
                Role::Inout => 2.0 * bytes,
                Role::Scratch | Role::Reference => 0.0,
            }
        })
        .sum()
}

impl DiagnosisInput<'_> {
    /// Returns the threads of one block.
    pub fn threads(&self) -> Option<u64> {
        self.entry.map(|(launch, _)| launch.threads_per_block())
    }

    /// Returns a counter, or `None` if it was not counted.
    pub fn count(&self, counter: Counter) -> Option<u64> {
        let facts = self.simulation?;
        let counters = [&facts.counters, &facts.information];
        let mut counters = counters.into_iter();
        counters.find_map(|counters| counters.get(&counter).copied())
    }

    /// Returns the sectors that loads, stores and copies move through L2.
    pub fn sectors(&self) -> Option<u64> {
        let always = [Counter::GlobalLoadSectors, Counter::GlobalStoreSectors];
        let always = always.into_iter().map(|counter| self.count(counter));
        // These are only counted if there are any.
        let copies = [
            Counter::BulkLoadSectors,
            Counter::BulkStoreSectors,
            Counter::BulkReductionSectors,
        ];
        Some(
            always.sum::<Option<u64>>()?
                + copies
                    .into_iter()
                    .filter_map(|counter| self.count(counter))
                    .sum::<u64>(),
        )
    }

    pub fn traffic(&self) -> Traffic {
        let moved = |[requests, moved, ideal]: [Counter; 3]| {
            let moved = Moved {
                requests: self.count(requests)?,
                moved: self.count(moved)?,
                ideal: self.count(ideal)?,
            };
            (moved.requests > 0).then_some(moved)
        };
        Traffic {
            loads: moved([
                Counter::GlobalLoadRequests,
                Counter::GlobalLoadSectors,
                Counter::GlobalLoadSectorsIdeal,
            ]),
            stores: moved([
                Counter::GlobalStoreRequests,
                Counter::GlobalStoreSectors,
                Counter::GlobalStoreSectorsIdeal,
            ]),
            shared_loads: moved([
                Counter::SharedLoadRequests,
                Counter::SharedLoadWavefronts,
                Counter::SharedLoadWavefrontsIdeal,
            ]),
            shared_stores: moved([
                Counter::SharedStoreRequests,
                Counter::SharedStoreWavefronts,
                Counter::SharedStoreWavefrontsIdeal,
            ]),
        }
    }

    /// Returns the residency on a GPU with this number of multiprocessors. Returns `None` if the architecture's limits are
    /// unknown, or if nothing fits.
    pub fn residency(&self, multiprocessors: u32) -> Option<Residency> {
        let (launch, resources) = self.entry?;
        let threads = launch.threads_per_block();
        let fits = resident(self.arch, resources, launch.dynamic_shared, threads)?;
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product();
        let at_once = u64::from(fits.blocks_per_sm) * u64::from(multiprocessors);
        (at_once > 0).then(|| Residency {
            blocks,
            multiprocessors,
            waves: (blocks as f64 / at_once as f64).into(),
            achieved: None,
            theoretical: Some(Theoretical {
                occupancy: fits.share().into(),
                blocks_per_sm: fits.blocks_per_sm,
                limiter: fits.limiter,
            }),
        })
    }
}
