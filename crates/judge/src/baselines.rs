//! Makes the baselines of a run: from everything that was built, proven right, and timed without throttling.

use super::agreed::{ANY_SHAPE, is_over_shapes, usable};
use super::index::{Index, Refusals, View};
use super::not_passed::{NotPassed, OrNotPassed, inconclusive, skipped};
use super::rules;
use super::value::Spread;
use model::*;
use std::collections::BTreeMap;
use std::mem::discriminant;

/// The parts of a record that may not become a baseline, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub subject: Subject,
    pub facet: Facet,
    /// `Skipped` if this run did not try to measure the value. Whatever stopped it has an entry of its own, which says
    /// more.
    pub outcome: Outcome,
    pub reason: Reason,
}

/// The treatment of times that were interleaved with the times of a base revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairedTimes {
    /// They do not become a baseline.
    Refused,
    /// Head's own samples become the baseline. The times that they are compared with were taken in the same way.
    Taken,
}

/// Returns the baselines that a record supports, and the parts that it does not support. `seal` is the record's own
/// seal.
pub fn acceptable(record: &Record, seal: &str) -> (Vec<Baseline>, Vec<Refused>) {
    let index = Index::new(record);
    let judgement = index.judge();
    let unsupported = |subject: &Subject| not_held_to_base(&judgement, subject);
    let (mut baselines, mut refusals) =
        make(record, &index, seal, PairedTimes::Refused, &unsupported);
    // The next run will have no such group, because its kernels will be at the base by then.
    let groups: Vec<&Unit> = record
        .plan
        .units
        .iter()
        .filter(|unit| unit.is_group())
        .collect();
    baselines.retain(|baseline| {
        !groups.iter().any(|unit| {
            (&unit.id.kernel, &unit.id.variant) == (&baseline.kernel, &baseline.variant)
        })
    });
    refusals.retain(|(subject, _), _| !record.plan.is_group(subject));
    (
        baselines,
        refusals
            .into_iter()
            .map(|((subject, facet), why)| Refused {
                subject,
                facet,
                outcome: why.outcome,
                reason: why.reason,
            })
            .collect(),
    )
}

/// Returns true if an update that replaces `agreed` with `new` accepts something worse. Another session of the same
/// code does not: it joins the earlier sessions, and their mean becomes the baseline.
pub fn accepts_worse(
    policy: &Policy,
    (subject, metric): (&Subject, Metric),
    agreed: &Agreed,
    new: &Agreed,
) -> bool {
    if !is_held(policy, subject, metric) {
        return false;
    }
    let is_another_session = match (&agreed.sessions, &new.sessions) {
        (Some(agreed), Some(new)) => agreed.identity == new.identity,
        _ => false,
    };
    !is_another_session && rules::baseline::is_worse(metric, agreed, new)
}

/// Returns true if somebody should know when this value gets worse. A baseline of times or profiles holds many values
/// that only describe the kernel: a kernel that gets faster varies by a larger share of its time, for example.
fn is_held(policy: &Policy, subject: &Subject, metric: Metric) -> bool {
    let is_gated = |gate: &Gate| {
        let Rule::Limit { metric: of, .. } = gate.rule else {
            return false;
        };
        of == metric && gate.subject == *subject
    };
    match metric.facet() {
        Facet::Resources | Facet::Correctness | Facet::Counters => true,
        Facet::Times if matches!(metric, Metric::P50 | Metric::Cycles) => true,
        Facet::Times | Facet::Profile => policy.gates.iter().any(is_gated),
    }
}

