//! Shuffles, votes, matches and reductions of a warp (PTX ISA 9.7.9.6, 9.7.13).

use super::address::lanes;
use super::regs::LANES;
use super::state::*;
use crate::program::*;
use crate::report::FindingKind;

impl Machine<'_> {
    /// `ready`: lanes that take part, each with its members, which are all there.
    pub fn exchange(&mut self, b: &mut BlockState, w: &mut Warp, inst: &Inst, ready: u32, pc: u32) {
        let o = &inst.o;
        let members = w.regs.r32[o[4] as usize].0;
        match &inst.op {
            Op::Shfl { mode, predicate } => {
                let a = w.regs.r32[o[1] as usize].0;
                let (by, c) = (w.regs.r32[o[2] as usize].0, w.regs.r32[o[3] as usize].0);
                for l in lanes(ready) {
                    let lane = l as u32;
                    let (by, clamp, segment) = (by[l] & 31, c[l] & 31, c[l] >> 8 & 31);
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
                        ShflMode::Idx => (first | by & !segment, first | by & !segment <= last),
                    };
                    let inside = if *mode == ShflMode::Idx {
                        (first | by & !segment) <= last
                    } else if *mode == ShflMode::Bfly {
                        (lane ^ by) <= last
                    } else {
                        inside
                    };
                    let source = if inside { from } else { lane };
                    if ready >> source & 1 == 0 || members[l] >> source & 1 == 0 {
                        let what = |_: &Self| {
                            format!(
                                "shfl reads lane {source}, which is not in the member mask {:#010x} or has exited",
                                members[l]
                            )
                        };
                        let at = At::lane(b, w, pc, lane);
                        self.find(FindingKind::InvalidMembers, at, None, what);
                    }
                    w.regs.r32[o[0] as usize].0[l] = a[source as usize % LANES];
                    if *predicate {
                        let p = &mut w.regs.pred[o[5] as usize];
                        *p = *p & !(1 << l) | u32::from(inside) << l;
                    }
                }
            }
            Op::Vote { mode, negated } => {
                let p = w.regs.pred[o[1] as usize];
                let p = if *negated { !p } else { p };
                for l in lanes(ready) {
                    let set = members[l] & ready;
                    let yes = p & set;
                    let bit = match mode {
                        VoteMode::All => yes == set,
                        VoteMode::Any => yes != 0,
                        VoteMode::Uni => yes == set || yes == 0,
                        VoteMode::Ballot => {
                            w.regs.r32[o[0] as usize].0[l] = yes;
                            continue;
                        }
                    };
                    let d = &mut w.regs.pred[o[0] as usize];
                    *d = *d & !(1 << l) | u32::from(bit) << l;
                }
            }
            Op::Match {
                all,
                wide,
                predicate,
            } => {
                let value: [u64; LANES] = match wide {
                    true => w.regs.r64[o[1] as usize].0,
                    false => w.regs.r32[o[1] as usize].0.map(u64::from),
                };
                for l in lanes(ready) {
                    let set = members[l] & ready;
                    let same = lanes(set)
                        .filter(|&m| value[m] == value[l])
                        .fold(0, |s, m| s | 1 << m);
                    let whole = same == set;
                    w.regs.r32[o[0] as usize].0[l] = if !*all || whole { same } else { 0 };
                    if *predicate {
                        let p = &mut w.regs.pred[o[5] as usize];
                        *p = *p & !(1 << l) | u32::from(whole) << l;
                    }
                }
            }
            Op::Redux(op) => {
                let a = w.regs.r32[o[1] as usize].0;
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
                    };
                    w.regs.r32[o[0] as usize].0[l] = result;
                }
            }
            Op::Elect => {
                for l in lanes(ready) {
                    let elected = (members[l] & ready).trailing_zeros();
                    w.regs.r32[o[0] as usize].0[l] = elected;
                    let p = &mut w.regs.pred[o[5] as usize];
                    *p = *p & !(1 << l) | u32::from(elected == l as u32) << l;
                }
            }
            _ => {}
        }
    }
}
