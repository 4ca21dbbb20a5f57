//! Floor 5: what people said about the gates themselves: what was accepted, what is there to fail, what
//! stands in for what fails, and what is looser than at the base.

pub(super) mod accepted;
pub(super) mod edited;
pub(super) mod expected;
pub(super) mod fallback;
pub(super) mod loosened;
pub(super) mod lost;
pub(super) mod measured;
pub(super) mod references;
