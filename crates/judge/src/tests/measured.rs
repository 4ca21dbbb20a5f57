//! Head against a base that runs too, in the simulator: values under whatever key, checks that are lost, code
//! for several architectures.

use super::doubts::withhold;
use super::simulated::{COUNTERS, recount};
use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

/// Both sides measured alike, of other code for `direct`, without baselines.
pub(super) fn against_base() -> Record {
    let record = record_simulated();
    let gates = record.policy.gates.clone();
    let mut record = run_on_base(record, gates);
    let same = Seen::Got(BaseReference::Compared(ReferenceComparison::default()));
    let references = record
        .plan
        .cases
        .iter()
        .map(|case| Evidence::BaseReference {
            case: case.id.clone(),
            facts: same.clone(),
        });
    record.evidence.extend(references);
    rebuild(&mut record, "direct", |facts| {
        facts.identity = "after the change".into();
        facts.ptx = Some("after the change".into());
    });
    record
}

/// Changes the observations of the base.
fn of_base(record: &mut Record, change: impl Fn(&mut Evidence)) {
    for piece in &mut record.evidence {
        if let Evidence::Base(piece) = piece {
            change(piece);
        }
    }
}

/// No seed of the case was simulated, on one side.
fn refuse(piece: &mut Evidence, of: &CaseId, why: &NotRun) {
    match piece {
        Evidence::Check { case, facts, .. } if case == of => *facts = Seen::NotRun(why.clone()),
        Evidence::Simulation { case, facts, .. } if case == of => {
            *facts = Seen::NotRun(why.clone());
        }
        _ => {}
    }
}

const OVER: NotRun = NotRun::OverBudget {
    estimate: 2_000_000,
    budget: 1_000_000,
};

fn needed(record: &Record) -> Vec<CaseId> {
    needed_of_base(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
}

#[test]
fn values_that_are_not_worse_pass_under_any_key() {
    let mut record = against_base();
    for unit in &mut record.plan.units {
        unit.flags = vec!["-O2".into()];
    }
    let judgement = ruled(&record);
    assert_eq!(loosened(&judgement), []);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    // Baselines under the flags of before decide nothing either.
    record.policy.baselines = record_simulated().policy.baselines;
    let verdict = verdict(&record, &Subject::Case(small()), COUNTERS);
    assert_eq!(verdict.outcome, Outcome::Pass);
}

#[test]
fn resources_that_the_base_has_fewer_of() {
    let mut record = against_base();
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 97;
    });
    let verdict = verdict(&record, &unit("direct"), registers_change());
    assert_eq!(verdict.outcome, Outcome::Fail);
    let comparison = comparison(&verdict.reason);
    assert_eq!(comparison.against, Against::Base);
    assert_eq!(
        (comparison.was, comparison.now),
        (Some(Num(96.0)), Some(Num(97.0)))
    );
    // Better is no win over what nobody agreed on.
    of_base(&mut record, |piece| {
        if let Evidence::Build {
            facts: Seen::Got(facts),
            ..
        } = piece
        {
            facts.entries[0].resources.as_mut().unwrap().registers = 128;
        }
    });
    let judgement = ruled(&record);
    assert_eq!(
        verdict_of(&judgement, &unit("direct"), registers_change()).outcome,
        Outcome::Pass
    );
    assert_eq!(judgement.wins, []);
}

#[test]
fn counters_that_the_base_has_fewer_of() {
    let mut record = against_base();
    recount(&mut record, |_, facts| {
        facts.counters.insert(Counter::GlobalLoadSectors, 8192);
    });
    let subject = Subject::Case(small());
    let Reason::CountersRose { against, rises, .. } = verdict(&record, &subject, COUNTERS).reason
    else {
        panic!("{:?}", verdict(&record, &subject, COUNTERS));
    };
    assert_eq!(against, Against::Base);
    assert_eq!((rises[0].was, rises[0].now), (Num(4096.0), Num(8192.0)));
    // Other sizes are other work: what they cost says nothing of the kernel.
    for case in &mut record.policy.base.as_mut().unwrap().plan.cases {
        case.dims.insert("N".into(), 32);
    }
    assert_eq!(
        verdict(&record, &subject, COUNTERS).outcome,
        Outcome::Skipped
    );
}

