//! Launches from PTX to report, through the public interface. One program, because each links all of the simulator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

mod blackwell;
mod bulk_reduce;
mod cases;
mod checks;
mod functions;
mod golden;
mod hopper;
mod idioms;
mod im2col;
mod inlined;
mod kernels;
mod language;
mod matrix;
mod observers;
mod robust;
mod sparse;
mod system;
mod textures;
mod threads;
mod wmma;
