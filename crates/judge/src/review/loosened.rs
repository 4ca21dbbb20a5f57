//! Finds what head checks less strictly than the base did. A gate that a change loosens or removes is a verdict, too.
//!
//! The module looks at plans and gates alone, and knows no evidence. Rules that cannot be compared (another expression,
//! another reference) count as loosened.

use super::{Comparison, Ended, compare_required};
use crate::counterpart::NotRequired;
use crate::renames::PlanAndGates;
use model::*;
use std::collections::BTreeMap;
use std::mem::discriminant;

/// Compares a run with its base. `references` compares the results of references.
pub fn since(base: &Base, plan: &Plan, gates: &[Gate]) -> Vec<Comparison> {
    let was = PlanAndGates {
        plan: &base.plan,
        gates: &base.gates,
    };
    let mut found = find(was, PlanAndGates { plan, gates });
    found.extend(removed_files(base, plan));
    found
}

/// Compares every case and compiled file from files of gates that head no longer has.
fn removed_files(base: &Base, head: &Plan) -> Vec<Comparison> {
    let subjects = base.gone.iter().flat_map(|gone| {
        let cases = gone.cases.iter().cloned().map(Subject::Case);
        let binaries = gone.binaries.iter().cloned().map(Subject::Unit);
        cases.chain(binaries).map(|subject| (&gone.file, subject))
    });
    let is_selected = |subject: &Subject| match subject {
        Subject::Case(id) => head.selects(id),
        Subject::Unit(_) => head.filters.is_empty(),
    };
    compare_required(
        subjects,
        |(_, subject)| {
            if is_selected(subject) {
                Ok(())
            } else {
                Err(NotRequired::LeftOut)
            }
        },
        |(file, subject), ()| Comparison {
            subject,
            demand: BaseDemand::File(file.clone()),
            declared: None,
            ended: Ended::Failed(Loosened::FileRemoved),
        },
    )
}

/// Compares the demands of two records, whose references are compared elsewhere.
pub fn between(base: &Record, head: &Record) -> Vec<Comparison> {
    let [was, is] = [base, head].map(|record| PlanAndGates {
        plan: &record.plan,
        gates: &record.policy.gates,
    });
    find(was, is)
}

/// Returns true if head demands everything that the base demands, as far as plans and gates tell.
pub fn asks_no_less(base: PlanAndGates, head: PlanAndGates) -> bool {
    find(base, head)
        .iter()
        .all(|loss| loss.ended == Ended::Held)
}

