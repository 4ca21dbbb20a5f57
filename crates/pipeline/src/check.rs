//! Checks every seed of every case on a GPU, or on whichever of several GPUs is free. The record does not say which.

use super::answers::Answers;
use super::plan::Planned;
use super::took::milliseconds;
use super::work::{EvidenceSide, SharedWork, SkipReason, WorkSide};
use crate::event::{Event, Phase};
use check::cache::Answer;
use judge::{Admission, Stage};
use model::{Arch, Case, CaseId, Evidence, NotRun, Plan, Record, Seen};
use run::worker::{CheckAnswer, CheckJob, Crews, ExpectedOutput};
use tracing::debug;

type Tried = std::result::Result<CheckJob, SkipReason>;

/// Checks head, and then the cases of the base that head's checks do not settle. Files evidence in the order of the plan,
/// whichever case was done first.
pub fn check_all(
    planned: &Planned,
    work: &mut SharedWork,
    crews: &mut Crews,
    record: &mut Record,
    on: &(dyn Fn(Event) + Sync),
) {
    for side in [EvidenceSide::Head, EvidenceSide::Base] {
        let Some((cases, tried)) = (match side {
            EvidenceSide::Head => Some(head_jobs(&work.head, record)),
            EvidenceSide::Base => base_jobs(&mut work.base, planned, record, on),
        }) else {
            return;
        };
        on(Event::Began {
            phase: Phase::Check,
            steps: tried.iter().map(|seeds| seeds.len() as u64).sum(),
        });
        let stepped = |number: usize| {
            on(Event::Stepped {
                phase: Phase::Check,
                what: cases.get(number).map_or(String::new(), |case| {
                    format!("{}{}", side.heading(), case.id)
                }),
            });
        };
        let (jobs, untried) = split(tried);
        for (number, whys) in untried.iter().enumerate() {
            whys.iter().flatten().for_each(|_| stepped(number));
        }
        let answers = crews.check(&jobs, &|number, wall| {
            if let Some(case) = cases.get(number) {
                work.took.add(&case.id, wall);
            }
            stepped(number);
        });
        let pieces = evidence(&cases, untried, answers);
        side.file(pieces, &mut record.evidence);
    }
    record.costs.reference_ms += milliseconds(work.base.answers.wall);
}

/// Cases, with a job for each of their seeds.
type CheckJobs<'a> = (Vec<&'a Case>, Vec<Vec<Tried>>);

/// Makes a job for each seed of a case that the judge admits.
fn head_jobs<'a>(side: &WorkSide, record: &'a Record) -> CheckJobs<'a> {
    let plan = &record.plan;
    let admissions = judge::admit(
        plan,
        &record.environment,
        &record.policy,
        &record.evidence,
        Stage::Check,
    );
    let tried = plan
        .cases
        .iter()
        .zip(admissions)
        .map(|(case, admission)| {
            log_admission(&case.id, &admission);
            case.seeds
                .iter()
                .map(|&seed| match &admission {
                    Admission::Yes => side.check_job(plan, case, None, seed),
                    Admission::No { .. } => Err(SkipReason::NotRun(NotRun::EarlierStage)),
                })
                .collect()
        })
        .collect();
    (plan.cases.iter().collect(), tried)
}

/// Reports why the judge does not let a case run.
pub(super) fn log_admission(case: &CaseId, admission: &Admission) {
    if let Admission::No { reason } = admission {
        debug!(%case, reason = reason.code(), "case not admitted");
    }
}

/// Computes the references of the cases that the base needs, and makes their jobs. `None` where there is no base.
fn base_jobs<'a>(
    side: &mut WorkSide,
    planned: &Planned,
    record: &'a Record,
    on: &(dyn Fn(Event) + Sync),
) -> Option<CheckJobs<'a>> {
    let references = &planned.base.as_ref()?.references;
    let plan = &record.policy.base.as_ref()?.plan;
    let needed = judge::needed_of_base(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    let cases: Vec<&Case> = needed.iter().filter_map(|id| plan.case(id)).collect();
    side.answers = Answers::compute(cases.iter().copied(), references, on);
    let tried = cases
        .iter()
        .map(|case| {
            case.seeds
                .iter()
                .map(|&seed| side.check_job(plan, case, None, seed))
                .collect()
        })
        .collect();
    Some((cases, tried))
}

