//! Execution: registers and arithmetic of a warp, its memory accesses, its schedule.

mod address;
pub mod alu;
mod async_copy;
mod atomics;
mod barrier;
pub mod cmp_ops;
pub mod convert_ops;
pub mod cost;
mod exchange;
pub mod float_ops;
pub mod frames;
pub mod half_ops;
pub mod int_ops;
pub mod mbarrier;
mod mem;
pub mod mma;
mod mma_exact;
mod mma_run;
mod observe;
pub mod packed_ops;
pub mod pattern;
mod print;
pub mod regs;
pub mod state;
mod steady;
pub mod warp;
mod watch;