/// Compares everything that the base demands, in the order of the base. Stricter and additional gates of head do not
/// matter here, and neither does what head's filters leave out, whether or not head still has it.
fn find(base: PlanAndGates, head: PlanAndGates) -> Vec<Comparison> {
    let Plan {
        // Both sides are built and run, so what the code does is compared, and not how it is made.
        units: _,
        cases,
        timing: _,
        simulation: _,
        // The command line decides how sides are timed and profiled.
        pairing: _,
        profiling: _,
        drawn: _,
        // Rivals are compared with the gates that name them.
        rivals: _,
        // Head's filters decide what is compared.
        filters: _,
        left_out: _,
        expected: _,
        fallbacks: _,
        // `uncaptured` compares the gaps of programs.
        uncaptured: _,
    } = base.plan;
    let gates = compare_required(
        base.gates,
        |gate| required_gate(gate, base.plan, head),
        |gate, ()| compare_gate(gate, base.plan, head),
    );
    let failures = compare_required(
        &head.plan.expected,
        |expected| required_failure(expected, base.plan),
        |expected, was| {
            let subject = Subject::Case(expected.every_shape());
            let is_looser = expected.gates.iter().any(|gate| !was.contains(gate));
            let how = || Loosened::ExpectedToFail(expected.gates.clone());
            Comparison {
                subject,
                demand: BaseDemand::NoFailure(was),
                declared: Some(expected.declared.clone()),
                ended: Ended::held_unless(is_looser.then(how)),
            }
        },
    );
    let fallbacks = compare_required(
        &head.plan.fallbacks,
        |fallback| required_fallback(fallback, base.plan),
        |fallback, subject| compare_fallback(fallback, base.plan, subject),
    );
    let drawn = [base.plan, head.plan].map(|plan| plan.drawn.as_ref().map(|drawn| drawn.seed));
    let cases = cases.iter().flat_map(|case| {
        let is_group = base.plan.is_group(&Subject::Case(case.id.clone()));
        // Each side of a group has its own memory. A group that is gone has lost its gates, which other comparisons
        // say.
        let head = head.plan.case(&case.id).filter(|_| !is_group);
        head.map_or_else(Vec::new, |head| compare_case(case, drawn, head))
    });
    let of_all = [
        (
            BaseDemand::SimulatorBudget,
            lower_budget(base.plan, head.plan),
        ),
        (
            BaseDemand::WarpHazards,
            weaker_hazards(base.plan, head.plan),
        ),
        (
            BaseDemand::TimingSchedule,
            shorter_schedule(base.plan, head.plan),
        ),
    ];
    let of_all = of_all
        .map(|(demand, how)| Comparison::for_case(&every_case(), demand, Ended::held_unless(how)));
    gates
        .into_iter()
        .chain(failures)
        .chain(fallbacks)
        .chain(cases)
        .chain(of_all)
        .collect()
}

/// Returns all cases of the variant as the subject, if the base has the variant. If the base did not have this
/// fallback, the gates of the variant no longer block a run that allows fallbacks.
fn required_fallback(fallback: &Fallback, base: &Plan) -> Result<Subject, NotRequired> {
    let case = base.cases.iter().find(|case| fallback.is_of(&case.id));
    let case = case.ok_or(NotRequired::NotAtBase)?;
    Ok(Subject::Case(CaseId {
        shape: "*".to_owned(),
        ..case.id.clone()
    }))
}

fn compare_fallback(fallback: &Fallback, base: &Plan, subject: Subject) -> Comparison {
    let was = base.fallback(&fallback.kernel, &fallback.variant);
    let was = was.map(|was| was.to.clone());
    let is_kept = was.as_ref() == Some(&fallback.to);
    let how = (!is_kept).then(|| Loosened::FallsBack(fallback.to.clone()));
    Comparison {
        subject,
        demand: BaseDemand::NoFallback(was),
        declared: Some(fallback.declared.clone()),
        ended: Ended::held_unless(how),
    }
}

/// Returns the gates for which the base keeps a variant to fail that head keeps to fail, too.
fn required_failure(expected: &Expected, base: &Plan) -> Result<Vec<GateName>, NotRequired> {
    match base.expected(&expected.kernel, &expected.variant) {
        Some(was) => Ok(was.gates.clone()),
        None if base.cases.iter().any(|case| expected.is_of(&case.id)) => Ok(Vec::new()),
        None => Err(NotRequired::NotAtBase),
    }
}

fn every_case() -> CaseId {
    let every = || "*".to_owned();
    CaseId::new(every(), every(), every())
}

