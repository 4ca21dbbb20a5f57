//! Warp-wide matrix instructions, and the lane that holds each of their elements.
//!
//! The fragments of `mma.sync` are laid out by PTX ISA 9.7.15.5, "matrix fragments for mma.m16n8k8/k16/k32". For
//! `wmma`, 9.7.15.2 and 9.7.15.4 leave the layout open: any fixed one is right as long as load, mma and store agree,
//! and elementwise use of a fragment works with every layout. Here it is the one that ptxas 13.0 chooses for sm_90, but
//! for A and B of 16 bits, so that accesses cost what they cost there. What is loaded by `ldmatrix` there is counted
//! so.

use super::{Access, AddressSpace};
use crate::num::round::Round;
use crate::regs::Class;
use crate::words::words;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    A,
    B,
    /// The accumulators C and D, which are laid out alike.
    Acc,
}

words! {
    /// The types that elements of a fragment can have.
    pub enum Elem {
        F16 = "f16",
        Bf16 = "bf16",
        Tf32 = "tf32",
        F32 = "f32",
        F64 = "f64",
        E4m3 = "e4m3",
        E5m2 = "e5m2",
        S8 = "s8",
        U8 = "u8",
        S4 = "s4",
        U4 = "u4",
        B1 = "b1",
        S32 = "s32",
    }
}

impl Elem {
    /// Returns the number of bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Elem::F64 => 64,
            Elem::Tf32 | Elem::F32 | Elem::S32 => 32,
            Elem::F16 | Elem::Bf16 => 16,
            Elem::E4m3 | Elem::E5m2 | Elem::S8 | Elem::U8 => 8,
            Elem::S4 | Elem::U4 => 4,
            Elem::B1 => 1,
        }
    }

    /// Returns the class of the registers that hold it.
    pub fn class(self) -> Class {
        match self {
            Elem::F64 => Class::R64,
            _ => Class::R32,
        }
    }

    /// Returns the number of elements in one 32-bit register, or 1 if an element takes more.
    pub fn per_register(self) -> u32 {
        (32 / self.bits()).max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// One access of the fragment's registers, whose address is in register 0, and for each lane the row or column of
/// memory and the place in it.
pub type Step = (Access, [(u32, u32); 32]);

#[derive(Clone, Debug)]
pub struct Tile {
    pub space: AddressSpace,
    pub part: Part,
    pub shape: Shape,
    pub elem: Elem,
    pub column_major: bool,
    pub registers: Vec<u32>,
    /// The steps of the access: registers, and for each lane the row or column of memory that its elements begin in,
    /// and the place in it.
    pub steps: Vec<Step>,
    pub address: (Class, u32),
    pub offset: i64,
    /// The register of the distance between rows or columns, in elements.
    pub stride: u32,
    /// True if the program shows that the stride is 0. ptxas then makes equal accesses once.
    pub stride_is_0: bool,
}

#[derive(Clone, Debug)]
pub enum Mma {
    WmmaLoad(Tile),
    WmmaStore(Tile),
    Multiply(Multiply),
    Integers(Integers),
    Doubles(Doubles),
    Sparse(Sparse),
    Quads(Quads),
    Scaled(Scaled),
    Matrices(Matrices),
    /// `movmatrix`: 8x8 of 16-bit elements, transposed from one register to another.
    MovMatrix {
        d: u32,
        a: u32,
    },
}

/// The registers of d = a * b + c.
#[derive(Clone, Debug)]
pub struct Fragments {
    pub d: Vec<u32>,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

/// `ldmatrix` or `stmatrix` of 8x8 matrices of 16-bit elements.
#[derive(Clone, Debug)]
pub struct Matrices {
    pub stores: bool,
    pub transpose: bool,
    pub registers: Vec<u32>,
    pub space: AddressSpace,
    pub address: (Class, u32),
    pub offset: i64,
}

/// d = a * b + c of floats of up to 32 bits in the layouts of `wmma` or of `mma.sync`.
#[derive(Clone, Debug)]
pub struct Multiply {
    pub shape: Shape,
    pub ab: [Elem; 2],
    pub cd: [Elem; 2],
    pub registers: Fragments,
    /// The places of a, b, c and d.
    pub places: [Places; 4],
    /// The columns of A, as `places` order them, that each instruction of the machine takes, in the order of these
    /// instructions.
    pub groups: Vec<Range<usize>>,
}

/// The combination of an element of A and one of B before they are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Multiply,
    /// The bits that differ are counted (`.xor.popc`).
    Xor,
    /// The bits that both have are counted (`.and.popc`).
    And,
}

/// A product of integers of up to 8 bits, summed in s32.
#[derive(Clone, Debug)]
pub struct Integers {
    pub shape: Shape,
    pub ab: [Elem; 2],
    pub combine: Combine,
    /// True for `.satfinite`: the sum is clamped to s32. Otherwise it wraps.
    pub saturate: bool,
    pub registers: Fragments,
    /// The places of a, of b, and of c and d.
    pub places: [Places; 3],
}

/// A product of f64. Its `wmma` has the fragment layouts of `mma.sync`.
#[derive(Clone, Debug)]
pub struct Doubles {
    pub shape: Shape,
    pub round: Round,
    pub registers: Fragments,
}

/// A product d = a * b + c in a shape of 16 x 8, for which A holds half of its columns.
#[derive(Clone, Debug)]
pub struct Sparse {
    pub shape: Shape,
    pub ab: [Elem; 2],
    pub cd: [Elem; 2],
    pub saturate: bool,
    pub registers: Fragments,
    /// The register that says which elements of A are there, by two bits for each.
    pub metadata: u32,
    /// The number of the lanes of each four that have the metadata.
    pub selector: u32,
}

/// Four products of 8 x 8 x 4, each of 8 lanes: four of the lower half of the warp and four of the upper one.
#[derive(Clone, Debug)]
pub struct Quads {
    /// True for A or B if the matrix is stored by column.
    pub layouts: [bool; 2],
    /// The element type of C; D is f32. With f16 the order in which ptxas adds differs from element to element.
    pub addend: Elem,
    pub registers: Fragments,
}

words! {
    /// The formats of less than 16 bits that sm_100 and later multiply.
    pub enum Narrow {
        E4m3 = "e4m3",
        E5m2 = "e5m2",
        E2m3 = "e2m3",
        E3m2 = "e3m2",
        E2m1 = "e2m1",
    }
}

/// The formats of scales, which have no sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Ue8m0,
    Ue4m3,
}

