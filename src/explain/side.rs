//! What is known of one case on both sides, looked up in the record or in two of them.

use verdict::judge::{unit_for, unit_to_simulate};
use verdict::model::{
    BuildFacts, Case, CaseId, CodeFacts, CompilerFacts, DeviceFacts, DriverFacts, Environment,
    Evidence, Plan, Record, Seen, SimulationFacts, Unit, UnitId,
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
}

impl Side<'_> {
    /// Machine code, if it is known.
    pub fn facts(&self) -> Option<&CodeFacts> {
        self.code.and_then(Seen::got)
    }

    pub fn device(&self) -> Option<&DeviceFacts> {
        self.environment.device.got()
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
        let head = head?;
        let base = side(environment, theirs, &base.plan, case, of_base);
        Ok(Self {
            base: base.map_err(of_base_side)?,
            head,
        })
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
            Evidence::Simulation {
                case, arch, facts, ..
            } if case == id && arch.is_none_or(|arch| arch == of.arch) => {
                self.simulations.extend(facts.got());
            }
            _ => {}
        }
    }
}
