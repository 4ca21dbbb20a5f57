//! Slow erosion: each step within its limit, and all of them together beyond another.

use super::*;

fn since(of: &str) -> Since {
    match of {
        "best" => Since::Best,
        revision => Since::Revision(revision.into()),
    }
}

fn of_anchor(metric: Metric, of: &str, change: f64) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Anchor {
            anchor: since(of),
            change: Num(change),
        },
    }
}

fn small() -> Subject {
    case("direct", "small")
}

fn anchor(of: &str, p50: f64) -> Anchor {
    let mut baselines = baselines();
    for baseline in &mut baselines {
        for metrics in baseline.cases.values_mut() {
            if let (Some(agreed), "direct") =
                (metrics.get_mut(&Metric::P50), baseline.variant.as_str())
            {
                agreed.value = Num(p50);
            }
        }
    }
    Anchor {
        since: since(of),
        found: "0a34415aaaaa".into(),
        baselines,
        broken_baselines: Vec::new(),
    }
}

/// `direct@small` takes 100 us, which is what the last baseline says; the anchor had `p50`.
fn anchored(of: &str, p50: f64) -> Record {
    let mut record = record();
    let rule = of_anchor(Metric::P50, of, 0.05);
    record.policy.gates.push(gate(small(), rule));
    record.policy.anchors.push(anchor(of, p50));
    record
}

#[test]
fn what_eroded_beyond_the_anchors_limit_fails_though_the_last_baseline_holds() {
    let record = anchored("v1.0", 92_000.0);
    assert_eq!(verdict(&record, &small(), "p50 +2%").outcome, Outcome::Pass);
    let said = verdict(&record, &small(), "p50 +5% of v1.0");
    assert_eq!(said.outcome, Outcome::Fail);
    assert!(
        said.reason
            .starts_with("8.7 % slower against v1.0 (0a34415aaaaa) (95 % interval "),
        "{}",
        said.reason
    );
    assert!(
        said.reason.ends_with("; at most 5.0 % slower is agreed"),
        "{}",
        said.reason
    );
    assert!(said.anchored);
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let [drift] = judgement.drifts.as_slice() else {
        panic!("{:?}", judgement.drifts)
    };
    assert_eq!((drift.metric, drift.was), (Metric::P50, Num(92_000.0)));
    assert!((drift.change.0 - 0.087).abs() < 0.001);

    let held = anchored("v1.0", 98_000.0);
    assert_eq!(
        verdict(&held, &small(), "p50 +5% of v1.0").outcome,
        Outcome::Pass
    );
    assert_eq!(ruled(&held).drifts.len(), 1, "held or not");
    // What is far better than long ago is nothing to be agreed on again.
    let better = ruled(&anchored("v1.0", 200_000.0));
    assert_eq!((better.conclusion, better.wins), (Conclusion::Pass, vec![]));
}

#[test]
fn an_anchor_that_cannot_judge_says_why() {
    let gate = "p50 +5% of v1.0";
    let mut gone = anchored("v1.0", 98_000.0);
    gone.policy.anchors.clear();
    expect(
        &gone,
        &small(),
        gate,
        Outcome::Inconclusive,
        "what v1.0 agreed on is not part of this record",
    );
    let mut without = anchored("v1.0", 98_000.0);
    without.policy.anchors[0].baselines.clear();
    expect(
        &without,
        &small(),
        gate,
        Outcome::Skipped,
        "v1.0 (0a34415aaaaa) has no baseline of it",
    );
    let mut other = anchored("v1.0", 98_000.0);
    for baseline in &mut other.policy.anchors[0].baselines {
        if let BaselineKey::Times { driver_branch, .. } = &mut baseline.key {
            *driver_branch = "570".into();
        }
    }
    expect(
        &other,
        &small(),
        gate,
        Outcome::Inconclusive,
        "the baseline of v1.0 holds under another key (driver branch `570`, here `580`)",
    );
    let mut broken = without;
    let path = "baselines/k/direct/times-x.json".to_owned();
    broken.policy.anchors[0]
        .broken_baselines
        .push(BrokenBaseline {
            path,
            kernel: "k".into(),
            variant: "direct".into(),
            facet: Some(Facet::Times),
            problem: "it ends in the middle".into(),
        });
    expect(
        &broken,
        &small(),
        gate,
        Outcome::Inconclusive,
        "the baseline baselines/k/direct/times-x.json of v1.0 cannot be used: it ends in the middle",
    );
    let nan = anchored("v1.0", f64::NAN);
    expect(
        &nan,
        &small(),
        gate,
        Outcome::Fail,
        "v1.0's p50 is NaN; it has to be agreed again",
    );
}

