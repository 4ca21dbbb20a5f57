//! Which names a change gives to what it leaves as it was, and the base under those names.
//!
//! A run carries its base to head's names once, where the base is loaded, so that every comparison that follows is
//! made as if nothing had been renamed. That makes a rename no way around a comparison: a kernel under a new name is
//! held to exactly what it would be held to under its old one. Two things could still be lost, and are not:
//!
//! - something of the base that nothing of head stands for. So each thing of the base has one of head at most, and
//!   each of head one of the base. A subject that could be either of two is neither, and stays removed.
//! - what is looked up by name elsewhere. An anchor (`of v1.0`, `of best`) knows the old name alone, so a kernel that
//!   is held against one cannot be renamed without a label.
//!
//! Pure, over plans and gates alone: it knows no evidence and no files.

mod carry;
mod find;

pub use carry::Names;
pub use find::{PlanAndGates, find};
