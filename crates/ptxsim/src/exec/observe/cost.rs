//! Counts memory accesses in the units that hardware counters use.

use crate::exec::access::address::{Addresses, Site};
use crate::exec::access::{Counting, LaneAccess};
use crate::exec::state::Machine;
use crate::isa::Direction;
use crate::regs::{LANES, lanes};
use crate::report::Cost;
use crate::switch::{Observer, is_off};

/// The number of wavefronts or sectors, and the fewest possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    pub taken: u64,
    pub ideal: u64,
}

impl Passes {
    /// Returns passes of which none is too many.
    pub fn ideal(taken: u64) -> Self {
        Self {
            taken,
            ideal: taken,
        }
    }
}

/// The direction of an access to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Load,
    Store,
}

/// Returns the largest number of different units of `bytes` (4, 8 or 16) that one group of banks has to deliver. An
/// access is aligned to its size, so one of 16 bytes takes four neighbouring banks as one.
fn worst(a: &[u32; LANES], mask: u32, bytes: u32) -> u32 {
    let (shift, groups) = (bytes.trailing_zeros(), 128 / bytes);
    // The lanes whose unit counts, chained by group of banks; LANES ends a chain.
    let (mut heads, mut next, mut depths) = ([LANES; 32], [LANES; LANES], [0_u32; 32]);
    let mut worst = 1;
    for l in lanes(mask) {
        let unit = a[l] >> shift;
        let group = (unit % groups) as usize % 32;
        let mut other = heads[group];
        while other < LANES && a[other] >> shift != unit {
            other = next[other];
        }
        if other == LANES {
            next[l] = heads[group];
            heads[group] = l;
            depths[group] += 1;
            worst = worst.max(depths[group]);
        }
    }
    worst
}

/// Returns the wavefronts of an access to shared memory. There are 32 banks of 4 bytes, and lanes that want the same
/// word share it. 8-byte accesses go in half warps, 16-byte accesses in quarters. Two of these go as one if the access
/// is a load and every lane wants what its neighbour wants, or every lane what the next but one wants. An H100 counted
/// so (CALIBRATION.md).
pub fn wavefronts(a: &[u32; LANES], mask: u32, bytes: u32, way: Way) -> Passes {
    let groups: &[u32] = match bytes {
        16 => &[0x0000_ffff, 0xffff_0000],
        _ => &[u32::MAX],
    };
    let mut passes = Passes::default();
    for group in groups {
        let mask = mask & group;
        let joined = way == Way::Load && (paired(a, mask, 1) || paired(a, mask, 2));
        let halves = if bytes < 8 || joined {
            [mask, 0]
        } else {
            let low = group & (group >> (group.count_ones() / 2));
            [mask & low, mask & !low]
        };
        for mask in halves.into_iter().filter(|m| *m != 0) {
            passes.taken += u64::from(worst(a, mask, bytes.clamp(4, 16)));
            passes.ideal += 1;
        }
    }
    passes
}

/// Returns the sectors of 32 bytes that an access to global memory touches. The ideal counts each different address
/// once: a broadcast needs one sector.
pub fn sectors(a: &Addresses, mask: u32, bytes: u32) -> Passes {
    let mut sectors = [0_u64; 2 * LANES];
    let mut n = 0;
    let mut sorted = true;
    for l in lanes(mask) {
        let (first, last) = (a[l] >> 5, a[l].saturating_add(u64::from(bytes) - 1) >> 5);
        for sector in [first, last] {
            if n == 0 || sectors[n - 1] != sector {
                sorted &= n == 0 || sectors[n - 1] < sector;
                sectors[n] = sector;
                n += 1;
            }
        }
    }
    if !sorted {
        sectors[..n].sort_unstable();
    }
    let distinct = if sorted {
        n
    } else {
        1 + sectors[..n].windows(2).filter(|p| p[0] != p[1]).count()
    };
    let mut starts = [0_u64; LANES];
    let mut m = 0;
    let mut rising = true;
    for l in lanes(mask) {
        if m == 0 || starts[m - 1] != a[l] {
            rising &= m == 0 || starts[m - 1] < a[l];
            starts[m] = a[l];
            m += 1;
        }
    }
    if !rising {
        starts[..m].sort_unstable();
    }
    let different = if rising {
        m
    } else {
        1 + starts[..m].windows(2).filter(|p| p[0] != p[1]).count()
    };
    Passes {
        taken: distinct as u64,
        ideal: (different as u64 * u64::from(bytes)).div_ceil(32),
    }
}

