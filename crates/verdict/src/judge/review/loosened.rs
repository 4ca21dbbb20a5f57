//! What head holds less strictly than base did: a gate that a change loosens or removes is a verdict too.
//!
//! Pure, over plans and gates alone: it knows no evidence. What cannot be compared (another expression,
//! another reference) counts as loosened.

use super::references;
use crate::expr::{Expression, Name};
use crate::judge::renames::Asked;
use crate::model::*;
use std::collections::BTreeMap;

/// Of a run beside its base. What references compute is `references`'.
pub fn since(base: &Base, plan: &Plan, gates: &[Gate]) -> Vec<Verdict> {
    let was = Asked {
        plan: &base.plan,
        gates: &base.gates,
    };
    let mut found = find(was, Asked { plan, gates }, base.loosening);
    found.extend(removed_files(base, plan));
    found
}

/// Of the files of gates that are gone every case that the filters take in.
fn removed_files<'a>(base: &'a Base, head: &'a Plan) -> impl Iterator<Item = Verdict> + 'a {
    base.gone.iter().flat_map(move |gone| {
        let cases = gone.cases.iter().filter(|id| head.selects(id));
        cases.map(move |id| {
            let demand = BaseDemand::File(gone.file.clone());
            let subject = Subject::Case(id.clone());
            verdict(subject, demand, Loosened::FileRemoved, None, base.loosening)
        })
    })
}

/// Of two records.
pub fn between(base: &Record, head: &Record, loosening: Loosening) -> Vec<Verdict> {
    let [was, is] = [base, head].map(|record| Asked {
        plan: &record.plan,
        gates: &record.policy.gates,
    });
    let mut found = find(was, is, loosening);
    found.extend(references::between(base, head, loosening));
    found
}

/// Whether head holds to everything that base asks, as far as plans and gates tell.
pub fn asks_no_less(base: Asked, head: Asked) -> bool {
    find(base, head, Loosening::Fails).is_empty()
}

/// A verdict for everything that base asked and head no longer asks as strictly, in the order of base.
/// Stricter and additional gates are no matter here, and neither is what head's filters leave out, whether or
/// not head still has it.
fn find(base: Asked, head: Asked, loosening: Loosening) -> Vec<Verdict> {
    let failures = head.plan.expected.iter().filter_map(|expected| {
        let (demand, how) = loosened_failure(expected, base.plan)?;
        let subject = Subject::Case(expected.every_shape());
        let declared = Some(expected.declared.clone());
        Some(verdict(subject, demand, how, declared, loosening))
    });
    let fallbacks = head.plan.fallbacks.iter().filter_map(|fallback| {
        let (demand, how, on) = loosened_fallback(fallback, base.plan)?;
        let declared = Some(fallback.declared.clone());
        Some(verdict(on, demand, how, declared, loosening))
    });
    let gates = base.gates.iter().filter_map(|gate| {
        let (how, declared) = loosened_gate(gate, base.plan, head)?;
        let demand = BaseDemand::Gate(gate.rule.clone());
        let subject = gate.subject.clone();
        Some(verdict(subject, demand, how, declared, loosening))
    });
    let cases = base.plan.cases.iter().flat_map(|case| {
        let subject = Subject::Case(case.id.clone());
        let head = head.plan.case(&case.id);
        let found = head.map_or_else(Vec::new, |head| loosened_case(case, head));
        found
            .into_iter()
            .map(move |(demand, how)| verdict(subject.clone(), demand, how, None, loosening))
    });
    let budget = lower_budget(base.plan, head.plan);
    let budget = budget.map(|how| (BaseDemand::SimulatorBudget, how));
    let schedule = shorter_schedule(base.plan, head.plan);
    let schedule = schedule.map(|how| (BaseDemand::TimingSchedule, how));
    let of_all = budget.into_iter().chain(schedule);
    let of_all = of_all
        .map(|(demand, how)| verdict(Subject::Case(every_case()), demand, how, None, loosening));
    gates
        .chain(failures)
        .chain(fallbacks)
        .chain(cases)
        .chain(of_all)
        .collect()
}

