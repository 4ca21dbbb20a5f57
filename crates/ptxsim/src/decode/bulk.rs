//! Decodes bulk copies (PTX ISA 9.7.9.25.4 and 9.7.9.25.5): of bytes side by side, and of boxes of tensors. They go to
//! the block's own shared memory, or to that of blocks of its cluster.

use super::atomic_forms::operation;
use super::{Decoder, Load};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;
use model::MapElement;

impl Decoder<'_> {
    /// Decodes a bulk copy. `words` are those that follow `cp.async.bulk`.
    pub(super) fn bulk(&mut self, words: &[&str]) -> Load<()> {
        match words {
            ["commit_group"] => self.emit(Op::BulkCommit),
            ["wait_group", rest @ ..] if matches!(rest, [] | ["read"]) => {
                let keep = self.groups_to_keep()?;
                let reads_only = !rest.is_empty();
                self.emit(Op::BulkWait { keep, reads_only });
            }
            [
                "shared::cluster" | "shared::cta",
                "global",
                "mbarrier::complete_tx::bytes",
                hints @ ..,
            ] => self.bulk_copy(true, hints, None)?,
            [
                "shared::cluster",
                "shared::cta",
                "mbarrier::complete_tx::bytes",
            ] => {
                self.program.uses_clusters = true;
                self.bulk_copy(true, &[], None)?;
            }
            ["global", "shared::cta", "bulk_group", hints @ ..] => {
                self.bulk_copy(false, hints, None)?;
            }
            ["prefetch", "L2", "global", hints @ ..] => self.bulk_prefetch(hints)?,
            ["prefetch", "tensor", dimensions, "L2", "global", rest @ ..] => {
                self.tensor_prefetch(dimensions, mode_of(rest, "im2col"))?;
            }
            [
                "tensor",
                dimensions,
                "shared::cluster" | "shared::cta",
                "global",
                rest @ ..,
            ] => match mode_of(rest, "im2col") {
                (mode, ["mbarrier::complete_tx::bytes", hints @ ..]) => {
                    self.tensor_copy((dimensions, mode), true, hints, None)?;
                }
                _ => return self.unsupported(""),
            },
            ["tensor", dimensions, "global", "shared::cta", rest @ ..] => {
                match mode_of(rest, "im2col_no_offs") {
                    (mode, ["bulk_group", hints @ ..]) => {
                        self.tensor_copy((dimensions, mode), false, hints, None)?;
                    }
                    _ => return self.unsupported(""),
                }
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }

    /// Decodes a bulk reduction (PTX ISA, "cp.reduce.async.bulk" and "...tensor") as a copy with an operation. `words`
    /// are those that follow `cp.reduce.async.bulk`.
    pub(super) fn bulk_reduction(&mut self, words: &[&str]) -> Load<()> {
        match words {
            ["global", "shared::cta", "bulk_group", rest @ ..] => {
                let (hints, rest) = match rest {
                    ["L2::cache_hint", rest @ ..] => (&["L2::cache_hint"][..], rest),
                    rest => (&[][..], rest),
                };
                let (name, ty) = match rest {
                    ["add", "noftz", ty @ ("f16" | "bf16")] => ("add", Ty::parse(ty)),
                    ["add", "f16" | "bf16"] => return self.unsupported("without .noftz"),
                    [name, ty] => (*name, Ty::parse(ty)),
                    _ => return self.unsupported(""),
                };
                let ty = self.known(ty.filter(|ty| reduces(name, *ty)))?;
                let op = self.known(operation(name, ty))?;
                self.bulk_copy(false, hints, Some(Reduction::Elements(op, ty.bytes())))
            }
            [
                "shared::cluster",
                "shared::cta",
                "mbarrier::complete_tx::bytes",
                name,
                ty,
            ] => {
                self.program.uses_clusters = true;
                let ty = self.known(Ty::parse(ty).filter(|ty| reduces_in_shared(name, *ty)))?;
                let op = self.known(operation(name, ty))?;
                self.bulk_copy(true, &[], Some(Reduction::Elements(op, ty.bytes())))
            }
            [
                "tensor",
                dimensions,
                "global",
                "shared::cta",
                name,
                rest @ ..,
            ] => {
                let (mode, ["bulk_group", hints @ ..]) = mode_of(rest, "im2col_no_offs") else {
                    return self.unsupported("");
                };
                let elements = operations_by_element(name);
                if elements.is_empty() {
                    return self.unsupported("");
                }
                let reduction = Some(Reduction::ByMap(elements));
                self.tensor_copy((dimensions, mode), false, hints, reduction)
            }
            _ => self.unsupported(""),
        }
    }

    /// Decodes a copy of a box: `[to], [map, {coordinates}], [mbarrier]`, with `{offsets}` of im2col, or `[map,
    /// {coordinates}], [from]`.
    fn tensor_copy(
        &mut self,
        (dimensions, mode): (&str, Mode),
        to_shared: bool,
        hints: &[&str],
        reduction: Option<Reduction>,
    ) -> Load<()> {
        let offsets = (mode == Mode::Im2col && to_shared).then_some(3);
        let operands = 2 + usize::from(offsets.is_some());
        let multicast = self.multicast(operands, to_shared, hints)?;
        let global = self.bulk_box(usize::from(to_shared), (dimensions, mode), offsets)?;
        self.emit_bulk(to_shared.then_some(2), global, 0, (reduction, multicast))
    }

    /// Reads `[map, {coordinates}]`, and the operand of `{offsets}` of im2col, if there is one.
    fn bulk_box(
        &mut self,
        operand: usize,
        (dimensions, mode): (&str, Mode),
        offsets: Option<usize>,
    ) -> Load<BulkGlobal> {
        let Operand::Element { base, at } = self.operand(operand)? else {
            return self.invalid("expected a tensor map and coordinates in brackets");
        };
        let at = match at.as_slice() {
            [Operand::Vector(at)] => at.as_slice(),
            at => at,
        };
        if dimensions != format!("{}d", at.len()) {
            let what = format!("{} coordinates for `{dimensions}`", at.len());
            return self.invalid(what);
        }
        let at = self.registers(at, (Class::R32, Ty::S32), false)?;
        let walk = match mode {
            Mode::Tile => Walk::Tiles,
            Mode::Im2col if !(3..=5).contains(&at.len()) => {
                return self.invalid("im2col takes 3 to 5 coordinates");
            }
            Mode::Im2col => Walk::Pixels(self.offsets(offsets, at.len() - 2)?),
        };
        let (own, address, offset) = self.address_from(Some(base), 0, AddressSpace::Generic)?;
        // The name of a parameter stands for its generic address.
        let window = match own {
            AddressSpace::Param => PARAM_WINDOW as i64,
            _ => 0,
        };
        let offset = offset + window;
        Ok(BulkGlobal::Box {
            map: BulkPlace { address, offset },
            at,
            walk,
        })
    }

    /// Reads the offsets of im2col, one for each dimension of space.
    fn offsets(&mut self, operand: Option<usize>, count: usize) -> Load<Vec<u32>> {
        let Some(operand) = operand else {
            return Ok(Vec::new());
        };
        let offsets = self.operand(operand)?.elements();
        if offsets.len() != count {
            let what = format!("{} offsets of im2col in place of {count}", offsets.len());
            return self.invalid(what);
        }
        self.registers(offsets, (Class::R32, Ty::U16), false)
    }

    /// Decodes a prefetch with the operands `[from], bytes`.
    fn bulk_prefetch(&mut self, hints: &[&str]) -> Load<()> {
        let hint = self.known(operands_of_hints(hints))?;
        self.expect_operands(2 + hint..=2 + hint)?;
        let from = self.bulk_place(0, AddressSpace::Global)?;
        let bytes = self.source(1, Class::R32, Ty::U32)?;
        let prefetch = Box::new(BulkPrefetch(BulkGlobal::Line(from)));
        self.emit_with(Op::BulkPrefetch(prefetch), [0, 0, bytes, 0, 0, 0]);
        Ok(())
    }

    /// Decodes a prefetch with the operands `[map, {coordinates}]`, and `{offsets}` in im2col mode.
    fn tensor_prefetch(&mut self, dimensions: &str, (mode, hints): (Mode, &[&str])) -> Load<()> {
        let hint = self.known(operands_of_hints(hints))?;
        let offsets = (mode == Mode::Im2col).then_some(1);
        let operands = 1 + usize::from(offsets.is_some()) + hint;
        self.expect_operands(operands..=operands)?;
        let prefetch = BulkPrefetch(self.bulk_box(0, (dimensions, mode), offsets)?);
        self.emit(Op::BulkPrefetch(Box::new(prefetch)));
        Ok(())
    }

    /// Reads the register of `.multicast::cluster`, if the copy has one. It stands behind `operands` operands and the
    /// mbarrier, before a hint.
    fn multicast(&mut self, operands: usize, to_shared: bool, hints: &[&str]) -> Load<Option<u32>> {
        let (hints, goes) = match hints {
            ["multicast::cluster", rest @ ..] if to_shared => (rest, true),
            all => (all, false),
        };
        let hint = self.known(operands_of_hints(hints))?;
        let mask = operands + usize::from(to_shared);
        let operands = mask + usize::from(goes) + hint;
        self.expect_operands(operands..=operands)?;
        if !goes {
            return Ok(None);
        }
        self.program.uses_clusters = true;
        let mask = self.source(mask, Class::R32, Ty::U16)?;
        Ok(Some(mask))
    }

    /// Reads the n-th operand as the address of one side of a copy.
    pub(super) fn bulk_place(&mut self, n: usize, space: AddressSpace) -> Load<BulkPlace> {
        let (_, address, offset) = self.address(n, space)?;
        Ok(BulkPlace { address, offset })
    }

    /// Decodes a copy of bytes side by side: `[to], [from], bytes`, and to shared memory `[mbarrier]`.
    fn bulk_copy(
        &mut self,
        to_shared: bool,
        hints: &[&str],
        reduction: Option<Reduction>,
    ) -> Load<()> {
        let from_shared = to_shared && !self.ptx.words.iter().any(|w| w == "global");
        let multicast = self.multicast(3, to_shared, hints)?;
        let global = usize::from(to_shared);
        let global = if from_shared {
            BulkGlobal::Shared(self.bulk_place(global, AddressSpace::Shared)?)
        } else {
            BulkGlobal::Line(self.bulk_place(global, AddressSpace::Global)?)
        };
        let bytes = self.source(2, Class::R32, Ty::U32)?;
        self.emit_bulk(
            to_shared.then_some(3),
            global,
            bytes,
            (reduction, multicast),
        )
    }

    /// Emits a copy. A copy to shared memory has the operand `barrier`, its mbarrier, and its first operand is the place
    /// in shared memory. That is the second one of a copy to global memory.
    fn emit_bulk(
        &mut self,
        barrier: Option<usize>,
        global: BulkGlobal,
        bytes: u32,
        (reduction, multicast): (Option<Reduction>, Option<u32>),
    ) -> Load<()> {
        let (shared, barrier) = match barrier {
            Some(barrier) => (
                self.bulk_place(0, AddressSpace::Cluster)?,
                Some(self.bulk_place(barrier, AddressSpace::Cluster)?),
            ),
            None => (self.bulk_place(1, AddressSpace::Shared)?, None),
        };
        let copy = BulkCopy {
            shared,
            global,
            barrier,
            reduction,
            multicast,
        };
        self.watch_shared(AddressSpace::Shared, 4);
        self.emit_with(Op::Bulk(Box::new(copy)), [0, 0, bytes, 0, 0, 0]);
        Ok(())
    }
}

/// The way in which a copy goes through a tensor, as the instruction names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Tile,
    Im2col,
}

