//! Decides which launches of two captures are the same launch, and gives the base's kernels and launches the names of
//! head's.
//!
//! Nothing in a capture says which launch of one program run corresponds to which of another: addresses differ, and a
//! newer version may launch more kernels or others. Kernels of a program are paired first, in four rounds from the
//! nearest likeness to the most distant:
//!
//! 1. the same normalised name, and launches of the same sizes
//! 2. the same normalised name
//! 3. the same name without the arguments of a template, and launches of the same sizes
//! 4. the same name without the arguments of a template
//!
//! In each round, each of the base's kernels that is still alone takes the first kernel of head that is also alone. The
//! launches of two paired kernels are paired afterwards, in the order of launching: first those that can reach memory
//! of the same sizes, then the rest. Every kernel and every launch has at most one partner. Those without one get names
//! that nothing else has.
//!
//! A pair says that two launches are to be compared, and not that they can be: the caller finds out whether their
//! memory allows it. Two launches of the same sizes that a program makes in the other order are paired with each
//! other's partner. Two instances of one template can be paired wrongly in the last two rounds, if their names differ
//! in both captures.

use super::{called, name, with_name};
use model::{Callable, Case, CaseId, Plan, Unit, UnitId};
use std::collections::BTreeSet;

/// The sizes of the memory that a launch can reach, in bytes, ordered by address.
type Sizes = Vec<usize>;

/// Returns true if a kernel of head's is near to one of the base's.
type Nearness<'a> = dyn Fn(&PairedKernel, &PairedKernel) -> bool + 'a;

/// A kernel of a capture, with its launches.
struct PairedKernel<'a> {
    unit: &'a Unit,
    symbol: String,
    launches: Vec<(&'a Case, Sizes)>,
}

/// Gives the base's units and cases the ids of the units and cases of head's that they are compared with. Those without
/// a partner get ids that head does not have.
pub fn use_ids_of_head(head: &Plan, base: &mut Plan) {
    let (ours, theirs) = (kernels(head), kernels(base));
    let partners = pair(&ours, &theirs);
    let mut taken: BTreeSet<UnitId> = ours.iter().map(|kernel| kernel.unit.id.clone()).collect();
    let (mut units, mut cases) = (Vec::new(), Vec::new());
    for (kernel, partner) in theirs.iter().zip(partners) {
        let partner = partner.and_then(|at| ours.get(at));
        let id = match partner {
            // The architecture is the base's own.
            Some(partner) => UnitId {
                arch: kernel.unit.id.arch,
                ..partner.unit.id.clone()
            },
            None => free_id(&kernel.unit.id, &taken),
        };
        taken.insert(id.clone());
        let launches = partner.map_or(&[][..], |partner| &partner.launches);
        for (shape, (case, _)) in shapes(launches, &kernel.launches)
            .into_iter()
            .zip(&kernel.launches)
        {
            cases.push(Case {
                id: CaseId::new(&id.kernel, &id.variant, shape),
                ..(*case).clone()
            });
        }
        units.push(Unit {
            id,
            ..kernel.unit.clone()
        });
    }
    (base.units, base.cases) = (units, cases);
}

/// The pairs of units: the places of head's unit and the base's unit of each pair, and of the units of either side that
/// have no partner.
pub struct Pairs {
    pub both: Vec<[usize; 2]>,
    pub alone: [BTreeSet<usize>; 2],
}

pub fn find_pairs(head: &Plan, base: &Plan) -> Pairs {
    let (ours, theirs) = (kernels(head), kernels(base));
    let partners = pair(&ours, &theirs);
    let has_none = |at: &usize| !partners.contains(&Some(*at));
    let places = partners.iter().enumerate();
    let gone = places.clone().filter(|(_, place)| place.is_none());
    Pairs {
        alone: [
            (0..ours.len()).filter(has_none).collect(),
            gone.map(|(at, _)| at).collect(),
        ],
        both: places
            .filter_map(|(at, partner)| Some([(*partner)?, at]))
            .collect(),
    }
}

