//! Loaded into a program by `gatekeeper capture` (LD_PRELOAD). Stands between the program and the CUDA driver: every
//! allocation lies in a range of addresses that a later process can have again, and chosen launches are written down
//! with the memory that they can reach.
//!
//! The program must not notice: whatever is not followed goes to the driver as it came, and whatever cannot be captured
//! is left out by name.

// The driver's own functions have up to eleven.
#![allow(clippy::too_many_arguments)]

mod call;
mod driver;
mod exports;
mod graph_launch;
mod graphs;
mod image;
mod launch;
mod launches;
// On other processors only programs that link the driver are seen.
#[cfg(target_arch = "x86_64")]
mod lookup;
mod mappings;
mod maps;
mod memory;
mod quiet;
mod random;
mod ranges;
mod regions;
mod settled;
mod state;
mod symbols;
