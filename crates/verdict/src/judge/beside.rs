//! What a run as a whole was held against, and how its timed cases stand to it.

use super::rules::base::effort;
use super::rules::correctness;
use super::value::{BaseStatus, Values};
use crate::model::*;

pub(super) fn beside_base(values: &Values) -> Option<BesideBase> {
    let lookup = &values.lookup;
    let base = lookup.policy.base.as_ref()?;
    let pairing = lookup.plan.pairing.as_ref();
    let mut beside = BesideBase {
        revision: base.revision.clone(),
        commit: base.commit.clone(),
        changed: Vec::new(),
        unchanged: Vec::new(),
        unchanged_timed: pairing.is_some_and(|it| it.unchanged),
        new: Vec::new(),
        unchecked: unchecked(values, base),
        unknown: Vec::new(),
        effort: effort(&[], None),
    };
    let mut measured = Vec::new();
    let mut most = 0;
    for case in lookup.plan.cases.iter().filter(|case| case.timed) {
        let list = match values.base_status(&case.id) {
            Ok(BaseStatus::Changed) => &mut beside.changed,
            Ok(BaseStatus::Unchanged) => &mut beside.unchanged,
            Ok(BaseStatus::New) => &mut beside.new,
            Ok(BaseStatus::NoBase) | Err(_) => &mut beside.unknown,
        };
        list.push(case.id.clone());
        let seen = lookup.timed_beside(&case.id).iter();
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

/// A case that is new is held against nothing, so that nothing is known of it where it was not checked either.
fn unchecked(values: &Values, base: &Base) -> Vec<CaseId> {
    let cases = values.lookup.plan.cases.iter().map(|case| &case.id);
    let new = cases.filter(|id| base.plan.case(id).is_none());
    let is_checked = |id: &CaseId| {
        let subject = Subject::Case(id.clone());
        let found = correctness::check_finite(&values.lookup, &subject);
        match found {
            Ok(_) => true,
            Err(why) => why.outcome == Outcome::Fail,
        }
    };
    new.filter(|id| !is_checked(id)).cloned().collect()
}
