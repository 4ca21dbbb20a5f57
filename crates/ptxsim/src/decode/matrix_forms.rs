//! Decodes matrix instructions (PTX ISA 9.7.15): `wmma`, `mma.sync`, `ldmatrix`, `stmatrix`.

use super::{Decoder, Load};
use crate::isa::mma::{
    self, Combine, Elem, Fragments, Matrices, Mma, Part, Places, Quads, Shape, Sparse, Tile,
};
use crate::isa::*;
use crate::num::round::Round;
use crate::parse::ast::*;
use crate::regs::Class;

/// A product, with the layouts of its matrices.
struct Product {
    shape: Shape,
    ab: [Elem; 2],
    cd: [Elem; 2],
    /// For A and B of a `wmma`, true if the matrix is stored by column; `None` for `mma.sync`.
    layouts: Option<[bool; 2]>,
    combine: Combine,
    saturate: bool,
    round: Round,
}

impl Product {
    /// Returns the number of registers of a fragment.
    fn registers(&self, part: Part, elem: Elem) -> usize {
        if self.layouts.is_some() {
            return mma::wmma_registers(part, elem, self.shape);
        }
        let (rows, columns) = mma::extent(part, self.shape);
        (rows * columns / 32 / elem.per_register()) as usize
    }
}

/// Returns the possible element types of a `wmma` of this shape: those of A and B, and those of C and D.
fn wmma_types(s: Shape) -> (&'static [Elem], &'static [Elem]) {
    use Elem::*;
    match (s.m, s.n, s.k) {
        (16, 16, 16) | (8, 32, 16) | (32, 8, 16) => (&[F16, Bf16, S8, U8], &[F16, F32, S32]),
        (16, 16, 8) => (&[Tf32], &[F32]),
        (8, 8, 4) => (&[F64], &[F64]),
        (8, 8, 32) => (&[S4, U4], &[S32]),
        (8, 8, 128) => (&[B1], &[S32]),
        _ => (&[], &[]),
    }
}

/// Returns true if `mma.sync` has this shape with these element types.
fn is_mma(s: Shape, a: Elem, b: Elem, c: Elem, d: Elem) -> bool {
    use Elem::*;
    let eight = (16, 8);
    match (a, b, (s.m, s.n), s.k) {
        (F16, F16, mn, 8 | 16) => mn == eight && matches!((c, d), (F16 | F32, F16 | F32)),
        (Bf16, Bf16, mn, 8 | 16) | (Tf32, Tf32, mn, 4 | 8) => mn == eight && (c, d) == (F32, F32),
        (E4m3 | E5m2, E4m3 | E5m2, mn, 16 | 32) => {
            mn == eight && matches!((c, d), (F32, F32) | (F16, F16))
        }
        (S8 | U8, S8 | U8, (8, 8), 16)
        | (S8 | U8, S8 | U8, (16, 8), 16 | 32)
        | (S4 | U4, S4 | U4, (8, 8), 32)
        | (S4 | U4, S4 | U4, (16, 8), 32 | 64)
        | (B1, B1, (8, 8), 128)
        | (B1, B1, (16, 8), 128 | 256) => (c, d) == (S32, S32),
        (F64, F64, (8, 8), 4) | (F64, F64, (16, 8), 4 | 8 | 16) => (c, d) == (F64, F64),
        _ => false,
    }
}

