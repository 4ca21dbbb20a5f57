use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

/// Returns the rule of one contest in a run of 60, with 1 % of false alarm in all of them.
fn rule() -> Rule {
    Rule {
        tolerance: 0.005,
        quiet: Vec::new(),
        looks: vec![6, 10, 16],
        false_alarm: 0.01 / 60.0,
        miss: 0.01,
        resolution: 1e-5,
    }
}

/// Returns `n` ratios that alternate by `spread` around `mean`.
fn around(mean: f64, spread: f64, n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| {
            if i % 2 == 0 {
                mean + spread
            } else {
                mean - spread
            }
        })
        .collect()
}

/// Decides by one shared schedule, because working out its bounds takes longer than a decision.
fn decision(ln_ratios: &[f64]) -> Decision {
    static SCHEDULE: LazyLock<Schedule> = LazyLock::new(|| rule().schedule().unwrap());
    SCHEDULE.decide(ln_ratios).unwrap()
}

/// Returns the same rule with quiet looks.
fn quiet_rule() -> Rule {
    Rule {
        quiet: vec![2, 3, 4],
        ..rule()
    }
}

fn quiet_decision(ln_ratios: &[f64]) -> Decision {
    static SCHEDULE: LazyLock<Schedule> = LazyLock::new(|| quiet_rule().schedule().unwrap());
    SCHEDULE.decide(ln_ratios).unwrap()
}

#[test]
fn quantiles_far_out() {
    // These are from mpmath with 30 digits.
    for (p, df, t) in [
        (1e-5, 1.0, 31830.9886079071),
        (5e-5, 2.0, 99.9924998437445),
        (1e-6, 3.0, 103.299467780419),
        (0.01 / 180.0, 5.0, 10.9365898950618),
        (0.01 / 180.0, 9.0, 6.50262508821218),
        (0.01 / 180.0, 15.0, 5.18396857459287),
        (1e-8, 5.0, 62.4045061109673),
        (1e-10, 15.0, 14.9683643411873),
        (0.025, 5.0, 2.57058183563632),
    ] {
        assert!((t_beyond(p, df) / t - 1.0).abs() < 1e-12, "{p} {df}");
    }
    assert_eq!(t_beyond(0.01, 0.0), f64::INFINITY);
}

/// The quadrature against scipy's noncentral t: `nct.sf(t, df, change * sqrt(n)) * norm.cdf(change)`.
#[test]
fn the_smallest_visible_change_has_its_power() {
    for (n, level, change) in [
        (6, 0.01 / 180.0, 5.44080507),
        (10, 0.01 / 180.0, 2.48995890),
        (16, 0.01 / 180.0, 1.62174775),
        (8, 0.05, 1.17486791),
        (3, 0.01, 5.17250512),
    ] {
        let look = Look::new(n, level, 0.01);
        assert!(
            (look.visible / change - 1.0).abs() < 1e-3,
            "{n} {}",
            look.visible
        );
    }
}

/// The greatest of `chi2.cdf(df * (deviation / spread)**2, df) * norm.cdf(-sqrt(n) / spread)` over 200,000 spreads,
/// solved for the deviation with scipy.
#[test]
fn a_quiet_look_passes_as_wide_a_deviation_as_its_chance_of_a_miss_allows() {
    for (n, miss, deviation) in [
        (2, 0.002, 0.020856357850802854),
        (3, 0.008 / 3.0, 0.22097559169716996),
        (4, 0.008 / 3.0, 0.4213244220020904),
        (6, 0.008 / 3.0, 0.7165033906096276),
    ] {
        let found = QuietLook::new(n, miss).deviation;
        assert!((found / deviation - 1.0).abs() < 1e-3, "{n} {found}");
    }
}

#[test]
fn what_is_plainly_unchanged_passes_at_a_quiet_look() {
    let ratios = [1e-4, -1e-4, 3e-4, 0.0];
    assert_eq!(quiet_decision(&ratios[..1]), Decision::More(2));
    // Two processes say little of their spread.
    assert_eq!(quiet_decision(&ratios[..2]), Decision::More(3));
    let Decision::Pass(evidence) = quiet_decision(&ratios[..3]) else {
        panic!("not passed")
    };
    assert_eq!((evidence.processes, evidence.confirmation), (3, None));
    // The bounds lie at the distance from the mean that a quiet look demands.
    for (bound, sign) in evidence.interval.iter().zip([-1.0, 1.0]) {
        let distance = sign * 0.8 * 0.005f64.ln_1p();
        assert!((bound.ln() - 1e-4 - distance).abs() < 1e-12);
    }
    assert!(evidence.smallest_visible > 0.005);
}

