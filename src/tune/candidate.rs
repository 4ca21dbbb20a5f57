//! A configuration of a search: the values that it sets, and what was built from it.

use super::outcome::{Dropped, DroppedBy, ParameterValues, Resources};
use build::Built;
use config::{ResolvedVariant, Tuning};
use model::occupancy::{Demand, occupancy};
use model::{Arch, Case, Fault, Launch, Seen, Step, Subject, Tensor};
use search::{Point, Space};
use serde::Serialize;
use system::error::Diagnostic;
use wording::reasons;

pub struct Candidate {
    pub number: u32,
    /// The point in the space, or `None` for a start that is not in it.
    pub point: Option<Point>,
    pub values: ParameterValues,
    /// The variant for one architecture, or why it cannot be called.
    pub asked: Result<ResolvedVariant, Diagnostic>,
    /// The builds, one for each unit.
    pub built: Vec<Built>,
}

impl Candidate {
    /// Makes a candidate that sets `values` in addition to the start's own macros, for one architecture.
    pub fn new(
        tuning: &Tuning,
        number: u32,
        point: Option<Point>,
        values: ParameterValues,
        arch: Option<Arch>,
    ) -> Self {
        let asked = tuning.candidate(&name(number), &values).map(|mut asked| {
            let arch = arch.or(asked.units.first().map(|unit| unit.id.arch));
            asked.units.retain(|unit| Some(unit.id.arch) == arch);
            asked.gates.retain(|gate| match &gate.subject {
                Subject::Unit(unit) => Some(unit.arch) == arch,
                Subject::Case(_) => true,
            });
            asked
        });
        Self {
            number,
            point,
            values,
            asked,
            built: Vec::new(),
        }
    }

    pub fn name(&self) -> String {
        name(self.number)
    }

    pub fn case(&self, shape: &str) -> Option<&Case> {
        let mut cases = self.asked.as_ref().ok()?.cases.iter();
        cases.find(|case| case.id.shape == shape)
    }

    /// Returns why the candidate ends with the compiler, or `None` if it was built.
    pub fn unbuilt(&self) -> Option<Dropped> {
        if let Err(why) = &self.asked {
            let message = why.message.clone();
            return Some(Dropped::new(DroppedBy::Call, "call", "call", message));
        }
        let fault = self.built.iter().find_map(|built| match &built.facts {
            Seen::Fault(fault) => Some(fault),
            _ => None,
        });
        fault.map(|fault| dropped(DroppedBy::Build, "built", fault))
    }

    /// Returns a digest of everything that decides what executes, or `None` if the candidate was not built.
    pub fn code(&self) -> Option<String> {
        #[derive(Serialize)]
        struct ExecutedCode<'a> {
            identity: Vec<&'a str>,
            calls: Vec<(&'a str, &'a [Tensor], &'a [Step])>,
        }
        let asked = self.asked.as_ref().ok()?;
        let built = self.built.iter();
        let identity: Vec<&str> = built
            .filter_map(|built| Some(built.facts.got()?.identity.as_str()))
            .collect();
        if identity.is_empty() || identity.len() < asked.units.len() {
            return None;
        }
        let calls = asked.cases.iter().map(|case| {
            let (tensors, steps) = (case.tensors.as_slice(), case.steps.as_slice());
            (case.id.shape.as_str(), tensors, steps)
        });
        let code = ExecutedCode {
            identity,
            calls: calls.collect(),
        };
        let text = serde_json::to_vec(&code).ok()?;
        blake3::hash(&text).to_hex().get(..16).map(str::to_owned)
    }

    pub fn resources(&self, shape: &str) -> Option<Resources> {
        let built = self.built.first()?.facts.got()?;
        let entry = built.entries.first()?;
        let step = self.case(shape)?.steps.first()?;
        let resources = entry.resources.as_ref()?;
        let arch = self.asked.as_ref().ok()?.units.first()?.id.arch;
        let threads = step.launch.as_ref().map_or(0, Launch::threads_per_block);
        let dynamic = step.launch.map_or(0, |launch| launch.dynamic_shared);
        let shared = u64::from(resources.static_shared) + u64::from(dynamic);
        let fits = step.launch.and_then(|_| {
            let demand = Demand {
                registers: resources.registers,
                shared_bytes: shared,
                barriers: resources.barriers,
                threads_per_block: threads,
            };
            occupancy(arch, demand)
        });
        let spills = [resources.spill_stores, resources.spill_loads];
        Some(Resources {
            registers: resources.registers,
            shared,
            spills: spills.into_iter().flatten().sum(),
            threads,
            occupancy: fits.map(|fits| fits.share()),
        })
    }

    pub fn compile_ms(&self) -> u64 {
        let built = self.built.iter().filter(|built| !built.cached);
        built.map(|built| built.millis).max().unwrap_or(0)
    }
}

/// Returns the name of a candidate among the variants of its kernel.
fn name(number: u32) -> String {
    match number {
        0 => "start".to_owned(),
        number => format!("configuration_{number}"),
    }
}

pub fn dropped(gate: DroppedBy, name: &str, fault: &Fault) -> Dropped {
    Dropped::new(gate, name, fault.kind.code(), reasons::fault(fault))
}

/// Returns the values of a point of the space.
pub fn values_of(space: &Space, point: Point) -> ParameterValues {
    space
        .parameters()
        .iter()
        .map(|parameter| parameter.name.clone())
        .zip(space.values(point))
        .collect()
}

/// Returns the point with these values, or `None` if it is not valid.
pub fn point_of(space: &Space, values: &ParameterValues) -> Option<Point> {
    let choice: Option<Vec<u32>> = space
        .parameters()
        .iter()
        .map(|parameter| {
            let value = values.get(&parameter.name)?;
            let at = parameter.values.iter().position(|other| other == value)?;
            u32::try_from(at).ok()
        })
        .collect();
    space.find(&choice?)
}
