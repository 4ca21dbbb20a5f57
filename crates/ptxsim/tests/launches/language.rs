//! Forms that nvcc writes for ordinary CUDA (tests/fixtures/misc.cu), against the same computation in Rust.

use crate::common::*;
use ptxsim::*;

struct Bench {
    module: Module,
    memory: Memory,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            module: load(&fixture("misc")),
            memory: Memory::default(),
        }
    }

    fn put<T: Copy>(&mut self, values: &[T], bytes: impl Fn(T) -> Vec<u8>) -> u64 {
        let all: Vec<u8> = values.iter().flat_map(|&v| bytes(v)).collect();
        put(&mut self.memory, "data", &all)
    }

    fn u32s(&mut self, values: &[u32]) -> u64 {
        self.put(values, |v| v.to_le_bytes().to_vec())
    }

    fn launch(&mut self, name: &str, grid: u32, block: u32, args: &[Arg]) -> Result<Report, Fault> {
        let kernel = self.module.kernel(name).unwrap();
        let p = params(kernel, args);
        ptxsim::launch(
            kernel,
            [grid, 1, 1],
            [block, 1, 1],
            0,
            &p,
            &mut self.memory,
            limits(),
        )
    }

    fn words(&self, at: u64, n: usize) -> Vec<u32> {
        self.memory
            .read(at, 4 * n)
            .unwrap()
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect()
    }
}

#[test]
fn device_functions_structs_constants() {
    let mut b = Bench::new();
    let input: Vec<u32> = (0..100).map(|i| i * 7 % 91 + 1).collect();
    let (out, inp) = (b.memory.alloc("out", 400).unwrap(), b.u32s(&input));
    clean(b.launch(
        "calls",
        4,
        32,
        &[Arg::Ptr(out), Arg::Ptr(inp), Arg::I32(100)],
    ));
    let table = [3, 1, 4, 1, 5, 9, 2, 6];
    let gcd = |mut a: i32, mut b: i32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    for (i, got) in b.words(out, 100).into_iter().enumerate() {
        let (n, k) = (input[i] as i32, input[i] as f32 * 0.5);
        let (qx, qy, qz) = ((2.0 * k) as i32, (i as f32 - k) as i32, i as i32 + 1);
        assert_eq!(
            got as i32,
            gcd(n, 36) + table[i & 7] * 100 + qx + qy + qz + 7,
            "{i}"
        );
    }
}

#[test]
fn doubles() {
    let mut b = Bench::new();
    let input: Vec<f64> = (0..32).map(|i| f64::from(i) * 0.37 + 0.01).collect();
    let inp = b.put(&input, |v| v.to_le_bytes().to_vec());
    let out = b.memory.alloc("out", 256).unwrap();
    clean(b.launch("dbl", 1, 32, &[Arg::Ptr(out), Arg::Ptr(inp)]));
    for (c, x) in b.memory.read(out, 256).unwrap().chunks_exact(8).zip(input) {
        let got = f64::from_le_bytes(c.try_into().unwrap());
        let want = x.sqrt() + x / 3.0 + x.mul_add(x, 1.0) + x.floor() + (-x).exp() + x.trunc();
        assert!((got - want).abs() <= 4e-15 * want, "{x}: {got} {want}");
    }
}

#[test]
fn single_precision_functions() {
    let mut b = Bench::new();
    let input: Vec<f32> = (0..64).map(|i| i as f32 * 0.11 - 1.2).collect();
    let inp = put(&mut b.memory, "in", &bytes_of(&input));
    let out = b.memory.alloc("out", 256).unwrap();
    clean(b.launch("flt", 1, 64, &[Arg::Ptr(out), Arg::Ptr(inp)]));
    let got = floats(b.memory.read(out, 256).unwrap());
    let erf = |x: f64| {
        // Abramowitz and Stegun 7.1.5, the series
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    };
    for (g, &x) in got.iter().zip(&input) {
        let d = f64::from(x);
        let want = d.sin()
            + d.cos()
            + (d + 1.5).ln()
            + 1.0 / (d + 2.0).sqrt()
            + d.abs().powf(1.5)
            + d.tanh()
            + d / 3.0
            + d.round_ties_even()
            + if x > 0.0 { erf(d) } else { 0.0 };
        assert!(
            (f64::from(*g) - want).abs() < 4e-6 * want.abs().max(1.0),
            "{x}: {g} {want}"
        );
    }
}

