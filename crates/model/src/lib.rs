//! Plain data: plan, evidence, policy, record and verdicts. No behaviour beyond parsing and display.

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

#[macro_use]
mod named;

mod arch;
mod arithmetic;
mod baseline;
mod code;
mod compiler;
mod counter;
mod event;
mod evidence;
pub mod expr;
mod filter;
mod id;
mod margin;
mod metric;
mod number;
pub mod occupancy;
mod plan;
mod policy;
mod problem;
mod profile;
mod range;
mod reason;
mod reason_code;
mod record;
mod rename;
mod rival;
mod seen;
pub mod sm;
mod tensor_map;
mod undecidable;
mod verdict;

pub use arch::*;
pub use arithmetic::*;
pub use baseline::*;
pub use code::*;
pub use compiler::*;
pub use counter::*;
pub use event::*;
pub use evidence::*;
pub use filter::*;
pub use id::*;
pub use margin::*;
pub use metric::*;
pub use number::*;
pub use plan::*;
pub use policy::*;
pub use problem::*;
pub use profile::*;
pub use range::*;
pub use reason::*;
pub use reason_code::*;
pub use record::*;
pub use rename::*;
pub use rival::*;
pub use seen::*;
pub use tensor_map::*;
pub use undecidable::*;
pub use verdict::*;
