//! Groups: kernels of a program that only one side launches, for example because a change fused two kernels into one.
//! Within a region, such kernels are one case on both sides, called the group. A group has times alone, and each side's
//! launches run on that side's own memory, because the two sides have no common inputs.

use super::Launches;
use crate::captures::{LaunchOrigin, Pairs, find_pairs};
use config::{Program, ProgramLimit};
use model::{
    Callable, Case, CaseId, Constant, Facet, Fill, GroupTimes, KernelCount, Limit, ModuleEntry,
    OtherKernels, Plan, Reference, Role, Rule, Tensor, Unit,
};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the shape that each group has.
const TOGETHER: &str = "together";

/// The kernels of a region that only head launches, and those that only the base launches.
pub struct Group {
    pub id: CaseId,
    pub kernels: OtherKernels,
    /// The unit and the case of head, and of the base, where the times can be compared.
    pub sides: Option<((Unit, Case), (Unit, Case))>,
    /// The places of the launches that the group stands for.
    pub new: Vec<LaunchPlace>,
    pub gone: Vec<LaunchPlace>,
}

/// The place of a launch in a plan: the number of its unit, and its number among the launches of that unit. The base's
/// names cannot identify a launch before they are head's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchPlace {
    unit: usize,
    launch: usize,
}

impl LaunchPlace {
    pub fn find(self, plan: &Plan) -> Option<&CaseId> {
        let unit = plan.units.get(self.unit)?;
        plan.cases
            .iter()
            .filter(|case| unit.is_of(&case.id))
            .nth(self.launch)
            .map(|case| &case.id)
    }
}

/// Returns true if a limit applies to groups. A limit on the times of a single launch says nothing about several
/// launches together.
pub fn holds_groups(limit: &ProgramLimit) -> bool {
    match &limit.rule {
        Rule::Limit {
            metric,
            limit: Limit::Base { .. },
        } => metric.facet() == Facet::Times,
        _ => false,
    }
}

/// Returns the groups of a program that both sides ran, before the base's launches get head's names. `left_out` are
/// kernels of which a side could not capture all launches.
pub fn find(
    program: &Program,
    head: &Launches,
    base: &Launches,
    left_out: &BTreeSet<String>,
) -> Vec<Group> {
    if !program.limits.iter().any(holds_groups) {
        return Vec::new();
    }
    let pairs = find_pairs(&head.plan, &base.plan);
    let mut ours = by_region(program, head);
    let mut theirs = by_region(program, base);
    let mut taken = BTreeSet::new();
    let mut groups = Vec::new();
    let regions: BTreeSet<_> = ours.keys().cloned().collect();
    for region in regions {
        let (Some(ours), Some(theirs)) = (ours.remove(&region), theirs.remove(&region)) else {
            continue;
        };
        let [joins_ours, joins_theirs] = find_members(&pairs, &ours, &theirs);
        let [is_new, is_gone] = pairs.alone.each_ref();
        let new = Members::new(ours, is_new, &joins_ours);
        let gone = Members::new(theirs, is_gone, &joins_theirs);
        if new.alone.is_empty() || gone.alone.is_empty() {
            continue;
        }
        let variant = free_name(region.as_deref(), &mut taken);
        let id = CaseId::new(&program.name, variant, TOGETHER);
        let times = if left_out.is_empty() {
            compare_counts([&new.all, &gone.all])
        } else {
            GroupTimes::Partial {
                kernels: left_out.iter().cloned().collect(),
            }
        };
        let ours = join(&id, &new.all);
        let theirs = join(&id, &gone.all);
        groups.push(Group {
            kernels: OtherKernels {
                new: new.names(),
                gone: gone.names(),
                times: times.clone(),
            },
            sides: ours.zip(theirs).filter(|_| times == GroupTimes::Together),
            new: new.alone.iter().map(|(place, _)| *place).collect(),
            gone: gone.alone.iter().map(|(place, _)| *place).collect(),
            id,
        });
    }
    groups
}