/// A seed that one side alone ran is no part of a comparison.
#[test]
fn seeds_of_one_side_are_not_compared() {
    let mut record = against_base();
    recount(&mut record, |seed, facts| {
        if seed == 2 {
            facts.counters.insert(Counter::GlobalLoadSectors, 8192);
        }
    });
    let subject = Subject::Case(small());
    assert_eq!(verdict(&record, &subject, COUNTERS).outcome, Outcome::Fail);
    for case in &mut record.policy.base.as_mut().unwrap().plan.cases {
        case.seeds = vec![1];
    }
    assert_eq!(verdict(&record, &subject, COUNTERS).outcome, Outcome::Pass);
}

/// It was agreed on under a name, in a file, and the label allows it; nobody has to say it twice.
#[test]
fn a_baseline_that_agrees_on_worse_is_loosened() {
    let mut record = against_base();
    recount(&mut record, |_, facts| {
        facts.counters.insert(Counter::GlobalLoadSectors, 8192);
    });
    record.policy.baselines = record_simulated().policy.baselines;
    for baseline in &mut record.policy.baselines {
        for figures in baseline.cases.values_mut() {
            let sectors = figures.get_mut(&Metric::Counter(Counter::GlobalLoadSectors));
            sectors.unwrap().value = Num(8192.0);
        }
    }
    let subject = Subject::Case(small());
    let judgement = ruled(&record);
    assert_eq!(
        verdict_of(&judgement, &subject, COUNTERS).outcome,
        Outcome::Pass
    );
    let figure = EditedFigure {
        metric: Metric::Counter(Counter::GlobalLoadSectors),
        edit: FigureEdit::Worse {
            was: Num(4096.0),
            now: Num(8192.0),
        },
    };
    let worse = (
        subject.clone(),
        BaseDemand::Baseline(Facet::Counters),
        Loosened::BaselineAbove(vec![figure]),
    );
    assert_eq!(loosened(&judgement), [worse]);
    let base = record.policy.base.as_mut().unwrap();
    base.loosening = Loosening::Allowed;
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    // Edited in the same file it is one finding.
    let base = record.policy.base.as_mut().unwrap();
    base.loosening = Loosening::Fails;
    base.baselines = record_simulated().policy.baselines;
    let of_case: Vec<_> = loosened(&ruled(&record))
        .into_iter()
        .filter(|(it, ..)| *it == subject)
        .collect();
    assert_eq!(of_case.len(), 1, "{of_case:?}");
}

#[test]
fn a_check_that_the_change_took_away() {
    let mut record = against_base();
    for piece in &mut record.evidence {
        refuse(piece, &small(), &OVER);
    }
    let lost = loosened(&ruled(&record));
    let [(subject, BaseDemand::Checks(rules), Loosened::ChecksLost(why))] = lost.as_slice() else {
        panic!("{lost:?}");
    };
    assert_eq!(
        (subject, &**why),
        (&Subject::Case(small()), &Reason::NotRun(OVER))
    );
    assert!(
        rules.contains(&Rule::Finite) && rules.contains(&Rule::NoFindings),
        "{rules:?}"
    );
    assert!(rules.contains(&err_limit()), "{rules:?}");
    let verdicts = ruled(&record).verdicts;
    assert!(
        verdicts
            .iter()
            .any(|verdict| verdict.reason.code() == "check-lost")
    );
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let allowed = |verdict: &Verdict| matches!(&verdict.reason, Reason::LooseningAllowed(how) if matches!(**how, Loosened::ChecksLost(_)));
    assert!(judgement.verdicts.iter().any(allowed));
}

#[test]
fn checks_that_the_base_lacked_too_are_not_lost() {
    let mut both = against_base();
    for piece in &mut both.evidence {
        refuse(piece, &small(), &OVER);
    }
    of_base(&mut both, |piece| refuse(piece, &small(), &OVER));
    assert_eq!(loosened(&ruled(&both)), []);
    // Nor what does not compile: that has failed by its own name.
    let mut broken = against_base();
    let fault = Fault::new(FaultKind::Compile, "expected a `;`");
    for piece in &mut broken.evidence {
        refuse(piece, &small(), &NotRun::EarlierStage);
        if let Evidence::Build { unit, facts } = piece
            && unit.variant == "direct"
        {
            *facts = Seen::Fault(fault.clone());
        }
    }
    assert_eq!(loosened(&ruled(&broken)), []);
}