/// The jobs of each case, and for each of its seeds in order the reason if there is none.
type Split = (Vec<Vec<CheckJob>>, Vec<Vec<Option<SkipReason>>>);

fn split(tried: Vec<Vec<Tried>>) -> Split {
    let split_one = |seeds: Vec<Tried>| {
        let mut jobs = Vec::new();
        let whys = seeds
            .into_iter()
            .map(|seed| match seed {
                Ok(job) => {
                    jobs.push(job);
                    None
                }
                Err(why) => Some(why),
            })
            .collect();
        (jobs, whys)
    };
    tried.into_iter().map(split_one).unzip()
}

/// Makes evidence of the answers. Only seeds with a job have an answer.
fn evidence(
    cases: &[&Case],
    untried: Vec<Vec<Option<SkipReason>>>,
    answers: Vec<Vec<CheckAnswer>>,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for ((case, whys), answers) in cases.iter().zip(untried).zip(answers) {
        let mut answers = answers.into_iter();
        for (position, (&seed, why)) in case.seeds.iter().zip(whys).enumerate() {
            let answer = match why {
                None => answers
                    .next()
                    .ok_or_else(|| SkipReason::lost("it was dealt to no worker")),
                Some(why) => Err(why),
            };
            let answer = answer.unwrap_or_else(|why| CheckAnswer {
                driver: why.clone().into_seen(),
                check: why.into_seen(),
            });
            // The driver's facts about the entry are the same for every seed.
            if position == 0 {
                evidence.push(Evidence::Driver {
                    case: case.id.clone(),
                    facts: answer.driver,
                });
            }
            evidence.push(Evidence::Check {
                case: case.id.clone(),
                arch: None,
                seed,
                facts: answer.check,
            });
        }
    }
    evidence
}

impl WorkSide {
    pub(super) fn check_job(
        &self,
        plan: &Plan,
        case: &Case,
        arch: Option<Arch>,
        seed: u64,
    ) -> std::result::Result<CheckJob, SkipReason> {
        Ok(CheckJob {
            case: case.clone(),
            artifact: self.artifact(plan, &case.id, arch)?,
            seed,
            later_seed: plan.later_seed(case, seed),
            expected: self.expected(plan, case, arch, seed)?,
            dump: self.dump.clone(),
        })
    }

