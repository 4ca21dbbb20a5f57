//! Takes a change apart: which of its pieces can be made without the others, and what each costs. It knows pieces by
//! their numbers, and asks a laboratory to build and compare sets of them, so a test can plant the answers.
//!
//! Pieces that do not build without each other, or give a wrong result, are joined. Most need one other piece, so each
//! is tried first. If more are needed, they are found by delta debugging (Zeller and Hildebrandt, "Simplifying and
//! Isolating Failure-Inducing Input", 2002): the set of all pieces works, and stretches of it are left out, all of it
//! first and single pieces last, as long as it still works. No single piece can be left out of what remains, but a part
//! may be larger than it has to be, if two pieces that need each other would have to be left out together.
//!
//! Each part is then measured in two surroundings, because one hides what the other shows: added to the base, where
//! nothing else was changed, and taken from head, where all else was. If the two differ, the part interacts with
//! another one, and those parts are tried in pairs.

use model::Metric;
use std::collections::{BTreeMap, BTreeSet};
use system::error::Result;

/// A set of pieces, by their numbers, that are made in the base.
pub type PieceSet = BTreeSet<usize>;

/// The change of one metric from one set to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MetricChange {
    /// The value of the first set.
    pub from: f64,
    pub change: f64,
    /// The standard error of the change.
    pub error: f64,
}

pub type MetricChanges = BTreeMap<Metric, MetricChange>;

/// The answer of a laboratory to one set: why it cannot be measured, if it cannot.
pub type Tried = std::result::Result<(), String>;

/// Something that builds sets of pieces and measures them.
pub trait Laboratory {
    /// Builds and checks each of these sets. Returns why a set cannot be measured: it does not build, or it is wrong.
    ///
    /// # Errors
    /// Environment, if the machine failed.
    fn try_sets(&mut self, sets: &[PieceSet]) -> Result<Vec<Tried>>;

    /// Returns what changes from the first to the second set of each pair. All these sets were tried, and can be
    /// measured.
    ///
    /// # Errors
    /// Environment, if the machine failed.
    fn compare(&mut self, pairs: &[(PieceSet, PieceSet)]) -> Result<Vec<MetricChanges>>;
}

/// A change that was taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenApart {
    /// The change of each metric from base to head.
    pub whole: MetricChanges,
    pub parts: Vec<PartChanges>,
    /// Pairs of parts, by their index, and what both together add to the base.
    pub pairs: Vec<([usize; 2], MetricChanges)>,
}

/// The changes that one part makes.
#[derive(Clone, Debug, PartialEq)]
pub struct PartChanges {
    pub pieces: PieceSet,
    pub added_to_base: MetricChanges,
    pub taken_from_head: MetricChanges,
}

/// The most parts that are tried in pairs, those with the largest differences between their surroundings.
const MOST_IN_PAIRS: usize = 4;

/// A difference between the two surroundings of a part counts from this many standard errors on.
const ERRORS: f64 = 3.0;

/// A difference between the two surroundings of a part counts from this share of the whole change on.
const LEAST_SHARE: f64 = 0.05;

/// Takes a change of `count` pieces apart. Base and head were tried, and can be measured. `choose` names the metric by
/// which parts are tried in pairs.
///
/// # Errors
/// Returns the errors of the laboratory.
pub fn take_apart(
    count: usize,
    choose: impl Fn(&MetricChanges) -> Option<Metric>,
    laboratory: &mut dyn Laboratory,
) -> Result<TakenApart> {
    let head: PieceSet = (0..count).collect();
    let groups = join_what_needs_each_other(&head, laboratory)?;
    let mut steps = vec![(PieceSet::new(), head.clone())];
    for group in &groups {
        steps.push((PieceSet::new(), group.clone()));
        steps.push((&head - group, head.clone()));
    }
    let mut changes = laboratory.compare(&steps)?.into_iter();
    let whole = changes.next().unwrap_or_default();
    let parts: Vec<PartChanges> = groups
        .into_iter()
        .map(|pieces| PartChanges {
            pieces,
            added_to_base: changes.next().unwrap_or_default(),
            taken_from_head: changes.next().unwrap_or_default(),
        })
        .collect();
    let pairs = match choose(&whole) {
        Some(metric) => try_pairs(metric, &whole, &parts, laboratory)?,
        None => Vec::new(),
    };
    Ok(TakenApart {
        whole,
        parts,
        pairs,
    })
}

