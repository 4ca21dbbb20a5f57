//! `descriptors`: which bytes of shared memory a `wgmma` multiplies, by descriptors with random fields. The matrices
//! hold small integers, whose sums are exact, so that each wrong byte shows.

use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::sweep::{HEADER_A, hash};
use crate::words::Random;
use ptxsim::Module;
use std::io::Write;
use std::path::Path;

const BLOCKS: usize = 1024;
const THREADS: usize = 128;
/// The number of columns of matrix B.
const COLUMNS: usize = 32;
/// Bytes of shared memory: more than any of these descriptors leads to.
const BYTES: usize = 48 << 10;
const RESULTS: usize = THREADS * COLUMNS / 2;

struct Product {
    name: &'static str,
    op: &'static str,
    /// Scales, then which matrices are transposed.
    constants: &'static str,
    element: Element,
}

enum Element {
    F16,
    Tf32,
    E4m3,
    Byte,
}

#[rustfmt::skip]
const ALL: &[Product] = &[
    Product { name: "f16", op: "m64n32k16.f32.f16.f16", constants: ", 1, 1, 0, 0", element: Element::F16 },
    Product { name: "f16_a_transposed", op: "m64n32k16.f32.f16.f16", constants: ", 1, 1, 1, 0", element: Element::F16 },
    Product { name: "f16_b_transposed", op: "m64n32k16.f32.f16.f16", constants: ", 1, 1, 0, 1", element: Element::F16 },
    Product { name: "f16_minus", op: "m64n32k16.f32.f16.f16", constants: ", -1, 1, 1, 1", element: Element::F16 },
    Product { name: "tf32", op: "m64n32k8.f32.tf32.tf32", constants: ", 1, 1", element: Element::Tf32 },
    Product { name: "e4m3", op: "m64n32k32.f32.e4m3.e4m3", constants: ", 1, -1", element: Element::E4m3 },
    Product { name: "s8", op: "m64n32k32.s32.s8.s8", constants: "", element: Element::Byte },
];

/// Builds a descriptor relative to the start of shared memory (PTX ISA, "Matrix descriptor").
fn descriptor(random: &mut Random) -> u64 {
    let swizzle = random.below(4) as u64;
    let (start, first_line) = match random.below(4) {
        // Libraries put matrices at a multiple of the pattern, some columns further on.
        0 | 1 => (1024 * random.below(2) + 32 * random.below(4), 0),
        2 => (16 * random.below(128), 0),
        _ => (16 * random.below(128), random.below(8)),
    };
    let (leading, stride) = (random.below(129) as u64, random.below(193) as u64);
    swizzle << 62 | (first_line as u64) << 49 | stride << 32 | leading << 16 | start as u64 >> 4
}

fn descriptors() -> Vec<[u64; 2]> {
    let mut random = Random::new(29);
    let mut all = Vec::new();
    all.resize_with(BLOCKS, || [(); 2].map(|()| descriptor(&mut random)));
    all
}

fn contents(p: &Product) -> Vec<u8> {
    let mut random = Random::new(31);
    let mut bytes = Vec::with_capacity(BYTES);
    while bytes.len() < BYTES {
        let integer = random.below(17) as f32 - 8.0;
        match p.element {
            Element::F16 => bytes.extend(half::f16::from_f32(integer).to_le_bytes()),
            Element::Tf32 => bytes.extend(integer.to_le_bytes()),
            Element::E4m3 => bytes.push(float8::F8E4M3::from_f32(integer).to_bits()),
            Element::Byte => bytes.push(random.below(256) as u8),
        }
    }
    bytes
}

fn ptx(p: &Product) -> String {
    let sums: Vec<String> = (0..COLUMNS / 2).map(|k| format!("%x{k}")).collect();
    let mut t = format!(
        "{HEADER_A}.extern .shared .align 1024 .b8 s[];\n\
         .visible .entry f(.param .u64 pin, .param .u64 pdesc, .param .u64 pout)\n{{\n\
         .reg .b32 %t, %g, %s, %w, %n, %x<{COLUMNS}>;\n.reg .b64 %in, %desc, %out, %o, %a, %b;\n.reg .pred %p;\n\
         ld.param.u64 %in, [pin];\nld.param.u64 %desc, [pdesc];\nld.param.u64 %out, [pout];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %g, %ctaid.x;\nmov.u32 %s, s;\n\
         mul.wide.u32 %o, %t, 16;\nadd.s64 %in, %in, %o;\nmad.lo.u32 %w, %t, 16, %s;\nmov.u32 %n, 0;\n\
         more:\nld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%in];\n\
         st.shared.v4.b32 [%w], {{%x0, %x1, %x2, %x3}};\nadd.s64 %in, %in, {step};\nadd.u32 %w, %w, {step};\n\
         add.u32 %n, %n, {step};\nsetp.lt.u32 %p, %n, {BYTES};\n@%p bra more;\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n\
         mul.wide.u32 %o, %g, 16;\nadd.s64 %desc, %desc, %o;\nld.global.v2.b64 {{%a, %b}}, [%desc];\n\
         shr.u32 %s, %s, 4;\ncvt.u64.u32 %o, %s;\nadd.s64 %a, %a, %o;\nadd.s64 %b, %b, %o;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.{op} {{{sums}}}, %a, %b, %p{constants};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
         mad.lo.u32 %t, %g, {THREADS}, %t;\nmul.wide.u32 %o, %t, {own};\nadd.s64 %out, %out, %o;\n",
        step = 16 * THREADS,
        op = p.op,
        sums = sums.join(", "),
        constants = p.constants,
        own = 4 * sums.len(),
    );
    for (k, sum) in sums.iter().enumerate() {
        t += &format!("st.global.b32 [%out+{}], {sum};\n", 4 * k);
    }
    t + "ret;\n}\n"
}

