//! Helpers of the end-to-end tests: fixtures, parameters, seeded inputs, naive references.
#![allow(dead_code)]

pub mod annotations;
pub mod kept;
pub mod matrices;

use ptxsim::{Fault, Kernel, Limits, Memory, Module, Report};

pub fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub fn load(text: &str) -> Module {
    Module::load(text)
        .and_then(Module::complete)
        .unwrap_or_else(|e| panic!("{e}"))
}

#[derive(Clone, Copy)]
pub enum Arg {
    Ptr(u64),
    I32(i32),
}

pub fn params(kernel: &Kernel, args: &[Arg]) -> Vec<u8> {
    let mut bytes = vec![0; kernel.parameter_bytes() as usize];
    let places = kernel.parameters();
    assert_eq!(places.len(), args.len());
    for ((at, size), arg) in places.into_iter().zip(args) {
        let value = match arg {
            Arg::Ptr(p) => p.to_le_bytes().to_vec(),
            Arg::I32(i) => i.to_le_bytes().to_vec(),
        };
        assert_eq!(size as usize, value.len());
        bytes[at as usize..][..value.len()].copy_from_slice(&value);
    }
    bytes
}

/// A small generator: splitmix64, two uniforms to a normal deviate (Box and Muller).
pub struct Random(pub u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the generator as it is after it has given this many numbers.
    pub fn skip(self, numbers: u64) -> Self {
        Random(self.0.wrapping_add(Self::STEP.wrapping_mul(numbers)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f32 {
        let (u, v) = (self.uniform(), self.uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }

    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }
}

pub fn bytes_of(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
        .collect()
}

pub fn put(memory: &mut Memory, name: &str, bytes: &[u8]) -> u64 {
    let p = memory.alloc(name, bytes.len() as u64).unwrap();
    memory.write(p, bytes).unwrap();
    p
}

pub fn limits() -> Limits {
    Limits {
        instructions: 2_000_000_000,
        ..Limits::default()
    }
}

pub fn clean(report: Result<Report, Fault>) -> Report {
    let report = report.unwrap_or_else(|f| panic!("{f}"));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    report
}

/// Launches `kernel(x, y, columns)` with a block for each row, which may raise no finding, and returns the results.
pub fn launch_rows(
    kernel: &Kernel,
    threads: u32,
    x: &[f32],
    columns: usize,
    results: usize,
) -> Vec<f32> {
    let mut memory = Memory::default();
    let from = put(&mut memory, "x", &bytes_of(x));
    let out = memory.alloc("y", 4 * results as u64).unwrap();
    let args = [Arg::Ptr(from), Arg::Ptr(out), Arg::I32(columns as i32)];
    let grid = [(x.len() / columns) as u32, 1, 1];
    let params = params(kernel, &args);
    let block = [threads, 1, 1];
    clean(ptxsim::launch(
        kernel,
        grid,
        block,
        0,
        &params,
        &mut memory,
        limits(),
    ));
    floats(memory.read(out, 4 * results).unwrap())
}

/// Launches `kernel(a, b, c, m, n, k)` with a block for each tile of 64 x 64, which may raise no finding, and returns `c`.
pub fn launch_product(kernel: &Kernel, a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let mut memory = Memory::default();
    let mut args = [("a", a), ("b", b)]
        .map(|(name, values)| Arg::Ptr(put(&mut memory, name, &bytes_of(values))))
        .to_vec();
    let out = memory.alloc("c", 4 * (m * n) as u64).unwrap();
    args.push(Arg::Ptr(out));
    args.extend([m, n, k].map(|size| Arg::I32(size as i32)));
    let grid = [n.div_ceil(64) as u32, m.div_ceil(64) as u32, 1];
    let params = params(kernel, &args);
    let block = [256, 1, 1];
    clean(ptxsim::launch(
        kernel,
        grid,
        block,
        0,
        &params,
        &mut memory,
        limits(),
    ));
    floats(memory.read(out, 4 * m * n).unwrap())
}

/// Computes attention in f64, of q, k, v [heads * s, 64].
pub fn attention(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    heads: usize,
    s: usize,
    causal: bool,
) -> Vec<f64> {
    let mut out = vec![0.0; heads * s * 64];
    for h in 0..heads {
        let row = |x: &[f64], i: usize| -> Vec<f64> { x[(h * s + i) * 64..][..64].to_vec() };
        for i in 0..s {
            let keys = if causal { i + 1 } else { s };
            let qi = row(q, i);
            let scores: Vec<f64> = (0..keys)
                .map(|j| row(k, j).iter().zip(&qi).map(|(a, b)| a * b).sum::<f64>() / 8.0)
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (j, w) in weights.iter().enumerate() {
                for (o, x) in out[(h * s + i) * 64..][..64].iter_mut().zip(row(v, j)) {
                    *o += w / sum * x;
                }
            }
        }
    }
    out
}

/// Returns the seconds that this process has been on processors: on a shared machine the wall clock says little.
pub fn cpu_seconds() -> f64 {
    let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9
}

/// The outcome of a launch of an attention kernel.
pub struct Attention {
    pub report: Result<Report, Fault>,
    /// The largest absolute error against f64.
    pub worst: f64,
    pub output: Vec<u8>,
}

/// An attention kernel, ready to be launched.
pub struct Prepared {
    module: Module,
    memory: Memory,
    params: Vec<u8>,
    grid: [u32; 3],
    shared: u32,
    out: u64,
    /// The values of q, k and v as the kernel is to read them.
    arrays: Vec<Vec<f64>>,
    heads: usize,
    s: usize,
}

impl Prepared {
    /// Launches the kernel. Returns the result, and the processor time that it took.
    pub fn launch(&mut self, limits: Limits) -> (Result<Report, Fault>, f64) {
        let kernel = &self.module.kernels()[0];
        let start = cpu_seconds();
        let report = ptxsim::launch(
            kernel,
            self.grid,
            [256, 1, 1],
            self.shared,
            &self.params,
            &mut self.memory,
            limits,
        );
        (report, cpu_seconds() - start)
    }

    fn compare(
        mut self,
        limits: Limits,
        causal: bool,
        bytes: usize,
        value: impl Fn(&[u8]) -> f64,
    ) -> Attention {
        let report = self.launch(limits).0;
        let n = bytes * self.heads * self.s * 64;
        let output = self.memory.read(self.out, n).unwrap().to_vec();
        let [q, k, v] = [0, 1, 2].map(|i| &self.arrays[i][..]);
        let want = attention(q, k, v, self.heads, self.s, causal);
        let worst = output
            .chunks_exact(bytes)
            .zip(&want)
            .map(|(g, w)| (value(g) - w).abs())
            .fold(0.0, |a, b| if b.is_nan() { b } else { f64::max(a, b) });
        Attention {
            report,
            worst,
            output,
        }
    }
}

/// Prepares a launch of `sdpa_f16`, which reads f16 and writes f32.
pub fn prepare_f16(text: &str, block_m: usize, heads: usize, s: usize) -> Prepared {
    let module = load(text);
    let mut random = Random(7 + s as u64);
    let mut memory = Memory::default();
    let n = heads * s * 64;
    let (mut arrays, mut args) = (Vec::new(), Vec::new());
    for name in ["q", "k", "v"] {
        let halves: Vec<half::f16> = random
            .normals(n)
            .into_iter()
            .map(half::f16::from_f32)
            .collect();
        let bytes: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
        args.push(Arg::Ptr(put(&mut memory, name, &bytes)));
        arrays.push(halves.iter().map(|h| h.to_f64()).collect());
    }
    let out = memory.alloc("out", 4 * n as u64).unwrap();
    args.extend([Arg::Ptr(out), Arg::I32(heads as i32), Arg::I32(s as i32)]);
    Prepared {
        params: params(module.kernel("sdpa_f16").unwrap(), &args),
        module,
        memory,
        grid: [s.div_ceil(block_m) as u32, heads as u32, 1],
        shared: (block_m * 420 + 18432) as u32,
        out,
        arrays,
        heads,
        s,
    }
}

pub fn run_f16(
    text: &str,
    block_m: usize,
    heads: usize,
    s: usize,
    causal: bool,
    limits: Limits,
) -> Attention {
    let four = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    prepare_f16(text, block_m, heads, s).compare(limits, causal, 4, four)
}

/// Prepares a launch of `sdpa_fp8`, which reads codes and writes f16. Codec 0 is e4m3 with a scale per head, and 1 is
/// u8 with an offset.
pub fn prepare_fp8(text: &str, codec: u32, heads: usize, s: usize) -> Prepared {
    let module = load(text);
    let mut random = Random(11 + s as u64);
    let mut memory = Memory::default();
    let n = heads * s * 64;
    let (mut arrays, mut codes, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for name in ["q", "k", "v"] {
        let x = random.normals(n);
        let (mut all, mut values, mut scale_of) = (Vec::new(), Vec::new(), Vec::new());
        for head in x.chunks(s * 64) {
            let amax = head.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
            let scale = amax / 448.0;
            scale_of.push(scale);
            for v in head {
                if codec == 0 {
                    let code = float8::F8E4M3::from_f32(v / scale);
                    all.push(code.to_bits());
                    values.push(f64::from(code.to_f32()) * f64::from(scale));
                } else {
                    let code = ((v / amax * 127.0).round() + 128.0).clamp(0.0, 255.0) as u8;
                    all.push(code);
                    values.push((f64::from(code) - 128.0) / 127.0 * 448.0 * f64::from(scale));
                }
            }
        }
        codes.push(Arg::Ptr(put(&mut memory, name, &all)));
        scales.push(Arg::Ptr(put(&mut memory, "scale", &bytes_of(&scale_of))));
        arrays.push(values);
    }
    let out = memory.alloc("out", 2 * n as u64).unwrap();
    let mut args = codes;
    args.extend(scales);
    args.extend([Arg::Ptr(out), Arg::I32(heads as i32), Arg::I32(s as i32)]);
    Prepared {
        params: params(module.kernel("sdpa_fp8").unwrap(), &args),
        module,
        memory,
        grid: [s.div_ceil(64) as u32, heads as u32, 1],
        shared: 0,
        out,
        arrays,
        heads,
        s,
    }
}

pub fn run_fp8(text: &str, codec: u32, heads: usize, s: usize, limits: Limits) -> Attention {
    let two = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f64();
    prepare_fp8(text, codec, heads, s).compare(limits, false, 2, two)
}

/// A product of two n by n matrices, ready to be launched.
pub fn prepare_gemm(n: usize) -> Prepared {
    let module = load(&fixture("gemm"));
    let mut random = Random(3);
    let mut memory = Memory::default();
    let mut args = Vec::new();
    for name in ["a", "b"] {
        let bytes = bytes_of(&random.normals(n * n));
        args.push(Arg::Ptr(put(&mut memory, name, &bytes)));
    }
    let out = memory.alloc("c", 4 * (n * n) as u64).unwrap();
    args.push(Arg::Ptr(out));
    args.extend([Arg::I32(n as i32); 3]);
    let tiles = n.div_ceil(64) as u32;
    Prepared {
        params: params(module.kernel("gemm").unwrap(), &args),
        module,
        memory,
        grid: [tiles, tiles, 1],
        shared: 0,
        out,
        arrays: Vec::new(),
        heads: 1,
        s: n,
    }
}

/// Launches like `ptxsim::launch` with the usual limits, and keeps the launch for a GPU ([`kept`]).
pub fn launch_kept(
    (text, kernel): (&str, &Kernel),
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    params: &[u8],
    memory: &mut Memory,
    buffers: &[(u64, usize)],
    wanted: Option<kept::Wanted>,
) -> Result<Report, Fault> {
    let launch = ptxsim::Launch {
        grid,
        block,
        cluster: None,
        cooperative: false,
        dynamic_shared,
    };
    let kept = kept::Kept {
        text,
        kernel,
        launch,
        params,
        buffers,
        limits: limits(),
    };
    kept.launch(memory, wanted)
}
