//! A warp's registers: each virtual register is 32 lanes side by side.

/// Which file a register lives in. Registers of up to 32 bits are zero-extended to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One bit per lane.
    Pred,
    R32,
    R64,
}

pub const LANES: usize = 32;
pub const ALL: u32 = u32::MAX;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Block<T>(pub [T; LANES]);

#[derive(Clone, Default)]
pub struct Regs {
    pub pred: Vec<u32>,
    pub r32: Vec<Block<u32>>,
    pub r64: Vec<Block<u64>>,
}

/// The register values that a warp starts from: constants are registers that nothing writes.
impl Regs {
    pub fn set32(&mut self, register: u32, f: impl Fn(usize) -> u32) {
        self.r32[register as usize].0 = std::array::from_fn(f);
    }

    pub fn set64(&mut self, register: u32, f: impl Fn(usize) -> u64) {
        self.r64[register as usize].0 = std::array::from_fn(f);
    }
}

/// What an operand of an arithmetic instruction can be, and how its lanes are reached.
pub trait Lane: Copy {
    const CLASS: Class;
    type View<'a>: Copy;
    const ZERO: Self;
    fn view(regs: &Regs, register: u32) -> Self::View<'_>;
    fn at(view: Self::View<'_>, lane: usize) -> Self;
    fn put(regs: &mut Regs, register: u32, values: &[Self; LANES], mask: u32);
}

macro_rules! word_lane {
    ($t:ty, $file:ident, $class:expr) => {
        impl Lane for $t {
            const CLASS: Class = $class;
            type View<'a> = &'a [$t; LANES];
            const ZERO: $t = 0;
            #[inline(always)]
            fn view(regs: &Regs, register: u32) -> &[$t; LANES] {
                &regs.$file[register as usize].0
            }
            #[inline(always)]
            fn at(view: &[$t; LANES], lane: usize) -> $t {
                view[lane]
            }
            #[inline(always)]
            fn put(regs: &mut Regs, register: u32, values: &[$t; LANES], mask: u32) {
                let to = &mut regs.$file[register as usize].0;
                if mask == ALL {
                    *to = *values;
                } else {
                    for lane in 0..LANES {
                        to[lane] = if mask >> lane & 1 == 1 {
                            values[lane]
                        } else {
                            to[lane]
                        };
                    }
                }
            }
        }
    };
}
word_lane!(u32, r32, Class::R32);
word_lane!(u64, r64, Class::R64);

impl Lane for bool {
    const CLASS: Class = Class::Pred;
    type View<'a> = u32;
    const ZERO: bool = false;
    #[inline(always)]
    fn view(regs: &Regs, register: u32) -> u32 {
        regs.pred[register as usize]
    }
    #[inline(always)]
    fn at(view: u32, lane: usize) -> bool {
        view >> lane & 1 == 1
    }
    #[inline(always)]
    fn put(regs: &mut Regs, register: u32, values: &[bool; LANES], mask: u32) {
        let mut bits = 0;
        for (lane, &v) in values.iter().enumerate() {
            bits |= u32::from(v) << lane;
        }
        let to = &mut regs.pred[register as usize];
        *to = *to & !mask | bits & mask;
    }
}
