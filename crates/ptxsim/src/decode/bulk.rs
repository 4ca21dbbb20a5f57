//! Bulk copies (PTX ISA 9.7.9.25.4 and 9.7.9.25.5): of bytes side by side, and of boxes of tensors. They
//! go to the block's own shared memory, or to that of blocks of its cluster.

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
            [
                "shared::cluster",
                "shared::cta",
                "mbarrier::complete_tx::bytes",
            ] => {
                self.uses_clusters = true;
                self.bulk_copy(i, true, &[])?;
            }
            ["global", "shared::cta", "bulk_group", hints @ ..] => {
                self.bulk_copy(i, false, hints)?;
            }
            [
                "tensor",
                dimensions,
                "shared::cluster" | "shared::cta",
                "global",
                rest @ ..,
            ] => match without_mode(rest) {
                ["mbarrier::complete_tx::bytes", hints @ ..] => {
                    self.tensor_copy(i, dimensions, true, hints)?;
                }
                _ => return self.unsupported(i, ""),
            },
            ["tensor", dimensions, "global", "shared::cta", rest @ ..] => {
                match without_mode(rest) {
                    ["bulk_group", hints @ ..] => {
                        self.tensor_copy(i, dimensions, false, hints)?;
                    }
                    _ => return self.unsupported(i, ""),
                }
            }
            _ => return self.unsupported(i, ""),
        }
        Ok(())
    }

    /// [to], [map, {coordinates}], [mbarrier], or [map, {coordinates}], [from]
    fn tensor_copy(
        &mut self,
        i: &Instruction,
        dimensions: &str,
        to_shared: bool,
        hints: &[&str],
    ) -> Load<()> {
        let multicast = self.multicast(i, 2, to_shared, hints)?;
        let (shared, tensor) = if to_shared { (0, 1) } else { (1, 0) };
        let Operand::Element { base, at } = self.operand(i, tensor)? else {
            return self.invalid(i.pos, "expected a tensor map and coordinates in brackets");
        };
        let at = match at.as_slice() {
            [Operand::Vector(at)] => at.as_slice(),
            at => at,
        };
        if dimensions != format!("{}d", at.len()) {
            let what = format!("{} coordinates for `{dimensions}`", at.len());
            return self.invalid(i.pos, what);
        }
        let map = Operand::Address {
            base: Some(base.clone()),
            offset: 0,
        };
        let at: Vec<u32> = at
            .iter()
            .map(|c| self.value(i, c, Class::R32, Ty::S32))
            .collect::<Load<_>>()?;
        let copy = BulkCopy {
            shared: self.bulk_place(i, self.operand(i, shared)?, shared_side(to_shared))?,
            global: BulkGlobal::Box {
                map: self.bulk_place(i, &map, AddressSpace::Generic)?,
                at,
            },
            barrier: match to_shared {
                true => Some(self.bulk_place(i, self.operand(i, 2)?, AddressSpace::Cluster)?),
                false => None,
            },
            multicast,
        };
        self.watch_shared(AddressSpace::Shared, 4);
        self.emit(Op::Bulk(Box::new(copy)), [0; 6]);
        Ok(())
    }

    /// The register of `.multicast::cluster`, behind so many operands and the mbarrier, before a hint.
    fn multicast(
        &mut self,
        i: &Instruction,
        operands: usize,
        to_shared: bool,
        hints: &[&str],
    ) -> Load<Option<u32>> {
        let (hints, goes) = match hints {
            ["multicast::cluster", rest @ ..] if to_shared => (rest, true),
            all => (all, false),
        };
        let hint = self.known(i, operands_of_hints(hints))?;
        let mask = operands + usize::from(to_shared);
        let operands = mask + usize::from(goes) + hint;
        self.expect_operands(i, operands..=operands)?;
        if !goes {
            return Ok(None);
        }
        self.uses_clusters = true;
        let mask = self.value(i, self.operand(i, mask)?, Class::R32, Ty::U16)?;
        Ok(Some(mask))
    }

    pub(super) fn bulk_place(
        &mut self,
        i: &Instruction,
        operand: &Operand,
        space: AddressSpace,
    ) -> Load<BulkPlace> {
        let (own, address, offset) = self.address(i, operand, space)?;
        // The name of a parameter stands for its generic address.
        let window = match (space, own) {
            (AddressSpace::Generic, AddressSpace::Param) => PARAM_WINDOW as i64,
            _ => 0,
        };
        Ok(BulkPlace {
            address,
            offset: offset + window,
        })
    }

    /// [to], [from], bytes, and to shared memory [mbarrier]
    fn bulk_copy(&mut self, i: &Instruction, to_shared: bool, hints: &[&str]) -> Load<()> {
        let from_shared = to_shared && i.words.get(4).is_some_and(|w| w == "shared::cta");
        let multicast = self.multicast(i, 3, to_shared, hints)?;
        let (shared, global) = if to_shared { (0, 1) } else { (1, 0) };
        let shared = self.bulk_place(i, self.operand(i, shared)?, shared_side(to_shared))?;
        let global = match from_shared {
            true => BulkGlobal::Shared(self.bulk_place(
                i,
                self.operand(i, global)?,
                AddressSpace::Shared,
            )?),
            false => BulkGlobal::Line(self.bulk_place(
                i,
                self.operand(i, global)?,
                AddressSpace::Global,
            )?),
        };
        let barrier = match to_shared {
            true => Some(self.bulk_place(i, self.operand(i, 3)?, AddressSpace::Cluster)?),
            false => None,
        };
        let bytes = self.value(i, self.operand(i, 2)?, Class::R32, Ty::U32)?;
        let copy = BulkCopy {
            shared,
            global,
            barrier,
            multicast,
        };
        self.watch_shared(AddressSpace::Shared, 4);
        self.emit(Op::Bulk(Box::new(copy)), [0, 0, bytes, 0, 0, 0]);
        Ok(())
    }
}

/// Where the shared side of a copy lies.
fn shared_side(to_shared: bool) -> AddressSpace {
    match to_shared {
        true => AddressSpace::Cluster,
        false => AddressSpace::Shared,
    }
}

/// Tiles are what is copied where no mode is given.
fn without_mode<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    words.strip_prefix(&["tile"]).unwrap_or(words)
}

/// How many operands hints bring, if they are known.
fn operands_of_hints(hints: &[&str]) -> Option<usize> {
    match hints {
        [] => Some(0),
        ["L2::cache_hint"] => Some(1),
        _ => None,
    }
}
