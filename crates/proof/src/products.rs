//! The matrix instructions that `mma` compares: what they are, the PTX around each, and its operands.

use crate::sweep::HEADER;
use crate::words::Random;
use std::fmt::Write as _;

/// Each multiplies operands of its own.
pub const WARPS: usize = 512;

#[derive(Clone, Copy)]
enum Elements {
    F16,
    Bf16,
    Tf32,
    F64,
    E4m3,
    E5m2,
    /// Any bits are a number: integers.
    Any,
    /// The same, the sums of half of them nearly too large.
    Brim,
}

/// How the fragments come about.
#[derive(Clone, Copy)]
enum Form {
    /// Each lane reads its registers one after the other.
    Mma,
    /// The matrices lie in memory, A and B in the layouts of the instruction, C and D by rows:
    /// shape, types of A and B and of C and D.
    Wmma(&'static str, [&'static str; 2]),
}

pub struct Variant {
    pub name: &'static str,
    op: &'static str,
    elements: Elements,
    /// Registers of a, b, c and d: of 64 bits for f64, else of 32.
    registers: [usize; 4],
    halves: bool,
    form: Form,
}

const fn mma(
    name: &'static str,
    op: &'static str,
    elements: Elements,
    registers: [usize; 4],
    halves: bool,
) -> Variant {
    let form = Form::Mma;
    Variant {
        name,
        op,
        elements,
        registers,
        halves,
        form,
    }
}

const fn wmma(
    name: &'static str,
    op: &'static str,
    elements: Elements,
    registers: [usize; 4],
    form: Form,
) -> Variant {
    let halves = false;
    Variant {
        name,
        op,
        elements,
        registers,
        halves,
        form,
    }
}

use Elements::*;

pub const VARIANTS: &[Variant] = &[
    mma(
        "f16_k16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        F16,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "f16_k8",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        F16,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "f16_k16_to_f16",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        F16,
        [4, 2, 2, 2],
        true,
    ),
    mma(
        "bf16_k16",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        Bf16,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "tf32_k8",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        Tf32,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "e4m3_k32",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        E4m3,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "e5m2_k32",
        "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32",
        E5m2,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "s8_k32",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        Any,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "f64_m8k4",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        F64,
        [1, 1, 2, 2],
        false,
    ),
    mma(
        "f64_m8k4_rz",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz",
        F64,
        [1, 1, 2, 2],
        false,
    ),
    mma(
        "f64_k4",
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        F64,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "f64_k8",
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
        F64,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "f64_k16",
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
        F64,
        [8, 4, 4, 4],
        false,
    ),
    mma(
        "f64_k16_rm",
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64.rm",
        F64,
        [8, 4, 4, 4],
        false,
    ),
    mma(
        "f64_k16_rp",
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64.rp",
        F64,
        [8, 4, 4, 4],
        false,
    ),
    mma(
        "tf32_k4",
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        Tf32,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "e4m3_k16",
        "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32",
        E4m3,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "e4m3_k32_to_f16",
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16",
        E4m3,
        [4, 2, 2, 2],
        true,
    ),
    mma(
        "e5m2_k16_to_f16",
        "mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e5m2.f16",
        E5m2,
        [2, 1, 2, 2],
        true,
    ),
    mma(
        "s8_m8k16",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32",
        Brim,
        [1, 1, 2, 2],
        false,
    ),
    mma(
        "u8_k16_sat",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.u8.s32",
        Brim,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "s8_k32_sat",
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
        Brim,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "s4_m8k32_sat",
        "mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32",
        Brim,
        [1, 1, 2, 2],
        false,
    ),
    mma(
        "s4_k32",
        "mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32",
        Brim,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "s4_k64_sat",
        "mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32",
        Brim,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "s4_k64",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        Brim,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "b1_m8k128_xor",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        Brim,
        [1, 1, 2, 2],
        false,
    ),
    mma(
        "b1_k128_and",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc",
        Brim,
        [2, 1, 4, 4],
        false,
    ),
    mma(
        "b1_k256_xor",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
        Brim,
        [4, 2, 4, 4],
        false,
    ),
    mma(
        "b1_k256_and",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        Brim,
        [4, 2, 4, 4],
        false,
    ),
    wmma(
        "wmma_tf32",
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
        Tf32,
        [4, 4, 8, 8],
        Form::Wmma("m16n16k8", ["tf32", "f32"]),
    ),
    wmma(
        "wmma_tf32_turned",
        "wmma.mma.sync.aligned.col.row.m16n16k8.f32.tf32.tf32.f32",
        Tf32,
        [4, 4, 8, 8],
        Form::Wmma("m16n16k8", ["tf32", "f32"]),
    ),
    wmma(
        "wmma_s8",
        "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32.satfinite",
        Brim,
        [2, 2, 8, 8],
        Form::Wmma("m16n16k16", ["s8", "s32"]),
    ),
    wmma(
        "wmma_u8_wide",
        "wmma.mma.sync.aligned.row.row.m8n32k16.s32.u8.u8.s32",
        Brim,
        [1, 4, 8, 8],
        Form::Wmma("m8n32k16", ["u8", "s32"]),
    ),
    wmma(
        "wmma_s8_tall",
        "wmma.mma.sync.aligned.col.col.m32n8k16.s32.s8.s8.s32",
        Brim,
        [4, 1, 8, 8],
        Form::Wmma("m32n8k16", ["s8", "s32"]),
    ),
    wmma(
        "wmma_s4",
        "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32.satfinite",
        Brim,
        [1, 1, 2, 2],
        Form::Wmma("m8n8k32", ["s4", "s32"]),
    ),
    wmma(
        "wmma_b1",
        "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
        Brim,
        [1, 1, 2, 2],
        Form::Wmma("m8n8k128", ["b1", "s32"]),
    ),
    wmma(
        "wmma_f64",
        "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn",
        F64,
        [1, 1, 2, 2],
        Form::Wmma("m8n8k4", ["f64", "f64"]),
    ),
    wmma(
        "wmma_f64_turned",
        "wmma.mma.sync.aligned.col.row.m8n8k4.f64.f64.f64.f64.rp",
        F64,
        [1, 1, 2, 2],
        Form::Wmma("m8n8k4", ["f64", "f64"]),
    ),
];

