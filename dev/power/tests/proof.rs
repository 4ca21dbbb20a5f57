//! The timing rule on simulated processes whose truth is known: coverage, false failures and power within
//! exact binomial bounds, under each fault that measured processes have. Seeds are fixed, so a test that
//! passes once passes always; bounds are at 1 - 1e-4, so a rule that is right passes for nearly any seed.

#![allow(clippy::unwrap_used, reason = "tests")]

use judge::stats::sequential::{Decision, Evidence, Rule, Schedule};
use power::simulate::{Tail, World};
use power::{Dice, Share};

const CONFIDENCE: f64 = 0.9999;
const TOLERANCE: f64 = 0.005;

/// An operating point at which errors are frequent enough to count.
fn coarse(looks: &[u32]) -> Rule {
    Rule {
        tolerance: TOLERANCE,
        quiet: Vec::new(),
        looks: looks.to_vec(),
        false_alarm: 0.05,
        miss: 0.05,
        resolution: 1e-6,
    }
}

/// The one that runs are judged by: 60 contests with 1 % of false alarm in all.
fn stated() -> Rule {
    Rule {
        false_alarm: 0.01 / 60.0,
        miss: 0.01,
        quiet: vec![3, 4, 6],
        ..coarse(&[8, 12, 18, 26, 38, 55])
    }
}

fn quiet() -> World {
    World {
        blocks: 8,
        ..World::quiet()
    }
}

/// Every fault alone and all together, each with the spread between processes that they are said to have.
fn worlds() -> Vec<(&'static str, World)> {
    let faults = World {
        wander: 0.002,
        drift: 0.02,
        slow: 0.3,
        slow_by: 0.006,
        interrupt: 0.02,
        ..quiet()
    };
    vec![
        ("quiet", quiet()),
        (
            "heavy tails",
            World {
                tail: Tail::Heavy,
                ..quiet()
            },
        ),
        (
            "autocorrelation",
            World {
                wander: 0.002,
                ..quiet()
            },
        ),
        (
            "drift",
            World {
                drift: 0.02,
                ..quiet()
            },
        ),
        (
            "two modes",
            World {
                slow: 0.3,
                slow_by: 0.006,
                ..quiet()
            },
        ),
        (
            "interrupts",
            World {
                interrupt: 0.02,
                ..quiet()
            },
        ),
        (
            "all of them",
            World {
                tail: Tail::Heavy,
                ..faults
            },
        ),
    ]
}

/// Measures processes as the rule asks for them, until it has decided.
fn contest(schedule: &Schedule, world: &World, seed: u64) -> Decision {
    let mut dice = Dice::new(seed, 0);
    let mut ratios = Vec::new();
    loop {
        let decision = schedule.decide(&ratios).unwrap();
        let (Decision::More(wanted) | Decision::Confirm(wanted)) = decision else {
            return decision;
        };
        while ratios.len() < wanted as usize {
            ratios.push(world.process(&mut dice).ln_ratio().unwrap());
        }
    }
}

#[derive(Default)]
struct Counts {
    pass: Share,
    fail: Share,
    open: Share,
    /// Bounds of the ratio that the truth lies outside of.
    above: Share,
    below: Share,
}

fn count(rule: &Rule, world: &World, contests: u64) -> Counts {
    let schedule = rule.schedule().unwrap();
    let mut counts = Counts::default();
    for seed in 0..contests {
        let decision = contest(&schedule, world, seed);
        counts.pass.add(matches!(decision, Decision::Pass(_)));
        counts.fail.add(matches!(decision, Decision::Fail(_)));
        counts.open.add(matches!(decision, Decision::Open(_)));
        let (Decision::Pass(evidence) | Decision::Fail(evidence) | Decision::Open(evidence)) =
            decision
        else {
            panic!("{decision:?} is no end");
        };
        let Evidence {
            interval: [lower, upper],
            ..
        } = evidence;
        counts.above.add(lower > 1.0 + world.true_change);
        counts.below.add(upper < 1.0 + world.true_change);
    }
    counts
}

