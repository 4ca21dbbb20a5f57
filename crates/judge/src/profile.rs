//! Floor 2: figures of a case's profiles.

use super::index::{Index, View};
use super::lookup::{Judged, got, inconclusive, unsupported};
use super::value::{BaseStatus, MetricValue, Repeats, Spread, misplaced};
use model::*;

/// A case to be profiled, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiled {
    pub case: CaseId,
    pub repeats: u32,
    /// The base has it too, with other code, and is profiled as often.
    pub against_base: bool,
}

/// Cases to be profiled, in the order of the plan: those that are right. One that a relative limit rests on is
/// profiled several times.
pub fn to_profile(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Vec<Profiled> {
    let (Some(profiling), true) = (plan.profiling, environment.device.got().is_some()) else {
        return Vec::new();
    };
    let index = Index::new(plan, environment, policy, evidence);
    let view = index.head();
    let is_right = |case: &&Case| view.timeable(&case.id).is_ok();
    let is_compared = |id: &CaseId| {
        let mut gates = policy.gates.iter();
        gates.any(|gate| match &gate.rule {
            Rule::Limit {
                metric: Metric::Profile(_),
                limit: Limit::Baseline { .. } | Limit::Anchor { .. },
            } => gate.subject == Subject::Case(id.clone()),
            _ => false,
        })
    };
    let cases = plan.cases.iter().filter(is_right);
    cases
        .map(|case| Profiled {
            case: case.id.clone(),
            repeats: match is_compared(&case.id) {
                true => profiling.repeats,
                false => 1,
            },
            against_base: view.base_status(&case.id) == Ok(BaseStatus::Changed),
        })
        .collect()
}

impl<'a> View<'_, 'a> {
    /// Whether this run profiles.
    ///
    /// # Errors
    /// Where it has no GPU.
    fn is_profiled(self, id: &CaseId) -> Judged<bool> {
        self.case(id)?;
        self.device()?;
        Ok(self.plan().profiling.is_some())
    }

    /// The median of the repeats, with the smallest and the largest of them.
    pub(super) fn profile_value(self, id: &CaseId, metric: Metric) -> Judged<MetricValue> {
        let Metric::Profile(of) = metric else {
            return misplaced(metric);
        };
        if self.is_profiled(id)? {
            self.timeable(id)?;
        }
        let profiles = self.profiles(id)?;
        let mut figures = Vec::new();
        for profile in profiles {
            figures.push(figure(profile, of)?);
        }
        figures.sort_unstable_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (figures.first(), figures.last()) else {
            return inconclusive(Reason::NotInProfile { metric });
        };
        let number = match figures.iter().any(|figure| figure.is_nan()) {
            true => f64::NAN,
            false => figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN),
        };
        Ok(MetricValue {
            number,
            spread: Some(Spread::Repeats(Repeats {
                low,
                high,
                count: figures.len(),
            })),
        })
    }
}

/// The value over all kernels of the launch.
pub fn figure(profile: &ProfileFacts, of: ProfileMetric) -> Judged<f64> {
    let metric = Metric::Profile(of);
    let figures = profile.kernels.iter();
    let figures = figures.map(|kernel| match kernel.metrics.get(&of) {
        Some(seen) => got(seen).map(|value| value.0),
        None => inconclusive(Reason::NotInProfile { metric }),
    });
    let figures = figures.collect::<Judged<Vec<f64>>>()?;
    match (figures.as_slice(), of.joined()) {
        ([], _) => inconclusive(Reason::NotInProfile { metric }),
        ([one], _) => Ok(*one),
        (all, Joined::Sum) => Ok(all.iter().sum()),
        (all, Joined::Apart) => unsupported(Reason::Unsupported(Unsupported::SeveralKernels {
            kernels: u32::try_from(all.len()).unwrap_or(u32::MAX),
        })),
    }
}
