//! One rule for each class of cause: what of two sides says that it is one. Rules are independent of each other; which
//! of several is named first is said by their weights, in cycles, for which this file has the scale.

use super::{Cause, CodeComparison, Sides};

#[cfg(test)]
mod tests;

pub enum Rule {
    /// The rule looks at what was compiled.
    Code(fn(&CodeComparison) -> Vec<Cause>),
    /// Sees the case, its environment or what was measured, too.
    Run(fn(&Sides, &CodeComparison) -> Vec<Cause>),
}

macro_rules! rules {
    ($($sees:ident $rule:ident { $($class:tt)* })* _ { $($none:tt)* }) => {
        $(mod $rule;)*
        pub const RULES: &[Rule] = &[$(Rule::$sees($rule::rule)),*];
    };
}

crate::cause::causes!(rules);
