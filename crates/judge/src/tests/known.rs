//! Findings that somebody has put a name under: they pass, and nothing else does by them.

use super::measured::run_on_both;
use super::simulated::recount;
use super::*;

fn small() -> Subject {
    case("direct", "small")
}

fn race_at(number: u32, text: &str) -> Finding {
    finding_at(FindingKind::SharedRace, number, text)
}

fn read() -> Finding {
    race_at(9, "total += partial[t];")
}

fn write() -> Finding {
    race_at(12, "partial[t] = x;")
}

fn racy(findings: Vec<Finding>) -> Record {
    let mut record = record_simulated();
    recount(&mut record, |_, facts| facts.findings = findings.clone());
    record
}

fn known() -> Acceptance {
    Acceptance {
        case: "k/direct@small".into(),
        subjects: vec![small()],
        left_out: false,
        allows: Allowance::Finding(KnownFinding {
            kind: FindingKind::SharedRace,
            file: "k.cu".into(),
            line: "total += partial[t];".into(),
        }),
        reason: "the sum is of no use to us".into(),
        by: "jane@example.org".into(),
        until: "2026-11-21".into(),
        declared: "baselines/accepted.yaml:3".into(),
    }
}

fn with(mut record: Record, acceptance: Acceptance) -> Record {
    record.policy.accepted.push(acceptance);
    record
}

fn other(change: impl Fn(&mut KnownFinding)) -> Acceptance {
    let mut acceptance = known();
    if let Allowance::Finding(finding) = &mut acceptance.allows {
        change(finding);
    }
    acceptance
}

fn failures(record: &Record) -> Vec<&'static str> {
    ruled(record)
        .verdicts
        .into_iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .map(|verdict| verdict.reason.code())
        .collect()
}

fn of_findings(record: &Record) -> Verdict {
    verdict(record, &small(), Rule::NoFindings)
}

#[test]
fn a_known_finding_passes_and_is_listed_with_its_name() {
    assert_eq!(failures(&racy(vec![read()])), ["findings"]);
    let record = with(racy(vec![read()]), known());
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let found = of_findings(&record);
    let Reason::FindingsAccepted { findings } = &found.reason else {
        panic!("{:?}", found.reason);
    };
    let [one] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    // Six times from two seeds.
    assert_eq!((one.times, one.place.as_str()), (6, "k.cu:9"));
    assert_eq!(
        (one.by.as_str(), one.until.as_str()),
        ("jane@example.org", "2026-11-21")
    );
    let [accepted] = judgement.accepted.as_slice() else {
        panic!("{:?}", judgement.accepted);
    };
    assert_eq!(accepted.subject, small());
    assert_eq!(accepted.rule, Rule::NoFindings);
    assert_eq!(accepted.reason, found.reason);
    assert_eq!(accepted.declared, "baselines/accepted.yaml:3");
}

#[test]
fn one_beside_it_that_nobody_knows_is_red_and_alone_is_told() {
    let record = with(racy(vec![read(), write()]), known());
    let seed = 1;
    let reason = Reason::Findings {
        seed,
        first: vec![write()],
        more: 0,
        accepted: 1,
    };
    expect(&record, &small(), Rule::NoFindings, Outcome::Fail, reason);
    assert_eq!(failures(&record), ["findings"]);
    assert_eq!(ruled(&record).accepted, []);
    // Each may have an acceptance of its own.
    let second = Acceptance {
        declared: "baselines/accepted.yaml:9".into(),
        ..other(|finding| finding.line = "partial[t] = x;".into())
    };
    let record = with(record, second);
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    assert_eq!(ruled(&record).accepted.len(), 2);
}

#[test]
fn kind_file_and_text_of_the_line_decide_and_its_number_does_not() {
    let passes = |finding: Finding, acceptance: Acceptance| {
        of_findings(&with(racy(vec![finding]), acceptance)).outcome == Outcome::Pass
    };
    assert!(passes(race_at(900, "  total  +=\tpartial[t];"), known()));
    assert!(!passes(race_at(9, "total -= partial[t];"), known()));
    let of_warp = other(|finding| finding.kind = FindingKind::WarpHazard);
    assert!(!passes(read(), of_warp));
    assert!(!passes(
        read(),
        other(|finding| finding.file = "other.cu".into())
    ));
    // Either line of a race.
    let mut both = write();
    both.places.extend(read().places);
    assert!(passes(both, known()));
    // A line that cannot be read cannot be recognised.
    let mut unread = read();
    for place in &mut unread.places {
        place.line.as_mut().unwrap().text = None;
    }
    assert!(!passes(unread, known()));
    let of_another_case = Acceptance {
        subjects: vec![case("direct", "large")],
        ..known()
    };
    assert!(!passes(read(), of_another_case));
}

