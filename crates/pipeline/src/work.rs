//! State that the stages of one run share, and the reasons for jobs that are not run.

use super::answers::Answers;
use super::took::Meter;
use build::Artifact;
use model::{
    Arch, CaseId, DeviceFacts, Evidence, Fault, FaultKind, NotRun, Plan, Seen, UnitId, Unsupported,
};
use std::collections::HashMap;
use std::path::PathBuf;

/// State that checks and timings of one run share.
pub(super) struct SharedWork {
    pub head: WorkSide,
    pub base: WorkSide,
    pub took: Meter,
}

pub(super) type Artifacts = HashMap<UnitId, Artifact>;

/// State that kernels of head, or of the base, run with.
pub(super) struct WorkSide {
    /// The GPU, or `None` for the simulator.
    pub device: Option<DeviceFacts>,
    pub artifacts: Artifacts,
    pub answers: Answers,
    pub dump: Option<PathBuf>,
}

impl WorkSide {
    /// Returns the artifact that runs for a case. In the simulator this is the one for `arch`, or else for the oldest
    /// architecture.
    pub fn artifact(
        &self,
        plan: &Plan,
        case: &CaseId,
        arch: Option<Arch>,
    ) -> std::result::Result<Artifact, SkipReason> {
        let unit = match (&self.device, arch) {
            (Some(device), _) => judge::unit_for(plan, case, device),
            (None, None) => judge::unit_to_simulate(plan, case),
            (None, Some(arch)) => {
                let (kernel, variant) = (case.kernel.clone(), case.variant.clone());
                plan.unit(&UnitId {
                    kernel,
                    variant,
                    arch,
                })
            }
        };
        unit.and_then(|unit| self.artifacts.get(&unit.id))
            .map(|artifact| match plan.case(case) {
                Some(case) => artifact.for_case(case),
                None => artifact.clone(),
            })
            .ok_or(SkipReason::NotRun(NotRun::NoArtifact))
    }
}

/// The side that evidence is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EvidenceSide {
    Head,
    Base,
}

impl EvidenceSide {
    /// Adds pieces of evidence to those of the run. Evidence about the base is marked as such.
    pub fn file(self, pieces: Vec<Evidence>, evidence: &mut Vec<Evidence>) {
        match self {
            Self::Head => evidence.extend(pieces),
            Self::Base => {
                evidence.extend(pieces.into_iter().map(Box::new).map(Evidence::Base));
            }
        }
    }

    /// Returns the words before what is done: `base of `, or nothing.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Head => "",
            Self::Base => "base of ",
        }
    }
}

/// The reasons for which a job was not even tried.
#[derive(Clone)]
pub(super) enum SkipReason {
    NotRun(NotRun),
    Broke(Fault),
    Unsupported(Unsupported),
}

impl SkipReason {
    /// Reports evidence that this program lost on the way. This is not a skip, because nobody decided on it.
    pub fn lost(what: &str) -> Self {
        Self::Broke(Fault::new(FaultKind::Environment, what.to_owned()))
    }

    pub fn into_seen<T>(self) -> Seen<T> {
        match self {
            Self::NotRun(why) => Seen::NotRun(why),
            Self::Broke(fault) => Seen::Fault(fault),
            Self::Unsupported(why) => Seen::Unsupported(why),
        }
    }
}
