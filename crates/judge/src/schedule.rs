//! Schedules the rest of a run: which cases may go on, and which need one more timing process.

use super::counterpart::BaseStatus;
use super::index::{Index, View};
use super::rests::rests_on;
use super::review::lost;
use super::rules::{hazards, judge_gate};
use super::series::count;
use model::*;
use std::collections::BTreeSet;

/// The number of processes that may be set aside as throttled beyond those that the last look needs.
const SPARE: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Check,
    Time,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    Yes,
    No { reason: Reason },
}

/// The way in which a case is to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    Alone,
    AgainstBase(Singles),
}

/// Returns which cases may go on, one answer for each case in the order of the plan. A broken limit on resources stops
/// nothing, so that one run reports everything that it can.
pub fn admit(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
    stage: Stage,
) -> Vec<Admission> {
    let index = Index::for_run(plan, environment, policy, evidence);
    let view = index.head();
    let admitted = |case: &Case| match stage {
        Stage::Check => view.runnable(&case.id),
        Stage::Time => view.timeable(&case.id),
    };
    plan.cases
        .iter()
        .map(|case| match admitted(case) {
            Ok(()) => Admission::Yes,
            Err(why) => Admission::No { reason: why.reason },
        })
        .collect()
}

/// Lists for each case the units whose code the simulator runs, the oldest architecture first. PTX that differs only in
/// its architecture is run once.
pub fn to_simulate<'a>(
    plan: &'a Plan,
    environment: &'a Environment,
    policy: &'a Policy,
    evidence: impl IntoIterator<Item = &'a Evidence>,
) -> Vec<(&'a Case, Vec<&'a Unit>)> {
    let index = Index::file_builds(plan, environment, policy, evidence);
    plan.cases
        .iter()
        .map(|case| (case, index.head().simulated(&case.id)))
        .collect()
}

/// Returns the cases for which the base must be checked, too, in the order of the plan. It is called when head's checks
/// are known. The base is needed if head gives no answer, or if a limit is relative to the base. If code, call, inputs
/// and reference are the same, the base's answer is head's.
pub fn needed_of_base(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Vec<CaseId> {
    let index = Index::for_run(plan, environment, policy, evidence);
    let view = index.head();
    let Some(base) = &policy.base else {
        return Vec::new();
    };
    let rests_on_base = |id: &CaseId| {
        view.gates_of(&Subject::Case(id.clone()))
            .iter()
            .any(|gate| match &gate.rule {
                Rule::Counters { .. } => view.is_simulated(),
                Rule::Limit {
                    metric,
                    limit: Limit::Baseline { .. },
                } => match metric.facet() {
                    Facet::Correctness => true,
                    Facet::Counters => view.is_simulated(),
                    Facet::Resources | Facet::Times | Facet::Profile => false,
                },
                _ => false,
            })
    };
    plan.cases
        .iter()
        .map(|case| &case.id)
        .filter(|id| base.plan.case(id).is_some())
        .filter(|id| {
            let views = view.all_architectures(id);
            let mut others = views.filter(|view| !view.is_same_check(id));
            others.any(|view| {
                rests_on_base(id)
                    || lost::lacks_an_answer(view, id)
                    || hazards::rest_on_base(view, id)
            })
        })
        .cloned()
        .collect()
}

/// Returns the cases that need one more timing process, in the order of the plan. They are admitted, and were either
/// timed in fewer processes than planned, or are still open and below the greatest number allowed.
pub fn next(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Vec<(CaseId, Timing)> {
    let index = Index::for_run(plan, environment, policy, evidence);
    let view = index.head();
    plan.cases
        .iter()
        .filter(|case| case.timed)
        .filter_map(|case| Some((case.id.clone(), view.next_timing(&case.id)?)))
        .collect()
}

/// A case that is to be profiled, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiled {
    pub case: CaseId,
    pub repeats: u32,
    /// True if the base has the case with other code. The base is then profiled as often.
    pub against_base: bool,
}

/// Returns the cases that are to be profiled, in the order of the plan: those that are right. A case that a relative
/// limit rests on is profiled several times.
pub fn to_profile(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Vec<Profiled> {
    let (Some(profiling), true) = (plan.profiling, environment.device.got().is_some()) else {
        return Vec::new();
    };
    let index = Index::for_run(plan, environment, policy, evidence);
    let view = index.head();
    let is_right = |case: &&Case| view.timeable(&case.id).is_ok();
    let is_compared = |id: &CaseId| {
        view.gates_of(&Subject::Case(id.clone()))
            .iter()
            .any(|gate| {
                matches!(
                    &gate.rule,
                    Rule::Limit {
                        metric: Metric::Profile(_),
                        limit: Limit::Baseline { .. } | Limit::Anchor { .. },
                    }
                )
            })
    };
    plan.cases
        .iter()
        .filter(is_right)
        .map(|case| Profiled {
            case: case.id.clone(),
            repeats: if is_compared(&case.id) {
                profiling.repeats
            } else {
                1
            },
            against_base: view.base_status(&case.id) == Ok(BaseStatus::Changed),
        })
        .collect()
}

/// One more process of a rival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalTurn<'a> {
    pub rival: &'a Rival,
    pub tasks: Vec<RivalTask<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalTask<'a> {
    pub task: &'a CaseId,
    /// The number of this process for the task, counted from 0.
    pub process: u32,
    /// The total number of processes in which the rival does the task.
    pub processes: u32,
}

/// Returns the next tasks of requested rivals for these cases, each of which gets one more timing process. Variants
/// that ask for the same work share one task. A rival that broke, or that skipped a whole task, is not asked again.
pub fn next_rivals<'a>(
    plan: &'a Plan,
    environment: &'a Environment,
    policy: &'a Policy,
    evidence: &'a [Evidence],
    wanted: &[CaseId],
) -> Vec<RivalTurn<'a>> {
    if !plan.rivals.iter().any(|rival| rival.requested) {
        return Vec::new();
    }
    let index = Index::for_run(plan, environment, policy, evidence);
    let view = index.head();
    let turn = |rival: &'a Rival| {
        let mut tasks: Vec<&CaseId> = plan
            .cases
            .iter()
            .filter(|case| case.id.kernel == rival.kernel)
            .filter(|case| wanted.contains(&case.id))
            .map(|case| plan.task_id(case))
            .filter(|task| view.rival_goes_on(&rival.name, task))
            .collect();
        let mut known = BTreeSet::new();
        tasks.retain(|task| known.insert(*task));
        let tasks = tasks.into_iter().map(|task| {
            let seen = view.timed_of_rival(&rival.name, task);
            RivalTask {
                task,
                process: count(seen.len()),
                processes: view.processes_of_rival(&rival.name, task),
            }
        });
        RivalTurn {
            rival,
            tasks: tasks.collect(),
        }
    };
    plan.rivals
        .iter()
        .filter(|rival| rival.requested)
        .map(turn)
        .filter(|turn| !turn.tasks.is_empty())
        .collect()
}