fn at(true_change: f64, world: &World) -> World {
    World {
        true_change,
        ..world.clone()
    }
}

/// The true share may be `level` or less.
fn at_most(share: Share, level: f64) -> bool {
    share.bounds(CONFIDENCE)[0] <= level
}

fn at_least(share: Share, level: f64) -> bool {
    share.bounds(CONFIDENCE)[1] >= level
}

#[test]
fn bounds_cover_the_truth_as_often_as_they_say() {
    let one_look = coarse(&[8]);
    for (name, world) in worlds() {
        let counts = count(&one_look, &world, 6_000);
        for side in [counts.above, counts.below] {
            assert!(at_most(side, 0.05), "{name}: {}", side.rate());
            // Not by being useless either, where the t interval is exact.
            if world.tail == Tail::Normal {
                assert!(at_least(side, 0.05), "{name}: {}", side.rate());
            }
        }
    }
}

#[test]
fn false_failures_at_the_tolerance_keep_their_level() {
    for (name, world) in worlds() {
        let fail = count(&coarse(&[6, 10, 16]), &at(TOLERANCE, &world), 3_000).fail;
        assert!(at_most(fail, 0.05), "{name}: {}", fail.rate());
    }
}

#[test]
fn false_passes_beyond_the_tolerance_keep_their_level() {
    for (name, world) in worlds() {
        let pass = count(&coarse(&[6, 10, 16]), &at(TOLERANCE, &world), 3_000).pass;
        assert!(at_most(pass, 0.05), "{name}: {}", pass.rate());
    }
}

/// No spread is known in advance, and quiet looks believe a small one after three processes. The chance of a miss is
/// greatest at a spread of about 0.6 %.
#[test]
fn changes_of_the_tolerance_are_missed_no_more_often_than_stated_at_any_spread() {
    let rule = stated();
    let mut greatest: f64 = 0.0;
    for spread in [0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.012, 0.02, 0.05] {
        let missed = missed_at_the_tolerance(&rule, spread, 20_000);
        assert!(at_most(missed, rule.miss), "{spread}: {}", missed.rate());
        greatest = greatest.max(missed.rate());
    }
    // The looks use the chance that they have.
    assert!(greatest > 0.5 * rule.miss, "{greatest}");
}

/// Proves that the test above can fail: with the whole of the chance of a miss at each of the quiet looks.
#[test]
fn quiet_looks_that_do_not_split_their_errors_are_caught() {
    let whole = [3, 4, 6].map(|quiet| {
        let rule = Rule {
            // A rule gives 0.8 of it to quiet looks.
            miss: stated().miss / 0.8,
            quiet: vec![quiet],
            ..stated()
        };
        rule.schedule().unwrap()
    });
    let mut missed = Share::default();
    for seed in 0..20_000 {
        let ratios = ratios(0.006, &mut Dice::new(seed, 1));
        let passes = |look: &Schedule| matches!(look.decide(&ratios[..6]), Ok(Decision::Pass(_)));
        missed.add(whole.iter().any(passes));
    }
    assert!(!at_most(missed, stated().miss), "{}", missed.rate());
}

/// Verdicts on changes of exactly the tolerance that pass, of processes that spread normally.
fn missed_at_the_tolerance(rule: &Rule, spread: f64, contests: u64) -> Share {
    let schedule = rule.schedule().unwrap();
    let mut missed = Share::default();
    for seed in 0..contests {
        let ratios = ratios(spread, &mut Dice::new(seed, 0));
        let decision = schedule.decide(&ratios).unwrap();
        missed.add(matches!(decision, Decision::Pass(_)));
    }
    missed
}

fn ratios(spread: f64, dice: &mut Dice) -> Vec<f64> {
    let truth = TOLERANCE.ln_1p();
    (0..56).map(|_| truth + spread * dice.normal()).collect()
}