#[test]
fn counters_that_can_no_longer_be_held_to_anything() {
    let mut record = against_base();
    withhold(&mut record, Counter::SharedLoadWavefronts, Doubt::Polls);
    let lost = loosened(&ruled(&record));
    let [(_, _, Loosened::CountersLost(counters))] = lost.as_slice() else {
        panic!("{lost:?}");
    };
    assert_eq!(counters.len(), 1);
    assert_eq!(counters[0].0, Counter::SharedLoadWavefronts);
    // No gate rests on them.
    let gates = &mut record.policy.gates;
    gates.retain(|gate| gate.subject != Subject::Case(small()) || gate.rule != COUNTERS);
    let base = record.policy.base.as_mut().unwrap();
    base.gates = record.policy.gates.clone();
    assert_eq!(loosened(&ruled(&record)), []);
}

/// Withholds a counter of the case on one side, in all launches, and gives it a value.
fn doubt(record: &mut Record, side: Side, counter: Counter, value: u64, doubt: Doubt) {
    let change = |facts: &mut SimulationFacts| {
        facts.counters.remove(&counter);
        facts.information.insert(counter, value);
        let place = "k.cu:9".to_owned();
        facts.withheld.insert(counter, Withheld { doubt, place });
    };
    match side {
        Side::Head => recount(record, |_, facts| change(facts)),
        Side::Base => of_base(record, |piece| {
            if let Evidence::Simulation {
                case,
                facts: Seen::Got(facts),
                ..
            } = piece
                && *case == small()
            {
                change(facts);
            }
        }),
    }
}

/// The counters in doubt that rose, of all verdicts, with both values.
fn doubted(judgement: &Judgement) -> Vec<(Counter, f64, f64, Side)> {
    judgement
        .verdicts
        .iter()
        .filter_map(|verdict| match (&verdict.reason, verdict.outcome) {
            (Reason::CountersInDoubt { rises, .. }, Outcome::Inconclusive) => Some(rises),
            _ => None,
        })
        .flatten()
        .map(|DoubtedRise { rise, side, .. }| (rise.counter, rise.was.0, rise.now.0, *side))
        .collect()
}

#[test]
fn a_counter_in_doubt_on_either_side_may_not_rise_in_silence() {
    let counter = Counter::GlobalLoadSectors;
    let sides = |was: Option<Doubt>, now: Option<Doubt>, value: u64| {
        let mut record = against_base();
        if let Some(why) = was {
            doubt(&mut record, Side::Base, counter, 4096, why);
        }
        match now {
            Some(why) => doubt(&mut record, Side::Head, counter, value, why),
            None => recount(&mut record, |_, facts| {
                facts.counters.insert(counter, value);
            }),
        }
        ruled(&record)
    };
    for soft in [
        Doubt::RaggedLoop,
        Doubt::Joined,
        Doubt::SplitCopy,
        Doubt::ZeroStride,
        Doubt::AlteredProducts,
    ] {
        for (was, now, side) in [
            (Some(soft), None, Side::Base),
            (None, Some(soft), Side::Head),
            (Some(soft), Some(soft), Side::Head),
        ] {
            let rose = sides(was, now, 8192);
            assert_eq!(doubted(&rose), [(counter, 4096.0, 8192.0, side)]);
            assert_eq!(rose.conclusion, Conclusion::Inconclusive);
            let same = sides(was, now, 4096);
            assert_eq!((doubted(&same), loosened(&same)), (vec![], vec![]));
            assert_eq!(same.conclusion, Conclusion::Pass);
        }
    }
    for hard in [Doubt::Polls, Doubt::Uncompared] {
        let lost = sides(None, Some(hard), 4096);
        assert_eq!(
            (doubted(&lost), lost.conclusion),
            (vec![], Conclusion::Fail)
        );
        // Nothing is known of the base's value.
        assert_eq!(doubted(&sides(Some(hard), None, 8192)), []);
    }
}

#[test]
fn a_limit_by_an_amount_holds_for_a_counter_in_doubt_that_was_0() {
    let counter = Counter::GlobalLoadSectors;
    let rises = |value: u64| {
        let mut record = against_base();
        let change = Margin::Amount { amount: 5 };
        let limit = Limit::Baseline { change };
        let metric = counter.into();
        for gate in &mut record.policy.gates {
            if gate.rule == COUNTERS {
                let limit = limit.clone();
                gate.rule = Rule::Limit { metric, limit };
            }
        }
        doubt(&mut record, Side::Base, counter, 0, Doubt::Joined);
        recount(&mut record, |_, facts| {
            facts.counters.insert(counter, value);
        });
        doubted(&ruled(&record)).len()
    };
    assert_eq!((rises(5), rises(6)), (0, 1));
}

