//! Builds configurations of one kernel, holds them to their gates, and times them side by side, batch after batch on
//! the same device. `tune` uses it and decides what comes next.

use super::answers::Answers;
use super::device::{open, usable};
use super::plan::{self, Planned};
use super::request::{Change, Request};
use super::results::Results;
use super::took::Meter;
use super::work::{Artifacts, SharedWork, WorkSide};
use super::{check, simulate};
use crate::event::{Event, Phase};
use build::toolchain::Toolchain;
use build::{Building, Built};
use config::ResolvedVariant;
use model::{
    Costs, DeviceFacts, Environment, Evidence, NotRun, PairFacts, Plan, Policy, RECORD_SCHEMA,
    Record, Seen, Simulator, Unit,
};
use ptxsim::COUNTER_MODEL;
use run::worker::{Crews, PairJob};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use system::cache::Cache;
use system::error::{Error, Result};

/// Builds candidates while the bench works on something else.
pub struct CandidateBuilder<'a> {
    root: PathBuf,
    toolchain: Toolchain,
    cache: &'a Cache,
    on: &'a (dyn Fn(Event) + Sync),
}

impl CandidateBuilder<'_> {
    /// Builds units, and returns the results in their order.
    ///
    /// # Errors
    /// Fails with an environment error if the machine failed.
    pub fn build(&self, units: &[Unit]) -> Result<Vec<Built>> {
        self.build_at(&self.root, &self.toolchain, units)
    }

    /// Builds units whose paths start at another directory, or with another compiler.
    ///
    /// # Errors
    /// Fails with an environment error if the machine failed.
    pub fn build_at(
        &self,
        root: &Path,
        toolchain: &Toolchain,
        units: &[Unit],
    ) -> Result<Vec<Built>> {
        (self.on)(Event::Began {
            phase: Phase::Build,
            steps: units.len() as u64,
        });
        let building = Building::new(root, toolchain, self.cache);
        build::build_all(building, units, &|unit, _| {
            (self.on)(Event::Stepped {
                phase: Phase::Build,
                what: unit.id.to_string(),
            });
        })
    }
}

/// The device, or the simulator instead of it.
pub struct Bench<'a> {
    planned: Planned,
    environment: Environment,
    results: Results,
    crews: Crews<'a>,
    /// True if the worker has timed something.
    has_timed: bool,
    /// The time of the last proof, without references.
    took: Duration,
    on: &'a (dyn Fn(Event) + Sync),
}