/// Returns the mode that words begin with, and the other words. Without a mode, tiles are copied.
fn mode_of<'a, 'b>(words: &'a [&'b str], im2col: &str) -> (Mode, &'a [&'b str]) {
    match words {
        ["tile", rest @ ..] => (Mode::Tile, rest),
        [word, rest @ ..] if *word == im2col => (Mode::Im2col, rest),
        all => (Mode::Tile, all),
    }
}

/// Returns true if a bulk reduction has this operation for elements of this type (PTX ISA, "cp.reduce.async.bulk", and
/// what ptxas 13.0.88 accepts for sm_90).
fn reduces(name: &str, ty: Ty) -> bool {
    use Ty::*;
    match name {
        "add" => matches!(ty, U32 | S32 | U64 | F32 | F64 | F16 | Bf16),
        "min" | "max" => matches!(ty, U32 | S32 | U64 | S64 | F16 | Bf16),
        "inc" | "dec" => ty == U32,
        "and" | "or" | "xor" => matches!(ty, B32 | B64),
        _ => false,
    }
}

/// Returns true if a copy to shared memory of the cluster has this operation (the same sources).
fn reduces_in_shared(name: &str, ty: Ty) -> bool {
    let is_word = ty.bytes() == 4 && ty != Ty::F32;
    reduces(name, ty) && (is_word || (name, ty) == ("add", Ty::U64))
}