#[test]
fn a_label_lets_a_counter_in_doubt_rise() {
    let mut record = against_base();
    let counter = Counter::GlobalLoadSectors;
    doubt(&mut record, Side::Head, counter, 8192, Doubt::Joined);
    record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    let judgement = ruled(&record);
    assert_eq!(doubted(&judgement), []);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let is_allowed = |verdict: &Verdict| matches!(&verdict.reason, Reason::LooseningAllowed(how) if matches!(**how, Loosened::CountersInDoubt(_)));
    assert!(judgement.verdicts.iter().any(is_allowed));
}

#[test]
fn a_wrong_base_is_no_yardstick_for_a_counter_in_doubt() {
    let mut record = against_base();
    let counter = Counter::GlobalLoadSectors;
    doubt(&mut record, Side::Head, counter, 8192, Doubt::Joined);
    of_base(&mut record, |piece| {
        if let Evidence::Check {
            case,
            facts: Seen::Got(facts),
            ..
        } = piece
            && *case == small()
        {
            facts.error.max_err = Num(1.0);
        }
    });
    let judgement = ruled(&record);
    assert_eq!(doubted(&judgement), []);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    let shown = Ungated {
        subject: Subject::Case(small()),
        against: Against::Base,
        values: vec![WorseValue {
            metric: counter.into(),
            was: Num(4096.0),
            now: Num(8192.0),
        }],
    };
    assert_eq!(judgement.ungated, [shown], "it is on the screen");
    // Gates that the change makes so strict that the base fails them excuse nothing.
    let is_error = |gate: &Gate| {
        gate.subject == Subject::Case(small()) && gate.rule.metric() == Some(Metric::MaxErr)
    };
    let base = record.policy.base.as_mut().unwrap();
    base.gates.retain(|gate| !is_error(gate));
    assert_eq!(doubted(&ruled(&record)).len(), 1);
}

#[test]
fn runs_the_base_if_head_does_not_answer_for_it() {
    let cases = |variant: &str| SHAPES.map(|shape| case_id(variant, shape)).to_vec();
    // `fast` is the same code, called alike.
    assert_eq!(needed(&against_base()), cases("direct"));
    let mut alike = against_base();
    rebuild(&mut alike, "direct", |facts| *facts = build_facts("direct"));
    assert_eq!(needed(&alike), []);
    // A seed more is another check.
    let mut more = alike.clone();
    for case in &mut more.plan.cases {
        case.seeds.push(3);
    }
    assert_eq!(needed(&more).len(), more.plan.cases.len());
    // Without a relative limit, the base is asked only about cases that give no answer.
    let mut plain = against_base();
    let is_relative = |rule: &Rule| {
        *rule == COUNTERS
            || matches!(
                rule,
                Rule::Limit {
                    limit: Limit::Baseline { .. },
                    ..
                }
            )
    };
    plain.policy.gates.retain(|gate| !is_relative(&gate.rule));
    assert_eq!(needed(&plain), []);
    for piece in &mut plain.evidence {
        refuse(piece, &small(), &OVER);
    }
    assert_eq!(needed(&plain), [small()]);
}

/// Code for `sm_80` and `sm_90`, of which head's evidence so far is the older one's.
fn two_architectures(ptx: [&str; 2]) -> Record {
    let mut record = record_simulated();
    let newer = record.plan.units.clone();
    for unit in &mut record.plan.units {
        unit.id.arch = "sm_80".parse().unwrap();
    }
    record.plan.units.extend(newer);
    record.policy.baselines.clear();
    record
        .policy
        .gates
        .retain(|gate| matches!(gate.subject, Subject::Case(_)));
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Build { .. }));
    for unit in &record.plan.units {
        let at = usize::from(unit.id.arch == arch());
        let facts = BuildFacts {
            ptx: Some(format!("{} of {}", ptx[at], unit.id.variant)),
            ..build_facts(&unit.id.variant)
        };
        let unit = unit.id.clone();
        let facts = Seen::Got(facts);
        record.evidence.insert(0, Evidence::Build { unit, facts });
    }
    record
}

