//! `mma`: matrix instructions on random fragments, some of wildly different exponents: what the
//! tensor cores add up and what ptxsim does.

use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::sweep::HEADER;
use crate::words::Random;
use ptxsim::Module;
use rayon::prelude::*;
use std::fmt::Write as _;
use std::io::Write;

const WARPS: usize = 512;

#[derive(Clone, Copy)]
enum Elements {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
}

pub struct Variant {
    pub name: &'static str,
    op: &'static str,
    elements: Elements,
    /// Registers of a, b, c and d.
    registers: [usize; 4],
    halves: bool,
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "f16_k16",
        op: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        elements: Elements::F16,
        registers: [4, 2, 4, 4],
        halves: false,
    },
    Variant {
        name: "f16_k8",
        op: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        elements: Elements::F16,
        registers: [2, 1, 4, 4],
        halves: false,
    },
    Variant {
        name: "f16_k16_to_f16",
        op: "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        elements: Elements::F16,
        registers: [4, 2, 2, 2],
        halves: true,
    },
    Variant {
        name: "bf16_k16",
        op: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        elements: Elements::Bf16,
        registers: [4, 2, 4, 4],
        halves: false,
    },
    Variant {
        name: "tf32_k8",
        op: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        elements: Elements::Tf32,
        registers: [4, 2, 4, 4],
        halves: false,
    },
    Variant {
        name: "e4m3_k32",
        op: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        elements: Elements::E4m3,
        registers: [4, 2, 4, 4],
        halves: false,
    },
    Variant {
        name: "e5m2_k32",
        op: "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32",
        elements: Elements::E5m2,
        registers: [4, 2, 4, 4],
        halves: false,
    },
    Variant {
        name: "s8_k32",
        op: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        elements: Elements::S8,
        registers: [4, 2, 4, 4],
        halves: false,
    },
];

fn ptx(v: &Variant) -> String {
    let [a, b, c, d] = v.registers;
    let mut t = format!(
        "{HEADER}.visible .entry f(.param .u64 pin, .param .u64 pout)\n{{\n\
         .reg .b32 %a<4>, %b<2>, %c<4>, %d<4>, %t;\n.reg .b64 %in, %out, %o;\n\
         ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\n\
         .reg .b32 %g;\nmov.u32 %g, %ctaid.x;\nmad.lo.u32 %t, %g, 32, %t;\n\
         mul.wide.u32 %o, %t, {};\nadd.s64 %in, %in, %o;\nmul.wide.u32 %o, %t, {};\n\
         add.s64 %out, %out, %o;\n",
        4 * (a + b + c),
        4 * d
    );
    let mut at = 0;
    let names = |letter: char, n: usize| -> String {
        let all: Vec<String> = (0..n).map(|k| format!("%{letter}{k}")).collect();
        format!("{{{}}}", all.join(", "))
    };
    for (letter, n) in [('a', a), ('b', b), ('c', c)] {
        for k in 0..n {
            let _ = writeln!(t, "ld.global.b32 %{letter}{k}, [%in+{at}];");
            at += 4;
        }
    }
    let _ = writeln!(
        t,
        "{} {}, {}, {}, {};",
        v.op,
        names('d', d),
        names('a', a),
        names('b', b),
        names('c', c)
    );
    for k in 0..d {
        let _ = writeln!(t, "st.global.b32 [%out+{}], %d{k};", 4 * k);
    }
    t + "ret;\n}\n"
}

