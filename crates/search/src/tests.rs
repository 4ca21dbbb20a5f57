//! Tests properties that every strategy must have, on any space.

use crate::dice::Dice;
use crate::guided::Settings;
use crate::unasked::Unasked;
use crate::{Elite, Guided, Parameter, Point, Space, Strategy};
use proptest::prelude::{
    ProptestConfig, Strategy as _, any, prop, prop_assert, prop_assert_eq, proptest,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Settings with an early model of few candidates, so that it sees all of a small space.
const SMALL: Settings = Settings {
    first: 3,
    batch: 2,
    pool: 10,
};

fn strategies(space: &Arc<Space>, seed: u64) -> Vec<Box<dyn Strategy>> {
    vec![
        Box::new(Elite::new(space.clone(), seed)),
        Box::new(Guided::with_settings(space.clone(), seed, SMALL)),
    ]
}

/// Asks for any configuration with equal probability.
struct Random(Unasked, Dice);

impl Strategy for Random {
    fn ask(&mut self) -> Option<Point> {
        self.0.draw(&mut self.1)
    }

    fn tell(&mut self, point: Point, _: Option<f64>) {
        self.0.take(point);
    }
}

fn numbers(name: &str, values: impl IntoIterator<Item = i64>) -> Parameter {
    Parameter {
        name: name.to_owned(),
        values: values.into_iter().collect(),
    }
}

/// Draws up to four parameters, and which of their combinations are valid.
fn spaces() -> impl proptest::strategy::Strategy<Value = Arc<Space>> {
    let widths = prop::collection::vec(1i64..5, 0..5);
    (widths, any::<u64>(), 0u64..4).prop_map(|(widths, mask, of_four)| {
        let parameters: Vec<Parameter> = widths
            .iter()
            .zip(["a", "b", "c", "d"])
            .map(|(width, name)| numbers(name, (0..*width).map(|shift| 48 << shift)))
            .collect();
        let mut at = 0u32;
        let valid = |_: &[i64]| {
            at += 1;
            // Between none and all of them are valid.
            (mask.rotate_left(at * 7) & 3) < of_four + u64::from(mask % 3 == 0)
        };
        Arc::new(Space::enumerate(parameters, valid).unwrap())
    })
}

/// Returns the cost of a point, from a seed: a third fails, and some costs are no numbers to compare.
fn cost(point: Point, seed: u64) -> Option<f64> {
    let mixed = (point.index() as u64 + 1).wrapping_mul(seed | 1);
    match mixed % 12 {
        0..4 => None,
        4 => Some(f64::NAN),
        5 => Some(f64::INFINITY),
        6 => Some(0.0),
        7 => Some(-1.0),
        _ => Some((mixed % 1000) as f64),
    }
}

/// Asks until there is no more, `ahead` at a time, and reports the costs.
fn search(
    strategy: &mut dyn Strategy,
    ahead: usize,
    cost: impl Fn(Point) -> Option<f64>,
) -> Vec<Point> {
    let mut asked = Vec::new();
    loop {
        let batch: Vec<Point> = (0..ahead).map_while(|_| strategy.ask()).collect();
        if batch.is_empty() {
            return asked;
        }
        for &point in &batch {
            strategy.tell(point, cost(point));
        }
        asked.extend(batch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Each valid configuration comes once, and no other one does, whatever the outcomes are and however many are asked
    /// for at a time.
    #[test]
    fn a_space_is_exhausted_without_repetition(
        space in spaces(), seed: u64, ahead in 1usize..9, fail_all: bool,
    ) {
        for (at, mut strategy) in strategies(&space, seed).into_iter().enumerate() {
            let told = |point| if fail_all { None } else { cost(point, seed) };
            let asked = search(&mut *strategy, ahead, told);
            let distinct: HashSet<Point> = asked.iter().copied().collect();
            prop_assert_eq!(distinct.len(), asked.len(), "strategy {}", at);
            prop_assert_eq!(asked.len(), space.len(), "strategy {}", at);
            prop_assert!(asked.iter().all(|point| point.index() < space.len()));
            prop_assert_eq!(strategy.ask(), None);
        }
    }

    #[test]
    fn the_same_seed_and_answers_give_the_same_questions(space in spaces(), seed: u64) {
        let all = || -> Vec<Vec<Point>> {
            strategies(&space, seed).into_iter().map(|mut strategy| search(&mut *strategy, 1, |point| cost(point, seed))).collect()
        };
        prop_assert_eq!(all(), all());
    }

    /// A point whose cost was reported from elsewhere is not asked for.
    #[test]
    fn asks_for_nothing_known(space in spaces(), seed: u64) {
        let Some(known) = space.points().next() else { return Ok(()) };
        for mut strategy in strategies(&space, seed) {
            strategy.tell(known, Some(1.0));
            let asked = search(&mut *strategy, 1, |point| cost(point, seed));
            prop_assert_eq!(asked.len(), space.len() - 1);
            prop_assert!(!asked.contains(&known));
        }
    }
}

/// Returns 4096 configurations with one best. A quarter fails. Sizes count by their ratio, as on a GPU.
fn bowl() -> (Arc<Space>, Vec<Option<f64>>) {
    let sizes = || (0..8).map(|shift| 1 << shift);
    let parameters = ["a", "b", "c", "d"].map(|name| numbers(name, sizes()));
    let space = Space::enumerate(parameters.to_vec(), |_| true).unwrap();
    let cost = |point| {
        let choice: Vec<f64> = space
            .choice(point)
            .iter()
            .map(|at| f64::from(*at))
            .collect();
        if choice[0] + choice[1] > 10.0 {
            return None;
        }
        let away = [5.0, 2.0, 6.0, 1.0]
            .iter()
            .zip(&choice)
            .map(|(best, at)| (best - at).powi(2));
        // Two of them work together.
        Some(1.0 + away.sum::<f64>() + 0.5 * (choice[2] - choice[3] - 5.0).abs())
    };
    let costs = space.points().map(cost).collect();
    (Arc::new(space), costs)
}

/// Returns the number of evaluations until the best is found: the median over some seeds.
fn evaluations(costs: &[Option<f64>], start: impl Fn(u64) -> Box<dyn Strategy>) -> usize {
    let mut needed: Vec<usize> = (0..9)
        .map(|seed| {
            let mut strategy = start(seed);
            let mut count = 0;
            while let Some(point) = strategy.ask() {
                count += 1;
                let cost = costs[point.index()];
                if cost == Some(1.0) {
                    break;
                }
                strategy.tell(point, cost);
            }
            count
        })
        .collect();
    needed.sort_unstable();
    needed[needed.len() / 2]
}

#[test]
fn learning_strategies_need_fewer_evaluations() {
    let (space, costs) = bowl();
    let random = evaluations(&costs, |seed| {
        Box::new(Random(Unasked::all(&space), Dice::new(seed)))
    });
    let elite = evaluations(&costs, |seed| Box::new(Elite::new(space.clone(), seed)));
    let guided = evaluations(&costs, |seed| Box::new(Guided::new(space.clone(), seed)));
    assert!(elite * 4 < random, "elite {elite}, random {random}");
    assert!(guided < elite, "guided {guided}, elite {elite}");
}

/// Without the structure there is nothing to learn, and the test above would see that.
#[test]
fn nothing_is_learned_from_noise() {
    let (space, mut costs) = bowl();
    Dice::new(5).shuffle(&mut costs);
    let elite = evaluations(&costs, |seed| Box::new(Elite::new(space.clone(), seed)));
    assert!(elite > 400, "elite {elite}");
}

/// These are the first questions of each strategy. A change here changes every recorded search.
#[test]
fn questions_stay_the_same() {
    let (space, costs) = bowl();
    let starts: [(&str, Box<dyn Strategy>); 2] = [
        ("elite", Box::new(Elite::new(space.clone(), 1))),
        ("guided", Box::new(Guided::new(space.clone(), 1))),
    ];
    let lines: Vec<String> = starts
        .into_iter()
        .map(|(name, mut strategy)| {
            let asked = (0..18).map(|_| {
                let point = strategy.ask().unwrap();
                strategy.tell(point, costs[point.index()]);
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
    for mut strategy in strategies(&space, 1) {
        assert_eq!(strategy.ask(), None);
    }
}
