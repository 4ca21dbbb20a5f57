//! Everything that needs no GPU time, at once: nvcc for head and base, the device's own waking up, and
//! then, if there is a device, the references.

use super::answers::Answers;
use super::arguments::{refuse_misfits, refuse_unassembled};
use super::plan::{BaseTree, Planned, UnitReads};
use super::request::Request;
use super::took::milliseconds;
use super::work::Artifacts;
use crate::event::{Event, Phase};
use build::Built;
use build::apart::{Reader, Reads};
use build::toolchain::Toolchain;
use model::{
    BuildFacts, Costs, DeviceFacts, Evidence, Fault, FaultKind, NotRun, Seen, Unit, UnitId,
};
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
    pub answers: Answers,
    builds: Builds,
    /// How long the builds were over before the device was there.
    device_late: Duration,
    /// How long references were computed while the compiler ran, whose time that is.
    reference_overlap: Duration,
}

/// # Errors
/// Environment, where neither compiler nor cache can be used.
pub(super) fn prepare(
    planned: &Planned,
    device: ScopedJoinHandle<Seen<DeviceFacts>>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Prepared> {
    let began = Instant::now();
    let (device, waited, mut builds, answers) = std::thread::scope(|scope| {
        let builds = scope.spawn(|| Builds::make(planned, cache, on));
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
        builds.map(|builds| (device, waited, builds, answers))
    })?;
    if !matches!(device, Seen::NotRun(_)) {
        refuse_unassembled(&mut builds.head);
        refuse_unassembled(&mut builds.base);
    }
    Ok(Prepared {
        device,
        device_late: waited.saturating_sub(builds.wall),
        reference_overlap: builds.wall.saturating_sub(waited).min(answers.wall),
        answers,
        builds,
    })
}

impl Prepared {
    /// Costs so far.
    pub fn costs(&self) -> Costs {
        Costs {
            compiler_ms: milliseconds(self.builds.wall),
            reference_ms: milliseconds(self.answers.wall - self.reference_overlap),
            ..Costs::default()
        }
    }

    /// How long the first workers took to start while the change was found and the compiler ran, whose time that is.
    pub fn started_meanwhile(&self, crews: &Crews) -> Duration {
        crews.costs().process.saturating_sub(self.device_late)
    }

    /// Files evidence on the builds. The rest can run.
    pub fn file_builds(self, evidence: &mut Vec<Evidence>, costs: &mut Costs) -> Ready {
        let Builds {
            head, base, reads, ..
        } = self.builds;
        let mut file = |built: Vec<(UnitId, Built)>,
                        piece: fn(UnitId, Seen<BuildFacts>) -> Evidence| {
            let mut artifacts = Artifacts::new();
            for (id, built) in built {
                *(match built.cached {
                    true => &mut costs.cached,
                    false => &mut costs.compiled,
                }) += 1;
                evidence.push(piece(id.clone(), built.facts));
                artifacts.extend(built.artifact.map(|artifact| (id, artifact)));
            }
            artifacts
        };
        Ready {
            artifacts: file(head, |unit, facts| Evidence::Build { unit, facts }),
            base_artifacts: file(base, |unit, facts| {
                Evidence::Base(Box::new(Evidence::Build { unit, facts }))
            }),
            answers: self.answers,
            reads,
        }
    }
}

/// State that kernels run with.
pub(super) struct Ready {
    pub reads: UnitReads,
    pub artifacts: Artifacts,
    pub base_artifacts: Artifacts,
    pub answers: Answers,
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

struct Builds {
    head: Vec<(UnitId, Built)>,
    base: Vec<(UnitId, Built)>,
    reads: UnitReads,
    wall: Duration,
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

impl Builds {
    fn make(planned: &Planned, cache: &Cache, on: &(dyn Fn(Event) + Sync)) -> Result<Self> {
        let began = Instant::now();
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let head = &planned.plan.units;
        let base = planned.base_units();
        let steps = head.len() + base.as_ref().map_or(0, |(_, units)| units.len());
        on(Event::Began {
            phase: Phase::Build,
            steps: steps as u64,
        });
        let build_all = |what: &str,
                         hidden: Option<&Hidden>,
                         root: &Path,
                         toolchain: &Toolchain,
                         units: &[Unit]| {
            let stepped = |unit: &Unit, _: &Built| {
                on(Event::Stepped {
                    phase: Phase::Build,
                    what: format!("{what}{}", unit.id),
                });
            };
            let built =
                build::build_without(hidden, root, toolchain, cache, units, jobs, &stepped)?;
            let ids = units.iter().map(|unit| unit.id.clone());
            Ok::<Vec<(UnitId, Built)>, Error>(ids.zip(built).collect())
        };
        let mut head = build_all("", None, &planned.root, &planned.toolchain, head)?;
        refuse_misfits(&planned.plan, Some(&planned.places), &mut head);
        let base = match base {
            Some((
                BaseTree {
                    root,
                    toolchain,
                    trees,
                    ..
                },
                units,
            )) => {
                let (what, hidden) = ("base of ", trees.hide_head());
                let mut built = build_all(what, hidden.as_ref(), root, toolchain, &units)?;
                if let Some(base) = &planned.policy.base {
                    refuse_misfits(&base.plan, None, &mut built);
                }
                built
            }
            None => Vec::new(),
        };
        let reads = UnitReads {
            head: reads(&head),
            base: reads(&base),
        };
        planned.refuse_crossing(&reads)?;
        Ok(Self {
            head,
            base,
            reads,
            wall: began.elapsed(),
        })
    }
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
