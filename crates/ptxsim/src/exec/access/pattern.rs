//! Remembers how the addresses of a warp's access lie to one another, from one execution of an instruction to the next.
//!
//! A loop accesses one part of an array after the other in the same arrangement, at another base. Bank conflicts,
//! sectors and the question which lanes share an address follow from the distances between the lanes, and from where
//! the lowest address lies in a word, a sector or a block of places. So they are worked out when an instruction runs
//! first, and taken again while the arrangement is the same.
//!
//! One [`Pattern`] is kept by instruction, for all warps and blocks that a machine runs. It is valid for an access if
//! the same lanes take part and each lane's address has the same distance from that of the first lane.
//! [`Pattern::lowest`] compares these for all lanes at once. After a mismatch, the new arrangement is learnt and
//! replaces the old one (`steady`). An instruction whose arrangement changes each time thus learns each time, and its
//! results are the same.
//!
//! A pattern only saves work. It holds what its distances determine, and the last allocation as a hint that is checked.
//! No count and no finding depends on whether there is one: the test compares patterns with counts lane by lane.

use crate::check::cells::{BLOCK, Touch};
use crate::exec::observe::cost::{Passes, Way, wavefronts};
use crate::regs::{ALL, Class, LANES, Regs, lanes};

/// The lanes that access the same bytes. Accesses are aligned to their size, so two units never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The distance of these bytes from the lowest address of the pattern.
    pub at: u32,
    pub lanes: u32,
}

/// A stretch of bytes without a gap, and its distance from the lowest address of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub at: u32,
    pub bytes: u32,
}

/// The arrangement of the lanes, as far as it makes moving bytes quicker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All lanes of the mask have one address.
    Uniform,
    /// All 32 lanes access memory without a gap, in the order of their numbers.
    SideBySide,
    Any,
}

/// The arrangement of the lanes of one access, and what follows from it.
#[derive(Clone, Debug)]
pub struct Pattern {
    mask: u32,
    /// The first lane of the mask. Distances are from its address.
    first: usize,
    /// The distance of each lane, signed and modulo 2^32; 0 outside the mask.
    distances: [u32; LANES],
    /// All ones in the lanes of the mask.
    present: [u32; LANES],
    /// The distance of the lowest address.
    lowest: i64,
    pub shape: Shape,
    /// The distance of each lane from the lowest address; 0 outside the mask.
    pub at: [u32; LANES],
    /// The number of bytes from the lowest to the highest.
    pub span: u32,
    /// The units in the order of their addresses.
    pub units: Vec<Unit>,
    pub stretches: Vec<Stretch>,
    /// The result of [`Pattern::touches`] for each place in a block at which the lowest address may lie; empty until
    /// asked for.
    touches: [Vec<Touch>; BLOCK],
    /// True if two lanes have the same address.
    pub shared: bool,
    /// The place in a word or a sector at which the lowest address lay when wavefronts or sectors were counted last,
    /// and the counts.
    wavefronts: (u32, Passes),
    sectors: (u32, Passes),
    /// The allocation that this instruction hit last.
    pub allocation: usize,
}

/// The patterns of a program's instructions, one for each at most.
pub struct Patterns(Vec<Option<Box<Pattern>>>);

impl Patterns {
    pub fn new(instructions: usize) -> Self {
        Self((0..instructions).map(|_| None).collect())
    }

    /// Returns the pattern of an instruction, if it has one.
    #[inline(always)]
    pub fn slot(&mut self, instruction: u32) -> &mut Option<Box<Pattern>> {
        &mut self.0[instruction as usize]
    }
}

