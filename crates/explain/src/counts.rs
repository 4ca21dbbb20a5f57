//! Counts of the simulator on both sides, or of a profile, over all of a launch and line by line.

use super::places::{Moved, at_head};
use super::{CausePlace, CodeComparison, Side, Sides};
use model::{CodeLine, Counter, Launch, SimulationFacts};

/// The counts of one launch on each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    pub base: f64,
    pub head: f64,
}

impl Counted {
    pub fn growth(self) -> f64 {
        self.head - self.base
    }

    /// Head over base; infinite where base has none.
    pub fn ratio(self) -> f64 {
        if self.head == self.base {
            1.0
        } else {
            self.head / self.base
        }
    }

    pub fn over(self, other: Self) -> Self {
        Self {
            base: self.base / other.base,
            head: self.head / other.head,
        }
    }

    pub fn less(self, other: Self) -> Self {
        Self {
            base: self.base - other.base,
            head: self.head - other.head,
        }
    }
}

/// `None` where a side was neither simulated nor profiled: where nothing can have changed, the base is not.
pub fn counted(sides: &Sides, counter: Counter) -> Option<Counted> {
    let simulated = |side: &Side| simulated(side, counter);
    let profiled = |side: &Side| profiled(side, counter);
    // Both sides by the same means: the one counts PTX, the other machine code.
    let both = |of: &dyn Fn(&Side) -> Option<f64>| {
        Some(Counted {
            base: of(&sides.base)?,
            head: of(&sides.head)?,
        })
    };
    both(&simulated).or_else(|| both(&profiled))
}

/// Instructions that a warp of this side executes, on average.
pub fn instructions_per_warp(side: &Side) -> Option<f64> {
    let counter = Counter::Instructions;
    let all = simulated(side, counter).or_else(|| profiled(side, counter))?;
    Some(all / warps(side)?)
}

/// The weight of code that nobody looked at, as it is the same on both sides, and that nobody counted.
const SOME_INSTRUCTIONS: f64 = 1000.0;

/// Instructions of a warp of head: as many as it executes, else as many as there are.
pub fn warp_length(sides: &Sides, code: &CodeComparison) -> f64 {
    let (_, size) = code.code_size();
    let guess = if size > 0 {
        f64::from(size)
    } else {
        SOME_INSTRUCTIONS
    };
    instructions_per_warp(&sides.head).unwrap_or(guess)
}

/// Over the seeds, on average.
fn simulated(side: &Side, counter: Counter) -> Option<f64> {
    let counts = side.simulations.iter().map(|facts| count(facts, counter));
    let counts = counts.collect::<Option<Vec<u64>>>()?;
    let sum: u64 = counts.iter().sum();
    (!counts.is_empty()).then(|| sum as f64 / counts.len() as f64)
}

fn count(facts: &SimulationFacts, counter: Counter) -> Option<u64> {
    let counters = [&facts.counters, &facts.information];
    counters
        .into_iter()
        .find_map(|counters| counters.get(&counter).copied())
}

/// The count of the first repeat, over the kernels of the launch: instructions ask for the same in each.
fn profiled(side: &Side, counter: Counter) -> Option<f64> {
    let kernels = &side.profiles.first()?.kernels;
    let counts = kernels.iter().map(|kernel| kernel.counters.get(&counter));
    let sum: u64 = counts.sum::<Option<u64>>()?;
    (!kernels.is_empty()).then_some(sum as f64)
}

/// Warps of one launch of all steps. `None` where host code launches.
pub fn warps(side: &Side) -> Option<f64> {
    let steps = side.case.steps.iter().map(|step| step.launch.as_ref());
    let launches = steps.collect::<Option<Vec<&Launch>>>()?;
    let warps = |launch: &Launch| (blocks(launch) * launch.threads_per_block().div_ceil(32)) as f64;
    let sum: f64 = launches.into_iter().map(warps).sum();
    (sum > 0.0).then_some(sum)
}

pub fn blocks(launch: &Launch) -> u64 {
    launch.grid.iter().map(|&n| u64::from(n)).product()
}

/// The amount for one warp of head.
pub fn per_warp(sides: &Sides, amount: f64) -> f64 {
    warps(&sides.head).map_or(0.0, |warps| amount / warps)
}

/// Places that a cause names.
const PLACES: usize = 3;

/// Lines of head at which a sum of counters is larger than it was, the most first. Records keep the largest lines of each
/// counter alone: of one that is not among them, nothing was counted.
pub fn grown_lines(sides: &Sides, more: &[Counter], less: &[Counter]) -> Vec<CausePlace> {
    let moved = Moved::of(sides);
    let mut grown: Vec<(CodeLine, f64)> = Vec::new();
    let mut add = |line: CodeLine, count: f64| match grown.iter_mut().find(|(it, _)| *it == line) {
        Some((_, sum)) => *sum += count,
        None => grown.push((line, count)),
    };
    for (counters, sign) in [(more, 1.0), (less, -1.0)] {
        for counter in counters {
            for (line, count) in lines(&sides.head, *counter) {
                add(line, sign * count);
            }
            for (line, count) in lines(&sides.base, *counter) {
                if let Some(line) = moved.in_head(&line) {
                    add(line, -sign * count);
                }
            }
        }
    }
    grown.retain(|(_, growth)| *growth > 0.0);
    grown.sort_by(|a, b| b.1.total_cmp(&a.1));
    let places = grown.into_iter().map(|(line, _)| at_head(sides, line));
    places.take(PLACES).collect()
}

/// Lines of the first seed, or of the first profile.
fn lines(side: &Side, counter: Counter) -> Vec<(CodeLine, f64)> {
    let counted: Vec<(&str, u64)> = match side.simulations.first() {
        Some(facts) => {
            let lines = facts.lines.get(&counter).into_iter().flatten();
            lines.map(|it| (it.place.as_str(), it.count)).collect()
        }
        None => {
            let kernels = side
                .profiles
                .iter()
                .take(1)
                .flat_map(|facts| &facts.kernels);
            let lines = kernels.flat_map(|kernel| &kernel.lines);
            let counted =
                lines.filter_map(|it| Some((it.place.as_str(), *it.counters.get(&counter)?)));
            counted.collect()
        }
    };
    let lines = counted.into_iter();
    let lines = lines.filter_map(|(place, count)| Some((line_of(place)?, count as f64)));
    lines.collect()
}

/// The innermost line of a place, as the simulator names it: `kernels/k.cu:12 inlined at kernels/k.cu:40`.
pub fn line_of(place: &str) -> Option<CodeLine> {
    let innermost = place.split(' ').next()?;
    let (file, number) = innermost.rsplit_once(':')?;
    // 0 is how nvcc writes that it is of no line.
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(CodeLine {
        file: file.to_owned(),
        number,
    })
}