/// Compares the schedules of timing. Times of another mode are other values, and a limit on fewer samples is another
/// limit.
fn shorter_schedule(base: &Plan, head: &Plan) -> Option<Loosened> {
    if !base.cases.iter().any(|case| case.timed) {
        return None;
    }
    let (was, is) = (&base.timing, &head.timing);
    let Schedule {
        mode: _,
        iterations: _,
        singles: _,
        processes: _,
        // Colder, shorter or fewer launches spread more, and a verdict on a time reports that itself.
        warmup: _,
        batch_ns: _,
        max_processes: _,
    } = was;
    let fewer = |base: u32, head: u32, change: fn(u32, u32) -> ScheduleChange| {
        (head < base).then(|| change(base, head))
    };
    let mode = (was.mode != is.mode).then_some(ScheduleChange::Mode {
        base: was.mode,
        head: is.mode,
    });
    let changes = [
        mode,
        fewer(was.processes, is.processes, |base, head| {
            ScheduleChange::Processes { base, head }
        }),
        fewer(was.iterations, is.iterations, |base, head| {
            ScheduleChange::Iterations { base, head }
        }),
        fewer(was.singles, is.singles, |base, head| {
            ScheduleChange::Singles { base, head }
        }),
    ];
    let changes: Vec<_> = changes.into_iter().flatten().collect();
    (!changes.is_empty()).then_some(Loosened::TimingSchedule(changes))
}

/// Compares the budgets of the simulator. A case over the budget is skipped, so a lower budget takes checks away from
/// all cases.
fn lower_budget(base: &Plan, head: &Plan) -> Option<Loosened> {
    let (base, head) = (base.simulation.budget, head.simulation.budget);
    (head < base).then_some(Loosened::SimulatorBudget { base, head })
}

fn weaker_hazards(base: &Plan, head: &Plan) -> Option<Loosened> {
    use WarpHazards::{Fail, Note};
    let change = (base.simulation.warp_hazards, head.simulation.warp_hazards);
    (change == (Fail, Note)).then_some(Loosened::WarpHazards)
}

fn required_gate(gate: &Gate, base: &Plan, head: PlanAndGates) -> Result<(), NotRequired> {
    let is_expected = |plan: &Plan| {
        let subject = &gate.subject;
        plan.expected(subject.kernel(), subject.variant()).is_some()
    };
    if !base.is_selected_by(head.plan, &gate.subject) {
        Err(NotRequired::LeftOut)
    } else if base.is_group(&gate.subject) && !is_there(gate, head.plan) {
        // A run against a base makes the comparison on both sides or on neither.
        Err(NotRequired::SaidElsewhere)
    } else if !is_there(gate, head.plan) {
        Ok(())
    } else if gate.rule == Rule::HasEffect && is_selected_alone(base, head.plan, &gate.subject) {
        Err(NotRequired::LeftOut)
    } else if is_expected(head.plan) && !is_expected(base) {
        // This is reported once, for the variant as a whole: it has no baselines and is never timed.
        Err(NotRequired::SaidElsewhere)
    } else {
        Ok(())
    }
}

fn is_there(gate: &Gate, plan: &Plan) -> bool {
    match &gate.subject {
        Subject::Unit(id) => plan.unit(id).is_some(),
        Subject::Case(id) => plan.case(id).is_some(),
    }
}

/// Compares a gate of the base with head's gates, and says where head declares what it has instead.
fn compare_gate(gate: &Gate, base: &Plan, head: PlanAndGates) -> Comparison {
    let ended = |ended, declared: Option<&Gate>| Comparison {
        subject: gate.subject.clone(),
        demand: BaseDemand::Gate(gate.rule.clone()),
        declared: declared.and_then(|declared| declared.declared.clone()),
        ended,
    };
    if !is_there(gate, head.plan) {
        let how = Loosened::SubjectRemoved(gate.subject.clone());
        return ended(Ended::Failed(how), None);
    }
    let answers: Vec<_> = head
        .gates
        .iter()
        .filter(|answer| answer.subject == gate.subject)
        .filter(|other| asks_the_same(&gate.rule, &other.rule))
        .map(|other| (other, strictness(&gate.rule, &other.rule)))
        .collect();
    let first = |wanted: Strictness| {
        let found = answers.iter().find(|(_, strictness)| *strictness == wanted);
        found.map(|(other, _)| *other)
    };
    if let Some(kept) = first(Strictness::Kept) {
        let other = other_rival(&gate.rule, gate.subject.kernel(), base, head.plan);
        return ended(Ended::held_unless(other.map(Loosened::Rival)), Some(kept));
    }
    // The nearest rule decides: one with other values is nearer than one with other words.
    match (first(Strictness::Looser), first(Strictness::Unknown)) {
        (Some(other), _) => {
            let how = Loosened::Looser(other.rule.clone());
            ended(Ended::Failed(how), Some(other))
        }
        (None, Some(other)) => {
            let how = Loosened::Incomparable(other.rule.clone());
            ended(Ended::Failed(how), Some(other))
        }
        (None, None) => ended(Ended::Failed(Loosened::GateRemoved), None),
    }
}

