//! What is known of one case on both sides, looked up in the record or in two of them.

use judge::stats::Sample;
use judge::{unit_for, unit_to_simulate};
use model::{
    BuildFacts, Case, CaseId, CodeFacts, CompilerFacts, DeviceFacts, DriverFacts, Environment,
    Evidence, Plan, ProfileFacts, Record, Seen, SimulationFacts, TimeFacts, Unit, UnitId,
};

/// Head and base of one case.
#[derive(Debug)]
pub struct Sides<'a> {
    pub base: Side<'a>,
    pub head: Side<'a>,
}

/// One of them.
#[derive(Debug)]
pub struct Side<'a> {
    pub environment: &'a Environment,
    pub compiler: Option<&'a CompilerFacts>,
    pub case: &'a Case,
    pub unit: &'a Unit,
    pub build: Option<&'a BuildFacts>,
    /// `None` where the machine code was not looked at, because it is the same or nobody could.
    pub code: Option<&'a Seen<CodeFacts>>,
    /// One for each seed.
    pub simulations: Vec<&'a SimulationFacts>,
    pub driver: Option<&'a DriverFacts>,
    /// One for each timing process.
    pub times: Vec<&'a TimeFacts>,
    /// One for each repeat.
    pub profiles: Vec<&'a ProfileFacts>,
}

impl Side<'_> {
    /// Machine code, if it is known.
    pub fn facts(&self) -> Option<&CodeFacts> {
        self.code.and_then(Seen::got)
    }

    pub fn device(&self) -> Option<&DeviceFacts> {
        self.environment.device.got()
    }

    /// Time of one launch: of the processes' medians the median.
    pub fn p50_ns(&self) -> Option<f64> {
        let medians = self.times.iter().filter_map(|facts| {
            let launches = f64::from(facts.launches_per_sample.max(1));
            Some(Sample::new(&facts.batched_ns)?.median() / launches)
        });
        middle(medians.collect())
    }

    /// SM clock while it was timed.
    pub fn sm_mhz(&self) -> Option<f64> {
        let clocks = self.times.iter().flat_map(|facts| {
            let gpu = &facts.gpu;
            [gpu.sm_mhz_before, gpu.sm_mhz_after].into_iter().flatten()
        });
        middle(clocks.map(|mhz| mhz.0).collect())
    }
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Sides<'_> {
    /// By how much a launch takes longer: 0.1 where it takes a tenth more. `None` where it was not timed, or is no
    /// slower.
    pub fn slowdown(&self) -> Option<f64> {
        let slowdown = self.head.p50_ns()? / self.base.p50_ns()? - 1.0;
        (slowdown.is_finite() && slowdown > 0.0).then_some(slowdown)
    }
}

/// Why there is nothing to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// The run had no base.
    NoBase,
    NoSuchCase,
    /// The base does not have the case.
    New,
    /// No unit is for the device of the run.
    NoUnit,
}

impl<'a> Sides<'a> {
    /// Of a run with a base.
    ///
    /// # Errors
    /// Where one of them does not have the case.
    pub fn of_run(record: &'a Record, case: &CaseId) -> Result<Self, Unexplained> {
        let base = record.policy.base.as_ref().ok_or(Unexplained::NoBase)?;
        let of_head = record.evidence.iter();
        let of_base = record.evidence.iter().filter_map(Evidence::of_base);
        let environment = &record.environment;
        let compiler = environment.compiler.got();
        let theirs = environment.base_compiler.as_ref().or(compiler);
        let head = side(environment, compiler, &record.plan, case, of_head);
        let mut head = head?;
        let base = side(environment, theirs, &base.plan, case, of_base);
        let mut base = base.map_err(of_base_side)?;
        for piece in &record.evidence {
            if let Evidence::Pair {
                case: of, facts, ..
            } = piece
                && of == case
                && let Some(pair) = facts.got()
            {
                head.times.push(&pair.head);
                base.times.push(&pair.base);
            }
        }
        Ok(Self { base, head })
    }

    /// Of two runs.
    ///
    /// # Errors
    /// Where one of them does not have the case.
    pub fn of_two(base: &'a Record, head: &'a Record, case: &CaseId) -> Result<Self, Unexplained> {
        let of = |record: &'a Record| {
            let environment = &record.environment;
            let compiler = environment.compiler.got();
            side(
                environment,
                compiler,
                &record.plan,
                case,
                record.evidence.iter(),
            )
        };
        let head = of(head)?;
        let base = of(base).map_err(of_base_side)?;
        Ok(Self { base, head })
    }
}

fn of_base_side(why: Unexplained) -> Unexplained {
    match why {
        Unexplained::NoSuchCase => Unexplained::New,
        other => other,
    }
}

fn side<'a>(
    environment: &'a Environment,
    compiler: Option<&'a CompilerFacts>,
    plan: &'a Plan,
    id: &CaseId,
    evidence: impl Iterator<Item = &'a Evidence>,
) -> Result<Side<'a>, Unexplained> {
    let case = plan.case(id).ok_or(Unexplained::NoSuchCase)?;
    let unit = match environment.device.got() {
        Some(device) => unit_for(plan, id, device),
        None => unit_to_simulate(plan, id),
    };
    let unit = unit.ok_or(Unexplained::NoUnit)?;
    let mut side = Side {
        environment,
        compiler,
        case,
        unit,
        build: None,
        code: None,
        simulations: Vec::new(),
        driver: None,
        times: Vec::new(),
        profiles: Vec::new(),
    };
    for piece in evidence {
        side.file(piece, id, &unit.id);
    }
    Ok(side)
}

impl<'a> Side<'a> {
    fn file(&mut self, piece: &'a Evidence, id: &CaseId, of: &UnitId) {
        match piece {
            Evidence::Build { unit, facts } if unit == of => self.build = facts.got(),
            Evidence::Code { unit, facts } if unit == of => self.code = Some(facts),
            Evidence::Driver { case, facts } if case == id => self.driver = facts.got(),
            Evidence::Time { case, facts, .. } if case == id => self.times.extend(facts.got()),
            Evidence::Profile { case, facts, .. } if case == id => {
                self.profiles.extend(facts.got());
            }
            Evidence::Simulation {
                case, arch, facts, ..
            } if case == id && arch.is_none_or(|arch| arch == of.arch) => {
                self.simulations.extend(facts.got());
            }
            _ => {}
        }
    }
}
