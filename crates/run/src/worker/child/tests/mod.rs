//! Tests the sequence of a check on a device of closures, with each thing that a kernel can do wrong.

mod fake;

use super::check::check;
use super::job_cache::JobCache;
use super::orders::Orders;
use super::pair::pair;
use super::stage::StagedCase;
use super::time::time;
use crate::device::{Device, Failure, Result};
use crate::worker::protocol::{
    Arm, CheckJob, ExpectedOutput, Frame, Job, PairJob, TimeJob, WorkerJob,
};
use build::{Artifact, FilledConstant};
use check::cache::{self, References};
use check::reference::user::HiddenFrom;
use fake::{Fake, VARIABLES};
use model::{
    Arg, Binary, Case, CaseId, CheckFacts, Codec, CodecScheme, ElemType, Fault, FaultKind, Fill,
    Location, Mode, Num, Reference, Role, Schedule, Seen, Singles, SpecialShares, Step, Tensor,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use system::cache::Cache;

const N: usize = 6;

fn tensor(name: &str, role: Role) -> Tensor {
    Tensor {
        fill: (role != Role::Out).then_some(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
            special: SpecialShares::new(),
        }),
        ..Tensor::new(name, role, ElemType::F32, vec![N])
    }
}

pub fn case(variant: &str) -> Case {
    Case {
        tensors: vec![tensor("x", Role::In), tensor("y", Role::Out)],
        steps: vec![Step::new(
            vec![
                Arg::Tensor { name: "x".into() },
                Arg::Tensor { name: "y".into() },
            ],
            None,
        )],
        seeds: vec![1],
        reference: Reference::Variant {
            variant: "double".into(),
        },
        tolerance: Some(Num(1e-6)),
        launches: 8,
        deadline_ms: 1000,
        timed: true,
        ..Case::empty(CaseId::new("k", variant, "s"))
    }
}

fn artifact(symbol: &str) -> Artifact {
    Artifact::Cubin {
        path: "k.cubin".into(),
        entries: vec![(symbol.into(), symbol.into())],
        ptx: Some("k.ptx".into()),
        constants: vec![],
    }
}

fn job(symbol: &str, case: Case, reference: &str) -> CheckJob {
    CheckJob {
        artifact: artifact(symbol),
        seed: 1,
        later_seed: 2,
        expected: ExpectedOutput::Variant {
            case: Box::new(Case {
                id: CaseId {
                    variant: reference.into(),
                    ..case.id.clone()
                },
                ..case.clone()
            }),
            artifact: artifact(reference),
        },
        case,
        dump: None,
    }
}

fn run(job: &CheckJob) -> (Result<CheckFacts>, Vec<Frame>) {
    let mut frames = Vec::new();
    let facts = check(
        &mut Fake::new(),
        &mut JobCache::new(None, Arc::default()),
        job,
        &mut |frame| frames.push(frame),
    );
    (facts, frames)
}

fn facts(symbol: &str) -> CheckFacts {
    run(&job(symbol, case(symbol), "double")).0.unwrap()
}

fn at(index: usize) -> Location {
    Location {
        tensor: "y".into(),
        index: vec![index],
    }
}

#[test]
fn a_right_kernel_shows_nothing() {
    let facts = facts("double");
    assert_eq!(facts.error.max_err, Num(0.0));
    assert_eq!(facts.error.non_finite, 0);
    assert_eq!(facts.launches, 8);
    assert_eq!(facts.differs, None);
    assert_eq!(facts.unwritten, 0);
    assert!(facts.clobbered_inputs.is_empty() && facts.overruns.is_empty());
    assert!(facts.original.is_none() && facts.codec.is_none());
}

#[test]
fn a_wrong_result_has_its_place() {
    let facts = facts("wrong");
    assert!(facts.error.max_err.0 > 900.0);
    assert_eq!(facts.error.worst.map(|worst| worst.at), Some(at(3)));
}

#[test]
fn an_element_that_is_not_written_is_counted() {
    let facts = facts("forgets");
    assert_eq!((facts.unwritten, facts.first_unwritten), (1, Some(at(2))));
    assert_eq!(facts.error.non_finite, 1);
}

