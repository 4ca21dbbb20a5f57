//! Compares a time of head with the base revision's, measured in the same run.
//!
//! Each process gives one ratio, from samples of both sides that were interleaved on the same buffers. Whatever moves
//! both sides (clock, heat, placement) cancels, and one independent value remains for each process. The sequential test
//! ([`crate::stats::sequential`]) decides from these values.

use super::{Ruled, misplaced, share_of};
use crate::counterpart::BaseStatus;
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive, skipped};
use crate::series::count;
use crate::stats;
use crate::stats::modes::Launches;
use crate::stats::sequential::{Decision, Evidence as Estimate, Rule as Contest};
use crate::value::{check_clock, count_samples, time_of};
use model::*;

pub fn compare_to_base(view: View, gate: &Gate, metric: Metric, allowed: Margin) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let Subject::Case(id) = &gate.subject else {
            return misplaced();
        };
        let allowed = share_of(allowed)?;
        view.device()?;
        view.timeable(id)?;
        let revision = || {
            let base = view.policy().base.as_ref();
            base.map_or(String::new(), |base| base.revision.clone())
        };
        match view.base_status(id)? {
            BaseStatus::NoBase => skipped(Reason::NoBase),
            BaseStatus::New => skipped(match view.gap_of_base(id) {
                // Another verdict says that the case is not compared.
                Some(why) => why,
                None => Reason::NewSinceBase {
                    revision: revision(),
                },
            }),
            BaseStatus::Unchanged if !view.pairing()?.unchanged => Ok(Reason::UnchangedSinceBase {
                revision: revision(),
            }),
            BaseStatus::Unchanged | BaseStatus::Changed => {
                decide(view, &mut ruled, id, metric, allowed)
            }
        }
    })();
    ruled.end(found)
}

fn decide(
    view: View,
    ruled: &mut Ruled,
    id: &CaseId,
    metric: Metric,
    allowed: f64,
) -> OrNotPassed<Reason> {
    let pairing = view.pairing()?;
    let pairs = view.pairs(id)?;
    view.has_enough_singles(id, metric)?;
    let Some(Ratios {
        per_process,
        resolution,
    }) = ratios(&pairs, metric, pairing)?
    else {
        return Ok(Reason::OneMode);
    };
    let contest = Contest {
        tolerance: allowed,
        quiet: pairing.quiet.clone(),
        looks: pairing.looks.clone(),
        false_alarm: pairing.false_alarms.0 / count_contests(&view.policy().gates) as f64,
        miss: pairing.misses.0,
        resolution,
    };
    let looks = view.index.looks.get_or_init(|| {
        // These bounds serve all contests, so they are made without the tolerance and resolution of this one: an error
        // in one must not become an error of the others.
        let any = Contest {
            tolerance: 0.0,
            resolution: 0.0,
            ..contest.clone()
        };
        any.schedule()
    });
    let decided = looks
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|looks| looks.with(allowed, resolution)?.decide(&per_process));
    let decision = match decided {
        Ok(decision) => decision,
        Err(problem) => return inconclusive(Reason::Undecidable { metric, problem }),
    };
    let mut show = |estimate: &Estimate| {
        let used = estimate.processes_used() as usize;
        let counted = pairs.get(..used).unwrap_or(&pairs);
        Box::new(compare(ruled, counted, metric, allowed, estimate))
    };
    match decision {
        Decision::Pass(estimate) => Ok(Reason::WithinChange(show(&estimate))),
        Decision::Fail(estimate) => fail(Reason::BeyondChange(show(&estimate))),
        Decision::Open(estimate) => inconclusive(Reason::Undecided {
            comparison: show(&estimate),
            visible: Some(Num(estimate.smallest_visible)),
            needed: contest.processes_needed(&estimate),
        }),
        Decision::More(needed) | Decision::Confirm(needed) => {
            ruled.open = true;
            inconclusive(Reason::TooFewProcesses {
                have: per_process.len(),
                needed: needed as usize,
            })
        }
    }
}

/// Counts the verdicts of this run that rest on a ratio of times. The chance of a false alarm is split over all of
/// them, whether or not they are measured, so that the split does not depend on the measurements.
pub fn count_contests(gates: &[Gate]) -> usize {
    gates
        .iter()
        .filter(|gate| {
            matches!(
                &gate.rule,
                Rule::Limit { metric, limit: Limit::Baseline { .. } | Limit::Base { .. } }
                    if metric.facet() == Facet::Times
            )
        })
        .count()
        .max(1)
}

/// One value from each process, as the sequential test takes them, and the least spread that the way of measuring gives
/// them.
struct Ratios {
    /// ln(head / base). For the slow share, ln(1 + head - base), with the shares as fractions.
    per_process: Vec<f64>,
    resolution: f64,
}

/// Returns one ratio from each process, or `None` if there is nothing to compare: a slow share of launches that have
/// one mode.
fn ratios(pairs: &[&PairFacts], metric: Metric, pairing: &Pairing) -> OrNotPassed<Option<Ratios>> {
    if metric == Metric::SlowShare {
        return slow_shares(pairs, pairing);
    }
    let first = pairing.first_look() as usize;
    let mut per_process = Vec::new();
    let mut resolution: f64 = 0.0;
    for (at, pair) in pairs.iter().enumerate() {
        let (ratio, step) = ln_ratio(pair, metric)?;
        per_process.push(ratio);
        // A process after the first look cannot change what was decided at that look.
        if at < first {
            resolution = resolution.max(step);
        }
    }
    Ok(Some(Ratios {
        per_process,
        resolution,
    }))
}

