//! Failures are grouped by cause: what leads to others comes first, and nothing that did not hold is left out.

use super::simulated::recount;
use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

fn place(number: u32, text: &str) -> Place {
    Place {
        at: format!("k.cu:{number}"),
        line: Some(SourceLine {
            file: "k.cu".into(),
            number,
            text: Some(text.into()),
        }),
    }
}

fn finding(kind: FindingKind, places: &[(u32, &str)]) -> Finding {
    Finding {
        kind,
        entry: None,
        message: format!("{} at {}", kind.name(), places[0].0),
        places: places.iter().map(|(at, text)| place(*at, text)).collect(),
        accesses: Vec::new(),
        block: [0; 3],
        thread: [0; 3],
        address: None,
        times: 1,
    }
}

fn race() -> Finding {
    finding(
        FindingKind::SharedRace,
        &[(7, "part[w] = x;"), (9, "part[i]")],
    )
}

fn undefined() -> Finding {
    finding(
        FindingKind::Uninitialised,
        &[(10, "y[b] = best;"), (9, "part[i]")],
    )
}

fn stray_race() -> Finding {
    finding(FindingKind::GlobalRace, &[(20, "z[0] = x;")])
}

fn find(record: &mut Record, id: &CaseId, findings: &[Finding]) {
    resimulate(record, id, |_, facts| {
        if let Seen::Got(facts) = facts {
            facts.findings = findings.to_vec();
        }
    });
}

fn spoil(record: &mut Record, id: &CaseId) {
    recheck(record, id, |_, facts| {
        facts.unwritten = 4;
        facts.error.non_finite = 4;
        facts.error.max_err = Num(f64::NAN);
    });
}

/// A problem in a line: `findings of direct@small, direct@large: memory and races <- finite, written`.
fn shown(judgement: &Judgement) -> Vec<String> {
    let gate = |at: &usize| match &judgement.verdicts[*at].question {
        Question::Gate(Rule::Limit { metric, .. }) => metric.to_string(),
        Question::Gate(rule) => GateName::of(rule)
            .map_or("built", GateName::name)
            .to_owned(),
        _ => "review".to_owned(),
    };
    let gates = |all: &[usize]| all.iter().map(gate).collect::<Vec<_>>().join(", ");
    let line = |problem: &Problem| {
        let subjects: Vec<_> = problem.subjects.iter().map(ToString::to_string).collect();
        let since = match problem.since_base {
            None => "",
            Some(SinceBase::New) => "new ",
            Some(SinceBase::Old) => "old ",
        };
        format!(
            "{since}{} of {}: {} -> {}",
            problem.code,
            subjects.join(", "),
            gates(&problem.verdicts),
            gates(&problem.follows)
        )
    };
    judgement.problems.iter().map(line).collect()
}

#[test]
fn passing_run_has_no_problems() {
    assert_eq!(ruled(&record()).problems, []);
    assert_eq!(ruled(&record_simulated()).problems, []);
}

#[test]
fn race_explains_wrong_values_and_undefined_reads_of_its_lines() {
    let mut record = record_simulated();
    for shape in SHAPES {
        let id = case_id("direct", shape);
        find(&mut record, &id, &[undefined(), race(), stray_race()]);
        spoil(&mut record, &id);
    }
    let judgement = ruled(&record);
    let all = "k/direct@small, k/direct@large";
    assert_eq!(
        shown(&judgement),
        [
            format!(
                "findings of {all}: memory and races, memory and races -> finite, written, max_err, finite, written, \
                 max_err"
            ),
            format!("findings of {all}: memory and races, memory and races -> "),
        ]
    );
    let ProblemCause::Findings { findings, .. } = &judgement.problems[0].cause else {
        panic!("{:?}", judgement.problems[0].cause);
    };
    assert_eq!(findings, &[race(), undefined()]);
}

#[test]
fn values_stored_from_unwritten_memory_do_not_count_as_unwritten() {
    let mut record = record_simulated();
    spoil(&mut record, &small());
    let of_written = |record: &Record| verdict(record, &Subject::Case(small()), Rule::Written);
    assert_eq!(of_written(&record).reason.code(), "unwritten");
    find(&mut record, &small(), &[undefined()]);
    assert_eq!(of_written(&record).reason.code(), "stored-undefined");
    assert_eq!(of_written(&record).outcome, Outcome::Fail);
}

