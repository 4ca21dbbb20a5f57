//! The rules, one for each class of cause. A rule decides from the two sides whether its cause is present. Rules are
//! independent of each other. Their weights, in cycles of a warp, decide which of several causes is named first.

use super::{Cause, CodeComparison, Sides};

#[cfg(test)]
mod tests;

pub enum Rule {
    /// The rule looks at what was compiled.
    Code(fn(&CodeComparison) -> Vec<Cause>),
    /// The rule also looks at the case, its environment or what was measured.
    Run(fn(&Sides, &CodeComparison) -> Vec<Cause>),
}

macro_rules! rules {
    ($($sees:ident $rule:ident { $($class:tt)* })* _ { $($none:tt)* }) => {
        $(mod $rule;)*
        pub const RULES: &[Rule] = &[$(Rule::$sees($rule::rule)),*];
    };
}

crate::cause::causes!(rules);
