//! Matches names that are gone with names that are new, by content.

use super::carry::{HeadNames, tensors_of_arg};
use model::*;
use std::collections::{BTreeMap, BTreeSet};

/// The plan and the gates of one side. They are complete, whatever a filter leaves out.
#[derive(Clone, Copy)]
pub struct PlanAndGates<'a> {
    pub plan: &'a Plan,
    pub gates: &'a [Gate],
}

/// Finds the renames between two sides, in the order of the base. A kernel's own new name precedes the new names of
/// things in it.
pub fn find(base: PlanAndGates, head: PlanAndGates) -> Vec<Rename> {
    let (base, head) = (kernels(base), kernels(head));
    let is_in = |all: &[KernelParts], wanted: &KernelParts| {
        all.iter().any(|other| other.name == wanted.name)
    };
    let gone: Vec<_> = base
        .iter()
        .filter(|plan_and_gates| !is_in(&head, plan_and_gates))
        .filter(|kernel_gates| !kernel_gates.is_anchored())
        .collect();
    let new: Vec<_> = head
        .iter()
        .filter(|plan_and_gates| !is_in(&base, plan_and_gates))
        .collect();
    let pairs = pair(&gone, &new, |gone, new| likeness(gone, new));
    base.iter()
        .flat_map(|was| {
            let renamed = pairs.iter().find(|(gone, _)| gone.name == was.name);
            let is = match renamed {
                Some((_, new)) => Some(*new),
                None => head
                    .iter()
                    .find(|plan_and_gates| plan_and_gates.name == was.name),
            };
            is.map_or_else(Vec::new, |is| in_kernel(was, is))
        })
        .collect()
}

/// The likeness of two things, apart from their names.
#[derive(Clone, Copy)]
struct Likeness {
    /// True if they have the same source, entries and macros.
    code: bool,
    /// True if they have the same work, gates and macros.
    asked: bool,
}

/// Pairs each thing with its only partner: first those that are alike in both respects, then those that are alike in
/// either one. A thing with two candidates at one step gets no partner.
fn pair<'k, T>(
    gone: &[&'k T],
    new: &[&'k T],
    alike: impl Fn(&T, &T) -> Likeness,
) -> Vec<(&'k T, &'k T)> {
    let steps: [fn(Likeness) -> bool; 3] = [
        |evidence| evidence.code && evidence.asked,
        |evidence| evidence.code,
        |evidence| evidence.asked,
    ];
    let alike: Vec<Vec<Likeness>> = gone
        .iter()
        .map(|gone| new.iter().map(|new| alike(gone, new)).collect())
        .collect();
    let mut partner: BTreeMap<usize, usize> = BTreeMap::new();
    for step in steps {
        let taken: BTreeSet<usize> = partner.values().copied().collect();
        let open: Vec<(usize, usize)> = alike
            .iter()
            .enumerate()
            .filter(|(gone, _)| !partner.contains_key(gone))
            .flat_map(|(gone, row)| {
                row.iter()
                    .enumerate()
                    .filter(|(new, match_kind)| !taken.contains(new) && step(**match_kind))
                    .map(move |(new, _)| (gone, new))
            })
            .collect();
        let is_only = |&&(gone, new): &&(usize, usize)| {
            open.iter()
                .filter(|pair| pair.0 == gone || pair.1 == new)
                .count()
                == 1
        };
        partner.extend(open.iter().filter(is_only).copied());
    }
    partner
        .into_iter()
        .filter_map(|(at, to)| Some((*gone.get(at)?, *new.get(to)?)))
        .collect()
}

/// The parts of a kernel on one side, each list in the order of gates.yaml.
struct KernelParts<'a> {
    name: &'a str,
    units: Vec<&'a Unit>,
    cases: Vec<&'a Case>,
    gates: Vec<&'a Gate>,
}

fn kernels<'a>(asked: PlanAndGates<'a>) -> Vec<KernelParts<'a>> {
    let mut names: Vec<&str> = Vec::new();
    for case in &asked.plan.cases {
        if names.last() != Some(&case.id.kernel.as_str()) {
            names.push(&case.id.kernel);
        }
    }
    let collect_parts = |name: &'a str| {
        let units = asked.plan.units.iter();
        let cases = asked.plan.cases.iter();
        let gates = asked.gates.iter();
        KernelParts {
            name,
            units: units.filter(|unit| unit.id.kernel == name).collect(),
            cases: cases.filter(|case| case.id.kernel == name).collect(),
            gates: gates.filter(|gate| gate.subject.kernel() == name).collect(),
        }
    };
    names.into_iter().map(collect_parts).collect()
}

