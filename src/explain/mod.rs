//! Why a case is not what it was at the base: causes, from what the two sides' code, launch and counters are. Pure: all
//! of it is in the record, or in two of them. Knows no sentences; `report::explain` writes them.
//!
//! A cause is found by a rule, one file of [`causes`] each, which sees both sides and compares nothing else. Adding one
//! is a variant of [`CauseClass`], a file and its test.

mod beside;
mod cause;
mod causes;
pub mod diagnosis;
mod loops;
mod side;

pub use beside::Beside;
pub use cause::{Cause, CauseClass, CausePlace, Figure, Measure, Of};
pub use side::{Side, Sides, Unexplained};

/// The causes of what changed, the gravest first. Never empty: that nothing changed is one.
pub fn explain(sides: &Sides) -> Vec<Cause> {
    let beside = Beside::of(sides);
    let mut causes: Vec<Cause> = causes::RULES
        .iter()
        .flat_map(|rule| rule(sides, &beside))
        .collect();
    if causes.is_empty() {
        causes.push(Cause::new(CauseClass::NothingChanged, 0.0));
    }
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    causes
}