impl<'a> Bench<'a> {
    /// Opens the bench.
    ///
    /// # Errors
    /// Fails with an environment error if there is no compiler, or if the device is broken.
    pub fn open(
        request: &Request,
        change: Change,
        cache: &'a Cache,
        waiting: &'a (dyn Fn(&str) + Sync),
        on: &'a (dyn Fn(Event) + Sync),
    ) -> Result<(CandidateBuilder<'a>, Self)> {
        let planned = plan::plan(request, change, cache, on)?;
        let mut crews = Crews::new(request.device, waiting)?;
        let device = open(request, &mut crews, 0);
        let device = usable(device, &planned.toolchain.facts.version);
        if let Seen::Fault(fault) = &device {
            return Err(Error::environment(fault.message.clone()));
        }
        let builder = CandidateBuilder {
            root: planned.root.clone(),
            toolchain: planned.toolchain.clone(),
            cache,
            on,
        };
        let environment = planned.environment(request, &device);
        let bench = Self {
            results: Results::open(cache, &environment.started, request.fresh)?,
            environment,
            planned,
            crews,
            has_timed: false,
            took: Duration::ZERO,
            on,
        };
        Ok((builder, bench))
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the device, or `None` for the simulator.
    pub fn device(&self) -> Option<&DeviceFacts> {
        self.environment.device.got()
    }

    /// Returns the plan of the variant that is tuned.
    pub fn plan(&self) -> &Plan {
        &self.planned.plan
    }

    pub fn toolchain(&self) -> &Toolchain {
        &self.planned.toolchain
    }

    /// Returns the compiler of the base, if the change has a base.
    pub fn base_toolchain(&self) -> Option<&Toolchain> {
        self.planned.base.as_ref().map(|base| &base.toolchain)
    }

    /// Checks all seeds of all cases that were built, and returns a record with the verdict of each gate.
    ///
    /// # Errors
    /// Fails with an environment error if no worker can be started.
    pub fn prove(&mut self, batch: &[(&ResolvedVariant, &[Built])]) -> Result<Record> {
        let budget = self.simulation_budget();
        self.prove_in(self.environment.clone(), budget, batch)
    }

    /// Returns the budget of warp instructions for a case, by gates.yaml.
    pub fn simulation_budget(&self) -> u64 {
        self.planned.plan.simulation.budget
    }

    /// Checks the same in the simulator even if there is a GPU, because it sees races that a GPU may not show, and
    /// counts. Cases of more than `budget` warp instructions are left out.
    ///
    /// # Errors
    /// Fails with an environment error if no worker can be started.
    pub fn simulate(
        &mut self,
        budget: u64,
        batch: &[(&ResolvedVariant, &[Built])],
    ) -> Result<Record> {
        let environment = Environment {
            device: Seen::NotRun(NotRun::SimulatorAsked),
            simulator: Some(Simulator {
                counter_model: COUNTER_MODEL,
            }),
            ..self.environment.clone()
        };
        self.prove_in(environment, budget, batch)
    }

    fn prove_in(
        &mut self,
        environment: Environment,
        budget: u64,
        batch: &[(&ResolvedVariant, &[Built])],
    ) -> Result<Record> {
        let mut plan = Plan {
            units: Vec::new(),
            cases: Vec::new(),
            rivals: Vec::new(),
            ..self.planned.plan.clone()
        };
        plan.simulation.budget = budget;
        let mut policy = Policy::NOTHING;
        let mut evidence = Vec::new();
        let mut artifacts = Artifacts::new();
        for (asked, built) in batch {
            plan.units.extend(asked.units.iter().cloned());
            plan.cases.extend(asked.cases.iter().cloned());
            policy.gates.extend(asked.gates.iter().cloned());
            for (unit, built) in asked.units.iter().zip(*built) {
                evidence.push(Evidence::Build {
                    unit: unit.id.clone(),
                    facts: built.facts.clone(),
                });
                let artifact = built.artifact.clone();
                artifacts.extend(artifact.map(|artifact| (unit.id.clone(), artifact)));
            }
        }
        let mut record = Record {
            schema: RECORD_SCHEMA.to_owned(),
            environment,
            plan,
            policy,
            evidence,
            costs: Costs::default(),
            shard: None,
            took: Vec::new(),
        };
        let device = record.environment.device.got().cloned();
        let references = &self.planned.references;
        let side = |artifacts, answers| WorkSide {
            device: device.clone(),
            artifacts,
            answers,
            dump: None,
        };
        let answers = match device {
            Some(_) => Answers::compute(record.plan.cases.iter(), references, self.on),
            None => Answers::default(),
        };
        let mut work = SharedWork {
            head: side(artifacts, answers),
            base: side(Artifacts::new(), Answers::default()),
            took: Meter::default(),
        };
        let began = Instant::now();
        if device.is_some() {
            if std::mem::take(&mut self.has_timed) {
                self.crews.first().retire();
            }
            check::check_all(
                &self.planned,
                &mut work,
                &mut self.crews,
                &mut record,
                self.on,
            );
        } else {
            simulate::simulate_all(
                &self.planned,
                &mut work,
                &self.results,
                &mut record,
                self.on,
            )?;
        }
        self.took = began.elapsed();
        Ok(record)
    }

    /// Returns the time of the last proof, without references if there is a GPU.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Lets the next times be taken in a fresh process.
    pub fn fresh(&mut self) {
        self.crews.first().retire();
    }

    pub fn pair(&mut self, job: PairJob) -> Seen<PairFacts> {
        self.has_timed = true;
        self.crews.first().pair(job)
    }
}
