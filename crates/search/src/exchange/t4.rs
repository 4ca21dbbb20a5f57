//! T4 results, which are written alone. They name neither the device, the kernel nor the values that a parameter could
//! have had.

use super::pairs::Pairs;
use super::{Evaluation, Failure, Recording, Unreadable};
use crate::value::Value;
use serde::Serialize;
use serde_json::{Value as Json, json};

#[derive(Serialize)]
struct Results {
    metadata: Json,
    results: Vec<Tried>,
    schema_version: String,
}

#[derive(Serialize)]
struct Tried {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    configuration: Pairs<Value>,
    times: Times,
    invalidity: Invalidity,
    correctness: f64,
    measurements: Vec<Measurement>,
    objectives: Vec<String>,
}

/// In milliseconds.
#[derive(Serialize)]
struct Times {
    /// The schema says `compilation_time`; Kernel Tuner writes this.
    #[serde(skip_serializing_if = "Option::is_none")]
    compilation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    framework: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_algorithm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runtimes: Vec<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Invalidity {
    Timeout,
    Compile,
    Runtime,
    Correctness,
    Constraints,
    Correct,
}

#[derive(Serialize)]
struct Measurement {
    name: String,
    /// A number; of a failed configuration Kernel Tuner writes the error's name.
    value: Json,
    unit: String,
}

/// Writes T4 results.
///
/// # Errors
/// None that this data can have; JSON could not be written.
pub fn write_t4(recording: &Recording) -> Result<String, Unreadable> {
    let results = Results {
        // Its readers expect the word as Kernel Tuner spells it.
        metadata: json!({"timeunit": "miliseconds"}),
        results: recording
            .evaluations
            .iter()
            .map(|it| write_result(it, recording))
            .collect(),
        schema_version: "1.0.0".to_owned(),
    };
    Ok(serde_json::to_string_pretty(&results)?)
}

fn write_result(evaluation: &Evaluation, recording: &Recording) -> Tried {
    let (invalidity, value) = match evaluation.result {
        Ok(value) => (Invalidity::Correct, json!(value)),
        Err(Failure::Constraints) => (Invalidity::Constraints, json!("InvalidConfig")),
        Err(Failure::Compile) => (Invalidity::Compile, json!("CompilationFailedConfig")),
        Err(Failure::Runtime) => (Invalidity::Runtime, json!("RuntimeFailedConfig")),
        Err(Failure::Correctness) => (Invalidity::Correctness, json!("RuntimeFailedConfig")),
        Err(Failure::Timeout) => (Invalidity::Timeout, json!("RuntimeFailedConfig")),
    };
    let spent = evaluation.spent;
    Tried {
        timestamp: evaluation.timestamp.clone(),
        configuration: Pairs(
            recording
                .parameters
                .iter()
                .zip(&evaluation.values)
                .map(|(parameter, value)| (parameter.name.clone(), value.clone()))
                .collect(),
        ),
        times: Times {
            compilation: spent.compile,
            framework: spent.framework,
            search_algorithm: spent.strategy,
            validation: spent.verification,
            runtimes: evaluation.runtimes.clone(),
        },
        invalidity,
        correctness: f64::from(u8::from(evaluation.result.is_ok())),
        measurements: vec![Measurement {
            name: recording.objective.clone(),
            value,
            unit: String::new(),
        }],
        objectives: vec![recording.objective.clone()],
    }
}
