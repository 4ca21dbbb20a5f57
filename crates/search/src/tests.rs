//! Properties that every strategy has to hold, on any space.

use crate::dice::Dice;
use crate::{
    Elite, Exhaustive, Guided, Outcome, Parameter, Point, Random, Settings, Space, Strategy, Value,
};
use proptest::prelude::{
    ProptestConfig, Strategy as _, any, prop, prop_assert, prop_assert_eq, proptest,
};
use std::collections::HashSet;
use std::sync::Arc;

/// A model soon, of few candidates, so that small spaces see all of it.
const SMALL: Settings = Settings {
    first: 3,
    batch: 2,
    pool: 10,
};

fn strategies(space: &Arc<Space>, seed: u64, seeds: &[Point]) -> Vec<Box<dyn Strategy>> {
    vec![
        Box::new(Exhaustive::new(space)),
        Box::new(Random::new(space, seed)),
        Box::new(Elite::new(space.clone(), seed, seeds)),
        Box::new(Guided::new(space.clone(), seed, seeds, SMALL)),
    ]
}

fn numbers(name: &str, values: impl IntoIterator<Item = i64>) -> Parameter {
    Parameter {
        name: name.to_owned(),
        values: values.into_iter().map(Value::Integer).collect(),
    }
}

/// Up to four parameters, one of them text, and which of their combinations are valid.
fn spaces() -> impl proptest::strategy::Strategy<Value = Arc<Space>> {
    let widths = prop::collection::vec(1i64..5, 0..4);
    (widths, any::<bool>(), any::<u64>(), 0u64..4).prop_map(|(widths, text, mask, of_four)| {
        let named = ["a", "b", "c", "d"];
        let mut parameters: Vec<Parameter> = widths
            .iter()
            .zip(named)
            .map(|(width, name)| numbers(name, (0..*width).map(|it| 48 << it)))
            .collect();
        if text {
            parameters.push(Parameter {
                name: "layout".to_owned(),
                values: ["rows", "columns"]
                    .map(|it| Value::Text(it.to_owned()))
                    .to_vec(),
            });
        }
        let mut at = 0u32;
        let valid = |_: &[&Value]| {
            at += 1;
            // From none at all to all.
            (mask.rotate_left(at * 7) & 3) < of_four + u64::from(mask % 3 == 0)
        };
        Arc::new(Space::enumerate(parameters, valid).unwrap())
    })
}

/// The outcome of a point, from a seed: a third fails, and some costs are no numbers to compare.
fn outcome(point: Point, seed: u64) -> Outcome {
    let mixed = (point.index() as u64 + 1).wrapping_mul(seed | 1);
    match mixed % 12 {
        0..4 => Outcome::Failed,
        4 => Outcome::Cost(f64::NAN),
        5 => Outcome::Cost(f64::INFINITY),
        6 => Outcome::Cost(0.0),
        7 => Outcome::Cost(-1.0),
        _ => Outcome::Cost((mixed % 1000) as f64),
    }
}

