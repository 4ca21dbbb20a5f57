//! What a worker keeps from one job for the next: inputs and expected outputs, as variants of a kernel
//! and seeds come back to the same ones.

use crate::cache::Cache;
use crate::check::images::{Images, Shelf};
use crate::check::{Outputs, Recent, Values, cache};
use crate::device::{Failure, Result};
use std::path::PathBuf;
use std::sync::Arc;
use verdict::model::{Case, FaultKind};

/// Of each of the two.
const MOST_BYTES: usize = 1 << 30;

pub struct Shelves {
    inputs: Shelf,
    outputs: Recent<PathBuf, Outputs>,
}

impl Shelves {
    /// With files in the cache that the host has opened too: where it cannot be, that is said there, and
    /// here inputs are just made again.
    pub fn open() -> Self {
        Self::new(Cache::open().and_then(|cache| cache.dir("inputs")).ok())
    }

    pub fn new(inputs: Option<PathBuf>) -> Self {
        Self {
            inputs: Shelf::new(inputs, MOST_BYTES),
            outputs: Recent::new(MOST_BYTES),
        }
    }

    pub fn inputs(&mut self, case: &Case, seed: u64) -> Result<Images> {
        self.inputs
            .images(case, seed)
            .map_err(|error| reference(format!("the inputs cannot be made: {error}")))
    }

    /// Expected outputs that the host wrote.
    pub fn expected(&mut self, path: &PathBuf) -> Result<Arc<Outputs>> {
        if let Some(outputs) = self.outputs.get(path) {
            return Ok(outputs);
        }
        let outputs = cache::read(path).map_err(|error| reference(error.to_string()))?;
        let bytes = outputs.values().map(Values::bytes).sum();
        Ok(self.outputs.put(path.to_owned(), outputs, bytes))
    }
}

fn reference(message: String) -> Failure {
    Failure::of_case(FaultKind::Reference, message)
}