/// Returns true if every lane has the address of the lane whose number differs in this bit, if that takes part.
fn paired(a: &[u32; LANES], mask: u32, bit: usize) -> bool {
    lanes(mask).all(|l| mask >> (l ^ bit) & 1 == 0 || a[l] == a[l ^ bit])
}

/// Returns the wavefronts of `ldmatrix` and `stmatrix`: each matrix, 8 rows of 16 bytes, by itself.
pub fn matrix_wavefronts(rows: &[u32; LANES], matrices: usize) -> Passes {
    let of = |n: usize| u64::from(worst(rows, 0xff << (8 * n), 16));
    Passes {
        taken: (0..matrices).map(of).sum(),
        ideal: matrices as u64,
    }
}

/// Returns true if a copy of 16 bytes by each lane moves whole sectors of 32 bytes to whole sectors.
pub fn whole_sectors(to: &Addresses, from: &Addresses, mask: u32) -> bool {
    lanes(mask).all(|l| {
        let other = |m: usize| to[m] == to[l] ^ 16 && from[m] == from[l] ^ 16;
        mask >> (l ^ 1) & 1 == 1 && other(l ^ 1) || lanes(mask).any(other)
    })
}

/// The costs of each instruction of a program.
///
/// How often warps issued an instruction, and with how many lanes, is kept as differences between neighbouring
/// instructions, modulo 2^64. A run of instructions then costs as much as one.
pub struct Costs {
    all: Vec<Cost>,
    issues: Vec<(u64, u64)>,
}

impl Costs {
    pub fn new(instructions: usize) -> Self {
        Self {
            all: vec![Cost::default(); instructions],
            issues: vec![(0, 0); instructions + 1],
        }
    }

    #[inline(always)]
    pub fn at(&mut self, instruction: u32) -> &mut Cost {
        &mut self.all[instruction as usize]
    }

    /// Notes that the instructions `from..end` were issued by this number of lanes.
    #[inline(always)]
    pub fn issue(&mut self, from: u32, end: u32, lanes: u32) {
        let at = &mut self.issues[from as usize];
        *at = (at.0.wrapping_add(1), at.1.wrapping_add(lanes.into()));
        let at = &mut self.issues[end as usize];
        *at = (at.0.wrapping_sub(1), at.1.wrapping_sub(lanes.into()));
    }

    /// Takes back issues and lanes that were noted for an instruction that waits, or whose guard is false.
    #[inline(always)]
    pub fn take_back(&mut self, instruction: u32, issues: u64, lanes: u32) {
        let at = instruction as usize;
        let here = &mut self.issues[at];
        *here = (
            here.0.wrapping_sub(issues),
            here.1.wrapping_sub(lanes.into()),
        );
        let next = &mut self.issues[at + 1];
        *next = (
            next.0.wrapping_add(issues),
            next.1.wrapping_add(lanes.into()),
        );
    }

    /// Removes all costs and returns them.
    pub fn take(&mut self) -> Vec<Cost> {
        let mut costs = std::mem::take(&mut self.all);
        let mut now = (0_u64, 0_u64);
        for (cost, change) in costs.iter_mut().zip(&self.issues) {
            now = (now.0.wrapping_add(change.0), now.1.wrapping_add(change.1));
            cost.issued += now.0;
            cost.lanes += now.1;
        }
        costs
    }
}

