//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

mod atomics;
mod banks;
mod barrier;
mod changes;
mod copies;
mod divergence;
mod division;
mod double;
mod instructions;
mod l2;
mod loads;
mod local;
mod narrowed;
mod occupancy;
mod predicated;
mod special;
mod spills;
mod staging;
mod traffic;
mod unroll;
mod waves;

use super::{Cause, CodeComparison, Sides};

#[cfg(test)]
mod tests;

pub type Rule = fn(&Sides, &CodeComparison) -> Vec<Cause>;

pub const RULES: &[Rule] = &[
    barrier::rule,
    unroll::rule,
    narrowed::rule,
    local::rule,
    spills::rule,
    double::rule,
    division::rule,
    special::rule,
    loads::rule,
    copies::rule,
    predicated::rule,
    staging::rule,
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
