//! Provides a real compiler for tests, by the code that installs one for users.

use super::{PROVIDED, Toolchain, install};
use std::sync::OnceLock;
use system::cache::Cache;

/// Returns the pinned toolchain in the default cache (`GATEKEEPER_CACHE` or the user's), installed if need be. Test
/// processes that start at once wait for the first one's install.
///
/// # Panics
/// Panics if there is none and it cannot be installed, because a test that needs nvcc must not pass without it.
pub fn toolchain() -> Toolchain {
    static FOUND: OnceLock<Toolchain> = OnceLock::new();
    FOUND.get_or_init(provisioned).clone()
}

#[allow(clippy::panic)]
fn provisioned() -> Toolchain {
    let found = Cache::open().and_then(|cache| install(PROVIDED, &cache, &|_| {}));
    match found {
        Ok(toolchain) => toolchain,
        Err(error) => panic!("tests need the pinned nvcc: {error}"),
    }
}