#[test]
fn a_quiet_look_passes_neither_what_spreads_nor_what_moved() {
    for (mean, spread) in [(0.0, 2e-3), (0.0011, 1e-4), (0.05, 1e-4)] {
        let decision = quiet_decision(&around(mean, spread, 4));
        assert_eq!(decision, Decision::More(6), "{mean} {spread}");
    }
    // An improvement passes like no change.
    assert!(matches!(
        quiet_decision(&around(-0.05, 1e-4, 4)),
        Decision::Pass(_)
    ));
}

#[test]
fn nothing_is_quiet_against_a_tolerance_of_zero() {
    let strict = Rule {
        tolerance: 0.0,
        ..quiet_rule()
    };
    let ratios = around(-0.01, 1e-4, 4);
    assert_eq!(decide(&strict, &ratios), Ok(Decision::More(6)));
}

/// Looks that can fail get the rest of the chance of a miss, and all of that of a false alarm.
#[test]
fn quiet_looks_take_their_share_of_misses() {
    let (with, without) = (quiet_rule().schedule().unwrap(), rule().schedule().unwrap());
    assert!(with.looks[0].up > without.looks[0].up);
    assert_eq!(with.looks[0].down, without.looks[0].down);
    // t of 5 degrees of freedom beyond which 0.002 / 3 lie, from scipy.
    assert!((with.looks[0].up - 6.449194834138541 / 6.0f64.sqrt()).abs() < 1e-9);
}

#[test]
fn asks_until_the_first_look() {
    for n in 0..6 {
        assert_eq!(decision(&around(0.0, 1e-4, n)), Decision::More(6));
    }
}

#[test]
fn nothing_changed_passes_at_the_first_look() {
    let Decision::Pass(evidence) = decision(&around(0.0, 1e-4, 9)) else {
        panic!("not passed")
    };
    assert_eq!((evidence.processes, evidence.confirmation), (6, None));
    let [lower, upper] = evidence.interval;
    assert!(lower < evidence.ratio && evidence.ratio < upper && upper < 1.005);
    assert!(evidence.smallest_visible > 0.005);
}

#[test]
fn bounds_by_hand() {
    // Mean 0.002, from which they are 10, 6, 2, 2, 6 and 10 e-4 away.
    let ratios = [0.001, 0.0014, 0.0018, 0.0022, 0.0026, 0.003];
    let one_look = Rule {
        looks: vec![6],
        miss: 0.025,
        ..rule()
    };
    let Ok(Decision::Pass(evidence)) = decide(&one_look, &ratios) else {
        panic!("not passed")
    };
    let deviation = (280e-8f64 / 5.0).sqrt();
    assert!((evidence.ln_deviation / deviation - 1.0).abs() < 1e-9);
    assert!((evidence.ratio - 0.002f64.exp()).abs() < 1e-12);
    let upper = 0.002 + 2.57058183563632 * deviation / 6.0f64.sqrt();
    assert!((evidence.interval[1] - upper.exp()).abs() < 1e-12);
}

#[test]
fn an_improvement_passes() {
    assert!(matches!(
        decision(&around(-0.2, 1e-3, 6)),
        Decision::Pass(_)
    ));
}

#[test]
fn a_failure_is_confirmed_by_one_process_more() {
    let mut ratios = around(0.02, 1e-3, 6);
    assert_eq!(decision(&ratios), Decision::Confirm(7));
    ratios.push(0.0051);
    let Decision::Fail(evidence) = decision(&ratios) else {
        panic!("not failed")
    };
    assert_eq!(evidence.processes_used(), 7);
    assert_eq!(evidence.confirmation, Some(0.0051f64.exp()));
    assert!(evidence.interval[0] > 1.005);
}

#[test]
fn a_failure_that_is_not_confirmed_goes_on() {
    let mut ratios = around(0.02, 1e-3, 6);
    // The tolerance itself does not exceed the tolerance.
    ratios.push(0.005f64.ln_1p());
    assert_eq!(decision(&ratios), Decision::More(10));
}

