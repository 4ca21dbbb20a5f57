//! Instructions of a whole warp: shuffles, votes, matrix operations (PTX ISA 9.7.9.5, 9.7.13, 9.7.15).

use super::{Decoder, Load};
use crate::exec::mma::{self, Elem, Mma, Part, Shape, Tile};
use crate::exec::regs::Class;
use crate::parse::ast::*;
use crate::program::*;

impl Decoder<'_> {
    pub(super) fn warp(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        match words[0] {
            "shfl" | "vote" | "match" | "redux" | "activemask" => self.exchange(i, words),
            "wmma" => self.wmma(i, words),
            "mma" => self.mma(i, words),
            "ldmatrix" | "stmatrix" => self.matrix(i, words),
            _ => self.unsupported(i, ""),
        }
    }

    fn exchange(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        if words == ["activemask", "b32"] {
            let d = self.destination(i, self.operand(i, 0)?, Class::R32)?;
            self.emit(Op::ActiveMask, [d, 0, 0, 0, 0, 0]);
            return Ok(());
        }
        // The forms without .sync are gone since sm_70.
        if words.get(1) != Some(&"sync") && words.get(2) != Some(&"sync") {
            return self.unsupported(i, "forms without .sync");
        }
        let (d, p) = match self.operand(i, 0)? {
            Operand::Pair(d, p) => (Operand::Name(d.clone()), Some(self.predicate(p, i)?)),
            other => (other.clone(), None),
        };
        let members = self.value(
            i,
            self.operand(i, i.operands.len().saturating_sub(1))?,
            Class::R32,
            Ty::B32,
        )?;
        let source = self.operand(i, 1)?.clone();
        match words {
            ["shfl", "sync", mode, "b32"] => {
                self.expect_operands(i, 5..=5)?;
                let mode = match *mode {
                    "up" => ShflMode::Up,
                    "down" => ShflMode::Down,
                    "bfly" => ShflMode::Bfly,
                    "idx" => ShflMode::Idx,
                    _ => return self.unsupported(i, ""),
                };
                let d = self.destination(i, &d, Class::R32)?;
                let a = self.value(i, &source, Class::R32, Ty::B32)?;
                let b = self.value(i, self.operand(i, 2)?, Class::R32, Ty::B32)?;
                let c = self.value(i, self.operand(i, 3)?, Class::R32, Ty::B32)?;
                self.emit(
                    Op::Shfl {
                        mode,
                        predicate: p.is_some(),
                    },
                    [d, a, b, c, members, p.unwrap_or(0)],
                );
            }
            ["vote", "sync", mode, ty] => {
                self.expect_operands(i, 3..=3)?;
                let (mode, class) = match (*mode, *ty) {
                    ("all", "pred") => (VoteMode::All, Class::Pred),
                    ("any", "pred") => (VoteMode::Any, Class::Pred),
                    ("uni", "pred") => (VoteMode::Uni, Class::Pred),
                    ("ballot", "b32") => (VoteMode::Ballot, Class::R32),
                    _ => return self.unsupported(i, ""),
                };
                let d = self.destination(i, &d, class)?;
                let (a, negated) = match &source {
                    Operand::Not(n) => (self.predicate(n, i)?, true),
                    other => (self.value(i, other, Class::Pred, Ty::Pred)?, false),
                };
                self.emit(Op::Vote { mode, negated }, [d, a, 0, 0, members, 0]);
            }
            ["match", mode @ ("any" | "all"), "sync", ty] => {
                self.expect_operands(i, 3..=3)?;
                let wide = *ty == "b64";
                let d = self.destination(i, &d, Class::R32)?;
                let class = if wide { Class::R64 } else { Class::R32 };
                let a = self.value(i, &source, class, Ty::B32)?;
                let op = Op::Match {
                    all: *mode == "all",
                    wide,
                    predicate: p.is_some(),
                };
                self.emit(op, [d, a, 0, 0, members, p.unwrap_or(0)]);
            }
            ["redux", "sync", name, ty] => {
                self.expect_operands(i, 3..=3)?;
                let op = match (*name, *ty) {
                    ("add", "u32" | "s32") => ReduxOp::Add,
                    ("min", "u32") => ReduxOp::MinU,
                    ("min", "s32") => ReduxOp::MinS,
                    ("max", "u32") => ReduxOp::MaxU,
                    ("max", "s32") => ReduxOp::MaxS,
                    ("and", "b32") => ReduxOp::And,
                    ("or", "b32") => ReduxOp::Or,
                    ("xor", "b32") => ReduxOp::Xor,
                    _ => return self.unsupported(i, ""),
                };
                let d = self.destination(i, &d, Class::R32)?;
                let a = self.value(i, &source, Class::R32, Ty::B32)?;
                self.emit(Op::Redux(op), [d, a, 0, 0, members, 0]);
            }
            _ => return self.unsupported(i, ""),
        }
        Ok(())
    }

    fn fragment(&mut self, i: &Instruction, operand: &Operand, write: bool) -> Load<Vec<u32>> {
        let elements = match operand {
            Operand::Vector(v) => v.as_slice(),
            other => std::slice::from_ref(other),
        };
        elements
            .iter()
            .map(|e| {
                if write {
                    self.destination(i, e, Class::R32)
                } else {
                    self.value(i, e, Class::R32, Ty::B32)
                }
            })
            .collect()
    }

    fn wmma(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        if words.len() < 8 {
            return self.unsupported(i, "");
        }
        let shape = words
            .iter()
            .find_map(|w| mma::shape(w))
            .filter(|s| matches!((s.m, s.n, s.k), (16, 16, 16) | (8, 32, 16) | (32, 8, 16)));
        let Some(shape) = shape else {
            return self.unsupported(i, "this shape");
        };
        let generic_or_shared = |d: &Self, from: usize| -> Load<AddressSpace> {
            Ok(match words.get(from).copied() {
                Some("shared" | "shared::cta") => AddressSpace::Shared,
                Some("global") => AddressSpace::Global,
                Some(w) if mma::element(w).is_some() => AddressSpace::Generic,
                _ => return d.unsupported(i, ""),
            })
        };
        match words[1] {
            "load" | "store" => {
                let part = match words[2] {
                    "a" => Part::A,
                    "b" => Part::B,
                    "c" | "d" => Part::Acc,
                    _ => return self.unsupported(i, ""),
                };
                let space = generic_or_shared(self, 7)?;
                let elem = words.last().and_then(|w| mma::element(w));
                let column_major = match words.get(5) {
                    Some(&"row") => false,
                    Some(&"col") => true,
                    _ => return self.unsupported(i, ""),
                };
                let (Some(elem), Some(&"sync")) = (elem, words.get(3)) else {
                    return self.unsupported(i, "");
                };
                let known = match part {
                    Part::Acc => matches!(elem, Elem::F16 | Elem::F32),
                    _ => matches!(elem, Elem::F16 | Elem::Bf16),
                };
                if !known {
                    return self.unsupported(i, "this element type");
                }
                let store = words[1] == "store";
                self.expect_operands(i, 2..=3)?;
                let (at, values) = if store { (0, 1) } else { (1, 0) };
                let registers = self.fragment(i, self.operand(i, values)?, !store)?;
                if registers.len() != mma::wmma_registers(part, elem, shape) {
                    return self.invalid(
                        i.pos,
                        format!(
                            "this fragment has {} registers",
                            mma::wmma_registers(part, elem, shape)
                        ),
                    );
                }
                let (rows, columns) = mma::extent(part, shape);
                let stride = match i.operands.get(2) {
                    Some(operand) => self.value(i, operand, Class::R32, Ty::U32)?,
                    None => self.constant32(if column_major { rows } else { columns }),
                };
                let (space, address, offset) = self.address(i, self.operand(i, at)?, space)?;
                self.watch_shared(
                    space,
                    if part == Part::Acc {
                        elem.bits() / 8
                    } else {
                        4
                    },
                );
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
            "mma" => {
                let layouts: Vec<bool> = words[2..]
                    .iter()
                    .filter(|w| matches!(**w, "row" | "col"))
                    .map(|w| *w == "col")
                    .collect();
                let [a_by_column, b_by_column] = layouts[..] else {
                    return self.unsupported(i, "");
                };
                let types: Vec<Elem> = words[2..].iter().filter_map(|w| mma::element(w)).collect();
                let (ab, cd) = match types.as_slice() {
                    [d @ (Elem::F16 | Elem::F32), c @ (Elem::F16 | Elem::F32)] => {
                        ([Elem::F16; 2], [*c, *d])
                    }
                    [Elem::F32, Elem::Bf16, Elem::Bf16, Elem::F32] => {
                        ([Elem::Bf16; 2], [Elem::F32; 2])
                    }
                    _ => return self.unsupported(i, ""),
                };
                if words.contains(&"satfinite") {
                    return self.unsupported(i, "");
                }
                self.multiply(i, Some([a_by_column, b_by_column]), shape, ab, cd)
            }
            _ => self.unsupported(i, ""),
        }
    }

    /// `layouts`: of the A and B fragments of `wmma`; `None` for `mma.sync`.
    fn multiply(
        &mut self,
        i: &Instruction,
        layouts: Option<[bool; 2]>,
        shape: Shape,
        ab: [Elem; 2],
        cd: [Elem; 2],
    ) -> Load<()> {
        self.expect_operands(i, 4..=4)?;
        let (wmma, by_column) = (layouts.is_some(), layouts.unwrap_or_default());
        let d = self.fragment(i, self.operand(i, 0)?, true)?;
        let a = self.fragment(i, self.operand(i, 1)?, false)?;
        let b = self.fragment(i, self.operand(i, 2)?, false)?;
        let c = self.fragment(i, self.operand(i, 3)?, false)?;
        let needed = |part: Part, elem: Elem| {
            if wmma {
                return mma::wmma_registers(part, elem, shape);
            }
            let (rows, columns) = mma::extent(part, shape);
            (rows * columns * elem.bits() / 1024) as usize
        };
        let fits = a.len() == needed(Part::A, ab[0])
            && b.len() == needed(Part::B, ab[1])
            && c.len() == needed(Part::Acc, cd[0])
            && d.len() == needed(Part::Acc, cd[1]);
        if !fits {
            return self.invalid(i.pos, "a fragment has the wrong number of registers");
        }
        let place = |part, elem, by_column: bool, n| {
            mma::Places::new(part, elem, shape, wmma.then_some(by_column), n)
        };
        let places = [
            place(Part::A, ab[0], by_column[0], a.len()),
            place(Part::B, ab[1], by_column[1], b.len()),
            place(Part::Acc, cd[0], false, c.len()),
            place(Part::Acc, cd[1], false, d.len()),
        ];
        let multiply = mma::Multiply {
            shape,
            ab,
            cd,
            d,
            a,
            b,
            c,
            places,
        };
        self.emit(Op::Mma(Box::new(Mma::Multiply(multiply))), [0; 6]);
        Ok(())
    }

    /// mma.sync.aligned.m16n8k*.row.col.d.a.b.c
    fn mma(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        if words[1..]
            == [
                "sync", "aligned", "m8n8k4", "row", "col", "f64", "f64", "f64", "f64",
            ]
        {
            return self.mma_f64(i);
        }
        let ["mma", "sync", "aligned", shape, "row", "col", rest @ ..] = words else {
            return self.unsupported(i, "");
        };
        let types: Vec<&str> = rest
            .iter()
            .copied()
            .filter(|w| !w.starts_with("kind::"))
            .collect();
        let types: Vec<Elem> = types.iter().filter_map(|w| mma::element(w)).collect();
        let (Some(shape), [d, a, b, c]) = (mma::shape(shape), types.as_slice()) else {
            return self.unsupported(i, "");
        };
        let eight = |e: &Elem| matches!(e, Elem::E4m3 | Elem::E5m2);
        let integer = |e: &Elem| matches!(e, Elem::S8 | Elem::U8);
        let known = shape.m == 16
            && shape.n == 8
            && types.len() == rest.len()
            && match (a, b, shape.k) {
                (Elem::F16, Elem::F16, 8 | 16) => {
                    matches!((c, d), (Elem::F16 | Elem::F32, Elem::F16 | Elem::F32))
                }
                (Elem::Bf16, Elem::Bf16, 8 | 16) | (Elem::Tf32, Elem::Tf32, 4 | 8) => {
                    (*c, *d) == (Elem::F32, Elem::F32)
                }
                (a, b, 16 | 32) if eight(a) && eight(b) => (*c, *d) == (Elem::F32, Elem::F32),
                (a, b, 16 | 32) if integer(a) && integer(b) => (*c, *d) == (Elem::S32, Elem::S32),
                _ => false,
            };
        if !known {
            return self.unsupported(i, "this shape with these types");
        }
        self.multiply(i, None, shape, [*a, *b], [*c, *d])
    }

    fn mma_f64(&mut self, i: &Instruction) -> Load<()> {
        self.expect_operands(i, 4..=4)?;
        let mut registers = [[0; 2]; 4];
        for (n, (to, held)) in registers.iter_mut().zip([2, 1, 1, 2]).enumerate() {
            let operand = self.operand(i, n)?;
            let elements = match operand {
                Operand::Vector(v) => v.as_slice(),
                other => std::slice::from_ref(other),
            };
            if elements.len() != held {
                return self.invalid(i.pos, "a fragment has the wrong number of registers");
            }
            for (to, e) in to.iter_mut().zip(elements) {
                *to = match n {
                    0 => self.destination(i, e, Class::R64)?,
                    _ => self.value(i, e, Class::R64, Ty::F64)?,
                };
            }
        }
        let [d, [a, _], [b, _], c] = registers;
        self.emit(Op::Mma(Box::new(Mma::MultiplyF64 { d, a, b, c })), [0; 6]);
        Ok(())
    }

    /// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    fn matrix(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
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
        let registers = self.fragment(i, self.operand(i, values)?, load)?;
        if registers.len() != count {
            return self.invalid(i.pos, "one register per matrix");
        }
        let (space, address, offset) = self.address(i, self.operand(i, at)?, space)?;
        self.watch_shared(space, 4);
        let op = match load {
            true => Mma::LdMatrix {
                transpose,
                registers,
                space,
                address,
                offset,
            },
            false => Mma::StMatrix {
                transpose,
                registers,
                space,
                address,
                offset,
            },
        };
        self.emit(Op::Mma(Box::new(op)), [0; 6]);
        Ok(())
    }
}