/// Proves that the tests of one level above can fail: at every number of processes from 4 to 40 a look, with the
/// errors split over them and, deliberately wrong, with the whole of both errors at each.
#[test]
fn a_rule_that_does_not_split_its_errors_is_caught() {
    let world = at(TOLERANCE, &quiet());
    let looks: Vec<u32> = (4..=40).collect();
    let right = count(&coarse(&looks), &world, 2_000);
    assert!(at_most(right.fail, 0.05) && at_most(right.pass, 0.05));

    let whole: Vec<Schedule> = looks
        .iter()
        .map(|&look| coarse(&[look]).schedule().unwrap())
        .collect();
    let (mut fail, mut pass) = (Share::default(), Share::default());
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed, 0);
        let ratios: Vec<f64> = (0..=40)
            .map(|_| world.process(&mut dice).ln_ratio().unwrap())
            .collect();
        let decided = whole
            .iter()
            .map(|look| look.decide(&ratios).unwrap())
            .find(|decision| !matches!(decision, Decision::Open(_)));
        fail.add(matches!(decided, Some(Decision::Fail(_))));
        pass.add(matches!(decided, Some(Decision::Pass(_))));
    }
    assert!(!at_most(fail, 0.05), "{}", fail.rate());
    assert!(!at_most(pass, 0.05), "{}", pass.rate());
}

/// The confirming process halves what is left of a false alarm at the tolerance.
#[test]
fn a_failure_is_confirmed() {
    let world = at(TOLERANCE, &quiet());
    let rule = coarse(&[8]);
    let counts = count(&rule, &world, 12_000);
    assert!(at_most(counts.fail, 0.025) && at_least(counts.fail, 0.025));
    // Without it the lower bound alone would decide.
    assert!(!at_most(counts.above, 0.025), "{}", counts.above.rate());
}

#[test]
fn unchanged_kernels_pass() {
    for (name, world) in worlds() {
        let counts = count(&stated(), &world, 3_000);
        assert_eq!(counts.fail.hits, 0, "{name}");
        // 5 % of runs of 60 may hold anything inconclusive.
        assert!(
            at_most(counts.open, 1.0 - 0.95f64.powf(1.0 / 60.0)),
            "{name}: {}",
            counts.open.rate()
        );
    }
}

#[test]
fn one_percent_is_seen() {
    for (name, world) in worlds() {
        let counts = count(&stated(), &at(0.01, &world), 3_000);
        assert!(
            at_least(counts.fail, 0.99),
            "{name}: {}",
            counts.fail.rate()
        );
        assert_eq!(counts.pass.hits, 0, "{name}");
    }
}

/// Processes that are off on their own make a verdict open. They neither fail what is unchanged nor pass
/// what is not.
#[test]
fn stray_processes_mislead_nobody() {
    for share in [0.02, 0.1] {
        let world = World {
            stray: share,
            stray_by: 0.05,
            ..quiet()
        };
        let counts = count(&stated(), &world, 3_000);
        assert!(
            at_most(counts.fail, stated().false_alarm),
            "{}",
            counts.fail.rate()
        );
        assert!(at_least(counts.open, 0.001), "{}", counts.open.rate());
        let slower = count(&stated(), &at(0.01, &world), 3_000);
        assert_eq!(slower.pass.hits, 0);
    }
}

/// The claimed smallest visible change is seen four times of five.
#[test]
fn the_smallest_visible_change_is_seen_with_its_power() {
    // Without noise within processes, so that the spread between them is known.
    let world = World {
        between: 0.002,
        noise: 0.0,
        tick_ns: 1.0,
        ..quiet()
    };
    for look in [6, 10, 16] {
        let rule = Rule {
            quiet: Vec::new(),
            looks: vec![look],
            ..stated()
        };
        let Decision::Open(evidence) =
            contest(&rule.schedule().unwrap(), &at(TOLERANCE, &world), 1)
        else {
            panic!("decided at the tolerance");
        };
        let beyond =
            (evidence.smallest_visible.ln_1p() - TOLERANCE.ln_1p()) / evidence.ln_deviation;
        let change = (TOLERANCE.ln_1p() + beyond * world.between).exp_m1();
        let seen = count(&rule, &at(change, &world), 3_000).fail;
        assert!(
            at_least(seen, 0.8) && at_most(seen, 0.8),
            "{look}: {}",
            seen.rate()
        );
    }
}
