//! Decodes textures and surfaces by handle (PTX ISA 9.7.10, 9.7.11).

use super::scope::Symbol;
use super::{Decoder, Load, class};
use crate::image::Geometry;
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

const NO_MIPMAPS: &str = "only the levels of an image without mipmaps are read";

/// Returns the dimensions that a word names.
fn geometry(word: &str) -> Option<Geometry> {
    let (rank, layered) = match word {
        "1d" => (1, false),
        "2d" => (2, false),
        "3d" => (3, false),
        "a1d" => (1, true),
        "a2d" => (2, true),
        _ => return None,
    };
    Some(Geometry { rank, layered })
}

impl Decoder<'_> {
    /// Decodes an instruction on textures or surfaces.
    pub(super) fn image(&mut self, words: &[&str]) -> Load<()> {
        match words {
            ["tex", rest @ ..] => self.texture(rest),
            [
                "tld4",
                channel,
                geometry @ ("2d" | "a2d"),
                "v4",
                dtype,
                "f32",
            ] => self.gather(channel, geometry, dtype),
            ["suld", "b", rest @ ..] => self.surface(rest, false),
            ["sust", "b", rest @ ..] => self.surface(rest, true),
            ["txq" | "suq", asked, "b32"] => self.query(asked),
            ["sust", "p", ..] => self.unsupported("formatted stores to surfaces"),
            ["sured", ..] => self.unsupported("reductions on surfaces"),
            _ => self.unsupported("this form of textures and surfaces"),
        }
    }

    /// Returns the register of a handle, and what stands behind it in the brackets.
    fn handle<'i>(&mut self, operand: &'i Operand) -> Load<(u32, &'i [Operand])> {
        let (base, at): (&str, &[Operand]) = match operand {
            Operand::Element { base, at } => (base, at),
            Operand::Address {
                base: Some(base),
                offset: 0,
            } => (base, &[]),
            _ => return self.invalid("expected a texture or surface in brackets"),
        };
        match self.scopes.get(base) {
            Some(Symbol::Register(Class::R64, r, _)) => Ok((r, at)),
            _ => self.unsupported("texture and surface references, and separate samplers; objects (cudaTextureObject_t) are",
            ),
        }
    }

    /// Returns the registers of x, y, z and of the layer. PTX writes four for three coordinates, and for a 2D layer
    /// too.
    fn texel(
        &mut self,
        at: &[Operand],
        geometry: Geometry,
        ty: Ty,
    ) -> Load<(Vec<u32>, Option<u32>)> {
        let [written] = at else {
            return self.unsupported("separate samplers");
        };
        let written = written.elements();
        let axes = usize::from(geometry.rank);
        let first = usize::from(geometry.layered);
        if written.len() < first + axes {
            return self.invalid("too few coordinates");
        }
        let layer = match written.first() {
            Some(layer) if geometry.layered => Some(self.value(layer, Class::R32, Ty::U32)?),
            _ => None,
        };
        let axes = &written[first..first + axes];
        Ok((self.registers(axes, (Class::R32, ty), false)?, layer))
    }

    /// Reads the four destinations of a fetch.
    fn four(&mut self) -> Load<Vec<(Class, u32)>> {
        let Operand::Vector(all) = self.operand(0)? else {
            return self.unsupported("whether texels are resident");
        };
        if all.len() != 4 {
            return self.unsupported("vectors of other than four elements");
        }
        let registers = self.registers(all, (Class::R32, Ty::B32), true)?;
        Ok(registers.into_iter().map(|r| (Class::R32, r)).collect())
    }

    /// Returns the access of a fetch, whose address is the handle.
    fn fetch_access(handle: u32, registers: Vec<(Class, u32)>) -> Access {
        Access::new(AddressSpace::Global, 4, registers, (Class::R64, handle), 0)
    }

    /// Decodes `tex`: geometry, vector, type, type of the coordinates.
    fn texture(&mut self, words: &[&str]) -> Load<()> {
        let (more, words) = match words {
            ["level", rest @ ..] => (1, rest),
            ["grad", rest @ ..] => (2, rest),
            ["base", ..] => return self.unsupported(NO_MIPMAPS),
            rest => (0, rest),
        };
        let [geometry_word, "v4", dtype @ ("f32" | "s32" | "u32"), ctype] = words else {
            return self.unsupported("this form of textures");
        };
        let Some(geometry) = geometry(geometry_word) else {
            return self
                .unsupported("textures other than of 1, 2 and 3 dimensions and their layers");
        };
        let (coordinates, ty) = match *ctype {
            "f32" => (Coordinates::Float, Ty::F32),
            "s32" => (Coordinates::Integer, Ty::S32),
            _ => return self.unsupported(""),
        };
        // Without mipmaps every level is the first, so the level or the gradients that select one are not read.
        let float = *dtype == "f32";
        self.fetch(
            2 + more,
            geometry,
            Fetch::Filtered,
            (coordinates, ty),
            float,
        )
    }

    /// Decodes `tld4`, which fetches one channel of four texels.
    fn gather(&mut self, channel: &str, geometry_word: &str, dtype: &str) -> Load<()> {
        let channel = match channel {
            "r" => 0,
            "g" => 1,
            "b" => 2,
            "a" => 3,
            _ => return self.unsupported(""),
        };
        if !matches!(dtype, "f32" | "s32" | "u32") {
            return self.unsupported("");
        }
        let geometry = self.known(geometry(geometry_word))?;
        let coordinates = (Coordinates::Float, Ty::F32);
        self.fetch(
            2,
            geometry,
            Fetch::Gather(channel),
            coordinates,
            dtype == "f32",
        )
    }

    /// Emits a fetch of four channels by an instruction with this number of operands.
    fn fetch(
        &mut self,
        operands: usize,
        geometry: Geometry,
        fetch: Fetch,
        (coordinates, ty): (Coordinates, Ty),
        float: bool,
    ) -> Load<()> {
        if self.ptx.operands.len() != operands {
            return self.unsupported("offsets and depth comparisons of textures");
        }
        let (handle, at) = self.handle(self.operand(1)?)?;
        let (at, layer) = self.texel(at, geometry, ty)?;
        let registers = self.four()?;
        self.emit(Op::Texture(Box::new(TextureFetch {
            access: Self::fetch_access(handle, registers),
            geometry,
            fetch,
            coordinates,
            float,
            at,
            layer,
        })));
        Ok(())
    }

    /// Decodes `suld.b` and `sust.b`: geometry, cache operator, vector, type, what is done outside.
    fn surface(&mut self, words: &[&str], store: bool) -> Load<()> {
        let Some((geometry, rest)) = words
            .split_first()
            .and_then(|(word, rest)| Some((geometry(word)?, rest)))
        else {
            return self
                .unsupported("surfaces other than of 1, 2 and 3 dimensions and their layers");
        };
        let (mut count, mut ty, mut outside) = (1, None, OutsideSurface::Trap);
        for &word in rest {
            match word {
                "v2" => count = 2,
                "v4" => count = 4,
                "b8" | "b16" | "b32" | "b64" => ty = Ty::parse(word),
                "ca" | "cg" | "cs" | "cv" | "wb" | "wt" => {}
                word => outside = self.known(OutsideSurface::parse(word))?,
            }
        }
        let ty = self.known(ty)?;
        self.expect_operands(2..=2)?;
        let (image, value) = if store { (0, 1) } else { (1, 0) };
        let (handle, at) = self.handle(self.operand(image)?)?;
        let (at, layer) = self.texel(at, geometry, Ty::S32)?;
        let elements = self.operand(value)?.elements();
        if elements.len() != count {
            return self.invalid("the vector's length is not the instruction's");
        }
        let registers = self.registers(elements, (class(ty), ty), !store)?;
        let registers = registers.into_iter().map(|r| (class(ty), r)).collect();
        self.emit(Op::Surface(Box::new(SurfaceAccess {
            access: Access {
                width: ty.bytes(),
                ..Self::fetch_access(handle, registers)
            },
            store,
            geometry,
            outside,
            at,
            layer,
        })));
        Ok(())
    }

    /// Decodes `txq` and `suq`, which ask for a property of an image.
    fn query(&mut self, asked: &str) -> Load<()> {
        let Some(asked) = ImageQuery::parse(asked) else {
            return self.unsupported("this query of textures and surfaces");
        };
        self.expect_operands(2..=2)?;
        let (handle, _) = self.handle(self.operand(1)?)?;
        let to = self.result(0, Class::R32)?;
        self.emit_with(Op::ImageQuery(asked), [to, handle, 0, 0, 0, 0]);
        Ok(())
    }
}
