//! A library that `gatekeeper capture` loads into a program (LD_PRELOAD), and that stands between the program and the
//! CUDA driver.
//!
//! It replaces the driver's allocations by its own, at addresses that a later process can have again, because memory
//! may contain pointers. Before a chosen launch it reads the memory that the launch can reach, then it lets the driver
//! run the launch, and then it reads that memory again and writes both down. It finds the memory through the parameters
//! and the variables of the module: each word in them that lies in an allocation is taken for a pointer, and so is each
//! such word in the memory that it leads to.
//!
//! The program must not notice. A call that is not followed goes to the driver as it came, and a launch that cannot be
//! captured is left out, with its name and the reason.

// Some of the driver's own functions have eleven arguments.
#![allow(clippy::too_many_arguments)]

mod call;
mod driver;
mod exports;
mod graph_launch;
mod graphs;
mod image;
mod launch;
mod launches;
// On other processors, only programs that link the driver can be captured.
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
