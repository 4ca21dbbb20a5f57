//! The spread between processes that `calibrate` wrote beside a baseline: when a run is held to it, and
//! what is said where its own processes do not bear it out.

use super::facts::{Facts, Found, ruling};
use super::{Refused, acceptable, words};
use crate::model::*;
use crate::stats::{Comparison, Group, Known};

/// A run whose processes differ by so much more than was calibrated is told to: of those that spread alike
/// one in a hundred.
const NOTED_BELOW: f64 = 0.01;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Calibrated {
    known: Known,
    deviation: Num,
    processes: u32,
    date: String,
}

impl Facts<'_> {
    /// What stands under exactly this key; `None` where nothing was calibrated.
    ///
    /// # Errors
    /// Fail, where no spread follows from what stands there.
    pub(super) fn calibrated(
        &self,
        subject: &Subject,
        metric: Metric,
        key: &BaselineKey,
    ) -> Found<Option<Calibrated>> {
        let Subject::Case(case) = subject else {
            return Ok(None);
        };
        let mut files = self.policy.baselines.iter();
        let file = files.find(|file| {
            (&file.kernel, &file.variant, &file.key) == (&case.kernel, &case.variant, key)
        });
        let Some(calibration) = file.and_then(|file| file.calibrated.get(&case.shape)) else {
            return Ok(None);
        };
        let Some(&deviation) = calibration.deviations.get(&metric) else {
            return Ok(None);
        };
        let processes = calibration.processes;
        match Known::of(deviation.0, processes) {
            Some(known) => Ok(Some(Calibrated {
                known,
                deviation,
                processes,
                date: calibration.date.clone(),
            })),
            None => ruling(
                Outcome::Fail,
                format!(
                    "the calibrated spread of {metric} is {} over {processes} processes, and no interval follows from that; write it anew with `{}`",
                    deviation.0,
                    words::calibrate_command(self.environment, subject)
                ),
            ),
        }
    }
}

impl Calibrated {
    pub(super) fn compare(&self, head: &Group, base: &Group) -> Comparison {
        self.known.compare(head, base)
    }

    /// Whose spread the interval rests on, for the end of a parenthesis.
    pub(super) fn told(&self, head: &Group) -> String {
        match self.known.allows(head) {
            true => format!("; spread of {} calibrated processes", self.processes),
            false => "; its own spread, more than was calibrated".to_owned(),
        }
    }

    pub(super) fn noisier(&self, subject: &Subject, metric: Metric, head: &Group) -> Option<Note> {
        (self.known.chance(head) < NOTED_BELOW).then(|| Note::Noisier {
            subject: subject.clone(),
            metric,
            deviation: Num(head.ln_deviation()),
            calibrated: self.deviation,
            date: self.date.clone(),
        })
    }
}

/// What a record's timing processes of one case differ by, with the key that it holds under.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrates {
    pub case: CaseId,
    pub key: BaselineKey,
    pub calibration: Calibration,
}

/// What a record can be taken for as a calibration: of every case whose times could be agreed on, and why not
/// of the others.
pub fn calibrations(record: &Record) -> (Vec<Calibrates>, Vec<Refused>) {
    let (baselines, mut refused) = acceptable(record, "");
    refused.retain(|it| it.facet == Facet::Times);
    let environment = &record.environment;
    let Some(device) = environment.device.got() else {
        return (Vec::new(), refused);
    };
    let of_times = baselines
        .into_iter()
        .filter(|baseline| baseline.key.facet() == Facet::Times);
    let found = of_times.flat_map(|baseline| {
        let Baseline {
            kernel,
            variant,
            key,
            cases,
            ..
        } = baseline;
        cases.into_iter().filter_map(move |(shape, metrics)| {
            let processes = metrics.values().find_map(|agreed| agreed.processes)?;
            let deviations = metrics
                .into_iter()
                .filter_map(|(metric, agreed)| Some((metric, agreed.spread?)))
                .collect();
            Some(Calibrates {
                case: CaseId {
                    kernel: kernel.clone(),
                    variant: variant.clone(),
                    shape,
                },
                key: key.clone(),
                calibration: Calibration {
                    date: environment.started.get(..10)?.to_owned(),
                    gpu: device.uuid.clone(),
                    driver: device.driver.clone(),
                    processes,
                    deviations,
                },
            })
        })
    });
    (found.collect(), refused)
}