pub fn named(name: &str) -> Option<String> {
    ALL.iter().find(|p| p.name == name).map(ptx)
}

fn simulate(p: &Product) -> Result<Vec<u8>> {
    let module = Module::load(&ptx(p))?;
    let (out, report) = with_job(p, |job| job.on_sim(module.kernel("f")?))?;
    match report.findings.first() {
        Some(f) => Err(format!("{}: {f:?}", p.name).into()),
        None => Ok(out.concat()),
    }
}

fn with_job<T>(p: &Product, run: impl FnOnce(&Job) -> Result<T>) -> Result<T> {
    let contents = contents(p);
    let all = descriptors();
    let fields: Vec<u8> = all.iter().flatten().flat_map(|d| d.to_le_bytes()).collect();
    run(&Job {
        entry: "f",
        shape: Shape {
            grid: [BLOCKS as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            dynamic_shared: BYTES as u32,
            cluster: None,
        },
        args: vec![
            Arg::In(&contents),
            Arg::In(&fields),
            Arg::Out(4 * RESULTS * BLOCKS),
        ],
    })
}

fn line(p: &Product, words: &[u8]) -> String {
    format!("{} {:016x}\n", p.name, hash(words))
}

/// Prints the descriptors whose products differ, and writes a hash of the GPU's results for each product to `hashes`.
/// Returns true if nothing differs.
pub fn run(gpu: &Gpu, hashes: Option<&Path>, out: &mut dyn Write) -> Result<bool> {
    let (mut lines, mut same) = (String::new(), true);
    for p in ALL {
        let module = gpu.load(&ptx(p))?;
        let theirs = with_job(p, |job| job.on_gpu(gpu, &module))?.concat();
        same &= report(p, &theirs, &simulate(p)?, out)?;
        lines += &line(p, &theirs);
    }
    if let Some(path) = hashes {
        std::fs::write(path, lines)?;
    }
    Ok(same)
}

fn report(p: &Product, theirs: &[u8], ours: &[u8], out: &mut dyn Write) -> Result<bool> {
    let each = 4 * RESULTS;
    let blocks = theirs.chunks(each).zip(ours.chunks(each));
    let differing: Vec<_> = descriptors()
        .into_iter()
        .zip(blocks)
        .filter(|(_, (g, s))| g != s)
        .collect();
    writeln!(
        out,
        "{}: {} of {BLOCKS} pairs of descriptors differ",
        p.name,
        differing.len()
    )?;
    for (pair, (g, s)) in differing.iter().step_by((differing.len() / 16).max(1)) {
        let wrong = g.chunks(4).zip(s.chunks(4)).filter(|(g, s)| g != s).count();
        write!(out, "    {wrong} of {RESULTS}:")?;
        for (name, d) in ["A", "B"].into_iter().zip(pair) {
            write!(
                out,
                " {name} swizzle {} first line {} start {:#x} leading {:#x} stride {:#x}",
                d >> 62,
                d >> 49 & 7,
                (d & 0x3fff) << 4,
                (d >> 16 & 0x3fff) << 4,
                (d >> 32 & 0x3fff) << 4
            )?;
        }
        writeln!(out)?;
    }
    Ok(differing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of an H200 (CALIBRATION.md of ptxsim), and that one bit more is seen.
    #[test]
    fn descriptors_lead_where_they_lead_on_a_gpu() {
        let hashes = include_str!("../fixtures/descriptors.hashes");
        assert_eq!(hashes.lines().count(), ALL.len());
        for (p, there) in ALL.iter().zip(hashes.lines()) {
            let ours = simulate(p).unwrap_or_else(|e| panic!("{}: {e}", p.name));
            assert_eq!(line(p, &ours).trim_end(), there);
            let mut theirs = ours.clone();
            theirs[77] ^= 4;
            let mut out = Vec::new();
            assert!(!report(p, &theirs, &ours, &mut out).unwrap());
            assert!(report(p, &ours, &ours, &mut out).unwrap());
        }
    }
}
