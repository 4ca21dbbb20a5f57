//! A search as other tuners record one. Times are in ms; what has none has the failure that comes nearest.

use super::log::Began;
use super::outcome::{Evaluation, Outcome};
use search::exchange::{self, Failure, Recording, Spent};
use search::{Parameter, Value};

/// Of configurations that execute what another one does, the result is that one's.
pub fn recording(began: &Began, evaluations: &[Evaluation]) -> Recording {
    let parameters = began.parameters.iter();
    let result = |it: &Evaluation| match &it.outcome {
        Outcome::Same { number } => {
            let same = evaluations.iter().find(|other| other.number == *number);
            same.map_or(Err(Failure::Runtime), |same| result(began, same))
        }
        _ => result(began, it),
    };
    let evaluation = |it: &Evaluation| exchange::Evaluation {
        values: began
            .parameters
            .iter()
            .filter_map(|(name, _)| Some(Value::Integer(*it.values.get(name)?)))
            .collect(),
        result: result(it),
        runtimes: Vec::new(),
        spent: Spent {
            compile: Some(it.compile_ms as f64),
            ..Spent::default()
        },
        timestamp: None,
    };
    Recording {
        device: began.device.clone(),
        kernel: began.start.clone(),
        problem_size: Vec::new(),
        objective: "time".to_owned(),
        parameters: parameters
            .map(|(name, values)| Parameter {
                name: name.clone(),
                values: values.iter().copied().map(Value::Integer).collect(),
            })
            .collect(),
        evaluations: evaluations.iter().map(evaluation).collect(),
    }
}

/// The geometric mean over the shapes of the objective.
fn result(began: &Began, it: &Evaluation) -> Result<f64, Failure> {
    let times = match &it.outcome {
        Outcome::Dropped(why) => return Err(why.gate.failure()),
        // An estimate is no time.
        Outcome::Same { .. } | Outcome::Ranked(_) => return Err(Failure::Runtime),
        Outcome::Timed(timed) => &timed.p50_ns,
    };
    let mut ln_ns = 0.0;
    for (shape, weight) in &began.objective {
        ln_ns += weight * times.get(shape).ok_or(Failure::Runtime)?.ln();
    }
    Ok(ln_ns.exp() / 1e6)
}
