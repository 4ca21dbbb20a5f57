//! Finds values of a record that no run can have observed.

use super::{
    CaseId, CheckFacts, Evidence, Metric, Num, ProfileFacts, Record, Seen, Subject, UnitId,
};

/// A value outside the range of its metric.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfRange {
    pub subject: Subject,
    pub metric: Metric,
    pub value: Num,
}

impl Record {
    /// Returns the first value of the evidence that is outside the range of its metric. Baselines are judged instead,
    /// because a run reports a file that cannot be used.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        self.evidence.iter().find_map(Evidence::out_of_range)
    }
}

impl Evidence {
    fn out_of_range(&self) -> Option<OutOfRange> {
        let of_case = |case: &CaseId, values: Vec<(Metric, Num)>| {
            first(values, || Subject::Case(case.clone()))
        };
        match self {
            Self::Base(piece) => piece.out_of_range(),
            Self::Build {
                unit,
                facts: Seen::Got(facts),
            } => first(
                facts
                    .entries
                    .iter()
                    .filter_map(|entry| entry.resources.as_ref())
                    .map(|resource| f64::from(resource.registers))
                    .map(|value| (Metric::Registers, Num(value)))
                    .collect(),
                || Subject::Unit(UnitId::clone(unit)),
            ),
            Self::Check {
                case,
                facts: Seen::Got(facts),
                ..
            } => of_case(case, errors(facts)),
            Self::Profile {
                case,
                facts: Seen::Got(facts),
                ..
            } => of_case(case, profiled(facts)),
            // These count things, so they cannot be negative.
            Self::Build { .. }
            | Self::Check { .. }
            | Self::Profile { .. }
            | Self::Simulation { .. }
            | Self::Driver { .. }
            | Self::Time { .. }
            | Self::Code { .. }
            | Self::Reused { .. }
            | Self::Exchange(_)
            | Self::Reference { .. }
            | Self::BaseReference { .. }
            | Self::Pair { .. }
            | Self::Rival { .. } => None,
        }
    }
}

fn first(values: Vec<(Metric, Num)>, subject: impl Fn() -> Subject) -> Option<OutOfRange> {
    let mut values = values.into_iter();
    let is_outside =
        |(metric, value): &(Metric, Num)| !value.0.is_nan() && !metric.range().contains(value.0);
    let (metric, value) = values.find(is_outside)?;
    Some(OutOfRange {
        subject: subject(),
        metric,
        value,
    })
}

fn errors(facts: &CheckFacts) -> Vec<(Metric, Num)> {
    let of = |errors: Option<&super::ErrorFacts>, max: Metric, mean: Metric| {
        errors.map(|error| vec![(max, error.max_err), (mean, error.mean_err)])
    };
    let own = &facts.error;
    let all = [
        of(Some(own), Metric::MaxErr, Metric::MeanErr),
        Some(vec![(Metric::RelL2, own.rel_l2)]),
        own.over_tolerance
            .map(|share| vec![(Metric::OverTolerance, share)]),
        of(
            facts.original.as_ref(),
            Metric::OriginalMaxErr,
            Metric::OriginalMeanErr,
        ),
        of(
            facts.codec.as_ref(),
            Metric::CodecMaxErr,
            Metric::CodecMeanErr,
        ),
    ];
    all.into_iter().flatten().flatten().collect()
}

fn profiled(facts: &ProfileFacts) -> Vec<(Metric, Num)> {
    facts
        .kernels
        .iter()
        .flat_map(|kernel| &kernel.metrics)
        .filter_map(|(metric, seen)| Some((Metric::Profile(*metric), *seen.got()?)))
        .collect()
}