/// Divides the pieces into groups that can each be added to the base, and taken from head.
fn join_what_needs_each_other(
    head: &PieceSet,
    laboratory: &mut dyn Laboratory,
) -> Result<Vec<PieceSet>> {
    let mut groups: Vec<PieceSet> = head.iter().map(|piece| PieceSet::from([*piece])).collect();
    // The whole change and none of it work, so a single group needs no test.
    while groups.len() > 1 {
        let sets: Vec<PieceSet> = groups
            .iter()
            .flat_map(|group| [group.clone(), head - group])
            .collect();
        let tried = laboratory.try_sets(&sets)?;
        let Some(at) = tried.iter().position(Tried::is_err) else {
            return Ok(groups);
        };
        let is_added = at % 2 == 0;
        let group = groups.swap_remove(at / 2);
        let with = |others: &[PieceSet]| {
            let joined = others.iter().fold(group.clone(), |all, other| &all | other);
            if is_added { joined } else { head - &joined }
        };
        let partners: Vec<PieceSet> = groups
            .iter()
            .map(|other| with(std::slice::from_ref(other)))
            .collect();
        let tried = laboratory.try_sets(&partners)?;
        let partner = tried.iter().position(Tried::is_ok);
        let others = match partner.and_then(|at| groups.get(at)) {
            Some(partner) => vec![partner.clone()],
            None => smallest(groups.clone(), |others| {
                let tried = laboratory.try_sets(&[with(others)])?;
                Ok(tried.iter().all(Tried::is_ok))
            })?,
        };
        groups.retain(|group| !others.contains(group));
        groups.push(others.iter().fold(group, |all, other| &all | other));
        groups.sort();
    }
    Ok(groups)
}

/// Returns a smallest part of `items` that still works. All of them together do. It leaves out stretches that get shorter,
/// until no single item can be left out.
fn smallest<T: Clone>(
    mut items: Vec<T>,
    mut works: impl FnMut(&[T]) -> Result<bool>,
) -> Result<Vec<T>> {
    let mut length = items.len();
    while length > 0 {
        let (mut at, mut is_shorter) = (0, false);
        while at < items.len() {
            let end = (at + length).min(items.len());
            let rest: Vec<T> = items
                .iter()
                .take(at)
                .chain(items.iter().skip(end))
                .cloned()
                .collect();
            if works(&rest)? {
                items = rest;
                is_shorter = true;
            } else {
                at = end;
            }
        }
        // After the last single item is left out, another one may be needed no longer.
        if length > 1 || !is_shorter {
            length /= 2;
        }
    }
    Ok(items)
}

