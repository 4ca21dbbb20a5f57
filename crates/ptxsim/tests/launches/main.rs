//! Launches from PTX to report, through the public interface. One program, because each links all of the simulator.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod blackwell;
mod bulk;
mod bulk_reduce;
mod checks;
mod clusters;
mod counts;
mod doubts;
mod faults;
mod functions;
mod golden;
mod handover;
mod hopper;
mod hopper_idioms;
mod idioms;
mod im2col;
mod inlined;
mod kernels;
mod language;
mod language_ptx;
mod matrix;
mod mbarrier;
mod order;
mod provenance;
mod races;
mod registers;
mod robust;
mod sparse;
mod streams;
mod system;
mod tensor_maps;
mod textures;
mod threads;
mod wmma;
