//! The kernels that are compared as wholes: micro-kernels, each with one kind of access, and those
//! of the repository. How they are compiled and what they are called with.

use crate::gpu::{Result, Shape};
use crate::job::{Arg, Job};
use crate::words::Random;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F16,
    F32,
    /// Bytes that are compared by counters only.
    Bytes,
}

enum Owned {
    In(Vec<u8>),
    Out(usize),
    I32(i32),
}

pub struct Case {
    pub name: String,
    /// The file of PTX, without `.ptx`.
    pub unit: String,
    pub entry: String,
    pub shape: Shape,
    pub out: Element,
    args: Vec<Owned>,
}

impl Case {
    /// `ints`: the 32-bit parameters' bytes, which outlive the job.
    pub fn job<'a>(&'a self, ints: &'a [Vec<u8>]) -> Job<'a> {
        let mut ints = ints.iter();
        Job {
            entry: &self.entry,
            shape: self.shape,
            args: self
                .args
                .iter()
                .map(|a| match a {
                    Owned::In(bytes) => Arg::In(bytes),
                    Owned::Out(bytes) => Arg::Out(*bytes),
                    Owned::I32(_) => Arg::Value(ints.next().map_or(&[], Vec::as_slice)),
                })
                .collect(),
        }
    }

    pub fn ints(&self) -> Vec<Vec<u8>> {
        self.args
            .iter()
            .filter_map(|a| match a {
                Owned::I32(i) => Some(i.to_le_bytes().to_vec()),
                _ => None,
            })
            .collect()
    }

    pub fn ptx(&self, directory: &Path) -> Result<String> {
        ptx(directory, &self.unit)
    }
}

