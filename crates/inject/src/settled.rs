//! Remembers handles for which nothing has to be done: kernels and graphs of which no launch is to be captured.
//!
//! A program launches in a few microseconds, and looking a kernel up under a lock takes one. So each thread has a small
//! table, which needs no lock. A handle counts as settled only in the generation in which it was decided. Everything
//! that can change the decision, such as a new region, raises the generation, and thereby empties the tables of all
//! threads at once.

use crate::driver::Handle;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The generation. Everything that can turn a settled handle into one to capture raises it: regions, recordings, new
/// kernels.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The number of places in a table, a power of two.
const PLACES: usize = 1024;

/// The counter of launches, or `None` if nobody wants to know how many there are.
pub type Counter = Option<&'static AtomicU64>;

thread_local! {
    /// The table of a thread. Each handle is at the place that its value gives, with the generation in which it was
    /// settled.
    static SETTLED: [Cell<(usize, u64, Counter)>; PLACES] =
        const { [const { Cell::new((0, 0, None)) }; PLACES] };
}

/// Returns the current generation. It must be read before the decision that settles a handle.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Makes all handles unsettled, in all threads.
pub fn unsettle() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Returns true if a launch only has to be counted, and counts it.
pub fn count_settled(handle: Handle) -> bool {
    let wanted = (handle.addr(), generation());
    let found = with_place(handle, |place| {
        let (settled, in_generation, counter) = place.get();
        ((settled, in_generation) == wanted).then_some(counter)
    });
    let Some(counter) = found.flatten() else {
        return false;
    };
    count(counter);
    true
}

/// Adds one to a counter, if there is one.
pub fn count(counter: Counter) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Settles a handle. `generation` was read before the decision, so a change in the meantime makes the decision void.
pub fn settle(handle: Handle, generation: u64, counter: Counter) {
    with_place(handle, |place| {
        place.set((handle.addr(), generation, counter));
    });
}

/// Uses the place of a handle. Returns `None` in a thread that is ending.
fn with_place<T>(
    handle: Handle,
    use_it: impl FnOnce(&Cell<(usize, u64, Counter)>) -> T,
) -> Option<T> {
    // Handles are pointers to structs of some hundred bytes.
    let place = (handle.addr() >> 4 ^ handle.addr() >> 14) % PLACES;
    let used = SETTLED.try_with(|places| places.get(place).map(use_it));
    used.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_settled_until_something_changes() {
        let handle = |number: usize| std::ptr::without_provenance_mut(number);
        let before = generation();
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        let counter = Some(&LAUNCHES);
        settle(handle(0x1000), before, counter);
        settle(handle(0x3000), before, None);
        assert!(count_settled(handle(0x1000)));
        assert!(count_settled(handle(0x3000)));
        assert!(!count_settled(handle(0x2000)));
        let other =
            std::thread::spawn(move || count_settled(std::ptr::without_provenance_mut(0x1000)));
        assert!(!other.join().unwrap());
        unsettle();
        assert!(!count_settled(handle(0x1000)));
        // Decided before the change.
        settle(handle(0x1000), before, counter);
        assert!(!count_settled(handle(0x1000)));
        assert_eq!(LAUNCHES.load(Ordering::Relaxed), 1);
    }
}