/// A variant of base's that another stands in for at head: its gates no longer block a run that allows that.
fn loosened_fallback(fallback: &Fallback, base: &Plan) -> Option<(BaseDemand, Loosened, Subject)> {
    let was = base.fallback(&fallback.kernel, &fallback.variant);
    let was = was.map(|was| was.to.clone());
    if was.as_ref() == Some(&fallback.to) {
        return None;
    }
    let mut cases = base.cases.iter();
    let case = cases.find(|case| fallback.is_of(&case.id))?;
    let on = Subject::Case(CaseId {
        shape: "*".to_owned(),
        ..case.id.clone()
    });
    let how = Loosened::FallsBack(fallback.to.clone());
    Some((BaseDemand::NoFallback(was), how, on))
}

/// A variant of base's that head keeps to fail, or to fail by more gates than base did.
fn loosened_failure(expected: &Expected, base: &Plan) -> Option<(BaseDemand, Loosened)> {
    let was = match base.expected(&expected.kernel, &expected.variant) {
        Some(was) => was.gates.clone(),
        None if base.cases.iter().any(|case| expected.is_of(&case.id)) => Vec::new(),
        None => return None,
    };
    let mut gates = expected.gates.iter();
    let is_looser = gates.any(|gate| !was.contains(gate));
    let how = || Loosened::ExpectedToFail(expected.gates.clone());
    is_looser.then(|| (BaseDemand::NoFailure(was), how()))
}

fn every_case() -> CaseId {
    let every = || "*".to_owned();
    CaseId {
        kernel: every(),
        variant: every(),
        shape: every(),
    }
}

/// `declared`: where head has what stands in its place.
pub(super) fn verdict(
    subject: Subject,
    demand: BaseDemand,
    how: Loosened,
    declared: Option<String>,
    loosening: Loosening,
) -> Verdict {
    let how = Box::new(how);
    let (outcome, reason) = match loosening {
        Loosening::Fails => (Outcome::Fail, Reason::Loosened(how)),
        Loosening::Allowed => (Outcome::Pass, Reason::LooseningAllowed(how)),
    };
    let question = Question::NoLooser(demand);
    Verdict::without_figures(subject, question, outcome, reason, declared)
}