/// Adds pairs of those parts to the base whose effect depends on the surroundings.
fn try_pairs(
    metric: Metric,
    whole: &MetricChanges,
    parts: &[PartChanges],
    laboratory: &mut dyn Laboratory,
) -> Result<Vec<([usize; 2], MetricChanges)>> {
    let least = LEAST_SHARE * whole.get(&metric).map_or(0.0, |whole| whole.change.abs());
    let mut dependent: Vec<(usize, f64)> = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| {
            let added = part.added_to_base.get(&metric)?;
            let taken = part.taken_from_head.get(&metric)?;
            let difference = (added.change - taken.change).abs();
            let error = ERRORS * added.error.hypot(taken.error);
            (difference > error && difference > least).then_some((at, difference))
        })
        .collect();
    dependent.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    dependent.truncate(MOST_IN_PAIRS);
    dependent.sort_by_key(|(at, _)| *at);
    let pairs: Vec<([usize; 2], PieceSet)> = dependent
        .iter()
        .enumerate()
        .flat_map(|(rank, (first, _))| {
            dependent
                .iter()
                .skip(rank + 1)
                .map(move |(second, _)| [*first, *second])
        })
        .filter_map(|pair| {
            let [first, second] = pair.map(|at| parts.get(at));
            Some((pair, &first?.pieces | &second?.pieces))
        })
        .collect();
    let sets: Vec<PieceSet> = pairs.iter().map(|(_, set)| set.clone()).collect();
    let tried = laboratory.try_sets(&sets)?;
    let (pairs, steps): (Vec<_>, Vec<_>) = pairs
        .into_iter()
        .zip(tried)
        .filter(|(_, tried)| tried.is_ok())
        .map(|((pair, set), _)| (pair, (PieceSet::new(), set)))
        .unzip();
    Ok(pairs.into_iter().zip(laboratory.compare(&steps)?).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A laboratory whose answers follow from planted costs.
    struct Planted {
        costs: Vec<f64>,
        /// Two pieces, and what they cost together beyond their own costs.
        extra: Vec<([usize; 2], f64)>,
        /// Sets of pieces that do not build without each other.
        needs: Vec<PieceSet>,
        tried: usize,
    }

    impl Planted {
        fn cost(&self, set: &PieceSet) -> f64 {
            let own: f64 = set.iter().map(|piece| self.costs[*piece]).sum();
            let extra: f64 = self
                .extra
                .iter()
                .filter(|(pair, _)| pair.iter().all(|piece| set.contains(piece)))
                .map(|(_, cost)| cost)
                .sum();
            100.0 + own + extra
        }
    }

    impl Laboratory for Planted {
        fn try_sets(&mut self, sets: &[PieceSet]) -> Result<Vec<Tried>> {
            self.tried += sets.len();
            let works = |set: &PieceSet| {
                let broken = self
                    .needs
                    .iter()
                    .any(|needed| !needed.is_disjoint(set) && !needed.is_subset(set));
                if broken {
                    Err("it does not build".to_owned())
                } else {
                    Ok(())
                }
            };
            Ok(sets.iter().map(works).collect())
        }

        fn compare(&mut self, pairs: &[(PieceSet, PieceSet)]) -> Result<Vec<MetricChanges>> {
            let compare = |(from, to): &(PieceSet, PieceSet)| {
                let (from, to) = (self.cost(from), self.cost(to));
                let change = MetricChange {
                    from,
                    change: to - from,
                    error: 0.0,
                };
                MetricChanges::from([(Metric::P50, change)])
            };
            Ok(pairs.iter().map(compare).collect())
        }
    }

    fn planted(costs: &[f64]) -> Planted {
        Planted {
            costs: costs.to_vec(),
            extra: Vec::new(),
            needs: Vec::new(),
            tried: 0,
        }
    }

    fn take(planted: &mut Planted) -> TakenApart {
        take_apart(planted.costs.len(), |_| Some(Metric::P50), planted).unwrap()
    }

    fn changes(part: &PartChanges) -> [f64; 2] {
        [&part.added_to_base, &part.taken_from_head].map(|changes| changes[&Metric::P50].change)
    }

    #[test]
    fn each_piece_gets_its_own_cost() {
        let apart = take(&mut planted(&[5.0, 0.0, -2.0]));
        let found: Vec<_> = apart.parts.iter().map(changes).collect();
        assert_eq!(found, [[5.0, 5.0], [0.0, 0.0], [-2.0, -2.0]]);
        assert_eq!(apart.whole[&Metric::P50].change, 3.0);
        assert_eq!(apart.pairs, []);
    }

    #[test]
    fn joins_pieces_that_need_each_other() {
        let mut planted = planted(&[1.0, 2.0, 4.0, 8.0, 16.0]);
        planted.needs = vec![PieceSet::from([0, 3]), PieceSet::from([1, 4])];
        let apart = take(&mut planted);
        let groups: Vec<Vec<usize>> = apart
            .parts
            .iter()
            .map(|part| part.pieces.iter().copied().collect())
            .collect();
        assert_eq!(groups, [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!(changes(&apart.parts[0]), [9.0, 9.0]);
    }

    #[test]
    fn finds_the_pair_that_interacts() {
        let mut planted = planted(&[1.0, 2.0, 4.0]);
        planted.extra = vec![([0, 2], 10.0)];
        let apart = take(&mut planted);
        let found: Vec<_> = apart.parts.iter().map(changes).collect();
        assert_eq!(found, [[1.0, 11.0], [2.0, 2.0], [4.0, 14.0]]);
        let [(pair, together)] = &apart.pairs[..] else {
            panic!("{:?}", apart.pairs);
        };
        assert_eq!((*pair, together[&Metric::P50].change), ([0, 2], 15.0));
    }

    proptest! {
        /// Whatever pieces need each other, each piece is in one part, with all that it needs, and the parts add up.
        #[test]
        fn parts_are_whole_and_add_up(
            costs in prop::collection::vec(-50i32..50, 1..12),
            groups in prop::collection::vec(0usize..8, 12),
        ) {
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let mut by_group: BTreeMap<usize, PieceSet> = BTreeMap::new();
            for (piece, group) in groups.into_iter().enumerate().take(costs.len()) {
                by_group.entry(group).or_default().insert(piece);
            }
            let needs: Vec<PieceSet> = by_group.into_values().collect();
            let mut planted = planted(&costs);
            planted.needs.clone_from(&needs);
            let apart = take(&mut planted);
            let found: BTreeSet<PieceSet> = apart.parts.iter().map(|part| part.pieces.clone()).collect();
            let pieces: Vec<usize> = found.iter().flatten().copied().collect();
            prop_assert_eq!(pieces.len(), costs.len());
            for needed in &needs {
                prop_assert!(found.iter().any(|part| needed.is_subset(part)), "{:?}", found);
            }
            if needs.iter().all(|needed| needed.len() <= 2) {
                prop_assert_eq!(found, needs.into_iter().collect::<BTreeSet<_>>());
            }
            let sum: f64 = apart.parts.iter().map(|part| changes(part)[0]).sum();
            prop_assert!((sum - apart.whole[&Metric::P50].change).abs() < 1e-9);
        }

        #[test]
        fn no_item_of_the_smallest_set_can_be_left_out(needed in prop::collection::btree_set(0usize..20, 0..20)) {
            let works = |items: &[usize]| Ok(needed.iter().all(|item| items.contains(item)));
            let found = smallest((0..20).collect(), works).unwrap();
            prop_assert_eq!(found, needed.into_iter().collect::<Vec<_>>());
        }
    }
}
