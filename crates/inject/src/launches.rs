//! How often the program launches each kernel in each region. It is written down when the program ends: a time of the launches
//! that were captured stands for all of them only where it is known how many there are.

use crate::driver::Handle;
use crate::regions::list_open;
use crate::settled::Counter;
use crate::state::{State, end};
use capture::Launched;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// By symbol, each as often as one launch launches it, and by region.
type Key = (Vec<String>, Option<String>);

pub struct Launches(BTreeMap<Key, &'static AtomicU64>);

unsafe extern "C" {
    fn atexit(end: extern "C" fn()) -> c_int;
}

extern "C" fn at_exit() {
    end();
}

impl Launches {
    pub fn start() -> Self {
        // SAFETY: the function lives as long as the program. Without a place for it nothing is written, which is known.
        unsafe { atexit(at_exit) };
        Self(BTreeMap::new())
    }

    pub fn list(&self) -> Vec<Launched> {
        let mut all: BTreeMap<(&String, &Option<String>), u64> = BTreeMap::new();
        for ((symbols, region), counter) in &self.0 {
            for symbol in symbols {
                *all.entry((symbol, region)).or_default() += counter.load(Ordering::Relaxed);
            }
        }
        let all = all
            .into_iter()
            .map(|((kernel, region), launches)| Launched {
                kernel: kernel.clone(),
                region: region.clone(),
                launches,
            });
        all.collect()
    }
}

impl State {
    /// For launches of these kernels, each as often as it is given; `None` where none of them is asked for here.
    pub fn counter_of(&mut self, kernels: &[Handle]) -> Counter {
        let known = kernels.iter().filter_map(|it| self.kernels.get(&it.addr()));
        let selected = known.filter(|it| it.is_selected);
        let symbols: Vec<String> = selected.map(|it| it.symbol.clone()).collect();
        let open = list_open();
        if symbols.is_empty() || !self.request.selects_in(&open) {
            return None;
        }
        let region = (!open.is_empty()).then(|| open.join("/"));
        let counter = self.launches.0.entry((symbols, region));
        // A thread that has settled a handle may count at any time.
        Some(counter.or_insert_with(|| Box::leak(Box::default())))
    }
}
