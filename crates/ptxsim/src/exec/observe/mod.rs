//! The observers of memory accesses. Each check is one file.
//!
//! `access` asks them, in the order of `Machine::observe_shared` and `Machine::observe_global`, about accesses that lie
//! within their memory (`bounds`). For lanes that lie as before (`access::pattern`) a check has a quick form next to
//! the full one. The quick form looks at whole stretches. If it cannot tell that nothing is wrong, it says no, and the
//! full form looks at the lanes one by one. An observer can be switched off for one kind of access (`switch`), so that
//! the tests show that each kind is observed.

pub mod bounds;
pub mod cluster_races;
pub mod copies;
pub mod cost;
pub mod global_races;
pub mod initialisation;
pub mod layouts;
pub mod shared_races;
