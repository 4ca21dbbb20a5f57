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
            change: Margin::Share(Num(change)),
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

/// At most 5 % slower than v1.0.
fn since_v1() -> Rule {
    of_anchor(Metric::P50, "v1.0", 0.05)
}

fn against_v1() -> Against {
    Against::Anchor {
        since: since("v1.0"),
        found: "0a34415aaaaa".into(),
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
fn erosion_beyond_the_anchor_fails_though_the_last_baseline_holds() {
    let record = anchored("v1.0", 92_000.0);
    assert_eq!(
        verdict(&record, &small(), p50_change()).outcome,
        Outcome::Pass
    );
    let found = verdict(&record, &small(), since_v1());
    assert_eq!(
        (found.outcome, found.reason.code()),
        (Outcome::Fail, "beyond-change")
    );
    let compared = comparison(&found.reason);
    assert_eq!(
        (&compared.against, compared.allowed),
        (&against_v1(), Margin::Share(Num(0.05)))
    );
    assert!((compared.change.0 - 0.087).abs() < 0.001, "{compared:?}");
    assert!(compared.interval.unwrap()[0].0 > 0.05, "{compared:?}");
    assert!(found.is_anchored());
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let [drift] = judgement.drifts.as_slice() else {
        panic!("{:?}", judgement.drifts)
    };
    assert_eq!((drift.metric, drift.was), (Metric::P50, Num(92_000.0)));
    assert!((drift.change.0 - 0.087).abs() < 0.001);

    let held = anchored("v1.0", 98_000.0);
    assert_eq!(verdict(&held, &small(), since_v1()).outcome, Outcome::Pass);
    assert_eq!(ruled(&held).drifts.len(), 1, "held or not");
    // A value far better than long ago is nothing to be agreed on again.
    let better = ruled(&anchored("v1.0", 200_000.0));
    assert_eq!((better.conclusion, better.wins), (Conclusion::Pass, vec![]));
}

#[test]
fn an_anchor_that_cannot_judge_says_why() {
    let expect = |record: &Record, outcome, reason| {
        expect(record, &small(), since_v1(), outcome, reason);
    };
    let v1 = || since("v1.0");
    let mut gone = anchored("v1.0", 98_000.0);
    gone.policy.anchors.clear();
    expect(
        &gone,
        Outcome::Inconclusive,
        Reason::AnchorMissing { since: v1() },
    );
    let mut without = anchored("v1.0", 98_000.0);
    without.policy.anchors[0].baselines.clear();
    expect(
        &without,
        Outcome::Skipped,
        Reason::NewSinceAnchor {
            since: v1(),
            found: "0a34415aaaaa".into(),
        },
    );
    let mut other = anchored("v1.0", 98_000.0);
    for baseline in &mut other.policy.anchors[0].baselines {
        if let BaselineKey::Times { driver_branch, .. } = &mut baseline.key {
            *driver_branch = "570".into();
        }
    }
    let differences = vec![KeyDifference {
        field: KeyField::DriverBranch,
        theirs: "570".into(),
        here: "580".into(),
    }];
    expect(
        &other,
        Outcome::Inconclusive,
        Reason::AnchorOtherKey {
            since: v1(),
            differences,
        },
    );
    let mut broken = without;
    let path = "baselines/k/direct/times-x.json".to_owned();
    let problem = "it ends in the middle".to_owned();
    broken.policy.anchors[0]
        .broken_baselines
        .push(BrokenBaseline {
            path: path.clone(),
            kernel: "k".into(),
            variant: "direct".into(),
            facet: Some(Facet::Times),
            problem: problem.clone(),
        });
    expect(
        &broken,
        Outcome::Inconclusive,
        Reason::AnchorUnreadable {
            since: v1(),
            path,
            problem,
        },
    );
    expect(
        &anchored("v1.0", f64::NAN),
        Outcome::Fail,
        Reason::BaselineUnusable {
            of: against_v1(),
            metric: Metric::P50,
            problem: FigureProblem::NotFinite(Num(f64::NAN)),
        },
    );
}

#[test]
fn resources_have_anchors_too() {
    let mut record = record();
    let rule = || of_anchor(Metric::Registers, "v1.0", 0.05);
    record.policy.gates.push(gate(unit("direct"), rule()));
    record.policy.anchors.push(anchor("v1.0", 1.0));
    let compared = |was, change| {
        Box::new(Comparison {
            metric: Metric::Registers,
            against: against_v1(),
            was: Some(Num(was)),
            now: Some(Num(96.0)),
            change: Num(change),
            interval: None,
            allowed: Margin::Share(Num(0.05)),
            sessions: None,
            processes: None,
        })
    };
    expect(
        &record,
        &unit("direct"),
        rule(),
        Outcome::Pass,
        Reason::WithinChange(compared(96.0, 0.0)),
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
        rule(),
        Outcome::Fail,
        Reason::BeyondChange(compared(64.0, 0.5)),
    );
}

#[test]
fn a_gpu_with_a_first_baseline_has_no_best_level_yet() {
    let rule = || of_anchor(Metric::P50, "best", 0.05);
    let anchored = |theirs: KeyField, agreed: Vec<Baseline>| {
        let mut best = anchor("best", 95_000.0);
        for baseline in &mut best.baselines {
            if let BaselineKey::Times {
                gpu, driver_branch, ..
            } = &mut baseline.key
            {
                match theirs {
                    KeyField::Gpu => *gpu = "NVIDIA H100 PCIe".into(),
                    _ => *driver_branch = "570".into(),
                }
            }
        }
        let mut record = record();
        record.policy.gates.push(gate(small(), rule()));
        record.policy.anchors.push(best);
        record.policy.baselines = agreed;
        let judgement = ruled(&record);
        judgement
            .verdicts
            .into_iter()
            .find(|verdict| verdict.subject == small() && verdict.is_anchored())
            .unwrap()
    };
    let first = anchored(KeyField::Gpu, baselines());
    assert_eq!(first.outcome, Outcome::Skipped);
    assert!(matches!(first.reason, Reason::NewSinceAnchor { .. }));
    let without = anchored(KeyField::Gpu, Vec::new());
    // A change of the key on one GPU is no way around its best level.
    let other_driver = anchored(KeyField::DriverBranch, baselines());
    for verdict in [without, other_driver] {
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert!(matches!(verdict.reason, Reason::AnchorOtherKey { .. }));
    }
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
fn times_an_unchanged_case_for_its_anchor() {
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
    let mut record = record_against_base();
    times_of_direct(&mut record);
    assert_eq!(asked(&record), []);
    let rule = of_anchor(Metric::P50, "v1.0", 0.05);
    record.policy.gates.push(gate(small(), rule));
    record.policy.anchors.push(anchor("v1.0", 98_000.0));
    assert_eq!(
        asked(&record),
        [(case_id("direct", "small"), Timing::Alone)]
    );
}

#[test]
fn a_later_anchor_and_a_wider_limit_are_loosened() {
    let loosened = |of: &str, change: f64| {
        let mut record = record_against_base();
        let was = gate(small(), since_v1());
        record.policy.base.as_mut().unwrap().gates.push(was);
        let is = gate(small(), of_anchor(Metric::P50, of, change));
        record.policy.gates.push(is);
        loosened(&ruled(&record))
    };
    let found = |how| [(small(), BaseDemand::Gate(since_v1()), how)];
    assert_eq!(loosened("v1.0", 0.05), []);
    assert_eq!(loosened("v1.0", 0.04), []);
    let wider = of_anchor(Metric::P50, "v1.0", 0.06);
    assert_eq!(loosened("v1.0", 0.06), found(Loosened::Looser(wider)));
    let later = of_anchor(Metric::P50, "v1.1", 0.05);
    assert_eq!(loosened("v1.1", 0.05), found(Loosened::Incomparable(later)));
}

#[test]
fn drift_is_accepted_against_the_same_anchor_only() {
    let mut record = anchored("v1.0", 92_000.0);
    let accept = |instead| Acceptance {
        case: "k/direct@small".into(),
        subjects: vec![small()],
        left_out: false,
        allows: Allowance::Limit(instead),
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
        verdict(&record, &small(), since_v1()).outcome,
        Outcome::Fail
    );
}
