//! Tests several GPUs, with shell scripts instead of their workers.

use super::*;
use crate::device::lock::{GpuLock, Use};
use crate::worker::protocol::{Frame, Ready};
use crate::worker::tests::{LONG, case, checked, facts, failed, job, line, shell, time_job};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Stand for what a script puts into the answer in the place of each.
const ORDER: u64 = 999_001;
const SEED: u32 = 999_002;

#[derive(Clone)]
struct Gpu {
    greeting: Frame,
    /// The action that the worker takes before it answers a check.
    before: &'static str,
    /// True if the known-good kernel works there.
    sane: bool,
}

fn gpu(ordinal: u32) -> Gpu {
    let facts = DeviceFacts {
        ordinal,
        uuid: format!("GPU-{ordinal}"),
        ..facts()
    };
    Gpu {
        greeting: Frame::Ready(Ready::Device(facts)),
        before: "",
        sane: true,
    }
}

/// Dies of every check, and of the known-good kernel too.
fn broken(ordinal: u32) -> Gpu {
    Gpu {
        before: "kill -SEGV $$",
        sane: false,
        ..gpu(ordinal)
    }
}

/// Returns a script whose answer to a check says on which GPU it was done (`unwritten`), and which seed it had
/// (`launches`).
fn script(ordinal: u32, gpu: &Gpu, count: u32) -> String {
    let Frame::Checked(mut facts) = checked() else {
        panic!("it is a check")
    };
    facts.unwritten = ordinal.into();
    facts.launches = SEED;
    let sane = if gpu.sane {
        Frame::Sane
    } else {
        failed(FaultKind::Environment, "wrong values", false)
    };
    let say = |frame| {
        format!(
            "echo '{}' | sed \"s/{ORDER}/$n/; s/{SEED}/$seed/\"",
            line(ORDER, frame)
        )
    };
    format!(
        "echo '{}'\nn=0\nwhile read -r order; do n=$((n+1))\ncase \"$order\" in\n\
         *'\"job\":\"count\"'*) {};;\n\
         *'\"job\":\"known_good\"'*) {};;\n\
         *) seed=$(echo \"$order\" | sed 's/.*\"seed\":\\([0-9]*\\).*/\\1/'); {}\n{};;\n\
         esac; done",
        line(0, gpu.greeting.clone()),
        say(Frame::Counted(count)),
        say(sane),
        gpu.before,
        say(Frame::Checked(facts)),
    )
}

struct Machine {
    locks: tempfile::TempDir,
    gpus: Vec<Gpu>,
}

fn machine(gpus: impl IntoIterator<Item = Gpu>) -> Machine {
    Machine {
        locks: tempfile::tempdir().unwrap(),
        gpus: gpus.into_iter().collect(),
    }
}

impl Machine {
    fn crews(&self, choice: DeviceChoice) -> Crews<'static> {
        let count = self.gpus.len() as u32;
        let scripts: Vec<_> = (0..count)
            .zip(&self.gpus)
            .map(|(ordinal, gpu)| script(ordinal, gpu, count))
            .collect();
        let locks = self.locks.path().to_owned();
        let make = move |choice: DeviceChoice| {
            let script = scripts[choice.ordinal() as usize].clone();
            Crew::with_command(move || shell(&script), locks.clone())
        };
        Crews::from_maker(make, choice)
    }

    fn opened(&self) -> Crews<'static> {
        let mut crews = self.crews(DeviceChoice::CudaAll);
        let Seen::Got(first) = crews.open() else {
            panic!("it opens")
        };
        assert_eq!(first.ordinal, 0, "the first stands for all");
        assert_eq!(crews.gpus(), self.gpus.len());
        crews
    }

    /// Returns a lock. A lock that somebody keeps is an error. A lock that was released may be held for a moment more:
    /// a child that another thread starts has a copy of every open file until it runs its own program.
    fn lock(&self, ordinal: u32, wanted: Use) -> GpuLock {
        let dir = self.locks.path().to_owned();
        let (got, is_got) = mpsc::channel();
        std::thread::spawn(move || {
            let uuid = format!("GPU-{ordinal}");
            got.send(GpuLock::acquire(&dir, &uuid, wanted, |_| {}))
        });
        is_got.recv_timeout(LONG).unwrap().unwrap()
    }
}

/// Returns cases. Case 3 has the seeds 3000, 3001 and so on.
fn cases(count: u64, seeds: u64) -> Vec<Vec<CheckJob>> {
    let jobs = |number: u64| (0..seeds).map(move |position| number * 1000 + position);
    (0..count)
        .map(|number| {
            jobs(number)
                .map(|seed| {
                    let mut case = case();
                    case.id.shape = format!("s{number}");
                    CheckJob { seed, ..job(case) }
                })
                .collect()
        })
        .collect()
}