#[test]
fn finds_unwritten_elements_only_with_two_launches() {
    let mut once = case("forgets");
    once.launches = 1;
    let facts = run(&job("forgets", once, "double")).0.unwrap();
    assert_eq!((facts.unwritten, facts.launches), (1, 2));
}

#[test]
fn writes_past_either_end_are_seen_though_nothing_faults() {
    assert_eq!(facts("overruns").overruns, ["y: 0 bytes past its end"]);
    assert_eq!(facts("underruns").overruns, ["y: 5 bytes before its start"]);
}

#[test]
fn a_changed_input_is_named() {
    assert_eq!(facts("clobbers").clobbered_inputs, ["x"]);
}

/// After an even number of launches, the input is as it was before.
#[test]
fn an_input_that_every_launch_negates_is_named() {
    assert!(case("negates").launches.is_multiple_of(2));
    assert_eq!(facts("negates").clobbered_inputs, ["x"]);
}

#[test]
fn changed_scales_are_named() {
    let mut quantised = case("clobbers_scales");
    quantised.tensors[0].elem = ElemType::E4m3;
    quantised.tensors[0].codec = Some(Codec {
        scheme: CodecScheme::Symmetric {
            levels: Num(448.0),
            zero_point: 0,
            scale_divisor: Num(448.0),
        },
        block: vec![N],
    });
    quantised.steps[0]
        .args
        .push(Arg::Scales { tensor: "x".into() });
    // Reads of four-byte elements run into the guard here, which is readable.
    let facts = run(&job("clobbers_scales", quantised, "clobbers_scales")).0;
    assert_eq!(facts.unwrap().clobbered_inputs, ["x (scales)"]);
}

#[test]
fn a_race_is_found_and_its_error_is_the_one_reported() {
    // The reference is the first launch of the device, so the fifth is the fourth of the case.
    let facts = facts("races");
    let difference = facts.differs.unwrap();
    assert_eq!(
        (difference.launch, difference.at, difference.elements),
        (4, at(4), 1)
    );
    assert_eq!(
        facts.error.non_finite, 1,
        "the first launch alone was right"
    );
}

#[test]
fn in_out_tensors_are_restored_before_each_launch() {
    let mut in_place = case("in_place");
    in_place.tensors[1] = tensor("y", Role::Inout);
    let facts = run(&job("in_place", in_place, "in_place")).0.unwrap();
    assert_eq!(facts.differs, None);
    assert_eq!(facts.error.max_err, Num(0.0));
}

#[test]
fn scratch_with_a_fill_is_restored_before_each_launch_and_other_scratch_is_poisoned() {
    let with = |fill| {
        let mut case = case("accumulates");
        let work = Tensor {
            fill,
            ..tensor("work", Role::Scratch)
        };
        case.tensors.push(work);
        let name = "work".to_owned();
        case.steps[0].args.push(Arg::Tensor { name });
        run(&job("accumulates", case, "double")).0.unwrap()
    };
    let zeros = with(Some(Fill::Constant { value: Num(0.0) }));
    assert_eq!((zeros.error.max_err, zeros.error.non_finite), (Num(0.0), 0));
    assert_eq!((zeros.launches, zeros.differs), (8, None));
    let poisoned = with(None);
    assert_eq!(poisoned.error.non_finite, N as u64);
}

#[test]
fn gaps_between_strides_are_guarded_too() {
    let mut strided = case("double");
    strided.tensors[1].dims = vec![N / 2];
    strided.tensors[1].strides = Some(vec![2]);
    strided.reference = Reference::Variant {
        variant: "double".into(),
    };
    let facts = run(&job("double", strided, "double")).0.unwrap();
    // `double` writes N elements in a row: two of them lie in gaps, one past the end.
    assert!(
        facts
            .overruns
            .iter()
            .any(|text| text == "y: 2 elements between its strides"),
        "{:?}",
        facts.overruns
    );
    assert_eq!(facts.overruns.len(), 2);
}

