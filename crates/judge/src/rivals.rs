//! Floor 2: finds the time that a rival took for the task of a case, and compares the case with it.

use super::index::View;
use super::not_passed::{NotPassed, OrNotPassed, inconclusive, missing, skipped};
use super::series::{check_counts, in_order};
use super::value::{MetricValue, Spread, value_of};
use crate::stats::{ProcessGroup, ProcessTimes, ProcessValue, over_processes};
use model::*;
use std::collections::BTreeMap;

/// The least number of processes of a rival that a report uses, and a gate if head is timed against a base.
const LEAST_PROCESSES: u32 = 2;

impl<'a> View<'_, 'a> {
    /// Returns a metric of one backend for the task of a case: the geometric mean of one value from each process, as
    /// for a case itself.
    pub(super) fn rival(
        self,
        id: &CaseId,
        rival: &str,
        backend: &str,
        metric: Metric,
    ) -> OrNotPassed<MetricValue> {
        self.device()?;
        if self.is_unrequested(id, rival) {
            let rival = rival.to_owned();
            return inconclusive(Reason::RivalNotRequested { rival });
        }
        if !metric.has_rival() {
            return inconclusive(Reason::Misplaced {
                metric: Some(metric),
            });
        }
        let mut values = Vec::new();
        let mut resolution: f64 = 0.0;
        for times in self.rival_series(id, rival, backend)? {
            let times = ProcessTimes {
                launches: times.launches_per_sample,
                batched_ns: &times.batched_ns,
                single_ns: &times.single_ns,
                tick_ns: 0,
            };
            let ProcessValue { value, step } = value_of(&times, metric)?;
            values.push(value);
            resolution = resolution.max(step / value);
        }
        Ok(MetricValue::from_processes(&values, resolution))
    }

    fn rival_series(
        self,
        id: &CaseId,
        rival: &str,
        backend: &str,
    ) -> OrNotPassed<Vec<&'a RivalTimes>> {
        let plan = self.plan();
        let case = self.case(id)?;
        let task = plan.task_id(case);
        let lacking = || {
            missing(Piece::Rival {
                rival: rival.to_owned(),
                task: task.clone(),
            })
        };
        let mut used = Vec::new();
        for found in in_order(self.timed_of_rival(rival, task)) {
            let (process, facts) = found?;
            match facts.backends.get(backend) {
                None => return lacking(),
                Some(Contest::Skipped { because }) => {
                    return skipped(Reason::RivalSkipped {
                        rival: rival.to_owned(),
                        backend: backend.to_owned(),
                        because: because.clone(),
                    });
                }
                Some(Contest::Timed(times)) => {
                    let counts = (times.batched_ns.len(), times.single_ns.len());
                    check_counts(process, times.launches_per_sample, counts, &plan.timing)?;
                    used.push(times);
                }
            }
        }
        let needed = if self.filed().pairs.get(id).is_empty() {
            let planned = plan.timing.processes.max(1);
            planned.min(self.processes_of_rival(rival, task)) as usize
        } else {
            LEAST_PROCESSES as usize
        };
        match used.len() {
            0 => lacking(),
            have if have < needed => inconclusive(Reason::TooFewProcesses { have, needed }),
            _ => Ok(used),
        }
    }

    /// Returns true if the plan has the rival, and this run was not asked to time it.
    fn is_unrequested(self, id: &CaseId, rival: &str) -> bool {
        let rival = self.plan().rival(&id.kernel, rival);
        rival.is_some_and(|rival| !rival.requested)
    }

    /// Returns the number of processes in which a rival does a task. If a gate rests on it, this is the number planned
    /// for a case. Against a base, our own kernel may need more processes to tell a small change, and the rival does
    /// not.
    pub(super) fn processes_of_rival(self, rival: &str, task: &CaseId) -> u32 {
        let is_of_task = |subject: &Subject| match subject {
            Subject::Case(id) if (&id.kernel, &id.shape) == (&task.kernel, &task.shape) => {
                let case = self.planned_case(id);
                case.is_some_and(|case| self.plan().task_id(case) == task)
            }
            _ => false,
        };
        if self
            .policy()
            .gates
            .iter()
            .any(|gate| gate.rule.names_rival(rival) && is_of_task(&gate.subject))
        {
            self.plan().timing.processes.max(LEAST_PROCESSES)
        } else {
            LEAST_PROCESSES
        }
    }

    /// Returns true if a rival must do a task once more. A process that broke or skipped everything is not repeated.
    pub(super) fn rival_goes_on(self, rival: &str, task: &CaseId) -> bool {
        let is_timed = |facts: &RivalFacts| {
            facts
                .backends
                .values()
                .any(|contest| matches!(contest, Contest::Timed(_)))
        };
        let seen = self.timed_of_rival(rival, task);
        let most = self.processes_of_rival(rival, task) as usize;
        seen.len() < most
            && seen
                .iter()
                .all(|(_, seen)| seen.got().is_some_and(is_timed))
    }
}

