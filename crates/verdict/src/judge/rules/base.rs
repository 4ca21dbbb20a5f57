//! Head beside the base revision: which cases have to be timed for it, and what their times come to.
//!
//! Each process gives one ratio, of samples taken in turns on the same buffers: what moves both sides
//! (clock, heat, placement) cancels, and what is left is one independent value a process.

use super::facts::{Facts, Found, inconclusive, only, ruling, unit_for};
use super::limit::Ruled;
use super::metric::time_of;
use super::{rules, words};
use crate::expr::{Expression, Name};
use crate::model::*;
use crate::stats;
use crate::stats::modes::Launches;
use crate::stats::sequential::{Decision, Evidence as Estimate, Rule as Contest};

/// Processes that may be set aside (throttled) beyond those that the last look needs.
const SPARE: u32 = 4;

/// How a case stands to the base revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footing {
    /// No base was named.
    Alone,
    /// The base has no such case.
    New,
    /// Same machine code, launch and arguments.
    Unchanged,
    Changed,
}

impl<'a> Facts<'a> {
    /// # Errors
    /// Where it cannot be known: no device, or one of the two was not built.
    pub(super) fn footing(&self, id: &CaseId) -> Found<Footing> {
        let Some(base) = &self.policy.base else {
            return Ok(Footing::Alone);
        };
        let Some(theirs) = base.plan.case(id) else {
            return Ok(Footing::New);
        };
        let ours = self.case(id)?;
        let device = self.device()?;
        let Some(base_unit) = unit_for(&base.plan, id, device) else {
            return inconclusive(format!(
                "the base ({}) declares no architecture of {id} that runs on {}",
                base.revision, device.name
            ));
        };
        let head = self.build(&self.unit_on_device(id)?.id)?;
        let built = self.base_build(&base_unit.id)?;
        let same = head.identity == built.identity && rules::same_call(ours, theirs);
        Ok(match same {
            true => Footing::Unchanged,
            false => Footing::Changed,
        })
    }

    /// Whether a gate of this run needs how long the case takes, and not only how that changed. What did not
    /// change since the base may have changed since an anchor.
    pub(super) fn needs_own_times(&self, id: &CaseId) -> bool {
        let mut gates = self.policy.gates.iter().filter(|gate| {
            !matches!(
                gate.rule,
                Rule::Limit {
                    limit: Limit::Baseline { .. } | Limit::Base { .. },
                    ..
                }
            )
        });
        gates.any(|gate| rests_on(gate, id, |metric| metric.facet() == Facet::Times))
    }

    /// What samples of single launches of the case are for.
    pub(super) fn singles(&self, id: &CaseId) -> Singles {
        let mut gates = self.policy.gates.iter();
        match gates.any(|gate| rests_on(gate, id, Metric::of_single_launches)) {
            true => Singles::Judged,
            false => Singles::Shown,
        }
    }

    /// Whether a verdict on `metric` may rest on what was measured beside the base.
    pub(super) fn enough_singles(&self, id: &CaseId, metric: Metric) -> Found<()> {
        match self.paired(id).is_empty() || !metric.of_single_launches() {
            true => Ok(()),
            false => enough(&self.pairs(id)?, metric, self.pairing()?),
        }
    }

    /// How many verdicts of this run rest on a ratio of times: the chance of a false alarm is split over
    /// all that are planned, whatever happens to be measured.
    fn contests(&self) -> usize {
        let relative = self.policy.gates.iter().filter(|gate| {
            matches!(
                &gate.rule,
                Rule::Limit { metric, limit: Limit::Baseline { .. } | Limit::Base { .. } }
                    if metric.facet() == Facet::Times
            )
        });
        relative.count().max(1)
    }

