//! A scalar model of matrix products, and launches of one block. All values are small integers, so every
//! sum is exact whatever its order.
#![allow(clippy::enum_variant_names)]

use super::*;
use ptxsim::launch;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum E {
    F16,
    Bf16,
    Tf32,
    F32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
    F64,
}

impl E {
    pub fn word(self) -> &'static str {
        match self {
            E::F16 => "f16",
            E::Bf16 => "bf16",
            E::Tf32 => "tf32",
            E::F32 => "f32",
            E::E4m3 => "e4m3",
            E::E5m2 => "e5m2",
            E::S8 => "s8",
            E::U8 => "u8",
            E::S4 => "s4",
            E::U4 => "u4",
            E::B1 => "b1",
            E::S32 => "s32",
            E::F64 => "f64",
        }
    }

    pub fn bits(self) -> usize {
        match self {
            E::F16 | E::Bf16 => 16,
            E::Tf32 | E::F32 | E::S32 => 32,
            E::F64 => 64,
            E::S4 | E::U4 => 4,
            E::B1 => 1,
            _ => 8,
        }
    }

    pub fn whole(self, elements: usize) -> usize {
        (elements * self.bits()).div_ceil(8)
    }

    /// Writes `v` to the element `at` of a matrix.
    pub fn put(self, v: i32, bytes: &mut [u8], at: usize) {
        match self.bits() {
            bits if bits < 8 => {
                let (byte, shift) = (at * bits / 8, at * bits % 8);
                bytes[byte] |= (v as u8 & ((1 << bits) - 1)) << shift;
            }
            bits => bytes[at * bits / 8..][..bits / 8].copy_from_slice(&self.encode(v)),
        }
    }

    pub fn encode(self, v: i32) -> Vec<u8> {
        let f = v as f32;
        match self {
            E::F16 => half::f16::from_f32(f).to_le_bytes().to_vec(),
            E::Bf16 => half::bf16::from_f32(f).to_le_bytes().to_vec(),
            E::Tf32 | E::F32 => f.to_le_bytes().to_vec(),
            E::E4m3 => vec![float8::F8E4M3::from_f32(f).to_bits()],
            E::E5m2 => vec![float8::F8E5M2::from_f32(f).to_bits()],
            E::S8 | E::U8 | E::S4 | E::U4 | E::B1 => vec![v as u8],
            E::S32 => v.to_le_bytes().to_vec(),
            E::F64 => f64::from(v).to_le_bytes().to_vec(),
        }
    }

    pub fn value(self, r: &mut Random) -> i32 {
        let v = (r.next() % 7) as i32;
        match self {
            E::B1 => v & 1,
            E::U8 | E::U4 => v,
            _ => v - 3,
        }
    }
}

/// The way in which an element of A and one of B are combined, and the word for it in the instruction.
#[derive(Clone, Copy, PartialEq)]
pub enum How {
    Multiply,
    Saturate,
    Xor,
    And,
}

impl How {
    /// The words before the types and after them.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            How::Multiply => ["", ""],
            How::Saturate => [".satfinite", ""],
            How::Xor => ["", ".xor.popc"],
            How::And => ["", ".and.popc"],
        }
    }
}

pub fn numbers(shape: &str) -> [usize; 3] {
    let mut extents = shape[1..].split(['n', 'k']).map(|n| n.parse().unwrap());
    [(); 3].map(|()| extents.next().unwrap())
}

/// Returns a matrix of random values of the element type.
pub fn matrix(rows: usize, columns: usize, e: E, r: &mut Random) -> Vec<Vec<i32>> {
    (0..rows)
        .map(|_| (0..columns).map(|_| e.value(r)).collect())
        .collect()
}

pub fn product(a: &[Vec<i32>], b: &[Vec<i32>], c: &[Vec<i32>], how: How) -> Vec<Vec<i32>> {
    let both = |x: i32, y: i32| match how {
        How::Multiply | How::Saturate => x * y,
        How::Xor => i32::from(x != y),
        How::And => i32::from(x == 1 && y == 1),
    };
    let sum = |i: usize, j: usize| -> i32 { (0..b.len()).map(|k| both(a[i][k], b[k][j])).sum() };
    let add = |c: i32, s: i32| match how {
        How::Saturate => c.saturating_add(s),
        _ => c.wrapping_add(s),
    };
    (0..c.len())
        .map(|i| (0..c[0].len()).map(|j| add(c[i][j], sum(i, j))).collect())
        .collect()
}

pub fn run(text: &str, buffers: &[Vec<u8>], threads: u32) -> (Vec<u8>, Report) {
    let module = load(text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let pointers: Vec<u64> = buffers.iter().map(|b| put(&mut memory, "x", b)).collect();
    let args: Vec<Arg> = pointers.iter().map(|&p| Arg::Ptr(p)).collect();
    let p = params(kernel, &args);
    let report = launch(
        kernel,
        [1, 1, 1],
        [threads, 1, 1],
        0,
        &p,
        &mut memory,
        limits(),
    );
    let n = buffers[buffers.len() - 1].len();
    (
        memory.read(*pointers.last().unwrap(), n).unwrap().to_vec(),
        clean(report),
    )
}

pub const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";