/// Compares the timed cases of each kernel with its rivals.
pub(super) fn standings(view: View) -> Vec<RivalStanding> {
    view.plan()
        .rivals
        .iter()
        .map(|rival| standing(view, rival))
        .collect()
}

fn standing(view: View, rival: &Rival) -> RivalStanding {
    let cases = view
        .plan()
        .cases
        .iter()
        .filter(|case| case.timed && case.id.kernel == rival.kernel);
    let mut standing = RivalStanding {
        kernel: rival.kernel.clone(),
        rival: rival.name.clone(),
        versions: BTreeMap::new(),
        compared: Vec::new(),
        not_compared: Vec::new(),
    };
    if !rival.requested {
        // Without a GPU the rival would not run either.
        if view.device().is_ok() {
            let rival_name = rival.name.clone();
            standing.not_compared.push(NotCompared {
                backends: rival.backends.clone(),
                outcome: Outcome::Inconclusive,
                reason: Reason::RivalNotRequested { rival: rival_name },
                cases: cases.map(|case| case.id.clone()).collect(),
            });
        }
        return standing;
    }
    for case in cases {
        let seen = view.timed_of_rival(&rival.name, view.plan().task_id(case));
        for facts in seen.iter().filter_map(|(_, seen)| seen.got()) {
            standing.versions.extend(facts.versions.clone());
        }
        let ours = view.metric(&Subject::Case(case.id.clone()), Metric::P50);
        for backend in &rival.backends {
            let theirs = view.rival(&case.id, &rival.name, backend, Metric::P50);
            match (&ours, theirs) {
                (Ok(ours), Ok(theirs)) => standing.compared.push(AgainstRival {
                    case: case.id.clone(),
                    backend: backend.clone(),
                    ours: Num(ours.number),
                    theirs: Num(theirs.number),
                    times_as_fast: Num(theirs.number / ours.number),
                }),
                // The gates of the case say why it has no times of its own.
                (Err(_), _) if view.device().is_ok() => {}
                (_, Err(why)) => add_not_compared(&mut standing, backend, why, &case.id),
                (Err(why), _) => {
                    add_not_compared(&mut standing, backend, why.clone(), &case.id);
                }
            }
        }
    }
    standing
}

fn add_not_compared(standing: &mut RivalStanding, backend: &str, why: NotPassed, case: &CaseId) {
    let mut known = standing.not_compared.iter_mut();
    match known.find(|known| known.reason == why.reason) {
        Some(known) => {
            if !known
                .backends
                .iter()
                .any(|known_backend| known_backend == backend)
            {
                known.backends.push(backend.to_owned());
            }
            if !known.cases.contains(case) {
                known.cases.push(case.clone());
            }
        }
        None => standing.not_compared.push(NotCompared {
            backends: vec![backend.to_owned()],
            outcome: why.outcome,
            reason: why.reason,
            cases: vec![case.clone()],
        }),
    }
}

impl MetricValue {
    /// Sums up one value from each process by their geometric mean, which is the estimate that the interval of a ratio
    /// is about.
    pub(super) fn from_processes(values: &[f64], resolution: f64) -> Self {
        Self {
            number: over_processes(values).unwrap_or(f64::NAN),
            spread: ProcessGroup::from_values(values, resolution).map(Spread::Processes),
        }
    }
}