#[test]
fn expected_outputs_come_from_files_and_damaged_ones_are_no_pass() {
    let dir = tempfile::tempdir().unwrap();
    let references = references(dir.path());
    let sum = sum();
    let file = |seed| match references.answer(&sum, seed) {
        Seen::Got(cache::Answer::Files { seen, .. }) => seen,
        other => panic!("{other:?}"),
    };
    let mut job = job("double", sum.clone(), "double");
    // The outputs of another seed stand in for the reference before quantisation.
    job.expected = ExpectedOutput::Files {
        seen: file(1),
        original: Some(file(2)),
    };
    let facts = run(&job).0.unwrap();
    assert_eq!(facts.error.max_err, Num(0.0));
    let original = facts.original.unwrap();
    assert!(original.max_err.0 > 0.1);
    assert_eq!(
        facts.codec.unwrap(),
        original,
        "the kernel adds nothing to it"
    );

    std::fs::write(file(1), "damaged").unwrap();
    let Err(Failure::Fault { fault, .. }) = run(&job).0 else {
        panic!("it cannot be read")
    };
    assert_eq!(fault.kind, FaultKind::Reference);
}

fn references(dir: &std::path::Path) -> References {
    let cache = Cache::at(dir).unwrap();
    References::open(dir, &cache, None, HiddenFrom::default()).unwrap()
}

/// Returns a case that adds its input to itself.
fn sum() -> Case {
    let mut sum = case("double");
    sum.reference = Reference::Binary {
        a: "x".into(),
        b: "x".into(),
        out: "y".into(),
        op: Binary::Add,
    };
    sum
}

/// Returns a check whose expected outputs are in a file, and that file.
fn check_from_file(references: &References, seed: u64) -> (CheckJob, PathBuf) {
    let sum = sum();
    let Seen::Got(cache::Answer::Files { seen, .. }) = references.answer(&sum, seed) else {
        panic!("it can be computed")
    };
    let mut job = job("double", sum, "double");
    job.seed = seed;
    job.expected = ExpectedOutput::Files {
        seen: seen.clone(),
        original: None,
    };
    (job, seen)
}

#[test]
fn keeps_the_inputs_of_a_job_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let references = references(dir.path());
    let (job, file) = check_from_file(&references, 1);
    let mut cache = JobCache::new(None, Arc::default());
    let mut run = || {
        let mut fake = Fake::new();
        cache.begin_job();
        let facts = check(&mut fake, &mut cache, &job, &mut |_| {})?;
        assert!(cache.on_device() > Duration::ZERO);
        Ok(facts)
    };
    let first: Result<CheckFacts> = run();
    std::fs::remove_file(file).unwrap();
    assert_eq!(run().unwrap(), first.unwrap());
}

#[test]
fn a_job_uses_files_read_ahead_and_reports_an_unreadable_one() {
    let dir = tempfile::tempdir().unwrap();
    let references = references(dir.path());
    let ((first, _), (second, file)) = (
        check_from_file(&references, 1),
        check_from_file(&references, 2),
    );
    let before_the_second = || {
        let orders = Arc::new(Orders::default());
        orders.put(WorkerJob {
            id: 2,
            job: Job::Check(Box::new(second.clone())),
        });
        let mut cache = JobCache::new(None, orders);
        check(&mut Fake::new(), &mut cache, &first, &mut |_| {}).unwrap();
        cache.wait_for_reader();
        cache
    };
    let mut read = before_the_second();
    std::fs::remove_file(file).unwrap();
    let facts = check(&mut Fake::new(), &mut read, &second, &mut |_| {}).unwrap();
    assert_eq!(facts.error.max_err, Num(0.0));

    let mut not_there = before_the_second();
    let facts = check(&mut Fake::new(), &mut not_there, &second, &mut |_| {});
    let Err(Failure::Fault { fault, .. }) = facts else {
        panic!("it cannot be read")
    };
    assert_eq!(fault.kind, FaultKind::Reference);
}

