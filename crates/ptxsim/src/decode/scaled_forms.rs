//! Decodes `mma.sync` of formats of 4, 6 and 8 bits for sm_100 and later, with `.kind` and perhaps `.block_scale` (PTX
//! ISA, "mma"). The combinations are those that ptxas 13.0.88 accepts.

use super::{Decoder, Load};
use crate::isa::mma::{self, Elem, Mma, Narrow, Scale, Scaled, Scales, Shape};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

/// Returns the bits of a container, and the format and the blocks of scales if there are any. Returns `None` for a
/// combination that does not exist.
fn kind_of(
    kind: &str,
    blocks: Option<u32>,
    shape: Shape,
    ab: [Narrow; 2],
    scale: Option<&str>,
) -> Option<(u32, Option<(Scale, u32)>)> {
    use Narrow::*;
    let bytes = ab.iter().all(|of| matches!(of, E4m3 | E5m2));
    let fours = ab == [E2m1; 2];
    match (kind, shape.k, scale, blocks) {
        ("kind::f8f6f4", 32, None, None) => Some((8, None)),
        ("kind::f8f6f4", 16, None, None) if bytes => Some((8, None)),
        ("kind::mxf8f6f4", 32, Some("ue8m0"), None | Some(1)) => Some((8, Some((Scale::Ue8m0, 1)))),
        ("kind::mxf4", 64, Some("ue8m0"), None | Some(2))
        | ("kind::mxf4nvf4", 64, Some("ue8m0"), Some(2))
            if fours =>
        {
            Some((4, Some((Scale::Ue8m0, 2))))
        }
        ("kind::mxf4nvf4", 64, Some("ue4m3"), Some(4)) if fours => {
            Some((4, Some((Scale::Ue4m3, 4))))
        }
        _ => None,
    }
}

impl Decoder<'_> {
    /// Decodes a product, such as
    /// `mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 d, a, b, c,
    /// scales of A, {byte, thread}, scales of B, {byte, thread}`. The shape may come behind the kind.
    pub(super) fn scaled_mma(&mut self, words: &[&str]) -> Load<()> {
        let (mut kind, mut is_scaled, mut blocks, mut rest) = ("", false, None, Vec::new());
        for word in words {
            match *word {
                "block_scale" => is_scaled = true,
                "scale_vec::1X" => blocks = Some(1),
                "scale_vec::2X" => blocks = Some(2),
                "scale_vec::4X" => blocks = Some(4),
                word if word.starts_with("kind::") => kind = word,
                word => rest.push(word),
            }
        }
        let [
            "mma",
            "sync",
            "aligned",
            shape,
            "row",
            "col",
            d,
            a,
            b,
            c,
            scale @ ..,
        ] = rest.as_slice()
        else {
            return self.unsupported("");
        };
        let shape = self.known(mma::shape(shape).filter(|s| (s.m, s.n) == (16, 8)))?;
        let ab = [self.known(Narrow::parse(a))?, self.known(Narrow::parse(b))?];
        let sum = match (*d, *c) {
            ("f32", "f32") => Elem::F32,
            ("f16", "f16") if !is_scaled => Elem::F16,
            _ => return self.unsupported(""),
        };
        let found = kind_of(kind, blocks, shape, ab, scale.first().copied());
        let fits = |scales: &Option<_>| scales.is_some() == is_scaled && scale.len() <= 1;
        let Some((container, scales)) = found.filter(|(_, scales)| fits(scales)) else {
            return self.unsupported("this shape with these types and scales");
        };
        let operands = if is_scaled { 8 } else { 4 };
        self.expect_operands(operands..=operands)?;
        let of_sum = (4 / sum.per_register()) as usize;
        let of_a = (shape.k * container / 64) as usize;
        let registers = self.fragments(
            [sum, Elem::U8, Elem::U8, sum],
            [of_sum, of_a, of_a / 2, of_sum],
        )?;
        let scales = match scales {
            None => None,
            Some((kind, blocks)) => Some(Scales {
                kind,
                blocks,
                registers: [self.scale(4)?, self.scale(6)?],
                selectors: [self.selector(5)?, self.selector(7)?],
            }),
        };
        let product = Scaled {
            shape,
            ab,
            container,
            sum,
            registers,
            scales,
        };
        self.emit(Op::Mma(Box::new(Mma::Scaled(product))));
        Ok(())
    }

    /// Reads an operand as a register, which may be in braces.
    fn scale(&mut self, operand: usize) -> Load<u32> {
        let registers = self.fragment(operand, Elem::U8, false)?;
        match registers[..] {
            [register] => Ok(register),
            _ => self.invalid("scales are in one register"),
        }
    }

    /// Reads an operand as a selector of scales, `{byte, thread}`.
    fn selector(&mut self, operand: usize) -> Load<[u32; 2]> {
        let Operand::Vector(both) = self.operand(operand)? else {
            return self.invalid("a selector is a byte and a thread in braces");
        };
        let [byte, thread] = both.as_slice() else {
            return self.invalid("a selector is a byte and a thread");
        };
        Ok([
            self.value(byte, Class::R32, Ty::U16)?,
            self.value(thread, Class::R32, Ty::U16)?,
        ])
    }
}
