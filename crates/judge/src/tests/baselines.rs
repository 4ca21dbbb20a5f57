//! Tests which values an update may take over without a question, and which it offers.

use super::*;
use crate::accepts_worse;

fn subject() -> Subject {
    case("direct", "small")
}

fn agreed(value: f64, spread: Option<f64>) -> Agreed {
    Agreed {
        value: Num(value),
        spread: spread.map(Num),
        processes: spread.map(|_| 5),
        sessions: None,
    }
}

#[test]
fn a_value_that_repeats_exactly_is_worse_by_its_metric() {
    let policy = record().policy;
    let is_worse = |metric, was, now| {
        let [was, now] = [was, now].map(|value| agreed(value, None));
        accepts_worse(&policy, (&subject(), metric), &was, &now)
    };
    assert!(is_worse(Metric::Registers, 96.0, 97.0));
    assert!(!is_worse(Metric::Registers, 96.0, 96.0));
    assert!(!is_worse(Metric::Registers, 96.0, 95.0));
    assert!(is_worse(Metric::BlocksPerSm, 5.0, 4.0));
    assert!(!is_worse(Metric::BlocksPerSm, 4.0, 5.0));
    assert!(is_worse(Metric::MaxErr, 0.0, 1e-9));
    assert!(is_worse(
        Metric::Counter(Counter::GlobalLoadSectors),
        500.0,
        2000.0
    ));
}

#[test]
fn a_time_is_worse_beyond_its_noise_alone() {
    let policy = record().policy;
    let is_worse = |now, spread| {
        let [was, now] = [100_000.0, now].map(|value| agreed(value, Some(spread)));
        accepts_worse(&policy, (&subject(), Metric::P50), &was, &now)
    };
    assert!(is_worse(101_000.0, 0.0005));
    assert!(!is_worse(101_000.0, 0.02));
    assert!(!is_worse(99_000.0, 0.0005));
    // No interval can be made from this value, which an update repairs.
    let broken = agreed(100_000.0, None);
    let slower = agreed(200_000.0, Some(0.001));
    assert!(!accepts_worse(
        &policy,
        (&subject(), Metric::P50),
        &broken,
        &slower
    ));
}

#[test]
fn another_session_of_the_same_code_is_not_worse() {
    let of_code = |identity: &str, value: f64| Agreed {
        sessions: Some(Sessions {
            identity: identity.to_owned(),
            seen: [("2026-11-21 GPU-0".to_owned(), Num(value))].into(),
            earlier: None,
        }),
        ..agreed(value, Some(0.0005))
    };
    let was = of_code("a", 100_000.0);
    let policy = record().policy;
    let is_worse = |new| accepts_worse(&policy, (&subject(), Metric::P50), &was, &new);
    assert!(!is_worse(of_code("a", 102_000.0)));
    assert!(is_worse(of_code("b", 102_000.0)));
}

/// A kernel that gets faster varies more, by the share of its time.
#[test]
fn a_time_that_no_gate_holds_may_get_worse() {
    let mut policy = record().policy;
    let gate = |metric| Gate {
        subject: subject(),
        rule: Rule::Limit {
            metric,
            limit: Limit::Baseline {
                change: Margin::Share(Num(0.1)),
            },
        },
        declared: None,
    };
    let [was, now] = [0.01, 0.02].map(|value| agreed(value, Some(0.001)));
    let is_worse = |policy: &Policy| accepts_worse(policy, (&subject(), Metric::Cv), &was, &now);
    assert!(!is_worse(&policy));
    policy.gates.push(gate(Metric::Cv));
    assert!(is_worse(&policy));
}
