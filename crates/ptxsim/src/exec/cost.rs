//! What memory accesses cost, in the units that hardware counters use.

use super::mem::{Addresses, Site, lanes, step_of};
use super::regs::LANES;
use super::state::Machine;

/// Room to work out bank conflicts.
pub struct Banks {
    units: [[u32; LANES]; 32],
    depth: [u32; 32],
}

impl Banks {
    pub const fn new() -> Banks {
        Banks {
            units: [[0; LANES]; 32],
            depth: [0; 32],
        }
    }

    /// The most different units of `bytes` (4, 8 or 16) that any group of banks has to deliver. An
    /// access is aligned to its size, so one of 16 bytes takes four neighbouring banks as one.
    #[inline(always)]
    fn worst(&mut self, a: &Addresses, mask: u32, bytes: u32) -> u32 {
        self.depth = [0; 32];
        let (shift, groups) = (bytes.trailing_zeros(), 128 / bytes as usize);
        let mut worst = 1;
        for l in lanes(mask) {
            let unit = (a[l] >> shift) as u32;
            let group = unit as usize % groups % 32;
            let (held, depth) = (&mut self.units[group], &mut self.depth[group]);
            if held[..*depth as usize].contains(&unit) {
                continue;
            }
            // At most 32 lanes with one unit each: it fits.
            held[*depth as usize % LANES] = unit;
            *depth += 1;
            worst = worst.max(*depth);
        }
        worst
    }
}

impl Machine<'_> {
    pub fn count_global(&mut self, s: Site, a: &Addresses, bytes: u32) {
        let mut sectors = [0_u64; 2 * LANES];
        let mut n = 0;
        let mut sorted = true;
        for l in lanes(s.mask) {
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
        // The ideal counts each different address once: a broadcast needs one sector.
        let mut starts = [0_u64; LANES];
        let mut m = 0;
        let mut rising = true;
        for l in lanes(s.mask) {
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
        let cost = &mut self.costs[s.pc as usize];
        cost.requests += 1;
        cost.global_bytes += u64::from(bytes) * u64::from(s.mask.count_ones());
        cost.sectors += distinct as u64;
        cost.ideal_sectors += (different as u64 * u64::from(bytes)).div_ceil(32);
    }

    /// Wavefronts: 32 banks of 4 bytes; 8-byte accesses go in half warps, 16-byte in quarters;
    /// lanes that want the same word share it.
    pub fn count_shared(&mut self, s: Site, a: &Addresses, bytes: u32) {
        let phases = (bytes / 4).clamp(1, 4) as usize;
        let (mut total, mut ideal) = (0, 0);
        let full = s.mask == super::regs::ALL && bytes >= 4;
        let step = if full { step_of(a) } else { None };
        if step == Some(0) || step == Some(u64::from(bytes)) {
            // All in one place, or side by side: every bank once per phase.
            (total, ideal) = (phases as u64, phases as u64);
        } else {
            let per_phase = LANES / phases;
            for phase in 0..phases {
                let mask = s.mask & ((((1_u64 << per_phase) - 1) as u32) << (phase * per_phase));
                if mask != 0 {
                    total += u64::from(self.banks.worst(a, mask, bytes.clamp(4, 16)));
                    ideal += 1;
                }
            }
        }
        let cost = &mut self.costs[s.pc as usize];
        cost.requests += 1;
        cost.wavefronts += total;
        cost.ideal_wavefronts += ideal;
    }
}