/// Warp by warp: normal deviates; then wild exponents, NaNs left out; the last eighth any bits.
fn input(v: &Variant) -> Vec<u8> {
    let mut random = Random::new(17);
    let [a, b, c, _] = v.registers;
    let mut bytes = Vec::new();
    for lane in 0..32 * WARPS {
        let kind = lane / 32 * 8 / WARPS;
        for register in 0..a + b + c {
            let sum = register >= a + b;
            let word: u32 = match (kind, v.elements, sum) {
                (7, _, _) => random.word32(),
                (_, Elements::S8, _) => random.next() as u32,
                (4.., _, true) if !v.halves => {
                    let exponent = 107 + random.below(40) as u32;
                    (random.next() as u32 & 0x807f_ffff) | exponent << 23
                }
                (_, _, true) if !v.halves => random.normal().to_bits(),
                (k, Elements::F16, _) => pair(&mut random, |r| {
                    let x = r.normal()
                        * if k >= 4 {
                            2.0_f32.powi(r.below(20) as i32 - 10)
                        } else {
                            1.0
                        };
                    half::f16::from_f32(x).to_bits()
                }),
                (k, Elements::Bf16, _) => pair(&mut random, |r| {
                    let x = r.normal()
                        * if k >= 4 {
                            2.0_f32.powi(r.below(40) as i32 - 20)
                        } else {
                            1.0
                        };
                    half::bf16::from_f32(x).to_bits()
                }),
                (k, Elements::Tf32, _) => {
                    let by = if k >= 4 {
                        2.0_f32.powi(random.below(40) as i32 - 20)
                    } else {
                        1.0
                    };
                    (random.normal() * by).to_bits()
                }
                (k, Elements::E4m3, _) => {
                    eight(&mut random, k, |x| float8::F8E4M3::from_f32(x).to_bits())
                }
                (k, Elements::E5m2, _) => {
                    eight(&mut random, k, |x| float8::F8E5M2::from_f32(x).to_bits())
                }
            };
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

fn pair(random: &mut Random, mut of: impl FnMut(&mut Random) -> u16) -> u32 {
    u32::from(of(random)) | u32::from(of(random)) << 16
}

fn eight(random: &mut Random, kind: usize, of: impl Fn(f32) -> u8) -> u32 {
    (0..4).fold(0, |w, _| {
        let by = if kind >= 4 {
            2.0_f32.powi(random.below(14) as i32 - 7)
        } else {
            1.0
        };
        w << 8 | u32::from(of(random.normal() * by))
    })
}

/// Prints how often the results are equal; writes the GPU's words to `dump`.
pub fn run(gpu: &Gpu, dump: Option<&std::path::Path>, out: &mut dyn Write) -> Result<bool> {
    let rows: Vec<Result<(Vec<u8>, Vec<u8>)>> = VARIANTS
        .par_iter()
        .map(|v| {
            gpu.bind()?;
            let (text, input) = (ptx(v), input(v));
            let job = job(v, &input);
            let theirs = job.on_gpu(gpu, &gpu.load(&text)?)?.concat();
            Ok((theirs, simulate(v)?))
        })
        .collect();
    let mut all = Vec::new();
    for (v, row) in VARIANTS.iter().zip(rows) {
        let (theirs, ours) = row?;
        report(v, &theirs, &ours, out)?;
        all.extend(theirs);
    }
    if let Some(path) = dump {
        std::fs::write(path, all)?;
    }
    Ok(true)
}

/// ptxsim against what `run` dumped on a GPU.
pub fn check(dump: &std::path::Path, out: &mut dyn Write) -> Result<bool> {
    let all = std::fs::read(dump)?;
    let mut at = 0;
    for v in VARIANTS {
        let ours = simulate(v)?;
        report(v, &all[at..at + ours.len()], &ours, out)?;
        at += ours.len();
    }
    Ok(true)
}

fn job<'a>(v: &Variant, input: &'a [u8]) -> Job<'a> {
    Job {
        entry: "f",
        shape: Shape {
            grid: [WARPS as u32, 1, 1],
            block: [32, 1, 1],
            dynamic_shared: 0,
        },
        args: vec![Arg::In(input), Arg::Out(32 * WARPS * 4 * v.registers[3])],
    }
}

fn simulate(v: &Variant) -> Result<Vec<u8>> {
    let (text, input) = (ptx(v), input(v));
    let module = Module::load(&text)?;
    let kernel = module.kernel("f")?;
    Ok(job(v, &input).on_sim(kernel)?.0.concat())
}

fn report(v: &Variant, theirs: &[u8], ours: &[u8], out: &mut dyn Write) -> Result<()> {
    let size = if v.halves { 2 } else { 4 };
    let per_kind = theirs.len() / 8;
    write!(out, "{}: equal in", v.name)?;
    for kind in 0..8 {
        let part = kind * per_kind..(kind + 1) * per_kind;
        let pairs = theirs[part.clone()]
            .chunks(size)
            .zip(ours[part].chunks(size));
        let equal = pairs.clone().filter(|(g, s)| g == s).count();
        write!(out, " {equal}/{}", pairs.count())?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an H100 computed (CALIBRATION.md of ptxsim).
    #[test]
    fn products_are_those_of_the_gpu() {
        let hashes = include_str!("../fixtures/mma.hashes");
        assert_eq!(hashes.lines().count(), VARIANTS.len());
        for (v, line) in VARIANTS.iter().zip(hashes.lines()) {
            let words = simulate(v).unwrap_or_else(|e| panic!("{}: {e}", v.name));
            let ours = format!("{} {:016x}", v.name, crate::sweep::hash(&words));
            assert_eq!(ours, line);
        }
    }
}