/// Returns the rival that the gate names if head has another program under this name.
fn other_rival(rule: &Rule, kernel: &str, base: &Plan, head: &Plan) -> Option<String> {
    let command = |plan: &Plan, name: &str| {
        let rival = plan.rival(kernel, name);
        rival.map(|rival| rival.command.clone())
    };
    rule.rivals()
        .into_iter()
        .find(|name| command(base, name) != command(head, name))
}

/// Returns true if the filters select a variant alone. It then has no sibling to differ from, and the filters leave
/// that gate out, too.
fn is_selected_alone(base: &Plan, head: &Plan, subject: &Subject) -> bool {
    let of_kernel = base
        .cases
        .iter()
        .filter(|case| case.id.kernel == subject.kernel() && case.id.variant != subject.variant());
    !head.filters.is_empty() && !of_kernel.into_iter().any(|case| head.selects(&case.id))
}

/// Returns true if a gate on the same subject asks about the same thing: the same metric with a limit of the same kind,
/// whatever its value.
fn asks_the_same(base: &Rule, head: &Rule) -> bool {
    match (base, head) {
        (
            Rule::Limit { metric, limit },
            Rule::Limit {
                metric: other,
                limit: asked,
            },
        ) => metric == other && discriminant(limit) == discriminant(asked),
        (Rule::Condition { .. }, Rule::Condition { .. })
        | (Rule::Counters { .. }, Rule::Counters { .. }) => true,
        (base, head) => base == head,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    Kept,
    Looser,
    Unknown,
}

/// Compares two rules that ask about the same thing.
pub fn strictness(base: &Rule, head: &Rule) -> Strictness {
    let kept_if = |kept| {
        if kept {
            Strictness::Kept
        } else {
            Strictness::Looser
        }
    };
    match (base, head) {
        (
            Rule::Limit {
                limit: Limit::Absolute { op, bound },
                ..
            },
            Rule::Limit {
                limit:
                    Limit::Absolute {
                        op: head_op,
                        bound: head_bound,
                    },
                ..
            },
        ) => match (bound, head_bound) {
            (Bound::Value(base), Bound::Value(head)) => {
                kept_if(implies((*head_op, head.0), (*op, base.0)))
            }
            // Both limit the same value, so the operators decide.
            (Bound::Expr(base), Bound::Expr(head)) if is_same_expr(base, head) => {
                kept_if(implies((*head_op, 0.0), (*op, 0.0)))
            }
            _ => Strictness::Unknown,
        },
        (
            Rule::Limit {
                limit: Limit::Baseline { change },
                ..
            },
            Rule::Limit {
                limit: Limit::Baseline { change: head },
                ..
            },
        ) => compare_margins(*change, *head),
        (
            Rule::Limit {
                limit: Limit::Base { change },
                ..
            },
            Rule::Limit {
                limit: Limit::Base { change: head },
                ..
            },
        )
        | (Rule::Counters { change }, Rule::Counters { change: head }) => {
            kept_if(head.0 <= change.0)
        }
        (
            Rule::Limit {
                limit: Limit::Anchor { anchor, change },
                ..
            },
            Rule::Limit {
                limit:
                    Limit::Anchor {
                        anchor: now,
                        change: head,
                    },
                ..
            },
        ) => {
            if anchor == now {
                compare_margins(*change, *head)
            } else {
                // A later anchor does not show what was lost before it.
                Strictness::Unknown
            }
        }
        (Rule::Condition { expr }, Rule::Condition { expr: head }) if !is_same_expr(expr, head) => {
            Strictness::Unknown
        }
        _ => Strictness::Kept,
    }
}

fn is_same_expr(base: &Expr, head: &Expr) -> bool {
    base.constants == head.constants && base.has_terms_of(head)
}

fn compare_margins(base: Margin, head: Margin) -> Strictness {
    match head.allows_at_most(base) {
        Some(true) => Strictness::Kept,
        Some(false) => Strictness::Looser,
        None => Strictness::Unknown,
    }
}

/// Returns true if everything that meets `strict` also meets `loose`. Returns false for NaN.
fn implies(strict: (Op, f64), loose: (Op, f64)) -> bool {
    let ((op, bound), (other, limit)) = (strict, loose);
    match (op, other) {
        (Op::Eq, _) => other.holds(bound, limit),
        (Op::Lt, Op::Lt | Op::Le) | (Op::Le, Op::Le) => bound <= limit,
        (Op::Le, Op::Lt) => bound < limit,
        (Op::Gt, Op::Gt | Op::Ge) | (Op::Ge, Op::Ge) => bound >= limit,
        (Op::Ge, Op::Gt) => bound > limit,
        (Op::Lt | Op::Le, Op::Eq | Op::Ge | Op::Gt)
        | (Op::Gt | Op::Ge, Op::Eq | Op::Le | Op::Lt) => false,
    }
}

/// Compares everything that a case demands in addition to its gates: on which inputs it is checked, against what, and
/// how often. No file of gates asks for a drawn seed.
///
/// Cases, tensors and steps are destructured without `..`, so that a new key does not compile until somebody has
/// decided here whether a change of it can demand less.
fn compare_case(base: &Case, drawn: [Option<u64>; 2], head: &Case) -> Vec<Comparison> {
    let Case {
        id,
        dims,
        tensors,
        // Memory operations are compared below. Arguments and grids are the kernel's own affair.
        steps: _,
        seeds,
        // `references` compares what the reference computes.
        reference: _,
        // The tolerance follows from the gate on the error.
        tolerance: _,
        determinism,
        launches,
        // A case that is late fails, whatever the deadline is.
        deadline_ms: _,
        // Whether the case is timed follows from the gates.
        timed: _,
    } = base;
    let is_declared = match (determinism, &head.determinism) {
        (Determinism::BitExact, Determinism::Declared { reason }) => {
            let because = reason.clone();
            Some(Loosened::Nondeterministic { because })
        }
        (Determinism::Declared { .. }, _) | (_, Determinism::BitExact) => None,
    };
    let changed: BTreeMap<String, i64> = dims
        .iter()
        .filter(|(name, size)| head.dims.get(*name) != Some(size))
        .map(|(name, size)| (name.clone(), *size))
        .collect();
    let has_other_sizes = !changed.is_empty();
    let sizes = has_other_sizes.then(|| {
        Loosened::Dims(
            changed
                .keys()
                .map(|name| (name.clone(), head.dims.get(name).copied()))
                .collect(),
        )
    });
    let asked = |seeds: &[u64]| -> Vec<u64> {
        seeds
            .iter()
            .copied()
            .filter(|seed| !drawn.contains(&Some(*seed)))
            .collect()
    };
    let (seeds, seeds_of_head) = (asked(seeds), asked(&head.seeds));
    let has_fewer_seeds = seeds.iter().any(|seed| !head.seeds.contains(seed));
    let has_fewer_launches = head.launches < *launches;
    let mut found = vec![
        (
            BaseDemand::Seeds(seeds),
            has_fewer_seeds.then_some(Loosened::Seeds(seeds_of_head)),
        ),
        (BaseDemand::BitExact, is_declared),
        (
            BaseDemand::Launches(*launches),
            has_fewer_launches.then_some(Loosened::Launches(head.launches)),
        ),
        (BaseDemand::Dims(changed), sizes),
    ];
    let new_inputs = find_new_inputs(base, head);
    for tensor in tensors {
        let other = head.tensors.iter().find(|other| other.name == tensor.name);
        found.extend(match tensor.role {
            Role::Scratch => vec![compare_scratch(tensor, other, &new_inputs)],
            _ => compare_tensor(tensor, other, dims, has_other_sizes),
        });
    }
    let moved =
        find_unread(&new_inputs, &head.reference).or_else(|| find_copy(&base.steps, &head.steps));
    found.push((BaseDemand::OwnWork, moved));
    found
        .into_iter()
        .map(|(demand, how)| Comparison::for_case(id, demand, Ended::held_unless(how)))
        .collect()
}

/// A demand of the base on a tensor, with how head demands less, if it does.
type OfTensor = (BaseDemand, Option<Loosened>);

/// Finds inputs that head gives its kernel, that the base's kernel does not get, and whose values gates.yaml states one
/// by one. Drawn values and constants contain no part of an answer, and the memory of a program is as the program left
/// it.
fn find_new_inputs<'a>(base: &Case, head: &'a Case) -> Vec<&'a Tensor> {
    let is_known = |name: &str| base.tensors.iter().any(|tensor| tensor.name == name);
    head.tensors
        .iter()
        .filter(|tensor| tensor.role.is_placed() && !is_known(&tensor.name))
        .filter(|tensor| match tensor.fill {
            Some(Fill::Values { .. } | Fill::Iota | Fill::Struct { .. }) => true,
            None
            | Some(
                Fill::Normal { .. }
                | Fill::Uniform { .. }
                | Fill::Constant { .. }
                | Fill::Integers { .. }
                | Fill::Permutation
                | Fill::Offsets { .. }
                | Fill::BlockTable { .. }
                | Fill::Captured { .. },
            ) => false,
        })
        .collect()
}