/// Times of another mode are other figures, and a limit on fewer samples is another limit.
fn shorter_schedule(base: &Plan, head: &Plan) -> Option<Loosened> {
    if !base.cases.iter().any(|case| case.timed) {
        return None;
    }
    let (was, is) = (&base.timing, &head.timing);
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

/// A case over the budget is skipped: a lower one takes checks away from all of them.
fn lower_budget(base: &Plan, head: &Plan) -> Option<Loosened> {
    let (base, head) = (base.simulation.budget, head.simulation.budget);
    (head < base).then_some(Loosened::SimulatorBudget { base, head })
}

/// With where head declares what it has instead.
fn loosened_gate(gate: &Gate, base: &Plan, head: Asked) -> Option<(Loosened, Option<String>)> {
    if !base.is_selected_by(head.plan, &gate.subject) {
        return None;
    }
    let is_there = match &gate.subject {
        Subject::Unit(id) => head.plan.unit(id).is_some(),
        Subject::Case(id) => head.plan.case(id).is_some(),
    };
    if !is_there {
        return Some((Loosened::SubjectRemoved(gate.subject.clone()), None));
    }
    if gate.rule == Rule::HasEffect && is_selected_alone(base, head.plan, &gate.subject) {
        return None;
    }
    // Said once, of the variant as a whole: it is held to no baseline and never timed.
    let of_variant = |plan: &Plan| {
        let subject = &gate.subject;
        plan.expected(subject.kernel(), subject.variant()).is_some()
    };
    if of_variant(head.plan) && !of_variant(base) {
        return None;
    }
    let on_subject = head.gates.iter().filter(|it| it.subject == gate.subject);
    let answers: Vec<_> = on_subject
        .filter(|other| asks_the_same(&gate.rule, &other.rule))
        .map(|other| (other, strictness(&gate.rule, &other.rule)))
        .collect();
    let first = |wanted: Strictness| answers.iter().find(|(_, strictness)| *strictness == wanted);
    if let Some((kept, _)) = first(Strictness::Kept) {
        let other = other_rival(&gate.rule, gate.subject.kernel(), base, head.plan)?;
        return Some((Loosened::Rival(other), kept.declared.clone()));
    }
    // The nearest to an answer: what has other values rather than what has other words.
    let with = |other: &Gate, how: fn(Rule) -> Loosened| {
        Some((how(other.rule.clone()), other.declared.clone()))
    };
    match (first(Strictness::Looser), first(Strictness::Unknown)) {
        (Some((other, _)), _) => with(other, Loosened::Looser),
        (None, Some((other, _))) => with(other, Loosened::Incomparable),
        (None, None) => Some((Loosened::GateRemoved, None)),
    }
}

/// A rival that the gate names, and that is another program at head.
fn other_rival(rule: &Rule, kernel: &str, base: &Plan, head: &Plan) -> Option<String> {
    let command = |plan: &Plan, name: &str| {
        let rival = plan.rival(kernel, name);
        rival.map(|rival| rival.command.clone())
    };
    let mut named = rivals_named(rule).into_iter();
    named.find(|name| command(base, name) != command(head, name))
}

fn rivals_named(rule: &Rule) -> Vec<String> {
    let text = match rule {
        Rule::Condition { expr }
        | Rule::Limit {
            limit:
                Limit::Absolute {
                    bound: Bound::Expr(expr),
                    ..
                },
            ..
        } => &expr.text,
        _ => return Vec::new(),
    };
    let Ok(expression) = Expression::parse(text) else {
        return Vec::new();
    };
    let names = expression.names().iter();
    let rivals = names.filter_map(|name| match name {
        Name::Rival(rival, ..) => Some(rival.clone()),
        Name::Plain(_) | Name::Dotted(..) => None,
    });
    rivals.collect()
}

/// Alone, a variant has nothing to differ from: filters leave the gate out with the others.
fn is_selected_alone(base: &Plan, head: &Plan, subject: &Subject) -> bool {
    let of_kernel = base
        .cases
        .iter()
        .filter(|case| case.id.kernel == subject.kernel() && case.id.variant != subject.variant());
    !head.filters.is_empty() && !of_kernel.into_iter().any(|case| head.selects(&case.id))
}

/// Whether a gate on the same subject asks about the same thing.
fn asks_the_same(base: &Rule, head: &Rule) -> bool {
    match (base, head) {
        (
            Rule::Limit {
                metric,
                limit: Limit::Absolute { .. },
            },
            Rule::Limit {
                metric: other,
                limit: Limit::Absolute { .. },
            },
        )
        | (
            Rule::Limit {
                metric,
                limit: Limit::Baseline { .. },
            },
            Rule::Limit {
                metric: other,
                limit: Limit::Baseline { .. },
            },
        )
        | (
            Rule::Limit {
                metric,
                limit: Limit::Anchor { .. },
            },
            Rule::Limit {
                metric: other,
                limit: Limit::Anchor { .. },
            },
        )
        | (
            Rule::Limit {
                metric,
                limit: Limit::Base { .. },
            },
            Rule::Limit {
                metric: other,
                limit: Limit::Base { .. },
            },
        ) => metric == other,
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

/// Of two rules that ask about the same thing.
pub fn strictness(base: &Rule, head: &Rule) -> Strictness {
    let kept_if = |kept| match kept {
        true => Strictness::Kept,
        false => Strictness::Looser,
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
            // Of one value, whatever it is: the operators decide.
            (Bound::Expr(base), Bound::Expr(head)) if base == head => {
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
        )
        | (
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
        ) => match anchor == now {
            true => kept_if(head.0 <= change.0),
            // A later anchor forgets what was lost before it.
            false => Strictness::Unknown,
        },
        (Rule::Condition { expr }, Rule::Condition { expr: head }) if expr != head => {
            Strictness::Unknown
        }
        _ => Strictness::Kept,
    }
}

/// Whether everything that holds `strict` holds `loose`; false for NaN.
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

/// What a case asks beside its gates: on what it is checked, against what, and how often.
fn loosened_case(base: &Case, head: &Case) -> Vec<(BaseDemand, Loosened)> {
    let mut found = Vec::new();
    if base.seeds.iter().any(|seed| !head.seeds.contains(seed)) {
        found.push((
            BaseDemand::Seeds(base.seeds.clone()),
            Loosened::Seeds(head.seeds.clone()),
        ));
    }
    if let (Determinism::BitExact, Determinism::Declared { reason }) =
        (&base.determinism, &head.determinism)
    {
        let because = reason.clone();
        found.push((BaseDemand::BitExact, Loosened::Nondeterministic { because }));
    }
    if head.launches < base.launches {
        found.push((
            BaseDemand::Launches(base.launches),
            Loosened::Launches(head.launches),
        ));
    }
    let dims = base.dims.iter();
    let changed: BTreeMap<String, i64> = dims
        .filter(|(name, size)| head.dims.get(*name) != Some(size))
        .map(|(name, size)| (name.clone(), *size))
        .collect();
    let has_other_sizes = !changed.is_empty();
    if has_other_sizes {
        let now = changed.keys();
        let now = now.map(|name| (name.clone(), head.dims.get(name).copied()));
        let now = Loosened::Dims(now.collect());
        found.push((BaseDemand::Dims(changed), now));
    }
    for tensor in &base.tensors {
        let other = head.tensors.iter().find(|it| it.name == tensor.name);
        match tensor.role {
            Role::Scratch => found.extend(prepared_scratch(tensor, other)),
            _ => found.extend(loosened_tensor(tensor, other, &base.dims, has_other_sizes)),
        }
    }
    found
}

/// Work that moves from the kernel to its caller is in no figure any more.
fn prepared_scratch(base: &Tensor, head: Option<&Tensor>) -> Option<(BaseDemand, Loosened)> {
    let now = head.filter(|head| head.role == Role::Scratch)?;
    let is_new = now.fill.is_some() && now.fill != base.fill;
    let tensor = base.name.clone();
    is_new.then_some((
        BaseDemand::UnpreparedScratch { tensor },
        Loosened::PreparedScratch,
    ))
}

/// Whether head compares no fewer elements, as far as it is written the same. Other `dims` have a reason of their own.
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
                let constants = expr.constants.iter();
                constants
                    .filter(|(name, _)| !dims.contains_key(*name))
                    .map(|(name, value)| (name.clone(), *value))
                    .collect()
            };
            condition.text == now.text && index == others && macros(condition) == macros(now)
        }
        (base, head) => base == Some(head),
    }
}