impl Decoder<'_> {
    /// Reads an operand as the registers of a fragment.
    pub(super) fn fragment(&mut self, operand: usize, elem: Elem, write: bool) -> Load<Vec<u32>> {
        let ty = match elem.class() {
            Class::R64 => Ty::F64,
            _ => Ty::B32,
        };
        self.registers(self.operand(operand)?.elements(), (elem.class(), ty), write)
    }

    /// Reads the fragments of a product, its first four operands, with the elements of D, A, B and C and the numbers of
    /// their registers.
    pub(super) fn fragments(&mut self, elems: [Elem; 4], registers: [usize; 4]) -> Load<Fragments> {
        let d = self.fragment(0, elems[0], true)?;
        let a = self.fragment(1, elems[1], false)?;
        let b = self.fragment(2, elems[2], false)?;
        let c = self.fragment(3, elems[3], false)?;
        if [d.len(), a.len(), b.len(), c.len()] != registers {
            return self.invalid("a fragment has the wrong number of registers");
        }
        Ok(Fragments { d, a, b, c })
    }

    /// Decodes `wmma`: a load, a store, or a product.
    pub(super) fn wmma(&mut self, words: &[&str]) -> Load<()> {
        let shape = self.known(words.iter().find_map(|w| mma::shape(w)))?;
        match words.get(1) {
            Some(&"load" | &"store") => self.wmma_memory(words, shape),
            Some(&"mma") => self.wmma_mma(words, shape),
            _ => self.unsupported(""),
        }
    }

    /// Decodes a load or a store, such as `wmma.load.a.sync.aligned.row.m16n16k16.shared.f16`.
    fn wmma_memory(&mut self, words: &[&str], shape: Shape) -> Load<()> {
        let ["wmma", way, part, "sync", "aligned", layout, _, rest @ ..] = words else {
            return self.unsupported("");
        };
        let (space, elem) = match rest {
            [elem] => (AddressSpace::Generic, *elem),
            ["shared" | "shared::cta", elem] => (AddressSpace::Shared, *elem),
            ["global", elem] => (AddressSpace::Global, *elem),
            _ => return self.unsupported(""),
        };
        let (ab, cd) = wmma_types(shape);
        let (part, known) = match *part {
            "a" => (Part::A, ab),
            "b" => (Part::B, ab),
            "c" | "d" => (Part::Acc, cd),
            _ => return self.unsupported(""),
        };
        let column_major = match *layout {
            "row" => false,
            "col" => true,
            _ => return self.unsupported(""),
        };
        let Some(elem) = Elem::parse(elem).filter(|e| known.contains(e)) else {
            return self.unsupported("this element type in this shape");
        };
        // Elements of less than a byte are contiguous along K only.
        if elem.bits() < 8 && column_major != (part == Part::B) {
            return self.unsupported("this layout");
        }
        let store = *way == "store";
        self.expect_operands(2..=3)?;
        let (at, values) = if store { (0, 1) } else { (1, 0) };
        let registers = self.fragment(values, elem, !store)?;
        let needed = mma::wmma_registers(part, elem, shape);
        if registers.len() != needed {
            return self.invalid(format!("this fragment has {needed} registers"));
        }
        let (rows, columns) = mma::extent(part, shape);
        let stride = match self.ptx.operands.get(2) {
            Some(operand) => self.value(operand, Class::R32, Ty::U32)?,
            None => self.constant32(if column_major { rows } else { columns }),
        };
        let (space, address, offset) = self.address(at, space)?;
        let mut tile = Tile {
            space,
            part,
            shape,
            elem,
            column_major,
            registers,
            steps: Vec::new(),
            address,
            offset,
            stride,
            stride_is_0: false,
        };
        tile.lay_out();
        let smallest = match (part, tile.at_once()) {
            (Part::A | Part::B, Some(_)) => 4,
            _ => (elem.bits() / 8).min(4),
        };
        self.watch_shared(space, smallest);
        self.emit(Op::Mma(Box::new(if store {
            Mma::WmmaStore(tile)
        } else {
            Mma::WmmaLoad(tile)
        })));
        Ok(())
    }

    /// Decodes a product, such as `wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16` or `wmma.mma.xor.popc.sync...`.
    fn wmma_mma(&mut self, words: &[&str], shape: Shape) -> Load<()> {
        use Elem::*;
        let (combine, rest) = match &words[2..] {
            ["xor", "popc", rest @ ..] => (Combine::Xor, rest),
            ["and", "popc", rest @ ..] => (Combine::And, rest),
            rest => (Combine::Multiply, rest),
        };
        let [
            "sync",
            "aligned",
            a @ ("row" | "col"),
            b @ ("row" | "col"),
            _,
            rest @ ..,
        ] = rest
        else {
            return self.unsupported("");
        };
        let layouts = [*a == "col", *b == "col"];
        let types: Vec<Elem> = rest.iter().map_while(|w| Elem::parse(w)).collect();
        let modifier = rest.get(types.len()..).unwrap_or_default();
        let (ab, cd) = match types.as_slice() {
            [d @ (F16 | F32), c @ (F16 | F32)] => ([F16; 2], [*c, *d]),
            [F32, a @ (Bf16 | Tf32), b, F32] => ([*a, *b], [F32; 2]),
            [S32, a @ (S8 | U8 | S4 | U4 | B1), b, S32] => ([*a, *b], [S32; 2]),
            [F64, F64, F64, F64] => ([F64; 2], [F64; 2]),
            _ => return self.unsupported(""),
        };
        let (saturate, round) = match (modifier, ab[0]) {
            ([], _) => (false, Round::Nearest),
            (["satfinite"], S8 | U8 | S4 | U4) => (true, Round::Nearest),
            ([mode], F64) => (false, self.known(Round::parse(mode))?),
            _ => return self.unsupported(""),
        };
        let known = wmma_types(shape);
        let fits = ab[0] == ab[1]
            && known.0.contains(&ab[0])
            && cd.iter().all(|e| known.1.contains(e))
            && (ab[0] == B1) == (combine != Combine::Multiply)
            && (ab[0].bits() >= 8 || layouts == [false, true]);
        if !fits {
            return self.unsupported("this shape with these types");
        }
        let product = Product {
            shape,
            ab,
            cd,
            layouts: Some(layouts),
            combine,
            saturate,
            round,
        };
        self.multiply(&product)
    }

    /// Checks the fragments of a product, and emits it with the places of their elements.
    fn multiply(&mut self, p: &Product) -> Load<()> {
        self.expect_operands(4..=4)?;
        let ([a_elem, b_elem], [c_elem, d_elem]) = (p.ab, p.cd);
        let parts = [
            (Part::Acc, d_elem),
            (Part::A, a_elem),
            (Part::B, b_elem),
            (Part::Acc, c_elem),
        ];
        let needed = parts.map(|(part, elem)| p.registers(part, elem));
        let registers = self.fragments(parts.map(|(_, elem)| elem), needed)?;
        let shape = p.shape;
        let place = |part, elem, column: usize, n| {
            let by_column = p.layouts.map(|l| l.get(column).is_some_and(|by| *by));
            Places::new(part, elem, shape, by_column, n)
        };
        let mut of_a = place(Part::A, a_elem, 0, registers.a.len());
        let mut of_b = place(Part::B, b_elem, 1, registers.b.len());
        let of_c = place(Part::Acc, c_elem, 2, registers.c.len());
        let of_d = place(Part::Acc, d_elem, 2, registers.d.len());
        let op = match d_elem {
            Elem::F64 => Mma::Doubles(mma::Doubles {
                shape,
                round: p.round,
                registers,
            }),
            Elem::S32 => Mma::Integers(mma::Integers {
                shape,
                ab: p.ab,
                combine: p.combine,
                saturate: p.saturate,
                registers,
                places: [of_a, of_b, of_c],
            }),
            _ => Mma::Multiply(mma::Multiply {
                shape,
                ab: p.ab,
                cd: p.cd,
                groups: mma::put_side_by_side(
                    &mma::groups(a_elem, p.layouts.is_some(), shape.k),
                    [&mut of_a, &mut of_b],
                    shape.n,
                ),
                places: [of_a, of_b, of_c, of_d],
                registers,
            }),
        };
        self.emit(Op::Mma(Box::new(op)));
        Ok(())
    }

    /// Decodes `mma.sync.aligned.m16n8k16.row.col.d.a.b.c`, and the other shapes.
    pub(super) fn mma(&mut self, words: &[&str]) -> Load<()> {
        let (shape, rest) = match words {
            ["mma", "sync", "aligned", "m8n8k4", a, b, d, "f16", "f16", c] => {
                return self.quads([a, b], [c, d]);
            }
            [
                "mma",
                "sp" | "sp::ordered_metadata",
                "sync",
                "aligned",
                shape,
                "row",
                "col",
                rest @ ..,
            ] => {
                return self.sparse(shape, rest);
            }
            ["mma", "sync", "aligned", ..] if words.iter().any(|w| w.starts_with("kind::")) => {
                return self.scaled_mma(words);
            }
            ["mma", "sync", "aligned", shape, "row", "col", rest @ ..] => (shape, rest),
            _ => return self.unsupported(""),
        };
        let (before, rest) = match rest {
            ["satfinite", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let types: Vec<Elem> = rest.iter().map_while(|w| Elem::parse(w)).collect();
        let modifier = rest.get(types.len()..).unwrap_or_default();
        let (Some(shape), &[d, a, b, c]) = (mma::shape(shape), types.as_slice()) else {
            return self.unsupported("");
        };
        let (combine, round) = match (modifier, a) {
            (["xor", "popc"], Elem::B1) => (Combine::Xor, Round::Nearest),
            (["and", "popc"], Elem::B1) => (Combine::And, Round::Nearest),
            ([mode], Elem::F64) => (Combine::Multiply, self.known(Round::parse(mode))?),
            ([], elem) if elem != Elem::B1 => (Combine::Multiply, Round::Nearest),
            _ => return self.unsupported(""),
        };
        let saturates = matches!(a, Elem::S8 | Elem::U8 | Elem::S4 | Elem::U4);
        if !is_mma(shape, a, b, c, d) || before && !saturates {
            return self.unsupported("this shape with these types");
        }
        let product = Product {
            shape,
            ab: [a, b],
            cd: [c, d],
            layouts: None,
            combine,
            saturate: before,
            round,
        };
        self.multiply(&product)
    }

    /// Decodes a product of a sparse A, such as
    /// `mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.satfinite.s32.s8.s8.s32 d, a, b, c, e, f`.
    fn sparse(&mut self, shape: &str, rest: &[&str]) -> Load<()> {
        let satfinite = |w: &&str| *w == "satfinite";
        let saturate = rest.iter().any(satfinite);
        let types: Vec<&str> = rest.iter().copied().filter(|w| !satfinite(w)).collect();
        let types: Option<Vec<Elem>> = types.into_iter().map(Elem::parse).collect();
        let (Some(shape), Some(&[d_elem, a_elem, b_elem, c_elem])) =
            (mma::shape(shape), types.as_deref())
        else {
            return self.unsupported("");
        };
        use Elem::*;
        let known = match (a_elem, b_elem, shape.k) {
            (F16, F16, 16 | 32) => matches!((c_elem, d_elem), (F16, F16) | (F32, F32)),
            (Bf16, Bf16, 16 | 32) | (Tf32, Tf32, 8 | 16) => (c_elem, d_elem) == (F32, F32),
            (S8 | U8, S8 | U8, 32 | 64) | (S4 | U4, S4 | U4, 64 | 128) => {
                (c_elem, d_elem) == (S32, S32)
            }
            _ => false,
        };
        let integers = d_elem == S32;
        if !known || (shape.m, shape.n) != (16, 8) || saturate && !integers {
            return self.unsupported("sparse matrices of this shape with these types");
        }
        self.expect_operands(6..=6)?;
        let Operand::Number(Number::Int(selector)) = *self.operand(5)? else {
            return self.invalid("the sparsity selector is not a constant");
        };
        // One lane of four, two, or all have the metadata.
        let choices = 64 / u64::from(Sparse::units(a_elem, shape.k));
        if selector >= choices {
            return self.invalid(format!("the sparsity selector is below {choices}"));
        }
        let needed = |elements: u32, elem: Elem| (elements / 32 / elem.per_register()) as usize;
        let registers = self.fragments(
            [d_elem, a_elem, b_elem, c_elem],
            [
                needed(128, d_elem),
                needed(16 * shape.k / 2, a_elem),
                needed(8 * shape.k, b_elem),
                needed(128, c_elem),
            ],
        )?;
        let metadata = self.source(4, Class::R32, Ty::B32)?;
        let product = Sparse {
            shape,
            ab: [a_elem, b_elem],
            cd: [c_elem, d_elem],
            saturate,
            registers,
            metadata,
            selector: selector as u32,
        };
        self.emit(Op::Mma(Box::new(Mma::Sparse(product))));
        Ok(())
    }

    /// Decodes `mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32`, whose A and B have layouts of their own.
    fn quads(&mut self, layouts: [&str; 2], cd: [&str; 2]) -> Load<()> {
        let layouts = layouts.map(|l| match l {
            "row" => Some(false),
            "col" => Some(true),
            _ => None,
        });
        let ([Some(a_by), Some(b_by)], [Some(c_elem), Some(d_elem)]) =
            (layouts, cd.map(Elem::parse))
        else {
            return self.unsupported("");
        };
        use Elem::{F16, F32};
        if !matches!((c_elem, d_elem), (F16 | F32, F32)) {
            return self.unsupported("this shape with these types");
        }
        self.expect_operands(4..=4)?;
        let needed = |elem: Elem| (8 / elem.per_register()) as usize;
        let registers = self.fragments(
            [d_elem, F16, F16, c_elem],
            [needed(d_elem), 2, 2, needed(c_elem)],
        )?;
        let product = Quads {
            layouts: [a_by, b_by],
            addend: c_elem,
            registers,
        };
        self.emit(Op::Mma(Box::new(Mma::Quads(product))));
        Ok(())
    }

    /// Decodes `movmatrix`, which transposes 8x8 elements.
    pub(super) fn movmatrix(&mut self, words: &[&str]) -> Load<()> {
        if words[1..] != ["sync", "aligned", "m8n8", "trans", "b16"] {
            return self.unsupported("");
        }
        self.expect_operands(2..=2)?;
        let d = self.result(0, Class::R32)?;
        let a = self.source(1, Class::R32, Ty::B32)?;
        self.emit(Op::Mma(Box::new(Mma::MovMatrix { d, a })));
        Ok(())
    }

    /// Decodes a matrix load or store, such as `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`.
    pub(super) fn matrix(&mut self, words: &[&str]) -> Load<()> {
        let (mut count, mut transpose, mut space) = (0, false, AddressSpace::Generic);
        for &word in &words[1..] {
            match word {
                "sync" | "aligned" | "m8n8" | "b16" => {}
                "x1" => count = 1,
                "x2" => count = 2,
                "x4" => count = 4,
                "trans" => transpose = true,
                "shared" | "shared::cta" => space = AddressSpace::Shared,
                _ => return self.unsupported(""),
            }
        }
        self.expect_operands(2..=2)?;
        let load = words[0] == "ldmatrix";
        let (at, values) = if load { (1, 0) } else { (0, 1) };
        let registers = self.fragment(values, Elem::F16, load)?;
        if registers.len() != count {
            return self.invalid("one register per matrix");
        }
        let (space, address, offset) = self.address(at, space)?;
        self.watch_shared(space, 4);
        let op = Mma::Matrices(Matrices {
            stores: !load,
            transpose,
            registers,
            space,
            address,
            offset,
        });
        self.emit(Op::Mma(Box::new(op)));
        Ok(())
    }
}
