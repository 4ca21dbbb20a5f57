//! Makes an operation on one lane one on a warp.
//!
//! It runs as a vector of lanes if all lanes take part and the processor has AVX2 and FMA (or is no x86-64). Otherwise
//! it runs one lane after another, which is slower and takes less code. Both give the same bits, because Rust neither
//! reorders nor contracts floating-point arithmetic, and `mul_add` is exact with or without the instruction.

use crate::regs::{ALL, Class, Lane, PARTS, Regs, lanes};

pub type Operands = [u32; 6];

/// Reads registers `operands[1..]` and writes register `operands[0]`, on that many parts of the lanes:
/// `PARTS`, always, but a number known here would make each of these functions longer.
///
/// Safety: the processor must have what the function was compiled for; `pick` looks.
type VectorFn = unsafe fn(&mut Regs, &Operands, usize);

/// Executes the operation like [`VectorFn`], lane by lane, on the lanes of a mask.
type EachFn = fn(&mut Regs, &Operands, u32);

/// The compiled forms of one operation.
struct Compiled {
    /// `None` if the operation is rare, or no faster as a vector.
    vector: Option<VectorFn>,
    each: EachFn,
    /// The class of each operand in use, destination first.
    classes: &'static [Class],
}

#[derive(Clone, Copy)]
pub struct AluOp {
    /// `None` also if the processor cannot run it.
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
    /// Returns the class of each operand in use, destination first.
    pub fn classes(&self) -> &'static [Class] {
        self.of.classes
    }

    /// Executes the operation in the lanes of `mask`.
    #[inline(always)]
    pub fn run(&self, regs: &mut Regs, operands: &Operands, mask: u32) {
        match self.vector {
            // SAFETY: `pick` took it only where the processor has what it was compiled for.
            Some(vector) if mask == ALL => unsafe { vector(regs, operands, PARTS) },
            _ => (self.of.each)(regs, operands, mask),
        }
    }
}

/// Returns true if this processor has AVX2, FMA and BMI2, which the vector forms are compiled for. The standard library
/// caches the answer.
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
pub static BASE_ONLY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

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

        pub fn $each<O: $tr>(regs: &mut Regs, o: &Operands, mask: u32) {
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

        /// Builds the operation without a vector form.
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

/// `rare!(op2, Name)` does what `op2::<Name>()` does, but not as a vector.
macro_rules! rare {
    ($make:ident, $($o:tt)*) => { rare!(@ $make [$($o)*]) };
    (@ op1 [$($o:tt)*]) => { $crate::alu::rare1::<$($o)*>() };
    (@ op2 [$($o:tt)*]) => { $crate::alu::rare2::<$($o)*>() };
    (@ op3 [$($o:tt)*]) => { $crate::alu::rare3::<$($o)*>() };
    (@ $rare:ident [$($o:tt)*]) => { $rare::<$($o)*>() };
}
pub(crate) use rare;

/// `operation! { [O: Fn1] Name<O>, (a: u32) -> u32 { a } }` implements the trait of as many arguments.
macro_rules! operation {
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty) -> $d:ty $body:block) => {
        $crate::alu::operation! { @ Fn1 [$($g)*] $of, (A $a: $at) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty) -> $d:ty $body:block) => {
        $crate::alu::operation! { @ Fn2 [$($g)*] $of, (A $a: $at, B $b: $bt) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty) -> $d:ty $body:block) => {
        $crate::alu::operation! { @ Fn3 [$($g)*] $of, (A $a: $at, B $b: $bt, C $c: $ct) -> $d $body }
    };
    ([$($g:tt)*] $of:ty, ($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty, $e:ident: $et:ty) -> $d:ty $body:block) => {
        $crate::alu::operation! { @ Fn4 [$($g)*] $of, (A $a: $at, B $b: $bt, C $c: $ct, E $e: $et) -> $d $body }
    };
    (@ $tr:ident [$($g:tt)*] $of:ty, ($($T:ident $arg:ident: $ty:ty),*) -> $d:ty $body:block) => {
        impl<$($g)*> $crate::alu::$tr for $of {
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
        $crate::alu::operation! { [] $name, ($($arg: $ty),*) -> $d $body }
    )*};
}
pub(crate) use ops;
