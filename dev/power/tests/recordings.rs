//! The committed tables follow from the committed recordings, byte for byte, and meet the goals.

#![allow(clippy::unwrap_used, reason = "tests")]

use power::{Analysis, How, Protocol, Settings, analyse, packed};
use std::fs::File;
use std::path::Path;

fn redo(name: &str) {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let [short, long] = ["short", "long"].map(|half| {
        let file = File::open(recordings.join(format!("{name}-{half}.json.gz"))).unwrap();
        packed::read(file).unwrap()
    });
    let both = short.with(long).unwrap();
    let table = std::fs::read_to_string(recordings.join(format!("{name}.md"))).unwrap();
    let today = both.shortened(Protocol::default());
    let analysis = analyse(&today, &Settings::default()).unwrap();
    assert!(
        analysis.markdown() == table,
        "{name}.md is out of date: README.md says how it is made"
    );
    meets_the_goals(&analysis);
}

/// The goal: of runs of 60 unchanged cases at most 1 % with a failing case, and at most 5 % with an inconclusive one; at
/// least 99 % of +1 % detected; and at most 2 s of GPU time a verdict, even the longest. These recordings do better: none
/// of 4000 runs has either, and all of +1 % is detected. An unchanged verdict takes at most half of the 0.28 s that it took
/// before there were quiet looks.
fn meets_the_goals(analysis: &Analysis) {
    let (rule, confidence) = (&analysis.rule, analysis.settings.confidence);
    let runs = rule.runs;
    assert_eq!((runs.failed.of, analysis.settings.cases), (4000, 60));
    assert_eq!((runs.failed.hits, runs.inconclusive.hits), (0, 0));
    assert!(runs.failed.bounds(confidence)[1] <= 0.01);
    assert!(runs.inconclusive.bounds(confidence)[1] <= 0.05);
    // Each of the eight kernels, +1 %: with more work, and scaled.
    let detected: Vec<_> = rule.at_change(0.01).collect();
    assert_eq!(detected.len(), 16);
    for cell in detected {
        assert!(cell.failed.bounds(confidence)[0] >= 0.99, "{cell:?}");
        assert_eq!(cell.failed.hits, cell.failed.of, "{cell:?}");
    }
    // Two of the eight take 1 ms, and as many blocks as ignore slow launches.
    let unchanged: Vec<f64> = rule.of(How::Unchanged).map(|cell| cell.seconds).collect();
    assert_eq!(unchanged.len(), 8);
    assert!(unchanged.iter().sum::<f64>() / 8.0 <= 0.15, "{unchanged:?}");
    assert_eq!(rule.cells.len(), 8 * 6);
    assert!(rule.cells.iter().all(|cell| cell.most_seconds <= 2.0));
}

#[test]
fn the_table_of_the_h200_is_redone() {
    redo("h200-2026-11-21");
}

#[test]
fn the_table_of_the_h100_is_redone() {
    redo("h100-2026-11-22");
}
