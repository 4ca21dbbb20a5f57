//! The rule and other comparers on the same samples.

use crate::draw::{self, Decks, Own, Ruling};
use crate::halves::{Halves, Pair, Processes, Samples};
use crate::rivals::Rival;
use crate::table::percent;
use crate::{
    Analysis, Counted, Prepared, Protocol, Recording, Settings, Unusable, analyse, prepare,
};

/// One in so many runs and verdicts is drawn for other comparers and other settings of the rule.
const THINNED: u32 = 10;

#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The analysis by the present rule.
    pub analysis: Analysis,
    /// The rule as it is first, then at other settings, then other comparers.
    pub points: Vec<Point>,
}

/// One comparer at one setting: a point of its receiver operating curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub comparer: Comparer,
    pub setting: String,
    pub counted: Counted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparer {
    Gatekeeper,
    Rival { name: &'static str, pair: Pair },
}

/// Draws runs from `recording` and counts the answers of the rule and of other comparers. The rule gets the samples
/// that a process takes today, the others all that were recorded.
///
/// # Errors
/// Where the recording is too small or broken, or the settings make no rule.
pub fn compare(recording: &Recording, settings: &Settings) -> Result<Comparison, Unusable> {
    let today = recording.clone().shortened(Protocol::default());
    let analysis = analyse(&today, settings)?;
    let prepared = prepare(&today, settings)?;
    let halves: Vec<ContestHalves> = recording
        .contests
        .iter()
        .map(|contest| ContestHalves {
            batched: Halves::of(contest, &settings.changes, Samples::Batched),
            single: Halves::of(contest, &settings.changes, Samples::Single),
        })
        .collect();
    let own = |settings: &Settings, counted| Point {
        comparer: Comparer::Gatekeeper,
        setting: format!(
            "tolerance {} %, {} % a run",
            percent(settings.tolerance),
            percent(settings.run_false_alarm),
        ),
        counted,
    };
    let mut points = vec![own(settings, analysis.rule.clone())];
    let thin = thin(settings);
    for other in around(&thin) {
        let rule = Own::of(&prepared, &other)?;
        let counted = draw::own(&prepared, &other, &rule, points.len() as u64);
        points.push(own(&other, counted));
    }
    for rival in Rival::all() {
        for pair in Pair::ALL {
            let stream = points.len() as u64;
            let Some(counted) = verdicts(&prepared, &halves, &thin, &rival, pair, stream) else {
                continue;
            };
            points.push(Point {
                comparer: Comparer::Rival {
                    name: rival.name(),
                    pair,
                },
                setting: rival.setting(),
                counted,
            });
        }
    }
    Ok(Comparison { analysis, points })
}

/// The rule at other levels and tolerances.
fn around(settings: &Settings) -> Vec<Settings> {
    let levels = [0.001, 0.05, 0.2, 0.5].map(|run_false_alarm| Settings {
        run_false_alarm,
        ..settings.clone()
    });
    let tolerances = [0.0025, 0.01].map(|tolerance| Settings {
        tolerance,
        ..settings.clone()
    });
    levels
        .into_iter()
        .chain(tolerances)
        .filter(|other| other != settings)
        .collect()
}

fn thin(settings: &Settings) -> Settings {
    Settings {
        runs: settings.runs.div_ceil(THINNED),
        verdicts: settings.verdicts.div_ceil(THINNED),
        ..settings.clone()
    }
}

struct ContestHalves {
    batched: Option<Halves>,
    single: Option<Halves>,
}

/// `None` where a contest has no samples of that kind.
fn verdicts(
    contests: &[Prepared],
    halves: &[ContestHalves],
    settings: &Settings,
    rival: &Rival,
    pair: Pair,
    stream: u64,
) -> Option<Counted> {
    let mut decks = Decks::of(contests);
    let halves: Vec<&Halves> = halves
        .iter()
        .map(|halves| match pair.samples {
            Samples::Batched => halves.batched.as_ref(),
            Samples::Single => halves.single.as_ref(),
        })
        .collect::<Option<_>>()?;
    Some(draw::count(
        contests,
        settings,
        stream,
        |dice, index, change| {
            let halves = halves.get(index)?;
            let (_, heads) = halves.head.iter().find(|&&(scaled, _)| scaled == change)?;
            let &[first, second] = decks.deal(dice, index, 2) else {
                return None;
            };
            let (base, processes) = match pair.processes {
                Processes::Apart => (second, 2),
                Processes::Together => (first, 1),
            };
            let (base, head) = (halves.base.get(base)?, heads.get(first)?);
            Some(Ruling {
                call: rival.call(base, head),
                processes,
                seconds: base.seconds() + head.seconds(),
            })
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::simulate::World;

    /// The verdict on the medians of this world's processes.
    fn median(world: &World, processes: usize, settings: &Settings, pair: Pair) -> Option<Counted> {
        let recording = Recording {
            device: "simulated".into(),
            driver: "none".into(),
            date: "2026-11-21".into(),
            tick_ns: 32.0,
            contests: vec![world.contest("k", processes, 1)],
        };
        let halves: Vec<_> = recording
            .contests
            .iter()
            .map(|contest| ContestHalves {
                batched: Halves::of(contest, &[0.01], Samples::Batched),
                single: Halves::of(contest, &[0.01], Samples::Single),
            })
            .collect();
        let prepared = prepare(&recording, settings).unwrap();
        let rival = Rival::Median { beyond: 0.02 };
        verdicts(&prepared, &halves, settings, &rival, pair, 0)
    }

    #[test]
    fn only_recorded_kinds_of_samples_are_judged() {
        let settings = Settings {
            quiet: Vec::new(),
            looks: vec![2],
            runs: 1,
            verdicts: 1,
            ..Settings::default()
        };
        let [single, batched, ..] = Pair::ALL;
        let without = World::quiet();
        assert!(median(&without, 5, &settings, single).is_none());
        assert!(median(&without, 5, &settings, batched).is_some());
        let with = World {
            singles: 4,
            ..World::quiet()
        };
        assert!(median(&with, 5, &settings, single).is_some());
    }

    #[test]
    fn separate_processes_see_drift_that_paired_ones_cancel() {
        // Both sides of a process move together by 5 %.
        let world = World {
            common: 0.05,
            ..World::quiet()
        };
        let settings = Settings {
            runs: 100,
            verdicts: 100,
            ..Settings::default()
        };
        let alarms = |pair| {
            let counted = median(&world, 100, &settings, pair).unwrap();
            counted.cells[0].failed.rate()
        };
        let [_, apart, _, together] = Pair::ALL;
        assert!(alarms(apart) > 0.3);
        assert_eq!(alarms(together), 0.0);
    }
}
