//! Execution: registers and arithmetic of a warp, its memory accesses, its schedule.

pub mod access;
mod arising;
pub mod async_copy;
pub mod atomics;
pub mod barrier;
pub mod bulk;
pub mod cluster;
pub mod cmp_ops;
mod control;
pub mod convert_ops;
pub mod divergence;
mod exchange;
pub mod float_ops;
pub mod frames;
pub mod half_ops;
pub mod handing;
mod heap;
mod images;
pub mod int_ops;
pub mod mbarrier;
mod mma_exact;
pub mod mma_run;
mod mma_scaled;
#[cfg(target_arch = "x86_64")]
mod mma_singles;
pub mod mma_sparse;
mod mma_sums;
pub mod observe;
pub mod packed_ops;
pub mod print;
mod provenance;
pub mod registers;
mod remote;
mod sequence;
mod special;
pub mod state;
pub mod stream;
mod tensor;
pub mod tensormap;
#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
pub mod undefined;
pub mod warp;
pub mod warpgroup;
mod wgmma;
