//! Shuffles, votes, matches and reductions of a warp (PTX ISA 9.7.9.6, 9.7.13).

use super::divergence::Current;
use super::float_ops::{max_f32, min_f32};
use super::state::*;
use super::warp::Next;
use crate::isa::*;
use crate::regs::{LANES, Regs, lanes};
use crate::report::{At, FindingKind};
use model::FindingEvent;

/// Returns the minimum or maximum of a set by `min.f32` or `max.f32`, one value after the other.
fn reduce_floats(how: ReduxFloats, set: impl Iterator<Item = u32>) -> u32 {
    const NAN: u32 = 0x7fff_ffff;
    let pick = if how.smallest { min_f32 } else { max_f32 };
    let set = set.map(|x| if how.absolute { x & !(1 << 31) } else { x });
    set.reduce(|x, y| {
        let is_nan = f32::from_bits(x).is_nan() || f32::from_bits(y).is_nan();
        if how.keeps_nan && is_nan {
            NAN
        } else {
            pick(x, y)
        }
    })
    .map_or(0, |x| if f32::from_bits(x).is_nan() { NAN } else { x })
}

impl Machine<'_> {
    /// Executes `bar.warp.sync`. Lanes may name several sets, and each set meets by itself.
    pub fn sync_warp(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        register: u32,
        now: &mut Current,
        mask: u32,
    ) -> Run<Next> {
        let members = w.regs.r32[register as usize].0;
        let Some(ready) = self.gather(b, w, now, mask, &members)? else {
            return Ok(Next::Reschedule);
        };
        w.stream.meet(now.pc);
        if let Some(shadow) = &mut b.shadow {
            let mut rest = ready;
            while rest != 0 {
                let lane = rest.trailing_zeros();
                let set = members[lane as usize];
                shadow.warp_sync(w.index, set & ready, w.lanes.live());
                w.inter.meet();
                // A lane need not be in its own set, which is reported elsewhere.
                rest &= !(set | 1 << lane);
            }
        }
        Ok(Next::Step)
    }

    /// Executes an exchange between lanes, for those whose members are all there.
    pub fn exchange(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (inst, exchange): (&Inst, Exchange),
        now: &mut Current,
        mask: u32,
    ) -> Run<Next> {
        let members = w.regs.r32[inst.o[4] as usize].0;
        let Some(ready) = self.gather(b, w, now, mask, &members)? else {
            return Ok(Next::Reschedule);
        };
        if let Exchange::Shfl { mode, .. } = exchange {
            for l in lanes(ready) {
                let (source, _) = source_of(&w.regs, inst, mode, l);
                if ready >> source & 1 == 0 || members[l] >> source & 1 == 0 {
                    let at = At::lane(b, w, now.pc, l as u32);
                    self.find(FindingKind::InvalidMembers, at, None, |_| {
                        let (lane, members) = (source, members[l]);
                        FindingEvent::ReadsAbsentLane { lane, members }
                    });
                }
            }
        }
        self.with_undefined(w, inst, ready, |regs| {
            exchanged(regs, inst, exchange, ready)
        });
        Ok(Next::Step)
    }
}

