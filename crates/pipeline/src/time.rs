//! Times cases in fresh processes, one after another over all cases that still need one, until the judge asks for no
//! more.

use super::took::milliseconds;
use super::work::{SharedWork, SkipReason};
use crate::event::{Event, Phase};
use judge::{RivalTask, RivalTurn, Timing};
use model::{Case, CaseId, Evidence, Facet, Plan, Question, Record, Rival, Rule, Seen};
use run::rivals::{RivalRequest, Rivals, Setting};
use run::worker::{Arm, Crew, Job, PairJob, TimeJob};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{Level, debug};

pub fn time_all(
    work: &SharedWork,
    root: &Path,
    crew: &mut Crew,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) {
    let mut stage = TimeStage {
        work,
        root,
        on,
        processes: HashMap::new(),
        rivals: Rivals::default(),
        rivals_took: Duration::ZERO,
    };
    // The judge bounds the processes of each case, and every answer brings at least one nearer to its bound.
    loop {
        let mut due = stage.find_due(record);
        stage.log_looks(record, &due);
        if due.is_empty() {
            break;
        }
        on(Event::Began {
            phase: Phase::Time,
            steps: steps_ahead(&due, &next_rivals(record, &due)),
        });
        while !due.is_empty() {
            let evidence = stage.take_round(crew, record, &due);
            let got: HashSet<&CaseId> = evidence.iter().filter_map(timed_case).collect();
            due.retain_mut(|job| {
                job.processes -= 1;
                job.processes > 0 && got.contains(&job.case)
            });
            record.evidence.extend(evidence);
        }
    }
    on(Event::Ended { phase: Phase::Time });
    record.costs.rivals_ms = milliseconds(stage.rivals_took);
}

struct TimeStage<'a> {
    work: &'a SharedWork,
    root: &'a Path,
    on: &'a (dyn Fn(Event) + Sync),
    /// The number of processes that each case had so far.
    processes: HashMap<CaseId, u32>,
    rivals: Rivals,
    rivals_took: Duration,
}

/// A case that needs more processes before the judge can decide.
struct Due {
    case: CaseId,
    timing: Timing,
    /// The number of processes, at least one.
    processes: u32,
}

impl TimeStage<'_> {
    /// Asks the judge which cases need more processes, and how many before it could say anything new about them.
    fn find_due(&self, record: &Record) -> Vec<Due> {
        let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
        judge::next(plan, environment, policy, &record.evidence)
            .into_iter()
            .map(|(case, timing)| {
                let seen = self.processes.get(&case).copied().unwrap_or(0);
                Due {
                    processes: processes_until_look(plan, timing, seen),
                    case,
                    timing,
                }
            })
            .collect()
    }

    /// Reports what the gates on times say of the processes so far, and which cases need more. The judge is asked again
    /// for that, so it happens only where it is seen.
    fn log_looks(&self, record: &Record, due: &[Due]) {
        if !tracing::enabled!(Level::DEBUG) {
            return;
        }
        let verdicts = judge::judge(record).verdicts.into_iter();
        for verdict in verdicts.filter(|verdict| is_on_times(&verdict.question)) {
            debug!(
                subject = %verdict.subject,
                effort = ?verdict.effort,
                change = ?verdict.change,
                interval = ?verdict.interval,
                outcome = %verdict.outcome,
                reason = ?verdict.reason,
                "look"
            );
        }
        for Due {
            case,
            timing,
            processes,
        } in due
        {
            debug!(%case, ?timing, processes, "needs more processes");
        }
    }

    /// Runs one fresh process over all of these cases, and one of each rival.
    fn take_round(&mut self, crew: &mut Crew, record: &Record, due: &[Due]) -> Vec<Evidence> {
        let stepped = |what: String| {
            (self.on)(Event::Stepped {
                phase: Phase::Time,
                what,
            });
        };
        let processes = &mut self.processes;
        let asked: Vec<ProcessJob> = due
            .iter()
            .filter_map(|due_job| {
                let case = record.plan.case(&due_job.case)?;
                let process = processes.entry(due_job.case.clone()).or_default();
                let number = *process;
                *process += 1;
                Some(ProcessJob {
                    case,
                    process: number,
                    timing: due_job.timing,
                    job: self.work.timing(record, case, number, due_job.timing),
                })
            })
            .collect();
        crew.renew(alike_ahead(due, &asked));
        let mut evidence = Vec::new();
        let mut asked = asked.into_iter().peekable();
        while let Some(process_job) = asked.next() {
            let next = asked.peek();
            crew.announce(next.and_then(|next| next.job.as_ref().ok()).cloned());
            let began = Instant::now();
            let id = &process_job.case.id;
            evidence.push(timed(crew, process_job));
            self.work.took.add(id, began.elapsed());
            stepped(id.to_string());
        }
        // The GPU is still reserved for this run, and idle. Nothing else of this run may compute meanwhile.
        if crew.is_measuring() {
            let began = Instant::now();
            let turns = next_rivals(record, due);
            evidence.extend(take_turn(
                &mut self.rivals,
                &turns,
                self.root,
                record,
                &stepped,
            ));
            self.rivals_took += began.elapsed();
        }
        evidence
    }
}