    /// The processes that count of a case that was timed beside the base.
    fn pairs(&self, id: &CaseId) -> Found<Vec<&'a PairFacts>> {
        let mut used = Vec::new();
        for (expected, (process, seen)) in (0u32..).zip(self.paired(id)) {
            if expected != *process {
                return inconclusive(format!(
                    "timing process {expected} of {id} is missing or process {process} is there twice"
                ));
            }
            let facts = only(seen, format_args!("timing process {process}"))?;
            whole(facts, self.pairing()?, *process)?;
            if !set_aside(facts) {
                used.push(facts);
            }
        }
        Ok(used)
    }

    fn pairing(&self) -> Found<&'a Pairing> {
        match &self.plan.pairing {
            Some(pairing) => Ok(pairing),
            None => inconclusive("the plan does not say how head and base are timed side by side"),
        }
    }

    /// What the run as a whole was held against.
    pub(super) fn beside_base(&self) -> Option<BesideBase> {
        let base = self.policy.base.as_ref()?;
        let mut beside = BesideBase {
            revision: base.revision.clone(),
            commit: base.commit.clone(),
            changed: Vec::new(),
            unchanged: Vec::new(),
            unchanged_timed: self.plan.pairing.as_ref().is_some_and(|it| it.unchanged),
            new: Vec::new(),
            unknown: Vec::new(),
            effort: effort(&[], None),
        };
        let mut measured = Vec::new();
        for case in self.plan.cases.iter().filter(|case| case.timed) {
            let list = match self.footing(&case.id) {
                Ok(Footing::Changed) => &mut beside.changed,
                Ok(Footing::Unchanged) => &mut beside.unchanged,
                Ok(Footing::New) => &mut beside.new,
                Ok(Footing::Alone) | Err(_) => &mut beside.unknown,
            };
            list.push(case.id.clone());
            let seen = self.paired(&case.id).iter();
            let seen: Vec<_> = seen.filter_map(|(_, seen)| seen.got()).collect();
            let processes = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            beside.effort.processes = beside.effort.processes.max(processes);
            measured.extend(seen);
        }
        beside.effort = Effort {
            processes: beside.effort.processes,
            ..effort(&measured, None)
        };
        Some(beside)
    }

    /// What the times of a case rest on that a stored baseline is held against.
    pub(super) fn effort_alone(&self, subject: &Subject, metric: Metric) -> Option<Effort> {
        let Subject::Case(case) = subject else {
            return None;
        };
        if metric.facet() != Facet::Times {
            return None;
        }
        let series = self.series(case).ok()?;
        Some(Effort {
            processes: u32::try_from(series.len()).unwrap_or(u32::MAX),
            samples: series.iter().map(|it| samples(it, Some(metric))).sum(),
            gpu_ms: None,
        })
    }

    /// Head's own samples of the processes that count, where the case was timed beside the base.
    pub(super) fn head_series(&self, id: &CaseId) -> Found<Vec<&'a TimeFacts>> {
        let used = self.pairs(id)?;
        if used.len() < 2 {
            return inconclusive(format!("timed in {} of 2 processes", used.len()));
        }
        Ok(used.into_iter().map(|pair| &pair.head).collect())
    }

    /// Whether another process beside the base could decide any gate of the case.
    pub(super) fn wants_pair(&self, id: &CaseId, open: bool) -> bool {
        let Ok(pairing) = self.pairing() else {
            return false;
        };
        let seen = self.paired(id);
        let broken = seen.iter().any(|(_, seen)| seen.got().is_none());
        let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        let most = pairing.looks.last().copied().unwrap_or(0) + 1 + SPARE;
        let first = pairing.looks.first().copied().unwrap_or(0);
        !broken && count < most && (open || count < first)
    }
}

/// Whether a verdict on `metric` may rest on them: samples of one launch each are fewer where none does.
fn enough(pairs: &[&PairFacts], metric: Metric, pairing: &Pairing) -> Found<()> {
    if !metric.of_single_launches() {
        return Ok(());
    }
    let few = |side: &&TimeFacts| side.single_ns.len() < pairing.singles as usize;
    let mut sides = pairs.iter().flat_map(|pair| [&pair.head, &pair.base]);
    match sides.find(few) {
        None => Ok(()),
        Some(side) => inconclusive(format!(
            "{metric} needs {} samples of single launches of each process, and one has {}",
            pairing.singles,
            side.single_ns.len()
        )),
    }
}

/// Half of the blocks are enough for a median; with fewer the process says how warm the room is.
fn set_aside(facts: &PairFacts) -> bool {
    let good = facts.blocks.iter().filter(|block| !block.throttled).count();
    good == 0 || good * 2 < facts.blocks.len()
}

