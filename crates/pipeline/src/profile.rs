//! Takes profiles after everything is timed: each in a process of its own, and never at the same time as a timing.

use super::plan::Planned;
use super::took::milliseconds;
use super::work::{SharedWork, SkipReason};
use crate::event::{Event, Phase};
use build::TOOLKIT;
use build::toolchain::Profiler;
use judge::Timing;
use model::{CaseId, Evidence, ProfileFacts, Record, Seen};
use run::profiler;
use run::worker::TimeJob;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files a profile of each case that the judge asks for, or why there is none.
pub(super) fn profile_all(
    planned: &Planned,
    work: &SharedWork,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) {
    let began = Instant::now();
    let base = planned.base.as_ref().map(|base| base.root.as_path());
    let roots: Vec<_> = [planned.root.as_path()].into_iter().chain(base).collect();
    let trees = PathReplacements::new(&roots, &planned.toolchain.include);
    let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
    let wanted = judge::to_profile(plan, environment, policy, &record.evidence);
    let sides = |against_base: bool| if against_base { 2 } else { 1 };
    let steps = wanted
        .iter()
        .map(|profile| u64::from(profile.repeats) * sides(profile.against_base));
    on(Event::Began {
        phase: Phase::Profile,
        steps: steps.sum(),
    });
    let mut evidence = Vec::new();
    for asked in &wanted {
        for repeat in 0..asked.repeats {
            let profile = |job: Result<TimeJob, SkipReason>| {
                let facts = match (&planned.profiler, job) {
                    (Err(fault), _) => Seen::Fault(fault.clone()),
                    (Ok(_), Err(why)) => why.into_seen(),
                    (Ok(profiler), Ok(job)) => {
                        trees.without_paths(profile_case(profiler, job, record))
                    }
                };
                on(Event::Stepped {
                    phase: Phase::Profile,
                    what: asked.case.to_string(),
                });
                Evidence::Profile {
                    case: asked.case.clone(),
                    repeat,
                    facts,
                }
            };
            evidence.push(profile(work.own_job(record, &asked.case)));
            if asked.against_base {
                let of_base = profile(work.job_of_base(record, &asked.case));
                evidence.push(Evidence::Base(Box::new(of_base)));
            }
        }
    }
    record.evidence.append(&mut evidence);
    record.costs.profiler_ms = milliseconds(began.elapsed());
}

/// The places of sources on this machine, each with its replacement in a record. The directory of gates.yaml, of head
/// or base, is replaced by nothing.
struct PathReplacements(Vec<(PathBuf, &'static str)>);

impl PathReplacements {
    fn new(roots: &[&Path], toolkit: &Path) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self(
            roots
                .iter()
                .map(|root| {
                    if root.as_os_str().is_empty() {
                        (real(Path::new(".")), "")
                    } else {
                        (real(root), "")
                    }
                })
                .chain([(real(toolkit), TOOLKIT)])
                .collect(),
        )
    }

    fn without_paths(&self, mut facts: Seen<ProfileFacts>) -> Seen<ProfileFacts> {
        if let Seen::Got(facts) = &mut facts {
            let lines = facts
                .kernels
                .iter_mut()
                .flat_map(|kernel| &mut kernel.lines);
            for line in lines {
                line.place = self.name(&line.place);
            }
        }
        facts
    }

    /// Returns the name of a line, `kernels/k.cu:12` if it is below one of these directories, and else with the file
    /// name alone.
    fn name(&self, place: &str) -> String {
        let path = Path::new(place);
        let known = self.0.iter().find_map(|(root, name)| {
            let below = path.strip_prefix(root).ok()?;
            Some(format!("{name}{}", below.display()))
        });
        match (known, path.is_absolute(), path.file_name()) {
            (Some(known), _, _) => known,
            (None, true, Some(file)) => file.to_string_lossy().into_owned(),
            (None, _, _) => place.to_owned(),
        }
    }
}

fn profile_case(profiler: &Profiler, job: TimeJob, record: &Record) -> Seen<ProfileFacts> {
    match &record.environment.device {
        Seen::Got(device) => profiler::profile(profiler, job, device),
        Seen::Fault(fault) => Seen::Fault(fault.clone()),
        Seen::Unsupported(why) => Seen::Unsupported(why.clone()),
        Seen::NotRun(why) => Seen::NotRun(why.clone()),
    }
}

impl SharedWork {
    fn own_job(&self, record: &Record, id: &CaseId) -> Result<TimeJob, SkipReason> {
        let lost = || SkipReason::lost("no job was made for it");
        let case = record.plan.case(id).ok_or_else(lost)?;
        match self.timing(record, case, 0, Timing::Alone)? {
            run::worker::Job::Time(job) => Ok(*job),
            _ => Err(lost()),
        }
    }

    fn job_of_base(&self, record: &Record, id: &CaseId) -> Result<TimeJob, SkipReason> {
        let head = self.own_job(record, id)?;
        let base = self.base_arm(record, id)?;
        Ok(TimeJob {
            case: base.case,
            artifact: base.artifact,
            ..head
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_this_machine_is_in_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for below in ["head", "base", "cuda"] {
            std::fs::create_dir(real.join(below)).unwrap();
        }
        let (head, base) = (real.join("head"), real.join("base"));
        let trees = PathReplacements::new(&[&head, &base], &real.join("cuda"));
        let name = |path: &str| trees.name(&real.join(path).display().to_string());
        assert_eq!(name("head/kernels/k.cu:12"), "kernels/k.cu:12");
        assert_eq!(name("base/kernels/k.cu:12"), "kernels/k.cu:12");
        assert_eq!(name("cuda/cuda_fp16.hpp:7"), "cuda/include/cuda_fp16.hpp:7");
        assert_eq!(name("elsewhere/k.cu:3"), "k.cu:3");
        assert_eq!(trees.name("kernels/k.cu:12"), "kernels/k.cu:12");
    }
}