/// Asks until there is no more, `ahead` at a time, and tells.
fn search(
    strategy: &mut dyn Strategy,
    ahead: usize,
    outcome: impl Fn(Point) -> Outcome,
) -> Vec<Point> {
    let mut asked = Vec::new();
    loop {
        let batch: Vec<Point> = (0..ahead).map_while(|_| strategy.ask()).collect();
        if batch.is_empty() {
            return asked;
        }
        for &point in &batch {
            strategy.tell(point, outcome(point));
        }
        asked.extend(batch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Each valid configuration once and none else, whatever the outcomes are, and however many are asked for at a time.
    #[test]
    fn a_space_is_exhausted_without_repetition(
        space in spaces(), seed: u64, ahead in 1usize..9, fail_all: bool,
    ) {
        for (at, mut strategy) in strategies(&space, seed, &[]).into_iter().enumerate() {
            let told = |point| if fail_all { Outcome::Failed } else { outcome(point, seed) };
            let asked = search(&mut *strategy, ahead, told);
            let distinct: HashSet<Point> = asked.iter().copied().collect();
            prop_assert_eq!(distinct.len(), asked.len(), "strategy {}", at);
            prop_assert_eq!(asked.len(), space.len(), "strategy {}", at);
            prop_assert!(asked.iter().all(|it| it.index() < space.len()));
            prop_assert_eq!(strategy.ask(), None);
        }
    }

    #[test]
    fn the_same_seed_and_answers_give_the_same_questions(space in spaces(), seed: u64) {
        let all = || -> Vec<Vec<Point>> {
            let each = strategies(&space, seed, &[]).into_iter();
            each.map(|mut it| search(&mut *it, 1, |point| outcome(point, seed))).collect()
        };
        prop_assert_eq!(all(), all());
    }

    /// Seeds come first, once each, and what was told from elsewhere is not asked for.
    #[test]
    fn asks_for_seeds_first_and_for_nothing_known(space in spaces(), seed: u64) {
        let points: Vec<Point> = space.points().collect();
        let Some((&known, seeds)) = points.split_last() else { return Ok(()) };
        let mut seeds = seeds.to_vec();
        seeds.reverse();
        let twice = [seeds.clone(), seeds.clone()].concat();
        for mut strategy in strategies(&space, seed, &twice).into_iter().skip(2) {
            strategy.tell(known, Outcome::Cost(1.0));
            let asked = search(&mut *strategy, 1, |point| outcome(point, seed));
            prop_assert_eq!(&asked, &seeds);
        }
    }
}

/// 4096 configurations with one best; a quarter fails. Sizes count by their ratio, as on a GPU.
fn bowl() -> (Arc<Space>, Vec<Outcome>) {
    let sizes = || (0..8).map(|it| 1 << it);
    let parameters = ["a", "b", "c", "d"].map(|name| numbers(name, sizes()));
    let space = Space::enumerate(parameters.to_vec(), |_| true).unwrap();
    let outcomes = space.points().map(|point| {
        let choice: Vec<f64> = space
            .choice(point)
            .iter()
            .map(|it| f64::from(*it))
            .collect();
        if choice[0] + choice[1] > 10.0 {
            return Outcome::Failed;
        }
        let away = [5.0, 2.0, 6.0, 1.0]
            .iter()
            .zip(&choice)
            .map(|(best, it)| (best - it).powi(2));
        // Two of them work together.
        Outcome::Cost(1.0 + away.sum::<f64>() + 0.5 * (choice[2] - choice[3] - 5.0).abs())
    });
    let outcomes = outcomes.collect();
    (Arc::new(space), outcomes)
}

/// Evaluations until the best is found: the median of some seeds.
fn evaluations(outcomes: &[Outcome], start: impl Fn(u64) -> Box<dyn Strategy>) -> usize {
    let mut needed: Vec<usize> = (0..9)
        .map(|seed| {
            let mut strategy = start(seed);
            let mut count = 0;
            while let Some(point) = strategy.ask() {
                count += 1;
                let outcome = outcomes[point.index()];
                if outcome == Outcome::Cost(1.0) {
                    break;
                }
                strategy.tell(point, outcome);
            }
            count
        })
        .collect();
    needed.sort_unstable();
    needed[needed.len() / 2]
}

#[test]
fn learning_strategies_need_fewer_evaluations() {
    let (space, outcomes) = bowl();
    let random = evaluations(&outcomes, |seed| Box::new(Random::new(&space, seed)));
    let elite = evaluations(&outcomes, |seed| {
        Box::new(Elite::new(space.clone(), seed, &[]))
    });
    let guided = evaluations(&outcomes, |seed| {
        Box::new(Guided::new(space.clone(), seed, &[], Settings::default()))
    });
    assert!(elite * 4 < random, "elite {elite}, random {random}");
    assert!(guided < elite, "guided {guided}, elite {elite}");
}

/// The same outcomes, in a drawn order.
fn scatter(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut dice = Dice::new(5);
    let mut drawn: Vec<(u64, Outcome)> = outcomes.into_iter().map(|it| (dice.word(), it)).collect();
    drawn.sort_by_key(|it| it.0);
    drawn.into_iter().map(|it| it.1).collect()
}

/// Without the structure there is nothing to learn, and the test above would see that.
#[test]
fn nothing_is_learned_from_noise() {
    let (space, outcomes) = bowl();
    let outcomes = scatter(outcomes);
    let elite = evaluations(&outcomes, |seed| {
        Box::new(Elite::new(space.clone(), seed, &[]))
    });
    assert!(elite > 400, "elite {elite}");
}

/// The first questions of each strategy. A change here changes every recorded search.
#[test]
fn questions_stay_the_same() {
    let (space, outcomes) = bowl();
    let settings = Settings {
        first: 4,
        ..Settings::default()
    };
    let starts: [(&str, Box<dyn Strategy>); 4] = [
        ("exhaustive", Box::new(Exhaustive::new(&space))),
        ("random", Box::new(Random::new(&space, 1))),
        ("elite", Box::new(Elite::new(space.clone(), 1, &[]))),
        (
            "guided",
            Box::new(Guided::new(space.clone(), 1, &[], settings)),
        ),
    ];
    let lines: Vec<String> = starts
        .into_iter()
        .map(|(name, mut strategy)| {
            let asked = (0..14).map(|_| {
                let point = strategy.ask().unwrap();
                strategy.tell(point, outcomes[point.index()]);
                point.index().to_string()
            });
            format!("{name}: {}", asked.collect::<Vec<_>>().join(" "))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn an_empty_space_has_no_questions() {
    let space = Arc::new(Space::enumerate(vec![numbers("a", 0..3)], |_| false).unwrap());
    assert!(space.is_empty());
    for mut strategy in strategies(&space, 1, &[]) {
        assert_eq!(strategy.ask(), None);
    }
}
