//! Puts causes that follow from another cause under that cause, so that a list names what was done first.

use super::counts::blocks;
use super::{Cause, CauseClass as Class, CodeComparison, Sides};
use model::Launch;

/// The factor from which on a launch divides the work in another way, so that a thread does another part of it.
const NOTABLE: f64 = 1.5;

/// A change of the launch, and what decides which other causes it brings about.
pub struct LaunchChange {
    is_of_one_size: bool,
    /// True if no line with code was edited.
    is_unedited: bool,
    divides_otherwise: bool,
}

impl LaunchChange {
    /// Returns the change of the launch, if it is one of the causes.
    pub fn find(causes: &[Cause], sides: &Sides, code: &CodeComparison) -> Option<Self> {
        let mut classes = causes.iter().map(|cause| cause.class);
        classes.any(|class| class == Class::Launch).then(|| Self {
            is_of_one_size: sides.are_of_one_size(),
            is_unedited: code.is_unedited(),
            divides_otherwise: divide_otherwise(sides),
        })
    }

    /// Returns true for a cause that the change brings about.
    ///
    /// If no line with code was edited, that is everything that got worse. Otherwise it is what follows from another
    /// number of threads or blocks by itself: what a thread does once, or in each turn, is done more often in all. A
    /// barrier is only passed more often for that reason if the code has no more barriers than before. An edit may be a
    /// reason, too, and remains in sight as the place of the consequence.
    fn brings_about(&self, cause: &Cause) -> bool {
        match cause.class {
            Class::Data | Class::Launch | Class::Compiler | Class::Driver | Class::Clocks => false,
            Class::TailWave => true,
            _ if self.is_unedited => self.is_of_one_size,
            Class::BarrierAdded => {
                let has_more = cause.values.iter().any(|value| value.head.0 > value.base.0);
                !has_more && self.is_of_one_size && self.divides_otherwise
            }
            Class::UnrollLost | Class::MoreTraffic | Class::MoreInstructions => {
                self.is_of_one_size && self.divides_otherwise
            }
            _ => false,
        }
    }
}

/// Returns true if blocks are of another size, or if there are more or fewer of them, by a notable factor.
fn divide_otherwise(sides: &Sides) -> bool {
    let is_other = |was: u64, is: u64| {
        let ratio = is as f64 / was as f64;
        ratio >= NOTABLE || ratio <= 1.0 / NOTABLE
    };
    let differ = |was: &Launch, is: &Launch| {
        is_other(blocks(was), blocks(is))
            || is_other(was.threads_per_block(), is.threads_per_block())
    };
    let [base, head] = [&sides.base, &sides.head].map(|side| side.case.steps.iter());
    base.zip(head).any(|(base, head)| {
        let launches = base.launch.as_ref().zip(head.launch.as_ref());
        launches.is_some_and(|(was, is)| differ(was, is))
    })
}

/// Returns the causes that follow from no other one, the gravest first, each with those that it brings about. A cause
/// weighs at least as much as the gravest of these.
pub fn fold(mut causes: Vec<Cause>, launch: Option<&LaunchChange>) -> Vec<Cause> {
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let origin = |cause: &Cause| {
        let origins = if launch.is_some_and(|change| change.brings_about(cause)) {
            &[Class::Launch]
        } else {
            cause.class.origins()
        };
        let is_origin = |other: &Cause| origins.contains(&other.class);
        let is_there = |other: &Cause| {
            other
                .places
                .iter()
                .any(|place| cause.places.contains(place))
        };
        causes
            .iter()
            .position(|other| is_origin(other) && is_there(other))
            .or_else(|| causes.iter().position(is_origin))
    };
    let origins: Vec<Option<usize>> = causes.iter().map(origin).collect();
    // No class is among its own origins, or among theirs, so this ends.
    let root = |at| {
        let up = |at: &usize| origins.get(*at).copied().flatten();
        std::iter::successors(Some(at), up).last().unwrap_or(at)
    };
    let mut roots: Vec<(usize, Cause)> = Vec::new();
    let mut effects: Vec<(usize, Cause)> = Vec::new();
    for (at, cause) in causes.into_iter().enumerate() {
        let root = root(at);
        if root == at { &mut roots } else { &mut effects }.push((root, cause));
    }
    for (root, effect) in effects {
        if let Some((_, cause)) = roots.iter_mut().find(|(at, _)| *at == root) {
            cause.weight = cause.weight.max(effect.weight);
            cause.consequences.push(effect);
        }
    }
    let mut causes: Vec<Cause> = roots.into_iter().map(|(_, cause)| cause).collect();
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    causes
}