/// Whether a gate rests on such a figure of the case: its own gate, or one of a sibling variant that names it.
fn rests_on(gate: &Gate, id: &CaseId, meant: impl Fn(Metric) -> bool) -> bool {
    let Subject::Case(case) = &gate.subject else {
        return false;
    };
    if (&case.kernel, &case.shape) != (&id.kernel, &id.shape) {
        return false;
    }
    let own = case.variant == id.variant;
    match &gate.rule {
        Rule::Limit { metric, limit } => {
            own && meant(*metric)
                || matches!(
                    limit,
                    Limit::Absolute { bound: Bound::Expr(expr), .. }
                        if names(expr, own, &id.variant, meant)
                )
        }
        Rule::Condition { expr } => names(expr, own, &id.variant, meant),
        _ => false,
    }
}

fn names(expr: &Expr, own: bool, variant: &str, meant: impl Fn(Metric) -> bool) -> bool {
    let Ok(expression) = Expression::parse(&expr.text) else {
        return true;
    };
    expression.names().iter().any(|name| {
        let (of_it, metric) = match name {
            Name::Plain(metric) => (own, metric),
            Name::Dotted(of, metric) => (of == variant, metric),
        };
        of_it && Metric::from_name(metric).is_some_and(&meant)
    })
}

/// Whether one process measured what the pairing asks for.
fn whole(facts: &PairFacts, pairing: &Pairing, process: u32) -> Found<()> {
    let blocks = facts.blocks.len();
    for (side, what) in [(&facts.head, "head"), (&facts.base, "base")] {
        if blocks < pairing.least_blocks as usize || side.batched_ns.len() != 2 * blocks {
            return inconclusive(format!(
                "timing process {process} has {} samples of {what} in {blocks} blocks, and {} blocks are the least",
                side.batched_ns.len(),
                pairing.least_blocks
            ));
        }
        if side.single_ns.is_empty() {
            return inconclusive(format!(
                "timing process {process} has no samples of single launches of {what}"
            ));
        }
        if side.launches_per_sample == 0 {
            return inconclusive(format!(
                "timing process {process} launched nothing of {what}"
            ));
        }
    }
    if facts.head.mode != facts.base.mode {
        return inconclusive(format!("timing process {process} ran two modes"));
    }
    Ok(())
}

/// ln(head / base) of one process, and the standard error that the clock's step alone gives it.
///
/// Of p50 the median over the blocks, each of which gives the ratio of its own four samples. Both sides
/// of a block run at one clock, so that of cycles is the same.
fn ln_ratio(facts: &PairFacts, metric: Metric) -> Found<(f64, f64)> {
    let (head, head_step) = time_of(&facts.head, metric)?;
    let (base, base_step) = time_of(&facts.base, metric)?;
    for (value, what) in [(head, "head"), (base, "base")] {
        if !(value > 0.0 && value.is_finite()) {
            return inconclusive(format!(
                "{metric} of {what} is {value} in a process, beyond what the clock of {} ns steps can tell",
                facts.head.tick_ns
            ));
        }
    }
    let step = (head_step / head).hypot(base_step / base);
    let ratio = match metric {
        Metric::P50 | Metric::Cycles => median_of_blocks(facts)?,
        _ => (head / base).ln(),
    };
    Ok((ratio, step))
}