/// Compares working memory of the base's kernel with what head has in its place. If the caller now fills it, that is
/// work which no measured value includes.
fn compare_scratch(base: &Tensor, head: Option<&Tensor>, new_inputs: &[&Tensor]) -> OfTensor {
    let how = match head {
        Some(head) if head.is_captured() => None,
        Some(head) if head.role == Role::Scratch => {
            let is_prepared = head.fill.is_some() && head.fill != base.fill;
            is_prepared.then_some(Loosened::PreparedScratch)
        }
        Some(head) => (head.role.is_drawn() && head.role.is_placed())
            .then_some(Loosened::TensorRole(head.role)),
        None => new_inputs
            .first()
            .map(|input| Loosened::InputInstead(input.name.clone())),
    };
    let tensor = base.name.clone();
    (BaseDemand::UnpreparedScratch { tensor }, how)
}

/// Finds a new input that only the kernel reads. For a reference that is not a function of its inputs this is unknown.
fn find_unread(new_inputs: &[&Tensor], reference: &Reference) -> Option<Loosened> {
    let read = reference.inputs()?;
    new_inputs
        .iter()
        .find(|input| !read.contains(&input.name.as_str()))
        .map(|input| Loosened::UnreadInput(input.name.clone()))
}

/// Finds a copy that only head has. Times include a copy, and counters do not. Other operations of the stream write
/// constants, which replace no work of a kernel.
fn find_copy(base: &[Step], head: &[Step]) -> Option<Loosened> {
    let mut known: Vec<_> = base.iter().flat_map(copies).collect();
    head.iter().flat_map(copies).find_map(|copy| {
        if let Some(at) = known.iter().position(|other| *other == copy) {
            known.swap_remove(at);
            return None;
        }
        let (from, to) = copy;
        let (from, to) = (from.to_owned(), to.to_owned());
        Some(Loosened::Copies { from, to })
    })
}

