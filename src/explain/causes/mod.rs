//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

mod barrier;
mod instructions;
mod spills;

use super::{Beside, Cause, Sides};

pub type Rule = fn(&Sides, &Beside) -> Vec<Cause>;

pub const RULES: &[Rule] = &[barrier::rule, spills::rule, instructions::rule];
