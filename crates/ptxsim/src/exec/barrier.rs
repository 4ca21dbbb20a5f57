//! Barriers of a block (PTX ISA 9.7.13.1), and how groups come back from what they waited for.

use super::access::address::Site;
use super::divergence::Current;
use super::mbarrier::has_turned;
use super::state::*;
use super::warp::Next;
use super::warpgroup::has_committed;
use crate::check::order::Inter;
use crate::check::race::Clock;
use crate::isa::*;
use crate::regs::lanes;
use crate::report::*;
use model::FindingEvent;

#[derive(Clone, Default)]
struct Barrier {
    generation: u32,
    /// The number of threads that have arrived.
    arrived: u32,
    /// The number of threads that it waits for; 0 stands for the whole block.
    expected: u32,
    any: bool,
    all: bool,
    count: u32,
    /// Results of the last completed generation.
    result: (bool, bool, u32),
    clock: Clock,
    released: Clock,
    inter: Inter,
    inter_released: Inter,
    instruction: u32,
}

/// The barriers of a block, and the threads that arrive at them.
pub struct Barriers {
    all: [Barrier; 16],
    threads: u32,
    ended: u32,
}

impl Barriers {
    pub fn new(threads: u32) -> Self {
        let barrier = || Barrier {
            all: true,
            ..Barrier::default()
        };
        Self {
            all: std::array::from_fn(|_| barrier()),
            threads,
            ended: 0,
        }
    }

    /// Returns the number of threads that the block began with.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Notes that threads have ended, for which no barrier of the whole block waits any more.
    pub fn leave(&mut self, threads: u32) {
        self.ended += threads;
    }
}

