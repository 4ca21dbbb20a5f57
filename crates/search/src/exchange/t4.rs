//! T4 results. They name neither the device, the kernel nor the values that a parameter could have had.

use super::pairs::Pairs;
use super::{Evaluation, Failure, Recording, Spent, Unreadable};
use crate::space::Parameter;
use crate::value::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

#[derive(Serialize, Deserialize)]
struct Results {
    #[serde(default)]
    metadata: Json,
    results: Vec<Tried>,
    schema_version: String,
}

#[derive(Serialize, Deserialize)]
struct Tried {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    configuration: Pairs<Value>,
    times: Times,
    invalidity: Invalidity,
    correctness: f64,
    #[serde(default)]
    measurements: Vec<Measurement>,
    #[serde(default)]
    objectives: Vec<String>,
}

/// In milliseconds.
#[derive(Serialize, Deserialize)]
struct Times {
    /// The schema says `compilation_time`; Kernel Tuner writes this.
    #[serde(alias = "compilation_time", skip_serializing_if = "Option::is_none")]
    compilation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    framework: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_algorithm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runtimes: Vec<f64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Invalidity {
    Timeout,
    Compile,
    Runtime,
    Correctness,
    Constraints,
    Correct,
}

#[derive(Serialize, Deserialize)]
struct Measurement {
    name: String,
    /// A number; of a failed configuration Kernel Tuner writes the error's name.
    value: Json,
    #[serde(default)]
    unit: String,
}

/// Reads results. The values of a parameter are those that occur.
///
/// # Errors
/// It is no T4 1.x, or says something that is not understood.
pub fn read_t4(text: &str) -> Result<Recording, Unreadable> {
    let results: Results = serde_json::from_str(text)?;
    if !results.schema_version.starts_with("1.") {
        return Err(Unreadable::Version(results.schema_version));
    }
    let first = results.results.first();
    let objective = first.and_then(|it| it.objectives.first().cloned());
    let objective = objective.unwrap_or_else(|| "time".to_owned());
    let mut parameters: Vec<Parameter> = first
        .map(|it| it.configuration.0.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|(name, _)| Parameter {
            name: name.clone(),
            values: Vec::new(),
        })
        .collect();
    let mut evaluations = Vec::new();
    for tried in results.results {
        let mut values = Vec::new();
        for parameter in &mut parameters {
            let value =
                tried
                    .configuration
                    .get(&parameter.name)
                    .ok_or_else(|| Unreadable::Missing {
                        at: name(&tried),
                        key: parameter.name.clone(),
                    })?;
            if !parameter.values.contains(value) {
                parameter.values.push(value.clone());
            }
            values.push(value.clone());
        }
        evaluations.push(Evaluation {
            values,
            result: read_result(&tried, &objective)?,
            runtimes: tried.times.runtimes,
            spent: Spent {
                compile: tried.times.compilation,
                verification: tried.times.validation,
                benchmark: None,
                strategy: tried.times.search_algorithm,
                framework: tried.times.framework,
            },
            timestamp: tried.timestamp,
        });
    }
    for parameter in &mut parameters {
        sort(&mut parameter.values);
    }
    Ok(Recording {
        device: String::new(),
        kernel: String::new(),
        problem_size: Vec::new(),
        objective,
        parameters,
        evaluations,
    })
}

fn name(tried: &Tried) -> String {
    let values = tried.configuration.0.iter();
    let values: Vec<String> = values.map(|(_, value)| value.to_string()).collect();
    values.join(",")
}

/// By size where all are numbers; else as they came.
fn sort(values: &mut [Value]) {
    if values.iter().all(|it| it.number().is_some()) {
        values.sort_by(|a, b| {
            let [a, b] = [a, b].map(|it| it.number().unwrap_or(f64::NAN));
            a.total_cmp(&b)
        });
    }
}

fn read_result(tried: &Tried, objective: &str) -> Result<Result<f64, Failure>, Unreadable> {
    Ok(Err(match tried.invalidity {
        Invalidity::Constraints => Failure::Constraints,
        Invalidity::Compile => Failure::Compile,
        Invalidity::Runtime => Failure::Runtime,
        Invalidity::Correctness => Failure::Correctness,
        Invalidity::Timeout => Failure::Timeout,
        Invalidity::Correct => {
            let measured = tried.measurements.iter().find(|it| it.name == objective);
            let measured = measured.ok_or_else(|| Unreadable::Missing {
                at: name(tried),
                key: objective.to_owned(),
            })?;
            return match measured.value.as_f64() {
                Some(value) => Ok(Ok(value)),
                None => Err(Unreadable::Wrong {
                    at: name(tried),
                    key: objective.to_owned(),
                    wanted: "a number",
                }),
            };
        }
    }))
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
