//! Tests workers that break while they time head and base side by side, and whose fault that is.

use super::*;
use crate::worker::protocol::{Arm, PairJob};
use model::{PairFacts, Singles};

fn pair_job() -> PairJob {
    let TimeJob {
        mut case,
        artifact,
        seed,
        schedule,
    } = time_job();
    case.deadline_ms = 1_000;
    let arm = Arm { case, artifact };
    PairJob {
        head: arm.clone(),
        base: arm,
        seed,
        process: 0,
        schedule,
        pairing: config::pairing(false),
        singles: Singles::Judged,
    }
}

/// Returns the fault of a worker that sends steps and then does what `end` says instead of answering. The known-good
/// kernel passes on the next worker.
fn broke(steps: &[Frame], end: &str) -> Fault {
    let said: String = steps.iter().map(|step| say(1, step.clone())).collect();
    let bad = format!("{}read order\n{said}{end}", ready());
    let good = format!("{}read order\n{}read end", ready(), say(1, Frame::Sane));
    let mut scripts = crew(&[bad, good]);
    let seen: Seen<PairFacts> = scripts.crew.pair(pair_job());
    match seen {
        Seen::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_base_that_hangs_or_dies_says_nothing_of_head() {
    let base = || Frame::BaseStep("warming up the base revision".into());
    let head = || Frame::Step("warming up".into());
    for (steps, end, kind) in [
        (vec![base()], "sleep 1000", FaultKind::Base),
        (vec![head(), base()], "kill -SEGV $$", FaultKind::Base),
        (vec![base(), head()], "sleep 1000", FaultKind::Hang),
        (vec![base(), head()], "kill -SEGV $$", FaultKind::WorkerDied),
        (vec![], "sleep 1000", FaultKind::Hang),
    ] {
        let fault = broke(&steps, end);
        assert_eq!(fault.kind, kind, "{}", fault.message);
        if let Some(Frame::Step(last) | Frame::BaseStep(last)) = steps.last() {
            assert!(fault.message.contains(last), "{}", fault.message);
        }
    }
}

/// A machine that fails is not a base that fails.
#[test]
fn does_not_blame_the_base_if_a_known_good_kernel_fails_too() {
    let step = say(1, Frame::BaseStep("warming up the base revision".into()));
    let bad = format!("{}read order\n{step}kill -SEGV $$", ready());
    let mut scripts = crew(&[bad, format!("{}read order\nkill -ABRT $$", ready())]);
    let seen = scripts.crew.pair(pair_job());
    assert!(
        matches!(&seen, Seen::Fault(fault) if fault.kind == FaultKind::Environment),
        "{seen:?}"
    );
}
