//! `wgmma.mma_async` (PTX ISA 9.7.16) multiplies 64 rows of A by a warpgroup, 16 by each of its four warps, and all of
//! B.

use super::mma::{Elem, Shape};
use model::Swizzle;

/// The number of rows of D that each warp of the group holds.
pub const ROWS: u32 = 16;
/// The bytes of a row of A, or of a column of B, that one instruction takes.
pub const DEPTH_BYTES: u32 = 32;

#[derive(Clone, Debug)]
pub enum OperandA {
    Registers(Vec<u32>),
    /// The 64-bit register that has the descriptor of the matrix.
    Descriptor(u32),
}

/// A product: d = a * b, or d += a * b.
#[derive(Clone, Debug)]
pub struct Wgmma {
    pub shape: Shape,
    pub ab: [Elem; 2],
    pub sum: Elem,
    pub saturate: bool,
    pub d: Vec<u32>,
    pub a: OperandA,
    /// The 64-bit register that has the descriptor of B.
    pub b: u32,
    /// The predicate that d is added to, and not set.
    pub adds: u32,
    pub negated: [bool; 2],
    /// True for A if it is stored by column, and for B if it is stored by row: the other way than usual.
    pub transposed: [bool; 2],
}

impl Wgmma {
    /// Returns true if both multiply the same registers and add to the same ones.
    pub fn is_same(&self, other: &Wgmma) -> bool {
        let a = match (&self.a, &other.a) {
            (OperandA::Descriptor(one), OperandA::Descriptor(other)) => one == other,
            (OperandA::Registers(one), OperandA::Registers(other)) => one == other,
            _ => false,
        };
        a && self.b == other.b && self.d == other.d
    }
}

/// The fields of a matrix descriptor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub start: u32,
    pub leading: u32,
    pub stride: u32,
    /// The number, modulo 8, of the line of 128 bytes with which the pattern of the swizzle begins.
    pub first_line: u32,
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Reads the fields of a descriptor.
    pub fn from_bits(bits: u64) -> Descriptor {
        let field = |at: u32| ((bits >> at) as u32 & 0x3fff) << 4;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            first_line: (bits >> 49) as u32 & 7,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        }
    }

    /// Returns the number of bytes that lie side by side in one direction before the distances count.
    pub fn width(self) -> u32 {
        match self.swizzle {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Returns the distance between widths, in the direction in which elements lie side by side, and that between
    /// groups of eight lines.
    pub fn distances(self, transposed: bool) -> (u32, u32) {
        match (transposed, self.swizzle == Swizzle::None) {
            (false, true) => (self.leading, self.stride),
            // A row of one instruction lies within the width.
            (false, false) => (0, self.stride),
            (true, true) => (self.stride, self.leading),
            (true, false) => (self.leading, self.stride),
        }
    }

    /// Returns the bytes from the start to the 16 that begin `along` bytes in the direction in which elements lie side
    /// by side, in a line of the other direction (PTX ISA, "Strides"; CUTLASS, `mma_sm90_desc.hpp`). The swizzle comes
    /// after that. With `transposed`, elements lie side by side along the rows of A and columns of B, not along K.
    pub fn place(self, along: u32, line: u32, transposed: bool) -> u32 {
        let (width, plain) = (self.width(), self.swizzle == Swizzle::None);
        let (of_along, of_lines) = self.distances(transposed);
        let (in_line, beside) = match (transposed, plain) {
            (false, false) => (along, 0),
            _ => (along % width, along / width),
        };
        in_line + beside * of_along + line % 8 * width + line / 8 * of_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(swizzle: u64) -> Descriptor {
        // Start 0x400, leading 0x100, stride 0x800.
        Descriptor::from_bits(swizzle << 62 | 5 << 49 | 0x80_u64 << 32 | 0x10 << 16 | 0x40)
    }

    #[test]
    fn fields_of_a_descriptor() {
        let expected = Descriptor {
            start: 0x400,
            leading: 0x100,
            stride: 0x800,
            first_line: 5,
            swizzle: Swizzle::Bytes64,
        };
        assert_eq!(descriptor(2), expected);
    }

    /// The expected places are the canonical layouts of CUTLASS.
    #[test]
    fn places_in_the_canonical_layouts() {
        for (swizzle, transposed, along, line, expected) in [
            (0, false, 16, 0, 0x100),
            (0, false, 16, 9, 0x100 + 16 + 0x800),
            (1, false, 16, 9, 16 + 128 + 0x800),
            (2, false, 16, 7, 16 + 7 * 64),
            (3, false, 16, 7, 16 + 7 * 32),
            (0, true, 16, 9, 0x800 + 16 + 0x100),
            (1, true, 144, 9, 16 + 0x100 + 128 + 0x800),
            (2, true, 64, 1, 0x100 + 64),
            (3, true, 48, 8, 16 + 0x100 + 0x800),
        ] {
            let place = descriptor(swizzle).place(along, line, transposed);
            assert_eq!(place, expected, "{swizzle} {transposed} {along} {line}");
        }
    }
}
