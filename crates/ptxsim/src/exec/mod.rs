//! Execution.
pub mod alu;
pub mod cmp_ops;
pub mod exchange;
pub mod float_ops;
pub mod int_ops;
pub mod mem;
pub mod mma;
pub mod mma_run;
pub mod regs;
pub mod state;
pub mod warp;
