//! Decides which candidate a bisection tries next. Pure: it knows nothing of git, compilers, workers or judges.
//!
//! The candidates are in order, the state before the first one is good, and the last one is bad. The suspects are those
//! after the last good one, up to the first bad one. The next candidate is the middle one of the suspects without an
//! answer. Therefore each good or bad answer halves their number, and each candidate that gives no answer costs one try
//! and hands over to its neighbour. If the candidates switch more than once, the culprit is one of the switches.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The answer that one candidate gave, or was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Good,
    Bad,
    /// The candidate cannot be asked, for example because it does not build.
    Skipped,
    /// It was asked and does not decide.
    Undecided,
}

impl Answer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skipped => "skipped",
            Self::Undecided => "undecided",
        }
    }

    /// Returns true if the candidate is on one of the two sides.
    pub fn decides(self) -> bool {
        matches!(self, Self::Good | Self::Bad)
    }
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Try(usize),
    /// The first bad candidate, which follows directly on a good one.
    Culprit(usize),
    /// The culprit is one of these, and all of them but the last give no answer.
    Among(Range<usize>),
}

/// The answers so far, by candidate.
#[derive(Clone, Debug)]
pub struct Search {
    answers: Vec<Option<Answer>>,
}

impl Search {
    /// Starts a search among `count` candidates, of which the last is bad.
    pub fn new(count: usize) -> Self {
        let mut answers = vec![None; count];
        if let Some(last) = answers.last_mut() {
            *last = Some(Answer::Bad);
        }
        Self { answers }
    }

    /// Notes an answer. There is no candidate behind the last one, so an answer to it is dropped.
    pub fn answer(&mut self, candidate: usize, answer: Answer) {
        if candidate + 1 < self.answers.len()
            && let Some(known) = self.answers.get_mut(candidate)
        {
            *known = Some(answer);
        }
    }

    pub fn next(&self) -> Next {
        let suspects = self.suspects();
        let open = self.open();
        match open.get(open.len() / 2) {
            Some(middle) => Next::Try(*middle),
            None if suspects.len() == 1 => Next::Culprit(suspects.start),
            None => Next::Among(suspects),
        }
    }

    /// Returns how many more tries there are at most, if each of them decides.
    pub fn most_left(&self) -> u32 {
        self.open().len().checked_ilog2().map_or(0, |log| log + 1)
    }

    /// Returns the candidates after the last good one, up to the first bad one.
    fn suspects(&self) -> Range<usize> {
        let is = |wanted: Answer| move |answer: &Option<Answer>| *answer == Some(wanted);
        let end = self.answers.iter().position(is(Answer::Bad));
        let end = end.map_or(self.answers.len(), |bad| bad + 1);
        let before = self.answers.get(..end).unwrap_or_default();
        let start = before.iter().rposition(is(Answer::Good));
        start.map_or(0, |good| good + 1)..end
    }

    /// Returns the suspects without an answer.
    fn open(&self) -> Vec<usize> {
        self.suspects()
            .filter(|at| matches!(self.answers.get(*at), Some(None)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Searches to the end, and returns the suspects that remain and how many tries were decided and undecided.
    fn search(count: usize, ask: impl Fn(usize) -> Answer) -> (Range<usize>, [usize; 2]) {
        let mut search = Search::new(count);
        let mut tries = [0, 0];
        loop {
            match search.next() {
                Next::Try(at) => {
                    assert!(at < count - 1, "the last candidate is known");
                    let answer = ask(at);
                    tries[usize::from(!answer.decides())] += 1;
                    search.answer(at, answer);
                }
                Next::Culprit(at) => return (at..at + 1, tries),
                Next::Among(suspects) => return (suspects, tries),
            }
        }
    }

    fn side(at: usize, switch: usize) -> Answer {
        if at < switch {
            Answer::Good
        } else {
            Answer::Bad
        }
    }

    proptest! {
        #[test]
        fn finds_one_switch_around_any_candidates_without_an_answer(
            (count, switch) in (1_usize..200).prop_flat_map(|count| (Just(count), 0..count)),
            silent in prop::collection::btree_set(0_usize..200, 0..60),
        ) {
            let (suspects, [decided, undecided]) = search(count, |at| {
                if silent.contains(&at) { Answer::Skipped } else { side(at, switch) }
            });
            prop_assert!(suspects.contains(&switch));
            // All that remain but the last one gave no answer.
            prop_assert!(suspects.clone().rev().skip(1).all(|at| silent.contains(&at)));
            prop_assert!(decided <= count.ilog2() as usize + 1, "{decided} of {count}");
            prop_assert!(undecided <= silent.len());
        }

        #[test]
        fn finds_a_switch_where_there_are_several(bad in prop::collection::btree_set(0_usize..50, 0..50)) {
            let is_bad = |at: usize| at == 49 || bad.contains(&at);
            let (found, _) = search(50, |at| if is_bad(at) { Answer::Bad } else { Answer::Good });
            prop_assert_eq!(found.len(), 1);
            prop_assert!(is_bad(found.start) && (found.start == 0 || !is_bad(found.start - 1)));
        }
    }

    #[test]
    fn one_candidate_is_the_culprit_without_a_try() {
        assert_eq!(Search::new(1).next(), Next::Culprit(0));
    }

    #[test]
    fn asks_a_neighbour_of_a_candidate_without_an_answer() {
        let mut search = Search::new(8);
        let mut tried = BTreeSet::new();
        for _ in 0..3 {
            let Next::Try(at) = search.next() else {
                panic!("there are more to try");
            };
            tried.insert(at);
            search.answer(at, Answer::Skipped);
        }
        assert_eq!(tried, [2, 3, 4].into());
        assert_eq!(search.most_left(), 3);
    }

    #[test]
    fn names_all_suspects_if_none_in_between_answers() {
        let (suspects, tries) = search(6, |_| Answer::Undecided);
        assert_eq!((suspects, tries), (0..6, [0, 5]));
    }
}
