//! `special`: forms that are neither scalar nor matrix products, each in a kernel of its own: 128-bit
//! words, their atomics, atomics of vectors, `movmatrix`, copies that ignore their source. Compares the memory that the
//! GPU leaves with ptxsim's.

use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::sweep::{HEADER, hash};
use crate::words::Random;
use ptxsim::Module;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

const BLOCKS: usize = 64;
/// Bytes that a thread has to itself, in and out.
const EACH: usize = 64;

struct Special {
    name: &'static str,
    /// Between `%in` and `%out`, the thread's own 64 bytes of each; `%t` is its number in the block.
    body: &'static str,
}

const ALL: &[Special] = &[
    Special {
        name: "b128_moves",
        body: "ld.global.b128 %q0, [%in];\nmov.b128 {%d0, %d1}, %q0;\nmov.b128 %q1, {%d1, %d0};\n\
               st.global.b128 [%out], %q1;\nmov.b128 {%w0, %w1, %w2, %w3}, %q0;\n\
               mov.b128 %q2, {%w2, %w0, %w3, %w1};\nst.volatile.global.b128 [%out+16], %q2;\n\
               ld.relaxed.gpu.global.b128 %q3, [%in+16];\nst.global.v2.b64 [%out+32], {%d0, %d1};\n\
               st.release.gpu.global.b128 [%out+48], %q3;",
    },
    Special {
        name: "b128_atomics",
        body: "ld.global.b128 %q0, [%in];\nld.global.b128 %q1, [%in+16];\nst.global.b128 [%out], %q0;\n\
               mov.b128 {%d0, %d1}, %q0;\nand.b32 %w0, %t, 1;\ncvt.u64.u32 %d2, %w0;\n\
               xor.b64 %d1, %d1, %d2;\nmov.b128 %q2, {%d0, %d1};\n\
               atom.global.cas.b128 %q3, [%out], %q2, %q1;\nst.global.b128 [%out+16], %q3;\n\
               ld.global.b128 %q3, [%out];\nst.global.b128 [%out+32], %q3;\n\
               atom.global.exch.b128 %q3, [%out], %q0;\nst.global.b128 [%out+48], %q3;",
    },
    Special {
        name: "shared_b128_atomics",
        body: "ld.global.b128 %q0, [%in];\nld.global.b128 %q1, [%in+16];\n\
               mov.u32 %w0, s;\nmad.lo.u32 %w0, %t, 16, %w0;\nst.shared.b128 [%w0], %q0;\n\
               mov.b128 {%d0, %d1}, %q0;\nand.b32 %w1, %t, 1;\ncvt.u64.u32 %d2, %w1;\n\
               xor.b64 %d0, %d0, %d2;\nmov.b128 %q2, {%d0, %d1};\n\
               atom.shared.cas.b128 %q3, [%w0], %q2, %q1;\nst.global.b128 [%out], %q3;\n\
               atom.shared.exch.b128 %q3, [%w0], %q0;\nst.global.b128 [%out+16], %q3;\n\
               ld.shared.b128 %q3, [%w0];\nst.global.b128 [%out+32], %q3;",
    },
    // Words of f32 of every kind: NaNs, subnormals, infinities.
    Special {
        name: "f32_vector_sums",
        body: "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%in];\nld.global.v4.b32 {%w4, %w5, %w6, %w7}, [%in+16];\n\
               st.global.v4.b32 [%out], {%w0, %w1, %w2, %w3};\n\
               atom.global.add.v4.f32 {%w8, %w9, %w10, %w11}, [%out], {%w4, %w5, %w6, %w7};\n\
               st.global.v4.b32 [%out+16], {%w8, %w9, %w10, %w11};\n\
               st.global.v2.b32 [%out+32], {%w0, %w2};\n\
               red.global.add.v2.f32 [%out+32], {%w6, %w7};",
    },
    Special {
        name: "half_vector_sums",
        body: "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%in];\nld.global.v4.b32 {%w4, %w5, %w6, %w7}, [%in+16];\n\
               st.global.v4.b32 [%out], {%w0, %w1, %w2, %w3};\nst.global.v4.b32 [%out+16], {%w0, %w1, %w2, %w3};\n\
               atom.global.add.noftz.v4.f16x2 {%w8, %w9, %w10, %w11}, [%out], {%w4, %w5, %w6, %w7};\n\
               atom.global.add.noftz.v4.bf16x2 {%w8, %w9, %w10, %w11}, [%out+16], {%w4, %w5, %w6, %w7};\n\
               st.global.v4.b32 [%out+32], {%w8, %w9, %w10, %w11};",
    },
    Special {
        name: "ignored_copies",
        body: "and.b32 %w0, %t, 3;\nsetp.ne.u32 %p0, %w0, 0;\nmov.u32 %w1, s;\n\
               mad.lo.u32 %w1, %t, 16, %w1;\ncp.async.cg.shared.global [%w1], [%in], 16, %p0;\n\
               cp.async.wait_all;\nld.shared.b128 %q0, [%w1];\nst.global.b128 [%out], %q0;\n\
               cp.async.ca.shared.global [%w1], [%in+16], 8, %p0;\n\
               cp.async.wait_all;\nld.shared.b128 %q0, [%w1];\nst.global.b128 [%out+16], %q0;",
    },
    Special {
        name: "movmatrix",
        body: "ld.global.b32 %w0, [%in];\nmovmatrix.sync.aligned.m8n8.trans.b16 %w1, %w0;\n\
               st.global.b32 [%out], %w1;",
    },
];

