//! Why a case is not what it was at the base: causes, from what the two sides' code, launch and counters are. Pure: all
//! of it is in the record, or in two of them. Knows no sentences; `report::explain` writes them.
//!
//! A cause is found by a rule, one file of [`causes`] each, which sees both sides and compares nothing else. Most rules see
//! what was compiled alone, so that they explain two compiled files, too. Adding a rule is a variant of [`CauseClass`], a file
//! and its test.

mod cause;
mod causes;
mod code_comparison;
mod compiled;
mod counts;
pub mod diagnosis;
mod lines;
mod loops;
mod places;
mod residency;
mod side;
mod stalls;

use causes::Rule;

pub use cause::{Cause, CauseClass, CausePlace, CauseValue, Measure, PlaceSide};
pub use code_comparison::CodeComparison;
pub use compiled::Compiled;
pub use side::{CaseSide, Sides, Unexplained};

/// The causes of what changed, the gravest first. Never empty: that nothing changed is one.
pub fn explain(sides: &Sides) -> Vec<Cause> {
    // Code, counters and data of different kernels say nothing of a change.
    if sides.head.unit.is_group() {
        return vec![Cause::new(CauseClass::Kernels, 1.0)];
    }
    let code = CodeComparison::from_sides(sides);
    let causes = causes::RULES
        .iter()
        .flat_map(|rule| match rule {
            Rule::Code(rule) => rule(&code),
            Rule::Run(rule) => rule(sides, &code),
        })
        .collect::<Vec<_>>();
    if causes.is_empty() {
        match unknown(&code) {
            cause if cause.class == CauseClass::CodeChanged => {
                vec![stalls::add_slower_lines(cause, sides)]
            }
            cause => vec![cause],
        }
    } else {
        in_order(causes)
    }
}

/// The same of a kernel that was compiled twice, by the rules that need no run.
pub fn explain_compiled<'a>(base: Compiled<'a>, head: Compiled<'a>) -> Vec<Cause> {
    let code = CodeComparison::new(base, head);
    let causes = causes::RULES
        .iter()
        .flat_map(|rule| match rule {
            Rule::Code(rule) => rule(&code),
            Rule::Run(_) => Vec::new(),
        })
        .collect::<Vec<_>>();
    if causes.is_empty() {
        vec![with_sizes(unknown(&code), &code)]
    } else {
        in_order(causes)
    }
}

/// Adds sizes that differ: nobody ran it, so they are all there is to say.
fn with_sizes(mut cause: Cause, code: &CodeComparison) -> Cause {
    let sizes = [&code.base, &code.head].map(|side| {
        side.entries()
            .iter()
            .filter_map(|entry| entry.resources.as_ref())
            .fold((0, 0), |(registers, stack), kernel| {
                (
                    kernel.registers.max(registers),
                    stack + kernel.stack.unwrap_or(0),
                )
            })
    });
    let [base, head] = sizes;
    let all = [
        (Measure::Registers, (base.0, head.0)),
        (Measure::Stack, (base.1, head.1)),
        (Measure::CodeSize, code.code_size()),
    ];
    for (measure, (base, head)) in all {
        if base != head {
            cause = cause.with(measure, base, head);
        }
    }
    cause
}

/// No rule has found anything.
fn unknown(code: &CodeComparison) -> Cause {
    let is_same = match (code.base.build, code.head.build) {
        (Some(base), Some(head)) => base.identity == head.identity,
        // Before device code is linked.
        (None, None) => code.base.code == code.head.code,
        _ => false,
    };
    let class = if is_same {
        CauseClass::NothingChanged
    } else {
        CauseClass::CodeChanged
    };
    Cause::new(class, 0.0)
}

fn in_order(mut causes: Vec<Cause>) -> Vec<Cause> {
    come_after_origins(&mut causes);
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    causes
}

/// An effect of another cause comes after that one, however much it is.
fn come_after_origins(causes: &mut [Cause]) {
    let weights: Vec<(CauseClass, f64)> = causes
        .iter()
        .map(|cause| (cause.class, cause.weight))
        .collect();
    for cause in causes {
        let origins = cause.class.origins();
        let most = weights
            .iter()
            .filter(|(class, _)| origins.contains(class))
            .map(|(_, weight)| *weight)
            .reduce(f64::max);
        if let Some(most) = most {
            cause.weight = cause.weight.min(most * 0.9);
        }
    }
}
