//! Gates on profiles: red for the right reason, green on right code, and never a toss of a coin.

use super::*;

const TENSOR: Metric = Metric::Profile(ProfileMetric::TensorActive);

fn id() -> CaseId {
    case_id("direct", "small")
}

fn at_least(metric: Metric, bound: f64) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Absolute {
            op: Op::Ge,
            bound: Bound::Value(Num(bound)),
        },
    }
}

/// The verdict of one gate more on a case.
fn judged(mut record: Record, rule: Rule) -> Verdict {
    let gate = gate(Subject::Case(id()), rule.clone());
    record.policy.gates.push(gate);
    let mut verdicts = ruled(&record).verdicts.into_iter();
    let asked = Question::Gate(rule);
    verdicts
        .find(|verdict| verdict.subject == Subject::Case(id()) && verdict.question == asked)
        .unwrap()
}

fn profiles_asked_for(record: &Record) -> Vec<Profiled> {
    let plan = &record.plan;
    to_profile(plan, &record.environment, &record.policy, &record.evidence)
}

fn set(facts: &mut ProfileFacts, metric: ProfileMetric, value: f64) {
    facts.kernels[0]
        .metrics
        .insert(metric, Seen::Got(Num(value)));
}

#[test]
fn an_absolute_limit_holds_and_breaks() {
    let holds = judged(record_profiled(), at_least(TENSOR, 0.5));
    assert_eq!(holds.outcome, Outcome::Pass);
    assert_eq!(holds.measured, Some(Num(0.5)));
    let breaks = judged(record_profiled(), at_least(TENSOR, 0.6));
    assert_eq!(breaks.outcome, Outcome::Fail);
    assert_eq!(breaks.reason.code(), "beyond-limit");
}

#[test]
fn a_limit_inside_the_spread_of_repeats_is_no_coin_toss() {
    let mut record = record_profiled();
    reprofile(&mut record, &id(), |repeat, facts| {
        set(
            facts,
            ProfileMetric::TensorActive,
            0.49 + 0.01 * f64::from(repeat),
        );
    });
    let verdict = judged(record.clone(), at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason.code(), "repeats-disagree");
    // A limit outside of it is judged as ever.
    assert_eq!(
        judged(record.clone(), at_least(TENSOR, 0.48)).outcome,
        Outcome::Pass
    );
    assert_eq!(
        judged(record, at_least(TENSOR, 0.52)).outcome,
        Outcome::Fail
    );
}

#[test]
fn nobody_asked_for_a_profile() {
    let verdict = judged(record(), at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Skipped);
    assert_eq!(verdict.reason, Reason::NotProfiled);
}

#[test]
fn in_the_simulator_there_is_no_profile() {
    let verdict = judged(record_simulated(), at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Skipped);
    let mut asked = record_simulated();
    asked.plan.profiling = Some(Profiling { repeats: 3 });
    let verdict = judged(asked, at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Skipped);
    assert_eq!(verdict.reason.code(), "no-device");
}

#[test]
fn a_profile_that_was_asked_for_and_is_not_there_is_no_pass() {
    let mut record = record_profiled();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Profile { case, .. } if *case == id()));
    let verdict = judged(record, at_least(TENSOR, 0.0));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason.code(), "evidence-missing");
}

#[test]
fn uncounted_metrics_are_unsupported_and_not_zero() {
    let fp64 = Metric::Profile(ProfileMetric::Fp64Active);
    let verdict = judged(record_profiled(), at_most(fp64, 0.1));
    assert_eq!(verdict.outcome, Outcome::Unsupported);
    assert_eq!(verdict.reason.code(), "not-counted");
}