/// A launch that belongs to a region.
struct RegionLaunch<'a> {
    place: LaunchPlace,
    unit: &'a Unit,
    case: &'a Case,
    origin: &'a LaunchOrigin,
}

/// Returns the launches of each region, in the order of launching.
fn by_region<'a>(
    program: &Program,
    side: &'a Launches,
) -> BTreeMap<Option<String>, Vec<RegionLaunch<'a>>> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut regions: BTreeMap<Option<String>, Vec<RegionLaunch>> = BTreeMap::new();
    for (case, origin) in side.plan.cases.iter().zip(&side.origins) {
        let Some((at, unit)) = side
            .plan
            .units
            .iter()
            .enumerate()
            .find(|(_, unit)| unit.is_of(&case.id))
        else {
            continue;
        };
        let count = counts.entry(at).or_default();
        let launch = *count;
        *count += 1;
        if case.id.kernel == program.name {
            let of_region = regions.entry(origin.region.clone()).or_default();
            of_region.push(RegionLaunch {
                place: LaunchPlace { unit: at, launch },
                unit,
                case,
                origin,
            });
        }
    }
    regions
}

/// Returns the units of each side whose launches belong to the group of a region: units without a partner, and units
/// that this region launches more often on one side. The latter are included because new kernels may leave a part of
/// the work to them.
fn find_members(
    pairs: &Pairs,
    ours: &[RegionLaunch],
    theirs: &[RegionLaunch],
) -> [BTreeSet<usize>; 2] {
    let counts = |launches: &[RegionLaunch], unit: usize| -> BTreeSet<(u64, Option<u64>)> {
        launches
            .iter()
            .filter(|launch| launch.place.unit == unit)
            .map(|launch| (launch.origin.captured, launch.origin.launched))
            .collect()
    };
    let [mut new, mut gone] = pairs.alone.clone();
    for [head, base] in pairs.both.iter().copied() {
        if counts(ours, head) != counts(theirs, base) {
            new.insert(head);
            gone.insert(base);
        }
    }
    [new, gone]
}

/// The launches of one side of a group.
struct Members<'a> {
    all: Vec<RegionLaunch<'a>>,
    /// The kernels that the other side does not have, with their names.
    alone: Vec<(LaunchPlace, String)>,
}

impl<'a> Members<'a> {
    fn new(
        launches: Vec<RegionLaunch<'a>>,
        alone: &BTreeSet<usize>,
        members: &BTreeSet<usize>,
    ) -> Self {
        let all: Vec<RegionLaunch> = launches
            .into_iter()
            .filter(|launch| members.contains(&launch.place.unit))
            .collect();
        let alone = all
            .iter()
            .filter(|kernel| alone.contains(&kernel.place.unit));
        Self {
            alone: alone
                .map(|kernel| (kernel.place, kernel.case.id.variant.clone()))
                .collect(),
            all,
        }
    }

    fn names(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.alone.iter().map(|(_, name)| name).collect();
        names.into_iter().cloned().collect()
    }
}

/// Returns `region.decode`, or `whole.program` outside of regions. No kernel has such a name, because names of kernels
/// contain no dots.
fn free_name(region: Option<&str>, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name = match region {
        Some(region) => format!("region.{}", region.chars().map(plain).collect::<String>()),
        None => "whole.program".to_owned(),
    };
    let mut names =
        std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}.{number}")));
    let name = names.find(|name| !taken.contains(name)).unwrap_or(name);
    taken.insert(name.clone());
    name
}

