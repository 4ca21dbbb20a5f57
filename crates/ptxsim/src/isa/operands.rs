//! The registers that each instruction reads and writes.

use crate::program::mma::Mma;
use crate::program::wgmma::OperandA;
use crate::program::*;
use crate::regs::Class;

pub type Register = (Class, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It goes into a result, or into memory.
    Value,
    /// Where memory is accessed.
    Address,
    /// The action, or who takes part: guards, targets, members, counts.
    Control,
    Write,
}

impl Inst {
    /// The predicate that guards it.
    #[inline(always)]
    pub fn guard_register(&self) -> Option<u32> {
        (self.guard != 0).then(|| (self.guard >> 1) - 1)
    }

    /// The registers that it writes.
    pub fn written(&self) -> Vec<Register> {
        let mut all = Vec::new();
        self.registers(|how, register| {
            if how == Use::Write {
                all.push(register);
            }
        });
        all
    }

    /// Returns the result and the operands of arithmetic; `None` for everything else.
    pub fn arithmetic(&self) -> Option<(Register, Vec<Register>)> {
        let Op::Alu(op) = &self.op else { return None };
        let mut all = op.classes().iter().copied().zip(self.o);
        Some((all.next()?, all.collect()))
    }

    /// All registers of an instruction, its guard first.
    pub fn registers(&self, mut each: impl FnMut(Use, Register)) {
        use Class::{Pred, R32, R64};
        use Use::{Address, Control, Value, Write};
        let o = &self.o;
        if let Some(guard) = self.guard_register() {
            each(Control, (Pred, guard));
        }
        match &self.op {
            Op::Alu(op) => {
                for (n, &class) in op.classes().iter().enumerate() {
                    each(if n == 0 { Write } else { Value }, (class, o[n]));
                }
            }
            Op::BranchIndexed(_) => each(Control, (R32, o[1])),
            Op::CallIndirect(_) | Op::CopyResult { .. } => each(Control, (R64, o[1])),
            Op::Load(a) => {
                each(Address, a.address);
                a.registers.iter().for_each(|r| each(Write, *r));
            }
            Op::Store(a) => {
                each(Address, a.address);
                a.registers.iter().for_each(|r| each(Value, *r));
            }
            Op::Atom(a) => {
                each(Address, a.access.address);
                a.access.registers.iter().for_each(|r| each(Value, *r));
                a.c.iter().for_each(|r| each(Value, (a.class, *r)));
                a.destinations
                    .iter()
                    .for_each(|r| each(Write, (a.class, *r)));
            }
            Op::Texture(t) => {
                each(Address, t.access.address);
                t.at.iter()
                    .chain(&t.layer)
                    .for_each(|r| each(Address, (R32, *r)));
                t.access.registers.iter().for_each(|r| each(Write, *r));
            }
            Op::Surface(t) => {
                each(Address, t.access.address);
                t.at.iter()
                    .chain(&t.layer)
                    .for_each(|r| each(Address, (R32, *r)));
                let how = if t.store { Value } else { Write };
                t.access.registers.iter().for_each(|r| each(how, *r));
            }
            Op::ImageQuery(_) => {
                each(Address, (R64, o[1]));
                each(Write, (R32, o[0]));
            }
            Op::CpAsync { to, from, .. } => {
                each(Address, to.address);
                each(Address, from.address);
                each(Control, (R32, o[2]));
            }
            Op::Bulk(copy) => {
                let places = std::iter::once(&copy.shared).chain(&copy.barrier);
                places.for_each(|place| each(Address, place.address));
                copy.multicast.iter().for_each(|r| each(Control, (R32, *r)));
                in_global(&copy.global, o[2], each);
            }
            Op::ReplaceField(r) => {
                each(Address, r.place.address);
                each(Control, r.value);
            }
            Op::PublishMap { to, from } => {
                each(Address, to.address);
                each(Address, from.address);
            }
            Op::AcquireMap(place) => each(Address, place.address),
            Op::BulkPrefetch(prefetch) => in_global(&prefetch.0, o[2], each),
            Op::AsyncStore(a) => {
                each(Address, a.access.address);
                each(Address, a.barrier.address);
                a.access.registers.iter().for_each(|r| each(Value, *r));
            }
            Op::Barrier { kind, .. } => {
                each(Control, (R32, o[1]));
                each(Control, (R32, o[2]));
                match kind {
                    BarrierKind::Sync | BarrierKind::Arrive => {}
                    BarrierKind::RedPopc => {
                        each(Value, (Pred, o[3]));
                        each(Write, (R32, o[0]));
                    }
                    BarrierKind::RedAnd | BarrierKind::RedOr => {
                        each(Value, (Pred, o[3]));
                        each(Write, (Pred, o[0]));
                    }
                }
            }
            Op::WarpSync => each(Control, (R32, o[1])),
            Op::Exchange(exchange) => {
                each(Control, (R32, o[4]));
                let (to, has_predicate) = match exchange {
                    Exchange::Shfl { predicate, .. } => {
                        (1..=3).for_each(|n| each(Value, (R32, o[n])));
                        (R32, *predicate)
                    }
                    Exchange::Vote { mode, .. } => {
                        each(Value, (Pred, o[1]));
                        (if *mode == VoteMode::Ballot { R32 } else { Pred }, false)
                    }
                    Exchange::Match {
                        wide, predicate, ..
                    } => {
                        each(Value, (if *wide { R64 } else { R32 }, o[1]));
                        (R32, *predicate)
                    }
                    Exchange::Redux(_) => {
                        each(Value, (R32, o[1]));
                        (R32, false)
                    }
                    Exchange::Elect => (R32, true),
                };
                each(Write, (to, o[0]));
                if has_predicate {
                    each(Write, (Pred, o[5]));
                }
            }
            Op::ActiveMask | Op::Print(_) | Op::Clock { wide: false } => each(Write, (R32, o[0])),
            Op::Clock { wide: true } => each(Write, (R64, o[0])),
            Op::PendingCount => {
                each(Value, (R64, o[1]));
                each(Write, (R32, o[0]));
            }
            Op::Malloc => {
                each(Control, (R64, o[1]));
                each(Write, (R64, o[0]));
            }
            Op::Free => each(Address, (R64, o[1])),
            Op::Mma(m) => matrix(m, each),
            Op::Wgmma(m) => {
                each(Control, (Pred, m.adds));
                each(Address, (R64, m.b));
                match &m.a {
                    OperandA::Registers(a) => a.iter().for_each(|r| each(Value, (R32, *r))),
                    OperandA::Descriptor(a) => each(Address, (R64, *a)),
                }
                m.d.iter().for_each(|r| each(Value, (R32, *r)));
                m.d.iter().for_each(|r| each(Write, (R32, *r)));
            }
            Op::Mbarrier(m) => {
                each(Address, m.address);
                match m.op {
                    MbarrierOp::Init => each(Control, (R32, o[1])),
                    MbarrierOp::Arrive { expects, .. } => {
                        each(Control, (R32, o[1]));
                        if expects {
                            each(Control, (R32, o[2]));
                        }
                        each(Write, (R64, o[0]));
                    }
                    MbarrierOp::ExpectTx | MbarrierOp::CompleteTx => each(Control, (R32, o[2])),
                    MbarrierOp::WaitState { .. } => {
                        each(Control, (R64, o[3]));
                        each(Write, (Pred, o[0]));
                    }
                    MbarrierOp::WaitParity { .. } => {
                        each(Control, (R32, o[1]));
                        each(Write, (Pred, o[0]));
                    }
                    MbarrierOp::Inval | MbarrierOp::CopiesArrive { .. } => {}
                }
            }
            Op::Branch(_)
            | Op::Call(_)
            | Op::Save(_)
            | Op::Restore { .. }
            | Op::Return
            | Op::Exit
            | Op::CopyLocal { .. }
            | Op::CpCommit
            | Op::CpWait(_)
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::ProxyFence
            | Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::WgmmaWait(_)
            | Op::SetRegisters(_)
            | Op::Fence(_)
            | Op::InitFence
            | Op::ClusterArrive { .. }
            | Op::ClusterWait { .. }
            | Op::Trap
            | Op::Assert(_)
            | Op::Sleep
            | Op::Nop => {}
        }
    }
}