    fn expected(
        &self,
        plan: &Plan,
        case: &Case,
        arch: Option<Arch>,
        seed: u64,
    ) -> std::result::Result<ExpectedOutput, SkipReason> {
        match self.answers.found.get(&(case.id.clone(), seed)).cloned() {
            Some(Seen::Got(Answer::Files { seen, original })) => {
                Ok(ExpectedOutput::Files { seen, original })
            }
            Some(Seen::Got(Answer::Variant { variant })) => {
                let other = CaseId {
                    variant,
                    ..case.id.clone()
                };
                let case = plan.case(&other).ok_or_else(|| {
                    SkipReason::NotRun(NotRun::NoReferenceVariant {
                        variant: other.variant.clone(),
                    })
                })?;
                let artifact = self.artifact(plan, &other, arch)?;
                Ok(ExpectedOutput::Variant {
                    case: Box::new(case.clone()),
                    artifact,
                })
            }
            Some(Seen::Fault(fault)) => Err(SkipReason::Broke(fault)),
            Some(Seen::Unsupported(why)) => Err(SkipReason::Unsupported(why)),
            Some(Seen::NotRun(why)) => Err(SkipReason::NotRun(why)),
            None => Err(SkipReason::lost("no reference was computed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use build::Artifact;
    use judge::fixture;
    use model::{DrawnSeed, Fault, FaultKind};

    fn job(case: &Case, seed: u64) -> CheckJob {
        CheckJob {
            case: case.clone(),
            artifact: Artifact::Cubin {
                path: "k.cubin".into(),
                entries: vec![("k".into(), "k".into())],
                ptx: Some("k.ptx".into()),
                constants: vec![],
            },
            seed,
            later_seed: seed + 1,
            expected: ExpectedOutput::Files {
                seen: "seen".into(),
                original: None,
            },
            dump: None,
        }
    }

    fn not_run<T>(text: &str) -> Seen<T> {
        Seen::NotRun(NotRun::NoDevice {
            problem: text.to_owned(),
        })
    }

    fn answer(text: &str) -> CheckAnswer {
        CheckAnswer {
            driver: not_run(text),
            check: not_run(text),
        }
    }

    /// Returns the content of each piece, in the order of the record.
    fn said(evidence: &[Evidence]) -> Vec<String> {
        let word = |case: &CaseId, seed: &str, what: Option<String>| {
            format!("{}{seed}: {}", case.shape, what.unwrap_or_default())
        };
        fn what<T>(seen: &Seen<T>) -> Option<String> {
            match seen {
                Seen::NotRun(NotRun::NoDevice { problem }) => Some(problem.clone()),
                Seen::NotRun(why) => Some(why.code().to_owned()),
                Seen::Fault(fault) => Some(fault.message.clone()),
                Seen::Got(_) | Seen::Unsupported(_) => None,
            }
        }
        evidence
            .iter()
            .map(|piece| match piece {
                Evidence::Driver { case, facts } => word(case, " driver", what(facts)),
                Evidence::Check {
                    case, seed, facts, ..
                } => word(case, &format!(" {seed}"), what(facts)),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn later_data_is_that_of_another_seed_and_never_of_the_drawn_one() {
        let mut plan = fixture::record().plan;
        let mut later = |seeds: &[u64], drawn: Option<u64>, seed| {
            let mut case = plan.cases[0].clone();
            case.seeds = seeds.to_vec();
            plan.drawn = drawn.map(|seed| DrawnSeed {
                seed,
                commit: "0123".to_owned(),
            });
            plan.later_seed(&case, seed)
        };
        assert_eq!(later(&[1, 2, 3], None, 1), 2);
        assert_eq!(later(&[1, 2, 3], None, 3), 1);
        assert_eq!(later(&[7], None, 7), 8);
        assert_eq!(later(&[u64::MAX], None, u64::MAX), 0);
        assert_eq!(later(&[], None, 4), 5);
        assert_eq!(later(&[1, 2, 9], Some(9), 2), 1);
        assert_eq!(later(&[1, 2, 9], Some(9), 9), 1);
        assert_eq!(later(&[9], Some(9), 9), 10);
    }

    #[test]
    fn evidence_has_the_order_of_the_plan_and_names_skipped_work() {
        let case = |shape: &str| {
            let mut case = fixture::record().plan.cases.remove(0);
            case.id.shape = shape.into();
            case.seeds = vec![7, 8];
            case
        };
        let cases = ["a", "b", "c", "d"].map(case);
        let [a, b, c, d] = &cases;
        let broke = SkipReason::Broke(Fault::new(FaultKind::Reference, "no reference"));
        let (jobs, untried) = split(vec![
            vec![Ok(job(a, 7)), Ok(job(a, 8))],
            vec![Err(broke), Ok(job(b, 8))],
            vec![
                Err(SkipReason::NotRun(NotRun::EarlierStage)),
                Err(SkipReason::NotRun(NotRun::EarlierStage)),
            ],
            vec![Ok(job(d, 7)), Ok(job(d, 8))],
        ]);
        assert_eq!(jobs.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 0, 2]);
        assert_eq!(jobs[1], [job(b, 8)]);
        assert_eq!(c.id.shape, "c");
        let answers = vec![
            vec![answer("a7"), answer("a8")],
            vec![answer("b8")],
            vec![],
            vec![answer("d7")],
        ];
        let cases: Vec<&Case> = cases.iter().collect();
        let found = evidence(&cases, untried, answers);
        let is_lost = |seen: &Seen<_>| matches!(seen, Seen::Fault(fault) if fault.kind == FaultKind::Environment);
        assert!(matches!(found.last(), Some(Evidence::Check { facts, .. }) if is_lost(facts)));
        assert_eq!(
            said(&found),
            [
                "a driver: a7",
                "a 7: a7",
                "a 8: a8",
                "b driver: no reference",
                "b 7: no reference",
                "b 8: b8",
                "c driver: earlier-stage",
                "c 7: earlier-stage",
                "c 8: earlier-stage",
                "d driver: d7",
                "d 7: d7",
                "d 8: it was dealt to no worker",
            ]
        );
    }
}
