//! Floor 5: what people said about the gates themselves: what was accepted, what is there to fail, and what is
//! looser than at the base.

pub(super) mod accepted;
pub(super) mod edited;
pub(super) mod expected;
pub(super) mod loosened;
pub(super) mod lost;
pub(super) mod measured;
pub(super) mod references;