fn in_global(place: &BulkGlobal, size: u32, mut each: impl FnMut(Use, Register)) {
    match place {
        BulkGlobal::Line(place) | BulkGlobal::Shared(place) => {
            each(Use::Address, place.address);
            each(Use::Control, (Class::R32, size));
        }
        BulkGlobal::Box { map, at, walk } => {
            each(Use::Address, map.address);
            let offsets = match walk {
                Walk::Tiles => &[][..],
                Walk::Pixels(offsets) => offsets,
            };
            at.iter()
                .chain(offsets)
                .map(|r| (Class::R32, *r))
                .for_each(|r| each(Use::Address, r));
        }
    }
}

fn matrix(m: &Mma, mut each: impl FnMut(Use, Register)) {
    use Class::{R32, R64};
    let mut product = |class, d: &[u32], from: [&[u32]; 3]| {
        from.into_iter()
            .flatten()
            .for_each(|r| each(Use::Value, (class, *r)));
        d.iter().for_each(|r| each(Use::Write, (class, *r)));
    };
    match m {
        Mma::Multiply(m) => product(R32, &m.d, [&m.a, &m.b, &m.c]),
        Mma::Integers(m) => product(R32, &m.d, [&m.a, &m.b, &m.c]),
        Mma::Doubles(m) => product(R64, &m.d, [&m.a, &m.b, &m.c]),
        Mma::Sparse(m) => {
            product(R32, &m.d, [&m.a, &m.b, &m.c]);
            each(Use::Value, (R32, m.metadata));
        }
        Mma::Quads(m) => product(R32, &m.d, [&m.a, &m.b, &m.c]),
        Mma::Scaled(m) => {
            product(R32, &m.d, [&m.a, &m.b, &m.c]);
            if let Some(scales) = &m.scales {
                scales
                    .registers
                    .iter()
                    .for_each(|r| each(Use::Value, (R32, *r)));
                scales
                    .selectors
                    .iter()
                    .flatten()
                    .for_each(|r| each(Use::Control, (R32, *r)));
            }
        }
        Mma::MovMatrix { d, a } => product(R32, &[*d], [&[*a], &[], &[]]),
        Mma::WmmaLoad(t) | Mma::WmmaStore(t) => {
            each(Use::Address, t.address);
            each(Use::Address, (R32, t.stride));
            let how = match m {
                Mma::WmmaLoad(_) => Use::Write,
                _ => Use::Value,
            };
            let class = t.elem.class();
            t.registers.iter().for_each(|r| each(how, (class, *r)));
        }
        Mma::LdMatrix {
            registers, address, ..
        } => {
            each(Use::Address, *address);
            registers.iter().for_each(|r| each(Use::Write, (R32, *r)));
        }
        Mma::StMatrix {
            registers, address, ..
        } => {
            each(Use::Address, *address);
            registers.iter().for_each(|r| each(Use::Value, (R32, *r)));
        }
    }
}
