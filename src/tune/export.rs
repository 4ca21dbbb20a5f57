//! A search as other tuners record one. Times are in ms; what has none has the failure that comes nearest.

use super::log::Began;
use super::outcome::{Evaluation, Outcome};
use search::exchange::{self, Failure, Recording, Spent};
use search::{Parameter, Value};

/// A timed configuration has the start's time, times its cost: those costs are of samples that were interleaved, and
/// times of different processes are not to be compared. An equal configuration has the time of the one that it equals.
pub fn recording(began: &Began, evaluations: &[Evaluation]) -> Recording {
    let start_ms = start_ms(began, evaluations);
    let cost = |number: u32| match number {
        0 => Ok(1.0),
        number => {
            let mut all = evaluations.iter();
            let same = all.find(|it| it.number == number);
            same.map_or(Err(Failure::Runtime), |same| result(&same.outcome))
        }
    };
    let result = |outcome: &Outcome| {
        let cost = match outcome {
            Outcome::Same { number } => cost(*number),
            other => result(other),
        };
        cost.and_then(|cost| Ok(cost * start_ms.ok_or(Failure::Runtime)?))
    };
    let evaluation = |it: &Evaluation| exchange::Evaluation {
        values: began
            .parameters
            .iter()
            .filter_map(|(name, _)| Some(Value::Integer(*it.values.get(name)?)))
            .collect(),
        result: result(&it.outcome),
        runtimes: Vec::new(),
        spent: Spent {
            compile: Some(it.compile_ms as f64),
            ..Spent::default()
        },
        timestamp: None,
    };
    let parameters = began.parameters.iter();
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

/// To the start's. An estimate is no time.
fn result(outcome: &Outcome) -> Result<f64, Failure> {
    match outcome {
        Outcome::Dropped(why) => Err(why.gate.failure()),
        Outcome::Same { .. } | Outcome::Ranked(_) => Err(Failure::Runtime),
        Outcome::Timed(timed) => Ok(timed.cost),
    }
}

/// The time of the start in all the processes that it was timed in: the geometric mean, over the shapes of the objective.
fn start_ms(began: &Began, evaluations: &[Evaluation]) -> Option<f64> {
    let times = evaluations.iter().filter_map(|it| match &it.outcome {
        Outcome::Timed(timed) if timed.against == 0 => Some(&timed.against_ns),
        _ => None,
    });
    let all: Option<Vec<f64>> = times
        .map(|ns| {
            let shapes = began.objective.iter();
            let ln_ns = shapes.map(|(shape, weight)| Some(weight * ns.get(shape)?.ln()));
            ln_ns.sum::<Option<f64>>()
        })
        .collect();
    let all = all.filter(|all| !all.is_empty())?;
    let ln_ns = all.iter().sum::<f64>() / all.len() as f64;
    Some(ln_ns.exp() / 1e6)
}
