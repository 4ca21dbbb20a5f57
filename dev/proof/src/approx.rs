//! `approx`: the functions that PTX lets a GPU approximate, over every exponent: how far the GPU and
//! ptxsim are from the exact value and from each other.

use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::sweep::HEADER;
use crate::words::Random;
use ptxsim::Module;
use rayon::prelude::*;
use std::io::Write;

/// Samples in one launch, and launches.
const LANES: usize = 1 << 20;
const LAUNCHES: usize = 1 << 4;

struct Function {
    op: &'static str,
    format: Format,
    exact: fn(f64, f64) -> f64,
    operands: usize,
    ftz: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    F16,
    Bf16,
    F32,
    /// The upper word of an f64: the lower one is random in the operand, and zero in the result.
    Upper,
}

impl Format {
    fn value(self, bits: u32) -> f64 {
        match self {
            Format::F16 => half::f16::from_bits(bits as u16).to_f64(),
            Format::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
            Format::F32 => f64::from(f32::from_bits(bits)),
            Format::Upper => f64::from_bits(u64::from(bits) << 32),
        }
    }

    /// Returns the distance between neighbours at `x`.
    fn ulp(self, x: f64) -> f64 {
        let (fraction, least) = match self {
            Format::F16 => (10, -14),
            Format::Bf16 => (7, -126),
            Format::F32 => (23, -126),
            Format::Upper => (20, -1022),
        };
        let exponent = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
        2.0_f64.powi(exponent) * 2.0_f64.powi(-fraction)
    }
}

fn functions() -> Vec<Function> {
    let mut all = Vec::new();
    type Exact = fn(f64, f64) -> f64;
    let one: [(&str, Exact); 7] = [
        ("rcp.approx", |x, _| 1.0 / x),
        ("sqrt.approx", |x, _| x.sqrt()),
        ("rsqrt.approx", |x, _| 1.0 / x.sqrt()),
        ("ex2.approx", |x, _| x.exp2()),
        ("lg2.approx", |x, _| x.log2()),
        ("sin.approx", |x, _| x.sin()),
        ("cos.approx", |x, _| x.cos()),
    ];
    let two: [(&str, Exact); 2] = [("div.approx", |x, y| x / y), ("div.full", |x, y| x / y)];
    for ftz in [false, true] {
        for (operands, list) in [(1, &one[..]), (2, &two[..])] {
            for (op, exact) in list {
                let op = format!("{op}{}.f32", if ftz { ".ftz" } else { "" });
                all.push(Function {
                    op: op.leak(),
                    format: Format::F32,
                    exact: *exact,
                    operands,
                    ftz,
                });
            }
        }
    }
    for (op, format, exact) in [
        ("tanh.approx.f32", Format::F32, (|x, _| x.tanh()) as Exact),
        ("ex2.approx.f16", Format::F16, |x, _| x.exp2()),
        ("tanh.approx.f16", Format::F16, |x, _| x.tanh()),
        ("ex2.approx.ftz.bf16", Format::Bf16, |x, _| x.exp2()),
        ("tanh.approx.bf16", Format::Bf16, |x, _| x.tanh()),
        ("rcp.approx.ftz.f64", Format::Upper, |x, _| 1.0 / x),
        ("rsqrt.approx.ftz.f64", Format::Upper, |x, _| 1.0 / x.sqrt()),
    ] {
        all.push(Function {
            op,
            format,
            exact,
            operands: 1,
            ftz: op.contains("ftz"),
        });
    }
    all
}