fn median_of_blocks(facts: &PairFacts) -> Found<f64> {
    let launches = f64::from(facts.head.launches_per_sample).ln()
        - f64::from(facts.base.launches_per_sample).ln();
    let halves = facts
        .head
        .batched_ns
        .chunks(2)
        .zip(facts.base.batched_ns.chunks(2));
    let mut ratios: Vec<f64> = halves
        .zip(&facts.blocks)
        .filter(|(_, block)| !block.throttled)
        .map(|((head, base), _)| {
            let sum = |side: &[u64]| side.iter().sum::<u64>() as f64;
            (sum(head) / sum(base)).ln() - launches
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    let found = match ratios.get(middle) {
        Some(&upper) if ratios.len().is_multiple_of(2) => {
            let lower = middle.checked_sub(1).and_then(|at| ratios.get(at));
            (lower.copied().unwrap_or(upper) + upper) / 2.0
        }
        Some(&only) => only,
        None => f64::NAN,
    };
    if found.is_finite() {
        Ok(found)
    } else {
        inconclusive("a block of samples took no time at all")
    }
}

/// One value of each process, as the sequential rule takes them, and what the way of measuring alone makes
/// them differ by.
struct Compared {
    /// ln(head / base); of the slow share ln(1 + head - base), which is in points.
    values: Vec<f64>,
    resolution: f64,
}

/// `None` where there is nothing to compare: the slow share of launches that have one mode.
fn compared(pairs: &[&PairFacts], metric: Metric, pairing: &Pairing) -> Found<Option<Compared>> {
    if metric == Metric::SlowShare {
        return slow_shares(pairs, pairing);
    }
    let first = first_look(pairing);
    let mut values = Vec::new();
    let mut resolution: f64 = 0.0;
    for (at, pair) in pairs.iter().enumerate() {
        let (ratio, step) = ln_ratio(pair, metric)?;
        values.push(ratio);
        if at < first {
            resolution = resolution.max(step);
        }
    }
    Ok(Some(Compared { values, resolution }))
}

/// What holds for all processes is found on those of the first look: one after it cannot change what was
/// decided.
fn first_look(pairing: &Pairing) -> usize {
    pairing.looks.first().map_or(0, |&look| look as usize)
}

/// One split between the modes for all processes, see [`first_look`].
fn slow_shares(pairs: &[&PairFacts], pairing: &Pairing) -> Found<Option<Compared>> {
    let Some(first) = pairs.get(..first_look(pairing)) else {
        // Not yet enough for any look: as many values as there are, and none is looked at.
        let values = vec![0.0; pairs.len()];
        return Ok(Some(Compared {
            values,
            resolution: 1.0,
        }));
    };
    let launches = |side: fn(&PairFacts) -> &TimeFacts| {
        let launches = first.iter().map(move |pair| Launches {
            ns: &side(pair).single_ns,
            tick_ns: side(pair).tick_ns,
        });
        launches.collect::<Vec<_>>()
    };
    let (head, base) = (launches(|pair| &pair.head), launches(|pair| &pair.base));
    let found = match stats::modes::slow_shares(&head, &base) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(few) => return inconclusive(few.to_string()),
    };
    let share = |facts: &TimeFacts| found.modes.slow_share(&facts.single_ns);
    let values = pairs
        .iter()
        .filter_map(|pair| Some((share(&pair.head)? - share(&pair.base)?).ln_1p()));
    Ok(Some(Compared {
        values: values.collect(),
        // One launch on the other side of the split.
        resolution: 1.0 / f64::from(pairing.singles.max(1)),
    }))
}

/// A relative limit on times, held against the base revision.
pub(super) fn against_base(facts: &Facts, gate: &Gate, metric: Metric, allowed: f64) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let Subject::Case(id) = &gate.subject else {
            return rules::misplaced(&gate.subject);
        };
        if !(allowed >= 0.0 && allowed.is_finite()) {
            return inconclusive(format!("a change of {allowed} cannot be allowed"));
        }
        facts.device()?;
        facts.timeable(id)?;
        let revision = facts.policy.base.as_ref().map_or("", |base| &base.revision);
        match facts.footing(id)? {
            Footing::Alone => return ruling(Outcome::Skipped, words::NO_BASE),
            Footing::New => {
                return ruling(
                    Outcome::Skipped,
                    format!("{}: the base ({revision}) has no such case", words::NEW),
                );
            }
            Footing::Unchanged if !facts.pairing()?.unchanged => {
                return Ok(format!(
                    "unchanged since {revision}: same machine code, launch and arguments"
                ));
            }
            Footing::Unchanged | Footing::Changed => {}
        }
        judged(facts, &mut ruled, id, metric, allowed)
    })();
    ruled.end(found)
}

