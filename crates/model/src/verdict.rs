use super::{
    CaseId, Counter, Limit, Metric, NoGates, Num, Question, Reason, Rule, Since, Subject, Withheld,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to one question. It has everything that a report shows, and reports decide nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    pub subject: Subject,
    pub question: Question,
    pub outcome: Outcome,
    pub reason: Reason,
    pub measured: Option<Num>,
    /// The limit as a value, if it is one.
    pub limit: Option<Num>,
    pub baseline: Option<Num>,
    /// The relative change: (measured - baseline) / baseline.
    pub change: Option<Num>,
    /// The 95 % interval of `change`, for times.
    pub interval: Option<[Num; 2]>,
    /// The smallest change that this verdict could have distinguished from none.
    pub smallest_visible: Option<Num>,
    /// The effort that the comparison of times took.
    pub effort: Option<Effort>,
    /// The place where the gate was declared.
    pub declared: Option<String>,
}

/// How far a value has moved since an anchor, whether or not a gate limits that.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    pub subject: Subject,
    pub metric: Metric,
    pub since: Since,
    /// The anchor's commit, or the versions that the best level was found in.
    pub found: String,
    pub was: Num,
    pub measured: Num,
    /// The relative change: (measured - was) / was.
    pub change: Num,
    /// The 95 % interval of `change`, for times.
    pub interval: Option<[Num; 2]>,
}

/// The measurements behind a verdict on times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effort {
    pub processes: u32,
    /// The number of samples of both sides, over all processes.
    pub samples: u64,
    /// The GPU time of the whole case. Its other verdicts on times rest on it, too. Unknown for a case that was timed
    /// alone.
    pub gpu_ms: Option<Num>,
}

/// The revision that a run was compared with, and how its timed cases compare with it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AgainstBase {
    /// The base as it was named: `origin/main`, `nvcc 13.0`.
    pub revision: String,
    /// The abbreviated hash of its commit.
    pub commit: String,
    /// The compiler that makes the same files a base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// Says that the base has no gates for the run's file of gates, so that nothing was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gates: Option<NoGates>,
    /// Cases that were timed interleaved with the base.
    pub changed: Vec<CaseId>,
    /// Cases with the same machine code, launch and arguments.
    pub unchanged: Vec<CaseId>,
    /// True if the unchanged cases were timed against the base, too.
    pub unchanged_timed: bool,
    /// Cases that the base does not have.
    pub new: Vec<CaseId>,
    /// Cases, timed or not, that the base was also checked on, with an answer for every seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<CaseId>,
    /// Cases that the base was asked about and has no answer to, for at least one seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<CaseId>,
    /// Cases that the base checks as head does: the same code and call, over the same inputs, against the same
    /// reference. Head's answer is also the base's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked_alike: Vec<CaseId>,
    /// Cases, timed or not, that the base does not have and for which no check gave an answer on this device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<CaseId>,
    /// Cases for which it is unknown, because a device or a build is missing. Their verdicts say which.
    pub unknown: Vec<CaseId>,
    /// The effort over all cases that were timed against the base. A process times many of them, so `processes` is the
    /// most that any case took.
    pub effort: Effort,
}

named! {
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Outcome {
    /// The limit is broken, or the kernel faulted.
    Fail = "fail",
    /// The device, its driver or the machine failed.
    Environment = "environment",
    /// There is evidence, and it does not decide.
    Inconclusive = "inconclusive",
    /// This device or tool cannot judge it.
    Unsupported = "unsupported",
    /// It was not run, for a reason that is no fault: no GPU, filtered out, an earlier failure.
    Skipped = "skipped",
    /// It did not hold, and another variant stands in for this one.
    Replaced = "replaced",
    /// It failed, of a variant that is kept to fail there.
    Expected = "expected",
    Pass = "pass",
}
}

/// Everything that `judge` says about a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Judgement {
    pub conclusion: Conclusion,
    /// The verdicts in the order of the policy's gates. They are followed by those on baseline files that cannot be
    /// used, on acceptances that have expired or are of no use, and in a comparison on what head no longer asks.
    pub verdicts: Vec<Verdict>,
    /// The verdicts that did not hold, by cause: new ones first, and the worst before others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<super::Problem>,
    /// How the run compares with its base, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<AgainstBase>,
    /// The parts of the compiler that broke gates, if the run exchanged them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blames: Vec<super::Blame>,
    /// How kernels compare with their rivals, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<RivalStanding>,
    /// Gates that are broken, and pass because that was accepted.
    pub accepted: Vec<Accepted>,
    /// Values better than the baseline by more than the limit, to be accepted with `baseline update`.
    pub wins: Vec<Win>,
    /// Drift from anchors, and from the best level that was kept up.
    pub drifts: Vec<Drift>,
    /// The targets in the order of gates.yaml.
    pub targets: Vec<Aimed>,
    /// Resources that are worse than before, and that no gate limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ungated: Vec<Ungated>,
    /// Counters that differ from what was agreed, whether or not a gate allows it.
    pub counters: Vec<CounterChange>,
    /// Shapes and variants without any baseline yet, and baselines whose case is gone.
    pub notes: Vec<Note>,
}

/// Resources of a unit that are worse than before, and that no gate limits.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ungated {
    pub subject: Subject,
    pub against: super::Against,
    pub values: Vec<super::WorseValue>,
}

/// How the timed cases of a kernel compare with one of its rivals, which ran in the same run on the same GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RivalStanding {
    pub kernel: String,
    pub rival: String,
    /// The versions that the rival reports.
    pub versions: BTreeMap<String, String>,
    /// The cases in the order of the plan, each with the backends in the order of gates.yaml.
    pub compared: Vec<AgainstRival>,
    pub not_compared: Vec<NotCompared>,
}

