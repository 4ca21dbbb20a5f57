//! Plain data: plan, evidence, policy, record and verdicts. No behaviour beyond parsing and display.

mod arch;
mod arithmetic;
mod baseline;
mod code;
mod counter;
mod evidence;
mod filter;
mod id;
mod metric;
mod number;
mod plan;
mod policy;
mod profile;
mod reason;
mod record;
mod rival;
mod seen;
mod verdict;

pub use arch::*;
pub use arithmetic::*;
pub use baseline::*;
pub use code::*;
pub use counter::*;
pub use evidence::*;
pub use filter::*;
pub use id::*;
pub use metric::*;
pub use number::*;
pub use plan::*;
pub use policy::*;
pub use profile::*;
pub use reason::*;
pub use record::*;
pub use rival::*;
pub use seen::*;
pub use verdict::*;
