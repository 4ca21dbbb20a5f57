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
    pub(super) fn fragment(
        &mut self,
        i: &Instruction,
        operand: usize,
        elem: Elem,
        write: bool,
    ) -> Load<Vec<u32>> {
        let operand = self.operand(i, operand)?;
        let elements = match operand {
            Operand::Vector(v) => v.as_slice(),
            other => std::slice::from_ref(other),
        };
        let (class, ty) = match elem.class() {
            Class::R64 => (Class::R64, Ty::F64),
            class => (class, Ty::B32),
        };
        elements
            .iter()
            .map(|e| {
                if write {
                    self.destination(i, e, class)
                } else {
                    self.value(i, e, class, ty)
                }
            })
            .collect()
    }

    /// Decodes `wmma`: a load, a store, or a product.
    pub(super) fn wmma(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let shape = self.known(i, words.iter().find_map(|w| mma::shape(w)))?;
        match words.get(1) {
            Some(&"load" | &"store") => self.wmma_memory(i, words, shape),
            Some(&"mma") => self.wmma_mma(i, words, shape),
            _ => self.unsupported(i, ""),
        }
    }

    /// Decodes a load or a store, such as `wmma.load.a.sync.aligned.row.m16n16k16.shared.f16`.
    fn wmma_memory(&mut self, i: &Instruction, words: &[&str], shape: Shape) -> Load<()> {
        let ["wmma", way, part, "sync", "aligned", layout, _, rest @ ..] = words else {
            return self.unsupported(i, "");
        };
        let (space, elem) = match rest {
            [elem] => (AddressSpace::Generic, *elem),
            ["shared" | "shared::cta", elem] => (AddressSpace::Shared, *elem),
            ["global", elem] => (AddressSpace::Global, *elem),
            _ => return self.unsupported(i, ""),
        };
        let (ab, cd) = wmma_types(shape);
        let (part, known) = match *part {
            "a" => (Part::A, ab),
            "b" => (Part::B, ab),
            "c" | "d" => (Part::Acc, cd),
            _ => return self.unsupported(i, ""),
        };
        let column_major = match *layout {
            "row" => false,
            "col" => true,
            _ => return self.unsupported(i, ""),
        };
        let Some(elem) = mma::element(elem).filter(|e| known.contains(e)) else {
            return self.unsupported(i, "this element type in this shape");
        };
        // Elements of less than a byte are contiguous along K only.
        if elem.bits() < 8 && column_major != (part == Part::B) {
            return self.unsupported(i, "this layout");
        }
        let store = *way == "store";
        self.expect_operands(i, 2..=3)?;
        let (at, values) = if store { (0, 1) } else { (1, 0) };
        let registers = self.fragment(i, values, elem, !store)?;
        let needed = mma::wmma_registers(part, elem, shape);
        if registers.len() != needed {
            return self.invalid(i.pos, format!("this fragment has {needed} registers"));
        }
        let (rows, columns) = mma::extent(part, shape);
        let stride = match i.operands.get(2) {
            Some(operand) => self.value(i, operand, Class::R32, Ty::U32)?,
            None => self.constant32(if column_major { rows } else { columns }),
        };
        let (space, address, offset) = self.address(i, self.operand(i, at)?, space)?;
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
        self.emit(
            Op::Mma(Box::new(if store {
                Mma::WmmaStore(tile)
            } else {
                Mma::WmmaLoad(tile)
            })),
            [0; 6],
        );
        Ok(())
    }

    /// Decodes a product, such as `wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16` or `wmma.mma.xor.popc.sync...`.
    fn wmma_mma(&mut self, i: &Instruction, words: &[&str], shape: Shape) -> Load<()> {
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
            return self.unsupported(i, "");
        };
        let layouts = [*a == "col", *b == "col"];
        let types: Vec<Elem> = rest.iter().map_while(|w| mma::element(w)).collect();
        let modifier = rest.get(types.len()..).unwrap_or_default();
        let (ab, cd) = match types.as_slice() {
            [d @ (F16 | F32), c @ (F16 | F32)] => ([F16; 2], [*c, *d]),
            [F32, a @ (Bf16 | Tf32), b, F32] => ([*a, *b], [F32; 2]),
            [S32, a @ (S8 | U8 | S4 | U4 | B1), b, S32] => ([*a, *b], [S32; 2]),
            [F64, F64, F64, F64] => ([F64; 2], [F64; 2]),
            _ => return self.unsupported(i, ""),
        };
        let (saturate, round) = match (modifier, ab[0]) {
            ([], _) => (false, Round::Nearest),
            (["satfinite"], S8 | U8 | S4 | U4) => (true, Round::Nearest),
            ([mode], F64) => match Round::parse(mode) {
                Some(round) => (false, round),
                None => return self.unsupported(i, ""),
            },
            _ => return self.unsupported(i, ""),
        };
        let known = wmma_types(shape);
        let fits = ab[0] == ab[1]
            && known.0.contains(&ab[0])
            && cd.iter().all(|e| known.1.contains(e))
            && (ab[0] == B1) == (combine != Combine::Multiply)
            && (ab[0].bits() >= 8 || layouts == [false, true]);
        if !fits {
            return self.unsupported(i, "this shape with these types");
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
        self.multiply(i, &product)
    }

    /// Checks the fragments of a product, and emits it with the places of their elements.
    fn multiply(&mut self, i: &Instruction, p: &Product) -> Load<()> {
        self.expect_operands(i, 4..=4)?;
        let ([a_elem, b_elem], [c_elem, d_elem]) = (p.ab, p.cd);
        let d = self.fragment(i, 0, d_elem, true)?;
        let a = self.fragment(i, 1, a_elem, false)?;
        let b = self.fragment(i, 2, b_elem, false)?;
        let c = self.fragment(i, 3, c_elem, false)?;
        let fits = a.len() == p.registers(Part::A, a_elem)
            && b.len() == p.registers(Part::B, b_elem)
            && c.len() == p.registers(Part::Acc, c_elem)
            && d.len() == p.registers(Part::Acc, d_elem);
        if !fits {
            return self.invalid(i.pos, "a fragment has the wrong number of registers");
        }
        let shape = p.shape;
        let place = |part, elem, column: usize, n| {
            let by_column = p.layouts.map(|l| l.get(column).is_some_and(|by| *by));
            Places::new(part, elem, shape, by_column, n)
        };
        let mut of_a = place(Part::A, a_elem, 0, a.len());
        let mut of_b = place(Part::B, b_elem, 1, b.len());
        let of_c = place(Part::Acc, c_elem, 2, c.len());
        let op = match d_elem {
            Elem::F64 => Mma::Doubles(mma::Doubles {
                shape,
                round: p.round,
                registers: Fragments { d, a, b, c },
            }),
            Elem::S32 => Mma::Integers(mma::Integers {
                shape,
                ab: p.ab,
                combine: p.combine,
                saturate: p.saturate,
                registers: Fragments { d, a, b, c },
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
                places: [of_a, of_b, of_c, place(Part::Acc, d_elem, 2, d.len())],
                registers: Fragments { d, a, b, c },
            }),
        };
        self.emit(Op::Mma(Box::new(op)), [0; 6]);
        Ok(())
    }

    /// Decodes `mma.sync.aligned.m16n8k16.row.col.d.a.b.c`, and the other shapes.
    pub(super) fn mma(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let (shape, rest) = match words {
            ["mma", "sync", "aligned", "m8n8k4", a, b, d, "f16", "f16", c] => {
                return self.quads(i, [a, b], [c, d]);
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
                return self.sparse(i, shape, rest);
            }
            ["mma", "sync", "aligned", ..] if words.iter().any(|w| w.starts_with("kind::")) => {
                return self.scaled_mma(i, words);
            }
            ["mma", "sync", "aligned", shape, "row", "col", rest @ ..] => (shape, rest),
            _ => return self.unsupported(i, ""),
        };
        let (before, rest) = match rest {
            ["satfinite", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let types: Vec<Elem> = rest.iter().map_while(|w| mma::element(w)).collect();
        let modifier = rest.get(types.len()..).unwrap_or_default();
        let (Some(shape), &[d, a, b, c]) = (mma::shape(shape), types.as_slice()) else {
            return self.unsupported(i, "");
        };
        let (combine, round) = match (modifier, a) {
            (["xor", "popc"], Elem::B1) => (Combine::Xor, Round::Nearest),
            (["and", "popc"], Elem::B1) => (Combine::And, Round::Nearest),
            ([mode], Elem::F64) => match Round::parse(mode) {
                Some(round) => (Combine::Multiply, round),
                None => return self.unsupported(i, ""),
            },
            ([], elem) if elem != Elem::B1 => (Combine::Multiply, Round::Nearest),
            _ => return self.unsupported(i, ""),
        };
        let saturates = matches!(a, Elem::S8 | Elem::U8 | Elem::S4 | Elem::U4);
        if !is_mma(shape, a, b, c, d) || before && !saturates {
            return self.unsupported(i, "this shape with these types");
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
        self.multiply(i, &product)
    }

    /// Decodes a product of a sparse A, such as
    /// `mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.satfinite.s32.s8.s8.s32 d, a, b, c, e, f`.
    fn sparse(&mut self, i: &Instruction, shape: &str, rest: &[&str]) -> Load<()> {
        let satfinite = |w: &&str| *w == "satfinite";
        let saturate = rest.iter().any(satfinite);
        let types: Vec<&str> = rest.iter().copied().filter(|w| !satfinite(w)).collect();
        let types: Option<Vec<Elem>> = types.into_iter().map(mma::element).collect();
        let (Some(shape), Some(&[d_elem, a_elem, b_elem, c_elem])) =
            (mma::shape(shape), types.as_deref())
        else {
            return self.unsupported(i, "");
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
            return self.unsupported(i, "sparse matrices of this shape with these types");
        }
        self.expect_operands(i, 6..=6)?;
        let Operand::Number(Number::Int(selector)) = *self.operand(i, 5)? else {
            return self.invalid(i.pos, "the sparsity selector is not a constant");
        };
        // One lane of four, two, or all have the metadata.
        let choices = 64 / u64::from(Sparse::units(a_elem, shape.k));
        if selector >= choices {
            return self.invalid(i.pos, format!("the sparsity selector is below {choices}"));
        }
        let d = self.fragment(i, 0, d_elem, true)?;
        let a = self.fragment(i, 1, a_elem, false)?;
        let b = self.fragment(i, 2, b_elem, false)?;
        let c = self.fragment(i, 3, c_elem, false)?;
        let registers = |elements: u32, elem: Elem| (elements / 32 / elem.per_register()) as usize;
        let fits = a.len() == registers(16 * shape.k / 2, a_elem)
            && b.len() == registers(8 * shape.k, b_elem)
            && c.len() == registers(128, c_elem)
            && d.len() == registers(128, d_elem);
        if !fits {
            return self.invalid(i.pos, "a fragment has the wrong number of registers");
        }
        let metadata = self.value(i, self.operand(i, 4)?, Class::R32, Ty::B32)?;
        let product = Sparse {
            shape,
            ab: [a_elem, b_elem],
            cd: [c_elem, d_elem],
            saturate,
            registers: Fragments { d, a, b, c },
            metadata,
            selector: selector as u32,
        };
        self.emit(Op::Mma(Box::new(Mma::Sparse(product))), [0; 6]);
        Ok(())
    }

    /// Decodes `mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32`, whose A and B have layouts of their own.
    fn quads(&mut self, i: &Instruction, layouts: [&str; 2], cd: [&str; 2]) -> Load<()> {
        let layouts = layouts.map(|l| match l {
            "row" => Some(false),
            "col" => Some(true),
            _ => None,
        });
        let ([Some(a_by), Some(b_by)], [Some(c_elem), Some(d_elem)]) =
            (layouts, cd.map(mma::element))
        else {
            return self.unsupported(i, "");
        };
        use Elem::{F16, F32};
        if !matches!((c_elem, d_elem), (F16 | F32, F32)) {
            return self.unsupported(i, "this shape with these types");
        }
        self.expect_operands(i, 4..=4)?;
        let d = self.fragment(i, 0, d_elem, true)?;
        let a = self.fragment(i, 1, F16, false)?;
        let b = self.fragment(i, 2, F16, false)?;
        let c = self.fragment(i, 3, c_elem, false)?;
        let registers = |elem: Elem| (8 / elem.per_register()) as usize;
        if [a.len(), b.len(), c.len(), d.len()] != [2, 2, registers(c_elem), registers(d_elem)] {
            return self.invalid(i.pos, "a fragment has the wrong number of registers");
        }
        let product = Quads {
            layouts: [a_by, b_by],
            addend: c_elem,
            registers: Fragments { d, a, b, c },
        };
        self.emit(Op::Mma(Box::new(Mma::Quads(product))), [0; 6]);
        Ok(())
    }

    /// Decodes `movmatrix`, which transposes 8x8 elements.
    pub(super) fn movmatrix(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        if words[1..] != ["sync", "aligned", "m8n8", "trans", "b16"] {
            return self.unsupported(i, "");
        }
        self.expect_operands(i, 2..=2)?;
        let d = self.destination(i, self.operand(i, 0)?, Class::R32)?;
        let a = self.value(i, self.operand(i, 1)?, Class::R32, Ty::B32)?;
        self.emit(Op::Mma(Box::new(Mma::MovMatrix { d, a })), [0; 6]);
        Ok(())
    }

    /// Decodes a matrix load or store, such as `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`.
    pub(super) fn matrix(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let (mut count, mut transpose, mut space) = (0, false, AddressSpace::Generic);
        for &word in &words[1..] {
            match word {
                "sync" | "aligned" | "m8n8" | "b16" => {}
                "x1" => count = 1,
                "x2" => count = 2,
                "x4" => count = 4,
                "trans" => transpose = true,
                "shared" | "shared::cta" => space = AddressSpace::Shared,
                _ => return self.unsupported(i, ""),
            }
        }
        self.expect_operands(i, 2..=2)?;
        let load = words[0] == "ldmatrix";
        let (at, values) = if load { (1, 0) } else { (0, 1) };
        let registers = self.fragment(i, values, Elem::F16, load)?;
        if registers.len() != count {
            return self.invalid(i.pos, "one register per matrix");
        }
        let (space, address, offset) = self.address(i, self.operand(i, at)?, space)?;
        self.watch_shared(space, 4);
        let op = Mma::Matrices(Matrices {
            stores: !load,
            transpose,
            registers,
            space,
            address,
            offset,
        });
        self.emit(Op::Mma(Box::new(op)), [0; 6]);
        Ok(())
    }
}