#[test]
fn leak_explains_no_wrong_value() {
    let mut record = record_simulated();
    find(
        &mut record,
        &small(),
        &[finding(FindingKind::Leak, &[(3, "malloc(8)")])],
    );
    spoil(&mut record, &small());
    assert_eq!(
        shown(&ruled(&record)),
        [
            "findings of k/direct@small: memory and races -> ",
            "unwritten of k/direct@small: written -> finite, max_err",
        ]
    );
}

fn mistyped() -> Mistyped {
    Mistyped {
        entry: "k".into(),
        parameter: 1,
        takes: "__nv_bfloat16 const*".into(),
        tensor: "x".into(),
        elem: ElemType::F32,
        wanted: Some(ElemType::Bf16),
        declared: Some("gates.yaml:12".into()),
    }
}

#[test]
fn arguments_of_another_type_come_before_all_they_lead_to() {
    let mut record = record_simulated();
    rebuild(&mut record, "direct", |facts| {
        facts.mistyped = vec![mistyped()]
    });
    // A kernel that is right may mean it.
    assert_eq!(ruled(&record).problems, []);
    for shape in SHAPES {
        let id = case_id("direct", shape);
        find(&mut record, &id, &[race()]);
        spoil(&mut record, &id);
    }
    // Others have their own problems.
    find(&mut record, &case_id("fast", "small"), &[stray_race()]);
    let gates = "finite, written, max_err";
    assert_eq!(
        shown(&ruled(&record)),
        [
            format!(
                "arguments-do-not-fit of k/direct@small, k/direct@large:  -> {gates}, memory and races, {gates}, \
                 memory and races"
            ),
            "findings of k/fast@small: memory and races -> ".to_owned(),
        ]
    );
}

#[test]
fn fault_is_named_by_one_gate_of_each_case() {
    let mut record = record_simulated();
    let stopped = |thread: u32| Fault {
        kind: FaultKind::DeviceFault,
        message: format!("out of bounds at k.cu:7, thread {thread}"),
        site: Some(Box::new(FaultSite::Launch(LaunchSite {
            place: place(7, "x[i]"),
            block: [0; 3],
            thread: [thread, 0, 0],
        }))),
    };
    for (shape, thread) in SHAPES.into_iter().zip([5, 6]) {
        let id = case_id("direct", shape);
        for piece in &mut record.evidence {
            match piece {
                Evidence::Check { case, facts, .. } if *case == id => {
                    *facts = Seen::Fault(stopped(thread));
                }
                Evidence::Simulation { case, facts, .. } if *case == id => {
                    *facts = Seen::Fault(stopped(thread));
                }
                _ => {}
            }
        }
    }
    let judgement = ruled(&record);
    let [problem] = judgement.problems.as_slice() else {
        panic!("{:?}", shown(&judgement));
    };
    assert_eq!(problem.code, "kernel-faulted");
    assert_eq!(problem.subjects.len(), 2);
    assert_eq!(problem.verdicts.len(), 2);
    assert!(problem.follows.len() > 2, "{:?}", shown(&judgement));
}

#[test]
fn costs_of_one_variant_are_one_problem() {
    let mut record = record();
    for shape in SHAPES {
        slow(&mut record, &case_id("fast", shape), 900_000);
    }
    let judgement = ruled(&record);
    let [problem] = judgement.problems.as_slice() else {
        panic!("{:?}", shown(&judgement));
    };
    assert_eq!(problem.subjects.len(), 2);
    assert_eq!(problem.verdicts.len(), judgement.count(Outcome::Fail));
}

#[test]
fn findings_that_the_change_brings_come_before_those_of_the_base() {
    let was = Finding {
        // Lines move.
        places: vec![place(27, "part[w]  = x;"), place(29, "part[i]")],
        ..race()
    };
    let with = |findings: &[Finding]| {
        let mut record = record_simulated();
        recount(&mut record, |_, facts| facts.findings = findings.to_vec());
        record
    };
    let (base, head) = (with(&[was]), with(&[race(), stray_race()]));
    let judgement = compare(&base, &head, Loosening::Fails);
    let kinds: Vec<_> = judgement
        .problems
        .iter()
        .filter_map(|problem| match &problem.cause {
            ProblemCause::Findings { findings, .. } => Some((findings[0].kind, problem.since_base)),
            _ => None,
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (FindingKind::GlobalRace, Some(SinceBase::New)),
            (FindingKind::SharedRace, Some(SinceBase::Old)),
        ]
    );
}
