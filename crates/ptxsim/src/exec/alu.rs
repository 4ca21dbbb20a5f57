//! How an operation on one lane becomes one on a warp, compiled twice: for any x86-64 and for
//! AVX2 with FMA. Both give the same bits, because Rust neither reorders nor contracts
//! floating-point arithmetic, and `mul_add` is exact with or without the instruction.

use super::regs::{Class, Lane, PARTS, Regs};

pub type Operands = [u32; 6];

/// Reads registers `operands[1..]` and writes register `operands[0]`, on the lanes of the mask.
///
/// Safety: the processor must have what the function was compiled for; `AluOp` is only made by
/// the functions below, which look.
type AluFn = unsafe fn(&mut Regs, &Operands, u32);

#[derive(Clone, Copy)]
pub struct AluOp {
    f: AluFn,
    /// The class of each operand in use, destination first.
    pub classes: &'static [Class],
}

impl std::fmt::Debug for AluOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AluOp({:?})", self.classes)
    }
}

impl AluOp {
    #[inline(always)]
    pub fn run(&self, regs: &mut Regs, operands: &Operands, mask: u32) {
        // SAFETY: `pick` stored the function for AVX2 only where the processor has it.
        unsafe { (self.f)(regs, operands, mask) }
    }
}

/// Whether what was compiled for AVX2 and FMA can run here. Looked up once by the standard library.
#[inline(always)]
pub fn has_v3() -> bool {
    #[cfg(test)]
    if BASE_ONLY.load(std::sync::atomic::Ordering::Relaxed) {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Lets a test run what processors without AVX2 run. Tests beside it may see it: both give the same.
#[cfg(test)]
static BASE_ONLY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

macro_rules! arity {
    ($tr:ident, $make:ident, $run:ident, $v1:ident, $v3:ident, $(($arg:ident, $slot:literal)),*) => {
        pub trait $tr: 'static {
            type D: Lane;
            $(type $arg: Lane;)*
            #[allow(non_snake_case)]
            fn f($($arg: Self::$arg),*) -> Self::D;
        }

        #[inline(always)]
        #[allow(non_snake_case)]
        fn $run<O: $tr>(regs: &mut Regs, o: &Operands, mask: u32) {
            // Eight lanes at a time stay in vector registers from the operands to the result.
            for part in 0..PARTS {
                $(let $arg = O::$arg::part(regs, o[$slot], part);)*
                let mut out = [O::D::ZERO; 8];
                for lane in 0..8 {
                    out[lane] = O::f($($arg[lane]),*);
                }
                O::D::put_part(regs, o[0], part, out, mask);
            }
        }

        unsafe fn $v1<O: $tr>(regs: &mut Regs, o: &Operands, mask: u32) {
            $run::<O>(regs, o, mask)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,bmi2")]
        unsafe fn $v3<O: $tr>(regs: &mut Regs, o: &Operands, mask: u32) {
            $run::<O>(regs, o, mask)
        }

        pub fn $make<O: $tr>() -> AluOp {
            let classes = const { &[O::D::CLASS, $(O::$arg::CLASS),*] };
            #[cfg(target_arch = "x86_64")]
            if has_v3() {
                return AluOp { f: $v3::<O>, classes };
            }
            let _ = has_v3;
            AluOp { f: $v1::<O>, classes }
        }
    };
}

arity!(Fn1, op1, run1, base1, v3_1, (A, 1));
arity!(Fn2, op2, run2, base2, v3_2, (A, 1), (B, 2));
arity!(Fn3, op3, run3, base3, v3_3, (A, 1), (B, 2), (C, 3));
arity!(Fn4, op4, run4, base4, v3_4, (A, 1), (B, 2), (C, 3), (E, 4));

/// `ops! { Fn2 Name(a: u32, b: u32) -> u32 { a + b } }` makes the type `Name`.
macro_rules! ops {
    (Fn1 $($name:ident($a:ident: $at:ty) -> $d:ty $body:block)*) => {$(
        pub struct $name;
        impl $crate::exec::alu::Fn1 for $name {
            type D = $d;
            type A = $at;
            #[inline(always)]
            fn f($a: $at) -> $d $body
        }
    )*};
    (Fn2 $($name:ident($a:ident: $at:ty, $b:ident: $bt:ty) -> $d:ty $body:block)*) => {$(
        pub struct $name;
        impl $crate::exec::alu::Fn2 for $name {
            type D = $d;
            type A = $at;
            type B = $bt;
            #[inline(always)]
            fn f($a: $at, $b: $bt) -> $d $body
        }
    )*};
    (Fn3 $($name:ident($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty) -> $d:ty $body:block)*) => {$(
        pub struct $name;
        impl $crate::exec::alu::Fn3 for $name {
            type D = $d;
            type A = $at;
            type B = $bt;
            type C = $ct;
            #[inline(always)]
            fn f($a: $at, $b: $bt, $c: $ct) -> $d $body
        }
    )*};
    (Fn4 $($name:ident($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty, $e:ident: $et:ty) -> $d:ty $body:block)*) => {$(
        pub struct $name;
        impl $crate::exec::alu::Fn4 for $name {
            type D = $d;
            type A = $at;
            type B = $bt;
            type C = $ct;
            type E = $et;
            #[inline(always)]
            fn f($a: $at, $b: $bt, $c: $ct, $e: $et) -> $d $body
        }
    )*};
}
pub(crate) use ops;

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::exec::regs::{Block, LANES};
    use crate::exec::{float_ops, half_ops, int_ops};

    /// The same operation through both compilations, over bits of every kind.
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
            let block =
                |f: &mut dyn FnMut(usize) -> u32| Block(std::array::from_fn(|l| f(l + round)));
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
            // SAFETY: the base version needs nothing; the caller looked for the other.
            unsafe {
                base3::<O>(&mut one, &[0, 1, 2, 3, 0, 0], mask);
                v3_3::<O>(&mut two, &[0, 1, 2, 3, 0, 0], mask);
            }
            assert_eq!(one.r32[0].0, two.r32[0].0);
        }
    }

    #[test]
    fn both_compilations_give_the_same_bits() {
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

    /// A launch over buffers of bytes that are finite numbers in every format, and what the buffers
    /// hold then.
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
        let held = buffers
            .iter()
            .map(|&p| memory.read(p, bytes.len()).unwrap());
        format!("{report:?} {:?}", held.collect::<Vec<_>>())
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
}
