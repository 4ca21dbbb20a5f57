//! The registers that each instruction reads and writes.

use super::mma::{Fragments, Mma};
use super::op::*;
use super::wgmma::OperandA;
use crate::regs::Class;
use Class::{Pred, R32, R64};
use Use::{Address, Control, Value, Write};

pub type Register = (Class, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The value goes into a result, or into memory.
    Value,
    /// The register is part of an address.
    Address,
    /// The register decides what is done or which threads take part: guards, targets, members, counts.
    Control,
    Write,
}

/// A callback that gets one register of an instruction after another.
trait Visitor: FnMut(Use, Register) {
    fn all(&mut self, how: Use, registers: &[Register]) {
        registers.iter().for_each(|register| self(how, *register));
    }

    fn class<'r>(&mut self, how: Use, class: Class, numbers: impl IntoIterator<Item = &'r u32>) {
        numbers.into_iter().for_each(|n| self(how, (class, *n)));
    }

    fn places<'p>(&mut self, places: impl IntoIterator<Item = &'p BulkPlace>) {
        places
            .into_iter()
            .for_each(|place| self(Address, place.address));
    }
}

impl<F: FnMut(Use, Register)> Visitor for F {}

impl Inst {
    /// Returns the predicate register that guards the instruction, if any.
    #[inline(always)]
    pub fn guard_register(&self) -> Option<u32> {
        (self.guard != 0).then(|| (self.guard >> 1) - 1)
    }

    /// Returns the registers that it writes.
    pub fn written(&self) -> Vec<Register> {
        self.registers_of(|how| how == Write)
    }

    /// Returns the registers that it reads, its guard first.
    pub fn read(&self) -> Vec<Register> {
        self.registers_of(|how| how != Write)
    }

    /// Returns the registers with the roles for which `is_meant` is true.
    pub fn registers_of(&self, is_meant: impl Fn(Use) -> bool) -> Vec<Register> {
        let mut all = Vec::new();
        self.registers(|how, register| all.extend(is_meant(how).then_some(register)));
        all
    }

    /// Returns the result and the operands of arithmetic, or `None` for everything else.
    pub fn arithmetic(&self) -> Option<(Register, Vec<Register>)> {
        let Op::Alu(op) = &self.op else { return None };
        let mut all = op.classes().iter().copied().zip(self.o);
        Some((all.next()?, all.collect()))
    }

    /// Visits all registers of an instruction, its guard first.
    pub fn registers(&self, mut each: impl FnMut(Use, Register)) {
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
                each.all(Write, &a.registers);
            }
            Op::Store(a) => {
                each(Address, a.address);
                each.all(Value, &a.registers);
            }
            Op::Atom(a) => {
                each(Address, a.access.address);
                each.all(Value, &a.access.registers);
                each.class(Value, a.class, &a.c);
                each.class(Write, a.class, &a.destinations);
            }
            Op::Texture(t) => {
                each(Address, t.access.address);
                each.class(Address, R32, t.at.iter().chain(&t.layer));
                each.all(Write, &t.access.registers);
            }
            Op::Surface(t) => {
                each(Address, t.access.address);
                each.class(Address, R32, t.at.iter().chain(&t.layer));
                let how = if t.store { Value } else { Write };
                each.all(how, &t.access.registers);
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
                each.places([&copy.shared]);
                each.places(&copy.barrier);
                each.class(Control, R32, &copy.multicast);
                in_global(&copy.global, o[2], each);
            }
            Op::ReplaceField(r) => {
                each(Address, r.place.address);
                each(Control, r.value);
            }
            Op::PublishMap { to, from } => each.places([to, from]),
            Op::AcquireMap(place) => each(Address, place.address),
            Op::BulkPrefetch(prefetch) => in_global(&prefetch.0, o[2], each),
            Op::AsyncStore(a) => {
                each(Address, a.access.address);
                each(Address, a.barrier.address);
                each.all(Value, &a.access.registers);
            }
            Op::Barrier { kind, .. } => {
                each.class(Control, R32, &o[1..3]);
                let class = match kind {
                    BarrierKind::Sync | BarrierKind::Arrive => return,
                    BarrierKind::RedPopc => R32,
                    BarrierKind::RedAnd | BarrierKind::RedOr => Pred,
                };
                each(Value, (Pred, o[3]));
                each(Write, (class, o[0]));
            }
            Op::WarpSync => each(Control, (R32, o[1])),
            Op::Exchange(exchange) => {
                each(Control, (R32, o[4]));
                let (to, has_predicate) = match exchange {
                    Exchange::Shfl { predicate, .. } => {
                        each.class(Value, R32, &o[1..4]);
                        (R32, *predicate)
                    }
                    Exchange::Vote { mode, .. } => {
                        each(Value, (Pred, o[1]));
                        let is_ballot = *mode == VoteMode::Ballot;
                        (if is_ballot { R32 } else { Pred }, false)
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
                    OperandA::Registers(a) => each.class(Value, R32, a),
                    OperandA::Descriptor(a) => each(Address, (R64, *a)),
                }
                each.class(Value, R32, &m.d);
                each.class(Write, R32, &m.d);
            }
            Op::Mbarrier(m) => {
                each(Address, m.address);
                match m.op {
                    MbarrierOp::Init => each(Control, (R32, o[1])),
                    MbarrierOp::Arrive { expects, .. } => {
                        each.class(Control, R32, &o[1..if expects { 3 } else { 2 }]);
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

/// Visits the registers of the global side of a copy.
fn in_global(place: &BulkGlobal, size: u32, mut each: impl FnMut(Use, Register)) {
    match place {
        BulkGlobal::Line(place) | BulkGlobal::Shared(place) => {
            each(Address, place.address);
            each(Control, (R32, size));
        }
        BulkGlobal::Box { map, at, walk } => {
            each(Address, map.address);
            each.class(Address, R32, at);
            if let Walk::Pixels(offsets) = walk {
                each.class(Address, R32, offsets);
            }
        }
    }
}

/// Visits the registers of a matrix instruction.
fn matrix(m: &Mma, mut each: impl FnMut(Use, Register)) {
    let mut product = |class, registers: &Fragments| {
        let Fragments { d, a, b, c } = registers;
        each.class(Value, class, [a, b, c].into_iter().flatten());
        each.class(Write, class, d);
    };
    match m {
        Mma::Multiply(m) => product(R32, &m.registers),
        Mma::Integers(m) => product(R32, &m.registers),
        Mma::Doubles(m) => product(R64, &m.registers),
        Mma::Sparse(m) => {
            product(R32, &m.registers);
            each(Value, (R32, m.metadata));
        }
        Mma::Quads(m) => product(R32, &m.registers),
        Mma::Scaled(m) => {
            product(R32, &m.registers);
            if let Some(scales) = &m.scales {
                each.class(Value, R32, &scales.registers);
                each.class(Control, R32, scales.selectors.iter().flatten());
            }
        }
        Mma::MovMatrix { d, a } => {
            each(Value, (R32, *a));
            each(Write, (R32, *d));
        }
        Mma::WmmaLoad(t) | Mma::WmmaStore(t) => {
            each.all(Address, &[t.address, (R32, t.stride)]);
            let is_load = matches!(m, Mma::WmmaLoad(_));
            let how = if is_load { Write } else { Value };
            each.class(how, t.elem.class(), &t.registers);
        }
        Mma::Matrices(m) => {
            each(Address, m.address);
            each.class(if m.stores { Value } else { Write }, R32, &m.registers);
        }
    }
}
