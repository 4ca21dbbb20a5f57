//! The matrix instructions that `mma` compares: what they are, the PTX around each, and its operands.

use crate::sweep::{HEADER, HEADER_A};
use crate::words::Random;
use std::fmt::Write as _;

/// Each multiplies operands of its own.
pub const WARPS: usize = 512;

/// The kind of values in A and B.
#[derive(Clone, Copy, PartialEq)]
enum Elements {
    F16,
    Bf16,
    Tf32,
    F64,
    E4m3,
    E5m2,
    /// Integers, for which any bits are a number.
    Integers,
}

use Elements::*;

/// The range of the addends of integers.
#[derive(Clone, Copy)]
enum Sums {
    Any,
    /// Half of them nearly too large.
    Brim,
}

/// An instruction. All else follows from its words: see [`Variant::layout`].
pub struct Variant {
    pub name: &'static str,
    op: &'static str,
    sums: Sums,
    /// For `mma.sp`: which lanes have the metadata.
    selector: Option<u32>,
}

const fn of(name: &'static str, op: &'static str) -> Variant {
    Variant {
        name,
        op,
        sums: Sums::Brim,
        selector: None,
    }
}

const fn sparse(name: &'static str, op: &'static str, selector: u32) -> Variant {
    Variant {
        selector: Some(selector),
        ..of(name, op)
    }
}