/// Returns the ratios of slow shares, with one split between the modes for all processes.
fn slow_shares(pairs: &[&PairFacts], pairing: &Pairing) -> OrNotPassed<Option<Ratios>> {
    // A process after the first look cannot change what was decided at that look.
    let Some(first) = pairs.get(..pairing.first_look() as usize) else {
        // There are not yet enough processes for any look. The values are placeholders: only their number counts.
        return Ok(Some(Ratios {
            per_process: vec![0.0; pairs.len()],
            resolution: 1.0,
        }));
    };
    let launches = |side: fn(&PairFacts) -> &TimeFacts| {
        first
            .iter()
            .map(move |pair| Launches {
                ns: &side(pair).single_ns,
                tick_ns: side(pair).tick_ns,
            })
            .collect::<Vec<_>>()
    };
    let (head, base) = (launches(|pair| &pair.head), launches(|pair| &pair.base));
    let found = match stats::modes::slow_shares(&head, &base) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(few) => return inconclusive(Reason::TooFewLaunches { have: few.have }),
    };
    let share = |facts: &TimeFacts| found.modes.slow_share(&facts.single_ns);
    let per_process = pairs
        .iter()
        .filter_map(|pair| Some((share(&pair.head)? - share(&pair.base)?).ln_1p()));
    Ok(Some(Ratios {
        per_process: per_process.collect(),
        // The resolution is one launch that falls on the other side of the split.
        resolution: 1.0 / f64::from(pairing.singles.max(1)),
    }))
}

/// Returns ln(head / base) of one process, and the standard error that the clock's step alone gives it.
///
/// p50 is the median over the blocks, each of which gives the ratio of its own four samples. Both sides of a block run
/// at one clock rate, so the ratio of cycles equals the ratio of times.
///
/// # Errors
/// Returns why these samples give no ratio.
pub fn ln_ratio(facts: &PairFacts, metric: Metric) -> OrNotPassed<(f64, f64)> {
    let head = time_of(&facts.head, metric)?;
    let base = time_of(&facts.base, metric)?;
    check_clock(&facts.head, metric, head.value, Side::Head)?;
    check_clock(&facts.head, metric, base.value, Side::Base)?;
    let step = (head.step / head.value).hypot(base.step / base.value);
    let ratio = match metric {
        Metric::P50 | Metric::Cycles => median_of_blocks(facts, metric)?,
        _ => (head.value / base.value).ln(),
    };
    Ok((ratio, step))
}

fn median_of_blocks(facts: &PairFacts, metric: Metric) -> OrNotPassed<f64> {
    let launches = f64::from(facts.head.launches_per_sample).ln()
        - f64::from(facts.base.launches_per_sample).ln();
    let mut ratios: Vec<f64> = facts
        .head
        .batched_ns
        .chunks(2)
        .zip(facts.base.batched_ns.chunks(2))
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
        // A block of samples took no measurable time.
        inconclusive(Reason::ClockTooCoarse {
            metric,
            side: Side::Head,
            value: Num(found),
            tick_ns: facts.head.tick_ns,
        })
    }
}

/// Fills in the values of a decision, which the verdict shows, too.
fn compare(
    ruled: &mut Ruled,
    pairs: &[&PairFacts],
    metric: Metric,
    allowed: f64,
    estimate: &Estimate,
) -> Comparison {
    let verdict = &mut ruled.verdict;
    let change = Num(estimate.ratio - 1.0);
    let interval = Some(estimate.interval.map(|ratio| Num(ratio - 1.0)));
    verdict.effort = Some(effort(pairs, Some(metric)));
    verdict.change = Some(change);
    verdict.interval = interval;
    verdict.smallest_visible = Some(Num(estimate.smallest_visible));
    if metric != Metric::SlowShare {
        let base = mean_of(pairs, |pair| &pair.base, metric);
        verdict.measured = Some(Num(mean_of(pairs, |pair| &pair.head, metric)));
        verdict.baseline = Some(Num(base));
        verdict.limit = Some(Num(base * (1.0 + allowed)));
    }
    Comparison {
        metric,
        against: Against::Base,
        was: verdict.baseline,
        now: verdict.measured,
        change,
        interval,
        allowed: Margin::Share(Num(allowed)),
        sessions: None,
        processes: Some(estimate.processes),
    }
}

/// Returns the mean over the processes, or NaN if there are none.
fn mean_of(pairs: &[&PairFacts], side: fn(&PairFacts) -> &TimeFacts, metric: Metric) -> f64 {
    let values: Vec<f64> = pairs
        .iter()
        .filter_map(|pair| Some(time_of(side(pair), metric).ok()?.value))
        .collect();
    stats::over_processes(&values).unwrap_or(f64::NAN)
}

/// Returns the effort behind one metric's samples, or behind all samples.
pub fn effort(pairs: &[&PairFacts], metric: Option<Metric>) -> Effort {
    let sides = pairs.iter().flat_map(|pair| [&pair.head, &pair.base]);
    let device_us = pairs.iter().map(|pair| pair.device_us as f64);
    Effort {
        processes: count(pairs.len()),
        samples: sides.map(|side| count_samples(side, metric)).sum(),
        gpu_ms: Some(Num(device_us.sum::<f64>() / 1000.0)),
    }
}
