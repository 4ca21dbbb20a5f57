//! The race detector for shared and global memory. It observes accesses, and never changes what a kernel computes.

pub mod cells;
pub mod global;
pub mod order;
pub mod page;
pub mod race;
