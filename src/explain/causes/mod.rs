//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

mod barrier;
mod copies;
mod division;
mod double;
mod instructions;
mod loads;
mod local;
mod narrowed;
mod predicated;
mod special;
mod spills;
mod staging;
mod unroll;

use super::{Beside, Cause, Sides};

pub type Rule = fn(&Sides, &Beside) -> Vec<Cause>;

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
    instructions::rule,
];
