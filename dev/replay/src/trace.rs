//! One search, and how its best cost fell.

use crate::Recorded;
use search::Strategy;
use serde::{Deserialize, Serialize};

/// As `field.py` writes it of kernel_tuner's strategies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    pub space: String,
    pub strategy: String,
    pub seed: u64,
    /// Configurations that were evaluated, failed ones among them.
    pub evaluations: usize,
    /// After so many evaluations, this was the least cost. Falls.
    pub trace: Vec<(usize, f64)>,
}

impl Trace {
    /// The least cost after so many evaluations.
    pub fn best_after(&self, evaluations: usize) -> f64 {
        let until = self.trace.iter().take_while(|(at, _)| *at <= evaluations);
        until.last().map_or(f64::INFINITY, |(_, cost)| *cost)
    }

    /// Evaluations until the cost was at most this. `None` where it never was.
    pub fn evaluations_to(&self, cost: f64) -> Option<usize> {
        self.trace.iter().find(|it| it.1 <= cost).map(|it| it.0)
    }
}

/// Lets a strategy search a recorded space.
pub fn replay(
    recorded: &Recorded,
    strategy: &mut dyn Strategy,
    name: &str,
    seed: u64,
    budget: usize,
) -> Trace {
    let mut trace = Trace {
        space: recorded.name.clone(),
        strategy: name.to_owned(),
        seed,
        evaluations: 0,
        trace: Vec::new(),
    };
    while trace.evaluations < budget
        && let Some(point) = strategy.ask()
        && let Some(outcome) = recorded.outcomes.get(point.index())
    {
        trace.evaluations += 1;
        strategy.tell(point, *outcome);
        if let Some(cost) = outcome.cost()
            && cost < trace.best_after(budget)
        {
            trace.trace.push((trace.evaluations, cost));
        }
    }
    trace
}
