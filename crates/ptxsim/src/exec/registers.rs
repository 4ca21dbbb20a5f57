//! Registers that the warps of a block hand on by `setmaxnreg` (PTX ISA, "setmaxnreg"). A warp that asks for more waits
//! until others have released enough. The launch gives each warp the number that ptxas found at entry, and the block
//! none besides. The registers of a warp that has ended do not come back: PTX ISA does not say that they do.

use super::access::address::Site;
use super::divergence::Current;
use super::state::*;
use super::warp::Next;
use crate::isa::*;
use crate::regs::LANES;
use crate::report::*;
use model::FindingEvent;

/// The registers that one thread of each warp has, and those that are free.
#[derive(Default)]
pub struct RegisterPool {
    /// The registers that warps have released and none has taken again.
    free: u32,
    warps: Vec<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    count: u32,
    /// The number of times that it has changed, and the instruction that changed it last.
    changes: u32,
    instruction: u32,
}

impl RegisterPool {
    pub fn new(at_entry: Option<u32>, warps: u32) -> RegisterPool {
        let held = at_entry.map(|count| Held {
            count,
            changes: 0,
            instruction: 0,
        });
        RegisterPool {
            free: 0,
            warps: held.map_or(Vec::new(), |held| vec![held; warps as usize]),
        }
    }

    /// Returns the number of registers that are missing for a warp that asks for `count`.
    fn lacks(&self, warp: u32, count: u32) -> u32 {
        let held = self.warps.get(warp as usize);
        let more = held.map_or(0, |held| count.saturating_sub(held.count));
        more.saturating_sub(self.free)
    }

    /// Returns true if a warp can have `count` registers a thread now.
    pub fn suffices(&self, warp: u32, count: u32) -> bool {
        self.lacks(warp, count) == 0
    }

    /// Describes in a message what a warp waits for.
    pub fn wait(&self, warp: u32, count: u32) -> String {
        let lacks = self.lacks(warp, count) * LANES as u32;
        let sum: u32 = self.warps.iter().map(|held| held.count).sum();
        let all = (sum + self.free) * LANES as u32;
        format!(
            "wait for {lacks} registers more than the block has free, to have {count} a thread (the launch allocated \
             {all} to the block)"
        )
    }
}

impl Machine<'_> {
    /// Executes `setmaxnreg`. The warp waits if others have to release registers first. ptxas ignores the instruction if
    /// it does not know how many registers the kernel has at entry.
    pub fn set_registers(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        change: SetRegisters,
        (now, mask): (&mut Current, u32),
    ) -> Run<Next> {
        if self.gather_warp(b, w, now, mask)?.is_none() {
            return Ok(Next::Reschedule);
        }
        let count = change.count;
        let Some(held) = b.registers.warps.get(w.index as usize).copied() else {
            self.progress += 1;
            return Ok(Next::Step);
        };
        let is_wrong = if change.takes {
            held.count > count
        } else {
            held.count < count
        };
        if is_wrong {
            let what = format!(
                "{} to {count} registers a thread by a warp that has {}",
                change.name(),
                held.count
            );
            return Site::new(now.pc, 0).refuse(FaultKind::Undefined, what);
        }
        if !b.registers.suffices(w.index, count) {
            let wait = Wait::Registers { count };
            return Ok(self.wait_again(w, now, (now.mask, 0), wait));
        }
        b.registers.free = (b.registers.free + held.count).saturating_sub(count);
        if let Some(held) = b.registers.warps.get_mut(w.index as usize) {
            *held = Held {
                count,
                changes: held.changes + 1,
                instruction: now.pc,
            };
        }
        self.progress += 1;
        Ok(Next::Step)
    }

    /// Reports, at the end of a block, a warpgroup whose warps have not all done the same.
    pub fn tell_uneven_registers(&mut self, b: &BlockState) {
        let mut uneven = Vec::new();
        for (group, warps) in b.registers.warps.chunks(4).enumerate() {
            let most = warps
                .iter()
                .enumerate()
                .max_by_key(|(_, held)| held.changes);
            let Some((warp, most)) = most else { continue };
            let same = |held: &Held| (held.changes, held.count) == (most.changes, most.count);
            if !warps.iter().all(same) {
                uneven.push((group * 4 + warp, most.instruction));
            }
        }
        for (warp, instruction) in uneven {
            let at = At::thread(b.id, (warp * LANES) as u32, instruction);
            self.find(FindingKind::InvalidMembers, at, None, |_| {
                FindingEvent::SplitWarpgroup
            });
        }
    }
}
