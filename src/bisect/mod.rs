//! Finds the first commit, or the first version of the compiler, with which gates fail that hold before it.

pub mod search;