#[test]
fn resources_have_anchors_too() {
    let mut record = record();
    let rule = of_anchor(Metric::Registers, "v1.0", 0.05);
    record.policy.gates.push(gate(unit("direct"), rule));
    record.policy.anchors.push(anchor("v1.0", 1.0));
    expect(
        &record,
        &unit("direct"),
        "registers +5% of v1.0",
        Outcome::Pass,
        "unchanged against v1.0 (0a34415aaaaa)",
    );
    for baseline in &mut record.policy.anchors[0].baselines {
        for metrics in baseline.cases.values_mut() {
            if let Some(agreed) = metrics.get_mut(&Metric::Registers) {
                agreed.value = Num(64.0);
            }
        }
    }
    expect(
        &record,
        &unit("direct"),
        "registers +5% of v1.0",
        Outcome::Fail,
        "50.0 % more against v1.0 (0a34415aaaaa); at most 5.0 % more is agreed",
    );
}

#[test]
fn the_drift_from_the_best_level_stands_there_without_a_gate() {
    let mut record = record();
    record.policy.anchors.push(anchor("best", 95_000.0));
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let drifts: Vec<_> = judgement
        .drifts
        .iter()
        .map(|drift| drift.subject.to_string())
        .collect();
    assert_eq!(
        drifts,
        [
            "k/direct@small",
            "k/direct@large",
            "k/fast@small",
            "k/fast@large"
        ]
    );
    // With a gate it stands there once.
    let gated = ruled(&anchored("best", 92_000.0));
    assert_eq!(gated.conclusion, Conclusion::Fail);
    assert_eq!(gated.drifts.len(), 4);
}

/// Same code as the base, so nothing is timed for that; and yet maybe slower than at the anchor.
#[test]
fn what_did_not_change_since_the_base_is_timed_for_its_anchor() {
    let times_of_direct = |record: &mut Record| {
        let is_direct = |piece: &Evidence| matches!(piece, Evidence::Time { case, .. } if case.variant == "direct");
        record.evidence.retain(|piece| !is_direct(piece));
        record.policy.gates.retain(|gate| {
            !matches!(
                &gate.rule,
                Rule::Limit {
                    metric: Metric::P50,
                    limit: Limit::Absolute { .. }
                }
            )
        });
    };
    let asked = |record: &Record| {
        let asked = next(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        asked
            .into_iter()
            .map(|(case, timing)| (case.to_string(), timing))
            .collect::<Vec<_>>()
    };
    let mut record = record_beside_base();
    times_of_direct(&mut record);
    assert_eq!(asked(&record), []);
    let rule = of_anchor(Metric::P50, "v1.0", 0.05);
    record.policy.gates.push(gate(small(), rule));
    record.policy.anchors.push(anchor("v1.0", 98_000.0));
    assert_eq!(
        asked(&record),
        [("k/direct@small".to_owned(), Timing::Alone)]
    );
}

#[test]
fn a_later_anchor_and_a_wider_limit_are_loosened() {
    let loosened = |of: &str, change: f64| {
        let mut record = record_beside_base();
        let was = gate(small(), of_anchor(Metric::P50, "v1.0", 0.05));
        record.policy.base.as_mut().unwrap().gates.push(was);
        let is = gate(small(), of_anchor(Metric::P50, of, change));
        record.policy.gates.push(is);
        let verdicts = ruled(&record).verdicts.into_iter();
        verdicts
            .filter(|verdict| verdict.gate.starts_with("not loosened"))
            .map(|verdict| verdict.reason)
            .collect::<Vec<_>>()
    };
    assert_eq!(loosened("v1.0", 0.05), [""; 0]);
    assert_eq!(loosened("v1.0", 0.04), [""; 0]);
    assert_eq!(
        loosened("v1.0", 0.06),
        ["the head allows `p50 +6% of v1.0`"]
    );
    assert_eq!(
        loosened("v1.1", 0.05),
        ["changed, and cannot be compared: the head asks `p50 +5% of v1.1`"]
    );
}

#[test]
fn drift_is_accepted_against_the_same_anchor_only() {
    let mut record = anchored("v1.0", 92_000.0);
    let accept = |instead| Acceptance {
        case: "k/direct@small".into(),
        subjects: vec![small()],
        left_out: false,
        instead,
        reason: "exact".into(),
        by: "jane".into(),
        until: "2027-01-31".into(),
        declared: "baselines/accepted.yaml:3".into(),
    };
    let wide = accept(of_anchor(Metric::P50, "v1.0", 0.1));
    record.policy.accepted = vec![wide];
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    let change = accept(within(Metric::P50, 0.1));
    record.policy.accepted = vec![change];
    assert_eq!(
        verdict(&record, &small(), "p50 +5% of v1.0").outcome,
        Outcome::Fail
    );
}
