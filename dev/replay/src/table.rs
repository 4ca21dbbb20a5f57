//! Tables of many searches: medians, each with the interval that holds it in 95 of 100 such tables, and whether ours
//! need fewer evaluations than the field's best.

use crate::Trace;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

const BUDGETS: [usize; 4] = [20, 50, 100, 220];
/// The distances that are near enough to the optimum.
const NEAR: [f64; 2] = [1.10, 1.05];

/// The searches of each strategy.
type Strategies<'a> = BTreeMap<&'a str, Vec<&'a Trace>>;

/// The strategies of one space as markdown, the soonest within 10 % first, and each of ours against the field's best.
pub fn table(space: &str, optimum: f64, ours: &[Trace], field: &[Trace]) -> String {
    let [ours, field] = [ours, field].map(|traces| {
        let mut strategies = Strategies::new();
        for trace in traces.iter().filter(|it| it.space == space) {
            strategies.entry(&trace.strategy).or_default().push(trace);
        }
        strategies
    });
    let mut rows: Vec<(Vec<f64>, String)> = ours
        .iter()
        .chain(&field)
        .map(|(name, traces)| row(name, optimum, traces))
        .collect();
    rows.sort_by(|a, b| compare(&a.0, &b.0));
    let mut text = format!("### {space}\n\n| strategy | searches |");
    for budget in BUDGETS {
        let _ = write!(text, " best after {budget} |");
    }
    for near in NEAR {
        let _ = write!(text, " evaluations to {} | reached |", percent(near));
    }
    text.push_str("\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (_, row) in rows {
        text.push_str(&row);
    }
    text.push_str(
        "\n| ours | to | the field's best there | ours is sooner | P |\n|---|---|---|---|---|\n",
    );
    for (name, traces) in &ours {
        for near in NEAR {
            let needed = |traces: &[&Trace]| needed(traces, optimum * near);
            let best = field
                .iter()
                .map(|(name, traces)| (*name, needed(traces)))
                .min_by(|a, b| compare(&place(&a.1), &place(&b.1)));
            let Some((best, theirs)) = best else { continue };
            let (sooner, p) = mann_whitney(&needed(traces), &theirs);
            let sooner = 100.0 * sooner;
            let near = percent(near);
            let p = match p {
                ..1e-4 => "below 0.0001".to_owned(),
                _ => format!("{p:.4}"),
            };
            let _ = writeln!(text, "| {name} | {near} | {best} | {sooner:.0} % | {p} |");
        }
    }
    text
}

fn percent(near: f64) -> String {
    format!("{:.0} %", (near - 1.0) * 100.0)
}

/// By the first that differ.
fn compare(a: &[f64], b: &[f64]) -> Ordering {
    let order = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    order.fold(Ordering::Equal, Ordering::then)
}

/// Evaluations of each search until it was so near. Infinite where it never was.
fn needed(traces: &[&Trace], cost: f64) -> Vec<f64> {
    let needed = traces.iter().map(|it| it.evaluations_to(cost));
    needed
        .map(|it| it.map_or(f64::INFINITY, |it| it as f64))
        .collect()
}

/// Less is better: the median, then the share that never came there.
fn place(needed: &[f64]) -> [f64; 2] {
    let never = needed.iter().filter(|it| it.is_infinite()).count();
    [
        median(needed.to_vec())[1],
        never as f64 / needed.len() as f64,
    ]
}

/// The sort key, and the line.
fn row(name: &str, optimum: f64, traces: &[&Trace]) -> (Vec<f64>, String) {
    let mut line = format!("| {name} | {} |", traces.len());
    let mut medians = Vec::new();
    for budget in BUDGETS {
        let best = traces.iter().map(|it| it.best_after(budget) / optimum);
        let [low, middle, high] = median(best.collect());
        let _ = write!(line, " {middle:.3} ({low:.3} - {high:.3}) |");
    }
    for near in NEAR {
        let needed = needed(traces, optimum * near);
        medians.extend(place(&needed));
        let reached = needed.iter().filter(|it| it.is_finite()).count();
        let of = median(needed);
        let [low, middle, high] = of.map(|it| match it {
            it if it.is_finite() => format!("{it:.0}"),
            _ => "never".to_owned(),
        });
        let share = 100.0 * reached as f64 / traces.len() as f64;
        let _ = write!(line, " {middle} ({low} - {high}) | {share:.0} % |");
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

/// In which share of all pairs `a` is less than `b`, where equal ones count half, and the probability of a share so far
/// from a half if both were drawn from the same: by the test of Mann and Whitney, two-sided, with its normal approximation.
fn mann_whitney(a: &[f64], b: &[f64]) -> (f64, f64) {
    let less: f64 = a
        .iter()
        .flat_map(|a| b.iter().map(move |b| a.total_cmp(b)))
        .map(|order| match order {
            Ordering::Less => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Greater => 0.0,
        })
        .sum();
    let pairs = (a.len() * b.len()) as f64;
    let count = (a.len() + b.len()) as f64;
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let ties = all.chunk_by(|a, b| a.total_cmp(b).is_eq());
    let ties = ties.map(|it| (it.len() as f64).powi(3) - it.len() as f64);
    let variance = pairs / 12.0 * (count + 1.0 - ties.sum::<f64>() / (count * (count - 1.0)));
    // Shares have steps of half a pair.
    let away = ((less - pairs / 2.0).abs() - 0.5).max(0.0);
    // All are equal: nothing is away.
    let scaled = if away > 0.0 {
        away / variance.sqrt()
    } else {
        0.0
    };
    (less / pairs, 2.0 * Normal::standard().sf(scaled))
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

    /// As SciPy has them.
    #[test]
    fn the_test_of_mann_and_whitney_is_that_of_others() {
        let near = |(share, p): (f64, f64), expected: (f64, f64)| {
            assert!((share - expected.0).abs() < 1e-9, "{share}");
            assert!((p - expected.1).abs() < 5e-5, "{p}");
        };
        near(
            mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]),
            (1.0, 0.0809),
        );
        let never = f64::INFINITY;
        near(
            mann_whitney(
                &[4.0, 4.0, 7.0, 9.0, never],
                &[7.0, 9.0, 12.0, never, never, never],
            ),
            (23.5 / 30.0, 0.1321),
        );
        near(mann_whitney(&[never; 3], &[never; 4]), (0.5, 1.0));
    }
}
