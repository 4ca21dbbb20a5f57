//! Decides which shard gets which cases. The answer is the same on every machine, because it follows from the plan and
//! from recorded costs.
//!
//! Variants of a kernel at one shape stay together, because they are compared within a run: by limits that name a
//! sibling, as a reference, with one rival, or as fallbacks.

use model::{Case, CaseCost, CaseId, Plan};
use std::cmp::Reverse;
use std::collections::HashMap;

/// There are more shards than groups of cases that stay together.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany {
    pub groups: usize,
}

/// The weight in bytes of a case without tensors if no costs are recorded: it has to be built and its workers started.
const EACH: u64 = 1 << 20;

/// Cases of one kernel and shape, with their common cost.
struct CaseGroup<'a> {
    cases: Vec<&'a CaseId>,
    cost: u64,
}

/// Deals the cases out to `of` shards and returns those of each, in the order of the plan.
///
/// The most expensive group goes first, each to the shard that has the least to do so far. No shard is empty, and the
/// longest takes at most 4/3 of the time that it would take in the best dealing.
pub fn deal(plan: &Plan, of: u32, took: &[CaseCost]) -> Result<Vec<Vec<CaseId>>, TooMany> {
    let mut groups = groups(plan, &costs(plan, took));
    let of = usize::try_from(of).unwrap_or(usize::MAX);
    if groups.len() < of {
        return Err(TooMany {
            groups: groups.len(),
        });
    }
    // The sort is stable, so that groups of equal cost stay in the order of the plan.
    groups.sort_by_key(|group| Reverse(group.cost));
    let mut shards: Vec<(u64, Vec<&CaseId>)> = vec![(0, Vec::new()); of];
    for group in groups {
        if let Some((cost, cases)) = shards.iter_mut().min_by_key(|(cost, _)| *cost) {
            *cost = cost.saturating_add(group.cost);
            cases.extend(group.cases);
        }
    }
    let in_order = |chosen: Vec<&CaseId>| {
        plan.cases
            .iter()
            .map(|case| &case.id)
            .filter(|id| chosen.contains(id))
            .cloned()
            .collect()
    };
    Ok(shards
        .into_iter()
        .map(|(_, cases)| in_order(cases))
        .collect())
}

fn groups<'a>(plan: &'a Plan, costs: &[u64]) -> Vec<CaseGroup<'a>> {
    let mut groups: Vec<CaseGroup> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (case, cost) in plan.cases.iter().zip(costs) {
        let key = (case.id.kernel.as_str(), case.id.shape.as_str());
        let at = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => {
                group.cases.push(&case.id);
                group.cost = group.cost.saturating_add(*cost);
            }
            None => groups.push(CaseGroup {
                cases: vec![&case.id],
                cost: *cost,
            }),
        }
    }
    groups
}

/// Returns the cost of each case, none of which is 0. A case that the record does not have gets the mean of those that
/// it has.
fn costs(plan: &Plan, took: &[CaseCost]) -> Vec<u64> {
    let took: HashMap<&CaseId, u64> = took
        .iter()
        .map(|time| (&time.case, time.ms.max(1)))
        .collect();
    let (count, sum) = plan
        .cases
        .iter()
        .filter_map(|case| took.get(&case.id))
        .fold((0u64, 0u64), |(count, sum), ms| {
            (count + 1, sum.saturating_add(*ms))
        });
    let cost = |case: &Case| match sum.checked_div(count) {
        Some(mean) => took.get(&case.id).copied().unwrap_or(mean),
        None => weight(case),
    };
    plan.cases.iter().map(cost).collect()
}

