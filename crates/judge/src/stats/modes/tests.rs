//! Measures false alarms and power on simulated processes, with stated bounds. All random numbers have a seed.

use super::*;
use crate::stats::{ProcessGroup, compare};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The clock step of an H100's events, in ns.
const TICK: u64 = 32;

struct Dice(ChaCha8Rng);

impl Dice {
    /// Draws a number between 0 and 1, which is neither of them.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let u = self.uniform();
        Normal::standard().inverse_cdf(u)
    }
}

fn dice(seed: u64) -> Dice {
    Dice(ChaCha8Rng::seed_from_u64(seed))
}

/// Returns the time of a launch in ns, by its position in the process (0 to 1).
type LaunchTime = fn(&mut Dice, f64) -> f64;

/// Returns one process as the clock shows it. Processes differ by 3 %.
fn process(dice: &mut Dice, launches: usize, kind: impl Fn(&mut Dice, f64) -> f64) -> Vec<u64> {
    let shift = (0.03 * dice.normal()).exp();
    let mut launch = |at: usize| {
        let ns = kind(dice, at as f64 / launches as f64) * shift;
        ((ns / TICK as f64).round() as u64).max(1) * TICK
    };
    (0..launches).map(&mut launch).collect()
}

fn as_launches(processes: &[Vec<u64>]) -> Vec<Launches<'_>> {
    processes
        .iter()
        .map(|ns| Launches { ns, tick_ns: TICK })
        .collect()
}

fn find(processes: &[Vec<u64>]) -> Option<Modes> {
    Modes::find(&as_launches(processes)).unwrap()
}

/// Returns launches around 5.2 us with a spread of `spread`, a `share` of which is `ratio` times as slow.
fn two(share: f64, ratio: f64, spread: f64) -> impl Fn(&mut Dice, f64) -> f64 {
    move |dice, _| {
        let slow = if dice.uniform() < share { ratio } else { 1.0 };
        5200.0 * slow * (spread * dice.normal()).exp()
    }
}

const ONE_MODE: [(&str, LaunchTime); 11] = [
    ("normal", |dice, _| 5000.0 * (0.01 * dice.normal()).exp()),
    ("wide", |dice, _| 5000.0 * (0.1 * dice.normal()).exp()),
    ("lognormal", |dice, _| 5000.0 * (0.5 * dice.normal()).exp()),
    ("exponential tail", |dice, _| {
        5000.0 * (1.0 - 0.05 * dice.uniform().ln())
    }),
    ("Pareto tail, 2", |dice, _| {
        5000.0 * (1.0 + 0.02 * (dice.uniform().powf(-0.5) - 1.0))
    }),
    ("Pareto tail, 1", |dice, _| {
        5000.0 * (1.0 + 0.02 * (1.0 / dice.uniform() - 1.0))
    }),
    ("Student's t, 3", |dice, _| {
        let t = StudentsT::new(0.0, 1.0, 3.0).unwrap();
        5000.0 * (0.05 * t.inverse_cdf(dice.uniform())).exp()
    }),
    ("uniform", |dice, _| 5000.0 * (1.0 + 0.3 * dice.uniform())),
    ("a few ticks", |dice, _| {
        2300.0 * (1.0 + 0.012 * dice.normal())
    }),
    ("outliers", |dice, _| {
        if dice.uniform() < 0.02 {
            5000.0 * (2.0 + 8.0 * dice.uniform())
        } else {
            5000.0 * (0.01 * dice.normal()).exp()
        }
    }),
    ("ramp", |dice, at| {
        5000.0 * (1.0 + 0.1 * at) * (0.005 * dice.normal()).exp()
    }),
];

/// Processes and launches of a run (3 of 200) and of a comparison with a base (12 of 100).
const SIZES: [(usize, usize); 2] = [(3, 200), (12, 100)];

fn share_found(runs: u64, size: (usize, usize), kind: impl Fn(&mut Dice, f64) -> f64) -> f64 {
    let found = (0..runs).filter(|&seed| {
        let mut dice = dice(seed);
        let processes: Vec<_> = (0..size.0)
            .map(|_| process(&mut dice, size.1, &kind))
            .collect();
        find(&processes).is_some()
    });
    found.count() as f64 / runs as f64
}

/// None may be split in 250 runs here. With `--ignored` there are 1000 runs of each, as the head of `modes.rs` states.
fn is_not_split(size: (usize, usize)) {
    for (name, kind) in ONE_MODE {
        assert_eq!(share_found(250, size, kind), 0.0, "{name} {size:?}");
    }
}

#[test]
fn one_mode_of_a_run_is_not_split() {
    is_not_split(SIZES[0]);
}

#[test]
fn one_mode_of_a_comparison_is_not_split() {
    is_not_split(SIZES[1]);
}

