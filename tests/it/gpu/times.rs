//! Tests times with loose bounds, because these are tests of the measuring and not of a GPU. The times are printed for
//! a reader.

use super::bench::*;
use build::Artifact;
use model::{
    Case, Fault, FaultKind, Mode, Num, Role, ScalarType, ScalarValue, Schedule, Seen, Singles,
    TimeFacts,
};
use run::worker::{Arm, Crew, PairJob, TimeJob};

pub fn schedule(mode: Mode) -> Schedule {
    Schedule {
        mode,
        warmup: 10,
        iterations: 30,
        singles: 200,
        batch_ns: 1_000_000,
        processes: 1,
        max_processes: 1,
    }
}

pub fn time(crew: &mut Crew, case: Case, artifact: Artifact, mode: Mode) -> TimeFacts {
    let facts = match crew.time(TimeJob {
        case: case.clone(),
        artifact,
        seed: 1,
        schedule: schedule(mode),
    }) {
        Seen::Got(facts) => facts,
        other => panic!("{}: {other:?}", case.id),
    };
    let sorted = |samples: &[u64], per: u32| {
        let mut samples: Vec<f64> = samples
            .iter()
            .map(|&ns| ns as f64 / f64::from(per))
            .collect();
        samples.sort_by(f64::total_cmp);
        samples
    };
    let batched = sorted(&facts.batched_ns, facts.launches_per_sample);
    let single = sorted(&facts.single_ns, 1);
    let cv = |samples: &[f64]| {
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance =
            samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        100.0 * variance.sqrt() / mean
    };
    println!(
        "{:8} {mode:?}: batched x{} p50 {:.1} cv {:.2}% | single min {} p50 {} p90 {} p99 {} max {} cv {:.2}% | \
         tick {} empty graph {} | {:?}",
        case.id.variant,
        facts.launches_per_sample,
        batched[batched.len() / 2],
        cv(&batched),
        single[0],
        single[single.len() / 2],
        single[single.len() * 9 / 10],
        single[single.len() * 99 / 100],
        single[single.len() - 1],
        cv(&single),
        facts.tick_ns,
        facts.empty_graph_ns,
        facts.gpu,
    );
    println!(
        "    batched {:?}\n    single {:?}",
        facts.batched_ns, facts.single_ns
    );
    facts
}

pub fn dial(rounds: i64) -> Case {
    let mut case = case("dial");
    // An H100 holds these blocks at once. With one block for each SM, their placement shows as two speeds.
    case.steps[0].launch.as_mut().unwrap().grid = [132 * 8, 1, 1];
    case.steps[0].args.extend([
        int(rounds),
        scalar(ScalarType::F32, ScalarValue::Float(Num(1.0))),
        scalar(ScalarType::F32, ScalarValue::Float(Num(0.0))),
    ]);
    case
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn times_of_an_empty_kernel_and_of_a_long_one() {
    let mut empty = case("empty");
    empty.steps[0].args.clear();
    for mode in [Mode::Warm, Mode::Cold] {
        for process in 1..=3 {
            println!("process {process}");
            let mut crew = crew();
            let short = time(&mut crew, empty.clone(), entry("empty"), mode);
            let long = time(&mut crew, dial(4_000), entry("dial"), mode);
            for facts in [&short, &long] {
                assert_eq!((facts.batched_ns.len(), facts.single_ns.len()), (30, 200));
                assert_eq!(facts.launches_per_sample == 1, mode == Mode::Cold);
                assert!((1..=2000).contains(&facts.tick_ns));
                for clock in [facts.gpu.sm_mhz_before, facts.gpu.sm_mhz_after] {
                    assert!(clock.is_some_and(|clock| (100.0..5000.0).contains(&clock.0)));
                }
                assert!(facts.gpu.temperature_c.is_some());
            }
            let each = long.batched_ns[0] / u64::from(long.launches_per_sample);
            assert!((20_000..200_000).contains(&each), "{each} ns");
        }
    }
    // Twice the work takes twice the time, minus the cost of a launch.
    let mut crew = crew();
    let [one, two] = [4_000, 8_000].map(|rounds| {
        let facts = time(&mut crew, dial(rounds), entry("dial"), Mode::Warm);
        facts.batched_ns[15] as f64 / f64::from(facts.launches_per_sample)
    });
    assert!((1.8..2.05).contains(&(two / one)), "{one} {two}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn times_of_copies_in_cache_and_in_memory() {
    for process in 1..=3 {
        println!("process {process}");
        let mut crew = crew();
        let [cached, memory] = [1 << 20, 12 << 20].map(|n: usize| {
            let mut copies = case("copies");
            copies
                .tensors
                .iter_mut()
                .for_each(|tensor| tensor.dims = vec![n]);
            copies.steps[0].args[2] = int(n as i64);
            let launch = copies.steps[0].launch.as_mut().unwrap();
            launch.grid = [132 * 8, 1, 1];
            let facts = time(&mut crew, copies, entry("copies"), Mode::Warm);
            let ns = facts.batched_ns[15] as f64 / f64::from(facts.launches_per_sample);
            let rate = 8.0 * n as f64 / ns;
            println!("    {rate:.0} GB/s; {:?}", crew.costs());
            rate
        });
        assert!(cached > memory, "a cache is faster: {cached} {memory} GB/s");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn scratch_that_has_to_be_zero_is_zeroed_before_every_launch_that_is_timed() {
    let mut crew = crew();
    for mode in [Mode::Warm, Mode::Cold] {
        let facts = time(&mut crew, once(Some(ZEROS)), entry("once"), mode);
        assert_eq!(facts.launches_per_sample, 1);
        assert_eq!((facts.batched_ns.len(), facts.single_ns.len()), (30, 200));
    }
    let arm = || Arm {
        case: once(Some(ZEROS)),
        artifact: entry("once"),
    };
    let pair = crew.pair(PairJob {
        head: arm(),
        base: arm(),
        process: 0,
        seed: 1,
        schedule: schedule(Mode::Warm),
        pairing: config::pairing(false),
        singles: Singles::Judged,
    });
    let Seen::Got(pair) = pair else {
        panic!("{pair:?}")
    };
    for facts in [&pair.head, &pair.base] {
        assert_eq!(facts.launches_per_sample, 1);
        assert!(!facts.batched_ns.is_empty());
    }
    // If nothing clears the scratch, the kernel reports it.
    let fault = crew.time(TimeJob {
        case: once(None),
        artifact: entry("once"),
        seed: 1,
        schedule: schedule(Mode::Warm),
    });
    let is_trap = |fault: &Fault| fault.kind == FaultKind::DeviceFault;
    assert!(
        matches!(&fault, Seen::Fault(fault) if is_trap(fault)),
        "{fault:?}"
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launchers_and_in_out_kernels_are_timed_too() {
    let mut crew = crew();
    time(
        &mut crew,
        launcher_case("good"),
        launcher("good"),
        Mode::Warm,
    );
    let mut in_place = case("in_place");
    in_place.tensors = vec![tensor("y", Role::Inout)];
    in_place.steps[0].args = vec![pointer("y"), int(N as i64)];
    time(&mut crew, in_place, entry("in_place"), Mode::Cold);
    let fault = crew.time(TimeJob {
        case: case("far_out"),
        artifact: entry("far_out"),
        seed: 1,
        schedule: schedule(Mode::Warm),
    });
    assert!(
        matches!(
            &fault,
            Seen::Fault(Fault {
                kind: FaultKind::DeviceFault,
                ..
            })
        ),
        "{fault:?}"
    );
}