fn weight(case: &Case) -> u64 {
    let bytes = case
        .tensors
        .iter()
        .map(|tensor| {
            let bytes = tensor.span().saturating_mul(tensor.elem.size());
            u64::try_from(bytes).unwrap_or(u64::MAX)
        })
        .fold(EACH, u64::saturating_add);
    bytes.saturating_mul((case.seeds.len() as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;
    use model::{ElemType, Role, Tensor};
    use std::collections::BTreeSet;

    /// Returns a plan with two variants of each kernel at each of its shapes.
    fn plan(shapes: &[(&str, &[&str])]) -> Plan {
        let mut plan = fixture::record().plan;
        let like = plan.cases.remove(0);
        let case = |kernel: &str, variant: &str, shape: &str| {
            let mut case = like.clone();
            case.id = CaseId::new(kernel, variant, shape);
            case
        };
        let mut cases = Vec::new();
        for (kernel, shapes) in shapes {
            for variant in ["a", "b"] {
                cases.extend(shapes.iter().map(|shape| case(kernel, variant, shape)));
            }
        }
        Plan { cases, ..plan }
    }

    fn took(plan: &Plan, ms: impl Fn(&CaseId) -> u64) -> Vec<CaseCost> {
        plan.cases
            .iter()
            .map(|case| case.id.clone())
            .map(|case| CaseCost {
                ms: ms(&case),
                case,
            })
            .collect()
    }

    #[test]
    fn deals_every_case_once_and_keeps_compared_ones_together() {
        let plan = plan(&[("k", &["s", "m", "l"]), ("l", &["s", "m"])]);
        for of in 1..=5 {
            let dealt = deal(&plan, of, &[]).unwrap();
            assert_eq!(dealt, deal(&plan, of, &[]).unwrap());
            assert_eq!(dealt.len(), of as usize);
            assert!(dealt.iter().all(|cases| !cases.is_empty()));
            let all: Vec<&CaseId> = dealt.iter().flatten().collect();
            let once: BTreeSet<&CaseId> = all.iter().copied().collect();
            assert_eq!((all.len(), once.len()), (10, 10));
            for cases in &dealt {
                for id in cases {
                    let sibling = CaseId {
                        variant: if id.variant == "a" { "b" } else { "a" }.to_owned(),
                        ..id.clone()
                    };
                    assert!(cases.contains(&sibling), "{id} without {sibling}");
                }
            }
        }
        assert_eq!(deal(&plan, 6, &[]), Err(TooMany { groups: 5 }));
    }

    /// One shape takes as long as the four others together.
    #[test]
    fn recorded_costs_balance_and_a_missing_one_counts_as_the_mean() {
        let plan = plan(&[("k", &["s1", "s2", "s3", "s4", "long"])]);
        let known = took(&plan, |case| if case.shape == "long" { 400 } else { 100 });
        let dealt = deal(&plan, 2, &known).unwrap();
        let shapes = |cases: &[CaseId]| -> BTreeSet<String> {
            cases.iter().map(|case| case.shape.clone()).collect()
        };
        assert_eq!(shapes(&dealt[0]), ["long".to_owned()].into());
        assert_eq!(shapes(&dealt[1]).len(), 4);
        // Without recorded costs all shapes weigh the same.
        let dealt = deal(&plan, 2, &[]).unwrap();
        assert_eq!(shapes(&dealt[0]).len(), 3);
        // If the record has only the long case, all cases count as that one.
        let known = &known[4..5];
        assert_eq!(known[0].case.shape, "long");
        assert_eq!(costs(&plan, known), [400; 10]);
    }

    #[test]
    fn without_a_record_large_tensors_and_many_seeds_count_more() {
        let mut plan = plan(&[("k", &["s"])]);
        let [a, b] = plan.cases.as_mut_slice() else {
            panic!("two variants")
        };
        let one = weight(a);
        a.seeds = vec![1, 2, 3];
        b.seeds = vec![1];
        assert_eq!(weight(a), 3 * weight(b));
        b.tensors
            .push(Tensor::new("x", Role::In, ElemType::F32, vec![1 << 24]));
        assert!(weight(b) > (1 << 24) && weight(b) > one);
    }
}
