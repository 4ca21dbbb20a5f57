//! A warp's registers: each virtual register is 32 lanes side by side.

/// The register file that holds a register. Registers of fewer than 32 bits are zero-extended to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Predicates: 32 bits for each register, one for each lane.
    Pred,
    R32,
    R64,
}

pub const LANES: usize = 32;
pub const ALL: u32 = u32::MAX;

/// An iterator over the lanes of a mask, lowest first.
pub struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    }
}

/// Returns the lanes of a mask, lowest first.
#[inline(always)]
pub fn lanes(mask: u32) -> Lanes {
    Lanes(mask)
}

/// One register: its value in each lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Block<T>(pub [T; LANES]);

/// The registers of a warp, by class and number. Constants are registers that nothing writes.
#[derive(Clone, Default)]
pub struct Regs {
    pub pred: Vec<u32>,
    pub r32: Vec<Block<u32>>,
    pub r64: Vec<Block<u64>>,
}

impl Regs {
    pub fn set32(&mut self, register: u32, f: impl Fn(usize) -> u32) {
        self.r32[register as usize].0 = std::array::from_fn(f);
    }

    pub fn set64(&mut self, register: u32, f: impl Fn(usize) -> u64) {
        self.r64[register as usize].0 = std::array::from_fn(f);
    }
}

/// The number of parts that a register has, of eight lanes each. Vector operations work on one part at a time.
pub const PARTS: usize = LANES / 8;

/// A possible operand of an arithmetic instruction, and how its lanes are reached.
pub trait Lane: Copy {
    const CLASS: Class;
    const ZERO: Self;
    fn part(regs: &Regs, register: u32, part: usize) -> [Self; 8];
    fn put_part(regs: &mut Regs, register: u32, part: usize, values: [Self; 8]);
    fn lane(regs: &Regs, register: u32, lane: usize) -> Self;
    fn put_lane(regs: &mut Regs, register: u32, lane: usize, value: Self);
}

/// A lane type whose registers can be written as a whole.
pub trait Word: Lane {
    fn put(regs: &mut Regs, register: u32, values: &[Self; LANES], mask: u32);
}

macro_rules! word_lane {
    ($t:ty, $file:ident, $class:expr) => {
        impl Lane for $t {
            const CLASS: Class = $class;
            const ZERO: $t = 0;
            #[inline(always)]
            fn part(regs: &Regs, register: u32, part: usize) -> [$t; 8] {
                regs.$file[register as usize].0.as_chunks::<8>().0[part]
            }
            #[inline(always)]
            fn put_part(regs: &mut Regs, register: u32, part: usize, values: [$t; 8]) {
                regs.$file[register as usize].0.as_chunks_mut::<8>().0[part] = values;
            }
            #[inline(always)]
            fn lane(regs: &Regs, register: u32, lane: usize) -> $t {
                regs.$file[register as usize].0[lane]
            }
            #[inline(always)]
            fn put_lane(regs: &mut Regs, register: u32, lane: usize, value: $t) {
                regs.$file[register as usize].0[lane] = value;
            }
        }

        impl Word for $t {
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
    const ZERO: bool = false;
    #[inline(always)]
    fn part(regs: &Regs, register: u32, part: usize) -> [bool; 8] {
        let bits = regs.pred[register as usize] >> (8 * part);
        std::array::from_fn(|lane| bits >> lane & 1 == 1)
    }
    #[inline(always)]
    fn put_part(regs: &mut Regs, register: u32, part: usize, values: [bool; 8]) {
        let mut bits = 0;
        for (lane, &v) in values.iter().enumerate() {
            bits |= u32::from(v) << (8 * part + lane);
        }
        let to = &mut regs.pred[register as usize];
        *to = *to & !(0xff << (8 * part)) | bits;
    }
    #[inline(always)]
    fn lane(regs: &Regs, register: u32, lane: usize) -> bool {
        regs.pred[register as usize] >> lane & 1 == 1
    }
    #[inline(always)]
    fn put_lane(regs: &mut Regs, register: u32, lane: usize, value: bool) {
        let to = &mut regs.pred[register as usize];
        *to = *to & !(1 << lane) | u32::from(value) << lane;
    }
}