/// Each window as if it were the only one.
#[test]
fn windows_that_move_count_as_each_alone() {
    let mut dice = dice(3);
    let mut sorted: Vec<f64> = (0..300).map(|_| (dice.uniform() * 50.0).round()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    for width in [0.0, 0.5, 7.0, 100.0] {
        let mut starts: Vec<f64> = sorted
            .iter()
            .copied()
            .flat_map(|start| [start, start.next_up()])
            .chain([-3.0, 60.0])
            .collect();
        starts.sort_unstable_by(f64::total_cmp);
        let alone = starts
            .iter()
            .map(|&start| (count(&sorted, start, start + width), start));
        let moved = counts(&sorted, starts.iter().copied(), width);
        assert!(moved.eq(alone), "{width}");
    }
}

#[test]
#[ignore = "a minute of one core"]
fn one_mode_is_not_split_in_a_thousand_runs() {
    for size in SIZES {
        for (name, kind) in ONE_MODE {
            assert_eq!(share_found(1000, size, kind), 0.0, "{name} {size:?}");
        }
        assert_eq!(
            share_found(1000, size, two(0.1, 1.5, 0.02)),
            1.0,
            "{size:?}"
        );
    }
}

#[test]
fn two_modes_are_found() {
    for (share, ratio, spread, least) in [
        (0.30, 1.50, 0.02, 1.0),
        (0.45, 1.50, 0.05, 1.0),
        (0.85, 1.50, 0.02, 1.0),
        (0.10, 1.50, 0.02, 1.0),
        (0.07, 2.00, 0.02, 0.95),
        (0.30, 1.05, 0.01, 0.95),
    ] {
        for size in SIZES {
            let found = share_found(100, size, two(share, ratio, spread));
            assert!(found >= least, "{share} {ratio} {spread} {size:?}: {found}");
        }
    }
}

#[test]
fn both_modes_are_found_with_their_size() {
    let mut dice = dice(1);
    let processes: Vec<_> = (0..3)
        .map(|_| process(&mut dice, 1000, two(0.3, 1.5, 0.02)))
        .collect();
    let modes = find(&processes).unwrap();
    assert!((modes.fast.ns / 5200.0 - 1.0).abs() < 0.05, "{modes:?}");
    assert!(
        (modes.slow.ns / modes.fast.ns - 1.5).abs() < 0.01,
        "{modes:?}"
    );
    assert!((modes.slow.share - 0.3).abs() < 0.03, "{modes:?}");
    assert!((modes.fast.share + modes.slow.share - 1.0).abs() < 1e-12);
    let shares: Vec<_> = processes
        .iter()
        .filter_map(|ns| modes.slow_share(ns))
        .collect();
    let mean = shares.iter().sum::<f64>() / 3.0;
    assert!((mean - modes.slow.share).abs() < 1e-3, "{shares:?}");
}

/// Neither processes apart from each other, nor a side that is slower as a whole.
#[test]
fn a_shift_of_everything_is_no_mode() {
    let mut dice = dice(2);
    let mut sides = [1.0, 1.5].map(|factor| -> Vec<Vec<u64>> {
        let kind = move |dice: &mut Dice, _| factor * 5200.0 * (0.01 * dice.normal()).exp();
        (0..6).map(|_| process(&mut dice, 100, kind)).collect()
    });
    let [base, head] = &mut sides;
    assert_eq!(
        slow_shares(&as_launches(head), &as_launches(base)),
        Ok(None)
    );
    base.append(head);
    assert_eq!(find(base), None);
}

#[test]
fn too_few_launches_say_nothing() {
    for ns in [vec![], vec![5000; LEAST - 1]] {
        let have = ns.len();
        assert_eq!(Modes::find(&as_launches(&[ns])), Err(TooFew { have }));
    }
    assert!(Modes::find(&as_launches(&[vec![5000; LEAST], vec![]])).is_err());
    assert!(Modes::find(&as_launches(&[vec![0; LEAST]])).is_err());
    assert_eq!(Modes::find(&as_launches(&[vec![5000; LEAST]])), Ok(None));
    assert_eq!(Modes::find(&[]), Err(TooFew { have: 0 }));
}

/// Returns the 95 % interval of the difference of shares, by Student's t over the processes.
fn difference(shares: &SlowShares) -> [f64; 2] {
    let all: Vec<f64> = shares
        .head
        .iter()
        .zip(&shares.base)
        .map(|(head, base)| head - base)
        .collect();
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let squares: f64 = all.iter().map(|value| (value - mean).powi(2)).sum();
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .unwrap()
        .inverse_cdf(0.975);
    let half = t * (squares / (n - 1.0) / n).sqrt();
    [mean - half, mean + half]
}

fn share_seen(runs: u64, processes: usize, shares: [f64; 2], beyond: f64) -> f64 {
    let seen = (0..runs).filter(|&seed| {
        let mut dice = dice(seed);
        let [base, head] = shares.map(|share| -> Vec<_> {
            (0..processes)
                .map(|_| process(&mut dice, 100, two(share, 1.5, 0.02)))
                .collect()
        });
        let shares = slow_shares(&as_launches(&head), &as_launches(&base)).unwrap();
        shares.is_some_and(|shares| difference(&shares)[0] > beyond)
    });
    seen.count() as f64 / runs as f64
}

/// The issue's: a slow mode whose share grows from 30 % to 45 %. With 100 launches a process and side, six
/// pairs of processes tell it from none (measured: 99 %), and ten that it is more than 5 points (98.5 %).
#[test]
fn a_share_that_grows_from_30_to_45_per_cent_is_seen() {
    for (processes, beyond, least) in [(6, 0.0, 0.97), (10, 0.05, 0.93), (16, 0.05, 0.99)] {
        let seen = share_seen(200, processes, [0.3, 0.45], beyond);
        assert!(seen >= least, "{processes} {beyond}: {seen}");
    }
    // If nothing changed, half of the one in twenty that the level of the interval allows may show.
    let false_alarms = share_seen(400, 6, [0.3, 0.3], 0.0);
    assert!(false_alarms <= 0.05, "{false_alarms}");
}

/// Measures how often the interval of a change lies beyond the limit, for p99 and for p50. p99 of single launches
/// doubles while p50 stays the same, because some launches in a hundred take 2.1 times as long. The interval is the
/// judge's own.
fn p99_seen(runs: u64, processes: usize, launches: usize, slow: f64, beyond: f64) -> [f64; 2] {
    let mut seen = [0, 0];
    for seed in 0..runs {
        let mut dice = dice(seed);
        let sides = [0.0, slow].map(|share| -> Vec<Sample> {
            (0..processes)
                .map(|_| process(&mut dice, launches, two(share, 2.1, 0.01)))
                .filter_map(|ns| Sample::new(&ns))
                .collect()
        });
        let group = |side: &[Sample], q: f64| {
            let values: Vec<_> = side.iter().map(|sample| sample.quantile(q)).collect();
            ProcessGroup::from_values(&values, 0.0018).unwrap()
        };
        let [base, head] = &sides;
        for (seen, q) in seen.iter_mut().zip([0.99, 0.5]) {
            let ratio = compare(&group(head, q), &group(base, q)).interval[0];
            *seen += u32::from(ratio - 1.0 > beyond);
        }
    }
    seen.map(|seen| f64::from(seen) / runs as f64)
}

#[test]
fn p99_that_doubles_with_p50_unchanged_is_seen() {
    for (processes, launches, slow, least) in [
        // Two of 200 launches lie beyond p99, and one of 100. If 2 % are slow, many processes have no more slow ones
        // than that, and their p99 does not move. Measured: 99.5, 97.5, 90.5, 94, 97 %.
        (3, 200, 0.05, 0.98),
        (6, 200, 0.03, 0.94),
        (10, 100, 0.03, 0.85),
        (12, 200, 0.02, 0.90),
        (3, 1000, 0.02, 0.94),
    ] {
        let [p99, p50] = p99_seen(200, processes, launches, slow, 0.2);
        assert!(p99 >= least, "{processes} x {launches}, {slow}: {p99}");
        assert_eq!(p50, 0.0, "p50 sees nothing");
    }
    let [p99, _] = p99_seen(400, 6, 200, 0.0, 0.2);
    assert_eq!(p99, 0.0);
}

fn launches() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let process =
        prop::collection::vec(prop_oneof![3 => 5000u64..5200, 1 => 7800u64..8000], 80..120);
    prop::collection::vec(process, 3..6)
}