#[test]
fn an_unconfirmed_failure_at_the_last_look_is_open() {
    let rule = Rule {
        looks: vec![6],
        ..rule()
    };
    let mut ratios = around(0.02, 1e-3, 6);
    ratios.push(0.0);
    let Ok(Decision::Open(evidence)) = decide(&rule, &ratios) else {
        panic!("not open")
    };
    assert_eq!(evidence.confirmation, Some(1.0));
    assert_eq!(rule.processes_needed(&evidence), None);
}

#[test]
fn a_change_at_the_tolerance_stays_open() {
    let ratios = around(0.005f64.ln_1p(), 1e-3, 16);
    let Decision::Open(evidence) = decision(&ratios) else {
        panic!("not open")
    };
    assert_eq!(evidence.processes_used(), 16);
    assert_eq!(rule().processes_needed(&evidence), None);
}

#[test]
fn the_processes_that_an_open_verdict_needs_would_decide() {
    let ratios = around(0.0, 0.009, 16);
    let Decision::Open(evidence) = decision(&ratios) else {
        panic!("not open")
    };
    let needed = rule().processes_needed(&evidence).unwrap();
    assert!(needed > 16);
    let at = |n: u32| {
        let look = Look::new(n, rule().false_alarm / 3.0, rule().miss / 3.0);
        evidence.ratio.ln() + look.up * evidence.ln_deviation < 0.005f64.ln_1p()
    };
    assert!(at(needed) && !at(needed - 1));
}

#[test]
fn one_outlier_fails_nothing() {
    let mut ratios = around(0.0, 1e-4, 16);
    ratios[2] = 1.0;
    assert!(matches!(decision(&ratios), Decision::Open(_)));
}

#[test]
fn a_ratio_that_is_no_number_is_no_verdict() {
    for unusable in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for index in 0..6 {
            let mut ratios = around(0.0, 1e-4, 6);
            ratios[index] = unusable;
            let error = Err(Undecidable::Ratio { index });
            assert_eq!(decide(&rule(), &ratios), error);
            // The problem is known as soon as the value is there.
            assert_eq!(decide(&rule(), &ratios[..=index]), error);
        }
        let mut ratios = around(0.02, 1e-4, 6);
        ratios.push(unusable);
        assert_eq!(
            decide(&rule(), &ratios),
            Err(Undecidable::Ratio { index: 6 })
        );
    }
}

#[test]
fn certainty_from_nothing_is_none() {
    let same = [0.0; 6];
    let rule = Rule {
        resolution: 0.0,
        ..rule()
    };
    assert_eq!(
        decide(&rule, &same),
        Err(Undecidable::NoSpread { processes: 6 })
    );
    // The step of this clock is so coarse that equal values say little.
    let coarse = Rule {
        resolution: 0.01,
        ..rule
    };
    assert_eq!(decide(&coarse, &same), Ok(Decision::More(10)));
    assert!(matches!(decision(&same), Decision::Pass(_)));
}

#[test]
fn rules_that_make_no_sense() {
    let looks = |looks: &[u32]| Rule {
        looks: looks.to_vec(),
        ..rule()
    };
    let refused = [
        looks(&[]),
        looks(&[1, 5]),
        looks(&[6, 6]),
        looks(&[6, 5]),
        Rule {
            quiet: vec![1, 3],
            ..rule()
        },
        Rule {
            quiet: vec![4, 3],
            ..rule()
        },
        Rule {
            quiet: vec![6],
            ..rule()
        },
        Rule {
            looks: Vec::new(),
            ..quiet_rule()
        },
        Rule {
            tolerance: -0.1,
            ..rule()
        },
        Rule {
            tolerance: f64::NAN,
            ..rule()
        },
        Rule {
            tolerance: f64::INFINITY,
            ..rule()
        },
        Rule {
            false_alarm: 0.0,
            ..rule()
        },
        Rule {
            false_alarm: 0.5,
            ..rule()
        },
        Rule {
            false_alarm: f64::NAN,
            ..rule()
        },
        Rule {
            miss: 0.0,
            ..rule()
        },
        Rule {
            resolution: -1.0,
            ..rule()
        },
        Rule {
            resolution: f64::NAN,
            ..rule()
        },
    ];
    for rule in refused {
        assert!(rule.schedule().is_err(), "{rule:?}");
    }
}

