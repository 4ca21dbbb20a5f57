//! What a record knows of one case of one side.

use super::peaks::Peaks;
use super::{Moved, Residency, Theoretical, Traffic, Unknown};
use judge::{unit_for, unit_to_simulate};
use model::occupancy::{Demand, occupancy};
use model::{
    Arch, BuildFacts, Case, CaseId, Counter, DeviceFacts, Environment, Evidence, Launch, Mode,
    Plan, ProfileFacts, Record, Resources, Role, SimulationFacts, TimeFacts, Unit, UnitId,
};

/// Head or base: what was planned, and what was seen of it.
pub struct Side<'a> {
    plan: &'a Plan,
    environment: &'a Environment,
    evidence: Vec<&'a Evidence>,
    /// Which half of the pairs is this one's.
    is_base: bool,
}

/// All that a diagnosis needs of a case.
pub struct View<'a> {
    pub arch: Arch,
    /// `None` in the simulator.
    pub device: Option<&'a DeviceFacts>,
    /// `None` where several entries are one launch, or host code launches.
    pub entry: Option<(Launch, &'a Resources)>,
    /// Of the first seed that was simulated.
    pub simulation: Option<&'a SimulationFacts>,
    pub p50_ns: Option<f64>,
    /// All repeats; none where it was not profiled.
    pub profiles: Vec<&'a ProfileFacts>,
    /// Bytes of all tensors that have to be read or written once.
    pub compulsory_bytes: f64,
    pub mode: Mode,
}

impl<'a> Side<'a> {
    pub fn head(record: &'a Record) -> Self {
        Self {
            plan: &record.plan,
            environment: &record.environment,
            evidence: record.evidence.iter().collect(),
            is_base: false,
        }
    }

    /// The revision that the record was held against, if any. Pairs are evidence of both.
    pub fn base(record: &'a Record) -> Option<Self> {
        let base = record.policy.base.as_ref()?;
        let of_it = |piece: &'a Evidence| match piece {
            Evidence::Pair { .. } => Some(piece),
            _ => piece.of_base(),
        };
        Some(Self {
            plan: &base.plan,
            environment: &record.environment,
            evidence: record.evidence.iter().filter_map(of_it).collect(),
            is_base: true,
        })
    }

    pub fn has(&self, id: &CaseId) -> bool {
        self.plan.case(id).is_some()
    }

    pub(super) fn view(&self, id: &CaseId) -> Result<View<'a>, Unknown> {
        let case = self.plan.case(id).ok_or(Unknown::NotSeen)?;
        let device = self.environment.device.got();
        let unit = match device {
            Some(device) => unit_for(self.plan, id, device),
            None => self.unit_to_estimate(id),
        };
        let unit = unit.ok_or(Unknown::NotSeen)?;
        let build = self.build(unit);
        Ok(View {
            arch: unit.id.arch,
            device,
            entry: build.and_then(|build| only_entry(case, build)),
            simulation: self.simulation(id, build),
            p50_ns: self.p50_ns(id),
            profiles: self.profiles(id),
            compulsory_bytes: compulsory_bytes(case),
            mode: self.plan.timing.mode,
        })
    }

    fn build(&self, unit: &Unit) -> Option<&'a BuildFacts> {
        self.evidence.iter().find_map(|piece| match piece {
            Evidence::Build { unit: of, facts } if *of == unit.id => facts.got(),
            _ => None,
        })
    }

    /// The newest architecture of which a GPU is known: what is estimated is for that one.
    fn unit_to_estimate(&self, id: &CaseId) -> Option<&'a Unit> {
        let units = self.plan.units.iter();
        let units =
            units.filter(|unit| (&unit.id.kernel, &unit.id.variant) == (&id.kernel, &id.variant));
        let known = units.filter(|unit| Peaks::assumed(unit.id.arch).is_some());
        known
            .max_by_key(|unit| (unit.id.arch.major, unit.id.arch.minor))
            .or_else(|| unit_to_simulate(self.plan, id))
    }

    /// What was seen of the same PTX, for whichever architecture it was run.
    fn simulation(&self, id: &CaseId, build: Option<&BuildFacts>) -> Option<&'a SimulationFacts> {
        let ptx = build?.ptx.as_ref();
        self.evidence.iter().find_map(|piece| match piece {
            Evidence::Simulation {
                case, arch, facts, ..
            } if case == id => {
                let unit = match arch {
                    None => unit_to_simulate(self.plan, id)?,
                    Some(arch) => self.plan.unit(&UnitId {
                        kernel: id.kernel.clone(),
                        variant: id.variant.clone(),
                        arch: *arch,
                    })?,
                };
                let is_same = self.build(unit)?.ptx.as_ref() == ptx;
                facts.got().filter(|_| is_same)
            }
            _ => None,
        })
    }

    fn profiles(&self, id: &CaseId) -> Vec<&'a ProfileFacts> {
        let pieces = self.evidence.iter();
        let profiles = pieces.filter_map(|piece| match piece {
            Evidence::Profile { case, facts, .. } if case == id => facts.got(),
            _ => None,
        });
        profiles.collect()
    }

    /// Median over processes of their medians.
    fn p50_ns(&self, id: &CaseId) -> Option<f64> {
        let times = self.evidence.iter().filter_map(|piece| match piece {
            Evidence::Time { case, facts, .. } if case == id => facts.got(),
            Evidence::Pair { case, facts, .. } if case == id => {
                let facts = facts.got()?;
                Some(match self.is_base {
                    true => &facts.base,
                    false => &facts.head,
                })
            }
            _ => None,
        });
        median(times.filter_map(median_of_process).collect())
    }
}

