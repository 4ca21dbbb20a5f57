//! Targets are reported, and decide nothing.

use super::*;

fn target(shape: &str, bound: Bound, because: Option<&str>) -> Target {
    Target {
        subject: case("fast", shape),
        metric: Metric::P50,
        op: Op::Le,
        bound,
        because: because.map(str::to_owned),
        declared: "gates.yaml:9".into(),
    }
}

fn relative(factor: &str) -> Bound {
    Bound::Expr(expr(&format!("{factor} * direct.p50")))
}

/// `fast` takes 80 us, and `direct` 100.
fn aimed(targets: &[Target]) -> (Judgement, Record) {
    let mut record = record();
    record.policy.targets = targets.to_vec();
    (ruled(&record), record)
}

#[test]
fn a_miss_is_reported_with_its_figures_and_blocks_nothing() {
    let why = "bound by issue slots";
    let (judgement, _) = aimed(&[
        target("small", relative("0.9"), None),
        target("large", relative("0.75"), Some(why)),
        target("large", Bound::Value(Num(79_000.0)), None),
    ]);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.verdicts.len(), 44);
    let standings: Vec<_> = judgement
        .targets
        .iter()
        .map(|target| target.standing)
        .collect();
    let (met, missed) = (Standing::Met, Standing::Missed);
    assert_eq!(standings, [met, missed, missed]);
    let miss = &judgement.targets[1];
    let near = |value: Option<Num>, wanted: f64| {
        value.is_some_and(|value| (value.0 - wanted).abs() < 1e-3 * wanted)
    };
    assert!(
        near(miss.measured, 80_000.0) && near(miss.limit, 75_000.0),
        "{miss:?}"
    );
    let share = |share: Option<Num>| share.map(|num| num.0);
    let change = share(miss.measured).zip(share(miss.limit));
    assert_eq!(
        share(miss.change),
        change.map(|(measured, limit)| (measured - limit) / limit)
    );
    assert_eq!(miss.because.as_deref(), Some(why));
    assert_eq!(miss.reason.code(), "beyond-limit");
}

/// Nor does what is wrong miss a target, or what was not measured meet one.
#[test]
fn without_a_figure_there_is_no_standing() {
    let targets = [target("small", relative("0.9"), None)];
    let (_, mut record) = aimed(&targets);
    recheck(&mut record, &case_id("fast", "small"), |_, facts| {
        facts.error.max_err = Num(0.3);
    });
    let judgement = ruled(&record);
    assert_eq!(judgement.targets[0].standing, Standing::NotMeasured);
    assert_eq!(judgement.targets[0].reason.code(), "not-proven");

    let (_, mut record) = aimed(&targets);
    record.environment.device = no_gpu();
    record
        .evidence
        .retain(|piece| matches!(piece, Evidence::Build { .. }));
    let judgement = ruled(&record);
    assert_eq!(judgement.targets[0].standing, Standing::NotMeasured);
    assert_eq!(judgement.targets[0].reason.code(), "no-device");

    // The sibling that it is relative to.
    let (_, mut record) = aimed(&targets);
    recheck(&mut record, &case_id("direct", "small"), |_, facts| {
        facts.error.max_err = Num(0.3);
    });
    let judgement = ruled(&record);
    assert_eq!(judgement.targets[0].standing, Standing::NotMeasured);
    assert_eq!(judgement.targets[0].reason.code(), "operand-unknown");
}

#[test]
fn a_target_is_no_gate_that_a_change_could_loosen() {
    let (_, base) = aimed(&[target("small", relative("0.9"), None)]);
    let (_, head) = aimed(&[]);
    let judgement = compare(&base, &head, Loosening::Fails);
    assert_eq!(loosened(&judgement), []);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
}