#[derive(Clone, Debug)]
pub struct Scales {
    pub kind: Scale,
    /// The number of blocks of one row of A or column of B, each of which has a scale.
    pub blocks: u32,
    /// The registers that hold the scales of A and of B.
    pub registers: [u32; 2],
    /// The registers with the first byte and the thread that hold the scales, for A and for B.
    pub selectors: [[u32; 2]; 2],
}

/// A product d = a * b + c in a shape of 16 x 8, perhaps with scales.
#[derive(Clone, Debug)]
pub struct Scaled {
    pub shape: Shape,
    pub ab: [Narrow; 2],
    /// The number of bits that an element has in its register.
    pub container: u32,
    pub sum: Elem,
    pub registers: Fragments,
    pub scales: Option<Scales>,
}

/// The number of columns of B that are multiplied at once: as many as vector registers hold. Every shape has a multiple
/// of it.
pub const STRIP: usize = 8;

/// The places of the elements of a fragment in their matrix.
#[derive(Clone, Debug)]
pub struct Places {
    /// The index in the matrix, by rows, of each element: 32 lanes for each element number.
    pub of: Vec<u16>,
    /// The first lane that repeats what earlier ones hold.
    pub lanes: usize,
    /// True if the two halves of each register lie side by side, the first at an even place.
    pub in_pairs: bool,
}

impl Tile {
    /// Lays out the steps: several registers per access if a lane's elements lie side by side in memory, else one
    /// access per element, through register 0.
    pub fn lay_out(&mut self) {
        let per = self.elem.per_register();
        let place = |i: u32| {
            std::array::from_fn(|lane| {
                let (r, c) = wmma_place(
                    self.part,
                    self.elem,
                    self.shape,
                    self.column_major,
                    lane as u32,
                    i,
                );
                if self.column_major { (c, r) } else { (r, c) }
            })
        };
        let class = self.elem.class();
        let access = |registers, width| {
            // Register 0 of each file is free for any use.
            Access::new(self.space, width, registers, (Class::R64, 0), 0)
        };
        self.steps = match self.at_once() {
            Some(registers) => {
                let width = if class == Class::R64 { 8 } else { 4 };
                let chunk = |(n, r): (usize, &[u32])| {
                    let some = r.iter().map(|&r| (class, r)).collect();
                    (access(some, width), place((registers * n) as u32 * per))
                };
                self.registers
                    .chunks(registers)
                    .enumerate()
                    .map(chunk)
                    .collect()
            }
            None => (0..self.registers.len() as u32 * per)
                .map(|i| (access(vec![(class, 0)], self.elem.bits() / 8), place(i)))
                .collect(),
        };
    }

