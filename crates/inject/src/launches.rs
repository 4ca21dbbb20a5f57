//! Counts how often the program launches each kernel in each region. The counts are written when the program ends. A
//! time of the captured launches can only represent all launches if it is known how many there are.

use crate::settled::Counter;
use capture::Launched;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The symbols that one launch launches, each as often as it does, and the region.
type Key = (Vec<String>, Option<String>);

#[derive(Default)]
pub struct Launches(BTreeMap<Key, &'static AtomicU64>);

impl Launches {
    /// Returns the counter of launches of these kernels in this region.
    pub fn counter(&mut self, symbols: Vec<String>, region: Option<String>) -> Counter {
        let counter = self.0.entry((symbols, region));
        // A thread that has settled a handle may count at any time.
        Some(counter.or_insert_with(|| Box::leak(Box::default())))
    }

    pub fn list(&self) -> Vec<Launched> {
        let mut all: BTreeMap<(&String, &Option<String>), u64> = BTreeMap::new();
        for ((symbols, region), counter) in &self.0 {
            for symbol in symbols {
                *all.entry((symbol, region)).or_default() += counter.load(Ordering::Relaxed);
            }
        }
        all.into_iter()
            .map(|((kernel, region), launches)| Launched {
                kernel: kernel.clone(),
                region: region.clone(),
                launches,
            })
            .collect()
    }
}
