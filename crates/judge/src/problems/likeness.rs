//! Decides whether problems of several variants are one problem.

use super::reason_of;
use model::*;

/// The properties that two problems must share to be one problem.
pub struct Likeness {
    kernel: String,
    code: &'static str,
    since_base: Option<SinceBase>,
    /// The counters, metrics and gates that are broken, each once.
    broken: Vec<Broken>,
}

#[derive(PartialEq)]
enum Broken {
    /// A counter with the line that counts most of it. Variants that are slow in one line are slow for one cause.
    Counter(Counter, Option<String>),
    Metric(Metric),
    Gate(Question),
}

impl Likeness {
    /// Returns the likeness of a failure, or `None` for any other outcome: those problems are grouped by reason anyway.
    pub fn from_problem(problem: &Problem, verdicts: &[Verdict]) -> Option<Self> {
        if problem.outcome != Outcome::Fail {
            return None;
        }
        let mut broken = Vec::new();
        let own = problem.verdicts.iter().filter_map(|at| verdicts.get(*at));
        for one in own.flat_map(broken_by) {
            if !broken.contains(&one) {
                broken.push(one);
            }
        }
        Some(Self {
            kernel: problem.subjects.first()?.kernel().to_owned(),
            code: problem.code,
            since_base: problem.since_base,
            broken,
        })
    }

    /// Returns true if the kernel, the code and the age are equal, and the same things are broken in any order.
    pub fn is_like(&self, other: &Self) -> bool {
        let all = (&self.kernel, self.code, self.since_base);
        all == (&other.kernel, other.code, other.since_base)
            && self.broken.len() == other.broken.len()
            && self.broken.iter().all(|one| other.broken.contains(one))
    }
}

fn broken_by(verdict: &Verdict) -> Vec<Broken> {
    match reason_of(verdict) {
        Reason::CountersRose { rises, .. } => rises
            .iter()
            .map(|rise| {
                let line = rise.lines.first();
                // The compiler may have inlined the line at other places in other variants, so only the line itself
                // counts.
                let place = line.and_then(|line| line.place.split(' ').next());
                Broken::Counter(rise.counter, place.map(str::to_owned))
            })
            .collect(),
        Reason::UngatedWorse { values, .. } => values
            .iter()
            .map(|value| Broken::Metric(value.metric))
            .collect(),
        _ => {
            let gate = || Broken::Gate(verdict.question.clone());
            vec![verdict.metric().map_or_else(gate, Broken::Metric)]
        }
    }
}

/// Returns true if the cause of a problem is that these arguments do not fit, in whichever entry.
pub fn are_same_arguments(cause: &ProblemCause, mistyped: &[Mistyped]) -> bool {
    let ProblemCause::Arguments(known) = cause else {
        return false;
    };
    let is_same = |(one, other): (&Mistyped, &Mistyped)| {
        (&one.tensor, one.elem, &one.takes, &one.declared)
            == (&other.tensor, other.elem, &other.takes, &other.declared)
    };
    known.len() == mistyped.len() && known.iter().zip(mistyped).all(is_same)
}