/// Finds out whether the captured launches represent all launches: each kernel must have been launched equally often
/// for each of its captured launches.
fn compare_counts(sides: [&[RegionLaunch]; 2]) -> GroupTimes {
    let is_of_one = |launches: &[RegionLaunch]| {
        let pids: BTreeSet<u32> = launches.iter().map(|launch| launch.origin.pid).collect();
        pids.len() == 1
    };
    if !sides.into_iter().all(is_of_one) {
        return GroupTimes::SeveralProcesses;
    }
    let (mut counts, mut uncounted) = (Vec::new(), BTreeSet::new());
    for launch in sides.into_iter().flatten() {
        let kernel = launch.case.id.variant.clone();
        let captured = launch.origin.captured;
        match launch.origin.launched {
            Some(launched) if launched >= captured => {
                let count = KernelCount {
                    kernel,
                    captured,
                    launched,
                };
                if !counts.contains(&count) {
                    counts.push(count);
                }
            }
            _ => drop(uncounted.insert(kernel)),
        }
    }
    if !uncounted.is_empty() {
        return GroupTimes::Uncounted {
            kernels: uncounted.into_iter().collect(),
        };
    }
    let is_even = |pair: &[KernelCount]| match pair {
        [one, other] => {
            u128::from(one.captured) * u128::from(other.launched)
                == u128::from(other.captured) * u128::from(one.launched)
        }
        _ => true,
    };
    if counts.windows(2).all(is_even) {
        GroupTimes::Together
    } else {
        GroupTimes::Uneven { kernels: counts }
    }
}

/// Joins all launches as steps of one case, and returns the case with the unit that has their kernels.
fn join(id: &CaseId, launches: &[RegionLaunch]) -> Option<(Unit, Case)> {
    let mut modules: Vec<ModuleEntry> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut steps = Vec::new();
    let mut memory = Memory::default();
    let first = launches.first()?;
    for RegionLaunch { unit, case, .. } in launches {
        let variant = case.id.variant.as_str();
        if !places.contains_key(variant) {
            places.insert(variant, modules.len());
            modules.push(module_of(unit)?);
        }
        steps.push(*places.get(variant)?);
        for tensor in &case.tensors {
            memory.add(as_of_group(tensor, variant), case);
        }
    }
    let mut tensors: Vec<Tensor> = memory.0.into_iter().map(|memory| memory.tensor).collect();
    // If a program freed memory and allocated other memory there, both overlap. The last one that is written counts,
    // and it must be the one that the first launch needs.
    tensors.reverse();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for tensor in &mut tensors {
        while !taken.insert(tensor.name.clone()) {
            tensor.name.push('+');
        }
    }
    let unit = Unit {
        id: id.unit(first.unit.id.arch),
        source: String::new(),
        include_dirs: Vec::new(),
        defines: BTreeMap::new(),
        flags: Vec::new(),
        call: Callable::Together { modules, steps },
    };
    let case = Case {
        id: id.clone(),
        tensors,
        steps: launches
            .iter()
            .flat_map(|launch| launch.case.steps.clone())
            .collect(),
        reference: Reference::NoOutput,
        deadline_ms: launches
            .iter()
            .map(|launch| launch.case.deadline_ms)
            .max()?,
        ..first.case.clone()
    };
    Some((unit, case))
}

/// The memory that launches of a group reach, in the order of their first use.
#[derive(Default)]
struct Memory(Vec<Reached>);

struct Reached {
    /// The memory as the first launch that can reach it found it. If others wrote to it between the launches, it is as
    /// the last launch found it, because a launch may depend on what they wrote, such as an index.
    tensor: Tensor,
    /// The content after the latest launch.
    left: Option<Fill>,
}

impl Memory {
    fn add(&mut self, tensor: Tensor, case: &Case) {
        let changed = match &case.reference {
            Reference::Captured { outputs } => outputs.get(&tensor.name).cloned(),
            _ => None,
        };
        let changed = changed.map(|content| Fill::Captured { content });
        let left = changed.or_else(|| tensor.fill.clone());
        let is_it = |reached: &&mut Reached| {
            (
                &reached.tensor.name,
                reached.tensor.address,
                &reached.tensor.dims,
            ) == (&tensor.name, tensor.address, &tensor.dims)
        };
        let Some(known) = self.0.iter_mut().find(is_it) else {
            self.0.push(Reached { tensor, left });
            return;
        };
        if tensor.address.is_some() && known.left != tensor.fill {
            known.tensor.fill = tensor.fill;
        }
        known.left = left;
    }
}

