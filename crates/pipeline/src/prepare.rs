//! Everything that needs no GPU time, at once: nvcc for head and base, the device's own waking up, and
//! then, if there is a device, the references.

use super::answers::Answers;
use super::arguments::{refuse_misfits, refuse_unassembled};
use super::plan::{Planned, UnitReads};
use super::request::Request;
use super::took::{Meter, milliseconds};
use super::work::{Artifacts, EvidenceSide, Side, Work};
use crate::event::{Event, Phase};
use build::Built;
use build::apart::{Reader, Reads};
use build::toolchain::Toolchain;
use model::{Costs, DeviceFacts, Evidence, Fault, FaultKind, NotRun, Seen, Unit, UnitId};
use run::device::DeviceChoice;
use run::device::choice::driver_problem;
use run::worker::Crews;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use system::cache::Cache;
use system::error::{Error, Result};
use system::process::confine::Hidden;

/// Everything that is built and known before a kernel runs.
pub(super) struct Prepared {
    pub device: Seen<DeviceFacts>,
    pub work: Work,
    /// What the builds gave.
    pub evidence: Vec<Evidence>,
    pub costs: Costs,
    pub reads: UnitReads,
    /// How long the builds were over before the device was there.
    device_late: Duration,
}

/// # Errors
/// Environment, where neither compiler nor cache can be used. Usage, where a side is built from files of the other.
pub(super) fn prepare(
    request: &Request,
    planned: &Planned,
    device: ScopedJoinHandle<Seen<DeviceFacts>>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Prepared> {
    let began = Instant::now();
    let (device, waited, builds, answers) = std::thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let began = Instant::now();
            build_sides(planned, cache, on).map(|built| (built, began.elapsed()))
        });
        let device = device.join().unwrap_or_else(|_| {
            let message = "the thread that opens the device panicked";
            Seen::Fault(Fault::new(FaultKind::Environment, message.to_owned()))
        });
        let device = usable(device, &planned.toolchain.facts.version);
        let waited = began.elapsed();
        let answers = match device {
            Seen::Got(_) => Answers::compute(planned.plan.cases.iter(), &planned.references, on),
            Seen::Fault(_) | Seen::Unsupported(_) | Seen::NotRun(_) => Answers::default(),
        };
        let builds = builds.join();
        let builds = builds.unwrap_or_else(|_| Err(Error::environment("the build stage panicked")));
        (device, waited, builds, answers)
    });
    let ([mut head, mut base], built_in) = builds?;
    let reads = UnitReads {
        head: reads(&head),
        base: reads(&base),
    };
    planned.refuse_crossing(&reads)?;
    if !matches!(device, Seen::NotRun(_)) {
        refuse_unassembled(&mut head);
        refuse_unassembled(&mut base);
    }
    // References that were computed while the compiler ran are its time.
    let overlap = built_in.saturating_sub(waited).min(answers.wall);
    let mut costs = Costs {
        compiler_ms: milliseconds(built_in),
        reference_ms: milliseconds(answers.wall - overlap),
        ..Costs::default()
    };
    let mut evidence = Vec::new();
    let mut side = |side: EvidenceSide, built: Vec<(UnitId, Built)>, answers, dump| {
        let mut artifacts = Artifacts::new();
        let mut pieces = Vec::new();
        for (unit, built) in built {
            if built.cached {
                costs.cached += 1;
            } else {
                costs.compiled += 1;
            }
            artifacts.extend(built.artifact.map(|artifact| (unit.clone(), artifact)));
            let facts = built.facts;
            pieces.push(Evidence::Build { unit, facts });
        }
        side.file(pieces, &mut evidence);
        Side {
            device: device.got().cloned(),
            artifacts,
            answers,
            dump,
        }
    };
    let work = Work {
        head: side(EvidenceSide::Head, head, answers, request.dump.clone()),
        base: side(EvidenceSide::Base, base, Answers::default(), None),
        took: Meter::default(),
    };
    Ok(Prepared {
        work,
        evidence,
        costs,
        reads,
        device_late: waited.saturating_sub(built_in),
        device,
    })
}

impl Prepared {
    /// How long the first workers took to start while the change was found and the compiler ran, whose time that is.
    pub fn started_meanwhile(&self, crews: &Crews) -> Duration {
        crews.costs().process.saturating_sub(self.device_late)
    }
}