#[test]
fn counts_of_several_kernels_add_up_and_shares_do_not() {
    let mut record = record_profiled();
    reprofile(&mut record, &id(), |_, facts| {
        let again = facts.kernels[0].clone();
        facts.kernels.push(again);
    });
    let bytes = Metric::Profile(ProfileMetric::DramBytes);
    let verdict = judged(record.clone(), at_most(bytes, 8191.0));
    assert_eq!(verdict.measured, Some(Num(8192.0)));
    assert_eq!(verdict.outcome, Outcome::Fail);
    let verdict = judged(record, at_least(TENSOR, 0.1));
    assert_eq!(verdict.outcome, Outcome::Unsupported);
    assert_eq!(verdict.reason.code(), "several-kernels");
}

#[test]
fn a_condition_joins_shares_and_one_unknown_makes_all_of_it_unknown() {
    let either = |text: &str| {
        let rule = Rule::Condition { expr: expr(text) };
        judged(record_profiled(), rule).outcome
    };
    assert_eq!(
        either("tensor_active >= 0.5 || dram_throughput >= 0.7"),
        Outcome::Pass
    );
    assert_eq!(
        either("tensor_active >= 0.6 || dram_throughput >= 0.7"),
        Outcome::Fail
    );
    assert_eq!(
        either("tensor_active >= 0.5 || fp64_active >= 0.7"),
        Outcome::Unsupported
    );
}

#[test]
fn a_case_that_is_wrong_has_no_profile() {
    let mut record = record_profiled();
    recheck(&mut record, &id(), |_, facts| facts.error.non_finite = 1);
    let verdict = judged(record, at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Skipped);
    assert_eq!(verdict.reason.code(), "not-proven");
}

#[test]
fn a_broken_profiler_is_a_broken_environment() {
    let mut record = record_profiled();
    for piece in &mut record.evidence {
        if let Evidence::Profile { facts, .. } = piece {
            *facts = Seen::Fault(Fault::new(FaultKind::CountersLocked, "ERR_NVGPUCTRPERM"));
        }
    }
    let verdict = judged(record, at_least(TENSOR, 0.5));
    assert_eq!(verdict.outcome, Outcome::Environment);
    assert_eq!(verdict.reason.code(), "counters-locked");
}

/// The same run with what it profiled agreed on.
fn agreed() -> Record {
    let mut record = record_profiled();
    let (baselines, _) = acceptable(&record, "seal");
    let is_profile = |baseline: &Baseline| baseline.key.facet() == Facet::Profile;
    let profiles: Vec<_> = baselines.into_iter().filter(is_profile).collect();
    assert_eq!(profiles.len(), VARIANTS.len());
    record.policy.baselines.extend(profiles);
    record
}