/// Makes the baselines that a record supports, and lists what it does not support.
pub(super) fn make(
    record: &Record,
    index: &Index,
    seal: &str,
    paired: PairedTimes,
    unsupported: &dyn Fn(&Subject) -> Option<NotPassed>,
) -> (Vec<Baseline>, Refusals) {
    let environment = &record.environment;
    let origin = Origin {
        record: seal.to_owned(),
        date: environment.started.clone(),
        gatekeeper: environment.gatekeeper.clone(),
        device: match (environment.device.got(), &environment.simulator) {
            (Some(device), _) => format!("{}, driver {}", device.name, device.driver),
            (None, Some(_)) => "simulator".to_owned(),
            (None, None) => "no device".to_owned(),
        },
        commit: environment.commit.clone(),
    };
    let mut baselines: BTreeMap<(String, String, BaselineKey), Baseline> = BTreeMap::new();
    let mut refusals = Refusals::new();
    for (subject, facet, view) in wanted(index.head()) {
        let found = match unsupported(&subject) {
            Some(why) => Err(why),
            None => agree(view, &subject, facet, paired),
        };
        match found {
            Ok((key, metrics)) => {
                let (kernel, variant) = (subject.kernel().to_owned(), subject.variant().to_owned());
                let at = (kernel.clone(), variant.clone(), key.clone());
                let baseline = baselines.entry(at).or_insert_with(|| Baseline {
                    schema: BASELINE_SCHEMA.to_owned(),
                    kernel,
                    variant,
                    key,
                    origin: origin.clone(),
                    cases: BTreeMap::new(),
                });
                let shape = match &subject {
                    Subject::Unit(_) => ANY_SHAPE,
                    Subject::Case(id) => &id.shape,
                };
                baseline.cases.insert(shape.to_owned(), metrics);
            }
            Err(why) => {
                // If there are several architectures, the first one gives the reason.
                refusals.entry((subject, facet)).or_insert(why);
            }
        }
    }
    (baselines.into_values().collect(), refusals)
}

/// Returns why a run that was compared with a base does not support what it measured of a subject. If the references of
/// the two differ, it is open what head should compute, and an update must not accept that. It accepts only what the
/// change agrees on.
fn not_held_to_base(judgement: &Judgement, subject: &Subject) -> Option<NotPassed> {
    let is_in_the_way = |verdict: &&Verdict| match &verdict.question {
        Question::NoLooser(BaseDemand::Baseline(_) | BaseDemand::NoAcceptance) => false,
        Question::NoLooser(_) => verdict.outcome != Outcome::Pass,
        Question::Gate(_)
        | Question::Baseline
        | Question::Acceptance(_)
        | Question::Failure(_)
        | Question::UngatedResources => false,
    };
    let verdict = judgement
        .verdicts
        .iter()
        .filter(is_in_the_way)
        .find(|verdict| covers(&verdict.subject, subject))?;
    Some(NotPassed {
        outcome: verdict.outcome,
        reason: Reason::NotHeldToBase {
            why: Box::new(verdict.reason.clone()),
        },
    })
}

/// Returns true if a verdict on one subject also covers another one: a part of its name may be `*`.
fn covers(all: &Subject, subject: &Subject) -> bool {
    match (all, subject) {
        (Subject::Case(all), Subject::Case(id)) => {
            let is_part = |all: &str, part: &str| all == "*" || all == part;
            is_part(&all.kernel, &id.kernel)
                && is_part(&all.variant, &id.variant)
                && is_part(&all.shape, &id.shape)
        }
        (all, subject) => all == subject,
    }
}

/// Keeps the wins that an update could take over without also accepting a failure. An update of a case takes the
/// resources of its variant, too, and an update of a variant takes all of its cases.
pub(super) fn keep_sound_wins(wins: &mut Vec<Win>, verdicts: &[Verdict]) {
    let failed: Vec<_> = verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .map(|verdict| &verdict.subject)
        .collect();
    let spoils = |failed: &Subject, subject: &Subject| match (failed, subject) {
        (Subject::Case(_), Subject::Case(_)) => covers(failed, subject),
        (Subject::Unit(_), _) | (_, Subject::Unit(_)) => {
            (failed.kernel(), failed.variant()) == (subject.kernel(), subject.variant())
        }
    };
    wins.retain(|win| !failed.iter().any(|failed| spoils(failed, &win.subject)));
}

/// Returns everything of a run that could have a baseline, and for which architecture.
fn wanted<'i, 'a>(view: View<'i, 'a>) -> Vec<(Subject, Facet, View<'i, 'a>)> {
    let plan = view.plan();
    // A variant that is kept although it is wrong is no measure for anything.
    let is_right = |kernel: &str, variant: &str| plan.expected(kernel, variant).is_none();
    let units = plan
        .units
        .iter()
        .filter(move |unit| is_right(&unit.id.kernel, &unit.id.variant))
        .map(|unit| (Subject::Unit(unit.id.clone()), Facet::Resources, view));
    let cases = plan
        .cases
        .iter()
        .filter(move |case| is_right(&case.id.kernel, &case.id.variant))
        .flat_map(|case| view.distinct_ptx(&case.id).map(move |view| (case, view)))
        .flat_map(|(case, view)| {
            // A case whose times no gate limits has no times to agree on, and only the simulator counts.
            let is_counted = !view.gateable(&case.id).is_empty() || are_withheld(view, &case.id);
            let facets = [
                Some(Facet::Correctness),
                case.timed.then_some(Facet::Times),
                is_counted.then_some(Facet::Counters),
                plan.profiling.is_some().then_some(Facet::Profile),
            ];
            facets
                .into_iter()
                .flatten()
                .map(move |facet| (Subject::Case(case.id.clone()), facet, view))
        });
    units.chain(cases).collect()
}