fn ptx(f: &Function) -> String {
    let (ty, register) = match f.format {
        Format::F32 | Format::Upper => ("b32", "b32"),
        _ => ("b16", "b16"),
    };
    let sources = if f.operands == 2 { "%x, %y" } else { "%x" };
    let compute = match f.format {
        // The lower word of the result would show.
        Format::Upper => format!(
            ".reg .b64 %wide;\nmov.b64 %wide, {{%y, %x}};\n{} %wide, %wide;\n\
             mov.b64 {{%y, %z}}, %wide;\nor.b32 %z, %z, %y;",
            f.op
        ),
        _ => format!("{} %z, {sources};", f.op),
    };
    format!(
        "{HEADER}.visible .entry f(.param .u64 px, .param .u64 py, .param .u64 pz)\n{{\n\
         .reg .{register} %x, %y, %z;\n.reg .b32 %t, %c, %n;\n.reg .b64 %a, %b, %d, %o;\n\
         ld.param.u64 %a, [px];\nld.param.u64 %b, [py];\nld.param.u64 %d, [pz];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\n\
         mad.lo.u32 %t, %c, %n, %t;\nmul.wide.u32 %o, %t, 4;\nadd.s64 %a, %a, %o;\n\
         add.s64 %b, %b, %o;\nadd.s64 %d, %d, %o;\nld.global.{ty} %x, [%a];\n\
         ld.global.{ty} %y, [%b];\n{compute}\nst.global.{ty} [%d], %z;\nret;\n}}\n"
    )
}

/// The result for a sample of a function.
#[derive(Default)]
struct Bounds {
    samples: usize,
    equal: usize,
    gpu_ulp: (f64, u32),
    sim_ulp: (f64, u32),
    gpu_abs: f64,
    sim_abs: f64,
    /// One is a NaN, an infinity or a zero, or has another sign, where the other is not so.
    class: usize,
    examples: Vec<String>,
}

impl Bounds {
    fn add(&mut self, f: &Function, x: u32, y: u32, gpu: u32, sim: u32) {
        self.samples += 1;
        self.equal += usize::from(gpu == sim);
        let flush = |v: f64| {
            let least = match f.format {
                Format::Upper => f64::MIN_POSITIVE,
                _ => 2.0_f64.powi(-126),
            };
            if f.ftz && v.abs() < least {
                0.0_f64.copysign(v)
            } else {
                v
            }
        };
        let (vx, vy) = (flush(f.format.value(x)), flush(f.format.value(y)));
        let exact = (f.exact)(vx, vy);
        let (g, s) = (f.format.value(gpu), f.format.value(sim));
        let kind = |v: f64| {
            (
                v.is_nan(),
                v.is_infinite(),
                v == 0.0,
                !v.is_nan() && v < 0.0,
            )
        };
        if kind(g) != kind(s) {
            self.class += 1;
            if self.examples.len() < 6 {
                self.examples
                    .push(format!("x {x:08x} y {y:08x} gpu {gpu:08x} sim {sim:08x}"));
            }
            return;
        }
        if !exact.is_finite() || !g.is_finite() {
            return;
        }
        let unit = f.format.ulp(exact);
        for (v, worst) in [(g, &mut self.gpu_ulp), (s, &mut self.sim_ulp)] {
            let apart = (v - exact).abs() / unit;
            if apart > worst.0 {
                *worst = (apart, x);
            }
        }
        // The ISA bounds sin and cos near zero by an absolute error.
        if vx.abs() <= std::f64::consts::PI {
            self.gpu_abs = self.gpu_abs.max((g - exact).abs());
            self.sim_abs = self.sim_abs.max((s - exact).abs());
        }
    }

