//! What `calibrate` wrote beside a baseline decides with more degrees of freedom, and only as far as the run
//! bears it out.

use super::*;
use crate::judge;

const GATE: &str = "p50 +2%";

/// 1.5 % slower in three processes, which differ by 0.3 %; the baseline's by 0.1 %.
fn noisy() -> Record {
    let mut record = record();
    retime(
        &mut record,
        &case_id("direct", "small"),
        |process, facts| {
            *facts = time_facts(101_200 + 300 * u64::from(process), 0);
        },
    );
    record
}

fn calibrated(mut record: Record, deviation: f64, processes: u32) -> Record {
    let mut files = record.policy.baselines.iter_mut();
    let file = files.find(|file| file.variant == "direct" && file.key.facet() == Facet::Times);
    file.unwrap().calibrated.insert(
        "small".into(),
        Calibration {
            date: "2026-11-20".into(),
            gpu: "GPU-0".into(),
            driver: "580.159.04".into(),
            processes,
            deviations: [(Metric::P50, Num(deviation))].into(),
        },
    );
    record
}

fn of(record: &Record) -> Verdict {
    verdict(record, &case("direct", "small"), GATE)
}

fn noted(record: &Record) -> Vec<Note> {
    ruled(record).notes
}

#[test]
fn three_processes_that_leave_it_open_decide_with_a_calibrated_spread() {
    let alone = of(&noisy());
    assert_eq!(alone.outcome, Outcome::Inconclusive);
    let known = calibrated(noisy(), 0.003, 30);
    let found = of(&known);
    assert_eq!(found.outcome, Outcome::Pass, "{}", found.reason);
    assert!(
        found
            .reason
            .ends_with("is not known; spread of 30 calibrated processes)"),
        "{}",
        found.reason
    );
    assert!(found.smallest_visible.unwrap().0 < alone.smallest_visible.unwrap().0);
    assert_eq!(noted(&known), []);
    let asks = |record: &Record| {
        next(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        )
        .len()
    };
    assert_eq!((asks(&noisy()), asks(&known)), (1, 0));
}

#[test]
fn a_regression_fails_with_it_too() {
    let mut record = noisy();
    retime(
        &mut record,
        &case_id("direct", "small"),
        |process, facts| {
            *facts = time_facts(102_300 + 300 * u64::from(process), 0);
        },
    );
    assert_eq!(of(&record).outcome, Outcome::Inconclusive);
    let found = of(&calibrated(record, 0.003, 30));
    assert_eq!(found.outcome, Outcome::Fail, "{}", found.reason);
}

#[test]
fn a_run_that_spreads_more_is_believed_and_says_so() {
    let record = calibrated(noisy(), 0.0002, 300);
    let (found, alone) = (of(&record), of(&noisy()));
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert!(
        found
            .reason
            .contains("; its own spread, more than was calibrated)"),
        "{}",
        found.reason
    );
    // The baseline's spread of 0.1 % is more than 0.02 %, too.
    assert_eq!(found.interval, alone.interval);
    let notes = noted(&record);
    let [
        Note::Noisier {
            metric: Metric::P50,
            deviation,
            calibrated,
            date,
            ..
        },
    ] = notes.as_slice()
    else {
        panic!("{notes:?}")
    };
    assert!((deviation.0 - 0.003).abs() < 1e-4, "{deviation:?}");
    assert_eq!((*calibrated, date.as_str()), (Num(0.0002), "2026-11-20"));
}

#[test]
fn a_calibration_from_which_nothing_follows_fails() {
    for (deviation, processes) in [
        (f64::NAN, 30),
        (0.0, 30),
        (-0.1, 30),
        (0.01, 1),
        (f64::INFINITY, 30),
    ] {
        let record = calibrated(noisy(), deviation, processes);
        expect(
            &record,
            &case("direct", "small"),
            GATE,
            Outcome::Fail,
            &format!(
                "the calibrated spread of p50 is {deviation} over {processes} processes, and no interval follows from that; write it anew with `gatekeeper calibrate 'k/direct@small' --write-noise`"
            ),
        );
    }
}

#[test]
fn what_was_calibrated_under_another_key_or_of_another_shape_is_not_believed() {
    let mut record = calibrated(noisy(), 0.003, 30);
    record.environment.device = Seen::Got(DeviceFacts {
        driver: "590.10".into(),
        ..device()
    });
    let found = of(&record);
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert!(
        found
            .reason
            .starts_with("the baseline holds under another key")
    );

    let mut record = calibrated(noisy(), 0.003, 30);
    for file in &mut record.policy.baselines {
        if let Some(it) = file.calibrated.remove("small") {
            file.calibrated.insert("large".into(), it);
        }
    }
    assert_eq!(of(&record), of(&noisy()));
}

#[test]
fn a_change_that_edits_it_loosens() {
    let said = |base: &Record, head: &Record| -> Vec<String> {
        let edited = judge::loosened::edited(
            &base.policy.baselines,
            &head.policy.baselines,
            &head.plan,
            Loosening::Fails,
        );
        assert!(edited.iter().all(|it| it.outcome == Outcome::Fail));
        edited
            .iter()
            .map(|it| format!("{} {}: {}", it.subject, it.gate, it.reason))
            .collect()
    };
    let known = |deviation, processes| calibrated(record(), deviation, processes);
    assert_eq!(said(&known(0.001, 30), &known(0.001, 30)), [""; 0]);
    let says = |what: &str| {
        [format!(
            "k/direct@small not loosened: calibrated spread of times: the head edits what processes are believed to spread by: {what}"
        )]
    };
    for (base, head, what) in [
        (
            known(0.001, 30),
            known(0.005, 30),
            "p50 0.10 % over 30 processes -> p50 0.50 % over 30 processes",
        ),
        (
            known(0.005, 30),
            known(0.001, 30),
            "p50 0.50 % over 30 processes -> p50 0.10 % over 30 processes",
        ),
        (
            known(0.001, 30),
            known(0.001, 300),
            "p50 0.10 % over 30 processes -> p50 0.10 % over 300 processes",
        ),
        (
            known(0.001, 30),
            record(),
            "p50 0.10 % over 30 processes -> none",
        ),
        (
            record(),
            known(0.001, 30),
            "none -> p50 0.10 % over 30 processes",
        ),
    ] {
        assert_eq!(said(&base, &head), says(what));
    }
}
