//! Floor 5: what people changed about the gates themselves: what was accepted, and what is looser than at
//! the base.

pub(super) mod accepted;
pub(super) mod edited;
pub(super) mod loosened;
pub(super) mod lost;
pub(super) mod measured;
pub(super) mod references;
