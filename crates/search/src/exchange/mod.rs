//! Recordings in the formats of other tuners: text to types and back. Files are the caller's.
//!
//! `kernel_tuner` is the cache of Kernel Tuner 1.x. `t4` is the results format of the auto-tuning community
//! (TuningSchema, T4 1.0.0), which the benchmark hub keeps beside those caches.

mod kernel_tuner;
mod pairs;
mod t4;
#[cfg(test)]
mod tests;

pub use kernel_tuner::{read_cache, write_cache};
pub use t4::write_t4;

use crate::space::{Parameter, Space, Unusable};
use crate::strategy::Outcome;
use crate::value::Value;
use thiserror::Error;

/// Configurations and what came of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Empty where the format does not say it, as the next two.
    pub device: String,
    pub kernel: String,
    pub problem_size: Vec<u64>,
    /// The name of what was minimised.
    pub objective: String,
    pub parameters: Vec<Parameter>,
    /// In the order in which they were tried.
    pub evaluations: Vec<Evaluation>,
}

/// One configuration that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// In the order of the parameters.
    pub values: Vec<Value>,
    pub result: Result<f64, Failure>,
    /// Each launch, in milliseconds.
    pub runtimes: Vec<f64>,
    /// The time that the evaluation took, in milliseconds.
    pub spent: Spent,
    /// As it was written.
    pub timestamp: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub compile: Option<f64>,
    pub verification: Option<f64>,
    /// T4 has no place for it.
    pub benchmark: Option<f64>,
    pub strategy: Option<f64>,
    pub framework: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Excluded by a constraint, and not tried.
    Constraints,
    Compile,
    Runtime,
    Correctness,
    Timeout,
}

#[derive(Debug, Error)]
pub enum Unreadable {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("configuration {at}: {key} is missing")]
    Missing { at: String, key: String },
    #[error("configuration {at}: {key} is not {wanted}")]
    Wrong {
        at: String,
        key: String,
        wanted: &'static str,
    },
    #[error("configuration {at}: the error {word} is not known")]
    Error { at: String, word: String },
    #[error("parameter {0} has no list of values")]
    Values(String),
    #[error("its schema is {found}, and {wanted} is expected")]
    Schema { found: String, wanted: &'static str },
}

impl Evaluation {
    pub fn outcome(&self) -> Outcome {
        self.result.map_or(Outcome::Failed, Outcome::Cost)
    }
}

impl Recording {
    /// The space of what was tried, and the outcome of each of its points.
    ///
    /// # Errors
    /// A configuration is there twice, or does not fit the parameters.
    pub fn space(&self) -> Result<(Space, Vec<Outcome>), Unusable> {
        let tried: Vec<&Evaluation> = self
            .evaluations
            .iter()
            .filter(|it| it.result != Err(Failure::Constraints))
            .collect();
        let space = Space::listed(
            self.parameters.clone(),
            tried.iter().map(|it| it.values.clone()),
        )?;
        Ok((space, tried.into_iter().map(Evaluation::outcome).collect()))
    }
}