/// Reads the PTX of a unit as `build` wrote it, packed or not.
fn ptx(directory: &Path, unit: &str) -> Result<String> {
    let plain = directory.join(format!("{unit}.ptx"));
    if plain.exists() {
        return Ok(std::fs::read_to_string(plain)?);
    }
    let packed = directory.join(format!("{unit}.ptx.gz"));
    let file = std::fs::File::open(&packed).map_err(|e| format!("{}: {e}", plain.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    Ok(text)
}

/// Names the files of a PTX by their paths below the repository's root or the toolchain's headers.
fn without_directories(ptx: &str, root: &str) -> String {
    let line = |line: &str| {
        let Some((before, path)) = line
            .trim_start()
            .strip_prefix(".file")
            .and_then(|rest| rest.split_once('"'))
        else {
            return format!("{line}\n");
        };
        let short = path
            .strip_prefix(root)
            .map(|path| path.trim_start_matches('/'))
            .or_else(|| path.rsplit_once("/include/").map(|(_, path)| path))
            .unwrap_or(path);
        format!("\t.file{before}\"{short}\n")
    };
    ptx.lines().map(line).collect()
}

/// A unit of compilation: name, source, definitions.
struct Unit(&'static str, &'static str, &'static [&'static str]);

const FP8: [&str; 3] = ["CODEC=0", "BLOCK_M=64", "NUM_WARPS=8"];
const F16: [&str; 2] = ["BLOCK_M=64", "NUM_WARPS=8"];

const UNITS: &[Unit] = &[
    Unit("micro", "dev/proof/kernels/micro.cu", &[]),
    Unit("reduce", "kernels/reduce.cu", &["THREADS=512"]),
    Unit("softmax", "kernels/softmax.cu", &["THREADS=256"]),
    Unit("gemm", "kernels/gemm.cu", &["TILE_K=16"]),
    Unit(
        "fp8_direct",
        "kernels/sdpa_fp8.cu",
        &[FP8[0], FP8[1], FP8[2]],
    ),
    Unit(
        "fp8_wide",
        "kernels/sdpa_fp8.cu",
        &[FP8[0], FP8[1], FP8[2], "USE_WIDE_LOADS=1"],
    ),
    Unit(
        "fp8_stage1",
        "kernels/sdpa_fp8.cu",
        &[FP8[0], FP8[1], FP8[2], "USE_CP_ASYNC=1"],
    ),
    Unit(
        "fp8_vec_pv",
        "kernels/sdpa_fp8.cu",
        &[FP8[0], FP8[1], FP8[2], "USE_CP_ASYNC=1", "USE_VEC_PV=1"],
    ),
    Unit(
        "fp8_stage2",
        "kernels/sdpa_fp8.cu",
        &[FP8[0], FP8[1], FP8[2], "USE_CP_ASYNC=1", "USE_WMMA_PV=1"],
    ),
    Unit(
        "u8_direct",
        "kernels/sdpa_fp8.cu",
        &["CODEC=1", FP8[1], FP8[2]],
    ),
    Unit(
        "u8_stage2",
        "kernels/sdpa_fp8.cu",
        &["CODEC=1", FP8[1], FP8[2], "USE_CP_ASYNC=1", "USE_WMMA_PV=1"],
    ),
    Unit(
        "f16_wmma",
        "kernels/sdpa_f16.cu",
        &[F16[0], F16[1], "SYNC_POLICY=2", "USE_WMMA=1", "CAUSAL=0"],
    ),
    Unit(
        "f16_wmma_sync5",
        "kernels/sdpa_f16.cu",
        &[F16[0], F16[1], "SYNC_POLICY=5", "USE_WMMA=1", "CAUSAL=0"],
    ),
    Unit(
        "f16_scalar",
        "kernels/sdpa_f16.cu",
        &[F16[0], F16[1], "SYNC_POLICY=2", "USE_WMMA=0", "CAUSAL=0"],
    ),
    Unit(
        "f16_scalar_sync5",
        "kernels/sdpa_f16.cu",
        &[F16[0], F16[1], "SYNC_POLICY=5", "USE_WMMA=0", "CAUSAL=0"],
    ),
    Unit(
        "f16_causal",
        "kernels/sdpa_f16.cu",
        &[F16[0], F16[1], "SYNC_POLICY=2", "USE_WMMA=1", "CAUSAL=1"],
    ),
];

/// Compiles every unit into `directory`, from the root of the repository.
pub fn build(nvcc: &Path, directory: &Path) -> Result<()> {
    use rayon::prelude::*;
    std::fs::create_dir_all(directory)?;
    UNITS
        .par_iter()
        .try_for_each(|Unit(name, source, defines)| {
            let to: PathBuf = directory.join(format!("{name}.ptx"));
            let run = Command::new(nvcc)
                .args([
                    "-ptx",
                    "-arch=compute_90",
                    "-O3",
                    "-std=c++17",
                    "-lineinfo",
                    "-Ikernels",
                ])
                .args(defines.iter().map(|d| format!("-D{d}")))
                .arg("-o")
                .args([to.as_os_str(), source.as_ref()])
                .output()?;
            if !run.status.success() {
                return Err(format!("{name}: {}", String::from_utf8_lossy(&run.stderr)).into());
            }
            let text = std::fs::read_to_string(&to)?;
            let root = std::env::current_dir()?;
            std::fs::write(&to, without_directories(&text, &root.to_string_lossy()))?;
            Ok(())
        })
}

fn floats(n: usize, random: &mut Random) -> Vec<u8> {
    (0..n).flat_map(|_| random.normal().to_le_bytes()).collect()
}

pub fn micro(directory: &Path) -> Result<Vec<Case>> {
    let text = ptx(directory, "micro")?;
    let name = |line: &str| {
        Some(
            line.strip_prefix(".visible .entry ")?
                .split('(')
                .next()?
                .to_owned(),
        )
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    let mut random = Random::new(5);
    let floats = floats(1 << 20, &mut random);
    Ok(names
        .into_iter()
        .map(|name| Case {
            unit: "micro".into(),
            entry: name.clone(),
            name,
            shape: Shape {
                grid: [4, 1, 1],
                block: [256, 1, 1],
                dynamic_shared: 0,
                cluster: None,
            },
            out: Element::Bytes,
            args: vec![Owned::In(floats.clone()), Owned::Out(4 << 20)],
        })
        .collect())
}

pub fn repository() -> Vec<Case> {
    let mut cases = Vec::new();
    for (rows, columns) in [(64, 4096), (5, 1003), (1, 65536)] {
        let mut random = Random::new(1);
        for (unit, entry, threads, out) in [
            ("reduce", "_Z10reduce_sumPKfPfi", 512, rows),
            ("softmax", "_Z11row_softmaxPKfPfi", 256, rows * columns),
        ] {
            cases.push(Case {
                name: format!("{unit}@{rows}x{columns}"),
                unit: unit.into(),
                entry: entry.into(),
                shape: Shape {
                    grid: [rows as u32, 1, 1],
                    block: [threads, 1, 1],
                    dynamic_shared: 0,
                    cluster: None,
                },
                out: Element::F32,
                args: vec![
                    Owned::In(floats(rows * columns, &mut random)),
                    Owned::Out(4 * out),
                    Owned::I32(columns as i32),
                ],
            });
        }
    }
    for (m, n, k) in [(256_usize, 256_usize, 256), (77, 131, 1003)] {
        let mut random = Random::new(2);
        cases.push(Case {
            name: format!("gemm@{m}x{n}x{k}"),
            unit: "gemm".into(),
            entry: "gemm".into(),
            shape: Shape {
                grid: [n.div_ceil(64) as u32, m.div_ceil(64) as u32, 1],
                block: [256, 1, 1],
                dynamic_shared: 0,
                cluster: None,
            },
            out: Element::F32,
            args: vec![
                Owned::In(floats(m * k, &mut random)),
                Owned::In(floats(k * n, &mut random)),
                Owned::Out(4 * m * n),
                Owned::I32(m as i32),
                Owned::I32(n as i32),
                Owned::I32(k as i32),
            ],
        });
    }
    for (b, h, s) in [(1, 8, 128), (1, 3, 77), (1, 3, 1), (2, 8, 512)] {
        for Unit(unit, source, _) in UNITS {
            if source.ends_with("sdpa_fp8.cu") {
                cases.push(fp8(unit, b, h, s, 1.0));
                if matches!(*unit, "fp8_direct" | "fp8_stage2") && s == 128 {
                    cases.push(fp8(unit, b, h, s, 8.0));
                }
            } else if source.ends_with("sdpa_f16.cu") {
                cases.push(f16(unit, b, h, s));
            }
        }
    }
    cases
}

/// Codes of normal deviates, and a scale for each batch and head.
fn fp8(unit: &str, b: usize, h: usize, s: usize, deviation: f32) -> Case {
    let mut random = Random::new(3);
    let n = b * h * s * 64;
    let mut args = Vec::new();
    let mut scales = Vec::new();
    for _ in 0..3 {
        let values: Vec<f32> = (0..n).map(|_| random.normal()).collect();
        let amax = values.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        args.push(Owned::In(
            values
                .iter()
                .map(|x| {
                    if unit.starts_with("u8") {
                        ((x / amax * 127.0).round() + 128.0) as u8
                    } else {
                        float8::F8E4M3::from_f32(x / amax * 448.0).to_bits()
                    }
                })
                .collect(),
        ));
        let scale = (amax / 448.0 * deviation).to_le_bytes();
        scales.push(Owned::In(scale.repeat(b * h)));
    }
    args.extend(scales);
    args.extend([
        Owned::Out(2 * n),
        Owned::I32(h as i32),
        Owned::I32(s as i32),
    ]);
    Case {
        name: format!(
            "{unit}{}@{b}x{h}x{s}",
            if deviation == 1.0 { "" } else { "_x8" }
        ),
        unit: unit.into(),
        entry: "sdpa_fp8".into(),
        shape: Shape {
            grid: [s.div_ceil(64) as u32, h as u32, b as u32],
            block: [256, 1, 1],
            dynamic_shared: 0,
            cluster: None,
        },
        out: Element::F16,
        args,
    }
}

fn f16(unit: &str, b: usize, h: usize, s: usize) -> Case {
    let mut random = Random::new(4);
    let n = b * h * s * 64;
    let mut args: Vec<Owned> = (0..3)
        .map(|_| {
            Owned::In(
                (0..n)
                    .flat_map(|_| half::f16::from_f32(random.normal()).to_le_bytes())
                    .collect(),
            )
        })
        .collect();
    args.extend([
        Owned::Out(4 * n),
        Owned::I32(h as i32),
        Owned::I32(s as i32),
    ]);
    Case {
        name: format!("{unit}@{b}x{h}x{s}"),
        unit: unit.into(),
        entry: "sdpa_f16".into(),
        shape: Shape {
            grid: [s.div_ceil(64) as u32, h as u32, b as u32],
            block: [256, 1, 1],
            dynamic_shared: 64 * 420 + 18432,
            cluster: None,
        },
        out: Element::F32,
        args,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_this_machine_is_left() {
        let ptx = "ret;\n\t.file\t1 \"/a/b/kernels/k.cu\"\n\t.file\t2 \"/c/bin/../include/crt/mma.hpp\"\n";
        assert_eq!(
            without_directories(ptx, "/a/b"),
            "ret;\n\t.file\t1 \"kernels/k.cu\"\n\t.file\t2 \"crt/mma.hpp\"\n"
        );
    }
}
