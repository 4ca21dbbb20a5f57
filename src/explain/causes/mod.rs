//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

mod atomics;
mod banks;
mod barrier;
mod changes;
mod divergence;
mod instructions;
mod l2;
mod occupancy;
mod spills;
#[cfg(test)]
mod tests;
mod traffic;
mod waves;

use super::{Beside, Cause, Sides};

pub type Rule = fn(&Sides, &Beside) -> Vec<Cause>;

pub const RULES: &[Rule] = &[
    barrier::rule,
    spills::rule,
    traffic::rule,
    banks::rule,
    divergence::rule,
    atomics::rule,
    occupancy::rule,
    waves::rule,
    l2::rule,
    changes::rule,
    instructions::rule,
];