    /// Returns true if neighbours in a fragment are neighbours in memory.
    fn along(&self) -> bool {
        match self.part {
            Part::A => !self.column_major,
            Part::B => self.column_major,
            Part::Acc => self.column_major == lies_down(self.shape),
        }
    }

    /// Returns the number of registers that one access fills, or `None` if a register takes several accesses.
    pub fn at_once(&self) -> Option<usize> {
        match (self.part, self.elem) {
            // A register holds two neighbouring elements.
            (Part::Acc, Elem::F16) if self.along() => Some(1),
            (Part::Acc, _) if self.along() => Some(2),
            (Part::A | Part::B, Elem::F16 | Elem::Bf16) => Some(4),
            (_, elem) if elem.per_register() == 1 => Some(1),
            (Part::A | Part::B, _) if self.along() => Some(1),
            _ => None,
        }
    }

    /// Returns true if hardware loads the fragment by `ldmatrix`.
    pub fn by_matrices(&self) -> bool {
        let fits = match self.elem {
            Elem::F16 | Elem::Bf16 => true,
            elem => elem.per_register() > 1 && self.along(),
        };
        self.part != Part::Acc && self.space == AddressSpace::Shared && fits
    }

    /// Returns the number of matrices of one such `ldmatrix`, at most.
    pub fn matrices(&self) -> usize {
        match self.elem {
            Elem::F16 | Elem::Bf16 => 4,
            _ => 2,
        }
    }
}

impl Places {
    /// Returns the places of a fragment. `by_column` is the layout of a `wmma` fragment, and `None` for `mma.sync`.
    pub fn new(
        part: Part,
        elem: Elem,
        shape: Shape,
        by_column: Option<bool>,
        registers: usize,
    ) -> Places {
        let (rows, columns) = extent(part, shape);
        let elements = registers as u32 * elem.per_register();
        let of = (0..elements)
            .flat_map(|i| (0..32).map(move |lane| (lane, i)))
            .map(|(lane, i)| {
                let (r, c) = match by_column {
                    Some(by_column) => wmma_place(part, elem, shape, by_column, lane, i),
                    None => mma_place(part, elem, lane, i),
                };
                (r * columns + c) as u16
            })
            .collect();
        let lanes = (rows * columns).div_ceil(elements.max(1)).min(32) as usize;
        Places {
            of,
            lanes,
            in_pairs: false,
        }
    }

    /// Sets `in_pairs` if every register holds two neighbours of a row, the first at an even index.
    fn look_for_pairs(&mut self) {
        let steps = self.of.as_chunks::<32>().0.as_chunks::<2>().0;
        self.in_pairs = steps.iter().all(|[first, second]| {
            let pairs = first.iter().zip(second);
            pairs.into_iter().all(|(a, b)| a % 2 == 0 && *b == a + 1)
        });
    }
}

/// Returns the columns of A that each instruction of the machine takes, as ptxas 13.0 takes a product apart for sm_90:
/// fp8 into the first two of each four and the last two, as f16; `wmma` of tf32 into two instructions of four; all
/// others go in one.
pub fn groups(elem: Elem, wmma: bool, k: u32) -> Vec<Vec<usize>> {
    let k = 0..k as usize;
    let (first, second) = match elem {
        Elem::E4m3 | Elem::E5m2 => k.partition(|p| p % 4 < 2),
        Elem::Tf32 if wmma => k.partition(|p| *p < 4),
        _ => return vec![k.collect()],
    };
    vec![first, second]
}

