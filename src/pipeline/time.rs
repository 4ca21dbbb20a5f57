//! Process after process, each fresh and over all cases that still need one, until the judge asks no more.

use super::{Why, Work};
use crate::report::progress::{Event, Phase};
use crate::worker::{Arm, Crew, Job, PairJob, TimeJob};
use std::collections::HashMap;
use verdict::judge::{self, Timing};
use verdict::model::{Case, CaseId, Evidence, Record};

pub fn time_all(work: &Work, crew: &mut Crew, record: &mut Record, on: &(dyn Fn(Event) + Sync)) {
    let mut processes: HashMap<CaseId, u32> = HashMap::new();
    // The judge bounds the processes of each case; every round brings at least one nearer to its bound.
    loop {
        let wanted = judge::next(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        if wanted.is_empty() {
            break;
        }
        crew.retire();
        on(Event::Began {
            phase: Phase::Time,
            steps: wanted.len() as u64,
        });
        let plan = &record.plan;
        let jobs = wanted.iter().filter_map(|(id, timing)| {
            let case = plan.case(id)?;
            let process = *processes
                .entry(id.clone())
                .and_modify(|n| *n += 1)
                .or_default();
            Some((
                case,
                process,
                *timing,
                work.timing(record, case, process, *timing),
            ))
        });
        let jobs: Vec<_> = jobs.collect();
        let mut evidence = Vec::new();
        let mut jobs = jobs.into_iter().peekable();
        while let Some((case, process, timing, job)) = jobs.next() {
            let next = jobs.peek().and_then(|(.., job)| job.as_ref().ok());
            crew.announce(next.cloned());
            evidence.push(timed(crew, case, process, timing, job));
            on(Event::Stepped {
                phase: Phase::Time,
                what: case.id.to_string(),
            });
        }
        record.evidence.append(&mut evidence);
    }
}

/// The judge asks for those alone that it admits.
fn timed(
    crew: &mut Crew,
    case: &Case,
    process: u32,
    timing: Timing,
    job: std::result::Result<Job, Why>,
) -> Evidence {
    let case = case.id.clone();
    let why = match (job, timing) {
        (Ok(Job::Time(job)), _) => {
            let facts = crew.time(*job);
            return Evidence::Time {
                case,
                process,
                facts,
            };
        }
        (Ok(Job::Pair(job)), _) => {
            let facts = crew.pair(*job);
            return Evidence::Pair {
                case,
                process,
                facts,
            };
        }
        (Ok(_), _) => Why::lost("no job was made for it"),
        (Err(why), _) => why,
    };
    match timing {
        Timing::Alone => Evidence::Time {
            case,
            process,
            facts: why.into_seen(),
        },
        Timing::BesideBase(_) => Evidence::Pair {
            case,
            process,
            facts: why.into_seen(),
        },
    }
}

impl Work {
    fn timing(
        &self,
        record: &Record,
        case: &Case,
        process: u32,
        timing: Timing,
    ) -> std::result::Result<Job, Why> {
        let plan = &record.plan;
        let artifact = self.head.artifact(plan, &case.id, None)?.clone();
        let seed = case.seeds.first().copied().unwrap_or_default();
        let case = case.clone();
        let schedule = plan.timing.clone();
        Ok(match timing {
            Timing::Alone => Job::Time(Box::new(TimeJob {
                case,
                artifact,
                seed,
                schedule,
            })),
            Timing::BesideBase(singles) => Job::Pair(Box::new(PairJob {
                base: self.base_arm(record, &case.id)?,
                head: Arm { case, artifact },
                seed,
                process,
                schedule,
                pairing: plan
                    .pairing
                    .clone()
                    .ok_or_else(|| Why::lost("no base was named"))?,
                singles,
            })),
        })
    }

    fn base_arm(&self, record: &Record, id: &CaseId) -> std::result::Result<Arm, Why> {
        let lacking = || Why::lost(&format!("the base's {id} was not built for this device"));
        let base = record.policy.base.as_ref().ok_or_else(lacking)?;
        let device = record.environment.device.got().ok_or_else(lacking)?;
        let unit = judge::unit_for(&base.plan, id, device).ok_or_else(lacking)?;
        Ok(Arm {
            case: base.plan.case(id).cloned().ok_or_else(lacking)?,
            artifact: self
                .base
                .artifacts
                .get(&unit.id)
                .cloned()
                .ok_or_else(lacking)?,
        })
    }
}
