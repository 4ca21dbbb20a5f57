//! `mma`: matrix instructions on random fragments, some of wildly different exponents: what the
//! tensor cores add up and what ptxsim does. Which they are is in `products`.

use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::products::{VARIANTS, Variant, WARPS};
use ptxsim::Module;
use rayon::prelude::*;
use std::io::Write;
use std::path::Path;

/// Prints how often the results are equal; writes the GPU's words to `dump`, and a hash of them for
/// each instruction to `hashes`. True where nothing differs.
pub fn run(
    gpu: &Gpu,
    dump: Option<&Path>,
    hashes: Option<&Path>,
    out: &mut dyn Write,
) -> Result<bool> {
    let rows: Vec<Result<(Vec<u8>, Vec<u8>)>> = VARIANTS
        .par_iter()
        .map(|v| {
            gpu.bind()?;
            let (text, input) = (v.ptx(), v.input());
            let job = job(v, &input);
            let theirs = job.on_gpu(gpu, &gpu.load(&text)?)?.concat();
            Ok((theirs, simulate(v)?))
        })
        .collect();
    let (mut all, mut lines, mut same) = (Vec::new(), String::new(), true);
    for (v, row) in VARIANTS.iter().zip(rows) {
        let (theirs, ours) = row?;
        same &= report(v, &theirs, &ours, out)?;
        lines += &line(v, &theirs);
        all.extend(theirs);
    }
    if let Some(path) = dump {
        std::fs::write(path, all)?;
    }
    if let Some(path) = hashes {
        std::fs::write(path, lines)?;
    }
    Ok(same)
}

fn line(v: &Variant, words: &[u8]) -> String {
    format!("{} {:016x}\n", v.name, crate::sweep::hash(words))
}

/// Compares ptxsim with what `run` dumped on a GPU.
pub fn check(dump: &Path, out: &mut dyn Write) -> Result<bool> {
    let all = std::fs::read(dump)?;
    let (mut rest, mut same) = (all.as_slice(), true);
    for v in VARIANTS {
        let ours = simulate(v)?;
        let Some((theirs, more)) = rest.split_at_checked(ours.len()) else {
            return Err(format!("this dump ends before {}", v.name).into());
        };
        same &= report(v, theirs, &ours, out)?;
        rest = more;
    }
    Ok(same)
}

fn job<'a>(v: &Variant, input: &'a [u8]) -> Job<'a> {
    Job {
        entry: "f",
        shape: Shape {
            grid: [(32 * WARPS / v.threads()) as u32, 1, 1],
            block: [v.threads() as u32, 1, 1],
            dynamic_shared: 0,
            cluster: None,
        },
        args: vec![Arg::In(input), Arg::Out(v.output_bytes())],
    }
}

fn simulate(v: &Variant) -> Result<Vec<u8>> {
    let (text, input) = (v.ptx(), v.input());
    let module = Module::load(&text)?;
    let kernel = module.kernel("f")?;
    Ok(job(v, &input).on_sim(kernel)?.0.concat())
}

fn report(v: &Variant, theirs: &[u8], ours: &[u8], out: &mut dyn Write) -> Result<bool> {
    let size = v.result();
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
    let differing: Vec<_> = theirs
        .chunks(size)
        .zip(ours.chunks(size))
        .enumerate()
        .filter(|(_, (g, s))| g != s)
        .collect();
    // From the start to the end: different kinds of operands.
    for (at, (g, s)) in differing.iter().step_by((differing.len() / 8).max(1)) {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0_u64, |w, &b| w << 8 | u64::from(b))
        };
        writeln!(
            out,
            "    result {at}: gpu {:x} sim {:x}",
            number(g),
            number(s)
        )?;
    }
    Ok(differing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of GPUs (CALIBRATION.md of ptxsim), and that one bit more is seen.
    #[test]
    fn products_are_those_of_the_gpu() {
        let hashes = include_str!("../fixtures/mma.hashes");
        assert_eq!(hashes.lines().count(), VARIANTS.len());
        for (v, there) in VARIANTS.iter().zip(hashes.lines()) {
            let ours = simulate(v).unwrap_or_else(|e| panic!("{}: {e}", v.name));
            assert_eq!(line(v, &ours).trim_end(), there);
            let mut theirs = ours.clone();
            theirs[77] ^= 4;
            let mut out = Vec::new();
            assert!(!report(v, &theirs, &ours, &mut out).unwrap());
            assert!(report(v, &ours, &ours, &mut out).unwrap());
        }
    }
}
