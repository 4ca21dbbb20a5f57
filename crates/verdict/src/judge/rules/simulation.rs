//! What the simulator alone can say: whether its checks found anything, and what a launch costs by its
//! counters, which repeat exactly.

use super::baseline::{Lack, Refusals};
use super::facts::{Facts, Found, Ruling, inconclusive, ruling};
use super::limit::Ruled;
use super::rules::{fail, misplaced, over_seeds};
use super::words;
use crate::model::*;
use std::collections::{BTreeMap, BTreeSet};

/// How many findings of one launch a reason tells in full.
const TOLD: usize = 3;

pub(super) fn no_findings(facts: &Facts, subject: &Subject) -> Found<String> {
    over_seeds(facts, subject, |case, seed| {
        let findings = &facts.simulation(&case.id, seed)?.findings;
        if findings.is_empty() {
            return Ok(());
        }
        // One source line can be several instructions, each with its own finding in the same words.
        let mut told: Vec<String> = findings.iter().map(finding).collect();
        told.dedup();
        let all = told.len();
        told.truncate(TOLD);
        let more = match all - told.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        fail(format!("with seed {seed}: {}{more}", told.join("; ")))
    })
    .map(|_| String::new())
    .map_err(|why| once_simulated(facts, subject, why))
}

/// A change can make a case too dear for the simulator, or of what it does not know, and so take all checks
/// from it. Where the baselines of this very key show that it was simulated before, that is no mere skip.
fn once_simulated(facts: &Facts, subject: &Subject, why: Ruling) -> Ruling {
    let lost = match why.outcome {
        Outcome::Skipped => why.reason.starts_with(words::OVER_BUDGET),
        Outcome::Unsupported => true,
        Outcome::Fail | Outcome::Environment | Outcome::Inconclusive | Outcome::Pass => false,
    };
    let Subject::Case(id) = subject else {
        return why;
    };
    let known = |facet| {
        let key = facts.key(subject, facet);
        facts.policy.baselines.iter().any(|it| {
            (&it.kernel, &it.variant) == (&id.kernel, &id.variant)
                && Ok(&it.key) == key.as_ref()
                && it.cases.contains_key(&id.shape)
        })
    };
    if !(lost && facts.is_simulated() && (known(Facet::Correctness) || known(Facet::Counters))) {
        return why;
    }
    Ruling {
        outcome: Outcome::Inconclusive,
        reason: format!(
            "{}; its baselines are of a simulation, and now nothing checks it here: raise the budget, or where that is meant take `{}` out of its baselines of correctness and counters",
            why.reason, id.shape
        ),
    }
}

fn finding(finding: &Finding) -> String {
    match finding.times {
        0 | 1 => finding.message.clone(),
        times => format!("{} ({times} times)", finding.message),
    }
}

/// What the checks could not judge in any launch of a case, each once.
pub(super) fn not_judged<'a>(facts: &Facts<'a>, case: &Case) -> BTreeSet<&'a str> {
    let launches = case
        .seeds
        .iter()
        .filter_map(|&seed| facts.simulation(&case.id, seed).ok());
    launches
        .flat_map(|launch| launch.not_judged.iter().map(String::as_str))
        .collect()
}

/// What a case printed, and with which seed: the first that printed.
pub(super) fn printed<'a>(facts: &Facts<'a>, case: &Case) -> Option<(u64, &'a Printed)> {
    case.seeds.iter().find_map(|&seed| {
        let launch = facts.simulation(&case.id, seed).ok()?;
        Some((seed, launch.printed.as_ref()?))
    })
}

impl Facts<'_> {
    /// The largest value over all seeds of each counter that can be gated; none where a seed is missing.
    pub fn gateable(&self, id: &CaseId) -> BTreeMap<Counter, u64> {
        self.over_launches(id, |launch| &launch.counters)
            .unwrap_or_default()
    }

    /// The same of any counter, for a reader.
    pub fn shown(&self, id: &CaseId, counter: Counter) -> Option<f64> {
        let of = |of: fn(&SimulationFacts) -> &BTreeMap<Counter, u64>| {
            let counted = self.over_launches(id, of).ok()?;
            counted.get(&counter).copied()
        };
        let value = of(|launch| &launch.counters).or_else(|| of(|launch| &launch.information));
        value.map(|value| value as f64)
    }

    fn over_launches(
        &self,
        id: &CaseId,
        of: impl Fn(&SimulationFacts) -> &BTreeMap<Counter, u64>,
    ) -> Found<BTreeMap<Counter, u64>> {
        let mut largest: Option<BTreeMap<Counter, u64>> = None;
        for &seed in &self.case(id)?.seeds {
            let counted = of(self.simulation(id, seed)?);
            largest = Some(match largest {
                None => counted.clone(),
                // A counter that one launch cannot be held to is none of the case.
                Some(largest) => largest
                    .into_iter()
                    .filter_map(|(counter, value)| {
                        Some((counter, value.max(*counted.get(&counter)?)))
                    })
                    .collect(),
            });
        }
        match largest {
            Some(largest) => Ok(largest),
            None => inconclusive(format!("{id} has no seeds")),
        }
    }

    /// ` (most at kernels/k.cu:12: 8192, ...)`, of the launch that counted `value`; nothing where its lines
    /// are not known.
    fn lines_of(&self, id: &CaseId, counter: Counter, value: f64) -> String {
        let seeds = self.case(id).map_or(&[][..], |case| &case.seeds);
        let launches = seeds
            .iter()
            .filter_map(|&seed| self.simulation(id, seed).ok());
        let mut found = launches.filter(|launch| {
            launch.counters.get(&counter).copied().map(|n| n as f64) == Some(value)
        });
        let lines = found.find_map(|launch| launch.lines.get(&counter));
        let told: Vec<_> = lines
            .into_iter()
            .flatten()
            .map(|line| format!("{}: {}", line.place, line.count))
            .collect();
        match told.is_empty() {
            true => String::new(),
            false => format!(" (most at {})", told.join(", ")),
        }
    }

    /// Counters that no gate can rest on in some launch of the case, and why in the first of them.
    fn withheld(&self, id: &CaseId) -> Found<BTreeMap<Counter, &Withheld>> {
        let mut all = BTreeMap::new();
        for &seed in &self.case(id)?.seeds {
            for (counter, withheld) in &self.simulation(id, seed)?.withheld {
                all.entry(*counter).or_insert(withheld);
            }
        }
        Ok(all)
    }

    /// A counter as a gate sees it.
    pub(super) fn counted(&self, id: &CaseId, metric: Metric) -> Found<f64> {
        let Metric::Counter(counter) = metric else {
            return inconclusive(format!("{metric} is no counter"));
        };
        let counted = self.over_launches(id, |launch| &launch.counters)?;
        match counted.get(&counter) {
            Some(value) => Ok(*value as f64),
            None => {
                let why = why(self.withheld(id)?.get(&counter).copied());
                ruling(
                    Outcome::Unsupported,
                    format!("{counter} cannot be gated: {why}"),
                )
            }
        }
    }
}

