//! What `calibrate` found that processes differ by, written beside the figures that were agreed on.

use super::{directory_of, load, lock, place, write};
use crate::error::{Diagnostic, Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use verdict::judge::{Calibrates, Refused, calibrations, words};
use verdict::model::{Calibration, CaseId, Metric, Record};

/// A case of which the spread of times is now known, or known anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    /// Relative to the repository.
    pub file: PathBuf,
    pub case: CaseId,
    pub old: Option<Calibration>,
    pub new: Calibration,
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deviation = |it: &Calibration| {
            let deviation = it.deviations.get(&Metric::P50);
            let deviation = deviation.map_or("unknown".to_owned(), |it| words::percent(it.0));
            format!("{deviation} over {} processes", it.processes)
        };
        write!(f, "{}: p50 spreads by ", self.case)?;
        if let Some(old) = &self.old {
            write!(f, "{} -> ", deviation(old))?;
        }
        f.write_str(&deviation(&self.new))
    }
}

#[derive(Debug, Default)]
pub struct Noise {
    pub written: Vec<Calibrated>,
    pub refused: Vec<Refused>,
    /// Nothing is agreed on under their key, and so there is nothing to hold them against.
    pub without_baseline: Vec<CaseId>,
}

/// Writes what the timing processes of `record` differ by into the baselines that have its keys. The figures
/// that were agreed on stay as they are.
///
/// # Errors
/// Usage, where a file that would be written is broken; nothing is written then. Environment, where one
/// cannot be written.
pub fn write_noise(root: &Path, record: &Record) -> Result<Noise> {
    let (found, refused) = calibrations(record);
    let mut noise = Noise {
        refused,
        ..Noise::default()
    };
    let _lock = lock(&directory_of(root))?;
    let mut files = Vec::new();
    for Calibrates {
        case,
        key,
        calibration,
    } in found
    {
        let file = place(&case.kernel, &case.variant, &key)?;
        if !root.join(&file).exists() {
            noise.without_baseline.push(case);
            continue;
        }
        let at = match files.iter().position(|(known, _)| *known == file) {
            Some(at) => at,
            None => {
                let baseline = load(root, &file).map_err(|problem| {
                    let help = "restore it from git, or remove it and update again";
                    Error::Usage(problem.diagnostic(&file.display().to_string()).help(help))
                })?;
                files.push((file.clone(), baseline));
                files.len() - 1
            }
        };
        let Some((_, baseline)) = files.get_mut(at) else {
            continue;
        };
        if !baseline.cases.contains_key(&case.shape) {
            noise.without_baseline.push(case);
            continue;
        }
        let old = baseline
            .calibrated
            .insert(case.shape.clone(), calibration.clone());
        noise.written.push(Calibrated {
            file,
            case,
            old,
            new: calibration,
        });
    }
    for (file, baseline) in files {
        if noise.written.iter().any(|written| written.file == file) {
            write(root, &file, &baseline)?;
        }
    }
    Ok(noise)
}