proptest! {
    #[test]
    fn order_does_not_matter(mut processes in launches()) {
        let forward = Modes::find(&as_launches(&processes));
        processes.reverse();
        for process in &mut processes {
            process.reverse();
        }
        prop_assert_eq!(forward, Modes::find(&as_launches(&processes)));
    }

    #[test]
    fn a_common_factor_cancels(processes in launches(), k in 2u64..1000) {
        let one = find(&processes);
        let scaled: Vec<Vec<u64>> = processes.iter().map(|ns| ns.iter().map(|ns| ns * k).collect()).collect();
        let scaled: Vec<_> = scaled.iter().map(|ns| Launches { ns, tick_ns: TICK * k }).collect();
        let other = Modes::find(&scaled).unwrap();
        prop_assert_eq!(one.is_some(), other.is_some());
        if let (Some(one), Some(other)) = (one, other) {
            prop_assert!((one.slow.ns * k as f64 / other.slow.ns - 1.0).abs() < 1e-9);
            prop_assert_eq!(one.slow.share, other.slow.share);
        }
    }

    #[test]
    fn anything_at_all_ends_in_shares(processes in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..300), 0..4), tick: u64) {
        let all: Vec<_> = processes.iter().map(|ns| Launches { ns, tick_ns: tick }).collect();
        if let Ok(Some(modes)) = Modes::find(&all) {
            prop_assert!((SMALLEST_SHARE..=1.0 - SMALLEST_SHARE).contains(&modes.slow.share));
            prop_assert!(modes.fast.ns < modes.slow.ns);
        }
    }
}