fn kernels(plan: &Plan) -> Vec<PairedKernel<'_>> {
    plan.units
        .iter()
        .map(|unit| {
            let is_of = |case: &&Case| {
                (&case.id.kernel, &case.id.variant) == (&unit.id.kernel, &unit.id.variant)
            };
            let launches = plan
                .cases
                .iter()
                .filter(is_of)
                .map(|case| (case, sizes(case)));
            PairedKernel {
                unit,
                symbol: match &unit.call {
                    Callable::Entries { names, .. } => names.concat(),
                    _ => String::new(),
                },
                launches: launches.collect(),
            }
        })
        .collect()
}

fn sizes(case: &Case) -> Sizes {
    case.tensors
        .iter()
        .map(|tensor| tensor.len() * tensor.elem.size())
        .collect()
}

/// Returns, for each of the base's kernels, the place of its partner in head. The four rounds go from the nearest to
/// the most distant likeness, and in each round kernels are taken in their order.
fn pair(ours: &[PairedKernel], theirs: &[PairedKernel]) -> Vec<Option<usize>> {
    let is_one = |a: &PairedKernel, b: &PairedKernel| {
        binary::normal_name(&a.symbol) == binary::normal_name(&b.symbol)
    };
    // The names are equal without the arguments of a template, so these are instances of the same one.
    let is_called_alike = |a: &PairedKernel, b: &PairedKernel| name(&a.symbol) == name(&b.symbol);
    let has_sizes = |a: &PairedKernel, b: &PairedKernel| {
        let all = |kernel: &PairedKernel| {
            kernel
                .launches
                .iter()
                .map(|(_, sizes)| sizes.clone())
                .collect()
        };
        let [ours, theirs]: [Vec<Sizes>; 2] = [a, b].map(all);
        ours == theirs
    };
    let nearness: [&Nearness; 4] = [
        &|a, b| is_one(a, b) && has_sizes(a, b),
        &|a, b| is_one(a, b),
        &|a, b| is_called_alike(a, b) && has_sizes(a, b),
        &|a, b| is_called_alike(a, b),
    ];
    let mut partners = vec![None; theirs.len()];
    for is_near in nearness {
        for (place, theirs) in theirs.iter().enumerate() {
            if partners.get(place).is_some_and(Option::is_some) {
                continue;
            }
            let found = ours.iter().enumerate().find(|(at, ours)| {
                let is_free = !partners.contains(&Some(*at));
                let is_in_one_program = ours.unit.id.kernel == theirs.unit.id.kernel
                    || called(&ours.unit.id) == ours.unit.id.kernel;
                is_free && is_in_one_program && is_near(ours, theirs)
            });
            if let (Some((at, _)), Some(partner)) = (found, partners.get_mut(place)) {
                *partner = Some(at);
            }
        }
    }
    partners
}

/// Returns an unused name such as `softmax-3`.
fn free_id(id: &UnitId, taken: &BTreeSet<UnitId>) -> UnitId {
    if !taken.contains(id) {
        return id.clone();
    }
    let plain = called(id)
        .rsplit_once('-')
        .map_or(called(id), |(plain, _)| plain);
    let mut numbered = (2..).map(|number| with_name(id, &format!("{plain}-{number}")));
    numbered
        .find(|id| !taken.contains(id))
        .unwrap_or_else(|| id.clone())
}