impl Pattern {
    /// Works out the pattern of these addresses. Returns `None` if the lanes are too far apart, or if an access is not
    /// aligned to its size relative to the first one: such accesses go lane by lane.
    pub fn learn(addresses: &[u64; LANES], mask: u32, bytes: u32) -> Option<Pattern> {
        if mask == 0 || !bytes.is_power_of_two() {
            return None;
        }
        let first = mask.trailing_zeros() as usize;
        let (mut distances, mut present) = ([0; LANES], [0; LANES]);
        let (mut lowest, mut highest) = (0_i32, 0_i32);
        for l in lanes(mask) {
            let distance = addresses[l].wrapping_sub(addresses[first]) as i64;
            let distance = i32::try_from(distance)
                .ok()
                .filter(|d| d.unsigned_abs() < 1 << 30)?;
            if distance as u32 & (bytes - 1) != 0 {
                return None;
            }
            distances[l] = distance as u32;
            present[l] = u32::MAX;
            lowest = lowest.min(distance);
            highest = highest.max(distance);
        }
        let mut at = [0; LANES];
        let mut units: Vec<Unit> = Vec::with_capacity(LANES);
        let mut rising = true;
        for l in lanes(mask) {
            at[l] = distances[l].wrapping_sub(lowest as u32);
            match units.last_mut() {
                Some(u) if u.at == at[l] => u.lanes |= 1 << l,
                last => {
                    rising &= last.is_none_or(|u| u.at < at[l]);
                    units.push(Unit {
                        at: at[l],
                        lanes: 1 << l,
                    });
                }
            }
        }
        if !rising {
            units.sort_unstable_by_key(|u| u.at);
            units.dedup_by(|next, kept| {
                let same = next.at == kept.at;
                kept.lanes |= if same { next.lanes } else { 0 };
                same
            });
        }
        let mut stretches: Vec<Stretch> = Vec::new();
        for u in &units {
            match stretches.last_mut() {
                Some(s) if s.at + s.bytes == u.at => s.bytes += bytes,
                _ => stretches.push(Stretch { at: u.at, bytes }),
            }
        }
        let side_by_side = mask == ALL && (0..LANES).all(|l| at[l] == l as u32 * bytes);
        Some(Pattern {
            mask,
            first,
            distances,
            present,
            lowest: i64::from(lowest),
            shape: match units.len() {
                1 => Shape::Uniform,
                _ if side_by_side => Shape::SideBySide,
                _ => Shape::Any,
            },
            span: highest.wrapping_sub(lowest) as u32 + bytes,
            wavefronts: (u32::MAX, Passes::default()),
            sectors: (u32::MAX, Passes::default()),
            allocation: usize::MAX,
            at,
            shared: units.iter().any(|u| !u.lanes.is_power_of_two()),
            touches: Default::default(),
            units,
            stretches,
        })
    }

    /// Returns the lowest address of an access, or `None` if its lanes or their distances are others than those of this
    /// pattern.
    #[inline(always)]
    pub fn lowest(
        &self,
        regs: &Regs,
        (class, register): (Class, u32),
        offset: i64,
        mask: u32,
    ) -> Option<u64> {
        if mask != self.mask {
            return None;
        }
        let mut off = 0;
        let base = match class {
            Class::R64 => {
                let a = &regs.r64[register as usize].0;
                let base = a[self.first % LANES];
                let mut wide = 0;
                for ((a, distance), present) in a.iter().zip(&self.distances).zip(&self.present) {
                    // Both are sign-extended.
                    let (distance, present) = (*distance as i32 as u64, *present as i32 as u64);
                    wide |= (a.wrapping_sub(base) ^ distance) & present;
                }
                off |= u32::from(wide != 0);
                base.wrapping_add(offset as u64)
            }
            _ => {
                let a = &regs.r32[register as usize].0;
                let base = a[self.first % LANES];
                for ((a, distance), present) in a.iter().zip(&self.distances).zip(&self.present) {
                    off |= (a.wrapping_sub(base) ^ distance) & present;
                }
                u64::from(base.wrapping_add(offset as u32))
            }
        };
        (off == 0).then_some(())?;
        base.checked_add_signed(self.lowest)
    }

    /// Returns the places of `1 << shift` bytes that the lanes touch, for the race checks. `shift` is the same in all
    /// calls, and at most the size of the access.
    #[inline(always)]
    pub fn touches(&mut self, lowest: u32, bytes: u32, shift: u32) -> &[Touch] {
        let phase = (lowest >> shift) as usize % BLOCK;
        if self.touches[phase].is_empty() {
            self.touches[phase] = self.list_touches(phase, bytes, shift);
        }
        &self.touches[phase]
    }