/// Lays A and B out for the sums: A by rows, B by rows within strips of [`STRIP`] columns, both with the columns of A
/// and rows of B that go together side by side. Returns the range of each group in that order.
pub fn put_side_by_side(
    groups: &[Vec<usize>],
    [a, b]: [&mut Places; 2],
    columns_of_b: u32,
) -> Vec<Range<usize>> {
    let order = groups.concat();
    let (k, n, strip) = (order.len() as u16, columns_of_b as u16, STRIP as u16);
    let moved = |p: u16| {
        let found = order.iter().position(|&at| at == usize::from(p));
        found.unwrap_or_default() as u16
    };
    for at in &mut a.of {
        *at = *at / k * k + moved(*at % k);
    }
    for at in &mut b.of {
        let (row, column) = (moved(*at / n), *at % n);
        *at = (column / strip * k + row) * strip + column % strip;
    }
    a.look_for_pairs();
    b.look_for_pairs();
    let mut end = 0;
    groups
        .iter()
        .map(|group| {
            let start = end;
            end += group.len();
            start..end
        })
        .collect()
}

/// Returns the number of rows and columns of a part.
pub fn extent(part: Part, s: Shape) -> (u32, u32) {
    match part {
        Part::A => (s.m, s.k),
        Part::B => (s.k, s.n),
        Part::Acc => (s.m, s.n),
    }
}

/// Returns the number of registers of a `wmma` fragment (PTX ISA 9.7.15.2, table "wmma.load"). f16 A and B of 256
/// elements are held twice: 16 halves per lane.
pub fn wmma_registers(part: Part, elem: Elem, s: Shape) -> usize {
    let (rows, columns) = extent(part, s);
    match (part, elem) {
        (Part::A | Part::B, Elem::F16) => 8,
        _ => (rows * columns / elem.per_register() / 32).max(1) as usize,
    }
}

/// Returns true for m8n32k16, which is computed as the transpose of m32n8k16.
fn lies_down(s: Shape) -> bool {
    s.m == 8 && s.n == 32
}

/// Returns the row and the column of element `i` in lane `lane` of a `wmma` fragment.
#[inline(always)]
pub fn wmma_place(
    part: Part,
    elem: Elem,
    s: Shape,
    by_column: bool,
    lane: u32,
    i: u32,
) -> (u32, u32) {
    let (rows, columns) = extent(part, s);
    if part == Part::Acc {
        // The accumulators are those of m16n8k16 or m8n8k*, next to or above each other.
        let (g, t) = (lane / 4, lane % 4);
        return match s.m {
            _ if lies_down(s) => (2 * t + i % 2, g + 8 * (i / 2)),
            16 => (g + 8 * (i / 2 % 2), 2 * t + i % 2 + 8 * (i / 4)),
            _ => (g + 8 * (i / 2), 2 * t + i % 2),
        };
    }
    match elem {
        // Consecutive elements of a lane lie side by side in memory; what is left over repeats.
        Elem::F16 | Elem::Bf16 => {
            let per_lane = wmma_registers(part, elem, s) as u32 * elem.per_register();
            let at = (lane * per_lane + i) % (rows * columns);
            if by_column {
                (at % rows, at / rows)
            } else {
                (at / columns, at % columns)
            }
        }
        // This is the layout of m16n8k8, with the second half of B next to the first.
        Elem::Tf32 => match part {
            Part::A => mma_place(Part::A, elem, lane, i),
            _ => {
                let (r, c) = mma_place(Part::B, elem, lane, i % 2);
                (r, c + 8 * (i / 2))
            }
        },
        // One instruction covers all of the depth. The rows of A, or the columns of B, come from several instructions.
        _ => {
            let (g, t, p) = (lane / 4, lane % 4, elem.per_register());
            let (line, deep) = (g + 8 * (i / p), t * p + i % p);
            match part {
                Part::A => (line, deep),
                _ => (deep, line),
            }
        }
    }
}

/// Returns the row and the column of element `i` in lane `lane` for `mma.sync.m16n8k*` and `m8n8k*`, whose second rows
/// are not there. With the group g = lane / 4 and t = lane % 4 and p elements to a register:
///
/// - A: row g (+8 for odd registers), column t * p + i % p (+ 4p for registers 2 and 3)
/// - B: row t * p + i % p (+ 4p for register 1), column g
/// - C: row g (+8 for i >= 2), column 2 t + i % 2
#[inline(always)]
pub fn mma_place(part: Part, elem: Elem, lane: u32, i: u32) -> (u32, u32) {
    let (g, t) = (lane / 4, lane % 4);
    let p = elem.per_register();
    let register = i / p;
    match part {
        Part::A => (g + register % 2 * 8, t * p + i % p + register / 2 * 4 * p),
        Part::B => (t * p + i % p + register * 4 * p, g),
        Part::Acc => (g + i / 2 % 2 * 8, 2 * t + i % 2),
    }
}