/// Returns the GPU that did each case, or `None` if all of its seeds are faults of the environment. Checks that one GPU
/// did all seeds of a case, and that every answer belongs to its seed.
fn done_by(cases: &[Vec<CheckJob>], answers: &[Vec<CheckAnswer>]) -> Vec<Option<u64>> {
    assert_eq!(answers.len(), cases.len());
    let one = |(jobs, answers): (&Vec<CheckJob>, &Vec<CheckAnswer>)| {
        assert_eq!(answers.len(), jobs.len());
        let of = |(job, answer): (&CheckJob, &CheckAnswer)| match &answer.check {
            Seen::Got(facts) => {
                assert_eq!(u64::from(facts.launches), job.seed);
                Some(facts.unwritten)
            }
            Seen::Fault(fault) => {
                assert_eq!(fault.kind, FaultKind::Environment, "{}", fault.message);
                None
            }
            other => panic!("{other:?}"),
        };
        let by: Vec<_> = jobs.iter().zip(answers).map(of).collect();
        assert!(by.windows(2).all(|two| two[0] == two[1]), "{by:?}");
        by[0]
    };
    cases.iter().zip(answers).map(one).collect()
}

#[test]
fn answers_stand_as_the_jobs_do_however_fast_each_gpu_is() {
    for seeds in [1, 3] {
        let mut machine = machine((0..3).map(gpu));
        machine.gpus[0].before = "sleep 0.15";
        machine.gpus[2].before = "sleep 0.02";
        let cases = cases(12, seeds);
        let ended: Vec<_> = cases.iter().map(|_| AtomicUsize::new(0)).collect();
        let mut crews = machine.opened();
        let answers = crews.check(&cases, &|number, _| {
            ended[number].fetch_add(1, Ordering::Relaxed);
        });
        let by = done_by(&cases, &answers);
        let share = |gpu| by.iter().filter(|by| **by == Some(gpu)).count();
        assert_eq!(share(0) + share(1) + share(2), 12, "{by:?}");
        assert!((1..share(1)).contains(&share(0)), "{by:?}");
        assert!(share(2) > 0, "{by:?}");
        let ended: Vec<_> = ended.into_iter().map(AtomicUsize::into_inner).collect();
        assert_eq!(ended, vec![seeds as usize; 12]);
        assert_eq!(crews.costs().workers, 3);
        for ordinal in 0..3 {
            machine.lock(ordinal, Use::Measure);
        }
    }
}

#[test]
fn a_case_without_jobs_is_dealt_to_nobody() {
    let machine = machine((0..2).map(gpu));
    let mut all = cases(3, 2);
    all[1].clear();
    let answers = machine
        .opened()
        .check(&all, &|number, _| assert_ne!(number, 1));
    let lengths: Vec<_> = answers.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 0, 2]);
    let answers = machine.opened().check(&[], &|_, _| panic!("there is none"));
    assert!(answers.is_empty());
}

#[test]
fn a_gpu_that_breaks_is_the_environment_of_one_case_and_the_others_do_the_rest() {
    for seeds in [1, 3] {
        for bad in [0, 1, 2] {
            let mut machine = machine((0..3).map(gpu));
            for gpu in &mut machine.gpus {
                gpu.before = "sleep 0.05";
            }
            machine.gpus[bad] = broken(bad as u32);
            let cases = cases(12, seeds);
            let mut crews = machine.opened();
            let answers = crews.check(&cases, &|_, _| {});
            let by = done_by(&cases, &answers);
            let faults = by.iter().filter(|by| by.is_none()).count();
            assert_eq!(faults, 1, "{by:?}");
            let case = by.iter().position(Option::is_none).unwrap();
            let Seen::Fault(fault) = &answers[case][0].check else {
                panic!("it was a fault")
            };
            assert!(fault.message.contains("known-good kernel"), "{fault:?}");
            // Times are the first one's, and are not taken on another in its place.
            let time = crews.first().time(time_job());
            let is_environment =
                matches!(time, Seen::Fault(fault) if fault.kind == FaultKind::Environment);
            assert_eq!(is_environment, bad == 0);
        }
    }
}

/// Both GPUs have a case in addition to their current one. The other GPU finds the queue empty, and ends long before
/// the broken one puts its case back.
#[test]
fn a_case_that_is_put_back_when_the_others_have_ended_is_not_lost() {
    let mut machine = machine((0..2).map(gpu));
    machine.gpus[0].before = "sleep 0.2";
    machine.gpus[1] = Gpu {
        before: "sleep 3; kill -SEGV $$",
        ..broken(1)
    };
    let cases = cases(5, 1);
    let mut crews = machine.opened();
    let answers = crews.check(&cases, &|_, _| {});
    let by = done_by(&cases, &answers);
    assert_eq!(by.iter().filter(|by| **by == Some(0)).count(), 4, "{by:?}");
    assert_eq!(by.iter().filter(|by| by.is_none()).count(), 1, "{by:?}");
    // Two that opened, one with the known-good kernel, and one for what was put back.
    assert_eq!(crews.costs().workers, 4);
}