/// Returns true if every counter of the case is withheld: no gate can rest on any of them, and no older value stands
/// in.
fn are_withheld(view: View, id: &CaseId) -> bool {
    view.gateable(id).is_empty() && view.withheld(id).is_ok_and(|all| !all.is_empty())
}

/// Returns every metric of one facet that has a value fit to be agreed on.
fn agree(
    view: View,
    subject: &Subject,
    facet: Facet,
    paired: PairedTimes,
) -> OrNotPassed<(BaselineKey, BTreeMap<Metric, Agreed>)> {
    let key = view.key(subject, facet)?;
    if let Subject::Case(id) = subject {
        view.timeable(id)?;
        if facet == Facet::Times {
            // These samples were interleaved with another kernel's, which is another protocol of timing.
            if paired == PairedTimes::Refused && !view.filed().pairs.get(id).is_empty() {
                return skipped(Reason::TimedAgainstBase);
            }
            if let count @ 1.. = view.throttled(id) {
                return inconclusive(Reason::ThrottledProcesses { count });
            }
        }
    }
    let session = session(view, subject, facet);
    let mut metrics = BTreeMap::new();
    let mut lack: Option<NotPassed> = None;
    let of_facet = |metric: &Metric| metric.facet() == facet && metric.has_relative();
    for metric in Metric::ALL.into_iter().filter(of_facet) {
        // This metric is the worst over all shapes, and the run has only some of the shapes.
        if view.plan().is_partial(subject.kernel()) && is_over_shapes(metric) {
            continue;
        }
        let found = match subject {
            Subject::Case(id) => view.has_enough_singles(id, metric),
            Subject::Unit(_) => Ok(()),
        };
        let found = found
            .and_then(|()| view.metric(subject, metric))
            .and_then(|value| {
                let agreed = Agreed {
                    value: Num(value.number),
                    spread: value.spread.map(|spread| Num(spread.to_keep())),
                    processes: value.spread.map(Spread::count),
                    sessions: session(Num(value.number)),
                };
                usable(metric, &agreed, &Against::Baseline).map(|_| agreed)
            });
        match found {
            Ok(agreed) => {
                metrics.insert(metric, agreed);
            }
            Err(why) => lack = lack.or(Some(why)),
        }
    }
    match (metrics.is_empty(), lack) {
        (false, _) => Ok((key, metrics)),
        // The case has no counter that could be agreed on, and the empty list is what the baseline says.
        (true, _) if facet == Facet::Counters => Ok((key, metrics)),
        (true, Some(why)) => Err(why),
        (true, None) => inconclusive(Reason::NothingMeasured),
    }
}

/// Returns a function that records where, when and of which code a value was measured. Only times get a session, as
/// only times differ between days and GPUs.
fn session(view: View, subject: &Subject, facet: Facet) -> impl Fn(Num) -> Option<Sessions> {
    let known = || {
        let (Subject::Case(case), Facet::Times) = (subject, facet) else {
            return None;
        };
        let unit = view.unit_on_device(case).ok()?;
        let identity = view.build(&unit.id).ok()?.identity.clone();
        let (started, gpu) = view.environment().origin(case);
        let (day, gpu) = (started.get(..10)?, gpu?);
        Some((identity, format!("{day} {gpu}")))
    };
    let known = known();
    move |value| {
        let (identity, session) = known.clone()?;
        Some(Sessions {
            identity,
            seen: [(session, value)].into(),
            earlier: None,
        })
    }
}

/// Returns the cases that one of two records timed alone and the other interleaved with a base revision.
pub(super) fn timed_by_two_protocols(base: &Record, head: &Record) -> Vec<CaseId> {
    let ways = |record: &Record| {
        let mut ways = BTreeMap::new();
        for piece in &record.evidence {
            if let Evidence::Time { case, .. } | Evidence::Pair { case, .. } = piece {
                ways.insert(case.clone(), discriminant(piece));
            }
        }
        ways
    };
    let base = ways(base);
    ways(head)
        .into_iter()
        .filter(|(case, way)| base.get(case).is_some_and(|other| other != way))
        .map(|(case, _)| case)
        .collect()
}