fn why(withheld: Option<&Withheld>) -> String {
    match withheld {
        Some(withheld) => words::withheld(withheld),
        None => "no GPU's own counters have confirmed it".to_owned(),
    }
}

/// `shared_store_requests, shared_store_wavefronts (why)`, for each reason.
pub(super) fn not_held(facts: &Facts, id: &CaseId) -> Vec<String> {
    let withheld = facts.withheld(id).unwrap_or_default();
    let mut by_reason: BTreeMap<&Withheld, Vec<&str>> = BTreeMap::new();
    for (counter, withheld) in withheld {
        by_reason.entry(withheld).or_default().push(counter.name());
    }
    let told = by_reason.into_iter().map(|(withheld, counters)| {
        format!("{} ({})", counters.join(", "), words::withheld(withheld))
    });
    told.collect()
}

/// Every counter that can be gated against its baseline. What is better is a win, and to be accepted.
pub(super) fn counters(facts: &Facts, gate: &Gate, allowed: f64, refusals: &Refusals) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let Subject::Case(id) = &gate.subject else {
            return misplaced(&gate.subject);
        };
        if !(allowed >= 0.0 && allowed.is_finite()) {
            return inconclusive(format!("a change of {allowed} cannot be allowed"));
        }
        let counted = facts.over_launches(id, |launch| &launch.counters)?;
        let agreed = |counter: Counter| facts.agreed_on(&gate.subject, counter.into(), refusals);
        let withheld = facts.withheld(id)?;
        let lost: Vec<_> = Counter::ALL
            .into_iter()
            .filter(|counter| !counted.contains_key(counter) && agreed(*counter).is_ok())
            .map(|counter| {
                let why = why(withheld.get(&counter).copied());
                format!("{counter} has a baseline, and this launch cannot be held to it: {why}")
            })
            .collect();
        if !lost.is_empty() {
            return inconclusive(format!(
                "{}; where that is meant, accept it with `{}`",
                lost.join("; "),
                words::update_command(facts.environment, &gate.subject)
            ));
        }
        if counted.is_empty() {
            return ruling(Outcome::Skipped, why(withheld.values().next().copied()));
        }
        let mut worse = Vec::new();
        let mut compared = 0;
        let mut lacking = None;
        for (&counter, &value) in &counted {
            let metric = Metric::from(counter);
            let value = value as f64;
            let was = match agreed(counter) {
                Ok(agreed) => agreed.value,
                Err(Lack::Refused(ruling)) => return Err(ruling),
                Err(Lack::New { reason }) => {
                    lacking.get_or_insert(reason);
                    continue;
                }
            };
            compared += 1;
            let change = words::relative(value, was);
            if change != 0.0 {
                ruled.counters.push(CounterChange {
                    subject: gate.subject.clone(),
                    counter,
                    measured: Num(value),
                    baseline: Num(was),
                    change: Num(change),
                });
            }
            let told = || {
                format!(
                    "{counter} {} -> {}, {}{}",
                    words::quantity(metric, was),
                    words::quantity(metric, value),
                    words::change(metric, change),
                    facts.lines_of(id, counter, value)
                )
            };
            if change > allowed {
                worse.push(told());
            } else if change < -allowed {
                ruled.wins.push(Win {
                    subject: gate.subject.clone(),
                    metric,
                    measured: Num(value),
                    baseline: Num(was),
                    change: Num(change),
                });
            }
        }
        if !worse.is_empty() {
            let agreed = match allowed {
                0.0 => "no more is agreed".to_owned(),
                allowed => format!("at most {} more is agreed", words::percent(allowed)),
            };
            return fail(format!("{}; {agreed}", worse.join("; ")));
        }
        let not_held = not_held(facts, id);
        let held = match not_held.is_empty() {
            true => format!("{compared} counters"),
            false => format!("{compared} counters; not held: {}", not_held.join("; ")),
        };
        match lacking {
            None => Ok(held),
            // Some counters may be younger than the baseline, which is no reason to compare none.
            Some(reason) => {
                ruled.new = Some(Facet::Counters);
                match compared {
                    0 => ruling(Outcome::Skipped, reason),
                    _ => Ok(held),
                }
            }
        }
    })();
    ruled.end(found)
}