/// Returns the lane that a shuffle reads, and true if the lane that it names is inside its segment.
fn source_of(regs: &Regs, inst: &Inst, mode: ShflMode, l: usize) -> (u32, bool) {
    let o = &inst.o;
    let (by, c) = (regs.r32[o[2] as usize].0[l], regs.r32[o[3] as usize].0[l]);
    let lane = l as u32;
    let (by, clamp, segment) = (by & 31, c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let first = lane & segment;
    let (from, inside) = match mode {
        // clamp is 0 for up: `last` is then the first lane of the segment
        ShflMode::Up => (
            lane.wrapping_sub(by),
            lane as i32 - by as i32 >= last as i32,
        ),
        ShflMode::Down => (lane + by, lane + by <= last),
        ShflMode::Bfly => (lane ^ by, lane ^ by <= last),
        ShflMode::Idx => (first | by & !segment, (first | by & !segment) <= last),
    };
    let inside = match mode {
        ShflMode::Bfly => (lane ^ by) <= last,
        _ => inside,
    };
    (if inside { from } else { lane }, inside)
}

/// Exchanges values between the lanes that are there.
fn exchanged(regs: &mut Regs, inst: &Inst, exchange: Exchange, ready: u32) {
    let o = &inst.o;
    let members = regs.r32[o[4] as usize].0;
    match exchange {
        Exchange::Shfl { mode, predicate } => {
            let a = regs.r32[o[1] as usize].0;
            // Lanes are written one by one, and one may be a source of another.
            let sources: [(u32, bool); LANES] =
                std::array::from_fn(|l| source_of(regs, inst, mode, l));
            for l in lanes(ready) {
                let (source, inside) = sources[l];
                regs.r32[o[0] as usize].0[l] = a[source as usize % LANES];
                if predicate {
                    let p = &mut regs.pred[o[5] as usize];
                    *p = *p & !(1 << l) | u32::from(inside) << l;
                }
            }
        }
        Exchange::Vote { mode, negated } => {
            let p = regs.pred[o[1] as usize];
            let p = if negated { !p } else { p };
            for l in lanes(ready) {
                let set = members[l] & ready;
                let yes = p & set;
                let bit = match mode {
                    VoteMode::All => yes == set,
                    VoteMode::Any => yes != 0,
                    VoteMode::Uni => yes == set || yes == 0,
                    VoteMode::Ballot => {
                        regs.r32[o[0] as usize].0[l] = yes;
                        continue;
                    }
                };
                let d = &mut regs.pred[o[0] as usize];
                *d = *d & !(1 << l) | u32::from(bit) << l;
            }
        }
        Exchange::Match {
            all,
            wide,
            predicate,
        } => {
            let value: [u64; LANES] = if wide {
                regs.r64[o[1] as usize].0
            } else {
                regs.r32[o[1] as usize].0.map(u64::from)
            };
            for l in lanes(ready) {
                let set = members[l] & ready;
                let same = lanes(set)
                    .filter(|&m| value[m] == value[l])
                    .fold(0, |s, m| s | 1 << m);
                let whole = same == set;
                regs.r32[o[0] as usize].0[l] = if !all || whole { same } else { 0 };
                if predicate {
                    let p = &mut regs.pred[o[5] as usize];
                    *p = *p & !(1 << l) | u32::from(whole) << l;
                }
            }
        }
        Exchange::Redux(op) => {
            let a = regs.r32[o[1] as usize].0;
            for l in lanes(ready) {
                let set = lanes(members[l] & ready).map(|m| a[m]);
                let signed = |x: u32| x as i32;
                let result = match op {
                    ReduxOp::Add => set.fold(0, u32::wrapping_add),
                    ReduxOp::And => set.fold(u32::MAX, |x, y| x & y),
                    ReduxOp::Or => set.fold(0, |x, y| x | y),
                    ReduxOp::Xor => set.fold(0, |x, y| x ^ y),
                    ReduxOp::MinU => set.min().unwrap_or(0),
                    ReduxOp::MaxU => set.max().unwrap_or(0),
                    ReduxOp::MinS => set.map(signed).min().unwrap_or(0) as u32,
                    ReduxOp::MaxS => set.map(signed).max().unwrap_or(0) as u32,
                    ReduxOp::Floats(how) => reduce_floats(how, set),
                };
                regs.r32[o[0] as usize].0[l] = result;
            }
        }
        Exchange::Elect => {
            for l in lanes(ready) {
                let elected = (members[l] & ready).trailing_zeros();
                regs.r32[o[0] as usize].0[l] = elected;
                let p = &mut regs.pred[o[5] as usize];
                *p = *p & !(1 << l) | u32::from(elected == l as u32) << l;
            }
        }
    }
}