/// Returns the operation on each element that a tensor map can have, and nothing for elements that the operation does
/// not take.
fn operations_by_element(name: &str) -> Vec<(MapElement, AtomOp)> {
    use MapElement::*;
    let is_bitwise = matches!(name, "and" | "or" | "xor");
    let elements = [U32, I32, U64, I64, F16, Bf16, F32, F64];
    elements
        .into_iter()
        .filter_map(|element| {
            let ty = match element {
                U32 | I32 if is_bitwise => Ty::B32,
                U64 | I64 if is_bitwise => Ty::B64,
                U32 => Ty::U32,
                I32 => Ty::S32,
                U64 => Ty::U64,
                I64 => Ty::S64,
                F16 => Ty::F16,
                Bf16 => Ty::Bf16,
                F32 => Ty::F32,
                F64 => Ty::F64,
                U8 | U16 | Tf32 => return None,
            };
            let op = operation(name, ty).filter(|_| reduces(name, ty))?;
            Some((element, op))
        })
        .collect()
}

/// Returns the number of operands that hints add, or `None` if a hint is unknown.
fn operands_of_hints(hints: &[&str]) -> Option<usize> {
    match hints {
        [] => Some(0),
        ["L2::cache_hint"] => Some(1),
        _ => None,
    }
}
