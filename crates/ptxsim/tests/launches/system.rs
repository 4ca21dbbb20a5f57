//! The heap between two launches (tests/fixtures/system.cu, which has other launches of its kernels as cases).

use crate::common::*;
use ptxsim::*;

/// Memory with a pointer to it is not lost, and another launch may use and free it.
#[test]
fn the_heap_outlives_a_launch() {
    let module = load(&fixture("system"));
    let mut memory = Memory::default();
    let x = memory.alloc("x", 64 * 8).unwrap();
    let y = memory.alloc("y", 64 * 4).unwrap();
    let mut run = |name: &str| {
        let kernel = module.kernel(name).unwrap();
        let params = params(kernel, &[Arg::Ptr(x), Arg::Ptr(y), Arg::I32(3)]);
        launch(
            kernel,
            [2, 1, 1],
            [32, 1, 1],
            0,
            &params,
            &mut memory,
            limits(),
        )
    };
    clean(run("kept"));
    clean(run("freed_later"));
    let fault = run("freed_later").unwrap_err();
    assert!(fault.message.contains("use after free"), "{fault}");
    let expected: Vec<u8> = (0..64_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(memory.read(y, 256).unwrap(), expected);
}
