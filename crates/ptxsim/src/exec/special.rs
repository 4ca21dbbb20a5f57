//! Special registers (PTX ISA 10). Those of a launch, block, warp or lane have their values when a warp begins; clocks are
//! read. In a launch that varies its circumstances, some have the unusual value (`circumstance`).

use super::state::*;
use crate::check::global::Clustered;
use crate::isa::*;
use crate::program::*;
use crate::regs::{Block as Lanes, Class, LANES, Regs, lanes};

impl Machine<'_> {
    /// Returns the registers of a warp that begins in the block `id` of `threads` threads. Constants and special registers
    /// have their values, and the others are 0.
    pub fn new_registers(&self, id: [u32; 3], (index, threads): (u32, u32)) -> Regs {
        let p = self.program;
        let [np, n32, n64] = p.registers;
        let mut regs = Regs {
            pred: vec![0; np as usize],
            r32: vec![Lanes([0; LANES]); n32 as usize],
            r64: vec![Lanes([0; LANES]); n64 as usize],
        };
        for &(r, v) in &p.constants32 {
            regs.set32(r, |_| v);
        }
        for &(r, v) in &p.constants64 {
            regs.set64(r, |_| v);
        }
        let first_thread = index * LANES as u32;
        for &(special, class, r) in &p.specials {
            let Clustered { grid, cluster } = self.job.grid;
            let of_block = id[0] + grid[0] * (id[1] + grid[1] * id[2]);
            let is_workspace = self.job.cooperative && matches!(special, Special::Workspace { .. });
            let varied = if is_workspace {
                None
            } else {
                self.job
                    .limits
                    .varied
                    .special(special, (of_block, index), &self.named)
            };
            let value = |lane: usize| -> u32 {
                let bit = 1_u32 << lane;
                if let Some(varied) = varied {
                    return varied;
                }
                match special {
                    Special::Tid(a) => self.thread(first_thread + lane as u32)[a as usize],
                    Special::Ntid(a) => self.job.block[a as usize],
                    Special::Ctaid(a) => id[a as usize],
                    Special::Nctaid(a) => grid[a as usize],
                    Special::ClusterCtaid(a) => id[a as usize] % cluster[a as usize],
                    Special::ClusterNctaid(a) => cluster[a as usize],
                    Special::ClusterId(a) => id[a as usize] / cluster[a as usize],
                    Special::NClusterId(a) => grid[a as usize] / cluster[a as usize],
                    Special::ClusterCtarank => self.rank(id),
                    Special::ClusterNctarank => cluster.iter().product(),
                    Special::IsExplicitCluster => u32::from(self.job.explicit_cluster),
                    Special::LaneId => lane as u32,
                    Special::WarpId => index,
                    Special::NWarpId => threads.div_ceil(32),
                    // One multiprocessor, as far as a program can see.
                    Special::SmId | Special::GridId | Special::DriverRegister => 0,
                    Special::NSmId => 1,
                    Special::LaneMaskEq => bit,
                    Special::LaneMaskLt => bit - 1,
                    Special::LaneMaskLe => bit | (bit - 1),
                    Special::LaneMaskGt => !(bit | (bit - 1)),
                    Special::LaneMaskGe => !(bit - 1),
                    Special::DynamicSharedSize => self.job.dynamic_shared,
                    Special::TotalSharedSize => self.job.shared_bytes,
                    Special::ReservedShared { end: false } => 0,
                    Special::ReservedShared { end: true } => p.reserved_shared,
                    Special::Workspace { .. } if !self.job.cooperative => 0,
                    Special::Workspace { high: true } => (WORKSPACE >> 32) as u32,
                    Special::Workspace { high: false } => WORKSPACE as u32,
                }
            };
            match class {
                Class::R64 => regs.set64(r, |l| u64::from(value(l))),
                Class::Pred => {
                    regs.pred[r as usize] = if value(0) == 0 { 0 } else { u32::MAX };
                }
                _ => regs.set32(r, value),
            }
        }
        regs
    }

    /// Executes a read of `%clock` or, if it is `wide`, `%clock64`. Time passes with the instructions of the warp.
    pub fn read_clock(&self, b: &BlockState, w: &mut Warp, (to, wide): (u32, bool), mask: u32) {
        let time = self.job.limits.varied.time(w.executed, (b.number, w.index));
        for l in lanes(mask) {
            if wide {
                w.regs.r64[to as usize].0[l] = time;
            } else {
                w.regs.r32[to as usize].0[l] = time as u32;
            }
        }
    }
}
