//! Decodes changes of tensor maps by a kernel (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy" and
//! "fence.proxy").

use super::{Decoder, Load};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;
use crate::tensor_map::{MAP_BYTES, MapField};

impl Decoder<'_> {
    /// Decodes `tensormap.replace` and `tensormap.cp_fenceproxy`, which change a map and publish it.
    pub(super) fn tensor_map(&mut self, words: &[&str]) -> Load<()> {
        match words {
            [_, "replace", "tile", field, rest @ .., "b1024", ty] => {
                let space = match rest {
                    [] => AddressSpace::Generic,
                    ["global"] => AddressSpace::Global,
                    ["shared::cta"] => AddressSpace::Shared,
                    _ => return self.unsupported(""),
                };
                self.replace_field(field, space, ty)
            }
            [
                _,
                "cp_fenceproxy",
                "global",
                "shared::cta",
                "tensormap::generic",
                "release",
                "cta" | "cluster" | "gpu" | "sys",
                "sync",
                "aligned",
            ] => {
                self.expect_operands(3..=3)?;
                self.whole_map(2)?;
                let to = self.bulk_place(0, AddressSpace::Global)?;
                let from = self.bulk_place(1, AddressSpace::Shared)?;
                self.watch_shared(AddressSpace::Shared, 4);
                self.emit(Op::PublishMap { to, from });
                Ok(())
            }
            _ => self.unsupported(""),
        }
    }

    /// Decodes a change of a field: `[map]`, number of the dimension, value; or `[map]`, value.
    fn replace_field(&mut self, field: &str, space: AddressSpace, ty: &str) -> Load<()> {
        let field = self.known(MapField::parse(field))?;
        let by_dimension = field.is_of_dimension();
        let class = match (field, ty) {
            (MapField::Address | MapField::Stride, "b64") => Class::R64,
            (MapField::Address | MapField::Stride, _) | (_, "b64") => {
                return self.unsupported("this type of the field");
            }
            _ => Class::R32,
        };
        let operands = 2 + usize::from(by_dimension);
        self.expect_operands(operands..=operands)?;
        let dimension = if by_dimension {
            self.immediate(1)? as usize
        } else {
            0
        };
        if field.bytes(dimension).is_none() {
            return self.invalid(format!("a tensor map has no dimension {dimension}"));
        }
        let (space, address, offset) = self.address(0, space)?;
        let value = self.source(operands - 1, class, Ty::B32)?;
        self.watch_shared(space, 4);
        let replace = ReplaceField {
            field,
            dimension,
            space,
            place: BulkPlace { address, offset },
            value: (class, value),
        };
        self.emit(Op::ReplaceField(Box::new(replace)));
        Ok(())
    }

    /// Decodes `fence.proxy.tensormap::generic.acquire.gpu [map], 128`, and the fence that releases, which has no
    /// effect here.
    pub(super) fn map_fence(&mut self, way: &str) -> Load<()> {
        if way == "release" {
            self.expect_operands(0..=0)?;
            self.emit(Op::Nop);
            return Ok(());
        }
        self.expect_operands(2..=2)?;
        self.whole_map(1)?;
        let map = self.bulk_place(0, AddressSpace::Generic)?;
        self.emit(Op::AcquireMap(map));
        Ok(())
    }

    /// Checks that an operand is the size of a map.
    fn whole_map(&self, operand: usize) -> Load<()> {
        match self.immediate(operand)? {
            n if n == MAP_BYTES as u64 => Ok(()),
            n => self.invalid(format!("a tensor map has {MAP_BYTES} bytes, not {n}")),
        }
    }
}
