//! Runs one warp until it has to wait, ends, or has had its turn.
//!
//! Lanes at the same instruction with the same calls open form a group. The group with the lowest
//! instruction number runs first and groups that meet become one, which reconverges at the
//! earliest place that the code's layout allows. A group that branches backwards many times while
//! others could run makes way for them for a while: it may be waiting for what they do.

use super::access::address::Site;
use super::access::transfer::Transfer;
use super::state::*;
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use model::FindingEvent;

/// Backward branches that a group may take before others get a turn, and how long their turn is.
const PATIENCE: u32 = 1024;
/// Looks at what others may change before they get a turn to do so.
const LOOKS: u32 = 64;

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

/// The group at work.
pub struct Current {
    pub pc: u32,
    pub mask: u32,
    pub stack: Vec<u32>,
}

impl Current {
    /// Returns some of the present lanes as a group that waits here.
    pub fn group(&self, mask: u32, wait: Wait) -> Group {
        Group {
            pc: self.pc,
            mask,
            stack: self.stack.clone(),
            wait,
        }
    }
}

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
    ) -> Run<Turn> {
        let mut left = turn;
        let mut exclusive = 0_u32;
        let mut after = None;
        let mut polling = false;
        loop {
            self.leave_barriers(b, w);
            let Some(at) = pick(&w.groups, after.take()) else {
                return Ok(if w.groups.is_empty() {
                    Turn::Ended
                } else {
                    Turn::Waiting
                });
            };
            let group = w.groups.swap_remove(at);
            let mut now = Current {
                pc: group.pc,
                mask: group.mask,
                stack: group.stack,
            };
            merge(&mut w.groups, &mut now);
            // Groups that stand at the same place came by other calls: they go one after the other.
            let ahead = |g: &&Group| g.wait == Wait::Ready && g.pc > now.pc;
            let others = w.groups.iter().filter(ahead).map(|g| g.pc).min();
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
                    set_aside(w, now);
                    break;
                }
                let next = if CHECKS && self.has_to_follow(w) {
                    self.straight_followed::<CHECKS>(b, w, &mut now, stop)?
                } else {
                    self.straight::<CHECKS>(b, w, &mut now, stop)?
                };
                let end = now.pc + u32::from(!matches!(next, Next::Step));
                self.issues.span(from, end, mask.count_ones());
                left -= u64::from(end - from);
                exclusive = exclusive.saturating_sub(end - from);
                match next {
                    Next::Step => {}
                    Next::Yield => {
                        now.pc += 1;
                        polling = true;
                        set_aside(w, now);
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
                            set_aside(w, now);
                            break;
                        }
                    }
                    Next::Reschedule => break,
                }
            }
            if turn - left >= self.instructions_left {
                let what = "the instruction budget is exhausted";
                let (pc, mask) = w.groups.first().map_or((0, 1), |g| (g.pc, g.mask));
                return self.fault(
                    FaultKind::Budget,
                    At::lane(b, w, pc, mask.trailing_zeros()),
                    what,
                );
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
        self.issues.without(now.pc, (now.mask & !mask).count_ones());
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
                leave_others(w, now, mask);
                let first = mask.trailing_zeros() as usize;
                if mask == 0 {
                    return Ok(Next::Reschedule);
                }
                for l in lanes(mask) {
                    let index = w.regs.r32[o[1] as usize].0[l];
                    let Some(&to) = targets.get(index as usize) else {
                        let what =
                            format!("brx.idx with index {index} of {} targets", targets.len());
                        return self.fault(
                            FaultKind::Undefined,
                            At::lane(b, w, now.pc, l as u32),
                            &what,
                        );
                    };
                    park(w, now, 1 << l, to);
                }
                let index = w.regs.r32[o[1] as usize].0;
                if lanes(mask).any(|l| index[l] != index[first]) {
                    self.costs[now.pc as usize].divergent += 1;
                }
                return Ok(Next::Reschedule);
            }
            Op::Call(to) => {
                leave_others(w, now, mask);
                if mask == 0 {
                    return Ok(Next::Reschedule);
                }
                now.stack.push(now.pc + 1);
                return Ok(jump_apart(w, now, *to));
            }
            Op::CallIndirect(table) => {
                leave_others(w, now, mask);
                let to = self.targets(b, w, table, o[1], mask, now.pc)?;
                now.stack.push(now.pc + 1);
                for l in lanes(mask) {
                    park(w, now, 1 << l, to[l]);
                }
                return Ok(Next::Reschedule);
            }
            Op::Return => {
                leave_others(w, now, mask);
                let Some(to) = now.stack.pop().filter(|_| mask != 0) else {
                    return Ok(Next::Reschedule);
                };
                return Ok(jump_apart(w, now, to));
            }
            Op::Exit => {
                leave_others(w, now, mask);
                self.end_bulk_copies::<CHECKS>(b, w, s);
                self.end_products(b, w, s);
                if self.cluster.is_at_work() {
                    self.cluster.leave(w, mask);
                }
                w.live &= !mask;
                b.ended += mask.count_ones();
                self.progress += 1;
                // Whoever waits for the lanes that are gone looks again.
                for g in &mut w.groups {
                    if g.wait == Wait::Sync {
                        g.wait = Wait::Ready;
                    }
                }
                return Ok(Next::Reschedule);
            }
            _ if mask == 0 => return Ok(Next::Step),
            Op::Load(a) => {
                self.access::<CHECKS>(b, w, Transfer::Load(a), s)?;
                if a.order != Order::Weak && w.look() {
                    return Ok(Next::Yield);
                }
            }
            Op::Store(a) => {
                self.progress += u64::from(a.space != AddressSpace::Local);
                self.access::<CHECKS>(b, w, Transfer::Store(a), s)?;
            }
            Op::CopyResult { from, to, bytes } => {
                let from = self.targets(b, w, from, o[1], mask, now.pc)?;
                for l in lanes(mask) {
                    self.copy_local(b, w, (from[l], *to, *bytes), 1 << l);
                }
            }
            Op::Save(frame) => self.save(b, w, *frame, mask, now.pc)?,
            Op::Restore { frame, results } => self.restore(b, w, *frame, (results, o[1]), mask),
            Op::CopyLocal { from, to, bytes } => self.copy_local(b, w, (*from, *to, *bytes), mask),
            Op::Atom(a) => {
                self.access::<CHECKS>(b, w, Transfer::Update(a), s)?;
                if !a.destinations.is_empty() && w.look() {
                    return Ok(Next::Yield);
                }
            }
            Op::Texture(t) => self.fetch::<CHECKS>(b, w, t, s)?,
            Op::Surface(t) => {
                self.progress += u64::from(t.store);
                self.surface::<CHECKS>(b, w, t, s)?;
            }
            Op::ImageQuery(asked) => self.ask_image(b, w, *asked, (o[0], o[1]), s)?,
            Op::CpAsync { to, from, bytes } => {
                self.cp_async::<CHECKS>(b, w, to, from, *bytes, o[2], s)?
            }
            Op::CpCommit => w.copies.commit(mask),
            Op::CpWait(keep) => {
                self.deliver_to(b, w.index, mask);
                self.cp_wait(b, w, *keep, mask);
            }
            Op::Bulk(copy) => self.bulk_copy::<CHECKS>(b, w, copy, o[2], s)?,
            Op::BulkPrefetch(prefetch) => self.bulk_prefetch(b, w, prefetch, o[2], s)?,
            Op::ReplaceField(r) => self.replace_field::<CHECKS>(b, w, r, s)?,
            Op::PublishMap { to, from } => {
                let Some(s) = self.gather_warp(b, w, now, mask)? else {
                    return Ok(Next::Reschedule);
                };
                self.publish_map::<CHECKS>(b, w, [to, from], s)?;
            }
            Op::AcquireMap(place) => self.acquire_map(b, w, place, mask),
            Op::BulkCommit => {
                w.bulk_reads.commit(mask);
                w.bulk_writes.commit(mask);
            }
            Op::BulkWait { keep, reads_only } => {
                self.bulk_wait::<CHECKS>(b, w, (*keep, *reads_only), mask);
            }
            Op::ProxyFence => b.proxy_fence(w.index),
            Op::Mbarrier(m) => {
                let (done, wait) = self.mbarrier::<CHECKS>(b, w, m, o, s)?;
                if let Some((address, phase)) = wait {
                    // Those who wait come here again; that is one instruction, not two.
                    let waiting = mask & !done;
                    self.issues.without(now.pc, waiting.count_ones());
                    if done == 0 {
                        self.issues.not_at_all(now.pc);
                    }
                    let wait = Wait::Mbarrier { address, phase };
                    w.groups.push(now.group(waiting, wait));
                    park(w, now, now.mask & !waiting, now.pc + 1);
                    return Ok(Next::Reschedule);
                }
                if m.op.polls() && w.look() {
                    return Ok(Next::Yield);
                }
            }
            Op::PendingCount => {
                let state = w.regs.r64[o[1] as usize].0;
                for l in lanes(mask) {
                    w.regs.r32[o[0] as usize].0[l] = super::mbarrier::pending(state[l]);
                }
            }
            Op::Malloc => self.malloc(b, w, (o[0], o[1]), mask, now.pc)?,
            Op::Free => self.free(b, w, o[1], mask, now.pc),
            Op::Print(told) => self.print(b, w, *told, o[0], mask),
            Op::ActiveMask => w.regs.set32(o[0], |_| mask),
            Op::Clock { wide } => {
                let t = self.varied.time(w.executed, (b.number, w.index));
                for l in lanes(mask) {
                    if *wide {
                        w.regs.r64[o[0] as usize].0[l] = t;
                    } else {
                        w.regs.r32[o[0] as usize].0[l] = t as u32;
                    }
                }
            }
            Op::Trap => {
                // So do cooperative groups where the grid has no workspace.
                let what = if self.program.asks_for_workspace() && !self.cooperative {
                    "trap: the kernel synchronises its grid, and the launch is not cooperative,"
                } else {
                    "trap"
                };
                let at = At::lane(b, w, now.pc, mask.trailing_zeros());
                return self.fault(FaultKind::Trap, at, what);
            }
            Op::Assert(told) => {
                let thread = w.first_thread + mask.trailing_zeros();
                let text = self.assertion(b, thread, *told);
                return self.fault(FaultKind::Assert, At::thread(b.id, thread, now.pc), &text);
            }
            Op::Fence(fence) => self.fence(b, w, *fence),
            Op::InitFence => self.fence_inits(b, w),
            Op::ClusterArrive { aligned, relaxed } => {
                if !self.arrives(b, w, now, mask, *aligned)? {
                    return Ok(Next::Reschedule);
                }
                let mask = now.mask;
                self.arrive_in_cluster(b, w, Site { mask, ..s }, *relaxed)?;
            }
            Op::ClusterWait { aligned } => {
                w.stream.meet(now.pc);
                if !self.arrives(b, w, now, mask, *aligned)? {
                    return Ok(Next::Reschedule);
                }
                return self.wait_in_cluster(b, w, now);
            }
            Op::AsyncStore(store) => self.async_store::<CHECKS>(b, w, store, s)?,
            Op::Sleep => return Ok(Next::Yield),
            Op::Nop | Op::Alu(_) => {}
            Op::Barrier { kind, aligned } => {
                if *kind != BarrierKind::Arrive {
                    w.stream.meet(now.pc);
                }
                return self.barrier_step(b, w, now, mask, (*kind, *aligned), o);
            }
            Op::WarpSync => {
                let members = w.regs.r32[o[1] as usize].0;
                let Some(ready) = self.gather(b, w, now, mask, &members)? else {
                    return Ok(Next::Reschedule);
                };
                w.stream.meet(now.pc);
                if let Some(shadow) = &mut b.shadow {
                    // Lanes may name several sets; each set meets by itself.
                    let mut rest = ready;
                    while rest != 0 {
                        let lane = rest.trailing_zeros();
                        let set = members[lane as usize];
                        shadow.warp_sync(w.index, set & ready, w.live);
                        w.inter.meet();
                        // A lane need not be in its own set, which is reported elsewhere.
                        rest &= !(set | 1 << lane);
                    }
                }
            }
            Op::Exchange(exchange) => {
                let members = w.regs.r32[o[4] as usize].0;
                let Some(ready) = self.gather(b, w, now, mask, &members)? else {
                    return Ok(Next::Reschedule);
                };
                self.exchange(b, w, (inst, *exchange), ready, now.pc);
            }
            Op::Wgmma(_) | Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait(_) => {
                let Some(s) = self.gather_warp(b, w, now, mask)? else {
                    return Ok(Next::Reschedule);
                };
                match &inst.op {
                    Op::Wgmma(m) => self.wgmma::<CHECKS>(b, w, m, s)?,
                    Op::WgmmaFence => self.wgmma_fence(w),
                    Op::WgmmaCommit => self.wgmma_commit(b, w),
                    Op::WgmmaWait(keep) => {
                        if let Some(count) = self.wgmma_wait(b, w, *keep) {
                            self.wait_again(w, now, Wait::Products { count });
                            return Ok(Next::Reschedule);
                        }
                    }
                    _ => {}
                }
            }
            Op::SetRegisters(change) => {
                let Some(s) = self.gather_warp(b, w, now, mask)? else {
                    return Ok(Next::Reschedule);
                };
                if !self.set_registers(b, w, *change, s)? {
                    let count = change.count;
                    self.wait_again(w, now, Wait::Registers { count });
                    return Ok(Next::Reschedule);
                }
                self.progress += 1;
            }
            Op::Mma(m) => {
                let Some(s) = self.gather_warp(b, w, now, mask)? else {
                    return Ok(Next::Reschedule);
                };
                self.check_selectors(b, w, m, now.pc)?;
                self.mma::<CHECKS>(b, w, (inst, m), s)?;
            }
        }
        Ok(Next::Step)
    }

    /// The instruction is executed again, once it need not wait.
    fn wait_again(&mut self, w: &mut Warp, now: &Current, wait: Wait) {
        self.issues.not_at_all(now.pc);
        self.issues.without(now.pc, now.mask.count_ones());
        w.groups.push(now.group(now.mask, wait));
    }

    fn branch(&mut self, w: &mut Warp, now: &mut Current, mask: u32, to: u32) -> Next {
        if mask == now.mask {
            return Next::Jump(to);
        }
        if mask == 0 {
            return Next::Step;
        }
        self.costs[now.pc as usize].divergent += 1;
        park(w, now, mask, to);
        park(w, now, now.mask & !mask, now.pc + 1);
        Next::Reschedule
    }

    /// Brings all lanes of the warp together. `None`: the present lanes wait.
    fn gather_warp(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
    ) -> Run<Option<Site>> {
        let members = [w.live; LANES];
        let ready = self.gather(b, w, now, mask, &members)?;
        Ok(ready.map(|mask| Site { pc: now.pc, mask }))
    }

    /// Brings the members of a `.sync` instruction together. `None`: the present lanes wait. The
    /// lanes that can go on are returned and are all of `now`; others of `now` are put aside.
    pub fn gather(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        members: &[u32; LANES],
    ) -> Run<Option<u32>> {
        leave_others(w, now, mask);
        // Those who came here before.
        let (pc, stack) = (now.pc, &now.stack);
        let mut joined = now.mask;
        w.groups.retain(|g| {
            let here = g.wait == Wait::Sync && g.pc == pc && g.stack == *stack;
            joined |= if here { g.mask } else { 0 };
            !here
        });
        now.mask = joined;
        let mut ready = 0;
        for l in lanes(joined) {
            let set = members[l];
            if set >> l & 1 == 0 {
                let lane = l as u32;
                let at = At::lane(b, w, pc, lane);
                self.find(FindingKind::InvalidMembers, at, None, |_| {
                    FindingEvent::NotAMember { lane, members: set }
                });
            }
            // Lanes that have ended or never were are not waited for, but naming them is an error
            // only where they take part by value; the ISA leaves it open.
            if set & w.live & !joined == 0 {
                ready |= 1 << l;
            }
        }
        if ready == 0 {
            w.groups.push(now.group(joined, Wait::Sync));
            return Ok(None);
        }
        if ready != joined {
            w.groups.push(now.group(joined & !ready, Wait::Sync));
            now.mask = ready;
        }
        Ok(Some(ready))
    }
}

