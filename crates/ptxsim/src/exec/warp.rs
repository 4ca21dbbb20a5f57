//! Runs one warp until it has to wait, ends, or has had its turn.
//!
//! The group of lanes with the lowest instruction runs first (`divergence`). A group that branches backwards many times
//! while others could run makes way for them for a while: it may be waiting for what they do.

use super::access::address::Site;
use super::access::transfer::Transfer;
use super::control::{call, return_from_call};
use super::divergence::Current;
use super::mbarrier::pending_count;
use super::state::*;
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use model::FindingEvent;

/// Backward branches that a group may take before others get a turn, and how long their turn is.
const PATIENCE: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More to do; its turn is over.
    Over,
    /// As `Over`, early: it looks again and again at what others have to change.
    Polling,
    /// Nobody in this warp can go on before something else happens in the block.
    Waiting,
    Ended,
}

/// Where the present lanes go on behind an instruction.
pub enum Next {
    Step,
    /// A step, after which others should have their turn.
    Yield,
    Jump(u32),
    /// The present lanes are done with, or have been put among the groups.
    Reschedule,
}

impl Machine<'_> {
    pub fn run_warp<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        turn: u64,
    ) -> Launched<Turn> {
        let mut left = turn;
        let mut exclusive = 0_u32;
        let mut after = None;
        let mut polling = false;
        loop {
            self.leave_barriers(b, w);
            let Some(mut now) = w.lanes.pick(after.take()) else {
                return Ok(if w.lanes.waiting().is_empty() {
                    Turn::Ended
                } else {
                    Turn::Waiting
                });
            };
            let others = w.lanes.next_ahead(&now);
            let yield_at = if exclusive > 0 {
                u32::MAX
            } else {
                others.unwrap_or(u32::MAX)
            };
            let mut spins = 0;
            loop {
                let turn_of_group = if exclusive > 0 {
                    u64::from(exclusive - 1)
                } else {
                    u64::MAX
                };
                let (from, mask) = (now.pc, now.mask);
                w.stream.run(mask, from);
                let stop = u64::from(from).saturating_add(left.min(turn_of_group));
                let stop = stop.min(u64::from(yield_at)) as u32;
                if from >= stop {
                    exclusive = 0;
                    w.lanes.set_aside(now);
                    break;
                }
                let next = if CHECKS && self.has_to_follow(w) {
                    self.straight_followed::<CHECKS>(b, w, &mut now, stop)
                } else {
                    self.straight::<CHECKS>(b, w, &mut now, stop)
                };
                let next = next.map_err(|refusal| self.refused(b, w, now.pc, *refusal))?;
                let end = now.pc + u32::from(!matches!(next, Next::Step));
                self.costs.issue(from, end, mask.count_ones());
                left -= u64::from(end - from);
                exclusive = exclusive.saturating_sub(end - from);
                match next {
                    Next::Step => {}
                    Next::Yield => {
                        now.pc += 1;
                        polling = true;
                        w.lanes.set_aside(now);
                        break;
                    }
                    Next::Jump(to) => {
                        if to <= now.pc {
                            spins += 1;
                            let clocks = b.shadow.as_ref();
                            let epoch = clocks.map_or(0, |clocks| clocks.epoch(w.index));
                            w.stream.turn(now.pc, to, epoch);
                        }
                        now.pc = to;
                        if spins > PATIENCE && others.is_some() {
                            exclusive = PATIENCE * 8;
                            after = Some(now.pc);
                            w.lanes.set_aside(now);
                            break;
                        }
                    }
                    Next::Reschedule => break,
                }
            }
            if turn - left >= self.instructions_left {
                let what = "the instruction budget is exhausted";
                let first = w.lanes.waiting().first();
                let (pc, mask) = first.map_or((0, 1), |group| (group.pc(), group.mask()));
                let at = At::lane(b, w, pc, mask.trailing_zeros());
                return Err(self.fault(FaultKind::Budget, at, what));
            }
            if polling {
                return Ok(Turn::Polling);
            }
            if left == 0 {
                return Ok(Turn::Over);
            }
        }
    }

    /// Instructions one after another, up to `stop` or to where the lanes of `now` change: then
    /// `Next::Step`, and `now` stands at the first instruction that did not run. Else it stands at the
    /// one that jumped, yielded or gave up.
    #[inline(always)]
    fn straight<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        stop: u32,
    ) -> Run<Next> {
        let program = self.program;
        let (from, mask_then, executed) = (now.pc, now.mask, w.executed);
        let mut next = Next::Step;
        while now.pc < stop && now.mask == mask_then {
            let inst = &program.code[now.pc as usize];
            let mask = self.guarded(w, inst, now);
            if let Op::Alu(op) = &inst.op {
                op.run(&mut w.regs, &inst.o, mask);
                now.pc += 1;
                continue;
            }
            w.executed = executed + u64::from(now.pc - from) + 1;
            next = self.step::<CHECKS>(b, w, inst, now, mask)?;
            match next {
                Next::Step => now.pc += 1,
                Next::Yield | Next::Jump(_) | Next::Reschedule => return Ok(next),
            }
            if CHECKS && w.undefined.is_some() {
                break;
            }
        }
        w.executed = executed + u64::from(now.pc - from);
        Ok(next)
    }

    /// Returns the present lanes that the guard lets execute the instruction.
    #[inline(always)]
    fn guarded(&mut self, w: &Warp, inst: &Inst, now: &Current) -> u32 {
        if inst.guard == 0 {
            return now.mask;
        }
        let p = w.regs.pred[(inst.guard >> 1) as usize - 1];
        let mask = now.mask & if inst.guard & 1 == 1 { !p } else { p };
        self.costs
            .take_back(now.pc, 0, (now.mask & !mask).count_ones());
        mask
    }

    /// Returns true if undefined values, registers of `wgmma` or what arises have to be followed.
    #[inline(always)]
    fn has_to_follow(&self, w: &Warp) -> bool {
        w.undefined.is_some() || !self.program.fragments.is_empty() || self.arising.is_some()
    }

    /// As `straight`, following undefined values and registers of `wgmma`, until there are none.
    #[inline(never)]
    fn straight_followed<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        stop: u32,
    ) -> Run<Next> {
        let program = self.program;
        let mask_then = now.mask;
        while now.pc < stop && now.mask == mask_then && self.has_to_follow(w) {
            let inst = &program.code[now.pc as usize];
            let mask = self.guarded(w, inst, now);
            w.executed += 1;
            if let Some(true) = program.fragments.get(now.pc as usize) {
                self.touch_fragments(b, w, inst, Site { pc: now.pc, mask });
            }
            if let Op::Alu(_) = &inst.op {
                let s = Site { pc: now.pc, mask };
                let operands = self.operands(w, inst, s);
                self.alu_undefined(w, inst, now.mask, mask);
                if let Some(operands) = operands {
                    self.note_arising(b, w, inst, s, &operands);
                }
                now.pc += 1;
                continue;
            }
            self.before_undefined(b, w, inst, (now.mask, mask), now.pc);
            match self.step::<CHECKS>(b, w, inst, now, mask)? {
                Next::Step => now.pc += 1,
                next => return Ok(next),
            }
        }
        Ok(Next::Step)
    }

    /// Executes an instruction other than arithmetic for the lanes in `mask`, in the file of its kind. Instructions that
    /// change which lanes run, or that move others on, say what is next. All others step to the next instruction.
    fn step<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        inst: &Inst,
        now: &mut Current,
        mask: u32,
    ) -> Run<Next> {
        let s = Site { pc: now.pc, mask };
        let o = &inst.o;
        match &inst.op {
            Op::Branch(to) => return Ok(self.branch(w, now, mask, *to)),
            Op::BranchIndexed(targets) => {
                return self.branch_indexed(w, now, mask, (targets, o[1]));
            }
            Op::Call(to) => return Ok(call(w, now, mask, *to)),
            Op::CallIndirect(table) => return self.call_indirect(w, now, mask, (table, o[1])),
            Op::Return => return Ok(return_from_call(w, now, mask)),
            Op::Exit => return Ok(self.exit::<CHECKS>(b, w, now, mask)),
            _ if mask == 0 => return Ok(Next::Step),
            Op::Load(a) => return self.transfer::<CHECKS>(b, w, Transfer::Load(a), s),
            Op::Store(a) => return self.transfer::<CHECKS>(b, w, Transfer::Store(a), s),
            Op::Atom(a) => return self.transfer::<CHECKS>(b, w, Transfer::Update(a), s),
            Op::CopyResult { from, to, bytes } => {
                self.copy_result(b, w, (from, o[1]), (*to, *bytes), s)?;
            }
            Op::Save(frame) => self.save(b, w, *frame, mask, now.pc)?,
            Op::Restore { frame, results } => self.restore(b, w, *frame, (results, o[1]), mask),
            Op::CopyLocal { from, to, bytes } => self.copy_local(b, w, (*from, *to, *bytes), mask),
            Op::Texture(t) => self.fetch::<CHECKS>(b, w, t, s)?,
            Op::Surface(t) => self.surface::<CHECKS>(b, w, t, s)?,
            Op::ImageQuery(asked) => self.ask_image(w, *asked, (o[0], o[1]), s)?,
            Op::CpAsync { to, from, bytes } => {
                self.cp_async::<CHECKS>(b, w, to, from, *bytes, o[2], s)?;
            }
            Op::CpCommit => w.copies.commit(mask),
            Op::CpWait(keep) => self.cp_wait(b, w, *keep, mask),
            Op::Bulk(copy) => self.bulk_copy::<CHECKS>(b, w, copy, o[2], s)?,
            Op::BulkPrefetch(prefetch) => self.bulk_prefetch(w, prefetch, o[2], s)?,
            Op::BulkCommit => w.bulk.commit(mask),
            Op::BulkWait { keep, reads_only } => {
                self.bulk_wait::<CHECKS>(b, w, (*keep, *reads_only), mask);
            }
            Op::ReplaceField(r) => self.replace_field::<CHECKS>(b, w, r, s)?,
            Op::PublishMap { to, from } => {
                return self.by_warp(b, w, now, mask, |machine, b, w, s| {
                    machine.publish_map::<CHECKS>(b, w, [to, from], s)
                });
            }
            Op::AcquireMap(place) => self.acquire_map(b, w, place, mask),
            Op::ProxyFence => b.proxy_fence(w.index),
            Op::Mbarrier(m) => return self.mbarrier::<CHECKS>(b, w, m, o, (now, mask)),
            Op::PendingCount => pending_count(w, o, mask),
            Op::Malloc => self.malloc(b, w, (o[0], o[1]), mask, now.pc)?,
            Op::Free => self.free(b, w, o[1], mask, now.pc),
            Op::Print(told) => self.print(b, w, *told, o[0], mask),
            Op::ActiveMask => w.regs.set32(o[0], |_| mask),
            Op::Clock { wide } => self.read_clock(b, w, (o[0], *wide), mask),
            Op::Trap => return self.trap(s),
            Op::Assert(told) => return self.fail_assertion(b, w, s, *told),
            Op::Fence(fence) => self.fence(b, w, *fence),
            Op::InitFence => self.fence_inits(b, w),
            Op::ClusterArrive { aligned, relaxed } => {
                return self.arrive_in_cluster(b, w, (now, mask), *aligned, *relaxed);
            }
            Op::ClusterWait { aligned } => {
                return self.wait_in_cluster(b, w, (now, mask), *aligned);
            }
            Op::AsyncStore(store) => self.async_store::<CHECKS>(b, w, store, s)?,
            Op::Sleep => return Ok(Next::Yield),
            Op::Nop | Op::Alu(_) => {}
            Op::Barrier { kind, aligned } => {
                return self.barrier_step(b, w, now, mask, (*kind, *aligned), o);
            }
            Op::WarpSync => return self.sync_warp(b, w, o[1], now, mask),
            Op::Exchange(exchange) => return self.exchange(b, w, (inst, *exchange), now, mask),
            Op::Wgmma(m) => {
                return self.by_warp(b, w, now, mask, |machine, b, w, s| {
                    machine.wgmma::<CHECKS>(b, w, m, s)
                });
            }
            Op::WgmmaFence => return self.by_warp(b, w, now, mask, Self::wgmma_fence),
            Op::WgmmaCommit => return self.by_warp(b, w, now, mask, Self::wgmma_commit),
            Op::WgmmaWait(keep) => return self.wgmma_wait(b, w, *keep, (now, mask)),
            Op::SetRegisters(change) => return self.set_registers(b, w, *change, (now, mask)),
            Op::Mma(m) => {
                return self.by_warp(b, w, now, mask, |machine, b, w, s| {
                    machine.mma::<CHECKS>(b, w, (inst, m), s)
                });
            }
        }
        Ok(Next::Step)
    }

    /// Lets the lanes in `mask` wait, and execute their instruction again once they need not, which counts as one execution.
    /// `done` are lanes that have executed it already.
    pub fn wait_again(
        &mut self,
        w: &mut Warp,
        now: &Current,
        (mask, done): (u32, u32),
        wait: Wait,
    ) -> Next {
        self.costs
            .take_back(now.pc, u64::from(done == 0), mask.count_ones());
        w.lanes.hold(now, mask, wait);
        w.lanes.park(now, now.mask & !mask, now.pc + 1);
        Next::Reschedule
    }

    /// Executes an instruction of the whole warp, once all lanes are there.
    fn by_warp(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        execute: impl FnOnce(&mut Self, &mut BlockState, &mut Warp, Site) -> Run<()>,
    ) -> Run<Next> {
        match self.gather_warp(b, w, now, mask)? {
            Some(s) => execute(self, b, w, s).map(|()| Next::Step),
            None => Ok(Next::Reschedule),
        }
    }

    /// Brings all lanes of the warp together, or returns `None` if the present lanes have to wait.
    pub fn gather_warp(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
    ) -> Run<Option<Site>> {
        let members = [w.lanes.live(); LANES];
        let ready = self.gather(b, w, now, mask, &members)?;
        Ok(ready.map(|mask| Site { pc: now.pc, mask }))
    }

    /// Brings the members of a `.sync` instruction together, or returns `None` if the present lanes have to wait. The lanes
    /// that can go on are returned and are all of `now`; others of `now` are put aside.
    pub fn gather(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        members: &[u32; LANES],
    ) -> Run<Option<u32>> {
        w.lanes.leave_others(now, mask);
        w.lanes.join(now, Wait::Sync);
        let joined = now.mask;
        let mut ready = 0;
        for l in lanes(joined) {
            let set = members[l];
            if set >> l & 1 == 0 {
                let lane = l as u32;
                let at = At::lane(b, w, now.pc, lane);
                self.find(FindingKind::InvalidMembers, at, None, |_| {
                    FindingEvent::NotAMember { lane, members: set }
                });
            }
            // Lanes that have ended or never were are not waited for, but naming them is an error
            // only where they take part by value; the ISA leaves it open.
            if set & w.lanes.live() & !joined == 0 {
                ready |= 1 << l;
            }
        }
        if ready != joined {
            w.lanes.hold(now, joined & !ready, Wait::Sync);
            now.mask = ready;
        }
        Ok((ready != 0).then_some(ready))
    }
}
