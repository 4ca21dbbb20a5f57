//! Kernel Tuner's cache. A failed configuration has an error's name where its objective stands; newer versions
//! write it under `__error__`.

use super::pairs::Pairs;
use super::{Evaluation, Failure, Recording, Spent, Unreadable};
use crate::space::Parameter;
use crate::value::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

#[derive(Serialize, Deserialize)]
struct Cache {
    device_name: String,
    kernel_name: String,
    problem_size: Size,
    tune_params_keys: Vec<String>,
    tune_params: Pairs<Vec<Value>>,
    #[serde(default = "time")]
    objective: String,
    cache: Pairs<Pairs<Json>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Size {
    Each(Vec<u64>),
    One(u64),
}

fn time() -> String {
    "time".to_owned()
}

/// Reads a cache. An unfinished one, as an interrupted search leaves it, ends where it was cut.
///
/// # Errors
/// It is no cache, or says something that is not understood.
pub fn read_cache(text: &str) -> Result<Recording, Unreadable> {
    let cache: Cache = parse(text)?;
    let parameters = cache
        .tune_params_keys
        .iter()
        .map(|name| {
            let values = cache.tune_params.get(name);
            Ok(Parameter {
                name: name.clone(),
                values: values
                    .ok_or_else(|| Unreadable::Values(name.clone()))?
                    .clone(),
            })
        })
        .collect::<Result<Vec<_>, Unreadable>>()?;
    let evaluations = cache
        .cache
        .0
        .iter()
        .map(|(key, line)| {
            let line = Line { at: key, line };
            line.read(&parameters, &cache.objective)
        })
        .collect::<Result<_, _>>()?;
    Ok(Recording {
        device: cache.device_name,
        kernel: cache.kernel_name,
        problem_size: match cache.problem_size {
            Size::Each(sizes) => sizes,
            Size::One(size) => vec![size],
        },
        objective: cache.objective,
        parameters,
        evaluations,
    })
}

/// Kernel Tuner appends `"key": {...},` and closes the file when it is done.
fn parse(text: &str) -> Result<Cache, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let open = text.trim_end().trim_end_matches(',');
        serde_json::from_str(&format!("{open}}}}}")).map_err(|_| error)
    })
}

struct Line<'a> {
    /// The key in the cache: the configuration's values.
    at: &'a str,
    line: &'a Pairs<Json>,
}

impl Line<'_> {
    fn read(&self, parameters: &[Parameter], objective: &str) -> Result<Evaluation, Unreadable> {
        let error = self.line.get("__error__").or(self.line.get(objective));
        let result = match error {
            Some(Json::String(word)) => Err(match word.as_str() {
                "InvalidConfig" => Failure::Constraints,
                "CompilationFailedConfig" => Failure::Compile,
                "RuntimeFailedConfig" | "ErrorConfig" => Failure::Runtime,
                word => {
                    return Err(Unreadable::Error {
                        at: self.at.to_owned(),
                        word: word.to_owned(),
                    });
                }
            }),
            _ => Ok(self.need(objective, "a number")?),
        };
        Ok(Evaluation {
            values: parameters
                .iter()
                .map(|it| self.need(&it.name, "a number, a text, true or false"))
                .collect::<Result<_, _>>()?,
            result,
            runtimes: self.get("times", "a list of numbers")?.unwrap_or_default(),
            spent: Spent {
                compile: self.get("compile_time", "a number")?,
                verification: self.get("verification_time", "a number")?,
                benchmark: self.get("benchmark_time", "a number")?,
                strategy: self.get("strategy_time", "a number")?,
                framework: self.get("framework_time", "a number")?,
            },
            timestamp: self.get("timestamp", "a text")?,
        })
    }

    fn get<'a, T: Deserialize<'a>>(
        &'a self,
        key: &str,
        wanted: &'static str,
    ) -> Result<Option<T>, Unreadable> {
        self.line
            .get(key)
            .map(|json| T::deserialize(json))
            .transpose()
            .map_err(|_| Unreadable::Wrong {
                at: self.at.to_owned(),
                key: key.to_owned(),
                wanted,
            })
    }

    fn need<'a, T: Deserialize<'a>>(
        &'a self,
        key: &str,
        wanted: &'static str,
    ) -> Result<T, Unreadable> {
        self.get(key, wanted)?.ok_or_else(|| Unreadable::Missing {
            at: self.at.to_owned(),
            key: key.to_owned(),
        })
    }
}

/// Writes a cache that Kernel Tuner can search in its simulation mode.
///
/// # Errors
/// None that this data can have; JSON could not be written.
pub fn write_cache(recording: &Recording) -> Result<String, Unreadable> {
    let parameters = &recording.parameters;
    let cache = Cache {
        device_name: recording.device.clone(),
        kernel_name: recording.kernel.clone(),
        problem_size: Size::Each(recording.problem_size.clone()),
        tune_params_keys: parameters.iter().map(|it| it.name.clone()).collect(),
        tune_params: Pairs(
            parameters
                .iter()
                .map(|it| (it.name.clone(), it.values.clone()))
                .collect(),
        ),
        objective: recording.objective.clone(),
        cache: Pairs(
            recording
                .evaluations
                .iter()
                .map(|it| {
                    let key: Vec<String> = it.values.iter().map(Value::to_string).collect();
                    (key.join(","), write_line(it, recording))
                })
                .collect(),
        ),
    };
    Ok(serde_json::to_string(&cache)?)
}

fn write_line(evaluation: &Evaluation, recording: &Recording) -> Pairs<Json> {
    let mut line: Vec<(String, Json)> = recording
        .parameters
        .iter()
        .zip(&evaluation.values)
        .map(|(parameter, value)| (parameter.name.clone(), json!(value)))
        .collect();
    let mut put = |key: &str, value: Json| line.push((key.to_owned(), value));
    let result = match evaluation.result {
        Ok(value) => json!(value),
        Err(Failure::Constraints) => json!("InvalidConfig"),
        Err(Failure::Compile) => json!("CompilationFailedConfig"),
        // It has no other word for a configuration that is wrong or hangs.
        Err(Failure::Runtime | Failure::Correctness | Failure::Timeout) => {
            json!("RuntimeFailedConfig")
        }
    };
    put(&recording.objective, result);
    if !evaluation.runtimes.is_empty() {
        put("times", json!(evaluation.runtimes));
    }
    let spent = evaluation.spent;
    for (key, value) in [
        ("compile_time", spent.compile),
        ("verification_time", spent.verification),
        ("benchmark_time", spent.benchmark),
        ("strategy_time", spent.strategy),
        ("framework_time", spent.framework),
    ] {
        if let Some(value) = value {
            put(key, json!(value));
        }
    }
    if let Some(timestamp) = &evaluation.timestamp {
        put("timestamp", json!(timestamp));
    }
    Pairs(line)
}
