//! Execution: registers and arithmetic of a warp, its memory accesses, its schedule.

mod address;
mod arising;
pub mod async_copy;
mod atomics;
mod barrier;
pub mod bulk;
pub mod cluster;
pub mod cmp_ops;
pub mod convert_ops;
pub mod cost;
mod exchange;
pub mod float_ops;
pub mod frames;
pub mod half_ops;
mod heap;
mod images;
pub mod int_ops;
pub mod layout;
pub mod mbarrier;
mod mem;
mod mma_exact;
pub mod mma_run;
mod mma_scaled;
#[cfg(target_arch = "x86_64")]
mod mma_singles;
pub mod mma_sparse;
mod mma_sums;
mod observe;
pub mod packed_ops;
pub mod pattern;
mod print;
mod provenance;
pub mod registers;
mod remote;
mod sequence;
pub mod state;
mod steady;
pub mod stream;
mod tensor;
pub mod tensormap;
#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
pub mod undefined;
mod visits;
pub mod warp;
pub mod warpgroup;
mod watch;
mod wgmma;
