//! Compares facts of a run with its baselines: what is broken and accepted, and how far values have drifted from
//! their anchors.

use model::{Accepted, Drift, Environment, Judgement};
use wording::reasons;
use wording::words;

/// Returns metrics that got worse since an anchor by more than their spread, the worst first. `report.json` has all of
/// them.
pub fn drifts(judgement: &Judgement) -> Vec<String> {
    const MOST: usize = 8;
    let worse = |drift: &&Drift| {
        let [low, high] = drift.interval.unwrap_or([drift.change; 2]);
        if drift.metric.larger_is_better() {
            high.0 < 0.0
        } else {
            low.0 > 0.0
        }
    };
    let mut found: Vec<&Drift> = judgement.drifts.iter().filter(worse).collect();
    found.sort_by(|a, b| b.change.0.abs().total_cmp(&a.change.0.abs()));
    let more = found.len().saturating_sub(MOST);
    let mut lines: Vec<_> = found.into_iter().take(MOST).map(drift).collect();
    if more > 0 {
        lines.push(format!("and {} more", words::plural(more, "metric")));
    }
    let same = judgement
        .drifts
        .iter()
        .filter(|drift| !worse(drift))
        .count();
    if same > 0 {
        lines.push(format!(
            "{} no worse than at their anchors",
            words::plural(same, "metric")
        ));
    }
    lines
}

/// Returns a drift in words: `k/fast@small p50 since v1.0 (0a34415aaaaa): 80 us -> 84 us, 5.0 % slower (4.8 % to 5.2 %
/// slower)`.
fn drift(drift: &Drift) -> String {
    let Drift {
        subject,
        metric,
        since,
        found,
        was,
        measured,
        change,
        interval,
    } = drift;
    let interval = interval.map_or(String::new(), |[low, high]| {
        format!(" ({})", words::interval(*metric, [low.0, high.0]))
    });
    format!(
        "{subject} {metric} since {since} ({found}): {} -> {}, {}{interval}",
        words::quantity(*metric, was.0),
        words::quantity(*metric, measured.0),
        words::change(*metric, change.0),
    )
}

/// Returns a gate that is broken and passes: `k/fast@small p50 +2%: 3.0 % slower ...`.
pub fn accepted(environment: &Environment, accepted: &Accepted) -> String {
    format!(
        "{} {}: {} ({})",
        accepted.subject,
        words::gate(&accepted.rule),
        reasons::reason(environment, &accepted.subject, &accepted.reason),
        accepted.declared
    )
}
