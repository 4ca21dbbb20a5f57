//! What head holds less strictly than base did: a gate that a change loosens or removes is a verdict too.
//!
//! Pure, over plans, gates and baselines alone: it knows no evidence, and what a gate says of it is not its matter.
//! What cannot be compared (another expression, another reference) counts as loosened: nobody can tell
//! that it is not.

mod agreed;

pub(super) use agreed::{edited, moved};

use super::words;
use crate::model::*;

/// What one side asks of its kernels.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub plan: &'a Plan,
    pub gates: &'a [Gate],
}

impl<'a> Side<'a> {
    pub fn of(record: &'a Record) -> Self {
        Self {
            plan: &record.plan,
            gates: &record.policy.gates,
        }
    }
}

/// A verdict for everything that base asked and head no longer asks as strictly, in the order of base.
/// Stricter and additional gates are no matter here, and neither is what a filter left out of head.
pub(super) fn loosened(base: Side, head: Side, loosening: Loosening) -> Vec<Verdict> {
    let gates = base.gates.iter().filter_map(|gate| {
        let found = of_gate(gate, head)?;
        Some(found.verdict(&gate.subject, &words::gate(&gate.rule), loosening))
    });
    let cases = base.plan.cases.iter().flat_map(|case| {
        let subject = Subject::Case(case.id.clone());
        let head = head.plan.case(&case.id);
        let found = head.map_or_else(Vec::new, |head| of_case(case, head));
        found.into_iter().map(move |(what, reason)| {
            Loosened {
                reason,
                declared: None,
            }
            .verdict(&subject, &what, loosening)
        })
    });
    let budget = less_simulated(base.plan, head.plan);
    let budget = budget.map(|found| ("budget of the simulator", found));
    let timed = less_timed(base.plan, head.plan);
    let timed = timed.map(|found| ("schedule of times", found));
    let of_all = budget.into_iter().chain(timed).map(|(what, found)| {
        let every = || "*".to_owned();
        let subject = Subject::Case(CaseId {
            kernel: every(),
            variant: every(),
            shape: every(),
        });
        found.verdict(&subject, what, loosening)
    });
    gates.chain(cases).chain(of_all).collect()
}

/// Times of another mode are other figures, and a limit on fewer samples is another limit.
fn less_timed(base: &Plan, head: &Plan) -> Option<Loosened> {
    if !base.cases.iter().any(|case| case.timed) {
        return None;
    }
    let (was, is) = (&base.timing, &head.timing);
    let mut found = Vec::new();
    if was.mode != is.mode {
        found.push(format!("{} and not {}", is.mode, was.mode));
    }
    let counts = [
        ("processes", was.processes, is.processes),
        ("iterations", was.iterations, is.iterations),
        ("singles", was.singles, is.singles),
    ];
    let fewer = counts.into_iter().filter(|(_, was, is)| is < was);
    found.extend(fewer.map(|(what, was, is)| format!("{is} {what} and not {was}")));
    (!found.is_empty()).then(|| Loosened {
        reason: format!("the head times {}", found.join(", ")),
        declared: None,
    })
}

/// A case over the budget is skipped: a lower one takes checks away from all of them.
fn less_simulated(base: &Plan, head: &Plan) -> Option<Loosened> {
    let (was, is) = (base.simulation.budget, head.simulation.budget);
    (is < was).then(|| Loosened {
        reason: format!("the head simulates cases of up to {is} warp instructions, and not {was}"),
        declared: None,
    })
}

struct Loosened {
    reason: String,
    /// Where head declares what it has instead.
    declared: Option<String>,
}

impl Loosened {
    fn verdict(self, subject: &Subject, what: &str, loosening: Loosening) -> Verdict {
        let (outcome, reason) = match loosening {
            Loosening::Fails => (Outcome::Fail, self.reason),
            Loosening::Allowed => (
                Outcome::Pass,
                format!("{}: {}", words::ALLOWED, self.reason),
            ),
        };
        let gate = format!("{}: {what}", words::NOT_LOOSENED);
        Verdict::without_figures(subject.clone(), gate, outcome, reason, self.declared)
    }
}

fn of_gate(gate: &Gate, head: Side) -> Option<Loosened> {
    let partial = head.plan.is_partial(gate.subject.kernel());
    let (there, left_out) = match &gate.subject {
        // A filter leaves out a variant, and never one of its architectures.
        Subject::Unit(id) => {
            let of_variant =
                |unit: &Unit| (&unit.id.kernel, &unit.id.variant) == (&id.kernel, &id.variant);
            let other = head.plan.units.iter().any(of_variant);
            (head.plan.unit(id).is_some(), partial && !other)
        }
        Subject::Case(id) => (head.plan.case(id).is_some(), partial),
    };
    let removed = |what: &str| {
        Some(Loosened {
            reason: format!("removed: {what}"),
            declared: None,
        })
    };
    if !there {
        return if left_out {
            None
        } else {
            removed(&format!("the head has no {}", gate.subject))
        };
    }
    // Alone, a variant has nothing to differ from, and a filter leaves the gate out with the others.
    if partial && gate.rule == Rule::HasEffect {
        return None;
    }
    let rivals: Vec<_> = head
        .gates
        .iter()
        .filter(|other| other.subject == gate.subject && rival(&gate.rule, &other.rule))
        .collect();
    let answers: Vec<_> = rivals
        .iter()
        .map(|other| strictness(&gate.rule, &other.rule))
        .collect();
    if answers.contains(&Strictness::Kept) {
        return None;
    }
    // The nearest to an answer: what has other values rather than what has other words.
    let looser = answers
        .iter()
        .position(|answer| *answer == Strictness::Looser)
        .or((!answers.is_empty()).then_some(0));
    match looser.and_then(|at| Some((rivals.get(at)?, answers.get(at)?))) {
        None => removed("the head asks nothing in its place"),
        Some((other, answer)) => Some(Loosened {
            reason: match answer {
                Strictness::Unknown => format!(
                    "changed, and cannot be compared: the head asks `{}`",
                    words::gate(&other.rule)
                ),
                Strictness::Looser | Strictness::Kept => allows(&other.rule),
            },
            declared: other.declared.clone(),
        }),
    }
}

