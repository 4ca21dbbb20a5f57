//! Why a case is not what it was at the base: causes, from what the two sides' code, launch and counters are. Pure: all
//! of it is in the record, or in two of them. Knows no sentences; `report::explain` writes them.
//!
//! A cause is found by a rule, one file of [`causes`] each, which sees both sides and compares nothing else. Adding one
//! is a variant of [`CauseClass`], a file and its test.

mod cause;
mod causes;
mod code_comparison;
mod counts;
pub mod diagnosis;
mod lines;
mod loops;
mod places;
mod residency;
mod side;
mod stalls;

pub use cause::{Cause, CauseClass, CausePlace, CauseValue, Measure, PlaceSide};
pub use code_comparison::CodeComparison;
pub use side::{Side, Sides, Unexplained};

/// The causes of what changed, the gravest first. Never empty: that nothing changed is one.
pub fn explain(sides: &Sides) -> Vec<Cause> {
    let code = CodeComparison::of(sides);
    let mut causes: Vec<Cause> = causes::RULES
        .iter()
        .flat_map(|rule| rule(sides, &code))
        .collect();
    if causes.is_empty() {
        let identity = |side: &Side| side.build.map(|build| build.identity.clone());
        let class = match identity(&sides.base) == identity(&sides.head) {
            true => CauseClass::NothingChanged,
            false => CauseClass::CodeChanged,
        };
        let cause = Cause::new(class, 0.0);
        causes.push(match class {
            CauseClass::CodeChanged => stalls::add_slower_lines(cause, sides),
            _ => cause,
        });
    }
    come_after_origins(&mut causes);
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    causes
}

/// An effect of another cause comes after that one, however much it is.
fn come_after_origins(causes: &mut [Cause]) {
    let weights: Vec<(CauseClass, f64)> = causes.iter().map(|it| (it.class, it.weight)).collect();
    for cause in causes {
        let origins = cause.class.origins();
        let known = weights.iter().filter(|(class, _)| origins.contains(class));
        let most = known.map(|(_, weight)| *weight).reduce(f64::max);
        if let Some(most) = most {
            cause.weight = cause.weight.min(most * 0.9);
        }
    }
}
