//! The observers of memory accesses. Each check is one file.
//!
//! `access` asks them, in the order of `Machine::observe_shared` and `Machine::observe_global`, about accesses that lie
//! within their memory (`bounds`). For lanes that lie as before (`access::pattern`) a check has a quick form next to the
//! full one. The quick form looks at whole stretches. If it cannot tell that nothing is wrong, it says no, and the full
//! form looks at the lanes one by one. An observer can be switched off for one kind of access (`switch`), so that the tests
//! show that each kind is observed.
//!
//! Observers are functions, and not types in a tuple with one trait for `before`, `after`, `synchronize` and `exit`. Most
//! cells of that table would be empty. All observers ask before an access, because a race or a missing value is lost once
//! the bytes have moved. Only `initialisation` acts behind it, too. Three have a question later: `copies` and
//! `cluster_races` when a block ends, `initialisation` when the launch ends. Barriers and fences change the clocks of a
//! block ([`crate::check::race::Shadow`]), which three observers read and none owns. They need different facts: a race in
//! global memory is about an allocation, one in a cluster about two blocks, and a layout about a descriptor. The order is no
//! list either, because a block's own atomic takes order over only behind the checks.
//!
//! No access can miss its observers. Memory hands out its bytes only for an [`Observed`](super::access::Observed), which
//! only the functions of `access` that ask all observers can make: an instruction that forgets to ask does not compile. If
//! `access` itself no longer asks one of them, the cases that `tests/observers.tsv` names for it are not as annotated, and
//! the tests fail.

pub mod bounds;
pub mod cluster_races;
pub mod copies;
pub mod cost;
pub mod global_races;
pub mod initialisation;
pub mod layouts;
pub mod shared_races;
