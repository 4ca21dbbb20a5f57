//! Tables of many searches: medians, each with the interval that holds it in 95 of 100 such tables.

use crate::Trace;
use statrs::distribution::{Binomial, DiscreteCDF};
use std::collections::BTreeMap;
use std::fmt::Write;

const BUDGETS: [usize; 4] = [20, 50, 100, 220];
/// What is near enough to the optimum.
const NEAR: [f64; 2] = [1.10, 1.05];

/// The strategies of one space as markdown, the soonest within 10 % first.
pub fn table(space: &str, optimum: f64, traces: &[Trace]) -> String {
    let mut strategies: BTreeMap<&str, Vec<&Trace>> = BTreeMap::new();
    for trace in traces.iter().filter(|it| it.space == space) {
        strategies.entry(&trace.strategy).or_default().push(trace);
    }
    let mut rows: Vec<(Vec<f64>, String)> = strategies
        .iter()
        .map(|(name, traces)| row(name, optimum, traces))
        .collect();
    rows.sort_by(|a, b| {
        let order = a.0.iter().zip(&b.0).map(|(a, b)| a.total_cmp(b));
        order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    let mut text = format!("### {space}\n\n| strategy | searches |");
    for budget in BUDGETS {
        let _ = write!(text, " best after {budget} |");
    }
    for near in NEAR {
        let percent = (near - 1.0) * 100.0;
        let _ = write!(text, " evaluations to {percent:.0} % | reached |");
    }
    text.push_str("\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (_, row) in rows {
        text.push_str(&row);
    }
    text
}

/// What to sort by, and the line.
fn row(name: &str, optimum: f64, traces: &[&Trace]) -> (Vec<f64>, String) {
    let mut line = format!("| {name} | {} |", traces.len());
    let mut medians = Vec::new();
    for budget in BUDGETS {
        let best = traces.iter().map(|it| it.best_after(budget) / optimum);
        let [low, middle, high] = median(best.collect());
        let _ = write!(line, " {middle:.3} ({low:.3} - {high:.3}) |");
    }
    for near in NEAR {
        let needed = traces
            .iter()
            .map(|it| it.evaluations_to(optimum * near))
            .map(|it| it.map_or(f64::INFINITY, |it| it as f64));
        let needed: Vec<f64> = needed.collect();
        let reached = needed.iter().filter(|it| it.is_finite()).count();
        let of = median(needed);
        let [low, middle, high] = of.map(|it| match it {
            it if it.is_finite() => format!("{it:.0}"),
            _ => "never".to_owned(),
        });
        let share = 100.0 * reached as f64 / traces.len() as f64;
        let _ = write!(line, " {middle} ({low} - {high}) | {share:.0} % |");
        medians.push(of[1]);
        medians.push(-share);
    }
    line.push('\n');
    (medians, line)
}

/// The median between the ends of its 95 % interval, from the order of the values alone.
fn median(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let get = |at: usize| values.get(at).copied().unwrap_or(f64::INFINITY);
    // How many of the values are below the true median.
    let below = Binomial::new(0.5, count as u64)
        .map_or(0, |it| it.inverse_cdf(0.025))
        .saturating_sub(1) as usize;
    [
        get(below),
        // No mean of the two in the middle: one of them can be infinite.
        get(count.saturating_sub(1) / 2),
        get(count.saturating_sub(1).saturating_sub(below)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        // The 40th and the 61st of 100, as in every table of the sign test.
        let [low, middle, high] = median((1..=100).map(f64::from).collect());
        assert_eq!([low, middle, high], [40.0, 50.0, 61.0]);
    }
}