fn is_on_times(question: &Question) -> bool {
    matches!(question, Question::Gate(Rule::Limit { metric, .. }) if metric.facet() == Facet::Times)
}

fn next_rivals<'a>(record: &'a Record, due: &[Due]) -> Vec<RivalTurn<'a>> {
    let (plan, environment, policy) = (&record.plan, &record.environment, &record.policy);
    let ids: Vec<CaseId> = due.iter().map(|job| job.case.clone()).collect();
    judge::next_rivals(plan, environment, policy, &record.evidence, &ids)
}

/// Returns the case if it was timed. A case that was not timed gets no further process.
fn timed_case(piece: &Evidence) -> Option<&CaseId> {
    match piece {
        Evidence::Time { case, facts, .. } => facts.got().map(|_| case),
        Evidence::Pair { case, facts, .. } => facts.got().map(|_| case),
        _ => None,
    }
}

/// Counts the processes of these cases, and the tasks of rivals in as many rounds.
fn steps_ahead(due: &[Due], turns: &[RivalTurn]) -> u64 {
    let all = due.iter().map(|job| u64::from(job.processes));
    let rounds = all.clone().max().unwrap_or(1);
    all.sum::<u64>()
        + turns
            .iter()
            .flat_map(|turn| &turn.tasks)
            .map(|task| u64::from(task.processes.saturating_sub(task.process)).min(rounds))
            .sum::<u64>()
}

/// Returns the number of processes of a case, including the next, before the judge could decide from those that it was
/// shown.
fn processes_until_look(plan: &Plan, timing: Timing, seen: u32) -> u32 {
    let look = match timing {
        Timing::Alone => Some(plan.timing.processes),
        Timing::AgainstBase(_) => plan
            .pairing
            .as_ref()
            .and_then(|pairing| pairing.next_look(seen)),
    };
    look.unwrap_or(0).saturating_sub(seen).max(1)
}

/// Runs one process of each rival, over all of its tasks of this round.
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
    let tasks: Vec<(&Rival, &RivalTask)> = turns
        .iter()
        .flat_map(|turn| turn.tasks.iter().map(|task| (turn.rival, task)))
        .collect();
    let asked: Vec<RivalRequest> = tasks
        .iter()
        .map(|&(rival, timed)| RivalRequest {
            rival,
            task: timed.task,
            again: timed.process + 1 < timed.processes,
        })
        .collect();
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

/// The timing of one case in one process.
struct ProcessJob<'a> {
    case: &'a Case,
    /// The number of the process, counted from 0.
    process: u32,
    timing: Timing,
    job: std::result::Result<Job, SkipReason>,
}

/// Returns the number of processes of the same kind that will be needed, including the next.
fn alike_ahead(due: &[Due], asked: &[ProcessJob]) -> usize {
    let has_launcher = |job: &ProcessJob| job.job.as_ref().is_ok_and(Job::has_launcher);
    if asked.iter().any(has_launcher) {
        return 1;
    }
    due.iter().map(|job| job.processes).max().unwrap_or(1) as usize
}

/// Times a process. The judge asks only for those that it admits.
fn timed(crew: &mut Crew, process_job: ProcessJob) -> Evidence {
    let ProcessJob {
        case,
        process,
        timing,
        job,
    } = process_job;
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

impl SharedWork {
    pub(super) fn timing(
        &self,
        record: &Record,
        case: &Case,
        process: u32,
        timing: Timing,
    ) -> std::result::Result<Job, SkipReason> {
        let plan = &record.plan;
        let artifact = self.head.artifact(plan, &case.id, None)?;
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
        let planned = record.plan.timing.processes;
        assert!(planned > 1);
        let due = ["small", "large"].map(|shape| Due {
            case: fixture::case_id("fast", shape),
            timing: Timing::Alone,
            processes: processes_until_look(&record.plan, Timing::Alone, 0),
        });
        let rounds = u64::from(planned);
        assert_eq!(steps_ahead(&due, &[]), 2 * rounds);
        let rival = fixture::rival();
        let turn = |process, processes| RivalTurn {
            rival: &rival,
            tasks: vec![RivalTask {
                task: &due[0].case,
                process,
                processes,
            }],
        };
        let turns = [turn(0, 2), turn(1, 2), turn(0, 100)];
        assert_eq!(steps_ahead(&due, &turns), 2 * rounds + 2 + 1 + rounds);
        assert_eq!(steps_ahead(&[], &[]), 0);
    }

    #[test]
    fn the_judge_is_asked_where_it_looks_and_not_before() {
        let mut plan = fixture::record().plan;
        let planned = plan.timing.processes;
        assert_eq!(processes_until_look(&plan, Timing::Alone, 0), planned);
        assert_eq!(processes_until_look(&plan, Timing::Alone, planned), 1);
        plan.pairing = Some(config::pairing(false));
        let paired = Timing::AgainstBase(model::Singles::Shown);
        let looks = [0, 3, 4, 6, 8, 12, 18, 26, 38, 55];
        for pair in looks.windows(2) {
            let until = processes_until_look(&plan, paired, pair[0]);
            assert_eq!(pair[0] + until, pair[1]);
        }
        // These are the process that confirms a failure, and those that replace throttled ones.
        assert_eq!(processes_until_look(&plan, paired, 55), 1);
    }
}