    fn join(mut self, o: Bounds) -> Bounds {
        let worse = |a: (f64, u32), b: (f64, u32)| if b.0 > a.0 { b } else { a };
        self.samples += o.samples;
        self.equal += o.equal;
        self.class += o.class;
        self.gpu_ulp = worse(self.gpu_ulp, o.gpu_ulp);
        self.sim_ulp = worse(self.sim_ulp, o.sim_ulp);
        self.gpu_abs = self.gpu_abs.max(o.gpu_abs);
        self.sim_abs = self.sim_abs.max(o.sim_abs);
        self.examples.extend(o.examples);
        self.examples.truncate(6);
        self
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
}

fn measure(gpu: &Gpu, f: &Function, launch: usize) -> Result<Bounds> {
    gpu.bind()?;
    let text = ptx(f);
    let module = Module::load(&text)?;
    let kernel = module.kernel("f")?;
    let mut random = Random::new(launch as u64);
    let total = (LANES * LAUNCHES) as u64;
    let x: Vec<u8> = (0..LANES)
        .flat_map(|i| {
            // Evenly over all bit patterns, each time another place between.
            let at = (launch * LANES + i) as u64;
            let bits = (at << 32) / total + random.next() % ((1 << 32) / total);
            (bits as u32).to_le_bytes()
        })
        .collect();
    let y: Vec<u8> = (0..LANES)
        .flat_map(|_| (random.next() as u32).to_le_bytes())
        .collect();
    let x = if matches!(f.format, Format::F32 | Format::Upper) {
        x
    } else {
        (0..LANES as u32)
            .flat_map(|i| (i & 0xffff).to_le_bytes())
            .collect()
    };
    let job = Job {
        entry: "f",
        shape: Shape {
            grid: [LANES as u32 / 256, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            cluster: None,
        },
        args: vec![Arg::In(&x), Arg::In(&y), Arg::Out(4 * LANES)],
    };
    let theirs = job.on_gpu(gpu, &gpu.load(&text)?)?;
    let (ours, _) = job.on_sim(kernel)?;
    let mut bounds = Bounds::default();
    let all = words(&x)
        .zip(words(&y))
        .zip(words(&theirs[0]).zip(words(&ours[0])));
    for ((x, y), (g, s)) in all {
        bounds.add(f, x, y, g, s);
    }
    Ok(bounds)
}

pub fn run(gpu: &Gpu, filter: &str, out: &mut dyn Write) -> Result<bool> {
    writeln!(
        out,
        "| function | samples | equal | GPU max ulp | at | sim max ulp | at | GPU max abs, \\|x\\| <= pi | sim max abs | other class |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    )?;
    for f in functions().into_iter().filter(|f| f.op.contains(filter)) {
        let launches = match f.format {
            Format::F32 | Format::Upper => LAUNCHES,
            _ => 1,
        };
        let bounds = (0..launches)
            .into_par_iter()
            .map(|launch| measure(gpu, &f, launch))
            .try_reduce(Bounds::default, |a, b| Ok(a.join(b)));
        match bounds {
            Err(e) => writeln!(out, "| {} | {e} | | | | | | | | |", f.op)?,
            Ok(b) => {
                writeln!(
                    out,
                    "| {} | {} | {:.2} % | {:.3} | {:08x} | {:.3} | {:08x} | {:.3e} | {:.3e} | {} |",
                    f.op,
                    b.samples,
                    100.0 * b.equal as f64 / b.samples as f64,
                    b.gpu_ulp.0,
                    b.gpu_ulp.1,
                    b.sim_ulp.0,
                    b.sim_ulp.1,
                    b.gpu_abs,
                    b.sim_abs,
                    b.class
                )?;
                for e in b.examples {
                    writeln!(out, "    {e}")?;
                }
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_loads_and_ulps_are_ulps() {
        for f in functions() {
            Module::load(&ptx(&f)).unwrap_or_else(|e| panic!("{}: {e}", f.op));
        }
        assert_eq!(Format::F32.ulp(1.5), f64::from(f32::EPSILON));
        assert_eq!(Format::F16.ulp(0.0), 2.0_f64.powi(-24));
        assert_eq!(Format::Upper.ulp(1.5), 2.0_f64.powi(-20));
        let f = &functions()[0];
        let mut b = Bounds::default();
        b.add(
            f,
            2.0_f32.to_bits(),
            0,
            0.5_f32.to_bits(),
            0.5_f32.next_up().to_bits(),
        );
        assert_eq!(
            (b.equal, b.gpu_ulp.0, b.sim_ulp.0, b.class),
            (0, 0.0, 1.0, 0)
        );
        b.add(f, 2.0_f32.to_bits(), 0, 0, 0.5_f32.to_bits());
        assert_eq!(b.class, 1);
    }
}
