//! Contains our own faults, which the program must not notice.

use crate::driver::CuResult;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` so that a panic of our own does not unwind into the program. After a panic the rest of `work` is left
/// undone.
pub fn quietly<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

/// Runs `run` exactly once, even if our own part fails. `work` may or may not have called it by then.
pub fn run_once(
    run: &dyn Fn() -> CuResult,
    work: impl FnOnce(&dyn Fn() -> CuResult) -> CuResult,
) -> CuResult {
    let ran = Cell::new(None);
    let once = || {
        let code = run();
        ran.set(Some(code));
        code
    };
    let done = quietly(|| Some(work(&once)));
    done.or(ran.get()).unwrap_or_else(run)
}
