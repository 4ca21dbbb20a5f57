//! Describes the base that a run as a whole was held against, and how its timed cases stand to it.

use super::counterpart::BaseStatus;
use super::index::View;
use super::review::{Ended, without_answer_of_base};
use super::rules::base::effort;
use super::rules::correctness;
use model::*;

pub(super) fn summarise(view: View) -> Option<AgainstBase> {
    let base = view.policy().base.as_ref()?;
    let pairing = view.plan().pairing.as_ref();
    let mut beside = AgainstBase {
        revision: base.revision.clone(),
        commit: base.commit.clone(),
        toolchain: base.toolchain.clone(),
        no_gates: base.no_gates.clone(),
        changed: Vec::new(),
        unchanged: Vec::new(),
        unchanged_timed: pairing.is_some_and(|pairing| pairing.unchanged),
        new: Vec::new(),
        checked: cases_where(view, |id| answered(view, id) == Some(true)),
        unanswered: cases_where(view, |id| answered(view, id) == Some(false)),
        checked_alike: cases_where(view, |id| {
            view.distinct_ptx(id).all(|view| view.is_same_check(id))
        }),
        unchecked: cases_where(view, |id| {
            let is_new = base.plan.case(id).is_none() && base.plan.gap(id).is_none();
            is_new && !is_checked(view, id)
        }),
        unknown: Vec::new(),
        effort: effort(&[], None),
    };
    let mut measured = Vec::new();
    let mut most = 0;
    for case in view.plan().cases.iter().filter(|case| case.timed) {
        let list = match view.base_status(&case.id) {
            Ok(BaseStatus::Changed) => &mut beside.changed,
            Ok(BaseStatus::Unchanged) => &mut beside.unchanged,
            // It is not new, and nothing of the base's is there to be timed with.
            Ok(BaseStatus::New) if base.plan.gap(&case.id).is_some() => &mut beside.unknown,
            Ok(BaseStatus::New) => &mut beside.new,
            Ok(BaseStatus::NoBase) | Err(_) => &mut beside.unknown,
        };
        list.push(case.id.clone());
        let seen = view.filed().pairs.get(&case.id).iter();
        let seen: Vec<_> = seen.filter_map(|(_, seen)| seen.got()).collect();
        most = most.max(seen.len());
        measured.extend(seen);
    }
    beside.effort = Effort {
        processes: u32::try_from(most).unwrap_or(u32::MAX),
        ..effort(&measured, None)
    };
    Some(beside)
}

fn cases_where(view: View, is_meant: impl Fn(&CaseId) -> bool) -> Vec<CaseId> {
    view.plan()
        .cases
        .iter()
        .map(|case| &case.id)
        .filter(|id| is_meant(id))
        .cloned()
        .collect()
}

/// Returns true if the base's checks of a case all gave an answer, or `None` if the base was not asked. A kernel that
/// breaks has given an answer, too.
fn answered(view: View, id: &CaseId) -> Option<bool> {
    let base = view.base()?;
    let seeds = &base.planned_case(id)?.seeds;
    base.was_checked(id).then(|| {
        seeds.iter().all(|&seed| match base.check(id, seed) {
            Ok(_) => true,
            Err(why) => why.outcome == Outcome::Fail && without_answer_of_base(why) == Ended::Held,
        })
    })
}

/// Returns true if a check of a case gave an answer.
fn is_checked(view: View, id: &CaseId) -> bool {
    let subject = Subject::Case(id.clone());
    match correctness::check_finite(view, &subject) {
        Ok(_) => true,
        Err(why) => why.outcome == Outcome::Fail,
    }
}