#[test]
fn packed_halves_and_bf16() {
    use half::{bf16, f16};
    let mut b = Bench::new();
    let mut r = Random(5);
    let input: Vec<[f16; 2]> = (0..32)
        .map(|_| [f16::from_f32(r.normal()), f16::from_f32(r.normal())])
        .collect();
    let inp = b.put(&input, |v| {
        [v[0].to_le_bytes(), v[1].to_le_bytes()].concat()
    });
    let (out, brain) = (
        b.memory.alloc("out", 128).unwrap(),
        b.memory.alloc("bf", 128).unwrap(),
    );
    clean(b.launch(
        "halfs",
        1,
        32,
        &[Arg::Ptr(out), Arg::Ptr(inp), Arg::Ptr(brain)],
    ));
    let (halves, brains) = (b.words(out, 32), b.words(brain, 32));
    for (i, pair) in input.iter().enumerate() {
        let want = pair.map(|a| {
            let sum = f16::from_f64(a.to_f64() + 0.5);
            let fused = f16::from_f64(a.to_f64() * a.to_f64() + sum.to_f64());
            if pair[0].to_f32() > 1.0 {
                f16::from_f64(a.to_f64().max(-a.to_f64()))
            } else {
                fused
            }
        });
        assert_eq!(
            halves[i],
            u32::from(want[0].to_bits()) | u32::from(want[1].to_bits()) << 16,
            "{i}"
        );
        let want = pair.map(|a| {
            let x = bf16::from_f32(a.to_f32());
            bf16::from_f64(x.to_f64() * bf16::from_f64(2.0 * x.to_f64()).to_f64())
        });
        assert_eq!(
            brains[i],
            u32::from(want[0].to_bits()) | u32::from(want[1].to_bits()) << 16,
            "{i}"
        );
    }
}

#[test]
fn fp8_pairs() {
    let mut b = Bench::new();
    let mut r = Random(9);
    let input: Vec<f32> = (0..64)
        .map(|i| r.normal() * if i % 5 == 0 { 300.0 } else { 0.02 })
        .collect();
    let inp = put(&mut b.memory, "in", &bytes_of(&input));
    let out = b.memory.alloc("out", 64).unwrap();
    clean(b.launch("fp8", 1, 32, &[Arg::Ptr(out), Arg::Ptr(inp)]));
    for (got, x) in b.memory.read(out, 64).unwrap().iter().zip(&input) {
        let want = float8::F8E4M3::from_f32(x.clamp(-448.0, 448.0)).to_bits();
        assert_eq!(*got, want, "{x}");
    }
}

#[test]
fn warp_exchange() {
    let mut b = Bench::new();
    let mut r = Random(3);
    let v: Vec<u32> = (0..32).map(|i| (r.next() as u32) >> (i % 20)).collect();
    let (out, inp) = (b.memory.alloc("out", 128).unwrap(), b.u32s(&v));
    clean(b.launch("warp", 1, 32, &[Arg::Ptr(out), Arg::Ptr(inp)]));
    let mask = |f: &dyn Fn(usize) -> bool| (0..32).fold(0_u32, |m, l| m | u32::from(f(l)) << l);
    let ballot = mask(&|l| v[l] & 1 == 1);
    for (i, got) in b.words(out, 32).into_iter().enumerate() {
        let x = v[i];
        let same = mask(&|l| v[l] & 3 == x & 3);
        let sum = v.iter().fold(0_u32, |s, y| s.wrapping_add(*y));
        let up = if i >= 3 { v[i - 3] } else { x };
        let down = if i % 16 + 5 < 16 { v[i + 5] } else { x };
        let idx = v[i / 8 * 8 + i * 7 % 8];
        let ffs = if x == 0 { 0 } else { x.trailing_zeros() + 1 };
        let funnel = ballot << 5 | x >> 27;
        let bytes = [x.to_le_bytes(), ballot.to_le_bytes()].concat();
        let perm = u32::from_le_bytes([bytes[5], bytes[7], bytes[1], bytes[3]]);
        let dp = (0..4).fold(3_i32, |s, k| {
            s.wrapping_add(
                i32::from(x.to_le_bytes()[k] as i8) * i32::from(ballot.to_le_bytes()[k] as i8),
            )
        });
        let any = u32::from(v.iter().any(|&y| y > 5));
        let high = ((u64::from(x) * u64::from(ballot)) >> 32) as u32;
        let want = ballot
            ^ same
            ^ sum
            ^ up
            ^ down
            ^ idx
            ^ u32::MAX
            ^ 1
            ^ x.count_ones()
            ^ x.leading_zeros()
            ^ x.reverse_bits()
            ^ ffs
            ^ funnel
            ^ perm
            ^ dp as u32
            ^ any
            ^ high;
        assert_eq!(got, want, "{i}");
    }
}

