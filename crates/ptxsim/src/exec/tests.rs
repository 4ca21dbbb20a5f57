//! Tests that arithmetic as a vector of lanes gives the same results as lane by lane.

use super::{float_ops, half_ops, int_ops};
use crate::alu::{BASE_ONLY, Fn3, each3, has_v3, op3};
use crate::regs::{Block, LANES, Regs};

/// Runs an operation as a vector and lane by lane, over bits of every kind, and compares the two.
fn same3<O: Fn3<A = u32, B = u32, C = u32, D = u32>>() {
    let mut x = 1_u32;
    let mut bits = |special: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [
            x,
            0,
            0x8000_0000,
            0x7f80_0000,
            0x7fc0_0001,
            1,
            0x7f7f_ffff,
            x & 0x807f_ffff,
            x,
        ][special % 9]
    };
    for round in 0..2000 {
        let block = |f: &mut dyn FnMut(usize) -> u32| Block(std::array::from_fn(|l| f(l + round)));
        let r32 = vec![
            Block([7; LANES]),
            block(&mut bits),
            block(&mut |l| bits(l / 3)),
            block(&mut |l| bits(l / 9)),
        ];
        let mut one = Regs {
            r32,
            ..Regs::default()
        };
        let mut two = one.clone();
        let mask = if round % 2 == 0 {
            u32::MAX
        } else {
            one.r32[1].0[0]
        };
        op3::<O>().run(&mut one, &[0, 1, 2, 3, 0, 0], mask);
        each3::<O>(&mut two, &[0, 1, 2, 3, 0, 0], mask);
        assert_eq!(one.r32[0].0, two.r32[0].0);
    }
}

#[test]
fn vectors_and_single_lanes_give_the_same_bits() {
    if has_v3() {
        same3::<float_ops::Fma>();
        same3::<float_ops::Ftz<float_ops::Fma>>();
        same3::<float_ops::rm::Fma>();
        same3::<half_ops::FmaH>();
        same3::<half_ops::FmaB>();
        same3::<int_ops::Prmt>();
        same3::<int_ops::w32::BfeS>();
    }
}

#[test]
fn lanes_outside_the_mask_keep_their_values() {
    let r32 = (0..4).map(|n| Block([n; LANES])).collect();
    let mut regs = Regs {
        r32,
        ..Regs::default()
    };
    op3::<int_ops::w32::MadLo>().run(&mut regs, &[0, 1, 2, 3, 0, 0], 0b101);
    assert_eq!(regs.r32[0].0[..4], [5, 0, 5, 0]);
}

/// Runs a launch over buffers of bytes that are finite numbers in every format. Returns its report, and what the
/// buffers hold then.
fn launched(name: &str, pointers: usize, ints: &[i32], grid: [u32; 3], shared: u32) -> String {
    let path = format!("{}/tests/fixtures/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    let module = crate::Module::load(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut memory = crate::Memory::default();
    let bytes: Vec<u8> = (0..1_u32 << 16)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8 & 0xbf)
        .collect();
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    for n in 0..pointers {
        let p = memory.alloc(&n.to_string(), bytes.len() as u64).unwrap();
        memory.write(p, &bytes).unwrap();
        params.extend(p.to_le_bytes());
        buffers.push(p);
    }
    params.extend(ints.iter().flat_map(|i| i.to_le_bytes()));
    let limits = crate::Limits::default();
    let kernel = &module.kernels()[0];
    let report = crate::launch(
        kernel,
        grid,
        [256, 1, 1],
        shared,
        &params,
        &mut memory,
        limits,
    );
    format!(
        "{report:?} {:?}",
        buffers
            .iter()
            .map(|&p| memory.read(p, bytes.len()).unwrap())
            .collect::<Vec<_>>()
    )
}

#[test]
fn whole_launches_are_the_same_without_avx2() {
    if !has_v3() {
        return;
    }
    let all = || {
        [
            launched("gemm", 3, &[100, 90, 70], [2, 2, 1], 0),
            launched("f16_scalar", 4, &[1, 77], [3, 1, 1], 32 * 420 + 18432),
            launched("f16_wmma", 4, &[1, 77], [2, 1, 1], 64 * 420 + 18432),
            launched("fp8_direct", 7, &[1, 77], [2, 1, 1], 0),
            launched("fp8_stage2", 7, &[1, 77], [2, 1, 1], 0),
        ]
    };
    let with = all();
    BASE_ONLY.store(true, std::sync::atomic::Ordering::Relaxed);
    let without = all();
    BASE_ONLY.store(false, std::sync::atomic::Ordering::Relaxed);
    for (with, without) in with.iter().zip(&without) {
        assert!(with.starts_with("Ok("), "{with:.300}");
        assert!(with == without);
    }
}
