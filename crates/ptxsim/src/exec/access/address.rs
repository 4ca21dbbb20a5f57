//! Computes the addresses of a warp's lanes, and finds the window of generic addresses that they lie in.

use crate::isa::*;
use crate::regs::{Class, LANES, Regs, lanes};

pub type Addresses = [u64; LANES];

/// The instruction and the lanes that access, for checks and messages.
#[derive(Clone, Copy)]
pub struct Site {
    pub pc: u32,
    pub mask: u32,
}

impl Site {
    pub fn new(pc: u32, lane: usize) -> Self {
        let mask = 1 << lane;
        Self { pc, mask }
    }

    /// Returns the same instruction, by one lane alone.
    pub fn only(self, lane: usize) -> Self {
        Self::new(self.pc, lane)
    }
}

/// Returns the address of each lane: the register plus the offset.
#[inline(always)]
pub fn addresses(regs: &Regs, (class, register): (Class, u32), offset: i64) -> Addresses {
    match class {
        Class::R64 => {
            std::array::from_fn(|l| regs.r64[register as usize].0[l].wrapping_add(offset as u64))
        }
        // A 32-bit address with a negative offset must not become a 64-bit one.
        _ => std::array::from_fn(|l| {
            u64::from(regs.r32[register as usize].0[l].wrapping_add(offset as u32))
        }),
    }
}

/// Splits generic addresses. Returns the space of the first lane, all lanes in that space, and their addresses in it.
#[inline(always)]
pub fn split<'a>(
    space: AddressSpace,
    a: &'a Addresses,
    mask: u32,
    room: &'a mut Addresses,
) -> (AddressSpace, u32, &'a Addresses) {
    if space != AddressSpace::Generic || mask == 0 {
        return (space, mask, a);
    }
    let (space, mask, inside) = split_generic(a, mask);
    *room = inside;
    (space, mask, room)
}

fn split_generic(a: &Addresses, mask: u32) -> (AddressSpace, u32, Addresses) {
    let window = |x: u64| match x >> 32 {
        1 if x as u32 >> CLUSTER_PAGE == 0 => (AddressSpace::Shared, SHARED_WINDOW),
        1 => (AddressSpace::Cluster, SHARED_WINDOW),
        2 => (AddressSpace::Local, LOCAL_WINDOW),
        3 => (AddressSpace::Param, PARAM_WINDOW),
        _ => (AddressSpace::Global, 0),
    };
    let (space, base) = window(a[mask.trailing_zeros() as usize]);
    let mut same = 0;
    for l in lanes(mask) {
        if window(a[l]).0 == space {
            same |= 1 << l;
        }
    }
    (
        space,
        same,
        std::array::from_fn(|l| a[l].wrapping_sub(base)),
    )
}