#[test]
fn a_fault_keeps_earlier_answers_of_the_driver() {
    let (facts, frames) = run(&job("faults", case("faults"), "double"));
    assert!(matches!(
        facts,
        Err(Failure::Fault {
            fault: Fault {
                kind: FaultKind::DeviceFault,
                ..
            },
            sticky: true
        })
    ));
    assert!(
        frames
            .iter()
            .any(|frame| matches!(frame, Frame::Driver(Seen::Got(_))))
    );
    assert_eq!(
        frames.last(),
        Some(&Frame::Step("launch 1 of 8".into())),
        "where it was is known"
    );
}

#[test]
fn a_fault_of_the_reference_is_not_the_kernels() {
    let (facts, _) = run(&job("double", case("double"), "faults"));
    let Err(Failure::Fault { fault, sticky }) = facts else {
        panic!("{facts:?}")
    };
    assert_eq!(fault.kind, FaultKind::Reference);
    assert!(
        sticky && fault.message.contains("variant faults, the reference"),
        "{}",
        fault.message
    );
}

#[test]
fn a_missing_entry_is_named() {
    let (facts, _) = run(&job("nowhere", case("nowhere"), "double"));
    assert!(matches!(
        facts,
        Err(Failure::Fault {
            fault: Fault {
                kind: FaultKind::EntryNotFound,
                ..
            },
            sticky: false
        })
    ));
}

#[test]
fn a_dump_has_inputs_outputs_and_reference() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = job("double", case("double"), "double");
    job.dump = Some(dir.path().join("deep/er"));
    run(&job).0.unwrap();
    job.seed += 1;
    run(&job).0.unwrap();
    for seed in [job.seed - 1, job.seed] {
        let below = format!("deep/er/{}/seed-{seed}", job.case.id);
        for name in ["x.npy", "y.want.npy", "y.got.npy"] {
            assert!(dir.path().join(&below).join(name).exists(), "{name}");
        }
    }
}

#[test]
fn without_a_clock_there_are_no_times() {
    let job = TimeJob {
        case: case("double"),
        artifact: artifact("double"),
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
    };
    let times = time(
        &mut Fake::new(),
        &mut JobCache::new(None, Arc::default()),
        &job,
        &mut |_| {},
    );
    assert!(matches!(times, Err(Failure::Unsupported { .. })));
}

/// The host blames the base for a worker that ends during one of its steps, so these steps must begin and end with what
/// the base does alone.
#[test]
fn the_base_is_named_while_it_is_loaded_and_no_longer() {
    let arm = |name: &str| Arm {
        case: case(name),
        artifact: artifact(name),
    };
    let mut orders = std::collections::BTreeSet::new();
    for process in 0..16 {
        let job = PairJob {
            head: arm("double"),
            base: arm("double"),
            seed: 1,
            process,
            schedule: config::default_timing(),
            pairing: config::pairing(false),
            singles: Singles::Judged,
        };
        let mut fake = Fake::new();
        let mut frames = Vec::new();
        let end = pair(
            &mut fake,
            &mut JobCache::new(None, Arc::default()),
            &job,
            &mut |frame| frames.push(frame),
        );
        assert!(matches!(end, Err(Failure::Unsupported { .. })));
        let at = |wanted: Frame| frames.iter().position(|frame| *frame == wanted).unwrap();
        let base = at(Frame::BaseStep("loading the base revision".into()));
        let head = at(Frame::Step("loading".into()));
        assert!(matches!(frames[base + 1], Frame::Step(_)), "{frames:?}");
        assert!(matches!(frames.last(), Some(Frame::Step(_))), "{frames:?}");
        orders.insert(base < head);
    }
    assert_eq!(orders.len(), 2, "either may be loaded first");
}

/// Builds modules with a variable each, which a tensor called like the symbol fills.
fn group(modules: &[&str], steps: &[usize]) -> Artifact {
    let modules = modules.iter().map(|symbol| Artifact::Cubin {
        path: format!("{symbol}.cubin").into(),
        entries: vec![(symbol.to_string(), symbol.to_string())],
        ptx: None,
        constants: vec![FilledConstant {
            name: "factor".into(),
            symbol: "factor".into(),
            tensor: symbol.to_string(),
        }],
    });
    Artifact::Together {
        modules: modules.collect(),
        steps: steps.to_vec(),
    }
}

