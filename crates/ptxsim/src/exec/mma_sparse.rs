//! Products whose fragments differ from those of the other instructions: `mma.sp`, where two of each four elements of a
//! row of A are given (PTX ISA 9.7.15.6), and `mma.m8n8k4` of f16, which is four products in one (9.7.15.5.1). Both are
//! seldom, so that each element is computed by itself.

use super::mma_exact::number;
use super::mma_run::{cut, decode};
use super::mma_sums::{is_usual, unit};
use crate::isa::mma::*;
use crate::num::narrow::F16;
use crate::num::round::Round;
use crate::regs::{LANES, Regs};

/// Returns the word that holds element `i` of a lane, shifted so that the element is at its low end.
pub fn bits(regs: &Regs, registers: &[u32], elem: Elem, lane: usize, i: u32) -> u32 {
    let per = elem.per_register();
    let register = registers.get((i / per) as usize);
    let word = register.map_or(0, |r| regs.r32[*r as usize].0[lane]);
    word >> (i % per * elem.bits())
}

/// Calls `each` with the row, the column and the bits of each element of a fragment.
pub fn each_element(
    regs: &Regs,
    (part, elem): (Part, Elem),
    registers: &[u32],
    mut each: impl FnMut(u32, u32, u32),
) {
    for lane in 0..LANES {
        for i in 0..registers.len() as u32 * elem.per_register() {
            let (row, column) = mma_place(part, elem, lane as u32, i);
            each(row, column, bits(regs, registers, elem, lane, i));
        }
    }
}

/// Adds up one sum as the tensor cores do. `mma_sums` explains how, and does it for many sums at once.
fn sum(c: f64, terms: &[(f64, f64)], least: f64) -> f64 {
    let smallest = f64::from_bits((1023 - 126) << 52);
    let product = |(a, b): &(f64, f64)| unit(*a, least) * unit(*b, least);
    let largest = terms.iter().map(product).fold(unit(c, smallest), f64::max);
    let scale = f64::from(1 << 25) / largest;
    let cut_off = |x: f64| (x * scale).trunc();
    let all = terms.iter().map(|(a, b)| cut_off(a * b)).sum::<f64>() + cut_off(c);
    let sum = if is_usual(largest, all) {
        all / scale
    } else {
        terms.iter().fold(c, |s, (a, b)| s + a * b)
    };
    sum + 0.0
}

/// Returns the power of two of the smallest exponent that a factor can have.
fn least(elem: Elem) -> f64 {
    let exponent = if elem == Elem::F16 { 14 } else { 126 };
    f64::from_bits((1023 - exponent) << 52)
}

fn encode(elem: Elem, x: f64) -> u32 {
    match elem {
        Elem::F16 => F16.encode(x, Round::Nearest, false),
        _ => super::float_ops::w(cut(x)),
    }
}

/// Writes a fragment of D. `of` returns the bits of an element from its lane and its number.
pub fn put(regs: &mut Regs, registers: &[u32], elem: Elem, of: impl Fn(usize, u32) -> u32) {
    let per = elem.per_register();
    for (n, &register) in registers.iter().enumerate() {
        let word = |lane: usize| {
            let part = |i: u32| of(lane, n as u32 * per + i) << (i * elem.bits());
            (0..per).fold(0, |all, i| all | part(i))
        };
        let words: [u32; LANES] = std::array::from_fn(word);
        regs.set32(register, |lane| words[lane]);
    }
}

impl Sparse {
    /// Returns the bits of what two bits of metadata stand for: an element, a pair of four bits each, or half a tf32,
    /// which has four bits of metadata (PTX ISA, "Sparse matrix storage").
    fn unit_bits(elem: Elem) -> u32 {
        elem.bits().clamp(8, 16)
    }

    /// Returns the number of such units in a row of A.
    pub fn units(elem: Elem, columns: u32) -> u32 {
        columns * elem.bits() / Self::unit_bits(elem)
    }

    /// Returns the column, in its row, of the element that A holds at column `at`.
    fn column(&self, regs: &Regs, row: u32, at: u32) -> u32 {
        let elem = self.ab[0];
        let (element, unit) = (elem.bits(), Self::unit_bits(elem));
        let (group, upper) = (row % 8 * 4, row / 8);
        let of = |lane: u32| u64::from(regs.r32[self.metadata as usize].0[lane as usize % LANES]);
        // A row has as many bits of metadata as units to choose from. The metadata of 32 units of 16 bits lie as those
        // of two rows of 16.
        let all = match (Self::units(elem, self.shape.k), unit) {
            (16, _) => of(group + self.selector) >> (16 * upper),
            (32, 16) => {
                let half = |n: u32| of(group + 2 * self.selector + n) >> (16 * upper) & 0xffff;
                half(0) | half(1) << 16
            }
            (32, _) => of(group + 2 * self.selector + upper),
            _ => of(group + upper) | of(group + 2 + upper) << 32,
        };
        let first = at * element / unit;
        let chosen = all >> (2 * first) & 3;
        ((first / 2 * 4 + chosen as u32) * unit + at * element % unit) / element
    }