/// Two architectures of other code, each run by itself.
pub(super) fn run_on_both() -> Record {
    let mut apart = two_architectures(["a", "b"]);
    let newer: Vec<_> = apart
        .evidence
        .iter()
        .cloned()
        .filter_map(|mut piece| match &mut piece {
            Evidence::Check { arch: of, .. } | Evidence::Simulation { arch: of, .. } => {
                *of = Some(arch());
                Some(piece)
            }
            _ => None,
        })
        .collect();
    apart.evidence.extend(newer);
    apart
}

#[test]
fn every_architecture_of_other_ptx_is_asked_for() {
    let alike = two_architectures(["a", "a"]);
    assert_eq!(ruled(&alike).conclusion, Conclusion::Pass);
    let run = |record: &Record| {
        let all = to_simulate(
            &record.plan,
            &record.environment,
            &record.policy,
            &record.evidence,
        );
        all[0]
            .1
            .iter()
            .map(|unit| unit.id.arch.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(&alike), ["sm_80"]);
    let apart = two_architectures(["a", "b"]);
    assert_eq!(run(&apart), ["sm_80", "sm_90"]);
    // Not there is not right.
    let subject = Subject::Case(small());
    let finite = verdict(&apart, &subject, Rule::Finite);
    assert_eq!(finite.outcome, Outcome::Inconclusive);
    let Reason::OnArchitecture { arch: of, why } = finite.reason else {
        panic!("{:?}", finite.reason);
    };
    assert_eq!((of, *why), (arch(), missing_check(small(), 1)));
    // There and wrong is wrong, on whichever.
    let mut apart = run_on_both();
    assert_eq!(ruled(&apart).conclusion, Conclusion::Pass);
    for piece in &mut apart.evidence {
        if let Evidence::Check {
            case,
            arch: Some(_),
            facts: Seen::Got(facts),
            ..
        } = piece
            && *case == small()
        {
            facts.error.max_err = Num(1.0);
        }
    }
    let limit = verdict(&apart, &subject, err_limit());
    assert_eq!(limit.outcome, Outcome::Fail);
    assert_eq!(limit.measured, Some(Num(1.0)));
    assert_eq!(limit.reason.code(), "beyond-limit");
    assert!(matches!(limit.reason, Reason::OnArchitecture { .. }));
    let other = case("direct", "large");
    assert_eq!(verdict(&apart, &other, err_limit()).outcome, Outcome::Pass);
}

/// A value that was agreed on for one architecture is not another's under another key.
#[test]
fn an_architecture_in_front_has_no_baseline_yet() {
    let mut record = two_architectures(["a", "a"]);
    record.policy.baselines = record_simulated().policy.baselines;
    let subject = Subject::Case(small());
    let found = verdict(&record, &subject, COUNTERS);
    assert!(matches!(found.reason, Reason::New { .. }), "{found:?}");
    recount(&mut record, |_, facts| {
        facts.counters.insert(Counter::GlobalLoadSectors, 8192);
    });
    let found = verdict(&record, &subject, COUNTERS);
    assert_eq!(found.outcome, Outcome::Fail, "{found:?}");
}

/// Two records say as much as a run against its base, whatever keys they have.
#[test]
fn two_records_under_other_keys() {
    let base = record_simulated();
    let mut head = record_simulated();
    for unit in &mut head.plan.units {
        unit.flags = vec!["-O2".into()];
    }
    let subject = Subject::Case(small());
    let counters = |head: &Record| {
        let judgement = compare(&base, head, Loosening::Fails);
        verdict_of(&judgement, &subject, COUNTERS)
    };
    assert_eq!(counters(&head).outcome, Outcome::Pass);
    recount(&mut head, |_, facts| {
        facts.counters.insert(Counter::GlobalLoadSectors, 8192);
    });
    let worse = counters(&head);
    assert_eq!(worse.outcome, Outcome::Fail);
    assert_eq!(worse.reason.code(), "counters-rose");
    // By another counter model nothing is known.
    let mut other = head.clone();
    other.environment.simulator = Some(Simulator { counter_model: 8 });
    assert_eq!(counters(&other).outcome, Outcome::Inconclusive);
    for piece in &mut head.evidence {
        refuse(piece, &small(), &OVER);
    }
    let lost = compare(&base, &head, Loosening::Fails);
    assert_eq!(lost.conclusion, Conclusion::Fail);
    let is_lost = |verdict: &Verdict| {
        verdict.reason.code() == "check-lost" && verdict.outcome == Outcome::Fail
    };
    assert_eq!(
        lost.verdicts
            .iter()
            .filter(|verdict| is_lost(verdict))
            .count(),
        1
    );
}

fn hazard(text: &str, number: u32) -> Finding {
    finding_at(FindingKind::WarpHazard, number, text)
}

/// Head and base with these hazards each, and what the judge makes of them.
fn of_hazards(
    head: &[Finding],
    base: &[Finding],
    change: impl Fn(&mut Record),
) -> (Outcome, &'static str, usize) {
    let mut record = against_base();
    recount(&mut record, |_, facts| facts.findings = head.to_vec());
    of_base(&mut record, |piece| {
        if let Evidence::Simulation {
            case,
            facts: Seen::Got(facts),
            ..
        } = piece
            && *case == small()
        {
            facts.findings = base.to_vec();
        }
    });
    change(&mut record);
    let found = verdict(&record, &Subject::Case(small()), Rule::NoFindings);
    let notes = ruled(&record).notes;
    (
        found.outcome,
        found.reason.code(),
        notes
            .iter()
            .filter(|note| matches!(note, Note::WarpHazard { .. }))
            .count(),
    )
}

#[test]
fn a_hazard_within_a_warp_is_held_against_those_of_the_base() {
    let (old, moved, other) = (
        hazard("y = s[t ^ 1];", 9),
        hazard("y  = s[t ^ 1];", 12),
        hazard("s[t] = y;", 9),
    );
    let as_it_is = |_: &mut Record| {};
    let (note, new) = (
        (Outcome::Pass, "held", 1),
        (Outcome::Fail, "new-hazards", 0),
    );
    let of = |head: &[Finding], base: &[Finding]| of_hazards(head, base, as_it_is);
    assert_eq!(of(&[], &[]), (Outcome::Pass, "held", 0));
    assert_eq!(
        of(std::slice::from_ref(&moved), std::slice::from_ref(&old)),
        note
    );
    assert_eq!(
        of(std::slice::from_ref(&other), std::slice::from_ref(&old)),
        new
    );
    // One more of the same text is one more.
    assert_eq!(
        of(&[old.clone(), moved.clone()], std::slice::from_ref(&old)),
        new
    );
    assert_eq!(
        of(std::slice::from_ref(&old), &[old.clone(), moved.clone()]),
        note
    );
    let fails = |record: &mut Record| record.plan.simulation.warp_hazards = WarpHazards::Fail;
    let found = of_hazards(
        std::slice::from_ref(&moved),
        std::slice::from_ref(&old),
        fails,
    );
    assert_eq!(found, (Outcome::Fail, "findings", 0));
    // A race is no hazard, whatever the base has.
    let race = Finding {
        kind: FindingKind::WarpRace,
        ..old.clone()
    };
    assert_eq!(
        of(std::slice::from_ref(&race), std::slice::from_ref(&race)),
        (Outcome::Fail, "findings", 0)
    );
}

#[test]
fn a_hazard_is_not_compared_with_a_base_that_was_not_simulated() {
    let unseen = |record: &mut Record| {
        of_base(record, |piece| {
            refuse(piece, &small(), &NotRun::EstimateUnknown)
        });
    };
    let old = hazard("y = s[t ^ 1];", 9);
    let found = of_hazards(
        std::slice::from_ref(&old),
        std::slice::from_ref(&old),
        unseen,
    );
    assert_eq!(found, (Outcome::Inconclusive, "hazards-not-compared", 0));
    assert_eq!(of_hazards(&[], &[old], unseen), (Outcome::Pass, "held", 0));
}

#[test]
fn runs_the_base_if_head_has_a_hazard() {
    let mut record = against_base();
    record
        .policy
        .gates
        .retain(|gate| gate.rule == Rule::NoFindings);
    let needed = |record: &Record| {
        let (plan, environment) = (&record.plan, &record.environment);
        needed_of_base(plan, environment, &record.policy, &record.evidence)
    };
    assert_eq!(needed(&record), []);
    recount(&mut record, |_, facts| {
        facts.findings = vec![hazard("y = s[t ^ 1];", 9)];
    });
    assert_eq!(needed(&record), [small()]);
}