#[test]
fn one_that_has_run_out_lets_nothing_pass() {
    let until = "2026-11-20".to_owned();
    let record = with(racy(vec![read()]), Acceptance { until, ..known() });
    assert_eq!(failures(&record), ["findings", "acceptance-expired"]);
    let mut undated = with(racy(vec![read()]), known());
    undated.environment.started = "yesterday".into();
    assert_eq!(failures(&undated), ["findings", "acceptance-undated"]);
}

#[test]
fn an_acceptance_without_its_finding_fails_if_that_is_known() {
    let gone = ["accepted-finding-gone"];
    assert_eq!(failures(&with(racy(Vec::new()), known())), gone);
    // Whatever else is found.
    let record = with(racy(vec![write()]), known());
    assert_eq!(failures(&record), ["findings", gone[0]]);
    // One seed that has it is enough.
    let mut once = with(racy(Vec::new()), known());
    recount(&mut once, |seed, facts| {
        if seed == 2 {
            facts.findings.push(read());
        }
    });
    assert_eq!(failures(&once), [""; 0]);
    // A case that was not run, or not to its end, says nothing of it.
    let left_out = Acceptance {
        left_out: true,
        ..known()
    };
    assert_eq!(failures(&with(racy(Vec::new()), left_out)), [""; 0]);
    assert_eq!(failures(&with(record_without_gpu(), known())), [""; 0]);
    assert_eq!(failures(&with(super::record(), known())), [""; 0]);
    let mut faulted = with(racy(Vec::new()), known());
    resimulate(&mut faulted, &case_id("direct", "small"), |seed, facts| {
        if seed == 2 {
            *facts = Seen::Unsupported(Unsupported::Cubin);
        }
    });
    assert!(!failures(&faulted).contains(&gone[0]));
    let of_nothing = Acceptance {
        subjects: Vec::new(),
        ..known()
    };
    let record = with(racy(Vec::new()), of_nothing);
    assert_eq!(failures(&record), ["acceptance-of-nothing"]);
}

/// A known race in code of others must not keep it from being counted and measured; a wrong value does.
#[test]
fn a_case_with_accepted_findings_must_still_be_right() {
    let of_case = |record: &Record| {
        let (baselines, _) = acceptable(record, "seal");
        let has = |baseline: &&Baseline| {
            baseline.variant == "direct" && baseline.cases.contains_key("small")
        };
        baselines.iter().filter(has).count()
    };
    assert_eq!(of_case(&racy(vec![read()])), 0);
    let mut record = with(racy(vec![read()]), known());
    assert_eq!(of_case(&record), 2, "correctness and counters");
    recheck(&mut record, &case_id("direct", "small"), |_, facts| {
        facts.error.max_err = Num(1.0);
    });
    assert!(failures(&record).contains(&"beyond-limit"));
    assert_eq!(of_case(&record), 0);
}

/// With two architectures, the finding may be in the code for one.
#[test]
fn each_architecture_is_asked() {
    let mut record = run_on_both();
    for piece in &mut record.evidence {
        if let Evidence::Simulation {
            case,
            arch: Some(_),
            facts: Seen::Got(facts),
            ..
        } = piece
            && *case == case_id("direct", "small")
        {
            facts.findings = vec![read()];
        }
    }
    assert_eq!(failures(&record), ["findings"]);
    let record = with(record, known());
    assert_eq!(failures(&record), [""; 0]);
    assert_eq!(ruled(&record).accepted.len(), 1);
    let clean = with(run_on_both(), known());
    assert_eq!(failures(&clean), ["accepted-finding-gone"]);
}

#[test]
fn findings_accepted_only_by_head_are_loosened() {
    let head = with(racy(vec![read()]), known());
    let added = |base: Vec<Acceptance>| {
        let mut record = racy(vec![read()]);
        record.policy.accepted = base;
        let judgement = compare(&record, &head, Loosening::Fails);
        judgement.verdicts.iter().filter(|verdict| {
            matches!(&verdict.reason, Reason::Loosened(how) if matches!(**how, Loosened::Accepts { .. }))
        }).count()
    };
    assert_eq!(added(Vec::new()), 1);
    assert_eq!(added(vec![known()]), 0);
    let until = "2026-11-20".to_owned();
    assert_eq!(
        added(vec![Acceptance { until, ..known() }]),
        1,
        "for longer"
    );
    let line = other(|finding| finding.line = "another".into());
    assert_eq!(added(vec![line]), 1, "of another line");
}