    /// Returns the elements that A holds of each row: the column and the bits.
    fn rows(&self, regs: &Regs) -> Vec<Vec<(usize, u32)>> {
        let mut rows = vec![vec![(0, 0); self.shape.k as usize / 2]; 16];
        let fragment = (Part::A, self.ab[0]);
        each_element(regs, fragment, &self.registers.a, |row, at, element| {
            let column = self.column(regs, row, at) as usize;
            rows[row as usize][at as usize] = (column, element);
        });
        rows
    }

    /// Returns the bits of B, by its 8 columns.
    fn columns(&self, regs: &Regs) -> Vec<Vec<u32>> {
        let mut columns = vec![vec![0; self.shape.k as usize]; 8];
        let fragment = (Part::B, self.ab[1]);
        each_element(regs, fragment, &self.registers.b, |row, column, element| {
            columns[column as usize][row as usize] = element;
        });
        columns
    }

    /// Computes the product and writes it to the registers of D.
    pub fn compute(&self, regs: &mut Regs) {
        let (rows, columns) = (self.rows(regs), self.columns(regs));
        let [a_elem, b_elem] = self.ab;
        let [c_elem, d_elem] = self.cd;
        let before = regs.clone();
        put(regs, &self.registers.d, d_elem, |lane, i| {
            let (row, column) = mma_place(Part::Acc, d_elem, lane as u32, i);
            let c = bits(&before, &self.registers.c, c_elem, lane, i);
            let b = &columns[column as usize];
            let pairs = rows[row as usize].iter().map(|&(at, a)| (a, b[at]));
            if d_elem == Elem::S32 {
                let product = pairs.map(|(a, b)| number(a_elem, a) * number(b_elem, b));
                let (product, c) = (product.sum::<i32>(), c as i32);
                return if self.saturate {
                    c.saturating_add(product) as u32
                } else {
                    c.wrapping_add(product) as u32
                };
            }
            let terms: Vec<_> = pairs
                .map(|(a, b)| (decode(a_elem, a).into(), decode(b_elem, b).into()))
                .collect();
            encode(d_elem, sum(decode(c_elem, c).into(), &terms, least(a_elem)))
        });
    }
}

impl Quads {
    /// Returns the row and the column of element `i` in a fragment of C or D.
    fn place(elem: Elem, lane: usize, i: u32) -> (u32, u32) {
        let (lane, upper) = (lane as u32, lane as u32 / 16 * 4);
        match elem {
            Elem::F16 => (lane % 4 + upper, i),
            _ => ((lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)),
        }
    }

    /// Computes the four products and writes them to the registers of D.
    pub fn compute(&self, regs: &mut Regs) {
        let before = regs.clone();
        // Returns the lane that holds an element along the one side, and the number of the element in it.
        let held = |across: u32, along: u32, by_lane: bool| {
            if by_lane {
                (across % 4 + across / 4 * 16, along)
            } else {
                (along + across / 4 * 16, across % 4)
            }
        };
        put(regs, &self.registers.d, Elem::F32, |lane, i| {
            let first = lane as u32 / 4 % 4 * 4;
            let (row, column) = Self::place(Elem::F32, lane, i);
            let term = |k: u32| {
                let of = |registers: &[u32], (lane, i): (u32, u32)| {
                    let element = bits(&before, registers, Elem::F16, (first + lane) as usize, i);
                    decode(Elem::F16, element)
                };
                let a = held(row, k, !self.layouts[0]);
                let b = held(column, k, self.layouts[1]);
                (of(&self.registers.a, a), of(&self.registers.b, b))
            };
            // The fragment of C is laid out by its own type.
            let own =
                |other: &(usize, u32)| Self::place(self.addend, other.0, other.1) == (row, column);
            let c = [first, first + 16]
                .into_iter()
                .flat_map(|l| l..l + 4)
                .flat_map(|l| (0..8).map(move |i| (l as usize, i)))
                .find(own)
                .map_or(0.0, |(lane, i)| {
                    decode(
                        self.addend,
                        bits(&before, &self.registers.c, self.addend, lane, i),
                    )
                });
            // ptxas makes f32 `fma` of it: a rounding for each term, C last (CALIBRATION.md).
            let add = |s: f32, (a, b): (f32, f32)| a.mul_add(b, s);
            super::float_ops::w((0..4).map(term).fold(0.0, add) + c)
        });
    }
}