impl Machine<'_> {
    /// Makes the lanes that arrive at a barrier those at work; false where they wait for the rest of the warp.
    pub fn arrives(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        aligned: bool,
    ) -> Run<bool> {
        if aligned {
            // The whole warp arrives as one (PTX ISA 9.7.13.1).
            return Ok(self.gather_warp(b, w, now, mask)?.is_some());
        }
        w.lanes.leave_others(now, mask);
        Ok(true)
    }

    pub fn barrier_step(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        now: &mut Current,
        mask: u32,
        (kind, aligned): (BarrierKind, bool),
        o: &[u32; 6],
    ) -> Run<Next> {
        if kind != BarrierKind::Arrive {
            w.stream.meet(now.pc);
        }
        if !self.arrives(b, w, now, mask, aligned)? {
            return Ok(Next::Reschedule);
        }
        let first = now.mask.trailing_zeros() as usize;
        let id = w.regs.r32[o[1] as usize].0[first];
        let count = w.regs.r32[o[2] as usize].0[first];
        if id >= 16 || !count.is_multiple_of(32) || count > 1024 {
            let what = format!(
                "barrier {id} with {count} threads: there are 16, and counts are multiples of 32"
            );
            return Site::new(now.pc, first).refuse(FaultKind::Undefined, what);
        }
        let predicate = w.regs.pred[o[3] as usize];
        let is_red = matches!(
            kind,
            BarrierKind::RedPopc | BarrierKind::RedAnd | BarrierKind::RedOr
        );
        let bar = &mut b.barriers.all[id as usize];
        let fresh = bar.arrived == 0;
        if !fresh && bar.expected != count {
            let what = format!(
                "threads wait at barrier {id} with two counts: {count} and {}",
                bar.expected
            );
            return Site::new(now.pc, first).refuse(FaultKind::Undefined, what);
        }
        bar.expected = count;
        bar.instruction = now.pc;
        // A barrier counts whole warps.
        bar.arrived += if aligned && count != 0 {
            32
        } else {
            now.mask.count_ones()
        };
        if is_red {
            bar.any |= predicate & now.mask != 0;
            bar.all &= !predicate & now.mask == 0;
            bar.count += (predicate & now.mask).count_ones();
        }
        if let Some(shadow) = &mut b.shadow {
            shadow.release(w.index, &mut bar.clock);
            bar.inter.join(&w.inter);
            w.inter.meet();
        }
        let generation = bar.generation;
        self.complete_barrier(b, id as usize);
        if kind == BarrierKind::Arrive {
            return Ok(Next::Step);
        }
        // The group stands behind the barrier and waits for its end; what a waiter takes over
        // is taken when it is woken.
        w.lanes
            .hold(now, now.mask, Wait::Barrier { id, generation });
        self.leave_barriers(b, w);
        Ok(Next::Reschedule)
    }

    /// Ends barriers for which enough threads have arrived now that others have ended.
    pub fn complete_barriers(&mut self, b: &mut BlockState) {
        for id in 0..b.barriers.all.len() {
            self.complete_barrier(b, id);
        }
    }

    /// Ends a barrier for which enough threads have arrived.
    fn complete_barrier(&mut self, b: &mut BlockState, id: usize) {
        let Barriers { threads, ended, .. } = b.barriers;
        let running = threads - ended;
        let bar = &mut b.barriers.all[id];
        let needed = if bar.expected == 0 {
            running
        } else {
            bar.expected
        };
        if bar.arrived == 0 || bar.arrived < needed {
            return;
        }
        let by_part = bar.expected == 0 && ended > 0;
        let instruction = bar.instruction;
        bar.result = (bar.any, bar.all, bar.count);
        bar.released = bar.clock;
        bar.inter_released = bar.inter.clone();
        (bar.arrived, bar.any, bar.all, bar.count) = (0, false, true, 0);
        bar.generation += 1;
        self.progress += 1;
        if by_part {
            let at = At::thread(b.id, 0, instruction);
            self.find(FindingKind::BarrierByPart, at, None, |_| {
                let (id, passed, all) = (id as u32, running, threads);
                FindingEvent::PartialBarrier { id, passed, all }
            });
        }
    }

    /// Returns true if what lanes of a warp wait for has happened. Members of a `.sync` instruction are brought together by
    /// the last of them.
    pub fn has_ended(&self, b: &BlockState, warp: u32, wait: Wait) -> bool {
        match wait {
            Wait::Barrier { id, generation } => {
                b.barriers.all[id as usize].generation != generation
            }
            Wait::Cluster { generation } => self.cluster.has_met(generation),
            Wait::Mbarrier { address, phase } => has_turned(b, address, phase),
            Wait::Registers { count } => b.registers.suffices(warp, count),
            Wait::Products { count } => has_committed(b, warp, count),
            Wait::Sync => false,
            Wait::Ready => true,
        }
    }

    /// Moves groups whose barrier has ended past it, with what the barrier brings.
    pub fn leave_barriers(&mut self, b: &mut BlockState, w: &mut Warp) {
        for g in w.lanes.waiting_mut() {
            let (id, generation) = match g.wait() {
                Wait::Ready | Wait::Sync => continue,
                Wait::Barrier { id, generation } => (id, generation),
                _ if !self.has_ended(b, w.index, g.wait()) => continue,
                Wait::Cluster { .. } => {
                    self.cluster.pass(b, (w.index, &mut w.inter, &mut w.near));
                    w.arrived.pass(g.mask());
                    g.pass();
                    continue;
                }
                Wait::Mbarrier { .. } | Wait::Registers { .. } | Wait::Products { .. } => {
                    g.wake();
                    continue;
                }
            };
            let bar = &b.barriers.all[id as usize];
            if bar.generation == generation {
                continue;
            }
            let inst = &self.program.code[g.pc() as usize];
            if let Op::Barrier { kind, .. } = inst.op {
                let (any, all, count) = bar.result;
                let d = inst.o[0] as usize;
                let flag =
                    |p: &mut u32, v: bool| *p = if v { *p | g.mask() } else { *p & !g.mask() };
                match kind {
                    BarrierKind::RedOr => flag(&mut w.regs.pred[d], any),
                    BarrierKind::RedAnd => flag(&mut w.regs.pred[d], all),
                    BarrierKind::RedPopc => {
                        lanes(g.mask()).for_each(|l| w.regs.r32[d].0[l] = count)
                    }
                    _ => {}
                }
            }
            if let Some(shadow) = &mut b.shadow {
                shadow.acquire(w.index, &bar.released, true);
                w.inter.join(&bar.inter_released);
            }
            g.pass();
        }
    }
}