    fn list_touches(&self, phase: usize, bytes: u32, shift: u32) -> Vec<Touch> {
        let mut all: Vec<Touch> = Vec::new();
        for u in &self.units {
            for n in 0..(bytes >> shift).max(1) {
                let place = phase + ((u.at >> shift) + n) as usize;
                let (block, i) = ((place / BLOCK) as u32, place % BLOCK);
                if all.last().is_none_or(|t| t.block != block) {
                    all.push(Touch {
                        block,
                        lanes: [0; BLOCK],
                    });
                }
                if let Some(last) = all.last_mut() {
                    last.lanes[i] |= u.lanes;
                }
            }
        }
        all
    }

    /// Returns the passes through shared memory. They depend on where in a word the lowest address lies, because moving
    /// all lanes by whole words moves all banks alike.
    #[inline(always)]
    pub fn wavefronts(&mut self, lowest: u64, bytes: u32, way: Way) -> Passes {
        let phase = lowest as u32 % 4;
        if self.wavefronts.0 != phase {
            let at = self.at.map(|x| phase + x);
            self.wavefronts = (phase, wavefronts(&at, self.mask, bytes, way));
        }
        self.wavefronts.1
    }

    /// Returns the sectors of 32 bytes that an access of `bytes` by each lane touches from `lowest` on. The ideal
    /// counts each different address once: a broadcast needs one sector.
    #[inline(always)]
    pub fn sectors(&mut self, lowest: u64, bytes: u32) -> Passes {
        let phase = lowest as u32 % 32;
        if self.sectors.0 != phase {
            self.sectors = (phase, self.count_sectors(phase, bytes));
        }
        self.sectors.1
    }

    fn count_sectors(&self, phase: u32, bytes: u32) -> Passes {
        let mut passes = Passes::default();
        let mut last = u32::MAX;
        for u in &self.units {
            for sector in [(phase + u.at) / 32, (phase + u.at + bytes - 1) / 32] {
                passes.taken += u64::from(sector != last);
                last = sector;
            }
        }
        passes.ideal = (self.units.len() as u64 * u64::from(bytes)).div_ceil(32);
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::observe::cost;
    use crate::regs::Block;
    use proptest::prelude::*;

    proptest! {
        /// Compares a stored pattern with a count of the addresses themselves, also at another base.
        #[test]
        fn as_counted_lane_by_lane(
            places in prop::array::uniform32(0_u64..90),
            regular in prop::option::of((0_u64..5, 0_u64..40)),
            (mask, size) in (1..=u32::MAX, 0_u32..5),
            moves in prop::collection::vec(0_u64..500, 1..6),
            way in prop::sample::select(&[Way::Load, Way::Store]),
        ) {
            let bytes = 1 << size;
            let place = |l: usize| regular.map_or(places[l], |(step, first)| first + step * l as u64);
            let address = |base: u64| -> [u64; LANES] {
                std::array::from_fn(|l| 0x10_0000_0000 + (base + place(l)) * u64::from(bytes))
            };
            let mut p = Pattern::learn(&address(0), mask, bytes).unwrap();
            for base in moves {
                let a = address(base);
                let regs = Regs { r64: vec![Block(a)], ..Regs::default() };
                let lowest = p.lowest(&regs, (Class::R64, 0), 0, mask).unwrap();
                prop_assert_eq!(lowest, lanes(mask).map(|l| a[l]).min().unwrap());
                prop_assert!(lanes(mask).all(|l| lowest + u64::from(p.at[l]) == a[l]));
                prop_assert_eq!(p.sectors(lowest, bytes), cost::sectors(&a, mask, bytes));
                let low = a.map(|x| x as u32);
                prop_assert_eq!(p.wavefronts(lowest, bytes, way), cost::wavefronts(&low, mask, bytes, way));
                let touched: u32 = p.touches(lowest as u32, bytes, 0).iter()
                    .flat_map(|t| t.lanes).map(|l| u32::from(l != 0)).sum();
                prop_assert_eq!(touched, p.stretches.iter().map(|s| s.bytes).sum::<u32>());
                if let Some(l) = lanes(mask).nth(1) {
                    let mut other = a;
                    other[l] ^= u64::from(bytes) << 9;
                    let regs = Regs { r64: vec![Block(other)], ..Regs::default() };
                    prop_assert_eq!(p.lowest(&regs, (Class::R64, 0), 0, mask), None);
                }
            }
        }
    }
}