impl<'a> KernelParts<'a> {
    /// Returns true if an anchor refers to any part of the kernel. An anchor knows it by this name.
    fn is_anchored(&self) -> bool {
        self.gates.iter().any(|gate| {
            matches!(
                gate.rule,
                Rule::Limit {
                    limit: Limit::Anchor { .. },
                    ..
                }
            )
        })
    }

    /// Returns the names that `of` finds in the cases, each once.
    fn names(&self, of: impl Fn(&'a Case) -> Vec<&'a String>) -> Vec<&'a String> {
        let mut names = Vec::new();
        for name in self.cases.iter().flat_map(|case| of(case)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn units_of(&self, variant: &str) -> BTreeMap<Arch, &'a Unit> {
        self.units
            .iter()
            .filter(|unit| unit.id.variant == variant)
            .map(|unit| (unit.id.arch, *unit))
            .collect()
    }

    /// Returns the work of a variant, with names replaced.
    fn work_of(&self, variant: &str, names: &HeadNames) -> BTreeMap<CaseId, Case> {
        self.cases
            .iter()
            .filter(|case| case.id.variant == variant)
            .map(|case| {
                let mut case = (*case).clone();
                names.carry_case(&mut case);
                (case.id.clone(), work(case))
            })
            .collect()
    }

    /// Returns the gates of a variant, with names replaced.
    fn gates_of(&self, variant: &str, names: &HeadNames) -> Vec<Gate> {
        self.gates
            .iter()
            .filter(|gate| gate.subject.variant() == variant)
            .map(|gate| {
                let mut gate = (*gate).clone();
                names.carry_gate(&mut gate);
                gate.declared = None;
                gate
            })
            .collect()
    }

    fn shapes(&self) -> Vec<&'a String> {
        self.names(|case| vec![&case.id.shape])
    }

    fn variants(&self) -> Vec<&'a String> {
        self.names(|case| vec![&case.id.variant])
    }

    fn tensors(&self) -> Vec<&'a String> {
        self.names(|case| case.tensors.iter().map(|tensor| &tensor.name).collect())
    }

    /// Returns the sizes of a shape. They are the same for every variant.
    fn sizes(&self, shape: &str) -> Option<&'a BTreeMap<String, i64>> {
        let case = self.cases.iter().find(|case| case.id.shape == shape)?;
        Some(&case.dims)
    }
}

/// Returns the names of the base that head does not have, and the names of head that the base does not have.
fn gone_and_new<'a>(
    base: Vec<&'a String>,
    head: Vec<&'a String>,
) -> (Vec<&'a String>, Vec<&'a String>) {
    let gone = base
        .iter()
        .filter(|other| !head.contains(other))
        .copied()
        .collect();
    (
        gone,
        head.into_iter()
            .filter(|other| !base.contains(other))
            .collect(),
    )
}

fn likeness(base: &KernelParts, head: &KernelParts) -> Likeness {
    let renames = in_kernel(base, head);
    let names = HeadNames { renames: &renames };
    let all = |is_alike: &dyn Fn(&str, &str) -> bool| {
        base.variants()
            .into_iter()
            .all(|variant| is_alike(variant, &names.variant(head.name, variant)))
    };
    Likeness {
        code: all(&|was, is| has_code_of(base, was, head, is)),
        asked: all(&|was, is| asks_as(base, was, head, is, &names)),
    }
}

fn rename(item: RenamedItem, from: &str, to: &str) -> Rename {
    Rename {
        item,
        from: from.to_owned(),
        to: to.to_owned(),
    }
}

