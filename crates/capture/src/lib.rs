//! Captured launches on disk. `inject` writes them inside the program under capture, the program `gatekeeper` reads them.
//! Knows neither CUDA nor gates.
//!
//! A capture is a directory:
//!
//! ```text
//! process-4711.jsonl     one for each process: a line for the process, then one for each launch
//! contents/<hash>.zst    memory and modules, in chunks, each stored once
//! ```
//!
//! A line is written when its launch is complete and its contents are on disk. A program that dies leaves whole launches.

pub mod addresses;
mod contents;
mod damage;
mod lines;
mod request;

pub use contents::{BadHash, CHUNK, Content, Contents, Hash};
pub use damage::Damage;
pub use lines::{
    Allocation, Capture, EncodedMap, LaunchRecord, Launched, LeftOut, Line, MemoryKind, Parameter,
    PlacedMap, Process, RandomInputs, Reason, Variable, Writer,
};
pub use request::{Request, VARIABLE};

/// The schema, which is in the first line of each file.
pub const SCHEMA: &str = "gatekeeper.capture/1";
