//! Process after process, each fresh and over all cases that still need one, until the judge asks no more.

use super::took::milliseconds;
use super::work::{SkipReason, Work};
use crate::event::{Event, Phase};
use judge::{RivalTask, RivalTurn, Timing};
use model::{Case, CaseId, Evidence, Plan, Record, Rival, Seen};
use run::rivals::{Asked, Rivals, Setting};
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
        let tasks = turns.iter().map(|turn| turn.tasks.len()).sum::<usize>();
        let round = (wanted.len() + tasks) as u64;
        let ahead = match announced {
            0 => round.max(least_steps(&record.plan, &wanted, &turns)),
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
            let next = jobs.peek();
            crew.announce(next.and_then(|(.., job)| job.as_ref().ok()).cloned());
            let began = Instant::now();
            evidence.push(timed(crew, case, process, timing, job));
            work.took.add(&case.id, began.elapsed());
            stepped(case.id.to_string());
        }
        // The GPU is ours still, and idle: nothing of ours may run at the same time.
        if crew.is_measuring() {
            let began = Instant::now();
            evidence.extend(take_turn(&mut rivals, &turns, root, record, &stepped));
            rivals_took += began.elapsed();
        }
        record.evidence.append(&mut evidence);
    }
    on(Event::Ended { phase: Phase::Time });
    record.costs.rivals_ms = milliseconds(rivals_took);
}

/// Processes of these cases, and tasks of rivals in as many rounds, before the judge could have enough.
fn least_steps(plan: &Plan, wanted: &[(CaseId, Timing)], turns: &[RivalTurn]) -> u64 {
    let least = |timing: &Timing| match timing {
        Timing::Alone => plan.timing.processes,
        Timing::AgainstBase(_) => plan.pairing.as_ref().map_or(1, |it| it.first_look()),
    };
    let all = wanted
        .iter()
        .map(|(_, timing)| u64::from(least(timing).max(1)));
    let rounds = all.clone().max().unwrap_or(1);
    let tasks = turns.iter().flat_map(|turn| &turn.tasks);
    let rivals = tasks.map(|it| u64::from(it.processes.saturating_sub(it.process)).min(rounds));
    all.sum::<u64>() + rivals.sum::<u64>()
}

/// One process of each rival, over all of its tasks of this round.
fn take_turn(
    rivals: &mut Rivals,
    turns: &[RivalTurn],
    root: &Path,
    record: &Record,
    stepped: &dyn Fn(String),
) -> Vec<Evidence> {
    let Some(device) = record.environment.device.got() else {
        return Vec::new();
    };
    let setting = Setting {
        root,
        device,
        plan: &record.plan,
    };
    let tasks = turns.iter().flat_map(|turn| {
        let tasks = turn.tasks.iter();
        tasks.map(|task| (turn.rival, task))
    });
    let tasks: Vec<(&Rival, &RivalTask)> = tasks.collect();
    let asked = tasks.iter();
    let asked = asked.map(|&(rival, it)| Asked {
        rival,
        task: it.task,
        again: it.process + 1 < it.processes,
    });
    let asked: Vec<Asked> = asked.collect();
    let mut evidence = Vec::new();
    rivals.take_turn(setting, &asked, |at, answer| {
        let Some((rival, RivalTask { task, process, .. })) = tasks.get(at) else {
            return;
        };
        evidence.push(Evidence::Rival {
            rival: rival.name.clone(),
            task: (*task).clone(),
            process: *process,
            facts: match answer {
                Ok(facts) => Seen::Got(facts),
                Err(fault) => Seen::Fault(fault),
            },
        });
        stepped(format!("{}: {task}", rival.name));
    });
    evidence
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
        assert_eq!(least_steps(&record.plan, &wanted, &[]), 2 * rounds);
        let rival = fixture::rival();
        let turn = |process, processes| RivalTurn {
            rival: &rival,
            tasks: vec![RivalTask {
                task: &wanted[0].0,
                process,
                processes,
            }],
        };
        let turns = [turn(0, 2), turn(1, 2), turn(0, 100)];
        let steps = least_steps(&record.plan, &wanted, &turns);
        assert_eq!(steps, 2 * rounds + 2 + 1 + rounds);
        assert_eq!(least_steps(&record.plan, &[], &[]), 0);
    }
}