#[test]
fn products_of_128_bits() {
    let mut b = Bench::new();
    let mut r = Random(8);
    let v: Vec<u64> = (0..66).map(|_| r.next()).collect();
    let inp = b.put(&v, |x| x.to_le_bytes().to_vec());
    let out = b.memory.alloc("out", 512).unwrap();
    clean(b.launch(
        "wide",
        1,
        64,
        &[Arg::Ptr(out), Arg::Ptr(inp), Arg::Ptr(out)],
    ));
    for (i, c) in b.memory.read(out, 512).unwrap().chunks_exact(8).enumerate() {
        let p = u128::from(v[i]) * u128::from(v[i + 1]) + u128::from(v[i + 2]);
        let want = (p >> 64) as u64 ^ (v[i] / (v[i + 1] | 1)) ^ (v[i] % 10);
        assert_eq!(u64::from_le_bytes(c.try_into().unwrap()), want, "{i}");
    }
}

#[test]
fn mma_with_ldmatrix() {
    use half::f16;
    let mut b = Bench::new();
    let mut r = Random(4);
    let mut make = |n: usize| -> Vec<f16> { (0..n).map(|_| f16::from_f32(r.normal())).collect() };
    let (x, y) = (make(256), make(128));
    let px = b.put(&x, |h| h.to_le_bytes().to_vec());
    let py = b.put(&y, |h| h.to_le_bytes().to_vec());
    let out = b.memory.alloc("d", 512).unwrap();
    let report = clean(b.launch("mma", 1, 32, &[Arg::Ptr(out), Arg::Ptr(px), Arg::Ptr(py)]));
    let d = floats(b.memory.read(out, 512).unwrap());
    for i in 0..16 {
        for j in 0..8 {
            let want: f64 = (0..16)
                .map(|k| x[i * 16 + k].to_f64() * y[j * 16 + k].to_f64())
                .sum();
            assert!(
                (f64::from(d[i * 8 + j]) - want).abs() <= 1e-6 * 16.0,
                "{i} {j}"
            );
        }
    }
    assert_eq!(report.counters.by_kind[&Kind::Matrix].issued, 1);
    // rows 48 bytes apart: eight rows of 16 bytes cover each bank once
    let ldmatrix = report.counters.by_kind[&Kind::MatrixLoad];
    assert_eq!((ldmatrix.issued, ldmatrix.wavefronts), (2, 6));
}

#[test]
fn two_runs_are_the_same() {
    let text = fixture("fp8_stage2");
    let [a, b] = [0, 1].map(|_| run_fp8(&text, 0, 2, 77, limits()));
    assert_eq!(a.report.unwrap(), b.report.unwrap());
    assert_eq!(a.worst.to_bits(), b.worst.to_bits());
}

#[test]
fn printf_is_told() {
    let module = load(&fixture("sync"));
    let kernel = module.kernel("prints").unwrap();
    let go = |grid: u32, threads: usize| {
        let mut memory = Memory::default();
        let x: Vec<u8> = (1..=64_i32).flat_map(i32::to_le_bytes).collect();
        let p = put(&mut memory, "x", &x);
        let p = params(kernel, &[Arg::Ptr(p)]);
        let limits = Limits {
            threads,
            ..limits()
        };
        clean(launch(
            kernel,
            [grid, 1, 1],
            [64, 1, 1],
            0,
            &p,
            &mut memory,
            limits,
        ))
        .printed
    };
    let two = go(2, 1);
    assert_eq!(two.len(), 4);
    assert_eq!(two[1], "block 0 thread 33: 17.00 1099511627776 ok! ff%\n");
    assert_eq!(two[2], "block 1 thread 1:  1.00 1099511627776 ok! ff%\n");
    let many = go(600, 1);
    assert_eq!(many.len(), 1001);
    assert_eq!(many[1000], "... and 200 more");
    assert_eq!(many, go(600, 3));
    assert_eq!(go(7, 1), go(7, 3));
}

/// What is at the start of shared memory does not belong to the program, and does not count in its size (PTX ISA 10).
#[test]
fn reserved_shared_memory_is_no_kernels_own() {
    let text = ".version 9.0\n.target sm_90\n.address_size 64\n.entry k()\n{ .reg .b32 %r<2>; .shared .align 16 .b8 s[512];\nmov.u32 %r0, %reserved_smem_offset_1;\nst.shared.u32 [%r0], %r1;\nst.shared.u32 [s], %r1;\nret; }";
    let module = load(text);
    assert_eq!(module.kernel("k").unwrap().static_shared_bytes(), 512);
}