#[test]
fn a_baseline_is_held_to_beyond_the_spread_of_both_sides() {
    assert_eq!(
        judged(agreed(), within(TENSOR, 0.02)).outcome,
        Outcome::Pass
    );
    let mut slower = agreed();
    reprofile(&mut slower, &id(), |repeat, facts| {
        set(
            facts,
            ProfileMetric::TensorActive,
            0.4 + 0.001 * f64::from(repeat),
        );
    });
    let verdict = judged(slower, within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(verdict.reason.code(), "beyond-change");
    let mut noisy = agreed();
    reprofile(&mut noisy, &id(), |repeat, facts| {
        set(
            facts,
            ProfileMetric::TensorActive,
            0.48 + 0.01 * f64::from(repeat),
        );
    });
    let verdict = judged(noisy, within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason.code(), "repeats-disagree");
}

#[test]
fn one_profile_has_no_spread_to_compare_by() {
    let mut record = agreed();
    let is_first = |piece: &Evidence| !matches!(piece, Evidence::Profile { repeat: 1.., .. });
    record.evidence.retain(is_first);
    let verdict = judged(record.clone(), within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason.code(), "too-few-profiles");
    // An absolute limit is a stated number.
    assert_eq!(judged(record, at_least(TENSOR, 0.5)).outcome, Outcome::Pass);
}

#[test]
fn another_profiler_is_another_key() {
    let mut record = agreed();
    for case in record.plan.cases.clone() {
        reprofile(&mut record, &case.id, |_, facts| {
            facts.profiler = "Nsight Compute 2026.1".into();
        });
    }
    let verdict = judged(record, within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.reason.code(), "other-key");
}

#[test]
fn a_condition_that_holds_in_some_repeats_is_no_coin_toss() {
    let either = |record: &Record, text: &str| {
        let rule = Rule::Condition { expr: expr(text) };
        let verdict = judged(record.clone(), rule);
        (verdict.outcome, verdict.reason.code())
    };
    let mut record = record_profiled();
    reprofile(&mut record, &id(), |repeat, facts| {
        set(
            facts,
            ProfileMetric::TensorActive,
            0.49 + 0.01 * f64::from(repeat),
        );
    });
    let open = (Outcome::Inconclusive, "repeats-disagree");
    assert_eq!(
        either(&record, "tensor_active >= 50% || dram_throughput >= 70%"),
        open
    );
    // The other side decides it whatever this one is.
    let holds = either(&record, "tensor_active >= 50% || dram_throughput >= 20%");
    assert_eq!(holds.0, Outcome::Pass);
    let breaks = either(&record, "tensor_active >= 60% || dram_throughput >= 70%");
    assert_eq!(breaks.0, Outcome::Fail);
}

#[test]
fn profiles_only_right_cases_and_repeats_them_for_relative_limits() {
    let mut fresh = record();
    assert_eq!(profiles_asked_for(&fresh), []);
    fresh.plan.profiling = Some(Profiling { repeats: 3 });
    let all = profiles_asked_for(&fresh);
    assert_eq!(all.len(), fresh.plan.cases.len());
    assert!(
        all.iter()
            .all(|request| request.repeats == 1 && !request.against_base)
    );
    let subject = Subject::Case(id());
    fresh.policy.gates.push(gate(subject, within(TENSOR, 0.02)));
    let repeats = |record: &Record, of: &CaseId| {
        let all = profiles_asked_for(record);
        all.iter()
            .find(|request| request.case == *of)
            .map(|request| request.repeats)
    };
    assert_eq!(repeats(&fresh, &id()), Some(3));
    assert_eq!(repeats(&fresh, &case_id("fast", "small")), Some(1));
    recheck(&mut fresh, &id(), |_, facts| facts.error.non_finite = 1);
    assert_eq!(repeats(&fresh, &id()), None);
}

/// Both sides profiled alike, of other code for `direct`, without baselines.
fn against_base() -> Record {
    let mut record = run_on_base(record_profiled(), Vec::new());
    rebuild(&mut record, "direct", |facts| {
        facts.identity = "after the change".into()
    });
    record
}

#[test]
fn without_a_baseline_the_base_of_the_same_run_decides() {
    let verdict = judged(against_base(), within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(comparison(&verdict.reason).against, Against::Base);
    let mut slower = against_base();
    reprofile(&mut slower, &id(), |_, facts| {
        set(facts, ProfileMetric::TensorActive, 0.4)
    });
    let verdict = judged(slower, within(TENSOR, 0.02));
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(comparison(&verdict.reason).against, Against::Base);
    // A base that was not profiled says nothing: there is no baseline yet.
    let mut alone = against_base();
    alone.evidence.retain(|piece| {
        let base = piece.of_base();
        !base.is_some_and(|evidence| matches!(evidence, Evidence::Profile { .. }))
    });
    let verdict = judged(alone, within(TENSOR, 0.02));
    assert_eq!(
        (verdict.outcome, verdict.reason.code()),
        (Outcome::Skipped, "new")
    );
}

#[test]
fn profiles_both_sides_of_a_changed_case() {
    let mut record = against_base();
    let is_other = |piece: &Evidence| {
        let piece = piece.of_base().unwrap_or(piece);
        !matches!(piece, Evidence::Profile { .. })
    };
    record.evidence.retain(is_other);
    let asked = profiles_asked_for(&record);
    let beside: Vec<_> = asked
        .iter()
        .filter(|request| request.against_base)
        .collect();
    assert!(
        beside
            .iter()
            .all(|request| request.case.variant == "direct")
    );
    assert_eq!((asked.len(), beside.len()), (4, 2));
}
