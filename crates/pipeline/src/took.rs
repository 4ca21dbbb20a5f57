//! Records how long each case kept workers busy. A later run deals its cases out by these times.

use model::{CaseCost, CaseId, Plan};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Meter(Mutex<HashMap<CaseId, Duration>>);

impl Meter {
    pub fn add(&self, case: &CaseId, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry(case.clone()).or_default() += took;
    }

    /// Returns the costs in the order of the plan.
    pub fn read(self, plan: &Plan) -> Vec<CaseCost> {
        let all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        plan.cases
            .iter()
            .map(|case| &case.id)
            .filter_map(|case| {
                Some(CaseCost {
                    case: case.clone(),
                    ms: milliseconds(*all.get(case)?),
                })
            })
            .collect()
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
