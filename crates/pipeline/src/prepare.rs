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
use std::time::{Duration, Instant};
use system::cache::Cache;
use system::error::{Error, Result};
use system::process::confine::Hidden;

/// Everything that is built and known before a kernel runs.
pub(super) struct Prepared {
    pub device: Seen<DeviceFacts>,
    pub answers: Answers,
    builds: Builds,
    overlap: Overlap,
}

/// # Errors
/// Environment, where neither compiler nor cache can be used.
pub(super) fn prepare(
    request: &Request,
    planned: &Planned,
    crews: &mut Crews,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Prepared> {
    let (device, mut builds, answers) = std::thread::scope(|scope| {
        let builds = scope.spawn(|| Builds::make(planned, cache, on));
        let device = usable(open(request, crews), &planned.toolchain.facts.version);
        let answers = match device {
            Seen::Got(_) => Answers::compute(planned.plan.cases.iter(), &planned.references, on),
            Seen::Fault(_) | Seen::Unsupported(_) | Seen::NotRun(_) => Answers::default(),
        };
        let builds = builds.join();
        let builds = builds.unwrap_or_else(|_| Err(Error::environment("the build stage panicked")));
        builds.map(|builds| (device, builds, answers))
    })?;
    if !matches!(device, Seen::NotRun(_)) {
        refuse_unassembled(&mut builds.head);
        refuse_unassembled(&mut builds.base);
    }
    let start = crews.costs().process;
    let overlap = Overlap {
        start: start.min(builds.wall),
        reference: builds.wall.saturating_sub(start).min(answers.wall),
    };
    Ok(Prepared {
        device,
        answers,
        builds,
        overlap,
    })
}

impl Prepared {
    /// Costs so far.
    pub fn costs(&self) -> Costs {
        Costs {
            compiler_ms: milliseconds(self.builds.wall),
            reference_ms: milliseconds(self.answers.wall - self.overlap.reference),
            ..Costs::default()
        }
    }

    /// How long workers took to start while the compiler ran, whose time that is.
    pub fn started_beside_compiler(&self) -> Duration {
        self.overlap.start
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

pub(super) fn open(request: &Request, crews: &mut Crews) -> Seen<DeviceFacts> {
    match request.device {
        DeviceChoice::Sim => Seen::NotRun(NotRun::SimulatorAsked),
        DeviceChoice::Auto | DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll => crews.open(),
    }
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

/// While the compiler works a worker starts, and then references are computed. That time is counted once,
/// as the compiler's.
struct Overlap {
    start: Duration,
    reference: Duration,
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
