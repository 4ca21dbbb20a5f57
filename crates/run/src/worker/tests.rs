//! Tests the host with children that misbehave: shell scripts instead of workers.

mod base;

use super::crew::Crew;
use super::host::{Lost, Worker};
use super::protocol::{CheckJob, ExpectedOutput, Frame, Job, Ready, TimeJob, WorkerLine};
use crate::device::Failure;
use crate::device::lock::{GpuLock, Use};
use crate::device::nvml::unknown_state;
use build::Artifact;
use model::{
    Case, CaseId, CheckFacts, DeviceFacts, ErrorFacts, Fault, FaultKind, GpuState, Mode, NotRun,
    Num, OtherProcess, Reference, Schedule, Seen, TimeFacts,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(300);
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

pub(super) fn line(id: u64, frame: Frame) -> String {
    let text = serde_json::to_string(&WorkerLine { id, frame }).unwrap();
    assert!(!text.contains('\''), "{text}");
    text
}

pub(super) fn facts() -> DeviceFacts {
    DeviceFacts {
        ordinal: 0,
        name: "GPU of a test".into(),
        uuid: "GPU-0".into(),
        major: 9,
        minor: 0,
        multiprocessors: 132,
        l2_bytes: 50 << 20,
        memory_bytes: 80 << 30,
        driver: "580.1".into(),
        cuda_driver_version: 13000,
        clock_policy: "default".into(),
        max_sm_mhz: None,
    }
}

fn ready() -> String {
    format!("echo '{}'\n", line(0, Frame::Ready(Ready::Device(facts()))))
}

/// Returns a worker that has greeted, and then does `script` with its first order.
fn worker(script: &str) -> Worker {
    let mut worker =
        Worker::spawn(shell(&format!("{}read order\n{script}", ready())), None).unwrap();
    let greeting = worker.greeting(LONG).unwrap();
    assert_eq!(greeting, Frame::Ready(Ready::Device(facts())));
    worker
}

fn run(script: &str, deadline: Duration) -> Result<Frame, Lost> {
    worker(script).run(&Job::KnownGood, deadline, |_| {})
}

fn died(script: &str) -> String {
    match run(script, LONG) {
        Err(Lost::Died(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn say(id: u64, frame: Frame) -> String {
    format!("echo '{}'\n", line(id, frame))
}

#[test]
fn frames_come_in_order_and_one_ends_the_job() {
    let script = say(1, Frame::Step("the first step".into())) + &say(1, Frame::Sane);
    let mut seen = Vec::new();
    let end = worker(&script).run(&Job::KnownGood, LONG, |frame| seen.push(frame));
    assert_eq!(end, Ok(Frame::Sane));
    assert_eq!(seen, [Frame::Step("the first step".into())]);
}

#[test]
fn kills_a_hang_with_its_children_and_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!(
        "{}echo a last word >&2; sleep 1000 & echo $! > {}; wait",
        say(1, Frame::Step("launch 3 of 8".into())),
        pid.display()
    );
    let mut worker = worker(&script);
    let end = worker.run(&Job::KnownGood, Duration::from_secs(3), |_| {});
    let Err(Lost::Hang(message)) = end else {
        panic!("{end:?}")
    };
    assert!(
        message.contains("no answer within 3.0 s, last seen launch 3 of 8")
            && message.contains("a last word"),
        "{message}"
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Err(_) => true,
        Ok(stat) => stat.contains(") Z "),
    };
    let until = Instant::now() + LONG;
    while !gone() {
        assert!(Instant::now() < until, "the grandchild survived");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_worker_that_does_not_read_its_orders_hangs() {
    let mut worker = Worker::spawn(shell(&format!("{}sleep 1000", ready())), None).unwrap();
    worker.greeting(LONG).unwrap();
    // More than a pipe holds.
    let mut job = time_job();
    job.case.id.shape = "s".repeat(1 << 20);
    let end = worker.run(&Job::Time(Box::new(job)), SHORT, |_| {});
    assert!(matches!(end, Err(Lost::Hang(_))), "{end:?}");
}

#[test]
fn an_abort_and_a_segmentation_fault_are_named() {
    let message = died("kill -ABRT $$");
    assert!(message.contains("killed by SIGABRT"), "{message}");
    let message = died("echo it hurts >&2; kill -SEGV $$");
    assert!(
        message.contains("killed by SIGSEGV; stderr: it hurts"),
        "{message}"
    );
}

#[test]
fn an_early_end_is_a_death_even_with_exit_code_zero() {
    assert!(died("exit 0").contains("exit code 0"));
    assert!(died("exit 3").contains("exit code 3"));
    let truncated = format!("printf '%s' '{}'", &line(1, Frame::Sane)[..12]);
    assert!(died(&truncated).contains("exit code 0"));
}

#[test]
fn a_line_that_is_not_a_frame_is_quoted() {
    let message = died("echo hello from a kernel; sleep 1000");
    assert!(
        message.contains("not a frame") && message.contains("\"hello from a kernel\""),
        "{message}"
    );
    let message = died(r"printf '\377\376\n'; sleep 1000");
    assert!(message.contains("not a frame"), "{message}");
}

#[test]
fn an_endless_line_is_not_collected_for_ever() {
    let message = died("head -c 40000000 /dev/zero | tr '\\0' x; sleep 1000");
    assert!(message.contains("a line longer than 16 MiB"), "{message}");
}

#[test]
fn an_answer_to_another_order_is_refused() {
    let message = died(&(say(7, Frame::Sane) + "sleep 1000"));
    assert!(
        message.contains("answered order 7 while at order 1"),
        "{message}"
    );
}

#[test]
fn a_flood_on_standard_error_is_cut_to_its_end() {
    let message = died("head -c 300000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1");
    assert!(message.ends_with("the end"), "{message}");
    assert!(message.len() < 6000, "{}", message.len());
}

#[test]
fn a_worker_that_died_between_orders_is_noticed() {
    let mut worker = worker(&(say(1, Frame::Sane) + "exec 0<&-; exit 9"));
    assert_eq!(worker.run(&Job::KnownGood, LONG, |_| {}), Ok(Frame::Sane));
    let Err(Lost::Died(message)) = worker.run(&Job::KnownGood, LONG, |_| {}) else {
        panic!("it is dead")
    };
    assert!(message.contains("exit code 9"), "{message}");
}

#[test]
fn a_worker_that_never_greets_hangs() {
    let mut worker = Worker::spawn(shell("sleep 1000"), None).unwrap();
    let Err(Lost::Hang(message)) = worker.greeting(SHORT) else {
        panic!("it says nothing")
    };
    assert!(message.contains("last seen starting"), "{message}");
}

// The crew: each worker is the next script of a list; the last one repeats.

struct Scripts {
    dir: tempfile::TempDir,
    crew: Crew<'static>,
    started: PathBuf,
}

fn crew(scripts: &[String]) -> Scripts {
    let dir = tempfile::tempdir().unwrap();
    let started = dir.path().join("started");
    let scripts = scripts.to_vec();
    let count = started.clone();
    let command = move || {
        let number = workers(&count);
        std::fs::write(&count, "x".repeat(number + 1)).unwrap();
        shell(&scripts[number.min(scripts.len() - 1)])
    };
    let crew = Crew::with_command(command, dir.path().into());
    Scripts { dir, crew, started }
}

fn workers(count: &Path) -> usize {
    std::fs::read_to_string(count).map_or(0, |text| text.len())
}

pub(super) fn case() -> Case {
    Case {
        seeds: vec![1],
        reference: Reference::Variant {
            variant: "w".into(),
        },
        launches: 8,
        deadline_ms: 30_000,
        ..Case::empty(CaseId::new("k", "v", "s"))
    }
}

fn check(crew: &mut Crew) -> Seen<CheckFacts> {
    check_case(crew, case())
}

fn check_case(crew: &mut Crew, case: Case) -> Seen<CheckFacts> {
    crew.check(job(case)).check
}

pub(super) fn job(case: Case) -> CheckJob {
    CheckJob {
        case,
        artifact: Artifact::Cubin {
            path: "k.cubin".into(),
            entries: vec![("k".into(), "k".into())],
            ptx: Some("k.ptx".into()),
            constants: vec![],
        },
        seed: 1,
        later_seed: 2,
        expected: ExpectedOutput::Files {
            seen: "seen".into(),
            original: None,
        },
        dump: None,
    }
}

pub(super) fn checked() -> Frame {
    Frame::Checked(Box::new(CheckFacts {
        error: ErrorFacts {
            elements: 1,
            left_out: 0,
            non_finite: 0,
            max_err: Num(0.0),
            mean_err: Num(0.0),
            rel_l2: Num(0.0),
            over_tolerance: None,
            worst: None,
        },
        original: None,
        codec: None,
        launches: 8,
        differs: None,
        unwritten: 0,
        first_unwritten: None,
        clobbered_inputs: Vec::new(),
        overruns: Vec::new(),
        kept: None,
    }))
}

pub(super) fn failed(kind: FaultKind, message: &str, sticky: bool) -> Frame {
    Frame::Failed(Failure::Fault {
        fault: Fault::new(kind, message),
        sticky,
    })
}

#[test]
fn an_announced_job_is_sent_before_the_one_before_it_is_answered() {
    let script = format!(
        "{}read order\nread next\n{}{}read end",
        ready(),
        say(1, checked()),
        say(2, checked())
    );
    let mut scripts = crew(&[script]);
    scripts
        .crew
        .announce(Some(Job::Check(Box::new(job(case())))));
    for _ in 0..2 {
        assert!(check(&mut scripts.crew).got().is_some());
    }
}

#[test]
fn resends_an_announced_job_if_its_worker_broke() {
    let bad = format!("{}read order\nread next\nkill -SEGV $$", ready());
    let mut scripts = crew(&[bad, answers(Frame::Sane, checked())]);
    scripts
        .crew
        .announce(Some(Job::Check(Box::new(job(case())))));
    assert_eq!(fault(check(&mut scripts.crew)).0, FaultKind::WorkerDied);
    assert!(check(&mut scripts.crew).got().is_some());
    assert_eq!(workers(&scripts.started), 2);
}

#[test]
fn the_answer_to_an_announced_job_is_not_taken_for_another() {
    let script = format!("{}read order\n{}read end", ready(), say(1, checked()));
    let mut scripts = crew(&[script]);
    scripts
        .crew
        .announce(Some(Job::Check(Box::new(job(case())))));
    check(&mut scripts.crew);
    let mut other = case();
    other.launches = 2;
    let (kind, message) = fault(check_case(&mut scripts.crew, other));
    assert_eq!(kind, FaultKind::Environment);
    assert!(message.contains("at another job"), "{message}");
}

/// Answers its first order with `first` and the second with `second`.
fn answers(first: Frame, second: Frame) -> String {
    format!(
        "{}read order\n{}read order\n{}read end",
        ready(),
        say(1, first),
        say(2, second)
    )
}

fn fault(seen: Seen<CheckFacts>) -> (FaultKind, String) {
    match seen {
        Seen::Fault(fault) => (fault.kind, fault.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_job_goes_on_in_the_fresh_worker_after_each_kind_of_fault() {
    let sticky = format!(
        "{}read order\necho 'k.cu:3: Assertion failed' >&2\n{}",
        ready(),
        say(
            1,
            failed(FaultKind::DeviceFault, "CUDA_ERROR_ILLEGAL_ADDRESS", true)
        )
    );
    for (bad, kind, part) in [
        (sticky, FaultKind::DeviceFault, "ILLEGAL_ADDRESS"),
        (
            format!("{}read order\nsleep 1000", ready()),
            FaultKind::Hang,
            "no answer within 1.0 s",
        ),
        (
            format!("{}read order\nkill -SEGV $$", ready()),
            FaultKind::WorkerDied,
            "SIGSEGV",
        ),
        (
            format!("{}read order\necho nonsense; sleep 1000", ready()),
            FaultKind::WorkerDied,
            "nonsense",
        ),
    ] {
        let mut scripts = crew(&[bad, answers(Frame::Sane, checked())]);
        let mut first = case();
        if kind == FaultKind::Hang {
            first.deadline_ms = 1_000;
        }
        let (seen, message) = fault(check_case(&mut scripts.crew, first));
        assert_eq!(seen, kind, "{message}");
        assert!(message.contains(part), "{message}");
        let asserted = message.contains("stderr: k.cu:3: Assertion failed");
        assert_eq!(asserted, kind == FaultKind::DeviceFault, "{message}");
        assert!(check(&mut scripts.crew).got().is_some());
        assert_eq!(workers(&scripts.started), 2);
        assert_eq!(scripts.crew.costs().workers, 2);
    }
}

#[test]
fn device_time_is_as_reported_or_all_of_a_broken_job() {
    let spent = |device_us| say(1, Frame::Spent { device_us });
    let script = format!("{}read order\n", ready()) + &spent(1) + &say(1, checked()) + "read end";
    let mut scripts = crew(&[script]);
    assert!(check(&mut scripts.crew).got().is_some());
    assert_eq!(scripts.crew.costs().device, Duration::from_micros(1));
    let started = scripts.crew.costs().process;
    assert!(started > Duration::ZERO);
    scripts.crew.retire();
    assert!(scripts.crew.costs().process > started, "its end counts too");

    let liar =
        format!("{}read order\n", ready()) + &spent(u64::MAX) + &say(1, checked()) + "read end";
    let mut scripts = crew(&[liar]);
    check(&mut scripts.crew);
    assert!(scripts.crew.costs().device < LONG, "no longer than the job");

    let hang = format!("{}read order\nsleep 1000", ready());
    let mut scripts = crew(&[hang, answers(Frame::Sane, checked())]);
    let mut short = case();
    short.deadline_ms = 300;
    fault(check_case(&mut scripts.crew, short));
    assert!(scripts.crew.costs().device >= SHORT);
}

#[test]
fn blames_the_environment_if_a_known_good_kernel_fails_too() {
    for second in [
        answers(
            failed(FaultKind::Environment, "wrong values", false),
            Frame::Sane,
        ),
        format!("{}read order\nkill -ABRT $$", ready()),
        say(0, Frame::Ready(Ready::Broken("cuInit failed".into()))),
        say(
            0,
            Frame::Ready(Ready::Absent("the GPU fell off the bus".into())),
        ),
    ] {
        let bad = format!("{}read order\nkill -SEGV $$", ready());
        let mut scripts = crew(&[bad, second]);
        let (kind, message) = fault(check(&mut scripts.crew));
        assert_eq!(kind, FaultKind::Environment, "{message}");
        assert!(
            message.contains("SIGSEGV"),
            "the first fault is kept: {message}"
        );
        // Nothing more is tried, and nothing passes.
        let (kind, message) = fault(check(&mut scripts.crew));
        assert_eq!(kind, FaultKind::Environment);
        assert!(
            message.contains("not run, the device had failed"),
            "{message}"
        );
        assert_eq!(workers(&scripts.started), 2);
    }
}

#[test]
fn a_refused_launch_keeps_its_worker() {
    let refused = failed(FaultKind::LaunchRefused, "too much shared memory", false);
    let mut scripts = crew(&[answers(refused, checked())]);
    assert_eq!(fault(check(&mut scripts.crew)).0, FaultKind::LaunchRefused);
    assert!(check(&mut scripts.crew).got().is_some());
    assert_eq!(workers(&scripts.started), 1);
}

#[test]
fn the_wrong_kind_of_answer_is_no_pass() {
    let mut scripts = crew(&[answers(Frame::Sane, Frame::Sane)]);
    let (kind, message) = fault(check(&mut scripts.crew));
    assert_eq!(kind, FaultKind::WorkerDied, "{message}");
}

#[test]
fn no_device_is_not_run_and_a_broken_one_is_the_environment() {
    let mut scripts = crew(&[say(
        0,
        Frame::Ready(Ready::Absent("no NVIDIA device".into())),
    )]);
    assert!(
        matches!(scripts.crew.device(), Seen::NotRun(NotRun::NoDevice { problem }) if problem == "no NVIDIA device")
    );
    assert!(matches!(scripts.crew.device(), Seen::NotRun { .. }));
    assert_eq!(workers(&scripts.started), 1, "asked once");

    let mut scripts = crew(&[say(0, Frame::Ready(Ready::Broken("cuInit failed".into())))]);
    assert!(matches!(
        scripts.crew.device(),
        Seen::Fault(Fault {
            kind: FaultKind::Environment,
            ..
        })
    ));

    let mut crew = Crew::with_command(|| Command::new("/no/such/program"), "/tmp".into());
    assert!(matches!(
        crew.device(),
        Seen::Fault(Fault {
            kind: FaultKind::Environment,
            ..
        })
    ));
}

#[test]
fn a_retired_worker_is_followed_by_a_fresh_one() {
    let mut scripts = crew(&[answers(checked(), checked())]);
    for expected in 1..=3 {
        assert!(check(&mut scripts.crew).got().is_some());
        assert_eq!(workers(&scripts.started), expected);
        scripts.crew.retire();
    }
}

#[test]
fn workers_ahead_are_started_together_and_each_is_used_once() {
    let mut scripts = crew(&[answers(checked(), checked())]);
    scripts.crew.renew(3);
    assert_eq!(workers(&scripts.started), 3);
    for ahead in [3, 2, 1] {
        assert!(check(&mut scripts.crew).got().is_some());
        assert_eq!(workers(&scripts.started), 3);
        // Workers that stand by are used up before others start.
        scripts.crew.renew(ahead);
    }
    assert_eq!(
        workers(&scripts.started),
        3,
        "one is started when it is needed"
    );
    assert!(check(&mut scripts.crew).got().is_some());
    assert_eq!(workers(&scripts.started), 4);
    scripts.crew.renew(100);
    assert_eq!(
        workers(&scripts.started),
        8,
        "no more at once than a GPU holds"
    );
    scripts.crew.retire();
    assert!(check(&mut scripts.crew).got().is_some());
    assert_eq!(workers(&scripts.started), 9, "a retired crew has none");
    assert_eq!(scripts.crew.costs().workers, 9);
}

#[test]
fn a_gpu_that_takes_one_process_alone_gets_one_after_another() {
    let busy = say(0, Frame::Ready(Ready::Broken("the device is busy".into())));
    let fine = answers(checked(), checked());
    let mut scripts = crew(&[fine.clone(), busy.clone(), busy, fine]);
    scripts.crew.renew(3);
    for _ in 0..2 {
        assert!(check(&mut scripts.crew).got().is_some());
        scripts.crew.renew(1);
    }
    assert_eq!(workers(&scripts.started), 4);
}

#[test]
fn workers_started_early_are_the_first_that_measure() {
    let mut scripts = crew(&[answers(checked(), checked())]);
    scripts.crew.start_ahead(3);
    assert_eq!(workers(&scripts.started), 0, "no device is open");
    assert!(scripts.crew.device().got().is_some());
    scripts.crew.start_ahead(3);
    assert!(check(&mut scripts.crew).got().is_some());
    for ahead in [3, 2, 1] {
        scripts.crew.renew(ahead);
        assert_eq!(workers(&scripts.started), 4);
        assert!(check(&mut scripts.crew).got().is_some());
    }
    assert_eq!(workers(&scripts.started), 4);
    assert_eq!(scripts.crew.costs().workers, 4);
}

#[test]
fn no_worker_starts_early_while_another_gatekeeper_measures() {
    let mut scripts = crew(&[answers(checked(), checked())]);
    let uuid = scripts.crew.device().got().unwrap().uuid.clone();
    let lock = GpuLock::acquire(scripts.dir.path(), &uuid, Use::Measure, |_| {}).unwrap();
    scripts.crew.start_ahead(3);
    assert_eq!(workers(&scripts.started), 1);
    drop(lock);
    scripts.crew.start_ahead(3);
    scripts.crew.renew(3);
    assert_eq!(workers(&scripts.started), 4);
}

pub(super) fn time_job() -> TimeJob {
    TimeJob {
        case: case(),
        artifact: Artifact::Cubin {
            path: "k.cubin".into(),
            entries: vec![("k".into(), "k".into())],
            ptx: Some("k.ptx".into()),
            constants: vec![],
        },
        seed: 1,
        schedule: Schedule {
            mode: Mode::Warm,
            warmup: 1,
            iterations: 1,
            singles: 1,
            batch_ns: 1,
            processes: 1,
            max_processes: 1,
        },
    }
}

/// Returns the list of a GPU's processes during a timing, as it is after workers that are idle were left out. Three
/// workers have the GPU open.
fn seen_beside_idle_workers(listed: Vec<OtherProcess>) -> Vec<OtherProcess> {
    let dir = tempfile::tempdir().unwrap();
    let ids = dir.path().join("ids").display().to_string();
    let timed = Frame::Timed(Box::new(TimeFacts {
        mode: Mode::Warm,
        launches_per_sample: 1,
        batched_ns: vec![1],
        single_ns: vec![1],
        tick_ns: 1,
        empty_graph_ns: 1,
        gpu: GpuState {
            other_processes: Some(listed),
            ..unknown_state()
        },
    }));
    // 1000001 to 1000003 stand for the workers' ids.
    let script = format!(
        "echo $$ >> {ids}\n{}read order\n\
         echo '{}' | sed \"s/1000001/$(sed -n 1p {ids})/; s/1000002/$(sed -n 2p {ids})/; s/1000003/$(sed -n 3p {ids})/\"\n\
         read end",
        ready(),
        line(1, timed)
    );
    let mut scripts = crew(&[script]);
    scripts.crew.renew(3);
    let facts = scripts.crew.time(time_job());
    facts.got().unwrap().gpu.other_processes.clone().unwrap()
}

#[test]
fn idle_workers_are_no_others_that_compute() {
    let process = |pid| OtherProcess {
        pid,
        name: pid.map(|_| "gatekeeper".to_owned()),
    };
    let other = process(Some(7));
    let mut listed: Vec<_> = (1_000_001..=1_000_003)
        .map(|id| process(Some(id)))
        .collect();
    listed.push(other.clone());
    let left = seen_beside_idle_workers(listed);
    // The one that measures leaves itself out, which this script does not.
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&other), "{left:?}");
    // In a container, the listed processes have no id. The process has left itself out, and two idle ones cannot be
    // told from another one.
    let left = seen_beside_idle_workers(vec![process(None); 3]);
    assert_eq!(left, [process(None)]);
}

#[test]
fn times_are_taken_alone_on_a_gpu_and_checks_are_not() {
    let mut scripts = crew(&[answers(checked(), Frame::Sane)]);
    let locks = scripts.dir.path().to_owned();
    let lock = |wanted| GpuLock::acquire(&locks, "GPU-0", wanted, |_| {}).unwrap();
    let other = lock(Use::Check);
    assert!(
        check(&mut scripts.crew).got().is_some(),
        "beside another check"
    );

    let (said, says) = mpsc::channel();
    let mut crew = scripts
        .crew
        .on_waiting(move |text| said.send(text.to_owned()).unwrap());
    let timing = std::thread::spawn(move || {
        crew.time(time_job());
        crew.retire();
    });
    let text = says.recv_timeout(LONG).unwrap();
    assert!(text.contains("waiting for GPU GPU-0"), "{text}");
    assert!(!timing.is_finished());
    drop(other);
    timing.join().unwrap();
    lock(Use::Measure);
}
