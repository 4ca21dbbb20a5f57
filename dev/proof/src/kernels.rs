//! `kernels`: every kernel of the repository on the GPU and in ptxsim, from the same PTX and the same
//! inputs: equal bits, or how far apart.

use crate::cases::{self, Element};
use crate::gpu::{Gpu, Result};
use ptxsim::Module;
use rayon::prelude::*;
use std::io::Write;
use std::path::Path;

struct Distance {
    elements: usize,
    different: usize,
    max_abs: f64,
    max_ulp: u64,
}

/// Returns how many steps of a float format with `bits` bits are between two of its codes.
fn ulps(a: u32, b: u32, bits: u32) -> u64 {
    // These numbers have the order of the values.
    let place = |x: u32| {
        let magnitude = i64::from(x & ((1 << (bits - 1)) - 1));
        if x >> (bits - 1) == 0 {
            magnitude
        } else {
            -magnitude
        }
    };
    place(a).abs_diff(place(b))
}

fn distance(theirs: &[u8], ours: &[u8], element: Element) -> Distance {
    let mut d = Distance {
        elements: 0,
        different: 0,
        max_abs: 0.0,
        max_ulp: 0,
    };
    let size = if element == Element::F16 { 2 } else { 4 };
    for (g, s) in theirs.chunks_exact(size).zip(ours.chunks_exact(size)) {
        d.elements += 1;
        if g == s {
            continue;
        }
        d.different += 1;
        let word = |b: &[u8]| b.iter().rev().fold(0, |w, &b| w << 8 | u32::from(b));
        let (g, s) = (word(g), word(s));
        let value = |x: u32| match element {
            Element::F16 => half::f16::from_bits(x as u16).to_f64(),
            _ => f64::from(f32::from_bits(x)),
        };
        let apart = (value(g) - value(s)).abs();
        d.max_abs = if apart.is_nan() {
            apart
        } else {
            d.max_abs.max(apart)
        };
        d.max_ulp = d.max_ulp.max(ulps(g, s, 8 * size as u32));
    }
    d
}

pub fn run(gpu: &Gpu, directory: &Path, out: &mut dyn Write) -> Result<bool> {
    let cases = cases::repository();
    let rows: Vec<Result<Distance>> = cases
        .par_iter()
        .map(|case| {
            gpu.bind()?;
            let text = case.ptx(directory)?;
            let ints = case.ints();
            let job = case.job(&ints);
            let theirs = job.on_gpu(gpu, &gpu.load(&text)?)?;
            let module = Module::load(&text)?;
            let kernel = module.kernel(&case.entry)?;
            let (ours, report) = job.on_sim(kernel)?;
            if let Some(f) = report.findings.first() {
                return Err(format!("{}: {f:?}", case.name).into());
            }
            Ok(distance(&theirs[0], &ours[0], case.out))
        })
        .collect();
    writeln!(out, "{}\n", gpu.name())?;
    writeln!(out, "| kernel | elements | different | max abs | max ulp |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (case, row) in cases.iter().zip(rows) {
        match row {
            Ok(d) => writeln!(
                out,
                "| {} | {} | {} | {:.3e} | {} |",
                case.name, d.elements, d.different, d.max_abs, d.max_ulp
            )?,
            Err(e) => writeln!(out, "| {} | {e} | | | |", case.name)?,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let bytes = |x: &[f32]| x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let d = distance(
            &bytes(&[1.0, 2.0, -0.0]),
            &bytes(&[1.0, 2.0_f32.next_up(), f32::from_bits(1)]),
            Element::F32,
        );
        assert_eq!((d.elements, d.different, d.max_ulp), (3, 2, 1));
        assert_eq!(d.max_abs, f64::from(2.0_f32.next_up()) - 2.0);
    }
}
