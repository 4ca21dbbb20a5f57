//! A whole analysis of a recording whose truth is known.

#![allow(clippy::unwrap_used, reason = "tests")]

use power::simulate::World;
use power::{Bound, Change, How, Recording, Settings, analyse, packed};

fn recording(processes: usize) -> Recording {
    let world = |base_ns: f64, launches_per_sample: u32, true_change: f64| World {
        base_ns,
        launches_per_sample,
        true_change,
        common: 0.012,
        singles: 20,
        ..World::quiet()
    };
    let contest = |name: &str, world: World, seed: u64| world.contest(name, processes, seed);
    let mut contests = vec![
        contest("spin", world(200_000.0, 10, 0.0), 1),
        contest("copy", world(1_000_000.0, 1, 0.0), 2),
        contest("spin", world(200_000.0, 10, 0.01), 3),
    ];
    contests[1].bound = Bound::Memory;
    Recording {
        device: "simulated".into(),
        driver: "none".into(),
        date: "2026-11-21".into(),
        tick_ns: 32.0,
        contests,
    }
}

fn settings() -> Settings {
    Settings {
        runs: 300,
        verdicts: 2000,
        ..Settings::default()
    }
}

#[test]
fn the_rule_detects_one_percent_and_raises_no_false_alarm() {
    let analysis = analyse(&recording(300), &settings()).unwrap();
    let rule = &analysis.rule;
    assert_eq!((rule.runs.failed.hits, rule.runs.failed.of), (0, 300));
    assert!(rule.runs.inconclusive.rate() < 0.05);
    for cell in rule.at_change(0.01) {
        assert!(cell.failed.rate() > 0.99, "{cell:?}");
    }
    assert_eq!(rule.of(How::Slowed).count(), 1);
    // 300 runs of 60 over two unchanged contests.
    assert!(
        rule.of(How::Unchanged)
            .all(|cell| cell.failed.of == 300 * 30)
    );
    let markdown = analysis.markdown();
    for title in ["What was recorded", "The rule"] {
        assert!(markdown.contains(&format!("### {title}")), "{title}");
    }
}

/// Changes called unchanged that are not, and those that no schedule could decide.
#[test]
fn counts_failing_and_inconclusive_runs() {
    let settings = Settings {
        runs: 50,
        verdicts: 50,
        ..settings()
    };
    let share = |world: World| {
        let mut recording = recording(70);
        let mut contest = world.contest("k", 70, 1);
        contest.change = Change::None;
        recording.contests = vec![contest];
        let analysis = analyse(&recording, &settings).unwrap();
        let replayed = &analysis.replayed[0];
        let point = &analysis.rule;
        (
            point.runs.failed.rate(),
            point.runs.inconclusive.rate(),
            replayed.failed.rate(),
            replayed.inconclusive.rate(),
        )
    };
    let slower = World {
        true_change: 0.03,
        ..World::quiet()
    };
    assert_eq!(share(slower), (1.0, 0.0, 1.0, 0.0));
    let restless = World {
        between: 0.03,
        ..World::quiet()
    };
    assert_eq!(share(restless), (0.0, 1.0, 0.0, 1.0));
}

/// Other code is told apart from the same code, and a change of its own is not a false alarm.
#[test]
fn other_code_is_judged_for_itself() {
    let settings = Settings {
        runs: 50,
        verdicts: 50,
        ..settings()
    };
    for (takes_more, red) in [(0.0, 0.0), (0.03, 1.0)] {
        let world = World {
            true_change: takes_more,
            ..World::quiet()
        };
        let mut recording = recording(70);
        recording.contests.push(world.contest("k", 70, 1));
        recording.contests[3].change = Change::OtherCode;
        let analysis = analyse(&recording, &settings).unwrap();
        let point = &analysis.rule;
        let [cell] = point.of(How::OtherCode).collect::<Vec<_>>()[..] else {
            panic!("{:?}", point.cells)
        };
        assert!((cell.change - takes_more).abs() < 0.001, "{cell:?}");
        assert_eq!(cell.failed.rate(), red);
        assert_eq!(point.runs.failed.rate(), 0.0);
        assert_eq!(
            point.at_change(0.03).count(),
            0,
            "of what is not known before"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_tables() {
    let settings = Settings {
        runs: 20,
        verdicts: 50,
        ..settings()
    };
    let recording = recording(70);
    let [a, b] = [(); 2].map(|()| analyse(&recording, &settings).unwrap().markdown());
    assert_eq!(a, b);
}

#[test]
fn a_recording_says_why_it_is_of_no_use() {
    let mut changed = recording(70);
    changed.contests.retain(|contest| !contest.unchanged());
    let error = analyse(&changed, &settings()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no contest of the recording is unchanged"
    );
    let error = analyse(&recording(55), &settings()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spin, 20 us, compute-bound: 55 processes, and one verdict may need 56"
    );
}

#[test]
fn a_recording_is_small_enough_for_git() {
    let recording = recording(100);
    let mut bytes = Vec::new();
    packed::write(&recording, &mut bytes).unwrap();
    let samples = 3 * 100 * (20 * 4 + 40);
    println!(
        "{} bytes, {:.2} a sample",
        bytes.len(),
        bytes.len() as f64 / f64::from(samples)
    );
    assert!(bytes.len() < 2 * samples as usize);
    assert_eq!(packed::read(bytes.as_slice()).unwrap(), recording);
}