#[test]
fn more_looks_ask_more_of_each() {
    let one = Rule {
        looks: vec![6],
        ..rule()
    }
    .schedule()
    .unwrap();
    let three = rule().schedule().unwrap();
    assert!(three.looks[0].down > one.looks[0].down);
    assert!(three.looks[0].up > one.looks[0].up);
    // 10.93659 / sqrt(6): the level of one look of three.
    assert!((three.looks[0].down - 10.9365898950618 / 6.0f64.sqrt()).abs() < 1e-9);
}

#[test]
fn the_smallest_visible_change_falls_with_processes_and_spread() {
    let schedule = rule().schedule().unwrap();
    let visible: Vec<f64> = schedule.looks.iter().map(|look| look.visible).collect();
    assert!(visible.is_sorted_by(|a, b| a > b), "{visible:?}");
    let at = |spread: f64| match decision(&around(0.0, spread, 16)) {
        Decision::Pass(evidence) => evidence.smallest_visible,
        other => panic!("{other:?}"),
    };
    assert!(at(1e-4) < at(2e-4));
}

/// Draws ratios around the tolerance, so that every decision occurs.
fn ratios() -> impl Strategy<Value = Vec<f64>> {
    (-0.03f64..0.04, 0.0001f64..0.01, 0usize..20)
        .prop_flat_map(|(mean, spread, n)| prop::collection::vec(mean - spread..mean + spread, n))
}

/// Decides without quiet looks, and with some.
const RULES: [fn(&[f64]) -> Decision; 2] = [decision, quiet_decision];

fn settled(decision: &Decision) -> bool {
    !matches!(decision, Decision::More(_) | Decision::Confirm(_))
}

proptest! {
    #[test]
    fn nothing_after_a_decision_changes_it(ratios in ratios(), later in prop::collection::vec(any::<f64>(), 0..4)) {
        let mut after = ratios.clone();
        after.extend(later);
        for decide in RULES {
            let before = decide(&ratios);
            if settled(&before) {
                prop_assert_eq!(before, decide(&after));
            }
        }
    }

    #[test]
    fn a_prefix_asks_for_more_until_it_decides_as_the_whole(ratios in ratios()) {
        for decide in RULES {
            let whole = decide(&ratios);
            for n in 0..ratios.len() {
                match decide(&ratios[..n]) {
                    Decision::More(k) | Decision::Confirm(k) => prop_assert!(k as usize > n),
                    settled => prop_assert_eq!(settled, whole),
                }
            }
        }
    }

    #[test]
    fn slower_is_never_better(ratios in ratios(), shift in 0.0f64..0.05) {
        let shifted: Vec<f64> = ratios.iter().map(|ratio| ratio + shift).collect();
        for decide in RULES {
            match decide(&ratios) {
                Decision::Fail(_) => prop_assert!(matches!(decide(&shifted), Decision::Fail(_))),
                Decision::Open(_) => prop_assert!(!matches!(decide(&shifted), Decision::Pass(_))),
                _ => {}
            }
        }
    }

    #[test]
    fn a_common_scale_changes_no_verdict(ratios in ratios(), scale in 0.01f64..100.0) {
        let rule = Rule { tolerance: 0.0, ..rule() };
        let scaled: Vec<f64> = ratios.iter().map(|ratio| ratio * scale).collect();
        let wider = Rule { resolution: rule.resolution * scale, ..rule.clone() };
        let (a, b) = (decide(&rule, &ratios).unwrap(), decide(&wider, &scaled).unwrap());
        prop_assert_eq!(std::mem::discriminant(&a), std::mem::discriminant(&b));
    }

    #[test]
    fn order_within_a_look_does_not_matter(ratios in ratios()) {
        let rule = Rule { looks: vec![8], ..rule() };
        let mut turned = ratios.clone();
        if let Some(first) = turned.get_mut(..8) {
            first.reverse();
        }
        prop_assert_eq!(decide(&rule, &ratios), decide(&rule, &turned));
    }

    #[test]
    fn passes_and_failures_keep_their_side(ratios in ratios()) {
        for decide in RULES {
            match decide(&ratios) {
                Decision::Pass(evidence) => prop_assert!(evidence.interval[1] <= 1.005 + 1e-12),
                Decision::Fail(evidence) => prop_assert!(evidence.interval[0] > 1.005 - 1e-12),
                _ => {}
            }
        }
    }
}
