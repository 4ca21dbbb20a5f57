//! Tests launchers, which are host code of users. What they launch is read back, and what they do wrong is their own
//! fault.

use super::bench::*;
use model::{FaultKind, Seen, Unsupported};

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launches_of_a_launcher_are_read_back() {
    let mut crew = crew();
    let answer = check(&mut crew, launcher_case("good"), launcher("good"));
    let Seen::Got(driver) = answer.driver.clone() else {
        panic!("{answer:?}")
    };
    println!("{driver:#?}");
    let [twice, same] = driver.entries.as_slice() else {
        panic!("{driver:?}")
    };
    assert!(
        twice.symbol.contains("twice") && same.symbol.contains("same"),
        "{driver:?}"
    );
    assert_eq!(
        (twice.launch.grid, twice.launch.block),
        ([2, 1, 1], [128, 1, 1])
    );
    assert_eq!(
        (twice.launch.dynamic_shared, same.launch.dynamic_shared),
        (0, 64 << 10)
    );
    assert!(twice.registers > 0 && same.blocks_per_sm > 0);
    assert_right(&got(answer));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn launchers_go_wrong_in_their_own_ways() {
    let mut crew = crew();
    let refused = fault(check(
        &mut crew,
        launcher_case("refuses"),
        launcher("refuses"),
    ));
    assert_eq!(refused.kind, FaultKind::LaunchRefused);
    assert!(
        refused.message.contains("refuses returned 7"),
        "{}",
        refused.message
    );

    let answer = check(&mut crew, launcher_case("waits"), launcher("waits"));
    println!("{:?}", answer.driver);
    assert!(
        matches!(
            answer.driver,
            Seen::Unsupported(Unsupported::Capture { .. })
        ),
        "{answer:?}"
    );
    assert_right(&got(answer));

    let missing = fault(check(&mut crew, launcher_case("none"), launcher("none")));
    assert_eq!(
        missing.kind,
        FaultKind::EntryNotFound,
        "{}",
        missing.message
    );
    // One worker looked at the device, and a confined one runs launchers.
    assert_eq!(crew.costs().workers, 2);

    let exits = fault(check(&mut crew, launcher_case("exits"), launcher("exits")));
    println!("{exits:?}");
    assert_eq!(exits.kind, FaultKind::WorkerDied);
    assert!(exits.message.contains("exit code 0"), "{}", exits.message);
    assert_goes_on(&mut crew);

    let crashes = fault(check(
        &mut crew,
        launcher_case("crashes"),
        launcher("crashes"),
    ));
    println!("{crashes:?}");
    assert_eq!(crashes.kind, FaultKind::WorkerDied);
    assert!(crashes.message.contains("SIGSEGV"), "{}", crashes.message);
    assert_goes_on(&mut crew);
}
