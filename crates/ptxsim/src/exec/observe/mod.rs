//! The observers of memory accesses: each check is one file, and is written there once.
//!
//! `access` asks them, in the order of `Machine::observe_shared` and `Machine::observe_global`, about accesses that lie
//! within their memory (`bounds`). For lanes that lie as before (`access::pattern`) each has a quick form next to the full one:
//! it looks at whole stretches, may only err by saying no, and then the lanes are looked at one by one. An observer can be
//! switched off for one kind of access (`switch`), so that the tests show that each kind is observed.

pub mod bounds;
pub mod cluster_races;
pub mod copies;
pub mod cost;
pub mod global_races;
pub mod initialisation;
pub mod layouts;
pub mod shared_races;
