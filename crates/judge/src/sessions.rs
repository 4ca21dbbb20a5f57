//! Joins the measurements of one code on several days and GPUs. Days, and GPUs of one model, differ by more than
//! processes of one day do, so a baseline keeps one value for each session and learns the spread between sessions from
//! them.

use crate::stats::Between;
use model::*;

/// The greatest number of sessions that a baseline keeps. More of them add nothing new.
const MOST: usize = 10;

/// Returns the baseline after a new session.
///
/// If the code is the same, the sessions join, and their mean becomes the value. If the code is another, the value
/// starts anew. The spread of the earlier sessions is kept, because it belongs to the GPUs and not to the code.
pub fn joined(old: &Agreed, new: Agreed) -> Agreed {
    let (Some(before), Some(now)) = (&old.sessions, &new.sessions) else {
        return new;
    };
    let mut sessions = now.clone();
    if before.identity == now.identity {
        // A second measurement on the same day and GPU takes the place of the first.
        let mut seen = before.seen.clone();
        seen.extend(now.seen.clone());
        while seen.len() > MOST {
            seen.pop_first();
        }
        sessions.seen = seen;
        sessions.earlier = before.earlier;
    } else {
        sessions.earlier = noise(before);
    }
    let several = sessions.seen.len() > 1;
    match between(&sessions).map(|(mean, _)| mean) {
        Some(_) if !several => Agreed {
            sessions: Some(sessions),
            ..new
        },
        Some(mean) => Agreed {
            value: Num(mean.exp()),
            sessions: Some(sessions),
            ..new
        },
        None => new,
    }
}

/// Returns the mean of the logs of the sessions, and the sum of their squared deviations from it. Returns `None` if a
/// value is not a number above zero.
fn between(sessions: &Sessions) -> Option<(f64, f64)> {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    let logs: Vec<f64> = sessions
        .seen
        .values()
        .map(|value| Some(value.0).filter(usable).map(f64::ln))
        .collect::<Option<_>>()?;
    if logs.is_empty() {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    Some((mean, logs.iter().map(|log| (log - mean).powi(2)).sum()))
}

/// Returns the standard deviation between sessions, pooled over these sessions and those of earlier code by their
/// degrees of freedom. Returns `None` if there never were two sessions of one code.
fn noise(sessions: &Sessions) -> Option<Noise> {
    let (_, squares) = between(sessions)?;
    let own = u32::try_from(sessions.seen.len()).ok()?.saturating_sub(1);
    let (earlier, freedom) = sessions.earlier.map_or((0.0, 0), |earlier| {
        let squares = earlier.deviation.0.powi(2) * f64::from(earlier.freedom);
        (squares, earlier.freedom)
    });
    let freedom = own + freedom;
    (freedom > 0).then(|| Noise {
        deviation: Num(((squares + earlier) / f64::from(freedom)).sqrt()),
        freedom,
    })
}

/// Returns the variation that a new session is compared with, or `None` if nothing is known of the spread between
/// sessions. Sessions that agree more closely than the processes of one of them (standard error `least` of its mean)
/// agree by chance, so the spread is at least `least`.
pub(super) fn between_sessions(sessions: &Sessions, least: f64) -> Option<Between> {
    let (ln_mean, _) = between(sessions)?;
    let Noise { deviation, freedom } = noise(sessions)?;
    Some(Between {
        ln_mean,
        sessions: u32::try_from(sessions.seen.len()).ok()?,
        ln_deviation: deviation.0.max(least),
        freedom,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(identity: &str, day: u32, gpu: &str, value: f64) -> Agreed {
        Agreed {
            value: Num(value),
            spread: Some(Num(0.001)),
            processes: Some(5),
            sessions: Some(Sessions {
                identity: identity.into(),
                seen: [(format!("2026-11-{day:02} {gpu}"), Num(value))].into(),
                earlier: None,
            }),
        }
    }

    fn values(agreed: &Agreed) -> Vec<f64> {
        let sessions = agreed.sessions.as_ref().unwrap();
        sessions.seen.values().map(|value| value.0).collect()
    }

    #[test]
    fn the_same_code_on_another_day_or_gpu_joins_and_on_the_same_takes_its_place() {
        let one = agreed("a", 1, "GPU-0", 100.0);
        let two = joined(&one, agreed("a", 2, "GPU-0", 102.0));
        assert_eq!(values(&two), [100.0, 102.0]);
        assert!((two.value.0 - (100.0f64 * 102.0).sqrt()).abs() < 1e-9);
        let three = joined(&two, agreed("a", 2, "GPU-1", 104.0));
        assert_eq!(values(&three), [100.0, 102.0, 104.0]);
        let again = joined(&three, agreed("a", 2, "GPU-0", 103.0));
        assert_eq!(values(&again), [100.0, 103.0, 104.0]);
        let noise = noise(again.sessions.as_ref().unwrap()).unwrap();
        assert_eq!(noise.freedom, 2);
        assert!((noise.deviation.0 - 0.0208).abs() < 1e-3, "{noise:?}");
    }

    #[test]
    fn other_code_starts_anew_and_keeps_the_noise() {
        let one = agreed("a", 1, "GPU-0", 100.0);
        let alone = joined(&one, agreed("b", 2, "GPU-0", 50.0));
        assert_eq!((alone.value, values(&alone)), (Num(50.0), vec![50.0]));
        assert_eq!(
            between_sessions(alone.sessions.as_ref().unwrap(), 0.0),
            None
        );

        let two = joined(&one, agreed("a", 2, "GPU-0", 102.0));
        let new = joined(&two, agreed("b", 3, "GPU-0", 50.0));
        let base = between_sessions(new.sessions.as_ref().unwrap(), 0.0).unwrap();
        assert_eq!((base.sessions, base.freedom), (1, 1));
        assert!((base.ln_deviation - (1.02f64.ln() / 2f64.sqrt())).abs() < 1e-12);
        assert!((base.ln_mean - 50f64.ln()).abs() < 1e-12);
        // The spread of both codes together is used.
        let more = joined(&new, agreed("b", 4, "GPU-0", 50.0));
        let base = between_sessions(more.sessions.as_ref().unwrap(), 0.0).unwrap();
        assert_eq!((base.sessions, base.freedom), (2, 2));
        assert!((base.ln_deviation - (1.02f64.ln() / 2.0)).abs() < 1e-12);
    }

    #[test]
    fn sessions_that_agree_by_chance_are_no_certainty() {
        let one = agreed("a", 1, "GPU-0", 100.0);
        let same = joined(&one, agreed("a", 2, "GPU-0", 100.0));
        let base = between_sessions(same.sessions.as_ref().unwrap(), 0.0004).unwrap();
        assert_eq!(base.ln_deviation, 0.0004);
    }

    #[test]
    fn sessions_with_nan_join_nothing() {
        let broken = agreed("a", 1, "GPU-0", f64::NAN);
        let new = agreed("a", 2, "GPU-0", 100.0);
        assert_eq!(joined(&broken, new.clone()), new);
        assert_eq!(
            between_sessions(broken.sessions.as_ref().unwrap(), 0.1),
            None
        );
        let mut old = new.clone();
        old.sessions = None;
        assert_eq!(joined(&old, new.clone()), new);
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut all = agreed("a", 1, "GPU-0", 100.0);
        for day in 2..30 {
            all = joined(&all, agreed("a", day, "GPU-0", 100.0 + f64::from(day)));
        }
        assert_eq!(values(&all).len(), MOST);
        assert_eq!(values(&all).last(), Some(&129.0));
    }
}
