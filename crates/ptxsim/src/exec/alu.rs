//! How an operation on one lane becomes one on a warp, compiled twice: for any x86-64 and for
//! AVX2 with FMA. Both give the same bits, because Rust neither reorders nor contracts
//! floating-point arithmetic, and `mul_add` is exact with or without the instruction.

use super::regs::{Class, LANES, Lane, Regs};

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

fn has_v3() -> bool {
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
            let mut out = [O::D::ZERO; LANES];
            $(let $arg = O::$arg::view(regs, o[$slot]);)*
            for lane in 0..LANES {
                out[lane] = O::f($(O::$arg::at($arg, lane)),*);
            }
            O::D::put(regs, o[0], &out, mask);
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