/// Returns, for each of the base's launches, the shape that it gets: the shape of head's first free launch of the same
/// sizes, or of the first launch that is still free after that, or a new one.
fn shapes(ours: &[(&Case, Sizes)], theirs: &[(&Case, Sizes)]) -> Vec<String> {
    let mut free: Vec<Option<&(&Case, Sizes)>> = ours.iter().map(Some).collect();
    let mut shapes: Vec<Option<String>> = Vec::new();
    for (_, sizes) in theirs {
        let same = free
            .iter_mut()
            .find(|launch| launch.is_some_and(|(_, own)| own == sizes));
        let same = same.and_then(Option::take);
        shapes.push(same.map(|(case, _)| case.id.shape.clone()));
    }
    let mut left = free.into_iter().flatten();
    let mut new = (ours.len() + 1..).map(|number| format!("launch{number}"));
    shapes
        .into_iter()
        .map(|shape| {
            let left = || left.next().map(|(case, _)| case.id.shape.clone());
            shape
                .or_else(left)
                .or_else(|| new.next())
                .unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Arch, ElemType, Role, Tensor};

    /// Returns a plan of the program `p`. Each entry is a kernel's name, its symbol, and the bytes that each of its
    /// launches can reach.
    fn plan(kernels: &[(&str, &str, &[usize])]) -> Plan {
        let mut plan = Plan::empty(config::default_timing());
        for (variant, symbol, launches) in kernels {
            let arch: Arch = "sm_90".parse().unwrap();
            plan.units.push(Unit {
                id: UnitId::new("p", *variant, arch),
                source: (*symbol).to_owned(),
                include_dirs: Vec::new(),
                defines: [].into(),
                flags: Vec::new(),
                call: Callable::Entries {
                    names: vec![(*symbol).to_owned()],
                    constants: Vec::new(),
                },
            });
            for (number, bytes) in launches.iter().enumerate() {
                let shape = format!("launch{}", number + 1);
                let tensor = Tensor::new("x", Role::In, ElemType::U8, vec![*bytes]);
                plan.cases.push(crate::captures::testing::case(
                    CaseId::new("p", *variant, shape),
                    vec![tensor],
                ));
            }
        }
        plan
    }

    /// Pairs two plans, and returns the ids of the base's units with their symbols, and of its cases with their sizes.
    fn paired(head: &Plan, mut base: Plan) -> (Vec<String>, Vec<String>) {
        use_ids_of_head(head, &mut base);
        (
            base.units
                .iter()
                .map(|unit| format!("{} {}", unit.id.variant, unit.source))
                .collect(),
            base.cases
                .iter()
                .map(|case| {
                    let bytes: usize = case.tensors.iter().map(Tensor::len).sum();
                    format!("{}@{} {bytes}", case.id.variant, case.id.shape)
                })
                .collect(),
        )
    }

    const REDUCE_F: &str = "_ZN2at6reduceIfEEvPT_";
    const REDUCE_I: &str = "_ZN2at6reduceIiEEvPT_";

    #[test]
    fn instances_of_a_template_are_paired_by_their_whole_names() {
        // Head has only the second kernel, which is therefore the first of this name there.
        let head = plan(&[("reduce", REDUCE_I, &[4])]);
        let base = plan(&[("reduce", REDUCE_F, &[4]), ("reduce-2", REDUCE_I, &[4])]);
        let (units, cases) = paired(&head, base);
        assert_eq!(
            units,
            [format!("reduce-2 {REDUCE_F}"), format!("reduce {REDUCE_I}")]
        );
        assert_eq!(cases, ["reduce-2@launch1 4", "reduce@launch1 4"]);
    }

    #[test]
    fn another_instance_stands_for_one_that_is_gone() {
        let head = plan(&[("reduce", REDUCE_I, &[4])]);
        let (units, _) = paired(&head, plan(&[("reduce", REDUCE_F, &[8])]));
        assert_eq!(units, [format!("reduce {REDUCE_F}")]);
        let (units, _) = paired(&head, plan(&[("softmax", "softmax", &[4])]));
        assert_eq!(units, ["softmax softmax"]);
    }

    #[test]
    fn launches_are_paired_by_their_sizes_and_then_by_their_order() {
        let head = plan(&[("k", "k", &[8, 4, 16])]);
        let (_, cases) = paired(&head, plan(&[("k", "k", &[4, 8, 2, 1])]));
        assert_eq!(
            cases,
            ["k@launch2 4", "k@launch1 8", "k@launch3 2", "k@launch4 1"]
        );
    }
}
