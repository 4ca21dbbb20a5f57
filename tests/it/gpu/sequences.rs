//! Tests several kernels as one operation, and constants that the host fills.

use super::bench::*;
use super::times::{dial, time};
use build::{Artifact, FilledConstant};
use model::{Case, FaultKind, Fill, MemoryStep, Mode, Num, Role, Step, Tensor};

/// Returns a case that computes `y = 2 x` through working memory.
fn by_way_of_scratch() -> Case {
    let mut case = case("sequence");
    let middle = tensor("middle", Role::Scratch);
    case.tensors.push(Tensor {
        fill: None,
        ..middle
    });
    let launch = case.steps[0].launch;
    case.steps = vec![
        Step::new(vec![pointer("x"), pointer("middle"), int(N as i64)], launch),
        Step::new(
            vec![pointer("middle"), pointer("y"), int(N as i64)],
            launch.map(|mut launch| {
                launch.grid = [2, 1, 1];
                launch
            }),
        ),
    ];
    case
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn steps_run_in_their_order_over_the_same_tensors() {
    let mut crew = crew();
    let answer = check(
        &mut crew,
        by_way_of_scratch(),
        sequence(&["right", "copies"]),
    );
    let driver = answer.driver.got().expect("driver facts").clone();
    assert_right(&got(answer));
    let described: Vec<_> = driver
        .entries
        .iter()
        .map(|entry| (entry.symbol.as_str(), entry.launch.grid[0]))
        .collect();
    assert_eq!(described, [("right", 1), ("copies", 2)]);

    // In the other order, y is a copy of what no step has written yet, which is the poison that y held itself.
    let mut swapped = by_way_of_scratch();
    swapped.steps.reverse();
    let facts = got(check(&mut crew, swapped, sequence(&["copies", "right"])));
    assert_eq!(facts.unwritten, N as u64);

    // A copy replaces the second kernel, and a memset follows it. They run in their order, on the stream of the kernel.
    let mut copied = by_way_of_scratch();
    copied.steps.truncate(1);
    copied.steps[0].after = vec![MemoryStep::Copy {
        from: "middle".into(),
        to: "y".into(),
    }];
    assert_right(&got(check(&mut crew, copied.clone(), sequence(&["right"]))));
    copied.steps[0].after.push(MemoryStep::Memset {
        tensor: "y".into(),
        value: 0,
    });
    let wiped = got(check(&mut crew, copied.clone(), sequence(&["right"])));
    assert_eq!(wiped.unwritten, 0);
    assert!(wiped.error.max_err.0 > 0.0);
    // A memset before the kernel is overwritten.
    let work = std::mem::take(&mut copied.steps[0].after);
    copied.steps[0].after = work[..1].to_vec();
    copied.steps[0].before = work[1..].to_vec();
    assert_right(&got(check(&mut crew, copied, sequence(&["right"]))));

    // Each of two steps with the same function has its own dynamic shared memory, whichever is larger.
    for sizes in [[100 << 10, 60 << 10], [60 << 10, 100 << 10]] {
        let mut staged = case("stages");
        staged.steps.push(staged.steps[0].clone());
        for (step, bytes) in staged.steps.iter_mut().zip(sizes) {
            step.launch.as_mut().unwrap().dynamic_shared = bytes;
        }
        assert_right(&got(check(
            &mut crew,
            staged,
            sequence(&["stages", "stages"]),
        )));
    }

    // A fault of a later step is a fault of the case.
    let mut faulty = case("sequence");
    faulty.steps.push(faulty.steps[0].clone());
    let fault = fault(check(&mut crew, faulty, sequence(&["right", "far_out"])));
    assert_eq!(fault.kind, FaultKind::DeviceFault);
    assert_goes_on(&mut crew);
}

/// Two steps with the same work take twice as long as one.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_sequence_is_timed_as_one() {
    let mut crew = crew();
    let one = dial(4_000);
    let mut two = one.clone();
    two.steps.push(one.steps[0].clone());
    for mode in [Mode::Warm, Mode::Cold] {
        let [one, two] =
            [(&one, &["dial"][..]), (&two, &["dial", "dial"])].map(|(case, symbols)| {
                let facts = time(&mut crew, case.clone(), sequence(symbols), mode);
                facts.batched_ns[15] as f64 / f64::from(facts.launches_per_sample)
            });
        assert!((1.7..2.1).contains(&(two / one)), "{mode:?}: {one} {two}");
    }
}

/// Returns a case in which `BY` holds 2 of the tensor `by`, which no argument passes.
fn filled(elements: usize) -> (Case, Artifact) {
    let mut case = case("by_constant");
    let mut by = tensor("by", Role::In);
    by.dims = vec![elements];
    by.fill = Some(Fill::Constant { value: Num(2.0) });
    case.tensors.push(by);
    let mut artifact = sequence(&["by_constant"]);
    if let Artifact::Cubin { constants, .. } = &mut artifact {
        constants.push(FilledConstant {
            name: "BY".into(),
            symbol: "BY".into(),
            tensor: "by".into(),
        });
    }
    (case, artifact)
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_constant_holds_its_tensor() {
    let mut crew = crew();
    let (case, artifact) = filled(1);
    assert_right(&got(check(&mut crew, case, artifact)));
    let (case, artifact) = filled(2);
    let refused = fault(check(&mut crew, case, artifact));
    assert_eq!(refused.kind, FaultKind::LaunchRefused);
    assert!(
        refused
            .message
            .contains("has 4 bytes, and the tensor `by`, which fills it, 8"),
        "{}",
        refused.message
    );
    // The constant is zero if it is not filled.
    let facts = got(check_entry(&mut crew, "by_constant"));
    assert!(facts.error.max_err.0 > 0.0, "{facts:?}");
}