/// Finds the new names in a kernel. If the kernel itself has a new name, it comes first.
fn in_kernel(base: &KernelParts, head: &KernelParts) -> Vec<Rename> {
    let kernel = || head.name.to_owned();
    let mut renames = Vec::new();
    if base.name != head.name {
        renames.push(rename(RenamedItem::Kernel, base.name, head.name));
    }
    renames.extend(pair_dimensions(base, head).into_iter().map(|(was, is)| {
        let item = RenamedItem::Dimension { kernel: kernel() };
        rename(item, was, is)
    }));
    if !base.is_anchored() {
        let shapes: Vec<_> = pair_shapes(base, head, &renames)
            .into_iter()
            .map(|(was, is)| rename(RenamedItem::Shape { kernel: kernel() }, was, is))
            .collect();
        renames.extend(shapes);
        let variants: Vec<_> = pair_variants(base, head, &renames)
            .into_iter()
            .map(|(was, is)| rename(RenamedItem::Variant { kernel: kernel() }, was, is))
            .collect();
        renames.extend(variants);
    }
    let tensors: Vec<_> = pair_tensors(base, head, &renames)
        .into_iter()
        .map(|(was, is)| rename(RenamedItem::Tensor { kernel: kernel() }, was, is))
        .collect();
    renames.extend(tensors);
    renames
}

/// Pairs dimensions that have the same size at every shape. Among several dimensions with the same sizes, pairs those
/// whose names differ only by capital letters.
fn pair_dimensions<'a>(
    base: &KernelParts<'a>,
    head: &KernelParts<'a>,
) -> Vec<(&'a String, &'a String)> {
    let dimensions = |kernel: &KernelParts<'a>| kernel.names(|case| case.dims.keys().collect());
    let (gone, new) = gone_and_new(dimensions(base), dimensions(head));
    let shapes = head.shapes();
    let common: Vec<_> = base
        .shapes()
        .into_iter()
        .filter(|shape| shapes.contains(shape))
        .collect();
    // If every shape has a new name, too, dimensions are compared by all of their sizes together.
    let sizes = |kernel: &KernelParts, name: &str| {
        let size = |shape: &String| kernel.sizes(shape).and_then(|size| size.get(name).copied());
        if common.is_empty() {
            let shapes = kernel.shapes();
            let mut sizes: Vec<_> = shapes.into_iter().map(size).collect();
            sizes.sort_unstable();
            sizes
        } else {
            common.iter().map(|shape| size(shape)).collect::<Vec<_>>()
        }
    };
    pair(&gone, &new, |gone, new| {
        let asked = sizes(base, gone) == sizes(head, new);
        Likeness {
            code: asked && gone.eq_ignore_ascii_case(new),
            asked,
        }
    })
}

/// Pairs shapes that have the same sizes.
fn pair_shapes<'a>(
    base: &KernelParts<'a>,
    head: &KernelParts<'a>,
    known: &[Rename],
) -> Vec<(&'a String, &'a String)> {
    let names = HeadNames { renames: known };
    let (gone, new) = gone_and_new(base.shapes(), head.shapes());
    pair(&gone, &new, |gone, new| {
        let carried = base.sizes(gone).map(|sizes| {
            sizes
                .iter()
                .map(|(name, size)| (names.dimension(head.name, name), *size))
                .collect::<BTreeMap<_, _>>()
        });
        let is_same = carried.as_ref() == head.sizes(new);
        Likeness {
            code: is_same,
            asked: is_same,
        }
    })
}

fn pair_variants<'a>(
    base: &KernelParts<'a>,
    head: &KernelParts<'a>,
    known: &[Rename],
) -> Vec<(&'a String, &'a String)> {
    let (gone, new) = gone_and_new(base.variants(), head.variants());
    let kernel = || head.name.to_owned();
    pair(&gone, &new, |gone, new| {
        let mut renames = known.to_vec();
        renames.push(rename(RenamedItem::Variant { kernel: kernel() }, gone, new));
        let tensors: Vec<_> = pair_tensors(base, head, &renames)
            .into_iter()
            .map(|(was, is)| rename(RenamedItem::Tensor { kernel: kernel() }, was, is))
            .collect();
        renames.extend(tensors);
        let names = HeadNames { renames: &renames };
        Likeness {
            code: has_code_of(base, gone, head, new),
            asked: asks_as(base, gone, head, new, &names),
        }
    })
}

/// Pairs cases by the names that are known so far: the base's, translated, and head's.
fn pair_cases<'a>(
    base: &KernelParts<'a>,
    head: &KernelParts<'a>,
    known: &[Rename],
) -> Vec<(Case, &'a Case)> {
    let names = HeadNames { renames: known };
    base.cases
        .iter()
        .map(|case| {
            let mut case = (*case).clone();
            names.carry_case(&mut case);
            case
        })
        .filter_map(|was| {
            let is = head.cases.iter().find(|is| is.id == was.id)?;
            Some((was, *is))
        })
        .collect()
}