impl Machine<'_> {
    /// Returns the cost of an instruction, or `None` if its counting is switched off.
    #[inline(always)]
    pub fn cost(&mut self, pc: u32) -> Option<&mut Cost> {
        if is_off(Observer::Cost, pc) {
            return None;
        }
        Some(self.costs.at(pc))
    }

    /// Counts an access whose number of passes is not known.
    pub fn count_request(&mut self, s: Site) {
        if let Some(cost) = self.cost(s.pc) {
            cost.requests += 1;
        }
    }

    /// Counts an access to global memory.
    pub fn count_global(&mut self, x: &LaneAccess) {
        self.add_global(x.site, x.bytes, sectors(x.at, x.site.mask, x.bytes));
    }

    /// Counts an access to shared memory, in the way in which its instruction is counted.
    #[inline(always)]
    pub fn count_shared(&mut self, x: &LaneAccess) {
        // The counted addresses lie in shared memory, which is smaller than 4 GiB.
        let at = || x.at.map(|address| address as u32);
        let passes = match x.counting {
            Counting::Apart => return,
            Counting::Matrices(matrices) => matrix_wavefronts(&at(), matrices),
            Counting::Lanes => {
                let way = if x.direction == Direction::Read {
                    Way::Load
                } else {
                    Way::Store
                };
                wavefronts(&at(), x.site.mask, x.bytes, way)
            }
        };
        self.add_shared(x.site, passes);
    }

    /// Adds a request with these passes to the costs of an instruction.
    #[inline(always)]
    pub fn add_shared(&mut self, s: Site, passes: Passes) {
        if let Some(cost) = self.cost(s.pc) {
            cost.requests += 1;
            cost.wavefronts += passes.taken;
            cost.ideal_wavefronts += passes.ideal;
        }
    }

    /// Adds a request with these sectors to the costs of an instruction.
    #[inline(always)]
    pub fn add_global(&mut self, s: Site, bytes: u32, passes: Passes) {
        if let Some(cost) = self.cost(s.pc) {
            cost.requests += 1;
            cost.global_requests += 1;
            cost.global_bytes += u64::from(bytes) * u64::from(s.mask.count_ones());
            cost.sectors += passes.taken;
            cost.ideal_sectors += passes.ideal;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wavefronts_at(at: impl Fn(u32) -> u32, mask: u32, bytes: u32) -> u64 {
        let at = std::array::from_fn(|l| at(l as u32) * bytes);
        wavefronts(&at, mask, bytes, Way::Load).taken
    }

    /// The counts of ncu on an H100 (CALIBRATION.md).
    #[test]
    fn wide_accesses_go_in_parts_that_may_be_joined() {
        let all = u32::MAX;
        assert_eq!([4, 8, 16].map(|b| wavefronts_at(|l| l, all, b)), [1, 2, 4]);
        assert_eq!([4, 8, 16].map(|b| wavefronts_at(|_| 3, all, b)), [1, 1, 2]);
        assert_eq!(
            [2, 8, 32].map(|n| wavefronts_at(|l| n * l, all, 4)),
            [2, 8, 32]
        );
        assert_eq!(
            [2, 8, 17].map(|n| wavefronts_at(|l| n * l, all, 8)),
            [4, 16, 2]
        );
        assert_eq!(
            [2, 8, 9].map(|n| wavefronts_at(|l| n * l, all, 16)),
            [8, 32, 4]
        );
        // quarters, pairs, every second
        assert_eq!([8, 16].map(|b| wavefronts_at(|l| l / 4, all, b)), [1, 2]);
        assert_eq!(wavefronts_at(|l| l / 2, all, 8), 1);
        assert_eq!(wavefronts_at(|l| l % 16, all, 8), 2);
        assert_eq!(wavefronts_at(|l| l % 2 * 16, all, 8), 2);
        assert_eq!([4, 8].map(|n| wavefronts_at(|l| l % n, all, 16)), [4, 4]);
        // a lane that is off is no obstacle
        let odd = 0xaaaa_aaaa;
        assert_eq!([8, 16].map(|b| wavefronts_at(|l| l / 2, odd, b)), [1, 2]);
        assert_eq!(wavefronts_at(|l| l / 8 * 4 + l % 4, 0xf0f0_f0f0, 8), 2);
        let pairs = std::array::from_fn(|l| l as u32 / 2 * 8);
        assert_eq!(wavefronts(&pairs, all, 8, Way::Store).taken, 2);
    }

    #[test]
    fn matrices_go_one_by_one() {
        let rows = |pitch: u32| std::array::from_fn(|l| l as u32 * pitch);
        assert_eq!(matrix_wavefronts(&rows(128), 4).taken, 32);
        assert_eq!(matrix_wavefronts(&rows(144), 4).taken, 4);
        assert_eq!(matrix_wavefronts(&rows(144), 1).taken, 1);
    }
}
