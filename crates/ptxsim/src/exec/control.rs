//! Executes the instructions that change where lanes go on, or end them: branches, calls, returns, exits and traps.
//!
//! Lanes that part are put among the groups of their warp (`divergence`), each at its next instruction. The warp then
//! picks the group that runs next.

use super::access::address::Site;
use super::divergence::Current;
use super::state::*;
use super::warp::Next;
use crate::regs::lanes;
use crate::report::*;

impl Machine<'_> {
    /// Executes `bra`. Present lanes that do not take it go on behind it.
    #[inline(always)]
    pub fn branch(&mut self, w: &mut Warp, now: &Current, mask: u32, to: u32) -> Next {
        if mask == now.mask {
            return Next::Jump(to);
        }
        if mask == 0 {
            return Next::Step;
        }
        self.costs.at(now.pc).divergent += 1;
        w.lanes.park(now, mask, to);
        w.lanes.park(now, now.mask & !mask, now.pc + 1);
        Next::Reschedule
    }

    /// Executes `brx.idx`: each lane goes to the target that its index register selects.
    pub fn branch_indexed(
        &mut self,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        (targets, index): (&[u32], u32),
    ) -> Run<Next> {
        w.lanes.leave_others(now, mask);
        let index = w.regs.r32[index as usize].0;
        for l in lanes(mask) {
            let index = index[l];
            let Some(&to) = targets.get(index as usize) else {
                let what = format!("brx.idx with index {index} of {} targets", targets.len());
                return Site::new(now.pc, l).refuse(FaultKind::Undefined, what);
            };
            w.lanes.park(now, 1 << l, to);
        }
        let first = lanes(mask).next().map(|l| index[l]);
        if lanes(mask).any(|l| Some(index[l]) != first) {
            self.costs.at(now.pc).divergent += 1;
        }
        Ok(Next::Reschedule)
    }

    /// Executes a `call` through a register: each lane enters the function that its register names.
    pub fn call_indirect(
        &mut self,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        (table, callee): (&[(u64, u32)], u32),
    ) -> Run<Next> {
        w.lanes.leave_others(now, mask);
        let to = self.targets(w, table, callee, Site { pc: now.pc, mask })?;
        now.open_call();
        for l in lanes(mask) {
            w.lanes.park(now, 1 << l, to[l]);
        }
        Ok(Next::Reschedule)
    }

    /// Executes `exit`: the lanes are gone, and what they have under way ends.
    pub fn exit<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
    ) -> Next {
        w.lanes.leave_others(now, mask);
        let s = Site { pc: now.pc, mask };
        self.end_bulk_copies::<CHECKS>(b, w, s);
        self.end_products(b, w, s);
        if self.cluster.is_at_work() {
            self.cluster.leave(w, mask);
        }
        w.lanes.end(mask);
        b.barriers.leave(mask.count_ones());
        self.progress += 1;
        Next::Reschedule
    }

    /// Executes `trap`, which ends the launch. Cooperative groups execute one if the grid has no workspace.
    pub fn trap<T>(&self, s: Site) -> Run<T> {
        let what = if self.program.asks_for_workspace() && !self.job.cooperative {
            "trap: the kernel synchronises its grid, and the launch is not cooperative,"
        } else {
            "trap"
        };
        s.refuse(FaultKind::Trap, what)
    }

    /// Ends the launch with the message of a failed `assert`. `told` says where the thread's local memory has its parts.
    pub fn fail_assertion<T>(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        told: Option<[u32; 4]>,
    ) -> Run<T> {
        let thread = w.first_thread() + s.mask.trailing_zeros();
        let number = |place: u32, bytes: usize| self.local_number(b, thread, place, bytes);
        let text =
            |place: u32| String::from_utf8_lossy(&self.memory.text(number(place, 8))).into_owned();
        let message = match told {
            None => "assertion failed".into(),
            Some([what, file, function, line]) => format!(
                "assertion `{}` failed in {} ({}:{})",
                text(what),
                text(function),
                text(file),
                number(line, 4)
            ),
        };
        s.refuse(FaultKind::Assert, message)
    }
}

/// Executes a direct `call`: the lanes enter the function together.
pub fn call(w: &mut Warp, now: &mut Current, mask: u32, to: u32) -> Next {
    w.lanes.leave_others(now, mask);
    now.open_call();
    w.lanes.park(now, mask, to);
    Next::Reschedule
}

/// Executes `ret`: the lanes go on behind the call that they opened last, or end where none is open.
pub fn return_from_call(w: &mut Warp, now: &mut Current, mask: u32) -> Next {
    w.lanes.leave_others(now, mask);
    if let Some(to) = now.close_call() {
        w.lanes.park(now, mask, to);
    }
    Next::Reschedule
}