/// Pairs tensors that have the same content in every case. If both sides have equally many arguments, the tensors must
/// also have the same position among them.
fn pair_tensors<'a>(
    base: &KernelParts<'a>,
    head: &KernelParts<'a>,
    known: &[Rename],
) -> Vec<(&'a String, &'a String)> {
    let (gone, new) = gone_and_new(base.tensors(), head.tensors());
    if gone.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let cases = pair_cases(base, head, known);
    let find_tensor = |case: &Case, name: &str| {
        case.tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .cloned()
    };
    pair(&gone, &new, |gone, new| {
        let mut is_anywhere = false;
        let is_same = cases.iter().all(|(was, is)| {
            let (theirs, ours) = (find_tensor(was, gone), find_tensor(is, new));
            is_anywhere |= theirs.is_some();
            let is_same_content = match (theirs, ours) {
                (Some(theirs), Some(ours)) => has_content_of(&theirs, &ours),
                (theirs, ours) => theirs.is_none() && ours.is_none(),
            };
            is_same_content && has_place_of(was, gone, is, new)
        });
        let is_same = is_same && is_anywhere;
        Likeness {
            code: is_same,
            asked: is_same,
        }
    })
}

fn has_content_of(base: &Tensor, head: &Tensor) -> bool {
    let mut base = base.clone();
    base.name.clone_from(&head.name);
    // A mask may have a new name, too.
    if let (Some(Compare::Mask { tensor: was }), Some(Compare::Mask { tensor: is })) =
        (&mut base.compare, &head.compare)
    {
        was.clone_from(is);
    }
    base == *head
}

fn has_place_of(base: &Case, gone: &str, head: &Case, new: &str) -> bool {
    let names = |case: &Case| {
        case.steps
            .iter()
            .flat_map(|step| {
                step.args.iter().flat_map(|arg| {
                    let mut arg = arg.clone();
                    let names: Vec<String> = tensors_of_arg(&mut arg)
                        .into_iter()
                        .map(|name| name.clone())
                        .collect();
                    names
                })
            })
            .collect::<Vec<_>>()
    };
    let (was, is) = (names(base), names(head));
    let mut places = was.iter().zip(&is);
    was.len() != is.len() || places.all(|(was, is)| (was == gone) == (is == new))
}

/// Returns true if both are built from the same entries of the same source, with the same macros.
fn has_code_of(base: &KernelParts, was: &str, head: &KernelParts, is: &str) -> bool {
    let (was, is) = (base.units_of(was), head.units_of(is));
    let is_same = |(arch, was): (&Arch, &&Unit)| {
        is.get(arch).is_some_and(|is| {
            let code = |unit: &'_ Unit| {
                let (source, dirs) = (unit.source.clone(), unit.include_dirs.clone());
                (source, dirs, unit.defines.clone(), unit.call.names())
            };
            code(was) == code(is)
        })
    };
    !was.is_empty() && was.iter().all(is_same)
}

/// Returns true if both must do the same work, with the same macros and flags, under the same gates. Their code may be
/// in different files and have different names.
fn asks_as(base: &KernelParts, was: &str, head: &KernelParts, is: &str, names: &HeadNames) -> bool {
    let own = HeadNames { renames: &[] };
    let (theirs, ours) = (base.units_of(was), head.units_of(is));
    let is_built_alike = theirs.keys().eq(ours.keys())
        && theirs
            .values()
            .zip(ours.values())
            .all(|(was, is)| (&was.defines, &was.flags) == (&is.defines, &is.flags));
    let (gates, others) = (base.gates_of(was, names), head.gates_of(is, &own));
    let is_held_alike =
        gates.len() == others.len() && gates.iter().all(|gate| others.contains(gate));
    is_built_alike && is_held_alike && base.work_of(was, names) == head.work_of(is, &own)
}

/// Returns the work of a case. The location of a user's reference is left out, because both references are run.
fn work(mut case: Case) -> Case {
    case.tensors.sort_by(|a, b| a.name.cmp(&b.name));
    if let Reference::User {
        source,
        function,
        flags,
        ..
    } = &mut case.reference
    {
        source.clear();
        function.clear();
        flags.clear();
    }
    case
}
