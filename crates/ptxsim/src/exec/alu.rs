//! How an operation on one lane becomes one on a warp: as a vector of lanes, where all take part and the
//! processor has AVX2 and FMA (or is no x86-64), else one lane after another, which is slower and small.
//! Both give the same bits, because Rust neither reorders nor contracts floating-point arithmetic, and
//! `mul_add` is exact with or without the instruction.

use super::address::lanes;
use super::regs::{ALL, Class, Lane, PARTS, Regs};

pub type Operands = [u32; 6];

/// Reads registers `operands[1..]` and writes register `operands[0]`, on that many parts of the lanes:
/// `PARTS`, always, but a number known here would make each of these functions longer.
///
/// Safety: the processor must have what the function was compiled for; `pick` looks.
type VectorFn = unsafe fn(&mut Regs, &Operands, usize);

/// As above, on the lanes of the mask.
type EachFn = fn(&mut Regs, &Operands, u32);

/// The compiled forms of one operation.
struct Compiled {
    /// None of an operation that is rare, or of which a vector is no faster.
    vector: Option<VectorFn>,
    each: EachFn,
    /// The class of each operand in use, destination first.
    classes: &'static [Class],
}

#[derive(Clone, Copy)]
pub struct AluOp {
    /// None also where the processor cannot run it.
    vector: Option<VectorFn>,
    of: &'static Compiled,
}

impl std::fmt::Debug for AluOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AluOp({:?})", self.of.classes)
    }
}

#[inline(never)]
fn pick(of: &'static Compiled) -> AluOp {
    let runs = cfg!(not(target_arch = "x86_64")) || has_v3();
    AluOp {
        vector: of.vector.filter(|_| runs),
        of,
    }
}

impl AluOp {
    /// The class of each operand in use, destination first.
    pub fn classes(&self) -> &'static [Class] {
        self.of.classes
    }

    #[inline(always)]
    pub fn run(&self, regs: &mut Regs, operands: &Operands, mask: u32) {
        match self.vector {
            // SAFETY: `pick` took it only where the processor has what it was compiled for.
            Some(vector) if mask == ALL => unsafe { vector(regs, operands, PARTS) },
            _ => (self.of.each)(regs, operands, mask),
        }
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

/// Lets a test run what processors without AVX2 run. Tests that run at the same time may see it: both give the same.
#[cfg(test)]
static BASE_ONLY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

macro_rules! arity {
    ($tr:ident, $make:ident, $rare:ident, $vector:ident, $each:ident, $(($arg:ident, $slot:literal)),*) => {
        pub trait $tr: 'static {
            type D: Lane;
            $(type $arg: Lane;)*
            #[allow(non_snake_case)]
            fn f($($arg: Self::$arg),*) -> Self::D;
        }

        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi2"))]
        #[allow(non_snake_case)]
        fn $vector<O: $tr>(regs: &mut Regs, o: &Operands, parts: usize) {
            // Eight lanes at a time stay in vector registers from the operands to the result.
            for part in 0..parts {
                $(let $arg = O::$arg::part(regs, o[$slot], part);)*
                let mut out = [O::D::ZERO; 8];
                for lane in 0..8 {
                    out[lane] = O::f($($arg[lane]),*);
                }
                O::D::put_part(regs, o[0], part, out);
            }
        }

        fn $each<O: $tr>(regs: &mut Regs, o: &Operands, mask: u32) {
            for lane in lanes(mask) {
                let value = O::f($(O::$arg::lane(regs, o[$slot], lane)),*);
                O::D::put_lane(regs, o[0], lane, value);
            }
        }

        pub fn $make<O: $tr>() -> AluOp {
            pick(const {
                &Compiled {
                    vector: Some($vector::<O>),
                    each: $each::<O>,
                    classes: &[O::D::CLASS, $(O::$arg::CLASS),*],
                }
            })
        }

        /// Not as a vector.
        pub fn $rare<O: $tr>() -> AluOp {
            pick(const {
                &Compiled {
                    vector: None,
                    each: $each::<O>,
                    classes: &[O::D::CLASS, $(O::$arg::CLASS),*],
                }
            })
        }
    };
}

arity!(Fn1, op1, rare1, vector1, each1, (A, 1));
arity!(Fn2, op2, rare2, vector2, each2, (A, 1), (B, 2));
arity!(Fn3, op3, rare3, vector3, each3, (A, 1), (B, 2), (C, 3));
arity!(
    Fn4,
    op4,
    rare4,
    vector4,
    each4,
    (A, 1),
    (B, 2),
    (C, 3),
    (E, 4)
);

/// `rare!(op2, Name)`: as `op2::<Name>()`, but not as a vector.
macro_rules! rare {
    ($make:ident, $($o:tt)*) => { rare!(@ $make [$($o)*]) };
    (@ op1 [$($o:tt)*]) => { $crate::exec::alu::rare1::<$($o)*>() };
    (@ op2 [$($o:tt)*]) => { $crate::exec::alu::rare2::<$($o)*>() };
    (@ op3 [$($o:tt)*]) => { $crate::exec::alu::rare3::<$($o)*>() };
    (@ $rare:ident [$($o:tt)*]) => { $rare::<$($o)*>() };
}
pub(crate) use rare;

/// `operation! { [O: Fn1] Name<O>, (a: u32) -> u32 { a } }` implements the trait of as many arguments.
macro_rules! operation {
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty) -> $d:ty $body:block) => {
        $crate::exec::alu::operation! { @ Fn1 [$($g)*] $of, (A $a: $at) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty) -> $d:ty $body:block) => {
        $crate::exec::alu::operation! { @ Fn2 [$($g)*] $of, (A $a: $at, B $b: $bt) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty) -> $d:ty $body:block) => {
        $crate::exec::alu::operation! { @ Fn3 [$($g)*] $of, (A $a: $at, B $b: $bt, C $c: $ct) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty, $e:ident: $et:ty) -> $d:ty $body:block) => {
        $crate::exec::alu::operation! { @ Fn4 [$($g)*] $of, (A $a: $at, B $b: $bt, C $c: $ct, E $e: $et) -> $d $body }
    };
    (@ $tr:ident [$($g:tt)*] $of:ty, ($($T:ident $arg:ident: $ty:ty),*) -> $d:ty $body:block) => {
        impl<$($g)*> $crate::exec::alu::$tr for $of {
            type D = $d;
            $(type $T = $ty;)*
            #[inline(always)]
            fn f($($arg: $ty),*) -> $d $body
        }
    };
}
pub(crate) use operation;

/// `ops! { Fn2 Name(a: u32, b: u32) -> u32 { a + b } }` makes the type `Name`.
macro_rules! ops {
    ($tr:ident $($name:ident($($arg:ident: $ty:ty),*) -> $d:ty $body:block)*) => {$(
        pub struct $name;
        $crate::exec::alu::operation! { [] $name, ($($arg: $ty),*) -> $d $body }
    )*};
}
pub(crate) use ops;

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::exec::regs::{Block, LANES};
    use crate::exec::{float_ops, half_ops, int_ops};

    /// The same operation as a vector and lane by lane, over bits of every kind.
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
