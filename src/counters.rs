//! The simulator's counters under the names of gates. Alone knows both.

use ptxsim::Tier;
use std::collections::BTreeMap;
use verdict::model::{Counter, LineCount};

/// Version of how the simulator counts: part of the key of what was agreed on.
pub use ptxsim::COUNTER_MODEL;

/// Whether a GPU's own counters have confirmed what the simulator counts, so that a gate can rest on it.
pub fn can_be_gated(counter: Counter) -> bool {
    ptxsim::Counter::ALL
        .into_iter()
        .any(|own| own.name() == counter.name() && own.tier() == Tier::Gate)
}

/// What a launch cost: the counters that a gate can rest on, and the others.
pub struct Counted {
    pub gated: BTreeMap<Counter, u64>,
    pub information: BTreeMap<Counter, u64>,
    pub lines: BTreeMap<Counter, Vec<LineCount>>,
}

/// Lines of each counter that are kept: where to look, and not a profile.
const LINES: usize = 3;

pub fn counted(report: &ptxsim::Report) -> Counted {
    let of = |gated: bool| {
        ptxsim::Counter::ALL
            .into_iter()
            .filter(|own| {
                let can_be = own.tier() == Tier::Gate && report.schedule_dependent.is_none();
                can_be == gated
            })
            .filter_map(|own| Some((Counter::from_name(own.name())?, report.counters.get(own))))
            .collect()
    };
    let lines = ptxsim::Counter::ALL.into_iter().filter_map(|own| {
        let lines = report.counters.lines(own, LINES).into_iter();
        let lines: Vec<_> = lines
            .map(|(place, count)| LineCount {
                place: place.to_owned(),
                count,
            })
            .collect();
        (!lines.is_empty()).then_some((Counter::from_name(own.name())?, lines))
    });
    Counted {
        gated: of(true),
        information: of(false),
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
            schedule_dependent: None,
            printed: Vec::new(),
        };
        let all = counted(&report);
        assert_eq!(all.gated.len() + all.information.len(), Counter::ALL.len());
        report.schedule_dependent = Some("k.cu:1".to_owned());
        let all = counted(&report);
        assert_eq!(
            (all.gated.len(), all.information.len()),
            (0, Counter::ALL.len())
        );
    }
}