/// m, n and k.
fn numbers(shape: &str) -> [usize; 3] {
    let mut all = shape.split(|c: char| !c.is_ascii_digit()).skip(1);
    [(); 3].map(|()| all.next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

impl Variant {
    /// Bytes of a register.
    fn register(&self) -> usize {
        match self.elements {
            F64 => 8,
            _ => 4,
        }
    }

    /// Bytes of one result.
    pub fn result(&self) -> usize {
        match self.halves {
            true => 2,
            false => self.register(),
        }
    }

    pub fn output_bytes(&self) -> usize {
        32 * WARPS * self.register() * self.registers[3]
    }

    pub fn ptx(&self) -> String {
        let [a, b, c, d] = self.registers;
        let size = self.register();
        let bits = 8 * size;
        let mut t = format!(
            "{HEADER}.visible .entry f(.param .u64 pin, .param .u64 pout)\n{{\n\
             .reg .b{bits} %a<8>, %b<8>, %c<8>, %d<8>;\n.reg .b32 %t, %g;\n.reg .b64 %in, %out, %o;\n\
             ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\n\
             mov.u32 %g, %ctaid.x;\n"
        );
        let names = |letter: char, n: usize| -> String {
            let all: Vec<String> = (0..n).map(|k| format!("%{letter}{k}")).collect();
            format!("{{{}}}", all.join(", "))
        };
        let multiply = format!(
            "{} {}, {}, {}, {};\n",
            self.op,
            names('d', d),
            names('a', a),
            names('b', b),
            names('c', c)
        );
        match self.form {
            Form::Mma => {
                let _ = write!(
                    t,
                    "mad.lo.u32 %t, %g, 32, %t;\nmul.wide.u32 %o, %t, {};\nadd.s64 %in, %in, %o;\n\
                     mul.wide.u32 %o, %t, {};\nadd.s64 %out, %out, %o;\n",
                    size * (a + b + c),
                    size * d
                );
                let mut at = 0;
                for (letter, n) in [('a', a), ('b', b), ('c', c)] {
                    for k in 0..n {
                        let _ = writeln!(t, "ld.global.b{bits} %{letter}{k}, [%in+{at}];");
                        at += size;
                    }
                }
                t += &multiply;
                for k in 0..d {
                    let _ = writeln!(t, "st.global.b{bits} [%out+{}], %d{k};", size * k);
                }
            }
            Form::Wmma(shape, [ab, cd]) => {
                let [m, n, k] = numbers(shape);
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
            }
        }
        t + "ret;\n}\n"
    }

    /// Warp by warp: normal deviates; then wild exponents, NaNs left out; the last eighth any bits.
    pub fn input(&self) -> Vec<u8> {
        let mut random = Random::new(17);
        let [a, b, c, _] = self.registers;
        let mut bytes = Vec::new();
        match self.form {
            Form::Mma => {
                for lane in 0..32 * WARPS {
                    for register in 0..a + b + c {
                        self.word(
                            &mut random,
                            lane / 32 * 8 / WARPS,
                            register >= a + b,
                            &mut bytes,
                        );
                    }
                }
            }
            Form::Wmma(..) => {
                for warp in 0..WARPS {
                    for word in 0..32 * (a + b + c) {
                        self.word(
                            &mut random,
                            warp * 8 / WARPS,
                            word >= 32 * (a + b),
                            &mut bytes,
                        );
                    }
                }
            }
        }
        bytes
    }

    /// One register's worth of elements, of C where `sum`.
    fn word(&self, random: &mut Random, kind: usize, sum: bool, bytes: &mut Vec<u8>) {
        let wild = |random: &mut Random, by: usize| match kind {
            4.. => 2.0_f32.powi(random.below(by) as i32 - by as i32 / 2),
            _ => 1.0,
        };
        let word: u32 = match (kind, self.elements, sum) {
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
            (4.., Brim, true) => {
                let far = i32::MAX as u32 - random.below(1 << 16) as u32;
                if random.chance(50) { far } else { !far }
            }
            (_, Any | Brim, _) => random.next() as u32,
            (4.., _, true) if !self.halves => {
                let exponent = 107 + random.below(40) as u32;
                (random.next() as u32 & 0x807f_ffff) | exponent << 23
            }
            (_, _, true) if !self.halves => random.normal().to_bits(),
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

fn pair(random: &mut Random, mut of: impl FnMut(&mut Random) -> u16) -> u32 {
    u32::from(of(random)) | u32::from(of(random)) << 16
}

fn eight(random: &mut Random, mut of: impl FnMut(&mut Random) -> u8) -> u32 {
    (0..4).fold(0, |w, _| w << 8 | u32::from(of(random)))
}