impl<'a> View<'_, 'a> {
    fn next_timing(self, id: &CaseId) -> Option<Timing> {
        if self.device().is_err() || self.timeable(id).is_err() {
            return None;
        }
        let pairing = self.plan().pairing.as_ref();
        let against_base = || {
            self.needs_pair(id)
                .then(|| Timing::AgainstBase(self.singles(id)))
        };
        match self.base_status(id) {
            Ok(BaseStatus::Changed) => against_base(),
            Ok(BaseStatus::Unchanged) if pairing.is_some_and(|pairing| pairing.unchanged) => {
                against_base()
            }
            // The case did not change, so there is no change to measure.
            Ok(BaseStatus::Unchanged) if !self.needs_own_times(id) => None,
            Ok(BaseStatus::NoBase | BaseStatus::New | BaseStatus::Unchanged) | Err(_) => {
                self.needs_process(id).then_some(Timing::Alone)
            }
        }
    }

    /// Returns true if another process against the base could decide a gate of the case.
    fn needs_pair(self, id: &CaseId) -> bool {
        let Ok(pairing) = self.pairing() else {
            return false;
        };
        let seen = self.filed().pairs.get(id);
        let ended = seen.iter().any(|(_, seen)| seen.got().is_none());
        let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        let most = pairing.looks.last().copied().unwrap_or(0) + 1 + SPARE;
        !ended && count < most && (count < pairing.first_look() || self.is_open(id))
    }

    fn needs_process(self, id: &CaseId) -> bool {
        let schedule = &self.plan().timing;
        let seen = self.processes(id);
        let planned = schedule.processes.max(1);
        if self.timing_ended(id) {
            return false;
        }
        if seen < planned {
            return true;
        }
        if seen >= schedule.max_processes {
            return false;
        }
        seen - self.throttled(id) < planned || self.is_open(id)
    }

    /// Returns true if more times could decide a gate of the case.
    fn is_open(self, id: &CaseId) -> bool {
        self.gates_of(&Subject::Case(id.clone()))
            .iter()
            .any(|gate| judge_gate(self, gate, &self.policy().accepted).open)
    }

    /// Returns true if a gate of this run needs the time of the case itself, and not only its change. A case that is
    /// the same as at the base may have changed since an anchor.
    fn needs_own_times(self, id: &CaseId) -> bool {
        self.policy()
            .gates
            .iter()
            .filter(|gate| {
                !matches!(
                    gate.rule,
                    Rule::Limit {
                        limit: Limit::Baseline { .. } | Limit::Base { .. },
                        ..
                    }
                )
            })
            .any(|gate| rests_on(gate, id, |metric| metric.facet() == Facet::Times))
    }
}
