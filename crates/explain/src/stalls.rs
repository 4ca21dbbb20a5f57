//! Finds the lines at which warps spend more time than before, and what they wait for there, from two profiles.

use super::places::{Moved, at_head, line_of};
use super::{CaseSide, Cause, CausePlace, Measure, Sides};
use model::{CodeLine, Stall};
use std::collections::BTreeMap;

/// The notable share of the base's time. A smaller change of a line is within the accuracy of sampling.
const NOTABLE: f64 = 0.02;
/// The number of places that a cause names.
const PLACES: usize = 3;

/// Adds the lines that take longer to a cause that has no lines of its own, and the state in which warps spend most of
/// that time.
pub fn add_slower_lines(cause: Cause, sides: &Sides) -> Cause {
    let Some(places) = slower_lines(sides).filter(|places| !places.is_empty()) else {
        return cause;
    };
    let cause = cause.at(places);
    match grown_stall(sides) {
        Some((stall, base, head)) => cause.with(Measure::Stall(stall), base, head),
        None => cause,
    }
}

/// Returns the slower lines, the largest change first, or `None` without samples of both sides.
fn slower_lines(sides: &Sides) -> Option<Vec<CausePlace>> {
    let (whole, base) = times_of_lines(&sides.base)?;
    let (_, mut grown) = times_of_lines(&sides.head)?;
    let moved = Moved::from_sides(sides);
    for (line, ns) in base {
        if let Some(line) = moved.in_head(&line) {
            *grown.entry(line).or_default() -= ns;
        }
    }
    let mut grown: Vec<(CodeLine, f64)> = grown.into_iter().collect();
    grown.retain(|(_, ns)| *ns > NOTABLE * whole);
    grown.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(
        grown
            .into_iter()
            .map(|(line, _)| at_head(sides.head.facts(), line))
            .take(PLACES)
            .collect(),
    )
}

/// Returns the time of the launch under the profiler, and each line's part of it by samples. The rate of sampling
/// differs between two profiles.
fn times_of_lines(side: &CaseSide) -> Option<(f64, BTreeMap<CodeLine, f64>)> {
    let kernels = &side.profiles.first()?.kernels;
    let whole: f64 = kernels.iter().map(|kernel| kernel.duration_ns.0).sum();
    let mut times = BTreeMap::new();
    for kernel in kernels {
        let samples = |of: &BTreeMap<Stall, u64>| of.values().sum::<u64>() as f64;
        let all: f64 = kernel.lines.iter().map(|line| samples(&line.samples)).sum();
        for line in &kernel.lines {
            if let Some(at) = line_of(&line.place) {
                let share = samples(&line.samples) / all;
                *times.entry(at).or_default() += share * kernel.duration_ns.0;
            }
        }
    }
    (!times.is_empty()).then_some((whole, times))
}

/// Returns the state that grew most, in cycles of a warp for each instruction that it issues. It needs a launch of one
/// kernel.
fn grown_stall(sides: &Sides) -> Option<(Stall, f64, f64)> {
    let stalls = |side: &CaseSide| match side.profiles.first()?.kernels.as_slice() {
        [kernel] => Some(kernel.stalls.clone()),
        _ => None,
    };
    let (base, head) = (stalls(&sides.base)?, stalls(&sides.head)?);
    head.into_iter()
        .map(|(stall, is)| {
            let was = base.get(&stall).map_or(0.0, |was| was.0);
            (stall, was, is.0)
        })
        .filter(|(_, was, is)| is > was)
        .max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))
}
