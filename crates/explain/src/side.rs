//! Gathers everything that is known of one case on both sides.

use judge::{Index, View};
use model::{
    self, BuildFacts, Case, CaseId, CodeFacts, CompilerFacts, DeviceFacts, DriverFacts,
    Environment, ProfileFacts, Seen, SimulationFacts, TimeFacts, Unit,
};

/// Head and base of one case.
#[derive(Debug)]
pub struct Sides<'a> {
    pub base: CaseSide<'a>,
    pub head: CaseSide<'a>,
}

/// One side of a case, head or base.
#[derive(Debug)]
pub struct CaseSide<'a> {
    pub environment: &'a Environment,
    pub compiler: Option<&'a CompilerFacts>,
    pub case: &'a Case,
    pub unit: &'a Unit,
    pub build: Option<&'a BuildFacts>,
    /// `None` if nobody looked at the machine code, because it is the same or could not be read.
    pub code: Option<&'a Seen<CodeFacts>>,
    /// The simulations of the case, one for each seed.
    pub simulations: Vec<&'a SimulationFacts>,
    pub driver: Option<&'a DriverFacts>,
    /// The times of the case, one set for each process.
    pub times: Vec<&'a TimeFacts>,
    /// The time of one launch in ns.
    pub p50_ns: Option<f64>,
    /// The profiles of the case, one for each repeat.
    pub profiles: Vec<&'a ProfileFacts>,
}

impl<'a> CaseSide<'a> {
    /// Returns the machine code, if it is known.
    pub fn facts(&self) -> Option<&'a CodeFacts> {
        self.code.and_then(Seen::got)
    }

    pub fn device(&self) -> Option<&'a DeviceFacts> {
        self.environment.device.got()
    }

    /// Returns the SM clock in MHz while the case was timed.
    pub fn sm_mhz(&self) -> Option<f64> {
        middle(
            self.times
                .iter()
                .flat_map(|facts| {
                    let gpu = &facts.gpu;
                    [gpu.sm_mhz_before, gpu.sm_mhz_after].into_iter().flatten()
                })
                .map(|mhz| mhz.0)
                .collect(),
        )
    }
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Sides<'_> {
    /// Returns true if both sides are given tensors of the same sizes.
    pub fn are_of_one_size(&self) -> bool {
        let (base, head) = (self.base.case, self.head.case);
        base.tensors == head.tensors && base.dims == head.dims
    }

    /// Returns the share by which a launch takes longer: 0.1 if it takes a tenth more. Returns `None` if it was not
    /// timed, or is no slower.
    pub fn slowdown(&self) -> Option<f64> {
        let slowdown = self.head.p50_ns? / self.base.p50_ns? - 1.0;
        (slowdown.is_finite() && slowdown > 0.0).then_some(slowdown)
    }
}

/// The reasons for which there is nothing to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// The run was not given a base.
    NoBase,
    NoSuchCase,
    /// The base does not have the case.
    New,
    /// No unit fits the device of the run.
    NoUnit,
}

impl<'a> Sides<'a> {
    /// Returns both sides of a run with a base, or of two records.
    ///
    /// # Errors
    /// Fails if one of the sides does not have the case.
    pub fn from_index(index: &Index<'a>, case: &CaseId) -> Result<Self, Unexplained> {
        let base = index.view(model::Side::Base, None);
        let base = base.ok_or(Unexplained::NoBase)?;
        let head = CaseSide::from_view(index.head().at_common_code(case), case)?;
        let base =
            CaseSide::from_view(base.at_common_code(case), case).map_err(|why| match why {
                Unexplained::NoSuchCase => Unexplained::New,
                other => other,
            })?;
        Ok(Self { base, head })
    }
}

impl<'a> CaseSide<'a> {
    fn from_view(view: View<'_, 'a>, id: &CaseId) -> Result<Self, Unexplained> {
        let case = view.plan().case(id).ok_or(Unexplained::NoSuchCase)?;
        let unit = view.shown_unit(id).ok_or(Unexplained::NoUnit)?;
        let simulations = view.simulations(id).into_iter();
        Ok(Self {
            environment: view.environment(),
            compiler: view.built_by(),
            case,
            unit,
            build: view.build(&unit.id).ok(),
            code: view.code(&unit.id),
            simulations: simulations.map(|(_, facts)| facts).collect(),
            driver: view.driver(id).ok(),
            times: view.timed(id).collect(),
            p50_ns: view.p50_ns(id),
            profiles: view.got_profiles(id),
        })
    }
}