/// The median times of one launch on both sides, in ns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AgainstRival {
    pub case: CaseId,
    pub backend: String,
    pub ours: Num,
    pub theirs: Num,
    /// theirs / ours: above 1 if the case is faster.
    pub times_as_fast: Num,
}

/// Backends that have no times for some cases, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NotCompared {
    pub backends: Vec<String>,
    pub outcome: Outcome,
    pub reason: Reason,
    pub cases: Vec<CaseId>,
}

/// A gate that is broken, and that somebody has accepted under their name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accepted {
    pub subject: Subject,
    pub rule: Rule,
    /// `Reason::Accepted`, or `Reason::FindingsAccepted` with one of them.
    pub reason: Reason,
    /// The place where the failure was accepted.
    pub declared: String,
}

/// How a value compares with its target.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Aimed {
    pub subject: Subject,
    pub rule: Rule,
    pub standing: Standing,
    pub measured: Option<Num>,
    /// The target as a value, if it is one.
    pub limit: Option<Num>,
    /// (measured - limit) / limit, if both are known.
    pub change: Option<Num>,
    pub reason: Reason,
    /// Why the target is missed, as gates.yaml says. A miss with a reason is a recorded negative result.
    pub because: Option<String>,
    pub declared: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Met,
    Missed,
    NotMeasured,
}

/// The result of the whole run in a word. The exit code follows from it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    Pass,
    Fail,
    Environment,
    Inconclusive,
    #[default]
    NothingJudged,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Win {
    pub subject: Subject,
    pub metric: Metric,
    pub measured: Num,
    pub baseline: Num,
    pub change: Num,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CounterChange {
    pub subject: Subject,
    pub counter: Counter,
    pub measured: Num,
    pub baseline: Num,
    pub change: Num,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// There is no baseline under any key. This is reported, and is no failure.
    New {
        subject: Subject,
        facet: super::Facet,
    },
    /// The baseline names a case that the plan does not have.
    Gone {
        kernel: String,
        variant: String,
        shape: String,
        facet: super::Facet,
    },
    /// Cases of the base record that a filter left out of head's. They are not judged.
    LeftOut { cases: Vec<CaseId> },
    /// The reference has inputs that the base's did not have, and computes the same with these values in them.
    NewInputs {
        subject: Subject,
        neutral: Vec<super::NeutralInput>,
    },
    /// The base has it under another name, and is compared under head's.
    Renamed(super::Rename),
    /// The base's file of gates had these, and another file of head has them.
    Moved(super::MovedGates),
    /// A baseline file that cannot be used, of a variant that is not part of this run.
    Broken { path: String, problem: String },
    /// An access that the simulator's checks could not judge, in any launch.
    NotJudged { subject: Subject, what: String },
    /// A hazard within a warp that fails nothing, for the first seed that shows it, and how many others the case has.
    WarpHazard {
        subject: Subject,
        finding: Box<super::Finding>,
        more: usize,
    },
    /// The output of a case in the simulator, for the first of its seeds that printed.
    Printed {
        subject: Subject,
        seed: u64,
        text: String,
        /// The number of bytes that are not kept.
        left_out: u64,
    },
    /// Elements of a case's outputs that are compared, and those that gates.yaml leaves out.
    NotCompared {
        subject: Subject,
        elements: u64,
        left_out: u64,
    },
    /// Counters that a gate could rest on in general, but not in a launch of this case, and why.
    NotHeld {
        subject: Subject,
        counters: Vec<Counter>,
        why: Withheld,
    },
    /// The single launches of a case have two modes: where each is, and its share (0 to 1).
    TwoModes {
        subject: Subject,
        fast_ns: Num,
        slow_ns: Num,
        slow_share: Num,
    },
    /// Timing processes that ran on a throttled GPU, and were dropped.
    Throttled { subject: Subject, processes: u32 },
    /// Timing processes during which the GPU's throttling was not read. They count.
    Unwatched { subject: Subject, processes: u32 },
    /// Timing processes during which others computed on the same GPU. They count, and spread more.
    Shared {
        subject: Subject,
        processes: u32,
        others: Vec<super::OtherProcess>,
    },
}

impl Verdict {
    /// Returns a verdict that rests on no values.
    pub fn without_figures(
        subject: Subject,
        question: Question,
        outcome: Outcome,
        reason: Reason,
        declared: Option<String>,
    ) -> Self {
        Self {
            subject,
            question,
            outcome,
            reason,
            measured: None,
            limit: None,
            baseline: None,
            change: None,
            interval: None,
            smallest_visible: None,
            effort: None,
            declared,
        }
    }

    /// Returns the metric that the gate limits.
    pub fn metric(&self) -> Option<Metric> {
        match &self.question {
            Question::Gate(rule) => rule.metric(),
            Question::Baseline
            | Question::Acceptance(_)
            | Question::NoLooser(_)
            | Question::Failure(_)
            | Question::UngatedResources => None,
        }
    }

    /// Returns true if `baseline` and `change` are those of an anchor, and not of the last baseline.
    pub fn is_anchored(&self) -> bool {
        matches!(
            self.question,
            Question::Gate(Rule::Limit {
                limit: Limit::Anchor { .. },
                ..
            })
        )
    }
}

impl Judgement {
    pub fn count(&self, outcome: Outcome) -> usize {
        self.verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome)
            .count()
    }
}