#[test]
fn blames_the_environment_if_all_gpus_break() {
    let machine = machine((0..3).map(broken));
    let cases = cases(8, 2);
    let answers = machine.opened().check(&cases, &|_, _| {});
    assert_eq!(done_by(&cases, &answers), [None; 8]);
}

/// A fault of the environment need not be the GPU's: a file may have been removed, for example.
#[test]
fn one_gpu_goes_on_after_any_failure() {
    let bad = line(
        ORDER,
        failed(FaultKind::Environment, "a file is gone", false),
    );
    let before: &'static str = Box::leak(
        format!("case $seed in 1000) echo '{bad}' | sed \"s/{ORDER}/$n/\"; continue;; esac")
            .into_boxed_str(),
    );
    let machine = machine([Gpu { before, ..gpu(0) }]);
    let cases = cases(4, 1);
    for choice in [DeviceChoice::CudaAll, DeviceChoice::Auto] {
        let mut crews = machine.crews(choice);
        assert!(crews.open().got().is_some());
        let answers = crews.check(&cases, &|_, _| {});
        assert_eq!(done_by(&cases, &answers), [Some(0), None, Some(0), Some(0)]);
        assert_eq!(crews.costs().workers, 1);
    }
}

fn refused(machine: &Machine) -> String {
    let mut crews = machine.crews(DeviceChoice::CudaAll);
    match crews.open() {
        Seen::Fault(fault) => {
            assert_eq!(fault.kind, FaultKind::Environment);
            fault.message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn gpus_that_are_not_alike_are_named() {
    let other = |change: fn(&mut DeviceFacts)| {
        let mut machine = machine((0..3).map(gpu));
        let Frame::Ready(Ready::Device(facts)) = &mut machine.gpus[2].greeting else {
            panic!("it greets")
        };
        change(facts);
        refused(&machine)
    };
    assert_eq!(
        other(|facts| facts.name = "Another GPU".into()),
        "the GPUs of cuda:all differ: \
         cuda:0 is GPU of a test, sm_90, 132 multiprocessors, driver 580.1; \
         cuda:1 is GPU of a test, sm_90, 132 multiprocessors, driver 580.1; \
         cuda:2 is Another GPU, sm_90, 132 multiprocessors, driver 580.1; choose one with --device cuda:N"
    );
    for message in [
        other(|facts| facts.minor = 1),
        other(|facts| facts.driver = "570.2".into()),
        other(|facts| facts.multiprocessors = 114),
    ] {
        assert!(
            message.starts_with("the GPUs of cuda:all differ:"),
            "{message}"
        );
    }
}

#[test]
fn a_gpu_that_does_not_open_is_no_smaller_machine() {
    let mut machine = machine((0..2).map(gpu));
    machine.gpus[1].greeting = Frame::Ready(Ready::Broken("it fell off the bus".into()));
    assert_eq!(
        refused(&machine),
        "cuda:1 of cuda:all cannot be used: it fell off the bus; --device cuda:N takes one that can"
    );
}

#[test]
fn one_device_is_opened_unless_all_are_asked_for() {
    let machine = machine([gpu(0), broken(1)]);
    for choice in [DeviceChoice::Auto, DeviceChoice::Cuda { ordinal: 0 }] {
        let mut crews = machine.crews(choice);
        assert!(crews.open().got().is_some());
        assert_eq!((crews.gpus(), crews.costs().workers), (1, 1));
    }
    let one = self::machine([gpu(0)]);
    let mut crews = one.opened();
    assert!(crews.open().got().is_some(), "asked again");
    assert_eq!((crews.gpus(), crews.costs().workers), (1, 1));
}

#[test]
fn costs_of_gpus_side_by_side_are_part_of_the_wall_time() {
    let mut machine = machine((0..3).map(gpu));
    for gpu in &mut machine.gpus {
        gpu.before = "sleep 0.1";
    }
    let began = Instant::now();
    let mut crews = machine.opened();
    crews.check(&cases(9, 1), &|_, _| {});
    let checked = crews.costs();
    crews.first().time(time_job());
    let timed = crews.costs();
    assert!(timed.device >= checked.device + Duration::from_millis(100));
    crews.retire();
    let costs = crews.costs();
    assert_eq!(costs.workers, 4, "a fresh one for times");
    assert!(checked.device >= Duration::from_millis(300), "{checked:?}");
    assert!(costs.process + costs.device <= began.elapsed(), "{costs:?}");
}

/// Each run holds a share of both GPUs while it checks, and then wants the first one alone.
#[test]
fn two_runs_on_all_gpus_do_not_wait_for_each_other_for_ever() {
    let machine = machine((0..2).map(gpu));
    let (done, is_done) = mpsc::channel();
    for _ in 0..2 {
        let done = done.clone();
        let mut crews = machine.opened();
        std::thread::spawn(move || {
            for _ in 0..3 {
                crews.check(&cases(6, 1), &|_, _| {});
                crews.first().time(time_job());
            }
            crews.retire();
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        is_done.recv_timeout(LONG).unwrap();
    }
    for ordinal in 0..2 {
        machine.lock(ordinal, Use::Measure);
    }
}
