//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

use super::{Cause, CodeComparison, Sides};

#[cfg(test)]
mod tests;

pub type Rule = fn(&Sides, &CodeComparison) -> Vec<Cause>;

/// A file for each.
macro_rules! rules {
    ($($rule:ident,)*) => {
        $(mod $rule;)*
        pub const RULES: &[Rule] = &[$($rule::rule),*];
    };
}

rules! {
    barrier,
    unroll,
    narrowed,
    local,
    spills,
    double,
    division,
    special,
    loads,
    copies,
    predicated,
    staging,
    traffic,
    banks,
    divergence,
    atomics,
    occupancy,
    waves,
    l2,
    changes,
    instructions,
}