fn copies(step: &Step) -> impl Iterator<Item = (&str, &str)> {
    let Step {
        entry: _,
        args: _,
        launch: _,
        before,
        after,
    } = step;
    before
        .iter()
        .chain(after)
        .filter_map(|operation| match operation {
            MemoryStep::Copy { from, to } => Some((from.as_str(), to.as_str())),
            MemoryStep::Memset { .. } => None,
        })
}

/// Returns true if head compares no fewer elements than the base. Only conditions that are written the same are
/// recognised. Other `dims` are reported for themselves.
fn is_the_same_part(base: Option<&Compare>, head: &Compare, dims: &BTreeMap<String, i64>) -> bool {
    match (base, head) {
        (
            Some(Compare::Where { condition, index }),
            Compare::Where {
                condition: now,
                index: others,
            },
        ) => {
            let macros = |expr: &Expr| -> BTreeMap<String, Num> {
                expr.constants
                    .iter()
                    .filter(|(name, _)| !dims.contains_key(*name))
                    .map(|(name, value)| (name.clone(), *value))
                    .collect()
            };
            condition.has_terms_of(now) && index == others && macros(condition) == macros(now)
        }
        (base, head) => base == Some(head),
    }
}

/// Compares a kernel's inputs, and which of its outputs are checked.
fn compare_tensor(
    base: &Tensor,
    head: Option<&Tensor>,
    dims: &BTreeMap<String, i64>,
    has_other_sizes: bool,
) -> Vec<OfTensor> {
    let Tensor {
        name,
        role,
        elem,
        dims: tensor_dims,
        // Gaps between elements and the position of a tensor are a layout of the same values.
        strides: _,
        offset,
        address: _,
        joined: _,
        pointers: _,
        fill,
        codec,
        compare,
        floats,
        // Each side's program leaves its own memory.
        left: _,
    } = base;
    let tensor = || name.clone();
    let is_same = |head: &Tensor| {
        (&head.elem, &head.fill, &head.codec, &head.floats) == (elem, fill, codec, floats)
    };
    let is_other = !head.is_some_and(is_same);
    let (demand, how) = match (role.is_drawn(), head) {
        (true, _) => (
            BaseDemand::InputValues { tensor: tensor() },
            Loosened::InputValues,
        ),
        (false, None) => (
            BaseDemand::OutputType { tensor: tensor() },
            Loosened::OutputRemoved,
        ),
        (false, Some(_)) => (
            BaseDemand::OutputType { tensor: tensor() },
            Loosened::OutputType,
        ),
    };
    let mut found = vec![(demand, is_other.then_some(how))];
    // A removed tensor has a verdict of its own.
    let Some(head) = head else {
        return found;
    };
    let has_other_role = head.role != *role;
    found.push((
        BaseDemand::TensorRole {
            tensor: tensor(),
            role: *role,
        },
        has_other_role.then_some(Loosened::TensorRole(head.role)),
    ));
    let now = head.compare.as_ref();
    let fewer = now.filter(|now| !is_the_same_part(compare.as_ref(), now, dims));
    found.push((
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: compare.clone(),
        },
        fewer.cloned().map(Loosened::ComparedElements),
    ));
    let has_other_dims = head.dims != *tensor_dims && !has_other_sizes;
    found.push((
        BaseDemand::TensorDims {
            tensor: tensor(),
            dims: tensor_dims.clone(),
        },
        has_other_dims.then(|| Loosened::TensorDims(head.dims.clone())),
    ));
    // Accesses are checked at the offset that the base uses. Another offset may be aligned.
    if *offset > 0 {
        found.push((
            BaseDemand::TensorOffset {
                tensor: tensor(),
                offset: *offset,
            },
            (head.offset != *offset).then_some(Loosened::TensorOffset(head.offset)),
        ));
    }
    found
}