/// Returns the shape that a word such as `m16n8k16` names.
pub fn shape(word: &str) -> Option<Shape> {
    let rest = word.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape {
        m: m.parse().ok()?,
        n: n.parse().ok()?,
        k: k.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every element of a fragment is held by some lane, and as often as every other one.
    #[test]
    fn layouts_cover_their_matrix_evenly() {
        let shapes = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];
        for (m, n, k) in shapes {
            let s = Shape { m, n, k };
            for (part, elem) in [
                (Part::A, Elem::F16),
                (Part::B, Elem::F16),
                (Part::Acc, Elem::F32),
                (Part::Acc, Elem::F16),
                (Part::A, Elem::Bf16),
            ] {
                let per_lane = wmma_registers(part, elem, s) as u32 * elem.per_register();
                covers(extent(part, s), per_lane, |lane, i| {
                    wmma_place(part, elem, s, false, lane, i)
                });
                covers(extent(part, s), per_lane, |lane, i| {
                    wmma_place(part, elem, s, true, lane, i)
                });
            }
        }
        for ((m, n, k), elem, acc) in [
            ((16, 16, 8), Elem::Tf32, Elem::F32),
            ((16, 16, 16), Elem::S8, Elem::S32),
            ((32, 8, 16), Elem::U8, Elem::S32),
            ((8, 32, 16), Elem::U8, Elem::S32),
            ((8, 8, 4), Elem::F64, Elem::F64),
            ((8, 8, 32), Elem::S4, Elem::S32),
            ((8, 8, 128), Elem::B1, Elem::S32),
        ] {
            let s = Shape { m, n, k };
            for (part, elem) in [(Part::A, elem), (Part::B, elem), (Part::Acc, acc)] {
                let per_lane = wmma_registers(part, elem, s) as u32 * elem.per_register();
                covers(extent(part, s), per_lane, |lane, i| {
                    wmma_place(part, elem, s, false, lane, i)
                });
            }
        }
        for (elem, k) in [
            (Elem::F16, 16),
            (Elem::F16, 8),
            (Elem::E4m3, 32),
            (Elem::Tf32, 8),
            (Elem::Tf32, 4),
            (Elem::F64, 4),
            (Elem::F64, 8),
            (Elem::F64, 16),
            (Elem::S4, 64),
            (Elem::B1, 256),
        ] {
            let s = Shape { m: 16, n: 8, k };
            covers((16, k), 16 * k / 32, |l, i| mma_place(Part::A, elem, l, i));
            covers((k, 8), 8 * k / 32, |l, i| mma_place(Part::B, elem, l, i));
            covers(extent(Part::Acc, s), 4, |l, i| {
                mma_place(Part::Acc, Elem::F32, l, i)
            });
        }
    }

    fn covers((rows, columns): (u32, u32), per_lane: u32, place: impl Fn(u32, u32) -> (u32, u32)) {
        let mut seen = vec![0; (rows * columns) as usize];
        for lane in 0..32 {
            for i in 0..per_lane {
                let (r, c) = place(lane, i);
                seen[(r * columns + c) as usize] += 1;
            }
        }
        let times = 32 * per_lane / (rows * columns);
        assert!(seen.iter().all(|&n| n == times), "{seen:?}");
    }

    /// Checks values from the figures of the PTX ISA for mma.m16n8k16 with f16.
    #[test]
    fn places_named_by_the_isa() {
        assert_eq!(mma_place(Part::A, Elem::F16, 5, 0), (1, 2));
        assert_eq!(mma_place(Part::A, Elem::F16, 5, 2), (9, 2));
        assert_eq!(mma_place(Part::A, Elem::F16, 5, 4), (1, 10));
        assert_eq!(mma_place(Part::B, Elem::F16, 5, 3), (11, 1));
        assert_eq!(mma_place(Part::Acc, Elem::F32, 5, 3), (9, 3));
        assert_eq!(mma_place(Part::A, Elem::E4m3, 5, 5), (9, 5));
        assert_eq!(mma_place(Part::A, Elem::F64, 5, 7), (9, 13));
        assert_eq!(mma_place(Part::B, Elem::F64, 5, 3), (13, 1));
        assert_eq!(mma_place(Part::A, Elem::S4, 5, 17), (1, 41));
    }
}
