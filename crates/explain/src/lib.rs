//! Finds out why a case differs from the base: the causes, from the code, launch and counters of the two sides. Pure:
//! everything is in the record, or in two records. It knows no sentences, which `report::explain` writes.
//!
//! A cause is found by a rule, one file of [`causes`] each, which sees both sides and nothing else. Most rules only
//! look at what was compiled, so they explain two compiled files, too. A new rule is a variant of [`CauseClass`], a
//! file and its test.

mod cause;
mod causes;
mod code_comparison;
mod compiled;
mod consequences;
mod counts;
pub mod diagnosis;
mod lines;
mod loops;
mod measured;
mod places;
mod residency;
mod side;
mod stalls;

use causes::Rule;
use consequences::LaunchChange;
use model::Num;

pub use cause::{Cause, CauseClass, CausePlace, CauseValue, Measure, PlaceSide};
pub use code_comparison::CodeComparison;
pub use compiled::Compiled;
pub use measured::{
    ChangePiece, ChangedLines, LineRange, MeasuredChange, MeasuredMetric, MeasuredPair,
    MeasuredPart, PartEffect,
};
pub use side::{CaseSide, Sides, Unexplained};

/// Returns the causes of what changed, the gravest first. The list is never empty: that nothing changed is a cause.
pub fn explain(sides: &Sides) -> Vec<Cause> {
    // Code, counters and data of different kernels say nothing about a change.
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
        let launch = LaunchChange::find(&causes, sides, &code);
        let mut causes = consequences::fold(causes, launch.as_ref());
        // If nothing else differs, and the code is the same, the slowdown is that of the launch as a whole.
        if let [only] = causes.as_mut_slice()
            && only.class == CauseClass::Launch
            && code.is_same()
            && sides.slowdown().is_some()
        {
            only.share = Some(Num(1.0));
        }
        causes
    }
}

/// Returns the causes for a kernel that was compiled twice, by the rules that need no run.
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
        consequences::fold(causes, None)
    }
}

/// Adds sizes that differ. Nobody ran the kernel, so nothing else is known.
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

/// Returns the cause that stands for no finding of any rule.
fn unknown(code: &CodeComparison) -> Cause {
    let class = if code.is_same() {
        CauseClass::NothingChanged
    } else {
        CauseClass::CodeChanged
    };
    Cause::new(class, 0.0)
}