fn median_of_process(facts: &TimeFacts) -> Option<f64> {
    let samples = facts.batched_ns.iter().map(|ns| *ns as f64).collect();
    let ns = median(samples)? / f64::from(facts.launches_per_sample.max(1));
    (ns > 0.0).then_some(ns)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn only_entry<'a>(case: &Case, build: &'a BuildFacts) -> Option<(Launch, &'a Resources)> {
    match (case.steps.as_slice(), build.entries.as_slice()) {
        // With a memset or copy the times are not the entry's alone.
        ([step], [entry]) if step.is_bare() => Some((step.launch?, entry.resources.as_ref()?)),
        _ => None,
    }
}

/// What is filled is read, what is put out is written; working memory may stay where it is.
fn compulsory_bytes(case: &Case) -> f64 {
    let bytes = case.tensors.iter().map(|tensor| {
        let bytes = (tensor.len() * tensor.elem.size()) as f64;
        match tensor.role {
            Role::In | Role::Out => bytes,
            Role::Inout => 2.0 * bytes,
            Role::Scratch | Role::Reference => 0.0,
        }
    });
    bytes.sum()
}

impl View<'_> {
    /// Of one block.
    pub fn threads(&self) -> Option<u64> {
        self.entry.map(|(launch, _)| launch.threads_per_block())
    }

    /// `None` where a counter was not counted.
    pub fn count(&self, counter: Counter) -> Option<u64> {
        let facts = self.simulation?;
        let counters = [&facts.counters, &facts.information];
        let mut counters = counters.into_iter();
        counters.find_map(|counters| counters.get(&counter).copied())
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

    /// On a GPU with so many multiprocessors. `None` where the architecture's limits are not known, or nothing fits.
    pub fn residency(&self, multiprocessors: u32) -> Option<Residency> {
        let (launch, resources) = self.entry?;
        let dynamic = u64::from(launch.dynamic_shared);
        let demand = Demand {
            registers: resources.registers,
            shared_bytes: u64::from(resources.static_shared) + dynamic,
            barriers: resources.barriers,
            threads_per_block: launch.threads_per_block(),
        };
        let fits = occupancy(self.arch, demand)?;
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
