//! Collects the answers of references for the cases of a run.

use crate::event::{Event, Phase};
use check::cache::{Answer, References, digests};
use model::{Case, CaseId, Evidence, Plan, Seen};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// The right answers by case and seed.
#[derive(Default)]
pub(super) struct Answers {
    pub found: HashMap<(CaseId, u64), Seen<Answer>>,
    outputs: HashMap<(CaseId, u64), BTreeMap<String, String>>,
    pub wall: Duration,
}

impl Answers {
    /// Computes the answers for all seeds of these cases.
    pub fn compute<'a>(
        cases: impl Iterator<Item = &'a Case>,
        references: &References,
        on: &(dyn Fn(Event) + Sync),
    ) -> Self {
        Self::compute_seeds(
            cases
                .flat_map(|case| case.seeds.iter().map(move |&seed| (case, seed)))
                .collect(),
            references,
            on,
        )
    }

    pub fn compute_seeds(
        wanted: Vec<(&Case, u64)>,
        references: &References,
        on: &(dyn Fn(Event) + Sync),
    ) -> Self {
        let began = Instant::now();
        on(Event::Began {
            phase: Phase::Reference,
            steps: wanted.len() as u64,
        });
        // They are computed one after another, because each uses all cores by itself.
        let found: HashMap<_, _> = wanted
            .into_iter()
            .map(|(case, seed)| {
                let answer = references.answer(case, seed);
                on(Event::Stepped {
                    phase: Phase::Reference,
                    what: case.id.to_string(),
                });
                ((case.id.clone(), seed), answer)
            })
            .collect();
        let outputs = found.par_iter().filter_map(|(of, answer)| {
            let digests = digests(answer.got()?).ok()?;
            Some((of.clone(), digests))
        });
        Self {
            outputs: outputs.collect(),
            found,
            wall: began.elapsed(),
        }
    }

    /// Adds the digests of outputs that an earlier run compared with.
    pub fn add_digests(&mut self, case: &CaseId, seed: u64, outputs: BTreeMap<String, String>) {
        self.outputs.insert((case.clone(), seed), outputs);
    }

    pub fn digests_of(&self, case: &CaseId, seed: u64) -> Option<BTreeMap<String, String>> {
        self.outputs.get(&(case.clone(), seed)).cloned()
    }

    /// Returns digests of the reference outputs, for comparisons of two records.
    pub fn digests(&self, plan: &Plan) -> Vec<Evidence> {
        plan.cases
            .iter()
            .flat_map(|case| case.seeds.iter().map(move |&seed| (&case.id, seed)))
            .filter_map(|(case, seed)| {
                Some(Evidence::Reference {
                    case: case.clone(),
                    seed,
                    outputs: self.outputs.get(&(case.clone(), seed))?.clone(),
                })
            })
            .collect()
    }
}