fn ptx(s: &Special) -> String {
    let mut t = format!(
        "{HEADER}.visible .entry f(.param .u64 pin, .param .u64 pout)\n{{\n\
         .reg .b32 %w<12>, %t, %c;\n.reg .b64 %d<4>, %in, %out, %o;\n.reg .b128 %q<4>;\n.reg .pred %p<1>;\n\
         .shared .align 16 .b8 s[512];\nld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nmad.lo.u32 %c, %c, 32, %t;\n\
         mul.wide.u32 %o, %c, {EACH};\nadd.s64 %in, %in, %o;\nadd.s64 %out, %out, %o;\n"
    );
    let _ = writeln!(t, "{}\nret;\n}}", s.body);
    t
}

pub fn named(name: &str) -> Option<String> {
    ALL.iter().find(|s| s.name == name).map(ptx)
}

fn input() -> Vec<u8> {
    let mut random = Random::new(23);
    let words = 0..BLOCKS * 32 * EACH / 4;
    words.flat_map(|_| random.word32().to_le_bytes()).collect()
}

fn job(input: &[u8]) -> Job<'_> {
    Job {
        entry: "f",
        shape: Shape {
            grid: [BLOCKS as u32, 1, 1],
            block: [32, 1, 1],
            dynamic_shared: 0,
        },
        args: vec![Arg::In(input), Arg::Out(BLOCKS * 32 * EACH)],
    }
}

fn simulate(s: &Special, input: &[u8]) -> Result<Vec<u8>> {
    let module = Module::load(&ptx(s))?;
    let kernel = module.kernel("f")?;
    let (out, report) = job(input).on_sim(kernel)?;
    match report.findings.first() {
        Some(f) => Err(format!("{}: {f:?}", s.name).into()),
        None => Ok(out.concat()),
    }
}

fn line(s: &Special, words: &[u8]) -> String {
    format!("{} {:016x}\n", s.name, hash(words))
}

/// Prints which words differ; a hash of the GPU's for each form goes to `hashes`. True where nothing
/// differs.
pub fn run(gpu: &Gpu, hashes: Option<&Path>, out: &mut dyn Write) -> Result<bool> {
    let input = input();
    let (mut lines, mut same) = (String::new(), true);
    for s in ALL {
        let theirs = job(&input).on_gpu(gpu, &gpu.load(&ptx(s))?)?.concat();
        same &= report(s, &theirs, &simulate(s, &input)?, out)?;
        lines += &line(s, &theirs);
    }
    if let Some(path) = hashes {
        std::fs::write(path, lines)?;
    }
    Ok(same)
}

fn report(s: &Special, theirs: &[u8], ours: &[u8], out: &mut dyn Write) -> Result<bool> {
    let differing: Vec<_> = theirs
        .chunks(4)
        .zip(ours.chunks(4))
        .enumerate()
        .filter(|(_, (g, s))| g != s)
        .collect();
    writeln!(
        out,
        "{}: {} of {} words differ",
        s.name,
        differing.len(),
        ours.len() / 4
    )?;
    for (at, (g, s)) in differing.iter().step_by((differing.len() / 8).max(1)) {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0_u32, |w, &b| w << 8 | u32::from(b))
        };
        let (lane, byte) = (at * 4 / EACH, at * 4 % EACH);
        writeln!(
            out,
            "    thread {lane} byte {byte}: gpu {:08x} sim {:08x}",
            number(g),
            number(s)
        )?;
    }
    Ok(differing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hashes are those of an H200's results.
    #[test]
    fn specials_are_those_of_the_gpu() {
        let hashes = include_str!("../fixtures/special.hashes");
        let input = input();
        assert_eq!(hashes.lines().count(), ALL.len());
        for (s, there) in ALL.iter().zip(hashes.lines()) {
            assert_eq!(line(s, &simulate(s, &input).unwrap()).trim_end(), there);
        }
    }

    #[test]
    fn specials_run_clean_and_one_bit_is_a_difference() {
        let input = input();
        for s in ALL {
            let ours = simulate(s, &input).unwrap_or_else(|e| panic!("{}: {e}", s.name));
            let mut theirs = ours.clone();
            theirs[5] ^= 1;
            let mut out = Vec::new();
            assert!(report(s, &ours, &ours, &mut out).unwrap());
            assert!(!report(s, &theirs, &ours, &mut out).unwrap());
        }
    }
}