/// Said before GPU time is spent, not after it.
///
/// # Errors
/// Usage, where no time of these cases was ever agreed on.
pub fn expect_times(root: &Path, cases: &[&CaseId]) -> Result<()> {
    let (baselines, _) = super::load_baselines(root)?;
    let known = baselines.iter().any(|baseline| {
        baseline.key.facet() == verdict::model::Facet::Times
            && cases.iter().any(|case| {
                (&baseline.kernel, &baseline.variant) == (&case.kernel, &case.variant)
                    && baseline.cases.contains_key(&case.shape)
            })
    });
    match known {
        true => Ok(()),
        false => Err(Error::Usage(
            Diagnostic::new("no baseline of times of these cases is there to write beside")
                .help("`gatekeeper run`, then `gatekeeper baseline update`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use verdict::judge::fixture;
    use verdict::model::{Num, Outcome};

    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        update_baselines(dir.path(), &fixture::record(), &|_| true).unwrap();
        dir
    }

    fn times(root: &Path, variant: &str) -> Baseline {
        let (baselines, _) = load_baselines(root).unwrap();
        let mut baselines = baselines.into_iter();
        baselines
            .find(|it| it.variant == variant && it.key.facet() == Facet::Times)
            .unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_moves_no_figure() {
        let dir = repository();
        let before = times(dir.path(), "fast");
        let noise = write_noise(dir.path(), &fixture::record()).unwrap();
        assert_eq!((noise.refused, noise.without_baseline), (vec![], vec![]));
        assert_eq!(noise.written.len(), 4);
        let after = times(dir.path(), "fast");
        assert_eq!(
            (&after.cases, &after.origin),
            (&before.cases, &before.origin)
        );
        let kept = &after.calibrated["small"];
        let agreed = &before.cases["small"][&Metric::P50];
        assert_eq!(kept.deviations[&Metric::P50], agreed.spread.unwrap());
        assert_eq!((kept.processes, kept.gpu.as_str()), (3, "GPU-0"));

        let again = write_noise(dir.path(), &fixture::record()).unwrap();
        assert_eq!(
            again.written[0].to_string(),
            "k/direct@large: p50 spreads by 0.10 % over 3 processes -> 0.10 % over 3 processes"
        );
    }

    #[test]
    fn an_update_of_other_code_keeps_it() {
        let dir = repository();
        write_noise(dir.path(), &fixture::record()).unwrap();
        let mut record = fixture::record();
        record.environment.started = "2026-11-25T08:00:00Z".into();
        fixture::rebuild(&mut record, "fast", |facts| facts.identity = "other".into());
        fixture::slow(&mut record, &fixture::case_id("fast", "small"), 70_000);
        let before = times(dir.path(), "fast");
        update_baselines(dir.path(), &record, &|_| true).unwrap();
        let after = times(dir.path(), "fast");
        assert_ne!(after.cases, before.cases);
        assert_eq!(after.calibrated, before.calibrated);
    }

    #[test]
    fn what_has_no_baseline_or_was_throttled_is_left_out_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let small = fixture::case_id("fast", "small");
        let only = |subject: &Subject| *subject == Subject::Case(fixture::case_id("fast", "small"));
        assert!(expect_times(dir.path(), &[&small]).is_err());
        update_baselines(dir.path(), &fixture::record(), &only).unwrap();
        assert!(expect_times(dir.path(), &[&small]).is_ok());
        assert!(expect_times(dir.path(), &[&fixture::case_id("fast", "large")]).is_err());
        let noise = write_noise(dir.path(), &fixture::record()).unwrap();
        assert_eq!(noise.written.len(), 1);
        let lacking: Vec<_> = noise
            .without_baseline
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lacking,
            ["k/direct@large", "k/direct@small", "k/fast@large"]
        );

        let mut record = fixture::record();
        fixture::retime(&mut record, &small, |_, facts| facts.gpu.throttled = true);
        let noise = write_noise(dir.path(), &record).unwrap();
        assert_eq!(noise.written, []);
        assert_eq!(noise.refused.len(), 1);
        assert_eq!(noise.refused[0].outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_broken_file_is_never_overwritten() {
        let dir = repository();
        let baseline = times(dir.path(), "fast");
        let file = place(&baseline.kernel, &baseline.variant, &baseline.key).unwrap();
        std::fs::write(dir.path().join(&file), "{").unwrap();
        assert!(write_noise(dir.path(), &fixture::record()).is_err());
        assert_eq!(
            std::fs::read_to_string(dir.path().join(&file)).unwrap(),
            "{"
        );
        assert!(times(dir.path(), "direct").calibrated.is_empty());
    }

    #[test]
    fn the_same_run_passes_beside_it() {
        let dir = repository();
        write_noise(dir.path(), &fixture::record()).unwrap();
        let mut record = fixture::record();
        record.policy.baselines = load_baselines(dir.path()).unwrap().0;
        fixture::slow(&mut record, &fixture::case_id("fast", "small"), 80_001);
        let judgement = judge::judge(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        let mut verdicts = judgement.verdicts.iter();
        let subject = Subject::Case(fixture::case_id("fast", "small"));
        let told = verdicts.find(|it| it.subject == subject && it.gate == "p50 +2%");
        let told = told.unwrap();
        assert_eq!(told.outcome, Outcome::Pass);
        assert!(
            told.reason.contains("3 calibrated processes"),
            "{}",
            told.reason
        );
        assert!(told.smallest_visible.is_some_and(|Num(it)| it > 0.0));
    }
}
