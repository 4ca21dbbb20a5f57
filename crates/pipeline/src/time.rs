//! Process after process, each fresh and over all cases that still need one, until the judge asks no more.

use super::took::milliseconds;
use super::work::{SkipReason, Work};
use crate::event::{Event, Phase};
use judge::{RivalTurn, Timing};
use model::{Case, CaseId, Evidence, Plan, Record, Seen};
use run::rivals::Rivals;
use run::worker::{Arm, Crew, Job, PairJob, TimeJob};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

pub fn time_all(
    work: &Work,
    root: &Path,
    crew: &mut Crew,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) {
    let mut processes: HashMap<CaseId, u32> = HashMap::new();
    let mut rivals = Rivals::default();
    let mut rivals_took = Duration::ZERO;
    // Counted over all rounds, as the bar shows the stage and not a round of it.
    let (mut announced, mut done) = (0, 0);
    // The judge bounds the processes of each case; every round brings at least one nearer to its bound.
    loop {
        let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
        let wanted = judge::next(plan, environment, policy, &record.evidence);
        if wanted.is_empty() {
            break;
        }
        let ids: Vec<CaseId> = wanted.iter().map(|(id, _)| id.clone()).collect();
        let turns = judge::next_rivals(plan, environment, policy, &record.evidence, &ids);
        crew.retire();
        let round = (wanted.len() + turns.len()) as u64;
        let ahead = match announced {
            0 => round.max(least_steps(&record.plan, &wanted, turns.len())),
            announced => (done + round).saturating_sub(announced),
        };
        announced += ahead;
        done += round;
        if ahead > 0 {
            on(Event::Began {
                phase: Phase::Time,
                steps: ahead,
            });
        }
        let stepped = |what: String| {
            on(Event::Stepped {
                phase: Phase::Time,
                what,
            });
        };
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
            let kernel = &case.id.kernel;
            let next = jobs.peek().filter(|(next, ..)| next.id.kernel == *kernel);
            let turns = turns.iter().filter(|turn| turn.rival.kernel == *kernel);
            // The rivals of a kernel follow its last case, and nothing of ours may run at the same time.
            let turns: Vec<_> = turns.filter(|_| next.is_none()).collect();
            let next = match turns.is_empty() {
                true => jobs.peek(),
                false => None,
            };
            crew.announce(next.and_then(|(.., job)| job.as_ref().ok()).cloned());
            let began = Instant::now();
            evidence.push(timed(crew, case, process, timing, job));
            work.took.add(&case.id, began.elapsed());
            stepped(case.id.to_string());
            for turn in turns {
                let began = Instant::now();
                if crew.is_measuring() {
                    evidence.extend(rival(&mut rivals, turn, root, record));
                }
                rivals_took += began.elapsed();
                stepped(format!("{} against {kernel}", turn.rival.name));
            }
        }
        record.evidence.append(&mut evidence);
    }
    on(Event::Ended { phase: Phase::Time });
    record.costs.rivals_ms = milliseconds(rivals_took);
}

/// Processes of these cases before the judge could have enough, with as many turns of rivals in each round.
fn least_steps(plan: &Plan, wanted: &[(CaseId, Timing)], turns: usize) -> u64 {
    let least = |timing: &Timing| match timing {
        Timing::Alone => plan.timing.processes,
        Timing::AgainstBase(_) => plan.pairing.as_ref().map_or(1, |it| it.first_look()),
    };
    let all = wanted
        .iter()
        .map(|(_, timing)| u64::from(least(timing).max(1)));
    let rounds = all.clone().max().unwrap_or(1);
    all.sum::<u64>() + rounds * turns as u64
}

/// One process of a rival. The GPU is ours still, and idle.
fn rival(rivals: &mut Rivals, turn: &RivalTurn, root: &Path, record: &Record) -> Vec<Evidence> {
    let Some(device) = record.environment.device.got() else {
        return Vec::new();
    };
    let tasks: Vec<&CaseId> = turn.tasks.iter().map(|(task, _)| *task).collect();
    let answered = rivals.run(turn.rival, root, device, &record.plan, &tasks);
    let evidence = turn.tasks.iter().map(|(task, process)| Evidence::Rival {
        rival: turn.rival.name.clone(),
        task: (*task).clone(),
        process: *process,
        facts: match &answered {
            Err(fault) => Seen::Fault(fault.clone()),
            Ok(all) => match all.get(*task) {
                Some(facts) => Seen::Got(facts.clone()),
                None => SkipReason::lost("the rival's answer was lost").into_seen(),
            },
        },
    });
    evidence.collect()
}

/// The judge asks for those alone that it admits.
fn timed(
    crew: &mut Crew,
    case: &Case,
    process: u32,
    timing: Timing,
    job: std::result::Result<Job, SkipReason>,
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
        (Ok(_), _) => SkipReason::lost("no job was made for it"),
        (Err(why), _) => why,
    };
    match timing {
        Timing::Alone => Evidence::Time {
            case,
            process,
            facts: why.into_seen(),
        },
        Timing::AgainstBase(_) => Evidence::Pair {
            case,
            process,
            facts: why.into_seen(),
        },
    }
}

impl Work {
    pub(super) fn timing(
        &self,
        record: &Record,
        case: &Case,
        process: u32,
        timing: Timing,
    ) -> std::result::Result<Job, SkipReason> {
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
            Timing::AgainstBase(singles) => Job::Pair(Box::new(PairJob {
                base: self.base_arm(record, &case.id)?,
                head: Arm { case, artifact },
                seed,
                process,
                schedule,
                pairing: plan
                    .pairing
                    .clone()
                    .ok_or_else(|| SkipReason::lost("no base was named"))?,
                singles,
            })),
        })
    }

    pub(super) fn base_arm(
        &self,
        record: &Record,
        id: &CaseId,
    ) -> std::result::Result<Arm, SkipReason> {
        let lacking =
            || SkipReason::lost(&format!("the base's {id} was not built for this device"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;

    #[test]
    fn the_stage_has_the_steps_of_all_rounds() {
        let record = fixture::record();
        let id = |shape: &str| (fixture::case_id("fast", shape), Timing::Alone);
        let wanted = [id("small"), id("large")];
        let rounds = u64::from(record.plan.timing.processes);
        assert!(rounds > 1);
        assert_eq!(least_steps(&record.plan, &wanted, 0), 2 * rounds);
        assert_eq!(least_steps(&record.plan, &wanted, 1), 3 * rounds);
        assert_eq!(least_steps(&record.plan, &[], 0), 0);
    }
}
