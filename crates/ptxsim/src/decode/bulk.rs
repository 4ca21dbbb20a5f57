//! Bulk copies of one dimension (PTX ISA 9.7.9.25.4). Copies of tensors and to other blocks of a cluster are refused.

use super::{Decoder, Load};
use crate::parse::ast::*;
use crate::program::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// `words` come after `cp.async.bulk`.
    pub(super) fn bulk(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        match words {
            ["commit_group"] => self.emit(Op::BulkCommit, [0; 6]),
            ["wait_group", rest @ ..] if matches!(rest, [] | ["read"]) => {
                let keep = self.groups_to_keep(i)?;
                let reads_only = !rest.is_empty();
                self.emit(Op::BulkWait { keep, reads_only }, [0; 6]);
            }
            [
                "shared::cluster" | "shared::cta",
                "global",
                "mbarrier::complete_tx::bytes",
                hints @ ..,
            ] => self.bulk_copy(i, true, hints)?,
            ["global", "shared::cta", "bulk_group", hints @ ..] => {
                self.bulk_copy(i, false, hints)?;
            }
            _ => return self.unsupported(i, ""),
        }
        Ok(())
    }

    /// [to], [from], bytes, and to shared memory [mbarrier]
    fn bulk_copy(&mut self, i: &Instruction, to_shared: bool, hints: &[&str]) -> Load<()> {
        let hint = match hints {
            [] => 0,
            ["L2::cache_hint"] => 1,
            _ => return self.unsupported(i, ""),
        };
        let operands = 3 + usize::from(to_shared) + hint;
        self.expect_operands(i, operands..=operands)?;
        let (shared, global) = if to_shared { (0, 1) } else { (1, 0) };
        let mut place = |operand: usize, space| -> Load<BulkPlace> {
            let (_, address, offset) = self.address(i, self.operand(i, operand)?, space)?;
            Ok(BulkPlace { address, offset })
        };
        let shared = place(shared, AddressSpace::Shared)?;
        let global = place(global, AddressSpace::Global)?;
        let barrier = match to_shared {
            true => Some(place(3, AddressSpace::Shared)?),
            false => None,
        };
        let bytes = self.value(i, self.operand(i, 2)?, Class::R32, Ty::U32)?;
        let copy = BulkCopy {
            shared,
            global,
            barrier,
        };
        self.watch_shared(AddressSpace::Shared, 4);
        self.emit(Op::Bulk(Box::new(copy)), [0, 0, bytes, 0, 0, 0]);
        Ok(())
    }
}
