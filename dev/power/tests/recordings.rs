//! The committed tables follow from the committed recordings, byte for byte.

#![allow(clippy::unwrap_used, reason = "tests")]

use calibration::{Settings, packed};
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
    let comparison = power::compare(&both, &Settings::default()).unwrap();
    assert!(
        comparison.markdown() == table,
        "{name}.md is out of date: README.md says how it is made"
    );
}

#[test]
fn the_table_of_the_h200_is_redone() {
    redo("h200-2026-11-21");
}

#[test]
fn the_table_of_the_h100_is_redone() {
    redo("h100-2026-11-22");
}
