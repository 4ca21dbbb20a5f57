//! What is known of all configurations before any of them is timed: figures of PTXAS, and what the simulator expects of
//! a launch. A model that had it of some alone would learn what was tried.

use super::candidate::Candidate;
use super::lab::{Foreseen, Lab, elements};
use super::outcome::Figures;
use explain::diagnosis::Resource;
use search::Point;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use system::error::Result;

/// Of a larger space nothing is known before: to build all of it would take too long.
pub const MOST: usize = 256;

/// Whether it takes at most half of the time that is `left` to build so many, of which one core built one in `each`.
pub fn has_time(count: usize, each: Duration, cores: usize, left: Duration) -> bool {
    let rounds = count.div_ceil(cores.max(1));
    each.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)) <= left / 2
}

/// Warp instructions that all of them together may be simulated for: about a minute of one core.
const SIMULATED: u64 = 100_000_000;
/// A configuration may take so many times what the start does.
const LEEWAY: u64 = 4;

/// Configurations that are tried first, as the simulator expects most of them. It is the size of one batch: what it
/// expects is wrong often enough that more would keep the search from looking elsewhere (docs/tune.md).
const LEADS: usize = 4;

#[derive(Debug, Default, PartialEq)]
pub struct Survey {
    /// Of each configuration that was built.
    pub known: HashMap<Point, Known>,
    /// The best first.
    pub leads: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub figures: Figures,
    pub foreseen: Option<Foreseen>,
    pub compile_ms: u64,
}

impl Known {
    /// In the same order for all; `None` is unknown, and 0 is not used.
    pub fn row(&self) -> Vec<Option<f64>> {
        let it = &self.figures;
        let mut row = vec![
            Some(f64::from(it.registers)),
            Some(it.shared as f64),
            Some(f64::from(it.spills)),
            Some(it.threads as f64),
            it.occupancy,
        ];
        let foreseen = self.foreseen.as_ref();
        row.push(foreseen.map(|it| it.estimated_ns));
        row.extend(Resource::ALL.map(|resource| {
            foreseen.map(|it| it.uses.get(&resource).copied().unwrap_or_default())
        }));
        row
    }
}

/// Of `all`, which were built.
///
/// # Errors
/// Environment, where the machine failed.
pub fn survey(
    (start, all): (&Candidate, &[Candidate]),
    objective: &[(String, f64)],
    lab: &mut impl Lab,
) -> Result<Survey> {
    let foreseen = foresee((start, all), objective, lab)?;
    let known = all.iter().filter_map(|it| {
        let (shape, _) = objective.first()?;
        let known = Known {
            figures: it.figures(shape)?,
            foreseen: it.code().and_then(|code| foreseen.get(&code).cloned()),
            compile_ms: it.compile_ms(),
        };
        Some((it.point?, known))
    });
    let known: HashMap<Point, Known> = known.collect();
    Ok(Survey {
        leads: leads((start, all), &known),
        known,
    })
}

/// By the code that executes: equal code is simulated once.
fn foresee(
    (start, all): (&Candidate, &[Candidate]),
    objective: &[(String, f64)],
    lab: &mut impl Lab,
) -> Result<HashMap<String, Foreseen>> {
    let mut met = HashSet::new();
    let distinct: Vec<(String, &Candidate)> = all
        .iter()
        .filter_map(|it| Some((it.code()?, it)))
        .filter(|(code, _)| met.insert(code.clone()))
        .collect();
    let each = SIMULATED / (distinct.len() as u64).max(1);
    let of_start = lab.foresee(&[start], None, each / LEEWAY)?;
    let of_start = of_start.into_iter().next().unwrap_or_default();
    let Some(shape) = find_shape(start, &of_start, objective) else {
        return Ok(HashMap::new());
    };
    let (codes, batch): (Vec<String>, Vec<&Candidate>) = distinct.into_iter().unzip();
    let foreseen = lab.foresee(&batch, Some(&shape), each)?;
    let foreseen = codes.into_iter().zip(foreseen);
    Ok(foreseen
        .filter_map(|(code, mut by_shape)| Some((code, by_shape.remove(&shape)?)))
        .collect())
}

/// The smallest of the objective, else the largest, of those that the simulator takes.
fn find_shape(
    start: &Candidate,
    taken: &BTreeMap<String, Foreseen>,
    objective: &[(String, f64)],
) -> Option<String> {
    let size = |shape: &&String| start.case(shape).map(elements);
    let is_objective = |shape: &&String| objective.iter().any(|(it, _)| it == *shape);
    let smallest = taken.keys().filter(is_objective).min_by_key(size);
    smallest.or(taken.keys().max_by_key(size)).cloned()
}

fn leads((start, all): (&Candidate, &[Candidate]), known: &HashMap<Point, Known>) -> Vec<Point> {
    let mut met: HashSet<String> = start.code().into_iter().collect();
    let distinct = all
        .iter()
        .filter(|it| it.code().is_some_and(|code| met.insert(code)));
    let mut expected: Vec<(f64, Point)> = distinct
        .filter_map(|it| {
            let foreseen = known.get(&it.point?)?.foreseen.as_ref()?;
            Some((foreseen.estimated_ns, it.point?))
        })
        .collect();
    expected.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = expected.into_iter().map(|(_, point)| point);
    points.take(LEADS).collect()
}