#[rustfmt::skip]
pub const VARIANTS: &[Variant] = &[
    of("f16_k16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    of("f16_k8", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
    of("f16_k16_to_f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
    of("bf16_k16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    of("tf32_k8", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    of("e4m3_k32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    of("e5m2_k32", "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"),
    Variant { sums: Sums::Any, ..of("s8_k32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32") },
    of("f64_m8k4", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    of("f64_m8k4_rz", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz"),
    of("f64_k4", "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64"),
    of("f64_k8", "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"),
    of("f64_k16", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"),
    of("f64_k16_rm", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64.rm"),
    of("f64_k16_rp", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64.rp"),
    of("tf32_k4", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"),
    of("e4m3_k16", "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32"),
    of("e4m3_k32_to_f16", "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"),
    of("e5m2_k16_to_f16", "mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e5m2.f16"),
    of("s8_m8k16", "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32"),
    of("u8_k16_sat", "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.u8.s32"),
    of("s8_k32_sat", "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32"),
    of("s4_m8k32_sat", "mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32"),
    of("s4_k32", "mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32"),
    of("s4_k64_sat", "mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32"),
    of("s4_k64", "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"),
    of("b1_m8k128_xor", "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc"),
    of("b1_k128_and", "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc"),
    of("b1_k256_xor", "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"),
    of("b1_k256_and", "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc"),
    of("wmma_tf32", "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32"),
    of("wmma_tf32_turned", "wmma.mma.sync.aligned.col.row.m16n16k8.f32.tf32.tf32.f32"),
    of("wmma_s8", "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32.satfinite"),
    of("wmma_u8_wide", "wmma.mma.sync.aligned.row.row.m8n32k16.s32.u8.u8.s32"),
    of("wmma_s8_tall", "wmma.mma.sync.aligned.col.col.m32n8k16.s32.s8.s8.s32"),
    of("wmma_s4", "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32.satfinite"),
    of("wmma_b1", "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"),
    of("wmma_f64", "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn"),
    of("wmma_f64_turned", "wmma.mma.sync.aligned.col.row.m8n8k4.f64.f64.f64.f64.rp"),
    of("f16_m8k4", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"),
    of("f16_m8k4_turned", "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32"),
    of("f16_m8k4_from_f16", "mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f16"),
    sparse("sp_f16_k16", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 0),
    sparse("sp_f16_k16_third", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2),
    sparse("sp_f16_k32", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 0),
    sparse("sp_f16_k32_to_f16", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16", 1),
    sparse("sp_bf16_k16", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 3),
    sparse("sp_bf16_k32", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", 1),
    sparse("sp_s8_k32", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 1),
    sparse("sp_s8_k64_sat", "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32.satfinite", 0),
    sparse("sp_s4_k64", "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", 0),
    sparse("sp_s4_k128_sat", "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32.satfinite", 0),
    of("wgmma_f16", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"),
    of("wgmma_f16_to_f16", "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16"),
    of("wgmma_bf16", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"),
    of("wgmma_tf32", "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"),
    of("wgmma_e4m3", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"),
    of("wgmma_e5m2", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2"),
    of("wgmma_e4m3_e5m2", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2"),
    of("wgmma_e4m3_to_f16", "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3"),
    of("wgmma_e5m2_to_f16", "wgmma.mma_async.sync.aligned.m64n8k32.f16.e5m2.e5m2"),
    Variant { sums: Sums::Any, ..of("wgmma_s8", "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8") },
    of("wgmma_u8_sat", "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.u8"),
    sparse("sp_tf32_k8", "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2),
    sparse("sp_tf32_k16", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", 1),
];

/// The fragments' layout, from the words of an instruction.
struct Layout {
    /// Extents of the product: m, n and k.
    shape: [usize; 3],
    /// The types of A and of C.
    types: [&'static str; 2],
    elements: Elements,
    /// Bytes of a register: 8 for f64, else 4.
    register: usize,
    /// Registers of a, b, c and d in each lane. Metadata have one more.
    registers: [usize; 4],
    /// C and D are of f16.
    halves: bool,
}

const TYPES: [&str; 13] = [
    "f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1", "s32",
];

fn bits(ty: &str) -> usize {
    match ty {
        "e4m3" | "e5m2" => 8,
        _ => ty
            .trim_start_matches(char::is_alphabetic)
            .parse()
            .unwrap_or(0),
    }
}

/// Returns m, n and k of a shape.
fn numbers(shape: &str) -> [usize; 3] {
    let mut all = shape.split(|c: char| !c.is_ascii_digit()).skip(1);
    [(); 3].map(|()| all.next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

impl Variant {
    fn layout(&self) -> Layout {
        let words = || self.op.split('.');
        let shape = words().find(|w| w.starts_with('m') && w.contains('k'));
        let [m, n, k] = numbers(shape.unwrap_or_default());
        let mut types = words().filter(|w| TYPES.contains(w));
        let [d, a, b, c] = [(); 4].map(|()| types.next().unwrap_or_default());
        // `wgmma` adds to D. Each of four warps has a quarter of the rows.
        let (m, c) = if self.by_warpgroup() {
            (m / 4, d)
        } else {
            (m, c)
        };
        let register = if a == "f64" { 8 } else { 4 };
        // The one of f16 is four products.
        let products = if (m, n, k, a) == (8, 8, 4, "f16") {
            4
        } else {
            1
        };
        let registers = |elements: usize, ty| products * elements * bits(ty) / 32 / (8 * register);
        let held = if self.selector.is_some() { k / 2 } else { k };
        Layout {
            shape: [m, n, k],
            types: [a, c],
            elements: match a {
                "f16" => F16,
                "bf16" => Bf16,
                "tf32" => Tf32,
                "f64" => F64,
                "e4m3" => E4m3,
                "e5m2" => E5m2,
                _ => Integers,
            },
            register,
            registers: [
                registers(m * held, a),
                registers(k * n, b),
                registers(m * n, c),
                registers(m * n, d),
            ],
            halves: d == "f16",
        }
    }

    /// The matrices lie in memory, A and B in the layouts of the instruction, C and D by rows. Else each lane
    /// reads its registers one after the other.
    fn through_memory(&self) -> bool {
        self.op.starts_with("wmma")
    }

    /// A is in registers, B in shared memory, C is where D will be.
    fn by_warpgroup(&self) -> bool {
        self.op.starts_with("wgmma")
    }

    /// Returns the number of threads of a block.
    pub fn threads(&self) -> usize {
        if self.by_warpgroup() { 128 } else { 32 }
    }

    /// Returns the size of one result in bytes.
    pub fn result(&self) -> usize {
        let layout = self.layout();
        if layout.halves { 2 } else { layout.register }
    }

    pub fn output_bytes(&self) -> usize {
        let layout = self.layout();
        32 * WARPS * layout.register * layout.registers[3]
    }

    pub fn ptx(&self) -> String {
        let layout = self.layout();
        let ([a, b, c, d], size) = (layout.registers, layout.register);
        let bits = 8 * size;
        let header = if self.by_warpgroup() {
            HEADER_A
        } else {
            HEADER
        };
        let mut t = format!(
            "{header}.visible .entry f(.param .u64 pin, .param .u64 pout)\n{{\n\
             .reg .b{bits} %a<8>, %b<8>, %c<8>, %d<8>, %e<1>;\n.reg .b32 %t, %g, %l;\n.reg .b64 %in, %out, %o;\n.reg .pred %p;\n\
             ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\n\
             mov.u32 %g, %ctaid.x;\n"
        );
        let names = |letter: char, n: usize| -> String {
            let all: Vec<String> = (0..n).map(|k| format!("%{letter}{k}")).collect();
            format!("{{{}}}", all.join(", "))
        };
        let metadata = self.selector.map(|n| format!(", %e0, {n}"));
        let e = usize::from(metadata.is_some());
        let multiply = if self.by_warpgroup() {
            self.multiply_by_warpgroup(&layout, &names)
        } else {
            format!(
                "{} {}, {}, {}, {}{};\n",
                self.op,
                names('d', d),
                names('a', a),
                names('b', b),
                names('c', c),
                metadata.unwrap_or_default()
            )
        };
        let result = if self.by_warpgroup() { 'c' } else { 'd' };
        if self.through_memory() {
            let ([m, n, k], [ab, cd]) = (layout.shape, layout.types);
            let shape = format!("m{m}n{n}k{k}");
            let mut layouts = self.op.split('.').filter(|w| matches!(*w, "row" | "col"));
            let [la, lb] = [(); 2].map(|()| layouts.next().unwrap_or("row"));
            let (of_a, of_b) = (32 * a * size, 32 * b * size);
            let _ = write!(
                t,
                "mul.wide.u32 %o, %g, {};\nadd.s64 %in, %in, %o;\n\
                     mul.wide.u32 %o, %g, {};\nadd.s64 %out, %out, %o;\n",
                32 * size * (a + b + c),
                32 * size * d
            );
            for (letter, list, at, layout, ty, length) in [
                (
                    'a',
                    names('a', a),
                    0,
                    la,
                    ab,
                    if la == "row" { k } else { m },
                ),
                (
                    'b',
                    names('b', b),
                    of_a,
                    lb,
                    ab,
                    if lb == "row" { n } else { k },
                ),
                ('c', names('c', c), of_a + of_b, "row", cd, n),
            ] {
                let _ = writeln!(
                    t,
                    "wmma.load.{letter}.sync.aligned.{layout}.{shape}.global.{ty} {list}, [%in+{at}], {length};"
                );
            }
            t += &multiply;
            let _ = writeln!(
                t,
                "wmma.store.d.sync.aligned.row.{shape}.global.{cd} [%out], {}, {n};",
                names('d', d)
            );
        } else {
            let _ = write!(
                t,
                "mov.u32 %l, %t;\nmad.lo.u32 %t, %g, {}, %t;\nmul.wide.u32 %o, %t, {};\n\
                     add.s64 %in, %in, %o;\nmul.wide.u32 %o, %t, {};\nadd.s64 %out, %out, %o;\n",
                self.threads(),
                size * (a + b + c + e),
                size * d
            );
            let mut at = 0;
            for (letter, n) in [('a', a), ('b', b), ('c', c), ('e', e)] {
                for k in 0..n {
                    let _ = writeln!(t, "ld.global.b{bits} %{letter}{k}, [%in+{at}];");
                    at += size;
                }
            }
            t += &multiply;
            for k in 0..d {
                let _ = writeln!(t, "st.global.b{bits} [%out+{}], %{result}{k};", size * k);
            }
        }
        t + "ret;\n}\n"
    }

    /// The words of B are those of the first warp: two lines of four core matrices, without a swizzle.
    fn multiply_by_warpgroup(
        &self,
        layout: &Layout,
        names: &dyn Fn(char, usize) -> String,
    ) -> String {
        let [a, b, c, _] = layout.registers;
        let scales = match layout.types[0] {
            "s8" | "u8" => "",
            "f16" | "bf16" => ", 1, 1, 0",
            _ => ", 1, 1",
        };
        let matrix: u64 = 8 * 16;
        let descriptor = ((matrix >> 4) << 16) | (((2 * matrix) >> 4) << 32);
        let mut t = format!(
            ".shared .align 128 .b8 s[{}];\nsetp.lt.u32 %p, %l, 32;\nmov.u32 %t, s;\n\
             mad.lo.u32 %l, %l, {}, %t;\n",
            32 * 4 * b,
            4 * b
        );
        for k in 0..b {
            let _ = writeln!(t, "@%p st.shared.b32 [%l+{}], %b{k};", 4 * k);
        }
        let _ = write!(
            t,
            "fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %t, %t, 4;\ncvt.u64.u32 %o, %t;\n\
             or.b64 %o, %o, {descriptor};\nsetp.eq.u32 %p, %g, %g;\nwgmma.fence.sync.aligned;\n\
             {} {}, {}, %o, %p{scales};\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.op,
            names('c', c),
            names('a', a)
        );
        t
    }

    /// Warp by warp: normal deviates; then wild exponents, NaNs left out; the last eighth any bits.
    pub fn input(&self) -> Vec<u8> {
        let mut random = Random::new(17);
        let layout = self.layout();
        let [a, b, c, _] = layout.registers;
        // For a lane, or for a warp.
        let (owners, share) = if self.through_memory() {
            (WARPS, 32)
        } else {
            (32 * WARPS, 1)
        };
        let mut bytes = Vec::new();
        for owner in 0..owners {
            let kind = owner * 8 / owners;
            for register in 0..share * (a + b + c) {
                let sum = register >= share * (a + b);
                self.word(&layout, &mut random, kind, sum, &mut bytes);
            }
            if self.selector.is_some() {
                bytes.extend(metadata(&layout, &mut random).to_le_bytes());
            }
        }
        bytes
    }

    /// One register's worth of elements, of C where `sum`.
    fn word(
        &self,
        layout: &Layout,
        random: &mut Random,
        kind: usize,
        sum: bool,
        bytes: &mut Vec<u8>,
    ) {
        let wild = |random: &mut Random, by: usize| match kind {
            4.. => 2.0_f32.powi(random.below(by) as i32 - by as i32 / 2),
            _ => 1.0,
        };
        let word: u32 = match (kind, layout.elements, sum) {
            (_, F64, _) => {
                let word = match kind {
                    7 => random.word64(),
                    4.. => {
                        let by = 2.0_f64.powi(random.below(120) as i32 - 60);
                        (f64::from(random.normal()) * by * (1.0 + f64::EPSILON)).to_bits()
                    }
                    _ => {
                        let low = f64::from(random.normal()) * 2.0_f64.powi(-30);
                        (f64::from(random.normal()) + low).to_bits()
                    }
                };
                return bytes.extend(word.to_le_bytes());
            }
            (7, _, _) => random.word32(),
            (4.., Integers, true) if matches!(self.sums, Sums::Brim) => {
                let far = i32::MAX as u32 - random.below(1 << 16) as u32;
                if random.chance(50) { far } else { !far }
            }
            (_, Integers, _) => random.next() as u32,
            (4.., _, true) if !layout.halves => {
                let exponent = 107 + random.below(40) as u32;
                (random.next() as u32 & 0x807f_ffff) | exponent << 23
            }
            (_, _, true) if !layout.halves => random.normal().to_bits(),
            (_, F16, _) | (_, _, true) => pair(random, |r| {
                half::f16::from_f32(r.normal() * wild(r, 20)).to_bits()
            }),
            (_, Bf16, _) => pair(random, |r| {
                half::bf16::from_f32(r.normal() * wild(r, 40)).to_bits()
            }),
            (_, Tf32, _) => {
                let by = wild(random, 40);
                (random.normal() * by).to_bits()
            }
            (_, E4m3, _) => eight(random, |r| {
                let by = wild(r, 14);
                float8::F8E4M3::from_f32(r.normal() * by).to_bits()
            }),
            (_, E5m2, _) => eight(random, |r| {
                let by = wild(r, 14);
                float8::F8E5M2::from_f32(r.normal() * by).to_bits()
            }),
        };
        bytes.extend(word.to_le_bytes());
    }
}

/// Draws which pairs are present in eight groups of four, in order (PTX ISA 9.7.15.6.1). A pair of tf32 has one.
fn metadata(layout: &Layout, random: &mut Random) -> u32 {
    let pairs: &[u32] = if layout.elements == Tf32 {
        &[0b0100, 0b1110]
    } else {
        &[0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    };
    (0..8).fold(0, |word, _| word << 4 | pairs[random.below(pairs.len())])
}

fn pair(random: &mut Random, mut of: impl FnMut(&mut Random) -> u16) -> u32 {
    u32::from(of(random)) | u32::from(of(random)) << 16
}

fn eight(random: &mut Random, mut of: impl FnMut(&mut Random) -> u8) -> u32 {
    (0..4).fold(0, |w, _| w << 8 | u32::from(of(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers follow from PTX ISA 9.7.15.5.
    #[test]
    fn registers_follow_from_the_words() {
        for (name, registers, halves) in [
            ("f16_k16", [4, 2, 4, 4], false),
            ("f16_k16_to_f16", [4, 2, 2, 2], true),
            ("bf16_k16", [4, 2, 4, 4], false),
            ("e4m3_k32", [4, 2, 4, 4], false),
            ("f64_m8k4", [1, 1, 2, 2], false),
            ("f64_k16", [8, 4, 4, 4], false),
            ("tf32_k4", [2, 1, 4, 4], false),
            ("e5m2_k16_to_f16", [2, 1, 2, 2], true),
            ("s8_m8k16", [1, 1, 2, 2], false),
            ("s4_k64", [4, 2, 4, 4], false),
            ("b1_k256_and", [4, 2, 4, 4], false),
            ("wmma_tf32", [4, 4, 8, 8], false),
            ("wmma_u8_wide", [1, 4, 8, 8], false),
            ("wmma_s8_tall", [4, 1, 8, 8], false),
            ("wmma_b1", [1, 1, 2, 2], false),
            ("wmma_f64", [1, 1, 2, 2], false),
            ("f16_m8k4", [2, 2, 8, 8], false),
            ("f16_m8k4_from_f16", [2, 2, 4, 8], false),
            ("sp_f16_k32", [4, 4, 4, 4], false),
            ("sp_s8_k64_sat", [4, 4, 4, 4], false),
            ("sp_s4_k64", [2, 2, 4, 4], false),
            ("sp_tf32_k8", [2, 2, 4, 4], false),
            ("sp_tf32_k16", [4, 4, 4, 4], false),
            ("wgmma_f16", [4, 2, 4, 4], false),
            ("wgmma_e4m3_to_f16", [4, 2, 2, 2], true),
        ] {
            let variant = VARIANTS.iter().find(|v| v.name == name).unwrap();
            let layout = variant.layout();
            assert_eq!(
                (layout.registers, layout.halves),
                (registers, halves),
                "{name}"
            );
        }
        for v in VARIANTS {
            assert!(v.layout().registers.iter().all(|n| *n > 0), "{}", v.name);
        }
    }
}