/// What a kernel is given, and which of what it gives is looked at.
fn loosened_tensor(
    base: &Tensor,
    head: Option<&Tensor>,
    dims: &BTreeMap<String, i64>,
    has_other_sizes: bool,
) -> Vec<(BaseDemand, Loosened)> {
    let tensor = || base.name.clone();
    let values = |tensor: &Tensor| (tensor.elem, tensor.fill.clone(), tensor.codec.clone());
    let mut found = Vec::new();
    if head.map(values) != Some(values(base)) {
        let (tensor, is_input) = (tensor(), base.role.is_drawn());
        found.push(match (is_input, head) {
            (true, _) => (BaseDemand::InputValues { tensor }, Loosened::InputValues),
            (false, None) => (BaseDemand::OutputType { tensor }, Loosened::OutputRemoved),
            (false, Some(_)) => (BaseDemand::OutputType { tensor }, Loosened::OutputType),
        });
    }
    let Some(head) = head else {
        return found;
    };
    if head.role != base.role {
        let (tensor, role) = (tensor(), base.role);
        let demand = BaseDemand::TensorRole { tensor, role };
        found.push((demand, Loosened::TensorRole(head.role)));
    }
    if let Some(now) = &head.compare
        && !is_the_same_part(base.compare.as_ref(), now, dims)
    {
        let (tensor, compare) = (tensor(), base.compare.clone());
        let demand = BaseDemand::ComparedElements { tensor, compare };
        found.push((demand, Loosened::ComparedElements(now.clone())));
    }
    if head.dims != base.dims && !has_other_sizes {
        let (tensor, dims) = (tensor(), base.dims.clone());
        let demand = BaseDemand::TensorDims { tensor, dims };
        found.push((demand, Loosened::TensorDims(head.dims.clone())));
    }
    found
}
