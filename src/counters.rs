//! The simulator's counters under the names of gates. Alone knows both.

use ptxsim::{Reason, Tier};
use std::collections::BTreeMap;
use verdict::model::{Counter, Doubt, LineCount, Withheld};

/// Version of how the simulator counts: part of the key of what was agreed on.
pub use ptxsim::COUNTER_MODEL;

/// Whether a GPU's own counters have confirmed what the simulator counts, so that a gate can rest on it
/// where the launch gives no doubt.
pub fn can_be_gated(counter: Counter) -> bool {
    ptxsim::Counter::ALL
        .into_iter()
        .any(|own| own.name() == counter.name() && own.tier() == Tier::Gate)
}

/// What a launch cost: the counters that a gate can rest on, the others, and why not on some of these.
pub struct Counted {
    pub gated: BTreeMap<Counter, u64>,
    pub information: BTreeMap<Counter, u64>,
    pub withheld: BTreeMap<Counter, Withheld>,
    pub lines: BTreeMap<Counter, Vec<LineCount>>,
}

fn doubt(reason: Reason) -> Doubt {
    match reason {
        Reason::Polls => Doubt::Polls,
        Reason::Uncompared => Doubt::Uncompared,
        Reason::RaggedLoop => Doubt::RaggedLoop,
        Reason::Joined => Doubt::Joined,
        Reason::SplitCopy => Doubt::SplitCopy,
        Reason::ZeroStride => Doubt::ZeroStride,
    }
}

/// Lines of each counter that are kept: where to look, and not a profile.
const LINES: usize = 3;

pub fn counted(report: &ptxsim::Report) -> Counted {
    let of = |gated: bool| {
        ptxsim::Counter::ALL
            .into_iter()
            .filter(|own| {
                let can_be = own.tier() == Tier::Gate && !report.doubts.contains_key(own);
                can_be == gated
            })
            .filter_map(|own| Some((Counter::from_name(own.name())?, report.counters.get(own))))
            .collect()
    };
    let lines = ptxsim::Counter::ALL.into_iter().filter_map(|own| {
        let lines = report.counters.lines(own, LINES).into_iter();
        let lines: Vec<_> = lines
            .map(|(place, count)| LineCount { place, count })
            .collect();
        (!lines.is_empty()).then_some((Counter::from_name(own.name())?, lines))
    });
    let withheld = report.doubts.iter().filter_map(|(own, found)| {
        let withheld = Withheld {
            doubt: doubt(found.reason),
            place: found.place.clone(),
        };
        Some((Counter::from_name(own.name())?, withheld))
    });
    Counted {
        gated: of(true),
        information: of(false),
        withheld: withheld.collect(),
        lines: lines.collect(),
    }
}

/// `50 million warp instructions`: what a simulation costs, or may cost.
pub fn instructions(count: u64) -> String {
    let count = match count {
        few if few < 1_000_000 => few.to_string(),
        few if few < 10_000_000 => format!("{:.1} million", few as f64 / 1e6),
        many => format!("{} million", many / 1_000_000),
    };
    format!("{count} warp instructions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_as_people_say_them() {
        for (count, text) in [
            (999, "999"),
            (1_500_000, "1.5 million"),
            (50_000_000, "50 million"),
            (1_624_999_999, "1624 million"),
        ] {
            assert_eq!(instructions(count), format!("{text} warp instructions"));
        }
    }

    #[test]
    fn gates_and_the_simulator_know_the_same_counters() {
        let names = |names: Vec<&'static str>| -> std::collections::BTreeSet<_> {
            names.into_iter().collect()
        };
        assert_eq!(
            names(ptxsim::Counter::ALL.map(ptxsim::Counter::name).to_vec()),
            names(Counter::ALL.map(Counter::name).to_vec())
        );
        let mut report = ptxsim::Report {
            findings: Vec::new(),
            counters: ptxsim::Counters::default(),
            not_judged: Vec::new(),
            doubts: BTreeMap::new(),
            printed: Vec::new(),
        };
        let all = counted(&report);
        assert_eq!(all.gated.len() + all.information.len(), Counter::ALL.len());
        assert!(all.withheld.is_empty());
        for own in ptxsim::Counter::ALL {
            if own.tier() == Tier::Gate {
                let polls = ptxsim::Doubt {
                    reason: Reason::Polls,
                    place: "k.cu:1".to_owned(),
                };
                report.doubts.insert(own, polls);
            }
        }
        let none = counted(&report);
        assert_eq!(
            (none.gated.len(), none.information.len()),
            (0, Counter::ALL.len())
        );
        assert!(none.withheld.keys().eq(all.gated.keys()));
    }
}