/// Returns a tensor at an address, with one value before a launch. The values after the launch are not compared.
fn memory(name: &str, value: f64, address: u64) -> Tensor {
    Tensor {
        fill: Some(Fill::Constant { value: Num(value) }),
        address: Some(address),
        ..tensor(name, Role::Scratch)
    }
}

/// Returns a variable of a module.
fn variable(symbol: &str, value: f64) -> Tensor {
    Tensor {
        fill: Some(Fill::Constant { value: Num(value) }),
        ..Tensor::new(symbol, Role::In, ElemType::F32, vec![1])
    }
}

fn floats(fake: &mut Fake, at: u64, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    fake.read(at, &mut bytes).unwrap();
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn kernels_of_several_modules_are_launched_in_their_order() {
    let mut case = case("together");
    case.tensors = vec![
        memory("x", 3.0, 0x9000),
        memory("y", 0.0, 0xa000),
        variable("double", 5.0),
        variable("in_place", 7.0),
    ];
    case.reference = Reference::NoOutput;
    case.steps = vec![case.steps[0].clone(); 3];
    let artifact = group(&["double", "in_place"], &[0, 1, 1]);
    let mut fake = Fake::new();
    let mut cache = JobCache::new(None, Arc::default());
    let stage = StagedCase::set(&mut fake, &mut cache, &case, &artifact, 1).unwrap();
    assert_eq!(floats(&mut fake, VARIABLES, 1), [5.0]);
    assert_eq!(floats(&mut fake, VARIABLES + 0x1000, 1), [7.0]);
    fake.launch(&stage.call).unwrap();
    assert_eq!(floats(&mut fake, 0xa000, N), [24.0; N]);

    // The case has no output to be compared, and what it leaves is not an overrun.
    let mut job = job("double", case, "double");
    job.artifact = artifact;
    job.expected = ExpectedOutput::Variant {
        case: Box::new(self::case("double")),
        artifact: self::artifact("double"),
    };
    let facts = run(&job).0.unwrap();
    assert!(facts.clobbered_inputs.is_empty() && facts.overruns.is_empty());
}

#[test]
fn each_side_of_a_group_finds_its_own_memory() {
    let case = |value: f64| {
        let mut case = case("together");
        case.tensors = vec![
            memory("x", value, 0x9000),
            memory("y", 0.0, 0xa000),
            variable("double", value),
        ];
        case.reference = Reference::NoOutput;
        case
    };
    let (head, base) = (case(3.0), case(8.0));
    let artifact = group(&["double"], &[0]);
    let mut fake = Fake::new();
    let mut cache = JobCache::new(None, Arc::default());
    let mut stage =
        |fake: &mut Fake, case| StagedCase::set(fake, &mut cache, case, &artifact, 1).unwrap();
    let (head, base) = (stage(&mut fake, &head), stage(&mut fake, &base));
    assert_eq!(floats(&mut fake, 0x9000, N), [8.0; N]);
    for (stage, value) in [(&head, 3.0), (&base, 8.0), (&head, 3.0)] {
        stage.prepare(&mut fake, 1).unwrap();
        assert_eq!(floats(&mut fake, 0x9000, N), [value; N]);
        fake.launch(&stage.call).unwrap();
        assert_eq!(floats(&mut fake, 0xa000, N), [2.0 * value; N]);
    }
    // All of its memory comes back before each sample.
    for (stage, value) in [(&head, 3.0), (&base, 8.0)] {
        let restores = stage.restores(&mut fake).unwrap();
        let from = restores
            .copies
            .iter()
            .find(|copy| copy.to == 0x9000)
            .unwrap();
        assert_eq!(floats(&mut fake, from.from, N), [value; N]);
        assert!(restores.copies.iter().any(|copy| copy.to == 0xa000));
    }
}