fn module_of(unit: &Unit) -> Option<ModuleEntry> {
    let Callable::Entries { names, constants } = &unit.call else {
        return None;
    };
    let constants = constants.iter().map(|constant| Constant {
        tensor: module_variable(&constant.tensor, &unit.id.variant),
        ..constant.clone()
    });
    Some(ModuleEntry {
        source: unit.source.clone(),
        name: names.first()?.clone(),
        constants: constants.collect(),
    })
}

/// Returns a name with the variant, because modules may have variables of the same name.
fn module_variable(variable: &str, variant: &str) -> String {
    format!("{variable} of {variant}")
}

/// Returns the tensor for a group. Its final content is not compared, because other kernels may have written to it
/// between these launches.
fn as_of_group(tensor: &Tensor, variant: &str) -> Tensor {
    match tensor.address {
        Some(_) => Tensor {
            role: Role::Scratch,
            ..tensor.clone()
        },
        None => Tensor {
            name: module_variable(&tensor.name, variant),
            ..tensor.clone()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captures::testing;
    use model::{Arch, Arg, CapturedContent, ElemType, Launch, Num, Step, UnitId};

    /// A kernel, its region, and two numbers: its captured launches there, and all its launches.
    type Written = (&'static str, Option<&'static str>, u64, Option<u64>);

    fn program(limit: Limit) -> Program {
        Program {
            name: "p".to_owned(),
            command: vec!["true".to_owned()],
            build: None,
            kernels: Vec::new(),
            regions: Vec::new(),
            launches: 1,
            deadline_ms: 1000,
            outputs: Vec::new(),
            floats: None,
            limits: vec![ProgramLimit {
                rule: Rule::Limit {
                    metric: model::Metric::P50,
                    limit,
                },
                declared: "gates.yaml:5".to_owned(),
            }],
            declared: "gates.yaml:3".to_owned(),
        }
    }

    fn against_base() -> Program {
        program(Limit::Base { change: Num(0.01) })
    }

    /// Returns launches in the order of launching. Each one reaches memory of its own, and memory that all of them
    /// reach.
    fn side(launches: &[Written]) -> Launches {
        let arch: Arch = "sm_90".parse().unwrap();
        let mut side = Launches::default();
        for (number, (kernel, region, captured, launched)) in launches.iter().enumerate() {
            let id = UnitId::new("p", *kernel, arch);
            if side.plan.unit(&id).is_none() {
                side.plan.units.push(Unit {
                    id,
                    source: format!("{kernel}.cubin"),
                    include_dirs: Vec::new(),
                    defines: BTreeMap::new(),
                    flags: Vec::new(),
                    call: Callable::Entries {
                        names: vec![(*kernel).to_owned()],
                        constants: vec![Constant {
                            name: "factor".to_owned(),
                            tensor: "variable factor".to_owned(),
                        }],
                    },
                });
            }
            let shape = format!(
                "launch{}",
                side.plan
                    .cases
                    .iter()
                    .filter(|case| case.id.variant == *kernel)
                    .count()
                    + 1
            );
            let memory = |address: u64, bytes: usize| Tensor {
                address: Some(address),
                ..Tensor::new(
                    &format!("at_{address:x}"),
                    Role::Inout,
                    ElemType::U8,
                    vec![bytes],
                )
            };
            let mut case = testing::case(
                CaseId::new("p", *kernel, shape),
                vec![
                    memory(0x1000, 64),
                    memory(0x2000 + 0x1000 * number as u64, 64),
                    Tensor::new("variable factor", Role::In, ElemType::U8, vec![4]),
                ],
            );
            case.steps = vec![Step::new(
                vec![Arg::Raw {
                    bytes: format!("{number:02x}"),
                }],
                Some(Launch {
                    grid: [1; 3],
                    block: [32, 1, 1],
                    cluster: None,
                    cooperative: false,
                    dynamic_shared: 0,
                }),
            )];
            side.plan.cases.push(case);
            side.origins.push(LaunchOrigin {
                pid: 1,
                region: region.map(str::to_owned),
                captured: *captured,
                launched: *launched,
            });
        }
        side
    }

    fn find_in(head: &[Written], base: &[Written]) -> Vec<Group> {
        find(&against_base(), &side(head), &side(base), &BTreeSet::new())
    }

    /// Returns the names of the kernels that a side launches, one for each step.
    fn called((unit, case): &(Unit, Case)) -> Vec<String> {
        let names = unit.call.names();
        assert_eq!(names.len(), case.steps.len());
        names
    }

    const SCALE: Written = ("scale", None, 1, Some(1));
    const SOFTMAX: Written = ("softmax", None, 1, Some(1));
    const FUSED: Written = ("fused", None, 1, Some(1));
    const SHARED: Written = ("shared", None, 1, Some(1));

    #[test]
    fn one_kernel_that_becomes_two_is_compared_with_both() {
        let groups = find_in(&[SCALE, SHARED, SOFTMAX], &[FUSED, SHARED]);
        let [group] = groups.as_slice() else {
            panic!("{}", groups.len())
        };
        assert_eq!(group.id, CaseId::new("p", "whole.program", "together"));
        assert_eq!(group.kernels.new, ["scale", "softmax"]);
        assert_eq!(group.kernels.gone, ["fused"]);
        assert_eq!(group.kernels.times, GroupTimes::Together);
        let (head, base) = group.sides.as_ref().unwrap();
        assert_eq!(called(head), ["scale", "softmax"]);
        assert_eq!(called(base), ["fused"]);
        assert!(!head.1.has_output());
        assert_eq!(head.1.reference, Reference::NoOutput);
        // Memory that both launches reach is there once, and each module has its own variables.
        let tensors: BTreeSet<&str> = head
            .1
            .tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        let wanted = [
            "at_1000",
            "at_2000",
            "at_4000",
            "variable factor of scale",
            "variable factor of softmax",
        ];
        assert_eq!(tensors, wanted.into());
        assert_eq!(head.1.tensors.len(), wanted.len());
    }

    #[test]
    fn two_kernels_that_become_one_are_compared_with_it() {
        let groups = find_in(&[FUSED], &[SOFTMAX, SCALE, SOFTMAX]);
        let (head, base) = groups[0].sides.as_ref().unwrap();
        assert_eq!(called(head), ["fused"]);
        // The kernels are in the order of launching, each with its own module.
        assert_eq!(called(base), ["softmax", "scale", "softmax"]);
        match &base.0.call {
            Callable::Together { modules, steps } => {
                assert_eq!(modules.len(), 2);
                assert_eq!(steps, &[0, 1, 0]);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_renamed_kernel_is_in_the_group_and_hides_nothing() {
        let groups = find_in(&[("slow", None, 1, Some(1)), SHARED], &[SHARED, FUSED]);
        assert_eq!(groups[0].kernels.new, ["slow"]);
        assert!(groups[0].sides.is_some());
    }

    #[test]
    fn each_region_has_a_group_of_its_own() {
        let at = |kernel, region| (kernel, Some(region), 1, Some(1));
        let groups = find_in(
            &[
                at("a", "decode"),
                at("b", "decode"),
                at("c", "pre fill/x"),
                at("d", "new"),
                at("same", "decode"),
            ],
            &[
                at("ab", "decode"),
                at("c0", "pre fill/x"),
                at("gone", "gone"),
                at("same", "decode"),
            ],
        );
        let found = groups.iter().map(|group| {
            let (head, base) = group.sides.as_ref().unwrap();
            (group.id.variant.clone(), called(head), called(base))
        });
        let owned = |all: &[&str]| {
            all.iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                (
                    "region.decode".to_owned(),
                    owned(&["a", "b"]),
                    owned(&["ab"])
                ),
                (
                    "region.pre_fill_x".to_owned(),
                    owned(&["c"]),
                    owned(&["c0"])
                ),
            ]
        );
    }

    #[test]
    fn regions_that_are_written_alike_are_told_apart() {
        let at = |kernel, region| (kernel, Some(region), 1, Some(1));
        let groups = find_in(
            &[at("a", "x y"), at("b", "x_y")],
            &[at("c", "x y"), at("d", "x_y")],
        );
        let names: Vec<&str> = groups
            .iter()
            .map(|group| group.id.variant.as_str())
            .collect();
        assert_eq!(names, ["region.x_y", "region.x_y.2"]);
    }

    #[test]
    fn a_kernel_of_both_sides_is_in_the_group_where_it_does_a_part_of_the_new_work() {
        let at = |kernel, region| (kernel, Some(region), 1, Some(1));
        let head = [
            at("scale", "prefill"),
            at("softmax", "prefill"),
            at("same", "prefill"),
            at("softmax", "decode"),
        ];
        let base = [
            at("fused", "prefill"),
            at("same", "prefill"),
            at("softmax", "decode"),
        ];
        let groups = find_in(&head, &base);
        let (ours, theirs) = groups[0].sides.as_ref().unwrap();
        assert_eq!(called(ours), ["scale", "softmax"]);
        assert_eq!(called(theirs), ["fused"]);
        // It has a partner, so it is neither new nor gone.
        assert_eq!(groups[0].kernels.new, ["scale"]);
        assert_eq!((groups[0].new.len(), groups.len()), (1, 1));
        // The kernel is launched more often, and captured once, so the sum would be too small.
        let more = [
            at("scale", "prefill"),
            ("softmax", Some("prefill"), 1, Some(2)),
            at("softmax", "decode"),
        ];
        let groups = find_in(&more, &base);
        assert!(groups[0].sides.is_none());
        assert!(matches!(groups[0].kernels.times, GroupTimes::Uneven { .. }));
    }

    #[test]
    fn kernels_of_one_side_alone_are_no_group() {
        assert!(find_in(&[SHARED], &[SHARED, FUSED]).is_empty());
        assert!(find_in(&[SHARED, SCALE], &[SHARED]).is_empty());
        let elsewhere = ("scale", Some("decode"), 1, Some(1));
        assert!(find_in(&[elsewhere], &[FUSED]).is_empty());
    }

    #[test]
    fn a_limit_on_each_launch_holds_no_group() {
        let bound = Limit::Absolute {
            op: model::Op::Le,
            bound: model::Bound::Value(Num(1.0)),
        };
        let groups = find(
            &program(bound),
            &side(&[SCALE]),
            &side(&[FUSED]),
            &BTreeSet::new(),
        );
        assert!(groups.is_empty());
    }

    /// Returns why the times are not compared.
    fn refused(head: &[Written], base: &[Written]) -> GroupTimes {
        let group = find_in(head, base).remove(0);
        assert!(group.sides.is_none());
        group.kernels.times
    }

    #[test]
    fn captured_launches_stand_for_all_where_each_kernel_has_the_same_share() {
        let many = |kernel, captured, launched| (kernel, None, captured, Some(launched));
        let groups = find_in(
            &[many("a", 1, 100), many("b", 2, 200), many("b", 2, 200)],
            &[many("ab", 1, 100)],
        );
        assert_eq!(groups[0].kernels.times, GroupTimes::Together);
        let count = |kernel: &str, captured, launched| KernelCount {
            kernel: kernel.to_owned(),
            captured,
            launched,
        };
        // The base launches its kernel once for two launches of head's. A sum over one launch of each would hide the
        // half.
        assert_eq!(
            refused(
                &[many("a", 1, 200), many("b", 1, 100)],
                &[many("ab", 1, 100)]
            ),
            GroupTimes::Uneven {
                kernels: vec![count("a", 1, 200), count("b", 1, 100), count("ab", 1, 100)]
            }
        );
    }

    #[test]
    fn a_count_that_is_not_known_is_named() {
        assert_eq!(
            refused(&[("a", None, 1, None), SCALE], &[FUSED]),
            GroupTimes::Uncounted {
                kernels: vec!["a".to_owned()]
            }
        );
        // There are fewer launches than were captured, because the number was written before the program ended.
        assert_eq!(
            refused(&[SCALE], &[("ab", None, 2, Some(1))]),
            GroupTimes::Uncounted {
                kernels: vec!["ab".to_owned()]
            }
        );
    }

    #[test]
    fn launches_that_are_missing_on_one_side_and_several_processes_are_named() {
        let left_out = BTreeSet::from(["b".to_owned()]);
        let group = find(&against_base(), &side(&[SCALE]), &side(&[FUSED]), &left_out).remove(0);
        assert_eq!(
            group.kernels.times,
            GroupTimes::Partial {
                kernels: vec!["b".to_owned()]
            }
        );
        assert!(group.sides.is_none());
        let mut head = side(&[SCALE, SOFTMAX]);
        head.origins[1].pid = 2;
        let group = find(&against_base(), &head, &side(&[FUSED]), &BTreeSet::new()).remove(0);
        assert_eq!(group.kernels.times, GroupTimes::SeveralProcesses);
    }

    #[test]
    fn memory_is_as_the_first_launch_found_it_unless_others_wrote_to_it_in_between() {
        let content = |what: &str| CapturedContent {
            capture: "cap".to_owned(),
            bytes: 64,
            chunks: vec![what.to_owned()],
            part: None,
        };
        // Each launch has the memory at 0x1000 as it found it, and as it left it.
        let group_of = |found: [(&str, Option<&str>); 3]| {
            let mut head = side(&[SCALE, SOFTMAX, ("last", None, 1, Some(1))]);
            for (case, (before, after)) in head.plan.cases.iter_mut().zip(found) {
                let tensor = &mut case.tensors[0];
                tensor.fill = Some(Fill::Captured {
                    content: content(before),
                });
                let after =
                    after.map(|content_after| (tensor.name.clone(), content(content_after)));
                case.reference = Reference::Captured {
                    outputs: after.into_iter().collect(),
                };
            }
            let groups = find(&against_base(), &head, &side(&[FUSED]), &BTreeSet::new());
            let (head, _) = groups[0].sides.clone().unwrap();
            let tensor = head
                .1
                .tensors
                .into_iter()
                .find(|tensor| tensor.name == "at_1000");
            match tensor.unwrap().fill {
                Some(Fill::Captured { content }) => content.chunks[0].clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            group_of([("a", Some("b")), ("b", None), ("b", Some("c"))]),
            "a"
        );
        assert_eq!(
            group_of([("a", Some("b")), ("x", Some("y")), ("y", None)]),
            "x"
        );
        assert_eq!(group_of([("a", None), ("x", Some("y")), ("z", None)]), "z");
    }

    #[test]
    fn memory_that_lies_where_other_memory_lay_is_written_first() {
        let mut head = side(&[SCALE, SOFTMAX]);
        head.plan.cases[1].tensors[0].dims = vec![128];
        let groups = find(&against_base(), &head, &side(&[FUSED]), &BTreeSet::new());
        let (head, _) = groups[0].sides.as_ref().unwrap();
        let overlapping = head
            .1
            .tensors
            .iter()
            .filter(|tensor| tensor.address == Some(0x1000));
        let overlapping: Vec<_> = overlapping
            .map(|overlapping| (overlapping.name.as_str(), overlapping.len()))
            .collect();
        // The memory of the first launch comes last.
        assert_eq!(overlapping, [("at_1000", 128), ("at_1000+", 64)]);
    }
}