/// `ahead` is how many fresh workers are going to be asked for.
pub(super) fn open(request: &Request, crews: &mut Crews, ahead: usize) -> Seen<DeviceFacts> {
    let device = match request.device {
        DeviceChoice::Sim => Seen::NotRun(NotRun::SimulatorAsked),
        DeviceChoice::Auto | DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll => crews.open(),
    };
    if device.got().is_some() {
        crews.first().start_ahead(ahead);
    }
    device
}

/// A driver that cannot load what this compiler makes is no device to run on; said once, not by each kernel.
pub(super) fn usable(device: Seen<DeviceFacts>, compiler: &str) -> Seen<DeviceFacts> {
    let problem = device
        .got()
        .and_then(|facts| driver_problem(compiler, facts.cuda_driver_version));
    match problem {
        Some(message) => Seen::Fault(Fault::new(FaultKind::Environment, message)),
        None => device,
    }
}

/// The files that units were made of.
fn reads(built: &[(UnitId, Built)]) -> Reads {
    let mut reads = Reads::default();
    for (unit, built) in built {
        let reader = Reader::Unit(unit.clone());
        reads.note(&reader, &built.read, built.unlisted.as_ref());
    }
    reads
}

/// Builds the units of head and of the base.
fn build_sides(
    planned: &Planned,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<[Vec<(UnitId, Built)>; 2]> {
    let head = &planned.plan.units;
    let base = planned.base_units();
    let steps = head.len() + base.as_ref().map_or(0, |(_, units)| units.len());
    on(Event::Began {
        phase: Phase::Build,
        steps: steps as u64,
    });
    let named = |units: &[Unit], built: Vec<Built>| -> Vec<(UnitId, Built)> {
        units
            .iter()
            .map(|unit| unit.id.clone())
            .zip(built)
            .collect()
    };
    let built = build_units("", None, &planned.root, &planned.toolchain, cache, head, on)?;
    let mut built_head = named(head, built);
    refuse_misfits(&planned.plan, Some(&planned.places), &mut built_head);
    let Some((tree, units)) = base else {
        return Ok([built_head, Vec::new()]);
    };
    let hidden = tree.trees.hide_head();
    let built = build_units(
        "base of ",
        hidden.as_ref(),
        &tree.root,
        &tree.toolchain,
        cache,
        &units,
        on,
    )?;
    let mut built_base = named(&units, built);
    if let Some(base) = &planned.policy.base {
        refuse_misfits(&base.plan, None, &mut built_base);
    }
    Ok([built_head, built_base])
}

/// Builds units on all cores. `side` comes before the name of each that is done.
///
/// # Errors
/// Environment, where the machine failed.
pub(super) fn build_units(
    side: &str,
    hidden: Option<&Hidden>,
    root: &Path,
    toolchain: &Toolchain,
    cache: &Cache,
    units: &[Unit],
    on: &(dyn Fn(Event) + Sync),
) -> Result<Vec<Built>> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let building = build::Building {
        root,
        hidden,
        toolchain,
        cache,
        jobs,
    };
    build::build_all(building, units, &|unit, _| {
        on(Event::Stepped {
            phase: Phase::Build,
            what: format!("{side}{}", unit.id),
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(cuda_driver_version: u32) -> Seen<DeviceFacts> {
        Seen::Got(DeviceFacts {
            ordinal: 0,
            name: "NVIDIA L4".to_owned(),
            uuid: "GPU-0".to_owned(),
            major: 8,
            minor: 9,
            multiprocessors: 58,
            l2_bytes: 48 << 20,
            memory_bytes: 24 << 30,
            driver: "550.90.07".to_owned(),
            cuda_driver_version,
            clock_policy: "default".to_owned(),
            max_sm_mhz: Some(2040),
        })
    }

    #[test]
    fn a_driver_too_old_for_the_compiler_is_a_fault_of_the_environment() {
        match usable(device(12040), "13.0.88") {
            Seen::Fault(fault) => {
                assert_eq!(fault.kind, FaultKind::Environment);
                assert!(
                    fault.message.contains("branch 580 or later"),
                    "{}",
                    fault.message
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(usable(device(13000), "13.0.88"), device(13000));
        let absent = Seen::NotRun(NotRun::NoDevice {
            problem: "no GPU".to_owned(),
        });
        assert_eq!(usable(absent.clone(), "13.0.88"), absent);
    }
}
