//! Finds the things that a change only renames, and translates the base to their new names.
//!
//! A run translates its base to head's names once, when the base is loaded. All later comparisons then work as if
//! nothing had been renamed, so a rename is no way around a comparison: a kernel under a new name must meet everything
//! that it would have to meet under its old name. Two things could still be lost, and are not:
//!
//! - something of the base that nothing of head corresponds to. So each thing of the base has at most one counterpart
//!   in head, and the other way round. A subject that could be either of two is neither, and counts as removed.
//! - what is looked up by name elsewhere. An anchor (`of v1.0`, `of best`) knows only the old name, so a kernel that is
//!   compared with an anchor cannot be renamed without a label.
//!
//! The module looks at plans and gates alone. It knows no evidence and no files.

mod carry;
mod find;

pub use carry::HeadNames;
pub use find::{PlanAndGates, find};