/// Puts the present group among the waiting ones as it is.
fn set_aside(w: &mut Warp, now: Current) {
    w.groups.push(Group {
        pc: now.pc,
        mask: now.mask,
        stack: now.stack,
        wait: Wait::Ready,
    });
}

impl Warp {
    /// Looked at what others may change; true when it has looked often enough for a turn.
    fn look(&mut self) -> bool {
        self.polls += 1;
        self.polls >= LOOKS
    }
}

/// Puts lanes of the present group among the waiting ones, at `pc`.
pub fn park(w: &mut Warp, now: &Current, mask: u32, pc: u32) {
    if mask == 0 {
        return;
    }
    let same = |g: &&mut Group| g.wait == Wait::Ready && g.pc == pc && g.stack == now.stack;
    match w.groups.iter_mut().find(same) {
        Some(g) => g.mask |= mask,
        None => w.groups.push(Group {
            pc,
            ..now.group(mask, Wait::Ready)
        }),
    }
}

/// Puts the present lanes aside that do not execute the instruction: they go on behind it.
pub fn leave_others(w: &mut Warp, now: &mut Current, mask: u32) {
    park(w, now, now.mask & !mask, now.pc + 1);
    now.mask = mask;
}

/// A jump after which the order of the groups has to be looked at again.
fn jump_apart(w: &mut Warp, now: &Current, to: u32) -> Next {
    park(w, now, now.mask, to);
    Next::Reschedule
}

/// The ready group with the lowest instruction, or the next one behind `after`.
fn pick(groups: &[Group], after: Option<u32>) -> Option<usize> {
    let ready = || {
        groups
            .iter()
            .enumerate()
            .filter(|(_, g)| g.wait == Wait::Ready)
    };
    let behind = after.and_then(|a| ready().filter(|(_, g)| g.pc > a).min_by_key(|(_, g)| g.pc));
    let other = after.and_then(|a| ready().filter(|(_, g)| g.pc != a).min_by_key(|(_, g)| g.pc));
    behind
        .or(other)
        .or_else(|| ready().min_by_key(|(_, g)| g.pc))
        .map(|(i, _)| i)
}

fn merge(groups: &mut Vec<Group>, now: &mut Current) {
    let (pc, stack) = (now.pc, std::mem::take(&mut now.stack));
    let mut mask = now.mask;
    groups.retain(|g| {
        let same = g.wait == Wait::Ready && g.pc == pc && g.stack == stack;
        mask |= if same { g.mask } else { 0 };
        !same
    });
    (now.mask, now.stack) = (mask, stack);
}
