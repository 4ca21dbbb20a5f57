//! Decodes operations on mbarrier objects in shared memory (PTX ISA 9.7.13.15).

use super::memory_forms::scope;
use super::{Decoder, Load};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

/// The operations on an mbarrier of another block that PTX has.
const REMOTE: [&str; 4] = ["arrive", "arrive_drop", "expect_tx", "complete_tx"];

impl Decoder<'_> {
    /// Decodes an operation such as `mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 state, [address], bytes`.
    pub(super) fn mbarrier(&mut self, words: &[&str]) -> Load<()> {
        let mut space = AddressSpace::Generic;
        let (mut expects, mut parity) = (false, false);
        let (&name, rest) = self.known(words.get(1..).and_then(<[_]>::split_first))?;
        for &word in rest {
            match word {
                "shared" | "shared::cta" => space = AddressSpace::Shared,
                "b64" | "acquire" | "release" | "relaxed" | "cta" | "cluster" | "noComplete" => {}
                "shared::cluster" if REMOTE.contains(&name) => space = AddressSpace::Cluster,
                "expect_tx" if name.starts_with("arrive") => expects = true,
                "parity" => parity = true,
                _ => return self.unsupported(""),
            }
        }
        let mut o = [0; 6];
        let (op, at) = match name {
            "init" => {
                self.expect_operands(2..=2)?;
                o[1] = self.source(1, Class::R32, Ty::U32)?;
                (MbarrierOp::Init, 0)
            }
            "inval" => (MbarrierOp::Inval, 0),
            "arrive" | "arrive_drop" => {
                self.expect_operands(2..=3)?;
                o[0] = match self.operand(0)? {
                    Operand::Name(n) if n == "_" => 0,
                    d => self.destination(d, Class::R64)?,
                };
                o[1] = self.constant32(1);
                if let Some(operand) = self.ptx.operands.get(2) {
                    let value = self.value(operand, Class::R32, Ty::U32)?;
                    o[if expects { 2 } else { 1 }] = value;
                } else if expects {
                    return self.invalid("the bytes to expect are missing");
                }
                let drop = name == "arrive_drop";
                (MbarrierOp::Arrive { drop, expects }, 1)
            }
            "expect_tx" | "complete_tx" => {
                self.expect_operands(2..=2)?;
                o[2] = self.source(1, Class::R32, Ty::U32)?;
                match name {
                    "expect_tx" => (MbarrierOp::ExpectTx, 0),
                    _ => (MbarrierOp::CompleteTx, 0),
                }
            }
            "test_wait" | "try_wait" => {
                // A time limit may follow; it is a hint.
                self.expect_operands(3..=4)?;
                o[0] = self.result(0, Class::Pred)?;
                let blocks = name == "try_wait";
                let what = self.operand(2)?;
                if parity {
                    o[1] = self.value(what, Class::R32, Ty::U32)?;
                    (MbarrierOp::WaitParity { blocks }, 1)
                } else {
                    o[3] = self.value(what, Class::R64, Ty::B64)?;
                    (MbarrierOp::WaitState { blocks }, 1)
                }
            }
            "pending_count" => {
                self.expect_operands(2..=2)?;
                let d = self.result(0, Class::R32)?;
                let state = self.source(1, Class::R64, Ty::B64)?;
                self.emit_with(Op::PendingCount, [d, state, 0, 0, 0, 0]);
                return Ok(());
            }
            _ => return self.unsupported(""),
        };
        let relaxed = rest.contains(&"relaxed");
        let scope = match scope(rest) {
            Scope::Block => Scope::Block,
            Scope::Cluster | Scope::Device => Scope::Cluster,
        };
        self.emit_mbarrier(op, at, (space, scope, relaxed), o)
    }

    /// Decodes `cp.async.mbarrier.arrive.noinc.shared.b64 [address]`, by which copies arrive.
    pub(super) fn copies_arrive(&mut self, words: &[&str]) -> Load<()> {
        let mut space = AddressSpace::Generic;
        let mut counted = false;
        for &word in words {
            match word {
                "noinc" => counted = true,
                "shared" | "shared::cta" => space = AddressSpace::Shared,
                "b64" => {}
                _ => return self.unsupported(""),
            }
        }
        self.expect_operands(1..=1)?;
        self.emit_mbarrier(
            MbarrierOp::CopiesArrive { counted },
            0,
            (space, Scope::Block, false),
            [0; 6],
        )
    }

    /// Emits an operation on the mbarrier at the address of operand `at`.
    fn emit_mbarrier(
        &mut self,
        op: MbarrierOp,
        at: usize,
        (space, scope, relaxed): (AddressSpace, Scope, bool),
        o: [u32; 6],
    ) -> Load<()> {
        let (space, address, offset) = self.address(at, space)?;
        self.watch_shared(space, 4);
        let barrier = Mbarrier {
            op,
            space,
            scope,
            relaxed,
            address,
            offset,
        };
        self.emit_with(Op::Mbarrier(Box::new(barrier)), o);
        Ok(())
    }
}