/// Whether a gate on the same subject asks about the same thing.
fn rival(base: &Rule, head: &Rule) -> bool {
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
pub(super) enum Strictness {
    Kept,
    Looser,
    Unknown,
}

/// Of two rules that are rivals.
pub(super) fn strictness(base: &Rule, head: &Rule) -> Strictness {
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

fn allows(rule: &Rule) -> String {
    match rule {
        Rule::Limit {
            metric,
            limit:
                Limit::Absolute {
                    op: Op::Le | Op::Ge,
                    bound: Bound::Value(bound),
                },
        } => format!("the head allows {}", words::quantity(*metric, bound.0)),
        rule => format!("the head allows `{}`", words::gate(rule)),
    }
}

/// What a case asks beside its gates: on what it is checked, against what, and how often.
fn of_case(base: &Case, head: &Case) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut say = |what: String, reason: String| found.push((what, reason));
    let missing: Vec<_> = base
        .seeds
        .iter()
        .filter(|seed| !head.seeds.contains(seed))
        .collect();
    if !missing.is_empty() {
        say(
            format!("seeds {}", listed(&base.seeds)),
            format!("the head checks seeds {}", listed(&head.seeds)),
        );
    }
    if let (Determinism::BitExact, Determinism::Declared { reason }) =
        (&base.determinism, &head.determinism)
    {
        say(
            "bit for bit deterministic".to_owned(),
            format!("the head declares it non-deterministic: {reason}"),
        );
    }
    if head.launches < base.launches {
        say(
            format!("{} launches of a seed", base.launches),
            format!("the head makes {}", head.launches),
        );
    }
    if head.reference != base.reference {
        let reason = match same_but_for_its_file(&base.reference, &head.reference) {
            Some(file) => format!("what {file} computes changed, and cannot be compared"),
            None => "changed, and cannot be compared".to_owned(),
        };
        say("reference".to_owned(), reason);
    }
    let changed: Vec<_> = base
        .dims
        .iter()
        .filter(|(name, size)| head.dims.get(*name) != Some(size))
        .collect();
    if !changed.is_empty() {
        let sizes = |size: &dyn Fn(&str, i64) -> String| {
            let sizes: Vec<_> = changed
                .iter()
                .map(|(name, value)| size(name, **value))
                .collect();
            sizes.join(", ")
        };
        say(
            format!("shape {}", sizes(&|name, size| format!("{name} = {size}"))),
            format!(
                "under the same name the head has {}",
                sizes(&|name, _| match head.dims.get(name) {
                    Some(size) => format!("{name} = {size}"),
                    None => format!("no {name}"),
                })
            ),
        );
    }
    let sizes_are_told = !changed.is_empty();
    for tensor in base.tensors.iter().filter(|it| it.role != Role::Scratch) {
        let other = head.tensors.iter().find(|it| it.name == tensor.name);
        found.extend(of_tensor(tensor, other, sizes_are_told));
    }
    found
}

/// The file of head's, where base has it as it was at its commit: `0a34415aaaaa:k_ref.cpp`.
fn same_but_for_its_file<'a>(base: &Reference, head: &'a Reference) -> Option<&'a str> {
    let (Reference::User { source: was, .. }, Reference::User { source, .. }) = (base, head) else {
        return None;
    };
    let (_, name) = was.split_once(':')?;
    (name == source).then_some(source)
}

/// What a kernel is given, and which of what it gives is looked at.
fn of_tensor(base: &Tensor, head: Option<&Tensor>, sizes_are_told: bool) -> Vec<(String, String)> {
    let name = &base.name;
    let values = |tensor: &Tensor| (tensor.elem, tensor.fill.clone(), tensor.codec.clone());
    let mut found = Vec::new();
    if head.map(values) != Some(values(base)) {
        let what = match base.role.is_drawn() {
            true => format!("values of input {name}"),
            false => format!("type of output {name}"),
        };
        let now = match head {
            None if !base.role.is_drawn() => "the head has no such output",
            _ => "changed, and cannot be compared",
        };
        found.push((what, now.to_owned()));
    }
    let Some(head) = head else {
        return found;
    };
    if head.role != base.role {
        let what = format!("{name} is `{}`", role(base));
        found.push((what, format!("the head has `{}`", role(head))));
    }
    if head.dims != base.dims && !sizes_are_told {
        let what = format!("{name} is {:?}", base.dims);
        found.push((what, format!("the head has {:?}", head.dims)));
    }
    found
}

/// As gates.yaml has it.
fn role(tensor: &Tensor) -> &'static str {
    match tensor.role {
        Role::In => "in",
        Role::Out => "out",
        Role::Inout => "inout",
        Role::Scratch => "scratch",
    }
}

fn listed(seeds: &[u64]) -> String {
    let seeds: Vec<_> = seeds.iter().map(u64::to_string).collect();
    seeds.join(", ")
}