fn judged(
    facts: &Facts,
    ruled: &mut Ruled,
    id: &CaseId,
    metric: Metric,
    allowed: f64,
) -> Found<String> {
    let pairing = facts.pairing()?;
    let pairs = facts.pairs(id)?;
    enough(&pairs, metric, pairing)?;
    let Some(Compared { values, resolution }) = compared(&pairs, metric, pairing)? else {
        return Ok("single launches of head and base together have one mode".to_owned());
    };
    let contest = Contest {
        tolerance: allowed,
        looks: pairing.looks.clone(),
        false_alarm: pairing.false_alarms.0 / facts.contests() as f64,
        miss: pairing.misses.0,
        resolution,
    };
    let schedule = facts.schedule.get_or_init(|| {
        // Of none of the contests: what one is wrong about is not the others' matter.
        let any = Contest {
            tolerance: 0.0,
            resolution: 0.0,
            ..contest.clone()
        };
        any.schedule()
    });
    let decided = schedule
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|schedule| schedule.with(allowed, resolution)?.decide(&values));
    let decision = match decided {
        Ok(decision) => decision,
        Err(problem) => return inconclusive(format!("{metric}: {problem}")),
    };
    let mut tell = |estimate: &Estimate| {
        let used = estimate.processes_used() as usize;
        let counted = pairs.get(..used).unwrap_or(&pairs);
        show(ruled, counted, metric, allowed, estimate);
        told(metric, estimate)
    };
    match decision {
        Decision::Pass(estimate) => Ok(tell(&estimate)),
        Decision::Fail(estimate) => {
            let told = tell(&estimate);
            ruling(
                Outcome::Fail,
                format!(
                    "{told}, confirmed in a fresh process; {}",
                    words::agreed(metric, allowed)
                ),
            )
        }
        Decision::More(processes) | Decision::Confirm(processes) => {
            ruled.open = true;
            inconclusive(format!(
                "timed beside the base in {} processes, and {processes} are needed",
                values.len()
            ))
        }
        Decision::Open(estimate) => {
            let told = tell(&estimate);
            let needed = contest.processes_needed(&estimate).map_or_else(
                || "no number of processes would decide it".to_owned(),
                |processes| format!("about {processes} processes of this spread would decide it"),
            );
            inconclusive(format!(
                "{told}; {}, which lies within that: {needed}",
                words::agreed(metric, allowed),
            ))
        }
    }
}

fn show(
    ruled: &mut Ruled,
    pairs: &[&PairFacts],
    metric: Metric,
    allowed: f64,
    estimate: &Estimate,
) {
    let verdict = &mut ruled.verdict;
    verdict.effort = Some(effort(pairs, Some(metric)));
    verdict.change = Some(Num(estimate.ratio - 1.0));
    verdict.interval = Some(estimate.interval.map(|ratio| Num(ratio - 1.0)));
    verdict.smallest_visible = Some(Num(estimate.smallest_visible));
    if metric == Metric::SlowShare {
        return;
    }
    let value = |side: fn(&PairFacts) -> &TimeFacts| {
        let logs: Vec<f64> = pairs
            .iter()
            .filter_map(|pair| time_of(side(pair), metric).ok())
            .map(|(value, _)| value.ln())
            .collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    };
    let base = value(|pair| &pair.base);
    verdict.measured = Some(Num(value(|pair| &pair.head)));
    verdict.baseline = Some(Num(base));
    verdict.limit = Some(Num(base * (1.0 + allowed)));
}

/// Of one metric's samples, or of all.
fn effort(pairs: &[&PairFacts], metric: Option<Metric>) -> Effort {
    let sides = pairs.iter().flat_map(|pair| [&pair.head, &pair.base]);
    Effort {
        processes: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        samples: sides.map(|side| samples(side, metric)).sum(),
        gpu_ms: Some(Num(pairs
            .iter()
            .map(|pair| pair.device_us as f64)
            .sum::<f64>()
            / 1000.0)),
    }
}

/// How many samples a metric rests on; `None` for all that there are.
fn samples(facts: &TimeFacts, metric: Option<Metric>) -> u64 {
    let (batched, single) = (facts.batched_ns.len(), facts.single_ns.len());
    let samples = match metric {
        None => batched + single,
        Some(metric) if metric.of_single_launches() => single,
        Some(_) => batched,
    };
    samples as u64
}

fn told(metric: Metric, estimate: &Estimate) -> String {
    let [low, high] = estimate.interval.map(|ratio| ratio - 1.0);
    if metric == Metric::SlowShare {
        return format!(
            "the slow mode holds {:+.1} points of launches against the base ({:+.1} to {:+.1} in {} processes)",
            100.0 * (estimate.ratio - 1.0),
            100.0 * low,
            100.0 * high,
            estimate.processes
        );
    }
    format!(
        "{} than the base ({} in {} processes)",
        words::change(metric, estimate.ratio - 1.0),
        words::interval(metric, [low, high]),
        estimate.processes
    )
}
